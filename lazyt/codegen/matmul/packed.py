"""The packed form: panels in cache, a tile of sums in registers.

B is copied once into panels [k][columns of a tile] that all threads read; each task copies its
block of A into panels [k][rows of a tile] and multiplies panel by panel, the way of Goto and van de
Geijn ("Anatomy of High-Performance Matrix Multiplication", 2008). Panels are padded with zeros, so
the micro-kernel knows no edges; only the epilogue does. Sums that are not finished when a block of
k ends wait in a scratch tile and continue exactly where they stopped.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from lazyt.codegen.matmul.blocks import PackedForm
from lazyt.codegen.matmul.matrix_registers import SQUARE, mat_name, pack_left
from lazyt.codegen.matmul.micro_kernels import (
    CText,
    clamp_threads,
    lines_name,
    open_kernel,
    store_tile,
    tile_body,
    tile_name,
    vector_section,
)
from lazyt.codegen.matmul.panels import Side, fill_panel
from lazyt.codegen.matmul.spec import ALIKE, ITEM_BYTES, ContractSpec, ceil_div, round_up

# Register tiles over rows that lie in a band's scratch: nothing is copied into panels.
#
# What the first contraction of a band left is the second one's left operand, in cache already. Its
# rows are read where they lie, a fixed pitch apart. Where a block of k ends with zeros in all rows
# of a tile, as a mask leaves them, these are left out if that gives the same bits: the right
# operand is finite, and no sum is -0, which adding +0 would change.


#: Steps of a row that are looked at together.
_SCAN = 16


@dataclass(frozen=True)
class Rows:
    """The left operand of contraction ``number`` of a band: ``pitch`` elements apart in the array
    ``name``. ``tile`` is the micro-kernel, of sums of type ``acc``."""

    name: str
    pitch: int
    number: int
    acc: str
    tile: str

    def reach(self, rows: int) -> str:
        """The steps of a block of k after which all rows of the tile at hand are zero, if that
        matters; the same for every tile of columns."""
        left = f"{self.name} + (g_row0 - g_r0) * {self.pitch} + g_p0, {self.pitch}"
        found = f"lz_reach_{self.acc}(g_p1 - g_p0, {rows}, {left})"
        return f"g_fine{self.number} ? {found} : g_p1 - g_p0;"

    def multiply(self, end: str, right: str, tile: str) -> list[str]:
        """Statements for the register tile at hand; ``end`` is its ``reach``, ``tile`` are the last
        arguments."""
        left = f"{self.name} + (g_row0 - g_r0) * {self.pitch} + g_p0, {self.pitch}"
        call = f"{self.tile}(g_p1 - g_p0, {left},"
        return [call, f"    {right},", f"    {tile}, {end});"]

    def test_panels(self, count: int) -> str:
        """The statement that finds out whether all of the packed right operand is finite."""
        return f"const int g_fine{self.number} = lz_finite_{self.acc}({count}, g_pb{self.number});"


def rows_tile(acc: str, rows: int, vectors: int, vector_bytes: int, pitch: int) -> str:
    """Name of the micro-kernel."""
    return tile_name(acc, rows, vectors, vector_bytes).replace("gemm", "rows") + f"p{pitch}"


def rows_sections(
    acc: str, rows: int, vectors: int, vector_bytes: int, pitch: int
) -> tuple[tuple[str, str], ...]:
    """Sections of ``name(kc, a, lda, b, c, ldc, first, end)``: as ``tile_sections``, except ``a``,
    whose rows are ``lda`` apart, which is ``pitch``, and zero from step ``end`` on."""
    name = rows_tile(acc, rows, vectors, vector_bytes, pitch)
    columns = vectors * vector_bytes // ITEM_BYTES[acc]
    out = [
        f"static __attribute__((noinline)) void {name}_all(lz_i64 kc,",
        f"    const lz_{acc} *restrict a, const lz_{acc} *restrict b, lz_{acc} *restrict c,",
        "    lz_i64 ldc, int first) {",
        *tile_body(
            acc,
            rows,
            vectors,
            vector_bytes,
            lambda r: f"a[{r * pitch}]",
            ("a++;", f"b += {columns};"),
        ),
        "}",
    ]
    out += [
        f"static void {name}(lz_i64 kc, const lz_{acc} *a, lz_i64 lda, const lz_{acc} *b,",
        f"    lz_{acc} *c, lz_i64 ldc, int first, lz_i64 end) {{",
        f"    {name}_all(end, a, b, c, ldc, first);",
        f"    if (end < kc && lz_below_{acc}({rows}, {columns}, c, ldc))",
        f"        {name}_all(kc - end, a + end, b + end * {columns}, c, ldc, 0);",
        "}",
    ]
    return (vector_section(acc, vector_bytes), *_tests(acc), (name, "\n".join(out) + "\n"))


def _tests(acc: str) -> tuple[tuple[str, str], ...]:
    """``lz_finite``: no infinity and no NaN. ``lz_reach``: steps after which all rows are zero.
    ``lz_below``: whether a sum is -0."""
    size = 8 * ITEM_BYTES[acc]
    kind, bits = f"lz_u{size}", f"lz_bits_of_{acc}"
    most = "0x7f800000u" if size == 32 else "0x7ff0000000000000ull"
    finite = f"""typedef {kind} {bits} __attribute__((may_alias));
