"""``torch.cuda.nvtx``: names for stretches of a program, which ``lazyt.profiler`` shows; NVIDIA's
tools do where the package ``nvtx`` is installed."""

from __future__ import annotations

import importlib
import itertools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["mark", "range", "range_end", "range_pop", "range_push", "range_start"]

_numbers = itertools.count(1)


class _Open(threading.local):
    """The ranges that this thread has pushed."""

    def __init__(self) -> None:
        self.stack: list[Any] = []


_open = _Open()
_started: dict[int, Any] = {}


def _package() -> Any:
    try:
        return importlib.import_module("nvtx")
    except ImportError:
        return None


def mark(msg: str) -> None:
    """Something happens now."""
    package = _package()
    if package is not None:
        package.mark(msg)


def range_push(msg: str) -> int:
    """A range begins, inside of those that are open; returns how many are."""
    from lazyt.profiler import record_function

    package = _package()
    if package is not None:
        package.push_range(msg)
    entered = record_function(msg)
    entered.__enter__()
    _open.stack.append(entered)
    return len(_open.stack) - 1


def range_pop() -> int:
    """The innermost range ends; returns how many are open still, -1 where none was."""
    if not _open.stack:
        return -1
    _open.stack.pop().__exit__(None, None, None)
    package = _package()
    if package is not None:
        package.pop_range()
    return len(_open.stack)


def range_start(msg: str) -> int:
    """A range begins that any thread may end; returns its number."""
    package, number = _package(), next(_numbers)
    _started[number] = None if package is None else package.start_range(msg)
    return number


def range_end(range_id: int) -> None:
    """The range of a number ends; one that is not open is nothing."""
    known, package = _started.pop(range_id, None), _package()
    if known is not None and package is not None:
        package.end_range(known)


@contextmanager
def range(msg: str, *args: Any, **kwargs: Any) -> Iterator[None]:
    """The block is a range; the text is formatted with the other arguments."""
    range_push(msg.format(*args, **kwargs))
    try:
        yield
    finally:
        range_pop()
