"""What a profile consists of: intervals of time, sums of those of one name, and their table."""

from __future__ import annotations

import gzip
import json
import math
import os
import platform
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ContextDecorator
from dataclasses import dataclass, field
from threading import get_ident
from typing import Any, NamedTuple

from lazyt.errors import LazytError
from lazyt.runtime import events
from lazyt.runtime.cpu.roofline import Roofline, measure
from lazyt.runtime.memory import pool

__all__ = ["EventList", "FunctionEvent", "FunctionEventAvg", "profile", "record_function"]

#: The name of compilations.
COMPILE = "compile"

#: Widths of the columns of PyTorch's tables.
_WIDTH, _MOST_SOURCE, _MOST_SHAPES = 12, 75, 80
_FLOPS = ("FLOPs", "KFLOPs", "MFLOPs", "GFLOPs", "TFLOPs", "PFLOPs")


class Interval(NamedTuple):
    """A time from ``start`` to ``end``, in microseconds."""

    start: float
    end: float

    def elapsed_us(self) -> float:
        """How long it is."""
        return self.end - self.start


class _Timed(ABC):
    """Times of events and rows in all the forms that PyTorch has. Nothing runs on a GPU yet."""

    count: int
    device_type = "cpu"
    device_time = self_device_time_total = device_time_total = 0.0
    device_memory_usage = self_device_memory_usage = 0

    @property
    @abstractmethod
    def cpu_time_total(self) -> float:
        """Microseconds."""

    @property
    @abstractmethod
    def self_cpu_time_total(self) -> float:
        """Microseconds without what else happened inside."""

    @property
    def cpu_time(self) -> float:
        """Mean time of one, in microseconds."""
        return self.cpu_time_total / self.count if self.count else 0.0

    @property
    def cpu_time_str(self) -> str:
        """``cpu_time`` with a unit."""
        return _time(self.cpu_time)

    @property
    def cpu_time_total_str(self) -> str:
        """``cpu_time_total`` with a unit."""
        return _time(self.cpu_time_total)

    @property
    def self_cpu_time_total_str(self) -> str:
        """``self_cpu_time_total`` with a unit."""
        return _time(self.self_cpu_time_total)


