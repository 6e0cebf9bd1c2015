"""What is read off a sorted row: the k-th value, medians, the mode, quantiles."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

from lazyt import ops
from lazyt.errors import BoundsError, DTypeError, LazytError, NoKernelError
from lazyt.functional import return_types
from lazyt.functional.elementwise.arithmetic import scalar_build
from lazyt.functional.operands import (
    as_number,
    choose,
    constant_of,
    expand_to,
    mapped,
    normalize_dim,
    require_tensor,
)
from lazyt.functional.result_layout import preserving
from lazyt.functional.results import SAME_DTYPE, give
from lazyt.functional.value_checks import from_to, values_hold
from lazyt.handle.autocast import in_full_precision
from lazyt.handle.dispatch import lay_out
from lazyt.handle.function_table import function
from lazyt.handle.layout import dense_strides
from lazyt.handle.tape import remember
from lazyt.handle.tensor import Tensor
from lazyt.ir.dtypes import DType, bfloat16, bool_, float16, float32, float64, int32, int64
from lazyt.ir.graph import Node
from lazyt.ir.scalar import Expr, call, const

__all__ = [
    "argsort", "kthvalue", "median", "mode", "msort", "nanmedian", "nanquantile", "quantile",
    "sort", "topk",
]  # fmt: skip


# Sorting along a dimension, and the largest or smallest elements.
#
# Equal elements keep their order with and without ``stable``, and NaN is larger than
# everything. Positions are only computed when somebody uses them.


_ADD, _MUL = scalar_build("add"), scalar_build("mul")
#: Longer rows are cut into blocks where at most one in _FEW elements is wanted, and where there are
#: so many elements that sorting takes longer than calls of more kernels.
_SHORT, _FEW, _MANY = 64, 4, 1 << 14


def rows_of(node: Node, axis: int) -> Node:
    """``node`` with ``axis`` last; a number as a row of one."""
    rank = len(node.shape)
    if not rank:
        return ops.reshape(node, (1,))
    if axis == rank - 1:
        return node
    return ops.permute(node, [*(a for a in range(rank) if a != axis), axis])


def rows_back(node: Node, axis: int, rank: int) -> Node:
    """``node`` with its last axis moved to ``axis``, the inverse of ``rows_of``."""
    if not rank:
        return ops.reshape(node, ())
    if axis == rank - 1:
        return node
    order = [*range(axis), rank - 1, *range(axis, rank - 1)]
    return ops.permute(node, order)


def front(node: Node, count: int) -> Node:
    """The first ``count`` elements of every row."""
    shape = node.shape
    if shape[-1] == count:
        return node
    return ops.slice_(node, (0,) * len(shape), (*shape[:-1], count), (1,) * len(shape))


def give_pair(
    nodes: tuple[Node, Node],
    name: str,
    input: Tensor,
    out: Sequence[Tensor] | None,
    pack: type[return_types.Named],
) -> return_types.Named:
    """Values and positions as a named result, written to the two tensors of ``out`` if given."""
    targets = (None, None) if out is None else out
    values = give(nodes[0], name, (input,), targets[0])
    places = give(nodes[1], name, (input,), targets[1])
    remember(values, places)
    return pack((values, places))


def _sorted(node: Node, dim: int, descending: bool) -> tuple[Node, Node]:
    rank = len(node.shape)
    axis = normalize_dim(dim, rank)
    rows = rows_of(node, axis)
    values, order = (ops.sort(kind, rows, bool(descending)) for kind in ("values", "order"))
    return rows_back(values, axis, rank), rows_back(order, axis, rank)


@function(method=True, saves="q", layout=preserving, out_dtype=SAME_DTYPE)
def sort(
    input: Tensor, dim: int = -1, descending: bool = False, *, stable: bool | None = None,
    out: Sequence[Tensor] | None = None,
) -> Any:  # fmt: skip
    """``(values, indices)`` in order along ``dim``; indices are int64 positions along it.

    Always stable. ``out``: a pair of tensors. Raises BoundsError for a dimension that is not
    there. The gradient goes to where each value came from.
    """
    nodes = _sorted(require_tensor(input, "sort").node, dim, descending)
    return give_pair(nodes, "Sort", input, out, return_types.sort)


@function(method=True)
def argsort(
    input: Tensor, dim: int = -1, descending: bool = False, *, stable: bool | None = None,
    out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The int64 positions that put ``input`` in order along ``dim``; always stable."""
    order = _sorted(require_tensor(input, "argsort").node, dim, descending)[1]
    return give(order, "Sort", (input,), out)


