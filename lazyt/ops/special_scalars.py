"""Meanings of incomplete gamma functions, zeta, orthogonal polynomials and discrete laws.

One number at a time, in float64; formulas by their numbers in the NIST Handbook of Mathematical
Functions (DLMF).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from lazyt.ir.scalar import Call, Expr, ScalarFunction, call, const, register

# NumPy meanings of scalar functions that NumPy lacks. Floats are computed in float64.


def _in_float64(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """``function`` of float64 arrays as a function that keeps its argument's type."""

    def wrapped(x: Any) -> Any:
        x = np.asarray(x)
        return np.asarray(function(x.astype(np.float64))).astype(x.dtype)

    wrapped.__doc__ = function.__doc__
    return wrapped


def _elementwise(function: Callable[[float], float]) -> Callable[[Any], Any]:
    apply = np.frompyfunc(function, 1, 1)
    return lambda x: np.asarray(apply(x)).astype(np.float64)


def _lgamma(x: float) -> float:
    if math.isinf(x) or (x <= 0 and x == math.floor(x)):
        return math.inf
    try:
        return math.lgamma(x)
    except OverflowError:
        return math.inf


erf = _in_float64(_elementwise(math.erf))
erfc = _in_float64(_elementwise(math.erfc))
lgamma = _in_float64(_elementwise(_lgamma))


@_in_float64
def digamma(x: Any) -> Any:
    """The derivative of lgamma: -inf at 0, inf at -0.0, NaN at negative integers (as PyTorch)."""
    reflect = x < 0
    y = np.where(reflect, 1 - x, x)
    total = np.zeros_like(y)
    for _ in range(10):
        small = y < 10
        total = np.where(small, total - 1 / y, total)
        y = np.where(small, y + 1, y)
    r = 1 / (y * y)
    # Asymptotic series, Abramowitz and Stegun 6.3.18.
    tail = np.polyval((-691 / 32760, 1 / 132, -1 / 240, 1 / 252, -1 / 120, 1 / 12, 0), r)
    result = total + np.log(y) - 0.5 / y - tail
    fraction = np.fmod(x, 1)
    result = np.where(reflect, result - np.pi / np.tan(np.pi * fraction), result)
    result = np.where(reflect & (x == np.floor(x)), np.nan, result)
    return np.where(x == 0, np.copysign(np.inf, -x), result)


@_in_float64
def erfinv(x: Any) -> Any:
    """The inverse of erf: Giles' single precision formula, then Newton steps in float64."""
    w = -np.log((1 - x) * (1 + x))
    near, far = w - 2.5, np.sqrt(np.maximum(w, 5.0)) - 3
    low = (2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087,
           -0.00125372503, -0.00417768164, 0.246640727, 1.50140941)  # fmt: skip
    high = (-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773,
            -0.0076224613, 0.00943887047, 1.00167406, 2.83297682)  # fmt: skip
    y = x * np.where(w < 5, np.polyval(low, near), np.polyval(high, far))
    tail = np.abs(x) > 0.5
    for _ in range(3):
        # Near 1 the error is taken from erfc, which does not cancel there.
        upper = np.sign(x) * ((1 - np.abs(x)) - erfc(np.abs(y)))
        error = np.where(tail, upper, erf(y) - x)
        y = y - error / (2 / math.sqrt(math.pi) * np.exp(-y * y))
    y = np.where(np.abs(x) == 1, np.copysign(np.inf, x), y)
    return np.where(x == 0, x, np.where(np.abs(x) > 1, np.nan, y))


_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))


