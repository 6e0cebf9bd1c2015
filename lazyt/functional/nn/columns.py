"""Windows as columns and back (im2col), and the channels that pixels and groups are made of."""

from __future__ import annotations

import math
from typing import Any

from lazyt import ops
from lazyt.errors import LazytError, RankError, ShapeError
from lazyt.functional.nn.borders import padded
from lazyt.functional.nn.convolution import Sizes, spread, windows
from lazyt.functional.operands import require_tensor
from lazyt.functional.result_layout import channels_like_first
from lazyt.functional.results import give
from lazyt.functional.type_promotion import require_floating
from lazyt.handle.function_table import function
from lazyt.handle.tensor import Tensor
from lazyt.ir.dtypes import bool_, float32
from lazyt.ir.graph import Node
from lazyt.transforms.vjp import vjp

__all__ = ["channel_shuffle", "native_channel_shuffle", "pixel_shuffle", "pixel_unshuffle"]


def _pair(value: Any, name: str) -> Sizes:
    found = tuple(value) if isinstance(value, (tuple, list)) else spread(value, 2)
    if len(found) != 2:
        raise ShapeError(f"It is expected {name} equals to 2, but got size {len(found)}")
    return found


def _check(kernel: Sizes, dilation: Sizes, stride: Sizes, padding: Sizes) -> None:
    for name, values in (
        ("kernel size", kernel), ("dilation", dilation), ("stride", stride),
    ):  # fmt: skip
        if any(v <= 0 for v in values):
            letters = {"kernel size": "kernel", "dilation": "dilation", "stride": "stride"}[name]
            raise LazytError(
                f"{name} should be greater than zero, but got {letters}_height: {values[0]} "
                f"{letters}_width: {values[1]}"
            )
    if any(p < 0 for p in padding):
        raise LazytError(
            f"padding should be non-negative, but got pad_height: {padding[0]} pad_width: "
            f"{padding[1]}"
        )


def _blocks(spatial: Sizes, kernel: Sizes, dilation: Sizes, padding: Sizes, stride: Sizes) -> Sizes:
    """How many windows lie along each dimension."""
    return tuple(
        (n + 2 * p - d * (k - 1) - 1) // s + 1
        for n, k, d, p, s in zip(spatial, kernel, dilation, padding, stride)
    )


def _columns(node: Node, kernel: Sizes, dilation: Sizes, padding: Sizes, stride: Sizes) -> Node:
    """[N, C, H, W] as [N, C * kernel, windows]."""
    seen = windows(padded(node, padding, padding), kernel, stride, dilation)
    seen = ops.permute(seen, (0, 1, 4, 5, 2, 3))
    n, c, _, _, rows, columns = seen.shape
    return ops.reshape(seen, (n, c * math.prod(kernel), rows * columns))


def _batch(input: Tensor, rank: int, names: str) -> Node:
    """The input with a batch dimension; raises ShapeError for others than ``rank`` or one more."""
    shape = tuple(input.shape)
    if len(shape) not in (rank, rank + 1) or 0 in shape[len(shape) - rank :]:
        kind = RankError if len(shape) < rank else ShapeError
        raise kind(
            f"Expected {rank}D or {rank + 1}D (batch mode) tensor {names}, but got: {list(shape)}"
        )
    node = input.node
    return ops.reshape(node, (1, *shape)) if len(shape) == rank else node


@function()
def unfold(
    input: Tensor, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
) -> Tensor:
    """The windows of images [N, C, H, W] as columns [N, C * kernel, windows], N optional.

    Raises ShapeError for windows that do not fit and LazytError for settings.
    """
    require_tensor(input, "unfold")
    kernel, gaps = _pair(kernel_size, "kernel_size"), _pair(dilation, "dilation")
    edge, steps = _pair(padding, "padding"), _pair(stride, "stride")
    _check(kernel, gaps, steps, edge)
    if input.dtype is not bool_ and input.dtype.kind != "c":
        require_floating("im2col_out_cpu", input.dtype)
    names = "with possibly 0 batch size and other non-zero dimensions for input"
    node = _batch(input, 3, names)
    spatial = node.shape[2:]
    blocks = _blocks(spatial, kernel, gaps, edge, steps)
    if min(blocks) < 1:
        raise ShapeError(
            f"Given input with spatial size {spatial}, kernel_size={kernel}, dilation={gaps}, "
            f"padding={edge}, calculated shape of the array of sliding blocks as {blocks}, but its "
            "components must be at least one."
        )
    result = _columns(node, kernel, gaps, edge, steps)
    if input.ndim == 3:
        result = ops.reshape(result, result.shape[1:])
    return give(result, "Im2Col", (input,))


@function()
def fold(
    input: Tensor, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0,
    stride: Any = 1,
) -> Tensor:  # fmt: skip
    """Columns [N, C * kernel, windows] added up to images [N, C, H, W]: the transpose of unfold.

    Raises ShapeError for sizes that do not fit and LazytError for settings.
    """
    size, kernel = _pair(output_size, "output_size"), _pair(kernel_size, "kernel_size")
    gaps, edge = _pair(dilation, "dilation"), _pair(padding, "padding")
    steps = _pair(stride, "stride")
    _check(kernel, gaps, steps, edge)
    names = "for input with possibly 0 batch size and non-zero dimensions for input"
    node = _batch(input, 2, names)
    if input.dtype is bool_:  # sums of bools say whether there is a true one
        node = ops.cast(node, float32)
    elif input.dtype.kind != "c":
        require_floating("col2im_out_cpu", input.dtype)
    _check_columns(node.shape, size, kernel, gaps, edge, steps)
    channels = node.shape[1] // math.prod(kernel)
    image = ops.broadcast_to(ops.constant(0, node.dtype), (node.shape[0], channels, *size))
    (result,) = vjp([_columns(image, kernel, gaps, edge, steps)], [node], [image])
    assert result is not None
    if input.ndim == 2:
        result = ops.reshape(result, result.shape[1:])
    return give(ops.cast(result, input.dtype), "Col2Im", (input,))


