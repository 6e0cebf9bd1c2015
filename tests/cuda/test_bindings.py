"""NVIDIA's own bindings over a library that takes every call: types and handles are right."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from lazyt.runtime import nvrtc

HERE = Path(__file__).resolve().parent

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


def test_every_call_passes_the_bindings(tmp_path: Path) -> None:
    pytest.importorskip("cuda.bindings.driver")
    compiler = shutil.which("gcc") or shutil.which("clang")
    if compiler is None or not nvrtc.available():
        pytest.skip("needs a C compiler and NVRTC")
    target = tmp_path / "libcuda.so.1"
    command = [compiler, "-shared", "-fPIC", "-w", "-o", str(target), str(HERE / "null_driver.c")]
    subprocess.run(command, check=True)
    environment = {**os.environ, "LD_LIBRARY_PATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.strip() == "well", done.stderr[-2000:]
