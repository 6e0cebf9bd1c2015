"""Folds along columns of short rows that lie one behind the other: lanes and columns are one loop.

The sums of 32 lanes over 17 columns are 544 numbers, and so are the rows that they take next. Row
by row, one column of 17 would be left for itself each time.
"""

from __future__ import annotations

from collections.abc import Sequence

from lazyt.codegen import c_tree as ct
from lazyt.codegen.c_family import Expressions, compute_type, is_positional
from lazyt.codegen.c_halves import HalvesPhase
from lazyt.codegen.c_loops import Trees
from lazyt.codegen.loop_form import may_turn
from lazyt.ir.index import Axis, axes_of, data_of, linearize
from lazyt.ir.kernel import LANES, Let, Phase, Reduce, Stage
from lazyt.ir.point import Load, Var, sub_expressions
from lazyt.ir.scalar import Call, Const

#: Columns up to which what is left of a row beside whole vectors counts.
MOST_COLUMNS = 128
#: Columns that no vector leaves anything of.
EVEN = 16
#: Rows that are taken at once where columns are few.
LEAST_ROWS = 4 * LANES


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
    long = all(axis.extent >= LEAST_ROWS for _, axis in looped)
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
