"""``make quick``: a change's own check, in less than two minutes.

Files that git says have changed, since the branch left main and in the working tree, are linted.
Then their tests run, the nearest first: those that changed, those of the same name as a changed
module, those that import one, those that import what imports one, and the rules of the house. No
test begins after the budget, and the first failure ends the run; ``make check`` and ``make test``
do the rest.
"""

from __future__ import annotations

import argparse
import ast
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
#: Imported by so much that who imports them says nothing.
_EVERYWHERE = {"lazyt", "lazyt.handle.tensor", "lazyt.config", "lazyt.errors", "lazyt.ops"}
_MOST_FILES = 40


def changed_files(since: str | None) -> list[str]:
    """Python files that differ from where the branch left ``since``, or from the last commit."""
    for base in [since] if since else ["origin/main", "main"]:
        found = _git("merge-base", "HEAD", base)
        if found and found != [_git("rev-parse", "HEAD")[0]]:
            break
    else:
        found = ["HEAD~1"] if not since and not _git("status", "--porcelain") else ["HEAD"]
    names = _git("diff", "--name-only", "--diff-filter=d", found[0])
    names += _git("ls-files", "--others", "--exclude-standard")
    return sorted({name for name in names if name.endswith(".py")})


def related_tests(changed: Iterable[str], root: Path = ROOT) -> list[str]:
    """Test files for changed ones, the nearest first."""
    changed = set(changed)
    modules = {_module(name) for name in changed}
    files = {
        p.relative_to(root).as_posix(): p for top in ("lazyt", "tests") for p in _in(root, top)
    }
    imports = {name: set(_imports(path, name)) for name, path in files.items()}
    near = modules - _EVERYWHERE
    behind = {_module(name) for name in imports if imports[name] & near} - _EVERYWHERE
    stems = {Path(name).stem for name in changed if name.startswith("lazyt/")}
    ranked: list[tuple[int, str]] = []
    for name in imports:
        path = Path(name)
        if not path.name.startswith("test_"):
            continue
        if name in changed:
            ranked.append((0, name))
        elif path.stem.removeprefix("test_") in stems:
            ranked.append((1, name))
        elif imports[name] & near:
            ranked.append((2, name))
        elif imports[name] & behind:
            ranked.append((3, name))
    return [name for _, name in sorted(ranked)]


def main(arguments: list[str]) -> int:
    """Lints and tests what has changed; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.quick", description=__doc__)
    parser.add_argument("--since", help="the branch or commit to compare with (main)")
    parser.add_argument("--seconds", type=float, default=100.0, help="when the last test may begin")
    parser.add_argument("--workers", default="2", help="processes (2)")
    given = parser.parse_args(arguments)
    begun = time.monotonic()
    changed = changed_files(given.since)
    if not changed:
        print("nothing has changed")
        return 0
    print(f"{len(changed)} changed files: {', '.join(changed[:8])}{' ...' * (len(changed) > 8)}")
    for command in (["check"], ["format", "--check"]):
        done = subprocess.run([sys.executable, "-m", "ruff", *command, *changed], cwd=ROOT)
        if done.returncode:
            return done.returncode
    house = "tests/test_house.py"
    tests = [name for name in related_tests(changed) if name != house]
    left_out = tests[_MOST_FILES:]
    if left_out:
        print(f"{len(left_out)} test files are further away and left out: make test runs them")
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-n", given.workers, "--dist", "load"]
    own = [name for name in tests if name in changed]
    others = [name for name in tests[:_MOST_FILES] if name not in changed]
    status = 0
    if own:  # whatever they take: nobody wants to hear that a change's own tests were left out
        status = subprocess.run([*command, *own], cwd=ROOT).returncode
    if status in (0, 5):  # 5: there is no test in them
        budget = max(1.0, given.seconds - (time.monotonic() - begun))
        limits = ["-m", "not slow", f"--budget={budget:.0f}"]
        status = subprocess.run([*command, *limits, *others, house], cwd=ROOT).returncode
    print(f"{time.monotonic() - begun:.0f} s; tests that were skipped for the budget did not run")
    return status


def _git(*arguments: str) -> list[str]:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True)
    return done.stdout.splitlines() if done.returncode == 0 else []


def _in(root: Path, top: str) -> Iterator[Path]:
    return (path for path in (root / top).rglob("*.py") if "golden" not in path.parts)


def _module(name: str) -> str:
    return name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _imports(path: Path, name: str) -> Iterator[str]:
    """Modules that a file names in imports; names imported from a package may be modules, too."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
