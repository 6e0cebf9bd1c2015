"""Everything that is measured on a GPU, in one run: bench/results/DATE-GPU-*.json.

    python bench/gpu/measure.py [--device cuda] [--quick] [--python FILE] [--folder bench/results]

First what the host needs for captured steps (``host``: microseconds of a call beside the launch of
its graph, and with the wait for the device), then ``lazyt bench --device``: values against float64,
the device's copy bandwidth, and times by its own clock beside PyTorch and ``torch.compile``, whose
interpreter ``--python`` names. With ``--device cuda:emu --quick`` it runs anywhere, as a test.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lazyt
from lazyt.__main__ import main as command

RESULTS = Path(__file__).resolve().parents[1] / "results"


def steps(device: str) -> dict[str, tuple[Callable[..., Any], tuple[Any, ...]]]:
    """Functions to capture, with arguments: many launches, a forward pass, a training step."""
    functional = lazyt.nn.functional
    x = lazyt.randn(64, 64).to(device).realize()
    layers = [m for _ in range(4) for m in (lazyt.nn.Linear(64, 64), lazyt.nn.GELU())]
    net = lazyt.nn.Sequential(*layers).to(device)
    optimizer = lazyt.optim.AdamW(net.parameters(), 1e-3)

    def tiny(x: Any) -> Any:
        for number in range(100):
            x = functional.softmax(x, number % 2)
        return x

    def train(x: Any) -> Any:
        optimizer.zero_grad()
        loss = net(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    return {
        "100 tiny kernels": (tiny, (x,)),
        "forward": (net, (x,)),
        "training step": (train, (x,)),
    }


def host_times(device: str, calls: int) -> dict[str, dict[str, float]]:
    """Microseconds of a captured call: until it returns, and until the device is done."""
    found: dict[str, dict[str, float]] = {}
    for name, (function, given) in steps(device).items():
        captured: Any = lazyt.jit(function)
        for _ in range(8):
            lazyt.realize(captured(*given))
        lazyt.cuda.synchronize(device)
        returned, done = [], []
        for _ in range(calls):
            begun = time.perf_counter()
            lazyt.realize(captured(*given))
            returned.append(time.perf_counter() - begun)
            lazyt.cuda.synchronize(device)
            done.append(time.perf_counter() - begun)
        found[name] = {"returns_us": min(returned) * 1e6, "done_us": min(done) * 1e6}
        print(f"{name:20} returns {found[name]['returns_us']:8.1f} us, "
              f"done {found[name]['done_us']:8.1f} us", flush=True)  # fmt: skip
    return found


def main() -> int:
    """Measures and writes the files; 1 where lazyt was wrong."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--python", default=os.environ.get("LAZYT_BENCH_PYTHON", sys.executable))
    parser.add_argument("--folder", type=Path, default=RESULTS)
    parser.add_argument("--only", default="")
    given = parser.parse_args()
    lazyt.zeros(1, device=given.device)  # says what is missing
    facts = lazyt.cuda.get_device_properties(given.device)
    name = re.sub(r"[^a-z0-9]+", "-", facts.name.lower()).strip("-")
    start = given.folder / f"{datetime.date.today()}-{name}"
    times = host_times(given.device, 3 if given.quick else 200)
    given.folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"gpu": facts.name, "arch": facts.arch, "host": times}, indent=1)
    Path(f"{start}-host.json").write_text(text + "\n", encoding="utf-8")
    arguments = ["bench", "--device", given.device, "--json", f"{start}-times.json"]
    arguments += ["--python", given.python, *(["--quick", "--rounds", "1"] if given.quick else [])]
    return int(command([*arguments, *(["--only", given.only] if given.only else [])]) or 0)


if __name__ == "__main__":
    sys.exit(main())
