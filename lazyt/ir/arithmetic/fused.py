"""``a * b + c`` with one rounding, on arrays.

In float32 the product is exact in float64, and the sum only has to be rounded to float32 as the
exact one would be. In float64 the product is exact in two parts (Dekker, "A floating-point
technique for extending the available precision", 1971), and the three parts are added with one
rounding to odd before the last one (Boldo and Melquiond, "Emulation of FMA and correctly rounded
sums: proved algorithms using rounding to odd", 2008).
Numbers so large or small that parts of products would be lost are scaled first.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

#: Between these sizes of products, and below these of factors and summands, all parts are exact.
_LEAST, _MOST, _MOST_FACTOR = 2.0**-960, 2.0**1000, 2.0**990
#: By how many binary places numbers may be apart until the smaller one is only "a little more".
_FAR = 200
#: The exponent of the smallest subnormal number, and what no scaled result has to go below.
_TINIEST, _VANISHED = -1074, -1300


def fused_multiply_add(a: Any, b: Any, c: Any) -> Array:
    """``a * b + c``, rounded once; integers wrap around."""
    if a.dtype == np.float32:
        return _single(a, b, c)
    if a.dtype != np.float64:
        return np.asarray(a * b + c)
    return _double(a, b, c)


def two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """The rounded sum and what rounding took away (Knuth)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def _to_odd(total: Array, rest: Array) -> Array:
    """``total + rest``, where ``rest`` was lost to rounding, with an odd last bit: to round that
    again, to fewer bits, is to round the exact sum."""
    rounded = rest != 0
    beyond = rounded & ((rest < 0) != (total < 0))
    return np.asarray((total.view(np.int64) - beyond) | rounded).view(np.float64)


def _single(a: Array, b: Array, c: Array) -> Array:
    """Two roundings are one, unless the first one ends midway between two numbers of float32."""
    product = np.asarray(a.astype(np.float64) * b)
    total = np.asarray(product + c)
    result = np.asarray(total.astype(np.float32))
    midway = (total.view(np.int64) & 0x1FFFFFFF) == 0x10000000
    unsure = midway | ((abs(total) < 2.0**-125) & (total != 0))
    if unsure.any():
        product, c = np.broadcast_arrays(product, c)
        exact = two_sum(product[unsure], c[unsure].astype(np.float64))
        result[unsure] = _to_odd(*exact)
    return result


def _double(a: Array, b: Array, c: Array) -> Array:
    high, low = _product(a, b)
    found = _sum(high, low, c)
    if not _all_between(high, _LEAST, _MOST) or not all(
        _all_between(x, -1.0, most)
        for x, most in ((a, _MOST_FACTOR), (b, _MOST_FACTOR), (c, _MOST))
    ):
        a, b, c, high = np.broadcast_arrays(a, b, c, high)
        size = abs(high)
        usual = (size > _LEAST) & (size < _MOST) & (abs(c) < _MOST)
        usual &= (abs(a) < _MOST_FACTOR) & (abs(b) < _MOST_FACTOR)
        found[~usual] = _unusual(a[~usual], b[~usual], c[~usual])
    return found


def _all_between(x: Array, least: float, most: float) -> bool:
    """Whether the sizes of all numbers are above one and below another; of NaN they are not."""
    size = abs(x)
    return bool(size.min(initial=math.inf) > least and size.max(initial=0.0) < most)


def _sum(high: Array, low: Array, c: Array) -> Array:
    """The sum of a product in two parts and a number, rounded once."""
    first, second, lower = _parts(high, low, c)
    return np.asarray(first + _to_odd(*two_sum(second, lower)))


def _parts(high: Array, low: Array, c: Array) -> tuple[Array, Array, Array]:
    upper, lower = two_sum(c, low)
    first, second = two_sum(high, upper)
    return first, second, lower


def _product(a: Array, b: Array) -> tuple[Array, Array]:
    """A rounded product and what rounding took away."""
    high = np.asarray(a * b)
    (a1, a2), (b1, b2) = _halves(a), _halves(b)
    return high, a2 * b2 - (((high - a1 * b1) - a2 * b1) - a1 * b2)


def _halves(x: Array) -> tuple[Array, Array]:
    """The upper and the lower bits of numbers."""
    wide = x * 134217729.0
    high = wide - (wide - x)
    return high, x - high


def _unusual(a: Array, b: Array, c: Array) -> Array:
    """The same for rows of numbers of any size."""
    bounded = np.isfinite(a) & np.isfinite(b)
    plain = a * b + c
    # A product that overflows does not count beside an infinite summand.
    found = np.where(bounded & ~np.isfinite(c), c, plain)
    scaled = bounded & np.isfinite(c) & (a != 0) & (b != 0)
    found[scaled] = _scaled(a[scaled], b[scaled], c[scaled])
    return found


def _scaled(a: Array, b: Array, c: Array) -> Array:
    """The same for finite numbers and factors that are not 0: computed on mantissas, then scaled,
    with the last rounding where subnormal numbers have their last bit."""
    (a, a_exponent), (b, b_exponent), (c, c_exponent) = np.frexp(a), np.frexp(b), np.frexp(c)
    exponent = a_exponent + b_exponent
    apart = np.where(c == 0, 0, c_exponent - exponent)
    exponent = exponent + np.maximum(apart - _FAR, 0)
    high, low = _product(a, b)
    first, second, lower = _parts(high, low, np.ldexp(c, np.clip(apart, -_FAR, _FAR)))
    rest = _to_odd(*two_sum(second, lower))
    total = first + rest
    result = np.ldexp(total, exponent)
    subnormal = (np.frexp(total)[1] + exponent < -1021) & (total != 0)
    exponent = np.maximum(exponent, _VANISHED)
    # Beside a number whose last bit is that of the smallest subnormal no others stay.
    ruler = np.copysign(np.ldexp(2.0**52, np.where(subnormal, _TINIEST - exponent, 0)), total)
    most, error = two_sum(ruler, first)
    cut = most + _to_odd(*two_sum(error, rest)) - ruler
    return np.asarray(np.where(subnormal, np.copysign(np.ldexp(cut, exponent), total), result))
