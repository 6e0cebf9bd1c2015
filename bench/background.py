"""How much slower a running program is while compilers work in the background.

    python bench/background.py [--rounds 12] [--seconds 0.4]

A chain of products of matrices on all threads, and a loop of small steps, run with and without
compilers beside them, in turns: those that the process in the background runs on plans, then those
on kernels for any shape, for idle cores. Printed are the middle rounds, in steps a second,
and the middle ratio of two rounds in a row.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable

import lazyt as lt

#: Compiles the same part over and over, at the priorities of the process in the background.
WORK = """
import os, sys
from lazyt.plan import server as compile_server, generic as generic_library
from lazyt.codegen.generic import library
from lazyt.runtime.cpu import compile
os.nice(compile_server._NICE)
compile.at_once, compile.is_idle = 1, sys.argv[1] == "idle"
full = compile.find()
key, text = generic_library._source(library.groups()[1], full)
print("ready", flush=True)
while True:
    compile.build_text(text, full)
"""


def products() -> Callable[[], None]:
    """A chain of products of matrices."""
    a = (lt.rand(512, 512) / 256).realize()
    chain = lt.jit(lambda x: ((x @ x) @ x) @ x)

    def step() -> None:
        chain(a).realize()

    return step


def small_steps() -> Callable[[], None]:
    """Twenty steps of training a small network."""
    model = lt.nn.Sequential(lt.nn.Linear(16, 32), lt.nn.Tanh(), lt.nn.Linear(32, 1))
    optimizer = lt.optim.SGD(model.parameters(), 0.01)
    x = lt.rand(64, 16).realize()

    def step() -> None:
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
        model[0].bias.tolist()

    return step


def rate(step: Callable[[], None], seconds: float) -> float:
    """Steps a second."""
    count, begun = 0, time.perf_counter()
    while time.perf_counter() - begun < seconds:
        step()
        count += 1
    return count / (time.perf_counter() - begun)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--seconds", type=float, default=0.4)
    options = parser.parse_args()
    for name, made in (("products", products), ("small steps", small_steps)):
        with lt.config.override(tier=1):
            step = made()
            for _ in range(20):
                step()
            for kind in ("plan", "idle"):
                with tempfile.TemporaryDirectory() as folder:
                    show(name, kind, step, folder, options.rounds, options.seconds)
    print(f"{threading.active_count()} threads of Python, {lt.get_num_threads()} of kernels")


def show(
    name: str, kind: str, step: Callable[[], None], folder: str, rounds: int, seconds: float
) -> None:
    """Measures one step beside compilers of one kind."""
    child = subprocess.Popen(
        [sys.executable, "-c", WORK, kind],
        env=os.environ | {"LAZYT_CACHE_DIR": folder},
        stdout=subprocess.PIPE,
        process_group=0,  # as that of lazyt: priorities count within a session
    )
    try:
        assert child.stdout is not None and child.stdout.readline()
        rates: dict[bool, list[float]] = {True: [], False: []}
        for _ in range(rounds):
            for beside in (False, True):
                os.killpg(child.pid, 18 if beside else 19)  # goes on, stops
                compilers(child.pid, beside)
                rates[beside].append(rate(step, seconds))
    finally:
        os.killpg(child.pid, 9)
        compilers(child.pid, None)
        child.wait()
    alone, both = statistics.median(rates[False]), statistics.median(rates[True])
    ratio = statistics.median(a / b for a, b in zip(rates[False], rates[True], strict=True))
    print(f"{name:12} {kind:5} alone {alone:8.1f} beside {both:8.1f}: {ratio:.3f} times the time")


def compilers(leader: int, go_on: bool | None) -> None:
    """Has the compilers of a process, which have groups of their own, stop, go on, or end."""
    for name in os.listdir("/proc"):
        if name.isdecimal():
            try:
                with open(f"/proc/{name}/stat", encoding="ascii") as file:
                    parent = int(file.read().rpartition(")")[2].split()[1])
            except (OSError, ValueError):
                continue
            if parent == leader:
                try:
                    os.killpg(int(name), {True: 18, False: 19, None: 9}[go_on])
                except ProcessLookupError:
                    continue


if __name__ == "__main__":
    main()