def threefry(k0: Any, k1: Any, counter: Any) -> Any:
    """First word of Threefry-2x32 with 20 rounds (Salmon et al., SC'11); uint32."""
    k0, k1 = np.asarray(k0, np.uint32), np.asarray(k1, np.uint32)
    counter = np.asarray(counter).astype(np.uint64)
    keys = (k0, k1, k0 ^ k1 ^ np.uint32(0x1BD11BDA))
    a = (counter & np.uint64(0xFFFFFFFF)).astype(np.uint32) + k0
    b = (counter >> np.uint64(32)).astype(np.uint32) + k1
    for group in range(5):
        for left in _ROTATIONS[group % 2]:
            a = a + b
            b = ((b << np.uint32(left)) | (b >> np.uint32(32 - left))) ^ a
        a = a + keys[(group + 1) % 3]
        b = b + keys[(group + 2) % 3] + np.uint32(group + 1)
    return a


def floordiv(x: Any, y: Any) -> Any:
    """Division rounded down; integers divided by zero give 0, floats x / 0."""
    x, y = np.asarray(x), np.asarray(y)
    if x.dtype.kind == "f":
        return np.floor_divide(x, y)
    return np.where(y == 0, 0, np.floor_divide(x, _divisor(y))).astype(x.dtype)


def mod(x: Any, y: Any) -> Any:
    """The remainder with the divisor's sign (torch.remainder); integers modulo 0 give 0."""
    x, y = np.asarray(x), np.asarray(y)
    if x.dtype.kind != "f":
        return np.where(y == 0, 0, np.mod(x, _divisor(y))).astype(x.dtype)
    r = np.fmod(x, y)
    return np.where((r != 0) & ((r < 0) != (y < 0)), r + y, r)


def fmod(x: Any, y: Any) -> Any:
    """The remainder with the dividend's sign, as C's; integers modulo 0 give 0."""
    x, y = np.asarray(x), np.asarray(y)
    if x.dtype.kind == "f":
        return np.fmod(x, y)
    return np.where(y == 0, 0, np.fmod(x, _divisor(y))).astype(x.dtype)


def _divisor(y: Any) -> Any:
    """``y`` with zeros replaced, for integer divisions."""
    return np.where(y == 0, 1, y).astype(y.dtype)


def power(x: Any, y: Any) -> Any:
    """x ** y; integers wrap, and negative integer exponents give 0 except for bases 1 and -1."""
    x, y = np.asarray(x), np.asarray(y)
    if x.dtype.kind != "i":
        return np.power(x, y)
    result = np.power(x, np.maximum(y, 0))
    inverse = np.where(x == 1, 1, np.where(x == -1, np.where(y & 1, -1, 1), 0))
    return np.where(y < 0, inverse, result).astype(x.dtype)


def shift_left(x: Any, n: Any) -> Any:
    """x << n; counts outside 0 .. bits-1 give 0."""
    x, n = np.asarray(x), np.asarray(n)
    bits = x.dtype.itemsize * 8
    fits = (n >= 0) & (n < bits)
    return np.where(fits, np.left_shift(x, np.where(fits, n, 0).astype(x.dtype)), 0).astype(x.dtype)


def shift_right(x: Any, n: Any) -> Any:
    """x >> n, arithmetic; counts outside 0 .. bits-1 leave only the sign: 0 or -1."""
    x, n = np.asarray(x), np.asarray(n)
    bits = x.dtype.itemsize * 8
    fits = (n >= 0) & (n < bits)
    shifted = np.right_shift(x, np.where(fits, n, 0).astype(x.dtype))
    return np.where(fits, shifted, np.where(x < 0, -1, 0).astype(x.dtype))


def maximum(x: Any, y: Any) -> Any:
    """The larger; NaN when either is NaN; x when they are equal."""
    return np.where((np.asarray(x) >= y) | (np.not_equal(x, x)), x, y)


def minimum(x: Any, y: Any) -> Any:
    """The smaller; NaN when either is NaN; x when they are equal."""
    return np.where((np.asarray(x) <= y) | (np.not_equal(x, x)), x, y)


def fmax(x: Any, y: Any) -> Any:
    """The larger; the other when one is NaN; x when they are equal."""
    return np.where((np.asarray(x) >= y) | (np.not_equal(y, y)), x, y)


