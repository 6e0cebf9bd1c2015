"""What the program says while it waits for a compiler, and Ctrl-C in the meantime."""

from __future__ import annotations

import io
import os
import pty
import signal
import sys
import threading
import time
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import lazyt as lt
from lazyt.config import config
from lazyt.runtime.cpu import compile
from lazyt.runtime.cpu import progress as compile_progress
from tests.end_to_end.conftest import Start, Wrapper

needs_compiler = pytest.mark.skipif(not compile.available(), reason="needs a C compiler")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compile_progress, "_PATIENCE", 0.05)
    monkeypatch.setattr(compile_progress, "_PAUSE", 0.02)
    monkeypatch.setattr(config, "progress", True)


def wait_for_it(seconds: float, kernels: int = 0) -> None:
    """A wait for a compiler that takes so long."""
    with compile_progress.shown("/home/me/train.py:31") as wait:
        wait.kernels = kernels
        compile_progress._started()
        time.sleep(seconds)
    for thread in threading.enumerate():
        if thread.name == "lazyt-progress":
            thread.join()


def test_a_file_gets_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    wait_for_it(0.3, 12)
    text = "lazyt: compiling 12 kernels for train.py:31. config.progress = False silences this\n"
    assert stream.getvalue() == text


@pytest.mark.parametrize("progress", [True, False])
def test_short_waits_and_silent_ones_say_nothing(
    progress: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(config, "progress", progress)
    wait_for_it(0.0 if progress else 0.2)
    with compile_progress.shown("a.py:1"):  # no compiler is started
        time.sleep(0.1)
    assert stream.getvalue() == ""


def test_a_terminal_shows_the_seconds_and_is_clean_afterwards(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    wait_for_it(0.3, 1)
    parts = stream.getvalue().split("\r")
    assert parts[1].strip() == "lazyt: compiling a kernel for train.py:31, 0 s"
    assert len(parts) > 4 and parts[-2:] == [" " * 79, ""]


def test_a_notebook_gets_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []

    class Handle:
        def update(self, text: str) -> None:
            shown.append(text)

    def display(text: str, display_id: bool) -> Handle:
        shown.append(text)
        return Handle()

    package: Any = ModuleType("IPython")
    package.get_ipython = lambda: SimpleNamespace(kernel=object())
    module: Any = ModuleType("IPython.display")
    module.display, module.HTML = display, str
    monkeypatch.setitem(sys.modules, "IPython", package)
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    wait_for_it(0.2)
    assert shown[0] == "<progress></progress> lazyt: compiling kernels for train.py:31, 0 s"
    assert len(shown) > 2 and shown[-1] == ""


def test_without_standard_error_nothing_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    closed = io.StringIO()
    closed.close()
    for stream in (None, closed):
        monkeypatch.setattr(sys, "stderr", stream)
        wait_for_it(0.2)


SLOW = """
import lazyt as lt
x = lt.ones(3).realize()
y = (x * 2).exp()
try:
    print("begins", flush=True)
    y.realize()
except KeyboardInterrupt:
    import time
    print("heard", time.time(), flush=True)
print(f"{y.sum().item():.9g}", lt.why_compiled()[-1].reason != "")
"""


@needs_compiler
def test_ctrl_c_is_heard_while_a_compiler_runs(start: Start, wrapper: Wrapper) -> None:
    child = start(SLOW.replace("lt.ones(3).realize()", "lt.tensor([1.0] * 3)"), CC=wrapper.command)
    assert child.stdout is not None
    assert child.stdout.readline() == "begins\n"
    wrapper.slow_down(30)
    deadline = time.monotonic() + 60
    while not wrapper.plans() and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.1)
    sent = time.time()
    wrapper.slow_down(0)
    os.kill(child.pid, signal.SIGINT)
    output, errors = child.communicate(timeout=60)
    assert child.returncode == 0, errors
    heard, value = output.splitlines()
    assert float(heard.split()[1]) - sent < 1.0, "0.2 s where the machine is idle"
    assert value == f"{22.1671677:.9g} True"


@needs_compiler
def test_programs_say_what_they_wait_for(start: Start, wrapper: Wrapper) -> None:
    wrapper.slow_down(1.5)
    child = start(SLOW, CC=wrapper.command, LAZYT_PROGRESS="1")
    output, errors = child.communicate(timeout=120)
    assert child.returncode == 0 and output
    assert "lazyt: compiling a kernel for <string>:" in errors or "compiling kernels" in errors


def test_pty_is_a_terminal() -> None:
    main, terminal = pty.openpty()
    try:
        with os.fdopen(terminal, "w") as stream:
            assert isinstance(compile_progress._line_of(stream), compile_progress._Terminal)
    finally:
        os.close(main)


def test_the_setting_is_known() -> None:
    assert isinstance(lt.config.progress, bool)
