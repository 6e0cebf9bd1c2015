"""Results of a run, the machine they were measured on, and the one form of both as JSON."""

from __future__ import annotations

import datetime
import json
import math
import os
import platform
import statistics
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from lazyt.bench import fast_p
from lazyt.bench.frameworks import PEERS

#: Numbers the form of the JSON file, and the oldest that can be read.
SCHEMA, OLDEST = 5, 2


@dataclass(frozen=True)
class Limit:
    """What a machine could do at some moment.

    Attributes:
        bandwidth: bytes a second between memory and all threads, into warm buffers.
        peak: float32 operations a second of all threads; None of a device.
    """

    bandwidth: float
    peak: float | None = None

    def seconds(self, nbytes: int, flops: float) -> float | None:
        """The least time for so much; None where the limit on operations is not known."""
        if flops and not self.peak:
            return None
        return max(nbytes / self.bandwidth, flops / self.peak if self.peak else 0.0)


@dataclass
class Result:
    """One workload in one framework.

    Attributes:
        rounds: the samples of each turn, seconds of a warm call each.
        cold_first_s: the first call in a process, with whatever had to be compiled.
        warm_first_s: the same in a second process, which finds what the first one kept on disk.
        peak_bytes: the most memory of the process during warm calls.
        base_bytes: its memory before it had any input.
        error: the largest error relative to the largest value, against float64.
        history: what the first steps of training returned.
        kernels: launches of a call.
        operations: arithmetic of these kernels, functions counted at their cost.
        nbytes: bytes of inputs and outputs, each counted once.
        flops: operations of products and convolutions.
        limits: of the machine in each turn, the mean of just before and just after it.
        note: what a user should know about how it ran, such as why nothing was captured.
        absent: what the framework lacks for this workload.
        problem: why there are no times although there should be.
    """

    workload: str
    framework: str
    suite: str = ""
    dims: dict[str, int] = field(default_factory=dict)
    version: str = ""
    rounds: list[list[float]] = field(default_factory=list)
    cold_first_s: float | None = None
    warm_first_s: float | None = None
    peak_bytes: int | None = None
    base_bytes: int | None = None
    error: float | None = None
    history: list[float] = field(default_factory=list)
    kernels: int | None = None
    operations: float | None = None
    nbytes: int = 0
    flops: float = 0.0
    limits: list[Limit] = field(default_factory=list)
    note: str = ""
    absent: str = ""
    problem: str = ""

    def extend(self, more: Result) -> None:
        """Adds the rounds of the same workload, framework and version that were timed later."""
        self.rounds += more.rounds
        self.limits += more.limits
        self.problem = self.problem or more.problem
        errors = [error for error in (self.error, more.error) if error is not None]
        self.error = max(errors, default=None)

    @property
    def median(self) -> float | None:
        """Seconds of the median sample."""
        samples = [seconds for turn in self.rounds for seconds in turn]
        return statistics.median(samples) if samples else None

    @property
    def least(self) -> float | None:
        """Seconds of the best sample."""
        return min((seconds for turn in self.rounds for seconds in turn), default=None)


@dataclass
class Run:
    """Everything that one run of the command measured.

    Attributes:
        machine: CPU, cores, memory, compiler, system, date and load.
        settings: what the command was told, threads among it.
    """

    machine: dict[str, Any]
    settings: dict[str, Any]
    results: list[Result]

    @property
    def bandwidth(self) -> float | None:
        """The median of all turns."""
        known = [limit.bandwidth for r in self.results for limit in r.limits]
        return statistics.median(known) if known else None

    @property
    def peak(self) -> float | None:
        """The median of all turns."""
        limits = [limit for r in self.results for limit in r.limits]
        known = [limit.peak for limit in limits if limit.peak is not None]
        return statistics.median(known) if known else None

    def seconds(self, result: Result | None) -> float | None:
        """The time of a result: its median, or its best sample if the settings say so."""
        if result is None or result.problem or result.absent:
            return None
        return result.least if self.settings.get("by") == "min" else result.median

    def found(self) -> dict[tuple[str, str], Result]:
        """Results by workload and framework."""
        return {(r.workload, r.framework): r for r in self.results}

    def add(self, result: Result) -> None:
        """Adds a result, or its rounds where the workload and framework are there already."""
        known = self.found().get((result.workload, result.framework))
        if known is None:
            self.results.append(result)
        else:
            known.extend(result)

    def workloads(self) -> list[str]:
        """Their names in the order of measuring."""
        return list(dict.fromkeys(r.workload for r in self.results))

    def frameworks(self) -> list[str]:
        """Their names in the order of measuring."""
        return list(dict.fromkeys(r.framework for r in self.results))

    def best_peer(self, workload: str) -> tuple[str, float] | None:
        """The fastest peer and its seconds."""
        found = self.found()
        times = [(self.seconds(found.get((workload, peer))), peer) for peer in PEERS]
        known = [(seconds, peer) for seconds, peer in times if seconds is not None]
        return (min(known)[1], min(known)[0]) if known else None

    def ratio(self, workload: str) -> float | None:
        """lazyt's time divided by the best peer's: below 1, lazyt is faster than all of them."""
        own = self.seconds(self.found().get((workload, "lazyt")))
        best = self.best_peer(workload)
        return None if own is None or best is None else own / best[1]

    def share(self, result: Result) -> float | None:
        """How near to the machine's limit a result is, the median of its turns, each beside the
        limit of its own moment; above 1, its data lay in a cache."""
        if self.seconds(result) is None:
            return None
        typical = min if self.settings.get("by") == "min" else statistics.median
        shares = []
        for limit, samples in zip(result.limits, result.rounds, strict=False):
            least = limit.seconds(result.nbytes, result.flops)
            if least is not None and samples and typical(samples) > 0:
                shares.append(least / typical(samples))
        return statistics.median(shares) if shares else None


