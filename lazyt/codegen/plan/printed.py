"""Where in its buffers a kernel's work begins, kept out of its text.

What reads step 7 of a stack reads ``x[7, i, j]``, and a number in the text makes it another kernel
than the one that reads step 8. So the part of the position that is the same in all accesses of a
buffer moves into the pointer that the launch passes, and kernels that do the same are one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from lazyt.codegen.lower.emitter import indices_of
from lazyt.ir.index import Linear, linearize
from lazyt.ir.kernel import CallPhase, ContractPhase, Kernel, Let, Statement
from lazyt.ir.program import KernelSource

# A kernel as C text, with what its launch has to know.


#: Hears of a kernel that is printed, with names and texts of the helpers that it calls.
Announce = Callable[[KernelSource, Iterable[tuple[str, str]]], None]


@dataclass(frozen=True)
class PrintedKernel:
    """A kernel as text.

    Attributes:
        source: the C function.
        sections: helpers of its own beside the shared prelude (micro-kernels of contractions).
        workspace: bytes of scratch that it takes as its last buffer, 0 for none.
        note: how the target chose to do it.
        offsets: bytes from the beginning of each buffer to where its pointer points.
        proof: a function with the same accesses that ``check_c`` can read, where it cannot read the
            kernel's own.
        parts: kernels and texts that are to be read in its place: functions that it calls.
        values: C text of the numbers that a launch passes after its pointers. Where all constants
            were named, those of all constants.
    """

    source: KernelSource
    sections: tuple[tuple[str, str], ...] = ()
    workspace: int = 0
    note: str = ""
    offsets: tuple[int, ...] = ()
    proof: str = ""
    values: tuple[str, ...] = ()
    parts: tuple[tuple[Kernel, PrintedKernel], ...] = ()


def find_origins(kernel: Kernel) -> dict[str, int]:
    """Buffers of a kernel's callers whose first element at hand is not that with number 0, and
    its number: no access can be of an earlier one."""
    shapes = {b.name: b.shape for b in kernel.buffers if b.role not in ("work", "band")}
    lowest: dict[str, int] = {}
    for buffer, index in _accesses(kernel):
        if buffer in shapes:
            first = linearize(index, shapes[buffer]).bounds[0] if index else 0
            lowest[buffer] = min(first, lowest.get(buffer, first))
    return {name: first for name, first in lowest.items() if first > 0}


def _accesses(kernel: Kernel) -> Iterator[tuple[str, Sequence[Linear]]]:
    for phase in kernel.phases:
        if isinstance(phase, CallPhase):  # takes whole buffers
            for name in (*phase.reads, *phase.writes):
                yield name, ()
            continue
        statements: list[Statement]
        if isinstance(phase, ContractPhase):
            statements = [Let("left", phase.left), Let("right", phase.right), *phase.epilogue]
        else:
            statements = [s for stage in phase.stages for s in stage.body]
        for statement in statements:
            for buffer, index in indices_of(statement):
                if buffer is not None:
                    yield buffer, index
