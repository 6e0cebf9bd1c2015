"""State of many kinds that a captured function reads: what changes in it between calls is seen."""

from __future__ import annotations

import array
import collections
import contextvars
import copy
import dataclasses
import datetime
import enum
import fractions
import functools
import itertools
import operator
import threading
import types
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lazyt as lt

pytestmark = [pytest.mark.lazy, pytest.mark.filterwarnings("ignore:lazyt.jit leaves")]


class Mode(enum.Enum):
    """Two members."""

    first = 1
    second = 2


class Users(collections.UserDict[str, Any]):
    """Of a class that keeps its items in an attribute."""


class Watched:
    """Attributes, methods and properties."""

    def __init__(self) -> None:
        self.k = 1.0
        self.items = [1.0]

    @functools.cached_property
    def held(self) -> float:
        """Computed once."""
        return self.k * 2

    def method(self, x: Any) -> Any:
        """Scaled."""
        return x * self.k

    def __mul__(self, other: Any) -> Any:
        return other * self.k


@dataclasses.dataclass
class Setting:
    """With a field."""

    k: float = 1.0


class Descriptor:
    """Reads from its class."""

    v = 1.0

    def __get__(self, instance: Any, owner: Any) -> float:
        return self.v


class Meta(type):
    """A class of classes."""

    z: float

    @property
    def double(cls) -> float:
        """Of the class."""
        return cls.z * 2

    def __getattr__(cls, name: str) -> float:
        return 4.0


class Held(metaclass=Meta):
    """Whose class has properties."""

    z = 1.0
    described = Descriptor()


class S:
    """What the functions below read."""

    scale = 1.0
    users = Users(a=1.0)
    chained = collections.ChainMap({"a": 1.0})
    mode = Mode.first
    numbers = array.array("d", [1.0])
    octets = bytearray(b"\x01")
    deque = collections.deque([1.0])
    watched = Watched()
    setting = Setting()
    tensor: Any = lt.ones(2)
    local = threading.local()
    variable = contextvars.ContextVar("variable", default=1.0)
    partial: Any = functools.partial(lambda k, x: x * k, 2.0)
    deep: Any = {1: {2: {3: 1.0}}}


S.tensor.k = 1.0
S.local.k = 1.0
reference = weakref.ref(S.watched)


@functools.cache
def cached(k: float) -> float:
    """Computed once for each number."""
    return k * S.scale


def with_attribute(x: Any) -> Any:
    """Scaled by its own attribute."""
    return x * with_attribute.k  # type: ignore[attr-defined]


with_attribute.k = 1.0  # type: ignore[attr-defined]


def _set(owner: Any, name: str, *values: Any) -> list[Callable[[], Any]]:
    return [functools.partial(setattr, owner, name, value) for value in values]


def _put(items: Any, key: Any, *values: Any) -> list[Callable[[], Any]]:
    return [functools.partial(operator.setitem, items, key, value) for value in values]


_k = functools.partial(_set, S.watched, "k", 2.0, 1.0)
READ: dict[str, tuple[Callable[[Any], Any], list[Callable[[], Any]]]] = {
    "user dict": (lambda x: x * S.users["a"], _put(S.users, "a", 2.0, 1.0)),
    "chain": (lambda x: x * S.chained["a"], _put(S.chained, "a", 2.0, 1.0)),
    "enum": (lambda x: x * S.mode.value, _set(S, "mode", Mode.second, Mode.first)),
    "enum by identity": (lambda x: x * (2 if S.mode is Mode.first else 3),
                         _set(S, "mode", Mode.second, Mode.first)),
    "array": (lambda x: x * S.numbers[0], _put(S.numbers, 0, 2.0, 1.0)),
    "bytearray": (lambda x: x * S.octets[0], _put(S.octets, 0, 2, 1)),
    "deque": (lambda x: x * S.deque[0], _put(S.deque, 0, 2.0, 1.0)),
    "cached property": (lambda x: x * S.watched.held, [
        *_k()[:1], lambda: vars(S.watched).pop("held", None), *_k()[1:],
        lambda: vars(S.watched).pop("held", None)]),
    "cached function": (lambda x: x * cached(2.0), [
        *_set(S, "scale", 2.0), cached.cache_clear, *_set(S, "scale", 1.0), cached.cache_clear]),
    "method": (lambda x: S.watched.method(x), _k()),
    "another method": (lambda x: S.watched.method(x), [
        *_set(Watched, "method", lambda self, x: x * 7), *_set(Watched, "method", Watched.method)]),
    "special method": (lambda x: S.watched * x, [
        *_set(Watched, "__mul__", lambda self, x: x * 7),
        *_set(Watched, "__mul__", Watched.__mul__)]),
    "function": (with_attribute, _set(with_attribute, "k", 2.0, 1.0)),
    "partial": (lambda x: S.partial(x), _set(
        S, "partial", functools.partial(lambda k, x: x * k, 3.0), S.partial)),
    "weak reference": (lambda x: x * reference().k, _k()),  # type: ignore[union-attr]
    "format": (lambda x: x * float("{s.k}".format(s=S.watched)), _k()),  # noqa: UP032
    "item of attributes": (lambda x: x * operator.itemgetter("k")(vars(S.watched)), _k()),
    "names": (lambda x: x * len([n for n in dir(S.watched) if n == "extra"]), [
        *_set(S.watched, "extra", 1), lambda: delattr(S.watched, "extra")]),
    "copy": (lambda x: x * copy.copy(S.watched).k, _k()),
    "replaced": (lambda x: x * dataclasses.replace(S.setting).k, _set(S.setting, "k", 2.0, 1.0)),
    "as a dict": (lambda x: x * dataclasses.asdict(S.setting)["k"], _set(S.setting, "k", 2.0, 1.0)),
    "equality": (lambda x: x * (2 if S.setting == Setting() else 3),
                 _set(S.setting, "k", 2.0, 1.0)),
    "elements": (lambda x: x * sum(S.watched.items), _put(S.watched.items, 0, 5.0, 1.0)),
    "descriptor": (lambda x: x * Held.described, _set(Descriptor, "v", 2.0, 1.0)),
    "class of a class": (lambda x: x * Held.double, _set(Held, "z", 2.0, 1.0)),
    "absent attribute": (lambda x: x * Held.absent, _set(
        Meta, "__getattr__", lambda cls, name: 5.0, Meta.__getattr__)),
    "attribute of a tensor": (lambda x: x * S.tensor.k, _set(S.tensor, "k", 2.0, 1.0)),
    "thread": (lambda x: x * S.local.k, _set(S.local, "k", 2.0, 1.0)),
    "context": (lambda x: x * S.variable.get(),
                [lambda: S.variable.set(2.0), lambda: S.variable.set(1.0)]),
    "nested": (lambda x: x * S.deep[1][2][3], _put(S.deep[1][2], 3, 2.0, 1.0)),
}  # fmt: skip


