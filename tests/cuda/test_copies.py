"""Asynchronous copies into shared memory: what the emulator finds wrong with them, and where the
contractions' kernels have them."""

from __future__ import annotations

import re
import shutil
from functools import partial

import numpy as np
import pytest

from lazyt import ops
from lazyt.codegen.cuda.target import device_helpers, program_text
from lazyt.codegen.cuda.threads import MOST_SHARED_BYTES
from lazyt.errors import InternalError
from lazyt.ir.dtypes import (
    DType,
    bfloat16,
    float16,
    float32,
    float64,
    int8,
    int16,
    int64,
)
from lazyt.ir.graph import Node
from lazyt.ir.program import KernelSource
from lazyt.runtime.cuda import nvrtc
from lazyt.runtime.cuda.emulated import Emulator
from tests.cuda import corpus, corpus_plans
from tests.cuda.corpus import Corpus
from tests.cuda.corpus_cells import Build, Cell, numbers, product
from tests.cuda.cubins import accesses

pytestmark = pytest.mark.skipif(
    not (shutil.which("g++") or shutil.which("clang++")), reason="needs a C++ compiler"
)
needs_nvrtc = pytest.mark.skipif(not nvrtc.available(), reason="needs cuda-python and NVRTC")

HEAD = 'extern "C" __global__ void '
START = """
  lz_shared_i32 s = lz_take_shared_i32(0, 512);
  const int t = lz_thread();
"""
COPY = "lz_copy_async_i32(s, 4 * t, x + 4 * t, 4);"
NEXT = "lz_copy_async_i32(s, 256 + 4 * t, x + 4 * t, 4);"
#: Kernels over 256 elements, by what is wrong with them.
BODIES = {
    "right": (
        f"{COPY} lz_commit_copies(); lz_wait_copies(0); lz_sync_block(); y[t] = s[255 - t];",
        "",
    ),
    "own": (f"{COPY} lz_commit_copies(); lz_wait_copies(0); y[t] = s[4 * t + 3];", ""),
    "older": (
        f"{COPY} lz_commit_copies(); {NEXT} lz_commit_copies(); lz_wait_copies(1); "
        "y[t] = s[4 * t]; lz_wait_copies(0);",
        "",
    ),
    "newer": (
        f"{COPY} lz_commit_copies(); {NEXT} lz_commit_copies(); lz_wait_copies(1); "
        "y[t] = s[256 + 4 * t]; lz_wait_copies(0);",
        "has not waited for it",
    ),
    "no_wait": (f"{COPY} lz_commit_copies(); y[t] = s[4 * t];", "has not waited for it"),
    "no_commit": (f"{COPY} lz_wait_copies(0); y[t] = s[4 * t];", "has not waited for it"),
    "no_barrier": (
        f"{COPY} lz_commit_copies(); lz_wait_copies(0); y[t] = s[255 - t];",
        "no barrier is in between",
    ),
    "barrier_first": (
        f"{COPY} lz_commit_copies(); lz_sync_block(); lz_wait_copies(0); y[t] = s[255 - t];",
        "has not waited for it|no barrier is in between",
    ),
    "still_read": (
        f"s[4 * t] = t; lz_sync_block(); y[t] = s[4 * (63 - t)]; {COPY} lz_commit_copies(); "
        "lz_wait_copies(0);",
        "no barrier is in between|has not waited for it",
    ),
    "written_over": (f"{COPY} s[4 * t] = 1; lz_commit_copies(); lz_wait_copies(0);", "not waited"),
    "forgotten": (f"{COPY} lz_commit_copies();", "a copy that nobody waited for"),
    "beside": ("lz_copy_async_i32(s, 1 + 4 * t, x + 4 * t, 4);", "not aligned"),
    "from_beside": ("lz_copy_async_i32(s, 4 * t, x + 1 + 4 * t, 4);", "not aligned"),
    "three": ("lz_copy_async_i32(s, 4 * t, x + 4 * t, 3);", "not 4, 8 or 16 bytes"),
    "outside": ("lz_copy_async_i32(s, 508 + 4 * t, x, 4);", "out of bounds"),
    "changed": (
        "lz_copy_async_i32(s, t, x + t, 1); lz_commit_copies(); x[t] = -1; lz_wait_copies(0); "
        "y[t] = s[t];",
        "",
    ),
}


@pytest.fixture(scope="module")
def machine() -> Emulator:
    text = "\n".join(
        f"{HEAD}{name}(lz_i32 *restrict x, lz_i32 *restrict y)\n{{{START} {body} }}"
        for name, (body, _) in BODIES.items()
    )
    return Emulator(device_helpers("emulator") + program_text([]) + text, BODIES)


