"""Small programs over the builders that the rules of several ops, and functions, share."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import product as cartesian
from math import gcd
from typing import NamedTuple

from lazyt.ir.dtypes import float32, float64, int64
from lazyt.ir.graph import Node, Shape, make
from lazyt.ir.scalar import Number
from lazyt.ops import builders as build
from lazyt.ops.registry import OPS


def zeros_like(node: Node) -> Node:
    """Zeros of ``node``'s shape and type, which take no memory until they are computed."""
    return build.broadcast_to(build.constant(0, node.dtype), node.shape)


def batch_all(inputs: Sequence[Node], batched: Sequence[bool]) -> list[Node]:
    """``inputs`` of a batch rule, those that are not batched repeated along a new leading axis."""
    size = next(item.shape[0] for item, flag in zip(inputs, batched) if flag)
    return [
        item if flag else build.broadcast_to(item, (size, *item.shape))
        for item, flag in zip(inputs, batched)
    ]


def positions(shape: Shape, strides: Sequence[int], offset: int = 0) -> Node:
    """int64 values ``offset + i * strides[0] + j * strides[1] + ...`` of ``shape``."""
    total = build.constant(offset, int64)
    for axis, (extent, stride) in enumerate(zip(shape, strides)):
        if extent > 1 and stride:
            ones = (1,) * (len(shape) - axis - 1)
            count = build.reshape(build.iota(extent), (extent, *ones))
            total = build.apply(
                "add", total, build.apply("mul", count, build.constant(stride, int64))
            )
    return build.broadcast_to(total, shape)


def along_axis(index: Node, axis: int, shape: Shape) -> Node:
    """Flat positions, in a value of ``shape``, of an index into ``axis`` per element."""
    strides = list(build.row_major(shape))
    pitch = build.constant(strides[axis], int64)
    strides[axis] = 0
    rest = positions(index.shape, strides)
    flat = build.apply("add", rest, build.apply("mul", build.cast(index, int64), pitch))
    return build.reshape(flat, (index.size,))


def matrix_rows(node: Node) -> Node:
    """The value as one matrix: its last axis, and all others as one."""
    length = node.shape[-1]
    return build.reshape(node, (math.prod(node.shape[:-1]), length))


def pick_rows(node: Node, places: Node) -> Node:
    """Elements of each row of ``node`` at the places in the same row of ``places``."""
    count = math.prod(places.shape[:-1])
    flat = build.reshape(places, (count, places.shape[-1]))
    return build.reshape(build.gather(matrix_rows(node), flat, 1, 1), places.shape)


def shift(node: Node, axis: int, steps: int, fill: Number) -> Node:
    """``node`` moved ``steps`` later along ``axis``, or earlier where they are negative, ``fill``
    moving in."""
    rank = len(node.shape)
    sizes = list(node.shape)
    moved, none = [0] * rank, [0] * rank
    moved[axis] = min(abs(steps), sizes[axis])
    sizes[axis] -= moved[axis]
    start, low, high = (none, moved, none) if steps > 0 else (moved, none, moved)
    return build.pad(build.slice_(node, start, sizes, [1] * rank), low, high, none, fill)


def exclusive_product(node: Node, axis: int) -> Node:
    """The product of all earlier elements along ``axis``; 1 for the first."""
    return shift(build.scan("prod", node, axis), axis, 1, 1)


def linear_recurrence(factor: Node, term: Node, axis: int, reverse: bool = False) -> Node:
    """``h[j] = factor[j] * h[j-1] + term[j]`` along ``axis`` from zero, in log2(n) doublings
    (Blelloch, "Prefix sums and their applications", 1990); differentiable to any order. In
    ``reverse`` from the end, with ``h[j+1]``: values that are read backwards would be read one by
    one."""
    steps = -1 if reverse else 1
    while abs(steps) < term.shape[axis]:
        carried = build.apply("mul", factor, shift(term, axis, steps, 0))
        term = build.apply("add", term, carried)
        factor = build.apply("mul", factor, shift(factor, axis, steps, 1))
        steps *= 2
    return term


# --------------------------------------------------------------------------- products


