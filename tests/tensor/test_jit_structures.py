"""Captured functions of structured arguments, with structured results, and over containers.

Fresh structures that look alike are replayed; results are put together as their own type; what
changes in a container that the function reaches is seen whatever its class is.
"""

from __future__ import annotations

import functools
import operator
import types
from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

import lazyt as lt
from lazyt import nn

pytestmark = [pytest.mark.lazy, pytest.mark.filterwarnings("ignore:lazyt.jit leaves")]


@dataclass
class Batch:
    """Tensors with a setting."""

    x: Any
    scale: float = 2.0
    rest: Any = field(default_factory=list)

    def scaled(self) -> Any:
        """Their product."""
        return self.x * self.scale


@dataclass(frozen=True, slots=True)
class Frozen:
    """Without a dict, and not to be changed."""

    x: Any
    n: float = 3


class Output(OrderedDict[str, Any]):
    """A dict with attributes of the same names, as models return."""

    def __setitem__(self, key: str, value: Any) -> None:
        super().__setitem__(key, value)
        super().__setattr__(key, value)


class Registry(dict[str, Any]):
    """A dict whose methods are its own."""

    def get(self, key: str) -> Any:  # type: ignore[override]
        """What there is, or an empty dict."""
        return super().get(key) or {}

    def __getitem__(self, key: str) -> Any:
        return super().__getitem__(key.lower())

    def __len__(self) -> int:
        return 7

    def __iter__(self) -> Any:
        return iter(())


class Row(list[Any]):
    """A list with an attribute."""

    label = "row"


class Plain:
    """An object of the user's."""

    def __init__(self, x: Any, n: float = 2) -> None:
        self.x, self.n, self.seen = x, n, 0

    def scaled(self, t: Any) -> Any:
        """By both."""
        return t * self.x * self.n


Point = namedtuple("Point", "x y")


class Pair(Point):
    """With a method."""

    def total(self) -> Any:
        """Of both."""
        return self.x + self.y


def filled(i: int) -> Any:
    """A computed tensor of this number."""
    return lt.full((3,), float(i)).realize()


def row(*items: Any, label: str = "row") -> Row:
    """A list with a label of its own."""
    made = Row(items)
    made.label = label
    return made


def closure(i: int) -> Callable[[Any], Any]:
    """A function that knows a tensor."""
    w = filled(i)
    return lambda t: t * w


def with_default(i: int) -> Callable[..., Any]:
    """A function that knows a tensor by a default."""
    known = filled(i)
    return lambda t, w=known: t * w


ones = lt.ones(3).realize()
GIVEN: dict[str, tuple[Callable[[Any], Any], Callable[[int], Any]]] = {
    "dataclass": (lambda b: b.scaled() + 1, lambda i: Batch(filled(i))),
    "frozen": (lambda b: b.x * b.n, lambda i: Frozen(filled(i))),
    "nested": (lambda b: b.rest[0]["k"].x * b.x,
               lambda i: Batch(filled(i), 1.0, [{"k": Batch(filled(i))}])),
    "ordered": (lambda d: d["a"] * 2, lambda i: OrderedDict(a=filled(i))),
    "default": (lambda d: d["a"] * 2, lambda i: defaultdict(list, a=filled(i))),
    "output": (lambda d: d["a"] * d.a, lambda i: Output(a=filled(i))),
    "registry": (lambda d: d["A"] * 2, lambda i: Registry(a=filled(i))),
    "list": (lambda r: r[0] * len(r.label), lambda i: row(filled(i))),
    "deque": (lambda r: r[0] * r.maxlen, lambda i: deque([filled(i)], 2)),
    "named": (lambda p: p.x - p.y, lambda i: Point(filled(i), filled(2 * i))),
    "pair": (lambda p: p.total(), lambda i: Pair(filled(i), 1.5)),
    "returned": (lambda p: p.values * 2 + p.indices, lambda i: filled(i).reshape(1, 3).max(0)),
    "object": (lambda b: b.x * b.n, lambda i: Plain(filled(i))),
    "objects": (lambda bs: bs[0].x * bs[1].n, lambda i: [Plain(filled(i)), Plain(filled(0))]),
    "function": (lambda f: f(ones), closure),
    "default of a function": (lambda f: f(ones), with_default),
    "partial": (lambda f: f(ones), lambda i: functools.partial(lt.mul, filled(i))),
    "partial with names": (lambda f: f(ones), lambda i: functools.partial(lt.add, other=filled(i))),
}  # fmt: skip


@pytest.mark.parametrize("kind", GIVEN)
def test_fresh_arguments_of_one_kind_are_replayed(kind: str) -> None:
    function, make = GIVEN[kind]
    captured = lt.jit(function)
    for i in range(9):
        value = make(i)
        assert captured(value).tolist() == function(value).tolist()
    assert captured.why() == ["captured"]


