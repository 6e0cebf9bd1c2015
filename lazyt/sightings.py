"""Which calls of a captured function are worth a capture: those whose arguments come again."""

from __future__ import annotations

from collections.abc import Hashable

#: Captures in a row without a replay that say that captures are of no use here.
UNUSED = 12
#: How often arguments of a kind come before they are captured then: once, or this many times where
#: another capture would have to make room.
_FULL = 4
#: Kinds of arguments that are remembered.
_REMEMBERED = 4096


class Sightings:
    """What was captured for nothing, and which kinds of arguments (shapes, types, values of words)
    came without being captured.
    """

    def __init__(self) -> None:
        self._unused = self._alike = 0
        self._met: dict[Hashable, int] = {}

    def replayed(self) -> None:
        """Takes note that a capture was of use."""
        self._unused = self._alike = 0

    def captured(self, known: bool) -> bool:
        """Takes note of a capture; False where captures are of no use at all.

        Args:
            known: there were captures for this kind of arguments, so that something else differs.
        """
        self._unused += 1
        self._alike += known
        return self._alike < UNUSED

    def is_rare(self, kind: Hashable, full: bool) -> bool:
        """Whether arguments of a kind without captures came too seldom to be captured, as far as
        is known; takes note of them.

        Args:
            kind: the kind of arguments.
            full: another capture would have to make room.
        """
        if self._unused < UNUSED:
            return False
        times = self._met.pop(kind, 0)
        if times >= (_FULL if full else 1):
            return False
        self._met[kind] = times + 1
        if len(self._met) > _REMEMBERED:
            self._met.pop(next(iter(self._met)))
        return True
