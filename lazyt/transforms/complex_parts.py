"""Scalar expressions of complex numbers as expressions of their real and imaginary parts.

Graphs have complex numbers, kernels have none: before a graph is compiled, each of its expressions
becomes two real ones by the rules below, one for each function that takes or gives complex numbers.
Multiplication and division are PyTorch's, without C99's recovery of infinities. The elementary
functions have C99's special values (annex G); their formulas keep relative accuracy in both parts
near branch points and where a part under- or overflows in between (Kahan, "Branch cuts for complex
elementary functions, or much ado about nothing's sign bit", 1987).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import NamedTuple

from lazyt.errors import DTypeError
from lazyt.ir.dtypes import DType, bool_
from lazyt.ir.scalar import Arg, Call, Const, Expr, arg, call, const, post_order


class Pair(NamedTuple):
    """The parts of a complex value."""

    re: Expr
    im: Expr


#: A value, or the parts of a complex one.
Value = Expr | Pair


def _number(value: float, like: Expr) -> Expr:
    return const(value, like.dtype)


def _scaled(x: Expr, factor: float) -> Expr:
    return call("mul", x, _number(factor, x))


def _square(x: Expr) -> Expr:
    return call("mul", x, x)


def _add(x: Expr, y: Expr) -> Expr:
    return call("add", x, y)


def _sub(x: Expr, y: Expr) -> Expr:
    return call("sub", x, y)


def _mul(x: Expr, y: Expr) -> Expr:
    return call("mul", x, y)


def _div(x: Expr, y: Expr) -> Expr:
    return call("div", x, y)


def _neg(x: Expr) -> Expr:
    return call("neg", x)


def _where(test: Expr, yes: Expr, no: Expr) -> Expr:
    return call("where", test, yes, no)


def _both(a: Expr, b: Expr) -> Expr:
    return call("logical_and", a, b)


def _sign(x: Expr) -> Expr:
    return call("copysign", _number(1, x), x)


def _is_zero(x: Expr) -> Expr:
    return call("eq", x, _number(0, x))


# ------------------------------------------------------------------------- arithmetic


def add(a: Pair, b: Pair) -> Pair:
    """The sum."""
    return Pair(_add(a.re, b.re), _add(a.im, b.im))


def sub(a: Pair, b: Pair) -> Pair:
    """The difference."""
    return Pair(_sub(a.re, b.re), _sub(a.im, b.im))


def mul(a: Pair, b: Pair) -> Pair:
    """The product."""
    re = _sub(_mul(a.re, b.re), _mul(a.im, b.im))
    return Pair(re, _add(_mul(a.re, b.im), _mul(a.im, b.re)))


def div(a: Pair, b: Pair) -> Pair:
    """The quotient; both are divided by the divisor's larger part first, against overflow. By an
    infinite part alone a finite value becomes zero."""
    sizes = call("abs", b.re), call("abs", b.im)
    largest = call("maximum", *sizes)
    lost = _both(call("isinf", largest), call("isfinite", call("minimum", *sizes)))
    x, y = (_div(part, largest) for part in a)
    # Only the direction of an infinite divisor is left, along one axis.
    ways = (_where(call("isinf", part), _sign(part), _scaled(part, 0)) for part in b)
    c, d = (_where(lost, way, _div(part, largest)) for way, part in zip(ways, b))
    size = _add(_square(c), _square(d))
    re, im = _add(_mul(x, c), _mul(y, d)), _sub(_mul(y, c), _mul(x, d))
    return Pair(_div(re, size), _div(im, size))


def neg(a: Pair) -> Pair:
    """The value with the other sign."""
    return Pair(_neg(a.re), _neg(a.im))


def conj(a: Pair) -> Pair:
    """The conjugate."""
    return Pair(a.re, _neg(a.im))


def _times_i(a: Pair) -> Pair:
    return Pair(_neg(a.im), a.re)


def _over_i(a: Pair) -> Pair:
    return Pair(a.im, _neg(a.re))


def reciprocal(a: Pair) -> Pair:
    """``1 / a``."""
    return div(Pair(_number(1, a.re), _number(0, a.re)), a)


def magnitude(a: Pair) -> Expr:
    """The distance from the origin."""
    return call("hypot", a.re, a.im)


# ------------------------------------------------------------ exponentials and powers


def _no_angle(x: Expr, angle: Expr) -> Expr:
    """Whether ``x`` is infinite and ``angle`` not finite: only a size is left of such a value."""
    return _both(call("isinf", x), call("logical_not", call("isfinite", angle)))


def _in_direction(size: Expr, angle: Expr, exponent: Expr) -> Pair:
    """``size``, a power to ``exponent``, in the direction of ``angle``; along the real axis the
    other part stays zero, however large the size."""
    im = _where(_is_zero(angle), angle, _mul(size, call("sin", angle)))
    # Of an infinite exponent, and no angle: zeros, or an infinite real part (C99).
    lost = _no_angle(exponent, angle)
    re = _where(lost, size, _mul(size, call("cos", angle)))
    return Pair(re, _where(_both(lost, _is_zero(size)), size, im))


def exp(a: Pair) -> Pair:
    """The exponential function; what overflows in between is halved and doubled."""
    largest = math.log(_largest(a.re.dtype))
    beyond = call("gt", a.re, _number(largest, a.re))
    finite = _both(beyond, call("lt", a.re, _number(math.inf, a.re)))
    # exp(x) = exp(x - k) * exp(k), and the direction comes in between
    step = math.floor(largest / 2)
    x = _where(finite, _sub(a.re, _number(2.0 * step, a.re)), a.re)
    pair = _in_direction(call("exp", x), a.im, x)
    factor = _where(finite, _number(math.exp(step), a.re), _number(1, a.re))
    return Pair(*(_mul(_mul(part, factor), factor) for part in pair))


def _largest(dtype: DType) -> float:
    return (2 - 2.0**-52) * 2.0**1023 if dtype.itemsize == 8 else (2 - 2.0**-23) * 2.0**127


def _smallest(dtype: DType) -> float:
    return 2.0**-1022 if dtype.itemsize == 8 else 2.0**-126


def exp2(a: Pair) -> Pair:
    """Two to the power of ``a``."""
    return _in_direction(call("exp2", a.re), _scaled(a.im, math.log(2)), a.re)


def expm1(a: Pair) -> Pair:
    """``exp(a) - 1``."""
    half = call("sin", _scaled(a.im, 0.5))
    grown = call("expm1", a.re)
    re = _sub(_mul(grown, call("cos", a.im)), _scaled(_square(half), 2))
    real_only = _is_zero(a.im)
    return Pair(_where(real_only, grown, re), exp(a).im)


def log(a: Pair) -> Pair:
    """The principal logarithm."""
    x, y = call("abs", a.re), call("abs", a.im)
    large, small = call("fmax", x, y), call("fmin", x, y)
    one = _number(1, x)
    # Near the circle of radius one: log(r) = log1p((r - 1) * (r + 1)) / 2.
    excess = _add(_mul(_sub(large, one), _add(large, one)), _square(small))
    near = _both(
        call("gt", large, _number(0.5, x)),
        call("lt", call("abs", excess), _number(0.7, x)),
    )
    close = _scaled(call("log1p", excess), 0.5)
    # The distance may overflow, or be subnormal: a power of two goes out.
    big = call("gt", large, _number(_largest(x.dtype) / 4, x))
    tiny = call("lt", large, _number(_smallest(x.dtype) * 2.0**30, x))
    bits = 64.0
    factor = _where(big, _number(2.0**-bits, x), _where(tiny, _number(2.0**bits, x), one))
    shift = bits * math.log(2)
    added = _where(big, _number(shift, x), _where(tiny, _number(-shift, x), _number(0, x)))
    far = _add(call("log", call("hypot", _mul(x, factor), _mul(y, factor))), added)
    return Pair(_where(near, close, far), call("atan2", a.im, a.re))


def log2(a: Pair) -> Pair:
    """The logarithm to base 2."""
    return Pair(*(_scaled(part, 1 / math.log(2)) for part in log(a)))


def log10(a: Pair) -> Pair:
    """The logarithm to base 10."""
    return Pair(*(_scaled(part, 1 / math.log(10)) for part in log(a)))


def log1p(a: Pair) -> Pair:
    """``log(1 + a)``, accurate near zero."""
    one = _number(1, a.re)
    whole = Pair(_add(one, a.re), a.im)
    excess = _add(_mul(a.re, _add(_number(2, a.re), a.re)), _square(a.im))
    near = call("lt", call("abs", excess), _number(0.7, a.re))
    close = _scaled(call("log1p", excess), 0.5)
    far = log(whole)
    return Pair(_where(near, close, far.re), far.im)


def sqrt(a: Pair) -> Pair:
    """The square root whose real part is not negative."""
    x, y = call("abs", a.re), call("abs", a.im)
    large = call("fmax", x, y)
    one = _number(1, x)
    big = call("gt", large, _number(_largest(x.dtype) / 8, x))
    tiny = call("lt", large, _number(_smallest(x.dtype) * 2.0**30, x))
    # By powers of four, whose roots are exact.
    factor = _where(big, _number(2.0**-8, x), _where(tiny, _number(2.0**60, x), one))
    back = _where(big, _number(2.0**4, x), _where(tiny, _number(2.0**-30, x), one))
    u, v = _mul(x, factor), _mul(y, factor)
    root = call("sqrt", _scaled(_add(u, call("hypot", u, v)), 0.5))
    other = _div(v, _scaled(root, 2))
    right = call("ge", a.re, _number(0, x))
    re = _mul(_where(right, root, other), back)
    im = _mul(_where(right, other, root), back)
    origin = _both(_is_zero(x), _is_zero(y))
    re = _where(origin, _number(0, x), re)
    im = _where(origin, y, im)
    # An infinite imaginary part wins; an infinite real one leaves the other finite (C99).
    infinite = _number(math.inf, x)
    tall, wide = call("eq", y, infinite), call("eq", x, infinite)
    known = call("logical_not", call("isnan", a.im))
    re = _where(wide, _where(right, infinite, _where(known, _number(0, x), a.im)), re)
    im = _where(wide, _where(right, _where(known, _number(0, x), a.im), infinite), im)
    re, im = _where(tall, infinite, re), _where(tall, infinite, im)
    return Pair(re, call("copysign", im, a.im))


def rsqrt(a: Pair) -> Pair:
    """``1 / sqrt(a)``."""
    return reciprocal(sqrt(a))


def power(a: Pair, b: Pair) -> Pair:
    """``exp(b * log(a))``; small whole exponents by multiplication, as PyTorch's."""
    if isinstance(b.im, Const) and isinstance(b.re, Const) and b.im.value == 0:
        exponent = b.re.value
        one = Pair(_number(1, a.re), _number(0, a.re))
        known: dict[float, Callable[[], Pair]] = {
            0.0: lambda: one, 1.0: lambda: a, 2.0: lambda: mul(a, a),
            3.0: lambda: mul(mul(a, a), a), 0.5: lambda: sqrt(a), -0.5: lambda: rsqrt(a),
            -1.0: lambda: reciprocal(a), -2.0: lambda: reciprocal(mul(a, a)),
        }  # fmt: skip
        assert not isinstance(exponent, complex)
        if exponent in known:
            return known[exponent]()
    usual = exp(mul(b, log(a)))
    base, flat = _both(_is_zero(a.re), _is_zero(a.im)), _both(_is_zero(b.re), _is_zero(b.im))
    zero, one_ = _number(0, a.re), _number(1, a.re)
    grows = call("gt", b.re, zero)
    of_zero = _where(grows, zero, _number(math.nan, a.re))
    re = _where(flat, one_, _where(base, of_zero, usual.re))
    return Pair(re, _where(flat, zero, _where(base, of_zero, usual.im)))


