"""The largest singular values of a matrix, from a few random directions."""

from __future__ import annotations

from lazyt.errors import ArgumentError
from lazyt.functional.decompositions import qr, svd
from lazyt.functional.operands import require_tensor
from lazyt.functional.products import matmul
from lazyt.functional.random import randn
from lazyt.functional.reductions import mean
from lazyt.tensor import Tensor

__all__ = ["pca_lowrank", "svd_lowrank"]

Factors = tuple[Tensor, Tensor, Tensor]


def _basis(A: Tensor, q: int, niter: int) -> Tensor:
    """``q`` orthonormal columns that nearly span what ``A`` maps to (Halko et al. 2011, 4.4)."""
    drawn = randn(A.shape[-1], q, dtype=A.dtype)
    found: Tensor = qr(matmul(A, drawn))[0]
    for _ in range(niter):  # each turn damps the small singular values once more
        found = qr(matmul(A.mT, found))[0]
        found = qr(matmul(A, found))[0]
    return found


def _factors(A: Tensor, q: int, niter: int) -> Factors:
    wide = A.shape[-2] < A.shape[-1]
    tall = A.mT if wide else A
    basis = _basis(tall, q, niter)
    inner, values, right = svd(matmul(basis.mT, tall))
    left = matmul(basis, inner)
    return (right, values, left) if wide else (left, values, right)


def _check_matrix(A: Tensor, function: str) -> None:
    if require_tensor(A, function, "A").ndim < 2:
        raise ArgumentError(f"{function}: A must have two dimensions or more, but it has {A.ndim}")


def svd_lowrank(
    A: Tensor, q: int | None = 6, niter: int | None = 2, M: Tensor | None = None
) -> Factors:
    """``(U, S, V)`` of ``A - M`` [*, m, n], of rank ``q``: [*, m, q], [*, q], [*, n, q].

    ``q`` is a little more than the rank that matters, ``niter`` the number of turns of subspace
    iteration (Halko et al. 2011, algorithm 5.1). Raises ArgumentError (a ValueError) for what is
    no matrix, ShapeError for an ``M`` that does not broadcast.
    """
    _check_matrix(A, "svd_lowrank")
    shifted = A if M is None else A - M.expand(A.shape)
    return _factors(shifted, 6 if q is None else q, 2 if niter is None else niter)


def pca_lowrank(A: Tensor, q: int | None = None, center: bool = True, niter: int = 2) -> Factors:
    """``svd_lowrank`` of samples [*, m, n] without their mean: the principal components.

    ``q`` is at most 6 by default. Raises ArgumentError (a ValueError) for a ``q`` or ``niter``
    out of range.
    """
    _check_matrix(A, "pca_lowrank")
    smaller = min(A.shape[-2:])
    rank = min(6, smaller) if q is None else q
    if not 0 <= rank <= smaller:
        raise ArgumentError(
            f"q(={rank}) must be non-negative integer and not greater than min(m, n)={smaller}"
        )
    if niter < 0:
        raise ArgumentError(f"niter(={niter}) must be non-negative integer")
    return _factors(A - mean(A, -2, True) if center else A, rank, niter)
