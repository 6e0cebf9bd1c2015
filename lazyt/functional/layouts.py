"""Methods of every tensor that have to do with sparse layouts.

What a dense tensor answers is here; the modules of sparse tensors are imported when one is made.
"""

from __future__ import annotations

from typing import Any, NoReturn

from lazyt.errors import LazytError, UnsupportedNameError
from lazyt.handle.dispatch import method
from lazyt.handle.layout import layout as Layout
from lazyt.handle.layout import sparse_csc, sparse_csr
from lazyt.handle.tensor import Tensor

__all__: list[str] = []


class NotSparseError(LazytError, NotImplementedError):
    """A member of sparse tensors that a dense tensor is asked for."""


def _changed(tensor: Tensor, sparse_dim: int | None, kind: Layout | None) -> Tensor:
    from lazyt.functional.sparse.dispatch import changed

    return changed(tensor, sparse_dim, kind)


def _refuse(tensor: Tensor, name: str, wanted: str = "sparse coordinate tensor") -> NoReturn:
    raise LazytError(f"{name} expected {wanted} layout but got Strided")


def _absent(tensor: Tensor, name: str) -> NoReturn:
    backend = "CUDA" if tensor.is_cuda else "CPU"
    raise NotSparseError(
        f"Could not run 'aten::{name}' with arguments from the '{backend}' backend: it is for "
        "sparse tensors"
    )


@method()
def to_sparse(
    self: Tensor, sparse_dim: int | None = None, *, layout: Layout | None = None,
    blocksize: Any = None, dense_dim: int | None = None,
) -> Tensor:  # fmt: skip
    """The tensor in a sparse layout: of a dense one, the elements that are not zero, which are
    looked at.

    Args:
        sparse_dim: how many dimensions indices have; the others are those of dense blocks.
        layout: ``sparse_coo`` by default, ``sparse_csr`` or ``sparse_csc``.

    Raises LazytError, and UnsupportedNameError for blocks.

    Example:
        >>> import lazyt
        >>> lazyt.tensor([[0.0, 2.0], [0.0, 0.0]]).to_sparse().indices()
        tensor([[0],
                [1]])
    """
    if blocksize is not None or dense_dim:
        raise UnsupportedNameError("lazyt has no tensors of blocks, nor CSR with dense dimensions")
    return _changed(self, sparse_dim, layout)


@method()
def to_sparse_coo(self: Tensor) -> Tensor:
    """``to_sparse()``: with coordinates."""
    return _changed(self, None, None)


@method()
def to_sparse_csr(self: Tensor, dense_dim: int | None = None) -> Tensor:
    """The matrix with compressed rows. Raises LazytError for other numbers of dimensions."""
    return _changed(self, None, sparse_csr)


@method()
def to_sparse_csc(self: Tensor, dense_dim: int | None = None) -> Tensor:
    """The matrix with compressed columns. Raises LazytError for other numbers of dimensions."""
    return _changed(self, None, sparse_csc)


@method()
def to_sparse_bsr(self: Tensor, blocksize: Any, dense_dim: int | None = None) -> Tensor:
    """Raises UnsupportedNameError: there are no tensors of blocks."""
    raise UnsupportedNameError("lazyt has no tensors of blocks (BSR): use to_sparse_csr()")


@method()
def to_sparse_bsc(self: Tensor, blocksize: Any, dense_dim: int | None = None) -> Tensor:
    """Raises UnsupportedNameError: there are no tensors of blocks."""
    raise UnsupportedNameError("lazyt has no tensors of blocks (BSC): use to_sparse_csc()")


@method()
def sparse_dim(self: Tensor) -> int:
    """The number of sparse dimensions: of a dense tensor none."""
    return 0


@method()
def dense_dim(self: Tensor) -> int:
    """The number of dense dimensions: of a dense tensor all."""
    return self.ndim


@method()
def sparse_mask(self: Tensor, mask: Tensor) -> Tensor:
    """The elements at the indices of a sparse ``mask``, in its layout. Raises LazytError."""
    raise LazytError("sparse_mask(): the mask has to be a sparse tensor")


@method()
def coalesce(self: Tensor) -> Tensor:
    """A tensor with coordinates whose indices are in order and each there once; values of one place
    are added up in their order. Raises LazytError for other layouts.

    Example:
        >>> import lazyt
        >>> s = lazyt.sparse_coo_tensor([[1, 0, 1]], [1.0, 2.0, 3.0], (2,))
        >>> s.coalesce().values()
        tensor([2., 4.])
    """
    _refuse(self, "coalesce")


@method()
def is_coalesced(self: Tensor) -> bool:
    """Whether indices are in order and each there once. Raises LazytError for other layouts."""
    _refuse(self, "is_coalesced")


@method()
def indices(self: Tensor) -> Tensor:
    """The indices [sparse dimensions, nnz] of a coalesced tensor. Raises LazytError."""
    _refuse(self, "indices")


@method()
def values(self: Tensor) -> Tensor:
    """The values [nnz, *] of a sparse tensor, if it has coordinates of a coalesced one. Raises
    LazytError."""
    _refuse(self, "values", "sparse tensor")


@method()
def crow_indices(self: Tensor) -> Tensor:
    """Where every compressed row begins. Raises LazytError for other layouts."""
    _refuse(self, "crow_indices", "sparse row compressed tensor")


@method()
def col_indices(self: Tensor) -> Tensor:
    """The column of every value in compressed rows. Raises LazytError for other layouts."""
    _refuse(self, "col_indices", "sparse row compressed tensor")


@method()
def ccol_indices(self: Tensor) -> Tensor:
    """Where every compressed column begins. Raises LazytError for other layouts."""
    _refuse(self, "ccol_indices", "sparse column compressed tensor")


@method()
def row_indices(self: Tensor) -> Tensor:
    """The row of every value in compressed columns. Raises LazytError for other layouts."""
    _refuse(self, "row_indices", "sparse column compressed tensor")


@method()
def _indices(self: Tensor) -> Tensor:
    _absent(self, "_indices")


@method()
def _values(self: Tensor) -> Tensor:
    _absent(self, "_values")


@method()
def _nnz(self: Tensor) -> int:
    _absent(self, "_nnz")


@method()
def smm(self: Tensor, mat2: Tensor) -> Tensor:
    """A sparse matrix with coordinates times a dense one, as a sparse tensor. Raises LazytError."""
    from lazyt.functional.sparse.functions import smm as product

    return product(self, mat2)


@method()
def hspmm(self: Tensor, mat2: Tensor) -> Tensor:
    """A sparse matrix with coordinates times a dense one, as a hybrid tensor. Raises LazytError."""
    from lazyt.functional.sparse.functions import hspmm as product

    return product(self, mat2)


@method()
def sspaddmm(self: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """``beta * self + alpha * (mat1 @ mat2)`` of sparse tensors with coordinates and a dense
    ``mat2``. Raises LazytError."""
    from lazyt.functional.sparse.functions import sspaddmm as product

    return product(self, mat1, mat2, beta=beta, alpha=alpha)


@method()
def sparse_resize_(self: Tensor, size: Any, sparse_dim: int, dense_dim: int) -> Tensor:
    """Gives a tensor with coordinates another size, not below the one it has. Raises LazytError."""
    _absent(self, "sparse_resize_")


@method()
def sparse_resize_and_clear_(self: Tensor, size: Any, sparse_dim: int, dense_dim: int) -> Tensor:
    """Makes a tensor with coordinates one of another size without values. Raises LazytError."""
    _absent(self, "sparse_resize_and_clear_")
