"""Contraction kernels against a plain loop in C, bit for bit, in every form."""

from __future__ import annotations

import ctypes
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from pycparser import CParser

from lazyt.codegen.matmul.contraction import (
    ContractSpec,
    DotForm,
    Form,
    PackedForm,
    RowForm,
    choose_form,
    choose_packed_form,
    choose_row_form,
    emit_contract,
)
from lazyt.codegen.matmul.micro_kernels import mac_section
from lazyt.codegen.matmul.spec import Place
from lazyt.errors import InternalError
from tests import compilers

CC = compilers.words()

# Vectors wider than the machine's change the ABI, which no function here exposes.
FLAGS = [
    "-O3",
    "-march=native",
    "-fopenmp",
    "-ffp-contract=off",
    "-fPIC",
    "-shared",
    "-Wall",
    "-Wno-unused-variable",
    "-Wno-psabi",
]
TYPES = """typedef float lz_f32; typedef double lz_f64;
typedef signed char lz_i8; typedef short lz_i16; typedef int lz_i32; typedef long long lz_i64;
typedef unsigned char lz_u8; typedef unsigned short lz_u16; typedef unsigned int lz_u32;
typedef unsigned long long lz_u64;
"""
NUMPY: dict[str, type[np.generic]] = {
    "f32": np.float32, "f64": np.float64, "i8": np.int8, "u8": np.uint8, "i16": np.int16,
    "i32": np.int32, "i64": np.int64,
}  # fmt: skip
CACHE = (32 << 10, 512 << 10, 32 << 20)
GUARD = 64


@dataclass(frozen=True)
class Case:
    """Extents and orders of memory: ``mk``/``km`` for A, ``kn``/``nk`` for B."""

    batch: int
    m: int
    n: int
    k: int
    a: str = "mk"
    b: str = "kn"
    acc: str = "f32"
    vector_bytes: int = 32
    plain: bool = True
    registers: int = 16


def make_spec(
    case: Case, name: str = "kernel", load: str = "{}", store: str = "{}"
) -> ContractSpec:
    """A contraction of dense operands; ``load`` wraps elements of A, ``store`` the results."""
    c = case

    def load_a(b: str, m: str, k: str) -> tuple[list[str], str]:
        at = f"({m}) * {c.k} + ({k})" if c.a == "mk" else f"({k}) * {c.m} + ({m})"
        statement = f"const lz_{c.acc} t = a[{b} * {c.m * c.k} + {at}];"
        return [statement], load.format("t")

    def load_b(b: str, k: str, n: str) -> tuple[list[str], str]:
        at = f"({k}) * {c.n} + ({n})" if c.b == "kn" else f"({n}) * {c.k} + ({k})"
        return [], f"b[{b} * {c.k * c.n} + {at}]"

    def epilogue(b: str, m: str, n: str, value: str) -> list[str]:
        return [f"out[({b} * {c.m} + {m}) * {c.n} + {n}] = {store.format(value)};"]

    row, step = (c.k, 1) if c.a == "mk" else (1, c.m)
    place_a = Place("a", 0, ((1, c.batch, c.m * c.k),), ((1, c.m, row),), ((1, c.k, step),))
    column, step = (1, c.n) if c.b == "kn" else (c.k, 1)
    place_b = Place("b", 0, ((1, c.batch, c.k * c.n),), ((1, c.n, column),), ((1, c.k, step),))
    kind = f"lz_{c.acc}"
    arguments = (
        (f"const {kind} *restrict", "a"), (f"const {kind} *restrict", "b"),
        (f"{kind} *restrict", "out"),
    )  # fmt: skip
    return ContractSpec(
        name, arguments, c.batch, c.m, c.n, c.k, c.acc, load_a, load_b,
        "k" if c.a == "mk" else "m", "n" if c.b == "kn" else "k", epilogue,
        c.vector_bytes, CACHE, max_threads=4,
        a_place=place_a if c.plain and load == "{}" else None, b_place=place_b if c.plain else None,
        registers=c.registers,
    )  # fmt: skip


