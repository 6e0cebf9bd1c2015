"""A run: the processes of one workload take turns, and a look at the machine is one of them."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import socket
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
from lazyt.bench.launch import INSTALLED
from lazyt.bench.problems import Workload
from lazyt.bench.results import Limit, Result

# The processes of a run: one for each framework and workload, from a parent that has imported it.
#
# Imports take longer than most workloads. So each framework gets a nursery, a process that imports
# it once and forks a worker whenever one is needed: a worker is as good as a new process, for
# nothing was computed before. Where forking is not safe, a worker is a nursery of its own.


LAUNCH = Path(__file__).with_name("launch.py")
#: Seconds that a request may take, and that a process may take to end.
CALL_LIMIT, END_LIMIT = 300.0, 10.0
#: Libraries of macOS and Windows are not made for forked processes.
FORKS = sys.platform == "linux"


@dataclass(frozen=True)
class Place:
    """Where workers of a framework run.

    Attributes:
        framework: a name of ``FRAMEWORKS``, or ``machine``, ``reference`` or ``exact``.
        python: the interpreter that has the framework.
        threads: of every framework.
        device: where tensors are; empty for the CPU.
        tree: the folder whose lazyt it is; empty for this one, ``launch.INSTALLED`` for the
            interpreter's own.
        load: a file that lazyt loads, besides those that this process has loaded.
    """

    framework: str
    python: str
    threads: int
    device: str = ""
    tree: str = ""
    load: str = ""


class Nursery:
    """A process that has imported a framework and makes workers of it."""

    def __init__(self, place: Place) -> None:
        self.place = place
        count = str(place.threads)
        names = ("OMP", "MKL", "OPENBLAS", "NUMEXPR")
        settings = {**{f"{name}_NUM_THREADS": count for name in names}, "LAZYT_THREADS": count}
        environment = {**os.environ, **settings}
        if place.load:
            loads = [os.environ.get("LAZYT_LOAD", ""), place.load]
            environment["LAZYT_LOAD"] = os.pathsep.join(path for path in loads if path)
        if place.tree == INSTALLED:
            environment.pop("PYTHONPATH", None)  # it may hold the lazyt that runs the command
        self.line, theirs = socket.socketpair()
        words = [place.framework, count, place.device, str(theirs.fileno()), place.tree]
        self.process = subprocess.Popen(
            [place.python, str(LAUNCH), *words],
            stdin=subprocess.DEVNULL,
            env=environment,
            pass_fds=[theirs.fileno()],
        )
        theirs.close()

    def make(self, folder: Path, errors: int) -> tuple[socket.socket, int]:
        """A worker: a socket to talk to it and its process number, 0 where this process has ended:
        there may be no such framework, or a file that it cannot load.

        Args:
            folder: for the disk caches of frameworks.
            errors: a file descriptor for what the worker prints.
        """
        ours, theirs = socket.socketpair()
        with theirs:
            request = json.dumps({"folder": str(folder), "fork": FORKS}).encode()
            try:
                socket.send_fds(self.line, [request], [theirs.fileno(), errors])
                number = self.line.recv(100)
            except OSError:
                number = b""
        # Without a worker: the process could not even begin, such as with another lazyt.
        return ours, int(number or 0)

    def await_end(self, pid: int) -> str:
        """How a worker that is at its end ended."""
        if not FORKS:
            return f"{self.process.wait()}"
        self.line.sendall(json.dumps({"await": pid}).encode())
        return self.line.recv(100).decode()

    def end(self) -> None:
        """Ends the process, which kills it when it does not on its own."""
        self.line.close()
        try:
            self.process.wait(END_LIMIT)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Nurseries:
    """The nurseries of a run, made when they are first needed."""

    def __init__(self) -> None:
        self._kept: dict[Place, Nursery] = {}

    def worker(self, place: Place, folder: Path) -> Worker:
        """A new worker, whose disk caches are in the folder."""
        if not FORKS:
            return Worker(Nursery(place), folder)
        if place not in self._kept:
            self._kept[place] = Nursery(place)
        return Worker(self._kept[place], folder)

    def end(self) -> None:
        """Ends them all."""
        for nursery in self._kept.values():
            nursery.end()
        self._kept.clear()


class Worker:
    """A process that runs one workload in one framework."""

    def __init__(self, nursery: Nursery, folder: Path) -> None:
        self.framework, self.nursery = nursery.place.framework, nursery
        self.errors = tempfile.TemporaryFile("w+")  # noqa: SIM115
        self.line, self.pid = nursery.make(folder, self.errors.fileno())
        self.replies = self.line.makefile("r", encoding="utf-8")

    def ask(self, request: dict[str, object]) -> dict[str, Any]:
        """Sends a request and waits for the reply; a dead or stuck process replies so.

        Between requests the process stands still: threads of some libraries wait for work in
        loops, on a core that another process is timed on.
        """
        try:
            self._signal(signal.SIGCONT)
            self.line.sendall(json.dumps(request).encode() + b"\n")
        except OSError:
            return self._ended()
        try:
            return self._reply()
        finally:
            self._signal(signal.SIGSTOP)

    def _reply(self) -> dict[str, Any]:
        if not self._speaks(CALL_LIMIT):
            self._signal(signal.SIGKILL)
            return {"failed": f"no answer in {CALL_LIMIT:.0f} s"}
        line = self._read()
        if not line:
            return self._ended()
        reply: dict[str, Any] = json.loads(line)
        return reply

    def end(self) -> None:
        """Closes the line, and kills the process when that is not enough."""
        self._signal(signal.SIGCONT)
        with contextlib.suppress(OSError):  # it may have gone already
            self.line.shutdown(socket.SHUT_WR)
        if not self._speaks(END_LIMIT):
            self._signal(signal.SIGKILL)
        if self.pid:
            self._await()
        self.replies.close()
        self.line.close()
        self.errors.close()
        if not FORKS:
            self.nursery.end()

    def _speaks(self, seconds: float) -> bool:
        """Whether there is a reply, or the end of all replies, within so many seconds."""
        with selectors.DefaultSelector() as selector:
            selector.register(self.line, selectors.EVENT_READ)
            return bool(selector.select(seconds))

    def _read(self) -> str:
        try:
            return self.replies.readline()
        except ConnectionError:
            return ""

    def _signal(self, number: signal.Signals) -> None:
        if self.pid:
            with contextlib.suppress(ProcessLookupError):  # it ended in this very moment
                os.kill(self.pid, number)

    def _await(self) -> str:
        code, self.pid = self.nursery.await_end(self.pid), 0
        return code

    def _ended(self) -> dict[str, Any]:
        if not self.pid:  # what it had to say is on the screen
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.nursery.process.wait(END_LIMIT)
            return {"failed": f"the process ended with {self.nursery.process.poll()} at its start"}
        if FORKS and (ended := self.nursery.process.poll()) is not None:
            return {"failed": f"the process that starts workers ended with {ended}"}
        code = self._await()
        self.errors.seek(0)
        words = self.errors.read().strip().splitlines()
        return {"failed": f"the process ended with {code}: {words[-1] if words else 'silently'}"}


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
            facts = self.reference(workload, folder)
            frameworks = [f for f in self.options.frameworks if f not in self.missing]
            results = [self.empty(workload, f, facts) for f in frameworks]
            if "failed" in facts:
                for result in results:
                    result.problem = f"the reference: {facts['failed']}"
                return results
            workers = [(r, self._worker(r.framework, folder)) for r in results]
            try:
                for result, worker in workers:
                    self.begin(result, worker, folder)
                _compare_histories(results)
                self._take_turns(workers)
                for result, worker in workers:
                    self.check(result, worker)
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
                self.sample(result, worker, turn)
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
        is_peer = framework in (*PEERS, "exact")
        python = self.options.python if is_peer else sys.executable
        place = Place(framework, python, self.options.threads, self.options.device)
        lasts = framework == "machine" or getattr(FRAMEWORKS.get(framework), "prepares", False)
        if lasts and self._shared is not None:
            folder = Path(self._shared.name)
        return self.nurseries.worker(place, folder)

    def empty(self, workload: Workload, framework: str, facts: dict[str, Any]) -> Result:
        """A result without times, with what the reference said."""
        made = Result(workload.name, framework, workload.suite, workload.dims(self.options.quick))
        made.nbytes, made.flops = facts.get("nbytes", 0), facts.get("flops", 0.0)
        return made

    def _first(self, workload: str, folder: Path) -> dict[str, object]:
        path = str(folder / "reference.npz")
        return {"workload": workload, "quick": self.options.quick, "reference": path}

    def reference(self, workload: Workload, folder: Path) -> dict[str, Any]:
        """Writes the right results and the inputs; what that process replied."""
        is_network = workload.problem.network is not None
        worker = self._worker("exact" if is_network else "reference", folder)
        try:
            reply = worker.ask(self._first(workload.name, folder))
        finally:
            worker.end()
        self.advance(f"{workload.name}: reference")
        return reply

    def begin(self, result: Result, worker: Worker, folder: Path) -> None:
        """The first call of a process and its check, which fill the result."""
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
            result.operations = reply["operations"]
            result.cold_first_s, result.error = reply["cold_first_s"], reply["error"]
            result.history, result.note = reply["history"], reply["note"]
            if not reply["correct"]:
                result.problem = f"wrong result: error {result.error:.2g}"
        self.advance(f"{result.workload}: {result.framework} begins")

    def sample(self, result: Result, worker: Worker, turn: int) -> None:
        """A turn, which adds a round to the result."""
        if not result.problem and not result.absent:
            time.sleep(PAUSE)
            reply = worker.ask({"samples": self.options.samples, "limit": TURN_LIMIT})
            if "failed" in reply:
                result.problem = reply["failed"]
            else:
                result.rounds.append(reply["seconds"])
                result.peak_bytes, result.base_bytes = reply["peak_bytes"], reply["base_bytes"]
        self.advance(f"{result.workload}: {result.framework}, turn {turn + 1}")

    def check(self, result: Result, worker: Worker) -> None:
        """Whether what was timed was right to the end."""
        if result.rounds and not result.problem:
            reply = worker.ask({"check": True})
            if "failed" in reply:
                result.problem = reply["failed"]
            elif not reply["correct"]:
                result.problem = f"wrong result in a later call: error {reply['error']:.2g}"

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
