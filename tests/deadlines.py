"""Tests that hang or fail end a run at once and by name.

Every test has a deadline, longer on a busy machine. When it has passed, the stacks of all threads
are printed with the test's name, what the test has started is killed, and the test fails. Where its
main thread does not hear of that, in C code or a lock that nobody gives back, the process ends a
little later; pytest-xdist then names the test, too.

Under ``-x`` and ``--maxfail`` all workers stop: pytest-xdist alone lets each go on to the end of
its queue. What runs at that time is reported as skipped.

``--budget`` is for checks of a change: no test begins later than that many seconds after the start.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import signal
import subprocess
import tempfile
import threading
import time
from pathlib import Path
from types import FrameType
from typing import TextIO

import pytest

#: Seconds that a test may take on an idle machine, one marked as slow, and from the deadline to the
#: end of a process that does not react.
SECONDS, SLOW_SECONDS, GRACE = 240.0, 900.0, 15.0
_MOST_SCALE = 4.0
_LOOK_SECONDS = 0.5


class DeadlineExceeded(BaseException):
    """A test took too long. Not an Exception: what a test expects to be raised is not this."""


def add_options(parser: pytest.Parser) -> None:
    """The options of this plugin."""
    parser.addoption(
        "--budget", type=float, metavar="SECONDS", help="begin no test later than that"
    )


class Deadlines:
    """The plugin of one process that runs tests, or that leads those that do."""

    def __init__(self, config: pytest.Config) -> None:
        self._leads = not hasattr(config, "workerinput")
        self._begun, self._budget = time.monotonic(), config.getoption("--budget")
        self._most_failures = config.getoption("maxfail")
        self._failures = 0
        self._errors: TextIO = os.fdopen(os.dup(2), "w", buffering=1)  # pytest redirects 2 itself
        if self._leads:
            handle, name = tempfile.mkstemp(prefix="lazyt-tests-")
            os.close(handle)
            os.unlink(name)
            self._stop_file = Path(name)
        else:
            self._stop_file = Path(getattr(config, "workerinput")["stop_file"])  # noqa: B009
        self._runs_tests = not (self._leads and config.getoption("numprocesses", None))
        self._lock = threading.Lock()
        self._test: _Running | None = None
        self._ended = threading.Event()
        if self._runs_tests:
            signal.signal(signal.SIGALRM, self._interrupt)
            threading.Thread(target=self._watch, name="deadlines", daemon=True).start()

    # ------------------------------------------------------------ all workers stop

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: object) -> None:
        """Tells a worker where it learns that it is to stop."""
        node.workerinput["stop_file"] = str(self._stop_file)  # type: ignore[attr-defined]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Counts failures, of all workers where this process leads them."""
        if self._leads and report.failed:
            self._failures += 1
            if self._most_failures and self._failures >= self._most_failures:
                self._stop_file.touch()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> bool | None:
        """Leaves a worker's queue where it is once another's test has failed."""
        if not self._leads and self._stop_file.exists():
            item.session.shouldstop = "a test of another worker failed"
            return True
        return None

    def pytest_unconfigure(self) -> None:
        """Ends the thread that watches."""
        self._ended.set()
        faulthandler.cancel_dump_traceback_later()
        if self._leads:
            self._stop_file.unlink(missing_ok=True)

    # ------------------------------------------------------------ deadlines

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_setup(self, item: pytest.Item):  # type: ignore[no-untyped-def]
        """From here on the test's time runs."""
        seconds = seconds_for(item)
        with self._lock:
            self._test = _Running(item.nodeid, time.monotonic() + seconds, seconds)
        if self._budget is not None and time.monotonic() - self._begun > self._budget:
            pytest.skip(f"the run had a budget of {self._budget:.0f} s")
        # Where not even another thread can run, as the interpreter's lock is held by C code.
        faulthandler.dump_traceback_later(seconds + 2 * GRACE, exit=True, file=self._errors)
        yield

    @pytest.hookimpl(hookwrapper=True, trylast=True)
    def pytest_runtest_teardown(self):  # type: ignore[no-untyped-def]
        """The time includes taking down."""
        yield
        with self._lock:
            self._test = None
        faulthandler.cancel_dump_traceback_later()

    def _watch(self) -> None:
        while not self._ended.wait(_LOOK_SECONDS):
            with self._lock:
                test, now = self._test, time.monotonic()
                if test is None:
                    continue
                if test.reason:
                    if now > test.limit + GRACE:
                        self._give_up(test)
                elif now > test.limit:
                    test.reason = f"{test.name} took longer than {test.seconds:.0f} s"
                    self._tell(test.reason)
                    test.kill_children()
                elif not self._leads and self._stop_file.exists():
                    test.reason, test.limit = "stopped", now
                else:
                    continue
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGALRM)

    def _tell(self, reason: str) -> None:
        self._errors.write(f"\n{reason}. Its threads:\n")
        faulthandler.dump_traceback(self._errors, all_threads=True)

    def _give_up(self, test: _Running) -> None:
        self._errors.write(f"\n{test.name} does not react ({test.reason}): this process ends.\n")
        test.kill_children()
        os._exit(70)

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        test = self._test
        if test is None or not test.reason or test.told:
            return  # it has just ended
        test.told = True
        if test.reason == "stopped":
            pytest.skip("a test of another worker failed")
        raise DeadlineExceeded(test.reason)


class _Running:
    """A test that runs."""

    def __init__(self, name: str, limit: float, seconds: float) -> None:
        self.name, self.limit, self.seconds = name, limit, seconds
        self.begun = time.monotonic()
        self.reason = ""
        self.told = False

    def kill_children(self) -> None:
        """Kills what the test has started."""
        kill_descendants(time.monotonic() - self.begun + 1)


def seconds_for(item: pytest.Item) -> float:
    """What a test may take now: ``deadline`` marks give seconds, busy machines more of them, and
    ``LAZYT_TEST_DEADLINE`` decides alone."""
    if named := os.environ.get("LAZYT_TEST_DEADLINE"):
        return float(named)
    marker = item.get_closest_marker("deadline")
    if marker is not None:
        seconds = float(marker.args[0])
    else:
        seconds = SLOW_SECONDS if item.get_closest_marker("slow") else SECONDS
    return seconds * load_scale()


def load_scale() -> float:
    """How many times longer work may take than on an idle machine."""
    waiting = os.getloadavg()[0] / (os.cpu_count() or 1)
    return min(_MOST_SCALE, max(1.0, waiting))


def kill_descendants(seconds: float) -> None:
    """Kills what this process, and what it started, has started within the last ``seconds``."""
    try:
        listed = subprocess.run(
            ["ps", "-A", "-o", "pid=,ppid=,etime="], capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):  # a container without ps
        return
    children: dict[int, list[tuple[int, float]]] = {}
    for line in listed.stdout.splitlines():
        process, parent, time_running = line.split()
        children.setdefault(int(parent), []).append((int(process), _seconds(time_running)))
    work = [os.getpid()]
    while work:
        for pid, age in children.get(work.pop(), ()):
            work.append(pid)
            if age <= seconds:
                with contextlib.suppress(ProcessLookupError):  # it has ended by itself
                    os.kill(pid, signal.SIGKILL)


def _seconds(age: str) -> float:
    """Seconds of ``[[days-]hours:]minutes:seconds``."""
    days, _, rest = age.rpartition("-")
    total = 0.0
    for part in rest.split(":"):
        total = total * 60 + float(part)
    return total + 86400 * float(days or 0)
