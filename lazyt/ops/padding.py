"""Ops that place elements among others: pad and concat."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from lazyt import ops
from lazyt.errors import DTypeError, ShapeError
from lazyt.ir.decisions import slack
from lazyt.ir.graph import Node, Shape, Type, make
from lazyt.ir.index import Linear, constant
from lazyt.ir.point import Guard, Guarded
from lazyt.ir.scalar import Const, Expr, Number, const
from lazyt.ops.leaves import representable
from lazyt.ops.registry import define_op

Index = tuple[Linear, ...]


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
