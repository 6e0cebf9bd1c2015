"""Forking while other threads work: a child has their locks, and none of the threads.

Before a fork, the forking thread waits for a moment at which no other one holds a lock of the
runtime, makes a plan, or is in the middle of an import: the child then has whole objects, and no
lock that nobody will ever give back. After ten seconds it does not wait any longer (a plan may take
minutes to compile); locks that others still hold are new ones in the child.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

_Lock = TypeVar("_Lock")

_PATIENCE = 10.0
_guarded: list[Any] = []
_renewed: weakref.WeakSet[Any] = weakref.WeakSet()
#: What else a child does where its parent could not wait until all locks were free.
on_broken: list[Callable[[], None]] = []


class _Taken(threading.local):
    """The locks that this thread holds for a fork, and whether these are all."""

    locks: tuple[Any, ...] = ()
    all = True


_taken = _Taken()


def guarded(lock: _Lock) -> _Lock:
    """The lock, which nobody else holds at a fork: for locks that are never held for long, except
    for making a plan."""
    _guarded.append(lock)
    return lock


def renewed(lock: _Lock) -> _Lock:
    """The lock, which is free in a child unless the forking thread itself holds it: for locks that
    are held while a user's function runs."""
    _renewed.add(lock)
    return lock


def _before() -> None:
    deadline = time.monotonic() + _PATIENCE
    while True:
        held = []
        for lock in _guarded:
            if not lock.acquire(blocking=False):
                break
            held.append(lock)
        complete = len(held) == len(_guarded) and not _is_importing()
        if complete or time.monotonic() > deadline:
            _taken.locks, _taken.all = tuple(held), complete
            return
        # All or none: two threads that wait for each other's locks would wait for good.
        for lock in held:
            lock.release()
        time.sleep(0.001)


def _after_in_parent() -> None:
    for lock in _taken.locks:
        lock.release()
    _taken.locks = ()


def _after_in_child() -> None:
    held = _taken.locks
    for lock in held:
        lock.release()
    for lock in [*_guarded[len(held) :], *_renewed]:
        if not _is_own(lock):
            lock._at_fork_reinit()
    if not _taken.all:
        for function in on_broken:
            function()
    _taken.locks, _taken.all = (), True


def _is_own(lock: Any) -> bool:
    """Whether this thread holds a lock that counts who does."""
    return hasattr(lock, "_is_owned") and bool(lock._is_owned())


def _is_importing() -> bool:
    """Whether another thread imports something: in a child, that module would never be complete,
    and whoever imports it would wait for good."""
    me = threading.get_ident()
    locks = getattr(sys.modules.get("importlib._bootstrap"), "_module_locks", {})
    for reference in [*locks.values()]:
        lock = reference()
        if lock is not None and getattr(lock, "owner", None) not in (None, me):
            return True
    return False


os.register_at_fork(
    before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child
)
