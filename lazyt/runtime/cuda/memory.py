"""Memory of CUDA devices: buffers, the blocks that are kept for reuse, and the numbers about both.

A freed block is kept for the stream that used it last: whatever that stream does next comes after
the work that still needs the block, so nothing has to be waited for. A buffer that another stream
used makes that stream's mark be waited for first.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from lazyt.errors import OutOfMemoryError
from lazyt.ir.dtypes import DType
from lazyt.runtime.cpython import forks
from lazyt.runtime.cuda.driver import CudaError, standing_for
from lazyt.runtime.memory import Buffer, block_size

if TYPE_CHECKING:
    import numpy as np

    from lazyt.runtime.cuda.device import CudaDevice

#: Blocks are multiples of it, as PyTorch's are.
_SMALLEST = 512


class Counts:
    """What is counted about memory, each as (now, peak, all that came, all that went)."""

    __slots__ = ("freed", "made", "now", "peak")

    def __init__(self) -> None:
        self.now = self.peak = self.made = self.freed = 0

    def add(self, amount: int) -> None:
        """Something came."""
        self.now += amount
        self.made += amount
        self.peak = max(self.peak, self.now)

    def remove(self, amount: int) -> None:
        """Something went."""
        self.now -= amount
        self.freed += amount

    def as_dict(self, name: str) -> dict[str, int]:
        """By PyTorch's names."""
        return {
            f"{name}.all.current": self.now,
            f"{name}.all.peak": self.peak,
            f"{name}.all.allocated": self.made,
            f"{name}.all.freed": self.freed,
        }


class DevicePool:
    """The blocks of one device.

    Attributes:
        allocated: bytes in live buffers.
        reserved: bytes taken from the driver.
        blocks: live buffers, and ``segments`` blocks taken from the driver.
        pinned: bytes of the host's memory that are pinned for tensors.
        retries: how often the pool was emptied because there was no memory.
        failures: how often that did not help.
        history: what was allocated and freed, while it is recorded; else None.
        live: size and asked size of live blocks, by address.
    """

    def __init__(self, device: CudaDevice) -> None:
        self.device = device
        self.lock = forks.renewed(threading.RLock())
        self.allocated, self.reserved = Counts(), Counts()
        self.blocks, self.segments = Counts(), Counts()
        self.pinned = Counts()
        self.retries = self.failures = 0
        self.history: list[dict[str, Any]] | None = None
        self.live: dict[int, tuple[int, int]] = {}
        self.free: dict[tuple[Any, int], list[int]] = {}
        #: Most bytes that may be reserved; 0 for all there is.
        self.limit = 0

    @property
    def counts(self) -> dict[str, Counts]:
        """All counts by PyTorch's names."""
        return {
            "active": self.blocks,
            "active_bytes": self.allocated,
            "allocated_bytes": self.allocated,
            "allocation": self.blocks,
            "reserved_bytes": self.reserved,
            "segment": self.segments,
        }

    def listed(self) -> list[tuple[int, int, int | None, int]]:
        """Every block: address, size, the requested size (None: it is free), and its stream."""
        with self.lock:
            found: list[tuple[int, int, int | None, int]] = [
                (pointer, size, asked, 0) for pointer, (size, asked) in self.live.items()
            ]
            for (stream, size), pointers in self.free.items():
                found += [(p, size, None, 0 if stream is None else id(stream)) for p in pointers]
        return sorted(found)

    def take(self, nbytes: int, stream: Any) -> int:
        """A block's address. Raises OutOfMemoryError."""
        size = max(_SMALLEST, block_size(nbytes))
        with self.lock:
            waiting = self.free.get((stream, size))
            pointer = waiting.pop() if waiting else self._obtain(size, nbytes, stream)
            self.live[pointer] = size, nbytes
            self.allocated.add(size)
            self.blocks.add(1)
            self._note("alloc", pointer, size, stream)
        return pointer

    def give(self, pointer: int, stream: Any) -> None:
        """A block is not used any more, but by what is in the stream already."""
        stream = standing_for(stream)
        with self.lock:
            size, _ = self.live.pop(pointer)
            self.allocated.remove(size)
            self.blocks.remove(1)
            self._note("free_completed", pointer, size, stream)
            self.free.setdefault((stream, size), []).append(pointer)

    def hand_over(self, stream: Any) -> None:
        """The first stream gets the free blocks of another, for which it has waited."""
        with self.lock:
            for key in [key for key in self.free if key[0] is stream]:
                self.free.setdefault((None, key[1]), []).extend(self.free.pop(key))

    def trim(self) -> None:
        """Give all free blocks back to the driver, and the driver's to the system."""
        call, driver = self.device.call, self.device.driver
        with self.lock:
            # Buffers may end meanwhile, as garbage is collected at any line: their blocks go to a
            # dict of their own. A block leaves its list first, so nobody gets it again.
            released, self.free = self.free, {}
            try:
                for (stream, size), pointers in released.items():
                    while pointers:
                        pointer = pointers.pop()
                        call(driver.release, pointer, stream)
                        self.reserved.remove(size)
                        self.segments.remove(1)
                        self._note("segment_free", pointer, size, stream)
            finally:
                for key, pointers in released.items():
                    if pointers:
                        self.free.setdefault(key, []).extend(pointers)
            # What is given back is free when its stream has come that far.
            call(driver.synchronize)
            call(driver.trim)

    def _obtain(self, size: int, nbytes: int, stream: Any) -> int:
        """A block from the driver; once more with an emptied pool when the first try fails."""
        call, driver = self.device.call, self.device.driver
        for attempt in range(2):
            fits = not self.limit or self.reserved.now + size <= self.limit
            pointer = call(driver.allocate, size, stream) if fits else 0
            if pointer:
                self.reserved.add(size)
                self.segments.add(1)
                self._note("segment_alloc", pointer, size, stream)
                return pointer
            if attempt == 0:
                self.retries += 1
                self.trim()
        self.failures += 1
        free, total = call(driver.memory)
        raise OutOfMemoryError(
            f"CUDA out of memory. Tried to allocate {_readable(nbytes)}. {self.device.place} has a "
            f"total capacity of {_readable(total)} of which {_readable(free)} is free. Of the "
            f"allocated memory {_readable(self.allocated.now)} is held by tensors, and "
            f"{_readable(self.reserved.now - self.allocated.now)} is reserved but not used."
        )

    def _note(self, action: str, pointer: int, size: int, stream: Any) -> None:
        if self.history is not None:
            number = 0 if stream is None else id(stream)
            self.history.append(
                {"action": action, "addr": pointer, "size": size, "stream": number, "frames": []}
            )


