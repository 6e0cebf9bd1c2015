"""Products in matrix registers: the instructions that ship, executed by a handler of SIGILL.

``matrix_registers.c`` does what Intel's manual says of each instruction, so that neither the layout
of operands nor a single byte of the text goes untested where the processor lacks them.
"""

from __future__ import annotations

import ctypes
import dataclasses
import platform
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lazyt as lt
from lazyt import ops
from lazyt.codegen.c.target import print_kernel_c
from lazyt.codegen.matmul.contraction import ContractSpec, choose_packed_form, emit_contract
from lazyt.codegen.matmul.dot_products import grouped
from lazyt.codegen.matmul.matrix_registers import clear, in_groups, load, multiply, store
from lazyt.codegen.matmul.spec import Place
from lazyt.codegen.proof.c_bounds import argument_bytes, check_kernel_c
from lazyt.compiler import compile_graph
from lazyt.config import config
from lazyt.handle.dispatch import wrap
from lazyt.ir.decisions import Traits
from lazyt.ir.dtypes import bfloat16
from lazyt.nn import functional as F
from lazyt.runtime import devices
from tests import compilers

CC = compilers.words()
TILED = Traits(tiled=frozenset({"bf16x2", "i8x4"}))
pytestmark = [
    pytest.mark.skipif(
        platform.machine() != "x86_64" or platform.system() != "Linux",
        reason="matrix registers are those of x86-64, and what executes them is for Linux",
    ),
]
FLAGS = ["-O1", "-fopenmp", "-ffp-contract=off", "-fPIC", "-shared", "-w"]
TYPES = """#include <string.h>
typedef float lz_f32; typedef int lz_i32; typedef unsigned int lz_u32; typedef long long lz_i64;
typedef signed char lz_i8; typedef unsigned short lz_u16;
static inline lz_u32 lz_bits_f32(lz_f32 x) { lz_u32 b; memcpy(&b, &x, 4); return b; }
static inline lz_f32 lz_wide(lz_u16 h) { lz_u32 b = (lz_u32)h << 16; lz_f32 x;
  memcpy(&x, &b, 4); return x; }
"""
#: Batch, rows, columns, steps, threads.
SHAPES = [
    (1, 37, 50, 131, 1), (1, 64, 64, 64, 2), (5, 16, 100, 96, 2), (1, 33, 17, 250, 2),
    (1, 100, 40, 1000, 1), (3, 48, 48, 33, 1), (1, 20, 300, 2050, 2),
]  # fmt: skip


@pytest.fixture(scope="module")
def registers(tmp_path_factory: Any) -> Iterator[ctypes.CDLL]:
    """The instructions, and the count of those that were executed by the handler."""
    made = tmp_path_factory.mktemp("registers") / "registers.so"
    source = Path(__file__).with_name("matrix_registers.c")
    assert CC
    command = [*CC, "-O2", "-ffp-contract=off", "-fPIC", "-shared", str(source), "-o", str(made)]
    subprocess.run(command, check=True)
    library = ctypes.CDLL(str(made))
    library.lz_executed.restype = ctypes.c_long
    assert library.lz_install() == 0
    yield library
    assert library.lz_remove() == 0


@pytest.fixture
def tiled(registers: ctypes.CDLL, monkeypatch: Any) -> Callable[[], int]:
    """A machine with matrix registers; how many instructions have been executed since."""
    machine = dataclasses.replace(devices.cpu(), traits=TILED, vector_bytes=64)
    if "avx512f" not in machine.features:
        pytest.skip("kernels for machines with matrix registers have 64-byte vectors")
    monkeypatch.setattr(devices, "cpu", lambda: machine)
    before = registers.lz_executed()
    native = TILED.tiled <= devices._tiled(machine.features)
    return lambda: 1 if native else registers.lz_executed() - before


