"""Whole slices written where a vector of indices says: index_add, index_copy and index_fill."""

from __future__ import annotations

from typing import Any

from lazyt import ops
from lazyt.errors import BoundsError, DTypeError, LazytError, NoKernelError, ShapeError
from lazyt.functional.creation.nesting import refuse_number, refuse_value
from lazyt.functional.elementwise.arithmetic import scalar_build
from lazyt.functional.indexing.picking import (
    checked_index,
    scatter_of,
    scatter_updates,
    scattered,
    value_range,
    vector_index,
    within,
    wrapped,
)
from lazyt.functional.operands import (
    as_number,
    broadcast_pair,
    choose,
    constant_of,
    expand_to,
    mapped,
    normalize_dim,
    require_tensor,
    without_slope,
)
from lazyt.functional.result_layout import preserving
from lazyt.functional.results import SAME_DTYPE, give, overwrite
from lazyt.functional.type_promotion import torch_name
from lazyt.handle.dispatch import check_writable, refuse_overlap, type_title, wrap
from lazyt.handle.function_table import function
from lazyt.handle.tape import titled
from lazyt.handle.tensor import Tensor
from lazyt.ir.dtypes import DType, bool_, int32, int64
from lazyt.ir.forms import use
from lazyt.ir.graph import Node, Shape

__all__ = ["fill", "index_add", "index_copy", "index_fill", "index_reduce", "put", "scatter_reduce"]


def _along(
    input: Tensor, dim: int, index: Tensor, source: Any, kind: str, function: str
) -> Node:  # fmt: skip
    """Whole slices of ``input`` along ``dim`` written at ``index``."""
    axis = normalize_dim(dim, len(input.shape))
    base = input.node
    if len(index.shape) > 1:  # before its dtype is looked at
        raise BoundsError("index is supposed to be a vector")
    shape = base.shape or (1,)
    extent = shape[axis]

    def complain(bad: int) -> Exception:
        if function == "index_add" and len(input.shape) < 2:
            return BoundsError("index out of range in self")
        said = f"{function}_(): " if function == "index_copy" else ""
        return BoundsError(
            f"{said}index {bad} is out of bounds for dimension {axis} with size {extent}"
        )

    node = index.node
    if node.size and 0 not in shape[:axis] + shape[axis + 1 :]:
        low, high = value_range(node, within(0, extent - 1))
        if high >= extent or low < (-extent if function == "index_fill" else 0):
            raise complain(high if high >= extent else low)
        if low < 0:
            node = wrapped(ops.cast(node, int64), extent)
    places = ops.reshape(ops.cast(node, int64), (node.size,))
    slices = (*shape[:axis], node.size, *shape[axis + 1 :])
    if isinstance(source, Tensor):
        _check_source(input, source, slices, axis, function)
        updates = ops.reshape(source.node, slices)
    else:
        refuse_number(source, base.dtype)
        updates = expand_to(constant_of(source, base.dtype), slices)
    if not updates.size:
        return base
    return ops.reshape(
        scatter_of(ops.reshape(base, shape), places, updates, axis, kind), base.shape
    )


def _check_source(input: Tensor, source: Tensor, slices: Shape, axis: int, function: str) -> None:
    own, given = tuple(input.shape), tuple(source.shape)
    if source.dtype is not input.dtype:
        kinds = type_title(input.dtype), type_title(source.dtype)
        if function == "index_copy":
            raise DTypeError(
                "index_copy_(): self and source expected to have the same dtype, but got (self) "
                f"{kinds[0]} and (source) {kinds[1]}"
            )
        raise DTypeError(
            f"{function}_(): self ({kinds[0]}) and source ({kinds[1]}) must have the same "
            "scalar type"
        )
    if (own and given == slices) or (not given and len(own) < 2 and slices == (1,)):
        return
    if function == "index_copy" and own and given and len(given) != len(own):
        raise BoundsError(
            "index_copy_(): When source and destination are not scalars, their dimensionality must "
            f"match. Source dimensionality ({len(given)}), destination dimensionality ({len(own)})"
        )
    if own and len(given) == len(own) and given[axis] != slices[axis]:
        if function == "index_copy":
            raise BoundsError(
                f"index_copy_(): Number of indices ({slices[axis]}) should be equal to "
                f"source.size(dim) ({given[axis]})"
            )
        raise ShapeError(
            f"{function}_(): Number of indices ({slices[axis]}) should be equal to "
            f"source.size(dim): ({given[axis]}), for dim: {axis}"
        )
    raise ShapeError(
        "source tensor shape must match self tensor shape, excluding the specified "
        f"dimension. Got self.shape = {list(own)} source.shape = {list(given)}"
    )