static __attribute__((noinline)) int lz_finite_{acc}(lz_i64 n, const lz_{acc} *a) {{
    const {bits} *x = (const {bits} *)a;
    {kind} found = 0;
    for (lz_i64 i = 0; i < n; i++) found |= ({kind})((x[i] & {most}) == {most});
    return !found;
}}
"""
    reach = f"""static __attribute__((noinline)) lz_i64 lz_reach_{acc}(lz_i64 kc, lz_i64 rows,
    const lz_{acc} *a, lz_i64 lda) {{
    const {bits} *x = (const {bits} *)a;
    lz_i64 end = 0;
    for (lz_i64 r = rows - 1; r >= 0; r--) {{
        lz_i64 stop = kc;
        while (stop > end) {{
            {kind} found = 0;
            if (stop >= end + {_SCAN}) {{
                const {bits} *y = x + r * lda + stop - {_SCAN};
                for (int k = 0; k < {_SCAN}; k++) found |= y[k];
                if (found << 1) end = stop;
                else stop -= {_SCAN};
            }} else {{
                stop--;
                found = x[r * lda + stop];
                if (found << 1) end = ++stop;
            }}
        }}
    }}
    return end;
}}
"""
    below = f"""static __attribute__((noinline)) int lz_below_{acc}(lz_i64 rows, lz_i64 columns,
    const lz_{acc} *c, lz_i64 ldc) {{
    const {bits} *y = (const {bits} *)c;
    {kind} found = 0;
    for (lz_i64 r = 0; r < rows; r++)
        for (lz_i64 i = 0; i < columns; i++)
            found |= ({kind})(y[r * ldc + i] == ({kind})1 << {size - 1});
    return found != 0;
}}
"""
    names = (f"lz_finite_{acc}", f"lz_reach_{acc}", f"lz_below_{acc}")
    return tuple(zip(names, (finite, reach, below), strict=True))


# A packed block of A times every panel of B: calls of register tiles, and what follows them.


def in_one_block(spec: ContractSpec, form: PackedForm) -> bool:
    """Whether sums are finished in one go, and only those of a strip wait to be stored."""
    return spec.k <= form.k_block and not spec.any_size


def _next_panel(form: PackedForm, right: str, width: int) -> str:
    """Which part of B's next panel a tile asks for, and how many elements of it at each step.

    Tiles of one block share it. Without that the first tile of a panel waits for the last-level
    cache or for memory: 6 % of a large product.
    """
    pace = ceil_div(width, form.row_block // form.rows)
    part = f"(g_row0 - g_m0) / {form.rows} * {form.k_block * pace}"
    return f",\n        {right} + {form.k_span * width} + {part}, {pace}"


def _right_of(spec: ContractSpec, form: PackedForm, width: int) -> str:
    """The arguments of a micro-kernel that say where B is, from step ``g_p0`` on."""
    if form.apart and spec.b_plain is not None:
        return f"{spec.b_plain.at('g_b', 'g_col0', 'g_p0')}, {spec.b_plain.k}"
    return f"g_pb + (g_col0 - g_n0) * {form.k_span} + (g_p0 - g_k0) * {width}"


def _multiply(
    out: CText,
    spec: ContractSpec,
    form: PackedForm,
    tile: str,
    steps: tuple[str, str] = ("g_p0", "g_p1"),
    right: str = "",
    vectors: int = 0,
) -> None:
    """Call the micro-kernel of a register tile for steps of k, of ``right`` or of B as it is."""
    vectors = vectors or form.vectors
    width = vectors * spec.lanes
    begin, end = steps
    tile_of = (spec.acc, form.rows, vectors, spec.vector_bytes)
    micro = tile_name(*tile_of, form.ahead, form.apart)
    if spec.tiles:
        micro = mat_name(spec.acc, form.rows, vectors, form.ahead)
    left = f"g_pa + (g_row0 - g_m0) * {form.k_block}"
    if begin != "g_p0":
        left += f" + ({begin} - g_p0) * {form.rows}"
    if spec.tiles:
        left += f", {SQUARE * form.k_block}"
    if form.straight and spec.a_plain is not None:
        micro = lines_name(*tile_of, form.apart)
        left = f"{spec.a_plain.at('g_b', 'g_row0', begin)}, {spec.a_plain.side}, g_row1 - g_row0"
    own = _right_of(spec, form, width)
    tile += f", {begin} == 0"
    if form.ahead:
        tile += _next_panel(form, own, width)
    out.add(f"{micro}({end} - {begin}, {left},", f"    {right or own},", f"    {tile});")


def _last_row(out: CText, spec: ContractSpec, width: int) -> None:
    """The end of B's last row, behind which nothing may be read."""
    assert spec.b_plain is not None
    out.add(f"_Alignas(64) {spec.panel} g_last[{width}];")
    with out.block(f"if (g_p1 == {spec.k} && g_col0 + {width} > {spec.n})"):
        place = spec.b_plain.at("g_b", "0", str(spec.k - 1))
        out.add(f"const {spec.panel} *const g_row_end = {place};")
        with out.loop("g_i", 0, width):
            out.add(f"g_last[g_i] = g_col0 + g_i < {spec.n} ? g_row_end[g_col0 + g_i] : 0;")


