"""Captured functions of objects: each object has its own result, whatever address it has."""

from __future__ import annotations

import functools
import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest

import lazyt as lt
from lazyt import nn
from lazyt.handle.pytree import Identity

pytestmark = [pytest.mark.lazy, pytest.mark.filterwarnings("ignore:lazyt.jit leaves")]
CALLS = 24


class Box:
    """An object with a tensor in an attribute."""

    def __init__(self, x: Any) -> None:
        self.x = x

    def scaled(self, t: Any) -> Any:
        """What ``t`` becomes."""
        return t * self.x


class Slots:
    """An object without a dict, which nothing can refer to weakly."""

    __slots__ = ("x",)

    def __init__(self, x: Any) -> None:
        self.x = x


def filled(i: int) -> Any:
    """A tensor of this number."""
    return lt.full((4,), float(i))


def linear(i: int) -> nn.Linear:
    """A layer with this weight."""
    made = nn.Linear(4, 1, bias=False)
    with lt.no_grad():
        made.weight.fill_(float(i))
    return made


def closure(i: int) -> Callable[[Any], Any]:
    """A function that knows a tensor."""
    w = filled(i)
    return lambda t: t * w


def hooked(i: int) -> Any:
    """A leaf whose gradient is scaled."""
    x = lt.ones(4, requires_grad=True)
    x.register_hook(lambda grad: grad * i)
    return x


def marked(i: int) -> Any:
    """A tensor with an attribute."""
    x = lt.ones(4)
    x.box = Box(filled(i))  # type: ignore[attr-defined]
    return x


def gradient(x: Any) -> Any:
    """Of a leaf with a hook."""
    (found,) = lt.autograd.grad((x * 2).sum(), x)
    return found


ones = lt.ones(4).realize()
KINDS: dict[str, tuple[Callable[[Any], Any], Callable[[int], Any]]] = {
    "attribute": (lambda b: b.x.sum(), lambda i: Box(filled(i))),
    "slot": (lambda b: b.x.sum(), lambda i: Slots(filled(i))),
    "in a list": (lambda bs: bs[0].x.sum(), lambda i: [Box(filled(i))]),
    "in a dict": (lambda d: d["b"].x.sum(), lambda i: {"b": Box(filled(i))}),
    "number": (lambda b: ones * b.x, lambda i: Box(i)),
    "module": (lambda m: m(ones), linear),
    "function": (lambda f: f(ones), closure),
    "partial": (lambda f: f(ones), lambda i: functools.partial(lt.mul, filled(i))),
    "partial of a function": (lambda f: f(), lambda i: functools.partial(closure(i), ones)),
    "method": (lambda f: f(ones), lambda i: Box(filled(i)).scaled),
    "method of a module": (lambda f: f(ones), lambda i: linear(i).forward),
    "hook": (gradient, hooked),
    "attribute of a tensor": (lambda x: x * x.box.x, marked),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("alive", [False, True])
def test_fresh_objects_have_their_own_results(kind: str, alive: bool) -> None:
    function, make = KINDS[kind]
    captured = lt.jit(function)
    held = []
    for i in range(CALLS):
        value = make(i)
        assert captured(value).tolist() == function(value).tolist()
        if alive:
            held.append(value)
        del value


@pytest.mark.parametrize("kind", ["attribute", "in a list", "module", "function", "method"])
def test_fresh_objects_are_not_kept_alive(kind: str) -> None:
    function, make = KINDS[kind]
    captured = lt.jit(function)
    living: weakref.WeakSet[Any] = weakref.WeakSet()
    for i in range(CALLS):
        value = make(i)
        held = value[0] if kind == "in a list" else value
        living.add(getattr(held, "__self__", held))
        captured(value)
        captured(value)
        captured(value)
        del value, held
    gc.collect()
    assert len(living) <= 2


def test_an_identity_is_that_of_a_living_object() -> None:
    box = Box(1)
    one, other = Identity(box), Identity(box)
    assert one == other and hash(one) == hash(other) and one.value is box
    del box
    gc.collect()
    assert one == one and one != other and one.value is None
    assert Identity(Slots(1)) != Identity(Slots(1)) and Identity(()) != ()
