"""Movement ops join and vanish; arithmetic stays as it is."""

from __future__ import annotations

import inspect
import re

import pytest

import lazyt as lt
from lazyt import ops
from lazyt.ir.dtypes import float32
from lazyt.ir.graph import Node
from lazyt.passes.simplify import simplify


def leaf(*shape: int) -> Node:
    """An input without data."""
    return ops.input_(shape, float32)


def only(root: Node) -> Node:
    """The simplified form of one root."""
    return simplify([root])[0]


def test_reshapes_join() -> None:
    x = leaf(2, 12)
    assert only(ops.reshape(ops.reshape(x, (24,)), (4, 6))) is ops.reshape(x, (4, 6))
    assert only(ops.reshape(ops.reshape(x, (4, 6)), (2, 12))) is x


def test_permutations_join() -> None:
    x = leaf(2, 3, 4)
    twice = ops.permute(ops.permute(x, (1, 2, 0)), (1, 2, 0))
    assert only(twice) is ops.permute(x, (2, 0, 1))
    assert only(ops.permute(twice, (1, 2, 0))) is x


def test_products_are_computed_in_the_order_that_is_read() -> None:
    a, b = ops.input_((5, 3, 4), float32), ops.input_((5, 4, 6), float32)
    product = ops.contract(a, b, (0, 1, 2), (0, 2, 3), (0, 1, 3))
    turned = ops.permute(ops.permute(product, (0, 2, 1)), (1, 0, 2))
    found = only(turned)
    assert found.op.name == "contract" and found.shape == turned.shape == (6, 5, 3)
    assert found.params.out == (3, 0, 1)
    # Where the product is read as it is, too, it is computed once.
    one, two = simplify([turned, ops.apply("neg", product)])
    assert one.op.name == "permute" and two.inputs == one.inputs == (product,)


@pytest.mark.parametrize("name", ["expand", "slice", "flip", "reshape", "permute"])
def test_what_does_nothing_vanishes(name: str) -> None:
    x = leaf(3, 4)
    made = {
        "expand": ops.expand(x, (3, 4)),
        "slice": ops.slice_(x, (0, 0), (3, 4), (1, 1)),
        "flip": ops.flip(x, ()),
        "reshape": ops.reshape(x, (3, 4)),
        "permute": ops.permute(x, (0, 1)),
    }
    assert only(made[name]) is x
    assert only(ops.apply("exp", made[name])) is ops.apply("exp", x)


def test_what_does_something_stays() -> None:
    x = leaf(3, 4)
    for node in (
        ops.slice_(x, (0, 3), (3, 4), (1, -1)),
        ops.slice_(x, (1, 0), (2, 4), (1, 1)),
        ops.flip(x, (0,)),
        ops.expand(leaf(1, 4), (3, 4)),
        ops.permute(ops.reshape(ops.permute(x, (1, 0)), (2, 6)), (1, 0)),
    ):
        assert only(node) is node


def test_arithmetic_keeps_its_bits() -> None:
    x, zero = leaf(3), ops.constant(0.0, float32)
    for node in (
        ops.apply("add", x, zero),  # -0.0 + 0.0 is 0.0
        ops.apply("mul", x, ops.constant(1.0, float32)),  # quiets a signalling NaN
        ops.apply("sub", x, x),  # NaN for infinities
        ops.apply("neg", ops.apply("neg", x)),
    ):
        assert only(node) is node


def test_shared_values_stay_shared() -> None:
    x = leaf(2, 3)
    shared = ops.apply("exp", ops.reshape(ops.reshape(x, (6,)), (2, 3)))
    first, second = simplify([ops.apply("neg", shared), ops.apply("add", shared, shared)])
    assert first.inputs[0] is second.inputs[0] is ops.apply("exp", x)


@pytest.mark.compiler
def test_what_passes_make_belongs_to_the_line_that_made_the_original() -> None:
    x = lt.randn(64, 100)
    mean = (x * x).mean(-1, keepdim=True)
    first = inspect.currentframe().f_lineno - 1  # type: ignore[union-attr]
    total = (x - mean).square().sum(-1)
    report = str(lt.explain(total))
    lines = [int(line) for line in re.findall(r"reduce \[64\] \([^)]*:(\d+)\)", report)]
    assert lines == [first, first + 2]
