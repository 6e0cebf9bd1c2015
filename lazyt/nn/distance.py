"""How near vectors are, as modules."""

from __future__ import annotations

from lazyt.nn import functional as F
from lazyt.nn.module import Module
from lazyt.tensor import Tensor


class CosineSimilarity(Module):
    """The cosine of the angle between two tensors along ``dim``."""

    def __init__(self, dim: int = 1, eps: float = 1e-8) -> None:
        super().__init__()
        self.dim, self.eps = dim, eps

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        """Two tensors to their cosines, without dimension ``dim``."""
        return F.cosine_similarity(x1, x2, self.dim, self.eps)


class PairwiseDistance(Module):
    """The p-norm of the difference of two tensors along the last dimension."""

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        super().__init__()
        self.norm, self.eps, self.keepdim = p, eps, keepdim

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        """Two tensors [*, D] to distances [*]."""
        return F.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)
