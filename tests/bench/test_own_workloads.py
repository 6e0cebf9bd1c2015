"""Workloads that a file declares: timed beside peers, checked, and refused with the line at
fault."""

from __future__ import annotations

import csv
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import lazyt
from lazyt import extensions
from lazyt.__main__ import main
from lazyt.bench import loading, workload
from lazyt.bench.names import NotOffered
from lazyt.bench.problems import PROBLEMS, Workload, declared
from lazyt.bench.results import read
from lazyt.compat import torch_alias
from lazyt.config import config
from lazyt.runtime.cpu import compile

Capture = pytest.CaptureFixture[str]

OWN = """
import torch
import torch.nn.functional as F

from lazyt.bench import workload


def smooth(x, w):
    return F.softmax((x * w).cumsum(-1), dim=-1)


def twice(x):
    import numpy as np

    return 2 * np.tanh(x)


def late(x):
    calls.append(x)
    return x + 0.5 * (len(calls) > 12)


def breaks(x):
    return x @ torch.ones(3, 3)


def pair(source, n):
    return [source.standard_normal((n, n)).astype("float32")]


calls = []
workload("smooth", "n d, d", torch=smooth, sizes={"a": {"n": 8, "d": 32}})
workload("doubled", pair, torch=lambda x: 2 * torch.tanh(x), numpy=twice, sizes={"": {"n": 9}},
         flops=lambda n: 5 * n * n, nbytes=1000)
workload("everywhere", "n", every=lambda t, x: t.relu(x), sizes={"": {"n": 9}})
workload("wrong", "n", torch=lambda x: x * 2, reference=lambda x: x * 2.1, sizes={"": {"n": 50}})
workload("late", "n", torch=late, reference=lambda x: x, sizes={"": {"n": 50}})
workload("breaks", "n", torch=breaks, reference=lambda x: x, sizes={"": {"n": 50}})
"""


@pytest.fixture(autouse=True)
def nothing_stays(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("LAZYT_LOAD", "")
    monkeypatch.setattr(config, "load", "")
    monkeypatch.setattr(loading, "_done", {})
    path = list(sys.path)
    yield
    for name in extensions.files():
        extensions._take_back(name)
    sys.path[:] = path
    assert not declared() and not torch_alias.installed()


@pytest.mark.skipif(not compile.available(), reason="needs a C compiler")
def test_a_file_is_timed_beside_a_peer_and_what_is_wrong_has_no_time(
    tmp_path: Path, capsys: Capture
) -> None:
    file, found, table = (tmp_path / name for name in ("mine.py", "r.json", "r.csv"))
    file.write_text(OWN, encoding="utf-8")
    words = ["--peers", "numpy", "--rounds", "4", "--samples", "2", "--threads", "1", "--quick"]
    command = ["bench", "--load", str(file), *words, "--json", str(found), "--csv", str(table)]
    assert main(command) == 1  # something is wrong
    run = read(found)
    assert {r.suite for r in run.results} == {"loaded"}
    results = run.found()
    for name in ("smooth@a", "doubled", "everywhere"):
        own = results[name, "lazyt"]
        assert own.median and not own.problem and own.error is not None and own.error < 2e-5
        assert own.operations and results[name, "lazy"].median
    assert results["everywhere", "numpy"].median and results["doubled", "numpy"].median
    assert (
        results["doubled", "numpy"].flops == 5 * 81 and results["doubled", "lazyt"].nbytes == 1000
    )
    assert results["smooth@a", "numpy"].absent == "a function for numpy, only for torch"
    line = OWN.splitlines().index("    return x @ torch.ones(3, 3)") + 1
    for framework in ("lazyt", "lazy"):
        assert results["wrong", framework].problem == "wrong result: error 0.048"
        assert not results["wrong", framework].rounds
        assert results["breaks", framework].problem.startswith(f"mine.py:{line}: ShapeError: ")
    # Right when it began, wrong afterwards: without jit, each call runs the function.
    assert results["late", "lazy"].problem.startswith("wrong result in a later call: error")
    assert run.seconds(results["late", "lazy"]) is None
    rows = list(csv.DictReader(table.read_text(encoding="utf-8").splitlines()))
    assert len(rows) == len(run.results)
    assert "late, lazy: wrong result in a later call" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("workload('softmax', 'n', torch=abs, sizes=S)", "a workload called softmax already"),
        (
            "workload('a', 'n', torch=abs, sizes=S); workload('a', 'n', torch=abs, sizes=S)",
            "a workload called a already, declared at ",
        ),
        ("workload('a b', 'n', torch=abs, sizes=S)", "'a b' is no name"),
        ("workload('a', 'n', jax=abs, sizes=S)", "a needs torch= or every=, which lazyt runs"),
        ("workload('a', 'n', torch=3, sizes=S)", "torch= is a function, not 3"),
        ("workload('a', 'n floot32', torch=abs, sizes=S)", "'floot32' in 'n floot32' is no size"),
        ("workload('a', 'labels n', torch=abs, sizes=S)", "labels need a limit"),
        ("workload('a', 7, torch=abs, sizes=S)", "inputs of a are words or a function, not 7"),
        ("workload('a', 'n', torch=abs, sizes=S, flops='x')", "flops= is a number or a function"),
        ("workload('a', 'n', torch=abs, sizes={'': 3})", "sizes are numbers of letters"),
        ("import no_such_module", "No module named 'no_such_module'"),
    ],
)
def test_what_is_declared_wrongly_names_its_line(
    tmp_path: Path, capsys: Capture, line: str, message: str
) -> None:
    from lazyt.bench import suites

    suites.load()
    file = tmp_path / "mine.py"
    file.write_text(f"from lazyt.bench import workload\nS = {{'': {{'n': 4}}}}\n{line}\n")
    assert main(["bench", "--load", str(file), "--list"]) == 2
    said = capsys.readouterr().err
    assert "mine.py:3: " in said and message in said
    assert said.count("\n") == 1


