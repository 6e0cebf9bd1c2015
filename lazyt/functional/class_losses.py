"""Losses of class scores: the negative log-likelihood and the cross entropy."""

from __future__ import annotations

from typing import Any

from lazyt import ops
from lazyt.cast_mode import in_full_precision
from lazyt.dispatch import type_title
from lazyt.errors import BoundsError, DTypeError, LazytError, ShapeError
from lazyt.functional.choice import choose
from lazyt.functional.loss_reduction import ReductionError, chosen_reduction, reduced
from lazyt.functional.normalizers import log_softmax_node
from lazyt.functional.operands import constant_of, require_tensor
from lazyt.functional.picking import Range, gather_node, value_range, within
from lazyt.functional.products import linear
from lazyt.functional.repeated import repeated
from lazyt.functional.results import give
from lazyt.functional.unsupported import require_floating
from lazyt.ir.dtypes import int64, uint8
from lazyt.ir.graph import Node
from lazyt.tensor import Tensor


def _check_classes(shape: tuple[int, ...], target: Tensor) -> int:
    """The axis of classes; raises for targets that do not fit."""
    wanted = tuple(target.shape)
    if not len(shape) >= 1:
        raise ShapeError(f"Expected 1 or more dimensions (got {len(shape)})")
    if len(shape) == 1:
        _check_target_type(target)
        if wanted:
            raise ShapeError(f"size mismatch (got input: {list(shape)}, target: {list(wanted)})")
        return 0
    if shape[:1] != wanted[:1]:
        raise ReductionError(
            f"Expected input batch_size ({shape[0]}) to match target batch_size "
            f"({wanted[0] if wanted else 1})."
        )
    if len(shape) == 2 and len(wanted) > 1:
        raise ShapeError("0D or 1D target tensor expected, multi-target not supported")
    if len(shape) == 4 and len(wanted) == 3 and (shape[0], *shape[2:]) != wanted:
        raise ShapeError(f"size mismatch (got input: {list(shape)} , target: {list(wanted)}")
    if (shape[0], *shape[2:]) != wanted:
        raise ShapeError(f"Expected target size {[shape[0], *shape[2:]]}, got {list(wanted)}")
    _check_target_type(target)
    return 1


def _check_target_type(target: Tensor) -> None:
    if target.dtype not in (int64, uint8):
        raise DTypeError(
            f"expected target dtype to be Long or Byte, but got {type_title(target.dtype)}"
        )


def _check_weight(weight: Tensor | None, classes: int) -> None:
    if weight is not None and tuple(weight.shape) != (classes,):
        raise ShapeError(
            f"weight tensor should be defined either for all {classes} classes or no classes but "
            f"got weight tensor of shape: {list(weight.shape)}"
        )


def _safe_ranges(classes: int, ignored: int) -> list[Range]:
    """Ranges of targets that are all right: with the class that is ignored, or without it."""
    with_it = ((min(ignored, 0), ignored), (ignored, max(ignored, classes - 1)))
    if ignored < 0:
        with_it = ((ignored, ignored), (ignored, classes - 1))
    if not 0 <= ignored < classes:
        return [within(0, classes - 1), with_it]
    return [with_it, within(0, ignored - 1), within(ignored + 1, classes - 1)]


def _picked_loss(
    scores: Node, target: Tensor, weight: Tensor | None, reduction: str, ignore_index: int,
    smoothing: float = 0.0, raw: bool = False,
) -> Node:  # fmt: skip
    """Minus the log-probability of each target class, reduced; in the compute type.

    ``scores`` are log-probabilities, or with ``raw`` any scores. With ``smoothing`` that share of
    the loss is the mean over all classes (Szegedy et al. 2016).
    """
    axis = _check_classes(scores.shape, target)
    classes = scores.shape[axis]
    _check_weight(weight, classes)
    places = ops.cast(target.node, int64)
    safe = _safe_ranges(classes, ignore_index)
    low, high = value_range(target.node, *safe) if places.size else (0, 0)
    ignored = ignore_index if low <= ignore_index <= high else None
    if low < 0 or high >= classes:
        _check_others(places, ignored, classes, (low, high))
    weights = None if weight is None else ops.cast(weight.node, scores.dtype.compute)
    return _loss_node(scores, places, weights, axis, reduction, ignored, smoothing, raw)