def reference_text(spec: ContractSpec) -> str:
    """The meaning of a contraction: one sum per element, in the order of k."""
    load_a, value_a = spec.load_a("b_", "m", "k")
    load_b, value_b = spec.load_b("b_", "k", "n")
    casts = "".join(f"{t} {n} = (void *)p{i};" for i, (t, n) in enumerate(spec.arguments))
    return f"""void {spec.name}_reference(char *p0, char *p1, char *p2) {{ {casts}
    for (lz_i64 b_ = 0; b_ < {spec.batch}; b_++) for (lz_i64 m = 0; m < {spec.m}; m++)
    for (lz_i64 n = 0; n < {spec.n}; n++) {{ {spec.ctype} sum = 0;
        for (lz_i64 k = 0; k < {spec.k}; k++) {{ {" ".join(load_a + load_b)}
            sum = lz_mac_{spec.acc}({value_a}, {value_b}, sum); }}
        {" ".join(spec.epilogue("b_", "m", "n", "sum"))} }} }}
"""


def compile_all(
    folder: Path, specs: Sequence[tuple[ContractSpec, Form | None, bool]]
) -> ctypes.CDLL:
    """One shared object with every kernel and its reference; warnings fail the test."""
    sections: dict[str, str] = {}
    bodies = []
    for spec, form, transposed in specs:
        made = emit_contract(spec, form, transposed)
        for name, text in (*made.sections, mac_section(spec.acc)):
            assert sections.setdefault(name, text) == text
        bodies += [made.text, reference_text(spec)]
    source = folder / "kernels.c"
    source.write_text(TYPES + "".join(sections.values()) + "".join(bodies))
    assert CC
    command = [*CC, *FLAGS, str(source), "-o", str(folder / "kernels.so")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0 and not done.stderr, done.stderr
    return ctypes.CDLL(str(folder / "kernels.so"))


def guarded(size: int, kind: type[np.generic]) -> tuple[np.ndarray, np.ndarray]:
    """A buffer between two guards, and its 64-byte aligned middle."""
    item = np.dtype(kind).itemsize
    raw = np.full(size * item + 3 * GUARD, 0xA5, np.uint8)
    start = GUARD + -(raw.ctypes.data + GUARD) % 64
    return raw, raw[start : start + size * item].view(kind)


def guards_intact(raw: np.ndarray, inner: np.ndarray) -> bool:
    """Whether the bytes around ``inner`` are untouched."""
    start = inner.ctypes.data - raw.ctypes.data
    return bool((raw[:start] == 0xA5).all() and (raw[start + inner.nbytes :] == 0xA5).all())


def check(library: ctypes.CDLL, case: Case, spec: ContractSpec, workspace: int) -> None:
    """Kernel and reference agree in every bit, for one and two threads, inside their buffers."""
    rng = np.random.default_rng(3)
    kind = NUMPY[case.acc]
    buffers = []
    for size in (case.batch * case.m * case.k, case.batch * case.k * case.n):
        raw, view = guarded(size, kind)
        if np.issubdtype(kind, np.floating):
            view[:] = rng.standard_normal(size)
        else:
            view[:] = rng.integers(-(10**6), 10**6, size).astype(kind)
        buffers.append((raw, view))
    pointers = [ctypes.c_void_p(view.ctypes.data) for _, view in buffers]
    expected = np.zeros(case.batch * case.m * case.n, kind)
    getattr(library, spec.name + "_reference")(*pointers, ctypes.c_void_p(expected.ctypes.data))
    for threads in (1, 2, 3):
        raw, out = guarded(expected.size, kind)
        raw_ws, ws = guarded(workspace, np.uint8)
        ends = [ctypes.c_void_p(v.ctypes.data) for v in (out, ws)]
        getattr(library, spec.name)(*pointers, *ends, ctypes.c_int(threads))
        assert guards_intact(raw, out) and guards_intact(raw_ws, ws), case
        assert out.tobytes() == expected.tobytes(), (case, threads)


SHAPES = [
    (1, 3, 4, 5), (1, 1, 1, 1), (1, 1, 1, 1000), (1, 32, 10, 64), (1, 32, 64, 10), (2, 7, 9, 0),
    (1, 1, 300, 200), (1, 300, 1, 200), (1, 8, 700, 130), (1, 700, 8, 130), (5, 33, 17, 29),
    (40, 50, 49, 51), (2, 101, 97, 263), (1, 130, 1100, 70), (1, 61, 43, 1025), (1, 2, 90, 513),
    (1, 333, 10, 100), (3, 5, 1, 777), (1, 50, 41, 100),
    (1, 48, 16, 64), (9, 1, 1, 1), (1, 512, 3, 300), (1, 5, 300, 80), (1, 40, 24, 9000),
    (1, 30, 700, 700),
]  # fmt: skip


@pytest.mark.parametrize("turn", range(4))
def test_chosen_forms_match_the_plain_loop(tmp_path: Path, turn: int) -> None:
    """Half of the shapes for every order of memory, so that neighbours differ."""
    a, b = ("mk kn", "mk nk", "km kn", "km nk")[turn].split()
    cases = [
        Case(*shape, a, b, plain=(i + turn) % 4 > 0)
        for i, shape in enumerate(SHAPES[turn % 2 :: 2])
    ]
    specs = [make_spec(case, f"k{i}") for i, case in enumerate(cases)]
    library = compile_all(tmp_path, [(spec, None, False) for spec in specs])
    for case, spec in zip(cases, specs):
        check(library, case, spec, emit_contract(spec).workspace_bytes)


def forced_forms(spec: ContractSpec) -> list[Form]:
    """Block sizes that end in the middle of everything."""
    small = replace(spec, cache=(4096, 16384, 65536))
    packed = choose_packed_form(small, True)
    return [
        packed,
        replace(packed, private=True, copies=False),
        replace(packed, private=False, copies=True),
        PackedForm(6, 2, 300, 12, 48, 32, 300, 48, True, True),
        PackedForm(4, 2, 16, 8, 32, 32, 32, 48, False, True, copies=True),
        PackedForm(5, 1, 12, 10, 16, 8, 24, 32, False, True),
        PackedForm(4, 2, 16, 4, 32, 16, 32, 48, False, False),
        PackedForm(6, 2, 300, 12, 48, 32, 300, 200, False, True),
        PackedForm(6, 2, 16, 12, 48, 32, 48, 80, False, True, straight=True),
        PackedForm(6, 2, 24, 12, 48, 32, 48, 80, False, True, ahead=True),
        choose_row_form(small, False, True, False),
        choose_row_form(small, True, True, False),
        RowForm(3, 8, 2, 4, False, False),
        RowForm(5, 16, 1, 1, True, True),
        DotForm(True),
    ]


def test_no_form_or_block_size_changes_a_bit(tmp_path: Path) -> None:
    case = Case(3, 23, 71, 59)
    base = make_spec(case)
    work: list[tuple[ContractSpec, Form | None, bool]] = []
    for transposed in (False, True):
        for form in forced_forms(base):
            if isinstance(form, PackedForm) and form.k_span > base.k:
                form = replace(form, k_span=base.k)
            if isinstance(form, PackedForm) and form.straight and transposed:
                continue  # the rows of what becomes A are not adjacent along k
            work.append((replace(base, name=f"k{len(work)}"), form, transposed))
    library = compile_all(tmp_path, work)
    for spec, chosen, transposed in work:
        check(library, case, spec, emit_contract(spec, chosen, transposed).workspace_bytes)


@pytest.mark.parametrize("acc", ["f64", "i8", "u8", "i16", "i32", "i64"])
def test_accumulator_types(tmp_path: Path, acc: str) -> None:
    shapes = [(1, 3, 4, 5), (2, 67, 71, 90), (1, 9, 200, 40), (1, 60, 1, 60)]
    cases = [
        Case(*shape, b=b, acc=acc, plain=plain)
        for shape in shapes
        for b, plain in (("kn", False), ("nk", True))
    ]
    specs = [make_spec(case, f"k{i}") for i, case in enumerate(cases)]
    library = compile_all(tmp_path, [(spec, None, False) for spec in specs])
    for case, spec in zip(cases, specs):
        check(library, case, spec, emit_contract(spec).workspace_bytes)


@pytest.mark.parametrize(("vector_bytes", "registers"), [(16, 16), (16, 32), (64, 32)])
def test_other_vector_widths(tmp_path: Path, vector_bytes: int, registers: int) -> None:
    shapes = [(2, 67, 71, 90), (1, 77, 2, 91), (1, 30, 1, 300), (1, 33, 1200, 41)]
    cases = [
        Case(*shape, acc=acc, vector_bytes=vector_bytes, registers=registers)
        for shape in shapes
        for acc in ("f32", "f64")
    ]
    specs = [make_spec(case, f"k{i}") for i, case in enumerate(cases)]
    library = compile_all(tmp_path, [(spec, None, False) for spec in specs])
    for case, spec in zip(cases, specs):
        made = emit_contract(spec)
        assert f"v{vector_bytes}" in made.sections[-1][0]
        check(library, case, spec, made.workspace_bytes)


def test_tiles_of_neon_read_several_rows_at_once(tmp_path: Path) -> None:
    forms = {
        "lz_gemm_f32_8x12v16ahead": Case(1, 400, 1200, 800, vector_bytes=16, registers=32),
        "lz_gemm_f64_8x6v16ahead": Case(
            1, 400, 1200, 800, acc="f64", vector_bytes=16, registers=32
        ),
        "lz_lines_f32_8x8v16": Case(1, 400, 16, 800, vector_bytes=16, registers=32),
        "lz_lines_f32_8x8v16apart": Case(1, 24, 24, 15, vector_bytes=16, registers=32),
    }
    specs = [make_spec(case, f"k{i}") for i, case in enumerate(forms.values())]
    library = compile_all(tmp_path, [(spec, None, False) for spec in specs])
    for (name, case), spec in zip(forms.items(), specs):
        made = emit_contract(spec)
        texts = dict(made.sections)
        assert name in texts and "l0[1]" in texts[name]
        check(library, case, spec, made.workspace_bytes)


@pytest.mark.parametrize("vector_bytes", [16, 32, 64])
def test_rows_that_share_sets_of_a_cache(tmp_path: Path, vector_bytes: int) -> None:
    cases = [
        Case(*shape, acc=acc, vector_bytes=vector_bytes)
        for shape in ((1, 37, 1, 512), (2, 16, 2, 1024), (1, 9, 1, 1536))
        for acc in ("f32", "f64", "i32")
    ]
    specs = [make_spec(case, f"k{i}") for i, case in enumerate(cases)]
    library = compile_all(tmp_path, [(spec, DotForm(True), False) for spec in specs])
    names = ""
    for case, spec in zip(cases, specs):
        made = emit_contract(spec, DotForm(True), False)
        names += made.sections[-1][0]
        check(library, case, spec, made.workspace_bytes)
    assert "apart" in names


def test_prologue_and_epilogue_run_once_per_element(tmp_path: Path) -> None:
    cases = [Case(1, 9, 13, 7), Case(2, 70, 150, 300), Case(1, 40, 1, 90), Case(1, 8, 200, 60)]
    specs = [
        make_spec(case, f"k{i}", "({0} > 0 ? {0} * 0.5f : 0)", "({0} > 1 ? {0} : -{0}) + 3")
        for i, case in enumerate(cases)
    ]
    library = compile_all(tmp_path, [(spec, None, False) for spec in specs])
    for case, spec in zip(cases, specs):
        check(library, case, spec, emit_contract(spec).workspace_bytes)


def test_float32_is_one_fused_accumulator_in_the_order_of_k(tmp_path: Path) -> None:
    """The reference itself, against exact arithmetic in float64 rounded after every step."""
    spec = make_spec(Case(1, 20, 30, 300))
    library = compile_all(tmp_path, [(spec, None, False)])
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(shape).astype(np.float32) for shape in ((20, 300), (300, 30)))
    out = np.zeros((20, 30), np.float32)
    pointers = [ctypes.c_void_p(x.ctypes.data) for x in (a, b, out)]
    library.kernel_reference(*pointers)
    expected = np.zeros((20, 30), np.float32)
    for k in range(300):
        step = a[:, k, None].astype(np.float64) * b[k].astype(np.float64) + expected
        expected = step.astype(np.float32)
    # Rounding twice differs from rounding once in about one of 2**29 steps.
    assert (out == expected).mean() > 0.99
    assert np.abs(out - expected).max() <= 1e-5


