"""Builders: identity of equal values, constants, shortcuts, and the registry's demands."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from lazyt import ops
from lazyt.errors import DTypeError, InternalError
from lazyt.ir.dtypes import bfloat16, bool_, float16, float32, float64, int8, int64, uint8
from lazyt.ir.graph import Node, NoGradient, Type
from lazyt.ops import registry
from lazyt.runtime.interpreter import interpret


def test_constants_are_told_apart_by_type_and_bits() -> None:
    assert ops.constant(0.0, float32) is not ops.constant(-0.0, float32)
    assert ops.constant(1, int64) is not ops.constant(True, bool_)
    assert ops.constant(1, int64) is not ops.constant(1.0, float64)
    assert ops.constant(math.nan, float32) is ops.constant(math.nan, float32)
    assert ops.constant(2, float32) is ops.constant(2.0, float32)


def test_constants_are_what_their_type_can_hold() -> None:
    assert ops.constant(300, uint8) is ops.constant(44, uint8)
    assert ops.constant(200, int8).params.value == -56
    assert ops.constant(0.1, float16).params.value == float(np.float16(0.1))
    assert ops.constant(1e6, float16).params.value == math.inf
    assert ops.constant(1.00390625, bfloat16).params.value == 1.0  # a tie goes to even
    assert ops.constant(1.01171875, bfloat16).params.value == 1.015625
    assert ops.constant(3.4e38, bfloat16).params.value == math.inf
    assert math.isnan(float(ops.constant(math.nan, bfloat16).params.value))


def test_equal_nodes_are_one() -> None:
    x, y = ops.input_((2, 3), float32), ops.input_((2, 3), float32)
    assert x is not y
    assert ops.apply("add", x, y) is ops.apply("add", x, y)
    assert ops.pad(x, (1, 0), (0, 0), (0, 0), 0.0) is ops.pad(x, (1, 0), (0, 0), (0, 0), 0)
    zero, minus = (ops.pad(x, (1, 0), (0, 0), (0, 0), z) for z in (0.0, -0.0))
    assert zero is not minus


def test_what_changes_nothing_makes_no_node() -> None:
    x = ops.input_((2, 3), float32)
    same = (
        ops.reshape(x, (2, 3)), ops.permute(x, (0, 1)), ops.expand(x, (2, 3)), ops.flip(x, ()),
        ops.slice_(x, (0, 0), (2, 3), (1, 1)), ops.pad(x, (0, 0), (0, 0), (0, 0), 1),
        ops.concat([x], 0), ops.reduce_("sum", x, ()), ops.cast(x, float32),
        ops.sum_to(x, (2, 3)), ops.broadcast_to(x, (2, 3)),
    )  # fmt: skip
    assert all(node is x for node in same)


def test_batches_of_keys_draw_independent_streams() -> None:
    from lazyt.ir.dtypes import uint32

    keys = ops.concat([ops.reshape(ops.constant(k, uint32), (1,)) for k in (1, 2)], 0)
    a, b = interpret([ops.random(keys, (1000,)), ops.random(ops.flip(keys, (0,)), (1000,))])
    assert a.dtype == np.uint32 and (a != b).all()
    ones = np.unpackbits(a.view(np.uint8)).mean()
    assert 0.48 < ones < 0.52


def test_halves_round_once_per_node_and_accumulate_in_float32() -> None:
    x = ops.broadcast_to(ops.constant(0.1, float16), (4096,))
    (total,) = interpret([ops.reduce_("sum", x, (0,))])
    exact = 4096 * float(np.float16(0.1))
    assert total.dtype == np.float16 and abs(float(total) - exact) <= 0.13


_RULES: dict[str, Any] = {
    "params": None,
    "infer": lambda params, x: Type(x.shape, x.dtype),
    "evaluate": lambda node, x: x,
    "vjp": NoGradient("a test"),
    "jvp": NoGradient("a test"),
    "batch": lambda node, inputs, batched: inputs[0],
    "lower": "reduce",
}


@pytest.mark.parametrize(
    "broken",
    [
        {"infer": None}, {"evaluate": None}, {"batch": None}, {"vjp": None}, {"jvp": None},
        {"vjp": NoGradient("")}, {"lower": None}, {"lower": ""},
    ],
    ids=str,
)  # fmt: skip
def test_incomplete_ops_are_refused(broken: dict[str, Any]) -> None:
    with pytest.raises(InternalError):
        registry.define_op("incomplete", **{**_RULES, **broken})
    assert "incomplete" not in ops.OPS


def test_an_op_is_defined_once() -> None:
    with pytest.raises(InternalError, match="twice"):
        registry.define_op("map", **_RULES)


_BAD_CALLS: list[Callable[[Node, Node], Node]] = [
    lambda x, i: ops.apply("cast", x),
    lambda x, i: ops.apply("exp", x, dtype=float32),
    lambda x, i: ops.apply("exp", i),
    lambda x, i: ops.apply("mul", x, i),
]


@pytest.mark.parametrize("bad", _BAD_CALLS)
def test_apply_checks_types(bad: Callable[[Node, Node], Node]) -> None:
    with pytest.raises(DTypeError):
        bad(ops.input_((2,), float32), ops.input_((2,), int64))


def test_long_chains_need_no_recursion() -> None:
    x = ops.constant(0.0, float64)
    one = ops.constant(1.0, float64)
    for _ in range(20_000):
        x = ops.apply("add", x, one)
    assert float(interpret([x])[0]) == 20_000


def test_import_stays_light() -> None:
    code = (
        "import sys, lazyt.ops; print([m for m in ('networkx', 'pycparser') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
