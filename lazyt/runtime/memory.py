"""Buffers and the pool they come from.

Fresh pages cost more than most arithmetic on them, so freed memory is kept, by size class, up to
a bound. There are four classes per power of two: rounding wastes at most a quarter, and tensors
of nearly the same size share memory. Blocks of 4 MiB and more are mapped on their own and ask
the system for huge pages; their unused tail is never touched and so costs no memory. Before
such a block is mapped, free ones of other sizes go: a plan that takes another's place brings its
own arena, and the old one's would lie idle for good. A size that is wanted again after that is
one that the program comes back to, and stays.
"""

from __future__ import annotations

import ctypes
import itertools
import math
import mmap
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lazyt.errors import OutOfMemoryError
from lazyt.ir.dtypes import DType
from lazyt.runtime import devices
from lazyt.runtime.cpython import forks

_ALIGNMENT = 64
_MAPPED = 4 << 20  # from here on blocks are mapped, not taken from the C heap
_HUGE_PAGE = 2 << 20
_KNOWN_SIZES = 1 << 14

_libc = ctypes.CDLL(None, use_errno=True)
_libc.posix_memalign.argtypes = (
    ctypes.POINTER(ctypes.c_void_p),
    ctypes.c_size_t,
    ctypes.c_size_t,
)
_libc.free.argtypes = (ctypes.c_void_p,)
_libc.memcmp.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
_libc.free.restype = None
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = (
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_long,
)
_libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
_libc.madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)


@dataclass(frozen=True)
class MemoryStats:
    """What the pool holds, in bytes.

    Attributes:
        in_use: in live buffers.
        pooled: kept for reuse.
        peak: the largest ``in_use`` since the start or the last ``reset_peak``.
        limit: what this process may allocate.
    """

    in_use: int
    pooled: int
    peak: int
    limit: int


