"""Whether any of many dicts has changed, found out at once.

CPython 3.11 and 3.12 keep a tag in every dict that each change replaces (PEP 509). A piece of C
compares the tags of all dicts that somebody depends on with those of a moment when all was known
to be well, a nanosecond for each. Other interpreters have no tags: ``available`` tells.
"""

from __future__ import annotations

import ctypes
import functools
import struct
import sys
from collections.abc import Sequence
from typing import Any

from lazyt.runtime.cpython import direct, words

_OFFSET = 24  # after the count of references, the type and the number of entries
_SIZE = 48
_WORD = struct.Struct("Q")


class Tags:
    """The tags of some dicts, which it keeps alive.

    Attributes:
        hold: tells whether none has changed.
        renew: takes the tags of this moment as those to compare with.
    """

    __slots__ = ("_dicts", "_words", "hold", "renew")

    def __init__(self, dicts: Sequence[dict[Any, Any]]) -> None:
        self._dicts = list(dicts)
        self._words = words.Words([id(table) + _OFFSET for table in self._dicts])
        self.hold, self.renew = self._words.hold, self._words.take

    def all_changed(self) -> list[dict[Any, Any]]:
        """The dicts that have changed since."""
        tables = enumerate(self._dicts)
        return [table for number, table in tables if self._words.value(number) != _tag(table)]

    def changed(self) -> dict[Any, Any] | None:
        """A dict that has changed since, None where none has."""
        found = self._words.first()
        return None if found is None else self._dicts[found]


def _tag(table: dict[Any, Any]) -> int:
    found: int = _WORD.unpack(ctypes.string_at(id(table) + _OFFSET, 8))[0]
    return found


@functools.cache
def available() -> bool:
    """Whether this interpreter has tags that every way to change a dict replaces."""
    if sys.implementation.name != "cpython" or sys.version_info[:2] not in ((3, 11), (3, 12)):
        return False
    if dict.__basicsize__ != _SIZE or struct.calcsize("P") != 8:
        return False
    return _tags_follow() and direct.library() is not None


class _Probe:
    """Something with attributes."""

    def __init__(self) -> None:
        self.first = self.second = 0


def _set_attribute(owner: _Probe, value: int) -> None:
    owner.first = value


def _set_item(table: dict[Any, Any], value: int) -> None:
    table["first"] = value


def _tags_follow() -> bool:
    """Tries the ways to change a dict, also in code that the interpreter has specialized."""
    hot, table = _Probe(), {"first": 0, "second": 0}
    for number in range(100):
        _set_attribute(hot, number)
        _set_item(table, number)
    space: dict[str, Any] = {}
    exec("def write(value):\n    global first\n    first = value", space)
    for number in range(100):
        space["write"](number)
    attributes = vars(hot)
    changes = [
        (attributes, lambda n: _set_attribute(hot, n)),
        (attributes, lambda n: setattr(hot, "x", n)),
        (attributes, lambda n: delattr(hot, "x")), (table, lambda n: _set_item(table, n)),
        (table, lambda n: table.update(second=n)), (table, lambda n: table.pop("second")),
        (table, lambda n: table.setdefault("third", n)), (table, lambda n: table.popitem()),
        (space, space["write"]), (space, lambda n: exec(f"second = {n}", space)),
        (table, lambda n: table.clear()),
    ]  # fmt: skip
    for turn in range(120):
        for owner, change in changes:
            if change is changes[2][1]:
                hot.second = turn
            table.setdefault("second", 0)
            before = _tag(owner)
            if before != _tag(owner):
                return False
            change(turn + 1000)
            if _tag(owner) == before:
                return False
    return True
