"""Scalar functions in terms of what dialects have: lazyt's rules, written out where theirs differ.

Extremes hold on to NaN, integers divide downwards and give 0 when divided by 0, shifts by too much
give zeros or the sign, floats beyond an integer's range become its smallest number, and 16-bit
floats are computed in float32 and rounded where a value is stored.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Protocol

from lazyt.ir.dtypes import DType, bool_, int32, int64, uint8, uint32
from lazyt.ir.scalar import Arg, Call, Const, Expr, Number, post_order

COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
#: Functions of the same values as others, for some of their arguments or types.
_ALIKE = {"exp_nonpositive": "exp"}


class Arithmetic(Protocol):
    """Operations of a dialect on numbers, or on values of one shape. Each gives a value's name."""

    def constant(self, value: Number, dtype: DType) -> str:
        """A number."""

    def has(self, name: str, dtype: DType) -> bool:
        """Whether the dialect has the function, with lazyt's meaning."""

    def apply(self, name: str, args: Sequence[str], dtype: DType) -> str:
        """A function that it has: a scalar function's name, or ``quot`` and ``rem`` (of integers,
        rounded towards 0), ``raise`` (an integer to a power that is not negative), ``shl``,
        ``shr`` and ``sar`` (by less than there are bits)."""

    def compare(self, how: str, a: str, b: str, dtype: DType) -> str:
        """One of COMPARISONS; of floats all are false for NaN except ``ne``."""

    def select(self, test: str, a: str, b: str, dtype: DType) -> str:
        """``a`` where the test holds, else ``b``."""

    def convert(self, value: str, old: DType, new: DType) -> str:
        """A number that the new type holds, or the nearest floating point number to it."""

    def bitcast(self, value: str, old: DType, new: DType) -> str:
        """The same bits as a type of that size, neither of them bool."""


class Missing(Exception):
    """A scalar function that a dialect lacks; the argument is its name."""


Function = Callable[[Arithmetic, Sequence[str], DType], str]


def expression(a: Arithmetic, root: Expr, args: Sequence[str]) -> str:
    """An expression of arguments in stored types, converted to the stored type of the result.

    Raises Missing.
    """
    done: dict[Expr, str] = {}
    for expr in post_order(root):
        if isinstance(expr, Arg):
            done[expr] = a.convert(args[expr.index], expr.dtype, expr.dtype.compute)
        elif isinstance(expr, Const):
            done[expr] = a.constant(expr.value, expr.dtype.compute)
        elif isinstance(expr, Call):
            done[expr] = _call(a, expr, [done[item] for item in expr.args])
    return a.convert(done[root], root.dtype.compute, root.dtype)


def _call(a: Arithmetic, expr: Call, args: list[str]) -> str:
    """A call, from and to the types that are computed in."""
    name = _ALIKE.get(expr.fn.name, expr.fn.name)
    dtype = expr.args[-1].dtype.compute
    if name == "cast":
        return cast(a, args[0], expr.args[0].dtype, expr.dtype)
    if name == "bitcast":
        return _reinterpret(a, args[0], expr.args[0].dtype, expr.dtype)
    if name in COMPARISONS:
        return a.compare(name, args[0], args[1], dtype)
    if name == "where":
        return a.select(args[0], args[1], args[2], dtype)
    if name.startswith("logical"):
        truths = [truth(a, arg, e.dtype.compute) for arg, e in zip(args, expr.args)]
        return a.apply(name.replace("logical", "bitwise"), truths, bool_)
    if a.has(name, dtype):
        return a.apply(name, args, dtype)
    if name not in _WRITTEN_OUT:
        raise Missing(name)
    return _WRITTEN_OUT[name](a, args, dtype)


def truth(a: Arithmetic, value: str, dtype: DType) -> str:
    """Whether a number is not 0."""
    return value if dtype is bool_ else a.compare("ne", value, a.constant(0, dtype), dtype)


