"""PyTorch's type promotion: which dtype an operation on mixed operands computes in.

Operands fall in three classes: tensors with dimensions, zero-dimensional tensors, and Python
numbers. A later class changes the result only when its category (bool, integer, floating point)
is higher than that of the earlier classes.
"""

from __future__ import annotations

from typing import Any, NoReturn

from lazyt.errors import DTypeError
from lazyt.handle.dispatch import type_title
from lazyt.handle.function_table import function
from lazyt.handle.tensor import Tensor
from lazyt.ir.dtypes import (
    ALL,
    COMPLEX,
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
    uint16,
    uint32,
    uint64,
)

__all__ = ["can_cast", "finfo", "get_default_dtype", "iinfo", "promote_types", "set_default_dtype"]

_WIDE_UNSIGNED = (uint16, uint32, uint64)
_SIGNED = (int8, int16, int32, int64)
_default = float32

_NAMES = {
    bool_: "Bool", uint8: "Byte", uint16: "UInt16", uint32: "UInt32", uint64: "UInt64",
    int8: "Char", int16: "Short", int32: "Int", int64: "Long", float16: "Half",
    bfloat16: "BFloat16", float32: "Float", float64: "Double", complex64: "ComplexFloat",
    complex128: "ComplexDouble",
}  # fmt: skip
_C_NAMES = {
    float32: "float", float64: "double", float16: "c10::Half", bfloat16: "c10::BFloat16",
    int64: "long int", int32: "int", int16: "short int", int8: "signed char",
    uint8: "unsigned char", bool_: "bool", complex64: "c10::complex<float>",
    complex128: "c10::complex<double>",
}  # fmt: skip
_PYTHON_TYPES: dict[Any, DType] = {
    float: float64, int: int64, bool: bool_, complex: complex128,
}  # fmt: skip


def _checked_type(type: Any, function: str) -> DType:
    if isinstance(type, DType):
        return type
    raise DTypeError(
        f"{function}(): argument 'type' (position 1) must be {package_name()}.dtype, "
        f"not {type.__class__.__name__}"
    )


class finfo:
    """Limits of a floating point type, the default dtype by itself; raises DTypeError for others.

    Also of types that are names only: those of 8 bits, and complex ones, which have their parts'.

    Attributes:
        bits, eps, max, min, tiny, smallest_normal, resolution: as PyTorch defines them.
        dtype: the type's name.
    """

    def __init__(self, type: DType | None = None) -> None:
        found = _default if type is None else _checked_type(type, "finfo")
        found = _COMPLEX_PARTS.get(found.name, found)
        if found.name not in _FLOAT_LIMITS:
            raise DTypeError(
                f"torch.finfo() requires a floating point input type. Use torch.iinfo to handle "
                f"'{found}'"
            )
        digits, low, self.max, decimals = _FLOAT_LIMITS[found.name]
        self.bits = 8 * found.itemsize
        self.eps = 2.0 ** (1 - digits)
        self.tiny = self.smallest_normal = 2.0**low
        self.min = -self.max if found.name != "float8_e8m0fnu" else self.tiny
        self.resolution = 10.0**-decimals
        self.dtype = found.name

    def __repr__(self) -> str:
        return (
            f"finfo(resolution={self.resolution:g}, min={self.min:g}, max={self.max:g}, "
            f"eps={self.eps:g}, smallest_normal={self.smallest_normal:g}, tiny={self.tiny:g}, "
            f"dtype={self.dtype})"
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, finfo) and self.dtype == other.dtype


# Significant bits, exponent of the smallest normal number, largest number, and decimal digits.
_FLOAT_LIMITS = {
    "float16": (11, -14, 65504.0, 3),
    "bfloat16": (8, -126, (2 - 2.0**-7) * 2.0**127, 2),
    "float32": (24, -126, (2 - 2.0**-23) * 2.0**127, 6),
    "float64": (53, -1022, (2 - 2.0**-52) * 2.0**1023, 15),
    "float8_e4m3fn": (4, -6, 448.0, 0),
    "float8_e4m3fnuz": (4, -7, 240.0, 0),
    "float8_e5m2": (3, -14, 57344.0, 0),
    "float8_e5m2fnuz": (4, -15, 57344.0, 0),  # PyTorch's epsilon is that of one bit more
    "float8_e8m0fnu": (1, -127, 2.0**127, 0),
}
#: The parts of complex numbers, whose limits those have.
_COMPLEX_PARTS = {"complex32": float16, "complex64": float32, "complex128": float64}


