"""Softmax and its relatives as modules."""

from __future__ import annotations

from typing import Any

from lazyt.errors import LazytError
from lazyt.nn import functional as F
from lazyt.nn.module import Module
from lazyt.tensor import Tensor


class DimensionError(LazytError, ValueError):
    """An input with another number of dimensions than the layer takes."""


class _AlongDim(Module):
    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__({"dim": None} | state)  # files of old have none

    def extra_repr(self) -> str:
        """The dimension."""
        return f"dim={self.dim}"


class Softmax(_AlongDim):
    """exp(x), scaled to sum to 1 along ``dim``."""

    def forward(self, input: Tensor) -> Tensor:
        """The function along ``dim``; without it, F's choice and warning."""
        return F.softmax(input, self.dim)


class Softmin(_AlongDim):
    """exp(-x), scaled to sum to 1 along ``dim``."""

    def forward(self, input: Tensor) -> Tensor:
        """The function along ``dim``; without it, F's choice and warning."""
        return F.softmin(input, self.dim)


class LogSoftmax(_AlongDim):
    """The logarithm of softmax along ``dim``."""

    def forward(self, input: Tensor) -> Tensor:
        """The function along ``dim``; without it, F's choice and warning."""
        return F.log_softmax(input, self.dim)


class Softmax2d(Module):
    """``softmax`` over the channels of [N, C, H, W] or [C, H, W]."""

    def forward(self, input: Tensor) -> Tensor:
        """Channels that sum to 1 at every place. Raises DimensionError (a ValueError)."""
        if input.ndim not in (3, 4):
            raise DimensionError(
                f"Softmax2d: expected input to be 3D or 4D, got {input.ndim}D instead"
            )
        return F.softmax(input, -3)
