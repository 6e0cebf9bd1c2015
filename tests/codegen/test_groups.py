"""Contractions of narrow numbers, several to a lane: the sums that single steps give."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lazyt as lt
from lazyt import ops
from lazyt.codegen.c.target import print_kernel_c
from lazyt.codegen.matmul.contraction import ContractSpec, choose_packed_form, emit_contract
from lazyt.codegen.matmul.dot_products import grouped
from lazyt.compiler import compile_graph
from lazyt.config import config
from lazyt.handle.dispatch import wrap
from lazyt.ir.decisions import Traits
from lazyt.ir.dtypes import bfloat16
from tests import compilers

CC = compilers.words()
TYPES = """#include <string.h>
typedef float lz_f32; typedef int lz_i32; typedef unsigned int lz_u32; typedef long long lz_i64;
typedef signed char lz_i8; typedef unsigned short lz_u16;
static inline lz_u32 lz_bits_f32(lz_f32 x) { lz_u32 b; memcpy(&b, &x, 4); return b; }
static inline lz_f32 lz_wide(lz_u16 h) { lz_u32 b = (lz_u32)h << 16; lz_f32 x;
  memcpy(&x, &b, 4); return x; }
"""
M, N, K = 37, 50, 131


def _spec(kind: str) -> ContractSpec:
    """A [M, K] by B [K, N] of bfloat16 or int8, pairs of which are for 32-byte registers."""
    stored, total, wide = ("u16", "f32", "lz_wide") if kind == "bf16x2" else ("i8", "i32", "")

    def load_a(b: str, m: str, k: str) -> tuple[list[str], str]:
        return [f"const lz_{total} t = {wide}(a[({m}) * {K} + ({k})]);"], "t"

    def load_b(b: str, k: str, n: str) -> tuple[list[str], str]:
        return [], f"{wide}(b[({k}) * {N} + ({n})])"

    def epilogue(b: str, m: str, n: str, value: str) -> list[str]:
        return [f"out[({m}) * {N} + ({n})] = {value};"]

    source = f"const lz_{stored} *restrict"
    arguments = ((source, "a"), (source, "b"), (f"lz_{total} *restrict", "out"))
    return ContractSpec(
        f"kernel_{kind}", arguments, 1, M, N, K, total, load_a, load_b, "k", "n", epilogue,
        32 if kind == "i8x2" else 64, (1 << 12, 1 << 14, 1 << 20), max_threads=1,
        group="i8x4" if kind == "i8x2" else kind,
    )  # fmt: skip


@pytest.fixture(scope="module", params=[[], ["-mno-avx512bf16", "-mno-avx512vnni", "-mno-avx2"]])
def library(request: Any, tmp_path_factory: Any) -> ctypes.CDLL:
    """Both kernels, with and without the processor's instructions for them."""
    if not CC:
        pytest.skip("needs a C compiler")
    folder: Path = tmp_path_factory.mktemp("groups")
    sections: dict[str, str] = {}
    bodies = []
    for kind in ("bf16x2", "i8x2", "i8x4"):
        spec = _spec(kind)
        made = emit_contract(spec, choose_packed_form(grouped(spec), False))
        assert kind in made.note
        assert f"g_p1 == {grouped(spec).k}" in made.text
        sections |= dict(made.sections)
        bodies.append(made.text)
    (folder / "k.c").write_text(TYPES + "".join(sections.values()) + "".join(bodies))
    flags = ["-O3", "-march=native", "-ffp-contract=off", "-fPIC", "-shared", "-w"]
    command = [*CC, *flags, *request.param, str(folder / "k.c"), "-o", str(folder / "k.so")]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode and request.param:
        pytest.skip("the compiler does not know these instructions")
    assert done.returncode == 0, done.stderr
    return ctypes.CDLL(str(folder / "k.so"))


