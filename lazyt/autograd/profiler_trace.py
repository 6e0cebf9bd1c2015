"""Profiles as files: trace events that Perfetto and chrome://tracing open, and stacks."""

from __future__ import annotations

import gzip
import json
import os
import platform
from collections.abc import Mapping, Sequence
from typing import Any

from lazyt.autograd.profiler_rows import FunctionEvent

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
