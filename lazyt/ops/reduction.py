"""``reduce``: folds over axes, and the position of the first extreme along one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from lazyt import ops
from lazyt.errors import BoundsError, DTypeError, InternalError, ShapeError
from lazyt.ir.dtypes import bool_, int64
from lazyt.ir.graph import Node, Shape, Type, make
from lazyt.ops.registry import define_op


class ReduceParams(NamedTuple):
    """``kind``: sum prod max min any all argmax argmin; ``axes`` ascending, removed."""

    kind: str
    axes: tuple[int, ...]


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


def kept_shape(shape: Shape, axes: Iterable[int]) -> Shape:
    """``shape`` with ``axes`` of extent 1."""
    found = set(axes)
    return tuple(1 if a in found else n for a, n in enumerate(shape))


def _spread(value: Node, node: Node) -> Node:
    """A value of the result's shape, repeated over the operand's."""
    shape = node.inputs[0].shape
    return ops.broadcast_to(ops.reshape(value, kept_shape(shape, node.params.axes)), shape)


def _shares(node: Node) -> tuple[Node, Node]:
    """For max and min: which elements are the extreme, and how many (ties share evenly).

    Where one is not a number the extreme is none either, and such elements share it.
    """
    (source,) = node.inputs
    equal = ops.apply("eq", source, _spread(node, node))
    unknown = ops.apply("isnan", ops.cast(source, source.dtype.compute))
    mask = ops.apply("logical_or", equal, unknown)
    count = reduce_("sum", ops.cast(mask, source.dtype.compute), node.params.axes)
    return mask, count


def _over(value: Node, count: Node) -> Node:
    """``value / count``, divided in the type of the count: 16 bits do not count far enough."""
    return ops.cast(ops.apply("div", ops.cast(value, count.dtype), count), value.dtype)


def _others(node: Node) -> Node:
    """For prod: the product of all other reduced elements, right among zeros."""
    (source,) = node.inputs
    axes = node.params.axes
    order = [a for a in range(len(source.shape)) if a not in axes] + list(axes)
    moved = ops.permute(source, order)
    split = len(source.shape) - len(axes)
    size = 1
    for axis in axes:
        size *= source.shape[axis]
    flat = ops.reshape(moved, (*moved.shape[:split], size))
    before = ops.exclusive_product(flat, split)
    turned = ops.flip(flat, [split])
    after = ops.flip(ops.exclusive_product(turned, split), [split])
    products = ops.reshape(ops.apply("mul", before, after), moved.shape)
    return ops.permute(products, sorted(range(len(order)), key=order.__getitem__))


def _vjp(node: Node, cotangent: Node) -> list[Node | None]:
    kind = node.params.kind
    (source,) = node.inputs
    if kind in _ARGS or source.size == 0:
        return [None]
    if kind == "sum":
        return [_spread(cotangent, node)]
    if kind == "prod":
        return [ops.apply("mul", _spread(cotangent, node), _others(node))]
    mask, count = _shares(node)
    share = _spread(_over(cotangent, count), node)
    return [ops.apply("where", mask, share, ops.constant(0, source.dtype))]


def _jvp(node: Node, tangents: Sequence[Node | None]) -> Node | None:
    kind, axes = node.params
    (source,) = node.inputs
    tangent = tangents[0]
    if tangent is None or kind in _ARGS or source.size == 0:
        return None
    if kind == "sum":
        return reduce_("sum", tangent, axes)
    if kind == "prod":
        return reduce_("sum", ops.apply("mul", tangent, _others(node)), axes)
    mask, count = _shares(node)
    chosen = ops.apply("where", mask, tangent, ops.constant(0, source.dtype))
    return _over(reduce_("sum", chosen, axes), count)


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


def reduce_(kind: str, node: Node, axes: Iterable[int]) -> Node:
    """``sum prod max min any all`` over ``axes``, which are removed; the type is kept.

    16-bit floats accumulate in float32; integers wrap. Raises DTypeError (any and all take bool,
    sum and prod do not) and ShapeError (max or min of no elements).
    """
    ordered = tuple(sorted(axes))
    return make(REDUCE, (node,), ReduceParams(kind, ordered)) if ordered else node


def arg_reduce(kind: str, node: Node, axis: int) -> Node:
    """``argmax`` or ``argmin`` along ``axis``: int64, the first extreme; NaN is one (PyTorch)."""
    return make(REDUCE, (node,), ReduceParams(kind, (axis,)))


def reduction_runs(axes: Sequence[int], shape: Shape) -> list[tuple[int, int]]:
    """Maximal runs [first, last] of reduced axes with only axes of extent 1 between them.

    A reduction folds each run as one axis, one run after the other, last first: its order depends
    on its own shape and axes alone, whatever is fused.
    """
    runs: list[tuple[int, int]] = []
    for axis in axes:
        if runs and all(shape[a] == 1 for a in range(runs[-1][1] + 1, axis)):
            runs[-1] = (runs[-1][0], axis)
        else:
            runs.append((axis, axis))
    return runs


def sum_to(node: Node, shape: Shape) -> Node:
    """The inverse of broadcasting: ``node`` summed over the axes that ``shape`` was repeated on."""
    if node.shape == shape:
        return node
    new = len(node.shape) - len(shape)
    axes = [a for a, n in enumerate(node.shape) if a < new or (shape[a - new] == 1 and n != 1)]
    return ops.reshape(reduce_("sum", node, axes), shape)
