"""Races in global memory: between threads of a block, and between the blocks of a launch."""

from __future__ import annotations

import re
import shutil

import numpy as np
import pytest

from lazyt.codegen.cuda import threads
from lazyt.codegen.cuda.target import device_helpers, print_kernel_cuda, program_text
from lazyt.errors import InternalError
from lazyt.ir.dtypes import float32
from lazyt.ir.index import Axis, Linear, Load, Var
from lazyt.ir.kernel import Buffer, Kernel, Phase, Reduce, Stage, Store
from lazyt.ir.scalar import Expr, call
from lazyt.runtime.cuda.emulated import Emulator

pytestmark = pytest.mark.skipif(
    not (shutil.which("g++") or shutil.which("clang++")), reason="needs a C++ compiler"
)

HEAD = 'extern "C" __global__ void '
PLACE = "const int i = (int)lz_block() * 64 + lz_thread();"
#: Kernels over 128 elements, by whether all is in order.
BODIES = {
    "own": ("y[i] = y[i] + 1;", True),
    "one_writes": ("if (i == 0) y[0] = 1;", True),
    "all_read": ("if (i < 64) y[i] = 0; lz_i32 a = y[64]; if (a == 7) y[i] = a;", True),
    "blocks_write": ("if (lz_thread() == 0) y[0] = 1;", False),
    "block_reads": ("y[i] = 1; lz_i32 a = y[(i + 64) % 128]; y[i] = a;", False),
    "block_writes_what_was_read": ("y[i] = y[i / 2 + 64 * (i / 64 == 0)];", False),
    "neighbour": ("y[i] = y[i ^ 1];", False),
    "neighbour_waits": ("lz_i32 a = y[i ^ 1]; lz_sync_block(); y[i] = a;", True),
    "neighbour_of_warp": ("lz_i32 a = y[i ^ 1]; lz_sync_warp(); y[i] = a;", True),
    "other_warp": ("lz_i32 a = y[i ^ 32]; lz_sync_warp(); y[i] = a;", False),
    "adjacent": ("lz_i32 a[4]; lz_load_adjacent(a, y + i / 4 * 4); y[i] = a[0];", False),
    "adjacent_own": (
        "if (i < 32) { lz_i32 a[4], *at = y + 4 * i; lz_load_adjacent(a, at); "
        "lz_store_adjacent(at, a); }",
        True,
    ),
}


def texts() -> str:
    return "\n".join(
        f"{HEAD}{name}(lz_i32 *restrict y)\n{{ {PLACE} {body} }}"
        for name, (body, _) in BODIES.items()
    )


@pytest.fixture(scope="module")
def machine() -> Emulator:
    source = device_helpers("emulator") + program_text([]) + texts()
    return Emulator(source, BODIES, watched=True)


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("collective", [True, False])
def test_races_are_found(machine: Emulator, name: str, collective: bool) -> None:
    body, in_order = BODIES[name]
    if not collective and "lz_sync" in body:
        pytest.skip("it waits")
    y: np.ndarray = np.zeros(128 + 4, np.int32)
    start = -y.ctypes.data % 16
    for _ in range(2):  # what the launch before did is in order
        try:
            machine.launch(name, 2, 64, 0, [y.ctypes.data + start], collective, 0, [512])
        except InternalError as error:
            found = re.search(
                r"it (reads|writes) element \d+ of buffer 0, which another", str(error)
            )
            assert found and not in_order, error
        else:
            assert in_order


@pytest.mark.parametrize("name", ["neighbour_waits", "neighbour_of_warp"])
def test_a_deleted_barrier_is_found(machine: Emulator, name: str) -> None:
    """Blocks' barriers and warps', each left out by its line."""
    text = (device_helpers("emulator") + program_text([]) + texts()).splitlines()
    (head,) = (n for n, line in enumerate(text) if line.startswith(f"{HEAD}{name}("))
    y: np.ndarray = np.zeros(128 + 4, np.int32)
    start = y.ctypes.data + -y.ctypes.data % 16
    machine.leave_out(head + 2)
    try:
        with pytest.raises(InternalError, match="another thread"):
            machine.launch(name, 2, 64, 0, [start], True, 0, [512])
    finally:
        machine.leave_out(0)
    machine.launch(name, 2, 64, 0, [start], True, 0, [512])


def test_without_sizes_nothing_is_watched(machine: Emulator) -> None:
    y: np.ndarray = np.zeros(128, np.int32)
    machine.launch("blocks_write", 2, 64, 0, [y.ctypes.data])
    assert y[0] == 1


def short_loop_writes_over() -> Kernel:
    """A loop of 64 steps that writes over what it sums, beside one that takes several warps."""
    r, k, j = Axis("r", 4), Axis("k", 5000), Axis("j", 64)
    row, step, short = (Linear(((axis, 1),), 0) for axis in (r, k, j))
    total = Reduce("t", "sum", Load("x", (row, step), float32), float32)
    old: Expr = Load("w", (row, short), float32)
    store = Store("w", (row, short), call("add", old, Var("t", float32)))
    last = Stage(None, (Store("o", (row,), Var("s", float32)),))
    stages = (Stage(k, (total,)), Stage(j, (Reduce("s", "sum", old, float32), store)), last)
    buffers = (
        Buffer("x", float32, (4, 5000), "in"), Buffer("w", float32, (4, 64), "inout"),
        Buffer("o", float32, (4,), "out"),
    )  # fmt: skip
    return Kernel("k", buffers, (Phase((r,), stages, "grid"),))


@pytest.mark.parametrize("careful", [True, False])
def test_warps_that_read_what_another_wrote(monkeypatch: pytest.MonkeyPatch, careful: bool) -> None:
    if not careful:
        monkeypatch.setattr(threads, "_writes_over", lambda phase: False)
    made = print_kernel_cuda(short_loop_writes_over())
    (shape,) = made.launches
    source = device_helpers("emulator") + program_text([made])
    machine = Emulator(source, [shape.function], watched=True)
    arrays = [np.ones(20_000, np.float32), np.ones(256, np.float32), np.zeros(4, np.float32)]
    found: list[bool] = []
    for seed in range(4):
        try:
            machine.launch(
                shape.function, shape.blocks, shape.threads, shape.shared_bytes,
                [a.ctypes.data for a in arrays], shape.collective, seed, [a.nbytes for a in arrays],
            )  # fmt: skip
        except InternalError as error:
            found.append("element" in str(error))
            if careful:
                raise
    assert found == ([] if careful else [True] * 4)
