"""Activation functions: each is one map, differentiated as one scalar expression."""

from __future__ import annotations

import math
from collections.abc import Callable

from lazyt import ops
from lazyt.errors import ArgumentError, DTypeError, LazytError, ShapeError
from lazyt.functional.creation.nesting import LARGEST, refuse_number
from lazyt.functional.elementwise.unary import sigmoid, tanh
from lazyt.functional.operands import as_number, constant_of, mapped, normalize_dim, require_tensor
from lazyt.functional.random.random import uniform_node
from lazyt.functional.result_layout import preserving
from lazyt.functional.results import give
from lazyt.functional.type_promotion import (
    UnsupportedTypeError,
    get_default_dtype,
    require_floating,
)
from lazyt.handle.autocast import in_low_precision
from lazyt.handle.dispatch import type_title
from lazyt.handle.function_table import function
from lazyt.handle.tensor import Tensor
from lazyt.ir.dtypes import bool_
from lazyt.ir.graph import Node
from lazyt.ir.scalar import Expr, call, const

__all__ = [
    "celu", "celu_", "hardshrink", "prelu", "relu", "relu_", "rrelu", "rrelu_", "selu", "selu_",
    "threshold", "threshold_",
]  # fmt: skip


# Smooth activation functions as scalar expressions, with all derivatives.


def _of(value: float, like: Expr) -> Expr:
    return const(value, like.dtype)


def gelu_of(x: Expr) -> Expr:
    """x times the normal distribution function."""
    scaled = call("erf", call("mul", x, _of(math.sqrt(0.5), x)))
    return call("mul", call("mul", x, _of(0.5, x)), call("add", _of(1, x), scaled))


def gelu_tanh_of(x: Expr) -> Expr:
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


def mish_of(x: Expr) -> Expr:
    """x tanh(softplus(x)): the tangent is a quotient of powers of exp(x), or of exp(-x) where that
    does not overflow."""
    above = call("gt", x, _of(0, x))
    e = call("exp_nonpositive", call("where", above, call("neg", x), x))
    right = call("add", call("add", e, e), _of(1, x))
    part = call("where", above, right, call("mul", e, call("add", e, _of(2, x))))
    rest = call("where", above, call("mul", e, e), _of(1, x))
    return call("mul", x, call("div", part, call("add", part, call("add", rest, rest))))


def _apply(
    build: Callable[..., Expr], name: str, title: str, input: Tensor, *settings: float,
    kinds: str = "f", kernel: str = "", exact: int = 0,
) -> Tensor:  # fmt: skip
    """A map of floating point, or of other ``kinds``, too; ``kernel`` is PyTorch's own name.

    Raises LazytError for a setting that the type computed in, of the last ``exact`` ones the type
    of ``input``, cannot hold.
    """
    node = require_tensor(input, name).node
    dtype = node.dtype
    if dtype.kind not in kinds:
        require_floating(kernel or f"{name}_cpu", dtype)
    for place, number in enumerate(settings, exact - len(settings)):
        refuse_number(number, dtype if place >= 0 else dtype.compute)
    constants = tuple(constant_of(s, dtype.compute) for s in settings)
    return give(mapped(build, (node, *constants), dtype, dtype), title, (input,))


def _relu(x: Expr) -> Expr:
    return call("bound_below", x, _of(0, x))


def _by_relu(result: Node, cotangent: Node) -> Node:
    """The gradient by the saved result, of which it is a function with a gradient of zeros."""
    zero = ops.constant(0, result.dtype)
    part = ops.apply("where", ops.apply("gt", result, zero), cotangent, zero)
    return ops.apply("where", ops.constant(True, bool_), part, result)


@function(method=True, inplace="function", saves="r", by_result=_by_relu)
def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """``max(x, 0)``, with gradient 0 at 0. Raises DTypeError for bools."""
    node = require_tensor(input, "relu").node
    if node.dtype is bool_:
        raise DTypeError("Boolean inputs not supported for relu")
    if node.dtype.kind == "c":
        raise UnsupportedTypeError("clamp is not supported for complex types")
    result = give(mapped(_relu, (node,), node.dtype, node.dtype), "Relu", (input,))
    return written(input, result, inplace)