class iinfo:
    """Limits of an integer type; raises DTypeError for others.

    Attributes:
        bits, min, max: as PyTorch defines them.
        dtype: the type's name.
    """

    def __init__(self, type: DType) -> None:
        if _checked_type(type, "iinfo").kind not in "ui":
            raise DTypeError(
                f"torch.iinfo() requires an integer input type. Use torch.finfo to handle '{type}'"
            )
        self.bits = 8 * type.itemsize
        self.min = -(1 << (self.bits - 1)) if type.kind == "i" else 0
        self.max = self.min + (1 << self.bits) - 1
        self.dtype = type.name

    def __repr__(self) -> str:
        return f"iinfo(min={self.min}, max={self.max}, dtype={self.dtype})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, iinfo) and self.dtype == other.dtype


def torch_name(dtype: DType) -> str:
    """The dtype's name in PyTorch's error messages, such as ``Long``."""
    return _NAMES[dtype]


def c_name(dtype: DType) -> str:
    """The dtype's C++ name in PyTorch's error messages, such as ``long int``."""
    return _C_NAMES.get(dtype, dtype.name)


@function()
def get_default_dtype() -> DType:
    """The dtype of new floating point tensors."""
    return _default


@function()
def set_default_dtype(dtype: DType) -> None:
    """Make ``dtype`` the dtype of new floating point tensors; raises DTypeError for others."""
    global _default
    if dtype.kind != "f":
        raise DTypeError(
            "only floating-point types are supported as the default type, got " + str(dtype)
        )
    _default = dtype


def as_dtype(dtype: Any) -> DType:
    """A dtype from a dtype or a Python type (``float`` is float64); raises DTypeError otherwise,
    and for dtypes that are only names."""
    if type(dtype) is DType:
        return dtype
    if isinstance(dtype, DType):
        return dtype.compute  # which raises
    found = _PYTHON_TYPES.get(dtype) if isinstance(dtype, type) else None
    if found is None:
        raise DTypeError(
            f"argument 'dtype' must be {package_name()}.dtype, not {type(dtype).__name__}"
        )
    return found


def category(dtype: DType) -> int:
    """0 for bool, 1 for integers, 2 for floating point, 3 for complex numbers."""
    return _CATEGORIES[dtype.kind]


_CATEGORIES = {"b": 0, "u": 1, "i": 1, "f": 2, "c": 3}


def inexact(dtype: DType) -> DType:
    """The type in which functions of fractions compute: a floating point or complex type itself,
    the default dtype for others."""
    return dtype if dtype.kind in "fc" else _default


def default_complex() -> DType:
    """The type of complex numbers whose parts are of the default dtype."""
    return complex128 if _default is float64 else complex64


def scalar_dtype(value: bool | int | float | complex) -> DType:
    """The dtype that a Python number stands for on its own."""
    if isinstance(value, complex):
        return default_complex()
    if isinstance(value, bool):
        return bool_
    return int64 if isinstance(value, int) else _default


def _promoted(a: DType, b: DType) -> DType | None:
    """The common type of two dtypes, None where PyTorch has none."""
    if a is b:
        return a
    if a.kind == "c" or b.kind == "c":
        wide = any(t.part is float64 for t in (a, b))
        return complex128 if wide else complex64
    if a.kind == "f" or b.kind == "f":
        if a.kind != b.kind:
            return a if a.kind == "f" else b
        if a.itemsize == b.itemsize:
            return float32  # float16 with bfloat16
        return a if a.itemsize > b.itemsize else b
    if a in _WIDE_UNSIGNED or b in _WIDE_UNSIGNED:
        return None
    if a is bool_ or b is bool_:
        return b if a is bool_ else a
    if a is uint8 or b is uint8:
        signed = b if a is uint8 else a
        return int16 if signed is int8 else signed
    return a if a.itemsize > b.itemsize else b


_TABLE = {(a, b): _promoted(a, b) for a in (*ALL, *COMPLEX) for b in (*ALL, *COMPLEX)}


@function()
def promote_types(type1: DType, type2: DType) -> DType:
    """The smallest dtype that both convert to; raises DTypeError for wide unsigned mixtures."""
    for place, given in enumerate((type1, type2), 1):
        if not isinstance(given, DType):
            raise DTypeError(
                f"promote_types(): argument 'type{place}' (position {place}) must be "
                f"{package_name()}.dtype, not {type(given).__name__}"
            )
        if type(given) is not DType:
            return given.compute  # which raises
    found = _TABLE[type1, type2]
    if found is None:
        raise DTypeError(
            "Promotion for uint16, uint32, uint64 types is not supported, attempted to promote "
            f"{_NAMES[type1]} and {_NAMES[type2]}"
        )
    return found