@pytest.mark.parametrize("kind", READ)
def test_changes_of_state_are_seen(kind: str) -> None:
    function, changes = READ[kind]
    captured, x = lt.jit(function), lt.ones(2).realize()
    for _ in range(2):
        for change in changes:
            for _ in range(4):
                assert captured(x).tolist() == function(x).tolist(), captured.why()
            change()


def _part(i: int) -> Any:
    part: Any = lt.arange(12.0).reshape(4, 3)[i % 4]
    part.label = i
    return part


def _shared(i: int) -> Any:
    shared: Any = lt.from_numpy(np.full(3, float(i), "float32"))
    shared.label = i
    return shared


def filled(i: int) -> Any:
    """A vector of this number."""
    return lt.full((2,), float(i))


ones = lt.ones(2).realize()
GIVEN: dict[str, tuple[Callable[[Any], Any], Callable[[int], Any]]] = {
    "part with attributes": (lambda b: b * b.label, _part),
    "shared with attributes": (lambda b: b * b.label, _shared),
    "enum": (lambda e: ones * e.value, lambda i: Mode.first if i % 2 else Mode.second),
    "class": (lambda c: c().k * ones, lambda i: type("Made", (Watched,), {"extra": i})),
    "array": (lambda a: lt.tensor(a) * 2, lambda i: np.full(2, float(i), "float32")),
    "fraction": (lambda a: ones * float(a), lambda i: fractions.Fraction(i, 2)),
    "time": (lambda a: ones * a.days, lambda i: datetime.timedelta(days=i)),
    "chain": (lambda a: a["x"] * 2, lambda i: collections.ChainMap({"x": filled(i)})),
    "user dict": (lambda a: a["x"] * 2, lambda i: Users(x=filled(i))),
    "counter": (lambda a: ones * a["x"], lambda i: collections.Counter("x" * i)),
    "generator": (lambda a: sum(a), lambda i: (filled(i + k) for k in range(3))),
    "iterator": (lambda a: sum(a), lambda i: iter([filled(i), filled(1)])),
    "range": (lambda a: ones * sum(a), range),
    "values": (lambda a: sum(a), lambda i: {k: filled(i) for k in range(2)}.values()),
    "set": (lambda a: sum(a), lambda i: {filled(i)}),
    "whole number": (lambda a: ones * a, lambda i: type("Number", (int,), {})(i)),
    "equal keys": (lambda d: ones * (3 if any(k is True for k in d) else 4),
                   lambda i: {True: 1} if i % 2 else {1: 1}),
    "namespace": (lambda n: n.x * n.k, lambda i: types.SimpleNamespace(x=filled(i), k=i)),
}  # fmt: skip


@pytest.mark.parametrize("kind", GIVEN)
def test_fresh_arguments_of_many_kinds(kind: str) -> None:
    function, make = GIVEN[kind]
    captured = lt.jit(function)
    for i in range(8):
        assert captured(make(i)).tolist() == function(make(i)).tolist(), captured.why()


@pytest.mark.parametrize("make", [
    lambda: iter(range(1, 99)), lambda: itertools.count(1), lambda: (k + 1 for k in range(99)),
    lambda: zip(range(1, 99)), lambda: map(abs, range(1, 99)), lambda: enumerate(range(1, 99)),
])  # fmt: skip
def test_elements_of_iterators_are_taken_at_every_call(make: Callable[[], Any]) -> None:
    items = make()

    def function(x: Any) -> Any:
        for item in items:
            return x * (item if isinstance(item, int) else item[-1])
        return x

    captured = lt.jit(function)
    found = [captured(ones).tolist()[0] for _ in range(7)]
    assert found == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]
    assert "iterator" in captured.why()[-1]
