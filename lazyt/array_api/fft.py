"""The standard's ``fft`` extension: discrete Fourier transforms along axes.

``norm`` says where the factor ``1 / n`` is: ``backward`` (in inverse transforms), ``ortho`` (its
root in both) or ``forward``. Real transforms take real floating point arrays, the others
complex ones, too. All raise BoundsError for axes that do not exist, ValueError for other norms and
lengths, and DTypeError for other types.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lazyt import fft as _fft
from lazyt.errors import DTypeError
from lazyt.handle.tensor import Tensor

__all__ = [
    "fft", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifftn", "ifftshift", "ihfft", "irfft",
    "irfftn", "rfft", "rfftfreq", "rfftn",
]  # fmt: skip


def _along(
    function: Callable[..., Tensor], x: Tensor, n: int | None, axis: int, norm: str, real: bool
) -> Tensor:
    _check(x, norm, real)
    return function(x, n, axis, norm)


def _over(
    function: Callable[..., Tensor], x: Tensor, s: Sequence[int] | None,
    axes: Sequence[int] | None, norm: str, real: bool,
) -> Tensor:  # fmt: skip
    _check(x, norm, real)
    sizes = None if s is None else tuple(s)
    return function(x, sizes, None if axes is None else tuple(axes), norm)


def _check(x: Tensor, norm: str, real: bool) -> None:
    if norm not in ("backward", "ortho", "forward"):
        raise ValueError(f"norm is backward, ortho or forward, not {norm!r}")
    if real and not x.dtype.is_floating_point:
        raise DTypeError(f"the transform takes real floating point arrays, not {x.dtype}")
    if not real and not (x.dtype.is_complex or x.dtype.is_floating_point):
        raise DTypeError(f"the transform takes floating point arrays, not {x.dtype}")


def fft(x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """The transform along an axis, of ``n`` points: cut, or with zeros behind."""
    return _along(_fft.fft, x, n, axis, norm, False)


def ifft(x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """The inverse of ``fft``."""
    return _along(_fft.ifft, x, n, axis, norm, False)


def fftn(
    x: Tensor, /, *, s: Sequence[int] | None = None, axes: Sequence[int] | None = None,
    norm: str = "backward",
) -> Tensor:  # fmt: skip
    """The transform along several axes, all by default, with ``s`` points along each."""
    return _over(_fft.fftn, x, s, axes, norm, False)


def ifftn(
    x: Tensor, /, *, s: Sequence[int] | None = None, axes: Sequence[int] | None = None,
    norm: str = "backward",
) -> Tensor:  # fmt: skip
    """The inverse of ``fftn``."""
    return _over(_fft.ifftn, x, s, axes, norm, False)


def rfft(x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """The transform of real numbers: the first ``n // 2 + 1`` frequencies."""
    return _along(_fft.rfft, x, n, axis, norm, True)


def irfft(x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """The inverse of ``rfft``: ``n`` real numbers, by default an even number of them."""
    return _along(_fft.irfft, x, n, axis, norm, False)


def rfftn(
    x: Tensor, /, *, s: Sequence[int] | None = None, axes: Sequence[int] | None = None,
    norm: str = "backward",
) -> Tensor:  # fmt: skip
    """The transform of real numbers along several axes, the last of which is halved."""
    return _over(_fft.rfftn, x, s, axes, norm, True)


def irfftn(
    x: Tensor, /, *, s: Sequence[int] | None = None, axes: Sequence[int] | None = None,
    norm: str = "backward",
) -> Tensor:  # fmt: skip
    """The inverse of ``rfftn``."""
    return _over(_fft.irfftn, x, s, axes, norm, False)


def hfft(x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """The transform of half of a Hermitian signal, which is ``n`` real numbers."""
    return _along(_fft.hfft, x, n, axis, norm, False)


def ihfft(x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """The inverse of ``hfft``: of ``n`` real numbers, half of a Hermitian signal."""
    return _along(_fft.ihfft, x, n, axis, norm, True)


def _frequency_dtype(dtype: Any) -> Any:
    if dtype is not None and not dtype.is_floating_point:
        raise DTypeError(f"frequencies are of a real floating point type, not {dtype}")
    return dtype


def fftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Tensor:
    """The frequencies of ``fft`` of ``n`` samples that are ``d`` apart."""
    return _fft.fftfreq(n, d, dtype=_frequency_dtype(dtype), device=device)


def rfftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Tensor:
    """The frequencies of ``rfft`` of ``n`` samples that are ``d`` apart."""
    return _fft.rfftfreq(n, d, dtype=_frequency_dtype(dtype), device=device)


def fftshift(x: Tensor, /, *, axes: int | Sequence[int] | None = None) -> Tensor:
    """The frequency 0 in the middle of axes, all by default."""
    return _fft.fftshift(x, axes)


def ifftshift(x: Tensor, /, *, axes: int | Sequence[int] | None = None) -> Tensor:
    """The inverse of ``fftshift``."""
    return _fft.ifftshift(x, axes)
