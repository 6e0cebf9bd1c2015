"""CSR and CSC: conversions from and to coordinates."""

from __future__ import annotations

from lazyt.errors import LazytError
from lazyt.functional.operands import existing_dim
from lazyt.functional.sorting.searching import searchsorted
from lazyt.functional.sparse.coordinates import coalesced, from_dense, to_coordinates
from lazyt.functional.sparse.tensors import (
    CompressedTensor,
    CooTensor,
    SparseTensor,
    compressed,
    picked,
)
from lazyt.handle.dispatch import wrap
from lazyt.handle.grad_mode import no_grad
from lazyt.handle.layout import layout, sparse_csc, sparse_csr
from lazyt.handle.tensor import Tensor
from lazyt.ops import iota


def from_coordinates(tensor: CooTensor, kind: layout) -> CompressedTensor:
    """Compressed rows or columns of a matrix. Raises LazytError for other numbers of dimensions."""
    if tensor.sparse_dim() != 2:
        name, title = ("csr", "SparseCsr") if kind is sparse_csr else ("csc", "SparseCsc")
        raise LazytError(
            f"to_sparse_{name}: conversion from Sparse to {title} for input tensors with "
            "sparse_dim()!=2 is not supported"
        )
    tensor = coalesced(tensor)
    main, other = (0, 1) if kind is sparse_csr else (1, 0)
    values = tensor._held
    with no_grad():
        rows, others = wrap(tensor.rows(main)), wrap(tensor.rows(other))
        if main == 1:
            rows, order = rows.sort(stable=True)
            others = picked(others, order)
        counted = wrap(iota(tensor._size[main] + 1))
        starts = searchsorted(rows, counted) if tensor._nnz() else counted * 0
    if main == 1:
        values = picked(values, order)
    return compressed(starts, others, values, tensor._size, kind, True)


def changed(tensor: Tensor, kind: layout) -> CompressedTensor:
    """Any tensor in ``kind``, compressed rows or columns. Raises LazytError."""
    if isinstance(tensor, CompressedTensor):
        return tensor if tensor.layout is kind else from_coordinates(to_coordinates(tensor), kind)
    if isinstance(tensor, SparseTensor):
        assert isinstance(tensor, CooTensor)
        return from_coordinates(tensor, kind)
    if tensor.ndim != 2:
        name = "sparse_csr" if kind is sparse_csr else "sparse_csc"
        raise LazytError(
            f"lazyt has {name} tensors of two dimensions, not of {tensor.ndim}: batches of "
            "matrices are COO tensors (to_sparse())"
        )
    return from_coordinates(from_dense(tensor), kind)


def transposed(tensor: CompressedTensor, first: int, second: int) -> CompressedTensor:
    """The transposed matrix: rows become columns, and nothing moves."""
    rank = tensor.ndim
    dims = {existing_dim(first, rank), existing_dim(second, rank)}
    if len(dims) == 1:
        return tensor
    if dims != {0, 1}:
        raise LazytError("transpose(): only rows and columns of a compressed tensor are exchanged")
    kind = sparse_csc if tensor.by_rows else sparse_csr
    size = (tensor._size[1], tensor._size[0], *tensor._size[2:])
    made = compressed(tensor._starts, tensor._others, tensor._held, size, kind, tensor._checked)
    made._rows = tensor._rows
    return made
