"""Small compositions that several ops' rules share."""

from __future__ import annotations

from collections.abc import Sequence

from lazyt import ops
from lazyt.ir.dtypes import int64
from lazyt.ir.graph import Node, Shape


def zeros_like(node: Node) -> Node:
    """Zeros of ``node``'s shape and type, which take no memory until they are computed."""
    return ops.broadcast_to(ops.constant(0, node.dtype), node.shape)


def batch_all(inputs: Sequence[Node], batched: Sequence[bool]) -> list[Node]:
    """``inputs`` of a batch rule, those that are not batched repeated along a new leading axis."""
    size = next(item.shape[0] for item, flag in zip(inputs, batched) if flag)
    return [
        item if flag else ops.broadcast_to(item, (size, *item.shape))
        for item, flag in zip(inputs, batched)
    ]


def positions(shape: Shape, strides: Sequence[int], offset: int = 0) -> Node:
    """int64 values ``offset + i * strides[0] + j * strides[1] + ...`` of ``shape``."""
    total = ops.constant(offset, int64)
    for axis, (extent, stride) in enumerate(zip(shape, strides)):
        if extent > 1 and stride:
            ones = (1,) * (len(shape) - axis - 1)
            count = ops.reshape(ops.iota(extent), (extent, *ones))
            total = ops.apply("add", total, ops.apply("mul", count, ops.constant(stride, int64)))
    return ops.broadcast_to(total, shape)


def along_axis(index: Node, axis: int, shape: Shape) -> Node:
    """Flat positions, in a value of ``shape``, of an index into ``axis`` per element."""
    strides = list(ops.row_major(shape))
    pitch = ops.constant(strides[axis], int64)
    strides[axis] = 0
    rest = positions(index.shape, strides)
    flat = ops.apply("add", rest, ops.apply("mul", ops.cast(index, int64), pitch))
    return ops.reshape(flat, (index.size,))
