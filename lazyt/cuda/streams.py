"""Streams and events. Without a GPU they cannot be made; ``stream(None)`` is no change.

Work that one stream did is waited for by any other that uses its results: that needs no event.
"""

from __future__ import annotations

import contextlib
import itertools
from typing import Any

from lazyt.errors import DeviceError
from lazyt.handle.cuda_devices import (
    EMULATED,
    CudaDevice,
    CudaError,
    choose,
    current,
    launch_pending,
    number_of,
    wanted_device,
)
from lazyt.handle.device import device as device_type
from lazyt.handle.device import device_of

#: Streams of a device; more share them, as in PyTorch.
_MOST = 32
_made: dict[tuple[str, int], list[Any]] = {}
_turns = itertools.count()


class Stream:
    """A queue of work for a GPU, beside other queues. Raises DeviceError where there is none.

    Args:
        device: the GPU, the current one by default.
        priority: lower numbers go first.
    """

    def __init__(self, device: Any = None, priority: int = 0) -> None:
        self._device = wanted_device(device)
        self.priority = priority
        # Memory that is kept for a stream outlives its user, so streams are used again, not ended.
        known = _made.setdefault((self._device.place, priority), [])
        if len(known) < _MOST:
            known.append(self._device.driver.new_stream(priority))
            self._queue = known[-1]
        else:
            self._queue = known[next(_turns) % _MOST]

    @classmethod
    def _of(cls, device: CudaDevice, queue: Any) -> Stream:
        made = cls.__new__(cls)
        made._device, made._queue, made.priority = device, queue, 0
        return made

    @property
    def device(self) -> device_type:
        """Where it is."""
        return device_of(self._device.place)

    @property
    def cuda_stream(self) -> int:
        """The number by which other libraries know it: the driver's."""
        return self._device.driver.stream_number(self._queue)

    stream_id = cuda_stream

    def _uses(self, buffer: Any) -> None:
        """Work here uses memory that lazyt does not know this of."""
        self._device.use_in(buffer, self._queue)

    def _begin(self) -> None:
        if self._device.stream is self._queue:
            launch_pending(self._device)

    def synchronize(self) -> None:
        """Wait until all its work is done."""
        self._begin()
        self._device.call(self._device.driver.wait_stream, self._queue)

    def query(self) -> bool:
        """Whether all its work is done."""
        self._begin()
        return bool(self._device.call(self._device.driver.stream_done, self._queue))

    def wait_stream(self, stream: Stream) -> None:
        """What follows here waits for what is in ``stream`` now."""
        stream._begin()
        self._device.order(stream._queue, self._queue)

    def wait_event(self, event: Event) -> None:
        """What follows here waits for ``event``."""
        event.wait(self)

    def record_event(self, event: Event | None = None) -> Event:
        """A mark behind what is in it now."""
        event = Event() if event is None else event
        event.record(self)
        return event

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Stream)
            and self._device is other._device
            and self.cuda_stream == other.cuda_stream
        )

    def __hash__(self) -> int:
        return hash((self._device.place, self.cuda_stream))

    def __repr__(self) -> str:
        return f"<lazyt.cuda.Stream device={self.device} cuda_stream={self.cuda_stream:#x}>"


class ExternalStream(Stream):
    """A stream that another library made, by its number there; who made it ends it.

    That may be once no thread sends work there any more (``stream``, ``set_stream``): the default
    stream waits then for what is in it. A tensor that is recorded for it needs it for good.

    Args:
        stream_ptr: the driver's number of the stream.
        device: the GPU that it is of, the current one by default.
    """

    def __init__(self, stream_ptr: int, device: Any = None) -> None:
        self._device = wanted_device(device)
        self.priority = 0
        self._queue = self._device.driver.foreign_stream(stream_ptr)


def get_stream_from_external(data_ptr: int, device: Any = None) -> Stream:
    """``ExternalStream``. Raises DeviceError where there is no GPU."""
    return ExternalStream(data_ptr, device)


class Event:
    """A mark in a stream. Raises DeviceError when it is used where there is no GPU.

    Args:
        enable_timing: whether ``elapsed_time`` is to be asked.
    """

    def __init__(
        self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False
    ) -> None:
        wanted_device()
        self._timing = enable_timing
        self._device: CudaDevice | None = None
        self._mark: Any = None

    def record(self, stream: Stream | None = None) -> None:
        """Put the mark behind what is in the stream now, the current one by default."""
        stream = current_stream() if stream is None else stream
        stream._begin()
        driver = stream._device.driver
        if self._device is not stream._device:
            self._end()
            self._device = stream._device
            self._mark = driver.new_event(self._timing)
        stream._device.call(driver.record_event, self._mark, stream._queue)

    def wait(self, stream: Stream | None = None) -> None:
        """What follows in the stream waits for the mark."""
        stream = current_stream() if stream is None else stream
        stream._begin()
        if self._device is not None:
            stream._device.call(stream._device.driver.stream_waits, stream._queue, self._mark)

    def query(self) -> bool:
        """Whether the mark is passed; one that was not put anywhere counts as passed."""
        if self._device is None:
            return True
        return bool(self._device.call(self._device.driver.event_done, self._mark))

    def synchronize(self) -> None:
        """Wait until the mark is passed."""
        if self._device is not None:
            self._device.call(self._device.driver.wait_event, self._mark)

    def elapsed_time(self, end_event: Event) -> float:
        """Milliseconds from here to ``end_event``. Raises DeviceError without both marks."""
        if self._device is None or end_event._device is None:
            raise DeviceError("Both events must be recorded before calculating elapsed time.")
        if not (self._timing and end_event._timing):
            raise DeviceError("Both events must be created with argument 'enable_timing=True'.")
        found = self._device.call(self._device.driver.milliseconds, self._mark, end_event._mark)
        return float(found)

    def _end(self) -> None:
        if self._device is not None:
            self._device.driver.end_event(self._mark)

    def __del__(self) -> None:
        device = getattr(self, "_device", None)
        if device is not None and not device.lost:
            with contextlib.suppress(CudaError):  # the driver may have ended before Python
                self._end()


class StreamContext:
    """Sends work to a stream inside of a ``with`` block, where its GPU is the current one; None
    changes nothing."""

    def __init__(self, stream: Stream | None) -> None:
        self.stream = stream
        self._before: list[tuple[Stream, int]] = []

    def __enter__(self) -> None:
        if self.stream is not None:
            self._before.append((current_stream(self.stream.device), current()))
            set_stream(self.stream)

    def __exit__(self, *_: object) -> None:
        if self.stream is not None:
            before, number = self._before.pop()
            set_stream(before)
            choose(number)


def stream(stream: Stream | None) -> StreamContext:
    """A context that sends work to ``stream``."""
    return StreamContext(stream)


def set_stream(stream: Stream | None) -> None:
    """Send this thread's work to ``stream`` from now on; what is pending goes where it went.

    The stream's GPU becomes the current one, as in PyTorch.
    """
    if stream is not None:
        launch_pending(stream._device)
        stream._device.stream = stream._queue
        if stream._device.place != EMULATED:
            choose(number_of(stream._device))


def current_stream(device: Any = None) -> Stream:
    """The stream that work goes to. Raises DeviceError where there is no GPU."""
    found = wanted_device(device)
    return Stream._of(found, found.stream)


def default_stream(device: Any = None) -> Stream:
    """The stream that work goes to at first. Raises DeviceError where there is no GPU."""
    return Stream._of(wanted_device(device), None)
