"""LU factorization with row exchanges, and what is made of its factors."""

from __future__ import annotations

from typing import Any

from lazyt import ops
from lazyt.cast_mode import in_full_precision
from lazyt.errors import LazytError, ShapeError
from lazyt.functional import return_types
from lazyt.functional.matrix_checks import (
    as_info,
    check_equation,
    check_floating,
    check_kernel,
    check_same_dtype,
    give_columns,
    require_success,
    share_batch,
)
from lazyt.functional.operands import require_tensor
from lazyt.functional.results import give
from lazyt.functional.solvers import substituted
from lazyt.functional.tuple_outputs import takes_outputs
from lazyt.ir.dtypes import int32
from lazyt.ir.graph import Node
from lazyt.ops.matrix_algebra import column, columns, identity, lower, plus, product, rows
from lazyt.ops.matrix_algebra import transpose as turned
from lazyt.ops.matrix_algebra import upper as upper_triangle
from lazyt.tensor import Tensor

__all__ = ["lu", "lu_solve", "lu_unpack"]


def _factors(A: Tensor, pivot: bool, function: str) -> list[Node]:
    """Packed factors, pivots, order of the rows, and info."""
    if len(A.shape) < 2:
        raise ShapeError(
            f"{function}: Expected tensor with 2 or more dimensions. Got size: "
            f"{list(A.shape)} instead"
        )
    check_kernel(A, "lu_cpu")
    if not pivot:
        raise LazytError("linalg.lu_factor: LU without pivoting is not implemented on the CPU")
    return ops.library("lu", A.node)


def _zero_pivot(code: int) -> str:
    return (
        f"U[{code},{code}] is zero and using it on lu_solve would result in a division by zero. If "
        "you still want to perform the factorization, consider calling linalg.lu(A, pivot) or "
        "linalg.lu_factor_ex(A, pivot)"
    )


def _packed(A: Tensor, parts: list[Node]) -> tuple[Tensor, Tensor]:
    return give_columns(parts[0], "LinalgLuFactorEx", (A,)), give(ops.cast(parts[1], int32), "", ())


@takes_outputs
def lu_factor(A: Tensor, *, pivot: bool = True) -> return_types.linalg_lu_factor:
    """``L`` (below the diagonal) and ``U`` in one matrix, and LAPACK's pivots, from 1, in int32.

    Raises LinAlgError when U is singular.
    """
    require_tensor(A, "lu_factor", "A")
    parts = _factors(A, pivot, "torch.lu_factor")
    require_success(parts[-1], "torch.linalg.lu_factor", _zero_pivot)
    return return_types.linalg_lu_factor(_packed(A, parts))


@takes_outputs
def lu_factor_ex(
    A: Tensor, *, pivot: bool = True, check_errors: bool = False
) -> return_types.linalg_lu_factor_ex:
    """``lu_factor`` with ``info``: the number of the first zero on the diagonal of U, else 0.

    Stays lazy; raises LinAlgError only with ``check_errors``.
    """
    require_tensor(A, "lu_factor_ex", "A")
    parts = _factors(A, pivot, "torch.lu_factor")
    if check_errors:
        require_success(parts[-1], "torch.linalg.lu_factor_ex", _zero_pivot)
    info = give(as_info(parts[-1]), "", ())
    return return_types.linalg_lu_factor_ex((*_packed(A, parts), info))


@takes_outputs
def lu(A: Tensor, pivot: bool = True, get_infos: bool = False) -> tuple[Tensor, ...]:
    """``torch.lu``: packed factors and pivots, with ``get_infos`` also ``info``; stays lazy."""
    require_tensor(A, "lu", "A")
    parts = _factors(A, pivot, "torch.lu_factor")
    packed = _packed(A, parts)
    return (*packed, give(as_info(parts[-1]), "", ())) if get_infos else packed


