"""Modules that hold other modules."""

from __future__ import annotations

import operator
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from lazyt.nn.module import Module
from lazyt.nn.module_text import list_text


class _Numbered(Module):
    """Children under the names ``"0"``, ``"1"``, ..."""

    def _place(self, index: Any) -> int:
        count = len(self)
        place = operator.index(index)
        if not -count <= place < count:
            raise IndexError(f"index {place} is out of range")
        return place % count

    def _key(self, index: Any) -> str:
        return list(self._modules)[self._place(index)]

    def _renumber(self, children: Iterable[Module | None]) -> None:
        self._modules = {str(i): child for i, child in enumerate(children)}

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return self._part(list(self._modules.items())[index])
        return self._modules[self._key(index)]

    def _part(self, items: list[tuple[str, Any]]) -> Module:
        """A container of the same kind for a slice."""
        return type(self)(*[module for _, module in items])

    def __setitem__(self, index: int, module: Module) -> None:
        setattr(self, self._key(index), module)

    def __delitem__(self, index: Any) -> None:
        names = list(self._modules)[index] if isinstance(index, slice) else [self._key(index)]
        for name in names:
            delattr(self, name)
        self._renumber(list(self._modules.values()))

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._modules.values())

    def append(self, module: Module) -> Any:
        """Add a module at the end; returns the container."""
        self.add_module(str(len(self)), module)
        return self

    def _insert(self, index: int, module: Module) -> None:
        children: list[Module | None] = list(self._modules.values())
        children.insert(index, module)
        self._renumber(children)

    def extend(self, modules: Iterable[Module]) -> Any:
        """Add modules at the end; returns the container."""
        for module in list(modules):
            self.append(module)
        return self

    def pop(self, key: Any) -> Any:
        """Take a module, or those of a slice, out and return it."""
        found = self[key]
        del self[key]
        return found


class Sequential(_Numbered):
    """Modules one after the other: ``Sequential(a, b)(x)`` is ``b(a(x))``.

    Takes modules, or one OrderedDict of them that gives their names.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__()
        named = len(args) == 1 and isinstance(args[0], OrderedDict)
        items = args[0].items() if named else ((str(i), m) for i, m in enumerate(args))
        for name, module in items:
            self.add_module(name, module)

    def _part(self, items: list[tuple[str, Any]]) -> Sequential:
        return type(self)(OrderedDict(items))

    def insert(self, index: int, module: Module) -> Sequential:
        """Add a module before position ``index``; returns the container.

        Raises AssertionError for what is no module, IndexError.
        """
        if not isinstance(module, Module):
            raise AssertionError(f"module should be of type: {Module}")
        count = len(self)
        if not -count <= index <= count:
            raise IndexError(f"Index out of range: {index}")
        self._insert(index, module)
        return self

    def _check_other(self, other: object) -> None:
        if not isinstance(other, Sequential):
            raise ValueError(
                f"add operator supports only objects of Sequential class, but {type(other)} is "
                "given."
            )

    def __add__(self, other: Sequential) -> Sequential:
        self._check_other(other)
        return Sequential(*self, *other)

    def __iadd__(self, other: Sequential) -> Sequential:
        self._check_other(other)
        self.extend(other)
        return self

    def _check_factor(self, other: object) -> None:
        if not isinstance(other, int):
            raise TypeError(f"unsupported operand type(s) for *: {type(self)} and {type(other)}")
        if other <= 0:
            raise ValueError(f"Non-positive multiplication factor {other} for {type(self)}")

    def __mul__(self, other: int) -> Sequential:
        self._check_factor(other)
        return Sequential(*[*self] * other)

    __rmul__ = __mul__

    def __imul__(self, other: int) -> Sequential:
        self._check_factor(other)
        self.extend([*self] * (other - 1))
        return self

    def forward(self, input: Any) -> Any:
        """``input`` through every module in turn."""
        for module in self:
            input = module(input)
        return input


class ModuleList(_Numbered):
    """A list of modules. It cannot be called: loop over it."""

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self += modules

    def _get_abs_string_index(self, idx: Any) -> str:
        return str(self._place(idx))

    def _key(self, index: Any) -> str:
        return self._get_abs_string_index(index)

    def _part(self, items: list[tuple[str, Any]]) -> ModuleList:
        return type(self)([module for _, module in items])

    def insert(self, index: int, module: Module) -> None:
        """Add a module before position ``index``."""
        self._insert(index, module)

    def extend(self, modules: Iterable[Module]) -> Any:
        """Add modules at the end; returns the list. Raises TypeError for no iterable."""
        if not isinstance(modules, Iterable):
            raise TypeError(
                "ModuleList.extend should be called with an iterable, but got "
                f"{type(modules).__name__}"
            )
        first = len(self)
        for number, module in enumerate(list(modules)):
            self.add_module(str(first + number), module)
        return self

    def __iadd__(self, modules: Iterable[Module]) -> Any:
        return self.extend(modules)

    def __add__(self, other: Iterable[Module]) -> ModuleList:
        return ModuleList([*self, *other])

    def __repr__(self) -> str:
        return list_text(self._get_name(), list(self))


def checked_pairs(given: Any, title: str) -> list[tuple[str, Any]]:
    """Names and values of a mapping or of pairs. Raises TypeError, ValueError."""
    if not isinstance(given, Iterable):
        kind = "ParametersDict" if title == "ParameterDict" else title
        raise TypeError(
            f"{kind}.update should be called with an iterable of key/value pairs, but got "
            f"{type(given).__name__}"
        )
    if isinstance(given, Mapping) or hasattr(given, "items"):
        return list(given.items())
    found = []
    for number, pair in enumerate(given):
        if not isinstance(pair, Iterable):
            raise TypeError(
                f"{title} update sequence element #{number} should be Iterable; is"
                f"{type(pair).__name__}"
            )
        parts = list(pair)
        if len(parts) != 2:
            raise ValueError(
                f"{title} update sequence element #{number} has length {len(parts)}; 2 is required"
            )
        found.append((parts[0], parts[1]))
    return found


class ModuleDict(Module):
    """Modules by name. It cannot be called."""

    def __init__(self, modules: Mapping[str, Module] | Iterable[Any] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.update(modules)

    def update(self, modules: Mapping[str, Module] | Iterable[Any]) -> None:
        """Add modules of a mapping or of pairs; same names are replaced.

        Raises TypeError and ValueError for anything else.
        """
        for name, module in checked_pairs(modules, "ModuleDict"):
            self[name] = module

    def __getitem__(self, key: str) -> Any:
        return self._modules[key]

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        del self._modules[key]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, key: str) -> bool:
        return key in self._modules

    def clear(self) -> None:
        """Take all modules out."""
        self._modules.clear()

    def pop(self, key: str) -> Any:
        """Take a module out and return it. Raises KeyError."""
        found = self[key]
        del self[key]
        return found

    def keys(self) -> Iterable[str]:
        """The names."""
        return self._modules.keys()

    def values(self) -> Iterable[Any]:
        """The modules."""
        return self._modules.values()

    def items(self) -> Iterable[tuple[str, Any]]:
        """Names and modules."""
        return self._modules.items()