def fmin(x: Any, y: Any) -> Any:
    """The smaller; the other when one is NaN; x when they are equal."""
    return np.where((np.asarray(x) <= y) | (np.not_equal(y, y)), x, y)


def sign(x: Any) -> Any:
    """-1, 0 or 1 in x's type; 0 for NaN, as torch.sign."""
    x = np.asarray(x)
    return ((x > 0).astype(np.int8) - (x < 0).astype(np.int8)).astype(x.dtype)


def sigmoid(x: Any) -> Any:
    """1 / (1 + exp(-x))."""
    x = np.asarray(x)
    one = x.dtype.type(1)
    return one / (one + np.exp(-x))


# NumPy meanings of Bessel's and Airy's functions, in float64.
#
# Formulas by their numbers in the NIST Handbook of Mathematical Functions (DLMF).


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
    tail = tail / (np.sqrt(2 * np.pi) * np.sqrt(far))  # twice the largest numbers is infinite
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

_INF = math.inf
_NAN = math.nan


def _of_floats(function: Callable[..., float], count: int) -> Callable[..., Any]:
    """``function`` of Python floats as one of arrays that keeps the type of its arguments."""
    apply = np.frompyfunc(function, count, 1)

    def wrapped(*arguments: Any) -> Any:
        dtype = np.asarray(arguments[0]).dtype
        wide = [np.asarray(x).astype(np.float64) for x in arguments]
        with np.errstate(all="ignore"):
            return np.asarray(apply(*wide)).astype(np.float64).astype(dtype)

    return wrapped


def _front(a: float, x: float) -> float:
    """x^a exp(-x) / gamma(a + 1), large parts of the exponent cancelled by Stirling's series."""
    if a < 10:
        return math.exp(a * math.log(x) - x - math.lgamma(a + 1))
    d = (x - a) / a
    log = math.log1p(d) if abs(d) < 0.5 else math.log(x / a)
    series = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)
    rest = sum(c * a ** -(2 * k + 1) for k, c in enumerate(series))
    return math.exp(a * (log - d) - rest) / math.sqrt(2 * math.pi * a)


def _lower_series(a: float, x: float) -> float:
    """The lower function by (8.7.1)."""
    term = total = 1.0
    for k in range(1, 20000):
        term *= x / (a + k)
        total += term
        if term < total * 1e-17:
            break
    return _front(a, x) * total


def _upper_fraction(a: float, x: float) -> float:
    """The upper function by the continued fraction (8.9.2), from the front (Lentz)."""
    b, c = x + 1 - a, 1e300
    d = h = 1 / b
    for k in range(1, 20000):
        top = k * (a - k)
        b += 2
        d = top * d + b
        d = 1 / (d if abs(d) > 1e-300 else 1e-300)
        c = b + top / c
        c = c if abs(c) > 1e-300 else 1e-300
        h *= c * d
        if abs(c * d - 1) < 1e-16:
            break
    return _front(a, x) * a * h


def _upper_small(a: float, x: float) -> float:
    """The upper function for a < 1, x < 1.5 by (8.7.3)."""
    term, total = 1.0, 0.0
    for k in range(1, 40):
        term *= -x / k
        total += term / (a + k)
    e = a * math.log(x) - (math.lgamma(2 + a) - math.log1p(a))
    return -math.expm1(e) - math.exp(e) * a * total


def _large(a: float, x: float, upper: bool) -> float:
    """Either function for huge a by (8.12.3), (8.12.4)."""
    d = (x - a) / a
    y = d - math.log1p(d)
    if abs(d) < 0.01:
        y = d * d * (0.5 - d * (1 / 3 - d * (0.25 - d * (0.2 - d / 6))))
    eta, sign = math.copysign(math.sqrt(2 * y), d), 1 if upper else -1
    rest = -1 / 3 + eta * (1 / 12 - eta * 2 / 135) - 1 / (540 * a)
    bell = math.exp(-a * y) / math.sqrt(2 * math.pi * a)
    return 0.5 * math.erfc(sign * eta * math.sqrt(a / 2)) + sign * bell * rest


