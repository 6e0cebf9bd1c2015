"""The packed form: panels in cache, a tile of sums in registers.

B is copied once into panels [k][columns of a tile] that all threads read; each task copies its
block of A into panels [k][rows of a tile] and multiplies panel by panel, the way of Goto and van de
Geijn ("Anatomy of High-Performance Matrix Multiplication", 2008). Panels are padded with zeros, so
the micro-kernel knows no edges; only the epilogue does. Sums that are not finished when a block of
k ends wait in a scratch tile and continue exactly where they stopped.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace
from functools import partial

from lazyt.codegen.contract_blocks import PackedForm
from lazyt.codegen.contract_panels import Side, fill_panel
from lazyt.codegen.contract_rows import Rows
from lazyt.codegen.contract_spec import ALIKE, ContractSpec, ceil_div, round_up
from lazyt.codegen.contract_strips import in_one_block, multiply_strips, stores_directly
from lazyt.codegen.contract_text import CText, clamp_threads, open_kernel
from lazyt.codegen.contract_tiles import pack_left

# Multiplications that a thread takes at a time, if tasks are smaller.
_LEAST_SHARE = 1 << 17
# Steps of which all panels of A are made before the next ones.
_PIECE = 16


@dataclass(frozen=True)
class _Layout:
    """Where things lie in the workspace, in elements and bytes."""

    form: PackedForm
    tile_cols: int
    tile: int
    kept_tiles: int
    shared: int
    private: int
    workers: int


def _panels_b(spec: ContractSpec, form: PackedForm) -> int:
    """Bytes of what is packed of B at a time."""
    return 0 if form.apart else round_up(form.k_span * form.col_span * spec.item, 64)


def _lay_out(spec: ContractSpec, form: PackedForm) -> _Layout:
    """Sizes of B's panels, A's panels and the scratch tiles."""
    item = spec.item
    tile_cols = form.strip
    if tile_cols * item % ALIKE == 0:
        tile_cols += form.vectors * spec.lanes  # rows of a register tile share no set
    if stores_directly(spec, form):  # only what is no whole tile waits
        tile_cols = form.vectors * spec.lanes
    strips = 1 if in_one_block(spec, form) else ceil_div(form.col_block, form.strip)
    waiting = form.rows if stores_directly(spec, form) else strips * form.row_block
    tile = round_up(waiting * tile_cols * item, 64)
    panels_b = _panels_b(spec, form)
    panels_a = round_up(form.row_block * form.k_block * item, 64)
    kept = 0
    if form.k_span < spec.k:
        kept = ceil_div(spec.m, form.row_block) * ceil_div(form.col_span, form.col_block)
    own_b = form.private or form.copies
    shared = (0 if own_b else panels_b) + kept * tile
    private = panels_a + (0 if kept else tile) + (panels_b if own_b else 0)
    tasks = ceil_div(spec.m, form.row_block) * ceil_div(form.col_span, form.col_block)
    if form.private:
        tasks = max(tasks, spec.batch * ceil_div(spec.n, form.col_span))
    most = spec.threads if form.copies else spec.max_threads
    workers = min(most, tasks) if form.parallel else 1
    return _Layout(form, tile_cols, tile, kept, shared, private, max(workers, 1))


def emit_packed_form(spec: ContractSpec, form: PackedForm) -> tuple[str, int]:
    """The kernel's text, and the bytes of its workspace."""
    lay = _lay_out(spec, form)
    out = CText()
    with open_kernel(out, spec):
        if form.parallel:
            clamp_threads(out, lay.workers)
            out.pragma("omp parallel num_threads(g_threads)")
        with out.block():
            _declare_workspace(out, spec, lay)
            if spec.tiles:
                out.add("lz_mat_begin();")
            if form.private and form.parallel:
                out.pragma("omp for collapse(2) schedule(dynamic, 1)")
            always = spec.any_size or form.private
            with (
                out.turns("g_b", spec.batch, always=always),
                out.turns("g_n0", spec.n, form.col_span, always),
                out.turns("g_k0", spec.k, form.k_span, spec.any_size),
            ):
                out.clip("g_n1", "g_n0", form.col_span, spec.n)
                out.clip("g_k1", "g_k0", form.k_span, spec.k)
                if not (form.apart or _packs_late(spec, form)):
                    _pack_b(out, spec, form)
                _tasks(out, spec, lay)
            if spec.tiles:
                out.add("lz_mat_end();")
    return out.text(), lay.shared + lay.private * lay.workers


def scratch_bytes(spec: ContractSpec, form: PackedForm) -> tuple[int, int]:
    """Bytes of the right operand's panels, and of a thread's panels and tiles, in bands."""
    lay = _lay_out(spec, form)
    panels = _panels_b(spec, form)
    return panels, lay.private - (panels if form.private else 0)


