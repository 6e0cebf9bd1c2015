"""Loss functions of values. ``reduction`` is ``"mean"``, ``"sum"`` or ``"none"``."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from lazyt import ops
from lazyt.errors import DTypeError, LazytError, ShapeError, warn
from lazyt.functional.elementwise.arithmetic import sub
from lazyt.functional.elementwise.choice import where
from lazyt.functional.nn.loss_reduction import (
    ReductionError,
    chosen_reduction,
    reduced,
    reduced_tensor,
    warn_of_sizes,
)
from lazyt.functional.operands import broadcast_pair, constant_of, mapped, require_tensor
from lazyt.functional.results import give
from lazyt.functional.type_promotion import c_name, promote_pair, promote_types, refuse, refuse_cast
from lazyt.functional.value_checks import check_unit_interval, check_variances
from lazyt.handle.autocast import in_full_precision
from lazyt.handle.dispatch import type_title
from lazyt.handle.function_table import function
from lazyt.handle.tensor import Tensor
from lazyt.ir.scalar import Expr, call, const


def _pairwise(
    build: Any, title: str, input: Tensor, target: Tensor, reduction: str, *settings: float,
    weight: Tensor | None = None,
) -> Tensor:  # fmt: skip
    x, y = input.node, target.node
    broadcast_pair(*((y.shape, x.shape) if title == "KlDiv" else (x.shape, y.shape)))
    dtype = promote_pair(x.dtype, len(x.shape), y.dtype, len(y.shape))
    constants = tuple(constant_of(s, dtype.compute) for s in settings)
    node = mapped(build, (x, y, *constants), dtype, None)
    if weight is None:
        return give(reduced(node, reduction, dtype), title, (input, target))
    if weight.shape != input.shape:
        raise ReductionError("Weights and input must have the same size.")
    scale = ops.cast(weight.node, node.dtype)
    node = ops.apply("mul", node, scale)
    by_weight = reduction == "mean" and build is not _huber  # PyTorch divides that by the count
    result = reduced(node, "sum" if by_weight else reduction, node.dtype)
    if by_weight:
        result = ops.apply("div", result, reduced(scale, "sum", node.dtype))
    return give(ops.cast(result, dtype), title, (input, target, weight))


def _squared(x: Expr, y: Expr) -> Expr:
    gap = call("sub", x, y)
    return call("mul", gap, gap)


def _absolute(x: Expr, y: Expr) -> Expr:
    return call("abs", call("sub", x, y))


def _half(x: Expr) -> Expr:
    return call("mul", x, const(0.5, x.dtype))


def _huber(x: Expr, y: Expr, delta: Expr) -> Expr:
    gap, signed = _absolute(x, y), call("sub", x, y)
    far = call("mul", delta, call("sub", gap, _half(delta)))
    near = call("mul", _half(signed), signed)
    return call("where", call("le", gap, delta), near, far)


def _smooth(x: Expr, y: Expr, beta: Expr) -> Expr:
    gap, signed = _absolute(x, y), call("sub", x, y)
    near = call("div", call("mul", _half(signed), signed), beta)
    return call("where", call("lt", gap, beta), near, call("sub", gap, _half(beta)))


@function(cast="full", saves="a")
@in_full_precision
def mse_loss(
    input: Tensor, target: Tensor, size_average: Any = None, reduce: Any = None,
    reduction: str = "mean", weight: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The mean of squared differences, by ``weight`` if there is one.

    Raises ShapeError for shapes that do not fit, ReductionError for other settings.
    """
    reduction = chosen_reduction(reduction, size_average, reduce)
    warn_of_sizes(input, target)
    if input.dtype.kind != "f" and target.dtype.kind != "f":
        refuse("mse_cpu", input.dtype)
    return _pairwise(_squared, "MseLoss", input, target, reduction, weight=weight)


