"""Which methods of a class its uses call, and which functions of ``nn.functional``.

A method that is called through the object can be overridden by subclasses; a function that is
looked up in ``nn.functional`` when a layer runs can be replaced there. Programs do both.
"""

from __future__ import annotations

import functools
import importlib
import sys
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tests.overrides.class_uses import Use, find, quiet

#: Called for everything, or not by a name that a subclass would override.
NOT_WATCHED = frozenset({
    "__init__", "__getattribute__", "__getattr__", "__setattr__", "__delattr__",
    "__init_subclass__",
    "__subclasshook__", "__class_getitem__", "__new__", "__del__", "__annotate__", "__dir__",
    "__hash__", "__reduce_ex__", "__deepcopy__", "__torch_function__",
})  # fmt: skip


def methods_of(cls: type, stop: tuple[type, ...]) -> dict[str, Any]:
    """Methods and properties that a class has, but for those it has from ``stop``."""
    found: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        if base not in stop:
            found.update({n: v for n, v in vars(base).items() if n not in NOT_WATCHED})
    kinds = (types.FunctionType, staticmethod, classmethod, property)
    return {n: v for n, v in found.items() if isinstance(v, kinds)}


def callers_name(depth: int = 2) -> str:
    """The function that calls, but for what frameworks wrap functions in."""
    frame: Any = sys._getframe(depth)
    while frame is not None and frame.f_code.co_filename == __file__:
        frame = frame.f_back
    while frame is not None and frame.f_code.co_name in ("call", "wrapper", "decorate_context"):
        frame = frame.f_back
    return frame.f_code.co_qualname if frame is not None else ""


def subclass(cls: type, names: Iterator[str] | list[str], told: Callable[[str, str], None]) -> type:
    """A subclass that overrides ``names`` with functions that tell of their calls, and then do
    what the class does."""
    body: dict[str, Any] = {}
    for name in names:
        kind = next((vars(b)[name] for b in cls.__mro__ if name in vars(b)), None)
        if isinstance(kind, property):
            body[name] = _property(kind, name, told)
        elif isinstance(kind, (staticmethod, classmethod)):
            body[name] = type(kind)(_telling(kind.__func__, name, told))
        elif kind is not None:
            body[name] = _telling(kind, name, told)
    return type(cls.__name__, (cls,), body)


def _telling(function: Any, name: str, told: Callable[[str, str], None]) -> Any:
    @functools.wraps(function)
    def override(*args: Any, **kwargs: Any) -> Any:
        told(name, callers_name())
        return function(*args, **kwargs)

    return override


def _property(old: property, name: str, told: Callable[[str, str], None]) -> property:
    def get(self: Any) -> Any:
        told(name, callers_name())
        assert old.fget is not None
        return old.fget(self)

    return property(get, old.fset, old.fdel)


class Watch:
    """What is called in the phases of one use.

    Attributes:
        seen: by phase, the names called, each with its first caller.
        failed: by phase, the type of the error that it ends with.
    """

    def __init__(self) -> None:
        self.phase = ""
        self.seen: dict[str, dict[str, str]] = {}
        self.failed: dict[str, str] = {}

    def tell(self, name: str, caller: str) -> None:
        """Takes note of a call."""
        self.seen.setdefault(self.phase, {}).setdefault(name, caller)

    def run(self, use: Use, cls: type) -> None:
        """Makes an object and goes through the phases."""
        with quiet():
            self.phase = "make"
            made = use.make(cls)
            for name, phase in use.phases.items():
                self.phase = name
                try:
                    phase(made)
                except Exception as error:
                    self.failed[name] = next(
                        c.__name__ for c in type(error).__mro__ if c.__module__ == "builtins"
                    )


def watch_methods(torch: Any, use: Use, names: list[str] | None, stop: tuple[type, ...]) -> Watch:
    """The methods of a class that one use calls: of ``names``, or of all it has."""
    cls = find(torch, use.path)
    watch = Watch()
    watched = sorted(methods_of(cls, stop)) if names is None else names
    watch.run(use, subclass(cls, watched, watch.tell))
    return watch


@contextmanager
def patched(home: Any, names: list[str], told: Callable[[str, str], None]) -> Iterator[None]:
    """Functions of a module replaced by ones that tell of their calls."""
    before = {name: getattr(home, name) for name in names}
    try:
        for name, function in before.items():
            setattr(home, name, _telling(function, name, told))
        yield
    finally:
        for name, function in before.items():
            setattr(home, name, function)


def functions_of(home: Any) -> list[str]:
    """Public functions of ``nn.functional``."""
    helpers = ("boolean_dispatch", "handle_torch_function", "assert_int_or_pair")
    return sorted(
        name
        for name, value in vars(home).items()
        if callable(value)
        and not isinstance(value, type)
        and not name.startswith(("_", "has_torch_function", *helpers))
    )


def watch_functions(torch: Any, use: Use, names: list[str]) -> Watch:
    """The functions of ``nn.functional`` that a layer's phases look up and call."""
    watch = Watch()
    home = importlib.import_module(torch.nn.__name__ + ".functional")
    with patched(home, names, watch.tell):
        watch.run(use, find(torch, use.path))
    return watch
