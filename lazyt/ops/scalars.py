"""Scalar functions of one argument: meaning, C spelling, derivative and traits, one entry each."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lazyt.ir.dtypes import (
    DType,
    bfloat16,
    bool_,
    decode_bfloat16,
    encode_bfloat16,
    float16,
    int32,
    uint64,
)
from lazyt.ir.scalar import Call, Const, Expr, Number, ScalarFunction, call, const, register
from lazyt.ops import special_scalars as special

_INTEGER_RESULT = "{} gives truth values or integers, which carry no gradient"


def _number(value: float, like: Expr) -> Expr:
    return const(value, like.dtype)


def _square(x: Expr) -> Expr:
    return call("mul", x, x)


def _one_minus(x: Expr) -> Expr:
    return call("sub", _number(1, x), x)


def _one_plus(x: Expr) -> Expr:
    return call("add", _number(1, x), x)


def _times(x: Expr, factor: float) -> Expr:
    return call("mul", x, _number(factor, x))


def _inverse(x: Expr) -> Expr:
    return call("reciprocal", x)


def _flat(c: Call, number: int) -> Expr | None:
    """The derivative of step functions: zero everywhere, as in PyTorch."""
    return None


def _gauss(x: Expr, factor: float) -> Expr:
    """``factor * exp(-x*x)``."""
    return _times(call("exp", call("neg", _square(x))), factor)


def trigamma(x: Expr) -> Expr:
    """The derivative of digamma as an expression: recurrence up to x + 10, then the asymptotic
    series (Abramowitz and Stegun 6.4.12); reflection (6.4.7) below one half."""
    below = call("lt", x, _number(0.5, x))
    y = call("where", below, _one_minus(x), x)
    total = _inverse(_square(y))
    for step in range(1, 10):
        term = _inverse(_square(call("add", y, _number(step, y))))
        total = call("add", total, term)
    u = _inverse(call("add", y, _number(10, y)))
    r = _square(u)
    tail = _number(5 / 66, x)
    for coefficient in (-1 / 30, 1 / 42, -1 / 30, 1 / 6):
        tail = call("add", _number(coefficient, x), call("mul", r, tail))
    series = call("add", _one_plus(_times(u, 0.5)), call("mul", r, tail))
    total = call("add", total, call("mul", u, series))
    # What is not chosen must not be infinite, or its own derivative is NaN.
    rest = call("where", below, call("sub", x, call("round", x)), _number(0.5, x))
    sine = call("sin", _times(rest, math.pi))
    mirror = call("sub", call("div", _number(math.pi**2, x), _square(sine)), total)
    return call("where", below, mirror, total)


#: Functions of floats that have values for complex numbers as well, and are analytic.
_ANALYTIC = frozenset({
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "reciprocal", "sin",
    "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh",
    "sigmoid",
})  # fmt: skip


def _acosh_slope(x: Expr) -> Expr:
    if x.dtype.kind == "c":  # on the side of the branch cut that the function is on
        return call(
            "mul", call("rsqrt", call("sub", x, _number(1, x))), call("rsqrt", _one_plus(x))
        )
    return call("rsqrt", call("sub", _square(x), _number(1, x)))


def _float(name: str, evaluate: Any, derivative: Any, cost: float) -> None:
    """A function of floats whose derivative is ``derivative(argument, result)``."""

    def rule(c: Call, number: int) -> Expr | None:
        return derivative(c.args[0], c)  # type: ignore[no-any-return]

    kinds = "fc" if name in _ANALYTIC else "f"
    register(ScalarFunction(name, 1, evaluate, rule, kinds=kinds, cost=cost))


def _in_float64(function: Any) -> Any:
    """A function of NumPy's that is computed in float64 and rounded once, as it misses the powers
    in float32: ``np.log10`` of 1e-3 is below -3 there."""

    def evaluate(x: Any) -> Any:
        wide = np.complex128 if x.dtype.kind == "c" else np.float64
        return function(x.astype(wide)).astype(x.dtype)

    return evaluate


def _exp2(x: Any) -> Any:
    return np.exp2(x) if x.dtype.kind == "f" else np.exp(x * math.log(2))


_float("exp", np.exp, lambda x, y: y, 10)
#: exp of what is known to be nonpositive (or NaN), such as the distance from a maximum.
_float("exp_nonpositive", np.exp, lambda x, y: y, 10)
_float("exp2", _in_float64(_exp2), lambda x, y: _times(y, math.log(2)), 10)
_float("expm1", np.expm1, lambda x, y: _one_plus(y), 12)
_float("log", np.log, lambda x, y: _inverse(x), 10)
_float("log2", np.log2, lambda x, y: _inverse(_times(x, math.log(2))), 10)
_float("log10", _in_float64(np.log10), lambda x, y: _inverse(_times(x, math.log(10))), 10)
_float("log1p", np.log1p, lambda x, y: _inverse(_one_plus(x)), 12)
_float("sqrt", np.sqrt, lambda x, y: _inverse(_times(y, 2)), 5)
_float(
    "rsqrt",
    lambda x: x.dtype.type(1) / np.sqrt(x),
    lambda x, y: _times(call("mul", y, _square(y)), -0.5),
    6,
)
_float("reciprocal", lambda x: x.dtype.type(1) / x, lambda x, y: call("neg", _square(y)), 4)
_float("sin", np.sin, lambda x, y: call("cos", x), 40)
_float("cos", np.cos, lambda x, y: call("neg", call("sin", x)), 40)
_float("tan", np.tan, lambda x, y: _one_plus(_square(y)), 45)
_float("asin", np.arcsin, lambda x, y: call("rsqrt", _one_minus(_square(x))), 15)
_float("acos", np.arccos, lambda x, y: call("neg", call("rsqrt", _one_minus(_square(x)))), 15)
_float("atan", np.arctan, lambda x, y: _inverse(_one_plus(_square(x))), 15)
_float("sinh", np.sinh, lambda x, y: call("cosh", x), 15)
_float("cosh", np.cosh, lambda x, y: call("sinh", x), 15)
_float("tanh", np.tanh, lambda x, y: _one_minus(_square(y)), 12)
_float("asinh", np.arcsinh, lambda x, y: call("rsqrt", _one_plus(_square(x))), 15)
_float("acosh", np.arccosh, lambda x, y: _acosh_slope(x), 15)
_float("atanh", np.arctanh, lambda x, y: _inverse(_one_minus(_square(x))), 15)
_float("erf", special.erf, lambda x, y: _gauss(x, 2 / math.sqrt(math.pi)), 15)
_float("erfc", special.erfc, lambda x, y: _gauss(x, -2 / math.sqrt(math.pi)), 20)
_float(
    "erfinv",
    special.erfinv,
    lambda x, y: _times(call("exp", _square(y)), math.sqrt(math.pi) / 2),
    25,
)
_float("lgamma", special.lgamma, lambda x, y: call("digamma", x), 40)
_float("digamma", special.digamma, lambda x, y: trigamma(x), 40)
_float("sigmoid", special.sigmoid, lambda x, y: call("mul", y, _one_minus(y)), 12)


def _minus_one(c: Call, number: int) -> Expr:
    return _number(-1, c)


def _sign_of_argument(c: Call, number: int) -> Expr:
    return call("sign", c.args[0])


register(ScalarFunction("neg", 1, np.negative, _minus_one, symbol="-", kinds="uifc"))
register(ScalarFunction("abs", 1, np.abs, _sign_of_argument, kinds="buif"))
register(ScalarFunction("sign", 1, special.sign, _flat, kinds="buif"))
for _name, _function in (
    ("floor", np.floor),
    ("ceil", np.ceil),
    ("trunc", np.trunc),
    ("round", np.rint),
):
    register(ScalarFunction(_name, 1, _function, _flat, kinds="f"))


def _test(name: str, evaluate: Any, symbol: str | None = None) -> None:
    """A function whose result is bool."""
    reason = _INTEGER_RESULT.format(name)
    register(ScalarFunction(name, 1, evaluate, None, result="bool", symbol=symbol, reason=reason))


_test("isnan", np.isnan)
_test("isinf", np.isinf)
_test("isfinite", np.isfinite)
_test("signbit", lambda x: np.signbit(x) if x.dtype.kind == "f" else x < 0)
_test("logical_not", np.logical_not, "!")
register(
    ScalarFunction(
        "bitwise_not",
        1,
        np.invert,
        None,
        symbol="~",
        kinds="bui",
        reason=_INTEGER_RESULT.format("bitwise_not"),
    )
)


def _truncate(x: Any, target: DType) -> Any:
    """Floats as integers: the low bits of the 32-bit conversion for small types and int32, of the
    64-bit one for others. Out of range and NaN give the smallest number of that width."""
    bits = 32 if target.itemsize < 4 or target is int32 else 64
    limit = x.dtype.type(2.0 ** (bits - 1))
    inside = (x >= -limit) & (x < limit)
    signed = np.dtype(f"i{bits // 8}")
    whole = np.where(inside, np.where(inside, x, 0).astype(signed), np.iinfo(signed).min)
    if target is not uint64:
        return whole.astype(target.numpy)
    high = (x >= limit) & (x < 2 * limit)
    upper = np.where(high, x - limit, 0).astype(np.uint64) + np.uint64(1 << 63)
    return np.where(high, upper, np.where(x >= limit, 0, whole).astype(np.uint64))


def convert(x: Any, source: DType, target: DType) -> Any:
    """The meaning of ``cast`` on arrays of the compute type; to 16 bits it rounds once, from
    float32, and gives float32 back."""
    x = np.asarray(x)
    if target is bool_:
        return x != 0
    if source.kind == "c" and target.kind != "c":
        return convert(x.real, source.part, target)
    if source.kind == "f" and target.kind in "ui":
        return _truncate(x, target)
    values = x.astype(target.compute.numpy)
    if target is float16:
        return values.astype(np.float16).astype(np.float32)
    if target is bfloat16:
        return decode_bfloat16(encode_bfloat16(values))
    return values


def _pull_cast(c: Call, number: int, adjoint: Expr) -> Expr:
    return call("cast", adjoint, dtype=c.args[0].dtype)


def _push_linear(c: Call, changes: Sequence[Expr | None]) -> Expr:
    """The function itself, of the tangents."""
    pairs = zip(c.args, changes)
    given = [const(0, item.dtype) if change is None else change for item, change in pairs]
    return call(c.fn, *given, dtype=c.dtype)


def _unit_slope(c: Call, number: int) -> Expr:
    # The transform of expressions converts adjoints itself, so this is in the argument's type.
    return _number(1, c.args[0])


register(
    ScalarFunction(
        "cast", 1, convert, _unit_slope, "free", kinds="buifc", pull=_pull_cast, push=_push_linear
    )
)


def reinterpret(x: Any, source: DType, target: DType) -> Any:
    """The meaning of ``bitcast`` on arrays of the compute type: the same bits as another dtype.

    Both dtypes have one size. 16-bit floats arrive, and leave, widened to float32, so that a NaN
    may lose the bits that say nothing; a truth value is any bits but zero.
    """
    x = np.asarray(x)
    if source is bfloat16:
        stored = encode_bfloat16(x)
    else:
        stored = x.astype(source.numpy)
    if target is bool_:
        return stored.view(np.uint8) != 0
    if target is bfloat16:
        return decode_bfloat16(stored.view(np.uint16))
    return stored.view(target.numpy).astype(target.compute.numpy)


register(
    ScalarFunction("bitcast", 1, reinterpret, None, result="free", reason="bits carry no gradient")
)


# Scalar functions of two and three arguments, one entry each.


Derivative = Callable[[Call, int], Expr | None]


def _sum_slope(c: Call, number: int) -> Expr:
    return _number(1, c)


def _difference_slope(c: Call, number: int) -> Expr:
    return _number(-1 if number else 1, c)


def _product_slope(c: Call, number: int) -> Expr:
    return c.args[1 - number]


def _quotient_slope(c: Call, number: int) -> Expr:
    y = c.args[1]
    return call("neg", call("div", c, y)) if number else call("reciprocal", y)


def _power_slope(c: Call, number: int) -> Expr | None:
    """0 where the exponent is 0, and for a base of 0 with exponent >= 0 (PyTorch)."""
    x, y = c.args
    zero = _number(0, c)
    if number == 1:
        exponent = y if y.dtype.kind == "f" else call("real", y)
        grows = call("ge", exponent, _number(0, exponent))
        flat = call("logical_and", call("eq", x, zero), grows)
        return call("where", flat, zero, call("mul", c, call("log", x)))
    if isinstance(y, Const):
        if y.value == 0:
            return None
        if y.value == 1:
            return _number(1, c)
        if y.value == 2:
            return call("mul", y, x)
        return call("mul", y, call("pow", x, const(y.value - 1, y.dtype)))
    slope = call("mul", y, call("pow", x, call("sub", y, _number(1, y))))
    return call("where", call("eq", y, zero), zero, slope)


def _mod_slope(c: Call, number: int) -> Expr:
    return call("neg", call("floordiv", *c.args)) if number else _number(1, c)


def _fmod_slope(c: Call, number: int) -> Expr:
    return call("neg", call("trunc", call("div", *c.args))) if number else _number(1, c)


def _atan2_slope(c: Call, number: int) -> Expr:
    """0 at the origin (PyTorch)."""
    y, x = c.args
    zero = _number(0, c)
    square = call("add", call("mul", y, y), call("mul", x, x))
    slope = call("div", call("neg", y) if number else x, square)
    return call("where", call("eq", square, zero), zero, slope)


def _hypot_slope(c: Call, number: int) -> Expr:
    return call("div", c.args[number], c)


def _log_product(logarithm: Any) -> Any:
    """``x * logarithm(y)``, 0 where x is 0 and y is no NaN."""

    def evaluate(x: Any, y: Any) -> Any:
        return np.where((x == 0) & ~np.isnan(y), np.zeros_like(x), x * logarithm(y))

    return evaluate


def _log_product_slope(logarithm: str, pole: float) -> Derivative:
    """By x it is 0 where x is 0 and y at the pole or below; by y NaN at (0, pole) (PyTorch)."""

    def rule(c: Call, number: int) -> Expr:
        x, y = c.args
        if number:
            return call("div", x, call("sub", y, _number(pole, y)) if pole else y)
        zero = _number(0, x)
        flat = call("logical_and", call("eq", x, zero), call("le", y, _number(pole, y)))
        return call("where", flat, zero, call(logarithm, y))

    return rule


def _copysign_slope(c: Call, number: int) -> Expr | None:
    if number:
        return None
    x, zero = c.args[0], _number(0, c)
    return call("where", call("eq", x, zero), zero, call("div", c, x))


def _extreme_slope(beats: str) -> Derivative:
    """Ties share the gradient evenly; where one argument is NaN both get all of it (PyTorch)."""

    def rule(c: Call, number: int) -> Expr:
        mine, other = c.args[number], c.args[1 - number]
        loses = call("where", call(beats, other, mine), _number(0, c), _number(1, c))
        return call("where", call("eq", mine, other), _number(0.5, c), loses)

    return rule


def _bound_slope(reached: str) -> Derivative:
    """The bound gets the gradient from where it is reached on; NaN is within (PyTorch)."""

    def rule(c: Call, number: int) -> Expr:
        one, zero = _number(1, c), _number(0, c)
        outside = call(reached, *c.args)
        return call("where", outside, one, zero) if number else call("where", outside, zero, one)

    return rule


def _fextreme_slope(keeps: str) -> Derivative:
    """The first argument gets ties; an argument that is NaN gets nothing if the other is not."""

    def rule(c: Call, number: int) -> Expr:
        first, second = c.args
        chosen = call("logical_or", call(keeps, first, second), call("isnan", second))
        one, zero = _number(1, c), _number(0, c)
        return call("where", chosen, zero, one) if number else call("where", chosen, one, zero)

    return rule


def _binary(
    name: str,
    evaluate: Any,
    derivative: Derivative | None,
    symbol: str | None = None,
    kinds: str = "buif",
    unit: Number | None = None,
    group: bool = False,
    cost: float = 1.0,
) -> None:
    """``group``: commutative and associative."""
    reason = "" if derivative else f"{name} gives integers, which carry no gradient"
    register(
        ScalarFunction(
            name,
            2,
            evaluate,
            derivative,
            symbol=symbol,
            kinds=kinds,
            commutative=group,
            associative=group,
            unit=unit,
            cost=cost,
            reason=reason,
        )
    )


# -0.0 is the unit of floating point addition: 0.0 + -0.0 and -0.0 + -0.0 keep their sign.
_binary("add", np.add, _sum_slope, "+", "buifc", unit=-0.0, group=True)
_binary("sub", np.subtract, _difference_slope, "-", "uifc")
_binary("mul", np.multiply, _product_slope, "*", "buifc", unit=1, group=True)
_binary("div", np.divide, _quotient_slope, "/", "fc", cost=4)
_binary("floordiv", special.floordiv, _flat, kinds="uif", cost=10)
_binary("mod", special.mod, _mod_slope, kinds="uif", cost=10)
_binary("fmod", special.fmod, _fmod_slope, kinds="uif", cost=10)
_binary("pow", special.power, _power_slope, kinds="uifc", cost=25)
_binary("atan2", np.arctan2, _atan2_slope, kinds="f", cost=20)
_binary("hypot", np.hypot, _hypot_slope, kinds="f", cost=8)
_binary("xlogy", _log_product(np.log), _log_product_slope("log", 0), kinds="f", cost=12)
_binary("xlog1py", _log_product(np.log1p), _log_product_slope("log1p", -1), kinds="f", cost=14)
_binary("copysign", np.copysign, _copysign_slope, kinds="f")
_binary("maximum", special.maximum, _extreme_slope("gt"), group=True, unit=None)
_binary("minimum", special.minimum, _extreme_slope("lt"), group=True, unit=None)
_binary("fmax", special.fmax, _fextreme_slope("ge"), group=True)
_binary("fmin", special.fmin, _fextreme_slope("le"), group=True)
# x, but not beyond a bound; NaN stays, and so does a zero of either sign beside one.
_binary("bound_below", lambda x, low: np.where(x < low, low, x), _bound_slope("le"))
_binary("bound_above", lambda x, high: np.where(x > high, high, x), _bound_slope("ge"))
_binary("bitwise_and", np.bitwise_and, None, "&", "bui", group=True)
_binary("bitwise_or", np.bitwise_or, None, "|", "bui", unit=0, group=True)
_binary("bitwise_xor", np.bitwise_xor, None, "^", "bui", unit=0, group=True)
_binary("shift_left", special.shift_left, None, kinds="ui")
_binary("shift_right", special.shift_right, None, kinds="ui")


def _comparison(
    name: str, evaluate: Any, symbol: str, commutative: bool, unit: Number | None,
    kinds: str = "buif",
) -> None:  # fmt: skip
    """A function of two arguments whose result is bool."""
    register(
        ScalarFunction(
            name,
            2,
            evaluate,
            None,
            result="bool",
            symbol=symbol,
            kinds=kinds,
            commutative=commutative,
            associative=name.startswith("logical"),
            unit=unit,
            reason=f"{name} gives truth values, which carry no gradient",
        )
    )


_comparison("eq", np.equal, "==", True, None, "buifc")
_comparison("ne", np.not_equal, "!=", True, None, "buifc")
_comparison("lt", np.less, "<", False, None)
_comparison("le", np.less_equal, "<=", False, None)
_comparison("gt", np.greater, ">", False, None)
_comparison("ge", np.greater_equal, ">=", False, None)
_comparison("logical_and", np.logical_and, "&", True, True)
_comparison("logical_or", np.logical_or, "|", True, False)
_comparison("logical_xor", np.logical_xor, "^", True, False)


def _fma_slope(c: Call, number: int) -> Expr:
    return _number(1, c) if number == 2 else c.args[1 - number]


register(ScalarFunction("fma", 3, special.fma, _fma_slope, kinds="f"))


def _choice_slope(c: Call, number: int) -> Expr | None:
    if number == 0:
        return None
    one, zero = _number(1, c), _number(0, c)
    chosen = c.args[0]
    return call("where", chosen, one, zero) if number == 1 else call("where", chosen, zero, one)


register(ScalarFunction("where", 3, np.where, _choice_slope, symbol="?:", kinds="buifc"))
register(
    ScalarFunction(
        "threefry",
        3,
        special.threefry,
        None,
        result="free",
        kinds="ui",
        cost=70,
        reason="random bits carry no gradient",
    )
)


# Complex numbers and their parts. These functions are linear over the real numbers but not over the
# complex ones, so that they say themselves what an adjoint is: that of ``x + iy`` is what it is by
# ``x``, plus ``i`` times what it is by ``y``, as in PyTorch.


def _zero_part(like: Expr) -> Expr:
    return const(0, like.dtype)


def _pull_real(c: Call, number: int, adjoint: Expr) -> Expr:
    return call("complex", adjoint, _zero_part(adjoint))


def _pull_imaginary(c: Call, number: int, adjoint: Expr) -> Expr:
    return call("complex", _zero_part(adjoint), adjoint)


def _pull_pair(c: Call, number: int, adjoint: Expr) -> Expr:
    return call("imag" if number else "real", adjoint)


def _pull_conjugate(c: Call, number: int, adjoint: Expr) -> Expr:
    return call("conj", adjoint)


def direction(c: Call) -> Expr:
    """``z / |z|`` for a magnitude ``|z|``; 0 at the origin (PyTorch)."""
    (z,) = c.args
    divided = call("div", z, call("complex", c, _zero_part(c)))
    return call("where", call("eq", c, _zero_part(c)), const(0, z.dtype), divided)


def _pull_magnitude(c: Call, number: int, adjoint: Expr) -> Expr:
    return call("mul", call("complex", adjoint, _zero_part(adjoint)), direction(c))


def _push_magnitude(c: Call, changes: Sequence[Expr | None]) -> Expr | None:
    (change,) = changes
    if change is None:
        return None
    return call("real", call("mul", call("conj", direction(c)), change))


def _magnitude(z: Any) -> Any:
    return np.hypot(z.real, z.imag)


def _pair(x: Any, y: Any) -> Any:
    shape = np.broadcast_shapes(x.shape, y.shape)
    made = np.empty(shape, np.result_type(x.dtype, np.complex64))
    made.real, made.imag = x, y
    return made


_LINEAR = "it is linear over the real numbers alone"


def _of_parts(
    name: str, arity: int, evaluate: Any, result: str, kinds: str, pull: Any, push: Any
) -> None:
    register(
        ScalarFunction(
            name, arity, evaluate, None, result, kinds=kinds, reason=_LINEAR, pull=pull, push=push
        )
    )


_of_parts("real", 1, np.real, "part", "c", _pull_real, _push_linear)
_of_parts("imag", 1, np.imag, "part", "c", _pull_imaginary, _push_linear)
_of_parts("complex", 2, _pair, "pair", "f", _pull_pair, _push_linear)
_of_parts("conj", 1, np.conj, "same", "c", _pull_conjugate, _push_linear)
_of_parts("magnitude", 1, _magnitude, "part", "c", _pull_magnitude, _push_magnitude)
