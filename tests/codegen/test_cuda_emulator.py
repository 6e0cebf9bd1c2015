"""The emulator finds what a GPU would hang on or silently get wrong."""

from __future__ import annotations

import re
import shutil

import numpy as np
import pytest

from lazyt.codegen.cuda.target import CudaLaunch, device_helpers, print_kernel_cuda, program_text
from lazyt.errors import CompileError, InternalError, NoCompilerError
from lazyt.ir.dtypes import float32
from lazyt.runtime.cuda.emulated import Emulator, find_compiler
from tests.codegen.cuda_cases import CASES, Case, reduction, softmax

pytestmark = pytest.mark.skipif(
    not (shutil.which("g++") or shutil.which("clang++")), reason="needs a C++ compiler"
)

KERNELS = """
extern "C" __global__ void one_waits(lz_i32 *restrict y)
{
  if (lz_thread() != 40)
    lz_sync_block();
  y[0] = 1;
}
extern "C" __global__ void two_places(lz_i32 *restrict y)
{
  if (lz_thread() < 32)
    lz_sync_block();
  else
    lz_sync_block();
}
extern "C" __global__ void outside(lz_i32 *restrict y)
{
  lz_shared_i32 s = lz_take_shared_i32(0, 64);
  s[lz_thread() + 1] = 1;
}
extern "C" __global__ void too_much(lz_i32 *restrict y)
{
  lz_shared_i64 s = lz_take_shared_i64(0, 64);
  s[0] = 1;
}
extern "C" __global__ void unwritten(lz_f32 *restrict y)
{
  lz_shared_f32 s = lz_take_shared_f32(0, 64);
  y[lz_thread()] = s[lz_thread()];
}
extern "C" __global__ void neighbours(lz_i32 *restrict y)
{
  lz_shared_i32 s = lz_take_shared_i32(0, 64);
  s[lz_thread()] = lz_thread();
  lz_sync_block();
  y[lz_block() * 64 + lz_thread()] = s[63 - lz_thread()] + (int)lz_blocks();
}
extern "C" __global__ void lanes(lz_i64 *restrict y)
{
  lz_i64 down = lz_shuffle_down_i64(lz_thread() * 3, 16);
  y[lz_thread()] = down + 1000 * lz_shuffle_first_i64(lz_thread());
}
extern "C" __global__ void warps(lz_i32 *restrict y)
{
  lz_shared_i32 s = lz_take_shared_i32(0, 64);
  s[lz_thread()] = lz_thread();
  lz_sync_warp();
  y[lz_thread()] = s[lz_thread() ^ 1];
  y[lz_thread()] += s[lz_thread() ^ 32];
}
extern "C" __global__ void pairs(lz_i32 *restrict y)
{
  lz_shared_i32 s = lz_take_shared_i32(0, 64);
  s[lz_thread()] = lz_thread();
  lz_sync_warp();
  y[lz_block() * 64 + lz_thread()] = s[lz_thread() ^ 1];
  lz_sync_warp();
  s[lz_thread() ^ 1] = 5;
}
extern "C" __global__ void shuffled(lz_i32 *restrict y)
{
  lz_shared_i32 s = lz_take_shared_i32(0, 64);
  s[lz_thread()] = lz_thread();
  y[lz_thread()] = lz_shuffle_first_i32(3) + s[lz_thread() ^ 1];
}
extern "C" __global__ void read_first(lz_i32 *restrict y)
{
  lz_shared_i32 s = lz_take_shared_i32(0, 64);
  s[lz_thread()] = 1;
  lz_sync_block();
  y[lz_thread()] = s[0] + s[lz_thread()];
  s[lz_thread()] = 2;
}
extern "C" __global__ void both_write(lz_u8 *restrict y)
{
  lz_shared_u8 s = lz_take_shared_u8(0, 64);
  s[lz_thread()] = 1;
  s[lz_thread() / 2] = 2;
}
extern "C" __global__ void vectors(lz_i32 *restrict y)
{
  lz_i32 a[4];
  lz_load_adjacent(a, y);
  a[0] = 1;
  lz_store_adjacent(y, a);
}
"""
NAMES = re.findall(r"void (\w+)\(", KERNELS)


@pytest.fixture(scope="module")
def machine() -> Emulator:
    """The kernels above."""
    return Emulator(device_helpers("emulator") + program_text([]) + KERNELS, NAMES)


def run(
    machine: Emulator,
    name: str,
    dtype: type,
    blocks: int = 2,
    threads: int = 64,
    collective: bool = True,
    seed: int = 0,
) -> np.ndarray:
    """What a kernel with 256 bytes of shared memory leaves in 128 zeros."""
    y: np.ndarray = np.zeros(128, dtype)
    machine.launch(name, blocks, threads, 256, [y.ctypes.data], collective, seed)
    return y


def test_deadlock_names_the_block(machine: Emulator) -> None:
    with pytest.raises(InternalError, match="kernel one_waits, block 0: deadlock, 63 of 64"):
        run(machine, "one_waits", np.int32)


def test_divergent_barriers(machine: Emulator) -> None:
    with pytest.raises(InternalError, match=r"two_places, block 0, thread .*different barriers"):
        run(machine, "two_places", np.int32)


def test_shared_memory_has_bounds(machine: Emulator) -> None:
    with pytest.raises(InternalError, match=r"block 0, thread 63, line .*out of bounds"):
        run(machine, "outside", np.int32)
    with pytest.raises(InternalError, match="outside the launch's shared memory"):
        run(machine, "too_much", np.int32)


