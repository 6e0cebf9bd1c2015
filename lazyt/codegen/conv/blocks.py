"""Block sizes of convolutions, chosen by what copies, multiplications and stores cost."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import NamedTuple

from lazyt.codegen.conv.copies import Copy, lay_copy
from lazyt.codegen.conv.windows import Slide, Track, splits, track_of
from lazyt.codegen.matmul.spec import ContractSpec, Plain, ceil_div, round_up
from lazyt.ir.index import Axis, Load, axes_of, constant, sub_expressions
from lazyt.ir.kernel import Statement
from lazyt.ir.scalar import Expr

# Cycles, roughly: of an element copied, a loop entered, and a result stored.
COPIED, ENTERED, STORED = 0.3, 12.0, 0.4
#: Starting threads takes the time of this much arithmetic.
PARALLEL_FLOPS = 400_000
#: Threads that should find equal work.
TEAM = 4


@dataclass(frozen=True)
class SlideForm:
    """How the work of a convolution is divided.

    Attributes:
        run: axes of the result, counted from the last, whose points follow each other in the copy.
        chunk: points of the first of them that a task takes.
        rows, vectors: the register tile.
        splits: tasks that share a chunk, each with a part of the other operand's rows.
        block: points of the first summed axis that are moved into panels at a time; 0 for none.
        straight: rows of the other operand are read where they lie.
    """

    run: int
    chunk: int
    rows: int
    vectors: int
    splits: int = 1
    block: int = 0
    straight: bool = False

    def is_like(self, other: SlideForm) -> bool:
        """Whether both are written as one text, apart from numbers."""
        return self == replace(other, chunk=self.chunk)


class Layout(NamedTuple):
    """Where things lie, in elements, and in bytes where it is about the workspace.

    Attributes:
        copied: the copy of the sliding operand.
        points: points of the first track that are summed at a time.
        width: room for a row of their sums.
        strips: register tiles, one below the other, that are summed together.
        depth: steps after which the next tile below goes on.
        chunks, tasks: how many there are.
        panels, shared: bytes of the packed operand, and of it and the steps.
        sums, private: bytes of a task's copy, and of it and the sums.
    """

    copied: Copy
    points: int
    width: int
    strips: int
    depth: int
    chunks: int
    tasks: int
    panels: int
    shared: int
    sums: int
    private: int


@dataclass(frozen=True)
class SlidePlan:
    """A contraction with a sliding operand, its extents, and its epilogue.

    Attributes:
        spec: extents, types and caches; its rows are those of the operand that does not slide.
        batch, inner: the axes of both operands, and the summed ones.
        finish: the text of statements that take a finished sum, given its name, the axes being
            declared.
        ending: these statements.
        lies: where the operand that does not slide is, if nothing is computed and its rows lie at
            even distances.
    """

    slide: Slide
    spec: ContractSpec
    batch: tuple[Axis, ...]
    inner: tuple[Axis, ...]
    finish: Callable[[str, Sequence[Statement]], list[str]]
    ending: tuple[Statement, ...]
    reason: str = "an operand slides along the results"
    lies: Plain | None = None

    @property
    def along(self) -> Plain | None:
        """``lies``, if rows lie along the summed axes, so that they can be transposed, or read as
        they are."""
        lies = self.lies
        return lies if lies is not None and lies.k == 1 and not self.spec.any_size else None

    def tracks(self, form: SlideForm) -> list[Track]:
        """The axes along which results run."""
        points = self.slide.points
        return [track_of(a, self.slide.walks, "point") for a in points[len(points) - form.run :]]

    def outer(self, form: SlideForm) -> tuple[Axis, ...]:
        """The axes of the result that are left."""
        return self.slide.points[: len(self.slide.points) - form.run]

    def free(self, form: SlideForm) -> tuple[Axis, ...]:
        """Summed axes that shift no run."""
        shifting = {t.tap for t in self.tracks(form)}
        return tuple(a for a in self.inner if a not in shifting)

    def lay_out(self, form: SlideForm) -> Layout:
        """The sizes that follow from a form."""
        spec, tracks, line = self.spec, self.tracks(form), 64 // self.spec.item
        copied = lay_copy(self.slide.value, tracks, form.chunk, self.free(form), line)
        tiles = ceil_div(spec.m, form.rows)
        strips = ceil_div(tiles, form.splits)
        points = _points_at_once(spec, form, copied, strips)
        pitch = copied.pitches[0]
        width = round_up(copied.run - (form.chunk - points) * pitch, form.vectors * spec.lanes)
        last = (form.chunk - 1) // points * points * pitch
        sums = round_up(max(copied.size, copied.reach + last + width) * spec.item, 64)
        width += line if width % 1024 == 0 else 0
        strips = min(strips, max(1, _sums_room(spec) // (form.rows * width)))
        depth = _depth(spec, form, copied)
        packed = 0 if form.straight else spec.batch * tiles * form.rows * spec.k
        panels = round_up(packed * spec.item, 64)
        private = sums + round_up(strips * form.rows * width * spec.item, 64)
        chunks = ceil_div(tracks[0].axis.extent, form.chunk)
        tasks = spec.batch * prod(a.extent for a in self.outer(form)) * chunks * form.splits
        shared = panels + round_up(spec.k * 4, 64)
        return Layout(
            copied, points, width, strips, depth, chunks, tasks, panels, shared, sums, private
        )

    def cost(self, form: SlideForm) -> float:
        """Cycles of one core for the whole contraction, roughly."""
        spec, lay, tracks = self.spec, self.lay_out(form), self.tracks(form)
        runs = _runs(form, lay.copied, lay.points, form.vectors * spec.lanes)
        once = all_steps(spec, form, ceil_div(spec.k, lay.depth))
        tiles = ceil_div(ceil_div(spec.m, form.rows), form.splits)
        copied = lay.sums / spec.item * tracks[0].pieces / tracks[0].slots
        rows = copied / (tracks[-1].axis.extent + tracks[-1].reach())
        shape = (16 // spec.item * COPIED * copied) / 4 + rows * ENTERED
        sums = tiles * (runs * once + ENTERED)
        if lay.sums > spec.cache[1] // 2:
            sums *= 1.0 + 0.3 * min(lay.sums / (spec.cache[1] // 2) - 1.0, 1.0)
        points = form.chunk * prod(t.axis.extent for t in tracks[1:])
        stored = tiles * form.rows * (STORED * points + ENTERED * points / tracks[-1].axis.extent)
        return lay.tasks * (shape + sums + stored + 50) * evenness(lay.tasks)


def _sums_room(spec: ContractSpec) -> int:
    """Sums that may wait in the level 2 cache, beside the copy and the other operand."""
    return max(spec.cache[1] // 4 // spec.item, 1)


def _runs(form: SlideForm, copied: Copy, points: int, cols: int) -> int:
    """Register tiles along a row of a chunk whose sums are taken ``points`` at a time."""
    pitch = copied.pitches[0]
    short = copied.run - (form.chunk - form.chunk % points) * pitch if form.chunk % points else 0
    whole = copied.run - (form.chunk - points) * pitch
    return form.chunk // points * ceil_div(whole, cols) + ceil_div(short, cols)


def _points_at_once(spec: ContractSpec, form: SlideForm, copied: Copy, strips: int) -> int:
    """How many points of the first track make the fewest tiles, and sums that fit in cache."""
    cols, pitch = form.vectors * spec.lanes, copied.pitches[0]
    best = (0, form.chunk, form.chunk)
    for points in reversed(chunks_of(form.chunk)):
        if pitch == 1:
            points = min(round_up(points, cols), form.chunk)
        width = round_up(copied.run - (form.chunk - points) * pitch, cols)
        much = strips * form.rows * width > _sums_room(spec)
        key = (int(much), _runs(form, copied, points, cols) if not much else width, points)
        if points == form.chunk or key < best:
            best = key
    return best[2]


def _depth(spec: ContractSpec, form: SlideForm, copied: Copy) -> int:
    """Steps whose operands stay in the level 1 cache while all tiles of some columns use them."""
    last, item = copied.tracks[-1], spec.item
    taps = ceil_div(last.tap.extent, last.slots) if last.tap is not None else 1
    # A row of a tile begins anywhere in a line.
    row = (form.vectors * spec.lanes + taps - 1) * item + 32
    return steps_at_once(spec, spec.k, row / taps + form.rows * item)


def steps_at_once(spec: ContractSpec, steps: int, size: float) -> int:
    """Equal parts of ``steps`` whose operands, of ``size`` bytes each, take half the level 1 cache
    at most: there the columns wait until the tiles below have used them, while those tiles' rows
    pass by. Measured: a tile that reads its columns from level 2 waits a sixteenth of its time."""
    parts = ceil_div(steps, max(int(spec.cache[0] // 2 / size), 64))
    return max(ceil_div(steps, parts), 1)


def evenness(tasks: int) -> float:
    """How much longer the last of a team's threads takes than with equal parts."""
    return ceil_div(tasks, TEAM) * TEAM / tasks if tasks < 4 * TEAM else 1.0


