"""Running CUDA C kernels on the CPU, slowly and with checks, to find their faults without a GPU.

The text is the GPU's own, compiled as C++ after helpers (``codegen/prelude/emulator.h``) that make
every CUDA thread a fiber. Missing and divergent barriers, shared memory out of bounds or read
before it is written (it starts as NaN) show up as errors or as wrong values.
"""

from __future__ import annotations

import ctypes
import os
import shlex
import shutil
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from lazyt.config import config
from lazyt.errors import CompileError, DeviceError, InternalError, NoCompilerError
from lazyt.ir.program import Grid
from lazyt.runtime import cache, devices
from lazyt.runtime.cpython import forks
from lazyt.runtime.cuda.driver import CudaError, ForeignStream, GraphLaunch, Image, Properties
from lazyt.runtime.memory import Buffer

_FLAGS = (
    "-O1",
    "-std=c++17",
    devices.native_flag(),
    "-ffp-contract=off",
    "-fno-strict-aliasing",
    "-fwrapv",
    "-fPIC",
    "-shared",
    "-w",
)
_WATCHING = ("-fsanitize=thread", "-DLZ_WATCH_MEMORY")
#: A thread's arrays are on its stack, and it may have 256 KiB of them.
_STACK_BYTES = 512 << 10


class Emulator:
    """Kernels compiled for the CPU.

    Args:
        source: helpers and kernels, complete text.
        functions: names of the kernels to run.
        watched: global memory is watched, where ``launch`` is told its sizes.

    Raises:
        NoCompilerError: there is no C++ compiler.
        CompileError: the compiler refused the text, which is kept.
    """

    def __init__(self, source: str, functions: Iterable[str], watched: bool = False) -> None:
        self._library = open_library(build(source, functions, watched))

    def leave_out(self, line: int) -> None:
        """Pass by the barriers at a line of the source from now on, as if they were deleted; by
        none for 0."""
        self._library.lz_emulated_leave_out(line)

    def launch(
        self,
        function: str,
        blocks: int,
        threads: int,
        shared_bytes: int,
        pointers: Sequence[int],
        collective: bool = True,
        seed: int = 0,
        sizes: Sequence[int] = (),
        guard: int = 0,
    ) -> None:
        """Run a kernel over its whole grid.

        Args:
            function: the kernel's name.
            blocks, threads: grid and block, in one dimension.
            shared_bytes: dynamic shared memory of a block.
            pointers: addresses of the kernel's buffers.
            collective: whether threads wait for each other; without, no fibers are needed.
            seed: decides the order in which warps run.
            sizes: bytes of the buffers, where global memory is watched.
            guard: bytes before and behind each of these that are no other's.

        Raises InternalError, which names kernel, block and thread, when threads wait for each
        other for ever or at different places, and when shared memory is accessed out of bounds or
        by two threads without a barrier in between; where global memory is watched, for two threads
        there as well, and for accesses to guards.
        """
        called = entry(self._library, function)
        self._library.lz_emulated_watch(
            (ctypes.c_ulonglong * len(sizes))(*sizes), len(sizes), ctypes.c_ulonglong(guard)
        )
        fault = run(called, blocks, threads, shared_bytes, pointers, collective, seed)
        if fault is not None:
            raise InternalError("runtime.emulator", fault)


def entry(library: ctypes.CDLL, function: str) -> Any:
    """What runs a kernel of the library."""
    found = library[f"{function}_launch"]
    found.restype = ctypes.c_char_p
    return found


def run(
    function: Any, blocks: int, threads: int, shared_bytes: int, pointers: Sequence[int],
    collective: bool, seed: int,
) -> str | None:  # fmt: skip
    """Runs what ``entry`` found, see ``Emulator.launch``; what went wrong, None for nothing."""
    array = (ctypes.c_void_p * max(len(pointers), 1))(*pointers)
    message: bytes | None = function(
        array,
        ctypes.c_longlong(blocks),
        threads,
        shared_bytes,
        int(collective),
        ctypes.c_longlong(_STACK_BYTES),
        ctypes.c_ulonglong(seed),
    )
    return None if message is None else message.decode()