def test_kernels_parse_as_c99_and_note_their_choice() -> None:
    for shape in SHAPES:
        made = emit_contract(make_spec(Case(*shape)))
        CParser().parse(TYPES + made.text)
        assert made.note


def test_forms_follow_the_extents() -> None:
    def chosen(batch: int, m: int, n: int, k: int, a: str = "mk") -> Form:
        return choose_form(make_spec(Case(batch, m, n, k, a)))[0]

    assert isinstance(chosen(1, 512, 512, 512), PackedForm)
    assert isinstance(chosen(1, 3, 4, 5), RowForm)
    assert isinstance(chosen(1, 4096, 1, 4096), DotForm)
    assert isinstance(chosen(1, 4096, 1, 4096, a="km"), RowForm)
    assert isinstance(chosen(1, 8, 4096, 4096), RowForm)
    small = chosen(1, 3, 4, 5)
    assert isinstance(small, RowForm) and not small.parallel
    batched = chosen(96, 128, 128, 64)
    assert isinstance(batched, PackedForm) and batched.private
    assert isinstance(choose_form(make_spec(Case(1, 8, 512, 512, b="nk")))[0], DotForm)
    assert isinstance(choose_form(make_spec(Case(1, 9, 512, 512, b="nk")))[0], PackedForm)
    few = chosen(1, 64, 64, 16384)
    assert isinstance(few, PackedForm) and few.apart and few.k_span == 16384
    narrow = chosen(1, 5000, 16, 200)
    assert isinstance(narrow, PackedForm) and narrow.straight
    skinny = choose_form(make_spec(Case(1, 5000, 16, 1024, vector_bytes=64)))[0]
    assert isinstance(skinny, PackedForm) and skinny.straight and skinny.k_block < 1024
    wide = choose_form(make_spec(Case(1, 64, 2048, 2048, b="nk")))[0]
    assert isinstance(wide, PackedForm) and wide.col_span < 2048 and not wide.apart
    deep = choose_form(make_spec(Case(1, 64, 64, 16384, b="nk")))[0]
    assert isinstance(deep, PackedForm) and deep.k_span < 16384


