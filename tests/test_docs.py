"""The documents are true: their examples run, their links lead somewhere, generated parts fit."""

from __future__ import annotations

import doctest
import importlib
import importlib.util
import inspect
import io
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import lazyt
from lazyt.config import config
from tests.children import python_path

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
BUILT = DOCS / "reference" / "api"  # written while the site is built
DOCUMENTS = [
    path
    for path in sorted([ROOT / "README.md", *DOCS.rglob("*.md"), *ROOT.glob("bench/**/*.md")])
    if not path.is_relative_to(BUILT)
]
TOUR = DOCS / "tour.md"


def from_docs(name: str) -> ModuleType:
    """A program of docs/, which is no package."""
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(name, module)
    spec.loader.exec_module(module)
    return module


examples = from_docs("page_examples")
PAGES = [path for path in DOCUMENTS if any(examples.blocks(path.read_text(encoding="utf-8")))]


#: What a page says that looks at kernels, and so needs a compiler.
KERNELS = re.compile(r"\.explain\(|lazyt\.tune\(|import nn, profiler|cuda:emu|group_graph\(")


def with_needs(path: Path) -> object:
    """A page as a parameter, marked where its examples need a compiler."""
    looks = KERNELS.search(path.read_text(encoding="utf-8"))
    marks = [pytest.mark.compiler] if looks else []
    return pytest.param(path, id=path.relative_to(ROOT).as_posix(), marks=marks)


@pytest.mark.lazy  # reasons name the lines of the page, not of what records values
@pytest.mark.parametrize("path", [*map(with_needs, PAGES)])
def test_examples_of_a_page_run(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(ROOT))
    # As its readers have it; examples of settings change nothing for other tests.
    with config.override(tier="auto", progress=config.progress):
        assert examples.check(path, str(path.relative_to(ROOT)))


@pytest.mark.compiler
@pytest.mark.parametrize("path", sorted((DOCS / "research").glob("*.py")), ids=lambda p: p.stem)
def test_programs_for_researchers_run(path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(path)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": python_path(ROOT), "LAZYT_TIER": "auto"},
        check=False,
    )
    assert done.returncode == 0 and done.stdout.strip(), done.stderr


def test_readme_and_first_steps_have_examples() -> None:
    assert ROOT / "README.md" in PAGES
    text = (DOCS / "how-to" / "first-steps.md").read_text(encoding="utf-8")
    assert len(list(examples.blocks(text))) >= 5


def test_examples_that_print_something_else_are_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    text = "```python\na = 2\nprint(a + {})\n```\n\n```output\n5\n```\n"
    page.write_text(text.format(3), encoding="utf-8")
    assert examples.check(page, "page.md") == 1
    page.write_text(text.format(4), encoding="utf-8")
    with pytest.raises(AssertionError, match="page says\n5\n\nit is\n6"):
        examples.check(page, "page.md")
    examples.rewrite(page)
    assert examples.check(page, "page.md") == 1


def test_notebook_cells_have_values() -> None:
    program = examples.Program("page.md")
    (cell,) = examples.blocks("```{code-cell}\nprint(1)\n2 + 3\n```\n")
    assert program.run(cell.code, cell.line, cell.cell) == ("1\n", 5)


def test_every_name_of_the_reference_has_a_subject() -> None:
    subjects, names = from_docs("reference_subjects"), from_docs("reference_pages").top_names()
    assert "exp" in names and subjects.subject_of("exp").file == "elementwise"
    missing = []
    for name in names:
        try:
            subjects.subject_of(name)
        except LookupError:
            missing.append(name)
    assert not missing, f"add these to a subject in docs/reference_subjects.py: {missing}"
    twice = [n for n in names if sum(subject.takes(n) for subject in subjects.SUBJECTS) > 1]
    assert not twice, f"more than one subject in docs/reference_subjects.py lists these: {twice}"
    bare = {name.rstrip("_") for name in names}
    vain = [
        word
        for subject in subjects.SUBJECTS
        for word in subject.words.split()
        if not any(re.fullmatch(word, name) for name in bare)
    ]
    assert not vain, f"no name of lazyt fits these words of docs/reference_subjects.py: {vain}"
    with pytest.raises(LookupError, match="nothing_of_this_name"):
        subjects.subject_of("nothing_of_this_name")


