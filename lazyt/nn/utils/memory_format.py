"""Weights of convolutions in another order in memory."""

from __future__ import annotations

from typing import Any, TypeVar

from lazyt.nn.convolution import Conv2d, Conv3d, ConvTranspose2d, ConvTranspose3d
from lazyt.nn.module import Module

__all__ = ["convert_conv2d_weight_memory_format", "convert_conv3d_weight_memory_format"]

M = TypeVar("M", bound=Module)


def _convert(module: Module, kinds: tuple[type[Module], ...], memory_format: Any) -> None:
    for layer in module.modules():
        if isinstance(layer, kinds):
            layer.weight.data = layer.weight.detach().clone(memory_format=memory_format)


def convert_conv2d_weight_memory_format(module: M, memory_format: Any) -> M:
    """Weights of all two-dimensional convolutions in this order; returns the module."""
    _convert(module, (Conv2d, ConvTranspose2d), memory_format)
    return module


def convert_conv3d_weight_memory_format(module: M, memory_format: Any) -> M:
    """Weights of all three-dimensional convolutions in this order; returns the module."""
    _convert(module, (Conv3d, ConvTranspose3d), memory_format)
    return module
