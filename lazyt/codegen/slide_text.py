"""Convolutions: results along vector registers, read at shifted places of a copy of the input.

A task copies the part of the sliding operand that a run of results needs, with its padding and
whatever else was fused into it, into its part of the workspace; where the stride is larger than
one, elements of different remainders lie apart. There all results of the run are neighbours: tap
``(y, x)`` of result i is element ``i + y * pitch + x`` of the copy, also across the ends of rows,
where a few sums come out that nobody stores. So nothing is written once per tap, and every
instruction of the inner loop does a full vector.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import product
from math import prod

from lazyt.codegen import c_tree as ct
from lazyt.codegen.c_family import Expressions
from lazyt.codegen.contract_spec import ContractSpec, ContractText, ceil_div, round_up
from lazyt.codegen.contract_micro import WORKER_SECTION
from lazyt.codegen.contract_text import CText, clamp_threads, open_kernel
from lazyt.codegen.slide import Slide, Track, at_axes, split_guards
from lazyt.codegen.slide_form import SlideForm, SlidePlan
from lazyt.codegen.slide_micro import slide_name, slide_sections
from lazyt.ir.index import Axis, Linear, variable


def emit_slide(
    spec: ContractSpec, e: Expressions, plan: SlidePlan, form: SlideForm
) -> ContractText:
    """The kernel of a contraction whose operand slides along the results."""
    return _Printer(spec, e, plan, form).text()


class _Printer:
    """Writes one kernel."""

    def __init__(
        self, spec: ContractSpec, e: Expressions, plan: SlidePlan, form: SlideForm
    ) -> None:
        self.spec, self.e, self.plan, self.form = spec, e, plan, form
        self.out = CText()
        self.lay = plan.lay_out(form)

    def text(self) -> ContractText:
        spec, form, lay, out = self.spec, self.form, self.lay, self.out
        workers = min(spec.max_threads, lay.tasks)
        with open_kernel(out, spec):
            clamp_threads(out, workers)
            out.pragma("omp parallel num_threads(g_threads)")
            with out.block():
                mine = f"ws + {lay.shared} + (lz_i64)lz_worker() * {lay.private}"
                out.add(f"{spec.ctype} *restrict g_a = ({spec.ctype} *)ws;")
                out.add(f"lz_i32 *restrict g_steps = (lz_i32 *)(ws + {lay.panels});")
                out.add(f"char *g_mine = {mine};")
                out.add(f"{spec.ctype} *restrict g_x = ({spec.ctype} *)g_mine;")
                out.add(f"{spec.ctype} *restrict g_c = ({spec.ctype} *)(g_mine + {lay.copy});")
                self._pack()
                self._steps()
                out.pragma("omp barrier")
                out.pragma("omp for schedule(dynamic, 1)")
                with out.loop("g_t", 0, lay.tasks):
                    self._task()
        sections = slide_sections(spec.acc, form.rows, form.vectors, spec.vector_bytes)
        note = f"{form}: {self.plan.reason}"
        total = lay.shared + lay.private * workers
        return ContractText((WORKER_SECTION, *sections), out.text(), total, note)

    # ------------------------------------------------------------------ helpers

    @contextmanager
    def _over(self, axes: Sequence[Axis]) -> Iterator[None]:
        """Loops over axes."""
        with ExitStack() as stack:
            for axis in axes:
                stack.enter_context(self.out.loop(axis.name, 0, axis.extent))
            yield

    def _decode(self, flat: str, axes: Sequence[Axis]) -> None:
        """Declare axes by their flat position."""
        stride = prod(a.extent for a in axes)
        for number, axis in enumerate(axes):
            stride //= axis.extent
            text = flat if stride == 1 else f"{flat} / {stride}"
            if number:
                text = f"({text}) % {axis.extent}" if stride > 1 else f"{text} % {axis.extent}"
            self.out.add(f"const lz_i64 {axis.name} = {text};")

    def _flat(self, axes: Sequence[Axis]) -> str:
        """The flat position of axes."""
        text = ""
        for axis in axes:
            text = f"({text}) * {axis.extent} + {axis.name}" if text else axis.name
        return text or "0"

    def _value(self, value: object) -> str:
        return ct.text(self.e.value(value))  # type: ignore[arg-type]

    def _condition(self, guards: Sequence[object]) -> str:
        test = self.e.condition(guards)  # type: ignore[arg-type]
        return "" if test is None else f"if ({ct.text(test)})"

    # ------------------------------------------------------------------- shared

    def _pack(self) -> None:
        """The other operand, in panels [k][rows] that all tasks read."""
        out, rows, spec = self.out, self.form.rows, self.spec
        inner, others = self.plan.inner, self.plan.slide.others
        tiles = ceil_div(spec.m, rows)
        out.pragma("omp for schedule(static) nowait")
        with out.loop("g_u", 0, spec.batch * tiles):
            self._decode(f"(g_u / {tiles})", self.plan.batch)
            out.add(f"{spec.ctype} *restrict g_to = g_a + g_u * {spec.k * rows};")
            with out.loop("g_r", 0, rows):
                out.add(f"const lz_i64 g_row = g_u % {tiles} * {rows} + g_r;")
                with out.block(f"if (g_row < {spec.m})" if spec.m % rows else ""):
                    self._decode("g_row", others)
                    with self._over(inner):
                        place = f"g_to[({self._flat(inner)}) * {rows} + g_r]"
                        out.add(f"{place} = {self._value(self.plan.slide.fixed)};")
                if spec.m % rows:
                    with out.block("else"), out.loop("g_k", 0, spec.k):
                        out.add(f"g_to[g_k * {rows} + g_r] = 0;")

    def _steps(self) -> None:
        """Where, from a result's place in the copy, the elements lie that each step reads."""
        out, plan = self.out, self.plan
        out.pragma("omp single nowait")
        with out.block(), self._over(plan.inner):
            terms = []
            for axis, pitch in zip(plan.free(self.form), self.lay.free_pitches, strict=True):
                terms.append(f"{axis.name} * {pitch}")
            for track, pitch, slots in zip(
                plan.tracks(self.form), self.lay.pitches, self.lay.slot_pitches, strict=True
            ):
                if track.tap is not None:
                    terms += _shifted(track, pitch, slots)
            out.add(f"g_steps[{self._flat(plan.inner)}] = {' + '.join(terms) or '0'};")

    # --------------------------------------------------------------------- tasks

    def _task(self) -> None:
        out, plan, form, lay, spec = self.out, self.plan, self.form, self.lay, self.spec
        tracks = plan.tracks(form)
        outer = plan.outer(form)
        rest = lay.chunks * form.splits
        out.add(f"const lz_i64 g_bo = g_t / {rest};")
        outers = prod(a.extent for a in outer)
        out.add(f"const lz_i64 g_b = g_bo / {outers};")
        self._decode("g_b", plan.batch)
        self._decode(f"(g_bo % {outers})", outer)
        out.add(f"const lz_i64 g_p0 = g_t / {form.splits} % {lay.chunks} * {form.chunk};")
        first = tracks[0].axis.extent
        out.clip("g_p1", "g_p0", form.chunk, first)
        for pieces in product(*(range(t.pieces) for t in tracks)):
            self._copy(tracks, pieces)
        tiles = ceil_div(spec.m, form.rows)
        per = ceil_div(tiles, form.splits)
        out.add(f"const lz_i64 g_i0 = g_t % {form.splits} * {per};")
        out.clip("g_i1", "g_i0", per, tiles)
        width = form.vectors * spec.lanes
        micro = slide_name(spec.acc, form.rows, form.vectors, spec.vector_bytes)
        tail = lay.run - form.chunk * lay.pitches[0]
        with out.loop("g_i", "g_i0", "g_i1"):
            stop = (
                f"(g_p1 - g_p0) * {lay.pitches[0]} + {tail}"
                if tail
                else (f"(g_p1 - g_p0) * {lay.pitches[0]}")
            )
            stop = stop.replace("+ -", "- ")
            with out.loop("g_at", 0, stop, width):
                out.add(
                    f"{micro}({spec.k}, g_a + (g_b * {tiles} + g_i) * {spec.k * form.rows},",
                    f"    g_x + g_at, {lay.reach}, g_steps, g_c + g_at, {lay.width});",
                )
            self._store(tracks, outer)

    def _copy(self, tracks: Sequence[Track], pieces: Sequence[int]) -> None:
        """One piece of the sliding operand: elements of the same remainders by the strides."""
        out, plan, lay = self.out, self.plan, self.lay
        table: dict[Axis, Linear] = {}
        places = [
            Axis(f"g_q{n}", t.axis.extent + t.reach(p))
            for n, (t, p) in enumerate(zip(tracks, pieces, strict=True))
        ]
        start = 0
        for track, piece, place, slots in zip(
            tracks, pieces, places, lay.slot_pitches, strict=True
        ):
            table |= track.table(piece, variable(place))
            if track.tap is not None:
                start += track.slot(piece) * slots
        lane = places[-1]
        value = at_axes(plan.slide.value, table)
        fixed, span, inside, other = split_guards(value, lane)
        base = [
            f"{a.name} * {p}" for a, p in zip(plan.free(self.form), lay.free_pitches, strict=True)
        ]
        first = tracks[0].reach(pieces[0])
        with self._over(plan.free(self.form)), ExitStack() as stack:
            for number, place in enumerate(places[:-1]):
                if number:
                    stack.enter_context(out.loop(place.name, 0, place.extent))
                    base.append(f"{place.name} * {lay.pitches[number]}")
                else:
                    stack.enter_context(out.loop(place.name, "g_p0", f"g_p1 + {first}"))
                    base.append(f"({place.name} - g_p0) * {lay.pitches[0]}")
            begin, end = "0", str(lane.extent)
            if len(places) == 1:
                begin, end = "g_p0", f"g_p1 + {first}"
            low, high = begin, end
            if span is not None:
                low, high = str(span[0]), str(span[1])
                if len(places) == 1:
                    out.add(f"const lz_i64 g_to = {end};")
                    out.add(f"const lz_i64 g_in = g_p0 > {low} ? g_p0 : {low};")
                    out.add("const lz_i64 g_low = g_in < g_to ? g_in : g_to;")
                    out.add(f"const lz_i64 g_out = g_low > {high} ? g_low : {high};")
                    out.add("const lz_i64 g_high = g_out < g_to ? g_out : g_to;")
                    low, high, end = "g_low", "g_high", "g_to"
            lane_place = f"{lane.name} - g_p0" if len(places) == 1 else lane.name
            start_text = [str(start)] if start else []
            target = f"g_x[{' + '.join([*start_text, *base, lane_place])}]"
            test = self._condition(fixed)
            with out.block(test):
                if span is not None and low != begin:
                    with out.loop(lane.name, begin, low):
                        out.add(f"{target} = {self._value(other)};")
                out.pragma("omp simd")
                with out.loop(lane.name, low, high):
                    out.add(f"{target} = {self._value(inside)};")
                if span is not None and high != end:
                    with out.loop(lane.name, high, end):
                        out.add(f"{target} = {self._value(other)};")
            if test:
                with out.block("else"), out.loop(lane.name, begin, end):
                    out.add(f"{target} = {self._value(other)};")

    def _store(self, tracks: Sequence[Track], outer: Sequence[Axis]) -> None:
        """The epilogue over the finished rows of a tile."""
        out, plan, form, lay, spec = self.out, self.plan, self.form, self.lay, self.spec
        out.add(f"const lz_i64 g_m0 = g_i * {form.rows};")
        out.clip("g_m1", "g_m0", form.rows, spec.m)
        with out.loop("g_row", "g_m0", "g_m1"), ExitStack() as stack:
            place = [f"(g_row - g_m0) * {lay.width}"]
            self._decode("g_row", plan.slide.others)
            for number, (track, pitch) in enumerate(zip(tracks, lay.pitches, strict=True)):
                name = track.axis.name
                if number == len(tracks) - 1:
                    out.pragma("omp simd")
                bounds = (0, track.axis.extent) if number else ("g_p0", "g_p1")
                stack.enter_context(out.loop(name, *bounds))
                start = name if number else f"({name} - g_p0)"
                place.append(start if pitch == 1 else f"{start} * {pitch}")
            out.add(f"const {spec.ctype} g_value = g_c[{' + '.join(place)}];")
            out.add(*plan.finish("g_value"))


def _shifted(track: Track, pitch: int, slots: int) -> list[str]:
    """The part of a step that the taps of a track make."""
    assert track.tap is not None
    name = track.tap.name
    if track.stride == 1:
        return [f"{name} * {track.dilation * pitch}"]
    scaled = name if track.dilation == 1 else f"{name} * {track.dilation}"
    unit = track.stride // track.slots
    slot = f"{scaled} % {track.stride}"
    slot = f"({slot}) / {unit}" if unit > 1 else f"({slot})"
    return [f"{scaled} / {track.stride} * {pitch}", f"{slot} * {slots}"]


__all__ = ["Slide", "emit_slide", "round_up"]
