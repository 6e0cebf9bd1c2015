"""Phases with lanes across short rows: tiles that are turned, and folds that need no turning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from lazyt.codegen.c import tree as ct
from lazyt.codegen.c.family import Expressions, c_type, compute_type, is_positional
from lazyt.codegen.c.loops import PhasePrinter, Trees
from lazyt.codegen.loops.row_folds import MOST_STEPS, RowFold, row_folds
from lazyt.codegen.loops.series import fresh_names, series_of
from lazyt.codegen.loops.transposes import Turn
from lazyt.ir.index import Axis, Linear, constant, replace_axes, sub_expressions, variable
from lazyt.ir.kernel import LANES, Keep, Let, Phase, Reduce, Stage, Statement
from lazyt.ir.scalar import Call

# Folds along rows of what takes long functions in series: a loop over the lanes for each of them.
#
# As ``codegen/loops/series.py`` does for points: the lanes of one function overlap each other, then
# those of the next. Rows of softplus, 2048 by 1024, are summed in 3.1 ms instead of 5.7.


class SeriesPhase(PhasePrinter):
    """A phase that takes what it folds apart into loops over lanes."""

    def __init__(
        self, phase: Phase, expressions: Expressions, number: int, any_size: bool = False
    ) -> None:
        super().__init__(phase, expressions, number, any_size)
        self._fresh = fresh_names(phase)
        self._lined: set[str] = set()  # values that have an array for all lanes

    def _simple(self, statement: Statement) -> Trees:
        if not isinstance(statement, Let) or statement.name not in self._lined:
            return super()._simple(statement)
        cell = ct.element(statement.name, ct.name("l"))
        value = self.e.value(statement.value)
        self.e.values[statement.name] = cell
        return [ct.assign(cell, value)]

    def _all_lanes(self, stage: Stage, axis: Axis) -> Trees:
        plain = all(isinstance(s, Let | Reduce) for s in stage.body)
        found = series_of(stage.body, self._fresh) if plain and not self.vector else None
        if found is None:
            return super()._all_lanes(stage, axis)
        out: Trees = []
        for step in found.steps:
            for value in step.waiting:
                kind = compute_type(value.value.dtype)
                out.append(self.array(kind, value.name, (LANES,)))
                self._lined.add(value.name)
            body = (*step.needed, *step.waiting)
            out += super()._all_lanes(replace(stage, body=body), axis)
        return [*out, *super()._all_lanes(replace(stage, body=found.last), axis)]


#: Statements of all steps together, and the cost of one, up to which steps are written out.
MOST_TEXT, MOST_COST = 128, 6.0


class TurnedPhase(SeriesPhase):
    """A phase of which some stages go through turned tiles.

    Attributes:
        turns: what a stage turns, by the stage.
        own: the arrays that hold the values of all steps, by the reduction that waits for them.
    """

    def __init__(
        self, phase: Phase, expressions: Expressions, number: int, any_size: bool = False
    ) -> None:
        super().__init__(phase, expressions, number, any_size)
        self.turns: dict[int, list[Turn]] = {}
        self.own: dict[str, str] = {}

    def _memory(self, name: str, place: Linear, axis: Axis, step: Linear) -> ct.Node:
        """Where the tile's first row has its element of a step."""
        last = self.phase.grid[-1]
        low = variable(Axis("low", last.extent)) if self.first is not None else constant(0)
        here = replace_axes(place, {axis: step, last: low})
        return ct.binary("+", ct.name(name), self.e.place(self.e.buffers[name], here))

    def _reduction(self, stage: Stage, axis: Axis) -> Trees:
        """Folds of short rows: of memory as it lies, or else written out behind a turned tile."""
        folds = row_folds(self.phase, stage, self.e) if self.vector and not self.any_size else []
        turns = self.turns.get(id(stage))
        if folds:
            return self._of_memory(folds, axis)
        if not turns or stage.guard or axis.extent > MOST_STEPS:
            return super()._reduction(stage, axis)
        reduces = [s for s in stage.body if isinstance(s, Reduce)]
        if any(map(is_positional, reduces)):
            return super()._reduction(stage, axis)
        out: Trees = [self._array(compute_type(r.dtype), r.name) for r in reduces]
        if _is_light(stage, axis) and not any(turn.stored for turn in turns):
            out.append(self._at_once(stage, axis, turns))
        else:
            out += self._stored(stage, axis, reduces)
        self.e.values.update({r.name: self._cell(r.name) for r in reduces})
        return out

    def _of_memory(self, folds: Sequence[RowFold], axis: Axis) -> Trees:
        """Folds that functions of the prelude do."""
        out: Trees = []
        for fold in folds:
            memory = self._memory(fold.buffer, fold.place, axis, constant(0))
            name, steps = fold.reduce.name, ct.integer(axis.extent)
            out.append(self._array(compute_type(fold.reduce.dtype), name))
            given = [self.run, steps, memory, ct.integer(fold.pitch), ct.name(name)]
            if fold.factors is not None:
                given.append(self._memory(*fold.factors, axis, constant(0)))
            out.append(self.e.prelude(fold.function, *given))
            self.e.values[name] = self._cell(name)
        return out

    def _at_once(self, stage: Stage, axis: Axis, turns: Sequence[Turn]) -> ct.Node:
        """All steps in one loop over the tile's rows, each as text of its own."""
        before: Trees = []
        width, steps = ct.integer(self.tile), ct.integer(axis.extent)
        for number, turn in enumerate(turns):
            kind, array = c_type(self.e.buffers[turn.buffer].dtype), f"turn{number}"
            memory = self._memory(turn.buffer, turn.place, axis, constant(0))
            before.append(self.array(kind, array, (axis.extent * self.tile,)))
            pitch, own = ct.integer(turn.pitch), ct.name(array)
            function = self._across(turn)
            before.append(self.e.prelude(function, self.run, steps, memory, pitch, own, width))
        steps_of = {step: ct.integer(step) for step in range(axis.extent)}
        body, values = self._written_out(stage, axis, steps_of, turns)
        for statement in stage.body:
            if isinstance(statement, Reduce):
                body += self._tree(statement, values[statement.name])
        return ct.block([*before, *self._over_run(body)])

    def _written_out(
        self, stage: Stage, axis: Axis, steps: Mapping[int, ct.Node], turns: Sequence[Turn] = ()
    ) -> tuple[Trees, dict[str, list[ct.Node]]]:
        """The text of each step, which has a number for its names, and the values of each fold."""
        body: Trees = []
        values: dict[str, list[ct.Node]] = {}
        statements = [s for other in self.phase.stages for s in other.body]
        kept = [s.name for s in statements if isinstance(s, Keep) and s.name in self.e.values]
        for step, place in steps.items():
            self.e.values[axis.name] = place
            self.e.values.update({name: self._cell(name, place) for name in kept})
            for number, turn in enumerate(turns):
                here = ct.binary("+", ct.integer(step * self.tile), ct.name("u"))
                self.e.elements[turn.buffer, turn.place] = ct.element(f"turn{number}", here)
            for statement in stage.body:
                value = self.e.value(statement.value)
                if isinstance(statement, Reduce):
                    values.setdefault(statement.name, []).append(self._truth(statement, value))
                    continue
                assert isinstance(statement, Let)
                kind, name = compute_type(statement.value.dtype), f"{statement.name}_{step}"
                body.append(ct.declare(kind, name, value, const=True))
                self.e.values[statement.name] = ct.name(name)
        for name in (axis.name, *(s.name for s in stage.body if isinstance(s, Let))):
            del self.e.values[name]
        self.e.values.update({name: self._cell(name, ct.name(axis.name)) for name in kept})
        self.e.elements.clear()
        return body, values

    def _stored(self, stage: Stage, axis: Axis, reduces: Sequence[Reduce]) -> Trees:
        """The values of all steps in arrays, and then their folds."""
        out: Trees = []
        keeps = [s for s in stage.body if isinstance(s, Keep)]
        for keep in keeps:
            out.append(self._keep(keep, axis))
        same = {k.value: k.name for k in keeps}
        self.own = {r.name: same.get(r.value, "") for r in reduces}
        body: Trees = []
        for r in reduces:
            if not self.own[r.name]:
                self.own[r.name] = f"{r.name}_a"
                body.append(self._array(compute_type(r.dtype), f"{r.name}_a", axis.extent))
        body += self._elements(stage, axis, ct.integer(0))
        folds: Trees = []
        for r in reduces:
            cells = [self._cell(self.own[r.name], ct.integer(k)) for k in range(axis.extent)]
            folds += self._tree(r, cells)
        self.own = {}
        return [*out, ct.block([*body, *self._over_run(folds, index=False)])]

    def _take(self, r: Reduce, axis: Axis) -> Trees:
        if r.name not in self.own:
            return super()._take(r, axis)
        if self.own[r.name] != f"{r.name}_a":
            return []
        cell = self._cell(self.own[r.name], ct.name(axis.name))
        return [ct.assign(cell, self._truth(r, self.e.value(r.value)))]

    def _tree(self, r: Reduce, values: Sequence[ct.Node]) -> Trees:
        """The fold of all steps' values, written out so that few parts wait for others. That lanes
        start from 0 tells only where the sum is -0 without it."""
        out: Trees = []
        whole = self._part(r, dict(enumerate(values)), 0, 1, out)
        assert whole is not None
        if r.kind == "sum" and r.dtype.kind == "f":
            whole = self._folded(r, self.e.identity(r.kind, r.dtype), whole)
        return [*out, ct.assign(self._cell(r.name), whole)]

    def _part(
        self, r: Reduce, values: Mapping[int, ct.Node], lane: int, distance: int, out: Trees
    ) -> ct.Node | None:
        """The fold of the lanes ``distance`` apart from ``lane`` on, whose folds are named in
        ``out``; None where no step has a value for them."""
        if distance == LANES:
            value = values.get(lane)
            for step in range(lane + LANES, max(values) + 1, LANES):
                value = value and self._folded(r, value, values[step])
            return value
        left = self._part(r, values, lane, 2 * distance, out)
        right = self._part(r, values, lane + distance, 2 * distance, out)
        if left is None or right is None:
            return left
        name = f"{r.name}_{lane}_{distance}"
        value = self._folded(r, left, right)
        out.append(ct.declare(compute_type(r.dtype), name, value, const=True))
        return ct.name(name)

    def _folded(self, r: Reduce, left: ct.Node, right: ct.Node) -> ct.Node:
        if r.kind in ("max", "min") and r.dtype.compute.kind == "f":
            name = "maximum" if r.kind == "max" else "minimum"
            return self.e.prelude(f"lz_fold_{name}_{r.dtype.compute.suffix}", left, right)
        return self.e.fold(r.kind, left, right, r.dtype)

    def _across(self, turn: Turn) -> str:
        """The function that turns a tile."""
        dtype = self.e.buffers[turn.buffer].dtype
        return f"lz_across_{'u16' if dtype.is_half else dtype.suffix}"

    def _turned(self, stage: Stage, axis: Axis, count: ct.Node, turns: Sequence[Turn]) -> ct.Node:
        """Steps that read and write arrays, which rows of memory become before and after."""
        first = variable(Axis("k", axis.extent))
        before: Trees = [ct.declare("lz_i64", "steps", count, const=True)]
        after: Trees = []
        steps, width = ct.name("steps"), ct.integer(self.tile)
        for number, turn in enumerate(turns):
            buffer, array = self.e.buffers[turn.buffer], f"turn{number}"
            memory = self._memory(turn.buffer, turn.place, axis, first)
            pitch, own = ct.integer(turn.pitch), ct.name(array)
            before.append(self.array(c_type(buffer.dtype), array, (LANES * self.tile,)))
            function = self._across(turn)
            if turn.stored:
                after.append(self.e.prelude(function, steps, self.run, own, width, memory, pitch))
            else:
                before.append(self.e.prelude(function, self.run, steps, memory, pitch, own, width))
            here = ct.binary("+", ct.binary("*", ct.name("l"), width), ct.name("u"))
            self.e.elements[buffer.name, turn.place] = ct.element(array, here)
        if any(isinstance(s, Reduce) for s in stage.body):
            loop = super()._each_lane(stage, axis, steps)
        else:
            start, here = ct.name("k"), ct.name(axis.name)
            lane = ct.declare("lz_i64", "l", ct.binary("-", here, start), const=True)
            stop = ct.binary("+", start, steps)
            loop = ct.loop(
                axis.name,
                start,
                stop,
                [lane, *self._points_of_step(stage, axis)],
                kind=self.integer,
            )
        self.e.elements.clear()
        return ct.block([*before, loop, *after])

    def _scan(self, stage: Stage, axis: Axis) -> Trees:
        """A loop in order over steps that go through turned tiles."""
        turns = self.turns.get(id(stage))
        if not turns:
            return super()._scan(stage, axis)
        limit = self.e.limit(stage, axis)
        left = ct.minimum(ct.binary("-", limit, ct.name("k")), ct.integer(LANES))
        before, lanes = self._running(stage, axis), self._turned(stage, axis, left, turns)
        return [*before, ct.loop("k", ct.integer(0), limit, [lanes], step=LANES)]

    def _points_of_step(self, stage: Stage, axis: Axis) -> Trees:
        """The loop over the tile's points in one step."""
        return self._over_run(self._element(stage, axis))


def _is_light(stage: Stage, axis: Axis) -> bool:
    """Whether writing out the stage's body for each step is little text and little work."""
    if not all(isinstance(s, Let | Reduce) for s in stage.body):
        return False
    calls = [e for s in stage.body for e in sub_expressions(s.value) if isinstance(e, Call)]
    little = sum(call.fn.cost for call in calls) <= MOST_COST
    return little and axis.extent * len(stage.body) <= MOST_TEXT
