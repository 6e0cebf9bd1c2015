"""Tests that hang end by name, and the first failure stops all workers (tests/deadlines.py)."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests import deadlines, quick
from tests.children import python_path

ROOT = Path(__file__).resolve().parents[2]
CONFTEST = """
from tests import deadlines
deadlines.GRACE = 2.0
def pytest_addoption(parser):
    deadlines.add_options(parser)
def pytest_configure(config):
    config.pluginmanager.register(deadlines.Deadlines(config), "deadlines")
"""
HANGING = """
import ctypes, subprocess, threading
def test_waits_for_a_child():
    subprocess.run(["sleep", "600"])
def test_waits_for_a_lock():
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()
def test_is_quick():
    pass
def test_waits_in_c():
    while True:
        ctypes.PyDLL(None).sleep(600)  # with the interpreter's lock
"""
LONG = """
import pytest, time
def test_fails():
    time.sleep(1)
    assert False
@pytest.mark.parametrize("number", range(300))
def test_others(number):
    time.sleep(1)
"""


def run(folder: Path, text: str, *options: str, **environment: str) -> tuple[int, str, float]:
    """Exit status, output and seconds of pytest on a file of its own."""
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "test_it.py").write_text(text)
    begun = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options, "test_it.py"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": python_path(ROOT), **environment},
        capture_output=True,
        text=True,
        timeout=200,
    )
    return done.returncode, done.stdout + done.stderr, time.monotonic() - begun


def test_tests_that_hang_fail_by_name(tmp_path: Path) -> None:
    status, output, seconds = run(
        tmp_path, HANGING, "--deselect=test_it.py::test_waits_in_c", LAZYT_TEST_DEADLINE="1"
    )
    assert status == 1 and seconds < 60
    for name in ("test_waits_for_a_child", "test_waits_for_a_lock"):
        assert f"test_it.py::{name} took longer than 1 s" in output
    assert "2 failed, 1 passed" in output
    assert "in test_waits_for_a_lock\n  File" in output, "the stack where it hung"


def test_a_process_that_does_not_react_ends(tmp_path: Path) -> None:
    status, output, seconds = run(tmp_path, HANGING, "-k", "in_c", LAZYT_TEST_DEADLINE="1")
    assert status != 0 and seconds < 60
    assert "in test_waits_in_c" in output


def test_the_first_failure_stops_all_workers(tmp_path: Path) -> None:
    status, output, seconds = run(tmp_path, LONG, "-x", "-n", "2", "--dist", "worksteal")
    assert status != 0 and "FAILED test_it.py::test_fails" in output
    assert seconds < 60, "the other worker had 150 seconds of tests left"


def test_no_test_begins_after_the_budget(tmp_path: Path) -> None:
    status, output, _ = run(tmp_path, LONG, "-k", "others", "--budget", "2")
    assert status == 0 and " skipped" in output


@pytest.mark.parametrize(
    ("age", "seconds"), [("00:05", 5), ("02:00:01", 7201), ("1-00:00:09", 86409)]
)
def test_ages_of_processes_are_read(age: str, seconds: float) -> None:
    assert deadlines._seconds(age) == seconds


def test_a_change_is_checked_by_the_tests_nearest_to_it() -> None:
    found = quick.related_tests(["lazyt/runtime/winners.py", "tests/optim/test_rules.py"])
    assert found.index("tests/runtime/test_winners.py") < 3
    assert len(found) == len(set(found)) and all((ROOT / name).exists() for name in found)
    assert not any("test_lr_scheduler" in name for name in found), "it has nothing to do with them"
