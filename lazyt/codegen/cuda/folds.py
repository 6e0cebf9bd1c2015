"""Reductions of a group of GPU threads, in the order that ``reduction_levels`` fixes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lazyt.codegen.c import tree as ct
from lazyt.codegen.c.family import compute_type, is_positional
from lazyt.codegen.cuda.groups import GroupSteps
from lazyt.ir.dtypes import DType, int64
from lazyt.ir.index import Axis
from lazyt.ir.kernel import BLOCK, LANES, Keep, Reduce, Stage, reduction_levels

Trees = list[ct.Node]

#: Elements of a row in the square through which columns exchange lanes: odd, so that no two
#: threads of a warp meet in a bank of shared memory.
_PITCH = LANES + 1
_SQUARE = LANES * _PITCH
#: Endings of the names of shared arrays: warps' results or lanes, and the results of columns.
_ARRAYS = ("_shared", "_line")


class GroupPhase(GroupSteps):
    """Writes a phase as the body of a kernel in which 32 or more threads share a grid point."""

    def _reduction(self, stage: Stage, axis: Axis) -> Trees:
        before = self._before(stage.body)
        out: Trees = [self._keep(s, axis) for s in stage.body if isinstance(s, Keep)]
        reduces = [s for s in stage.body if isinstance(s, Reduce)]
        out += [ct.declare(compute_type(r.dtype), r.name) for r in reduces]
        top = len(reduction_levels(axis.extent)) - 1
        body = self._share(reduces, axis) + self._fold(stage, axis, top, ct.integer(0))
        for r in reduces:
            body.append(ct.assign(ct.name(r.name), _states(r, top)[-1][0]))
            self.e.values[r.name] = ct.name(r.name)
        return [*out, *before, ct.block(body)]

    def _cell(self, name: str, *indices: ct.Node) -> ct.Node:
        """A thread is one lane: what the CPU target holds per lane is a variable here."""
        return ct.name(name)

    def shared_size(self) -> int:
        """Bytes of shared memory in which warps exchange the results of the phase's stages."""
        return self._most_exchanged(self._cells) + self._most_exchanged(self._lines)

    def _most_exchanged(self, cells: Callable[[Axis], int]) -> int:
        """Bytes of the largest stage, given the elements of each value that it carries."""
        most = 0
        for stage in self.phase.stages:
            if stage.axis is not None:
                reduces = [s for s in stage.body if isinstance(s, Reduce)]
                states = [dtype for r in reduces for _, dtype in _states(r, 0)]
                most = max(most, sum(_aligned(cells(stage.axis), dtype) for dtype in states))
        return most

    def _cells(self, axis: Axis) -> int:
        """Elements of shared memory for each value that a reduction carries."""
        if self.columns:
            return _SQUARE
        levels = reduction_levels(axis.extent)
        return min(BLOCK, levels[1]) if len(levels) > 1 else 0

    def _lines(self, axis: Axis) -> int:
        """Elements for the results of columns.

        They lie behind the squares of all stages. So a square may be written while a thread that
        is late still reads results, which saves a barrier.
        """
        return LANES if self.columns else 0

    def _share(self, reduces: Sequence[Reduce], axis: Axis) -> Trees:
        """Declares the shared arrays of a stage's reductions."""
        out: Trees = []
        starts = 0, self._most_exchanged(self._cells)
        for cells, ending, offset in zip((self._cells, self._lines), _ARRAYS, starts, strict=True):
            count = cells(axis)
            for state, dtype in [pair for r in reduces for pair in _states(r, 0) if count]:
                kind = dtype.compute.suffix
                place = [ct.integer(offset), ct.integer(count)]
                taken = ct.call(f"lz_take_shared_{kind}", place)
                out.append(ct.declare(f"lz_shared_{kind}", _shared(state, ending), taken))
                offset += _aligned(count, dtype)
        return out

    # ----------------------------------------------------------------- folds

    def _fold(self, stage: Stage, axis: Axis, level: int, base: ct.Node) -> Trees:
        """Leaves the fold of block ``base`` of ``level`` in every thread of the group."""
        reduces = [s for s in stage.body if isinstance(s, Reduce)]
        extent = reduction_levels(axis.extent)[level]
        start = [tree for r in reduces for tree in self._start(r, level)]
        if level == 0:
            return start + self._steps(stage, axis) + self._fold_lanes(reduces, level)
        if level == 1 and not self.columns:
            return self._spread(stage, axis, base, start)
        if level == 1:

            def wrap(steps: Trees) -> Trees:
                first = [tree for r in reduces for tree in self._start(r, 0)]
                block = ct.name("block_")
                last = self._fold_lanes(reduces, 0) + self._take_result(reduces, 1, block)
                return first + steps + last

            return start + self._rounds(stage, axis, base, wrap) + self._fold_lanes(reduces, 1)
        block = f"q{level}_"
        body = self._fold(stage, axis, level - 1, ct.name(block))
        body += self._take_result(reduces, level, ct.name(block))
        low = ct.binary("*", base, ct.integer(BLOCK))
        high = ct.minimum(ct.integer(extent), ct.binary("+", low, ct.integer(BLOCK)))
        return [*start, ct.loop(block, low, high, body), *self._fold_lanes(reduces, level)]

    def _spread(self, stage: Stage, axis: Axis, base: ct.Node, start: Trees) -> Trees:
        """Level 1 of a row: the warps fold its blocks, then each folds their results."""
        reduces = [s for s in stage.body if isinstance(s, Reduce)]
        blocks = reduction_levels(axis.extent)[1]
        first = ct.binary("*", base, ct.integer(BLOCK))
        count: ct.Node = ct.integer(blocks)
        place: ct.Node = ct.name("block_")
        if blocks > BLOCK:
            count = ct.minimum(ct.binary("-", count, first), ct.integer(BLOCK))
            place = ct.binary("-", place, first)

        def wrap(steps: Trees) -> Trees:
            mine = ct.binary("==", ct.name("lane_"), ct.integer(0))
            exists = ct.binary("<", ct.name("block_"), ct.integer(blocks))
            put = [
                ct.assign(ct.element(_shared(state), place), state)
                for r in reduces
                for state, _ in _states(r, 0)
            ]
            begin = [tree for r in reduces for tree in self._start(r, 0)]
            end = self._fold_lanes(reduces, 0, everywhere=False)
            return [*begin, *steps, *end, ct.branch(ct.binary("&&", mine, exists), put)]

        body: Trees = []
        for r in reduces:
            for state, dtype in _states(r, 0):
                cell = ct.element(_shared(state), ct.name("part_"))
                body.append(ct.declare(compute_type(dtype), state.name, cell, const=True))
            body += self._join(r, 1, [state for state, _ in _states(r, 0)])
        parts = ct.loop("part_", ct.name("lane_"), count, body, step=LANES, kind="int")
        rounds = self._rounds(stage, axis, base, wrap)
        fold = [*start, parts, *self._fold_lanes(reduces, 1)]
        if blocks > BLOCK or self.tiles > self.most_blocks:  # this is in a loop
            return [*rounds, self._sync(), *fold, self._sync()]
        before = [self._sync()] if self.busy else []
        out = [*before, *rounds, self._sync(), *fold]
        self.busy = True
        return out

    def _start(self, r: Reduce, level: int) -> Trees:
        """Accumulators with neutral elements."""
        (value, dtype), *position = _states(r, level)
        out = [ct.declare(compute_type(dtype), value.name, self.e.identity(r.kind, dtype))]
        return out + [ct.declare("lz_i64", name.name, ct.integer(-1)) for name, _ in position]

    def _join(self, r: Reduce, level: int, other: Sequence[ct.Node]) -> Trees:
        """Folds another lane's accumulators into this lane's."""
        states = [state for state, _ in _states(r, level)]
        if is_positional(r):
            return self.e.extreme(r, states[0], states[1], other[0], other[1], ties=True)
        return [ct.assign(states[0], self.e.fold(r.kind, states[0], other[0], r.dtype))]

    def _take_result(self, reduces: Sequence[Reduce], level: int, block: ct.Node) -> Trees:
        """The result of a block of the level below goes to its lane."""
        pick = ct.binary("%", block, ct.integer(LANES))
        below = [self._join(r, level, [s for s, _ in _states(r, level - 1)]) for r in reduces]
        trees = [tree for trees in below for tree in trees]
        return [ct.branch(ct.binary("==", pick, ct.name("lane_")), trees)]

    # --------------------------------------------------------------- halving

    def _fold_lanes(self, reduces: Sequence[Reduce], level: int, everywhere: bool = True) -> Trees:
        """Folds the lanes by halves; the result is in every thread, or in lane 0 only."""
        if self.columns:
            return self._fold_columns(reduces, level)
        out = [self._shuffle(r, level) for r in reduces]
        if everywhere:
            for r in reduces:
                for state, dtype in _states(r, level):
                    first = ct.call(f"lz_shuffle_first_{dtype.compute.suffix}", [state])
                    out.append(ct.assign(state, first))
        return out

    def _shuffle(self, r: Reduce, level: int) -> ct.Node:
        """Thread l of a warp takes l + 16, then + 8, 4, 2, 1; thread 0 has the fold."""
        body: Trees = []
        others: Trees = []
        for state, dtype in _states(r, level):
            function = f"lz_shuffle_down_{dtype.compute.suffix}"
            other = f"{state.name}_down"
            others.append(ct.name(other))
            value = ct.call(function, [state, ct.name("h_")])
            body.append(ct.declare(compute_type(dtype), other, value, const=True))
        return ct.halving_loop("h_", LANES // 2, body + self._join(r, level, others))

    def _fold_columns(self, reduces: Sequence[Reduce], level: int) -> Trees:
        """The lanes of a point are in different warps: a square in shared memory turns them."""
        states = [pair[0] for r in reduces for pair in _states(r, level)]
        lane, place = ct.name("lane_"), ct.name("place_")

        def square(state: ct.Node, row: ct.Node, column: ct.Node) -> ct.Node:
            at = ct.binary("+", ct.binary("*", row, ct.integer(_PITCH)), column)
            return ct.element(_shared(state), at)

        def line(state: ct.Node, at: ct.Node) -> ct.Node:
            return ct.element(_shared(state, "_line"), at)

        out: Trees = [ct.assign(square(s, lane, place), s) for s in states]
        out.append(self._sync())
        out += [ct.assign(s, square(s, place, lane)) for s in states]
        out += [self._shuffle(r, level) for r in reduces]
        first = ct.binary("==", place, ct.integer(0))
        out.append(ct.branch(first, [ct.assign(line(s, lane), s) for s in states]))
        out.append(self._sync())
        return [*out, *(ct.assign(s, line(s, place)) for s in states)]


def _states(r: Reduce, level: int) -> list[tuple[ct.Node, DType]]:
    """What a reduction carries, the result last: its value, and where it was found."""
    if is_positional(r):
        value = ct.name(f"{r.name}_a{level}"), r.value.dtype
        return [value, (ct.name(f"{r.name}_i{level}"), int64)]
    return [(ct.name(f"{r.name}_a{level}"), r.dtype)]


def _shared(state: ct.Node, ending: str = _ARRAYS[0]) -> str:
    """The shared array of a reduction's value or position, whatever its level."""
    return str(state.name).rstrip("0123456789") + ending


def _aligned(count: int, dtype: DType) -> int:
    """Bytes of a shared array, so that the next one starts at a multiple of 16."""
    return -(-count * dtype.compute.itemsize // 16) * 16