def sigmoid(a: Pair) -> Pair:
    """``1 / (1 + exp(-a))``."""
    grown = exp(neg(a))
    return reciprocal(Pair(_add(_number(1, a.re), grown.re), grown.im))


# ------------------------------------------------------------- circles and hyperbolas


def sinh(a: Pair) -> Pair:
    """The hyperbolic sine."""
    return _hyperbolic(a, "sinh", "cosh")


def cosh(a: Pair) -> Pair:
    """The hyperbolic cosine."""
    return _hyperbolic(a, "cosh", "sinh")


def _hyperbolic(a: Pair, first: str, second: str) -> Pair:
    """``first(x) * cos(y) + i * second(x) * sin(y)``; beyond the range of the functions half of the
    exponential, which is the same there."""
    dtype = a.re.dtype
    limit = math.log(_largest(dtype))
    size = call("abs", a.re)
    beyond = _both(
        call("gt", size, _number(limit, a.re)), call("lt", size, _number(math.inf, a.re))
    )
    grown = exp(Pair(_sub(size, _number(math.log(2), a.re)), a.im))
    one = _number(1, a.re)
    sign = _where(call("isnan", a.re), one, call("copysign", one, a.re))
    large_re = _mul(grown.re, sign) if first == "sinh" else grown.re
    large_im = _mul(grown.im, sign) if second == "sinh" else grown.im
    cosine, sine = call("cos", a.im), call("sin", a.im)
    re, im = _mul(call(first, a.re), cosine), _mul(call(second, a.re), sine)
    # Zeros stay zeros beside what is infinite (C99).
    if second == "sinh":
        im = _where(_is_zero(a.re), _mul(a.re, _where(call("isfinite", a.im), sine, a.re)), im)
        im = _where(_is_zero(a.im), _mul(sign, a.im), im)
    else:
        re = _where(_is_zero(a.re), _mul(a.re, _where(call("isfinite", a.im), cosine, one)), re)
        im = _where(_is_zero(a.im), a.im, im)
    re = _where(_no_angle(a.re, a.im), size, re)
    return Pair(_where(beyond, large_re, re), _where(beyond, large_im, im))


