"""Matrix products, all on the ``contract`` op: operands are labelled and never copied."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from math import prod
from typing import Any

from lazyt import ops
from lazyt.errors import DTypeError, LazytError, ShapeError
from lazyt.functional.elementwise.arithmetic import mul, scalar_build
from lazyt.functional.linalg.matrices import check_floating, check_same_dtype
from lazyt.functional.operands import (
    broadcast_pair,
    constant_of,
    expand_to,
    mapped,
    normalize_dim,
    normalize_dims,
    require_tensor,
)
from lazyt.functional.results import SAME_DTYPE, give
from lazyt.functional.type_promotion import c_name, check_product_types, refuse, torch_name
from lazyt.handle.autocast import in_low_precision, lowered
from lazyt.handle.dispatch import lay_out, type_title
from lazyt.handle.function_table import declare, function
from lazyt.handle.tensor import Tensor
from lazyt.handle.views import strides_of_view
from lazyt.ir.dtypes import bool_, int8, int32, int64, uint8
from lazyt.ir.graph import Node, Shape
from lazyt.transforms.derivations import repeated

__all__ = [
    "_int_mm", "bmm", "cross", "dot", "ger", "inner", "kron", "matmul", "mm", "mv", "outer",
    "tensordot", "vander", "vdot",
]  # fmt: skip

_ADD = scalar_build("add")

#: ``ops.product``, asked once for operands of given types.
product_of = repeated(ops.product)


def _check_not_bool(input: Tensor, kernel: str) -> None:
    if input.dtype is bool_:
        refuse(kernel, bool_)


def _empty_bools(a: Tensor, b: Tensor, shape: Shape) -> Node | None:
    """The product of bools where nothing is multiplied, which PyTorch alone allows of them."""
    if a.dtype is not bool_ or (0 not in shape and a.node.size and b.node.size):
        return None
    return expand_to(constant_of(False, bool_), shape)


def _idle_batches(a: Tensor, b: Tensor, shape: Shape) -> Node | None:
    """A product of batches where nothing is multiplied: PyTorch does not look at the dtypes then,
    and gives the second one's."""
    if 0 not in shape and a.node.size and b.node.size:
        return None
    if (a.dtype is b.dtype and a.dtype is not bool_) or a._fn is not None or b._fn is not None:
        return None
    return expand_to(constant_of(0, b.dtype), shape)


def _mismatch(a: Shape, b: Shape) -> ShapeError:
    return ShapeError(
        f"mat1 and mat2 shapes cannot be multiplied ({a[0]}x{a[1]} and {b[0]}x{b[1]})"
    )


