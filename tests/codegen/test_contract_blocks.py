"""Block sizes of contractions: what follows from caches, extents and the number of threads."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from lazyt.codegen.matmul.contraction import (
    ContractSpec,
    Form,
    PackedForm,
    choose_packed_form,
    emit_contract,
)
from lazyt.codegen.matmul.forms import form_fits
from tests.codegen.test_contract import Case, check, compile_all, make_spec


def test_tiles_ask_for_the_next_panel_where_the_second_level_does_not_hold_all() -> None:
    for n, ahead in ((324, False), (2048, True)):
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
        spec = replace(make_spec(Case(1, m, n, 512, b="nk")), cache=caches, threads=2)
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


def test_small_operands_are_read_where_they_lie(tmp_path: Path) -> None:
    """No panels, and the bits of a plain loop; each operand by itself, too, and sums in parts."""
    case = Case(3, 23, 96, 59, plain=True)
    base = make_spec(case)
    chosen = choose_packed_form(base, True)
    assert chosen.apart and chosen.straight
    forms = [replace(chosen, apart=a, straight=s) for a in (True, False) for s in (True, False)]
    forms.append(PackedForm(4, 2, 16, 8, 32, 32, 32, 48, False, True, apart=True))
    work: list[tuple[ContractSpec, Form | None, bool]] = []
    for number, form in enumerate(forms):
        width = form.vectors * base.lanes
        form = replace(form, col_span=max(form.col_span // width * width, width))
        spec = replace(base, name=f"k{number}")
        text = emit_contract(spec, form).text
        assert ("g_to = g_pb" in text) is not form.apart
        assert ("g_to = g_pa" in text) is not form.straight
        work.append((spec, form, False))
    library = compile_all(tmp_path, work)
    for spec, given, _ in work:
        check(library, case, spec, emit_contract(spec, given).workspace_bytes)


def test_columns_beside_whole_tiles_are_read_where_they_lie(tmp_path: Path) -> None:
    """What follows them in the next row is multiplied and stored nowhere; nothing follows the last
    row, whose end is copied. One vector is enough for few columns."""
    cases = [
        Case(3, 23, 90, 59), Case(1, 61, 71, 67), Case(2, 9, 17, 300), Case(1, 40, 33, 513),
        Case(1, 30, 31, 65, "km"), Case(1, 7, 90, 2), Case(2, 33, 47, 64, vector_bytes=64),
    ]  # fmt: skip
    work: list[tuple[ContractSpec, Form | None, bool]] = []
    for case in cases:
        base = make_spec(case)
        chosen = choose_packed_form(base, True)
        width = chosen.vectors * base.lanes
        for k_block in (4, 16, base.k):
            for straight in {False, chosen.straight}:
                spec = replace(base, name=f"k{len(work)}")
                form = replace(
                    chosen, apart=True, copies=False, ahead=False, straight=straight,
                    k_block=k_block, k_span=base.k, col_span=-(-base.n // width) * width,
                )  # fmt: skip
                assert form_fits(spec, replace(form, k_block=min(k_block, base.k)))
                work.append((spec, form, False))
    narrow = dict(emit_contract(work[0][0], work[0][1]).sections)
    assert any(name.endswith("x16v32apart") for name in narrow)  # 90 is 5 * 16 + 10
    few = dict(emit_contract(make_spec(Case(1, 33, 71, 67))).sections)
    assert any(name.endswith("x8v32apart") for name in few)  # 71 is 4 * 16 + 7
    library = compile_all(tmp_path, work)
    for spec, given, _ in work:
        case = Case(spec.batch, spec.m, spec.n, spec.k, "km" if spec.a_unit == "m" else "mk")
        check(library, case, spec, emit_contract(spec, given).workspace_bytes)


def test_columns_are_packed_where_rows_are_too_short_or_many() -> None:
    for case in (Case(1, 64, 7, 300), Case(1, 64, 40, 1), Case(3, 1024, 1024, 1024)):
        spec = make_spec(case)
        form = choose_packed_form(spec, True)
        assert not form.apart
    assert not form_fits(
        make_spec(Case(1, 64, 40, 1)),
        PackedForm(6, 2, 1, 6, 48, 48, 1, 48, False, True, apart=True),
    )


def test_few_rows_read_what_is_in_no_near_cache_in_short_pieces() -> None:
    """Rows of B that share sets of the second level are taken fewer at a time."""
    caches = (1 << 15, 1 << 20, 1 << 26)
    for n, steps in ((1000, 256), (2048, 64)):
        spec = replace(make_spec(Case(1, 64, n, 4096)), cache=caches, threads=2)
        form = choose_packed_form(spec, True)
        assert form.apart and form.straight and form.rows <= 8
        assert steps - 8 <= form.k_block <= steps
    many = choose_packed_form(replace(make_spec(Case(1, 64, 16384, 512)), cache=caches), True)
    assert not many.apart  # their lines would push each other out
    rows = choose_packed_form(replace(make_spec(Case(1, 200, 2048, 4096)), cache=caches), True)
    assert not rows.apart  # sums would be fetched too often
    for m, n in ((64, 512), (200, 72)):  # columns for each thread, or rows where that is more even
        spec = replace(make_spec(Case(1, m, n, 4096)), cache=caches, threads=2)
        form = choose_packed_form(spec, True)
        across = -(-n // form.col_block)
        assert (across, -(-m // form.row_block)) == ((2, 1) if m == 64 else (1, 2))
