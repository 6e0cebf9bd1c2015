"""Products with a sparse factor.

A product with a dense matrix is one kernel: for every value, in order, its multiple of a row of
the dense matrix is added to a row of the result. No array of nnz times columns is made, and the
order of every sum is that of the values, whatever the number of threads. The gradients are of the
same kind.
"""

from __future__ import annotations

from typing import Any

from lazyt import ops
from lazyt.errors import DTypeError, LazytError, ShapeError
from lazyt.functional.elementwise.arithmetic import result_type
from lazyt.functional.operands import constant_of
from lazyt.functional.sorting.searching import searchsorted
from lazyt.functional.sparse.coordinates import coalesced, joined, ranges, with_coordinates
from lazyt.functional.sparse.tensors import (
    CompressedTensor,
    CooTensor,
    SparseTensor,
    coo,
    picked,
)
from lazyt.handle.dispatch import type_title, wrap
from lazyt.handle.grad_mode import no_grad
from lazyt.handle.tensor import Tensor
from lazyt.ir.dtypes import int64
from lazyt.ir.graph import Node


def check_dtypes(a: Tensor, b: Tensor) -> None:
    """Raise DTypeError where two factors are of different dtypes."""
    if a.dtype is not b.dtype:
        raise DTypeError(
            f"addmm: expected mat1 and mat2 to have the same dtype, but got "
            f"{type_title(a.dtype)} and {type_title(b.dtype)}"
        )


def check_matrices(a: Tensor, b: Tensor, function: str = "addmm") -> None:
    """Raise ShapeError, in PyTorch's words, for factors that do not fit."""
    if a.ndim != 2 or b.ndim != 2:
        place, wrong = (2, a) if a.ndim != 2 else (3, b)
        kind = "sparse" if isinstance(wrong, SparseTensor) else "dense"
        raise ShapeError(
            f"{function}: Argument #{place} ({kind}): Expected matrix, got {wrong.ndim}D tensor"
        )
    if a.shape[1] != b.shape[0]:
        raise ShapeError(
            f"{function}: Argument #3 (dense): Expected dim 0 size {a.shape[1]}, got {b.shape[0]}"
        )


def _scaled(values: Tensor, rows: Node, before: bool) -> Node:
    """Each row, or column, of ``rows`` times its value."""
    shape = (1, values.shape[0]) if before else (values.shape[0], 1)
    return ops.apply("mul", rows, ops.reshape(values.node, shape))


def _no_values(*shape: int, like: Tensor) -> Node:
    return ops.broadcast_to(constant_of(0, like.dtype), shape)


def times_dense(a: SparseTensor, b: Tensor, name: str = "SparseAddmm") -> Tensor:
    """A sparse matrix [n, m] times a dense one [m, k]."""
    check_matrices(a, b)
    check_dtypes(a, b)
    if a.dense_dim():
        raise LazytError("addmm: hybrid sparse tensors have no product with matrices")
    base = _no_values(a.shape[0], b.shape[1], like=a)
    if not a._nnz() or not b.shape[1]:
        return wrap(base, a._held, b, name=name)
    held = a._held
    rows = _scaled(held, ops.gather(b.node, a.rows(1), 0), False)
    return wrap(ops.scatter(base, a.rows(0), rows, 0, "add"), held, b, name=name)


def dense_times(a: Tensor, b: SparseTensor, name: str = "Mm") -> Tensor:
    """A dense matrix [k, n] times a sparse one [n, m]."""
    check_matrices(a, b)
    check_dtypes(a, b)
    base = _no_values(a.shape[0], b.shape[1], like=a)
    if not b._nnz() or not a.shape[0]:
        return wrap(base, a, b._held, name=name)
    columns = _scaled(b._held, ops.gather(a.node, b.rows(0), 1), True)
    return wrap(ops.scatter(base, b.rows(1), columns, 1, "add"), a, b._held, name=name)


def times_vector(a: SparseTensor, b: Tensor) -> Tensor:
    """A sparse matrix [n, m] times a vector [m]."""
    if a.ndim != 2 or b.ndim != 1:
        raise ShapeError(f"vector + matrix @ vector expected, got 1, {a.ndim}, {b.ndim}")
    if a.shape[1] != b.shape[0]:
        raise ShapeError(f"size mismatch, got input ({a.shape[0]}), mat ({a.shape[0]}x"
                         f"{a.shape[1]}), vec ({b.shape[0]})")  # fmt: skip
    column = wrap(ops.reshape(b.node, (b.shape[0], 1)), b, name="Reshape")
    found = times_dense(a, column, "Mv")
    return wrap(ops.reshape(found.node, (a.shape[0],)), found, name="Mv")


def of_sparse(a: CooTensor, b: CooTensor) -> CooTensor:
    """The product of two sparse matrices, coalesced; looks at how many elements it has."""
    if a.shape[1] != b.shape[0]:
        raise ShapeError(
            f"mat1 and mat2 shapes cannot be multiplied ({a.shape[0]}x{a.shape[1]} and "
            f"{b.shape[0]}x{b.shape[1]})"
        )
    if a.dtype is not b.dtype:
        raise DTypeError(
            f"mat1 dtype {type_title(a.dtype)} does not match mat2 dtype {type_title(b.dtype)}"
        )
    a, b = coalesced(a), coalesced(b)
    size = (a.shape[0], b.shape[1])
    with no_grad():
        first, second = wrap(a.rows(1)), wrap(b.rows(0)).contiguous()
        if not a._nnz() or not b._nnz():
            empty = wrap(ops.broadcast_to(ops.constant(0, int64), (2, 0)))
            return coo(empty, a._held[:0], size, True, True)
        start = searchsorted(second, first)
        owner, at = ranges(start, searchsorted(second, first, right=True) - start)
        places = joined([picked(wrap(a.rows(0)), owner), picked(wrap(b.rows(1)), at)])
    values = picked(a._held, owner) * picked(b._held, at)
    return coalesced(coo(places, values, size, False, True))


