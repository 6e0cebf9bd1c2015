"""Nested values: their leaves, their shapes, and what holds them.

Two users ask differently. Programs and transforms flatten *trees*, as PyTorch defines them:
``flatten``, ``TreeSpec``, ``register``. Captured functions flatten their arguments and results
as far as a replay has to know and to rebuild them: ``Flat``. Tuples, lists, dicts and deques, also
of the program's own classes, are always flattened. In results, so are objects, functions with
closures, methods, iterators and generators that the function made (``Making``). Among the
arguments, objects, functions, methods and partials are flattened once another one of their kind
was given in the same place (``Opening``), so that fresh ones are told apart by what is in them.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import gc
import types
import weakref
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
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


# Trees as programs see them (``utils._pytree``, ``vmap``, ``grad``): None is a leaf, and so is what
# is of a subclass of a container.

#: What gives the parts of a value of a class, and a context; and its inverse.
Taker = Callable[[Any], tuple[Iterable[Any], Any]]
Maker = Callable[[list[Any], Any], Any]
_containers: dict[type, tuple[Taker, Maker]] = {
    list: (lambda value: (value, None), lambda parts, _: parts),
    tuple: (lambda value: (value, None), lambda parts, _: tuple(parts)),
    deque: (lambda value: (value, value.maxlen), deque),
    dict: (lambda value: (value.values(), list(value)), lambda parts, keys: dict(zip(keys, parts))),
    OrderedDict: (
        lambda value: (value.values(), list(value)),
        lambda parts, keys: OrderedDict(zip(keys, parts)),
    ),
    defaultdict: (
        lambda value: (value.values(), [value.default_factory, list(value)]),
        lambda parts, context: defaultdict(context[0], zip(context[1], parts)),
    ),
}
#: Classes that programs registered.
_registered: dict[type, tuple[Taker, Maker]] = {}


def register(kind: type, taker: Taker, maker: Maker) -> None:
    """Make values of class ``kind`` trees: the ``taker`` gives the parts of one and a context,
    which the ``maker`` takes. Raises ValueError where they are trees already."""
    if kind in _registered or kind in _containers:
        raise ValueError(f"{kind} is already registered as pytree node.")
    _registered[kind] = taker, maker


class TreeSpec:
    """The shape of a nested value.

    Attributes:
        type: the container's class, None for a leaf.
        context: a dict's keys, a named tuple's class, or what else the container holds.
    """

    __slots__ = ("_parts", "context", "type")

    def __init__(self, kind: type | None, context: Any, parts: list[TreeSpec]) -> None:
        self.type = kind
        self.context = context
        self._parts = parts

    @property
    def num_leaves(self) -> int:
        """Number of leaves."""
        return 1 if self.type is None else sum(part.num_leaves for part in self._parts)

    @property
    def num_nodes(self) -> int:
        """Number of leaves and of what holds them."""
        return 1 + sum(part.num_nodes for part in self._parts)

    @property
    def num_children(self) -> int:
        """Number of shapes inside."""
        return len(self._parts)

    def children(self) -> list[TreeSpec]:
        """The shapes inside."""
        return list(self._parts)

    def child(self, index: int) -> TreeSpec:
        """The shape at ``index``."""
        return self._parts[index]

    def is_leaf(self) -> bool:
        """Whether this is the shape of a leaf."""
        return self.type is None

    @property
    def keys(self) -> list[Any] | None:
        """The keys, of a dict; None for others."""
        if self.type is None or not issubclass(self.type, dict):
            return None
        keys: list[Any] = self.context[1] if self.type is defaultdict else self.context
        return keys

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TreeSpec) and (
            (self.type, self.context, self._parts) == (other.type, other.context, other._parts)
        )

    def __hash__(self) -> int:
        return hash((self.type, tuple(self._parts)))

    def __repr__(self) -> str:
        if self.type is None:
            return "*"
        own = self.type in _containers or self.type in _registered
        title = self.type.__name__ if own else "namedtuple"
        inner = (",\n" + "  ").join(repr(part).replace("\n", "\n  ") for part in self._parts)
        return f"TreeSpec({title}, {self.context}, [{inner}])"

    def pretty(self) -> str:
        """The shape as it would be written, with stars for leaves."""
        return repr(self.build(iter([_Star()] * self.num_leaves)))

    def build(self, leaves: Iterator[Any]) -> Any:
        """The value of this shape with the next leaves."""
        kind = self.type
        if kind is None:
            return next(leaves)
        items = [part.build(leaves) for part in self._parts]
        made = _containers.get(kind) or _registered.get(kind)
        if made is not None:
            return made[1](items, self.context)
        return kind(items) if _is_named_result(kind) else kind(*items)


class _Star:
    """A leaf in a shape that is shown."""

    def __repr__(self) -> str:
        return "*"


_LEAF = TreeSpec(None, None, [])


def flatten(value: Any, is_leaf: Callable[[Any], bool] | None = None) -> tuple[list[Any], TreeSpec]:
    """The leaves, in order, and the shape; ``is_leaf`` says what else is one.

    Example::

        >>> from lazyt.handle.pytree import flatten, unflatten
        >>> leaves, spec = flatten({"a": 1, "b": [2, (3, None)]})
        >>> leaves, unflatten([10, 20, 30, 40], spec)
        ([1, 2, 3, None], {'a': 10, 'b': [20, (30, 40)]})
    """
    leaves: list[Any] = []
    return leaves, _flatten(value, leaves, is_leaf)


def _flatten(
    value: Any, leaves: list[Any], is_leaf: Callable[[Any], bool] | None = None
) -> TreeSpec:
    node = None if is_leaf is not None and is_leaf(value) else children_of(value)
    if node is None:
        leaves.append(value)
        return _LEAF
    items, context = node
    return TreeSpec(type(value), context, [_flatten(item, leaves, is_leaf) for item in items])


def children_of(value: Any) -> tuple[Iterable[Any], Any] | None:
    """The parts of a tree, and its context; None for a leaf."""
    kind = type(value)
    known = _containers.get(kind) or _registered.get(kind)
    if known is not None:
        return known[0](value)
    if issubclass(kind, tuple) and (hasattr(value, "_fields") or _is_named_result(kind)):
        return value, kind
    return None


def _is_named_result(kind: type) -> bool:
    """Whether a class of tuples is that of a function's results, such as ``max``."""
    return kind.__module__ == "lazyt.functional.return_types"


