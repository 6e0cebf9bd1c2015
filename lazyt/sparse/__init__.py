"""Functions of sparse tensors by PyTorch's names, ``torch.sparse``."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from types import TracebackType
from typing import Any

from lazyt.errors import LazytError
from lazyt.functional.sparse import arithmetic, products
from lazyt.functional.sparse.creation import checking
from lazyt.functional.sparse.tensors import (
    CompressedTensor,
    CooTensor,
    SparseTensor,
    need_coo,
    refuse,
)
from lazyt.handle.tensor import Tensor

__all__ = [
    "addmm", "check_sparse_tensor_invariants", "log_softmax", "mm", "sampled_addmm", "softmax",
    "spdiags", "sum",
]  # fmt: skip


def mm(mat1: Tensor, mat2: Tensor, reduce: str | None = None) -> Tensor:
    """The product of two matrices [n, m] and [m, k], one of which at least is sparse: dense, or
    sparse where both are.

    One kernel adds up the rows of a dense factor in the order of the values; that of two sparse
    factors looks at how many elements the product has.

    Args:
        reduce: ``sum``; of CSR tensors also ``mean``, ``amax`` and ``amin`` over the elements of a
            row.

    Raises LazytError, ShapeError and DTypeError.

    Example:
        >>> import lazyt
        >>> s = lazyt.sparse_coo_tensor([[0, 1], [2, 0]], [3.0, 4.0], (2, 3))
        >>> lazyt.sparse.mm(s, lazyt.ones(3, 2))
        tensor([[3., 3.],
                [4., 4.]])
    """
    if reduce is not None:
        if not isinstance(mat1, CompressedTensor) or isinstance(mat2, SparseTensor):
            raise LazytError("mm: reduce takes a CSR tensor and a dense one")
        return products.reduced(mat1, mat2, reduce)
    if isinstance(mat1, SparseTensor) or isinstance(mat2, SparseTensor):
        return products.matrix_product(mat1, mat2, "SparseAddmm")
    found: Tensor = mat1.mm(mat2)
    return found


def addmm(
    mat: Tensor, mat1: Tensor, mat2: Tensor, *, beta: float = 1.0, alpha: float = 1.0
) -> Tensor:
    """``beta * mat + alpha * (mat1 @ mat2)`` with a sparse ``mat1``. Raises as ``mm``.

    Example:
        >>> import lazyt
        >>> s = lazyt.sparse_coo_tensor([[0, 1], [2, 0]], [3.0, 4.0], (2, 3))
        >>> lazyt.sparse.addmm(lazyt.ones(2, 1), s, lazyt.ones(3, 1))
        tensor([[4.],
                [5.]])
    """
    return products.added_product(mat, mat1, mat2, beta, alpha)


def sampled_addmm(
    input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: float = 1.0, alpha: float = 1.0,
    out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """``beta * input + alpha * (mat1 @ mat2)`` at the indices of the CSR tensor ``input`` alone.

    Raises LazytError for other layouts and ``out``, and ShapeError.

    Example:
        >>> import lazyt
        >>> s = lazyt.sparse_csr_tensor([0, 1, 2], [1, 0], [1.0, 2.0], (2, 2))
        >>> lazyt.sparse.sampled_addmm(s, lazyt.ones(2, 3), lazyt.ones(3, 2)).values()
        tensor([4., 5.])
    """
    if out is not None:
        raise LazytError("sampled_addmm(): out= has no sparse form; assign the result")
    if not isinstance(input, CompressedTensor) or not input.by_rows:
        raise LazytError(
            "sampled_addmm: Expected self to be in CSR layout, but got "
            f"{input._title() if isinstance(input, SparseTensor) else 'Strided'}"
        )
    return products.sampled(input, mat1, mat2, beta, alpha)


def sum(input: Tensor, dim: Any = None, dtype: Any = None) -> Tensor:
    """The sum of all elements, or over dimensions: sparse while a sparse dimension is left.

    Raises LazytError for other layouts than COO.

    Example:
        >>> import lazyt
        >>> s = lazyt.sparse_coo_tensor([[0, 1], [2, 0]], [3.0, 4.0], (2, 3))
        >>> lazyt.sparse.sum(s)
        tensor(7.)
    """
    if dim is None:
        tensor = need_coo(input, "coalesce")
        found: Tensor = tensor.coalesce().values().sum(dtype=dtype)
        return found
    if not isinstance(input, CooTensor):
        refuse(input, "_indices")  # type: ignore[arg-type]
    found = arithmetic.sum_over(input, dim, False, dtype)
    sparse = isinstance(found, SparseTensor) and dtype is None
    return found.to(input.dtype) if sparse else found


def softmax(input: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
    """Softmax along one dimension of the elements that a COO tensor holds; those it does not hold
    count as minus infinity. Raises LazytError.

    Example:
        >>> import lazyt
        >>> s = lazyt.sparse_coo_tensor([[0, 0], [0, 1]], [1.0, 1.0], (2, 3))
        >>> lazyt.sparse.softmax(s, 1).values()
        tensor([0.5000, 0.5000])
    """
    return arithmetic.softmax(input, dim, dtype=dtype)


def log_softmax(input: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
    """The logarithm of ``softmax``. Raises LazytError.

    Example:
        >>> import lazyt
        >>> s = lazyt.sparse_coo_tensor([[0, 0], [0, 1]], [1.0, 1.0], (2, 3))
        >>> lazyt.sparse.log_softmax(s, 1).values()
        tensor([-0.6931, -0.6931])
    """
    return arithmetic.softmax(input, dim, dtype=dtype, log=True)


def spdiags(diagonals: Tensor, offsets: Tensor, shape: Any, layout: Any = None) -> Tensor:
    """A matrix from its diagonals: row i of ``diagonals`` is that at ``offsets[i]``, and its
    element j stands in column j.

    Raises LazytError for offsets that are there twice, and other numbers of dimensions.

    Example:
        >>> import lazyt
        >>> lazyt.sparse.spdiags(lazyt.ones(1, 3), lazyt.tensor([1]), (3, 3)).to_dense()
        tensor([[0., 1., 0.],
                [0., 0., 1.],
                [0., 0., 0.]])
    """
    from lazyt.functional.sparse.coordinates import from_diagonals

    found: Tensor = from_diagonals(diagonals, offsets, shape)
    return found if layout is None else found.to_sparse(layout=layout)


class check_sparse_tensor_invariants:
    """Whether sparse tensors are checked when they are made: a context manager and a decorator.

    Args:
        enable: whether they are inside of it.
    """

    def __init__(self, enable: bool = True) -> None:
        self.state = enable
        self.saved_state: bool | None = None

    @staticmethod
    def is_enabled() -> bool:
        """Whether they are checked now."""
        return checking.enabled

    @staticmethod
    def enable() -> None:
        """Check them from now on."""
        checking.enabled = True

    @staticmethod
    def disable() -> None:
        """Check them no longer."""
        checking.enabled = False

    def __enter__(self) -> None:
        if self.saved_state is not None:
            raise LazytError(
                "This context manager instance is already activated. Use a different context "
                "manager instance for context nesting."
            )
        self.saved_state, checking.enabled = checking.enabled, self.state

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        assert self.saved_state is not None
        checking.enabled, self.saved_state = self.saved_state, None

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function with checks as this object says."""

        @wraps(function)
        def checked(*args: Any, **kwargs: Any) -> Any:
            with type(self)(self.state):
                return function(*args, **kwargs)

        return checked
