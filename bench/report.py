"""Results of a run as a table and as JSON, with the machine they were measured on."""

from __future__ import annotations

import datetime
import os
import platform
import statistics
from dataclasses import asdict, dataclass, field

SCHEMA = 1


@dataclass
class Result:
    """One workload in one framework.

    Attributes:
        seconds: one time a sample, of a warm call.
        first_call_s: the first call in the process, with whatever had to be compiled.
        warm_first_call_s: the same in a second process, which finds the first one's cache.
        peak_bytes: most memory that the process ever had.
        error: largest error relative to the largest value, against float64.
        kernels: launches of a call.
        problem: why there is nothing else.
    """

    workload: str
    framework: str
    seconds: list[float] = field(default_factory=list)
    version: str = ""
    first_call_s: float | None = None
    warm_first_call_s: float | None = None
    peak_bytes: int | None = None
    error: float | None = None
    kernels: int | None = None
    problem: str = ""

    @property
    def median(self) -> float | None:
        """Seconds of the median sample."""
        return statistics.median(self.seconds) if self.seconds else None


def describe_machine() -> dict[str, object]:
    """CPU, cores, memory, compiler, system and date."""
    from lazyt.runtime import compile, devices

    compiler = compile.find().version if compile.available() else "none"
    return {
        "cpu": _cpu_model(),
        "cores": devices.core_count(),
        "features": list(devices.cpu_features()),
        "memory_bytes": devices.memory_limit(),
        "compiler": compiler,
        "system": platform.platform(),
        "python": platform.python_version(),
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "load": os.getloadavg()[0],
    }


def _cpu_model() -> str:
    if os.path.exists("/proc/cpuinfo"):
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            for line in file:
                if line.lower().startswith("model name"):
                    return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def to_json(results: list[Result], machine: dict[str, object], quick: bool) -> dict[str, object]:
    """Everything that was measured, in one schema."""
    rows = [{**asdict(result), "median_s": result.median} for result in results]
    facts: dict[str, object] = {"schema": SCHEMA, "machine": machine, "quick": quick}
    bandwidth = memory_bandwidth(results, quick)
    if bandwidth is not None:
        facts["bandwidth_bytes_per_s"] = bandwidth
    return {**facts, "results": rows}


def memory_bandwidth(results: list[Result], quick: bool) -> float | None:
    """Bytes a second of the C loop: two arrays read, one written."""
    for result in results:
        if result.framework == "C" and result.median and not quick:
            return 3 * 4 * (1 << 24) / result.median
    return None


def format_time(seconds: float | None) -> str:
    """Three digits, in a fitting unit."""
    if seconds is None:
        return "-"
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-6:.3g} us"


def to_table(results: list[Result], titles: dict[str, str], frameworks: list[str]) -> str:
    """A row per workload, a column per framework, and how lazyt compares with the best other."""
    found = {(r.workload, r.framework): r for r in results}
    workloads = list(dict.fromkeys(r.workload for r in results))
    head = ["", *frameworks, "lazyt : best", "first call", "again", "kernels"]
    rows = [head]
    for name in workloads:
        cells = [titles[name]]
        cells += [_cell(found.get((name, framework))) for framework in frameworks]
        rows.append([*cells, *_comparison(name, found, frameworks)])
    widths = [max(len(row[c]) for row in rows) for c in range(len(head))]
    lines = [
        "  ".join([row[0].ljust(widths[0]), *(t.rjust(w) for t, w in zip(row[1:], widths[1:]))])
        for row in rows
    ]
    return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:]])


def _cell(result: Result | None) -> str:
    if result is None:
        return "-"
    return "failed" if result.problem else format_time(result.median)


def _comparison(
    name: str, found: dict[tuple[str, str], Result], frameworks: list[str]
) -> list[str]:
    own = found.get((name, "lazyt"))
    if own is None or own.median is None:
        return ["-", "-", "-", "-"]
    others = [found[name, f] for f in frameworks if f != "lazyt" and (name, f) in found]
    best = min((r.median for r in others if r.median is not None), default=None)
    ratio = "-" if best is None else f"{own.median / best:.2f}"
    kernels = "-" if own.kernels is None else str(own.kernels)
    return [ratio, format_time(own.first_call_s), format_time(own.warm_first_call_s), kernels]