def _check_columns(
    shape: Sizes, size: Sizes, kernel: Sizes, dilation: Sizes, padding: Sizes, stride: Sizes
) -> None:
    area = math.prod(kernel)
    if shape[1] % area:
        raise ShapeError(
            "Expected size of input's dimension 1 to be divisible by the product of kernel_size, "
            f"but got input.size(1)={shape[1]} and kernel_size={kernel}."
        )
    blocks = _blocks(size, kernel, dilation, padding, stride)
    settings = (
        f"output_size={size}, kernel_size={kernel}, dilation={dilation}, padding={padding}, "
        f"stride={stride}"
    )
    if min(blocks) < 1:
        raise ShapeError(
            f"Given {settings}, calculated shape of the array of sliding blocks as {blocks}, "
            "which is too small (non-positive)"
        )
    if math.prod(blocks) != shape[2]:
        raise ShapeError(
            f"Given {settings}, expected size of input's dimension 2 to match the calculated "
            f"number of sliding blocks {blocks[0]} * {blocks[1]} = {math.prod(blocks)}, but got "
            f"input.size(2)={shape[2]}."
        )


# ------------------------------------------------------------------ pixels and groups


def _check_pixels(input: Tensor, name: str, setting: str, factor: int) -> None:
    if input.ndim < 3:
        raise ShapeError(
            f"{name} expects input to have at least 3 dimensions, but got input with "
            f"{input.ndim} dimension(s)"
        )
    if factor <= 0:
        raise LazytError(f"{name} expects a positive {setting}, but got {factor}")


@function(layout=channels_like_first)
def pixel_shuffle(input: Tensor, upscale_factor: int) -> Tensor:
    """[*, C * r * r, H, W] as [*, C, H * r, W * r] (Shi et al. 2016). Raises ShapeError."""
    require_tensor(input, "pixel_shuffle")
    r = upscale_factor
    _check_pixels(input, "pixel_shuffle", "upscale_factor", r)
    *lead, channels, height, width = input.shape
    if channels % (r * r):
        raise ShapeError(
            "pixel_shuffle expects its input's 'channel' dimension to be divisible by the square "
            f"of upscale_factor, but input.size(-3)={channels} is not divisible by {r * r}"
        )
    n = len(lead)
    node = ops.reshape(input.node, (*lead, channels // (r * r), r, r, height, width))
    node = ops.permute(node, (*range(n), n, n + 3, n + 1, n + 4, n + 2))
    size = (*lead, channels // (r * r), height * r, width * r)
    return give(ops.reshape(node, size), "PixelShuffle", (input,))


@function(layout=channels_like_first)
def pixel_unshuffle(input: Tensor, downscale_factor: int) -> Tensor:
    """[*, C, H * r, W * r] as [*, C * r * r, H, W]. Raises ShapeError."""
    require_tensor(input, "pixel_unshuffle")
    r = downscale_factor
    _check_pixels(input, "pixel_unshuffle", "downscale_factor", r)
    *lead, channels, height, width = input.shape
    for side, place, extent in (("height", -2, height), ("width", -1, width)):
        if extent % r:
            raise ShapeError(
                f"pixel_unshuffle expects {side} to be divisible by downscale_factor, but "
                f"input.size({place})={extent} is not divisible by {r}"
            )
    n = len(lead)
    node = ops.reshape(input.node, (*lead, channels, height // r, r, width // r, r))
    node = ops.permute(node, (*range(n), n, n + 2, n + 4, n + 1, n + 3))
    size = (*lead, channels * r * r, height // r, width // r)
    return give(ops.reshape(node, size), "PixelUnshuffle", (input,))


@function(layout=channels_like_first)
def channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """Channels (dimension 1) of ``groups`` dealt out in turn (Zhang et al. 2018).

    Raises ShapeError.
    """
    require_tensor(input, "channel_shuffle")
    shape = tuple(input.shape)
    if len(shape) < 3:
        raise ShapeError(
            f"channel_shuffle expects input with > 2 dims, but got input with sizes {list(shape)}"
        )
    if groups <= 0:
        raise LazytError(
            f"Number of groups to divide channels in must be positive. Value of groups:{groups}"
        )
    if shape[1] % groups:
        raise ShapeError(
            f"Number of channels must be divisible by groups. Got {shape[1]} channels and "
            f"{groups} groups."
        )
    rest = range(3, len(shape) + 1)
    node = ops.reshape(input.node, (shape[0], groups, shape[1] // groups, *shape[2:]))
    node = ops.permute(node, (0, 2, 1, *rest))
    return give(ops.reshape(node, shape), "ChannelShuffle", (input,))


@function()
def native_channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """``channel_shuffle``."""
    require_tensor(input, "native_channel_shuffle")
    return channel_shuffle(input, groups)
