"""The device ``cuda:emu``: a GPU for machines without one, for study and for tests.

It runs the very kernels that a GPU would be given, compiled by a C++ compiler, with every CUDA
thread as a fiber (``emulator.py``). ``config.emulator_seed`` decides in which order warps
take turns. It is slow, and it finds faults: divergent barriers, shared memory that nobody wrote.
"""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from lazyt.config import config
from lazyt.ir.program import Grid
from lazyt.runtime import devices, emulator, forks
from lazyt.runtime.cuda_driver import CudaError, ForeignStream, GraphLaunch, Image, Properties
from lazyt.runtime.memory import Buffer

PLACE = "cuda:emu"
_NAN = 0xFF  # as shared memory, device memory starts as NaN


class _Event:
    """A mark: all work before it is done as soon as it is put in."""

    def __init__(self) -> None:
        self.time: float | None = None


class EmulatedDriver:
    """A device whose work is done when the call that asks for it returns.

    Args:
        place: its name.
        total: bytes of its memory; by default what this process may use.
    """

    helpers = "emulator"
    stages = False

    def __init__(self, place: str = PLACE, total: int = 0) -> None:
        self.place = place
        self._blocks: dict[int, Buffer] = {}
        self._pinned: dict[int, Buffer] = {}
        self._used = 0
        self._lock = forks.renewed(threading.Lock())
        total = total or devices.memory_limit()
        name = "CUDA emulator on the CPU"
        self.properties = Properties(name, 9, 0, total, devices.core_count())

    def identity(self) -> str:
        """The compiler and the CPU."""
        return f"{emulator.identity()} {' '.join(devices.cpu_features())}"

    def compile(self, source: str, functions: Sequence[str]) -> Image:
        """A shared object. Raises CompileError and NoCompilerError."""
        return Image(emulator.build(source, functions), {})

    def load(self, image: bytes, functions: Mapping[str, int]) -> dict[str, Any]:
        """Its functions."""
        library = emulator.open_library(image)
        return {name: emulator.entry(library, name) for name in functions}

    def launch(self, function: Any, grid: Grid, pointers: Sequence[int], stream: Any) -> None:
        """Run all blocks. Raises CudaError with what the emulator found wrong."""
        with self._lock:  # a library has one set of fibers
            fault = emulator.run(
                function, grid.blocks, grid.threads, grid.shared_bytes, pointers, grid.collective,
                config.emulator_seed,
            )  # fmt: skip
        if fault is not None:
            raise CudaError(f"{self.place}: {fault}", "CUDA_ERROR_LAUNCH_FAILED")

    # ------------------------------------------------------------------ memory

    def allocate(self, nbytes: int, stream: Any) -> int:
        """A block that holds NaN."""
        if self._used + nbytes > self.properties.total_memory:
            return 0
        block = Buffer(nbytes)
        ctypes.memset(block.ptr, _NAN, nbytes)
        self._blocks[block.ptr] = block
        self._used += nbytes
        return block.ptr

    def release(self, pointer: int, stream: Any) -> None:
        """Forget a block."""
        self._used -= self._blocks.pop(pointer).nbytes

    def reaches(self, other: Any) -> bool:
        """It reads its own memory only."""
        return False

    def bus(self) -> str:
        """It is on none."""
        return ""

    def collect(self, on: bool) -> None:
        """There is no tool for it."""

    def trim(self) -> None:
        """Nothing is kept."""

    def memory(self) -> tuple[int, int]:
        """Free and total bytes."""
        total = self.properties.total_memory
        return total - self._used, total

    def pin(self, nbytes: int) -> int:
        """Host memory as any other."""
        block = Buffer(nbytes)
        self._pinned[block.ptr] = block
        return block.ptr

    def unpin(self, pointer: int) -> None:
        """Forget it."""
        self._pinned.pop(pointer)

    def copy_in(self, target: int, source: int, nbytes: int, stream: Any) -> None:
        """From host memory."""
        ctypes.memmove(target, source, nbytes)

    copy_out = copy_within = copy_in

    def copy_across(self, target: int, source: int, nbytes: int, owner: Any, stream: Any) -> bool:
        """The memory of other devices is not for host code to see."""
        return False

    # ------------------------------------------------------------------ order

    def new_stream(self, priority: int) -> Any:
        """All streams are the same: work is done at once."""
        return object()

    def foreign_stream(self, number: int) -> Any:
        """As any other."""
        return ForeignStream(number)

    def stream_number(self, stream: Any) -> int:
        """Any number."""
        if isinstance(stream, ForeignStream):
            return int(stream.raw)
        return 0 if stream is None else id(stream)

    def end_stream(self, stream: Any) -> None:
        """Nothing to do."""

    def wait_stream(self, stream: Any) -> None:
        """Nothing to wait for."""

    def stream_done(self, stream: Any) -> bool:
        """Always."""
        return True

    def synchronize(self) -> None:
        """Nothing to wait for."""

    def new_event(self, timing: bool) -> Any:
        """A mark."""
        return _Event()

    def end_event(self, event: Any) -> None:
        """Nothing to do."""

    def record_event(self, event: Any, stream: Any) -> None:
        """It is passed at once."""
        event.time = time.perf_counter()

    def event_done(self, event: Any) -> bool:
        """Always."""
        return True

    def wait_event(self, event: Any) -> None:
        """Nothing to wait for."""

    def stream_waits(self, stream: Any, event: Any) -> None:
        """Nothing to wait for."""

    def milliseconds(self, start: Any, end: Any) -> float:
        """The time between two marks."""
        return float(end.time - start.time) * 1e3

    def new_graph(self, launches: Sequence[GraphLaunch]) -> Any:
        """There are no graphs: there is no time to be saved."""
        return None

    def change_graph(self, graph: Any, number: int, pointers: Sequence[int]) -> None:
        """Never called."""
        raise CudaError(f"{self.place} has no graphs")

    def launch_graph(self, graph: Any, stream: Any) -> None:
        """Never called."""
        raise CudaError(f"{self.place} has no graphs")

    def end_graph(self, graph: Any) -> None:
        """Nothing to do."""
