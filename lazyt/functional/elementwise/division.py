"""Division, rounded or not, and its remainders.

Whole numbers cannot be divided by zero. PyTorch says so at the line that tries, and so do these
functions: a divisor of whole numbers is looked at when the function is called, as an index is.
"""

from __future__ import annotations

from typing import Any

from lazyt import ops
from lazyt.errors import LazytError, NoKernelError
from lazyt.functional.indexing.picking import Range, value_range, within
from lazyt.functional.operands import (
    ONE_TENSOR_PLAIN,
    TENSOR_FIRST,
    Build,
    floating_number,
    mapped,
    pair,
    scalar_build,
)
from lazyt.functional.overriding import answered
from lazyt.functional.results import give
from lazyt.functional.type_promotion import inexact, torch_name
from lazyt.handle.function_table import declare, function
from lazyt.handle.tensor import Tensor
from lazyt.ir.dtypes import DType, bfloat16, float16, float32, float64
from lazyt.ir.graph import Node
from lazyt.ir.scalar import Expr, call

__all__ = ["div", "divide", "floor_divide", "fmod", "remainder", "true_divide"]

_DIV, _FLOORDIV = scalar_build("div"), scalar_build("floordiv")
_MOD, _FMOD = scalar_build("mod"), scalar_build("fmod")


@function(method=True, inplace="method", checks=True, saves="d", takes_number=True)
def div(
    input: Any, other: Any, *, rounding_mode: str | None = None, out: Tensor | None = None
) -> Tensor:
    """``input / other``: true division, or rounded ``"trunc"`` or ``"floor"``.

    Whole numbers divide truly in the default dtype. Raises LazytError for another mode, and for
    whole numbers rounded after a division by 0.
    """
    try:
        if rounding_mode == "floor":
            return _divided_down(input, other, "Div", out)
        if rounding_mode is None:
            input, other = floating_number(input), floating_number(other)
        x, y, dtype = pair(input, other, "div")
        if rounding_mode is None:
            dtype = inexact(dtype)
            return give(mapped(_DIV, (x, y), dtype, dtype), "Div", (input, other), out)
        if rounding_mode != "trunc":
            raise LazytError(
                "div expected rounding_mode to be one of None, 'trunc', or 'floor' "
                f"but found '{rounding_mode}'"
            )
        if dtype.kind in "bc":
            raise NoKernelError(f"\"div_trunc_cpu\" not implemented for '{torch_name(dtype)}'")
        _refuse_zeros(x, y, dtype)
        build = _TRUNC_DIVIDE.get(dtype, trunc_divide)
        if dtype.is_half and (not isinstance(other, Tensor) or other.shape.numel() == 1):
            build = _TRUNC_DIVIDE[float32]  # PyTorch's kernel for one divisor does not round first
        return give(mapped(build, (x, y), dtype, dtype), "Div", (input, other), out)
    except (TypeError, AttributeError):
        return answered()


def _trunc_divide(dtype: DType) -> Build:
    """Rounded towards 0; of half types after the quotient was rounded to them, as in PyTorch where
    both operands have several elements."""

    def build(a: Expr, b: Expr) -> Expr:
        quotient = call("cast", call("div", a, b), dtype=dtype)
        return call("trunc", call("cast", quotient, dtype=a.dtype))

    return build


_TRUNC_DIVIDE = {d: _trunc_divide(d) for d in (float16, bfloat16, float32, float64)}


def trunc_divide(a: Expr, b: Expr) -> Expr:
    """Whole numbers divided and rounded towards 0."""
    # a minus its remainder of a's sign divides exactly, so that floor and trunc agree.
    return call("floordiv", call("sub", a, call("fmod", a, b)), b)


_REASON = "divisors are checked for zeros"
_BIG = 1 << 64
#: Smallest and largest values of divisors that a captured function is replayed with.
_SIGNS: tuple[Range, ...] = (
    ((1, _BIG), (1, _BIG)), ((-_BIG, -1), (-_BIG, -1)), ((-_BIG, -1), (1, _BIG)),
)  # fmt: skip


def _refuse_zeros(dividend: Node, divisor: Node, dtype: DType) -> None:
    """Raise LazytError where a whole number is divided by 0, as PyTorch does; looks at divisors.

    Where nothing is divided, and for floating point, a zero is allowed.
    """
    if dtype.kind in "fc" or not dividend.size or not divisor.size:
        return
    if divisor.op.name == "const":
        zero = not divisor.params.value
    else:
        low, high = value_range(divisor, *_SIGNS, reason=_REASON)
        zero = low <= 0 <= high
        if zero:  # perhaps: there may be values of both signs
            among = ops.apply("eq", divisor, ops.constant(0, divisor.dtype))
            zero = value_range(among, within(0, 0), reason=_REASON)[1] != 0
    if zero:
        raise LazytError("ZeroDivisionError")


@function(method=True, inplace="method", checks=True, saves="x")
def floor_divide(input: Any, other: Any, *, out: Tensor | None = None) -> Tensor:
    """``input / other`` rounded down. Raises LazytError for a whole number by 0."""
    try:
        return _divided_down(input, other, "FloorDivide", out)
    except (TypeError, AttributeError):
        return answered()


def _divided_down(input: Any, other: Any, title: str, out: Tensor | None) -> Tensor:
    x, y, dtype = pair(input, other, "floor_divide")
    if dtype.kind in "bc":
        raise NoKernelError(f"\"div_floor_cpu\" not implemented for '{torch_name(dtype)}'")
    _refuse_zeros(x, y, dtype)
    return give(mapped(_FLOORDIV, (x, y), dtype, dtype), title, (input, other), out)


@function(method=True, inplace="method", checks=True, saves="o", forms=ONE_TENSOR_PLAIN)
def remainder(input: Any, other: Any, *, out: Tensor | None = None) -> Tensor:
    """The remainder with the sign of ``other``, as Python's ``%``.

    Raises LazytError for a whole number by 0.
    """
    try:
        x, y, dtype = pair(input, other, "remainder")
        if dtype.kind in "bc":
            raise NoKernelError(f"\"remainder_cpu\" not implemented for '{torch_name(dtype)}'")
        _refuse_zeros(x, y, dtype)
        return give(mapped(_MOD, (x, y), dtype, dtype), "Remainder", (input, other), out)
    except (TypeError, AttributeError):
        return answered()


@function(method=True, inplace="method", checks=True, saves="o", forms=TENSOR_FIRST)
def fmod(input: Any, other: Any, *, out: Tensor | None = None) -> Tensor:
    """The remainder with the sign of ``input``, as C's ``fmod``.

    Raises LazytError for a whole number by 0.
    """
    try:
        x, y, dtype = pair(input, other, "fmod")
        if dtype.kind in "bc":
            raise NoKernelError(f"\"fmod_cpu\" not implemented for '{torch_name(dtype)}'")
        _refuse_zeros(x, y, dtype)
        return give(mapped(_FMOD, (x, y), dtype, dtype), "Fmod", (input, other), out)
    except (TypeError, AttributeError):
        return answered()


# Other names that PyTorch has for the same function.
divide = declare("divide", div, method=True, inplace="method", checks=True)
true_divide = declare("true_divide", div, method=True, inplace="method", checks=True)
