"""Phases as C loops for the CPU: tiles over OpenMP threads, lanes over SIMD.

Two shapes of tile cover every phase. With ``lanes == "inner"`` a tile is one grid point, values of
straight-line stages are scalars, and the stages' own loops are vectorised. With ``lanes == "grid"``
a tile is a run of neighbouring points of the last grid axis, values of straight-line stages that
later stages read are small arrays, and every stage is vectorised over the run.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from lazyt.codegen.c import tree as ct
from lazyt.codegen.c.family import Expressions, compute_type, is_positional
from lazyt.codegen.loops.forms import parallel_clause, steps_in_turn
from lazyt.codegen.loops.stages import coordinates, shared_names
from lazyt.ir.index import Axis
from lazyt.ir.kernel import (
    BLOCK,
    LANES,
    Keep,
    Let,
    Phase,
    Reduce,
    Scan,
    Stage,
    Statement,
    Store,
    reduction_levels,
)

#: Grid points of a tile when its stages loop; 8 KiB of accumulators for float32.
TILE = 64
#: Elements of a straight-line tile: long enough to hide the loop, short enough to share out.
STRIP = 4096

Trees = list[ct.Node]


class PhasePrinter:
    """Writes one phase as C statements.

    Attributes:
        integer, array: C type of axis variables; what declares arrays on the stack.
        first, run: where a tile begins on the last grid axis (None for 0), and its points.
        any_size: another extent may change numbers of the text only, not its form.
    """

    jammed = False  #: a tile is some rows, each with lanes of its own
    integer, array = "lz_i64", staticmethod(ct.declare_aligned)

    def __init__(
        self, phase: Phase, expressions: Expressions, number: int, any_size: bool = False
    ) -> None:
        self.phase = phase
        self.any_size = any_size
        self.e = expressions
        self.number = number
        self.vector = phase.lanes == "grid" and bool(phase.grid)
        self.shared = shared_names(phase)
        self.first: ct.Node | None = None
        self.run: ct.Node = ct.integer(1)
        self.tile = STRIP if all(s.axis is None for s in phase.stages) else TILE

    # ----------------------------------------------------------------- grid

    def statements(self) -> Trees:
        """The whole phase."""
        outer = self.phase.grid[:-1] if self.vector else self.phase.grid
        rows = math.prod(a.extent for a in outer)
        tile = f"t{self.number}"
        if not self.vector:
            return self._parallel(tile, rows, self._at(tile, outer), self.phase.work * rows)
        last = self.phase.grid[-1].extent
        strips = -(-last // self.tile)
        self.run = ct.integer(last)
        if strips == 1 and not self.any_size:
            body = self._at(tile, outer)
        else:
            body = self._strip(tile, strips, last, rows)
            if rows > 1:
                row = ct.binary("/", ct.name(tile), ct.integer(strips))
                body.append(ct.declare("lz_i64", "row", row, const=True))
            body += self._at("row", outer)
        return self._parallel(tile, rows * strips, body, self.phase.work * rows * last)

    def _strip(self, tile: str, strips: int, extent: int, rows: int) -> Trees:
        """Where a tile begins on the last axis, and how many points it has."""
        number = ct.name(tile)
        strip = ct.binary("%", number, ct.integer(strips)) if rows > 1 else number
        self.first = ct.name("low")
        start = ct.binary("*", strip, ct.integer(self.tile))
        out = [ct.declare("lz_i64", "low", start, const=True)]
        if extent % self.tile == 0 and not self.any_size:
            self.run = ct.integer(self.tile)
            return out
        self.run = ct.name("run")
        run = ct.minimum(ct.binary("-", ct.integer(extent), self.first), ct.integer(self.tile))
        return [*out, ct.declare("lz_i64", "run", run, const=True)]

    def _at(self, variable: str, outer: Sequence[Axis]) -> Trees:
        """The stages at the grid point with a flat number."""
        return self._decompose(variable, outer) + self._stages()

    def _parallel(self, variable: str, count: int, body: Trees, work: float) -> Trees:
        if count == 1 and not self.any_size:
            return [ct.block(body)]
        loop = ct.loop(variable, ct.integer(0), ct.integer(count), body)
        clause, _ = self._turns_of_threads(count, work)
        return [ct.pragma(clause), loop] if clause else [loop]

    def _turns_of_threads(self, count: int, work: float) -> tuple[str, int]:
        """The pragma by which threads share a loop, and how many steps one takes at a time."""
        return parallel_clause(count, work, self.any_size), steps_in_turn(count)

    def _decompose(self, variable: str, axes: Sequence[Axis]) -> Trees:
        """Grid coordinates out of a flat tile number."""
        return coordinates(ct.name(variable), axes, self.integer)

    def _simd(self, loop: ct.Node) -> Trees:
        """A loop whose steps may run at once."""
        return [ct.pragma("omp simd"), loop]

    # --------------------------------------------------------------- stages

    def _stages(self) -> Trees:
        out: Trees = []
        for stage in self.phase.stages:
            self.e.steps_in_order = stage.sequential and not self.vector
            if stage.axis is None:
                out += self._straight(stage)
            elif any(isinstance(s, Scan) for s in stage.body):
                out += self._scan(stage, stage.axis)
            elif any(isinstance(s, Reduce) for s in stage.body):
                out += self._reduction(stage, stage.axis)
            else:
                out += self._plain(stage, stage.axis)
            self.e.steps_in_order = False
        return out

    def _over_run(self, body: Trees, simd: bool = True, index: bool = True) -> Trees:
        """``body`` for every grid point of the tile; ``index``: it needs the grid axis."""
        if not self.vector:
            return body
        axis = self.phase.grid[-1]
        if index and axis.extent > 1:
            body = [ct.declare("lz_i64", axis.name, self._stands(ct.name("u")), const=True), *body]
        return self._points("u", self.run, body, simd)

    def _stands(self, step: ct.Node) -> ct.Node:
        """Where a step of the tile is on the last grid axis."""
        return step if self.first is None else ct.binary("+", self.first, step)

    def _points(self, name: str, count: ct.Node, body: Trees, simd: bool) -> Trees:
        """A loop over neighbouring points, whose steps may run at once if ``simd``."""
        loop = ct.loop(name, ct.integer(0), count, body, kind=self.integer)
        return self._simd(loop) if simd else [loop]

    def _array(self, kind: str, name: str, *extents: int) -> ct.Node:
        """Storage for a per-point value of the tile."""
        if self.vector:
            extents = (*extents, self.tile)
        return self.array(kind, name, extents) if extents else ct.declare(kind, name)

    def _cell(self, name: str, *indices: ct.Node) -> ct.Node:
        return ct.element(name, *indices, *([ct.name("u")] if self.vector else []))

    def _straight(self, stage: Stage) -> Trees:
        before: Trees = []
        body: Trees = []
        for statement in stage.body:
            if self.vector and isinstance(statement, Let) and statement.name in self.shared:
                kind = compute_type(statement.value.dtype)
                before.append(self._array(kind, statement.name))
                body.append(ct.assign(self._cell(statement.name), self.e.value(statement.value)))
                self.e.values[statement.name] = self._cell(statement.name)
            else:
                body += self._simple(statement)
        sequential = any(isinstance(s, Store) and s.combine for s in stage.body)
        return before + self._over_run(body, simd=not sequential)

    def _simple(self, statement: Statement) -> Trees:
        """A Let or Store at the current point."""
        if isinstance(statement, Let):
            kind = compute_type(statement.value.dtype)
            return [ct.declare(kind, statement.name, self.e.value(statement.value), const=True)]
        assert isinstance(statement, Store)
        return self.e.store(statement)

    def _plain(self, stage: Stage, axis: Axis) -> Trees:
        """A loop of stores and keeps."""
        before: Trees = []
        body: Trees = []
        for statement in stage.body:
            if isinstance(statement, Keep):
                before.append(self._keep(statement, axis))
                body.append(self._put(statement, axis))
            else:
                body += self._simple(statement)
        inner = self._over_run(body, simd=not stage.sequential)
        limit = self.e.limit(stage, axis)
        by_lanes = not (self.vector or stage.sequential)
        return [*before, *self._points(axis.name, limit, inner, by_lanes)]

    def _keep(self, statement: Keep, axis: Axis) -> ct.Node:
        return self._array(compute_type(statement.value.dtype), statement.name, axis.extent)

    def _put(self, statement: Keep, axis: Axis) -> ct.Node:
        """Stores a kept value; from here on its name reads the array at the loop's step."""
        value = self.e.value(statement.value)
        step = ct.name(axis.name) if axis.extent > 1 else ct.integer(0)
        cell = self._cell(statement.name, step)
        self.e.values[statement.name] = cell
        return ct.assign(cell, value)

    def _scan(self, stage: Stage, axis: Axis) -> Trees:
        """A loop in order that carries running values."""
        before, limit = self._running(stage, axis), self.e.limit(stage, axis)
        steps = self._over_run(self._element(stage, axis))
        return [*before, ct.loop(axis.name, ct.integer(0), limit, steps, kind=self.integer)]

    def _running(self, stage: Stage, axis: Axis) -> Trees:
        """What a loop in order carries and keeps, as it is before the first step."""
        out = [self._keep(s, axis) for s in stage.body if isinstance(s, Keep)]
        first: Trees = []
        for scan in (s for s in stage.body if isinstance(s, Scan)):
            out.append(self._array(compute_type(scan.dtype), scan.name))
            cell = self._cell(scan.name) if self.vector else ct.name(scan.name)
            first.append(ct.assign(cell, self.e.identity(scan.kind, scan.dtype)))
        return [*out, *self._over_run(first, index=False)]

    def _run_on(self, scan: Scan) -> ct.Node:
        """Takes a step's value into what runs, which its name is from here on."""
        cell = self._cell(scan.name) if self.vector else ct.name(scan.name)
        folded = self.e.fold(scan.kind, cell, self.e.value(scan.value), scan.dtype)
        self.e.values[scan.name] = cell
        return ct.assign(cell, folded)

    # ----------------------------------------------------------- reductions

    def _reduction(self, stage: Stage, axis: Axis) -> Trees:
        reduces = [s for s in stage.body if isinstance(s, Reduce)]
        keeps = [s for s in stage.body if isinstance(s, Keep)]
        top = len(reduction_levels(axis.extent)) - 1
        out: Trees = [self._keep(k, axis) for k in keeps]
        out += [self._array(compute_type(r.dtype), r.name) for r in reduces]
        body = self._fold_levels(stage, axis, top, ct.integer(0))
        for r in reduces:
            cell = self._cell(r.name) if self.vector else ct.name(r.name)
            suffix = "i" if is_positional(r) else "a"
            result = self._cell(f"{r.name}_{suffix}{top}", ct.integer(0))
            body += self._over_run([ct.assign(cell, result)], index=False)
            self.e.values[r.name] = cell
        return [*out, ct.block(body)]

    def _fold_levels(self, stage: Stage, axis: Axis, level: int, base: ct.Node) -> Trees:
        """Leaves the fold of block ``base`` of ``level`` in lane 0 of its accumulators."""
        reduces = [s for s in stage.body if isinstance(s, Reduce)]
        # Lanes past the extent hold the neutral element: folding them in changes nothing.
        width = LANES if self.any_size else max(1, min(LANES, reduction_levels(axis.extent)[level]))
        out = [tree for r in reduces for tree in self._accumulators(r, level, width)]
        if level == 0:
            out += self._elements(stage, axis, base)
        else:
            count = reduction_levels(axis.extent)[level]
            start = ct.binary("*", base, ct.integer(BLOCK))
            full = ct.binary("+", start, ct.integer(BLOCK))
            stop = ct.minimum(ct.integer(count), full) if count > BLOCK else ct.integer(count)
            out += self._blocks(stage, axis, level, start, stop)
        return out + self._halve(reduces, level, width)

    def _blocks(self, stage: Stage, axis: Axis, level: int, start: ct.Node, stop: ct.Node) -> Trees:
        """Folds blocks of the level below."""
        block, lane = ct.name(f"q{level}"), f"l{level}"
        inner = self._fold_levels(stage, axis, level - 1, block)
        pick = ct.binary("%", block, ct.integer(LANES))
        inner.append(ct.declare("lz_i64", lane, pick, const=True))
        for r in stage.body:
            if isinstance(r, Reduce):
                fold = self._merge(r, level, ct.name(lane), level - 1, ct.integer(0))
                inner += self._over_run(fold, index=False)
        return [ct.loop(block.name, start, stop, inner)]

    def _accumulators(self, r: Reduce, level: int, width: int) -> Trees:
        arg = is_positional(r)
        dtype = r.value.dtype if arg else r.dtype
        out = [self._lanes(compute_type(dtype), f"{r.name}_a{level}")]
        lane = ct.name("l")
        acc = self._cell(f"{r.name}_a{level}", lane)
        cells: Trees = [ct.assign(acc, self.e.identity(r.kind, dtype))]
        if arg:
            out.append(self._lanes("lz_i64", f"{r.name}_i{level}"))
            cells.append(ct.assign(self._cell(f"{r.name}_i{level}", lane), ct.integer(-1)))
        every = self._over_run(cells, index=False)
        return [*out, ct.loop("l", ct.integer(0), ct.integer(width), every)]

    def _lanes(self, kind: str, name: str) -> ct.Node:
        return self.array(kind, name, (LANES, self.tile) if self.vector else (LANES,))

    def _elements(self, stage: Stage, axis: Axis, base: ct.Node) -> Trees:
        """Level 0: every element of one block goes to its lane."""
        if axis.extent == 0:
            return []
        if axis.extent == 1:
            first = ct.declare("lz_i64", "l", ct.integer(0), const=True)
            return [ct.block([first, *self._over_run(self._element(stage, axis))])]
        limit = self.e.limit(stage, axis)
        start: ct.Node = ct.integer(0)
        ragged = self.any_size or axis.extent % LANES != 0 or stage.guard is not None
        ragged = ragged or axis in self.e.ends
        if axis.extent > BLOCK:
            start = ct.binary("*", base, ct.integer(BLOCK))
            limit = ct.minimum(limit, ct.binary("+", start, ct.integer(BLOCK)))
        return [ct.block(self._span(stage, axis, start, limit, ragged))]

    def _span(self, stage: Stage, axis: Axis, low: ct.Node, high: ct.Node, ragged: bool) -> Trees:
        """The elements of a part of one block."""
        out: Trees = [ct.declare("lz_i64", "end", high, const=True)]
        rest = ct.binary("-", ct.name("end"), ct.name("k"))
        if self.vector and not self.jammed:
            count = ct.minimum(rest, ct.integer(LANES)) if ragged else ct.integer(LANES)
            lanes = self._each_lane(stage, axis, count)
            return [*out, ct.loop("k", low, ct.name("end"), [lanes], step=LANES)]
        whole = ct.binary("-", ct.name("end"), ct.integer(LANES - 1)) if ragged else ct.name("end")
        out.append(ct.declare("lz_i64", "k", low))
        body = [*self._all_lanes(stage, axis), ct.assign(ct.name("k"), ct.integer(LANES), "+=")]
        out.append(ct.while_loop(ct.binary("<", ct.name("k"), whole), body))
        return [*out, self._each_lane(stage, axis, rest)] if ragged else out

    def _element(self, stage: Stage, axis: Axis) -> Trees:
        """A stage's body at one step."""
        body: Trees = []
        for statement in stage.body:
            if isinstance(statement, Reduce):
                body += self._take(statement, axis)
            elif isinstance(statement, Keep):
                body.append(self._put(statement, axis))
            elif isinstance(statement, Scan):
                body.append(self._run_on(statement))
            else:
                body += self._simple(statement)
        return body

    def _each_lane(self, stage: Stage, axis: Axis, count: ct.Node) -> ct.Node:
        """The elements of the first ``count`` lanes at ``k``."""
        place = ct.binary("+", ct.name("k"), ct.name("l"))
        here = ct.declare(self.integer, axis.name, place, const=True)
        body = self._over_run(self._element(stage, axis))
        return ct.loop("l", ct.integer(0), count, [here, *body])

    def _all_lanes(self, stage: Stage, axis: Axis) -> Trees:
        """The elements of all lanes at ``k``, with lanes on the loop."""
        return self._simd(self._each_lane(stage, axis, ct.integer(LANES)))

    def _take(self, r: Reduce, axis: Axis) -> Trees:
        """Folds the current element into its lane."""
        lane = ct.name("l")
        acc = self._cell(f"{r.name}_a0", lane)
        value = self.e.value(r.value)
        if is_positional(r):
            where = ct.name(axis.name) if axis.extent > 1 else ct.integer(0)
            position = self._cell(f"{r.name}_i0", lane)
            return self.e.extreme(r, acc, position, value, where, ties=False)
        return [ct.assign(acc, self.e.fold(r.kind, acc, self._truth(r, value), r.dtype))]

    def _truth(self, r: Reduce, value: ct.Node) -> ct.Node:
        """A value as what its reduction folds."""
        plain = r.kind not in ("any", "all") or r.value.dtype.suffix == "b8"
        return value if plain else ct.binary("!=", value, ct.integer(0))

    def _merge(self, r: Reduce, level: int, lane: ct.Node, other: int, at: ct.Node) -> Trees:
        """Folds lane ``at`` of level ``other`` into lane ``lane`` of ``level``."""
        acc = self._cell(f"{r.name}_a{level}", lane)
        value = self._cell(f"{r.name}_a{other}", at)
        if is_positional(r):
            mine = self._cell(f"{r.name}_i{level}", lane)
            theirs = self._cell(f"{r.name}_i{other}", at)
            return self.e.extreme(r, acc, mine, value, theirs, ties=True)
        return [ct.assign(acc, self.e.fold(r.kind, acc, value, r.dtype))]

    def _halve(self, reduces: Sequence[Reduce], level: int, width: int) -> Trees:
        """Folds the lanes by halves: l takes l + 16, then + 8, 4, 2, 1. Lanes past ``width`` hold
        the neutral element, so folding them in changes nothing."""

        def fold(distance: ct.Node, count: ct.Node) -> ct.Node:
            body: Trees = []
            other = ct.binary("+", ct.name("l"), distance)
            for r in reduces:
                body += self._merge(r, level, ct.name("l"), level, other)
            return ct.loop("l", ct.integer(0), count, self._over_run(body, index=False))

        if width == 1:
            return []
        half = 1 << ((width - 1).bit_length() - 1)
        out: Trees = []
        if width < 2 * half:
            out.append(fold(ct.integer(half), ct.integer(width - half)))
            half //= 2
        if half:
            out.append(ct.halving_loop("h", half, [fold(ct.name("h"), ct.name("h"))]))
        return out
