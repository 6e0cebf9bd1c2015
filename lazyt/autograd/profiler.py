"""Where time goes: kernels with a clock around each, compilation, and Python.

While a profile is on, plans run with an entry that notes when each kernel begins; that entry is
compiled once more (and cached like any other). What one kernel fuses cannot be told apart: a row
of the table is a kernel, named after the values it writes.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from lazyt.runtime import events

_open_ranges: list[list[Interval]] = []


@dataclass
class Interval:
    """Something that took time.

    Attributes:
        name: what; with ``shapes``, the same with the shapes of its values.
        begin, end: ``time.monotonic()`` seconds.
        memory: bytes that it wrote.
        inner: seconds of what else happened inside of it.
    """

    name: str
    begin: float
    end: float
    memory: int = 0
    flops: float = 0.0
    shapes: str = ""
    inner: float = 0.0


@dataclass
class FunctionEventAvg:
    """All intervals of one name. Times are microseconds, memory is bytes.

    Attributes:
        key: the name.
        count: how many there were.
    """

    key: str
    count: int = 0
    cpu_time_total: float = 0.0
    self_cpu_time_total: float = 0.0
    cpu_memory_usage: int = 0
    flops: float = 0.0
    cuda_time_total: float = field(default=0.0, repr=False)
    self_cuda_time_total: float = field(default=0.0, repr=False)
    cuda_memory_usage: int = field(default=0, repr=False)
    self_cuda_memory_usage: int = field(default=0, repr=False)

    @property
    def cpu_time(self) -> float:
        """Mean time of one, in microseconds."""
        return self.cpu_time_total / self.count if self.count else 0.0

    @property
    def self_cpu_memory_usage(self) -> int:
        """Bytes written: nothing is written on behalf of others."""
        return self.cpu_memory_usage

    def add(self, interval: Interval) -> None:
        """Count one more."""
        total = 1e6 * (interval.end - interval.begin)
        self.count += 1
        self.cpu_time_total += total
        self.self_cpu_time_total += max(0.0, total - 1e6 * interval.inner)
        self.cpu_memory_usage += interval.memory
        self.flops += interval.flops


class EventList(list[FunctionEventAvg]):
    """Rows of a profile, which ``table`` prints."""

    def __init__(self, rows: Sequence[FunctionEventAvg], memory: bool, flops: bool) -> None:
        super().__init__(rows)
        self._memory, self._flops = memory, flops

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds of all rows together."""
        return sum(row.self_cpu_time_total for row in self)

    def table(
        self, sort_by: str | None = None, row_limit: int = 100, max_name_column_width: int = 55
    ) -> str:
        """The rows as text.

        Args:
            sort_by: an attribute of FunctionEventAvg, the greatest first.
            row_limit: how many rows at most.
            max_name_column_width: longer names are cut.

        Raises AttributeError for an unknown ``sort_by``.
        """
        rows = list(self)
        if sort_by is not None:
            rows.sort(key=lambda row: getattr(row, sort_by), reverse=True)
        head = ["Name", "Self CPU %", "Self CPU", "CPU total %", "CPU total", "CPU time avg"]
        head += ["CPU Mem", "Self CPU Mem"] if self._memory else []
        head += ["Total FLOPs"] if self._flops else []
        lines = [[*head, "# of Calls"]]
        lines += [self._cells(row, max_name_column_width) for row in rows[:row_limit]]
        widths = [max(len(line[c]) for line in lines) for c in range(len(lines[0]))]
        rule = "  ".join("-" * width for width in widths)
        printed = [_aligned(line, widths) for line in lines]
        total = f"Self CPU time total: {_time(self.self_cpu_time_total)}"
        return "\n".join([rule, printed[0], rule, *printed[1:], rule, total, ""])

    def _cells(self, row: FunctionEventAvg, width: int) -> list[str]:
        name = row.key if len(row.key) <= width else row.key[: width - 3] + "..."
        whole = self.self_cpu_time_total or 1.0
        cells = [name, f"{100 * row.self_cpu_time_total / whole:.2f}%"]
        cells += [_time(row.self_cpu_time_total), f"{100 * row.cpu_time_total / whole:.2f}%"]
        cells += [_time(row.cpu_time_total), _time(row.cpu_time)]
        if self._memory:
            cells += [_bytes(row.cpu_memory_usage), _bytes(row.self_cpu_memory_usage)]
        if self._flops:
            cells.append(f"{row.flops:.0f}")
        return [*cells, str(row.count)]

    def __str__(self) -> str:
        return self.table()


def _aligned(cells: list[str], widths: list[int]) -> str:
    return "  ".join(cell.rjust(width) for cell, width in zip(cells, widths, strict=True))


def _time(microseconds: float) -> str:
    if microseconds >= 1e6:
        return f"{microseconds / 1e6:.3f}s"
    if microseconds >= 1e3:
        return f"{microseconds / 1e3:.3f}ms"
    return f"{microseconds:.3f}us"


def _bytes(count: int) -> str:
    for size, unit in ((1 << 30, "Gb"), (1 << 20, "Mb"), (1 << 10, "Kb")):
        if count >= size:
            return f"{count / size:.2f} {unit}"
    return f"{count} b"


