"""Loss functions. ``reduction`` is ``"mean"``, ``"sum"`` or ``"none"``; others raise LazytError."""

from __future__ import annotations

from typing import Any

from lazyt import ops
from lazyt.cast_mode import in_full_precision
from lazyt.errors import BoundsError, DTypeError, LazytError, ShapeError
from lazyt.functional.choice import choose
from lazyt.functional.normalizers import log_softmax_node
from lazyt.functional.operands import broadcast_pair, constant_of, mapped
from lazyt.functional.picking import gather_node, value_range
from lazyt.functional.promotion import promote_pair
from lazyt.functional.reductions import mean_node
from lazyt.functional.results import give
from lazyt.ir.dtypes import DType, int64
from lazyt.ir.graph import Node
from lazyt.ir.scalar import Expr, call, const
from lazyt.tensor import Tensor


def _reduced(node: Node, reduction: str, dtype: DType) -> Node:
    """The loss per element as its mean, its sum or itself, in ``dtype``."""
    if reduction == "none":
        return ops.cast(node, dtype)
    axes = tuple(range(len(node.shape)))
    if reduction == "sum":
        return ops.cast(ops.reduce_("sum", node, axes) if axes else node, dtype)
    if reduction != "mean":
        raise LazytError(f"{reduction} is not a valid value for reduction")
    return ops.cast(mean_node(node, axes, False), dtype)


def _pairwise(
    build: Any, title: str, input: Tensor, target: Tensor, reduction: str, *settings: float
) -> Tensor:
    x, y = input.node, target.node
    broadcast_pair(x.shape, y.shape)
    dtype = promote_pair(x.dtype, len(x.shape), y.dtype, len(y.shape))
    constants = tuple(constant_of(s, dtype.compute) for s in settings)
    node = mapped(build, (x, y, *constants), dtype, None)
    return give(_reduced(node, reduction, dtype), title, (input, target))


def _squared(x: Expr, y: Expr) -> Expr:
    gap = call("sub", x, y)
    return call("mul", gap, gap)


def _absolute(x: Expr, y: Expr) -> Expr:
    return call("abs", call("sub", x, y))


def _half(x: Expr) -> Expr:
    return call("mul", x, const(0.5, x.dtype))


def _huber(x: Expr, y: Expr, delta: Expr) -> Expr:
    gap = _absolute(x, y)
    far = call("mul", delta, call("sub", gap, _half(delta)))
    near = call("mul", _half(gap), gap)
    return call("where", call("le", gap, delta), near, far)


def _smooth(x: Expr, y: Expr, beta: Expr) -> Expr:
    gap = _absolute(x, y)
    near = call("div", call("mul", _half(gap), gap), beta)
    return call("where", call("lt", gap, beta), near, call("sub", gap, _half(beta)))


@in_full_precision
def mse_loss(input: Tensor, target: Tensor, reduction: str = "mean") -> Tensor:
    """The mean of squared differences. Raises ShapeError for shapes that do not fit."""
    return _pairwise(_squared, "MseLoss", input, target, reduction)


@in_full_precision
def l1_loss(input: Tensor, target: Tensor, reduction: str = "mean") -> Tensor:
    """The mean of absolute differences."""
    return _pairwise(_absolute, "Mean", input, target, reduction)


@in_full_precision
def huber_loss(
    input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0
) -> Tensor:
    """Half the squared difference, straight beyond ``delta``."""
    return _pairwise(_huber, "HuberLoss", input, target, reduction, delta)


@in_full_precision
def smooth_l1_loss(
    input: Tensor, target: Tensor, reduction: str = "mean", beta: float = 1.0
) -> Tensor:
    """``huber_loss / beta``; ``l1_loss`` for beta 0."""
    if beta == 0:
        return l1_loss(input, target, reduction)
    return _pairwise(_smooth, "SmoothL1Loss", input, target, reduction, beta)


def _bounded_log(x: Expr) -> Expr:
    # PyTorch bounds the logarithm so that certainty in the wrong answer stays finite.
    return call("maximum", call("log", x), const(-100.0, x.dtype))


def _binary_cross_entropy(x: Expr, y: Expr) -> Expr:
    one = const(1, x.dtype)
    wrong = call("mul", call("sub", y, one), _bounded_log(call("sub", one, x)))
    return call("sub", wrong, call("mul", y, _bounded_log(x)))


