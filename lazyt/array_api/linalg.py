"""Products of vectors and matrices, and the standard's ``linalg`` extension."""

from __future__ import annotations

from typing import Any, NamedTuple

from lazyt import linalg
from lazyt.array_api.creation import together
from lazyt.array_api.functions import axes_of
from lazyt.array_api.functions import sum as total
from lazyt.errors import ShapeError
from lazyt.functional import namespace as lazyt
from lazyt.handle.tensor import Tensor

__all__ = [
    "cholesky", "cross", "det", "diagonal", "eigh", "eigvalsh", "inv", "matmul", "matrix_norm",
    "matrix_power", "matrix_rank", "matrix_transpose", "outer", "pinv", "qr", "slogdet", "solve",
    "svd", "svdvals", "tensordot", "trace", "vecdot", "vector_norm",
]  # fmt: skip


class EighResult(NamedTuple):
    """Result of ``eigh``."""

    eigenvalues: Tensor
    eigenvectors: Tensor


class QRResult(NamedTuple):
    """Result of ``qr``."""

    Q: Tensor
    R: Tensor


class SlogdetResult(NamedTuple):
    """Result of ``slogdet``."""

    sign: Tensor
    logabsdet: Tensor


class SVDResult(NamedTuple):
    """Result of ``svd``."""

    U: Tensor
    S: Tensor
    Vh: Tensor


def matmul(x1: Tensor, x2: Tensor, /) -> Tensor:
    """The matrix product over the last two axes."""
    return lazyt.matmul(*together(x1, x2))


def matrix_transpose(x: Tensor, /) -> Tensor:
    """The last two axes exchanged. Raises ShapeError for fewer."""
    if x.ndim < 2:
        raise ShapeError("matrix_transpose() takes arrays with at least two dimensions")
    result: Tensor = x.mT
    return result


def tensordot(x1: Tensor, x2: Tensor, /, *, axes: Any = 2) -> Tensor:
    """The sum of products over axes: a number of them, or a list for each array."""
    left, right = together(x1, x2)
    return lazyt.tensordot(left, right, axes)


def vecdot(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    """The sum of products along an axis, which both arrays have, with the conjugates of ``x1``."""
    left, right = together(x1, x2)
    for x in (left, right):
        axes_of(axis, x.ndim)
    if left.shape[axis] != right.shape[axis]:
        raise ShapeError(f"vecdot(): extents {left.shape[axis]} and {right.shape[axis]} differ")
    left, right = lazyt.movedim(lazyt.conj(left), axis, -1), lazyt.movedim(right, axis, -1)
    products: Tensor = left.unsqueeze(-2) @ right.unsqueeze(-1)
    shown: Tensor = products.squeeze(-1).squeeze(-1)
    return shown


def outer(x1: Tensor, x2: Tensor, /) -> Tensor:
    """All products of an element of one vector and one of the other."""
    return lazyt.outer(*together(x1, x2))


def cross(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    """The cross product of vectors of three elements along an axis; other dimensions broadcast."""
    a, b = together(x1, x2)
    if a.shape[axis] == b.shape[axis]:  # else cross refuses them
        a, b = lazyt.broadcast_tensors(a, b)
    return linalg.cross(a, b, dim=axis)


def diagonal(x: Tensor, /, *, offset: int = 0) -> Tensor:
    """The diagonals of matrices."""
    return lazyt.diagonal(x, offset, -2, -1)


def trace(x: Tensor, /, *, offset: int = 0, dtype: Any = None) -> Tensor:
    """The sums along the diagonals of matrices."""
    return total(diagonal(x, offset=offset), axis=-1, dtype=dtype)


def det(x: Tensor, /) -> Tensor:
    """Determinants."""
    return linalg.det(x)


def slogdet(x: Tensor, /) -> SlogdetResult:
    """Signs, and logarithms of absolute values, of determinants."""
    return SlogdetResult(*linalg.slogdet(x))


def inv(x: Tensor, /) -> Tensor:
    """Inverse matrices."""
    return linalg.inv(x)


def solve(x1: Tensor, x2: Tensor, /) -> Tensor:
    """The solutions of ``x1 @ y = x2``; ``x2`` is a vector only if it has one dimension."""
    left, right = together(x1, x2)
    if right.ndim == 1:
        column: Tensor = linalg.solve(left, right.unsqueeze(-1)).squeeze(-1)
        return column
    return linalg.solve(left, right)


def cholesky(x: Tensor, /, *, upper: bool = False) -> Tensor:
    """Triangular factors of positive definite matrices."""
    return linalg.cholesky(x, upper=upper)


def qr(x: Tensor, /, *, mode: str = "reduced") -> QRResult:
    """Orthonormal and upper triangular factors."""
    return QRResult(*linalg.qr(x, mode))


def eigh(x: Tensor, /) -> EighResult:
    """Eigenvalues and eigenvectors of symmetric matrices."""
    return EighResult(*linalg.eigh(x))


def eigvalsh(x: Tensor, /) -> Tensor:
    """Eigenvalues of symmetric matrices."""
    return linalg.eigvalsh(x)


def svd(x: Tensor, /, *, full_matrices: bool = True) -> SVDResult:
    """Singular values and vectors."""
    return SVDResult(*linalg.svd(x, full_matrices))


def svdvals(x: Tensor, /) -> Tensor:
    """Singular values."""
    return linalg.svdvals(x)


def pinv(x: Tensor, /, *, rtol: Any = None) -> Tensor:
    """Pseudoinverses; singular values below ``rtol`` times the largest count as zero."""
    return linalg.pinv(x, rtol=rtol)


def matrix_rank(x: Tensor, /, *, rtol: Any = None) -> Tensor:
    """How many singular values are above ``rtol`` times the largest."""
    return linalg.matrix_rank(x, rtol=rtol)


def matrix_power(x: Tensor, n: int, /) -> Tensor:
    """Matrices multiplied with themselves."""
    return linalg.matrix_power(x, n)


def matrix_norm(x: Tensor, /, *, keepdims: bool = False, ord: Any = "fro") -> Tensor:
    """Norms of matrices."""
    return linalg.matrix_norm(x, ord, (-2, -1), keepdims)


def vector_norm(x: Tensor, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Tensor:
    """Norms of vectors along axes, of all elements by default."""
    return linalg.vector_norm(x, ord, axis, keepdims)
