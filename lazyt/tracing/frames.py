"""Which Python code a function runs, found by letting it run once under Python's profiler.

Code of the user and of the layers above tensors (``nn``, ``optim``) counts; lazyt's own functions
on tensors and the standard library do not, but where they read clocks, random numbers or files.
"""

from __future__ import annotations

import copy
import dis
import functools
import gc
import importlib
import os
import re
import sys
import types
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any

_LAYERS = ("nn", "optim", "amp", "utils", "func", "fx", "export")
#: What lazyt itself runs on.
_OTHERS = frozenset({"numpy", "pycparser", "networkx"})
#: What the module of a named tuple's ``__new__`` is called.
_NAMED_TUPLE = "namedtuple_"
#: Modules whose functions give other results, or do something, every time.
_FORBIDDEN = frozenset(
    {"random", "_random", "time", "secrets", "uuid", "datetime", "_io", "socket", "posix"}
)
_FORBIDDEN_CALLS = {print: "prints", input: "asks for input", open: "opens a file",
                    exec: "calls exec", eval: "calls eval"}  # fmt: skip


#: What reads a variable of the environment, and the modules whose functions call that.
_BETWEEN = frozenset({"os", "_collections_abc", "collections.abc"})
_Environment = type(os.environ)
_ENVIRONMENT = _Environment.__getitem__.__code__
#: What changes it, or reads all of it.
_WHOLE_ENVIRONMENT = {
    _Environment.__setitem__.__code__: "changes os.environ",
    _Environment.__delitem__.__code__: "changes os.environ",
    _Environment.__iter__.__code__: "goes through os.environ",
    _Environment.__len__.__code__: "goes through os.environ",
}
#: Copies of objects read all that is in them, by code that is noted as if it were the user's.
_COPIES = frozenset({copy.copy.__code__, copy.deepcopy.__code__})
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


class StopTracing(BaseException):
    """Code that is run to be traced was about to do what a replay could not repeat; says what. No
    handler of the user's takes it for an error."""


class Frames:
    """A context in which the code that runs is noted.

    Attributes:
        codes: of all the user's functions that ran, with their globals.
        trouble: what ran that cannot be replayed, in words; None when nothing did.
        environment: the variables of the environment that were read.
        next_of: where the user's code asks an iterator for its next element; None where it never
            does.
        paused: while set, nothing is noted.
        stops: whether what cannot be replayed is stopped by StopTracing before it is done.
    """

    stops = False

    def __init__(self) -> None:
        self.codes: dict[types.CodeType, dict[str, Any]] = {}
        self.trouble: str | None = None
        self.environment: dict[str, None] = {}
        self.next_of: str | None = None
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
                self._stop()
        elif _is_user(frame):
            self.codes.setdefault(code, frame.f_globals)
        elif code in _COPIES:
            if frame.f_back is not None and _is_user(frame.f_back):
                self.codes.setdefault(code, frame.f_globals)
        elif code is _ENVIRONMENT:
            if _user_of_environment(frame) is not None:
                self.environment[frame.f_locals["key"]] = None
        elif self.trouble is None and code in _WHOLE_ENVIRONMENT:
            outer = _user_of_environment(frame)
            if outer is not None:
                self.trouble = _WHOLE_ENVIRONMENT[code] + _place(outer)
        elif self.trouble is None and frame.f_globals.get("__name__") in _FORBIDDEN:
            back = frame.f_back
            if back is not None and _is_user(back):
                self.trouble = f"calls {frame.f_globals['__name__']}.{code.co_name}" + _place(back)
        self._stop()

    def _stop(self) -> None:
        if self.stops and self.trouble is not None:
            trouble, self.trouble = self.trouble, None
            raise StopTracing(f"it {trouble}")

    def _note_builtin(self, frame: types.FrameType, function: Any) -> None:
        if function is next:
            self.next_of = self.next_of or _place(frame)
            return
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


def _user_of_environment(frame: types.FrameType) -> types.FrameType | None:
    """The user's frame that a look into the environment comes from; None where it is another's."""
    outer = frame.f_back
    while outer is not None and outer.f_globals.get("__name__") in _BETWEEN:
        outer = outer.f_back
    return outer if outer is not None and _is_user(outer) else None


def _place(frame: types.FrameType) -> str:
    return f" ({os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno})"


# Names that code mentions: they bound what it can read.


_VARIABLES = frozenset({
    "LOAD_GLOBAL", "STORE_GLOBAL", "DELETE_GLOBAL", "LOAD_NAME", "STORE_NAME", "DELETE_NAME",
})  # fmt: skip


@functools.cache
def global_names(code: types.CodeType) -> tuple[str, ...]:
    """Names that a code object, and those nested in it, read as globals: an attribute of the same
    name is another thing."""
    found: dict[str, None] = {}
    stack = [code]
    while stack:
        item = stack.pop()
        for step in dis.get_instructions(item):
            if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
                found[step.argval] = None
        stack.extend(c for c in item.co_consts if isinstance(c, types.CodeType))
    return tuple(found)


def _all_names(code: types.CodeType) -> Iterable[str]:
    """Names that a code object, and those nested in it, mention."""
    stack = [code]
    while stack:
        item = stack.pop()
        yield from item.co_names
        stack.extend(c for c in item.co_consts if isinstance(c, types.CodeType))


