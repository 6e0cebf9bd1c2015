"""Nested structures taken apart: their leaves, their shapes, and what holds them.

Arguments and results of captured functions are such structures. Tuples, lists and dicts, also of
classes of the user's, are taken apart always; dataclasses where they are results; and objects,
functions with closures, methods and partials among the arguments once another one of their kind was
given in the same place (``Opening``), so that fresh ones are told apart by what is in them.
"""

from __future__ import annotations

import dataclasses
import functools
import types
import weakref
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any, NamedTuple

from lazyt.handle.tensor import Size, Tensor

# Objects as parts of keys: compared by identity, also after they are gone.
#
# An address says which object is meant only while that object lives; the next one may get the same
# address. Whatever outlives the objects that it was made from names them by an ``Identity``.


class Identity:
    """Stands for one object: equal to another Identity of the very same, living object only.

    Refers to the object weakly where its class allows that, so that keys keep nothing alive.

    Example::

        >>> from lazyt.handle.pytree import Identity
        >>> a, b = {1}, {1}
        >>> Identity(a) == Identity(a), Identity(a) == Identity(b)
        (True, False)
    """

    __slots__ = ("_hash", "_refer")

    _refer: Callable[[], Any]

    def __init__(self, value: Any, strong: bool = False) -> None:
        """
        Args:
            value: the object.
            strong: whether it is kept alive.
        """
        self._hash = hash(id(value))
        if strong:
            self._refer = lambda: value
            return
        try:
            self._refer = weakref.ref(value)
        except TypeError:
            self._refer = lambda: value

    @property
    def value(self) -> Any:
        """The object; None once it is gone."""
        return self._refer()

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if type(other) is not Identity:
            return NotImplemented
        value = self._refer()
        return value is not None and value is other._refer()

    def __repr__(self) -> str:
        value = self._refer()
        return "<a freed object>" if value is None else f"<one {type(value).__name__}>"


#: The shape of a leaf is None, that of a plain tuple, list or dict its class with its parts.
Shape = Any
#: An object with more leaves is compared by identity.
_MOST = 256
_PLAIN = frozenset({int, float, str, bool, type(None), bytes, complex})


class Structure(NamedTuple):
    """How a value other than a plain tuple, list or dict holds its parts.

    Attributes:
        sort: what it is: "tuple", "list", "dict", "deque" for instances of subclasses of these,
            "object", "method", "partial", "function", or "same" for one that came before.
        kind: its class; the code of a function; the number of the one that came before.
        keys: of a dict, names of a function's closure, numbers of other items.
        attributes: names of its attributes.
        fixed: what has to be the same besides.
    """

    sort: str
    kind: Any
    keys: tuple[Any, ...] = ()
    attributes: tuple[str, ...] = ()
    fixed: tuple[Any, ...] = ()


class Flat:
    """A value taken apart.

    Attributes:
        shape: what it is apart from its leaves; hashable, if keys of its dicts are.
        leaves: in order.
        holders: lists, dicts and other objects that hold parts and may be changed, by identity.
    """

    __slots__ = ("holders", "leaves", "opening", "shape")

    def __init__(self, value: Any, opening: Opening | None = None) -> None:
        self.leaves: list[Any] = []
        self.holders: dict[int, tuple[int, Any]] = {}
        self.opening = opening
        self.shape = self._take(value)

    @property
    def is_nested(self) -> bool:
        """Whether there is such a holder besides the dict of the keywords of a call."""
        return len(self.holders) > 1

    def roots(self) -> list[Any]:
        """The leaves, and what else can be read through the value, see ``Tree.roots``."""
        return [*self.leaves, *Tree.roots(self.shape)]

    def _take(self, value: Any) -> Shape:
        kind, taken = type(value), None
        if kind is tuple:
            return (kind, tuple([self._take(v) for v in value]))
        if kind is not list and (kind is not dict or not all(type(k) is str for k in value)):
            taken = taken_apart(value, self.opening)
            if taken is None:
                self.leaves.append(value)
                return None
            structure, parts = taken
            if structure.sort == "tuple":
                return (structure, tuple([self._take(part) for part in parts]))
        known = self.holders.get(id(value))
        if known is not None:
            return (Structure("same", known[0]), ())
        self.holders[id(value)] = (len(self.holders), value)
        if kind is list:
            return (kind, tuple([self._take(v) for v in value]))
        if taken is None:
            return (kind, tuple([(k, self._take(v)) for k, v in value.items()]))
        return (structure, tuple([self._take(part) for part in parts]))


