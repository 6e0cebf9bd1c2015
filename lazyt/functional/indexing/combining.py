"""Writes that combine what meets at one place: scatter_reduce, index_reduce and put."""

from __future__ import annotations

from lazyt import ops
from lazyt.errors import BoundsError, DTypeError, LazytError, NoKernelError, ShapeError
from lazyt.functional.elementwise.arithmetic import scalar_build
from lazyt.functional.indexing.picking import (
    checked_index,
    scatter_updates,
    scattered,
    vector_index,
)
from lazyt.functional.operands import constant_of, expand_to, mapped, normalize_dim
from lazyt.functional.results import give
from lazyt.functional.type_promotion import torch_name
from lazyt.handle.function_table import function
from lazyt.handle.tensor import Tensor
from lazyt.ir.dtypes import DType, bool_, int32, int64
from lazyt.ir.graph import Node

__all__ = ["index_reduce", "put", "scatter_reduce"]

_KINDS = {"sum": "add", "mean": "add", "prod": "mul", "amax": "max", "amin": "min"}
_DIV, _FLOORDIV = scalar_build("div"), scalar_build("floordiv")


def _neutral(reduce: str, dtype: DType) -> Node:
    """What changes nothing when combined by ``reduce``."""
    if reduce in ("sum", "mean"):
        return constant_of(0, dtype)
    if reduce == "prod":
        return constant_of(1, dtype)
    if dtype.kind == "f":
        return constant_of(float("-inf") if reduce == "amax" else float("inf"), dtype)
    if dtype is bool_:
        return constant_of(reduce == "amin", dtype)
    bits = 8 * dtype.itemsize
    low = -(1 << (bits - 1)) if dtype.kind == "i" else 0
    return constant_of(low if reduce == "amax" else low + (1 << bits) - 1, dtype)


class _Place:
    """Where updates go: along one axis, by an index per element or per slice."""

    def __init__(self, places: Node, axis: int, per_element: bool) -> None:
        self.places, self.axis, self.per_element = places, axis, per_element

    def write(self, base: Node, updates: Node, kind: str) -> Node:
        """``base`` with ``updates`` folded in by ``kind``."""
        if self.per_element:
            return scattered(base, self.places, updates, self.axis, kind)
        return ops.scatter(base, self.places, updates, self.axis, kind)


def _reduced(base: Node, place: _Place, updates: Node, reduce: str, include_self: bool) -> Node:
    """``base`` combined with ``updates`` by ``reduce``; without its own values on request.

    A mean of whole numbers rounds down, as PyTorch's does. 16-bit floats are combined in float32.
    """
    dtype = base.dtype
    if not updates.size:
        return base
    if dtype.is_half:
        wide = (ops.cast(n, dtype.compute) for n in (base, updates))
        return ops.cast(_reduced(next(wide), place, next(wide), reduce, include_self), dtype)
    start = base
    if not include_self:
        start = place.write(base, expand_to(_neutral(reduce, dtype), updates.shape), "set")
    if dtype is bool_ and reduce in ("sum", "prod"):
        kind = "max" if reduce == "sum" else "min"
        return place.write(start, updates, kind)
    total = place.write(start, updates, _KINDS[reduce])
    if reduce != "mean":
        return total
    one = constant_of(1, int64)
    ones = expand_to(one, base.shape)
    if not include_self:
        ones = place.write(ones, expand_to(constant_of(0, int64), updates.shape), "set")
    count = place.write(ones, expand_to(one, updates.shape), "add")
    build = _DIV if dtype.kind == "f" else _FLOORDIV
    return mapped(build, (total, ops.cast(count, dtype)), dtype, dtype)


@function(method=True, inplace="method", separate=True)
def scatter_reduce(
    input: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *,
    include_self: bool = True, out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """``scatter`` that combines by ``sum``, ``prod``, ``mean``, ``amax`` or ``amin``.

    Args:
        include_self: whether the values that are there take part.

    Raises LazytError for another ``reduce``; sizes, dtypes and indices as ``scatter``.
    """
    if reduce not in _KINDS:
        raise LazytError(
            f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}"
        )
    if reduce == "mean" and input.dtype is bool_:
        raise NoKernelError("\"scatter_gather_tensor_cpu_reduce_mean\" not implemented for 'Bool'")
    axis = normalize_dim(dim, len(input.shape))
    places, updates = scatter_updates(input, axis, index, src)
    place = _Place(places, axis, True)
    node = _reduced(input.node, place, updates, reduce, include_self)
    return give(node, "ScatterReduce", (input, src), out)