def tile_cycles(k: int, rows: int, vectors: int, vector_bytes: int) -> float:
    """Cycles of a register tile: multiplications (two at a time, except with the widest registers),
    or loads (two at a time; more for those that cross a line, as fitted to tiles of both kinds of
    registers) where those are more, or the latency of a sum; and what it takes to begin and end."""
    once = 1.0 if vector_bytes == 64 else 0.5
    across = 2.0 if vector_bytes == 64 else 1.0  # a vector at any address
    loads = 0.5 * rows + across * vectors + 0.5
    return k * max(once * rows * vectors, loads, 4.0) + 4 * rows * vectors + 80


def all_steps(spec: ContractSpec, form: SlideForm, passes: int) -> float:
    """Cycles of a register tile for all steps. In each pass but the first it fetches its sums
    again; most of that happens while the tile before ends."""
    again = (passes - 1) * 2 * form.rows * form.vectors
    return tile_cycles(spec.k, form.rows, form.vectors, spec.vector_bytes) + again


def tiles_for(registers: int) -> Iterator[tuple[int, int]]:
    """Rows and vectors of the register tiles that leave room for a row of vectors and a scalar."""
    for vectors in (1, 2, 3, 4, 6, 8):
        for rows in range(1, 15):
            if rows * vectors + vectors + 1 <= registers:
                yield rows, vectors


