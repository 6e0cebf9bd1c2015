"""Lists and dicts of parameters. What is no tensor is kept too, but is no parameter."""

from __future__ import annotations

import operator
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from lazyt.errors import LazytError
from lazyt.nn.containers import checked_pairs
from lazyt.nn.module import Module
from lazyt.nn.parameter import Parameter
from lazyt.tensor import Tensor


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
