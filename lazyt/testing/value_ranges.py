"""What random tests know about values: an interval, and a bound on the error between backends.

An error of 0 promises that two right implementations agree to the bit: integers, booleans,
movement, and float32 or float64 arithmetic that IEEE 754 rounds in one way. Everything else gets
a bound that grows as rounding errors do, so that comparing results needs no guessed tolerance,
and functions that jump (floor, comparisons, casts to integers) are only applied to exact values.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from lazyt.ir.dtypes import DType, bool_

EPSILON = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "float64": 2.0**-52}
#: Largest magnitude that a float value may reach.
LARGEST = {"float16": 1e3, "bfloat16": 1e5, "float32": 1e5, "float64": 1e6}
#: Units in the last place that a function may be off, in each of two implementations.
ULPS = 8


class Span(NamedTuple):
    """Values lie in ``low .. high``; two implementations differ by ``error`` at most."""

    low: float
    high: float
    error: float

    @property
    def size(self) -> float:
        """The largest magnitude."""
        return max(abs(self.low), abs(self.high))


def integer_range(dtype: DType) -> tuple[int, int]:
    """Smallest and largest value of an integer type or bool."""
    if dtype is bool_:
        return (0, 1)
    bits = 8 * dtype.itemsize
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if dtype.kind == "i" else (0, (1 << bits) - 1)


def settle(span: Span, dtype: DType) -> Span | None:
    """``span`` as values of ``dtype``; None when they would grow too large to compare.

    Small integers wrap; large ones must stay far from their limits.
    """
    if dtype.kind == "f":
        fine = span.size <= LARGEST[dtype.name] and span.error <= 0.02 * max(span.size, 0.1)
        return span if fine else None
    least, most = integer_range(dtype)
    if least <= span.low and span.high <= most:
        return span if dtype.itemsize < 4 or span.size <= most / 4 else None
    return Span(least, most, 0) if dtype.itemsize < 4 else None


def rounding(dtype: DType, size: float, ulps: float = 1) -> float:
    """The error of rounding values up to ``size`` to ``dtype``, ``ulps`` times."""
    return ulps * EPSILON[dtype.name] * size if dtype.kind == "f" else 0.0


class Smooth(NamedTuple):
    """A monotone function on ``low .. high`` that is continuous there."""

    function: Callable[[float], float]
    slope: Callable[[float], float]
    low: float = -math.inf
    high: float = math.inf
    slack: float = 0.0


def _erfinv(x: float) -> float:
    value = 0.0
    for _ in range(60):
        slope = 2 / math.sqrt(math.pi) * math.exp(-value * value)
        value -= (math.erf(value) - x) / slope
    return value


#: Monotone functions, with the domain on which random tests use them.
SMOOTH: dict[str, Smooth] = {
    "exp": Smooth(math.exp, math.exp, -20, 6),
    "exp2": Smooth(lambda x: 2.0**x, lambda x: 2.0**x, -20, 8),
    "expm1": Smooth(math.expm1, math.exp, -20, 6),
    "log": Smooth(math.log, lambda x: 1 / x, 0.05),
    "log2": Smooth(math.log2, lambda x: 1.5 / x, 0.05),
    "log10": Smooth(math.log10, lambda x: 1 / x, 0.05),
    "log1p": Smooth(math.log1p, lambda x: 1 / (1 + x), -0.9),
    "sqrt": Smooth(math.sqrt, lambda x: 0.5 / math.sqrt(x), 0.05),
    "rsqrt": Smooth(lambda x: x**-0.5, lambda x: 0.5 * x**-1.5, 0.05),
    "reciprocal": Smooth(lambda x: 1 / x, lambda x: 1 / x**2, 0.05),
    "tan": Smooth(math.tan, lambda x: 1 / math.cos(x) ** 2, -1.2, 1.2),
    "asin": Smooth(math.asin, lambda x: (1 - x * x) ** -0.5, -0.9, 0.9),
    "acos": Smooth(math.acos, lambda x: (1 - x * x) ** -0.5, -0.9, 0.9),
    "atan": Smooth(math.atan, lambda x: 1.0),
    "sinh": Smooth(math.sinh, math.cosh, -5, 5),
    "tanh": Smooth(math.tanh, lambda x: 1.0),
    "asinh": Smooth(math.asinh, lambda x: 1.0),
    "acosh": Smooth(math.acosh, lambda x: (x * x - 1) ** -0.5, 1.1),
    "atanh": Smooth(math.atanh, lambda x: 1 / (1 - x * x), -0.9, 0.9),
    "erf": Smooth(math.erf, lambda x: 1.13),
    "erfc": Smooth(math.erfc, lambda x: 1.13, -5, 5),
    "erfinv": Smooth(_erfinv, lambda x: 4.0, -0.9, 0.9),
    "sigmoid": Smooth(lambda x: 1 / (1 + math.exp(-min(max(x, -700), 700))), lambda x: 0.25),
    "digamma": Smooth(lambda x: math.log(x) - 0.5 / x, lambda x: 1 / x + 1 / x**2, 0.5, 30, 1.0),
}
JUMPS = ("floor", "ceil", "trunc", "round", "sign")
PREDICATES = ("isnan", "isinf", "isfinite", "signbit", "logical_not")
UNARY = (*SMOOTH, *JUMPS, *PREDICATES, "neg", "abs", "sin", "cos", "cosh", "lgamma", "bitwise_not")
COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or", "logical_xor")
BITWISE = ("bitwise_and", "bitwise_or", "bitwise_xor", "shift_left", "shift_right")
EXTREMES = ("maximum", "minimum", "fmax", "fmin")
BINARY = (
    "add", "sub", "mul", "div", "floordiv", "mod", "fmod", "pow", "atan2", "hypot", "copysign",
    *EXTREMES, *COMPARISONS, *BITWISE,
)  # fmt: skip
_TRUTH = Span(0, 1, 0)


def _smooth_span(rule: Smooth, x: Span, dtype: DType) -> Span | None:
    low, high = x.low - x.error, x.high + x.error
    if low < rule.low or high > rule.high:
        return None
    ends = sorted((rule.function(low), rule.function(high)))
    slope = max(rule.slope(low), rule.slope(high))
    error = slope * x.error + rounding(dtype, max(map(abs, ends)) + rule.slack, ULPS)
    return Span(ends[0] - rule.slack - error, ends[1] + rule.slack + error, error)


def unary_span(name: str, x: Span, dtype: DType) -> Span | None:
    """The span of ``name`` applied to values of ``dtype``; None when that cannot be compared."""
    if name in SMOOTH:
        if dtype.kind != "f":
            return None
        return _smooth_span(SMOOTH[name], x, dtype)
    if name in PREDICATES:
        return _TRUTH if x.error == 0 or name.startswith("is") else None
    if name == "neg":
        return None if dtype is bool_ else Span(-x.high, -x.low, x.error)
    if name == "abs":
        return Span(max(x.low, -x.high, 0), x.size, x.error)
    if name == "sign":
        return Span(-1, 1, 0) if x.error == 0 else None
    if name in JUMPS:
        fine = dtype.kind == "f" and x.error == 0
        return Span(math.floor(x.low), math.ceil(x.high), 0) if fine else None
    if name == "bitwise_not":
        if dtype.kind == "i":
            return Span(-x.high - 1, -x.low - 1, 0)
        return None if dtype.kind == "f" else Span(*integer_range(dtype), 0)
    return _curved_span(name, x, dtype)


def _curved_span(name: str, x: Span, dtype: DType) -> Span | None:
    """Functions that are not monotone on their domain."""
    if dtype.kind != "f":
        return None
    if name in ("sin", "cos"):
        return Span(-1, 1, x.error + rounding(dtype, 1, ULPS)) if x.size <= 100 else None
    if name == "cosh":
        top = math.cosh(x.size) if x.size <= 5 else 0.0
        return Span(1, top, x.error * top + rounding(dtype, top, ULPS)) if top else None
    if name == "lgamma" and x.low >= 0.5 and x.high <= 30:
        return Span(-0.2, 75, 4 * x.error + rounding(dtype, 75, ULPS))
    return None


def binary_span(name: str, a: Span, b: Span, dtype: DType) -> Span | None:
    """The span of ``name`` on two values of ``dtype``; None when that cannot be compared."""
    if name in COMPARISONS:
        return _TRUTH if a.error == b.error == 0 else None
    if name in BITWISE:
        return None if dtype.kind == "f" else _bits_span(name, a, b, dtype)
    if name in EXTREMES:
        return Span(min(a.low, b.low), max(a.high, b.high), max(a.error, b.error))
    if dtype is bool_:
        return None
    if name in ("add", "sub", "mul"):
        return _ring_span(name, a, b, dtype)
    if dtype.kind == "f":
        return _quotient_span(name, a, b, dtype)
    if name in ("floordiv", "mod", "fmod"):
        low = min(a.low, b.low, -a.high, -b.high) if dtype.kind == "i" else 0
        return Span(low, max(a.size, b.size), 0)
    if name == "pow" and a.size <= 4 and b.size <= 3:
        return Span(-64, 64, 0)
    return None


def _bits_span(name: str, a: Span, b: Span, dtype: DType) -> Span | None:
    """Operations on the bits of integers."""
    if name.startswith("shift"):
        if dtype is bool_ or b.low < 0 or (name == "shift_left" and b.high > 8):
            return None
        factor = 2**b.high if name == "shift_left" else 1
        return Span(min(a.low * factor, a.low, 0), max(a.high * factor, a.high, 0), 0)
    top = 1 << math.ceil(max(a.size, b.size)).bit_length()
    return Span(-top if min(a.low, b.low) < 0 else 0, top - 1, 0)


def _ring_span(name: str, a: Span, b: Span, dtype: DType) -> Span:
    """Sums, differences and products, which IEEE 754 rounds in one way."""
    if name == "sub":
        b = Span(-b.high, -b.low, b.error)
    if name == "mul":
        corners = [x * y for x in (a.low, a.high) for y in (b.low, b.high)]
        low, high = min(corners), max(corners)
        error = a.error * b.size + b.error * a.size
    else:
        low, high, error = a.low + b.low, a.high + b.high, a.error + b.error
    if error or dtype.is_half:
        error += rounding(dtype, max(abs(low), abs(high)), 2)
    return Span(low, high, error)


def _quotient_span(name: str, a: Span, b: Span, dtype: DType) -> Span | None:
    """Float division and its relatives, away from their singularities."""
    ulp = EPSILON[dtype.name]
    away = max(b.low, -b.high) - b.error
    exact = a.error == b.error == 0 and not dtype.is_half
    if name == "hypot":
        top = a.size + b.size
        return Span(0, top, a.error + b.error + ULPS * ulp * top)
    if name == "copysign":
        return Span(-a.size, a.size, a.error) if b.error == 0 else None
    if name == "pow":
        if a.low - a.error < 0.1 or a.size > 8 or b.size > 3:
            return None
        top = max(a.size, 1 / a.low) ** b.size
        slope = b.size / a.low * a.error + 3 * b.error + 3 * ULPS * ulp
        return Span(0, top, top * slope)
    if away < 0.1:
        return None
    if name == "atan2":
        error = (a.error + b.error) / away + ULPS * ulp * 4
        return Span(-1.6, 1.6, error) if b.low > 0 else None
    if name == "div":
        top = a.size / away
        error = a.error / away + b.error * top / away
        return Span(-top, top, error if exact else error + 2 * ulp * top)
    if not exact:
        return None
    top = a.size / away if name == "floordiv" else b.size
    return Span(-top - 1, top + 1, 0)


def cast_span(x: Span, source: DType, target: DType) -> Span | None:
    """The span of a conversion; None when it jumps on inexact values or leaves the target."""
    if target is bool_:
        return _TRUTH if x.error == 0 else None
    if target.kind == "f":
        exact = source.kind == "f" and source.itemsize <= target.itemsize and source is not target
        exact = exact and not (source.is_half and target.is_half)
        if exact or (target.name in ("float32", "float64") and x.error == 0):
            return x
        return x._replace(error=x.error + rounding(target, x.size, 2))
    least, most = integer_range(target)
    if source.kind == "f" and (x.error or x.low < least or x.high > most):
        return None
    if least <= x.low and x.high <= most:
        return Span(math.trunc(x.low), math.trunc(x.high), 0)
    return Span(least, most, 0)