def best_runs(plan: SlidePlan) -> tuple[float, SlideForm] | None:
    """The cheapest form without panels, and its cost."""
    best: tuple[float, SlideForm] | None = None
    spec, points = plan.spec, plan.slide.points
    for run in range(1, min(len(points), 3) + 1):
        form = SlideForm(run, 1, 1, 1)
        if not splits(plan.tracks(form)):
            break
        extent = points[len(points) - run].extent
        for chunk in chunks_of(extent):
            pair = _best_tile(plan, replace(form, chunk=chunk))
            for parts in (1, 2, 4):
                trial = replace(pair, splits=parts)
                if parts > ceil_div(spec.m, trial.rows):
                    break
                cost = plan.cost(trial)
                if best is None or cost < best[0]:
                    best = (cost, trial)
    return best


def _best_tile(plan: SlidePlan, form: SlideForm) -> SlideForm:
    """The register tile with the least multiplications of padding."""
    spec = plan.spec
    run = plan.lay_out(form).copied.run

    def cost(tile: tuple[int, int]) -> float:
        rows, vectors = tile
        count = ceil_div(spec.m, rows) * ceil_div(run, vectors * spec.lanes)
        return count * tile_cycles(spec.k, rows, vectors, spec.vector_bytes)

    rows, vectors = min(tiles_for(spec.registers), key=cost)
    return replace(form, rows=rows, vectors=vectors)


def chunks_of(extent: int) -> Sequence[int]:
    """Sizes that divide an axis into equal parts, nearly."""
    return sorted(
        {ceil_div(extent, parts) for parts in (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32, 64)}
    )


def worth_sliding(plan: SlidePlan) -> bool:
    """Whether the operand slides along the results, and these fill vectors."""
    slide, spec = plan.slide, plan.spec
    along = all(w.point.extent >= w.tap.extent for w in slide.walks)
    in_runs = len(slide.points) > 1 and is_along(slide.value, slide.points[-1])
    straight = bool(slide.walks) or in_runs
    return along and straight and spec.n >= 2 * spec.lanes and spec.flops >= 50_000


def is_along(value: Expr, axis: Axis) -> bool:
    """Whether neighbours along an axis are neighbours in memory: every load that depends on it does
    so in its last index alone."""
    found = False
    for item in sub_expressions(value):
        if not isinstance(item, Load):
            continue
        *before, last = [*item.index] or [constant(0)]
        if any(axis in axes_of(i) for i in before):
            return False
        if axis in axes_of(last):
            if last.coefficient(axis) != 1:
                return False
            found = True
    return found