def _part(a: float, x: float, upper: bool) -> float:
    whole, nothing = (1.0, 0.0) if upper else (0.0, 1.0)
    if a < 0 or x < 0 or a == x == 0 or a == x == _INF:
        return _NAN
    # An infinite or vanishing argument decides alone, as in PyTorch.
    if a == _INF or (x == 0 and a != 0):
        return whole
    if x == _INF or (a == 0 and x == x):
        return nothing
    if a != a or x != x:
        return _NAN
    if a > 1e6 and abs(x - a) < 0.05 * a:
        return _large(a, x, upper)
    if a < 1 and x < 1.5 and upper:
        return _upper_small(a, x)
    below = x < a + 1
    value = _lower_series(a, x) if below else _upper_fraction(a, x)
    return value if below != upper else 1 - value


_RATIOS = (
    1 / 12, -1 / 720, 1 / 30240, -1 / 1209600, 1 / 47900160, -691 / 1307674368000,
    1 / 74724249600, -3617 / 10670622842880000, 8.586062056277845e-15, -2.174868698558062e-16,
    5.5090028283602295e-18, -1.3954464685812522e-19,
)  # fmt: skip


def _zeta(s: Any, q: Any) -> float:
    """Hurwitz's zeta function by Euler and Maclaurin (25.11.5)."""
    s, q = np.float64(s), np.float64(q)
    if s == 1:
        return _INF
    if s < 1:
        return _NAN
    if q <= 0 and q == np.floor(q):
        return _INF
    if q <= 0 and s != np.floor(s):
        return _NAN
    total, a, b, k = q**-s, q, q**-s, 0
    while (k < 9 or a <= 9) and k <= 1000001:
        a, k = a + 1, k + 1
        b = a**-s
        total += b
        if abs(b) < 1e-17 * abs(total):
            return float(total)
    total += b * a / (s - 1) - 0.5 * b
    rising, power = s, b / a
    for k, ratio in enumerate(_RATIOS):
        term = ratio * rising * power
        total += term
        if abs(term) < 1e-17 * abs(total):
            break
        rising *= (s + 2 * k + 1) * (s + 2 * k + 2)
        power /= a * a
    return float(total)


Step = Callable[[int, float, float, float], float]


def _polynomial(first: Callable[[float], float], step: Step) -> Callable[..., Any]:
    """The polynomial of degree n by its recurrence ``step(k, x, p, p before)``."""

    def value(x: float, n: float) -> float:
        if not -1 < n < 9e18:
            return 0.0
        if n < 1:
            return 1.0
        before, p = 1.0, first(x)
        for k in range(1, int(n)):
            before, p = p, step(k, x, p, before)
            if p != p:
                break
        return p

    return _of_floats(value, 2)


def _chebyshev(k: int, x: float, p: float, before: float) -> float:
    return 2 * x * p - before


chebyshev_t = _polynomial(lambda x: x, _chebyshev)
chebyshev_u = _polynomial(lambda x: 2 * x, _chebyshev)
chebyshev_v = _polynomial(lambda x: 2 * x - 1, _chebyshev)
chebyshev_w = _polynomial(lambda x: 2 * x + 1, _chebyshev)
hermite_h = _polynomial(lambda x: 2 * x, lambda k, x, p, q: 2 * x * p - 2 * k * q)
hermite_he = _polynomial(lambda x: x, lambda k, x, p, q: x * p - k * q)
laguerre_l = _polynomial(
    lambda x: 1 - x, lambda k, x, p, q: ((2 * k + 1 - x) * p - k * q) / (k + 1)
)
legendre_p = _polynomial(lambda x: x, lambda k, x, p, q: ((2 * k + 1) * x * p - k * q) / (k + 1))
igamma = _of_floats(lambda a, x: _part(a, x, False), 2)
igammac = _of_floats(lambda a, x: _part(a, x, True), 2)
zeta = _of_floats(_zeta, 2)


