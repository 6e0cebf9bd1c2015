"""The functions behind layers: normalisation, dropout, embeddings, attention."""

from __future__ import annotations

import math
from collections.abc import Sequence

from lazyt import ops
from lazyt.cast_mode import in_low_precision
from lazyt.errors import LazytError, ShapeError
from lazyt.functional.arithmetic import scalar_build
from lazyt.functional.choice import choose
from lazyt.functional.dropouts import check_probability
from lazyt.functional.normalizers import softmax_node
from lazyt.functional.operands import Build, constant_of, mapped
from lazyt.functional.products import batched_product
from lazyt.functional.random import drop_mask
from lazyt.functional.reductions import mean_node
from lazyt.functional.results import give, overwrite
from lazyt.ir.dtypes import bool_
from lazyt.ir.graph import Node
from lazyt.ir.scalar import Expr, call
from lazyt.tensor import Tensor

_SUB, _MUL, _ADD = scalar_build("sub"), scalar_build("mul"), scalar_build("add")


def _standard(gap: Expr, variance: Expr, eps: Expr) -> Expr:
    return call("mul", gap, call("rsqrt", call("add", variance, eps)))


def _scaled(gap: Expr, variance: Expr, eps: Expr, weight: Expr) -> Expr:
    return call("mul", _standard(gap, variance, eps), weight)


def _affine(gap: Expr, variance: Expr, eps: Expr, weight: Expr, bias: Expr) -> Expr:
    return call("add", _scaled(gap, variance, eps, weight), bias)


def _shifted(gap: Expr, variance: Expr, eps: Expr, bias: Expr) -> Expr:
    return call("add", _standard(gap, variance, eps), bias)


def _moments(node: Node, axes: tuple[int, ...]) -> tuple[Node, Node, Node]:
    """Mean, distances from it, and variance; ``node`` is in its compute type."""
    dtype = node.dtype
    centre = mean_node(node, axes, True)
    gap = mapped(_SUB, (node, centre), dtype, None)
    variance = mean_node(mapped(_MUL, (gap, gap), dtype, None), axes, True)
    return centre, gap, variance


def _finish(
    gap: Node, variance: Node, eps: float, weight: Node | None, bias: Node | None, like: Tensor
) -> Node:
    """``gap / sqrt(variance + eps) * weight + bias`` as one map, in ``like``'s dtype."""
    builds: dict[tuple[bool, bool], Build] = {
        (False, False): _standard,
        (True, False): _scaled,
        (False, True): _shifted,
        (True, True): _affine,
    }
    build = builds[weight is not None, bias is not None]
    extra = tuple(n for n in (weight, bias) if n is not None)
    eps_node = constant_of(eps, gap.dtype)
    return mapped(build, (gap, variance, eps_node, *extra), gap.dtype, like.dtype)


def _check_normalized(input: Tensor, normalized_shape: Sequence[int]) -> tuple[int, ...]:
    wanted = tuple(normalized_shape)
    rank = len(input.shape)
    if not wanted or tuple(input.shape[rank - len(wanted) :]) != wanted:
        text = ", ".join(map(str, wanted))
        raise ShapeError(
            f"Given normalized_shape=[{text}], expected input with shape [*, {text}], but got "
            f"input of size{list(input.shape)}"
        )
    return tuple(range(rank - len(wanted), rank))


def layer_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None,
    bias: Tensor | None = None, eps: float = 1e-5,
) -> Tensor:  # fmt: skip
    """Mean 0 and variance 1 over the last dimensions (Ba et al. 2016). Raises ShapeError."""
    axes = _check_normalized(input, normalized_shape)
    _, gap, variance = _moments(ops.cast(input.node, input.dtype.compute), axes)
    parts = [None if t is None else t.node for t in (weight, bias)]
    node = _finish(gap, variance, eps, parts[0], parts[1], input)
    return give(node, "NativeLayerNorm", (input, weight, bias))


def rms_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None,
    eps: float | None = None,
) -> Tensor:  # fmt: skip
    """Division by the root of the mean square (Zhang & Sennrich 2019). Raises ShapeError."""
    axes = _check_normalized(input, normalized_shape)
    node = ops.cast(input.node, input.dtype.compute)
    square = mean_node(mapped(_MUL, (node, node), node.dtype, None), axes, True)
    tiny = {"float64": 2.0**-52, "float16": 2.0**-10, "bfloat16": 2.0**-7}
    floor = tiny.get(input.dtype.name, 2.0**-23) if eps is None else eps
    scale = None if weight is None else weight.node
    return give(_finish(node, square, floor, scale, None, input), "RmsNorm", (input, weight))


