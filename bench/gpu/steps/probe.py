"""What the machine is, and its ceilings through PyTorch: copy bandwidth, products in bfloat16 and
float32."""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable
from typing import Any

from bench.gpu.steps.report import EMULATED, SMALL, Report, median

PACKAGES = (
    "numpy", "networkx", "pycparser", "cuda-bindings", "nvidia-cuda-nvrtc", "torch", "triton",
    "pytest", "pytest-xdist", "hypothesis", "safetensors", "scikit-learn",
)  # fmt: skip
TOOLS = ("gcc", "g++", "nvcc", "nvdisasm", "cuobjdump", "ncu", "compute-sanitizer", "nvidia-smi")
FACTS = "name,driver_version,memory.total,clocks.sm,clocks.mem,power.limit"

report = Report("probe")


def machine() -> str:
    """Versions of packages, and tools on the PATH."""
    versions: dict[str, str | None] = {}
    for name in PACKAGES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            versions[name] = None
    python = sys.version.split()[0]
    facts = {"python": python, "kernel": platform.release(), "cores": os.cpu_count()}
    tools = {tool: shutil.which(tool) for tool in TOOLS}
    report.put("machine", {**facts, "versions": versions, "tools": tools})
    return f"python {python}, {os.cpu_count()} cores"


def smi() -> str:
    """The GPU, by NVIDIA's tool."""
    if not shutil.which("nvidia-smi"):
        assert EMULATED, "no nvidia-smi"
        return "none"
    command = ["nvidia-smi", f"--query-gpu={FACTS}", "--format=csv,noheader"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    text = (done.stdout + done.stderr).strip()
    report.put("gpu", text)
    return text


def timed(torch: Any, work: Callable[[], object], calls: int) -> float:
    """Seconds of a call, by events."""
    for _ in range(3):
        work()
    found = []
    for _ in range(5):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(calls):
            work()
        end.record()
        end.synchronize()
        found.append(start.elapsed_time(end) / calls * 1e-3)
    return median(found)


def ceilings() -> str:
    """What a copy of 1 GiB and products by the vendor's library reach."""
    try:
        torch: Any = importlib.import_module("torch")
    except ImportError:
        assert EMULATED, "no PyTorch"
        return "no PyTorch"
    if not torch.cuda.is_available():
        assert EMULATED, "PyTorch sees no GPU"
        return "no GPU for PyTorch"
    a = torch.randn(1 << (22 if SMALL else 28), device="cuda")
    b = torch.empty_like(a)
    copy = 2 * a.nbytes / timed(torch, lambda: b.copy_(a), 10)
    size = 1024 if SMALL else 8192
    x, y = (torch.randn(size, size, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    low = 2 * size**3 / timed(torch, lambda: x @ y, 5)
    torch.backends.cuda.matmul.allow_tf32 = False
    p, q = (torch.randn(4096, 4096, device="cuda") for _ in range(2))
    single = 2 * 4096**3 / timed(torch, lambda: p @ q, 3)
    found = {"copy_bytes_per_s": copy, "bf16_flops": low, "fp32_flops": single}
    report.put("ceilings", {**found, "name": torch.cuda.get_device_properties(0).name})
    return f"copy {copy / 1e12:.2f} TB/s, bf16 {low / 1e12:.0f}, fp32 {single / 1e12:.1f} TFLOP/s"


def main() -> None:
    """All of it."""
    report.check("machine", machine)
    report.check("nvidia-smi", smi)
    report.end(report.check("ceilings", ceilings) or "")


if __name__ == "__main__":
    main()
