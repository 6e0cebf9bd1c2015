"""Times what the host needs for captured steps on a GPU, without a GPU.

    python bench/launches.py

NVIDIA's bindings call a driver library that does nothing (``tests/cuda/null_driver.c``); kernels
are compiled by NVRTC. Printed is the best mean of 20 calls in microseconds, graph launch included.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from captured import best

HERE = Path(__file__).resolve().parent


def layers(torch: Any, kind: str) -> tuple[Any, Any]:
    """A network and its input: six linear layers, or four of a transformer."""
    nn = torch.nn
    if kind == "linear":
        parts = [part for _ in range(6) for part in (nn.Linear(64, 64), nn.GELU())]
        return nn.Sequential(*parts).cuda(), torch.randn(32, 64).cuda()
    make = [nn.TransformerEncoderLayer(32, 1, 128, 0.0, batch_first=True) for _ in range(4)]
    return nn.Sequential(*make, nn.Linear(32, 10)).cuda(), torch.randn(2, 8, 32).cuda()


def training(torch: Any, kind: str) -> float:
    """One step with AdamW."""
    net, x = layers(torch, kind)
    optimizer = torch.optim.AdamW(net.parameters(), 1e-3)

    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = net(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    captured = torch.jit(step)
    found = best(lambda: captured(x))
    assert captured.why() == ["captured"], captured.why()
    return found


def products(torch: Any) -> float:
    """A hundred small kernels, one after the other."""

    def chain(x: Any) -> Any:
        for _ in range(100):
            x = x @ x
        return x

    captured, x = torch.jit(chain), torch.randn(64, 64).cuda()
    return best(lambda: captured(x))


def measure() -> None:
    """All of it, in a process that finds the driver."""
    sys.path.insert(0, str(HERE.parent))
    import lazyt

    lazyt.config.tier = 1  # kernels, before anything runs

    print(f"AdamW, 6 linear layers       {training(lazyt, 'linear'):6.1f} us")
    print(f"AdamW, 4 transformer layers  {training(lazyt, 'transformer'):6.1f} us")
    print(f"100 products of 64 x 64      {products(lazyt):6.1f} us")


def main() -> int:
    """The command."""
    if "--measure" in sys.argv:
        measure()
        return 0
    with tempfile.TemporaryDirectory() as folder:
        source = HERE.parent / "tests" / "cuda" / "null_driver.c"
        library = Path(folder, "libcuda.so.1")
        command = [os.environ.get("CC", "gcc"), "-shared", "-fPIC", "-w", "-O1"]
        subprocess.run([*command, "-o", str(library), str(source)], check=True)
        environment = os.environ | {"LD_LIBRARY_PATH": folder}
        again = [sys.executable, __file__, "--measure"]
        return subprocess.run(again, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
