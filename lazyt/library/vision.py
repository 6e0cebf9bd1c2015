"""The operators of torchvision's compiled library, ``torch.ops.torchvision``, as functions of
lazyt, so that detection models run where that library cannot be loaded.

Sources: the operators' documentation in torchvision; He et al., "Mask R-CNN" (2017) for
``roi_align``, Girshick, "Fast R-CNN" (2015) for ``roi_pool``, Dai et al., "R-FCN" (2016) for the
position-sensitive forms, and Zhu et al., "Deformable ConvNets v2" (2019).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from lazyt.autograd import grad as gradient_of
from lazyt.errors import LazytError
from lazyt.functional import namespace as lazyt
from lazyt.functional.namespace import Tensor
from lazyt.handle.grad_mode import enable_grad
from lazyt.library.definitions import Library

__all__ = [
    "define", "deform_conv2d", "nms", "ps_roi_align", "ps_roi_pool",
    "roi_align", "roi_pool",
]  # fmt: skip


def _checked(condition: bool, message: str) -> None:
    if not condition:
        raise LazytError(message)


# ------------------------------------------------------------------ boxes


def nms(dets: Tensor, scores: Tensor, iou_threshold: float) -> Tensor:
    """Indices, by falling score, of the boxes that no chosen one of a higher score overlaps by more
    than ``iou_threshold`` (intersection over union).

    Args:
        dets: boxes ``(x1, y1, x2, y2)``, of shape (N, 4).
        scores: one for each.
        iou_threshold: from 0 to 1.

    Raises LazytError for other shapes. The boxes are looked at, as the number of results depends on
    them.
    """
    _checked(dets.ndim == 2, f"boxes should be a 2d tensor, got {dets.ndim}D")
    _checked(
        dets.shape[1] == 4, f"boxes should have 4 elements in dimension 1, got {dets.shape[1]}"
    )
    _checked(scores.ndim == 1, f"scores should be a 1d tensor, got {scores.ndim}D")
    _checked(
        dets.shape[0] == scores.shape[0],
        "boxes and scores should have same number of elements in dimension 0, got "
        f"{dets.shape[0]} and {scores.shape[0]}",
    )
    order = lazyt.argsort(scores.detach(), descending=True, stable=True)
    count = order.shape[0]
    if not count:
        return order
    x1, y1, x2, y2 = dets.detach()[order].unbind(1)
    areas = (x2 - x1) * (y2 - y1)

    def side(low: Tensor, high: Tensor) -> Tensor:
        ends = lazyt.minimum(high[:, None], high), lazyt.maximum(low[:, None], low)
        return (ends[0] - ends[1]).clamp(min=0)

    both = side(x1, x2) * side(y1, y2)
    place = lazyt.arange(count, device=dets.device)
    better = place < place[:, None]
    hits = ((both / (areas[:, None] + areas - both)) > iou_threshold) & better
    chosen = lazyt.ones(count, dtype=lazyt.bool, device=dets.device)
    # What is chosen follows from what is chosen before it, so that each round settles at least one
    # more box, and the first round that changes nothing has settled all.
    while True:
        found = ~(hits & chosen).any(1)
        if bool((found == chosen).all()):
            return order[found]
        chosen = found


# ------------------------------------------------------------- rectangles


def _rois(input: Tensor, rois: Tensor) -> tuple[Tensor, Tensor]:
    """The image that each rectangle is in, and its corners."""
    _checked(rois.ndim == 2 and rois.shape[1] == 5, "rois must have shape as Tensor[K, 5]")
    _checked(
        input.dtype == rois.dtype,
        "Expected tensor for input to have the same type as tensor for rois; but type "
        f"{input.dtype} does not equal {rois.dtype}",
    )
    return rois[:, 0].to(lazyt.int64), rois[:, 1:]


def _samples(start: Tensor, size: Tensor, bins: int, ratio: int) -> tuple[Tensor, Tensor]:
    """Where each bin is sampled along one axis, of shape (K, bins, samples), and which of the
    samples there are: as many as pixels in a bin, if ``ratio`` is not positive."""
    width = size / bins
    if ratio > 0:
        counts = lazyt.full_like(size, ratio)
        most = ratio
    else:
        counts = lazyt.ceil(width).clamp(min=0)
        most = max(1, int(counts.max())) if size.shape[0] else 1
    index = lazyt.arange(most, dtype=start.dtype, device=start.device)
    bin_of = lazyt.arange(bins, dtype=start.dtype, device=start.device)
    steps = (index + 0.5) * (width / counts.clamp(min=1))[:, None]
    where = (start[:, None] + bin_of * width[:, None])[:, :, None] + steps[:, None, :]
    return where, (index < counts[:, None])[:, None, :].expand(where.shape)


def _corners(where: Tensor, extent: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The two pixels around each place on an axis and their weights, 0 outside of the image."""
    inside = (where >= -1.0) & (where <= extent)
    place = where.clamp(0, extent - 1)
    low = lazyt.floor(place).to(lazyt.int64)
    high = (low + 1).clamp(max=extent - 1)
    share = place - low.to(where.dtype)
    return low, high, (1 - share) * inside, share * inside


