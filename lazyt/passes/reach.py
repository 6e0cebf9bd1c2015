"""Which groups wait for which others, kept up to date while groups grow.

What stands above a group is a set of bits in one integer, so that a question is one operation. A
search through the groups for every question took more time than all else in graphs of thousands.
"""

from __future__ import annotations

from collections.abc import Iterable

from lazyt.ir.group import Group


class Reach:
    """The order that reading imposes on groups."""

    def __init__(self) -> None:
        self._bits: dict[Group, int] = {}  # of the group, and of those merged into it
        self._above: dict[Group, int] = {}
        self._read: set[Group] = set()

    def add(self, group: Group) -> None:
        """A new group, which reads nothing yet."""
        self._bits[group] = 1 << len(self._bits)  # none is ever taken out
        self._above[group] = 0

    def reads(self, group: Group, others: Iterable[Group]) -> None:
        """Notes that a group reads results of others."""
        found = 0
        for other in others:
            if other is not group:
                found |= self._above[other] | self._bits[other]
                self._read.add(other)
        self._extend(group, found)

    def merge(self, group: Group, other: Group) -> None:
        """Notes that ``other`` has become part of ``group``."""
        self._bits[group] |= self._bits[other]
        # Its bits stay in the one that has them now, its place among the groups is given up.
        found = self._above.pop(other)
        self._bits[other] = 0
        if other in self._read:
            self._read.add(group)
        self._above[group] &= ~self._bits[group]
        self._extend(group, found, always=True)

    def depends(self, group: Group, on: Group) -> bool:
        """Whether ``group`` needs, directly or not, a result of ``on``, or is it."""
        return group is on or bool(self._above[group] & self._bits[on])

    def _extend(self, group: Group, found: int, always: bool = False) -> None:
        mine = self._bits[group]
        found &= ~mine
        if not always and not found & ~self._above[group]:
            return
        self._above[group] |= found
        if group in self._read:
            found = self._above[group]
            for other, above in self._above.items():
                if above & mine:
                    self._above[other] = above | found | mine