def cast(a: Arithmetic, value: str, old: DType, new: DType) -> str:
    """The conversion from and to the types that are computed in: to 16 bits through float32."""
    if new is bool_:
        return truth(a, value, old.compute)
    if old.kind == "f" and new.kind in "ui":
        return _truncated(a, value, old.compute, new)
    wide = a.convert(value, old.compute, new.compute)
    return a.convert(a.convert(wide, new.compute, new), new, new.compute)


def _reinterpret(a: Arithmetic, value: str, old: DType, new: DType) -> str:
    stored = a.convert(value, old.compute, old)
    if old is bool_:
        stored, old = a.convert(stored, bool_, uint8), uint8
    if new is bool_:
        return truth(a, stored, old)
    return a.convert(a.bitcast(stored, old, new), new, new.compute)


def _truncated(a: Arithmetic, value: str, old: DType, new: DType) -> str:
    """Floats to integers: the low bits of the 32-bit conversion for small types and int32, of the
    64-bit one for others; what is out of its range, or no number, is its smallest number."""
    wide = int32 if new.itemsize < 4 or new is int32 else int64
    limit = 2.0 ** (8 * wide.itemsize - 1)
    zero, most = a.constant(0, old), a.constant(limit, old)
    reaches = a.compare("ge", value, a.constant(-limit, old), old)
    inside = a.apply("bitwise_and", [reaches, a.compare("lt", value, most, old)], bool_)
    whole = a.convert(a.select(inside, value, zero, old), old, wide)
    whole = a.select(inside, whole, a.constant(extreme_int(wide), wide), wide)
    made = a.convert(whole, wide, new)
    if new.name != "uint64":
        return made
    beyond = a.compare("ge", value, most, old)
    below = a.compare("lt", value, a.constant(2 * limit, old), old)
    upper = a.apply("bitwise_and", [beyond, below], bool_)
    rest = a.select(upper, a.apply("sub", [value, most], old), zero, old)
    high = a.convert(a.convert(rest, old, int64), int64, new)
    high = a.apply("add", [high, a.constant(1 << 63, new)], new)
    return a.select(upper, high, a.select(beyond, a.constant(0, new), made, new), new)


def extreme_int(dtype: DType) -> int:
    """The smallest number of a signed type."""
    return -(1 << (8 * dtype.itemsize - 1))


# ----------------------------------------------------------------- functions of numbers


def is_nan(a: Arithmetic, value: str, dtype: DType) -> str:
    """Whether a floating point number is none."""
    return a.compare("ne", value, value, dtype)


def _sign(a: Arithmetic, args: Sequence[str], dtype: DType) -> str:
    """0 for NaN."""
    if dtype is bool_:
        return args[0]
    zero, one = a.constant(0, dtype), a.constant(1, dtype)
    found = a.select(a.compare("gt", args[0], zero, dtype), one, zero, dtype)
    if dtype.kind == "u":
        return found
    below = a.compare("lt", args[0], zero, dtype)
    return a.select(below, a.constant(-1, dtype), found, dtype)


def _absolute(a: Arithmetic, args: Sequence[str], dtype: DType) -> str:
    return args[0]  # of what has no sign


def _truncate(a: Arithmetic, args: Sequence[str], dtype: DType) -> str:
    below = a.compare("lt", args[0], a.constant(0, dtype), dtype)
    up, down = (a.apply(name, args, dtype) for name in ("ceil", "floor"))
    return a.select(below, up, down, dtype)


def _test_nan(a: Arithmetic, args: Sequence[str], dtype: DType) -> str:
    return is_nan(a, args[0], dtype) if dtype.kind == "f" else a.constant(False, bool_)


def _test_infinite(a: Arithmetic, args: Sequence[str], dtype: DType) -> str:
    if dtype.kind != "f":
        return a.constant(False, bool_)
    return a.compare("eq", a.apply("abs", args, dtype), a.constant(math.inf, dtype), dtype)


def _test_finite(a: Arithmetic, args: Sequence[str], dtype: DType) -> str:
    if dtype.kind != "f":
        return a.constant(True, bool_)
    return a.compare("lt", a.apply("abs", args, dtype), a.constant(math.inf, dtype), dtype)


