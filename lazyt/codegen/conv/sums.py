"""Sums along which an operand slides: the gradient of a convolution's kernel, and its likes.

Here the long axes are the summed ones, and results are few: taps, channels of the input, channels
of the output. The sliding operand is copied as for a convolution (``codegen/conv/copies.py``);
element k of the row of a tap is found by adding two numbers, one of k and one of the row. The other
operand is transposed, so that its axis of the result lies along vectors. A task owns a part of the
results and goes through all k in order, chunk by chunk, with its sums in cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from math import prod
from typing import NamedTuple

from lazyt.codegen.c.family import Expressions
from lazyt.codegen.conv.blocks import (
    COPIED,
    PARALLEL_FLOPS,
    SlidePlan,
    is_along,
    tile_cycles,
    tiles_for,
)
from lazyt.codegen.conv.copies import Copy, SlideText, lay_copy
from lazyt.codegen.conv.micro_kernels import sums_name, sums_sections, transpose_section
from lazyt.codegen.conv.windows import Track, splits, track_of
from lazyt.codegen.matmul.micro_kernels import WORKER_SECTION, clamp_threads, open_kernel
from lazyt.codegen.matmul.spec import ContractText, ceil_div, round_up
from lazyt.ir.index import Axis

#: Tasks that a kernel is divided into, where its results allow it.
_TASKS = 4


@dataclass(frozen=True)
class SumsForm:
    """How the work is divided.

    Attributes:
        run: summed axes, counted from the last, that a chunk goes along.
        chunk: points of the first of them that are summed at a time.
        rows, vectors: the register tile.
        parts: of the first axis of the rows, one for each task.
        col_parts: of the columns.
    """

    run: int
    chunk: int
    rows: int
    vectors: int
    parts: int = 1
    col_parts: int = 1


class _Layout(NamedTuple):
    """Sizes in elements, those of the workspace in bytes.

    Attributes:
        copied: the copy of the sliding operand.
        steps: summed elements of a whole chunk.
        part, block: points of the rows' first axis that a task takes, and its rows.
        tall: rows rounded up to tiles.
        cols, wide: columns of a task, and what they are rounded up to.
        line: elements of a row of the other operand on their way to the panel, rounded up.
        row_table, shared: where the table of rows begins, and the end of both tables.
        panel, turned, sums, private: where these pieces of a task begin, and the end of all.
    """

    copied: Copy
    steps: int
    part: int
    block: int
    tall: int
    cols: int
    wide: int
    line: int
    row_table: int
    shared: int
    panel: int
    turned: int
    sums: int
    private: int


def _tracks(plan: SlidePlan, form: SumsForm) -> list[Track]:
    axes = plan.inner[len(plan.inner) - form.run :]
    return [track_of(a, plan.slide.walks, "tap") for a in axes]


def _parted(plan: SlidePlan, form: SumsForm) -> Axis | None:
    """The first axis of the rows, where it shifts nothing: then tasks can divide it."""
    first = plan.slide.points[0] if plan.slide.points else None
    return None if first in [t.tap for t in _tracks(plan, form)] else first


def _lay_out(plan: SlidePlan, form: SumsForm) -> _Layout:
    spec, points, tracks = plan.spec, plan.slide.points, _tracks(plan, form)
    taps = [t.tap for t in tracks]
    parted = _parted(plan, form)
    part = ceil_div(parted.extent, form.parts) if parted is not None else 1
    free = tuple(Axis(a.name, part) if a == parted else a for a in points if a not in taps)
    line = 64 // spec.item
    copied = lay_copy(plan.slide.value, tracks, form.chunk, free, line)
    steps = form.chunk * prod(t.axis.extent for t in tracks[1:])
    block = part * prod(a.extent for a in points[1:]) if parted is not None else spec.m
    tall = round_up(block, form.rows)
    width = form.vectors * spec.lanes
    cols = round_up(ceil_div(spec.n, form.col_parts), width)
    # A chunk of one track may end anywhere; of several, only behind a row.
    longest = form.chunk if len(tracks) == 1 else tracks[-1].axis.extent
    straight = round_up(longest, spec.lanes)
    item = spec.item
    row_table = round_up(steps * 4, 64)
    shared = row_table + round_up(tall * 4, 64)
    panel = round_up(copied.size * item, 64)
    turned = panel + round_up((steps + spec.lanes) * cols * item, 64)
    sums = turned + round_up(spec.lanes * straight * item, 64)
    private = sums + round_up(tall * cols * item, 64)
    return _Layout(
        copied, steps, part, block, tall, cols, cols, straight, row_table, shared,
        panel, turned, sums, private,
    )  # fmt: skip


def sums_cost(plan: SlidePlan, form: SumsForm) -> float:
    """Cycles of one core for the whole contraction, roughly."""
    spec, lay = plan.spec, _lay_out(plan, form)
    chunks = ceil_div(spec.k, lay.steps)
    width = form.vectors * spec.lanes
    tiles = lay.tall // form.rows * (lay.cols // width)
    sums = tiles * tile_cycles(lay.steps, form.rows, form.vectors, spec.vector_bytes)
    if lay.private > spec.cache[1] * 3 // 4:
        sums *= 1.3
    copies = COPIED * (lay.copied.size + lay.steps * lay.cols * 2)
    tasks = spec.batch * form.parts * form.col_parts
    want = min(_TASKS, tasks) if tasks else 1
    return tasks * chunks * (sums + copies + 50) * (1.0 if want == _TASKS else 1.5 / want)


def choose_sums(plan: SlidePlan) -> SumsForm | None:
    """The cheapest form, None where nothing can be transposed or divided."""
    spec = plan.spec
    if spec.lanes < 2:
        return None
    best: tuple[float, SumsForm] | None = None
    for run in range(1, min(len(plan.inner), 3) + 1):
        first = SumsForm(run, 1, 1, 1)
        if not splits(_tracks(plan, first)):
            break
        extent = plan.inner[len(plan.inner) - run].extent
        parted = _parted(plan, first)
        most = parted.extent if parted is not None else 1
        for chunk in {ceil_div(extent, p) for p in (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64)}:
            for parts, col_parts in ((1, 1), (2, 1), (1, 2), (2, 2), (4, 1), (1, 4)):
                if ceil_div(most, ceil_div(most, parts)) != parts:
                    continue
                if col_parts > 1 and spec.n < col_parts * spec.lanes:
                    continue
                form = replace(first, chunk=chunk, parts=parts, col_parts=col_parts)
                form = _with_tile(plan, form)
                cost = sums_cost(plan, form)
                if best is None or cost < best[0]:
                    best = cost, form
    return None if best is None else best[1]


def _with_tile(plan: SlidePlan, form: SumsForm) -> SumsForm:
    """The register tile with the least multiplications of padding."""
    spec, lay = plan.spec, _lay_out(plan, form)
    cols = ceil_div(spec.n, form.col_parts)

    def cost(tile: tuple[int, int]) -> float:
        rows, vectors = tile
        count = ceil_div(lay.block, rows) * ceil_div(cols, vectors * spec.lanes)
        return count * tile_cycles(lay.steps, rows, vectors, spec.vector_bytes)

    rows, vectors = min(tiles_for(spec.registers), key=cost)
    return replace(form, rows=rows, vectors=vectors)


def emit_sums(e: Expressions, plan: SlidePlan, form: SumsForm) -> ContractText:
    """The kernel of a contraction whose operand slides along the sums."""
    return _Printer(e, plan, form).text()


class _Printer(SlideText):
    """Writes one kernel."""

    def __init__(self, e: Expressions, plan: SlidePlan, form: SumsForm) -> None:
        super().__init__(e)
        self.spec, self.plan, self.form = plan.spec, plan, form
        self.lay = _lay_out(plan, form)
        self.copy = self.lay.copied
        self.outer = plan.inner[: len(plan.inner) - form.run]
        self.parted = _parted(plan, form)

    def text(self) -> ContractText:
        """The kernel."""
        spec, form, lay, out = self.spec, self.form, self.lay, self.out
        tasks = spec.batch * form.parts * form.col_parts
        workers = min(spec.max_threads, tasks) if spec.flops >= PARALLEL_FLOPS else 1
        with open_kernel(out, spec):
            if workers > 1 or spec.any_size:
                clamp_threads(out, workers)
                out.pragma("omp parallel num_threads(g_threads)")
            with out.block():
                mine = f"ws + {lay.shared} + (lz_i64)lz_worker() * {lay.private}"
                out.add("lz_i32 *restrict g_steps = (lz_i32 *)ws;")
                out.add(f"lz_i32 *restrict g_rows = (lz_i32 *)(ws + {lay.row_table});")
                out.add(f"char *g_mine = {mine};")
                for name, start in (("g_x", 0), ("g_b", lay.panel), ("g_w", lay.turned)):
                    place = f"(g_mine + {start})" if start else "g_mine"
                    out.add(f"{spec.ctype} *restrict {name} = ({spec.ctype} *){place};")
                out.add(f"{spec.ctype} *restrict g_c = ({spec.ctype} *)(g_mine + {lay.sums});")
                out.pragma("omp single")
                with out.block():
                    self._tables()
                out.pragma("omp for schedule(dynamic, 1)")
                with out.loop("g_t", 0, tasks):
                    self._task()
        sections = sums_sections(spec.acc, form.rows, form.vectors, spec.vector_bytes)
        used = (WORKER_SECTION, *sections, transpose_section(spec.acc, spec.vector_bytes))
        note = f"{form}: an operand slides along the sums"
        return ContractText(used, out.text(), lay.shared + lay.private * workers, note)

    def _tables(self) -> None:
        """The two parts of a place in the copy: that of a summed point, and that of a row."""
        out, form, lay, points = self.out, self.form, self.lay, self.plan.slide.points
        axes = [
            Axis(t.axis.name, form.chunk if n == 0 else t.axis.extent)
            for n, t in enumerate(self.copy.tracks)
        ]
        with out.block():
            out.add("const lz_i64 g_p0 = 0;")
            with self.over(axes):
                out.add(f"g_steps[{self.flat(axes)}] = {self.offset_of(self.copy)};")
        with out.loop("g_i", 0, lay.tall):
            # Rows that fill the last tile up repeat the last one.
            last = lay.block - 1
            row = f"(g_i < {last} ? g_i : {last})" if lay.tall > lay.block else "g_i"
            out.add(f"const lz_i64 g_at = {row};")
            local = [Axis(a.name, lay.part) if a == self.parted else a for a in points]
            self.decode("g_at", local)
            out.add(f"g_rows[g_i] = {self.shifts(self.copy, local)};")

    def _task(self) -> None:
        """A part of the results, over all sums."""
        out, plan, form, lay, spec = self.out, self.plan, self.form, self.lay, self.spec
        parts = form.parts * form.col_parts
        self.decode(f"(g_t / {parts})", plan.batch)
        out.add(f"const lz_i64 g_n0 = g_t % {form.col_parts} * {lay.cols};")
        out.clip("g_n1", "g_n0", lay.cols, spec.n)
        part = None
        if self.parted is not None:
            out.add(f"const lz_i64 g_r0 = g_t / {form.col_parts} % {form.parts} * {lay.part};")
            out.clip("g_r1", "g_r0", lay.part, self.parted.extent)
            part = (Axis(self.parted.name, lay.part), "g_r0", "g_r1")
        first = self.copy.tracks[0].axis.extent
        whole = prod(t.axis.extent for t in self.copy.tracks[1:])
        micro = sums_name(spec.acc, form.rows, form.vectors, spec.vector_bytes)
        width = form.vectors * spec.lanes
        with self.over(self.outer), out.loop("g_p0", 0, first, form.chunk):
            out.clip("g_p1", "g_p0", form.chunk, first)
            self.fill(self.copy, part)
            self._turn()
            begins = " && ".join(["g_p0 == 0", *(f"{a.name} == 0" for a in self.outer)])
            with (
                out.loop("g_col0", 0, "g_n1 - g_n0", width),
                out.loop("g_row0", 0, lay.tall, form.rows),
            ):
                out.add(
                    f"{micro}((g_p1 - g_p0) * {whole}, g_x, {self.copy.size - 1}, g_steps,",
                    f"    g_rows + g_row0, g_b + g_col0 * {lay.steps + spec.lanes},",
                    f"    g_c + g_row0 * {lay.cols} + g_col0, {lay.cols}, {begins});",
                )
        self._store()

    def _turn(self) -> None:
        """Fill the panels [k][columns of a tile] of the other operand."""
        out, plan, form, lay, spec = self.out, self.plan, self.form, self.lay, self.spec
        lanes, width = spec.lanes, form.vectors * spec.lanes
        *rows, last = self.copy.tracks
        with out.loop("g_j0", "g_n0", f"g_n0 + {lay.cols}", lanes), ExitStack() as stack:
            steps = ""
            for number, track in enumerate(rows):
                name = track.axis.name
                bounds: tuple[int | str, int | str] = (0, track.axis.extent)
                start = name
                if number == 0:
                    bounds, start = ("g_p0", "g_p1"), f"({name} - g_p0)"
                stack.enter_context(out.loop(name, *bounds))
                steps = f"({steps}) * {track.axis.extent} + {start}" if steps else start
            lane = last.axis
            low, high = ("0", str(lane.extent)) if rows else ("g_p0", "g_p1")
            at = lane.name if rows else f"({lane.name} - g_p0)"
            with out.loop("g_j", 0, lanes):
                target = f"g_w[g_j * {lay.line} + {at}]"
                out.add("const lz_i64 g_col = g_j0 + g_j;")
                ragged = lay.cols * form.col_parts > spec.n
                with out.block(f"if (g_col < {spec.n})" if ragged else ""):
                    self.decode("g_col", plan.slide.others)
                    self.fill_run(lane, low, high, target, plan.slide.fixed)
                if ragged:
                    with out.block("else"), out.loop(lane.name, low, high):
                        out.add(f"{target} = 0;")
            begin = f"({steps}) * {lane.extent}" if rows else "0"
            base = f"(g_j0 - g_n0) / {width} * {(lay.steps + lanes) * width}"
            out.add(
                f"lz_turn_{spec.acc}_v{spec.vector_bytes}({lay.line}, g_w, {lay.line},",
                f"    g_b + {base} + (g_j0 - g_n0) % {width} + ({begin}) * {width}, {width});",
            )

    def _store(self) -> None:
        """The epilogue over all results of the task."""
        out, plan, lay, spec = self.out, self.plan, self.lay, self.spec
        points, others = plan.slide.points, plan.slide.others
        with out.loop("g_col", "g_n0", "g_n1"), ExitStack() as stack:
            self.decode("g_col", others)
            row = ""
            for axis in points:
                if axis == points[-1]:
                    out.pragma("omp simd")
                bounds: tuple[int | str, int | str] = (0, axis.extent)
                name = axis.name
                if axis == self.parted:
                    bounds, name = ("g_r0", "g_r1"), f"({axis.name} - g_r0)"
                stack.enter_context(out.loop(axis.name, *bounds))
                row = f"({row}) * {axis.extent} + {name}" if row else name
            out.add(f"const {spec.ctype} g_value = g_c[({row or 0}) * {lay.cols} + g_col - g_n0];")
            out.add(*plan.finish("g_value", plan.ending))


def worth_summing(plan: SlidePlan) -> bool:
    """Whether the operand slides along the sums, or these lie in several runs; and are long."""
    slide, spec = plan.slide, plan.spec
    along = all(w.tap.extent >= w.point.extent for w in slide.walks)
    if not slide.walks:
        last = plan.inner[-1] if len(plan.inner) > 1 else None
        along = last is not None and all(is_along(v, last) for v in (slide.value, slide.fixed))
    return along and spec.k >= 64 and spec.flops >= 50_000


__all__: Sequence[str] = ["SumsForm", "choose_sums", "emit_sums", "sums_cost", "worth_summing"]
