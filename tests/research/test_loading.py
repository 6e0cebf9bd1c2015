"""``--load FILE.py``: what the file registers is in force, in processes that commands start, too;
what cannot be loaded is one line with its place, and nothing else is run."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lazyt import compiler, extensions
from lazyt.__main__ import main
from lazyt.config import config
from lazyt.errors import LazytError
from lazyt.runtime.cpu import compile
from tests.children import python_path

ROOT = Path(__file__).resolve().parents[2]
GRAPH = "graph(%0: float32[3]) -> (%1)\n%1 = map(%0) {mul($0, 2.0:float32)}\n"
PASS = """
from lazyt import compiler, ops


def halve(roots):
    return [ops.apply("mul", r, ops.constant(0.5, r.dtype)) for r in roots]


HANDLE = compiler.register_pass(compiler.Pass("halve", halve, "a test"), before="simplify")
"""
needs_compiler = pytest.mark.skipif(not compile.available(), reason="needs a C compiler")


@pytest.fixture(autouse=True)
def nothing_stays(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("LAZYT_LOAD", "")
    monkeypatch.setattr(config, "load", "")
    path = list(sys.path)
    yield
    for name in extensions.files():
        extensions._take_back(name)
    sys.path[:] = path
    assert not extensions.is_active()


@pytest.fixture
def graph(tmp_path: Path) -> str:
    path = tmp_path / "graph.ir"
    path.write_text(GRAPH)
    return str(path)


def test_opt_knows_the_passes_of_a_file(
    tmp_path: Path, graph: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "mine.py"
    file.write_text(PASS)
    assert main(["opt", "--list", "--load", str(file)]) == 0
    assert "halve             a test" in capsys.readouterr().out
    assert main(["opt", graph, "--passes", "halve", "--load", str(file)]) == 0
    assert "0.5:float32" in capsys.readouterr().out
    assert os.environ["LAZYT_LOAD"] == str(file)


def test_opt_prints_for_a_registered_target(graph: str, capsys: pytest.CaptureFixture[str]) -> None:
    file = ROOT / "docs" / "research" / "numpy_target.py"
    assert main(["opt", graph, "--emit", "numpy", "--load", str(file)]) == 0
    assert "put(y1, (i0 + 0, )" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1\nx +\n", "mine.py:2: SyntaxError: invalid syntax"),
        ("import lazyt\n\n1 / 0\n", "mine.py:3: ZeroDivisionError: division by zero"),
        ("import nowhere_at_all\n", "mine.py:1: ModuleNotFoundError: No module named 'nowhere_at"),
        ("import sys\nsys.exit(5)\n", "mine.py:2: it ended itself with exit code 5"),
        ("import beside\n", "beside.py:2: SyntaxError"),
        (
            "from lazyt import compiler\ncompiler.register_pass(\n    3)\n",
            "mine.py:2: TypeError: register_pass takes a compiler.Pass, not a int",
        ),
        (
            "from lazyt import compiler\nname = 'exp'\n"
            "compiler.define_scalar(name, evaluate=lambda x: x, c='x', reason='none')\n",
            "mine.py:3: ArgumentError: there is a scalar function called 'exp' already",
        ),
    ],
)
@pytest.mark.parametrize("command", ["opt", "run", "show", "bench"])
def test_a_file_that_cannot_be_loaded(
    command: str, text: str, message: str, tmp_path: Path, graph: str,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    (tmp_path / "mine.py").write_text(text)
    (tmp_path / "beside.py").write_text("x = 1\nx +\n")
    sys.modules.pop("beside", None)
    script = tmp_path / "script.py"
    script.write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    load = ["--load", str(tmp_path / "mine.py")]
    rest = {"opt": [graph], "show": [graph], "bench": ["--list"], "run": [str(script)]}[command]
    assert main([command, *load, *rest]) == 2
    got = capsys.readouterr()
    assert got.out == "" and not (tmp_path / "ran").exists()
    assert got.err.startswith(f"lazyt {command}: error: cannot load {load[1]}: ")
    assert message in got.err and got.err.count("\n") == 1
    assert not extensions.files() and os.environ["LAZYT_LOAD"] == ""


@pytest.mark.parametrize("wrong", ["nowhere.py", "."])
def test_a_file_that_cannot_be_read(wrong: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["opt", "--list", "--load", wrong]) == 2
    assert f"lazyt opt: error: cannot load {wrong}: " in capsys.readouterr().err


def test_nothing_is_loaded_for_a_wrong_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "mine.py"
    file.write_text("print('loaded')\n")
    assert main(["opt", "--load", str(file), "--dance"]) == 2
    assert capsys.readouterr().out == "" and not extensions.files()


def test_a_file_is_loaded_once_and_again_when_it_changes(tmp_path: Path) -> None:
    file = tmp_path / "queue.py"  # Python has a module of that name
    file.write_text(PASS)
    first = compiler.load(str(file))
    assert first.__name__ == "loaded_queue" and compiler.load(str(file)) is first
    file.write_text(PASS.replace("halve", "third"))
    second = compiler.load(str(file))
    names = [step.name for step in compiler.PASSES]
    assert second is not first and "third" in names and "halve" not in names
    file.write_text(PASS + "1 / 0\n")
    with pytest.raises(LazytError, match="ZeroDivisionError"):
        compiler.load(str(file))
    assert not extensions.is_active()


def environment(tmp_path: Path, **more: str) -> dict[str, str]:
    usual = {
        "PYTHONPATH": python_path(ROOT),
        "LAZYT_CACHE_DIR": str(tmp_path / "cache"),
        "LAZYT_LOAD": "",
    }
    return {**os.environ, **usual, **more}


@needs_compiler
def test_programs_run_with_a_file(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(PASS)
    program = tmp_path / "program.py"
    program.write_text("import torch\nprint((torch.arange(4.0) * 3).tolist())\n")
    for arguments in (["run"], ["tune", "run", "--seconds", "1"]):
        text = program.read_text()
        program.write_text(text.replace("torch", "lazyt") if arguments[0] == "tune" else text)
        done = subprocess.run(
            [sys.executable, "-m", "lazyt", *arguments, "--load", "mine.py", "program.py"],
            cwd=tmp_path, env=environment(tmp_path), capture_output=True, text=True,
        )  # fmt: skip
        assert done.stdout == "[0.0, 1.5, 3.0, 4.5]\n", done.stderr


@needs_compiler
def test_the_compile_server_loads_the_same_files(tmp_path: Path) -> None:
    example = (ROOT / "docs" / "research" / "scaled_product.py").read_text()
    cut = example.index("SCALING = "), example.index("# ------", example.index("SCALING = "))
    (tmp_path / "mine.py").write_text(example[: cut[0]] + example[cut[1] :].split("if __name__")[0])
    program = """
