"""Distinct values and rows, found by sorting; the sizes of the results depend on the values."""

from __future__ import annotations

from typing import Any

from lazyt import ops
from lazyt.errors import BoundsError, LazytError, NoKernelError
from lazyt.functional.elementwise.arithmetic import scalar_build
from lazyt.functional.indexing.masks import true_positions
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
from lazyt.functional.results import give
from lazyt.functional.sorting.searching import insertion_places
from lazyt.functional.sorting.sorting import run_starts
from lazyt.handle.dispatch import lay_out
from lazyt.handle.function_table import function
from lazyt.handle.layout import dense_strides
from lazyt.handle.tensor import Tensor
from lazyt.ir.dtypes import bool_, int64
from lazyt.ir.graph import Node

__all__ = ["isin", "unique", "unique_consecutive"]

_SUB, _MUL, _ADD = (scalar_build(n) for n in ("sub", "mul", "add"))


def _run_numbers(starts: Node) -> Node:
    """The number of the run that each element of a row is in, int64 from 0."""
    last = len(starts.shape) - 1
    running = ops.scan("sum", ops.cast(starts, int64), last)
    return mapped(_SUB, (running, constant_of(1, int64)), int64, None)


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
        self.firsts = true_positions(starts)

    def sources(self) -> Node:
        """The original position of the first element of each run."""
        if self.order is None:
            return self.firsts
        return ops.gather(self.order, self.firsts, 0)

    def inverse(self) -> Node:
        """The run that each original element is in."""
        numbers = _run_numbers(self.starts)
        return numbers if self.order is None else _unsorted(numbers, self.order)

    def counts(self) -> Node:
        """How many elements each run has."""
        runs = self.firsts.shape[0]
        if runs == 0:
            return self.firsts
        rest = ops.slice_(self.firsts, (1,), (runs - 1,), (1,))
        end = expand_to(constant_of(self.starts.shape[0], int64), (1,))
        return mapped(_SUB, (ops.concat([rest, end], 0), self.firsts), int64, None)


def _give_runs(
    input: Tensor, values: Node, runs: _Runs, shape: tuple[int, ...], inverse: bool, counts: bool,
    name: str, axis: int = 0,
) -> Any:  # fmt: skip
    """The values alone, or a tuple with the inverse and the counts that were asked for."""
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


@function(method=True)
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
        values = ops.gather(flat, runs.sources(), 0)
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


@function()
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
        place = insertion_places(pool, node, "lt")
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