def _spec(kind: str, shape: tuple[int, ...], units: str, placed: bool) -> ContractSpec:
    """A by B of bfloat16 or int8, neighbours along the axes ``units``."""
    batch, m, n, k, threads = shape
    stored, total, wide = ("u16", "f32", "lz_wide") if kind == "bf16x2" else ("i8", "i32", "")
    (row, step), (down, column) = (
        (k, 1) if units[0] == "k" else (1, m),
        (1, k) if units[1] == "k" else (n, 1),
    )

    def load_a(b: str, i: str, j: str) -> tuple[list[str], str]:
        return [], f"{wide}(a[({b}) * {m * k} + ({i}) * {row} + ({j}) * {step}])"

    def load_b(b: str, i: str, j: str) -> tuple[list[str], str]:
        return [], f"{wide}(b[({b}) * {k * n} + ({i}) * {down} + ({j}) * {column}])"

    def epilogue(b: str, i: str, j: str, value: str) -> list[str]:
        return [f"out[({b}) * {m * n} + ({i}) * {n} + ({j})] = {value};"]

    source = f"const lz_{stored} *restrict"
    arguments = ((source, "a"), (source, "b"), (f"lz_{total} *restrict", "out"))
    left = Place("a", 0, ((1, batch, m * k),), ((1, m, row),), ((1, k, step),))
    right = Place("b", 0, ((1, batch, k * n),), ((1, n, column),), ((1, k, down),))
    return ContractSpec(
        "kernel", arguments, batch, m, n, k, total, load_a, load_b, units[0], units[1], epilogue,
        64, (1 << 12, 1 << 14, 1 << 20), max_threads=threads, threads=threads, group=kind,
        tiles=True, a_narrow=left if placed else None, b_narrow=right if placed else None,
    )  # fmt: skip


def _load(specs: dict[str, ContractSpec], folder: Path) -> tuple[ctypes.CDLL, int]:
    """All kernels in one library, and the bytes of scratch that they need."""
    sections: dict[str, str] = {}
    bodies, space = [], 0
    for name, spec in specs.items():
        spec = dataclasses.replace(spec, name=name)
        made = emit_contract(spec, choose_packed_form(grouped(spec), spec.max_threads > 1))
        assert "in matrix registers" in made.note
        sections |= dict(made.sections)
        bodies.append(made.text)
        space = max(space, made.workspace_bytes)
    (folder / "k.c").write_text(TYPES + "".join(sections.values()) + "".join(bodies))
    assert CC
    command = [*CC, *FLAGS, str(folder / "k.c"), "-o", str(folder / "k.so")]
    subprocess.run(command, check=True)
    return ctypes.CDLL(str(folder / "k.so")), space


def _check(kind: str, shape: tuple[int, ...], folder: Path, a: Any, b: Any, want: Any) -> None:
    """All kernels of a shape: operands along rows and columns, and with and without their place."""
    both = [(units, placed) for units in ("kn", "kk", "mn", "mk") for placed in (False, True)]
    specs = {f"{u}{placed:d}": _spec(kind, shape, u, placed) for u, placed in both}
    library, size = _load(specs, folder)
    for name in specs:
        left, right = _laid(a, name[0] == "m"), _laid(b, name[1] == "k")
        out = np.full(want.shape, -1, want.dtype)
        space = np.full(size + 64, 0xFF, np.uint8)
        places = [ctypes.c_void_p(x.ctypes.data) for x in (left, right, out)]
        start = ctypes.c_void_p(space.ctypes.data + -space.ctypes.data % 64)
        getattr(library, name)(*places, start, ctypes.c_int(shape[-1]))
        np.testing.assert_array_equal(out, want, err_msg=name)


def _halves(rng: Any, *shape: int) -> Any:
    bits = rng.standard_normal(shape, dtype=np.float32).view(np.uint32) >> 16
    return bits.astype(np.uint16)


def _wide(halves: Any) -> Any:
    return (halves.astype(np.uint32) << 16).view(np.float32)


