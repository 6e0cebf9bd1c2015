"""Tiles of a phase: neighbouring points whose values are computed together, and how.

Short rows are transposed between memory and lanes, numbers of 16 bits are converted run by run, and
folds go along columns, along few rows part by part, or along several rows at a time. Loops prefetch
what they read, and store past the caches.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import count

from lazyt.codegen.c import tree as ct
from lazyt.codegen.c.family import Expressions, c_type, compute_type, is_positional
from lazyt.codegen.c.loops import TILE, PhasePrinter, Trees
from lazyt.codegen.c.prefetch import LEAST_COST, Prefetch, cost_of
from lazyt.codegen.loops.row_folds import EVEN, MOST_STEPS, RowFold, row_folds, rows_follow
from lazyt.codegen.loops.series import fresh_names, series_of
from lazyt.codegen.loops.stages import Places, halves_of
from lazyt.codegen.loops.transposes import Transpose
from lazyt.ir.index import (
    Axis,
    Linear,
    constant,
    data_of,
    linearize,
    replace_axes,
    sub_expressions,
    variable,
)
from lazyt.ir.kernel import LANES, Buffer, Keep, Let, Phase, Reduce, Stage, Statement, Store
from lazyt.ir.scalar import Call

# Folds along rows of what takes long functions in series: a loop over the lanes for each of them.
#
# As ``codegen/loops/series.py`` does for points: the lanes of one function overlap each other, then
# those of the next. Rows of softplus, 2048 by 1024, are summed in 3.1 ms instead of 5.7.


class SeriesPhase(PhasePrinter):
    """A phase that splits what it folds into loops over lanes."""

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


class TransposePhase(SeriesPhase):
    """A phase of which some stages go through transposed tiles.

    Attributes:
        turns: what a stage turns, by the stage.
        own: the arrays that hold the values of all steps, by the reduction that folds them.
    """

    def __init__(
        self, phase: Phase, expressions: Expressions, number: int, any_size: bool = False
    ) -> None:
        super().__init__(phase, expressions, number, any_size)
        self.transposes: dict[int, list[Transpose]] = {}
        self.own: dict[str, str] = {}

    def _memory(self, name: str, place: Linear, axis: Axis, step: Linear) -> ct.Node:
        """Where the tile's first row has its element of a step."""
        last = self.phase.grid[-1]
        low = variable(Axis("low", last.extent)) if self.first is not None else constant(0)
        here = replace_axes(place, {axis: step, last: low})
        return ct.binary("+", ct.name(name), self.e.place(self.e.buffers[name], here))

    def _reduction(self, stage: Stage, axis: Axis) -> Trees:
        """Folds of short rows: of memory as it lies, or else written out after a transpose."""
        folds = row_folds(self.phase, stage, self.e) if self.vector and not self.any_size else []
        turns = self.transposes.get(id(stage))
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

    def _at_once(self, stage: Stage, axis: Axis, turns: Sequence[Transpose]) -> ct.Node:
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
        self,
        stage: Stage,
        axis: Axis,
        steps: Mapping[int, ct.Node],
        turns: Sequence[Transpose] = (),
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

    def _across(self, turn: Transpose) -> str:
        """The function that turns a tile."""
        dtype = self.e.buffers[turn.buffer].dtype
        return f"lz_across_{'u16' if dtype.is_half else dtype.suffix}"

    def _transposed(
        self, stage: Stage, axis: Axis, count: ct.Node, turns: Sequence[Transpose]
    ) -> ct.Node:
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
        """A loop in order over steps that go through transposed tiles."""
        turns = self.transposes.get(id(stage))
        if not turns:
            return super()._scan(stage, axis)
        limit = self.e.limit(stage, axis)
        left = ct.minimum(ct.binary("-", limit, ct.name("k")), ct.integer(LANES))
        before, lanes = self._running(stage, axis), self._transposed(stage, axis, left, turns)
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


