"""Other shapes, orders and combinations of the same elements; picking by index."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import lazyt
from lazyt.array_api.data_types import together
from lazyt.errors import LazytError, ShapeError
from lazyt.tensor import Tensor

__all__ = [
    "broadcast_arrays", "broadcast_to", "concat", "expand_dims", "flip", "moveaxis",
    "permute_dims", "repeat", "reshape", "roll", "squeeze", "stack", "take", "take_along_axis",
    "tile", "unstack",
]  # fmt: skip


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
    """Every element several times, along an axis or flattened."""
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
