"""Tensors that change how they look at memory, or at which: resize_, set_, t_ and the like."""

from __future__ import annotations

from typing import Any

from lazyt import ops
from lazyt.autograd.handles import root_view
from lazyt.dispatch import check_writable, method, type_title
from lazyt.errors import DTypeError, LazytError, ShapeError
from lazyt.functional.operands import as_shape, sizes_by_name, wrong_arguments
from lazyt.functional.promotion import as_dtype
from lazyt.grad_mode import mode
from lazyt.ir.dtypes import DType
from lazyt.ir.graph import Shape
from lazyt.memory_formats import (
    channel_order,
    contiguous_format,
    dense_strides,
    preserve_format,
)
from lazyt.storage import Storage
from lazyt.tape import AccumulateGrad, hand_over
from lazyt.tensor import Tensor
from lazyt.view_parts import as_strided
from lazyt.view_shapes import expand, squeeze, t, transpose, unsqueeze
from lazyt.views import (
    Reshape,
    Slice,
    Step,
    View,
    Window,
    contiguous_strides,
    is_contiguous,
)

__all__ = [
    "as_strided_", "broadcast_to", "detach", "detach_", "is_same_size", "ravel", "resize_as_",
    "squeeze_", "swapaxes", "swapaxes_", "swapdims_", "t_", "transpose_", "unsqueeze_",
]  # fmt: skip


def arranged(storage: Storage, shape: Shape, strides: Shape, offset: int) -> View:
    """How elements of a storage look with any strides; the bounds must hold."""
    whole = storage.node
    size = 1
    for extent in shape:
        size *= extent
    steps: tuple[Step, ...]
    if size and is_contiguous(shape, strides):
        steps = (Reshape(shape),) if whole.shape != shape else ()
        if size != whole.size:
            steps = (Reshape((whole.size,)), Slice((offset,), (size,), (1,)), Reshape(shape))
    else:
        steps = (Window(shape, strides, offset if size else 0),)
    return View(shape, strides, offset, steps, "View")


# ---------------------------------------------------------------------- other shapes in place


def _become(self: Tensor, shown: Tensor) -> Tensor:
    """Let a tensor look as its view ``shown`` does; returns it."""
    check_writable(self)
    new, old = shown._view, self._view
    assert new is not None
    made = None
    if old is None or old.root:
        new.root, new.source = True, None
        made, new.fn = new.fn, None
        new.made_for = None
    else:
        new.source = old.source
    storage = shown._storage
    leaf = storage.fn
    if isinstance(leaf, AccumulateGrad) and new.root:  # its gradient has its shape
        part = View(new.shape, new.strides, new.offset, new.steps, new.name)
        self._storage, self._view = storage.region(part), root_view(new)
        self._storage.node, self._storage.fn = leaf.mark(self._storage.current()), leaf
    else:
        self._storage, self._view = storage, new
        if made is not None and mode.enabled:  # what others see in the storage is seen through it
            hand_over(leaf, made)
            storage.fn = made
    self._storage.touch()
    return self


@method()
def t_(self: Tensor) -> Tensor:
    """Transpose this matrix in place; vectors stay. Raises ShapeError for more dimensions."""
    return _become(self, t(self))


@method("transpose_", "swapdims_")
def transpose_(self: Tensor, dim0: int, dim1: int) -> Tensor:
    """Exchange two dimensions in place."""
    return _become(self, transpose(self, dim0, dim1))


swapdims_ = transpose_


@method()
def swapaxes(input: Tensor, axis0: int, axis1: int) -> Tensor:
    """``transpose`` by NumPy's name. Raises BoundsError."""
    return transpose(input, axis0, axis1)


@method()
def swapaxes_(self: Tensor, axis0: int, axis1: int) -> Tensor:
    """``transpose_`` by NumPy's name. Raises BoundsError."""
    return _become(self, transpose(self, axis0, axis1))


@method()
def squeeze_(self: Tensor, dim: Any = None, *more: int) -> Tensor:
    """Drop dimensions of extent one in place: all, or those of ``dim`` (and ``more``) that are."""
    return _become(self, squeeze(self, dim, *more))


