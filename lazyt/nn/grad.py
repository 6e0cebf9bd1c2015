"""Gradients of convolutions as functions, by PyTorch's names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import lazyt
from lazyt.nn import functional as F
from lazyt.tensor import Tensor

__all__ = [
    "conv1d_input", "conv1d_weight", "conv2d_input", "conv2d_weight", "conv3d_input",
    "conv3d_weight",
]  # fmt: skip


def _slope(
    size: Sequence[int], grad_output: Tensor, function: Callable[[Tensor], Tensor]
) -> Tensor:
    """The gradient of a linear function, which does not depend on where it is taken."""
    kept = lazyt.is_grad_enabled()
    with lazyt.enable_grad():
        start = grad_output.detach().new_zeros(tuple(size)).requires_grad_()
        (slope,) = lazyt.autograd.grad(function(start), start, grad_output, create_graph=kept)
    assert slope is not None
    return slope


def conv1d_input(
    input_size: Sequence[int], weight: Tensor, grad_output: Tensor, stride: Any = 1,
    padding: Any = 0, dilation: Any = 1, groups: int = 1,
) -> Tensor:  # fmt: skip
    """The gradient of ``conv1d`` with respect to its input, of the size given."""
    how = stride, padding, dilation, groups
    return _slope(input_size, grad_output, lambda x: F.conv1d(x, weight, None, *how))


def conv1d_weight(
    input: Tensor, weight_size: Sequence[int], grad_output: Tensor, stride: Any = 1,
    padding: Any = 0, dilation: Any = 1, groups: int = 1,
) -> Tensor:  # fmt: skip
    """The gradient of ``conv1d`` with respect to its weight, of the size given."""
    how = stride, padding, dilation, groups
    return _slope(weight_size, grad_output, lambda w: F.conv1d(input, w, None, *how))


def conv2d_input(
    input_size: Sequence[int], weight: Tensor, grad_output: Tensor, stride: Any = 1,
    padding: Any = 0, dilation: Any = 1, groups: int = 1,
) -> Tensor:  # fmt: skip
    """The gradient of ``conv2d`` with respect to its input, of the size given."""
    how = stride, padding, dilation, groups
    return _slope(input_size, grad_output, lambda x: F.conv2d(x, weight, None, *how))


def conv2d_weight(
    input: Tensor, weight_size: Sequence[int], grad_output: Tensor, stride: Any = 1,
    padding: Any = 0, dilation: Any = 1, groups: int = 1,
) -> Tensor:  # fmt: skip
    """The gradient of ``conv2d`` with respect to its weight, of the size given."""
    how = stride, padding, dilation, groups
    return _slope(weight_size, grad_output, lambda w: F.conv2d(input, w, None, *how))


def conv3d_input(
    input_size: Sequence[int], weight: Tensor, grad_output: Tensor, stride: Any = 1,
    padding: Any = 0, dilation: Any = 1, groups: int = 1,
) -> Tensor:  # fmt: skip
    """The gradient of ``conv3d`` with respect to its input, of the size given."""
    how = stride, padding, dilation, groups
    return _slope(input_size, grad_output, lambda x: F.conv3d(x, weight, None, *how))


def conv3d_weight(
    input: Tensor, weight_size: Sequence[int], grad_output: Tensor, stride: Any = 1,
    padding: Any = 0, dilation: Any = 1, groups: int = 1,
) -> Tensor:  # fmt: skip
    """The gradient of ``conv3d`` with respect to its weight, of the size given."""
    how = stride, padding, dilation, groups
    return _slope(weight_size, grad_output, lambda w: F.conv3d(input, w, None, *how))
