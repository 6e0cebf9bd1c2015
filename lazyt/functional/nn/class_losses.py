"""Losses that want a margin: hinges, rankings, and distances in threes."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from lazyt import ops
from lazyt.errors import BoundsError, DTypeError, LazytError, ShapeError
from lazyt.functional.control.tracing import is_placed, needs_history
from lazyt.functional.creation.creation import fresh, tensor
from lazyt.functional.elementwise.activations import logsigmoid
from lazyt.functional.elementwise.arithmetic import minimum, mul, sub
from lazyt.functional.elementwise.choice import clamp_min, where
from lazyt.functional.elementwise.unary import neg
from lazyt.functional.indexing.picking import Range, gather, gather_node, value_range, within
from lazyt.functional.linalg.distances import pairwise_distance
from lazyt.functional.linalg.products import linear
from lazyt.functional.nn.loss_reduction import (
    ReductionError,
    chosen_reduction,
    reduced,
    reduced_tensor,
)
from lazyt.functional.nn.normalizers import log_softmax_node
from lazyt.functional.operands import choose, constant_of, mixed, require_tensor
from lazyt.functional.results import give, known_values
from lazyt.functional.type_promotion import get_default_dtype, refuse, refuse_cast, require_floating
from lazyt.handle.autocast import in_full_precision
from lazyt.handle.dispatch import type_title
from lazyt.handle.function_table import function
from lazyt.handle.hooks import capturing
from lazyt.handle.tensor import Tensor
from lazyt.ir.dtypes import DType, bool_, int32, int64, uint8
from lazyt.ir.graph import Body, Node
from lazyt.ir.scalar import Expr, call, const
from lazyt.ops.control.building import loop
from lazyt.transforms.derivations import repeated

# Losses of class scores: the negative log-likelihood and the cross entropy.


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


@function(cast="full", saves="k", second_order="zeros")
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
    require_floating("nll_loss_out_frame", input.dtype)
    logs = ops.cast(input.node, input.dtype.compute)
    node = _picked_loss(logs, target, weight, reduction, ignore_index)
    return give(ops.cast(node, input.dtype), "NllLoss", (input,))


@function(cast="full")
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


@function()
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


@function(cast="full")
@in_full_precision
def hinge_embedding_loss(
    input: Tensor, target: Tensor, margin: float = 1.0, size_average: Any = None,
    reduce: Any = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """The distance where ``target`` is 1, and what it lacks of ``margin`` where it is -1.

    Raises ShapeError for shapes that do not broadcast, ReductionError.
    """
    reduction = chosen_reduction(reduction, size_average, reduce)
    short = clamp_min(sub(input.new_full((), margin), input), 0)
    zero = input.new_zeros(())
    loss = where(target != 1, short, zero) + where(target != -1, input, zero)
    return reduced_tensor(loss, reduction)


@function(cast="full")
@in_full_precision
def margin_ranking_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0, size_average: Any = None,
    reduce: Any = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """``max(0, -target * (input1 - input2) + margin)``: which of two ranks higher.

    Raises ShapeError for another number of dimensions of one operand, ReductionError.
    """
    reduction = chosen_reduction(reduction, size_average, reduce)
    if not input1.ndim == input2.ndim == target.ndim:
        raise ShapeError(
            "margin_ranking_loss : All input tensors should have same dimension but got sizes: "
            f"input1: {input1.shape}, input2: {input2.shape}, target: {target.shape} "
        )
    return reduced_tensor(clamp_min(-target * (input1 - input2) + margin, 0), reduction)


@function(cast="full")
@in_full_precision
def soft_margin_loss(
    input: Tensor, target: Tensor, size_average: Any = None, reduce: Any = None,
    reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """``log(1 + exp(-target * input))``, for targets of 1 and -1, in the input's dtype.

    Exponents that overflow give infinity, as in PyTorch. Raises DTypeError for whole numbers.
    """
    reduction = chosen_reduction(reduction, size_average, reduce)
    exponent = mul(neg(input), target)
    if input.dtype.kind != "f":
        given = target.dtype if target.dtype.kind == "f" else get_default_dtype()
        refuse_cast(given, input.dtype)
    return reduced_tensor(exponent.to(input.dtype).exp().log1p(), reduction)


@function()
def multilabel_soft_margin_loss(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: Any = None,
    reduce: Any = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """The mean binary cross entropy over the classes (last dimension) of logits.

    Raises ShapeError for shapes that do not broadcast, ReductionError.
    """
    if size_average is not None or reduce is not None:
        reduction = chosen_reduction(reduction, size_average, reduce)
    if reduction not in ("none", "mean", "sum"):
        raise ReductionError(f"{reduction} is not valid")
    loss = -(target * logsigmoid(input) + (1 - target) * logsigmoid(-input))
    if weight is not None:
        loss = loss * weight
    return reduced_tensor(loss.sum(-1) / input.shape[-1], reduction)


# ------------------------------------------------------------------ classes


def _check_scores(input: Tensor) -> None:
    """Raise ShapeError unless the scores are [N, C] or [C] with a class at least."""
    if input.ndim > 2 or 0 in input.shape[max(input.ndim - 1, 0) :]:
        raise ShapeError(
            "Expected non-empty vector or matrix with optional 0-dim batch size, but got: "
            f"{list(input.shape)}"
        )


def _class_scores(input: Tensor, target: Tensor, weight: Tensor | None) -> tuple[Tensor, Tensor]:
    """Scores [N, C] and targets [N]; raises LazytError and ShapeError in PyTorch's words."""
    name = "multi_margin_loss"
    _check_scores(input)
    single = input.ndim < 2
    wanted = 1 if single else input.shape[0]
    if target.ndim > 1 or target.numel() != wanted:
        raise ShapeError(
            f"{name}: target tensor should be 1-D with size equal to the number of input samples "
            f"(batch size). Expected target size [{wanted}], but got {list(target.shape)}. Input "
            f"has shape {list(input.shape)}."
        )
    classes = input.shape[-1] if input.ndim else 1
    if weight is not None and tuple(weight.shape) != (classes,):
        raise ShapeError(
            f"inconsistent weight size, expected {classes} but got {list(weight.shape)}"
        )
    if target.dtype is not int64:
        raise DTypeError(f"expected scalar type Long but found {type_title(target.dtype)}")
    if target.numel():
        low, high = value_range(target.node, within(0, classes - 1))
        if low < 0 or high >= classes:
            raise LazytError("target out of range")
    return (input.reshape(1, -1) if single else input), target.reshape(-1)