def find_compiler() -> list[str]:
    """The C++ compiler's command: ``CXX``, else g++ or clang++; raises NoCompilerError."""
    named = shlex.split(os.environ.get("CXX", ""))
    for words in [named] if named else [["g++"], ["clang++"]]:
        found = shutil.which(words[0])
        if found is not None:
            return [found, *words[1:]]
    wanted = named[0] if named else "g++ or clang++"
    raise NoCompilerError(f"no C++ compiler: {wanted} is not on the PATH. Install one or set CXX.")


def identity() -> str:
    """The compiler, as far as its file and flags tell. Raises NoCompilerError."""
    command = find_compiler()
    facts = os.stat(command[0])
    return repr((command, facts.st_size, facts.st_mtime_ns, _FLAGS))


def build(source: str, functions: Iterable[str], watched: bool = False) -> bytes:
    """A shared object of helpers and kernels, complete text, that can run these functions.

    ``watched``: all accesses to memory go by the emulator, too.

    Raises NoCompilerError and CompileError.
    """
    import subprocess

    compiler = find_compiler()
    source = "\n".join([source, *(f"LZ_EMULATED({name})" for name in functions)]) + "\n"
    place = next(iter(cache.scratch_folders()))
    with cache.scratch(place) as folder:
        text, output = os.path.join(folder, "kernels.cpp"), os.path.join(folder, "kernels.so")
        with open(text, "w", encoding="utf-8") as file:
            file.write(source)
        commands = [[*compiler, *_FLAGS, text, "-o", output]]
        if watched:  # not linked with the sanitizer's own library
            flags = [flag for flag in _FLAGS if flag != "-shared"]
            made = os.path.join(folder, "kernels.o")
            commands = [
                [*compiler, *flags, *_WATCHING, "-c", text, "-o", made],
                [*compiler, "-shared", made, "-o", output],
            ]
        for command in commands:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                kept = cache.save_failed(cache.hash_text(source), source)
                raise CompileError(command, done.stderr, kept)
        with open(output, "rb") as file_:
            return file_.read()


def open_library(image: bytes) -> ctypes.CDLL:
    """Loads a shared object from a copy that is deleted at once; the mapping outlives the file."""
    fault: OSError | None = None
    for place in cache.scratch_folders():
        with cache.scratch(place) as folder:
            path = os.path.join(folder, "kernels.so")
            try:
                with open(path, "wb") as file:
                    file.write(image)
                return ctypes.CDLL(path)
            except OSError as error:  # a folder that nothing may be executed from
                fault = error
    raise DeviceError(f"the emulator's kernels cannot be loaded: {fault}")


# The device ``cuda:emu``: a GPU for machines without one, for study and for tests.
#
# It runs the very kernels that a GPU would be given, compiled by a C++ compiler, with every CUDA
# thread as a fiber (``runtime/cuda/emulated.py``). ``config.emulator_seed`` decides in which order
# warps take turns. It is slow, and it finds faults: divergent barriers, shared memory that nobody
# wrote.


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
        return f"{identity()} {' '.join(devices.cpu_features())}"

    def compile(self, source: str, functions: Sequence[str]) -> Image:
        """A shared object. Raises CompileError and NoCompilerError."""
        return Image(build(source, functions), {})

    def load(self, image: bytes, functions: Mapping[str, int]) -> dict[str, Any]:
        """Its functions."""
        library = open_library(image)
        return {name: entry(library, name) for name in functions}

    def launch(self, function: Any, grid: Grid, pointers: Sequence[int], stream: Any) -> None:
        """Run all blocks. Raises CudaError with what the emulator found wrong."""
        with self._lock:  # a library has one set of fibers
            fault = run(
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

    def activate(self) -> None:
        """Nothing to do."""

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
