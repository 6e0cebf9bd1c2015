"""Pseudoinverses, ranks and least squares: what is found by singular values and a tolerance.

All take matrices in the last two dimensions, batched over the others, in float32 or float64; other
dtypes raise DTypeError and other shapes ShapeError, in PyTorch's words.
"""

from __future__ import annotations

from typing import Any

from lazyt import ops
from lazyt.errors import ArgumentError, DTypeError, LazytError, ShapeError
from lazyt.functional import return_types
from lazyt.functional.linalg.decompositions import eigvalsh, many_singular_values, qr, svd, svdvals
from lazyt.functional.linalg.matrix_checks import (
    check_matrix,
    require_square,
    require_success,
    share_batch,
)
from lazyt.functional.linalg.products import matmul
from lazyt.functional.linalg.solvers import vector_on_right
from lazyt.functional.operands import require_tensor
from lazyt.functional.random.random import randn
from lazyt.functional.reductions.reductions import mean
from lazyt.functional.results import give, known_values, takes_outputs
from lazyt.functional.type_promotion import torch_name
from lazyt.handle.autocast import in_full_precision
from lazyt.handle.dispatch import type_title
from lazyt.handle.function_table import function
from lazyt.handle.tensor import Tensor
from lazyt.ir.dtypes import float32, float64, int64
from lazyt.ir.graph import Node

__all__ = [
    "matrix_rank",
    "pca_lowrank",
    "pinverse",
    "svd_lowrank",
]

_EPSILONS = {float32: 2.0**-23, float64: 2.0**-52}


def _tolerances(A: Tensor, atol: Any, rtol: Any) -> tuple[Node, Node]:
    """Absolute and relative tolerance as matrices of one element for each of ``A``.

    The relative one is ``eps * max(m, n)`` by default, or 0 where an absolute one is given.
    """
    default = _EPSILONS[A.dtype] * max(A.shape[-2:])
    absolute = _tolerance(A, 0.0 if atol is None else atol)
    if rtol is not None:
        return absolute, _tolerance(A, rtol)
    if atol is None:
        return absolute, _tolerance(A, default)
    given = ops.apply("gt", absolute, ops.constant(0, A.dtype))
    zero, usual = ops.constant(0, A.dtype), ops.constant(default, A.dtype)
    return absolute, ops.apply("where", given, zero, usual)


def _tolerance(A: Tensor, value: Any) -> Node:
    shape = tuple(A.shape[:-2])
    if isinstance(value, Tensor):
        node = ops.detach(ops.cast(value.node, A.dtype))
    else:
        node = ops.constant(float(value), A.dtype)
    return ops.reshape(ops.broadcast_to(node, shape), (*shape, 1, 1))


@function()
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
    if input.dtype.kind != "f" or input.dtype.is_half or len(input.shape) < 2:
        raise DTypeError(
            f"linalg.pinv({type_title(input.dtype)}{{{list(input.shape)}}}): expected a "
            "tensor with 2 or more dimensions of float, double, cfloat or cdouble types"
        )
    if hermitian:
        require_square(input, "linalg.eigh: A")
    absolute, relative = _tolerances(input, atol, rcond if rtol is None else rtol)
    mode = "hermitian" if hermitian else "plain"
    inverse, info = ops.library("pinv", input.node, absolute, relative, mode=mode)
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
    if input.dtype not in _EPSILONS:
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
    ``gels``), and the singular values (for ``gelsd`` and ``gelss``). All drivers compute by
    singular values here. Singular values up to ``rcond * largest`` count as 0. Raises LazytError
    for other drivers and LinAlgError for ``gels`` without full rank.
    """
    require_tensor(input, "lstsq")
    check_matrix(input, "torch.linalg.lstsq", "input")
    if input.dtype not in _EPSILONS:
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
    tolerance = _EPSILONS[input.dtype] * max(m, n) if rcond is None else rcond
    limits = ops.broadcast_to(ops.constant(tolerance, input.dtype), (*a.shape[:-2], 1, 1))
    x, rank, values = ops.library("lstsq", a, right_side, limits)
    own = tuple(input.shape[:-2])  # what is about the matrix alone has its batch
    rank, values = _of_batch(rank, own, 0), _of_batch(values, own, 1)
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
    nothing = give(ops.broadcast_to(ops.constant(0, a.dtype), (0,)), "", ())
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
        residuals = (gaps * gaps).sum(-2)
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
