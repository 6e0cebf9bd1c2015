"""NumPy's functions called with tensors, and what ``asarray`` and ``frombuffer`` take.

Python's operators between an array and a tensor are lazyt's on either side: ``array + tensor`` is a
lazy tensor that keeps its gradient, its type follows lazyt's promotion. The same holds for
the functions that stand for operators (``np.add``). All other ufuncs are computed by NumPy, at
once, from the tensors' values, and what comes out is a tensor again, as in PyTorch. With ``out=``
NumPy computes too: the result is written to the given array or tensor, so ``array += tensor``
changes the array. Comparisons give bool tensors (PyTorch's give uint8 there). Functions that are no
ufuncs (``np.sort``) take tensors by ``__array__``, or call the tensor's method of that name.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np

from lazyt.errors import DTypeError, LazytError, ShapeError
from lazyt.functional.creation.creation import tensor
from lazyt.functional.elementwise.arithmetic import cast_to
from lazyt.functional.shapes.view_shapes import view_bits
from lazyt.functional.type_promotion import as_dtype, get_default_dtype
from lazyt.handle.device import check_device
from lazyt.handle.dispatch import method, type_title
from lazyt.handle.interop.numpy import Array, from_numpy, numpy, owned_tensor, warn_if_read_only
from lazyt.handle.interop.storage_objects import UntypedStorage
from lazyt.handle.tensor import Tensor
from lazyt.ir.dtypes import DType, dtype_by_numpy, int64

__all__ = ["asarray", "frombuffer"]

_OPERATORS: dict[np.ufunc, tuple[str, str]] = {
    getattr(np, ufunc): (f"__{name}__", f"__r{name}__")
    for ufunc, name in (
        ("add", "add"), ("subtract", "sub"), ("multiply", "mul"), ("true_divide", "truediv"),
        ("floor_divide", "floordiv"), ("remainder", "mod"), ("power", "pow"),
        ("matmul", "matmul"), ("bitwise_and", "and"), ("bitwise_or", "or"),
        ("bitwise_xor", "xor"), ("left_shift", "lshift"), ("right_shift", "rshift"),
    )
}  # fmt: skip
_OPERATORS |= {
    np.equal: ("__eq__", "__eq__"), np.not_equal: ("__ne__", "__ne__"),
    np.less: ("__lt__", "__gt__"), np.greater: ("__gt__", "__lt__"),
    np.less_equal: ("__le__", "__ge__"), np.greater_equal: ("__ge__", "__le__"),
}  # fmt: skip


@method("__array_ufunc__")
def call_ufunc(self: Tensor, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
    """What NumPy calls for a ufunc with a tensor among its operands or results."""
    if method == "__call__" and not kwargs and ufunc in _OPERATORS:
        left, right = inputs
        forward, reflected = _OPERATORS[ufunc]
        if isinstance(left, Tensor):
            return getattr(left, forward)(right)
        return getattr(right, reflected)(left)
    results = kwargs.pop("out", None)
    if results is not None:
        kwargs["out"] = tuple(map(_as_array, results))
    kwargs = {name: _as_array(value) for name, value in kwargs.items()}
    found = getattr(ufunc, method)(*map(_as_array, inputs), **kwargs)
    if results is not None:
        given = tuple(
            fresh if result is None else result
            for result, fresh in zip(results, found if len(results) > 1 else (found,))
        )
        return given if len(given) > 1 else given[0]
    return tuple(map(_as_tensor, found)) if isinstance(found, tuple) else _as_tensor(found)


def _as_array(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_as_array, value))
    return numpy(value) if isinstance(value, Tensor) else value


def _as_tensor(value: Any) -> Any:
    """A result that nobody else has as a tensor; NumPy's own where tensors have no such type."""
    if not isinstance(value, (np.ndarray, np.generic)) or dtype_by_numpy(value.dtype) is None:
        return value
    return owned_tensor(np.asarray(value))


@method("__array_wrap__")
def wrap_array(
    self: Tensor, array: Array, context: Any = None, return_scalar: bool = False
) -> Tensor:
    """The result of a NumPy function as a tensor over its memory."""
    return from_numpy(np.asarray(array))


@method("__buffer__")
def export_buffer(self: Tensor, flags: int) -> memoryview:
    """``memoryview(tensor)``, from Python 3.12 on; raises as ``numpy()`` does."""
    return numpy(self).data


@method("__array_namespace__")
def array_namespace(self: Tensor, *, api_version: str | None = None) -> ModuleType:
    """``lazyt.array_api``; raises ValueError for versions of the standard that it does not have."""
    # By name, since that package is built on this module.
    namespace = import_module("lazyt.array_api")
    if api_version not in (None, "2021.12", "2022.12", "2023.12", "2024.12"):
        raise ValueError(f"there is no version {api_version!r} of lazyt.array_api")
    return namespace


