"""Ends of rows that hold one value, as a mask leaves them: what is computed of them, once a row.

A mask that compares positions makes all scores of a row the same constant from some column on. What
a later loop computes there is the same value in every step, so it is computed for the last step,
and stored; where folding it changes nothing (-infinity into a maximum, zero into a sum), the loop
stops where the end begins. Where it would, the loop runs to its end: no bit depends on it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from lazyt.codegen import c_tree as ct
from lazyt.codegen.band_scratch import idle_tiles
from lazyt.codegen.c_family import Expressions, compute_type
from lazyt.codegen.c_loops import Trees
from lazyt.codegen.c_steps import CpuPhase
from lazyt.codegen.slide import at_axes
from lazyt.ir.bands import row_of
from lazyt.ir.index import Axis, Linear, axes_of, constant, linearize, variable
from lazyt.ir.kernel import (
    LANES,
    Bands,
    Buffer,
    ContractPhase,
    Keep,
    Let,
    Phase,
    Reduce,
    Stage,
    Statement,
    Store,
)
from lazyt.ir.point import Guarded, Load, Position, Var, sub_expressions
from lazyt.ir.scalar import Expr

#: Where the end of a row begins: a multiple of the row's number at its point, and a constant.
Start = tuple[int, int]


def ends_of_sums(phase: ContractPhase, buffers: Mapping[str, Buffer]) -> dict[str, Start]:
    """Scratch whose rows end with a constant, whatever the sums of a contraction are."""
    rows, columns = ([a for a in g if a.extent > 1] for g in (phase.rows, phase.columns))
    if len(rows) != 1 or len(columns) != 1:
        return {}
    known = {rows[0], columns[0]}
    starts = [
        (-(d.coefficient(rows[0]) or 0), 1 - d.const)
        for d in idle_tiles(phase)
        if {atom for atom, _ in d.terms} <= known and d.coefficient(columns[0]) == 1
    ]
    if not starts:
        return {}
    row = row_of((*phase.batch, *phase.rows)) * columns[0].extent + variable(columns[0])
    stores = [s for s in phase.epilogue if isinstance(s, Store) and not s.guards]
    places = {s.buffer: linearize(s.index, buffers[s.buffer].shape) for s in stores}
    return {name: starts[0] for name, place in places.items() if place == row}


class BandPhase(CpuPhase):
    """A phase of a band. ``ends`` says where rows of scratch end with one value, and learns it."""

    def __init__(
        self,
        phase: Phase,
        expressions: Expressions,
        number: int,
        second: int,
        bands: Bands,
        ends: dict[str, Start],
    ) -> None:
        super().__init__(phase, expressions, number, False, second)
        self.bands, self.ends = bands, ends
        bodies = [s for stage in phase.stages for s in stage.body]
        self.kept = {s.name for s in bodies if isinstance(s, Keep)}
        self.named = 0

    def _reduction(self, stage: Stage, axis: Axis) -> Trees:
        before = self._end(stage, axis)
        out = super()._reduction(stage, axis)
        self.e.ends.clear()
        return [*before, *out]

    def _plain(self, stage: Stage, axis: Axis) -> Trees:
        before = self._end(stage, axis)
        out = super()._plain(stage, axis)
        self.e.ends.clear()
        return [*before, *out]

    def _end(self, stage: Stage, axis: Axis) -> Trees:
        """Statements that do what the end of the row needs, and say where the loop stops."""
        start = self._start(stage, axis)
        if start is None:
            return []
        self.named += 1
        label = f"{self.number}_{self.named}"
        names = ("first", "lanes", "near", "flat", "stop")
        first, lanes, near, flat, stop = (f"{name}{label}" for name in names)
        for statement in stage.body:
            if isinstance(statement, Store) and self._place(statement.buffer, axis) == linearize(
                statement.index, self.e.buffers[statement.buffer].shape
            ):
                self.ends[statement.buffer] = start
        whole = ct.integer(axis.extent)
        below = ct.binary("<", ct.name(near), whole)
        self.e.ends[axis] = ct.name(stop)
        return [
            ct.declare("lz_i64", first, self._first(start), const=True),
            ct.declare("lz_i64", lanes, _whole_lanes(ct.name(first)), const=True),
            ct.declare("lz_i64", near, ct.minimum(ct.name(lanes), whole), const=True),
            ct.declare("int", flat, ct.integer(0)),
            ct.branch(below, self._once(stage, axis, near, flat)),
            ct.declare("lz_i64", stop, ct.choose(ct.name(flat), ct.name(near), whole), const=True),
        ]

    def _first(self, start: Start) -> ct.Node:
        """Where the end of the current row begins; may lie outside of it."""
        row = ct.name(f"t{self.number}")
        if self.bands.points > 1:
            row = ct.binary("-", row, ct.binary("*", ct.name("g_b"), ct.integer(self.bands.rows)))
        first = ct.binary("*", row, ct.integer(start[0])) if start[0] != 1 else row
        return ct.binary("+", first, ct.integer(start[1]))

    def _once(self, stage: Stage, axis: Axis, near: str, flat: str) -> Trees:
        """The stage at its last step, stored at all steps of the end if folds allow it."""
        last = {axis: constant(axis.extent - 1)}
        out: Trees = []
        tests: Trees = []
        fill: Trees = []
        for number, statement in enumerate(stage.body):
            value = self.e.value(at_axes(statement.value, last))
            kind = compute_type(statement.value.dtype)
            if isinstance(statement, Let):
                out.append(ct.declare(kind, statement.name, value, const=True))
                continue
            name = f"once{number}"
            out.append(ct.declare(kind, name, value, const=True))
            if isinstance(statement, Reduce):
                neutral = self.e.identity(statement.kind, statement.value.dtype.compute)
                tests.append(ct.binary("==", ct.name(name), neutral))
            elif isinstance(statement, Store):
                made = Store(statement.buffer, statement.index, Var(name, statement.value.dtype))
                fill += self.e.store(made)
        done: Trees = [ct.assign(ct.name(flat), ct.integer(1))]
        if fill:
            loop = ct.loop(axis.name, ct.name(near), ct.integer(axis.extent), fill)
            done += self._simd(loop)
        if not tests:
            return [*out, *done]
        test = tests[0]
        for other in tests[1:]:
            test = ct.binary("&&", test, other)
        return [*out, ct.branch(test, done)]

    # -------------------------------------------------------------- legality

    def _start(self, stage: Stage, axis: Axis) -> Start | None:
        """Where the end of a stage begins; None where it has none, or steps there differ."""
        if stage.guard is not None or stage.sequential or not all(map(_is_simple, stage.body)):
            return None
        starts = set[Start]()
        for statement in stage.body:
            found = self._starts(statement.value, axis)
            if found is None:
                return None
            starts |= found
        return starts.pop() if len(starts) == 1 else None

    def _starts(self, value: Expr, axis: Axis) -> set[Start] | None:
        """Where ends begin of all that a value reads along the axis; None where some have none."""
        found = set[Start]()
        for item in sub_expressions(value):
            if isinstance(item, Var) and item.name in self.kept:
                return None
            if isinstance(item, Load) and _varies(item.index, axis):
                start = self.ends.get(item.buffer)
                place = linearize(item.index, self.e.buffers[item.buffer].shape)
                if start is None or place != self._place(item.buffer, axis):
                    return None
                found.add(start)
            indices = [item.index] if isinstance(item, Position) else []
            indices += [g.index for g in item.guards] if isinstance(item, Guarded) else []
            if _varies(indices, axis):
                return None
        return found

    def _place(self, buffer: str, axis: Axis) -> Linear | None:
        """The element of a step in the row's share of a buffer, if each row has one for a step."""
        rows = self.bands.points * self.bands.rows
        if math.prod(self.e.buffers[buffer].shape) != rows * axis.extent:
            return None
        return row_of(self.phase.grid) * axis.extent + variable(axis)


def _is_simple(statement: Statement) -> bool:
    """Whether what a statement does at steps with the same operands is the same, and known."""
    if isinstance(statement, Reduce):
        return statement.dtype.kind == "f" and statement.kind in ("sum", "max", "min")
    if isinstance(statement, Store):
        return not statement.guards and statement.combine is None
    return isinstance(statement, Let)


def _varies(indices: Iterable[Linear], axis: Axis) -> bool:
    return any(axis in axes_of(index) for index in indices)


def _whole_lanes(first: ct.Node) -> ct.Node:
    """The next step that begins a group of lanes."""
    past = ct.binary("+", first, ct.integer(LANES - 1))
    steps = ct.binary("*", ct.binary("/", past, ct.integer(LANES)), ct.integer(LANES))
    return ct.choose(ct.binary(">", past, ct.integer(0)), steps, ct.integer(0))
