"""Products of matrices and vectors added to a tensor: ``beta * input + alpha * product``.

With ``beta`` 0 the input's values are not looked at, NaN or not. Whole numbers take the whole part
of ``alpha`` and ``beta``. Shapes and dtypes are checked in PyTorch's words.
"""

from __future__ import annotations

from typing import Any

from lazyt import ops
from lazyt.errors import DTypeError, ShapeError
from lazyt.functional.creation.nesting import refuse_number
from lazyt.functional.elementwise.arithmetic import scalar_build
from lazyt.functional.linalg.products import bmm, check_vector_types, mm, product_of, walked_label
from lazyt.functional.operands import constant_of, mapped, require_tensor
from lazyt.functional.result_layout import preserving, row_major
from lazyt.functional.results import SAME_DTYPE, give
from lazyt.functional.type_promotion import (
    c_name,
    check_product_types,
    promote_types,
    refuse,
    torch_name,
)
from lazyt.handle.autocast import in_low_precision
from lazyt.handle.function_table import function
from lazyt.handle.tensor import Tensor
from lazyt.ir.dtypes import bool_
from lazyt.ir.graph import Node, Shape

__all__ = ["addbmm", "addmm", "addmv", "addr", "baddbmm"]

_ADD, _MUL = scalar_build("add"), scalar_build("mul")


def _scaled(node: Node, factor: Any) -> Node:
    dtype = node.dtype
    if dtype.kind not in "fc":
        factor = int(factor)
    if factor == 1:
        return node
    return mapped(_MUL, (node, constant_of(factor, dtype.compute)), dtype, dtype)


def _plus(base: Tensor, product: Node, beta: Any, alpha: Any, exact: bool = False) -> Node:
    """Raises ShapeError when ``base`` does not expand to the product's shape, LazytError for a
    factor that the type computed in, if ``exact`` the product's own, cannot hold."""
    dtype = product.dtype
    for factor in (beta, alpha):
        refuse_number(factor, dtype if exact else dtype.compute)
    start: Node = base.expand(*product.shape).node if base.shape != product.shape else base.node
    product = _scaled(product, alpha)
    if (beta if dtype.kind in "fc" else int(beta)) == 0:
        return product
    return mapped(_ADD, (_scaled(start, beta), product), dtype, dtype)


def _check_input(input: Tensor, shape: Shape) -> None:
    if len(input.shape) > len(shape):
        raise ShapeError(
            f"expand(torch.{torch_name(input.dtype)}Tensor{{{list(input.shape)}}}, "
            f"size={list(shape)}): the number of sizes provided ({len(shape)}) must be greater or "
            f"equal to the number of dimensions in the tensor ({len(input.shape)})"
        )


def _check_types(input: Tensor, mat1: Tensor, mat2: Tensor) -> None:
    for item in (mat1, mat2):
        if input.dtype is not item.dtype:
            raise DTypeError(
                "self and mat2 must have the same dtype, but got "
                f"{torch_name(input.dtype)} and {torch_name(item.dtype)}"
            )