def _check_others(places: Node, ignored: int | None, classes: int, found: tuple[int, int]) -> None:
    """Raise BoundsError where a target that is not ignored is no class.

    Args:
        found: the smallest and the largest target.
    """
    if ignored is not None:
        counts = ops.apply("ne", places, ops.constant(ignored, int64))
        others = choose(counts, places, ops.constant(0, int64), int64)
        found = value_range(others, within(0, classes - 1))
    for bad in found:
        if not 0 <= bad < classes:
            raise BoundsError(f"Target {bad} is out of bounds.")


@repeated
def _loss_node(
    scores: Node, places: Node, weights: Node | None, axis: int, reduction: str,
    ignored: int | None, smoothing: float, raw: bool,
) -> Node:  # fmt: skip
    """``_picked_loss`` of targets that were checked; ``ignored`` is None where none of them is."""
    logs = log_softmax_node(scores, axis) if raw else scores
    kept = None if ignored is None else ops.apply("ne", places, ops.constant(ignored, int64))
    if kept is not None:
        places = choose(kept, places, ops.constant(0, int64), int64)
    spread = ops.reshape(places, (*places.shape[:axis], 1, *places.shape[axis:]))
    loss = ops.apply("neg", ops.reshape(gather_node(logs, spread, axis), places.shape))
    scale = None if weights is None else ops.gather(weights, places, 0)
    if scale is not None:
        loss = ops.apply("mul", loss, scale)
    if smoothing > 0:
        loss = _smoothed(loss, logs, weights, axis, smoothing)
    if kept is not None:
        zero = ops.constant(0, loss.dtype)
        loss = choose(kept, loss, zero, loss.dtype)
        scale = choose(kept, scale or ops.constant(1, loss.dtype), zero, loss.dtype)
    if loss.size == 1 and (reduction != "none" or not loss.shape):
        # PyTorch adds to 0.0, which leaves no -0.0; sums of one element add nothing.
        loss = ops.apply("add", loss, ops.constant(0, loss.dtype))
    if reduction != "mean" or scale is None:
        return reduced(loss, reduction, loss.dtype)
    axes = tuple(range(len(loss.shape)))
    total = ops.reduce_("sum", loss, axes) if axes else loss
    count = ops.reduce_("sum", ops.broadcast_to(scale, loss.shape), axes) if axes else scale
    return ops.apply("div", total, count)


def _smoothed(loss: Node, logs: Node, weights: Node | None, axis: int, smoothing: float) -> Node:
    """A share of the loss taken from the target class and spread over all."""
    if weights is not None:
        tail = (1,) * (len(logs.shape) - axis - 1)
        logs = ops.apply("mul", logs, ops.reshape(weights, (logs.shape[axis], *tail)))
    even = ops.apply("neg", ops.reduce_("sum", logs, (axis,)))
    keep = constant_of(1 - smoothing, loss.dtype)
    share = constant_of(smoothing / logs.shape[axis], loss.dtype)
    return ops.apply("add", ops.apply("mul", loss, keep), ops.apply("mul", even, share))


