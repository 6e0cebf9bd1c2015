"""The targets that plans are made for: C and CUDA C, and those that programs register.

A target prints kernels, says what its text depends on besides the graph, and makes what runs a
program. The package's own do all of it; one from outside has ``print_kernel`` and ``load``
(``codegen/plan/target.py``), and ``Printed`` does the rest for it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from lazyt import extensions
from lazyt.codegen.plan.printed import PrintedKernel
from lazyt.codegen.plan.target import Launching, Target
from lazyt.config import config
from lazyt.errors import ArgumentError
from lazyt.ir.kernel import Kernel
from lazyt.ir.program import KernelSource, Launch, Program
from lazyt.runtime.memory import Buffer, without_aliases

if TYPE_CHECKING:
    from lazyt.codegen.plan.choices import Choices, Tuned
    from lazyt.codegen.plan.duplicates import Printer
    from lazyt.ir.graph import Node


class Launcher(Protocol):
    """What runs the program of a plan, where that is no shared object of C."""

    @property
    def is_direct(self) -> bool:
        """Whether captured functions may launch its kernels themselves."""

    def run(self, inputs: list[Buffer]) -> list[Buffer]:
        """The buffers of the roots."""

    def notes(self, program: Program) -> Sequence[dict[str, object]]:
        """What there is to say of each launch."""


class Backend(Protocol):
    """A target as plans see it.

    Attributes:
        suffix: what the names of files with its text end in.
        bands: whether it runs contractions and what reads their rows a band of rows at a time.
        launching: how it wants its launches.
    """

    suffix: str
    bands: bool
    launching: Launching

    def printer(self, any_size: bool = False, choices: Choices | None = None) -> Printer:
        """Prints kernels; the arguments are those of ``compile_graph``."""

    def text(self, program: Program) -> str:
        """All text of a program."""

    def settings(self) -> tuple[Any, ...]:
        """What the text depends on besides the graph."""

    def launcher(
        self,
        program: Program,
        roots: Sequence[Node],
        sizes: tuple[int, ...],
        reason: str,
        where: str,
    ) -> Launcher | None:
        """What runs a program, whose outputs have these sizes; None for a shared object of C."""


def joined_text(program: Program) -> str:
    """Helpers, kernels and the entry of a program."""
    parts = [text for _, text in program.sections]
    return "\n".join([*parts, *(k.text for k in program.kernels), program.entry])


class C:
    """C for the CPU, which the system's compiler makes a shared object of."""

    suffix, bands = "c", True

    def __init__(self) -> None:
        self.launching = Launching("c", joins=True, entry=_print_entry)

    def printer(self, any_size: bool = False, choices: Choices | None = None) -> Printer:
        """Prints kernels for this machine."""
        return partial(_print_c, any_size=any_size, choices=choices)

    def text(self, program: Program) -> str:
        """All text of a program, as compilers get it."""
        from lazyt.runtime.cpu.compile import split_units

        return "".join(split_units(program, 1))

    def settings(self) -> tuple[Any, ...]:
        """The processor, and what tuning found for it."""
        from lazyt.runtime import devices, winners

        device = devices.cpu()
        caches = (device.l1, device.l2, device.l3)
        settings: tuple[Any, ...] = (device.vector_bytes, caches, device.cores, config.any_size)
        settings = (*settings, *map(sorted, devices.traits()))
        found = winners.digest()
        return (*settings, found) if found else settings

    def launcher(self, *_: object) -> None:
        """A shared object needs none."""


def _print_entry(sources: Sequence[KernelSource], launches: Sequence[Launch], count: int) -> str:
    from lazyt.codegen.c.target import print_entry_c

    return print_entry_c(sources, launches, None, count)


def machine() -> tuple[int, tuple[int, int, int]]:
    """What printers ask of this machine: bytes of a vector, and the caches."""
    from lazyt.runtime import devices

    device = devices.cpu()
    return device.vector_bytes, (device.l1, device.l2, device.l3)


def chosen_form(kernel: Kernel, choices: Choices | None = None) -> Tuned | None:
    """The form that is chosen for a kernel: by a tuner that programs registered, by the clock, or
    by the kernel's text; None where heuristics decide."""
    from lazyt.codegen.plan.choices import noted_form

    if extensions.force.tuner is not None:
        from lazyt.codegen.plan.candidates import Field
        from lazyt.runtime import devices

        forms = Field(kernel, *machine(), devices.traits(), max(devices.cpu().cores, 2))
        return extensions.force.tuner.form(kernel, forms)
    return (choices.of(kernel) if choices else None) or noted_form(kernel)


def _print_c(
    kernel: Kernel,
    names: Mapping[int, str] | None,
    any_size: bool = False,
    choices: Choices | None = None,
) -> PrintedKernel:
    from lazyt.codegen.c.target import print_kernel_c
    from lazyt.runtime import devices

    threads, traits = max(devices.cpu().cores, 2), devices.traits()
    tuned = None if any_size else chosen_form(kernel, choices)
    made = print_kernel_c(kernel, *machine(), names, any_size, tuned, threads, traits)
    if config.verify and names != {}:
        from lazyt.codegen.proof.c_bounds import argument_bytes, require_in_bounds

        for part, text in made.parts or ((kernel, made),):
            sizes = argument_bytes(part, text.workspace, text.offsets)
            require_in_bounds(text.proof or text.source.text, sizes)
    return made


