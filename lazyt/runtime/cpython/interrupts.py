"""Ctrl-C while a plan runs.

A plan is one C function, and Python's handlers of signals run between Python's instructions. So
plans that may take long ask now and then whether a signal has come: between launches, and between
the shares of a loop that threads take in turn. Python's handlers then run, in the main thread, as
Python itself would have them run. If one raises, the plan ends, and its caller raises that.

A plan asks only as long as it has not begun to write over an input (see ``print_entry_c``): it took
no effect then, so what it was to compute can be computed again; otherwise it runs to its end.

What plans and Python both read are words, at the address that every plan's library is given.
"""

from __future__ import annotations

import array
import ctypes
import os
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

#: Signals that programs handle by raising, where there are such.
_SIGNALS = ("SIGINT", "SIGTERM", "SIGALRM", "SIGHUP", "SIGUSR1", "SIGUSR2")
#: Seconds between two questions.
_PAUSE = 0.1
#: Places of the words: who listens, when to ask next, whether a handler raised, the functions of
#: the interpreter and of the clock, the object that tells that handlers run, and what was raised.
THREAD, _NEXT, RAISED, _FUNCTIONS, _FLAG, ERROR = 0, 1, 2, 3, 11, 14
_NAMES = (
    "PyThread_get_thread_ident", "PyGILState_Ensure", "PyGILState_Release", "PyErr_CheckSignals",
    "PyErr_Fetch", "PyErr_Restore", "PyObject_SetAttrString",
)  # fmt: skip
#: A clock that takes no more than reading memory, where there is one.
_CLOCK = 6 if sys.platform == "linux" else time.CLOCK_MONOTONIC


class Handling:
    """Tells, in ``now``, whether handlers of signals run in the middle of a plan."""

    def __init__(self) -> None:
        self.now = False


handling = Handling()
#: The words; all zero where plans do not listen.
words = array.array("Q", [0] * 17)

#: What plans listen with: C text of every plan's entry.
TEXT = f"""
/* See lazyt/runtime/cpython/interrupts.py for the words. */
typedef unsigned long long lz_word;
__attribute__((visibility("default"))) lz_word *lz_words;
struct lz_instant {{ long seconds, nanoseconds; }};
static __thread int lz_listens, lz_stopped;

static lz_word lz_instant_now(void)
{{
  struct lz_instant now;
  ((int (*)(int, struct lz_instant *)) lz_words[{_FUNCTIONS + 7}])({_CLOCK}, &now);
  return now.seconds * 1000000000ull + now.nanoseconds;
}}

/* Runs the handlers of signals that have come; whether one raised. */
static int lz_handle(lz_word *words)
{{
  const lz_word now = lz_instant_now();
  if (now < words[{_NEXT}] || words[{RAISED}])
    return words[{RAISED}] != 0;
  words[{_NEXT}] = now + {int(_PAUSE * 1e9)}ull;
  const int listens = lz_listens;
  const int state = ((int (*)(void)) words[{_FUNCTIONS + 1}])();
  int (*const tell)(lz_word, const char *, lz_word) =
      (int (*)(lz_word, const char *, lz_word)) words[{_FUNCTIONS + 6}];
  tell(words[{_FLAG}], "now", words[{_FLAG + 1}]);
  if (((int (*)(void)) words[{_FUNCTIONS + 3}])())
    {{
      ((void (*)(lz_word *, lz_word *, lz_word *)) words[{_FUNCTIONS + 4}])(
          words + {ERROR}, words + {ERROR + 1}, words + {ERROR + 2});
      words[{RAISED}] = 1;
    }}
  tell(words[{_FLAG}], "now", words[{_FLAG + 2}]);
  ((void (*)(int)) words[{_FUNCTIONS + 2}])(state);
  lz_listens = listens;
  words[{_NEXT}] = lz_instant_now() + {int(_PAUSE * 1e9)}ull;
  return words[{RAISED}] != 0;
}}

void lz_begin(void)
{{
  lz_word *const words = lz_words;
  lz_stopped = 0;
  lz_listens = words && words[{THREAD}] && !words[{RAISED}]
               && ((lz_word (*)(void)) words[{_FUNCTIONS}])() == words[{THREAD}];
  if (lz_listens)
    words[{_NEXT}] = lz_instant_now() + {int(_PAUSE * 1e9)}ull;
}}

int lz_heard(void)
{{
  if (lz_listens && !lz_stopped)
    lz_stopped = lz_handle(lz_words);
  return lz_stopped;
}}

void lz_go_on(void)
{{
  lz_listens = 0;
}}
"""


def _set_up() -> None:
    """Writes the words down where the interpreter is one that this works with."""
    if sys.implementation.name != "cpython" or ctypes.sizeof(ctypes.c_void_p) != 8:
        return
    for place, name in enumerate(_NAMES, _FUNCTIONS):
        function = getattr(ctypes.pythonapi, name)
        words[place] = ctypes.cast(function, ctypes.c_void_p).value or 0
    try:
        clock = ctypes.CDLL(None).clock_gettime
    except (OSError, AttributeError):
        return
    words[_FUNCTIONS + len(_NAMES)] = ctypes.cast(clock, ctypes.c_void_p).value or 0
    words[_FLAG], words[_FLAG + 1], words[_FLAG + 2] = id(handling), id(True), id(False)
    _take_thread()


def _take_thread() -> None:
    """Python runs handlers in its main thread alone."""
    words[THREAD] = threading.main_thread().ident or 0
    words[RAISED] = 0


def tell(handle: int) -> None:
    """Gives a plan's library, opened by the system, the address of the words."""
    try:
        place = ctypes.c_void_p.from_address(_symbol(handle, "lz_words"))
    except OSError:  # of a text that is no plan's
        return
    place.value = words.buffer_info()[0]


def _symbol(handle: int, name: str) -> int:
    import _ctypes

    return _ctypes.dlsym(handle, name)


def raise_heard() -> None:
    """Raises what a handler has raised in the middle of the plan that has just ended."""
    error = [ctypes.c_void_p(words[ERROR + n]) for n in range(3)]
    words[RAISED] = 0
    restore: Any = ctypes.pythonapi["PyErr_Restore"]
    restore.argtypes, restore.restype = (ctypes.c_void_p,) * 3, None
    restore(*error)


class deferred:
    """Inside of it no handler of a signal runs in this thread; at its end those run whose signals
    have come. For launches one by one, of a plan that writes over its inputs."""

    def __init__(self) -> None:
        self._before: list[tuple[int, Callable[[int, FrameType | None], Any]]] = []
        self._came: list[int] = []

    def __enter__(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            return  # handlers run in the main thread alone
        import signal  # not for `import lazyt`

        try:
            for name in _SIGNALS:
                number = getattr(signal, name, None)
                handler = None if number is None else signal.getsignal(number)
                if number is not None and callable(handler):
                    self._before.append((number, handler))
                    signal.signal(number, self._note)
        except BaseException:
            self._restore()
            raise

    def __exit__(self, *_: object) -> None:
        handlers = dict(self._before)
        self._restore()
        for number in dict.fromkeys(self._came):
            handlers[number](number, sys._getframe())

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._came.append(number)

    def _restore(self) -> None:
        """All handlers, also where one of them raises as soon as it is there again."""
        import signal

        if self._before:
            number, handler = self._before.pop()
            try:
                signal.signal(number, handler)
            finally:
                self._restore()


_set_up()
os.register_at_fork(after_in_child=_take_thread)
