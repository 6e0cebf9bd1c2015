"""Slices of moved elements: taken from what the elements come from.

A slice of a concatenation that lies in one piece is a slice of that piece, and one of a padded
value that lies in the border is the fill. What is not read is then not made: the last step of a
stack of steps needs no stack, and the gradient of that step is zero at all others. No bit changes.
"""

from __future__ import annotations

from collections.abc import Sequence

from lazyt import ops
from lazyt.ir.graph import Node, Shape

#: A range of an axis: its first element, how many, and how far they are apart.
Range = tuple[int, int, int]


def sliced(node: Node, ranges: Sequence[Range], shared: bool = True) -> Node:
    """The elements of ``node`` in ``ranges``, one range for each axis; from as far below as slices
    move. ``shared``: others read the node, too, so that it is made in any case."""
    if all(r == (0, n, 1) for r, n in zip(ranges, node.shape, strict=True)):
        return node
    rule = _RULES.get(node.op.name)
    found = None if rule is None else rule(node, ranges, shared)
    if found is not None:
        return found
    starts, sizes, steps = zip(*ranges, strict=True)
    return ops.slice_(node, starts, sizes, steps)


def ranges_of(node: Node) -> list[Range]:
    """The ranges that a slice takes."""
    return list(zip(*node.params, strict=True))


def _of_slice(node: Node, ranges: Sequence[Range], shared: bool) -> Node:
    outer = [
        (start + first * step, size, step * stride)
        for (start, _, step), (first, size, stride) in zip(ranges_of(node), ranges, strict=True)
    ]
    return sliced(node.inputs[0], outer)


def _of_permute(node: Node, ranges: Sequence[Range], shared: bool) -> Node:
    axes = node.params.axes
    inner = [ranges[axes.index(axis)] for axis in range(len(axes))]
    return ops.permute(sliced(node.inputs[0], inner), axes)


def _of_expand(node: Node, ranges: Sequence[Range], shared: bool) -> Node:
    (source,) = node.inputs
    inner = [(0, 1, 1) if n == 1 else r for n, r in zip(source.shape, ranges, strict=True)]
    return ops.expand(sliced(source, inner), _shape(ranges))


def _of_concat(node: Node, ranges: Sequence[Range], shared: bool) -> Node | None:
    axis = node.params.axis
    start, size, step = ranges[axis]
    if size == 0:
        return None
    low, high = sorted((start, start + (size - 1) * step))
    inside: list[tuple[Node, int]] = []
    first = 0
    for piece in node.inputs:
        if first <= high and low < first + piece.shape[axis]:
            inside.append((piece, first))
        first += piece.shape[axis]
    if len(inside) == 1:
        piece, first = inside[0]
        return sliced(piece, [*ranges[:axis], (start - first, size, step), *ranges[axis + 1 :]])
    if shared or step != 1 or len(inside) == len(node.inputs):
        return None
    parts: list[Node] = []
    for piece, first in inside:
        begin, end = max(low - first, 0), min(high + 1 - first, piece.shape[axis])
        own = (begin, end - begin, 1)
        parts.append(sliced(piece, [*ranges[:axis], own, *ranges[axis + 1 :]]))
    return ops.concat(parts, axis)


def _of_pad(node: Node, ranges: Sequence[Range], shared: bool) -> Node | None:
    (source,) = node.inputs
    low, _, interior, fill = node.params
    inner: list[Range] = []
    before: list[int] = []
    after: list[int] = []
    for (start, size, step), n, border, gap in zip(ranges, source.shape, low, interior):
        if (step != 1 and size > 1) or gap:
            return None
        begin, end = max(start - border, 0), min(start + size - border, n)
        if begin >= end:
            return ops.broadcast_to(ops.constant(fill.value, node.dtype), _shape(ranges))
        inner.append((begin, end - begin, 1))
        before.append(max(border - start, 0))
        after.append(size - before[-1] - (end - begin))
    return ops.pad(sliced(source, inner), before, after, [0] * len(before), fill.value)


def _shape(ranges: Sequence[Range]) -> Shape:
    return tuple(size for _, size, _ in ranges)


_RULES = {
    "concat": _of_concat, "expand": _of_expand, "pad": _of_pad, "permute": _of_permute,
    "slice": _of_slice,
}  # fmt: skip
