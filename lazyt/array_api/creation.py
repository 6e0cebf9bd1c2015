"""New arrays."""

from __future__ import annotations

from typing import Any

import lazyt
from lazyt.array_api.data_types import result_type
from lazyt.tensor import Tensor

__all__ = [
    "arange", "asarray", "empty", "empty_like", "eye", "from_dlpack", "full", "full_like",
    "linspace", "meshgrid", "ones", "ones_like", "tril", "triu", "zeros", "zeros_like",
]  # fmt: skip


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
    rows = lazyt.arange(n_rows).reshape(n_rows, 1)
    columns = lazyt.arange(n_rows if n_cols is None else n_cols)
    result: Tensor = (columns - rows == k).to(kind)
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
