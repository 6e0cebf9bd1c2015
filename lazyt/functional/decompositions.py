"""Factorizations of matrices: Cholesky, LU, QR, eigenvalues and singular values.

All take matrices in the last two dimensions, batched over the others, in float32 or float64; other
dtypes raise DTypeError and other shapes ShapeError, in PyTorch's words. They are library calls
(``lazyt/ops/library_routines.py``).
"""

from __future__ import annotations

from collections.abc import Sequence

from lazyt import ops
from lazyt.cast_mode import in_full_precision
from lazyt.errors import LazytError, ShapeError
from lazyt.functional import return_types
from lazyt.functional.matrix_checks import (
    as_info,
    check_floating,
    check_kernel,
    check_matrix,
    check_square,
    give_columns,
    require_success,
)
from lazyt.functional.operands import require_tensor
from lazyt.functional.results import give
from lazyt.functional.tuple_outputs import takes_outputs
from lazyt.ir.graph import Node
from lazyt.ops.matrix_algebra import transpose
from lazyt.tensor import Tensor

__all__ = ["cholesky", "geqrf", "qr", "svd"]


def _not_positive(code: int) -> str:
    return (
        "The factorization could not be completed because the input is not positive-definite "
        f"(the leading minor of order {code} is not positive-definite)."
    )


def _cholesky_parts(input: Tensor, upper: bool, function: str) -> tuple[Node, Node]:
    check_square(input, function)
    if function.startswith("linalg"):
        check_floating(input, function)
    check_kernel(input, "cholesky_cpu")
    node = transpose(input.node) if upper else input.node
    factor, info = ops.library("cholesky", node)
    return transpose(factor) if upper else factor, info


@in_full_precision
def cholesky(input: Tensor, upper: bool = False, *, out: Tensor | None = None) -> Tensor:
    """``torch.cholesky``: the triangular factor of positive definite matrices.

    Raises LinAlgError for matrices that are not positive definite.
    """
    require_tensor(input, "cholesky")
    return _cholesky(input, upper, out, "cholesky")


def _cholesky(input: Tensor, upper: bool, out: Tensor | None, function: str) -> Tensor:
    factor, info = _cholesky_parts(input, upper, function)
    require_success(info, function, _not_positive)
    return give_columns(factor, "LinalgCholeskyEx", (input,), out)


@in_full_precision
def linalg_cholesky(input: Tensor, *, upper: bool = False, out: Tensor | None = None) -> Tensor:
    """``L`` with ``input = L @ L.mT``, or ``U`` with ``input = U.mT @ U`` when ``upper``.

    Only the lower (upper) triangle is read. Raises LinAlgError for matrices that are not positive
    definite.
    """
    require_tensor(input, "linalg_cholesky")
    return _cholesky(input, upper, out, "linalg.cholesky")


@takes_outputs
@in_full_precision
def cholesky_ex(
    input: Tensor, *, upper: bool = False, check_errors: bool = False
) -> return_types.linalg_cholesky_ex:
    """``cholesky`` with ``info`` in the place of errors: the order of the first leading minor
    that is not positive, 0 for success. Raises LinAlgError only with ``check_errors``."""
    require_tensor(input, "cholesky_ex")
    factor, info = _cholesky_parts(input, upper, "linalg.cholesky")
    if check_errors:
        require_success(info, "linalg.cholesky_ex", _not_positive)
    return return_types.linalg_cholesky_ex(
        (give_columns(factor, "LinalgCholeskyEx", (input,)), give(as_info(info), "", ()))
    )


# ------------------------------------------------------------------- QR


def _qr_parts(A: Tensor, mode: str) -> tuple[Tensor, Tensor]:
    check_matrix(A, "linalg.qr")
    check_floating(A, "linalg.qr")
    check_kernel(A, "geqrf_cpu")
    q, r = ops.library("qr", A.node, mode="complete" if mode == "complete" else "reduced")
    if mode == "r":
        q = ops.reshape(ops.broadcast_to(ops.constant(0, q.dtype), (0,)), (0,))
        return give(q, "", ()), give_columns(r, "LinalgQr", (A,))
    return give_columns(q, "LinalgQr", (A,)), give_columns(r, "LinalgQr", (A,))


@takes_outputs
@in_full_precision
def linalg_qr(A: Tensor, mode: str = "reduced") -> return_types.linalg_qr:
    """``Q`` with orthonormal columns and upper triangular ``R`` with ``A = Q @ R``.

    ``mode``: ``reduced`` (Q has min(m, n) columns), ``complete`` (Q is square), or ``r`` (Q is
    empty). Raises LazytError for other modes.
    """
    require_tensor(A, "linalg_qr", "A")
    if mode not in ("reduced", "complete", "r"):
        raise LazytError(
            f"qr received unrecognized mode '{mode}' but expected one of 'reduced' (default), "
            "'r', or 'complete'"
        )
    return return_types.linalg_qr(_qr_parts(A, mode))


@takes_outputs
@in_full_precision
def qr(input: Tensor, some: bool = True) -> return_types.qr:
    """``torch.qr``: ``Q`` and ``R``, reduced when ``some`` and complete otherwise."""
    require_tensor(input, "qr")
    return return_types.qr(_qr_parts(input, "reduced" if some else "complete"))


@takes_outputs
@in_full_precision
def geqrf(input: Tensor) -> return_types.geqrf:
    """QR as LAPACK keeps it: ``R`` above the Householder vectors, and their factors ``tau``."""
    require_tensor(input, "geqrf")
    check_matrix(input, "torch.geqrf", "input")
    check_kernel(input, "geqrf_cpu")
    vectors, tau = ops.library("geqrf", input.node)
    return return_types.geqrf(
        (give_columns(vectors, "Geqrf", (input,)), give(tau, "Geqrf", (input,)))
    )


