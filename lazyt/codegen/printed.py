"""A kernel as C text, with what its launch has to know."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from lazyt.ir.program import KernelSource

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
