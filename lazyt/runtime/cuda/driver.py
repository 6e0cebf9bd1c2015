"""What a CUDA device has to be able to do, whoever does it: a GPU's driver or the emulator.

Everything above (memory, plans, streams) is written against ``Driver``. Streams, events, modules
and functions are whatever the driver makes them; nobody else looks inside.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from lazyt.errors import DeviceError
from lazyt.ir.program import Grid


class CudaError(DeviceError):
    """A CUDA call that failed.

    Attributes:
        code: the driver's name of the error, such as ``CUDA_ERROR_LAUNCH_FAILED``.
    """

    def __init__(self, text: str, code: str = "") -> None:
        super().__init__(text)
        self.code = code


class DeviceLostError(CudaError):
    """An error after which a device cannot be used any more in this process."""


class ForeignStream:
    """A stream that another library made, and may end when no thread sends its work there any more.

    What was in it by then has been waited for, so the first stream stands for it afterwards.

    Attributes:
        raw: what the driver knows it by.
        users: threads whose work goes there, and buffers that were recorded for it.
    """

    __slots__ = ("raw", "users")

    def __init__(self, raw: Any) -> None:
        self.raw = raw
        self.users = 0


def standing_for(stream: Any) -> Any:
    """The stream that work and memory of ``stream`` are ordered by: itself, or None, the first
    one, for a foreign one that nobody uses any more."""
    return None if isinstance(stream, ForeignStream) and not stream.users else stream


@dataclass(frozen=True)
class Properties:
    """Facts about a device, by PyTorch's names.

    Attributes:
        name: what its maker calls it.
        major, minor: compute capability.
        total_memory: bytes.
        multi_processor_count: multiprocessors.
        max_threads_per_multi_processor: threads that one runs at a time.
        regs_per_multiprocessor, shared_memory_per_multiprocessor: what its blocks share.
        shared_memory_per_block: bytes that a block has without being asked.
        shared_memory_per_block_optin: bytes that a block can have.
        warp_size: threads of a warp.
        L2_cache_size: bytes.
    """

    name: str
    major: int
    minor: int
    total_memory: int
    multi_processor_count: int
    max_threads_per_multi_processor: int = 2048
    regs_per_multiprocessor: int = 65536
    shared_memory_per_multiprocessor: int = 228 << 10
    shared_memory_per_block: int = 48 << 10
    shared_memory_per_block_optin: int = 227 << 10
    warp_size: int = 32
    L2_cache_size: int = 50 << 20

    @property
    def arch(self) -> str:
        """The architecture for which programs are compiled."""
        letter = "a" if self.major >= 9 else ""
        return f"sm_{self.major}{self.minor}{letter}"


@dataclass(frozen=True)
class Image:
    """A compiled program.

    Attributes:
        data: what the driver loads.
        facts: numbers about each function, such as its registers; JSON-compatible.
    """

    data: bytes
    facts: dict[str, dict[str, int]]


#: A launch of a graph: function, grid and buffers.
GraphLaunch = tuple[Any, Grid, Sequence[int]]


class Driver(Protocol):
    """One device.

    Attributes:
        place: its name, such as ``cuda:0``.
        helpers: which spelling of the ``lz_*`` helpers it compiles: ``cuda`` or ``emulator``.
        properties: facts about it.
        stages: whether copies from and to the host are to go by way of pinned memory.

    Every method may raise CudaError, and DeviceLostError for errors that end all work.
    """

    place: str
    helpers: str
    properties: Properties
    stages: bool

    def identity(self) -> str:
        """What, beside the source, decides an image: compilers, their versions, the machine."""

    def compile(self, source: str, functions: Sequence[str]) -> Image:
        """The image of a program. Raises CompileError."""

    def load(self, image: bytes, functions: Mapping[str, int]) -> dict[str, Any]:
        """The functions of an image, ready to launch with so many bytes of shared memory."""

    def launch(self, function: Any, grid: Grid, pointers: Sequence[int], stream: Any) -> None:
        """Run a function on buffers, behind all that is in the stream."""

    def allocate(self, nbytes: int, stream: Any) -> int:
        """Address of a block whose first use is in the stream; 0 when there is no memory."""

    def release(self, pointer: int, stream: Any) -> None:
        """Give a block back once the stream has come this far."""

    def reaches(self, other: Any) -> bool:
        """Whether the device can read another's memory by itself."""

    def bus(self) -> str:
        """Where on the machine's bus the device is; empty for none."""

    def collect(self, on: bool) -> None:
        """Tools that look at the device begin, or end, to collect."""

    def trim(self) -> None:
        """Give unused memory back to the system."""

    def memory(self) -> tuple[int, int]:
        """Free and total bytes."""

    def pin(self, nbytes: int) -> int:
        """Address of host memory that copies need not stage."""

    def unpin(self, pointer: int) -> None:
        """Give it back."""

    def copy_in(self, target: int, source: int, nbytes: int, stream: Any) -> None:
        """Copy from host memory, which may be changed when this returns unless it is pinned."""

    def copy_out(self, target: int, source: int, nbytes: int, stream: Any) -> None:
        """Copy to host memory: it is there once the stream has come this far."""

    def copy_within(self, target: int, source: int, nbytes: int, stream: Any) -> None:
        """Copy inside of the device."""

    def copy_across(self, target: int, source: int, nbytes: int, owner: Any, stream: Any) -> bool:
        """Copy from the device whose driver ``owner`` is; False where that goes by the host."""

    def activate(self) -> None:
        """Other libraries that this thread calls are to mean this device."""

    def new_stream(self, priority: int) -> Any:
        """A stream of work that runs beside others. None is the first one."""

    def foreign_stream(self, number: int) -> Any:
        """A stream that another library made, by the number it knows it by."""

    def stream_number(self, stream: Any) -> int:
        """The number by which other libraries know a stream."""

    def end_stream(self, stream: Any) -> None:
        """A stream is not used any more."""

    def wait_stream(self, stream: Any) -> None:
        """Wait until all work in the stream is done."""

    def stream_done(self, stream: Any) -> bool:
        """Whether all work in the stream is done."""

    def synchronize(self) -> None:
        """Wait until all work of the device is done."""

    def new_event(self, timing: bool) -> Any:
        """A mark that can be put into streams."""

    def end_event(self, event: Any) -> None:
        """An event is not used any more."""

    def record_event(self, event: Any, stream: Any) -> None:
        """Put the mark behind what is in the stream."""

    def event_done(self, event: Any) -> bool:
        """Whether the stream has come to the mark."""

    def wait_event(self, event: Any) -> None:
        """Wait until the stream has come to the mark."""

    def stream_waits(self, stream: Any, event: Any) -> None:
        """What follows in the stream waits for the mark, in whatever stream it is."""

    def milliseconds(self, start: Any, end: Any) -> float:
        """The time between two marks."""

    def new_graph(self, launches: Sequence[GraphLaunch]) -> Any:
        """Launches, one after the other, to be made as one; None where there are no graphs."""

    def change_graph(self, graph: Any, number: int, pointers: Sequence[int]) -> None:
        """Give a graph's launch of a number other buffers, from its next run on."""

    def launch_graph(self, graph: Any, stream: Any) -> None:
        """Make all launches of a graph."""

    def end_graph(self, graph: Any) -> None:
        """A graph is not used any more; a run of it may still be under way."""
