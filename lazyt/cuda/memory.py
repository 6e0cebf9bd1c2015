"""Questions about GPU memory: where there is no GPU, none is in use."""

from __future__ import annotations

from typing import Any

from lazyt.device import check_device
from lazyt.errors import DeviceError


def empty_cache() -> None:
    """Give cached memory back: there is none."""


def memory_allocated(device: Any = None) -> int:
    """Bytes that tensors hold."""
    return 0


def max_memory_allocated(device: Any = None) -> int:
    """The most bytes that tensors held."""
    return 0


def memory_reserved(device: Any = None) -> int:
    """Bytes taken from the GPU."""
    return 0


def max_memory_reserved(device: Any = None) -> int:
    """The most bytes taken from the GPU."""
    return 0


def reset_peak_memory_stats(device: Any = None) -> None:
    """Forget the highest numbers: they are zero."""


def reset_max_memory_allocated(device: Any = None) -> None:
    """Forget the highest numbers: they are zero."""


def memory_stats(device: Any = None) -> dict[str, int]:
    """All counters by name: none without a GPU."""
    return {}


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """Free and total bytes of the GPU. Raises DeviceError."""
    check_device("cuda" if device is None else device)
    raise DeviceError(f"this needs a CUDA device, not {device}")


def memory_summary(device: Any = None, abbreviated: bool = False) -> str:
    """The counters as a table."""
    rows = [("Allocated memory", memory_allocated()), ("Peak allocated", max_memory_allocated())]
    rows += [("Reserved memory", memory_reserved()), ("Peak reserved", max_memory_reserved())]
    line = "=" * 42
    body = [f"| {name:<20} | {number:>10} B   |" for name, number in rows]
    return "\n".join([line, "| no CUDA device is in use               |", line, *body, line])


def _record_memory_history(*_: Any, **__: Any) -> None:
    """Start recording allocations: there are none."""


def _snapshot(device: Any = None) -> dict[str, list[Any]]:
    """All allocations: none."""
    return {"segments": [], "device_traces": []}
