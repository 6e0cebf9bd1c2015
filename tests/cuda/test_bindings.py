"""NVIDIA's own bindings over a library that takes every call: types and handles are right."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from lazyt.runtime.cuda import nvrtc
from tests.children import python_path

HERE = Path(__file__).resolve().parent

#: A captured step of a module that was moved to the GPU: the numbers of a step go there by one
#: copy, its kernels by one launch, and nothing is allocated.
STEP = """
import ctypes, lazyt as lt
lib = ctypes.CDLL("libcuda.so.1")
net = lt.nn.Linear(6, 4).cuda()
optimizer = lt.optim.AdamW(net.parameters(), 0.1)
x = lt.randn(8, 6).cuda()
@lt.jit
def step(x):
    optimizer.zero_grad()
    loss = net(x).square().mean()
    loss.backward()
    optimizer.step()
    return loss
for _ in range(9):
    step(x)
before = [lib.null_graphs(), lib.null_launches(), lib.null_copies(), lib.null_allocations()]
for _ in range(5):
    step(x)
after = [lib.null_graphs(), lib.null_launches(), lib.null_copies(), lib.null_allocations()]
assert step._fast_paths.calls and net.weight._storage.share is None
print([b - a for a, b in zip(before, after)])
"""

PROGRAM = """
import ctypes, lazyt as lt
lib = ctypes.CDLL("libcuda.so.1")
assert lt.cuda.device_count() == 2 and lt.cuda.get_device_name() == "Null GPU"
assert lt.cuda.get_device_capability(1) == (9, 0)
x = lt.linspace(-1, 1, 60).reshape(6, 10).cuda()
held = []
for _ in range(4):
    y = (x.cumsum(0) @ x.T).softmax(-1).sum(0).realize()
    held.append(y)
lt.cuda.synchronize()
assert lib.null_graphs() == 3 and lib.null_changes() >= 2, (lib.null_graphs(), lib.null_changes())
big = lt.arange(1 << 21).cuda()
assert lt.equal(big.cpu(), lt.arange(1 << 21))
assert lt.arange(5.0).cuda(0).to("cuda:1").cpu().tolist() == [0, 1, 2, 3, 4]
side = lt.cuda.Stream(priority=-1)
marks = [lt.cuda.Event(enable_timing=True) for _ in range(2)]
with lt.cuda.stream(side):
    marks[0].record()
    z = (x * 3).realize()
    marks[1].record()
marks[1].synchronize()
side.synchronize()
assert marks[0].elapsed_time(marks[1]) == 0.25 and marks[1].query() and side.query()
lt.cuda.current_stream().wait_stream(side)
assert lt.arange(4.0).pin_memory().cuda(non_blocking=True).cpu().tolist() == [0, 1, 2, 3]
assert lt.cuda.mem_get_info() == (1 << 34, 1 << 34)
del x, y, z, big, held
lt.cuda.empty_cache()
print("well")
"""


def run_on_null_driver(program: str, tmp_path: Path) -> str:
    """What a program prints."""
    pytest.importorskip("cuda.bindings.driver")
    compiler = shutil.which("gcc") or shutil.which("clang")
    if compiler is None or not nvrtc.available():
        pytest.skip("needs a C compiler and NVRTC")
    target = tmp_path / "libcuda.so.1"
    command = [compiler, "-shared", "-fPIC", "-w", "-o", str(target), str(HERE / "null_driver.c")]
    subprocess.run(command, check=True)
    file = tmp_path / "program.py"
    file.write_text(program, encoding="utf-8")
    environment = {
        **os.environ,
        "LD_LIBRARY_PATH": str(tmp_path),
        "PYTHONPATH": python_path(HERE.parents[1]),
    }
    done = subprocess.run(
        [sys.executable, str(file)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.strip()


def test_every_call_passes_the_bindings(tmp_path: Path) -> None:
    assert run_on_null_driver(PROGRAM, tmp_path) == "well"


def test_a_captured_step_is_a_few_calls(tmp_path: Path) -> None:
    assert run_on_null_driver(STEP, tmp_path) == "[5, 0, 5, 0]"
