"""``lazyt.nn.functional``: the functions behind the layers, by PyTorch's names."""

from __future__ import annotations

import math
from typing import Any

from lazyt.compat.absent import explain_absence as _explain_absence
from lazyt.errors import LazytError, ShapeError
from lazyt.errors import warn as _warn
from lazyt.functional import namespace as lazyt
from lazyt.functional.calls import explain_calls as _explain_calls
from lazyt.functional.elementwise.activations import (
    celu,
    celu_,
    elu,
    elu_,
    gelu,
    glu,
    hardshrink,
    hardsigmoid,
    hardswish,
    hardtanh,
    hardtanh_,
    leaky_relu,
    leaky_relu_,
    logsigmoid,
    mish,
    prelu,
    relu,
    relu6,
    relu_,
    rrelu,
    rrelu_,
    selu,
    selu_,
    silu,
    softplus,
    softshrink,
    softsign,
    tanhshrink,
    threshold,
    threshold_,
)
from lazyt.functional.elementwise.unary import sigmoid, tanh
from lazyt.functional.linalg.distances import cosine_similarity, normalize, pairwise_distance, pdist
from lazyt.functional.linalg.equations import bilinear
from lazyt.functional.linalg.products import linear
from lazyt.functional.nn.attention import scaled_dot_product_attention
from lazyt.functional.nn.borders import pad
from lazyt.functional.nn.class_losses import (
    cosine_embedding_loss,
    cross_entropy,
    ctc_loss,
    hinge_embedding_loss,
    linear_cross_entropy,
    margin_ranking_loss,
    multi_margin_loss,
    multilabel_margin_loss,
    multilabel_soft_margin_loss,
    nll_loss,
    soft_margin_loss,
    triplet_margin_loss,
    triplet_margin_with_distance_loss,
)
from lazyt.functional.nn.columns import (
    channel_shuffle,
    fold,
    native_channel_shuffle,
    pixel_shuffle,
    pixel_unshuffle,
    unfold,
)
from lazyt.functional.nn.convolution import (
    conv1d,
    conv2d,
    conv3d,
    conv_tbc,
    conv_transpose1d,
    conv_transpose2d,
    conv_transpose3d,
)
from lazyt.functional.nn.dropouts import (
    alpha_dropout,
    dropout,
    dropout1d,
    dropout2d,
    dropout3d,
    feature_alpha_dropout,
)
from lazyt.functional.nn.embeddings import embedding, embedding_bag, one_hot
from lazyt.functional.nn.interpolation import (
    affine_grid,
    grid_sample,
    interpolate,
    upsample,
    upsample_bilinear,
    upsample_nearest,
)
from lazyt.functional.nn.losses import (
    binary_cross_entropy,
    binary_cross_entropy_with_logits,
    gaussian_nll_loss,
    huber_loss,
    kl_div,
    l1_loss,
    mse_loss,
    poisson_nll_loss,
    smooth_l1_loss,
)
from lazyt.functional.nn.normalization import (
    batch_norm,
    group_norm,
    gumbel_softmax,
    instance_norm,
    layer_norm,
    local_response_norm,
    log_softmax,
    rms_norm,
    softmax,
    softmin,
)
from lazyt.functional.nn.pooling import (
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_avg_pool3d,
    adaptive_max_pool1d,
    adaptive_max_pool1d_with_indices,
    adaptive_max_pool2d,
    adaptive_max_pool2d_with_indices,
    adaptive_max_pool3d,
    adaptive_max_pool3d_with_indices,
    avg_pool1d,
    avg_pool2d,
    avg_pool3d,
    fractional_max_pool2d,
    fractional_max_pool2d_with_indices,
    fractional_max_pool3d,
    fractional_max_pool3d_with_indices,
    lp_pool1d,
    lp_pool2d,
    lp_pool3d,
    max_pool1d,
    max_pool1d_with_indices,
    max_pool2d,
    max_pool2d_with_indices,
    max_pool3d,
    max_pool3d_with_indices,
    max_unpool1d,
    max_unpool2d,
    max_unpool3d,
)
from lazyt.functional.shapes.joining import cat as _cat
from lazyt.handle.function_table import function as _function
from lazyt.handle.tensor import Tensor

