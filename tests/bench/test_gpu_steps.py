"""The checks for a GPU machine (``bench/gpu``) fit the modules they use: a refactoring that would
break a step there fails here, where there is no GPU."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import lazyt
from tests.children import python_path

ROOT = Path(__file__).resolve().parents[2]
GPU = ROOT / "bench" / "gpu"
SCRIPT = (GPU / "on_device.sh").read_text(encoding="utf-8")
FILES = sorted([*GPU.glob("*.py"), *GPU.glob("steps/*.py")])
STEPS = [path.stem for path in GPU.glob("steps/*.py") if path.stem != "report"]


def programs(path: Path) -> Iterator[ast.Module]:
    """The file, and the programs in its texts, which it gives to other processes."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    yield tree
    joined = [node for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)]
    parts_of_texts = {id(part) for node in joined for part in ast.walk(node) if part is not node}
    for node in ast.walk(tree):
        if id(node) in parts_of_texts:
            continue
        if isinstance(node, ast.JoinedStr):
            parts = [v.value if isinstance(v, ast.Constant) else "0" for v in node.values]
            text = "".join(str(part) for part in parts)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = node.value
        else:
            continue
        if re.search(r"^import lazyt|^import .*lazyt as", text, re.M):
            yield ast.parse(text)


def module_at(name: str) -> ModuleType | None:
    """A module of this repository, None for others."""
    ours = name.partition(".")[0] in ("lazyt", "tests", "bench")
    return importlib.import_module(name) if ours else None


def bound(tree: ast.Module) -> tuple[dict[str, Any], list[str]]:
    """What imports of our own modules bind, and what they ask for that is not there."""
    names: dict[str, Any] = {"t": lazyt}  # which framework, is an argument
    missing = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                found = module_at(alias.name)
                if found is not None:
                    names[alias.asname or alias.name] = found
        elif isinstance(node, ast.ImportFrom) and node.module:
            place = module_at(node.module)
            for alias in node.names if place is not None else ():
                inner = f"{node.module}.{alias.name}"
                value = getattr(place, alias.name, None)
                if value is None and hasattr(place, "__path__") and importlib.util.find_spec(inner):
                    value = importlib.import_module(inner)
                if value is None:
                    missing.append(f"{node.module}.{alias.name}")
                names[alias.asname or alias.name] = value
    return names, missing


def chain_of(node: ast.Attribute) -> list[str]:
    """``a.b.c`` as names; empty where something else than a name is at its beginning."""
    names: list[str] = []
    item: ast.expr = node
    while isinstance(item, ast.Attribute):
        names.append(item.attr)
        item = item.value
    return [*reversed([*names, item.id])] if isinstance(item, ast.Name) else []


def absent(tree: ast.Module) -> list[str]:
    """Names of our modules and classes that a program uses and that are not there."""
    names, missing = bound(tree)
    for node in ast.walk(tree):
        first, *rest = (chain_of(node) if isinstance(node, ast.Attribute) else []) or [""]
        if first == "self" and rest[:1] == ["t"]:
            first, rest = "t", rest[1:]
        value = names.get(first)
        for number, name in enumerate(rest):
            if not isinstance(value, (ModuleType, type)):
                break
            tensor = value is lazyt and first == "t" and hasattr(lazyt.Tensor, name)
            if not hasattr(value, name) and not tensor:
                missing.append(".".join([first, *rest[: number + 1]]))
            value = getattr(value, name, None)
    return missing


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_names_that_steps_use_exist(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT))
    for tree in programs(path):
        assert not absent(tree)


def test_missing_names_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT))
    text = "import lazyt as lt\nfrom lazyt.runtime.cuda.device import device_at, gone\n"
    text += "lt.nn.functional.relu(lt.no_such_name)\nt.cuda.no_such\nlt.Tensor.no_method\n"
    wanted = {"lazyt.runtime.cuda.device.gone", "lt.no_such_name", "t.cuda.no_such"}
    assert {*absent(ast.parse(text))} == wanted | {"lt.Tensor.no_method"}
    assert len(list(programs(GPU / "steps" / "stress.py"))) >= 4


def test_the_script_and_the_page_name_steps_that_exist() -> None:
    assert {*re.findall(r"^ +(?:\w+\) )?module \S+ \d+ (\w+)", SCRIPT, re.M)} == {*STEPS}
    known = {*re.findall(r"^        (\w+)\)", SCRIPT, re.M)}
    for line in re.findall(r"STEPS\+=\(([a-z0-9_ ]+)\)", SCRIPT):
        assert {*line.split()} <= known
    page = (GPU / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| \d+ \| ([^|]+) \| [\d, a-z]+ \|", page, re.M)
    named = {name.partition(".")[0] for row in rows for name in row.strip().split(", ")}
    assert named and named <= known, named - known
    for name in re.findall(r"`((?:lazyt|tests|bench)/[\w./]+)`", page):
        assert (ROOT / name).exists(), name
    for name in {*re.findall(r"\b(\w+\.cuh)\b", page)} | {"prelude.cuh", "mma.cuh", "wgmma.cuh"}:
        assert (GPU / "kernels" / name).exists(), name


@pytest.mark.slow
@pytest.mark.parametrize("step", ["smoke", "times --only softmax_1024,wgrad", "gpt2"])
def test_steps_run_on_the_emulator(step: str, tmp_path: Path) -> None:
    settings = {"PYTHONPATH": python_path(ROOT), "GPU_OUT": str(tmp_path), "GPU_SMALL": "1"}
    done = subprocess.run(
        [sys.executable, "-m", *f"bench.gpu.steps.{step}".split()],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, **settings, "LAZYT_EMULATE_CUDA": "1"},
    )
    assert done.returncode == 0 and "SUMMARY" in done.stdout, done.stdout + done.stderr
    assert list(tmp_path.glob("*.json"))


def test_the_scripts_are_shell() -> None:
    for path in GPU.glob("*.sh"):
        assert not subprocess.run(["bash", "-n", str(path)], capture_output=True).returncode, path
