"""Factors of symmetric and Hermitian matrices that need not be definite, and equations with them.

Only the lower triangle of a matrix is read. The factors are those of Bunch and Kaufman's method,
with LAPACK's choice of pivots; library calls (``lazyt/ops/routines.py``).
"""

from __future__ import annotations

from lazyt import ops
from lazyt.errors import DTypeError, LazytError, ShapeError
from lazyt.functional import return_types
from lazyt.functional.linalg.matrices import (
    as_info,
    check_floating,
    check_kernel,
    check_square,
    give_columns,
    require_success,
    routine,
    share_batch,
)
from lazyt.functional.operands import require_tensor
from lazyt.functional.results import SAME_DTYPE, give, takes_outputs
from lazyt.functional.type_promotion import torch_name
from lazyt.handle.function_table import function
from lazyt.handle.tensor import Tensor
from lazyt.ir.dtypes import int32
from lazyt.ir.graph import Node
from lazyt.ops.matrix_algebra import column

__all__: list[str] = []


def _zero_column(code: int) -> str:
    return (
        f"D[{code},{code}] is zero, and so is the rest of its column: ldl_solve would divide by "
        "zero. linalg.ldl_factor_ex gives the factors all the same"
    )


def _parts(input: Tensor, hermitian: bool) -> list[Node]:
    """Packed factors, pivots and info."""
    require_tensor(input, "linalg_ldl_factor_ex")
    check_square(input, "torch.linalg.ldl_factor_ex")
    check_floating(input, "torch.linalg.ldl_factor_ex")
    check_kernel(input, "ldl_factor_kernel_cpu")
    of_adjoint = hermitian and input.dtype.kind == "c"
    return routine("ldl", input.node, mode="hermitian" if of_adjoint else "plain")


def _packed(input: Tensor, parts: list[Node]) -> tuple[Tensor, Tensor]:
    factors = give_columns(parts[0], "LinalgLdlFactorEx", (input,))
    return factors, give(ops.cast(parts[1], int32), "", ())


@function(out_dtype=SAME_DTYPE)
@takes_outputs
def ldl_factor(input: Tensor, *, hermitian: bool = False) -> return_types.linalg_ldl_factor:
    """``L`` and ``D`` with ``input = L @ D @ L.mT`` in one matrix ``LD``, and pivots in int32.

    Args:
        input: [..., n, n], symmetric, of which the lower triangle is read: float32, float64,
            complex64 or complex128.
        hermitian: whether ``input`` equals its adjoint: ``L.mH`` is in the place of ``L.mT``.

    D has blocks of one or two rows, and L, whose diagonal of ones is not stored, the rest below.
    ``pivots``, [..., n], are LAPACK's, from 1: negative, and twice the same, for a block of two
    rows. ``ldl_solve`` takes both. There is no gradient.

    Raises LinAlgError where D is singular, ShapeError and DTypeError. See Bunch and Kaufman, "Some
    stable methods for calculating inertia and solving symmetric linear systems" (1977).

    >>> import lazyt
    >>> LD, pivots = lazyt.linalg.ldl_factor(lazyt.tensor([[4.0, 2], [2, 3]]))
    >>> LD
    tensor([[4.0000, 0.0000],
            [0.5000, 2.0000]])
    >>> pivots
    tensor([1, 2], dtype=lazyt.int32)
    """
    parts = _parts(input, hermitian)
    require_success(parts[-1], "torch.linalg.ldl_factor", _zero_column)
    return return_types.linalg_ldl_factor(_packed(input, parts))


@function(out_dtype=SAME_DTYPE)
@takes_outputs
def ldl_factor_ex(
    input: Tensor, *, hermitian: bool = False, check_errors: bool = False
) -> return_types.linalg_ldl_factor_ex:
    """``ldl_factor`` with ``info``: the number of the first column of zeros, else 0.

    Stays lazy; raises LinAlgError for a singular D only with ``check_errors``.

    >>> import lazyt
    >>> lazyt.linalg.ldl_factor_ex(lazyt.zeros(2, 2)).info
    tensor(1, dtype=lazyt.int32)
    """
    parts = _parts(input, hermitian)
    if check_errors:
        require_success(parts[-1], "torch.linalg.ldl_factor_ex", _zero_column)
    info = give(as_info(parts[-1]), "", ())
    return return_types.linalg_ldl_factor_ex((*_packed(input, parts), info))


@function()
def ldl_solve(
    LD: Tensor, pivots: Tensor, B: Tensor, *, hermitian: bool = False, out: Tensor | None = None
) -> Tensor:
    """``X`` with ``A @ X = B``, from what ``ldl_factor`` gives for ``A``; batches broadcast.

    Args:
        LD: [..., n, n].
        pivots: [..., n], whole numbers.
        B: [..., n, k], of the dtype of ``LD``.
        hermitian: as in ``ldl_factor``.

    There is no gradient. Raises ShapeError, DTypeError, and LazytError for pivots of another shape
    or of no whole numbers.

    >>> import lazyt
    >>> A = lazyt.tensor([[0.0, 2], [2, 0]])
    >>> lazyt.linalg.ldl_solve(*lazyt.linalg.ldl_factor(A), lazyt.tensor([[2.0], [4.0]]))
    tensor([[2.],
            [1.]])
    """
    name = "torch.linalg.ldl_solve"
    for value, said in ((LD, "LD"), (pivots, "pivots"), (B, "B")):
        require_tensor(value, "linalg_ldl_solve", said)
    check_square(LD, name, "LD")
    _check_solvable(LD, pivots, B, name)
    check_floating(LD, name)
    check_kernel(LD, "ldl_solve_kernel_cpu")
    numbers = column(ops.cast(pivots.node, LD.dtype.part if LD.dtype.kind == "c" else LD.dtype))
    if LD.dtype.kind == "c":
        numbers = ops.cast(numbers, LD.dtype)
    factors, numbers, right = share_batch(LD.node, numbers, B.node)
    mode = "hermitian" if hermitian and LD.dtype.kind == "c" else "plain"
    (x,) = routine("ldl_solve", factors, numbers, right, mode=mode)
    return give_columns(x, "LinalgLdlSolve", (LD, B), out)


def _check_solvable(LD: Tensor, pivots: Tensor, B: Tensor, name: str) -> None:
    """Raise what PyTorch raises for operands that do not fit together."""
    if len(B.shape) < 2:
        raise ShapeError(f"{name}: The input tensor B must have at least 2 dimensions.")
    if tuple(pivots.shape) != tuple(LD.shape[:-1]):
        raise ShapeError(
            f"{name}: Expected LD.shape[:-1] and pivots.shape to be the same, but got pivots with "
            f"shape {list(pivots.shape)} instead"
        )
    if pivots.dtype.kind not in "iu":
        raise LazytError(f"{name}: Expected pivots to be integers. Got {torch_name(pivots.dtype)}")
    if LD.dtype is not B.dtype:
        raise DTypeError(
            "Expected b and A to have the same dtype, but found b of type "
            f"{torch_name(B.dtype)} and A of type {torch_name(LD.dtype)} instead."
        )
    if LD.shape[-1] != B.shape[-2]:
        m, n = LD.shape[-2:]
        raise ShapeError(
            f"Incompatible matrix sizes for {name}: each A matrix is {m} by {n} but each b matrix "
            f"is {B.shape[-2]} by {B.shape[-1]}"
        )