class Tree:
    """Shapes of values that were taken apart, see ``Flat``."""

    @staticmethod
    def flatten(value: Any, leaves: list[Any]) -> Shape:
        """The shape of a result; appends its leaves."""
        flat = Flat(value)
        leaves.extend(flat.leaves)
        return flat.shape

    @staticmethod
    def build(shape: Shape, leaves: Iterator[Any]) -> Any:
        """The value of this shape with the next of ``leaves``."""
        return _build(shape, leaves, [])

    @staticmethod
    def structures(shape: Shape) -> Iterator[Structure]:
        """What is in a shape besides plain tuples, lists and dicts."""
        stack = [shape]
        while stack:
            item = stack.pop()
            if item is None:
                continue
            kind, parts = item
            if type(kind) is Structure:
                yield kind
            stack.extend([part for _, part in parts] if kind is dict else parts)

    @staticmethod
    def roots(shape: Shape) -> Iterator[Any]:
        """The classes and the code that structures in a shape run: what can be read through them
        is noted as for objects that are leaves."""
        for structure in Tree.structures(shape):
            if structure.sort == "function":
                yield OpenFunction(structure.kind, structure.fixed[0].value)
            elif isinstance(structure.kind, type):
                yield structure.kind


class OpenFunction(NamedTuple):
    """A function whose closure is taken apart: its code, and its globals."""

    code: types.CodeType
    table: dict[str, Any]


def _build(shape: Shape, leaves: Iterator[Any], made: list[Any]) -> Any:
    if shape is None:
        return next(leaves)
    kind, parts = shape
    if kind is tuple:
        return tuple([_build(part, leaves, made) for part in parts])
    if kind is list:
        items: list[Any] = []
        made.append(items)
        items.extend([_build(part, leaves, made) for part in parts])
        return items
    if kind is dict:
        table: dict[Any, Any] = {}
        made.append(table)
        table.update([(key, _build(part, leaves, made)) for key, part in parts])
        return table
    return _build_structure(kind, parts, leaves, made)


def _build_structure(
    shape: Structure, shapes: Sequence[Shape], leaves: Iterator[Any], made: list[Any]
) -> Any:
    if shape.sort == "same":
        return made[shape.kind]
    count = len(shapes) - len(shape.attributes)
    if shape.sort == "tuple":
        parts = [_build(part, leaves, made) for part in shapes]
        found = tuple.__new__(shape.kind, parts[:count])
    else:
        found = _empty(shape)
        made.append(found)
        parts = [_build(part, leaves, made) for part in shapes]
        _fill(found, shape, parts[:count])
    for name, value in zip(shape.attributes, parts[count:]):
        slot = _slots(shape.kind).get(name)
        if slot is None:
            found.__dict__[name] = value
        else:
            slot.__set__(found, value)
    return found


def _empty(shape: Structure) -> Any:
    kind = shape.kind
    if shape.sort == "list":
        return list.__new__(kind)
    if shape.sort == "deque":
        made = deque.__new__(kind)
        deque.__init__(made, (), shape.fixed[0])
        return made
    if shape.sort == "dict":
        if issubclass(kind, defaultdict):
            table = defaultdict.__new__(kind)
            factory = shape.fixed[0]
            defaultdict.__init__(table, None if factory is None else factory.value)
            return table
        return (OrderedDict if issubclass(kind, OrderedDict) else dict).__new__(kind)
    if shape.sort == "object":
        return object.__new__(kind)
    raise TypeError(f"a {shape.sort} is not put together again")


