"""Kernels that run band by band, as C: all phases for some rows, then for the next ones.

A thread takes rows of one point of the batch and keeps what the phases hand to each other in
scratch of its own, sized to stay in its second-level cache. The right operands of contractions are
packed once: by each thread for a point of its own where there are many points, else by all threads
together. Each phase does for its rows what it does alone, in the same order.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from lazyt.codegen.c import tree as ct
from lazyt.codegen.c.band_scratch import (
    BandPlace,
    idle_tiles,
    in_place,
    least,
    pitch_of,
    rows_at_hand,
)
from lazyt.codegen.c.family import Expressions, c_type, compute_type
from lazyt.codegen.c.loops import Trees
from lazyt.codegen.c.steps import CpuPhase
from lazyt.codegen.conv.windows import at_axes
from lazyt.codegen.matmul.axes import merge_axes
from lazyt.codegen.matmul.blocks import PackedForm, choose_packed_form, register_tile
from lazyt.codegen.matmul.dot_products import group_of, group_sections, grouped
from lazyt.codegen.matmul.micro_kernels import (
    WORKER_SECTION,
    CText,
    clamp_threads,
    open_kernel,
    tile_sections,
)
from lazyt.codegen.matmul.packed import (
    Rows,
    declare_scratch,
    emit_right_panels,
    emit_row_blocks,
    rows_sections,
    rows_tile,
    scratch_bytes,
)
from lazyt.codegen.matmul.panels import panel_sections
from lazyt.codegen.matmul.phase import describe, without_tiles
from lazyt.codegen.matmul.spec import ContractSpec, ContractText, ceil_div, round_up
from lazyt.ir.group import BLOCK_ROWS, PANELS, row_of
from lazyt.ir.index import (
    Axis,
    Guarded,
    Linear,
    Load,
    Position,
    Var,
    axes_of,
    constant,
    linearize,
    sub_expressions,
    variable,
)
from lazyt.ir.kernel import (
    LANES,
    AnyPhase,
    Bands,
    Buffer,
    ContractPhase,
    Keep,
    Kernel,
    Let,
    Phase,
    Reduce,
    Stage,
    Statement,
    Store,
)
from lazyt.ir.scalar import Expr

# Ends of rows that hold one value, as a mask leaves them: what is computed of them, once a row.
#
# A mask that compares positions makes all scores of a row the same constant from some column on.
# What a later loop computes there is the same value in every step, so it is computed for the last
# step, and stored; where folding it changes nothing (-infinity into a maximum, zero into a sum),
# the loop stops where the end begins. Where it would, the loop runs to its end: no bit depends on
# it.


#: Where the end of a row begins: a multiple of the row's number at its point, and a constant.
Start = tuple[int, int]


def ends_of_sums(phase: ContractPhase, buffers: Mapping[str, Buffer]) -> dict[str, Start]:
    """Scratch whose rows end with a constant, whatever the sums of a contraction are."""
    rows, columns = ([a for a in g if a.extent > 1] for g in (phase.rows, phase.columns))
    if len(rows) != 1 or len(columns) != 1:
        return {}
    known = {rows[0], columns[0]}
    starts = [
        (-(d.coefficient(rows[0]) or 0), 1 - d.const)
        for d in idle_tiles(phase)
        if {atom for atom, _ in d.terms} <= known and d.coefficient(columns[0]) == 1
    ]
    if not starts:
        return {}
    row = row_of((*phase.batch, *phase.rows)) * columns[0].extent + variable(columns[0])
    stores = [s for s in phase.epilogue if isinstance(s, Store) and not s.guards]
    places = {s.buffer: linearize(s.index, buffers[s.buffer].shape) for s in stores}
    return {name: starts[0] for name, place in places.items() if place == row}


class RowEnds:
    """What the ends of a phase's rows need, where they hold one value.

    ``ends`` says where rows of scratch end so, and learns it of what the phase stores.
    """

    def __init__(
        self, phase: Phase, expressions: Expressions, number: int, bands: Bands,
        ends: dict[str, Start],
    ) -> None:  # fmt: skip
        self.phase, self.e, self.number = phase, expressions, number
        self.bands, self.ends = bands, ends
        bodies = [s for stage in phase.stages for s in stage.body]
        self.retained = {s.name for s in bodies if isinstance(s, Keep)}
        self.named = 0

    def before_loop(self, stage: Stage, axis: Axis) -> Trees:
        """Statements that do what the end of the row needs, and say where the loop stops."""
        start = self._start(stage, axis)
        if start is None:
            return []
        self.named += 1
        label = f"{self.number}_{self.named}"
        names = ("first", "lanes", "near", "flat", "stop")
        first, lanes, near, flat, stop = (f"{name}{label}" for name in names)
        for statement in stage.body:
            if isinstance(statement, Store) and self._place(statement.buffer, axis) == linearize(
                statement.index, self.e.buffers[statement.buffer].shape
            ):
                self.ends[statement.buffer] = start
        whole = ct.integer(axis.extent)
        below = ct.binary("<", ct.name(near), whole)
        self.e.ends[axis] = ct.name(stop)
        return [
            ct.declare("lz_i64", first, self._first(start), const=True),
            ct.declare("lz_i64", lanes, _whole_lanes(ct.name(first)), const=True),
            ct.declare("lz_i64", near, ct.minimum(ct.name(lanes), whole), const=True),
            ct.declare("int", flat, ct.integer(0)),
            ct.branch(below, self._once(stage, axis, near, flat)),
            ct.declare("lz_i64", stop, ct.choose(ct.name(flat), ct.name(near), whole), const=True),
        ]

    def _first(self, start: Start) -> ct.Node:
        """Where the end of the current row begins; may lie outside of it."""
        row = ct.name(f"t{self.number}")
        if self.bands.points > 1:
            row = ct.binary("-", row, ct.binary("*", ct.name("g_b"), ct.integer(self.bands.rows)))
        first = ct.binary("*", row, ct.integer(start[0])) if start[0] != 1 else row
        return ct.binary("+", first, ct.integer(start[1]))

    def _once(self, stage: Stage, axis: Axis, near: str, flat: str) -> Trees:
        """The stage at its last step, stored at all steps of the end if folds allow it."""
        last = {axis: constant(axis.extent - 1)}
        out: Trees = []
        tests: Trees = []
        fill: Trees = []
        for number, statement in enumerate(stage.body):
            value = self.e.value(at_axes(statement.value, last))
            kind = compute_type(statement.value.dtype)
            if isinstance(statement, Let):
                out.append(ct.declare(kind, statement.name, value, const=True))
                continue
            name = f"once{number}"
            out.append(ct.declare(kind, name, value, const=True))
            if isinstance(statement, Reduce):
                neutral = self.e.identity(statement.kind, statement.value.dtype.compute)
                tests.append(ct.binary("==", ct.name(name), neutral))
            elif isinstance(statement, Store):
                made = Store(statement.buffer, statement.index, Var(name, statement.value.dtype))
                fill += self.e.store(made)
        done: Trees = [ct.assign(ct.name(flat), ct.integer(1))]
        if fill:
            loop = ct.loop(axis.name, ct.name(near), ct.integer(axis.extent), fill)
            done += [ct.pragma("omp simd"), loop]
        if not tests:
            return [*out, *done]
        test = tests[0]
        for other in tests[1:]:
            test = ct.binary("&&", test, other)
        return [*out, ct.branch(test, done)]

    # -------------------------------------------------------------- legality

    def _start(self, stage: Stage, axis: Axis) -> Start | None:
        """Where the end of a stage begins; None where it has none, or steps there differ."""
        if stage.guard is not None or stage.sequential or not all(map(_is_simple, stage.body)):
            return None
        starts = set[Start]()
        for statement in stage.body:
            found = self._starts(statement.value, axis)
            if found is None:
                return None
            starts |= found
        return starts.pop() if len(starts) == 1 else None

    def _starts(self, value: Expr, axis: Axis) -> set[Start] | None:
        """Where ends begin of all that a value reads along the axis; None where some have none."""
        found = set[Start]()
        for item in sub_expressions(value):
            if isinstance(item, Var) and item.name in self.retained:
                return None
            if isinstance(item, Load) and _varies(item.index, axis):
                start = self.ends.get(item.buffer)
                place = linearize(item.index, self.e.buffers[item.buffer].shape)
                if start is None or place != self._place(item.buffer, axis):
                    return None
                found.add(start)
            indices = [item.index] if isinstance(item, Position) else []
            indices += [g.index for g in item.guards] if isinstance(item, Guarded) else []
            if _varies(indices, axis):
                return None
        return found

    def _place(self, buffer: str, axis: Axis) -> Linear | None:
        """The element of a step in the row's share of a buffer, if each row has one for a step."""
        rows = self.bands.points * self.bands.rows
        if math.prod(self.e.buffers[buffer].shape) != rows * axis.extent:
            return None
        return row_of(self.phase.grid) * axis.extent + variable(axis)


