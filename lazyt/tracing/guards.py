"""Guards: what a captured function read from Python, and whether it is still so.

Which state a function can read is bounded from above: by the names that the code mentions which
it ran. Everything those names can reach (globals, closures, arguments, attributes, elements of
lists and dicts, step by step) is noted with its value before the capture. Before a replay each
note is compared: numbers and texts by value, functions, modules and containers by identity,
tensors by what they look like. Notes that differ after the capture are effects of the function.
"""

from __future__ import annotations

import contextvars
import functools
import gc
import io
import operator
import os
import types
import weakref
from array import array
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from lazyt.functional.overriding import switch
from lazyt.handle.pytree import OpenFunction, has_other_code, keys_of
from lazyt.handle.tape import AccumulateGrad
from lazyt.handle.tensor import Tensor
from lazyt.runtime.cpython import dict_tags
from lazyt.tracing.frames import global_names, reads_all
from lazyt.tracing.recompile_reasons import describe, differs
from lazyt.tracing.sources import (
    MISSING,
    ArgumentSource,
    AttributeSource,
    Bind,
    CellSource,
    ConstantSource,
    ElementSource,
    Given,
    GradSource,
    GuardedTensor,
    GuardedValue,
    ItemSource,
    Source,
    is_plain,
    look_up,
    same_plain,
    size_of,
)

#: In place of a key: the number of elements is what counts, or which elements a list has, or that
#: a table finds things by its keys, which have to be the very same tensors.
SIZE, ELEMENTS, KEYS = object(), object(), object()
#: Arrays up to this size are compared by content before every replay.
_ARRAY_BYTES = 1 << 20
_LIMIT = 200_000
#: Modules of classes whose objects hold what others put there, and read it by code that is not
#: noted; packages whose objects keep to themselves what they hold.
_HOLDERS = frozenset({"argparse", "collections", "types"})
_SILENT = frozenset({"lazyt", "numpy"})
_ITERATORS = frozenset({"builtins", "itertools"})
_CONTAINERS = (dict, list, tuple, deque, set, frozenset)


class Itself(NamedTuple):
    """In place of a key: which object is there counts, but not what is in it."""

    key: Any


def same_keys(table: dict[Any, Any], keys: tuple[Any, ...]) -> bool:
    """Whether a dict has just these keys, in this order."""
    now = keys_of(table)
    if len(now) != len(keys):
        return False
    return all(map(operator.is_, now, keys)) or all(map(_same_key, now, keys))


def _same_key(a: Any, b: Any) -> bool:
    return a is b or same_plain(a, b)


def _is_special(name: str, value: Any) -> bool:
    """Whether Python calls a method of this name by itself."""
    return name[:2] == "__" == name[-2:] and isinstance(value, (types.FunctionType, classmethod))


def progress_of(iterator: Iterator[Any]) -> Any:
    """What differs once an element of an iterator of Python's own was taken."""
    found: list[Any] = []
    stack: list[Any] = [iterator]
    while stack and len(found) < 16:
        item = stack.pop()
        if isinstance(item, types.GeneratorType):
            frame = item.gi_frame
            known = None if frame is None else (frame.f_lasti, {**frame.f_locals})
            found.append(known and (known[0], {n: v for n, v in known[1].items() if is_plain(v)}))
            stack += [v for v in (known or (0, {}))[1].values() if isinstance(v, Iterator)]
        else:
            shown = repr(item) if type(item).__module__ == "itertools" else ""
            found.append((operator.length_hint(item, -1), shown))
            parts = gc.get_referents(item)
            parts += [p for part in parts if isinstance(part, tuple) for p in part]
            stack += [part for part in parts if isinstance(part, Iterator)]
    return found


def _is_of_c(iterator: Iterator[Any]) -> bool:
    """Whether taking an element of an iterator runs no code of Python's that could be watched."""
    if isinstance(iterator, io.IOBase):
        return not iterator.closed and iterator.readable()
    return not isinstance(type(iterator).__next__, types.FunctionType)


def _has_values(table: dict[Any, Any], known: tuple[Any, ...]) -> bool:
    """Whether a cache of results has just these objects."""
    return len(table) == len(known) and all(map(operator.is_, table.values(), known))


#: Why functions that leave a sparse gradient, or return a sparse tensor that is not theirs, run as
#: always.
SPARSE = "is a sparse tensor, which is another one after every call"


