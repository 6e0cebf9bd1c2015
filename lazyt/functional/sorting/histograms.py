"""Histograms over several dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from lazyt import ops
from lazyt.errors import DTypeError, LazytError, NoKernelError
from lazyt.functional import return_types
from lazyt.functional.operands import constant_of, mapped, require_tensor
from lazyt.functional.results import give
from lazyt.functional.sorting.searching import bin_between, counted, edges_of, insertion_places
from lazyt.functional.type_promotion import torch_name
from lazyt.handle.function_table import function
from lazyt.handle.tensor import Tensor
from lazyt.ir.dtypes import int64
from lazyt.ir.graph import Node, Shape
from lazyt.ir.scalar import Expr, call

__all__ = ["histogramdd"]


def _paired(outer: Expr, inner: Expr, outer_bins: Expr, inner_bins: Expr) -> Expr:
    """The bin of two dimensions together; their number of bins where either has none."""
    place = call("add", call("mul", outer, inner_bins), inner)
    inside = call("logical_and", call("lt", outer, outer_bins), call("lt", inner, inner_bins))
    return call("where", inside, place, call("mul", outer_bins, inner_bins))


def _over_width(value: Expr, low: Expr, high: Expr) -> Expr:
    return call("div", value, call("sub", high, low))


def _check_same(input: Tensor, other: Tensor, titles: str) -> None:
    """Raise DTypeError for weights or edges of another dtype than the input's."""
    if input.dtype is not other.dtype:
        raise DTypeError(
            f"torch.histogramdd: if {titles} should have the same dtype, but got "
            f"{torch_name(input.dtype)} and {torch_name(other.dtype)}"
        )


def _bins_of(bins: Any, rank: int) -> list[Any]:
    """Number or edges of the bins of every dimension. Raises LazytError where some are missing."""
    given = list(bins) if isinstance(bins, (list, tuple)) else [bins] * rank
    if len(given) != rank:
        raise LazytError(
            "histogramdd: The size of bins must be equal to the innermost dimension of the input."
        )
    for dim, count in enumerate(given):
        if not isinstance(count, Tensor) and count <= 0:
            raise LazytError(
                f"torch.histogram(): bins must be > 0, but got {count} for dimension {dim}"
            )
    return given


def _amounts(input: Tensor, weight: Tensor | None, rows: Shape) -> Node:
    """What every point counts for."""
    if weight is None:
        return constant_of(1.0, input.dtype)
    _check_same(input, weight, "weight tensor is provided, input tensor and weight tensor")
    if tuple(weight.shape) != tuple(input.shape[:-1]):
        raise LazytError(
            "torch.histogramdd: if weight tensor is provided it should have the same shape as the "
            f"input tensor excluding its innermost dimension, but got input with shape "
            f"{list(input.shape)} and weight with shape {list(weight.shape)}"
        )
    return ops.cast(ops.reshape(ops.detach(weight.node), rows), input.dtype)


def _ends(edges: Node, first: int, last: int) -> Node:
    return ops.slice_(edges, (first,), (last - first,), (1,))


@function(fractions=("bins",))
def histogramdd(
    input: Tensor, bins: Any, range: Sequence[float] | None = None,
    weight: Tensor | None = None, density: bool = False,
) -> Any:  # fmt: skip
    """``(hist, bin_edges)``: how many of the points [*, N] lie in each box of N dimensions.

    Args:
        bins: a number of equal bins for all dimensions, numbers, or tensors of ascending edges.
        range: lower and upper end of each dimension, in turn; by default those of the values, which
            are looked at.
        weight: [*], what the points count for.
        density: divide by the total and by the size of the boxes.

    Raises LazytError for other numbers of bins, ends and weights, NoKernelError for whole numbers,
    DTypeError for weights and edges of another dtype.
    """
    shape = tuple(require_tensor(input, "histogramdd").shape)
    if len(shape) < 2:
        raise LazytError("torch.histogramdd: input tensor should have at least 2 dimensions")
    rank, count = shape[-1], prod(shape[:-1])
    given = _bins_of(bins, rank)
    if input.dtype.kind != "f" or input.dtype.is_half:
        raise NoKernelError(f"\"histogramdd\" not implemented for '{torch_name(input.dtype)}'")
    if range is not None and len(range) != 2 * rank:
        raise LazytError(
            f"torch.histogramdd: for a {rank}-dimensional histogram range should have "
            f"{2 * rank} elements, but got {len(range)}"
        )
    points = ops.reshape(ops.detach(input.node), (count, rank))
    edges: list[Node] = []
    place, total = constant_of(0, int64), 1
    for dim, wanted in enumerate(given):
        if isinstance(wanted, Tensor):
            _check_same(input, wanted, "edges are given, input tensor and bins tensors")
        column = ops.reshape(ops.slice_(points, (0, dim), (count, 1), (1, 1)), (count,))
        limits = None if range is None else range[2 * dim : 2 * dim + 2]
        edges.append(edges_of(column, wanted, limits))
        number = edges[-1].shape[0] - 1
        ends = [ops.reshape(_ends(edges[-1], i, i + 1), ()) for i in (0, number)]
        inner = ops.elementwise(
            bin_between(input.dtype),
            (insertion_places(edges[-1], column, "gt"), column, *ends, constant_of(number, int64)),
        )
        sizes = (constant_of(total, int64), constant_of(number, int64))
        place = mapped(_paired, (place, inner, *sizes), int64, None)
        total *= number
    hist = counted(place, _amounts(input, weight, (count,)), total)
    hist = ops.reshape(hist, tuple(e.shape[0] - 1 for e in edges))
    if density:
        hist = _dense(hist, edges)
    parts: Any = (give(hist, "histogramdd", ()), tuple(give(e, "histogramdd", ()) for e in edges))
    return return_types.histogramdd(parts)


def _dense(hist: Node, edges: Sequence[Node]) -> Node:
    """Shares of the whole by the size of the boxes."""
    total = ops.reduce_("sum", hist, tuple(range(len(edges))))
    hist = ops.apply("div", hist, total)
    for dim, row in enumerate(edges):
        count = row.shape[0] - 1
        shape = tuple(count if i == dim else 1 for i in range(len(edges)))
        low, high = (ops.reshape(_ends(row, i, i + count), shape) for i in (0, 1))
        hist = mapped(_over_width, (hist, low, high), hist.dtype, hist.dtype)
    return hist
