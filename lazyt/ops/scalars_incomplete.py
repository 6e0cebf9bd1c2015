"""Meanings of incomplete gamma functions, zeta, orthogonal polynomials and discrete laws.

One number at a time, in float64; formulas by their numbers in the NIST Handbook of Mathematical
Functions (DLMF).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from lazyt.ops.scalars_special import erfc

_INF = math.inf
_NAN = math.nan


def _meaning(function: Callable[..., float], count: int) -> Callable[..., Any]:
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

    return _meaning(value, 2)


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
igamma = _meaning(lambda a, x: _part(a, x, False), 2)
igammac = _meaning(lambda a, x: _part(a, x, True), 2)
zeta = _meaning(_zeta, 2)


def _tail(p: float) -> float:
    """The y > 0 that a normal number exceeds with probability p <= 1/2: a start (Abramowitz and
    Stegun 26.2.23), then Newton's method."""
    t = math.sqrt(-2 * math.log(p))
    top = 2.515517 + t * (0.802853 + t * 0.010328)
    y = t - top / (1 + t * (1.432788 + t * (0.189269 + t * 0.001308)))
    for _ in range(6):
        gap = 0.5 * math.erfc(y / math.sqrt(2)) - p
        y += gap * math.sqrt(2 * math.pi) * math.exp(y * y / 2)
    return y


def _ndtri(p: float) -> float:
    if not 0 <= p <= 1:
        return _NAN
    if p in (0, 1):
        return -_INF if p == 0 else _INF
    return -_tail(p) if p < 0.5 else _tail(1 - p)


def _erfcx(x: float) -> float:
    """exp(x^2) erfc(x), from 25 up by the asymptotic series (7.12.1)."""
    if x > 25:
        z = 0.5 / (x * x)
        series = 1 - 5 * z * (1 - 7 * z * (1 - 9 * z * (1 - 11 * z)))
        return (1 - z * (1 - 3 * z * series)) / (x * math.sqrt(math.pi))
    return float(np.exp(np.float64(x) * x)) * float(erfc(np.float64(x)))


ndtri = _meaning(_ndtri, 1)
erfcx = _meaning(_erfcx, 1)


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


poisson = _meaning(_poisson, 2)
binomial = _meaning(_binomial, 3)


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


def _gamma_quantile_slope(a: float, x: float) -> float:
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


gamma_quantile = _meaning(_gamma_quantile, 2)
gamma_quantile_slope = _meaning(_gamma_quantile_slope, 2)
