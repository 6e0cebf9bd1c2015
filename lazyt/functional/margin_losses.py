"""Losses that want a margin: hinges, rankings, and distances in threes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lazyt import ops
from lazyt.cast_mode import in_full_precision
from lazyt.dispatch import type_title
from lazyt.errors import DTypeError, LazytError, ShapeError
from lazyt.functional.activations import logsigmoid
from lazyt.functional.arithmetic import minimum, mul, sub
from lazyt.functional.choice import choose, clamp_min, where
from lazyt.functional.creation import fresh
from lazyt.functional.loss_reduction import ReductionError, chosen_reduction, reduced_tensor
from lazyt.functional.operands import constant_of, require_tensor
from lazyt.functional.picking import gather, gather_node, value_range, within
from lazyt.functional.promotion import get_default_dtype
from lazyt.functional.results import give
from lazyt.functional.similarity import pairwise_distance
from lazyt.functional.unary import neg
from lazyt.functional.unsupported import refuse_cast
from lazyt.ir.dtypes import int64
from lazyt.ir.graph import Node
from lazyt.tensor import Tensor


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
