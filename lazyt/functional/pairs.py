"""Further functions of two operands: whole-number, step and scaling functions, and neighbours."""

from __future__ import annotations

from typing import Any

from lazyt import ops
from lazyt.dispatch import inplace_form
from lazyt.errors import DTypeError, LazytError, NoKernelError
from lazyt.functional import return_types
from lazyt.functional.arithmetic import float_power, scalar_build
from lazyt.functional.operands import Build, mapped, require_tensor
from lazyt.functional.pair_forms import pair
from lazyt.functional.promotion import get_default_dtype, torch_name
from lazyt.functional.results import give
from lazyt.ir.dtypes import DType, float16, float64, int32
from lazyt.ir.graph import Node
from lazyt.ir.scalar import Expr, call, const
from lazyt.tensor import Tensor

__all__ = ["frexp", "gcd", "heaviside", "lcm", "ldexp", "logaddexp", "logaddexp2", "nextafter"]

_GCD = scalar_build("gcd")


def _operands(input: Any, other: Any, name: str, kinds: str) -> tuple[Node, Node, DType]:
    """Two tensors; raises DTypeError for numbers and for dtypes of other kinds."""
    require_tensor(input, name)
    x, y, dtype = pair(input, require_tensor(other, name, "other", 2), name)
    if dtype.kind not in kinds:
        raise NoKernelError(f"\"{name}_cpu\" not implemented for '{torch_name(dtype)}'")
    return x, y, dtype


def _lcm(x: Expr, y: Expr) -> Expr:
    zero = const(0, x.dtype)
    divisor = call("gcd", x, y)
    divisor = call("where", call("eq", divisor, zero), const(1, x.dtype), divisor)
    return call("abs", call("mul", call("floordiv", x, divisor), y))


