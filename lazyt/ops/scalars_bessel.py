"""NumPy meanings of Bessel's and Airy's functions, in float64.

Formulas by their numbers in the NIST Handbook of Mathematical Functions (DLMF).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Meaning = Callable[[Any], Any]
_EULER = 0.5772156649015329


def _meaning(function: Meaning) -> Meaning:
    """``function`` of float64 arrays, warnings off, as a function that keeps its type."""

    def wrapped(x: Any) -> Any:
        x = np.asarray(x)
        with np.errstate(all="ignore"):
            return np.asarray(function(x.astype(np.float64))).astype(x.dtype)

    return wrapped


def _bessel_i(x: Any, order: int, scaled: bool) -> Any:
    """I_n: the power series (10.25.2) up to 20, the asymptotic one (10.40.1) above."""
    size = np.abs(x)
    near = np.minimum(size, 20.0)
    total = term = np.ones_like(x)
    for k in range(1, 64):
        term = term * (near * near / 4) / (k * (k + order))
        total = total + term
    total = total * (near / 2) ** order * (np.exp(-near) if scaled else 1)
    far = np.maximum(size, 20.0)
    tail = term = np.ones_like(x)
    for k in range(1, 32):
        term = term * ((2 * k - 1) ** 2 - 4 * order) / (8 * k * far)
        tail = tail + term
    tail = tail / np.sqrt(2 * np.pi * far)
    if not scaled:
        tail = np.exp(far / 2) * tail * np.exp(far / 2)
    result = np.where(size > 20, tail, total)
    result = np.where(np.isnan(x), x, result)
    return np.copysign(result, x) if order else result


def _bessel_k(x: Any, order: float, scaled: bool) -> Any:
    """K_v for v <= 1: the integral (10.32.9) by the trapezoidal rule."""
    inside = (x > 0) & (x < np.inf)
    y = np.where(inside, x, 1.0)
    step = np.where(y < 4, 0.2, 0.4 / np.sqrt(y))
    total, at = np.full_like(y, 0.5), step
    while np.any(y * np.sinh(at / 2) ** 2 < 23):
        total = total + np.exp(-2 * y * np.sinh(at / 2) ** 2) * np.cosh(order * at)
        at = at + step
    total = total * step * (1 if scaled else np.exp(-y))
    edge = np.where(x == 0, np.inf, np.where(x == np.inf, 0.0, np.nan))
    return np.where(inside, total, edge)


def _recurred(x: Any) -> tuple[Any, Any, Any, Any]:
    """J_0, J_1, Y_0, Y_1 for 0 < x <= 25, by recurrence downwards (DLMF 3.6) and Neumann's series
    (Abramowitz and Stegun 9.1.88)."""
    after, now = np.zeros_like(x), np.full_like(x, 1e-250)
    norm, even, odd = np.zeros_like(x), np.zeros_like(x), np.zeros_like(x)
    for k in range(24 + 2 * int(np.max(x, initial=0)), 0, -1):
        # Far above x the numbers would overflow; there they do not matter yet.
        used = k <= 24 + 2 * x
        after, now = np.where(used, now, 0.0), np.where(used, 2 * k / x * now - after, 1e-250)
        m, sign = k // 2, -1 if k & 2 else 1
        if k % 2 == 0:
            norm, even = norm + 2 * after, even + sign * after / m
        elif k > 1:
            odd = odd + sign * after * k / (m * (m + 1))
    norm = norm + now
    j0, j1, log = now / norm, after / norm, np.log(x / 2) + _EULER
    y0 = 2 / np.pi * (log * j0 - 2 * even / norm)
    return j0, j1, y0, 2 / np.pi * ((log - 1) * j1 - j0 / x - odd / norm)


def _expanded(x: Any, order: int) -> tuple[Any, Any]:
    """J_n and Y_n for x >= 25 by Hankel's expansions (10.17.3, 10.17.4)."""
    p, q, term = np.ones_like(x), np.zeros_like(x), np.ones_like(x)
    for k in range(1, 40):
        term = term * (4 * order - (2 * k - 1) ** 2) / (8 * k * x)
        signed = -term if k & 2 else term
        p, q = (p, q + signed) if k & 1 else (p + signed, q)
    total, gap = np.sin(x) + np.cos(x), np.sin(x) - np.cos(x)
    cosine, sine = (gap, -total) if order else (total, gap)
    size = 1 / np.sqrt(np.pi * x)
    return size * (p * cosine - q * sine), size * (p * sine + q * cosine)