def _sign_bit(a: Arithmetic, args: Sequence[str], dtype: DType) -> str:
    value, whole = args[0], dtype
    if dtype.kind == "f":
        whole = int32 if dtype.itemsize == 4 else int64
        value = a.bitcast(value, dtype, whole)
    elif dtype.kind != "i":
        return a.constant(False, bool_)
    return a.compare("lt", value, a.constant(0, whole), whole)


def _copy_sign(a: Arithmetic, args: Sequence[str], dtype: DType) -> str:
    size = a.apply("abs", args[:1], dtype)
    other = a.apply("neg", [size], dtype)
    return a.select(_sign_bit(a, args[1:], dtype), other, size, dtype)


def _extreme_of_numbers(how: str) -> Function:
    """The other argument where one is NaN."""

    def rule(a: Arithmetic, args: Sequence[str], dtype: DType) -> str:
        first = a.compare(how, args[0], args[1], dtype)
        if dtype.kind == "f":
            first = a.apply("bitwise_or", [first, is_nan(a, args[1], dtype)], bool_)
        return a.select(first, args[0], args[1], dtype)

    return rule


def _bound(how: str) -> Function:
    """Not beyond a bound; NaN stays."""

    def rule(a: Arithmetic, args: Sequence[str], dtype: DType) -> str:
        beyond = a.compare(how, args[0], args[1], dtype)
        return a.select(beyond, args[1], args[0], dtype)

    return rule


def _logarithm(base: float) -> Function:
    def rule(a: Arithmetic, args: Sequence[str], dtype: DType) -> str:
        factor = a.constant(1 / math.log(base), dtype)
        return a.apply("mul", [a.apply("log", args, dtype), factor], dtype)

    return rule


def _exp2(a: Arithmetic, args: Sequence[str], dtype: DType) -> str:
    return a.apply("pow", [a.constant(2, dtype), args[0]], dtype)


def _reciprocal(a: Arithmetic, args: Sequence[str], dtype: DType) -> str:
    return a.apply("div", [a.constant(1, dtype), args[0]], dtype)


def _sigmoid(a: Arithmetic, args: Sequence[str], dtype: DType) -> str:
    one = a.constant(1, dtype)
    other = a.apply("exp", [a.apply("neg", args, dtype)], dtype)
    return a.apply("div", [one, a.apply("add", [one, other], dtype)], dtype)


def _power(a: Arithmetic, args: Sequence[str], dtype: DType) -> str:
    """Of integers, which wrap; to negative powers 0 except for the bases 1 and -1."""
    x, y = args
    zero, one = a.constant(0, dtype), a.constant(1, dtype)
    if dtype.kind == "u":  # the half of the exponent is not negative in any reading of its bits
        half = a.apply("shr", [y, one], dtype)
        root = a.apply("raise", [x, half], dtype)
        odd = a.compare("ne", a.apply("bitwise_and", [y, one], dtype), zero, dtype)
        square = a.apply("mul", [root, root], dtype)
        return a.apply("mul", [square, a.select(odd, x, one, dtype)], dtype)
    less = a.constant(-1, dtype)
    raised = a.apply("raise", [x, a.apply("maximum", [y, zero], dtype)], dtype)
    odd = a.compare("ne", a.apply("bitwise_and", [y, one], dtype), zero, dtype)
    inverse = a.select(
        a.compare("eq", x, less, dtype), a.select(odd, less, one, dtype), zero, dtype
    )
    inverse = a.select(a.compare("eq", x, one, dtype), one, inverse, dtype)
    return a.select(a.compare("lt", y, zero, dtype), inverse, raised, dtype)


