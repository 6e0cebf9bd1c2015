"""How near vectors are: cosines, p-norms of differences, and vectors of length 1."""

from __future__ import annotations

import math

from lazyt import ops
from lazyt.dispatch import type_title
from lazyt.errors import DTypeError, LazytError, ShapeError
from lazyt.functional.arithmetic import div
from lazyt.functional.operands import constant_of
from lazyt.functional.promotion import promote_pair
from lazyt.functional.results import give
from lazyt.ir.dtypes import bool_, int64
from lazyt.ir.graph import Node
from lazyt.tensor import Tensor

__all__ = ["cosine_similarity", "pairwise_distance", "pdist"]


def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """The cosine of the angle between vectors along ``dim``; both tensors broadcast.

    Lengths below ``eps`` count as ``eps``. Raises DTypeError for whole numbers, ShapeError,
    BoundsError.
    """
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


def pdist(input: Tensor, p: float = 2) -> Tensor:
    """The p-norms of the differences of all pairs of rows of [N, M]: N * (N - 1) / 2 of them.

    Equal rows have the gradient 0. Raises ShapeError for other than two dimensions, LazytError
    for a negative ``p``.
    """
    if input.ndim != 2:
        raise ShapeError(f"pdist only supports 2D tensors, got: {input.ndim}D")
    if p < 0:
        raise LazytError("pdist only supports non-negative p values")
    if input.dtype.kind != "f":
        raise DTypeError("pdist only supports floating-point dtypes")
    count = input.shape[0]
    total = count * (count - 1) // 2
    node = ops.cast(input.node, input.dtype.compute)
    if not total:
        empty = ops.broadcast_to(ops.constant(0, input.dtype), (0,))
        return give(empty, "PdistForward", ())
    first, second = _pairs(count)
    gap = ops.apply("sub", ops.gather(node, first, 0), ops.gather(node, second, 0))
    return give(ops.cast(_row_norms(gap, float(p)), input.dtype), "PdistForward", (input,))


def _pairs(count: int) -> tuple[Node, Node]:
    """The numbers i < j of all pairs, in order of i."""
    rows = [i for i in range(count) for _ in range(i + 1, count)]
    columns = [j for i in range(count) for j in range(i + 1, count)]
    return _numbers(rows), _numbers(columns)


def _numbers(values: list[int]) -> Node:
    from lazyt.functional.creation import tensor

    return tensor(values, dtype=int64).node


def _row_norms(gap: Node, p: float) -> Node:
    size = ops.apply("abs", gap)
    if p == 0:
        return ops.reduce_("sum", ops.cast(ops.cast(size, bool_), size.dtype), (1,))
    if p == 1:
        return ops.reduce_("sum", size, (1,))
    if math.isinf(p):
        return ops.reduce_("max", size, (1,))
    # Where rows are equal the root has no slope: it is taken of 1 there, and thrown away.
    zero, one = constant_of(0, size.dtype), constant_of(1, size.dtype)
    apart = ops.apply("gt", ops.reduce_("max", _plain(size), (1,)), zero)
    wide = ops.reshape(apart, (*apart.shape, 1))
    safe = ops.apply("where", wide, size, one)
    if p == 2:
        root = ops.apply("sqrt", ops.reduce_("sum", ops.apply("mul", safe, safe), (1,)))
    else:
        powers = ops.apply("pow", safe, constant_of(p, size.dtype))
        total = ops.reduce_("sum", powers, (1,))
        root = ops.apply("pow", total, constant_of(1 / p, size.dtype))
    return ops.apply("where", apart, root, zero)


def _plain(node: Node) -> Node:
    return ops.detach(node) if node.needs_grad else node


def normalize(
    input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12, out: Tensor | None = None
) -> Tensor:
    """``input`` divided by its p-norm along ``dim``, or by ``eps`` where that is larger.

    Raises BoundsError for a dimension that is not there.
    """
    size = input.norm(p, dim, True).clamp_min(eps).expand_as(input)
    return div(input, size, out=out)
