"""``Timer``: Python statements against the clock, with their results computed.

PyTorch's Timer runs statements that compute at once. Here the last statement's value, or what it
assigns, is realized in the timed region, so that the time is that of the results.
"""

from __future__ import annotations

import ast
import math
import statistics
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from lazyt.compat.absent import explain_absence as _explain_absence
from lazyt.config import config
from lazyt.handle.pytree import Flat
from lazyt.handle.tensor import Tensor
from lazyt.handle.tensor_protocol import realize

__all__ = ["Compare", "Measurement", "TaskSpec", "Timer", "select_unit"]

_UNITS = (("ns", 1e-9), ("us", 1e-6), ("ms", 1e-3), ("s", 1.0))
_NAMES = {"ns": "nanosecond", "us": "microsecond", "ms": "millisecond", "s": "second"}


def select_unit(t: float) -> tuple[str, float]:
    """The unit in which so many seconds are written, and its seconds: ``("us", 1e-06)``."""
    return next((unit for unit in reversed(_UNITS) if t >= unit[1]), _UNITS[0])


@dataclass(frozen=True)
class TaskSpec:
    """What is timed.

    Attributes:
        stmt, setup: the statements.
        label: of the table in which the time stands; the statement if there is none.
        sub_label: of its row.
        description: of its column.
        env: where it ran, which makes another row.
        num_threads: how many threads it had.
    """

    stmt: str
    setup: str = "pass"
    label: str | None = None
    sub_label: str | None = None
    description: str | None = None
    env: str | None = None
    num_threads: int = 1

    @property
    def title(self) -> str:
        """The label, and the one of the row."""
        return f"{self.label or self.stmt}{': ' + self.sub_label if self.sub_label else ''}"


class Measurement:
    """Times that a ``Timer`` took.

    Attributes:
        number_per_run: how often the statement ran for each of the times.
        raw_times: seconds of each of these rounds.
        times: seconds of one run of the statement, for each round.
        task_spec: what was timed.
    """

    def __init__(self, number_per_run: int, raw_times: list[float], task_spec: TaskSpec) -> None:
        self.number_per_run, self.raw_times = number_per_run, raw_times
        self.task_spec = task_spec
        self.times = [taken / number_per_run for taken in raw_times]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "task_spec":
            raise AttributeError(f"Measurement has no attribute {name!r}")
        return getattr(self.task_spec, name)

    @property
    def as_row_name(self) -> str:
        """What its row is called in a table."""
        return self.task_spec.sub_label or self.task_spec.stmt

    @staticmethod
    def merge(measurements: Iterable[Measurement]) -> list[Measurement]:
        """Measurements of the same, by the same number of runs, as one each."""
        found: dict[Any, list[Measurement]] = {}
        for item in measurements:
            found.setdefault((item.task_spec, item.number_per_run), []).append(item)
        return [
            Measurement(number, [t for item in items for t in item.raw_times], spec)
            for (spec, number), items in found.items()
        ]

    @property
    def mean(self) -> float:
        """Mean seconds of one run."""
        return statistics.fmean(self.times)

    @property
    def median(self) -> float:
        """Median seconds of one run."""
        return statistics.median(self.times)

    @property
    def iqr(self) -> float:
        """Seconds between the quarters of the times."""
        if len(self.times) < 2:
            return 0.0
        low, _, high = statistics.quantiles(self.times, n=4, method="inclusive")
        return high - low

    def __repr__(self) -> str:
        unit, scale = select_unit(self.median)
        lines = [f"<{__name__}.Measurement object at {id(self):#x}>", self.title]
        if self.description:
            lines.append(self.description)
        if len(self.times) > 1:
            lines.append(f"  Median: {self.median / scale:.2f} {unit}")
            lines.append(f"  IQR:    {self.iqr / scale:.2f} {unit}")
        else:
            lines.append(f"  {self.median / scale:.2f} {unit}")
        plural = "s" if len(self.times) > 1 else ""
        threads = f"{self.num_threads} thread{'s' if self.num_threads > 1 else ''}"
        lines.append(
            f"  {len(self.times)} measurement{plural}, {self.number_per_run} runs "
            f"{'per measurement, ' if plural else ', '}{threads}"
        )
        return "\n".join(lines)


