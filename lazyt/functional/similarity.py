"""How near vectors are: cosines, p-norms of differences, and vectors of length 1."""

from __future__ import annotations

from lazyt.dispatch import type_title
from lazyt.errors import DTypeError
from lazyt.functional.division import div
from lazyt.functional.operands import require_tensor
from lazyt.functional.promotion import promote_pair
from lazyt.tensor import Tensor

__all__ = ["cosine_similarity", "pairwise_distance"]


def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """The cosine of the angle between vectors along ``dim``; both tensors broadcast.

    Lengths below ``eps`` count as ``eps``. Raises DTypeError for whole numbers, ShapeError,
    BoundsError.
    """
    require_tensor(x1, "cosine_similarity", "x1")
    dtype = promote_pair(x1.dtype, x1.ndim, x2.dtype, x2.ndim)
    if dtype.kind != "f":
        raise DTypeError(
            f"expected common dtype to be floating point, yet common dtype is {type_title(dtype)}"
        )
    from lazyt.functional.joining import broadcast_tensors

    first, second = (t.to(dtype) for t in broadcast_tensors(x1, x2))
    sizes = (t.norm(2, dim, True).clamp(min=eps) for t in (first, second))
    left, right = (t / size for t, size in zip((first, second), sizes))
    result: Tensor = (left * right).sum(dim)
    return result


def pairwise_distance(
    x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> Tensor:
    """The p-norm of ``x1 - x2 + eps`` along the last dimension. Raises ShapeError."""
    gap = x1 - x2 + eps
    result: Tensor = gap.norm(p, -1, keepdim)
    return result


def normalize(
    input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12, out: Tensor | None = None
) -> Tensor:
    """``input`` divided by its p-norm along ``dim``, or by ``eps`` where that is larger.

    Raises BoundsError for a dimension that is not there.
    """
    size = input.norm(p, dim, True).clamp_min(eps).expand_as(input)
    return div(input, size, out=out)
