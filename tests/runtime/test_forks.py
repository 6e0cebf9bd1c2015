"""Forks while other threads work: no lock, and no half-made thing, is left to the child."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from lazyt.runtime.cpu import compile
from lazyt.runtime.cpython import forks

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.skipif(not compile.available(), reason="needs a C compiler")
@pytest.mark.parametrize(("race", "runs"), [("forks", 8), ("interrupts", 8), ("swaps", 2)])
def test_races_end_with_the_right_values(race: str, runs: int) -> None:
    command = [sys.executable, "-m", "tests.runtime.races", race, "--runs", str(runs)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def in_child(function: Callable[[], bool]) -> bool:
    """What a forked child found; False where it hung."""
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(30)
        os._exit(0 if function() else 1)
    return os.waitpid(child, 0)[1] == 0


@pytest.fixture
def own_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forks, "_guarded", [])


def test_a_fork_waits_until_locks_are_free(own_locks: None) -> None:
    lock, taken, state = forks.guarded(threading.Lock()), threading.Event(), ["whole"]

    def work() -> None:
        with lock:
            state[0] = "half"
            taken.set()
            time.sleep(0.3)
            state[0] = "whole"

    thread = threading.Thread(target=work)
    thread.start()
    taken.wait()
    assert in_child(lambda: state == ["whole"] and lock.acquire(timeout=1))
    thread.join()
    assert lock.acquire(blocking=False), "the parent has it back"


def test_a_lock_that_is_held_for_long_is_new_in_the_child(
    own_locks: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forks, "_PATIENCE", 0.1)
    broken: list[int] = []
    monkeypatch.setattr(forks, "on_broken", [lambda: broken.append(1)])
    first, held = forks.guarded(threading.RLock()), forks.guarded(threading.RLock())
    function = forks.renewed(threading.RLock())
    ended, taken = threading.Event(), threading.Event()

    def work() -> None:
        with held, function:
            taken.set()
            ended.wait()

    thread = threading.Thread(target=work)
    thread.start()
    taken.wait()

    def all_are_free() -> bool:
        return broken == [1] and all(lock.acquire(timeout=1) for lock in (first, held, function))

    assert in_child(all_are_free)
    assert not held.acquire(blocking=False), "the parent's is still held"
    ended.set()
    thread.join()
    assert first.acquire(blocking=False) and held.acquire(blocking=False) and not broken


def test_who_holds_locks_and_forks_gives_them_back_in_both_processes(own_locks: None) -> None:
    lock, function = forks.guarded(threading.RLock()), forks.renewed(threading.RLock())

    def is_held() -> bool:
        return bool(lock._is_owned() and function._is_owned())  # type: ignore[attr-defined]

    with lock, function:
        assert in_child(is_held)
        assert is_held()