def _bessel_jy(x: Any, which: int) -> Any:
    """J_0, J_1, Y_0 or Y_1; Y is NaN below 0 and -inf at 0."""
    size = np.abs(x)
    order, second = which % 2, which // 2
    near = _recurred(np.clip(np.nan_to_num(size), 1e-4, 25.0))[which]
    far = _expanded(np.maximum(size, 25.0), order)[second]
    if second:
        log, z = np.log(size / 2) + _EULER, size * size / 4
        tiny = log * (1 - z) + z if which == 2 else (log - 0.5) * size / 2 - 1 / size
        tiny = np.where(x == 0, -np.inf, 2 / np.pi * tiny)
    else:
        tiny = size / 2 * (1 - size * size / 8) if order else 1 - size * size / 4
    result = np.where(size < 1e-4, tiny, np.where(size < 25, near, far))
    if second:
        result = np.where(x < 0, np.nan, result)
    result = np.where(np.isnan(x), x, result)
    return np.where(np.signbit(x), -result, result) if which == 1 else result


_VALUES = (0.04024123848644319, -0.022133721547341403, -0.0527050503563862, 0.18428083525050565,
           -0.3291451736298231, 0.35076100902411433, -0.07026553294928951, -0.37881429367765806,
           0.22740742820168558, 0.5355608832923521, 0.3550280538878172, 0.13529241631288141,
           0.03492413042327438)  # fmt: skip
_SLOPES = (0.99626504413279, -0.9756639809263316, 0.9355609381983065, -0.7710081684101265,
           0.3459354872813429, 0.32719281855444315, -0.7906285753685813, 0.3145837692165988,
           0.618259020741691, -0.01016056711664521, -0.2588194037928068, -0.1591474412967932,
           -0.05309038443365363)  # fmt: skip


def _airy_ai(x: Any) -> Any:
    """Ai: Taylor series of Ai'' = x Ai about whole numbers, K_1/3 (9.6.2) and 9.7.9 outside."""
    node = np.rint(np.clip(np.where(np.isfinite(x), x, 0), -10.25, 2))
    h = np.clip(np.where(np.isfinite(x), x, 0), -10.25, 2) - node
    place = node.astype(np.int64) + 10
    before, a, b = np.zeros_like(h), np.take(_VALUES, place), np.take(_SLOPES, place)
    near, power = a + b * h, h
    for k in range(24):
        power = power * h
        before, a, b = a, b, (node * a + before) / ((k + 1) * (k + 2))
        near = near + b * power
    large = np.maximum(x, 2.0)
    zeta = 2 / 3 * large**1.5
    right = np.sqrt(large / 3) / np.pi * _bessel_k(zeta, 1 / 3, True) * np.exp(-zeta)
    z = np.maximum(-x, 10.0)
    zeta, term, f, g = 2 / 3 * z**1.5, np.ones_like(z), np.ones_like(z), np.zeros_like(z)
    for k in range(1, 32):
        ratio = (6 * k - 5) * (6 * k - 3) * (6 * k - 1) / (216 * k * (2 * k - 1))
        term = term * ratio / zeta
        signed = -term if k & 2 else term
        f, g = (f, g + signed) if k & 1 else (f + signed, g)
    sine, cosine = np.sin(zeta), np.cos(zeta)
    left = ((cosine + sine) * f + (sine - cosine) * g) / np.sqrt(2 * np.pi * np.sqrt(z))
    result = np.where(x < -10.25, left, np.where(x < 2, near, right))
    return np.where(np.isfinite(x), result, np.nan)


i0 = _meaning(lambda x: _bessel_i(x, 0, False))
i0e = _meaning(lambda x: _bessel_i(x, 0, True))
i1 = _meaning(lambda x: _bessel_i(x, 1, False))
i1e = _meaning(lambda x: _bessel_i(x, 1, True))
k0 = _meaning(lambda x: _bessel_k(x, 0, False))
k1 = _meaning(lambda x: _bessel_k(x, 1, False))
k0e = _meaning(lambda x: _bessel_k(x, 0, True))
k1e = _meaning(lambda x: _bessel_k(x, 1, True))
j0 = _meaning(lambda x: _bessel_jy(x, 0))
j1 = _meaning(lambda x: _bessel_jy(x, 1))
y0 = _meaning(lambda x: _bessel_jy(x, 2))
y1 = _meaning(lambda x: _bessel_jy(x, 3))
airy_ai = _meaning(_airy_ai)