def written(input: Tensor, result: Tensor, inplace: bool) -> Tensor:
    """``result``, or ``input`` after ``result`` was written into it."""
    if not inplace:
        return result
    from lazyt.handle.dispatch import write_result

    return write_result(input, result)


@function()
def relu_(input: Tensor) -> Tensor:
    """``relu`` in place."""
    return relu(input, True)


@function(saves="a")
def gelu(input: Tensor, approximate: str = "none") -> Tensor:
    """x times the normal distribution function, exactly or by ``tanh``. Raises LazytError."""
    if approximate not in ("none", "tanh"):
        raise LazytError("approximate argument must be either none or tanh.")
    return _apply(gelu_of if approximate == "none" else gelu_tanh_of, "gelu", "Gelu", input,
                  kernel="GeluKernelImpl")  # fmt: skip


def _silu(x: Expr) -> Expr:
    return call("mul", x, call("sigmoid", x))


@function(saves="a")
def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """``x * sigmoid(x)``."""
    return written(input, _apply(_silu, "silu", "Silu", input, kinds="fc"), inplace)


def _softplus(x: Expr, beta: Expr, threshold: Expr) -> Expr:
    steep = call("mul", x, beta)
    high = call("gt", steep, threshold)
    soft = call("log1p", call("exp", call("where", high, threshold, steep)))
    return call("where", high, x, call("div", soft, beta))


@function(cast="full", saves="a")
def softplus(input: Tensor, beta: float = 1, threshold: float = 20) -> Tensor:
    """``log(1 + exp(beta * x)) / beta``, and x itself above the threshold."""
    return _apply(_softplus, "softplus", "Softplus", input, beta, threshold)


@function(saves="s")
def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """``x * tanh(softplus(x))``."""
    return written(input, _apply(mish_of, "mish", "Mish", input), inplace)


def _elu(x: Expr, alpha: Expr) -> Expr:
    below = call("le", x, _of(0, x))
    low = call("expm1", call("where", below, x, _of(0, x)))
    return call("where", below, call("mul", alpha, low), x)


@function(saves="a")
def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """x above 0, ``alpha * (exp(x) - 1)`` below."""
    return written(input, _apply(_elu, "elu", "Elu", input, alpha), inplace)


@function(saves="s")
def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """x above 0, ``alpha * (exp(x / alpha) - 1)`` below. Raises LazytError for alpha 0."""
    if alpha == 0:
        raise LazytError("ZeroDivisionError: alpha cannot be 0 for CELU")
    return written(input, _apply(_celu, "celu", "Celu", input, alpha), inplace)


def _celu(x: Expr, alpha: Expr) -> Expr:
    below = call("le", x, _of(0, x))
    low = call("expm1", call("div", call("where", below, x, _of(0, x)), alpha))
    return call("where", below, call("mul", alpha, low), x)


_SELU_ALPHA, _SELU_SCALE = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946


def _selu(x: Expr) -> Expr:
    return call("mul", _of(_SELU_SCALE, x), _elu(x, _of(_SELU_ALPHA, x)))


@function()
def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """``elu`` scaled so that variances are kept (Klambauer et al. 2017)."""
    return written(input, _apply(_selu, "selu", "Elu", input), inplace)


def _leaky(x: Expr, slope: Expr) -> Expr:
    return call("where", call("gt", x, _of(0, x)), x, call("mul", x, slope))


@function(saves="a")
def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """x above 0, ``negative_slope * x`` below."""
    result = _apply(_leaky, "leaky_relu", "LeakyRelu", input, negative_slope)
    return written(input, result, inplace)


@function(method=True, grad_name="PreluKernel", saves="a", layout=preserving)
@in_low_precision
def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """``leaky_relu`` with a learned slope, one for all or one per channel (dimension 1).

    Raises ShapeError for another number of slopes, DTypeError for two dtypes.
    """
    _check_slopes(input, weight)
    count = weight.numel()
    slope = ops.reshape(weight.node, (count, *(1,) * (input.ndim - 2)) if count > 1 else ())
    dtype = input.dtype
    return give(mapped(_leaky, (input.node, slope), dtype, dtype), "PreluKernel", (input, weight))