@method("to_device")
def to_device(self: Tensor, device: Any, /, *, stream: None = None) -> Tensor:
    """``to(device)`` as the array API standard calls it; there are no streams."""
    if stream is not None:
        raise LazytError("to_device() takes no stream")
    return self.to(device)


# ---------------------------------------------------------------------- from anything


def asarray(
    obj: Any,
    *,
    dtype: DType | None = None,
    device: Any = None,
    copy: bool | None = None,
    requires_grad: bool | None = None,
) -> Tensor:
    """``obj`` as a tensor, sharing its memory where that can be.

    Args:
        obj: a tensor, an array, what supports DLPack or the buffer protocol (as elements of
            ``dtype``, or of the default dtype), or numbers and nested sequences.
        copy: True for memory of its own, False for shared memory or ValueError.
        requires_grad: for new leaves; a tensor that has a gradient history keeps it unless this
            is False.
    """
    wanted = None if dtype is None else as_dtype(dtype)
    found = _shared(obj, wanted)
    if found is None:
        if copy is False:
            raise ShapeError("can't alias arbitrary sequence into a tensor.")
        return tensor(obj, dtype=wanted, requires_grad=bool(requires_grad), device=device)
    check_device(device)
    if wanted is not None and wanted is not found.dtype:
        if copy is False:
            raise ShapeError(
                f"can't alias tensor with dtype '{type_title(found.dtype)}' into dtype "
                f"'{type_title(wanted)}'."
            )
        found = cast_to(found, wanted)
    elif copy:
        found = found.clone()
    if requires_grad and not found.requires_grad:
        found.requires_grad = True
    return found.detach() if requires_grad is False and found.requires_grad else found


def _shared(obj: Any, dtype: DType | None) -> Tensor | None:
    """``obj`` as a tensor over its own memory; None where it has none to share."""
    if isinstance(obj, Tensor):
        return obj
    if isinstance(obj, np.ndarray):
        return from_numpy(obj)
    if isinstance(obj, UntypedStorage):
        return view_bits(obj.as_vector(), dtype or int64)
    if isinstance(obj, (np.generic, bool, int, float, str, list, tuple, range)):
        return None
    if hasattr(obj, "__dlpack__"):
        from lazyt.handle.interop.dlpack import from_dlpack

        return from_dlpack(obj)
    try:
        memoryview(obj)
    except TypeError:
        return None
    return frombuffer(obj, dtype=dtype or get_default_dtype())


def frombuffer(
    buffer: Any, *, dtype: DType, count: int = -1, offset: int = 0, requires_grad: bool = False
) -> Tensor:
    """A tensor with one dimension over the memory of an object with Python's buffer protocol.

    Args:
        dtype: what the bytes are read as.
        count: number of elements; all that there are when negative.
        offset: where they begin, in bytes.

    Raises ShapeError (a ValueError) for objects without the protocol, and where count and offset do
    not fit the buffer.
    """
    wanted = as_dtype(dtype)
    size = wanted.itemsize
    try:
        view = memoryview(buffer)
    except TypeError:
        raise ShapeError("object does not implement Python buffer protocol.") from None
    if not view.c_contiguous:
        raise LazytError("frombuffer takes contiguous buffers only; copy this one to bytes first")
    data = np.frombuffer(view, np.uint8) if view.nbytes else np.empty(0, np.uint8)
    length = data.size
    if not length or not count:
        raise ShapeError(f"both buffer length ({length}) and count ({count}) must not be 0")
    if not 0 <= offset < length:
        raise ShapeError(
            f"offset ({offset} bytes) must be non-negative and no greater than buffer length "
            f"({length} bytes) minus 1"
        )
    if count > 0 and offset + count * size > length:
        raise ShapeError(
            f"requested buffer length ({count} * {size} bytes) after offset ({offset} bytes) must "
            f"not be greater than actual buffer length ({length} bytes)"
        )
    if count < 0 and (length - offset) % size:
        raise ShapeError(
            f"buffer length ({length - offset} bytes) after offset ({offset} bytes) must be a "
            f"multiple of element size ({size})"
        )
    warn_if_read_only(data, "buffer")
    number = count if count > 0 else (length - offset) // size
    made = over_bytes(data[offset : offset + number * size], wanted)
    if requires_grad:
        made.requires_grad = True
    return made


def over_bytes(data: Array, dtype: DType) -> Tensor:
    """A tensor with one dimension over an array of bytes."""
    from lazyt.handle.interop.numpy import tensor_over

    size = dtype.itemsize
    if data.size % size:
        raise DTypeError(f"{data.size} bytes do not hold whole elements of {dtype}")
    where = data.__array_interface__["data"][0]
    return tensor_over(where, dtype, (data.size // size,), (1,), data)