@function(method=True, inplace="method", separate=True, saves="O", indices=2, out_dtype=SAME_DTYPE)
def index_add(
    input: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: Any = 1,
    out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """A copy of ``input`` with slices of ``alpha * source`` added at ``index``.

    Raises ShapeError, DTypeError and BoundsError as PyTorch does.
    """
    if source.dtype.kind in "uif":
        refuse_number(alpha, source.dtype)
        alpha = alpha if source.dtype.kind == "f" else int(alpha)
    scaled = source if alpha == 1 else source * alpha
    node = _along(input, dim, index, scaled, "add", "index_add")
    return give(node, "IndexAdd", (input, source, index), out)


@function(method=True, inplace="method", separate=True, saves="kO", indices=2, out_dtype=SAME_DTYPE)
def index_copy(
    input: Tensor, dim: int, index: Tensor, source: Tensor, *, out: Tensor | None = None
) -> Tensor:
    """A copy of ``input`` with the slices at ``index`` replaced by ``source``.

    Raises ShapeError, DTypeError and BoundsError as PyTorch does.
    """
    if index.dtype is not int64 and len(index.shape) < 2:
        raise DTypeError(
            "index_copy_(): Expected a long tensor for index, but got " + type_title(index.dtype)
        )
    node = _along(input, dim, index, source, "set", "index_copy")
    return give(node, "IndexCopy", (input, source, index), out)


@function(
    method=True, inplace="method", separate=True, fills=2, saves="k", indices=1, layout=preserving
)
def index_fill(input: Tensor, dim: int, index: Tensor, value: Any) -> Tensor:
    """A copy of ``input`` with the slices at ``index`` filled with a number.

    Raises ShapeError and BoundsError as PyTorch does.
    """
    if index.dtype is not int64:
        raise BoundsError("index_fill_(): Expected dtype int64 for index.")
    if isinstance(value, Tensor):
        if value.shape:
            raise ShapeError(
                "index_fill_ only supports a 0-dimensional value tensor, but got tensor with "
                f"{len(value.shape)} dimension(s)."
            )
        refuse_value(value, input.dtype)
        fill = value.to(input.dtype)
        shape = list(input.shape) or [1]
        shape[normalize_dim(dim, len(input.shape))] = index.shape.numel()
        value = value.to(input.dtype).expand(shape)
        value = value if input.shape else value.reshape(())
    if isinstance(value, Tensor) and value.requires_grad:
        # Where an index is named twice, the value gets the gradient of the element once.
        filled = expand_to(constant_of(False, bool_), tuple(input.shape))
        hit = _along(wrap(filled), dim, index, True, "set", "index_fill")
        node = choose(hit, expand_to(fill.node, hit.shape), input.node, input.dtype)
        return give(node, "IndexFill", (input, value, index))
    node = _along(input, dim, index, value, "set", "index_fill")
    return give(node, "IndexFill", (input, index))


# In-place functions that are no in-place form of another function.


@function(method=True)
def copy_(self: Tensor, src: Any, non_blocking: bool = False) -> Tensor:
    """Write ``src``, broadcast and converted, into this tensor. Raises ShapeError."""
    if as_number(src) is not None:
        return fill_(self, src)
    if not isinstance(src, Tensor):
        raise DTypeError(
            f"copy_(): argument 'other' (position 1) must be Tensor, not {type(src).__name__}"
        )
    check_writable(self)
    shape = tuple(self.shape)
    refuse_overlap(self, (src,))
    if use.any:
        src = src.to(self.device)
    common = broadcast_pair(shape, tuple(src.shape))
    if common != shape:
        raise ShapeError(
            f"output with shape {list(shape)} doesn't match the broadcast shape {list(common)}"
        )
    node = expand_to(ops.cast(src.node, self.dtype), shape)
    if self._view is not None:
        self._view.refuse_repeats()
    return overwrite(self, node, "Copy", (self, src))


@function(method=True, inplace="function")
def fill_(self: Tensor, value: Any) -> Tensor:
    """Write one value everywhere. Raises LazytError for a tensor with dimensions."""
    if isinstance(value, Tensor):
        if value.shape:
            raise LazytError(
                "fill_ only supports 0-dimension value tensor but got tensor with "
                f"{len(value.shape)} dimensions."
            )
        filler = ops.cast(value.node, self.dtype)
    else:
        number = as_number(value)
        if number is None:
            raise DTypeError(
                f"fill_(): argument 'value' (position 1) must be Number, not {type(value).__name__}"
            )
        refuse_number(number, self.dtype)
        filler = constant_of(number, self.dtype)
    return overwrite(self, expand_to(filler, tuple(self.shape)), "Fill", (self, value))


@function(replaces=True, layout=preserving)
def fill(input: Tensor, value: Any) -> Tensor:
    """A copy of ``input``'s size and dtype with one value everywhere. Raises as ``fill_`` does."""
    if isinstance(value, Tensor) or not require_tensor(input, "fill").requires_grad:
        return fill_(input.clone(), value)
    filled = fill_(input.detach().clone(), value)
    return give(without_slope(filled.node, input.node), "Fill", (input,))


@function(method=True)
def fill_diagonal_(self: Tensor, fill_value: Any, wrap: bool = False) -> Tensor:
    """Write one value on the main diagonal.

    Args:
        wrap: whether the diagonal of a tall matrix begins anew below its square part.

    Raises LazytError for a vector, and for more than two dimensions of unequal size.
    """
    shape = tuple(self.shape)
    if len(shape) < 2:
        raise LazytError("dimensions must larger than 1")
    if len(shape) > 2 and len(set(shape)) > 1:
        raise LazytError("all dimensions of input must be of equal length")
    step, extent = sum(self.strides), min(shape)
    fill_(self.as_strided((extent,), (step,), self.storage_offset()), fill_value)
    if wrap and len(shape) == 2 and shape[0] > shape[1] + 1:
        for top in range(shape[1] + 1, shape[0], shape[1] + 1):
            fill_(self[top : top + shape[1]].diagonal(), fill_value)
    return self


@function(method=True, inplace="function")
def zero_(self: Tensor) -> Tensor:
    """Write zeros everywhere."""
    before = self._fn
    fill_(self, 0)
    return self if self._view is not None or self._fn is before else titled(self, "ZeroBackward0")


# Writes that combine what meets at one place: scatter_reduce, index_reduce and put.


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


@function(method=True, inplace="method", separate=True, out_dtype=SAME_DTYPE)
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


@function(method=True, inplace="method", separate=True, out_dtype=SAME_DTYPE)
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


@function(method=True, inplace="method", separate=True, layout=preserving)
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
