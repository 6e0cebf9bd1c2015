"""Parts of the same memory: slices, diagonals, windows, with PyTorch's strides and errors."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar, cast

from lazyt.errors import BoundsError, LazytError, ShapeError
from lazyt.functional.operands import as_shape, normalize_dim
from lazyt.functional.overriding import answered
from lazyt.handle.dispatch import method, view_of
from lazyt.handle.function_table import function
from lazyt.handle.grad_mode import mode
from lazyt.handle.storage import Storage
from lazyt.handle.tape import GradFn, Moves, Written, record_view
from lazyt.handle.tensor import Size, Tensor
from lazyt.handle.views import Reshape, Slice, Step, Window, check_bounds, contiguous_strides
from lazyt.ir.graph import Shape

__all__ = ["as_strided", "diagonal", "narrow", "select"]

F = TypeVar("F", bound=Callable[..., Any])


class Part(NamedTuple):
    """A view of tensors of one shape and arrangement, wherever in memory these begin.

    Attributes:
        moves: the movements from a tensor's value to the view's.
        shape, strides, offset: the arrangement in memory; the offset is counted from the tensor's.
        name: of the function, for ``grad_fn``.
    """

    moves: tuple[Step, ...]
    shape: Shape
    strides: Shape
    offset: int
    name: str

    def of(self, input: Tensor) -> Tensor:
        """The view of a tensor."""
        outer = input._view
        offset = self.offset if outer is None else outer.offset + self.offset
        return view_of(input, self.moves, self.shape, self.strides, offset, self.name)


#: Parts that were taken before: by shape and strides (none for row-major), and what they are.
_parts: dict[tuple[Any, ...], Part] = {}
_MOST_PARTS = 8192


def find_part(input: Tensor, what: Any) -> tuple[Part | None, tuple[Any, ...]]:
    """A part that was taken before of a tensor of this shape and arrangement, and the key by which
    ``note_part`` takes note of it. ``what`` says which part it is, and no other function's is."""
    view = input._view
    if view is None:
        key: tuple[Any, ...] = (input._storage.node.shape, None, what)
    else:
        key = (view.shape, view.strides, what)
    return _parts.get(key), key


def note_part(key: tuple[Any, ...], input: Tensor, made: Tensor) -> Tensor:
    """Takes note of how ``made``, a view of ``input``, was made; returns it."""
    view, outer = made._view, input._view
    assert view is not None
    if len(_parts) >= _MOST_PARTS:
        _parts.clear()
    steps = view.steps if outer is None else view.steps[len(outer.steps) :]
    offset = view.offset if outer is None else view.offset - outer.offset
    _parts[key] = Part(steps, view.shape, view.strides, offset, view.name)
    return made


def _is_said(item: Any) -> bool:
    """Whether an argument is a number, or are numbers, that the next call may be found by."""
    kind = type(item)
    return kind is int or (
        (kind is tuple or kind is Size) and all(type(number) is int for number in item)
    )


def remembered(function: F) -> F:
    """Decorator: a function of a tensor and whole numbers, which gives a view of it, or a copy.
    Where it was a view, it is made at once the next time."""
    name = function.__name__

    @functools.wraps(function)
    def made(input: Any, *numbers: Any, **named: Any) -> Any:
        if named or not isinstance(input, Tensor) or not all(map(_is_said, numbers)):
            try:
                return function(input, *numbers, **named)
            except TypeError:
                return answered(made, (input, *numbers), named)
        part, key = find_part(input, (name, numbers))
        if part is not None:
            return part.of(input)
        found = function(input, *numbers)
        view, outer = found._view, input._view
        if found is not input and found._storage is input._storage and view is not None:
            steps = () if outer is None else outer.steps
            if view.steps[: len(steps)] == steps and not view.root:
                note_part(key, input, found)
        return found

    return cast(F, made)


def slice_view(
    input: Tensor, starts: Shape, sizes: Shape, steps: Shape, name: str = "Slice"
) -> Tensor:
    """Along every axis, ``sizes`` elements from ``starts`` in ``steps``; the bounds must hold."""
    part, key = find_part(input, (name, starts, sizes, steps))
    if part is not None:
        return part.of(input)
    strides = input.strides
    offset = input._offset + sum(a * s for a, s in zip(starts, strides))
    wider = tuple(s * k for s, k in zip(strides, steps))
    made = view_of(input, (Slice(starts, sizes, steps),), sizes, wider, offset, name)
    return note_part(key, input, made)


