"""Folds: ``reduce`` over axes, or to the position of the first extreme; ``scan``, running; and
``contract``, a sum of products over labelled axes, as einsum of two operands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lazyt.errors import BoundsError, DTypeError, InternalError, ShapeError
from lazyt.ir.dtypes import bool_, int64, running_dtype
from lazyt.ir.graph import Node, Type, make
from lazyt.ops import builders as build
from lazyt.ops.builders import ContractParams, ReduceParams, ScanParams
from lazyt.ops.compositions import (
    along_axis,
    exclusive_product,
    linear_recurrence,
    positions,
    shift,
)
from lazyt.ops.registry import define_op

_FOLDS: dict[str, Any] = {
    "sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum,
    "any": np.logical_or, "all": np.logical_and,
}  # fmt: skip
#: What reductions of no elements are.
IDENTITIES = {"sum": 0, "prod": 1, "any": 0, "all": 1}
_ARGS: dict[str, Any] = {"argmax": np.argmax, "argmin": np.argmin}


def _infer(params: ReduceParams, node: Node) -> Type:
    kind, axes = params
    if kind not in _FOLDS and kind not in _ARGS:
        raise InternalError("ops.reduction", f"no reduction is called {kind!r}")
    if sorted(set(axes)) != list(axes) or any(not 0 <= a < len(node.shape) for a in axes):
        raise BoundsError(f"{kind}: axes {axes} of a value of shape {list(node.shape)}")
    if kind in ("any", "all") and node.dtype is not bool_:
        raise DTypeError(f"{kind} takes bool, not {node.dtype.name}")
    if kind in ("sum", "prod") and node.dtype is bool_:
        raise DTypeError(f"{kind} does not take bool")
    if kind in _ARGS and len(axes) != 1:
        raise ShapeError(f"{kind} takes one axis, not {axes}")
    if node.dtype.kind == "c" and kind not in ("sum", "prod"):
        raise DTypeError(f"{kind} does not take {node.dtype.name}")
    if kind in ("max", "min", *_ARGS) and 0 in [node.shape[a] for a in axes]:
        raise ShapeError(f"{kind} of no elements: shape {list(node.shape)}, axes {axes}")
    shape = tuple(n for a, n in enumerate(node.shape) if a not in axes)
    return Type(shape, int64 if kind in _ARGS else node.dtype)


def _evaluate(node: Node, array: Any) -> Any:
    kind, axes = node.params
    if kind in _ARGS:
        return np.asarray(_ARGS[kind](array, axes[0])).astype(np.int64)
    if kind in ("sum", "prod"):
        return _FOLDS[kind].reduce(array, axes, dtype=array.dtype)
    return _FOLDS[kind].reduce(array, axes)


def _spread(value: Node, node: Node) -> Node:
    """A value of the result's shape, repeated over the operand's."""
    shape = node.inputs[0].shape
    return build.broadcast_to(
        build.reshape(value, build.keepdim_shape(shape, node.params.axes)), shape
    )


def _shares(node: Node) -> tuple[Node, Node]:
    """For max and min: which elements are the extreme, and how many (ties share evenly).

    Where one is not a number the extreme is none either, and such elements share it.
    """
    (source,) = node.inputs
    equal = build.apply("eq", source, _spread(node, node))
    unknown = build.apply("isnan", build.cast(source, source.dtype.compute))
    mask = build.apply("logical_or", equal, unknown)
    count = build.reduce_("sum", build.cast(mask, source.dtype.compute), node.params.axes)
    return mask, count


def _over(value: Node, count: Node) -> Node:
    """``value / count``, divided in the type of the count: 16 bits do not count far enough."""
    return build.cast(build.apply("div", build.cast(value, count.dtype), count), value.dtype)


def _others(node: Node) -> Node:
    """For prod: the product of all other reduced elements, right among zeros."""
    (source,) = node.inputs
    axes = node.params.axes
    order = [a for a in range(len(source.shape)) if a not in axes] + list(axes)
    moved = build.permute(source, order)
    split = len(source.shape) - len(axes)
    size = 1
    for axis in axes:
        size *= source.shape[axis]
    flat = build.reshape(moved, (*moved.shape[:split], size))
    before = exclusive_product(flat, split)
    turned = build.flip(flat, [split])
    after = build.flip(exclusive_product(turned, split), [split])
    products = build.reshape(build.apply("mul", before, after), moved.shape)
    return build.permute(products, sorted(range(len(order)), key=order.__getitem__))


def _vjp(node: Node, cotangent: Node) -> list[Node | None]:
    kind = node.params.kind
    (source,) = node.inputs
    if kind in _ARGS or source.size == 0:
        return [None]
    if kind == "sum":
        return [_spread(cotangent, node)]
    if kind == "prod":
        return [build.apply("mul", _spread(cotangent, node), build.conj(_others(node)))]
    mask, count = _shares(node)
    share = _spread(_over(cotangent, count), node)
    return [build.apply("where", mask, share, build.constant(0, source.dtype))]


def _jvp(node: Node, tangents: Sequence[Node | None]) -> Node | None:
    kind, axes = node.params
    (source,) = node.inputs
    tangent = tangents[0]
    if tangent is None or kind in _ARGS or source.size == 0:
        return None
    if kind == "sum":
        return build.reduce_("sum", tangent, axes)
    if kind == "prod":
        return build.reduce_("sum", build.apply("mul", tangent, _others(node)), axes)
    mask, count = _shares(node)
    chosen = build.apply("where", mask, tangent, build.constant(0, source.dtype))
    return _over(build.reduce_("sum", chosen, axes), count)


def _batch(node: Node, inputs: Sequence[Node], batched: Sequence[bool]) -> Node:
    kind, axes = node.params
    return make(REDUCE, tuple(inputs), ReduceParams(kind, tuple(a + 1 for a in axes)))


REDUCE = define_op(
    "reduce",
    params=ReduceParams,
    infer=_infer,
    evaluate=_evaluate,
    vjp=_vjp,
    jvp=_jvp,
    batch=_batch,
    lower="reduce",
)


# ------------------------------------------------------------------------------ scan


_RUNNING: dict[str, Any] = {
    "sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum,
}  # fmt: skip


def _scan_infer(params: ScanParams, node: Node) -> Type:
    kind, axis = params
    if kind not in _RUNNING:
        raise InternalError("ops.scanning", f"no scan is called {kind!r}")
    if not 0 <= axis < len(node.shape):
        raise BoundsError(f"scan: no axis {axis} in shape {list(node.shape)}")
    if node.dtype is bool_ or (node.dtype.kind == "c" and kind not in ("sum", "prod")):
        raise DTypeError(f"scan {kind} does not take {node.dtype.name}")
    return Type(node.shape, node.dtype)


def _scan_evaluate(node: Node, array: Any) -> Any:
    kind, axis = node.params
    wide = running_dtype(kind, node.dtype)
    running = array.dtype if wide is node.dtype else wide.numpy
    found = _RUNNING[kind].accumulate(array, axis, dtype=running).astype(array.dtype, copy=False)
    if node.dtype.kind not in "fc":
        return found
    if kind == "sum":
        return found + 0  # sums begin with 0, which -0 added to it leaves
    return found if kind == "prod" else _first_zeros(found, array, axis)


def _first_zeros(extremes: Any, array: Any, axis: int) -> Any:
    """Running extremes, of which those that are zero are the first zero there was: NumPy's have any
    of the signs."""
    zero = extremes == 0
    if not zero.any():
        return extremes
    before = np.roll(zero, 1, axis)
    before[(slice(None),) * axis + (0,)] = False
    ramp = np.arange(array.shape[axis]).reshape([-1 if n == axis else 1 for n in range(array.ndim)])
    first = np.maximum.accumulate(np.where(zero & ~before, ramp, 0), axis)
    return np.where(zero, np.take_along_axis(array, first, axis), extremes)


def _running_extremes(node: Node) -> Node:
    """For max and min: the position along the axis of the running extreme, the last among equals
    and the last NaN, as torch.cummax; int64."""
    (source,) = node.inputs
    axis = node.params.axis
    reached = build.apply("eq", source, node)
    reached = build.apply("logical_or", reached, build.apply("isnan", source))
    strides = [int(a == axis) for a in range(len(node.shape))]
    count = positions(node.shape, strides)
    return build.scan(
        "max", build.apply("where", reached, count, build.constant(0, count.dtype)), axis
    )


def _scan_vjp(node: Node, cotangent: Node) -> list[Node | None]:
    kind, axis = node.params
    (source,) = node.inputs
    if node.size == 0:
        return [None]
    if kind == "sum":
        return [build.flip(build.scan("sum", build.flip(cotangent, [axis]), axis), [axis])]
    if kind == "prod":
        # h[k] = g[k] + x[k+1] * h[k+1] collects what later products send back; right among zeros.
        source = build.conj(source)
        back = linear_recurrence(shift(source, axis, -1, 1), cotangent, axis, reverse=True)
        return [build.apply("mul", exclusive_product(source, axis), back)]
    index = along_axis(_running_extremes(node), axis, node.shape)
    zeros = build.broadcast_to(build.constant(0, node.dtype), (node.size,))
    values = build.reshape(cotangent, (node.size,))
    return [build.reshape(build.scatter(zeros, index, values, 0, "add"), node.shape)]


def _scan_jvp(node: Node, tangents: Sequence[Node | None]) -> Node | None:
    kind, axis = node.params
    tangent = tangents[0]
    if tangent is None or node.size == 0:
        return None
    if kind == "sum":
        return build.scan("sum", tangent, axis)
    if kind == "prod":
        source = node.inputs[0]
        term = build.apply("mul", tangent, exclusive_product(source, axis))
        return linear_recurrence(source, term, axis)
    index = along_axis(_running_extremes(node), axis, node.shape)
    flat = build.reshape(tangent, (node.size,))
    return build.reshape(build.gather(flat, index, 0), node.shape)


def _scan_batch(node: Node, inputs: Sequence[Node], batched: Sequence[bool]) -> Node:
    return build.scan(node.params.kind, inputs[0], node.params.axis + 1)


SCAN = define_op(
    "scan",
    params=ScanParams,
    infer=_scan_infer,
    evaluate=_scan_evaluate,
    vjp=_scan_vjp,
    jvp=_scan_jvp,
    batch=_scan_batch,
    lower="scan",
)


# ------------------------------------------------------------------------------ contract


def _contract_infer(params: ContractParams, left: Node, right: Node) -> Type:
    if left.dtype is not right.dtype:
        raise DTypeError(f"contract: {left.dtype.name} with {right.dtype.name}")
    if left.dtype is bool_:
        raise DTypeError("contract does not take bool")
    extents: dict[int, int] = {}
    for labels, node in ((params.left, left), (params.right, right)):
        if len(set(labels)) != len(labels) or len(labels) != len(node.shape):
            raise ShapeError(f"contract: labels {labels} do not fit {list(node.shape)}")
        for label, extent in zip(labels, node.shape):
            if extents.setdefault(label, extent) != extent:
                raise ShapeError(
                    f"contract: {list(left.shape)} by {params.left} with {list(right.shape)} by "
                    f"{params.right}: axis {label} has extents {extents[label]} and {extent}"
                )
    alone = set(params.left) ^ set(params.right)
    known = len(set(params.out)) == len(params.out) and extents.keys() >= set(params.out)
    if not known or not alone <= set(params.out):
        raise ShapeError(f"contract: {params} leaves an axis without meaning")
    return Type(tuple(extents[label] for label in params.out), left.dtype)


def _contract_evaluate(node: Node, left: Any, right: Any) -> Any:
    numbers: dict[int, int] = {}
    for label in (*node.params.left, *node.params.right):
        numbers.setdefault(label, len(numbers))
    labels = [[numbers[label] for label in axes] for axes in node.params]
    result = np.einsum(left, labels[0], right, labels[1], labels[2], optimize=True)
    return np.asarray(result, left.dtype)


def _contract_vjp(node: Node, cotangent: Node) -> list[Node | None]:
    left, right = map(build.conj, node.inputs)
    a, b, out = node.params
    return [build.contract(cotangent, right, out, b, a), build.contract(left, cotangent, a, out, b)]


def _contract_jvp(node: Node, tangents: Sequence[Node | None]) -> Node | None:
    (left, right), (a, b) = node.inputs, tangents
    first = None if a is None else make(CONTRACT, (a, right), node.params)
    second = None if b is None else make(CONTRACT, (left, b), node.params)
    if first is None or second is None:
        return second if first is None else first
    return build.apply("add", first, second)


def _contract_batch(node: Node, inputs: Sequence[Node], batched: Sequence[bool]) -> Node:
    a, b, out = node.params
    label = max((*a, *b), default=-1) + 1
    left, right = inputs
    return build.contract(
        left,
        right,
        (label, *a) if batched[0] else a,
        (label, *b) if batched[1] else b,
        (label, *out),
    )


CONTRACT = define_op(
    "contract",
    params=ContractParams,
    infer=_contract_infer,
    evaluate=_contract_evaluate,
    vjp=_contract_vjp,
    jvp=_contract_jvp,
    batch=_contract_batch,
    lower="contract",
)