def _check_slopes(input: Tensor, weight: Tensor) -> None:
    if weight.ndim > 1:
        raise ShapeError(
            f"prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = {weight.ndim}"
        )
    count = weight.numel()
    if count != 1 and not input.ndim:
        raise ShapeError("Not allow zero-dim input tensor.")
    channels = input.shape[1] if input.ndim > 1 else 1
    if count != 1 and count != channels:
        raise ShapeError(
            f"Mismatch of parameter numbers and input channel size. Found parameter numbers = "
            f"{count} and channel size = {channels}."
        )
    if weight.dtype is not input.dtype:
        given, wanted = type_title(input.dtype), type_title(weight.dtype)
        raise DTypeError(f"prelu: Type promoting not supported. Got {given} and {wanted}")


def _clipped(x: Expr, low: Expr, high: Expr) -> Expr:
    return call("bound_above", call("bound_below", x, low), high)


@function(saves="a")
def hardtanh(
    input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False
) -> Tensor:
    """x kept within [min_val, max_val]. Raises ArgumentError when there is nothing between, and
    DTypeError for bools, and for unsigned numbers with a negative limit."""
    if min_val > max_val:
        raise ArgumentError("min_val cannot be greater than max_val")
    kind = require_tensor(input, "hardtanh").dtype.kind
    if kind == "b":
        raise DTypeError("Bool inputs not supported for hardtanh")
    if kind == "u" and min(min_val, max_val) < 0:
        raise DTypeError("cannot do hardtanh on an unsigned type with negative limits")
    limits = (min_val, max_val)
    result = _apply(_clipped, "hardtanh", "Hardtanh", input, *limits, kinds="fui", exact=2)
    return written(input, result, inplace)


@function()
def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """x kept within [0, 6]."""
    return hardtanh(input, 0.0, 6.0, inplace)


def _hardsigmoid(x: Expr) -> Expr:
    shifted = _clipped(call("add", x, _of(3, x)), _of(0, x), _of(6, x))
    return call("div", shifted, _of(6, x))


@function(saves="s")
def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """``relu6(x + 3) / 6``."""
    return written(input, _apply(_hardsigmoid, "hardsigmoid", "Hardsigmoid", input), inplace)


def _hardswish(x: Expr) -> Expr:
    return call("mul", x, _hardsigmoid(x))


@function(saves="s")
def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """``x * relu6(x + 3) / 6``."""
    return written(input, _apply(_hardswish, "hardswish", "Hardswish", input), inplace)


def _logsigmoid(x: Expr) -> Expr:
    return call("neg", softplus_of(call("neg", x)))


@function(grad_name="LogSigmoid", saves="a")
def logsigmoid(input: Tensor) -> Tensor:
    """``log(sigmoid(x))`` without underflow."""
    return _apply(_logsigmoid, "log_sigmoid", "LogSigmoid", input)


def _softsign(x: Expr) -> Expr:
    if x.dtype.kind == "c":
        size = call("magnitude", x)
        whole = call("add", _of(1, size), size)
        return call("div", x, call("complex", whole, _of(0, size)))
    return call("div", x, call("add", _of(1, x), call("abs", x)))


@function()
def softsign(input: Tensor) -> Tensor:
    """``x / (1 + |x|)``; of whole numbers in the default dtype."""
    if input.dtype.kind not in "fc":
        input = input.to(get_default_dtype())
    return _apply(_softsign, "softsign", "Div", input, kinds="fc")


def _threshold(x: Expr, limit: Expr, value: Expr) -> Expr:
    return call("where", call("le", x, limit), value, x)  # NaN stays


@function(saves="s")
def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """x above the threshold, ``value`` elsewhere. Raises DTypeError for what is no number, and
    LazytError for a ``value`` that the dtype cannot hold."""
    return _threshold_of(input, threshold, value, inplace)


def _threshold_of(input: Tensor, limit: float, fill: float, inplace: bool) -> Tensor:
    for place, (name, number) in enumerate((("threshold", limit), ("value", fill)), 2):
        if as_number(number) is None:
            text = f"threshold(): argument '{name}' (position {place}) must be Number, not "
            raise DTypeError(text + type(number).__name__)
    require_tensor(input, "threshold")
    if input.dtype.kind != "f":
        refuse_number(limit, input.dtype)
    result = _apply(_threshold, "threshold", "Threshold", input, limit, fill, kinds="fui", exact=1)
    return written(input, result, inplace)


