"""Window functions of any length, under the names of ``torch.signal.windows``.

Every function takes the number ``M`` of points, and by name ``sym`` (whether the window is its own
mirror image; otherwise it is one period of a periodic one), ``dtype``, ``layout``, ``device`` and
``requires_grad``. The result is [M], in the default dtype. All raise WindowError (a ValueError) for
a negative length, for settings that make no window, and for dtypes other than float32 and float64.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from lazyt.compat.absent import explain_absence as _explain_absence
from lazyt.errors import ArgumentError, DTypeError
from lazyt.functional import namespace as lazyt
from lazyt.handle.layout import strided
from lazyt.handle.tensor import Tensor

__all__ = [
    "bartlett", "blackman", "cosine", "exponential", "gaussian", "general_cosine",
    "general_hamming", "hamming", "hann", "kaiser", "nuttall",
]  # fmt: skip


class WindowError(ArgumentError):
    """A setting that makes no window; PyTorch raises ValueError too."""


def _check(name: str, M: int, dtype: Any, layout: Any) -> Any:
    """The dtype of the window; raises WindowError and DTypeError."""
    if isinstance(M, bool) or not hasattr(M, "__index__"):
        raise DTypeError(f"{name}(): argument 'M' (position 1) must be int, not {type(M).__name__}")
    if M < 0:
        raise WindowError(f"{name} requires non-negative window length, got M={M}")
    if layout not in (None, strided):
        raise WindowError(f"{name} is implemented for strided tensors only, got: {layout}")
    found = lazyt.get_default_dtype() if dtype is None else dtype
    if found not in (lazyt.float32, lazyt.float64):
        raise WindowError(f"{name} expects float32 or float64 dtypes, got: {found}")
    return found


def _points(start: float, step: float, M: int, dtype: Any, device: Any) -> Tensor:
    """``M`` numbers from ``start`` on, ``step`` apart."""
    found: Tensor = lazyt.linspace(start, start + (M - 1) * step, M, dtype=dtype, device=device)
    return found


def _period(M: int, sym: bool) -> int:
    """The number of steps in a period."""
    return M - 1 if sym else M


def _finished(window: Tensor, requires_grad: bool) -> Tensor:
    return window.requires_grad_() if requires_grad else window


def exponential(
    M: int, *, center: float | None = None, tau: float = 1.0, sym: bool = True, dtype: Any = None,
    layout: Any = strided, device: Any = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """``exp(-|n - center| / tau)``; a symmetric window takes no ``center``."""
    kind = _check("exponential", M, dtype, layout)
    if tau <= 0:
        raise WindowError(f"Tau must be positive, got: {tau} instead.")
    if sym and center is not None:
        raise WindowError("Center must be None for symmetric windows")
    middle = (M if not sym and M > 1 else M - 1) / 2 if center is None else center
    place = _points(-middle / tau, 1 / tau, M, kind, device)
    return _finished((-place.abs()).exp(), requires_grad)


def cosine(
    M: int, *, sym: bool = True, dtype: Any = None, layout: Any = strided, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Half a period of a sine, its points in the middle of equal steps."""
    kind = _check("cosine", M, dtype, layout)
    step = math.pi / (M + 1 if not sym and M > 1 else max(M, 1))
    return _finished(_points(0.5 * step, step, M, kind, device).sin(), requires_grad)


