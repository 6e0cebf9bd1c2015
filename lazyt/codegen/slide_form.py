"""Block sizes of convolutions, chosen by what copies, multiplications and stores cost."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import NamedTuple

from lazyt.codegen.contract_spec import ContractSpec, ceil_div, round_up
from lazyt.codegen.slide import Slide, Track, splits, track_of
from lazyt.codegen.slide_copy import Copy, lay_copy
from lazyt.ir.index import Axis, axes_of, constant
from lazyt.ir.point import Load, sub_expressions
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
    """

    run: int
    chunk: int
    rows: int
    vectors: int
    splits: int = 1
    block: int = 0


class Layout(NamedTuple):
    """Where things lie, in elements, and in bytes where it is about the workspace.

    Attributes:
        copied: the copy of the sliding operand.
        width: room for a row of the tile of sums.
        chunks, tasks: how many there are.
        panels, shared: bytes of the packed operand, and of it and the steps.
        sums, private: bytes of a task's copy, and of it and the sums.
    """

    copied: Copy
    width: int
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
        finish: the statements that take a finished sum, given its name, the axes being declared.
    """

    slide: Slide
    spec: ContractSpec
    batch: tuple[Axis, ...]
    inner: tuple[Axis, ...]
    finish: Callable[[str], list[str]]
    reason: str = "an operand slides along the results"

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
        width = round_up(copied.run, form.vectors * spec.lanes)
        sums = round_up(max(copied.size, copied.reach + width) * spec.item, 64)
        width += line if width % 1024 == 0 else 0
        panels = spec.batch * ceil_div(spec.m, form.rows) * form.rows * spec.k * spec.item
        panels = round_up(panels, 64)
        private = sums + round_up(form.rows * width * spec.item, 64)
        chunks = ceil_div(tracks[0].axis.extent, form.chunk)
        tasks = spec.batch * prod(a.extent for a in self.outer(form)) * chunks * form.splits
        shared = panels + round_up(spec.k * 4, 64)
        return Layout(copied, width, chunks, tasks, panels, shared, sums, private)

    def cost(self, form: SlideForm) -> float:
        """Cycles of one core for the whole contraction, roughly."""
        spec, lay, tracks = self.spec, self.lay_out(form), self.tracks(form)
        runs = ceil_div(lay.copied.run, form.vectors * spec.lanes)
        tiles = ceil_div(ceil_div(spec.m, form.rows), form.splits)
        copied = lay.sums / spec.item * tracks[0].pieces / tracks[0].slots
        rows = copied / (tracks[-1].axis.extent + tracks[-1].reach())
        shape = (16 // spec.item * COPIED * copied) / 4 + rows * ENTERED
        sums = tiles * (
            runs * tile_cycles(spec.k, form.rows, form.vectors, spec.vector_bytes) + ENTERED
        )
        if lay.sums > spec.cache[1] // 2:
            sums *= 1.0 + 0.3 * min(lay.sums / (spec.cache[1] // 2) - 1.0, 1.0)
        points = form.chunk * prod(t.axis.extent for t in tracks[1:])
        stored = tiles * form.rows * (STORED * points + ENTERED * points / tracks[-1].axis.extent)
        return lay.tasks * (shape + sums + stored + 50) * evenness(lay.tasks)


def evenness(tasks: int) -> float:
    """How much longer the last of a team's threads takes than with equal parts."""
    return ceil_div(tasks, TEAM) * TEAM / tasks if tasks < 4 * TEAM else 1.0


def tile_cycles(k: int, rows: int, vectors: int, vector_bytes: int) -> float:
    """Cycles of a register tile: multiplications (two at a time, but for the widest registers), or
    loads (two at a time, or one that crosses a line in two cycles) where those are more, or the
    latency of a sum; and what it takes to begin and end."""
    once = 1.0 if vector_bytes == 64 else 0.5
    crossing = vector_bytes / 64  # of loads at any address
    loads = 0.5 * rows + (0.5 + 1.5 * crossing) * vectors + 0.5
    return k * max(once * rows * vectors, loads, 4.0) + 4 * rows * vectors + 80


