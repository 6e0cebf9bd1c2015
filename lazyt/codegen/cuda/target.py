"""The CUDA target: kernels as CUDA C, from the same kernel IR and C trees as the C target.

Every phase becomes one ``__global__`` function, or several for a routine, because only the end of
a launch makes the whole grid wait. Kernels call small ``lz_*`` helpers and nothing else of CUDA:
``prelude/cuda.h`` spells them for NVRTC, ``prelude/emulator.h`` for a C++ compiler, so that the
same text runs on a GPU and, slowly and with checks, on a CPU.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

from lazyt.codegen.c import tree as ct
from lazyt.codegen.c.family import Expressions, c_type
from lazyt.codegen.c.routines import custom_arguments, order_constants, unsigned
from lazyt.codegen.c.safe_names import with_safe_names
from lazyt.codegen.cuda.contraction import ContractPrinter
from lazyt.codegen.cuda.fourier import FourierLaunch, fourier_launches
from lazyt.codegen.cuda.matrices import MatrixLaunch, matrix_launches
from lazyt.codegen.cuda.register_rows import hold_loads
from lazyt.codegen.cuda.threads import (
    MANY_POINTS,
    MOST_SHARED_BYTES,
    GroupPhase,
    ThreadPhase,
    is_ordered,
    over_tiles,
)
from lazyt.codegen.plan.printed import PrintedKernel
from lazyt.codegen.prelude import sections_for
from lazyt.errors import InternalError, LazytError
from lazyt.ir.kernel import CallPhase, ContractPhase, CustomPhase, Kernel, Phase, own_sections
from lazyt.ir.program import Grid, KernelSource

# Routines for a GPU: sorting as ranks and merges, a launch for each doubling of the sorted runs.
#
# Every thread places one element: first by its rank among the 256 of its tile, then, run by run, by
# its place in its own run and a binary search in the neighbouring one. Threads never wait for each
# other, any length will do, and equal elements keep their order.


THREADS = 256
#: Elements that are ranked at once by the first launch.
TILE = 256


@dataclass(frozen=True)
class PointLaunch:
    """One thread for each element: calls ``function(*before, element, *after)``."""

    function: str
    before: tuple[ct.Node, ...]
    after: tuple[ct.Node, ...]
    points: int
    most_blocks: int

    threads = THREADS
    shared_bytes = 0
    collective = False

    @property
    def tiles(self) -> int:
        """How many blocks' worth of work there is."""
        return -(-self.points // self.threads)

    @property
    def blocks(self) -> int:
        """Blocks of the launch."""
        return min(self.tiles, self.most_blocks)

    def statements(self) -> list[ct.Node]:
        """What a block does for its ``tile_``."""
        start = ct.binary("*", ct.name("tile_"), ct.integer(self.threads))
        point = ct.binary("+", start, ct.call("lz_thread", ()))
        inside = ct.binary("<", ct.name("point_"), ct.integer(self.points))
        call = ct.call(self.function, (*self.before, ct.name("point_"), *self.after))
        return [ct.declare("lz_i64", "point_", point, const=True), ct.branch(inside, [call])]


@dataclass(frozen=True)
class CustomLaunch:
    """A user's kernel, its grid once for every example."""

    phase: CustomPhase
    expressions: Expressions

    @property
    def grid(self) -> tuple[int, int, int, int]:
        """Blocks, threads, bytes that a block shares, and whether threads wait for each other."""
        if len(self.phase.grid) != 4:
            raise LazytError(f"{self.phase.label} is a kernel for the CPU, and is given to a GPU")
        blocks, threads, shared, collective = self.phase.grid
        return blocks, threads, shared, collective

    @property
    def tiles(self) -> int:
        """Blocks of all examples."""
        return self.grid[0] * max(self.phase.examples, 1)

    @property
    def blocks(self) -> int:
        """The same: each has a block of the launch."""
        return self.tiles

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.grid[1]

    @property
    def shared_bytes(self) -> int:
        """Bytes that a block shares."""
        return self.grid[2]

    @property
    def collective(self) -> bool:
        """Whether threads wait for each other."""
        return bool(self.grid[3])

    def statements(self) -> list[ct.Node]:
        """The call of the user's function for the block ``tile_``."""
        self.expressions.used.update(self.phase.used)
        blocks = ct.integer(self.grid[0])
        many = self.phase.examples > 0
        example = ct.binary("/", ct.name("tile_"), blocks) if many else None
        given = custom_arguments(self.phase, self.expressions, example, None)
        block = ct.binary("%", ct.name("tile_"), blocks) if many else ct.name("tile_")
        axes = [ct.call("lz_thread", ()), block, ct.integer(self.threads), blocks]
        return [ct.call(self.phase.routine, [*given, *axes])]


RoutineLaunch: TypeAlias = PointLaunch | CustomLaunch | FourierLaunch | MatrixLaunch


def routine_cuda(phase: CallPhase, e: Expressions, most_blocks: int) -> list[RoutineLaunch]:
    """The launches of a sorting routine or a transform, in order, or that of factorizations or of a
    user's kernel."""
    if isinstance(phase, CustomPhase):
        return [CustomLaunch(phase, e)]
    if phase.routine.startswith("fourier"):
        return [*fourier_launches(phase, e, most_blocks)]
    if phase.routine.startswith("linalg"):
        return [*matrix_launches(phase, e, most_blocks)]
    source = e.buffers[phase.reads[0]]
    size, suffix = math.prod(source.shape), unsigned(source.dtype)
    if size == 0:
        return []
    length = source.shape[-1]
    down = -1 if dict(phase.settings)["descending"] else 0
    keys = (*order_constants(source.dtype), ct.integer(down))
    widths, sorted_run = [0], TILE
    while sorted_run < length:
        widths.append(sorted_run)
        sorted_run *= 2
    carried = "values" if phase.routine == "sort_values" else "order"
    name = f"lz_merge_{carried}_{suffix}"
    result, spare = phase.writes[-1], phase.work[-1]
    before: tuple[ct.Node, ...] = () if carried == "values" else (ct.name(source.name),)
    first = source.name if carried == "values" else spare
    launches: list[RoutineLaunch] = []
    e.used.add(name)
    for number, width in enumerate(widths):
        left = len(widths) - 1 - number
        here, other = (result, spare) if left % 2 == 0 else (spare, result)
        come = first if number == 0 else other
        arguments = (*before, ct.name(come), ct.name(here))
        after = (ct.integer(length), ct.integer(width), *keys)
        launches.append(PointLaunch(name, arguments, after, size, most_blocks))
    if phase.routine == "sort_both":
        pick = f"lz_pick_row_{suffix}"
        e.used.add(pick)
        arguments = tuple(ct.name(n) for n in (source.name, *phase.writes))
        launches.append(PointLaunch(pick, arguments, (ct.integer(length),), size, most_blocks))
    return launches


#: Blocks of the largest launch; larger grids are walked with a stride.
MOST_BLOCKS = (1 << 31) - 1
#: Steps of a loop below which a thread does it alone.
SHORT_LOOP = 16
#: Threads of a block from which one block may have a multiprocessor to itself. Otherwise ptxas
#: spills float64 values to make room for two; small blocks would take all registers that way.
WIDE_BLOCK = 512
#: Adjacent grid points from which ``lanes == "grid"`` is worth a block of 32 points.
NARROW_GRID = 8


@dataclass(frozen=True)
class CudaLaunch:
    """One function to launch over ``blocks`` blocks of ``threads`` threads, both in one dimension.

    Attributes:
        function: its name in the text.
        blocks, threads: the grid and the block; a launch with 0 blocks does not exist.
        shared_bytes: dynamic shared memory of a block.
        collective: whether threads wait for each other (the emulator needs fibers then).
    """

    function: str
    blocks: int
    threads: int
    shared_bytes: int
    collective: bool


@dataclass(frozen=True)
class CudaKernel:
    """A kernel as CUDA C.

    Attributes:
        name: its name.
        text: its functions; each takes a pointer per buffer, in the order of the kernel's buffers.
            Buffers start at multiples of 16 bytes.
        launches: calls in order, each after the end of the one before.
        used: functions of the math prelude that the text calls.
        note: which form each phase takes.
        sections: names and texts of users' functions that it calls.
    """

    name: str
    text: str
    launches: tuple[CudaLaunch, ...]
    used: tuple[str, ...]
    note: str
    sections: tuple[tuple[str, str], ...] = ()

    def renamed(self, name: str) -> CudaKernel:
        """The same kernel with functions called after ``name``."""
        own = re.compile(rf"\b{self.name}(?=(?:_p\d+)?\()")
        launches = [replace(x, function=name + x.function[len(self.name) :]) for x in self.launches]
        return replace(self, name=name, text=own.sub(name, self.text), launches=tuple(launches))


def print_kernel_cuda(
    kernel: Kernel, most_blocks: int = MOST_BLOCKS, many_points: int = MANY_POINTS
) -> CudaKernel:
    """A kernel as CUDA C; phases without grid points are left out.

    Args:
        kernel: to be printed.
        most_blocks: of a launch; further tiles are the same blocks', in turn.
        many_points: from so many on threads take several, where they can be adjacent by vectors.

    Raises InternalError for a phase that no form fits, and for segments: ``split_segments`` first.
    """
    kernel = with_safe_names(kernel)
    if kernel.segments:
        raise InternalError("codegen.cuda", "there are no launches of segments on a GPU yet")
    parameters = ", ".join(
        f"{'const ' if b.role == 'in' else ''}{c_type(b.dtype)} *restrict {b.name}"
        for b in kernel.buffers
    )
    texts: list[str] = []
    launches: list[CudaLaunch] = []
    forms: list[str] = []
    used: set[str] = set()
    steps: list[tuple[ThreadPhase | ContractPrinter | RoutineLaunch, Expressions]]
    steps = []
    for phase in kernel.phases:
        expressions = Expressions(kernel.buffers)
        if isinstance(phase, CallPhase):
            calls = routine_cuda(phase, expressions, most_blocks)
            steps += [(made, expressions) for made in calls]
            forms.append(phase.routine)
        else:
            printer, form = choose_form(phase, expressions, most_blocks, many_points)
            forms.append(form)
            steps.append((printer, expressions))
    for number, (step, expressions) in enumerate(steps):
        if step.tiles == 0:
            continue
        name = kernel.name if len(steps) == 1 else f"{kernel.name}_p{number}"
        most = step.blocks if isinstance(step, MatrixLaunch) else most_blocks
        body = over_tiles(step.statements(), step.tiles, most)
        bounds = f"{step.threads}, 1" if step.threads >= WIDE_BLOCK else f"{step.threads}"
        head = f'extern "C" __global__ void __launch_bounds__({bounds}) {name}'
        texts.append(f"{head}({parameters})\n{ct.text(ct.block(body))}")
        shape = step.blocks, step.threads, step.shared_bytes
        launches.append(CudaLaunch(name, *shape, step.collective))
        used |= expressions.used
    return CudaKernel(
        kernel.name, "\n".join(texts), tuple(launches), tuple(sorted(used)), ", ".join(forms),
        own_sections(kernel),
    )  # fmt: skip


def print_for_plan(kernel: Kernel) -> PrintedKernel:
    """A kernel as part of a plan, which the C target prints in the same form."""
    kernel = with_safe_names(kernel)
    made = print_kernel_cuda(kernel)
    grids = tuple(
        Grid(x.function, x.blocks, x.threads, x.shared_bytes, x.collective) for x in made.launches
    )
    helpers = (*made.used, *(name for name, _ in made.sections))
    source = KernelSource(kernel.name, made.text, helpers, len(kernel.buffers), grids=grids)
    sizes = [
        f"{g.blocks} x {g.threads}" + (f" ({g.shared_bytes} B shared)" if g.shared_bytes else "")
        for g in grids
    ]
    note = f"{made.note}; blocks x threads {', '.join(sizes)}"
    return PrintedKernel(source, made.sections, note=note)


def choose_form(
    phase: Phase | ContractPhase,
    expressions: Expressions,
    most_blocks: int,
    many_points: int = MANY_POINTS,
) -> tuple[ThreadPhase | ContractPrinter, str]:
    """How the grid and the loops of a phase become blocks and threads, and what that is called."""
    if isinstance(phase, ContractPhase):
        printer = ContractPrinter(phase, expressions, most_blocks)
        return printer, f"contract {printer.tile.height}x{printer.tile.width}"
    steps = max((s.axis.extent for s in phase.stages if s.axis is not None), default=0)
    if steps <= SHORT_LOOP or is_ordered(phase):
        return ThreadPhase(phase, expressions, most_blocks, many_points), "threads"
    points = math.prod(a.extent for a in phase.grid)
    if phase.lanes == "grid" and points >= NARROW_GRID:
        columns = GroupPhase(phase, expressions, most_blocks, True)
        if columns.shared_bytes <= MOST_SHARED_BYTES:
            return columns, "columns"
    # A reduction takes less shared memory here. A single thread would hold whole rows.
    rows = GroupPhase(hold_loads(phase, expressions.buffers), expressions, most_blocks, False)
    if rows.shared_bytes <= MOST_SHARED_BYTES:
        return rows, "rows"
    return ThreadPhase(phase, expressions, most_blocks), "threads (too many reductions)"


def program_text(kernels: Iterable[CudaKernel]) -> str:
    """Math functions and kernels, each once: what NVRTC and the emulator have in common."""
    distinct = {k.name: k for k in kernels}.values()
    used = sorted({name for kernel in distinct for name in kernel.used})
    sections = [text for _, text in sections_for(used)]
    sections += {name: text for kernel in distinct for name, text in kernel.sections}.values()
    return "\n".join([*sections, *(kernel.text for kernel in distinct)]) + "\n"


def device_helpers(target: str) -> str:
    """The text of the ``lz_*`` helpers for ``"cuda"`` (NVRTC) or ``"emulator"`` (a C++ compiler).

    It stands before ``program_text``.
    """
    path = Path(__file__).parents[1] / "prelude" / f"{target}.h"
    return path.read_text(encoding="utf-8")