def is_sparse(value: Any) -> bool:
    """Whether a value is a tensor without memory."""
    return isinstance(value, switch.sparse)


class CannotWatch(Exception):
    """The function reads something that cannot be watched; the text says what."""


class Guards:
    """All notes of one capture.

    Attributes:
        names: what the code mentions.
        mentioned: names that the user's own code mentions, which are compared though the library
            renews them by itself (learning rates, counts of steps).
        tensors: tensors that the state holds, in the order they were found.
        codes: code of all functions that were found.
        entries: dicts, keys, what they hold, and how a person would write it.
        notes: other values in the state, which are compared.
        arrays: NumPy arrays with their content.
        sizes: containers with the number of their elements.
        attributes: dicts of objects' attributes with their keys; until the capture is over.
        lists: lists with their elements.
        orders: dicts with their keys, in order.
        sets: sets with their elements.
        iterators: iterators with how far they are.
        streams: paths of iterators that do not tell how far they are.
        probes: what tells the state of other objects, with what it told.
    """

    def __init__(
        self, names: frozenset[str], is_ours: Callable[[Any], bool],
        mentioned: frozenset[str] = frozenset(),
    ) -> None:  # fmt: skip
        self.names = names
        self.mentioned = mentioned
        self.is_ours = is_ours
        self.tensors: list[GuardedTensor] = []
        self.codes: set[types.CodeType] = set()
        self.entries: list[tuple[Mapping[Any, Any], Any, Any, str]] = []
        self.notes: list[GuardedValue] = []
        self.arrays: list[tuple[np.ndarray[Any, Any], bytes, str]] = []
        self.sizes: list[tuple[Any, int, str]] = []
        self.attributes: list[tuple[dict[str, Any], tuple[Any, ...], str]] = []
        self.lists: list[tuple[Any, tuple[Any, ...], str]] = []
        self.orders: list[tuple[Any, tuple[Any, ...], str]] = []
        self.sets: list[tuple[Any, frozenset[Any], str]] = []
        self.iterators: list[tuple[Iterator[Any], Any, str]] = []
        self.streams: list[str] = []
        self.probes: list[tuple[Callable[[], Any], Any, str]] = []
        self._exact: set[int] = set()  # tensors that things are found by
        self._seen: dict[int, Any] = {}
        self._waiting: deque[tuple[Any, str]] = deque()

    # ------------------------------------------------------------------ finding

    def start(self, roots: Iterable[tuple[Any, str]]) -> None:
        """Notes everything that can be reached from ``roots``, pairs of value and its path.

        Raises CannotWatch where something cannot be compared later.
        """
        self._waiting.extend(roots)
        while self._waiting:
            if len(self._seen) > _LIMIT:
                raise CannotWatch(f"it can reach more than {_LIMIT} objects")
            value, path = self._waiting.popleft()
            self._visit(value, path)
        for place in self.tensors:
            if id(place.tensor) in self._exact:
                place.exact = place.tensor

    def note_globals(self, table: dict[str, Any], code: types.CodeType) -> None:
        """Notes the globals that ``code`` reads."""
        for name in global_names(code):
            if name in table:
                self._entry(table, name, name)

    def note_environment(self, names: Iterable[Any]) -> None:
        """Notes variables of the environment."""
        environment: Any = os.environ
        for name in names:
            try:
                key = environment.encodekey(name)
            except TypeError:  # no text: reading it raises an exception whatever there is
                continue
            self._hold(
                ItemSource(environment._data, key),
                look_up(environment._data, key),
                f"os.environ[{name!r}]",
            )

    def note_argument(self, number: int, tensor: Tensor) -> None:
        """Notes the gradient of the tensor that is argument ``number``."""
        self._seen[id(tensor)] = tensor
        self._note_grad(tensor, ArgumentSource(number), f"argument {number}")
        self._note_marks(tensor, f"argument {number}")

    def _note_marks(self, tensor: Tensor, path: str) -> None:
        """Goes on from the attributes that the user gave to a tensor, which are themselves part of
        what it looks like."""
        for name, value in tensor.__dict__.items():
            if name != "_grad" and not is_plain(value):
                self._waiting.append((value, f"{path}.{name}"))

    def _entry(self, table: Any, key: Any, path: str) -> None:
        """Notes ``table[key]``, of a dict or another mapping, and goes on from it."""
        value = look_up(table, key)
        dense = isinstance(value, Tensor) and not is_sparse(value)
        if isinstance(table, dict) and not dense and not is_plain(value):
            self.entries.append((table, key, value, path))
            if value is not MISSING:
                self._waiting.append((value, path))
        else:
            self._hold(ItemSource(table, key), value, path)

    def _hold(self, source: Source, value: Any, path: str) -> None:
        """Notes a place that is no entry of a dict, or holds a tensor, and goes on from it."""
        if is_sparse(value) and isinstance(source, GradSource):
            raise CannotWatch(f"{path} {SPARSE}")
        if isinstance(value, Tensor) and not is_sparse(value):
            self.tensors.append(GuardedTensor(path, source, value))
            if id(value) not in self._seen:
                self._seen[id(value)] = value
                self._note_grad(value, source, path)
                self._note_marks(value, path)
        else:
            self.notes.append(GuardedValue(path, source, value))
            if value is not MISSING:
                self._waiting.append((value, path))

    def _note_grad(self, tensor: Tensor, source: Source, path: str) -> None:
        fn = tensor._fn
        if isinstance(fn, AccumulateGrad):
            self._hold(GradSource(source), fn.grad, f"{path}.grad")

    def _visit(self, value: Any, path: str) -> None:
        if id(value) in self._seen or is_plain(value):
            return
        if is_sparse(value):
            self._seen[id(value)] = value
            for name in value.__dict__:
                if name != "layout":
                    self._entry(value.__dict__, name, f"{path}.{name}")
            return
        if not isinstance(value, Tensor):
            self._seen[id(value)] = value
        if isinstance(value, Tensor):
            self._hold(ConstantSource(value), value, path)
        elif isinstance(value, types.FunctionType):
            self._visit_function(value, path)
        elif isinstance(value, OpenFunction):
            self.codes.add(value.code)
            self.note_globals(value.table, value.code)
        elif isinstance(value, types.MethodType):
            self._waiting.extend([(value.__self__, path), (value.__func__, path)])
        elif isinstance(value, functools.partial):
            self._waiting.append((value.func, path))
            self._waiting.extend((v, path) for v in (*value.args, *value.keywords.values()))
        elif isinstance(value, (staticmethod, classmethod)):
            self._waiting.append((value.__func__, path))
        elif isinstance(value, property):
            self._waiting.extend((f, path) for f in (value.fget, value.fset) if f is not None)
        elif isinstance(value, np.ndarray):
            self._visit_array(value, path)
        elif isinstance(value, _CONTAINERS):
            self._visit_container(value, path)
        elif isinstance(value, types.MappingProxyType):
            for below in gc.get_referents(value):
                self._waiting.append((below, path))
        elif isinstance(value, weakref.ref):
            self._waiting.append((value(), path))
        elif isinstance(value, (bytearray, array)):
            self._probe(functools.partial(bytes, value), path)
        elif isinstance(value, contextvars.ContextVar):
            self._waiting.append((self._probe(functools.partial(value.get, None), path), path))
        elif isinstance(value, functools._lru_cache_wrapper):
            for table in gc.get_referents(value):
                if isinstance(table, dict) and table is not value.__dict__:
                    known = tuple(table.values())
                    self._probe(functools.partial(_has_values, table, known), path)
            self._waiting.append((value.__wrapped__, path))
        elif isinstance(value, Iterator) and type(value).__module__ in _ITERATORS:
            self.iterators.append((value, progress_of(value), path))
        elif isinstance(value, Iterator) and _is_of_c(value):
            self.streams.append(path)
        elif isinstance(value, types.ModuleType):
            if self.is_ours(value.__name__):
                for name in self.names & vars(value).keys():
                    self._entry(vars(value), name, f"{path}.{name}")
        elif isinstance(value, type):
            self._visit_class(value, path)
        elif isinstance(value, (np.random.Generator, np.random.RandomState)):
            raise CannotWatch(f"it can draw random numbers from {path}, which lazyt does not see")
        else:
            self._visit_object(value, path)

    def _probe(self, probe: Callable[[], Any], path: str) -> Any:
        """Notes what ``probe()`` gives, and gives it."""
        found = probe()
        self.probes.append((probe, found, path))
        return found

    def _visit_function(self, function: types.FunctionType, path: str) -> None:
        self.codes.add(function.__code__)
        if not self.is_ours(function.__module__ or ""):
            return
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
            source = CellSource(cell)
            self._seen[id(cell)] = cell
            self._hold(source, source.get(()), name)
        self.note_globals(function.__globals__, function.__code__)
        for name in ("__defaults__", "__kwdefaults__"):
            value = getattr(function, name)
            if value and (function.__module__ or "").partition(".")[0] == "lazyt":
                self._waiting.append((value, f"a default of {path}"))
            elif value:
                self._hold(AttributeSource(function, name), value, f"{path}.{name}")
        for name in function.__dict__.keys() & (self.names | {"__wrapped__"}):
            self._entry(function.__dict__, name, f"{path}.{name}")

    def _visit_array(self, items: np.ndarray[Any, Any], path: str) -> None:
        if items.dtype.kind == "O":
            raise CannotWatch(f"{path} is an array of objects")
        if items.nbytes > _ARRAY_BYTES:
            raise CannotWatch(
                f"{path} is a NumPy array of {items.nbytes} bytes, too large to compare on every "
                "call; pass it as an argument, or make it a tensor outside"
            )
        self.arrays.append((items, items.tobytes(), path))

    def _visit_container(self, value: Any, path: str) -> None:
        if isinstance(value, dict):
            self._visit_dict(value, path)
        elif isinstance(value, (set, frozenset)):
            if isinstance(value, set):
                self.sets.append((value, frozenset(value), path))
            self._exact.update(map(id, value))
            self._waiting.extend((v, path) for v in value)
        else:
            self._visit_sequence(value, path)
        if type(value) not in _CONTAINERS:  # a class of its own may have methods and attributes
            self._visit_object(value, path)

    def _visit_sequence(self, items: Any, path: str) -> None:
        if not isinstance(items, tuple):
            self.lists.append((items, tuple(items), path))
        for place, value in enumerate(items):
            inner = f"{path}[{place}]"
            if isinstance(value, Tensor):
                self._hold(ElementSource(items, place), value, inner)
            else:
                self._waiting.append((value, inner))

    def _visit_dict(self, table: dict[Any, Any], path: str) -> None:
        self.sizes.append((table, size_of(table), path))
        keys = keys_of(table)
        self.orders.append((table, keys, path))
        for key in keys:
            if not is_plain(key):
                self._exact.add(id(key))
                self._waiting.append((key, f"a key of {path}"))
            self._entry(table, key, f"{path}[{describe(key)}]")

    def _visit_class(self, kind: type, path: str) -> None:
        if not self.is_ours(kind.__module__):
            return
        for base in (*kind.__mro__, *type.mro(type(kind))):
            home = base.__module__  # of the classes of compiled modules it may be a descriptor
            if isinstance(home, str) and self.is_ours(home):
                own = vars(base)
                names = self.names & own.keys()
                if home.partition(".")[0] != "lazyt":
                    names |= {name for name in own if _is_special(name, own[name])}
                for name in sorted(names):
                    self._entry(own, name, f"{base.__name__}.{name}")

    def _visit_object(self, value: Any, path: str) -> None:
        kind = type(value)
        self._visit_class(kind, path)
        watched = getattr(kind, "_watched_state", None)
        if watched is not None:
            for table, key, name in watched(value):
                if key is SIZE:
                    self.sizes.append((table, len(table), f"{path}.{name}"))
                elif key is KEYS:
                    self._exact.update(map(id, table))
                elif key is ELEMENTS:
                    self.lists.append((table, tuple(table), f"{path}.{name}"))
                elif isinstance(key, Itself):
                    held = look_up(table, key.key)
                    self.entries.append((table, key.key, held, f"{path}.{name}"))
                else:
                    self._entry(table, key, f"{path}.{name}")
        unwatched: frozenset[str] = getattr(kind, "_unwatched", frozenset()) - self.mentioned
        table = getattr(value, "__dict__", None)
        home = kind.__module__
        is_known = watched is not None or home.partition(".")[0] not in _SILENT
        if isinstance(table, dict) and (self.is_ours(home) or is_known):
            self.sizes.append((table, len(table), f"the attributes of {path}"))
            self.attributes.append((table, tuple(table), path))
            everything = home in _HOLDERS or reads_all(self.names)
            if not everything and self.is_ours(home):
                everything = has_other_code(kind, self.is_ours)
            for name in list(table):
                if name not in unwatched and (everything or name in self.names):
                    self._entry(table, name, f"{path}.{name}")
        for base in kind.__mro__ if self.is_ours(kind.__module__) else ():
            slots = vars(base).get("__slots__", ())
            for name in (slots,) if isinstance(slots, str) else slots:
                if name in self.names and name not in ("__dict__", "__weakref__"):
                    source = AttributeSource(value, name)
                    self._hold(source, source.get(()), f"{path}.{name}")

    # ------------------------------------------------------------------ comparing

    def broken(self, given: Given) -> str | None:
        """What changed since the notes were taken, in words; None when nothing did.

        Tensors are compared by whoever uses them, see ``tensors``.
        """
        for note in self.notes:
            value = note.source.get(given)
            if value is not note.value and not same_plain(value, note.value):
                if value is MISSING and isinstance(note.source, GradSource):
                    holder = note.path.removesuffix(".grad")
                    return f"{holder} holds no leaf that requires gradients any more"
                return differs(note.path, value, note.value)
        return self._broken_containers()

    def _broken_containers(self) -> str | None:
        for table, key, value, path in self.entries:
            found = look_up(table, key)
            if found is not value:
                return differs(path, found, value)
        for sized, size, path in self.sizes:
            if size_of(sized) != size:
                return f"{path} has {size_of(sized)} elements, had {size}"
        for keyed, keys, path in self.orders:
            if not same_keys(keyed, keys):
                return f"{path} has other keys, or has them in another order"
        for members, elements, path in self.sets:
            if members != elements:
                return f"{path} has other elements"
        for listed, old, path in self.lists:
            if len(listed) != len(old):
                return f"{path} has {len(listed)} elements, had {len(old)}"
            for number, (a, b) in enumerate(zip(listed, old)):
                if a is not b and not isinstance(b, Tensor) and not same_plain(a, b):
                    return differs(f"{path}[{number}]", a, b)
        for items, content, path in self.arrays:
            if items.tobytes() != content:
                return f"the values of the array {path} have changed"
        for probe, told, path in self.probes:
            now = probe()
            if now is not told and not same_plain(now, told):
                return f"{path} holds something else"
        return None

    def check_iterators(self) -> str | None:
        """Which iterator the function has taken an element of, in words; None for none."""
        for iterator, progress, path in self.iterators:
            if progress_of(iterator) != progress:
                return f"it takes elements of {path}, an iterator"
        return None

    def renew_iterators(self) -> None:
        """Take note of how far iterators are: what Python does anew at every call moved them."""
        self.iterators = [(item, progress_of(item), path) for item, _, path in self.iterators]

    def replace(self, change: Callable[[Any], Any]) -> None:
        """Put ``change(value)`` in place of every value that is noted, where that is another."""
        for place in (*self.tensors, *self.notes):
            source = place.source
            if source.put is not None and not isinstance(source, GradSource):
                value = source.get(())
                if value is not MISSING and change(value) is not value:
                    source.put((), change(value))
        for items, *_ in self.lists:
            for number, value in enumerate(items):
                if change(value) is not value:
                    items[number] = change(value)
        for table, *_ in self.sizes:
            if isinstance(table, dict):
                for key, value in list(table.items()):
                    if change(value) is not value:
                        table[key] = change(value)

    def knows(self, value: Any) -> bool:
        """Whether an object was there before, and reached by what is noted."""
        return self._seen.get(id(value), MISSING) is value

    def let_go(self) -> None:
        """Forget the tensors that were noted: their sources are enough."""
        for place in self.tensors:
            place.tensor = None
        self.attributes.clear()
        self._seen.clear()
        self._exact.clear()