@dataclass(eq=False)
class FunctionEvent(_Timed):
    """Something that took time: a kernel, a plan, a range that was named, a compilation.

    Attributes:
        name: what.
        begin, end: ``time.monotonic()`` seconds.
        kind: ``kernel``, ``plan``, ``range``, ``compile``, ``library`` or ``python``, the whole.
        cpu_memory_usage: bytes of the values that it wrote.
        bytes_read: bytes that it read, every value once.
        flops: arithmetic operations, functions counted at their cost.
        least_seconds: what it would take at least on this machine, 0 where that is not known.
        computes: the values that it writes, as ``op dtype[shape]``.
        input_shapes: their shapes.
        stack: the user's ``file:line`` of the operations in it.
        thread: who ran it.
        in_use, scratch: bytes of all tensors, and of values between the kernels of a plan.
        inner: seconds of what else happened inside of it.
        compiled: seconds of compilations inside of it, which its times leave out.
    """

    name: str
    begin: float
    end: float
    kind: str = "range"
    cpu_memory_usage: int = 0
    bytes_read: int = 0
    flops: float = 0.0
    least_seconds: float = 0.0
    computes: str = ""
    input_shapes: list[list[int]] = field(default_factory=list)
    stack: list[str] = field(default_factory=list)
    thread: int = 0
    in_use: int = 0
    scratch: int = 0
    inner: float = 0.0
    compiled: float = 0.0
    cpu_parent: FunctionEvent | None = field(default=None, repr=False)
    cpu_children: list[FunctionEvent] = field(default_factory=list, repr=False)

    count = 1

    @property
    def time_range(self) -> Interval:
        """When it happened, on the clock of ``begin`` and ``end``."""
        return Interval(1e6 * self.begin, 1e6 * self.end)

    @property
    def self_cpu_memory_usage(self) -> int:
        """Bytes written: nothing is written on behalf of others."""
        return self.cpu_memory_usage

    @property
    def key(self) -> str:
        """The name under which it is counted."""
        return "ProfilerStep*" if self.name.startswith("ProfilerStep#") else self.name

    @property
    def cpu_time_total(self) -> float:
        """Microseconds, all that happened inside included but compilations."""
        return 1e6 * (self.end - self.begin - self.compiled)

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds without what else happened inside."""
        return max(0.0, self.cpu_time_total - 1e6 * self.inner)


@dataclass
class FunctionEventAvg(_Timed):
    """All intervals of one name. Times are microseconds, memory is bytes.

    Attributes:
        key: the name.
        count: how many there were.
        flops, bytes_moved: arithmetic operations, and bytes read and written, of all of them.
        input_shapes: shapes of the values that they wrote, where those are told apart.
        stack: the user's ``file:line`` of the operations in them.
    """

    key: str
    count: int = 0
    cpu_time_total: float = 0.0
    self_cpu_time_total: float = 0.0
    cpu_memory_usage: int = 0
    bytes_moved: int = 0
    flops: float = 0.0
    least_time: float = 0.0
    input_shapes: list[list[int]] | None = None
    stack: list[str] = field(default_factory=list)

    @property
    def self_cpu_memory_usage(self) -> int:
        """Bytes written: nothing is written on behalf of others."""
        return self.cpu_memory_usage

    @property
    def roofline(self) -> float:
        """The least time that this machine would need, as a share of the time taken. More than 1
        where the data came from a cache; 0 where it was not measured."""
        return self.least_time / self.cpu_time_total if self.cpu_time_total else 0.0

    @property
    def bandwidth(self) -> float:
        """Bytes per second."""
        return 1e6 * self.bytes_moved / self.cpu_time_total if self.cpu_time_total else 0.0

    def add(self, event: FunctionEvent) -> None:
        """Count one more."""
        self.count += 1
        self.cpu_time_total += event.cpu_time_total
        self.self_cpu_time_total += event.self_cpu_time_total
        self.cpu_memory_usage += event.cpu_memory_usage
        self.bytes_moved += event.bytes_read + event.cpu_memory_usage
        self.flops += event.flops
        self.least_time += 1e6 * event.least_seconds
        self.stack = list(dict.fromkeys([*self.stack, *event.stack]))


class EventList(list[FunctionEventAvg]):
    """Rows of a profile, which ``table`` prints.

    Args:
        rows: the rows.
        memory, flops, stack: which columns to show besides the times.
    """

    def __init__(
        self,
        rows: Iterable[FunctionEventAvg] = (),
        memory: bool = False,
        flops: bool = False,
        stack: bool = False,
    ) -> None:
        super().__init__(rows)
        self._memory, self._flops, self._stack = memory, flops, stack

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds of all rows together, without compilations."""
        return sum(row.self_cpu_time_total for row in self if row.key != COMPILE)

    def total_average(self) -> FunctionEventAvg:
        """All rows as one; compilations are counted and take no time."""
        whole = FunctionEventAvg("Total")
        for row in self:
            whole.count += row.count
            if row.key == COMPILE:
                continue
            whole.cpu_time_total += row.cpu_time_total
            whole.self_cpu_time_total += row.self_cpu_time_total
            whole.cpu_memory_usage += row.cpu_memory_usage
            whole.bytes_moved += row.bytes_moved
            whole.flops += row.flops
        return whole

    def table(
        self,
        sort_by: str | None = None,
        row_limit: int = 100,
        max_src_column_width: int | None = _MOST_SOURCE,
        max_name_column_width: int | None = 55,
        max_shapes_column_width: int | None = _MOST_SHAPES,
        header: str | None = None,
        top_level_events_only: bool = False,
        time_unit: str | None = None,
    ) -> str:
        """The rows as text, laid out as PyTorch does. With flops there are two columns more: the
        bytes moved and the share of the roofline. Compilations, of which later runs have none, come
        last and are part of no sum.

        Args:
            sort_by: an attribute of FunctionEventAvg, the greatest first.
            row_limit: how many rows at most; -1 for all.
            max_src_column_width, max_name_column_width, max_shapes_column_width: longer texts are
                cut; None for never.
            header: a line above the table.
            top_level_events_only: leave out what happened inside of others; rows do not tell, so
                it only adds PyTorch's line.
            time_unit: ``s``, ``ms`` or ``us``; by default each number has the one that suits it.

        Returns "" where there are no rows. Raises AttributeError for an unknown ``sort_by``.
        """
        rows: list[FunctionEventAvg] = list(self)
        if not rows:
            return ""
        if sort_by is not None:
            name = sort_by.replace("cuda", "device").replace("xpu", "device")
            if not hasattr(rows[0], name):
                keys = ", ".join(n for n in vars(rows[0]) if not n.startswith("_"))
                raise AttributeError(f"no rows are sorted by {sort_by!r}; there are {keys}")
            rows.sort(key=lambda row: getattr(row, name), reverse=True)
        rows.sort(key=lambda row: row.key == COMPILE)
        columns = _columns(self, rows, time_unit)
        names = _cut([row.key for row in rows], max_name_column_width, max_name_column_width)
        table = [("Name", names, _wide([row.key for row in rows], max_name_column_width), ">")]
        table += [(title, cells, _WIDTH, ">") for title, cells in columns]
        if any(row.input_shapes for row in rows):
            shapes = [str(row.input_shapes or []) for row in rows]
            most = max_shapes_column_width
            table.append(("Input Shapes", _cut(shapes, most, most), _wide(shapes, most), ">"))
        if self._stack and any(row.stack for row in rows):
            lines = [entry for row in rows for entry in row.stack]
            width = max(_wide(lines, max_src_column_width), len("Source Location"))
            places = [_end(row.stack[-1], width) if row.stack else "" for row in rows]
            table.append(("Source Location", places, width, "<"))
        table += [(t, cells, _WIDTH, ">") for t, cells in self._work_columns(rows)]
        shown = len(rows) if row_limit < 0 else min(row_limit, len(rows))
        lines = _laid_out(table, shown)
        above = [*([header] if header is not None else [])]
        above += ["This report only display top-level ops statistics"] * top_level_events_only
        bar = "=" * (len(lines[0]) - 2)
        titles = [line for text in above for line in (bar, text)]
        return "\n".join([*titles, *lines, *self._totals(time_unit), ""])

    def _totals(self, time_unit: str | None) -> Iterator[str]:
        """The lines below the table."""
        yield f"Self CPU time total: {_time(self.self_cpu_time_total, time_unit)}"
        for row in self:
            if row.key == COMPILE:
                took = _time(row.cpu_time_total, time_unit)
                yield f"Compile time total: {took} ({row.count} plans; later runs have none of it)"

    def _work_columns(self, rows: Sequence[FunctionEventAvg]) -> list[tuple[str, list[str]]]:
        amounts = [row.flops for row in rows if row.flops > 0]
        if not self._flops or not amounts:
            return []
        power = max(0, min(int(math.log10(max(min(amounts), 1.0)) / 3), len(_FLOPS) - 1))
        flops = [f"{row.flops / 1000**power:.3f}" if row.flops > 0 else "--" for row in rows]
        moved = [_bytes(row.bytes_moved) if row.bytes_moved else "--" for row in rows]
        share = [f"{row.roofline:.1%}" if row.least_time else "--" for row in rows]
        return [(f"Total {_FLOPS[power]}", flops), ("Bytes moved", moved), ("Roofline", share)]

    def _repr_html_(self) -> str:
        import html

        return f"<pre>{html.escape(self.table())}</pre>"

    def __str__(self) -> str:
        return self.table()

    def memory_shown(self) -> bool:
        """Whether the table has columns for memory."""
        return self._memory


