"""Memory, mappings and open files of a process that computes ever new graphs.

    python bench/soak.py --seconds 1800 --graphs 20000

Every graph is another structure (a random tree of operations over a few small leaves), but shares
kernels with others now and then, as those of programs do. ``--mode compiled`` compiles each,
``eager`` runs every operation by itself from a few kernels, ``interpreted`` compiles nothing. A
line is printed for each tenth; after the first third the numbers must stay flat, or the exit status
is 1.
"""

from __future__ import annotations

import argparse
import gc
import os
import random
import sys
import time
from pathlib import Path

#: How much more than after the first third there may be in the end: memory, mappings, files.
_SLACK = (1.10, 1.10, 1.0)
_EXTRA = (16 << 20, 200, 4)


def state() -> tuple[int, int, int]:
    """Bytes of resident memory, mappings and open files of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    maps = Path("/proc/self/maps").read_text().count("\n")
    return pages * os.sysconf("SC_PAGE_SIZE"), maps, len(os.listdir("/proc/self/fd"))


def compute(seed: int) -> float:
    """The value of a graph of which there is no second one."""
    import lazyt as lt

    random.seed(seed)
    values = [lt.arange(6.0).reshape(2, 3), lt.ones(2, 3), lt.linspace(-1, 1, 3)]
    for _ in range(8):
        a, b = random.choice(values), random.choice(values)
        kind = random.randrange(6)
        if kind == 0:
            made = a + b
        elif kind == 1:
            made = a * 0.5 - b
        elif kind == 2:
            made = a.tanh()
        elif kind == 3:
            made = a.flip(-1)
        elif kind == 4:
            made = lt.maximum(a, b)
        else:
            made = a.sum(0, keepdim=True) if a.ndim == 2 else a.cumsum(0)
        values.append(made)
    return float(values[-1].sum().item()) + float((values[-2] * values[-3]).sum().item())


def main() -> int:
    """Runs until the time or the graphs are over; 1 where something has grown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=1800)
    parser.add_argument("--graphs", type=int, default=20_000)
    parser.add_argument("--mode", choices=("compiled", "eager", "interpreted"), default="compiled")
    parser.add_argument("--libraries", type=int, help="how many plans may be loaded at once")
    given = parser.parse_args()
    import lazyt as lt
    from lazyt.plan import graph_keys
    from lazyt.runtime.cpu import execute

    if given.libraries is not None:
        execute.libraries.most = given.libraries
    lt.config.eager = given.mode == "eager"
    lt.config.interpret = given.mode == "interpreted"
    begun, done = time.monotonic(), 0
    seen: list[tuple[float, tuple[int, int, int]]] = []
    while done < given.graphs and time.monotonic() - begun < given.seconds:
        compute(done)
        done += 1
        part = max(done / given.graphs, (time.monotonic() - begun) / given.seconds)
        if part >= (len(seen) + 1) / 30:
            gc.collect()
            seen.append((part, state()))
            memory, maps, files = seen[-1][1]
            print(
                f"{done:6} graphs {time.monotonic() - begun:6.0f} s {memory >> 20:5} MiB {maps:6} "
                f"mappings {files:4} files {execute.libraries.loaded:5} libraries "
                f"{len(graph_keys.known):5} structures",
                flush=True,
            )
    first = next(found for part, found in seen if part >= 1 / 3)
    last = seen[-1][1]
    grown = [
        f"{name}: {a} -> {b}"
        for name, a, b, slack, extra in zip(
            ("memory", "mappings", "files"), first, last, _SLACK, _EXTRA, strict=True
        )
        if b > a * slack + extra
    ]
    print("flat" if not grown else "grown: " + ", ".join(grown))
    return 1 if grown else 0


if __name__ == "__main__":
    sys.exit(main())