def gcd(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The greatest common divisor, not negative; 0 of two zeros.

    Raises NoKernelError for floating point and bools.
    """
    x, y, dtype = _operands(input, other, "gcd", "ui")
    return give(mapped(_GCD, (x, y), dtype, dtype), "gcd", (input, other), out)


def lcm(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The least common multiple, not negative; 0 where an operand is 0.

    Raises DTypeError for floating point and bools.
    """
    x, y, dtype = _operands(input, other, "lcm", "ui")
    return give(mapped(_lcm, (x, y), dtype, dtype), "lcm", (input, other), out)


def _heaviside(x: Expr, at_zero: Expr) -> Expr:
    zero = const(0, x.dtype)
    step = call("cast", call("gt", x, zero), dtype=x.dtype)
    return call("where", call("eq", x, zero), at_zero, step)


def heaviside(input: Tensor, values: Tensor, *, out: Tensor | None = None) -> Tensor:
    """0 below 0, 1 above, ``values`` at 0. Raises LazytError for operands of two dtypes."""
    x, y = require_tensor(input, "heaviside"), require_tensor(values, "heaviside", "values", 2)
    if x.dtype is not y.dtype:
        raise LazytError("heaviside is not yet implemented for tensors with different dtypes.")
    a, b, dtype = pair(x, y, "heaviside")
    nodes = tuple(ops.detach(n) if n.needs_grad else n for n in (a, b))
    return give(mapped(_heaviside, nodes, dtype, dtype), "heaviside", (x, y), out)


def _larger(a: Expr, b: Expr) -> tuple[Expr, Expr]:
    """The larger of two, and how far the other is below: by ``where``, whose derivatives, unlike
    those of ``maximum`` and ``abs``, add up to the right ones where both are equal."""
    first = call("gt", a, b)
    gap = call("where", first, call("sub", b, a), call("sub", a, b))
    return call("where", first, a, b), gap


def logaddexp_expr(a: Expr, b: Expr) -> Expr:
    """``log(exp(a) + exp(b))`` relative to the larger of the two."""
    # Equal infinities have no difference: the sum is that infinity itself.
    top, gap = _larger(a, b)
    same = call("logical_and", call("isinf", a), call("eq", a, b))
    return call("where", same, a, call("add", top, call("log1p", call("exp_nonpositive", gap))))


def logaddexp(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """``log(exp(input) + exp(other))`` without overflow. Raises NoKernelError for whole numbers."""
    x, y, dtype = _operands(input, other, "logaddexp", "f")
    return give(mapped(logaddexp_expr, (x, y), dtype, dtype), "Logaddexp", (input, other), out)


def _logaddexp2(a: Expr, b: Expr) -> Expr:
    # Equal infinities have no difference: the sum is that infinity itself.
    top, gap = _larger(a, b)
    power = call("exp2", gap)
    rise = call("mul", call("log1p", power), const(1.4426950408889634, a.dtype))
    same = call("logical_and", call("isinf", a), call("eq", a, b))
    return call("where", same, a, call("add", top, rise))


def logaddexp2(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """``log2(2**input + 2**other)``, without overflow. Raises DTypeError for whole numbers."""
    x, y, dtype = _operands(input, other, "logaddexp2", "f")
    return give(mapped(_logaddexp2, (x, y), dtype, dtype), "Logaddexp2", (input, other), out)


def _ldexp(x: Expr, n: Expr) -> Expr:
    return call("mul", x, call("pow", const(2, x.dtype), n))


def float_power_(input: Tensor, exponent: Any) -> Tensor:
    """``float_power`` in place. Raises DTypeError unless ``input`` is float64."""
    dtype = require_tensor(input, "float_power_").dtype
    if dtype is not float64:
        raise DTypeError(
            f"the base given to float_power_ has dtype {torch_name(dtype)} but the operation's "
            "result requires dtype Double"
        )
    return inplace_form(float_power, "float_power_")(input, exponent)


def ldexp(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """``input * 2**other``; whole numbers count as the default dtype."""
    require_tensor(input, "ldexp")
    x, y, dtype = pair(input, require_tensor(other, "ldexp", "other", 2), "ldexp")
    if dtype.kind != "f":
        dtype = get_default_dtype()
    return give(mapped(_ldexp, (x, y), dtype, dtype), "Mul", (input, other), out)


_NEXT = scalar_build("nextafter")


def _half_neighbour(digits: int, least: int, largest: float) -> Build:
    """The neighbour in a 16-bit type, of float32 operands that hold its values.

    ``digits`` behind the point of a normal number, ``least`` power of two that is not 0.
    """

    def build(x: Expr, y: Expr) -> Expr:
        zero, one = const(0, x.dtype), const(1, x.dtype)
        size, up = call("abs", x), call("gt", y, x)
        outwards = call("where", call("gt", x, zero), up, call("logical_not", up))
        # Below a power of two numbers lie twice as densely as above.
        edge = call("eq", call("abs", call("mantissa", x)), const(0.5, x.dtype))
        finer = call("logical_and", edge, call("logical_not", outwards))
        place = call("sub", call("exponent", x), call("where", finer, const(1, x.dtype), zero))
        place = call("sub", place, const(digits + 1, x.dtype))
        place = call("maximum", place, const(least, x.dtype))
        place = call("where", call("eq", x, zero), const(least, x.dtype), place)
        step = call("exp2", place)
        moved = call("add", x, call("where", up, step, call("neg", step)))
        inner = call("copysign", const(largest, x.dtype), x)
        moved = call("where", call("isinf", size), inner, moved)
        moved = call("where", call("eq", x, y), y, moved)
        odd = call("logical_or", call("isnan", x), call("isnan", y))
        return call("where", odd, call("mul", call("add", x, y), one), moved)

    return build


_FLOAT16 = _half_neighbour(10, -24, 65504.0)
_BFLOAT16 = _half_neighbour(7, -133, 3.3895313892515355e38)


def nextafter(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The neighbour of ``input`` towards ``other`` among the numbers of the dtype.

    The gradient is ``input``'s, where the two differ. Raises DTypeError for whole numbers.
    """
    x, y, dtype = _operands(input, other, "nextafter", "f")
    if dtype.is_half:
        build = _FLOAT16 if dtype is float16 else _BFLOAT16
        y = ops.detach(y) if y.needs_grad else y
    else:
        build = _NEXT
    return give(mapped(build, (x, y), dtype, dtype), "Nextafter", (input, other), out)


_MANTISSA, _EXPONENT = scalar_build("mantissa"), scalar_build("exponent")


def frexp(input: Tensor, *, out: tuple[Tensor, Tensor] | None = None) -> return_types.frexp:
    """``input = mantissa * 2**exponent`` with 1/2 <= \\|mantissa\\| < 1, the exponent in int32.

    Raises LazytError for whole numbers.
    """
    node = require_tensor(input, "frexp").node
    dtype = node.dtype
    if dtype.kind != "f":
        raise LazytError("torch.frexp() only supports floating-point dtypes")
    places = (None, None) if out is None else out
    mantissa = give(mapped(_MANTISSA, (node,), dtype, dtype), "Frexp", (input,), places[0])
    plain = ops.detach(node) if node.needs_grad else node
    exponent = give(mapped(_EXPONENT, (plain,), dtype, int32), "Frexp", (), places[1])
    return return_types.frexp((mantissa, exponent))
