"""Times and errors of Fourier transforms beside SciPy's pocketfft, in one process.

    python bench/transforms.py [--write bench/results/NAME.json] [--quick]

Needs a Python with SciPy. Each case is measured in turns, with one thread: SciPy, lazyt as it is
called, and captured by ``lazyt.jit``; what counts is the best time of each. Errors are relative to
the whole of the transform, in the norm of squares, against SciPy's transform of the same numbers in
long double.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.fft

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import lazyt  # noqa: E402

POWERS = [(1, 1 << k) for k in range(8, 23, 2)]
BATCHES = [(1000, 256), (64, 4096), (16, 65536)]
OTHERS = [(64, 1000), (1, 19683), (1, 17 * 1024), (100, 127), (1, 1021), (1, 10007), (1, 1000003)]
NAMES = ("fft", "rfft", "irfft")
#: Seconds of measuring in each of the turns, and how many of them there are.
TURN, TURNS = 0.03, 5


def operand(name: str, rows: int, n: int, wide: bool) -> np.ndarray[Any, Any]:
    """Normal numbers, the same for every run."""
    rng = np.random.default_rng([n, rows])
    size = n // 2 + 1 if name == "irfft" else n
    found = rng.standard_normal((rows, size))
    if name != "rfft":
        found = found + 1j * rng.standard_normal((rows, size))
    if name == "irfft":
        found[:, 0] = found[:, 0].real
        if n % 2 == 0:
            found[:, -1] = found[:, -1].real
    kinds = ("f8", "c16") if wide else ("f4", "c8")
    return found.astype(kinds[name != "rfft"])


def best(run: Callable[[], Any]) -> float:
    """The best of the calls of one turn, in microseconds."""
    found, begin = float("inf"), time.perf_counter()
    while True:
        start = time.perf_counter()
        run()
        now = time.perf_counter()
        found = min(found, now - start)
        if now - begin > TURN:
            return found * 1e6


def settle(run: Callable[[], Any]) -> None:
    """Calls until everything is compiled that is worth it."""
    for _ in range(2):
        begin = time.perf_counter()
        for _ in range(400):
            run()
            if time.perf_counter() - begin > 4 * TURN:
                break
        lazyt.wait_for_compiler()


def measure(name: str, rows: int, n: int, wide: bool) -> dict[str, Any]:
    """Times and errors of one case."""
    array = operand(name, rows, n, wide)
    x = lazyt.from_numpy(array).clone().realize()
    options = {"n": n} if name == "irfft" else {}
    ours, theirs = getattr(lazyt.fft, name), getattr(scipy.fft, name)
    captured = lazyt.jit(lambda x: ours(x, **options))

    def plain() -> Any:
        return ours(x, **options).realize()

    def again() -> Any:
        return captured(x).realize()

    def peer() -> Any:
        return theirs(array, **options, workers=1)

    for run in (plain, again):
        settle(run)
    times = {"scipy": float("inf"), "lazyt": float("inf"), "captured": float("inf")}
    for _ in range(TURNS):
        for title, run in (("scipy", peer), ("lazyt", plain), ("captured", again)):
            times[title] = min(times[title], best(run))
    long = array.astype(np.clongdouble if array.dtype.kind == "c" else np.longdouble)
    exact = theirs(long, **options)
    size = np.sqrt((np.abs(exact) ** 2).sum())
    errors = {
        title: float(np.sqrt((np.abs(found - exact) ** 2).sum()) / size)
        for title, found in (("scipy", peer()), ("lazyt", plain().numpy()))
    }
    return {
        "name": name, "rows": rows, "n": n, "dtype": "float64" if wide else "float32",
        "us": {k: round(v, 2) for k, v in times.items()}, "error": errors,
    }  # fmt: skip


def main() -> None:
    """Measures all cases and prints a table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--write", type=Path)
    parser.add_argument("--quick", action="store_true", help="up to 2^16 points only")
    chosen = parser.parse_args()
    lazyt.set_num_threads(1)
    found = []
    print("| | | SciPy us | lazyt | ratio | captured | ratio | error / SciPy's |")
    print("|---|---|---|---|---|---|---|---|")
    for wide in (False, True):
        for rows, n in (*POWERS, *BATCHES, *OTHERS):
            if chosen.quick and rows * n > 1 << 16:
                continue
            for name in NAMES:
                made = measure(name, rows, n, wide)
                found.append(made)
                us, error = made["us"], made["error"]
                print(
                    f"| {name} {made['dtype']} | {rows} x {n} | {us['scipy']} | {us['lazyt']} | "
                    f"{us['lazyt'] / us['scipy']:.2f} | {us['captured']} | "
                    f"{us['captured'] / us['scipy']:.2f} | "
                    f"{error['lazyt'] / error['scipy']:.2f} |",
                    flush=True,
                )
    if chosen.write is not None:
        facts = {
            "machine": platform.machine(), "python": platform.python_version(),
            "numpy": np.__version__, "scipy": scipy.__version__, "threads": 1, "cases": found,
        }  # fmt: skip
        chosen.write.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
