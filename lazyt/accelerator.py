"""``torch.accelerator``: the device beside the CPU, if tensors can be put on one.

What asks tells what there is; what needs a device raises LazytError where there is none.
"""

from __future__ import annotations

from typing import Any

from lazyt.compat.absent import explain_absence as _explain_absence
from lazyt.errors import LazytError
from lazyt.handle import cuda_devices as devices
from lazyt.handle.cuda_devices import device_count
from lazyt.handle.device import device

__all__ = [
    "current_accelerator", "current_device_idx", "current_device_index", "device_count",
    "empty_cache", "is_available", "memory_allocated", "memory_reserved", "set_device_index",
    "synchronize",
]  # fmt: skip


def is_available() -> bool:
    """Whether there is one."""
    return device_count() > 0


def current_accelerator(check_available: bool = False) -> device | None:
    """The kind of device that there is, or None."""
    return device("cuda") if is_available() else None


def _wanted(which: Any = None) -> devices.CudaDevice:
    if not is_available():
        raise LazytError("Cannot access accelerator device when none is available.")
    return devices.wanted_device(which)


def synchronize(device: Any = None) -> None:
    """``cuda.synchronize``. Raises LazytError without a device besides the CPU."""
    found = _wanted(device)
    devices.launch_pending(found)
    found.synchronize()


def current_device_index() -> int:
    """``cuda.current_device``. Raises LazytError without a device besides the CPU."""
    return devices.number_of(_wanted())


current_device_idx = current_device_index


def set_device_index(device: Any) -> None:
    """``cuda.set_device``. Raises LazytError without a device besides the CPU."""
    devices.choose(devices.number_of(_wanted(device)))


def empty_cache() -> None:
    """``cuda.empty_cache``. Raises LazytError without a device besides the CPU."""
    _wanted().pool.trim()


def memory_allocated(device: Any = None) -> int:
    """``cuda.memory_allocated``. Raises LazytError without a device besides the CPU."""
    return _wanted(device).pool.allocated.now


def memory_reserved(device: Any = None) -> int:
    """``cuda.memory_reserved``. Raises LazytError without a device besides the CPU."""
    return _wanted(device).pool.reserved.now


_explain_absence(__name__)
