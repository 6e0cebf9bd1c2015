"""Norms of vectors and matrices, distances between tensors, and condition numbers.

Gradients are zero, not NaN, where a norm is zero, as in PyTorch.
"""

from __future__ import annotations

import math
from typing import Any

from lazyt import ops
from lazyt.errors import BoundsError, DTypeError, LazytError, ShapeError
from lazyt.functional.linalg.decompositions import singular_parts
from lazyt.functional.linalg.matrices import check_floating, check_matrix, require_square
from lazyt.functional.linalg.solvers import inv_ex
from lazyt.functional.operands import (
    mapped,
    normalize_dim,
    normalize_dims,
    numpy_names,
    require_tensor,
)
from lazyt.functional.reductions.reductions import reduce_node
from lazyt.functional.result_layout import row_major
from lazyt.functional.results import SAME_DTYPE, give
from lazyt.functional.type_promotion import as_dtype, torch_name
from lazyt.handle.autocast import in_full_precision
from lazyt.handle.function_table import function
from lazyt.handle.tensor import Tensor
from lazyt.ir.dtypes import DType
from lazyt.ir.graph import Node
from lazyt.ir.scalar import Expr, call, const
from lazyt.ops.builders import keepdim_shape

__all__ = ["dist", "frobenius_norm", "norm", "norm_except_dim", "nuclear_norm", "renorm"]


# ------------------------------------------------------------------- vectors


def _square(x: Expr) -> Expr:
    return call("mul", x, x)


def _magnitude(x: Expr) -> Expr:
    return call("abs", x)


def _presence(x: Expr) -> Expr:
    zero = const(0, x.dtype)
    return call("where", call("ne", x, zero), const(1, x.dtype), call("mul", x, zero))


def _root(total: Expr) -> Expr:
    """The square root with slope 1 in the place of infinity at 0."""
    empty = call("eq", total, const(0, total.dtype))
    return call("where", empty, total, call("sqrt", _without(empty, total)))


def _without(empty: Expr, value: Expr) -> Expr:
    """``value`` with 1 in the place of zeros, so that no slope is infinite there."""
    return call("where", empty, const(1, value.dtype), value)


def _power(size: Expr, p: Expr) -> Expr:
    """``abs(size) ** p``, flat at 0."""
    zero = const(0, size.dtype)
    empty = call("eq", size, zero)
    raised = call("pow", call("abs", _without(empty, size)), p)
    return call("where", empty, call("pow", zero, p), raised)


def _inverse_power(total: Expr, p: Expr) -> Expr:
    """``total ** p`` with slope 1 in the place of infinity at 0."""
    zero = const(0, total.dtype)
    flat = call("logical_and", call("eq", total, zero), call("gt", p, zero))
    return call("where", flat, total, call("pow", _without(flat, total), p))


def norm_node(node: Node, p: float, axes: tuple[int, ...]) -> Node:
    """The p-norm over ``axes``, which are removed, in the type of ``node``, no 16-bit one; of
    complex numbers in that of their parts."""
    if node.dtype.kind == "c":
        node = ops.apply("magnitude", node)
    dtype = node.dtype
    if p == 2:
        squares = mapped(_square, (node,), dtype, None)
        return mapped(_root, (reduce_node("sum", squares, axes, False),), dtype, None)
    if p == 0:
        present = mapped(_presence, (node,), dtype, None)
        return reduce_node("sum", present, axes, False)
    if math.isinf(p) or p == 1:
        kind = "sum" if p == 1 else ("max" if p > 0 else "min")
        return reduce_node(kind, mapped(_magnitude, (node,), dtype, None), axes, False)
    powers = mapped(_power, (node, ops.constant(p, dtype)), dtype, None)
    total = reduce_node("sum", powers, axes, False)
    return mapped(_inverse_power, (total, ops.constant(1 / p, dtype)), dtype, None)


def _result_dtype(input: Tensor, dtype: Any, function: str) -> DType:
    check_floating(input, function)
    if dtype is None:
        return input.dtype
    wanted = as_dtype(dtype)
    if wanted.kind not in "fc":
        raise DTypeError(
            f"{function}: the desired dtype should be either floating point or complex, but got "
            f"{torch_name(wanted)} instead"
        )
    if wanted.itemsize < input.dtype.itemsize:
        raise DTypeError(
            f"{function}: the dtype of the input ({torch_name(input.dtype)}) should be convertible "
            f"without narrowing to the specified dtype ({torch_name(wanted)})"
        )
    return wanted


