"""Pooling by powers, at random places, and back from maxima to where they were."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from lazyt import ops
from lazyt.cast_mode import in_full_precision
from lazyt.dispatch import type_title
from lazyt.errors import BoundsError, DTypeError, LazytError, RankError, ShapeError
from lazyt.functional.arithmetic import scalar_build
from lazyt.functional.convolution import Sizes, spread
from lazyt.functional.mixed_types import mixed
from lazyt.functional.operands import constant_of, mapped
from lazyt.functional.picking import value_range, within
from lazyt.functional.pooling import along, avg_pool1d, avg_pool2d, avg_pool3d, largest
from lazyt.functional.random import rand
from lazyt.functional.results import give
from lazyt.ir.dtypes import int64
from lazyt.ir.graph import Node
from lazyt.ir.scalar import Expr, call
from lazyt.tensor import Tensor

_MUL = scalar_build("mul")
_ADD = scalar_build("add")


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


def lp_pool1d(
    input: Tensor, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
) -> Tensor:
    """``sum(x ** p) ** (1 / p)`` of every window of the last dimension. Raises ShapeError."""
    return _power_pool(avg_pool1d, 1, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool2d(
    input: Tensor, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
) -> Tensor:
    """``sum(x ** p) ** (1 / p)`` of every window of the last two dimensions. Raises ShapeError."""
    return _power_pool(avg_pool2d, 2, input, norm_type, kernel_size, stride, ceil_mode)


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
        places.append(_interval_places(sample, k, count, extent))
    for axis, found in enumerate(places):
        at = ops.reshape(found, (*found.shape[:2], found.shape[2] * found.shape[3]))
        node = ops.gather(node, at, axis + 2, 2)
    cut = [n for pair in zip(sizes, kernel) for n in pair]
    node = ops.reshape(node, (batch, channels, *cut))
    order = (0, 1, *range(2, 2 + 2 * rank, 2), *range(3, 3 + 2 * rank, 2))
    node = ops.reshape(ops.permute(node, order), (batch, channels, *sizes, math.prod(kernel)))
    result, best = largest(node)
    numbers = _winner_places(best, places, kernel, shape[-rank:])
    if len(shape) == rank + 1:
        result, numbers = (ops.reshape(n, n.shape[1:]) for n in (result, numbers))
    title = f"FractionalMaxPool{rank}D"
    return give(result, title, (input,)), give(numbers, "indices", ())


def _check_fractions(name: str, spatial: Sizes, kernel: Sizes, sizes: Sizes) -> None:
    sides = {2: ("height", "width"), 3: ("time", "height", "width")}[len(spatial)]
    for side, n, k, count in zip(sides, spatial, kernel, sizes):
        if count + k - 1 > n:
            raise ShapeError(f"{name}(): pool {side} {k} too large relative to input {side} {n}")


def _interval_places(sample: Node, kernel: int, count: int, extent: int) -> Node:
    """[N, C, count, kernel]: the positions that every window of one dimension covers."""
    wide = sample.dtype.compute
    alpha = (extent - kernel) / (count - 1) if count > 1 else 0.0
    numbers = (constant_of(v, int64) for v in (count - 1, extent - kernel))
    nodes = (ops.iota(count), ops.cast(sample, wide), constant_of(alpha, wide), *numbers)
    start = mixed(_interval, nodes)
    start = ops.reshape(start, (*start.shape, 1))
    return ops.apply("add", start, ops.iota(kernel))


def _winner_places(best: Node, places: list[Node], kernel: Sizes, spatial: Sizes) -> Node:
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


def _check_places(rank: int, input: Tensor, indices: Tensor, sizes: Sizes) -> None:
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


def _unpool(rank: int) -> Callable[..., Tensor]:
    def function(
        input: Tensor, indices: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0,
        output_size: Any = None,
    ) -> Tensor:  # fmt: skip
        kernel = spread(kernel_size, rank)
        steps = kernel if stride is None else spread(stride, rank)
        spatial = tuple(input.shape[-rank:])
        sizes = _unpooled_size(spatial, kernel, steps, spread(padding, rank), output_size)
        _check_places(rank, input, indices, sizes)
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
