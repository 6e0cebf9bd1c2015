"""Times what people wait for in ordinary programs: ``everyday_programs.py``, beside PyTorch.

    python bench/everyday.py [--peer-python FILE] [--only a,b] [--rounds N] [--json FILE]

Each program runs in processes of its own: one with PyTorch, then two with lazyt that share a cache
folder, empty at first. "cold" is the first call in the first of these, "warm" the first call in
the second, "steady" its third; of PyTorch the median of three counts. Imports are not in it, and
waiting threads sleep. ``compiled`` counts what a fifth call still compiles. Results of all calls
have to be PyTorch's. Seconds on a noisy machine: compare within one run.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from everyday_programs import PROGRAMS  # noqa: E402

RTOL, ATOL = 1e-3, 1e-4
THREADS = dict.fromkeys(("LAZYT_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "2")
CALLS = {"torch": 3, "cold": 1, "warm": 5}


def work(module: str, name: str, calls: int) -> None:
    """Calls a program, and prints the times and where the results are."""
    torch = __import__(module)
    if module == "torch":
        __import__("torch._dynamo")  # or the first optimizer would import it
    times, compiled = [], 0
    results: list[Any] = []
    for _ in range(calls):
        if module == "lazyt":
            torch.runtime.events.forget()
        begin = time.perf_counter()
        results = PROGRAMS[name](torch)
        times.append(time.perf_counter() - begin)
        if module == "lazyt":
            compiled = len(torch.why_compiled())
    plain = [np.asarray(item).tolist() for item in results]
    print(json.dumps({"times": times, "compiled": compiled, "results": plain}))


def measured(python: str, module: str, name: str, calls: int, cache: str) -> dict[str, Any]:
    """What ``work`` prints in a new process."""
    command = [python, str(HERE / "everyday.py"), "--work", module, name, str(calls)]
    surroundings = os.environ | THREADS | {"OMP_WAIT_POLICY": "PASSIVE", "LAZYT_CACHE_DIR": cache}
    done = subprocess.run(command, env=surroundings, stdout=subprocess.PIPE, check=True, text=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def differ(mine: list[Any], theirs: list[Any]) -> bool:
    """Whether two lists of results are not the same numbers."""
    pairs = [(np.asarray(a), np.asarray(b)) for a, b in zip(mine, theirs, strict=True)]
    return not all(a.shape == b.shape and np.allclose(a, b, RTOL, ATOL) for a, b in pairs)


def measure(name: str, peer_python: str) -> dict[str, float]:
    """The times of one program, in seconds."""
    with tempfile.TemporaryDirectory() as cache:
        peer = measured(peer_python, "torch", name, CALLS["torch"], cache)
        cold = measured(sys.executable, "lazyt", name, CALLS["cold"], cache)
        warm = measured(sys.executable, "lazyt", name, CALLS["warm"], cache)
    for one in (cold, warm):
        if differ(one["results"], peer["results"]):
            raise SystemExit(f"{name}: results differ from PyTorch's")
    return {
        "torch": statistics.median(peer["times"]),
        "cold": cold["times"][0],
        "warm": warm["times"][0],
        "steady": warm["times"][2],
        "compiled": warm["compiled"],
    }


def main() -> None:
    """Measures all programs, or those that are named, and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--peer-python", default=sys.executable, help="which has PyTorch")
    parser.add_argument("--only", default="", help="names, with commas between")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--work", nargs=3, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.work:
        module, name, calls = asked.work
        return work(module, name, int(calls))
    names = asked.only.split(",") if asked.only else list(PROGRAMS)
    if unknown := set(names) - PROGRAMS.keys():
        parser.error(f"there are no programs {', '.join(sorted(unknown))}")
    table: dict[str, dict[str, float]] = {}
    columns = ("torch", "cold", "warm", "steady", "compiled")
    print(f"{'seconds':<26}" + "".join(f"{c:>10}" for c in columns))
    for name in names:
        rounds = [measure(name, asked.peer_python) for _ in range(asked.rounds)]
        table[name] = {c: statistics.median([row[c] for row in rounds]) for c in columns}
        cells = "".join(f"{table[name][c]:>10.3f}" for c in columns[:-1])
        print(f"{name:<26}{cells}{table[name]['compiled']:>10.0f}", flush=True)
    if asked.json:
        asked.json.write_text(json.dumps(table, indent=1))


if __name__ == "__main__":
    main()
