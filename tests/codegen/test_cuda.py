"""The CUDA target: the same text compiles with NVRTC and agrees with NumPy on the emulator."""

from __future__ import annotations

import hashlib
import shutil
from dataclasses import replace

import numpy as np
import pytest

from lazyt.codegen.cuda.target import CudaKernel, device_helpers, print_kernel_cuda, program_text
from lazyt.errors import InternalError
from lazyt.ir import dtypes
from lazyt.ir.dtypes import bfloat16, bool_, float16, float32, float64, int8, int32, int64, uint8
from lazyt.ir.index import Axis, Load, Var, constant, variable
from lazyt.ir.kernel import Buffer, Kernel, Phase, Reduce, Stage, Store
from lazyt.runtime.cuda import nvrtc
from lazyt.runtime.cuda.emulated import Emulator
from tests.codegen import cuda_cases as cases
from tests.codegen import cuda_order_cases as order
from tests.codegen.cuda_cases import CASES, Case

needs_cxx = pytest.mark.skipif(
    not (shutil.which("g++") or shutil.which("clang++")), reason="needs a C++ compiler"
)
needs_nvrtc = pytest.mark.skipif(not nvrtc.available(), reason="needs cuda-python and NVRTC")


def _fill() -> None:
    """All cases: every form, ragged sizes around its borders, and every kind of type."""
    for n in (1, 7, 31, 33, 1000, 1025):
        cases.chain(n, float32)
        cases.reduction("sum", (3, n), float32, "inner")
        cases.reduction("sum", (n, 33), float32, "grid")
        cases.softmax(5, n, float32, "inner")
    for dtype in (bfloat16, float16, float64, int64, int8, uint8, int32):
        cases.chain(1000, dtype)
    cases.chain(3000, float32, most_blocks=3)
    cases.chain((1 << 20) + 5, float32)
    cases.broadcast(7, 33)
    cases.add_row(1032, 1024, float32)
    cases.add_row(1050, 1000, bfloat16)
    cases.add_row(1050, 1002, float32)
    cases.add_row(1049, 1001, int8)
    cases.random_bits(1025)
    for kind, dtype in (
        ("max", int64), ("min", float32), ("prod", float64), ("any", bool_), ("all", float32),
        ("sum", bfloat16), ("sum", int64), ("argmax", float32), ("argmin", int64), ("max", int8),
    ):  # fmt: skip
        cases.reduction(kind, (5, 1000), dtype, "inner")
        cases.reduction(kind, (2500, 9), dtype, "grid")
        cases.reduction(kind, (2, 2500), dtype, "inner")
    cases.reduction("sum", (1, 1_100_000), float32, "inner")
    cases.reduction("argmax", (1, 1_050_000), float32, "inner")
    cases.reduction("sum", (20_000, 8), float32, "grid")
    cases.reduction("sum", (40, 100), float32, "inner", most_blocks=3)
    cases.reduction("sum", (40, 2100), float32, "inner", most_blocks=3)
    cases.reduction("sum", (100, 200), float32, "grid", most_blocks=3)
    for n in (5000, 40_000):
        cases.softmax(2, n, float32, "inner")
    cases.softmax(64, 100, bfloat16, "grid")
    cases.softmax(3, 1500, bfloat16, "inner")
    for n in (1, 31, 768, 1025):
        cases.layer_norm(6, n)
    for n in (3000, 4096, 100_000):
        cases.split_sum(n)
    order.scan("sum", 5, 100, float32, "inner")
    order.scan("max", 70, 33, int64, "grid")
    order.gather(50, 33, 7)
    order.gather(1000, 1, 1000)
    order.scatter(10, 100, 33, "add")
    order.scatter(10, 40, 1, None)
    for batch, m, n, k in (
        (1, 1, 1, 1), (1, 33, 31, 17), (2, 64, 64, 16), (1, 7, 100, 1025), (3, 100, 1, 33),
        (1, 1, 129, 64), (1, 130, 70, 5),
    ):  # fmt: skip
        order.contract(batch, m, n, k)
    order.contract(1, 65, 33, 40, turned=True)
    order.contract(2, 200, 130, 20, cap=3)
    order.contract(40, 256, 256, 17)
    for dtype in (bfloat16, float16, float64, int64, int8):
        order.contract(1, 33, 65, 31, dtype)


_fill()


@pytest.fixture(scope="module")
def printed() -> dict[str, CudaKernel]:
    """Every case's kernel as text."""
    return {n: print_kernel_cuda(c.kernel, c.most_blocks) for n, c in CASES.items()}


@pytest.fixture(scope="module")
def emulator(printed: dict[str, CudaKernel]) -> Emulator:
    """All kernels, compiled for the CPU."""
    functions = [run.function for kernel in printed.values() for run in kernel.launches]
    return Emulator(device_helpers("emulator") + program_text(printed.values()), functions)


@pytest.fixture(scope="module")
def cubin(printed: dict[str, CudaKernel]) -> nvrtc.Cubin:
    """All kernels, compiled for a GPU."""
    return nvrtc.compile_cubin(device_helpers("cuda") + program_text(printed.values()))


