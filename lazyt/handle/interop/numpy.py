"""Values out of tensors, and memory shared with NumPy in both directions."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from lazyt import ops
from lazyt.errors import DTypeError, GradientError, LazytError, ShapeError, warn
from lazyt.handle import pending
from lazyt.handle.device import CPU, META
from lazyt.handle.dispatch import method, view_of, wrap
from lazyt.handle.grad_mode import mode
from lazyt.handle.hooks import capturing
from lazyt.handle.interop.elements import memory_of_view, number_in
from lazyt.handle.storage import Exposure, Storage
from lazyt.handle.tensor import Tensor
from lazyt.handle.views import Window, contiguous_strides
from lazyt.ir.dtypes import DType, bfloat16, decode_bfloat16, dtype_by_numpy
from lazyt.ir.forms import use
from lazyt.runtime.memory import Buffer

Array = np.ndarray[Any, Any]


def read_values(tensor: Tensor, reason: str) -> Array:
    """The stored values, computed when they are pending; a look, not to be written to.

    bfloat16 gives uint16 bit patterns. ``reason`` is what ``why_realized()`` tells. A view of
    memory that is there is read where it lies: programs read tables number by number.
    """
    view = tensor._view
    if view is not None and 0 not in view.shape:
        data, size = memory_of_view(tensor, reason), tensor.dtype.itemsize
        if data is not None:
            flat = data.as_numpy(tensor.dtype, (data.nbytes // size,))
            steps = [stride * size for stride in view.strides]
            return np.ndarray(view.shape, flat.dtype, flat, view.offset * size, steps)
    node = tensor.node
    pending.realize_now([node], reason)
    values: Array = node.data.as_numpy(node.dtype, node.shape)
    return values


def readable_values(tensor: Tensor, reason: str) -> Array:
    """``read_values`` with bfloat16 as float32."""
    values = read_values(tensor, reason)
    return decode_bfloat16(values) if tensor.dtype is bfloat16 else values


def number_of(bits: int, dtype: DType) -> bool | int | float:
    """The number with these bits, of a dtype of numbers that Python has."""
    if dtype.kind == "b":
        return bool(bits)
    if dtype.kind != "f":
        return bits
    code, size = ("d", "q") if dtype.itemsize == 8 else ("f", "i")
    found: float = struct.unpack(code, struct.pack(size, bits))[0]
    return found


def only_number(tensor: Tensor, reason: str) -> bool | int | float:
    """The only element of ``tensor``; a look. Raises LazytError on the meta device."""
    if use.any and tensor.device is META:
        raise LazytError("Tensor.item() cannot be called on meta tensors")
    watcher = capturing()
    if watcher is not None:
        bits = watcher.number(tensor.node, reason)
        if bits is not None:
            return number_of(bits, tensor.dtype)
    found = number_in(tensor, reason)
    if found is None:
        values = readable_values(tensor, reason)
        found = values.item()
    return found


@method()
def item(self: Tensor) -> bool | int | float:
    """The only element as a Python number. Raises LazytError when there is not exactly one."""
    view = self._view
    if self._storage.node.shape if view is None else view.shape:
        count = self.shape.numel()
        if count != 1:
            raise LazytError(f"a Tensor with {count} elements cannot be converted to Scalar")
    return only_number(self, "item()")


@method()
def tolist(self: Tensor) -> Any:
    """The elements as nested lists of Python numbers; a number for no dimensions."""
    return readable_values(self, "tolist()").tolist()


@method()
def numpy(self: Tensor, *, force: bool = False) -> Array:
    """An array that shares memory with the tensor: writes to either show in the other.

    Args:
        force: detach first, and give a float32 copy of bfloat16, or one of conjugates.

    Raises GradientError for a tensor that requires its gradient, unless under ``no_grad``, and
    DTypeError for bfloat16, LazytError where the conjugate bit is set.
    """
    if self.device is not CPU:
        if not force:
            raise DTypeError(
                f"can't convert {self.device} device type tensor to numpy. Use Tensor.cpu() to "
                "copy the tensor to host memory first."
            )
        self = self.cpu()
    if self._fn is not None:
        if mode.enabled and not force:
            raise GradientError(
                "Can't call numpy() on Tensor that requires grad. "
                "Use tensor.detach().numpy() instead."
            )
        self = self.detach()
    if self._view is not None and self._view.conjugated:
        if not force:
            raise LazytError(
                "Can't call numpy() on Tensor that has conjugate bit set. "
                "Use tensor.resolve_conj().numpy() instead."
            )
        return readable_values(self, "numpy()")
    if self.dtype is bfloat16:
        if force:
            return readable_values(self, "numpy()")
        raise DTypeError("Got unsupported ScalarType BFloat16")
    return shared_array(self)


def shared_array(tensor: Tensor) -> Array:
    """An array on the tensor's memory, with its strides."""
    dtype = tensor.dtype
    shape = tuple(tensor.shape)
    storage = tensor._storage
    token = storage.expose()
    size = dtype.itemsize
    flat = token.as_numpy(dtype, (storage.nbytes // dtype.itemsize,))
    steps = tuple(s * size for s in tensor.strides)
    if 0 in shape:
        return np.empty(shape, dtype.numpy)
    return np.ndarray(shape, dtype.numpy, flat, tensor._offset * size, steps)


@method("__array__")
def as_array(self: Tensor, dtype: Any = None, copy: bool | None = None) -> Array:
    """The array NumPy asks for; shares memory where neither dtype nor ``copy`` forbid it."""
    array = numpy(self)
    if dtype is not None and np.dtype(dtype) != array.dtype:
        if copy is False:
            raise ValueError("Unable to avoid copy while creating an array as requested.")
        return array.astype(dtype)
    return array.copy("K") if copy else array


def from_numpy(ndarray: Array) -> Tensor:
    """A tensor on the array's memory: writes to either show in the other.

    Raises DTypeError for what is no array or has a type that tensors do not have, and ShapeError
    for strides that tensors cannot have (negative, or not whole elements).
    """
    array = ndarray
    if not isinstance(array, np.ndarray):
        kind = type(array)
        place = "numpy." if isinstance(array, np.generic) else ""
        raise DTypeError(f"expected np.ndarray (got {place}{kind.__name__})")
    dtype = dtype_by_numpy(array.dtype)
    if dtype is None:
        raise DTypeError(
            f"can't convert np.ndarray of type numpy.{array.dtype.type.__name__}. "
            "The only supported types are: "
            "float64, float32, float16, complex64, complex128, int64, int32, int16, int8, uint64, "
            "uint32, uint16, uint8, and bool."
        )
    if not array.dtype.isnative:
        raise ShapeError(
            "given numpy array has byte order different from the native byte order. Conversion "
            "between byte orders is currently not supported."
        )
    size = dtype.itemsize
    if any(s < 0 for s in array.strides):
        raise ShapeError(
            "At least one stride in the given numpy array is negative, and tensors with negative "
            "strides are not currently supported. (You can probably work around this by making a "
            "copy of your array  with array.copy().) "
        )
    if any(s % size for s in array.strides):
        raise ShapeError(
            "given numpy array strides not a multiple of the element byte size. "
            "Copy the numpy array to reallocate the memory."
        )
    warn_if_read_only(array, "NumPy array")
    strides = tuple(s // size for s in array.strides)
    return tensor_over(
        array.__array_interface__["data"][0], dtype, tuple(array.shape), strides, array
    )


def warn_if_read_only(array: Array, title: str) -> None:
    """Warn, on behalf of a function that users call, that tensors over ``array`` are writable."""
    if not array.flags.writeable:
        warn(
            f"The given {title} is not writable, and tensors are. Writing to this tensor is "
            "undefined behaviour; copy the values first to be safe."
        )


def owned_tensor(array: Array) -> Tensor:
    """A tensor on the memory of a contiguous array that nobody else will look at or change."""
    if not array.flags.c_contiguous or not array.flags.owndata:
        return from_numpy(array)
    dtype = dtype_by_numpy(array.dtype)
    assert dtype is not None
    buffer = Buffer.foreign(array.__array_interface__["data"][0], array.nbytes, array)
    return wrap(ops.input_(tuple(array.shape), dtype, buffer))


def tensor_over(
    ptr: int, dtype: DType, shape: tuple[int, ...], strides: tuple[int, ...], owner: object
) -> Tensor:
    """A tensor on foreign memory: writes to either show in the other.

    Args:
        ptr: address of the first element.
        strides: in elements, none negative.
        owner: lives as long as the memory is needed.
    """
    size = dtype.itemsize
    plain = strides == contiguous_strides(shape)
    extent = 0 if 0 in shape else 1 + sum((n - 1) * s for n, s in zip(shape, strides))
    whole = shape if plain and extent else (extent,)
    buffer = Buffer.foreign(ptr, extent * size, owner)
    storage = Storage(ops.input_(whole, dtype, buffer))
    array = owner if type(owner) is np.ndarray else None
    storage.memory().exposure = Exposure(buffer, None, array=array)
    tensor = object.__new__(Tensor)
    tensor._storage, tensor._view = storage, None
    if whole == shape:
        return tensor
    view = view_of(tensor, (Window(shape, strides, 0),), shape, strides, 0, "AsStrided")
    assert view._view is not None
    view._view.source = None  # to its user it is no view
    return view


__all__ = ["from_numpy"]
