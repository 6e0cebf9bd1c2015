"""Scalar functions of two and three arguments, one entry each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from lazyt.ir.scalar import Call, Const, Expr, Number, ScalarFunction, call, const, register
from lazyt.ops import scalars_special as special

Derivative = Callable[[Call, int], Expr | None]


def _number(value: float, like: Expr) -> Expr:
    return const(value, like.dtype)


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
        flat = call("logical_and", call("eq", x, zero), call("ge", y, zero))
        return call("where", flat, zero, call("mul", c, call("log", x)))
    if isinstance(y, Const):
        if y.value == 0:
            return None
        if y.value == 1:
            return _number(1, c)
        if y.value == 2:
            return call("mul", y, x)
        return call("mul", y, call("pow", x, _number(y.value - 1, y)))
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


def _flat(c: Call, number: int) -> Expr | None:
    """The derivative of step functions: zero everywhere, as in PyTorch."""
    return None


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
_binary("add", np.add, _sum_slope, "+", unit=-0.0, group=True)
_binary("sub", np.subtract, _difference_slope, "-", "uif")
_binary("mul", np.multiply, _product_slope, "*", unit=1, group=True)
_binary("div", np.divide, _quotient_slope, "/", "f", cost=4)
_binary("floordiv", special.floordiv, _flat, kinds="uif", cost=10)
_binary("mod", special.mod, _mod_slope, kinds="uif", cost=10)
_binary("fmod", special.fmod, _fmod_slope, kinds="uif", cost=10)
_binary("pow", special.power, _power_slope, kinds="uif", cost=25)
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


def _test(name: str, evaluate: Any, symbol: str, commutative: bool, unit: Number | None) -> None:
    """A function of two arguments whose result is bool."""
    register(
        ScalarFunction(
            name,
            2,
            evaluate,
            None,
            result="bool",
            symbol=symbol,
            commutative=commutative,
            associative=name.startswith("logical"),
            unit=unit,
            reason=f"{name} gives truth values, which carry no gradient",
        )
    )


_test("eq", np.equal, "==", True, None)
_test("ne", np.not_equal, "!=", True, None)
_test("lt", np.less, "<", False, None)
_test("le", np.less_equal, "<=", False, None)
_test("gt", np.greater, ">", False, None)
_test("ge", np.greater_equal, ">=", False, None)
_test("logical_and", np.logical_and, "&", True, True)
_test("logical_or", np.logical_or, "|", True, False)
_test("logical_xor", np.logical_xor, "^", True, False)


def _choice_slope(c: Call, number: int) -> Expr | None:
    if number == 0:
        return None
    one, zero = _number(1, c), _number(0, c)
    chosen = c.args[0]
    return call("where", chosen, one, zero) if number == 1 else call("where", chosen, zero, one)


register(ScalarFunction("where", 3, np.where, _choice_slope, symbol="?:"))
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