@function(
    method=True,
    cast="widest",
    saves="p",
    out_dtype="result dtype {Got} does not match input dtype {Want}",
)
def dot(input: Tensor, tensor: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The inner product of two vectors. Raises ShapeError for other ranks or sizes."""
    require_tensor(input, "dot")
    if len(input.shape) != 1 or len(tensor.shape) != 1:
        raise ShapeError(
            f"1D tensors expected, but got {len(input.shape)}D and {len(tensor.shape)}D tensors"
        )
    if input.dtype is not tensor.dtype:
        raise DTypeError(
            "dot : expected both vectors to have same dtype, but found "
            f"{torch_name(input.dtype)} and {torch_name(tensor.dtype)}"
        )
    _check_not_bool(input, "dot")
    m, n = input.shape[0], tensor.shape[0]
    if m != n:
        raise ShapeError(
            f"inconsistent tensor size, expected tensor [{m}] and src [{n}] to have the same "
            f"number of elements, but got {m} and {n} elements respectively"
        )
    node = product_of(input.node, tensor.node, (0,), (0,), ())
    return give(node, "Dot", (input, tensor), out)


@function(method=True, cast="widest")
def vdot(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """``dot`` of the conjugate of ``input``. Raises ShapeError and DTypeError."""
    if require_tensor(input, "vdot").dtype.kind == "c":
        input = input.conj()
    return dot(input, other, out=out)


@function(method=True, cast="low", saves="p", out_dtype=SAME_DTYPE)
def mv(input: Tensor, vec: Tensor, *, out: Tensor | None = None) -> Tensor:
    """A matrix times a vector. Raises ShapeError for other ranks or sizes."""
    require_tensor(input, "mv")
    if len(input.shape) != 2 or len(vec.shape) != 1:
        raise ShapeError(
            f"vector + matrix @ vector expected, got {1}, {len(input.shape)}, {len(vec.shape)}"
        )
    (rows, columns), size = tuple(input.shape), vec.shape[0]
    _check_vector_size(rows, columns, size)
    empty = _empty_bools(input, vec, (rows,))
    if empty is not None and vec.dtype is bool_:
        return give(empty, "Mv", (input, vec), out)
    check_vector_types(vec, input, vec)
    node = product_of(input.node, vec.node, (0, 1), (1,), (0,), walked_label(input, (0, 1)))
    return give(node, "Mv", (input, vec), out)


def walked_label(matrix: Tensor, labels: tuple[int, int]) -> int:
    """The label of the axis along which a matrix lies in memory."""
    (rows, columns), (down, right) = matrix.shape, matrix.stride()
    return labels[0] if columns == 1 or (rows > 1 and down < right) else labels[1]


def _check_vector_size(rows: int, columns: int, size: int) -> None:
    if columns != size:
        raise ShapeError(f"size mismatch, got input ({rows}), mat ({rows}x{columns}), vec ({size})")


def check_vector_types(input: Tensor, mat: Tensor, vec: Tensor) -> None:
    """Raise DTypeError for a product of a matrix and a vector of several dtypes, or of bools."""
    if input.dtype is not mat.dtype or mat.dtype is not vec.dtype:
        names = [torch_name(item.dtype) for item in (input, mat, vec)]
        raise DTypeError(
            "addmv input tensors must have the same dtype, but got "
            f"{names[0]}, {names[1]}, and {names[2]}"
        )
    _check_not_bool(mat, "addmv_impl_cpu")


@function(method=True, saves="p", out_dtype=SAME_DTYPE)
@in_low_precision
def mm(input: Tensor, mat2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The product of two matrices. Raises ShapeError for other ranks or sizes."""
    require_tensor(input, "mm")
    if input.ndim != 2:
        raise ShapeError("self must be a matrix")
    if len(mat2.shape) != 2:
        raise ShapeError("mat2 must be a matrix")
    x, y = input.node, mat2.node
    (rows, inner), (other, columns) = x.shape, y.shape
    if inner != other:
        raise _mismatch(input.shape, mat2.shape)
    check_product_types(None, input, mat2)
    if x.dtype is bool_:
        empty = _empty_bools(input, mat2, (rows, columns))
        if empty is not None:
            return give(empty, "Mm", (input, mat2), out)
        _check_not_bool(input, "addmm_impl_cpu_")
    walked = walked_label(mat2, (1, 2)) if rows == 1 else None
    if columns == 1:
        walked = walked_label(input, (0, 1))
    node = product_of(x, y, (0, 1), (1, 2), (0, 2), walked)
    return give(node, "Mm", (input, mat2), out)


@function(method=True, saves="p", out_dtype=SAME_DTYPE)
@in_low_precision
def bmm(input: Tensor, mat2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Products of the matrices of two batches. Raises ShapeError for other ranks or sizes."""
    require_tensor(input, "bmm")
    for name, item in (("batch1", input), ("batch2", mat2)):
        if len(item.shape) != 3:
            raise ShapeError(f"{name} must be a 3D tensor")
    b, _, k = input.shape
    if tuple(mat2.shape[:2]) != (b, k):
        raise ShapeError(
            "Expected size for first two dimensions of batch2 tensor to be: "
            f"[{b}, {k}] but got: [{mat2.shape[0]}, {mat2.shape[1]}]."
        )
    idle = _idle_batches(input, mat2, (b, input.shape[1], mat2.shape[2]))
    if idle is not None:
        return give(idle, "Bmm", (), out)
    if input.dtype is not mat2.dtype:
        raise DTypeError(
            f"expected scalar type {torch_name(input.dtype)} but found {torch_name(mat2.dtype)}"
        )
    _check_not_bool(input, "bmm")
    node = product_of(input.node, mat2.node, (0, 1, 2), (0, 2, 3), (0, 1, 3))
    return give(node, "Bmm", (input, mat2), out)


@function(method=True)
@in_low_precision
def matmul(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """``input @ other`` for vectors, matrices and batches of them, which broadcast.

    Raises ShapeError and DTypeError in PyTorch's words.
    """
    for position, item in ((1, input), (2, other)):
        if not isinstance(item, Tensor):
            name = "input" if position == 1 else "other"
            raise DTypeError(
                f"matmul(): argument '{name}' (position {position}) must be Tensor, "
                f"not {type(item).__name__}"
            )
    if input.ndim == other.ndim == 2:
        return mm(input, other, out=out)
    a, b = tuple(input.shape), tuple(other.shape)
    if not a or not b:
        raise ShapeError(
            f"both arguments to matmul need to be at least 1D, but they are {len(a)}D and {len(b)}D"
        )
    if len(a) == 1 and len(b) == 1:
        return dot(input, other, out=out)
    if len(a) == 2 and len(b) == 1:
        return mv(input, other, out=out)
    _check_batches(input, other)
    nothing = _idle_batches if len(b) > 2 else _empty_bools
    empty = nothing(input, other, _product_shape(a, b))
    if empty is not None:
        return give(empty, "Bmm", (input, other), out)
    kernel = "addmv_impl_cpu" if len(b) == 1 else "addmm_impl_cpu_" if len(b) == 2 else "bmm"
    _check_not_bool(input, kernel)
    title = "Bmm" if max(len(a), len(b)) > 2 else "Squeeze"
    return give(batched_product(input.node, other.node), title, (input, other), out)


def _check_batches(input: Tensor, other: Tensor) -> None:
    """Raise what the routine raises that PyTorch chooses for these ranks, shapes first."""
    a, b = tuple(input.shape), tuple(other.shape)
    if len(b) == 1:
        rows = prod(a[:-1])
        _check_vector_size(rows, a[-1], b[0])
        if input.dtype is not other.dtype:
            check_vector_types(other, input, other)
    elif len(b) == 2:
        if a[-1] != b[0]:
            raise _mismatch((prod(a[:-1]), a[-1]), b)
        check_product_types(None, input, other)
    else:
        lead = broadcast_pair(a[:-2], b[:-2])
        if a[-1] != b[-2]:
            raise ShapeError(
                "Expected size for first two dimensions of batch2 tensor to be: "
                f"[{prod(lead)}, {a[-1]}] but got: [{prod(lead)}, {b[-2]}]."
            )
        idle = _idle_batches(input, other, _product_shape(a, b)) is not None
        if input.dtype is not other.dtype and not idle:
            kinds = type_title(input.dtype), type_title(other.dtype)
            raise DTypeError(f"expected scalar type {kinds[0]} but found {kinds[1]}")


def _product_shape(a: Shape, b: Shape) -> Shape:
    columns = b[-1:] if len(b) > 1 else ()
    return (*broadcast_pair(a[:-2], b[:-2]), *a[-2:-1], *columns)


@repeated
def batched_product(x: Node, y: Node) -> Node:
    """``x @ y`` on nodes, at least one with more than one dimension; leading ones broadcast."""
    a, b = x.shape, y.shape
    rows = a[-2:-1]
    columns = b[-1:] if len(b) > 1 else ()
    inner = b[-2] if len(b) > 1 else b[0]
    if a[-1] != inner:
        raise _mismatch((prod(a[:-1]), a[-1]), (inner, prod(b) // inner if inner else 0))
    lead = broadcast_pair(a[:-2], b[:-2])
    rank = len(lead)
    left_labels, x = _lead_labels(x, a[:-2], lead)
    right_labels, y = _lead_labels(y, b[:-2], lead)
    m, k, n = rank, rank + 1, rank + 2
    left = (*left_labels, *([m] if rows else []), k)
    right = (*right_labels, k, *([n] if columns else []))
    out = (*range(rank), *([m] if rows else []), *([n] if columns else []))
    node = ops.product(x, y, left, right, out)
    return node if node.shape == (*lead, *rows, *columns) else expand_lead(node, lead)


def expand_lead(node: Node, lead: Shape) -> Node:
    """``node`` with its leading axes, of one element here, repeated to ``lead``."""
    return expand_to(node, (*lead, *node.shape[len(lead) :]))


def _lead_labels(node: Node, own: Shape, lead: Shape) -> tuple[tuple[int, ...], Node]:
    """Batch labels of one operand; its axes of one element that broadcast are dropped."""
    offset = len(lead) - len(own)
    labels, shape = [], []
    for i, extent in enumerate(own):
        if extent == lead[i + offset] and extent != 1:
            labels.append(i + offset)
            shape.append(extent)
        elif lead[i + offset] == 1 and offset + i >= 0:
            labels.append(i + offset)
            shape.append(1)
    full = (*shape, *node.shape[len(own) :])
    return tuple(labels), node if full == node.shape else ops.reshape(node, full)


@function(method=True)
def outer(input: Tensor, vec2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """All products of the elements of two vectors. Raises ShapeError for other ranks."""
    require_tensor(input, "outer")
    for name, item in (("self", input), ("vec2", vec2)):
        if len(item.shape) != 1:
            raise ShapeError(f"outer: Expected 1-D argument {name}, but got {len(item.shape)}-D")
    left = input.reshape(-1, 1)
    product: Tensor = left * vec2
    return give(product.node, "Mul", (input, vec2), out)


@function(method=True)
def inner(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Products summed over the last dimensions of both. Raises ShapeError and DTypeError."""
    require_tensor(input, "inner")
    if not input.shape or not other.shape:
        return mul(input, other, out=out)
    if input.shape[-1] != other.shape[-1]:
        raise ShapeError(
            "inner() the last dimension must match on both input tensors but got shapes "
            f"{list(input.shape)} and {list(other.shape)}"
        )
    return tensordot(input, other, dims=([-1], [-1]), out=out)


def _contracted_axes(a: Tensor, b: Tensor, dims: Any) -> tuple[list[int], list[int]]:
    """The summed dimensions of both, as ``tensordot`` takes them."""
    m, n = len(a.shape), len(b.shape)
    if isinstance(dims, Tensor):
        dims = dims.tolist()
    if isinstance(dims, int):
        if dims < 0:
            raise LazytError(f"tensordot expects dims >= 0, but got dims={dims}")
        if dims > min(m, n):
            raise LazytError(f"tensordot expects dims < ndim_a or ndim_b, but got dims={dims}")
        return [*range(m - dims, m)], [*range(dims)]
    if len(dims[0]) != len(dims[1]):
        raise LazytError("both dimension lists should have same length")
    for left, right in zip(dims[0], dims[1]):
        if a.shape[left] != b.shape[right] and 1 not in (a.shape[left], b.shape[right]):
            raise _uncontractable(a, b, left, right)
    return _distinct(dims[0], a), _distinct(dims[1], b)


def _distinct(places: Sequence[int], item: Tensor) -> list[int]:
    axes = [normalize_dim(d, len(item.shape)) for d in places]
    normalize_dims(axes, len(item.shape))
    return axes


def _uncontractable(a: Tensor, b: Tensor, left: int, right: int) -> ShapeError:
    return ShapeError(
        "contracted dimensions need to match, but first has size "
        f"{a.shape[left]} in dim {left} and second has size {b.shape[right]} in dim {right}"
    )


@function(
    cast="widest",
    fractions=("dims",),
    out_dtype=(
        "tensordot: Expected the output tensor to have dtype {Want}, but got an output tensor with "
        "dtype {Got}"
    ),
)
def tensordot(a: Tensor, b: Tensor, dims: Any = 2, out: Tensor | None = None) -> Tensor:
    """Products summed over ``dims``: a number of last/first dimensions, or two lists of them.

    A dimension of one element is summed against all of the other's. Raises LazytError for ``dims``
    that make no pairs, ShapeError for sizes that differ, DTypeError for two dtypes.
    """
    left, right = _contracted_axes(a, b, dims)
    if out is None and (len(left) < len(a.shape) or len(right) < len(b.shape)):
        a, b = lowered((a, b))  # a single number is no matrix product
    if isinstance(dims, int):
        for i, j in zip(left, right):
            if a.shape[i] != b.shape[j] and 1 not in (a.shape[i], b.shape[j]):
                raise _uncontractable(a, b, i - len(a.shape), j)
    if a.dtype is not b.dtype:
        raise DTypeError("both inputs should have same dtype")
    _check_not_bool(a, "addmm_impl_cpu_")
    first, second = a, b
    for i, j in zip(left, right):
        if a.shape[i] != b.shape[j]:
            first = first if a.shape[i] == 1 else first.sum(i, keepdim=True, dtype=a.dtype)
            second = second if b.shape[j] == 1 else second.sum(j, keepdim=True, dtype=b.dtype)
    rank = len(a.shape)
    names = {j: i for i, j in zip(left, right)}
    right_labels = tuple(names.get(j, rank + j) for j in range(len(b.shape)))
    kept = [i for i in range(rank) if i not in left]
    result = (*kept, *(label for j, label in enumerate(right_labels) if j not in names))
    node = product_of(first.node, second.node, tuple(range(rank)), right_labels, result)
    return give(node, "Tensordot", (a, b), out)


@function()
@in_low_precision
def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """``input @ weight.T + bias``, the transposition only a label. Raises ShapeError."""
    require_tensor(input, "linear")
    require_tensor(weight, "linear", "weight", 2)
    x, w = input.node, weight.node
    added = bias.node if isinstance(bias, Tensor) else None
    key = (x.form, w.form, None if added is None else added.form)
    right = _checked.get(key) if bias is None or added is not None else None
    if right is None:
        right = _checked_linear(input, weight, bias)
        if len(_checked) >= _MOST_CHECKED:
            _checked.clear()
        _checked[key] = right
    rank = len(x.shape)
    node = _affine(x, w, added, right)
    if bias is None:
        return give(node, "Mm" if rank == 2 else "UnsafeView", (input, weight))
    return give(node, "Addmm" if rank == 2 else "View", (bias, input, weight))


#: Labels of the weight, for types of operands that were found to fit.
_checked: dict[tuple[int, int, int | None], tuple[int, ...]] = {}
_MOST_CHECKED = 4096


def _checked_linear(input: Tensor, weight: Tensor, bias: Tensor | None) -> tuple[int, ...]:
    """The labels of the axes of ``weight`` where those of ``input`` count from 0.

    Raises ShapeError and DTypeError as ``linear`` does.
    """
    check_product_types(bias, input, weight)
    if weight.ndim > 2:
        raise ShapeError(f"t() expects a tensor with <= 2 dimensions, but self is {weight.ndim}D")
    a, w = tuple(input.shape), tuple(weight.shape)
    if a[-1:] != w[-1:]:
        turned = w[::-1] if len(w) == 2 else (w[0], 1)
        raise _mismatch((prod(a[:-1]), a[-1]), turned)
    rank = len(a)
    if bias is not None:
        shape = (*a[:-1], *w[:-1])
        if bias.ndim == 1 and rank == 2 and len(w) == 2 and bias.shape[0] not in (1, w[0]):
            raise ShapeError(
                f"The expanded size of the tensor ({w[0]}) must match the existing size "
                f"({bias.shape[0]}) at non-singleton dimension 1.  Target sizes: {list(shape)}.  "
                f"Tensor sizes: {list(bias.shape)}"
            )
        broadcast_pair(shape, tuple(bias.shape))
    return (rank, rank - 1) if len(w) == 2 else (rank - 1,)


@repeated
def _affine(x: Node, weight: Node, bias: Node | None, right: tuple[int, ...]) -> Node:
    rank = len(x.shape)
    out = (*range(rank - 1), *right[:-1])
    node = ops.product(x, weight, tuple(range(rank)), right, out)
    return node if bias is None else mapped(_ADD, (node, bias), node.dtype, node.dtype)


# Other names that PyTorch has for the same functions.
ger = declare("ger", outer, method=True)


# Products of matrices of small integers, summed in larger ones.


_NAME = "int_mm_out_cpu"


def _int_mm(self: Tensor, mat2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The product of an int8 (or uint8) matrix and an int8 matrix, exact in int32.

    Sums beyond int32 wrap around. Raises DTypeError for other dtypes and ShapeError for other ranks
    or sizes.
    """
    require_tensor(self, "_int_mm")
    require_tensor(mat2, "_int_mm")
    for name, item in (("self", self), ("mat2", mat2)):
        if len(item.shape) != 2:
            rank = len(item.shape)
            raise ShapeError(f"{_NAME}: Expected {name} to be of dimension 2 but got {rank}")
    if self.shape[1] != mat2.shape[0]:
        raise ShapeError(
            f"{_NAME}: self.size(1) needs to match mat2.size(0) but got {self.shape[1]} and "
            f"{mat2.shape[0]}"
        )
    if self.dtype not in (int8, uint8):
        given = c_name(self.dtype)
        raise DTypeError(f"{_NAME}: Expected self dtype to be int8 or uint8 but got {given}")
    if mat2.dtype is not int8:
        given = c_name(mat2.dtype)
        raise DTypeError(f"{_NAME}: Expected mat2 dtype to be of type int8 but got {given}")
    if out is not None and out.dtype is not int32:
        given = c_name(out.dtype)
        raise DTypeError(f"{_NAME}: Expected result dtype to be of type kInt but got {given}")
    left, right = ops.cast(self.node, int32), ops.cast(mat2.node, int32)
    return give(ops.contract(left, right, (0, 1), (1, 2), (0, 2)), "IntMm", (self, mat2), out)


# Cross, scalar and Kronecker products, and tables of powers.


@function(cast="widest", saves="p", out_dtype=SAME_DTYPE)
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
    """The scalar products of vectors along ``dim``, of conjugates of ``x``; the rest broadcasts.

    Raises DTypeError for integers and two dtypes, ShapeError for shapes that do not broadcast.
    """
    require_tensor(x, "vecdot", "x")
    check_floating(x, "linalg.vecdot")
    check_same_dtype(x, y, "linalg.vecdot", ("x", "y"))
    product: Tensor = x.conj() * y
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
    if dtype.kind not in "fc":
        node, dtype = ops.cast(node, int64), int64
    flat = (*node.shape, 1)
    one = ops.broadcast_to(ops.constant(1, dtype), flat)
    if count == 0:
        return give(ops.broadcast_to(ops.constant(1, dtype), (*node.shape, 0)), "", ())
    repeated = ops.broadcast_to(ops.reshape(node, flat), (*node.shape, count - 1))
    table = ops.concat([one, repeated], len(node.shape)) if count > 1 else one
    return give(ops.scan("prod", table, len(node.shape)), "Cumprod", (x,))
