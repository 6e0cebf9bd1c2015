"""Factorizations of small matrices as launches for GPUs: each thread has a matrix, and does to it
the steps of one lane of the CPU's kernel (``prelude/matrices.h``), from the same text, so that both
give the same bits.

A thread holds the numbers of a matrix where they are few. Else they are in scratch, number by
number, each of ``GRID_LANES`` neighbouring threads side by side; as many blocks as have scratch
take the matrices in turn.
"""

from __future__ import annotations

from dataclasses import dataclass

from lazyt.codegen.c import tree as ct
from lazyt.codegen.c.family import Expressions
from lazyt.ir.factorizations.sizes import (
    GRID_LANES,
    MODES,
    Sizes,
    grid_slots,
    in_registers,
)
from lazyt.ir.kernel import CallPhase

__all__ = ["MatrixLaunch", "matrix_launches"]

#: Threads of a block where each holds its matrix.
_THREADS = 64


@dataclass(frozen=True)
class MatrixLaunch:
    """One thread for each matrix of a batch."""

    phase: CallPhase
    suffix: str
    sizes: Sizes
    batch: int
    slots: int
    most_blocks: int

    shared_bytes = 0
    collective = False

    @property
    def threads(self) -> int:
        """Threads of a block; those of one that has scratch are side by side there."""
        return GRID_LANES if self.slots else _THREADS

    @property
    def tiles(self) -> int:
        """How many blocks' worth of work there is."""
        return -(-self.batch // self.threads)

    @property
    def blocks(self) -> int:
        """Blocks of the launch."""
        return min(self.tiles, self.most_blocks, self.slots or self.tiles)

    def _numbers(self) -> list[ct.Node]:
        """``at_``: where the thread has the numbers of its matrix."""
        vector, pointer = f"lz_la_v_{self.suffix}", f"lz_la_p_{self.suffix}"
        if not self.slots:
            room = ct.declare_array(vector, "held_", [self.sizes.together])
            return [room, ct.declare(pointer, "at_", ct.name("held_"))]
        slot = ct.binary("*", ct.call("lz_block", ()), ct.integer(self.sizes.together * GRID_LANES))
        first = ct.binary("+", slot, ct.call("lz_thread", ()))
        work = ct.binary("+", ct.name(self.phase.work[0]), first)
        place = ct.call(f"lz_la_strided_{self.suffix}", [work, ct.integer(GRID_LANES)])
        return [ct.declare(pointer, "at_", place)]

    def statements(self) -> list[ct.Node]:
        """What a block does for its ``tile_``."""
        start = ct.binary("*", ct.name("tile_"), ct.integer(self.threads))
        point = ct.binary("+", start, ct.call("lz_thread", ()))
        given = dict(self.phase.settings)
        _, name, mode = self.phase.routine.split("_")
        extents = (given["rows"], given["columns"], given["sides"], MODES[name][mode])

        def place(buffer: str, count: int) -> ct.Node:
            offset = ct.binary("*", ct.name("point_"), ct.integer(count))
            return ct.binary("+", ct.name(buffer), offset)

        def at(offset: int) -> ct.Node:
            return ct.binary("+", ct.name("at_"), ct.integer(offset)) if offset else ct.name("at_")

        body, behind = self._numbers(), 0
        for buffer, count in zip(self.phase.reads, self.sizes[:2], strict=False):
            fetch = [ct.integer(count), place(buffer, count), at(behind)]
            body.append(ct.call(f"lz_la_fetch_{self.suffix}", fetch))
            behind += count
        steps = [*map(ct.integer, extents), ct.name("at_")]
        body.append(ct.call(f"lz_la_{name}_{self.suffix}", steps))
        count = self.sizes.results
        leave = [ct.integer(count), at(behind), place(self.phase.writes[0], count)]
        body.append(ct.call(f"lz_la_leave_{self.suffix}", leave))
        inside = ct.binary("<", ct.name("point_"), ct.integer(self.batch))
        return [ct.declare("lz_i64", "point_", point, const=True), ct.branch(inside, body)]


def matrix_launches(phase: CallPhase, e: Expressions, most_blocks: int) -> list[MatrixLaunch]:
    """The launch that factorizes all matrices; none for none."""
    given = dict(phase.settings)
    if not given["batch"]:
        return []
    dtype = e.buffers[phase.reads[0]].dtype
    suffix, name = dtype.suffix, phase.routine.split("_")[1]
    second = given["rows"] * given["sides"] if len(phase.reads) > 1 else 0
    first = given["rows"] * given["columns"]
    sizes = Sizes(first, second, given["results"], given["scratch"])
    slots = 0 if in_registers(sizes, dtype) else grid_slots(sizes, given["batch"], dtype)
    used = ("fetch", name, "leave", *(["strided"] if slots else []))
    e.used.update(f"lz_la_{part}_{suffix}" for part in used)
    return [MatrixLaunch(phase, suffix, sizes, given["batch"], slots, most_blocks)]
