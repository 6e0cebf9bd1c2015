"""Places in Python's state: attributes, variables, elements, and the tensors or values in them."""

from __future__ import annotations

import math
import types
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lazyt.device import device
from lazyt.ir.dtypes import DType
from lazyt.tape import AccumulateGrad, GradFn
from lazyt.tensor import Size, Tensor

MISSING = object()
_PLAIN = (int, float, complex, str, bytes, bool, type(None), type(...), slice, range)

Given = Sequence[Tensor]
Get = Callable[[Given], Any]
Put = Callable[[Given, Any], None]


def is_plain(value: Any) -> bool:
    """Whether a value is compared by value, down to its parts."""
    if isinstance(value, (tuple, frozenset)) and not isinstance(value, Size):
        return all(map(is_plain, value))
    return isinstance(value, (*_PLAIN, Size, DType, device, np.generic)) or value is None


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
    if isinstance(a, (Size, *_PLAIN, DType, device, frozenset, np.generic)):
        return bool(a == b)
    return False


def signature(tensor: Tensor) -> tuple[Any, ...]:
    """What a tensor looks like to a function that does not look at its values."""
    storage, view = tensor._storage, tensor._view
    node = storage.node
    fn = storage.fn
    shown = None if view is None else (view.shape, view.strides, view.offset, view.steps, view.root)
    marks = _marks(tensor) if tensor.__dict__ else ()
    leaf = isinstance(fn, AccumulateGrad)
    hooks = () if fn is None else _hooks(fn)
    return (type(tensor), node.shape, node.dtype, fn is None, leaf, shown, marks, hooks)


def _hooks(fn: GradFn) -> tuple[int, ...]:
    """The functions that a backward calls at a tensor."""
    found = list(fn.post_hooks.values()) if isinstance(fn, AccumulateGrad) else []
    if fn._extra is not None:
        found += fn._extra.hooks.values()
    return tuple([id(function) for function in found])


def _marks(tensor: Tensor) -> tuple[tuple[str, Any], ...]:
    """Attributes that the user gave to a tensor: plain ones as they are, others by identity."""
    return tuple(
        (name, (type(value), value) if is_plain(value) else id(value))
        for name, value in tensor.__dict__.items()
        if name != "_grad"
    )


class Place:
    """Something in Python's state that a value is read from.

    Attributes:
        path: how a person would write it.
        get: reads it, given the tensors among the arguments.
        put: writes it, given those and the value; None where that is not possible.
    """

    __slots__ = ("get", "path", "put")

    def __init__(self, path: str, get: Get, put: Put | None) -> None:
        self.path = path
        self.get = get
        self.put = put


class TensorPlace(Place):
    """A place that holds a tensor, which may be another one each time.

    Attributes:
        looks: the tensor's signature when it was noted.
        tensor: the tensor, until the capture is over.
    """

    __slots__ = ("looks", "tensor")

    def __init__(self, path: str, get: Get, put: Put | None, tensor: Tensor) -> None:
        super().__init__(path, get, put)
        self.tensor: Tensor | None = tensor
        self.looks = signature(tensor)


class Note(Place):
    """What a place held: a value that is compared."""

    __slots__ = ("value",)

    def __init__(self, path: str, get: Get, put: Put | None, value: Any) -> None:
        super().__init__(path, get, put)
        self.value = value


def of_table(table: Any, key: Any) -> tuple[Get, Put | None]:
    """Reading and writing ``table[key]``, of a dict or another mapping."""

    def put(_: Given, value: Any) -> None:
        table[key] = value

    return lambda _: table.get(key, MISSING), put if isinstance(table, dict) else None


def of_items(items: Any, place: int) -> tuple[Get, Put | None]:
    """Reading and writing ``items[place]``."""

    def put(_: Given, value: Any) -> None:
        items[place] = value

    def get(_: Given) -> Any:
        return items[place] if place < len(items) else MISSING

    return get, None if isinstance(items, tuple) else put


def of_attribute(owner: Any, name: str) -> tuple[Get, Put]:
    """Reading and writing an attribute that is in no dict."""

    def put(_: Given, value: Any) -> None:
        setattr(owner, name, value)

    return lambda _: getattr(owner, name, MISSING), put


def of_cell(cell: types.CellType) -> tuple[Get, Put]:
    """Reading and writing a variable of a closure."""

    def get(_: Given) -> Any:
        try:
            return cell.cell_contents
        except ValueError:
            return MISSING

    def put(_: Given, value: Any) -> None:
        cell.cell_contents = value

    return get, put


def of_grad(tensor: Get) -> tuple[Get, Put]:
    """Reading and writing the ``grad`` of the leaf that another place holds."""

    def get(given: Given) -> Any:
        found = tensor(given)
        fn = found._fn if isinstance(found, Tensor) else None
        return fn.grad if isinstance(fn, AccumulateGrad) else MISSING

    def put(given: Given, value: Any) -> None:
        tensor(given).grad = value

    return get, put


def describe(value: Any) -> str:
    """A value for a message."""
    if value is MISSING:
        return "nothing"
    if is_plain(value):
        return repr(value)
    return f"a {type(value).__name__}"
