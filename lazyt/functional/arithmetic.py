"""Functions of two operands, one element at a time: arithmetic, comparison, logic, bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from lazyt import ops
from lazyt.cast_mode import raised_on_gpu
from lazyt.dispatch import short_forms
from lazyt.errors import DTypeError, LazytError, NoKernelError
from lazyt.functional.nesting import refuse_number
from lazyt.functional.operands import (
    Build,
    as_number,
    floating_number,
    mapped,
    operand_dtype,
    require_tensor,
)
from lazyt.functional.operands import (
    scalar_build as scalar_build,
)
from lazyt.functional.pair_forms import check_pair, pair
from lazyt.functional.promotion import as_dtype, get_default_dtype, torch_name
from lazyt.functional.results import give
from lazyt.ir.dtypes import DType, bool_, float64
from lazyt.ir.forms import use
from lazyt.ir.scalar import Expr, call, const
from lazyt.tensor import Tensor

__all__ = [
    "add", "arctan2", "atan2", "bitwise_and", "bitwise_left_shift",
    "bitwise_or", "bitwise_right_shift", "bitwise_xor", "copysign", "eq",
    "float_power", "fmax", "fmin", "ge", "greater", "greater_equal",
    "gt", "hypot", "le", "less", "less_equal", "logical_and",
    "logical_or", "logical_xor", "lt", "maximum", "minimum", "mul", "multiply", "ne",
    "not_equal", "pow", "result_type", "rsub", "square", "sub", "subtract",
    "xlogy",
]  # fmt: skip

Binary = Callable[..., Tensor]


_ADD, _SUB, _MUL, _POW = (scalar_build(n) for n in ("add", "sub", "mul", "pow"))


def _scale(other: Any, alpha: Any, dtype: DType, sign: int = 1) -> Any:
    """``other * alpha``; raises DTypeError for a fraction of whole numbers, LazytError where the
    type cannot hold ``sign * alpha``."""
    if isinstance(alpha, np.generic) or (isinstance(alpha, Tensor) and not alpha.ndim):
        alpha = alpha.item()
    if isinstance(alpha, float) and dtype.kind != "f":
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
    from lazyt.functional.calls import by_old_form

    name = function.__name__
    named = {} if type(alpha) is int and alpha == 1 else {"alpha": alpha}
    found = by_old_form(name, parts, named if out is None else {**named, "out": out})
    if found is None:
        text = f"{name}() takes 2 positional arguments but {len(parts)} were given"
        raise DTypeError(text)
    return function(*found[0], **found[1])


def add(input: Any, other: Any, *old: Any, alpha: Any = 1, out: Tensor | None = None) -> Tensor:
    """``input + alpha * other``. Raises ShapeError, DTypeError as PyTorch does."""
    if old:
        return _in_old_form(add, (input, other, *old), alpha, out)
    x, y, dtype = pair(input, other, "add")
    if alpha != 1 or isinstance(alpha, bool):
        x, y, dtype = pair(input, _scale(other, alpha, dtype), "add")
    return give(mapped(_ADD, (x, y), dtype, dtype), "Add", (input, other), out)


def sub(input: Any, other: Any, *old: Any, alpha: Any = 1, out: Tensor | None = None) -> Tensor:
    """``input - alpha * other``. Raises DTypeError for bool operands."""
    if old:
        return _in_old_form(sub, (input, other, *old), alpha, out)
    if any(isinstance(o, bool) or getattr(o, "dtype", None) is bool_ for o in (input, other)):
        _refuse_bool(input, other)
    x, y, dtype = pair(input, other, "sub")
    if alpha != 1 or isinstance(alpha, bool):
        x, y, dtype = pair(input, _scale(other, alpha, dtype, -1), "sub")
    return give(mapped(_SUB, (x, y), dtype, dtype), "Sub", (input, other), out)


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


def rsub(input: Any, other: Any, *, alpha: Any = 1) -> Tensor:
    """``other - alpha * input``. Raises DTypeError as ``sub``, and unless ``input`` is a tensor."""
    check_pair(input, other, "rsub")
    return sub(other, input, alpha=alpha)


def mul(input: Any, other: Any, *, out: Tensor | None = None) -> Tensor:
    """``input * other``; of bools, the logical and."""
    x, y, dtype = pair(input, other, "mul")
    return give(mapped(_MUL, (x, y), dtype, dtype), "Mul", (input, other), out)


def _square(x: Expr) -> Expr:
    return call("mul", x, x)


def _cube(x: Expr) -> Expr:
    return call("mul", call("mul", x, x), x)


def _inverse_square(x: Expr) -> Expr:
    return call("reciprocal", call("mul", x, x))


# The exponents for which PyTorch computes something cheaper and rounds as that does.
_POWERS: dict[float, Build] = {
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


def pow(input: Any, exponent: Any, *, out: Tensor | None = None) -> Tensor:
    """``input ** exponent``. Raises LazytError for integers to negative integer powers."""
    if use.any and out is None:
        input, exponent = raised_on_gpu(input), raised_on_gpu(exponent)
    x, y, dtype = pair(input, exponent, "pow")
    name = "PowBackward1"
    if not isinstance(exponent, Tensor):
        name = "PowBackward0"
        number = as_number(exponent)
        if dtype.kind != "f" and number is not None and number < 0:
            raise LazytError("Integers to negative integer powers are not allowed.")
        build = _POWERS.get(float(number)) if number is not None else None
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


def float_power(input: Any, exponent: Any, *, out: Tensor | None = None) -> Tensor:
    """``input ** exponent`` in float64."""
    x, y, _ = pair(input, exponent, "float_power")
    number = None if isinstance(exponent, Tensor) else as_number(exponent)
    build = None if number is None else _POWERS.get(float(number))
    if build is not None:
        return give(mapped(build, (x,), float64, float64), "Pow", (input, exponent), out)
    return give(mapped(_POW, (x, y), float64, float64), "Pow", (input, exponent), out)


def _require_tensors(input: Any, other: Any, name: str, numbers: bool) -> None:
    """Raise DTypeError for numbers where PyTorch takes tensors only."""
    if not numbers:
        require_tensor(input, name)
        require_tensor(other, name, "other", 2)


def _same(
    name: str, title: str, doc: str, kinds: str = "buif", scalar: str | None = None
) -> Binary:
    """A function whose result has the promoted dtype of its operands.

    ``scalar`` is the scalar function where it has another name, and a shorter one in errors.
    """
    build = scalar_build(scalar or name)
    kernel = name if scalar is None else f"{name[8]}shift"

    def function(input: Any, other: Any, *, out: Tensor | None = None) -> Tensor:
        _require_tensors(input, other, name, "i" in kinds and "f" not in kinds)
        x, y, dtype = pair(input, other, name)
        if dtype.kind not in kinds:
            raise NoKernelError(f"\"{kernel}_cpu\" not implemented for '{torch_name(dtype)}'")
        return give(mapped(build, (x, y), dtype, dtype), title, (input, other), out)

    function.__doc__ = doc
    function.__name__ = function.__qualname__ = name
    return function


def _floating(name: str, title: str, doc: str) -> Binary:
    """A function that computes whole numbers in the default dtype."""
    build = scalar_build(name)

    def function(input: Any, other: Any, *, out: Tensor | None = None) -> Tensor:
        _require_tensors(input, other, name, name in ("copysign", "xlogy"))
        input, other = floating_number(input), floating_number(other)
        x, y, dtype = pair(input, other, name)
        if dtype.kind != "f":
            dtype = get_default_dtype()
        return give(mapped(build, (x, y), dtype, dtype), title, (input, other), out)

    function.__doc__ = doc
    function.__name__ = function.__qualname__ = name
    return function


def _comparison(name: str, doc: str) -> Binary:
    """A function to bool that compares in the promoted dtype."""
    build = scalar_build(name)

    def function(input: Any, other: Any, *, out: Tensor | None = None) -> Tensor:
        x, y, dtype = pair(input, other, name)
        return give(mapped(build, (x, y), dtype, None), name, (input, other), out)

    function.__doc__ = doc
    function.__name__ = function.__qualname__ = name
    return function


def _logical(name: str, doc: str) -> Binary:
    """A function to bool of operands taken as truth values."""
    build = scalar_build(name)

    def function(input: Any, other: Any, *, out: Tensor | None = None) -> Tensor:
        _require_tensors(input, other, name, False)
        x, y, _ = pair(input, other, name)
        return give(mapped(build, (x, y), bool_, None), name, (input, other), out)

    function.__doc__ = doc
    function.__name__ = function.__qualname__ = name
    return function


maximum = _same("maximum", "Maximum", "The larger element; NaN wins.")
minimum = _same("minimum", "Minimum", "The smaller element; NaN wins.")
fmax = _same("fmax", "Fmax", "The larger element; a number wins over NaN.")
fmin = _same("fmin", "Fmin", "The smaller element; a number wins over NaN.")
hypot = _same("hypot", "Hypot", "sqrt(input**2 + other**2) without overflow.", "f")
bitwise_and = _same("bitwise_and", "BitwiseAnd", "Bits set in both.", "bui")
bitwise_or = _same("bitwise_or", "BitwiseOr", "Bits set in either.", "bui")
bitwise_xor = _same("bitwise_xor", "BitwiseXor", "Bits set in one only.", "bui")
bitwise_left_shift = _same(
    "bitwise_left_shift", "Shift", "Bits moved up by ``other`` places.", "ui", "shift_left"
)
bitwise_right_shift = _same(
    "bitwise_right_shift", "Shift", "Bits moved down by ``other`` places.", "ui", "shift_right"
)
atan2 = _floating("atan2", "Atan2", "The angle of the point (other, input), in radians.")
copysign = _floating("copysign", "Copysign", "``input`` with the sign of ``other``.")
xlogy = _floating("xlogy", "Xlogy", "input * log(other), 0 where input is 0.")
eq = _comparison("eq", "Where the operands are equal.")
ne = _comparison("ne", "Where the operands differ.")
lt = _comparison("lt", "Where ``input`` is less.")
le = _comparison("le", "Where ``input`` is less or equal.")
gt = _comparison("gt", "Where ``input`` is greater.")
ge = _comparison("ge", "Where ``input`` is greater or equal.")
logical_and = _logical("logical_and", "Where both are true.")
logical_or = _logical("logical_or", "Where either is true.")
logical_xor = _logical("logical_xor", "Where exactly one is true.")


def result_type(tensor: Any, other: Any) -> DType:
    """The dtype that arithmetic on the two operands gives, by PyTorch's promotion rules.

    Raises DTypeError for complex numbers.
    """
    if isinstance(tensor, complex) or isinstance(other, complex):
        from lazyt.absent import reason  # not for `import lazyt`

        raise DTypeError(f"result_type(): {reason('complex')}")
    return operand_dtype([tensor, other])


def square(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """``input ** 2``."""
    return pow(input, 2, out=out)


def cast_to(input: Tensor, dtype: Any) -> Tensor:
    """``input`` in another dtype; the tensor itself when it has that dtype already."""
    wanted = as_dtype(dtype)
    if input.dtype is wanted:
        return input
    return give(ops.cast(input.node, wanted), "ToCopy", (input,))


# Other names that PyTorch has for the same functions.
subtract = sub
multiply = mul
arctan2 = atan2
not_equal = ne
less = lt
less_equal = le
greater = gt
greater_equal = ge
