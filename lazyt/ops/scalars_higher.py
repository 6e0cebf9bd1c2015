"""Higher transcendental functions, whole-number functions and discrete laws, one entry each."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from lazyt.ir.scalar import Call, Expr, ScalarFunction, call, const, register
from lazyt.ops import scalars_bessel as bessel
from lazyt.ops import scalars_incomplete as incomplete

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
    ("i0", bessel.i0, lambda x, y: call("i1", x)),
    ("i0e", bessel.i0e, _i0e_slope),
    ("i1", bessel.i1, _by_argument("i0")),
    ("i1e", bessel.i1e, _i1e_slope),
    ("bessel_j0", bessel.j0, _neg("bessel_j1")),
    ("bessel_j1", bessel.j1, _by_argument("bessel_j0")),
    ("bessel_y0", bessel.y0, _neg("bessel_y1")),
    ("bessel_y1", bessel.y1, _y1_slope),
    ("modified_bessel_k0", bessel.k0, _neg("modified_bessel_k1")),
    ("modified_bessel_k1", bessel.k1, _k1_slope),
    ("scaled_modified_bessel_k0", bessel.k0e, _scaled_k0_slope),
    ("scaled_modified_bessel_k1", bessel.k1e, _scaled_k1_slope),
    ("airy_ai", bessel.airy_ai, None),
    ("erfcx", incomplete.erfcx, _erfcx_slope),
    ("ndtri", incomplete.ndtri, _ndtri_slope),
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


_several("igamma", 2, incomplete.igamma, _igamma_slope, "f", 300, "")
_several("igammac", 2, incomplete.igammac, _igammac_slope, "f", 300, "")
_several("zeta", 2, incomplete.zeta, _zeta_slope, "f", 300, "")
_several("gcd", 2, np.gcd, None, "ui", 60, "gives integers, which carry no gradient")
_several("nextafter", 2, np.nextafter, _step_slope, "f", 3, "")
_several("poisson", 2, incomplete.poisson, _flat, "f", 300, "")
_several("binomial", 3, incomplete.binomial, _flat, "f", 300, "")
# Their costs keep a draw and its gradient within what one kernel may hold.
_several("gamma_quantile", 2, incomplete.gamma_quantile, _gamma_quantile_slope, "f", 150, "")
_several(
    "gamma_quantile_slope", 2, incomplete.gamma_quantile_slope, None, "f", 150,
    "is a gradient without one of its own: draws are differentiated once",
)  # fmt: skip
_several("exponent", 1, lambda x: np.frexp(x)[1].astype(x.dtype), _flat, "f", 3, "")
for _name in (
    "chebyshev_t", "chebyshev_u", "chebyshev_v", "chebyshev_w",
    "hermite_h", "hermite_he", "laguerre_l", "legendre_p",
):  # fmt: skip
    _several(_name, 2, getattr(incomplete, _name), None, "f", 30, "has no gradient in PyTorch")
