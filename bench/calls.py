"""Times single calls of the API beside PyTorch: uncaptured, captured, and their gradients.

    python bench/calls.py --python PYTHON_WITH_TORCH [--sizes 100,1000] [--dtypes float32,bfloat16]
                          [--only 'topk*,grad:*'] [--threads 1] [--clock cpu] [--above 1.2]
                          [--json FILE]

lazyt (as it is called, and captured by ``lazyt.jit``) and PyTorch's eager run in a process each,
and take turns call by call. What counts is the best call of all turns. ``--clock cpu`` takes the
processor's time instead, with one thread: on a busy machine that is what can be compared.
"""

from __future__ import annotations

import argparse
import fnmatch
import importlib
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from bench import call_table  # noqa: E402

#: Seconds of one turn, and turns of each call.
TURN, TURNS = 0.05, 3
SIDES = ("torch", "called", "captured")


def settled(found: Any) -> None:
    """Computes what a call of lazyt gave."""
    pending = [
        x for x in (found if isinstance(found, tuple | list) else [found]) if hasattr(x, "realize")
    ]
    if len(pending) == 1:
        pending[0].realize()
    elif pending:
        import lazyt

        lazyt.realize(*pending)


def prepared(t: Any, side: str, name: str, scope: dict[str, Any]) -> Any:
    """What is timed: a function without parameters that ends when its result is there."""
    function, operand = call_table.call(name, scope)
    if operand:
        x = scope[operand].detach().clone().requires_grad_()

        def run() -> Any:
            return t.autograd.grad(function(x), x)[0]
    else:
        run = function
    if side == "captured":
        run = t.jit(run)
    return run if side == "torch" else lambda: settled(run())


def best(run: Callable[[], Any], clock: Callable[[], float]) -> float:
    """Microseconds of the best call of one turn."""
    found, begin = math.inf, time.perf_counter()
    while True:
        start = clock()
        run()
        found = min(found, clock() - start)
        if time.perf_counter() - begin > TURN:
            return 1e6 * found


def work(side: str, threads: int, cpu: bool) -> None:
    """Answers lines of size, dtype and call by the best time of a turn, until there are no more."""
    t: Any = importlib.import_module("torch" if side == "torch" else "lazyt")
    t.set_num_threads(threads)
    if side != "torch":
        t.config.tier = 1  # kernels, before anything runs
    clock = time.thread_time if cpu else time.perf_counter
    scopes: dict[tuple[int, str], dict[str, Any]] = {}
    ready: tuple[Any, Any] = (None, None)
    for line in sys.stdin:
        n, dtype, name = json.loads(line)
        try:
            if ready[0] != line:
                if (n, dtype) not in scopes:
                    scopes[n, dtype] = made = call_table.operands(t, n, dtype)
                    if side != "torch":
                        settled([x for x in made.values() if isinstance(x, t.Tensor)])
                run = prepared(t, side, name, scopes[n, dtype])
                for _ in range(4):
                    run()
                ready = (line, run)
            answer: Any = best(ready[1], clock)
        except Exception as error:
            answer = f"{type(error).__name__}: {error}".splitlines()[0][:120]
        print(json.dumps(answer), flush=True)


class Side:
    """A process that times one side."""

    def __init__(self, side: str, python: str, options: argparse.Namespace) -> None:
        env = {**os.environ, "OMP_NUM_THREADS": str(options.threads)}
        env |= {"LAZYT_THREADS": str(options.threads), "PYTHONPATH": str(ROOT)}
        command = [python if side == "torch" else sys.executable, __file__, "--work", side]
        command += ["--threads", str(options.threads), "--clock", options.clock]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env
        )

    def time(self, n: int, dtype: str, name: str) -> Any:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps([n, dtype, name]) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        return json.loads(answer) if answer else f"process ended ({self.process.wait()})"


def measure(sides: dict[str, Side], n: int, dtype: str, name: str) -> dict[str, Any]:
    """The best time of each side in microseconds, or what it raised."""
    found: dict[str, Any] = {}
    for _ in range(TURNS):
        for side, process in sides.items():
            if isinstance(found.get(side), str):
                continue
            answer = process.time(n, dtype, name)
            known = found.get(side, math.inf)
            found[side] = answer if isinstance(answer, str) else min(known, answer)
    return found


def shown(name: str, times: dict[str, Any]) -> str:
    """A line of the table: PyTorch's microseconds and both ratios."""
    torch = times["torch"]
    cells = [f"{name:28}", f"{torch:10.0f}" if not isinstance(torch, str) else f"  {torch[:60]}"]
    for side in SIDES[1:]:
        mine = times[side]
        if isinstance(mine, str):
            cells.append(f"  {mine[:60]}")
        else:
            cells.append(
                f"{mine:10.0f}" + ("" if isinstance(torch, str) else f"{mine / torch:7.2f}")
            )
    return " ".join(cells)


def summary(rows: list[dict[str, Any]], above: float) -> str:
    """Geometric means of the ratios, and how many are above a limit."""
    lines = []
    for side in SIDES[1:]:
        pairs = [(r[side], r["torch"]) for r in rows]
        known = [(x, y) for x, y in pairs if not isinstance(x, str) and not isinstance(y, str)]
        ratios = [x / y for x, y in known if x and y]  # a clock sees nothing of the shortest calls
        if ratios:
            mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
            over = sum(ratio > above for ratio in ratios)
            lines.append(f"{side}: {len(ratios)} calls, mean {mean:.2f}, {over} above {above}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--python", default=sys.executable, help="the interpreter that has torch")
    parser.add_argument("--sizes", default="1000")
    parser.add_argument("--dtypes", default="float32")
    parser.add_argument("--only", default="*")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall")
    parser.add_argument("--above", type=float, default=1.2)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--work", choices=SIDES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        work(options.work, options.threads, options.clock == "cpu")
        return
    patterns = options.only.split(",")
    chosen = [x for x in call_table.names() if any(fnmatch.fnmatch(x, p) for p in patterns)]
    sides = {side: Side(side, options.python, options) for side in SIDES}
    rows: list[dict[str, Any]] = []
    for n in map(int, options.sizes.split(",")):
        for dtype in options.dtypes.split(","):
            print(f"\n{n} x {n}, {dtype}: torch us | called us, ratio | captured us, ratio")
            for name in chosen:
                row = {"size": n, "dtype": dtype, "call": name, **measure(sides, n, dtype, name)}
                rows.append(row)
                print(shown(name, row), flush=True)
                if options.json:
                    options.json.write_text(json.dumps(rows, indent=1) + "\n")
    print("\n" + summary(rows, options.above))


if __name__ == "__main__":
    main()
