"""Compiled C that Python calls as it calls its own functions, without ctypes in between.

A call through ctypes takes 0.3 to 0.5 us, one of a function of the interpreter's own kind 0.05.
Such functions are made here of a few lines of C, by the interpreter's stable interface and without
its headers. ``available`` tells whether that works, as tried; otherwise callers go on with ctypes.
"""

from __future__ import annotations

import ctypes
import functools
import struct
import sys
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from lazyt.errors import CompileError
from lazyt.ir.program import Program
from lazyt.runtime.cpu import compile, execute
from lazyt.runtime.cpu.openmp import team
from lazyt.runtime.cpython import interrupts

if TYPE_CHECKING:
    from lazyt.runtime.cpu.execute import Entry, Executable

#: ``self`` of a function is a bytes object, whose content are words: what it works on.
#: ``lz_plan`` does what ``words.Words`` says, or gives the addresses of the functions.
_TEXT = """
typedef unsigned long long word;
typedef void *(*lz_take)(void);
typedef void (*lz_give)(void *);

static void *lz_given(const word *own, int place)
{
  ((lz_give) own[0])((void *) own[place]);
  return (void *) own[place];
}

static void *lz_hold(char *self, void *nothing)
{
  const word *own = (const word *) (self + %(content)d);
  const word *words = (const word *) own[3];
  (void) nothing;
  for (word i = 0; i < words[1]; i++)
    if (*(const word *) words[2 + 2 * i] != words[3 + 2 * i])
      return lz_given(own, 2);
  return lz_given(own, 1);
}

static word lz_at(word object, word offset)
{
  return *(const word *) (object + offset);
}

static int lz_suits(const word *facts, word tensor, word kind, word form)
{
  const word none = facts[1];
  if (lz_at(tensor, 8) != kind || lz_at(tensor, facts[3]) != none)
    return 0;
  const word table = lz_at(tensor, facts[2]), storage = lz_at(tensor, facts[4]);
  if (!table || table %% 8 || lz_at(table, 16) || !storage)
    return 0;
  if (lz_at(storage, facts[5]) != none || lz_at(storage, facts[6]) != none)
    return 0;
  const word node = lz_at(storage, facts[7]);
  return node && lz_at(node, facts[8]) == form;
}

static void *lz_admit(char *self, const word *given)
{
  const word *own = (const word *) (self + %(content)d);
  const word *facts = (const word *) own[3], *each = facts + 9, count = facts[0];
  const word *items = given + 3, *others = each + 2 * count;
  int suit = given[2] == count;
  for (word i = 0; suit && i < count; i++)
    {
      suit = lz_suits(facts, items[i], each[2 * i], each[2 * i + 1]);
      const word storage = suit ? lz_at(items[i], facts[4]) : 0;
      for (word j = 0; suit && j < i; j++)
        suit = storage != lz_at(items[j], facts[4]);
      for (word j = 1; suit && j <= others[0]; j++)
        suit = storage != others[j];
    }
  return lz_given(own, suit ? 1 : 2);
}

static void *lz_start(const word *own, char **slots)
{
  void (*const entry)(char **, int) = (void (*)(char **, int)) own[2];
  word *turn = (word *) own[4], *heard = (word *) own[8];
  if (turn)
    {
      const word me = ((word (*)(void)) own[7])();
      const int count = turn[1] && turn[1] != me ? 1 : (int) turn[0];
      if (count > 1)
        {
          turn[1] = me;
          turn[2] = 1;
        }
      void *state = ((lz_take) own[5])();
      entry(slots, count);
      ((lz_give) own[6])(state);
      if (count > 1)
        turn[1] = 0;
    }
  else
    entry(slots, 1);
  if (heard[%(raised)d] && heard[%(thread)d] == ((word (*)(void)) own[7])())
    {
      heard[%(raised)d] = 0;
      ((void (*)(word, word, word)) own[9])(heard[%(error)d], heard[%(error)d + 1],
                                            heard[%(error)d + 2]);
      return 0;
    }
  return lz_given(own, 1);
}

static void *lz_run(char *self, void *nothing)
{
  const word *own = (const word *) (self + %(content)d);
  (void) nothing;
  return lz_start(own, (char **) own[3]);
}

static void *lz_launch(char *self, char *packed)
{
  return lz_start((const word *) (self + %(content)d), (char **) (packed + %(content)d));
}

void lz_plan(char **slots, int task)
{
  word *words = (word *) slots, count = words[1];
  words[0] = 0;
  for (word i = 0; i < count; i++)
    if (task == %(take)d)
      words[3 + 2 * i] = *(const word *) words[2 + 2 * i];
    else if (*(const word *) words[2 + 2 * i] != words[3 + 2 * i])
      {
        words[0] = i + 1;
        return;
      }
  if (task == %(tell)d)
    {
      words[0] = (word) lz_hold;
      words[1] = (word) lz_run;
      words[2] = (word) lz_admit;
      words[3] = (word) lz_launch;
    }
}
"""
#: What ``library()`` does: take words down, compare them, tell addresses.
TAKE, COMPARE, _TELL = 0, 1, 2
_NO_ARGUMENTS, _ONE_ARGUMENT = 4, 8  # METH_NOARGS, METH_O
_CONTENT = bytes.__basicsize__ - 1


