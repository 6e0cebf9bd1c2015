"""Gradients of convolutions as functions, by PyTorch's names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lazyt import autograd
from lazyt.functional import namespace as lazyt
from lazyt.handle.tensor import Tensor
from lazyt.nn import functional as F

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
        (slope,) = autograd.grad(function(start), start, grad_output, create_graph=kept)
    assert slope is not None
    return slope


def _by_input(convolution: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def function(
        input_size: Sequence[int], weight: Tensor, grad_output: Tensor, stride: Any = 1,
        padding: Any = 0, dilation: Any = 1, groups: int = 1,
    ) -> Tensor:  # fmt: skip
        how = stride, padding, dilation, groups
        return _slope(input_size, grad_output, lambda x: convolution(x, weight, None, *how))

    return _named(function, convolution, "input")


def _by_weight(convolution: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def function(
        input: Tensor, weight_size: Sequence[int], grad_output: Tensor, stride: Any = 1,
        padding: Any = 0, dilation: Any = 1, groups: int = 1,
    ) -> Tensor:  # fmt: skip
        how = stride, padding, dilation, groups
        return _slope(weight_size, grad_output, lambda w: convolution(input, w, None, *how))

    return _named(function, convolution, "weight")


def _named(function: Any, convolution: Any, operand: str) -> Callable[..., Tensor]:
    title = convolution.__name__
    function.__name__ = function.__qualname__ = f"{title}_{operand}"
    function.__doc__ = (
        f"The gradient of ``{title}`` with respect to its {operand}, of the size given."
    )
    named: Callable[..., Tensor] = function
    return named


conv1d_input, conv1d_weight = _by_input(F.conv1d), _by_weight(F.conv1d)
conv2d_input, conv2d_weight = _by_input(F.conv2d), _by_weight(F.conv2d)
conv3d_input, conv3d_weight = _by_input(F.conv3d), _by_weight(F.conv3d)