def _columns(
    events: EventList, rows: Sequence[FunctionEventAvg], unit: str | None
) -> list[tuple[str, list[str]]]:
    """The columns of times, memory and counts, as titles with cells."""
    whole = events.self_cpu_time_total
    found = [
        ("Self CPU %", [_share(row.self_cpu_time_total, _whole(row, whole)) for row in rows]),
        ("Self CPU", [_time(row.self_cpu_time_total, unit) for row in rows]),
        ("CPU total %", [_share(row.cpu_time_total, _whole(row, whole)) for row in rows]),
        ("CPU total", [_time(row.cpu_time_total, unit) for row in rows]),
        ("CPU time avg", [_time(row.cpu_time, unit) for row in rows]),
    ]
    if events.memory_shown():
        found.append(("CPU Mem", [_bytes(row.cpu_memory_usage) for row in rows]))
        found.append(("Self CPU Mem", [_bytes(row.self_cpu_memory_usage) for row in rows]))
    found.append(("# of Calls", [str(row.count) for row in rows]))
    return found


def _laid_out(table: Sequence[tuple[str, list[str], int, str]], shown: int) -> list[str]:
    rule = "".join("-" * width + "  " for _, _, width, _ in table)
    lines = [[title for title, *_ in table]]
    lines += [[cells[n] for _, cells, *_ in table] for n in range(shown)]
    sides = [(width, side) for *_, width, side in table]
    texts = [
        "".join(f"{cell:{side}{width}}  " for cell, (width, side) in zip(line, sides, strict=True))
        for line in lines
    ]
    return [rule, texts[0], rule, *texts[1:], rule]