class _Method(ctypes.Structure):
    """The interpreter's PyMethodDef."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


def _address(name: str) -> int:
    """Where a function of the interpreter is."""
    return execute.address_of(getattr(ctypes.pythonapi, name))


@functools.cache
def library() -> Any:
    """The compiled text, called without letting other threads run; None without compiler."""
    numbers = {
        "content": _CONTENT, "take": TAKE, "tell": _TELL, "raised": interrupts.RAISED,
        "thread": interrupts.THREAD, "error": interrupts.ERROR,
    }  # fmt: skip
    program = Program("c", (), (), _TEXT % numbers, (), (), 0)
    try:
        if not compile.available():
            return None
        return execute.held(execute.load(program, "words are compared").entry)
    except CompileError:
        return None


@functools.cache
def _methods() -> tuple[_Method, _Method, _Method, _Method]:
    """The functions that compare words, that run a plan, that look at arguments, and that run a
    plan on packed pointers."""
    slots = (ctypes.c_uint64 * 4)()
    library()(ctypes.addressof(slots), _TELL)
    return (
        _Method(b"hold", slots[0], _NO_ARGUMENTS, None),
        _Method(b"run", slots[1], _NO_ARGUMENTS, None),
        _Method(b"admit", slots[2], _ONE_ARGUMENT, None),
        _Method(b"launch", slots[3], _ONE_ARGUMENT, None),
    )


def _function(method: _Method, *words: int, entry: Entry | None = None) -> Callable[..., Any]:
    """A function of the interpreter's own kind that works on these words.

    It refers to ``entry``, whose library stays loaded for it.
    """
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype = ctypes.py_object
    make.argtypes = (ctypes.c_void_p, ctypes.py_object, ctypes.py_object)
    own = struct.pack(f"{len(words)}Q", *words)
    made: Callable[..., Any] = make(ctypes.addressof(method), own, entry)
    return made


@functools.cache
def available() -> bool:
    """Whether functions can be made, tried on examples."""
    if sys.implementation.name != "cpython" or struct.calcsize("P") != 8:
        return False
    if "free-threading" in sys.version or library() is None:
        return False
    probe = b"\x01" * 8
    if ctypes.string_at(id(probe) + _CONTENT, 8) != probe:
        return False
    words = (ctypes.c_uint64 * 4)(0, 1, 0, 5)
    words[2] = ctypes.addressof(words) + 24  # its own expectation
    test = holding(ctypes.addressof(words))
    before = sys.getrefcount(True)
    found = [test() for _ in range(100)]
    words[2] = ctypes.addressof(words)
    return found == [True] * 100 and test() is False and sys.getrefcount(True) >= before


def holding(address: int) -> Callable[[], bool]:
    """A function that tells whether all words are what they were, see ``words.Words``; the caller
    keeps them alive."""
    return _function(_methods()[0], _address("Py_IncRef"), id(True), id(False), address)


def admitting(address: int) -> Callable[[tuple[Any, ...]], bool]:
    """A function that tells whether arguments are as ``admission.Admission`` wrote down at this
    address; the caller keeps that alive."""
    return _function(_methods()[2], _address("Py_IncRef"), id(True), id(False), address)


def bound_launch(executable: Executable, slots: int) -> Callable[[], object]:
    """``executable.launch`` on the slots at this address, as a function that takes less time to
    call.

    Other Python threads do not run meanwhile where no kernel starts threads. Raises what a
    handler of signals has raised meanwhile.
    """
    if not available():
        return partial(executable.launch, slots)
    team.take_count()
    turn = 0 if executable.serial else ctypes.addressof(team.turn)
    return running(executable.entry, slots, turn)


def running(entry: Entry, slots: int, turn: int) -> Callable[[], None]:
    """A function that runs a plan.

    Args:
        entry: the plan's function.
        slots: the address of its pointers.
        turn: the address of ``threads.Threads.turn``, by which it takes threads as
            ``Executable.launch`` does; other Python threads run in the meantime, which takes
            0.1 us. 0 for a plan that starts no threads.
    """
    return _function(_methods()[1], *_plan_words(entry, slots, turn), entry=entry)


def launching(entry: Entry) -> Callable[[bytes], None]:
    """A function that runs a plan, which starts no threads, on packed pointers: from any number of
    Python threads, one after the other, as each has them in an object of its own."""
    return _function(_methods()[3], *_plan_words(entry, 0, 0), entry=entry)


def _plan_words(entry: Entry, slots: int, turn: int) -> tuple[int, ...]:
    names = ("PyEval_SaveThread", "PyEval_RestoreThread", "PyThread_get_thread_ident")
    heard = interrupts.words.buffer_info()[0]
    words = [turn, *map(_address, names), heard, _address("PyErr_Restore")]
    return (_address("Py_IncRef"), id(None), execute.address_of(entry), slots, *words)