def _run(library: ctypes.CDLL, kind: str, a: Any, b: Any, out: Any) -> None:
    space = np.zeros(1 << 20, np.uint8)
    start = space.ctypes.data + -space.ctypes.data % 64
    places = [ctypes.c_void_p(item.ctypes.data) for item in (a, b, out)]
    getattr(library, f"kernel_{kind}")(*places, ctypes.c_void_p(start), ctypes.c_int(1))


def _single_steps(a: Any, b: Any) -> Any:
    """Sums in float32 in increasing k; the products of bfloat16 are exact."""
    total = np.zeros((a.shape[0], b.shape[1]), np.float32)
    for k in range(a.shape[1]):
        total = (a[:, k : k + 1].astype(np.float64) * b[k : k + 1] + total).astype(np.float32)
    return total


def _halves(rng: Any, *shape: int) -> Any:
    return rng.standard_normal(shape, dtype=np.float32).view(np.uint32) >> 16


def test_pairs_of_bfloat16(library: ctypes.CDLL) -> None:
    rng = np.random.default_rng(0)
    a, b = (_halves(rng, *s).astype(np.uint16) for s in ((M, K), (K, N)))
    out = np.full((M, N), np.nan, np.float32)
    _run(library, "bf16x2", a, b, out)
    wide = [(x.astype(np.uint32) << 16).view(np.float32) for x in (a, b)]
    np.testing.assert_array_equal(out, _single_steps(*wide))


@pytest.mark.parametrize("kind", ["i8x2", "i8x4"])
def test_pairs_and_fours_of_int8(library: ctypes.CDLL, kind: str) -> None:
    rng = np.random.default_rng(1)
    a, b = (rng.integers(-128, 128, s).astype(np.int8) for s in ((M, K), (K, N)))
    a[:3], b[:, :3] = -128, -128
    a[3], b[:, 3] = 127, -128
    out = np.zeros((M, N), np.int32)
    _run(library, kind, a, b, out)
    np.testing.assert_array_equal(out, a.astype(np.int32) @ b.astype(np.int32))


@pytest.mark.parametrize("shape", [(64, 70, 129), (40, 333, 64)])
def test_products_of_bfloat16_are_rounded_once(shape: tuple[int, int, int]) -> None:
    """Alone, and with what reads them in the same kernel; matrix registers have another order."""
    m, n, k = shape
    a, b = lt.randn(m, k).bfloat16().realize(), lt.randn(k, n).bfloat16().realize()
    total = _single_steps(a.float().numpy(), b.float().numpy())
    want = lt.from_numpy(total).bfloat16().float()
    assert lt.equal(a.float() @ b.float(), lt.from_numpy(total))
    with config.override(matrix_registers=False):
        assert lt.equal((a @ b).float(), want)
        assert lt.equal((a @ b).realize().float(), want)
        assert lt.equal((b.T @ a.T).T.float(), want)


@pytest.mark.parametrize("shape", [(64, 64, 64), (33, 70, 129), (200, 96, 256), (17, 300, 64)])
def test_products_of_int8_wrap(shape: tuple[int, int, int]) -> None:
    """Sums of 32 bits are cut off, also where nothing else is done with them."""
    m, n, k = shape
    a, b = (lt.randint(-128, 128, s, dtype=lt.int8).realize() for s in ((m, k), (k, n)))
    want = (a.numpy().astype(np.int64) @ b.numpy().astype(np.int64)).astype(np.int8)
    with config.override(verify=True, any_size=False):
        np.testing.assert_array_equal((a @ b).numpy(), want)
        np.testing.assert_array_equal((a @ b * 2 + 1).numpy(), want * np.int8(2) + np.int8(1))


