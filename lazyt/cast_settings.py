"""Autocast by functions instead of blocks, by PyTorch's names; ``autocast`` itself is simpler."""

from __future__ import annotations

from typing import Any

from lazyt.cast_mode import get_autocast_dtype, is_autocast_enabled, mode, set_low_dtype
from lazyt.errors import LazytError
from lazyt.ir.dtypes import DType, bfloat16, float16

__all__ = [
    "autocast_decrement_nesting", "autocast_increment_nesting", "clear_autocast_cache",
    "get_autocast_cpu_dtype", "get_autocast_gpu_dtype", "is_autocast_cache_enabled",
    "is_autocast_cpu_enabled", "set_autocast_cache_enabled", "set_autocast_cpu_dtype",
    "set_autocast_cpu_enabled", "set_autocast_dtype", "set_autocast_enabled",
]  # fmt: skip


def set_autocast_enabled(*args: Any) -> None:
    """Turn autocast on or off: ``(device_type, enabled)``, or ``(enabled)`` for a GPU's."""
    device, enabled = args if len(args) == 2 else ("cuda", args[0])
    set_low_dtype(device, get_autocast_dtype(device) if enabled else None)


def set_autocast_dtype(device_type: str, dtype: DType) -> None:
    """Choose the low-precision dtype. Raises LazytError for another than bfloat16 and float16."""
    if dtype not in (bfloat16, float16):
        raise LazytError(f"Currently, AutocastCPU only support Bfloat16 or Half, but got {dtype}")
    if device_type == "cuda":
        mode.on_gpu = dtype
    else:
        mode.chosen = dtype
    if is_autocast_enabled(device_type):
        set_low_dtype(device_type, dtype)


def is_autocast_cpu_enabled() -> bool:
    """Whether this thread is inside of an enabled ``autocast`` for the CPU."""
    return is_autocast_enabled("cpu")


def get_autocast_cpu_dtype() -> DType:
    """The low-precision dtype for the CPU."""
    return get_autocast_dtype("cpu")


def get_autocast_gpu_dtype() -> DType:
    """The low-precision dtype for a GPU."""
    return get_autocast_dtype("cuda")


def set_autocast_cpu_enabled(enabled: bool) -> None:
    """``set_autocast_enabled`` for the CPU."""
    set_autocast_enabled("cpu", enabled)


def set_autocast_cpu_dtype(dtype: DType) -> None:
    """``set_autocast_dtype`` for the CPU."""
    set_autocast_dtype("cpu", dtype)


def is_autocast_cache_enabled() -> bool:
    """Whether converted weights are kept; they always are, since equal values are one node."""
    return mode.cached


def set_autocast_cache_enabled(enabled: bool) -> None:
    """Say whether converted weights are kept; noted, but without effect."""
    mode.cached = bool(enabled)


def clear_autocast_cache() -> None:
    """Forget converted weights; there are none beside the graph."""


def autocast_increment_nesting() -> int:
    """Count a block more around; returns how many there are."""
    mode.nesting += 1
    return mode.nesting


def autocast_decrement_nesting() -> int:
    """Count a block less around; returns how many there are."""
    mode.nesting -= 1
    return mode.nesting
