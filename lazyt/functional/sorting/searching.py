"""Looking up values in sorted sequences, and counting them in bins."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from math import prod
from typing import Any

from lazyt import ops
from lazyt.errors import BoundsError, DTypeError, LazytError, NoKernelError
from lazyt.functional import return_types
from lazyt.functional.elementwise.arithmetic import scalar_build
from lazyt.functional.indexing.masks import count_true, true_positions
from lazyt.functional.indexing.picking import value_range, within
from lazyt.functional.operands import (
    as_number,
    choose,
    constant_of,
    expand_to,
    mapped,
    normalize_dim,
    operand_dtype,
    require_tensor,
)
from lazyt.functional.results import SAME_DTYPE, give
from lazyt.functional.sorting.sorting import run_starts
from lazyt.functional.type_promotion import torch_name
from lazyt.handle.dispatch import lay_out, type_title
from lazyt.handle.function_table import declare_grad_fn, function
from lazyt.handle.layout import dense_strides
from lazyt.handle.tensor import Tensor
from lazyt.ir.dtypes import DType, bool_, int32, int64
from lazyt.ir.graph import Node, Shape
from lazyt.ir.scalar import Expr, arg, call, const

__all__ = [
    "bucketize", "histc", "histogram", "histogramdd", "isin", "searchsorted", "unique",
    "unique_consecutive",
]  # fmt: skip


def _middle(low: Expr, high: Expr) -> Expr:
    return call("floordiv", call("add", low, high), const(2, int64))


@cache
def _passed(test: str, kind: DType) -> Expr:
    """Whether the search goes on behind the middle: of its element, the value, low and high.

    ``test``: ``lt`` for elements that are smaller; ``ge`` and ``gt`` for those of which that does
    not hold, so that what cannot be compared (NaN) is passed over, as in PyTorch.
    """
    element, value, low, high = (arg(i, t) for i, t in enumerate((kind, kind, int64, int64)))
    holds = call(test, element, value)
    before = holds if test == "lt" else call("logical_not", holds)
    return call("logical_and", before, call("lt", low, high))


def _moved(passed: Expr, middle: Expr, low: Expr) -> Expr:
    return call("where", passed, call("add", middle, const(1, int64)), low)


_LOW = _moved(arg(0, bool_), arg(1, int64), arg(2, int64))
_HIGH = call("where", arg(0, bool_), arg(2, int64), arg(1, int64))


def insertion_points(sequence: Node, values: Node, test: str) -> Node:
    """Where each value would be inserted into an ascending sequence, int64.

    ``test``: ``ge`` to the left of equals and ``gt`` to their right, as torch.searchsorted, which
    NaN in the sequence may lead astray; ``lt`` to the left, where NaN stands at the end.

    ``sequence`` is a vector, or has the shape of ``values`` except in the last axis; both have one
    dtype. A binary search without branches, step by step as PyTorch's (which shows where there is
    NaN): log2(length) gathers that fuse into one kernel.
    """
    length = sequence.shape[-1]
    wide = values.dtype.compute
    one_row = len(sequence.shape) == 1
    shape = values.shape
    if not one_row:
        rows = math.prod(sequence.shape[:-1])
        sequence = ops.reshape(sequence, (rows, length))
        values = ops.reshape(values, (rows, shape[-1] if shape else 1))
    low = expand_to(constant_of(0, int64), values.shape)
    if not values.size or not length:
        return ops.reshape(low, shape)
    high = expand_to(constant_of(length, int64), values.shape)
    key = ops.cast(values, wide)
    passes = _passed(test, wide)
    for _ in range(length.bit_length()):
        middle = mapped(_middle, (low, high), int64, None)
        near = ops.gather(sequence, middle, 0) if one_row else ops.gather(sequence, middle, 1, 1)
        passed = ops.elementwise(passes, (ops.cast(near, wide), key, low, high))
        low = ops.elementwise(_LOW, (passed, middle, low))
        high = ops.elementwise(_HIGH, (passed, middle, high))
    return ops.reshape(low, shape)


def _check_side(side: str | None, right: bool) -> bool:
    if side is None:
        return bool(right)
    if side not in ("left", "right"):
        raise LazytError(f"torch.searchsorted(): side can only be 'left' or 'right' but got {side}")
    if side == "left" and right:
        raise LazytError(
            "torch.searchsorted(): side and right can't be set to opposites, got side of left "
            "while right was True"
        )
    return side == "right"


def _check_sequence(sequence: Tensor, values: Any) -> None:
    shape = tuple(sequence.shape)
    if not shape:
        raise LazytError(
            "torch.searchsorted(): boundaries tensor should have positive dimension, but got 0 "
            "dimension"
        )
    given = tuple(values.shape) if isinstance(values, Tensor) else ()
    if len(shape) == 1:
        return
    if not given:
        raise LazytError(
            "torch.searchsorted(): input value can be a scalar only when boundaries tensor "
            f"dimension is 1, but we got boundaries tensor dim({len(shape)}) and input value's "
            "dim(0) numel(1)"
        )
    if len(given) != len(shape) or given[:-1] != shape[:-1]:
        raise LazytError(
            "torch.searchsorted(): boundaries tensor should be 1 dimension or the first N-1 "
            "dimensions of boundaries tensor and input value tensor must match, but we got "
            f"boundaries tensor {list(shape)} and input value tensor {list(given)}"
        )


def _check_out(out: Tensor | None, wanted: DType) -> None:
    if out is not None and out.dtype is not wanted:
        raise DTypeError(
            "torch.searchsorted(): output tensor's dtype is wrong, it can only be Int(int32) or "
            "Long(int64) depending on whether out_int32 flag is True, but we got output tensor's "
            f"dtype {type_title(out.dtype)} and out_int32 flag is {wanted is int32}"
        )


def _resorted(sequence: Tensor, sorter: Tensor | None) -> Node:
    """The sequence in the order that ``sorter`` says."""
    node = sequence.node
    if sorter is None:
        return node
    if sorter.shape != sequence.shape:
        raise LazytError(
            "torch.searchsorted(): boundary and sorter must have the same size, but got boundary "
            f"tensor {list(sequence.shape)}and got sorter tensor {list(sorter.shape)}"
        )
    if sorter.dtype is not int64:
        raise DTypeError(
            "torch.searchsorted(): sorter must be a tensor of long dtype but got dtype "
            + type_title(sorter.dtype)
        )
    if not node.size:
        return node
    low, high = value_range(sorter.node, within(0, node.shape[-1] - 1))
    if low < 0 or high >= node.shape[-1]:
        raise BoundsError("torch.searchsorted(): sorter index out of range")
    return ops.pick_rows(node, sorter.node)


@function()
def searchsorted(
    sorted_sequence: Tensor, input: Any, *, out_int32: bool = False, right: bool = False,
    side: str | None = None, sorter: Tensor | None = None, out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Where each of ``input`` would be inserted to keep ``sorted_sequence`` in order.

    Before equal elements, after them if ``right`` (or ``side="right"``). A sequence with several
    dimensions is searched row by row. int64, or int32 with ``out_int32``. ``sorter``: positions
    that sort the sequence; they are looked at, to check them. O(log n) a value. Raises
    LazytError, DTypeError and BoundsError as PyTorch does.
    """
    require_tensor(sorted_sequence, "searchsorted", "sorted_sequence")
    empty = isinstance(input, Tensor) and not input.node.size
    if sorted_sequence.dtype is bool_ and not empty:
        raise NoKernelError("\"searchsorted_out_cpu\" not implemented for 'Bool'")
    number = None if isinstance(input, Tensor) else as_number(input)
    values = require_tensor(input, "searchsorted", "input", 2) if number is None else number
    after = _check_side(side, right)
    _check_sequence(sorted_sequence, values)
    result = int32 if out_int32 else int64
    _check_out(out, result)
    sequence = _resorted(sorted_sequence, sorter)
    dtype = operand_dtype([sorted_sequence, values])
    node = values.node if isinstance(values, Tensor) else constant_of(values, dtype)
    places = insertion_points(
        ops.cast(sequence, dtype), ops.cast(node, dtype), "gt" if after else "ge"
    )
    return give(ops.cast(places, result), "searchsorted", (), out)


