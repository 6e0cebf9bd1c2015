"""``Timer``: Python statements against the clock, with their results computed.

PyTorch's Timer runs statements that compute at once. Here the last statement's value, or what it
assigns, is realized in the timed region, so that the time is that of the results.
"""

from __future__ import annotations

import ast
import statistics
import time
from collections.abc import Callable
from typing import Any

from lazyt.compat.absent import explain_absence as _explain_absence
from lazyt.config import config
from lazyt.handle.pytree import Flat
from lazyt.handle.tensor import Tensor
from lazyt.handle.tensor_protocol import realize

__all__ = ["Measurement", "Timer"]

_UNITS = (("ns", 1e-9), ("us", 1e-6), ("ms", 1e-3), ("s", 1.0))


class Measurement:
    """Times that a ``Timer`` took.

    Attributes:
        number_per_run: how often the statement ran for each of the times.
        raw_times: seconds of each of these rounds.
        times: seconds of one run of the statement, for each round.
    """

    def __init__(
        self, number_per_run: int, raw_times: list[float], title: str, threads: int
    ) -> None:
        self.number_per_run, self.raw_times = number_per_run, raw_times
        self.title, self.num_threads = title, threads
        self.times = [taken / number_per_run for taken in raw_times]

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
        unit, scale = next((u for u in reversed(_UNITS) if self.median >= u[1]), _UNITS[0])
        lines = [f"<{__name__}.Measurement object at {id(self):#x}>", self.title]
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
        title = f"{label or stmt}{': ' + sub_label if sub_label else ''}"
        self._title = "\n".join(part for part in (title, description) if part)

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
        return Measurement(number, times, self._title, self._threads)


_explain_absence(__name__)
