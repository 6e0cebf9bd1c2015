"""Arguments that compiled C looks at before a captured call."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

import lazyt as lt
from lazyt.errors import ShapeError
from lazyt.tracing.fast_path import MISSED, Admission

Tensor = lt.Tensor


class Own(Tensor):
    """A class of the user's."""


def plain(*shape: int) -> Tensor:
    """A tensor that suits ``admission()``, with a dict that is there already."""
    made = lt.rand(*(shape or (3,))).realize()
    assert not made.__dict__
    return made


def admission(count: int = 1, others: tuple[Tensor, ...] = ()) -> Any:
    """What looks at ``count`` tensors of three numbers."""
    try:
        return Admission([plain() for _ in range(count)], [t._storage for t in others])
    except LookupError as error:
        pytest.skip(f"not on this interpreter: {error}")


def with_attribute() -> Tensor:
    made = plain()
    made.note = 1  # type: ignore[attr-defined]
    return made


def shared() -> Tensor:
    made = plain()
    made.detach()
    made.numpy()
    return made


def of_own_class() -> Tensor:
    made: Tensor = plain().as_subclass(Own)
    assert not made.__dict__
    return made


UNSUITED: dict[str, Callable[[], Any]] = {
    "another shape": lambda: plain(4),
    "another dtype": lambda: plain().to(lt.float64).realize(),
    "a view": lambda: plain(2, 3)[0],
    "a gradient": lambda: plain().requires_grad_(),
    "history": lambda: plain().requires_grad_() * 2,
    "an attribute": with_attribute,
    "memory that NumPy sees": shared,
    "a class of its own": of_own_class,
    "no tensor": lambda: 3.0,
}


@pytest.mark.parametrize("kind", UNSUITED)
def test_what_does_not_suit_is_not_admitted(kind: str) -> None:
    looks = admission(2)
    a, b = plain(), plain()
    other: Any = UNSUITED[kind]()
    assert looks.admit((a, b)) is True
    assert looks.admit((a, other)) is False and looks.admit((other, b)) is False


def test_numbers_of_arguments_and_what_they_share() -> None:
    looks = admission(2)
    a, b = plain(), plain()
    assert looks.admit((a,)) is False and looks.admit((a, b, plain())) is False
    assert looks.admit(()) is False and looks.admit((a, a)) is False
    known = admission(2, (b,))
    assert known.admit((a, plain())) is True
    assert known.admit((a, b)) is False and known.admit((b, a)) is False


def test_pending_values_are_admitted_and_computed() -> None:
    looks = admission()
    double = lt.jit(lambda x: x * 2, fullgraph=True)
    for number in range(12):
        x = lt.full((3,), float(number)) + 1
        assert not x.__dict__ and looks.admit((x,)) is True
        assert double(x).tolist() == [2.0 * (number + 1)] * 3


def step(x: Any, y: Any) -> Any:
    return x * y + 1


@pytest.mark.parametrize("kind", UNSUITED)
def test_captured_calls_take_any_tensor_after_many_plain_ones(kind: str) -> None:
    captured = lt.jit(step)
    for _ in range(8):
        captured(plain(), plain()).realize()
    other: Any = UNSUITED[kind]()
    for args in ((other, plain()), (plain(), other)):
        try:
            wanted: Any = step(*args).tolist()
        except ShapeError as error:
            with pytest.raises(type(error)):
                captured(*args)
        else:
            assert captured(*args).tolist() == wanted


def test_captured_calls_take_one_tensor_twice_or_by_name() -> None:
    captured = lt.jit(step)
    for _ in range(8):
        captured(plain(), plain()).realize()
    same = plain()
    for _ in range(4):
        assert captured(same, same).tolist() == step(same, same).tolist()
        assert captured(same, y=same).tolist() == step(same, same).tolist()
    with pytest.raises(TypeError):
        captured(same)


def test_a_written_argument_must_not_be_the_parameter() -> None:
    weight = plain()

    def step(x: Tensor) -> Tensor:
        x += weight
        return x * weight

    captured = lt.jit(step)
    for _ in range(8):
        x = plain()
        wanted = (x + weight) * weight
        assert captured(x).tolist() == wanted.tolist()
    value = weight.clone().realize()
    assert captured(weight).tolist() == ((value + value) * (value + value)).tolist()
    assert weight.tolist() == (value + value).tolist()


@pytest.mark.varies  # whose turn it is decides the order in which values are looked at
def test_threads_call_the_same_function() -> None:
    captured = lt.jit(lambda x, y: x - y, fullgraph=True)
    for _ in range(6):
        captured(plain(64), plain(64)).realize()
    wrong: list[int] = []

    def work(number: int) -> None:
        x, y = lt.full((64,), float(number)).realize(), lt.ones(64).realize()
        for turn in range(300):
            if captured(x, y).tolist() != [number - 1.0] * 64:
                wrong.append(turn)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.lazy
def test_fast_paths_have_it_only_where_every_argument_is_a_plain_tensor() -> None:
    tensors = lt.jit(lambda x, y: x + y)
    number = lt.jit(lambda x, y: x + y)
    for _ in range(6):
        tensors(plain(), plain()).realize()
        number(plain(), 2.0).realize()
    (call,) = tensors._fast_paths.calls
    if "admit" not in call.__globals__:
        admission()  # skips where there is none
    assert call((plain(), plain(4)), {}) is MISSED and call((plain(), plain()), {}) is not MISSED
    assert call((plain(), plain()), {"y": 1}) is MISSED
    assert "admit" in call.__globals__
    assert all("admit" not in other.__globals__ for other in number._fast_paths.calls)
