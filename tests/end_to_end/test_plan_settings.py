"""Settings and definitions that decide what a plan is: none of them is met under others. What does
not decide it, lines of programs, is the asking program's."""

from __future__ import annotations

import builtins
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import lazyt as lt
from lazyt.plan import planning
from lazyt.runtime.cpu import compile
from tests.children import python_path

pytestmark = [
    pytest.mark.lazy,
    pytest.mark.skipif(not compile.available(), reason="needs a C compiler"),
]


def step(x: Any) -> Any:
    """Has a short reduction."""
    return (x * 2).sum(1) + 1


def texts(folder: Path) -> list[str]:
    """What was written down there."""
    return [path.name for path in sorted(folder.glob("*"))]


@pytest.mark.parametrize("captured", [False, True])
def test_a_dump_is_written_whatever_is_known(captured: bool, tmp_path: Path) -> None:
    run: Any = lt.jit(step) if captured else step
    x = lt.linspace(0, 1, 20).reshape(4, 5).realize()
    expected = [run(x).tolist() for _ in range(4)]
    for name in ("first", "second"):  # plans are known here, and on disk
        folder = tmp_path / name
        with lt.config.override(dump=str(folder)):
            assert [run(x).tolist() for _ in range(4)] == expected
        found = texts(folder)
        assert any(name.endswith("0_input.ir") for name in found)
        assert any(name.endswith("plan.c") for name in found)


def test_dumps_of_a_process_that_finds_all_on_disk(tmp_path: Path) -> None:
    program = "import lazyt as t; print((t.arange(6.0).reshape(2, 3) * 3).sum(1).tolist())"
    for name in ("cold", "warm"):
        found = tmp_path / name
        environment = {
            **os.environ, "LAZYT_DUMP": str(found), "LAZYT_CACHE_DIR": str(tmp_path / "cache"),
        }  # fmt: skip
        subprocess.run([sys.executable, "-c", program], env=environment, check=True)
        assert any(path.name.endswith("plan.c") for path in found.iterdir())


@pytest.mark.parametrize("captured", [False, True])
def test_settings_count_for_plans_that_exist(captured: bool, tmp_path: Path) -> None:
    run: Any = lt.jit(step) if captured else step
    x = lt.linspace(0, 1, 20).reshape(4, 5).realize()
    loops = []
    for inline in (0, 16, 0):
        with lt.config.override(inline_reduce=inline, dump=str(tmp_path / f"{inline}")):
            for _ in range(4):
                run(x).tolist()
        sources = [path.read_text() for path in (tmp_path / f"{inline}").glob("*plan.c")]
        loops.append(max(text.count("for (") for text in sources))
    assert loops[0] == loops[2] > loops[1]


def test_verifying_verifies_what_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    from lazyt.ir import verifier

    seen: list[Any] = []
    check = verifier.verify_kernel

    def noted(kernel: Any) -> None:
        seen.append(kernel)
        check(kernel)

    monkeypatch.setattr(verifier, "verify_kernel", noted)
    x = lt.linspace(0, 1, 20).reshape(4, 5).realize()
    step(x).tolist()
    assert not seen
    with lt.config.override(verify=True):
        step(x).tolist()
    assert seen


OP = """
import lazyt as lt
from helper import change
from lazyt import ops
from lazyt.handle.dispatch import unwrap, wrap
from lazyt.ir.graph import NoGradient, Type, make
from lazyt.ir.scalar import ScalarFunction, call, const, register
from lazyt.ops import registry

SYMBOL = "{symbol}"
register(ScalarFunction("mine", 2, None, None, symbol=SYMBOL, reason="a test"))


def lower(node, index, read):
    value = read(node.inputs[0], index)
    return call("mine", call("add", value, change(value)), const({number}, value.dtype))


MINE = registry.define_op(
    "mine",
    params=None,
    infer=lambda params, x: Type(x.shape, x.dtype),
    evaluate=lambda node, x: x,
    vjp=NoGradient("a test"),
    jvp=NoGradient("a test"),
    batch=lambda node, inputs, batched: make(MINE, tuple(inputs)),
    lower=lower,
)
x = lt.tensor([1.0, 2.0]).realize()
print(wrap(make(MINE, (unwrap(x),))).tolist())
"""
HELPER = """
from lazyt.ir.scalar import const


def change(value):
    return const({number}, value.dtype)
"""


def test_edits_of_users_definitions_are_seen(tmp_path: Path) -> None:
    environment = {
        **os.environ, "LAZYT_CACHE_DIR": str(tmp_path / "cache"), "PYTHONDONTWRITEBYTECODE": "1",
    }  # fmt: skip
    edits = [
        ("*", 3.0, 0.0), ("*", 3.0, 0.0), ("*", 4.0, 0.0), ("*", 4.0, 1.0), ("+", 4.0, 1.0),
        ("*", 3.0, 0.0),
    ]  # fmt: skip
    for symbol, number, other in edits:
        (tmp_path / "helper.py").write_text(HELPER.format(number=other))
        (tmp_path / "own.py").write_text(OP.format(symbol=symbol, number=number))
        done = subprocess.run(
            [sys.executable, "own.py"], cwd=tmp_path, capture_output=True, text=True,
            env={**environment, "PYTHONPATH": python_path(os.getcwd(), tmp_path)},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        values = [x + other for x in (1.0, 2.0)]
        expected = [v * number if symbol == "*" else v + number for v in values]
        assert done.stdout.strip() == str(expected)


def test_plans_from_disk_name_the_lines_of_the_program_that_asks(own_cache: Path) -> None:
    text = "a = x * 2 + 1\n\nb = a.exp()\ny = b.sum(1)\n"
    here = lt.linspace(0, 1, 45 * 51).reshape(45, 51).realize()

    def lines(program: str, above: int) -> list[tuple[str, ...]]:
        planning.clear()  # as in another process
        names = {"x": here}
        exec(builtins.compile("\n" * above + text, program, "exec"), names)
        kernels = lt.explain(names["y"]).kernels
        names["y"].realize()
        return [kernel.sources for kernel in kernels]

    with lt.config.override(tier=1):
        started = compile.started
        first = lines("first.py", 0)
        assert first == [("first.py:4",)]
        made = compile.started
        assert lines("second.py", 4) == [("second.py:8",)]
        assert started < made == compile.started, "the second program's plan came from disk"
