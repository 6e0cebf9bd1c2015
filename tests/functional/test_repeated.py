"""What is noted of a composite function is what the function itself would make."""

from __future__ import annotations

from lazyt import ops
from lazyt.ir.dtypes import DType, float32, float64
from lazyt.ir.graph import Node
from lazyt.transforms.derivations import repeated


def plain(x: Node, y: Node | None, axis: int) -> Node:
    total = ops.reduce_("sum", x, (axis,))
    total = ops.apply("add", total, ops.constant(1, x.dtype))
    return total if y is None else ops.apply("mul", total, y)


noted = repeated(plain)


def leaf(shape: tuple[int, ...], dtype: DType = float64) -> Node:
    return ops.input_(shape, dtype)


def test_the_same_nodes_come_out() -> None:
    for _ in range(2):
        for dtype in (float32, float64):
            x, y, one = leaf((3, 3), dtype), leaf((3,), dtype), ops.constant(1, dtype)
            assert noted(x, y, 0) is plain(x, y, 0)
            assert noted(x, y, 1) is plain(x, y, 1)
            assert noted(x, None, 0) is plain(x, None, 0)
            assert noted(x, x, 0) is plain(x, x, 0)
            assert noted(x, one, 0) is plain(x, one, 0)  # equal to one that the function makes
            five = ops.constant(5, dtype)
            assert noted(x, five, 0) is plain(x, five, 0)