@takes_outputs
def linalg_lu(A: Tensor, *, pivot: bool = True) -> return_types.linalg_lu:
    """``P``, ``L`` and ``U`` with ``A = P @ L @ U``; P is a permutation matrix."""
    require_tensor(A, "linalg_lu", "A")
    packed, _, order, _ = _factors(A, pivot, "linalg.lu")
    low, high = _triangles(packed)
    exchange = give(turned(_exchange(order)), "", ())
    return return_types.linalg_lu(
        (exchange, give(low, "LinalgLu", (A,)), give(high, "LinalgLu", (A,)))
    )


def _triangles(packed: Node) -> tuple[Node, Node]:
    m, n = packed.shape[-2:]
    k = min(m, n)
    left = columns(packed, 0, k)
    unit = columns(identity(packed), 0, k)
    return plus(lower(left, -1), unit), upper_triangle(rows(packed, 0, k))


def _exchange(order: Node) -> Node:
    """The matrix that puts rows into ``order``."""
    counts = ops.cast(ops.iota(order.shape[-1]), order.dtype)
    return ops.cast(ops.apply("eq", column(order), counts), order.dtype)


def _order_of(pivots: Tensor, count: int, dtype: Any) -> Node:
    """The order of ``count`` rows after LAPACK's exchanges."""
    if pivots.dtype is not int32:
        raise LazytError(
            "torch.lu_unpack: LU_pivots is expected to be a contiguous tensor of torch.int32 dtype."
            "\nNote: this function is intended to be used with the output produced by "
            "torch.linalg.lu_factor"
        )
    numbers = column(ops.cast(pivots.node, dtype))
    return ops.library("exchanges", numbers, mode=str(count))[0]


@takes_outputs
def lu_unpack(
    LU_data: Tensor, LU_pivots: Tensor, unpack_data: bool = True, unpack_pivots: bool = True
) -> return_types.lu_unpack:
    """``P``, ``L`` and ``U`` from packed factors and pivots; empty where not asked for.

    Raises LazytError for pivots of another dtype than int32.
    """
    require_tensor(LU_data, "lu_unpack", "LU_data")
    node = LU_data.node
    nothing = give(ops.broadcast_to(ops.constant(0, node.dtype), (0,)), "", ())
    exchange = low = high = nothing
    if unpack_data:
        low, high = (give(part, "LuUnpack", (LU_data,)) for part in _triangles(node))
    if unpack_pivots:
        order = _order_of(LU_pivots, node.shape[-2], node.dtype)
        exchange = give(turned(_exchange(order)), "", ())
    return return_types.lu_unpack((exchange, low, high))


def linalg_lu_solve(
    LU: Tensor, pivots: Tensor, B: Tensor, *, left: bool = True, adjoint: bool = False,
    out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """``X`` with ``A @ X = B`` from the packed factors of ``A``; batches broadcast.

    Unless ``left``, ``X @ A = B``; with ``adjoint``, ``A.mT`` in the place of ``A``. Raises
    ShapeError and DTypeError.
    """
    check_floating(LU, "torch.linalg.lu_solve")
    if pivots.dtype is not int32:
        raise LazytError("linalg.lu_solve: pivots should be a Tensor of scalar type torch.int32")
    check_equation(LU, B, "linalg.lu_solve", left)
    check_same_dtype(LU, B, "linalg.lu_solve", ("LU", "B"))
    check_kernel(LU, "lu_solve_cpu")
    exchange = _exchange(_order_of(pivots, LU.shape[-2], LU.dtype))
    right = B.node if left else turned(B.node)
    packed, right, exchange = share_batch(LU.node, right, exchange)
    if adjoint == left:  # the transposed equation
        half = substituted(turned(packed), right, False, False)
        x = product(turned(exchange), substituted(turned(packed), half, True, True))
    else:
        half = substituted(packed, product(exchange, right), False, True)
        x = substituted(packed, half, True, False)
    return (give_columns if left else give)(x if left else turned(x), "LinalgLuSolve", (LU, B), out)


@in_full_precision
def lu_solve(
    input: Tensor, LU_data: Tensor, LU_pivots: Tensor, *, out: Tensor | None = None
) -> Tensor:
    """``torch.lu_solve``: ``X`` with ``A @ X = input`` from the packed factors of ``A``."""
    return linalg_lu_solve(LU_data, LU_pivots, input, out=out)
