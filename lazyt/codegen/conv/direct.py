"""Convolutions: results along vector registers, read at shifted places of a copy of the input.

A task copies the part of the sliding operand that a run of results needs, with its padding and
whatever else was fused into it, into its part of the workspace; where the stride is larger than
one, elements of different remainders lie apart. There all results of the run are neighbours: tap
``(y, x)`` of result i is element ``i + y * pitch + x`` of the copy, also across the ends of rows,
where a few sums come out that nobody stores. So nothing is written once per tap, and every
instruction of the inner loop does a full vector.

Where rows are short these sums cost more than moving elements once for each tap that reads them,
as whole vectors, in cache. Then a task goes through the summed axes block by block: it copies that
part of the operand, moves it into panels without gaps, [k][results of the chunk], and multiplies;
its sums wait in cache.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from math import prod

from lazyt.codegen.c.family import Expressions
from lazyt.codegen.conv.blocks import PARALLEL_FLOPS, SlideForm, SlidePlan
from lazyt.codegen.conv.copies import Copy, SlideText
from lazyt.codegen.conv.micro_kernels import panel_section, slide_name, slide_sections
from lazyt.codegen.conv.panels import lay_out_panels, panels_fit
from lazyt.codegen.matmul.axes import merge_inner
from lazyt.codegen.matmul.micro_kernels import WORKER_SECTION, clamp_threads, open_kernel
from lazyt.codegen.matmul.panels import lay_name, lay_section
from lazyt.codegen.matmul.spec import ContractText, Plain, ceil_div
from lazyt.ir.index import Axis
from lazyt.ir.kernel import Statement

#: Summed steps of the other operand that are packed at a time, row by row.
_PACKED_STEPS = 64


def emit_slide(e: Expressions, plan: SlidePlan, form: SlideForm) -> ContractText:
    """The kernel of a contraction whose operand slides along the results."""
    if form.block and panels_fit(plan, form):
        return PanelPrinter(e, plan, form).text()
    return SlidePrinter(e, plan, form).text()


class SlidePrinter(SlideText):
    """Writes one kernel."""

    def __init__(self, e: Expressions, plan: SlidePlan, form: SlideForm) -> None:
        super().__init__(e)
        self.spec, self.plan, self.form = plan.spec, plan, form
        self.lay = plan.lay_out(form)
        self.copy = self.lay.copied
        self.outer = plan.outer(form)

    def text(self) -> ContractText:
        """The kernel."""
        lay, kind = self.lay, self.spec.ctype
        pointers = [
            f"lz_i32 *restrict g_steps = (lz_i32 *)(ws + {lay.panels});",
            f"char *g_mine = ws + {lay.shared} + (lz_i64)lz_worker() * {lay.private};",
            f"{kind} *restrict g_x = ({kind} *)g_mine;",
            f"{kind} *restrict g_c = ({kind} *)(g_mine + {lay.sums});",
        ]
        return self.kernel(pointers, lay.tasks, (lay.shared, lay.private), {"g_x": lay.sums})

    def kernel(
        self,
        pointers: Sequence[str],
        tasks: int,
        space: tuple[int, int],
        rooms: Mapping[str, int],
        more: tuple[tuple[str, str], ...] = (),
    ) -> ContractText:
        """The kernel around tables and tasks. ``space``: bytes shared, and of a thread; ``rooms``:
        those of a thread's copies, of which register tiles read more than is written."""
        spec, form, out = self.spec, self.form, self.out
        workers = min(spec.max_threads, tasks) if spec.flops >= PARALLEL_FLOPS else 1
        with open_kernel(out, spec):
            if workers > 1 or spec.any_size:
                clamp_threads(out, workers)
                out.pragma("omp parallel num_threads(g_threads)")
            with out.block():
                out.add(f"{spec.ctype} *restrict g_a = ({spec.ctype} *)ws;", *pointers)
                # What is multiplied beyond rows is stored nowhere, but takes many times as long
                # where memory happens to hold subnormal numbers.
                for name, nbytes in rooms.items():
                    with out.loop("g_k", 0, nbytes // spec.item):
                        out.add(f"{name}[g_k] = 0;")
                if not form.straight:
                    self._pack()
                out.pragma("omp single nowait")
                with out.block():
                    self.tables()
                out.pragma("omp barrier")
                out.pragma("omp for schedule(dynamic, 1)")
                with out.loop("g_t", 0, tasks):
                    self._task()
        tile = (spec.acc, form.rows, form.vectors, spec.vector_bytes, form.straight)
        sections = slide_sections(*tile)
        if self.plan.along is not None and not form.straight:
            more = (lay_section(spec.acc, form.rows, spec.vector_bytes), *more)
        note = f"{form}: {self.plan.reason}"
        return ContractText(
            (WORKER_SECTION, *sections, *more), out.text(), space[0] + space[1] * workers, note
        )

    def tables(self) -> None:
        """Where taps begin."""
        with self.over(self.plan.inner):
            steps = self.shifts(self.copy, self.plan.inner)
            self.out.add(f"g_steps[{self.flat(self.plan.inner)}] = {steps};")

    def _pack(self) -> None:
        """The other operand, in panels [k][rows] that all tasks read."""
        out, rows, spec = self.out, self.form.rows, self.spec
        fixed, inner = merge_inner(self.plan.slide.fixed, self.plan.inner)
        tiles = ceil_div(spec.m, rows)
        ragged = bool(spec.m % rows)
        out.pragma("omp for schedule(static) nowait")
        with out.loop("g_u", 0, spec.batch * tiles):
            if self.plan.along is not None:
                self._turn(self.plan.along, tiles)
                return
            self.decode(f"(g_u / {tiles})", self.plan.batch)
            out.add(f"{spec.ctype} *restrict g_to = g_a + g_u * {spec.k * rows};")
            blocked = len(inner) == 1 and spec.k > _PACKED_STEPS
            with out.turns("g_k0", spec.k if blocked else 1, _PACKED_STEPS):
                out.clip("g_k1", "g_k0", _PACKED_STEPS if blocked else spec.k, spec.k)
                with out.loop("g_r", 0, rows):
                    out.add(f"const lz_i64 g_row = g_u % {tiles} * {rows} + g_r;")
                    with (
                        out.block(f"if (g_row < {spec.m})" if ragged else ""),
                        ExitStack() as loops,
                    ):
                        self.decode("g_row", self.plan.slide.others)
                        if blocked:
                            loops.enter_context(out.loop(inner[0].name, "g_k0", "g_k1"))
                        else:
                            loops.enter_context(self.over(inner))
                        place = f"g_to[({self.flat(inner)}) * {rows} + g_r]"
                        out.add(f"{place} = {self.value(fixed)};")
                    if ragged:
                        with out.block("else"), out.loop("g_k", "g_k0", "g_k1"):
                            out.add(f"g_to[g_k * {rows} + g_r] = 0;")

    def _turn(self, lies: Plain, tiles: int) -> None:
        """A panel of rows that become columns."""
        out, rows, spec = self.out, self.form.rows, self.spec
        out.add(f"const lz_i64 g_row = g_u % {tiles} * {rows};")
        out.clip("g_row1", "g_row", rows, spec.m)
        here = lies.at(f"(g_u / {tiles})", "g_row", "0")
        lay = lay_name(spec.acc, rows, spec.vector_bytes)
        to = f"g_a + g_u * {spec.k * rows}"
        out.add(f"{lay}({spec.k}, {here}, {lies.side}, g_row1 - g_row, {to});")

    def _task(self) -> None:
        """A chunk of results, for a part of the other operand's rows."""
        out, plan, form, spec = self.out, self.plan, self.form, self.spec
        outers = prod(a.extent for a in self.outer)
        chunks = ceil_div(self.copy.tracks[0].axis.extent, form.chunk)
        out.add(f"const lz_i64 g_bo = g_t / {chunks * form.splits};")
        out.add(f"const lz_i64 g_b = g_bo / {outers};")
        self.decode("g_b", plan.batch)
        self.decode(f"(g_bo % {outers})", self.outer)
        out.add(f"const lz_i64 g_p0 = g_t / {form.splits} % {chunks} * {form.chunk};")
        out.clip("g_p1", "g_p0", form.chunk, self.copy.tracks[0].axis.extent)
        tiles = ceil_div(spec.m, form.rows)
        per = ceil_div(tiles, form.splits)
        out.add(f"const lz_i64 g_i0 = g_t % {form.splits} * {per};")
        out.clip("g_i1", "g_i0", per, tiles)
        self.multiply()

    def multiply(self) -> None:
        """The results of a chunk.

        The columns of a register tile stay in the level 1 cache, some steps at a time, while the
        panels of all rows pass by; the sums wait next to it.
        """
        out, form, lay, spec = self.out, self.form, self.lay, self.spec
        self.fill(self.copy)
        first = self.copy.pitches[0]
        less = form.chunk * first - self.copy.run
        count = f"(g_s1 - g_s0) * {first}" + (f" - {less}" if less or spec.any_size else "")
        with out.loop("g_s0", "g_p0", "g_p1", lay.points):
            out.clip("g_s1", "g_s0", lay.points, "g_p1")
            with out.loop("g_j0", "g_i0", "g_i1", lay.strips):
                out.clip("g_j1", "g_j0", lay.strips, "g_i1")
                with out.loop("g_k0", 0, spec.k, lay.depth):
                    out.clip("g_k1", "g_k0", lay.depth, spec.k)
                    with out.loop("g_at", 0, count, form.vectors * spec.lanes):
                        columns = f"g_x + (g_s0 - g_p0) * {first} + g_at, {self.copy.reach},"
                        self.tiles(columns, "g_steps + g_k0", lay.width, "g_k0", "g_k0 == 0")
                self.store(lay.width, ("g_s0", "g_s1"))

    def tiles(self, columns: str, steps: str, width: int, step: str, first: str) -> None:
        """Steps ``g_k0`` to ``g_k1`` of the tiles at ``g_at``, one below the other; ``step`` is the
        first of them, counted from the beginning, and ``first`` whether sums begin with it."""
        out, form, spec = self.out, self.form, self.spec
        tile = (spec.acc, form.rows, form.vectors, spec.vector_bytes, form.straight)
        tiles, lies = ceil_div(spec.m, form.rows), self.plan.along
        rows = f"g_a + ((g_b * {tiles} + g_i) * {spec.k} + {step}) * {form.rows}"
        with out.loop("g_i", "g_j0", "g_j1"):
            if form.straight and lies is not None:
                out.add(f"const lz_i64 g_row = g_i * {form.rows};")
                out.clip("g_row1", "g_row", form.rows, spec.m)
                rows = f"{lies.at('g_b', 'g_row', step)}, {lies.side}, g_row1 - g_row"
            out.add(
                f"{slide_name(*tile)}(g_k1 - g_k0,",
                f"    {rows},",
                f"    {columns} {steps},",
                f"    g_c + (g_i - g_j0) * {form.rows * width} + g_at, {width}, {first});",
            )

    def store(self, width: int, bounds: tuple[str, str]) -> None:
        """The epilogue over the sums of tiles ``g_j0`` to ``g_j1``, for points of the first track
        between ``bounds``, where the sums begin."""
        out, form, spec = self.out, self.form, self.spec
        tracks = self.copy.tracks
        end = f"g_j1 * {form.rows}"
        out.add(f"const lz_i64 g_m0 = g_j0 * {form.rows};")
        out.add(f"const lz_i64 g_m1 = {end} < {spec.m} ? {end} : {spec.m};")
        with out.loop("g_row", "g_m0", "g_m1"), ExitStack() as stack:
            self.decode("g_row", self.plan.slide.others)
            for number, track in enumerate(tracks[:-1]):
                limits = (0, track.axis.extent) if number else bounds
                stack.enter_context(out.loop(track.axis.name, *limits))
            lane = tracks[-1].axis
            limits = (0, lane.extent) if len(tracks) > 1 else bounds
            place = f"(g_row - g_m0) * {width} + {self.offset_of(self.copy, bounds[0])}"

            def write(ending: Sequence[Statement]) -> None:
                out.pragma("omp simd")
                with out.loop(lane.name, *limits):
                    out.add(f"const {spec.ctype} g_value = g_c[{place}];")
                    out.add(*self.plan.finish("g_value", ending))

            self.ask_before(lane, self.plan.ending, write)


class PanelPrinter(SlidePrinter):
    """Writes one kernel."""

    def __init__(self, e: Expressions, plan: SlidePlan, form: SlideForm) -> None:
        super().__init__(e, plan, form)
        self.sizes = lay_out_panels(plan, form)
        self.copy = self.sizes.copied

    def text(self) -> ContractText:
        """The kernel."""
        lay, spec, kind = self.sizes, self.spec, self.spec.ctype
        pointers = [
            f"lz_i32 *restrict g_steps = (lz_i32 *)(ws + {lay.panels});",
            f"lz_i32 *restrict g_lines = (lz_i32 *)(ws + {lay.lines_at});",
            f"lz_i32 *restrict g_flat = (lz_i32 *)(ws + {lay.flat_at});",
            f"char *g_mine = ws + {lay.shared} + (lz_i64)lz_worker() * {lay.private};",
            f"{kind} *restrict g_x = ({kind} *)g_mine;",
            f"{kind} *restrict g_w = ({kind} *)(g_mine + {lay.panel});",
            f"{kind} *restrict g_c = ({kind} *)(g_mine + {lay.sums});",
        ]
        more = (panel_section(spec.acc, spec.vector_bytes),)
        rooms = {"g_x": lay.panel, "g_w": lay.sums - lay.panel}
        return self.kernel(pointers, lay.tasks, (lay.shared, lay.private), rooms, more)

    def tables(self) -> None:
        """Where taps, rows of results, and steps of a panel begin."""
        out, lay, copy = self.out, self.sizes, self.copy
        first = self.plan.inner[0]
        inner = [Axis(first.name, self.form.block), *self.plan.inner[1:]]
        with self.over(inner):
            out.add(f"g_steps[{self.flat(inner)}] = {self.shifts(copy, inner)};")
        rows = [
            Axis(t.axis.name, self.form.chunk if n == 0 else t.axis.extent)
            for n, t in enumerate(copy.tracks[:-1])
        ]
        with self.over(rows):
            terms = [f"{a.name} * {p}" for a, p in zip(rows, copy.pitches[:-1], strict=True)]
            out.add(f"g_lines[{self.flat(rows)}] = {' + '.join(terms)};")
        with out.loop("g_k", 0, lay.steps):
            out.add(f"g_flat[g_k] = g_k * {lay.width};")

    def multiply(self) -> None:
        """All blocks of sums of a chunk, and its results."""
        out, form, lay, spec = self.out, self.form, self.sizes, self.spec
        first = self.plan.inner[0]
        per = lay.steps // form.block
        lines = lay.lines // form.chunk
        part = (Axis(first.name, form.block), "g_f0", "g_f1")
        far = self.copy.reach + self.copy.run
        out.add("const lz_i64 g_j0 = g_i0;", "const lz_i64 g_j1 = g_i1;")
        with out.loop("g_f0", 0, first.extent, form.block):
            out.clip("g_f1", "g_f0", form.block, first.extent)
            self.fill(self.copy, part)
            out.add(
                f"lz_panel_{spec.acc}_v{spec.vector_bytes}((g_f1 - g_f0) * {per}, g_x, {far},",
                f"    g_steps, (g_p1 - g_p0) * {lines}, g_lines, {lay.line}, g_w, {lay.width});",
            )
            count = f"(g_p1 - g_p0) * {lines * lay.line}"
            with out.loop("g_k0", 0, f"(g_f1 - g_f0) * {per}", lay.depth):
                out.clip("g_k1", "g_k0", lay.depth, f"(g_f1 - g_f0) * {per}")
                with out.loop("g_at", 0, count, form.vectors * spec.lanes):
                    columns = f"g_w + g_at, {(lay.steps - 1) * lay.width},"
                    step, begins = f"g_f0 * {per} + g_k0", "g_f0 == 0 && g_k0 == 0"
                    self.tiles(columns, "g_flat + g_k0", lay.width, step, begins)
        self.store(lay.width, ("g_p0", "g_p1"))

    def offset_of(self, copy: Copy, start: str = "g_p0") -> str:
        """Where a result lies among the sums of its row."""
        text = ""
        for number, track in enumerate(copy.tracks):
            name = track.axis.name if number else f"({track.axis.name} - {start})"
            text = f"({text}) * {track.axis.extent} + {name}" if text else name
        return text
