"""CUDA devices of this process: which there are, what is missing where there are none, and what
can be done with one.

A device is made when it is first used. ``cuda:emu`` is the emulator; ``LAZYT_EMULATE_CUDA=1``
makes it stand for ``cuda:0`` too, so that programs written for a GPU run unchanged.
"""

from __future__ import annotations

import ctypes
import itertools
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from lazyt.config import config
from lazyt.errors import DeviceError, NoCompilerError, NoValuesError, OutOfMemoryError
from lazyt.runtime.cpython import forks
from lazyt.runtime.cuda.driver import (
    CudaError,
    DeviceLostError,
    Driver,
    ForeignStream,
    standing_for,
)
from lazyt.runtime.cuda.memory import DeviceBuffer, DevicePool, PartBuffer, PinnedBuffer
from lazyt.runtime.memory import Buffer

# Copies between a device and the host's pageable memory, by way of pinned memory.
#
# A driver may still be reading pageable memory when an asynchronous copy returns, and it may wait
# for the whole stream first. So bytes are copied into pinned memory here, from which the device
# takes them by itself, and the caller's memory is free at once. Large copies go in chunks: while
# the device works on one, the host copies another.


#: Bytes of a chunk, and how many there are in each direction.
CHUNK, CHUNKS = 4 << 20, 3
#: Reads of fewer bytes go straight to their place: they are waited for at once.
_SMALL = 64 << 10
#: Where pieces of a chunk begin.
_ALIGNMENT = 64


