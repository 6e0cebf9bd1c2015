"""Many words of memory compared at once with what they were.

What would be hundreds of comparisons in Python is one call of compiled C, a nanosecond for each.
Who reads fields of Python's objects this way has to know where they are: ``slot_offset`` tells.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence
from typing import Any

from lazyt.errors import CompileError
from lazyt.ir.program import Program
from lazyt.runtime import compile, execute

#: ``words``: 0 or the number of the first that differs, how many there are, and of each its address
#: and what it was. ``compare``: 1 to do so, 0 to take what they are now. In their order: an address
#: may depend on what is compared before.
_TEXT = """
void lz_plan(char **slots, int compare)
{
  unsigned long long *words = (unsigned long long *) slots, count = words[1];
  words[0] = 0;
  for (unsigned long long i = 0; i < count; i++)
    if (!compare)
      words[3 + 2 * i] = *(unsigned long long *) words[2 + 2 * i];
    else if (*(unsigned long long *) words[2 + 2 * i] != words[3 + 2 * i])
      {
        words[0] = i + 1;
        return;
      }
}
"""


@functools.cache
def comparison() -> Any:
    """The compiled function, called without letting other threads run; None without compiler."""
    program = Program("c", (), (), _TEXT, (), (), 0)
    try:
        if not compile.available():
            return None
        return execute.held(execute.load(program, "words are compared").entry)
    except CompileError:
        return None


class Words:
    """Words at some addresses, and what they were.

    Attributes:
        words: ``words[0]``, after ``call(address, 1)``, is 0 or the number of a word that has
            changed, counted from 1. ``call(address, 0)`` takes what they are now.
        address: of ``words``.
    """

    __slots__ = ("address", "call", "words")

    def __init__(self, addresses: Sequence[int]) -> None:
        self.call = comparison()
        self.words = (ctypes.c_uint64 * (2 + 2 * len(addresses)))(0, len(addresses))
        for number, address in enumerate(addresses):
            self.words[2 + 2 * number] = address
        self.address = ctypes.addressof(self.words)
        self.call(self.address, 0)


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