# Numbers of 16 bits: runs of halves become floats before a loop, and floats halves after it.
#
# gcc (12 at least) vectorises no instruction that converts float16, and eight operations on
# integers in its place cost more than what most loops do with an element. So loops have floats on
# the stack.


#: Points of a tile where nothing loops but values wait for the next loop over points; steps of a
#: row that is converted as a whole.
HALF_STRIP, LONGEST_ROW = 512, 4096
#: Floats that a stage may have on the stack at a time: half of a first-level cache.
ROOM = 4096


class HalfFloatPhase(TransposePhase):
    """A phase that converts halves that are neighbours together.

    Attributes:
        before_points, after_points: what has to stand around the next loop over the points of a
            tile.
    """

    def __init__(
        self, phase: Phase, expressions: Expressions, number: int, any_size: bool = False
    ) -> None:
        super().__init__(phase, expressions, number, any_size)
        self.before_points: Trees = []
        self.after_points: Trees = []
        self._numbers = count()
        if not self.vector or self.tile == TILE:
            return
        if self.shared or any(map(self._has_halves, phase.stages)):
            self.tile = HALF_STRIP

    # ------------------------------------------------------ lanes on the grid

    def _over_run(self, body: Trees, simd: bool = True, index: bool = True) -> Trees:
        before, after = self.before_points, self.after_points
        self.before_points, self.after_points = [], []
        return [*before, *super()._over_run(body, simd, index), *after]

    def _straight(self, stage: Stage) -> Trees:
        self._prepare(stage)
        out = super()._straight(stage)
        self.e.widened.clear()
        return out

    def _each_lane(self, stage: Stage, axis: Axis, count: ct.Node) -> ct.Node:
        self._prepare(stage)
        out = super()._each_lane(stage, axis, count)
        if self.vector:
            self.e.widened.clear()
        return out

    def _step(self, stage: Stage, axis: Axis, turn: ct.Node) -> ct.Node:
        """One of several steps that a loop over the points takes; ``turn`` says which."""
        before = self.before_points
        self.before_points = []
        self._prepare(stage, turn)
        self.before_points = [*before, *self.before_points]
        out = ct.block([turn, *self._element(stage, axis)])
        self.e.widened.clear()
        return out

    def _prepare(self, stage: Stage, turn: ct.Node | None = None) -> None:
        """Notes what has to be converted around the next loop over points. In ``turn`` the step is
        declared, where the loop is not inside of one over steps."""
        if not self.vector:
            return
        last = self.phase.grid[-1]
        low = Axis("low", last.extent)
        first = variable(low) if self.first is not None else Linear((), 0)
        read, written = halves_of(stage, last, self.e.buffers)
        if len(read + written) * self.tile > ROOM:
            return
        before: Trees = []
        after: Trees = []
        for number, (buffer, place) in enumerate(read + written):
            name = f"h{next(self._numbers)}"
            memory = self._pointer(buffer, replace_axes(place, {last: first}))
            self.before_points.append(self.array("lz_f32", name, (self.tile,)))
            self.e.widened[buffer.name, place] = ct.element(name, ct.name("u"))
            if number < len(read):
                before.append(self._to_floats(buffer, self.run, memory, name))
            else:
                after.append(self._to_halves(buffer, self.run, name, memory))
        for calls, around in ((before, self.before_points), (after, self.after_points)):
            if calls:
                around += calls if turn is None else [ct.block([turn, *calls])]

    # --------------------------------------------------- lanes along the loop

    def _all_lanes(self, stage: Stage, axis: Axis) -> Trees:
        before: Trees = []
        if not self.vector:
            read, _ = halves_of(stage, axis, self.e.buffers)
            start = variable(Axis("k", axis.extent))
            before = self._floats(read, [], axis, start, ct.integer(LANES), LANES, "l")[0]
        loop = super()._all_lanes(stage, axis)
        self.e.widened.clear()
        return [*before, *loop]

    def _plain(self, stage: Stage, axis: Axis) -> Trees:
        before: Trees = []
        after: Trees = []
        if self.vector:
            self._prepare(stage)
        elif not stage.sequential and axis.extent <= LONGEST_ROW:
            read, written = halves_of(stage, axis, self.e.buffers)
            limit, first = self.e.limit(stage, axis), Linear((), 0)
            if len(read + written) * axis.extent <= 2 * ROOM:
                row = (limit, axis.extent, axis.name)
                before, after = self._floats(read, written, axis, first, *row)
        out = super()._plain(stage, axis)
        self.e.widened.clear()
        return [*before, *out, *after]

    def _floats(
        self, read: Places, written: Places, axis: Axis, first: Linear, steps: ct.Node, room: int,
        lane: str,
    ) -> tuple[Trees, Trees]:  # fmt: skip
        """What converts ``steps`` neighbours along an axis, before a loop and after it."""
        before: Trees = []
        after: Trees = []
        for number, (buffer, place) in enumerate(read + written):
            name = f"h{next(self._numbers)}"
            memory = self._pointer(buffer, replace_axes(place, {axis: first}))
            before.append(self.array("lz_f32", name, (room,)))
            self.e.widened[buffer.name, place] = ct.element(name, ct.name(lane))
            if number < len(read):
                before.append(self._to_floats(buffer, steps, memory, name))
            else:
                after.append(self._to_halves(buffer, steps, name, memory))
        return before, after

    # ---------------------------------------------------------------- places

    def _to_floats(self, buffer: Buffer, count: ct.Node, memory: ct.Node, name: str) -> ct.Node:
        return self.e.prelude(f"lz_widen_{buffer.dtype.suffix}", count, memory, ct.name(name))

    def _to_halves(self, buffer: Buffer, count: ct.Node, name: str, memory: ct.Node) -> ct.Node:
        return self.e.prelude(f"lz_narrow_{buffer.dtype.suffix}", count, ct.name(name), memory)

    def _pointer(self, buffer: Buffer, place: Linear) -> ct.Node:
        band = self.e.bands.get(buffer.name)
        name = ct.name(band.name if band else buffer.name)
        return ct.binary("+", name, self.e.place(buffer, place))

    def _has_halves(self, stage: Stage) -> bool:
        read, written = halves_of(stage, self.phase.grid[-1], self.e.buffers)
        return bool(read or written)