def _fill(made: Any, shape: Structure, items: Sequence[Any]) -> None:
    if shape.sort in ("list", "deque"):
        (list if shape.sort == "list" else deque).extend(made, items)
    elif shape.sort == "dict":
        for key, item in zip(shape.keys, items, strict=True):
            put_item(made, key, item)


def keys_of(table: dict[Any, Any]) -> tuple[Any, ...]:
    """The keys of a dict in their order, whatever its class makes of them."""
    kind: Any = OrderedDict if isinstance(table, OrderedDict) else dict
    return tuple(kind.__iter__(table))


def put_item(table: dict[Any, Any], key: Any, value: Any) -> None:
    """``table[key] = value``, whatever the class of the table makes of that."""
    (OrderedDict if isinstance(table, OrderedDict) else dict).__setitem__(table, key, value)


# ---------------------------------------------------------------------- taking apart


def taken_apart(value: Any, opening: Opening | None) -> tuple[Structure, list[Any]] | None:
    """How a value holds its parts, and these; None for a leaf.

    Args:
        opening: what is taken apart of arguments; None for a result.
    """
    keys: tuple[Any, ...] = ()
    fixed: tuple[Any, ...] = ()
    items: list[Any] = []
    if isinstance(value, tuple):
        if isinstance(value, Size):
            return None
        items, sort = list(value), "tuple"
    elif isinstance(value, dict):
        keys, sort = keys_of(value), "dict"
        items = [dict.__getitem__(value, key) for key in keys]
        factory = value.default_factory if isinstance(value, defaultdict) else None
        known = None if factory is None else Identity(factory, strong=True)
        fixed = (known, tuple(map(type, keys)))  # 1, 1.0 and True are equal
    elif isinstance(value, list):
        items, sort = list(list.__iter__(value)), "list"
    elif isinstance(value, deque):
        items, sort, fixed = list(deque.__iter__(value)), "deque", (value.maxlen,)
    elif opening is not None:
        return opening.take(value)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type) and is_open(type(value)):
        sort = "object"
    else:
        return None
    attributes = attributes_of(value)
    names = tuple(attributes)
    return Structure(sort, type(value), keys, names, fixed), [*items, *attributes.values()]


@functools.lru_cache(_MOST)
def _slots(kind: Any) -> dict[str, Any]:
    """The slots of a class by their names; the first of a name is the one that is meant."""
    found: dict[str, Any] = {}
    for base in kind.__mro__:
        if base.__module__ != "builtins" and base.__module__ != "collections":
            for name, item in vars(base).items():
                if type(item) is types.MemberDescriptorType:
                    found.setdefault(name, item)
    return found


def attributes_of(value: Any) -> dict[str, Any]:
    """All attributes that an object itself has, in its dict and in slots."""
    found: dict[str, Any] = dict(getattr(value, "__dict__", ()))
    kind: Any = type(value)
    for name, slot in _slots(kind).items():
        try:
            found[name] = slot.__get__(value)
        except AttributeError:
            continue  # nothing is in the slot
    return found


@functools.lru_cache(_MOST)
def is_open(kind: Any) -> bool:
    """Whether instances of a class are what their attributes are: no class below Python's has
    something of its own in them, and none watches over its state."""
    if issubclass(kind, BaseException) or hasattr(kind, "_watched_state"):
        return False
    if hasattr(kind, "forward"):
        return False
    of_python = 1 << 9  # Py_TPFLAGS_HEAPTYPE
    return all(base is object or base.__flags__ & of_python for base in kind.__mro__)


def has_other_code(kind: Any, is_ours: Callable[[str], bool]) -> bool:
    """Whether a class has methods that are not the user's, and read what no code of theirs
    mentions."""
    plain = ("typing", "abc", "collections.abc", "typing_extensions", "builtins")
    return not all(base.__module__ in plain or is_ours(base.__module__) for base in kind.__mro__)


