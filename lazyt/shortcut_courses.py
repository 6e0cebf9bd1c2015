"""Which shortcuts a captured function has, and when one is made anew."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lazyt.replay import Replay
from lazyt.shortcut import Shortcut
from lazyt.shortcut_plan import shorten
from lazyt.trees import Opening

#: Shortcuts of one function; misses after which one is made anew, at most.
_MOST, _PATIENCE = 8, 64


class Shortcuts:
    """The shortcuts of one captured function, those that were used last first.

    Attributes:
        calls: their functions.

    Args:
        opening: what is taken apart of arguments.
    """

    def __init__(self, opening: Opening) -> None:
        self._opening = opening
        self.calls: list[Callable[..., Any]] = []
        self._known: dict[Replay, _Course] = {}

    def forget(self, replays: Sequence[Replay]) -> None:
        """Drops the shortcuts of replays that no call can have any more."""
        for replay in replays:
            self._known.pop(replay, None)
        self._list()

    def _list(self) -> None:
        found = [c.shortcut.call for c in self._known.values() if c.shortcut is not None]
        self.calls = found[::-1]

    def follow(
        self, replay: Replay, shape: Any, leaves: Sequence[Any], result: Any, moving: Sequence[int]
    ) -> None:
        """A replay was run in general: give it a shortcut, or another one, if that is worth it.

        The other arguments are those of ``shorten``. While the plan may get other kernels soon
        there is none yet, and the run does not count.
        """
        prepared = replay.prepared[0] if replay.prepared is not None else None
        if prepared is not None and prepared.plan.code.heat is not None:
            return
        course = self._known.get(replay)
        if course is None:
            if len(self._known) >= _MOST:
                self._known.pop(next(iter(self._known)))
            course = self._known[replay] = _Course()
        course.misses += 1
        if course.misses >= course.patience:
            course.misses, course.patience = 0, min(2 * course.patience, _PATIENCE)
            if course.shortcut is not None and course.shortcut.tags is not None:
                course.polled.update(map(id, course.shortcut.tags.all_changed()))
            course.shortcut = shorten(
                replay, self._opening, shape, leaves, result, course.polled, moving
            )
        self._list()


class _Course:
    """How the shortcuts of one replay went.

    Attributes:
        shortcut: the last one.
        polled: identities of dicts that change though nothing that matters does.
        misses: calls since it was made that it missed.
        patience: how many of them until another is made; doubles each time.
    """

    __slots__ = ("misses", "patience", "polled", "shortcut")

    def __init__(self) -> None:
        self.shortcut: Shortcut | None = None
        self.polled: set[int] = set()
        self.misses = 0
        self.patience = 1
