"""Arithmetic on sparse tensors: element by element, sums and softmax."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from lazyt import ops
from lazyt.errors import LazytError, NoKernelError, ShapeError
from lazyt.functional.operands import as_number, existing_dim, normalize_dims
from lazyt.functional.sparse.coordinates import (
    coalesced,
    concatenated,
    found_in,
    joined,
    to_coordinates,
    with_coordinates,
)
from lazyt.functional.sparse.tensors import (
    CompressedTensor,
    CooTensor,
    SparseTensor,
    coo,
    need_coo,
    picked,
    refuse,
    segments,
)
from lazyt.handle.dispatch import type_title, wrap
from lazyt.handle.grad_mode import no_grad
from lazyt.handle.tensor import Tensor
from lazyt.ir.dtypes import DType, int64

_ADD = "add(sparse, dense) is not supported. Use add(dense, sparse) instead."


def in_layout_of(found: CooTensor, *operands: Any) -> SparseTensor:
    """``found`` with compressed rows or columns where the first sparse operand has them."""
    for operand in operands:
        if isinstance(operand, CompressedTensor):
            made = found.to_sparse(layout=operand.layout)
            assert isinstance(made, SparseTensor)
            return made
        if isinstance(operand, CooTensor):
            break
    return found


def same_indices(a: SparseTensor, b: SparseTensor) -> bool:
    """Whether two tensors are known to have the same indices in the same order."""
    if isinstance(a, CooTensor) and isinstance(b, CooTensor):
        return a._places is b._places or (
            a._places.shape == b._places.shape and a._places.node is b._places.node
        )
    if isinstance(a, CompressedTensor) and isinstance(b, CompressedTensor):
        pairs = ((a._starts, b._starts), (a._others, b._others))
        return a.layout is b.layout and all(x is y or x.node is y.node for x, y in pairs)
    return False


def is_scalar(value: Any) -> bool:
    """Whether a value is a number, or a dense tensor of one without dimensions."""
    if isinstance(value, Tensor):
        return not isinstance(value, SparseTensor) and value.ndim == 0
    return as_number(value) is not None


def added(a: Any, b: Any, alpha: Any = 1) -> Tensor:
    """``a + alpha * b``. Raises LazytError and ShapeError."""
    if not isinstance(a, SparseTensor):
        if not isinstance(a, Tensor) or a.ndim == 0 != b.ndim:
            if isinstance(b, CompressedTensor):
                raise _csr_sizes(a if isinstance(a, Tensor) else None, b)
            raise LazytError(_ADD)
        return _into_dense(a, b, alpha)
    if not isinstance(b, SparseTensor):
        if isinstance(a, CompressedTensor):
            if not isinstance(b, Tensor) or tuple(b.shape) != a._size:
                raise _csr_sizes(b if isinstance(b, Tensor) else None, a)
            return a.to_dense() + (b if alpha == 1 else b * alpha)
        raise LazytError(_ADD)
    if a._size != b._size:
        raise ShapeError(
            "add: expected sizes of 'self' and 'other' to match, but "
            f"{list(a._size)} != {list(b._size)}"
        )
    second = b._held if alpha == 1 else b._held * alpha
    if same_indices(a, b):
        return a.with_values(a._held + second)
    if not isinstance(a, CooTensor) or not isinstance(b, CooTensor):
        one, two = with_coordinates(a), with_coordinates(b)
        return in_layout_of(_added_coo(one, two.with_values(second)), a)
    return _added_coo(a, b.with_values(second))


def _csr_sizes(dense: Tensor | None, sparse: SparseTensor) -> ShapeError:
    return ShapeError(
        "add: expected 'self' and 'other' to have same size, but self has size "
        f"{[] if dense is None else list(dense.shape)} while other has size {list(sparse._size)} "
        "(FYI: op2-sparse addition does not currently support broadcasting)"
    )


def _added_coo(a: CooTensor, b: CooTensor) -> CooTensor:
    if a.sparse_dim() != b.sparse_dim():
        raise LazytError(
            "add: expected 'self' and 'other' to have same number of sparse dimensions, but got "
            f"{a.sparse_dim()} and {b.sparse_dim()}"
        )
    if not b._nnz() and a.dtype is b.dtype:
        return a
    ordered = a._is_coalesced and b._is_coalesced
    found = concatenated([a, b.with_values(b._held)], 0)
    places = wrap(ops.concat([a._places.node, b._places.node], 1))
    made = coo(places, found._held, a._size, False, a._checked and b._checked)
    return coalesced(made) if ordered else made


def _into_dense(a: Tensor, b: SparseTensor, alpha: Any) -> Tensor:
    """``a + alpha * b`` with a dense ``a``: the values are added to its elements in order."""
    if tuple(a.shape) != b._size:
        raise ShapeError(
            "add: expected 'self' and 'other' to have same size, but self has size "
            f"{list(a.shape)} while other has size {list(b._size)} (FYI: dense-sparse addition "
            "does not currently support broadcasting)"
        )
    tensor = with_coordinates(b)
    values = tensor._held if alpha == 1 else tensor._held * alpha
    dtype = (a[:0] if a.ndim else a.reshape(1)[:0]).new_zeros(1).add(values.new_zeros(1)).dtype
    sizes, rest = tensor.sparse_sizes, tuple(values.shape[1:])
    flat = a.to(dtype).reshape((math.prod(sizes), *rest))
    if not tensor._nnz():
        return flat.reshape(a.shape).clone()
    held = values.to(dtype)
    node = ops.scatter(flat.node, tensor.keys(), held.node, 0, "add")
    found: Tensor = wrap(node, flat, held, name="Add").reshape(a.shape)
    return found


def multiplied(a: Any, b: Any) -> Tensor:
    """``a * b``: the elements that both have. Raises ShapeError and LazytError."""
    if not isinstance(a, SparseTensor):
        return multiplied(b, a)
    if is_scalar(b):
        return a.with_values(a._held * b)
    if not isinstance(b, Tensor):
        raise LazytError(f"mul: a sparse tensor is not multiplied by {type(b).__name__}")
    if not isinstance(b, SparseTensor):
        if b.ndim > a.ndim or tuple(b.broadcast_to(a._size).shape) != a._size:
            raise ShapeError(
                f"mul: expected the dense factor to fit the size {list(a._size)}, but it has "
                f"{list(b.shape)}"
            )
        tensor = with_coordinates(a)
        other = b.broadcast_to(a._size) if tuple(b.shape) != a._size else b
        flat = other.reshape((tensor.count_of_keys(), *tensor._held.shape[1:]))
        return a.with_values(a._held * picked(flat, wrap(tensor.keys())))
    if a._size != b._size:
        raise ShapeError(
            "mul operands have incompatible sizes: expected sizes of 'self' and 'other' to match, "
            f"but {list(a._size)} != {list(b._size)}"
        )
    if same_indices(a, b) and (not isinstance(a, CooTensor) or a._is_coalesced):
        return a.with_values(a._held * b._held)
    one, two = coalesced(with_coordinates(a)), coalesced(with_coordinates(b))
    if one.sparse_dim() != two.sparse_dim():
        raise LazytError(
            "mul: expected 'self' and 'other' to have same number of sparse dimensions"
        )
    if not one._nnz() or not two._nnz():
        empty = one._held[:0] * two._held[:0]
        return in_layout_of(coo(one._places[:, :0], empty, one._size, True, True), a)
    with no_grad():
        at, there = found_in(two, wrap(one.keys()))
        own = there.nonzero().reshape(-1)
        at = picked(at, own)
        places = joined([picked(one._places[axis], own) for axis in range(one.sparse_dim())])
    values = picked(one._held, own) * picked(two._held, at)
    return in_layout_of(coo(places, values, one._size, True, True), a)


def divided(a: Any, b: Any, rounding_mode: str | None = None) -> Tensor:
    """``a / b`` with a number, or a tensor without dimensions. Raises LazytError."""
    if not isinstance(a, SparseTensor) or not is_scalar(b):
        shape = list(b.shape) if isinstance(b, Tensor) else []
        raise LazytError(
            "Sparse division requires a scalar or zero-dim dense tensor divisor (got shape "
            f"{shape} for divisor)"
        )
    if rounding_mode is not None and isinstance(a, CooTensor):
        a = coalesced(a)
    found: Tensor = a.with_values(a._held.div(b, rounding_mode=rounding_mode))
    return found


def raised(a: SparseTensor, exponent: Any) -> Tensor:
    """``a ** exponent`` for a number that is not zero. Raises LazytError."""
    if isinstance(exponent, Tensor) or not isinstance(a, SparseTensor):
        refuse(a if isinstance(a, SparseTensor) else exponent, "pow.Tensor_Tensor")
    if exponent == 0:
        raise LazytError(
            "pow: cannot raise to zeroth power on sparse tensor; it would make the result tensor "
            "dense"
        )
    tensor = coalesced(a) if isinstance(a, CooTensor) else a
    return tensor.with_values(tensor._held**exponent)


def of_values(function: Callable[..., Any], linear: bool = False) -> Callable[..., Any]:
    """A function of one tensor that gives zero for zero, on the values of a sparse one.

    Args:
        linear: whether it may be applied to elements that are there several times.
    """

    def run(tensor: SparseTensor, *args: Any, **kwargs: Any) -> SparseTensor:
        if not linear and isinstance(tensor, CooTensor):
            tensor = coalesced(tensor)
        return tensor.with_values(function(tensor._held, *args, **kwargs))

    return run


# ---------------------------------------------------------------------- sums


def total(
    input: SparseTensor, dim: Any = None, keepdim: bool = False, *, dtype: DType | None = None
) -> Tensor:
    """``torch.sum`` of a sparse tensor: dense where no sparse dimension is left."""
    if dim is None or (isinstance(dim, (tuple, list)) and not dim):
        return input._held.sum(dtype=dtype)
    if isinstance(input, CompressedTensor):
        if not keepdim:
            raise LazytError(
                "reduction operations on CSR tensors with keepdim=False is unsupported"
            )
        found = sum_over(to_coordinates(input), dim, True, dtype)
        return in_layout_of(found, input) if isinstance(found, CooTensor) else found
    assert isinstance(input, CooTensor)
    return sum_over(input, dim, keepdim, dtype)


def sum_over(input: CooTensor, dim: Any, keepdim: bool, dtype: DType | None) -> Tensor:
    """The sum over some dimensions."""
    dims = normalize_dims(dim, input.ndim)
    sparse = input.sparse_dim()
    values = input._held if dtype is None else input._held.to(dtype)
    if values.dtype.kind in "biu":
        values = values.to(int64)
    inner = [d - sparse + 1 for d in dims if d >= sparse]
    if inner:
        values = values.sum(inner, keepdim=keepdim)
    outer = [d for d in dims if d < sparse]
    if keepdim:
        size = tuple(1 if d in dims else e for d, e in enumerate(input._size))
    else:
        size = tuple(e for d, e in enumerate(input._size) if d not in dims)
    if not outer:
        return coo(input._places, values, size, input._is_coalesced, input._checked)
    left = [axis for axis in range(sparse) if axis not in outer]
    if not left and not keepdim:
        return values.sum(0)
    with no_grad():
        zeros = wrap(ops.broadcast_to(ops.constant(0, int64), (input._nnz(),)))
        rows = [
            zeros if axis in outer else input._places[axis]
            for axis in range(sparse)
            if keepdim or axis not in outer
        ]
        places = joined(rows)
    return coalesced(coo(places, values, size, False, input._checked))


def softmax(input: Tensor, dim: int, *, dtype: DType | None = None, log: bool = False) -> CooTensor:
    """Softmax along one dimension over the elements that are there; the others count as minus
    infinity. Raises LazytError for other layouts."""
    if isinstance(input, CompressedTensor):
        refuse(input, "_sparse_log_softmax" if log else "_sparse_softmax")
    tensor = coalesced(need_coo(input, "log_softmax" if log else "softmax"))
    axis = existing_dim(dim, tensor.ndim)
    held = tensor._held if dtype is None else tensor._held.to(dtype)
    if held.dtype.kind not in "f":
        title = "log_softmax" if log else "softmax"
        raise NoKernelError(f"\"{title}\" not implemented for '{type_title(held.dtype)}'")
    if axis >= tensor.sparse_dim():
        inner = axis - tensor.sparse_dim() + 1
        return tensor.with_values(held.log_softmax(inner) if log else held.softmax(inner))
    if not tensor._nnz():
        return tensor.with_values(held)
    keys, count = tensor.keys([axis]), tensor.count_of_keys([axis])
    at = wrap(keys)
    with no_grad():
        peak = picked(segments("max", held.detach(), keys, count, "Amax"), at)
    shifted = held - peak
    grown = shifted.exp()
    sums = picked(segments("add", grown, keys, count, "SparseSoftmax"), at)
    return tensor.with_values(shifted - sums.log() if log else grown / sums)


def norm(input: SparseTensor, p: Any = 2) -> Tensor:
    """``torch.norm`` over all elements."""
    tensor = coalesced(input) if isinstance(input, CooTensor) else input
    found: Tensor = tensor._held.reshape(-1).norm(p)
    return found


def any_of(input: SparseTensor, *dims: Sequence[int]) -> Tensor:
    """Whether an element is not zero."""
    if dims:
        refuse(input, "any.dim")
    tensor = coalesced(input) if isinstance(input, CooTensor) else input
    return tensor._held.any()