class _SizeClass:
    """The free blocks of one size.

    Attributes:
        made_room: blocks were given back for another size.
        returns: and then more were wanted: the program goes back and forth between sizes.
    """

    __slots__ = ("free", "made_room", "returns", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self.free: list[int] = []
        self.made_room = self.returns = False


class Pool:
    """A thread-safe pool of memory blocks.

    Taking and giving back a kept block happens inside ``Buffer``, without a lock: popping and
    appending are atomic, and the counters are changed by single statements. Only asking the
    system for memory is locked. The lock is reentrant because buffers die at any time, also
    while this very thread holds it (the garbage collector runs where it likes).

    Attributes:
        known: size class of every requested size seen.
        in_use: bytes in live buffers.
        peak: largest ``in_use``.
        floor: when ``in_use`` falls below it, more is kept than should be.
    """

    __slots__ = ("_classes", "_obtained", "floor", "in_use", "known", "lock", "peak")

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.known: dict[int, _SizeClass] = {}
        self.in_use = 0
        self.peak = 0
        self.floor = 0
        self._classes: dict[int, _SizeClass] = {}
        self._obtained = 0

    def take(self, nbytes: int) -> tuple[int, _SizeClass]:
        """Address and class of a block of at least ``nbytes``, counted as in use.

        Raises:
            OutOfMemoryError: the block is larger than the memory that is left.
            ValueError: ``nbytes`` is negative.
        """
        home = self.known.get(nbytes) or self._find_class(nbytes)
        try:
            ptr = home.free.pop()
        except IndexError:
            ptr = self._obtain(home.size, nbytes)
        self.in_use += home.size
        self.peak = max(self.peak, self.in_use)
        return ptr, home

    def shrink(self) -> None:
        """Return blocks to the system, largest first, until half of what may be kept is left."""
        with self.lock:
            target = _most_pooled() // 2
            for home in sorted(self._classes.values(), key=lambda c: c.size, reverse=True):
                if self._obtained - self.in_use <= target:
                    break
                self._drop(home)

    def trim(self) -> None:
        """Return all kept blocks to the system."""
        with self.lock:
            for home in list(self._classes.values()):
                self._drop(home)

    def stats(self) -> MemoryStats:
        """What the pool holds now."""
        with self.lock:
            pooled = self._obtained - self.in_use
            return MemoryStats(self.in_use, pooled, self.peak, devices.memory_limit())

    def reset_peak(self) -> None:
        """Start measuring the peak anew."""
        self.peak = self.in_use

    def _find_class(self, nbytes: int) -> _SizeClass:
        if nbytes < 0:
            raise ValueError(f"a buffer cannot have {nbytes} bytes")
        size = block_size(nbytes)
        with self.lock:
            home = self._classes.get(size) or self._classes.setdefault(size, _SizeClass(size))
            if len(self.known) >= _KNOWN_SIZES:
                self.known.clear()
            self.known[nbytes] = home
        return home

    def _obtain(self, size: int, nbytes: int) -> int:
        """A block from the system; once more with an emptied pool when the first try fails."""
        limit = devices.memory_limit()
        with self.lock:
            if nbytes + self.in_use <= limit:
                if size + self._obtained > limit:
                    self.trim()
                if size >= _MAPPED:
                    self._make_room(size)
                ptr = _allocate(size)
                if not ptr:
                    self.trim()
                    ptr = _allocate(size)
                if ptr:
                    self._count(size)
                    return ptr
        raise OutOfMemoryError(
            f"cannot allocate {nbytes} bytes ({nbytes / 2**30:.2f} GiB) on cpu: {self.in_use} "
            f"bytes are in use and this process may use {_limit_now(limit)}. "
            "Free tensors, use smaller ones, or split the work into parts."
        )

    def _make_room(self, size: int) -> None:
        """Give free mapped blocks back, largest first, that come to what ``size`` costs or less
        than twice as much."""
        home = self._classes[size]
        home.returns = home.made_room
        left = 2 * size
        for other in sorted(self._classes.values(), key=lambda c: c.size, reverse=True):
            if other is home or other.returns or not _MAPPED <= other.size <= left:
                continue
            dropped = self._drop(other, left // other.size)
            other.made_room |= dropped > 0
            left -= dropped * other.size
            if left <= size:
                break

    def _drop(self, home: _SizeClass, most: int = sys.maxsize) -> int:
        """Give so many of the free blocks of a size back; how many there were."""
        for dropped in range(most):
            try:
                ptr = home.free.pop()
            except IndexError:  # empty, perhaps because another thread took the last one
                return dropped
            self._count(-home.size)
            _release(ptr, home.size)
        return most

    def _count(self, change: int) -> None:
        self._obtained += change
        self.floor = self._obtained - _most_pooled()


def _most_pooled() -> int:
    """Bytes of free blocks worth keeping: a quarter of the memory."""
    return devices.memory_limit() // 4


def block_size(nbytes: int) -> int:
    """The size class of ``nbytes``: 64, 128, 192, 256, then four steps per power of two."""
    if nbytes <= 4 * _ALIGNMENT:
        return max(1, -(-nbytes // _ALIGNMENT)) * _ALIGNMENT
    shift = (nbytes - 1).bit_length() - 3
    return (((nbytes - 1) >> shift) + 1) << shift


def _limit_now(limit: int) -> int:
    """The memory limit, cut to the resource limits of this moment."""
    import resource

    limits = [resource.getrlimit(which)[0] for which in (resource.RLIMIT_AS, resource.RLIMIT_DATA)]
    return min([limit, *(each for each in limits if each != resource.RLIM_INFINITY)])


def _allocate(size: int) -> int:
    """A 64-byte aligned block of exactly ``size`` bytes, or 0 when the system refuses."""
    if size >= _MAPPED:
        return _map(size)
    ptr = ctypes.c_void_p()
    if _libc.posix_memalign(ctypes.byref(ptr), _ALIGNMENT, size):
        return 0
    return ptr.value or 0


def _map(size: int) -> int:
    """Map ``size`` bytes starting at a huge page, or return 0.

    The mapping is made one huge page too long and its ends cut off, because the kernel promises
    no more than page alignment.
    """
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    whole = size + _HUGE_PAGE
    start = _libc.mmap(None, whole, mmap.PROT_READ | mmap.PROT_WRITE, flags, -1, 0)
    if start is None or start == ctypes.c_void_p(-1).value:
        return 0
    ptr = -(-int(start) // _HUGE_PAGE) * _HUGE_PAGE
    if ptr > start:
        _libc.munmap(start, ptr - start)
    if start + whole > ptr + size:
        _libc.munmap(ptr + size, start + whole - ptr - size)
    if sys.platform == "linux":
        _libc.madvise(ptr, size, mmap.MADV_HUGEPAGE)
    return ptr


def _release(ptr: int, size: int) -> None:
    if size >= _MAPPED:
        _libc.munmap(ptr, size)
    else:
        _libc.free(ptr)


pool = Pool()
forks.guarded(pool.lock)


class Buffer:
    """A block of memory that goes back to the pool when nobody refers to it.

    Attributes:
        ptr: address, a multiple of 64 unless the memory is foreign; valid for zero bytes too.
        nbytes: usable size.

    The contents of a new buffer are undefined. Raises OutOfMemoryError when there is no memory
    and ValueError for a negative size.
    """

    __slots__ = ("__weakref__", "_home", "_owner", "nbytes", "ptr")

    #: Where the memory is, as graphs name it: empty for the CPU.
    place = ""

    _home: _SizeClass | None
    _owner: object

    def __init__(self, nbytes: int) -> None:
        self._home = None  # __del__ also runs when an interrupt or an error ends this early
        self.nbytes = nbytes
        try:
            home = pool.known[nbytes]
            self.ptr = home.free.pop()
        except (KeyError, IndexError):
            self.ptr, self._home = pool.take(nbytes)
            return
        self._home = home
        pool.in_use += home.size
        if pool.in_use > pool.peak:
            pool.peak = pool.in_use

    @classmethod
    def foreign(cls, ptr: int, nbytes: int, owner: object) -> Buffer:
        """Memory that ``owner`` holds; ``owner`` lives as long as the buffer."""
        self = cls.__new__(cls)
        self.ptr = ptr
        self.nbytes = nbytes
        self._home = None
        self._owner = owner
        return self

    def __del__(self) -> None:
        try:
            home = self._home
        except AttributeError:  # an interrupt came before there was memory
            return
        if home is not None and pool is not None:  # None while the interpreter shuts down
            pool.in_use -= home.size
            home.free.append(self.ptr)
            if pool.in_use < pool.floor:
                pool.shrink()

    @property
    def is_foreign(self) -> bool:
        """Whether somebody else owns the memory."""
        return self._home is None

    def as_numpy(self, dtype: DType, shape: Sequence[int]) -> np.ndarray:
        """A contiguous array of ``dtype.numpy`` and ``shape`` on this memory, which it keeps alive.

        Raises ValueError when the buffer is too small for the shape.
        """
        if math.prod(shape) * dtype.itemsize > self.nbytes:
            raise ValueError(f"{dtype.name}{list(shape)} does not fit into {self.nbytes} bytes")
        return np.asarray(_View(self, dtype.numpy.str, tuple(shape)))

    def holds(self, other: Buffer) -> bool:
        """Whether both have the same bytes."""
        if self.nbytes != other.nbytes:
            return False
        return self.nbytes == 0 or _libc.memcmp(self.ptr, other.ptr, self.nbytes) == 0

    def equals(self, address: int) -> bool:
        """Whether its bytes are those at an address, of which there have to be as many."""
        return self.nbytes == 0 or _libc.memcmp(self.ptr, address, self.nbytes) == 0

    def copy_from(self, source: int | bytes, nbytes: int | None = None) -> None:
        """Copy ``nbytes`` from an address, or a bytes object, to the start of this buffer.

        Args:
            source: an address, which then needs ``nbytes``, or bytes.
            nbytes: how much to copy, all of ``source`` by default.

        Raises ValueError when it does not fit.
        """
        if nbytes is None:
            nbytes = self.nbytes if isinstance(source, int) else len(source)
        available = nbytes if isinstance(source, int) else len(source)
        if not 0 <= nbytes <= min(self.nbytes, available):
            raise ValueError(f"cannot copy {nbytes} bytes into a buffer of {self.nbytes}")
        ctypes.memmove(self.ptr, source, nbytes)

    def copy(self) -> Buffer:
        """Other memory of the same content."""
        made = Buffer(self.nbytes)
        made.copy_from(self.ptr, self.nbytes)
        return made

    def __repr__(self) -> str:
        return f"Buffer({self.nbytes} bytes at {self.ptr:#x})"


def without_aliases(
    inputs: Sequence[Any], outputs: Sequence[Any], donated: Sequence[int]
) -> list[Any]:
    """The input buffers of a plan that writes to those numbered in ``donated``: copies of these
    where they share bytes with another input or with an output."""
    found = list(inputs)
    spans = sorted([(b.ptr, b.ptr + b.nbytes) for b in (*inputs, *outputs)])
    if all(a[1] <= b[0] for a, b in itertools.pairwise(spans)):
        return found
    for number in donated:
        mine = found[number]
        others = (*found[:number], *found[number + 1 :], *outputs)
        if any(b.ptr < mine.ptr + mine.nbytes and mine.ptr < b.ptr + b.nbytes for b in others):
            found[number] = mine.copy()
    return found


class _View:
    """What NumPy takes memory from; the array keeps it, and it keeps the buffer."""

    __slots__ = ("__array_interface__", "buffer")

    def __init__(self, buffer: Buffer, typestr: str, shape: tuple[int, ...]) -> None:
        self.buffer = buffer
        self.__array_interface__ = {
            "data": (buffer.ptr, False),
            "shape": shape,
            "typestr": typestr,
            "version": 3,
        }
