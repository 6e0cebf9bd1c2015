"""Tiles that are turned between memory and lanes: transposed operands, and short rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lazyt as lt
from lazyt import ops
from lazyt.codegen.proof.c_bounds import argument_bytes, check_kernel_c
from lazyt.config import config
from lazyt.ir.dtypes import float32
from lazyt.ir.graph import Node
from lazyt.plan import planning
from tests.codegen.kernel_corpus import Printed, print_kernels


def _kernel(root: Node) -> Printed:
    (printed,) = print_kernels([root])
    return printed


def _transposed() -> Node:
    return ops.permute(ops.input_((96, 70), float32), (1, 0))


def _softmax(x: Node) -> Node:
    """Of the last axis, less its largest value."""
    rows, count = x.shape

    def each(values: Node) -> Node:
        return ops.expand(ops.reshape(values, (rows, 1)), (rows, count))

    powers = ops.apply("exp", ops.apply("sub", x, each(ops.reduce_("max", x, (1,)))))
    return ops.apply("div", powers, each(ops.reduce_("sum", powers, (1,))))


@pytest.mark.parametrize(
    ("root", "turned"),
    [
        (lambda: ops.apply("exp", _transposed()), 1),
        (lambda: _softmax(_transposed()), 1),
        (lambda: _softmax(ops.input_((300, 17), float32)), 2),
        (lambda: ops.reduce_("max", ops.input_((300, 17), float32), (1,)), 0),
        (lambda: ops.reduce_("max", ops.apply("exp", ops.input_((300, 17), float32)), (1,)), 1),
        (lambda: ops.reduce_("max", ops.input_((300, 170), float32), (1,)), 0),
        (lambda: ops.apply("exp", ops.input_((96, 70), float32)), 0),
        (lambda: ops.permute(ops.flip(ops.input_((96, 70), float32), (1,)), (1, 0)), 1),
        (lambda: ops.permute(ops.flip(ops.input_((96, 70), float32), (0,)), (1, 0)), 0),
        (lambda: ops.scan("sum", ops.input_((300, 170), float32), 1), 2),
        (lambda: ops.scan("sum", ops.apply("exp", ops.input_((3, 64, 97), float32)), 2), 2),
        (lambda: ops.scan("sum", ops.input_((40, 170), float32), 1), 0),
        (lambda: ops.scan("sum", ops.input_((300, 17), float32), 1), 0),
        (lambda: ops.scan("sum", ops.input_((300, 16), float32), 1), 2),
        (lambda: ops.scan("max", ops.input_((300, 17), float32), 1), 2),
        (lambda: ops.scan("sum", ops.apply("exp", ops.input_((300, 17), float32)), 1), 2),
        (lambda: ops.scan("sum", ops.input_((300, 170), float32), 0), 0),
    ],
)
def test_what_lies_across_lanes_is_turned(root: Callable[[], Node], turned: int) -> None:
    printed = _kernel(root())
    assert printed.c.source.text.count("lz_across_f32(") == turned
    sizes = argument_bytes(printed.kernel, printed.c.workspace, printed.c.offsets)
    assert not check_kernel_c(printed.c.source.text, sizes)


@pytest.mark.parametrize(
    ("rows", "steps", "together"), [(300, 170, 8), (300, 32, 8), (300, 24, 16), (300, 8, 64)]
)
def test_long_rows_run_a_few_at_a_time(rows: int, steps: int, together: int) -> None:
    text = _kernel(ops.scan("sum", ops.input_((rows, steps), float32), 1)).c.source.text
    assert f"turn0[{32 * together}]" in text


@pytest.mark.parametrize(
    ("old", "new"),
    [("17, turn0, 64)", "18, turn0, 64)"), ("17, turn0, 64)", "17, turn0, 200)"),
     ("turn0[2048]", "turn0[1087]"), ("(run, steps, x0", "(64, steps, x0")],
)  # fmt: skip
def test_a_turn_beyond_its_memory_is_found(old: str, new: str) -> None:
    printed = _kernel(ops.reduce_("sum", ops.apply("exp", ops.input_((300, 17), float32)), (1,)))
    assert old in printed.c.source.text
    sizes = argument_bytes(printed.kernel, printed.c.workspace, printed.c.offsets)
    assert check_kernel_c(printed.c.source.text.replace(old, new), sizes)


def _values(shape: tuple[int, ...], dtype: str) -> Any:
    source = np.random.default_rng(shape[0])
    if dtype == "int8":
        return source.integers(-90, 90, shape).astype(np.int8)
    return source.standard_normal(shape).astype("float32" if dtype == "bfloat16" else dtype)


def _numbers(values: Any, dtype: str, work: Callable[[Any], list[Any]]) -> list[Any]:
    x = lt.from_numpy(values.copy())
    if dtype != "bfloat16":
        return [t.numpy() for t in work(x)]
    x = x.bfloat16().realize()
    return [t.realize().float().numpy() for t in work(x)]


def _of_rows(x: Any) -> list[Any]:
    flat = x.reshape(-1, x.shape[-1])
    wide = flat if x.dtype == lt.int8 else flat.softmax(-1)
    return [wide, flat.sum(-1), flat.amax(-1), flat.argmax(-1)]


def _of_axes(x: Any) -> list[Any]:
    wide = x.T.double().float() if x.ndim == 2 else x.transpose(1, 2)
    last = x.permute(*reversed(range(x.ndim)))
    return [(wide * 2 + 1).contiguous(), wide.sum(-1), (last + 1).contiguous(), wide.amin(-1)]


def _running(x: Any) -> list[Any]:
    flat = x.reshape(-1, x.shape[-1])
    whole = [flat.cumsum(-1), flat.cumprod(-1), flat.cummax(-1).values, flat.cummin(-1).indices]
    if x.dtype == lt.int8:
        return whole
    return [*whole, flat.logcumsumexp(-1), (flat * 2).exp().cumsum(-1), x.cumsum(1)]


CASES = [
    ((200, 17), "float32"),
    ((130, 33), "float64"),
    ((3, 65, 40), "float32"),
    ((70, 64), "int8"),
    ((90, 20), "bfloat16"),
    ((67, 101), "float32"),
]


@pytest.mark.parametrize("work", [_of_rows, _of_axes, _running])
@pytest.mark.parametrize(("shape", "dtype"), CASES)
def test_turning_changes_no_bit(
    shape: tuple[int, ...], dtype: str, work: Callable[[Any], list[Any]], monkeypatch: Any
) -> None:
    """The same values as from kernels whose lanes follow memory."""
    values = _values(shape, dtype)
    with monkeypatch.context() as patched:
        patched.setattr(config, "verify", True)
        got = _numbers(values, dtype, work)
    with monkeypatch.context() as patched:
        patched.setattr("lazyt.codegen.c.steps.lanes_across_rows", lambda phase, expressions: phase)
        patched.setattr("lazyt.codegen.c.steps.transposes_of", lambda *given: [])
        patched.setattr(config, "disk_cache", False)
        planning.clear()
        want = _numbers(values, dtype, work)
    planning.clear()
    for one, other in zip(got, want, strict=True):
        assert np.array_equal(one, other)


@pytest.mark.parametrize("shape", [(37, 53), (3, 70, 90), (300, 8), (8, 300)])
@pytest.mark.parametrize("turns", [-1, 1])
def test_quarter_turns(shape: tuple[int, ...], turns: int) -> None:
    x = np.arange(np.prod(shape), dtype="float32").reshape(shape)
    found = lt.rot90(lt.from_numpy(x) * 2, turns, (-2, -1)).numpy()
    np.testing.assert_array_equal(found, np.rot90(x * 2, turns, (-2, -1)))