def _readable(nbytes: int) -> str:
    """Bytes as PyTorch writes them."""
    for unit, shift in (("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if nbytes >= 1 << shift:
            return f"{nbytes / (1 << shift):.2f} {unit}"
    return f"{nbytes} bytes"


class DeviceBuffer(Buffer):
    """Memory of a device. Its contents are undefined at first.

    Attributes:
        device: where it is.
        stream: the stream that used it last.
        place: the device's name.

    Raises OutOfMemoryError.
    """

    __slots__ = ("device", "place", "stream")

    place: str

    def __init__(self, nbytes: int, device: CudaDevice, stream: Any) -> None:
        self._home = None
        self.nbytes = nbytes
        self.ptr = 0
        self.device = device
        self.place = device.place
        self.stream = stream
        if nbytes:
            self.ptr = device.pool.take(nbytes, stream)

    def __del__(self) -> None:
        if self.ptr and self.device is not None:
            self.device.pool.give(self.ptr, self.stream)

    @property
    def is_foreign(self) -> bool:
        """Never: what others own is not taken over."""
        return False

    def as_numpy(self, dtype: DType, shape: Sequence[int]) -> np.ndarray:
        """A copy of the values on the host, as soon as they are computed."""
        return self.to_host().as_numpy(dtype, shape)

    def to_host(self) -> Buffer:
        """A copy on the host, as soon as the values are computed."""
        host = Buffer(self.nbytes)
        if self.nbytes:
            self.device.copy_out(host.ptr, self, self.nbytes)
        return host

    def holds(self, other: Buffer) -> bool:
        """Whether both have the same bytes."""
        theirs = other.to_host() if isinstance(other, DeviceBuffer) else other
        return self.to_host().holds(theirs)

    def copy_from(self, source: int | bytes, nbytes: int | None = None) -> None:
        """Copy from host memory, see ``Buffer.copy_from``."""
        host = Buffer(self.nbytes if nbytes is None and isinstance(source, int) else 0)
        if isinstance(source, int):
            count = host.nbytes if nbytes is None else nbytes
            self.device.copy_in(self, source, count)
            return
        count = len(source) if nbytes is None else nbytes
        host = Buffer(count)
        host.copy_from(source, count)
        self.device.copy_in(self, host.ptr, count)

    def copy(self) -> DeviceBuffer:
        """Other memory of the device, of the same content once its stream has come this far."""
        return self.device.upload(self)

    def __repr__(self) -> str:
        return f"DeviceBuffer({self.nbytes} bytes on {self.place})"


class PartBuffer(DeviceBuffer):
    """A part of another buffer's memory, which it keeps alive.

    Attributes:
        whole: the other buffer.
    """

    __slots__ = ("whole",)

    def __init__(self, whole: DeviceBuffer, start: int, nbytes: int) -> None:
        self._home = None
        self.whole = whole
        self.nbytes, self.ptr = nbytes, whole.ptr + start
        self.device, self.place = whole.device, whole.place

    def __del__(self) -> None:
        """The memory is the other buffer's."""

    @property
    def stream(self) -> Any:
        """The stream that used any part last."""
        return self.whole.stream

    @stream.setter
    def stream(self, stream: Any) -> None:
        self.whole.stream = stream


class PinnedBuffer(Buffer):
    """Page-locked memory of the host, which a device reads without a copy in between.

    Attributes:
        device: whose driver it comes from.
    """

    __slots__ = ("device",)

    def __init__(self, nbytes: int, device: CudaDevice) -> None:
        self._home = None
        self.nbytes = nbytes
        self.device = device
        self.ptr = device.call(device.driver.pin, max(nbytes, 1))
        device.pool.pinned.add(nbytes)

    def __del__(self) -> None:
        if getattr(self, "ptr", 0) and not self.device.lost:
            self.device.pool.pinned.remove(self.nbytes)
            with contextlib.suppress(CudaError):  # the driver may have ended before Python
                self.device.driver.unpin(self.ptr)
