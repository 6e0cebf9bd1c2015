"""Functions of two operands, one element at a time: arithmetic, comparison, logic, bits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lazyt import ops
from lazyt.errors import DTypeError, LazytError, NoKernelError
from lazyt.functional import return_types
from lazyt.functional.calls import by_old_form
from lazyt.functional.creation.nesting import refuse_number
from lazyt.functional.operands import (
    ONE_TENSOR,
    ONE_TENSOR_PLAIN,
    TENSOR_FIRST,
    Build,
    as_number,
    broadcast_all,
    check_pair,
    floating_number,
    mapped,
    operand_dtype,
    operand_node,
    pair,
    require_tensor,
    wrong_arguments,
)
from lazyt.functional.operands import scalar_build as scalar_build
from lazyt.functional.overriding import answered
from lazyt.functional.result_layout import elementwise, preserving
from lazyt.functional.results import give, inplace_form, short_forms
from lazyt.functional.type_promotion import (
    as_dtype,
    c_name,
    inexact,
    torch_name,
)
from lazyt.handle.autocast import raised_on_gpu
from lazyt.handle.function_table import declare, declare_grad_fn, entry_of, function
from lazyt.handle.tensor import Tensor
from lazyt.ir.dtypes import DType, bool_, complex128, float16, float64, int32
from lazyt.ir.forms import use
from lazyt.ir.graph import Node
from lazyt.ir.scalar import FUNCTIONS, Expr, call, const

__all__ = [
    "add", "addcdiv", "addcmul", "arctan2", "atan2", "bitwise_and", "bitwise_left_shift",
    "bitwise_or", "bitwise_right_shift", "bitwise_xor", "copysign", "eq", "float_power", "fmax",
    "fmin", "frexp", "gcd", "ge", "greater", "greater_equal", "gt", "heaviside", "hypot", "lcm",
    "ldexp", "le", "lerp", "less", "less_equal", "logaddexp", "logaddexp2", "logical_and",
    "logical_or", "logical_xor", "lt", "maximum", "minimum", "mul", "multiply", "ne", "nextafter",
    "not_equal", "pow", "result_type", "rsub", "square", "sub", "subtract", "xlogy",
]  # fmt: skip

Binary = Callable[..., Tensor]


_ADD, _SUB, _MUL, _POW = (scalar_build(n) for n in ("add", "sub", "mul", "pow"))


def _scale(other: Any, alpha: Any, dtype: DType, sign: int = 1) -> Any:
    """``other * alpha``; raises DTypeError for a fraction of whole numbers, LazytError where the
    type cannot hold ``sign * alpha``."""
    if isinstance(alpha, np.generic) or (isinstance(alpha, Tensor) and not alpha.ndim):
        alpha = alpha.item()
    if isinstance(alpha, complex) and dtype.kind != "c":
        raise DTypeError(
            "For non-complex input tensors, argument alpha must not be a complex number."
        )
    if isinstance(alpha, float) and dtype.kind not in "fc":
        raise DTypeError(
            "For integral input tensors, argument alpha must not be a floating point number."
        )
    if isinstance(alpha, bool) and dtype is not bool_:
        raise DTypeError("Boolean alpha only supported for Boolean results.")
    if dtype is bool_:
        alpha = bool(alpha)
    if as_number(alpha) is None:
        raise DTypeError(f"add(): argument 'alpha' must be Number, not {type(alpha).__name__}")
    refuse_number(sign * alpha, dtype)
    if not isinstance(other, Tensor):
        return other * alpha if dtype is not bool_ else bool(other and alpha)
    multiply: Binary = short_forms.get(mul, mul)
    return multiply(other if other.dtype is dtype else other.to(dtype), alpha)


def _in_old_form(
    function: Callable[..., Tensor], parts: tuple[Any, ...], alpha: Any, out: Any
) -> Tensor:
    """``add(input, alpha, other)``, a form that PyTorch has left from older releases."""
    name = function.__name__
    named = {} if type(alpha) is int and alpha == 1 else {"alpha": alpha}
    entry = entry_of(function)
    assert entry is not None
    found = by_old_form(
        entry.old_forms, name, parts, named if out is None else {**named, "out": out}
    )
    if found is None:
        text = f"{name}() takes 2 positional arguments but {len(parts)} were given"
        raise DTypeError(text)
    return function(*found[0], **found[1])


@function(
    method=True, inplace="method", checks=True, old_forms=("self alpha other",), takes_number=True
)
def add(input: Any, other: Any, *old: Any, alpha: Any = 1, out: Tensor | None = None) -> Tensor:
    """``input + alpha * other``. Raises ShapeError, DTypeError as PyTorch does."""
    try:
        if old:
            return _in_old_form(add, (input, other, *old), alpha, out)
        x, y, dtype = pair(input, other, "add")
        if alpha != 1 or isinstance(alpha, bool):
            x, y, dtype = pair(input, _scale(other, alpha, dtype), "add")
        return give(mapped(_ADD, (x, y), dtype, dtype), "Add", (input, other), out)
    except (TypeError, AttributeError):
        return answered()


@function(
    method=True, inplace="method", checks=True, old_forms=("self alpha other",), takes_number=True
)
def sub(input: Any, other: Any, *old: Any, alpha: Any = 1, out: Tensor | None = None) -> Tensor:
    """``input - alpha * other``. Raises DTypeError for bool operands."""
    try:
        if old:
            return _in_old_form(sub, (input, other, *old), alpha, out)
        if any(isinstance(o, bool) or getattr(o, "dtype", None) is bool_ for o in (input, other)):
            _refuse_bool(input, other)
        x, y, dtype = pair(input, other, "sub")
        if alpha != 1 or isinstance(alpha, bool):
            x, y, dtype = pair(input, _scale(other, alpha, dtype, -1), "sub")
        return give(mapped(_SUB, (x, y), dtype, dtype), "Sub", (input, other), out)
    except (TypeError, AttributeError):
        return answered()


def _refuse_bool(a: Any, b: Any) -> None:
    first = a.dtype is bool_ if isinstance(a, Tensor) else isinstance(a, bool)
    second = b.dtype is bool_ if isinstance(b, Tensor) else isinstance(b, bool)
    if first and second and isinstance(a, Tensor) and isinstance(b, Tensor):
        raise DTypeError(
            "Subtraction, the `-` operator, with two bool tensors is not supported. "
            "Use the `^` or `logical_xor()` operator instead."
        )
    if first or second:
        raise DTypeError(
            "Subtraction, the `-` operator, with a bool tensor is not supported. If you are "
            "trying to invert a mask, use the `~` or `logical_not()` operator instead."
        )


@function(
    method=True,
    checks=True,
    forms=(
        "Tensor input, Tensor other, *, Number alpha = 1",
        "Tensor input, Number other, Number alpha = 1",
    ),
)
def rsub(input: Any, other: Any, *, alpha: Any = 1) -> Tensor:
    """``other - alpha * input``. Raises DTypeError as ``sub``, and unless ``input`` is a tensor."""
    try:
        check_pair(input, other, "rsub")
        return sub(other, input, alpha=alpha)
    except (TypeError, AttributeError):
        return answered()


@function(method=True, inplace="method", checks=True, saves="p", takes_number=True)
def mul(input: Any, other: Any, *, out: Tensor | None = None) -> Tensor:
    """``input * other``; of bools, the logical and."""
    try:
        x, y, dtype = pair(input, other, "mul")
        return give(mapped(_MUL, (x, y), dtype, dtype), "Mul", (input, other), out)
    except (TypeError, AttributeError):
        return answered()


def _square(x: Expr) -> Expr:
    return call("mul", x, x)


def _cube(x: Expr) -> Expr:
    return call("mul", call("mul", x, x), x)


def _inverse_square(x: Expr) -> Expr:
    return call("reciprocal", call("mul", x, x))


# The exponents for which PyTorch computes something cheaper and rounds as that does.
_POWERS: dict[complex, Build] = {
    2.0: _square,
    3.0: _cube,
    0.5: scalar_build("sqrt"),
    -0.5: scalar_build("rsqrt"),
    -1.0: scalar_build("reciprocal"),
    -2.0: _inverse_square,
}


def _always(x: Expr) -> Expr:
    return call("logical_or", x, const(True, bool_))


def _itself(x: Expr) -> Expr:
    return call("logical_or", x, const(False, bool_))


_TRUTH_POWERS: dict[bool, Build] = {False: _always, True: _itself}


def _power_of(number: Any) -> Build | None:
    """What a power with this exponent is computed as, where that is cheaper."""
    return _POWERS.get(number) if isinstance(number, (int, float, complex)) else None


_POWER_FORMS = tuple(form.replace("other", "exponent") for form in ONE_TENSOR)


def _order_of_powers(result: Tensor, parents: Sequence[Any]) -> tuple[int, ...] | None:
    """Powers of a number are row-major."""
    return elementwise(result, parents) if isinstance(parents[0], Tensor) else None


declare_grad_fn("PowBackward0", saves="a", layout=_order_of_powers)  # to a number


@function(
    method=True,
    inplace="method",
    checks=True,
    cast="full",
    saves="ar",
    layout=_order_of_powers,
    forms=_POWER_FORMS,
)
def pow(input: Any, exponent: Any, *, out: Tensor | None = None) -> Tensor:
    """``input ** exponent``. Raises LazytError for integers to negative integer powers."""
    try:
        if use.any and out is None:
            input, exponent = raised_on_gpu(input), raised_on_gpu(exponent)
        x, y, dtype = pair(input, exponent, "pow")
        name = "PowBackward1"
        if not isinstance(exponent, Tensor):
            name = "PowBackward0"
            number = as_number(exponent)
            if dtype.kind in "bui" and isinstance(number, (int, float)) and number < 0:
                raise LazytError("Integers to negative integer powers are not allowed.")
            build = _power_of(number)
            if (dtype.is_half or dtype.kind in "ui") and build is None:
                refuse_number(number, dtype)
            if dtype is bool_:
                power = _TRUTH_POWERS[bool(exponent)]
                return give(mapped(power, (x,), bool_, bool_), name, (input, exponent), out)
            if build is not None:
                return give(mapped(build, (x,), dtype, dtype), name, (input, exponent), out)
        if dtype is bool_:
            raise NoKernelError("\"pow\" not implemented for 'Bool'")
        return give(mapped(_POW, (x, y), dtype, dtype), name, (input, exponent), out)
    except (TypeError, AttributeError):
        return answered()


@function(method=True, checks=True, forms=_POWER_FORMS)
def float_power(input: Any, exponent: Any, *, out: Tensor | None = None) -> Tensor:
    """``input ** exponent`` in float64, of complex numbers in complex128."""
    try:
        x, y, common = pair(input, exponent, "float_power")
        wide = complex128 if common.kind == "c" else float64
        number = None if isinstance(exponent, Tensor) else as_number(exponent)
        build = _power_of(number)
        if build is not None:
            return give(mapped(build, (x,), wide, wide), "Pow", (input, exponent), out)
        return give(mapped(_POW, (x, y), wide, wide), "Pow", (input, exponent), out)
    except (TypeError, AttributeError):
        return answered()


def _require_tensors(input: Any, other: Any, name: str, numbers: bool) -> None:
    """Raise DTypeError for numbers where PyTorch takes tensors only."""
    if not numbers:
        require_tensor(input, name)
        require_tensor(other, name, "other", 2)


def _declared(function: Binary, name: str, doc: str, facts: dict[str, Any]) -> Binary:
    """Declares a function as a method, with the ``facts`` of its entry."""
    function.__doc__ = doc
    function.__name__ = function.__qualname__ = name
    return declare(name, function, **{"method": True, "checks": True, **facts})


def _same(
    name: str,
    title: str,
    doc: str,
    kinds: str = "buif",
    scalar: str | None = None,
    **facts: Any,
) -> Binary:
    """A function whose result has the promoted dtype of its operands.

    ``scalar`` is the scalar function where it has another name, and a shorter one in errors.
    """
    build = scalar_build(scalar or name)
    kernel = name if scalar is None else f"{name[8]}shift"

    def function(input: Any, other: Any, *, out: Tensor | None = None) -> Tensor:
        try:
            _require_tensors(input, other, name, "i" in kinds and "f" not in kinds)
            x, y, dtype = pair(input, other, name)
            if dtype.kind not in kinds:
                raise NoKernelError(f"\"{kernel}_cpu\" not implemented for '{torch_name(dtype)}'")
            return give(mapped(build, (x, y), dtype, dtype), title, (input, other), out)
        except (TypeError, AttributeError):
            return answered(function)

    return _declared(function, name, doc, facts)


def _floating(name: str, title: str, doc: str, **facts: Any) -> Binary:
    """A function that computes whole numbers in the default dtype."""
    build = scalar_build(name)

    def function(input: Any, other: Any, *, out: Tensor | None = None) -> Tensor:
        try:
            _require_tensors(input, other, name, name in ("copysign", "xlogy"))
            input, other = floating_number(input), floating_number(other)
            x, y, dtype = pair(input, other, name)
            dtype = inexact(dtype)
            if dtype.kind == "c":
                raise NoKernelError(f"\"{name}_cpu\" not implemented for '{torch_name(dtype)}'")
            return give(mapped(build, (x, y), dtype, dtype), title, (input, other), out)
        except (TypeError, AttributeError):
            return answered(function)

    return _declared(function, name, doc, {"inplace": "method", **facts})


def _comparison(name: str, doc: str, **facts: Any) -> Binary:
    """A function to bool that compares in the promoted dtype."""
    build, kinds = scalar_build(name), FUNCTIONS[name].kinds

    def function(input: Any, other: Any, *, out: Tensor | None = None) -> Tensor:
        try:
            x, y, dtype = pair(input, other, name)
            if dtype.kind not in kinds:
                raise NoKernelError(f"\"{name}_cpu\" not implemented for '{torch_name(dtype)}'")
            return give(mapped(build, (x, y), dtype, None), name, (input, other), out)
        except (TypeError, AttributeError):
            return answered(function)

    return _declared(function, name, doc, {"inplace": "method", **facts})


def _logical(name: str, doc: str, **facts: Any) -> Binary:
    """A function to bool of operands taken as truth values."""
    build = scalar_build(name)

    def function(input: Any, other: Any, *, out: Tensor | None = None) -> Tensor:
        try:
            _require_tensors(input, other, name, False)
            x, y, _ = pair(input, other, name)
            return give(mapped(build, (x, y), bool_, None), name, (input, other), out)
        except (TypeError, AttributeError):
            return answered(function)

    return _declared(function, name, doc, {"inplace": "method", **facts})


maximum = _same("maximum", "Maximum", "The larger element; NaN wins.", saves="a")
minimum = _same("minimum", "Minimum", "The smaller element; NaN wins.", saves="a")
fmax = _same("fmax", "Fmax", "The larger element; a number wins over NaN.", saves="a")
fmin = _same("fmin", "Fmin", "The smaller element; a number wins over NaN.", saves="a")
hypot = _same(
    "hypot",
    "Hypot",
    "sqrt(input**2 + other**2) without overflow.",
    "f",
    inplace="method",
    saves="er",
)
bitwise_and = _same(
    "bitwise_and",
    "BitwiseAnd",
    "Bits set in both.",
    "bui",
    inplace="method",
    forms=ONE_TENSOR_PLAIN,
)
bitwise_or = _same(
    "bitwise_or",
    "BitwiseOr",
    "Bits set in either.",
    "bui",
    inplace="method",
    forms=ONE_TENSOR_PLAIN,
)
bitwise_xor = _same(
    "bitwise_xor",
    "BitwiseXor",
    "Bits set in one only.",
    "bui",
    inplace="method",
    forms=ONE_TENSOR_PLAIN,
)
bitwise_left_shift = _same(
    "bitwise_left_shift",
    "Shift",
    "Bits moved up by ``other`` places.",
    "ui",
    "shift_left",
    inplace="method",
    forms=ONE_TENSOR_PLAIN,
)
bitwise_right_shift = _same(
    "bitwise_right_shift",
    "Shift",
    "Bits moved down by ``other`` places.",
    "ui",
    "shift_right",
    inplace="method",
    forms=ONE_TENSOR_PLAIN,
)
atan2 = _floating(
    "atan2", "Atan2", "The angle of the point (other, input), in radians.", cast="widest", saves="a"
)
copysign = _floating(
    "copysign", "Copysign", "``input`` with the sign of ``other``.", saves="sr", forms=TENSOR_FIRST
)
xlogy = _floating(
    "xlogy",
    "Xlogy",
    "input * log(other), 0 where input is 0.",
    inplace="function",
    saves="a",
    forms=ONE_TENSOR,
)
eq = _comparison("eq", "Where the operands are equal.", forms=TENSOR_FIRST)
ne = _comparison("ne", "Where the operands differ.", forms=TENSOR_FIRST)
lt = _comparison("lt", "Where ``input`` is less.", forms=TENSOR_FIRST)
le = _comparison("le", "Where ``input`` is less or equal.", forms=TENSOR_FIRST)
gt = _comparison("gt", "Where ``input`` is greater.", forms=TENSOR_FIRST)
ge = _comparison("ge", "Where ``input`` is greater or equal.", forms=TENSOR_FIRST)
logical_and = _logical("logical_and", "Where both are true.")
logical_or = _logical("logical_or", "Where either is true.")
logical_xor = _logical("logical_xor", "Where exactly one is true.")


@function(checks=True)
def result_type(tensor: Any, other: Any) -> DType:
    """The dtype that arithmetic on the two operands gives, by PyTorch's promotion rules.

    Numbers are weaker than tensors: of a float64 tensor and ``1j`` it is complex128.
    """
    try:
        return operand_dtype([tensor, other])
    except (TypeError, AttributeError):
        return answered()


@function(method=True, inplace="function", checks=True)
def square(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """``input ** 2``."""
    try:
        return pow(input, 2, out=out)
    except (TypeError, AttributeError):
        return answered()


declare_grad_fn("ToCopy", layout=preserving)


def cast_to(input: Tensor, dtype: Any) -> Tensor:
    """``input`` in another dtype; the tensor itself when it has that dtype already."""
    wanted = as_dtype(dtype)
    if input.dtype is wanted:
        return input
    return give(ops.cast(input.node, wanted), "ToCopy", (input,))


# Other names that PyTorch has for the same functions.
subtract = declare("subtract", sub, method=True, inplace="method", checks=True)
multiply = declare("multiply", mul, method=True, inplace="method", checks=True)
arctan2 = declare("arctan2", atan2, method=True, inplace="method", checks=True, cast="widest")
not_equal = declare("not_equal", ne, method=True, inplace="method", checks=True)
less = declare("less", lt, method=True, inplace="method", checks=True)
less_equal = declare("less_equal", le, method=True, inplace="method", checks=True)
greater = declare("greater", gt, method=True, inplace="method", checks=True)
greater_equal = declare("greater_equal", ge, method=True, inplace="method", checks=True)


# Further functions of two operands: whole-number, step and scaling functions, and neighbours.


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


@function(method=True, inplace="function")
def gcd(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The greatest common divisor, not negative; 0 of two zeros.

    Raises NoKernelError for floating point and bools.
    """
    x, y, dtype = _operands(input, other, "gcd", "ui")
    return give(mapped(_GCD, (x, y), dtype, dtype), "gcd", (input, other), out)


