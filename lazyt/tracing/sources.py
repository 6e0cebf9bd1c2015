"""Sources: how a value in Python's state is reached (attributes, variables, elements), and the
tensors and values there that guards compare."""

from __future__ import annotations

import math
import types
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lazyt.handle.device import device
from lazyt.handle.hooks import settle_parts
from lazyt.handle.pytree import Identity, put_item
from lazyt.handle.storage import Storage
from lazyt.handle.tape import AccumulateGrad, GradFn
from lazyt.handle.tensor import Size, Tensor
from lazyt.ir.dtypes import DType
from lazyt.ir.forms import place_of
from lazyt.ir.graph import Node
from lazyt.ops.parallel.distribution import DISTRIBUTE
from lazyt.transforms.partition.partition import is_whole

MISSING = object()
_SIZED: tuple[Any, ...] = (dict, list, tuple, set, frozenset, deque)
_PLAIN = (int, float, complex, str, bytes, bool, type(None), type(...), slice, range)

Given = Sequence[Tensor]
Put = Callable[[Given, Any], None]
#: Gives an object a name in generated code.
Bind = Callable[[Any], str]


def is_plain(value: Any) -> bool:
    """Whether a value is compared by value, down to its parts."""
    kind = type(value)
    if kind in _PLAIN or isinstance(value, (Size, DType, device)):
        return True
    if not isinstance(value, (*_PLAIN, tuple, frozenset, np.generic)):
        return False
    if getattr(value, "__dict__", None):  # of a class of the user's, and more than its value
        return False
    return not isinstance(value, (tuple, frozenset)) or all(map(is_plain, value))


def look_up(table: Any, key: Any) -> Any:
    """What a dict, of whatever class, or another mapping has for a key; MISSING for nothing."""
    if isinstance(table, dict):
        return dict.get(table, key, MISSING)
    return table.get(key, MISSING)


def size_of(items: Any) -> int:
    """The number of elements of a list, dict or set, whatever their class says."""
    for kind in _SIZED:
        if isinstance(items, kind):
            return int(kind.__len__(items))
    return len(items)


def same_plain(a: Any, b: Any) -> bool:
    """Whether two plain values cannot be told apart: types, signs of zero and NaN included."""
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if isinstance(a, float):
        if a != a or b != b:
            return a != a and b != b
        return a == b and math.copysign(1.0, a) == math.copysign(1.0, b)
    if isinstance(a, tuple):
        return len(a) == len(b) and all(map(same_plain, a, b))
    return is_plain(a) and is_plain(b) and bool(a == b)


def signature(tensor: Tensor) -> tuple[Any, ...]:
    """What a tensor looks like to a function that does not look at its values."""
    storage, view = tensor._storage, tensor._view
    node = storage.node
    fn = storage.fn
    shown = None if view is None else (view.shape, view.strides, view.offset, view.steps, view.root)
    marks = _marks(tensor) if tensor.__dict__ else ()
    leaf = isinstance(fn, AccumulateGrad)
    if settle_parts and (
        unmarked(node).op is DISTRIBUTE or getattr(type(tensor), "_is_divided", False)
    ):
        marks = (*marks, ("division", division_of(storage)))
    hooks = () if fn is None else _hooks(fn)
    place = place_of(node.form)
    return (type(tensor), node.shape, node.dtype, fn is None, leaf, shown, marks, hooks, place)


def is_divided(storage: Storage) -> bool:
    """Whether ranks have parts of a storage's value."""
    if not settle_parts:  # nobody divides anything
        return False
    node = unmarked(storage.node)
    return node.op is DISTRIBUTE or (node.data is None and is_whole(node))


def unmarked(node: Node) -> Node:
    """A value below gradient marks."""
    while node.op.is_identity and node.inputs:
        node = node.inputs[0]
    return node


def division_of(storage: Storage) -> Any:
    """How ranks divide a storage's value, by the parameters of ``distribute``; None for others."""
    if not is_divided(storage):
        return None
    for settle in settle_parts:
        settle(storage)
    node = unmarked(storage.node)
    return node.params if node.op is DISTRIBUTE else None


def _hooks(fn: GradFn) -> tuple[Identity, ...]:
    """The functions that a backward calls at a tensor."""
    found = list(fn.post_hooks.values()) if isinstance(fn, AccumulateGrad) else []
    if fn._extra is not None:
        found += fn._extra.hooks.values()
    return tuple([Identity(function) for function in found])


def _marks(tensor: Tensor) -> tuple[tuple[str, Any], ...]:
    """Attributes that the user gave to a tensor: plain ones as they are, others by identity."""
    return tuple(
        (name, (type(value), repr(value)) if is_plain(value) else Identity(value))
        for name, value in tensor.__dict__.items()
        if name != "_grad"
    )


