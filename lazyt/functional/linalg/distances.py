"""Distances between all pairs of vectors."""

from __future__ import annotations

from lazyt import ops
from lazyt.errors import DTypeError, LazytError, ShapeError
from lazyt.functional.elementwise.division import div
from lazyt.functional.linalg.norms import norm_node
from lazyt.functional.operands import broadcast_pair, expand_to, require_tensor
from lazyt.functional.result_layout import row_major
from lazyt.functional.results import give
from lazyt.functional.type_promotion import promote_pair, refuse, torch_name
from lazyt.handle.autocast import in_full_precision
from lazyt.handle.dispatch import type_title
from lazyt.handle.function_table import function
from lazyt.handle.tensor import Tensor
from lazyt.ir.dtypes import int64
from lazyt.ir.graph import Node

__all__ = ["cdist", "cosine_similarity", "pairwise_distance", "pdist"]


# How near vectors are: cosines, p-norms of differences, and vectors of length 1.


@function(cast="full")
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
    from lazyt.functional.shapes.joining import broadcast_tensors

    first, second = (t.to(dtype) for t in broadcast_tensors(x1, x2))
    sizes = (t.norm(2, dim, True).clamp(min=eps) for t in (first, second))
    left, right = (t / size for t, size in zip((first, second), sizes))
    result: Tensor = (left * right).sum(dim)
    return result


@function(cast="full")
def pairwise_distance(
    x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> Tensor:
    """The p-norm of ``x1 - x2 + eps`` along the last dimension. Raises ShapeError."""
    gap = x1 - x2 + eps
    result: Tensor = gap.norm(p, -1, keepdim)
    return result


@function(cast="full")
def normalize(
    input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12, out: Tensor | None = None
) -> Tensor:
    """``input`` divided by its p-norm along ``dim``, or by ``eps`` where that is larger.

    Raises BoundsError for a dimension that is not there.
    """
    size = input.norm(p, dim, True).clamp_min(eps).expand_as(input)
    return div(input, size, out=out)


_MODES = frozenset(
    {
        "use_mm_for_euclid_dist_if_necessary",
        "use_mm_for_euclid_dist",
        "donot_use_mm_for_euclid_dist",
    }
)


class _ModeError(LazytError, ValueError):
    """A ``compute_mode`` that does not exist; PyTorch raises ValueError."""


def _check_vectors(input: Tensor, name: str) -> None:
    if input.dtype.kind != "f":
        raise DTypeError(
            f"cdist only supports floating-point dtypes, {name} got: {torch_name(input.dtype)}"
        )
    if len(input.shape) < 2:
        raise ShapeError(
            f"cdist only supports at least 2D tensors, {name} got: {len(input.shape)}D"
        )


@function(cast="full", saves="ar", layout=row_major)
@in_full_precision
def cdist(
    x1: Tensor, x2: Tensor, p: float = 2.0,
    compute_mode: str | None = "use_mm_for_euclid_dist_if_necessary",
) -> Tensor:  # fmt: skip
    """The p-norms of the differences of every row of ``x1`` and every row of ``x2``.

    Shapes (..., P, M) and (..., R, M) give (..., P, R); leading dimensions broadcast. Differences
    are computed as they are, in one kernel, whatever ``compute_mode`` says: it is exact, and takes
    no memory. The gradient is 0 where a distance is 0. Raises ShapeError, DTypeError, and
    ValueError for modes that do not exist.
    """
    require_tensor(x1, "cdist", "x1")
    if compute_mode is not None and compute_mode not in _MODES:
        raise _ModeError(f"{compute_mode} is not a valid value for compute_mode")
    for item, name in ((x1, "X1"), (x2, "X2")):
        _check_vectors(item, name)
    if x1.shape[-1] != x2.shape[-1]:
        raise ShapeError(
            f"X1 and X2 must have the same number of columns. X1: {x1.shape[-1]} X2: {x2.shape[-1]}"
        )
    if not p >= 0:  # nor NaN
        raise LazytError("cdist only supports non-negative p values")
    if x1.dtype is not x2.dtype:
        raise DTypeError(
            f"expected scalar type {torch_name(x1.dtype)} but found {torch_name(x2.dtype)}"
        )
    if x1.dtype.is_half:
        refuse("cdist", x1.dtype)
    a, b = x1.node, x2.node
    lead = broadcast_pair(a.shape[:-2], b.shape[:-2])
    a, b = (expand_to(item, (*lead, *item.shape[-2:])) for item in (a, b))
    rank = len(lead)
    left = ops.reshape(a, (*a.shape[:-1], 1, a.shape[-1]))
    right = ops.reshape(b, (*lead, 1, *b.shape[-2:]))
    gaps = ops.apply("sub", left, right)
    return give(_lengths(gaps, float(p), rank + 2), "Cdist", (x1, x2))


def _lengths(gaps: Node, p: float, axis: int) -> Node:
    if gaps.shape[axis] == 0:
        return ops.broadcast_to(ops.constant(0, gaps.dtype), gaps.shape[:axis])
    return norm_node(gaps, p, (axis,))


@function(cast="full")
def pdist(input: Tensor, p: float = 2) -> Tensor:
    """The p-norms of the differences of all pairs of rows, in the order of ``combinations``.

    Shape (N, M) gives N * (N - 1) / 2 distances. Raises ShapeError, DTypeError and LazytError.
    """
    require_tensor(input, "pdist")
    if len(input.shape) != 2:
        raise ShapeError(f"pdist only supports 2D tensors, got: {len(input.shape)}D")
    if input.dtype.kind != "f":
        raise DTypeError("pdist only supports floating-point dtypes")
    if not p >= 0:  # nor NaN
        raise LazytError("pdist only supports non-negative p values")
    if input.dtype.is_half:
        refuse("pdist", input.dtype)
    count = input.shape[0]
    first, second = _pairs(count)
    node = input.node
    gaps = ops.apply("sub", ops.gather(node, first, 0), ops.gather(node, second, 0))
    return give(_lengths(gaps, float(p), 1), "Pdist", (input,))


def _pairs(count: int) -> tuple[Node, Node]:
    """The numbers of the first and the second row of every pair."""
    from lazyt.functional.linalg.matrices import triu_indices

    places = triu_indices(count, count, 1).node
    rows = [ops.slice_(places, (i, 0), (1, places.shape[1]), (1, 1)) for i in (0, 1)]
    first, second = (ops.cast(ops.reshape(r, (places.shape[1],)), int64) for r in rows)
    return first, second
