"""Numbers that are read from memory and written to it one by one: nobody sees that no graph was
built."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import lazyt as lt
from lazyt.errors import GradientError
from lazyt.handle.interop import elements
from lazyt.handle.interop.elements import write_number
from lazyt.plan import planning

DTYPES = ("float32", "float64", "int64", "int32", "int16", "int8", "uint8", "bool")


@pytest.mark.parametrize("name", DTYPES)
def test_numbers_go_straight_to_memory(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    dtype = getattr(lt, name)
    x = lt.zeros(2, 3, dtype=dtype)
    x[0, 1] = True if name == "bool" else 1  # it gets memory
    monkeypatch.setattr(planning, "realize", None)
    values = [True, False] if name == "bool" else [3, 100] if name == "uint8" else [3, -100]
    for value in values:
        before = x._version
        assert write_number(x, (-1, 2), value)
        assert x[1, 2].item() == value and type(x[1, 2].item()) is type(np.zeros(1, name).item())
        assert x._version == before + 1
    assert x.tolist() == [[0, 1, 0], [0, 0, values[-1]]]


def test_numbers_are_rounded_as_pytorch_rounds_them() -> None:
    x = lt.zeros(2)
    x[0] = 0.1
    x[1] = 1 << 24
    assert x.tolist() == [float(np.float32(0.1)), float(1 << 24)]
    assert not write_number(x, 0, (1 << 24) + 1) and not write_number(x, 0, 1e39)
    with pytest.raises(RuntimeError, match="overflow"):
        x[0] = 1e39
    assert not write_number(lt.zeros(2, dtype=lt.int8), 0, 300)
    assert not write_number(lt.zeros(2, dtype=lt.int64), 0, 1.5)
    assert not write_number(lt.zeros(2, dtype=lt.bfloat16), 0, 1.5)
    assert not write_number(lt.zeros(2), 2, 1.0) and not write_number(lt.zeros(2), -3, 1.0)
    assert not write_number(lt.zeros(2, 2), 0, 1.0)


def test_what_was_computed_from_the_old_value_keeps_it() -> None:
    x = lt.arange(4.0).realize()
    before, copy = x * 2, x.clone()
    x[1] = 10.0
    x[2] = 20.0
    assert before.tolist() == [0, 2, 4, 6] and copy.tolist() == [0, 1, 2, 3]
    assert x.tolist() == [0, 10, 20, 3]
    computed = x + 0
    assert computed.tolist() == [0, 10, 20, 3]
    x[0] = 5.0
    assert computed.tolist() == [0, 10, 20, 3] and x.tolist() == [5, 10, 20, 3]


def test_views_and_numpy_see_the_writes() -> None:
    x = lt.zeros(4)
    x[0] = 1.0
    view = x[1:3]
    assert view.tolist() == [0, 0]
    x[1] = 2.0
    assert view.tolist() == [2, 0] and view[0].item() == 2.0
    view[1] = 3.0
    assert x.tolist() == [1, 2, 3, 0]
    array = x.numpy()
    x[3] = 4.0
    assert array.tolist() == [1, 2, 3, 4]
    array[0] = 9.0
    assert x[0].item() == 9.0 and x.detach()[0].item() == 9.0
    given = np.zeros(2, np.float32)
    shared = lt.from_numpy(given)
    shared[1] = 7.0
    assert given.tolist() == [0, 7]


def test_autograd_hears_of_writes() -> None:
    w, x = lt.ones(3).requires_grad_(), lt.ones(3)
    x[0] = 2.0
    loss = (w * x).sum()
    x[0] = 3.0
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()
    with pytest.raises(GradientError, match="leaf Variable"):
        w[0] = 1.0
    y = w * 2
    y[0] = 5.0
    y.sum().backward()
    assert w.grad.tolist() == [0, 2, 2]  # type: ignore[union-attr]


def test_captured_functions_see_the_writes() -> None:
    x = lt.zeros(3)
    step = lt.jit(lambda: x * 2)
    for number in range(8):
        x[1] = float(number)
        assert step().tolist() == [0, 2.0 * number, 0]

    @lt.jit
    def writes(y: Any) -> Any:
        z = lt.zeros(3)
        z[1] = 4.0
        return z + y

    for number in range(8):
        assert writes(lt.full((3,), float(number))).tolist() == [number, number + 4, number]


def test_a_part_of_a_small_value_computes_it_once(monkeypatch: pytest.MonkeyPatch) -> None:
    x = lt.arange(6.0).realize() * 2
    assert x[1].item() == 2.0
    monkeypatch.setattr(planning, "realize", None)
    assert [x[i].item() for i in range(6)] == [0, 2, 4, 6, 8, 10]
    assert x.reshape(2, 3).T[2, 1].item() == 10.0


@pytest.mark.lazy
def test_a_part_of_a_large_value_is_computed_alone() -> None:
    x = lt.zeros(elements.MOST_FOR_A_PART).realize() + 1
    assert x[3].item() == 1.0 and x.node.data is None
    whole = lt.ones(8)  # nor is a constant repeated
    assert whole[3].item() == 1.0 and whole.node.data is None


@pytest.mark.parametrize("value", [0.1, -0.0, float("inf"), float("nan"), 3.0e38])
def test_a_constant_is_read_without_a_plan(value: float, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = repr(lt.full((3,), value).realize()[1].item())
    monkeypatch.setattr(planning, "realize", None)
    assert repr(lt.full((3, 2), value)[1, 0].item()) == wanted
    assert repr(lt.full((), value).item()) == wanted
    assert lt.ones(4, dtype=lt.bool)[2].item() is True and lt.full((2,), 7)[0].item() == 7


def test_parts_under_gradients() -> None:
    w = lt.arange(3.0).requires_grad_()
    y = w * w
    assert [y[i].item() for i in range(3)] == [0, 1, 4]
    y[2].backward()
    assert w.grad.tolist() == [0, 0, 4]  # type: ignore[union-attr]
