"""Sums, extremes, orders, searches and sets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from lazyt.array_api.creation import together
from lazyt.errors import LazytError, ShapeError
from lazyt.functional import namespace as lazyt
from lazyt.handle.tensor import Tensor

__all__ = [
    "all", "any", "argmax", "argmin", "argsort", "broadcast_arrays", "broadcast_to", "concat",
    "count_nonzero", "cumulative_prod", "cumulative_sum", "diff", "expand_dims", "flip", "max",
    "mean", "min", "moveaxis", "nonzero", "permute_dims", "prod", "repeat", "reshape", "roll",
    "searchsorted", "sort", "squeeze", "stack", "std", "sum", "take", "take_along_axis", "tile",
    "unique_all", "unique_counts", "unique_inverse", "unique_values", "unstack", "var", "where",
]  # fmt: skip


# Other shapes, orders and combinations of the same elements; picking by index.


def axes_of(axis: Any, rank: int) -> tuple[int, ...]:
    """Axes as numbers from 0. Raises BoundsError for those that do not exist, ValueError twice."""
    given = axis if isinstance(axis, (tuple, list)) else (axis,)
    found = []
    for each in given:
        if not -rank <= each < rank:
            from lazyt.errors import BoundsError

            raise BoundsError(f"there is no axis {each} in {rank} dimensions")
        found.append(each % rank)
    if len(set(found)) != len(found):
        raise ValueError(f"an axis is named twice: {axis}")
    return tuple(found)


def broadcast_arrays(*arrays: Tensor) -> list[Tensor]:
    """The arrays, each broadcast to the shape of all."""
    return list(lazyt.broadcast_tensors(*arrays))


def broadcast_to(x: Tensor, /, shape: tuple[int, ...]) -> Tensor:
    """``x`` broadcast to ``shape``."""
    return lazyt.broadcast_to(x, shape)


def concat(arrays: Sequence[Tensor], /, *, axis: int | None = 0) -> Tensor:
    """Arrays one behind the other along an axis, or flattened without one."""
    items = together(*arrays)
    if axis is None:
        return lazyt.concat([item.reshape(-1) for item in items], 0)
    return lazyt.concat(items, axis)


def stack(arrays: Sequence[Tensor], /, *, axis: int = 0) -> Tensor:
    """Arrays of one shape along a new axis."""
    return lazyt.stack(together(*arrays), axis)


def unstack(x: Tensor, /, *, axis: int = 0) -> tuple[Tensor, ...]:
    """The slices of ``x`` along an axis."""
    return tuple(lazyt.unbind(x, axis))


def expand_dims(x: Tensor, /, axis: int = 0) -> Tensor:
    """``x`` with a new axis of extent 1."""
    return lazyt.unsqueeze(x, axis)


def squeeze(x: Tensor, /, axis: int | tuple[int, ...]) -> Tensor:
    """``x`` without these axes. Raises ShapeError where one has another extent than 1."""
    axes = axes_of(axis, x.ndim)
    for each in axes:
        if x.shape[each] != 1:
            raise ShapeError(f"axis {each} has extent {x.shape[each]} and cannot be squeezed")
    return lazyt.squeeze(x, axes)


def flip(x: Tensor, /, *, axis: int | tuple[int, ...] | None = None) -> Tensor:
    """The elements in reverse order along axes, all by default."""
    axes = tuple(range(x.ndim)) if axis is None else axes_of(axis, x.ndim)
    return lazyt.flip(x, axes)


def moveaxis(x: Tensor, source: Any, destination: Any, /) -> Tensor:
    """Axes moved to other places."""
    return lazyt.movedim(x, source, destination)


def permute_dims(x: Tensor, /, axes: tuple[int, ...]) -> Tensor:
    """Axes in another order."""
    return lazyt.permute(x, axes)


def repeat(x: Tensor, repeats: Any, /, *, axis: int | None = None) -> Tensor:
    """Every element several times, along an axis or flattened; an array says how often each."""
    if isinstance(repeats, Tensor):
        repeats = repeats.to(lazyt.int64)
    return lazyt.repeat_interleave(x, repeats, axis)


def reshape(x: Tensor, /, shape: tuple[int, ...], *, copy: bool | None = None) -> Tensor:
    """The elements under another shape. Raises ValueError where that needs the copy that
    ``copy=False`` forbids."""
    if copy:
        result: Tensor = x.clone().reshape(shape)
        return result
    if copy is None:
        result = x.reshape(shape)
        return result
    try:
        result = x.view(shape)
        return result
    except LazytError as error:
        raise ValueError(f"reshape(copy=False) is not possible: {error}") from error


def roll(x: Tensor, /, shift: Any, *, axis: Any = None) -> Tensor:
    """Elements moved along axes, those at the end to the beginning."""
    if isinstance(axis, tuple) and isinstance(shift, int):
        shift = (shift,) * len(axis)
    return lazyt.roll(x, shift, axis)


def tile(x: Tensor, repetitions: tuple[int, ...], /) -> Tensor:
    """The array several times along every axis."""
    return lazyt.tile(x, tuple(repetitions))


def take(x: Tensor, indices: Tensor, /, *, axis: int | None = None) -> Tensor:
    """Slices at one-dimensional ``indices`` along an axis, which may be left out for vectors."""
    if axis is None:
        if x.ndim != 1:
            raise ValueError("take() needs an axis for more than one dimension")
        axis = 0
    (axis,) = axes_of(axis, x.ndim)
    extent = x.shape[axis]
    return lazyt.index_select(x, axis, lazyt.where(indices < 0, indices + extent, indices))


def take_along_axis(x: Tensor, indices: Tensor, /, *, axis: int = -1) -> Tensor:
    """Elements at ``indices`` along an axis, which has the rank of ``x``."""
    (axis,) = axes_of(axis, x.ndim)
    extent = x.shape[axis]
    places = lazyt.where(indices < 0, indices + extent, indices)
    return lazyt.take_along_dim(x, places.to(lazyt.int64), axis)


Axis = int | tuple[int, ...] | None


def _axes(x: Tensor, axis: Axis) -> tuple[int, ...]:
    return tuple(range(x.ndim)) if axis is None else axes_of(axis, x.ndim)


def _summed(x: Tensor, dtype: Any) -> Tensor:
    """``x`` in the type in which it is summed up: small integers grow to 64 bits."""
    if dtype is None:
        dtype = x.dtype
        if dtype is lazyt.bool or not (dtype.is_floating_point or dtype.is_complex):
            signed = dtype.is_signed or dtype is lazyt.bool
            dtype = lazyt.int64 if signed else lazyt.uint64
    result: Tensor = x.to(dtype)
    return result


def sum(x: Tensor, /, *, axis: Axis = None, dtype: Any = None, keepdims: bool = False) -> Tensor:
    """The sum along axes, all by default."""
    x, axes = _summed(x, dtype), _axes(x, axis)
    return lazyt.sum(x, axes, keepdims, dtype=x.dtype) if axes else x


def prod(x: Tensor, /, *, axis: Axis = None, dtype: Any = None, keepdims: bool = False) -> Tensor:
    """The product along axes, all by default."""
    x = _summed(x, dtype)
    for each in sorted(_axes(x, axis), reverse=True):
        x = lazyt.prod(x, each, keepdims, dtype=x.dtype)
    return x


def mean(x: Tensor, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The mean along axes, all by default."""
    axes = _axes(x, axis)
    return lazyt.mean(x, axes, keepdims) if axes else x