def _in_squares(a: Any, b: Any) -> Any:
    """Sums of float32 in the order of the instruction: 32 steps at a time, even and odd ones
    apart; the products of bfloat16 are exact."""
    fill = -a.shape[-1] % 32
    a = np.pad(a, ((0, 0), (0, 0), (0, fill)))
    b = np.pad(b, ((0, 0), (0, fill), (0, 0)))
    total = np.zeros((*a.shape[:2], b.shape[2]), np.float32)
    for start in range(0, a.shape[2], 32):
        sums = [np.zeros_like(total) for _ in range(2)]
        for k in range(start, start + 32):
            sums[k % 2] += a[:, :, k : k + 1] * b[:, k : k + 1]
        total += sums[0] + sums[1]
    return total


@pytest.mark.parametrize("shape", SHAPES)
def test_bfloat16(registers: ctypes.CDLL, tmp_path: Path, shape: tuple[int, ...]) -> None:
    batch, m, n, k, _ = shape
    rng = np.random.default_rng(0)
    a, b = _halves(rng, batch, m, k), _halves(rng, batch, k, n)
    _check("bf16x2", shape, tmp_path, a, b, _in_squares(_wide(a), _wide(b)))


@pytest.mark.parametrize("shape", SHAPES)
def test_int8(registers: ctypes.CDLL, tmp_path: Path, shape: tuple[int, ...]) -> None:
    batch, m, n, k, _ = shape
    rng = np.random.default_rng(1)
    a = rng.integers(-128, 128, (batch, m, k)).astype(np.int8)
    b = rng.integers(-128, 128, (batch, k, n)).astype(np.int8)
    a[:, :3], b[:, :, :3] = -128, -128
    _check("i8x4", shape, tmp_path, a, b, a.astype(np.int32) @ b.astype(np.int32))


def _laid(array: Any, across: bool) -> Any:
    return np.ascontiguousarray(array.transpose(0, 2, 1) if across else array)


def _bf16(*shape: int) -> lt.Tensor:
    return lt.randn(*shape).bfloat16().realize()


def _both(f: Callable[..., lt.Tensor], *operands: lt.Tensor) -> tuple[lt.Tensor, lt.Tensor]:
    """A result of bfloat16, and what it is in float32."""
    return f(*operands), f(*(x.float() for x in operands))


