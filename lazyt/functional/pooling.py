"""Pooling: one value for every window of the last dimensions."""

from __future__ import annotations

import math
from typing import Any

from lazyt import ops
from lazyt.errors import LazytError, ShapeError
from lazyt.functional.arithmetic import scalar_build
from lazyt.functional.choice import choose
from lazyt.functional.convolution import padded, spread, windows
from lazyt.functional.operands import constant_of, mapped
from lazyt.functional.results import give
from lazyt.ir.dtypes import int64
from lazyt.ir.graph import Node
from lazyt.tensor import Tensor

_DIV = scalar_build("div")
Sizes = tuple[int, ...]


def _geometry(
    spatial: Sizes, kernel: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes, ceil_mode: bool
) -> tuple[Sizes, Sizes]:
    """Output sizes, and the padding at the high ends that makes the windows fit."""
    sizes, high = [], []
    for n, k, s, p, d in zip(spatial, kernel, stride, padding, dilation):
        if p > k // 2:
            raise LazytError(
                f"pad should be at most half of effective kernel size, but got pad={p}, "
                f"kernel_size={k} and dilation={d}"
            )
        reach = d * (k - 1) + 1
        room = n + 2 * p - reach
        count = (-(-room // s) if ceil_mode else room // s) + 1
        if ceil_mode and (count - 1) * s >= n + p:
            count -= 1  # a window must start inside
        sizes.append(count)
        high.append(max((count - 1) * s + reach - n - p, 0))
    return tuple(sizes), tuple(high)


def _check_sizes(shape: Sizes, sizes: Sizes, rank: int) -> None:
    if any(n < 1 for n in sizes):
        given = "x".join(map(str, shape[-rank - 1 :]))
        made = "x".join(map(str, (shape[-rank - 1], *(max(n, 0) for n in sizes))))
        raise ShapeError(
            f"Given input size: ({given}). Calculated output size: ({made}). Output size is too "
            "small"
        )


def _windows(
    node: Node, rank: int, kernel: Sizes, stride: Any, padding: Any, dilation: Any,
    ceil_mode: bool, fill: float,
) -> Node:  # fmt: skip
    """The padded input's windows, each flattened into a last dimension."""
    steps = kernel if stride in (None, (), []) else spread(stride, rank)
    low, gaps = spread(padding, rank), spread(dilation, rank)
    spatial = node.shape[-rank:]
    sizes, high = _geometry(spatial, kernel, steps, low, gaps, ceil_mode)
    _check_sizes(node.shape, sizes, rank)
    seen = windows(padded(node, low, high, fill), kernel, steps, gaps)
    lead = node.shape[:-rank]
    if seen.shape[len(lead) : len(lead) + rank] != sizes:
        ones = (1,) * len(seen.shape)
        seen = ops.slice_(seen, (0,) * len(seen.shape), (*lead, *sizes, *kernel), ones)
    return ops.reshape(seen, (*lead, *sizes, math.prod(kernel)))


def _max_pool(
    rank: int, input: Tensor, kernel_size: Any, stride: Any, padding: Any, dilation: Any,
    ceil_mode: bool, return_indices: bool,
) -> Any:  # fmt: skip
    node = input.node
    kernel = spread(kernel_size, rank)
    fill = -math.inf if node.dtype.kind == "f" else _lowest(node)
    seen = _windows(node, rank, kernel, stride, padding, dilation, ceil_mode, fill)
    last = len(seen.shape) - 1
    best = None
    if node.needs_grad or return_indices:
        plain = ops.detach(seen) if seen.needs_grad else seen
        best = ops.reshape(ops.arg_reduce("argmax", plain, last), (*seen.shape[:-1], 1))
    if node.needs_grad and best is not None:
        # The gradient goes to the first of equal values, not shared among them.
        hit = ops.apply("eq", ops.iota(seen.shape[-1]), best)
        seen = choose(hit, seen, constant_of(0, node.dtype), node.dtype)
        result = ops.reduce_("sum", seen, (last,))
    else:
        result = ops.reduce_("max", seen, (last,))
    values = give(result, f"MaxPool{rank}DWithIndices", (input,))
    if not return_indices or best is None:
        return values
    numbers = ops.reshape(ops.iota(math.prod(node.shape[-rank:])), node.shape[-rank:])
    numbers = ops.expand(
        ops.reshape(numbers, (*(1,) * (len(node.shape) - rank), *numbers.shape)), node.shape
    )
    places = _windows(numbers, rank, kernel, stride, padding, dilation, ceil_mode, 0)
    hit = ops.apply("eq", ops.iota(seen.shape[-1]), best)
    places = choose(hit, places, ops.constant(0, int64), int64)
    return values, give(ops.reduce_("sum", places, (last,)), "indices", ())


def _lowest(node: Node) -> int:
    return -(1 << (8 * node.dtype.itemsize - 1)) if node.dtype.kind == "i" else 0


def max_pool1d(
    input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
    ceil_mode: bool = False, return_indices: bool = False,
) -> Any:  # fmt: skip
    """The largest value of every window of the last dimension. Raises ShapeError."""
    options = (kernel_size, stride, padding, dilation, ceil_mode, return_indices)
    return _max_pool(1, input, *options)


def max_pool2d(
    input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
    ceil_mode: bool = False, return_indices: bool = False,
) -> Any:  # fmt: skip
    """The largest value of every window of the last two dimensions. Raises ShapeError."""
    options = (kernel_size, stride, padding, dilation, ceil_mode, return_indices)
    return _max_pool(2, input, *options)


def max_pool3d(
    input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
    ceil_mode: bool = False, return_indices: bool = False,
) -> Any:  # fmt: skip
    """The largest value of every window of the last three dimensions. Raises ShapeError."""
    options = (kernel_size, stride, padding, dilation, ceil_mode, return_indices)
    return _max_pool(3, input, *options)


def _avg_pool(
    rank: int, input: Tensor, kernel_size: Any, stride: Any, padding: Any, ceil_mode: bool,
    count_include_pad: bool, divisor: int | None,
) -> Tensor:  # fmt: skip
    node, dtype = input.node, input.dtype
    kernel = spread(kernel_size, rank)
    wide = ops.cast(node, dtype.compute)
    seen = _windows(wide, rank, kernel, stride, padding, 1, ceil_mode, 0.0)
    last = len(seen.shape) - 1
    total = ops.reduce_("sum", seen, (last,))
    count = constant_of(float(divisor or math.prod(kernel)), wide.dtype)
    edges = any(spread(padding, rank)) and not count_include_pad
    if divisor is None and (edges or ceil_mode):
        count = _window_counts(node, rank, kernel, stride, padding, ceil_mode, count_include_pad)
        count = ops.cast(count, wide.dtype)
    return give(mapped(_DIV, (total, count), wide.dtype, dtype), f"AvgPool{rank}D", (input,))


def _window_counts(
    node: Node, rank: int, kernel: Sizes, stride: Any, padding: Any, ceil_mode: bool,
    include_pad: bool,
) -> Node:  # fmt: skip
    """How many elements every window covers, the padding counted or not."""
    ones = ops.reshape(ops.constant(1, int64), (1,) * rank)
    edge = spread(padding, rank)
    grown = edge if include_pad else (0,) * rank
    ones = ops.expand(ones, tuple(n + 2 * e for n, e in zip(node.shape[-rank:], grown)))
    rest = (0,) * rank if include_pad else edge
    seen = _windows(ones, rank, kernel, stride, rest, 1, ceil_mode, 0)
    return ops.reduce_("sum", seen, (len(seen.shape) - 1,))


def avg_pool1d(
    input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0,
    ceil_mode: bool = False, count_include_pad: bool = True,
) -> Tensor:  # fmt: skip
    """The mean of every window of the last dimension. Raises ShapeError."""
    return _avg_pool(1, input, kernel_size, stride, padding, ceil_mode, count_include_pad, None)


def avg_pool2d(
    input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0,
    ceil_mode: bool = False, count_include_pad: bool = True, divisor_override: int | None = None,
) -> Tensor:  # fmt: skip
    """The mean of every window of the last two dimensions. Raises ShapeError."""
    options = (stride, padding, ceil_mode, count_include_pad, divisor_override)
    return _avg_pool(2, input, kernel_size, *options)


def _bins(extent: int, count: int) -> list[tuple[int, int]]:
    return [(i * extent // count, -(-(i + 1) * extent // count)) for i in range(count)]


def _adaptive(node: Node, axis: int, count: int, kind: str) -> Node:
    """``count`` bins of nearly equal size along an axis, each reduced."""
    extent, shape = node.shape[axis], node.shape
    if extent % count == 0:
        cut = (*shape[:axis], count, extent // count, *shape[axis + 1 :])
        return ops.reduce_(kind, ops.reshape(node, cut), (axis + 1,))
    parts = []
    for low, high in _bins(extent, count):
        starts, sizes = [0] * len(shape), list(shape)
        starts[axis], sizes[axis] = low, high - low
        part = ops.slice_(node, tuple(starts), tuple(sizes), (1,) * len(shape))
        part = ops.reduce_(kind, part, (axis,))
        if kind == "sum":
            part = mapped(
                _DIV, (part, constant_of(float(high - low), node.dtype)), node.dtype, None
            )
        parts.append(ops.reshape(part, (*shape[:axis], 1, *shape[axis + 1 :])))
    return ops.concat(tuple(parts), axis)


def _adaptive_pool(rank: int, input: Tensor, output_size: Any, kind: str, title: str) -> Tensor:
    node = ops.cast(input.node, input.dtype.compute)
    wanted = (output_size,) * rank if isinstance(output_size, int) else tuple(output_size)
    first = len(node.shape) - rank
    for axis, count in enumerate(wanted, first):
        if count is None or count == node.shape[axis]:
            continue
        extent = node.shape[axis]
        node = _adaptive(node, axis, count, kind)
        if kind == "sum" and extent % count == 0:
            size = constant_of(float(extent // count), node.dtype)
            node = mapped(_DIV, (node, size), node.dtype, None)
    return give(ops.cast(node, input.dtype), title, (input,))


def adaptive_avg_pool1d(input: Tensor, output_size: Any) -> Tensor:
    """Means over so many bins of the last dimension."""
    return _adaptive_pool(1, input, output_size, "sum", "AdaptiveAvgPool1D")


def adaptive_avg_pool2d(input: Tensor, output_size: Any) -> Tensor:
    """Means over so many bins of the last two dimensions."""
    return _adaptive_pool(2, input, output_size, "sum", "AdaptiveAvgPool2D")


def adaptive_max_pool2d(input: Tensor, output_size: Any) -> Tensor:
    """Maxima over so many bins of the last two dimensions."""
    return _adaptive_pool(2, input, output_size, "max", "AdaptiveMaxPool2D")
