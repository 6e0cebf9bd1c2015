"""The documents are true: their examples run, their links lead somewhere, generated parts fit."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = sorted([ROOT / "README.md", *ROOT.glob("docs/**/*.md"), *ROOT.glob("bench/**/*.md")])
TOUR = ROOT / "docs" / "tour.md"


def python_blocks() -> Iterator[tuple[str, str]]:
    """Every Python example, with where it is."""
    for path in DOCUMENTS:
        text = path.read_text(encoding="utf-8")
        for found in re.finditer(r"^```python\n(.*?)^```", text, re.M | re.S):
            line = text.count("\n", 0, found.start()) + 1
            yield f"{path.relative_to(ROOT)}:{line}", found.group(1)


BLOCKS = list(python_blocks())


@pytest.mark.parametrize(("place", "code"), BLOCKS, ids=[place for place, _ in BLOCKS])
def test_example_runs(place: str, code: str, capsys: pytest.CaptureFixture[str]) -> None:
    # As in a file of its own: without the __future__ imports of this one.
    exec(compile(code, place, "exec", dont_inherit=True), {"__name__": "example"})
    if "print(" in code:
        assert capsys.readouterr().out.strip()


def test_readme_and_first_steps_have_examples() -> None:
    assert any(place.startswith("README.md") for place, _ in BLOCKS)
    assert sum(place.startswith("docs/how-to/first-steps.md") for place, _ in BLOCKS) >= 5


def test_links_lead_somewhere() -> None:
    wrong = []
    for path in DOCUMENTS:
        for target in re.findall(r"\]\(([^)#]+)[^)]*\)", path.read_text(encoding="utf-8")):
            if not target.startswith("http") and not (path.parent / target).exists():
                wrong.append(f"{path.relative_to(ROOT)}: {target}")
    assert not wrong, wrong


def test_generated_parts_are_up_to_date() -> None:
    spec = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
    assert spec is not None and spec.loader is not None
    generate = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generate)
    stale = [
        str(path.relative_to(ROOT))
        for path, text in generate.outputs().items()
        if path.read_text(encoding="utf-8") != text
    ]
    assert not stale, f"run `make docs`: {stale} are out of date"


def test_tour_names_files_that_exist_and_every_room() -> None:
    text = TOUR.read_text(encoding="utf-8")
    assert len(text.splitlines()) < 400
    named = set(re.findall(r"`((?:lazyt|tests|bench|examples|docs)/[\w./]*)`", text))
    missing = [name for name in named if not (ROOT / name).exists()]
    assert not missing, missing
    # Built on the API:
    built = {"amp", "backends", "cpu", "cuda", "data", "func", "linalg", "optim", "utils"}
    found = {p.parent.name for p in ROOT.glob("lazyt/*/__init__.py")} - built
    rooms = {f"lazyt/{name}/" for name in found}
    assert rooms <= named, rooms - named


def test_commands_of_the_documents_exist() -> None:
    pages = [ROOT / "README.md", ROOT / "docs" / "how-to" / "looking-inside.md"]
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"^make (\w+)", text, re.M):
        assert re.search(rf"^{target}:", makefile, re.M), target
    commands = sorted(set(re.findall(r"python -m lazyt (\w+)", text)))
    assert commands == ["bench", "cache", "doctor", "opt", "run", "show", "warm"]
    for command in commands:
        done = subprocess.run(
            [sys.executable, "-m", "lazyt", command, "--help"],
            capture_output=True,
            text=True,
            timeout=60,
            cwd=ROOT,
        )
        assert done.returncode == 0, done.stderr