class profile:
    """Records, inside of a ``with`` block, what took time.

    Args:
        enabled: False records nothing.
        record_shapes: for ``key_averages(group_by_input_shape=True)``.
        with_flops: show how many arithmetic operations the kernels did.
        profile_memory: show how many bytes they wrote.

    The other settings of PyTorch's are taken and change nothing. Pending values that are computed
    inside count, wherever they were made.
    """

    def __init__(
        self,
        enabled: bool = True,
        *,
        use_cuda: bool = False,
        use_device: str | None = None,
        record_shapes: bool = False,
        with_flops: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_modules: bool = False,
        use_kineto: bool = False,
        use_cpu: bool = True,
    ) -> None:
        self.enabled = enabled
        self.profile_memory, self.with_flops = profile_memory, with_flops
        self._timings: list[events.Timing] = []
        self._intervals: list[Interval] = []
        self._begin = 0.0

    def __enter__(self) -> profile:
        if self.enabled:
            self._timings, self._intervals = [], []
            events.watching.append(self._timings)
            _open_ranges.append(self._intervals)
            self._begin = time.monotonic()
        return self

    def __exit__(self, *_: object) -> None:
        if not self.enabled:
            return
        end = time.monotonic()
        _remove(events.watching, self._timings)
        _remove(_open_ranges, self._intervals)
        self._intervals.append(Interval("python", self._begin, end))
        self._intervals += [_kernel(timing) for timing in self._timings]
        self._intervals += _compilations(self._begin, end)
        _nest(self._intervals)

    def key_averages(
        self, group_by_input_shape: bool = False, group_by_stack_n: int = 0
    ) -> EventList:
        """One row per name, in order of first occurrence; with shapes, per name and shapes."""
        rows: dict[str, FunctionEventAvg] = {}
        for interval in self._intervals:
            name = interval.shapes or interval.name if group_by_input_shape else interval.name
            rows.setdefault(name, FunctionEventAvg(name)).add(interval)
        return EventList(list(rows.values()), self.profile_memory, self.with_flops)

    def table(self, sort_by: str | None = None, row_limit: int = 100) -> str:
        """``key_averages().table(...)``."""
        return self.key_averages().table(sort_by, row_limit)

    def total_average(self) -> FunctionEventAvg:
        """All rows as one."""
        whole = FunctionEventAvg("Total")
        for interval in self._intervals:
            whole.add(interval)
        return whole

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds of the whole block."""
        return self.key_averages().self_cpu_time_total

    def export_chrome_trace(self, path: str) -> None:
        """Write a file for ``chrome://tracing`` or Perfetto."""
        trace = [
            {
                "name": interval.name, "ph": "X", "pid": 0, "tid": 0,
                "ts": 1e6 * (interval.begin - self._begin),
                "dur": 1e6 * (interval.end - interval.begin),
            }
            for interval in self._intervals
        ]  # fmt: skip
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"traceEvents": trace}, file)

    def __str__(self) -> str:
        return self.table() if self._intervals else "<unfinished profile>"


class record_function:
    """Names what happens inside of a ``with`` block in the profiles that are on."""

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name = name
        self._begin = 0.0

    def __enter__(self) -> record_function:
        self._begin = time.monotonic()
        return self

    def __exit__(self, *_: object) -> None:
        end = time.monotonic()
        for intervals in _open_ranges:
            intervals.append(Interval(self.name, self._begin, end))


def _remove(lists: list[Any], mine: list[Any]) -> None:
    """Take out this very list: another may be equal to it."""
    lists[:] = [item for item in lists if item is not mine]


# The names that PyTorch's users look for.
_TITLES = {"contract": "mm", "map": "elementwise"}


def _kernel(timing: events.Timing) -> Interval:
    note: Any = timing.note
    computes: list[str] = note["computes"]
    titles = [_title(text) for text in computes]
    if note["kind"] == "contract":  # what is fused behind a product gives its values their names
        titles.insert(0, "mm")
    return Interval(
        "lazyt::" + "+".join(dict.fromkeys(titles)),
        timing.begin,
        timing.end,
        int(note["bytes_written"]),
        float(note["flops"]),
        "; ".join(computes),
    )


def _title(text: str) -> str:
    """``reduce sum float32[2, 3]`` -> ``sum``."""
    words = text.partition("[")[0].split()[:-1]
    return _TITLES.get(words[-1], words[-1])


def _compilations(begin: float, end: float) -> list[Interval]:
    """What was compiled between two moments."""
    found = []
    shift = time.monotonic() - time.time()
    for event in events.recorded("compile"):
        stop = event.seconds + shift
        start = stop - float(str(event.details.get("seconds", 0.0)))
        if begin <= start and stop <= end:
            found.append(Interval("compile", start, stop))
    return found


def _nest(intervals: list[Interval]) -> None:
    """Order by time; take from every interval what the next inner ones took."""
    intervals.sort(key=lambda item: (item.begin, -item.end))
    around: list[Interval] = []
    for interval in intervals:
        while around and around[-1].end <= interval.begin:
            around.pop()
        if around:
            around[-1].inner += interval.end - interval.begin
        around.append(interval)
