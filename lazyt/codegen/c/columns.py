"""Folds along columns of short rows that lie one behind the other: lanes and columns are one loop.

The sums of 32 lanes over 17 columns are 544 numbers, and so are the rows that they take next. Row
by row, one column of 17 would be left for itself each time.
"""

from __future__ import annotations

from collections.abc import Sequence

from lazyt.codegen.c import tree as ct
from lazyt.codegen.c.family import Expressions, compute_type, is_positional
from lazyt.codegen.c.halves import HalvesPhase
from lazyt.codegen.c.loops import Trees
from lazyt.codegen.loops.forms import may_turn
from lazyt.ir.index import Axis, Load, Var, axes_of, data_of, linearize, sub_expressions
from lazyt.ir.kernel import LANES, Let, Phase, Reduce, Stage
from lazyt.ir.scalar import Call, Const

#: Columns up to which what is left of a row beside whole vectors counts.
MOST_COLUMNS = 128
#: Columns that no vector leaves anything of.
EVEN = 16
#: Rows that are taken at once where columns are few.
LEAST_DENSE_ROWS = 4 * LANES


class DensePhase(HalvesPhase):
    """A phase that may keep the sums of all lanes and columns in one axis.

    Attributes:
        flat: the arrays that are laid out so.
        along: the place in them that a loop is at, if it goes along all of them.
    """

    def __init__(
        self, phase: Phase, expressions: Expressions, number: int, any_size: bool = False
    ) -> None:
        super().__init__(phase, expressions, number, any_size)
        self.flat: set[str] = set()
        self.along: ct.Node | None = None

    def _reduction(self, stage: Stage, axis: Axis) -> Trees:
        sums = [s for s in stage.body if isinstance(s, Reduce)]
        self.flat = {f"{r.name}_a0" for r in sums} if self._is_dense(stage, axis) else set()
        out = super()._reduction(stage, axis)
        self.flat = set()
        return out

    def _cell(self, name: str, *indices: ct.Node) -> ct.Node:
        if name not in self.flat:
            return super()._cell(name, *indices)
        if self.along is not None:
            return ct.element(name, self.along)
        row = ct.binary("*", indices[0], ct.integer(self.tile))
        return ct.element(name, ct.binary("+", row, ct.name("u")))

    def _accumulators(self, r: Reduce, level: int, width: int) -> Trees:
        name, kind = f"{r.name}_a{level}", compute_type(r.dtype)
        if name not in self.flat:
            return super()._accumulators(r, level, width)
        first = ct.assign(ct.element(name, ct.name("v")), self.e.identity(r.kind, r.dtype))
        return [self._lanes(kind, name), *self._cells(width, [first])]

    def _halve(self, reduces: Sequence[Reduce], level: int, width: int) -> Trees:
        if level or not self.flat:
            return super()._halve(reduces, level, width)
        out: Trees = []
        here = ct.name("v")
        while width > 1:
            half = 1 << ((width - 1).bit_length() - 1)
            there = ct.binary("+", here, ct.integer(half * self.tile))
            body: Trees = []
            for r in reduces:
                cell, other = (ct.element(f"{r.name}_a0", place) for place in (here, there))
                body.append(ct.assign(cell, self.e.fold(r.kind, cell, other, r.dtype)))
            out += self._cells(width - half, body)
            width = half
        return out

    def _cells(self, lanes: int, body: Trees) -> Trees:
        """A loop over the sums of so many lanes."""
        return self._simd(ct.loop("v", ct.integer(0), ct.integer(lanes * self.tile), body))

    def _all_cells(self, stage: Stage, axis: Axis, steps: int) -> Trees:
        """The elements of all lanes at ``k``, and of as many again for each further step: one
        stretch of memory, read from end to end."""
        last = self.phase.grid[-1]
        self.along = ct.name("v")
        out: Trees = []
        for step in range(steps):
            column = ct.declare("lz_i64", last.name, self.along, const=True)
            here = ct.binary("+", ct.name("k"), ct.integer(step * LANES))
            turn = ct.declare(self.integer, axis.name, here, const=True)
            out += self._cells(LANES, [column, turn, *self._element(stage, axis)])
        self.along = None
        return out

    def _is_dense(self, stage: Stage, axis: Axis) -> bool:
        """Whether the tile is all columns, and nothing but whole rows is read."""
        if not self.vector or self.any_size:
            return False
        columns = self.phase.grid[-1].extent
        if self.tile != columns or columns > MOST_COLUMNS or columns % EVEN == 0:
            return False
        return rows_follow(self.phase, stage, axis, self.e)


