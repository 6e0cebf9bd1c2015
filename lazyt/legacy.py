"""The tensor types of old programs: ``FloatTensor([1, 2])``, ``isinstance(x, LongTensor)``."""

from __future__ import annotations

from typing import Any

from lazyt.dispatch import type_title
from lazyt.errors import DTypeError
from lazyt.functional.creation import legacy_tensor
from lazyt.ir.dtypes import (
    DType,
    bfloat16,
    bool_,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    package_name,
    uint8,
)
from lazyt.storage_objects import TypedStorage
from lazyt.tensor import Tensor


class tensortype(type):
    """The class of the legacy tensor types: each stands for the tensors of one dtype.

    Attributes:
        dtype: of the tensors that it makes and that are its instances.
    """

    dtype: DType

    def __call__(cls, *args: Any, device: Any = None) -> Tensor:
        return legacy_tensor(*args, dtype=cls.dtype, device=device)

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, Tensor) and instance.dtype is cls.dtype

    def __repr__(cls) -> str:
        return f"<class '{package_name()}.{cls.__name__}'>"


class storagetype(type):
    """The class of the legacy storage types.

    Attributes:
        dtype: of the elements.
    """

    dtype: DType

    def __call__(cls, *args: Any, **kwargs: Any) -> TypedStorage:
        return TypedStorage(*args, dtype=cls.dtype, **kwargs)

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, TypedStorage) and instance.dtype is cls.dtype

    def __repr__(cls) -> str:
        return f"<class '{package_name()}.{cls.__name__}'>"


def _type(dtype: DType) -> tensortype:
    made = tensortype(f"{type_title(dtype)}Tensor", (), {"__module__": "lazyt"})
    made.dtype = dtype
    made.__doc__ = f"Tensors of {dtype.name}."
    return made


def _storage(dtype: DType) -> storagetype:
    made = storagetype(f"{type_title(dtype)}Storage", (), {"__module__": "lazyt"})
    made.dtype = dtype
    made.__doc__ = f"Storages of {dtype.name}."
    return made


BoolTensor = _type(bool_)
ByteTensor = _type(uint8)
CharTensor = _type(int8)
ShortTensor = _type(int16)
IntTensor = _type(int32)
LongTensor = _type(int64)
HalfTensor = _type(float16)
BFloat16Tensor = _type(bfloat16)
FloatTensor = _type(float32)
DoubleTensor = _type(float64)

BoolStorage = _storage(bool_)
ByteStorage = _storage(uint8)
CharStorage = _storage(int8)
ShortStorage = _storage(int16)
IntStorage = _storage(int32)
LongStorage = _storage(int64)
HalfStorage = _storage(float16)
BFloat16Storage = _storage(bfloat16)
FloatStorage = _storage(float32)
DoubleStorage = _storage(float64)

_TYPES = {
    kind.__name__: kind
    for kind in (
        BoolTensor, ByteTensor, CharTensor, ShortTensor, IntTensor, LongTensor, HalfTensor,
        BFloat16Tensor, FloatTensor, DoubleTensor,
    )
}  # fmt: skip

__all__ = [
    "BFloat16Storage", "BFloat16Tensor", "BoolStorage", "BoolTensor", "ByteStorage", "ByteTensor",
    "CharStorage", "CharTensor", "DoubleStorage", "DoubleTensor", "FloatStorage", "FloatTensor",
    "HalfStorage", "HalfTensor", "IntStorage", "IntTensor", "LongStorage", "LongTensor",
    "ShortStorage", "ShortTensor",
]  # fmt: skip


def type_called(name: str) -> Any:
    """The tensor type of a name such as ``lazyt.FloatTensor``; raises DTypeError for others."""
    package, _, title = name.rpartition(".")
    found = _TYPES.get(title)
    if found is None or package not in ("lazyt", "torch"):
        raise DTypeError(f"invalid type: '{name}'")
    return found
