"""Triangles and diagonals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lazyt import ops
from lazyt.errors import LazytError, NoKernelError, ShapeError
from lazyt.functional.operands import choose, constant_of, normalize_dim, require_tensor
from lazyt.functional.results import give
from lazyt.functional.type_promotion import as_dtype, refuse
from lazyt.handle.autocast import in_full_precision
from lazyt.handle.dispatch import type_title
from lazyt.handle.function_table import function
from lazyt.handle.tape import titled
from lazyt.handle.tensor import Tensor
from lazyt.ir.dtypes import bool_, int32, int64
from lazyt.ir.graph import Node

__all__ = [
    "combinations", "diag", "diag_embed", "diagflat", "trace", "tril", "tril_indices", "triu",
    "triu_indices",
]  # fmt: skip


def _triangle(input: Tensor, diagonal: int, kind: str, title: str, out: Tensor | None) -> Tensor:
    shape = tuple(input.shape)
    if len(shape) < 2:
        raise ShapeError(f"{title.lower()}: input tensor must have at least 2 dimensions")
    rows = ops.reshape(ops.iota(shape[-2]), (shape[-2], 1))
    columns = ops.iota(shape[-1])
    if diagonal:
        rows = ops.apply("add", rows, ops.constant(diagonal, int64))
    keep = ops.apply(kind, columns, rows)
    node = choose(keep, input.node, constant_of(0, input.dtype), input.dtype)
    return give(node, title, (input,), out)


@function(method=True, inplace="method")
def tril(input: Tensor, diagonal: int = 0, *, out: Tensor | None = None) -> Tensor:
    """The lower triangle of matrices, zero above. Raises ShapeError for vectors."""
    require_tensor(input, "tril")
    return _triangle(input, diagonal, "le", "Tril", out)


@function(method=True, inplace="method")
def triu(input: Tensor, diagonal: int = 0, *, out: Tensor | None = None) -> Tensor:
    """The upper triangle of matrices, zero below. Raises ShapeError for vectors."""
    require_tensor(input, "triu")
    return _triangle(input, diagonal, "ge", "Triu", out)


def _triangle_indices(
    name: str, row: int, col: int, columns: Callable[[int], range], dtype: Any, device: Any
) -> Tensor:
    """The places of all rows, of which ``columns`` gives the column numbers by row."""
    from lazyt.functional.creation.creation import tensor

    for title, extent in (("row", row), ("col", col)):
        if extent < 0:
            raise LazytError(f"{title} must be non-negative, got{extent}")
    wanted = int64 if dtype is None else as_dtype(dtype)
    if wanted not in (int32, int64):
        raise NoKernelError(f"\"{name}\" not implemented for '{type_title(wanted)}'")
    rows = [i for i in range(row) for _ in columns(i)]
    both = [rows, [j for i in range(row) for j in columns(i)]]
    return tensor(both, dtype=wanted, device=device)


@function()
def tril_indices(
    row: int, col: int, offset: int = 0, *, dtype: Any = None, device: Any = None,
    layout: Any = None,
) -> Tensor:  # fmt: skip
    """Row and column numbers of the lower triangle, as two rows.

    Raises LazytError for negative extents, NoKernelError for a dtype but int32 and int64.
    """
    return _triangle_indices(
        "tril_indices", row, col, lambda i: range(min(max(i + offset + 1, 0), col)), dtype,
        device,
    )  # fmt: skip


@function()
def triu_indices(
    row: int, col: int, offset: int = 0, *, dtype: Any = None, device: Any = None,
    layout: Any = None,
) -> Tensor:  # fmt: skip
    """Row and column numbers of the upper triangle, as two rows.

    Raises LazytError for negative extents, NoKernelError for a dtype but int32 and int64.
    """
    return _triangle_indices(
        "triu_indices", row, col, lambda i: range(min(max(i + offset, 0), col), col), dtype,
        device,
    )  # fmt: skip


def _embedded(node: Node, offset: int) -> Node:
    """Vectors along the last axis put on the diagonal ``offset`` of zero matrices."""
    n = node.shape[-1]
    size = n + abs(offset)
    rows = ops.reshape(ops.iota(size), (size, 1))
    on_diagonal = ops.apply("eq", ops.iota(size), _shifted(rows, offset))
    low = offset if offset > 0 else 0
    lead = len(node.shape) - 1
    padded = ops.pad(
        node, (*(0,) * lead, low), (*(0,) * lead, size - n - low), (0,) * (lead + 1), 0
    )
    spread = ops.reshape(padded, (*node.shape[:-1], 1, size))
    return choose(on_diagonal, spread, constant_of(0, node.dtype), node.dtype)


def _shifted(rows: Node, offset: int) -> Node:
    return ops.apply("add", rows, ops.constant(offset, int64)) if offset else rows


@function(method=True)
def diag_embed(input: Tensor, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """Matrices with the last dimension of ``input`` on a diagonal."""
    require_tensor(input, "diag_embed")
    node = _embedded(input.node, offset)
    rank = len(node.shape)
    first, second = normalize_dim(dim1, rank), normalize_dim(dim2, rank)
    if first == second:
        raise LazytError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    rest = iter(range(rank - 2))
    ends = {first: rank - 2, second: rank - 1}
    order = tuple(ends[i] if i in ends else next(rest) for i in range(rank))
    if order != tuple(range(rank)):
        node = ops.permute(node, order)
    return give(node, "DiagEmbed", (input,))


@function(method=True)
def diag(input: Tensor, diagonal: int = 0, *, out: Tensor | None = None) -> Tensor:
    """A matrix with the vector on its diagonal, or the diagonal of a matrix as a copy."""
    require_tensor(input, "diag")
    if len(input.shape) == 1:
        return give(_embedded(input.node, diagonal), "Diag", (input,), out)
    if len(input.shape) != 2:
        raise ShapeError(f"diag(): Supports 1D or 2D tensors. Got {len(input.shape)}D")
    if out is not None:
        return give(input.diagonal(diagonal).node, "Diag", (input,), out)
    copy: Tensor = input.diagonal(diagonal).clone()
    return copy


@function(method=True)
def diagflat(input: Tensor, offset: int = 0) -> Tensor:
    """A matrix with all elements on its diagonal."""
    require_tensor(input, "diagflat")
    return diag(input.reshape(-1), offset)


@function(method=True)
@in_full_precision
def trace(input: Tensor) -> Tensor:
    """The sum of a matrix' diagonal. Raises ShapeError for other ranks."""
    require_tensor(input, "trace")
    if len(input.shape) != 2:
        raise ShapeError(f"trace: expected a matrix, but got tensor with dim {len(input.shape)}")
    if input.dtype is bool_:
        refuse("trace", bool_)
    total: Tensor = input.diagonal().sum()
    return titled(total, "TraceBackward0")


@function()
def combinations(input: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    """All choices of ``r`` elements of a vector, one a row. Raises LazytError for no vector."""
    require_tensor(input, "combinations")
    if len(input.shape) != 1:
        raise LazytError(f"Expect a 1D vector, but got shape {list(input.shape)}")
    if r < 0:
        raise LazytError(f"Expect a non-negative number, but got {r}")
    if not r:
        return give(ops.slice_(input.node, (0,), (0,), (1,)), "Index", (input,))
    import itertools

    from lazyt.functional.creation.creation import tensor

    choose_from = (
        itertools.combinations_with_replacement if with_replacement else itertools.combinations
    )
    places: Sequence[Any] = list(choose_from(range(input.shape[0]), r))
    index = tensor(places, dtype=int64).reshape(-1, r)
    return give(ops.gather(input.node, index.node, 0), "Index", (input,))
