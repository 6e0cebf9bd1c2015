"""How far tuning is, on the terminal: a bar where ``rich`` is installed, else a line of text."""

from __future__ import annotations

import struct
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import median
from typing import TextIO

from lazyt.codegen.plan.trials import WANTED_BYTES
from lazyt.runtime.cpu.execute import Executable
from lazyt.runtime.memory import Buffer

# Timing forms of one kernel beside each other.


#: A trial repeats a kernel for about so long: clocks and calls then cost nothing beside it.
TRIAL_SECONDS = 0.002
#: How often each is timed in a round of a race: a busy machine interrupts one of them, not all.
SAMPLES = 3
#: How much faster a form has to be, to be kept.
MARGIN = 0.03


class Steps:
    """A program whose launches run one at a time, see ``codegen/plan/trials.py``; ``pointers`` are
    the addresses behind its slots, except the last."""

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
        samples: all that ``seconds`` gave.
    """

    run: Callable[[int], float]
    prepare: Callable[[], None] | None = None
    samples: list[float] = field(default_factory=list)

    def seconds(self, times: int) -> float:
        """The time of one of so many runs in a row."""
        if self.prepare is not None:
            self.prepare()
        found = self.run(times)
        self.samples.append(found)
        return found


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


class Progress:
    """Silent progress, and what the others have in common."""

    def __init__(self) -> None:
        self.messages: list[str] = []

    def show(self, share: float, text: str) -> None:
        """So much of the work is done, from 0 to 1; ``text`` is what is done now."""

    def say(self, message: str) -> None:
        """Something worth knowing happened."""
        self.messages.append(message)

    def end(self) -> None:
        """Nothing more will be shown."""

    @staticmethod
    @contextmanager
    def shown(wanted: bool | None = None, stream: TextIO | None = None) -> Iterator[Progress]:
        """Progress on ``stream`` (standard error); unless ``wanted`` only where that is a terminal,
        and never if it is False."""
        stream = stream or sys.stderr
        progress = Progress()
        if wanted or (wanted is None and stream.isatty()):
            bar = _rich_bar(stream)
            progress = _RichProgress(*bar) if bar is not None else _TextProgress(stream)
        try:
            yield progress
        finally:
            progress.end()


class _TextProgress(Progress):
    """One line that is written over and over; where the stream is no terminal, a line for each
    thing that is tried."""

    WIDTH = 24

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self.stream = stream
        self.again = stream.isatty()
        self.last = ""

    def show(self, share: float, text: str) -> None:
        done = round(self.WIDTH * min(max(share, 0.0), 1.0))
        bar = "#" * done + "." * (self.WIDTH - done)
        line = f"tuning [{bar}] {100 * share:3.0f} %  {text}"[:119]
        if self.again:
            self.stream.write("\r" + line.ljust(119))
        elif text != self.last:
            self.stream.write(line + "\n")
        self.last = text
        self.stream.flush()

    def say(self, message: str) -> None:
        super().say(message)
        self.stream.write(("\n" if self.again else "") + message + "\n")

    def end(self) -> None:
        if self.again and self.last:
            self.stream.write("\r" + " " * 119 + "\r")
        self.stream.flush()


class _RichProgress(Progress):
    """A bar of rich's."""

    def __init__(
        self,
        show: Callable[[float, str], None],
        say: Callable[[str], None],
        end: Callable[[], None],
    ) -> None:
        super().__init__()
        self._show, self._say, self._end = show, say, end

    def show(self, share: float, text: str) -> None:
        self._show(share, text)

    def say(self, message: str) -> None:
        super().say(message)
        self._say(message)

    def end(self) -> None:
        self._end()


def _rich_bar(
    stream: TextIO,
) -> tuple[Callable[[float, str], None], Callable[[str], None], Callable[[], None]] | None:
    """What shows, says and ends on a bar of rich's; None where rich is not installed."""
    try:
        from rich.console import Console
        from rich.markup import escape
        from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Bar
    except ImportError:
        return None
    columns = (TextColumn("tuning"), BarColumn(24), TextColumn("{task.percentage:3.0f} %"))
    label = TextColumn("{task.description}")
    bar = Bar(*columns, TimeElapsedColumn(), label, console=Console(file=stream), transient=True)
    task = bar.add_task("", total=1.0)
    bar.start()

    def show(share: float, text: str) -> None:
        bar.update(task, completed=share, description=escape(text))

    def say(message: str) -> None:
        bar.console.print(escape(message))

    return show, say, bar.stop
