"""``torch.xpu``: Intel's GPUs, which lazyt does not use. Programs may ask."""

from __future__ import annotations


def is_available() -> bool:
    """False."""
    return False


def device_count() -> int:
    """0."""
    return 0