# Folds along columns of short rows that lie one behind the other: lanes and columns are one loop.
#
# The sums of 32 lanes over 17 columns are 544 numbers, and so are the rows that they take next. Row
# by row, one column of 17 would be left for itself each time.


#: Columns up to which what is left of a row beside whole vectors counts.
MOST_COLUMNS = 128


class DensePhase(HalfFloatPhase):
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


# Folds along columns of few rows, part by part.
#
# Sums of 32 lanes for whole rows go through the second-level cache at every step, and are set and
# folded beside: for a hundred rows that is more traffic than the rows are. Here the tree of halves
# is walked depth first, so that one part for each of its levels is stored, in the first-level
# cache, and the steps of a part are written out and folded in registers.


#: Rows up to which it pays: as many as the lanes' steps in one loop.
FEW_ROWS = 256
#: What a step may be for its text to stand there many times.
MOST_STATEMENTS, MOST_STEP_COST = 4, 6.0
#: Steps in one loop: rows whose distance is a power of two share lines of the first-level cache, of
#: which there are eight, and each is read by several vectors.
STEPS_OF_LOOP = 8
#: Columns of a tile: what is stored of them fits the first-level cache.
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
            value = self._partial_fold(r, 0)
            if r.kind == "sum" and r.dtype.kind == "f":
                value = self._folded(r, self.e.identity(r.kind, r.dtype), value)
            body += self._over_run([ct.assign(self._cell(r.name), value)], index=False)
            self.e.values[r.name] = self._cell(r.name)
        return [*out, ct.block(body)]

    def _has_few_rows(self, stage: Stage, axis: Axis) -> bool:
        """Whether a stage folds few rows, wider than a vector, by little text and little work."""
        if not self.vector or self.any_size or stage.guard or axis in self.e.ends:
            return False
        if self.transposes.get(id(stage)) or self._has_halves(stage) or self._is_dense(stage, axis):
            return False
        if not 1 < axis.extent <= FEW_ROWS or self.phase.grid[-1].extent < 2 * LANES:
            return False
        if not all(isinstance(s, Let | Reduce) for s in stage.body):
            return False
        if any(isinstance(s, Reduce) and is_positional(s) for s in stage.body):
            return False
        calls = [e for s in stage.body for e in sub_expressions(s.value) if isinstance(e, Call)]
        return (
            sum(call.fn.cost for call in calls) <= MOST_STEP_COST
            and len(stage.body) <= MOST_STATEMENTS
        )

    def _folded_parts(self, stage: Stage, axis: Axis, parts: int, level: int) -> Trees:
        """Loops over both halves of a part, whose folds are stored in turn where the first was, and
        in the next place; where those join. ``bit0``, ``bit1``... are the bits of a part's
        number."""
        if parts == 1 << level:
            return self._part_of(stage, axis, parts, level)
        inner = self._folded_parts(stage, axis, parts, level + 1)
        folds: Trees = []
        for r in stage.body:
            if isinstance(r, Reduce):
                left, right = self._partial_fold(r, level), self._partial_fold(r, level, 1)
                folds.append(ct.assign(left, self._folded(r, left, right)))
        loop = ct.loop(f"bit{level}", ct.integer(0), ct.integer(2), inner)
        return [loop, *self._over_run(folds, index=False)]

    def _partial_fold(self, r: Reduce, level: int, further: int = 0) -> ct.Node:
        """Where the fold of a part is stored: as many come first as bits of its number are set."""
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
                body.append(ct.assign(self._partial_fold(r, level), value))
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