def _tail(p: float) -> float:
    """The y > 0 that a normal number exceeds with probability p <= 1/2: a start (Abramowitz and
    Stegun 26.2.23), then Newton's method."""
    t = math.sqrt(-2 * math.log(p))
    top = 2.515517 + t * (0.802853 + t * 0.010328)
    y = t - top / (1 + t * (1.432788 + t * (0.189269 + t * 0.001308)))
    for _ in range(6):
        if p < 1e-290:  # erfc has few digits where it is subnormal, its logarithm (7.12.1) has all
            z = 1 / (y * y)
            series = 1 - z * (1 - 3 * z * (1 - 5 * z * (1 - 7 * z)))
            log = math.log(series / (y * math.sqrt(2 * math.pi))) - y * y / 2
            y += (log - math.log(p)) / (y + 1 / y)
        else:
            gap = 0.5 * math.erfc(y / math.sqrt(2)) - p
            y += gap * math.sqrt(2 * math.pi) * math.exp(y * y / 2)
    return y


def _ndtri(p: float) -> float:
    if not 0 <= p <= 1:
        return _NAN
    if p in (0, 1):
        return -_INF if p == 0 else _INF
    if p == 0.5:  # where the steps end beside 0
        return 0.0
    return -_tail(p) if p < 0.5 else _tail(1 - p)


def _erfcx(x: float) -> float:
    """exp(x^2) erfc(x), from 25 up by the asymptotic series (7.12.1)."""
    if x > 25:
        z = 0.5 / (x * x)
        series = 1 - 5 * z * (1 - 7 * z * (1 - 9 * z * (1 - 11 * z)))
        return (1 - z * (1 - 3 * z * series)) / (x * math.sqrt(math.pi))
    return float(np.exp(np.float64(x) * x)) * float(erfc(np.float64(x)))


ndtri = _of_floats(_ndtri, 1)
erfcx = _of_floats(_erfcx, 1)


def _count(mean: float, variance: float, skew: float, u: float) -> float:
    """A normal law's quantile, its skewness corrected (Cornish and Fisher), as a whole number."""
    z = _ndtri(1e-300 if u < 1e-300 else u)
    count = mean + math.sqrt(variance) * z + skew * (z * z - 1) / 6
    return float(np.floor(count + 0.5))


Ratio = Callable[[float], float]


def _walk(mode: float, chance: float, up: Ratio, down: Ratio, u: float) -> float:
    """Lays the probabilities end to end, from the mode outwards, and says in which u falls."""
    above = below = mode
    p = q = chance
    u -= p
    if u < 0:
        return mode
    while p + q > 1e-20:
        p, above = p * up(above), above + 1
        u -= p
        if u < 0:
            return above
        q, below = q * down(below), max(below - 1, 0.0)
        u -= q
        if u < 0:
            return below
    return above


def _poisson(rate: float, u: float) -> float:
    if not 0 <= rate < _INF:
        return _NAN
    if rate > 1e6:
        return _count(rate, rate, 1, u)
    mode = math.floor(rate)
    chance = _front(mode, rate) if mode else math.exp(-rate)
    return _walk(mode, chance, lambda k: rate / (k + 1), lambda k: k / rate if k else 0.0, u)


