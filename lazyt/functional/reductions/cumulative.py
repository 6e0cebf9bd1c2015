"""Running totals, products, extremes and logarithms of sums along a dimension; differences."""

from __future__ import annotations

import math
from typing import Any

from lazyt import ops
from lazyt.errors import BoundsError, DTypeError, LazytError, NoKernelError
from lazyt.functional import return_types
from lazyt.functional.elementwise.arithmetic import logaddexp_expr
from lazyt.functional.operands import choose, mapped, normalize_dim, numpy_names, require_tensor
from lazyt.functional.results import give
from lazyt.functional.shapes.joining import cat
from lazyt.functional.type_promotion import as_dtype, c_name, torch_name
from lazyt.handle.function_table import function
from lazyt.handle.tensor import Tensor
from lazyt.ir.dtypes import bool_, int64, uint8
from lazyt.ir.graph import Node

__all__ = ["cummax", "cummin", "cumprod", "cumsum", "diff", "logcumsumexp"]

Pair = tuple[Tensor, Tensor]


def _scan(input: Tensor, kind: str, dim: int, dtype: Any, out: Tensor | None) -> Node:
    """A running fold in ``dtype``, else in the type of ``out``, else in ``input``'s own."""
    node = input.node
    axis = normalize_dim(dim, len(node.shape))
    if dtype is None and out is not None:
        dtype = out.dtype
    elif out is not None and as_dtype(dtype) is not out.dtype:
        raise DTypeError(
            f"Expected out tensor to have dtype {c_name(as_dtype(dtype))}, but got "
            f"{c_name(out.dtype)} instead"
        )
    wanted = as_dtype(dtype) if dtype is not None else node.dtype
    if dtype is None and wanted.kind != "f":
        wanted = int64
    node = ops.cast(node, wanted)
    if not node.shape or not node.size:
        return node
    if wanted is bool_:
        raise NoKernelError(f"\"cum{kind}_out_cpu\" not implemented for 'Bool'")
    return ops.scan(kind, node, axis)


@function(method=True, inplace="method", cast="full_by_default")
@numpy_names
def cumsum(input: Tensor, dim: int, *, dtype: Any = None, out: Tensor | None = None) -> Tensor:
    """Running sums along ``dim``; of bools and integers in int64."""
    return give(_scan(input, "sum", dim, dtype, out), "Cumsum", (input,), out)


@function(method=True, inplace="method", cast="full_by_default")
@numpy_names
def cumprod(input: Tensor, dim: int, *, dtype: Any = None, out: Tensor | None = None) -> Tensor:
    """Running products along ``dim``; of bools and integers in int64."""
    return give(_scan(input, "prod", dim, dtype, out), "Cumprod", (input,), out)


def _running_extreme(input: Tensor, kind: str, dim: int, out: Pair | None) -> Pair:
    """Running extremes, and where each was last reached."""
    node = input.node
    places: tuple[Tensor | None, Tensor | None] = (None, None) if out is None else out
    if not node.shape and dim not in (0, -1):
        raise BoundsError(f"cum{kind}(): Expected reduction dim -1 or 0 for scalar but got {dim}")
    if not node.size or not node.shape:
        zeros = ops.broadcast_to(ops.constant(0, int64), node.shape)
        return give(node, "Cum" + kind, (input,), places[0]), give(zeros, "", (), places[1])
    axis = normalize_dim(dim, len(node.shape))
    dtype = node.dtype
    scanned = ops.cast(node, uint8) if dtype is bool_ else node
    values = ops.scan(kind, scanned, axis)
    extents = tuple(n if i == axis else 1 for i, n in enumerate(node.shape))
    ramp = ops.reshape(ops.iota(node.shape[axis]), extents)
    plain = ops.detach(scanned) if node.needs_grad else scanned
    fixed = ops.detach(values) if values.needs_grad else values
    hit = ops.apply("eq", plain, fixed)
    if dtype.kind == "f":
        hit = ops.apply("logical_or", hit, ops.apply("isnan", plain))
    reached = choose(hit, ramp, ops.constant(0, int64), int64)
    last = give(ops.scan("max", reached, axis), "", (), places[1])
    return give(ops.cast(values, dtype), "Cum" + kind, (input,), places[0]), last


