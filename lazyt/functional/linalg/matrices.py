"""Triangles and diagonals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lazyt import ops
from lazyt.config import config
from lazyt.errors import DTypeError, LazytError, LinAlgError, NoKernelError, ShapeError
from lazyt.functional.operands import (
    broadcast_pair,
    choose,
    constant_of,
    expand_to,
    mapped,
    normalize_dim,
    require_tensor,
)
from lazyt.functional.result_layout import row_major
from lazyt.functional.results import SAME_DTYPE, give
from lazyt.functional.type_promotion import as_dtype, refuse, torch_name
from lazyt.handle import pending
from lazyt.handle.autocast import in_full_precision
from lazyt.handle.device import check_device, has_no_values
from lazyt.handle.dispatch import lay_out, type_title, wrap
from lazyt.handle.function_table import function
from lazyt.handle.hooks import capturing
from lazyt.handle.layout import dense_strides
from lazyt.handle.tape import titled
from lazyt.handle.tensor import Tensor
from lazyt.ir.dtypes import bool_, float32, float64, int32, int64
from lazyt.ir.graph import Node, Shape, topological
from lazyt.ir.scalar import Expr, call, const

__all__ = [
    "combinations", "diag", "diag_embed", "diagflat", "trace", "tril", "tril_indices", "triu",
    "triu_indices",
]  # fmt: skip


# What functions of matrices share: checks of dimensions, dtypes and success, and the layout.
#
# PyTorch raises for singular matrices and for iterations that do not converge at the call. So these
# functions look at the outcome of their library call, which computes what the call depends on. The
# forms that hand out ``info`` instead (``inv_ex``, ``cholesky_ex``, ...) stay lazy.


def routine(name: str, *operands: Node, mode: str = "plain") -> list[Node]:
    """``ops.library``, which is refused under ``config.exact`` where LAPACK would be called:
    raises ReproducibilityError."""
    if config.exact and not ops.has_kernel(name, mode, operands):
        ops.refuse_library(name, operands)
    return ops.library(name, *operands, mode=mode)


def check_matrix(input: Tensor, function: str, argument: str = "A") -> None:
    """Raise ShapeError for fewer than two dimensions."""
    if len(input.shape) < 2:
        name = f"tensor {argument}".rstrip()
        raise ShapeError(f"{function}: The input {name} must have at least 2 dimensions.")


def check_square(input: Tensor, function: str, argument: str = "A") -> None:
    """Raise ShapeError for what is no batch of square matrices."""
    check_matrix(input, function, argument)
    require_square(input, f"{function}: {argument}")


def require_square(input: Tensor, title: str) -> None:
    """Raise ShapeError, which begins with ``title``, for matrices that are not square."""
    rows, columns = input.shape[-2:]
    if rows != columns:
        raise ShapeError(
            f"{title} must be batches of square matrices, but they are {rows} by {columns} matrices"
        )


def check_floating(input: Tensor, function: str, low: bool = True) -> None:
    """Raise DTypeError for integers and, unless ``low`` precision is taken, for 16-bit floats."""
    if input.dtype.kind not in "fc":
        raise DTypeError(
            f"{function}: Expected a floating point or complex tensor as input. "
            f"Got {torch_name(input.dtype)}"
        )
    if input.dtype.is_half and not low:
        raise DTypeError(
            f"{function}: Low precision dtypes not supported. Got {torch_name(input.dtype)}"
        )


def check_kernel(input: Tensor, kernel: str) -> None:
    """Raise UnsupportedTypeError (a NotImplementedError) for all but float32, float64 and complex
    types."""
    if input.dtype.kind not in "fc" or input.dtype.is_half:
        refuse(kernel, input.dtype)


def check_same_dtype(
    a: Tensor, b: Tensor, function: str, names: tuple[str, str] = ("A", "B")
) -> None:
    """Raise DTypeError for two dtypes."""
    if a.dtype is not b.dtype:
        x, y = names
        raise DTypeError(
            f"{function}: Expected {x} and {y} to have the same dtype, but found {x} of type "
            f"{torch_name(a.dtype)} and {y} of type {torch_name(b.dtype)} instead"
        )


def check_equation(a: Tensor, b: Tensor, function: str, left: bool = True) -> None:
    """Raise ShapeError unless ``a`` is square and ``a @ x = b`` (or ``x @ a = b``) has sense."""
    check_square(a, function)
    check_matrix(b, function, "B")
    if a.shape[-2 if left else -1] != b.shape[-2 if left else -1]:
        m, n = a.shape[-2:]
        raise ShapeError(
            f"{function}: Incompatible shapes of A and B for the equation "
            f"{'AX = B' if left else 'XA = B'} ({m}x{n} and {b.shape[-2]}x{b.shape[-1]})"
        )


def share_batch(*matrices: Node) -> list[Node]:
    """Matrices with their leading axes broadcast against each other."""
    lead: Shape = ()
    for item in matrices:
        lead = broadcast_pair(lead, item.shape[:-2])
    return [expand_to(item, (*lead, *item.shape[-2:])) for item in matrices]


def as_info(info: Node) -> Node:
    """A routine's ``info`` in the dtype that users see, int32."""
    return ops.cast(info, int32)


