"""Contractions that do not pay for packing both operands: small, skinny, and vectors.

Two forms. The row form keeps a tile of sums in the level 1 cache and streams rows of B once,
several k at a time; B may first be copied into rows when its own are not adjacent. The dot form
is for a few columns: lanes are rows that are transposed in registers, or eight sums run side by
side, because one alone would wait for the latency of each multiply-add.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass

from lazyt.codegen.matmul.micro_kernels import (
    CText,
    clamp_threads,
    mac_section,
    open_kernel,
    store_tile,
)
from lazyt.codegen.matmul.panels import Dots, Side, dots_sections, fill_panel
from lazyt.codegen.matmul.spec import ALIKE, ContractSpec, ceil_div, round_up

DOT_WAYS = 8
# Steps of k whose operands are computed before they are multiplied.
_LINE = 128
# Sums that 32 registers of 64 bytes hold beside what is being transposed.
_SUMS = 20


@dataclass(frozen=True)
class RowForm:
    """Tile and unrolling of the row form.

    Attributes:
        rows, cols: the tile of sums.
        row_step, k_step: rows and k that one inner loop takes at once.
        pack: copy B into rows of adjacent elements first.
        parallel: run blocks on several threads.
    """

    rows: int
    cols: int
    row_step: int
    k_step: int
    pack: bool
    parallel: bool


@dataclass(frozen=True)
class DotForm:
    """``parallel``: run groups of rows on several threads."""

    parallel: bool


def emit_row_form(spec: ContractSpec, form: RowForm) -> tuple[str, int]:
    """The kernel's text, and the bytes of its workspace."""
    out = CText()
    width = _packed_width(spec) if form.pack else 0
    slab = round_up(spec.k * width * spec.item, 64)
    private = form.pack and spec.batch > 1 and form.parallel
    workers = min(spec.max_threads, spec.batch) if private else 1
    with open_kernel(out, spec):
        if form.parallel:
            clamp_threads(out, workers if private else spec.max_threads)
        team = "omp parallel for schedule(static) num_threads(g_threads)"
        if not form.pack:
            _for_blocks(out, spec, form, width, team.replace(" sch", " collapse(3) sch"), True)
        elif private or spec.batch > 1:
            if private:
                out.pragma(team)
            with out.loop("g_b", 0, spec.batch):
                where = f"ws + lz_worker() * {slab}" if private else "ws"
                _pack_rows(out, spec, width, where)
                _for_blocks(out, spec, form, width, "", False)
        else:
            out.add("const lz_i64 g_b = 0;")
            _pack_rows(out, spec, width, "ws")
            _for_blocks(out, spec, form, width, team.replace(" sch", " collapse(2) sch"), False)
    return out.text(), slab * workers


def _packed_width(spec: ContractSpec) -> int:
    return round_up(spec.n, spec.lanes)


def _pack_rows(out: CText, spec: ContractSpec, width: int, where: str) -> None:
    """Copy B[b] into rows [k][width], the columns past n filled with zeros."""
    out.add(f"{spec.ctype} *restrict g_rows = ({spec.ctype} *)({where});")
    with out.loop("g_col", 0, spec.n), out.loop("g_k", 0, spec.k):
        out.assign(f"g_rows[g_k * {width} + g_col]", spec.load_b("g_b", "g_k", "g_col"))
    if width > spec.n:
        with out.loop("g_k", 0, spec.k), out.loop("g_col", spec.n, width):
            out.add(f"g_rows[g_k * {width} + g_col] = 0;")


def _for_blocks(
    out: CText, spec: ContractSpec, form: RowForm, width: int, team: str, batches: bool
) -> None:
    """All tiles, of every batch when ``batches``, else of batch ``g_b``."""
    cols = width or spec.n
    if form.parallel and team:
        out.pragma(team)
    heads = [("g_b", spec.batch, 1)] if batches else []
    heads += [("g_row0", spec.m, form.rows), ("g_col0", cols, form.cols)]
    with ExitStack() as opened:
        for var, stop, step in heads:
            opened.enter_context(out.loop(var, 0, stop, step))
        out.clip("g_row1", "g_row0", form.rows, spec.m)
        out.clip("g_col1", "g_col0", form.cols, cols)
        _tile(out, spec, form, width)


def _tile(out: CText, spec: ContractSpec, form: RowForm, width: int) -> None:
    """Sum and store one tile."""
    # Said outright: gcc 12 may count on an alignment that it does not give the array.
    out.add(f"_Alignas(64) {spec.ctype} g_acc[{form.rows * form.cols}];")
    with out.loop("g_i", 0, f"(g_row1 - g_row0) * {form.cols}"):
        out.add("g_acc[g_i] = 0;")
    main = spec.k // form.k_step * form.k_step
    if main:
        with out.loop("g_k", 0, main, form.k_step):
            _row_groups(out, spec, form, width, form.k_step)
    if main < spec.k:
        with out.loop("g_k", main, spec.k):
            _row_groups(out, spec, form, width, 1)
    end = "g_col1"
    if width > spec.n:
        out.clip("g_end", "g_col0", form.cols, spec.n)
        end = "g_end"
    place = f"g_acc[(g_row - g_row0) * {form.cols} + (g_col - g_col0)]"
    store_tile(out, spec, ("g_row0", "g_row1"), ("g_col0", end), place, form.rows)


