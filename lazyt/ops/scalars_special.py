"""NumPy meanings of scalar functions that NumPy lacks. Floats are computed in float64."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np


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
