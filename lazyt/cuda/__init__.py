"""``torch.cuda`` where tensors live on the CPU only: questions have answers, demands say no.

Everything that asks (``is_available``, ``memory_allocated`` ...) tells that there is nothing;
everything that needs a GPU raises DeviceError, a RuntimeError that says what is missing.
"""

from __future__ import annotations

from typing import Any, NoReturn

from lazyt.cuda import amp as amp
from lazyt.cuda import memory as memory
from lazyt.cuda.memory import (
    empty_cache,
    max_memory_allocated,
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_reserved,
    memory_stats,
    memory_summary,
    reset_max_memory_allocated,
    reset_peak_memory_stats,
)
from lazyt.cuda.streams import Event, Stream, StreamContext, current_stream, stream
from lazyt.device import check_device
from lazyt.errors import DeviceError

__all__ = [
    "Event", "Stream", "StreamContext", "amp", "current_device", "current_stream", "device",
    "device_count", "empty_cache", "get_device_capability", "get_device_name",
    "get_device_properties", "init", "is_available", "is_bf16_supported", "is_initialized",
    "manual_seed", "manual_seed_all", "max_memory_allocated", "max_memory_reserved",
    "mem_get_info", "memory", "memory_allocated", "memory_reserved", "memory_stats",
    "memory_summary", "reset_max_memory_allocated", "reset_peak_memory_stats", "seed", "seed_all",
    "set_device", "stream", "synchronize",
]  # fmt: skip


def is_available() -> bool:
    """Whether tensors can be put on a GPU."""
    return device_count() > 0


def device_count() -> int:
    """Number of GPUs that tensors can be put on."""
    try:
        check_device("cuda")
    except DeviceError:
        return 0
    return 1


def is_initialized() -> bool:
    """Whether a GPU is in use."""
    return False


def is_bf16_supported() -> bool:
    """Whether there is a GPU that calculates in bfloat16."""
    return is_available()


def _demand(place: Any = None) -> NoReturn:
    if isinstance(place, int) or place is None:
        place = "cuda" if place is None else f"cuda:{place}"
    check_device(place)
    raise DeviceError(f"this needs a CUDA device, not {place}")


def init() -> None:
    """Start using a GPU. Raises DeviceError."""
    _demand()


def synchronize(device: Any = None) -> None:
    """Wait for a GPU. Raises DeviceError."""
    _demand(device)


def current_device() -> int:
    """Number of the current GPU. Raises DeviceError."""
    _demand()


def set_device(device: Any) -> None:
    """Choose a GPU. Raises DeviceError."""
    _demand(device)


def get_device_name(device: Any = None) -> str:
    """What the GPU is called. Raises DeviceError."""
    _demand(device)


def get_device_capability(device: Any = None) -> tuple[int, int]:
    """What the GPU can do. Raises DeviceError."""
    _demand(device)


def get_device_properties(device: Any = None) -> Any:
    """Facts about the GPU. Raises DeviceError."""
    _demand(device)


def manual_seed(seed: int) -> None:
    """Start the GPU's random numbers from ``seed``: without one, nothing to do."""


def manual_seed_all(seed: int) -> None:
    """Start all GPUs' random numbers from ``seed``: without one, nothing to do."""


def seed() -> None:
    """Start the GPU's random numbers from any seed: without one, nothing to do."""


def seed_all() -> None:
    """Start all GPUs' random numbers from any seed: without one, nothing to do."""


class device:
    """Makes a GPU the current one inside of a ``with`` block; None and -1 change nothing.

    Raises DeviceError on entering.
    """

    def __init__(self, device: Any) -> None:
        self._device = device

    def __enter__(self) -> None:
        if self._device is not None and self._device != -1:
            _demand(self._device)

    def __exit__(self, *_: object) -> None:
        """Nothing was changed."""