def _multiply_ragged(out: CText, spec: ContractSpec, form: PackedForm, tile: str) -> None:
    """The same where the last columns are no whole register tile: in all rows of B but the last one
    something follows them, which nobody stores. One vector is enough for few of them."""
    width = form.vectors * spec.lanes
    with out.block(f"if (g_col0 + {width} <= {spec.n})"):
        _multiply(out, spec, form, tile)
    with out.block("else"):
        vectors, last = ragged_vectors(spec, form), spec.k - 1
        out.add(f"const lz_i64 g_end = g_p1 < {last} ? g_p1 : {last};")
        _multiply(out, spec, form, tile, ("g_p0", "g_end"), vectors=vectors)
        with out.block(f"if (g_p1 == {spec.k})"):
            out.add(f"const lz_i64 g_more = {last};")
            own = f"g_last, {width}"
            _multiply(out, spec, form, tile, ("g_more", "g_p1"), own, vectors)


def ragged_vectors(spec: ContractSpec, form: PackedForm) -> int:
    """Vectors of the register tile of the last columns, where it is another one; else 0."""
    rest = spec.n % (form.vectors * spec.lanes)
    vectors = ceil_div(rest, spec.lanes)
    return vectors if form.apart and 0 < vectors < form.vectors else 0


def stores_directly(spec: ContractSpec, form: PackedForm) -> bool:
    """Whether whole register tiles are stored where their sums belong, with no way through scratch
    memory: where that is all that happens to them. Rows of a tile, to which they go in turn, may
    share a set of the first-level cache: stores wait elsewhere."""
    sums = spec.c_plain
    return sums is not None and sums.k == 1 and in_one_block(spec, form)


