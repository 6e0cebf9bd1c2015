"""Functions of one operand, one element at a time."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

from lazyt import ops
from lazyt.errors import DTypeError, LazytError, NoKernelError
from lazyt.functional.creation.nesting import refuse_number
from lazyt.functional.elementwise.arithmetic import scalar_build
from lazyt.functional.operands import Build, constant_of, mapped, require_tensor
from lazyt.functional.overriding import answered
from lazyt.functional.quick import quick_unary
from lazyt.functional.result_layout import rounding
from lazyt.functional.results import FOUND_DTYPE, give
from lazyt.functional.type_promotion import get_default_dtype, inexact, torch_name
from lazyt.handle.autocast import raised_on_gpu
from lazyt.handle.function_table import declare, function
from lazyt.handle.tape import titled
from lazyt.handle.tensor import Tensor
from lazyt.ir.dtypes import DType, bool_
from lazyt.ir.forms import use
from lazyt.ir.graph import Node
from lazyt.ir.scalar import FUNCTIONS, Call, Expr, call, const
from lazyt.ops.scalars import direction

__all__ = [
    "abs", "absolute", "acos", "acosh", "arccos", "arccosh", "arcsin", "arcsinh", "arctan",
    "arctanh", "asin", "asinh", "atan", "atanh", "bitwise_not", "ceil", "cos", "cosh", "deg2rad",
    "digamma", "erf", "erfc", "erfinv", "exp", "exp2", "expm1", "fix", "floor", "frac",
    "is_nonzero", "isfinite", "isinf", "isnan", "isneginf", "isposinf", "lgamma", "log", "log1p",
    "log2", "log10", "logical_not", "logit", "neg", "negative", "positive", "rad2deg",
    "reciprocal", "round", "rsqrt", "sgn", "sigmoid", "sign", "signbit", "sin", "sinc", "sinh",
    "sqrt", "tan", "tanh", "trunc",
]  # fmt: skip

Unary = Callable[..., Tensor]


def _declared(function: Unary, name: str, doc: str, facts: dict[str, Any]) -> Unary:
    """Declares a function as a method, with the ``facts`` of its entry."""
    function.__doc__ = doc
    function.__name__ = function.__qualname__ = name
    return declare(name, function, **{"method": True, **facts})


def floating_function(
    name: str, title: str, doc: str, build: Build | None, raised: bool, kinds: str = "f"
) -> Unary:
    """A function that gives floating point; bools and integers count as the default dtype.

    ``raised``: autocast on GPUs computes it in float32. ``kinds``: what it computes in, for a
    function with a ``build``.
    """
    rule = build or scalar_build(name)
    if build is None and "c" in FUNCTIONS[name].kinds:
        kinds = "fc"

    def function(input: Tensor, *, out: Tensor | None = None) -> Tensor:
        if raised and use.any and out is None:
            input = raised_on_gpu(require_tensor(input, name))
        node = require_tensor(input, name).node
        dtype = inexact(node.dtype)
        if dtype.kind not in kinds:
            raise NoKernelError(f"\"{name}_cpu\" not implemented for '{torch_name(dtype)}'")
        return give(mapped(rule, (node,), dtype, dtype), title, (input,), out)

    made = quick_unary(function)
    made.__doc__ = doc
    made.__name__ = made.__qualname__ = name
    return made


def floating(name: str, title: str, doc: str, build: Build | None = None, **facts: Any) -> Unary:
    """A ``floating_function`` that is declared."""
    raised = facts.get("cast") == "full"
    made = floating_function(name, title, doc, build, raised, facts.pop("kinds", "f"))
    return _declared(made, name, doc, {"inplace": "function", "grad_name": title, **facts})


def _same_dtype(
    name: str, title: str, doc: str, whole: bool, booleans: bool = False,
    of_pairs: Build | None = None, **facts: Any,
) -> Unary:  # fmt: skip
    """A function that keeps the dtype; with ``whole``, integers are copied as they are.

    ``of_pairs``: what it is for complex numbers.
    """
    rule = scalar_build(name)

    def function(input: Tensor, *, out: Tensor | None = None) -> Tensor:
        node = require_tensor(input, name).node
        dtype = node.dtype
        if dtype is bool_ and not booleans:
            kernel = f"{name}_vml_cpu" if whole else f"{name}_cpu"
            raise NoKernelError(f"\"{kernel}\" not implemented for 'Bool'")
        if dtype.kind == "c":
            if of_pairs is None:
                raise NoKernelError(f"\"{name}_cpu\" not implemented for '{torch_name(dtype)}'")
            return give(mapped(of_pairs, (node,), dtype, None), title, (input,), out)
        if dtype.kind != "f" and (whole or dtype is bool_):
            return give(ops.cast(node, dtype), title, (input,), out)
        return give(mapped(rule, (node,), dtype, dtype), title, (input,), out)

    return _declared(quick_unary(function), name, doc, {"inplace": "function", **facts})


def _testing(name: str, doc: str, **facts: Any) -> Unary:
    """A function to bool of floating point; integers count as the default dtype. Of complex numbers
    it is about their parts, all of them for what is finite, any for the others."""
    rule = scalar_build(name)

    def of_parts(z: Expr) -> Expr:
        parts = (call(name, call(part, z)) for part in ("real", "imag"))
        return call("logical_and" if name == "isfinite" else "logical_or", *parts)

    def function(input: Tensor) -> Tensor:
        node = require_tensor(input, name).node
        dtype = inexact(node.dtype)
        build = of_parts if dtype.kind == "c" else rule
        return give(mapped(build, (node,), dtype, None), name, (input,))

    return _declared(function, name, doc, {"checks": True, **facts})


def _signing(name: str, doc: str, build: Build | None = None, **facts: Any) -> Unary:
    """``_testing`` with ``out``, a tensor of bools."""
    rule = build or scalar_build(name)

    def function(input: Tensor, *, out: Tensor | None = None) -> Tensor:
        node = require_tensor(input, name).node
        if out is not None and out.dtype is not bool_:
            raise LazytError(f"{name} does not support non-boolean outputs.")
        dtype = node.dtype if node.dtype.kind == "f" else get_default_dtype()
        return give(mapped(rule, (node,), dtype, None), name, (input,), out)

    return _declared(function, name, doc, {"checks": True, **facts})


def _isposinf(x: Expr) -> Expr:
    return call("eq", x, const(math.inf, x.dtype))


def _isneginf(x: Expr) -> Expr:
    return call("eq", x, const(-math.inf, x.dtype))


def _scaled(factor: float) -> Build:
    def build(x: Expr) -> Expr:
        return call("mul", x, const(factor, x.dtype))

    return build


def _logit(x: Expr) -> Expr:
    return call("log", call("div", x, call("sub", const(1, x.dtype), x)))


def _logit_inside(x: Expr, low: Expr, high: Expr) -> Expr:
    # The lower bound rules where the two have crossed, as in PyTorch.
    kept = call("where", call("gt", x, high), high, x)
    return _logit(call("where", call("lt", x, low), low, kept))


def _sinc(x: Expr) -> Expr:
    one, zero = const(1, x.dtype), const(0, x.dtype)
    angle = call("mul", x, const(math.pi, x.dtype))
    at_zero = call("eq", x, zero)
    safe = call("where", at_zero, one, angle)
    return call("where", at_zero, one, call("div", call("sin", safe), safe))


def _frac(x: Expr) -> Expr:
    return call("sub", x, call("trunc", x))


# Gradients as PyTorch computes them from the result that it saved.


def _by(factor: Callable[[Node], Node]) -> Callable[[Node, Node], Node]:
    """The gradient that is the cotangent times (the conjugate of) ``factor`` of the result."""
    return lambda result, cotangent: ops.apply("mul", cotangent, ops.conj(factor(result)))


def _product(node: Node, factor: float) -> Node:
    return ops.apply("mul", node, ops.constant(factor, node.dtype))


def _sum(node: Node, number: float) -> Node:
    return ops.apply("add", node, ops.constant(number, node.dtype))


def _squared(node: Node) -> Node:
    return ops.apply("mul", node, node)


exp = floating(
    "exp",
    "Exp",
    "e to the power of each element.",
    cast="full",
    saves="r",
    by_result=_by(lambda result: result),
)
exp2 = floating(
    "exp2",
    "Exp2",
    "2 to the power of each element.",
    saves="r",
    by_result=_by(lambda result: _product(result, math.log(2))),
)
expm1 = floating(
    "expm1",
    "Expm1",
    "exp(x) - 1, accurate near 0.",
    cast="full",
    saves="r",
    by_result=_by(lambda result: _sum(result, 1)),
)
log = floating("log", "Log", "The natural logarithm.", cast="full", saves="a")
log2 = floating("log2", "Log2", "The logarithm to base 2.", cast="full", saves="a")
log10 = floating("log10", "Log10", "The logarithm to base 10.", cast="full", saves="a")
log1p = floating("log1p", "Log1P", "log(1 + x), accurate near 0.", cast="full", saves="a")
sqrt = floating(
    "sqrt",
    "Sqrt",
    "The square root; NaN below 0.",
    saves="r",
    by_result=lambda result, cotangent: ops.apply("div", cotangent, _product(ops.conj(result), 2)),
)
rsqrt = floating(
    "rsqrt",
    "Rsqrt",
    "1 / sqrt(x).",
    cast="full",
    saves="r",
    by_result=_by(lambda result: _product(ops.apply("mul", result, _squared(result)), -0.5)),
)
reciprocal = floating(
    "reciprocal",
    "Reciprocal",
    "1 / x.",
    cast="full",
    saves="r",
    by_result=_by(lambda result: _product(_squared(result), -1)),
)
sin = floating("sin", "Sin", "The sine of radians.", saves="a")
cos = floating("cos", "Cos", "The cosine of radians.", saves="a")
tan = floating(
    "tan",
    "Tan",
    "The tangent of radians.",
    cast="full",
    saves="r",
    by_result=_by(lambda result: _sum(_squared(result), 1)),
)
asin = floating("asin", "Asin", "The angle whose sine it is.", cast="full", saves="a")
acos = floating("acos", "Acos", "The angle whose cosine it is.", cast="full", saves="a")
atan = floating("atan", "Atan", "The angle whose tangent it is.", saves="a")
sinh = floating("sinh", "Sinh", "The hyperbolic sine.", cast="full", saves="a")
cosh = floating("cosh", "Cosh", "The hyperbolic cosine.", cast="full", saves="a")
tanh = floating(
    "tanh",
    "Tanh",
    "The hyperbolic tangent.",
    saves="r",
    by_result=_by(lambda result: _sum(_product(_squared(result), -1), 1)),
)
asinh = floating("asinh", "Asinh", "The inverse hyperbolic sine.", saves="a")
acosh = floating("acosh", "Acosh", "The inverse hyperbolic cosine.", saves="a")
atanh = floating("atanh", "Atanh", "The inverse hyperbolic tangent.", saves="a")
erf = floating("erf", "Erf", "The error function.", saves="a")
erfc = floating("erfc", "Erfc", "1 - erf(x).", saves="a")
erfinv = floating(
    "erfinv",
    "Erfinv",
    "The inverse of the error function.",
    inplace="method",
    cast="full",
    saves="a",
)
lgamma = floating(
    "lgamma", "Lgamma", "The logarithm of the absolute gamma function.", inplace="method", saves="a"
)
digamma = floating("digamma", "Digamma", "The derivative of lgamma.", inplace="method", saves="a")
sigmoid = floating(
    "sigmoid",
    "Sigmoid",
    "1 / (1 + exp(-x)).",
    saves="r",
    by_result=_by(lambda result: ops.apply("mul", _sum(_product(result, -1), 1), result)),
)
sinc = floating("sinc", "Sinc", "sin(pi x) / (pi x), 1 at 0.", _sinc, saves="s", kinds="fc")
deg2rad = floating("deg2rad", "Deg2Rad", "Degrees as radians.", _scaled(math.pi / 180))
rad2deg = floating("rad2deg", "Rad2Deg", "Radians as degrees.", _scaled(180 / math.pi))
abs = _same_dtype(
    "abs", "Abs", "The absolute value.", whole=False, of_pairs=scalar_build("magnitude"), saves="a"
)
sign = _same_dtype(
    "sign",
    "Sign",
    "-1, 0 or 1.",
    whole=False,
    booleans=True,
    inplace="method",
    out_dtype=FOUND_DTYPE,
)
floor = _same_dtype("floor", "Floor", "The next whole number below.", whole=True, layout=rounding)
ceil = _same_dtype("ceil", "Ceil", "The next whole number above.", whole=True, layout=rounding)
trunc = _same_dtype("trunc", "Trunc", "The whole number towards 0.", whole=True, layout=rounding)
isnan = _testing("isnan", "Where the value is not a number.")
isinf = _testing("isinf", "Where the value is infinite.")
isfinite = _testing("isfinite", "Where the value is neither infinite nor NaN.")
signbit = _signing("signbit", "Where the sign is minus; -0.0 counts.")
isposinf = _signing("isposinf", "Where the value is +inf.", _isposinf)
isneginf = _signing("isneginf", "Where the value is -inf.", _isneginf)


@function(method=True, inplace="function", checks=True)
def frac(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The part after the point, with the sign of x. Raises NoKernelError for whole numbers."""
    try:
        node = require_tensor(input, "frac").node
        dtype = node.dtype
        if dtype.kind != "f":
            raise NoKernelError(f"\"frac_cpu\" not implemented for '{torch_name(dtype)}'")
        return give(mapped(_frac, (node,), dtype, dtype), "Frac", (input,), out)
    except (TypeError, AttributeError):
        return answered()