def _softshrink(x: Expr, width: Expr) -> Expr:
    flat = call("mul", x, _of(0, x))  # NaN stays
    low = call("where", call("lt", x, call("neg", width)), call("add", x, width), flat)
    return call("where", call("gt", x, width), call("sub", x, width), low)


@function(saves="s")
def softshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """x moved towards 0 by ``lambd``, and 0 within it. Raises LazytError for a negative one."""
    require_floating("softshrink_check", require_tensor(input, "softshrink").dtype)
    top = LARGEST[input.dtype.name]
    if not 0 <= lambd <= top:
        raise LazytError(
            f"lambda must be in range [0, {top:g}] for input dtype {type_title(input.dtype)}, but "
            f"found {lambd:g}"
        )
    return _apply(_softshrink, "softshrink", "Softshrink", input, lambd)


def _hardshrink(x: Expr, width: Expr) -> Expr:
    return call("where", call("le", call("abs", x), width), _of(0, x), x)  # NaN stays


@function(method=True, saves="s")
def hardshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """x, and 0 within ``lambd`` of 0."""
    return _apply(_hardshrink, "hardshrink", "Hardshrink", input, lambd, exact=1)


@function()
def tanhshrink(input: Tensor) -> Tensor:
    """``x - tanh(x)``."""
    result: Tensor = input - tanh(input)
    return result


@function()
def glu(input: Tensor, dim: int = -1) -> Tensor:
    """The first half along ``dim`` times the sigmoid of the second. Raises LazytError."""
    require_floating("glu_cpu", input.dtype)
    if not input.shape:
        raise LazytError("glu does not support scalars because halving size must be even")
    axis = normalize_dim(dim, len(input.shape))
    extent = input.shape[axis]
    if extent % 2:
        raise LazytError(f"Halving dimension must be even, but dimension {axis} is size {extent}")
    first, second = (input.narrow(axis, start, extent // 2) for start in (0, extent // 2))
    result: Tensor = first * sigmoid(second)
    return result


def _sloped(x: Expr, draw: Expr, low: Expr, width: Expr) -> Expr:
    slope = call("add", low, call("mul", draw, width))
    return call("where", call("le", x, _of(0, x)), call("mul", x, slope), x)


@function()
def rrelu(
    input: Tensor, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False,
    inplace: bool = False,
) -> Tensor:  # fmt: skip
    """x above 0, below 0 times a slope of its own, uniform over [lower, upper) (Xu et al. 2015).

    Outside of training the slope is the middle of both. In training every call draws one number
    per element from one key of the default generator's stream. Raises LazytError for bounds in
    the wrong order.
    """
    for name, bound in (("lower", lower), ("upper", upper)):
        if not math.isfinite(bound):
            raise LazytError(f"rrelu: {name} bound must be finite, got {bound:g}")
    if lower > upper:
        raise LazytError("Lower bound should be less than or equal to the upper bound")
    if not training:
        return leaky_relu(input, (lower + upper) / 2, inplace)
    dtype = require_tensor(input, "rrelu").dtype
    require_floating("rrelu_with_noise_out_cpu", dtype)
    draw = uniform_node(tuple(input.shape), dtype.compute, None)
    bounds = (constant_of(v, dtype.compute) for v in (lower, upper - lower))
    node = mapped(_sloped, (input.node, draw, *bounds), dtype, dtype)
    return written(input, give(node, "RreluWithNoise", (input,)), inplace)


# ------------------------------------------------------------------ in place


@function()
def celu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """``celu`` in place."""
    return celu(input, alpha, True)


@function()
def elu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """``elu`` in place."""
    return elu(input, alpha, True)


@function()
def hardtanh_(input: Tensor, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """``hardtanh`` in place."""
    return hardtanh(input, min_val, max_val, True)


@function()
def leaky_relu_(input: Tensor, negative_slope: float = 0.01) -> Tensor:
    """``leaky_relu`` in place."""
    return leaky_relu(input, negative_slope, True)


@function()
def rrelu_(
    input: Tensor, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False
) -> Tensor:
    """``rrelu`` in place."""
    return rrelu(input, lower, upper, training, True)


@function()
def selu_(input: Tensor) -> Tensor:
    """``selu`` in place."""
    return selu(input, True)


@function()
def threshold_(input: Tensor, threshold: float, value: float) -> Tensor:
    """``threshold`` in place."""
    return _threshold_of(input, threshold, value, True)
