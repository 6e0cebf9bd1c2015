"""Fused multiply-adds by other instructions (``config.exact``), beside the C library's ``fma``.

The text is compiled for an x86-64 without the instruction; elsewhere every machine has it.
"""

from __future__ import annotations

import ctypes
import os
import platform
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import lazyt
from lazyt.codegen.matmul.micro_kernels import mac_section, tile_sections, vector_section
from lazyt.codegen.prelude import exactly, sections_for
from lazyt.runtime.cpu import compile

pytestmark = pytest.mark.skipif(
    platform.machine() not in ("x86_64", "AMD64"), reason="fused steps are part of other machines"
)

_TEXT = """
float fmaf(float, float, float);
void lz_single(lz_i64 n, const lz_f32 *a, const lz_f32 *b, const lz_f32 *c, lz_f32 *to) {
  for (lz_i64 i = 0; i < n; i++) to[i] = LZ_FMA_F32(a[i], b[i], c[i]);
}
void lz_double(lz_i64 n, const lz_f64 *a, const lz_f64 *b, const lz_f64 *c, lz_f64 *to) {
  for (lz_i64 i = 0; i < n; i++) to[i] = LZ_FMA_F64(a[i], b[i], c[i]);
}
void lz_single_lanes(lz_i64 n, const lz_f32 *a, const lz_f32 *b, const lz_f32 *c, lz_f32 *to) {
  for (lz_i64 i = 0; i + 4 <= n; i += 4)
    *(lz_ref_f32_v16 *)(to + i) = lz_vfma_f32_v16(*(const lz_ref_f32_v16 *)(a + i),
        *(const lz_ref_f32_v16 *)(b + i), *(const lz_ref_f32_v16 *)(c + i));
}
void lz_double_lanes(lz_i64 n, const lz_f64 *a, const lz_f64 *b, const lz_f64 *c, lz_f64 *to) {
  for (lz_i64 i = 0; i + 2 <= n; i += 2)
    *(lz_ref_f64_v16 *)(to + i) = lz_vfma_f64_v16(*(const lz_ref_f64_v16 *)(a + i),
        *(const lz_ref_f64_v16 *)(b + i), *(const lz_ref_f64_v16 *)(c + i));
}
void lz_tile(lz_i64 n, const lz_f32 *a, const lz_f32 *b, lz_f32 *c, int first) {
  lz_gemm_f32_6x8v16(n, a, b, c, 8, first);
}
void lz_tile_oracle(lz_i64 n, const lz_f32 *a, const lz_f32 *b, lz_f32 *c, int first) {
  for (int i = 0; i < 48; i++) {
    lz_f32 sum = first ? 0 : c[i];
    for (lz_i64 k = 0; k < n; k++) sum = fmaf(a[k * 6 + i / 8], b[k * 8 + i % 8], sum);
    c[i] = sum;
  }
}
double fma(double, double, double);
void lz_single_oracle(lz_i64 n, const lz_f32 *a, const lz_f32 *b, const lz_f32 *c, lz_f32 *to) {
  for (lz_i64 i = 0; i < n; i++) to[i] = fmaf(a[i], b[i], c[i]);
}
void lz_double_oracle(lz_i64 n, const lz_f64 *a, const lz_f64 *b, const lz_f64 *c, lz_f64 *to) {
  for (lz_i64 i = 0; i < n; i++) to[i] = fma(a[i], b[i], c[i]);
}
"""


