"""Matrix products, all on the ``contract`` op: operands are labelled and never copied."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from lazyt import ops
from lazyt.cast_mode import in_low_precision
from lazyt.errors import DTypeError, ShapeError
from lazyt.functional.arithmetic import scalar_build
from lazyt.functional.operands import broadcast_pair, constant_of, expand_to, mapped, normalize_dim
from lazyt.functional.promotion import c_name, torch_name
from lazyt.functional.results import give
from lazyt.ir.graph import Node, Shape
from lazyt.tensor import Tensor

__all__ = [
    "addbmm", "addmm", "addmv", "baddbmm", "bmm", "chain_matmul", "dot", "ger", "inner",
    "matmul", "mm", "mv", "outer", "tensordot", "vdot",
]  # fmt: skip

_ADD, _MUL = scalar_build("add"), scalar_build("mul")


def _same_dtype(a: Tensor, b: Tensor) -> None:
    if a.dtype is not b.dtype:
        raise DTypeError(
            "expected m1 and m2 to have the same dtype, but got: "
            f"{c_name(a.dtype)} != {c_name(b.dtype)}"
        )


def _mismatch(a: Shape, b: Shape) -> ShapeError:
    return ShapeError(
        f"mat1 and mat2 shapes cannot be multiplied ({a[0]}x{a[1]} and {b[0]}x{b[1]})"
    )


def dot(input: Tensor, tensor: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The inner product of two vectors. Raises ShapeError for other ranks or sizes."""
    if len(input.shape) != 1 or len(tensor.shape) != 1:
        raise ShapeError(
            f"1D tensors expected, but got {len(input.shape)}D and {len(tensor.shape)}D tensors"
        )
    if input.dtype is not tensor.dtype:
        raise DTypeError(
            "dot : expected both vectors to have same dtype, but found "
            f"{torch_name(input.dtype)} and {torch_name(tensor.dtype)}"
        )
    m, n = input.shape[0], tensor.shape[0]
    if m != n:
        raise ShapeError(
            f"inconsistent tensor size, expected tensor [{m}] and src [{n}] to have the same "
            f"number of elements, but got {m} and {n} elements respectively"
        )
    node = ops.contract(input.node, tensor.node, (0,), (0,), ())
    return give(node, "Dot", (input, tensor), out)


vdot = dot


def mv(input: Tensor, vec: Tensor, *, out: Tensor | None = None) -> Tensor:
    """A matrix times a vector. Raises ShapeError for other ranks or sizes."""
    if len(input.shape) != 2 or len(vec.shape) != 1:
        raise ShapeError(
            f"vector + matrix @ vector expected, got {1}, {len(input.shape)}, {len(vec.shape)}"
        )
    _same_dtype(input, vec)
    (rows, columns), size = tuple(input.shape), vec.shape[0]
    if columns != size:
        raise ShapeError(f"size mismatch, got input ({rows}), mat ({rows}x{columns}), vec ({size})")
    return give(ops.contract(input.node, vec.node, (0, 1), (1,), (0,)), "Mv", (input, vec), out)


