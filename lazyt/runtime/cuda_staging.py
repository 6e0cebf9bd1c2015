"""Copies between a device and the host's pageable memory, by way of pinned memory.

A driver may still be reading pageable memory when an asynchronous copy returns, and it may wait
for the whole stream first. So bytes are copied into pinned memory here, from which the device
takes them by itself, and the caller's memory is free at once. Large copies go in chunks: while the
device works on one, the host copies another.
"""

from __future__ import annotations

import ctypes
import threading
from typing import Any

from lazyt.errors import OutOfMemoryError
from lazyt.runtime.cuda_driver import CudaError, Driver

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