def _wide(texts: Sequence[str], most: int | None) -> int:
    width = max(len(text) for text in texts) + 4
    return width if most is None else min(width, most)


def _cut(texts: Sequence[str], most: int | None, keep: int | None) -> list[str]:
    if most is None or keep is None:
        return list(texts)
    return [text[: keep - 3] + "..." if len(text) >= most - 3 else text for text in texts]


def _end(text: str, width: int) -> str:
    """The end of a path: what is left out stands before it."""
    return text if len(text) <= width else "..." + text[len(text) - width + 3 :]


def _whole(row: FunctionEventAvg, whole: float) -> float | None:
    """What shares of a row refer to; None for compilations, which are part of nothing."""
    return None if row.key == COMPILE else whole


def _share(part: float, whole: float | None) -> str:
    if whole is None:
        return "--"
    return f"{100 * part / whole:.2f}%" if whole else "NaN"


def _time(microseconds: float, unit: str | None = None) -> str:
    if unit == "s" or (unit is None and microseconds >= 1e6):
        return f"{microseconds / 1e6:.3f}s"
    if unit == "ms" or (unit is None and microseconds >= 1e3):
        return f"{microseconds / 1e3:.3f}ms"
    return f"{microseconds:.3f}us"


def _bytes(count: int) -> str:
    for size, unit in ((1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "KB")):
        if abs(count) >= size:
            return f"{count / size:.2f} {unit}"
    return f"{count} B"


def shapes_in(computes: Sequence[str]) -> list[list[int]]:
    """``map float32[2, 3]`` -> ``[2, 3]``, of each text; of collectives, whose ranks may have
    different numbers of rows, the axes that all have."""
    found: list[list[int]] = []
    for text in computes:
        inside = text.rpartition("[")[2].partition("]")[0]
        parts = [part.strip() for part in inside.split(",")]
        found.append([int(part) for part in parts if part.isdecimal()])
    return found


# Profiles as files: trace events that Perfetto and chrome://tracing open, and stacks.


#: Categories that viewers colour and filter by, as PyTorch names them.
_CATEGORIES = {
    "kernel": "cpu_op",
    "plan": "cpu_op",
    "library": "cpu_op",
    "range": "user_annotation",
    "compile": "python_function",
    "python": "python_function",
}
Samples = Sequence[tuple[float, int, int]]


def write_text(path: str, text: str) -> None:
    """Writes a file, compressed where its name ends in ``.gz``."""
    data = text.encode()
    with open(path, "wb") as file:
        file.write(gzip.compress(data) if path.endswith(".gz") else data)


