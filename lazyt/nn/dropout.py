"""Dropout."""

from __future__ import annotations

from lazyt.functional.nn.dropouts import ProbabilityError
from lazyt.handle.tensor import Tensor
from lazyt.nn import functional as F
from lazyt.nn.module import Module


class _DropoutNd(Module):
    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if not 0 <= p <= 1:
            raise ProbabilityError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p, self.inplace = p, inplace

    def extra_repr(self) -> str:
        """The settings."""
        return f"p={self.p}, inplace={self.inplace}"


class Dropout(_DropoutNd):
    """Elements set to zero at random (Srivastava et al. 2014)."""

    def forward(self, input: Tensor) -> Tensor:
        """In training, zeros with probability ``p`` and the rest scaled by 1 / (1 - p); else
        ``input``."""
        return F.dropout(input, self.p, self.training, self.inplace)


class Dropout2d(_DropoutNd):
    """Whole channels set to zero at random."""

    def forward(self, input: Tensor) -> Tensor:
        """In training, zeros with probability ``p`` and the rest scaled by 1 / (1 - p); else
        ``input``."""
        return F.dropout2d(input, self.p, self.training, self.inplace)


class Dropout1d(_DropoutNd):
    """Whole channels of [N, C, L] set to zero at random."""

    def forward(self, input: Tensor) -> Tensor:
        """In training, zeros with probability ``p`` and the rest scaled by 1 / (1 - p); else
        ``input``."""
        return F.dropout1d(input, self.p, self.training, self.inplace)


class Dropout3d(_DropoutNd):
    """Whole channels of [N, C, D, H, W] set to zero at random."""

    def forward(self, input: Tensor) -> Tensor:
        """In training, zeros with probability ``p`` and the rest scaled by 1 / (1 - p); else
        ``input``."""
        return F.dropout3d(input, self.p, self.training, self.inplace)


class AlphaDropout(_DropoutNd):
    """Dropout that keeps mean 0 and variance 1 (Klambauer et al. 2017)."""

    def forward(self, input: Tensor) -> Tensor:
        """In training, some set to the limit of SELU, and all moved and scaled; else ``input``."""
        return F.alpha_dropout(input, self.p, self.training)


class FeatureAlphaDropout(_DropoutNd):
    """``AlphaDropout`` of whole channels."""

    def forward(self, input: Tensor) -> Tensor:
        """In training, some set to the limit of SELU, and all moved and scaled; else ``input``."""
        return F.feature_alpha_dropout(input, self.p, self.training)
