"""A run: the processes of one workload take turns, and a look at the machine is one of them."""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lazyt.bench.frameworks import FRAMEWORKS, PEERS
from lazyt.bench.problems import Workload
from lazyt.bench.processes import Nurseries, Place, Worker
from lazyt.bench.results import Limit, Result

#: Seconds that a process samples in one turn, about.
TURN_LIMIT = 1.5
#: Seconds between turns, in which the processor and its caches calm down.
PAUSE = 0.05


@dataclass(frozen=True)
class Options:
    """What is measured, and how.

    Attributes:
        frameworks: names of ``FRAMEWORKS``.
        threads: of every framework.
        python: the interpreter that has the peers.
        rounds: turns of each process.
        samples: timed calls of a turn.
        quick: small sizes; the times mean nothing.
        device: where tensors are; empty for the CPU.
    """

    frameworks: tuple[str, ...]
    threads: int
    python: str = sys.executable
    rounds: int = 9
    samples: int = 3
    quick: bool = False
    device: str = ""


@dataclass
class Session:
    """Measures workloads. A context manager: at its end all of its processes end.

    Attributes:
        missing: frameworks that cannot be imported, and why; they are left out from then on.
        advance: told what was done, a step each.
    """

    options: Options
    advance: Callable[[str], None] = lambda what: None
    missing: dict[str, str] = field(default_factory=dict)
    nurseries: Nurseries = field(default_factory=Nurseries)
    _machine: Worker | None = None
    _shared: tempfile.TemporaryDirectory[str] | None = None

    def __enter__(self) -> Session:
        self._shared = tempfile.TemporaryDirectory(prefix="lazyt-bench-")
        return self

    def __exit__(self, *failure: object) -> None:
        if self._machine is not None:
            self._machine.end()
            self._machine = None
        self.nurseries.end()
        if self._shared is not None:
            self._shared.cleanup()

    def steps(self) -> int:
        """How many steps one workload has."""
        return 1 + len(self.options.frameworks) * (1 + self.options.rounds)

    def measure(self, workload: Workload) -> list[Result]:
        """One workload in all frameworks, turn by turn."""
        with tempfile.TemporaryDirectory(prefix="lazyt-bench-") as name:
            folder = Path(name)
            facts = self._reference(workload, folder)
            frameworks = [f for f in self.options.frameworks if f not in self.missing]
            results = [self._empty(workload, f, facts) for f in frameworks]
            if "failed" in facts:
                for result in results:
                    result.problem = f"the reference: {facts['failed']}"
                return results
            workers = [(r, self._worker(r.framework, folder)) for r in results]
            try:
                for result, worker in workers:
                    self._begin(result, worker, folder)
                _compare_histories(results)
                self._take_turns(workers)
            finally:
                for _, worker in workers:
                    worker.end()
            for result in results:
                if result.rounds and getattr(FRAMEWORKS[result.framework], "keeps", False):
                    result.warm_first_s = self._again(result, folder)
        return [r for r in results if r.framework not in self.missing]

    def _take_turns(self, workers: Sequence[tuple[Result, Worker]]) -> None:
        options = self.options
        # A device's memory is timed in any case: it takes a moment there.
        looks = bool(options.device) or not options.quick
        before = self._limit() if looks else None
        for turn in range(options.rounds):
            # Nobody is always the one that follows a library with spinning threads.
            first = turn % len(workers)
            for result, worker in (*workers[first:], *workers[:first]):
                done = len(result.rounds)
                self._sample(result, worker, turn)
                if not looks or len(result.rounds) == done:
                    continue
                # On shared machines the bandwidth changes within seconds.
                after = self._limit()
                if before is not None and after is not None:
                    result.limits.append(_between(before, after))
                before = after

    def _limit(self) -> Limit | None:
        """What this machine can do at this moment; None where that cannot be measured."""
        if self._machine is None:
            self._machine = self._worker("machine", Path("."))
        time.sleep(PAUSE)
        reply = self._machine.ask({"quick": self.options.quick})
        return None if "failed" in reply else Limit(reply["bandwidth"], reply["peak"])

    def _worker(self, framework: str, folder: Path) -> Worker:
        python = self.options.python if framework in PEERS else sys.executable
        place = Place(framework, python, self.options.threads, self.options.device)
        lasts = framework == "machine" or getattr(FRAMEWORKS.get(framework), "prepares", False)
        if lasts and self._shared is not None:
            folder = Path(self._shared.name)
        return self.nurseries.worker(place, folder)

    def _empty(self, workload: Workload, framework: str, facts: dict[str, Any]) -> Result:
        made = Result(workload.name, framework, workload.suite, workload.dims(self.options.quick))
        made.nbytes, made.flops = facts.get("nbytes", 0), facts.get("flops", 0.0)
        return made

    def _first(self, workload: str, folder: Path) -> dict[str, object]:
        path = str(folder / "reference.npz")
        return {"workload": workload, "quick": self.options.quick, "reference": path}

    def _reference(self, workload: Workload, folder: Path) -> dict[str, Any]:
        worker = self._worker("reference", folder)
        try:
            reply = worker.ask(self._first(workload.name, folder))
        finally:
            worker.end()
        self.advance(f"{workload.name}: reference")
        return reply

    def _begin(self, result: Result, worker: Worker, folder: Path) -> None:
        """First call and check."""
        reply = worker.ask(self._first(result.workload, folder))
        if "missing" in reply:
            self.missing[result.framework] = reply["missing"]
            result.absent = reply["missing"]
        elif "absent" in reply:
            result.absent = reply["absent"]
        elif "failed" in reply:
            result.problem = reply["failed"]
        else:
            result.version, result.kernels = reply["version"], reply["kernels"]
            result.cold_first_s, result.error = reply["cold_first_s"], reply["error"]
            result.history, result.note = reply["history"], reply["note"]
            if not reply["correct"]:
                result.problem = f"wrong result: error {result.error:.2g}"
        self.advance(f"{result.workload}: {result.framework} begins")

    def _sample(self, result: Result, worker: Worker, turn: int) -> None:
        if not result.problem and not result.absent:
            time.sleep(PAUSE)
            reply = worker.ask({"samples": self.options.samples, "limit": TURN_LIMIT})
            if "failed" in reply:
                result.problem = reply["failed"]
            else:
                result.rounds.append(reply["seconds"])
                result.peak_bytes, result.base_bytes = reply["peak_bytes"], reply["base_bytes"]
        self.advance(f"{result.workload}: {result.framework}, turn {turn + 1}")

    def _again(self, result: Result, folder: Path) -> float | None:
        """The first call in a new process that finds the disk caches filled."""
        worker = self._worker(result.framework, folder)
        try:
            seconds = worker.ask(self._first(result.workload, folder)).get("cold_first_s")
        finally:
            worker.end()
        return None if seconds is None else float(seconds)


def _between(before: Limit, after: Limit) -> Limit:
    """The mean of two."""
    peaks = [limit.peak for limit in (before, after) if limit.peak is not None]
    peak = sum(peaks) / len(peaks) if peaks else None
    return Limit((before.bandwidth + after.bandwidth) / 2, peak)


def _compare_histories(results: Sequence[Result]) -> None:
    """Steps of training must go the same way in all frameworks: their gradients have no reference
    of their own, so where three or more have them, each must agree with the middle one."""
    known = [r for r in results if r.history and not r.problem]
    if len({r.framework for r in known} - {"lazy"}) < 3:
        return
    middle = [statistics.median(values) for values in zip(*(r.history for r in known))]
    for result in known:
        off = max(abs(a - b) / max(abs(b), 1e-3) for a, b in zip(result.history, middle))
        if off > 1e-2:
            result.problem = f"wrong result: the losses of the first steps are off by {off:.2g}"