def test_results_across_a_tile_are_stored_by_vectors(tmp_path: Path) -> None:
    """Blocks of rows have whole vectors of rows, and the epilogue is vectorised along them."""
    spec = make_spec(Case(1, 32, 64, 128, b="nk"), store="{0} * ({0} < 0 ? 0.5f : 1 / (1 + {0}))")
    form, transposed, _ = choose_form(spec)
    assert isinstance(form, PackedForm) and transposed
    assert form.row_block % spec.lanes == 0
    made = emit_contract(spec)
    text = TYPES + "".join(text for _, text in made.sections) + made.text
    source = tmp_path / "kernel.c"
    source.write_text(text)
    assert CC
    version = subprocess.run([*CC, "--version"], capture_output=True, text=True).stdout
    clang = "clang" in version
    flags = [*FLAGS, "-fno-trapping-math", "-Rpass=loop-vectorize" if clang else "-fopt-info-vec"]
    done = subprocess.run(
        [*CC, *flags, str(source), "-o", str(tmp_path / "kernel.so")],
        capture_output=True, text=True,
    )  # fmt: skip
    stores = [i for i, line in enumerate(text.splitlines(), 1) if "g_value = g_line" in line]
    assert stores
    place = rf"kernel.c:({stores[0] - 1}|{stores[0]}):.*(loop vectorized|vectorized loop)"
    assert re.search(place, done.stderr), done.stderr


def test_empty_outputs_make_an_empty_kernel() -> None:
    made = emit_contract(make_spec(Case(1, 0, 4, 5)))
    assert "for" not in made.text and made.workspace_bytes == 0


def test_an_unknown_accumulator_is_refused() -> None:
    with pytest.raises(InternalError, match="f16"):
        emit_contract(replace(make_spec(Case(1, 2, 2, 2)), acc="f16"))
