"""``torch.cuda.comm``: tensors on several GPUs of one machine, by copies from GPU to GPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lazyt.errors import ArgumentError, ShapeError
from lazyt.functional import namespace as lazyt
from lazyt.handle.cuda_devices import device_count

__all__ = [
    "broadcast", "broadcast_coalesced", "gather", "reduce_add", "reduce_add_coalesced", "scatter",
]  # fmt: skip


def broadcast(
    tensor: lazyt.Tensor, devices: Sequence[Any] | None = None, *, out: Any = None
) -> tuple[lazyt.Tensor, ...]:
    """A copy on each of the devices, or in each tensor of ``out``.

    Raises ArgumentError without just one of the two.
    """
    if (devices is None) == (out is None):
        raise ArgumentError("Exactly one of 'devices' and 'out' must be specified")
    if out is not None:
        for target in out:
            target.copy_(tensor)
        return tuple(out)
    return tuple(tensor.to(lazyt.device(place)) for place in devices or ())


def broadcast_coalesced(
    tensors: Sequence[lazyt.Tensor], devices: Sequence[Any], buffer_size: int = 0
) -> list[list[lazyt.Tensor]]:
    """Copies of all tensors on each of the devices."""
    return [[tensor.to(lazyt.device(place)) for tensor in tensors] for place in devices]


def reduce_add(inputs: Sequence[lazyt.Tensor], destination: int | None = None) -> lazyt.Tensor:
    """The sum of tensors of one shape, on a GPU, the current one by default.

    Raises ArgumentError without tensors, and ShapeError for several shapes.
    """
    if not inputs:
        raise ArgumentError("reduce_add expects at least one tensor")
    for tensor in inputs[1:]:
        if tensor.shape != inputs[0].shape:
            shapes = f"{tuple(inputs[0].shape)} and {tuple(tensor.shape)}"
            raise ShapeError(f"reduce_add expects tensors of one shape, not {shapes}")
    place = "cuda" if destination is None else destination
    total, *rest = (tensor.cuda(place) for tensor in inputs)
    for tensor in rest:
        total = total + tensor
    return total


def reduce_add_coalesced(
    inputs: Sequence[Sequence[lazyt.Tensor]], destination: int | None = None, buffer_size: int = 0
) -> tuple[lazyt.Tensor, ...]:
    """``reduce_add`` of the first tensors of all lists, of the second ones, and so on."""
    return tuple(reduce_add(column, destination) for column in zip(*inputs, strict=True))


def scatter(
    tensor: lazyt.Tensor,
    devices: Sequence[Any] | None = None,
    chunk_sizes: Sequence[int] | None = None,
    dim: int = 0,
    streams: Any = None,
    *,
    out: Any = None,
) -> tuple[lazyt.Tensor, ...]:
    """Parts of a tensor, one on each of the devices, or in each tensor of ``out``.

    Raises ArgumentError where ``chunk_sizes`` are not one for each device.
    """
    if out is not None:
        for target, part in zip(out, tensor.split([t.shape[dim] for t in out], dim), strict=True):
            target.copy_(part)
        return tuple(out)
    places: Sequence[Any] = range(device_count()) if devices is None else devices
    if chunk_sizes is None:
        parts = tensor.chunk(len(places), dim)
    else:
        if len(chunk_sizes) != len(places):
            count = f"{len(chunk_sizes)} chunk sizes for {len(places)} devices"
            raise ArgumentError(f"scatter expects one chunk size for each device, not {count}")
        parts = tensor.split(list(chunk_sizes), dim)
    # A tensor shorter than there are devices has parts for the first ones only.
    return tuple(part.to(lazyt.device(place)) for part, place in zip(parts, places))


def gather(
    tensors: Sequence[lazyt.Tensor], dim: int = 0, destination: Any = None, *, out: Any = None
) -> lazyt.Tensor:
    """Tensors one behind the other, on a device: the current GPU by default, -1 for the CPU."""
    if out is not None:
        out.copy_(gather(tensors, dim, out.device))
        result: lazyt.Tensor = out
        return result
    place = {None: "cuda", -1: "cpu"}.get(destination, destination)
    return lazyt.cat([tensor.to(place) for tensor in tensors], dim)