@function(method=True, inplace="function")
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


@function(
    method=True,
    inplace="method",
    out_dtype="heaviside is not yet implemented for tensors with different dtypes.",
)
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


def _logaddexp_of_pairs(a: Expr, b: Expr) -> Expr:
    """The same of complex numbers, relative to the one of the larger real part."""
    x, y = call("real", a), call("real", b)
    first = call("gt", x, y)
    gap = call("where", first, call("sub", b, a), call("sub", a, b))
    total = call("add", call("where", first, a, b), call("log1p", call("exp", gap)))
    return call("where", call("logical_and", call("isinf", x), call("eq", x, y)), a, total)


def logaddexp_expr(a: Expr, b: Expr) -> Expr:
    """``log(exp(a) + exp(b))`` relative to the larger of the two."""
    if a.dtype.kind == "c":
        return _logaddexp_of_pairs(a, b)
    # Equal infinities have no difference: the sum is that infinity itself.
    top, gap = _larger(a, b)
    same = call("logical_and", call("isinf", a), call("eq", a, b))
    return call("where", same, a, call("add", top, call("log1p", call("exp_nonpositive", gap))))


@function(method=True, saves="a")
def logaddexp(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """``log(exp(input) + exp(other))`` without overflow. Raises NoKernelError for whole numbers."""
    x, y, dtype = _operands(input, other, "logaddexp", "fc")
    return give(mapped(logaddexp_expr, (x, y), dtype, dtype), "Logaddexp", (input, other), out)


def _logaddexp2(a: Expr, b: Expr) -> Expr:
    # Equal infinities have no difference: the sum is that infinity itself.
    top, gap = _larger(a, b)
    power = call("exp2", gap)
    rise = call("mul", call("log1p", power), const(1.4426950408889634, a.dtype))
    same = call("logical_and", call("isinf", a), call("eq", a, b))
    return call("where", same, a, call("add", top, rise))


@function(method=True, saves="a")
def logaddexp2(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """``log2(2**input + 2**other)``, without overflow. Raises DTypeError for whole numbers."""
    x, y, dtype = _operands(input, other, "logaddexp2", "f")
    return give(mapped(_logaddexp2, (x, y), dtype, dtype), "Logaddexp2", (input, other), out)


def _ldexp(x: Expr, n: Expr) -> Expr:
    return call("mul", x, call("pow", const(2, x.dtype), n))


@function(method=True)
def float_power_(input: Tensor, exponent: Any) -> Tensor:
    """``float_power`` in place. Raises DTypeError unless ``input`` is float64."""
    dtype = require_tensor(input, "float_power_").dtype
    if dtype is not float64:
        raise DTypeError(
            f"the base given to float_power_ has dtype {torch_name(dtype)} but the operation's "
            "result requires dtype Double"
        )
    return inplace_form(float_power, "float_power_")(input, exponent)


@function(method=True, inplace="function")
def ldexp(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """``input * 2**other``; whole numbers count as the default dtype."""
    require_tensor(input, "ldexp")
    x, y, dtype = pair(input, require_tensor(other, "ldexp", "other", 2), "ldexp")
    dtype = inexact(dtype)
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


@function(method=True, inplace="method")
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


@function(
    method=True, out_dtype="torch.frexp() expects mantissa to have dtype {want} but got {got}"
)
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


# Functions of three operands: products and quotients added to, and interpolation.


def _add_product(x: Expr, a: Expr, b: Expr, scale: Expr) -> Expr:
    return call("add", x, call("mul", call("mul", scale, a), b))


def _add_quotient(x: Expr, a: Expr, b: Expr, scale: Expr) -> Expr:
    return call("add", x, call("div", call("mul", scale, a), b))


def _add_scaled(
    build: Build, title: str, parts: tuple[Tensor, Any, Any], value: Any, out: Tensor | None
) -> Tensor:
    operands = [require_tensor(p, title.lower()) for p in parts]
    dtype = operand_dtype(operands)
    if title == "Addcdiv" and dtype.kind not in "fc":
        raise DTypeError(
            "Integer division with addcdiv is no longer supported, and in a future release "
            "addcdiv will perform a true division of tensor1 and tensor2. The historic addcdiv "
            "behavior can be implemented as (input + value * torch.trunc(tensor1 / tensor2)).to("
            "input.dtype) for integer inputs and as (input + value * tensor1 / tensor2) for float "
            "inputs. The future addcdiv behavior is just the latter implementation: (input + value "
            "* tensor1 / tensor2), for all dtypes."
        )
    if dtype is bool_:
        raise NoKernelError("\"addcmul_cpu_out\" not implemented for 'Bool'")
    broadcast_all([tuple(p.shape) for p in operands])
    if not isinstance(value, Tensor):
        refuse_number(value, dtype.compute)
    nodes = (*(p.node for p in operands), operand_node(value, dtype))
    return give(mapped(build, nodes, dtype, dtype), title, parts, out)


@function(
    method=True,
    inplace="method",
    cast="widest",
    scalars=("value",),
    old_forms=("self value tensor1 tensor2",),
    saves="P",
)
def addcmul(
    input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Any = 1, out: Tensor | None = None
) -> Tensor:
    """``input + value * tensor1 * tensor2``."""
    return _add_scaled(_add_product, "Addcmul", (input, tensor1, tensor2), value, out)


@function(
    method=True,
    inplace="method",
    cast="widest",
    scalars=("value",),
    old_forms=("self value tensor1 tensor2",),
    saves="D",
)
def addcdiv(
    input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Any = 1, out: Tensor | None = None
) -> Tensor:
    """``input + value * tensor1 / tensor2``. Raises DTypeError for whole numbers."""
    return _add_scaled(_add_quotient, "Addcdiv", (input, tensor1, tensor2), value, out)


def _lerp(start: Expr, end: Expr, weight: Expr) -> Expr:
    # Two forms, each exact at its own end, as PyTorch computes it.
    gap = call("sub", end, start)
    near = call("add", start, call("mul", weight, gap))
    far = call("sub", end, call("mul", gap, call("sub", const(1, weight.dtype), weight)))
    size = call("magnitude" if weight.dtype.kind == "c" else "abs", weight)
    return call("where", call("lt", size, const(0.5, size.dtype)), near, far)


_LERP_FORMS = (
    "Tensor input, Tensor end, Tensor weight, *, Tensor out = None",
    "Tensor input, Tensor end, Number weight, *, Tensor out = None",
)


@function(method=True, inplace="method", saves="l")
def lerp(input: Tensor, end: Tensor, weight: Any, *, out: Tensor | None = None) -> Tensor:
    """``input + weight * (end - input)``. Raises DTypeError for operands of different dtypes
    and for whole numbers."""
    x, y = require_tensor(input, "lerp"), require_tensor(end, "lerp", "end", 2)
    if x.dtype is not y.dtype:
        raise DTypeError(
            f"expected dtype {c_name(x.dtype)} for `end` but got dtype {c_name(y.dtype)}"
        )
    if not isinstance(weight, Tensor) and as_number(weight) is None:
        raise wrong_arguments("lerp", (input, end, weight), _LERP_FORMS)
    dtype = operand_dtype([x, y, weight]) if isinstance(weight, Tensor) else x.dtype
    if dtype.kind not in "fc":
        kernel = "lerp_kernel_tensor" if isinstance(weight, Tensor) else "lerp_kernel_scalar"
        raise NoKernelError(f"\"{kernel}\" not implemented for '{torch_name(dtype)}'")
    broadcast_all([tuple(t.shape) for t in (x, y, weight) if isinstance(t, Tensor)])
    if not isinstance(weight, Tensor):
        refuse_number(weight, dtype.compute)
    nodes = (x.node, y.node, operand_node(weight, dtype))
    return give(mapped(_lerp, nodes, dtype, dtype), "Lerp", (input, end, weight), out)
