"""Functions of one element, or of one from each array."""

from __future__ import annotations

from collections.abc import Callable
from math import nan
from typing import Any

from lazyt.array_api.creation import promote, together
from lazyt.functional import namespace as lazyt
from lazyt.handle.tensor import Tensor

_UNARY = {
    "abs": "abs", "acos": "acos", "acosh": "acosh", "asin": "asin", "asinh": "asinh",
    "atan": "atan", "atanh": "atanh", "bitwise_invert": "bitwise_not", "ceil": "ceil",
    "conj": "conj", "cos": "cos", "cosh": "cosh", "exp": "exp",
    "floor": "floor", "imag": "imag", "isfinite": "isfinite", "isinf": "isinf",
    "isnan": "isnan", "log": "log", "log1p": "log1p", "log2": "log2", "log10": "log10",
    "logical_not": "logical_not",
    "negative": "negative", "positive": "positive", "real": "real", "reciprocal": "reciprocal",
    "round": "round", "signbit": "signbit", "sin": "sin", "sinh": "sinh", "square": "square",
    "sqrt": "sqrt", "tan": "tan", "tanh": "tanh", "trunc": "trunc",
}  # fmt: skip
_BINARY = {
    "add": "add", "atan2": "atan2", "bitwise_and": "bitwise_and",
    "bitwise_left_shift": "bitwise_left_shift", "bitwise_or": "bitwise_or",
    "bitwise_right_shift": "bitwise_right_shift", "bitwise_xor": "bitwise_xor",
    "copysign": "copysign", "divide": "divide", "equal": "eq",
    "greater": "greater", "greater_equal": "greater_equal", "hypot": "hypot", "less": "less",
    "less_equal": "less_equal", "logaddexp": "logaddexp", "logical_and": "logical_and",
    "logical_or": "logical_or", "logical_xor": "logical_xor", "maximum": "maximum",
    "minimum": "minimum", "multiply": "multiply", "nextafter": "nextafter",
    "not_equal": "not_equal", "pow": "pow", "subtract": "subtract",
}  # fmt: skip

__all__ = [*_UNARY, *_BINARY, "clip", "expm1", "floor_divide", "remainder", "sign"]


def _unary(name: str, function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def apply(x: Tensor, /) -> Tensor:
        return function(x)

    apply.__name__ = apply.__qualname__ = name
    apply.__doc__ = f"``{name}`` of every element."
    return apply


def _binary(name: str, function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def apply(x1: Any, x2: Any, /) -> Tensor:
        return function(*together(x1, x2))

    apply.__name__ = apply.__qualname__ = name
    apply.__doc__ = f"``{name}`` of every two elements; one argument may be a Python number."
    return apply


globals().update({name: _unary(name, getattr(lazyt, own)) for name, own in _UNARY.items()})
globals().update({name: _binary(name, getattr(lazyt, own)) for name, own in _BINARY.items()})


def expm1(x: Tensor, /) -> Tensor:
    """``exp(x) - 1`` of every element; of complex ones with infinite real parts -1, or an infinity,
    where PyTorch gives NaN."""
    found: Tensor = lazyt.expm1(x)
    if not x.dtype.is_complex:
        return found
    real, imag = lazyt.real(x), lazyt.imag(x)
    lost = lazyt.isinf(real) & ~lazyt.isfinite(imag)
    other = lazyt.where(real < 0, lazyt.zeros_like(imag), lazyt.full_like(imag, nan))
    result: Tensor = lazyt.where(lost, lazyt.complex(lazyt.expm1(real), other), found)
    return result


def sign(x: Tensor, /) -> Tensor:
    """-1, 0 or 1 by the sign of every element, of complex ones ``x / abs(x)``; NaN stays."""
    if x.dtype.is_complex:
        return lazyt.sgn(x)
    found = lazyt.sign(x)
    return lazyt.where(x != x, x, found) if x.dtype.is_floating_point else found


def floor_divide(x1: Any, x2: Any, /) -> Tensor:
    """``x1 / x2`` rounded down.

    Of an infinity by a number it is an infinity, where PyTorch gives NaN, and of a number by an
    infinity zero, of the sign of the quotient.
    """
    left, right = together(x1, x2)
    found = lazyt.floor_divide(left, right)
    if not found.dtype.is_floating_point:
        return found
    one_infinite = lazyt.isinf(left) & lazyt.isfinite(right)
    one_infinite |= lazyt.isfinite(left) & lazyt.isinf(right)
    result: Tensor = lazyt.where(one_infinite, left / right, found)
    return result


def remainder(x1: Any, x2: Any, /) -> Tensor:
    """What is left by ``floor_divide``; it has the sign of ``x2``, zeros too."""
    left, right = together(x1, x2)
    found = lazyt.remainder(left, right)
    if not found.dtype.is_floating_point:
        return found
    result: Tensor = lazyt.where(found == 0, lazyt.copysign(found, right), found)
    return result


def clip(x: Tensor, /, min: Any = None, max: Any = None) -> Tensor:
    """Every element brought to between ``min`` and ``max``, numbers or arrays, where given."""
    found = x
    for bound, choose in ((min, lazyt.maximum), (max, lazyt.minimum)):
        if bound is not None:
            other = bound if isinstance(bound, Tensor) else lazyt.tensor(bound, dtype=x.dtype)
            kind = promote(found.dtype, other.dtype)
            found = choose(found.to(kind), other.to(kind))
    return found