def trace_json(
    events: Sequence[FunctionEvent], samples: Samples, origin: float, facts: Mapping[str, Any]
) -> str:
    """The trace event format: every event as a complete event (``X``), memory as a counter (``C``).

    Args:
        events: what happened.
        samples: moments with the bytes of all tensors and of scratch memory.
        origin: the moment that counts as 0.
        facts: further entries of the file's outermost object.
    """
    me = os.getpid()
    threads = {thread: n for n, thread in enumerate(dict.fromkeys(e.thread for e in events))}
    made: list[dict[str, Any]] = [_named("process_name", me, 0, "python")]
    made += [
        _named("thread_name", me, n, f"thread {thread}" if n else "main")
        for thread, n in threads.items()
    ]
    for event in events:
        begin, end = (round(1e6 * (moment - origin), 3) for moment in (event.begin, event.end))
        made.append(
            {
                "ph": "X",
                "cat": _CATEGORIES[event.kind],
                "name": event.name,
                "pid": me,
                "tid": threads[event.thread],
                "ts": begin,
                "dur": round(end - begin, 3),  # of what is written, so that rounding keeps order
                "args": _arguments(event),
            }
        )
    for moment, tensors, scratch in samples:
        ts = round(1e6 * (moment - origin), 3)
        args = {"tensors": tensors, "between kernels": scratch}
        made.append({"ph": "C", "name": "memory", "pid": me, "tid": 0, "ts": ts, "args": args})
    whole = {
        "schemaVersion": 1,
        "displayTimeUnit": "ms",
        "host_name": platform.node(),
        **facts,
        "traceEvents": made,
    }
    return json.dumps(whole)


def _named(what: str, process: int, thread: int, name: str) -> dict[str, Any]:
    return {
        "ph": "M", "name": what, "pid": process, "tid": thread, "ts": 0, "args": {"name": name},
    }  # fmt: skip


def _arguments(event: FunctionEvent) -> dict[str, Any]:
    """What a viewer shows of an event that was clicked on."""
    facts: dict[str, Any] = {}
    if event.computes:
        facts["computes"] = event.computes
        facts["bytes read"], facts["bytes written"] = event.bytes_read, event.cpu_memory_usage
        facts["flops"] = event.flops
    if event.least_seconds and event.end > event.begin:
        facts["roofline"] = round(event.least_seconds / (event.end - event.begin), 4)
    if event.stack:
        facts["source"] = event.stack
    return facts


def stack_lines(events: Sequence[FunctionEvent]) -> str:
    """Microseconds by source line, in the form that flame graph tools read: ``line;name count``."""
    total: dict[str, float] = {}
    for event in events:
        if event.stack:
            path = ";".join([*event.stack, event.name]).replace(" ", "_")
            total[path] = total.get(path, 0.0) + event.self_cpu_time_total
    return "".join(f"{path} {int(time)}\n" for path, time in total.items())


# Where time goes: kernels with a clock around each, plans, compilation, and Python.
#
# While a profile is on, plans run with an entry that notes when each kernel begins; that entry is
# compiled once more (and cached like any other). What one kernel fuses cannot be told apart: a row
# of the table is a kernel, named after the values it writes, with the source lines it came from.
# As values are computed late, a kernel belongs to the range in which somebody looked at a value,
# not to the one whose lines it came from.


class _Recording:
    """What is noted while a profile is on."""

    def __init__(self) -> None:
        self.timings: list[events.Timing] = []
        self.ranges: list[FunctionEvent] = []
        self.samples: list[tuple[float, int, int]] = []

    def sample(self) -> None:
        """Note how much memory is in use."""
        self.samples.append((time.monotonic(), pool.in_use, 0))


_recordings: list[_Recording] = []


