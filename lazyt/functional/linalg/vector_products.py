"""Cross, scalar and Kronecker products, and tables of powers."""

from __future__ import annotations

import operator

from lazyt import ops
from lazyt.errors import DTypeError, LazytError, ShapeError
from lazyt.functional.linalg.matrix_checks import check_floating, check_same_dtype
from lazyt.functional.operands import normalize_dim, require_tensor
from lazyt.functional.results import give
from lazyt.functional.type_promotion import refuse, torch_name
from lazyt.handle.autocast import in_low_precision
from lazyt.handle.dispatch import lay_out, type_title
from lazyt.handle.function_table import function
from lazyt.handle.tensor import Tensor
from lazyt.handle.views import strides_of_view
from lazyt.ir.dtypes import bool_, int64

__all__ = ["cross", "kron", "vander"]


@function(cast="widest")
def linalg_cross(
    input: Tensor, other: Tensor, *, dim: int = -1, out: Tensor | None = None
) -> Tensor:
    """The cross products of vectors of three elements along ``dim``; the rest broadcasts.

    Raises ShapeError for other sizes or ranks that differ, DTypeError for two dtypes and for bool.
    """
    require_tensor(input, "linalg_cross")
    if len(input.shape) != len(other.shape):
        raise ShapeError("linalg.cross: inputs must have the same number of dimensions.")
    axis = normalize_dim(dim, len(input.shape))
    if input.shape[axis] != 3 or other.shape[axis] != 3:
        raise ShapeError(
            f"linalg.cross: inputs dimension {dim} must have length 3. Got {input.shape[axis]} and "
            f"{other.shape[axis]}"
        )
    if input.dtype is not other.dtype:
        raise DTypeError(
            f"expected scalar type {torch_name(input.dtype)} but found {torch_name(other.dtype)}"
        )
    if input.dtype is bool_:
        refuse("cross", bool_)
    x = [input.narrow(axis, i, 1) for i in range(3)]
    y = [other.narrow(axis, i, 1) for i in range(3)]
    turns = [(x[(i + 1) % 3], y[(i + 2) % 3], x[(i + 2) % 3], y[(i + 1) % 3]) for i in range(3)]
    parts = [(a * b - c * d).node for a, b, c, d in turns]
    return give(ops.concat(parts, axis), "LinalgCross", (input, other), out)


@function(method=True, cast="widest")
def cross(
    input: Tensor, other: Tensor, dim: int | None = None, *, out: Tensor | None = None
) -> Tensor:
    """``linalg.cross``; without ``dim`` along the first dimension of three elements."""
    require_tensor(input, "cross")
    if dim is None:
        places = [axis for axis, extent in enumerate(input.shape) if extent == 3]
        if not places:
            raise ShapeError("no dimension of size 3 in input")
        dim = places[0]
    return linalg_cross(input, other, dim=dim, out=out)


@function()
@in_low_precision
def vecdot(x: Tensor, y: Tensor, *, dim: int = -1, out: Tensor | None = None) -> Tensor:
    """The scalar products of vectors along ``dim``; the rest broadcasts.

    Raises DTypeError for integers and two dtypes, ShapeError for shapes that do not broadcast.
    """
    require_tensor(x, "vecdot", "x")
    check_floating(x, "linalg.vecdot")
    check_same_dtype(x, y, "linalg.vecdot", ("x", "y"))
    product: Tensor = x * y
    total: Tensor = product.sum(dim)
    return give(total.node, "LinalgVecdot", (x, y), out)


@function(method=True)
def kron(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The Kronecker product: blocks of ``other`` times each element of ``input``.

    The shorter shape is led by ones.
    """
    require_tensor(input, "kron")
    require_tensor(other, "kron", "other", 2)
    rank = max(len(input.shape), len(other.shape))
    a, b = ((1,) * (rank - len(t.shape)) + tuple(t.shape) for t in (input, other))
    left = input.reshape([n for extent in a for n in (extent, 1)])
    right = other.reshape([n for extent in b for n in (1, extent)])
    product: Tensor = left * right
    sizes = tuple(m * n for m, n in zip(a, b))
    result = give(ops.reshape(product.node, sizes), "Kron", (input, other), out)
    strides = strides_of_view(tuple(product.shape), product.strides, sizes)
    return result if strides is None or out is not None else lay_out(result, strides)


@function()
def vander(x: Tensor, N: int | None = None, increasing: bool = False) -> Tensor:
    """Powers of a vector as columns, falling unless ``increasing``.

    Raises ShapeError for other ranks and LazytError for a negative ``N``.
    """
    require_tensor(x, "vander", "x")
    if len(x.shape) != 1:
        raise ShapeError("x must be a one-dimensional tensor.")
    count = x.shape[0] if N is None else operator.index(N)
    if count < 0:
        raise LazytError("N must be non-negative.")
    table = _powers(x, count)
    return table if increasing else table.flip(-1)


@function()
def linalg_vander(x: Tensor, *, N: int | None = None) -> Tensor:
    """Rising powers of the elements of vectors, along a new last dimension.

    Raises LazytError for ``N`` below 2 and DTypeError for bool and 16-bit floats.
    """
    require_tensor(x, "linalg_vander", "x")
    if x.dtype is bool_ or x.dtype.is_half:
        raise DTypeError(
            "linalg.vander supports floating point, complex, and integer tensors, but got "
            + type_title(x.dtype)
        )
    count = N if N is not None else (x.shape[-1] if x.shape else 1)
    if count <= 1:
        raise LazytError("N must be greater than 1.")
    return _powers(x if x.shape else x.reshape(1), count)


def _powers(x: Tensor, count: int) -> Tensor:
    """``x ** 0`` to ``x ** (count - 1)`` along a new last dimension, each from the one before."""
    node = x.node
    dtype = node.dtype
    if dtype.kind != "f":
        node, dtype = ops.cast(node, int64), int64
    flat = (*node.shape, 1)
    one = ops.broadcast_to(ops.constant(1, dtype), flat)
    if count == 0:
        return give(ops.broadcast_to(ops.constant(1, dtype), (*node.shape, 0)), "", ())
    repeated = ops.broadcast_to(ops.reshape(node, flat), (*node.shape, count - 1))
    table = ops.concat([one, repeated], len(node.shape)) if count > 1 else one
    return give(ops.scan("prod", table, len(node.shape)), "Cumprod", (x,))