def test_a_fresh_object_with_a_method() -> None:
    captured = lt.jit(lambda f: f(ones))
    for i in range(12):
        assert captured(Plain(filled(i)).scaled).tolist() == [2.0 * i] * 3
    assert captured.why().count("captured") == 2 and captured.why()[-1] == "captured"


@pytest.mark.parametrize("kind", GIVEN)
def test_what_differs_is_seen(kind: str) -> None:
    """Other numbers, types and sizes in the same places."""
    function, make = GIVEN[kind]
    captured = lt.jit(function)
    others: dict[str, list[Any]] = {
        "dataclass": [Batch(filled(2), 3.0), Batch(ones, 2), Batch(lt.ones(2))],
        "frozen": [Frozen(filled(1), 4), Frozen(filled(1), 4.5)],
        "nested": [Batch(filled(1), 1.0, ({"k": Batch(filled(3))},))],
        "ordered": [OrderedDict(b=ones, a=filled(2)), {"a": filled(3)}],
        "list": [row(filled(1), label="longer"), row(filled(1), filled(2))],
        "deque": [deque([filled(1)], 5), deque([filled(1), filled(2)], 2)],
        "pair": [Pair(filled(1), 2.5), Pair(1.0, filled(2))],
        "object": [Plain(filled(1), 5), Plain(filled(2), 2.0)],
        "function": [lambda t: t + 1, closure(3), lt.relu],
        "partial": [functools.partial(lt.sub, filled(1)), functools.partial(lt.mul, 2.0)],
    }
    for value in [make(1), make(2), make(3), *others.get(kind, []), make(4)]:
        for _ in range(4):
            assert captured(value).tolist() == function(value).tolist()


RESULTS: dict[str, Callable[[Any], Any]] = {
    "dataclass": lambda y: Batch(y),
    "frozen": lambda y: Frozen(y, 5),
    "nested": lambda y: [Batch(Frozen(y), 1.0, {"k": (y, y + 1)})],
    "ordered": lambda y: OrderedDict(b=y, a=y + 1),
    "default": lambda y: defaultdict(list, a=y),
    "output": lambda y: Output(b=y, a=y + 1),
    "list": lambda y: row(y, label="mine"),
    "deque": lambda y: deque([y], 4),
    "named": lambda y: Point(y, 1),
    "pair": lambda y: Pair(y, y + 1),
    "max": lambda y: y.reshape(1, 3).max(0),
    "sort": lambda y: {"sorted": y.sort()},
    "one twice": lambda y: (lambda held: [held, held])([y]),
}


def parts_of(value: Any) -> Any:
    """Types, values and attributes all the way down."""
    if isinstance(value, lt.Tensor):
        return value.tolist()
    found: list[Any] = [type(value).__name__]
    if isinstance(value, dict):
        found += [(key, parts_of(item)) for key, item in dict.items(value)]
    elif isinstance(value, (list, tuple, deque)):
        found += [parts_of(item) for item in value]
    elif not hasattr(value, "__dict__") and not hasattr(value, "__slots__"):
        return value
    found += [(k, parts_of(v)) for k, v in sorted(getattr(value, "__dict__", {}).items())]
    found += [(k, parts_of(getattr(value, k))) for k in getattr(value, "__slots__", ())]
    return [*found, getattr(value, "maxlen", None), getattr(value, "default_factory", None)]


@pytest.mark.parametrize("kind", RESULTS)
def test_results_are_of_their_own_type(kind: str) -> None:
    make = RESULTS[kind]

    def function(x: Any) -> Any:
        return make(x * 2)

    captured = lt.jit(function)
    held = []
    for i in range(8):
        got, want = captured(filled(i)), function(filled(i))
        assert parts_of(got) == parts_of(want)
        held.append((got, want))
        if kind == "one twice":
            assert got[0] is got[1]
        if kind == "output":
            assert got["a"] is got.a
    for got, want in held:
        assert parts_of(got) == parts_of(want)
    assert captured.why() == ["captured"]


def test_objects_that_were_there_before_are_returned_themselves() -> None:
    known, net = Batch(ones), nn.Linear(3, 1)
    for result in (known, [ones], {"a": ones}, net, Output(a=ones)):
        captured = lt.jit(lambda x: (x * 2, result))  # noqa: B023
        for i in range(6):
            y, found = captured(filled(i))
            assert y.tolist() == [2.0 * i] * 3 and found is result, captured.why()


def test_an_object_that_the_function_changes() -> None:
    """It is compared by identity then, and its changes are replayed where they are tensors."""

    def function(b: Any, x: Any) -> Any:
        b.x = b.x + x
        return b.x * b.n

    captured = lt.jit(function)
    objects = [(Plain(filled(k)), Plain(filled(k))) for k in range(3)]
    for i in range(24):
        own, other = objects[i % 3]
        assert captured(own, filled(i)).tolist() == function(other, filled(i)).tolist()
        assert own.x.tolist() == other.x.tolist()
    for i in range(24):
        assert captured(Plain(filled(i)), ones).tolist() == [2.0 * i + 2] * 3