def _fused(x: float, y: float, z: float) -> float:
    """``x * y + z`` of doubles, rounded once."""
    if (
        not (math.isfinite(x) and math.isfinite(y) and math.isfinite(z))
        or x * y == 0 == x
        or y == 0
    ):
        return x * y + z  # exact, or no number
    from fractions import Fraction  # slow to import, and rarely needed

    exact = Fraction(x) * Fraction(y) + Fraction(z)
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def fma(x: Any, y: Any, z: Any) -> Any:
    """``x * y + z``, rounded once.

    The product of two floats is exact in float64. Its sum with the third is rounded to an odd last
    bit there, so that the second rounding cannot err.
    """
    x, y, z = np.broadcast_arrays(x, y, z)
    if x.dtype == np.float64:
        found = [
            _fused(*each)
            for each in zip(x.ravel().tolist(), y.ravel().tolist(), z.ravel().tolist())
        ]
        return np.array(found, np.float64).reshape(x.shape)
    product, term = x.astype(np.float64) * y.astype(np.float64), z.astype(np.float64)
    total = np.asarray(product + term)
    back = total - product
    rest = (product - (total - back)) + (term - back)
    bits = total.view(np.int64)
    away = np.where((rest > 0) == (total > 0), 1, -1)
    inexact = np.isfinite(total) & (rest != 0) & (bits % 2 == 0) & (total != 0)
    return np.where(inexact, bits + away, bits).view(np.float64).astype(np.float32)


def _binomial(n: float, p: float, u: float) -> float:
    if not (0 <= n < _INF and 0 <= p <= 1):
        return _NAN
    n, s = math.floor(n), 1 - p if p > 0.5 else p
    mode = math.floor((n + 1) * s)
    if n * s * (1 - s) > 1e6:
        count = _count(n * s, n * s * (1 - s), 1 - 2 * s, u)
    elif s == 0:
        count = 0.0
    else:
        ways = math.lgamma(n + 1) - math.lgamma(mode + 1) - math.lgamma(n - mode + 1)
        chance = math.exp(ways + mode * math.log(s) + (n - mode) * math.log1p(-s))
        odds = s / (1 - s)
        count = _walk(
            mode,
            chance,
            lambda k: (n - k) / (k + 1) * odds,
            lambda k: k / ((n - k + 1) * odds),
            u,
        )
    return n - count if p > 0.5 else count


poisson = _of_floats(_poisson, 2)
binomial = _of_floats(_binomial, 3)


def _gamma_quantile(a: float, u: float) -> float:
    """The x with P(a, x) = u for a >= 1: Wilson and Hilferty's start, then Halley's method on the
    smaller of P and Q, whose digits count."""
    if not (1 <= a < _INF and 0 < u < 1):
        return _NAN
    upper, c = u > 0.5, 1 / (9 * a)
    aim, sign = (1 - u, -1) if upper else (u, 1)
    x = a * (1 - c + math.sqrt(c) * _ndtri(u)) ** 3
    floor = math.exp((math.log(u) + math.lgamma(a + 1)) / a)  # P(a, x) <= x^a / gamma(a + 1)
    x = x if x > floor else floor
    for _ in range(40):
        density = _front(a, x) * a / x
        if density == 0:
            break
        step = sign * (_part(a, x, upper) - aim) / density
        bend = step * ((a - 1) / x - 1) / 2
        step /= 1 - (bend if abs(bend) < 0.5 else math.copysign(0.5, bend))
        before, x = x, x - step
        x = x if x > before / 4 else before / 4
        if abs(x - before) <= 1e-15 * x:
            break
    return x


def _quantile_slope(a: float, x: float) -> float:
    """How the quantile x moves with a: -(dP/da) / (dP/dx), dP/da by central differences of order
    four of the smaller of P and Q, in steps of the law's own width."""
    if not (1 <= a < _INF and 0 < x < _INF):
        return _NAN
    upper, h = x > a, 2e-3 * math.sqrt(a)
    near = _part(a + h, x, upper) - _part(a - h, x, upper)
    far = _part(a + 2 * h, x, upper) - _part(a - 2 * h, x, upper)
    by_order = (8 * near - far) / (12 * h)
    density = _front(a, x) * a
    return (by_order if upper else -by_order) * x / density if density > 0 else _NAN