def run(machine: Emulator, name: str, seed: int) -> np.ndarray:
    """What a kernel of 64 threads leaves of x = 0, 1, 2, ..."""
    memory: np.ndarray = np.arange(256 + 8, dtype=np.int32)
    x = memory[-memory.ctypes.data % 16 // 4 :][:256]
    x[:] = np.arange(256)
    y: np.ndarray = np.zeros(64, np.int32)
    machine.launch(name, 1, 64, 2048, [x.ctypes.data, y.ctypes.data], True, seed)
    return y


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", BODIES)
def test_rules_of_copies(machine: Emulator, name: str, seed: int) -> None:
    fault = BODIES[name][1]
    if not fault:
        run(machine, name, seed)
        return
    with pytest.raises(InternalError, match=fault):
        run(machine, name, seed)


def test_copies_land_early_and_late(machine: Emulator) -> None:
    """A source that changes while it is copied: both what it was and what it is can arrive."""
    first = np.arange(64)
    for seed in range(4):
        np.testing.assert_array_equal(run(machine, "right", seed), 255 - first)
        np.testing.assert_array_equal(run(machine, "own", seed), 4 * first + 3)
    found = {tuple(run(machine, "changed", seed)) for seed in range(4)}
    assert found == {tuple(first), (-1,) * 64}


# --------------------------------------------------------------- contractions


def turned(dtype: DType, m: int, n: int, k: int) -> list[Node]:
    """A product whose right operand is contiguous along the summed axis."""
    return [ops.contract(numbers((m, k), dtype), numbers((n, k), dtype, 1), (0, 1), (2, 1), (0, 2))]


def plan_of(build: Build) -> corpus_plans.Plan:
    made = corpus_plans.make_plan(Cell("copies", build, light=False, scale=40))
    assert made is not None
    return made


def kernel_of(build: Build) -> KernelSource:
    (kernel,) = plan_of(build).program.kernels
    return kernel


def copied(text: str) -> set[tuple[str, int]]:
    """Which operand is copied by how many elements at a time."""
    calls = re.findall(r"lz_copy_async_\w+\((\w+), .*, (\d+)\);", text)
    return {(array, int(count)) for array, count in calls}


@pytest.mark.parametrize(
    ("build", "wanted"),
    [
        (partial(product, float32, 64, 64, 64), {("left_", 1), ("right_", 4)}),
        (partial(product, float32, 64, 66, 64), {("left_", 1), ("right_", 2)}),
        (partial(product, float32, 64, 67, 64), {("left_", 1), ("right_", 1)}),
        (partial(turned, float32, 64, 64, 64), {("left_", 1), ("right_", 1)}),
        (partial(product, float64, 64, 64, 64), {("left_", 1), ("right_", 2)}),
        (partial(product, int64, 64, 65, 64), {("left_", 1), ("right_", 1)}),
        (partial(product, int8, 64, 64, 64), {("right_", 4)}),
        (partial(product, int16, 64, 64, 64), {("right_", 4)}),
        (partial(product, float16, 64, 64, 64), set()),
        (partial(product, bfloat16, 64, 64, 64), set()),
    ],
)
def test_what_is_copied(build: Build, wanted: set[tuple[str, int]]) -> None:
    """As much at a time as type and strides allow; what is converted passes registers."""
    text = kernel_of(build).text
    assert copied(text) == wanted
    assert ("lz_wait_copies(1);" in text) == bool(wanted)
    assert ("next_left_" in text) == (("left_", 1) not in wanted)


def test_a_fused_operand_passes_registers() -> None:
    def build() -> list[Node]:
        a, b = numbers((64, 64), float32), numbers((64, 64), float32, 1)
        return [ops.contract(ops.apply("neg", a), b, (0, 1), (1, 2), (0, 2))]

    text = kernel_of(build).text
    assert copied(text) == {("right_", 4)} and "next_left_[i_] = -x" in text


@pytest.mark.parametrize("dtype", [float32, float64, bfloat16, int8, int64])
def test_tiles_come_ahead_and_have_room(dtype: DType) -> None:
    """At least two tiles of each operand, in the memory that a block has without being asked."""
    shapes = ((1024, 1024), (4096, 1), (1, 4096), (1024, 7), (200, 200))
    for (m, n), make in ((s, f) for s in shapes for f in (product, turned)):
        kernel = kernel_of(partial(make, dtype, m, n, 1024))
        assert 0 < kernel.grids[0].shared_bytes <= MOST_SHARED_BYTES
        assert re.search(r"const int get_ = step_ % [23];", kernel.text), (m, n)


def corpus_of(*builds: Build) -> Corpus:
    made = [plan_of(build) for build in builds]
    kernels = corpus_plans.distinct(made)
    return Corpus(made, kernels, [list(kernels.values())], watched=True)


def test_every_wait_is_needed() -> None:
    """Values under four schedules; without a barrier, a wait or a commit there is a report."""
    whole = corpus_of(
        partial(product, float32, 40, 44, 70),
        partial(turned, float64, 9, 30, 33),
        partial(product, bfloat16, 40, 44, 70),
        partial(product, int8, 40, 44, 35),
        partial(product, float32, 5, 6, 7),
    )
    assert corpus.run_all(whole) == []
    cuts = corpus.cut_all(whole)
    assert cuts.unnoticed == []
    assert cuts.kinds == {
        "lz_sync_block": (5, 5), "lz_wait_copies": (4, 4), "lz_commit_copies": (7, 7),
    }  # fmt: skip


@needs_nvrtc
@pytest.mark.nvrtc
@pytest.mark.parametrize("arch", corpus.ARCHITECTURES)
def test_instructions(arch: str) -> None:
    """The GPU's own asynchronous copies, and no loads beside them; conversions have loads."""
    for build, sizes in (
        (partial(product, float32, 256, 256, 64), {4, 16}),
        (partial(product, float64, 256, 256, 64), {8, 16}),
        (partial(product, bfloat16, 256, 256, 64), set()),
    ):
        kernel = kernel_of(build)
        cubin = nvrtc.compile_cubin(corpus_plans.program_text([kernel], "cuda"), arch)
        found = accesses(cubin.image)[kernel.grids[0].function]
        assert {size for kind, size in found if kind == "copy"} == sizes