@in_low_precision
def mm(input: Tensor, mat2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The product of two matrices. Raises ShapeError for other ranks or sizes."""
    if len(input.shape) != 2:
        raise ShapeError("self must be a matrix")
    if len(mat2.shape) != 2:
        raise ShapeError("mat2 must be a matrix")
    if input.shape[1] != mat2.shape[0]:
        raise _mismatch(input.shape, mat2.shape)
    _same_dtype(input, mat2)
    node = ops.contract(input.node, mat2.node, (0, 1), (1, 2), (0, 2))
    return give(node, "Mm", (input, mat2), out)


@in_low_precision
def bmm(input: Tensor, mat2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Products of the matrices of two batches. Raises ShapeError for other ranks or sizes."""
    for name, item in (("batch1", input), ("batch2", mat2)):
        if len(item.shape) != 3:
            raise ShapeError(f"{name} must be a 3D tensor")
    b, _, k = input.shape
    if tuple(mat2.shape[:2]) != (b, k):
        raise ShapeError(
            "Expected size for first two dimensions of batch2 tensor to be: "
            f"[{b}, {k}] but got: [{mat2.shape[0]}, {mat2.shape[1]}]."
        )
    _same_dtype(input, mat2)
    node = ops.contract(input.node, mat2.node, (0, 1, 2), (0, 2, 3), (0, 1, 3))
    return give(node, "Bmm", (input, mat2), out)


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
    a, b = tuple(input.shape), tuple(other.shape)
    if not a or not b:
        raise ShapeError(
            f"both arguments to matmul need to be at least 1D, but they are {len(a)}D and {len(b)}D"
        )
    if len(a) == 1 and len(b) == 1:
        return dot(input, other, out=out)
    if len(a) == 2 and len(b) == 2:
        return mm(input, other, out=out)
    if len(a) == 2 and len(b) == 1:
        return mv(input, other, out=out)
    _same_dtype(input, other)
    title = "Bmm" if max(len(a), len(b)) > 2 else "Squeeze"
    return give(batched_product(input.node, other.node), title, (input, other), out)


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
    node = ops.contract(x, y, left, right, out)
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


def outer(input: Tensor, vec2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """All products of the elements of two vectors. Raises ShapeError for other ranks."""
    for name, item in (("self", input), ("vec2", vec2)):
        if len(item.shape) != 1:
            raise ShapeError(f"outer: Expected 1-D argument {name}, but got {len(item.shape)}-D")
    left = input.reshape(-1, 1)
    product: Tensor = left * vec2
    return give(product.node, "Mul", (input, vec2), out)


@in_low_precision
def inner(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Products summed over the last dimensions of both."""
    if not input.shape or not other.shape:
        return give((input * other).node, "Mul", (input, other), out)
    return tensordot(input, other, dims=([-1], [-1]))


@in_low_precision
def tensordot(input: Tensor, b: Tensor, dims: Any = 2) -> Tensor:
    """Products summed over ``dims``: a number of last/first dimensions, or two lists of them."""
    if isinstance(dims, Tensor):
        dims = dims.tolist()
    if isinstance(dims, int):
        left = [*range(len(input.shape) - dims, len(input.shape))]
        right = [*range(dims)]
    else:
        left = [normalize_dim(d, len(input.shape)) for d in dims[0]]
        right = [normalize_dim(d, len(b.shape)) for d in dims[1]]
    for i, j in zip(left, right):
        if input.shape[i] != b.shape[j]:
            raise ShapeError(
                "contracted dimensions need to match, but first has size "
                f"{input.shape[i]} in dim {i} and second has size {b.shape[j]} in dim {j}"
            )
    _same_dtype(input, b)
    rank = len(input.shape)
    names = {j: i for i, j in zip(left, right)}
    right_labels = tuple(names.get(j, rank + j) for j in range(len(b.shape)))
    kept = [i for i in range(rank) if i not in left]
    out = (*kept, *(label for j, label in enumerate(right_labels) if j not in names))
    node = ops.contract(input.node, b.node, tuple(range(rank)), right_labels, out)
    return give(node, "Tensordot", (input, b))


def _plus(base: Tensor, product: Node, beta: Any, alpha: Any) -> Node:
    dtype = product.dtype
    x = base.node
    if alpha != 1:
        product = mapped(_MUL, (product, constant_of(alpha, dtype.compute)), dtype, dtype)
    if beta == 0:
        return product
    if beta != 1:
        x = mapped(_MUL, (x, constant_of(beta, dtype.compute)), dtype, dtype)
    broadcast_pair(x.shape, product.shape)
    return mapped(_ADD, (x, product), dtype, dtype)


@in_low_precision
def addmm(input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """``beta * input + alpha * (mat1 @ mat2)``."""
    product = mm(mat1, mat2).node
    return give(_plus(input, product, beta, alpha), "Addmm", (input, mat1, mat2))


def addmv(input: Tensor, mat: Tensor, vec: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """``beta * input + alpha * (mat @ vec)``."""
    return give(_plus(input, mv(mat, vec).node, beta, alpha), "Addmv", (input, mat, vec))


@in_low_precision
def baddbmm(
    input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Any = 1, alpha: Any = 1
) -> Tensor:
    """``beta * input + alpha * bmm(batch1, batch2)``."""
    product = bmm(batch1, batch2).node
    return give(_plus(input, product, beta, alpha), "Baddbmm", (input, batch1, batch2))


@in_low_precision
def addbmm(
    input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Any = 1, alpha: Any = 1
) -> Tensor:
    """``beta * input + alpha * sum of bmm(batch1, batch2) over the batch``."""
    product = ops.contract(batch1.node, batch2.node, (0, 1, 2), (0, 2, 3), (0, 1, 3))
    product = ops.reduce_("sum", product, (0,))
    return give(_plus(input, product, beta, alpha), "Addbmm", (input, batch1, batch2))


@in_low_precision
def chain_matmul(*matrices: Tensor) -> Tensor:
    """The product of several matrices, from left to right."""
    result = matrices[0]
    for matrix in matrices[1:]:
        result = mm(result, matrix)
    return result


@in_low_precision
def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """``input @ weight.T + bias``, the transposition only a label. Raises ShapeError."""
    _same_dtype(input, weight)
    a, w = tuple(input.shape), tuple(weight.shape)
    if a[-1:] != w[-1:]:
        turned = w[::-1] if len(w) == 2 else (w[0], 1)
        raise _mismatch((prod(a[:-1]), a[-1]), turned)
    rank = len(a)
    right = (rank, rank - 1) if len(w) == 2 else (rank - 1,)
    out = (*range(rank - 1), *([rank] if len(w) == 2 else []))
    node = ops.contract(input.node, weight.node, tuple(range(rank)), right, out)
    if bias is None:
        return give(node, "Mm" if rank == 2 else "UnsafeView", (input, weight))
    broadcast_pair(node.shape, tuple(bias.shape))
    node = mapped(_ADD, (node, bias.node), node.dtype, node.dtype)
    return give(node, "Addmm" if rank == 2 else "View", (bias, input, weight))


@in_low_precision
def multi_dot(tensors: Sequence[Tensor]) -> Tensor:
    """The product of several matrices or end vectors, from left to right."""
    result = tensors[0]
    for item in tensors[1:]:
        result = matmul(result, item)
    return result


# Other names that PyTorch has for the same functions.
ger = outer
