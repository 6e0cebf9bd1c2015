"""Functions of PyTorch's that begin with an underscore or stand in ``torch.ops.aten`` alone.

Packages call some of them, and PyTorch's database of operators has samples of them. Each is made of
public functions; what it says of shapes and errors is what PyTorch's operators of that name do.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Sequence
from typing import Any

from lazyt import ops
from lazyt.errors import ArgumentError, DTypeError, LazytError, ShapeError
from lazyt.functional import namespace as lazyt
from lazyt.functional.nn import interpolation
from lazyt.functional.results import give
from lazyt.handle.tensor import Tensor

__all__ = [
    "_batch_norm_with_update", "_chunk_cat", "_native_batch_norm_legit", "_safe_softmax",
    "_segment_reduce", "_softmax_backward_data", "_unsafe_masked_index",
    "_unsafe_masked_index_put_accumulate", "_upsample_bilinear2d_aa",
    "max_pool2d_with_indices_backward", "native_dropout_backward", "slice",
]  # fmt: skip


def slice(
    input: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Tensor:
    """A view of every ``step``-th element from ``start`` on, before ``end``, of one dimension.

    Raises BoundsError for a dimension that is not there, and ShapeError for no positive step.
    """
    if step < 1:
        raise ShapeError("slice step must be positive")
    size = input.shape[dim]
    begin, stop, _ = builtins.slice(start, end).indices(size)
    narrowed: Tensor = input.narrow(dim, begin, max(stop - begin, 0))
    if step == 1:
        return narrowed
    axis = dim % input.ndim
    found: Tensor = narrowed[(*(builtins.slice(None),) * axis, builtins.slice(None, None, step))]
    return found


def _safe_softmax(input: Tensor, dim: int, dtype: Any = None) -> Tensor:
    """Softmax along ``dim`` that is 0, not NaN, where all elements are -inf."""
    none = (input == -math.inf).all(dim, keepdim=True)
    found: Tensor = lazyt.softmax(input.masked_fill(none, 0), dim, dtype=dtype)
    return found.masked_fill(none, 0)


def _softmax_backward_data(
    grad_output: Tensor, output: Tensor, dim: int, input_dtype: Any
) -> Tensor:
    """The gradient of softmax along ``dim``, from that of its result ``output``."""
    weighted = grad_output * output
    found: Tensor = weighted - output * weighted.sum(dim, keepdim=True)
    return found.to(input_dtype)


def native_dropout_backward(grad_output: Tensor, mask: Tensor, scale: float) -> Tensor:
    """``grad_output`` times ``scale`` where the mask is true, else 0. Raises LazytError for a mask
    that is not bool."""
    if mask.dtype != lazyt.bool:
        raise LazytError(f"Mask should be Bool Scalar Type, not {mask.dtype}")
    found: Tensor = (grad_output * mask.to(grad_output.dtype)) * scale
    return found.to(grad_output.dtype) if grad_output.is_floating_point() else found


def _native_batch_norm_legit(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, *options: Any
) -> tuple[Tensor, Tensor, Tensor]:
    """``native_batch_norm`` that updates its running statistics, if it is given some.

    Args:
        options: running mean and variance, which may be left out together, whether the batch's own
            statistics are taken, momentum and eps.
    """
    mean, var, training, momentum, eps = options if len(options) == 5 else (None, None, *options)
    parts = (input, weight, bias, mean, var, training, momentum, eps)
    found: tuple[Tensor, Tensor, Tensor] = lazyt.native_batch_norm(*parts)
    return found


def _batch_norm_with_update(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor,
    running_var: Tensor, momentum: float, eps: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """``native_batch_norm`` in training, and an empty tensor of bytes, which GPU libraries use."""
    options = (weight, bias, running_mean, running_var, True, momentum, eps)
    result, mean, scale = lazyt.native_batch_norm(input, *options)
    return result, mean, scale, lazyt.empty(0, dtype=lazyt.uint8)


def _upsample_bilinear2d_aa(
    input: Tensor, output_size: Sequence[int] | None, align_corners: bool,
    scale_factors: Sequence[float] | None = None, *, scales_h: float | None = None,
    scales_w: float | None = None,
) -> Tensor:  # fmt: skip
    """``interpolate`` of images, bilinear with a filter; one of size and factors is given.

    With ``scales_h`` or ``scales_w``, places are as far apart as these factors say, not the sizes.
    Raises LazytError where they stand beside no size.
    """
    if scales_h is None and scales_w is None:
        return interpolation.interpolate(
            input, output_size, scale_factors, "bilinear", align_corners, antialias=True
        )
    if output_size is None or input.ndim != 4 or not input.is_floating_point():
        raise LazytError("scales stand beside the sizes of floating point images [N, C, H, W]")
    node = ops.cast(input.node, input.dtype.compute)
    for place, scale in ((3, scales_w), (2, scales_h)):
        old, new = input.shape[place], int(output_size[place - 2])
        step = 1 / scale if scale else old / new
        if align_corners:
            step = (old - 1) / (new - 1) if new > 1 else 0.0
        axis = interpolation.Axis(old, new, step)
        node = interpolation.filtered(node, place, axis, *interpolation.FILTERS["bilinear"])
    return give(ops.cast(node, input.dtype), "UpsampleBilinear2DAa", (input,))


def max_pool2d_with_indices_backward(
    grad_output: Tensor, input: Tensor, kernel_size: Any, stride: Any, padding: Any, dilation: Any,
    ceil_mode: bool, indices: Tensor,
) -> Tensor:  # fmt: skip
    """The gradient of ``max_pool2d``: that of each result, added where its index points to.

    Raises ShapeError for indices of another shape than ``grad_output``.
    """
    if indices.shape != grad_output.shape:
        raise ShapeError(f"indices {list(indices.shape)} beside {list(grad_output.shape)}")
    lead = tuple(input.shape[:-2])
    zeros = lazyt.zeros((*lead, input.shape[-2] * input.shape[-1]), dtype=grad_output.dtype)
    count = grad_output.shape[-2] * grad_output.shape[-1]
    flat = (indices.reshape(*lead, count), grad_output.reshape(*lead, count))
    found: Tensor = zeros.scatter_add(-1, *flat)
    return found.reshape(input.shape)


def _chunk_cat(tensors: Sequence[Tensor], dim: int, num_chunks: int) -> Tensor:
    """Tensors cut into ``num_chunks`` rows each along ``dim``, with zeros behind, side by side.

    What is behind ``dim`` is flattened: the result is [*before, num_chunks, all rows' elements].
    Raises LazytError for what does not fit together.
    """
    if num_chunks < 1:
        raise LazytError("_chunk_cat expects positive num_chunks")
    if not tensors:
        raise LazytError("_chunk_cat expects a non-empty input tensor list")
    ranks = {tensor.ndim for tensor in tensors}
    if dim < 0 and len(ranks) > 1:
        raise LazytError("_chunk_cat expects non-negative dim when input tensors differ in rank")
    axis = dim % tensors[0].ndim if dim < 0 else dim
    rows = []
    for tensor in tensors:
        if tensor.dtype != tensors[0].dtype or not tensor.numel() or axis >= tensor.ndim:
            raise LazytError("_chunk_cat expects tensors of one dtype with elements along dim")
        if tensor.shape[:axis] != tensors[0].shape[:axis]:
            raise LazytError("_chunk_cat expects same sizes of 0,...,dim-1 dimensions")
        more = -tensor.shape[axis] % num_chunks
        tail = (0, 0) * (tensor.ndim - axis - 1)
        whole = lazyt.constant_pad_nd(tensor, (*tail, 0, more), 0)
        rows.append(whole.reshape(*tensor.shape[:axis], num_chunks, -1))
    found: Tensor = lazyt.cat(rows, axis + 1)
    return found


def _within(input: Tensor, indices: Sequence[Tensor | None], lowest: int) -> tuple[Any, ...]:
    """Indices moved into the range of their dimensions: from 0, or counted from the end."""
    moved: list[Any] = []
    for axis, index in enumerate(indices):
        if index is None:
            moved.append(builtins.slice(None))
            continue
        if index.dtype not in (lazyt.int64, lazyt.int32):
            raise LazytError("tensors used as indices must be long or int tensors")
        size = input.shape[axis]
        moved.append(index.clamp(lowest * size, size - 1))
    return tuple(moved)


def _unsafe_masked_index(
    input: Tensor, mask: Tensor, indices: Sequence[Tensor | None], fill: Any
) -> Tensor:
    """``input[indices]`` where the mask is true and ``fill`` elsewhere, where an index may be out
    of range. Raises LazytError for a mask that is not bool."""
    _check_mask(mask)
    found: Tensor = input[_within(input, indices, 0)]
    return found.masked_fill(~mask, fill)


def _unsafe_masked_index_put_accumulate(
    input: Tensor, mask: Tensor, indices: Sequence[Tensor | None], values: Tensor
) -> Tensor:
    """``input`` with ``values`` added at the indices where the mask is true; elsewhere an index may
    be out of range. Raises LazytError for a mask that is not bool."""
    _check_mask(mask)
    if not input.numel():
        return input.clone()
    added = values.masked_fill(~mask, 0)
    found: Tensor = input.index_put(_within(input, indices, -1), added, accumulate=True)
    return found


def _check_mask(mask: Tensor) -> None:
    if mask.dtype != lazyt.bool:
        raise LazytError("tensors used as masks must be bool tensors")


#: What a segment without elements gives, and by what elements are combined.
_SEGMENTS = {
    "max": (-math.inf, "amax"), "min": (math.inf, "amin"), "sum": (0.0, "sum"),
    "mean": (0.0, "sum"), "prod": (1.0, "prod"),
}  # fmt: skip


def _segment_reduce(
    data: Tensor, reduce: str, *, lengths: Tensor | None = None, indices: Tensor | None = None,
    offsets: Tensor | None = None, axis: int = 0, unsafe: bool = False,
    initial: float | None = None,
) -> Tensor:  # fmt: skip
    """Segments of ``data`` along ``axis``, each combined into one element.

    Args:
        data: floating point.
        reduce: max, mean, min, sum or prod.
        lengths: of the segments, [*data.shape[:axis], n], whole numbers; or
        offsets: where they begin and where the last ends, [*data.shape[:axis], n + 1].
        unsafe: whether it is not checked that lengths add up to the size of ``axis``, for which
            their values are looked at.
        initial: with what each segment begins; by default with nothing, so that empty segments give
            -inf, inf, 0, 1 or, of means, NaN.

    Raises ArgumentError, DTypeError and LazytError.
    """
    reduce = {"amax": "max", "amin": "min"}.get(reduce, reduce)
    if reduce not in _SEGMENTS:
        raise ArgumentError(f"unsupported reduction given! {reduce}")
    if not data.is_floating_point():
        raise DTypeError(f"segment_reduce is not implemented for {data.dtype}")
    if indices is not None:
        raise LazytError("segment_reduce(): indices based reduction is not supported yet.")
    if (lengths is None) == (offsets is None):
        raise LazytError("segment_reduce(): Either lengths or offsets must be defined.")
    place = axis % data.ndim
    if lengths is None:
        assert offsets is not None
        lengths = offsets.diff(dim=place)
        begin = offsets.narrow(place, 0, 1)
    else:
        begin = lazyt.zeros_like(lengths.narrow(place, 0, 1))
    if not unsafe:
        whole = (lengths.sum(place) == data.shape[place]).all() & (lengths >= 0).all()
        if not whole:
            raise LazytError(
                "segment_reduce(): Expected all rows of lengths along axis to sum to data.size("
                "lengths.dim()-1) when !unsafe."
            )
    count = lengths.shape[place]
    ends = begin + lengths.cumsum(place)
    steps = lazyt.arange(data.shape[place], dtype=ends.dtype)
    segments = lazyt.searchsorted(ends, steps.expand(*ends.shape[:-1], -1).contiguous(), right=True)
    tail = (1,) * (data.ndim - segments.ndim)
    segments = segments.reshape(*segments.shape, *tail).expand(data.shape)
    nothing, combine = _SEGMENTS[reduce]
    start = nothing if initial is None else initial
    shape = (*data.shape[:place], count + 1, *data.shape[place + 1 :])
    base = lazyt.full(shape, start, dtype=data.dtype)
    found: Tensor = base.scatter_reduce(place, segments, data, combine).narrow(place, 0, count)
    if reduce != "mean":
        return found
    sizes = lengths.reshape(*lengths.shape, *tail).to(data.dtype)
    return found / (sizes if initial is None else sizes.clamp_min(1))
