"""What stands in the place of functions while a program is traced, and is taken away again."""

from __future__ import annotations

import builtins
import functools
from collections.abc import Callable
from typing import Any

from lazyt.fx.node import map_aggregate
from lazyt.fx.proxy import Proxy

__all__ = ["Patcher", "find_proxy", "recording_function"]

_ABSENT = object()


def find_proxy(*values: Any) -> Proxy | None:
    """A proxy that is somewhere in values; None where there is none."""
    found: list[Proxy] = []

    def note(part: Any) -> None:
        if isinstance(part, Proxy):
            found.append(part)

    map_aggregate(values, note)
    return found[0] if found else None


def recording_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """``function``, whose calls with proxies are recorded."""

    @functools.wraps(function)
    def recorded(*args: Any, **kwargs: Any) -> Any:
        proxy = find_proxy(args, kwargs)
        if proxy is None:
            return function(*args, **kwargs)
        made = proxy.tracer.create_proxy("call_function", function, args, kwargs)
        made.node.meta["is_wrapped"] = True
        return made

    recorded.__dict__["_lazyt_fx_recorded"] = True
    return recorded


class Patcher:
    """Replaces names of modules and methods of classes until it is left."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []
        self._seen: set[int] = set()

    def __enter__(self) -> Patcher:
        return self

    def __exit__(self, *_: object) -> None:
        while self._undo:
            self._undo.pop()()

    def method(self, owner: type, name: str, function: Callable[..., Any]) -> None:
        """Replace a method of a class."""
        before = vars(owner)[name]
        setattr(owner, name, function)
        self._undo.append(lambda: setattr(owner, name, before))

    def function(self, names: dict[str, Any], name: str) -> None:
        """Have calls of a global function, or of one of Python's own, recorded."""
        found = names.get(name, _ABSENT)
        known = found if found is not _ABSENT else getattr(builtins, name)
        if getattr(known, "_lazyt_fx_recorded", False):
            return
        names[name] = recording_function(known)

        def undo() -> None:
            if found is _ABSENT:
                del names[name]
            else:
                names[name] = found

        self._undo.append(undo)

    def functions(self, names: dict[str, Any], identities: set[int]) -> None:
        """The same of all functions of some identities that a module has."""
        if id(names) in self._seen:
            return
        self._seen.add(id(names))
        for name, value in list(names.items()):
            if not name.startswith("_") and callable(value) and id(value) in identities:
                self.function(names, name)
