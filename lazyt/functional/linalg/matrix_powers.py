"""Powers and the exponential of square matrices, and products of several matrices."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from itertools import pairwise

from lazyt import ops
from lazyt.errors import DTypeError, LazytError, ShapeError
from lazyt.functional.linalg.matrices import check_floating, check_square, routine
from lazyt.functional.linalg.products import matmul, mm
from lazyt.functional.linalg.solvers import inv
from lazyt.functional.operands import require_tensor, without_slope
from lazyt.functional.results import give
from lazyt.functional.type_promotion import c_name
from lazyt.handle.autocast import in_low_precision
from lazyt.handle.function_table import function
from lazyt.handle.tensor import Tensor
from lazyt.ops.matrix_algebra import identity

__all__ = ["chain_matmul", "matrix_exp", "matrix_power"]


@function(
    method=True,
    grad_name="LinalgMatrixPower",
    out_category=(
        "matrix_power: Expected result to be safely castable from {Want} dtype, but got result "
        "with dtype {Got}"
    ),
)
def matrix_power(input: Tensor, n: int, *, out: Tensor | None = None) -> Tensor:
    """``input`` times itself ``n`` times, its inverse for negative ``n``, by repeated squaring.

    Raises ShapeError for matrices that are not square, DTypeError for an ``n`` that is no int, and
    LinAlgError where an inverse is missing.
    """
    if not hasattr(n, "__index__") or isinstance(n, Tensor):
        raise DTypeError(
            f"linalg_matrix_power(): argument 'n' (position 2) must be int, not {type(n).__name__}"
        )
    count = operator.index(n)
    check_square(input, "linalg.matrix_power")
    if count == -1:
        return inv(input, out=out)
    base = inv(input) if count < 0 else input
    left = abs(count)
    if left == 0:
        return give(without_slope(identity(input.node), input.node), "Ones", (input,), out)
    result: Tensor | None = None
    while left:
        if left & 1:
            result = base if result is None else matmul(result, base)
        left >>= 1
        if left:
            base = matmul(base, base)
    assert result is not None
    return give(result.node, "LinalgMatrixPower", (result,), out)


@function(method=True, grad_name="LinalgMatrixExp", saves="s")
def matrix_exp(input: Tensor) -> Tensor:
    """The exponential of square matrices, computed in float64 and rounded; 16-bit floats too.

    Raises ShapeError and DTypeError in PyTorch's words.
    """
    require_tensor(input, "matrix_exp")
    check_square(input, "linalg.matrix_exp")
    check_floating(input, "linalg.matrix_exp")
    return give(routine("exp", input.node)[0], "LinalgMatrixExp", (input,))


# ------------------------------------------------------------------- several factors


@function()
@in_low_precision
def chain_matmul(*matrices: Tensor, out: Tensor | None = None) -> Tensor:
    """The product of several matrices, in the cheapest order. Raises ShapeError for other ranks."""
    if not matrices:
        raise LazytError("chain_matmul(): Expected one or more matrices")
    for matrix in matrices:
        if len(matrix.shape) != 2:
            raise ShapeError(f"Tensor dimension is {len(matrix.shape)}, expected 2 instead.")
    if len(matrices) == 1:
        only: Tensor = matrices[0].clone()
        return only
    return multi_dot(matrices, out=out)


def _check_factors(tensors: Sequence[Tensor]) -> None:
    last = len(tensors) - 1
    for number, item in enumerate(tensors):
        if item.dtype is not tensors[0].dtype:
            raise DTypeError(
                "multi_dot(): all tensors must have be the same dtype but tensor 0 is "
                f"{c_name(tensors[0].dtype)} and tensor {number} {c_name(item.dtype)}"
            )
        rank, ends = len(item.shape), number in (0, last)
        if rank != 2 and not (ends and rank == 1):
            wanted = "1D or 2D" if ends else "2D"
            name = {0: "the first tensor", last: "the last tensor"}.get(number, f"tensor {number}")
            raise ShapeError(f"multi_dot(): {name} must be {wanted} but got {rank}D")


@function()
def multi_dot(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
    """The product of several matrices in the order that takes the fewest multiplications.

    The first and the last may be vectors. Raises LazytError for fewer than two, ShapeError and
    DTypeError.
    """
    return _multi_dot(*tensors, out=out)


@in_low_precision
def _multi_dot(*tensors: Tensor, out: Tensor | None = None) -> Tensor:
    if len(tensors) < 2:
        raise LazytError(f"multi_dot(): expected at least 2 tensors but got {len(tensors)}")
    _check_factors(tensors)
    factors = list(tensors)
    first, last = len(factors[0].shape) == 1, len(factors[-1].shape) == 1
    if first:
        factors[0] = factors[0].unsqueeze(0)
    if last:
        factors[-1] = factors[-1].unsqueeze(-1)
    for number, (a, b) in enumerate(pairwise(factors)):
        if a.shape[-1] != b.shape[0]:
            raise ShapeError(
                f"multi_dot(): tensors {number} and {number + 1} with shapes "
                f"{list(tensors[number].shape)} and {list(tensors[number + 1].shape)} cannot be "
                "multiplied"
            )
    result = _in_order(factors)
    shape = tuple(result.shape)[1 if first else 0 : 1 if last else 2]
    node = result.node if shape == tuple(result.shape) else ops.reshape(result.node, shape)
    return give(node, "Mm", (result,), out)


def _in_order(factors: Sequence[Tensor]) -> Tensor:
    """The product by the cheapest splits (Cormen et al., "Introduction to Algorithms", 15.2)."""
    count = len(factors)
    sizes = [factor.shape[0] for factor in factors] + [factors[-1].shape[1]]
    cost: dict[tuple[int, int], tuple[int, int]] = {(i, i): (0, i) for i in range(count)}
    for width in range(1, count):
        for i in range(count - width):
            j = i + width
            cost[i, j] = min(
                (cost[i, k][0] + cost[k + 1, j][0] + sizes[i] * sizes[k + 1] * sizes[j + 1], k)
                for k in range(i, j)
            )
    made = {(i, i): factor for i, factor in enumerate(factors)}
    waiting = [(0, count - 1)]
    while waiting:
        i, j = waiting[-1]
        k = cost[i, j][1]
        missing = [part for part in ((i, k), (k + 1, j)) if part not in made]
        if missing:
            waiting += missing
        else:
            waiting.pop()
            made[i, j] = mm(made[i, k], made[k + 1, j])
    return made[0, count - 1]