def _compute(*values: Any) -> None:
    """Realize the tensors in values."""
    leaves: list[Any] = []
    leaves.extend(Flat(values).leaves)
    tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
    if tensors:
        realize(*tensors)


def _computing(statement: str) -> ast.Module:
    """The statement, with ``__compute__`` of what its last part gives or assigns."""
    tree = ast.parse(statement)
    last = tree.body[-1] if tree.body else None
    if isinstance(last, ast.Expr):
        last.value = _call([last.value])
    elif isinstance(last, (ast.Assign, ast.AugAssign, ast.AnnAssign)):
        targets = last.targets if isinstance(last, ast.Assign) else [last.target]
        read = [ast.parse(ast.unparse(target), mode="eval").body for target in targets]
        tree.body.append(ast.Expr(_call(read)))
    return ast.fix_missing_locations(tree)


def _call(values: list[ast.expr]) -> ast.Call:
    return ast.Call(ast.Name("__compute__", ast.Load()), values, [])


class Timer:
    """Times a statement on ``num_threads`` threads, after ``setup``, with the names in ``globals``.

    Runs once before it measures, so that compilers are not in the times.
    """

    def __init__(
        self, stmt: str = "pass", setup: str = "pass", global_setup: str = "",
        timer: Callable[[], float] = time.perf_counter, globals: dict[str, Any] | None = None,
        label: str | None = None, sub_label: str | None = None, description: str | None = None,
        env: str | None = None, num_threads: int = 1, language: Any = "python",
    ) -> None:  # fmt: skip
        if language not in ("python", "py") or global_setup:
            raise ValueError("lazyt times statements of Python only")
        self._names = {**(globals or {}), "__compute__": _compute}
        self._code = compile(_computing(stmt), "<timeit-src>", "exec")
        self._setup = compile(setup, "<timeit-setup>", "exec")
        self._timer, self._threads = timer, num_threads
        self._spec = TaskSpec(stmt, setup, label, sub_label, description, env, num_threads)

    def _rounds(self, number: int) -> Callable[[], float]:
        """Runs the setup and the statement once, and makes what times ``number`` runs."""
        names, code, timer = self._names, self._code, self._timer
        exec(self._setup, names)
        exec(code, names)

        def once() -> float:
            start = timer()
            for _ in range(number):
                exec(code, names)
            return timer() - start

        return once

    def timeit(self, number: int = 1000000) -> Measurement:
        """One time of ``number`` runs."""
        with config.override(threads=self._threads):
            return self._measured(number, [self._rounds(number)()])

    def blocked_autorange(
        self, callback: Callable[..., Any] | None = None, min_run_time: float = 0.2
    ) -> Measurement:
        """Times for ``min_run_time`` seconds, in rounds long enough for the clock."""
        with config.override(threads=self._threads):
            number = 1
            while (once := self._rounds(number))() < min_run_time / 1000:
                number *= 10
            times: list[float] = []
            while not times or sum(times) < min_run_time:
                times.append(once())
                if callback is not None:
                    callback(number, times[-1])
        return self._measured(number, times)

    def adaptive_autorange(
        self, threshold: float = 0.1, *, min_run_time: float = 0.01, max_run_time: float = 10.0,
        callback: Callable[..., Any] | None = None,
    ) -> Measurement:  # fmt: skip
        """Times until the quarters lie within ``threshold`` of the median, in twice the time each
        time, ``max_run_time`` seconds at most."""
        seconds = min_run_time
        while True:
            found = self.blocked_autorange(callback, seconds)
            steady = len(found.times) >= 4 and found.iqr <= threshold * found.median
            if steady or seconds >= max_run_time:
                return found
            seconds = min(2 * seconds, max_run_time)

    def _measured(self, number: int, times: list[float]) -> Measurement:
        return Measurement(number, times, self._spec)


