"""Modules that hold other modules."""

from __future__ import annotations

import operator
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from lazyt.errors import LazytError
from lazyt.handle.tensor import Tensor
from lazyt.nn.module import Module, list_text
from lazyt.nn.parameter import Parameter


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


# Lists and dicts of parameters. What is no tensor is kept too, but is no parameter.


def _as_parameter(value: Any) -> Any:
    if isinstance(value, Tensor) and not isinstance(value, Parameter):
        return Parameter(value)
    return value


class ParameterList(Module):
    """A list of parameters; tensors that are put in become parameters."""

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        self._size = 0
        if values is not None:
            self += values

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise LazytError("ParameterList should not be called.")

    def append(self, value: Any) -> ParameterList:
        """Add a parameter at the end; returns the list."""
        place = len(self)
        self._size += 1
        self[place] = value
        return self

    def extend(self, values: Iterable[Any]) -> ParameterList:
        """Add parameters at the end; returns the list. Raises TypeError for no iterable."""
        if not isinstance(values, Iterable) or isinstance(values, Tensor):
            raise TypeError(
                "ParameterList.extend should be called with an iterable, but got "
                f"{type(values).__name__}"
            )
        for value in list(values):
            self.append(value)
        return self

    def _get_abs_string_index(self, idx: Any) -> str:
        count, place = len(self), operator.index(idx)
        if not -count <= place < count:
            raise IndexError(f"index {place} is out of range")
        return str(place % count)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return type(self)(list(self)[index])
        return getattr(self, self._get_abs_string_index(index))

    def __setitem__(self, index: int, value: Any) -> None:
        setattr(self, self._get_abs_string_index(index), _as_parameter(value))

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Any]:
        return iter([self[number] for number in range(len(self))])

    def __iadd__(self, values: Iterable[Any]) -> ParameterList:
        return self.extend(values)

    def extra_repr(self) -> str:
        """One line per value."""
        return _table_text(enumerate(self), lambda p: p.dtype)


class ParameterDict(Module):
    """Parameters by name; tensors that are put in become parameters."""

    def __init__(self, parameters: Any = None) -> None:
        super().__init__()
        self._keys: dict[str, None] = {}
        if parameters is not None:
            self.update(parameters)

    def __call__(self, input: Any) -> Any:
        raise LazytError("ParameterDict should not be called.")

    def update(self, parameters: Any) -> None:
        """Add parameters of a mapping (in the order of names, unless it is an OrderedDict) or of
        pairs; same names are replaced. Raises TypeError and ValueError for anything else."""
        pairs = checked_pairs(parameters, "ParameterDict")
        if isinstance(parameters, Mapping) and not isinstance(parameters, OrderedDict):
            pairs.sort(key=lambda pair: pair[0])
        for name, value in pairs:
            self[name] = value

    def _key_to_attr(self, key: str) -> str:
        """The name of the attribute for a key. Raises TypeError for what is no string."""
        return _checked_key(key)

    def __getitem__(self, key: str) -> Any:
        return getattr(self, self._key_to_attr(key))

    def __setitem__(self, key: str, value: Any) -> None:
        setattr(self, self._key_to_attr(key), _as_parameter(value))
        self._keys[key] = None

    def __delitem__(self, key: str) -> None:
        del self._keys[key]
        delattr(self, self._key_to_attr(key))

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __reversed__(self) -> Iterator[str]:
        return reversed(self._keys)

    def __contains__(self, key: str) -> bool:
        return key in self._keys

    def copy(self) -> ParameterDict:
        """Another dict of the same parameters."""
        return ParameterDict(OrderedDict(self.items()))

    def setdefault(self, key: str, default: Any = None) -> Any:
        """The value of this name, which becomes ``default`` if there is none."""
        if key not in self:
            self[key] = default
        return self[key]

    def clear(self) -> None:
        """Take all values out."""
        for key in list(self._keys):
            del self[key]

    def pop(self, key: str) -> Any:
        """Take a value out and return it. Raises AttributeError."""
        found = self[key]
        del self[key]
        return found

    def popitem(self) -> tuple[str, Any]:
        """Take the last value out; returns name and value. Raises KeyError."""
        key, _ = self._keys.popitem()
        self._keys[key] = None
        return key, self.pop(key)

    def get(self, key: str, default: Any = None) -> Any:
        """The value of this name, or ``default``."""
        return self[key] if key in self else default  # noqa: SIM401  # this is ``get``

    def fromkeys(self, keys: Iterable[str], default: Any = None) -> ParameterDict:
        """A dict with one value under all these names."""
        return ParameterDict([(key, default) for key in keys])

    def keys(self) -> Iterable[str]:
        """The names."""
        return self._keys.keys()

    def values(self) -> Iterable[Any]:
        """The values."""
        return (self[key] for key in self._keys)

    def items(self) -> Iterable[tuple[str, Any]]:
        """Names and values."""
        return ((key, self[key]) for key in self._keys)

    def __or__(self, other: Any) -> ParameterDict:
        joined = self.copy()
        joined.update(other)
        return joined

    def __ror__(self, other: Any) -> Any:
        joined = other.copy()
        joined.update(self)
        return joined

    def __ior__(self, other: Any) -> ParameterDict:
        self.update(other)
        return self

    def extra_repr(self) -> str:
        """One line per value."""
        return _table_text(self.items(), lambda p: p.type())


def _checked_key(key: object) -> str:
    if not isinstance(key, str):
        raise TypeError(
            "Index given to ParameterDict cannot be used as a key as it is not a string (type is "
            f"'{type(key).__name__}'). Open an issue on github if you need non-string keys."
        )
    return key


def _table_text(items: Iterable[tuple[Any, Any]], kind: Callable[[Any], Any]) -> str:
    lines = []
    for name, value in items:
        if isinstance(value, Tensor):
            title = "Parameter" if isinstance(value, Parameter) else "Tensor"
            size = "x".join(str(n) for n in value.shape)
            text = f"{title} containing: [{kind(value)} of size {size}]"
        else:
            text = f"Object of type: {type(value).__name__}"
        lines.append(f"  ({name}): {text}")
    return "\n".join(lines)