class profile:
    """Records, inside of a ``with`` block, what took time.

    Args:
        enabled: False records nothing.
        record_shapes: keep the shapes of values, for ``key_averages(group_by_input_shape=True)``.
        with_flops: show how many arithmetic operations the kernels did, how many bytes they moved,
            and how near that is to what this machine can do (measured once, then remembered).
        profile_memory: show how many bytes they wrote, and note how much memory is in use.
        with_stack: show the last source line that each kernel came from.

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
        experimental_config: Any = None,
    ) -> None:
        self.enabled = enabled
        self.record_shapes, self.with_flops = record_shapes, with_flops
        self.profile_memory, self.with_stack = profile_memory, with_stack
        self._recording = _Recording()
        self._begin = 0.0
        self._begun = False
        self._events: list[FunctionEvent] | None = None

    def __enter__(self) -> profile:
        if self.enabled:
            if self._begun:
                raise RuntimeError("Profiler context manager is not reentrant")
            self._recording, self._events, self._begun = _Recording(), None, True
            events.watching.append(self._recording.timings)
            _recordings.append(self._recording)
            self._recording.sample()
            self._begin = time.monotonic()
        return self

    def __exit__(self, *_: object) -> None:
        if not self.enabled:
            return
        self._begun = False
        end = time.monotonic()
        noted = self._recording
        noted.sample()
        # By identity: another recording may be equal to this one.
        events.watching[:] = [item for item in events.watching if item is not noted.timings]
        _recordings[:] = [item for item in _recordings if item is not noted]
        bounds = measure() if self.with_flops and noted.timings else None
        whole = FunctionEvent("python", self._begin, end, "python", thread=get_ident())
        found = [whole, *noted.ranges]
        found += [_event(timing, bounds) for timing in noted.timings]
        found += _compilations(self._begin, end)
        nest(found)
        self._events = found

    def _finished(self) -> list[FunctionEvent]:
        if self._events is None:
            if self.enabled:
                raise RuntimeError("Profiler didn't finish running")
            return []
        return self._events

    def events(self) -> Events:
        """Everything that was noted, in order of time; a list that can print a table, too."""
        return Events(self)

    @property
    def function_events(self) -> Events:
        """``events()``."""
        return self.events()

    def key_averages(
        self,
        group_by_input_shape: bool = False,
        group_by_stack_n: int = 0,
        group_by_overload_name: bool = False,
    ) -> EventList:
        """One row per name, in order of first occurrence.

        Args:
            group_by_input_shape: one row per name and shapes of the values written.
            group_by_stack_n: one row per name and so many source lines, counted from the last.
            group_by_overload_name: changes nothing; kernels have one name.

        Raises RuntimeError inside of the ``with`` block.
        """
        rows: dict[Any, FunctionEventAvg] = {}
        for event in self._finished():
            lines = event.stack[-group_by_stack_n:] if group_by_stack_n else []
            key = (event.key, event.computes if group_by_input_shape else "", *lines)
            row = rows.get(key)
            if row is None:
                row = rows[key] = FunctionEventAvg(event.key)
                if group_by_input_shape and self.record_shapes:
                    row.input_shapes = event.input_shapes
            row.add(event)
        return EventList(rows.values(), self.profile_memory, self.with_flops, self.with_stack)

    def table(self, sort_by: str | None = None, row_limit: int = 100, **layout: Any) -> str:
        """``key_averages().table(...)``, and its arguments."""
        return self.key_averages().table(sort_by, row_limit, **layout)

    def total_average(self) -> FunctionEventAvg:
        """All rows as one."""
        return self.key_averages().total_average()

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds of the whole block."""
        return self.key_averages().self_cpu_time_total

    def memory_samples(self) -> Samples:
        """Moments (``time.monotonic()`` seconds) with the bytes of all tensors and of the values
        that lived between kernels of a plan; without ``profile_memory`` none."""
        if not self.profile_memory:
            return []
        found = list(self._recording.samples)
        for event in self._finished():
            if event.kind == "kernel":
                found.append((event.begin, event.in_use, event.scratch))
            elif event.kind == "plan":
                found.append((event.end, event.in_use, 0))
        return sorted(found, key=lambda sample: sample[0])

    @property
    def origin(self) -> float:
        """``time.monotonic()`` of the start."""
        return self._begin

    def export_chrome_trace(self, path: str, facts: Mapping[str, Any] | None = None) -> None:
        """Write a file for Perfetto (https://ui.perfetto.dev) or ``chrome://tracing``, compressed
        where the name ends in ``.gz``; ``facts`` are further entries of it. Raises RuntimeError
        inside of the ``with`` block, OSError where the file cannot be written."""
        found = self._finished()
        own = {
            "with_flops": self.with_flops, "record_shapes": self.record_shapes,
            "profile_memory": self.profile_memory, "with_stack": self.with_stack,
            "traceName": path,
        }  # fmt: skip
        facts = {**own, **(facts or {})}
        write_text(path, trace_json(found, self.memory_samples(), self._begin, facts))

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Write microseconds by source line, for flame graphs. Raises LazytError without
        ``with_stack`` and ValueError for another metric."""
        if not self.with_stack:
            raise LazytError("export_stacks() requires with_stack=True")
        if metric != "self_cpu_time_total":
            raise ValueError(f"metric should be one of: ['self_cpu_time_total'], got {metric!r}")
        write_text(path, stack_lines(self._finished()))

    def __str__(self) -> str:
        return self.table() if self._events else "<unfinished torch.autograd.profile>"

    __repr__ = __str__


class Events(list[FunctionEvent]):
    """The events of a profile, with what PyTorch's list of them can do."""

    def __init__(self, whole: profile) -> None:
        super().__init__(whole._finished())
        self.key_averages, self.total_average = whole.key_averages, whole.total_average
        self.table, self.export_stacks = whole.table, whole.export_stacks
        self.export_chrome_trace = whole.export_chrome_trace
        self.self_cpu_time_total = whole.self_cpu_time_total


