"""Ops that only move elements: reshape, permute, expand, slice, flip."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from lazyt import ops
from lazyt.errors import BoundsError, DTypeError, ShapeError
from lazyt.ir.decisions import slack
from lazyt.ir.graph import Node, Shape, Type, make
from lazyt.ir.index import Guard, Guarded, Linear, constant, reshape_index
from lazyt.ir.scalar import Const, Expr, Number, const
from lazyt.ops.leaves import representable
from lazyt.ops.registry import define_op, linear_jvp

Index = tuple[Linear, ...]


# ----------------------------------------------------------------------------- reshape


class ReshapeParams(NamedTuple):
    """The new shape."""

    shape: Shape


def _reshape_infer(params: ReshapeParams, node: Node) -> Type:
    if prod(params.shape) != node.size or any(n < 0 for n in params.shape):
        raise ShapeError(f"shape '{list(params.shape)}' is invalid for input of size {node.size}")
    return Type(params.shape, node.dtype)


def _reshape_evaluate(node: Node, array: Any) -> Any:
    return array.reshape(node.shape)


def _reshape_vjp(node: Node, cotangent: Node) -> list[Node | None]:
    return [reshape(cotangent, node.inputs[0].shape)]


def _reshape_batch(node: Node, inputs: Sequence[Node], batched: Sequence[bool]) -> Node:
    return reshape(inputs[0], (inputs[0].shape[0], *node.shape))


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
)


def reshape(node: Node, shape: Sequence[int]) -> Node:
    """The same elements in row-major order under another shape; raises ShapeError on a misfit."""
    shape = tuple(shape)
    return node if shape == node.shape else make(RESHAPE, (node,), ReshapeParams(shape))


# ----------------------------------------------------------------------------- permute


class PermuteParams(NamedTuple):
    """Result axis i is operand axis ``axes[i]``."""

    axes: tuple[int, ...]


def _permute_infer(params: PermuteParams, node: Node) -> Type:
    if sorted(params.axes) != list(range(len(node.shape))):
        raise ShapeError(f"permute: {params.axes} does not order the axes of {list(node.shape)}")
    return Type(tuple(node.shape[a] for a in params.axes), node.dtype)


def _permute_evaluate(node: Node, array: Any) -> Any:
    return array.transpose(node.params.axes)


def _inverse(axes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(sorted(range(len(axes)), key=axes.__getitem__))


def _permute_vjp(node: Node, cotangent: Node) -> list[Node | None]:
    return [permute(cotangent, _inverse(node.params.axes))]


def _permute_batch(node: Node, inputs: Sequence[Node], batched: Sequence[bool]) -> Node:
    return permute(inputs[0], (0, *(a + 1 for a in node.params.axes)))


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
)


def permute(node: Node, axes: Sequence[int]) -> Node:
    """The axes reordered: result axis i is axis ``axes[i]`` of ``node``."""
    axes = tuple(axes)
    if axes == tuple(range(len(node.shape))):
        return node
    return make(PERMUTE, (node,), PermuteParams(axes))


# ------------------------------------------------------------------------------ expand


class ExpandParams(NamedTuple):
    """The new shape, of the operand's rank."""

    shape: Shape


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
    return [ops.sum_to(cotangent, node.inputs[0].shape)]


def _expand_batch(node: Node, inputs: Sequence[Node], batched: Sequence[bool]) -> Node:
    return expand(inputs[0], (inputs[0].shape[0], *node.shape))


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
)


def expand(node: Node, shape: Sequence[int]) -> Node:
    """Axes of size 1 repeated to the extents of ``shape``, which has the same rank."""
    shape = tuple(shape)
    return node if shape == node.shape else make(EXPAND, (node,), ExpandParams(shape))


def broadcast_to(node: Node, shape: Shape) -> Node:
    """``node`` repeated to ``shape`` under NumPy's rules (new axes come first)."""
    if node.shape == shape:
        return node
    ones = (1,) * (len(shape) - len(node.shape))
    return expand(reshape(node, (*ones, *node.shape)), shape)


# ------------------------------------------------------------------------- slice, flip


class SliceParams(NamedTuple):
    """Element i of axis a is operand element ``starts[a] + i * steps[a]``."""

    starts: tuple[int, ...]
    sizes: tuple[int, ...]
    steps: tuple[int, ...]


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
    """Zeros between and around: a pad, after the axes that ran backwards are turned."""
    (source,) = node.inputs
    if node.size == 0:
        return [broadcast_to(ops.constant(0, node.dtype), source.shape)]
    turned = flip(cotangent, [a for a, step in enumerate(node.params.steps) if step < 0])
    low, high, interior = [], [], []
    for extent, start, size, step in zip(source.shape, *node.params):
        last = start + (size - 1) * step
        low.append(min(start, last))
        high.append(extent - 1 - max(start, last))
        interior.append(abs(step) - 1 if size > 1 else 0)
    return [ops.pad(turned, low, high, interior, 0)]