def _pooled_samples(
    x: Tensor, ys: Sequence[Tensor], xs: Sequence[Tensor], pick: Callable[[Tensor, Tensor], Tensor]
) -> Tensor:
    """The mean of the samples of each bin; ``pick`` reads pixels."""
    (y, real_y), (x_, real_x) = ys, xs
    y_low, y_high, y_low_weight, y_high_weight = _corners(y, x.shape[-2])
    x_low, x_high, x_low_weight, x_high_weight = _corners(x_, x.shape[-1])

    def spread_y(t: Tensor) -> Tensor:
        return t[:, :, None, :, None]

    def spread_x(t: Tensor) -> Tensor:
        return t[:, None, :, None, :]

    total = lazyt.zeros((), dtype=x.dtype, device=x.device)
    real = spread_y(real_y) & spread_x(real_x)
    for row, row_weight in ((y_low, y_low_weight), (y_high, y_high_weight)):
        for column, column_weight in ((x_low, x_low_weight), (x_high, x_high_weight)):
            weight = spread_y(row_weight) * spread_x(column_weight) * real
            total = total + pick(spread_y(row), spread_x(column)) * weight[:, None]
    count = real.sum((-2, -1)).clamp(min=1)
    return total.sum((-2, -1)) / count[:, None].to(total.dtype)


def roi_align(
    input: Tensor, rois: Tensor, spatial_scale: float, pooled_height: int, pooled_width: int,
    sampling_ratio: int, aligned: bool,
) -> Tensor:  # fmt: skip
    """Means of bilinear samples in each bin of each rectangle.

    Args:
        input: images (N, C, H, W).
        rois: rectangles (K, 5): the image's number, and x1, y1, x2, y2.
        spatial_scale: from their coordinates to pixels.
        pooled_height, pooled_width: how many bins there are.
        sampling_ratio: samples along each side of a bin, 0 or less for one a pixel.
        aligned: whether a pixel's centre is at half of it.

    Gives (K, C, pooled_height, pooled_width). Raises LazytError for other shapes, or two dtypes.
    """
    image, box = _rois(input, rois)
    box = box * spatial_scale - (0.5 if aligned else 0.0)
    start_x, start_y = box[:, 0], box[:, 1]
    size_x, size_y = box[:, 2] - start_x, box[:, 3] - start_y
    if not aligned:
        size_x, size_y = size_x.clamp(min=1), size_y.clamp(min=1)
    ys = _samples(start_y, size_y, pooled_height, sampling_ratio)
    xs = _samples(start_x, size_x, pooled_width, sampling_ratio)
    channels = input.movedim(1, -1)
    number = image[:, None, None, None, None]

    def pick(row: Tensor, column: Tensor) -> Tensor:
        return channels[number, row, column].movedim(-1, 1)

    return _pooled_samples(input, ys, xs, pick)


