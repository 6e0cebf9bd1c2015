"""Modules from the table of PyTorch's names: made when they are imported, their names when used."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from types import ModuleType
from typing import Any, NamedTuple, NoReturn

from lazyt.compat.absent import AbsentName, module_reason
from lazyt.compat.names.entries import Group, Refused, spelled
from lazyt.errors import UnsupportedNameError

__all__ = ["Names", "extend", "make_module", "refused", "restore"]

_PACKAGE = "torch"


class Names:
    """The names of one of PyTorch's modules.

    Args:
        path: the module's, below ``torch``; "" for the package itself.
        groups: from the table.
        children: the last parts of the modules below it.
    """

    def __init__(self, path: str, groups: Mapping[Group, str], children: frozenset[str]) -> None:
        self.full = f"{_PACKAGE}.{path}" if path else _PACKAGE
        self.children = children
        self.homes = {
            name: (group, ours)
            for group, names in groups.items()
            for name, ours in spelled(names).items()
        }

    def has(self, name: str) -> bool:
        """Whether the module has a name, or there is a module of that name below it."""
        return name in self.homes or name in self.children

    def find(self, name: str) -> Any:
        """The object of one of the names; raises KeyError for others."""
        if name not in self.homes:
            if name in self.children:
                # Who imported the package while it stood for PyTorch may use it later, too.
                with import_module("lazyt.compat.torch_alias").standing_in():
                    return import_module(f"{self.full}.{name}")
            raise KeyError(name)
        group, ours = self.homes[name]
        if isinstance(group, Refused) and not group.place:
            return refused(f"{self.full}.{name}", group.reason)
        module = import_module(group.place)
        return module if ours == "*" else getattr(module, ours)


def refused(full: str, reason: str) -> Any:
    """What stands for a name that lazyt does not have: a class where the name looks like one's.

    Calling it raises UnsupportedNameError with the reason. Classes may be subclassed, subscripted
    and tested with ``isinstance``; those of errors are never raised.
    """
    module, _, name = full.rpartition(".")
    text = f"{full} cannot be used: {reason}"

    def refuse(*args: Any, **kwargs: Any) -> NoReturn:
        raise UnsupportedNameError(text)

    word = name.lstrip("_")
    names = {"__module__": module, "__doc__": text, "__qualname__": name}
    if name.endswith(("Error", "Exception", "Exit")):
        return type(name, (RuntimeError,), {**names, "__doc__": f"Never raised: {reason}"})
    if word[:1].isupper() and not word.isupper():
        members = {**names, "__new__": refuse, "__class_getitem__": classmethod(lambda cls, _: cls)}
        return type(name, (), members)
    refuse.__name__ = refuse.__qualname__ = name
    refuse.__module__, refuse.__doc__ = module, text
    return refuse


class _WithNamesakes(ModuleType):
    """A module below which there are modules that are called as functions of its own: importing
    them does not hide the functions, which PyTorch's package imports last."""

    def __setattr__(self, name: str, value: Any) -> None:
        if not isinstance(value, ModuleType) or name not in vars(self)["__all__"]:
            super().__setattr__(name, value)


def make_module(names: Names, kind: type[ModuleType] = ModuleType) -> ModuleType:
    """A module with the names of the table."""
    if names.children & names.homes.keys():
        kind = type(kind.__name__, (_WithNamesakes, kind), {})
    made = kind(names.full, f"PyTorch's names of ``{names.full}``, as lazyt has them.")
    vars(made).update(
        __path__=[],  # modules may be below it
        __all__=[name for name in names.homes if not name.startswith("_")],
        __getattr__=_finder(names, made, None),
        __dir__=lambda: sorted({*vars(made), *names.homes, *names.children}),
    )
    return made


def extend(module: ModuleType, names: Names) -> None:
    """Let a module of lazyt, which is one of PyTorch's, too, have the names of the table besides
    its own, until ``restore``."""
    if not names.homes and not names.children:
        return
    held = vars(module)
    extension = _Extension(module, held.get("__getattr__"), set())
    held["__getattr__"] = _finder(names, module, extension)
    _extensions.append(extension)


def restore() -> None:
    """End every ``extend``."""
    while _extensions:
        ended = _extensions.pop()
        held = vars(ended.module)
        for name in ended.given:
            held.pop(name, None)
        if ended.before is None:
            del held["__getattr__"]
        else:
            held["__getattr__"] = ended.before


class _Extension(NamedTuple):
    """A module of lazyt that has names of the table.

    Attributes:
        module: the module.
        before: what it did for names that it does not have.
        given: the names that it has been given.
    """

    module: ModuleType
    before: Callable[[str], Any] | None
    given: set[str]


#: In the order in which they were made.
_extensions: list[_Extension] = []


def _finder(names: Names, module: ModuleType, extension: _Extension | None) -> Callable[[str], Any]:
    """The ``__getattr__`` of a module."""

    def missing(name: str) -> Any:
        if names.has(name):
            found = names.find(name)
            vars(module)[name] = found
            if extension is not None:
                extension.given.add(name)
            return found
        if extension is not None and extension.before is not None:
            return extension.before(name)
        why = module_reason(names.full.removeprefix(_PACKAGE + "."))
        raise AbsentName(f"module '{names.full}'", name, lambda: names.homes, why)

    return missing
