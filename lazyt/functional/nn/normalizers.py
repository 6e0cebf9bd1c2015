"""Exponentials that are normalised along a dimension, their logarithms, and vectors of length 1."""

from __future__ import annotations

from typing import Any

from lazyt import ops
from lazyt.functional.elementwise.arithmetic import scalar_build
from lazyt.functional.operands import mapped, normalize_dim, normalize_dims, numpy_names
from lazyt.functional.reductions.reductions import reduce_node, wider
from lazyt.functional.result_layout import row_major
from lazyt.functional.results import SAME_DTYPE, give
from lazyt.functional.type_promotion import as_dtype, inexact, require_floating
from lazyt.handle.function_table import function
from lazyt.handle.tensor import Tensor
from lazyt.ir.dtypes import DType
from lazyt.ir.graph import Node
from lazyt.ir.scalar import Expr, call, const
from lazyt.transforms.derivations import repeated

__all__ = [
    "log_softmax", "logsumexp", "softmax",
]  # fmt: skip

_SUB, _MUL = scalar_build("sub"), scalar_build("mul")


def _exp_gap(x: Expr, top: Expr) -> Expr:
    return call("exp_nonpositive", call("sub", x, top))


def _normalised_dtype(input: Tensor, axis: int, dtype: Any, name: str) -> DType:
    wanted = input.dtype if dtype is None else as_dtype(dtype)
    shape = input.shape
    if shape.numel():
        last = axis == max(len(shape) - 1, 0)
        require_floating(f"{name}_{'lastdim_' if last else ''}kernel_impl", wanted)
    return wanted


def _top(node: Node, axes: tuple[int, ...]) -> Node:
    """The largest element, without gradient: it cancels out."""
    return ops.detach(reduce_node("max", node, axes, True))


@repeated
def softmax_node(node: Node, axis: int) -> Node:
    """``exp(x - max) / sum`` along an axis, in the compute type of ``node``'s dtype."""
    if not node.size:
        return node
    dtype = node.dtype.compute
    node = ops.cast(node, dtype)
    axes = (axis,) if node.shape else ()
    raised = mapped(_exp_gap, (node, _top(node, axes)), dtype, None)
    # A quotient for each row, not for each element: it costs as much as half an exponential.
    share = ops.apply("reciprocal", reduce_node("sum", raised, axes, True))
    return mapped(_MUL, (raised, share), dtype, None)


@repeated
def log_softmax_node(node: Node, axis: int) -> Node:
    """``x - max - log(sum(exp(x - max)))`` along an axis, in the compute type."""
    if not node.size:
        return node
    dtype = node.dtype.compute
    node = ops.cast(node, dtype)
    axes = (axis,) if node.shape else ()
    gap = mapped(_SUB, (node, _top(node, axes)), dtype, None)
    total = reduce_node("sum", ops.apply("exp_nonpositive", gap), axes, True)
    return mapped(_SUB, (gap, ops.apply("log", total)), dtype, None)


@function(method=True, cast="full_by_default", saves="r", layout=row_major, out_dtype=SAME_DTYPE)
@numpy_names
def softmax(input: Tensor, dim: int, dtype: Any = None, *, out: Tensor | None = None) -> Tensor:
    """Exponentials along ``dim`` that add up to 1. Raises DTypeError for whole numbers."""
    axis = normalize_dim(dim, len(input.shape))
    wanted = _normalised_dtype(input, axis, dtype, "softmax")
    node = softmax_node(ops.cast(input.node, wanted), axis)
    return give(ops.cast(node, wanted), "Softmax", (input,), out)


@function(method=True, cast="full_by_default", saves="r", layout=row_major, out_dtype=SAME_DTYPE)
@numpy_names
def log_softmax(input: Tensor, dim: int, dtype: Any = None, *, out: Tensor | None = None) -> Tensor:
    """The logarithm of ``softmax``, without overflow. Raises DTypeError for whole numbers."""
    axis = normalize_dim(dim, len(input.shape))
    wanted = _normalised_dtype(input, axis, dtype, "log_softmax")
    node = log_softmax_node(ops.cast(input.node, wanted), axis)
    return give(ops.cast(node, wanted), "LogSoftmax", (input,), out)


def _safe_top(x: Expr) -> Expr:
    # An infinite maximum would make inf - inf.
    return call("where", call("isinf", x), const(0, x.dtype), x)


def _exp_safe_gap(x: Expr, top: Expr) -> Expr:
    return call("exp", call("sub", x, top))  # positive below a maximum of infinity


def _log_plus(total: Expr, top: Expr) -> Expr:
    return call("add", call("log", total), top)


@function(
    method=True,
    cast="full",
    saves="ar",
    layout=row_major,
    out_category="logsumexp(): Expected floating point type for result tensor, but got: {Got}",
)
@numpy_names
def logsumexp(
    input: Tensor, dim: Any, keepdim: bool = False, *, out: Tensor | None = None
) -> Tensor:
    """``log(sum(exp(x)))`` along dimensions, without overflow."""
    dtype = wider(inexact(input.dtype), out)
    wide = dtype.compute
    node = ops.cast(input.node, wide)
    axes = normalize_dims(dim, len(node.shape))
    if node.size:
        sizes = ops.apply("real", node) if wide.kind == "c" else node
        top = ops.cast(mapped(_safe_top, (_top(sizes, axes),), sizes.dtype, None), wide)
        raised = mapped(_exp_safe_gap, (node, top), wide, None)
        node = mapped(_log_plus, (reduce_node("sum", raised, axes, True), top), wide, dtype)
    else:
        node = ops.cast(ops.apply("log", reduce_node("sum", node, axes, True)), dtype)
    if not keepdim:
        node = ops.reshape(node, tuple(n for i, n in enumerate(input.shape) if i not in axes))
    return give(node, "Logsumexp", (input,), out)