def names_of(codes: Iterable[types.CodeType]) -> frozenset[str]:
    """All names that ``codes`` mention."""
    return frozenset(sys.intern(name) for code in codes for name in _all_names(code))


#: A field of a format that names attributes.
_FIELD = re.compile(r"\{(\w*\.[\w.]+)")
#: What reads attributes without mentioning their names.
_READS_ALL = frozenset({
    "__dict__", "__getstate__", "__reduce_ex__", "asdict", "astuple", "fields", "getattr",
    "getmembers", "vars",
})  # fmt: skip


def reads_all(names: frozenset[str]) -> bool:
    """Whether code that mentions ``names`` may read attributes of any name."""
    return not _READS_ALL.isdisjoint(names)


def readable_names(
    codes: Iterable[types.CodeType], ours: Iterable[types.CodeType]
) -> frozenset[str]:
    """Names of attributes that ``codes`` can read: those that they mention, and in ``ours``, the
    user's, those that texts hold, as ``hasattr``, ``attrgetter`` and patterns of classes have them.
    """
    texts = [text for text in texts_of(ours) if len(text) < 256]
    parts = [part for text in texts for part in text.split(".")]
    parts += [part for text in texts for field in _FIELD.findall(text) for part in field.split(".")]
    return names_of(codes) | {sys.intern(part) for part in parts if part.isidentifier()}


@functools.cache
def _bare_names(code: types.CodeType) -> tuple[frozenset[str], frozenset[str]]:
    """Names of variables of modules in a code object, and names of everything else."""
    bare: set[str] = set()
    other: set[str] = set()
    for step in dis.get_instructions(code):
        if step.opcode in dis.hasname:
            (bare if step.opname in _VARIABLES else other).add(step.argval)
    return frozenset(bare), frozenset(other)


def reads_others_alone(
    code: types.CodeType, table: Mapping[str, Any], home: str, names: frozenset[str]
) -> bool:
    """Whether all that code reads by ``__dict__`` is something else than attributes ``names`` of
    objects of the package ``home``. Functions that are made in it do not count.

    It asks for other names, or which names there are; or it is a method that reads its own object
    and class, which are of no class of the package.

    Args:
        table: the globals of the code.
    """
    steps = [step for step in dis.get_instructions(code) if step.opname != "EXTENDED_ARG"]
    is_outside: bool | None = None
    for place, step in enumerate(steps):
        if step.argval != "__dict__" or step.opcode not in dis.hasname:
            continue
        if step.opname not in ("LOAD_ATTR", "LOAD_METHOD"):
            return False
        if _is_for_others(steps[place + 1 : place + 3], names):
            continue
        before = steps[place - 1] if place else None
        if before is None or before.argval not in ("self", "__class__"):
            return False
        if is_outside is None:
            is_outside = _is_method_outside(code, table, home)
        if not is_outside:
            return False
    return True


def _is_for_others(steps: Sequence[dis.Instruction], names: frozenset[str]) -> bool:
    """Whether what a dict is loaded for is none of ``names``: ``key in it``, ``it["key"]`` or
    ``it.get("key", ...)``.

    Args:
        steps: the two instructions that come next.
    """
    first, second = steps[0], steps[-1]
    if first.opname == "CONTAINS_OP":
        return True
    if first.opname == "LOAD_CONST" and second.opname == "BINARY_SUBSCR":
        return first.argval not in names
    is_get = first.opname in ("LOAD_ATTR", "LOAD_METHOD") and first.argval == "get"
    return is_get and second.opname == "LOAD_CONST" and second.argval not in names


def _is_method_outside(code: types.CodeType, table: Mapping[str, Any], home: str) -> bool:
    """Whether code is that of a method of a class that no class of a package inherits from, and
    that inherits from none of them."""
    owner: Any = None
    for name in code.co_qualname.partition(".<locals>")[0].split(".")[:-1]:
        owner = table.get(name) if owner is None else vars(owner).get(name)
        if not isinstance(owner, type):
            return False
    return owner is not None and not any(_is_from(kind, home) for kind in _subclasses(owner))


def _is_from(kind: type, home: str) -> bool:
    """Whether a class inherits from one of a package."""
    return any(f"{base.__module__}.".startswith(f"{home}.") for base in kind.__mro__)


def _subclasses(kind: type) -> set[type]:
    """A class and all that inherit from it."""
    found: set[type] = set()
    stack = [kind]
    while stack:
        item = stack.pop()
        if item not in found:
            found.add(item)
            stack.extend(type.__subclasses__(item))
    return found


def variable_names(codes: Iterable[types.CodeType]) -> frozenset[str]:
    """Names that ``codes``, and those nested in them, mention as variables of modules alone, never
    as attributes."""
    bare: set[str] = set()
    other: set[str] = set()
    stack = list(codes)
    while stack:
        item = stack.pop()
        found = _bare_names(item)
        bare |= found[0]
        other |= found[1]
        stack.extend(c for c in item.co_consts if isinstance(c, types.CodeType))
    return frozenset(bare - other)


def texts_of(codes: Iterable[types.CodeType]) -> frozenset[str]:
    """All texts among the constants of ``codes`` and of those nested in them."""
    found: set[str] = set()
    stack: list[Any] = list(codes)
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            found.add(item)
        elif isinstance(item, (tuple, frozenset)):
            stack.extend(item)
        elif isinstance(item, types.CodeType):
            stack.extend(item.co_consts)
    return frozenset(found)
