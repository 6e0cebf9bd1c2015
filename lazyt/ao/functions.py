"""Fake quantization: values rounded to a grid of a few bits, and gradients that pass through."""

from __future__ import annotations

from typing import Any

from lazyt.autograd.function import Function
from lazyt.errors import BoundsError, LazytError
from lazyt.functional import namespace as lazyt
from lazyt.handle.tensor import Tensor

__all__ = ["fake_quantize_per_channel_affine", "fake_quantize_per_tensor_affine"]


class _Rounded(Function):
    """Values on the grid; the gradient is that of the values, and 0 outside of the range."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, scale: Tensor, shift: Tensor, low: int, high: int) -> Tensor:
        steps = (x.to(lazyt.float32) * (1.0 / scale)).round() + shift
        ctx.save_for_backward((steps >= low) & (steps <= high))
        return ((steps.clamp(low, high) - shift) * scale).to(x.dtype)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        (inside,) = ctx.saved_tensors
        return grad * inside, None, None, None, None


def _check_range(quant_min: int, quant_max: int) -> None:
    if quant_min > quant_max:
        raise LazytError(
            "`quant_min` should be less than or                    equal to `quant_max`."
        )


def fake_quantize_per_tensor_affine(
    input: Tensor, scale: float | Tensor, zero_point: int | Tensor, quant_min: int, quant_max: int
) -> Tensor:
    """``input`` rounded to multiples of ``scale``, of which there are as many as whole numbers from
    ``quant_min`` to ``quant_max``.

    The gradient is that of ``input`` where it is within the range, else 0; there is none of the
    scale.

    Args:
        input: floats of any shape.
        scale: the distance of two values of the grid.
        zero_point: the number of the value 0, from ``quant_min`` to ``quant_max``.
        quant_min, quant_max: the numbers of the least and the largest value.

    Raises LazytError for a zero point, or limits, out of range.

    Example:
        >>> import lazyt
        >>> from lazyt.ao.functions import fake_quantize_per_tensor_affine
        >>> fake_quantize_per_tensor_affine(lazyt.tensor([0.24, 9.0]), 0.1, 0, 0, 15)
        tensor([0.2000, 1.5000])
    """
    _check_range(quant_min, quant_max)
    if not isinstance(zero_point, Tensor) and not quant_min <= zero_point <= quant_max:
        raise LazytError("`zero_point` must be between `quant_min` and `quant_max`.")
    step = _number(scale, input).to(lazyt.float32)
    found: Tensor = _Rounded.apply(
        input, step, _number(zero_point, input).to(lazyt.float32), quant_min, quant_max
    )
    return found


def _number(value: Any, beside: Tensor) -> Tensor:
    if isinstance(value, Tensor):
        return value.detach().reshape(())
    return lazyt.tensor(value, dtype=lazyt.float32, device=beside.device)


def fake_quantize_per_channel_affine(
    input: Tensor, scale: Tensor, zero_point: Tensor, axis: int, quant_min: int, quant_max: int
) -> Tensor:
    """As ``fake_quantize_per_tensor_affine``, with a scale and a zero point for each slice along a
    dimension.

    Args:
        input: floats of any shape.
        scale, zero_point: vectors with an element for each slice.
        axis: the dimension.
        quant_min, quant_max: the numbers of the least and the largest value.

    Raises BoundsError for an axis that is not there, LazytError for vectors of another length
    and for limits out of range.
    """
    _check_range(quant_min, quant_max)
    if not 0 <= axis < input.ndim:
        raise BoundsError(
            f"Dimension out of range (expected to be in range of [{-input.ndim}, "
            f"{input.ndim - 1}], but got {axis})"
        )
    if scale.ndim != 1 or zero_point.ndim != 1:
        raise LazytError("scale and zero_point should be 1-D tensors")
    if scale.shape != zero_point.shape:
        raise LazytError("scale and zero-point need to have the same dimensions")
    if scale.shape[0] != input.shape[axis]:
        raise LazytError("dimensions of scale and zero-point are not consistent with input tensor")
    shape = [1] * input.ndim
    shape[axis] = -1
    steps = (scale.detach().to(lazyt.float32).reshape(shape), zero_point.to(lazyt.float32))
    found: Tensor = _Rounded.apply(input, steps[0], steps[1].reshape(shape), quant_min, quant_max)
    return found
