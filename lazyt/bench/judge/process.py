"""The process of a submission: started with limits, stopped between calls, timed from outside.

The submission's process stands still while inputs are written. A call is a line to it and a line
back; the clock that takes the time, and the memory of what is expected, are in the judge's process.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lazyt.bench.judge.memory import Memory
from lazyt.bench.judge.verdicts import Refusal


@dataclass(frozen=True)
class Limits:
    """What a submission may use.

    Attributes:
        seconds: of a call.
        memory: bytes of address space beyond the arrays; 0 for no limit.
        threads: of its OpenMP and of the baseline's.
        start: seconds until it is ready, in which a framework may be imported.
    """

    seconds: float = 20.0
    memory: int = 4 << 30
    threads: int = 1
    start: float = 60.0


#: Processes of submissions, by their numbers.
_running: set[int] = set()
_SET_CHILD_SUBREAPER = 36


def python_path(python: str = "") -> str:
    """``PYTHONPATH`` of a child: lazyt's folder and, if the child is this Python and not another
    one, ``python``, what this process was given."""
    given = "" if python else os.environ.get("PYTHONPATH", "")
    package = str(Path(__file__).resolve().parents[3])
    return os.pathsep.join([package, *filter(None, given.split(os.pathsep))])


class Process:
    """A running submission.

    Args:
        command: program and arguments; ``{in}``, ``{out}`` and ``{memory}`` stand for descriptors.
        limits: what it may use.
        environment: what it has besides a path and a home of its own.

    Every method raises Refusal when the process dies, says that something is wrong, or takes too
    long.
    """

    def __init__(
        self, command: Sequence[str], limits: Limits, environment: Mapping[str, str]
    ) -> None:
        self.limits, self.memory = limits, Memory()
        self.addresses: list[int] = []
        self._pending = b""
        #: Who stands still; nobody while the process runs.
        self._still: list[int] = []
        self._home = tempfile.TemporaryDirectory(prefix="judged-")
        theirs_in, self._to = os.pipe()
        self._from, theirs_out = os.pipe()
        names = {"{in}": theirs_in, "{out}": theirs_out, "{memory}": self.memory.file}
        words = [str(names.get(word, word)) for word in command]
        try:
            self._process = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={**self._environment(), **environment},
                cwd=self._home.name,
                pass_fds=(theirs_in, theirs_out, self.memory.file),
                start_new_session=True,
                preexec_fn=self._limit,
            )
        finally:
            os.close(theirs_in)
            os.close(theirs_out)
        _running.add(self._process.pid)

    def _environment(self) -> dict[str, str]:
        threads = str(self.limits.threads)
        return {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": self._home.name,
            "TMPDIR": self._home.name,
            "LAZYT_CACHE_DIR": os.path.join(self._home.name, "cache"),
            "LAZYT_TIER": "1",
            "LAZYT_THREADS": threads,
            "OMP_NUM_THREADS": threads,
            "OMP_WAIT_POLICY": "passive",
            "OMP_DYNAMIC": "false",
            "LC_ALL": "C.UTF-8",
            # Where programs for another processor, which QEMU runs, have their libraries.
            **{name: value for name, value in os.environ.items() if name.startswith("QEMU_")},
        }

    def _limit(self) -> None:
        if self.limits.memory:
            resource.setrlimit(resource.RLIMIT_AS, (self.limits.memory,) * 2)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 28, 1 << 28))

    def close(self) -> None:
        """Ends the process with all that it started."""
        for pid in self.family():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        _running.discard(self._process.pid)
        for file in (self._to, self._from):
            os.close(file)
        self.memory.close()
        self._home.cleanup()

    # ------------------------------------------------------------------ talking

    def tell(self, line: str) -> None:
        """Sends a line."""
        data = line.encode() + b"\n"
        try:
            while data:
                data = data[os.write(self._to, data) :]
        except BrokenPipeError:
            raise self._ended() from None

    def hear(self, seconds: float | None = None) -> str:
        """Waits for a line, as long as a call may take or for other ``seconds``."""
        allowed = self.limits.seconds if seconds is None else seconds
        end = time.monotonic() + allowed
        while b"\n" not in self._pending:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self._from], [], [], left)[0]:
                raise Refusal("timeout", f"no answer within {allowed:g} s")
            data = os.read(self._from, 1 << 16)
            if not data:
                raise self._ended()
            self._pending += data
            if len(self._pending) > 1 << 20:
                raise Refusal("tampered", "it writes to the judge's own channel without end")
        line, _, self._pending = self._pending.partition(b"\n")
        return line.decode("utf-8", "replace")

    def ask(self, line: str, seconds: float | None = None) -> str:
        """Sends a line and waits for the answer, as ``hear``."""
        self.resume()
        self.tell(line)
        return self.understood(self.hear(seconds))

    def understood(self, answer: str) -> str:
        """The answer, unless it reports a fault."""
        kind, _, rest = answer.partition(" ")
        if kind == "fault":
            raise self._fault(rest)
        if kind == "refuse":
            reason, _, evidence = rest.partition(" ")
            raise Refusal(reason, evidence)
        if kind == "error":
            raise Refusal("error", rest)
        return answer

    def _fault(self, text: str) -> Refusal:
        words = text.split()
        if len(words) != 2 or not all(word.isdigit() for word in words):
            return Refusal("tampered", f"it reports a fault in words of its own: {text[:60]!r}")
        name = _signal_name(int(words[0]))
        return Refusal("crash", f"{name} at {int(words[1]):#x}")

    def _ended(self) -> Refusal:
        # It may stand still half dead; its exit status is all that is wanted.
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._process.pid, signal.SIGCONT)
        try:
            code = self._process.wait(2)
        except subprocess.TimeoutExpired:
            return Refusal("exit", "it closed its channel to the judge")
        if code < 0:
            kind = "memory" if -code == signal.SIGKILL else "crash"
            return Refusal(kind, f"its process was ended by {_signal_name(-code)}")
        return Refusal("exit", f"it ended its process with code {code}")

    # ------------------------------------------------------------------ time

    def go(self) -> float:
        """Makes the calls that were prepared; the seconds by the judge's clock. The process stands
        still before and after."""
        self.stop()
        if self._pending:
            raise Refusal("tampered", "it answered before it was asked")
        self.tell("go")
        begun = time.perf_counter()
        self.resume()
        answer = self.hear()
        seconds = time.perf_counter() - begun
        if self.understood(answer) != "done":
            raise Refusal("tampered", f"an answer in words of its own: {answer[:60]!r}")
        self.stop()
        return seconds

    def idle(self, seconds: float) -> float:
        """Lets the process run without asking it for anything; how much processor time it and its
        children used, or waited for where the machine is busy, as a share of the time."""
        used, runnable, begun = self.used(), self._runnable(), time.monotonic()
        self.resume()
        time.sleep(seconds)
        self.stop()
        spent = time.monotonic() - begun
        used, after = self.used() - used, self._runnable()
        waited = sum(after[task] - runnable.get(task, 0.0) for task in after)
        return max(used, waited) / spent

    def used(self) -> float:
        """Seconds of processor time of the process and all that it started."""
        total = 0.0
        for pid in self.family():
            with contextlib.suppress(OSError):
                total += time.clock_gettime((~pid << 3) | 2)
        return total

    def _runnable(self) -> dict[tuple[int, str], float]:
        """Seconds that each living thread ran or waited for a processor, where the system counts
        them (Linux's schedstat)."""
        found = {}
        for pid in self.family():
            for folder in Path(f"/proc/{pid}/task").glob("*"):
                with contextlib.suppress(OSError):
                    ran, waited, _ = (folder / "schedstat").read_text().split()
                    found[pid, folder.name] = (int(ran) + int(waited)) * 1e-9
        return found

    def family(self) -> list[int]:
        """The process and everything that comes from it, whatever session that has moved to."""
        return [self._process.pid, *_descendants(self._process.pid), *_orphans(self._process.pid)]

    def stop(self) -> None:
        """Makes everything stand still."""
        if self._still:
            return
        own = self._process.pid
        os.kill(own, signal.SIGSTOP)
        found = os.waitid(os.P_PID, own, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        if found is None or found.si_code != os.CLD_STOPPED:
            raise self._ended()
        os.waitid(os.P_PID, own, os.WSTOPPED)
        self._still = self.family()
        self._signal(self._still[1:], signal.SIGSTOP)

    def resume(self) -> None:
        """Lets everything run."""
        still, self._still = self._still, []
        self._signal(still, signal.SIGCONT)

    @staticmethod
    def _signal(pids: Sequence[int], number: int) -> None:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def adopt() -> None:
    """Makes this process the parent of orphans, so that no process of a submission gets lost by
    leaving its session. Systems that cannot do so keep the orphans to themselves."""
    ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _children(pid: int) -> Iterator[int]:
    for folder in Path(f"/proc/{pid}/task").glob("*"):
        with contextlib.suppress(OSError):
            yield from map(int, (folder / "children").read_text().split())


def _descendants(pid: int) -> Iterator[int]:
    for child in _children(pid):
        yield child
        yield from _descendants(child)


def _orphans(session: int) -> Iterator[int]:
    """Processes whose parents ended: those of the session, and those in a session that no process
    of this one's began."""
    here = os.getsid(0)
    for child in _children(os.getpid()):
        if child in _running:
            continue
        with contextlib.suppress(OSError):
            if (theirs := os.getsid(child)) == session or theirs not in {here, *_running}:
                yield child
                yield from _descendants(child)