def tanh(a: Pair) -> Pair:
    """The hyperbolic tangent (Kahan)."""
    x, y = a
    one = _number(1, x)
    sine, cosine = call("sin", y), call("cos", y)
    far = call("gt", call("abs", x), _number(22.0 if x.dtype.itemsize == 8 else 11.0, x))
    fading = call("exp", _scaled(call("abs", x), -2))
    slope = _scaled(_mul(_mul(sine, cosine), fading), 4)
    grown = call("sinh", _where(far, one, x))
    tangent = call("tan", y)
    beta = _add(one, _square(tangent))
    rho = call("sqrt", _add(one, _square(grown)))
    size = _add(one, _mul(beta, _square(grown)))
    re = _div(_mul(_mul(beta, rho), grown), size)
    im = _div(tangent, size)
    infinite = call("isinf", tangent)
    re = _where(infinite, _div(rho, grown), re)
    im = _where(infinite, _div(one, tangent), im)
    # At infinity the direction does not matter (C99).
    lost = _both(call("isinf", x), call("logical_not", call("isfinite", y)))
    slope = _where(lost, call("copysign", _number(0, x), y), slope)
    # Beside an angle that is not finite only zeros and infinities have a tangent.
    known = call("logical_or", call("isfinite", y), call("isinf", x))
    re = _where(far, _where(known, call("copysign", one, x), _sub(y, y)), re)
    re = _where(_is_zero(x), x, re)
    return Pair(re, _where(_is_zero(y), y, _where(far, slope, im)))