@function(method=True)
@numpy_names
def cummax(input: Tensor, dim: int, *, out: Pair | None = None) -> return_types.cummax:
    """Running maxima along ``dim`` and where each was last reached."""
    return return_types.cummax(_running_extreme(input, "max", dim, out))


@function(method=True)
@numpy_names
def cummin(input: Tensor, dim: int, *, out: Pair | None = None) -> return_types.cummin:
    """Running minima along ``dim`` and where each was last reached."""
    return return_types.cummin(_running_extreme(input, "min", dim, out))


@function(method=True)
@numpy_names
def logcumsumexp(input: Tensor, dim: int, *, out: Tensor | None = None) -> Tensor:
    """``log(cumsum(exp(x)))`` without overflow. Raises NoKernelError for whole numbers.

    By doubling steps (Hillis and Steele, 1986): each element joins that 1, 2, 4 ... places before
    it, so that no sum depends on a maximum that comes later.
    """
    node = require_tensor(input, "logcumsumexp").node
    axis = normalize_dim(dim, len(node.shape))
    dtype = node.dtype
    if dtype.kind != "f":
        raise NoKernelError(f"\"logcumsumexp_out_cpu\" not implemented for '{torch_name(dtype)}'")
    total, rank = ops.cast(node, dtype.compute), len(node.shape)
    step = 1
    while rank and node.size and step < node.shape[axis]:
        sizes = [n - step if i == axis else n for i, n in enumerate(node.shape)]
        none = [0] * rank
        low = [step if i == axis else 0 for i in range(rank)]
        early = ops.slice_(total, none, sizes, [1] * rank)
        moved = ops.pad(early, low, none, none, -math.inf)
        total = mapped(logaddexp_expr, (total, moved), dtype.compute, None)
        step *= 2
    return give(ops.cast(total, dtype), "Logcumsumexp", (input,), out)


def _check_joined(input: Tensor, part: Tensor, axis: int) -> None:
    """Raises as PyTorch does for a prepended or appended part that does not fit."""
    if len(part.shape) != len(input.shape):
        raise LazytError("diff expects prepend or append to be the same dimension as input")
    for d, (mine, its) in enumerate(zip(input.shape, part.shape)):
        if d != axis and mine != its:
            raise LazytError(
                "diff expects the shape of tensor to prepend or append to match that of input "
                f"except along the differencing dimension; input.size({d}) = {mine}, but got "
                f"tensor.size({d}) = {its}"
            )


@function(method=True)
@numpy_names
def diff(
    input: Tensor, n: int = 1, dim: int = -1, prepend: Tensor | None = None,
    append: Tensor | None = None, *, out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Differences of neighbours along ``dim``, ``n`` times over, of bools the exclusive or.

    ``prepend`` and ``append`` are joined to the ends first. Raises LazytError for a tensor without
    dimensions, a negative ``n`` and parts that do not fit.
    """
    if not require_tensor(input, "diff").shape:
        raise LazytError("diff expects input to be at least one-dimensional")
    axis = normalize_dim(dim, len(input.shape))
    if n < 0:
        raise LazytError(f"order must be non-negative but got {n}")
    for part in (prepend, append):
        if part is not None:
            _check_joined(input, part, axis)
    parts = [p for p in (prepend, input, append) if p is not None]
    result = cat(parts, axis) if len(parts) > 1 and n else input
    for _ in range(n):
        if not result.shape[axis]:
            return result
        size = result.shape[axis] - 1
        late = result.narrow(axis, min(1, result.shape[axis]), size)
        early = result.narrow(axis, 0, size)
        result = late.logical_xor(early) if result.dtype is bool_ else late - early
    if not n:
        result = give(ops.cast(input.node, input.dtype), "Clone", (input,))
    return result if out is None else give(result.node, "Diff", (input,), out)
