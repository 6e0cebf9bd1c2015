"""Convolution, pooling and padding: windows of the padded input, never copied out.

A convolution is a contraction of a windowed view with the kernel, so no buffer of columns is made.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lazyt import ops
from lazyt.cast_mode import in_low_precision
from lazyt.errors import LazytError, ShapeError
from lazyt.functional.arithmetic import scalar_build
from lazyt.functional.creation import stored
from lazyt.functional.operands import mapped
from lazyt.functional.results import give
from lazyt.ir.dtypes import int64
from lazyt.ir.graph import Node
from lazyt.tensor import Tensor

_ADD, _DIV = scalar_build("add"), scalar_build("div")

Sizes = tuple[int, ...]


def spread(value: Any, rank: int) -> Sizes:
    """One number for every spatial dimension, or one each."""
    if isinstance(value, int):
        return (value,) * rank
    found = tuple(int(v) for v in value)
    return found * rank if len(found) == 1 else found


def padded(node: Node, low: Sizes, high: Sizes, fill: float = 0.0) -> Node:
    """The last dimensions padded; negative amounts cut off."""
    lead = len(node.shape) - len(low)
    if any(v < 0 for v in (*low, *high)):
        starts = (*(0,) * lead, *(max(-v, 0) for v in low))
        cut = (*(0,) * lead, *(max(-v, 0) for v in high))
        sizes = tuple(n - a - b for n, a, b in zip(node.shape, starts, cut))
        node = ops.slice_(node, starts, sizes, (1,) * len(sizes))
        low, high = tuple(max(v, 0) for v in low), tuple(max(v, 0) for v in high)
    if not any(low) and not any(high):
        return node
    zeros = (0,) * lead
    return ops.pad(node, (*zeros, *low), (*zeros, *high), (0,) * len(node.shape), fill)


def windows(node: Node, kernel: Sizes, stride: Sizes, dilation: Sizes) -> Node:
    """``(*lead, *positions, *kernel)``: every placement of a kernel over the last dimensions."""
    rank = len(kernel)
    lead, spatial = node.shape[:-rank], node.shape[-rank:]
    reach = [d * (k - 1) + 1 for k, d in zip(kernel, dilation)]
    places = tuple((n - r) // s + 1 for n, r, s in zip(spatial, reach, stride))
    steps = [1] * len(node.shape)
    for i in range(len(node.shape) - 2, -1, -1):
        steps[i] = steps[i + 1] * node.shape[i + 1]
    own = steps[-rank:]
    strides = (
        *steps[:-rank],
        *(s * n for s, n in zip(stride, own)),
        *(d * n for d, n in zip(dilation, own)),
    )
    return ops.window(node, (*lead, *places, *kernel), strides, 0)


def _check_convolution(input: Tensor, weight: Tensor, groups: int, rank: int) -> None:
    shape, kernel = tuple(input.shape), tuple(weight.shape)
    if len(shape) not in (rank + 1, rank + 2):
        raise ShapeError(
            f"Expected {rank + 1}D (unbatched) or {rank + 2}D (batched) input to conv{rank}d, "
            f"but got input of size: {list(shape)}"
        )
    channels = shape[-rank - 1]
    if channels != kernel[1] * groups:
        raise ShapeError(
            f"Given groups={groups}, weight of size {list(kernel)}, expected input{list(shape)} "
            f"to have {kernel[1] * groups} channels, but got {channels} channels instead"
        )
    if input.dtype is not weight.dtype:
        raise LazytError(
            f"Input type ({input.dtype.name}) and bias type ({weight.dtype.name}) should be the "
            "same"
        )


def _padding(padding: Any, kernel: Sizes, stride: Sizes, dilation: Sizes) -> tuple[Sizes, Sizes]:
    rank = len(kernel)
    if padding == "valid":
        return (0,) * rank, (0,) * rank
    if padding == "same":
        if any(s != 1 for s in stride):
            raise LazytError("padding='same' is not supported for strided convolutions")
        total = [d * (k - 1) for k, d in zip(kernel, dilation)]
        return tuple(t // 2 for t in total), tuple(t - t // 2 for t in total)
    amount = spread(padding, rank)
    return amount, amount


def _convolve(
    x: Node, w: Node, stride: Sizes, low: Sizes, high: Sizes, dilation: Sizes, groups: int
) -> Node:
    """The convolution of a batch: a contraction over channels and kernel positions."""
    rank = len(stride)
    kernel = w.shape[-rank:]
    x = padded(x, low, high)
    reach = [d * (k - 1) + 1 for k, d in zip(kernel, dilation)]
    if any(n < r for n, r in zip(x.shape[-rank:], reach)):
        room = " x ".join(map(str, x.shape[-rank:]))
        size = " x ".join(map(str, reach))
        raise ShapeError(
            f"Calculated padded input size per channel: ({room}). Kernel size: ({size}). Kernel "
            "size can't be greater than actual input size"
        )
    seen = windows(x, kernel, stride, dilation)
    n, c, o = 0, 1, 2
    space = tuple(range(3, 3 + rank))
    inside = tuple(range(3 + rank, 3 + 2 * rank))
    if groups == 1:
        return ops.contract(seen, w, (n, c, *space, *inside), (o, c, *inside), (n, o, *space))
    g = 3 + 2 * rank
    per = x.shape[1] // groups
    seen = ops.reshape(seen, (seen.shape[0], groups, per, *seen.shape[2:]))
    parts = ops.reshape(w, (groups, w.shape[0] // groups, *w.shape[1:]))
    left, right = (n, g, c, *space, *inside), (g, o, c, *inside)
    node = ops.contract(seen, parts, left, right, (n, g, o, *space))
    return ops.reshape(node, (node.shape[0], w.shape[0], *node.shape[3:]))


def _with_bias(node: Node, bias: Tensor | None, rank: int) -> Node:
    if bias is None:
        return node
    column = ops.reshape(bias.node, (bias.shape[0], *(1,) * rank))
    return mapped(_ADD, (node, column), node.dtype, node.dtype)


def _conv(
    rank: int, input: Tensor, weight: Tensor, bias: Tensor | None, stride: Any, padding: Any,
    dilation: Any, groups: int,
) -> Tensor:  # fmt: skip
    _check_convolution(input, weight, groups, rank)
    steps, gaps = spread(stride, rank), spread(dilation, rank)
    low, high = _padding(padding, tuple(weight.shape[2:]), steps, gaps)
    x = input.node
    single = len(x.shape) == rank + 1
    if single:
        x = ops.reshape(x, (1, *x.shape))
    node = _with_bias(_convolve(x, weight.node, steps, low, high, gaps, groups), bias, rank)
    if single:
        node = ops.reshape(node, node.shape[1:])
    return give(node, "Convolution", (input, weight, bias))


@in_low_precision
def conv1d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1, padding: Any = 0,
    dilation: Any = 1, groups: int = 1,
) -> Tensor:  # fmt: skip
    """Cross-correlation of (N, C, L) with (O, C / groups, K). Raises ShapeError."""
    return _conv(1, input, weight, bias, stride, padding, dilation, groups)


@in_low_precision
def conv2d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1, padding: Any = 0,
    dilation: Any = 1, groups: int = 1,
) -> Tensor:  # fmt: skip
    """Cross-correlation of (N, C, H, W) with (O, C / groups, KH, KW). Raises ShapeError."""
    return _conv(2, input, weight, bias, stride, padding, dilation, groups)


@in_low_precision
def conv3d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1, padding: Any = 0,
    dilation: Any = 1, groups: int = 1,
) -> Tensor:  # fmt: skip
    """Cross-correlation of (N, C, D, H, W) with (O, C / groups, ...). Raises ShapeError."""
    return _conv(3, input, weight, bias, stride, padding, dilation, groups)


def _transposed(rank: int, name: str) -> Callable[..., Tensor]:
    def function(
        input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1,
        padding: Any = 0, output_padding: Any = 0, groups: int = 1, dilation: Any = 1,
    ) -> Tensor:  # fmt: skip
        steps, gaps = spread(stride, rank), spread(dilation, rank)
        edge, extra = spread(padding, rank), spread(output_padding, rank)
        kernel = tuple(weight.shape[2:])
        x = input.node
        zeros = (0, 0, *(0,) * rank)
        x = ops.pad(x, zeros, zeros, (0, 0, *(s - 1 for s in steps)), 0.0)
        w = _turned_kernel(weight.node, groups, rank)
        low = tuple(d * (k - 1) - p for d, k, p in zip(gaps, kernel, edge))
        high = tuple(a + b for a, b in zip(low, extra))
        node = _convolve(x, w, (1,) * rank, low, high, gaps, groups)
        return give(_with_bias(node, bias, rank), "Convolution", (input, weight, bias))

    function.__doc__ = f"The gradient of ``conv{rank}d`` with respect to its input, as a layer."
    function.__name__ = function.__qualname__ = name
    return in_low_precision(function)


def _turned_kernel(w: Node, groups: int, rank: int) -> Node:
    """(C, O / groups, *K) as (O, C / groups, *K), reversed along the kernel."""
    c, per, *kernel = w.shape
    w = ops.flip(w, tuple(range(2, 2 + rank)))
    w = ops.reshape(w, (groups, c // groups, per, *kernel))
    w = ops.permute(w, (0, 2, 1, *range(3, 3 + rank)))
    return ops.reshape(w, (groups * per, c // groups, *kernel))


conv_transpose1d = _transposed(1, "conv_transpose1d")
conv_transpose2d = _transposed(2, "conv_transpose2d")
conv_transpose3d = _transposed(3, "conv_transpose3d")


# ------------------------------------------------------------------ padding


def pad(
    input: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None
) -> Tensor:
    """``input`` padded at (low, high) of the last dimension, then the one before, and so on.

    ``mode`` is constant, reflect, replicate or circular; others raise LazytError.
    """
    if len(pad) % 2 or len(pad) > 2 * len(input.shape):
        raise ShapeError("Padding length must be divisible by 2 and at most twice the dimensions")
    low, high = tuple(pad[-2::-2]), tuple(pad[::-2])
    if mode == "constant":
        fill = 0.0 if value is None else value
        return give(padded(input.node, low, high, fill), "ConstantPadNd", (input,))
    if mode not in ("reflect", "replicate", "circular"):
        raise LazytError(f"Unrecognised padding mode {mode}")
    node = input.node
    first = len(node.shape) - len(low)
    for axis, (a, b) in enumerate(zip(low, high), first):
        if a or b:
            index = _border_index(node.shape[axis], a, b, mode)
            node = ops.gather(node, stored(index, (len(index),), int64), axis)
    return give(node, "Pad", (input,))


def _border_index(extent: int, low: int, high: int, mode: str) -> np.ndarray[Any, Any]:
    """Where the elements of a padded dimension come from."""
    places = np.arange(-low, extent + high)
    if mode == "replicate":
        return places.clip(0, extent - 1)
    if mode == "circular":
        return places % extent
    if max(low, high) >= extent:
        raise ShapeError(
            "Argument #4: Padding size should be less than the corresponding input dimension, "
            f"but got: padding ({low}, {high}) at a dimension of size {extent}"
        )
    period = max(2 * (extent - 1), 1)
    folded = np.abs(places) % period
    mirrored: np.ndarray[Any, Any] = np.minimum(folded, period - folded)
    return mirrored