@function(method=True, inplace="method", separate=True)
def index_reduce(
    input: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *,
    include_self: bool = True, out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Slices of ``source`` combined into those of ``input`` that the vector ``index`` names.

    Args:
        reduce: ``prod``, ``mean``, ``amax`` or ``amin``.
        include_self: whether the values that are there take part.

    Raises LazytError for another ``reduce`` and BoundsError for an index out of range.
    """
    if reduce not in ("prod", "mean", "amax", "amin"):
        raise LazytError(
            "index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got "
            f"{reduce}."
        )
    shape = tuple(input.shape)
    axis = normalize_dim(dim, len(shape))
    _check_slices(input, axis, index, source)
    if input.dtype is bool_ and (reduce == "mean" or not include_self):
        name = "div_floor_cpu" if include_self else "index_reduce_func_exclude_input_init"
        raise NoKernelError(f"\"{name}\" not implemented for 'Bool'")
    places = vector_index(index, (*shape, 1)[axis])
    base, updates = input.node, source.node
    if not shape:
        base = ops.reshape(base, (1,))
    updates = ops.reshape(updates, (*base.shape[:axis], places.size, *base.shape[axis + 1 :]))
    node = _reduced(base, _Place(places, axis, False), updates, reduce, include_self)
    return give(ops.reshape(node, shape), "IndexReduce", (input, source), out)


def _check_slices(input: Tensor, axis: int, index: Tensor, source: Tensor) -> None:
    if len(index.shape) > 1:
        raise LazytError("index_reduce_(): Index is supposed to be a vector, but got dim: "
                         f"{len(index.shape)}")  # fmt: skip
    if index.dtype not in (int32, int64):
        raise DTypeError("index_reduce_(): Expected dtype int32/int64 for index")
    if input.dtype is not source.dtype:
        raise DTypeError(
            f"index_reduce_(): self ({torch_name(input.dtype)}) and source "
            f"({torch_name(source.dtype)}) must have the same scalar type"
        )
    rows = tuple(n for i, n in enumerate(input.shape) if i != axis)
    given = tuple(n for i, n in enumerate(source.shape) if i != axis)
    count = index.shape.numel()
    if source.shape and source.shape[axis] != count:
        raise ShapeError(
            f"index_reduce_(): Number of indices ({count}) should be equal to source.size(dim): "
            f"({source.shape[axis]}), for dim: {axis}"
        )
    if rows != given:
        raise ShapeError(
            "source tensor shape must match self tensor shape, excluding the specified dimension. "
            f"Got self.shape = {list(input.shape)} source.shape = {list(source.shape)}"
        )


@function(method=True, inplace="method", separate=True)
def put(input: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    """A copy of ``input`` with ``source`` at the positions ``index`` of its flattened elements.

    Args:
        accumulate: add to what is there instead of replacing it.

    Raises DTypeError for an index that is not int64 or a ``source`` of another dtype, ShapeError
    for different numbers of elements, BoundsError for an index out of range.
    """
    if index.dtype is not int64:
        raise DTypeError(
            f"put_(): Expected a long tensor for index, but got {torch_name(index.dtype)}"
        )
    if input.dtype is not source.dtype:
        raise DTypeError(
            "put_(): self and source expected to have the same dtype, but got self.dtype = "
            f"{torch_name(input.dtype)} and source.dtype = {torch_name(source.dtype)}"
        )
    if index.shape.numel() != source.shape.numel():
        raise BoundsError(
            "put_(): Expected source and index to have the same number of elements, but got "
            f"source.numel() = {source.shape.numel()}, index.numel() = {index.shape.numel()}"
        )
    size = input.shape.numel()
    if not size and index.shape.numel():
        raise BoundsError("put_(): Tried to put elements into an empty tensor")

    def complain(bad: int) -> Exception:
        return BoundsError(
            f"out of range: tried to access index {bad} on a tensor of {size} elements."
        )

    places = checked_index(index, size, complain)
    if not places.size:
        return give(input.node, "Put", (input, source))
    flat, count = ops.reshape(input.node, (size,)), (places.size,)
    places, values = ops.reshape(places, count), ops.reshape(source.node, count)
    if accumulate and input.dtype is bool_:
        node = ops.scatter(flat, places, values, 0, "max")
    else:
        node = ops.scatter(flat, places, values, 0, "add" if accumulate else "set")
    return give(ops.reshape(node, tuple(input.shape)), "Put", (input, source))