def batched(a: CooTensor, b: Tensor) -> Tensor:
    """Sparse matrices [batch, n, m] times dense ones [batch, m, k]."""
    if a.ndim != 3 or b.ndim != 3 or a.shape[0] != b.shape[0] or a.shape[2] != b.shape[1]:
        raise ShapeError(
            f"bmm_sparse: Tensors 'self' and 'mat2' must be 3D with equal batches and fitting "
            f"matrices, got {list(a.shape)} and {list(b.shape)}"
        )
    batch, n, m = a._size
    number, width = ops.constant(n, int64), ops.constant(m, int64)
    block = a.rows(0)
    row = ops.apply("add", ops.apply("mul", block, number), a.rows(1))
    column = ops.apply("add", ops.apply("mul", block, width), a.rows(2))
    flat = coo(joined([wrap(row), wrap(column)]), a._held, (batch * n, batch * m), False, True)
    found: Tensor = times_dense(flat, b.reshape((batch * m, b.shape[2])), "Bmm")
    return found.reshape((batch, n, b.shape[2]))


def matrix_product(a: Tensor, b: Tensor, name: str = "Mm") -> Tensor:
    """The product of two matrices, one of which at least is sparse."""
    if not isinstance(b, SparseTensor):
        assert isinstance(a, SparseTensor)
        return times_dense(a, b, name)
    if not isinstance(a, SparseTensor):
        return dense_times(a, b, name)
    if isinstance(a, CooTensor) and isinstance(b, CooTensor):
        return of_sparse(a, b)
    one, two = with_coordinates(a), with_coordinates(b)
    if one.dtype is not two.dtype:
        dtype = result_type(one._held[:0], two._held[:0])
        one, two = (t.with_values(t._held.to(dtype)) for t in (one, two))
    found = of_sparse(one, two)
    made: Tensor = found.to_sparse_csr()
    return made


def added_product(
    input: Tensor, a: Tensor, b: Tensor, beta: Any = 1, alpha: Any = 1, name: str = "SparseAddmm"
) -> Tensor:
    """``beta * input + alpha * (a @ b)``."""
    found = matrix_product(a, b, name)
    if alpha != 1:
        found = found * alpha
    if beta == 0:
        return found if not isinstance(found, SparseTensor) else found.to_dense()
    if isinstance(input, SparseTensor):
        if not isinstance(found, SparseTensor):
            raise LazytError("addmm: a sparse input needs two sparse factors")
        return (input if beta == 1 else input * beta) + found
    scaled = input if beta == 1 else input * beta
    return scaled + found


def sampled(
    input: CompressedTensor, a: Tensor, b: Tensor, beta: Any = 1, alpha: Any = 1
) -> CompressedTensor:
    """``beta * input + alpha * (a @ b)`` at the indices of ``input``: a sum of products for every
    value, which no product of the whole matrices is needed for."""
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0]:
        raise ShapeError(
            f"sampled_addmm: mat1 and mat2 shapes cannot be multiplied ({list(a.shape)} and "
            f"{list(b.shape)})"
        )
    if (a.shape[0], b.shape[1]) != input._size:
        raise ShapeError(
            f"sampled_addmm: self of size {list(input._size)} does not fit a product of size "
            f"{[a.shape[0], b.shape[1]]}"
        )
    left = ops.gather(a.node, input.rows(0), 0)
    right = ops.gather(ops.permute(b.node, (1, 0)), input.rows(1), 0)
    sums = wrap(ops.reduce_("sum", ops.apply("mul", left, right), (1,)), a, b, name="SampledAddmm")
    scaled = sums if alpha == 1 else sums * alpha
    held = input._held if beta == 1 else input._held * beta
    return input.with_values(scaled if beta == 0 else held + scaled)


def reduced(a: CompressedTensor, b: Tensor, kind: str) -> Tensor:
    """The product of compressed rows and a dense matrix with ``mean``, ``amax`` or ``amin`` of each
    row's products in the place of their sum. Rows without values give zeros."""
    if kind == "sum":
        return times_dense(a, b)
    if kind not in ("mean", "amax", "amin", "prod"):
        raise LazytError(f"reduce argument must be either sum, mean, amax or amin, got {kind}")
    if kind == "prod":
        raise LazytError("Sparse-dense matmul with 'prod' is not supported: use sum, mean, amax")
    check_matrices(a, b)
    check_dtypes(a, b)
    counts = a._starts[1:] - a._starts[:-1]
    if kind == "mean":
        share = counts.clamp(min=1).to(a.dtype).unsqueeze(1)
        return times_dense(a, b) / share
    rows = wrap(_scaled(a._held, ops.gather(b.node, a.rows(1), 0), False), a._held, b, name="Mul")
    index = wrap(ops.broadcast_to(ops.reshape(a.rows(0), (a._nnz(), 1)), (a._nnz(), b.shape[1])))
    base = wrap(_no_values(a.shape[0], b.shape[1], like=a))
    found: Tensor = base.scatter_reduce(0, index, rows, kind, include_self=False)
    return found
