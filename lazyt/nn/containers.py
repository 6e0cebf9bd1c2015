"""Modules that hold other modules or parameters."""

from __future__ import annotations

import operator
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from lazyt.nn.module import Module
from lazyt.nn.module_text import list_text
from lazyt.nn.parameter import Parameter
from lazyt.tensor import Tensor


class _Numbered(Module):
    """Children under the names ``"0"``, ``"1"``, ..."""

    def _key(self, index: int) -> str:
        count = len(self._modules)
        place = operator.index(index)
        if not -count <= place < count:
            raise IndexError(f"index {place} is out of range")
        return list(self._modules)[place]

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
            del self._modules[name]
        self._renumber(list(self._modules.values()))

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._modules.values())

    def append(self, module: Module) -> Any:
        """Add a module at the end; returns the container."""
        self.add_module(str(len(self)), module)
        return self

    def insert(self, index: int, module: Module) -> Any:
        """Add a module before position ``index``; returns the container for Sequential."""
        children = list(self._modules.values())
        children.insert(index, module)
        self._renumber(children)
        return self

    def extend(self, modules: Iterable[Module]) -> Any:
        """Add modules at the end; returns the container. Raises TypeError for no iterable."""
        if not isinstance(modules, Iterable):
            raise TypeError(
                f"{type(self).__name__}.extend should be called with an iterable, but got "
                f"{type(modules).__name__}"
            )
        for module in list(modules):
            self.append(module)
        return self

    def pop(self, index: Any = -1) -> Any:
        """Take a module out and return it."""
        found = self[index]
        del self[index]
        return found


class Sequential(_Numbered):
    """Modules one after the other: ``Sequential(a, b)(x)`` is ``b(a(x))``.

    Takes modules, or one OrderedDict of them that gives their names.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__()
        if len(args) == 1 and isinstance(args[0], Mapping):
            items = list(args[0].items())
        else:
            items = [(str(i), module) for i, module in enumerate(args)]
        for name, module in items:
            self.add_module(name, module)

    def _part(self, items: list[tuple[str, Any]]) -> Sequential:
        return type(self)(OrderedDict(items))

    def __add__(self, other: Sequential) -> Sequential:
        return Sequential(*self, *other)

    def __delitem__(self, index: Any) -> None:
        names = list(self._modules)[index] if isinstance(index, slice) else [self._key(index)]
        for name in names:
            del self._modules[name]
        if all(name.isdecimal() for name in self._modules):
            self._renumber(list(self._modules.values()))

    def forward(self, input: Any) -> Any:
        """``input`` through every module in turn."""
        for module in self._modules.values():
            input = module(input)  # type: ignore[misc]
        return input


class ModuleList(_Numbered):
    """A list of modules. It cannot be called: loop over it."""

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.extend(modules)

    def _part(self, items: list[tuple[str, Any]]) -> ModuleList:
        return type(self)(module for _, module in items)

    def __iadd__(self, modules: Iterable[Module]) -> ModuleList:
        self.extend(modules)
        return self

    def __add__(self, other: Iterable[Module]) -> ModuleList:
        return ModuleList([*self, *other])

    def __repr__(self) -> str:
        return list_text(self._get_name(), list(self))


class ModuleDict(Module):
    """Modules by name. It cannot be called."""

    def __init__(self, modules: Mapping[str, Module] | Iterable[Any] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.update(modules)

    def update(self, modules: Mapping[str, Module] | Iterable[Any]) -> None:
        """Add modules of a mapping or of pairs; same names are replaced. Raises TypeError."""
        if not isinstance(modules, Mapping):
            modules = list(modules)
            for number, pair in enumerate(modules):
                if not isinstance(pair, Iterable):
                    raise TypeError(
                        f"ModuleDict update sequence element #{number} should be Iterable; is"
                        f"{type(pair).__name__}"
                    )
        for name, module in dict(modules).items():
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
        return self._modules.pop(key)

    def keys(self) -> Iterable[str]:
        """The names."""
        return self._modules.keys()

    def values(self) -> Iterable[Any]:
        """The modules."""
        return self._modules.values()

    def items(self) -> Iterable[tuple[str, Any]]:
        """Names and modules."""
        return self._modules.items()


def _as_parameter(value: Any) -> Any:
    if isinstance(value, Tensor) and not isinstance(value, Parameter):
        return Parameter(value)
    return value


class ParameterList(Module):
    """A list of parameters; tensors that are put in become parameters."""

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        for value in values or ():
            self.append(value)

    def append(self, value: Any) -> ParameterList:
        """Add a parameter at the end; returns the list."""
        self.register_parameter(str(len(self)), _as_parameter(value))
        return self

    def extend(self, values: Iterable[Any]) -> ParameterList:
        """Add parameters at the end; returns the list."""
        for value in list(values):
            self.append(value)
        return self

    def _key(self, index: int) -> str:
        count = len(self)
        if not -count <= index < count:
            raise IndexError(f"index {index} is out of range")
        return str(index % count)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return ParameterList(list(self)[index])
        return self._parameters[self._key(index)]

    def __setitem__(self, index: int, value: Any) -> None:
        self._parameters[self._key(index)] = _as_parameter(value)

    def __len__(self) -> int:
        return len(self._parameters)

    def __iter__(self) -> Iterator[Any]:
        return iter(list(self._parameters.values()))

    def extra_repr(self) -> str:
        """One line per parameter."""
        return _table_text(self._parameters.items(), lambda p: str(p.dtype))


class ParameterDict(Module):
    """Parameters by name; tensors that are put in become parameters."""

    def __init__(self, parameters: Mapping[str, Any] | Iterable[Any] | None = None) -> None:
        super().__init__()
        self.update(parameters or {})

    def update(self, parameters: Mapping[str, Any] | Iterable[Any]) -> None:
        """Add parameters of a mapping or of pairs; same names are replaced."""
        for name, value in dict(parameters).items():
            self[name] = value

    def __getitem__(self, key: str) -> Any:
        return self._parameters[key]

    def __setitem__(self, key: str, value: Any) -> None:
        self.register_parameter(key, _as_parameter(value))

    def __delitem__(self, key: str) -> None:
        del self._parameters[key]

    def __len__(self) -> int:
        return len(self._parameters)

    def __iter__(self) -> Iterator[str]:
        return iter(self._parameters)

    def __contains__(self, key: str) -> bool:
        return key in self._parameters

    def keys(self) -> Iterable[str]:
        """The names."""
        return self._parameters.keys()

    def values(self) -> Iterable[Any]:
        """The parameters."""
        return self._parameters.values()

    def items(self) -> Iterable[tuple[str, Any]]:
        """Names and parameters."""
        return self._parameters.items()

    def extra_repr(self) -> str:
        """One line per parameter."""
        return _table_text(self._parameters.items(), lambda p: p.type())


def _table_text(items: Iterable[tuple[str, Any]], kind: Any) -> str:
    lines = []
    for name, parameter in items:
        size = "x".join(str(n) for n in parameter.shape)
        lines.append(f"  ({name}): Parameter containing: [{kind(parameter)} of size {size}]")
    return "\n".join(lines)
