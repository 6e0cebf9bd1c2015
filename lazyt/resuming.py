"""Replays that are broken off by an exception: the function is run, as far as it comes itself.

What Python does at every call (schedules, random keys) a replay does before it writes anything.
Where that raises, the function itself is run: it gets what was done already, in order, and meets
the exception at the place where it comes from, with everything before it written.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lazyt.capture import watching
from lazyt.ir.graph import Node
from lazyt.lifted import NumberLeaf
from lazyt.watching import Counts

if TYPE_CHECKING:
    from lazyt.storage import Storage
    from lazyt.tape import AccumulateGrad, GradFn


Calls = Sequence[tuple[Callable[[], Any], bool]]


class Interrupted(Exception):
    """A replay came to an exception, with nothing written yet.

    Attributes:
        calls: what a replay does before it writes, with whether it fills a leaf.
        done: what those calls gave that came before the exception.
        error: what was raised.
    """

    def __init__(self, calls: Calls, done: Sequence[Any], error: Exception) -> None:
        super().__init__(str(error))
        self.calls = calls
        self.done = list(done)
        self.error = error


def run_calls(calls: Calls) -> list[Any]:
    """What the calls of a replay give, of which some fill leaves. Raises Interrupted."""
    done: list[Any] = []
    try:
        for function, _ in calls:
            done.append(function())
    except Exception as error:
        raise Interrupted(calls, done, error) from None
    return done


def resume(stop: Interrupted, run: Callable[[], Any]) -> Any:
    """The result of ``run()``, the function as always, which meets the exception on its way."""
    done = [v for v, (f, _) in zip(stop.done, stop.calls) if not isinstance(f, NumberLeaf)]
    own = not isinstance(stop.calls[len(stop.done)][0], NumberLeaf)
    with watching(_Resumed(done, stop.error if own else None)):
        return run()


class _Resumed:
    """Gives a function, in order, what was done on its behalf, and then the exception."""

    def __init__(self, done: Sequence[Any], error: Exception | None) -> None:
        self._done = list(reversed(done))
        self._error = error
        self._keys: dict[Hashable, Any] = {}
        self._counts = Counts()
        self._thread = threading.get_ident()

    @property
    def mine(self) -> bool:
        """Whether this thread is the one that resumes."""
        return threading.get_ident() == self._thread

    def _next(self, function: Callable[[], Any]) -> Any:
        if self._done:
            return self._done.pop()
        error, self._error = self._error, None
        if error is not None:
            raise error
        return function()

    def filled(self, make: Callable[[], Node], key: Hashable) -> Node:
        """A leaf that was made already, or is made now."""
        found: Node | None = None if key is None else self._keys.get(key)
        if found is None:
            found = self._next(make)
            if key is not None:
                self._keys[key] = found
        return found

    def random_key(self, make: Callable[[], Node]) -> Node:
        """A leaf that was made already, or is made now."""
        return self.filled(make, None)

    def each_call(self, function: Callable[[], Any]) -> Any:
        """Something that was done already, or is done now."""
        return self._next(function)

    def counted(
        self, table: Mapping[str, Any], names: tuple[str, ...], value: Hashable
    ) -> Hashable:
        """Numbers that were one when the function was captured are one."""
        return self._counts.note(table, names, value)

    def renewed(self, storage: Storage, name: str) -> None:
        """Nothing."""

    def whole(self, node: Node) -> Node:
        """The node."""
        return node

    def read(self, storage: Storage) -> None:
        """Nothing."""

    def wrote(self, storage: Storage, value: Node) -> None:
        """Nothing."""

    def looked_behind(self, storage: Storage) -> None:
        """Nothing."""

    def created(self, storage: Storage) -> None:
        """Nothing."""

    def looked(self, reason: str, where: str, nodes: Sequence[Node]) -> None:
        """Nothing."""

    def checked(self, node: Node, bounds: tuple[tuple[int, int], tuple[int, int]]) -> None:
        """Nothing."""

    def accumulated(self, leaf: AccumulateGrad) -> None:
        """Nothing."""

    def differentiated(self, order: Sequence[GradFn]) -> None:
        """Nothing."""
