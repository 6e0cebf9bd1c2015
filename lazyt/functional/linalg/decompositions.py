"""Factorizations of matrices: Cholesky, LU, QR, eigenvalues and singular values.

All take matrices in the last two dimensions, batched over the others, in float32 or float64; other
dtypes raise DTypeError and other shapes ShapeError, in PyTorch's words. They are library calls
(``lazyt/ops/routines.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lazyt import ops
from lazyt.errors import ArgumentError, DTypeError, LazytError, ShapeError
from lazyt.functional import return_types
from lazyt.functional.linalg.matrices import (
    as_info,
    check_floating,
    check_kernel,
    check_matrix,
    check_same_dtype,
    check_square,
    give_columns,
    is_computable,
    require_square,
    require_success,
    routine,
    share_batch,
)
from lazyt.functional.linalg.products import matmul
from lazyt.functional.linalg.solvers import substituted, vector_on_right
from lazyt.functional.operands import require_tensor
from lazyt.functional.random.random import randn
from lazyt.functional.reductions.reductions import mean
from lazyt.functional.results import SAME_DTYPE, give, known_values, takes_outputs
from lazyt.functional.type_promotion import torch_name
from lazyt.handle.autocast import in_full_precision
from lazyt.handle.dispatch import type_title
from lazyt.handle.function_table import function
from lazyt.handle.tensor import Tensor
from lazyt.ir.dtypes import float32, float64, int64
from lazyt.ir.graph import Node
from lazyt.ops.matrix_algebra import (
    adjoint,
    beside,
    column,
    columns,
    identity,
    lower,
    matrix_of,
    minus,
    plus,
    product,
    times,
    upper,
)

__all__ = [
    "cholesky", "geqrf", "matrix_rank", "orgqr", "ormqr", "pca_lowrank", "pinverse", "qr", "svd",
    "svd_lowrank",
]  # fmt: skip


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
    node = adjoint(input.node) if upper else input.node
    factor, info = routine("cholesky", node)
    return adjoint(factor) if upper else factor, info


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


@function(grad_name="LinalgCholeskyEx", out_dtype=SAME_DTYPE)
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
    q, r = routine("qr", A.node, mode="complete" if mode == "complete" else "reduced")
    if mode == "r":
        q = ops.reshape(ops.broadcast_to(ops.constant(0, q.dtype), (0,)), (0,))
        return give(q, "", ()), give_columns(r, "LinalgQr", (A,))
    return give_columns(q, "LinalgQr", (A,)), give_columns(r, "LinalgQr", (A,))


@function(saves="q", out_dtype=SAME_DTYPE)
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
    vectors, tau = routine("geqrf", input.node)
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
    if input.node.needs_grad:
        suffix = ""  # of which the gradient is made
    parts = routine("eigh", input.node, mode=("lower" if side == "L" else "upper") + suffix)
    require_success(parts[-1], "linalg.eigh", _many_eigenvalues)
    return parts[:-1]


@function(grad_name="LinalgEigh", saves="q", out_dtype=SAME_DTYPE)
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


def _general_parts(input: Tensor, mode: str, function: str) -> list[Node]:
    check_square(input, function)
    check_floating(input, function, low=False)
    if is_computable(input.node) and not np.isfinite(known_values(input.node)).all():
        raise LazytError(f"torch.{function}: input tensor should not contain infs or NaNs.")
    parts = routine("eig", ops.cast(input.node, input.dtype.to_complex()), mode=mode)
    require_success(parts[-1], f"{function}", _many_eigenvalues)
    return parts[:-1]


@function(grad_name="LinalgEig", saves="q", out_dtype=SAME_DTYPE)
@takes_outputs
@in_full_precision
def eig(input: Tensor) -> return_types.linalg_eig:
    """Complex eigenvalues of square matrices, and their eigenvectors, of length one, as columns.

    In no order. The gradient leaves out terms that would divide by zero where eigenvalues coincide.
    Raises LazytError for elements that are not finite, LinAlgError without convergence.
    """
    require_tensor(input, "eig")
    values, vectors = _general_parts(input, "plain", "linalg.eig")
    return return_types.linalg_eig(
        (give(values, "LinalgEig", (input,)), give_columns(vectors, "LinalgEig", (input,)))
    )


@function()
@in_full_precision
def eigvals(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Complex eigenvalues of square matrices, in no order. Raises as ``eig``."""
    require_tensor(input, "eigvals")
    return give(_general_parts(input, "alone", "linalg.eigvals")[0], "LinalgEig", (input,), out)