def require_success(info: Node, function: str, reason: Callable[[int], str]) -> None:
    """Raise LinAlgError, in the words of ``reason``, for the first matrix whose info is not 0.

    ``info`` is the last part of a library call, which is computed now. Where it depends on values
    that do not exist yet, as while a function is batched, nothing can be checked.
    """
    packed = info
    while packed.op not in (ops.LIBRARY, ops.LINALG):
        packed = packed.inputs[0]
    if packed.size == 0 or not is_computable(packed):
        return
    watcher = capturing()
    if watcher is not None and watcher.verified(packed):
        pending.realize_nodes([packed])
    else:
        pending.realize_now([packed], f"{function} checks its result")
    found: Any = packed.data.as_numpy(packed.dtype, packed.shape)[..., -1].real
    failed = np.flatnonzero(found)
    if len(failed):
        code = int(found.reshape(-1)[failed[0]])
        batch = f"(Batch element {failed[0]}): " if found.ndim else ""
        raise LinAlgError(f"{function}: {batch}{reason(code)}")


def is_computable(node: Node) -> bool:
    """Whether all values that ``node`` depends on exist."""
    if node.data is not None:
        return True
    if has_no_values(node):
        return False
    order = topological([node], lambda item: item.data is not None)
    return all(item.data is not None or item.op.name != "input" for item in order)


def give_columns(
    node: Node, name: str, parents: Sequence[Any], out: Tensor | None = None
) -> Tensor:
    """``give`` for matrices that PyTorch's LAPACK leaves column by column in memory."""
    if out is not None:
        return give(node, name, parents, out)
    result = wrap(node, *parents, name=name)
    shape = tuple(max(extent, 1) for extent in result.shape)
    rank = len(shape)
    return lay_out(result, dense_strides(shape, (*range(rank - 2), rank - 1, rank - 2)))


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


@function(method=True, inplace="method", layout=row_major, out_dtype=SAME_DTYPE)
def tril(input: Tensor, diagonal: int = 0, *, out: Tensor | None = None) -> Tensor:
    """The lower triangle of matrices, zero above. Raises ShapeError for vectors."""
    require_tensor(input, "tril")
    return _triangle(input, diagonal, "le", "Tril", out)


@function(method=True, inplace="method", layout=row_major, out_dtype=SAME_DTYPE)
def triu(input: Tensor, diagonal: int = 0, *, out: Tensor | None = None) -> Tensor:
    """The upper triangle of matrices, zero below. Raises ShapeError for vectors."""
    require_tensor(input, "triu")
    return _triangle(input, diagonal, "ge", "Triu", out)


def _row_start(row: Expr, width: Expr) -> Expr:
    """Where a row begins in a triangle of rows of ``width`` elements and each time one more."""
    one, two = const(1, row.dtype), const(2, row.dtype)
    pairs = call("floordiv", call("mul", row, call("sub", row, one)), two)
    return call("add", call("mul", row, width), pairs)


def _row_of(place: Expr, width: Expr) -> Expr:
    """The row in which a place of such a triangle lies: the root of a square, put right by one."""
    one, two, eight = (const(n, place.dtype) for n in (1, 2, 8))
    real = float32 if place.dtype is int32 else float64  # either errs by less than one
    odd = call("sub", call("mul", width, two), one)
    square = call("add", call("mul", odd, odd), call("mul", place, eight))
    root = call("sqrt", call("cast", square, dtype=real))
    near = call("mul", call("sub", root, call("cast", odd, dtype=real)), const(0.5, real))
    row = call("cast", near, dtype=place.dtype)
    above = call("gt", _row_start(row, width), place)
    row = call("where", above, call("sub", row, one), row)
    following = call("add", row, one)
    below = call("le", _row_start(following, width), place)
    return call("where", below, following, row)


