"""Ops that only move elements: reshape, permute, expand, slice, flip, pad, concat, window."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from lazyt.errors import BoundsError, DTypeError, ShapeError
from lazyt.ir.decisions import slack
from lazyt.ir.graph import Node, Shape, Type, make
from lazyt.ir.index import Guard, Guarded, Linear, constant, delinearize, reshape_index
from lazyt.ir.scalar import Arg, Call, Expr, const
from lazyt.ops import builders as build
from lazyt.ops.builders import (
    ConcatParams,
    ExpandParams,
    FlipParams,
    PadParams,
    PermuteParams,
    ReshapeParams,
    SliceParams,
    WindowParams,
)
from lazyt.ops.compositions import (
    Spread,
    batch_all,
    contract_spread,
    positions,
    slice_contract,
    zeros_like,
)
from lazyt.ops.registry import define_op, linear_jvp

Index = tuple[Linear, ...]


# ----------------------------------------------------------------------------- reshape


def _reshape_infer(params: ReshapeParams, node: Node) -> Type:
    if prod(params.shape) != node.size or any(n < 0 for n in params.shape):
        raise ShapeError(f"shape '{list(params.shape)}' is invalid for input of size {node.size}")
    return Type(params.shape, node.dtype)


def _reshape_evaluate(node: Node, array: Any) -> Any:
    return array.reshape(node.shape)


def _reshape_vjp(node: Node, cotangent: Node) -> list[Node | None]:
    return [build.reshape(cotangent, node.inputs[0].shape)]


def _reshape_batch(node: Node, inputs: Sequence[Node], batched: Sequence[bool]) -> Node:
    return build.reshape(inputs[0], (inputs[0].shape[0], *node.shape))


def _reshape_lower(node: Node, index: Index, read: Any) -> Expr:
    (source,) = node.inputs
    value: Expr = read(source, reshape_index(index, node.shape, source.shape))
    return value


RESHAPE = define_op(
    "reshape",
    params=ReshapeParams,
    infer=_reshape_infer,
    evaluate=_reshape_evaluate,
    vjp=_reshape_vjp,
    jvp=linear_jvp,
    batch=_reshape_batch,
    lower=_reshape_lower,
    movement="ordered",
)


# ----------------------------------------------------------------------------- permute


def _permute_infer(params: PermuteParams, node: Node) -> Type:
    if sorted(params.axes) != list(range(len(node.shape))):
        raise ShapeError(f"permute: {params.axes} does not order the axes of {list(node.shape)}")
    return Type(tuple(node.shape[a] for a in params.axes), node.dtype)


def _permute_evaluate(node: Node, array: Any) -> Any:
    return array.transpose(node.params.axes)


def _inverse(axes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(sorted(range(len(axes)), key=axes.__getitem__))


def _permute_vjp(node: Node, cotangent: Node) -> list[Node | None]:
    return [build.permute(cotangent, _inverse(node.params.axes))]


def _permute_batch(node: Node, inputs: Sequence[Node], batched: Sequence[bool]) -> Node:
    return build.permute(inputs[0], (0, *(a + 1 for a in node.params.axes)))


def _permute_lower(node: Node, index: Index, read: Any) -> Expr:
    value: Expr = read(node.inputs[0], tuple(index[a] for a in _inverse(node.params.axes)))
    return value


PERMUTE = define_op(
    "permute",
    params=PermuteParams,
    infer=_permute_infer,
    evaluate=_permute_evaluate,
    vjp=_permute_vjp,
    jvp=linear_jvp,
    batch=_permute_batch,
    lower=_permute_lower,
    movement="reordered",
)


# ------------------------------------------------------------------------------ expand


def _expand_infer(params: ExpandParams, node: Node) -> Type:
    fits = len(params.shape) == len(node.shape) and all(
        old in (1, new) and new >= 0 for old, new in zip(node.shape, params.shape)
    )
    if not fits:
        raise ShapeError(f"expand: {list(node.shape)} does not expand to {list(params.shape)}")
    return Type(params.shape, node.dtype)


def _expand_evaluate(node: Node, array: Any) -> Any:
    return np.broadcast_to(array, node.shape)


def _expand_vjp(node: Node, cotangent: Node) -> list[Node | None]:
    return [build.sum_to(cotangent, node.inputs[0].shape)]


def _expand_batch(node: Node, inputs: Sequence[Node], batched: Sequence[bool]) -> Node:
    return build.expand(inputs[0], (inputs[0].shape[0], *node.shape))


def _expand_lower(node: Node, index: Index, read: Any) -> Expr:
    (source,) = node.inputs
    at = tuple(constant(0) if n == 1 else i for i, n in zip(index, source.shape))
    value: Expr = read(source, at)
    return value


EXPAND = define_op(
    "expand",
    params=ExpandParams,
    infer=_expand_infer,
    evaluate=_expand_evaluate,
    vjp=_expand_vjp,
    jvp=linear_jvp,
    batch=_expand_batch,
    lower=_expand_lower,
    movement="ordered",
)


# ------------------------------------------------------------------------- slice, flip


def check_slices(name: str, shape: Shape, params: SliceParams) -> None:
    """Raise ShapeError or BoundsError unless the slices lie inside ``shape``."""
    rank = len(shape)
    if not rank == len(params.starts) == len(params.sizes) == len(params.steps):
        raise ShapeError(f"{name}: {params} does not fit the shape {list(shape)}")
    for extent, start, size, step in zip(shape, *params):
        if step == 0 or size < 0:
            raise ShapeError(f"{name}: size {size} and step {step} are not allowed")
        last = start + (size - 1) * step
        if size and not (0 <= start < extent and 0 <= last < extent):
            raise BoundsError(f"{name}: {start}..{last} leaves an axis of extent {extent}")


def numpy_slices(params: SliceParams) -> tuple[slice, ...]:
    """The same slices for NumPy."""
    out = []
    for start, size, step in zip(*params):
        stop = start + size * step
        out.append(slice(0, 0) if size == 0 else slice(start, stop if stop >= 0 else None, step))
    return tuple(out)


def _slice_infer(params: SliceParams, node: Node) -> Type:
    check_slices("slice", node.shape, params)
    return Type(params.sizes, node.dtype)


def _slice_evaluate(node: Node, array: Any) -> Any:
    return array[numpy_slices(node.params)]


def _slice_vjp(node: Node, cotangent: Node) -> list[Node | None]:
    """Zeros between and around: a pad, after the axes that ran backwards are flipped."""
    (source,) = node.inputs
    if node.size == 0:
        return [build.broadcast_to(build.constant(0, node.dtype), source.shape)]
    turned = build.flip(cotangent, [a for a, step in enumerate(node.params.steps) if step < 0])
    low, high, interior = [], [], []
    for extent, start, size, step in zip(source.shape, *node.params):
        last = start + (size - 1) * step
        low.append(min(start, last))
        high.append(extent - 1 - max(start, last))
        interior.append(abs(step) - 1 if size > 1 else 0)
    return [build.pad(turned, low, high, interior, 0)]


def _slice_batch(node: Node, inputs: Sequence[Node], batched: Sequence[bool]) -> Node:
    starts, sizes, steps = node.params
    return build.slice_(inputs[0], (0, *starts), (inputs[0].shape[0], *sizes), (1, *steps))


def _slice_lower(node: Node, index: Index, read: Any) -> Expr:
    starts, _, steps = node.params
    at = tuple(i * step + start for i, start, step in zip(index, starts, steps))
    value: Expr = read(node.inputs[0], at)
    return value


SLICE = define_op(
    "slice",
    params=SliceParams,
    infer=_slice_infer,
    evaluate=_slice_evaluate,
    vjp=_slice_vjp,
    jvp=linear_jvp,
    batch=_slice_batch,
    lower=_slice_lower,
    movement="selected",
)


def _flip_infer(params: FlipParams, node: Node) -> Type:
    axes = params.axes
    if any(not 0 <= a < len(node.shape) for a in axes) or len(set(axes)) < len(axes):
        raise BoundsError(f"flip: axes {axes} of a value of shape {list(node.shape)}")
    return Type(node.shape, node.dtype)


def _flip_evaluate(node: Node, array: Any) -> Any:
    return np.flip(array, node.params.axes)


def _flip_vjp(node: Node, cotangent: Node) -> list[Node | None]:
    return [build.flip(cotangent, node.params.axes)]


def _flip_batch(node: Node, inputs: Sequence[Node], batched: Sequence[bool]) -> Node:
    return build.flip(inputs[0], [a + 1 for a in node.params.axes])


def _flip_lower(node: Node, index: Index, read: Any) -> Expr:
    at = list(index)
    for axis in node.params.axes:
        at[axis] = index[axis] * -1 + (node.shape[axis] - 1)
    value: Expr = read(node.inputs[0], tuple(at))
    return value


FLIP = define_op(
    "flip",
    params=FlipParams,
    infer=_flip_infer,
    evaluate=_flip_evaluate,
    vjp=_flip_vjp,
    jvp=linear_jvp,
    batch=_flip_batch,
    lower=_flip_lower,
    movement="reordered",
)


# Ops that place elements among others: pad and concat.


def _span(extent: int, interior: int) -> int:
    """How far an axis reaches once its elements are spread out."""
    return (extent - 1) * (interior + 1) + 1 if extent else 0


def _pad_infer(params: PadParams, node: Node) -> Type:
    low, high, interior, fill = params
    if not len(node.shape) == len(low) == len(high) == len(interior):
        raise ShapeError(f"pad: {params} does not fit the shape {list(node.shape)}")
    if min((0, *low, *high, *interior)) < 0:
        raise ShapeError(f"pad: widths must not be negative: {low}, {high}, {interior}")
    if fill.dtype is not node.dtype:
        raise DTypeError(f"pad: the fill is {fill.dtype.name}, the value {node.dtype.name}")
    spans = map(_span, node.shape, interior)
    return Type(tuple(a + n + b for a, n, b in zip(low, spans, high)), node.dtype)


def _pad_evaluate(node: Node, array: Any) -> Any:
    low, _, interior, fill = node.params
    out = np.full(node.shape, fill.value, node.dtype.compute.numpy)
    spans = map(_span, array.shape, interior)
    out[tuple(slice(a, a + n, i + 1) for a, n, i in zip(low, spans, interior))] = array
    return out


def _pad_vjp(node: Node, cotangent: Node) -> list[Node | None]:
    low, _, interior, _ = node.params
    part = None if any(interior) else _part_of_contract(cotangent, low, node.inputs[0].shape)
    if part is not None:
        return [part]
    return [build.slice_(cotangent, low, node.inputs[0].shape, [i + 1 for i in interior])]


def _part_of_contract(node: Node, starts: Sequence[int], sizes: Shape) -> Node | None:
    """A part of a contraction, computed alone; also of a reshaped one (groups of channels side by
    side), where the reshape leaves the axes that are cut as they are."""
    source = node
    while source.op.name == "reshape":
        source = source.inputs[0]
    if source.op.name != "contract" or node.size == 0:
        return None
    begins, extents = [0] * len(source.shape), list(source.shape)
    for axis, (start, size, whole) in enumerate(zip(starts, sizes, node.shape, strict=True)):
        if size == whole:
            continue
        before = prod(node.shape[:axis])
        found = [n for n, e in enumerate(source.shape) if e == whole]
        found = [n for n in found if prod(source.shape[:n]) == before]
        if not found:
            return None
        begins[found[0]], extents[found[0]] = start, size
    return build.reshape(slice_contract(source, begins, extents), sizes)


def _pad_jvp(node: Node, tangents: Sequence[Node | None]) -> Node | None:
    low, high, interior, _ = node.params
    return None if tangents[0] is None else build.pad(tangents[0], low, high, interior, 0)


def _pad_batch(node: Node, inputs: Sequence[Node], batched: Sequence[bool]) -> Node:
    low, high, interior, fill = node.params
    return make(PAD, tuple(inputs), PadParams((0, *low), (0, *high), (0, *interior), fill))


def _pad_lower(node: Node, index: Index, read: Any) -> Expr:
    (source,) = node.inputs
    low, high, interior, fill = node.params
    if source.size == 0:
        return const(fill.value, fill.dtype)
    guards: list[Guard] = []
    at: list[Linear] = []
    for position, extent, before, after, gap in zip(index, source.shape, low, high, interior):
        span, step = _span(extent, gap), gap + 1
        smallest, largest = position.bounds
        near = slack(position) if before or after else 0
        if smallest < before or largest >= before + span - near:
            guards.append(Guard(position, before, before + span))
        if step > 1:
            # A whole number of steps more keeps the remainder's operand from being negative.
            guards.append(Guard((position + (-before % step)) % step, 0, 1))
        at.append((position - before) // step)
    value: Expr = read(source, tuple(at))
    return Guarded(tuple(guards), value, const(fill.value, fill.dtype)) if guards else value


PAD = define_op(
    "pad",
    params=PadParams,
    infer=_pad_infer,
    evaluate=_pad_evaluate,
    vjp=_pad_vjp,
    jvp=_pad_jvp,
    batch=_pad_batch,
    lower=_pad_lower,
)


# ------------------------------------------------------------------------------ concat


def _concat_infer(params: ConcatParams, *nodes: Node) -> Type:
    axis = params.axis
    if not nodes:
        raise ShapeError("concat: expected at least one value")
    first = nodes[0]
    if not 0 <= axis < len(first.shape):
        raise ShapeError(f"concat: no axis {axis} in shape {list(first.shape)}")
    total = 0
    for node in nodes:
        if node.dtype is not first.dtype:
            raise DTypeError(f"concat: {node.dtype.name} beside {first.dtype.name}")
        rest = (*node.shape[:axis], *node.shape[axis + 1 :])
        if len(node.shape) != len(first.shape) or rest != (
            *first.shape[:axis],
            *first.shape[axis + 1 :],
        ):
            raise ShapeError(
                f"concat: {list(node.shape)} beside {list(first.shape)} along axis {axis}"
            )
        total += node.shape[axis]
    return Type((*first.shape[:axis], total, *first.shape[axis + 1 :]), first.dtype)


def _concat_evaluate(node: Node, *arrays: Any) -> Any:
    return np.concatenate(arrays, node.params.axis)


def _concat_vjp(node: Node, cotangent: Node) -> list[Node | None]:
    axis, rank = node.params.axis, len(node.shape)
    out: list[Node | None] = []
    start = 0
    for item in node.inputs:
        starts = [0] * rank
        starts[axis] = start
        out.append(build.slice_(cotangent, starts, item.shape, (1,) * rank))
        start += item.shape[axis]
    return out


def _concat_jvp(node: Node, tangents: Sequence[Node | None]) -> Node | None:
    if all(t is None for t in tangents):
        return None
    parts = [zeros_like(x) if t is None else t for x, t in zip(node.inputs, tangents)]
    return build.concat(parts, node.params.axis)


def _concat_batch(node: Node, inputs: Sequence[Node], batched: Sequence[bool]) -> Node:
    return build.concat(batch_all(inputs, batched), node.params.axis + 1)


def _concat_lower(node: Node, index: Index, read: Any) -> Expr:
    axis = node.params.axis
    position = index[axis]
    smallest, largest = position.bounds
    pieces: list[tuple[Guard, Expr]] = []
    start = 0
    for item in node.inputs:
        stop = start + item.shape[axis]
        if start <= largest and smallest < stop:
            # Said outright for one element, as no guard tells the arithmetic of indices.
            inside = constant(0) if item.shape[axis] == 1 else position - start
            value = read(item, (*index[:axis], inside, *index[axis + 1 :]))
            pieces.append((Guard(position, start, stop), value))
        start = stop
    if len(pieces) == 1:
        return pieces[0][1]
    return _chosen(pieces, smallest, const(0, node.dtype))


def _chosen(pieces: Sequence[tuple[Guard, Expr]], smallest: int, nothing: Expr) -> Expr:
    """The piece whose guard holds, found by halving: the depth grows with the logarithm only.

    Every piece is guarded, the last one too: an ``other`` may be evaluated anywhere. ``smallest``
    is the least position, ``nothing`` what stands where there is no piece.
    """
    if not pieces:
        return nothing
    middle = len(pieces) // 2
    if middle < 2:
        guard, value = pieces[0]
        return Guarded((guard,), value, _chosen(pieces[1:], smallest, nothing))
    half = Guard(pieces[0][0].index, smallest, pieces[middle][0].low)
    below = _chosen(pieces[:middle], smallest, nothing)
    return Guarded((half,), below, _chosen(pieces[middle:], smallest, nothing))


CONCAT = define_op(
    "concat",
    params=ConcatParams,
    infer=_concat_infer,
    evaluate=_concat_evaluate,
    vjp=_concat_vjp,
    jvp=_concat_jvp,
    batch=_concat_batch,
    lower=_concat_lower,
)


# ---------------------------------------------------------------------------- window
#
# A strided look at a value in row-major order, the operand of convolutions.


def _window_infer(params: WindowParams, node: Node) -> Type:
    shape, strides, offset = params
    if len(shape) != len(strides) or any(n < 0 for n in shape):
        raise ShapeError(f"window: shape {shape} and strides {strides} do not go together")
    reach = [(n - 1) * s for n, s in zip(shape, strides)]
    first = offset + sum(r for r in reach if r < 0)
    last = offset + sum(r for r in reach if r > 0)
    if prod(shape) and not (first >= 0 and last < node.size):
        raise BoundsError(f"window: elements {first}..{last} of a value of {node.size}")
    return Type(shape, node.dtype)


def _window_evaluate(node: Node, array: Any) -> Any:
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
    pitches = build.row_major(source)
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


def _window_vjp(node: Node, cotangent: Node) -> list[Node | None]:
    (source,) = node.inputs
    if node.size == 0:
        return [zeros_like(source)]
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
        return build.apply("add", *found) if len(found) == 2 else None
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
    node = build.reshape(contract_spread(left, right, a, b, out), head)
    low, high, gaps = [], [], []
    for group, extent, count in zip(groups, source, head):
        step = group.walks[0][1] if len(group.walks) == 1 else 1
        start = group.start if len(group.walks) < 2 else 0
        low.append(start)
        high.append(extent - 1 - start - (count - 1) * step)
        gaps.append(step - 1)
    return build.pad(node, low, high, gaps, 0)


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
    offsets = positions(params.shape, params.strides, params.offset)
    index = build.reshape(offsets, (prod(params.shape),))
    flat = build.broadcast_to(build.constant(0, source.dtype), (source.size,))
    values = build.reshape(cotangent, index.shape)
    return build.reshape(build.scatter(flat, index, values, 0, "add"), source.shape)


def _fold_back(source: Shape, params: WindowParams, cotangent: Node, groups: list[_Group]) -> Node:
    """The overlap-add without any scatter: spread the long walk, slide the short one, sum it.

    ``out[p] = sum over k of g[(p - start - k * d) / s, k]`` becomes a sum over a window on the
    cotangent spread by s and flipped along k, so that it fuses like any reduction.
    """
    longs = [g.walks[0][0] for g in groups if g.walks]
    shorts = [g.walks[1][0] for g in groups if len(g.walks) == 2]
    rest = [a for a in range(len(params.shape)) if a not in longs and a not in shorts]
    kept = sorted(longs + shorts)
    summed = build.reduce_("sum", cotangent, rest)
    summed = build.permute(summed, [kept.index(a) for a in longs + shorts])
    tail = tuple(params.shape[a] for a in shorts)
    head = tuple(params.shape[g.walks[0][0]] if g.walks else 1 for g in groups)
    rank, count = len(head), len(tail)
    turned = build.flip(build.reshape(summed, head + tail), range(rank, rank + count))
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
    spread = build.pad(turned, low + none, high + none, interior + none, 0)
    if not count:
        return spread
    pitches = build.row_major(spread.shape)
    slopes = [pace * pitches[axis] + pitches[rank + n] for n, (axis, pace) in enumerate(slides)]
    slid = build.window(spread, source + tail, (*pitches[:rank], *slopes), 0)
    return build.reduce_("sum", slid, range(rank, rank + count))


def _window_batch(node: Node, inputs: Sequence[Node], batched: Sequence[bool]) -> Node:
    shape, strides, offset = node.params
    size = inputs[0].shape[0]
    return build.window(inputs[0], (size, *shape), (node.inputs[0].size, *strides), offset)


def _window_lower(node: Node, index: Index, read: Any) -> Expr:
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
    for pitch, extent in zip(build.row_major(source), source):
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
    infer=_window_infer,
    evaluate=_window_evaluate,
    vjp=_window_vjp,
    jvp=linear_jvp,
    batch=_window_batch,
    lower=_window_lower,
    movement="selected",
)
