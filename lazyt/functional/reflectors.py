"""Products of Householder reflectors, as ``geqrf`` leaves them.

The reflectors ``1 - tau v v^T`` of k vectors are multiplied as ``1 - V T V^T`` with one triangular
``T`` (Schreiber, Van Loan, "A storage-efficient WY representation for products of Householder
transformations", 1989), which is a triangular equation: ``(1 + D S) T = D`` with D the diagonal
of tau and S what ``V^T V`` has above its diagonal.
"""

from __future__ import annotations

from lazyt import ops
from lazyt.cast_mode import in_full_precision
from lazyt.errors import ShapeError
from lazyt.functional.matrix_checks import (
    check_kernel,
    check_matrix,
    check_same_dtype,
    give_columns,
)
from lazyt.functional.operands import require_tensor
from lazyt.functional.solvers import substituted
from lazyt.ir.graph import Node
from lazyt.ops.matrix_algebra import (
    column,
    columns,
    identity,
    lower,
    matrix_of,
    minus,
    plus,
    product,
    times,
    transpose,
    upper,
)
from lazyt.tensor import Tensor

__all__ = ["orgqr", "ormqr"]


def _vectors_and_factor(packed: Node, tau: Node) -> tuple[Node, Node]:
    """``V`` and ``T``."""
    k = tau.shape[-1]
    left = columns(packed, 0, k)
    vectors = plus(lower(left, -1), identity(left))
    overlaps = upper(product(transpose(vectors), vectors), 1)
    scaled = times(column(tau), overlaps)
    return vectors, substituted(scaled, matrix_of(tau), True, True)


def _check(input: Tensor, tau: Tensor, function: str) -> None:
    check_matrix(input, function, "input")
    if input.shape[-2] < input.shape[-1]:
        raise ShapeError(
            f"{function}: input.shape[-2] must be greater than or equal to input.shape[-1]"
        )
    if not tau.shape or input.shape[-1] < tau.shape[-1]:
        raise ShapeError(
            f"{function}: input.shape[-1] must be greater than or equal to tau.shape[-1]"
        )
    if len(tau.shape) != len(input.shape) - 1:
        raise ShapeError(
            f"{function}: Expected tau to have one dimension less than input, but got tau.ndim "
            f"equal to {len(tau.shape)} and input.ndim is equal to {len(input.shape)}"
        )
    if tuple(tau.shape[:-1]) != tuple(input.shape[:-2]):
        raise ShapeError(
            f"{function}: Expected batch dimensions of tau to be equal to input.shape[:-2], "
            f"but got {list(tau.shape[:-1])}"
        )
    check_same_dtype(input, tau, function, ("input", "tau"))


@in_full_precision
def householder_product(input: Tensor, tau: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The first columns, as many as ``input`` has, of the product of the reflectors in ``input``.

    ``input`` of shape (..., m, n) with m >= n holds them below the diagonal, ``tau`` (..., k) with
    k <= n their factors. Raises ShapeError and DTypeError.
    """
    require_tensor(input, "householder_product")
    _check(input, tau, "torch.linalg.householder_product")
    check_kernel(input, "orgqr_cpu")
    vectors, factor = _vectors_and_factor(input.node, tau.node)
    n = input.shape[-1]
    turned = columns(transpose(vectors), 0, n)
    node = minus(identity(input.node), product(vectors, product(factor, turned)))
    return give_columns(node, "LinalgHouseholderProduct", (input, tau), out)


@in_full_precision
def orgqr(input: Tensor, input2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """``linalg.householder_product``."""
    require_tensor(input, "orgqr")
    return householder_product(input, input2, out=out)


@in_full_precision
def ormqr(
    input: Tensor, input2: Tensor, input3: Tensor, left: bool = True, transpose: bool = False, *,
    out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """``input3`` times the whole square product of the reflectors, from the left or the right.

    ``transpose`` takes the transposed product. Raises ShapeError and DTypeError.
    """
    check_matrix(input, "torch.ormqr", "input")
    check_matrix(input3, "torch.ormqr", "other")
    check_same_dtype(input, input3, "torch.ormqr", ("input", "other"))
    side = -2 if left else -1
    if input2.shape[-1] > input3.shape[side]:
        raise ShapeError(
            f"torch.ormqr: other.shape[{side}] must be greater than or equal to tau.shape[-1]"
        )
    if input3.shape[side] != input.shape[-2]:
        raise ShapeError(f"torch.ormqr: other.shape[{side}] must be equal to input.shape[-2]")
    if input2.shape[-1] != min(input3.shape[side], input.shape[-1]):
        raise ShapeError(
            f"torch.ormqr: tau.shape[-1] must be equal to min(other.shape[{side}], input.shape[-1])"
        )
    check_kernel(input, "ormqr_cpu")
    vectors, factor = _vectors_and_factor(input.node, input2.node)
    rank = len(factor.shape)
    order = (*range(rank - 2), rank - 1, rank - 2)
    if transpose:
        factor = ops.permute(factor, order)
    turned = ops.permute(vectors, order)
    node = input3.node
    if left:
        moved = product(vectors, product(factor, product(turned, node)))
    else:
        moved = product(product(product(node, vectors), factor), turned)
    return give_columns(minus(node, moved), "Ormqr", (input, input2, input3), out)