def geometric_mean(ratios: Iterable[float]) -> float | None:
    """The mean of ratios; None of none."""
    logs = [math.log(ratio) for ratio in ratios]
    return math.exp(statistics.fmean(logs)) if logs else None


def describe_machine(device: str = "") -> dict[str, Any]:
    """CPU, cores, memory, compiler, system, date and load; and the device, if it is another."""
    from lazyt.runtime import devices
    from lazyt.runtime.cpu import compile

    return {
        "cpu": _cpu_model(),
        "cores": devices.core_count(),
        "features": list(devices.cpu_features()),
        "memory_bytes": devices.memory_limit(),
        "compiler": compile.find().version if compile.available() else "none",
        "system": platform.platform(),
        "python": platform.python_version(),
        **({"device": device, "gpu": _describe_gpu(device)} if device else {}),
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "load": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
    }


def _describe_gpu(device: str) -> dict[str, Any]:
    from lazyt.handle.cuda_devices import wanted_device

    return asdict(wanted_device(device).driver.properties)


def _cpu_model() -> str:
    about = Path("/proc/cpuinfo")
    if about.exists():
        for line in about.read_text(encoding="utf-8").splitlines():
            if line.lower().startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def to_json(run: Run) -> dict[str, Any]:
    """The run in the form that files have. Each result also gets what is derived from it."""
    rows = [
        {
            **asdict(result),
            "median_s": result.median,
            "min_s": result.least,
            "roofline_share": run.share(result),
        }
        for result in run.results
    ]
    return {
        "schema": SCHEMA,
        "machine": run.machine,
        "settings": run.settings,
        "versions": {r.framework: r.version for r in run.results if r.version},
        "bandwidth_bytes_per_s": run.bandwidth,
        "peak_flops_per_s": run.peak,
        "results": rows,
        **({"fast_p": fast_p.to_json(run)} if fast_p.shares(run) else {}),
    }


def from_json(facts: Any, source: str) -> Run:
    """A run from a file's content. Raises ValueError, naming the source, for another form."""
    if not isinstance(facts, dict) or facts.get("schema") not in range(OLDEST, SCHEMA + 1):
        raise ValueError(f"{source} is no result of `lazyt bench` in form {OLDEST} to {SCHEMA}")
    needed = ("machine", "settings", "bandwidth_bytes_per_s", "peak_flops_per_s", "results")
    if missing := [name for name in needed if name not in facts]:
        raise ValueError(f"{source} lacks {', '.join(missing)}")
    known = {f.name for f in fields(Result)}
    # Form 2 had one limit for all, form 3 one for each workload.
    of_all = facts["bandwidth_bytes_per_s"], facts["peak_flops_per_s"]
    results = []
    for number, row in enumerate(facts["results"]):
        row = dict(row) if isinstance(row, dict) else {}
        row.setdefault("operations", None)  # since form 5
        if not known - {"limits"} <= row.keys():
            raise ValueError(f"{source}: result {number} lacks something")
        if "limits" in row:
            limits = [Limit(limit["bandwidth"], limit["peak"]) for limit in row["limits"]]
        else:
            bandwidth, peak = row.get("bandwidth", of_all[0]), row.get("peak", of_all[1])
            limits = [Limit(bandwidth, peak)] * len(row["rounds"]) if bandwidth else []
        kept = {name: row[name] for name in known - {"limits"}}
        results.append(Result(**kept, limits=limits))
    return Run(facts["machine"], facts["settings"], results)


def read(path: Path) -> Run:
    """A run from a file. Raises ValueError for a file of another form, OSError as ``open``."""
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        raise ValueError(f"{path} is not JSON") from None
    return from_json(facts, str(path))


def write(run: Run, path: Path) -> None:
    """Writes a run as JSON, and the folder where it is missing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(to_json(run), indent=1) + "\n", encoding="utf-8")
