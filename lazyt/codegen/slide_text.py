"""Convolutions: results along vector registers, read at shifted places of a copy of the input.

A task copies the part of the sliding operand that a run of results needs, with its padding and
whatever else was fused into it, into its part of the workspace; where the stride is larger than
one, elements of different remainders lie apart. There all results of the run are neighbours: tap
``(y, x)`` of result i is element ``i + y * pitch + x`` of the copy, also across the ends of rows,
where a few sums come out that nobody stores. So nothing is written once per tap, and every
instruction of the inner loop does a full vector.
"""

from __future__ import annotations

from contextlib import ExitStack
from math import prod

from lazyt.codegen.c_family import Expressions
from lazyt.codegen.contract_micro import WORKER_SECTION
from lazyt.codegen.contract_spec import ContractText, ceil_div
from lazyt.codegen.contract_text import clamp_threads, open_kernel
from lazyt.codegen.slide import merge_inner
from lazyt.codegen.slide_copy import SlideText
from lazyt.codegen.slide_form import PARALLEL_FLOPS, SlideForm, SlidePlan
from lazyt.codegen.slide_micro import slide_name, slide_sections

#: Summed steps of the other operand that are packed at a time, row by row.
_PACKED_STEPS = 64


def emit_slide(e: Expressions, plan: SlidePlan, form: SlideForm) -> ContractText:
    """The kernel of a contraction whose operand slides along the results."""
    return _Printer(e, plan, form).text()


class _Printer(SlideText):
    """Writes one kernel."""

    def __init__(self, e: Expressions, plan: SlidePlan, form: SlideForm) -> None:
        super().__init__(e)
        self.spec, self.plan, self.form = plan.spec, plan, form
        self.lay = plan.lay_out(form)
        self.copy = self.lay.copied
        self.outer = plan.outer(form)

    def text(self) -> ContractText:
        """The kernel."""
        spec, form, lay, out = self.spec, self.form, self.lay, self.out
        workers = min(spec.max_threads, lay.tasks) if spec.flops >= PARALLEL_FLOPS else 1
        with open_kernel(out, spec):
            clamp_threads(out, workers)
            out.pragma("omp parallel num_threads(g_threads)")
            with out.block():
                mine = f"ws + {lay.shared} + (lz_i64)lz_worker() * {lay.private}"
                out.add(f"{spec.ctype} *restrict g_a = ({spec.ctype} *)ws;")
                out.add(f"lz_i32 *restrict g_steps = (lz_i32 *)(ws + {lay.panels});")
                out.add(f"char *g_mine = {mine};")
                out.add(f"{spec.ctype} *restrict g_x = ({spec.ctype} *)g_mine;")
                out.add(f"{spec.ctype} *restrict g_c = ({spec.ctype} *)(g_mine + {lay.sums});")
                self._pack()
                out.pragma("omp single nowait")
                with out.block(), self.over(self.plan.inner):
                    steps = self.shifts(self.copy, self.plan.inner)
                    out.add(f"g_steps[{self.flat(self.plan.inner)}] = {steps};")
                out.pragma("omp barrier")
                out.pragma("omp for schedule(dynamic, 1)")
                with out.loop("g_t", 0, lay.tasks):
                    self._task()
        sections = slide_sections(spec.acc, form.rows, form.vectors, spec.vector_bytes)
        total = lay.shared + lay.private * workers
        note = f"{form}: {self.plan.reason}"
        return ContractText((WORKER_SECTION, *sections), out.text(), total, note)

    def _pack(self) -> None:
        """The other operand, in panels [k][rows] that all tasks read."""
        out, rows, spec = self.out, self.form.rows, self.spec
        fixed, inner = merge_inner(self.plan.slide.fixed, self.plan.inner)
        tiles = ceil_div(spec.m, rows)
        ragged = bool(spec.m % rows)
        out.pragma("omp for schedule(static) nowait")
        with out.loop("g_u", 0, spec.batch * tiles):
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

    def _task(self) -> None:
        """A chunk of results, for a part of the other operand's rows."""
        out, plan, form, lay, spec = self.out, self.plan, self.form, self.lay, self.spec
        outers = prod(a.extent for a in self.outer)
        out.add(f"const lz_i64 g_bo = g_t / {lay.chunks * form.splits};")
        out.add(f"const lz_i64 g_b = g_bo / {outers};")
        self.decode("g_b", plan.batch)
        self.decode(f"(g_bo % {outers})", self.outer)
        out.add(f"const lz_i64 g_p0 = g_t / {form.splits} % {lay.chunks} * {form.chunk};")
        out.clip("g_p1", "g_p0", form.chunk, self.copy.tracks[0].axis.extent)
        self.fill(self.copy)
        tiles = ceil_div(spec.m, form.rows)
        per = ceil_div(tiles, form.splits)
        out.add(f"const lz_i64 g_i0 = g_t % {form.splits} * {per};")
        out.clip("g_i1", "g_i0", per, tiles)
        micro = slide_name(spec.acc, form.rows, form.vectors, spec.vector_bytes)
        first = self.copy.pitches[0]
        less = form.chunk * first - self.copy.run
        stop = f"(g_p1 - g_p0) * {first} - {less}" if less else f"(g_p1 - g_p0) * {first}"
        with out.loop("g_i", "g_i0", "g_i1"):
            with out.loop("g_at", 0, stop, form.vectors * spec.lanes):
                out.add(
                    f"{micro}({spec.k}, g_a + (g_b * {tiles} + g_i) * {spec.k * form.rows},",
                    f"    g_x + g_at, {self.copy.reach}, g_steps, g_c + g_at, {lay.width});",
                )
            self._store()

    def _store(self) -> None:
        """The epilogue over the finished rows of a tile."""
        out, form, lay, spec = self.out, self.form, self.lay, self.spec
        tracks = self.copy.tracks
        out.add(f"const lz_i64 g_m0 = g_i * {form.rows};")
        out.clip("g_m1", "g_m0", form.rows, spec.m)
        with out.loop("g_row", "g_m0", "g_m1"), ExitStack() as stack:
            self.decode("g_row", self.plan.slide.others)
            for number, track in enumerate(tracks):
                if number == len(tracks) - 1:
                    out.pragma("omp simd")
                bounds = (0, track.axis.extent) if number else ("g_p0", "g_p1")
                stack.enter_context(out.loop(track.axis.name, *bounds))
            place = f"(g_row - g_m0) * {lay.width} + {self.places(self.copy)}"
            out.add(f"const {spec.ctype} g_value = g_c[{place}];")
            out.add(*self.plan.finish("g_value"))