def _safe_divisor(a: Arithmetic, y: str, dtype: DType) -> tuple[str, str]:
    """Where the quotient is not that of a division, and the divisor with ones there: by 0, and
    of signed types by -1, as the smallest number divided by that is none."""
    zero, one = a.constant(0, dtype), a.constant(1, dtype)
    special = a.compare("eq", y, zero, dtype)
    if dtype.kind == "i":
        turned = a.compare("eq", y, a.constant(-1, dtype), dtype)
        special = a.apply("bitwise_or", [special, turned], bool_)
    return special, a.select(special, one, y, dtype)


def _differ(a: Arithmetic, rest: str, y: str, dtype: DType) -> str:
    """Whether a remainder is not 0 and has another sign than the divisor."""
    zero = a.constant(0, dtype)
    signs = [a.compare("lt", value, zero, dtype) for value in (rest, y)]
    other = a.apply("bitwise_xor", signs, bool_)
    return a.apply("bitwise_and", [a.compare("ne", rest, zero, dtype), other], bool_)


def _mod(a: Arithmetic, args: Sequence[str], dtype: DType) -> str:
    """The remainder with the divisor's sign; modulo 0 it is 0 for integers."""
    x, y = args
    if dtype.kind == "f":
        rest = a.apply("fmod", args, dtype)
        moved = a.apply("add", [rest, y], dtype)
        return a.select(_differ(a, rest, y, dtype), moved, rest, dtype)
    # Modulo 1, which stands for 0 and -1, it is 0 as well.
    _, safe = _safe_divisor(a, y, dtype)
    rest = a.apply("rem", [x, safe], dtype)
    if dtype.kind == "u":
        return rest
    moved = a.apply("add", [rest, safe], dtype)
    return a.select(_differ(a, rest, safe, dtype), moved, rest, dtype)


def _fmod(a: Arithmetic, args: Sequence[str], dtype: DType) -> str:
    """Of integers: the remainder with the dividend's sign."""
    _, safe = _safe_divisor(a, args[1], dtype)
    return a.apply("rem", [args[0], safe], dtype)


def _floor_divide(a: Arithmetic, args: Sequence[str], dtype: DType) -> str:
    """Rounded down. Of floats from the remainder, so that the quotient is the right one of its
    neighbours."""
    x, y = args
    zero = a.constant(0, dtype)
    if dtype.kind == "f":
        rest = a.apply("fmod", args, dtype)
        exact = a.apply("div", [a.apply("sub", [x, rest], dtype), y], dtype)
        towards = a.apply("round", [exact], dtype)
        less = a.apply("sub", [towards, a.constant(1, dtype)], dtype)
        found = a.select(_differ(a, rest, y, dtype), less, towards, dtype)
        by_zero = a.compare("eq", y, zero, dtype)
        return a.select(by_zero, a.apply("div", [x, y], dtype), found, dtype)
    special, safe = _safe_divisor(a, y, dtype)
    found = a.apply("quot", [x, safe], dtype)
    if dtype.kind == "u":
        return a.select(special, zero, found, dtype)
    rest = a.apply("rem", [x, safe], dtype)
    less = a.apply("sub", [found, a.constant(1, dtype)], dtype)
    found = a.select(_differ(a, rest, safe, dtype), less, found, dtype)
    minus = a.apply("neg", [x], dtype)
    other = a.select(a.compare("eq", y, zero, dtype), zero, minus, dtype)
    return a.select(special, other, found, dtype)


def _shift(left: bool) -> Function:
    def rule(a: Arithmetic, args: Sequence[str], dtype: DType) -> str:
        x, n = args
        zero = a.constant(0, dtype)
        fits = a.compare("lt", n, a.constant(8 * dtype.itemsize, dtype), dtype)
        if dtype.kind == "i":
            known = a.compare("ge", n, zero, dtype)
            fits = a.apply("bitwise_and", [fits, known], bool_)
        count = a.select(fits, n, zero, dtype)
        how = "shl" if left else "sar" if dtype.kind == "i" else "shr"
        moved, rest = a.apply(how, [x, count], dtype), zero
        if how == "sar":
            below = a.compare("lt", x, zero, dtype)
            rest = a.select(below, a.constant(-1, dtype), zero, dtype)
        return a.select(fits, moved, rest, dtype)

    return rule


