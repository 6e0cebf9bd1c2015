"""``torch.futures``, and ``fork`` and ``wait`` of ``torch.jit``: calls that have run already."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent import futures
from typing import Any, Generic, TypeVar

__all__ = ["Future", "collect_all", "fork", "wait", "wait_all"]

T = TypeVar("T")
S = TypeVar("S")


class Future(Generic[T]):
    """A value that somebody sets later.

    Args:
        devices: not used.

    Example:
        >>> future = Future()
        >>> twice = future.then(lambda done: 2 * done.value())
        >>> future.set_result(3)
        >>> twice.wait()
        6
    """

    def __init__(self, *, devices: Any = None) -> None:
        self._inner: futures.Future[T] = futures.Future()

    def done(self) -> bool:
        """Whether there is a value or an error."""
        return self._inner.done()

    def wait(self) -> T:
        """The value, when it is there; raises the error that was set instead."""
        return self._inner.result()

    def value(self) -> T:
        """The value; raises RuntimeError where there is none yet."""
        if not self._inner.done():
            raise RuntimeError("Future is not completed, call wait() first")
        return self._inner.result()

    def set_result(self, result: T) -> None:
        """Set the value; raises RuntimeError the second time."""
        if self._inner.done():
            raise RuntimeError("Attempting to mark a completed Future as complete again")
        self._inner.set_result(result)

    def set_exception(self, result: BaseException) -> None:
        """Set an error, which ``wait`` raises; raises RuntimeError for what is none."""
        if not isinstance(result, BaseException):
            raise RuntimeError(f"{result!r} is of type {type(result)}, not an Exception.")
        if self._inner.done():
            raise RuntimeError("Attempting to mark a completed Future as complete again")
        self._inner.set_exception(result)

    def add_done_callback(self, callback: Callable[[Future[T]], None]) -> None:
        """Call ``callback`` with the future when it is done, or now."""
        self._inner.add_done_callback(lambda _: callback(self))

    def then(self, callback: Callable[[Future[T]], S]) -> Future[S]:
        """A future of what ``callback`` gives, which is called when this one is done."""
        following: Future[S] = Future()

        def run(_: Any) -> None:
            try:
                following.set_result(callback(self))
            except Exception as error:
                following.set_exception(error)

        self._inner.add_done_callback(run)
        return following


def collect_all(futures: Sequence[Future[Any]]) -> Future[list[Future[Any]]]:
    """A future of the futures, done when they all are."""
    every: Future[list[Future[Any]]] = Future()
    left = len(futures)

    def count(_: Any) -> None:
        nonlocal left
        left -= 1
        if not left:
            every.set_result(list(futures))

    if not futures:
        every.set_result([])
    for future in futures:
        future.add_done_callback(count)
    return every


def wait_all(futures: Sequence[Future[Any]]) -> list[Any]:
    """The values of all; raises the first error."""
    return [future.wait() for future in futures]


def fork(func: Callable[..., T], *args: Any, **kwargs: Any) -> Future[T]:
    """The call's value as a future: it runs at once, as its operations only build a graph."""
    made: Future[T] = Future()
    made.set_result(func(*args, **kwargs))
    return made


def wait(future: Future[T]) -> T:
    """The value of a future."""
    return future.wait()