def unflatten(leaves: list[Any] | tuple[Any, ...], spec: TreeSpec) -> Any:
    """The value of shape ``spec`` with these leaves."""
    return spec.build(iter(leaves))


def mapped(function: Callable[[Any], Any], value: Any) -> Any:
    """``value`` with ``function`` of every leaf."""
    leaves, spec = flatten(value)
    return unflatten([function(leaf) for leaf in leaves], spec)


def spread(value: Any, spec: TreeSpec) -> list[Any] | None:
    """One leaf of ``value``, whose shape is an upper part of ``spec``, for every leaf of that;
    None where the shapes do not agree."""
    own = _flatten(value, [])
    if own.type is None:
        return [value] * spec.num_leaves
    if own.type is not spec.type or own.context != spec.context:
        return None
    items, _ = children_of(value) or ((), None)
    if own.num_children != spec.num_children:
        return None
    found: list[Any] = []
    for item, part in zip(items, spec.children()):
        inner = spread(item, part)
        if inner is None:
            return None
        found += inner
    return found


# Values as captured functions see them. Shapes are parts of keys, and what a replay returns must be
# what the function would have returned: subclasses of containers are flattened with their
# attributes, one list that stands twice is one list again, keys that are equal but of other types
# are told apart. Code of the program's that flattens its classes (``register``) is not run: it
# need not give everything that an object holds.


#: The shape of a leaf is None, that of a plain tuple, list or dict its class with its parts.
Shape = Any
#: Arguments with more leaves have their objects compared by identity; kinds that are remembered.
_LEAVES, _MOST = 2048, 256
#: Of classes that a class statement made: Py_TPFLAGS_HEAPTYPE.
_OF_PYTHON = 1 << 9
_PLAIN = frozenset({int, float, str, bool, type(None), bytes, complex})
_CONTAINERS = (tuple, list, dict, deque)
#: What cannot be changed: nobody asks whether two of them are one.
_UNSHARED = frozenset({"builtin", "method", "tuple", "view"})


