"""Types of elements, questions about them and about the namespace, and the making of arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lazyt.errors import DTypeError
from lazyt.functional import namespace as lazyt
from lazyt.handle.device import check_device, device
from lazyt.handle.tensor import Tensor

__all__ = [
    "arange", "asarray", "astype", "can_cast", "empty", "empty_like", "eye", "finfo", "from_dlpack",
    "full", "full_like", "iinfo", "isdtype", "linspace", "meshgrid", "ones", "ones_like",
    "result_type", "tril", "triu", "zeros", "zeros_like",
]  # fmt: skip

_FLOATS = ("float32", "float64")
_COMPLEX = ("complex64", "complex128")
_SIGNED = ("int8", "int16", "int32", "int64")
_UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
KINDS: dict[str, tuple[str, ...]] = {
    "bool": ("bool",), "signed integer": _SIGNED, "unsigned integer": _UNSIGNED,
    "integral": _SIGNED + _UNSIGNED, "real floating": _FLOATS, "complex floating": _COMPLEX,
    "numeric": _SIGNED + _UNSIGNED + _FLOATS + _COMPLEX,
}  # fmt: skip


def promote(a: Any, b: Any) -> Any:
    """The type of a result of two types.

    Within a kind it is the larger; a signed and an unsigned integer need a signed one that holds
    both. What the standard leaves open follows PyTorch. Raises DTypeError where there is none.
    """
    if a is b:
        return a
    signed, unsigned = (a, b) if a.is_signed else (b, a)
    if a.name in KINDS["integral"] and b.name in KINDS["integral"]:
        if a.is_signed == b.is_signed:
            return a if a.itemsize > b.itemsize else b
        bits = 8 * max(signed.itemsize, 2 * unsigned.itemsize)
        if bits > 64:
            raise DTypeError(f"there is no type that holds both {a} and {b}")
        return getattr(lazyt, f"int{bits}")
    return lazyt.promote_types(a, b)


def result_type(*arrays_and_dtypes: Any) -> Any:
    """The type of a result of these arrays, types and Python numbers.

    Numbers take the type of the arrays of their kind. Raises DTypeError where there is none, and
    ValueError without an array or type.
    """
    kinds = [item.dtype if isinstance(item, Tensor) else item for item in arrays_and_dtypes]
    found = None
    for kind in kinds:
        if isinstance(kind, lazyt.dtype):
            found = kind if found is None else promote(found, kind)
    if found is None:
        raise ValueError("result_type() needs an array or a dtype")
    for kind in kinds:
        if not isinstance(kind, lazyt.dtype):
            found = lazyt.result_type(lazyt.empty(1, dtype=found), kind)
    return found


def together(*values: Any) -> list[Tensor]:
    """Arrays and Python numbers as arrays of one type."""
    wanted = result_type(*values)
    return [
        value.to(wanted) if isinstance(value, Tensor) else lazyt.tensor(value, dtype=wanted)
        for value in values
    ]


def astype(x: Tensor, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Tensor:
    """``x`` in another type; without ``copy`` it may be ``x`` itself."""
    if dtype is x.dtype and not copy:
        return x.to(device) if device is not None else x
    result: Tensor = x.to(device or "cpu", dtype, copy=copy)
    return result


def can_cast(from_: Any, to: Any, /) -> bool:
    """Whether the type, or the array's type, promotes to ``to`` without change."""
    kind = from_.dtype if isinstance(from_, Tensor) else from_
    try:
        return promote(kind, to) is to
    except DTypeError:
        return False


@dataclass(frozen=True)
class FloatInfo:
    """Limits of a floating point type."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: Any


@dataclass(frozen=True)
class IntegerInfo:
    """Limits of an integer type."""

    bits: int
    max: int
    min: int
    dtype: Any


def finfo(type: Any, /) -> FloatInfo:
    """Limits of a floating point type, or of an array's; of a complex one those of its parts.

    Raises DTypeError for other types.
    """
    kind = type.dtype if isinstance(type, Tensor) else type
    limits = lazyt.finfo(kind)
    kind = kind.to_real()
    return FloatInfo(limits.bits, limits.eps, limits.max, limits.min, limits.smallest_normal, kind)


def iinfo(type: Any, /) -> IntegerInfo:
    """Limits of an integer type, or of an array's. Raises DTypeError for other types."""
    kind = type.dtype if isinstance(type, Tensor) else type
    limits = lazyt.iinfo(kind)
    return IntegerInfo(limits.bits, limits.max, limits.min, kind)


def isdtype(dtype: Any, kind: Any) -> bool:
    """Whether ``dtype`` is ``kind``: a type, the name of a kind, or one of a tuple of those.

    Raises ValueError for names that the standard does not have.
    """
    if isinstance(kind, tuple):
        return any(isdtype(dtype, each) for each in kind)
    if isinstance(kind, str):
        if kind not in KINDS:
            raise ValueError(f"there is no kind {kind!r}; there are {', '.join(KINDS)}")
        return dtype.name in KINDS[kind]
    return dtype is kind


# New arrays.


def _shape(shape: Any) -> tuple[int, ...]:
    return tuple(map(int, shape)) if isinstance(shape, (tuple, list)) else (int(shape),)


