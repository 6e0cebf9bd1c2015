"""Sums along which an operand slides, of many small batches: one batch in each lane.

The gradient of a depthwise convolution's kernel has a batch of a few sums for each channel. There
is nothing in a batch that would fill a vector: its results are taps, and its sums have an order.
So a task takes as many batches as a vector has lanes. Both operands are transposed on their way
into cache, so that element k of all lanes is one vector; then every element of the sliding operand
is read where it lies, for each tap, and the sums of all taps stay in registers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from math import prod
from typing import NamedTuple

from lazyt.codegen.c.family import Expressions
from lazyt.codegen.conv.blocks import (
    ENTERED,
    PARALLEL_FLOPS,
    STORED,
    SlidePlan,
    chunks_of,
    evenness,
)
from lazyt.codegen.conv.copies import SlideText
from lazyt.codegen.conv.micro_kernels import beside_name, beside_sections, spread_section
from lazyt.codegen.conv.sums import SumsForm, sums_cost
from lazyt.codegen.conv.windows import Track, at_axes, forms_of, split_guards, track_of
from lazyt.codegen.matmul.axes import Shapes, in_memory, one_run
from lazyt.codegen.matmul.micro_kernels import WORKER_SECTION, clamp_threads, open_kernel
from lazyt.codegen.matmul.spec import ContractText, ceil_div, round_up
from lazyt.ir.decisions import decide
from lazyt.ir.index import (
    Axis,
    Guarded,
    Linear,
    Quotient,
    Remainder,
    axes_of,
    constant,
    delinearize,
    variable,
)
from lazyt.ir.scalar import Const, Expr

#: Elements of each lane that are transposed at a time (with 16 lanes, half of a level 1 cache), and
#: how far apart lanes are meanwhile: not at addresses that share sets of the cache.
BLOCK, LINE = 256, 272
#: Cycles of an element that is transposed, roughly.
TURNED = 0.6
#: Sums of a batch.
MOST = 1024


@dataclass(frozen=True)
class LanesForm:
    """How the work is divided.

    Attributes:
        run: summed axes, counted from the last, that a chunk goes along.
        chunk: points of the first of them that are summed at a time.
        rows: lines of taps whose sums stay in registers.
        bytes: of a vector.
        joined, other: from which axis of the run on the operand that slides, and the other, are
            copied as along one axis.
    """

    run: int
    chunk: int
    rows: int
    bytes: int
    joined: int
    other: int


class TransposedOperand(NamedTuple):
    """How an operand lies in cache, in vectors, and what is copied there.

    Attributes:
        value: the operand where it is not padding, over ``places``.
        padding: what it is elsewhere, None where there is nothing else.
        tracks: the summed axes of a chunk, with the taps that shift them.
        spans: of each track, the first place that is no padding and the first behind them.
        places: axes of the places in between; those of the tracks from ``joined`` on are one.
        joined: see ``places``.
        free: other axes of the result that the operand has.
    """

    value: Expr
    padding: Const | None
    tracks: tuple[Track, ...]
    spans: tuple[tuple[int, int], ...]
    places: tuple[Axis, ...]
    joined: int
    free: tuple[Axis, ...]

    @property
    def width(self) -> int:
        """Places of the last axis for each place of the first track that it joins."""
        return prod(high - low for low, high in self.spans[self.joined + 1 :])

    @property
    def pitches(self) -> list[int]:
        """Distances along the tracks."""
        found = [1]
        for track in reversed(self.tracks[1:]):
            found.insert(0, found[0] * reach_of(track, track.axis.extent))
        return found

    def free_pitches(self, chunk: int) -> list[int]:
        """Distances along the free axes, and the size of all, for a chunk of the first track."""
        found = [self.pitches[0] * reach_of(self.tracks[0], chunk)]
        for axis in reversed(self.free):
            found.insert(0, found[0] * axis.extent)
        return [*found[1:], found[0]]

    def size(self, chunk: int) -> int:
        """All of it."""
        return self.free_pitches(chunk)[-1]

    def counted(self, chunk: int) -> list[int]:
        """Extents of the joined tracks, of which a table has the distances."""
        spans = [high - low for low, high in self.spans[self.joined :]]
        return spans if self.joined else [reach_of(self.tracks[0], chunk), *spans[1:]]


class LanesLayout(NamedTuple):
    """Sizes in vectors where it is not said.

    Attributes:
        slides, other: the operands.
        line: taps that lie at even distances.
        lines: lines of all results of a column, rounded up to tiles.
        steps: summed elements of a whole chunk.
        tables, shared: bytes before the tables of steps, lines and places, and of all tables.
        panel, turned, sums, private: bytes before these pieces of a task, and of all.
    """

    slides: TransposedOperand
    other: TransposedOperand
    line: int
    lines: int
    steps: int
    tables: tuple[int, ...]
    shared: int
    panel: int
    turned: int
    sums: int
    private: int


def reach_of(track: Track, points: int) -> int:
    """Places that ``points`` of a track and its taps take."""
    taps = track.tap.extent - 1 if track.tap is not None else 0
    return track.stride * (points - 1) + track.dilation * taps + 1


def transpose_operand(
    value: Expr, tracks: Sequence[Track], free: Sequence[Axis], shapes: Shapes
) -> TransposedOperand | None:
    """How an operand is transposed, its places not joined yet; ``joined`` says how far they can be.
    None where places are not told from what is read there."""
    table: dict[Axis, Linear] = {}
    whole: list[Axis] = []
    for number, track in enumerate(tracks):
        place = Axis(f"g_q{number}", reach_of(track, track.axis.extent))
        if track.tap is not None and min(track.stride, track.dilation) > 1:
            return None
        table[track.axis] = variable(place) if track.stride == 1 else constant(0)
        if track.tap is not None:
            table[track.tap] = constant(0) if track.stride == 1 else variable(place)
        whole.append(place)
    value = at_axes(value, table)
    if any(_divides(form, whole) for form in forms_of(value)):
        return None
    inside, padding, spans = _without_padding(value, whole)
    if any(low >= high for low, high in spans):
        return None
    places = [Axis(a.name, high - low) for a, (low, high) in zip(whole, spans, strict=True)]
    moved = [variable(p) + low for p, (low, _) in zip(places, spans, strict=True)]
    inside = at_axes(inside, dict(zip(whole, moved, strict=True)))
    forms, joined = in_memory(inside, shapes), len(places) - 1
    while joined and all(one_run(form, places[joined - 1 :]) for form in forms):
        joined -= 1
    return TransposedOperand(
        inside, padding, tuple(tracks), tuple(spans), tuple(places), joined, tuple(free)
    )


def join_axes(turned: TransposedOperand, start: int) -> TransposedOperand:
    """The places from a track on as one axis."""
    ends = turned.places[start:]
    last = Axis("g_q", prod(p.extent for p in ends))
    apart = delinearize(variable(last), [p.extent for p in ends])
    value = at_axes(turned.value, dict(zip(ends, apart, strict=True)))
    return turned._replace(value=value, places=(*turned.places[:start], last), joined=start)


def _divides(form: Linear, places: Sequence[Axis]) -> bool:
    """Whether an index divides a place: of places that no tap reads, it may be anywhere."""
    parts = [atom for atom, _ in form.terms if isinstance(atom, Quotient | Remainder)]
    return any(axes_of(part.value).intersection(places) for part in parts)


def _without_padding(
    value: Expr, places: Sequence[Axis]
) -> tuple[Expr, Const | None, list[tuple[int, int]]]:
    """An operand inside of its padding, the padding, and where along each axis it ends. All of it
    where it has no constant padding around a box."""
    whole = [(0, a.extent) for a in places]
    if not isinstance(value, Guarded) or not isinstance(value.other, Const):
        return value, None, whole
    guards, spans = list(value.guards), []
    for axis in places:
        guards, span, rest, _ = split_guards(Guarded(tuple(guards), value.value, value.other), axis)
        if rest is not value.value:
            return value, None, whole
        spans.append(span if span is not None else (0, axis.extent))
    return (value, None, whole) if guards else (value.value, value.other, spans)


class LanesPlan:
    """What lanes need to know of a contraction whose operand slides along the sums."""

    def __init__(self, plan: SlidePlan, shapes: Shapes) -> None:
        self.plan, self.spec, self.shapes = plan, plan.spec, shapes
        self._made: dict[int, tuple[TransposedOperand | None, TransposedOperand | None]] = {}
        self._joined: dict[tuple[int, int, int], tuple[TransposedOperand, TransposedOperand]] = {}

    def tracks(self, run: int) -> list[Track]:
        """The summed axes of a chunk."""
        inner = self.plan.inner
        return [track_of(a, self.plan.slide.walks, "tap") for a in inner[len(inner) - run :]]

    def operands(self, run: int) -> tuple[TransposedOperand, TransposedOperand] | None:
        """Both operands, before places are joined."""
        if run not in self._made:
            slide, tracks = self.plan.slide, self.tracks(run)
            taps = [t.tap for t in tracks]
            free = [a for a in slide.points if a not in taps]
            alone = [Track(t.axis, None, 1, 1) for t in tracks]
            self._made[run] = (
                transpose_operand(slide.value, tracks, free, self.shapes),
                transpose_operand(slide.fixed, alone, slide.others, self.shapes),
            )
        slides, other = self._made[run]
        return None if slides is None or other is None else (slides, other)

    def line(self, run: int) -> int:
        """Taps in a line: those along which the last summed axis slides."""
        last, points = self.tracks(run)[-1].tap, self.plan.slide.points
        return last.extent if last is not None and points[-1] == last else 1

    def lay_out(self, form: LanesForm) -> LanesLayout | None:
        """The sizes that follow from a form; None where it cannot be written."""
        found, spec, chunk = self.operands(form.run), self.spec, form.chunk
        if found is None or form.joined < found[0].joined or form.other < found[1].joined:
            return None
        key = form.run, form.joined, form.other
        if key not in self._joined:
            pairs = zip(found, key[1:], strict=True)
            first, second = (join_axes(part, start) for part, start in pairs)
            self._joined[key] = first, second
        slides, other = self._joined[key]
        line = self.line(form.run)
        lines = round_up(spec.m // line, form.rows)
        steps = chunk * prod(t.axis.extent for t in slides.tracks[1:])
        at = [0]
        for size in (steps, lines, prod(slides.counted(chunk)), prod(other.counted(chunk))):
            at.append(at[-1] + round_up(size * 4, 64))
        panel = slides.size(chunk) * form.bytes
        turned = panel + other.size(chunk) * form.bytes
        sums = turned + form.bytes // spec.item * LINE * spec.item
        private = round_up(sums + lines * line * spec.n * form.bytes, 64) | 64
        return LanesLayout(
            slides, other, line, lines, steps, tuple(at[:4]), at[4], panel, turned, sums, private
        )

    def forms(self) -> Iterator[LanesForm]:
        """What is tried, except chunks."""
        spec = self.spec
        for size in (spec.vector_bytes, spec.vector_bytes // 2):
            if size < 16 or size // spec.item < 2:
                continue
            registers = 29 if size == 64 else 13
            for run in range(1, min(len(self.plan.inner), 3) + 1):
                found, line = self.operands(run), self.line(run)
                if found is None or line > registers:
                    continue
                lines = spec.m // line
                rows = ceil_div(lines, ceil_div(lines, registers // line))
                yield LanesForm(run, 1, rows, size, found[0].joined, found[1].joined)

    def best(self, forms: Iterable[LanesForm]) -> tuple[float, LanesForm] | None:
        """The cheapest of some forms, with a chunk, and its cost."""
        found: tuple[float, LanesForm] | None = None
        for form in forms:
            for chunk in chunks_of(self.tracks(form.run)[0].axis.extent):
                made = replace(form, chunk=chunk)
                cost = self.cost(made)
                if cost is not None and (found is None or cost < found[0]):
                    found = cost, made
        return found

    def cost(self, form: LanesForm) -> float | None:
        """Cycles of one core for the whole contraction, roughly."""
        spec, lay, chunk = self.spec, self.lay_out(form), form.chunk
        if lay is None:
            return None
        lanes, share = form.bytes // spec.item, 1.0 if form.bytes == 64 else 0.5
        turns = 0.0
        for part in (lay.slides, lay.other):
            runs = ceil_div(part.size(chunk), min(prod(part.counted(chunk)), BLOCK))
            turns += lanes * (part.size(chunk) * TURNED + runs * ENTERED)
        once = max(share * (form.rows * lay.line + 1), 4.0)
        sums = lay.lines // form.rows * spec.n * (lay.steps * once + 4 * form.rows * lay.line + 50)
        slow = 1.3 if lay.private > spec.cache[1] * 3 // 4 else 1.0
        tasks, chunks = ceil_div(spec.batch, lanes), ceil_div(spec.k, lay.steps)
        stored = lanes * spec.n * (spec.m * STORED + ENTERED)
        return tasks * (chunks * (slow * (turns + sums) + 100) + stored) * evenness(tasks)


def choose_lanes(plan: SlidePlan, shapes: Shapes, sums: SumsForm | None) -> LanesForm | None:
    """The cheapest form; None where ``sums`` is cheaper, or nothing fits."""
    lanes = LanesPlan(plan, shapes)
    best = lanes.best(lanes.forms()) if _fills_lanes(plan) else None
    wins = best is not None and (sums is None or best[0] < sums_cost(plan, sums))
    own = best[1] if best is not None and wins else None
    like = decide("lanes of sums", own)
    if like is None or (own is not None and own == replace(like, chunk=own.chunk)):
        return own if like is not None else None
    best = lanes.best([like])
    return None if best is None else best[1]


def _fills_lanes(plan: SlidePlan) -> bool:
    """Whether there are enough batches, each of few results."""
    spec = plan.spec
    return bool(plan.slide.walks) and 2 * spec.batch > spec.lanes > 1 and spec.m * spec.n <= MOST


# The C of sums with a batch in each lane, see ``codegen/conv/lanes.py``.


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
        """Where things lie that are summed, or transposed: distances in elements."""
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
            self._fill_transposed("g_x", "g_ax", lay.slides)
            self._fill_transposed("g_b", "g_ab", lay.other)
            begins = " && ".join(["g_p0 == 0", *(f"{a.name} == 0" for a in self.outer)])
            with out.loop("g_col", 0, spec.n), out.loop("g_row", 0, lay.lines, form.rows):
                out.add(
                    f"{micro}((g_p1 - g_p0) * {whole}, g_x, {(size - 1) * lanes}, g_steps,",
                    f"    g_rows + g_row, g_b + g_col * {lay.steps * lanes},",
                    f"    g_c + g_col * {lay.lines * tile} + g_row * {tile}, {lanes}, {begins});",
                )
        self._store()

    def _fill_transposed(self, name: str, table: str, part: TransposedOperand) -> None:
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
            self._transpose_points(name, table, part, terms, ends)

    def _pad(self, name: str, part: TransposedOperand, terms: Sequence[str]) -> None:
        """Padding in whole places of the first track, where another chunk may have had none."""
        out, pitch, (low, high) = self.out, part.pitches[0] * self.lanes, part.spans[0]
        where = " + ".join([*terms, f"(g_u - g_u0) * {pitch}", "g_k"])
        assert part.padding is not None
        outside = f"if (g_u < {low} || g_u >= {high})"
        with out.loop("g_u", "g_u0", "g_u1"), out.block(outside), out.loop("g_k", 0, pitch):
            out.add(f"{name}[{where}] = {self.value(part.padding)};")

    def _transpose_points(
        self,
        name: str,
        table: str,
        part: TransposedOperand,
        terms: Sequence[str],
        ends: tuple[str, str],
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

    def _copy(self, part: TransposedOperand) -> None:
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
