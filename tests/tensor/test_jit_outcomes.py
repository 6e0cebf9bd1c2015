"""Captured functions make, give back and change objects as the functions themselves do."""

from __future__ import annotations

import types
from collections import OrderedDict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import Any, NamedTuple

import pytest

import lazyt as lt

pytestmark = [pytest.mark.lazy, pytest.mark.filterwarnings("ignore:lazyt.jit leaves")]


class Layer:
    """Keys of one layer, which grow."""

    def __init__(self) -> None:
        self.keys: Any = None
        self.count = 0
        self.is_begun = False

    def update(self, keys: Any) -> Any:
        """All keys so far."""
        self.keys = lt.cat([self.keys, keys]) if self.is_begun else keys
        self.is_begun = True
        self.count += 1
        return self.keys


class Cache:
    """Layers, made when they are needed."""

    def __init__(self) -> None:
        self.layers: list[Layer] = []
        self.kind = Layer

    def update(self, keys: Any, layer: int) -> Any:
        """All keys of a layer so far."""
        while len(self.layers) <= layer:
            self.layers.append(self.kind())
        return self.layers[layer].update(keys)


class Output(OrderedDict[str, Any]):
    """A dict whose entries are attributes, too."""

    loss: Any
    cache: Any

    def __init__(self, **entries: Any) -> None:
        super().__init__(**entries)
        self.__dict__.update(entries)


def model(x: Any, cache: Cache | None = None) -> Any:
    """What a network with a cache does."""
    cache = Cache() if cache is None else cache
    found = cache.update(x * 2, 0).sum() + cache.update(x * 3, 1).sum()
    return Output(loss=found, cache=cache)


def test_an_output_with_a_cache_that_was_made() -> None:
    captured = lt.jit(model)
    kept = []
    for n in range(8):
        out = captured(lt.ones(3) * n)
        assert type(out) is Output and list(out) == ["loss", "cache"]
        assert out.cache is out["cache"] and type(out.cache) is Cache and out.cache.kind is Layer
        assert out.loss is out["loss"] and out.loss.item() == 15 * n
        assert [layer.count for layer in out.cache.layers] == [1, 1]
        assert all(layer.is_begun for layer in out.cache.layers)
        kept.append(out.cache.layers[0].keys)
    assert [keys.tolist() for keys in kept] == [[2.0 * n] * 3 for n in range(8)]
    assert captured.why() == ["captured"]


def test_a_cache_that_is_given_is_changed() -> None:
    captured = lt.jit(model)
    for start in range(6):
        cache = Cache()
        held = cache.layers
        for n in range(3):
            out = captured(lt.ones(3) * (start + n), cache)
            assert out.cache is cache and cache.layers is held and len(held) == 2
            assert held[1].keys.tolist() == [3.0 * (start + m) for m in range(n + 1) for _ in "abc"]
            assert [layer.count for layer in held] == [n + 1, n + 1]
    assert captured.why().count("captured") == 3  # one for each length
    assert "changes an object that is an argument" in captured.why()[0]


def test_an_object_that_the_function_did_not_change_is_what_it_was() -> None:
    class Box:
        def __init__(self, value: Any) -> None:
            self.value, self.other = value, value

    def function(box: Any) -> Any:
        box.value = box.value * 2
        return box, [box]

    captured = lt.jit(function)
    for n in range(7):
        box = Box(lt.ones(2) * n)
        other = box.other
        first, (second,) = captured(box)
        assert first is second is box and box.other is other
        assert box.value.tolist() == [2.0 * n] * 2 and other.tolist() == [1.0 * n] * 2
    assert captured.why()[-1] == "captured"


def test_lists_dicts_and_deques_that_are_given_are_changed() -> None:
    def function(items: Any, table: Any, queue: Any) -> Any:
        items.append(items[0] + 1)
        table["b"] = items[-1]
        del table["a"]
        queue.appendleft(table["b"] * 2)
        return items

    captured = lt.jit(function)
    for n in range(7):
        x = lt.ones(2) * n
        items, table, queue = [x], {"a": x, "c": x}, deque([x], maxlen=2)
        assert captured(items, table, queue) is items
        assert items[0] is x and len(items) == 2 and items[1].tolist() == [n + 1.0] * 2
        assert list(table) == ["c", "b"] and table["c"] is x and table["b"] is items[1]
        assert queue[1] is x and queue[0].tolist() == [2.0 * n + 2] * 2 and queue.maxlen == 2
    assert captured.why() == ["captured"]


def test_state_that_is_changed_and_put_back_by_others() -> None:
    class State:
        def __init__(self) -> None:
            self.history: list[Any] = []
            self.step = 0
            self.names: set[str] = set()

    state = State()

    def function(x: Any) -> Any:
        state.history.append(x * 2)
        state.step += 1
        state.names.add("seen")
        state.last = {"x": state.history[-1]}  # type: ignore[attr-defined]
        return x + state.step

    captured = lt.jit(function)
    for n in range(8):
        found = captured(lt.ones(2) * n)
        assert found.tolist() == [n + 1.0] * 2 and state.step == 1 and state.names == {"seen"}
        assert [x.tolist() for x in state.history] == [[2.0 * n] * 2]
        assert state.last["x"] is state.history[0]  # type: ignore[attr-defined]
        state.step = 0
        state.history.clear()
        state.names.clear()
        del state.last  # type: ignore[attr-defined]
    assert "captured" in captured.why()


