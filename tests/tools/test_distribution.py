"""What is built from pyproject.toml, and that no text tells people to install anything else."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

import lazyt
from lazyt.runtime.cuda import nvrtc
from tests.children import python_path

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]


def package_name(requirement: str) -> str:
    """The name in ``numpy>=1.26`` or ``lazyt-compiler[cuda]``, as package indexes spell it."""
    found = re.match(r"[A-Za-z0-9._-]+", requirement)
    return re.sub(r"[-_.]+", "-", found.group()).lower() if found else ""


#: Others that programs may use: what writes event files, and an example of a package.
BESIDE = {"tensorboard", "timm"}
#: What the project requires, the project, and these.
KNOWN = (
    {PROJECT["name"]}
    | BESIDE
    | {
        package_name(one)
        for requirements in (PROJECT["dependencies"], *EXTRAS.values())
        for one in requirements
    }
)


def installed_by(text: str) -> list[str]:
    """What a text tells people to install by pip, requirement by requirement."""
    found = []
    for after in text.split("pip install ")[1:]:
        for word in re.split(r"[\n`\"#;)]", after, maxsplit=1)[0].split():
            if word.startswith("-"):
                continue
            word = word.strip("'")
            found.append(word if word == "." else word.rstrip(",.:"))
            if word.endswith((",", ":", ".")) and word != ".":
                break  # the sentence goes on
    return found


def unknown_installs(text: str) -> list[str]:
    """Of these what is neither this project nor a package that it requires."""
    wrong = []
    for requirement in installed_by(text):
        name, _, extras = requirement.partition("[")
        known = name in (".", *KNOWN)
        own = name in (".", PROJECT["name"])
        if not known or (own and not {*extras.rstrip("]").split(",")} <= {"", *EXTRAS}):
            wrong.append(requirement)
    return wrong


def test_texts_name_what_exists() -> None:
    kinds = (".py", ".md", ".toml", ".sh", ".html", ".txt")
    folders = ("lazyt", "docs", "examples", "bench", "tests")
    texts = [p for name in folders for p in (ROOT / name).rglob("*") if p.suffix in kinds]
    texts += [ROOT / "README.md", ROOT / "Makefile"]
    wrong, some = [], 0
    for path in texts:
        if path == Path(__file__):
            continue
        text = path.read_text(encoding="utf-8")
        some += len(installed_by(text))
        wrong += [f"{path.relative_to(ROOT)}: {what}" for what in unknown_installs(text)]
    assert not wrong and some > 8, (wrong, some)


def test_names_are_told_apart() -> None:
    assert unknown_installs("`pip install 'lazyt[cuda]'` brings the bindings") == ["lazyt[cuda]"]
    assert unknown_installs("with rich (``pip install rich``); pip install '.[dev,cuda]'\n") == []
    assert unknown_installs("pip install '.[gpu]'") == [".[gpu]"]
    assert unknown_installs("pip install rich, or pip install tqdm.") == ["tqdm"]
    assert installed_by(f"needs it: {nvrtc.INSTALL}, for GPUs") == [
        "cuda-python",
        "nvidia-cuda-nvrtc",
    ]


def test_metadata_is_complete() -> None:
    assert PROJECT["name"] == "lazyt-compiler"
    for field in (
        "description",
        "readme",
        "requires-python",
        "license",
        "license-files",
        "authors",
    ):
        assert PROJECT[field], field
    assert len(PROJECT["description"]) < 100 and PROJECT["keywords"] and PROJECT["classifiers"]
    holder = re.search(r"Copyright \(c\) \d+ (.+)", (ROOT / "LICENSE").read_text(encoding="utf-8"))
    assert holder is not None and PROJECT["authors"] == [{"name": holder.group(1)}]
    oldest = tuple(map(int, PROJECT["requires-python"].removeprefix(">=").split(".")))
    named = [c.rpartition(" ")[2] for c in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", c)]
    assert min(tuple(map(int, n.split("."))) for n in named) == oldest
    assert "version" in PROJECT["dynamic"] and re.fullmatch(r"\d+\.\d+\.\d+\w*", lazyt.__version__)


BUILD = """
import sys
from setuptools import build_meta
out = sys.argv[1]  # setuptools writes its own arguments there
made = build_meta.build_sdist(out), build_meta.build_wheel(out)
print(*made)
"""
USE = """
import importlib.metadata
import lazyt
assert importlib.metadata.version("lazyt-compiler") == lazyt.version.__version__
print(lazyt.__file__, (lazyt.arange(6.0).reshape(2, 3) @ lazyt.ones(3)).tolist())
"""


@pytest.mark.slow
def test_built_distributions_are_whole(tmp_path: Path) -> None:
    """The sdist holds what the repository does; a wheel made from it works outside of the tree."""
    setuptools = pytest.importorskip("setuptools")
    if int(setuptools.__version__.partition(".")[0]) < 77:
        pytest.skip(f"setuptools {setuptools.__version__} does not know this pyproject.toml")
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("not a checkout")
    tree, out, place = tmp_path / "tree", tmp_path / "out", tmp_path / "place"
    tracked = [name for name in listed.stdout.split("\n") if name and (ROOT / name).exists()]
    for name in tracked:
        if not name.startswith("bench/results/"):
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            (tree / name).write_bytes((ROOT / name).read_bytes())
    made = subprocess.run(
        [sys.executable, "-c", BUILD, str(out)], cwd=tree, capture_output=True, text=True
    )
    assert made.returncode == 0, made.stderr
    sdist, wheel = (out / name for name in made.stdout.split()[-2:])
    with tarfile.open(sdist) as archive:
        packed = {name.partition("/")[2] for name in archive.getnames()}
    missing = {n for n in tracked if not n.startswith(("bench/results/", "."))} - packed
    assert not missing, sorted(missing)[:9]
    assert wheel.name.endswith("-py3-none-any.whl")
    with zipfile.ZipFile(wheel) as archive:
        outside = {name.partition("/")[0] for name in archive.namelist()}
        assert len(outside) == 2 and "lazyt" in outside, outside
        data = {n for n in tracked if n.startswith("lazyt/")}
        assert data <= {*archive.namelist()}, data - {*archive.namelist()}
        archive.extractall(place)
    settings = {**os.environ, "PYTHONPATH": python_path(place), "LAZYT_INTERPRET": "1"}
    for command in (["-c", USE], ["-m", "lazyt", "doctor"]):
        done = subprocess.run(
            [sys.executable, *command], cwd=tmp_path, env=settings, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr
        if command[0] == "-c":
            assert done.stdout.strip() == f"{place}/lazyt/__init__.py [3.0, 12.0]"