# Guards as conditions in Python's text, for generated functions.
#
# What lies in dicts need not be looked at while the dicts keep their tags (``runtime.dict_tags``);
# everything else becomes one comparison of identities each, and of values where those differ.


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
        if isinstance(place.source, ItemSource):
            yield place.source.table
    for sized, *_ in guards.sizes:
        yield sized
    for keyed, *_ in guards.orders:
        yield keyed


def tagged_dicts(guards: Guards, polled: set[int]) -> dict[int, dict[Any, Any]]:
    """The dicts that hold what is guarded, by identity, except those in ``polled``."""
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
        if not (isinstance(note.source, ItemSource) and covered(note.source.table)):
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
    for watched, content, _ in guards.arrays:
        out.append(f"{bind(watched)}.tobytes() == {bind(content)}")
    for probe, told, _ in guards.probes:
        out.append(_same(bind, f"{bind(probe)}()", told))
    return list(dict.fromkeys(out))


def tensor_condition(place: GuardedTensor, tensor: Tensor, bind: Bind, tagged: Any) -> str | None:
    """That ``place`` holds ``tensor``; None where the tags say so."""
    source = place.source
    if isinstance(source, ItemSource):
        below = dict_below(source.table)
        if below is not None and id(below) in tagged:
            return None
    text = source.text(bind)
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