@method()
def unsqueeze_(self: Tensor, dim: int) -> Tensor:
    """Add a dimension of extent one at ``dim`` in place."""
    return _become(self, unsqueeze(self, dim))


@method()
def as_strided_(self: Tensor, size: Any, stride: Any, storage_offset: int | None = None) -> Tensor:
    """Show the storage with any strides from now on. Raises as ``as_strided`` does."""
    return _become(self, as_strided(self, size, stride, storage_offset))


@method()
def ravel(input: Tensor) -> Tensor:
    """All elements in one dimension: a view where the elements are contiguous, else a copy."""
    found: Tensor = input.contiguous().view(-1)
    return found


@method()
@sizes_by_name("size")
def broadcast_to(input: Tensor, *size: Any) -> Tensor:
    """``input`` expanded to ``size``. Raises ShapeError for sizes that do not fit."""
    return expand(input, *size)


def detach(input: Tensor) -> Tensor:
    """A tensor of the same memory without gradient history."""
    found: Tensor = input.detach()
    return found


def detach_(input: Tensor) -> Tensor:
    """Drop a tensor's gradient history. Raises GradientError for views."""
    found: Tensor = input.detach_()
    return found


@method()
def is_same_size(input: Tensor, other: Tensor) -> bool:
    """Whether two tensors have the same shape."""
    return input.shape == other.shape


# ---------------------------------------------------------------------- other memory in place


@method()
def resize_(self: Tensor, *sizes: Any, memory_format: Any = contiguous_format) -> Tensor:
    """Take another size over the same memory, which grows where it must; new elements are zeros.

    Raises LazytError for a tensor that requires its gradient, and for memory
    of NumPy's that would have to grow.
    """
    if not sizes:
        raise DTypeError('resize_() missing 1 required positional arguments: "size"')
    shape = as_shape(sizes, "resize_")
    if self._fn is not None:
        raise LazytError("cannot resize variables that require grad")
    if any(extent < 0 for extent in shape):
        raise ShapeError("numel: integer multiplication overflow")
    if memory_format is preserve_format:
        raise LazytError("Unsupported memory formatPreserve")
    strides = contiguous_strides(shape)
    if memory_format is not contiguous_format:
        strides = dense_strides(shape, channel_order(shape, memory_format, "resize_"))
    elif shape == tuple(self.shape):
        strides = self.strides
    _show(self, shape, strides, self._offset)
    self._storage.touch()
    return self


def _show(self: Tensor, shape: Shape, strides: Shape, offset: int) -> None:
    """Look at the tensor's memory in a new way; it grows where that needs more."""
    storage, size = self._storage, self.itemsize
    if 0 not in shape:
        reach = 1 + offset + sum((n - 1) * s for n, s in zip(shape, strides))
        if reach * size > storage.nbytes:
            storage.enlarge(reach * size)
    old = self._view
    storage = storage.whole(self.dtype)
    view = arranged(storage, shape, strides, offset)
    if old is None or old.root:
        view.root = True
    else:
        view.source = old.source
    self._storage, self._view = storage, view


@method()
def resize_as_(self: Tensor, the_template: Tensor, *, memory_format: Any = None) -> Tensor:
    """``resize_`` to the size of another tensor."""
    wanted = contiguous_format if memory_format in (None, preserve_format) else memory_format
    resized: Tensor = resize_(self, tuple(the_template.shape), memory_format=wanted)
    return resized