@in_full_precision
def binary_cross_entropy(
    input: Tensor, target: Tensor, weight: Tensor | None = None, reduction: str = "mean"
) -> Tensor:
    """The cross entropy of probabilities and truths. Raises ShapeError for two sizes."""
    if input.shape != target.shape:
        raise ShapeError(
            f"Using a target size ({target.shape}) that is different to the input size "
            f"({input.shape}) is deprecated. Please ensure they have the same size."
        )
    node = mapped(_binary_cross_entropy, (input.node, target.node), input.dtype, None)
    if weight is not None:
        node = ops.apply("mul", node, ops.cast(weight.node, node.dtype))
    return give(_reduced(node, reduction, input.dtype), "BinaryCrossEntropy", (input, target))


def _with_logits(x: Expr, y: Expr, positive: Expr) -> Expr:
    one = const(1, x.dtype)
    slope = call("add", one, call("mul", call("sub", positive, one), y))
    soft = call("log1p", call("exp", call("neg", call("abs", x))))
    soft = call("add", soft, call("maximum", call("neg", x), const(0, x.dtype)))
    return call("add", call("mul", call("sub", one, y), x), call("mul", slope, soft))


@in_full_precision
def binary_cross_entropy_with_logits(
    input: Tensor, target: Tensor, weight: Tensor | None = None, reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """``binary_cross_entropy`` of ``sigmoid(input)``, without overflow. Raises ShapeError."""
    if input.shape != target.shape:
        raise ShapeError(
            f"Target size ({target.shape}) must be the same as input size ({input.shape})"
        )
    dtype = input.dtype
    positive = constant_of(1.0, dtype.compute) if pos_weight is None else pos_weight.node
    node = mapped(_with_logits, (input.node, target.node, positive), dtype, None)
    if weight is not None:
        node = ops.apply("mul", node, ops.cast(weight.node, node.dtype))
    parents = (input, target)
    return give(_reduced(node, reduction, dtype), "BinaryCrossEntropyWithLogits", parents)


def _divergence(x: Expr, y: Expr) -> Expr:
    zero = const(0, y.dtype)
    safe = call("where", call("gt", y, zero), y, const(1, y.dtype))
    own = call("mul", y, call("log", safe))
    return call("sub", own, call("mul", y, x))


def _log_divergence(x: Expr, y: Expr) -> Expr:
    return call("mul", call("exp", y), call("sub", y, x))


@in_full_precision
def kl_div(
    input: Tensor, target: Tensor, reduction: str = "mean", log_target: bool = False
) -> Tensor:
    """Kullback-Leibler divergence of ``target`` from log-probabilities ``input``."""
    build = _log_divergence if log_target else _divergence
    if reduction != "batchmean":
        return _pairwise(build, "KlDiv", input, target, reduction)
    result: Tensor = _pairwise(build, "KlDiv", input, target, "sum") / input.shape[0]
    return result


# ------------------------------------------------------------------ classes


def _check_classes(shape: tuple[int, ...], target: Tensor) -> int:
    """The axis of classes; raises for targets that do not fit."""
    wanted = tuple(target.shape)
    if target.dtype.kind == "f":
        raise DTypeError("expected scalar type Long but found Float")
    if len(shape) == 1:
        if wanted:
            raise ShapeError("size mismatch (got input: " + str(list(shape)) + ", target: "
                             + str(list(wanted)) + ")")  # fmt: skip
        return 0
    if shape[:1] != wanted[:1]:
        raise ShapeError(
            f"Expected input batch_size ({shape[0]}) to match target batch_size "
            f"({wanted[0] if wanted else 1})."
        )
    if (shape[0], *shape[2:]) != wanted:
        raise ShapeError(f"Expected target size {[shape[0], *shape[2:]]}, got {list(wanted)}")
    return 1


def _picked_loss(
    logs: Node, target: Tensor, weight: Tensor | None, reduction: str, ignore_index: int
) -> Node:
    """Minus the log-probability of each target class, reduced; in the compute type."""
    axis = _check_classes(logs.shape, target)
    classes = logs.shape[axis]
    places = ops.cast(target.node, int64)
    low, high = value_range(target.node) if places.size else (0, 0)
    ignoring = low <= ignore_index <= high
    for bad in (low, high):
        if not 0 <= bad < classes and bad != ignore_index:
            raise BoundsError(f"Target {bad} is out of bounds.")
    kept = ops.apply("ne", places, ops.constant(ignore_index, int64)) if ignoring else None
    if kept is not None:
        places = choose(kept, places, ops.constant(0, int64), int64)
    spread = ops.reshape(places, (*places.shape[:axis], 1, *places.shape[axis:]))
    loss = ops.apply("neg", ops.reshape(gather_node(logs, spread, axis), places.shape))
    scale = None if weight is None else ops.gather(ops.cast(weight.node, loss.dtype), places, 0)
    if scale is not None:
        loss = ops.apply("mul", loss, scale)
    if kept is not None:
        zero = ops.constant(0, loss.dtype)
        loss = choose(kept, loss, zero, loss.dtype)
        scale = choose(kept, scale or ops.constant(1, loss.dtype), zero, loss.dtype)
    if reduction != "mean" or scale is None:
        return _reduced(loss, reduction, loss.dtype)
    axes = tuple(range(len(loss.shape)))
    total = ops.reduce_("sum", loss, axes) if axes else loss
    weights = ops.reduce_("sum", scale, axes) if axes else scale
    return ops.apply("div", total, weights)


@in_full_precision
def nll_loss(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: Any = None,
    ignore_index: int = -100, reduce: Any = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """Minus the log-probabilities of the target classes (dimension 1 of ``input``).

    Raises ShapeError for sizes that do not fit, BoundsError for a class out of range.
    """
    logs = ops.cast(input.node, input.dtype.compute)
    node = _picked_loss(logs, target, weight, reduction, ignore_index)
    return give(ops.cast(node, input.dtype), "NllLoss", (input,))


@in_full_precision
def cross_entropy(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: Any = None,
    ignore_index: int = -100, reduce: Any = None, reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:  # fmt: skip
    """The cross entropy of logits (classes in dimension 1) and class numbers or probabilities.

    Raises ShapeError for sizes that do not fit, BoundsError for a class out of range.
    """
    if input.dtype.kind != "f":
        raise DTypeError("\"log_softmax_lastdim_kernel_impl\" not implemented for 'Long'")
    axis = 0 if len(input.shape) == 1 else 1
    logs = log_softmax_node(input.node, axis)
    if target.dtype.kind == "f":
        node = _soft_loss(logs, target, weight, reduction, axis, label_smoothing)
        return give(ops.cast(node, input.dtype), "CrossEntropyLoss", (input, target))
    node = _picked_loss(logs, target, weight, reduction, ignore_index)
    if label_smoothing:
        if weight is not None:
            raise LazytError("cross_entropy: label_smoothing with class weights is not supported")
        even = _smoothing_loss(logs, target, reduction, ignore_index, axis)
        keep = constant_of(1 - label_smoothing, node.dtype)
        share = constant_of(label_smoothing / logs.shape[axis], node.dtype)
        node = ops.apply("add", ops.apply("mul", node, keep), ops.apply("mul", even, share))
    return give(ops.cast(node, input.dtype), "NllLoss", (input,))


def _smoothing_loss(
    logs: Node, target: Tensor, reduction: str, ignore_index: int, axis: int
) -> Node:
    """Minus the sum of log-probabilities over all classes, reduced as the loss itself."""
    even = ops.apply("neg", ops.reduce_("sum", logs, (axis,)))
    kept = ops.apply("ne", ops.cast(target.node, int64), ops.constant(ignore_index, int64))
    even = choose(kept, even, ops.constant(0, even.dtype), even.dtype)
    axes = tuple(range(len(even.shape)))
    if reduction == "none" or not axes:
        return even
    total = ops.reduce_("sum", even, axes)
    if reduction == "sum":
        return total
    return ops.apply("div", total, ops.reduce_("sum", ops.cast(kept, even.dtype), axes))


def _soft_loss(
    logs: Node, target: Tensor, weight: Tensor | None, reduction: str, axis: int, smoothing: float
) -> Node:
    if tuple(target.shape) != logs.shape:
        raise ShapeError(
            f"Expected floating point type for target with class probabilities of size "
            f"{list(logs.shape)}, got {list(target.shape)}"
        )
    truth = ops.cast(target.node, logs.dtype)
    if smoothing:
        truth = ops.apply("mul", truth, constant_of(1 - smoothing, logs.dtype))
        truth = ops.apply("add", truth, constant_of(smoothing / logs.shape[axis], logs.dtype))
    if weight is not None:
        tail = (1,) * (len(logs.shape) - axis - 1)
        scale = ops.reshape(ops.cast(weight.node, logs.dtype), (logs.shape[axis], *tail))
        truth = ops.apply("mul", truth, scale)
    loss = ops.apply("neg", ops.reduce_("sum", ops.apply("mul", logs, truth), (axis,)))
    return _reduced(loss, reduction, loss.dtype)
