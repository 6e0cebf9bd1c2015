"""Convolutions whose rows are short: block sizes of the form that moves elements into panels."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from math import prod
from typing import NamedTuple

from lazyt.codegen.conv.blocks import (
    COPIED,
    ENTERED,
    STORED,
    SlideForm,
    SlidePlan,
    all_steps,
    best_runs,
    chunks_of,
    evenness,
    steps_at_once,
    tile_cycles,
    tiles_for,
)
from lazyt.codegen.conv.copies import Copy, lay_copy
from lazyt.codegen.matmul.blocks import shares_few_sets
from lazyt.codegen.matmul.spec import ceil_div, round_up
from lazyt.ir.decisions import decide
from lazyt.ir.index import Axis

#: Register tiles of columns up to which the other operand is read where it lies.
_FEW_COLUMNS = 8


def choose_slide(plan: SlidePlan) -> SlideForm | None:
    """The cheapest form; None where too many remainders would have to be copied apart."""
    found = [f for f in (best_runs(plan), _best_panels(plan)) if f is not None]
    best = min(found, key=lambda f: f[0])[1] if found else None
    like = decide("form of a convolution", best)
    if like is None or best is None:
        return None
    return _straight(plan, best if best.is_like(like) else _best_like(plan, like))


def _straight(plan: SlidePlan, form: SlideForm) -> SlideForm:
    """The form, with the other operand read where it lies if its rows meet so few columns that
    packing them is a good part of the work, and stay in the first-level cache side by side."""
    spec, lies = plan.spec, plan.along
    if lies is None:
        return form
    columns = ceil_div(spec.n, form.vectors * spec.lanes)
    if columns > _FEW_COLUMNS or not shares_few_sets(lies.side * spec.item, form.rows):
        return form
    return replace(form, straight=True)


def _best_like(plan: SlidePlan, form: SlideForm) -> SlideForm:
    """The cheapest form whose text differs from that of ``form`` in numbers only."""
    points = plan.slide.points
    extent = points[len(points) - form.run].extent
    cost = partial(_panel_cost, plan) if form.block else plan.cost
    return min((replace(form, chunk=chunk) for chunk in chunks_of(extent)), key=cost)


class PanelLayout(NamedTuple):
    """Sizes in elements; those of the workspace in bytes.

    Attributes:
        copied: the copy of a block of the sliding operand.
        steps: summed elements of a block.
        depth: of them, those after which the next tile below goes on.
        lines, line: rows of results in a chunk, and their length.
        width: results of a chunk, rounded up to tiles.
        chunks, tasks, tall: how many there are; rows of the sums of a task.
        panels, lines_at, flat_at, shared: where what all tasks share begins, and its end.
        panel, sums, private: the same for what a task has.
    """

    copied: Copy
    steps: int
    depth: int
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
    size = (form.vectors * spec.lanes + form.rows) * item
    depth = steps_at_once(spec, steps, size)
    return PanelLayout(
        copied, steps, depth, lines, line, width, chunks, tasks, tall,
        panels, lines_at, flat_at, shared, panel, sums, private,
    )  # fmt: skip


def _panel_cost(plan: SlidePlan, form: SlideForm) -> float:
    """Cycles of one core for the whole contraction, roughly."""
    spec, lay = plan.spec, lay_out_panels(plan, form)
    blocks = ceil_div(plan.inner[0].extent, form.block)
    per = form.vectors * spec.lanes
    count = lay.tall // form.rows * (lay.width // per)
    sums = count * all_steps(spec, form, blocks * ceil_div(lay.steps, lay.depth))
    if lay.private > spec.cache[1] * 3 // 4:
        sums *= 1.3
    rows = lay.copied.size / (lay.line + lay.copied.tracks[-1].reach())
    copies = COPIED * lay.copied.size + rows * ENTERED
    moves = lay.steps * lay.lines * (1 + 1.5 * ceil_div(lay.line, spec.lanes))
    stored = lay.tall * lay.lines * (STORED * lay.line + ENTERED)
    return lay.tasks * (sums + blocks * (copies + moves) + stored) * evenness(lay.tasks)


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

    rows, vectors = min(tiles_for(spec.registers), key=cost)
    return replace(form, rows=rows, vectors=vectors)
