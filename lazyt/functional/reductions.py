"""Sums, means, extremes and spreads, over all elements or along dimensions.

Every function takes ``dim`` (or ``axis``) as one dimension or several, and ``keepdim`` (or
``keepdims``). A bad dimension raises BoundsError, a repeated one ShapeError, in PyTorch's words.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any

from lazyt import ops
from lazyt.cast_mode import in_full_precision
from lazyt.errors import BoundsError, DTypeError, LazytError
from lazyt.functional import return_types
from lazyt.functional.arithmetic import maximum, minimum, scalar_build
from lazyt.functional.choice import where
from lazyt.functional.operands import (
    constant_of,
    mapped,
    normalize_dim,
    normalize_dims,
    numpy_names,
)
from lazyt.functional.picking import gather_node
from lazyt.functional.promotion import as_dtype, torch_name
from lazyt.functional.results import give
from lazyt.functional.unary import isnan
from lazyt.ir.dtypes import DType, bool_, int64, uint8
from lazyt.ir.graph import Node, Shape
from lazyt.tensor import Tensor

__all__ = [
    "all", "amax", "amin", "aminmax", "any", "argmax", "argmin", "count_nonzero", "max",
    "mean", "min", "nanmean", "nansum", "prod", "std", "std_mean", "sum", "var", "var_mean",
]  # fmt: skip

Reduction = Callable[..., Tensor]

_SUB, _DIV, _MUL = scalar_build("sub"), scalar_build("div"), scalar_build("mul")


def kept_shape(shape: Shape, axes: tuple[int, ...]) -> Shape:
    """``shape`` with the reduced axes as ones."""
    return tuple(1 if i in axes else n for i, n in enumerate(shape))


def reduce_node(kind: str, node: Node, axes: tuple[int, ...], keepdim: bool) -> Node:
    """One reduction, its axes kept as ones when ``keepdim``."""
    if not axes and not node.shape:
        return node
    result = ops.reduce_(kind, node, axes)
    return ops.reshape(result, kept_shape(node.shape, axes)) if keepdim else result


def _accumulating(dtype: DType, wanted: Any) -> DType:
    """The dtype of a sum: whole numbers and bools add up in int64."""
    if wanted is not None:
        return as_dtype(wanted)
    return dtype if dtype.kind == "f" else int64


@numpy_names
def sum(
    input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None,
    out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The sum; of bools and integers in int64."""
    node = input.node
    node = ops.cast(node, _accumulating(node.dtype, dtype))
    axes = normalize_dims(dim, len(node.shape))
    return give(reduce_node("sum", node, axes, keepdim), "Sum", (input,), out)