class record_function(ContextDecorator):
    """Names what happens inside of a ``with`` block, or of a decorated function, in the profiles
    that are on."""

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name, self.args = name, args
        self._begin: list[float] = []

    def __enter__(self) -> record_function:
        self._begin.append(time.monotonic())
        return self

    def __exit__(self, *_: object) -> None:
        begin, end = self._begin.pop(), time.monotonic()
        for recording in _recordings:
            event = FunctionEvent(self.name, begin, end, thread=get_ident())
            recording.ranges.append(event)
            recording.sample()


# The names that PyTorch's users look for.
_TITLES = {"contract": "mm", "map": "elementwise"}


def _event(timing: events.Timing, bounds: Roofline | None) -> FunctionEvent:
    note: Any = timing.note
    thread = timing.thread or get_ident()
    if note["kind"] == "plan":
        kernels = f"lazyt::plan of {note['kernels']} kernels"
        event = FunctionEvent(kernels, timing.begin, timing.end, "plan", thread=thread)
        event.in_use = timing.in_use
        return event
    computes: list[str] = note["computes"]
    titles = [_title(text) for text in computes]
    if note["kind"] == "contract":  # what is fused behind a product gives its values their names
        titles.insert(0, "mm")
    moved, flops = int(note["bytes_read"]) + int(note["bytes_written"]), float(note["flops"])
    return FunctionEvent(
        "lazyt::" + ("+".join(dict.fromkeys(titles)) or str(note["name"])),
        timing.begin,
        timing.end,
        "library" if note["kind"] == "library" else "kernel",
        int(note["bytes_written"]),
        int(note["bytes_read"]),
        flops,
        bounds.least_seconds(moved, flops) if bounds is not None else 0.0,
        "; ".join(computes),
        shapes_in(computes),
        list(note["sources"]),
        thread,
        timing.in_use,
        timing.scratch,
    )


def _title(text: str) -> str:
    """``reduce sum float32[2, 3]`` -> ``sum``."""
    words = text.partition("[")[0].split()[:-1]
    return _TITLES.get(words[-1], words[-1])


def _compilations(begin: float, end: float) -> list[FunctionEvent]:
    """What was compiled between two moments."""
    found = []
    shift = time.monotonic() - time.time()
    for event in events.recorded("compile"):
        stop = event.time + shift
        start = stop - float(str(event.details.get("seconds", 0.0)))
        if begin <= start and stop <= end:
            lines = [event.where] if event.where else []
            made = FunctionEvent(COMPILE, start, stop, "compile", thread=get_ident())
            made.stack = lines
            found.append(made)
    return found


def nest(found: list[FunctionEvent]) -> None:
    """Order by time; link every event with the next inner ones of its thread, which it waited
    for."""
    found.sort(key=lambda event: (event.begin, -event.end))
    around: dict[int, list[FunctionEvent]] = {}
    for event in found:
        outer = around.setdefault(event.thread, [])
        while outer and outer[-1].end <= event.begin:
            outer.pop()
        if outer:
            event.cpu_parent = outer[-1]
            event.cpu_parent.cpu_children.append(event)
            seconds = event.end - event.begin
            if event.kind == "compile":
                for each in outer:
                    each.compiled += seconds
                for each in outer[:-1]:
                    each.inner -= seconds
            else:
                event.cpu_parent.inner += seconds
        outer.append(event)