def promote_scalar(dtype: DType, value: bool | int | float | complex) -> DType:
    """The dtype of an operation on a tensor of ``dtype`` and a Python number."""
    kind = dtype.kind
    if isinstance(value, complex):
        return promote_types(inexact(dtype), complex64)
    if kind == "f" or kind == "c" or isinstance(value, bool):
        return dtype
    if isinstance(value, int):
        if kind == "b":
            _refuse_unsigned(value)
        return int64 if kind == "b" else dtype
    return _default


def _refuse_unsigned(value: int) -> None:
    """Raise DTypeError for a number that only uint64 holds, beside truth values."""
    if value >= 1 << 63:
        raise DTypeError(
            "Promotion for uint16, uint32, uint64 types is not supported, attempted to promote "
            "Bool and UInt64"
        )


def promote_operands(operands: list[tuple[DType, int]], scalars: list[Any]) -> DType:
    """The dtype for (dtype, rank) tensor operands and Python numbers, by PyTorch's classes."""
    wide: DType | None = None
    zero: DType | None = None
    for dtype, rank in operands:
        if rank:
            wide = dtype if wide is None else promote_types(wide, dtype)
        else:
            zero = dtype if zero is None else promote_types(zero, dtype)
    result = _combine(wide, zero)
    number: DType | None = None
    for value in scalars:
        kind = scalar_dtype(value)
        number = kind if number is None else promote_types(number, kind)
    if result is bool_:
        for value in scalars:
            _refuse_unsigned(value if type(value) is int else 0)
    result = _combine(result, number)
    if result is None:
        raise DTypeError("at least one operand is needed to find a result type")
    return result


def _combine(first: DType | None, weaker: DType | None) -> DType | None:
    """``first``, unless the weaker class has a higher category."""
    if first is None or weaker is None:
        return first or weaker
    if category(weaker) > category(first):
        if weaker.kind == "c" and first.kind == "f":  # its precision is the first one's
            return promote_types(first, complex64)
        return promote_types(first, weaker) if weaker.kind in "fc" else weaker
    return first


def promote_pair(a: DType, a_rank: int, b: DType, b_rank: int) -> DType:
    """``promote_operands`` for two tensors."""
    if a is b:
        return a
    if bool(a_rank) is bool(b_rank):
        return promote_types(a, b)
    strong, weak = (a, b) if a_rank else (b, a)
    found = _combine(strong, weak)
    assert found is not None
    return found


@function()
def can_cast(from_: DType, to: DType) -> bool:
    """Whether PyTorch writes a ``from_`` result into a ``to`` tensor without complaint."""
    if from_.kind in "fc" and category(to) < category(from_):
        return False
    return not (to is bool_ and from_ is not bool_)


# The error for dtypes that a function has no meaning for, as PyTorch's kernels word it.


class UnsupportedTypeError(DTypeError, NotImplementedError):
    """A dtype that a function does not take; PyTorch raises NotImplementedError here."""


def refuse(kernel: str, dtype: DType) -> NoReturn:
    """Raise UnsupportedTypeError: ``kernel`` is not implemented for ``dtype``."""
    raise UnsupportedTypeError(f"\"{kernel}\" not implemented for '{type_title(dtype)}'")


def check_product_types(added: Tensor | None, mat1: Tensor, mat2: Tensor) -> None:
    """Raise DTypeError unless the factors, and what is added to their product, have one dtype."""
    if mat1.dtype is not mat2.dtype and added is None:
        raise DTypeError(
            "expected m1 and m2 to have the same dtype, but got: "
            f"{c_name(mat1.dtype)} != {c_name(mat2.dtype)}"
        )
    for name, item in (("mat1", mat1), ("self", added)):
        if item is not None and item.dtype is not mat2.dtype:
            raise DTypeError(
                f"{name} and mat2 must have the same dtype, but got "
                f"{torch_name(item.dtype)} and {torch_name(mat2.dtype)}"
            )


def refuse_cast(given: DType, wanted: DType) -> NoReturn:
    """Raise DTypeError: a function that writes into its input's dtype computes another kind."""
    raise DTypeError(
        f"result type {type_title(given)} can't be cast to the desired output type "
        f"{type_title(wanted)}"
    )


def require_floating(kernel: str, dtype: DType) -> None:
    """Raise UnsupportedTypeError unless ``dtype`` is of real floating point."""
    if dtype.kind != "f":
        refuse(kernel, dtype)
