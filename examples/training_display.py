"""What the examples share: a display of the progress of training, and the time of its steps.

With rich installed (``pip install rich``) there is a bar; without it, a line now and then.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

#: Steps that are left out of the mean: the first is compiled, the next two are captured.
WARM_UP = 3


class Steps:
    """Counts the steps of a training loop and measures them.

    Attributes:
        times: seconds of every step.
    """

    def __init__(self, total: int, show: Callable[[int, str], None]) -> None:
        self.total, self._show = total, show
        self.times: list[float] = []
        self._begun = time.perf_counter()

    def done(self, text: str) -> None:
        """A step is done; ``text`` says what came of it."""
        now = time.perf_counter()
        self.times.append(now - self._begun)
        self._begun = now
        self._show(len(self.times), text)

    def __str__(self) -> str:
        rest = sorted(self.times[WARM_UP:] or self.times)
        first = sum(self.times[:WARM_UP])
        return (
            f"{len(self.times)} steps, {1e3 * rest[len(rest) // 2]:.2f} ms each (median; "
            f"the first {WARM_UP} took {first:.1f} s together)"
        )


@contextmanager
def training(total: int, title: str) -> Iterator[Steps]:
    """Shows the progress of ``total`` steps; their times are printed at the end."""
    try:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
        from rich.progress import TimeElapsedColumn as Elapsed
    except ImportError:
        steps = Steps(total, lambda count, text: _print_some(title, count, total, text))
        yield steps
    else:
        columns = [TextColumn(title), BarColumn(), MofNCompleteColumn()]
        with Progress(*columns, Elapsed(), TextColumn("{task.fields[text]}")) as bar:
            task = bar.add_task(title, total=total, text="")
            yield (steps := Steps(total, lambda _, text: bar.update(task, advance=1, text=text)))
    print(f"{title}: {steps}")


def _print_some(title: str, count: int, total: int, text: str) -> None:
    if count % max(1, total // 10) == 0 or count in (1, total):
        print(f"{title} {count}/{total}  {text}", flush=True)


def arguments(description: str | None, steps: int) -> argparse.ArgumentParser:
    """A parser for the options that all examples have."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=description, formatter_class=raw)
    parser.add_argument("--steps", type=int, default=steps, help="training steps (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of weights and batches (%(default)s)")
    parser.add_argument("--no-compile", action="store_true", help="do not use torch.compile")
    parser.add_argument("--short", action="store_true", help="a few steps, to see that it runs")
    return parser


def pyplot():  # type: ignore[no-untyped-def]
    """matplotlib.pyplot for files, or None where matplotlib is not installed."""
    try:
        import matplotlib
    except ImportError:
        print("no picture: matplotlib is not installed", file=sys.stderr)
        return None
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    return plt