@pytest.fixture(scope="module")
def functions(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """The text as a library for x86-64-v2."""
    with exactly(True):
        sections = [text for _, text in sections_for([])]
        for dtype in ("f32", "f64"):
            sections += [mac_section(dtype)[1], vector_section(dtype, 16)[1]]
        sections.append(tile_sections("f32", 6, 2, 16, False)[-1][1])
    folder = tmp_path_factory.mktemp("fused")
    (folder / "fused.c").write_text("\n".join([*sections, _TEXT]))
    compiler = compile.find()
    flags = ["-march=x86-64-v2" if f == "-march=native" else f for f in compiler.flags]
    flags = [*flags, "-fvisibility=default", "-fno-builtin", "-shared"]
    command = [*compiler.command, *flags, "fused.c", "-o", "fused.so", "-lm"]
    subprocess.run(command, cwd=folder, check=True)
    return ctypes.CDLL(str(folder / "fused.so"))


def _kinds(dtype: str, count: int) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Factors and summands: plain ones, any bits, halfway cases, tiny ones, huge ones, few bits."""
    rng = np.random.default_rng(5)
    bits = 32 if dtype == "float32" else 64
    kind, digits, bias = (f"uint{bits}", 23, 127) if bits == 32 else (f"uint{bits}", 52, 1023)

    def spread(low: int, high: int, mask: int = -1) -> np.ndarray:
        mantissa = rng.integers(0, 1 << digits, count, dtype=np.uint64) & np.uint64(mask % 2**64)
        exponent = rng.integers(max(0, bias + low), min(2 * bias + 1, bias + high), count)
        sign = rng.integers(0, 2, count, dtype=np.uint64) << np.uint64(bits - 1)
        whole = sign | exponent.astype(np.uint64) << np.uint64(digits) | mantissa
        made: np.ndarray = whole.astype(kind).view(dtype)
        return made

    top = -1 << digits - 4
    for low, high, mask in (
        (-4, 4, -1), (-bias, bias + 2, -1), (-30, 30, top), (-30, 30, top | 1),
        (-bias, -bias + 3, -1), (-bias // 2 - 20, -bias // 2 + 20, -1),
        (bias // 2 - 10, bias // 2 + 10, -1),
    ):  # fmt: skip
        a, b = spread(low, high, mask), spread(low, high, mask)
        yield a, b, spread(low, high, mask)
        with np.errstate(all="ignore"):
            product = a * b
        yield a, b, -product
        near = product.view(kind) + rng.integers(-2, 3, count).astype(kind)
        yield a, b, near.view(dtype)
        yield a, b, np.zeros(count, dtype)
        yield a, np.copysign(np.zeros(count, dtype), b), spread(low, high, mask)
    special = np.array([0, -0.0, np.inf, -np.inf, np.nan, 1, -1, np.finfo(dtype).tiny], dtype)
    yield tuple(rng.choice(special, count) for _ in range(3))  # type: ignore[misc]


@pytest.mark.parametrize("form", ["", "_lanes"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_emulated_steps_round_once(functions: ctypes.CDLL, dtype: str, form: str) -> None:
    count, kind = 20000, "single" if dtype == "float32" else "double"
    bits = dtype.replace("float", "uint")
    for a, b, c in _kinds(dtype, count):
        found, wanted = np.empty(count, dtype), np.empty(count, dtype)
        for name, to in ((f"lz_{kind}{form}", found), (f"lz_{kind}_oracle", wanted)):
            pointers = [ctypes.c_void_p(x.ctypes.data) for x in (a, b, c, to)]
            getattr(functions, name)(ctypes.c_int64(count), *pointers)
        wrong = (found.view(bits) != wanted.view(bits)) & ~(np.isnan(found) & np.isnan(wanted))
        at = np.flatnonzero(wrong)[:3]
        assert not wrong.any(), (a[at], b[at], c[at], found[at], wanted[at])


@pytest.mark.parametrize("steps", [0, 1, 63, 64, 65, 150])
def test_register_tiles_round_each_step_once(functions: ctypes.CDLL, steps: int) -> None:
    """Halfway cases, tiny and huge factors, infinities: blocks of steps are computed again."""
    for number, (a, b, c) in enumerate(_kinds("float32", 1200)):
        a, b = a[: steps * 6].copy(), b[: steps * 8].copy()
        if number % 3 == 0:  # few bits, many zeros
            a = np.sign(a) * (np.arange(a.size) % 3 != 1).astype("float32")
        for first in (0, 1):
            found, wanted = c[:48].copy(), c[:48].copy()
            for name, to in (("lz_tile", found), ("lz_tile_oracle", wanted)):
                pointers = [ctypes.c_void_p(x.ctypes.data) for x in (a, b, to)]
                getattr(functions, name)(ctypes.c_int64(steps), *pointers, first)
            both_nan = np.isnan(found) & np.isnan(wanted)
            same = (found.view("uint32") == wanted.view("uint32")) | both_nan
            assert same.all(), (number, first, found[~same], wanted[~same])


_PROGRAM = """
import lazyt as torch
torch.manual_seed(1)
x = torch.linspace(-3, 3, 720).reshape(24, 30)
w = (x.T @ x).sin()
print(torch.config.exact)
values = [x.exp(), w, (x.double() @ x.double().T).float()]
print(torch.cat([v.reshape(-1) for v in values]).numpy().tobytes().hex())
"""


def test_programs_have_the_same_bits_without_the_instruction(tmp_path: Path) -> None:
    found = compile.find()
    wrapper = tmp_path / "cc"
    command = " ".join(found.command)
    wrapper.write_text(
        '#!/bin/bash\nargs=()\nfor a in "$@"; do [ "$a" = "-march=native" ] && a=-march=x86-64-v2\n'
        f'args+=("$a"); done\nexec {command} "${{args[@]}}"\n'
    )
    wrapper.chmod(wrapper.stat().st_mode | stat.S_IXUSR)
    old = {**os.environ, "CC": str(wrapper), "LAZYT_EXACT": "1", "LAZYT_TIER": "1"}
    old |= {"LAZYT_CACHE_DIR": str(tmp_path / "cache"), "LAZYT_PROGRESS": "0"}
    command_line = [sys.executable, "-c", _PROGRAM]
    there = subprocess.run(command_line, env=old, capture_output=True, text=True, check=True)
    here = {**os.environ, "LAZYT_EXACT": "1", "LAZYT_TIER": "1"}
    wanted = subprocess.run(command_line, env=here, capture_output=True, text=True, check=True)
    assert there.stdout == wanted.stdout
    assert there.stdout.startswith("True\n")


def test_what_is_left_to_lapack_is_refused_at_its_line() -> None:
    small, large = lazyt.eye(3), lazyt.eye(513)
    late = lazyt.linalg.svdvals(lazyt.arange(513.0 * 2).reshape(2, 513))
    with lazyt.config.override(exact=True):
        assert lazyt.linalg.solve(large, lazyt.ones(513)).tolist() == [1.0] * 513
        assert lazyt.linalg.svdvals(small).tolist() == [1.0] * 3
        for function in (
            lambda: lazyt.linalg.svd(large),
            lambda: lazyt.linalg.eigh(large),
            lambda: lazyt.linalg.eigvals(small),
            lambda: lazyt.linalg.pinv(large),
            lambda: lazyt.linalg.matrix_exp(small),
            lambda: lazyt.linalg.lstsq(small, small, driver="gelsd"),
            lambda: lazyt.linalg.inv(small.to(lazyt.complex64)),
        ):
            with pytest.raises(lazyt.errors.ReproducibilityError, match="LAPACK"):
                function()
        assert lazyt.linalg.svdvals(lazyt.ones(0, 40)).shape == (0,)
    assert late.shape == (2,)


def test_text_says_that_it_is_exact() -> None:
    plain, before = dict(sections_for([])), lazyt.config.of_plans
    with exactly(True):
        exact = dict(sections_for([]))
    assert exact["base"] == "#define LZ_EXACT 1\n" + plain["base"]
    with lazyt.config.override(exact=True):
        assert lazyt.config.of_plans != before  # so plans are others, too
