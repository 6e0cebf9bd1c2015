"""A packed block of A times every panel of B: calls of register tiles, and what follows them."""

from __future__ import annotations

from collections.abc import Callable

from lazyt.codegen.contract_blocks import PackedForm
from lazyt.codegen.contract_micro import lines_name, tile_name
from lazyt.codegen.contract_rows import Rows
from lazyt.codegen.contract_spec import ContractSpec, ceil_div
from lazyt.codegen.contract_text import CText, store_tile
from lazyt.codegen.contract_tiles import SQUARE, mat_name


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