def test_a_kernel_said_to_have_no_barrier(machine: Emulator) -> None:
    with pytest.raises(InternalError, match="said to have none"):
        run(machine, "neighbours", np.int32, collective=False)


def test_shared_memory_starts_as_nan(machine: Emulator) -> None:
    assert np.isnan(run(machine, "unwritten", np.float32, blocks=1)[:64]).all()


def test_barriers_order_threads_whatever_the_seed(machine: Emulator) -> None:
    for seed in range(5):
        y = run(machine, "neighbours", np.int32, seed=seed)
        np.testing.assert_array_equal(y, np.tile(np.arange(63, -1, -1), 2) + 2)


def test_shuffles(machine: Emulator) -> None:
    y = run(machine, "lanes", np.int64, blocks=1)[:64]
    lane, warp = np.arange(64) % 32, np.arange(64) // 32
    down = np.where(lane < 16, (np.arange(64) + 16) * 3, np.arange(64) * 3)
    np.testing.assert_array_equal(y, down + 1000 * 32 * warp)


@pytest.mark.parametrize("seed", range(3))
def test_races(seed: int, machine: Emulator) -> None:
    """Two threads and one place, one of them writing, in every order that a missing barrier allows.

    A warp's barrier orders its own threads alone; a shuffle orders no memory.
    """
    for name, said in {
        "warps": r"byte \d+ of shared memory, which thread \d+ (reads|writes), and no barrier",
        "shuffled": "no barrier is in between",
        "read_first": "no barrier is in between",
        "both_write": r"writes byte \d+ of shared memory, which thread \d+ writes",
    }.items():
        with pytest.raises(InternalError, match=said) as caught:
            run(machine, name, np.int32, seed=seed)
        assert f"kernel {name}, block 0, thread " in str(caught.value)
    y = run(machine, "pairs", np.int32, seed=seed)
    np.testing.assert_array_equal(y, np.tile(np.arange(64) ^ 1, 2))


def test_alignment(machine: Emulator) -> None:
    y = np.zeros(8, np.int32)
    machine.launch("vectors", 1, 1, 0, [y.ctypes.data], collective=False)
    assert y[0] == 1
    with pytest.raises(InternalError, match="not aligned"):
        machine.launch("vectors", 1, 1, 0, [y.ctypes.data + 4], collective=False)


def test_portable_fibers() -> None:
    """Machines without a stack switch of their own use the C library's."""
    source = device_helpers("emulator") + program_text([]) + KERNELS
    machine = Emulator("#define LZ_PORTABLE_FIBERS\n" + source, NAMES)
    y = run(machine, "neighbours", np.int32)
    np.testing.assert_array_equal(y, np.tile(np.arange(63, -1, -1), 2) + 2)
    with pytest.raises(InternalError, match="deadlock"):
        run(machine, "one_waits", np.int32)


def test_too_many_threads(machine: Emulator) -> None:
    with pytest.raises(InternalError, match="1 to 1024 threads"):
        run(machine, "lanes", np.int64, threads=2048)


def test_compile_errors_keep_the_source() -> None:
    with pytest.raises(CompileError) as caught:
        Emulator("this is not C++", [])
    assert caught.value.source_path is not None


def test_missing_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler -O2")
    with pytest.raises(NoCompilerError, match="no-such-compiler"):
        find_compiler()


@pytest.mark.parametrize("form", ["rows", "columns"])
def test_a_removed_barrier_is_caught(form: str) -> None:
    """Every barrier of a kernel is needed: without it the emulator finds a race."""
    case = CASES.get("softmax_2_5000_float32_inner") or softmax(2, 5000, float32, "inner")
    if form == "columns":
        case = CASES.get("sum_3000_40_float32_grid") or reduction(
            "sum", (3000, 40), float32, "grid"
        )
    made = print_kernel_cuda(case.kernel)
    name = made.launches[0].function
    assert made.note == form
    parts = re.split(r"(lz_sync_block\(\);)", made.text)
    barriers = [i for i, part in enumerate(parts) if part.startswith("lz_sync")]
    assert len(barriers) == (3 if form == "rows" else 4)
    texts = []
    for number, cut in enumerate(barriers):
        text = "".join(p for i, p in enumerate(parts) if i != cut)
        texts.append(text.replace(f" {name}(", f" cut{number}("))
    names = [f"cut{n}" for n in range(len(barriers))]
    source = device_helpers("emulator") + program_text([made]) + "\n".join(texts)
    machine = Emulator(source, [name, *names])
    step = made.launches[0]
    assert not _differs(machine, name, step, case)
    caught = [_differs(machine, cut, step, case) for cut in names]
    assert all(caught), caught
    # What leaves a line out does the same as a text without it.
    whole = Emulator(device_helpers("emulator") + program_text([made]), [name])
    lines = (device_helpers("emulator") + program_text([made])).splitlines()
    for line in [n for n, content in enumerate(lines, 1) if content.strip() == "lz_sync_block();"]:
        whole.leave_out(line)
        assert _differs(whole, name, step, case)
    whole.leave_out(0)
    assert not _differs(whole, name, step, case)


def _differs(machine: Emulator, name: str, step: CudaLaunch, case: Case) -> bool:
    for seed in range(8):
        x, wanted = case.before["x"], case.wanted["y"]
        y = np.zeros(wanted.shape, np.float32)
        shape = step.blocks, step.threads, step.shared_bytes
        try:
            machine.launch(name, *shape, [x.ctypes.data, y.ctypes.data], True, seed)
        except InternalError as error:
            assert "no barrier is in between" in str(error)
            return True
        if not np.allclose(y, wanted, rtol=1e-5, atol=1e-7):
            return True
    return False
