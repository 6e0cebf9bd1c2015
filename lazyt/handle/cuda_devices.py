"""CUDA devices as the user's API sees them: which one is meant, and pending work on it.

Tensors are lazy, so work on a device begins when somebody looks. Whoever waits for a device, marks
a stream or changes it means all work that the program has written down so far: it is begun then.
"""

from __future__ import annotations

from typing import Any

from lazyt.errors import ArgumentError, DeviceError, LazytError
from lazyt.handle import pending
from lazyt.handle.device import check_device, default_device, device, pending_storages
from lazyt.ir.forms import place_of
from lazyt.runtime.cuda import device as cuda_device
from lazyt.runtime.cuda.device import EMULATED, CudaDevice, choose, current, device_count
from lazyt.runtime.cuda.device import in_use as devices_in_use
from lazyt.runtime.cuda.driver import CudaError, Properties
from lazyt.runtime.cuda.memory import DevicePool

__all__ = [
    "EMULATED", "CudaDevice", "CudaError", "DevicePool", "Properties", "choose", "current",
    "device_count", "devices_in_use", "launch_pending", "number_of", "place_named", "used_device",
    "wanted_device",
]  # fmt: skip


def place_named(wanted: Any) -> str:
    """The name of the device that is meant: by a name, a number, or None for the current one,
    which is the emulator where new tensors are made there.

    Raises ArgumentError for a device that is not a CUDA device, as PyTorch does.
    """
    if wanted is None:
        chosen = default_device()
        return str(chosen) if str(chosen) == EMULATED else f"cuda:{current()}"
    place = device(wanted)
    if place.type != "cuda":
        raise ArgumentError(f"Expected a cuda device, but got: {place}")
    return str(place) if place.index is not None else f"cuda:{current()}"


def wanted_device(wanted: Any = None) -> CudaDevice:
    """The device that is meant. Raises DeviceError, saying what is missing."""
    place = place_named(wanted)
    check_device(place)
    return cuda_device.device_at(place)


def used_device(wanted: Any = None) -> CudaDevice | None:
    """The device that is meant, if it was used already: questions start nothing."""
    place = place_named(wanted)
    return next((d for d in cuda_device.in_use() if d.place == place), None)


def number_of(found: CudaDevice) -> int:
    """The number of a device; the emulator's is 0."""
    number = found.place.partition(":")[2]
    return int(number) if number.isdecimal() else 0


def launch_pending(found: CudaDevice) -> None:
    """Begin all work that the program has written down for a device."""
    nodes = []
    for storage in list(pending_storages):
        node = storage.node
        if place_of(node.form) == found.place:
            pending_storages.discard(storage)
            if node.data is None:
                nodes.append(storage.current())
    if nodes:
        try:
            pending.realize_nodes(nodes)
        except DeviceError:
            raise
        except LazytError as error:
            raise DeviceError(f"work that was pending on {found.place} failed: {error}") from error