def _multiply_and_store(out: CText, spec: ContractSpec, form: PackedForm, pitch: int) -> None:
    """A whole register tile is stored where it belongs, another one by the epilogue."""
    width, sums = form.vectors * spec.lanes, spec.c_plain
    assert sums is not None
    even = spec.m % form.rows == 0 and spec.n % width == 0
    whole = f"if (g_row0 + {form.rows} <= g_row1 && g_col0 + {width} <= g_s1)"
    with out.block("" if even else whole):
        _multiply(out, spec, form, f"{sums.at('g_b', 'g_row0', 'g_col0')}, {sums.side}")
    if even:
        return
    with out.block("else"):
        out.clip("g_col1", "g_col0", width, "g_s1")
        if form.apart and spec.n % width:
            _multiply_ragged(out, spec, form, f"g_tile, {pitch}")
        else:
            _multiply(out, spec, form, f"g_tile, {pitch}")
        place = f"g_tile[(g_row - g_row0) * {pitch} + (g_col - g_col0)]"
        store_tile(out, spec, ("g_row0", "g_row1"), ("g_col0", "g_col1"), place, form.rows)


def _multiply_for_later(
    out: CText, spec: ContractSpec, form: PackedForm, tile: str, rows: Rows | None, idle: str
) -> None:
    """A register tile's sums wait in scratch memory."""
    if idle:
        out.add(f"if (!({idle}))")
    if rows is not None:
        end = f"g_ends[(g_row0 - g_m0) / {form.rows}]"
        right = _right_of(spec, form, form.vectors * spec.lanes)
        out.add(*rows.multiply(end, right, f"{tile}, g_p0 == 0"))
    elif form.apart and spec.n % (form.vectors * spec.lanes):
        _multiply_ragged(out, spec, form, tile)
    else:
        _multiply(out, spec, form, tile)


def multiply_strips(
    out: CText,
    spec: ContractSpec,
    form: PackedForm,
    pitch: int,
    rows: Rows | None,
    idle: str,
    pack: Callable[[], None] | None = None,
) -> None:
    """Multiply the packed block of A with every panel of the task, and store finished strips; rows
    of the scratch tile are ``pitch`` apart. The first block of rows has the panel at ``g_col0``
    packed, if there is something to ``pack`` it."""
    width = form.vectors * spec.lanes
    # Strips follow one another: rows of a tile are then next to each other, not a page apart.
    strip = "g_tile"
    if not in_one_block(spec, form):
        strip += f" + (g_s0 - g_c0) / {form.strip} * {form.row_block * pitch}"
    direct = stores_directly(spec, form)
    with out.loop("g_s0", "g_c0", "g_c1", form.strip):
        out.clip("g_s1", "g_s0", form.strip, "g_c1")
        with out.loop("g_col0", "g_s0", "g_s1", width):
            if form.apart and spec.n % width:
                _last_row(out, spec, width)
            if pack is not None:
                with out.block("if (g_m0 == 0)"):
                    pack()
            with out.loop("g_row0", "g_m0", "g_m1", form.rows):
                if form.straight or direct:
                    out.clip("g_row1", "g_row0", form.rows, "g_m1")
                if direct:
                    _multiply_and_store(out, spec, form, pitch)
                else:
                    tile = f"{strip} + (g_row0 - g_m0) * {pitch} + (g_col0 - g_s0), {pitch}"
                    _multiply_for_later(out, spec, form, tile, rows, idle)
        if not direct:
            with out.block(f"if (g_p1 == {spec.k})"):
                place = f"({strip})[(g_row - g_m0) * {pitch} + (g_col - g_s0)]"
                rows_of, columns = ("g_m0", "g_m1"), ("g_s0", "g_s1")
                store_tile(out, spec, rows_of, columns, place, form.row_block)


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
