"""Layers that normalise every sample by its own statistics: LayerNorm, RMSNorm and GroupNorm."""

from __future__ import annotations

import numbers
from typing import Any

from lazyt.errors import LazytError
from lazyt.nn import functional as F
from lazyt.nn import init
from lazyt.nn.module import Module
from lazyt.nn.parameter import blank_parameter
from lazyt.tensor import Tensor


class DimensionError(LazytError, ValueError):
    """An input with another number of dimensions, or features, than the layer takes."""


def add_affine(
    module: Module, size: tuple[int, ...], weight: bool, bias: bool, device: Any, dtype: Any
) -> None:
    """Parameters ``weight`` and ``bias``, or None, for ``reset_parameters`` to fill."""
    for name, wanted in (("weight", weight), ("bias", bias)):
        made = blank_parameter(*size, dtype=dtype, device=device) if wanted else None
        module.register_parameter(name, made)


def reset_affine(module: Module) -> None:
    """Weight 1 and bias 0, where there are any."""
    if module.weight is not None:
        init.ones_(module.weight)
    if module.bias is not None:
        init.zeros_(module.bias)


def _sizes(normalized_shape: Any) -> tuple[int, ...]:
    if isinstance(normalized_shape, numbers.Integral):
        return (int(normalized_shape),)
    return tuple(normalized_shape)


class LayerNorm(Module):
    """The last dimensions, of ``normalized_shape``, to mean 0 and variance 1 (Ba et al. 2016)."""

    def __init__(
        self,
        normalized_shape: Any,
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = _sizes(normalized_shape)
        self.eps, self.elementwise_affine = eps, elementwise_affine
        affine = elementwise_affine
        add_affine(self, self.normalized_shape, affine, affine and bias, device, dtype)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Weight 1 and bias 0."""
        reset_affine(self)

    def forward(self, input: Tensor) -> Tensor:
        """[*, *normalized_shape] to the same. Raises ShapeError."""
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """The settings."""
        return (
            f"{self.normalized_shape}, eps={self.eps}, "
            f"elementwise_affine={self.elementwise_affine}, bias={self.bias is not None}"
        )


class RMSNorm(Module):
    """The last dimensions, of ``normalized_shape``, to mean square 1 (Zhang & Sennrich 2019)."""

    def __init__(
        self,
        normalized_shape: Any,
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = _sizes(normalized_shape)
        self.eps, self.elementwise_affine = eps, elementwise_affine
        made = None
        if elementwise_affine:
            made = blank_parameter(*self.normalized_shape, dtype=dtype, device=device)
        self.register_parameter("weight", made)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Weight 1."""
        if self.weight is not None:
            init.ones_(self.weight)

    def forward(self, input: Tensor) -> Tensor:
        """[*, *normalized_shape] to the same. Raises ShapeError."""
        return F.rms_norm(input, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        """The settings."""
        return (
            f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"
        )


class GroupNorm(Module):
    """Every group of channels of every sample to mean 0 and variance 1 (Wu & He 2018)."""

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if num_channels % num_groups:
            raise DimensionError(
                f"num_channels ({num_channels}) must be divisible by num_groups ({num_groups})"
            )
        self.num_groups, self.num_channels = num_groups, num_channels
        self.eps, self.affine = eps, affine
        add_affine(self, (num_channels,), affine, affine and bias, device, dtype)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Weight 1 and bias 0."""
        reset_affine(self)

    def forward(self, input: Tensor) -> Tensor:
        """[N, num_channels, *] to the same. Raises ShapeError."""
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """The settings."""
        return (
            f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, "
            f"bias={self.bias is not None}"
        )
