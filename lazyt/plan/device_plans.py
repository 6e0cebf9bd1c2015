"""Plans that run on devices beside the CPU, and copies between devices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lazyt.codegen.cuda.target import device_helpers
from lazyt.ir.forms import place_of
from lazyt.ir.graph import Node
from lazyt.ir.program import Grid, Program
from lazyt.runtime.cuda import execute
from lazyt.runtime.cuda.device import CudaDevice, Tray, device_at
from lazyt.runtime.cuda.driver import Properties
from lazyt.runtime.cuda.memory import DeviceBuffer
from lazyt.runtime.memory import Buffer, without_aliases

if TYPE_CHECKING:
    from lazyt.runtime.cuda.execute import CudaExecutable

#: Bytes of a buffer up to which it is copied together with others.
_SMALL = 4096
#: Registers are given to warps in units of it, and every block has that much shared memory more.
_REGISTER_UNIT, _SHARED_OF_SYSTEM = 256, 1024


@dataclass
class Launcher:
    """A program on a device, with what it needs to be run on any buffers.

    Attributes:
        executable: it; None for a program without kernels.
        homes: the place of each root.
        sizes: bytes of its outputs.
        results: see ``Program``.
    """

    device: CudaDevice
    executable: CudaExecutable | None
    homes: tuple[str, ...]
    sizes: tuple[int, ...]
    results: tuple[int, ...]

    @staticmethod
    def load(
        program: Program, roots: Sequence[Node], sizes: tuple[int, ...], reason: str, where: str
    ) -> Launcher:
        """The program of a graph with these roots, compiled for the device they are on."""
        homes = tuple(place_of(root.form) for root in roots)
        device = device_at(next(home for home in homes if home))
        executable = None
        if program.launches:
            helpers = device_helpers(device.driver.helpers)
            executable = execute.load(program, device, helpers, reason, where)
        return Launcher(device, executable, homes, sizes, program.results)

    def run(self, inputs: Sequence[Buffer]) -> list[Buffer]:
        """The buffers of the roots. Inputs on the host, such as numbers, are copied first."""
        given = self.brought(inputs)
        outputs = [self.device.allocate(size) for size in self.sizes]
        if self.executable is not None:
            if self.executable.program.donated:
                donated = self.executable.program.overwritten
                given = without_aliases(given, outputs, donated)
            self.executable.run(given, outputs)
        found = [outputs[n] if n >= 0 else given[-1 - n] for n in self.results]
        return [b if home else b.to_host() for b, home in zip(found, self.homes, strict=True)]

    @property
    def is_direct(self) -> bool:
        """Whether it is kernels only, with all results on the device."""
        return self.executable is not None and all(self.homes)

    def launch(self, inputs: Sequence[DeviceBuffer], outputs: Sequence[DeviceBuffer]) -> None:
        """Run kernels on what is there, into given outputs."""
        assert self.executable is not None
        self.executable.run(inputs, outputs)

    def launch_at(self, places: tuple[int, ...]) -> None:
        """Run kernels on memory at these addresses, inputs first, that only this stream uses."""
        assert self.executable is not None
        self.executable.run_at(places)

    def brought(self, buffers: Sequence[Buffer]) -> list[DeviceBuffer]:
        """Buffers of the device with the same values: themselves where they are there. Numbers,
        and whatever else is small, go there together."""
        device = self.device
        found: list[Any] = list(buffers)
        small: list[int] = []
        for place, buffer in enumerate(found):
            if not isinstance(buffer, DeviceBuffer):
                if buffer.nbytes <= _SMALL:
                    small.append(place)
                else:
                    found[place] = device.upload(buffer)
            elif buffer.device is not device:
                found[place] = device.upload(buffer)
        if len(small) == 1:
            found[small[0]] = device.upload(found[small[0]])
        elif small:
            for place, made in zip(small, device.upload_all([found[n] for n in small])):
                found[place] = made
        return found

    def tray(self, sizes: Sequence[int]) -> Tray:
        """Memory for small buffers of the host that go to the device at every run."""
        return Tray(self.device, sizes)

    def notes(self, program: Program) -> Sequence[dict[str, object]]:
        """The program's notes, with what the compiler said about its functions."""
        if self.executable is None or not self.executable.facts:
            return program.notes
        grids = {kernel.name: kernel.grids for kernel in program.kernels}
        found: list[dict[str, object]] = []
        for note, launch in zip(program.notes, program.launches, strict=True):
            texts = [str(note.get("form", ""))]
            for grid in grids[launch.kernel]:
                facts = self.executable.facts.get(grid.function, {})
                if facts:
                    share = occupancy(self.device.driver.properties, grid, facts["registers"])
                    texts.append(
                        f"{facts['registers']} registers, {facts['spilled']} B spilled, "
                        f"occupancy {share:.0%}"
                    )
            found.append({**note, "form": "; ".join(texts)})
        return found


def occupancy(device: Properties, grid: Grid, registers: int) -> float:
    """The share of a multiprocessor's threads that can run at a time, by what they need."""
    warps = -(-grid.threads // device.warp_size)
    per_warp = -(-registers * device.warp_size // _REGISTER_UNIT) * _REGISTER_UNIT
    most = device.max_threads_per_multi_processor // device.warp_size // warps
    by_registers = device.regs_per_multiprocessor // max(per_warp * warps, 1)
    shared = grid.shared_bytes + _SHARED_OF_SYSTEM
    by_shared = device.shared_memory_per_multiprocessor // shared
    blocks = min(most, by_registers, by_shared)
    return blocks * warps * device.warp_size / device.max_threads_per_multi_processor


def moved(node: Node, place: str) -> Buffer:
    """The value of a computed node, at another place."""
    data: Buffer = node.data
    if not place:
        return data.to_host() if isinstance(data, DeviceBuffer) else data
    return device_at(place).upload(data)


def empty_at(place: str) -> Buffer:
    """Memory of no bytes."""
    return device_at(place).allocate(0) if place else Buffer(0)
