"""Older names of products with sparse matrices, which PyTorch has in its top namespace."""

from __future__ import annotations

from typing import Any

from lazyt.errors import LazytError
from lazyt.functional.operands import require_tensor
from lazyt.functional.sparse.coordinates import from_dense
from lazyt.functional.sparse.products import added_product, matrix_product
from lazyt.functional.sparse.tensors import CooTensor, coo, need_coo, picked
from lazyt.handle.function_table import function
from lazyt.handle.tensor import Tensor

__all__ = ["dsmm", "hspmm", "smm", "spmm", "sspaddmm"]


@function()
def spmm(input: Tensor, mat2: Tensor) -> Tensor:
    """``input.mm(mat2)``, of which one may be sparse.

    Example:
        >>> import lazyt
        >>> lazyt.spmm(lazyt.eye(2).to_sparse(), lazyt.ones(2, 1))
        tensor([[1.],
                [1.]])
    """
    found: Tensor = require_tensor(input, "spmm").mm(mat2)
    return found


@function()
def dsmm(input: Tensor, mat2: Tensor) -> Tensor:
    """``spmm`` by an older name.

    Example:
        >>> import lazyt
        >>> lazyt.dsmm(lazyt.ones(1, 2), lazyt.eye(2).to_sparse())
        tensor([[1., 1.]])
    """
    return spmm(input, mat2)


@function()
def hspmm(mat1: Tensor, mat2: Tensor, *, out: None = None) -> Tensor:
    """A sparse matrix times a dense one as a hybrid tensor: one sparse dimension, and a row of
    values where ``mat1`` has any. Raises LazytError for other layouts, and for ``out``.

    Example:
        >>> import lazyt
        >>> lazyt.hspmm(lazyt.eye(2).to_sparse(), lazyt.ones(2, 1)).dense_dim()
        1
    """
    _need_no_out(out, "hspmm")
    a = need_coo(mat1, "hspmm")
    rows = a._places[0].unique()
    found = matrix_product(a, mat2)
    return coo(rows.unsqueeze(0), picked(found, rows), found.shape, True, True)


@function()
def smm(input: Tensor, mat2: Tensor) -> Tensor:
    """A sparse matrix times a dense one as a sparse tensor. Raises LazytError for other layouts.

    Example:
        >>> import lazyt
        >>> lazyt.smm(lazyt.eye(2).to_sparse(), lazyt.ones(2, 1)).is_sparse
        True
    """
    return from_dense(matrix_product(need_coo(input, "smm"), mat2))


@function()
def sspaddmm(
    input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Any = 1, alpha: Any = 1, out: None = None
) -> Tensor:
    """``beta * input + alpha * (mat1 @ mat2)`` of a sparse ``input`` and ``mat1``: a sparse tensor.

    Raises LazytError for other layouts, and for ``out``.

    Example:
        >>> import lazyt
        >>> s = lazyt.eye(2).to_sparse()
        >>> lazyt.sspaddmm(s, s, lazyt.ones(2, 2)).to_dense()
        tensor([[2., 1.],
                [1., 2.]])
    """
    _need_no_out(out, "sspaddmm")
    first = need_coo(input, "sspaddmm")
    zeros: Tensor = mat2.new_zeros((input.shape[0], mat2.shape[1]))
    product = from_dense(added_product(zeros, need_coo(mat1, "sspaddmm"), mat2, 0, alpha))
    scaled: CooTensor = first if beta == 1 else first.with_values(first._held * beta)
    found: Tensor = scaled + product
    return found


def _need_no_out(out: object, name: str) -> None:
    """Raises LazytError where there is a tensor to write to."""
    if out is not None:
        raise LazytError(f"{name}: sparse results are new tensors, so there is no out=")