__all__ = [
    "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "adaptive_max_pool1d",
    "adaptive_max_pool1d_with_indices", "adaptive_max_pool2d", "adaptive_max_pool2d_with_indices",
    "adaptive_max_pool3d", "adaptive_max_pool3d_with_indices", "affine_grid", "alpha_dropout",
    "avg_pool1d", "avg_pool2d", "avg_pool3d", "batch_norm", "bilinear", "binary_cross_entropy",
    "binary_cross_entropy_with_logits", "celu", "celu_", "channel_shuffle", "conv1d", "conv2d",
    "conv3d", "conv_tbc", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d",
    "cosine_embedding_loss", "cosine_similarity", "cross_entropy", "ctc_loss", "dropout",
    "dropout1d", "dropout2d", "dropout3d", "elu", "elu_", "embedding", "embedding_bag",
    "feature_alpha_dropout", "fold", "fractional_max_pool2d", "fractional_max_pool2d_with_indices",
    "fractional_max_pool3d", "fractional_max_pool3d_with_indices", "gaussian_nll_loss", "gelu",
    "glu", "grid_sample", "group_norm", "gumbel_softmax", "hardshrink", "hardsigmoid", "hardswish",
    "hardtanh", "hardtanh_", "hinge_embedding_loss", "huber_loss", "instance_norm", "interpolate",
    "kl_div", "l1_loss", "layer_norm", "leaky_relu", "leaky_relu_", "linear",
    "linear_cross_entropy", "local_response_norm",
    "log_softmax", "logsigmoid", "lp_pool1d", "lp_pool2d", "lp_pool3d", "margin_ranking_loss",
    "max_pool1d", "max_pool1d_with_indices", "max_pool2d", "max_pool2d_with_indices", "max_pool3d",
    "max_pool3d_with_indices", "max_unpool1d", "max_unpool2d", "max_unpool3d", "mish", "mse_loss",
    "multi_head_attention_forward", "multi_margin_loss", "multilabel_margin_loss",
    "multilabel_soft_margin_loss", "native_channel_shuffle", "nll_loss", "normalize", "one_hot",
    "pad", "pairwise_distance", "pdist", "pixel_shuffle", "pixel_unshuffle", "poisson_nll_loss",
    "prelu", "relu", "relu6", "relu_", "rms_norm", "rrelu", "rrelu_",
    "scaled_dot_product_attention", "selu", "selu_", "sigmoid", "silu", "smooth_l1_loss",
    "soft_margin_loss", "softmax", "softmin", "softplus", "softshrink", "softsign", "tanh",
    "tanhshrink", "threshold", "threshold_", "triplet_margin_loss",
    "triplet_margin_with_distance_loss", "unfold", "upsample", "upsample_bilinear",
    "upsample_nearest",
]  # fmt: skip


# Attention with several heads (Vaswani et al. 2017), from inputs and weights to outputs.
#
# It calls functions of this module by name, so that those that are replaced here are used, as in
# PyTorch.


class AttentionError(LazytError, AssertionError):
    """Operands of attention that do not fit together."""


