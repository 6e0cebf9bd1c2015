"""``scan``: running folds along an axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from lazyt import ops
from lazyt.errors import BoundsError, DTypeError, InternalError
from lazyt.ir.dtypes import bool_, running_dtype
from lazyt.ir.graph import Node, Type, make
from lazyt.ir.scalar import Number
from lazyt.ops.registry import define_op


class ScanParams(NamedTuple):
    """``kind``: sum prod max min; the fold includes the element itself."""

    kind: str
    axis: int


_FOLDS: dict[str, Any] = {
    "sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum,
}  # fmt: skip


def _infer(params: ScanParams, node: Node) -> Type:
    kind, axis = params
    if kind not in _FOLDS:
        raise InternalError("ops.scanning", f"no scan is called {kind!r}")
    if not 0 <= axis < len(node.shape):
        raise BoundsError(f"scan: no axis {axis} in shape {list(node.shape)}")
    if node.dtype is bool_:
        raise DTypeError("scan does not take bool")
    return Type(node.shape, node.dtype)


def _evaluate(node: Node, array: Any) -> Any:
    kind, axis = node.params
    wide = running_dtype(kind, node.dtype)
    running = array.dtype if wide is node.dtype else wide.numpy
    return _FOLDS[kind].accumulate(array, axis, dtype=running).astype(array.dtype, copy=False)


def _shift(node: Node, axis: int, steps: int, fill: Number) -> Node:
    """``node`` moved ``steps`` later along ``axis``, ``fill`` moving in."""
    rank = len(node.shape)
    sizes = list(node.shape)
    low, none = [0] * rank, [0] * rank
    low[axis] = min(steps, sizes[axis])
    sizes[axis] -= low[axis]
    return ops.pad(ops.slice_(node, none, sizes, [1] * rank), low, none, none, fill)


def exclusive_product(node: Node, axis: int) -> Node:
    """The product of all earlier elements along ``axis``; 1 for the first."""
    return _shift(scan("prod", node, axis), axis, 1, 1)


def linear_recurrence(factor: Node, term: Node, axis: int) -> Node:
    """``h[j] = factor[j] * h[j-1] + term[j]`` along ``axis`` from zero, in log2(n) doublings
    (Blelloch, "Prefix sums and their applications", 1990); differentiable to any order."""
    steps = 1
    while steps < term.shape[axis]:
        carried = ops.apply("mul", factor, _shift(term, axis, steps, 0))
        term = ops.apply("add", term, carried)
        factor = ops.apply("mul", factor, _shift(factor, axis, steps, 1))
        steps *= 2
    return term


def _winners(node: Node) -> Node:
    """For max and min: the position along the axis of the running extreme, the last among equals
    and the last NaN, as torch.cummax; int64."""
    (source,) = node.inputs
    axis = node.params.axis
    reached = ops.apply("eq", source, node)
    reached = ops.apply("logical_or", reached, ops.apply("isnan", source))
    strides = [int(a == axis) for a in range(len(node.shape))]
    count = ops.positions(node.shape, strides)
    return scan("max", ops.apply("where", reached, count, ops.constant(0, count.dtype)), axis)


def _vjp(node: Node, cotangent: Node) -> list[Node | None]:
    kind, axis = node.params
    (source,) = node.inputs
    if node.size == 0:
        return [None]
    if kind == "sum":
        return [ops.flip(scan("sum", ops.flip(cotangent, [axis]), axis), [axis])]
    if kind == "prod":
        # h[k] = g[k] + x[k+1] * h[k+1] collects what later products send back; right among zeros.
        factor = _shift(ops.flip(source, [axis]), axis, 1, 1)
        back = linear_recurrence(factor, ops.flip(cotangent, [axis]), axis)
        before = exclusive_product(source, axis)
        return [ops.apply("mul", before, ops.flip(back, [axis]))]
    index = ops.along_axis(_winners(node), axis, node.shape)
    zeros = ops.broadcast_to(ops.constant(0, node.dtype), (node.size,))
    values = ops.reshape(cotangent, (node.size,))
    return [ops.reshape(ops.scatter(zeros, index, values, 0, "add"), node.shape)]


def _jvp(node: Node, tangents: Sequence[Node | None]) -> Node | None:
    kind, axis = node.params
    tangent = tangents[0]
    if tangent is None or node.size == 0:
        return None
    if kind == "sum":
        return scan("sum", tangent, axis)
    if kind == "prod":
        source = node.inputs[0]
        term = ops.apply("mul", tangent, exclusive_product(source, axis))
        return linear_recurrence(source, term, axis)
    index = ops.along_axis(_winners(node), axis, node.shape)
    flat = ops.reshape(tangent, (node.size,))
    return ops.reshape(ops.gather(flat, index, 0), node.shape)


def _batch(node: Node, inputs: Sequence[Node], batched: Sequence[bool]) -> Node:
    return scan(node.params.kind, inputs[0], node.params.axis + 1)


SCAN = define_op(
    "scan",
    params=ScanParams,
    infer=_infer,
    evaluate=_evaluate,
    vjp=_vjp,
    jvp=_jvp,
    batch=_batch,
    lower="scan",
)


def scan(kind: str, node: Node, axis: int) -> Node:
    """The inclusive running ``sum``, ``prod``, ``max`` or ``min`` along ``axis``; type kept.

    NaN stays once it is met. Raises DTypeError for bool.
    """
    return make(SCAN, (node,), ScanParams(kind, axis))
