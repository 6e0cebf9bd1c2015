"""What a captured function leaves behind besides values of tensors: its result, put together of
new parts, and changes of Python's state and of the objects that it was given.

Everything that the function made is rebuilt at a replay: lists, dicts, objects, functions with
closures, iterators. What was there before stands for itself, and is changed in place as the
function changed it: a cache that was given is the caller's own object, with new tensors in it.
"""

from __future__ import annotations

import gc
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from lazyt.handle.pytree import (
    Flat,
    Making,
    Opening,
    Structure,
    attributes_of,
    build,
    is_unchanging,
    keys_of,
    parts_of,
    put_item,
    slots_of,
    structures,
)
from lazyt.handle.tensor import Tensor
from lazyt.tracing.guards import CannotWatch, Guards, is_sparse, same_keys
from lazyt.tracing.recompile_reasons import describe
from lazyt.tracing.sources import (
    MISSING,
    ElementSource,
    GradSource,
    Guarded,
    ItemSource,
    is_plain,
    look_up,
    same_plain,
    size_of,
)


class Change(NamedTuple):
    """Something in Python's state that a function changed.

    Attributes:
        sort: "place" for what one source gives; "list", "set", "dict" for containers with other
            elements; "attributes" for an object's dict with other keys; "argument" for a list, a
            dict or an object that was given.
        target: the source, the container, the dict; the number of what was given.
        values: what is there now.
        path: how a person would write it.
        known: of a place what it held before; the keys of a dict; attributes that are new and that
            are gone; the structure of what was given.
    """

    sort: str
    target: Any
    values: list[Any]
    path: str
    known: Any = None

    @property
    def is_simple(self) -> bool:
        """Whether a tensor, or None, was put into a place, and nothing else."""
        value = self.values[0] if self.values else MISSING
        dense = isinstance(value, Tensor) and not is_sparse(value)
        return self.sort == "place" and (value is None or dense)


def changes_of(guards: Guards, given: Sequence[Tensor]) -> list[Change]:
    """What the function changed: places that hold something else, containers that have other
    elements, objects that have other attributes.

    Raises CannotWatch for other changes.
    """
    moved = guards.check_iterators()
    if moved is not None:
        raise CannotWatch(moved)
    found = [*_changed_containers(guards)]
    rewritten = {id(change.target) for change in found if change.sort != "attributes"}
    guarded: list[tuple[Guarded, Any]] = [(place, place.tensor) for place in guards.tensors]
    guarded += [(note, note.value) for note in guards.notes]
    guarded += [
        (Guarded(path, ItemSource(table, key)), value) for table, key, value, path in guards.entries
    ]
    for place, old in guarded:
        source = place.source
        if id(getattr(source, "table", getattr(source, "items", None))) in rewritten:
            continue
        value = source.get(given)
        if value is not old and not same_plain(value, old):
            lost = value is MISSING and isinstance(source, (ElementSource, GradSource))
            if source.put is None or lost:
                raise CannotWatch(
                    f"it changes {place.path} from {describe(old)} to {describe(value)}, where "
                    "replays cannot put it"
                )
            found.append(Change("place", source, [value], place.path, old))
    known = {id(table) for table, *_ in (*guards.orders, *guards.attributes)}
    for sized, size, path in guards.sizes:
        if size_of(sized) != size and id(sized) not in known:
            raise CannotWatch(f"it changes the number of elements of {path}")
    for items, content, path in guards.arrays:
        if items.tobytes() != content:
            raise CannotWatch(f"it changes the values of the array {path}")
    for probe, told, path in guards.probes:
        now = probe()
        if now is not told and not same_plain(now, told):
            raise CannotWatch(f"it changes {path}")
    return found


def _changed_containers(guards: Guards) -> Iterator[Change]:
    for items, old, path in guards.lists:
        if len(items) != len(old) or any(
            a is not b and not isinstance(b, Tensor) and not same_plain(a, b)
            for a, b in zip(items, old)
        ):
            if not isinstance(items, (list, deque)):
                raise CannotWatch(f"it changes the elements of {path}")
            yield Change("list", items, [*items], path)
    for members, elements, path in guards.sets:
        if members != elements:
            if type(members) is not set:
                raise CannotWatch(f"it changes the elements of {path}")
            yield Change("set", members, [*members], path)
    for table, keys, path in guards.orders:
        if not same_keys(table, keys):
            now = keys_of(table)
            values = [look_up(table, key) for key in now]
            yield Change("dict", table, values, path, now)
    for table, keys, path in guards.attributes:
        if not same_keys(table, keys):
            if any(type(key) is not str for key in table):
                raise CannotWatch(f"it changes the attributes of {path}")
            added = tuple(key for key in table if key not in keys)
            gone = tuple(key for key in keys if key not in table)
            values = [table[key] for key in added]
            yield Change("attributes", table, values, path, (added, gone))