# ------------------------------------------------------------------- singular values


def singular_parts(A: Tensor, mode: str, function: str = "linalg.svd") -> list[Node]:
    """The parts of the ``svd`` routine without its info; raises LinAlgError where it failed."""
    check_matrix(A, function)
    check_floating(A, function)
    check_kernel(A, "linalg_svd_cpu")
    alone = mode == "values" and A.node.needs_grad
    if alone:
        mode = "reduced"  # of which the gradient is made
    parts = routine("svd", A.node, mode=mode)
    require_success(parts[-1], "linalg.svd", many_singular_values)
    if alone:
        return parts[1:2]
    return parts[:-1]


def _check_driver(driver: str | None) -> None:
    if driver is not None:
        raise LazytError(
            "torch.linalg.svd: keyword argument `driver=` is only supported on CUDA inputs with "
            "cuSOLVER backend."
        )


@function(saves="q", out_dtype=SAME_DTYPE)
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
    turned: Tensor = right.mH
    return return_types.svd((left, singular, turned))


# Products of Householder reflectors, as ``geqrf`` leaves them.
#
# The reflectors ``1 - tau v v^H`` of k vectors are multiplied as ``1 - V T V^H`` with one
# triangular ``T`` (Schreiber, Van Loan, "A storage-efficient WY representation for products of
# Householder transformations", 1989), which is a triangular equation: ``(1 + D S) T = D`` with D
# the diagonal of tau and S what ``V^H V`` has above its diagonal.


def _vectors_and_factor(packed: Node, tau: Node) -> tuple[Node, Node]:
    """``V`` and ``T``."""
    k = tau.shape[-1]
    left = columns(packed, 0, k)
    vectors = plus(lower(left, -1), identity(left))
    overlaps = upper(product(adjoint(vectors), vectors), 1)
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
    turned = columns(adjoint(vectors), 0, n)
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
    if transpose:
        factor = adjoint(factor)
    turned = adjoint(vectors)
    node = input3.node
    if left:
        moved = product(vectors, product(factor, product(turned, node)))
    else:
        moved = product(product(product(node, vectors), factor), turned)
    return give_columns(minus(node, moved), "Ormqr", (input, input2, input3), out)


# Pseudoinverses, ranks and least squares: what is found by singular values and a tolerance.
#
# All take matrices in the last two dimensions, batched over the others, in float32 or float64;
# other dtypes raise DTypeError and other shapes ShapeError, in PyTorch's words.


_EPSILONS = {float32: 2.0**-23, float64: 2.0**-52}


def _tolerances(A: Tensor, atol: Any, rtol: Any) -> tuple[Node, Node]:
    """Absolute and relative tolerance as matrices of one element for each of ``A``.

    The relative one is ``eps * max(m, n)`` by default, or 0 where an absolute one is given.
    """
    default = _EPSILONS[A.dtype.part] * max(A.shape[-2:])
    absolute = _tolerance(A, 0.0 if atol is None else atol)
    if rtol is not None:
        return absolute, _tolerance(A, rtol)
    if atol is None:
        return absolute, _tolerance(A, default)
    zero, usual = ops.constant(0, absolute.dtype), ops.constant(default, absolute.dtype)
    given = ops.apply("gt", absolute, zero)
    return absolute, ops.apply("where", given, zero, usual)


def _tolerance(A: Tensor, value: Any) -> Node:
    shape = tuple(A.shape[:-2])
    if isinstance(value, Tensor):
        node = ops.detach(ops.cast(value.node, A.dtype.part))
    else:
        node = ops.constant(float(value), A.dtype.part)
    return ops.reshape(ops.broadcast_to(node, shape), (*shape, 1, 1))


