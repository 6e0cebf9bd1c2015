"""Guards as conditions in Python's text, for generated functions.

What lies in dicts need not be looked at while the dicts keep their tags (``runtime.dict_tags``);
everything else becomes one comparison of identities each, and of values where those differ.
"""

from __future__ import annotations

import gc
import types
from collections import OrderedDict, defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from lazyt.guards import Guards, same_keys
from lazyt.places import (
    MISSING,
    Bind,
    GradOf,
    InAttribute,
    InTable,
    Note,
    TensorPlace,
    Where,
    is_plain,
    look_up,
    same_plain,
    size_of,
)
from lazyt.tape import AccumulateGrad
from lazyt.tensor import Tensor

_DICTS = (dict, defaultdict, OrderedDict)


class CannotWrite(Exception):
    """There is no text for a guard."""


class Names:
    """Objects of a generated function, by the names that stand for them in its text.

    Attributes:
        table: the function's globals.
    """

    def __init__(self) -> None:
        self.table: dict[str, Any] = {}
        self._known: dict[int, str] = {}

    def bind(self, value: Any) -> str:
        """The name of ``value``."""
        name = self._known.get(id(value))
        if name is None:
            name = self._known[id(value)] = f"k{len(self._known)}"
            self.table[name] = value
        return name


def dict_below(table: Any) -> dict[Any, Any] | None:
    """The dict whose tag tells of every change of ``table``, a dict or the attributes of a class;
    None where there is none, or where reading runs code."""
    if type(table) in _DICTS:
        found: dict[Any, Any] = table
        return found
    if isinstance(table, types.MappingProxyType):
        (below,) = gc.get_referents(table)
        return below if type(below) is dict else None
    return None


def _tables(guards: Guards) -> Iterator[Any]:
    for table, *_ in guards.entries:
        yield table
    for place in (*guards.notes, *guards.tensors):
        if isinstance(place.where, InTable):
            yield place.where.table
    for sized, *_ in guards.sizes:
        yield sized
    for keyed, *_ in guards.orders:
        yield keyed


def tagged_dicts(guards: Guards, polled: set[int]) -> dict[int, dict[Any, Any]]:
    """The dicts that hold what is guarded, by identity, but for those in ``polled``."""
    found: dict[int, dict[Any, Any]] = {}
    for table in _tables(guards):
        below = dict_below(table)
        if below is not None and id(below) not in polled:
            found[id(below)] = below
    return found


def conditions(guards: Guards, bind: Bind, tagged: Mapping[int, Any]) -> list[str]:
    """Expressions that are all true, or raise, only if what was noted still holds; tensors and the
    dicts in ``tagged`` are left to the caller.

    Raises CannotWrite.
    """

    def covered(table: Any) -> bool:
        below = dict_below(table)
        return below is not None and id(below) in tagged

    out: list[str] = []
    for table, key, value, _ in guards.entries:
        if not covered(table):
            out.append(_held(bind, f"{bind(table)}[{bind(key)}]", value, (table, key)))
    for note in guards.notes:
        if not (isinstance(note.where, InTable) and covered(note.where.table)):
            out.append(_noted(bind, note))
    for sized, size, _ in guards.sizes:
        if not covered(sized):
            out.append(f"{_size(bind, sized)} == {size}")
    for keyed, keys, _ in guards.orders:
        # No tag of the dict below tells of the order that an OrderedDict keeps beside it.
        if isinstance(keyed, OrderedDict) or not covered(keyed):
            out.append(f"{bind(same_keys)}({bind(keyed)}, {bind(keys)})")
    for members, elements, _ in guards.sets:
        out.append(f"{bind(members)} == {bind(elements)}")
    for items, old, _ in guards.lists:
        out.append(f"{_size(bind, items)} == {len(old)}")
        for number, value in enumerate(old):
            if not isinstance(value, Tensor):
                out.append(_same(bind, f"{bind(items)}[{number}]", value))
    for array, content, _ in guards.arrays:
        out.append(f"{bind(array)}.tobytes() == {bind(content)}")
    for probe, told, _ in guards.probes:
        out.append(_same(bind, f"{bind(probe)}()", told))
    return list(dict.fromkeys(out))


def tensor_condition(place: TensorPlace, tensor: Tensor, bind: Bind, tagged: Any) -> str | None:
    """That ``place`` holds ``tensor``; None where the tags say so."""
    where = place.where
    if isinstance(where, InTable):
        below = dict_below(where.table)
        if below is not None and id(below) in tagged:
            return None
    text = where.text(bind)
    if text is None:
        raise CannotWrite(place.path)
    return f"{text} is {bind(tensor)}"


def _size(bind: Bind, items: Any) -> str:
    plain = type(items) in (*_DICTS, list, tuple, set)
    return f"{'len' if plain else bind(size_of)}({bind(items)})"


def _held(bind: Bind, text: str, value: Any, place: tuple[Any, Any]) -> str:
    table, key = place
    if type(table) is not dict:  # whose class may make something else of ``table[key]``
        return f"{bind(look_up)}({bind(table)}, {bind(key)}) is {bind(value)}"
    return f"{bind(key)} not in {bind(table)}" if value is MISSING else f"{text} is {bind(value)}"


def _noted(bind: Bind, note: Note) -> str:
    where, value = note.where, note.value
    if isinstance(where, GradOf):
        return f"{bind(leaf_of_grad(where))}.grad is {bind(value)}"
    if value is MISSING:
        if isinstance(where, InTable):
            return f"{bind(look_up)}({bind(where.table)}, {bind(where.key)}) is {bind(MISSING)}"
        if isinstance(where, InAttribute):
            return f"not hasattr({bind(where.owner)}, {where.name!r})"
        return f"{bind(where)}.get(()) is {bind(MISSING)}"
    text = where.text(bind)
    if text is None:
        raise CannotWrite(note.path)
    return _same(bind, text, value)


def _same(bind: Bind, text: str, value: Any) -> str:
    if value is None or not is_plain(value):
        return f"{text} is {bind(value)}"
    return f"({text} is {bind(value)} or {bind(same_plain)}({text}, {bind(value)}))"


def leaf_of_grad(where: Where) -> AccumulateGrad:
    """The leaf whose gradient a place is. Raises CannotWrite where it differs from call to call."""
    assert isinstance(where, GradOf)
    leaf = where.leaf
    if isinstance(leaf, GradOf) or leaf.text(Names().bind) is None:
        raise CannotWrite("the gradient of an argument")
    fn = getattr(leaf.get(()), "_fn", None)
    if not isinstance(fn, AccumulateGrad):
        raise CannotWrite("the gradient of what is no leaf any more")
    return fn