_NEG, _ROUND = scalar_build("neg"), scalar_build("round")
_NOT, _INVERT = scalar_build("logical_not"), scalar_build("bitwise_not")


@function(method=True, inplace="function", checks=True, out_dtype=FOUND_DTYPE)
def neg(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """``-input``. Raises DTypeError for bools."""
    try:
        node = require_tensor(input, "neg").node
        if node.dtype is bool_:
            raise DTypeError(
                "Negation, the `-` operator, on a bool tensor is not supported. If you are trying "
                "to invert a mask, use the `~` or `logical_not()` operator instead."
            )
        return give(mapped(_NEG, (node,), node.dtype, node.dtype), "Neg", (input,), out)
    except (TypeError, AttributeError):
        return answered()


@function(method=True, checks=True)
def positive(input: Tensor) -> Tensor:
    """``+input``: the tensor itself. Raises DTypeError for bools."""
    try:
        if require_tensor(input, "positive").dtype is bool_:
            raise DTypeError("The `+` operator, on a bool tensor is not supported.")
        return input
    except (TypeError, AttributeError):
        return answered()


@function(method=True, inplace="method", checks=True)
def logical_not(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Where ``input`` is false (zero)."""
    try:
        node = require_tensor(input, "logical_not").node
        return give(mapped(_NOT, (node,), bool_, None), "logical_not", (input,), out)
    except (TypeError, AttributeError):
        return answered()


@function(method=True, inplace="method", checks=True)
def bitwise_not(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Every bit inverted; of bools, the logical not. Raises DTypeError for floating point."""
    try:
        node = require_tensor(input, "bitwise_not").node
        dtype = node.dtype
        if dtype.kind == "f":
            raise NoKernelError(f"\"bitwise_not_cpu\" not implemented for '{torch_name(dtype)}'")
        build = _NOT if dtype is bool_ else _INVERT
        return give(mapped(build, (node,), dtype, dtype), "bitwise_not", (input,), out)
    except (TypeError, AttributeError):
        return answered()


def invert(input: Tensor) -> Tensor:
    """The ``~`` operator. Raises DTypeError for floating point."""
    if input.dtype.kind == "f":
        raise DTypeError(
            "~ (operator.invert) is only implemented on integer and Boolean-type tensors"
        )
    return bitwise_not(input)


def _round_to(x: Expr, scale: Expr) -> Expr:
    return call("div", call("round", call("mul", x, scale)), scale)


def _round_from(x: Expr, scale: Expr) -> Expr:
    return call("mul", call("round", call("div", x, scale)), scale)


@function(method=True, inplace="function", checks=True, layout=rounding, out_dtype=FOUND_DTYPE)
def round(input: Tensor, *, decimals: int = 0, out: Tensor | None = None) -> Tensor:
    """The nearest whole number, or multiple of ``10**-decimals``; halves go to even."""
    try:
        node = require_tensor(input, "round").node
        decimals = operator.index(decimals)
        dtype: DType = node.dtype
        if dtype is bool_ or (dtype.kind != "f" and decimals):
            kernel = "round_cpu" if decimals else "round_vml_cpu"
            raise NoKernelError(f"\"{kernel}\" not implemented for '{torch_name(dtype)}'")
        if dtype.kind != "f":
            return give(ops.cast(node, dtype), "Round", (input,), out)
        if not decimals:
            return give(mapped(_ROUND, (node,), dtype, dtype), "Round", (input,), out)
        scale = constant_of(math.pow(10.0, math.fabs(decimals)), dtype.compute)
        build = _round_to if decimals > 0 else _round_from
        return give(mapped(build, (node, scale), dtype, dtype), "Round", (input,), out)
    except (TypeError, AttributeError):
        return answered()


@function(method=True, inplace="function", checks=True, saves="a")
def logit(input: Tensor, eps: float | None = None, *, out: Tensor | None = None) -> Tensor:
    """log(x / (1 - x)), with x kept within [eps, 1 - eps] when ``eps`` is given."""
    try:
        node = require_tensor(input, "logit").node
        dtype = node.dtype if node.dtype.kind == "f" else get_default_dtype()
        if eps is None:
            return give(mapped(_logit, (node,), dtype, dtype), "Logit", (input,), out)
        refuse_number(eps, dtype)
        low, high = (constant_of(float(v), dtype.compute) for v in (eps, 1 - eps))
        return give(mapped(_logit_inside, (node, low, high), dtype, dtype), "Logit", (input,), out)
    except (TypeError, AttributeError):
        return answered()


@function(method=True, checks=True)
def is_nonzero(input: Tensor) -> bool:
    """The truth of a tensor of one element; raises as ``bool(tensor)`` does."""
    try:
        return bool(require_tensor(input, "is_nonzero"))
    except (TypeError, AttributeError):
        return answered()


def _direction(z: Expr) -> Expr:
    size = call("magnitude", z)
    assert isinstance(size, Call)
    return direction(size)


@function(method=True, inplace="method", checks=True, saves="ar")
def sgn(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """``sign``, or the direction from the origin: ``z / |z|``, 0 at the origin."""
    try:
        node = require_tensor(input, "sgn").node
        if node.dtype.kind == "c":
            return give(mapped(_direction, (node,), node.dtype, None), "Sgn", (input,), out)
        found: Tensor = sign(input, out=out)
        return titled(found, "SgnBackward0")
    except (TypeError, AttributeError):
        return answered()


# Other names that PyTorch has for the same functions.
arcsin = declare("arcsin", asin, method=True, inplace="function", checks=True, cast="full")
arccos = declare("arccos", acos, method=True, inplace="function", checks=True, cast="full")
arctan = declare("arctan", atan, method=True, inplace="function", checks=True)
arcsinh = declare("arcsinh", asinh, method=True, inplace="function", checks=True)
arccosh = declare("arccosh", acosh, method=True, inplace="function", checks=True)
arctanh = declare("arctanh", atanh, method=True, inplace="function", checks=True)
absolute = declare("absolute", abs, method=True, inplace="method", checks=True)
fix = declare("fix", trunc, method=True, inplace="function", checks=True)
negative = declare("negative", neg, method=True, inplace="function", checks=True)