@function(
    grad_name="LinalgPinv",
    out_category=(
        "linalg.pinv: Expected result to be safely castable from {Want} dtype, but got result with "
        "dtype {Got}"
    ),
)
def pinv(
    input: Tensor, rcond: Any = None, hermitian: bool = False, *, atol: Any = None,
    rtol: Any = None, out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The Moore-Penrose inverse: singular values up to ``max(atol, rtol * largest)`` count as 0.

    ``hermitian`` matrices are taken apart by eigenvalues. ``rcond`` is an older name of ``rtol``.
    The gradient is that for constant rank. Raises LinAlgError where singular values cannot be
    computed.
    """
    require_tensor(input, "pinv")
    if input.dtype.kind not in "fc" or input.dtype.is_half or len(input.shape) < 2:
        raise DTypeError(
            f"linalg.pinv({type_title(input.dtype)}{{{list(input.shape)}}}): expected a "
            "tensor with 2 or more dimensions of float, double, cfloat or cdouble types"
        )
    if hermitian:
        require_square(input, "linalg.eigh: A")
    absolute, relative = _tolerances(input, atol, rcond if rtol is None else rtol)
    mode = "hermitian" if hermitian else "plain"
    limits = ops.broadcast_to(beside(absolute, relative), (*input.shape[:-1], 2))
    inverse, info = routine("pinv", input.node, limits, mode=mode)
    require_success(info, "linalg.svd", many_singular_values)
    return give(inverse, "LinalgPinv", (input,), out)


@function(method=True)
@in_full_precision
def pinverse(input: Tensor, rcond: float = 1e-15) -> Tensor:
    """``linalg.pinv`` with ``rtol=rcond``."""
    require_tensor(input, "pinverse")
    return pinv(input, rtol=rcond)


@function()
@in_full_precision
def linalg_matrix_rank(
    input: Tensor, tol: Any = None, hermitian: bool = False, *, atol: Any = None, rtol: Any = None,
    out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """How many singular values (sizes of eigenvalues if ``hermitian``) exceed the tolerance.

    ``max(atol, rtol * largest)``, by default ``eps * max(m, n) * largest``. ``tol`` is an older
    name of ``atol`` that leaves no relative part. int64.
    """
    require_tensor(input, "linalg_matrix_rank")
    check_matrix(input, "torch.linalg.matrix_rank", "input")
    if input.dtype.part not in _EPSILONS:
        raise DTypeError("This function doesn't handle types other than float and double")
    if tol is not None:
        atol, rtol = tol, 0.0
    absolute, relative = _tolerances(input, atol, rtol)
    sizes = eigvalsh(input).abs() if hermitian else svdvals(input)
    node = ops.detach(sizes.node)
    lead = node.shape[:-1]
    if not node.shape[-1]:
        return give(ops.broadcast_to(ops.constant(0, int64), lead), "", (), out)
    largest = ops.reshape(ops.reduce_("max", node, (len(lead),)), (*lead, 1))
    flat = (*lead, 1)
    scaled = ops.apply("mul", ops.reshape(relative, flat), largest)
    limit = ops.apply("maximum", ops.reshape(absolute, flat), scaled)
    counted = ops.cast(ops.apply("gt", node, limit), int64)
    return give(ops.reduce_("sum", counted, (len(lead),)), "", (), out)


@function()
def matrix_rank(input: Tensor, tol: Any = None, symmetric: bool = False) -> Tensor:
    """``linalg.matrix_rank``."""
    return linalg_matrix_rank(input, tol, symmetric)


# ------------------------------------------------------------------- least squares

_DRIVERS = ("gels", "gelsy", "gelsd", "gelss")


@function()
@takes_outputs
@in_full_precision
def lstsq(
    input: Tensor, b: Tensor, rcond: float | None = None, *, driver: str | None = None
) -> return_types.linalg_lstsq:
    """``X`` that makes ``input @ X - B`` smallest, of smallest norm where several do.

    Returns the solution, the summed squares of residuals (for more equations than unknowns and
    full rank, unless ``driver`` is ``gelsy``, the default; otherwise empty), the rank (empty for
    ``gels``), and the singular values (for ``gelsd`` and ``gelss``). These two compute by
    singular values, of which those up to ``rcond * largest`` count as 0; the others by reflections
    with exchanges of columns, until what is left of each is as small beside the largest column.
    Raises LazytError for other drivers and LinAlgError for ``gels`` without full rank.
    """
    require_tensor(input, "lstsq")
    check_matrix(input, "torch.linalg.lstsq", "input")
    if input.dtype.part not in _EPSILONS:
        raise DTypeError("This function doesn't handle types other than float and double")
    if input.dtype is not b.dtype:
        raise DTypeError(
            "torch.linalg.lstsq: Expected input and other to have the same dtype, but got input's "
            f"dtype {torch_name(input.dtype)} and other's dtype {torch_name(b.dtype)}"
        )
    chosen = "gelsy" if driver is None else driver
    if chosen not in _DRIVERS:
        raise LazytError(
            "torch.linalg.lstsq: parameter `driver` should be one of (gels, gelsy, gelsd, gelss)"
        )
    vector = vector_on_right(input, b)
    right = b.unsqueeze(-1) if vector else b
    if input.shape[-2] != right.shape[-2]:
        raise ShapeError(
            f"torch.linalg.lstsq: input.size(-2) should match other.size(-{1 if vector else 2})"
        )
    a, right_side = share_batch(input.node, right.node)
    m, n = a.shape[-2:]
    tolerance = _EPSILONS[input.dtype.part] * max(m, n) if rcond is None else rcond
    limit, own = ops.constant(tolerance, input.dtype.part), tuple(input.shape[:-2])
    if chosen in ("gels", "gelsy"):
        limits = ops.cast(ops.broadcast_to(limit, (*a.shape[:-1], 1)), input.dtype)
        x, rank = routine("gelsy", a, beside(right_side, limits))
        values = rank
    else:
        limits = ops.broadcast_to(limit, (*a.shape[:-2], 1, 1))
        x, rank, values = routine("lstsq", a, right_side, limits)
        values = _of_batch(values, own, 1)
    rank = _of_batch(rank, own, 0)  # what is about the matrix alone has its batch
    solution = give(ops.reshape(x, x.shape[:-1]) if vector else x, "LinalgLstsq", (input, b))
    return return_types.linalg_lstsq(
        (solution, *_facts(a, right_side, solution, (rank, values), chosen, vector))
    )


def _of_batch(node: Node, batch: tuple[int, ...], tail: int) -> Node:
    """What belongs to matrices of ``batch``, given for the batch that these were repeated to.

    Args:
        tail: number of dimensions after those of the batch.
    """
    rank = len(node.shape) - tail
    inner = node.shape[rank:]
    sizes = (*(1,) * (rank - len(batch)), *batch, *inner)
    if sizes != node.shape:
        node = ops.slice_(node, (0,) * len(sizes), sizes, (1,) * len(sizes))
    return ops.reshape(node, (*batch, *inner))


def _facts(
    a: Node, b: Node, solution: Tensor, found: tuple[Node, Node], driver: str, vector: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Residuals, rank and singular values, or empty tensors in their place."""
    m, n = a.shape[-2:]
    rank, values = (ops.detach(node) for node in found)
    nothing = give(ops.broadcast_to(ops.constant(0, a.dtype.part), (0,)), "", ())
    no_rank = give(ops.broadcast_to(ops.constant(0, int64), (0,)), "", ())
    full = driver == "gelsy" or bool((known_values(rank) == min(m, n)).all())
    if driver == "gels" and not full:
        raise LazytError(
            "torch.linalg.lstsq: The least squares solution could not be computed because the "
            "input matrix does not have full rank"
        )
    residuals = nothing
    if m > n and driver != "gelsy" and full:
        equations = give(a, "", ()) @ (solution.unsqueeze(-1) if vector else solution)
        gaps = equations - give(b, "", ())
        residuals = (
            (gaps * gaps.conj()).real.sum(-2) if gaps.is_complex() else (gaps * gaps).sum(-2)
        )
    ranks = no_rank if driver == "gels" else give(ops.cast(rank, int64), "", ())
    singular = give(values, "", ()) if driver in ("gelsd", "gelss") else nothing
    return residuals, ranks, singular


# The largest singular values of a matrix, from a few random directions.


Factors = tuple[Tensor, Tensor, Tensor]


def _basis(A: Tensor, q: int, niter: int) -> Tensor:
    """``q`` orthonormal columns that nearly span what ``A`` maps to (Halko et al. 2011, 4.4)."""
    drawn = randn(A.shape[-1], q, dtype=A.dtype)
    found: Tensor = qr(matmul(A, drawn))[0]
    for _ in range(niter):  # each turn damps the small singular values once more
        found = qr(matmul(A.mH, found))[0]
        found = qr(matmul(A, found))[0]
    return found


def _factors(A: Tensor, q: int, niter: int) -> Factors:
    wide = A.shape[-2] < A.shape[-1]
    tall = A.mH if wide else A
    basis = _basis(tall, q, niter)
    inner, values, right = svd(matmul(basis.mH, tall))
    left = matmul(basis, inner)
    return (right, values, left) if wide else (left, values, right)


def _check_matrix(A: Tensor, function: str) -> None:
    if require_tensor(A, function, "A").ndim < 2:
        raise ArgumentError(f"{function}: A must have two dimensions or more, but it has {A.ndim}")


@function(fractions=("q",))
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


@function(fractions=("q",))
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