def _check_ranks(
    query: Tensor, key: Tensor, value: Tensor, padding: Tensor | None, mask: Tensor | None,
    heads: int,
) -> bool:  # fmt: skip
    """Whether there is a batch dimension; raises AttentionError in PyTorch's words."""
    rank = query.ndim
    if rank not in (2, 3):
        raise AttentionError(
            f"query should be unbatched 2D or batched 3D tensor but received {rank}-D query tensor"
        )
    case = f"For {'batched (3-D)' if rank == 3 else 'unbatched (2-D)'} `query`, expected"
    if key.ndim != rank or value.ndim != rank:
        raise AttentionError(
            f"{case} `key` and `value` to be {rank}-D but found {key.ndim}-D and {value.ndim}-D "
            "tensors respectively"
        )
    if padding is not None and padding.ndim != rank - 1:
        raise AttentionError(
            f"{case} `key_padding_mask` to be `None` or {rank - 1}-D but found {padding.ndim}-D "
            "tensor instead"
        )
    if mask is not None and mask.ndim not in (2, 3):
        raise AttentionError(
            f"{case} `attn_mask` to be `None`, 2-D or 3-D but found {mask.ndim}-D tensor instead"
        )
    if mask is not None and rank == 2 and mask.ndim == 3:
        wanted = (heads, query.shape[0], key.shape[0])
        if tuple(mask.shape) != wanted:
            raise AttentionError(f"Expected `attn_mask` shape to be {wanted} but got {mask.shape}")
    return rank == 3


def _addend(mask: Tensor | None, name: str, dtype: lazyt.dtype) -> Tensor | None:
    """A mask as what is added to the scores; raises AttentionError for whole numbers."""
    if mask is None or mask.dtype.kind == "f":
        return mask
    if mask.dtype is not lazyt.bool:
        raise AttentionError(f"only bool and floating types of {name} are supported")
    found: Tensor = mask.new_zeros(mask.shape, dtype=dtype).masked_fill(mask, -math.inf)
    return found


def _checked_mask(mask: Tensor | None, rows: int, targets: int, sources: int) -> Tensor | None:
    """The mask with a dimension for batch and heads; raises ShapeError."""
    if mask is None:
        return None
    wanted = (targets, sources) if mask.ndim == 2 else (rows, targets, sources)
    if tuple(mask.shape) != wanted:
        raise ShapeError(
            f"The shape of the {mask.ndim}D attn_mask is {mask.shape}, but should be {wanted}."
        )
    found: Tensor = mask.unsqueeze(0) if mask.ndim == 2 else mask
    return found