def asarray(
    obj: Any, /, *, dtype: Any = None, device: Any = None, copy: bool | None = None
) -> Tensor:
    """``obj`` as an array; see ``lazyt.asarray``."""
    return lazyt.asarray(obj, dtype=dtype, device=device, copy=copy)


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """An array over the memory of another library's; see ``lazyt.from_dlpack``."""
    return lazyt.from_dlpack(x, device=device, copy=copy)


def arange(
    start: Any, /, stop: Any = None, step: Any = 1, *, dtype: Any = None, device: Any = None
) -> Tensor:
    """Numbers from ``start``, or 0, up to, not including, ``stop``; none where it lies behind."""
    if stop is None:
        start, stop = 0, start
    if step == 0:
        raise ValueError("arange() needs a step that is not 0")
    if (stop - start) / step <= 0:
        whole = all(isinstance(value, int) for value in (start, stop, step))
        kind = dtype or (lazyt.int64 if whole else lazyt.get_default_dtype())
        return lazyt.empty(0, dtype=kind, device=device)
    return lazyt.arange(start, stop, step, dtype=dtype, device=device)


def linspace(
    start: Any, stop: Any, /, num: int, *, dtype: Any = None, device: Any = None,
    endpoint: bool = True,
) -> Tensor:  # fmt: skip
    """``num`` numbers at equal distances, the last being ``stop`` with ``endpoint``."""
    if endpoint:
        return lazyt.linspace(start, stop, num, dtype=dtype, device=device)
    return lazyt.linspace(start, stop, num + 1, dtype=dtype, device=device)[:num]


def empty(shape: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """An array of any values."""
    return lazyt.empty(_shape(shape), dtype=dtype, device=device)


def zeros(shape: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """An array of zeros."""
    return lazyt.zeros(_shape(shape), dtype=dtype, device=device)


def ones(shape: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """An array of ones."""
    return lazyt.ones(_shape(shape), dtype=dtype, device=device)


def full(shape: Any, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """An array of one number, by default of the number's kind."""
    return lazyt.full(_shape(shape), fill_value, dtype=dtype, device=device)


def empty_like(x: Tensor, /, *, dtype: Any = None, device: Any = None) -> Tensor:
    """An array of any values, of the shape and type of ``x``."""
    return lazyt.empty_like(x, dtype=dtype, device=device)


def zeros_like(x: Tensor, /, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Zeros of the shape and type of ``x``."""
    return lazyt.zeros_like(x, dtype=dtype, device=device)


def ones_like(x: Tensor, /, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Ones of the shape and type of ``x``."""
    return lazyt.ones_like(x, dtype=dtype, device=device)


def full_like(x: Tensor, /, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """One number in the shape and type of ``x``."""
    return lazyt.full_like(x, fill_value, dtype=dtype, device=device)


def eye(
    n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: Any = None,
    device: Any = None,
) -> Tensor:  # fmt: skip
    """Ones on the ``k``-th diagonal, zeros elsewhere."""
    kind = dtype or lazyt.get_default_dtype()
    width = n_rows if n_cols is None else n_cols
    diagonal = max(-n_rows, min(k, width))  # beyond these there is none, however far
    rows = lazyt.arange(n_rows).reshape(n_rows, 1)
    result: Tensor = (lazyt.arange(width) - rows == diagonal).to(kind)
    return result


def tril(x: Tensor, /, *, k: int = 0) -> Tensor:
    """The part of matrices on and below the ``k``-th diagonal."""
    return lazyt.tril(x, k)


def triu(x: Tensor, /, *, k: int = 0) -> Tensor:
    """The part of matrices on and above the ``k``-th diagonal."""
    return lazyt.triu(x, k)


def meshgrid(*arrays: Tensor, indexing: str = "xy") -> list[Tensor]:
    """Coordinates of a grid from those along its axes."""
    if not arrays:
        return []
    kind = result_type(*arrays)
    return list(lazyt.meshgrid(*(a.to(kind) for a in arrays), indexing=indexing))


# What the namespace can do: ``__array_namespace_info__``.


_ALL = (*KINDS["bool"], *KINDS["numeric"])


class Info:
    """Answers of ``__array_namespace_info__()``."""

    def capabilities(self) -> dict[str, Any]:
        """Boolean indexing and shapes that depend on values work; arrays have 64 dimensions."""
        return {
            "boolean indexing": True,
            "data-dependent shapes": True,
            "max dimensions": 64,
        }

    def default_device(self) -> device:
        """Where new arrays are."""
        return device("cpu")

    def devices(self) -> list[device]:
        """Where arrays can be."""
        return [device("cpu")]

    def default_dtypes(self, *, device: Any = None) -> dict[str, Any]:
        """The types of new arrays by what they are made of."""
        check_device(device)
        floating = lazyt.get_default_dtype()
        return {
            "real floating": floating,
            "complex floating": floating.to_complex(),
            "integral": lazyt.int64,
            "indexing": lazyt.int64,
        }

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, Any]:
        """The types there are, all or those of a kind or several."""
        check_device(device)
        kinds = kind if isinstance(kind, tuple) else (kind,)
        names = _ALL if kind is None else [n for k in kinds for n in KINDS[k]]
        return {name: getattr(lazyt, name) for name in names}