def _noted(bind: Bind, note: GuardedValue) -> str:
    source, value = note.source, note.value
    if isinstance(source, GradSource):
        return f"{bind(leaf_of_grad(source))}.grad is {bind(value)}"
    if value is MISSING:
        if isinstance(source, ItemSource):
            return f"{bind(look_up)}({bind(source.table)}, {bind(source.key)}) is {bind(MISSING)}"
        if isinstance(source, AttributeSource):
            return f"not hasattr({bind(source.owner)}, {source.name!r})"
        return f"{bind(source)}.get(()) is {bind(MISSING)}"
    text = source.text(bind)
    if text is None:
        raise CannotWrite(note.path)
    return _same(bind, text, value)


def _same(bind: Bind, text: str, value: Any) -> str:
    if value is None or not is_plain(value):
        return f"{text} is {bind(value)}"
    return f"({text} is {bind(value)} or {bind(same_plain)}({text}, {bind(value)}))"


def leaf_of_grad(source: Source) -> AccumulateGrad:
    """The leaf whose gradient a place is. Raises CannotWrite where it differs from call to call."""
    assert isinstance(source, GradSource)
    leaf = source.leaf
    if isinstance(leaf, GradSource) or leaf.text(Names().bind) is None:
        raise CannotWrite("the gradient of an argument")
    fn = getattr(leaf.get(()), "_fn", None)
    if not isinstance(fn, AccumulateGrad):
        raise CannotWrite("the gradient of what is no leaf any more")
    return fn


