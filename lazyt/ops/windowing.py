"""``window``: a strided look at a value in row-major order, the operand of convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from lazyt import ops
from lazyt.errors import BoundsError, ShapeError
from lazyt.ir.graph import Node, Shape, Type, make
from lazyt.ir.index import Linear, constant, delinearize
from lazyt.ir.scalar import Arg, Call, Expr
from lazyt.ops.registry import define_op, linear_jvp
from lazyt.ops.sliding import Spread, contract_spread

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