def ps_roi_align(
    input: Tensor, rois: Tensor, spatial_scale: float, pooled_height: int, pooled_width: int,
    sampling_ratio: int,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """As :func:`roi_align`, aligned, but each bin reads its own channels.

    Gives (K, C / bins, pooled_height, pooled_width), and the channel of each. Raises LazytError
    where the channels are no multiple of the bins, and as :func:`roi_align` does.
    """
    image, box = _rois(input, rois)
    box = box * spatial_scale - 0.5
    ys = _samples(box[:, 1], box[:, 3] - box[:, 1], pooled_height, sampling_ratio)
    xs = _samples(box[:, 0], box[:, 2] - box[:, 0], pooled_width, sampling_ratio)
    channel = _channel_of_bins(input, pooled_height, pooled_width)
    number = image[:, None, None, None, None, None]

    def pick(row: Tensor, column: Tensor) -> Tensor:
        return input[number, channel[None, :, :, :, None, None], row[:, None], column[:, None]]

    found = _pooled_samples(input, ys, xs, pick)
    return found, channel.to(lazyt.int32).expand(found.shape).clone()


def _channel_of_bins(input: Tensor, high: int, wide: int) -> Tensor:
    _checked(
        input.shape[1] % (high * wide) == 0,
        "input channels must be a multiple of pooling height * pooling width",
    )
    count = input.shape[1] // (high * wide)
    return lazyt.arange(input.shape[1], device=input.device).reshape(count, high, wide)


def _ranges(start: Tensor, size: Tensor, bins: int, extent: int) -> Tensor:
    """Which pixels along one axis are in each bin, of shape (K, bins, extent)."""
    index = lazyt.arange(bins, dtype=start.dtype, device=start.device)
    width = (size / bins)[:, None]
    low, high = _bin_ends(start[:, None], index, width)
    pixel = lazyt.arange(extent, dtype=start.dtype, device=start.device)
    return (pixel >= low[:, :, None]) & (pixel < high[:, :, None])


def _bin_ends(start: Tensor, index: Tensor, width: Tensor) -> tuple[Tensor, Tensor]:
    return lazyt.floor(index * width) + start, lazyt.ceil((index + 1) * width) + start


def _rounded(box: Tensor, scale: float) -> Tensor:
    """Half away from zero, as C rounds."""
    scaled = box * scale
    return lazyt.trunc(scaled + lazyt.sign(scaled) * 0.5)


def roi_pool(
    input: Tensor, rois: Tensor, spatial_scale: float, pooled_height: int, pooled_width: int
) -> tuple[Tensor, Tensor]:
    """The largest pixel in each bin of each rectangle, 0 of none; and its number in the image, -1
    of none. Shapes and errors are those of :func:`roi_align`."""
    image, box = _rois(input, rois)
    box = _rounded(box, spatial_scale)
    x, y = box[:, 0], box[:, 1]
    columns = _ranges(x, (box[:, 2] - x + 1).clamp(min=1), pooled_width, input.shape[3])
    rows = _ranges(y, (box[:, 3] - y + 1).clamp(min=1), pooled_height, input.shape[2])
    lowest = -float("inf")
    # of each row its first largest pixel, then of these the first: (K, C, H, bins), then both bins
    wide = lazyt.where(columns[:, None, None], input[image][:, :, :, None], lowest)
    value, column = wide.max(-1)
    high = lazyt.where(rows[:, None, :, None], value.movedim(2, -1)[:, :, None], lowest)
    found, row = high.max(-1)
    picked = lazyt.gather(column.movedim(2, -1)[:, :, None].expand(high.shape), -1, row[..., None])
    empty = ~(rows.any(-1)[:, None, :, None] & columns.any(-1)[:, None, None, :])
    number = lazyt.where(empty, -1, row * input.shape[3] + picked[..., 0])
    return lazyt.where(empty, 0.0, found), number.to(lazyt.int32)


def ps_roi_pool(
    input: Tensor, rois: Tensor, spatial_scale: float, pooled_height: int, pooled_width: int
) -> tuple[Tensor, Tensor]:
    """The mean of the pixels in each bin, which reads its own channels; and the channel of each.

    Shapes and errors are those of :func:`ps_roi_align`.
    """
    image, box = _rois(input, rois)
    box = _rounded(box, spatial_scale)
    channel = _channel_of_bins(input, pooled_height, pooled_width)

    def shares(start: Tensor, end: Tensor, bins: int, extent: int) -> Tensor:
        index = lazyt.arange(bins, dtype=start.dtype, device=start.device)
        width = ((end - start).clamp(min=1) / bins)[:, None]
        low = lazyt.floor(index * width + start[:, None]).clamp(0, extent)
        high = lazyt.ceil((index + 1) * width + start[:, None]).clamp(0, extent)
        pixel = lazyt.arange(extent, dtype=start.dtype, device=start.device)
        inside = (pixel >= low[:, :, None]) & (pixel < high[:, :, None])
        return inside.to(input.dtype) / (high - low).clamp(min=1)[:, :, None]

    rows = shares(box[:, 1], box[:, 3], pooled_height, input.shape[2])
    columns = shares(box[:, 0], box[:, 2], pooled_width, input.shape[3])
    own = input[image].reshape(-1, *channel.shape, *input.shape[2:])
    found = lazyt.einsum("kcpqhw,kph,kqw->kcpq", own, rows, columns)
    return found, channel.to(lazyt.int32).expand(found.shape).clone()


# ------------------------------------------------- deformable convolution


def deform_conv2d(
    input: Tensor, weight: Tensor, offset: Tensor, mask: Tensor, bias: Tensor, stride_h: int,
    stride_w: int, pad_h: int, pad_w: int, dilation_h: int, dilation_w: int, groups: int,
    offset_groups: int, use_mask: bool,
) -> Tensor:  # fmt: skip
    """A convolution whose taps are moved by ``offset`` and weighed by ``mask``.

    Args:
        input: images (N, C, H, W).
        weight: (O, C / groups, high, wide).
        offset: (N, 2 * offset_groups * high * wide, H', W'): how far down and right each tap moves.
        mask: (N, offset_groups * high * wide, H', W'), with ``use_mask``.
        bias: (O,).
        stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w, groups: as in ``conv2d``.
        offset_groups: how many groups of channels have offsets of their own.
        use_mask: whether there is a mask.

    Gives (N, O, H', W'). Raises LazytError where offsets do not fit the weight.
    """
    (batch, channels, _, _), (outputs, _, high, wide) = input.shape, weight.shape
    rows, columns = offset.shape[-2:]
    taps = high * wide
    _checked(
        offset.shape[1] == 2 * offset_groups * taps,
        f"offset.shape[1] is not valid: got: {offset.shape[1]} expected: "
        f"{2 * offset_groups * taps}",
    )
    moved = offset.reshape(batch, offset_groups, taps, 2, rows, columns)

    def axis(count: int, step: int, pad: int) -> Tensor:
        made = lazyt.arange(count, dtype=input.dtype, device=input.device)
        return made * step - pad

    tap = lazyt.arange(taps, device=input.device)
    down = (tap // wide).to(input.dtype)[:, None, None] * dilation_h
    right = (tap % wide).to(input.dtype)[:, None, None] * dilation_w
    y = axis(rows, stride_h, pad_h)[:, None] + down + moved[:, :, :, 0]
    x = axis(columns, stride_w, pad_w) + right + moved[:, :, :, 1]
    values = _bilinear(input.reshape(batch, offset_groups, -1, *input.shape[2:]), y, x)
    if use_mask:
        values = values * mask.reshape(batch, offset_groups, 1, taps, rows, columns)
    patches = values.reshape(batch, groups, channels // groups, taps, rows, columns)
    filters = weight.reshape(groups, outputs // groups, channels // groups, taps)
    found = lazyt.einsum("ngctyx,goct->ngoyx", patches, filters)
    return found.reshape(batch, outputs, rows, columns) + bias[:, None, None]


def _bilinear(images: Tensor, y: Tensor, x: Tensor) -> Tensor:
    """Images (N, G, C, H, W) at places (N, G, taps, H', W'): (N, G, C, taps, H', W'). A pixel
    outside of the image is 0."""
    high, wide = images.shape[-2:]
    flat = images.flatten(-2)
    low_y, low_x = lazyt.floor(y), lazyt.floor(x)
    total = lazyt.zeros((), dtype=images.dtype, device=images.device)
    for step_y in (0, 1):
        for step_x in (0, 1):
            row, column = low_y + step_y, low_x + step_x
            inside = (row >= 0) & (row < high) & (column >= 0) & (column < wide)
            weight = (1 - (y - row).abs()) * (1 - (x - column).abs()) * inside
            place = row.clamp(0, high - 1) * wide + column.clamp(0, wide - 1)
            index = place.to(lazyt.int64).flatten(2)[:, :, None].expand(*flat.shape[:3], -1)
            picked = lazyt.gather(flat, -1, index).reshape(*flat.shape[:3], *y.shape[2:])
            total = total + picked * weight[:, :, None]
    return total


# -------------------------------------------------------------- operators


def _through(forward: Callable[..., Any], leaf: Tensor, grad: Tensor) -> Tensor:
    """The gradient of a function of one tensor."""
    with enable_grad():
        leaf = leaf.detach().requires_grad_()
        found: Tensor | None = gradient_of(forward(leaf), leaf, grad, allow_unused=True)[0]
    return lazyt.zeros_like(leaf) if found is None else found


def _roi_align_backward(
    grad: Tensor, rois: Tensor, spatial_scale: float, pooled_height: int, pooled_width: int,
    batch_size: int, channels: int, height: int, width: int, sampling_ratio: int, aligned: bool,
) -> Tensor:  # fmt: skip
    bins = (spatial_scale, pooled_height, pooled_width, sampling_ratio, aligned)
    zeros = grad.new_zeros(batch_size, channels, height, width)
    return _through(lambda x: roi_align(x, rois, *bins), zeros, grad)


def _ps_roi_align_backward(
    grad: Tensor, rois: Tensor, channel_mapping: Tensor, spatial_scale: float, pooled_height: int,
    pooled_width: int, sampling_ratio: int, batch_size: int, channels: int, height: int, width: int,
) -> Tensor:  # fmt: skip
    bins = (spatial_scale, pooled_height, pooled_width, sampling_ratio)
    zeros = grad.new_zeros(batch_size, channels, height, width)
    return _through(lambda x: ps_roi_align(x, rois, *bins)[0], zeros, grad)


def _ps_roi_pool_backward(
    grad: Tensor, rois: Tensor, channel_mapping: Tensor, spatial_scale: float, pooled_height: int,
    pooled_width: int, batch_size: int, channels: int, height: int, width: int,
) -> Tensor:  # fmt: skip
    bins = (spatial_scale, pooled_height, pooled_width)
    zeros = grad.new_zeros(batch_size, channels, height, width)
    return _through(lambda x: ps_roi_pool(x, rois, *bins)[0], zeros, grad)


def _roi_pool_backward(
    grad: Tensor, rois: Tensor, argmax: Tensor, spatial_scale: float, pooled_height: int,
    pooled_width: int, batch_size: int, channels: int, height: int, width: int,
) -> Tensor:  # fmt: skip
    index = argmax.to(lazyt.int64)
    image = rois[:, 0].to(lazyt.int64)[:, None, None, None]
    plane = image * channels + lazyt.arange(channels, device=grad.device)[:, None, None]
    place = (plane * (height * width) + index.clamp(min=0)).flatten()
    given = lazyt.where(index < 0, 0.0, grad).flatten()
    flat: Tensor = grad.new_zeros(batch_size * channels * height * width)
    return flat.index_add(0, place, given).reshape(batch_size, channels, height, width)


def _deform_conv2d_backward(
    grad: Tensor, input: Tensor, weight: Tensor, offset: Tensor, mask: Tensor, bias: Tensor,
    *sizes: Any,
) -> tuple[Tensor, ...]:  # fmt: skip
    with enable_grad():
        leaves = [t.detach().requires_grad_() for t in (input, weight, offset, mask, bias)]
        convolve: Callable[..., Tensor] = deform_conv2d
        found = convolve(*leaves, *sizes)
        grads = gradient_of(found, leaves, grad, allow_unused=True)
    return tuple(lazyt.zeros_like(t) if g is None else g for g, t in zip(grads, leaves))


def _cuda_version() -> int:
    """-1: there is no CUDA in torchvision's part."""
    return -1


_INPUT = "Tensor input, Tensor rois"
_BINS = "float spatial_scale, int pooled_height, int pooled_width"
_SIZE = "int batch_size, int channels, int height, int width"
_CONV = (
    "Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, int stride_h, "
    "int stride_w, int pad_h, int pad_w, int dilation_h, int dilation_w, int groups, "
    "int offset_groups, bool use_mask"
)
#: Schemas, with the functions that compute them; None for what only quantized tensors need.
_OPERATORS: dict[str, Callable[..., Any] | None] = {
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor": nms,
    f"roi_align({_INPUT}, {_BINS}, int sampling_ratio, bool aligned) -> Tensor": roi_align,
    f"ps_roi_align({_INPUT}, {_BINS}, int sampling_ratio) -> (Tensor, Tensor)": ps_roi_align,
    f"roi_pool({_INPUT}, {_BINS}) -> (Tensor, Tensor)": roi_pool,
    f"ps_roi_pool({_INPUT}, {_BINS}) -> (Tensor, Tensor)": ps_roi_pool,
    f"deform_conv2d({_CONV}) -> Tensor": deform_conv2d,
    f"_roi_align_backward(Tensor grad, Tensor rois, {_BINS}, {_SIZE}, int sampling_ratio, "
    "bool aligned) -> Tensor": _roi_align_backward,
    f"_ps_roi_align_backward(Tensor grad, Tensor rois, Tensor channel_mapping, {_BINS}, "
    f"int sampling_ratio, {_SIZE}) -> Tensor": _ps_roi_align_backward,
    f"_roi_pool_backward(Tensor grad, Tensor rois, Tensor argmax, {_BINS}, {_SIZE}) "
    "-> Tensor": _roi_pool_backward,
    f"_ps_roi_pool_backward(Tensor grad, Tensor rois, Tensor channel_mapping, {_BINS}, {_SIZE}) "
    "-> Tensor": _ps_roi_pool_backward,
    f"_deform_conv2d_backward(Tensor grad, {_CONV}) "
    "-> (Tensor, Tensor, Tensor, Tensor, Tensor)": _deform_conv2d_backward,
    "_cuda_version() -> int": _cuda_version,
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor": None,
    f"qroi_align({_INPUT}, float input_scale, int input_zero_point, "
    f"float rois_scale, int rois_zero_point, {_BINS}, int sampling_ratio, bool aligned) "
    "-> Tensor": None,
}  # fmt: skip


@functools.cache
def define() -> Library:
    """Defines them, once; gives the library that has them."""
    made = Library("torchvision", "FRAGMENT")
    for schema, function in _OPERATORS.items():
        name = made.define(schema)
        if function is not None:
            made.impl(name, function, "CompositeImplicitAutograd")
    return made