def _order_text(p: float) -> str:
    return str(int(p)) if p == int(p) else str(p)


def _check_not_empty(shape: tuple[int, ...], p: float, axes: tuple[int, ...], dim: Any) -> None:
    """An extreme of nothing does not exist."""
    if not (p < 0 or p == math.inf) or 0 not in [shape[a] for a in axes]:
        return
    name = "inf" if p == math.inf else ("-inf" if p == -math.inf else _order_text(p))
    head = f"linalg.vector_norm cannot compute the {name} norm on "
    tail = "empty and the operation does not have an identity"
    if dim is None or dim == []:
        raise ShapeError(head + "an empty tensor because the operation does not have an identity")
    axis = next(a for a in axes if shape[a] == 0)
    raise ShapeError(head + f"the dimension {axis} because this dimension is {tail}")


@function(cast="full_by_default", grad_name="LinalgVectorNorm", saves="ar", out_dtype=SAME_DTYPE)
@numpy_names
def vector_norm(
    input: Tensor, ord: float = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None,
    out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The p-norm of all elements, or along ``dim``, one dimension or several.

    ``ord``: a number, 0 counts what is not 0, ``inf`` and ``-inf`` are the extremes of ``abs``.
    ``dtype`` converts first. Raises DTypeError for integers and for a dtype that narrows,
    ShapeError for an extreme of nothing.
    """
    wanted = _result_dtype(input, dtype, "linalg.vector_norm")
    p = float(ord)
    axes = normalize_dims(dim, len(input.shape))
    _check_not_empty(tuple(input.shape), p, axes, dim)
    node = norm_node(ops.cast(input.node, wanted.compute), p, axes)
    node = ops.cast(node, wanted.part)
    if keepdim:
        node = ops.reshape(node, keepdim_shape(tuple(input.shape), axes))
    return give(node, "LinalgVectorNorm", (input,), out)


# ------------------------------------------------------------------- matrices


def _matrix_axes(A: Tensor, dim: Any) -> tuple[int, int]:
    places = tuple(dim) if isinstance(dim, (tuple, list)) else (dim,)
    if len(places) != 2:
        got = ", ".join(map(str, places))
        raise ShapeError(f"linalg.matrix_norm: dim must be a 2-tuple. Got {got}")
    first, second = (normalize_dim(d, len(A.shape)) for d in places)
    if first == second:
        raise ShapeError(
            f"linalg.matrix_norm: dims must be different. Got ({places[0]}, {places[1]})"
        )
    return first, second


def _check_order(ord: Any) -> None:
    known = ("fro", "nuc") if isinstance(ord, str) else (1, -1, 2, -2, math.inf, -math.inf)
    if ord not in known:
        text = ord if isinstance(ord, str) else _order_text(float(ord))
        raise LazytError(f"linalg.matrix_norm: Order {text} not supported.")


@function(cast="full_by_default")
def matrix_norm(
    input: Tensor, ord: Any = "fro", dim: Any = (-2, -1), keepdim: bool = False, *,
    dtype: Any = None, out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The norm of matrices, which lie in the two dimensions ``dim``.

    ``ord``: ``"fro"``, ``"nuc"`` (the sum of singular values), 2 and -2 (the largest and the
    smallest of them), 1 and -1 (of the columns' sums of ``abs``), ``inf`` and ``-inf`` (of the
    rows'). Raises LazytError for others, DTypeError and ShapeError as ``vector_norm``.
    """
    require_tensor(input, "matrix_norm")
    check_matrix(input, "linalg.matrix_norm")
    wanted = _result_dtype(input, dtype, "linalg.matrix_norm")
    _check_order(ord)
    first, second = _matrix_axes(input, dim)
    if ord == "fro":
        return vector_norm(input, 2, (first, second), keepdim, dtype=dtype, out=out)
    if dtype is not None:
        input = input.to(wanted)
    matrices = input.movedim((first, second), (-2, -1))
    if isinstance(ord, str) or abs(ord) == 2:
        check_floating(matrices, "linalg.matrix_norm", low=False)
        result = _spectral_norm(matrices, ord)
    else:
        result = _largest_sum(matrices, float(ord))
    if keepdim:
        result = result.reshape(keepdim_shape(tuple(input.shape), (first, second)))
    return result if out is None else give(result.node, "LinalgMatrixNorm", (result,), out)


def _spectral_norm(matrices: Tensor, ord: Any) -> Tensor:
    values = give(singular_parts(matrices, "values")[0], "LinalgSvd", (matrices,))
    if ord == "nuc":
        total: Tensor = values.sum(-1)
        return total
    return _extreme(values, ord > 0)


def _largest_sum(matrices: Tensor, ord: float) -> Tensor:
    """The extreme of the sums over columns (1) or rows (inf)."""
    return _extreme(matrices.abs().sum(-2 if abs(ord) == 1 else -1), ord > 0)


def _extreme(values: Tensor, largest: bool) -> Tensor:
    """Along the last dimension; 0 of nothing."""
    if values.shape[-1] == 0:
        total: Tensor = values.sum(-1)
        return total
    result: Tensor = values.amax(-1) if largest else values.amin(-1)
    return result


@function(cast="full_by_default")
@numpy_names
def linalg_norm(
    input: Tensor, ord: Any = None, dim: Any = None, keepdim: bool = False, *, dtype: Any = None,
    out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """``matrix_norm`` or ``vector_norm``, whichever ``ord`` and the number of dimensions mean.

    Without ``ord`` the 2-norm over ``dim``, or of all elements. Raises ShapeError for ``dim`` of
    more than two, and for an ``ord`` without ``dim`` for more than two dimensions.
    """
    rank = len(input.shape)
    places = None if dim is None else (dim if isinstance(dim, (tuple, list)) else (dim,))
    if places is not None and ord is not None and len(places) not in (1, 2):
        raise ShapeError(
            "linalg.norm: If dim is specified, it must be of length 1 or 2. "
            f"Got [{', '.join(map(str, places))}]"
        )
    if places is None and ord is not None and rank not in (1, 2):
        raise ShapeError(
            "linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. "
            f"Got {rank}D."
        )
    of_matrix = len(places) == 2 if places is not None else rank == 2
    if ord is not None and (isinstance(ord, str) or of_matrix):
        return matrix_norm(input, ord, places or (0, 1), keepdim, dtype=dtype, out=out)
    return vector_norm(input, 2 if ord is None else ord, dim, keepdim, dtype=dtype, out=out)


@function(method=True, cast="full_by_default")
@numpy_names
def norm(
    input: Tensor, p: Any = "fro", dim: Any = None, keepdim: bool = False,
    out: Tensor | None = None, dtype: Any = None,
) -> Tensor:  # fmt: skip
    """``torch.norm``: the p-norm of vectors along ``dim``, of all elements by default.

    ``p`` is a number, ``"fro"`` (2) or ``"nuc"`` (of the matrices in two dimensions). Raises as
    ``linalg.vector_norm`` and ``linalg.matrix_norm``.
    """
    places = [dim] if isinstance(dim, int) else dim
    if not isinstance(p, str) or (p == "fro" and (places is None or len(places) <= 2)):
        order = 2.0 if p is None or isinstance(p, str) else p
        return vector_norm(input, order, places, keepdim, dtype=dtype, out=out)
    if places is None:
        places = list(range(len(input.shape)))
    return matrix_norm(input, p, places, keepdim, dtype=dtype, out=out)


@function(cast="full")
def frobenius_norm(
    input: Tensor, dim: Any, keepdim: bool = False, *, out: Tensor | None = None
) -> Tensor:
    """The 2-norm along ``dim``, one dimension or several."""
    return vector_norm(input, 2, dim, keepdim, out=out)


@function(cast="full")
def nuclear_norm(
    input: Tensor, dim: Any = None, keepdim: bool = False, *, out: Tensor | None = None
) -> Tensor:
    """The sum of the singular values of a matrix, or of matrices in the two dimensions ``dim``.

    Without ``dim`` these are the last two; raises ShapeError for less than two dimensions.
    """
    require_tensor(input, "nuclear_norm")
    if isinstance(dim, bool):  # nuclear_norm(input, keepdim)
        dim, keepdim = None, dim
    if dim is None and len(input.shape) < 2:
        raise ShapeError(
            f"Expected a tensor with 2 dimensions, but got a tensor with {len(input.shape)} "
            f"dimension{'' if len(input.shape) == 1 else 's'} instead."
        )
    return matrix_norm(input, "nuc", (-2, -1) if dim is None else dim, keepdim, out=out)


@function()
def norm_except_dim(v: Tensor, pow: int = 2, dim: int = 0) -> Tensor:
    """The norm over all dimensions but ``dim``, which are kept; over all for -1.

    Raises BoundsError for tensors without dimensions.
    """
    require_tensor(v, "norm_except_dim", "v")
    if dim == -1:
        return norm(v, pow)
    rank = len(v.shape)
    if not rank:
        raise BoundsError("norm_except_dim takes tensors with at least one dimension")
    kept = normalize_dim(dim, rank)
    others = [a for a in range(rank) if a != kept]
    return norm(v, pow, others, keepdim=True) if others else norm(v.unsqueeze(1), pow, [1])


@function(method=True, cast="full")
def dist(input: Tensor, other: Tensor, p: float = 2) -> Tensor:
    """The p-norm of ``input - other``, which broadcast. Raises DTypeError for whole numbers."""
    gap: Tensor = input - other
    if gap.dtype.kind not in "fc":
        raise DTypeError(
            "norm(): input dtype should be either floating point or complex. "
            f"Got {torch_name(gap.dtype)} instead."
        )
    return norm(gap, p)


def _shrinking(size: Expr, limit: Expr) -> Expr:
    """What brings a norm down to ``limit``; PyTorch adds 1e-7 to the norm."""
    factor = call("div", limit, call("add", size, const(1e-7, size.dtype)))
    return call("where", call("gt", size, limit), factor, const(1, size.dtype))


@function(
    method=True, inplace="method", cast="full", saves="s", layout=row_major, out_dtype=SAME_DTYPE
)
def renorm(
    input: Tensor, p: float, dim: int, maxnorm: float, *, out: Tensor | None = None
) -> Tensor:
    """``input`` with its slices along ``dim`` scaled down to a p-norm of ``maxnorm`` at most.

    Raises LazytError for a norm that is not positive, a negative ``maxnorm``, and for vectors.
    """
    if not float(p) > 0:  # nor NaN
        raise LazytError("renorm: non-positive-norm not supported")
    if not float(maxnorm) >= 0:
        raise LazytError(f"renorm: expected maxnorm to be >= 0 but got {maxnorm}")
    rank = len(input.shape)
    if rank < 2:
        raise ShapeError(f"renorm: input needs at least 2 dimensions, got {rank} dimensions")
    kept = normalize_dim(dim, rank)
    sizes = vector_norm(input, p, [a for a in range(rank) if a != kept], True)
    dtype = sizes.dtype
    limit = ops.constant(maxnorm, dtype.compute)
    factor = mapped(_shrinking, (sizes.node, limit), dtype, dtype)
    return give((input * give(factor, "Where", (sizes,))).node, "Renorm", (input,), out)


# ------------------------------------------------------------------- condition numbers


@function()
@in_full_precision
def cond(input: Tensor, p: Any = None, *, out: Tensor | None = None) -> Tensor:
    """How much ``input`` magnifies errors: the norm times that of the inverse; ``inf`` if singular.

    ``p``: None or 2 and -2 (by singular values), or another order of ``matrix_norm``, then for
    square matrices. Raises LazytError for others.
    """
    require_tensor(input, "cond")
    check_matrix(input, "linalg.cond", "")
    if p is None or p in (2, -2):
        values = give(singular_parts(input, "values")[0], "LinalgSvd", (input,))
        if values.shape[-1] == 0:
            return give(values.sum(-1).node, "Div", (input,), out)
        largest, smallest = values[..., 0], values[..., -1]
        ratio = smallest / largest if p == -2 else largest / smallest
        return give(ratio.node, "Div", (ratio,), out)
    if p not in ("fro", "nuc", 1, -1, math.inf, -math.inf):
        text = p if isinstance(p, str) else _order_text(float(p))
        raise LazytError(f"linalg.cond got an invalid norm type: {text}")
    text = p if isinstance(p, str) else _order_text(float(p)) if math.isfinite(p) else str(p)
    require_square(input, f"linalg.cond(ord={text}): A")
    inverse, info = inv_ex(input)
    product = matrix_norm(input, p) * matrix_norm(inverse, p)
    product = product.masked_fill(info > 0, math.inf)
    return give(product.node, "Mul", (product,), out)