def run(emulator: Emulator, case: Case, kernel: CudaKernel, seed: int) -> dict[str, np.ndarray]:
    """What the buffers hold after the launches."""
    memory, fences = {}, []
    for buffer in case.kernel.buffers:
        size = int(np.prod(buffer.shape)) * buffer.dtype.itemsize
        # Filled with what no right kernel leaves behind, inside the buffer and around it.
        fence = np.full(size + 128, 0x7B, np.uint8)
        inside = fence[64 : 64 + size].view(buffer.dtype.numpy).reshape(buffer.shape)
        if buffer.name in case.before:
            inside[...] = case.before[buffer.name]
        memory[buffer.name] = inside
        fences.append(fence)
    pointers = [memory[b.name].ctypes.data for b in case.kernel.buffers]
    for step in kernel.launches:
        shape = step.blocks, step.threads, step.shared_bytes
        emulator.launch(step.function, *shape, pointers, step.collective, seed)
    for fence in fences:
        assert (fence[:64] == 0x7B).all() and (fence[-64:] == 0x7B).all()
    return memory


@needs_cxx
@pytest.mark.parametrize("name", CASES)
def test_emulator_agrees_with_numpy(
    name: str, emulator: Emulator, printed: dict[str, CudaKernel]
) -> None:
    case = CASES[name]
    kinds = {b.name: b.dtype for b in case.kernel.buffers}
    for seed in case.seeds:
        memory = run(emulator, case, printed[name], seed)
        for buffer, wanted in case.wanted.items():
            got = cases.wide(memory[buffer], kinds[buffer])
            if case.tolerance == 0:
                np.testing.assert_array_equal(got, wanted.astype(got.dtype))
            else:
                error = np.abs(got.astype(np.float64) - wanted) / (1 + np.abs(wanted))
                assert error.max() <= case.tolerance, f"{error.max()} > {case.tolerance}"
        for buffer, before in case.before.items():
            if buffer not in case.wanted:
                np.testing.assert_array_equal(memory[buffer], before)


@needs_nvrtc
@pytest.mark.nvrtc
def test_every_kernel_compiles(cubin: nvrtc.Cubin, printed: dict[str, CudaKernel]) -> None:
    functions = {run.function for kernel in printed.values() for run in kernel.launches}
    assert len(functions) >= 60
    assert set(cubin.registers) == functions
    assert cubin.image[:4] == b"\x7fELF"
    assert all(cubin.registers[f] <= 255 for f in functions)
    assert not any(cubin.spilled.values()), cubin.spilled


@needs_nvrtc
@pytest.mark.nvrtc
def test_older_architecture() -> None:
    kernel = print_kernel_cuda(CASES["softmax_5_1000_float32_inner"].kernel)
    image = nvrtc.compile_cubin(device_helpers("cuda") + program_text([kernel]), "sm_80").image
    assert image[:4] == b"\x7fELF"


def test_both_compilers_get_the_same_text(printed: dict[str, CudaKernel]) -> None:
    texts = [program_text(printed.values()) for _ in range(2)]
    assert len({hashlib.sha256(t.encode()).hexdigest() for t in texts}) == 1
    assert "asm" not in texts[0]
    for word in ("threadIdx", "blockIdx", "__shared__", "__syncthreads", "__shfl"):
        assert word not in texts[0], f"kernels call helpers, not {word}"


def test_forms(printed: dict[str, CudaKernel]) -> None:
    notes = {name: kernel.note for name, kernel in printed.items()}
    assert notes["chain_7_float32"] == "threads"
    assert notes["softmax_5_7_float32_inner"] == "threads"
    for name, width in (
        ("add_row_1032_1024_float32", 4),
        ("add_row_1050_1000_bfloat16", 8),
        ("add_row_1050_1002_float32", 2),
    ):
        assert f"u_ < {width}" in printed[name].text and "lz_load_adjacent" in printed[name].text
    assert "adjacent" not in printed["add_row_1049_1001_int8"].text
    assert notes["softmax_5_1000_float32_inner"] == "rows"
    assert notes["sum_1000_33_float32_grid"] == "columns"
    assert notes["scan_sum_5_100_float32_inner"] == "threads"
    assert notes["split_sum_3000"] == "rows, threads"
    assert notes["contract_1_33_31_17_float32"].startswith("contract")


def _doubled(shape: tuple[int, ...]) -> Kernel:
    axes = cases.axes(*shape)
    index = cases.at(axes)
    value = Load("x", index, float32)
    buffers = (Buffer("x", float32, shape, "in"), Buffer("y", float32, shape, "out"))
    stage = Stage(None, (Store("y", index, value),))
    return Kernel("doubled", buffers, (Phase(axes, (stage,), "grid"),))


def test_empty_grids_are_not_launched() -> None:
    assert print_kernel_cuda(_doubled((3, 0))).launches == ()