def _hypot(a: Arithmetic, args: Sequence[str], dtype: DType) -> str:
    sizes = [a.apply("abs", [value], dtype) for value in args]
    large, small = (a.apply(name, sizes, dtype) for name in ("maximum", "minimum"))
    zero, one = a.constant(0, dtype), a.constant(1, dtype)
    safe = a.select(a.compare("eq", large, zero, dtype), one, large, dtype)
    ratio = a.apply("div", [small, safe], dtype)
    square = a.apply("mul", [ratio, ratio], dtype)
    root = a.apply("sqrt", [a.apply("add", [one, square], dtype)], dtype)
    infinite = a.constant(math.inf, dtype)
    tests = [a.compare("eq", size, infinite, dtype) for size in sizes]
    found = a.apply("mul", [large, root], dtype)
    return a.select(a.apply("bitwise_or", tests, bool_), infinite, found, dtype)


def _fma(a: Arithmetic, args: Sequence[str], dtype: DType) -> str:
    return a.apply("add", [a.apply("mul", args[:2], dtype), args[2]], dtype)


def _log_product(name: str) -> Function:
    """0 where the factor is 0 and the argument of the logarithm is a number."""

    def rule(a: Arithmetic, args: Sequence[str], dtype: DType) -> str:
        x, y = args
        zero = a.constant(0, dtype)
        none = a.compare("eq", x, zero, dtype)
        flat = a.apply("bitwise_and", [none, a.compare("eq", y, y, dtype)], bool_)
        product = a.apply("mul", [x, a.apply(name, [y], dtype)], dtype)
        return a.select(flat, zero, product, dtype)

    return rule


def _next_after(a: Arithmetic, args: Sequence[str], dtype: DType) -> str:
    """The neighbour of ``x`` towards ``y``, by its bits."""
    x, y = args
    whole = int32 if dtype.itemsize == 4 else int64
    zero, one = a.constant(0, dtype), a.constant(1, whole)
    bits = a.bitcast(x, dtype, whole)
    above, positive = a.compare("lt", x, y, dtype), a.compare("gt", x, zero, dtype)
    inwards = a.apply("bitwise_xor", [above, positive], bool_)
    less, more = (a.apply(name, [bits, one], whole) for name in ("sub", "add"))
    moved = a.bitcast(a.select(inwards, less, more, whole), whole, dtype)
    least = a.bitcast(one, whole, dtype)
    start = a.select(above, least, a.apply("neg", [least], dtype), dtype)
    moved = a.select(a.compare("eq", x, zero, dtype), start, moved, dtype)
    moved = a.select(a.compare("eq", x, y, dtype), y, moved, dtype)
    unknown = [is_nan(a, value, dtype) for value in args]
    none = a.apply("bitwise_or", unknown, bool_)
    return a.select(none, a.apply("add", [x, y], dtype), moved, dtype)


def _split(exponent: bool) -> Function:
    """A number as one from 1/2 to 1 times a power of 2, whose exponent, or the rest, is wanted;
    0 and what is not finite stay as they are, with the exponent 0."""

    def rule(a: Arithmetic, args: Sequence[str], dtype: DType) -> str:
        (x,) = args
        whole, digits = (int32, 23) if dtype.itemsize == 4 else (int64, 52)
        field = (1 << (8 * whole.itemsize - 1 - digits)) - 1
        half = field // 2 - 1
        size, zero = a.apply("abs", args, dtype), a.constant(0, dtype)
        # Numbers that have fewer digits are made larger first.
        small = a.compare("lt", size, a.constant(2.0 ** (1 - half), dtype), dtype)
        large = a.apply("mul", [x, a.constant(2.0**digits, dtype)], dtype)
        bits = a.bitcast(a.select(small, large, x, dtype), dtype, whole)
        some = a.apply("bitwise_and", [_test_finite(a, args, dtype), truth(a, x, dtype)], bool_)
        if exponent:
            shifted = a.apply("shr", [bits, a.constant(digits, whole)], whole)
            power = a.apply("bitwise_and", [shifted, a.constant(field, whole)], whole)
            less = a.select(small, a.constant(half + digits, whole), a.constant(half, whole), whole)
            found = a.convert(a.apply("sub", [power, less], whole), whole, dtype)
            return a.select(some, found, zero, dtype)
        rest = a.apply("bitwise_and", [bits, a.constant(~(field << digits), whole)], whole)
        rest = a.apply("bitwise_or", [rest, a.constant(half << digits, whole)], whole)
        return a.select(some, a.bitcast(rest, whole, dtype), x, dtype)

    return rule