def _is_simple(statement: Statement) -> bool:
    """Whether what a statement does at steps with the same operands is the same, and known."""
    if isinstance(statement, Reduce):
        return statement.dtype.kind == "f" and statement.kind in ("sum", "max", "min")
    if isinstance(statement, Store):
        return not statement.guards and statement.combine is None
    return isinstance(statement, Let)


def _varies(indices: Iterable[Linear], axis: Axis) -> bool:
    return any(axis in axes_of(index) for index in indices)


def _whole_lanes(first: ct.Node) -> ct.Node:
    """The next step that begins a group of lanes."""
    past = ct.binary("+", first, ct.integer(LANES - 1))
    steps = ct.binary("*", ct.binary("/", past, ct.integer(LANES)), ct.integer(LANES))
    return ct.choose(ct.binary(">", past, ct.integer(0)), steps, ct.integer(0))


#: Points from which on threads share out points.
MANY_POINTS = 4
#: Tasks that keep all threads busy.
ENOUGH_TASKS = 16
#: Register tiles of a band: at least, at most.
LEAST_TILES, MOST_TILES = 4, 16


@dataclass(frozen=True)
class _Product:
    """A contraction of a band.

    Attributes:
        spec, form: what it is, and how it is done.
        panels, own: where its packed right operand lies, and a thread's own panels and tiles.
        rows: its left operand, where that lies in scratch as it is needed.
        idle: where register tiles need not be computed, as a condition; empty for nowhere.
    """

    spec: ContractSpec
    form: PackedForm
    panels: int
    own: int
    rows: Rows | None
    idle: str


