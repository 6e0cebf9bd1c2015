"""Batch normalisation in evaluation mode, folded into the layer before it."""

from __future__ import annotations

import copy
from typing import Any, TypeVar

from lazyt.functional import namespace as lazyt
from lazyt.handle.tensor import Tensor
from lazyt.nn.module import Module
from lazyt.nn.parameter import Parameter

__all__ = [
    "fuse_conv_bn_eval", "fuse_conv_bn_weights", "fuse_linear_bn_eval", "fuse_linear_bn_weights",
]  # fmt: skip

M = TypeVar("M", bound=Module)


def _check(layer: Any, bn: Any) -> None:
    if layer.training or bn.training:
        raise AssertionError("Fusion only for eval!")
    if bn.running_mean is None or bn.running_var is None:
        raise AssertionError("bn.running_mean and bn.running_var must not be None")


def fuse_conv_bn_eval(conv: M, bn: Module, transpose: bool = False) -> M:
    """A convolution that gives what ``bn(conv(x))`` gives in evaluation mode.

    Raises AssertionError in training mode and without running statistics.
    """
    _check(conv, bn)
    fused = copy.deepcopy(conv)
    fused.weight, fused.bias = fuse_conv_bn_weights(
        fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias,
        transpose,
    )  # fmt: skip
    return fused


def fuse_conv_bn_weights(
    conv_w: Tensor, conv_b: Tensor | None, bn_rm: Tensor, bn_rv: Tensor, bn_eps: float,
    bn_w: Tensor | None, bn_b: Tensor | None, transpose: bool = False,
) -> tuple[Parameter, Parameter]:  # fmt: skip
    """Weight [out, in, *] ([in, out, *] with ``transpose``) and bias [out] of both together."""
    bias = lazyt.zeros_like(bn_rm) if conv_b is None else conv_b
    factor = lazyt.rsqrt(bn_rv + bn_eps)
    scale = factor if bn_w is None else bn_w * factor
    shift = lazyt.zeros_like(bn_rm) if bn_b is None else bn_b
    shape = [1, -1] if transpose else [-1, 1]
    weight = conv_w * scale.reshape(shape + [1] * (conv_w.ndim - 2))
    bias_dtype = conv_w.dtype if conv_b is None else conv_b.dtype
    moved = ((bias - bn_rm) * scale + shift).to(dtype=bias_dtype)
    return (
        Parameter(weight.to(dtype=conv_w.dtype), conv_w.requires_grad),
        Parameter(moved, bias.requires_grad),
    )


def fuse_linear_bn_eval(linear: M, bn: Module) -> M:
    """A linear layer that gives what ``bn(linear(x))`` gives in evaluation mode.

    Raises AssertionError in training mode, without running statistics and for other features.
    """
    _check(linear, bn)
    if bn.num_features not in (1, linear.out_features):
        raise AssertionError(
            "To fuse, linear.out_features == bn.num_features or bn.num_features == 1, got "
            f"linear.out_features={linear.out_features} and bn.num_features={bn.num_features}"
        )
    fused = copy.deepcopy(linear)
    fused.weight, fused.bias = fuse_linear_bn_weights(
        fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
    )
    return fused


def fuse_linear_bn_weights(
    linear_w: Tensor, linear_b: Tensor | None, bn_rm: Tensor, bn_rv: Tensor, bn_eps: float,
    bn_w: Tensor, bn_b: Tensor,
) -> tuple[Parameter, Parameter]:  # fmt: skip
    """Weight [out, in] and bias [out] of both together."""
    bias = lazyt.zeros_like(bn_rm) if linear_b is None else linear_b
    scale = bn_w * lazyt.rsqrt(bn_rv + bn_eps)
    weight = linear_w * scale.unsqueeze(-1).to(dtype=linear_w.dtype)
    bias_dtype = linear_w.dtype if linear_b is None else linear_b.dtype
    moved = ((bias - bn_rm) * scale + bn_b).to(dtype=bias_dtype)
    return Parameter(weight, linear_w.requires_grad), Parameter(moved, bias.requires_grad)