@method()
def set_(
    self: Tensor, source: Any = None, storage_offset: int = 0, size: Any = None, stride: Any = None
) -> Tensor:
    """Look at other memory: that of a tensor or of a storage object; none without ``source``.

    Args:
        source: a Tensor of this dtype, or what ``storage()`` or ``untyped_storage()`` gave.
        storage_offset, size, stride: the arrangement in it; all of it, row-major, by default.

    Raises DTypeError for memory of another dtype, ShapeError for what leaves it.
    """
    check_writable(self)
    version = self._storage.version_now()
    if source is None:
        self._storage, self._view = Storage(_nothing(self.dtype)), None
    elif isinstance(source, Tensor) and size is None:
        if source.dtype is not self.dtype:
            raise DTypeError(
                f"Could not set tensor of type {c_name(source.dtype)} to a tensor of type "
                f"{c_name(self.dtype)}"
            )
        self._storage, self._view = source._storage, source._view
    else:
        if not isinstance(source, Tensor) and not hasattr(source, "over"):
            forms = ("Storage source", "Tensor source", "Tensor source, int storage_offset, tuple "
                     "of ints size, tuple of ints stride = None")  # fmt: skip
            raise wrong_arguments("set_", (source,), forms)
        storage: Storage = source._storage if isinstance(source, Tensor) else source.over(self)
        storage = storage.whole(self.dtype)
        shape = (storage.node.size,) if size is None else as_shape((size,), "set_")
        strides = contiguous_strides(shape) if stride is None else as_shape((stride,), "set_")
        self._storage, self._view = storage, None
        reach = 1 + storage_offset + sum((n - 1) * s for n, s in zip(shape, strides))
        if 0 not in shape and reach > storage.node.size:
            storage.enlarge(reach * self.itemsize)
            storage = storage.whole(self.dtype)
            self._storage = storage
        self._view = arranged(storage, shape, strides, storage_offset)
        self._view.root = True
    if self._storage.version_now() <= version:
        self._storage.touch()
    return self


def _nothing(dtype: DType) -> Any:
    return ops.expand(ops.reshape(ops.constant(0, dtype), (1,)), (0,))


def c_name(dtype: DType) -> str:
    """What PyTorch's messages about storages call a dtype."""
    names = {"int64": "long int", "float32": "float", "float64": "double", "int32": "int",
             "uint8": "unsigned char", "int8": "signed char", "int16": "short int",
             "bool": "bool"}  # fmt: skip
    return names.get(dtype.name, f"c10::{type_title(dtype)}")


# ---------------------------------------------------------------------- bits


def view_bits(input: Tensor, dtype: DType) -> Tensor:
    """The same memory as elements of another dtype, whose size may differ.

    The last dimension takes up the difference. Raises ShapeError, in PyTorch's words, where sizes,
    strides or the offset do not allow that. Carries no gradient.
    """
    dtype = as_dtype(dtype)
    shape, strides, offset = tuple(input.shape), input.strides, input._offset
    if dtype is not input.dtype and dtype.itemsize != input.itemsize:
        shape, strides, offset = _regrouped(input, dtype)
    storage = input._storage.whole(dtype)
    if storage is input._storage:
        storage = storage.fork()
    made = Tensor.__new__(Tensor)
    made._storage = storage
    made._view = arranged(storage, shape, strides, offset)
    return made


def _regrouped(input: Tensor, dtype: DType) -> tuple[Shape, Shape, int]:
    """Shape, strides and offset in elements of another size."""
    shape, strides, offset = list(input.shape), list(input.strides), input._offset
    old, new = input.itemsize, dtype.itemsize
    pair = f"to view {type_title(input.dtype)} as {type_title(dtype)} (different element sizes)"
    if not shape:
        raise ShapeError(f"self.dim() cannot be 0 {pair}")
    if old > new:
        if strides[-1] != 1:
            raise ShapeError(f"self.stride(-1) must be 1 {pair}, but got {strides[-1]}")
        ratio = old // new
        shape[-1] *= ratio
        return tuple(shape), (*(s * ratio for s in strides[:-1]), 1), offset * ratio
    ratio = new // old
    if shape[-1] % ratio:
        raise ShapeError(f"self.size(-1) must be divisible by {ratio} {pair}, but got {shape[-1]}")
    if offset % ratio:
        raise ShapeError(
            f"self.storage_offset() must be divisible by {ratio} {pair}, but got {offset}"
        )
    if strides[-1] != 1:
        raise ShapeError(f"self.stride(-1) must be 1 {pair}, but got {strides[-1]}")
    for axis, stride in enumerate(strides[:-1]):
        if stride % ratio:
            raise ShapeError(
                f"self.stride({axis}) must be divisible by {ratio} {pair}, but got {stride}"
            )
    shape[-1] //= ratio
    return tuple(shape), (*(s // ratio for s in strides[:-1]), 1), offset // ratio
