"""The bits of a value as elements of another dtype, also of another size.

Smaller elements come first in memory with the low bits of the larger one (all supported machines
are little-endian).
"""

from __future__ import annotations

from typing import NamedTuple

from lazyt import ops
from lazyt.ir.dtypes import DType, dtype_by_name, int64
from lazyt.ir.graph import Node


def bits_as(flat: Node, dtype: DType) -> Node:
    """A vector's memory as a vector of ``dtype``; trailing bytes that fill no element are left out.

    Carries no gradient.
    """
    old, new = flat.dtype.itemsize, dtype.itemsize
    if flat.dtype is dtype:
        return flat
    if old == new:
        return ops.apply("bitcast", flat, dtype=dtype)
    whole = _pattern(flat)
    if old > new:
        count = old // new
        shifts = _shifts(count, 8 * new, whole.dtype)
        parts = ops.apply("shift_right", ops.reshape(whole, (flat.size, 1)), shifts)
        small = ops.cast(parts, _unsigned(new))
        return bits_as(ops.reshape(small, (flat.size * count,)), dtype)
    count = new // old
    size = flat.size // count
    if size * count != flat.size:
        whole = ops.slice_(whole, (0,), (size * count,), (1,))
    wide = ops.cast(ops.reshape(whole, (size, count)), _unsigned(new))
    placed = ops.apply("shift_left", wide, _shifts(count, 8 * old, wide.dtype))
    return bits_as(ops.reduce_("sum", placed, (1,)), dtype)


def _unsigned(itemsize: int) -> DType:
    return dtype_by_name(f"uint{8 * itemsize}")


def _pattern(node: Node) -> Node:
    unsigned = _unsigned(node.dtype.itemsize)
    return node if node.dtype is unsigned else ops.apply("bitcast", node, dtype=unsigned)


def _shifts(count: int, bits: int, dtype: DType) -> Node:
    """0, bits, 2 * bits ... as a row of ``dtype``."""
    row = ops.apply("mul", ops.iota(count), ops.constant(bits, int64))
    return ops.reshape(ops.cast(row, dtype), (1, count))


class Bits(NamedTuple):
    """A vector's memory as elements of another dtype."""

    dtype: DType

    def read(self, before: Node) -> Node:
        """The elements of the new dtype."""
        return bits_as(before, self.dtype)

    def write(self, before: Node, value: Node) -> Node:
        """``before`` with its memory replaced by that of ``value``."""
        written = bits_as(value, before.dtype)
        if written.size == before.size:
            return written
        return ops.update(before, written, (0,), (1,))