def gaussian(
    M: int, *, std: float = 1.0, sym: bool = True, dtype: Any = None, layout: Any = strided,
    device: Any = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """The bell curve of deviation ``std``, in points, around the middle."""
    kind = _check("gaussian", M, dtype, layout)
    if std <= 0:
        raise WindowError(f"Standard deviation must be positive, got: {std} instead.")
    first = -(M if not sym and M > 1 else M - 1) / 2
    scale = 1 / (std * math.sqrt(2))
    place = _points(first * scale, scale, M, kind, device)
    return _finished((-(place * place)).exp(), requires_grad)


def kaiser(
    M: int, *, beta: float = 12.0, sym: bool = True, dtype: Any = None, layout: Any = strided,
    device: Any = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """``i0(beta * sqrt(1 - x**2)) / i0(beta)`` over x in [-1, 1] (Kaiser 1974)."""
    kind = _check("kaiser", M, dtype, layout)
    if beta < 0:
        raise WindowError(f"beta must be non-negative, got: {beta} instead.")
    if M < 2:
        return lazyt.ones(M, dtype=kind, device=device, requires_grad=requires_grad)
    step = 2.0 * beta / _period(M, sym)
    end = min(beta, -beta + (M - 1) * step)
    place = lazyt.linspace(-beta, end, M, dtype=kind, device=device)
    window = lazyt.i0((beta * beta - place * place).sqrt())
    return _finished(window / lazyt.i0(lazyt.tensor(beta, dtype=kind)), requires_grad)


def bartlett(
    M: int, *, sym: bool = True, dtype: Any = None, layout: Any = strided, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """A triangle from 0 to 1 and back."""
    kind = _check("bartlett", M, dtype, layout)
    if M < 2:
        return lazyt.ones(M, dtype=kind, device=device, requires_grad=requires_grad)
    place = _points(-1.0, 2 / _period(M, sym), M, kind, device)
    return _finished(1 - place.abs(), requires_grad)


def general_cosine(
    M: int, *, a: Iterable[float], sym: bool = True, dtype: Any = None, layout: Any = strided,
    device: Any = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """The sum of ``(-1)**i * a[i] * cos(i * x)`` over a period. Raises TypeError for ``a``."""
    kind = _check("general_cosine", M, dtype, layout)
    if not isinstance(a, Iterable):
        raise TypeError("Coefficients must be a list/tuple")
    weights = list(a)
    if not weights:
        raise WindowError("Coefficients cannot be empty")
    if M < 2:
        return lazyt.ones(M, dtype=kind, device=device, requires_grad=requires_grad)
    place = _points(0.0, 2 * math.pi / _period(M, sym), M, kind, device)
    window = lazyt.full((M,), weights[0], dtype=kind)
    for order, weight in enumerate(weights[1:], 1):
        window = window + (place * order).cos() * (-weight if order % 2 else weight)
    return _finished(window, requires_grad)


def general_hamming(
    M: int, *, alpha: float = 0.54, sym: bool = True, dtype: Any = None, layout: Any = strided,
    device: Any = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """``alpha - (1 - alpha) * cos(x)`` over a period."""
    options = {"layout": layout, "device": device, "requires_grad": requires_grad}
    return general_cosine(M, a=[alpha, 1.0 - alpha], sym=sym, dtype=dtype, **options)


def hamming(
    M: int, *, sym: bool = True, dtype: Any = None, layout: Any = strided, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """``general_hamming`` of 0.54: a raised cosine whose first side lobe is cancelled."""
    return general_hamming(
        M, sym=sym, dtype=dtype, layout=layout, device=device, requires_grad=requires_grad
    )


def hann(
    M: int, *, sym: bool = True, dtype: Any = None, layout: Any = strided, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """``general_hamming`` of one half: a raised cosine that begins at 0."""
    options = {"layout": layout, "device": device, "requires_grad": requires_grad}
    return general_hamming(M, alpha=0.5, sym=sym, dtype=dtype, **options)


def blackman(
    M: int, *, sym: bool = True, dtype: Any = None, layout: Any = strided, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Three cosines, of 0.42, 0.5 and 0.08."""
    kind = _check("blackman", M, dtype, layout)
    options = {"layout": layout, "device": device, "requires_grad": requires_grad}
    return general_cosine(M, a=[0.42, 0.5, 0.08], sym=sym, dtype=kind, **options)


def nuttall(
    M: int, *, sym: bool = True, dtype: Any = None, layout: Any = strided, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Four cosines with the least side lobes (Nuttall 1981)."""
    weights = [0.3635819, 0.4891775, 0.1365995, 0.0106411]
    options = {"layout": layout, "device": device, "requires_grad": requires_grad}
    return general_cosine(M, a=weights, sym=sym, dtype=dtype, **options)


_explain_absence(__name__)