gamma_quantile = _of_floats(_gamma_quantile, 2)
gamma_quantile_slope = _of_floats(_quantile_slope, 2)


# Higher transcendental functions, whole-number functions and discrete laws, one entry each.


Slope = Callable[[Expr, Expr], Expr]


def _number(value: float, like: Expr) -> Expr:
    return const(value, like.dtype)


def _neg(name: str) -> Slope:
    return lambda x, y: call("neg", call(name, x))


def _by_argument(partner: str) -> Slope:
    """``partner(x) - y / x``, which tends to 1/2 at 0: the derivative in order 1."""

    def rule(x: Expr, y: Expr) -> Expr:
        slope = call("sub", call(partner, x), call("div", y, _not_zero(x)))
        return call("where", call("eq", x, _number(0, x)), _number(0.5, x), slope)

    return rule


def _not_zero(x: Expr) -> Expr:
    """``x``, 1 for 0: what is not chosen must not be NaN, or its own derivative is."""
    return call("where", call("eq", x, _number(0, x)), _number(1, x), x)


def _i0e_slope(x: Expr, y: Expr) -> Expr:
    return call("sub", call("i1e", x), call("mul", call("sign", x), y))


def _i1e_slope(x: Expr, y: Expr) -> Expr:
    factor = call("add", call("sign", x), call("reciprocal", _not_zero(x)))
    slope = call("sub", call("i0e", x), call("mul", y, factor))
    return call("where", call("eq", x, _number(0, x)), _number(0.5, x), slope)


def _k1_slope(x: Expr, y: Expr) -> Expr:
    return call("neg", call("add", call("modified_bessel_k0", x), call("div", y, x)))


def _scaled_k0_slope(x: Expr, y: Expr) -> Expr:
    return call("sub", y, call("scaled_modified_bessel_k1", x))


def _scaled_k1_slope(x: Expr, y: Expr) -> Expr:
    rest = call("add", call("scaled_modified_bessel_k0", x), call("div", y, x))
    return call("sub", y, rest)


def _y1_slope(x: Expr, y: Expr) -> Expr:
    return call("sub", call("bessel_y0", x), call("div", y, x))


def _erfcx_slope(x: Expr, y: Expr) -> Expr:
    double = call("mul", call("mul", _number(2, x), x), y)
    return call("sub", double, _number(2 / math.sqrt(math.pi), x))


def _ndtri_slope(x: Expr, y: Expr) -> Expr:
    half_square = call("mul", _number(0.5, x), call("mul", y, y))
    return call("mul", _number(math.sqrt(2 * math.pi), x), call("exp", half_square))


def _mantissa_slope(x: Expr, y: Expr) -> Expr:
    return call("exp2", call("neg", call("exponent", x)))


_UNARY: tuple[tuple[str, Any, Slope | None], ...] = (
    ("i0", i0, lambda x, y: call("i1", x)),
    ("i0e", i0e, _i0e_slope),
    ("i1", i1, _by_argument("i0")),
    ("i1e", i1e, _i1e_slope),
    ("bessel_j0", j0, _neg("bessel_j1")),
    ("bessel_j1", j1, _by_argument("bessel_j0")),
    ("bessel_y0", y0, _neg("bessel_y1")),
    ("bessel_y1", y1, _y1_slope),
    ("modified_bessel_k0", k0, _neg("modified_bessel_k1")),
    ("modified_bessel_k1", k1, _k1_slope),
    ("scaled_modified_bessel_k0", k0e, _scaled_k0_slope),
    ("scaled_modified_bessel_k1", k1e, _scaled_k1_slope),
    ("airy_ai", airy_ai, None),
    ("erfcx", erfcx, _erfcx_slope),
    ("ndtri", ndtri, _ndtri_slope),
    ("mantissa", lambda x: np.frexp(x)[0], _mantissa_slope),
)


