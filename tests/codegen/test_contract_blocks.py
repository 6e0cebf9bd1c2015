"""Block sizes of contractions: what follows from caches, extents and the number of threads."""

from __future__ import annotations

from dataclasses import replace

from lazyt.codegen.contract import choose_packed_form, emit_contract
from tests.codegen.test_contract import Case, make_spec


def test_tiles_ask_for_the_next_panel_where_the_second_level_does_not_hold_all() -> None:
    for n, ahead in ((256, False), (2048, True)):
        spec = replace(make_spec(Case(1, n, n, n)), cache=(1 << 15, 1 << 20, 1 << 25))
        form = choose_packed_form(spec, True)
        assert form.ahead is ahead
        text = emit_contract(spec, form)
        tiles = dict(text.sections)[f"lz_gemm_f32_6x16v{spec.vector_bytes}" + "ahead" * ahead]
        assert ("__builtin_prefetch(next" in tiles) is ahead
        # The tiles of a block share out the panel's 16 elements of each step among them.
        pace = -(-16 // (form.row_block // form.rows))
        part = f"(g_row0 - g_m0) / 6 * {form.k_block * pace}, {pace})"
        assert not ahead or part in text.text


def test_two_threads_share_no_panels() -> None:
    """Each packs B for itself, all of it, or where B is wide its own columns, side by side."""
    caches = (1 << 15, 1 << 20, 1 << 26)
    for m, n, copies, private in ((512, 512, True, False), (128, 1024, False, True)):
        spec = replace(make_spec(Case(1, m, n, 512)), cache=caches, threads=2)
        form = choose_packed_form(spec, True)
        assert (form.copies, form.private) == (copies, private)
        assert not private or 2 * form.col_span == n
        text = emit_contract(spec, form).text
        assert text.count("omp for") == 1 and "g_pb = (lz_f32 *)(g_mine" in text
        many = choose_packed_form(replace(spec, threads=8), True)
        assert not many.copies and not many.private


def test_rows_are_shared_out_evenly() -> None:
    for m, threads in ((1024, 2), (1000, 2), (2048, 3), (512, 4), (4000, 8)):
        spec = replace(make_spec(Case(1, m, 512, 512)), cache=(1 << 15, 1 << 20, 1 << 26))
        form = choose_packed_form(replace(spec, threads=threads), True)
        tasks = [min(form.row_block, m - row) for row in range(0, m, form.row_block)]
        loads = [0] * threads
        for rows in tasks:
            loads[loads.index(min(loads))] += rows
        assert max(loads) <= 1.1 * m / threads + form.rows