import lazyt
from lazyt import compiler
from lazyt.plan import tiers
mine = compiler.load("mine.py")
def step(x):
    return mine.triple(mine.soft_step(x)).sum()
for size in (1000, 2000):  # the second has kernels for any size, and then some of its own
    x = lazyt.linspace(-1, 1, size).realize()
    first = step(x).item()
    for _ in range(200):
        assert step(x).item() == first
assert lazyt.wait_for_compiler(120)
found = [e for e in lazyt.why_compiled() if "background" in str(e.details.get("tier"))]
assert step(x).item() == first
print(len(found), tiers._queue.server.pid > 0, len(mine.__file__) > 0)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True,
        env=environment(tmp_path, LAZYT_TIER="auto"),
    )  # fmt: skip
    assert done.stdout == "1 True True\n", done.stdout + done.stderr


@needs_compiler
def test_benchmarks_time_problems_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from lazyt.bench.problems import problem\n"
        "problem('kernels', 'mine_twice', {'': {'n': 100}}, 'n', lambda f, x: x * 2)\n"
    )
    words = ["bench", "--only", "mine_twice", "--peers", "", "--quick", "--rounds", "1"]
    done = subprocess.run(
        [sys.executable, "-m", "lazyt", *words, "--load", "mine.py"],
        cwd=tmp_path, env=environment(tmp_path), capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0 and "mine_twice" in done.stdout, done.stdout + done.stderr
