"""Windows backwards: contractions whose results overlap and are added up.

Result ``u`` of an axis collects ``left[i] * right[k]`` of all i and k with
``u == start + stride * i + dilation * k``. That is the gradient of a convolution with respect to
its input, and the transposed convolution. Results of equal remainders by the stride read the same
taps, so each remainder is a contraction over a window of its own, and no multiplication is with a
zero that stands between two elements.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from math import gcd
from typing import NamedTuple

from lazyt import ops
from lazyt.ir.graph import Node


class Spread(NamedTuple):
    """An axis of ``extent`` results; ``place`` and ``tap`` are labels of the two operands."""

    place: int
    tap: int
    start: int
    stride: int
    dilation: int
    extent: int


def contract_spread(
    left: Node,
    right: Node,
    left_labels: Sequence[int],
    right_labels: Sequence[int],
    out: Sequence[int | Spread],
) -> Node:
    """A contraction as ``ops.contract`` makes it, with axes along which results overlap.

    ``left`` has the places, ``right`` the taps; labels are otherwise those of ``contract``.
    """
    axes = [n for n, item in enumerate(out) if isinstance(item, Spread)]
    spreads = [item for item in out if isinstance(item, Spread)]
    parts: dict[tuple[int, ...], Node] = {}
    for rests in product(*(range(s.stride) for s in spreads)):
        part = _one_rest(left, right, left_labels, right_labels, out, rests)
        parts[rests] = part
    for axis, item in reversed(list(zip(axes, spreads, strict=True))):
        if item.stride == 1:
            parts = {rests[:-1]: part for rests, part in parts.items()}
            continue
        rows: dict[tuple[int, ...], list[Node]] = {}
        for rests, part in sorted(parts.items(), key=lambda entry: entry[0]):
            wide = (*part.shape[: axis + 1], 1, *part.shape[axis + 1 :])
            rows.setdefault(rests[:-1], []).append(ops.reshape(part, wide))
        parts = {rests: _interleave(row, axis, item.extent) for rests, row in rows.items()}
    return parts[()]


def _interleave(row: Sequence[Node], axis: int, extent: int) -> Node:
    """Elements of ``row`` in turn along ``axis``."""
    node = ops.concat(row, axis + 1)
    shape = list(node.shape)
    shape[axis : axis + 2] = [shape[axis] * shape[axis + 1]]
    node = ops.reshape(node, shape)
    shape[axis] = extent
    return ops.slice_(node, [0] * len(shape), shape, [1] * len(shape))


def _one_rest(
    left: Node,
    right: Node,
    left_labels: Sequence[int],
    right_labels: Sequence[int],
    out: Sequence[int | Spread],
    rests: Sequence[int],
) -> Node:
    """The results ``stride * v + rest`` for all v, also where that is past the extent."""
    a, b = list(left_labels), list(right_labels)
    extents = dict(zip((*a, *b), (*left.shape, *right.shape), strict=True))
    fresh = max(extents, default=-1) + 1
    labels: list[int] = []
    slides: list[tuple[int, int]] = []  # the axis of left, the dilation
    taps: list[int] = []
    shape: list[int] = []
    waiting = list(rests)
    empty = False
    for item in out:
        if not isinstance(item, Spread):
            labels.append(item)
            shape.append(extents[item])
            continue
        rest = waiting.pop(0)
        common = gcd(item.dilation, item.stride)
        first = _first_tap(item, rest, min(item.stride // common, extents[item.tap]))
        count = -(-item.extent // item.stride)
        shape.append(count)
        labels.append(fresh)
        fresh += 1
        if first is None:
            empty = True
            continue
        step, pace = item.stride // common, item.dilation // common
        number = -(-(extents[item.tap] - first) // step)
        ahead = (rest - item.start - item.dilation * first) // item.stride
        right = _along(right, b.index(item.tap), first + step * (number - 1), number, -step)
        axis = a.index(item.place)
        low = pace * (number - 1) - ahead
        span = count + pace * (number - 1)
        left = _fit(left, axis, low, span)
        a[axis] = labels[-1]
        slides.append((axis, pace))
        taps.append(item.tap)
    if empty:
        return ops.broadcast_to(ops.constant(0, left.dtype), tuple(shape))
    pitches = ops.row_major(left.shape)
    sizes = [extents.get(label, 0) for label in a]
    for label, extent in zip(labels, shape, strict=True):
        if label in a:
            sizes[a.index(label)] = extent
    kernel = [right.shape[b.index(tap)] for tap in taps]
    slopes = [pitches[axis] * pace for axis, pace in slides]
    seen = ops.window(left, (*sizes, *kernel), (*pitches, *slopes), 0)
    return _contract(seen, right, (*a, *taps), b, labels)


def _first_tap(item: Spread, rest: int, count: int) -> int | None:
    """The first of ``count`` taps that reaches results of a remainder."""
    for tap in range(count):
        if (item.start + item.dilation * tap - rest) % item.stride == 0:
            return tap
    return None


def _contract(
    left: Node, right: Node, a: Sequence[int], b: Sequence[int], out: Sequence[int]
) -> Node:
    """``contract`` with axes of one element that only one operand has, and the result has not."""
    kept = []
    for node, mine, theirs in ((left, a, b), (right, b, a)):
        stay = [n for n, label in enumerate(mine) if label in theirs or label in out]
        shape = [node.shape[n] for n in stay]
        kept.append((ops.reshape(node, shape), [mine[n] for n in stay]))
    return ops.contract(kept[0][0], kept[1][0], kept[0][1], kept[1][1], out)


def _along(node: Node, axis: int, start: int, size: int, step: int) -> Node:
    """A slice along one axis."""
    starts, steps = [0] * len(node.shape), [1] * len(node.shape)
    sizes = list(node.shape)
    starts[axis], sizes[axis], steps[axis] = start, size, step
    if size == 1:
        steps[axis] = 1
    return ops.slice_(node, starts, sizes, steps)


def _fit(node: Node, axis: int, low: int, span: int) -> Node:
    """``low`` zeros before an axis (fewer elements where it is negative), ``span`` in all."""
    extent = node.shape[axis]
    begin, end = max(-low, 0), min(extent, span - low)
    if end <= begin:
        shape = tuple(span if n == axis else e for n, e in enumerate(node.shape))
        return ops.broadcast_to(ops.constant(0, node.dtype), shape)
    node = _along(node, axis, begin, end - begin, 1)
    none = [0] * len(node.shape)
    before, after = list(none), list(none)
    before[axis] = max(low, 0)
    after[axis] = span - before[axis] - (end - begin)
    return ops.pad(node, before, after, none, 0)


def slice_contract(node: Node, starts: Sequence[int], sizes: Sequence[int]) -> Node:
    """A part of a contraction, as the contraction of parts of its operands."""
    a, b, out = node.params
    cut = dict(zip(out, zip(starts, sizes, strict=True), strict=True))
    operands = [
        _part(operand, labels, cut) for operand, labels in zip(node.inputs, (a, b), strict=True)
    ]
    return ops.contract(operands[0], operands[1], a, b, out)


def _part(node: Node, labels: Sequence[int], cut: Mapping[int, tuple[int, int]]) -> Node:
    """``node`` with labelled axes cut to (start, size); of a window, a smaller window."""
    whole = [cut.get(label, (0, extent)) for label, extent in zip(labels, node.shape, strict=True)]
    starts, sizes = [w[0] for w in whole], [w[1] for w in whole]
    if node.op.name != "window":
        return ops.slice_(node, starts, sizes, [1] * len(starts))
    _, strides, offset = node.params
    offset += sum(start * stride for start, stride in zip(starts, strides, strict=True))
    return ops.window(node.inputs[0], sizes, strides, offset)