def sin(a: Pair) -> Pair:
    """The sine."""
    return _over_i(sinh(_times_i(a)))


def cos(a: Pair) -> Pair:
    """The cosine."""
    return cosh(_times_i(a))


def tan(a: Pair) -> Pair:
    """The tangent."""
    return _over_i(tanh(_times_i(a)))


# -------------------------------------------------------------------- their inverses


def _roots(a: Pair) -> tuple[Pair, Pair]:
    """The square roots of ``1 - a`` and ``1 + a``."""
    one = _number(1, a.re)
    return sqrt(Pair(_sub(one, a.re), _neg(a.im))), sqrt(Pair(_add(one, a.re), a.im))


def asin(a: Pair) -> Pair:
    """The principal arc sine (Kahan)."""
    below, above = _roots(a)
    re = call("atan2", a.re, _sub(_mul(below.re, above.re), _mul(below.im, above.im)))
    im = call("asinh", _sub(_mul(below.re, above.im), _mul(below.im, above.re)))
    found = _beyond(a, Pair(re, im), lambda x, size: _asin_far(a, x, size))
    # Of parts that are no numbers: a real zero stays, a finite imaginary part does not (C99).
    lost = _both(call("isnan", a.re), call("isfinite", a.im))
    stays = _both(_is_zero(a.re), call("isnan", a.im))
    return Pair(_where(stays, a.re, found.re), _where(lost, a.re, found.im))


