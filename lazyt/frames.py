"""Which Python code a function runs, found by letting it run once under Python's profiler.

Code of the user and of the layers above tensors (``nn``, ``optim``) counts; lazyt's own functions
on tensors and the standard library do not, but where they read clocks, random numbers or files.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys
import types
from functools import cache
from typing import Any

_LAYERS = ("nn", "optim", "amp", "utils", "func")
#: What lazyt itself runs on.
_OTHERS = frozenset({"numpy", "pycparser", "networkx"})
#: What the module of a named tuple's ``__new__`` is called.
_NAMED_TUPLE = "namedtuple_"
#: Modules whose functions give other results, or do something, every time.
_FORBIDDEN = frozenset(
    {"random", "_random", "time", "secrets", "uuid", "datetime", "_io", "socket", "posix"}
)
_FORBIDDEN_CALLS = {print: "prints", input: "asks for input", open: "opens a file",
                    next: "takes the next element of an iterator", exec: "calls exec",
                    eval: "calls eval"}  # fmt: skip


#: What reads a variable of the environment, and the modules whose functions call that.
_BETWEEN = frozenset({"os", "_collections_abc", "collections.abc"})
_ENVIRONMENT = type(os.environ).__getitem__.__code__
#: What imports a module. Its code runs once in a process and is no part of what a function does.
_IMPORT = importlib._bootstrap._find_and_load.__code__  # type: ignore[attr-defined]


@cache
def is_user_module(name: str) -> bool:
    """Whether a module's functions and classes are the user's, or a layer's."""
    first, _, rest = name.partition(".")
    if first == "lazyt":
        return rest.split(".")[0] in _LAYERS
    if name.startswith(_NAMED_TUPLE):
        return False
    return first == "__main__" or (first not in _OTHERS and first not in sys.stdlib_module_names)


def _is_user(frame: types.FrameType) -> bool:
    return is_user_module(str(frame.f_globals.get("__name__", "__main__")))


class Frames:
    """A context in which the code that runs is noted.

    Attributes:
        codes: of all the user's functions that ran, with their globals.
        trouble: what ran that cannot be replayed, in words; None when nothing did.
        paused: while set, nothing is noted.
    """

    def __init__(self) -> None:
        self.codes: dict[types.CodeType, dict[str, Any]] = {}
        self.trouble: str | None = None
        self.paused = self._imports = 0
        self._outer: Any = None

    def __enter__(self) -> Frames:
        self._outer = sys.getprofile()
        self._collects = gc.isenabled()
        gc.disable()  # callbacks of the collector are no part of what runs
        sys.setprofile(self._note)
        return self

    def __exit__(self, *_: object) -> None:
        if self._outer is None or callable(self._outer):
            sys.setprofile(self._outer)
        else:  # cProfile's, which is no function: it sets itself
            self._outer.enable()
        if self._collects:
            gc.enable()

    def _note(self, frame: types.FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        if code is _IMPORT and event in ("call", "return"):
            self._imports += 1 if event == "call" else -1
        if self.paused or self._imports or event not in ("call", "c_call"):
            return
        if event == "c_call":
            if self.trouble is None and _is_user(frame):
                self._note_builtin(frame, argument)
        elif _is_user(frame):
            self.codes.setdefault(code, frame.f_globals)
        elif self.trouble is None and code is _ENVIRONMENT:
            outer = frame.f_back
            while outer is not None and outer.f_globals.get("__name__") in _BETWEEN:
                outer = outer.f_back
            if outer is not None and _is_user(outer):
                self.trouble = "reads os.environ" + _place(outer)
        elif self.trouble is None and frame.f_globals.get("__name__") in _FORBIDDEN:
            back = frame.f_back
            if back is not None and _is_user(back):
                self.trouble = f"calls {frame.f_globals['__name__']}.{code.co_name}" + _place(back)

    def _note_builtin(self, frame: types.FrameType, function: Any) -> None:
        try:
            what = _FORBIDDEN_CALLS.get(function)
        except TypeError:  # not hashable
            what = None
        if what is None:
            owner = getattr(function, "__self__", None)
            home = getattr(function, "__module__", None) or ""
            if not home and not isinstance(owner, types.ModuleType):
                home = type(owner).__module__
            if home in _FORBIDDEN or home.startswith("numpy.random"):
                what = f"calls {home.lstrip('_')}.{function.__name__}"
        if what is not None:
            self.trouble = what + _place(frame)


def _place(frame: types.FrameType) -> str:
    return f" ({os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno})"