@function(cast="full", fractions=("p",))
@in_full_precision
def multi_margin_loss(
    input: Tensor, target: Tensor, p: int = 1, margin: float = 1.0, weight: Tensor | None = None,
    size_average: Any = None, reduce: Any = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """``mean over classes i != y of max(0, margin - x[y] + x[i]) ** p``.

    Scores are [N, C] or [C], classes [N] or a number. Raises ReductionError (a ValueError) for
    another ``p`` than 1 and 2, ShapeError, and LazytError for a class out of range.
    """
    require_tensor(input, "multi_margin_loss")
    reduction = chosen_reduction(reduction, size_average, reduce)
    if p not in (1, 2):
        raise ReductionError("only p == 1 and p == 2 supported")
    if weight is not None and weight.ndim != 1:
        raise ReductionError("weight must be one-dimensional")
    scores, classes = _class_scores(input, target, weight)
    right = gather(scores, 1, classes.unsqueeze(1))
    short = clamp_min(margin - right + scores, 0)
    if p == 2:
        short = short * short
    if weight is not None:
        short = short * weight[classes].unsqueeze(1)
    hit = ops.apply("eq", classes.unsqueeze(1).node, ops.iota(scores.shape[1]))
    short = where(fresh(hit), short.new_zeros(()), short)
    loss = short.sum(1) / scores.shape[1]
    if input.ndim < 2 and reduction == "none":
        loss = loss.reshape(target.shape)
    return reduced_tensor(loss, reduction)


def _is_target(target: Node, classes: int) -> tuple[Node, Node]:
    """Which classes of [N, C] are targets, and which entries of the list of targets count.

    A list ends at its first negative number.
    """
    going = ops.apply("ge", target, ops.constant(0, int64))
    counts = ops.scan("min", ops.cast(going, int64), 1)
    listed = ops.apply("gt", counts, ops.constant(0, int64))
    places = choose(listed, target, ops.constant(0, int64), int64)
    hits = ops.apply("eq", ops.reshape(places, (*places.shape, 1)), ops.iota(classes))
    hits = ops.apply("logical_and", hits, ops.reshape(listed, (*listed.shape, 1)))
    return ops.reduce_("any", hits, (1,)), listed


@function(cast="full")
@in_full_precision
def multilabel_margin_loss(
    input: Tensor, target: Tensor, size_average: Any = None, reduce: Any = None,
    reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """``sum over targets y and other classes i of max(0, 1 - (x[y] - x[i])) / C``.

    Scores are [N, C] or [C]; so are the targets, each row a list of classes that ends at the first
    negative number. Raises ShapeError and ReductionError, LazytError for a class out of range.
    """
    require_tensor(input, "multilabel_margin_loss")
    reduction = chosen_reduction(reduction, size_average, reduce)
    _check_scores(input)
    if input.shape != target.shape:
        raise ShapeError(
            f"inconsistent target size: {list(target.shape)} for input of size: {list(input.shape)}"
        )
    if target.numel():
        last = (input.shape[-1] if input.ndim else 1) - 1
        low, high = value_range(target.node, within(-1, last))
        if high > last or low < -1:
            raise LazytError("argument #2 'target' is out of range")
    single = input.ndim < 2
    scores, lists = (t.reshape(1, -1) if single else t for t in (input, target))
    classes = scores.shape[1]
    node = scores.node
    named, listed = _is_target(ops.cast(lists.node, int64), classes)
    safe = choose(listed, lists.node, ops.constant(0, int64), int64)
    right = gather_node(node, safe, 1)
    wanted = give(ops.reshape(right, (*right.shape, 1)), "Gather", (scores,))
    short = clamp_min(sub(1, wanted) + scores.unsqueeze(1), 0)
    other = ops.apply("logical_not", ops.reshape(named, (named.shape[0], 1, classes)))
    counts = ops.apply("logical_and", other, ops.reshape(listed, (*listed.shape, 1)))
    kept = choose(counts, short.node, constant_of(0, short.dtype), short.dtype)
    loss = give(kept, "MultilabelMarginLoss", (short,)).sum((1, 2)) / classes
    return reduced_tensor(loss.squeeze(0) if single else loss, reduction)


# ------------------------------------------------------------------ distances


_EPS = 1e-12  # PyTorch's constant below the root of the cosine


@function(cast="full")
@in_full_precision
def cosine_embedding_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0, size_average: Any = None,
    reduce: Any = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """``1 - cos`` where ``target`` is 1, ``max(0, cos - margin)`` where it is -1.

    Vectors are [N, D] with targets [N], or [D] with one target. Raises ShapeError.
    """
    reduction = chosen_reduction(reduction, size_average, reduce)
    if target.ndim > 1:
        raise ShapeError("0D or 1D target tensor expected, multi-target not supported")
    wanted = target.ndim + 1
    if not input1.ndim == input2.ndim == wanted:
        raise ShapeError(
            f"{target.ndim}D target tensor expects {wanted}D input tensors, but found inputs with "
            f"sizes {list(input1.shape)} and {list(input2.shape)}."
        )
    product = (input1 * input2).sum(-1)
    first, second = ((x * x).sum(-1) + _EPS for x in (input1, input2))
    cosine = product / (first * second).sqrt()
    zero = cosine.new_zeros(())
    loss = where(target == 1, 1 - cosine, zero)
    loss = loss + where(target == -1, clamp_min(cosine - margin, 0), zero)
    return reduced_tensor(loss, reduction)


def _check_triplet(anchor: Tensor, positive: Tensor, negative: Tensor, margin: float) -> None:
    if margin <= 0:
        raise ReductionError(f"margin must be greater than 0, got {margin}")
    if not anchor.ndim == positive.ndim == negative.ndim:
        raise ShapeError(
            "The anchor, positive, and negative tensors are expected to have the same number of "
            f"dimensions, but got: anchor {anchor.ndim}D, positive {positive.ndim}D, and negative "
            f"{negative.ndim}D inputs"
        )


@function(cast="full")
@in_full_precision
def triplet_margin_loss(
    anchor: Tensor, positive: Tensor, negative: Tensor, margin: float = 1.0, p: float = 2,
    eps: float = 1e-6, swap: bool = False, size_average: Any = None, reduce: Any = None,
    reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """``max(0, margin + |anchor - positive| - |anchor - negative|)`` by the p-norm.

    With ``swap`` the negative's distance is to the nearer of anchor and positive (Balntas et al.
    2016). Raises ReductionError (a ValueError) for a margin of 0 or less, ShapeError.
    """
    reduction = chosen_reduction(reduction, size_average, reduce)
    _check_triplet(anchor, positive, negative, margin)
    far = pairwise_distance(anchor, negative, p, eps)
    if swap:
        far = minimum(far, pairwise_distance(positive, negative, p, eps))
    near = pairwise_distance(anchor, positive, p, eps)
    return reduced_tensor(clamp_min(margin + near - far, 0), reduction)


@function()
def triplet_margin_with_distance_loss(
    anchor: Tensor, positive: Tensor, negative: Tensor, *,
    distance_function: Callable[[Tensor, Tensor], Tensor] | None = None, margin: float = 1.0,
    swap: bool = False, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """``triplet_margin_loss`` by any distance of two tensors, ``pairwise_distance`` by default.

    Raises ReductionError (a ValueError) for a margin of 0 or less, ShapeError.
    """
    reduction = chosen_reduction(reduction, None, None)
    _check_triplet(anchor, positive, negative, margin)
    distance = distance_function or pairwise_distance
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = minimum(far, distance(positive, negative))
    return reduced_tensor(clamp_min(margin + near - far, 0), reduction)


# The loss of all alignments of a sequence with a shorter one (Graves et al. 2006).


def _lengths(value: Any, batch: int, name: str) -> Node:
    """One length per sample."""
    if not isinstance(value, Tensor):
        value = tensor([int(v) for v in value], dtype=int64)
    if value.dtype.kind not in "iu":
        raise DTypeError(f"{name} must be integral")
    if value.numel() != batch:
        raise ShapeError(f"{name} must be of size batch_size")
    return ops.cast(ops.reshape(value.node, (batch,)), int64)


def _numbers(lengths: Node) -> list[int]:
    """Lengths as numbers; looks at a tensor's values."""
    return [int(v) for v in known_values(lengths)]


def _check_lengths(inputs: Node, targets: Node, steps: int, widest: int) -> None:
    """Raises LazytError for lengths that do not fit. A captured function looks at the smallest and
    the largest alone."""
    for lengths, most in ((inputs, steps), (targets, widest)):
        if lengths.size and not all(
            0 <= found <= most for found in value_range(lengths, within(0, most))
        ):
            _check(_numbers(inputs), _numbers(targets), steps, widest)


def _check(inputs: list[int], targets: list[int], steps: int, widest: int) -> None:
    for place, length in enumerate(inputs):
        if not 0 <= length <= steps:
            raise LazytError(
                f"Expected input_lengths to have value at most {steps}, but got value {length} "
                f"(while checking arguments for ctc_loss_allocate_outputs)"
                if length > steps
                else f"Expected input_lengths to be non-negative, but got {length} at {place}"
            )
    for length in targets:
        if length < 0:
            raise LazytError(f"Expected target_lengths to be non-negative, but got {length}")
        if length > widest:
            raise LazytError(
                f"Expected tensor to have size at least {length} at dimension 1, but got size "
                f"{widest} for argument #2 'targets' (while checking arguments for ctc_loss_cpu)"
            )


def _side_by_side(targets: Tensor, lengths: list[int]) -> Node:
    """Targets [N, longest] of a vector in which they follow each other."""
    starts, place = [], 0
    for length in lengths:
        starts.append(place)
        place += length
    longest = max([*lengths, 1])
    first = ops.reshape(tensor(starts, dtype=int64).node, (len(lengths), 1))
    if not targets.numel():
        return ops.broadcast_to(ops.constant(0, int64), (len(lengths), longest))
    at = ops.apply("add", first, ops.iota(longest))
    return ops.gather(ops.cast(targets.node, int64), at, 0)


def _with_blanks(targets: Node, blank: int) -> tuple[Node, Node]:
    """[N, 2 * S + 1]: the targets with blanks around each, and where two steps may be skipped."""
    batch, size = targets.shape
    blanks = ops.broadcast_to(ops.constant(blank, int64), (batch, size, 1))
    pairs = ops.concat([blanks, ops.reshape(targets, (batch, size, 1))], 2)
    flat = ops.reshape(pairs, (batch, 2 * size))
    last = ops.broadcast_to(ops.constant(blank, int64), (batch, 1))
    labels = ops.concat([flat, last], 1)
    before = _later(labels, 2, blank)
    odd = ops.apply("eq", ops.apply("mod", ops.iota(2 * size + 1), constant_of(2, int64)),
                    constant_of(1, int64))  # fmt: skip
    return labels, ops.apply("logical_and", odd, ops.apply("ne", labels, before))


def _later(node: Node, places: int, fill: float | int) -> Node:
    """``node`` moved along its last axis, ``fill`` moving in."""
    batch, size = node.shape
    kept = ops.slice_(node, (0, 0), (batch, max(size - places, 0)), (1, 1))
    return ops.pad(kept, (0, min(places, size)), (0, 0), (0, 0), fill)


def _top(stay: Expr, one: Expr, two: Expr) -> Expr:
    """The greatest of three, and 0 where all are -inf."""
    top = call("maximum", call("maximum", stay, one), two)
    return call("where", call("eq", top, const(-math.inf, top.dtype)), const(0, top.dtype), top)


def _summed(stay: Expr, one: Expr, two: Expr, top: Expr) -> Expr:
    """The logarithm of up to three probabilities' sum; -inf, without a slope, of none."""
    first, second, third = (call("exp_nonpositive", call("sub", x, top)) for x in (stay, one, two))
    total = call("add", call("add", first, second), third)
    none = call("eq", total, const(0, total.dtype))
    safe = call("where", none, const(1, total.dtype), total)
    found = call("add", call("log", safe), top)
    return call("where", none, const(-math.inf, top.dtype), found)


def _log_sum(stay: Node, one: Node, two: Node) -> Node:
    """``_summed`` relative to the greatest, which cancels out and has no gradient."""
    plain = tuple([ops.detach(node) for node in (stay, one, two)])
    return mixed(_summed, (stay, one, two, mixed(_top, plain)))


#: Steps up to which a captured function has them as one graph, which then has a fast path; each
#: takes about a microsecond there, and ten as a step of a loop.
_UNROLLED = 100


def _alignments(logs: Node, labels: Node, skips: Node, inputs: Node) -> Node:
    """[N, 2 * S + 1]: the log-probability of all ways to stand at each label at the end.

    The forward variables, one step of time after the other; samples that ended stand still.
    """
    steps, batch, _ = logs.shape
    size = labels.shape[1]
    dtype = logs.dtype
    never = ops.broadcast_to(constant_of(-math.inf, dtype), (batch, size))
    if not steps:
        return never
    places = ops.broadcast_to(labels, (steps, batch, size))
    emitted = ops.gather(logs, places, 2, 2)
    first = ops.apply("lt", ops.iota(size), constant_of(2, int64))
    state = choose(first, _at(emitted, 0), never, dtype)
    times = ops.reshape(ops.iota(steps), (steps, 1))
    going = ops.reshape(ops.apply("gt", ops.reshape(inputs, (1, batch)), times), (steps, batch, 1))
    few = steps <= (1 if capturing() is None else _UNROLLED)
    if few or is_placed([logs, labels, inputs]):
        for t in range(1, steps):
            state = _next_alignments(skips, state, _at(emitted, t), _at(going, t))
        return state
    later = [_from_second(rows) for rows in (emitted, going)]
    body = _alignment_step(batch, size, dtype)
    made = loop(body, [skips], [state], later, steps - 1, False, needs_history([logs]))
    return made.carries[0]


def _at(rows: Node, step: int) -> Node:
    """The matrix of one step."""
    shape = rows.shape[1:]
    return ops.reshape(ops.slice_(rows, (step, 0, 0), (1, *shape), (1, 1, 1)), shape)


def _from_second(rows: Node) -> Node:
    """The matrices of all steps but the first."""
    ones, (steps, *shape) = (1, 1, 1), rows.shape
    return ops.slice_(rows, (1, 0, 0), (steps - 1, *shape), ones)


def _next_alignments(skips: Node, state: Node, emitted: Node, going: Node) -> Node:
    """The forward variables one step of time later."""
    never = constant_of(-math.inf, state.dtype)
    skipped = choose(skips, _later(state, 2, -math.inf), never, state.dtype)
    reached = _log_sum(state, _later(state, 1, -math.inf), skipped)
    return choose(going, ops.apply("add", reached, emitted), state, state.dtype)


@lru_cache(256)
def _alignment_step(batch: int, size: int, dtype: DType) -> Body:
    """``_next_alignments`` as a step of a loop."""
    skips, going = (ops.input_((batch, extent), bool_) for extent in (size, 1))
    state, emitted = (ops.input_((batch, size), dtype) for _ in range(2))
    found = _next_alignments(skips, state, emitted, going)
    return Body.of([skips, state, emitted, going], [found])


def _losses(logs: Node, labels: Node, skips: Node, inputs: Node, targets: Node) -> Node:
    """[N]: minus the log-probability of each sample's targets."""
    state = _alignments(logs, labels, skips, inputs)
    batch = state.shape[0]
    end = ops.reshape(ops.apply("mul", targets, constant_of(2, int64)), (batch, 1))
    one, zero = constant_of(1, int64), constant_of(0, int64)
    before = ops.apply("maximum", ops.apply("sub", end, one), zero)
    last, other = (ops.reshape(ops.gather(state, at, 1, 1), (batch,)) for at in (end, before))
    some = ops.apply("gt", targets, constant_of(0, int64))
    other = choose(some, other, constant_of(-math.inf, state.dtype), state.dtype)
    nothing = ops.broadcast_to(constant_of(-math.inf, state.dtype), other.shape)
    loss = ops.apply("neg", _log_sum(last, other, nothing))
    # No input: only an empty target is right.
    empty = ops.apply("eq", inputs, constant_of(0, int64))
    dtype = state.dtype
    answer = choose(some, constant_of(math.inf, dtype), constant_of(0, dtype), dtype)
    return choose(empty, answer, loss, state.dtype)


def _as_of_softmax(loss: Node, logs: Node, inputs: Node) -> Node:
    """The same loss with PyTorch's gradient, which is that of normalised probabilities.

    It holds ``exp(log_probs)`` besides; behind a log-softmax both give the same.
    """
    if not logs.needs_grad:
        return loss
    steps = logs.shape[0]
    shares = ops.apply("exp", logs)
    gap = ops.reduce_("sum", ops.apply("sub", shares, ops.detach(shares)), (2,))
    going = ops.apply("lt", ops.reshape(ops.iota(steps), (steps, 1)), inputs)
    zero = constant_of(0, logs.dtype)
    total = ops.reduce_("sum", choose(going, gap, zero, logs.dtype), (0,))
    finite = ops.apply("isfinite", ops.detach(loss))
    return ops.apply("add", loss, choose(finite, total, zero, logs.dtype))


def _check_labels(rows: Node, sizes: Node, classes: int) -> None:
    """Raise BoundsError for a target that is no class; beyond its size a row holds anything."""
    if not rows.size:
        return
    ends = ops.reshape(sizes, (rows.shape[0], 1))
    inside = ops.apply("lt", ops.iota(rows.shape[1]), ends)
    rows = choose(inside, rows, constant_of(0, int64), int64)
    for found in value_range(rows, within(0, classes - 1)):
        if not 0 <= found < classes:
            raise BoundsError(f"Target {found} is out of bounds.")


@function()
@in_full_precision
def ctc_loss(
    log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any, blank: int = 0,
    reduction: str = "mean", zero_infinity: bool = False,
) -> Tensor:  # fmt: skip
    """Minus the log-probability of all alignments of inputs with targets (Graves et al. 2006).

    Args:
        log_probs: [T, N, C] or [T, C], logarithms of probabilities.
        targets: [N, S], [S], or all samples' targets one after the other in a vector.
        input_lengths, target_lengths: of every sample, tensors (which are looked at) or numbers.
        blank: the class that means no target.
        reduction: ``mean`` divides every loss by its target's length first.
        zero_infinity: 0 for losses, and gradients, of targets that no alignment reaches.

    Raises DTypeError, ShapeError, LazytError for lengths that do not fit, BoundsError for targets
    that are no class (what follows a target in its row is not looked at).
    """
    reduction = chosen_reduction(reduction, None, None)
    if log_probs.dtype.kind != "f" or log_probs.dtype.is_half:
        refuse("ctc_loss_cpu", log_probs.dtype)
    if targets.dtype not in (int64, int32):
        raise DTypeError(
            f"Expected tensor for argument #2 'targets' to have scalar type Long or Int, but got "
            f"{type_title(targets.dtype)}"
        )
    single = log_probs.ndim == 2
    if log_probs.ndim not in (2, 3):
        raise ShapeError(f"log_probs must have two or three dimensions, but has {log_probs.ndim}")
    shape = tuple(log_probs.shape)
    logs = ops.reshape(log_probs.node, (shape[0], 1, shape[-1])) if single else log_probs.node
    steps, batch, classes = logs.shape
    if not 0 <= blank < classes:
        raise LazytError("blank must be in label range")
    lengths = _lengths(input_lengths, batch, "input_lengths")
    counts = _lengths(target_lengths, batch, "target_lengths")
    if targets.ndim == 1 and not single:
        sizes = _numbers(counts)
        if targets.shape[0] != sum(sizes):
            raise ShapeError("Expected as many targets as target_lengths add up to, "
                             f"{sum(sizes)}, but got {targets.shape[0]}")  # fmt: skip
        rows = _side_by_side(targets, sizes)
    else:
        rows = ops.reshape(ops.cast(targets.node, int64), (batch, targets.shape[-1]))
    _check_lengths(lengths, counts, steps, rows.shape[1])
    _check_labels(rows, counts, classes)
    labels, skips = _with_blanks(rows, blank)
    loss = _as_of_softmax(_losses(logs, labels, skips, lengths, counts), logs, lengths)
    node = _reduced(loss, counts, reduction, zero_infinity)
    if single and reduction == "none":
        node = ops.reshape(node, ())
    return give(node, "CtcLoss", (log_probs,))


def _reduced(loss: Node, counts: Node, reduction: str, zero_infinity: bool) -> Node:
    dtype = loss.dtype
    if zero_infinity:
        plain = ops.detach(loss) if loss.needs_grad else loss
        infinite = ops.apply("eq", plain, constant_of(math.inf, dtype))
        loss = choose(infinite, constant_of(0, dtype), loss, dtype)
    if reduction == "none":
        return loss
    if reduction == "mean":
        size = ops.apply("maximum", counts, constant_of(1, int64))
        batch = constant_of(float(max(loss.shape[0], 1)), dtype)
        loss = ops.apply("div", ops.apply("div", loss, ops.cast(size, dtype)), batch)
    return ops.reduce_("sum", loss, (0,))