class Cuda:
    """CUDA C, for GPUs and the emulator."""

    suffix, bands = "cu", False
    launching = Launching("cuda", wide=True)

    def printer(self, any_size: bool = False, choices: Choices | None = None) -> Printer:
        """Prints kernels, which have one form only."""
        return _print_cuda

    def text(self, program: Program) -> str:
        """All text of a program but the helpers of the device."""
        return joined_text(program)

    def settings(self) -> tuple[Any, ...]:
        """Nothing: the text is the same for all of them."""
        return ()

    def launcher(
        self,
        program: Program,
        roots: Sequence[Node],
        sizes: tuple[int, ...],
        reason: str,
        where: str,
    ) -> Launcher:
        """The program, compiled for the device that the roots are on."""
        from lazyt.plan.device_plans import Launcher as OnDevice

        return OnDevice.load(program, roots, sizes, reason, where)


def _print_cuda(kernel: Kernel, names: Mapping[int, str] | None) -> PrintedKernel:
    from lazyt.codegen.cuda.target import print_for_plan

    return print_for_plan(kernel)


class Printed:
    """A target from outside of the package, which runs on the CPU.

    Args:
        name: its name.
        target: prints kernels, and loads programs.
    """

    bands = False

    def __init__(self, name: str, target: Target) -> None:
        self.target = target
        self.suffix = str(getattr(target, "suffix", "txt"))
        self.launching = Launching(name)

    def printer(self, any_size: bool = False, choices: Choices | None = None) -> Printer:
        """Prints kernels."""
        return self._print

    def _print(self, kernel: Kernel, names: Mapping[int, str] | None) -> PrintedKernel:
        text = self.target.print_kernel(kernel)
        if not isinstance(text, str) or kernel.name not in text:
            raise ArgumentError(
                f"target {self.launching.target}: print_kernel has to return text with a function "
                f"called {kernel.name}, not {text!r:.200}"
            )
        return PrintedKernel(KernelSource(kernel.name, text, (), len(kernel.arguments)))

    def text(self, program: Program) -> str:
        """The kernels of a program."""
        return "\n".join(kernel.text for kernel in program.kernels)

    def settings(self) -> tuple[Any, ...]:
        """Nothing: what the target depends on is in the digest of its code."""
        return ()

    def launcher(
        self,
        program: Program,
        roots: Sequence[Node],
        sizes: tuple[int, ...],
        reason: str,
        where: str,
    ) -> Launcher:
        """What the target makes of a program."""
        functions = self.target.load(program)
        for kernel in program.kernels:
            if not isinstance(functions, Mapping) or not callable(functions.get(kernel.name)):
                raise ArgumentError(
                    f"target {self.launching.target}: load has to return a function for each "
                    f"kernel by its name, such as {kernel.name}, not {functions!r:.200}"
                )
        return _OnHost(program, sizes, functions)


class _OnHost:
    """A program that a registered target runs, with what it needs to be run on any buffers."""

    is_direct = False

    def __init__(
        self,
        program: Program,
        sizes: tuple[int, ...],
        functions: Mapping[str, Callable[..., None]],
    ) -> None:
        self._program, self._sizes, self._functions = program, sizes, functions

    def run(self, inputs: list[Buffer]) -> list[Buffer]:
        """The buffers of the roots."""
        program = self._program
        outputs = [Buffer(size) for size in self._sizes]
        if program.donated:
            inputs = without_aliases(inputs, outputs, program.overwritten)
        held = {"input": inputs, "output": outputs, "arena": [Buffer(program.arena_bytes)]}
        slots = [
            _memory(held[slot.kind][slot.index], slot.offset, slot.nbytes) for slot in program.slots
        ]
        for launch in program.launches:
            given = [slots[number] for number in launch.slots]
            for place, offset in enumerate(launch.offsets):
                given[place] = given[place][offset:]
            self._functions[launch.kernel](*given)
        return [outputs[n] if n >= 0 else inputs[-1 - n] for n in program.results]

    def notes(self, program: Program) -> Sequence[dict[str, object]]:
        """What lowering says of each launch."""
        return program.notes


def _memory(buffer: Buffer, offset: int, nbytes: int) -> memoryview:
    """A part of a buffer, which has to live as long."""
    return memoryview((ctypes.c_char * nbytes).from_address(buffer.ptr + offset)).cast("B")


#: The package's own targets by name.
_OWN: dict[str, Backend] = {"c": C(), "cuda": Cuda()}


def known() -> Mapping[str, object]:
    """All targets by name."""
    return {**_OWN, **extensions.registered}


def named(name: str) -> Backend:
    """The target of that name. Raises ArgumentError where there is none."""
    if name in _OWN:
        return _OWN[name]
    if name not in extensions.registered:
        raise ArgumentError(f"no target is called '{name}'; there are {', '.join(known())}")
    return Printed(name, extensions.registered[name])


def of_place(place: str) -> str:
    """The name of the target for a device; the empty one is the CPU."""
    return "cuda" if place else extensions.force.target