@in_full_precision
def nll_loss(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: Any = None,
    ignore_index: int = -100, reduce: Any = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """Minus the log-probabilities of the target classes (dimension 1 of ``input``).

    Raises ShapeError for sizes that do not fit, BoundsError for a class out of range.
    """
    require_tensor(input, "nll_loss")
    reduction = chosen_reduction(reduction, size_average, reduce)
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
    require_tensor(input, "cross_entropy")
    reduction = chosen_reduction(reduction, size_average, reduce)
    _check_soft_target(input, target, ignore_index, label_smoothing)
    require_floating("log_softmax_lastdim_kernel_impl", input.dtype)
    if target.dtype.kind == "f" and target.shape == input.shape:
        axis = 0 if len(input.shape) == 1 else 1
        logs = log_softmax_node(input.node, axis)
        node = _soft_loss(logs, target, weight, reduction, axis, label_smoothing)
        return give(ops.cast(node, input.dtype), "CrossEntropyLoss", (input, target))
    scores = input.node
    node = _picked_loss(scores, target, weight, reduction, ignore_index, label_smoothing, True)
    return give(ops.cast(node, input.dtype), "NllLoss", (input,))


def linear_cross_entropy(
    input: Tensor, linear_weight: Tensor, target: Tensor, *, linear_bias: Tensor | None = None,
    weight: Tensor | None = None, reduction: str = "mean", ignore_index: int | None = None,
    label_smoothing: float = 0.0, options: Any = None,
) -> Tensor:  # fmt: skip
    """``cross_entropy(linear(input, linear_weight, linear_bias), target)``.

    ``input`` is [N, F] or [F], ``linear_weight`` [C, *, F] and the bias [C, *], for logits
    [N, C, *]. ``options`` choose how PyTorch cuts the product in pieces, which fusion does here.
    Raises as ``linear`` and ``cross_entropy`` do.
    """
    require_tensor(linear_weight, "linear_cross_entropy", "linear_weight", 2)
    sizes = tuple(linear_weight.shape)[:-1]
    _check_linear(input, linear_weight, linear_bias)
    if ignore_index is not None and target.dtype.kind == "f":
        raise LazytError("ignore_index cannot be specified when target contains probabilities")
    table = linear_weight.reshape(-1, linear_weight.shape[-1])
    bias = None if linear_bias is None else linear_bias.reshape(-1)
    logits = linear(input, table, bias)
    logits = logits.reshape(*tuple(input.shape)[:-1], *sizes)
    ignored = -100 if ignore_index is None else ignore_index
    return cross_entropy(
        logits, target, weight, ignore_index=ignored, reduction=reduction,
        label_smoothing=label_smoothing,
    )  # fmt: skip


def _check_linear(input: Tensor, weight: Tensor, bias: Tensor | None) -> None:
    """Raise ShapeError for operands of a linear layer that make no logits."""
    own, sizes = tuple(input.shape), tuple(weight.shape)
    if len(own) not in (1, 2):
        raise ShapeError(f"expected input with dimensionality 1 or 2, got {len(own)}")
    if len(sizes) < 2:
        raise ShapeError(f"expected linear_weight with dimensionality at least 2, got {len(sizes)}")
    if own[-1] != sizes[-1]:
        raise ShapeError(
            "expected equal input and linear_weight last dimensions (in_features), got "
            f"{own[-1]} and {sizes[-1]}, respectively"
        )
    if len(sizes) > 2 and len(own) == 1:
        raise ShapeError(
            f"K-dimensional loss defined by linear_weight shape {sizes} requires batched input, "
            f"(N, {own[0]}), got unbatched input with shape {own}"
        )
    if bias is not None and tuple(bias.shape) != sizes[:-1]:
        raise ShapeError(f"expected linear_bias shape {sizes[:-1]}, got {tuple(bias.shape)}")


def _check_soft_target(input: Tensor, target: Tensor, ignored: int, smoothing: float) -> None:
    if target.shape == input.shape:
        if target.dtype.kind != "f":
            raise DTypeError(
                "Expected floating point type for target with class probabilities, got "
                f"{type_title(target.dtype)}"
            )
        if ignored >= 0:
            raise LazytError("ignore_index is not supported for floating point target")
    if smoothing > 1:
        raise LazytError(f"label_smoothing must be between 0.0 and 1.0. Got: {smoothing}")


def _soft_loss(
    logs: Node, target: Tensor, weight: Tensor | None, reduction: str, axis: int, smoothing: float
) -> Node:
    truth = ops.cast(target.node, logs.dtype)
    if smoothing > 0:  # as PyTorch, which leaves out others
        truth = ops.apply("mul", truth, constant_of(1 - smoothing, logs.dtype))
        truth = ops.apply("add", truth, constant_of(smoothing / logs.shape[axis], logs.dtype))
    if weight is not None:
        tail = (1,) * (len(logs.shape) - axis - 1)
        scale = ops.reshape(ops.cast(weight.node, logs.dtype), (logs.shape[axis], *tail))
        truth = ops.apply("mul", truth, scale)
    loss = ops.apply("neg", ops.reduce_("sum", ops.apply("mul", logs, truth), (axis,)))
    return reduced(loss, reduction, loss.dtype)