def declare_scratch(
    out: CText, spec: ContractSpec, form: PackedForm, number: int, panels: str, own: str
) -> None:
    """Names the memory of contraction ``number`` of a band: the right operand's panels, and a
    thread's own panels and tiles."""
    size = round_up(form.row_block * form.k_block * spec.item, 64)
    out.add(
        f"{spec.panel} *restrict g_pb{number} = ({spec.panel} *)({panels});",
        f"{spec.panel} *restrict g_pa{number} = ({spec.panel} *)({own});",
        f"{spec.ctype} *restrict g_tile{number} = ({spec.ctype} *)({own} + {size});",
    )


def emit_right_panels(out: CText, spec: ContractSpec, form: PackedForm, number: int) -> None:
    """Statements that pack all of the right operand for batch ``g_b``."""
    out.add(
        f"{spec.panel} *restrict g_pb = g_pb{number};",
        f"const lz_i64 g_n0 = 0, g_n1 = {spec.n}, g_k0 = 0, g_k1 = {spec.k};",
    )
    _pack_b(out, spec, form)


def emit_row_blocks(
    out: CText, spec: ContractSpec, form: PackedForm, number: int, rows: Rows | None, idle: str
) -> None:
    """Statements that compute and store the rows from ``g_r0`` to ``g_r1`` of batch ``g_b``, where
    the right operand is packed; ``rows`` of the left one may be read where they lie. Register tiles
    are left out where the condition ``idle`` holds, if there is one."""
    out.add(
        f"const {spec.panel} *restrict g_pb = g_pb{number};",
        f"{spec.panel} *restrict g_pa = g_pa{number};",
        f"{spec.ctype} *restrict g_tile = g_tile{number};",
        f"const lz_i64 g_n0 = 0, g_k0 = 0, g_k1 = {spec.k};",
    )
    with out.loop("g_m0", "g_r0", "g_r1", form.row_block):
        out.clip("g_m1", "g_m0", form.row_block, "g_r1")
        with out.loop("g_c0", 0, spec.n, form.col_block):
            out.clip("g_c1", "g_c0", form.col_block, spec.n)
            _blocks_of_k(out, spec, _lay_out(spec, form), rows, idle)


def _declare_workspace(out: CText, spec: ContractSpec, lay: _Layout) -> None:
    kind, item = spec.ctype, spec.item
    panels_b = _panels_b(spec, lay.form)
    panels_a = round_up(lay.form.row_block * lay.form.k_block * item, 64)
    worker = "lz_worker()" if lay.form.parallel else "0"
    out.add(f"char *g_mine = ws + {lay.shared} + (lz_i64){worker} * {lay.private};")
    panel = spec.panel
    out.add(f"{panel} *restrict g_pa = ({panel} *)g_mine;")
    own_b = lay.form.private or lay.form.copies
    if own_b:
        out.add(f"{panel} *restrict g_pb = ({panel} *)(g_mine + {lay.private - panels_b});")
    else:
        out.add(f"{panel} *restrict g_pb = ({panel} *)ws;")
    if lay.kept_tiles:
        out.add(f"{kind} *restrict g_tiles = ({kind} *)(ws + {0 if own_b else panels_b});")
    else:
        out.add(f"{kind} *restrict g_tile = ({kind} *)(g_mine + {panels_a});")


def _pack_b(out: CText, spec: ContractSpec, form: PackedForm) -> None:
    width = form.vectors * spec.lanes
    if form.parallel and not (form.private or form.copies):
        out.pragma("omp for collapse(2) schedule(static)")
    with (
        out.loop("g_col0", "g_n0", "g_n1", width),
        out.loop("g_p0", "g_k0", "g_k1", form.k_block),
    ):
        out.clip("g_p1", "g_p0", form.k_block, "g_k1")
        _pack_panel(out, spec, form)


def _pack_panel(out: CText, spec: ContractSpec, form: PackedForm) -> None:
    """Packs steps ``g_p0`` to ``g_p1`` of the panel of B that begins with ``g_col0``."""
    width = form.vectors * spec.lanes
    out.add(
        f"{spec.panel} *restrict g_to = g_pb + (g_col0 - g_n0) * {form.k_span} "
        f"+ (g_p0 - g_k0) * {width};"
    )
    ragged = spec.any_size or bool(spec.n % width)
    load = spec.load_b("g_b", "g_k", "g_col")
    side = Side("g_col", width, spec.n, ragged, load, spec.b_unit == "k", spec.b_place)
    if spec.ends is not None:
        side = replace(side, end=(spec.k - 1, spec.ends[1]("g_b", "g_k", "g_col")))
    if not (spec.filled or (spec.tiles and spec.any_size)):
        fill_panel(out, spec, "g_to", side)
        return
    groups = spec.k - spec.filled
    out.add(f"const lz_i64 g_p2 = g_p1 < {groups} ? g_p1 : {groups};")
    fill_panel(out, spec, "g_to", replace(side, steps=("g_p0", "g_p2")))
    with out.loop("g_k", "g_p2", "g_p1"), out.loop("g_i", 0, width):
        out.add(f"g_to[(g_k - g_p0) * {width} + g_i] = 0;")