class StateTest:
    """Compares what was noted, in less time once it held: a network can reach some thousand places.

    Dicts that keep their tags are not gone through. Where they do not, everything is compared, and
    dicts that change at every call though nothing that matters does are gone through from then on.

    Args:
        guards: the notes.
        written: what every replay changes itself, sources of dicts' entries among it.
    """

    __slots__ = ("_guards", "_holds", "_misses", "_patience", "_polled", "_tags", "_test")

    def __init__(self, guards: Guards, written: Iterable[Any]) -> None:
        self._guards = guards
        own = [item.table if isinstance(item, ItemSource) else item for item in written]
        self._polled = {id(dict_below(table)) for table in own}
        self._tags: dict_tags.Tags | None = None
        self._test: Callable[[], bool] | None = None
        self._misses, self._patience = 0, 2
        self._holds = False

    def broken(self, given: Given) -> str | None:
        """See ``Guards.broken``."""
        tags, test = self._tags, self._test
        if self._holds and test is not None and (tags is None or tags.hold()) and test():
            return None
        if tags is not None:
            changed = {*map(id, tags.all_changed())}
            tags.renew()  # before all is compared: what changes meanwhile is seen later
        reason = self._guards.broken(given)
        self._holds = reason is None  # else the tags are those of another state
        if reason is None:
            self._misses += 1
            if self._misses >= self._patience:
                self._misses, self._patience = 0, min(2 * self._patience, 1 << 10)
                if tags is not None:
                    self._polled |= changed
                self._shorten(given)
        return reason

    def _shorten(self, given: Given) -> None:
        self._test = self._tags = None
        if not dict_tags.available():
            return
        names = Names()
        tagged = tagged_dicts(self._guards, self._polled)
        tags = dict_tags.Tags([*tagged.values()]) if tagged else None
        if self._guards.broken(given) is not None:
            return
        try:
            tests = conditions(self._guards, names.bind, tagged)
        except CannotWrite:
            return
        text = f"""def test():
    try:
        return bool({" and ".join(tests) or "True"})
    except (LookupError, ValueError, AttributeError):
        return False
"""
        # A name of lazyt's own: no code of the user's, to a capture that calls it.
        names.table["__name__"] = __name__
        exec(compile(text, "<state test>", "exec"), names.table)
        self._tags, self._test = tags, names.table["test"]
