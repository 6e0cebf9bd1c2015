"""Timing forms of one kernel beside each other."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from lazyt.codegen.trials import WANTED_BYTES
from lazyt.runtime.execute import Executable
from lazyt.runtime.memory import Buffer

#: A trial repeats a kernel for about so long: clocks and calls then cost nothing beside it.
TRIAL_SECONDS = 0.002
#: How often each is timed in a round of a race: a busy machine interrupts one of them, not all.
SAMPLES = 3
#: How much faster a form has to be, to be kept.
MARGIN = 0.03


class Steps:
    """A program whose launches run one at a time, see ``trials.py``; ``pointers`` are the addresses
    behind its slots, but for the last."""

    def __init__(self, executable: Executable, pointers: Sequence[int]) -> None:
        self.executable = executable
        self.wanted = Buffer(WANTED_BYTES)
        self.slots = struct.pack(f"{len(pointers) + 1}P", *pointers, self.wanted.ptr)

    def run(self, number: int, times: int = 1) -> float:
        """Runs a launch so many times; the seconds of one."""
        self.wanted.copy_from(struct.pack("qq", number, times))
        begin = time.perf_counter()
        self.executable.launch(self.slots)
        return (time.perf_counter() - begin) / times


@dataclass(eq=False)
class Runner:
    """Something that can be timed.

    Attributes:
        run: runs it so many times, and gives the seconds of one.
        prepare: called before, outside of the clock.
    """

    run: Callable[[int], float]
    prepare: Callable[[], None] | None = None

    def seconds(self, times: int) -> float:
        """The time of one of so many runs in a row."""
        if self.prepare is not None:
            self.prepare()
        return self.run(times)


def repeats(seconds: float, most: int = 10_000) -> int:
    """How often something runs in a trial that takes so long."""
    return max(1, min(most, int(TRIAL_SECONDS / max(seconds, 1e-9))))


def race(runners: Sequence[Runner], times: int) -> list[float]:
    """The best seconds of each: all run a few times by turns, the faster half again, then half of
    these. What is slow is seen at once, and what is close is looked at closely."""
    best = [float("inf")] * len(runners)
    alive = list(range(len(runners)))
    while alive:
        for _ in range(SAMPLES):
            for number in alive:
                best[number] = min(best[number], runners[number].seconds(times))
        if len(alive) == 1:
            break
        alive.sort(key=lambda n: best[n])
        alive = alive[: max(1, len(alive) // 2)]
    return best


def duel(old: Runner, new: Runner, times: int, rounds: int = 9) -> tuple[float, float, bool]:
    """The best seconds of both, run by turns, and whether the new one is certainly faster: in the
    median, at its best, and nearly always beside its neighbour in time."""
    olds: list[float] = []
    news: list[float] = []
    for turn in range(rounds):
        pair = ((old, olds), (new, news))
        for runner, seconds in pair if turn % 2 else reversed(pair):
            seconds.append(runner.seconds(times))
    wins = sum(b < a for a, b in zip(olds, news, strict=True))
    share = 1.0 - MARGIN
    faster = median(news) < share * median(olds) and min(news) < share * min(olds)
    return min(olds), min(news), faster and 4 * wins >= 3 * rounds
