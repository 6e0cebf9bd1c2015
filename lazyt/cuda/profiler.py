"""``torch.cuda.profiler``: where NVIDIA's tools begin and end to collect."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from lazyt.handle.cuda_devices import devices_in_use

__all__ = ["profile", "start", "stop"]


def start() -> None:
    """Begin. Without a GPU in use, nothing."""
    for device in devices_in_use():
        device.call(device.driver.collect, True)


def stop() -> None:
    """End. Without a GPU in use, nothing."""
    for device in devices_in_use():
        device.call(device.driver.collect, False)


@contextmanager
def profile() -> Iterator[None]:
    """Collect in the block."""
    start()
    try:
        yield
    finally:
        stop()