def select_view(input: Tensor, axis: int, index: int) -> Tensor:
    """Element ``index`` of ``axis``, without that axis; both must be in range."""
    part, key = find_part(input, ("select", axis, index))
    if part is not None:
        return part.of(input)
    shape, strides = tuple(input.shape), input.strides
    rank = len(shape)
    starts = tuple(index if i == axis else 0 for i in range(rank))
    sizes = tuple(1 if i == axis else n for i, n in enumerate(shape))
    new = shape[:axis] + shape[axis + 1 :]
    made = view_of(
        input,
        (Slice(starts, sizes, (1,) * rank), Reshape(new)),
        new,
        strides[:axis] + strides[axis + 1 :],
        input._offset + index * strides[axis],
        "Select",
    )
    return note_part(key, input, made)


def element_view(input: Tensor, index: tuple[Any, ...]) -> Tensor | None:
    """The element at ``index``, of which every part is a number in range; None for other indices,
    and where all extents are one."""
    shape = tuple(input.shape)
    if len(index) != len(shape):
        return None
    starts: list[int] = []
    for number, extent in zip(index, shape):
        if type(number) is not int or not -extent <= number < extent:
            return None
        starts.append(number if number >= 0 else number + extent)
    ones = (1,) * len(shape)
    if shape == ones:
        return None
    offset = input._offset
    for start, stride in zip(starts, input.strides):
        offset += start * stride
    moves = (Slice(tuple(starts), ones, ones), Reshape(()))
    return view_of(input, moves, (), (), offset, "Select")


@function()
@method()
def select(input: Tensor, dim: int, index: int) -> Tensor:
    """Element ``index`` along ``dim``. Raises BoundsError when it is out of range."""
    shape = tuple(input.shape)
    if not shape:
        raise BoundsError("select() cannot be applied to a 0-dim tensor.")
    axis = normalize_dim(dim, len(shape))
    index = operator.index(index)
    if not -shape[axis] <= index < shape[axis]:
        raise BoundsError(
            f"select(): index {index} out of range for tensor of size {list(shape)} at dimension "
            f"{axis}"
        )
    return select_view(input, axis, index % shape[axis])


@function(fractions=("start",))
@method()
def narrow(input: Tensor, dim: int, start: Any, length: int) -> Tensor:
    """``length`` elements from ``start`` along ``dim``.

    Raises LazytError when they are not there.
    """
    key = None
    if type(dim) is int and type(start) is int and type(length) is int:
        part, key = find_part(input, ("narrow", dim, start, length))
        if part is not None:
            return part.of(input)
    shape = tuple(input.shape)
    if not shape:
        raise LazytError("narrow() cannot be applied to a 0-dim tensor.")
    if isinstance(start, Tensor) and (start.shape or start.dtype.kind not in "iu"):
        raise LazytError("start must be an 0-dim integral Tensor.")
    axis, start = normalize_dim(dim, len(shape)), operator.index(start)
    extent, length = shape[axis], operator.index(length)
    if length < 0:
        raise LazytError("narrow(): length must be non-negative.")
    if not -extent <= start <= extent:
        raise BoundsError(
            f"start out of range (expected to be in range of [{-extent}, {extent}], "
            f"but got {start})"
        )
    start = start + extent if start < 0 else start
    if start + length > extent:
        raise LazytError(f"start ({start}) + length ({length}) exceeds dimension size ({extent}).")
    rank = len(shape)
    made = slice_view(
        input,
        tuple(start if i == axis else 0 for i in range(rank)),
        tuple(length if i == axis else n for i, n in enumerate(shape)),
        (1,) * rank,
    )
    return made if key is None else note_part(key, input, made)


def slice_along(input: Tensor, dim: int, start: Any, end: Any, step: int) -> Tensor:
    """The view ``start:end:step`` along ``dim``; the bounds are cut to the dimension.

    Raises LazytError for a step that is not positive.
    """
    shape = tuple(input.shape)
    if not shape:
        raise BoundsError("slice() cannot be applied to a 0-dim tensor.")
    axis = normalize_dim(dim, len(shape))
    if step <= 0:
        raise LazytError("slice step must be positive")
    places = range(*slice(start, end, step).indices(shape[axis]))
    rank = len(shape)
    return slice_view(
        input,
        tuple(places.start if i == axis else 0 for i in range(rank)),
        tuple(len(places) if i == axis else n for i, n in enumerate(shape)),
        tuple(step if i == axis else 1 for i in range(rank)),
    )