@function(
    method=True,
    inplace="method",
    old_forms=("beta self alpha first second", "beta self first second"),
    saves="P",
    layout=row_major,
    out_dtype=SAME_DTYPE,
)
@in_low_precision
def addmm(
    input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Any = 1, alpha: Any = 1,
    out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """``beta * input + alpha * (mat1 @ mat2)``; with ``alpha`` 0 the matrices are not looked at."""
    require_tensor(input, "addmm")
    for number, item in ((1, mat1), (2, mat2)):
        if len(item.shape) != 2:
            raise ShapeError(f"mat{number} must be a matrix, got {len(item.shape)}-D tensor")
    check_product_types(input, mat1, mat2)
    product = mm(mat1, mat2).node
    _check_input(input, product.shape)
    if alpha == 0:
        product, alpha = ops.zeros_like(product), 1
    return give(_plus(input, product, beta, alpha), "Addmm", (input, mat1, mat2), out)


@function(
    method=True,
    inplace="function",
    cast="low",
    old_forms=("beta self alpha first second", "beta self first second"),
    saves="P",
    layout=row_major,
    out_dtype=SAME_DTYPE,
)
def addmv(
    input: Tensor, mat: Tensor, vec: Tensor, *, beta: Any = 1, alpha: Any = 1,
    out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """``beta * input + alpha * (mat @ vec)``."""
    ranks = (len(input.shape), len(mat.shape), len(vec.shape))
    if ranks[1:] != (2, 1) or ranks[0] > 1:
        raise ShapeError(
            f"vector + matrix @ vector expected, got {ranks[0]}, {ranks[1]}, {ranks[2]}"
        )
    check_vector_types(input, mat, vec)
    (rows, columns), size = tuple(mat.shape), vec.shape[0]
    have = input.shape.numel()
    if columns != size or have not in (1, rows):
        raise ShapeError(f"size mismatch, got input ({have}), mat ({rows}x{columns}), vec ({size})")
    walked = walked_label(mat, (0, 1))
    product = product_of(mat.node, vec.node, (0, 1), (1,), (0,), walked)
    return give(_plus(input, product, beta, alpha, True), "Addmv", (input, mat, vec), out)


@function(
    method=True,
    inplace="method",
    cast="low",
    old_forms=("beta self alpha first second", "beta self first second"),
    layout=preserving,
)
def addr(
    input: Tensor, vec1: Tensor, vec2: Tensor, *, beta: Any = 1, alpha: Any = 1,
    out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """``beta * input + alpha * outer(vec1, vec2)``, in the dtype that all promote to.

    Raises DTypeError for factors that lose a fraction.
    """
    for name, item in (("vec1", vec1), ("vec2", vec2)):
        if len(item.shape) != 1:
            raise ShapeError(f"addr: Expected 1-D argument {name}, but got {len(item.shape)}-D")
    dtype = promote_types(promote_types(input.dtype, vec1.dtype), vec2.dtype)
    for name, factor in (("beta", beta), ("alpha", alpha)):
        if dtype.kind not in "fc" and isinstance(factor, float):
            raise DTypeError(
                f"For integral input tensors, argument {name} must not be a floating point number."
            )
    outer = vec1.to(dtype).unsqueeze(-1) * vec2.to(dtype)
    start = input.expand(*outer.shape).to(dtype)
    if dtype is bool_:
        product = outer if alpha else outer.logical_xor(outer)
        result = start.logical_or(product) if beta else product
        return give(result.node, "Addr", (input, vec1, vec2), out)
    return give(_plus(start, outer.node, beta, alpha, True), "Addr", (input, vec1, vec2), out)


def _check_batches(input: Tensor, batch1: Tensor, batch2: Tensor) -> None:
    if not (input.dtype is batch1.dtype and batch1.dtype is batch2.dtype):
        if batch1.dtype is not batch2.dtype:
            raise DTypeError(
                f"expected scalar type {torch_name(batch1.dtype)} but found "
                f"{torch_name(batch2.dtype)}"
            )
        raise DTypeError(
            f"Input dtypes must be the same, got: input {c_name(input.dtype)}, batch1: "
            f"{c_name(batch1.dtype)}, batch2: {c_name(batch2.dtype)}"
        )


@function(
    method=True,
    inplace="method",
    old_forms=("beta self alpha first second", "beta self first second"),
    saves="P",
    layout=row_major,
    out_dtype=SAME_DTYPE,
)
@in_low_precision
def baddbmm(
    input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Any = 1, alpha: Any = 1,
    out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """``beta * input + alpha * bmm(batch1, batch2)``."""
    _check_batches(input, batch1, batch2)
    if batch1.dtype is bool_:
        refuse("baddbmm", bool_)
    product = bmm(batch1, batch2).node
    _check_input(input, product.shape)
    return give(_plus(input, product, beta, alpha), "Baddbmm", (input, batch1, batch2), out)


@function(
    method=True,
    inplace="method",
    old_forms=("beta self alpha first second", "beta self first second"),
    saves="P",
    out_dtype="self and mat2 must have the same dtype, but got {Got} and {Want}",
    out_resizes=True,
)
@in_low_precision
def addbmm(
    input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Any = 1, alpha: Any = 1,
    out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """``beta * input + alpha * sum of bmm(batch1, batch2) over the batch``."""
    for name, item in (("batch1", batch1), ("batch2", batch2)):
        if len(item.shape) != 3:
            raise ShapeError(f"{name} must be a 3D tensor")
    if batch1.shape[0] != batch2.shape[0]:
        raise ShapeError(
            "batch1 and batch2 must have same number of batches, got "
            f"{batch1.shape[0]} and {batch2.shape[0]}"
        )
    (_, m, k), (_, rows, n) = tuple(batch1.shape), tuple(batch2.shape)
    if k != rows:
        raise ShapeError(f"Incompatible matrix sizes for bmm ({m}x{k} and {rows}x{n})")
    _check_types(input, batch1, batch2)
    if batch1.dtype is bool_:
        refuse("addmm_impl_cpu_", bool_)
    product = product_of(batch1.node, batch2.node, (0, 1, 2), (0, 2, 3), (1, 3))
    return give(_plus(input, product, beta, alpha), "Addbmm", (input, batch1, batch2), out)