def _triangle_positions(row: int, col: int, offset: int) -> tuple[Node, Node]:
    """Row and column numbers of the elements at or below the diagonal ``offset``, row by row."""
    first = max(0, -offset)
    if first >= row or col == 0:
        return ops.iota(0), ops.iota(0)
    width = min(first + offset + 1, col)
    growing = max(0, min(row, col - offset) - first)  # rows, each longer than the one before
    fewer = growing * width + growing * (growing - 1) // 2
    count = fewer + (row - first - growing) * col
    # The largest number on the way is a square: of numbers of 32 bits twice as many are a vector.
    dtype = int32 if 8 * count + (2 * width + 8) ** 2 < 2**31 else int64
    place = ops.cast(ops.iota(count), dtype)
    whole = [constant_of(n, dtype) for n in (first + growing - fewer // col, fewer % col, col)]
    spot = ops.apply("sub", place, whole[1])
    full = (
        ops.apply("add", ops.apply("floordiv", spot, whole[2]), whole[0]),
        ops.apply("mod", spot, whole[2]),
    )
    if not growing:
        return full[0], full[1]
    wide = constant_of(width, dtype)
    turn = mapped(_row_of, (place, wide), dtype, None)
    rows = ops.apply("add", turn, constant_of(first, dtype))
    columns = ops.apply("sub", place, mapped(_row_start, (turn, wide), dtype, None))
    if count == fewer:
        return rows, columns
    early = ops.apply("lt", place, constant_of(fewer, dtype))
    return choose(early, rows, full[0], dtype), choose(early, columns, full[1], dtype)


def _triangle_indices(
    name: str, row: int, col: int, offset: int, dtype: Any, device: Any
) -> Tensor:
    """The places of the elements of a triangle: of the upper one by its mirror image."""
    from lazyt.functional.creation.creation import fresh

    for title, extent in (("row", row), ("col", col)):
        if extent < 0:
            raise LazytError(f"{title} must be non-negative, got{extent}")
    wanted = int64 if dtype is None else as_dtype(dtype)
    if wanted not in (int32, int64):
        raise NoKernelError(f"\"{name}\" not implemented for '{type_title(wanted)}'")
    if name == "tril_indices":
        pair = _triangle_positions(row, col, offset)
    else:  # the lower triangle of the matrix from its other end
        lower = _triangle_positions(row, col, col - row - offset)
        ends = constant_of(row - 1, int64), constant_of(col - 1, int64)
        flipped = [ops.flip(ops.cast(node, int64), (0,)) for node in lower]
        pair = ops.apply("sub", ends[0], flipped[0]), ops.apply("sub", ends[1], flipped[1])
    both = ops.concat([ops.reshape(node, (1, *node.shape)) for node in pair], 0)
    return fresh(ops.cast(both, wanted), False, check_device(device))


@function()
def tril_indices(
    row: int, col: int, offset: int = 0, *, dtype: Any = None, device: Any = None,
    layout: Any = None,
) -> Tensor:  # fmt: skip
    """Row and column numbers of the lower triangle, as two rows.

    Raises LazytError for negative extents, NoKernelError for a dtype but int32 and int64.
    """
    return _triangle_indices("tril_indices", row, col, offset, dtype, device)


@function()
def triu_indices(
    row: int, col: int, offset: int = 0, *, dtype: Any = None, device: Any = None,
    layout: Any = None,
) -> Tensor:  # fmt: skip
    """Row and column numbers of the upper triangle, as two rows.

    Raises LazytError for negative extents, NoKernelError for a dtype but int32 and int64.
    """
    return _triangle_indices("triu_indices", row, col, offset, dtype, device)


def _embedded(node: Node, offset: int) -> Node:
    """Vectors along the last axis put on the diagonal ``offset`` of zero matrices."""
    n = node.shape[-1]
    size = n + abs(offset)
    narrow = int32 if size < 2**31 else int64  # twice as many fit into a vector
    rows = ops.reshape(ops.iota(size), (size, 1))
    rows, along = (ops.cast(node, narrow) for node in (_shifted(rows, offset), ops.iota(size)))
    on_diagonal = ops.apply("eq", along, rows)
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


@function(method=True, out_dtype=SAME_DTYPE)
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
