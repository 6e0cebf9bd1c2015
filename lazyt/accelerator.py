"""``torch.accelerator``: the device beside the CPU, if tensors can be put on one.

What asks tells what there is; what needs a device raises LazytError where there is none.
"""

from __future__ import annotations

from typing import Any

import lazyt
from lazyt.device import device
from lazyt.errors import LazytError

__all__ = [
    "current_accelerator", "current_device_idx", "current_device_index", "device_count",
    "empty_cache", "is_available", "memory_allocated", "memory_reserved", "set_device_index",
    "synchronize",
]  # fmt: skip


def device_count() -> int:
    """Number of devices besides the CPU that tensors can be put on."""
    return int(lazyt.cuda.device_count())


def is_available() -> bool:
    """Whether there is one."""
    return device_count() > 0


def current_accelerator(check_available: bool = False) -> device | None:
    """The kind of device that there is, or None."""
    return device("cuda") if is_available() else None


def _required(name: str, called: str) -> Any:
    def function(*args: Any, **kwargs: Any) -> Any:
        if not is_available():
            raise LazytError("Cannot access accelerator device when none is available.")
        return getattr(lazyt.cuda, called)(*args, **kwargs)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"``cuda.{called}``; raises LazytError without a device besides the CPU."
    return function


synchronize = _required("synchronize", "synchronize")
current_device_index = _required("current_device_index", "current_device")
current_device_idx = _required("current_device_idx", "current_device")
set_device_index = _required("set_device_index", "set_device")
empty_cache = _required("empty_cache", "empty_cache")
memory_allocated = _required("memory_allocated", "memory_allocated")
memory_reserved = _required("memory_reserved", "memory_reserved")
