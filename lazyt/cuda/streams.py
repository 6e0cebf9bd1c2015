"""Streams and events. Without a GPU they cannot be made; ``stream(None)`` is no change."""

from __future__ import annotations

from typing import Any

from lazyt.device import check_device
from lazyt.errors import DeviceError


class Stream:
    """A queue of work for a GPU. Raises DeviceError."""

    def __init__(self, device: Any = None, priority: int = 0, **_: Any) -> None:
        check_device("cuda" if device is None else device)
        raise DeviceError("a CUDA stream needs a CUDA device")


class Event:
    """A mark in a stream. Raises DeviceError."""

    def __init__(self, enable_timing: bool = False, blocking: bool = False, **_: Any) -> None:
        check_device("cuda")
        raise DeviceError("a CUDA event needs a CUDA device")


class StreamContext:
    """Sends work to a stream inside of a ``with`` block; None changes nothing."""

    def __init__(self, stream: Stream | None) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        """There is no stream but None."""

    def __exit__(self, *_: object) -> None:
        """Nothing was changed."""


def stream(stream: Stream | None) -> StreamContext:
    """A context that sends work to ``stream``."""
    return StreamContext(stream)


def current_stream(device: Any = None) -> Stream:
    """The stream that work goes to. Raises DeviceError."""
    return Stream(device)