def _tasks(out: CText, spec: ContractSpec, lay: _Layout) -> None:
    form = lay.form
    if form.parallel and not form.private:
        macs = form.row_block * form.col_block * min(spec.k, form.k_span)
        share = 1 if spec.any_size else max(1, _LEAST_SHARE // macs)
        # Who has panels of its own need not wait for others to be done with them.
        alone = form.copies and not lay.kept_tiles
        out.pragma(f"omp for collapse(2) schedule(dynamic, {share})" + " nowait" * alone)
    with (
        out.loop("g_m0", 0, spec.m, form.row_block),
        out.loop("g_c0", "g_n0", "g_n1", form.col_block),
    ):
        out.clip("g_m1", "g_m0", form.row_block, spec.m)
        out.clip("g_c1", "g_c0", form.col_block, "g_n1")
        if lay.kept_tiles:
            across = ceil_div(form.col_span, form.col_block)
            out.add(
                f"{spec.ctype} *restrict g_tile = g_tiles + (g_m0 / {form.row_block} * {across} "
                f"+ (g_c0 - g_n0) / {form.col_block}) * {lay.tile // spec.item};"
            )
        _blocks_of_k(out, spec, lay, late=_packs_late(spec, form))


def _packs_late(spec: ContractSpec, form: PackedForm) -> bool:
    """Whether a task packs each of its panels of B when its first block of rows comes to it, which
    then finds it in the nearest cache: 3 % of a layer's time. With a single block of rows, 128 by
    2000 by 512 took 2 % longer."""
    blocks = spec.any_size or spec.m > form.row_block
    return form.private and not form.apart and blocks


def _blocks_of_k(
    out: CText,
    spec: ContractSpec,
    lay: _Layout,
    rows: Rows | None = None,
    idle: str = "",
    late: bool = False,
) -> None:
    """Sums of a task, from one block of k to the next; ``late``: panels of B are still to be packed
    when the first block of rows comes to them."""
    with out.loop("g_p0", "g_k0", "g_k1", lay.form.k_block):
        out.clip("g_p1", "g_p0", lay.form.k_block, "g_k1")
        if rows is None and not lay.form.straight:
            _pack_a(out, spec, lay.form)
        if rows is not None:
            _reaches(out, lay.form, rows)
        pack = partial(_pack_panel, out, spec, lay.form) if late else None
        multiply_strips(out, spec, lay.form, lay.tile_cols, rows, idle, pack)


def _reaches(out: CText, form: PackedForm, rows: Rows) -> None:
    """Looks up where the rows of each tile end with zeros."""
    out.add(f"lz_i64 g_ends[{form.row_block // form.rows}];")
    with out.loop("g_row0", "g_m0", "g_m1", form.rows):
        out.add(f"g_ends[(g_row0 - g_m0) / {form.rows}] = {rows.reach(form.rows)}")


def _pack_a(out: CText, spec: ContractSpec, form: PackedForm) -> None:
    if spec.tiles:
        pack_left(out, spec, form.k_block)
        return
    ragged = spec.any_size or bool(spec.m % form.rows)
    load = spec.load_a("g_b", "g_row", "g_k")
    side = Side("g_row", form.rows, spec.m, ragged, load, spec.a_unit == "k", spec.a_place)
    if spec.ends is not None:
        side = replace(side, end=(spec.k - 1, spec.ends[0]("g_b", "g_row", "g_k")))
    with contextlib.ExitStack() as loops:
        if spec.a_unit != "k":
            # Neighbouring panels take parts of the same lines, which lie apart from one step to the
            # next, often in few sets of the caches.
            loops.enter_context(out.loop("g_q0", "g_p0", "g_p1", _PIECE))
            out.clip("g_q1", "g_q0", _PIECE, "g_p1")
            side = replace(side, steps=("g_q0", "g_q1"))
        loops.enter_context(out.loop("g_row0", "g_m0", "g_m1", form.rows))
        out.add(f"{spec.panel} *restrict g_to = g_pa + (g_row0 - g_m0) * {form.k_block};")
        fill_panel(out, spec, "g_to", side)
