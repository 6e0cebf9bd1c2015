"""Functions of layers as the torch namespace has them, where ``nn.functional``'s take other
arguments: statistics in another order, reductions as numbers, and dropout in place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lazyt.errors import LazytError, ShapeError
from lazyt.functional.creation.creation import empty, ones_like
from lazyt.functional.elementwise.activations import relu
from lazyt.functional.elementwise.unary import sigmoid, tanh
from lazyt.functional.linalg.products import linear
from lazyt.functional.nn import (
    attention,
    borders,
    class_losses,
    dropouts,
    embeddings,
    interpolation,
    losses,
    normalization,
    pooling,
)
from lazyt.functional.nn import convolution as convolutions
from lazyt.functional.operands import require_tensor
from lazyt.functional.random.random import drop_mask
from lazyt.functional.results import give
from lazyt.functional.type_promotion import get_default_dtype, refuse_cast
from lazyt.handle.function_table import declare, function
from lazyt.handle.tensor import Tensor
from lazyt.ir.dtypes import bool_

__all__ = [
    "adaptive_max_pool1d", "affine_grid_generator", "alpha_dropout", "alpha_dropout_", "batch_norm",
    "binary_cross_entropy_with_logits", "constant_pad_nd", "convolution", "cosine_embedding_loss",
    "ctc_loss", "dropout", "dropout_", "embedding", "embedding_renorm_", "feature_alpha_dropout",
    "feature_alpha_dropout_", "feature_dropout", "feature_dropout_", "grid_sampler",
    "grid_sampler_2d", "grid_sampler_3d", "group_norm", "gru_cell", "hinge_embedding_loss",
    "instance_norm", "kl_div", "layer_norm", "lstm_cell", "margin_ranking_loss",
    "native_batch_norm", "native_dropout", "native_group_norm", "native_layer_norm",
    "poisson_nll_loss", "rms_norm", "rnn_relu_cell", "rnn_tanh_cell",
    "scaled_dot_product_attention", "triplet_margin_loss",
]  # fmt: skip

rms_norm = declare("rms_norm", normalization.rms_norm, cast="full")
scaled_dot_product_attention = declare(
    "scaled_dot_product_attention", attention.scaled_dot_product_attention
)

_REDUCTIONS = ("none", "mean", "sum")


def _name_of(reduction: int) -> str:
    """The reduction of a number: 0 none, 1 mean, 2 sum. Raises LazytError for others."""
    if reduction not in (0, 1, 2):
        raise LazytError(f"reduction is 0 (none), 1 (mean) or 2 (sum), not {reduction}")
    return _REDUCTIONS[reduction]


# ------------------------------------------------------------------ normalisation


@function()
def batch_norm(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None,
    running_var: Tensor | None, training: bool, momentum: float, eps: float,
    cudnn_enabled: bool = True,
) -> Tensor:  # fmt: skip
    """``nn.functional.batch_norm``; ``cudnn_enabled`` has no effect."""
    options = (weight, bias, training, momentum, eps)
    return normalization.batch_norm(input, running_mean, running_var, *options)


@function()
def instance_norm(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None,
    running_var: Tensor | None, use_input_stats: bool, momentum: float, eps: float,
    cudnn_enabled: bool = True,
) -> Tensor:  # fmt: skip
    """``nn.functional.instance_norm``; ``cudnn_enabled`` has no effect."""
    options = (weight, bias, use_input_stats, momentum, eps)
    return normalization.instance_norm(input, running_mean, running_var, *options)


@function(cast="full")
def layer_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None,
    bias: Tensor | None = None, eps: float = 1e-5, cudnn_enable: bool = True,
) -> Tensor:  # fmt: skip
    """``nn.functional.layer_norm``; ``cudnn_enable`` has no effect."""
    require_tensor(input, "layer_norm")
    return normalization.layer_norm(input, normalized_shape, weight, bias, eps)


@function(cast="full")
def group_norm(
    input: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None,
    eps: float = 1e-5, cudnn_enabled: bool = True,
) -> Tensor:  # fmt: skip
    """``nn.functional.group_norm``; ``cudnn_enabled`` has no effect."""
    require_tensor(input, "group_norm")
    return normalization.group_norm(input, num_groups, weight, bias, eps)


# ------------------------------------------------------------------ dropout


_Dropout = Callable[[Tensor, float, bool], Tensor]


def _dropouts(function: Callable[..., Tensor], name: str) -> tuple[_Dropout, _Dropout]:
    """A dropout of the namespace, and its in-place form."""

    def plain(input: Tensor, p: float, train: bool) -> Tensor:
        return function(input, p, train, False)

    def in_place(input: Tensor, p: float, train: bool) -> Tensor:
        return function(input, p, train, True)

    plain.__name__ = plain.__qualname__ = name
    plain.__doc__ = f"``{name}`` with all arguments given. Raises ProbabilityError (a ValueError)."
    in_place.__name__ = in_place.__qualname__ = f"{name}_"
    in_place.__doc__ = f"``{name}`` in place."
    return plain, in_place


dropout, dropout_ = _dropouts(dropouts.dropout, "dropout")
feature_dropout, feature_dropout_ = _dropouts(dropouts.feature_dropout, "feature_dropout")
alpha_dropout, alpha_dropout_ = _dropouts(dropouts.alpha_dropout, "alpha_dropout")
feature_alpha_dropout, feature_alpha_dropout_ = _dropouts(
    dropouts.feature_alpha_dropout, "feature_alpha_dropout"
)
for _forms in (
    dropout,
    dropout_,
    feature_dropout,
    feature_dropout_,
    alpha_dropout,
    alpha_dropout_,
    feature_alpha_dropout,
    feature_alpha_dropout_,
):
    declare(_forms.__name__, _forms)


# ------------------------------------------------------------------ tables, grids, borders


@function()
def embedding(
    weight: Tensor, indices: Tensor, padding_idx: int = -1, scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:  # fmt: skip
    """Rows of ``weight`` by number; a ``padding_idx`` of -1 means none. Raises BoundsError."""
    require_tensor(weight, "embedding", "weight")
    padding = None if padding_idx == -1 else padding_idx
    return embeddings.embedding(indices, weight, padding, None, 2.0, scale_grad_by_freq, sparse)


@function()
def embedding_renorm_(input: Tensor, indices: Tensor, max_norm: float, norm_type: float) -> Tensor:
    """Rows that ``indices`` name shortened to ``max_norm`` in place. Raises BoundsError."""
    return embeddings.renormalize_rows(input, indices, max_norm, norm_type)


@function()
def grid_sampler(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """``nn.functional.grid_sample`` with its modes as numbers, in the order they are listed."""
    mode = ("bilinear", "nearest", "bicubic")[interpolation_mode]
    border = ("zeros", "border", "reflection")[padding_mode]
    return interpolation.grid_sample(input, grid, mode, border, align_corners)


@function()
def affine_grid_generator(theta: Tensor, size: Sequence[int], align_corners: bool) -> Tensor:
    """``nn.functional.affine_grid``."""
    return interpolation.affine_grid(theta, size, align_corners)


def constant_pad_nd(input: Tensor, pad: Sequence[int], value: float = 0) -> Tensor:
    """``nn.functional.pad`` with a constant. Raises ShapeError."""
    return borders.pad(input, pad, "constant", value)


@function()
def adaptive_max_pool1d(input: Tensor, output_size: Any) -> tuple[Tensor, Tensor]:
    """Maxima over so many bins of the last dimension, and their places. Raises ShapeError."""
    require_tensor(input, "adaptive_max_pool1d")
    found: tuple[Tensor, Tensor] = pooling.adaptive_max_pool1d(input, output_size, True)
    return found


# ------------------------------------------------------------------ losses; reduction 0, 1 or 2
# The default is what PyTorch 2.13 does, not the mean that its signatures name.


@function(cast="full")
def kl_div(
    input: Tensor, target: Tensor, reduction: int = 0, *, log_target: bool = False
) -> Tensor:
    """``nn.functional.kl_div``. Raises ShapeError."""
    require_tensor(input, "kl_div")
    name = _name_of(reduction)
    return losses.divergence(input, target, name, log_target)


@function(cast="full")
def binary_cross_entropy_with_logits(
    input: Tensor, target: Tensor, weight: Tensor | None = None,
    pos_weight: Tensor | None = None, reduction: int = 0,
) -> Tensor:  # fmt: skip
    """``nn.functional.binary_cross_entropy_with_logits``. Raises ShapeError."""
    require_tensor(input, "binary_cross_entropy_with_logits")
    return losses.binary_cross_entropy_with_logits(
        input, target, weight, reduction=_name_of(reduction), pos_weight=pos_weight
    )


@function(cast="full")
def cosine_embedding_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int = 0
) -> Tensor:
    """``nn.functional.cosine_embedding_loss``. Raises ShapeError."""
    name = _name_of(reduction)
    return class_losses.cosine_embedding_loss(input1, input2, target, margin, reduction=name)


@function(cast="full")
def hinge_embedding_loss(
    input: Tensor, target: Tensor, margin: float = 1.0, reduction: int = 0
) -> Tensor:
    """``nn.functional.hinge_embedding_loss``. Raises ShapeError."""
    name = _name_of(reduction)
    return class_losses.hinge_embedding_loss(input, target, margin, reduction=name)


@function(cast="full")
def margin_ranking_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int = 0
) -> Tensor:
    """``nn.functional.margin_ranking_loss`` of operands that broadcast, of any ranks.

    Raises ShapeError.
    """
    loss = (margin - target * (input1 - input2)).clamp_min(0)
    name = _name_of(reduction)
    found: Tensor = loss if name == "none" else getattr(loss, name)()
    return found


@function(cast="full")
def triplet_margin_loss(
    anchor: Tensor, positive: Tensor, negative: Tensor, margin: float = 1.0, p: float = 2,
    eps: float = 1e-6, swap: bool = False, reduction: int = 0,
) -> Tensor:  # fmt: skip
    """``nn.functional.triplet_margin_loss``. Raises ReductionError (a ValueError), ShapeError."""
    return class_losses.triplet_margin_loss(
        anchor, positive, negative, margin, p, eps, swap, reduction=_name_of(reduction)
    )


@function(cast="full")
def poisson_nll_loss(
    input: Tensor, target: Tensor, log_input: bool, full: bool, eps: float, reduction: int
) -> Tensor:
    """``nn.functional.poisson_nll_loss`` with all arguments given. Raises ShapeError."""
    name = _name_of(reduction)
    return losses.poisson_nll_loss(input, target, log_input, full, eps=eps, reduction=name)


@function()
def ctc_loss(
    log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any, blank: int = 0,
    reduction: int = 0, zero_infinity: bool = False,
) -> Tensor:  # fmt: skip
    """``nn.functional.ctc_loss``. Raises ShapeError, DTypeError, LazytError."""
    options = (blank, _name_of(reduction), zero_infinity)
    return class_losses.ctc_loss(log_probs, targets, input_lengths, target_lengths, *options)


# Functions that PyTorch's own layers call, which return statistics and masks beside the result.


def _statistics(input: Tensor, dims: Sequence[int], eps: float) -> tuple[Tensor, Tensor]:
    """Mean and 1 / standard deviation over ``dims``, which stay with extent 1."""
    wide: Tensor = input.float() if input.dtype.is_half else input
    mean = wide.mean(dims, keepdim=True)
    scale = (wide.var(dims, correction=0, keepdim=True) + eps).rsqrt()
    return mean.to(input.dtype), scale.to(input.dtype)


def _refuse_whole(input: Tensor) -> None:
    """Raise DTypeError: fractions do not fit into whole numbers."""
    if input.dtype.kind != "f":
        refuse_cast(get_default_dtype(), input.dtype)


@function(cast="full")
def native_layer_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None, bias: Tensor | None,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """``nn.functional.layer_norm``, the means and 1 / deviations [..., 1]. Raises ShapeError."""
    result = normalization.layer_norm(input, normalized_shape, weight, bias, eps)
    dims = [-1 - i for i in range(len(normalized_shape))]
    return result, *_statistics(input.detach(), dims, eps)  # PyTorch has no gradient of them


@function()
def native_group_norm(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, N: int, C: int, HxW: int,
    group: int, eps: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """``nn.functional.group_norm`` of [N, C, *], means and 1 / deviations [N, group].

    Raises ShapeError for other numbers of elements than N * C * HxW.
    """
    if require_tensor(input, "native_group_norm").numel() != N * C * HxW:
        raise ShapeError("Expected X.numel() == N * C * HxW to be true, but got false.")
    result = normalization.group_norm(input, group, weight, bias, eps)
    each = C // group * HxW
    mean, scale = _statistics(input.reshape(N, group, each), [2], eps)
    return result, mean.reshape(N, group), scale.reshape(N, group)


@function()
def native_batch_norm(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None,
    running_var: Tensor | None, training: bool, momentum: float, eps: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """``nn.functional.batch_norm``, and the batch's means and 1 / deviations [C].

    They are empty unless ``training``. Raises ShapeError.
    """
    options = (weight, bias, training, momentum, eps)
    result = normalization.batch_norm(input, running_mean, running_var, *options)
    if not training:
        return result, empty(0, dtype=input.dtype), empty(0, dtype=input.dtype)
    dims = [0, *range(2, input.ndim)]
    mean, scale = _statistics(input.detach(), dims, eps)
    return result, mean.reshape(-1), scale.reshape(-1)


@function()
def native_dropout(input: Tensor, p: float, train: bool | None) -> tuple[Tensor, Tensor]:
    """Elements set to 0 with probability ``p``, the others scaled, and a mask of those kept.

    Only ``train=False`` drops nothing. Raises ProbabilityError (a ValueError), DTypeError for whole
    numbers.
    """
    dropouts.check_probability(p)
    _refuse_whole(require_tensor(input, "native_dropout"))
    if train is False or not p:
        return input.clone(), ones_like(input, dtype=bool_)
    mask = give(drop_mask(tuple(input.shape), 1 - p), "", ()).to(bool_)
    return input * mask * (1 / (1 - p) if p < 1 else 0.0), mask


@function()
def convolution(
    input: Tensor, weight: Tensor, bias: Tensor | None, stride: Sequence[int],
    padding: Sequence[int], dilation: Sequence[int], transposed: bool,
    output_padding: Sequence[int], groups: int,
) -> Tensor:  # fmt: skip
    """``conv1d`` to ``conv3d``, or ``conv_transpose``, by the rank of ``weight``.

    Raises ShapeError, DTypeError, LazytError as these do.
    """
    rank = require_tensor(weight, "convolution", "weight", 2).ndim - 2
    if rank not in (1, 2, 3):
        raise ShapeError(f"weight has 3 to 5 dimensions, not {rank + 2}")
    name = f"conv_transpose{rank}d" if transposed else f"conv{rank}d"
    function: Any = getattr(convolutions, name)
    if transposed:
        made = function(input, weight, bias, stride, padding, output_padding, groups, dilation)
    else:
        made = function(input, weight, bias, stride, padding, dilation, groups)
    found: Tensor = made
    return found


@function()
def grid_sampler_2d(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """``grid_sampler`` of images [N, C, H, W]. Raises ShapeError."""
    return grid_sampler(input, grid, interpolation_mode, padding_mode, align_corners)


@function()
def grid_sampler_3d(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """``grid_sampler`` of volumes [N, C, D, H, W]. Raises ShapeError."""
    return grid_sampler(input, grid, interpolation_mode, padding_mode, align_corners)


# ------------------------------------------------------------------ steps of recurrent networks


@function(cast="low")
def rnn_tanh_cell(
    input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The state [N, hidden] after ``hx``: tanh of both linear maps. Raises ShapeError."""
    return tanh(linear(input, w_ih, b_ih) + linear(hx, w_hh, b_hh))