def test_a_file_is_loaded_anew_and_lists_its_own_workloads(tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "mine.py"
    text = "from lazyt.bench import workload\nworkload('m', 'n', torch=abs, sizes={'': {'n': 4}})\n"
    file.write_text(text)
    assert main(["bench", "--load", str(file), "--list"]) == 0
    assert capsys.readouterr().out.split() == ["m", "loaded", "n", "4"]
    file.write_text(text.replace("'m'", "'other'"))
    assert main(["bench", "--load", str(file), "--list"]) == 0
    assert capsys.readouterr().out.split()[0] == "other" and "m" not in PROBLEMS
    assert main(["bench", "--suite", "loaded", "--list", "--only", "other"]) == 0
    extensions._take_back(str(file.resolve()))
    assert main(["bench", "--suite", "loaded", "--list"]) == 2
    assert "no file that was loaded declares a workload" in capsys.readouterr().err.splitlines()[-1]


def test_the_example_of_the_page_is_loaded(tmp_path: Path, capsys: Capture) -> None:
    page = (Path(__file__).resolve().parents[2] / "bench" / "README.md").read_text(encoding="utf-8")
    text = page.split("```py\n", 1)[1].split("```", 1)[0]
    (tmp_path / "mine.py").write_text(text, encoding="utf-8")
    assert main(["bench", "--load", str(tmp_path / "mine.py"), "--list"]) == 0
    names = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert names == ["scores@small", "scores@large", "relu_once_for_all", "own_inputs"]


def test_inputs_are_arrays_of_a_seed() -> None:
    def inputs(source: np.random.Generator, n: int) -> Any:
        return [source.random((n, 2)).astype("float32"), np.arange(n)] if n < 9 else "nothing"

    sizes = {"few": {"n": 3}, "many": {"n": 9}}
    try:
        workload("of_a_seed", inputs, torch=lambda x, y: x, sizes=sizes)
        made = Workload(PROBLEMS["of_a_seed"], "few")
        assert made.dtypes() == ["float32", "int64"]
        assert np.array_equal(made.inputs(1)[0], made.inputs(1)[0])
        assert not np.array_equal(made.inputs(1)[0], made.inputs(2)[0])
        with pytest.raises(ValueError, match="inputs return str, not a list of arrays"):
            Workload(PROBLEMS["of_a_seed"], "many").inputs()
    finally:
        del PROBLEMS["of_a_seed"]


def test_peers_read_a_file_without_lazyt_or_torch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``torch`` can be imported there and has nothing; libraries that ask for it do not see it."""
    file = tmp_path / "mine.py"
    file.write_text("import torch.nn as nn\nM = nn.Module\n")
    monkeypatch.setenv("LAZYT_LOAD", str(file))
    assert loading.load_for_peer("lazyt") == ""
    trouble = loading.load_for_peer("numpy")
    assert "beside this framework: mine.py:2: NotOffered: torch.nn.Module" in trouble
    assert not any(name.partition(".")[0] == "torch" for name in sys.modules)
    file.write_text("import torch\ndef f(x):\n    return torch.relu(x)\n")
    monkeypatch.setattr(loading, "_done", {})
    assert loading.load_for_peer("numpy") == ""


def test_what_a_file_makes_with_lazyt_is_not_offered_to_peers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file itself is read: its other workloads do not need that."""
    file = tmp_path / "own_functions.py"
    file.write_text(
        "import lazyt\nfrom lazyt import compiler\n"
        "cube = lazyt.c_function('float f(float x) { return x * x * x; }')\n"
        "@lazyt.jit(fullgraph=True)\ndef f(x):\n    return x\n"
        "assert compiler.PASSES\n"
    )
    package = ModuleType("lazyt")
    package.__path__ = lazyt.__path__
    package.__dict__["__getattr__"] = loading.name_of_lazyt
    package.__dict__["compiler"] = importlib.import_module("lazyt.compiler")
    monkeypatch.setenv("LAZYT_LOAD", str(file))
    monkeypatch.setattr(loading, "_done", {})
    with monkeypatch.context() as peer:
        peer.setitem(sys.modules, "lazyt", package)
        assert loading.load_for_peer("numpy") == ""
        made = sys.modules.pop("own_functions")
    for name in ("cube", "f"):
        with pytest.raises(NotOffered, match=r"lazyt\.(c_function|jit)"):
            getattr(made, name)(1.0)
    with pytest.raises(AttributeError, match="no attribute 'compiler'"):
        loading.name_of_lazyt("compiler")  # a module: it is imported