def best_lanes(phase: Phase, e: Expressions) -> str:
    """Which axis of a phase is vectorised: also a few columns, if lanes of sums lie beside them."""
    columns = phase.grid[-1].extent if phase.grid else 1
    if phase.lanes == "grid" or not 1 < columns < EVEN or not may_turn(phase):
        return phase.lanes
    looped = [(s, s.axis) for s in phase.stages if s.axis is not None]
    long = all(axis.extent >= LEAST_DENSE_ROWS for _, axis in looped)
    return "grid" if long and all(rows_follow(phase, *at, e) for at in looped) else phase.lanes


def rows_follow(phase: Phase, stage: Stage, axis: Axis, e: Expressions) -> bool:
    """Whether a stage folds nothing but rows that lie one behind the other along its axis."""
    reads = folded_reads(stage)
    return reads is not None and all(_reads_rows(x, phase.grid[-1], axis, e) for x in reads)


def folded_reads(stage: Stage) -> list[Load] | None:
    """The elements of memory of which a stage computes what it folds; None where it does anything
    else, or needs anything beside."""
    own = {s.name for s in stage.body if isinstance(s, Let)}
    reads: list[Load] = []
    for statement in stage.body:
        if not isinstance(statement, Let | Reduce):
            return None
        if isinstance(statement, Reduce) and is_positional(statement):
            return None
        for item in sub_expressions(statement.value):
            if isinstance(item, Load):
                reads.append(item)
            elif not isinstance(item, Const | Call | Var) or (
                isinstance(item, Var) and item.name not in own
            ):
                return None
    return reads


def _reads_rows(item: Load, last: Axis, axis: Axis, e: Expressions) -> bool:
    """Whether it is an element of a row, and the next one is behind it, also across rows."""
    if item.buffer in e.bands:
        return False
    place = linearize(item.index, e.buffers[item.buffer].shape)
    if place.coefficient(axis) != last.extent or place.coefficient(last) != 1:
        return False
    inside = [atom for atom, _ in place.terms if atom not in (axis, last)]
    return not data_of(place) and not any({axis, last} & axes_of(atom) for atom in inside)


# Folds along columns of few rows, part by part.
#
# Sums of 32 lanes for whole rows go through the second-level cache at every step, and are set and
# folded beside: for a hundred rows that is more traffic than the rows are. Here the tree of halves
# is walked depth first, so that one part for each of its levels waits, in the first-level cache,
# and the steps of a part are written out and folded in registers.


#: Rows up to which it pays: as many as the lanes' steps in one loop.
FEW_ROWS = 256
#: What a step may be for its text to stand there many times.
MOST_TEXT, MOST_COST = 4, 6.0
#: Steps in one loop: rows whose distance is a power of two share lines of the first-level cache, of
#: which there are eight, and each is read by several vectors.
STEPS_OF_LOOP = 8
#: Columns of a tile: what waits of them fits the first-level cache.
COLUMNS = 512


