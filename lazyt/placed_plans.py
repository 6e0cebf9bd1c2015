"""Plans that run on devices beside the CPU, and copies between devices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lazyt.codegen.cuda import device_helpers
from lazyt.errors import DeviceError
from lazyt.ir.forms import place_of
from lazyt.ir.graph import Node
from lazyt.ir.program import Program
from lazyt.runtime import cuda_execute
from lazyt.runtime.cuda_device import CudaDevice, device_at
from lazyt.runtime.cuda_memory import DeviceBuffer
from lazyt.runtime.memory import Buffer

if TYPE_CHECKING:
    from lazyt.runtime.cuda_execute import CudaExecutable


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
            executable = cuda_execute.load(program, device, helpers, reason, where)
        return Launcher(device, executable, homes, sizes, program.results)

    def run(self, inputs: Sequence[Buffer]) -> list[Buffer]:
        """The buffers of the roots. Inputs on the host, such as numbers, are copied first."""
        device = self.device
        given = [
            b if isinstance(b, DeviceBuffer) and b.device is device else device.upload(b)
            for b in inputs
        ]
        outputs = [device.allocate(size) for size in self.sizes]
        if self.executable is not None:
            self.executable.run(given, outputs)
        found = [outputs[n] if n >= 0 else given[-1 - n] for n in self.results]
        return [b if home else b.to_host() for b, home in zip(found, self.homes, strict=True)]


def moved(node: Node, place: str) -> Buffer:
    """The value of a computed node, at another place."""
    data: Buffer = node.data
    if not place:
        return data.to_host() if isinstance(data, DeviceBuffer) else data
    return device_at(place).upload(data)


def empty_at(place: str) -> Buffer:
    """Memory of no bytes."""
    return device_at(place).allocate(0) if place else Buffer(0)


def refuse_library(call: Node) -> None:
    """Raises DeviceError for a library call on a device: the libraries are the CPU's."""
    place = place_of(call.form)
    if place:
        raise DeviceError(
            f"{call.params.routine} is a routine of the CPU's matrix library and is not there on "
            f"{place} yet. Move the operand with .cpu() and the result back with .to('{place}')."
        )
