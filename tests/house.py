"""How the package is laid out, in numbers: ``make house``, or ``python -m tests.house``.

What the house tests (``test_house.py``) hold it to is measured here: modules, lines, folders,
imports in circles, classes that a second file completes, and how many modules one call visits.
"""

from __future__ import annotations

import ast
import functools
import os
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import networkx as nx

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "lazyt"

#: Packages that mirror one of PyTorch's have the modules that programs import from there.
MIRRORS = frozenset(
    {
        "amp", "array_api", "autograd", "backends", "cuda", "distributions", "nn", "nn/utils",
        "optim", "utils", "utils/data",
    }
)  # fmt: skip


class Layout(NamedTuple):
    """The figures, and what is behind each.

    Attributes:
        modules: how many modules there are.
        lines: how many lines they have together.
        folders: modules of each folder, by its path below the package.
        circles: modules that import each other, imports inside of functions included, the largest
            circle first.
        completed: classes that are no user's, with one subclass, in another file.
    """

    modules: int
    lines: int
    folders: dict[str, int]
    circles: list[list[str]]
    completed: list[str]


@functools.cache
def sources() -> dict[str, Path]:
    """The package's files by the names of their modules."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@functools.cache
def parsed(path: Path) -> ast.Module:
    """The tree of a file, parsed once."""
    return ast.parse(path.read_text(encoding="utf-8"))


def running_statements(tree: ast.AST) -> Iterator[ast.AST]:
    """All nodes of a tree but those that only type checkers read."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            for other in node.orelse:
                yield other
                yield from running_statements(other)
            continue
        yield node
        yield from running_statements(node)


def imported_modules(module: str) -> set[str]:
    """The package's modules that a module imports, somewhere, when it runs."""
    known, found = sources(), set()
    for node in running_statements(parsed(known[module])):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if alias.name in known}
        elif isinstance(node, ast.ImportFrom) and node.module in known:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                found.add(inner if inner in known else str(node.module))
    return found - {module}


@functools.cache
def import_graph() -> nx.DiGraph[str]:
    """Which module imports which."""
    graph: nx.DiGraph[str] = nx.DiGraph()
    for module in sources():
        graph.add_node(module)
        graph.add_edges_from((module, other) for other in imported_modules(module))
    return graph


def circles() -> list[list[str]]:
    """Modules that import each other, the largest circle first."""
    found = [sorted(c) for c in nx.strongly_connected_components(import_graph()) if len(c) > 1]
    return sorted(found, key=len, reverse=True)


def completed_classes() -> list[str]:
    """Classes with one subclass, which stands in another file: one class in two places."""
    defined: dict[str, set[Path]] = defaultdict(set)
    subclasses: dict[str, list[tuple[str, Path]]] = defaultdict(list)
    for path in sources().values():
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.ClassDef):
                defined[node.name].add(path)
                for base in node.bases:
                    name = ast.unparse(base).split("[")[0].split(".")[-1]
                    subclasses[name].append((node.name, path))
    return sorted(
        f"{name} ({_place(next(iter(defined[name])))}) by {child} ({_place(path)})"
        for name, made in subclasses.items()
        if len(made) == 1
        for child, path in made
        if len(defined[name]) == 1 and path not in defined[name] and not _is_public(name)
    )


def _is_public(name: str) -> bool:
    """Whether users see a class, and may make classes of it."""
    import lazyt

    rooms = (lazyt, lazyt.nn, lazyt.optim, lazyt.autograd, lazyt.errors, lazyt.distributions)
    return any(isinstance(getattr(room, name, None), type) for room in rooms)


def _place(path: Path) -> str:
    return str(path.relative_to(PACKAGE))


def layout() -> Layout:
    """The figures of the package as it is."""
    files = sources().values()
    folders = Counter(str(path.parent.relative_to(PACKAGE)) for path in files)
    lines = sum(len(path.read_text(encoding="utf-8").splitlines()) for path in files)
    return Layout(len(files), lines, dict(folders), circles(), completed_classes())


def visited(call: Callable[[], Any]) -> set[str]:
    """The package's files whose code runs during a call, imports left out."""
    files: set[str] = set()
    prefix = str(PACKAGE) + os.sep

    def note(frame: Any, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(prefix) and code.co_name != "<module>":
            files.add(code.co_filename[len(prefix) :])

    outer = sys.getprofile()
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(outer)
    return files


def visits() -> dict[str, set[str]]:
    """Which files ``(x + 1).realize()`` visits, the first time and later, and a captured call."""
    import lazyt

    x = lazyt.ones(3).realize()

    def look() -> None:
        (x + 1).realize()

    found = {"cold": visited(look)}
    for _ in range(20):
        look()
    found["warm"] = visited(look)
    with lazyt.config.override(tier=1):  # while a plan may get other kernels there is no fast path
        captured = lazyt.jit(lambda value: value * 2 + 1)
        for _ in range(20):
            captured(x).realize()
        found["captured"] = visited(lambda: captured(x))
    return found


def main() -> None:
    """Prints the figures."""
    found = layout()
    print(f"modules            {found.modules:6}   (at most 430)")
    print(f"lines              {found.lines:6}   (at most 100,000)")
    full = {name: n for name, n in found.folders.items() if n > 16}
    for name, count in sorted(full.items(), key=lambda pair: -pair[1]):
        mirror = "   mirrors one of PyTorch's" if name in MIRRORS else ""
        print(f"folder             {count:6}   lazyt/{name}{mirror}")
    print(f"circles            {len(found.circles):6}   of modules that import each other")
    for circle in found.circles:
        print(f"    {len(circle)}: {' '.join(name.removeprefix('lazyt.') for name in circle)}")
    print(f"completed classes  {len(found.completed):6}   by a single subclass in another file")
    for line in found.completed:
        print(f"    {line}")
    for name, files in visits().items():
        print(f"visited, {name:9} {len(files):6}   {' '.join(sorted(files))}")


if __name__ == "__main__":
    main()
