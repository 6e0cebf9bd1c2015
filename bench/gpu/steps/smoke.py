"""The first things that can go wrong on a GPU, one by one, each with its own message."""

from __future__ import annotations

import ctypes
import time
from typing import Any

import numpy as np

import lazyt as lt
from bench.gpu.steps.report import DEVICE, EMULATED, Report
from lazyt.codegen.cuda.target import device_helpers
from lazyt.ir.program import Grid
from lazyt.runtime.cuda import nvrtc
from lazyt.runtime.cuda.device import device_at

TWICE = """
extern "C" __global__ void __launch_bounds__(64)
lz_twice(const float *restrict x, float *restrict y) {
  const int i = (int)lz_block() * 64 + lz_thread();
  y[i] = x[i] * 2.0f;
}
"""

report = Report("smoke")


def imported() -> str:
    """The version."""
    return lt.__version__


def compiled() -> str:
    """NVRTC takes a program."""
    if EMULATED and not nvrtc.available():
        return "no NVRTC (rehearsal)"
    text = 'extern "C" __global__ void f(float *x) { x[threadIdx.x] = 1; }'
    return f"nvrtc {nvrtc.version()}, {len(nvrtc.compile_cubin(text).image)} bytes"


def driver_facts() -> str:
    """The driver answers."""
    facts = device_at("cuda:0").driver.properties
    report.put("properties", {**vars(facts), "arch": facts.arch})
    if not EMULATED:
        version = ctypes.c_int()
        ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(version))
        report.put("driver_version", version.value)
    return f"{facts.name} {facts.arch}"


def raw_kernel() -> str:
    """A kernel through the driver's interface alone: no planner, no graph, no pool."""
    driver = device_at("cuda:0").driver
    image = driver.compile(device_helpers(driver.helpers) + TWICE, ["lz_twice"])
    function = driver.load(image.data, {"lz_twice": 0})["lz_twice"]
    given, got = np.arange(256, dtype=np.float32), np.zeros(256, np.float32)
    x, y = (driver.allocate(1024, None) for _ in range(2))
    assert x and y
    driver.copy_in(x, given.ctypes.data, 1024, None)
    driver.launch(function, Grid("lz_twice", 4, 64, 0, False), [x, y], None)
    driver.copy_out(got.ctypes.data, y, 1024, None)
    driver.wait_stream(None)
    assert (got == given * 2).all(), got[:8]
    driver.release(x, None)
    driver.release(y, None)
    return ""


def first_tensor() -> str:
    """The whole way, cold."""
    begun = time.perf_counter()
    x = lt.linspace(-1, 1, 12, device=DEVICE).reshape(3, 4)
    y = (x * 2 + 1).softmax(-1)
    want = (x.cpu() * 2 + 1).softmax(-1)
    assert (y.cpu() == want).all(), (y, want)
    return f"{time.perf_counter() - begun:.2f} s cold"


def graph_replays() -> str:
    """From its second run on a plan of several kernels is one CUDA graph; its memory changes."""
    held = []
    for turn in range(8):
        x = lt.full((64, 33), float(turn), device=DEVICE) + lt.arange(33.0, device=DEVICE)
        y = x.realize().cumsum(0).softmax(-1).sum(0)
        held.append((y, x.cpu().cumsum(0).softmax(-1).sum(0)))
    for y, want in held:
        assert lt.equal(y.cpu(), want)
    return ""


def trained(place: str) -> list[float]:
    """Losses of ten captured steps at a place."""
    lt.manual_seed(0)
    layers = [lt.nn.Linear(16, 32), lt.nn.GELU(), lt.nn.Linear(32, 4)]
    net = lt.nn.Sequential(*layers).to(place)
    optimizer = lt.optim.AdamW(net.parameters(), 1e-2)

    def train(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = lt.nn.functional.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        return loss

    step, draw = lt.jit(train), lt.Generator().manual_seed(3)
    losses = []
    for _ in range(10):
        x, y = lt.randn(8, 16, generator=draw), lt.randint(0, 4, (8,), generator=draw)
        losses.append(step(x.to(place), y.to(place)).item())
    return losses


def captured_training() -> str:
    """Losses have the CPU's bits."""
    on_cpu, there = trained("cpu"), trained(DEVICE)
    assert on_cpu == there, (on_cpu, there)
    return f"loss {there[0]:.4f} -> {there[-1]:.4f}, bits are the CPU's"


def main() -> None:
    """All checks, the simplest first."""
    checks = (imported, compiled, driver_facts, raw_kernel, first_tensor, graph_replays)
    for check in (*checks, captured_training):
        report.check(check.__name__, check)
    report.end(str(report.data.get("properties", {}).get("name", "")))


if __name__ == "__main__":
    main()
