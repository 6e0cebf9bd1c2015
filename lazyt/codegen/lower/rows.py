"""Lowers map and row groups: elementwise work, and reductions with what is fused around them.

How a part becomes phases:

* nothing is reduced: one straight-line stage over the whole domain;
* the reduced axis is short: it is unrolled, and the part is straight-line again;
* otherwise a loop per level of reductions that depend on each other, values between the loops;
* few rows of a long axis: each level is split into blocks that run in parallel, and a second
  phase folds the blocks. The order of folding is the same in every form (``reduction_levels``).

With ``wide``, the phases are for thousands of threads: what would be few rows there is split, and
so are the folds of many blocks.
"""

from __future__ import annotations

from collections.abc import Sequence

from lazyt.codegen.lower.axes import split_joined, split_last, walk_as_one
from lazyt.codegen.lower.emitter import Buffers, Emitter, indices_of, room_of
from lazyt.ir.decisions import decide, serves_all
from lazyt.ir.dtypes import int64
from lazyt.ir.graph import Node
from lazyt.ir.group import Group, Index, Part
from lazyt.ir.index import (
    Axis,
    Guard,
    Linear,
    Load,
    Position,
    Var,
    axes_of,
    constant,
    linearize,
    replace_axes,
    variable,
)
from lazyt.ir.kernel import BLOCK, LANES, Phase, Reduce, Stage, Store
from lazyt.ir.scalar import Expr, call, const

# Short reductions without a loop: their steps one after the other, in the order of a loop's.


FOLDS = {"sum": "add", "prod": "mul", "max": "maximum", "min": "minimum",
         "any": "logical_or", "all": "logical_and"}  # fmt: skip


def fold_written_out(emitter: Emitter, kind: str, values: list[Expr], node: Node) -> Expr:
    """The fold of at most BLOCK values, in the order of ``reduction_levels``: lane ``k % LANES``
    folds its values in order, and lanes are folded by halves.

    A lane of a sum begins with zero, which only makes 0 of -0: added once, at the end, it does the
    same for all lanes."""
    name = FOLDS[kind]
    lanes = values[:LANES]
    for number, value in enumerate(values[LANES:]):
        lanes[number % LANES] = call(name, lanes[number % LANES], value)
    half = LANES // 2
    while half:
        for lane in range(half):
            if lane + half < len(lanes):
                lanes[lane] = call(name, lanes[lane], lanes[lane + half])
        lanes = lanes[:half]
        half //= 2
    if kind == "sum" and node.dtype.kind == "f":
        return call(name, const(0.0, lanes[0].dtype), lanes[0])
    return lanes[0]


def position_written_out(emitter: Emitter, kind: str, values: list[Expr]) -> Expr:
    """The first extreme among values written out; NaN counts as the extreme."""
    best, where = values[0], const(0, int64)
    for step, value in enumerate(values[1:], 1):
        better = call("gt" if kind == "argmax" else "lt", value, best)
        if value.dtype.kind == "f":
            nan = call("logical_and", call("ne", value, value), call("eq", best, best))
            better = call("logical_or", better, nan)
        named = emitter.name(better, *emitter.traits(better))
        where = call("where", named, const(step, int64), where)
        where = emitter.name(where, *emitter.traits(where))
        if step < len(values) - 1:
            best = call("where", named, value, best)
            best = emitter.name(best, *emitter.traits(best))
    return where


#: Work (multiply-adds) per thread below which blocks are not split off.
SPLIT_WORK = 100_000
#: Tiles that keep all threads busy, and the neighbouring points that one may take.
ENOUGH_TILES = 16
WIDE = 1024
#: The same for a GPU: blocks of threads that keep all multiprocessors busy, two for each of an
#: H200's 132, the neighbouring points that one takes, and the longest row that one does alone.
MANY_BLOCKS = 264
POINTS_OF_BLOCK = 32
LONG_ROW = 32 * BLOCK


