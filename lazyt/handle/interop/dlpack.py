"""Memory shared with other array libraries by DLPack, in both directions.

DLPack (https://dmlc.github.io/dlpack) passes a C struct in a capsule. Versions 0.8
(``DLManagedTensor``) and 1.x (``DLManagedTensorVersioned``) are written and read here by ctypes.
An exported tensor's memory lives until the consumer calls the struct's deleter; an imported
memory's deleter is called when the last tensor over it is gone.
"""

from __future__ import annotations

import atexit
import ctypes
from collections.abc import Callable
from ctypes import POINTER, c_char_p, c_int32, c_int64, c_uint8, c_uint16, c_uint32, c_uint64
from ctypes import c_void_p as address
from enum import IntEnum
from typing import Any

from lazyt.errors import DTypeError, ExchangeError, LazytError, ShapeError
from lazyt.handle.device import device as device_type
from lazyt.handle.dispatch import method
from lazyt.handle.interop.numpy import tensor_over
from lazyt.handle.tensor import Tensor
from lazyt.handle.views import contiguous_strides
from lazyt.ir import dtypes
from lazyt.ir.dtypes import DType
from lazyt.runtime.memory import Buffer

__all__ = ["from_dlpack", "to_dlpack"]


class DLDeviceType(IntEnum):
    """The numbers that DLPack gives to kinds of devices."""

    kDLCPU = 1
    kDLCUDA = 2
    kDLCUDAHost = 3
    kDLOpenCL = 4
    kDLVulkan = 7
    kDLMetal = 8
    kDLVPI = 9
    kDLROCM = 10
    kDLROCMHost = 11
    kDLExtDev = 12
    kDLCUDAManaged = 13
    kDLOneAPI = 14
    kDLWebGPU = 15
    kDLHexagon = 16
    kDLMAIA = 17


_HOST = (DLDeviceType.kDLCPU, DLDeviceType.kDLCUDAHost, DLDeviceType.kDLROCMHost)
_VERSION = (1, 0)
_IS_COPIED = 2

# ---------------------------------------------------------------------- the C structs


class _Device(ctypes.Structure):
    _fields_ = (("kind", c_int32), ("number", c_int32))


class _Element(ctypes.Structure):
    _fields_ = (("code", c_uint8), ("bits", c_uint8), ("lanes", c_uint16))


class _Array(ctypes.Structure):
    """``DLTensor``."""

    _fields_ = (
        ("data", address), ("device", _Device), ("ndim", c_int32), ("element", _Element),
        ("shape", POINTER(c_int64)), ("strides", POINTER(c_int64)), ("byte_offset", c_uint64),
    )  # fmt: skip


_Deleter = ctypes.CFUNCTYPE(None, address)


class _Managed(ctypes.Structure):
    """``DLManagedTensor``."""

    _fields_ = (("array", _Array), ("context", address), ("deleter", address))
    title = b"dltensor"


class _Versioned(ctypes.Structure):
    """``DLManagedTensorVersioned``."""

    _fields_ = (
        ("major", c_uint32), ("minor", c_uint32), ("context", address), ("deleter", address),
        ("flags", c_uint64), ("array", _Array),
    )  # fmt: skip
    title = b"dltensor_versioned"


_CODES = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}
_ELEMENTS = {
    (4 if t is dtypes.bfloat16 else _CODES[t.kind], 8 * t.itemsize): t
    for t in (*dtypes.ALL, *dtypes.COMPLEX)
}
_CODE_OF = {dtype: key for key, dtype in _ELEMENTS.items()}

# ---------------------------------------------------------------------- capsules


def _python_function(name: str, result: Any, *arguments: Any) -> Any:
    # A prototype of its own: argument types set on ctypes.pythonapi would hold for everybody.
    return ctypes.PYFUNCTYPE(result, *arguments)((name, ctypes.pythonapi))


_new_capsule = _python_function("PyCapsule_New", ctypes.py_object, address, c_char_p, address)
_capsule_is = _python_function("PyCapsule_IsValid", ctypes.c_int, ctypes.py_object, c_char_p)
_capsule_ptr = _python_function("PyCapsule_GetPointer", address, ctypes.py_object, c_char_p)
_rename = _python_function("PyCapsule_SetName", ctypes.c_int, ctypes.py_object, c_char_p)
# The same two for capsules that are just being destroyed, to which no new reference may be made.
_dying_is = _python_function("PyCapsule_IsValid", ctypes.c_int, address, c_char_p)
_dying_ptr = _python_function("PyCapsule_GetPointer", address, address, c_char_p)

# What consumers hold on to: struct, shape and memory by the struct's address. Like the callbacks,
# it is never freed, since consumers may outlive this module when the interpreter shuts down.
_exports: dict[int, tuple[_Managed | _Versioned, Any, Buffer]] = {}