def _slice_batch(node: Node, inputs: Sequence[Node], batched: Sequence[bool]) -> Node:
    starts, sizes, steps = node.params
    return slice_(inputs[0], (0, *starts), (inputs[0].shape[0], *sizes), (1, *steps))


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
)


def slice_(node: Node, starts: Sequence[int], sizes: Sequence[int], steps: Sequence[int]) -> Node:
    """Element i of axis a is element ``starts[a] + i * steps[a]``; steps may be negative, not 0."""
    params = SliceParams(tuple(starts), tuple(sizes), tuple(steps))
    whole = params.sizes == node.shape and not any(params.starts)
    if whole and all(step == 1 for step in params.steps):
        return node
    return make(SLICE, (node,), params)


class FlipParams(NamedTuple):
    """Axes to reverse, ascending."""

    axes: tuple[int, ...]


def _flip_infer(params: FlipParams, node: Node) -> Type:
    if any(not 0 <= a < len(node.shape) for a in params.axes):
        raise BoundsError(f"flip: axes {params.axes} of a value of shape {list(node.shape)}")
    return Type(node.shape, node.dtype)


def _flip_evaluate(node: Node, array: Any) -> Any:
    return np.flip(array, node.params.axes)


def _flip_vjp(node: Node, cotangent: Node) -> list[Node | None]:
    return [flip(cotangent, node.params.axes)]


def _flip_batch(node: Node, inputs: Sequence[Node], batched: Sequence[bool]) -> Node:
    return flip(inputs[0], [a + 1 for a in node.params.axes])


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
)


def flip(node: Node, axes: Sequence[int]) -> Node:
    """The axes reversed; the node itself when there are none."""
    ordered = tuple(sorted(set(axes)))
    return make(FLIP, (node,), FlipParams(ordered)) if ordered else node


# Ops that place elements among others: pad and concat.


class PadParams(NamedTuple):
    """Per axis: fill elements before, after, and between neighbours; ``fill`` as a literal."""

    low: tuple[int, ...]
    high: tuple[int, ...]
    interior: tuple[int, ...]
    fill: Const


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
    return [ops.slice_(cotangent, low, node.inputs[0].shape, [i + 1 for i in interior])]


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
    return ops.reshape(ops.slice_contract(source, begins, extents), sizes)


def _pad_jvp(node: Node, tangents: Sequence[Node | None]) -> Node | None:
    low, high, interior, _ = node.params
    return None if tangents[0] is None else pad(tangents[0], low, high, interior, 0)


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


def pad(
    node: Node, low: Sequence[int], high: Sequence[int], interior: Sequence[int], fill: Number
) -> Node:
    """``node`` amid fill elements: ``low`` before, ``high`` after, ``interior`` between neighbours.

    Widths are per axis and not negative (ShapeError); the meaning is that of XLA's Pad.
    """
    if not (any(low) or any(high) or any(interior)):
        return node
    literal = const(representable(fill, node.dtype), node.dtype)
    assert isinstance(literal, Const)
    return make(PAD, (node,), PadParams(tuple(low), tuple(high), tuple(interior), literal))


# ------------------------------------------------------------------------------ concat


class ConcatParams(NamedTuple):
    """The axis along which the operands follow each other."""

    axis: int


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
        out.append(ops.slice_(cotangent, starts, item.shape, (1,) * rank))
        start += item.shape[axis]
    return out


def _concat_jvp(node: Node, tangents: Sequence[Node | None]) -> Node | None:
    if all(t is None for t in tangents):
        return None
    parts = [ops.zeros_like(x) if t is None else t for x, t in zip(node.inputs, tangents)]
    return concat(parts, node.params.axis)


def _concat_batch(node: Node, inputs: Sequence[Node], batched: Sequence[bool]) -> Node:
    return concat(ops.batch_all(inputs, batched), node.params.axis + 1)


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


def concat(nodes: Sequence[Node], axis: int) -> Node:
    """``nodes`` one after the other along ``axis``; other extents and types must agree."""
    return nodes[0] if len(nodes) == 1 else make(CONCAT, tuple(nodes), ConcatParams(axis))