class Opening:
    """Which objects among a function's arguments are told apart by what is in them, not by
    identity: those of a kind of which different ones were given in the same place.

    Attributes:
        names: of the attributes that the function can read; None for all.

    Args:
        is_ours: whether the module of this name is the user's.
    """

    def __init__(self, is_ours: Callable[[str], bool]) -> None:
        self.names: frozenset[str] | None = None
        self._is_ours = is_ours
        self._opened: set[Hashable] = set()
        self._closed: set[Hashable] = set()
        self._last: dict[Any, list[Any]] = {}

    def flatten(self, value: Any) -> Flat:
        """A call's ``(args, kwargs)`` taken apart. Kinds of objects are opened on the way."""
        while True:
            flat = Flat(value, self)
            if len(flat.leaves) > _MOST and self.close(flat.shape):
                continue
            objects = [self._kind(leaf) for leaf in flat.leaves]
            if not any(objects):
                return flat
            try:
                last = self._last.get(flat.shape)
                self._last[flat.shape] = seen = [
                    None if kind is None else (kind, Identity(leaf))
                    for kind, leaf in zip(objects, flat.leaves)
                ]
            except TypeError:  # keys of a dict that cannot be compared
                return flat
            if len(self._last) > _MOST:
                self._last.clear()
            other = {
                new[0] for new, old in zip(seen, last or ())
                if new is not None and old is not None and new[0] == old[0] and new[1] != old[1]
            }  # fmt: skip
            if not other - self._closed:
                return flat
            self._opened |= other - self._closed

    def close(self, shape: Shape) -> bool:
        """Objects of this shape are compared by identity from now on; whether that is new."""
        kinds = {_opened_as(s) for s in Tree.structures(shape)} & self._opened
        self._opened -= kinds
        self._closed |= kinds
        return bool(kinds)

    def _kind(self, value: Any) -> Hashable:
        """What is opened together with an object; None where it cannot be."""
        kind: Any = type(value)
        if isinstance(value, Tensor) or kind in _PLAIN:
            return None
        if kind is types.FunctionType:
            home = value.__module__ or ""
            fits = self._is_ours(home) and home.partition(".")[0] != "lazyt" and not value.__dict__
            return value.__code__ if fits else None
        if kind is types.MethodType or kind is functools.partial:
            return kind
        if isinstance(value, type) or kind.__module__.partition(".")[0] == "lazyt":
            return None
        fits = self._is_ours(kind.__module__) and is_open(kind)
        return kind if fits and not has_other_code(kind, self._is_ours) else None

    def take(self, value: Any) -> tuple[Structure, list[Any]] | None:
        """How an object that was opened holds its parts; None for others."""
        if not self._opened:
            return None
        kind = self._kind(value)
        if kind is None or kind not in self._opened:
            return None
        if type(value) is types.MethodType:
            return Structure("method", "method"), [value.__self__, value.__func__]
        if type(value) is functools.partial:
            if value.__dict__:
                return None
            return (
                Structure("partial", "partial", tuple(value.keywords), (), (len(value.args),)),
                [value.func, *value.args, *value.keywords.values()],
            )
        if type(value) is types.FunctionType:
            return _function_parts(value)
        found = attributes_of(value)
        if self.names is not None:
            found = {name: item for name, item in found.items() if name in self.names}
        return Structure("object", kind, (), tuple(found)), list(found.values())


def _function_parts(value: types.FunctionType) -> tuple[Structure, list[Any]] | None:
    cells = value.__closure__ or ()
    try:
        contents = [cell.cell_contents for cell in cells]
    except ValueError:  # a variable that has no value yet
        return None
    defaults, named = value.__defaults__ or (), value.__kwdefaults__ or {}
    fixed = (Identity(value.__globals__, strong=True), len(defaults), tuple(named))
    shape = Structure("function", value.__code__, value.__code__.co_freevars, (), fixed)
    return shape, [*contents, *defaults, *named.values()]


def _opened_as(shape: Structure) -> Hashable:
    """What was opened so that this is taken apart."""
    if shape.sort == "method":
        return types.MethodType
    return functools.partial if shape.sort == "partial" else shape.kind