#: Rows side by side.
JAMMED_ROWS = 8
#: Rows far apart that are folded at once.
STREAMS = 4


class JamPhase(ColumnsPhase):
    """A phase whose tile may be some rows.

    Attributes:
        scattered: the rows of a tile lie as far apart as there are tiles.
    """

    scattered = False
    distance: ct.Node

    def _strip(self, tile: str, strips: int, extent: int, rows: int) -> Trees:
        if not self.scattered:
            return super()._strip(tile, strips, extent, rows)
        number = ct.name(tile)
        strip = ct.binary("%", number, ct.integer(strips)) if rows > 1 else number
        self.first, self.run = ct.name("low"), ct.integer(self.tile)
        self.distance = ct.integer(strips)
        out = [ct.declare("lz_i64", "low", strip, const=True)]
        if extent % self.tile == 0:
            return out
        left = ct.binary("-", ct.integer(extent + strips - 1), self.first)
        run = ct.minimum(ct.binary("/", left, self.distance), self.run)
        self.run = ct.name("run")
        return [*out, ct.declare("lz_i64", "run", run, const=True)]

    def _stands(self, step: ct.Node) -> ct.Node:
        return super()._stands(ct.binary("*", step, self.distance) if self.scattered else step)

    def _has_few_rows(self, stage: Stage, axis: Axis) -> bool:
        return not self.jammed and super()._has_few_rows(stage, axis)

    def _lanes(self, kind: str, name: str) -> ct.Node:
        if not self.jammed:
            return super()._lanes(kind, name)
        return self.array(kind, name, (self.tile, LANES))

    def _cell(self, name: str, *indices: ct.Node) -> ct.Node:
        if not (self.jammed and indices):
            return super()._cell(name, *indices)
        return ct.element(name, ct.name("u"), *indices)

    def _accumulators(self, r: Reduce, level: int, width: int) -> Trees:
        if not self.jammed:
            return super()._accumulators(r, level, width)
        name = f"{r.name}_a{level}"
        first = ct.assign(self._cell(name, ct.name("l")), self.e.identity(r.kind, r.dtype))
        loop = ct.loop("l", ct.integer(0), ct.integer(width), [first])
        return [self._lanes(compute_type(r.dtype), name), self._each_row(self._simd(loop))]

    def _each_lane(self, stage: Stage, axis: Axis, count: ct.Node) -> ct.Node:
        if not self.jammed:
            return super()._each_lane(stage, axis, count)
        place = ct.binary("+", ct.name("k"), ct.name("l"))
        here = ct.declare(self.integer, axis.name, place, const=True)
        loop = ct.loop("l", ct.integer(0), count, [here, *self._element(stage, axis)])
        return self._each_row(self._simd(loop))

    def _all_lanes(self, stage: Stage, axis: Axis) -> Trees:
        if not self.jammed:
            return super()._all_lanes(stage, axis)
        return [self._each_lane(stage, axis, ct.integer(LANES))]

    def _halve(self, reduces: Sequence[Reduce], level: int, width: int) -> Trees:
        """Folds by halves, each written out: a loop over them would go lane by lane."""
        across = self.vector and not self.jammed
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
        return [self._each_row(out)] if self.jammed else out

    def _each_row(self, body: Trees) -> ct.Node:
        (loop,) = self._over_run(body, simd=False)
        return loop


