"""Time per element from 10^5 to 10^8 elements, with one thread and with all.

python bench/scaling.py --json bench/results/DATE-MACHINE-scaling.json
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import lazyt
from lazyt import Tensor
from lazyt.bench.results import describe_machine
from lazyt.runtime.cpu import roofline

lazyt.config.tier = 1  # kernels, before anything runs

SIZES = (100_000, 1_000_000, 10_000_000, 100_000_000)
#: Elements of a row, for what works on rows.
ROW = 1000
#: Seconds of samples for each size.
SECONDS = 2.0

#: What is computed, and how many bytes an element of it moves when all is read and written once.
PROGRAMS: dict[str, tuple[Callable[[Tensor, Tensor], Tensor], int]] = {
    "axpy": (lambda x, y: x * 2.5 + y, 12),
    "chain": (lambda x, y: lazyt.sigmoid(x * y + 0.5) * y + lazyt.tanh(x) * 0.5, 12),
    "sum": (lambda x, y: x.sum(), 4),
    "softmax": (lambda x, y: lazyt.softmax(x.view(-1, ROW), 1), 8),
    "layer norm": (lambda x, y: lazyt.nn.functional.layer_norm(x.view(-1, ROW), (ROW,)), 8),
}


def seconds(call: Callable[[Tensor, Tensor], Tensor], sets: list[tuple[Tensor, Tensor]]) -> float:
    """The median time of a call; calls take the sets of inputs in turn."""
    for pair in sets * 3:
        call(*pair).realize()
    begin = time.perf_counter()
    call(*sets[0]).realize()
    repeats = max(1, int(2e-3 / (time.perf_counter() - begin)))
    samples = []
    end = time.perf_counter() + SECONDS
    while len(samples) < 3 or time.perf_counter() < end:
        begin = time.perf_counter()
        for turn in range(repeats):
            call(*sets[turn % 2]).realize()
        samples.append((time.perf_counter() - begin) / repeats)
    return statistics.median(samples)


def measure(sizes: list[int]) -> dict[str, object]:
    """All programs at all sizes with the threads of this process. The memory's bandwidth is taken
    before and after each: on shared machines it changes by the minute."""
    bandwidths = []
    rows: dict[str, dict[str, dict[str, float]]] = {}
    for name, (function, nbytes) in PROGRAMS.items():
        captured = lazyt.jit(function)
        for size in sizes:
            sets = [(lazyt.randn(size).realize(), lazyt.randn(size).realize()) for _ in range(2)]
            before = roofline.sample(lazyt.get_num_threads()).bandwidth
            took = seconds(captured, sets)
            bandwidth = (before + roofline.sample(lazyt.get_num_threads()).bandwidth) / 2
            bandwidths.append(bandwidth)
            rows.setdefault(name, {})[str(size)] = {
                "us": round(1e6 * took, 2),
                "ns per element": round(1e9 * took / size, 4),
                "share of bandwidth": round(size * nbytes / took / bandwidth, 3),
            }
    return {"bytes per s": statistics.median(bandwidths), "programs": rows}


def main() -> None:
    """Measures in a process for each number of threads, prints and writes the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="write the figures there")
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--here", action="store_true", help="with the threads of this process")
    options = parser.parse_args()
    if options.here:
        print(json.dumps(measure(options.sizes)))
        return
    found: dict[str, object] = {"machine": describe_machine()}
    for threads in sorted({1, os.cpu_count() or 1}):
        environment = {**os.environ, "LAZYT_THREADS": str(threads)}
        command = [sys.executable, __file__, "--here", "--sizes", *map(str, options.sizes)]
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True)
        found[f"{threads} threads"] = part = json.loads(done.stdout)
        print(f"{threads} threads, {part['bytes per s'] / 1e9:.1f} GB/s")
        for name, rows in part["programs"].items():
            texts = [
                f"{row['ns per element']:8.4f} ({row['share of bandwidth']:4.0%})"
                for row in rows.values()
            ]
            print(f"  {name:12} {' '.join(texts)} ns per element (of the bandwidth)")
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
