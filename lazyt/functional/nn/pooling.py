"""Pooling: one value for every window of the last dimensions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from lazyt import ops
from lazyt.errors import BoundsError, DTypeError, LazytError, RankError, ShapeError
from lazyt.functional.elementwise.arithmetic import scalar_build
from lazyt.functional.elementwise.division import trunc_divide
from lazyt.functional.indexing.picking import value_range, within
from lazyt.functional.nn.borders import padded
from lazyt.functional.nn.convolution import Sizes, spread, windows
from lazyt.functional.operands import choose, constant_of, mapped, mixed, require_tensor
from lazyt.functional.random.random import rand
from lazyt.functional.result_layout import (
    channels_like_first,
    channels_of_rows,
    channels_of_volumes,
    row_major,
)
from lazyt.functional.results import give
from lazyt.functional.type_promotion import refuse, require_floating
from lazyt.handle.autocast import in_full_precision
from lazyt.handle.dispatch import lay_out, type_title
from lazyt.handle.function_table import declare, declare_grad_fn, function
from lazyt.handle.tensor import Tensor
from lazyt.ir.dtypes import bool_, int64
from lazyt.ir.graph import Node
from lazyt.ir.scalar import Expr, call, const

__all__ = [
    "adaptive_avg_pool1d", "avg_pool1d", "max_pool1d", "max_pool1d_with_indices", "max_pool2d",
    "max_pool3d",
]  # fmt: skip

_DIV = scalar_build("div")
_MUL = scalar_build("mul")
_ADD = scalar_build("add")
_COUNTS = {1: "one int", 2: "two ints", 3: "three ints"}


class Windows(NamedTuple):
    """How windows lie over the last dimensions, and how many there are."""

    kernel: Sizes
    stride: Sizes
    padding: Sizes
    dilation: Sizes
    sizes: Sizes


def _setting(value: Any, rank: int, function: str, name: str) -> Sizes:
    """One number for every dimension; raises ShapeError in PyTorch's words."""
    found = spread(value, rank)
    if len(found) == rank:
        return found
    if rank == 1:
        raise ShapeError(
            f"{function}() {name} must be an int, list of ints or tuple of ints of size 1 but got "
            f"size {len(found)}"
        )
    omitted = "be omitted, " if name == "stride" else "be "
    raise ShapeError(
        f"{function}: {name} must either {omitted}a single int, or a tuple of {_COUNTS[rank]}"
    )


def plan_windows(
    function: str, shape: Sizes, rank: int, kernel_size: Any, stride: Any, padding: Any = 0,
    dilation: Any = 1, ceil_mode: bool = False,
) -> Windows:  # fmt: skip
    """The windows of a pooling function; raises LazytError and ShapeError for bad settings.

    ``max_pool1d`` without indices has checks of its own, and is called ``max_pool1d_plain``.
    """
    if function == "max_pool1d_plain":
        function = "max_pool1d"
        _check_line_shape(shape)
        alone = True
    else:
        alone = False
    kernel = _setting(kernel_size, rank, function, "kernel_size")
    steps = kernel
    if stride is not None and stride != () and stride != []:
        steps = _setting(stride, rank, function, "stride")
    edge = _setting(padding, rank, function, "padding")
    gaps = _setting(dilation, rank, function, "dilation")
    if alone:
        _check_line(shape, kernel[0], steps[0], edge[0], gaps[0])
    if len(shape) not in (rank + 1, rank + 2):
        _refuse_rank(shape, rank, function)
    sizes = tuple(
        _count(*values, ceil_mode) for values in zip(shape[-rank:], kernel, steps, edge, gaps)
    )
    if rank == 1:  # PyTorch takes it as a row of an image
        row = (1, *kernel), (1, *steps), (1, *gaps)
        _check_positive(2, *row)
        wide = (*shape[:-1], 1, *shape[-1:])
        _check_output_size(wide, row[0], (0, *edge), (1, *sizes), 2, function)
        return Windows(kernel, steps, edge, gaps, sizes)
    _check_positive(rank, kernel, steps, gaps)
    _check_output_size(shape, kernel, edge, sizes, rank, function)
    return Windows(kernel, steps, edge, gaps, sizes)


def _check_line_shape(shape: Sizes) -> None:
    if len(shape) not in (2, 3) or 0 in shape[-2:]:
        raise ShapeError(
            "max_pool1d: Expected 2D or 3D (batch mode) tensor with optional 0 dim batch size for "
            f"input, but got:{list(shape)}"
        )


def _check_line(shape: Sizes, k: int, s: int, p: int, d: int) -> None:
    """What max_pool1d without indices checks, in its own words."""
    for name, value in (("kernel_size", k), ("stride", s), ("dilation", d)):
        if value <= 0:
            raise LazytError(f"max_pool1d() {name} must be greater than zero, but got {value}")
    if p < 0:
        raise LazytError(f"max_pool1d() padding must be non-negative, but got {p}")
    if p > k // 2:
        raise LazytError(
            "max_pool1d() padding should be at most half of kernel size, but got padding="
            f"{p} and kernel_size={k}"
        )
    room = shape[-1] + 2 * p - d * (k - 1) - 1
    if room < 0:
        raise ShapeError(f"max_pool1d() Invalid computed output size: {room // s + 1}")


