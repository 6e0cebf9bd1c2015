"""Races, as often as one likes: ``python -m tests.runtime.races forks --runs 500``.

``forks``: a process forks while another of its threads makes its first use of lazyt; the child has
to get the right values, and to end. ``swaps``: files of the disk cache are given each other's names
while a process loads plans; values have to be right. ``interrupts``: Ctrl-C comes in the middle of
plans, captured or not; what they write over is written for all or for none, and values are right.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

#: What a child may take at the most; it tells where it is then, and ends.
_SECONDS = 60


def _use(size: int) -> bool:
    """A first use: imports, a plan, a library call and a captured function."""
    import lazyt as lt

    x = lt.arange(float(size))
    right = (x * 2 + 1).sum().item() == size * (size - 1) + size
    right &= lt.linalg.inv(lt.eye(2)).sum().item() == 2

    @lt.jit
    def step(a: Any) -> Any:
        return (a * 3).sum()

    return right and all(step(x).item() == 3 * size * (size - 1) / 2 for _ in range(5))


def _fork_in_first_use(seed: int) -> int:
    """Exit status of a process that forks at a random time of its other thread's first use."""
    random.seed(seed)
    size = 8 + seed % 3
    thread = threading.Thread(target=_use, args=(size,))
    thread.start()
    time.sleep(random.random() * random.choice((0.02, 0.3)))
    child = os.fork()
    if child == 0:
        faulthandler.dump_traceback_later(_SECONDS, exit=True)
        os._exit(0 if _use(size) else 3)
    _, status = os.waitpid(child, 0)
    thread.join()
    if status:
        print(f"the forked child ended with {status}", flush=True)
    return status


def _swap(folder: Path) -> None:
    """Gives two entries each other's names, and one a link's."""
    with contextlib.suppress(OSError):
        for end in (".json", ".txt", ".so"):
            files = [p for p in folder.iterdir() if p.suffix == end and p.name[:3] != "tmp"]
            if len(files) > 1:
                first, second = random.sample(files, 2)
                spare = folder / f"tmp-0-{random.random()}"
                os.rename(first, spare)
                os.rename(second, first)
                os.rename(spare, second)


def _load_while_swapped(seed: int) -> int:
    """0 where a process computed right values though its cache's files changed their names."""
    import lazyt as lt
    from lazyt.plan import planning
    from lazyt.runtime import cache
    from lazyt.runtime.cpu import execute

    random.seed(seed)
    ended = threading.Event()
    folder = Path(cache.folder())

    def swap() -> None:
        while not ended.wait(random.random() * 0.01):
            _swap(folder)

    thread = threading.Thread(target=swap)
    thread.start()
    wrong = 0
    try:
        for _ in range(3):
            for size in (3, 4):
                x = lt.arange(float(size)).realize()
                wrong += (x * size - x).tolist() != [i * (size - 1) for i in range(size)]
            planning.clear()
            execute.forget()
    finally:
        ended.set()
        thread.join()
    return wrong


def _interrupt_plans(seed: int) -> int:
    """0 where no plan that was interrupted left a value that is half new and half old."""
    import lazyt as lt

    random.seed(seed)
    size, captured = random.choice((64, 300, 600)), seed % 2
    lt.set_num_threads(1 + seed // 2 % 2)
    matrix = (lt.eye(size) * 1.0).realize()
    weights = [lt.zeros(size, size).realize() for _ in range(2)]

    def step() -> Any:
        total = matrix
        for _ in range(4):
            total = total @ matrix
        for weight in weights:
            weight.add_(total.sum() / size)  # by one
        return total

    function = lt.jit(step) if captured else step
    steps = [4, 4]  # of each weight
    for _ in range(4):
        function()
        lt.realize(*weights)
    main, over = threading.main_thread().ident or 0, time.monotonic() + 1.5

    def send() -> None:
        while time.monotonic() < over:
            time.sleep(random.random() * 0.1)
            signal.pthread_kill(main, signal.SIGINT)

    armed, wrong = False, 0

    def interrupt(*_: object) -> None:  # once each time round
        nonlocal armed
        if armed:
            armed = False
            raise KeyboardInterrupt

    signal.signal(signal.SIGINT, interrupt)
    sender = threading.Thread(target=send)
    sender.start()
    while sender.is_alive():
        total = None
        try:
            armed = True
            total = function()
            lt.realize(*weights)
            armed = False
        except KeyboardInterrupt:
            pass
        found = [(int(w.min().item()), int(w.max().item())) for w in weights]
        wrong += any(low != high for low, high in found)
        # Without capture, an interrupt may come between the lines of a step.
        wrong += captured and len(set(found)) > 1
        wrong += any(low not in (old, old + 1) for (low, _), old in zip(found, steps))
        steps = [high for _, high in found]
        wrong += total is not None and total.sum().item() != size
    return wrong


RACES: dict[str, Callable[[int], int]] = {
    "forks": _fork_in_first_use,
    "interrupts": _interrupt_plans,
    "swaps": _load_while_swapped,
}


def run(name: str, runs: int, first: int = 0) -> list[int]:
    """Seeds of runs, each in a process of its own, that hung, crashed or gave wrong values."""
    import lazyt  # noqa: F401 (what each process has to begin with)
    from lazyt.config import config

    failed = []
    with tempfile.TemporaryDirectory() as folder:
        config.cache_dir = os.path.join(folder, "cache")
        for seed in range(first, first + runs):
            if seed % 8 == 0:
                config.cache_dir = os.path.join(folder, f"cache{seed}")
            child = os.fork()
            if child == 0:
                signal.alarm(2 * _SECONDS)
                status = 9
                try:
                    status = RACES[name](seed)
                finally:
                    os._exit(1 if status else 0)
            _, status = os.waitpid(child, 0)
            if status:
                failed.append(seed)
                print(f"{name}: seed {seed} ended with {status}", flush=True)
    return failed


def main(arguments: list[str]) -> int:
    """Runs one kind of race; the number of runs that failed, at most 100."""
    parser = argparse.ArgumentParser(prog="python -m tests.runtime.races", description=__doc__)
    parser.add_argument("race", choices=sorted(RACES))
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    given = parser.parse_args(arguments)
    begun = time.monotonic()
    failed = run(given.race, given.runs, given.first)
    print(f"{given.race}: {len(failed)} of {given.runs} failed, {time.monotonic() - begun:.0f} s")
    return min(100, len(failed))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
