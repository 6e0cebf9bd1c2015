"""Routines that kernels may call: what each does with its buffers, and which it takes.

A routine is what loops over a grid cannot say: its steps depend on values. A target has the text
(``codegen/prelude``) and says how to call it (``codegen/routines.py``, ``cuda_routines.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lazyt.ir.dtypes import DType, int64
from lazyt.ir.kernel import Buffer

#: A buffer's type and shape, given those of the first one read.
Wanted = Callable[[Buffer], tuple[DType, tuple[int, ...]]]


@dataclass(frozen=True)
class Routine:
    """What a routine takes.

    Attributes:
        name: the word that a CallPhase has.
        writes, work: type and shape of each buffer beside the one it reads.
        settings: names of its numbers.
    """

    name: str
    writes: tuple[Wanted, ...]
    work: tuple[Wanted, ...]
    settings: tuple[str, ...]

    def complaints(
        self,
        reads: Sequence[Buffer],
        writes: Sequence[Buffer],
        work: Sequence[Buffer],
        settings: dict[str, int],
    ) -> list[str]:
        """What is wrong with the buffers and settings of a call; empty when nothing is."""
        if len(reads) != 1 or not reads[0].shape:
            return [f"{self.name} reads the rows of one buffer"]
        out: list[str] = []
        for word, found, wanted in (("writes", writes, self.writes), ("needs", work, self.work)):
            if len(found) != len(wanted):
                out.append(f"{self.name} {word} {len(wanted)} buffers, not {len(found)}")
                continue
            for buffer, want in zip(found, wanted):
                dtype, shape = want(reads[0])
                if buffer.dtype is not dtype or buffer.shape != shape:
                    text = f"{dtype.name}{list(shape)}"
                    out.append(f"{self.name} takes {text} where {buffer.name} stands")
        if tuple(settings) != self.settings:
            out.append(f"{self.name} has the settings {', '.join(self.settings)}")
        return out


def same(source: Buffer) -> tuple[DType, tuple[int, ...]]:
    """As what is read."""
    return source.dtype, source.shape


def positions(source: Buffer) -> tuple[DType, tuple[int, ...]]:
    """A position for every element that is read."""
    return int64, source.shape


def twice(source: Buffer) -> tuple[DType, tuple[int, ...]]:
    """Two copies of what is read."""
    return source.dtype, (2, *source.shape)


#: Every row in ascending (or descending) order: its values, the permutation that sorts it, or both.
#: Equal elements stay in order; NaN is the largest; 0 equals -0.
ROUTINES: dict[str, Routine] = {
    routine.name: routine
    for routine in (
        Routine("sort_values", (same,), (same,), ("descending",)),
        Routine("sort_order", (positions,), (twice, positions), ("descending",)),
        Routine("sort_both", (same, positions), (twice, positions), ("descending",)),
    )
}
