"""``torch.cpu``: what programs that are written for any device ask of the CPU."""

from __future__ import annotations

from typing import Any

from lazyt.compat.absent import explain_absence as _explain_absence
from lazyt.cpu import amp as amp

__all__ = [
    "current_device", "device_count", "is_available", "is_initialized", "set_device",
    "synchronize",
]  # fmt: skip


def is_available() -> bool:
    """True."""
    return True


def is_initialized() -> bool:
    """True."""
    return True


def device_count() -> int:
    """1."""
    return 1


def current_device() -> str:
    """``"cpu"``."""
    return "cpu"


def set_device(device: Any) -> None:
    """Nothing: there is one CPU."""


def synchronize(device: Any = None) -> None:
    """Nothing: a call that runs kernels on the CPU returns when they are done."""


_explain_absence(__name__)