def tiles_for(vector_bytes: int) -> Iterator[tuple[int, int]]:
    """Rows and vectors of the register tiles that leave room for a row of vectors and a scalar."""
    registers = 32 if vector_bytes == 64 else 16
    for vectors in (1, 2, 3, 4, 6, 8):
        for rows in range(1, 15):
            if rows * vectors + vectors + 1 <= registers:
                yield rows, vectors


def choose_slide(plan: SlidePlan) -> SlideForm | None:
    """The cheapest form; None where too many remainders would have to be copied apart."""
    found = [f for f in (_best_runs(plan), _best_panels(plan)) if f is not None]
    return min(found, key=lambda f: f[0])[1] if found else None


def _best_runs(plan: SlidePlan) -> tuple[float, SlideForm] | None:
    """The cheapest form without panels, and its cost."""
    best: tuple[float, SlideForm] | None = None
    spec, points = plan.spec, plan.slide.points
    for run in range(1, min(len(points), 3) + 1):
        form = SlideForm(run, 1, 1, 1)
        if not splits(plan.tracks(form)):
            break
        extent = points[len(points) - run].extent
        for chunk in _chunks(extent):
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

    rows, vectors = min(tiles_for(spec.vector_bytes), key=cost)
    return replace(form, rows=rows, vectors=vectors)


def _chunks(extent: int) -> Sequence[int]:
    """Sizes that divide an axis into equal parts, nearly."""
    return sorted(
        {ceil_div(extent, parts) for parts in (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32, 64)}
    )


class PanelLayout(NamedTuple):
    """Sizes in elements; those of the workspace in bytes.

    Attributes:
        copied: the copy of a block of the sliding operand.
        steps: summed elements of a block.
        lines, line: rows of results in a chunk, and their length.
        width: results of a chunk, rounded up to tiles.
        chunks, tasks, tall: how many there are; rows of the sums of a task.
        panels, lines_at, flat_at, shared: where what all tasks share begins, and its end.
        panel, sums, private: the same for what a task has.
    """

    copied: Copy
    steps: int
    lines: int
    line: int
    width: int
    chunks: int
    tasks: int
    tall: int
    panels: int
    lines_at: int
    flat_at: int
    shared: int
    panel: int
    sums: int
    private: int