class Source:
    """A way to reach something in Python's state.

    ``text`` gives Python's expression for it, which raises LookupError, ValueError or
    AttributeError where there is nothing, and None where no expression is known; ``bind`` names an
    object in it. ``put`` is None where nothing can be written.
    """

    __slots__ = ()
    put: Put | None = None

    def get(self, given: Given) -> Any:
        """What is there, given the tensors among the arguments; MISSING for nothing."""
        raise NotImplementedError

    def text(self, bind: Bind) -> str | None:
        """See the class."""
        return None


class Guarded:
    """Something that a captured function reads from Python's state.

    Attributes:
        path: how a person would write it.
        source: how it is reached.
    """

    __slots__ = ("path", "source")

    def __init__(self, path: str, source: Source) -> None:
        self.path = path
        self.source = source


class GuardedTensor(Guarded):
    """A tensor in Python's state, which may be another one each time.

    Attributes:
        signature: the tensor's signature when it was noted.
        tensor: the tensor, until the capture is over.
        exact: the tensor that it has to be, where things are found by it; else None.
    """

    __slots__ = ("exact", "signature", "tensor")

    def __init__(self, path: str, source: Source, tensor: Tensor) -> None:
        super().__init__(path, source)
        self.tensor: Tensor | None = tensor
        self.exact: Tensor | None = None
        self.signature = signature(tensor)


class GuardedValue(Guarded):
    """A value in Python's state, which a guard compares."""

    __slots__ = ("value",)

    def __init__(self, path: str, source: Source, value: Any) -> None:
        super().__init__(path, source)
        self.value = value


class ItemSource(Source):
    """``table[key]``, of a dict or another mapping."""

    __slots__ = ("key", "put", "table")

    def __init__(self, table: Any, key: Any) -> None:
        self.table, self.key = table, key
        self.put = self._put if isinstance(table, dict) else None

    def get(self, given: Given) -> Any:
        """What is there."""
        return look_up(self.table, self.key)

    def _put(self, given: Given, value: Any) -> None:
        if value is MISSING:
            dict.__delitem__(self.table, self.key)
        else:
            put_item(self.table, self.key, value)

    def text(self, bind: Bind) -> str:
        """Its expression."""
        if type(self.table) is dict:
            return f"{bind(self.table)}[{bind(self.key)}]"
        return f"{bind(look_up)}({bind(self.table)}, {bind(self.key)})"


class ElementSource(Source):
    """``items[number]``."""

    __slots__ = ("items", "number", "put")

    def __init__(self, items: Any, number: int) -> None:
        self.items, self.number = items, number
        self.put = None if isinstance(items, tuple) else self._put

    def get(self, given: Given) -> Any:
        """What is there."""
        return self.items[self.number] if self.number < len(self.items) else MISSING

    def _put(self, given: Given, value: Any) -> None:
        self.items[self.number] = value

    def text(self, bind: Bind) -> str:
        """Its expression."""
        return f"{bind(self.items)}[{self.number}]"


class AttributeSource(Source):
    """An attribute that is in no dict."""

    __slots__ = ("name", "owner")

    def __init__(self, owner: Any, name: str) -> None:
        self.owner, self.name = owner, name

    def get(self, given: Given) -> Any:
        """What is there."""
        return getattr(self.owner, self.name, MISSING)

    def put(self, given: Given, value: Any) -> None:
        """Writes it."""
        if value is MISSING:
            delattr(self.owner, self.name)
        else:
            setattr(self.owner, self.name, value)

    def text(self, bind: Bind) -> str:
        """Its expression."""
        return f"{bind(self.owner)}.{self.name}"


class CellSource(Source):
    """A variable of a closure."""

    __slots__ = ("cell",)

    def __init__(self, cell: types.CellType) -> None:
        self.cell = cell

    def get(self, given: Given) -> Any:
        """What is there."""
        try:
            return self.cell.cell_contents
        except ValueError:
            return MISSING

    def put(self, given: Given, value: Any) -> None:
        """Writes it."""
        if value is MISSING:
            del self.cell.cell_contents
        else:
            self.cell.cell_contents = value

    def text(self, bind: Bind) -> str:
        """Its expression."""
        return f"{bind(self.cell)}.cell_contents"


class ConstantSource(Source):
    """A tensor that is reached whatever happens, such as a key of a dict."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def get(self, given: Given) -> Any:
        """What is there."""
        return self.value

    def text(self, bind: Bind) -> str:
        """Its expression."""
        return bind(self.value)


class ArgumentSource(Source):
    """The tensor of this number among the arguments."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number

    def get(self, given: Given) -> Any:
        """What is there."""
        return given[self.number]


class GradSource(Source):
    """The ``grad`` of the leaf that another source gives."""

    __slots__ = ("leaf",)

    def __init__(self, leaf: Source) -> None:
        self.leaf = leaf

    def get(self, given: Given) -> Any:
        """What is there."""
        found = self.leaf.get(given)
        fn = found._fn if isinstance(found, Tensor) else None
        return fn.grad if isinstance(fn, AccumulateGrad) else MISSING

    def put(self, given: Given, value: Any) -> None:
        """Writes it."""
        self.leaf.get(given).grad = value
