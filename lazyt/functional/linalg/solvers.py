"""Linear equations, inverses and determinants.

All take matrices in the last two dimensions, batched over the others, in float32 or float64; other
dtypes raise DTypeError and other shapes ShapeError, in PyTorch's words. They are library calls
(``lazyt/ops/routines.py``).
"""

from __future__ import annotations

from math import prod
from typing import Any

from lazyt import ops
from lazyt.errors import LazytError, ShapeError
from lazyt.functional import return_types
from lazyt.functional.linalg.matrices import (
    as_info,
    check_equation,
    check_floating,
    check_kernel,
    check_same_dtype,
    check_square,
    give_columns,
    require_square,
    require_success,
    routine,
    share_batch,
)
from lazyt.functional.operands import require_tensor
from lazyt.functional.result_layout import row_major
from lazyt.functional.results import SAME_DTYPE, give, takes_outputs
from lazyt.handle.autocast import in_full_precision
from lazyt.handle.function_table import function
from lazyt.handle.tensor import Tensor
from lazyt.ir.dtypes import DType, int32
from lazyt.ir.graph import Node
from lazyt.ops.matrix_algebra import (
    adjoint,
    column,
    columns,
    identity,
    lower,
    plus,
    product,
    rows,
    transpose,
)
from lazyt.ops.matrix_algebra import transpose as turned
from lazyt.ops.matrix_algebra import upper as upper_triangle

__all__ = [
    "cholesky_inverse", "cholesky_solve", "det", "inverse", "logdet", "lu", "lu_solve", "lu_unpack",
    "slogdet", "triangular_solve",
]  # fmt: skip

# ------------------------------------------------------------------- inverse


def _no_inverse(code: int) -> str:
    return (
        f"The diagonal element {code} is zero, the inversion could not be completed because the "
        "input matrix is singular."
    )


def _inverse_parts(A: Tensor) -> list[Node]:
    check_square(A, "linalg.inv")
    check_floating(A, "linalg.inv", low=False)
    return routine("inv", A.node)