@numpy_names
def nansum(input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """The sum of what is not NaN."""
    return sum(where(isnan(input), 0, input), dim, keepdim, dtype=dtype)


@numpy_names
def nanmean(input: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    """The mean of what is not NaN."""
    present = sum(~isnan(input), dim, keepdim)
    result: Tensor = nansum(input, dim, keepdim) / present
    return result


@numpy_names
@in_full_precision
def prod(input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """The product; of bools and integers in int64."""
    node = ops.cast(input.node, _accumulating(input.dtype, dtype))
    axes = normalize_dims(dim, len(node.shape))
    return give(reduce_node("prod", node, axes, keepdim), "Prod", (input,))


def _count(shape: Shape, axes: tuple[int, ...]) -> int:
    total = 1
    for axis in axes:
        total *= shape[axis]
    return total


def mean_node(node: Node, axes: tuple[int, ...], keepdim: bool) -> Node:
    """The mean of floating point; half types add and divide in float32 and round once."""
    dtype = node.dtype
    wide = ops.cast(node, dtype.compute)
    total = reduce_node("sum", wide, axes, keepdim)
    count = constant_of(float(_count(node.shape, axes)), dtype.compute)
    return mapped(_DIV, (total, count), dtype, dtype)


@numpy_names
def mean(
    input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None,
    out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The mean. Raises DTypeError for whole numbers unless ``dtype`` is given."""
    node = input.node
    if dtype is not None:
        node = ops.cast(node, as_dtype(dtype))
    if node.dtype.kind != "f":
        raise DTypeError(
            "mean(): could not infer output dtype. Input dtype must be either a floating point "
            f"or complex dtype. Got: {torch_name(node.dtype)}"
        )
    axes = normalize_dims(dim, len(node.shape))
    return give(mean_node(node, axes, keepdim), "Mean", (input,), out)


def _deviations(node: Node, axes: tuple[int, ...]) -> Node:
    """The sum of squared distances from the mean, in two passes for accuracy."""
    centre = mean_node(node, axes, True)
    gap = mapped(_SUB, (node, centre), node.dtype, node.dtype)
    return ops.reduce_("sum", mapped(_MUL, (gap, gap), node.dtype, node.dtype), axes)


def _spread(input: Tensor, dim: Any, correction: float, keepdim: bool, root: bool) -> Node:
    if input.dtype.kind != "f":
        raise DTypeError("std and var only support floating point and complex dtypes")
    dtype = input.dtype
    node = ops.cast(input.node, dtype.compute)
    axes = normalize_dims(dim, len(node.shape))
    if not node.shape:
        total = mapped(_SUB, (node, node), node.dtype, node.dtype)
    else:
        total = _deviations(node, axes)
    degrees = builtins.max(_count(node.shape, axes) - correction, 0)
    result = mapped(_DIV, (total, constant_of(float(degrees), node.dtype)), node.dtype, node.dtype)
    if root:
        result = ops.apply("sqrt", result)
    if keepdim:
        result = ops.reshape(result, kept_shape(node.shape, axes))
    return ops.cast(result, dtype)


def _spread_arguments(dim: Any, unbiased: Any, correction: Any) -> tuple[Any, float]:
    """``var(False)`` means ``unbiased``; the divisor is the count less the correction."""
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    if correction is None:
        correction = 1 if unbiased is None or unbiased else 0
    return dim, correction


@numpy_names
def var(
    input: Tensor, dim: Any = None, unbiased: bool | None = None, keepdim: bool = False, *,
    correction: float | None = None,
) -> Tensor:  # fmt: skip
    """The variance, of a sample by default. Raises DTypeError for whole numbers."""
    dim, correction = _spread_arguments(dim, unbiased, correction)
    return give(_spread(input, dim, correction, keepdim, False), "Var", (input,))


@numpy_names
def std(
    input: Tensor, dim: Any = None, unbiased: bool | None = None, keepdim: bool = False, *,
    correction: float | None = None,
) -> Tensor:  # fmt: skip
    """The standard deviation, of a sample by default. Raises DTypeError for whole numbers."""
    dim, correction = _spread_arguments(dim, unbiased, correction)
    return give(_spread(input, dim, correction, keepdim, True), "Std", (input,))


@numpy_names
def var_mean(
    input: Tensor, dim: Any = None, unbiased: bool | None = None, keepdim: bool = False, *,
    correction: float | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """``(var(input), mean(input))``."""
    spread = var(input, dim, unbiased, keepdim, correction=correction)
    return spread, mean(input, None if isinstance(dim, bool) else dim, keepdim)


@numpy_names
def std_mean(
    input: Tensor, dim: Any = None, unbiased: bool | None = None, keepdim: bool = False, *,
    correction: float | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """``(std(input), mean(input))``."""
    spread = std(input, dim, unbiased, keepdim, correction=correction)
    return spread, mean(input, None if isinstance(dim, bool) else dim, keepdim)


def _require_elements(name: str, shape: Shape, axes: tuple[int, ...], given: bool) -> None:
    """An extreme of nothing does not exist."""
    for axis in axes:
        if shape[axis] == 0:
            if given:
                raise BoundsError(f"{name}(): Expected reduction dim {axis} to have non-zero size.")
            tail = (
                ""
                if name.startswith("arg")
                else (" Specify the reduction dim with the 'dim' argument.")
            )
            text = f"{name}(): Expected reduction dim to be specified for input.numel() == 0."
            raise (BoundsError if name.startswith("arg") else LazytError)(text + tail)


def _extreme(name: str, kind: str, title: str) -> Reduction:
    def function(
        input: Tensor, dim: Any = None, keepdim: bool = False, *, out: Tensor | None = None
    ) -> Tensor:
        node = input.node
        axes = normalize_dims(dim, len(node.shape))
        _require_elements(name, node.shape, axes, dim not in (None, (), []))
        return give(reduce_node(kind, node, axes, keepdim), title, (input,), out)

    function.__doc__ = f"The {kind} along one or more dimensions; NaN wins. Ties share gradients."
    function.__name__ = function.__qualname__ = name
    return numpy_names(function)


amax = _extreme("amax", "max", "Amax")
amin = _extreme("amin", "min", "Amin")


def _position(input: Tensor, kind: str, dim: Any, keepdim: bool) -> Node:
    node = input.node
    if node.dtype is bool_:
        node = ops.cast(node, uint8)
    if dim is None:
        _require_elements(kind, node.shape, tuple(range(len(node.shape))), False)
        flat = ops.reshape(node, (node.size,))
        found = ops.arg_reduce(kind, flat, 0)
        return ops.reshape(found, (1,) * len(node.shape)) if keepdim else found
    axis = normalize_dim(dim, len(node.shape))
    if not node.shape:
        return ops.constant(0, int64)
    _require_elements(kind, node.shape, (axis,), True)
    found = ops.arg_reduce(kind, node, axis)
    return ops.reshape(found, kept_shape(node.shape, (axis,))) if keepdim else found


def _refuse_bool(input: Tensor, name: str) -> None:
    if input.dtype is bool_:
        raise DTypeError(f"{name}(): does not support bool input")


@numpy_names
def argmax(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """Where the largest element is, the first of equals; of the flattened tensor without dim."""
    _refuse_bool(input, "argmax")
    return give(_position(input, "argmax", dim, keepdim), "argmax", ())


@numpy_names
def argmin(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """Where the smallest element is, the first of equals; of the flattened tensor without dim."""
    _refuse_bool(input, "argmin")
    return give(_position(input, "argmin", dim, keepdim), "argmin", ())


def _extreme_along(input: Tensor, dim: Any, keepdim: bool, name: str) -> tuple[Tensor, Tensor]:
    """Values and positions along ``dim``; the gradient goes to the position alone."""
    node = input.node
    rank = len(node.shape)
    axis = normalize_dim(dim, rank)
    if rank:
        _require_elements(name, node.shape, (axis,), True)
    places = _position(input, "arg" + name, axis, True)
    if node.needs_grad and rank:
        values = gather_node(node, places, axis)
    else:
        values = reduce_node(name, node, (axis,) if rank else (), True)
    if not keepdim and rank:
        shape = node.shape[:axis] + node.shape[axis + 1 :]
        values, places = ops.reshape(values, shape), ops.reshape(places, shape)
    return give(values, name, (input,)), give(places, name, ())


def _max_or_min(
    input: Tensor, dim: Any, keepdim: bool, name: str, pack: type[return_types.Named]
) -> Any:
    if dim is None:
        shape = tuple(input.shape)
        _require_elements(name, shape, tuple(range(len(shape))), False)
        node = reduce_node(name, input.node, tuple(range(len(shape))), False)
        return give(node, name, (input,))
    if isinstance(dim, Tensor):
        return (maximum if name == "max" else minimum)(input, dim)
    return pack(_extreme_along(input, dim, keepdim, name))


@numpy_names
def max(input: Tensor, dim: Any = None, keepdim: bool = False) -> Any:
    """The largest element; with ``dim``, ``(values, indices)``; with a tensor, ``maximum``."""
    return _max_or_min(input, dim, keepdim, "max", return_types.max)


@numpy_names
def min(input: Tensor, dim: Any = None, keepdim: bool = False) -> Any:
    """The smallest element; with ``dim``, ``(values, indices)``; with a tensor, ``minimum``."""
    return _max_or_min(input, dim, keepdim, "min", return_types.min)


@numpy_names
def aminmax(input: Tensor, *, dim: int | None = None, keepdim: bool = False) -> Any:
    """``(amin, amax)`` in one named result."""
    return return_types.aminmax((amin(input, dim, keepdim), amax(input, dim, keepdim)))


def _truth(kind: str) -> Reduction:
    def function(input: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
        node = input.node
        result = uint8 if node.dtype is uint8 else bool_
        axes = normalize_dims(dim, len(node.shape))
        found = reduce_node(kind, ops.cast(node, bool_), axes, keepdim)
        return give(ops.cast(found, result), kind, ())

    function.__doc__ = f"Whether {kind} elements are true."
    function.__name__ = function.__qualname__ = kind
    return numpy_names(function)


all = _truth("all")
any = _truth("any")


@numpy_names
def count_nonzero(input: Tensor, dim: Any = None) -> Tensor:
    """How many elements are not zero, in int64."""
    node = ops.cast(ops.cast(input.node, bool_), int64)
    axes = normalize_dims(dim, len(node.shape))
    return give(reduce_node("sum", node, axes, False), "count_nonzero", ())
