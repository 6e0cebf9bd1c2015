"""Dtypes that lazyt knows by name only: tables may list them, and nothing computes in them."""

from __future__ import annotations

from typing import Any

from lazyt.absent import reason
from lazyt.errors import DTypeError
from lazyt.ir.dtypes import DType

__all__ = [
    "cdouble", "cfloat", "chalf", "complex32", "complex64", "complex128", "float4_e2m1fn_x2",
    "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu", "qint8",
    "qint32", "quint2x4", "quint4x2", "quint8",
]  # fmt: skip

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
complex64 = cfloat = NamedDType("complex64", 8)
complex128 = cdouble = NamedDType("complex128", 16)
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