@function(method=True)
def msort(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """``input`` in ascending order along its first dimension."""
    values = _sorted(require_tensor(input, "msort").node, 0, False)[0]
    return give(values, "Sort", (input,), out)


def _best_indices(rows: Node, count: int, largest: bool) -> Node:
    """The positions of the ``count`` first elements of each sorted row.

    Of long rows not everything is sorted: cut into blocks, they are in the ``count`` blocks with
    the best first elements. That also holds for equal elements, of which earlier ones are better.
    """
    length = rows.shape[-1]
    if count == 0 or length <= _SHORT or count > length // _FEW or rows.size < _MANY:
        return front(ops.sort("order", rows, largest), count)
    width = max(math.isqrt(length // count), 2)  # as many blocks as candidates
    padded, blocks = _blocks(rows, width, largest)
    chosen = _best_indices(_best_of(blocks, largest), count, largest)
    starts = mapped(_MUL, (ops.sort("values", chosen), constant_of(width, int64)), int64, None)
    shape = (*starts.shape, width)
    steps = mapped(_ADD, (ops.reshape(starts, (*starts.shape, 1)), ops.iota(width)), int64, None)
    places = ops.reshape(ops.broadcast_to(steps, shape), (*starts.shape[:-1], count * width))
    order = _best_indices(ops.pick_rows(padded, places), count, largest)
    return ops.pick_rows(places, order)


def _blocks(rows: Node, width: int, largest: bool) -> tuple[Node, Node]:
    """Rows filled up with what comes last, and the same cut into blocks of ``width``."""
    count = -(-rows.shape[-1] // width)
    short = count * width - rows.shape[-1]
    if short:
        last = _lowest(rows.dtype) if largest else _highest(rows.dtype)
        none = [0] * len(rows.shape)
        rows = ops.pad(rows, none, [*none[1:], short], none, last)
    return rows, ops.reshape(rows, (*rows.shape[:-1], count, width))


def _lowest(dtype: DType) -> float:
    if dtype.kind == "f":
        return -math.inf
    return -(1 << (8 * dtype.itemsize - 1)) if dtype.kind == "i" else 0


def _highest(dtype: DType) -> float:
    if dtype.kind == "f":
        return math.nan
    return (1 << (8 * dtype.itemsize - (dtype.kind == "i"))) - 1


def _best_of(blocks: Node, largest: bool) -> Node:
    """The first element of each sorted block. NaN is the largest, as ``max`` has it."""
    axis = (len(blocks.shape) - 1,)
    if largest or blocks.dtype.kind != "f":
        return ops.reduce_("max" if largest else "min", blocks, axis)
    dtype = blocks.dtype
    missing = ops.apply("isnan", ops.cast(blocks, dtype.compute))
    present = choose(missing, constant_of(math.inf, dtype), blocks, dtype)
    least, nothing = ops.reduce_("min", present, axis), ops.reduce_("all", missing, axis)
    return choose(nothing, constant_of(math.nan, dtype), least, dtype)


@function(method=True, saves="q", out_dtype=SAME_DTYPE, out_separate=True)
def topk(
    input: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True, *,
    out: Sequence[Tensor] | None = None,
) -> Any:  # fmt: skip
    """``(values, indices)`` of the ``k`` largest (or smallest) elements along ``dim``.

    In order, best first, also without ``sorted``; among equals the first are taken. Raises
    LazytError for a ``k`` that is out of range, DTypeError for bool.
    """
    node = require_tensor(input, "topk").node
    rank = len(node.shape)
    if isinstance(dim, bool):
        raise DTypeError("topk(): argument 'dim' (position 2) must be int, not bool")
    axis = normalize_dim(dim, rank)
    if not hasattr(k, "__index__"):
        raise DTypeError(f"topk(): argument 'k' (position 2) must be int, not {type(k).__name__}")
    if not 0 <= k <= (node.shape[axis] if rank else 1):
        raise LazytError("selected index k out of range")
    if node.dtype is bool_:
        raise DTypeError("topk does not support bool dtypes on CPU")
    rows = rows_of(node, axis)
    count = k if rank else 1
    order = _best_indices(ops.detach(rows), count, bool(largest))
    values = ops.pick_rows(rows, order) if order.size else front(rows, count)
    nodes = rows_back(values, axis, rank), rows_back(order, axis, rank)
    return give_pair(nodes, "Topk", input, out, return_types.topk)


_EQUAL = scalar_build("eq")


def _axis(node: Node, dim: int, function: str) -> int:
    """The axis ``dim``, which must have elements."""
    axis = normalize_dim(dim, len(node.shape))
    if node.shape and node.shape[axis] == 0:
        text = f"{function}(): Expected reduction dim {axis} to have non-zero size."
        raise BoundsError(text)
    return axis


def _reduced(node: Node, axis: int, rank: int, keepdim: bool) -> Node:
    """A row of one element as the result along ``axis``."""
    whole = rows_back(node, axis, rank)
    if keepdim or not rank:
        return whole
    return ops.reshape(whole, whole.shape[:axis] + whole.shape[axis + 1 :])


def _pick(rows: Node, place: Node) -> tuple[Node, Node]:
    """The value and position of the element that a sorted row has at ``place``.

    ``place``: int64, one for each row. The gradient goes to that element alone.
    """
    if rows.size == 0:
        return place, place
    position = ops.pick_rows(ops.sort("order", rows), place)
    if rows.needs_grad:
        return ops.pick_rows(rows, position), position
    return ops.pick_rows(ops.sort("values", rows), place), position


def _chosen(
    input: Tensor, found: tuple[Node, Node], axis: int, keepdim: bool, name: str,
    out: Sequence[Tensor] | None, pack: type[return_types.Named],
) -> return_types.Named:  # fmt: skip
    """The result of a function that finds a value and its position in each row."""
    rank = len(input.shape)
    value, position = found
    nodes = (ops.cast(value, input.dtype), position)
    results = tuple(_reduced(node, axis, rank, keepdim) for node in nodes)
    return give_pair((results[0], results[1]), name, input, out, pack)


def _one_each(rows: Node, value: int) -> Node:
    return expand_to(constant_of(value, int64), (*rows.shape[:-1], 1))


@function(
    method=True,
    saves="q",
    out_dtype="output values must be of same type as input",
    out_separate=True,
)
def kthvalue(
    input: Tensor, k: int, dim: int = -1, keepdim: bool = False, *,
    out: Sequence[Tensor] | None = None,
) -> Any:  # fmt: skip
    """``(values, indices)`` of the ``k``-th smallest element along ``dim``, counted from 1.

    Raises LazytError for a ``k`` out of range, BoundsError for an empty dimension, NoKernelError
    for bool.
    """
    node = require_tensor(input, "kthvalue").node
    axis, k = _axis(node, dim, "kthvalue"), operator.index(k)
    if not 1 <= k <= (node.shape[axis] if node.shape else 1):
        raise LazytError(f"kthvalue(): selected number k out of range for dimension {axis}")
    if node.shape:
        _refuse_bool(node, "kthvalue_cpu")
    rows = rows_of(node, axis)
    found = _pick(rows, _one_each(rows, k - 1))
    return _chosen(input, found, axis, keepdim, "Kthvalue", out, return_types.kthvalue)


def _refuse_bool(node: Node, kernel: str) -> None:
    if node.dtype is bool_:
        raise NoKernelError(f"\"{kernel}\" not implemented for 'Bool'")


def _present(rows: Node) -> Node:
    """How many elements of each row are no NaN, int64; they come first in a sorted row."""
    if rows.dtype.kind != "f":
        return _one_each(rows, rows.shape[-1])
    last = len(rows.shape) - 1
    there = ops.apply("logical_not", ops.apply("isnan", ops.cast(rows, rows.dtype.compute)))
    count = ops.reduce_("sum", ops.cast(there, int64), (last,))
    return ops.reshape(count, (*rows.shape[:-1], 1))


def _middle(count: Expr) -> Expr:
    lower = call("floordiv", call("sub", count, const(1, int64)), const(2, int64))
    return call("maximum", lower, const(0, int64))


def _median_place(rows: Node, ignore_nan: bool) -> Node:
    """Where the lower median stands in a sorted row; with NaN, unless ignored, the first NaN."""
    length = rows.shape[-1]
    count = _present(rows)
    if ignore_nan:
        return mapped(_middle, (count,), int64, None)
    full = mapped(_EQUAL, (count, constant_of(length, int64)), int64, None)
    return choose(full, constant_of((length - 1) // 2, int64), count, int64)


def _median(
    input: Tensor, dim: int | None, keepdim: bool, ignore_nan: bool,
    out: Sequence[Tensor] | None,
) -> Any:  # fmt: skip
    name = "nanmedian" if ignore_nan else "median"
    node = require_tensor(input, name).node
    title = name.capitalize()
    if dim is None:
        if node.size:
            _refuse_bool(node, "median_cpu")
        return give(_median_of_all(node, ignore_nan), f"{title}Backward0", (input,))
    axis = _axis(node, dim, "median")
    _refuse_bool(node, "median_out")
    rows = rows_of(node, axis)
    found = _pick(rows, _median_place(rows, ignore_nan))
    pack = return_types.nanmedian if ignore_nan else return_types.median
    return _chosen(input, found, axis, keepdim, f"{title}Backward1", out, pack)


# What PyTorch's conversion makes of NaN, the median of nothing; 0 for other types.
_EMPTY: dict[DType, float] = {
    **dict.fromkeys((float16, bfloat16, float32, float64), math.nan),
    int64: -(1 << 63), int32: -(1 << 31), bool_: True,
}  # fmt: skip


def _median_of_all(node: Node, ignore_nan: bool) -> Node:
    """The median of all elements; those that are equal to it share its gradient."""
    row = ops.reshape(node, (node.size,))
    if not node.size:
        return constant_of(_EMPTY.get(node.dtype, 0), node.dtype)
    plain = ops.detach(row)
    found = ops.pick_rows(ops.sort("values", plain), _median_place(plain, ignore_nan))
    if not node.needs_grad:
        return ops.reshape(found, ())
    lowest = constant_of(-math.inf, node.dtype)
    same = mapped(_same, (row, found), node.dtype, None)
    return ops.reduce_("max", choose(same, row, lowest, node.dtype), (0,))


def _same(x: Expr, y: Expr) -> Expr:
    """Equal, or both NaN."""
    both = call("logical_and", call("isnan", x), call("isnan", y))
    return call("logical_or", call("eq", x, y), both)


_SAME_TYPE_OF_VALUES = (
    "Expected tensor for 'values' to have the same type as tensor for argument #2 'self'; but type "
    "torch.{Got}Tensor does not equal torch.{Want}Tensor"
)


@function(method=True, saves="q", out_dtype=_SAME_TYPE_OF_VALUES)
def median(
    input: Tensor, dim: int | None = None, keepdim: bool = False, *,
    out: Sequence[Tensor] | None = None,
) -> Any:  # fmt: skip
    """The lower median of all elements, or ``(values, indices)`` along ``dim``.

    NaN wherever there is one. Raises BoundsError for an empty dimension, NoKernelError for bool.
    """
    return _median(input, dim, keepdim, False, out)


@function(method=True, out_dtype=_SAME_TYPE_OF_VALUES)
def nanmedian(
    input: Tensor, dim: int | None = None, keepdim: bool = False, *,
    out: Sequence[Tensor] | None = None,
) -> Any:  # fmt: skip
    """``median`` of what is not NaN; NaN where nothing else is there."""
    return _median(input, dim, keepdim, True, out)


# -------------------------------------------------------------------------------------- mode


def run_starts(rows: Node) -> Node:
    """Bool: which elements of each row differ from the one before; the first always does."""
    shape = rows.shape
    rank = len(shape)
    ones, low = (1,) * rank, (0,) * rank
    short = (*shape[:-1], shape[-1] - 1)
    before = ops.slice_(rows, low, short, ones)
    after = ops.slice_(rows, (*low[1:], 1), short, ones)
    changed = ops.apply("ne", *(ops.cast(n, rows.dtype.compute) for n in (before, after)))
    first = expand_to(ops.constant(True, bool_), (*shape[:-1], 1))
    return ops.concat([first, changed], rank - 1)


def _most_frequent(rows: Node) -> tuple[Node, Node]:
    """The most frequent value of each row, the smallest of several, and where it occurs last; in a
    row of NaN the first. The order of the row, which takes longer than sorting, is not needed."""
    last = len(rows.shape) - 1
    plain = ops.detach(rows)
    ordered = ops.sort("values", plain)
    place = ops.positions(rows.shape, [int(a == last) for a in range(last + 1)])
    zero = constant_of(0, int64)
    starts = ops.scan("max", choose(run_starts(ordered), place, zero, int64), last)
    length = ops.apply("sub", place, starts)
    each = (*rows.shape[:-1], 1)
    longest = ops.reshape(ops.arg_reduce("argmax", length, last), each)
    value = ops.pick_rows(ordered, longest)
    same = ops.apply("eq", *(ops.cast(n, rows.dtype.compute) for n in (plain, value)))
    position = ops.reduce_("max", choose(same, place, zero, int64), (last,))
    position = ops.reshape(position, each)
    return ops.pick_rows(rows, position) if rows.needs_grad else value, position


@function(
    method=True,
    saves="q",
    out_dtype="expected scalar type '{Want}' but got '{Got}' for values output",
)
def mode(
    input: Tensor, dim: int = -1, keepdim: bool = False, *, out: Sequence[Tensor] | None = None
) -> Any:
    """``(values, indices)`` of the most frequent value along ``dim``: the smallest of several, and
    where it occurs last. Raises BoundsError for an empty dimension."""
    node = require_tensor(input, "mode").node
    axis = _axis(node, dim, "mode")
    rows = rows_of(node, axis)
    found = _most_frequent(rows) if rows.size else (_one_each(rows, 0),) * 2
    return _chosen(input, found, axis, keepdim, "Mode", out, return_types.mode)


# --------------------------------------------------------------------------------- quantiles

_MODES = ("linear", "lower", "higher", "midpoint", "nearest")


def _check_quantile(node: Node, q: Any, interpolation: str) -> Node:
    """``q`` as a node of the input's dtype; raises as PyTorch does."""
    if not node.size:
        raise LazytError("quantile() input tensor must be non-empty")
    if node.dtype not in (float32, float64):
        raise DTypeError("quantile() input tensor must be either float or double dtype")
    if isinstance(q, Tensor):
        if len(q.shape) > 1:
            raise LazytError("quantile() q must be a scalar or 1D tensor")
        if q.dtype is not node.dtype:
            raise DTypeError("quantile() q tensor must be same dtype as the input tensor")
    if interpolation not in _MODES:
        raise LazytError(
            "quantile() interpolation must be one of linear, lower, higher, midpoint or nearest, "
            f"but got {interpolation}"
        )
    if isinstance(q, Tensor):
        if not values_hold(q, from_to(0, 1), "the ranks of quantile() are checked"):
            raise LazytError("quantile() q values must be in the range [0, 1]")
        return q.node
    number = as_number(q)
    if number is None or isinstance(number, complex):
        raise DTypeError("quantile(): argument 'q' must be a tensor or a number")
    if not 0 <= number <= 1:
        raise LazytError(f"quantile() q must be in the range [0, 1] but got {number}")
    return constant_of(float(number), node.dtype)


def _rank_of(q: Expr, count: Expr) -> Expr:
    last = call("sub", count, const(1, count.dtype))
    return call("maximum", call("mul", q, last), const(0, q.dtype))


def _rank_or_last(q: Expr, count: Expr, length: Expr) -> Expr:
    """The rank, or the last place, where a sorted row has its NaN."""
    last = call("sub", length, const(1, length.dtype))
    return call("where", call("lt", count, length), last, _rank_of(q, length))


def _interpolate(low: Expr, high: Expr, weight: Expr) -> Expr:
    """``torch.lerp``, which is exact at both ends."""
    gap = call("sub", high, low)
    left = call("add", low, call("mul", weight, gap))
    rest = call("sub", const(1, weight.dtype), weight)
    right = call("sub", high, call("mul", gap, rest))
    return call("where", call("lt", weight, const(0.5, weight.dtype)), left, right)


def _half(low: Expr, high: Expr) -> Expr:
    return _interpolate(low, high, const(0.5, low.dtype))


def _quantile(
    input: Tensor, q: Any, dim: int | None, keepdim: bool, interpolation: str, name: str,
    out: Tensor | None,
) -> Tensor:  # fmt: skip
    node = require_tensor(input, name).node
    points = _check_quantile(node, q, interpolation)
    rank = len(node.shape)
    axis = 0 if dim is None else normalize_dim(dim, rank)
    kept = tuple(1 if dim is None or i == axis else n for i, n in enumerate(node.shape))
    rows = ops.reshape(node, (node.size,)) if dim is None else rows_of(node, axis)
    rows = ops.reshape(rows, (rows.size // rows.shape[-1], rows.shape[-1]))
    dtype = node.dtype
    length, asked = rows.shape[-1], ops.reshape(points, (1, points.size))
    present = ops.cast(_present(rows), dtype)
    if name == "nanquantile":
        place = mapped(_rank_of, (asked, present), dtype, dtype)
    else:
        full = constant_of(float(length), dtype)
        place = mapped(_rank_or_last, (asked, present, full), dtype, dtype)
    found = _at_ranks(ops.sort("values", rows), place, interpolation)
    ahead = ops.reshape(ops.permute(found, (1, 0)), (points.size, *kept))
    shape = kept if keepdim else kept[:axis] + kept[axis + 1 :] if dim is not None else ()
    result = ops.reshape(ahead, points.shape + shape)
    parents = (input, q) if isinstance(q, Tensor) else (input,)
    given = give(result, "Squeeze", parents, out)
    if out is not None or not points.shape:
        return given
    return lay_out(given, dense_strides(points.shape + shape, (*range(1, len(shape) + 1), 0)))


def _at_ranks(rows: Node, place: Node, interpolation: str) -> Node:
    """Elements of sorted rows at ranks, which may lie between two."""
    dtype = rows.dtype
    if interpolation == "nearest":
        return ops.pick_rows(rows, ops.cast(ops.apply("round", place), int64))
    below = ops.apply("floor", place)
    low = ops.pick_rows(rows, ops.cast(below, int64))
    if interpolation == "lower":
        return low
    high = ops.pick_rows(rows, ops.cast(ops.apply("ceil", place), int64))
    if interpolation == "higher":
        return high
    if interpolation == "midpoint":
        return mapped(_half, (low, high), dtype, dtype)
    weight = ops.apply("sub", place, below)
    return mapped(_interpolate, (low, high, weight), dtype, dtype)


@function(method=True)
@in_full_precision
def quantile(
    input: Tensor, q: Any, dim: int | None = None, keepdim: bool = False, *,
    interpolation: str = "linear", out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The ``q``-th quantiles of all elements or along ``dim``; NaN where there is a NaN.

    ``q``: a number, or a tensor of the input's dtype with 0 or 1 dimensions; with one, the result
    has it in front. ``interpolation`` between neighbours: ``linear lower higher midpoint
    nearest``. Looks at the values of a tensor ``q``, to check them. Raises LazytError and
    DTypeError as PyTorch does.
    """
    return _quantile(input, q, dim, keepdim, interpolation, "quantile", out)


@function(method=True)
@in_full_precision
def nanquantile(
    input: Tensor, q: Any, dim: int | None = None, keepdim: bool = False, *,
    interpolation: str = "linear", out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """``quantile`` of what is not NaN; NaN where nothing else is there."""
    return _quantile(input, q, dim, keepdim, interpolation, "nanquantile", out)