@function(cast="full")
@in_full_precision
def l1_loss(
    input: Tensor, target: Tensor, size_average: Any = None, reduce: Any = None,
    reduction: str = "mean", weight: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The mean of absolute differences, by ``weight`` if there is one. Raises ShapeError."""
    reduction = chosen_reduction(reduction, size_average, reduce)
    warn_of_sizes(input, target)
    if weight is None:
        return reduced_tensor(sub(input, target).abs(), reduction)
    return _pairwise(_absolute, "Mean", input, target, reduction, weight=weight)


@function(cast="full", saves="a")
@in_full_precision
def huber_loss(
    input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0,
    weight: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Half the squared difference, straight beyond ``delta`` (Huber 1964).

    Raises ShapeError, ReductionError, and LazytError for a ``delta`` of 0 or less.
    """
    reduction = chosen_reduction(reduction, None, None)
    warn_of_sizes(input, target)
    if not delta > 0:  # nor NaN
        raise LazytError("huber_loss does not support non-positive values for delta.")
    if input.dtype.kind != "f" and target.dtype.kind != "f":
        refuse("huber_cpu", input.dtype)
    return _pairwise(_huber, "HuberLoss", input, target, reduction, delta, weight=weight)


@function(cast="full", saves="a")
@in_full_precision
def smooth_l1_loss(
    input: Tensor, target: Tensor, size_average: Any = None, reduce: Any = None,
    reduction: str = "mean", beta: float = 1.0,
) -> Tensor:  # fmt: skip
    """``huber_loss / beta``; ``l1_loss`` for beta 0. Raises LazytError for a negative ``beta``."""
    reduction = chosen_reduction(reduction, size_average, reduce)
    warn_of_sizes(input, target)
    if not beta >= 0:  # nor NaN
        raise LazytError("smooth_l1_loss does not support negative values for beta.")
    if beta == 0:
        return _pairwise(_absolute, "Mean", input, target, reduction)
    if input.dtype.kind != "f" and target.dtype.kind != "f":
        refuse("smooth_l1_cpu", input.dtype)
    return _pairwise(_smooth, "SmoothL1Loss", input, target, reduction, beta)


_CERTAIN = 1e-12


def _bounded_log(x: Expr) -> Expr:
    # PyTorch bounds the logarithm so that certainty in the wrong answer stays finite.
    return call("maximum", call("log", x), const(-100.0, x.dtype))


def _entropy(x: Expr, y: Expr, log: Callable[[Expr], Expr]) -> Expr:
    one = const(1, x.dtype)
    wrong = call("mul", call("sub", y, one), log(call("sub", one, x)))
    return call("sub", wrong, call("mul", y, log(x)))


def _binary_cross_entropy(x: Expr, y: Expr, fixed: Expr) -> Expr:
    """``fixed`` is ``x`` without its gradient: near 0 and 1 PyTorch bounds the slope as well."""
    certain = const(_CERTAIN, x.dtype)
    room = call("mul", fixed, call("sub", const(1, x.dtype), fixed))
    inside = call("gt", room, certain)
    usual = _entropy(call("where", inside, x, const(0.5, x.dtype)), y, lambda v: call("log", v))
    slope = call("div", call("sub", fixed, y), certain)
    rise = call("mul", call("sub", x, fixed), slope)  # 0, with a derivative
    return call("where", inside, usual, call("add", _entropy(fixed, y, _bounded_log), rise))


@function(cast="unsafe", saves="a")
@in_full_precision
def binary_cross_entropy(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: Any = None,
    reduce: Any = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """The cross entropy of probabilities and truths. Raises ShapeError for two sizes.

    Raises LazytError for probabilities and truths outside of [0, 1].
    """
    reduction = chosen_reduction(reduction, size_average, reduce)
    if input.shape != target.shape:
        raise ShapeError(
            f"Using a target size ({target.shape}) that is different to the input size "
            f"({input.shape}) is deprecated. Please ensure they have the same size."
        )
    if target.dtype is not input.dtype and target.dtype.kind != "f":
        found, wanted = type_title(target.dtype), type_title(input.dtype)
        raise DTypeError(f"Found dtype {found} but expected {wanted}")
    check_unit_interval(input, target)
    given = (input.node, target.node, ops.detach(input.node))
    node = mapped(_binary_cross_entropy, given, input.dtype, None)
    if weight is not None:
        node = ops.apply("mul", node, ops.cast(weight.node, node.dtype))
    return give(reduced(node, reduction, input.dtype), "BinaryCrossEntropy", (input, target))


def _with_logits(x: Expr, y: Expr, positive: Expr) -> Expr:
    one = const(1, x.dtype)
    slope = call("add", one, call("mul", call("sub", positive, one), y))
    below = call("lt", x, const(0, x.dtype))  # no kink, so that it has all derivatives
    soft = call("log1p", call("exp_nonpositive", call("where", below, x, call("neg", x))))
    soft = call("add", soft, call("where", below, call("neg", x), const(0, x.dtype)))
    return call("add", call("mul", call("sub", one, y), x), call("mul", slope, soft))


@function(cast="full", saves="a")
@in_full_precision
def binary_cross_entropy_with_logits(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: Any = None,
    reduce: Any = None, reduction: str = "mean", pos_weight: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """``binary_cross_entropy`` of ``sigmoid(input)``, without overflow. Raises ShapeError."""
    reduction = chosen_reduction(reduction, size_average, reduce)
    if input.shape != target.shape:
        raise ShapeError(
            f"Target size ({target.shape}) must be the same as input size ({input.shape})"
        )
    _check_logits(input, target)
    dtype = target.dtype
    if pos_weight is not None:
        broadcast_pair(tuple(pos_weight.shape), tuple(input.shape))
    positive = constant_of(1.0, dtype.compute) if pos_weight is None else pos_weight.node
    wide = promote_types(input.dtype, dtype)
    node = mapped(_with_logits, (input.node, target.node, positive), wide, None)
    if weight is not None:
        node = ops.apply("mul", node, ops.cast(weight.node, node.dtype))
    parents = (target, input)  # in PyTorch's order of reading, which the result lies in memory by
    return give(reduced(node, reduction, dtype), "BinaryCrossEntropyWithLogits", parents)


def _check_logits(input: Tensor, target: Tensor) -> None:
    """Raise DTypeError in PyTorch's words: the loss is computed in the target's dtype."""
    if input.dtype.kind != "f":
        refuse("log_sigmoid_cpu", input.dtype)
    if target.dtype.kind == "b":
        raise DTypeError(
            "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or "
            "`logical_xor()` operator instead."
        )
    if target.dtype.kind != "f":
        refuse_cast(input.dtype, target.dtype)


def _divergence(x: Expr, y: Expr) -> Expr:
    zero = const(0, y.dtype)
    safe = call("where", call("eq", y, zero), const(1, y.dtype), y)
    own = call("mul", y, call("log", safe))
    return call("sub", own, call("mul", y, x))


def _log_divergence(x: Expr, y: Expr) -> Expr:
    return call("mul", call("exp", y), call("sub", y, x))


_TWO_MEANS = (
    "reduction: 'mean' divides the total loss by both the batch size and the support size."
    "'batchmean' divides only by the batch size, and aligns with the KL div math definition."
    "'mean' will be changed to behave the same as 'batchmean' in the next major release."
)


@function(cast="full", saves="d")
@in_full_precision
def kl_div(
    input: Tensor, target: Tensor, size_average: Any = None, reduce: Any = None,
    reduction: str = "mean", log_target: bool = False,
) -> Tensor:  # fmt: skip
    """Kullback-Leibler divergence of ``target`` from log-probabilities ``input``.

    ``reduction`` may also be ``"batchmean"``: the sum over the size of the first dimension.
    """
    require_tensor(input, "kl_div")
    replaced = size_average is not None or reduce is not None
    if reduction == "mean" and not replaced:
        warn(_TWO_MEANS)
    if reduction != "batchmean" or replaced:
        reduction = chosen_reduction(reduction, size_average, reduce)
    if reduction != "batchmean":
        return divergence(input, target, reduction, log_target)
    result: Tensor = divergence(input, target, "sum", log_target) / input.shape[0]
    return result


@in_full_precision
def divergence(input: Tensor, target: Tensor, reduction: str, log_target: bool) -> Tensor:
    """``kl_div`` without its warning. Raises ShapeError, and DTypeError for whole numbers."""
    if input.dtype.kind != "f" or target.dtype.kind != "f":
        raise DTypeError("kl_div: Integral inputs not supported.")
    broadcast_pair(input.shape, target.shape)
    promoted = promote_types(input.dtype, target.dtype)
    build = _log_divergence if log_target else _divergence
    node = mapped(build, (input.node, target.node), promoted, None)
    # PyTorch reads the target first, and a result lies in memory by what is read first.
    return give(reduced(node, reduction, promoted), "KlDiv", (target, input))


# Losses that are negative log-likelihoods of a distribution: Gaussian and Poisson.


def _check_variance(input: Tensor, var: Tensor) -> Tensor:
    """``var`` in a shape that broadcasts with ``input``; raises ReductionError."""
    if var.shape == input.shape:
        return var
    if input.shape[:-1] == var.shape:
        wide: Tensor = var.unsqueeze(-1)
        return wide
    if var.ndim == input.ndim and all(
        a == b or 1 in (a, b) for a, b in zip(input.shape, var.shape)
    ):
        return var
    raise ReductionError("var is of incorrect size")


@function(cast="full")
def gaussian_nll_loss(
    input: Tensor, target: Tensor, var: Tensor | float, full: bool = False, eps: float = 1e-6,
    reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """``(log(var) + (input - target)^2 / var) / 2``, with ``full`` also ``log(2 pi) / 2``.

    Variances below ``eps`` count as ``eps``, without changing their gradient; a variance is one
    number, or of the input's shape with a last dimension of 1 or none. Raises ReductionError (a
    ValueError) for variances of another shape and for negative ones.
    """
    if reduction not in ("none", "mean", "sum"):
        raise ReductionError(f"{reduction} is not valid")
    if isinstance(var, Tensor):
        spread = _check_variance(input, var)
        if var.dtype.kind != "f":
            raise DTypeError(
                f"result type Float can't be cast to the desired output type {c_name(var.dtype)}"
            )
        check_variances(var)
    elif var < 0:
        raise ReductionError("var has negative entry/entries")
    else:
        spread = input.new_full(input.shape, var)
    plain = spread.detach()
    bounded = where(plain < eps, plain.clamp(min=eps) + (spread - plain), spread)
    loss = 0.5 * (bounded.log() + (input - target) ** 2 / bounded)
    if full:
        loss = loss + 0.5 * math.log(2 * math.pi)
    return reduced_tensor(loss, reduction)


@function(cast="full")
@in_full_precision
def poisson_nll_loss(
    input: Tensor, target: Tensor, log_input: bool = True, full: bool = False,
    size_average: Any = None, eps: float = 1e-8, reduce: Any = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """``exp(input) - target * input``, or ``input - target * log(input + eps)`` of rates.

    With ``full``, Stirling's approximation of ``log(target!)`` is added where ``target > 1``.
    Raises ShapeError for shapes that do not broadcast, ReductionError.
    """
    require_tensor(input, "poisson_nll_loss")
    reduction = chosen_reduction(reduction, size_average, reduce)
    if log_input:
        loss = input.exp() - target * input
    else:
        loss = input - target * (input + eps).log()
    if full:
        many = target > 1
        safe = where(many, target, target.new_ones(()))
        stirling = safe * safe.log() - safe + 0.5 * (2 * math.pi * safe).log()
        loss = loss + where(many, stirling, stirling.new_zeros(()))
    return reduced_tensor(loss, reduction)
