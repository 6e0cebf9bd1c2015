"""The tensor types of old programs: ``FloatTensor([1, 2])``, ``isinstance(x, LongTensor)``."""

from __future__ import annotations

from typing import Any

from lazyt.compat.absent import reason
from lazyt.errors import DTypeError
from lazyt.functional.creation.creation import legacy_tensor
from lazyt.handle.dispatch import type_title
from lazyt.handle.interop.storage_objects import TypedStorage
from lazyt.handle.tensor import Tensor
from lazyt.ir.dtypes import (
    DType,
    bfloat16,
    bool_,
    complex64,
    complex128,
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

__all__ = [
    "BFloat16Storage",
    "BFloat16Tensor",
    "BoolStorage",
    "BoolTensor",
    "ByteStorage",
    "ByteTensor",
    "CharStorage",
    "CharTensor",
    "ComplexDoubleStorage",
    "ComplexFloatStorage",
    "DoubleStorage",
    "DoubleTensor",
    "FloatStorage",
    "FloatTensor",
    "HalfStorage",
    "HalfTensor",
    "IntStorage",
    "IntTensor",
    "LongStorage",
    "LongTensor",
    "ShortStorage",
    "ShortTensor",
    "chalf",
    "complex32",
    "float4_e2m1fn_x2",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
    "float8_e8m0fnu",
    "qint8",
    "qint32",
    "quint2x4",
    "quint4x2",
    "quint8",
]  # fmt: skip


# Dtypes that lazyt knows by name only: tables may list them, and nothing computes in them.


_COMPUTING = frozenset(DType.__slots__) - {"name", "itemsize"}


class NamedDType(DType):
    """A dtype that can be compared, printed, pickled and be a key, and has no values.

    Whatever would compute in it asks for its kind or its storage, which raises DTypeError with the
    reason why lazyt does not have it.
    """

    __slots__ = ()
    __module__ = "lazyt"

    def __init__(self, name: str, itemsize: int) -> None:
        self.name = name
        self.itemsize = itemsize

    def __getattr__(self, name: str) -> Any:
        if name in _COMPUTING:
            raise DTypeError(f"{self} is only a name here: {reason(self.name)}")
        raise AttributeError(f"'dtype' object has no attribute '{name}'", name=name)

    @property
    def is_floating_point(self) -> bool:
        """Whether PyTorch has it for a floating point type."""
        return self.name.startswith("float")

    @property
    def is_complex(self) -> bool:
        """Whether PyTorch has it for a complex type."""
        return self.name.startswith("complex")

    @property
    def is_signed(self) -> bool:
        """Whether the type could hold negative numbers; of quantised types PyTorch says so too."""
        return self.name not in ("float8_e8m0fnu", "quint8", "quint4x2", "quint2x4")

    def __reduce__(self) -> str | tuple[object, ...]:
        return self.name  # of the package's namespace


complex32 = chalf = NamedDType("complex32", 4)
float8_e4m3fn = NamedDType("float8_e4m3fn", 1)
float8_e4m3fnuz = NamedDType("float8_e4m3fnuz", 1)
float8_e5m2 = NamedDType("float8_e5m2", 1)
float8_e5m2fnuz = NamedDType("float8_e5m2fnuz", 1)
float8_e8m0fnu = NamedDType("float8_e8m0fnu", 1)
float4_e2m1fn_x2 = NamedDType("float4_e2m1fn_x2", 1)
qint8 = NamedDType("qint8", 1)
quint8 = NamedDType("quint8", 1)
qint32 = NamedDType("qint32", 4)
quint4x2 = NamedDType("quint4x2", 1)
quint2x4 = NamedDType("quint2x4", 1)


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


class cudatype(tensortype):
    """The class of these types: each stands for the tensors of one dtype that are on a GPU."""

    def __call__(cls, *args: Any, device: Any = None) -> Tensor:
        return super().__call__(*args, device="cuda" if device is None else device)

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, Tensor) and instance.is_cuda and instance.dtype is cls.dtype

    def __repr__(cls) -> str:
        return super().__repr__().replace(".", ".cuda.")


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
ComplexDoubleStorage = _storage(complex128)
ComplexFloatStorage = _storage(complex64)
FloatStorage = _storage(float32)
DoubleStorage = _storage(float64)

_TYPES = {
    kind.__name__: kind
    for kind in (
        BoolTensor, ByteTensor, CharTensor, ShortTensor, IntTensor, LongTensor, HalfTensor,
        BFloat16Tensor, FloatTensor, DoubleTensor,
    )
}  # fmt: skip


def type_called(name: str) -> Any:
    """The tensor type of a name such as ``lazyt.FloatTensor``; raises DTypeError for others."""
    package, _, title = name.rpartition(".")
    found = _TYPES.get(title)
    if found is None or package not in ("lazyt", "torch"):
        raise DTypeError(f"invalid type: '{name}'")
    return found