def bands_text(
    kernel: Kernel,
    expressions: Expressions,
    vector_bytes: int,
    caches: tuple[int, int, int],
    threads: int,
) -> ContractText:
    """The kernel's C text with the sections and the workspace that it needs, for at most so many
    threads."""
    assert kernel.bands is not None
    return _Writer(kernel, kernel.bands, expressions, vector_bytes, caches).text(threads)


class _Writer:
    """Lays a kernel out, and writes it.

    Attributes:
        private: whether threads have packed operands of their own.
        size, span: rows of a band, and of a task: bands that a thread does one after the other.
        shared, own: bytes of scratch of all threads, and of each.
        places: where scratch of bands begins.
        ends: scratch whose rows end with one value, and from where on.
    """

    def __init__(
        self,
        kernel: Kernel,
        bands: Bands,
        expressions: Expressions,
        vector_bytes: int,
        caches: tuple[int, int, int],
    ) -> None:
        self.kernel, self.bands, self.e, self.caches = kernel, bands, expressions, caches
        self.out = CText()
        self.sections: list[tuple[str, str]] = [WORKER_SECTION]
        self.private = bands.points >= MANY_POINTS
        self.shared = self.own = 0
        self.ends: dict[str, Start] = {}
        # Axes that are walked as one make indices short, and tell what the rows are.
        self.phases = [merge_axes(p) if isinstance(p, ContractPhase) else p for p in kernel.phases]
        self.specs = [
            describe(kernel, p, expressions, vector_bytes, caches).spec
            if isinstance(p, ContractPhase)
            else None
            for p in self.phases
        ]
        known = [spec for spec in self.specs if spec is not None]
        if not all(spec.tiles for spec in known):  # rows of a band are those of one kind of tile
            self.specs = [s and without_tiles(s, expressions) for s in self.specs]
            known = [spec for spec in self.specs if spec is not None]
        wide = [spec for spec in known if spec.n > spec.lanes]
        self.tile = register_tile((wide or known)[0])[0]
        self._place_scratch()
        self.products = [
            self._product(number, phase, spec, vector_bytes)
            if isinstance(phase, ContractPhase) and spec is not None
            else None
            for number, (phase, spec) in enumerate(zip(self.phases, self.specs, strict=True))
        ]

    # --------------------------------------------------------------- layout

    def _place_scratch(self) -> None:
        """Decides how many rows a band has, and where its values lie."""
        shared = in_place(self.kernel)
        mine = [b for b in self.kernel.buffers if b.role == "band"]
        for buffer in mine:
            width = math.prod(buffer.shape) // (self.bands.points * self.bands.rows)
            pitch = pitch_of(width, buffer.dtype.itemsize) if width > 1 else 1
            name = shared.get(buffer.name, buffer.name)
            self.e.bands[buffer.name] = BandPlace(name, width, pitch, f"g_{name}")
        self.kept = [b for b in mine if b.name not in shared]
        row = sum(self._row_bytes(b) for b in self.kept)
        tiles = max(LEAST_TILES, min(MOST_TILES, self.caches[1] // 2 // max(row, 1) // self.tile))
        if sum(s.k * s.n * s.item for s in self.specs if s is not None) > PANELS * self.caches[1]:
            tiles = max(tiles, BLOCK_ROWS // self.tile)
        cuts = ceil_div(ENOUGH_TASKS, self.bands.points) if self.private else 1
        cut = ceil_div(self.bands.rows, cuts)
        parts = ceil_div(cut, tiles * self.tile)
        self.size = round_up(ceil_div(cut, parts), self.tile)
        self.span = self.size * parts
        self.places: dict[str, int] = {}
        for buffer in self.kept:
            self.places[buffer.name] = self.own
            self.own += round_up(self.size * self._row_bytes(buffer), 64)

    def _row_bytes(self, buffer: Buffer) -> int:
        return self.e.bands[buffer.name].pitch * buffer.dtype.itemsize

    def _product(
        self, number: int, phase: ContractPhase, spec: ContractSpec, vector_bytes: int
    ) -> _Product:
        rows: Rows | None = None
        kind = group_of(spec)
        if kind:
            spec = grouped(spec)
            form = self._form(spec, False)
            self.sections += group_sections(spec, form.rows, form.vectors, form.ahead)
        else:
            source = rows_at_hand(self.kernel, phase)
            form = self._form(spec, source is not None)
            tile = (spec.acc, form.rows, form.vectors, vector_bytes)
            self.sections += tile_sections(*tile, form.ahead)
            if source is not None:
                at = self.e.bands[source]
                self.sections += rows_sections(*tile, at.pitch)
                rows = Rows(at.name, at.pitch, number, spec.acc, rows_tile(*tile, at.pitch))
        panels, own = scratch_bytes(spec, form)
        at_panels = self.own if self.private else self.shared
        self.own += self.private * panels
        self.shared += (not self.private) * panels
        size = (form.rows, form.vectors * spec.lanes)
        tests = [least(d, phase.rows, phase.columns, size) for d in idle_tiles(phase)]
        idle = " || ".join(f"{text} > 0" for text in tests if text is not None)
        made = _Product(spec, form, at_panels, self.own, rows, idle)
        self.own += own
        return made

    def _form(self, spec: ContractSpec, at_hand: bool) -> PackedForm:
        """The form of a contraction for the rows of a band; its right operand is packed whole."""
        form = choose_packed_form(replace(spec, m=self.bands.rows), False)
        width, block = form.vectors * spec.lanes, self.size
        if not at_hand:
            most = spec.cache[1] // 8 // (form.k_block * spec.item) // self.tile * self.tile
            block = max(self.tile, min(self.size, most))
        return replace(
            form, rows=self.tile, row_block=block, k_span=spec.k,
            col_span=round_up(spec.n, width), private=self.private, parallel=True,
            straight=False, apart=False, ahead=form.ahead and not at_hand,
        )  # fmt: skip

    # ----------------------------------------------------------------- text

    def text(self, threads: int) -> ContractText:
        """All of it."""
        out, bands = self.out, self.bands
        tasks = ceil_div(bands.rows, self.size)
        if self.private:
            tasks = bands.points * ceil_div(bands.rows, self.span)
        workers = max(1, min(threads, tasks))
        spec = next(p.spec for p in self.products if p is not None)
        with open_kernel(out, spec):
            clamp_threads(out, workers)
            out.pragma("omp parallel num_threads(g_threads)")
            with out.block():
                self._declare()
                if spec.tiles:
                    out.add("lz_mat_begin();")
                if self.private:
                    self._points()
                else:
                    with out.turns("g_b", bands.points):
                        self._panels()
                        out.pragma("omp for schedule(dynamic, 1)")
                        with out.loop("g_r0", 0, bands.rows, self.size):
                            self._band(str(bands.rows))
                if spec.tiles:
                    out.add("lz_mat_end();")
        note = f"bands of {self.size} rows, {self.own} bytes of scratch a thread; " + "; ".join(
            f"{p.form}" for p in self.products if p is not None
        )
        for p in self.products:
            if p is not None:
                self.sections += panel_sections(p.spec, p.form.widths(p.spec), out.text())
        space = self.shared + self.own * workers
        return ContractText(tuple(dict(self.sections).items()), out.text(), space, note)

    def _declare(self) -> None:
        """Names all memory."""
        out, base = self.out, "g_mine" if self.private else "ws"
        out.add(f"char *g_mine = ws + {self.shared} + (lz_i64)lz_worker() * {self.own};")
        for buffer in self.kept:
            kind, at = c_type(buffer.dtype), self.places[buffer.name]
            out.add(f"{kind} *restrict {buffer.name} = ({kind} *)(g_mine + {at});")
        for number, p in enumerate(self.products):
            if p is not None:
                panels, own = f"{base} + {p.panels}", f"g_mine + {p.own}"
                declare_scratch(out, p.spec, p.form, number, panels, own)

    def _points(self) -> None:
        """Tasks of one point each, which pack for themselves."""
        out, bands = self.out, self.bands
        out.pragma("omp for collapse(2) schedule(dynamic, 1)")
        cuts = ceil_div(bands.rows, self.span)
        with out.loop("g_b", 0, bands.points), out.loop("g_t", 0, cuts):
            out.add(f"const lz_i64 g_f0 = g_t * {self.span};")
            out.clip("g_f1", "g_f0", self.span, bands.rows)
            self._panels()
            with out.loop("g_r0", "g_f0", "g_f1", self.size):
                self._band("g_f1")

    def _panels(self) -> None:
        """Packs the right operands."""
        for number, p in enumerate(self.products):
            if p is None:
                continue
            with self.out.block():
                emit_right_panels(self.out, p.spec, p.form, number)
            if p.rows is not None:
                self.out.add(p.rows.test_panels(p.form.k_span * p.form.col_span))

    def _band(self, stop: str) -> None:
        """All phases for the rows from ``g_r0`` on."""
        out, bands = self.out, self.bands
        out.clip("g_r1", "g_r0", self.size, stop)
        out.add(f"const lz_i64 g_first = g_b * {bands.rows} + g_r0;")
        out.add(f"const lz_i64 g_last = g_b * {bands.rows} + g_r1;")
        for buffer in self.kept:
            place = self.e.bands[buffer.name]
            out.add(f"const lz_i64 {place.base} = g_first * {place.pitch};")
        for number, phase in enumerate(self.phases):
            self._phase(number, phase)

    def _phase(self, number: int, phase: AnyPhase) -> None:
        p = self.products[number]
        self.e.values.clear()
        if isinstance(phase, ContractPhase):
            self.e.row = row_of((*phase.batch, *phase.rows))
        elif isinstance(phase, Phase):
            self.e.row = row_of(phase.grid)
        if p is not None:
            with self.out.block():
                emit_row_blocks(self.out, p.spec, p.form, number, p.rows, p.idle)
            assert isinstance(phase, ContractPhase)
            self.ends |= ends_of_sums(phase, self.e.buffers)
            return
        assert isinstance(phase, Phase)
        row_ends = RowEnds(phase, self.e, number, self.bands, self.ends)
        printer = CpuPhase(phase, self.e, number, self.caches[1], row_ends=row_ends.before_loop)
        for tree in printer.part("g_first", "g_last"):
            self.out.add(*ct.text(tree).splitlines())