@function()
@in_full_precision
def inv(A: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The inverse of square matrices. Raises LinAlgError for singular ones."""
    require_tensor(A, "inv", "A")
    inverted, info = _inverse_parts(A)
    require_success(info, "linalg.inv", _no_inverse)
    return give_columns(inverted, "LinalgInvEx", (A,), out)


@function(method=True)
@in_full_precision
def inverse(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """``linalg.inv``. Raises LinAlgError for singular matrices."""
    require_tensor(input, "inverse")
    return inv(input, out=out)


@function(grad_name="LinalgInvEx", saves="r", out_dtype=SAME_DTYPE)
@takes_outputs
@in_full_precision
def inv_ex(A: Tensor, *, check_errors: bool = False) -> return_types.linalg_inv_ex:
    """The inverse, and the number of the first zero on the diagonal of U, 0 for success.

    Stays lazy; where there is no inverse its elements are NaN. Raises LinAlgError only with
    ``check_errors``.
    """
    require_tensor(A, "inv_ex", "A")
    inverted, info = _inverse_parts(A)
    if check_errors:
        require_success(info, "linalg.inv_ex", _no_inverse)
    return return_types.linalg_inv_ex(
        (give_columns(inverted, "LinalgInvEx", (A,)), give(as_info(info), "", ()))
    )


# ------------------------------------------------------------------- determinants


@function(method=True)
def det(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """``linalg.det``: the determinants of square matrices; 1 for empty ones."""
    require_tensor(input, "det")
    check_square(input, "linalg.det")
    check_floating(input, "linalg.det")
    check_kernel(input, "lu_cpu")
    return give(routine("det", input.node)[0], "LinalgDet", (input,), out)


@function(saves="ar", out_dtype=SAME_DTYPE)
def linalg_det(A: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The determinants of square matrices; 1 for empty ones."""
    require_tensor(A, "linalg_det", "A")
    return det(A, out=out)


def _signs_and_logs(input: Tensor, function: str) -> tuple[Tensor, Tensor]:
    check_square(input, function)
    check_floating(input, function, low=False)
    sign, size = routine("slogdet", input.node)
    return give(sign, "LinalgSlogdet", (input,)), give(size, "LinalgSlogdet", (input,))


@function(method=True)
@takes_outputs
def slogdet(input: Tensor) -> return_types.slogdet:
    """The sign of determinants and the logarithm of their size; 0 and -inf for singular ones."""
    require_tensor(input, "slogdet")
    return return_types.slogdet(_signs_and_logs(input, "linalg.slogdet"))


@function(out_dtype=SAME_DTYPE)
@takes_outputs
def linalg_slogdet(A: Tensor) -> return_types.linalg_slogdet:
    """The sign of determinants and the logarithm of their size; 0 and -inf for singular ones."""
    require_tensor(A, "linalg_slogdet", "A")
    return return_types.linalg_slogdet(_signs_and_logs(A, "linalg.slogdet"))


@function(method=True)
def logdet(input: Tensor) -> Tensor:
    """The logarithm of determinants: NaN for negative ones, -inf for 0."""
    require_tensor(input, "logdet")
    sign, size = _signs_and_logs(input, "logdet")
    kept = sign if sign.is_complex() else sign.detach()
    result: Tensor = kept.log() + size
    return result


# ------------------------------------------------------------------- general equations


def vector_on_right(A: Tensor, B: Tensor) -> bool:
    """Whether ``B`` is a batch of vectors for ``A`` (PyTorch's rule)."""
    if len(B.shape) == 1:
        return True
    return len(A.shape) - 1 == len(B.shape) and tuple(B.shape) == tuple(A.shape[:-1])


def _solved(x: Node, A: Tensor, B: Tensor, left: bool, out: Tensor | None = None) -> Tensor:
    matrices = left and not vector_on_right(A, B)
    return (give_columns if matrices else give)(x, "LinalgSolveEx", (A, B), out)


def _is_singular(code: int) -> str:
    return "The solver failed because the input matrix is singular."


def _solution(A: Tensor, B: Tensor, left: bool) -> tuple[Node, Node]:
    check_floating(A, "linalg.solve")
    check_same_dtype(A, B, "linalg.solve")
    vector = vector_on_right(A, B)
    if vector and not left:
        raise ShapeError(
            "linalg.solve: Vector broadcasting of the left hand side is not supported for "
            "left=False. In this case linalg.solve is equivalent to B / A.squeeze(-1)"
        )
    right = B.unsqueeze(-1) if vector else B
    check_equation(A, right, "linalg.solve", left)
    check_kernel(A, "lu_cpu")
    a, b = share_batch(A.node, right.node)
    if left:
        x, info = routine("solve", a, b)
    else:
        x, info = routine("solve", transpose(a), transpose(b))
        x = transpose(x)
    return (ops.reshape(x, x.shape[:-1]) if vector else x), info


@function()
@in_full_precision
def solve(A: Tensor, B: Tensor, *, left: bool = True, out: Tensor | None = None) -> Tensor:
    """``X`` with ``A @ X = B``, or ``X @ A = B`` unless ``left``; batches broadcast.

    ``B`` holds matrices, or vectors: one, or as many as ``A`` has matrices. Raises LinAlgError for
    singular ``A``.
    """
    require_tensor(A, "solve", "A")
    x, info = _solution(A, B, left)
    require_success(info, "torch.linalg.solve", _is_singular)
    return _solved(x, A, B, left, out)


@function(grad_name="LinalgSolveEx", saves="ar", out_dtype=SAME_DTYPE)
@takes_outputs
@in_full_precision
def solve_ex(
    A: Tensor, B: Tensor, *, left: bool = True, check_errors: bool = False
) -> return_types.linalg_solve_ex:
    """``solve`` with ``info`` in the place of errors, 0 for success; stays lazy.

    Raises LinAlgError only with ``check_errors``.
    """
    require_tensor(A, "solve_ex", "A")
    x, info = _solution(A, B, left)
    if check_errors:
        require_success(info, "torch.linalg.solve_ex", _is_singular)
    return return_types.linalg_solve_ex((_solved(x, A, B, left), give(as_info(info), "", ())))


# ------------------------------------------------------------------- triangular equations


def substituted(a: Node, b: Node, upper: bool, unit: bool, left: bool = True) -> Node:
    """``x`` with ``a @ x = b`` (``x @ a = b`` unless ``left``) for triangular ``a``."""
    if not left:
        return transpose(substituted(transpose(a), transpose(b), not upper, unit))
    mode = ("upper" if upper else "lower") + ("unit" if unit else "")
    return routine("triangular", a, b, mode=mode)[0]


@function(
    grad_name="LinalgSolveTriangular", out_dtype="expected scalar type {Want} but found {Got}"
)
def solve_triangular(
    input: Tensor, B: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False,
    out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """``X`` with ``input @ X = B``, or ``X @ input = B`` unless ``left``, for triangular ``input``.

    The other triangle is not read, nor the diagonal when ``unitriangular``. A zero on the diagonal
    gives infinities and NaN.
    """
    check_equation(input, B, "linalg.solve_triangular", left)
    check_same_dtype(input, B, "linalg.solve_triangular")
    check_kernel(input, "triangular_solve_cpu")
    a, b = share_batch(input.node, B.node)
    x = substituted(a, b, upper, unitriangular, left)
    return give_columns(x, "LinalgSolveTriangular", (input, B), out)


@function(method=True)
@takes_outputs
@in_full_precision
def triangular_solve(
    input: Tensor,
    A: Tensor,
    upper: bool = True,
    transpose: bool = False,
    unitriangular: bool = False,
) -> return_types.triangular_solve:
    """``torch.triangular_solve``: ``X`` with ``A @ X = input`` for triangular ``A``, and that.

    ``transpose`` solves ``A.mT @ X = input``.
    """
    require_tensor(input, "triangular_solve")
    for name, item in (("b", input), ("A", A)):
        if len(item.shape) < 2:
            raise ShapeError(
                f"torch.triangular_solve: Expected {name} to have at least 2 dimensions, but it "
                f"has {len(item.shape)} dimensions instead"
            )
    check_equation(A, input, "triangular_solve")
    check_kernel(A, "triangular_solve_cpu")
    check_same_dtype(A, input, "triangular_solve")
    a, right = share_batch(A.node, input.node)
    if transpose:
        rank = len(a.shape)
        turned = ops.permute(a, (*range(rank - 2), rank - 1, rank - 2))
        x = substituted(turned, right, not upper, unitriangular)
    else:
        x = substituted(a, right, upper, unitriangular)
    return return_types.triangular_solve(
        (give_columns(x, "TriangularSolve", (input, A)), give_columns(a, "TriangularSolve", (A,)))
    )


@function(method=True)
@in_full_precision
def cholesky_solve(
    input: Tensor, input2: Tensor, upper: bool = False, *, out: Tensor | None = None
) -> Tensor:
    """``X`` with ``A @ X = input``, from the Cholesky factor of ``A``."""
    require_tensor(input, "cholesky_solve")
    for name, item in (("b", input), ("u", input2)):
        if len(item.shape) < 2:
            raise ShapeError(
                f"{name} should have at least 2 dimensions, but has {len(item.shape)} "
                "dimensions instead"
            )
    require_square(input2, "A")
    if input2.shape[-2] != input.shape[-2]:
        raise ShapeError(
            f"Incompatible matrix sizes for cholesky_solve: each A matrix is {input2.shape[-1]} by "
            f"{input2.shape[-1]} but each b matrix is {input.shape[-2]} by {input.shape[-1]}"
        )
    check_same_dtype(input2, input, "cholesky_solve")
    check_kernel(input, "cholesky_solve_cpu")
    factor, right = share_batch(input2.node, input.node)
    lower = adjoint(factor) if upper else factor
    half = substituted(lower, right, False, False)
    x = substituted(adjoint(lower), half, True, False)
    return give_columns(x, "CholeskySolve", (input, input2), out)


@function(method=True, saves="ar")
@in_full_precision
def cholesky_inverse(input: Tensor, upper: bool = False, *, out: Tensor | None = None) -> Tensor:
    """The inverse of ``A`` from its Cholesky factor."""
    require_tensor(input, "cholesky_inverse")
    check_square(input, "cholesky_inverse")
    check_kernel(input, "cholesky_inverse_out_cpu")
    lower = adjoint(input.node) if upper else input.node
    half = substituted(lower, identity(lower), False, False)
    x = substituted(adjoint(lower), half, True, False)
    return give_columns(x, "CholeskyInverse", (input,), out)


# ------------------------------------------------------------------- tensors as matrices


@function()
@in_full_precision
def tensorinv(input: Tensor, ind: int = 2, *, out: Tensor | None = None) -> Tensor:
    """The inverse for ``tensordot`` over ``ind`` dimensions. Raises ShapeError and LinAlgError."""
    require_tensor(input, "tensorinv")
    if ind <= 0:
        raise LazytError(f"Expected a strictly positive integer for 'ind', but got {ind}")
    shape = tuple(input.shape)
    first, rest = shape[:ind], shape[ind:]
    if prod(first) != prod(rest):
        raise ShapeError(
            "Expected self to satisfy the requirement prod(self.shape[ind:]) == "
            f"prod(self.shape[:ind]), but got {prod(rest)} != {prod(first)}"
        )
    flat = inv(input.reshape(prod(rest), prod(first)))
    result: Tensor = flat.reshape((*rest, *first))
    return result if out is None else give(result.node, "View", (flat,), out)


@function()
@in_full_precision
def tensorsolve(
    input: Tensor, other: Tensor, dims: Any = None, *, out: Tensor | None = None
) -> Tensor:
    """``X`` with ``tensordot(input, X, X.ndim) = other``. Raises ShapeError and LinAlgError."""
    require_tensor(input, "tensorsolve")
    if dims is not None:
        input = input.movedim(
            tuple(dims), tuple(range(len(input.shape) - len(dims), len(input.shape)))
        )
    rank = len(other.shape)
    rest, count = tuple(input.shape[rank:]), other.shape.numel()
    if prod(rest) != count:
        raise ShapeError(
            "Expected self to satisfy the requirement prod(self.shape[other.ndim:]) == "
            f"prod(self.shape[:other.ndim]), but got {prod(rest)} != {count}"
        )
    flat = solve(input.reshape(prod(rest), prod(rest)), other.reshape(-1))
    return give(ops.reshape(flat.node, rest), "View", (flat,), out)


# LU factorization with row exchanges, and what is made of its factors.


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
    return routine("lu", A.node)


def _zero_pivot(code: int) -> str:
    return (
        f"U[{code},{code}] is zero and using it on lu_solve would result in a division by zero. If "
        "you still want to perform the factorization, consider calling linalg.lu(A, pivot) or "
        "linalg.lu_factor_ex(A, pivot)"
    )


def _packed(A: Tensor, parts: list[Node]) -> tuple[Tensor, Tensor]:
    return give_columns(parts[0], "LinalgLuFactorEx", (A,)), give(ops.cast(parts[1], int32), "", ())


@function()
@takes_outputs
def lu_factor(A: Tensor, *, pivot: bool = True) -> return_types.linalg_lu_factor:
    """``L`` (below the diagonal) and ``U`` in one matrix, and LAPACK's pivots, from 1, in int32.

    Raises LinAlgError when U is singular.
    """
    require_tensor(A, "lu_factor", "A")
    parts = _factors(A, pivot, "torch.lu_factor")
    require_success(parts[-1], "torch.linalg.lu_factor", _zero_pivot)
    return return_types.linalg_lu_factor(_packed(A, parts))


@function()
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


@function(method=True)
@takes_outputs
def lu(A: Tensor, pivot: bool = True, get_infos: bool = False) -> tuple[Tensor, ...]:
    """``torch.lu``: packed factors and pivots, with ``get_infos`` also ``info``; stays lazy."""
    require_tensor(A, "lu", "A")
    parts = _factors(A, pivot, "torch.lu_factor")
    packed = _packed(A, parts)
    return (*packed, give(as_info(parts[-1]), "", ())) if get_infos else packed


@function(layout=row_major)
@takes_outputs
def linalg_lu(A: Tensor, *, pivot: bool = True) -> return_types.linalg_lu:
    """``P``, ``L`` and ``U`` with ``A = P @ L @ U``; P is a permutation matrix."""
    require_tensor(A, "linalg_lu", "A")
    packed, _, order, _ = _factors(A, pivot, "linalg.lu")
    low, high = _triangles(packed)
    exchange = give(turned(_exchange(order, packed.dtype)), "", ())
    return return_types.linalg_lu(
        (exchange, give(low, "LinalgLu", (A,)), give(high, "LinalgLu", (A,)))
    )


def _triangles(packed: Node) -> tuple[Node, Node]:
    m, n = packed.shape[-2:]
    k = min(m, n)
    left = columns(packed, 0, k)
    unit = columns(identity(packed), 0, k)
    return plus(lower(left, -1), unit), upper_triangle(rows(packed, 0, k))


def _exchange(order: Node, dtype: DType) -> Node:
    """The matrix that puts rows into ``order``."""
    counts = ops.cast(ops.iota(order.shape[-1]), order.dtype)
    return ops.cast(ops.apply("eq", column(order), counts), dtype)


def _order_of(pivots: Tensor, count: int, dtype: DType) -> Node:
    """The order of ``count`` rows after LAPACK's exchanges."""
    if pivots.dtype is not int32:
        raise LazytError(
            "torch.lu_unpack: LU_pivots is expected to be a contiguous tensor of torch.int32 dtype."
            "\nNote: this function is intended to be used with the output produced by "
            "torch.linalg.lu_factor"
        )
    numbers = column(ops.cast(pivots.node, dtype.part))
    return routine("exchanges", numbers, mode=str(count))[0]


@function(layout=row_major)
@takes_outputs
def lu_unpack(
    LU_data: Tensor, LU_pivots: Tensor, unpack_data: bool = True, unpack_pivots: bool = True
) -> return_types.lu_unpack:
    """``P``, ``L`` and ``U`` from packed factors and pivots; empty where not requested.

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
        exchange = give(turned(_exchange(order, node.dtype)), "", ())
    return return_types.lu_unpack((exchange, low, high))


@function()
def linalg_lu_solve(
    LU: Tensor, pivots: Tensor, B: Tensor, *, left: bool = True, adjoint: bool = False,
    out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """``X`` with ``A @ X = B`` from the packed factors of ``A``; batches broadcast.

    Unless ``left``, ``X @ A = B``; with ``adjoint``, ``A.mH`` in the place of ``A``. Raises
    ShapeError and DTypeError.
    """
    check_floating(LU, "torch.linalg.lu_solve")
    if pivots.dtype is not int32:
        raise LazytError("linalg.lu_solve: pivots should be a Tensor of scalar type torch.int32")
    check_equation(LU, B, "linalg.lu_solve", left)
    check_same_dtype(LU, B, "linalg.lu_solve", ("LU", "B"))
    check_kernel(LU, "lu_solve_cpu")
    exchange = _exchange(_order_of(pivots, LU.shape[-2], LU.dtype), LU.dtype)
    right = B.node if left else turned(B.node)
    given = ops.conj(LU.node) if adjoint else LU.node
    packed, right, exchange = share_batch(given, right, exchange)
    if adjoint == left:  # the transposed equation
        half = substituted(turned(packed), right, False, False)
        x = product(turned(exchange), substituted(turned(packed), half, True, True))
    else:
        half = substituted(packed, product(exchange, right), False, True)
        x = substituted(packed, half, True, False)
    return (give_columns if left else give)(x if left else turned(x), "LinalgLuSolve", (LU, B), out)


@function(method=True)
@in_full_precision
def lu_solve(
    input: Tensor, LU_data: Tensor, LU_pivots: Tensor, *, out: Tensor | None = None
) -> Tensor:
    """``torch.lu_solve``: ``X`` with ``A @ X = input`` from the packed factors of ``A``."""
    return linalg_lu_solve(LU_data, LU_pivots, input, out=out)
