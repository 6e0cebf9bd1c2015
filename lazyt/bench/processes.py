"""The processes of a run: one for each framework and workload, from a parent that has imported it.

Imports take longer than most workloads. So each framework gets a nursery, a process that imports it
once and forks a worker whenever one is asked for: a worker is as good as a new process, for nothing
was computed before. Where forking is not safe, a worker is a nursery of its own.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LAUNCH = Path(__file__).with_name("launch.py")
#: Seconds that a request may take, and that a process may take to end.
CALL_LIMIT, END_LIMIT = 300.0, 10.0
#: Libraries of macOS and Windows are not made for forked processes.
FORKS = sys.platform == "linux"


@dataclass(frozen=True)
class Place:
    """Where workers of a framework run.

    Attributes:
        framework: a name of ``FRAMEWORKS``, or ``machine`` or ``reference``.
        python: the interpreter that has the framework.
        threads: of every framework.
        device: where tensors are; empty for the CPU.
    """

    framework: str
    python: str
    threads: int
    device: str = ""


class Nursery:
    """A process that has imported a framework and makes workers of it."""

    def __init__(self, place: Place) -> None:
        self.place = place
        count = str(place.threads)
        names = ("OMP", "MKL", "OPENBLAS", "NUMEXPR")
        settings = {**{f"{name}_NUM_THREADS": count for name in names}, "LAZYT_THREADS": count}
        self.line, theirs = socket.socketpair()
        words = [place.framework, count, place.device, str(theirs.fileno())]
        self.process = subprocess.Popen(
            [place.python, str(LAUNCH), *words],
            stdin=subprocess.DEVNULL,
            env={**os.environ, **settings},
            pass_fds=[theirs.fileno()],
        )
        theirs.close()

    def make(self, folder: Path, errors: int) -> tuple[socket.socket, int]:
        """A worker: a socket to talk to it and its process number.

        Args:
            folder: for the disk caches of frameworks.
            errors: a file descriptor for what the worker prints.
        """
        ours, theirs = socket.socketpair()
        with theirs:
            request = json.dumps({"folder": str(folder), "fork": FORKS}).encode()
            socket.send_fds(self.line, [request], [theirs.fileno(), errors])
        return ours, int(self.line.recv(100))

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
        code = self._await() if self.pid else "an unknown code"
        self.errors.seek(0)
        words = self.errors.read().strip().splitlines()
        return {"failed": f"the process ended with {code}: {words[-1] if words else 'silently'}"}