class Given:
    """In place of a list, a dict or an object among the arguments, by its number in ``Flat``."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number


class Young:
    """Tells which objects came into being in a block: those of the collector's first generation,
    which is emptied before.

    A collection in the block makes fewer of them known.
    """

    def __init__(self) -> None:
        self._known: dict[int, Any] = {}

    @staticmethod
    def begin() -> None:
        """Empties the first generation. What programs have the collector call is left alone: it may
        look at a clock, and is no part of any function."""
        callbacks, gc.callbacks[:] = gc.callbacks[:], []
        try:
            gc.collect(0)
        finally:
            gc.callbacks[:] = callbacks

    def end(self) -> None:
        """Takes note of what is there by now."""
        self._known = {id(item): item for item in gc.get_objects(0)}

    def has(self, value: Any) -> bool:
        """Whether an object is one of them."""
        return self._known.get(id(value), MISSING) is value

    def forget(self) -> None:
        """Lets go of all objects."""
        self._known = {}


class Holders:
    """The lists, dicts and objects among the arguments, and what was in them before.

    Args:
        flat: the flattened arguments.
    """

    def __init__(self, flat: Flat) -> None:
        self._opening = flat.opening
        self._numbers = {key: number for key, (number, _) in flat.holders.items()}
        self._before = [
            (value, *_contents(value, flat.opening)) for _, value in flat.holders.values()
        ]

    def number(self, value: Any) -> int:
        """Which of them an object is; -1 for others."""
        number = self._numbers.get(id(value), -1)
        return number if number >= 0 and self._before[number][0] is value else -1

    def changes(self) -> Iterator[Change]:
        """Which have something else in them now. Raises CannotWatch for changes that cannot be
        repeated."""
        for number, (holder, structure, parts) in enumerate(self._before):
            now, values = _contents(holder, self._opening)
            if now == structure and all(map(_is_same, values, parts)):
                continue
            if now.sort not in ("list", "dict", "deque", "object"):
                kind = "sparse tensor" if now.sort == "sparse" else now.sort
                raise CannotWatch(f"it changes a {kind} that is an argument")
            gone = tuple(n for n in structure.attributes if n not in now.attributes)
            yield Change("argument", number, values, "an argument", (now, gone))


def _is_same(a: Any, b: Any) -> bool:
    return a is b or same_plain(a, b)


def _contents(value: Any, opening: Opening | None) -> tuple[Structure, list[Any]]:
    """How a holder holds its parts, and these."""
    if type(value) is list:
        return Structure("list", list, (len(value),)), list(value)
    found = parts_of(value, opening)
    assert found is not None
    shape, parts = found
    if shape.sort == "sparse":  # which finds out more about its indices when that is needed
        known = dict(zip(shape.attributes, parts))
        known.pop("_rows", None)
        fixed = tuple([item for item in shape.fixed if item[0] not in ("_checked", "_rows")])
        return shape._replace(attributes=tuple(known), fixed=fixed), list(known.values())
    return found


class Outcome:
    """What a replay has to leave behind, given its parts.

    Attributes:
        shape: of the result and what is put into changed places.
        changes: what is changed, in order.
        leaves: the parts that were found, with ``Given`` for objects among the arguments.
        is_plain: whether there is only a result, made of new parts.

    Args:
        result: what the function returned.
        changes: of Python's state and of the arguments; those that are simple are the replay's.
        guards: what was there before.
        holders: what was given.
        young: what the function made.
    """

    def __init__(
        self, result: Any, changes: Sequence[Change], guards: Guards, holders: Holders, young: Young
    ) -> None:
        self.changes = [c._replace(values=[]) for c in changes if not c.is_simple]
        values = [c.values for c in changes if not c.is_simple]

        def is_old(value: Any) -> bool:
            return holders.number(value) >= 0 or guards.knows(value)

        making = Making(is_old, young.has)
        # The lists of values are made here: they are no part of what the function left.
        flat = Flat((result, *(tuple(v) for v in values)), None, making)
        self.shape = flat.shape
        self.leaves = [
            value if (number := holders.number(value)) < 0 else Given(number)
            for value in flat.leaves
        ]
        self.is_plain = not self.changes and not any(isinstance(v, Given) for v in self.leaves)
        if not self.changes:
            (self.shape,) = flat.shape[1]

    def forget(self) -> None:
        """Lets go of what was found: the replay has it."""
        self.leaves = []

    def trouble(self, parts: Iterable[Any], guards: Guards) -> str | None:
        """Why a replay could not put it together of these parts; None where it can."""
        for part in parts:
            if isinstance(part, (Tensor, Given)) or is_plain(part) or guards.knows(part):
                continue
            if not is_unchanging(part) and part is not MISSING:
                kind = type(part)
                return (
                    "it returns, or keeps, an object that is neither tensor nor number nor text, "
                    f"and that cannot be made again ({kind.__module__}.{kind.__qualname__})"
                )
        return None

    def finish(self, parts: Iterable[Any], holders: Callable[[], Sequence[Any]]) -> Any:
        """Changes what is to be changed; returns the result.

        Args:
            parts: its leaves.
            holders: gives the lists, dicts and objects among the arguments, in order.
        """
        if self.is_plain:
            return build(self.shape, iter(parts))
        given = holders()
        found = [given[p.number] if type(p) is Given else p for p in parts]
        made = build(self.shape, iter(found))
        if not self.changes:
            return made
        result, *values = made
        for change, now in zip(self.changes, values, strict=True):
            _apply(change, now, given)
        return result

    @property
    def needs_objects(self) -> bool:
        """Whether it takes more than containers of Python's own to put it together."""
        return not self.is_plain or any(structures(self.shape))


