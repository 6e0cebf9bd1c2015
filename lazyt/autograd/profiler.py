"""Where time goes: kernels with a clock around each, plans, compilation, and Python.

While a profile is on, plans run with an entry that notes when each kernel begins; that entry is
compiled once more (and cached like any other). What one kernel fuses cannot be told apart: a row
of the table is a kernel, named after the values it writes, with the source lines it came from.
As values are computed late, a kernel belongs to the range in which somebody looked at a value,
not to the one whose lines it came from.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import ContextDecorator
from threading import get_ident
from typing import Any

from lazyt.autograd.profiler_rows import (
    COMPILE,
    EventList,
    FunctionEvent,
    FunctionEventAvg,
    shapes_in,
)
from lazyt.autograd.profiler_trace import Samples, stack_lines, trace_json, write_text
from lazyt.errors import LazytError
from lazyt.runtime import events
from lazyt.runtime.memory import pool
from lazyt.runtime.roofline import Roofline, measure

__all__ = ["EventList", "FunctionEvent", "FunctionEventAvg", "profile", "record_function"]


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
        stop = event.seconds + shift
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
