"""Softmax and its relatives as modules."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from lazyt.errors import LazytError
from lazyt.nn import functional as F
from lazyt.nn.module import Module
from lazyt.tensor import Tensor


class DimensionError(LazytError, ValueError):
    """An input with another number of dimensions than the layer takes."""


class _AlongDim(Module):
    function: ClassVar[Callable[..., Tensor]]

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        """The function along ``dim``; without it, F's choice and warning."""
        return type(self).function(input, self.dim)

    def extra_repr(self) -> str:
        """The dimension."""
        return f"dim={self.dim}"


class Softmax(_AlongDim):
    """exp(x), scaled to sum to 1 along ``dim``."""

    function = F.softmax


class Softmin(_AlongDim):
    """exp(-x), scaled to sum to 1 along ``dim``."""

    function = F.softmin


class LogSoftmax(_AlongDim):
    """The logarithm of softmax along ``dim``."""

    function = F.log_softmax


class Softmax2d(Module):
    """``softmax`` over the channels of [N, C, H, W] or [C, H, W]."""

    def forward(self, input: Tensor) -> Tensor:
        """Channels that sum to 1 at every place. Raises DimensionError (a ValueError)."""
        if input.ndim not in (3, 4):
            raise DimensionError(
                f"Softmax2d: expected input to be 3D or 4D, got {input.ndim}D instead"
            )
        return F.softmax(input, -3)