def _asin_far(a: Pair, angle: Expr, size: Expr) -> Pair:
    # Far away asin(z) is i * log(-2iz) or so: the angle from the imaginary axis, and the logarithm.
    right = call("atan2", a.re, call("abs", a.im))
    return Pair(right, call("copysign", size, a.im))


def _beyond(a: Pair, usual: Pair, far: Callable[[Expr, Expr], Pair]) -> Pair:
    """``usual``, or where squares would overflow what the function is nearly equal to, given the
    angle of ``a`` and the logarithm of twice its magnitude."""
    large = call("fmax", call("abs", a.re), call("abs", a.im))
    limit = 2.0**40 if a.re.dtype.itemsize == 8 else 2.0**20
    is_far = call("gt", large, _number(limit, large))
    polar = log(a)
    found = far(polar.im, _add(polar.re, _number(math.log(2), polar.re)))
    return Pair(_where(is_far, found.re, usual.re), _where(is_far, found.im, usual.im))


def acos(a: Pair) -> Pair:
    """The principal arc cosine (Kahan)."""
    below, above = _roots(a)
    re = _scaled(call("atan2", below.re, above.re), 2)
    im = call("asinh", _sub(_mul(above.re, below.im), _mul(above.im, below.re)))
    found = _beyond(
        a,
        Pair(re, im),
        lambda angle, size: Pair(call("abs", angle), _neg(call("copysign", size, a.im))),
    )
    quarter = _both(_is_zero(a.re), call("isnan", a.im))
    return Pair(_where(quarter, _number(math.pi / 2, a.re), found.re), found.im)


def acosh(a: Pair) -> Pair:
    """The principal arc hyperbolic cosine: ``acos`` turned so that its real part is positive."""
    found = acos(a)
    negative = call("logical_or", call("signbit", found.im), call("isnan", found.im))
    return Pair(call("abs", found.im), _where(negative, found.re, _neg(found.re)))


def asinh(a: Pair) -> Pair:
    """The principal arc hyperbolic sine."""
    return _over_i(asin(_times_i(a)))


def atanh(a: Pair) -> Pair:
    """The principal arc hyperbolic tangent (Kahan)."""
    x, y = a
    one = _number(1, x)
    rest = _sub(one, call("abs", x))
    # 4x / ((1 - x)^2 + y^2), for |x|
    ahead = _add(_square(rest), _square(y))
    ratio = _div(_scaled(call("abs", x), 4), ahead)
    re = _scaled(call("log1p", ratio), 0.25)
    # Beside 1 the squares underflow: there it is log(2 / |1 - z|) / 2.
    near = call("lt", ahead, _number(_smallest(x.dtype) * 2.0**60, x))
    gap = call("log", call("hypot", rest, y))
    re = _where(near, _scaled(_sub(_number(math.log(2), x), gap), 0.5), re)
    im = _scaled(
        call("atan2", _scaled(y, 2), _sub(_mul(rest, _add(one, call("abs", x))), _square(y))), 0.5
    )
    # Far away it is 1/z, and a quarter turn.
    large = call("fmax", call("abs", x), call("abs", y))
    far = call("gt", large, _number(2.0**60 if x.dtype.itemsize == 8 else 2.0**30, x))
    u, v = _div(call("abs", x), large), _div(y, large)
    faded = _div(_div(u, _add(_square(u), _square(v))), large)
    faded = _where(call("isinf", large), _number(0, x), faded)
    re = _where(far, faded, re)
    im = _where(far, call("copysign", _number(math.pi / 2, x), y), im)
    # Of a part that is no number, a real zero or infinity has a real part (C99).
    unknown = call("isnan", y)
    re, im = _where(_both(_is_zero(x), unknown), x, re), _where(unknown, y, im)
    return Pair(call("copysign", re, x), call("copysign", im, y))


