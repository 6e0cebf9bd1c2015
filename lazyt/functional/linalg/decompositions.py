"""Factorizations of matrices: Cholesky, LU, QR, eigenvalues and singular values.

All take matrices in the last two dimensions, batched over the others, in float32 or float64; other
dtypes raise DTypeError and other shapes ShapeError, in PyTorch's words. They are library calls
(``lazyt/ops/routines.py``).
"""

from __future__ import annotations

from collections.abc import Sequence

from lazyt import ops
from lazyt.errors import LazytError, ShapeError
from lazyt.functional import return_types
from lazyt.functional.linalg.matrix_checks import (
    as_info,
    check_floating,
    check_kernel,
    check_matrix,
    check_same_dtype,
    check_square,
    give_columns,
    require_success,
)
from lazyt.functional.linalg.solvers import substituted
from lazyt.functional.operands import require_tensor
from lazyt.functional.results import give, takes_outputs
from lazyt.handle.autocast import in_full_precision
from lazyt.handle.function_table import function
from lazyt.handle.tensor import Tensor
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

__all__ = [
    "cholesky",
    "geqrf",
    "orgqr",
    "ormqr",
    "qr",
    "svd",
]


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


@function(method=True)
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


@function()
@in_full_precision
def linalg_cholesky(input: Tensor, *, upper: bool = False, out: Tensor | None = None) -> Tensor:
    """``L`` with ``input = L @ L.mT``, or ``U`` with ``input = U.mT @ U`` when ``upper``.

    Only the lower (upper) triangle is read. Raises LinAlgError for matrices that are not positive
    definite.
    """
    require_tensor(input, "linalg_cholesky")
    return _cholesky(input, upper, out, "linalg.cholesky")


@function()
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


@function()
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


@function(method=True)
@takes_outputs
@in_full_precision
def qr(input: Tensor, some: bool = True) -> return_types.qr:
    """``torch.qr``: ``Q`` and ``R``, reduced when ``some`` and complete otherwise."""
    require_tensor(input, "qr")
    return return_types.qr(_qr_parts(input, "reduced" if some else "complete"))


@function(method=True)
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


@function()
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


@function()
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


@function()
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


@function()
@in_full_precision
def svdvals(A: Tensor, *, driver: str | None = None, out: Tensor | None = None) -> Tensor:
    """Falling singular values. Raises as ``svd``."""
    require_tensor(A, "svdvals", "A")
    _check_driver(driver)
    return give(singular_parts(A, "values")[0], "LinalgSvd", (A,), out)


@function(method=True)
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


# Products of Householder reflectors, as ``geqrf`` leaves them.
#
# The reflectors ``1 - tau v v^T`` of k vectors are multiplied as ``1 - V T V^T`` with one
# triangular ``T`` (Schreiber, Van Loan, "A storage-efficient WY representation for products of
# Householder transformations", 1989), which is a triangular equation: ``(1 + D S) T = D`` with D
# the diagonal of tau and S what ``V^T V`` has above its diagonal.


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


@function()
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


@function(method=True)
@in_full_precision
def orgqr(input: Tensor, input2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """``linalg.householder_product``."""
    require_tensor(input, "orgqr")
    return householder_product(input, input2, out=out)


@function(method=True)
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