def test_index_width_follows_the_extents() -> None:
    assert "const int point_" in print_kernel_cuda(_doubled((1 << 20,))).text
    wide = print_kernel_cuda(_doubled((1 << 17, 1 << 17)))
    assert "const lz_i64 point_" in wide.text
    assert wide.launches[0].blocks == 1 << 24


def test_grids_past_the_largest_launch() -> None:
    kernel = print_kernel_cuda(_doubled((1 << 31, 1 << 12)))
    assert kernel.launches[0].blocks == (1 << 31) - 1
    assert "tile_ += lz_blocks()" in kernel.text


@needs_cxx
@pytest.mark.parametrize("lanes", ["inner", "grid"])
def test_empty_reduction(lanes: str) -> None:
    i, k = Axis("i0", 40), Axis("k0", 0)
    load = Load("x", (variable(i), variable(k)), float32)
    stages = (
        Stage(k, (Reduce("r0", "sum", load, float32),)),
        Stage(None, (Store("y", (variable(i),), Var("r0", float32)),)),
    )
    buffers = (Buffer("x", float32, (40, 0), "in"), Buffer("y", float32, (40,), "out"))
    kernel = Kernel("empty", buffers, (Phase((i,), stages, lanes),))
    made = print_kernel_cuda(kernel)
    machine = Emulator(device_helpers("emulator") + program_text([made]), ["lz_kernel_empty"])
    case = Case(kernel, {}, {})
    memory = run(machine, case, made, 0)
    np.testing.assert_array_equal(memory["y"], np.zeros(40, np.float32))


def test_renamed_kernels_keep_their_phases(printed: dict[str, CudaKernel]) -> None:
    for kernel in ("split_sum_3000", "chain_7_float32"):
        old, name = printed[kernel], f"lz_kernel_{kernel}"
        new = old.renamed("other")
        assert [x.function for x in new.launches] == [
            x.function.replace(name, "other") for x in old.launches
        ]
        assert new.text.count(" other") == len(old.launches)
        assert name not in new.text
        assert new.renamed(name) == old


def _many_sums(count: int, steps: int) -> Kernel:
    i, k = Axis("i0", 4), Axis("k0", steps)
    load = Load("x", (variable(i), variable(k)), float64)
    sums = [Reduce(f"r{n}", "sum", load, float64) for n in range(count)]
    results = [Store("y", (variable(i),), Var(s.name, float64)) for s in sums]
    stages = (Stage(k, tuple(sums)), Stage(None, tuple(results)))
    buffers = (Buffer("x", float64, (4, steps), "in"), Buffer("y", float64, (4,), "out"))
    return Kernel("many", buffers, (Phase((i,), stages, "inner"),))


def test_shared_memory_has_a_limit() -> None:
    few = print_kernel_cuda(_many_sums(5, 2_000_000))
    assert few.note == "rows" and few.launches[0].shared_bytes == 5 * 1024 * 8
    many = print_kernel_cuda(_many_sums(7, 2_000_000))
    assert many.note.startswith("threads (too many") and many.launches[0].shared_bytes == 0


def _in_order(kernel: Kernel) -> Kernel:
    phase = kernel.phases[0]
    assert isinstance(phase, Phase)
    stages = tuple(replace(s, sequential=True) for s in phase.stages)
    return replace(kernel, phases=(replace(phase, stages=stages),))


def test_kept_values_have_a_limit() -> None:
    kernel = CASES["softmax_2_40000_float32_inner"].kernel
    assert print_kernel_cuda(_in_order(kernel)).note == "threads"
    longer = cases.softmax(1, 70_000, float32, "inner").kernel
    del CASES[longer.name]  # printed only
    assert print_kernel_cuda(longer).note == "rows"
    with pytest.raises(InternalError, match="would keep 280000 bytes"):
        print_kernel_cuda(_in_order(longer))


def test_every_type_has_helpers() -> None:
    for target in ("cuda", "emulator"):
        text = device_helpers(target)
        for dtype in dtypes.ALL:
            assert f"({dtype.compute.suffix}, " in text


def test_one_threads_stores_need_no_barrier() -> None:
    """Stores outside of loops are made by the same thread; those of a loop's steps are not."""
    i, k = Axis("i0", 4), Axis("k0", 100)
    x = Load("x", (variable(i), variable(k)), float32)
    first = Store("y", (variable(i), constant(0)), Load("w", (variable(i),), float32))
    second = replace(first, index=(variable(i), constant(1)))
    total = Stage(k, (Reduce("r0", "sum", x, float32),))
    buffers = (Buffer("x", float32, (4, 100), "in"), Buffer("w", float32, (4,), "in"))
    out = Buffer("y", float32, (4, 100), "out")
    for stages, barriers in (
        ((Stage(None, (first, second)), total), 0),
        ((total, Stage(k, (Store("y", x.index, x),)), Stage(None, (first,))), 1),
    ):
        kernel = Kernel("stores", (*buffers, out), (Phase((i,), stages, "inner"),))
        made = print_kernel_cuda(kernel)
        assert made.note == "rows" and made.text.count("lz_sync_warp();") == barriers
