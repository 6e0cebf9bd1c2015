"""Times what a look at a value costs: short chains of small operations that end in one.

    python bench/looks.py [--peer-python FILE] [--only a,b] [--rounds N] [--json FILE]

Each framework runs in a process of its own, and the processes take turns. A time is the smallest
mean of 20 calls over many short rounds, in microseconds, one thread; results are looked at within
the timed calls, and the arithmetic itself takes next to nothing. ``new`` counts plans that were
compiled or loaded after the first 20 calls: a program that goes round meets the plans that it has.
``--root FOLDER`` measures the lazyt of another folder beside this one.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
CALLS = 20
Function = Callable[[], object]


def chain(x: Any, count: int) -> Any:
    """``count`` operations of one element each."""
    for number in range(count):
        x = x + 0.5 if number % 2 else x * 0.25
    return x


def looked_at(x: Any, count: int) -> Any:
    """The value of ``count`` operations; the last of several elements is their sum."""
    return chain(x, count - 1).sum().item() if x.ndim else chain(x, count).item()


def chains(torch: Any) -> dict[str, Function]:
    """Chains of 1, 5 and 20 operations that end in a look, on different sizes."""
    found: dict[str, Function] = {}
    for name, shape in (("scalar", ()), ("8", (8,)), ("64x64", (64, 64))):
        x = torch.ones(shape)
        for count in (1, 5, 20):
            found[f"{name} {count}"] = partial(looked_at, x, count)
    w = torch.ones(8).requires_grad_()
    found["grad 5"] = lambda: chain(w, 4).sum().item()
    found["grad backward"] = lambda: torch.autograd.grad(chain(w, 4).sum(), w)[0].sum().item()
    return found


def elements(torch: Any) -> dict[str, Function]:
    """Numbers read and written one by one."""
    x = torch.ones(8)
    matrix = torch.ones(16, 16)

    def write_then_read() -> Any:
        z = torch.zeros(8)
        for i in range(8):
            z[i] = i * 0.5
        return z.tolist()

    def read_each() -> Any:
        return [x[i].item() for i in range(8)]

    def read_computed() -> Any:
        z = x * 2
        return [z[i].item() for i in range(8)]

    def read_pairs() -> Any:
        return [matrix[i, 3].item() for i in range(8)]

    def write_and_read() -> Any:
        z = torch.zeros(8)
        for i in range(1, 8):
            z[i] = z[i - 1].item() + 1.0
        return z.tolist()

    return {
        "8 writes, read": write_then_read,
        "8 reads x[i]": read_each,
        "8 reads of computed": read_computed,
        "8 reads x[i, j]": read_pairs,
        "7 write and read": write_and_read,
    }


def looks(torch: Any) -> dict[str, Function]:
    """The ways in which programs look at results."""
    x, y = torch.ones(8), torch.zeros(8)

    def total() -> Any:
        found = 0.0
        for _ in range(4):
            found += ((x - y) ** 2).mean().item()
        return found

    def carried() -> Any:
        z = torch.zeros(8)
        found = 0.0
        for _ in range(4):
            z = z + 1
            found += z.sum().item()
        return found

    def newton() -> Any:
        z, count = torch.ones(()), 0
        while abs(z * z - 2) > 1e-5:
            z = z - (z * z - 2) / (2 * z)
            count += 1
        return count

    def without_grad() -> Any:
        with torch.no_grad():
            return chain(w, 4).sum().item()

    w = torch.ones(8).requires_grad_()
    return {
        "if (x > y).all()": lambda: 1 if (x > y).all() else 0,
        "norm() < 1": lambda: 1 if (x - y).norm() < 1 else 0,
        "bool(max)": lambda: bool(x.abs().max() > 0.5),
        "int(argmax)": lambda: int((x + y).argmax()),
        "tolist": lambda: (x * 2 + y).tolist(),
        "softmax multinomial": lambda: torch.multinomial((x + y).softmax(-1), 1).item(),
        "4 total += loss": total,
        "4 x = x + 1": carried,
        "newton": newton,
        "no_grad 5": without_grad,
    }


def measure(module: Any, only: list[str], seconds: float) -> dict[str, dict[str, float]]:
    """Best mean of a call in microseconds, and plans that were new, by name of the case."""
    found = {}
    for name, function in {**chains(module), **looks(module), **elements(module)}.items():
        if only and name not in only:
            continue
        for _ in range(CALLS):
            function()
        before = _plans(module)
        end, best = time.perf_counter() + seconds, float("inf")
        while time.perf_counter() < end:
            begun = time.perf_counter()
            for _ in range(CALLS):
                function()
            best = min(best, (time.perf_counter() - begun) / CALLS)
        found[name] = {"us": best * 1e6, "new": _plans(module) - before}
    return found


def _plans(module: Any) -> int:
    """How many plans were made so far."""
    if module.__name__ != "lazyt":
        return 0
    from lazyt.plan import planning

    if not _counting:
        make = planning._make

        def counted(*arguments: Any) -> Any:
            _counting.append(1)
            return make(*arguments)

        vars(planning)["_make"] = counted
        _counting.append(1)
    return len(_counting)


_counting: list[int] = []


def _run(python: str, which: str, root: str, arguments: argparse.Namespace) -> Any:
    """The times of one framework, from a process of its own."""
    places = {"PYTHONPATH": root, "LAZYT_THREADS": "1", "OMP_NUM_THREADS": "1"}
    command = [python, __file__, "--run", which, "--only", arguments.only]
    command += ["--seconds", str(arguments.seconds)]
    done = subprocess.run(command, env={**os.environ, **places}, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    return json.loads(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peer-python", help="a Python that has PyTorch")
    parser.add_argument("--root", help="another folder with a lazyt to compare with")
    parser.add_argument("--only", default="", help="names of cases, separated by semicolons")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.2, help="for each case in a round")
    parser.add_argument("--json")
    parser.add_argument("--run", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.run:
        module = __import__(arguments.run)
        only = [name for name in arguments.only.split(";") if name]
        print(json.dumps(measure(module, only, arguments.seconds)))
        return
    runs = [("lazyt", sys.executable, "lazyt", str(HERE.parent))]
    if arguments.root:
        runs.append(("other", sys.executable, "lazyt", arguments.root))
    if arguments.peer_python:
        runs.append(("torch", arguments.peer_python, "torch", str(HERE.parent)))
    best: dict[str, dict[str, dict[str, float]]] = {}
    for _ in range(arguments.rounds):
        for label, python, which, root in runs:
            for name, result in _run(python, which, root, arguments).items():
                old = best.setdefault(name, {}).get(label)
                best[name][label] = result if old is None or result["us"] < old["us"] else old
    print(f"{'':24}" + "".join(f"{label:>10}" for label, *_ in runs) + "   new")
    for name, by in best.items():
        times = "".join(f"{by[label]['us']:10.1f}" for label, *_ in runs)
        print(f"{name:24}{times}{by['lazyt']['new']:6.0f}")
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(best, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