def lay_out_panels(plan: SlidePlan, form: SlideForm) -> PanelLayout:
    """The sizes that follow from a form with panels."""
    spec, tracks, item = plan.spec, plan.tracks(form), plan.spec.item
    first = plan.inner[0]
    free = [Axis(first.name, form.block) if a == first else a for a in plan.free(form)]
    copied = lay_copy(plan.slide.value, tracks, form.chunk, free, 64 // item)
    steps = form.block * prod(a.extent for a in plan.inner[1:])
    line = tracks[-1].axis.extent
    lines = form.chunk * prod(t.axis.extent for t in tracks[1:-1])
    width = round_up(lines * line, form.vectors * spec.lanes)
    chunks = ceil_div(tracks[0].axis.extent, form.chunk)
    tasks = spec.batch * prod(a.extent for a in plan.outer(form)) * chunks * form.splits
    tiles = ceil_div(spec.m, form.rows)
    tall = ceil_div(tiles, form.splits) * form.rows
    panels = round_up(spec.batch * tiles * form.rows * spec.k * item, 64)
    lines_at = panels + round_up(steps * 4, 64)
    flat_at = lines_at + round_up(lines * 4, 64)
    shared = flat_at + round_up(steps * 4, 64)
    slack = round_up(line, spec.lanes)
    panel = round_up((copied.size + slack) * item, 64)
    sums = panel + round_up((steps * width + slack) * item, 64)
    private = sums + round_up(tall * width * item, 64)
    return PanelLayout(
        copied, steps, lines, line, width, chunks, tasks, tall,
        panels, lines_at, flat_at, shared, panel, sums, private,
    )  # fmt: skip


def _panel_cost(plan: SlidePlan, form: SlideForm) -> float:
    """Cycles of one core for the whole contraction, roughly."""
    spec, lay = plan.spec, lay_out_panels(plan, form)
    blocks = ceil_div(plan.inner[0].extent, form.block)
    per = form.vectors * spec.lanes
    count = lay.tall // form.rows * (lay.width // per)
    sums = count * tile_cycles(lay.steps, form.rows, form.vectors, spec.vector_bytes)
    if lay.private > spec.cache[1] * 3 // 4:
        sums *= 1.3
    rows = lay.copied.size / (lay.line + lay.copied.tracks[-1].reach())
    copies = COPIED * lay.copied.size + rows * ENTERED
    moves = lay.steps * lay.lines * (1 + 1.5 * ceil_div(lay.line, spec.lanes))
    stored = lay.tall * lay.lines * (STORED * lay.line + ENTERED)
    return lay.tasks * (blocks * (sums + copies + moves) + stored) * evenness(lay.tasks)


def panels_fit(plan: SlidePlan, form: SlideForm) -> bool:
    """Whether a convolution can be written with panels: results have rows, whose elements the taps
    read at one distance, and the first summed axis shifts nothing."""
    tracks = plan.tracks(form)
    one = all(t.pieces == 1 for t in tracks)
    return form.run > 1 and one and bool(plan.inner) and plan.inner[0] in plan.free(form)


def _best_panels(plan: SlidePlan) -> tuple[float, SlideForm] | None:
    """The cheapest form with panels, and its cost."""
    spec, points = plan.spec, plan.slide.points
    best: tuple[float, SlideForm] | None = None
    for run in range(2, min(len(points), 3) + 1):
        form = SlideForm(run, 1, 1, 1)
        if not panels_fit(plan, form):
            continue
        first = plan.inner[0]
        extent = points[len(points) - run].extent
        inside = prod(a.extent for a in points[len(points) - run + 1 :])
        taps = prod(a.extent for a in plan.inner[1:])
        for chunk in {ceil_div(extent, p) for p in (1, 2, 4, 8, 16)}:
            if not 4 * spec.lanes <= chunk * inside <= 64 * spec.lanes:
                continue
            for steps in (128, 256, 512):
                block = min(first.extent, max(1, steps // taps))
                trial = _panel_tile(plan, replace(form, chunk=chunk, block=block), chunk * inside)
                for parts in (1, 2, 4):
                    divided = replace(trial, splits=parts)
                    if parts > ceil_div(spec.m, trial.rows):
                        break
                    cost = _panel_cost(plan, divided)
                    if best is None or cost < best[0]:
                        best = cost, divided
    return best


def _panel_tile(plan: SlidePlan, form: SlideForm, count: int) -> SlideForm:
    spec = plan.spec
    steps = form.block * prod(a.extent for a in plan.inner[1:])

    def cost(tile: tuple[int, int]) -> float:
        rows, vectors = tile
        tiles = ceil_div(spec.m, rows) * ceil_div(count, vectors * spec.lanes)
        return tiles * tile_cycles(steps, rows, vectors, spec.vector_bytes)

    rows, vectors = min(tiles_for(spec.vector_bytes), key=cost)
    return replace(form, rows=rows, vectors=vectors)


def worth_sliding(plan: SlidePlan) -> bool:
    """Whether the operand slides along the results, and these fill vectors."""
    slide, spec = plan.slide, plan.spec
    along = all(w.point.extent >= w.tap.extent for w in slide.walks)
    in_runs = len(slide.points) > 1 and lies_along(slide.value, slide.points[-1])
    straight = bool(slide.walks) or in_runs
    return along and straight and spec.n >= 2 * spec.lanes and spec.flops >= 50_000


def lies_along(value: Expr, axis: Axis) -> bool:
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