def _forget(struct: int, exports: dict[int, Any] = _exports) -> None:
    """The deleter of exported structs."""
    exports.pop(struct, None)


def _drop_capsule(
    capsule: int,
    exports: dict[int, Any] = _exports,
    is_valid: Callable[..., Any] = _dying_is,
    pointer: Callable[..., Any] = _dying_ptr,
    titles: tuple[bytes, ...] = (_Managed.title, _Versioned.title),
) -> None:
    """The capsule's destructor: nobody has taken the memory that it still offers."""
    for title in titles:
        if is_valid(capsule, title):
            exports.pop(pointer(capsule, title), None)


_forget_in_c, _drop_in_c = _Deleter(_forget), _Deleter(_drop_capsule)
for _kept in (_exports, _forget_in_c, _drop_in_c):
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(_kept))


@atexit.register
def _end_callbacks() -> None:
    """From here on consumers that die must not call into a Python that is being taken down.

    They get a C function without effect, as some (JAX) call the deleter even where there is none.
    """
    harmless = ctypes.cast(ctypes.pythonapi.Py_IsInitialized, address).value
    for struct, _, _ in list(_exports.values()):
        struct.deleter = harmless


# ---------------------------------------------------------------------- export


@method("__dlpack_device__")
def dlpack_device(self: Tensor) -> tuple[DLDeviceType, int]:
    """Kind and number of the device that the memory is on."""
    if self.is_cuda:
        return (DLDeviceType.kDLCUDA, max(self.get_device(), 0))
    return (DLDeviceType.kDLCPU, 0)


@method("__dlpack__")
def dlpack(
    self: Tensor,
    *,
    stream: int | None = -1,
    max_version: tuple[int, int] | None = None,
    dl_device: tuple[int, int] | None = None,
    copy: bool | None = None,
) -> object:
    """A DLPack capsule of the tensor's memory, computed now; see the array API standard.

    Args:
        stream: None or -1, as there are no streams on the CPU.
        max_version: what the consumer understands; from (1, 0) on the struct tells its version.
        dl_device: the CPU, which is (1, 0).
        copy: whether the capsule holds a copy; otherwise it shares the memory, so that writes to
            either show in the other.

    Raises ExchangeError (a BufferError) for a tensor that requires its gradient or another device,
    and ValueError where another device was to do without a copy.
    """
    if self.requires_grad:
        raise ExchangeError("Can't export tensors that require gradient, use tensor.detach()")
    if self.is_conj():
        raise ExchangeError("Can't export tensors with the conjugate bit set")
    if self.is_cuda:
        raise ExchangeError(f"the memory of {self.device} is not shared with others: use .cpu()")
    if stream is not None and type(stream) is not int:
        raise DTypeError("stream must be ``int`` or ``none``")
    if stream not in (None, -1):
        raise ExchangeError("stream should be None on cpu.")
    if dl_device is not None and tuple(dl_device) != (DLDeviceType.kDLCPU, 0):
        wanted = f"the device {tuple(map(int, dl_device))}"
        if copy is False:
            raise ValueError(f"cannot move (i.e. copy=False) tensor from cpu to {wanted}.")
        raise ExchangeError(f"cannot move the tensor from cpu to {wanted} for DLPack")
    source = self.clone() if copy else self  # row-major, as a copy for others should be
    versioned = max_version is not None and max_version[0] >= 1
    struct = _Versioned() if versioned else _Managed()
    if isinstance(struct, _Versioned):
        struct.major, struct.minor = _VERSION
        struct.flags = _IS_COPIED if copy else 0
    return _export(source, struct)


def _export(tensor: Tensor, struct: _Managed | _Versioned) -> object:
    token = tensor._storage.expose()
    shape, strides = tuple(tensor.shape), tensor.strides
    rank = len(shape)
    # Any stride will do for axes of one element, but some consumers want to see 1.
    steps = tuple(1 if n == 1 else s for n, s in zip(shape, strides))
    numbers = (c_int64 * (2 * rank))(*shape, *steps)
    array = struct.array
    array.data = token.ptr + tensor._offset * tensor.itemsize
    array.device = _Device(DLDeviceType.kDLCPU, 0)
    array.ndim = rank
    code, bits = _CODE_OF[tensor.dtype]
    array.element = _Element(code, bits, 1)
    start = ctypes.addressof(numbers)
    array.shape = ctypes.cast(start, POINTER(c_int64))
    array.strides = ctypes.cast(start + 8 * rank, POINTER(c_int64))
    struct.deleter = ctypes.cast(_forget_in_c, address).value
    where = ctypes.addressof(struct)
    _exports[where] = (struct, numbers, token)
    return _new_capsule(where, struct.title, ctypes.cast(_drop_in_c, address))


