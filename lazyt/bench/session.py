"""A run: a process for each framework and workload, which take turns."""

from __future__ import annotations

import json
import os
import selectors
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lazyt.bench.frameworks import FRAMEWORKS, PEERS
from lazyt.bench.problems import Workload
from lazyt.bench.results import Result

LAUNCH = Path(__file__).with_name("launch.py")
#: Seconds that a request may take, and about how long a process samples in one turn.
CALL_LIMIT, TURN_LIMIT = 300.0, 1.5
#: Seconds between turns, in which the threads of the one before stop waiting for work.
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


class Worker:
    """A process that runs one workload in one framework."""

    def __init__(self, framework: str, options: Options, folder: Path) -> None:
        self.framework, self.errors = framework, tempfile.TemporaryFile("w+")  # noqa: SIM115
        python = options.python if framework in PEERS else sys.executable
        count = str(options.threads)
        names = ("OMP", "MKL", "OPENBLAS", "NUMEXPR")
        settings = {
            **{f"{name}_NUM_THREADS": count for name in names},
            "LAZYT_THREADS": count,
            "LAZYT_CACHE_DIR": str(folder / "lazyt"),
            "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"),
            "XDG_CACHE_HOME": str(folder / "cache"),
            "CACHEDB": str(folder / "tinygrad.db"),
        }
        self.process = subprocess.Popen(
            [python, str(LAUNCH), framework, count, options.device],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            env={**os.environ, **settings},
            text=True,
        )

    def ask(self, request: dict[str, object]) -> dict[str, Any]:
        """Sends a request and waits for the reply; a dead or stuck process replies so."""
        assert self.process.stdin is not None and self.process.stdout is not None
        try:
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            return self._ended()
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            if not selector.select(CALL_LIMIT):
                self.process.kill()
                return {"failed": f"no answer in {CALL_LIMIT:.0f} s"}
        line = self.process.stdout.readline()
        if not line:
            return self._ended()
        reply: dict[str, Any] = json.loads(line)
        return reply

    def _ended(self) -> dict[str, Any]:
        code = self.process.wait()
        self.errors.seek(0)
        words = self.errors.read().strip().splitlines()
        return {"failed": f"the process ended with {code}: {words[-1] if words else 'silently'}"}

    def end(self) -> None:
        """Closes the process's input, and kills it when that is not enough."""
        assert self.process.stdin is not None and self.process.stdout is not None
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            self.process.kill()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        self.errors.close()


@dataclass
class Session:
    """Measures workloads.

    Attributes:
        missing: frameworks that cannot be imported, and why; they are left out from then on.
        advance: told what was done, a step each.
    """

    options: Options
    advance: Callable[[str], None] = lambda what: None
    missing: dict[str, str] = field(default_factory=dict)

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
            workers = [(r, Worker(r.framework, self.options, folder)) for r in results]
            try:
                for result, worker in workers:
                    self._begin(result, worker, folder)
                _compare_histories(results)
                for turn in range(self.options.rounds):
                    # Nobody is always the one that follows a library with spinning threads.
                    first = turn % len(workers)
                    for result, worker in workers[first:] + workers[:first]:
                        self._sample(result, worker, turn)
            finally:
                for _, worker in workers:
                    worker.end()
            for result in results:
                if result.rounds and getattr(FRAMEWORKS[result.framework], "keeps", False):
                    result.warm_first_s = self._again(result, folder)
        return [r for r in results if r.framework not in self.missing]

    def machine(self) -> tuple[float, float | None] | None:
        """Bandwidth and peak of this machine, measured anew; None where that fails."""
        with tempfile.TemporaryDirectory(prefix="lazyt-bench-") as name:
            worker = Worker("machine", self.options, Path(name))
            try:
                reply = worker.ask({"quick": self.options.quick})
            finally:
                worker.end()
        return None if "failed" in reply else (reply["bandwidth"], reply["peak"])

    def _empty(self, workload: Workload, framework: str, facts: dict[str, Any]) -> Result:
        made = Result(workload.name, framework, workload.suite, workload.dims(self.options.quick))
        made.nbytes, made.flops = facts.get("nbytes", 0), facts.get("flops", 0.0)
        return made

    def _first(self, workload: str, folder: Path) -> dict[str, object]:
        path = str(folder / "reference.npz")
        return {"workload": workload, "quick": self.options.quick, "reference": path}

    def _reference(self, workload: Workload, folder: Path) -> dict[str, Any]:
        worker = Worker("reference", self.options, folder)
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
        worker = Worker(result.framework, self.options, folder)
        try:
            seconds = worker.ask(self._first(result.workload, folder)).get("cold_first_s")
        finally:
            worker.end()
        return None if seconds is None else float(seconds)


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