@function()
@method()
def diagonal(input: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """The diagonal of the matrices over ``dim1`` and ``dim2``, as the last dimension."""
    shape, strides = tuple(input.shape), input.strides
    rank = len(shape)
    a, b = normalize_dim(dim1, rank), normalize_dim(dim2, rank)
    if a == b:
        raise ShapeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    length = max(min(shape[a], shape[b] - offset) if offset >= 0
                 else min(shape[a] + offset, shape[b]), 0)  # fmt: skip
    others = [i for i in range(rank) if i not in (a, b)]

    def arrange(steps: Shape) -> tuple[Shape, int]:
        start = offset * steps[b] if offset >= 0 else -offset * steps[a]
        return (*[steps[i] for i in others], steps[a] + steps[b]), start if length else 0

    new = (*[shape[i] for i in others], length)
    inner, first = arrange(contiguous_strides(shape))
    outer, shift = arrange(strides)
    window = Window(new, inner, first)
    return view_of(input, (window,), new, outer, input._offset + shift, "Diagonal")


@function(method=True)
@method()
def unfold(input: Tensor, dimension: int, size: int, step: int) -> Tensor:
    """All slices of ``size`` along ``dimension``, ``step`` apart, as a new last dimension."""
    shape, strides = tuple(input.shape), input.strides
    axis = normalize_dim(dimension, len(shape))
    extent = shape[axis] if shape else 1
    size, step = operator.index(size), operator.index(step)
    if size < 0:
        raise LazytError(f"size is {size} but must be >= 0")
    if step <= 0:
        raise LazytError(f"step is {step} but must be > 0")
    if size > extent:
        raise LazytError(
            f"maximum size for tensor at dimension {axis} is {extent} but size is {size}"
        )
    if not shape:
        return view_of(input, (Reshape((size,)),), (size,), (1,), input._offset, "Unfold")
    count = (extent - size) // step + 1
    new = (*shape[:axis], count, *shape[axis + 1 :], size)

    def arrange(steps: Shape) -> Shape:
        return (*steps[:axis], steps[axis] * step, *steps[axis + 1 :], steps[axis])

    window = Window(new, arrange(contiguous_strides(shape)), 0)
    return view_of(input, (window,), new, arrange(strides), input._offset, "Unfold")


def _look_past(part: Storage, whole: Storage, fn: GradFn) -> None:
    """Let gradients of ``whole``, a Storage of all the memory that ``part`` covers a region of, go
    to ``part``, whose grad_fn is ``fn``."""
    assert part.share is not None and part.share.region is not None
    region, base, value = part.share.region, whole.current(), part.current()
    whole.node = region.write_back(base, value)
    whole.fn = record_view("CopySlices", fn)
    whole.fn.parents = (None, fn)
    whole.fn.operands = Written(region, base.shape, base.dtype, 0, ())


@function(method=True)
@method()
def as_strided(input: Tensor, size: Any, stride: Any, storage_offset: int | None = None) -> Tensor:
    """A view of the whole storage with any strides.

    Raises ShapeError when it leaves the storage.
    """
    shape, strides = as_shape((size,), "as_strided"), as_shape((stride,), "as_strided")
    if len(shape) != len(strides):
        raise ShapeError("mismatch in length of strides and shape")
    if any(s < 0 for s in strides):
        raise ShapeError(
            "as_strided: Negative strides are not supported at the moment, got strides: "
            f"{list(strides)}"
        )
    if any(n < 0 for n in shape):
        raise ShapeError(
            f"Trying to create tensor with negative dimension {min(shape)}: {list(shape)}"
        )
    offset = input._offset if storage_offset is None else int(storage_offset)
    if offset < 0:
        raise ShapeError(f"Tensor: invalid storage offset {offset}")
    storage = input._storage.whole(input.dtype)
    check_bounds(shape, strides, offset, storage.node.size, storage.node.dtype.itemsize)
    own = input._fn
    if storage is not input._storage and own is not None and mode.enabled:
        _look_past(input._storage, storage, own)
        input = object.__new__(Tensor)
        input._storage, input._view = storage, None
    found = view_of(input, (), shape, strides, offset, "AsStrided")
    view = found._view
    assert view is not None
    found._storage = storage
    view.steps = (Window(shape, strides, offset),)
    if view.fn is not None:
        whole, outer = storage.node, input._view
        steps = () if outer is None else outer.steps
        assert isinstance(view.fn.operands, Moves)
        view.fn.operands = Moves(
            view.steps, whole.shape, whole.dtype, view.fn.operands.index, 0, steps
        )
    return found