Case = Callable[[], tuple[lt.Tensor, lt.Tensor]]
CASES: dict[str, Case] = {
    "plain": lambda: _both(lambda a, b: a @ b, _bf16(70, 130), _bf16(130, 90)),
    "weights": lambda: _both(lambda a, b: a @ b.T, _bf16(70, 130), _bf16(90, 130)),
    "gradient": lambda: _both(lambda a: a.T @ a, _bf16(70, 130)),
    "what follows": lambda: _both(lambda a, b: lt.relu(a @ b + 1), _bf16(64, 96), _bf16(96, 90)),
    "what comes before": lambda: _both(
        lambda a, b: lt.relu(a) @ (b * 2), _bf16(64, 96), _bf16(96, 90)
    ),
    "batches": lambda: _both(lambda a, b: a @ b, _bf16(6, 64, 64), _bf16(6, 64, 64)),
    "transposed batches": lambda: _both(lambda a, b: a @ b.mT, _bf16(6, 64, 64), _bf16(6, 64, 64)),
    "heads": lambda: _both(
        lambda q, b: q.transpose(1, 2).reshape(512, 32) @ b, _bf16(2, 64, 4, 32), _bf16(32, 64)
    ),
    "heads across": lambda: _both(
        lambda q, b: q.transpose(1, 2).mT.reshape(256, 64) @ b, _bf16(2, 64, 4, 32), _bf16(64, 64)
    ),
    "put together": lambda: _both(
        lambda q, b: q.transpose(1, 2).reshape(128, 128) @ b, _bf16(2, 4, 64, 32), _bf16(128, 40)
    ),
    "every other step": lambda: _both(lambda a, b: a[:, ::2] @ b, _bf16(70, 130), _bf16(65, 90)),
    "windows": lambda: _both(
        lambda a, b: a[1:, 2:98] @ b[3:99, 1:], _bf16(70, 130), _bf16(130, 90)
    ),
    "odd steps": lambda: _both(lambda a, b: a @ b, _bf16(70, 97), _bf16(97, 90)),
    "in bands": lambda: _both(
        lambda x, u, v: lt.relu(x @ u.T) @ v.T, _bf16(700, 256), _bf16(512, 256), _bf16(256, 512)
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_products_of_tensors(tiled: Callable[[], int], name: str) -> None:
    lt.manual_seed(0)
    with config.override(disk_cache=False, verify=True):
        got, want = (t.realize() for t in CASES[name]())
    assert tiled() > 0
    error = (got.float() - want).abs().max() / want.abs().max()
    assert float(error) < 0.01


def test_bands_keep_every_bit(tiled: Callable[[], int]) -> None:
    x, u, v = _bf16(700, 256), _bf16(512, 256), _bf16(256, 512)
    results = []
    for bands in (False, True):
        with config.override(disk_cache=False, bands=bands):
            results.append((lt.relu(x @ u.T) @ v.T).realize())
    assert tiled() > 0
    assert lt.equal(*results)


@pytest.mark.parametrize("any_size", [False, True])
def test_int8_wraps(tiled: Callable[[], int], any_size: bool) -> None:
    rows = 96 if any_size else 64
    a, b = (lt.randint(-128, 128, s, dtype=lt.int8).realize() for s in ((rows, 200), (200, 64)))
    with config.override(disk_cache=False, verify=True, any_size=any_size):
        got = (a @ b).realize()
    assert tiled() > 0
    want = (a.numpy().astype(np.int64) @ b.numpy().astype(np.int64)).astype(np.int8)
    np.testing.assert_array_equal(got.numpy(), want)


def test_other_sizes_share_a_kernel(tiled: Callable[[], int]) -> None:
    weight = _bf16(96, 64)
    operands = [_bf16(rows, 96) for rows in (40, 50, 60, 70, 113, 200, 301, 17, 33)]
    before = len(lt.why_compiled())
    with config.override(disk_cache=False):
        results = [(x @ weight - 0.375).realize() for x in operands]  # a graph of its own
    made = [e.kind for e in lt.why_compiled()[before:]].count("compile")
    assert tiled() > 0
    assert made <= 3
    for x, got in zip(operands, results, strict=True):
        want = x.float() @ weight.float() - 0.375
        assert float((got.float() - want).abs().max() / want.abs().max()) < 0.01


def test_float32_keeps_its_order(tiled: Callable[[], int]) -> None:
    """Numbers that bfloat16 could hold, multiplied in float32: bits are those of fused steps."""
    a, b = _bf16(64, 96), _bf16(96, 64)
    with config.override(disk_cache=False):
        got = (a.float() @ b.float()).realize()
        want = a.float().realize() @ b.float().realize()
    assert lt.equal(got, want)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("+ (g_row) * 48 + (g_q0)", "+ (g_row) * 49 + (g_q0)"),
        (", 768,\n", ", 784,\n"),
        ("g_from[g_k - g_q0]", "g_from[g_k - g_q0 + 1]"),
        ("lz_mat_bf16x2_32x32v64(g_p1 - g_p0", "lz_mat_bf16x2_32x32v64(g_p1 - g_p0 + 16"),
        ("g_q0 += 16", "g_q0 += 15"),
    ],
)
def test_broken_text_is_found(old: str, new: str) -> None:
    operands = [ops.input_((100, 96), bfloat16), ops.input_((96, 64), bfloat16)]
    (kernel,) = compile_graph([(wrap(operands[0]) @ wrap(operands[1])).node], operands)[1]
    printed = print_kernel_c(kernel, 64, (48 << 10, 2 << 20, 32 << 20), traits=TILED)
    text, sizes = printed.source.text, argument_bytes(kernel, printed.workspace, printed.offsets)
    assert not check_kernel_c(text, sizes)
    assert old in text
    assert check_kernel_c(text.replace(old, new), sizes)