# Loops that prefetch memory, and that store past the caches.


#: Elements that are stored at once; shorter and longer runs were slower by a few percent. Where
#: instructions are ordered early (``LZ_ORDERED``), two vectors: of more, gcc has no overview.
RUN, ORDERED_RUN = 64, 32
#: Bytes of a line of the cache, and how many of them a loop prefetches at a time: a processor
#: fetches a dozen at once, and to prefetch 16 of each array lost half of what was gained.
LINE, GROUP = 64, 4


class PrefetchPhase(JamPhase):
    """A phase whose loops may prefetch.

    Attributes:
        prefetches: what a stage prefetches, by the stage.
    """

    def __init__(
        self, phase: Phase, expressions: Expressions, number: int, any_size: bool = False
    ) -> None:
        super().__init__(phase, expressions, number, any_size)
        self.prefetches: dict[int, list[Prefetch]] = {}
        self._prefetching: tuple[Stage, Axis] | None = None

    def _straight(self, stage: Stage) -> Trees:
        self._prefetching = (stage, self.phase.grid[-1]) if self.vector else None
        out = super()._straight(stage)
        self._prefetching = None
        return out

    def _plain(self, stage: Stage, axis: Axis) -> Trees:
        self._prefetching = None if self.vector else (stage, axis)
        out = super()._plain(stage, axis)
        self._prefetching = None
        return out

    def _points(self, name: str, count: ct.Node, body: Trees, simd: bool) -> Trees:
        """Points by groups, which prefetch some lines each."""
        wanted = (
            self.prefetches.get(id(self._prefetching[0]), [])
            if self._prefetching is not None
            else []
        )
        if not wanted or not simd:
            return super()._points(name, count, body, simd)
        assert self._prefetching is not None
        most = max(self.e.buffers[item.buffer].dtype.itemsize for item in wanted)
        size, whole, rest = GROUP * LINE // most, count, Trees()
        group, known = ct.name("g"), ct.fixed(count)
        points: ct.Node = ct.integer(size)
        if self.any_size:
            points = ct.minimum(ct.binary("-", count, group), points)
        elif known is None or known % size:
            whole = ct.binary("-", count, ct.integer(size - 1))
            begin = ct.binary("*", ct.binary("/", count, points), points)
            rest = self._simd(ct.loop(name, begin, count, body, kind=self.integer))
        here = ct.declare(self.integer, name, ct.binary("+", group, ct.name("v")), const=True)
        steps = self._simd(ct.loop("v", ct.integer(0), points, [here, *body]))
        fetched = self._prefetch_all(*self._prefetching, "g", size)
        return [ct.loop("g", ct.integer(0), whole, [*fetched, *steps], step=size), *rest]

    def _all_lanes(self, stage: Stage, axis: Axis) -> Trees:
        return [*self._prefetch_all(stage, axis, "k", LANES), *super()._all_lanes(stage, axis)]

    def _prefetch_all(self, stage: Stage, axis: Axis, step: str, count: int) -> Trees:
        """Prefetches the lines of ``count`` elements of all that a stage prefetches."""
        out: Trees = []
        light = cost_of(stage) < LEAST_COST and any(isinstance(s, Store) for s in stage.body)
        by_rows = not self.vector and "streams" in self.e.traits.fetches
        function = "lz_ahead_second" if by_rows and light else "lz_ahead"
        begin = variable(Axis(step, axis.extent))
        if self.vector and self.first is not None:
            begin = begin + variable(Axis("low", axis.extent))
        for item in self.prefetches.get(id(stage), ()):
            buffer = self.e.buffers[item.buffer]
            for offset in range(0, count, max(LINE // buffer.dtype.itemsize, 1)):
                place = replace_axes(item.place, {axis: begin + constant(offset)})
                at = ct.binary("+", ct.name(item.buffer), self.e.place(buffer, place))
                out.append(self.e.prelude(function, at))
        return out


class StreamPhase(PrefetchPhase):
    """A phase whose loops may store past the caches.

    Attributes:
        streams: whether one does, so that a thread has to wait for its stores.
    """

    streams = False

    def _parallel(self, variable: str, count: int, body: Trees, work: float) -> Trees:
        if not self.streams:
            return super()._parallel(variable, count, body, work)
        wait = self.e.prelude("lz_stream_end")
        clause, turn = self._turns_of_threads(count, work)
        if count == 1 or not clause:
            return [*super()._parallel(variable, count, body, work), wait]
        if turn > 1:
            step, last = ct.name(variable), ct.integer(turn - 1)
            ends = ct.binary("==", ct.binary("%", step, ct.integer(turn)), last)
            ends = ct.binary("||", ends, ct.binary("==", step, ct.integer(count - 1)))
            wait = ct.branch(ends, [wait])
        return super()._parallel(variable, count, [*body, wait], work)

    def _straight(self, stage: Stage) -> Trees:
        shared = any(isinstance(s, Let) and s.name in self.shared for s in stage.body)
        if not self.vector or shared or not self._streamed(stage, self.phase.grid[-1]):
            return super()._straight(stage)
        return self._runs_of_points(stage)

    def _points_of_step(self, stage: Stage, axis: Axis) -> Trees:
        plain = all(isinstance(s, Let | Store) for s in stage.body)
        if not plain or stage.guard or not self._streamed(stage, self.phase.grid[-1]):
            return super()._points_of_step(stage, axis)
        return self._runs_of_points(stage)

    def _runs_of_points(self, stage: Stage) -> Trees:
        """The stage for the points of a tile, which are along the grid's last axis."""
        axis = self.phase.grid[-1]

        def at(place: ct.Node) -> Trees:
            here = place if self.first is None else ct.binary("+", self.first, place)
            return [ct.declare("lz_i64", axis.name, here, const=True)] if axis.extent > 1 else []

        return self._in_runs(stage, axis, "u", self.run, at)

    def _plain(self, stage: Stage, axis: Axis) -> Trees:
        plain = all(isinstance(s, Let | Store) for s in stage.body)
        whole = not (self.vector or stage.sequential or stage.guard or axis in self.e.ends)
        if not (plain and whole and self._streamed(stage, axis)):
            return super()._plain(stage, axis)
        count = ct.integer(axis.extent)
        return self._in_runs(stage, axis, axis.name, count, lambda place: [])

    def _streamed(self, stage: Stage, axis: Axis) -> Mapping[str, str]:
        """The arrays that buffer the results that a stage stores one after the other."""
        found: dict[str, str] = {}
        for statement in stage.body:
            if not isinstance(statement, Store) or statement.buffer not in self.e.streamed:
                continue
            place = linearize(statement.index, self.e.buffers[statement.buffer].shape)
            plain = not statement.guards and statement.combine is None and not data_of(place)
            if plain and place.coefficient(axis) == 1:
                found[statement.buffer] = f"out{len(found)}"
        return found

    def _in_runs(
        self, stage: Stage, axis: Axis, name: str, count: ct.Node, at: Callable[[ct.Node], Trees]
    ) -> Trees:
        """The stage for ``count`` points ``name``, some of them at a time; ``at`` declares what
        depends on the point."""
        self.streams = True
        buffered = self._streamed(stage, axis)
        least = min(self.e.buffers[name].dtype.itemsize for name in buffered)
        run = ORDERED_RUN if self.e.ordered and least >= 4 else RUN  # whole lines
        begin, lead = ct.integer(0), Trees()
        unaligned = self._to_whole_line(stage, axis, LINE // least)
        if unaligned is not None:
            run, begin = LINE // least, ct.name("lead")
            lead.append(ct.declare("lz_i64", "lead", ct.minimum(unaligned, count), const=True))
        group, lane = ct.name("g"), ct.name("v")
        here = [ct.declare(self.integer, name, ct.binary("+", group, lane), const=True)]
        body: Trees = []
        before: Trees = []
        after: Trees = []
        for statement in stage.body:
            array = buffered.get(statement.buffer) if isinstance(statement, Store) else None
            if array is None:
                body += self._simple(statement)
                continue
            assert isinstance(statement, Store)
            buffer = self.e.buffers[statement.buffer]
            (stored,) = self.e.store(statement)
            body.append(ct.assign(ct.element(array, lane), stored.rvalue))
            before.append(self.array(c_type(buffer.dtype), array, (run,)))
            place = self.e.place(buffer, linearize(statement.index, buffer.shape))
            to = ct.binary("+", ct.name(buffer.name), place)
            function = f"lz_stream_{buffer.dtype.suffix}"
            given = self.e.prelude(function, ct.integer(run), ct.name(array), to)
            first = ct.declare(self.integer, name, group, const=True)
            after.append(ct.block([first, *at(ct.name(name)), given]))
        steps = ct.loop("v", ct.integer(0), ct.integer(run), [*here, *at(ct.name(name)), *body])
        whole = ct.binary("-", count, ct.integer(run - 1))
        fetched = self._prefetch_all(stage, axis, "g", run)
        turn = [*fetched, *before, *self._simd(steps), *after]
        out: Trees = [ct.loop("g", begin, whole, turn, step=run)]
        known = ct.fixed(count)
        if not lead and known is not None and known % run == 0:
            return out
        plain = [*at(ct.name(name)), *(t for s in stage.body for t in self._simple(s))]
        if not lead:
            begin = ct.binary("*", ct.binary("/", count, ct.integer(run)), ct.integer(run))
            return [*out, *self._simd(ct.loop(name, begin, count, plain))]
        lead += self._simd(ct.loop(name, ct.integer(0), begin, plain))
        left = ct.binary("-", count, begin)
        runs = ct.binary("*", ct.binary("/", left, ct.integer(run)), ct.integer(run))
        rest = self._simd(ct.loop(name, ct.binary("+", begin, runs), count, plain))
        return [ct.block([*lead, *out, *rest])]

    def _to_whole_line(self, stage: Stage, axis: Axis, line: int) -> ct.Node | None:
        """How many elements along an axis are before the first whole line of ``line`` of them; None
        where that is none, or where results are not aligned alike."""
        places = set()
        for statement in stage.body:
            if isinstance(statement, Store) and statement.buffer in self._streamed(stage, axis):
                place = linearize(statement.index, self.e.buffers[statement.buffer].shape)
                places.add(place - variable(axis))
        place = places.pop()
        strip = self.vector and self.first is not None
        if strip and self.tile % line:
            place = place + variable(Axis("low", axis.extent))
        aligned = all(factor % line == 0 for factor in (place.const, *(f for _, f in place.terms)))
        if places or aligned:
            return None
        past = ct.binary("%", self.e.index(place), ct.integer(line))
        whole = ct.integer(line)
        return ct.binary("%", ct.binary("-", whole, past), whole)