def product(
    left: Node,
    right: Node,
    left_labels: Sequence[int],
    right_labels: Sequence[int],
    out_labels: Sequence[int],
    walked: int | None = None,
) -> Node:
    """``contract``, or a plain sum of products where one operand is a vector, or a batch of them.

    Where the vector meets another one, or the axis along which a matrix lies in memory, reading is
    the limit: the order of sums can be followed while rows are read, that of contractions cannot.
    The error grows with the logarithm of the extent. ``walked`` is the label of that axis; without
    it, memory is taken to be row-major. Which of the two it is must depend on the program alone:
    on shapes and strides, not on what is computed already. Arguments and errors are those of
    ``contract``.
    """
    a, b, out = tuple(left_labels), tuple(right_labels), tuple(out_labels)
    if left.dtype is right.dtype and left.dtype.kind == "f":
        first, second = _labels_alone(left, a, b), _labels_alone(right, b, a)
        if not (first and second):
            if walked is None:
                walked = _innermost(left, a) if first else _innermost(right, b)
            if walked in a and walked in b and walked not in out:
                return _sum_of_products(left, right, a, b, out)
    return build.contract(left, right, a, b, out)


def _labels_alone(node: Node, labels: build.Labels, others: build.Labels) -> set[int]:
    """Axes of more than one element that the other operand lacks."""
    return {x for x, extent in zip(labels, node.shape) if extent != 1 and x not in others}


def _innermost(node: Node, labels: build.Labels) -> int | None:
    """The label of the last axis of more than one element."""
    wide = [x for x, extent in zip(labels, node.shape) if extent != 1]
    return wide[-1] if wide else None


def _sum_of_products(
    left: Node, right: Node, a: build.Labels, b: build.Labels, out: build.Labels
) -> Node:
    """Multiplied and summed in at least float32, rounded once."""
    type_ = make(
        OPS["contract"], (left, right), build.ContractParams(a, b, out)
    )  # checks, and gives the shape
    wide = float64 if left.dtype is float64 else float32
    spent = [x for x in a if x in b and x not in out]
    order = (*out, *spent)
    factors = (_spread(build.cast(x, wide), labels, order) for x, labels in ((left, a), (right, b)))
    axes = range(len(out), len(order))
    total = build.reduce_("sum", build.apply("mul", *factors), axes)
    return build.cast(build.reshape(total, type_.shape), left.dtype)


def _spread(node: Node, labels: build.Labels, order: build.Labels) -> Node:
    """The axes of ``node`` in the given order, with ones for those it lacks."""
    node = build.permute(node, [labels.index(x) for x in order if x in labels])
    extents = iter(node.shape)
    return build.reshape(node, [next(extents) if x in labels else 1 for x in order])


def slice_contract(node: Node, starts: Sequence[int], sizes: Sequence[int]) -> Node:
    """A part of a contraction, as the contraction of parts of its operands."""
    a, b, out = node.params
    cut = dict(zip(out, zip(starts, sizes, strict=True), strict=True))
    operands = [
        _part(operand, labels, cut) for operand, labels in zip(node.inputs, (a, b), strict=True)
    ]
    return build.contract(operands[0], operands[1], a, b, out)


def _part(node: Node, labels: Sequence[int], cut: Mapping[int, tuple[int, int]]) -> Node:
    """``node`` with labelled axes cut to (start, size); of a window, a smaller window."""
    whole = [cut.get(label, (0, extent)) for label, extent in zip(labels, node.shape, strict=True)]
    starts, sizes = [w[0] for w in whole], [w[1] for w in whole]
    if node.op.name != "window":
        return build.slice_(node, starts, sizes, [1] * len(starts))
    _, strides, offset = node.params
    offset += sum(start * stride for start, stride in zip(starts, strides, strict=True))
    return build.window(node.inputs[0], sizes, strides, offset)


# ------------------------------------------------------------ overlapping results

