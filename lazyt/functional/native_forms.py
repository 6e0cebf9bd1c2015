"""Functions that PyTorch's own layers call, which return statistics and masks beside the result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lazyt.errors import ShapeError
from lazyt.functional import convolution as convolutions
from lazyt.functional import dropouts, layers, namespace_forms
from lazyt.functional.activations import relu
from lazyt.functional.filling import empty, ones_like
from lazyt.functional.operands import require_tensor
from lazyt.functional.products import linear
from lazyt.functional.promotion import get_default_dtype
from lazyt.functional.random import drop_mask
from lazyt.functional.results import give
from lazyt.functional.unary import sigmoid, tanh
from lazyt.functional.unsupported import refuse_cast
from lazyt.ir.dtypes import bool_
from lazyt.tensor import Tensor

__all__ = [
    "convolution", "grid_sampler_2d", "grid_sampler_3d", "gru_cell", "lstm_cell",
    "native_batch_norm", "native_dropout", "native_group_norm", "native_layer_norm",
    "rnn_relu_cell", "rnn_tanh_cell",
]  # fmt: skip


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


def native_layer_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None, bias: Tensor | None,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """``nn.functional.layer_norm``, the means and 1 / deviations [..., 1]. Raises ShapeError."""
    result = layers.layer_norm(input, normalized_shape, weight, bias, eps)
    dims = [-1 - i for i in range(len(normalized_shape))]
    return result, *_statistics(input.detach(), dims, eps)  # PyTorch has no gradient of them


def native_group_norm(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, N: int, C: int, HxW: int,
    group: int, eps: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """``nn.functional.group_norm`` of [N, C, *], means and 1 / deviations [N, group].

    Raises ShapeError for other numbers of elements than N * C * HxW.
    """
    if require_tensor(input, "native_group_norm").numel() != N * C * HxW:
        raise ShapeError("Expected X.numel() == N * C * HxW to be true, but got false.")
    result = layers.group_norm(input, group, weight, bias, eps)
    mean, scale = _statistics(input.reshape(N, group, -1), [2], eps)
    return result, mean.reshape(N, group), scale.reshape(N, group)


def native_batch_norm(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None,
    running_var: Tensor | None, training: bool, momentum: float, eps: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """``nn.functional.batch_norm``, and the batch's means and 1 / deviations [C].

    They are empty unless ``training``. Raises ShapeError.
    """
    options = (weight, bias, training, momentum, eps)
    result = layers.batch_norm(input, running_mean, running_var, *options)
    if not training:
        return result, empty(0, dtype=input.dtype), empty(0, dtype=input.dtype)
    dims = [0, *range(2, input.ndim)]
    mean, scale = _statistics(input.detach(), dims, eps)
    return result, mean.reshape(-1), scale.reshape(-1)


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


def grid_sampler_2d(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """``grid_sampler`` of images [N, C, H, W]. Raises ShapeError."""
    return namespace_forms.grid_sampler(
        input, grid, interpolation_mode, padding_mode, align_corners
    )


def grid_sampler_3d(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """``grid_sampler`` of volumes [N, C, D, H, W]. Raises ShapeError."""
    return namespace_forms.grid_sampler(
        input, grid, interpolation_mode, padding_mode, align_corners
    )


# ------------------------------------------------------------------ steps of recurrent networks


def rnn_tanh_cell(
    input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The state [N, hidden] after ``hx``: tanh of both linear maps. Raises ShapeError."""
    return tanh(linear(input, w_ih, b_ih) + linear(hx, w_hh, b_hh))


def rnn_relu_cell(
    input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """As ``rnn_tanh_cell``, with relu. Raises ShapeError."""
    return relu(linear(input, w_ih, b_ih) + linear(hx, w_hh, b_hh))


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