def test_they_can_be_left_out(tiled: Callable[[], int]) -> None:
    node = (wrap(ops.input_((64, 64), bfloat16)), wrap(ops.input_((64, 64), bfloat16)))
    (kernel,) = compile_graph([(node[0] @ node[1]).node], [t.node for t in node])[1]
    for allowed in (True, False):
        with config.override(matrix_registers=allowed):
            printed = print_kernel_c(
                kernel, 64, (48 << 10, 2 << 20, 32 << 20), traits=devices.traits()
            )
        assert ("lz_mat_begin();" in printed.source.text) is allowed


def test_attention_of_bfloat16(tiled: Callable[[], int]) -> None:
    q, k, v = (_bf16(2, 4, 100, 64) for _ in range(3))
    with config.override(disk_cache=False):
        got = F.scaled_dot_product_attention(q, k, v).realize()
    want = F.scaled_dot_product_attention(q.float(), k.float(), v.float())
    assert float((got.float() - want).abs().max()) < 0.01


@pytest.mark.parametrize("answer", [0, -1])
def test_the_system_is_asked_first(monkeypatch: Any, answer: int) -> None:
    class Library:
        def syscall(self, *numbers: int) -> int:
            assert numbers == (158, 0x1023, 18)
            return answer

    monkeypatch.setattr(ctypes, "CDLL", lambda _: Library())
    flags = ("amx_bf16", "amx_int8", "amx_tile", "avx512f")
    assert devices._tiled(flags) == (frozenset() if answer else TILED.tiled)
    assert devices._tiled(flags[1:]) == (frozenset() if answer else {"i8x4"})
    assert devices._tiled(("amx_bf16", "amx_int8", "avx512f")) == frozenset()


def test_bytes_are_those_of_the_assembler(tmp_path: Path) -> None:
    pairs = [(clear(3), "tilezero %tmm3")]
    pairs += [(load(r, "p", "64ll"), f"tileloadd (%rax,%rdx,1), %tmm{r}") for r in (0, 7)]
    pairs += [(store(r, "p", "64ll"), f"tilestored %tmm{r}, (%rax,%rdx,1)") for r in (1, 6)]
    pairs.append((multiply("bf16x2", 1, 4, 7), "tdpbf16ps %tmm7, %tmm4, %tmm1"))
    pairs.append((multiply("i8x4", 3, 5, 6), "tdpbssd %tmm6, %tmm5, %tmm3"))
    for name in ("bytes", "words"):
        (tmp_path / f"{name}.s").write_text(
            "\n".join(one.split('"')[1] if name == "bytes" else other for one, other in pairs)
            + "\n"
        )
        assert CC
        command = [*CC, "-c", str(tmp_path / f"{name}.s"), "-o", str(tmp_path / f"{name}.o")]
        done = subprocess.run(command, capture_output=True)
        if done.returncode and name == "words":
            pytest.skip("the assembler does not know these instructions")
        assert done.returncode == 0, done.stderr
    assert (tmp_path / "bytes.o").read_bytes() == (tmp_path / "words.o").read_bytes()


def test_groups_that_cannot_be_read_at_once() -> None:
    whole = Place("a", 4, ((1, 3, 64),), ((1, 8, 32),), ((1, 32, 1),))
    found = in_groups(whole, 2)
    assert found == Place("((const lz_u32 *)a)", 2, ((1, 3, 32),), ((1, 8, 16),), ((1, 16, 1),))
    for other in (
        whole._replace(start=3),
        whole._replace(sides=((1, 8, 33),)),
        whole._replace(steps=((1, 31, 1),)),
        whole._replace(steps=((1, 32, 2),)),
    ):
        assert in_groups(other, 2) is None
    heads = in_groups(whole._replace(steps=((16, 2, 64), (1, 16, 1))), 4)
    assert heads is not None
    assert heads.steps == ((4, 2, 16), (1, 4, 1))