class Compare:
    """Measurements as tables: one for each label, with a row for each ``sub_label``, a block of
    rows for each number of threads, and a column for each description.

    >>> from lazyt.utils.benchmark import Compare, Timer
    >>> times = [Timer("x + 1", globals={"x": lazyt.ones(9)}, description="add").timeit(5)]
    >>> "add" in str(Compare(times))
    True

    Args:
        results: the measurements.
    """

    def __init__(self, results: Iterable[Measurement]) -> None:
        self._results: list[Measurement] = []
        self.extend_results(results)
        self._trimmed = self._colored = self._noted = False

    def extend_results(self, results: Iterable[Measurement]) -> None:
        """Adds measurements. Raises ValueError for other objects."""
        for item in results:
            if not isinstance(item, Measurement):
                raise ValueError(
                    f"Expected an instance of `Measurement`, got {type(item)} instead."
                )
            self._results.append(item)

    def trim_significant_figures(self) -> None:
        """From now on times are written to as many digits as their spread allows."""
        self._trimmed = True

    def colorize(self, rowwise: bool = False) -> None:
        """From now on the best time of a row is green, on a terminal."""
        self._colored = True

    def highlight_warnings(self) -> None:
        """From now on times whose quarters are a tenth of the median apart have a note."""
        self._noted = True

    def print(self) -> None:
        """Prints the tables."""
        print(str(self))

    def __str__(self) -> str:
        merged = Measurement.merge(self._results)
        labels = dict.fromkeys(item.label or item.stmt for item in merged)
        return "\n".join(
            self._table(label, [item for item in merged if (item.label or item.stmt) == label])
            for label in labels
        )

    def _table(self, label: str, items: list[Measurement]) -> str:
        columns = [*dict.fromkeys(item.description for item in items)]
        unit, scale = select_unit(min(item.median for item in items))
        rows: dict[tuple[int, str], dict[str | None, str]] = {}
        for item in items:
            where = f"({item.env})  " if item.env else ""
            row = rows.setdefault((item.num_threads, where + item.as_row_name), {})
            row[item.description] = self._text(item, scale)
        best = {key: min(row.values(), key=_number) for key, row in rows.items() if len(row) > 1}
        first = max([len(name) for _, name in rows] + [len("1 threads: ")]) + 2
        widths = [
            max([len(str(column or "")), *(len(row.get(column, "")) for row in rows.values())])
            for column in columns
        ]
        line = " " * first + "".join(
            f"  |  {column or '':>{width}}" for column, width in zip(columns, widths)
        )
        lines = [f"[{f' {label} ':-^{max(len(line) - 2, len(label) + 2)}}]", line]
        threads = None
        for (number, name), row in sorted(rows.items(), key=lambda entry: entry[0][0]):
            if number != threads:
                threads = number
                lines.append(f"{number} threads: ".ljust(len(line), "-"))
            cells = [row.get(column, "") for column in columns]
            texts = [f"{cell:>{width}}" for cell, width in zip(cells, widths)]
            if self._colored and sys.stdout.isatty():
                green = best.get((number, name))
                texts = [
                    f"\033[92m{text}\033[0m" if cell == green else text
                    for cell, text in zip(cells, texts)
                ]
            lines.append(f"  {name:<{first - 2}}" + "".join(f"  |  {text}" for text in texts))
        return "\n".join([*lines, "", f"Times are in {_NAMES[unit]}s ({unit}).", ""])

    def _text(self, item: Measurement, scale: float) -> str:
        value = item.median / scale
        text = f"{value:.1f}"
        if self._trimmed and len(item.times) > 1 and item.iqr:
            digits = max(1, math.ceil(math.log10(item.median / item.iqr)))
            text = f"{float(f'{value:.{digits - 1}e}'):.1f}"
        if self._noted and item.iqr > item.median / 10:
            text += f" (! {item.iqr / item.median:.0%})"
        return text


def _number(text: str) -> float:
    return float(text.split()[0])


_explain_absence(__name__)
