"""Functions of layers as the torch namespace has them, where ``nn.functional``'s take other
arguments: statistics in another order, reductions as numbers, and dropout in place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lazyt.errors import LazytError
from lazyt.functional import (
    adaptive_pooling,
    alignment,
    attention,
    borders,
    dropouts,
    embeddings,
    grid_sampling,
    layers,
    likelihoods,
    losses,
    margin_losses,
)
from lazyt.functional.operands import require_tensor
from lazyt.tensor import Tensor

__all__ = [
    "adaptive_max_pool1d", "affine_grid_generator", "alpha_dropout", "alpha_dropout_",
    "batch_norm", "binary_cross_entropy_with_logits", "constant_pad_nd",
    "cosine_embedding_loss", "ctc_loss", "dropout", "dropout_", "embedding",
    "embedding_renorm_", "feature_alpha_dropout", "feature_alpha_dropout_", "feature_dropout",
    "feature_dropout_", "grid_sampler", "group_norm", "hinge_embedding_loss", "instance_norm",
    "kl_div", "layer_norm", "margin_ranking_loss", "poisson_nll_loss", "rms_norm",
    "scaled_dot_product_attention", "triplet_margin_loss",
]  # fmt: skip

rms_norm = layers.rms_norm
scaled_dot_product_attention = attention.scaled_dot_product_attention

_REDUCTIONS = ("none", "mean", "sum")


def _name_of(reduction: int) -> str:
    """The reduction of a number: 0 none, 1 mean, 2 sum. Raises LazytError for others."""
    if reduction not in (0, 1, 2):
        raise LazytError(f"reduction is 0 (none), 1 (mean) or 2 (sum), not {reduction}")
    return _REDUCTIONS[reduction]


# ------------------------------------------------------------------ normalisation


def batch_norm(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None,
    running_var: Tensor | None, training: bool, momentum: float, eps: float,
    cudnn_enabled: bool = True,
) -> Tensor:  # fmt: skip
    """``nn.functional.batch_norm``; ``cudnn_enabled`` has no effect."""
    options = (weight, bias, training, momentum, eps)
    return layers.batch_norm(input, running_mean, running_var, *options)


def instance_norm(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None,
    running_var: Tensor | None, use_input_stats: bool, momentum: float, eps: float,
    cudnn_enabled: bool = True,
) -> Tensor:  # fmt: skip
    """``nn.functional.instance_norm``; ``cudnn_enabled`` has no effect."""
    options = (weight, bias, use_input_stats, momentum, eps)
    return layers.instance_norm(input, running_mean, running_var, *options)


def layer_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None,
    bias: Tensor | None = None, eps: float = 1e-5, cudnn_enable: bool = True,
) -> Tensor:  # fmt: skip
    """``nn.functional.layer_norm``; ``cudnn_enable`` has no effect."""
    require_tensor(input, "layer_norm")
    return layers.layer_norm(input, normalized_shape, weight, bias, eps)


def group_norm(
    input: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None,
    eps: float = 1e-5, cudnn_enabled: bool = True,
) -> Tensor:  # fmt: skip
    """``nn.functional.group_norm``; ``cudnn_enabled`` has no effect."""
    require_tensor(input, "group_norm")
    return layers.group_norm(input, num_groups, weight, bias, eps)


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


# ------------------------------------------------------------------ tables, grids, borders


def embedding(
    weight: Tensor, indices: Tensor, padding_idx: int = -1, scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:  # fmt: skip
    """Rows of ``weight`` by number; a ``padding_idx`` of -1 means none. Raises BoundsError."""
    require_tensor(weight, "embedding", "weight")
    padding = None if padding_idx == -1 else padding_idx
    return embeddings.embedding(indices, weight, padding, None, 2.0, scale_grad_by_freq, sparse)


def embedding_renorm_(input: Tensor, indices: Tensor, max_norm: float, norm_type: float) -> Tensor:
    """Rows that ``indices`` name shortened to ``max_norm`` in place. Raises BoundsError."""
    return embeddings.renormalize_rows(input, indices, max_norm, norm_type)


def grid_sampler(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """``nn.functional.grid_sample`` with its modes as numbers, in the order they are listed."""
    mode = ("bilinear", "nearest", "bicubic")[interpolation_mode]
    border = ("zeros", "border", "reflection")[padding_mode]
    return grid_sampling.grid_sample(input, grid, mode, border, align_corners)


def affine_grid_generator(theta: Tensor, size: Sequence[int], align_corners: bool) -> Tensor:
    """``nn.functional.affine_grid``."""
    return grid_sampling.affine_grid(theta, size, align_corners)


def constant_pad_nd(input: Tensor, pad: Sequence[int], value: float = 0) -> Tensor:
    """``nn.functional.pad`` with a constant. Raises ShapeError."""
    return borders.pad(input, pad, "constant", value)


def adaptive_max_pool1d(input: Tensor, output_size: Any) -> tuple[Tensor, Tensor]:
    """Maxima over so many bins of the last dimension, and their places. Raises ShapeError."""
    require_tensor(input, "adaptive_max_pool1d")
    found: tuple[Tensor, Tensor] = adaptive_pooling.adaptive_max_pool1d(input, output_size, True)
    return found


# ------------------------------------------------------------------ losses; reduction 0, 1 or 2
# The default is what PyTorch 2.13 does, not the mean that its signatures name.


def kl_div(
    input: Tensor, target: Tensor, reduction: int = 0, *, log_target: bool = False
) -> Tensor:
    """``nn.functional.kl_div``. Raises ShapeError."""
    require_tensor(input, "kl_div")
    name = _name_of(reduction)
    return losses.divergence(input, target, name, log_target)


def binary_cross_entropy_with_logits(
    input: Tensor, target: Tensor, weight: Tensor | None = None,
    pos_weight: Tensor | None = None, reduction: int = 0,
) -> Tensor:  # fmt: skip
    """``nn.functional.binary_cross_entropy_with_logits``. Raises ShapeError."""
    require_tensor(input, "binary_cross_entropy_with_logits")
    return losses.binary_cross_entropy_with_logits(
        input, target, weight, reduction=_name_of(reduction), pos_weight=pos_weight
    )


def cosine_embedding_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int = 0
) -> Tensor:
    """``nn.functional.cosine_embedding_loss``. Raises ShapeError."""
    name = _name_of(reduction)
    return margin_losses.cosine_embedding_loss(input1, input2, target, margin, reduction=name)


def hinge_embedding_loss(
    input: Tensor, target: Tensor, margin: float = 1.0, reduction: int = 0
) -> Tensor:
    """``nn.functional.hinge_embedding_loss``. Raises ShapeError."""
    name = _name_of(reduction)
    return margin_losses.hinge_embedding_loss(input, target, margin, reduction=name)


def margin_ranking_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int = 0
) -> Tensor:
    """``nn.functional.margin_ranking_loss``. Raises ShapeError."""
    name = _name_of(reduction)
    return margin_losses.margin_ranking_loss(input1, input2, target, margin, reduction=name)


def triplet_margin_loss(
    anchor: Tensor, positive: Tensor, negative: Tensor, margin: float = 1.0, p: float = 2,
    eps: float = 1e-6, swap: bool = False, reduction: int = 0,
) -> Tensor:  # fmt: skip
    """``nn.functional.triplet_margin_loss``. Raises ReductionError (a ValueError), ShapeError."""
    return margin_losses.triplet_margin_loss(
        anchor, positive, negative, margin, p, eps, swap, reduction=_name_of(reduction)
    )


def poisson_nll_loss(
    input: Tensor, target: Tensor, log_input: bool, full: bool, eps: float, reduction: int
) -> Tensor:
    """``nn.functional.poisson_nll_loss`` with all arguments given. Raises ShapeError."""
    name = _name_of(reduction)
    return likelihoods.poisson_nll_loss(input, target, log_input, full, eps=eps, reduction=name)


def ctc_loss(
    log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any, blank: int = 0,
    reduction: int = 0, zero_infinity: bool = False,
) -> Tensor:  # fmt: skip
    """``nn.functional.ctc_loss``. Raises ShapeError, DTypeError, LazytError."""
    options = (blank, _name_of(reduction), zero_infinity)
    return alignment.ctc_loss(log_probs, targets, input_lengths, target_lengths, *options)
