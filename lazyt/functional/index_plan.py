"""What is between the brackets of ``x[...]``, read once: views first, then index tensors.

An index of numbers, slices, ``None`` and ``...`` makes a view. Tensors, lists and masks among
them pick elements of that view and make a copy, as in PyTorch (where, unlike in NumPy, a plain
number always belongs to the view).
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from lazyt.errors import BoundsError, DTypeError
from lazyt.ir.dtypes import bool_, int32, int64, uint8
from lazyt.ir.graph import Shape
from lazyt.tensor import Tensor
from lazyt.watching import capturing


class IndexPlan:
    """How an index acts on a tensor.

    Attributes:
        starts, sizes, steps: the slice of every dimension of the tensor; a number is a slice of
            one element.
        layout: the dimensions that remain, in order; -1 stands for a new one of size 1.
        before: for every new one, the dimension of the tensor that it was put in front of.
        picks: (dimension of the view, index tensor) of every tensor index, in order. A bool
            tensor covers as many dimensions as it has.
    """

    __slots__ = ("before", "layout", "picks", "sizes", "starts", "steps")

    def __init__(self, shape: Shape) -> None:
        self.starts = [0] * len(shape)
        self.sizes = list(shape)
        self.steps = [1] * len(shape)
        self.layout: list[int] = []
        self.before: list[int] = []
        self.picks: list[tuple[int, Tensor]] = []

    @property
    def shape(self) -> Shape:
        """Shape of the view."""
        return tuple(1 if d < 0 else self.sizes[d] for d in self.layout)

    def is_whole(self, shape: Shape) -> bool:
        """Whether the view is the tensor itself."""
        return (
            self.layout == [*range(len(shape))]
            and tuple(self.sizes) == tuple(shape)
            and all(s == 1 for s in self.steps)
        )


def _is_number(item: Any) -> bool:
    return isinstance(item, (int, np.integer)) and not isinstance(item, (bool, np.bool_))


def _is_index_number(item: Any) -> bool:
    """A zero-dimensional integer tensor counts as the number that it holds."""
    return isinstance(item, Tensor) and not item.shape and item.dtype not in (bool_, uint8)


def _pick(item: Any) -> Tensor:
    """A list, array or tensor as an index tensor; raises BoundsError for other things."""
    from lazyt.functional.creation import tensor

    if isinstance(item, bool):
        return tensor(bool(item))
    if isinstance(item, np.ndarray):
        item = tensor(item.astype(np.int64) if not item.size else item)
    elif isinstance(item, (list, tuple, range)):
        found = tensor(item) if len(item) else tensor([], dtype=int64)
        return found if found.dtype in (bool_, uint8) else found.to(int64)
    elif isinstance(item, str):
        raise DTypeError("new(): invalid data type 'str'")
    if not isinstance(item, Tensor):
        kind = type(item)
        if hasattr(item, "__index__") and not isinstance(item, np.bool_):
            return tensor(operator.index(item))
        module = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
        raise BoundsError(
            "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are "
            f"valid indices (got {module}{kind.__name__})"
        )
    if item.dtype not in (bool_, uint8, int32, int64):
        raise BoundsError("tensors used as indices must be long, int, byte or bool tensors")
    return item


def _covered(item: Any) -> int:
    """How many dimensions of the tensor an item uses up."""
    if item is None or item is Ellipsis:
        return 0
    if isinstance(item, Tensor) and item.dtype in (bool_, uint8):
        return len(item.shape)
    return 1


def _stands_for_tuple(index: Any) -> bool:
    """A short list of indices that are no numbers counts as a tuple, as NumPy once took it."""
    return (
        isinstance(index, list)
        and len(index) < 32
        and any(
            item is None
            or item is Ellipsis
            or isinstance(item, (Tensor, list, tuple, slice, range, str, np.ndarray))
            for item in index
        )
    )


def _normalize(index: Any) -> list[Any]:
    items = list(index) if isinstance(index, tuple) or _stands_for_tuple(index) else [index]
    for i, item in enumerate(items):
        if item is None or item is Ellipsis or isinstance(item, slice) or _is_number(item):
            continue
        if not _is_index_number(item):
            item = _pick(item)
        if _is_index_number(item) and not _is_of_many(item):  # also anything with __index__
            item = int(item.item())
        items[i] = item
    return items


def _is_of_many(item: Any) -> bool:
    """Whether an index is one of many examples, under ``vmap``, so that it is no number."""
    watcher = capturing()
    return (
        watcher is not None and isinstance(item, Tensor) and watcher.whole(item.node) != item.node
    )


def plan_index(shape: Shape, index: Any) -> IndexPlan:
    """The plan of ``index`` on a tensor of ``shape``.

    Raises BoundsError (an IndexError) for too many indices and numbers out of range, and for
    things that cannot index, in PyTorch's words.
    """
    items = _normalize(index)
    rank = len(shape)
    used = sum(_covered(item) for item in items)
    if rank == 0 and isinstance(index, slice):
        raise BoundsError("slice() cannot be applied to a 0-dim tensor.")
    if rank == 0 and _is_number(index):
        if index:
            raise BoundsError(f"index {index} is out of bounds for dimension 0 with size 0")
        raise BoundsError(
            "invalid index of a 0-dim tensor. Use `tensor.item()` in Python or "
            "`tensor.item<T>()` in C++ to convert a 0-dim tensor to a number"
        )
    if used > rank:
        raise BoundsError(f"too many indices for tensor of dimension {rank}")
    plan = IndexPlan(shape)
    axis, open_ellipsis = 0, False
    for position, item in enumerate(items):
        if item is None:
            plan.layout.append(-1)
            plan.before.append(axis)
        elif item is Ellipsis:
            count = 0 if open_ellipsis else rank - used
            open_ellipsis = True
            plan.layout.extend(range(axis, axis + count))
            axis += count
        elif isinstance(item, Tensor):
            axis = _add_pick(plan, item, axis)
        elif isinstance(item, slice):
            _slice(plan, axis, item)
            plan.layout.append(axis)
            axis += 1
        else:
            _select(plan, axis, int(item), position)
            axis += 1
    plan.layout.extend(range(axis, rank))
    return plan


def _add_pick(plan: IndexPlan, item: Tensor, axis: int) -> int:
    count = _covered(item)
    if count == 0:  # a single truth value indexes a new dimension of one element
        plan.picks.append((len(plan.layout), item.reshape(1)))
        plan.layout.append(-1)
        plan.before.append(axis)
        return axis
    plan.picks.append((len(plan.layout), item))
    plan.layout.extend(range(axis, axis + count))
    return axis + count


def _select(plan: IndexPlan, axis: int, index: int, position: int) -> None:
    extent = plan.sizes[axis]
    if not -extent <= index < extent:
        raise BoundsError(
            f"index {index} is out of bounds for dimension {position} with size {extent}"
        )
    plan.starts[axis] = index + extent if index < 0 else index
    plan.sizes[axis] = 1


def _slice(plan: IndexPlan, axis: int, item: slice) -> None:
    try:
        places = range(*item.indices(plan.sizes[axis]))
    except TypeError:
        raise DTypeError(
            "slice indices must be integers or None or have an __index__ method"
        ) from None
    # An empty slice starts inside the dimension, so that the view's offset stays in range.
    plan.starts[axis] = places.start if len(places) else min(places.start, plan.sizes[axis])
    plan.sizes[axis] = len(places)
    plan.steps[axis] = places.step