def batch_norm(
    input: Tensor, running_mean: Tensor | None, running_var: Tensor | None,
    weight: Tensor | None = None, bias: Tensor | None = None, training: bool = False,
    momentum: float = 0.1, eps: float = 1e-5,
) -> Tensor:  # fmt: skip
    """Mean 0 and variance 1 per channel (dimension 1), of the batch or as they ran so far.

    In training the running statistics are updated in place. Raises ShapeError for one value per
    channel in training, and LazytError without statistics outside of it.
    """
    shape = tuple(input.shape)
    channel = (shape[1], *(1,) * (len(shape) - 2))
    axes = (0, *range(2, len(shape)))
    node = ops.cast(input.node, input.dtype.compute)
    parts = [None if t is None else ops.reshape(t.node, channel) for t in (weight, bias)]
    if training:
        count = math.prod(shape[a] for a in axes)
        if count == 1:
            raise ShapeError(
                "Expected more than 1 value per channel when training, got input size "
                f"{input.shape}"
            )
        centre, gap, variance = _moments(node, axes)
        unbiased = count / (count - 1)
        _update_running(running_mean, centre, 1.0, momentum)
        _update_running(running_var, variance, unbiased, momentum)
    else:
        if running_mean is None or running_var is None:
            raise LazytError("Expected running_mean and running_var to be defined")
        centre, variance = (
            ops.reshape(ops.cast(t.node, node.dtype), channel) for t in (running_mean, running_var)
        )
        gap = mapped(_SUB, (node, centre), node.dtype, None)
    result = _finish(gap, variance, eps, parts[0], parts[1], input)
    return give(result, "NativeBatchNorm", (input, weight, bias))


def _mix(old: Expr, new: Expr, keep: Expr, share: Expr) -> Expr:
    return call("add", call("mul", old, keep), call("mul", new, share))


def _update_running(running: Tensor | None, new: Node, scale: float, momentum: float) -> None:
    """``running = (1 - momentum) * running + momentum * scale * new``, without gradient."""
    if running is None:
        return
    new = ops.reshape(ops.detach(new) if new.needs_grad else new, tuple(running.shape))
    dtype = running.dtype
    shares = (1 - momentum, momentum * scale)
    constants = tuple(constant_of(s, dtype.compute) for s in shares)
    node = mapped(_mix, (running.node, new, *constants), dtype, dtype)
    overwrite(running, node, "RunningStatistics", ())


def group_norm(
    input: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:  # fmt: skip
    """Mean 0 and variance 1 per group of channels (Wu & He 2018). Raises ShapeError."""
    shape = tuple(input.shape)
    if shape[1] % num_groups:
        raise ShapeError(
            "Expected number of channels in input to be divisible by num_groups, but got input "
            f"of shape {list(shape)} and num_groups={num_groups}"
        )
    grouped = (shape[0], num_groups, shape[1] // num_groups, *shape[2:])
    node = ops.reshape(ops.cast(input.node, input.dtype.compute), grouped)
    _, gap, variance = _moments(node, tuple(range(2, len(grouped))))
    affine = (num_groups, shape[1] // num_groups, *(1,) * (len(shape) - 2))
    parts = [None if t is None else ops.reshape(t.node, affine) for t in (weight, bias)]
    result = ops.reshape(_finish(gap, variance, eps, parts[0], parts[1], input), shape)
    return give(result, "NativeGroupNorm", (input, weight, bias))


def instance_norm(
    input: Tensor, running_mean: Tensor | None = None, running_var: Tensor | None = None,
    weight: Tensor | None = None, bias: Tensor | None = None, use_input_stats: bool = True,
    momentum: float = 0.1, eps: float = 1e-5,
) -> Tensor:  # fmt: skip
    """Mean 0 and variance 1 per channel of every sample."""
    if not use_input_stats:
        return batch_norm(input, running_mean, running_var, weight, bias, False, momentum, eps)
    if running_mean is not None or running_var is not None:
        raise LazytError("instance_norm does not keep running statistics")
    return group_norm(input, input.shape[1], weight, bias, eps)


@in_low_precision
def scaled_dot_product_attention(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None,
    dropout_p: float = 0.0, is_causal: bool = False, scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:  # fmt: skip
    """``softmax(query @ key.T * scale + mask) @ value`` (Vaswani et al. 2017).

    A bool mask keeps where it is true; another is added. Raises ShapeError for sizes that do not
    fit and LazytError for a mask together with ``is_causal``.
    """
    if is_causal and attn_mask is not None:
        raise LazytError("_scaled_dot_product_attention: Explicit attn_mask should not be set "
                         "when is_causal=True")  # fmt: skip
    dtype = query.dtype
    q, k, v = (ops.cast(t.node, dtype.compute) for t in (query, key, value))
    if enable_gqa and q.shape[-3] != k.shape[-3]:
        k, v = (_shared_heads(n, q.shape[-3]) for n in (k, v))
    factor = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    order = (*range(len(k.shape) - 2), len(k.shape) - 1, len(k.shape) - 2)
    scores = batched_product(q, ops.permute(k, order))
    scores = mapped(_MUL, (scores, constant_of(factor, q.dtype)), q.dtype, None)
    scores = _masked_scores(scores, attn_mask, is_causal)
    weights = softmax_node(scores, len(scores.shape) - 1)
    if dropout_p:
        check_probability(dropout_p)
        scaled = mapped(_MUL, (weights, constant_of(1 / (1 - dropout_p), q.dtype)), q.dtype, None)
        kept = drop_mask(weights.shape, 1 - dropout_p)
        weights = choose(kept, scaled, constant_of(0, q.dtype), q.dtype)
    node = ops.cast(batched_product(weights, v), dtype)
    return give(node, "ScaledDotProductAttention", (query, key, value))


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
        return choose(keep, scores, nothing, dtype)
    if mask is None:
        return scores
    if mask.dtype is bool_:
        return choose(mask.node, scores, nothing, dtype)
    return mapped(_ADD, (scores, mask.node), dtype, None)