def test_what_a_function_counts_is_not_captured_for_ever() -> None:
    counts = {"n": 0}

    def function(x: Any) -> Any:
        counts["n"] += 1
        return x * counts["n"]

    captured = lt.jit(function)
    assert [captured(lt.ones(1)).item() for _ in range(12)] == list(range(1, 13))
    assert captured.why().count("captured") == 4
    assert "it changes counts['n'] at every call" in captured.why()[-1]


class Color(Enum):
    """A choice."""

    RED = 1


class Point(NamedTuple):
    """Two tensors."""

    x: Any
    y: Any = None


@dataclass
class Record:
    """A tensor with others."""

    value: Any
    more: list[Any] = field(default_factory=list)


class Slotted:
    """No dict."""

    __slots__ = ("a", "b")

    def __init__(self, a: Any) -> None:
        self.a = a


def test_objects_of_all_kinds() -> None:
    def function(x: Any) -> Any:
        y = x * 2
        record = Record(y)
        record.more.append(record)
        method = record.more.append
        return (
            record, Point(y, record), Slotted(y), types.SimpleNamespace(y=y), Color(1), Record,
            {"k": y}.values(), partial(lt.add, y, alpha=2), method,
        )  # fmt: skip

    captured = lt.jit(function)
    for n in range(6):
        record, point, slotted, space, color, kind, view, add, method = captured(lt.ones(2) * n)
        assert record.value.tolist() == [2.0 * n] * 2 and record.more == [record]
        assert type(point) is Point and point.x is record.value and point.y is record
        assert slotted.a is record.value and not hasattr(slotted, "b")
        assert space.y is record.value and color is Color.RED and kind is Record
        assert [*view] == [record.value] and len(view) == 1
        assert add(lt.ones(2)).tolist() == [2.0 * n + 2] * 2
        method(3)
        assert record.more == [record, 3]
    assert captured.why() == ["captured"]


def test_functions_iterators_and_generators() -> None:
    def function(x: Any) -> Any:
        y, calls = x * 2, 0

        def add(z: Any, *, scale: Any = y) -> Any:
            nonlocal calls
            calls += 1
            return z + y * calls + scale

        def calls_of() -> int:
            return calls

        def down(n: int) -> Any:
            return y if n == 0 else down(n - 1) + y

        def produce(a: Any, *rest: Any, c: Any = 3) -> Iterator[Any]:
            yield a
            yield rest
            yield c

        add.note = y  # type: ignore[attr-defined]
        begun = iter([x, y, y])
        begun.__next__()
        return (
            add, calls_of, down, begun, map(down, [1, 2]), zip([y], [1]), enumerate([y], 5),
            produce(y, x, c=y), (v + 1 for v in [y]),
        )  # fmt: skip

    captured = lt.jit(function)
    for n in range(6):
        add, calls_of, down, rest, mapped, pairs, numbered, made, each = captured(lt.ones(2) * n)
        assert calls_of() == 0 and add(lt.ones(2)).tolist() == [4.0 * n + 1] * 2
        assert add(0, scale=0).tolist() == [4.0 * n] * 2 and calls_of() == 2
        assert add.note is add.__kwdefaults__["scale"] and add.__name__ == "add"
        assert down(2).tolist() == [6.0 * n] * 2
        assert [v.tolist() for v in rest] == [[2.0 * n] * 2] * 2
        assert [v.tolist() for v in mapped] == [[4.0 * n] * 2, [6.0 * n] * 2]
        ((value, one),) = pairs
        assert value.tolist() == [2.0 * n] * 2 and one == 1 and next(numbered)[0] == 5
        first, others, last = made
        assert first is last and others[0].tolist() == [1.0 * n] * 2
        assert [v.tolist() for v in each] == [[2.0 * n + 1] * 2]
    assert captured.why() == ["captured"]


def test_a_generator_that_has_begun_is_not_made_again() -> None:
    def function(x: Any) -> Any:
        made = (x * n for n in range(3))
        made.__next__()
        return made

    captured = lt.jit(function)
    for _ in range(5):
        assert [v.item() for v in captured(lt.ones(1))] == [1, 2]
    assert all(reason.startswith("not captured") for reason in captured.why())


class Single:
    """There is one of it."""

    made: list[Single] = []

    @classmethod
    def get(cls) -> Single:
        """The one."""
        return hidden()


_SINGLE = Single()
_POOL = {"single": _SINGLE}
hidden = partial(dict.__getitem__, _POOL, "single")


def test_objects_that_were_there_before_stand_for_themselves() -> None:
    captured = lt.jit(lambda x: (x + 1, Single.get()))
    for _ in range(6):
        assert captured(lt.ones(1))[1] is _SINGLE
    assert captured.why() == ["captured"]


def test_results_of_a_function_that_is_differentiated() -> None:
    w = lt.full((2,), 3.0, requires_grad=True)

    def function(x: Any) -> Any:
        return Record(x * w, [w, {"square": (x * w) ** 2}])

    captured = lt.jit(function)
    for n in range(1, 6):
        w.grad = None
        found = captured(lt.ones(2) * n)
        assert found.more[0] is w
        (found.value + found.more[1]["square"]).sum().backward()
        assert w.grad.tolist() == [n + 6.0 * n * n] * 2  # type: ignore[attr-defined]
    assert captured.why() == ["captured"]
