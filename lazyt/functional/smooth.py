"""Smooth activation functions as scalar expressions, with all derivatives."""

from __future__ import annotations

import math

from lazyt.ir.scalar import Expr, call, const


def _of(value: float, like: Expr) -> Expr:
    return const(value, like.dtype)


def gelu(x: Expr) -> Expr:
    """x times the normal distribution function."""
    scaled = call("erf", call("mul", x, _of(math.sqrt(0.5), x)))
    return call("mul", call("mul", x, _of(0.5, x)), call("add", _of(1, x), scaled))


def gelu_tanh(x: Expr) -> Expr:
    """As ``gelu``, nearly."""
    cube = call("mul", call("mul", x, x), x)
    inside = call("add", x, call("mul", _of(0.044715, x), cube))
    wave = call("tanh", call("mul", _of(math.sqrt(2 / math.pi), x), inside))
    return call("mul", call("mul", _of(0.5, x), x), call("add", _of(1, x), wave))


def softplus_of(x: Expr) -> Expr:
    """log(1 + exp(x)) without overflow."""
    above = call("gt", x, _of(0, x))  # without kinks, so that it has all derivatives
    gap = call("log1p", call("exp_nonpositive", call("where", above, call("neg", x), x)))
    return call("add", call("where", above, x, _of(0, x)), gap)


def mish(x: Expr) -> Expr:
    """x tanh(softplus(x)): the tangent is a quotient of powers of exp(x), or of exp(-x) where that
    does not overflow."""
    above = call("gt", x, _of(0, x))
    e = call("exp_nonpositive", call("where", above, call("neg", x), x))
    right = call("add", call("add", e, e), _of(1, x))
    part = call("where", above, right, call("mul", e, call("add", e, _of(2, x))))
    rest = call("where", above, call("mul", e, e), _of(1, x))
    return call("mul", x, call("div", part, call("add", part, call("add", rest, rest))))