class ColumnsPhase(DensePhase):
    """A phase that folds few rows part by part."""

    def _reduction(self, stage: Stage, axis: Axis) -> Trees:
        if not self._has_few_rows(stage, axis):
            return super()._reduction(stage, axis)
        reduces = [s for s in stage.body if isinstance(s, Reduce)]
        out: Trees = [self._array(compute_type(r.dtype), r.name) for r in reduces]
        parts = 1 << (min(LANES, axis.extent) - 1).bit_length()
        while parts > 1 and 2 * axis.extent <= STEPS_OF_LOOP * parts:
            parts //= 2
        levels = parts.bit_length()
        body = [self._array(compute_type(r.dtype), f"{r.name}_p", levels) for r in reduces]
        body += self._folded_parts(stage, axis, parts, 0)
        for r in reduces:
            value = self._waiting(r, 0)
            if r.kind == "sum" and r.dtype.kind == "f":
                value = self._folded(r, self.e.identity(r.kind, r.dtype), value)
            body += self._over_run([ct.assign(self._cell(r.name), value)], index=False)
            self.e.values[r.name] = self._cell(r.name)
        return [*out, ct.block(body)]

    def _has_few_rows(self, stage: Stage, axis: Axis) -> bool:
        """Whether a stage folds few rows, wider than a vector, by little text and little work."""
        if not self.vector or self.any_size or stage.guard or axis in self.e.ends:
            return False
        if self.turns.get(id(stage)) or self._has_halves(stage) or self._is_dense(stage, axis):
            return False
        if not 1 < axis.extent <= FEW_ROWS or self.phase.grid[-1].extent < 2 * LANES:
            return False
        if not all(isinstance(s, Let | Reduce) for s in stage.body):
            return False
        if any(isinstance(s, Reduce) and is_positional(s) for s in stage.body):
            return False
        calls = [e for s in stage.body for e in sub_expressions(s.value) if isinstance(e, Call)]
        return sum(call.fn.cost for call in calls) <= MOST_COST and len(stage.body) <= MOST_TEXT

    def _folded_parts(self, stage: Stage, axis: Axis, parts: int, level: int) -> Trees:
        """Loops over both halves of a part, whose folds wait in turn where the first did, and the
        next place; where those join. ``bit0``, ``bit1``... are the bits of a part's number."""
        if parts == 1 << level:
            return self._part_of(stage, axis, parts, level)
        inner = self._folded_parts(stage, axis, parts, level + 1)
        folds: Trees = []
        for r in stage.body:
            if isinstance(r, Reduce):
                left, right = self._waiting(r, level), self._waiting(r, level, 1)
                folds.append(ct.assign(left, self._folded(r, left, right)))
        loop = ct.loop(f"bit{level}", ct.integer(0), ct.integer(2), inner)
        return [loop, *self._over_run(folds, index=False)]

    def _waiting(self, r: Reduce, level: int, further: int = 0) -> ct.Node:
        """Where the fold of a part waits: there are as many ahead as bits of its number are set."""
        bits = [ct.name(f"bit{bit}") for bit in range(level)]
        return self._cell(f"{r.name}_p", _sum([*bits, *([ct.integer(1)] * further)]))

    def _part_of(self, stage: Stage, axis: Axis, parts: int, level: int) -> Trees:
        """The fold of every row whose number leaves the part's when divided by ``parts``."""
        bits = [ct.binary("*", ct.name(f"bit{k}"), ct.integer(1 << k)) for k in range(level)]
        out: Trees = [ct.declare("lz_i64", "part", _sum(bits), const=True)]
        steps, more = divmod(axis.extent, parts)
        fewer = self._steps(stage, axis, range(0, steps * parts, parts), level)
        if not more:
            return [*out, *fewer]
        longer = self._steps(stage, axis, range(0, (steps + 1) * parts, parts), level)
        inside = ct.binary("<", ct.name("part"), ct.integer(more))
        return [*out, ct.branch(inside, longer, fewer)]

    def _steps(self, stage: Stage, axis: Axis, offsets: Sequence[int], level: int) -> Trees:
        """The fold of steps so far behind the part's first."""
        distance = offsets[1] - offsets[0] if len(offsets) > 1 else LANES
        steps = {k: ct.binary("+", ct.name("part"), ct.integer(k)) for k in offsets}
        body, values = self._written_out(stage, axis, steps)
        for r in stage.body:
            if isinstance(r, Reduce):
                value = self._part(r, dict(zip(offsets, values[r.name])), 0, distance, body)
                assert value is not None
                body.append(ct.assign(self._waiting(r, level), value))
        return self._over_run(body)


def _sum(terms: Sequence[ct.Node]) -> ct.Node:
    """Their sum; 0 of none."""
    total = terms[0] if terms else ct.integer(0)
    for term in terms[1:]:
        total = ct.binary("+", total, term)
    return total


# Folds of rows side by side: eight long ones that share a vector, four far apart.
#
# A vector that all rows are multiplied by leaves the first-level cache before the next row wants
# it. Where eight rows take 32 steps in turn it is read once for eight.
#
# Rows alone come from memory one behind the other, and a processor that fetches streams by itself
# begins anew at each page of 4 KiB. With four streams there is always one on its way: Zen 3 reads
# four rows that lie a quarter of the array apart in 0.78 of the time on one core and 0.75 to 0.9 on
# two (rows of 4 KiB, 64 MB; two streams 0.85, eight 0.81, four neighbours 0.97).


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
