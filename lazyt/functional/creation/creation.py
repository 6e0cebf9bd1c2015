"""Making tensors from values: numbers, lists, arrays, buffers and other tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from lazyt import ops
from lazyt.errors import GradientError, ShapeError
from lazyt.functional.creation.nesting import node_of_nested
from lazyt.functional.elementwise.arithmetic import cast_to
from lazyt.functional.operands import constant_of
from lazyt.functional.type_promotion import as_dtype, get_default_dtype
from lazyt.handle.device import CPU, check_device, device, placed
from lazyt.handle.dispatch import array_node, type_title, wrap
from lazyt.handle.function_table import function
from lazyt.handle.tensor import Tensor
from lazyt.ir.dtypes import DType
from lazyt.ir.graph import Node, Shape
from lazyt.tracing.symbolic_numbers import is_lifted

__all__ = ["as_tensor", "asarray", "frombuffer", "scalar_tensor", "tensor"]


def fresh(node: Node, requires_grad: bool = False, place: device = CPU) -> Tensor:
    """A new leaf tensor on a device. Raises GradientError when whole numbers should require
    gradients."""
    if place is not CPU:
        node = placed(node, place)
    result = wrap(node, name="leaf")
    if requires_grad:
        if node.dtype.kind != "f":
            raise GradientError(
                "Only Tensors of floating point and complex dtype can require gradients"
            )
        result.requires_grad = True
    return result


# ------------------------------------------------------------------ from values


@function()
def tensor(
    data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """A copy of numbers, nested lists, an array or a tensor.

    Raises ShapeError for ragged lists, DTypeError for strings and LazytError for other values that
    are no numbers.
    """
    place = data.device if device is None and isinstance(data, Tensor) else check_device(device)
    wanted = None if dtype is None else as_dtype(dtype)
    if is_lifted(data):  # a float goes on being followed
        number = get_default_dtype() if wanted is None else wanted
        if isinstance(data, float) and number.kind == "f":
            return fresh(constant_of(data, number), requires_grad, place)
        data = float(data) if isinstance(data, float) else int(data)
    if isinstance(data, Tensor):
        node = ops.detach(data.node) if data.requires_grad else data.node
    elif isinstance(data, np.ndarray) and not data.flags.c_contiguous:
        from lazyt.handle.interop.numpy import from_numpy

        copied: Tensor = from_numpy(data).clone() if wanted is None else from_numpy(data).to(wanted)
        copied = copied.to(place)
        return copied.requires_grad_() if requires_grad else copied
    elif isinstance(data, (np.ndarray, np.generic)) and not isinstance(data, str):
        node = array_node(np.asarray(data))
    else:
        if hasattr(data, "__array__") and not isinstance(data, (list, tuple, str)):
            node = array_node(np.asarray(data))
        else:
            node = node_of_nested(data, wanted)
    return fresh(node if wanted is None else ops.cast(node, wanted), requires_grad, place)


def in_memory(shape: Shape, value: float, dtype: Any, device: Any) -> Tensor:
    """``full`` that is computed: state that every step of training writes over begins so, and the
    first step is the same graph as all others. ``dtype`` None is the default one."""
    wanted = get_default_dtype() if dtype is None else as_dtype(dtype)
    values = np.full(shape, value, getattr(np, wanted.name, np.float32))
    found = tensor(values, device=device).to(wanted)
    found.realize()
    return found


@function()
def as_tensor(data: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """``data`` as a tensor, without a copy where it is one, or an array, of that dtype."""
    place = data.device if device is None and isinstance(data, Tensor) else check_device(device)
    if isinstance(data, np.ndarray):
        from lazyt.handle.interop.numpy import from_numpy

        data = from_numpy(data)
    if isinstance(data, Tensor):
        same: Tensor = data if dtype is None else cast_to(data, dtype)
        return same if same.device is place else same.to(place)
    return tensor(data, dtype=dtype, device=place)


def asarray(
    obj: Any, *, dtype: Any = None, device: Any = None, copy: bool | None = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """``obj`` as a tensor that shares its memory where that is possible.

    Args:
        obj: a tensor, an array, an object with the buffer protocol (read as ``dtype``), a number
            or nested lists.
        copy: True for memory of its own in any case, False for never.

    Raises ShapeError's kin ValueError where ``copy=False`` cannot be kept.
    """
    place = obj.device if device is None and isinstance(obj, Tensor) else check_device(device)
    wanted = None if dtype is None else as_dtype(dtype)
    shared = _sharing(obj, wanted)
    if shared is not None and shared.device != place:
        shared = shared.to(place)
    if shared is None:
        if copy is False:
            raise ShapeError("can't alias arbitrary sequence into a tensor.")
        return tensor(obj, dtype=wanted, device=place, requires_grad=requires_grad)
    if wanted is not None and shared.dtype is not wanted:
        if copy is False:
            raise ShapeError(
                f"can't alias tensor with dtype '{type_title(shared.dtype)}' into dtype "
                f"'{type_title(wanted)}'."
            )
        shared = cast_to(shared, wanted)
    elif copy:
        shared = shared.clone()
    if not requires_grad:
        return shared.detach() if shared.requires_grad else shared
    return shared if shared.requires_grad else shared.detach().requires_grad_()


def _sharing(obj: Any, dtype: DType | None) -> Tensor | None:
    """A tensor over the memory of ``obj``; None when it has none to share."""
    if isinstance(obj, Tensor):
        return obj
    if isinstance(obj, np.ndarray):
        from lazyt.handle.interop.numpy import from_numpy

        return from_numpy(obj)
    if isinstance(obj, (bytes, bytearray, memoryview)):
        return frombuffer(obj, dtype=dtype or get_default_dtype())
    return None


def frombuffer(
    buffer: Any, *, dtype: Any, count: int = -1, offset: int = 0, requires_grad: bool = False
) -> Tensor:
    """A vector over the memory of an object with the buffer protocol.

    Args:
        dtype: how its bytes are read.
        count: number of elements, all that fit by default.
        offset: the first byte.

    Raises ShapeError, a ValueError, for lengths that do not fit.
    """
    from lazyt.handle.interop.numpy import from_numpy

    wanted = as_dtype(dtype)
    try:
        raw = memoryview(buffer).cast("B")
    except TypeError:
        raise ShapeError("object does not implement Python buffer protocol.") from None
    length, size = raw.nbytes, wanted.itemsize
    if not length or not count:
        raise ShapeError(f"both buffer length ({length}) and count ({count}) must not be 0")
    if not 0 <= offset < length:
        raise ShapeError(
            f"offset ({offset} bytes) must be non-negative and no greater than buffer length "
            f"({length} bytes) minus 1"
        )
    if count < 0:
        if (length - offset) % size:
            raise ShapeError(
                f"buffer length ({length - offset} bytes) after offset ({offset} bytes) must be a "
                f"multiple of element size ({size})"
            )
        count = (length - offset) // size
    elif offset + count * size > length:
        raise ShapeError(
            f"requested buffer length ({count} * {size} bytes) after offset ({offset} bytes) must "
            f"not be greater than actual buffer length ({length} bytes)"
        )
    array: Any = np.frombuffer(raw, np.uint8, count * size, offset)
    found: Tensor = from_numpy(array).view(wanted)
    return found.requires_grad_() if requires_grad else found


@function()
def scalar_tensor(
    s: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False,
    layout: Any = None, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """A zero-dimensional tensor of one number, floating point by default."""
    wanted = get_default_dtype() if dtype is None else dtype
    return tensor(s, dtype=wanted, device=device, requires_grad=requires_grad)


@function(method=True)
def new_tensor(
    self: Tensor, data: Any, *, dtype: Any = None, device: Any = None,
    requires_grad: bool = False, layout: Any = None, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """A tensor of ``data``, in this tensor's dtype."""
    place = self.device if device is None else device
    return tensor(data, dtype=dtype or self.dtype, device=place, requires_grad=requires_grad)