def _projected(
    inputs: tuple[Tensor, Tensor, Tensor], joint: Tensor | None, bias: Tensor | None,
    separate: tuple[Tensor | None, ...] | None,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Queries, keys and values by one weight [3 * E, E] or by three."""
    query, key, value = inputs
    if separate is None:
        if joint is None:
            raise AttentionError("use_separate_proj_weight is False but in_proj_weight is None")
        if key.shape != value.shape:
            raise AttentionError(f"key shape {key.shape} does not match value shape {value.shape}")
        if query is key and key is value:
            together: tuple[Tensor, ...] = linear(query, joint, bias).chunk(3, -1)
            return together
        weights: tuple[Any, ...] = joint.chunk(3)
    else:
        for name, weight in zip("qkv", separate):
            if weight is None:
                raise AttentionError(
                    f"use_separate_proj_weight is True but {name}_proj_weight is None"
                )
        if key.shape[:2] != value.shape[:2]:
            raise AttentionError(
                f"key's sequence and batch dims {key.shape[:2]} do not match value's "
                f"{value.shape[:2]}"
            )
        weights = separate
    biases: tuple[Tensor | None, ...] = (None,) * 3
    if bias is not None:
        biases = bias.chunk(3)
    return tuple(linear(x, w, b) for x, w, b in zip(inputs, weights, biases))


def _static(given: Tensor, name: str, rows: int, width: int) -> Tensor:
    """Keys or values that come ready made."""
    for axis, wanted in ((0, rows), (2, width)):
        if given.shape[axis] != wanted:
            raise AttentionError(
                f"expecting {name}.size({axis}) of {wanted}, but got {given.shape[axis]}"
            )
    return given


def _grown(mask: Tensor | None) -> Tensor | None:
    """One more key, which everybody attends to."""
    return None if mask is None else pad(mask, (0, 1))


def _with_padding(
    mask: Tensor | None, padding: Tensor | None, batch: int, heads: int, sources: int
) -> Tensor | None:
    """Both masks as one that broadcasts to [batch * heads, targets, sources]."""
    if padding is None:
        return mask
    if tuple(padding.shape) != (batch, sources):
        place = 0 if padding.shape[0] != batch else 1
        raise AttentionError(
            f"Expected key_padded_mask.shape[{place}] to be {(batch, sources)[place]}, but got "
            f"{padding.shape[place]}"
        )
    hidden = padding.view(batch, 1, 1, sources).expand(batch, heads, 1, sources)
    hidden = hidden.reshape(batch * heads, 1, sources)
    total: Tensor = hidden if mask is None else mask + hidden
    return total


def _check_width(width: int, wanted: int, heads: int) -> None:
    if width != wanted:
        raise AttentionError(f"was expecting embedding dimension of {wanted}, but got {width}")
    if width % heads:
        raise AttentionError(f"embed_dim {width} not divisible by num_heads {heads}")


def _with_batch(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """[L, E] as [L, 1, E]; what was one tensor stays one."""
    q = query.unsqueeze(1)
    k = q if key is query else key.unsqueeze(1)
    return q, k, k if value is key else value.unsqueeze(1)


Pair = tuple[Tensor | None, Tensor | None]


def _with_biases(
    k: Tensor, v: Tensor, mask: Tensor | None, padding: Tensor | None, biases: Pair, static: Pair
) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
    """Keys and values with one more of each, the same for all; raises AttentionError."""
    bias_k, bias_v = biases
    if bias_k is None and bias_v is None:
        return k, v, mask, padding
    if bias_k is None or bias_v is None:
        names = ("bias_k", "bias_v") if bias_v is None else ("bias_v", "bias_k")
        raise AttentionError("{} is set but {} is None".format(*names))
    for name, given in zip(("key", "value"), static):
        if given is not None:
            raise AttentionError(f"bias cannot be added to static {name}.")
    batch = k.shape[1]
    k, v = _cat([k, bias_k.repeat(1, batch, 1)]), _cat([v, bias_v.repeat(1, batch, 1)])
    return k, v, _grown(mask), _grown(padding)


def _in_heads(
    projected: tuple[Tensor, Tensor, Tensor], mask: Tensor | None, padding: Tensor | None,
    rows: int, static: Pair, add_zero: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor | None, Tensor | None]:  # fmt: skip
    """[L, N, E] as [N * heads, L, E / heads]; ready-made keys and values, and one more of zeros."""
    batch, width = projected[0].shape[1:]
    own = batch * width // rows
    q, k, v = (x.reshape(x.shape[0], rows, own).transpose(0, 1) for x in projected)
    static_k, static_v = static
    k = k if static_k is None else _static(static_k, "static_k", rows, own)
    v = v if static_v is None else _static(static_v, "static_v", rows, own)
    if not add_zero:
        return q, k, v, mask, padding
    k, v = (_cat([x, x.new_zeros((rows, 1, own))], 1) for x in (k, v))
    return q, k, v, _grown(mask), _grown(padding)


@_function()
def multi_head_attention_forward(
    query: Tensor, key: Tensor, value: Tensor, embed_dim_to_check: int, num_heads: int,
    in_proj_weight: Tensor | None, in_proj_bias: Tensor | None, bias_k: Tensor | None,
    bias_v: Tensor | None, add_zero_attn: bool, dropout_p: float, out_proj_weight: Tensor,
    out_proj_bias: Tensor | None, training: bool = True, key_padding_mask: Tensor | None = None,
    need_weights: bool = True, attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False, q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None, v_proj_weight: Tensor | None = None,
    static_k: Tensor | None = None, static_v: Tensor | None = None,
    average_attn_weights: bool = True, is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:  # fmt: skip
    """Queries [L, N, E], keys and values [S, N, E] to outputs [L, N, E] and weights [N, L, S].

    Without a batch there is no N. Masks are bool (true hides) or are added to the scores:
    ``attn_mask`` [L, S] or [N * num_heads, L, S], ``key_padding_mask`` [N, S]. ``bias_k`` and
    ``bias_v`` [1, 1, E] are one more key and value for all, ``add_zero_attn`` adds one of zeros,
    ``static_k`` and ``static_v`` [N * num_heads, S, E / num_heads] stand in for projected ones.
    ``is_causal`` says that ``attn_mask`` hides what comes later: without weights and padding the
    mask itself is not read, as in PyTorch.

    Raises AttentionError (an AssertionError) for operands that do not fit, ShapeError for masks,
    LazytError for ``is_causal`` without a mask.
    """
    batched = _check_ranks(query, key, value, key_padding_mask, attn_mask, num_heads)
    if not batched:
        query, key, value = _with_batch(query, key, value)
        key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
    targets, batch, width = query.shape
    _check_masks(key_padding_mask, attn_mask, is_causal)
    padding = _addend(key_padding_mask, "key_padding_mask", query.dtype)
    hint = is_causal and key_padding_mask is None and not need_weights
    mask = None if hint else _addend(attn_mask, "attn_mask", query.dtype)
    _check_width(width, embed_dim_to_check, num_heads)
    separate = (q_proj_weight, k_proj_weight, v_proj_weight) if use_separate_proj_weight else None
    q, k, v = _projected((query, key, value), in_proj_weight, in_proj_bias, separate)
    rows = batch * num_heads
    mask = _checked_mask(mask, rows, targets, key.shape[0])
    k, v, mask, padding = _with_biases(k, v, mask, padding, (bias_k, bias_v), (static_k, static_v))
    q, k, v, mask, padding = _in_heads(
        (q, k, v), mask, padding, rows, (static_k, static_v), add_zero_attn
    )
    mask = _with_padding(mask, padding, batch, num_heads, k.shape[1])
    drop = dropout_p if training else 0.0
    if need_weights:
        out, weights = _attend(q, k, v, mask, drop, batch)
    else:
        if mask is not None:
            mask = mask.expand(rows, mask.shape[1], k.shape[1])
        out, weights = scaled_dot_product_attention(q, k, v, mask, drop, hint), None
    out = linear(
        out.transpose(0, 1).reshape(targets * batch, width), out_proj_weight, out_proj_bias
    )
    out = out.view(targets, batch, out.shape[1])
    if weights is not None and average_attn_weights:
        weights = weights.mean(1)
    if not batched:
        return out.squeeze(1), None if weights is None else weights.squeeze(0)
    return out, weights


def _check_masks(padding: Tensor | None, mask: Tensor | None, is_causal: bool) -> None:
    if is_causal and mask is None:
        raise LazytError(
            "Need attn_mask if specifying the is_causal hint. You may use the Transformer module "
            "method `generate_square_subsequent_mask` to create this mask."
        )
    if padding is not None and mask is not None and padding.dtype is not mask.dtype:
        _warn(
            "Support for mismatched key_padding_mask and attn_mask is deprecated. Use same type "
            "for both instead."
        )


def _attend(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, drop: float, batch: int
) -> tuple[Tensor, Tensor]:
    """[batch * heads, L, width / heads], and the weights [batch, heads, L, S]."""
    rows, sources = q.shape[0], k.shape[1]
    scores = (q * math.sqrt(1.0 / q.shape[-1])) @ k.transpose(-2, -1)
    weights = softmax(scores if mask is None else scores + mask, -1)
    weights = dropout(weights, drop)
    return weights @ v, weights.view(batch, rows // batch, q.shape[1], sources)


_explain_calls(globals(), __all__, __name__)

_explain_absence(__name__)