def _refuse_rank(shape: Sizes, rank: int, function: str) -> None:
    if rank == 1:
        raise ShapeError(
            f"Expected 2 to 3 dimensions, but got {len(shape)}-dimensional tensor for argument #1 "
            f"'self' (while checking arguments for {function})"
        )
    kind = RankError if len(shape) <= rank else ShapeError
    raise kind(f"non-empty {rank + 1}D or {rank + 2}D (batch mode) tensor expected for input")


def _count(n: int, k: int, s: int, p: int, d: int, ceil_mode: bool) -> int:
    """How many windows fit into one dimension."""
    if s == 0:
        raise LazytError("stride should not be zero")
    if p < 0:
        raise LazytError(f"pad must be non-negative, but got pad: {p}")
    if p > (d * (k - 1) + 1) // 2:
        raise LazytError(
            f"pad should be at most half of effective kernel size, but got pad={p}, "
            f"kernel_size={k} and dilation={d}"
        )
    room = n + 2 * p - d * (k - 1) - 1
    count = (-(-room // s) if ceil_mode else room // s) + 1
    if ceil_mode and (count - 1) * s >= n + p:
        count -= 1  # a window must start inside
    return count


_LETTERS = {1: "W", 2: "HW", 3: "TWH"}


def _check_positive(rank: int, kernel: Sizes, stride: Sizes, dilation: Sizes) -> None:
    for title, letter, values in (
        ("kernel size", "k", kernel), ("stride", "d", stride), ("dilation", "dilation", dilation),
    ):  # fmt: skip
        if any(v <= 0 for v in values):
            sides = "THW" if rank == 3 and letter == "d" else _LETTERS[rank]
            text = " ".join(f"{letter}{side}: {v}" for side, v in zip(sides, values))
            raise LazytError(f"{title} should be greater than zero, but got {text}")


def _check_output_size(
    shape: Sizes, kernel: Sizes, edge: Sizes, sizes: Sizes, rank: int, function: str
) -> None:
    inner = shape[len(shape) - rank - 1 :]
    if 0 in inner and rank == 3:
        name = function + ("_with_indices_out_cpu_template" if function[0] == "m" else "")
        raise ShapeError(
            f"{name}(): Expected input's non-batch dimensions to "
            f"have positive length, but input has a shape of {list(shape)} and non-batch dimension "
            f"{inner.index(0)} has length zero!"
        )
    if 0 in inner:
        raise ShapeError(
            f"Expected {rank + 1}D or {rank + 2}D (batch mode) tensor with optional 0 dim batch "
            f"size for input, but got:{list(shape)}"
        )
    if any(p > k // 2 for p, k in zip(edge, kernel)):
        sides = _LETTERS[rank][::-1]
        pads = ", ".join(f"pad{s} = {p}" for s, p in zip(sides, edge[::-1]))
        sizes_text = ", ".join(f"k{s} = {k}" for s, k in zip(sides, kernel[::-1]))
        raise LazytError(
            "pad should be smaller than or equal to half of kernel size, but got "
            f"{pads}, {sizes_text}"
        )
    if any(n < 1 for n in sizes):
        given = "x".join(map(str, shape[-rank - 1 :]))
        made = "x".join(map(str, (shape[-rank - 1], *sizes)))
        raise ShapeError(
            f"Given input size: ({given}). Calculated output size: ({made}). Output size is too "
            "small"
        )


def seen_through(node: Node, plan: Windows, fill: float) -> Node:
    """The windows of the padded input, each flattened into a last dimension."""
    kernel, stride, padding, dilation, sizes = plan
    rank = len(kernel)
    lead, spatial = node.shape[:-rank], node.shape[-rank:]
    high = tuple(
        max((m - 1) * s + d * (k - 1) + 1 - n - p, 0)
        for m, n, k, s, p, d in zip(sizes, spatial, kernel, stride, padding, dilation)
    )
    seen = windows(padded(node, padding, high, fill), kernel, stride, dilation)
    if seen.shape[len(lead) : len(lead) + rank] != sizes:
        ones = (1,) * len(seen.shape)
        seen = ops.slice_(seen, (0,) * len(seen.shape), (*lead, *sizes, *kernel), ones)
    return ops.reshape(seen, (*lead, *sizes, math.prod(kernel)))


def lowest(node: Node) -> float:
    """A value that no other of ``node``'s type is below."""
    if node.dtype.kind == "f":
        return -math.inf
    return -(1 << (8 * node.dtype.itemsize - 1)) if node.dtype.kind == "i" else 0


def largest(node: Node) -> tuple[Node, Node]:
    """The maxima along the last axis, and their places.

    The gradient goes to the first of equal values, as PyTorch's does, not shared among them.
    """
    last = len(node.shape) - 1
    plain = ops.detach(node) if node.needs_grad else node
    best = ops.arg_reduce("argmax", plain, last)
    if not node.needs_grad:
        return ops.reduce_("max", node, (last,)), best
    hit = ops.apply("eq", ops.iota(node.shape[-1]), ops.reshape(best, (*best.shape, 1)))
    kept = choose(hit, node, constant_of(0, node.dtype), node.dtype)
    return ops.reduce_("sum", kept, (last,)), best


def along(count: int, axis: int, rank: int) -> Node:
    """The numbers 0 to count - 1 along one axis of ``rank``, int64."""
    return ops.reshape(ops.iota(count), tuple(count if i == axis else 1 for i in range(rank)))


def _place(
    best: Expr, tail: Expr, size: Expr, step: Expr, out: Expr, first: Expr, end: Expr
) -> Expr:
    """Where element ``best`` of a window lies along one dimension, never in the padding."""
    inside = call("mod", call("floordiv", best, tail), size)
    place = call("add", call("add", out, first), call("mul", inside, step))
    return call("minimum", call("maximum", place, const(0, int64)), end)


def _window_indices(best: Node, spatial: Sizes, plan: Windows) -> Node:
    """Row-major positions in the last dimensions of the winners ``best`` of all windows."""
    rank = len(spatial)
    total = ops.constant(0, int64)
    tail = math.prod(plan.kernel)
    for axis in range(rank):
        k, s = plan.kernel[axis], plan.stride[axis]
        tail //= k
        out = along(plan.sizes[axis], axis, rank)
        out = mapped(_MUL, (out, constant_of(s, int64)), int64, None)
        numbers = (tail, k, plan.dilation[axis])
        ends = (-plan.padding[axis], spatial[axis] - 1)
        nodes = (*(constant_of(n, int64) for n in numbers), out,
                 *(constant_of(n, int64) for n in ends))  # fmt: skip
        place = mapped(_place, (best, *nodes), int64, None)
        total = mapped(_ADD, (mapped(_MUL, (total, constant_of(spatial[axis], int64)), int64, None),
                              place), int64, None)  # fmt: skip
    return total


declare_grad_fn("MaxPool1D", layout=row_major)
declare_grad_fn("MaxPool1DWithIndices", second_order="zeros", layout=channels_of_rows)
declare_grad_fn("MaxPool2DWithIndices", second_order="zeros", layout=channels_like_first)
declare_grad_fn("MaxPool3DWithIndices", second_order="zeros", layout=channels_of_volumes)


def _max_pool(
    rank: int, input: Tensor, kernel_size: Any, stride: Any, padding: Any, dilation: Any,
    ceil_mode: bool, return_indices: bool,
) -> Any:  # fmt: skip
    node = require_tensor(input, f"max_pool{rank}d").node
    plan = plan_windows(
        f"max_pool{rank}d" + ("_plain" if rank == 1 and not return_indices else ""),
        tuple(input.shape), rank, kernel_size, stride, padding, dilation, ceil_mode,
    )  # fmt: skip
    if node.dtype is bool_ or (rank == 1 and node.dtype.kind != "f" and not return_indices):
        refuse(f"max_pool{rank}d" + ("_impl" if rank == 1 else ""), node.dtype)
    result, best = largest(seen_through(node, plan, lowest(node)))
    if rank == 1 and not return_indices and not result.needs_grad:
        return give(result, "MaxPool1D", (input,))  # which is other code in PyTorch
    values = give(result, f"MaxPool{rank}DWithIndices", (input,))
    if not return_indices:
        return values
    places = give(_window_indices(best, node.shape[-rank:], plan), "indices", ())
    return values, lay_out(places, values.strides)


def _max_pools(rank: int) -> tuple[Callable[..., Any], Callable[..., tuple[Tensor, Tensor]]]:
    """``max_pool`` of a rank, and the form that always gives the indices too."""

    def plain(
        input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
        ceil_mode: bool = False, return_indices: bool = False,
    ) -> Any:  # fmt: skip
        options = (kernel_size, stride, padding, dilation, ceil_mode, return_indices)
        return _max_pool(rank, input, *options)

    def with_indices(
        input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
        ceil_mode: bool = False, return_indices: bool = False,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        found: tuple[Tensor, Tensor] = _max_pool(
            rank, input, kernel_size, stride, padding, dilation, ceil_mode, True
        )
        return found

    plain.__name__ = plain.__qualname__ = f"max_pool{rank}d"
    plain.__doc__ = f"""The largest value of every window of the last {rank} dimension(s).

    With ``return_indices`` also where each is, as a row-major position in these dimensions.
    Raises ShapeError and LazytError for windows that do not fit.
    """
    with_indices.__name__ = with_indices.__qualname__ = f"max_pool{rank}d_with_indices"
    with_indices.__doc__ = f"``max_pool{rank}d``, and the places of the largest values."
    return plain, with_indices


max_pool1d, max_pool1d_with_indices = _max_pools(1)
max_pool2d, max_pool2d_with_indices = _max_pools(2)
max_pool3d, max_pool3d_with_indices = map(in_full_precision, _max_pools(3))


# ------------------------------------------------------------------ means


declare_grad_fn("AvgPool1D", saves="s", second_order="zeros", layout=channels_of_rows)
declare_grad_fn("AvgPool2D", saves="s", second_order="zeros", layout=channels_like_first)
declare_grad_fn("AvgPool3D", saves="s", second_order="zeros", layout=row_major)


def _avg_pool(
    rank: int, input: Tensor, kernel_size: Any, stride: Any, padding: Any, ceil_mode: bool,
    count_include_pad: bool, divisor: int | None,
) -> Tensor:  # fmt: skip
    node, dtype = require_tensor(input, f"avg_pool{rank}d").node, input.dtype
    if divisor == 0:
        raise LazytError("divisor must be not zero")
    plan = plan_windows(
        f"avg_pool{rank}d", tuple(input.shape), rank, kernel_size, stride, padding, 1, ceil_mode
    )
    if dtype.kind != "f" and dtype is not int64:
        refuse("avg_pool2d" if rank == 1 else f"avg_pool{rank}d", dtype)
    wide = ops.cast(node, dtype.compute)
    total = ops.reduce_("sum", seen_through(wide, plan, 0.0), (len(node.shape),))
    count = constant_of(divisor or math.prod(plan.kernel), wide.dtype)
    if divisor is None and (ceil_mode or (any(plan.padding) and not count_include_pad)):
        count = _window_counts(node.shape[-rank:], plan, count_include_pad)
    build = _DIV if dtype.kind == "f" else trunc_divide
    result = mapped(build, (total, count), wide.dtype, dtype)
    return give(result, f"AvgPool{rank}D", (input,))


def _covered(start: Expr, low: Expr, high: Expr, size: Expr) -> Expr:
    """How much of a window that starts at ``start`` lies within [low, high)."""
    stop = call("minimum", call("add", start, size), high)
    return call("sub", stop, call("maximum", start, low))


def _window_counts(spatial: Sizes, plan: Windows, include_pad: bool) -> Node:
    """How many elements every window covers, the padding counted or not."""
    rank = len(spatial)
    total = ops.constant(1, int64)
    for axis, n in enumerate(spatial):
        p = plan.padding[axis]
        edge = p if include_pad else 0
        start = along(plan.sizes[axis], axis, rank)
        start = mapped(_MUL, (start, constant_of(plan.stride[axis], int64)), int64, None)
        start = mapped(_ADD, (start, constant_of(-p, int64)), int64, None)
        ends = (constant_of(v, int64) for v in (-edge, n + edge, plan.kernel[axis]))
        total = ops.apply("mul", total, mapped(_covered, (start, *ends), int64, None))
    return total


@function()
def avg_pool1d(
    input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0,
    ceil_mode: bool = False, count_include_pad: bool = True,
) -> Tensor:  # fmt: skip
    """The mean of every window of the last dimension. Raises ShapeError, LazytError."""
    return _avg_pool(1, input, kernel_size, stride, padding, ceil_mode, count_include_pad, None)


@function()
def avg_pool2d(
    input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0,
    ceil_mode: bool = False, count_include_pad: bool = True, divisor_override: int | None = None,
) -> Tensor:  # fmt: skip
    """The mean of every window of the last two dimensions, or the sum over ``divisor_override``.

    Raises ShapeError and LazytError for windows that do not fit.
    """
    options = (stride, padding, ceil_mode, count_include_pad, divisor_override)
    return _avg_pool(2, input, kernel_size, *options)


@function()
@in_full_precision
def avg_pool3d(
    input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0,
    ceil_mode: bool = False, count_include_pad: bool = True, divisor_override: int | None = None,
) -> Tensor:  # fmt: skip
    """The mean of every window of the last three dimensions, or the sum over ``divisor_override``.

    Raises ShapeError and LazytError for windows that do not fit.
    """
    options = (stride, padding, ceil_mode, count_include_pad, divisor_override)
    return _avg_pool(3, input, kernel_size, *options)


# Pooling into a given number of bins of nearly equal size.


_LT = scalar_build("lt")


class DimensionError(LazytError, ValueError):
    """An input with too few dimensions."""


def _wanted(output_size: Any, shape: Sizes, rank: int, name: str) -> Sizes:
    """The number of bins of every dimension; raises as PyTorch does."""
    if isinstance(output_size, int):
        found: tuple[Any, ...] = (output_size,) * rank
    else:
        found = tuple(output_size)
    if rank > 1 and len(found) > len(shape):
        raise DimensionError(f"Input dimension should be at least {len(found) + 1}")
    if len(found) != rank:
        if rank == 1:
            raise ShapeError(f"{name}() argument 'output_size' should contain one int (got "
                             f"{len(found)})")  # fmt: skip
        if "max" in name:
            raise ShapeError(f"{name}(): internal error: output_size.size() must be {rank}")
        raise ShapeError(f"{name}: output_size must be {rank}")
    if rank > 1 and len(shape) <= rank:
        raise DimensionError(f"Input dimension should be at least {rank + 1}")
    if len(shape) not in (rank + 1, rank + 2):
        raise ShapeError(
            f"Expected {rank + 1} to {rank + 2} dimensions, but got {len(shape)}-dimensional "
            f"tensor for argument #1 'self' (while checking arguments for {name})"
        )
    sizes = tuple(n if v is None else int(v) for v, n in zip(found, shape[-rank:]))
    if any(v < 0 for v in sizes):
        text = ", ".join(map(str, sizes))
        if "max" in name:
            bad, made = next(v for v in sizes if v < 0), [*shape[:-rank], *sizes]
            raise ShapeError(f"Trying to create tensor with negative dimension {bad}: {made}")
        raise ShapeError(
            f"{name}: elements of output_size must be greater than or equal to 0 but received "
            f"{{{text}}}"
        )
    for axis in range(len(shape) - rank, len(shape)):
        if shape[axis] == 0:
            raise ShapeError(
                f"{name}(): Expected input to have non-zero size for non-batch dimensions, but "
                f"input has sizes {list(shape)} with dimension {axis} being empty"
            )
    return sizes


def _start(bin: Expr, extent: Expr, count: Expr) -> Expr:
    return call("floordiv", call("mul", bin, extent), count)


def _length(bin: Expr, extent: Expr, count: Expr) -> Expr:
    one = const(1, int64)
    ahead = call("add", call("mul", call("add", bin, one), extent), call("sub", count, one))
    return call("sub", call("floordiv", ahead, count), _start(bin, extent, count))


def _clipped_place(start: Expr, inside: Expr, last: Expr) -> Expr:
    return call("minimum", call("add", start, inside), last)


def _bins(
    node: Node, axis: int, count: int, repeats: bool = False
) -> tuple[Node, Node | None, Node]:
    """An axis as (count, longest bin), a mask of what belongs to each bin, and the first places.

    The mask is None where all bins are equally long, or with ``repeats``: then shorter ones repeat
    their last element, as a maximum may.
    """
    extent, shape = node.shape[axis], node.shape
    numbers = [constant_of(v, int64) for v in (extent, count)]
    bins = ops.iota(count)
    starts = mapped(_start, (bins, *numbers), int64, None)
    if extent % count == 0:
        cut = (*shape[:axis], count, extent // count, *shape[axis + 1 :])
        return ops.reshape(node, cut), None, starts
    lengths = mapped(_length, (bins, *numbers), int64, None)
    longest = max(-(-(i + 1) * extent // count) - i * extent // count for i in range(count))
    column = (count, 1)
    inside = ops.iota(longest)
    last = constant_of(extent - 1, int64)
    if repeats:
        ends = ops.apply("sub", ops.apply("add", starts, lengths), constant_of(1, int64))
        last = ops.reshape(ends, column)
    places = mapped(_clipped_place, (ops.reshape(starts, column), inside, last), int64, None)
    if repeats:
        return ops.gather(node, places, axis), None, starts
    mask = mapped(_LT, (inside, ops.reshape(lengths, column)), int64, None)
    return ops.gather(node, places, axis), mask, starts


def _averaged(node: Node, axis: int, count: int) -> Node:
    """The means of ``count`` bins of an axis, in the node's type."""
    dtype = node.dtype
    parts, mask, _ = _bins(node, axis, count)
    if mask is None:
        size = constant_of(float(parts.shape[axis + 1]), dtype)
        total = ops.reduce_("sum", parts, (axis + 1,))
        return mapped(_DIV, (total, size), dtype, None)
    tail = (1,) * (len(node.shape) - axis - 1)
    spread = ops.reshape(mask, (*mask.shape, *tail))
    kept = choose(spread, parts, constant_of(0, dtype), dtype)
    lengths = ops.reduce_("sum", ops.cast(mask, dtype), (1,))
    lengths = ops.reshape(lengths, (count, *tail))
    return mapped(_DIV, (ops.reduce_("sum", kept, (axis + 1,)), lengths), dtype, None)


def _empty(node: Node, sizes: Sizes) -> Node:
    """A result without elements: a bin count of 0."""
    shape = (*node.shape[: len(node.shape) - len(sizes)], *sizes)
    return ops.broadcast_to(ops.constant(0, node.dtype), shape)


def _channels_of_means(result: Tensor, parents: Sequence[Any]) -> Sizes | None:
    """Of volumes only those of one element each have their channels last."""
    return channels_like_first(result, parents) if set(result.shape[2:]) == {1} else None


declare_grad_fn("AdaptiveAvgPool1D", second_order="zeros", layout=channels_of_rows)
declare_grad_fn("AdaptiveAvgPool2D", second_order="zeros", layout=channels_like_first)
declare_grad_fn("AdaptiveAvgPool3D", second_order="zeros", layout=_channels_of_means)


def _average(rank: int, input: Tensor, output_size: Any) -> Tensor:
    name = f"adaptive_avg_pool{rank}d"
    sizes = _wanted(output_size, tuple(input.shape), rank, name)
    require_floating("adaptive_avg_pool2d" if rank == 1 else name, input.dtype)
    node = ops.cast(input.node, input.dtype.compute)
    if 0 in sizes:
        node = _empty(node, sizes)
    else:
        for axis, count in enumerate(sizes, len(node.shape) - rank):
            if count != node.shape[axis]:
                node = _averaged(node, axis, count)
    return give(ops.cast(node, input.dtype), f"AdaptiveAvgPool{rank}D", (input,))


@function()
def adaptive_avg_pool1d(input: Tensor, output_size: Any) -> Tensor:
    """Means over so many bins of the last dimension. Raises ShapeError."""
    require_tensor(input, "adaptive_avg_pool1d")
    return _average(1, input, output_size)


@function()
def adaptive_avg_pool2d(input: Tensor, output_size: Any) -> Tensor:
    """Means over so many bins of the last two dimensions; None keeps one. Raises ShapeError."""
    return _average(2, input, output_size)


@function()
@in_full_precision
def adaptive_avg_pool3d(input: Tensor, output_size: Any) -> Tensor:
    """Means over so many bins of the last three dimensions; None keeps one. Raises ShapeError."""
    return _average(3, input, output_size)


declare_grad_fn("AdaptiveMaxPool1D", second_order="zeros", layout=channels_of_rows)
declare_grad_fn("AdaptiveMaxPool2D", second_order="zeros", layout=channels_like_first)
declare_grad_fn("AdaptiveMaxPool3D", second_order="zeros")


def _maximum(rank: int, input: Tensor, output_size: Any) -> tuple[Tensor, Tensor]:
    name = f"adaptive_max_pool{rank}d"
    sizes = _wanted(output_size, tuple(input.shape), rank, name)
    require_floating("adaptive_max_pool2d" if rank == 1 else name, input.dtype)
    node = input.node
    if 0 in sizes:
        places = ops.broadcast_to(ops.constant(0, int64), _empty(node, sizes).shape)
        return give(_empty(node, sizes), name, (input,)), give(places, "indices", ())
    lead = len(node.shape) - rank
    spatial = node.shape[lead:]
    starts = []
    for number, count in enumerate(sizes):
        axis = lead + 2 * number
        node, _, first = _bins(node, axis, count, repeats=True)
        starts.append(first)
    longest = node.shape[lead + 1 :: 2]
    order = (*range(lead), *range(lead, len(node.shape), 2), *range(lead + 1, len(node.shape), 2))
    node = ops.permute(node, order)
    node = ops.reshape(node, (*node.shape[: lead + rank], math.prod(longest)))
    result, best = largest(node)
    if not input.node.needs_grad:  # dimension by dimension, each element is seen a few times
        result = input.node
        for number, count in reversed([*enumerate(sizes)]):
            axis = lead + number
            parts, _, _ = _bins(result, axis, count, repeats=True)
            result = ops.reduce_("max", parts, (axis + 1,))
    places = _bin_indices(best, starts, longest, spatial)
    title = f"AdaptiveMaxPool{rank}D"
    values = give(result, title, (input,))
    return values, lay_out(give(places, "indices", ()), values.strides)


def _offset(best: Expr, tail: Expr, size: Expr, start: Expr) -> Expr:
    return call("add", start, call("mod", call("floordiv", best, tail), size))


def _bin_indices(best: Node, starts: list[Node], longest: Sizes, spatial: Sizes) -> Node:
    """Row-major positions in the last dimensions of the winners ``best`` of all bins."""
    rank = len(spatial)
    total, tail = ops.constant(0, int64), math.prod(longest)
    for axis in range(rank):
        tail //= longest[axis]
        first = ops.reshape(starts[axis], along(starts[axis].shape[0], axis, rank).shape)
        sizes = (constant_of(v, int64) for v in (tail, longest[axis]))
        place = mapped(_offset, (best, *sizes, first), int64, None)
        total = mapped(_MUL, (total, constant_of(spatial[axis], int64)), int64, None)
        total = mapped(_ADD, (total, place), int64, None)
    return total


def _adaptive_max_pools(rank: int) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """``adaptive_max_pool`` of a rank, and the form that always gives the indices too."""

    def plain(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
        found = _maximum(rank, input, output_size)
        return found if return_indices else found[0]

    def with_indices(
        input: Tensor, output_size: Any, return_indices: bool = False
    ) -> tuple[Tensor, Tensor]:
        return _maximum(rank, input, output_size)

    plain.__name__ = plain.__qualname__ = f"adaptive_max_pool{rank}d"
    plain.__doc__ = f"""Maxima over so many bins of the last {rank} dimension(s); None keeps one.

    With ``return_indices`` also where each is, as a row-major position. Raises ShapeError.
    """
    with_indices.__name__ = with_indices.__qualname__ = f"adaptive_max_pool{rank}d_with_indices"
    with_indices.__doc__ = f"``adaptive_max_pool{rank}d``, and the places of the maxima."
    return plain, with_indices


adaptive_max_pool1d, adaptive_max_pool1d_with_indices = _adaptive_max_pools(1)
adaptive_max_pool2d, adaptive_max_pool2d_with_indices = _adaptive_max_pools(2)
adaptive_max_pool3d, adaptive_max_pool3d_with_indices = map(
    in_full_precision, _adaptive_max_pools(3)
)


# Pooling by powers, at random places, and back from maxima to where they were.


class PoolingError(LazytError, ValueError):
    """Settings of a pooling function that do not fit together."""


# ------------------------------------------------------------------ powers


def _power_pool(pool: Callable[..., Tensor], rank: int, input: Tensor, p: float, kernel: Any,
                stride: Any, ceil_mode: bool) -> Tensor:  # fmt: skip
    if rank == 3 and input.ndim not in (4, 5):
        raise ShapeError(f"lp_pool3d: Expected 4D or 5D input, but got {input.ndim}D input")
    size = math.prod(spread(kernel, rank))
    mean = pool(input.pow(p), kernel, stride, 0, ceil_mode)
    total: Tensor = (mean.sign() * mean.abs().relu() * size).pow(1.0 / p)
    return total


@function()
def lp_pool1d(
    input: Tensor, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
) -> Tensor:
    """``sum(x ** p) ** (1 / p)`` of every window of the last dimension. Raises ShapeError."""
    return _power_pool(avg_pool1d, 1, input, norm_type, kernel_size, stride, ceil_mode)


@function()
def lp_pool2d(
    input: Tensor, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
) -> Tensor:
    """``sum(x ** p) ** (1 / p)`` of every window of the last two dimensions. Raises ShapeError."""
    return _power_pool(avg_pool2d, 2, input, norm_type, kernel_size, stride, ceil_mode)


@function()
def lp_pool3d(
    input: Tensor, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
) -> Tensor:
    """``sum(x ** p) ** (1 / p)`` of every window of the last three dimensions.

    Raises ShapeError.
    """
    return _power_pool(avg_pool3d, 3, input, norm_type, kernel_size, stride, ceil_mode)


# ------------------------------------------------------------------ fractions


def _interval(number: Expr, sample: Expr, alpha: Expr, last: Expr, end: Expr) -> Expr:
    """Where a window starts (Graham 2014): steps of two lengths in a random order."""
    shift = call("cast", call("mul", sample, alpha), dtype=int64)
    moved = call("mul", call("add", call("cast", number, dtype=alpha.dtype), sample), alpha)
    start = call("sub", call("cast", moved, dtype=int64), shift)
    return call("where", call("eq", number, last), end, start)


def _fractional(
    rank: int, input: Tensor, kernel_size: Any, output_size: Any, output_ratio: Any, samples: Any
) -> tuple[Tensor, Tensor]:
    name = f"fractional_max_pool{rank}d"
    if output_size is None and output_ratio is None:
        raise PoolingError(f"{name} requires specifying either an output_size or an output_ratio")
    shape = tuple(input.shape)
    if len(shape) not in (rank + 1, rank + 2):
        kind = RankError if len(shape) <= rank else ShapeError
        raise kind(f"{name}: Expected {rank + 1}D or {rank + 2}D tensor, but got: {list(shape)}")
    if output_size is None:
        ratio = (output_ratio,) * rank if isinstance(output_ratio, float) else tuple(output_ratio)
        if len(ratio) > rank:
            raise PoolingError(
                f"{name} requires output_ratio to either be a single Int or tuple of Ints."
            )
        output_size = [int(n * r) for n, r in zip(shape[-rank:], ratio)]
    for place, n in enumerate(shape[-rank - 1 :], len(shape) - rank - 1):
        if not n:
            raise ShapeError(
                f"{name}(): Expected input to have non-zero size for non-batch dimensions, but got "
                f"{list(shape)} with dimension {place} being empty."
            )
    kernel, sizes = spread(kernel_size, rank), spread(output_size, rank)
    _check_fractions(name, shape[-rank:], kernel, sizes)
    node = input.node
    if len(shape) == rank + 1:
        node = ops.reshape(node, (1, *shape))
    batch, channels = node.shape[:2]
    if samples is None:
        samples = rand(batch, channels, rank, dtype=input.dtype)
    places = []
    for axis, (k, count, extent) in enumerate(zip(kernel, sizes, node.shape[2:])):
        # In two dimensions PyTorch takes the samples in the order (width, height).
        column = rank - 1 - axis if rank == 2 else axis
        sample = ops.slice_(samples.node, (0, 0, column), (batch, channels, 1), (1, 1, 1))
        places.append(_interval_indices(sample, k, count, extent))
    for axis, found in enumerate(places):
        at = ops.reshape(found, (*found.shape[:2], found.shape[2] * found.shape[3]))
        node = ops.gather(node, at, axis + 2, 2)
    cut = [n for pair in zip(sizes, kernel) for n in pair]
    node = ops.reshape(node, (batch, channels, *cut))
    order = (0, 1, *range(2, 2 + 2 * rank, 2), *range(3, 3 + 2 * rank, 2))
    node = ops.reshape(ops.permute(node, order), (batch, channels, *sizes, math.prod(kernel)))
    result, best = largest(node)
    numbers = _winner_indices(best, places, kernel, shape[-rank:])
    if len(shape) == rank + 1:
        result, numbers = (ops.reshape(n, n.shape[1:]) for n in (result, numbers))
    title = f"FractionalMaxPool{rank}D"
    return give(result, title, (input,)), give(numbers, "indices", ())


declare_grad_fn("FractionalMaxPool2D", "FractionalMaxPool3D", second_order="zeros")


def _check_fractions(name: str, spatial: Sizes, kernel: Sizes, sizes: Sizes) -> None:
    sides = {2: ("height", "width"), 3: ("time", "height", "width")}[len(spatial)]
    for side, n, k, count in zip(sides, spatial, kernel, sizes):
        if count + k - 1 > n:
            raise ShapeError(f"{name}(): pool {side} {k} too large relative to input {side} {n}")


def _interval_indices(sample: Node, kernel: int, count: int, extent: int) -> Node:
    """[N, C, count, kernel]: the positions that every window of one dimension covers."""
    wide = sample.dtype.compute
    alpha = (extent - kernel) / (count - 1) if count > 1 else 0.0
    numbers = (constant_of(v, int64) for v in (count - 1, extent - kernel))
    nodes = (ops.iota(count), ops.cast(sample, wide), constant_of(alpha, wide), *numbers)
    start = mixed(_interval, nodes)
    start = ops.reshape(start, (*start.shape, 1))
    return ops.apply("add", start, ops.iota(kernel))


def _winner_indices(best: Node, places: list[Node], kernel: Sizes, spatial: Sizes) -> Node:
    """Row-major positions of the winners ``best`` of all windows."""
    rank = len(kernel)
    total, tail = ops.constant(0, int64), math.prod(kernel)
    for axis, place in enumerate(places):
        tail //= kernel[axis]
        inside = ops.apply("mod", ops.apply("floordiv", best, constant_of(tail, int64)),
                           constant_of(kernel[axis], int64))  # fmt: skip
        start = ops.slice_(place, (0,) * 4, (*place.shape[:3], 1), (1,) * 4)
        form = along(place.shape[2], axis, rank).shape
        start = ops.reshape(start, (*place.shape[:2], *form))
        total = mapped(_MUL, (total, constant_of(spatial[axis], int64)), int64, None)
        total = mapped(_ADD, (total, mapped(_ADD, (start, inside), int64, None)), int64, None)
    return total


def _fractional_pools(rank: int) -> tuple[Callable[..., Any], Callable[..., Any]]:
    def plain(
        input: Tensor, kernel_size: Any, output_size: Any = None, output_ratio: Any = None,
        return_indices: bool = False, _random_samples: Tensor | None = None,
    ) -> Any:  # fmt: skip
        options = (kernel_size, output_size, output_ratio, _random_samples)
        found = _fractional(rank, input, *options)
        return found if return_indices else found[0]

    def with_indices(
        input: Tensor, kernel_size: Any, output_size: Any = None, output_ratio: Any = None,
        return_indices: bool = False, _random_samples: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        options = (kernel_size, output_size, output_ratio, _random_samples)
        return _fractional(rank, input, *options)

    plain.__name__ = plain.__qualname__ = f"fractional_max_pool{rank}d"
    plain.__doc__ = f"""Maxima over ``output_size`` windows at random places (Graham 2014).

    Windows of ``kernel_size`` start at places drawn for every sample and channel: from
    ``_random_samples`` [N, C, {rank}], uniform in [0, 1), else from one call of the default
    generator's stream. With ``return_indices`` also where each maximum is. Raises PoolingError
    (a ValueError) without a size or ratio, ShapeError for windows that do not fit.
    """
    with_indices.__name__ = with_indices.__qualname__ = f"fractional_max_pool{rank}d_with_indices"
    with_indices.__doc__ = f"``fractional_max_pool{rank}d``, and the places of the maxima."
    return plain, with_indices


fractional_max_pool2d, fractional_max_pool2d_with_indices = map(
    in_full_precision, _fractional_pools(2)
)
fractional_max_pool3d, fractional_max_pool3d_with_indices = map(
    in_full_precision, _fractional_pools(3)
)


# ------------------------------------------------------------------ back from maxima


def _unpooled_size(
    spatial: Sizes, kernel: Sizes, stride: Sizes, padding: Sizes, output_size: Any
) -> Sizes:
    """The size before pooling: the smallest one, or ``output_size`` if that is possible."""
    default = tuple((n - 1) * s + k - 2 * p for n, s, k, p in zip(spatial, stride, kernel, padding))
    if output_size is None:
        return default
    wanted = tuple(output_size)
    if len(wanted) == len(kernel) + 2:
        wanted = wanted[2:]
    if len(wanted) != len(kernel):
        raise PoolingError(
            f"output_size should be a sequence containing {len(kernel)} or {len(kernel) + 2} "
            f"elements, but it has a length of '{len(wanted)}'"
        )
    for d, (size, least, step) in enumerate(zip(wanted, default, stride)):
        if not least - step < size < least + step:
            raise PoolingError(
                f'invalid output_size "{output_size}" (dim {d} must be between {least - step} and '
                f"{least + step})"
            )
    return wanted


def _check_indices(rank: int, input: Tensor, indices: Tensor, sizes: Sizes) -> None:
    if indices.dtype is not int64:
        raise DTypeError(
            f"elements in indices should be type int64 but got: {type_title(indices.dtype)}"
        )
    if input.ndim not in (rank + 1, rank + 2):
        raise ShapeError(
            f"Input to max_unpooling{rank}d should be a {rank + 1}d or {rank + 2}d Tensor, but got "
            f"a tensor with {input.ndim} dimensions."
        )
    if indices.shape != input.shape:
        raise ShapeError(
            "Expected shape of indices to be same as that of the input tensor "
            f"({list(input.shape)}) but got indices tensor with shape: {list(indices.shape)}"
        )
    if indices.numel():
        low, high = value_range(indices.node, within(0, math.prod(sizes) - 1))
        for bad in (low, high):
            if not 0 <= bad < math.prod(sizes):
                text = "x".join(map(str, sizes))
                raise BoundsError(
                    f"Found an invalid max index: {bad} (output volumes are of size {text})"
                )


declare_grad_fn("MaxUnpool2D", layout=channels_like_first)


def _unpool(rank: int) -> Callable[..., Tensor]:
    def function(
        input: Tensor, indices: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0,
        output_size: Any = None,
    ) -> Tensor:  # fmt: skip
        kernel = spread(kernel_size, rank)
        steps = kernel if stride is None else spread(stride, rank)
        spatial = tuple(input.shape[-rank:])
        sizes = _unpooled_size(spatial, kernel, steps, spread(padding, rank), output_size)
        _check_indices(rank, input, indices, sizes)
        lead = tuple(input.shape[:-rank])
        rows, count, width = math.prod(lead), math.prod(spatial), math.prod(sizes)
        zeros = ops.broadcast_to(ops.constant(0, input.dtype), (rows, width))
        places, values = (ops.reshape(t.node, (rows, count)) for t in (indices, input))
        node = zeros
        if input.numel():
            node = ops.scatter(zeros, places, values, 1, "set", 1)
        return give(ops.reshape(node, (*lead, *sizes)), f"MaxUnpool{rank}D", (input,))

    function.__name__ = function.__qualname__ = f"max_unpool{rank}d"
    function.__doc__ = f"""Maxima put back where ``max_pool{rank}d`` found them, zeros elsewhere.

    ``indices`` are those of ``return_indices=True``; where several values go to one place, the
    last wins. Raises PoolingError (a ValueError) for an impossible ``output_size``, ShapeError,
    DTypeError, and BoundsError for an index out of range, which looks at the indices.
    """
    return in_full_precision(function)


max_unpool1d, max_unpool2d, max_unpool3d = _unpool(1), _unpool(2), _unpool(3)
for _forms in (
    max_pool1d,
    max_pool1d_with_indices,
    max_pool2d,
    max_pool2d_with_indices,
    max_pool3d,
    max_pool3d_with_indices,
    adaptive_max_pool1d,
    adaptive_max_pool1d_with_indices,
    adaptive_max_pool2d,
    adaptive_max_pool2d_with_indices,
    adaptive_max_pool3d,
    adaptive_max_pool3d_with_indices,
    fractional_max_pool2d,
    fractional_max_pool2d_with_indices,
    fractional_max_pool3d,
    fractional_max_pool3d_with_indices,
    max_unpool1d,
    max_unpool2d,
    max_unpool3d,
):
    declare(_forms.__name__, _forms)