# ------------------------------------------------------------------- eigenvalues


def _many_eigenvalues(code: int) -> str:
    return _no_convergence("eigenvalues", code)


def many_singular_values(code: int) -> str:
    """Why singular values were not found, by the routine's ``info``."""
    if code < 0:
        return (
            "The algorithm failed to converge because the input matrix contained non-finite values."
        )
    return _no_convergence("singular values", code)


def _no_convergence(what: str, code: int) -> str:
    return (
        "The algorithm failed to converge because the input matrix is ill-conditioned or has too "
        f"many repeated {what} (error code: {abs(code)})."
    )


def _eigen_parts(input: Tensor, UPLO: str, suffix: str) -> list[Node]:
    check_square(input, "linalg.eigh")
    side = UPLO.upper()
    if side not in ("L", "U"):
        raise LazytError(f"Expected UPLO argument to be 'L' or 'U', but got {UPLO}")
    check_kernel(input, "linalg_eigh_cpu")
    parts = ops.library("eigh", input.node, mode=("lower" if side == "L" else "upper") + suffix)
    require_success(parts[-1], "linalg.eigh", _many_eigenvalues)
    return parts[:-1]


@takes_outputs
@in_full_precision
def eigh(input: Tensor, UPLO: str = "L") -> return_types.linalg_eigh:
    """Rising eigenvalues of symmetric matrices, and their orthonormal eigenvectors as columns.

    ``UPLO`` says which triangle is read. Where eigenvalues coincide, the gradient leaves out the
    terms that would divide by zero (PyTorch's are infinite or NaN). Raises LinAlgError without
    convergence.
    """
    require_tensor(input, "eigh")
    values, vectors = _eigen_parts(input, UPLO, "")
    return return_types.linalg_eigh(
        (give(values, "LinalgEigh", (input,)), give_columns(vectors, "LinalgEigh", (input,)))
    )


@in_full_precision
def eigvalsh(input: Tensor, UPLO: str = "L", *, out: Tensor | None = None) -> Tensor:
    """Rising eigenvalues of symmetric matrices. Raises LinAlgError without convergence."""
    require_tensor(input, "eigvalsh")
    return give(_eigen_parts(input, UPLO, "values")[0], "LinalgEigh", (input,), out)


# ------------------------------------------------------------------- singular values


def singular_parts(A: Tensor, mode: str, function: str = "linalg.svd") -> list[Node]:
    """The parts of the ``svd`` routine without its info; raises LinAlgError where it failed."""
    check_matrix(A, function)
    check_floating(A, function)
    check_kernel(A, "linalg_svd_cpu")
    parts = ops.library("svd", A.node, mode=mode)
    require_success(parts[-1], "linalg.svd", many_singular_values)
    return parts[:-1]


def _check_driver(driver: str | None) -> None:
    if driver is not None:
        raise LazytError(
            "torch.linalg.svd: keyword argument `driver=` is only supported on CUDA inputs with "
            "cuSOLVER backend."
        )


@takes_outputs
@in_full_precision
def linalg_svd(
    A: Tensor, full_matrices: bool = True, *, driver: str | None = None
) -> return_types.linalg_svd:
    """``U``, falling singular values ``S`` and ``Vh`` with ``A = U @ diag(S) @ Vh``.

    With ``full_matrices`` U and Vh are square; their extra vectors have no gradient. Raises
    LinAlgError for elements that are not finite, and LazytError for a ``driver``, which is for
    CUDA.
    """
    require_tensor(A, "linalg_svd", "A")
    _check_driver(driver)
    parts = singular_parts(A, "full" if full_matrices else "reduced")
    return return_types.linalg_svd(_svd_results(A, parts))


def _svd_results(A: Tensor, parts: Sequence[Node]) -> tuple[Tensor, Tensor, Tensor]:
    u, s, vh = parts
    return (
        give_columns(u, "LinalgSvd", (A,)),
        give(s, "LinalgSvd", (A,)),
        give_columns(vh, "LinalgSvd", (A,)),
    )


@in_full_precision
def svdvals(A: Tensor, *, driver: str | None = None, out: Tensor | None = None) -> Tensor:
    """Falling singular values. Raises as ``svd``."""
    require_tensor(A, "svdvals", "A")
    _check_driver(driver)
    return give(singular_parts(A, "values")[0], "LinalgSvd", (A,), out)


@takes_outputs
@in_full_precision
def svd(input: Tensor, some: bool = True, compute_uv: bool = True) -> return_types.svd:
    """``torch.svd``: ``U``, ``S`` and ``V`` (not transposed); reduced when ``some``.

    Without ``compute_uv`` U and V are zeros. Raises as ``linalg.svd``.
    """
    require_tensor(input, "svd")
    if len(input.shape) < 2:
        raise ShapeError(
            f"linalg.svd: input should have at least 2 dimensions, but has {len(input.shape)} "
            "dimensions instead"
        )
    if not compute_uv:
        values = singular_parts(input, "values")[0]
        lead, (m, n) = tuple(input.shape[:-2]), input.shape[-2:]
        zero = ops.constant(0, input.dtype)
        u, v = (give(ops.broadcast_to(zero, (*lead, k, k)), "", ()) for k in (m, n))
        return return_types.svd((u, give(values, "LinalgSvd", (input,)), v))
    u_node, s_node, vh = singular_parts(input, "reduced" if some else "full")
    left, singular, right = _svd_results(input, (u_node, s_node, vh))
    turned: Tensor = right.mT
    return return_types.svd((left, singular, turned))
