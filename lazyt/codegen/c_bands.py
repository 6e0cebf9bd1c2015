"""Kernels that run band by band, as C: all phases for some rows, then for the next ones.

A thread takes rows of one point of the batch and keeps what the phases hand to each other in
scratch of its own, sized to stay in its second-level cache. The right operands of contractions are
packed once: by each thread for a point of its own where there are many points, else by all threads
together. Each phase does for its rows what it does alone, in the same order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from lazyt.codegen import c_tree as ct
from lazyt.codegen.c_contract import band_base, describe
from lazyt.codegen.c_family import Expressions, c_type
from lazyt.codegen.c_steps import CpuPhase
from lazyt.codegen.contract_groups import LEAST_BYTES, group_sections, grouped
from lazyt.codegen.contract_micro import WORKER_SECTION, tile_sections
from lazyt.codegen.contract_packed import (
    PackedForm,
    choose_packed_form,
    declare_scratch,
    emit_right_panels,
    emit_row_blocks,
    register_tile,
    scratch_bytes,
)
from lazyt.codegen.contract_panels import panel_sections
from lazyt.codegen.contract_spec import ContractSpec, ContractText, ceil_div, round_up
from lazyt.codegen.contract_text import CText, clamp_threads, open_kernel
from lazyt.ir.kernel import Bands, ContractPhase, Kernel, Phase

#: Points from which on threads share out points.
MANY_POINTS = 4
#: Tasks that keep all threads busy, and bands below which a task is not cut.
ENOUGH_TASKS = 16
#: Register tiles of a band: at least, at most.
LEAST_TILES, MOST_TILES = 4, 16


@dataclass(frozen=True)
class _Product:
    """A contraction of a band: its form, and where its panels and tiles lie in the scratch."""

    spec: ContractSpec
    form: PackedForm
    panels: int
    tiles: int


@dataclass(frozen=True)
class _Layout:
    """How rows become bands, and bytes of scratch.

    Attributes:
        rows: of a band.
        span: rows of a task: bands of one point that a thread does one after the other.
        private: whether threads have panels of their own.
        shared, own: bytes of scratch of all threads and of each.
        workers: the most threads.
    """

    rows: int
    span: int
    private: bool
    shared: int
    own: int
    workers: int


def bands_text(
    kernel: Kernel,
    expressions: Expressions,
    vector_bytes: int,
    caches: tuple[int, int, int],
    threads: int,
) -> ContractText:
    """The kernel's C text with the sections and the workspace that it needs, for at most so many
    threads."""
    bands = kernel.bands
    assert bands is not None
    specs = [
        describe(kernel, phase, expressions, vector_bytes, caches).spec
        if isinstance(phase, ContractPhase)
        else None
        for phase in kernel.phases
    ]
    sections: list[tuple[str, str]] = [WORKER_SECTION]
    wide = [s for s in specs if s is not None and s.n > s.lanes]
    tile = register_tile(next(iter(wide), next(s for s in specs if s is not None)))[0]
    private = bands.points >= MANY_POINTS
    cuts = ceil_div(ENOUGH_TASKS, bands.points) if private else 1
    rows, span = _split(kernel, bands, caches[1], tile, cuts)
    place = 0  # in the scratch of a thread
    shared = 0
    products: list[_Product | None] = []
    for spec in specs:
        if spec is None:
            products.append(None)
            continue
        if spec.group and vector_bytes >= LEAST_BYTES:
            kind, spec = spec.group, grouped(spec)
            form = _form(spec, rows, tile, private)
            sections += group_sections(kind, form.rows, form.vectors, vector_bytes)
        else:
            form = _form(spec, rows, tile, private)
            sections += tile_sections(spec.acc, form.rows, form.vectors, vector_bytes)
        panels, own = scratch_bytes(spec, form)
        at = place if private else shared
        place, shared = place + private * panels, shared + (not private) * panels
        products.append(_Product(spec, form, at, place))
        place += own
    places = {}
    for buffer in kernel.buffers:
        if buffer.role == "band":
            places[buffer.name] = place
            width = math.prod(buffer.shape) // (bands.points * bands.rows)
            place += round_up(rows * width * buffer.dtype.itemsize, 64)
    tasks = bands.points * ceil_div(bands.rows, span) if private else ceil_div(bands.rows, rows)
    lay = _Layout(rows, span, private, shared, place, max(1, min(threads, tasks)))
    text = _Writer(kernel, bands, expressions, caches[1], products, lay, places).text()
    for product in products:
        if product is not None:
            spec, form = product.spec, product.form
            sections += panel_sections(spec, form.widths(spec), text)
    note = f"bands of {rows} rows, {lay.own} bytes of scratch a thread; " + "; ".join(
        f"{p.form}" for p in products if p is not None
    )
    return ContractText(tuple(dict(sections).items()), text, shared + place * lay.workers, note)


def _split(kernel: Kernel, bands: Bands, cache: int, tile: int, cuts: int) -> tuple[int, int]:
    """Rows of a band, and of a task: whole register tiles whose scratch fits half of the cache, all
    bands about equal, in about ``cuts`` tasks a point."""
    total = bands.points * bands.rows
    mine = [b for b in kernel.buffers if b.role == "band"]
    row = sum(math.prod(b.shape) // total * b.dtype.itemsize for b in mine)
    tiles = max(LEAST_TILES, min(MOST_TILES, cache // 2 // max(row, 1) // tile))
    cut = ceil_div(bands.rows, cuts)
    parts = ceil_div(cut, tiles * tile)
    rows = round_up(ceil_div(cut, parts), tile)
    return rows, rows * parts


def _form(spec: ContractSpec, rows: int, tile: int, private: bool) -> PackedForm:
    """The form of a contraction for bands of so many rows; its right operand is packed whole."""
    form = choose_packed_form(replace(spec, m=rows), False)
    width = form.vectors * spec.lanes
    block = max(tile, min(rows, spec.cache[1] // 8 // (form.k_block * spec.item) // tile * tile))
    return replace(
        form, rows=tile, row_block=block, k_span=spec.k, col_span=round_up(spec.n, width),
        private=private, parallel=True,
    )  # fmt: skip


class _Writer:
    """Writes the function."""

    def __init__(
        self,
        kernel: Kernel,
        bands: Bands,
        expressions: Expressions,
        cache: int,
        products: Sequence[_Product | None],
        lay: _Layout,
        places: dict[str, int],
    ) -> None:
        self.kernel, self.bands, self.e, self.cache = kernel, bands, expressions, cache
        self.products, self.lay, self.places = products, lay, places
        self.out = CText()

    def text(self) -> str:
        """All of it."""
        out, lay, bands = self.out, self.lay, self.bands
        spec = next(p.spec for p in self.products if p is not None)
        with open_kernel(out, spec):
            clamp_threads(out, lay.workers)
            out.pragma("omp parallel num_threads(g_threads)")
            with out.block():
                out.add(f"char *g_mine = ws + {lay.shared} + (lz_i64)lz_worker() * {lay.own};")
                base = "g_mine" if lay.private else "ws"
                for number, product in enumerate(self.products):
                    if product is not None:
                        panels, own = f"{base} + {product.panels}", f"g_mine + {product.tiles}"
                        declare_scratch(out, product.spec, product.form, number, panels, own)
                for buffer in self.kernel.buffers:
                    if buffer.role == "band":
                        kind, at = c_type(buffer.dtype), self.places[buffer.name]
                        out.add(f"{kind} *restrict {buffer.name} = ({kind} *)(g_mine + {at});")
                if lay.private:
                    self._points()
                else:
                    with out.turns("g_b", bands.points):
                        self._panels()
                        out.pragma("omp for schedule(dynamic, 1)")
                        with out.loop("g_r0", 0, bands.rows, lay.rows):
                            self._band(str(bands.rows))
        return out.text()

    def _points(self) -> None:
        """Tasks of one point each, which pack for themselves."""
        out, lay, bands = self.out, self.lay, self.bands
        cuts = ceil_div(bands.rows, lay.span)
        out.pragma("omp for collapse(2) schedule(dynamic, 1)")
        with out.loop("g_b", 0, bands.points), out.loop("g_t", 0, cuts):
            out.add(f"const lz_i64 g_f0 = g_t * {lay.span};")
            out.clip("g_f1", "g_f0", lay.span, bands.rows)
            self._panels()
            with out.loop("g_r0", "g_f0", "g_f1", lay.rows):
                self._band("g_f1")

    def _panels(self) -> None:
        """Packs the right operands."""
        for number, product in enumerate(self.products):
            if product is not None:
                with self.out.block():
                    emit_right_panels(self.out, product.spec, product.form, number)

    def _band(self, stop: str) -> None:
        """All phases for the rows from ``g_r0`` on."""
        out, bands = self.out, self.bands
        out.clip("g_r1", "g_r0", self.lay.rows, stop)
        out.add(f"const lz_i64 g_first = g_b * {bands.rows} + g_r0;")
        out.add(f"const lz_i64 g_last = g_b * {bands.rows} + g_r1;")
        for buffer in self.kernel.buffers:
            if buffer.role == "band":
                width = math.prod(buffer.shape) // (bands.points * bands.rows)
                name = self.e.bases[buffer.name] = band_base(buffer.name)
                out.add(f"const lz_i64 {name} = g_first * {width};")
        for number, (phase, product) in enumerate(
            zip(self.kernel.phases, self.products, strict=True)
        ):
            self.e.values.clear()
            if product is not None:
                with out.block():
                    emit_row_blocks(out, product.spec, product.form, number)
            else:
                assert isinstance(phase, Phase)
                printer = CpuPhase(phase, self.e, number, False, self.cache)
                for tree in printer.part("g_first", "g_last"):
                    out.add(*ct.text(tree).splitlines())
