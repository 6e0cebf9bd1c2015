"""Folds of rows side by side: eight long ones that share a vector, four far apart.

A vector that all rows are multiplied by leaves the first-level cache before the next row wants it.
Where eight rows take 32 steps in turn it is read once for eight.

Rows alone come from memory one behind the other, and a processor that fetches streams by itself
begins anew at each page of 4 KiB. With four streams there is always one on its way: Zen 3 reads
four rows that lie a quarter of the array apart in 0.78 of the time on one core and 0.75 to 0.9 on
two (rows of 4 KiB, 64 MB; two streams 0.85, eight 0.81, four neighbours 0.97).
"""

from __future__ import annotations

from collections.abc import Sequence

from lazyt.codegen import c_tree as ct
from lazyt.codegen.c_columns import ColumnsPhase
from lazyt.codegen.c_dense import folded_reads
from lazyt.codegen.c_family import Expressions, compute_type, is_positional
from lazyt.codegen.c_loops import Trees
from lazyt.ir.index import Axis, axes_of, data_of, linearize
from lazyt.ir.kernel import LANES, Phase, Reduce, Stage
from lazyt.ir.point import Load

#: Rows side by side, and how many there are at least, so that threads have something to share.
ABREAST, LEAST_ROWS = 8, 64
#: Bytes of a row from which it pays.
LONG_ROW = 16384
#: Rows far apart that are folded at once.
STREAMS = 4


class AbreastPhase(ColumnsPhase):
    """A phase whose tile may be some rows.

    Attributes:
        scattered: the rows of a tile lie as far apart as there are tiles.
    """

    scattered = False
    apart: ct.Node

    def _strip(self, tile: str, strips: int, extent: int, rows: int) -> Trees:
        if not self.scattered:
            return super()._strip(tile, strips, extent, rows)
        number = ct.name(tile)
        strip = ct.binary("%", number, ct.integer(strips)) if rows > 1 else number
        self.first, self.apart, self.run = ct.name("low"), ct.integer(strips), ct.integer(self.tile)
        out = [ct.declare("lz_i64", "low", strip, const=True)]
        if extent % self.tile == 0:
            return out
        left = ct.binary("-", ct.integer(extent + strips - 1), self.first)
        run = ct.minimum(ct.binary("/", left, self.apart), self.run)
        self.run = ct.name("run")
        return [*out, ct.declare("lz_i64", "run", run, const=True)]

    def _stands(self, step: ct.Node) -> ct.Node:
        return super()._stands(ct.binary("*", step, self.apart) if self.scattered else step)

    def _has_few_rows(self, stage: Stage, axis: Axis) -> bool:
        return not self.abreast and super()._has_few_rows(stage, axis)

    def _lanes(self, kind: str, name: str) -> ct.Node:
        if not self.abreast:
            return super()._lanes(kind, name)
        return self.array(kind, name, (self.tile, LANES))

    def _cell(self, name: str, *indices: ct.Node) -> ct.Node:
        if not (self.abreast and indices):
            return super()._cell(name, *indices)
        return ct.element(name, ct.name("u"), *indices)

    def _accumulators(self, r: Reduce, level: int, width: int) -> Trees:
        if not self.abreast:
            return super()._accumulators(r, level, width)
        name = f"{r.name}_a{level}"
        first = ct.assign(self._cell(name, ct.name("l")), self.e.identity(r.kind, r.dtype))
        loop = ct.loop("l", ct.integer(0), ct.integer(width), [first])
        return [self._lanes(compute_type(r.dtype), name), self._each_row(self._simd(loop))]

    def _each_lane(self, stage: Stage, axis: Axis, count: ct.Node) -> ct.Node:
        if not self.abreast:
            return super()._each_lane(stage, axis, count)
        place = ct.binary("+", ct.name("k"), ct.name("l"))
        here = ct.declare(self.integer, axis.name, place, const=True)
        loop = ct.loop("l", ct.integer(0), count, [here, *self._element(stage, axis)])
        return self._each_row(self._simd(loop))

    def _all_lanes(self, stage: Stage, axis: Axis) -> Trees:
        if not self.abreast:
            return super()._all_lanes(stage, axis)
        return [self._each_lane(stage, axis, ct.integer(LANES))]

    def _halve(self, reduces: Sequence[Reduce], level: int, width: int) -> Trees:
        """Folds by halves, each written out: a loop over them would go lane by lane."""
        across = self.vector and not self.abreast
        if across or self.any_size or any(map(is_positional, reduces)):
            return super()._halve(reduces, level, width)
        out: Trees = []
        lane = ct.name("l")
        while width > 1:
            half = 1 << ((width - 1).bit_length() - 1)
            other = ct.binary("+", lane, ct.integer(half))
            body = [t for r in reduces for t in self._merge(r, level, lane, level, other)]
            out += self._simd(ct.loop("l", ct.integer(0), ct.integer(width - half), body))
            width = half
        return [self._each_row(out)] if self.abreast else out

    def _each_row(self, body: Trees) -> ct.Node:
        (loop,) = self._over_run(body, simd=False)
        return loop


def stands_abreast(phase: Phase, e: Expressions) -> bool:
    """Whether the phase does nothing but fold long rows of memory with vectors as long as they."""
    rows = [row for _, row in folded_rows(phase, e)]
    return 0 in rows and max(rows) >= LONG_ROW


def folded_rows(phase: Phase, e: Expressions) -> list[tuple[Stage, int]]:
    """What a phase reads that does nothing but fold rows of memory, many of them: its stage and the
    bytes of a row, 0 where each point of the grid reads the same. Empty for other phases."""
    looped = [(stage, stage.axis) for stage in phase.stages if stage.axis is not None]
    if (
        phase.lanes != "inner"
        or len(looped) != 1
        or not phase.grid
        or phase.grid[-1].extent < LEAST_ROWS
        or e.bands
    ):
        return []
    ((stage, axis),) = looped
    if stage.guard or axis in e.ends:
        return []
    rows = [_row_bytes(item, phase.grid[-1], axis, e) for item in folded_reads(stage) or []]
    return [] if None in rows else [(stage, row) for row in rows if row is not None]


def _row_bytes(item: Load, last: Axis, axis: Axis, e: Expressions) -> int | None:
    """Bytes of a row that is read along a loop; 0 if each point of the grid reads the same, None
    for anything else."""
    buffer = e.buffers[item.buffer]
    place = linearize(item.index, buffer.shape)
    inside = [atom for atom, _ in place.terms if atom not in (axis, last)]
    if buffer.dtype.is_half or data_of(place) or place.coefficient(axis) != 1:
        return None
    if any({axis, last} & axes_of(atom) for atom in inside):
        return None
    apart = place.coefficient(last) or 0
    if apart == 0:
        return 0
    return axis.extent * buffer.dtype.itemsize if apart >= axis.extent else None
