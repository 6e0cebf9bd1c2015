"""Phases for a CPU: how wide a tile is, and which steps of a loop go together.

Memory is read fast where it is read on and on. A tile of a reduction along columns therefore takes
whole rows where their sums fit the second-level cache, and several steps of each sum at once: each
is a stream, and sums go to memory once for all of them. The order of folding stays.

Where an index divides the axis of a loop (a channel's weight, along channels and pixels), the loop
is two: over quotients, and over what has the same quotient.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from lazyt.codegen.c import tree as ct
from lazyt.codegen.c.family import Expressions
from lazyt.codegen.c.loops import STRIP, TILE, Trees
from lazyt.codegen.c.prefetch import prefetches_of, scatters
from lazyt.codegen.c.tiles import COLUMNS, JAMMED_ROWS, STREAMS, StreamPhase
from lazyt.codegen.loops.extremes import split_positions
from lazyt.codegen.loops.forms import LoopForm, suits, sums_only
from lazyt.codegen.loops.row_folds import best_lanes, is_jammed, row_folds
from lazyt.codegen.loops.series import split_series
from lazyt.codegen.loops.transposes import lanes_across_rows, rows_together, transposes_of
from lazyt.codegen.lower.axes import LEAST_RUN, divided_along
from lazyt.codegen.lower.emitter import indices_of
from lazyt.ir.index import (
    Axis,
    Linear,
    Quotient,
    Remainder,
    linearize,
    replace_axes,
    variable,
)
from lazyt.ir.kernel import BLOCK, LANES, Keep, Phase, Reduce, Stage, reduction_levels

#: Bytes of sums that a tile holds at most: a quarter of a usual second-level cache.
SUMS = 256 * 1024
#: Tiles for threads to share while a tile has NARROW points; and fewer while it has a few vectors.
LEAST_TILES, NARROW, FEW_TILES = 8, 256, 4
#: Steps of a sum that are taken at once: along whole rows, and along parts of rows.
STEPS, PART_STEPS = 4, 8
#: Statements of a stage's body from which steps are taken one by one.
LONG_BODY = 16


class AnySizePhase(StreamPhase):
    """A phase of whose text other extents change numbers, not the form; ``second`` is the size of
    the second level of caches."""

    def __init__(self, phase: Phase, expressions: Expressions, number: int, second: int) -> None:
        phase = _split_folds(phase, expressions)
        super().__init__(phase, expressions, number, any_size=True)
        expressions.values.clear()  # a phase's names are its own
        self.prefetches = prefetches_of(phase, expressions, second, True)


class CpuPhase(StreamPhase):
    """A phase over tiles that suit the caches; ``second`` is the size of the second level. A
    ``form`` says otherwise, where it suits the phase. ``row_ends`` gives what stands before a
    stage's loop, and notes in the expressions where that ends."""

    def __init__(
        self, phase: Phase, expressions: Expressions, number: int, second: int,
        form: LoopForm | None = None, threads: int = 64,
        row_ends: Callable[[Stage, Axis], Trees] | None = None,
    ) -> None:  # fmt: skip
        given = form if form is not None and suits(phase, form) else LoopForm()
        phase = replace(phase, lanes=given.lanes or best_lanes(phase, expressions))
        if not (given.lanes or expressions.bands):
            phase = lanes_across_rows(phase, expressions)
        if not expressions.bands:
            phase = _split_folds(phase, expressions)
        jammed = is_jammed(phase, expressions)
        self.scattered = not jammed and scatters(phase, expressions)
        self.jammed = jammed or self.scattered
        phase = replace(phase, lanes="grid") if self.jammed else phase
        super().__init__(phase, expressions, number)
        expressions.values.clear()  # a phase's names are its own
        self._row_ends = row_ends
        self.piece = ""
        self.steps = 1
        self.sums = LANES
        if self.vector and not self.jammed and any(s.axis is not None for s in phase.stages):
            # By identity: equal stages of a phase are two, and the phase outlives its printer.
            self.transposes = {id(s): transposes_of(phase, s, expressions) for s in phase.stages}
            if any(self.transposes.values()):
                self.tile = rows_together(phase, self.tile)
            else:
                self._widen(second, threads)
        if not self.jammed:
            self.prefetches = prefetches_of(phase, expressions, second)
        self.share = given.share
        rows = STREAMS if self.scattered else JAMMED_ROWS
        self.tile = rows if self.jammed else given.tile or self.tile
        self.steps = given.steps or self.steps

    def form(self) -> LoopForm:
        """The form in which the phase is written, in full."""
        if not self.vector or self.jammed:
            return LoopForm(lanes="inner", share=self.share)
        tile = min(self.tile, max(self.phase.grid[-1].extent, 1))
        return LoopForm(tile, self.steps, "grid", self.share)

    def part(self, start: str, stop: str) -> Trees:
        """The phase for a range of its grid points, on one thread; only for lanes ``inner``."""
        tile = f"t{self.number}"
        body = self._at(tile, self.phase.grid)
        return [ct.loop(tile, ct.name(start), ct.name(stop), body)]

    def _turns_of_threads(self, count: int, work: float) -> tuple[str, int]:
        if self.share == 0:
            return super()._turns_of_threads(count, work)
        clause = f"omp parallel for num_threads(threads) schedule(dynamic, {self.share})"
        return (clause, self.share) if self.share > 0 else ("", 0)

    # ---------------------------------------------------------------- tiles

    def _widen(self, second: int, threads: int) -> None:
        """Chooses the tile's points and the steps of sums taken at once."""
        stages = [s for s in self.phase.stages if s.axis is not None]
        bodies = [r for s in stages for r in s.body]
        reduces = [r for r in bodies if isinstance(r, Reduce)]
        if not sums_only(self.phase):
            return
        extent = self.phase.grid[-1].extent
        rows = math.prod(a.extent for a in self.phase.grid[:-1])
        most = min(SUMS // max(sum(map(_sum_bytes, stages)), 1), STRIP)
        if len(stages) > 1:  # what the first reads is to be there for the next
            item = max(r.dtype.compute.itemsize for r in reduces)
            steps = max(s.axis.extent for s in stages if s.axis is not None)
            if self._alias(stages) * steps * item <= second:
                most = min(most, second // (2 * item * max(steps, 1)))
        if all(s.axis is None or self._has_few_rows(s, s.axis) for s in stages):
            most = COLUMNS
        most = max(most // TILE * TILE, TILE)
        few = min(FEW_TILES, threads)
        shared = ((LEAST_TILES, NARROW), (few, TILE))
        strips = max(-(-extent // most), *(min(-(-n // rows), extent // w) for n, w in shared))
        if rows == 1 < strips < LEAST_TILES:  # as many for each of a few threads
            strips = min(-(-strips // few) * few, extent // TILE)
        self.tile = extent if strips <= 1 else -(-extent // (strips * TILE)) * TILE
        self.steps = STEPS if self.tile == extent else PART_STEPS

    def _alias(self, stages: Sequence[Stage]) -> int:
        """The largest power of two, in elements, that divides how far rows are from each
        other: of a part of each row, no more than every such line of a cache holds anything."""
        pitches = [1]
        for stage in stages:
            for statement in stage.body:
                for buffer, index in indices_of(statement):
                    if buffer is not None and stage.axis is not None:
                        place = linearize(index, self.e.buffers[buffer].shape)
                        pitches.append(place.coefficient(stage.axis) or 1)
        return max(abs(pitch) & -abs(pitch) for pitch in pitches)

    def _accumulators(self, r: Reduce, level: int, width: int) -> Trees:
        self.sums = width
        return super()._accumulators(r, level, width)

    def _lanes(self, kind: str, name: str) -> ct.Node:
        if name in self.flat:
            return self.array(kind, name, (self.sums * self.tile,))
        if self.steps == 1:
            return super()._lanes(kind, name)
        return self.array(kind, name, (self.sums, self.tile))

    # ---------------------------------------------------------------- steps

    def _elements(self, stage: Stage, axis: Axis, base: ct.Node) -> Trees:
        together = self.steps * LANES
        room = min(axis.extent, BLOCK)
        transposes = self.transposes.get(id(stage))
        if self.piece:
            return [ct.block(self._piece(stage, axis, base))]
        if self.steps == 1 or room < together or len(stage.body) >= LONG_BODY or transposes:
            return super()._elements(stage, axis, base)
        limit = self.e.limit(stage, axis)
        start: ct.Node = ct.integer(0)
        if axis.extent > BLOCK:
            start = ct.binary("*", base, ct.integer(BLOCK))
            limit = ct.minimum(limit, ct.binary("+", start, ct.integer(BLOCK)))
        ragged = axis.extent % together != 0 or stage.guard is not None
        k, end = ct.name("k"), ct.name("end")
        whole = ct.binary("-", end, ct.integer(together - 1)) if ragged else end
        out: Trees = [ct.declare("lz_i64", "end", limit, const=True)]
        out.append(ct.declare("lz_i64", "k", start))
        body = self._several(stage, axis)
        advance = ct.assign(k, ct.integer(together), "+=")
        out.append(ct.while_loop(ct.binary("<", k, whole), [*body, advance]))
        if ragged:
            stop = ct.minimum(ct.binary("-", end, k), ct.integer(LANES))
            rest = self._each_lane(stage, axis, stop)
            advance = ct.assign(k, ct.integer(LANES), "+=")
            out.append(ct.while_loop(ct.binary("<", k, end), [rest, advance]))
        return [ct.block(out)]

    def _several(self, stage: Stage, axis: Axis) -> Trees:
        """Several steps of every lane at ``k``."""
        if self.flat:
            return self._all_cells(stage, axis, self.steps)
        many: Trees = []
        for step in range(self.steps):
            here = ct.binary("+", ct.name("k"), ct.integer(step * LANES))
            here = ct.binary("+", here, ct.name("l"))
            turn = ct.declare(self.integer, axis.name, here, const=True)
            many.append(self._step(stage, axis, turn))
        return [ct.loop("l", ct.integer(0), ct.integer(LANES), self._over_run(many))]

    def _blocks(self, stage: Stage, axis: Axis, level: int, start: ct.Node, stop: ct.Node) -> Trees:
        """Blocks before the last have a fixed number of steps, and so has the last one."""
        last = axis.extent // BLOCK
        fixed = not (self.vector or stage.guard or axis in self.e.ends)
        once = level > 1 or last >= BLOCK or axis.extent % BLOCK == 0
        if once or not fixed or len(stage.body) >= LONG_BODY:
            return super()._blocks(stage, axis, level, start, stop)
        self.piece = "whole"
        out = super()._blocks(stage, axis, level, start, ct.integer(last))
        self.piece = "last"
        out += super()._blocks(stage, axis, level, ct.integer(last), ct.integer(last + 1))
        self.piece = ""
        return out

    def _piece(self, stage: Stage, axis: Axis, base: ct.Node) -> Trees:
        """The elements of a whole block, or of the last."""
        if self.piece == "last":
            start, stop = ct.integer(axis.extent // BLOCK * BLOCK), ct.integer(axis.extent)
            return self._span(stage, axis, start, stop, axis.extent % LANES != 0)
        begin = ct.binary("*", base, ct.integer(BLOCK))
        return self._span(stage, axis, begin, ct.binary("+", begin, ct.integer(BLOCK)), False)

    # ----------------------------------------------------------------- runs

    def _divided(self, stage: Stage, axis: Axis) -> list[tuple[Linear, int]]:
        """What is divided that grows along the axis, and by what, the least divisor first."""
        found: list[Linear] = []
        for statement in stage.body:
            for buffer, index in indices_of(statement):
                shape = () if buffer is None else self.e.buffers[buffer].shape
                found += index if buffer is None else [linearize(index, shape)]
        return sorted(divided_along(axis, found), key=lambda item: (item[1], str(item[0])))

    def _each_lane(self, stage: Stage, axis: Axis, count: ct.Node) -> ct.Node:
        """A quotient is the same for all lanes where no border lies between two of them."""
        for value, divisor in self._divided(stage, axis):
            if axis.extent > LANES and _is_even(value, axis, divisor):
                start = _at_step(value, axis)
                rest = ct.binary("+", self.e.index(start % divisor), ct.name("l"))
                self._call(value, divisor, self.e.index(start // divisor), rest)
        turns = self.transposes.get(id(stage), [])
        self.e.lane = self._lane(axis)
        out = (
            self._transposed(stage, axis, count, turns)
            if turns
            else super()._each_lane(stage, axis, count)
        )
        self.e.quotients.clear()
        self.e.lane = None
        return out

    def _lane(self, axis: Axis | None) -> Axis | None:
        """The axis along which lanes lie."""
        return self.phase.grid[-1] if self.vector and not self.jammed else axis

    def _straight(self, stage: Stage) -> Trees:
        self.e.lane = self._lane(None)
        out = super()._straight(stage)
        self.e.lane = None
        return out

    def _all_lanes(self, stage: Stage, axis: Axis) -> Trees:
        """Where borders may lie anywhere, most steps do not cross one: those have no divisions."""
        before: Trees = []
        tests: Trees = []
        known: list[tuple[Linear, int, ct.Node, ct.Node]] = []
        for value, divisor in self._divided(stage, axis):
            if divisor < LEAST_RUN + LANES or _is_even(value, axis, divisor):
                continue
            start, turn, rest = _at_step(value, axis), f"turn{len(tests)}", f"rest{len(tests)}"
            before.append(ct.declare("lz_i64", turn, self.e.index(start // divisor), const=True))
            before.append(ct.declare("lz_i64", rest, self.e.index(start % divisor), const=True))
            tests.append(ct.binary("<=", ct.name(rest), ct.integer(divisor - LANES)))
            place = ct.binary("+", ct.name(rest), ct.name("l"))
            known.append((value, divisor, ct.name(turn), place))
        crossing = super()._all_lanes(stage, axis)
        if not tests:
            return crossing
        for item in known:
            self._call(*item)
        inside = super()._all_lanes(stage, axis)
        whole = tests[0]
        for test in tests[1:]:
            whole = ct.binary("&&", whole, test)
        return [*before, ct.branch(whole, inside, crossing)]

    def _call(self, value: Linear, divisor: int, quotient: ct.Node, rest: ct.Node) -> None:
        """What a quotient and its remainder are called from here on."""
        self.e.quotients[Quotient(value, divisor)] = quotient
        self.e.quotients[Remainder(value, divisor)] = rest

    def _reduction(self, stage: Stage, axis: Axis) -> Trees:
        before = self._row_ends(stage, axis) if self._row_ends else []
        out = super()._reduction(stage, axis)
        self.e.ends.clear()
        return [*before, *out]

    def _plain(self, stage: Stage, axis: Axis) -> Trees:
        before = self._row_ends(stage, axis) if self._row_ends else []
        self.e.lane = self._lane(axis)
        out = self._runs(stage, axis)
        self.e.lane = None
        self.e.ends.clear()
        return [*before, *out]

    def _runs(self, stage: Stage, axis: Axis) -> Trees:
        """A loop of stores and keeps, in runs along which no quotient changes."""
        if self.transposes.get(id(stage)):
            arrays = [self._keep(s, axis) for s in stage.body if isinstance(s, Keep)]
            limit = self.e.limit(stage, axis)
            left = ct.minimum(ct.binary("-", limit, ct.name("k")), ct.integer(LANES))
            lanes = self._each_lane(stage, axis, left)
            return [*arrays, ct.loop("k", ct.integer(0), limit, [lanes], step=LANES)]
        cuts = self._divided(stage, axis)
        cuts = [(v, d) for v, d in cuts if d >= LEAST_RUN and v.bounds[0] >= 0]
        if self.vector or stage.sequential or not cuts:
            return super()._plain(stage, axis)
        value, size = cuts[0]
        turn, step = ct.name(f"{axis.name}_1"), ct.name(f"{axis.name}_0")
        rest = value - variable(axis)
        even = not rest.terms and rest.const == 0 and axis.extent % size == 0
        here = ct.binary("+", ct.binary("*", turn, ct.integer(size)), step)
        offset = self.e.index(rest)
        if not even:
            here = ct.binary("-", here, offset)
        for divided, divisor in cuts:
            if divided == value and divisor % size == 0:
                self._call_turn(value, size, divisor, turn, step)
        before: Trees = []
        body: Trees = [ct.declare(self.integer, axis.name, here, const=True)]
        for statement in stage.body:
            if isinstance(statement, Keep):
                before.append(self._keep(statement, axis))
                body.append(self._put(statement, axis))
            else:
                body += self._simple(statement)
        self.e.quotients.clear()
        if even and stage.guard is None:
            run = ct.loop(step.name, ct.integer(0), ct.integer(size), body)
            turns = ct.integer(axis.extent // size)
            return [*before, ct.loop(turn.name, ct.integer(0), turns, self._simd(run))]
        return [*before, ct.block(self._turns(stage, axis, size, offset, body))]

    def _call_turn(
        self, value: Linear, size: int, divisor: int, turn: ct.Node, step: ct.Node
    ) -> None:
        """A quotient by a multiple of a run's size."""
        if divisor == size:
            self._call(value, size, turn, step)
            return
        times = ct.integer(divisor // size)
        rest = ct.binary("*", ct.binary("%", turn, times), ct.integer(size))
        self._call(value, divisor, ct.binary("/", turn, times), ct.binary("+", rest, step))

    def _turns(self, stage: Stage, axis: Axis, size: int, offset: ct.Node, body: Trees) -> Trees:
        """A loop over runs of ``size`` steps, of which the first and the last may be shorter."""
        turn, step = f"{axis.name}_1", f"{axis.name}_0"
        skipped = ct.binary("-", ct.name("offset"), ct.binary("*", ct.name(turn), ct.integer(size)))
        stop = ct.binary("+", ct.name("end"), skipped)
        past = ct.binary(
            "+", ct.binary("+", ct.name("offset"), ct.name("end")), ct.integer(size - 1)
        )
        zero = ct.integer(0)
        low = ct.choose(ct.binary(">", ct.name("ahead"), zero), ct.name("ahead"), zero)
        inner = [
            ct.declare("lz_i64", "ahead", skipped, const=True),
            ct.declare("lz_i64", "first", low, const=True),
            ct.declare("lz_i64", "past", ct.minimum(stop, ct.integer(size)), const=True),
            *self._simd(ct.loop(step, ct.name("first"), ct.name("past"), body)),
        ]
        size_node = ct.integer(size)
        return [
            ct.declare("lz_i64", "offset", offset, const=True),
            ct.declare("lz_i64", "end", self.e.limit(stage, axis), const=True),
            ct.loop(
                turn,
                ct.binary("/", ct.name("offset"), size_node),
                ct.binary("/", past, size_node),
                inner,
            ),
        ]


def _split_folds(phase: Phase, e: Expressions) -> Phase:
    """The phase with folds to positions, and with functions in series, as stages of their own."""
    phase = split_positions(phase, lambda stage: row_folds(phase, stage, e))
    return split_series(phase)


def _at_step(value: Linear, axis: Axis) -> Linear:
    """What the first of all lanes divides."""
    return replace_axes(value, {axis: variable(Axis("k", axis.extent))})


def _is_even(value: Linear, axis: Axis, divisor: int) -> bool:
    """Whether the lanes of a step divide numbers that begin at a multiple of their count."""
    rest = value - variable(axis)
    return all(number % LANES == 0 for number in (divisor, rest.const, *(f for _, f in rest.terms)))


def _sum_bytes(stage: Stage) -> int:
    """Bytes of the sums of one point, on all levels."""
    reduces = [r for r in stage.body if isinstance(r, Reduce)]
    item = sum(r.dtype.compute.itemsize for r in reduces)
    assert stage.axis is not None
    return item * sum(min(LANES, n) for n in reduction_levels(stage.axis.extent))