class _Chunk:
    """Pinned memory, and marks behind the copies that use it."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self.address = driver.pin(CHUNK)
        self.streams: set[Any] = set()
        self._marks: list[Any] = []

    def mark(self) -> None:
        """Put marks behind the copies that were begun."""
        for stream in self.streams:
            mark = self._driver.new_event(False)
            self._driver.record_event(mark, stream)
            self._marks.append(mark)
        self.streams.clear()

    def wait(self) -> None:
        """Until the marks are passed."""
        while self._marks:
            mark = self._marks.pop()
            self._driver.wait_event(mark)
            self._driver.end_event(mark)


class Staging:
    """The pinned memory of a device; made when it is first needed.

    Args:
        driver: the device's.
    """

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._lock = threading.Lock()
        self._in: list[_Chunk] = []
        self._out: list[_Chunk] = []
        self._now = self._used = 0  # the chunk that is being filled, and how far it is

    def write(self, target: int, source: int, nbytes: int, stream: Any) -> None:
        """Copy from the host; its memory may be changed when this returns."""
        with self._lock:
            chunks = self._pinned(self._in)
            if not chunks:
                self._driver.copy_in(target, source, nbytes, stream)
                self._driver.wait_stream(stream)
                return
            done = 0
            while done < nbytes:
                # An interrupt may come between any two lines: no line may leave a place that the
                # device still reads as one that can be written.
                if CHUNK - self._used < min(nbytes - done, _SMALL):
                    chunks[self._now].mark()
                    following = (self._now + 1) % len(chunks)
                    chunks[following].wait()
                    self._now = following
                    self._used = 0
                chunk = chunks[self._now]
                count = min(nbytes - done, CHUNK - self._used)
                place = chunk.address + self._used
                ctypes.memmove(place, source + done, count)
                chunk.streams.add(stream)
                self._used = -(-(self._used + count) // _ALIGNMENT) * _ALIGNMENT
                self._driver.copy_in(target + done, place, count, stream)
                done += count

    def read(self, target: int, source: int, nbytes: int, stream: Any) -> None:
        """Copy to the host; the bytes are there when this returns."""
        with self._lock:
            chunks = self._pinned(self._out) if nbytes > _SMALL else []
            if not chunks:
                self._driver.copy_out(target, source, nbytes, stream)
                self._driver.wait_stream(stream)
                return
            pieces = [(start, min(CHUNK, nbytes - start)) for start in range(0, nbytes, CHUNK)]
            for number in range(len(pieces) + len(chunks) - 1):
                if number < len(pieces):
                    start, count = pieces[number]
                    chunk = chunks[number % len(chunks)]
                    chunk.wait()  # for a read that an interrupt ended
                    chunk.streams.add(stream)
                    self._driver.copy_out(chunk.address, source + start, count, stream)
                    chunk.mark()
                late = number - len(chunks) + 1
                if late >= 0:
                    start, count = pieces[late]
                    chunk = chunks[late % len(chunks)]
                    chunk.wait()
                    ctypes.memmove(target + start, chunk.address, count)

    def _pinned(self, chunks: list[_Chunk]) -> list[_Chunk]:
        """The chunks of one direction; none where there is no memory that can be pinned."""
        try:
            while len(chunks) < CHUNKS:
                chunks.append(_Chunk(self._driver))
        except (CudaError, OutOfMemoryError) as error:
            if getattr(error, "code", "") != "CUDA_ERROR_OUT_OF_MEMORY":
                raise
        return chunks


#: Where the parts of a block that is uploaded begin.
_PART = 64
EMULATED = "cuda:emu"
#: Plans that an error may come from, at most, when nobody waited since they began.
_RECENT = 8


class CudaDevice:
    """One device in use.

    Attributes:
        place: its name.
        driver: what does the work.
        pool: its memory.
        lost: the error after which it cannot be used; empty while all is well.
        recent: titles of what was launched since the device was last waited for.
        branched: whether there was ever work in another stream than the first.
        traffic: what moves values between it and other ranks; None before the first.
    """

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self.place = driver.place
        self.pool = DevicePool(self)
        self.lost = ""
        self._local = threading.local()
        self.branched = False
        self.traffic: Any = None
        self._failure: Exception | None = None
        self.recent: deque[Callable[[], str]] = deque(maxlen=_RECENT)
        self._held: deque[tuple[Any, PinnedBuffer]] = deque()
        self._held_lock = forks.renewed(threading.RLock())
        self._staging = Staging(driver) if driver.stages else None

    @property
    def stream(self) -> Any:
        """The stream that this thread's work goes to; None for the first one."""
        return getattr(self._local, "stream", None)

    @stream.setter
    def stream(self, stream: Any) -> None:
        before = self.stream
        if before is stream:
            return
        if isinstance(stream, ForeignStream):
            stream.users += 1
        self.branched = self.branched or stream is not None
        self._local.stream = stream
        if isinstance(before, ForeignStream):
            self.order(before, None)
            self.pool.hand_over(before)
            before.users -= 1

    def check(self) -> None:
        """Raises DeviceLostError for a device that was lost, and what ``fail`` was given."""
        if self.lost:
            if self._failure is not None:
                raise self._failure
            raise DeviceLostError(
                f"{self.place} cannot be used any more in this process: {self.lost}. Tensors on "
                "the CPU and on other devices are not affected.",
            )

    def fail(self, error: Exception) -> None:
        """Values that come from elsewhere will not come: nothing can be computed any more, and
        nothing that is there can be trusted."""
        if not self.lost:
            self.lost, self._failure = str(error), error

    def guard(self, error: Exception) -> None:
        """Note an error that ends all work."""
        if isinstance(error, DeviceLostError) and not self.lost:
            self.lost = str(error)

    # ------------------------------------------------------------------ memory

    def allocate(self, nbytes: int) -> DeviceBuffer:
        """New memory. Raises OutOfMemoryError."""
        self.check()
        return DeviceBuffer(nbytes, self, self.stream)

    def upload(self, source: Buffer) -> DeviceBuffer:
        """A copy of a buffer of the host or of another device."""
        if isinstance(source, DeviceBuffer):
            copy = self._copied(source)
            if copy is not None:
                return copy
            source = source.to_host()
        made = self.allocate(source.nbytes)
        if isinstance(source, PinnedBuffer) and source.nbytes:
            self._upload_pinned(made, source)
        else:
            self.copy_in(made, source.ptr, source.nbytes)
        return made

    def upload_all(self, sources: Sequence[Buffer]) -> list[DeviceBuffer]:
        """Copies of small buffers of the host, in one block and by one copy."""
        return Tray(self, [source.nbytes for source in sources]).fill(sources)

    def _copied(self, source: DeviceBuffer) -> DeviceBuffer | None:
        """A copy that the host has no part in; None where there is no such way."""
        made, other = self.allocate(source.nbytes), source.device
        if not source.nbytes:
            return made
        if other is self:
            self.use(source)
            self.call(self.driver.copy_within, made.ptr, source.ptr, source.nbytes, self.stream)
            return made
        other.check()
        theirs = standing_for(source.stream)
        wait_for(other, theirs, self, self.stream)
        across = self.driver.copy_across
        if not self.call(across, made.ptr, source.ptr, source.nbytes, other.driver, self.stream):
            return None
        # What follows on the other device may write over the source.
        wait_for(self, self.stream, other, theirs)
        return made

    def pinned(self, source: Buffer) -> PinnedBuffer:
        """A copy of a buffer of the host in memory that the device reads by itself."""
        made = PinnedBuffer(source.nbytes, self)
        made.copy_from(source.ptr, source.nbytes)
        return made

    def _upload_pinned(self, target: DeviceBuffer, source: PinnedBuffer) -> None:
        """Begin a copy; its source lives until the copy is done."""
        call, driver = self.call, self.driver
        with self._held_lock:
            while self._held and call(driver.event_done, self._held[0][0]):
                call(driver.end_event, self._held.popleft()[0])
            event = call(driver.new_event, False)
            try:
                call(driver.copy_in, target.ptr, source.ptr, source.nbytes, self.stream)
                call(driver.record_event, event, self.stream)
            except BaseException:  # an interrupt: the copy may be under way, without its mark
                call(driver.wait_stream, self.stream)
                raise
            self._held.append((event, source))

    def copy_in(self, target: DeviceBuffer, address: int, nbytes: int) -> None:
        """Copy from host memory, which may be changed when this returns."""
        if nbytes:
            self.use(target)
            write = self.driver.copy_in if self._staging is None else self._staging.write
            self.call(write, target.ptr, address, nbytes, self.stream)

    def copy_out(self, address: int, source: DeviceBuffer, nbytes: int) -> None:
        """Copy to host memory; it is there when this returns."""
        self.use(source)
        read = self.driver.copy_out if self._staging is None else self._staging.read
        self.call(read, address, source.ptr, nbytes, self.stream)
        self.check()  # what was waited for may have been given up

    def use(self, buffer: DeviceBuffer) -> None:
        """The current stream is about to use a buffer: behind what another did with it."""
        stream = self.stream
        if buffer.stream is not stream:
            self.order(standing_for(buffer.stream), stream)
            buffer.stream = stream

    def use_in(self, buffer: DeviceBuffer, stream: Any) -> None:
        """Others use a buffer in a stream, without telling: it is ordered by that one from now on,
        which has to be there as long."""
        if buffer.stream is not stream:
            if isinstance(stream, ForeignStream):
                stream.users += 1
            self.order(standing_for(buffer.stream), stream)
            buffer.stream = stream

    def order(self, first: Any, then: Any) -> None:
        """What follows in one stream waits for what is in another now."""
        if first is not then:
            wait_for(self, first, self, then)

    def synchronize(self) -> None:
        """Wait until all work is done. Raises the errors of work that failed."""
        self.call(self.driver.synchronize)
        self.check()
        self.recent.clear()

    def call(self, function: Any, *arguments: Any) -> Any:
        """What a function of the driver gives. Errors that end all work are noted."""
        self.check()
        try:
            return function(*arguments)
        except DeviceLostError as error:
            raise self.blame(error) from None

    def blame(self, error: DeviceLostError, during: str = "") -> DeviceLostError:
        """The error with all that may have caused it, which is noted as the one that ended all
        work: a GPU reports what went wrong in a kernel at any later call."""
        titles = "; ".join(dict.fromkeys(title() for title in list(self.recent)))
        text = f"{error} ({during})" if during else str(error)
        if titles:
            text += f". It happened in one of: {titles}"
        better = DeviceLostError(text, error.code)
        self.guard(better)
        return better