@function(cast="low")
def rnn_relu_cell(
    input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """As ``rnn_tanh_cell``, with relu. Raises ShapeError."""
    return relu(linear(input, w_ih, b_ih) + linear(hx, w_hh, b_hh))


@function(cast="low")
def lstm_cell(
    input: Tensor, hx: Sequence[Tensor], w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """State and memory [N, hidden] after those in ``hx``.

    Raises ShapeError, DTypeError for whole numbers.
    """
    if len(hx) != 2:
        raise ShapeError("lstm_cell expects two hidden states")
    _refuse_whole(input)
    state, memory = hx
    if state.shape != memory.shape:
        raise ShapeError(
            f"lstm_cell: hx[0] of size {list(state.shape)} and hx[1] of size {list(memory.shape)} "
            "must have the same size"
        )
    gates = linear(input, w_ih, b_ih) + linear(state, w_hh, b_hh)
    enter, forget, new, leave = gates.chunk(4, 1)
    memory = sigmoid(forget) * memory + sigmoid(enter) * tanh(new)
    return sigmoid(leave) * tanh(memory), memory


@function(cast="low")
def gru_cell(
    input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The state [N, hidden] after ``hx``. Raises ShapeError, DTypeError for whole numbers."""
    _refuse_whole(input)
    reset, update, new = linear(input, w_ih, b_ih).chunk(3, 1)
    old_reset, old_update, old_new = linear(hx, w_hh, b_hh).chunk(3, 1)
    fresh = tanh(new + sigmoid(reset + old_reset) * old_new)
    return fresh + sigmoid(update + old_update) * (hx - fresh)
