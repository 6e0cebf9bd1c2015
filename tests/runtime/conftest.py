"""Fixtures: a cache folder of one's own, and child processes that can import what tests import."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lazyt.config import config
from lazyt.runtime import cache, events
from lazyt.runtime.cpu import compile, execute
from tests.children import python_path

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def cache_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty disk cache and a runtime that remembers nothing."""
    folder = tmp_path / "cache"
    monkeypatch.setattr(config, "cache_dir", str(folder))
    monkeypatch.setattr(config, "disk_cache", True)
    monkeypatch.setattr(compile, "_found", {})
    monkeypatch.setattr(compile, "_warned", set())
    monkeypatch.setattr(cache, "_broken_folder", "")
    events.forget()
    execute.forget()
    yield folder
    execute.forget()


Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start a Python child on some code, with environment changes as keywords."""
    children: list[subprocess.Popen[str]] = []

    def start_child(code: str, **environment: str) -> subprocess.Popen[str]:
        paths = python_path(ROOT, Path(__file__).parent)
        defaults = {"PYTHONPATH": paths, "LAZYT_CACHE_DIR": str(tmp_path / "cache")}
        child = subprocess.Popen(
            [sys.executable, "-W", "error", "-c", code],
            env={**os.environ, **defaults, **environment},
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
            child.kill()
        child.communicate()


@pytest.fixture
def run_child(start: Start) -> Callable[..., str]:
    """Run a Python child to its end; its output, after checking that it printed no error."""

    def run(code: str, **environment: str) -> str:
        child = start(code, **environment)
        output, errors = child.communicate(timeout=60)
        assert child.returncode == 0, errors
        assert errors == ""
        return output

    return run