def test_an_object_whose_counter_the_function_counts() -> None:
    def function(b: Any) -> Any:
        b.seen += 1
        return b.x * b.seen

    captured = lt.jit(function)
    for i in range(12):
        assert captured(Plain(filled(i))).tolist() == [1.0 * i] * 3
    held = Plain(ones)
    for i in range(12):
        assert captured(held).tolist() == [i + 1.0] * 3


def test_one_object_given_twice() -> None:
    def function(a: Any, b: Any) -> Any:
        return a.x * 2 + b.x + (a is b)

    captured = lt.jit(function)
    for i in range(12):
        a, b = Plain(filled(i)), Plain(filled(i + 1))
        assert captured(a, b).tolist() == function(a, b).tolist()
        assert captured(a, a).tolist() == function(a, a).tolist()


def test_an_object_that_holds_itself() -> None:
    captured = lt.jit(lambda a: a.x * len(a.me.me.items))
    for i in range(8):
        a: Any = Plain(filled(i))
        a.me, a.items = a, [1]
        a.items.append(a.items)
        assert captured(a).tolist() == [2.0 * i] * 3


class State:
    """What the functions below reach."""

    members: Any = {1, 2}
    table: Any = {"a": 1.0, "b": 2.0}
    space = types.SimpleNamespace(s=2.0)
    view: Any = types.MappingProxyType({"s": 2.0})
    registry = Registry(a={"k": 1})
    plain = Plain(2.0)


def _matched(x: Any) -> Any:
    match State.plain:
        case Plain(n=2):
            return x * 5
    return x


CHANGES: dict[str, tuple[Callable[[Any], Any], Callable[[], Any], Callable[[], Any]]] = {
    "set": (lambda x: x * (5 if 1 in State.members else 7),
            lambda: State.members.add(3) or State.members.discard(1),
            lambda: State.members.add(1) or State.members.discard(3)),
    "order": (lambda x: lt.stack([x * v for v in State.table.values()]),
              lambda: State.table.update(a=State.table.pop("a")),
              lambda: State.table.update(b=State.table.pop("b"))),
    "namespace": (lambda x: x * State.space.s, lambda: setattr(State.space, "s", 3.0),
                  lambda: setattr(State.space, "s", 2.0)),
    "registry": (lambda x: x * State.registry["A"]["k"],
                 lambda: dict.__setitem__(State.registry, "a", {"k": 4}),
                 lambda: dict.__setitem__(State.registry, "a", {"k": 1})),
    "attribute by text": (lambda x: x * operator.attrgetter("n")(State.plain),
                          lambda: setattr(State.plain, "n", 5),
                          lambda: setattr(State.plain, "n", 2)),
    "attribute asked for": (lambda x: x * 2 if hasattr(State.plain, "extra") else x,
                            lambda: setattr(State.plain, "extra", 5),
                            lambda: delattr(State.plain, "extra")),
    "attributes as a dict": (lambda x: x * vars(State.plain)["n"],
                             lambda: setattr(State.plain, "n", 5),
                             lambda: setattr(State.plain, "n", 2)),
    "pattern": (_matched, lambda: setattr(State.plain, "n", 5),
                lambda: setattr(State.plain, "n", 2)),
    "proxy": (lambda x: x * State.view["s"],
              lambda: setattr(State, "view", types.MappingProxyType({"s": 3.0})),
              lambda: setattr(State, "view", types.MappingProxyType({"s": 2.0}))),
}  # fmt: skip


@pytest.mark.parametrize("kind", CHANGES)
def test_changes_of_what_is_reached_are_seen(kind: str) -> None:
    function, there, back = CHANGES[kind]
    captured = lt.jit(function)
    try:
        for _ in range(3):
            for change in (there, back):
                for i in range(5):
                    assert captured(filled(i)).tolist() == function(filled(i)).tolist()
                change()
    finally:
        State.plain.n = 2


def test_a_dict_with_methods_of_its_own_keeps_them() -> None:
    default: Any = defaultdict(lambda: 3.0, a=1.0)
    captured = lt.jit(lambda x: x * default["a"])
    for i in range(9):
        if i == 5:
            del default["a"]
        assert captured(filled(i)).tolist() == [i * (3.0 if i >= 5 else 1.0)] * 3
    assert set(default) == {"a"}


def test_parameter_lists_and_comprehensions() -> None:
    class Sum(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weights = nn.ParameterList([lt.full((2,), float(n)) for n in range(3)])

        def forward(self, x: lt.Tensor) -> Any:
            scaled = {n: w * x for n, w in enumerate(self.weights)}
            return sum([scaled[n] for n in range(len(self.weights))])

    module = Sum()
    captured = lt.jit(module)
    for n in range(5):
        assert captured(lt.full((2,), float(n))).tolist() == [3.0 * n] * 2
    assert captured.why() == ["captured"]
    module.weights[1] = lt.full((2,), 10.0)
    assert captured(lt.ones(2)).tolist() == [12.0] * 2