def _apply(change: Change, values: Sequence[Any], given: Sequence[Any]) -> None:
    """Makes a change once more."""
    target = change.target
    if change.sort == "place":
        target.put((), values[0])
    elif change.sort == "list":
        _put_elements(target, values)
    elif change.sort == "set":
        target.clear()
        target.update(values)
    elif change.sort == "dict":
        _put_items(target, change.known, values)
    elif change.sort == "attributes":
        added, gone = change.known
        for name in gone:
            target.pop(name, None)
        target.update(zip(added, values))
    else:
        structure, gone = change.known
        _put_parts(given[target], structure, gone, values)


def _put_elements(target: Any, values: Sequence[Any]) -> None:
    if isinstance(target, deque):
        deque.clear(target)
        deque.extend(target, values)
    else:
        list.__setitem__(target, slice(None), values)


def _put_items(target: Any, keys: Sequence[Any], values: Sequence[Any]) -> None:
    if list(map(id, keys_of(target))) != list(map(id, keys)):
        (OrderedDict if isinstance(target, OrderedDict) else dict).clear(target)
    for key, value in zip(keys, values, strict=True):
        put_item(target, key, value)


def _put_parts(
    holder: Any, structure: Structure, gone: Sequence[str], values: Sequence[Any]
) -> None:
    count = len(values) - len(structure.attributes)
    if structure.sort in ("list", "deque"):
        _put_elements(holder, values[:count])
    elif structure.sort == "dict":
        _put_items(holder, structure.keys, values[:count])
    kind: Any = type(holder)
    slots = slots_of(kind)
    for name in gone:
        if name in slots:
            slots[name].__delete__(holder)
        else:
            del holder.__dict__[name]
    for name, value in zip(structure.attributes, values[count:]):
        if name in slots:
            slots[name].__set__(holder, value)
        else:
            holder.__dict__[name] = value


def open_changed(leaves: Iterable[Any], changes: Iterable[Change], opening: Opening) -> bool:
    """Opens the kinds of objects among the arguments that a function changes, and of what is in
    them, so that the next ones are told apart by what is in them; whether any is new."""
    targets = {id(getattr(c.target, "table", c.target)) for c in changes if c.sort != "argument"}
    opened = False
    for leaf in leaves:
        met = _inside(leaf)
        if any(id(table) in targets for _, table in met):
            for value, _ in met:
                opened |= opening.open(value)
    return opened


def _inside(value: Any) -> list[tuple[Any, Any]]:
    """An object, the containers and the objects in it, each with what holds its parts."""
    found: list[tuple[Any, Any]] = []
    seen: set[int] = set()
    stack = [value]
    while stack and len(found) < 4096:
        item = stack.pop()
        if id(item) in seen or is_plain(item) or isinstance(item, (Tensor, type)):
            continue
        seen.add(id(item))
        if isinstance(item, dict):
            found.append((item, item))
            stack += [dict.__getitem__(item, key) for key in keys_of(item)]
        elif isinstance(item, (list, tuple, deque)):
            found.append((item, item))
            stack += [*item]
        elif getattr(item, "__dict__", None) is not None and not callable(item):
            found.append((item, item.__dict__))
            stack += attributes_of(item).values()
    return found
