"""Many words of memory compared at once with what they were.

What would be hundreds of comparisons in Python is one call of compiled C, a nanosecond for each.
Who reads fields of Python's objects this way has to know where they are: ``slot_offset`` tells.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Sequence
from typing import Any

from lazyt.runtime.cpython import direct


class Words:
    """Words at some addresses, and what they were.

    Attributes:
        hold: tells whether all are what they were; an address may depend on the words before.
    """

    __slots__ = ("_address", "_words", "hold")

    hold: Callable[[], bool]

    def __init__(self, addresses: Sequence[int]) -> None:
        # The number of the first that differs, how many there are, of each its address and value.
        self._words = (ctypes.c_uint64 * (2 + 2 * len(addresses)))(0, len(addresses))
        for number, address in enumerate(addresses):
            self._words[2 + 2 * number] = address
        self._address = ctypes.addressof(self._words)
        self.hold = direct.holding(self._address) if direct.available() else self._compare
        self.take()

    def take(self) -> None:
        """Take the words of this moment as those to compare with."""
        direct.library()(self._address, direct.TAKE)

    def _compare(self) -> bool:
        direct.library()(self._address, direct.COMPARE)
        return not self._words[0]

    def first(self) -> int | None:
        """Which word is another one now, None where none is."""
        return None if self._compare() else int(self._words[0]) - 1

    def value(self, number: int) -> int:
        """What a word was."""
        return int(self._words[3 + 2 * number])


def word_at(address: int) -> int:
    """A word of memory."""
    return ctypes.c_uint64.from_address(address).value


#: Where a descriptor of a slot has its definition, and that the slot's place.
_DEFINITION, _PLACE = 40, 16


@functools.cache
def slot_offset(kind: type, name: str) -> int:
    """Where objects of a class have a slot; 0 where that cannot be told.

    ``__dict__`` is one, too: the word at its place is the address of the dict, once there is one.
    """
    if name == "__dict__":
        found = kind.__dictoffset__
        return found if found > 0 else _MANAGED_DICT
    slot = next((vars(base)[name] for base in kind.__mro__ if name in vars(base)), None)
    if type(slot) is not _Member:
        return 0
    return word_at(word_at(id(slot) + _DEFINITION) + _PLACE)


_checked: set[tuple[type, str]] = set()


def slot_address(owner: Any, name: str) -> int:
    """Where an object has a slot. Raises LookupError where that cannot be told."""
    kind: type = type(owner)
    offset = slot_offset(kind, name)
    if (kind, name) not in _checked:
        value = getattr(owner, name)  # which makes the dict, where that is what is read
        if not offset or word_at(id(owner) + offset) != id(value):
            raise LookupError(name)
        _checked.add((kind, name))
    return id(owner) + offset


#: Where every object has its count of references and its class; where a dict has its size.
COUNT, TYPE, SIZE = 0, 8, 16


class _Probe:
    __slots__ = ("__dict__", "__weakref__", "first", "second")

    first: Any
    second: Any


_Member = type(_Probe.__dict__["first"])
#: Three words before an object is its dict where the class leaves that to the interpreter.
_MANAGED_DICT = -24


@functools.cache
def known() -> bool:
    """Whether fields of objects are where ``slot_offset`` says, tried on an example."""
    probe, value = _Probe(), object()
    probe.first, probe.second = value, probe
    fields = {"first": id(value), "second": id(probe), "__dict__": id(probe.__dict__)}
    offsets = {name: slot_offset(_Probe, name) for name in fields}
    return all(
        offset and word_at(id(probe) + offset) == fields[name] for name, offset in offsets.items()
    )
