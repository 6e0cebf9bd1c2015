"""Fixtures: a disk cache of one's own, children that import lazyt, a compiler that can be told."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from lazyt.config import config
from lazyt.plan import planning
from lazyt.runtime import cache, events
from lazyt.runtime.cpu import compile, execute
from tests import compilers
from tests.children import python_path

ROOT = Path(__file__).resolve().parents[2]
Start = Callable[..., "subprocess.Popen[str]"]
Run = Callable[..., str]


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty disk cache, and a process that remembers no plan and no compiler."""
    folder = tmp_path / "own-cache"
    monkeypatch.setattr(config, "cache_dir", str(folder))
    monkeypatch.setattr(config, "disk_cache", True)
    monkeypatch.setattr(compile, "_found", {})
    monkeypatch.setattr(compile, "_warned", set())
    monkeypatch.setattr(cache, "_broken_folder", "")
    planning.clear()
    execute.forget()
    events.forget()
    yield folder
    planning.clear()
    execute.forget()


@pytest.fixture(scope="module")
def module_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A disk cache that the tests of one module share."""
    folder = tmp_path_factory.mktemp("cache")
    with config.override(cache_dir=str(folder), disk_cache=True):
        yield folder


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start a Python child on some code, with environment changes as keywords.

    Children of one test share an empty cache and two threads; each is a process group.
    """
    children: list[subprocess.Popen[str]] = []

    def start_child(code: str, **environment: str) -> subprocess.Popen[str]:
        # Bytecode is written: else every child would compile lazyt's own sources first.
        skipped = ("LAZYT_", "PYTHONDONTWRITEBYTECODE")
        inherited = {k: v for k, v in os.environ.items() if not k.startswith(skipped)}
        own = {
            "PYTHONPATH": python_path(ROOT),
            "LAZYT_CACHE_DIR": str(tmp_path / "cache"),
            "LAZYT_THREADS": "2",
            "LAZYT_TIER": "1",
            "LAZYT_PROGRESS": "0",
        }
        child = subprocess.Popen(
            [sys.executable, "-W", "error", "-c", code],
            env={**inherited, **own, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        children.append(child)
        return child

    yield start_child
    for child in children:
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
        child.communicate()


@pytest.fixture
def run_child(start: Start) -> Run:
    """Run a Python child to its end; its output, after checking that it printed no error."""

    def run(code: str, timeout: float = 60, **environment: str) -> str:
        child = start(code, **environment)
        output, errors = child.communicate(timeout=timeout)
        assert child.returncode == 0, errors
        assert errors == ""
        return output

    return run


@dataclass(frozen=True)
class Wrapper:
    """A C compiler that logs every start and first does what ``before`` says, in shell.

    Attributes:
        command: what ``CC`` is to be.
        log: one line of arguments per start.
        before: shell text that runs first.
    """

    command: str
    log: Path
    before: Path

    def starts(self) -> list[str]:
        """The arguments of every start so far."""
        return self.log.read_text().splitlines()

    def plans(self) -> list[str]:
        """The starts that compiled a plan, without those that asked what the compiler is."""
        return [line for line in self.starts() if "unit" in line and "-march" in line]

    def slow_down(self, seconds: float) -> None:
        """Make every later start sleep first."""
        self.before.write_text(f"sleep {seconds}\n" if seconds else "")


@pytest.fixture
def wrapper(tmp_path: Path) -> Wrapper:
    """The system's compiler behind a script."""
    if not compilers.available():
        pytest.skip("needs a C compiler")
    real = compilers.command()
    return wrapped(real, tmp_path)


def wrapped(real: str, folder: Path) -> Wrapper:
    """A compiler behind a script in a folder."""
    log, before, path = folder / "starts", folder / "before", folder / "wrapped-cc"
    log.write_text("")
    before.write_text("")
    path.write_text(f'#!/bin/sh\necho "$@" >> {log}\n. {before}\nexec {real} "$@"\n')
    path.chmod(0o755)
    return Wrapper(str(path), log, before)
