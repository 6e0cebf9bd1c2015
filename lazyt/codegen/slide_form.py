"""Block sizes of convolutions, chosen by what the copies, the multiplications and the stores cost."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from typing import NamedTuple

from lazyt.codegen.contract_spec import ContractSpec, ceil_div, round_up
from lazyt.codegen.slide import Slide, Track, at_axes, split_guards, splits, track_of
from lazyt.ir.index import Axis, variable
from lazyt.ir.point import Guarded
from lazyt.ir.scalar import Const

# Cycles, roughly: of an element copied, a loop entered, and a result stored.
COPIED, ENTERED, STORED = 0.3, 12.0, 0.4
#: Threads that should find equal work.
TEAM = 8


@dataclass(frozen=True)
class SlideForm:
    """How the work of a convolution is divided.

    Attributes:
        run: axes of the result, counted from the last, whose points follow each other in the copy.
        chunk: points of the first of them that a task takes.
        rows, vectors: the register tile.
        splits: tasks that share a chunk, each with a part of the other operand's rows.
    """

    run: int
    chunk: int
    rows: int
    vectors: int
    splits: int = 1


class Layout(NamedTuple):
    """Where things lie, in elements, and in bytes where it is about the workspace.

    Attributes:
        pitches: distances of neighbours along the tracks.
        slot_pitches: distances of a track's pieces.
        free_pitches: distances along summed axes that shift nothing.
        reach: the largest step.
        run: results of a whole chunk, with those between rows.
        width: room for them in the tile of sums.
        chunks, tasks: how many there are.
        panels, shared, copy, private: bytes of the packed operand, of it and the steps, of a task's
            copy, of it and the sums.
    """

    pitches: tuple[int, ...]
    slot_pitches: tuple[int, ...]
    free_pitches: tuple[int, ...]
    reach: int
    run: int
    width: int
    chunks: int
    tasks: int
    panels: int
    shared: int
    copy: int
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

    def shared_pitch(self, tracks: Sequence[Track]) -> int:
        """Distance of rows in the copy. What lies before a row may be what lies behind the one
        above, where both are padding."""
        *before, last = tracks
        pitch = 0
        for pieces in product(*(range(t.pieces) for t in before)):
            for piece in range(last.pieces):
                span = last.axis.extent + last.reach(piece)
                table = {}
                for track, number in zip(before, pieces, strict=True):
                    place = Axis(track.axis.name, track.axis.extent + track.reach(number))
                    table |= track.table(number, variable(place))
                lane = Axis("g_lane", span)
                table |= last.table(piece, variable(lane))
                _, inside, rest, other = split_guards(at_axes(self.slide.value, table), lane)
                plain = isinstance(other, Const) and not (
                    isinstance(rest, Guarded) and rest.other is other
                )
                if inside is not None and plain:
                    span = max(inside[1], span - inside[0])
                pitch = max(pitch, span)
        return pitch

    def lay_out(self, form: SlideForm) -> Layout:
        """The sizes that follow from a form."""
        spec, tracks, free = self.spec, self.tracks(form), self.free(form)
        spans = [form.chunk, *(t.axis.extent for t in tracks[1:])]
        pitches = [1] * len(tracks)
        tail = 0
        for n in range(len(tracks) - 2, -1, -1):
            span = spans[n + 1] + tracks[n + 1].reach()
            if n == len(tracks) - 2:
                pitch = self.shared_pitch(tracks)
                span, tail = pitch, span - pitch
            pitches[n] = pitches[n + 1] * span
        piece = pitches[0] * (spans[0] + tracks[0].reach()) + tail
        slots = [1] * len(tracks)
        size = piece
        for n in range(len(tracks) - 1, -1, -1):
            slots[n], size = size, size * tracks[n].slots
        line = 64 // spec.item
        size = (
            round_up(size, line) | line
        )  # an odd number of lines keeps apart what is read together
        frees = [0] * len(free)
        for n in range(len(free) - 1, -1, -1):
            frees[n], size = size, size * free[n].extent
        reach = sum((a.extent - 1) * p for a, p in zip(free, frees, strict=True))
        for track, pitch, slot in zip(tracks, pitches, slots, strict=True):
            if track.tap is not None:
                taps = range(track.tap.extent)
                reach += max(track.shift(t) * pitch + track.slot(t) * slot for t in taps)
        run = 1 + sum((n - 1) * p for n, p in zip(spans, pitches, strict=True))
        width = round_up(run, form.vectors * spec.lanes)
        copy = round_up(max(size, reach + width) * spec.item, 64)
        width += line if width % 1024 == 0 else 0
        panels = spec.batch * ceil_div(spec.m, form.rows) * form.rows * spec.k * spec.item
        panels = round_up(panels, 64)
        shared = panels + round_up(spec.k * 4, 64)
        private = copy + round_up(form.rows * width * spec.item, 64)
        chunks = ceil_div(tracks[0].axis.extent, form.chunk)
        outer = prod(a.extent for a in self.outer(form))
        tasks = spec.batch * outer * chunks * form.splits
        return Layout(
            tuple(pitches), tuple(slots), tuple(frees), reach, run, width, chunks, tasks,
            panels, shared, copy, private,
        )  # fmt: skip

    def cost(self, form: SlideForm) -> float:
        """Cycles of one core for the whole contraction, roughly."""
        spec, lay, tracks = self.spec, self.lay_out(form), self.tracks(form)
        runs = ceil_div(lay.run, form.vectors * spec.lanes)
        tiles = ceil_div(ceil_div(spec.m, form.rows), form.splits)
        copied = lay.copy / spec.item * tracks[0].pieces / tracks[0].slots
        rows = copied / (tracks[-1].axis.extent + tracks[-1].reach())
        shape = (16 // spec.item * COPIED * copied) / 4 + rows * ENTERED
        sums = tiles * (runs * tile_cycles(spec.k, form.rows, form.vectors) + ENTERED)
        if lay.copy > spec.cache[1] // 2:
            sums *= 1.0 + 0.3 * min(lay.copy / (spec.cache[1] // 2) - 1.0, 1.0)
        points = form.chunk * prod(t.axis.extent for t in tracks[1:])
        stored = tiles * form.rows * (STORED * points + ENTERED * points / tracks[-1].axis.extent)
        even = ceil_div(lay.tasks, TEAM) * TEAM / lay.tasks if lay.tasks < 4 * TEAM else 1.0
        return lay.tasks * (shape + sums + stored + 50) * even


def tile_cycles(k: int, rows: int, vectors: int) -> float:
    """Cycles of a register tile: multiplications, or loads (two at a time, or one that crosses a
    line in two cycles) where those are more, or the latency of a sum."""
    return k * max(rows * vectors, 0.5 * rows + 2 * vectors + 0.5, 4.0) + 2 * rows * vectors + 16


def tiles_for(vector_bytes: int) -> Iterator[tuple[int, int]]:
    """Rows and vectors of the register tiles that leave room for a row of vectors and a scalar."""
    registers = 32 if vector_bytes == 64 else 16
    for vectors in (1, 2, 3, 4, 6, 8):
        for rows in range(1, 15):
            if rows * vectors + vectors + 1 <= registers:
                yield rows, vectors


def choose_slide(plan: SlidePlan) -> SlideForm | None:
    """The cheapest form; None where too many remainders would have to be copied apart."""
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
    return None if best is None else best[1]


def _best_tile(plan: SlidePlan, form: SlideForm) -> SlideForm:
    """The register tile with the least multiplications of padding."""
    spec = plan.spec
    run = plan.lay_out(form).run

    def cost(tile: tuple[int, int]) -> float:
        rows, vectors = tile
        count = ceil_div(spec.m, rows) * ceil_div(run, vectors * spec.lanes)
        return count * tile_cycles(spec.k, rows, vectors)

    rows, vectors = min(tiles_for(spec.vector_bytes), key=cost)
    return replace(form, rows=rows, vectors=vectors)


def _chunks(extent: int) -> Sequence[int]:
    """Sizes that divide an axis into equal parts, nearly."""
    return sorted(
        {ceil_div(extent, parts) for parts in (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32, 64)}
    )


def worth_sliding(slide: Slide, spec: ContractSpec) -> bool:
    """Whether copying the input pays: the taps read it several times, and results fill vectors."""
    points = prod(a.extent for a in slide.points)
    larger = all(w.point.extent >= w.tap.extent for w in slide.walks)
    return larger and points >= 2 * spec.lanes and spec.flops >= 50_000
