"""``torch.accelerator``: the device beside the CPU, if tensors can be put on one.

What asks tells what there is; what needs a device raises LazytError where there is none.
"""

from __future__ import annotations

from typing import Any, NoReturn

from lazyt.device import check_device, device
from lazyt.errors import DeviceError, LazytError

__all__ = [
    "current_accelerator", "current_device_idx", "current_device_index", "device_count",
    "empty_cache", "is_available", "memory_allocated", "memory_reserved", "set_device_index",
    "synchronize",
]  # fmt: skip


def device_count() -> int:
    """Number of devices besides the CPU that tensors can be put on."""
    try:
        check_device("cuda")
    except DeviceError:
        return 0
    return 1


def is_available() -> bool:
    """Whether there is one."""
    return device_count() > 0


def current_accelerator(check_available: bool = False) -> device | None:
    """The kind of device that there is, or None."""
    return device("cuda") if is_available() else None


def _required(name: str) -> Any:
    def function(*args: Any, **kwargs: Any) -> NoReturn:
        raise LazytError("Cannot access accelerator device when none is available.")

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"``cuda.{name}``; raises LazytError: there is no device besides the CPU."
    return function


synchronize = _required("synchronize")
current_device_index = _required("current_device_index")
current_device_idx = _required("current_device_idx")
set_device_index = _required("set_device_index")
empty_cache = _required("empty_cache")
memory_allocated = _required("memory_allocated")
memory_reserved = _required("memory_reserved")