class Tray:
    """Memory of a device for small buffers of the host, which go there together by one copy.

    Args:
        sizes: bytes of the buffers.

    Attributes:
        parts: the memory of each.
    """

    def __init__(self, device: CudaDevice, sizes: Sequence[int]) -> None:
        *starts, self._size = itertools.accumulate(
            (-(-size // _PART) * _PART for size in sizes), initial=0
        )
        self._device = device
        self._block = ctypes.create_string_buffer(self._size)
        begin = ctypes.addressof(self._block)
        self._targets = [(begin + start, size) for start, size in zip(starts, sizes)]
        self._whole = device.allocate(self._size)
        self.parts: list[DeviceBuffer] = [
            PartBuffer(self._whole, start, size) for start, size in zip(starts, sizes)
        ]

    def fill(self, sources: Sequence[Buffer]) -> list[DeviceBuffer]:
        """The parts, with these values behind what is in the stream."""
        for source, (target, size) in zip(sources, self._targets):
            ctypes.memmove(target, source.ptr, size)
        self._device.copy_in(self._whole, ctypes.addressof(self._block), self._size)
        return self.parts


def wait_for(device: CudaDevice, stream: Any, other: CudaDevice, then: Any) -> None:
    """What follows in a stream of ``other`` waits for what is in a stream of ``device`` now."""
    event = device.call(device.driver.new_event, False)
    device.call(device.driver.record_event, event, stream)
    other.call(other.driver.stream_waits, then, event)
    device.call(device.driver.end_event, event)


_devices: dict[str, CudaDevice] = {}
_lock = forks.guarded(threading.RLock())


def device_at(place: str) -> CudaDevice:
    """The device of a name such as ``cuda:0``. Raises DeviceError, saying what is missing, and
    NoValuesError for ``meta``, where nothing can be computed."""
    found = _devices.get(place)
    if found is None:
        if place == "meta":
            raise NoValuesError("Cannot copy out of meta tensor; no data!")
        with _lock:
            found = _devices.get(place)
            if found is None:
                found = _devices[place] = CudaDevice(_new_driver(place))
    return found


_chosen = threading.local()


def current() -> int:
    """The number of the device that ``cuda`` means in this thread."""
    return getattr(_chosen, "number", 0)


def choose(number: int) -> None:
    """``cuda`` is to mean this device in this thread."""
    _chosen.number = number


def in_use() -> list[CudaDevice]:
    """The devices that were used so far."""
    return list(_devices.values())


def forget() -> None:
    """Devices are to be looked for again."""
    _devices.clear()


def device_count() -> int:
    """GPUs that can be used; the emulator counts where it stands for some."""
    if config.emulate_cuda:
        return config.emulate_cuda
    from lazyt.runtime.cuda import bound

    try:
        return bound.device_count()
    except DeviceError:
        return 0


def _new_driver(place: str) -> Driver:
    if place == EMULATED or config.emulate_cuda:
        from lazyt.runtime.cuda import emulated
        from lazyt.runtime.cuda.emulated import EmulatedDriver

        try:
            emulated.find_compiler()
        except NoCompilerError as error:
            raise DeviceError(str(error)) from error
        count = config.emulate_cuda
        if place != EMULATED and int(place.partition(":")[2] or 0) >= count:
            stands = "a GPU, cuda:0" if count == 1 else f"{count} GPUs, cuda:0 to cuda:{count - 1}"
            raise DeviceError(
                f"the emulator stands for {stands}, not for {place}: see LAZYT_EMULATE_CUDA"
            )
        return EmulatedDriver(place)
    from lazyt.runtime.cuda import bound

    return bound.driver_of(int(place.partition(":")[2] or 0))