def to_dlpack(tensor: Tensor) -> object:
    """An unversioned DLPack capsule of ``tensor``, which can be taken once; see ``__dlpack__``."""
    return dlpack(tensor)


# ---------------------------------------------------------------------- import


class _Imported:
    """Memory of another library; tells it when nobody needs the memory any more."""

    __slots__ = ("_delete", "_struct")

    def __init__(self, struct: int, deleter: int | None) -> None:
        self._struct = struct
        self._delete = _Deleter(deleter) if deleter else None

    def __del__(self) -> None:
        if self._delete is not None:
            self._delete(self._struct)


def from_dlpack(
    ext_tensor: Any, *, device: device_type | str | None = None, copy: bool | None = None
) -> Tensor:
    """A tensor over the memory of another library's array, or of a DLPack capsule.

    Args:
        ext_tensor: what has ``__dlpack__``, or a capsule that nobody has taken yet.
        device: where the tensor is to be; the CPU is the only choice.
        copy: True for memory of its own, False for shared memory or an error.

    Writes to either show in the other unless ``copy`` is True; memory that the other library marks
    as read-only should not be written to. Raises LazytError for other objects and capsules that
    were taken before, ExchangeError for memory elsewhere, DTypeError for element types that tensors
    do not have and ShapeError for negative strides.
    """
    if not hasattr(ext_tensor, "__dlpack__"):
        if device is not None or copy is not None:
            raise LazytError(
                "device and copy kwargs not supported when ext_tensor is already a DLPack capsule."
            )
        return _take(ext_tensor)
    if device is not None and device_type(device).type != "cpu":
        raise ExchangeError(f"from_dlpack makes tensors on the CPU, not on {device_type(device)}")
    kind, _ = ext_tensor.__dlpack_device__()
    if kind not in _HOST:
        raise ExchangeError(
            f"from_dlpack takes memory that the CPU can read, not that of a {_title(kind)} device; "
            "copy the array to the CPU first"
        )
    capsule, copied = _ask(ext_tensor, copy)
    tensor = _take(capsule)
    return tensor.clone() if copy and not copied else tensor


def _title(kind: int) -> str:
    return DLDeviceType(kind).name if kind in set(DLDeviceType) else f"kind {kind}"


def _ask(source: Any, copy: bool | None) -> tuple[object, bool]:
    """A capsule from ``source``, and whether it took care of ``copy``.

    Older libraries do not know the newer arguments and say so with a TypeError.
    """
    wanted = {} if copy is None else {"copy": copy}
    try:
        return source.__dlpack__(max_version=_VERSION, **wanted), True
    except TypeError as error:
        if "keyword" not in str(error) and "argument" not in str(error):
            raise
    return source.__dlpack__(), False


def _take(capsule: Any) -> Tensor:
    for kind in (_Versioned, _Managed):
        if _is_capsule(capsule) and _capsule_is(capsule, kind.title):
            return _adopt(capsule, kind)
    raise LazytError(
        "from_dlpack received an invalid capsule. Note that DLTensor capsules can be consumed only "
        "once, so you might have already constructed a tensor from it once."
    )


def _is_capsule(value: object) -> bool:
    return type(value).__name__ == "PyCapsule"


_TAKEN = {kind: b"used_" + kind.title for kind in (_Managed, _Versioned)}


def _adopt(capsule: object, kind: type[_Managed] | type[_Versioned]) -> Tensor:
    where = _capsule_ptr(capsule, kind.title)
    struct = kind.from_address(where)
    if isinstance(struct, _Versioned) and struct.major != _VERSION[0]:
        raise ExchangeError(
            f"the capsule has DLPack version {struct.major}.{struct.minor}; lazyt reads 1.x and 0.8"
        )
    array = struct.array
    dtype = _dtype_of(array.element)
    shape = tuple(array.shape[: array.ndim])
    if array.strides:
        strides = tuple(array.strides[: array.ndim])
    else:
        strides = contiguous_strides(shape)
    if array.device.kind not in _HOST:
        raise ExchangeError(f"the capsule holds memory of a {_title(array.device.kind)} device")
    if 0 not in shape and min(strides, default=0) < 0:
        raise ShapeError(
            "tensors with negative strides are not supported: make a copy of the array first"
        )
    # Only now is it ours: until here the capsule itself would have freed the memory.
    _rename(capsule, _TAKEN[kind])
    owner = _Imported(where, struct.deleter)
    return tensor_over((array.data or 0) + array.byte_offset, dtype, shape, strides, owner)


def _dtype_of(element: _Element) -> DType:
    found = _ELEMENTS.get((element.code, element.bits))
    if found is None or element.lanes != 1:
        raise DTypeError(
            f"tensors have no type for DLPack's elements of code {element.code}, {element.bits} "
            f"bits and {element.lanes} lanes"
        )
    return found