class Structure(NamedTuple):
    """How a value other than a plain tuple, list or dict holds its parts.

    Attributes:
        sort: what it is: "tuple", "list", "dict", "deque" for instances of subclasses of these,
            "object", "sparse" (a tensor of dense members), "method", "partial", "function", or
            "same" for one that came before; of what a function made also "builtin" (a method),
            "cell", "closure", "generator", "iterator" and "view" (of a dict).
        kind: its class; the code of a function; the number of the one that came before; the name
            of a method that is built in.
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
    """A flattened value.

    Attributes:
        shape: what it is apart from its leaves; hashable, if keys of its dicts are.
        leaves: in order.
        holders: lists, dicts and other objects that hold parts and may be changed, by identity.
    """

    __slots__ = ("holders", "leaves", "making", "opening", "shape")

    def __init__(
        self, value: Any, opening: Opening | None = None, making: Making | None = None
    ) -> None:
        self.leaves: list[Any] = []
        self.holders: dict[int, tuple[int, Any]] = {}
        self.opening = opening
        self.making = making
        self.shape = self._take(value)

    @property
    def is_nested(self) -> bool:
        """Whether there is such a holder besides the dict of the keywords of a call."""
        return len(self.holders) > 1

    def values(self) -> list[Any]:
        """The holders, in the order of their numbers."""
        return [value for _, value in self.holders.values()]

    def roots(self) -> list[Any]:
        """The leaves, and what else can be read through the value, see ``roots``."""
        return [*self.leaves, *roots(self.shape)]

    def _take(self, value: Any) -> Shape:
        kind, taken = type(value), None
        if self.making is not None and self.making.is_old(value):
            self.leaves.append(value)
            return None
        if kind is tuple:
            return (kind, tuple([self._take(v) for v in value]))
        if kind is not list and (kind is not dict or not all(type(k) is str for k in value)):
            if self.making is not None:
                taken = self.making.take(value, self.holders)
            if taken is None and (self.making is None or isinstance(value, _CONTAINERS)):
                taken = parts_of(value, self.opening)
            if taken is None:
                self.leaves.append(value)
                return None
            structure, parts = taken
            if structure.sort in _UNSHARED:
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


def build(shape: Shape, leaves: Iterator[Any]) -> Any:
    """The value of this shape with the next of ``leaves``."""
    return _build(shape, leaves, [])


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


def roots(shape: Shape) -> Iterator[Any]:
    """The classes and the code that structures in a shape run: what can be read through them is
    noted as for objects that are leaves."""
    for structure in structures(shape):
        if structure.sort == "function":
            yield OpenFunction(structure.kind, structure.fixed[0].value)
        elif isinstance(structure.kind, type) and structure.sort != "sparse":
            yield structure.kind


class OpenFunction(NamedTuple):
    """A function whose closure is flattened: its code, and its globals."""

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
    if shape.sort in _MAKERS:
        return _MAKERS[shape.sort](shape, shapes, leaves, made)
    if shape.sort == "tuple":
        parts = [_build(part, leaves, made) for part in shapes]
        found = tuple.__new__(shape.kind, parts[:count])
    else:
        found = _empty(shape)
        made.append(found)
        parts = [_build(part, leaves, made) for part in shapes]
        _fill(found, shape, parts[:count])
    for name, value in zip(shape.attributes, parts[count:]):
        slot = slots_of(shape.kind).get(name)
        if slot is None:
            found.__dict__[name] = value
        else:
            slot.__set__(found, value)
    return found


def _make_closure(
    shape: Structure, shapes: Sequence[Shape], leaves: Iterator[Any], made: list[Any]
) -> Any:
    """A function: its cells first, empty where they are new, so that it may stand in one itself."""
    table, name, texts, fresh, defaults, named = shape.fixed
    place = len(made)
    made.append(None)
    count = len(shape.keys)
    cells = [_build(part, leaves, made) for part in shapes[:count]]
    found = types.FunctionType(shape.kind, table.value, name, None, tuple(cells))
    made[place] = found
    parts = [_build(part, leaves, made) for part in shapes[count:]]
    for number, value in zip(fresh, parts):
        cells[number].cell_contents = value
    rest = iter(parts[len(fresh) :])
    found.__defaults__ = tuple([next(rest) for _ in range(defaults)]) or None
    found.__kwdefaults__ = {key: next(rest) for key in named} or None
    for key in shape.attributes:
        found.__dict__[key] = next(rest)
    found.__qualname__, found.__module__, found.__doc__ = texts
    found.__annotations__ = next(rest)
    return found


def _make_cell(
    shape: Structure, shapes: Sequence[Shape], leaves: Iterator[Any], made: list[Any]
) -> types.CellType:
    found = types.CellType()
    made.append(found)
    return found


def _make_method(
    shape: Structure, shapes: Sequence[Shape], leaves: Iterator[Any], made: list[Any]
) -> types.MethodType:
    owner, function = [_build(part, leaves, made) for part in shapes]
    return types.MethodType(function, owner)


def _make_builtin(
    shape: Structure, shapes: Sequence[Shape], leaves: Iterator[Any], made: list[Any]
) -> Any:
    return getattr(_build(shapes[0], leaves, made), shape.kind)


def _make_partial(
    shape: Structure, shapes: Sequence[Shape], leaves: Iterator[Any], made: list[Any]
) -> Any:
    place = len(made)
    made.append(None)
    function, *parts = [_build(part, leaves, made) for part in shapes]
    count = shape.fixed[0]
    found = made[place] = functools.partial(
        function, *parts[:count], **dict(zip(shape.keys, parts[count:]))
    )
    return found


def _make_view(
    shape: Structure, shapes: Sequence[Shape], leaves: Iterator[Any], made: list[Any]
) -> Any:
    return _VIEWS[shape.kind](_build(shapes[0], leaves, made))


def _make_iterator(
    shape: Structure, shapes: Sequence[Shape], leaves: Iterator[Any], made: list[Any]
) -> Any:
    place = len(made)
    made.append(None)
    maker, *parts = [_build(part, leaves, made) for part in shapes]
    count = shape.fixed[0]
    found = made[place] = maker(*parts[:count])
    if len(parts) > count:
        found.__setstate__(parts[count])
    return found


def _make_generator(
    shape: Structure, shapes: Sequence[Shape], leaves: Iterator[Any], made: list[Any]
) -> Any:
    place = len(made)
    made.append(None)
    function, *parts = [_build(part, leaves, made) for part in shapes]
    count, named, has_rest, has_others = shape.fixed
    rest = iter(parts)
    args = [next(rest) for _ in range(count)]
    keywords = {name: next(rest) for name in named}
    if has_rest:
        args += next(rest)
    if has_others:
        keywords |= next(rest)
    found = made[place] = function(*args, **keywords)
    return found


#: How what a function made is made again.
_MAKERS: dict[str, Callable[..., Any]] = {
    "builtin": _make_builtin, "cell": _make_cell, "closure": _make_closure,
    "generator": _make_generator, "iterator": _make_iterator, "method": _make_method,
    "partial": _make_partial, "view": _make_view,
}  # fmt: skip
_VIEWS: dict[type, Callable[[dict[Any, Any]], Any]] = {
    type({}.keys()): dict.keys, type({}.values()): dict.values, type({}.items()): dict.items,
}  # fmt: skip


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
    if shape.sort == "sparse":
        tensor = object.__new__(kind)
        tensor.__dict__.update(shape.fixed)
        return tensor
    if shape.sort == "object":
        return (types.SimpleNamespace if kind is types.SimpleNamespace else object).__new__(kind)
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


# ---------------------------------------------------------------------- flattening


def parts_of(value: Any, opening: Opening | None) -> tuple[Structure, list[Any]] | None:
    """How a value holds its parts, and these; None for a leaf.

    Args:
        opening: which objects among arguments are flattened; None for a result.
    """
    keys: tuple[Any, ...] = ()
    fixed: tuple[Any, ...] = ()
    items: list[Any] = []
    if isinstance(value, Tensor):
        return members_of(value)
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
    elif _is_record(value):
        sort = "object"
    else:
        return None
    attributes = attributes_of(value)
    names = tuple(attributes)
    return Structure(sort, type(value), keys, names, fixed), [*items, *attributes.values()]


def members_of(value: Tensor) -> tuple[Structure, list[Any]] | None:
    """How a sparse tensor holds its dense members: its size, layout and flags are fixed. None for a
    dense tensor, and for one that was given attributes."""
    kind: Any = type(value)
    names = getattr(kind, "_MEMBERS", None)
    if names is None or not value.__dict__.keys() <= names:
        return None
    held = sorted(value.__dict__.items())
    fixed = tuple([(name, item) for name, item in held if not isinstance(item, Tensor)])
    parts = {name: item for name, item in held if isinstance(item, Tensor)}
    return Structure("sparse", kind, (), tuple(parts), fixed), list(parts.values())


def _is_record(value: Any) -> bool:
    """Whether a result is an object that is what its attributes are."""
    kind: Any = type(value)
    declared = dataclasses.is_dataclass(kind) or kind in _registered
    return declared and is_open(kind)


@functools.lru_cache(_MOST)
def slots_of(kind: Any) -> dict[str, Any]:
    """The slots of a class by their names; the first of a name is the one that is meant."""
    found: dict[str, Any] = {}
    for base in kind.__mro__:
        if base.__flags__ & _OF_PYTHON:
            for name, item in vars(base).items():
                if type(item) is types.MemberDescriptorType:
                    found.setdefault(name, item)
    return found


def attributes_of(value: Any) -> dict[str, Any]:
    """All attributes that an object itself has, in its dict and in slots."""
    found: dict[str, Any] = dict(getattr(value, "__dict__", ()))
    kind: Any = type(value)
    for name, slot in slots_of(kind).items():
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
    return all(base is object or _is_of_a_statement(base) for base in kind.__mro__)


def _is_of_a_statement(kind: Any) -> bool:
    """Whether a class was made by a class statement: C has no part of its instances."""
    table = vars(kind)
    if not kind.__flags__ & _OF_PYTHON or isinstance(
        table.get("__new__"), types.BuiltinFunctionType
    ):
        return False
    return kind.__base__ is not object or "__dict__" in table or "__slots__" in table


def has_other_code(kind: Any, is_ours: Callable[[str], bool]) -> bool:
    """Whether a class has methods that are not the user's, and read what no code of theirs
    mentions."""
    plain = ("typing", "abc", "collections.abc", "typing_extensions", "builtins")
    return not all(base.__module__ in plain or is_ours(base.__module__) for base in kind.__mro__)


#: Iterators of Python's own that tell how they were made and how far they are.
_ITERATORS: tuple[Any, ...] = (
    map, zip, enumerate, filter, reversed, type(iter([])), type(iter(())), type(iter(range(0))),
    type(iter("")), type(reversed([])), type(iter(b"")),
)  # fmt: skip


class Making:
    """How results are flattened of what a function made, and what else they may hold.

    Args:
        is_old: whether an object was there before the function ran, so that it stands for itself.
        is_fresh: whether an object is known to be made by the function. Others that are no plain
            containers are leaves.
    """

    def __init__(self, is_old: Callable[[Any], bool], is_fresh: Callable[[Any], bool]) -> None:
        self.is_old = is_old
        self.is_fresh = is_fresh

    def take(
        self, value: Any, holders: dict[int, tuple[int, Any]]
    ) -> tuple[Structure, list[Any]] | None:
        """How an object holds its parts; None for a leaf, and for instances of containers."""
        kind: Any = type(value)
        if kind in _PLAIN or isinstance(value, (type, tuple, list, dict, deque)):
            return None
        if isinstance(value, Tensor):
            return members_of(value) if self.is_fresh(value) else None
        if kind is types.MethodType:  # two of one object and function are equal
            return Structure("method", "method"), [value.__self__, value.__func__]
        if kind is types.BuiltinFunctionType:
            if is_unchanging(value):
                return None
            return Structure("builtin", value.__name__), [value.__self__]
        if not self.is_fresh(value):
            return None
        if kind is types.CellType:
            return Structure("cell", "cell"), []
        if kind is types.FunctionType:
            return self._closure(value, holders)
        if kind is functools.partial and not value.__dict__:
            keys = tuple(value.keywords)
            shape = Structure("partial", "partial", keys, (), (len(value.args),))
            return shape, [value.func, *value.args, *value.keywords.values()]
        if kind in _VIEWS:
            return Structure("view", kind), [gc.get_referents(value)[0]]
        if kind in _ITERATORS:
            maker, parts, *state = value.__reduce__()
            return Structure("iterator", kind, (), (), (len(parts),)), [maker, *parts, *state]
        if kind is types.GeneratorType:
            found_parts: tuple[Structure, list[Any]] | None = _generator_parts(value)
            return found_parts
        if not is_made_again(kind):
            return None
        found = attributes_of(value)
        return Structure("object", kind, (), tuple(found)), list(found.values())

    def _closure(
        self, value: types.FunctionType, holders: dict[int, tuple[int, Any]]
    ) -> tuple[Structure, list[Any]]:
        cells = value.__closure__ or ()
        fresh: list[int] = []
        contents: list[Any] = []
        for number, cell in enumerate(cells):
            is_new = id(cell) not in holders and not any(c is cell for c in cells[:number])
            if is_new and self.is_fresh(cell) and not self.is_old(cell):
                try:
                    contents.append(cell.cell_contents)
                except ValueError:  # a variable that has no value yet
                    continue
                fresh.append(number)
        defaults, named = value.__defaults__ or (), value.__kwdefaults__ or {}
        texts = (value.__qualname__, value.__module__, value.__doc__)
        table = Identity(value.__globals__, strong=True)
        fixed = (table, value.__name__, texts, tuple(fresh), len(defaults), tuple(named))
        keys = value.__code__.co_freevars
        attributes = tuple(value.__dict__)
        shape = Structure("closure", value.__code__, keys, attributes, fixed)
        rest = [*defaults, *named.values(), *value.__dict__.values(), value.__annotations__]
        return shape, [*cells, *contents, *rest]


#: All objects are flattened.
ANYTHING = Making(lambda value: False, lambda value: True)


def _generator_parts(value: types.GeneratorType[Any, Any, Any]) -> Any:
    """The function and the arguments of a generator that has not begun; None for others."""
    code, frame = value.gi_code, value.gi_frame
    made_by = [
        item for item in gc.get_referents(value)
        if type(item) is types.FunctionType and item.__code__ is code
    ]  # fmt: skip
    if frame is None or value.gi_running or len(made_by) != 1 or not _has_not_begun(value):
        return None
    count = code.co_argcount
    keys = code.co_varnames[count : count + code.co_kwonlyargcount]
    last = count + code.co_kwonlyargcount
    has_rest, has_others = bool(code.co_flags & 4), bool(code.co_flags & 8)
    names = code.co_varnames[: last + has_rest + has_others]
    told = frame.f_locals
    if not all(name in told for name in names):
        return None
    shape = Structure("generator", code, (), (), (count, keys, has_rest, has_others))
    return shape, [made_by[0], *[told[name] for name in names]]


def _has_not_begun(value: types.GeneratorType[Any, Any, Any]) -> bool:
    import inspect  # costs milliseconds, for what is rare

    return inspect.getgeneratorstate(value) == inspect.GEN_CREATED


@functools.lru_cache(_MOST)
def is_made_again(kind: Any) -> bool:
    """Whether a replay may make an instance of a class from its attributes alone."""
    if kind is types.SimpleNamespace:
        return True
    home = kind.__module__.partition(".")
    if home[0] == "lazyt" and home[2].partition(".")[0] != "distributions":
        return False
    return is_open(kind) and not issubclass(kind, enum.Enum) and not hasattr(kind, "__del__")


def is_unchanging(value: Any) -> bool:
    """Whether an object stands for itself wherever it comes from: a class, a module, a member of an
    enumeration, a function of a module."""
    if isinstance(value, types.BuiltinFunctionType):
        return isinstance(value.__self__, (type, types.ModuleType, type(None)))
    if isinstance(value, (type, types.ModuleType, enum.Enum)):
        return True
    return isinstance(value, types.FunctionType) and "<" not in value.__qualname__


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
        """A call's ``(args, kwargs)`` flattened. Kinds of objects are opened on the way."""
        while True:
            flat = Flat(value, self)
            if len(flat.leaves) > _LEAVES and self.close(flat.shape):
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
        kinds = {_opened_as(s) for s in structures(shape)} & self._opened
        self._opened -= kinds
        self._closed |= kinds
        return bool(kinds)

    def open(self, value: Any) -> bool:
        """Objects like this one are told apart by what is in them from now on; whether that is
        new."""
        kind = self._kind(value)
        if kind is None or kind in self._opened or kind in self._closed:
            return False
        self._opened.add(kind)
        return True

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
    """What was opened so that this is flattened."""
    if shape.sort == "method":
        return types.MethodType
    return functools.partial if shape.sort == "partial" else shape.kind
