"""Slices are taken from what elements come from: the same elements, and no more of them made."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lazyt import ops
from lazyt.ir.dtypes import float32
from lazyt.ir.graph import Node, topological
from lazyt.passes.simplify import simplify
from lazyt.runtime.interpreter import interpret


def leaf(*shape: int) -> Node:
    """An input without data."""
    return ops.input_(shape, float32)


def part(node: Node, *ranges: tuple[int, int]) -> Node:
    """Elements from a start on, so many, of each axis."""
    return ops.slice_(node, [a for a, _ in ranges], [n for _, n in ranges], [1] * len(ranges))


def only(root: Node) -> Node:
    """The simplified form of one root."""
    return simplify([root])[0]


def test_a_slice_of_one_piece_is_a_slice_of_that() -> None:
    x, y = leaf(2, 3), leaf(2, 4)
    both = ops.concat([x, y], 1)
    assert only(part(both, (0, 2), (3, 4))) is y
    assert only(part(both, (1, 1), (1, 2))) is part(x, (1, 1), (1, 2))
    turned = part(ops.permute(both, (1, 0)), (4, 2), (0, 2))
    assert only(turned) is ops.permute(part(y, (0, 2), (1, 2)), (1, 0))
    assert only(ops.slice_(both, (1, 6), (2, 3), (-1, -1))) is (
        ops.slice_(y, (1, 3), (2, 3), (-1, -1))
    )


def test_pieces_that_are_not_read_are_dropped_where_nobody_else_reads_them() -> None:
    x, y, z = leaf(2), leaf(3), leaf(4)
    both = ops.concat([x, y, z], 0)
    few = part(both, (3, 5))
    assert only(few) is ops.concat([part(y, (1, 2)), part(z, (0, 3))], 0)
    first, second = simplify([few, ops.apply("neg", both)])
    assert first is few and second.inputs == (both,)


def test_a_border_is_the_fill_and_what_is_within_has_none() -> None:
    x = leaf(3, 4)
    padded = ops.pad(x, (2, 0), (1, 5), (0, 0), 7)
    fill = only(part(padded, (0, 2), (1, 2)))
    assert {n.op.name for n in topological([fill])} <= {"const", "reshape", "expand"}
    assert interpret([fill])[0].tolist() == [[7, 7], [7, 7]]
    assert only(part(padded, (2, 2), (1, 3))) is part(x, (0, 2), (1, 3))
    assert only(part(padded, (1, 4), (3, 3))) is ops.pad(
        part(x, (0, 3), (3, 1)), (1, 0), (0, 2), (0, 0), 7
    )


def test_slices_join() -> None:
    x = leaf(20)
    first = ops.slice_(x, (2,), (6,), (3,))
    assert only(ops.slice_(first, (4,), (2,), (-3,))) is ops.slice_(x, (14,), (2,), (-9,))


Shape = tuple[int, ...]


@st.composite
def moved(draw: st.DrawFn) -> Node:
    """A graph of movements, with slices between them."""
    count = iter(range(1, 1000))

    def value(shape: Shape) -> Node:
        size = int(np.prod(shape))
        flat = ops.cast(ops.iota(size), float32) if size else ops.cast(ops.iota(0), float32)
        shift = ops.constant(1000 * next(count), float32)
        return ops.reshape(ops.apply("add", flat, shift), shape)

    extents = st.integers(1, 4)
    node = value((draw(extents), draw(extents)))
    for _ in range(draw(st.integers(1, 6))):
        kind = draw(st.sampled_from(["slice", "permute", "expand", "concat", "pad", "flip"]))
        a, b = node.shape
        if kind == "permute":
            node = ops.permute(node, (1, 0))
        elif kind == "expand" and 1 in node.shape:
            node = ops.expand(node, (3 if a == 1 else a, 2 if b == 1 else b))
        elif kind == "concat":
            other = value((draw(extents), b))
            node = ops.concat([node, other, node] if draw(st.booleans()) else [other, node], 0)
        elif kind == "pad":
            low, high, gap = (draw(st.tuples(st.integers(0, 2), st.integers(0, 2))) for _ in "lhg")
            node = ops.pad(node, low, high, gap if draw(st.booleans()) else (0, 0), 5)
        elif kind == "flip":
            node = ops.flip(node, (1,))
        else:
            ranges = [draw(_range(n)) for n in node.shape]
            node = ops.slice_(node, *zip(*ranges, strict=True))
    return node


@st.composite
def _range(draw: st.DrawFn, extent: int) -> tuple[int, int, int]:
    start = draw(st.integers(0, extent - 1))
    step = draw(st.sampled_from([1, 1, 1, 2, -1, -2]))
    most = (extent - 1 - start) // step if step > 0 else start // -step
    return start, draw(st.integers(1, most + 1)), step


@given(moved())
def test_the_same_elements(node: Node) -> None:
    wanted = interpret([node])[0]
    assert np.array_equal(interpret(simplify([node]))[0], wanted)