# Windows backwards: contractions whose results overlap and are added up.
#
# Result ``u`` of an axis collects ``left[i] * right[k]`` of all i and k with
# ``u == start + stride * i + dilation * k``. That is the gradient of a convolution with respect to
# its input, and the transposed convolution. Results of equal remainders by the stride read the same
# taps, so each remainder is a contraction over a window of its own, and no multiplication is with a
# zero that stands between two elements.


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
    """A contraction as ``build.contract`` makes it, with axes along which results overlap.

    ``left`` has the places, ``right`` the taps; labels are otherwise those of ``contract``.
    """
    axes = [n for n, item in enumerate(out) if isinstance(item, Spread)]
    spreads = [item for item in out if isinstance(item, Spread)]
    parts: dict[tuple[int, ...], Node] = {}
    for rests in cartesian(*(range(s.stride) for s in spreads)):
        part = _one_remainder(left, right, left_labels, right_labels, out, rests)
        parts[rests] = part
    for axis, item in reversed(list(zip(axes, spreads, strict=True))):
        if item.stride == 1:
            parts = {rests[:-1]: part for rests, part in parts.items()}
            continue
        rows: dict[tuple[int, ...], list[Node]] = {}
        for rests, part in sorted(parts.items(), key=lambda entry: entry[0]):
            wide = (*part.shape[: axis + 1], 1, *part.shape[axis + 1 :])
            rows.setdefault(rests[:-1], []).append(build.reshape(part, wide))
        parts = {rests: _interleave(row, axis, item.extent) for rests, row in rows.items()}
    return parts[()]


def _interleave(row: Sequence[Node], axis: int, extent: int) -> Node:
    """Elements of ``row`` in turn along ``axis``."""
    node = build.concat(row, axis + 1)
    shape = list(node.shape)
    shape[axis : axis + 2] = [shape[axis] * shape[axis + 1]]
    node = build.reshape(node, shape)
    shape[axis] = extent
    return build.slice_(node, [0] * len(shape), shape, [1] * len(shape))


def _one_remainder(
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
    remainders = list(rests)
    empty = False
    for item in out:
        if not isinstance(item, Spread):
            labels.append(item)
            shape.append(extents[item])
            continue
        rest = remainders.pop(0)
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
        lead = (rest - item.start - item.dilation * first) // item.stride
        right = _along(right, b.index(item.tap), first + step * (number - 1), number, -step)
        axis = a.index(item.place)
        low = pace * (number - 1) - lead
        span = count + pace * (number - 1)
        left = _fit(left, axis, low, span)
        a[axis] = labels[-1]
        slides.append((axis, pace))
        taps.append(item.tap)
    if empty:
        return build.broadcast_to(build.constant(0, left.dtype), tuple(shape))
    pitches = build.row_major(left.shape)
    sizes = [extents.get(label, 0) for label in a]
    for label, extent in zip(labels, shape, strict=True):
        if label in a:
            sizes[a.index(label)] = extent
    kernel = [right.shape[b.index(tap)] for tap in taps]
    slopes = [pitches[axis] * pace for axis, pace in slides]
    seen = build.window(left, (*sizes, *kernel), (*pitches, *slopes), 0)
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
    parts = []
    for node, mine, theirs in ((left, a, b), (right, b, a)):
        stay = [n for n, label in enumerate(mine) if label in theirs or label in out]
        shape = [node.shape[n] for n in stay]
        parts.append((build.reshape(node, shape), [mine[n] for n in stay]))
    return build.contract(parts[0][0], parts[1][0], parts[0][1], parts[1][1], out)


def _along(node: Node, axis: int, start: int, size: int, step: int) -> Node:
    """A slice along one axis."""
    starts, steps = [0] * len(node.shape), [1] * len(node.shape)
    sizes = list(node.shape)
    starts[axis], sizes[axis], steps[axis] = start, size, step
    if size == 1:
        steps[axis] = 1
    return build.slice_(node, starts, sizes, steps)


def _fit(node: Node, axis: int, low: int, span: int) -> Node:
    """``low`` zeros before an axis (fewer elements where it is negative), ``span`` in all."""
    extent = node.shape[axis]
    begin, end = max(-low, 0), min(extent, span - low)
    if end <= begin:
        shape = tuple(span if n == axis else e for n, e in enumerate(node.shape))
        return build.broadcast_to(build.constant(0, node.dtype), shape)
    node = _along(node, axis, begin, end - begin, 1)
    none = [0] * len(node.shape)
    before, after = list(none), list(none)
    before[axis] = max(low, 0)
    after[axis] = span - before[axis] - (end - begin)
    return build.pad(node, before, after, none, 0)
