"""Element types: their names, sizes, kinds and how NumPy and C see them."""

from __future__ import annotations

import sys

import numpy as np

from lazyt.errors import DTypeError


def package_name() -> str:
    """The package's name in printed text: ``torch`` where a program knows lazyt as that.

    That is so while ``sys.modules["torch"]`` is lazyt, or shows it as
    ``lazyt.compat.torch_alias`` does.
    """
    known = sys.modules.get("torch")
    is_lazyt = known is not None and (known is sys.modules["lazyt"] or "_lazyt" in vars(known))
    return "torch" if is_lazyt else "lazyt"


class DType:
    """An element type. Instances are unique, so ``is`` compares them.

    Attributes:
        name: the name users write, such as ``float32``.
        kind: ``b`` bool, ``u`` unsigned, ``i`` signed, ``f`` floating point, ``c`` complex.
        itemsize: bytes per element.
        numpy: the NumPy dtype of stored elements. bfloat16 is stored as uint16 bit patterns.
        is_half: whether kernels store this type in 16 bits but compute in float32.
        compute: the type in which kernels do arithmetic on elements of this type.
        part: of a complex type that of its real and imaginary parts, else the type itself.
        suffix: what kernel helper functions end in, such as ``f32``.
    """

    __slots__ = ("compute", "is_half", "itemsize", "kind", "name", "numpy", "part", "suffix")
    __module__ = "lazyt"

    def __init__(
        self, name: str, kind: str, itemsize: int, storage: str, suffix: str,
        part: DType | None = None,
    ) -> None:  # fmt: skip
        self.name = name
        self.kind = kind
        self.itemsize = itemsize
        self.numpy = np.dtype(storage)
        self.suffix = suffix
        self.is_half = kind == "f" and itemsize == 2
        self.compute: DType = float32 if self.is_half else self
        self.part: DType = part or self

    @property
    def is_floating_point(self) -> bool:
        """Whether this is a floating point type."""
        return self.kind == "f"

    @property
    def is_complex(self) -> bool:
        """Whether the type is that of complex numbers."""
        return self.kind == "c"

    @property
    def is_signed(self) -> bool:
        """Whether the type can hold negative numbers."""
        return self.kind in "ifc"

    def to_complex(self) -> DType:
        """The type of complex numbers with such parts; a complex type itself.

        Raises DTypeError where there is none.
        """
        if self.kind == "c":
            return self
        found = next((t for t in COMPLEX if t.part is self), None)
        if found is None:
            raise DTypeError(f"no complex type has parts of {self!r}")
        return found

    def to_real(self) -> DType:
        """The type of a complex type's parts; any other type itself."""
        return self.part

    def __repr__(self) -> str:
        return f"{package_name()}.{self.name}"

    def __reduce__(self) -> str | tuple[object, ...]:
        return (dtype_by_name, (self.name,))


DType.__name__ = DType.__qualname__ = "dtype"  # users know it as lazyt.dtype

bool_ = DType("bool", "b", 1, "bool", "b8")
uint8 = DType("uint8", "u", 1, "uint8", "u8")
uint16 = DType("uint16", "u", 2, "uint16", "u16")
uint32 = DType("uint32", "u", 4, "uint32", "u32")
uint64 = DType("uint64", "u", 8, "uint64", "u64")
int8 = DType("int8", "i", 1, "int8", "i8")
int16 = DType("int16", "i", 2, "int16", "i16")
int32 = DType("int32", "i", 4, "int32", "i32")
int64 = DType("int64", "i", 8, "int64", "i64")
float32 = DType("float32", "f", 4, "float32", "f32")
float16 = DType("float16", "f", 2, "float16", "f16")
bfloat16 = DType("bfloat16", "f", 2, "uint16", "bf16")
float64 = DType("float64", "f", 8, "float64", "f64")

#: Types of numbers, which kernels compute with.
ALL: tuple[DType, ...] = (
    bool_, uint8, uint16, uint32, uint64, int8, int16, int32, int64,
    float16, bfloat16, float32, float64,
)  # fmt: skip
complex64 = DType("complex64", "c", 8, "complex64", "c64", float32)
complex128 = DType("complex128", "c", 16, "complex128", "c128", float64)

#: Types of pairs: graphs have them, kernels compute with their parts.
COMPLEX: tuple[DType, ...] = (complex64, complex128)
_BY_NAME = {t.name: t for t in (*ALL, *COMPLEX)}
_BY_NUMPY = {t.numpy: t for t in (*ALL, *COMPLEX) if t is not bfloat16}


def dtype_by_name(name: str) -> DType:
    """The type called ``name``; raises KeyError for an unknown name."""
    return _BY_NAME[name]


def running_dtype(kind: str, dtype: DType) -> DType:
    """What a running fold over ``dtype`` is kept in: sums and products of float32 in float64, as
    in PyTorch on CPUs. One after the other, n numbers make errors that grow with n."""
    return float64 if dtype is float32 and kind in ("sum", "prod") else dtype


def dtype_by_numpy(dtype: np.dtype[np.generic]) -> DType | None:
    """The type that stores NumPy's ``dtype``, or None where lazyt has none."""
    return _BY_NUMPY.get(dtype.newbyteorder("="))


def encode_bfloat16(values: np.ndarray) -> np.ndarray:
    """float32 values as bfloat16 bit patterns (uint16), rounded to nearest, ties to even."""
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    nan = (bits & 0x7FFFFFFF) > 0x7F800000
    return np.where(nan, np.uint16(0x7FC0), rounded).astype(np.uint16).reshape(values.shape)


def decode_bfloat16(bits: np.ndarray) -> np.ndarray:
    """bfloat16 bit patterns (uint16) as float32 values, exactly."""
    wide = np.ascontiguousarray(bits).astype(np.uint32) << 16
    return wide.view(np.float32).reshape(bits.shape)


_INFINITY = {
    "float16": 0x7C00,
    "bfloat16": 0x7F80,
    "float32": 0x7F800000,
    "float64": 0x7FF0000000000000,
}


def order_numbers(dtype: DType) -> tuple[int, int]:
    """How the bits of a type become keys that sort as its values do: the sign bit to flip, and the
    bits of infinity."""
    flip = 1 << (8 * dtype.itemsize - 1) if dtype.kind == "i" else 0
    if flip == 1 << 63:
        flip = -flip  # the same bits, as a C constant
    return flip, _INFINITY.get(dtype.name, 0)
