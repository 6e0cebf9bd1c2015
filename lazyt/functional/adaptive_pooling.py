"""Pooling into a given number of bins of nearly equal size."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from lazyt import ops
from lazyt.cast_mode import in_full_precision
from lazyt.errors import LazytError, ShapeError
from lazyt.functional.arithmetic import scalar_build
from lazyt.functional.choice import choose
from lazyt.functional.convolution import Sizes
from lazyt.functional.operands import constant_of, mapped, require_tensor
from lazyt.functional.pooling import along, largest, lowest
from lazyt.functional.results import give
from lazyt.functional.unsupported import require_floating
from lazyt.ir.dtypes import int64
from lazyt.ir.graph import Node
from lazyt.ir.scalar import Expr, call, const
from lazyt.memory_formats import lay_out
from lazyt.tensor import Tensor

__all__ = ["adaptive_avg_pool1d"]

_DIV = scalar_build("div")
_MUL = scalar_build("mul")
_ADD = scalar_build("add")
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


def _bins(node: Node, axis: int, count: int) -> tuple[Node, Node | None, Node]:
    """An axis as (count, longest bin), a mask of what belongs to each bin, and the first places.

    The mask is None where all bins are equally long.
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
    places = mapped(_clipped_place, (ops.reshape(starts, column), inside, last), int64, None)
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


def adaptive_avg_pool1d(input: Tensor, output_size: Any) -> Tensor:
    """Means over so many bins of the last dimension. Raises ShapeError."""
    require_tensor(input, "adaptive_avg_pool1d")
    return _average(1, input, output_size)


def adaptive_avg_pool2d(input: Tensor, output_size: Any) -> Tensor:
    """Means over so many bins of the last two dimensions; None keeps one. Raises ShapeError."""
    return _average(2, input, output_size)


@in_full_precision
def adaptive_avg_pool3d(input: Tensor, output_size: Any) -> Tensor:
    """Means over so many bins of the last three dimensions; None keeps one. Raises ShapeError."""
    return _average(3, input, output_size)


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
        node, mask, first = _bins(node, axis, count)
        starts.append(first)
        if mask is not None:
            spread = ops.reshape(mask, (*mask.shape, *(1,) * (len(node.shape) - axis - 2)))
            node = choose(spread, node, constant_of(lowest(node), node.dtype), node.dtype)
    longest = node.shape[lead + 1 :: 2]
    order = (*range(lead), *range(lead, len(node.shape), 2), *range(lead + 1, len(node.shape), 2))
    node = ops.permute(node, order)
    node = ops.reshape(node, (*node.shape[: lead + rank], math.prod(longest)))
    result, best = largest(node)
    places = _bin_places(best, starts, longest, spatial)
    title = f"AdaptiveMaxPool{rank}D"
    values = give(result, title, (input,))
    return values, lay_out(give(places, "indices", ()), values.strides)


def _offset(best: Expr, tail: Expr, size: Expr, start: Expr) -> Expr:
    return call("add", start, call("mod", call("floordiv", best, tail), size))


def _bin_places(best: Node, starts: list[Node], longest: Sizes, spatial: Sizes) -> Node:
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