def _row_groups(out: CText, spec: ContractSpec, form: RowForm, width: int, k_step: int) -> None:
    """Add ``k_step`` products to every sum of the tile."""
    step = form.row_step
    out.add("lz_i64 g_row = g_row0;")
    if step > 1:
        with out.block(f"for (; g_row + {step - 1} < g_row1; g_row += {step})"):
            _update(out, spec, form, width, step, k_step)
    if step == 1 or form.rows % step or spec.m % form.rows % step:
        with out.block("for (; g_row < g_row1; g_row++)"):
            _update(out, spec, form, width, 1, k_step)


def _update(
    out: CText, spec: ContractSpec, form: RowForm, width: int, rows: int, k_step: int
) -> None:
    kind, mac = spec.ctype, f"lz_mac_{spec.acc}"
    for r in range(rows):
        for u in range(k_step):
            out.add(f"{kind} g_a{r}_{u};")
            out.assign(f"g_a{r}_{u}", spec.load_a("g_b", f"(g_row + {r})", f"(g_k + {u})"))
    out.pragma("omp simd")
    with out.loop("g_col", "g_col0", "g_col1"):
        for u in range(k_step):
            out.add(f"{kind} g_b{u};")
            if width:
                out.add(f"g_b{u} = g_rows[(g_k + {u}) * {width} + g_col];")
            else:
                out.assign(f"g_b{u}", spec.load_b("g_b", f"(g_k + {u})", "g_col"))
        for r in range(rows):
            place = f"g_acc[(g_row + {r} - g_row0) * {form.cols} + (g_col - g_col0)]"
            out.add(f"{kind} g_c{r} = {place};")
            out.add(*(f"g_c{r} = {mac}(g_a{r}_{u}, g_b{u}, g_c{r});" for u in range(k_step)))
            out.add(f"{place} = g_c{r};")


def emit_dot_form(spec: ContractSpec, form: DotForm) -> tuple[str, int]:
    """The kernel's text, and the bytes of its workspace."""
    out = CText()
    turned = turns(spec)
    ways = _dots_of(spec).groups * spec.lanes if turned else DOT_WAYS
    full = spec.m if turned else spec.m // ways * ways
    panel = turned and not _is_along(spec)
    with open_kernel(out, spec):
        if form.parallel:
            clamp_threads(out, spec.max_threads)
        if panel:
            _pack_columns(out, spec)
        team = "omp parallel for collapse(2) schedule(static) num_threads(g_threads)"
        for start, stop, step in ((0, full, ways), (full, spec.m, spec.m - full)):
            if start == stop:
                continue
            if form.parallel and (step == ways or spec.batch > 1):
                out.pragma(team)
            with out.loop("g_b", 0, spec.batch), out.loop("g_row", start, stop, step):
                if turned:
                    _transposed_dots(out, spec)
                else:
                    _dots(out, spec, step)
    return out.text(), spec.batch * spec.k * spec.n * spec.item if panel else 0