_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))


def threefry(a: Arithmetic, args: Sequence[str], dtype: DType) -> str:
    """The first word of Threefry-2x32 with 20 rounds (Salmon et al., SC'11) of two words of a key
    and a 64-bit counter of type ``dtype``."""
    first, second, counter = args

    def word(name: str, x: str, y: str | int) -> str:
        return a.apply(name, [x, a.constant(y, uint32) if isinstance(y, int) else y], uint32)

    high = a.apply("shr", [counter, a.constant(32, dtype)], dtype)
    keys = (first, second, word("bitwise_xor", word("bitwise_xor", first, second), 0x1BD11BDA))
    x = word("add", a.convert(counter, dtype, uint32), first)
    y = word("add", a.convert(high, dtype, uint32), second)
    for group in range(5):
        for left in _ROTATIONS[group % 2]:
            x = word("add", x, y)
            turned = word("bitwise_or", word("shl", y, left), word("shr", y, 32 - left))
            y = word("bitwise_xor", turned, x)
        x = word("add", x, keys[(group + 1) % 3])
        y = word("add", word("add", y, keys[(group + 2) % 3]), group + 1)
    return x


_WRITTEN_OUT: dict[str, Function] = {
    "sign": _sign, "abs": _absolute, "trunc": _truncate, "isnan": _test_nan,
    "isinf": _test_infinite, "isfinite": _test_finite, "signbit": _sign_bit,
    "copysign": _copy_sign, "fmax": _extreme_of_numbers("ge"), "fmin": _extreme_of_numbers("le"),
    "bound_below": _bound("lt"), "bound_above": _bound("gt"), "exp2": _exp2,
    "log2": _logarithm(2), "log10": _logarithm(10), "reciprocal": _reciprocal,
    "sigmoid": _sigmoid, "pow": _power, "mod": _mod, "fmod": _fmod, "floordiv": _floor_divide,
    "shift_left": _shift(True), "shift_right": _shift(False), "hypot": _hypot, "fma": _fma,
    "xlogy": _log_product("log"), "xlog1py": _log_product("log1p"), "nextafter": _next_after,
    "exponent": _split(True), "mantissa": _split(False), "threefry": threefry,
}  # fmt: skip


# ----------------------------------------------------------------- what ops of graphs need


def position(a: Arithmetic, value: str, dtype: DType, extent: int) -> str:
    """An index as int64 within ``0 .. extent - 1``: what is beyond is clamped."""
    if dtype.name == "uint64":  # the largest are beyond the end, not below 0
        value = a.apply("minimum", [value, a.constant((1 << 63) - 1, dtype)], dtype)
    wide = a.convert(value, dtype, int64)
    if dtype.kind == "i":
        wide = a.apply("maximum", [wide, a.constant(0, int64)], int64)
    return a.apply("minimum", [wide, a.constant(extent - 1, int64)], int64)


def precedes(a: Arithmetic, x: str, y: str, dtype: DType) -> str:
    """Whether ``x`` is smaller, with NaN larger than everything."""
    less = a.compare("lt", x, y, dtype)
    if dtype.kind != "f":
        return less
    number = a.compare("eq", x, x, dtype)
    last = a.apply("bitwise_and", [number, is_nan(a, y, dtype)], bool_)
    return a.apply("bitwise_or", [less, last], bool_)