def atan(a: Pair) -> Pair:
    """The principal arc tangent."""
    return _over_i(atanh(_times_i(a)))


# ---------------------------------------------------------------------------- the rules


def _eq(a: Pair, b: Pair) -> Expr:
    return _both(call("eq", a.re, b.re), call("eq", a.im, b.im))


def _ne(a: Pair, b: Pair) -> Expr:
    return call("logical_or", call("ne", a.re, b.re), call("ne", a.im, b.im))


#: Functions of complex numbers by name.
RULES: Mapping[str, Callable[..., Value]] = {
    "add": add, "sub": sub, "mul": mul, "div": div, "neg": neg, "conj": conj,
    "reciprocal": reciprocal, "magnitude": magnitude, "exp": exp, "exp2": exp2, "expm1": expm1,
    "log": log, "log2": log2, "log10": log10, "log1p": log1p, "sqrt": sqrt, "rsqrt": rsqrt,
    "pow": power, "sigmoid": sigmoid, "sinh": sinh, "cosh": cosh, "tanh": tanh, "sin": sin,
    "cos": cos, "tan": tan, "asin": asin, "acos": acos, "atan": atan, "asinh": asinh,
    "acosh": acosh, "atanh": atanh, "eq": _eq, "ne": _ne,
    "real": lambda a: a.re, "imag": lambda a: a.im, "complex": Pair,
    "where": lambda test, a, b: Pair(_where(test, a.re, b.re), _where(test, a.im, b.im)),
}  # fmt: skip


def _converted(value: Value, dtype: DType) -> Value:
    if not isinstance(value, Pair):
        return Pair(call("cast", value, dtype=dtype.part), const(0, dtype.part))
    if dtype.kind == "c":
        return Pair(*(call("cast", part, dtype=dtype.part) for part in value))
    if dtype is bool_:
        return call("logical_or", *(call("cast", part, dtype=bool_) for part in value))
    return call("cast", value.re, dtype=dtype)


@lru_cache(maxsize=8192)
def parts_of(root: Expr, pairs: tuple[bool, ...]) -> Value:
    """An expression over real arguments.

    Args:
        root: the expression.
        pairs: for each argument whether it is complex. Its parts are two arguments in its place.

    Raises DTypeError, naming it, for a function without a rule for complex numbers.
    """
    places: list[int] = []
    count = 0
    for is_pair in pairs:
        places.append(count)
        count += 2 if is_pair else 1
    done: dict[Expr, Value] = {}
    for expr in post_order(root):
        done[expr] = _split(expr, done, places)
    return done[root]


def _split(expr: Expr, done: Mapping[Expr, Value], places: list[int]) -> Value:
    dtype = expr.dtype
    if isinstance(expr, Arg):
        place = places[expr.index]
        if dtype.kind == "c":
            return Pair(arg(place, dtype.part), arg(place + 1, dtype.part))
        return arg(place, dtype)
    if isinstance(expr, Const) and dtype.kind == "c":
        value = complex(expr.value)
        return Pair(const(value.real, dtype.part), const(value.imag, dtype.part))
    if not isinstance(expr, Call):
        return expr
    args = [done[item] for item in expr.args]
    name = expr.fn.name
    if not any(isinstance(a, Pair) for a in args) and dtype.kind != "c":
        return call(expr.fn, *expr_args(args), dtype=dtype)
    if name == "cast":
        return _converted(args[0], dtype)
    rule = RULES.get(name)
    if rule is None:
        raise DTypeError(f"{name} does not take complex numbers")
    return rule(*args)


def expr_args(values: list[Value]) -> list[Expr]:
    """Values that are all real."""
    found: list[Expr] = []
    for value in values:
        assert not isinstance(value, Pair)
        found.append(value)
    return found