@pytest.mark.parametrize("dtype", ["int8", "bfloat16"])
@pytest.mark.parametrize("k", [61, 62, 63, 64, 129, 258])
@pytest.mark.parametrize("turned", ["", "a", "b", "ab"])
def test_groups_that_begin_anywhere(dtype: str, k: int, turned: str) -> None:
    """Rows of odd length, and parts of rows, begin in the middle of a group of their neighbours;
    what is missing of the last group is zero, whatever lies behind it in memory."""
    m, n, batch = 35, 66, 2
    wide = lt.randint(-128, 128, (batch, m, k + 3), dtype=lt.int8).to(getattr(lt, dtype)).realize()
    other = lt.randint(-128, 128, (batch, k + 3, n + 1), dtype=lt.int8).to(wide.dtype).realize()
    left, right = wide[:, :, 1 : k + 1], other[:, 2 : k + 2, 1:]
    if "a" in turned:
        left = left.mT.contiguous().realize().mT
    if "b" in turned:
        right = right.mT.contiguous().realize().mT
    exact = left.double().numpy() @ right.double().numpy()  # of whole numbers below 2^23
    with config.override(verify=True, any_size=False, matrix_registers=False):
        if dtype == "int8":
            np.testing.assert_array_equal(
                (left @ right).numpy(), exact.astype(np.int64).astype(np.int8)
            )
        else:
            np.testing.assert_array_equal((left.float() @ right.float()).numpy(), exact)


def test_numbers_that_gain_nothing_in_groups_are_multiplied_one_by_one() -> None:
    a, b = (ops.input_((64, 64), bfloat16) for _ in range(2))
    (kernel,) = compile_graph([(wrap(a) @ wrap(b)).node], [a, b])[1]
    machine = (64, (48 << 10, 2 << 20, 32 << 20))
    in_groups = print_kernel_c(kernel, *machine)
    alone = print_kernel_c(kernel, *machine, traits=Traits(alone=frozenset({"bf16x2"})))
    for printed, want in ((in_groups, True), (alone, False)):
        names = [name for name, _ in printed.sections]
        assert any(name.startswith("lz_dot_bf16x2") for name in names) is want


def test_sums_of_half_values_are_rounded_once() -> None:
    x = lt.randn(40, 30, 50).bfloat16().realize()
    for axes in ((0,), (1,), (0, 2)):
        want = x.float().sum(axes).bfloat16().float()
        assert lt.equal(x.sum(axes).float(), want)
        assert lt.equal(x.sum(axes).realize().float(), want)


@pytest.mark.parametrize("shape", [(64, 70, 131), (5, 7, 3), (33, 48, 200)])
def test_int_mm(shape: tuple[int, int, int]) -> None:
    m, n, k = shape
    rng = np.random.default_rng(k)
    a, b = (rng.integers(-128, 128, s).astype(np.int8) for s in ((m, k), (k, n)))
    want = a.astype(np.int32) @ b.astype(np.int32)
    left, right = lt.from_numpy(a), lt.from_numpy(b)
    got = lt._int_mm(left, right)
    assert got.dtype is lt.int32
    np.testing.assert_array_equal(got.numpy(), want)
    np.testing.assert_array_equal(lt._int_mm(right.T, left.T).T.numpy(), want)
    plain = lt.from_numpy(a.view(np.uint8))
    np.testing.assert_array_equal(
        lt._int_mm(plain, right).numpy(), a.view(np.uint8).astype(np.int32) @ b.astype(np.int32)
    )
    np.testing.assert_array_equal((left @ right).numpy(), want.astype(np.int8))


def test_int_mm_refuses_other_operands() -> None:
    a, b = lt.ones(4, 8).to(lt.int8), lt.ones(8, 8).to(lt.int8)
    with pytest.raises(RuntimeError, match="Expected self dtype to be int8 or uint8 but got float"):
        lt._int_mm(a.float(), b)
    with pytest.raises(RuntimeError, match=r"mat2 dtype to be of type int8 but got int$"):
        lt._int_mm(a, b.int())
    with pytest.raises(RuntimeError, match="Expected self to be of dimension 2 but got 1"):
        lt._int_mm(a[0], b)
    with pytest.raises(RuntimeError, match=r"self\.size\(1\) needs to match mat2\.size\(0\)"):
        lt._int_mm(a, b[:4])
    with pytest.raises(RuntimeError, match="Expected result dtype to be of type kInt but got long"):
        lt._int_mm(a, b, out=lt.empty(4, 8, dtype=lt.int64))