def var(
    x: Tensor, /, *, axis: Axis = None, correction: float = 0.0, keepdims: bool = False
) -> Tensor:
    """The variance along axes, divided by their extent less ``correction``."""
    axes = _axes(x, axis)
    return lazyt.var(x, axes, correction=correction, keepdim=keepdims) if axes else x - x


def std(
    x: Tensor, /, *, axis: Axis = None, correction: float = 0.0, keepdims: bool = False
) -> Tensor:
    """The standard deviation along axes; see ``var``."""
    return lazyt.sqrt(var(x, axis=axis, correction=correction, keepdims=keepdims))


def max(x: Tensor, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The largest element along axes; NaN where there is one."""
    axes = _axes(x, axis)
    return lazyt.amax(x, axes, keepdims) if axes else x


def min(x: Tensor, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The smallest element along axes; NaN where there is one."""
    axes = _axes(x, axis)
    return lazyt.amin(x, axes, keepdims) if axes else x


def _truths(x: Tensor) -> Tensor:
    return x if x.dtype is lazyt.bool else x != 0


def all(x: Tensor, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Whether all elements along axes are other than zero."""
    x, axes = _truths(x), _axes(x, axis)
    return lazyt.all(x, axes, keepdims) if axes else x


def any(x: Tensor, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Whether an element along axes is other than zero."""
    x, axes = _truths(x), _axes(x, axis)
    return lazyt.any(x, axes, keepdims) if axes else x


def count_nonzero(x: Tensor, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """How many elements along axes are other than zero."""
    return sum(_truths(x), axis=axis, dtype=lazyt.int64, keepdims=keepdims)


def _position(function: Any, x: Tensor, axis: int | None, keepdims: bool) -> Tensor:
    if axis is None:
        found: Tensor = function(x.reshape(-1), 0)
        return found.reshape((1,) * x.ndim) if keepdims else found
    result: Tensor = function(x, axis, keepdims)
    return result


def argmax(x: Tensor, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Where the first largest element is, along an axis or in row-major order."""
    return _position(lazyt.argmax, x, axis, keepdims)


def argmin(x: Tensor, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Where the first smallest element is, along an axis or in row-major order."""
    return _position(lazyt.argmin, x, axis, keepdims)


def _cumulative(
    function: Any, x: Tensor, axis: int | None, dtype: Any, initial: int | None
) -> Tensor:
    if axis is None:
        if x.ndim != 1:
            raise ValueError("an axis is needed for other than one dimension")
        axis = 0
    (axis,) = axes_of(axis, x.ndim)
    x = _summed(x, dtype)
    found: Tensor = function(x, axis, dtype=x.dtype)
    if initial is None:
        return found
    edge = lazyt.full((*x.shape[:axis], 1, *x.shape[axis + 1 :]), initial, dtype=x.dtype)
    return lazyt.concat([edge, found], axis)


def cumulative_sum(
    x: Tensor, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Tensor:
    """Running sums along an axis, from 0 on with ``include_initial``."""
    return _cumulative(lazyt.cumsum, x, axis, dtype, 0 if include_initial else None)


def cumulative_prod(
    x: Tensor, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Tensor:
    """Running products along an axis, from 1 on with ``include_initial``."""
    return _cumulative(lazyt.cumprod, x, axis, dtype, 1 if include_initial else None)


def diff(
    x: Tensor, /, *, axis: int = -1, n: int = 1, prepend: Tensor | None = None,
    append: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Differences of neighbours along an axis, ``n`` times."""
    return lazyt.diff(x, n, axis, prepend, append)


# ---------------------------------------------------------------------- order and search


def sort(x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """The elements in order along an axis."""
    found: Tensor = lazyt.sort(x, axis, descending, stable=stable)[0]
    return found


def argsort(
    x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True
) -> Tensor:
    """The indices that put the elements in order along an axis."""
    found: Tensor = lazyt.sort(x, axis, descending, stable=stable)[1]
    return found


def nonzero(x: Tensor, /) -> tuple[Tensor, ...]:
    """The indices of elements other than zero, per axis. Raises ShapeError for no dimensions."""
    if x.ndim == 0:
        raise ShapeError("nonzero() takes arrays with at least one dimension")
    return tuple(lazyt.unbind(lazyt.nonzero(_truths(x)), 1))


def searchsorted(
    x1: Tensor, x2: Tensor, /, *, side: str = "left", sorter: Tensor | None = None
) -> Tensor:
    """Where elements of ``x2`` would have to be put into the ordered vector ``x1``."""
    ordered, wanted = together(x1, x2)
    return lazyt.searchsorted(ordered, wanted.contiguous(), side=side, sorter=sorter)


def where(condition: Tensor, x1: Any, x2: Any, /) -> Tensor:
    """Elements of ``x1`` where ``condition`` holds, else of ``x2``."""
    result: Tensor = lazyt.where(condition, *together(x1, x2))
    return result


# ---------------------------------------------------------------------- sets


class UniqueAll(NamedTuple):
    """Result of ``unique_all``."""

    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


class UniqueCounts(NamedTuple):
    """Result of ``unique_counts``."""

    values: Tensor
    counts: Tensor


class UniqueInverse(NamedTuple):
    """Result of ``unique_inverse``."""

    values: Tensor
    inverse_indices: Tensor


def unique_all(x: Tensor, /) -> UniqueAll:
    """The distinct values in order, where each is first, where each element of ``x`` is among
    them, and how many there are of each. Every NaN is distinct."""
    flat = x.reshape(-1)
    count = flat.shape[0]
    if not count:
        none = lazyt.empty(0, dtype=lazyt.int64)
        return UniqueAll(flat, none, none.reshape(x.shape), none)
    ordered, order = lazyt.sort(flat, 0, stable=True)
    new = lazyt.concat([lazyt.ones(1, dtype=lazyt.bool), ordered[1:] != ordered[:-1]], 0)
    starts = lazyt.nonzero(new).reshape(-1)
    ends = lazyt.concat([starts[1:], lazyt.tensor([count])], 0)
    rank = lazyt.cumsum(new.to(lazyt.int64), 0) - 1
    inverse = lazyt.zeros(count, dtype=lazyt.int64).scatter(0, order, rank)
    return UniqueAll(ordered[starts], order[starts], inverse.reshape(x.shape), ends - starts)


def unique_counts(x: Tensor, /) -> UniqueCounts:
    """The distinct values, and how many there are of each."""
    found = unique_all(x)
    return UniqueCounts(found.values, found.counts)


def unique_inverse(x: Tensor, /) -> UniqueInverse:
    """The distinct values, and where each element of ``x`` is among them."""
    found = unique_all(x)
    return UniqueInverse(found.values, found.inverse_indices)


def unique_values(x: Tensor, /) -> Tensor:
    """The distinct values in order."""
    return unique_all(x).values
