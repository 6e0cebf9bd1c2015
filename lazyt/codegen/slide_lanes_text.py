"""The C of sums with a batch in each lane, see ``slide_lanes.py``."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from math import prod

from lazyt.codegen.c_family import Expressions
from lazyt.codegen.contract_axes import Shapes
from lazyt.codegen.contract_micro import WORKER_SECTION
from lazyt.codegen.contract_spec import ContractText, ceil_div
from lazyt.codegen.contract_text import clamp_threads, open_kernel
from lazyt.codegen.slide_copy import SlideText
from lazyt.codegen.slide_form import PARALLEL_FLOPS, SlidePlan
from lazyt.codegen.slide_lanes import (
    BLOCK,
    LINE,
    LanesForm,
    LanesLayout,
    LanesPlan,
    Turned,
    reach_of,
)
from lazyt.codegen.slide_micro import beside_name, beside_sections, spread_section
from lazyt.ir.index import Axis


def emit_lanes(e: Expressions, plan: SlidePlan, form: LanesForm, shapes: Shapes) -> ContractText:
    """The kernel of sums of many batches, in a form that fits."""
    lay = LanesPlan(plan, shapes).lay_out(form)
    assert lay is not None
    return _Printer(e, plan, form, lay).text()


class _Printer(SlideText):
    """Writes one kernel."""

    def __init__(self, e: Expressions, plan: SlidePlan, form: LanesForm, lay: LanesLayout) -> None:
        super().__init__(e)
        self.spec, self.plan, self.form, self.lay = plan.spec, plan, form, lay
        self.lanes = form.bytes // plan.spec.item
        self.outer = plan.inner[: len(plan.inner) - form.run]
        self.gap = lay.slides.tracks[-1].dilation * self.lanes

    def text(self) -> ContractText:
        """The kernel."""
        spec, form, lay, out = self.spec, self.form, self.lay, self.out
        tasks = ceil_div(spec.batch, self.lanes)
        workers = min(spec.max_threads, tasks) if spec.flops >= PARALLEL_FLOPS else 1
        with open_kernel(out, spec):
            if workers > 1 or spec.any_size:
                clamp_threads(out, workers)
                out.pragma("omp parallel num_threads(g_threads)")
            with out.block():
                self._memory()
                out.pragma("omp single")
                with out.block():
                    self._tables()
                out.pragma("omp for schedule(dynamic, 1)")
                with out.loop("g_t", 0, tasks):
                    self._task()
        sections = beside_sections(spec.acc, form.rows, lay.line, self.gap, form.bytes)
        used = (WORKER_SECTION, *sections, spread_section(spec.acc, form.bytes))
        note = f"{form}: an operand slides along the sums, a batch in each lane"
        return ContractText(used, out.text(), lay.shared + lay.private * workers, note)

    def _memory(self) -> None:
        """Names of the workspace's pieces; padding that is never overwritten."""
        out, lay, spec, chunk = self.out, self.lay, self.spec, self.form.chunk
        for name, start in zip(("g_steps", "g_rows", "g_ax", "g_ab"), lay.tables, strict=True):
            place = f"(ws + {start})" if start else "ws"
            out.add(f"lz_i32 *restrict {name} = (lz_i32 *){place};")
        out.add(f"char *g_mine = ws + {lay.shared} + (lz_i64)lz_worker() * {lay.private};")
        pieces = (("g_x", 0), ("g_b", lay.panel), ("g_w", lay.turned), ("g_c", lay.sums))
        for name, start in pieces:
            place = f"(g_mine + {start})" if start else "g_mine"
            out.add(f"{spec.ctype} *restrict {name} = ({spec.ctype} *){place};")
        for name, part in (("g_x", lay.slides), ("g_b", lay.other)):
            if part.padding is not None:
                with out.loop("g_k", 0, part.size(chunk) * self.lanes):
                    out.add(f"{name}[g_k] = {self.value(part.padding)};")

    def _tables(self) -> None:
        """Where things lie that are summed, or turned: distances in elements."""
        lay, chunk = self.lay, self.form.chunk
        tracks, pitches = lay.slides.tracks, lay.slides.pitches
        spans = [chunk, *(t.axis.extent for t in tracks[1:])]
        steps = [t.stride * p for t, p in zip(tracks, pitches, strict=True)]
        self._table("g_steps", spans, steps)
        for name, part in (("g_ax", lay.slides), ("g_ab", lay.other)):
            self._table(name, part.counted(chunk), part.pitches[part.joined :])
        self._lines()

    def _table(self, name: str, extents: Sequence[int], pitches: Sequence[int]) -> None:
        axes = [Axis(f"g_k{n}", extent) for n, extent in enumerate(extents)]
        terms = [f"{a.name} * {p * self.lanes}" for a, p in zip(axes, pitches, strict=True)]
        with self.over(axes):
            self.out.add(f"{name}[{self.flat(axes)}] = {' + '.join(terms)};")

    def _lines(self) -> None:
        """Where the first taps of lines lie; lines that fill the last tile up repeat the last."""
        out, lay, slides = self.out, self.lay, self.lay.slides
        points = self.plan.slide.points[: -1 if lay.line > 1 else None]
        last = prod(a.extent for a in points) - 1
        pitches = dict(zip(slides.free, slides.free_pitches(self.form.chunk), strict=False))
        for track, pitch in zip(slides.tracks, slides.pitches, strict=True):
            if track.tap is not None:
                pitches[track.tap] = track.dilation * pitch
        with out.loop("g_i", 0, lay.lines):
            out.add(f"const lz_i64 g_at = g_i < {last} ? g_i : {last};")
            self.decode("g_at", points)
            terms = [f"{a.name} * {pitches[a] * self.lanes}" for a in points]
            out.add(f"g_rows[g_i] = {' + '.join(terms) or '0'};")

    def _task(self) -> None:
        """The results of as many batches as there are lanes, over all sums."""
        out, spec, form, lay, lanes = self.out, self.spec, self.form, self.lay, self.lanes
        tracks, size = lay.slides.tracks, lay.slides.size(form.chunk)
        first, whole = tracks[0].axis.extent, prod(t.axis.extent for t in tracks[1:])
        micro = beside_name(spec.acc, form.rows, lay.line, self.gap, form.bytes)
        tile = lay.line * lanes
        with self.over(self.outer), out.loop("g_p0", 0, first, form.chunk):
            out.clip("g_p1", "g_p0", form.chunk, first)
            self._fill_turned("g_x", "g_ax", lay.slides)
            self._fill_turned("g_b", "g_ab", lay.other)
            begins = " && ".join(["g_p0 == 0", *(f"{a.name} == 0" for a in self.outer)])
            with out.loop("g_col", 0, spec.n), out.loop("g_row", 0, lay.lines, form.rows):
                out.add(
                    f"{micro}((g_p1 - g_p0) * {whole}, g_x, {(size - 1) * lanes}, g_steps,",
                    f"    g_rows + g_row, g_b + g_col * {lay.steps * lanes},",
                    f"    g_c + g_col * {lay.lines * tile} + g_row * {tile}, {lanes}, {begins});",
                )
        self._store()

    def _fill_turned(self, name: str, table: str, part: Turned) -> None:
        """Turn what a chunk reads of an operand."""
        out, lanes, first = self.out, self.lanes, part.tracks[0]
        frees = part.free_pitches(self.form.chunk)
        low, high = part.spans[0]
        with out.block(), self.over(part.free):
            begin = f"g_p0 * {first.stride}"
            out.add(f"const lz_i64 g_u0 = {begin};")
            out.add(f"const lz_i64 g_u1 = (g_p1 - 1) * {first.stride} + {reach_of(first, 1)};")
            terms = [f"{a.name} * {p * lanes}" for a, p in zip(part.free, frees, strict=False)]
            ends = ("g_u0", "g_u1")
            if part.padding is not None:
                ends = ("g_low", "g_high")
                out.add(f"const lz_i64 g_low = g_u0 > {low} ? g_u0 : {low};")
                out.add(f"const lz_i64 g_high = g_u1 < {high} ? g_u1 : {high};")
                self._pad(name, part, terms)
            self._places(name, table, part, terms, ends)

    def _pad(self, name: str, part: Turned, terms: Sequence[str]) -> None:
        """Padding in whole places of the first track, where another chunk may have had none."""
        out, pitch, (low, high) = self.out, part.pitches[0] * self.lanes, part.spans[0]
        where = " + ".join([*terms, f"(g_u - g_u0) * {pitch}", "g_k"])
        assert part.padding is not None
        outside = f"if (g_u < {low} || g_u >= {high})"
        with out.loop("g_u", "g_u0", "g_u1"), out.block(outside), out.loop("g_k", 0, pitch):
            out.add(f"{name}[{where}] = {self.value(part.padding)};")

    def _places(
        self, name: str, table: str, part: Turned, terms: Sequence[str], ends: tuple[str, str]
    ) -> None:
        """Turn places of the first track between ``ends``, without padding."""
        out, lanes = self.out, self.lanes
        lows, pitches = [low for low, _ in part.spans], [p * lanes for p in part.pitches]
        within = [f"{name} - {lows[0]}" if lows[0] else name for name in ends]
        at = [*terms, f"({ends[0]} - g_u0) * {pitches[0]}"]
        with ExitStack() as stack:
            for number, place in enumerate(part.places[:-1]):
                limits: tuple[int | str, int | str] = (0, place.extent)
                if number == 0:
                    limits = within[0], within[1]
                    at[-1] = f"({place.name} + {lows[0]} - g_u0) * {pitches[0]}"
                else:
                    at.append(f"({place.name} + {lows[number]}) * {pitches[number]}")
                stack.enter_context(out.loop(place.name, *limits))
            start, stop = "0", str(part.places[-1].extent)
            if part.joined == 0:
                start, stop = (f"({end}) * {part.width}" for end in within)
            margins = list(zip(lows, pitches, strict=True))[max(part.joined, 1) :]
            at.append(str(sum(low * pitch for low, pitch in margins)))
            out.add(f"const lz_i64 g_at = {' + '.join(at)};")
            with out.loop("g_f0", start, stop, BLOCK):
                out.clip("g_f1", "g_f0", BLOCK, f"({stop})")
                self._copy(part)
                reach = (part.size(self.form.chunk) - 1) * lanes
                far = f"g_f0 - ({start})" if part.joined == 0 else "g_f0"
                out.add(
                    f"lz_spread_{self.spec.acc}_v{self.form.bytes}(g_f1 - g_f0, g_w, {LINE},",
                    f"    {name}, {reach}, g_at, {table} + ({far}));",
                )

    def _copy(self, part: Turned) -> None:
        """Some places of all lanes, side by side; lanes past the last batch repeat it."""
        out, batch, last = self.out, self.spec.batch, part.places[-1].name
        with out.loop("g_j", 0, self.lanes):
            lane = f"g_t * {self.lanes} + g_j"
            if batch % self.lanes:
                lane = f"{lane} < {batch - 1} ? {lane} : {batch - 1}"
            out.add(f"const lz_i64 g_lane = {lane};")
            self.decode("g_lane", self.plan.batch)
            out.pragma("omp simd")
            with out.loop(last, "g_f0", "g_f1"):
                out.add(f"g_w[g_j * {LINE} + {last} - g_f0] = {self.value(part.value)};")

    def _store(self) -> None:
        """The epilogue over all results of a task."""
        out, plan, lay, spec, lanes = self.out, self.plan, self.lay, self.spec, self.lanes
        points, others = plan.slide.points, plan.slide.others
        out.clip("g_b1", f"g_t * {lanes}", lanes, spec.batch)
        with out.loop("g_lane", f"g_t * {lanes}", "g_b1"), ExitStack() as stack:
            self.decode("g_lane", plan.batch)
            stack.enter_context(self.over([*others, *points[:-1]]))
            for axis in points[-1:]:
                out.pragma("omp simd")
                stack.enter_context(out.loop(axis.name, 0, axis.extent))
            column = f"({self.flat(others)}) * {lay.lines * lay.line}"
            place = f"({column} + {self.flat(points)}) * {lanes} + g_lane - g_t * {lanes}"
            out.add(f"const {spec.ctype} g_value = g_c[{place}];")
            out.add(*plan.finish("g_value", plan.ending))
