"""Scaled dot-product attention (Vaswani et al. 2017)."""

from __future__ import annotations

import math

from lazyt import ops
from lazyt.errors import DTypeError, InternalError, LazytError, ShapeError
from lazyt.functional.elementwise.arithmetic import scalar_build
from lazyt.functional.linalg.products import batched_product
from lazyt.functional.nn.dropouts import check_probability
from lazyt.functional.nn.normalizers import softmax_node
from lazyt.functional.operands import choose, constant_of, mapped
from lazyt.functional.random.random import drop_mask
from lazyt.functional.reductions.reductions import reduce_node
from lazyt.functional.results import give
from lazyt.handle.autocast import in_low_precision
from lazyt.handle.dispatch import type_title
from lazyt.handle.function_table import function
from lazyt.handle.tensor import Tensor
from lazyt.ir.dtypes import bool_
from lazyt.ir.graph import Node
from lazyt.ir.op import broadcast_shapes
from lazyt.ir.scalar import Expr, call, const

_MUL, _ADD = scalar_build("mul"), scalar_build("add")


@function(saves="l")
@in_low_precision
def scaled_dot_product_attention(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None,
    dropout_p: float = 0.0, is_causal: bool = False, scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:  # fmt: skip
    """``softmax(query @ key.T * scale + mask) @ value`` (Vaswani et al. 2017).

    A bool mask keeps where it is true; another is added; ``is_causal`` keeps what is no later, of
    what a mask keeps. A query that may attend to nothing gives zeros. Raises ShapeError for sizes
    that do not fit, DTypeError for different dtypes, and LazytError for a mask together with
    ``is_causal`` where PyTorch's flash attention does not take them.
    """
    _check_operands(query, key, value)
    if is_causal and attn_mask is not None:
        _check_mask_and_causal(query, key, value, attn_mask, dropout_p)
    dtype = query.dtype
    q, k, v = (ops.cast(t.node, dtype.compute) for t in (query, key, value))
    if enable_gqa and q.shape[-3] != k.shape[-3]:
        k, v = (_shared_heads(n, q.shape[-3]) for n in (k, v))
    factor = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    order = (*range(len(k.shape) - 2), len(k.shape) - 1, len(k.shape) - 2)
    scores = batched_product(q, ops.permute(k, order))
    scores = mapped(_MUL, (scores, constant_of(factor, q.dtype)), q.dtype, None)
    scores = _masked_scores(scores, attn_mask, is_causal)
    last = len(scores.shape) - 1
    weights = softmax_node(scores, last) if attn_mask is None else _safe_softmax(scores, last)
    if dropout_p:
        check_probability(dropout_p)
        scaled = mapped(_MUL, (weights, constant_of(1 / (1 - dropout_p), q.dtype)), q.dtype, None)
        kept = drop_mask(weights.shape, 1 - dropout_p)
        weights = choose(kept, scaled, constant_of(0, q.dtype), q.dtype)
    node = ops.cast(batched_product(weights, v), dtype)
    return give(node, "ScaledDotProductAttention", (query, key, value))


def _check_operands(query: Tensor, key: Tensor, value: Tensor) -> None:
    ranks = [t.ndim for t in (query, key, value)]
    if min(ranks) < 2:
        raise ShapeError(
            "Expected query, key, and value to all be  at least 2 dimensional, but got query.dim: "
            f"{ranks[0]} key.dim: {ranks[1]} and value.dim: {ranks[2]} instead."
        )
    if not query.dtype is key.dtype is value.dtype:
        names = [type_title(t.dtype).lower() for t in (query, key, value)]
        raise DTypeError(
            "Expected query, key, and value to have the same dtype, but got query.dtype: "
            f"{names[0]} key.dtype: {names[1]} and value.dtype: {names[2]} instead."
        )
    if max(ranks) == 2:
        return  # the products say what does not fit
    if query.shape[-1] != key.shape[-1]:
        raise ShapeError(
            "Expected query and key to have the same last dimension, but got query "
            f"{list(query.shape)} and key {list(key.shape)}."
        )
    if key.shape[-2] != value.shape[-2]:
        raise ShapeError(
            "Expected key and value to have the same length in dimension -2, but got key "
            f"{list(key.shape)} and value {list(value.shape)}."
        )


def _check_mask_and_causal(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor, dropout: float
) -> None:
    """PyTorch combines a mask and ``is_causal`` in its flash attention alone.

    That takes (batch, heads, length, width) of one batch and width, 2-D and 4-D masks without
    gradients, and no dropout.
    """
    taken = (
        query.ndim == key.ndim == value.ndim == 4
        and query.shape[0] == key.shape[0] == value.shape[0]
        and query.shape[-1] == key.shape[-1] == value.shape[-1]
        and mask.ndim in (2, 4)
    )
    if not taken or mask.requires_grad or dropout:
        raise LazytError("_scaled_dot_product_attention: Explicit attn_mask should not be set "
                         "when is_causal=True")  # fmt: skip


def _raised(x: Expr, top: Expr) -> Expr:
    safe = call("where", call("eq", top, const(-math.inf, x.dtype)), const(0, x.dtype), top)
    return call("exp_nonpositive", call("sub", x, safe))


def _share(total: Expr) -> Expr:
    zero = const(0, total.dtype)
    return call("reciprocal", call("where", call("eq", total, zero), const(1, zero.dtype), total))


def _safe_softmax(scores: Node, axis: int) -> Node:
    """``softmax`` with zeros instead of NaN for rows of -inf alone."""
    plain = ops.detach(scores) if scores.needs_grad else scores
    top = reduce_node("max", plain, (axis,), True)
    raised = mapped(_raised, (scores, top), scores.dtype, None)
    total = reduce_node("sum", raised, (axis,), True)
    share = mapped(_share, (total,), scores.dtype, None)
    return mapped(_MUL, (raised, share), scores.dtype, None)


def _shared_heads(node: Node, heads: int) -> Node:
    """Every head of ``node`` used by several query heads."""
    *lead, own, rows, width = node.shape
    spread = ops.reshape(node, (*lead, own, 1, rows, width))
    spread = ops.expand(spread, (*lead, own, heads // own, rows, width))
    return ops.reshape(spread, (*lead, heads, rows, width))


def _masked_scores(scores: Node, mask: Tensor | None, causal: bool) -> Node:
    dtype = scores.dtype
    nothing = constant_of(-math.inf, dtype)
    if causal:
        rows, columns = scores.shape[-2:]
        keep = ops.apply("le", ops.iota(columns), ops.reshape(ops.iota(rows), (rows, 1)))
        scores = choose(keep, scores, nothing, dtype)
    if mask is None:
        return scores
    try:
        broadcast_shapes(tuple(mask.shape), scores.shape)
    except InternalError:
        raise ShapeError(
            "Expected attn_mask to be broadcastable with the scores, "
            f"{list(scores.shape)}, but got {list(mask.shape)}."
        ) from None
    if mask.dtype is bool_:
        return choose(mask.node, scores, nothing, dtype)
    return mapped(_ADD, (scores, mask.node), dtype, None)
