"""``window``: a strided look at a value in row-major order, the operand of convolutions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from math import gcd, prod
from typing import Any, NamedTuple

import numpy as np

from lazyt import ops
from lazyt.errors import BoundsError, ShapeError
from lazyt.ir.graph import Node, Shape, Type, make
from lazyt.ir.index import Linear, constant, delinearize
from lazyt.ir.scalar import Arg, Call, Expr
from lazyt.ops.registry import define_op, linear_jvp

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


Index = tuple[Linear, ...]


class WindowParams(NamedTuple):
    """Element (i, j, ...) is flat element ``offset + i * strides[0] + j * strides[1] + ...``."""

    shape: Shape
    strides: tuple[int, ...]
    offset: int


def row_major(shape: Shape) -> tuple[int, ...]:
    """The strides, in elements, of a contiguous value."""
    strides = [1] * len(shape)
    for axis in range(len(shape) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * max(shape[axis + 1], 1)
    return tuple(strides)


def _infer(params: WindowParams, node: Node) -> Type:
    shape, strides, offset = params
    if len(shape) != len(strides) or any(n < 0 for n in shape):
        raise ShapeError(f"window: shape {shape} and strides {strides} do not go together")
    reach = [(n - 1) * s for n, s in zip(shape, strides)]
    first = offset + sum(r for r in reach if r < 0)
    last = offset + sum(r for r in reach if r > 0)
    if prod(shape) and not (first >= 0 and last < node.size):
        raise BoundsError(f"window: elements {first}..{last} of a value of {node.size}")
    return Type(shape, node.dtype)


def _evaluate(node: Node, array: Any) -> Any:
    shape, strides, offset = node.params
    if node.size == 0:
        return np.empty(shape, array.dtype)
    flat = np.ascontiguousarray(array).reshape(-1)[offset:]
    size = flat.itemsize
    if min(strides, default=0) >= 0:
        return np.lib.stride_tricks.as_strided(flat, shape, [s * size for s in strides]).copy()
    flat = np.ascontiguousarray(array).reshape(-1)
    return flat[offset + sum(np.ogrid[tuple(slice(n) for n in shape)][a] * s
                             for a, s in enumerate(strides))]  # fmt: skip


class _Group(NamedTuple):
    """The window axes that walk along one operand axis, each as (window axis, step)."""

    start: int
    walks: list[tuple[int, int]]


def _groups(source: Shape, params: WindowParams) -> list[_Group] | None:
    """The window as independent walks along the operand's axes, at most two per axis, or None."""
    shape, strides, offset = params
    pitches = row_major(source)
    groups = [_Group(offset // p % n, []) for p, n in zip(pitches, source)]
    for axis, (extent, stride) in enumerate(zip(shape, strides)):
        if extent == 1 or stride == 0:
            continue
        for group, pitch, size in zip(groups, pitches, source):
            if size > 1 and stride >= pitch:
                if stride % pitch:
                    return None
                group.walks.append((axis, stride // pitch))
                break
        else:
            return None
    for group, size in zip(groups, source):
        reach = sum((shape[axis] - 1) * step for axis, step in group.walks)
        if len(group.walks) > 2 or group.start + reach >= size:
            return None
        group.walks.sort(key=lambda walk: -shape[walk[0]])
    return groups


def _vjp(node: Node, cotangent: Node) -> list[Node | None]:
    (source,) = node.inputs
    if node.size == 0:
        return [ops.zeros_like(source)]
    groups = _groups(source.shape, node.params)
    if groups is not None:
        joined = _joined_back(source.shape, node.params, cotangent, groups)
        if joined is not None:
            return [joined]
    if groups is None:
        return [_scatter_back(source, node.params, cotangent)]
    return [_fold_back(source.shape, node.params, cotangent, groups)]


def _joined_back(
    source: Shape, params: WindowParams, cotangent: Node, groups: list[_Group]
) -> Node | None:
    """The gradient where it comes from a contraction, as of a convolution: the sum over all windows
    joins that contraction, and the gradients of single windows need not exist."""
    if cotangent.op.name == "map" and _is_sum(cotangent):
        parts = [_joined_back(source, params, part, groups) for part in cotangent.inputs]
        found = [part for part in parts if part is not None]
        return ops.apply("add", *found) if len(found) == 2 else None
    if cotangent.op.name != "contract":
        return None
    a, b, labels = cotangent.params
    walked = [axis for group in groups for axis, _ in group.walks]
    if any(n > 1 for axis, n in enumerate(params.shape) if axis not in walked):
        return None
    out: list[int | Spread] = []
    for group, extent in zip(groups, source):
        walks = [(labels[axis], step) for axis, step in group.walks]
        if len(walks) == 2:
            if walks[0][0] in b:
                walks.reverse()
            (place, stride), (tap, dilation) = walks
            if place in b or tap in a:
                return None
            out.append(Spread(place, tap, group.start, stride, dilation, extent))
        elif walks:
            out.append(walks[0][0])
    if not any(isinstance(item, Spread) for item in out):
        return None
    head = _heads(groups, params, source)
    left, right = cotangent.inputs
    node = ops.reshape(contract_spread(left, right, a, b, out), head)
    low, high, gaps = [], [], []
    for group, extent, count in zip(groups, source, head):
        step = group.walks[0][1] if len(group.walks) == 1 else 1
        start = group.start if len(group.walks) < 2 else 0
        low.append(start)
        high.append(extent - 1 - start - (count - 1) * step)
        gaps.append(step - 1)
    return ops.pad(node, low, high, gaps, 0)


def _heads(groups: list[_Group], params: WindowParams, source: Shape) -> list[int]:
    """Extents of the gradient before it is spread along axes that one walk goes along."""
    return [
        extent if len(g.walks) == 2 else params.shape[g.walks[0][0]] if g.walks else 1
        for g, extent in zip(groups, source)
    ]


def _is_sum(node: Node) -> bool:
    """Whether a map adds two values of its shape."""
    expr = node.params
    added = isinstance(expr, Call) and expr.fn.name == "add"
    plain = added and all(isinstance(item, Arg) for item in expr.args)
    return plain and len(node.inputs) == 2 and all(x.shape == node.shape for x in node.inputs)


def _scatter_back(source: Node, params: WindowParams, cotangent: Node) -> Node:
    """Adds every element of the cotangent where it was read from: right for any window."""
    positions = ops.positions(params.shape, params.strides, params.offset)
    index = ops.reshape(positions, (prod(params.shape),))
    flat = ops.broadcast_to(ops.constant(0, source.dtype), (source.size,))
    values = ops.reshape(cotangent, index.shape)
    return ops.reshape(ops.scatter(flat, index, values, 0, "add"), source.shape)


def _fold_back(source: Shape, params: WindowParams, cotangent: Node, groups: list[_Group]) -> Node:
    """The overlap-add without any scatter: spread the long walk, slide the short one, sum it.

    ``out[p] = sum over k of g[(p - start - k * d) / s, k]`` becomes a sum over a window on the
    cotangent spread by s and turned along k, so that it fuses like any reduction.
    """
    longs = [g.walks[0][0] for g in groups if g.walks]
    shorts = [g.walks[1][0] for g in groups if len(g.walks) == 2]
    rest = [a for a in range(len(params.shape)) if a not in longs and a not in shorts]
    kept = sorted(longs + shorts)
    summed = ops.reduce_("sum", cotangent, rest)
    summed = ops.permute(summed, [kept.index(a) for a in longs + shorts])
    tail = tuple(params.shape[a] for a in shorts)
    head = tuple(params.shape[g.walks[0][0]] if g.walks else 1 for g in groups)
    rank, count = len(head), len(tail)
    turned = ops.flip(ops.reshape(summed, head + tail), range(rank, rank + count))
    low, high, interior, slides = [], [], [], []
    for axis, (group, extent) in enumerate(zip(groups, source)):
        step = group.walks[0][1] if group.walks else 1
        slide = 0
        if len(group.walks) == 2:
            inner, pace = group.walks[1]
            slide = (params.shape[inner] - 1) * pace
            slides.append((axis, pace))
        low.append(group.start + slide)
        high.append(extent - 1 - group.start - (head[axis] - 1) * step)
        interior.append(step - 1)
    none = [0] * count
    spread = ops.pad(turned, low + none, high + none, interior + none, 0)
    if not count:
        return spread
    pitches = row_major(spread.shape)
    slopes = [pace * pitches[axis] + pitches[rank + n] for n, (axis, pace) in enumerate(slides)]
    slid = window(spread, source + tail, (*pitches[:rank], *slopes), 0)
    return ops.reduce_("sum", slid, range(rank, rank + count))


def _batch(node: Node, inputs: Sequence[Node], batched: Sequence[bool]) -> Node:
    shape, strides, offset = node.params
    size = inputs[0].shape[0]
    return window(inputs[0], (size, *shape), (node.inputs[0].size, *strides), offset)


def _lower(node: Node, index: Index, read: Any) -> Expr:
    (source,) = node.inputs
    at = _walk(source.shape, node.params, index)
    if at is None:
        flat = constant(node.params.offset)
        for position, stride in zip(index, node.params.strides):
            flat = flat + position * stride
        at = delinearize(flat, source.shape)
    value: Expr = read(source, at)
    return value


def _walk(source: Shape, params: WindowParams, index: Index) -> Index | None:
    """The operand's index without division, where no walk carries over into another axis."""
    left = list(params.strides)
    offset = params.offset
    at: list[Linear] = []
    if min(left, default=0) < 0:
        return None
    for pitch, extent in zip(row_major(source), source):
        if extent == 1:
            at.append(constant(0))
            continue
        start, offset = divmod(offset, pitch)
        position = constant(start)
        for axis, stride in enumerate(left):
            pace, left[axis] = divmod(stride, pitch)
            if pace:
                position = position + index[axis] * pace
        if not (position.bounds[0] >= 0 and position.bounds[1] < extent):
            return None
        at.append(position)
    return None if offset or any(s and n > 1 for s, n in zip(left, params.shape)) else tuple(at)


WINDOW = define_op(
    "window",
    params=WindowParams,
    infer=_infer,
    evaluate=_evaluate,
    vjp=_vjp,
    jvp=linear_jvp,
    batch=_batch,
    lower=_lower,
)


def window(node: Node, shape: Sequence[int], strides: Sequence[int], offset: int) -> Node:
    """``as_strided`` over the row-major flattened ``node``: windows may overlap.

    Strides count elements and may be zero or negative. Raises BoundsError when an element lies
    outside of ``node``.
    """
    return make(WINDOW, (node,), WindowParams(tuple(shape), tuple(strides), offset))
