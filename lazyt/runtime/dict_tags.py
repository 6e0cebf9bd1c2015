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

from lazyt.errors import CompileError
from lazyt.ir.program import Program
from lazyt.runtime import compile, execute

_OFFSET = 24  # after the count of references, the type and the number of entries
_SIZE = 48
_WORD = struct.Struct("Q")
_TEXT = """
void lz_plan(char **slots, int threads)
{
  unsigned long long *words = (unsigned long long *) slots, count = words[1];
  (void) threads;
  words[0] = 0;
  for (unsigned long long i = 0; i < count; i++)
    if (*(unsigned long long *) words[2 + 2 * i] != words[3 + 2 * i])
      {
        words[0] = i + 1;
        return;
      }
}
"""


class Tags:
    """The tags of some dicts, which it keeps alive.

    Attributes:
        words: ``words[0]``, after ``compare(address, 1)``, is 0 or the number of a dict that has
            changed, counted from 1.
        address: of the words.
    """

    __slots__ = ("_dicts", "address", "compare", "words")

    def __init__(self, dicts: Sequence[dict[Any, Any]]) -> None:
        compare = _comparison()
        assert compare is not None
        self.compare = compare
        self._dicts = list(dicts)
        self.words = (ctypes.c_uint64 * (2 + 2 * len(dicts)))(0, len(dicts))
        self.address = ctypes.addressof(self.words)
        for number, table in enumerate(self._dicts):
            self.words[2 + 2 * number] = id(table) + _OFFSET
        self.renew()

    def renew(self) -> None:
        """Take the tags of this moment as those to compare with."""
        for number, table in enumerate(self._dicts):
            self.words[3 + 2 * number] = _tag(table)

    def all_changed(self) -> list[dict[Any, Any]]:
        """The dicts that have changed since."""
        tables = enumerate(self._dicts)
        return [t for number, t in tables if self.words[3 + 2 * number] != _tag(t)]

    def changed(self) -> dict[Any, Any] | None:
        """A dict that has changed since, None where none has."""
        self.compare(self.address, 1)
        found = int(self.words[0])
        return self._dicts[found - 1] if found else None


def _tag(table: dict[Any, Any]) -> int:
    found: int = _WORD.unpack(ctypes.string_at(id(table) + _OFFSET, 8))[0]
    return found


@functools.cache
def _comparison() -> Any:
    """The compiled comparison, called without letting other threads run; None without compiler."""
    program = Program("c", (), (), _TEXT, (), (), 0)
    try:
        if not compile.available():
            return None
        return execute.held(execute.load(program, "dicts are compared").entry)
    except CompileError:
        return None


@functools.cache
def available() -> bool:
    """Whether this interpreter has tags that every way to change a dict replaces."""
    if sys.implementation.name != "cpython" or sys.version_info[:2] not in ((3, 11), (3, 12)):
        return False
    if dict.__basicsize__ != _SIZE or struct.calcsize("P") != 8:
        return False
    return _tags_follow() and _comparison() is not None


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