def lower_band_rows(group: Group, buffers: Buffers) -> list[Phase]:
    """The phase of a row group that is a stage of a band: each row on its own, in loops."""
    return [_PartLowering(group, 0, buffers, 0, True, False).rowwise()]


def lower_rows(
    group: Group, buffers: Buffers, unroll: int, whole: bool = False, wide: bool = False
) -> list[Phase]:
    """All phases of a map or row group; ``whole``: reductions are one loop, however long."""
    _declare_crossing(group, buffers)
    phases: list[Phase] = []
    for number in range(len(group.parts)):
        phases += _PartLowering(group, number, buffers, unroll, whole, wide).phases()
    return phases


def _declare_crossing(group: Group, buffers: Buffers) -> None:
    """Values that a later part reads go through memory even when nobody else wants them."""
    order = list(group.members)
    for node in order:
        for read in sorted(group.inside[node], key=order.index):
            if group.members[read][0] != group.members[node][0]:
                buffers.of(read)


class _PartLowering:
    def __init__(
        self, group: Group, number: int, buffers: Buffers, unroll: int, whole: bool, wide: bool
    ) -> None:
        self.group = group
        self.number = number
        self.buffers = buffers
        self.unroll = unroll
        self.whole = whole
        self.wide = wide
        self.part = group.parts[number]
        self.level = self._levels()
        self.fixed = len(buffers.work)

    def phases(self) -> list[Phase]:
        """The part's phases, with neighbouring axes merged where every access allows it."""
        made = self._attempt(self.part)
        split = split_last(self.part, made)
        if split is not self.part:
            self.group.parts[self.number] = self.part = split
            made = self._attempt(split)
        merged = self._merged(self.part, made)
        if merged.axes != self.part.axes:
            self.part = merged
            made = self._attempt(merged)
        looped = self.part.inner is not None and len(made) == 1 and made[0].lanes == "inner"
        if looped and decide("contiguous rows", self._contiguous_rows(made[0])):
            return self._attempt(self.part, "grid")
        return made

    def rowwise(self) -> Phase:
        """The part as one phase whose points are the rows."""
        made = self._loops(self.part, "inner")
        merged = self._merged(self.part, [made])
        if merged.axes != self.part.axes:
            self.part = merged
            made = self._loops(merged, "inner")
        return made

    def _levels(self) -> dict[Node, int]:
        """How many reductions of this part lie one behind the other before each member is known."""
        out: dict[Node, int] = {}
        for node in self.group.members:
            part, _ = self.group.members[node]
            if part != self.number:
                continue
            below = [out[r] for r in self.group.inside[node] if r in out]
            out[node] = max(below, default=0) + (node.op.name == "reduce")
        return out

    # ------------------------------------------------------------ choosing

    def _attempt(self, part: Part, lanes: str | None = None) -> list[Phase]:
        del self.buffers.work[self.fixed :]
        before, inner, after = part.extents()
        if part.inner is None:
            return [self._straight(part, 0)]
        if inner <= min(self.unroll, BLOCK) and not self.whole:
            return [self._straight(part, inner)]
        if lanes is None:
            lanes = decide("lanes", "grid" if after >= 8 else "inner")
        if self.whole:
            return [self._loops(part, lanes)]
        positional = any(r.params.kind.startswith("arg") for r in part.reduces)
        if not positional and decide("few", self._is_few(before, inner, after, lanes)):
            return self._split(part, lanes)
        return [self._loops(part, lanes)]

    def _is_few(self, before: int, inner: int, after: int, lanes: str) -> bool:
        """Whether the rows are too few to keep all threads busy, and long enough to be split."""
        columns = lanes == "grid"
        across = POINTS_OF_BLOCK if self.wide else WIDE
        tiles = before * -(-after // across) if columns else before * after
        short = LONG_ROW if self.wide and not columns else 2 * BLOCK
        heavy = before * inner * after > SPLIT_WORK and inner > short
        return heavy and tiles < (MANY_BLOCKS if self.wide else ENOUGH_TILES)

    def _merged(self, part: Part, phases: Sequence[Phase]) -> Part:
        """Merges neighbouring axes that every access walks as one."""
        accesses: list[Linear] = []
        shapes = {b.name: b.shape for b in (*self.buffers.known.values(), *self.buffers.work)}
        for phase in phases:
            for stage in phase.stages:
                for statement in stage.body:
                    for buffer, index in indices_of(statement):
                        flat = index[0] if buffer is None else linearize(index, shapes[buffer])
                        accesses.append(flat)
        axes = list(part.axes)
        inner = part.inner
        number = len(axes) - 2
        while number >= 0:
            first, second = axes[number], axes[number + 1]
            as_one = inner not in (number, number + 1) and walk_as_one(first, second, accesses)
            if decide("one axis", as_one) and as_one:
                joined = Axis(first.name, first.extent * second.extent)
                axes[number : number + 2] = [joined]
                if inner is not None and inner > number:
                    inner -= 1
                table = split_joined(first, second, joined)
                accesses = [replace_axes(a, table) for a in accesses]
            number -= 1
        if len(axes) == len(part.axes):
            return part
        merged = Part(tuple(axes), inner, part.reduces, part.outputs)
        self.group.parts[self.number] = merged
        return merged

    def _contiguous_rows(self, phase: Phase) -> bool:
        """Whether memory is walked along the last row rather than along the reduced axis."""
        inner = next((s.axis for s in phase.stages if s.axis is not None), None)
        last = phase.grid[-1] if phase.grid else None
        if inner is None or last is None or last.extent < 8:
            return False
        along_rows = along_inner = 0
        shapes = {b.name: b.shape for b in (*self.buffers.known.values(), *self.buffers.work)}
        # What is the same at every step is read once for a whole row, whichever axis has the lanes.
        looped = (s for stage in phase.stages if stage.axis is not None for s in stage.body)
        for statement in looped:
            for buffer, index in indices_of(statement):
                if buffer is None:
                    continue
                flat = linearize(index, shapes[buffer])
                if axes_of(flat) >= {inner, last}:  # a vector stays in a cache for all rows
                    along_rows += flat.coefficient(last) == 1
                    along_inner += flat.coefficient(inner) == 1
        return along_rows > along_inner

    # ------------------------------------------------------------- helpers

    def _store(self, emitter: Emitter, node: Node, place: Index, value: Expr) -> None:
        """Writes a member to its buffer, if it has one."""
        if node not in self.buffers.stored and node not in self.buffers.known:
            return
        buffer = self.buffers.of(node)
        statement = Store(buffer.name, place, value)
        level, inner = emitter.traits(value)
        if emitter.inner is not None and not inner:
            inner = any(emitter.traits(Position(i, int64))[1] for i in place)
        emitter.place(statement, level, inner)

    def _phase(
        self, emitter: Emitter, grid: tuple[Axis, ...], lanes: str, guard: Guard | None = None
    ) -> Phase:
        stages: list[Stage] = []
        last = max([*emitter.loops, *emitter.straight, 0])
        for level in range(last + 1):
            if level in emitter.loops:
                body = tuple(emitter.loops[level])
                stages.append(Stage(emitter.inner, body, guard=guard))
            if level in emitter.straight:
                stages.append(Stage(None, tuple(emitter.straight[level])))
        steps = emitter.inner.extent if emitter.inner is not None else 1
        work = float(sum(len(s.body) * (steps if s.axis is not None else 1) for s in stages))
        return Phase(tuple(a for a in grid), tuple(stages), lanes, work)

    # --------------------------------------------------------- the forms

    def _straight(self, part: Part, steps: int) -> Phase:
        """No loop: nothing reduced, or ``steps`` of a short axis written out."""
        emitter = Emitter(self.buffers, self.level, None, keep=False)
        for node in self.level:
            place = part.place(node.shape, self.group.members[node][1])
            if node.op.name == "reduce":
                self._unrolled(emitter, part, node, steps)
            elif self.group.members[node][1] == "full" and part.inner is not None:
                axis = part.axes[part.inner]
                for step in range(steps):
                    here = tuple(replace_axes(i, {axis: constant(step)}) for i in place)
                    self._store(emitter, node, here, emitter.evaluate(node, here))
            else:
                self._store(emitter, node, place, emitter.evaluate(node, place))
        body = [s for level in sorted(emitter.straight) for s in emitter.straight[level]]
        grid = part.rows
        return Phase(grid, (Stage(None, tuple(body)),), "grid", float(len(body)))

    def _unrolled(self, emitter: Emitter, part: Part, node: Node, steps: int) -> None:
        """A reduction written out in the order of ``reduction_levels``."""
        assert part.inner is not None
        axis, source = part.axes[part.inner], node.inputs[0]
        place = part.place(source.shape, "full")
        values: list[Expr] = []
        for step in range(steps):
            here = tuple(replace_axes(i, {axis: constant(step)}) for i in place)
            values.append(emitter.evaluate(source, here))
        kind = node.params.kind
        if kind.startswith("arg"):
            result = position_written_out(emitter, kind, values)
        else:
            result = fold_written_out(emitter, kind, values, node)
        name = emitter.name(result, *emitter.traits(result)).name
        emitter.define(node, name, part.place(node.shape, "row"), 0)
        self._store(emitter, node, part.place(node.shape, "row"), Var(name, node.dtype))

    def _loops(self, part: Part, lanes: str) -> Phase:
        assert part.inner is not None
        axis = part.axes[part.inner]
        emitter = Emitter(self.buffers, self.level, axis, keep=lanes == "inner")
        if not self.wide and (lanes == "inner" or part.rows):
            along = axis if lanes == "inner" else part.rows[-1]
            emitter.room = room_of(self.group, part, self.level, along)
        for stage in range(1, max(self.level.values()) + 2):
            emitter.stage = stage
            for node, level in self.level.items():
                extent = self.group.members[node][1]
                place = part.place(node.shape, extent)
                if node.op.name == "reduce" and level == stage:
                    self._folded(emitter, part, node, stage)
                elif node.op.name != "reduce" and level == stage - 1:
                    self._store(emitter, node, place, emitter.evaluate(node, place))
        return self._phase(emitter, part.rows, lanes)

    def _folded(self, emitter: Emitter, part: Part, node: Node, stage: int) -> None:
        source = node.inputs[0]
        value = emitter.evaluate(source, part.place(source.shape, "full"))
        name = f"r{len(emitter.folded)}"
        emitter.loops.setdefault(stage, []).append(
            Reduce(name, node.params.kind, value, node.dtype)
        )
        place = part.place(node.shape, "row")
        result = emitter.define(node, name, place, stage)
        self._store(emitter, node, place, result)

    def _split(self, part: Part, lanes: str) -> list[Phase]:
        """Two phases for every level: blocks in parallel, then the fold of the blocks."""
        assert part.inner is not None
        axis = part.axes[part.inner]
        blocks = Axis("q", -(-axis.extent // BLOCK))
        step = Axis(axis.name, BLOCK)
        position = variable(blocks) * BLOCK + variable(step)
        ragged = serves_all() or axis.extent % BLOCK > 0
        guard = Guard(position, 0, axis.extent) if ragged else None
        grid = (*part.axes[: part.inner], blocks, *part.axes[part.inner + 1 :])
        phases: list[Phase] = []
        for stage in range(1, max(self.level.values()) + 2):
            emitter = Emitter(self.buffers, self.level, step, keep=False)
            emitter.stage = 1
            partial: list[tuple[Node, str]] = []
            for node, level in self.level.items():
                where = node.inputs[0] if node.op.name == "reduce" else node
                if level != (stage if where is not node else stage - 1):
                    continue
                extent = "full" if where is not node else self.group.members[node][1]
                place = part.place(where.shape, extent)
                if extent == "row":
                    continue
                here = tuple(replace_axes(i, {axis: position}) for i in place)
                value = emitter.evaluate(where, here)
                if where is node:
                    self._store(emitter, node, here, value)
                    continue
                name = f"r{len(partial)}"
                emitter.loops.setdefault(1, []).append(
                    Reduce(name, node.params.kind, value, node.dtype)
                )
                work = self.buffers.scratch(node.dtype, tuple(a.extent for a in grid))
                index = tuple(variable(a) for a in grid)
                emitter.straight.setdefault(1, []).append(
                    Store(work.name, index, Var(name, node.dtype))
                )
                partial.append((node, work.name))
            folded, whole = blocks, grid
            if emitter.loops:
                phases.append(self._phase(emitter, grid, lanes, guard))
            while self.wide and partial and folded.extent > BLOCK:
                thin, folded, whole, partial = self._thin(lanes, folded, whole, partial)
                phases.append(thin)
            if partial or any(self._row_output(n, stage - 1) for n in self.level):
                phases += self._combine(part, lanes, folded, whole, partial, stage)
        return phases

    def _thin(
        self, lanes: str, blocks: Axis, grid: tuple[Axis, ...],
        partial: Sequence[tuple[Node, str]],
    ) -> tuple[Phase, Axis, tuple[Axis, ...], list[tuple[Node, str]]]:  # fmt: skip
        """Folds blocks of blocks: the phase, and what is left in place of the other arguments."""
        step = Axis("b", BLOCK)
        more = Axis(f"{blocks.name}q", -(-blocks.extent // BLOCK))
        position = variable(more) * BLOCK + variable(step)
        guard = Guard(position, 0, blocks.extent) if blocks.extent % BLOCK else None
        rest = tuple(more if axis is blocks else axis for axis in grid)
        emitter = Emitter(self.buffers, self.level, step, keep=False)
        emitter.stage = 1
        left: list[tuple[Node, str]] = []
        for number, (node, work) in enumerate(partial):
            place = tuple(replace_axes(variable(a), {blocks: position}) for a in grid)
            value = Load(work, place, node.dtype)
            name = f"r{number}"
            emitter.loops.setdefault(1, []).append(
                Reduce(name, node.params.kind, value, node.dtype)
            )
            target = self.buffers.scratch(node.dtype, tuple(a.extent for a in rest))
            store = Store(target.name, tuple(variable(a) for a in rest), Var(name, node.dtype))
            emitter.straight.setdefault(1, []).append(store)
            left.append((node, target.name))
        return self._phase(emitter, rest, lanes, guard), more, rest, left

    def _row_output(self, node: Node, level: int) -> bool:
        return (
            node.op.name != "reduce"
            and self.level[node] == level
            and self.group.members[node][1] == "row"
        )

    def _combine(
        self,
        part: Part,
        lanes: str,
        blocks: Axis,
        grid: tuple[Axis, ...],
        partial: Sequence[tuple[Node, str]],
        stage: int,
    ) -> list[Phase]:
        """Folds the blocks of one level, and computes the rows' members that wait for it."""
        emitter = Emitter(self.buffers, self.level, blocks, keep=False)
        emitter.stage = 1
        for number, (node, work) in enumerate(partial):
            value = Load(work, tuple(variable(a) for a in grid), node.dtype)
            name = f"r{number}"
            emitter.loops.setdefault(1, []).append(
                Reduce(name, node.params.kind, value, node.dtype)
            )
            place = part.place(node.shape, "row")
            self.buffers.of(node)
            self._store(emitter, node, place, emitter.define(node, name, place, 1))
        known = ([0] if stage == 1 else []) + ([stage] if partial else [])
        for node in self.level:
            if any(self._row_output(node, level) for level in known):
                place = part.place(node.shape, "row")
                self._store(emitter, node, place, emitter.evaluate(node, place))
        if not emitter.loops and not emitter.straight:
            return []
        return [self._phase(emitter, part.rows, lanes)]