@function()
def bucketize(
    input: Any, boundaries: Tensor, *, out_int32: bool = False, right: bool = False,
    out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The number of the bucket between ``boundaries``, a sorted vector, that each value is in.

    ``boundaries[i-1] < value <= boundaries[i]``, or ``<=`` and ``<`` if ``right``. Raises
    LazytError unless boundaries have one dimension.
    """
    require_tensor(boundaries, "bucketize", "boundaries", 2)
    if len(boundaries.shape) != 1:
        raise LazytError(
            f"boundaries tensor must be 1 dimension, but got dim({len(boundaries.shape)})"
        )
    return searchsorted(boundaries, input, out_int32=out_int32, right=right, out=out)


# ---------------------------------------------------------------------------------- histograms


def _limits(
    node: Node, low: float, high: float, name: str, margin: float
) -> tuple[float, float]:  # fmt: skip
    """The range of the bins: as given, or that of the values, widened where it is empty."""
    if low == high and node.size:
        ends = [give(ops.reduce_(kind, node, (0,)), "amin", ()) for kind in ("min", "max")]
        low, high = (float(end.item()) for end in ends)
    if not (math.isfinite(low) and math.isfinite(high)):
        raise LazytError(f"{name}: range of [{low}, {high}] is not finite")
    if low == high:
        low, high = low - margin, high + margin
    if low > high:
        raise LazytError(f"{name}: max must be larger than min")
    return low, high


def _no_kernel(kernel: str, node: Node) -> NoKernelError:
    return NoKernelError(f"\"{kernel}\" not implemented for '{type_title(node.dtype)}'")


def check_bins(bins: int, node: Node, kernel: str) -> None:
    """Raise NoKernelError for whole numbers, LazytError for a number of bins below 1."""
    if node.dtype.kind != "f":
        raise _no_kernel(kernel, node)
    if bins <= 0:
        raise LazytError(f"torch.histogram(): bins must be > 0, but got {bins} for dimension 0")


def _bin_of(x: Expr, low: Expr, high: Expr, bins: Expr) -> Expr:
    """The bin of a value in equal bins, the last with its upper end; ``bins`` outside."""
    share = call("div", call("mul", call("sub", x, low), bins), call("sub", high, low))
    place = call("cast", share, dtype=int64)
    count = call("cast", bins, dtype=int64)
    place = call("minimum", place, call("sub", count, const(1, int64)))
    inside = call("logical_and", call("ge", x, low), call("le", x, high))
    return call("where", inside, place, count)


def counted(place: Node, amount: Node, bins: int) -> Node:
    """Sums of amounts by bin; what is in no bin has the number ``bins``."""
    base = expand_to(constant_of(0, amount.dtype), (bins + 1,))
    total = ops.scatter(base, place, expand_to(amount, place.shape), 0, "add")
    return ops.slice_(total, (0,), (bins,), (1,))


@function(
    method=True,
    out_dtype=(
        "torch.histogram: input tensor and hist tensor should have the same dtype, but got input "
        "{want} and hist {got}"
    ),
)
def histc(
    input: Tensor, bins: int = 100, min: float = 0, max: float = 0, *, out: Tensor | None = None
) -> Tensor:
    """How many elements lie in each of ``bins`` equal bins from ``min`` to ``max``, in the
    input's dtype.

    Without limits (both equal) they are those of the values, which are looked at. What lies
    outside, and NaN, is not counted. Raises NoKernelError for whole numbers, LazytError for
    limits.
    """
    node = require_tensor(input, "histc").node
    check_bins(bins, node, "histogram_cpu")
    row = ops.detach(ops.reshape(node, (node.size,)))
    low, high = _limits(row, float(min), float(max), "torch.histc", 1.0)
    wide = node.dtype.compute
    limits = [constant_of(v, wide) for v in (low, high, float(bins))]
    place = mapped(_bin_of, (row, *limits), wide, None)
    return give(counted(place, constant_of(1.0, node.dtype), bins), "histc", (), out)


def edges_of(
    row: Node, bins: Any, range: Sequence[float] | None
) -> Node:  # fmt: skip
    """The ascending edges of the bins, one more than there are bins."""
    if isinstance(bins, Tensor):
        return ops.cast(bins.node, row.dtype)
    if range is None and not row.size:
        range = (0.0, 1.0)
    low, high = (0.0, 0.0) if range is None else (float(range[0]), float(range[1]))
    if range is not None and low == high:
        low, high = low - 0.5, high + 0.5
    low, high = _limits(row, low, high, "torch.histogram", 0.5)
    from lazyt.functional.creation.creation import linspace

    made: Node = linspace(low, high, bins + 1, dtype=row.dtype).node
    return made


@cache
def bin_between(kind: DType) -> Expr:
    """The bin before an insertion place; the last edge belongs to the last bin.

    Of the place, the value, the first and the last edge, and the number of bins.
    """
    types = (int64, kind, kind, kind, int64)
    place, x, first, last, bins = (arg(i, t) for i, t in enumerate(types))
    found = call("minimum", call("sub", place, const(1, int64)), call("sub", bins, const(1, int64)))
    inside = call("logical_and", call("ge", x, first), call("le", x, last))
    return call("where", inside, found, bins)


@function(method=True, fractions=("bins",))
def histogram(
    input: Tensor, bins: Any = 100, *, range: Sequence[float] | None = None,
    weight: Tensor | None = None, density: bool = False, out: Sequence[Tensor] | None = None,
) -> Any:  # fmt: skip
    """``(hist, bin_edges)``: counts, or sums of ``weight``, between edges.

    ``bins``: a number of equal bins over ``range`` (by default that of the values, which are
    looked at), or a tensor of ascending edges. With ``density`` the integral is 1. Raises
    NoKernelError for whole numbers, LazytError for bins and ranges as PyTorch does.
    """
    node = require_tensor(input, "histogram").node
    count = bins.shape[0] - 1 if isinstance(bins, Tensor) else bins
    given = isinstance(bins, Tensor)
    free = not given and range is None
    check_bins(1 if given else count, node, "histogramdd" if free else "histogram_cpu")
    if free and node.dtype.is_half:
        raise _no_kernel("histogramdd", node)
    dtype, wide = node.dtype, node.dtype.compute
    row = ops.detach(ops.reshape(node, (node.size,)))
    edges = edges_of(row, bins, range)
    ends = [ops.reshape(ops.slice_(edges, (i,), (1,), (1,)), ()) for i in (0, count)]
    place = insertion_points(edges, row, "gt")
    nodes = [ops.cast(n, wide) for n in (row, *ends)]
    number = constant_of(count, int64)
    inside = ops.elementwise(bin_between(wide), (place, *nodes, number))
    if weight is None:
        amount = constant_of(1.0, dtype)
    else:
        if tuple(weight.shape) != tuple(input.shape):
            raise LazytError(
                "torch.histogram(): if weight tensor is provided it should have the same shape "
                "as the input tensor excluding its innermost dimension, but got input with shape "
                f"{[*input.shape, 1]} and weight with shape {list(weight.shape)}"
            )
        amount = ops.cast(ops.reshape(ops.detach(weight.node), (node.size,)), dtype)
    hist = counted(inside, amount, count)
    if density:
        hist = _normalized(hist, edges, count)
    targets = (None, None) if out is None else out
    found = give(hist, "histogram", (), targets[0])
    return return_types.histogram((found, give(edges, "histogram", (), targets[1])))


def _normalized(hist: Node, edges: Node, count: int) -> Node:
    low = ops.slice_(edges, (0,), (count,), (1,))
    high = ops.slice_(edges, (1,), (count,), (1,))
    total = ops.reduce_("sum", hist, (0,))
    return mapped(_density, (hist, total, low, high), hist.dtype, hist.dtype)


def _density(hist: Expr, total: Expr, low: Expr, high: Expr) -> Expr:
    return call("div", call("div", hist, total), call("sub", high, low))


# Distinct values and rows, found by sorting; the sizes of the results depend on the values.


_SUB, _MUL, _ADD = (scalar_build(n) for n in ("sub", "mul", "add"))


def _run_numbers(starts: Node) -> Node:
    """The number of the run that each element of a row is in, int64 from 0."""
    shape, last = starts.shape, len(starts.shape) - 1
    if not shape[last]:
        return ops.cast(starts, int64)
    low, ones = (0,) * last, (1,) * len(shape)
    later = ops.slice_(starts, (*low, 1), (*shape[:-1], shape[-1] - 1), ones)
    first = expand_to(ops.constant(0, int64), (*shape[:-1], 1))
    return ops.scan("sum", ops.concat([first, ops.cast(later, int64)], last), last)


def _unsorted(values: Node, order: Node) -> Node:
    """Values of sorted rows, brought back to where their elements came from."""
    shape = values.shape
    rows = 1
    for extent in shape[:-1]:
        rows *= extent
    flat = (rows, shape[-1])
    base = expand_to(constant_of(0, values.dtype), flat)
    written = ops.scatter(base, ops.reshape(order, flat), ops.reshape(values, flat), 1, "set", 1)
    return ops.reshape(written, shape)


def _dense_ranks(rows: Node) -> Node:
    """For each element of a row, how many distinct values of its row are smaller; int64."""
    starts = run_starts(ops.sort("values", rows))
    return _unsorted(_run_numbers(starts), ops.sort("order", rows))


def _row_ranks(table: Node) -> Node:
    """The lexicographic rank of each row of a 2-d table among its distinct rows.

    Columns are ranked by themselves, then neighbouring ranks in pairs, in pairs of pairs, ...: a
    batched sort each time, log2(columns) times.
    """
    count, width = table.shape
    ranks = _dense_ranks(ops.permute(table, (1, 0)))
    while width > 1:
        half = width // 2
        sizes, steps = (half, count), (2, 1)
        left = ops.slice_(ranks, (0, 0), sizes, steps)
        right = ops.slice_(ranks, (1, 0), sizes, steps)
        scaled = mapped(_MUL, (left, constant_of(count, int64)), int64, None)
        paired = _dense_ranks(mapped(_ADD, (scaled, right), int64, None))
        if width % 2:
            odd = ops.slice_(ranks, (width - 1, 0), (1, count), (1, 1))
            paired = ops.concat([paired, odd], 0)
        ranks, width = paired, width - half
    return ops.reshape(ranks, (count,))


class _Runs:
    """What ``unique`` asks about elements whose equals stand together.

    ``starts``: bool vector, where a run begins. ``order``: where each element came from; None when
    nothing was sorted.
    """

    def __init__(self, starts: Node, order: Node | None) -> None:
        self.starts = starts
        self.order = order
        self._firsts: Node | None = None

    def firsts(self) -> Node:
        """Where each run begins. No cached property: under ``vmap`` the error names the function of
        the library that looks at values, which ends where Python's own modules call."""
        if self._firsts is None:
            self._firsts = true_positions(self.starts)
        return self._firsts

    def values(self, row: Node) -> Node:
        """The first element of each run of ``row``, which was not sorted and has no gradient.

        Each element is written to the place of its run: the last one first, as equal floats may
        have other bits.
        """
        count, size = count_true(self.starts), row.size
        if size < 2:
            return row
        later = ops.cast(ops.slice_(self.starts, (1,), (size - 1,), (1,)), int64)
        # All places begin with what is in the first run, or the last, and is not written.
        if row.dtype.kind not in "fc":
            base = expand_to(ops.slice_(row, (0,), (1,), (1,)), (count,))
            elements = ops.slice_(row, (1,), (size - 1,), (1,))
            return ops.scatter(base, ops.scan("sum", later, 0), elements, 0, "set")
        base = expand_to(ops.slice_(row, (size - 1,), (1,), (1,)), (count,))
        behind = ops.scan("sum", ops.flip(later, (0,)), 0)
        places = mapped(_SUB, (ops.constant(count - 1, int64), behind), int64, None)
        elements = ops.flip(ops.slice_(row, (0,), (size - 1,), (1,)), (0,))
        return ops.scatter(base, places, elements, 0, "set")

    def sources(self) -> Node:
        """The original position of the first element of each run."""
        if self.order is None:
            return self.firsts()
        return ops.gather(self.order, self.firsts(), 0)

    def inverse(self) -> Node:
        """The run that each original element is in."""
        numbers = _run_numbers(self.starts)
        return numbers if self.order is None else _unsorted(numbers, self.order)

    def counts(self) -> Node:
        """How many elements each run has."""
        firsts = self.firsts()
        runs = firsts.shape[0]
        if runs == 0:
            return firsts
        rest = ops.slice_(firsts, (1,), (runs - 1,), (1,))
        end = expand_to(constant_of(self.starts.shape[0], int64), (1,))
        return mapped(_SUB, (ops.concat([rest, end], 0), firsts), int64, None)


def _give_runs(
    input: Tensor, values: Node, runs: _Runs, shape: tuple[int, ...], inverse: bool, counts: bool,
    name: str, axis: int = 0,
) -> Any:  # fmt: skip
    """The values alone, or a tuple with the inverse and the counts that were requested."""
    found = give(values, name, (input,))
    rest = (i for i in range(len(values.shape)) if i != axis)  # PyTorch moves the axis to the front
    results = [lay_out(found, dense_strides(values.shape, (axis, *rest)))]
    if inverse:
        results.append(give(ops.reshape(runs.inverse(), shape), "unique", ()))
    if counts:
        results.append(give(runs.counts(), "unique", ()))
    return results[0] if len(results) == 1 else tuple(results)


def _row_table(node: Node, dim: int) -> tuple[Node, int]:
    """The slices along ``dim`` as rows of a table, and the axis that they came from."""
    if not node.shape:
        raise BoundsError(f"Dimension specified as {dim} but tensor has no dimensions")
    axis = normalize_dim(dim, len(node.shape))
    if 0 in node.shape[:axis] + node.shape[axis + 1 :]:
        raise LazytError(
            "There are 0 sized dimensions, and they aren't selected, so unique cannot be applied"
        )
    order = [axis, *(a for a in range(len(node.shape)) if a != axis)]
    count = node.shape[axis]
    width = 1
    for number, extent in enumerate(node.shape):
        width *= extent if number != axis else 1
    return ops.reshape(ops.permute(node, order), (count, width)), axis


def _row_starts(rows: Node) -> Node:
    """Bool: which rows of a table differ from the one before."""
    return ops.reduce_("any", run_starts(ops.permute(rows, (1, 0))), (0,))


@function(method=True)
def unique(
    input: Tensor, sorted: bool = True, return_inverse: bool = False,
    return_counts: bool = False, dim: int | None = None,
) -> Any:  # fmt: skip
    """The distinct values, in order; with ``dim``, the distinct slices along it.

    With ``return_inverse`` also the place of each element among them, with ``return_counts`` also
    how often each occurs (int64); then a tuple. NaN differs from NaN. In order also when that is
    not asked for. Looks at the values. Raises BoundsError and LazytError for ``dim`` as PyTorch.
    """
    node = require_tensor(input, "unique").node
    if dim is None:
        flat = ops.reshape(node, (node.size,))
        ordered = ops.sort("values", flat)
        runs = _Runs(_starts(ordered), ops.sort("order", flat))
        values = ops.gather(flat, runs.sources(), 0)
        shape = node.shape
        name, axis = "Unique2", 0
    else:
        rows, axis = _row_table(node, dim)
        if rows.size == 0:
            order = ops.iota(0)
            runs = _Runs(expand_to(ops.constant(True, bool_), (0,)), order)
        else:
            ranks = _row_ranks(rows)
            order = ops.sort("order", ranks)
            runs = _Runs(_starts(ops.sort("values", ranks)), order)
        values = ops.gather(node, runs.sources(), axis)
        shape = (node.shape[axis],)
        name = "UniqueDim"
    return _give_runs(input, values, runs, shape, return_inverse, return_counts, name, axis)


def _starts(row: Node) -> Node:
    return run_starts(row) if row.size else expand_to(ops.constant(True, bool_), (0,))


declare_grad_fn("Unique2", "UniqueDim", "UniqueDimConsecutive", saves="x")


@function(method=True, saves="x")
def unique_consecutive(
    input: Tensor, return_inverse: bool = False, return_counts: bool = False,
    dim: int | None = None,
) -> Any:  # fmt: skip
    """``unique`` of neighbours alone: the first of every run of equal elements, or slices along
    ``dim``. Looks at the values. Raises BoundsError and LazytError for ``dim`` as PyTorch."""
    node = require_tensor(input, "unique_consecutive").node
    if dim is None:
        flat = ops.reshape(node, (node.size,))
        runs = _Runs(_starts(flat), None)
        follows = flat.needs_grad
        values = ops.gather(flat, runs.sources(), 0) if follows else runs.values(flat)
        shape = node.shape
        name, axis = "UniqueConsecutive", 0
    else:
        rows, axis = _row_table(node, dim)
        starts = _row_starts(rows) if rows.size else expand_to(ops.constant(True, bool_), (0,))
        runs = _Runs(starts, None)
        values = ops.gather(node, runs.sources(), axis)
        shape = (node.shape[axis],)
        name = "UniqueDimConsecutive"
    return _give_runs(input, values, runs, shape, return_inverse, return_counts, name, axis)


@function(out_dtype=SAME_DTYPE)
def isin(
    elements: Any, test_elements: Any, *, assume_unique: bool = False, invert: bool = False,
    out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Bool: which ``elements`` occur among ``test_elements``; with ``invert``, which do not.

    One of the two may be a number. ``test_elements`` are sorted and searched, so no table of all
    pairs is made. Raises NoKernelError for bool.
    """
    operands = [_operand(v, n) for n, v in enumerate((elements, test_elements), 1)]
    if not any(isinstance(o, Tensor) for o in operands):
        require_tensor(test_elements, "isin", "test_elements", 2)
    for item in operands:
        if isinstance(item, bool) or (isinstance(item, Tensor) and item.dtype is bool_):
            raise NoKernelError("Unsupported input type encountered for isin(): Bool")
    dtype = operand_dtype(operands)
    node, tests = (
        ops.cast(o.node, dtype) if isinstance(o, Tensor) else constant_of(o, dtype)
        for o in operands
    )
    if tests.size and node.size:
        pool = ops.sort("values", ops.reshape(tests, (tests.size,)))
        place = insertion_points(pool, node, "lt")
        near = ops.gather(pool, place, 0)  # clamps: past the end stands the largest
        wide = dtype.compute
        found = ops.apply("eq", ops.cast(near, wide), ops.cast(node, wide))
    else:
        found = expand_to(ops.constant(False, bool_), node.shape)
    if invert:
        found = choose(
            found, ops.constant(False, bool_), ops.constant(True, bool_), bool_
        )  # fmt: skip
    return give(found, "isin", (), out)


def _operand(value: Any, position: int) -> Any:
    number = None if isinstance(value, Tensor) else as_number(value)
    if number is not None:
        return number
    return require_tensor(value, "isin", ("elements", "test_elements")[position - 1], position)


# Histograms over several dimensions.


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
            (insertion_points(edges[-1], column, "gt"), column, *ends, constant_of(number, int64)),
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
