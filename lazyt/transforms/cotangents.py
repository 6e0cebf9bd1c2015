"""Sums of the cotangents that one value receives from its users.

They are summed from the last user to the first. Two kinds of them become one node each instead of
a sum whose every term is as large as the value:

* slices of a value that do not overlap (the steps of a sequence, the gates of a cell, queries
  beside keys) give zeros with a part that is not zero: these parts stand side by side;
* a weight that is used at every step gets a product for each: they are one product that sums over
  the steps, too, where their operands are smaller than the weight.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from functools import cache
from typing import NamedTuple

from lazyt import ops
from lazyt.ir.dtypes import DType
from lazyt.ir.graph import Node
from lazyt.ir.scalar import Expr, arg, call

#: Products of at least this number are computed as one.
FEWEST = 3


class _Part(NamedTuple):
    """A value amid zeros along one axis: where it starts."""

    start: int
    value: Node
    axis: int


class _Product(NamedTuple):
    """Two operands, and the labels of their axes and of the result's."""

    left: Node
    right: Node
    labels: tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]


def total(parts: Sequence[Node], opaque: Container[Node] = ()) -> Node:
    """The sum of ``parts``, of one shape and type; there is at least one. How ``opaque`` nodes are
    made does not count: the same structure over other values of these types has to give the same
    graph (``derivations.py``)."""
    if len(parts) > 1:
        parts = _join_products(_join_parts(parts, opaque), opaque)
    result = parts[0]
    for part in parts[1:]:
        result = ops.apply("add", result, part)
    return result


def _join_parts(parts: Sequence[Node], opaque: Container[Node]) -> list[Node]:
    """Parts amid zeros along one axis become one node, in place of the first, where none overlaps
    another."""
    found: dict[int, list[tuple[int, _Part]]] = {}
    for place, node in enumerate(parts):
        part = None if node in opaque else _part_of(node)
        if part is not None:
            found.setdefault(part.axis, []).append((place, part))
    result: list[Node | None] = list(parts)
    for members in found.values():
        joined = _beside([part for _, part in members], parts[0])
        if joined is not None:
            for place, _ in members:
                result[place] = None
            result[members[0][0]] = joined
    return [node for node in result if node is not None]


def _part_of(node: Node) -> _Part | None:
    if node.op.name != "pad" or node.params.fill.value != 0 or any(node.params.interior):
        return None
    low, high = node.params.low, node.params.high
    axes = [axis for axis in range(len(low)) if low[axis] or high[axis]]
    return _Part(low[axes[0]], node.inputs[0], axes[0]) if len(axes) == 1 else None


def _beside(parts: Sequence[_Part], like: Node) -> Node | None:
    """The parts where they start, and zeros between them; None for one part, and where two
    overlap."""
    axis, extent = parts[0].axis, like.shape[parts[0].axis]
    pieces: list[Node] = []
    reached = 0
    for start, value, _ in sorted(parts, key=lambda part: part.start):
        if start < reached or len(parts) < 2:
            return None
        if start > reached:
            pieces.append(_zeros(like, axis, start - reached))
        pieces.append(value)
        reached = start + value.shape[axis]
    if reached < extent:
        pieces.append(_zeros(like, axis, extent - reached))
    return ops.concat(pieces, axis)


def _zeros(like: Node, axis: int, extent: int) -> Node:
    shape = (*like.shape[:axis], extent, *like.shape[axis + 1 :])
    return ops.broadcast_to(ops.constant(0, like.dtype), shape)


def _join_products(parts: Sequence[Node], opaque: Container[Node]) -> list[Node]:
    """Products that differ in their operands only become one, in place of the first, that sums over
    a new axis as well."""
    found: dict[object, list[tuple[int, _Product]]] = {}
    for place, node in enumerate(parts):
        product = None if node in opaque else _product_of(node, opaque)
        if product is not None and product.left.size + product.right.size < node.size:
            key = (product.labels, product.left.shape, product.right.shape)
            found.setdefault(key, []).append((place, product))
    result: list[Node | None] = list(parts)
    for members in found.values():
        if len(members) >= FEWEST:
            for place, _ in members:
                result[place] = None
            first = members[0][0]  # the first step comes first
            joined = _over_all([product for _, product in reversed(members)])
            result[first] = ops.reshape(joined, parts[first].shape)
    return [node for node in result if node is not None]


def _product_of(node: Node, opaque: Container[Node]) -> _Product | None:
    """A contraction, or a product of values that are repeated along axes of each other."""
    if node.op.name == "contract":
        left, right = node.inputs
        return _Product(left, right, tuple(node.params))
    if node.op.name != "map" or node.dtype.kind != "f" or node.params not in _products(node.dtype):
        return None
    left, right = (
        x.inputs[0] if x.op.name == "expand" and x not in opaque else x for x in node.inputs
    )
    a, b = _own_axes(left), _own_axes(right)
    out = [axis for axis in range(len(node.shape)) if axis in a or axis in b]
    if out != _own_axes(node):  # both are repeated along the same axis
        return None
    left = ops.reshape(left, [left.shape[axis] for axis in a])
    right = ops.reshape(right, [right.shape[axis] for axis in b])
    return _Product(left, right, (tuple(a), tuple(b), tuple(out)))


def _own_axes(node: Node) -> list[int]:
    """The axes that a factor has elements along."""
    return [axis for axis, extent in enumerate(node.shape) if extent != 1]


@cache
def _products(dtype: DType) -> tuple[Expr, ...]:
    """The expressions of a product of two values."""
    a, b = arg(0, dtype), arg(1, dtype)
    return call("mul", a, b), call("mul", b, a)


def _over_all(products: Sequence[_Product]) -> Node:
    left, right, out = products[0].labels
    label = max((*left, *right), default=0) + 1
    a, b = _stack([p.left for p in products]), _stack([p.right for p in products])
    return ops.contract(a, b, (label, *left), (label, *right), out)


def _stack(nodes: Sequence[Node]) -> Node:
    return ops.concat([ops.reshape(node, (1, *node.shape)) for node in nodes], 0)