def _rule(slope: Slope) -> Callable[[Call, int], Expr]:
    return lambda c, number: slope(c.args[0], c)


for _name, _evaluate, _slope in _UNARY:
    register(
        ScalarFunction(
            _name,
            1,
            _evaluate,
            None if _slope is None else _rule(_slope),
            kinds="f",
            cost=3 if _name == "mantissa" else 80,
            reason=f"the gradient of {_name} is not implemented" if _slope is None else "",
        )
    )


def _flat(c: Call, number: int) -> Expr | None:
    return None


def _gamma_density(c: Call, sign: float) -> Expr:
    return _gamma_slope_at(c.args[0], c.args[1], sign)


def _gamma_slope_at(a: Expr, x: Expr, sign: float) -> Expr:
    """``sign * x**(a-1) * exp(-x) / gamma(a)``."""
    power = call("mul", call("sub", a, _number(1, a)), call("log", x))
    exponent = call("sub", call("sub", power, x), call("lgamma", a))
    return call("mul", _number(sign, x), call("exp", exponent))


def _igamma_slope(c: Call, number: int) -> Expr | None:
    """By the second argument; users of the first are refused where the call is built."""
    return _gamma_density(c, 1) if number else None


def _igammac_slope(c: Call, number: int) -> Expr | None:
    return _gamma_density(c, -1) if number else None


def _gamma_quantile_slope(c: Call, number: int) -> Expr:
    """Implicit differentiation (Figurnov, Mohamed and Mnih, 2018); by u, 1 over the density."""
    a = c.args[0]
    if number == 0:
        return call("gamma_quantile_slope", a, c)
    return call("reciprocal", _gamma_slope_at(a, c, 1))


def _zeta_slope(c: Call, number: int) -> Expr | None:
    """By the second argument; users of the first are refused where the call is built."""
    s, q = c.args
    next_one = call("zeta", call("add", s, _number(1, s)), q)
    return call("neg", call("mul", s, next_one)) if number else None


def _step_slope(c: Call, number: int) -> Expr | None:
    """1 by the first argument where there is a step, as in PyTorch."""
    x, y = c.args
    return call("where", call("eq", x, y), _number(0, x), _number(1, x)) if number == 0 else None


def _several(
    name: str, arity: int, evaluate: Any, derivative: Any, kinds: str, cost: float, why: str
) -> None:
    reason = "" if derivative else f"{name} {why}"
    register(
        ScalarFunction(name, arity, evaluate, derivative, kinds=kinds, cost=cost, reason=reason)
    )


_several("igamma", 2, igamma, _igamma_slope, "f", 300, "")
_several("igammac", 2, igammac, _igammac_slope, "f", 300, "")
_several("zeta", 2, zeta, _zeta_slope, "f", 300, "")
_several("gcd", 2, np.gcd, None, "ui", 60, "gives integers, which carry no gradient")
_several("nextafter", 2, np.nextafter, _step_slope, "f", 3, "")
_several("poisson", 2, poisson, _flat, "f", 300, "")
_several("binomial", 3, binomial, _flat, "f", 300, "")
# Their costs keep a draw and its gradient within what one kernel may hold.
_several("gamma_quantile", 2, gamma_quantile, _gamma_quantile_slope, "f", 150, "")
_several(
    "gamma_quantile_slope", 2, gamma_quantile_slope, None, "f", 150,
    "is a gradient without one of its own: draws are differentiated once",
)  # fmt: skip
_several("exponent", 1, lambda x: np.frexp(x)[1].astype(x.dtype), _flat, "f", 3, "")
for _name in (
    "chebyshev_t", "chebyshev_u", "chebyshev_v", "chebyshev_w",
    "hermite_h", "hermite_he", "laguerre_l", "legendre_p",
):  # fmt: skip
    _several(_name, 2, globals()[_name], None, "f", 30, "has no gradient in PyTorch")