@pytest.mark.compiler
def test_reference_has_every_function_once() -> None:
    reference = from_docs("reference_pages")
    pages = reference.pages()
    own = "\n".join(pages[subject.file] for subject in reference.SUBJECTS)
    titles = re.findall(r"^## `(\w+)`", own, re.M)
    forms = {f"{name}_" for name in titles}
    public = {
        name for name in dir(lazyt)
        if name[0] != "_" and callable(getattr(lazyt, name))
        and str(getattr(getattr(lazyt, name), "__module__", "")).startswith("lazyt")
    }  # fmt: skip
    assert len(titles) == len({*titles}) and public <= {*titles, *forms}
    entry = pages["reducing"].partition("## `logsumexp`\n")[2].partition("\n## ")[0]
    for part in ("lazyt.logsumexp(input, dim", "gradient: yes", "PyTorch: `torch.logsumexp`",
                 "torch.logsumexp(x, 0)", "```output\ntensor(["):  # fmt: skip
        assert part in entry, entry
    written = from_docs("reference_examples")
    shown = "\n".join(pages.values())
    for code in written.EXAMPLES.values():
        assert code.strip() in shown, code
    listed = (DOCS / "reference" / "index.md").read_text(encoding="utf-8")
    assert {*re.findall(r"^api/([\w-]+)$", listed, re.M)} == pages.keys()


def documented() -> Iterator[tuple[str, str]]:
    """Names of the reference whose docstrings have examples, with the docstrings."""
    reference = from_docs("reference_pages")
    owners: dict[str, object] = {"lazyt": lazyt, "lazyt.Tensor": lazyt.Tensor}
    for place, *_ in reference.MODULES:
        owners[f"lazyt.{place}"] = importlib.import_module(f"lazyt.{place}")
    for path, owner in owners.items():
        for name in dir(owner):
            text = inspect.getdoc(getattr(owner, name)) or ""
            if name[0] != "_" and ">>> " in text:
                yield f"{path}.{name}", text


def test_examples_of_docstrings_run() -> None:
    found = dict(documented())
    assert "lazyt.wait_for_compiler" in found
    for name, text in found.items():
        test = doctest.DocTestParser().get_doctest(text, {"lazyt": lazyt}, name, None, 0)
        report = io.StringIO()
        with config.override(tier="auto"):
            doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test, out=report.write)
        assert not report.getvalue(), report.getvalue()


@pytest.mark.slow
@pytest.mark.compiler
@pytest.mark.deadline(120)
def test_site_builds(tmp_path: Path) -> None:
    pytest.importorskip("sphinx", reason="the extra `docs` is not installed")
    pytest.importorskip("furo")
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html"]
    done = subprocess.run(
        [*command, "-d", str(tmp_path / "trees"), str(DOCS), str(tmp_path / "site")],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": python_path(ROOT), "LAZYT_TIER": "auto"},
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert (tmp_path / "site" / "index.html").exists()


def test_links_lead_somewhere() -> None:
    wrong = []
    for path in DOCUMENTS:
        text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.M | re.S)
        for target in re.findall(r"\]\(([^)#]+)[^)]*\)", text):
            if not target.startswith("http") and not (path.parent / target).exists():
                wrong.append(f"{path.relative_to(ROOT)}: {target}")
    assert not wrong, wrong


def test_generated_parts_are_up_to_date() -> None:
    generate = from_docs("generate")
    stale = [
        str(path.relative_to(ROOT))
        for path, text in generate.outputs().items()
        if path.read_text(encoding="utf-8") != text
    ]
    assert not stale, f"run `make generate`: {stale} are out of date"


def test_pages_name_files_that_exist() -> None:
    told = [p for p in DOCUMENTS if "measurements" not in p.parts and p.is_relative_to(DOCS)]
    wrong = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in told
        for name in re.findall(
            r"`((?:lazyt|tests|bench|examples|docs)/[\w./-]*\w)`", path.read_text(encoding="utf-8")
        )
        if not (ROOT / name).exists() and not name.startswith("docs/reference/api")
    ]
    assert not wrong, wrong


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


def test_pictures_are_small() -> None:
    pictures = [p for kind in ("png", "svg") for p in DOCS.rglob(f"*.{kind}")]
    large = [p.name for p in pictures if p.stat().st_size > 100_000]
    assert pictures and not large, large


def test_commands_of_the_documents_exist() -> None:
    pages = [ROOT / "README.md", ROOT / "docs" / "how-to" / "looking-inside.md"]
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"^make (\w+)", text, re.M):
        assert re.search(rf"^{target}:", makefile, re.M), target
    commands = sorted(set(re.findall(r"python -m lazyt (\w+)", text)))
    research = ["capture", "diff", "replay", "report"]
    others = ["bench", "cache", "doctor", "opt", "record", "run", "show", "warm"]
    assert commands == sorted([*others, *research])
    for command in commands:
        done = subprocess.run(
            [sys.executable, "-m", "lazyt", command, "--help"],
            capture_output=True,
            text=True,
            timeout=60,
            cwd=ROOT,
        )
        assert done.returncode == 0, done.stderr