def turns(spec: ContractSpec) -> bool:
    """Whether the dot form turns rows in registers, so that lanes are rows."""
    if spec.a_unit != "k" or not 2 <= spec.lanes <= 16:
        return False
    return spec.any_size or (spec.k >= spec.lanes and spec.m >= max(spec.lanes // 2, 4))


def _dots_of(spec: ContractSpec) -> Dots:
    """How the sums are taken: 16 rows side by side, as each sum waits for its last step, and so few
    sums that registers hold them."""
    most = _SUMS * spec.vector_bytes // 64
    rows = 16 if spec.any_size else min(16, round_up(spec.m, spec.lanes))
    groups = max(1, min(rows // spec.lanes, most // spec.n))
    direct = _is_direct(spec) and not spec.any_size
    pitch = spec.a_plain.side * spec.item if spec.a_plain and direct else 0
    apart = pitch > 0 and pitch % (2 * ALIKE) == 0 and groups > 1
    return Dots(spec.acc, spec.n, groups, spec.vector_bytes, apart, not _is_direct(spec))


def _is_direct(spec: ContractSpec) -> bool:
    """Whether rows are read as they lie in memory."""
    return spec.a_plain is not None and spec.a_plain.k == 1


def _is_along(spec: ContractSpec) -> bool:
    """Whether columns are a panel as they lie."""
    x = spec.b_plain
    if x is None:
        return False
    return x.k == spec.n and (spec.n == 1 or x.side == 1)


def dot_sections(spec: ContractSpec) -> tuple[tuple[str, str], ...]:
    """The helpers of the dot form."""
    if turns(spec):
        return dots_sections(_dots_of(spec))
    return (mac_section(spec.acc),)


def _pack_columns(out: CText, spec: ContractSpec) -> None:
    """Copy the columns of every batch into a panel [k][columns]."""
    out.add(f"{spec.ctype} *restrict g_x = ({spec.ctype} *)ws;")
    load = spec.load_b("g_b", "g_k", "g_col")
    turned = spec.b_unit == "k" and spec.n > 1
    side = Side("g_col", spec.n, spec.n, False, load, turned, spec.b_place)
    with out.loop("g_b", 0, spec.batch):
        out.add(
            f"const lz_i64 g_col0 = 0, g_p0 = 0, g_p1 = {spec.k};",
            f"{spec.ctype} *restrict g_to = g_x + g_b * {spec.k * spec.n};",
        )
        fill_panel(out, spec, "g_to", side)


def _transposed_dots(out: CText, spec: ContractSpec) -> None:
    """The sums of some vectors of rows from ``g_row``, whose k are adjacent, and of all columns.

    Rows that are no plain memory are computed a few steps at a time first.
    """
    kind, a, x, dots = spec.ctype, spec.a_plain, spec.b_plain, _dots_of(spec)
    rows, direct = dots.groups * dots.lanes, _is_direct(spec)
    out.add(f"_Alignas(64) {kind} g_sums[{rows * spec.n}];")
    out.clip("g_end", "g_row", rows, spec.m)
    if not direct:
        out.add(f"_Alignas(64) {kind} g_lines[{rows * _LINE}];")
    step = spec.k if direct and not spec.any_size else _LINE
    with out.loop("g_p0", 0, spec.k, step):
        out.clip("g_p1", "g_p0", step, spec.k)
        if not direct:
            with out.loop("g_i", "g_row", "g_end"):
                out.pragma("omp simd")
                with out.loop("g_k", "g_p0", "g_p1"):
                    place = f"g_lines[(g_i - g_row) * {_LINE} + (g_k - g_p0)]"
                    out.assign(place, spec.load_a("g_b", "g_i", "g_k"))
        lines = (a.at("g_b", "g_row", "g_p0"), a.side) if direct and a else ("g_lines", _LINE)
        column = f"g_x + (g_b * {spec.k} + g_p0) * {spec.n}"
        if x is not None and _is_along(spec):
            column = x.at("g_b", "0", "g_p0")
        out.add(
            f"{dots.name}(g_p1 - g_p0, {lines[0]}, {lines[1]}, g_end - g_row,",
            f"    {column}, g_sums, g_p0 == 0);",
        )
    with out.loop("g_i", "g_row", "g_end"), out.loop("g_col", 0, spec.n):
        out.add(f"const {kind} g_value = g_sums[g_col * {rows} + (g_i - g_row)];")
        out.add(*spec.epilogue("g_b", "g_i", "g_col", "g_value"))


def _dots(out: CText, spec: ContractSpec, ways: int) -> None:
    """The sums of ``ways`` rows from ``g_row``, column by column."""
    kind = spec.ctype
    with out.loop("g_col", 0, spec.n):
        out.add(*(f"{kind} g_c{r} = 0;" for r in range(ways)))
        if spec.k:
            with out.loop("g_k", 0, spec.k):
                out.add(f"{kind} g_x;")
                out.assign("g_x", spec.load_b("g_b", "g_k", "g_col"))
                for r in range(ways):
                    out.add(f"{kind} g_a{r};")
                    out.assign(f"g_a{r}", spec.load_a("g_b", f"(g_row + {r})", "g_k"))
                    out.add(f"g_c{r} = lz_mac_{spec.acc}(g_a{r}, g_x, g_c{r});")
        for r in range(ways):
            with out.block():
                out.add(*spec.epilogue("g_b", f"(g_row + {r})", "g_col", f"g_c{r}"))


def choose_row_form(spec: ContractSpec, pack: bool, parallel: bool, tiny: bool) -> RowForm:
    """Tile sizes of the row form: the sums take half of the level 1 cache at most."""
    width = _packed_width(spec) if pack else spec.n
    budget = max(spec.cache[0] // 2 // spec.item, 64)
    rows = max(1, min(spec.m, 16))
    cols = max(spec.lanes, budget // rows // spec.lanes * spec.lanes)
    if parallel and ceil_div(spec.m, rows) * spec.batch < spec.threads:
        # Few blocks along m: cut n, so that every thread finds work, and no more often: memory is
        # read faster the longer the pieces of B's rows are.
        cols = min(cols, max(4 * spec.lanes, round_up(ceil_div(width, spec.threads), spec.lanes)))
    cols = max(1, min(cols, width))
    step = 2 if spec.m > 1 and not tiny else 1
    k_step = 1 if tiny or spec.k < 4 else 4
    return RowForm(rows, cols, step, k_step, pack, parallel)
