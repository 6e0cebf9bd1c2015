"""Looking up values in sorted sequences, and counting them in bins."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Any

from lazyt import ops
from lazyt.errors import BoundsError, DTypeError, LazytError, NoKernelError
from lazyt.functional import return_types
from lazyt.functional.indexing.picking import value_range, within
from lazyt.functional.operands import (
    as_number,
    constant_of,
    expand_to,
    mapped,
    operand_dtype,
    require_tensor,
)
from lazyt.functional.results import give
from lazyt.handle.dispatch import type_title
from lazyt.handle.function_table import function
from lazyt.handle.tensor import Tensor
from lazyt.ir.dtypes import DType, bool_, int32, int64
from lazyt.ir.graph import Node
from lazyt.ir.scalar import Expr, arg, call, const

__all__ = ["bucketize", "histc", "histogram", "searchsorted"]


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


def insertion_places(sequence: Node, values: Node, test: str) -> Node:
    """Where each value would be inserted into an ascending sequence, int64.

    ``test``: ``ge`` to the left of equals and ``gt`` to their right, as torch.searchsorted, which
    NaN in the sequence may lead astray; ``lt`` to the left, where NaN stands at the end.

    ``sequence`` is a vector, or has the shape of ``values`` but for the last axis; both have one
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
    places = insertion_places(
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


@function(method=True)
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
    from lazyt.functional.creation.ramps import linspace

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
    place = insertion_places(edges, row, "gt")
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
