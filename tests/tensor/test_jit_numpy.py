"""Captured functions of tensors whose memory NumPy sees: what is read, when, and where."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import lazyt as lt
from lazyt import Tensor
from lazyt.runtime.memory import Buffer

CALLS = 5


@pytest.mark.lazy
def test_each_call_sees_what_numpy_wrote() -> None:
    step = lt.jit(lambda x, y: x @ y + 1)
    a, b = np.ones((6, 5), np.float32), np.full((5, 4), 2, np.float32)
    x, y = lt.from_numpy(a), lt.from_numpy(b)
    kept: list[tuple[Tensor, float]] = []
    for number in range(CALLS):
        a[:] = number
        kept.append((step(x, y), 10.0 * number + 1))
    a[:] = 99
    for result, value in kept:
        np.testing.assert_array_equal(result.numpy(), np.full((6, 4), value, np.float32))
    assert step.why() == ["captured"]


@pytest.mark.lazy
def test_memory_is_read_as_it_lies(monkeypatch: pytest.MonkeyPatch) -> None:
    step = lt.jit(lambda x: x * 2)
    a = np.arange(64, dtype=np.float32)
    x = lt.from_numpy(a)
    with lt.config.override(any_size=False):  # kernels for any size are left sooner or later
        for _ in range(3):
            step(x)

    def refuse(*_: Any) -> None:
        raise AssertionError("the memory was copied, or compared with a copy")

    monkeypatch.setattr(Buffer, "copy_from", refuse)
    monkeypatch.setattr(Buffer, "holds", refuse)
    with lt.config.override(any_size=False):
        result = step(x)
    monkeypatch.undo()
    np.testing.assert_array_equal(result.numpy(), a * 2)


def test_memory_that_was_given_to_numpy_counts_too() -> None:
    step = lt.jit(lambda x: x.sum())
    x = lt.ones(8)
    seen = x.numpy()
    found = []
    for number in range(CALLS):
        seen[0] = number
        found.append(step(x).item())
    assert found == [7.0 + n for n in range(CALLS)]


@pytest.mark.filterwarnings("ignore:lazyt.jit leaves")
def test_arguments_and_views_of_them_come_back_as_they_are() -> None:
    def step(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return x, x + y

    a = np.zeros(4, np.float32)
    x, captured = lt.from_numpy(a), lt.jit(step)
    for number in range(CALLS):
        a[:] = number
        same, result = captured(x, x)
        assert same is x
        np.testing.assert_array_equal(result.numpy(), np.full(4, 2 * number, np.float32))
    part = lt.jit(lambda x: x[1:3])
    for number in range(CALLS):
        view = part(x)
        a[:] = -number
        np.testing.assert_array_equal(view.numpy(), np.full(2, -number, np.float32))


@pytest.mark.filterwarnings("ignore:lazyt.jit leaves")
def test_writes_to_such_an_argument_show() -> None:
    @lt.jit
    def step(x: Tensor) -> Tensor:
        x.add_(1)
        return x * 10

    a = np.zeros(4, np.float32)
    x = lt.from_numpy(a)
    for number in range(CALLS):
        result = step(x)
        np.testing.assert_array_equal(a, np.full(4, number + 1, np.float32))
        np.testing.assert_array_equal(result.numpy(), a * 10)


@pytest.mark.parametrize("shift", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.float64])
def test_memory_may_begin_anywhere(shift: int, dtype: Any) -> None:
    size = np.dtype(dtype).itemsize
    memory = np.arange(40 * size + 64, dtype=np.uint8) % 7
    start = -memory.ctypes.data % 64 + shift * size
    a = memory[start : start + 20 * size].view(dtype)
    a[:] = np.arange(20)
    x, w = lt.from_numpy(a).view(4, 5), lt.from_numpy(a)
    product = lt.jit(lambda x, w: (x.float() @ x.float().t(), w + w))
    for number in range(CALLS):
        a[0] = number
        left, right = product(x, w)
        wide = a.astype(np.float32).reshape(4, 5)
        np.testing.assert_array_equal(left.numpy(), wide @ wide.T)
        np.testing.assert_array_equal(right.numpy(), a + a)


def test_gradients_of_such_a_tensor() -> None:
    a = np.arange(4, dtype=np.float32)
    x = lt.from_numpy(a).requires_grad_()

    @lt.jit
    def step(x: Tensor) -> Tensor:
        loss = (x * x).sum()
        loss.backward()
        return loss

    for number in range(CALLS):
        x.grad = None
        a[:] = number
        assert step(x).item() == 4 * number * number
        assert x.grad is not None
        np.testing.assert_array_equal(x.grad.numpy(), 2 * a)


@pytest.mark.lazy
def test_state_on_memory_of_an_array_that_is_gone() -> None:
    class Scale(lt.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            marks = np.arange(6, dtype=np.float32)
            self.low = lt.nn.Parameter(lt.from_numpy(marks[:-1]).view(-1, 1))
            self.high = lt.from_numpy(np.ones((5, 1), np.float32))

        def forward(self, x: Tensor) -> Tensor:
            return (self.low * x + self.high).sum()

    scale = Scale()
    step = lt.jit(scale)
    for number in range(CALLS):
        scale.zero_grad()
        found = step(lt.full((3,), float(number)))
        found.backward()
        assert found.item() == 30.0 * number + 15
        assert scale.low.grad is not None and scale.low.grad.tolist() == [[3.0 * number]] * 5
    assert step.why() == ["captured"]


@pytest.mark.lazy
@pytest.mark.filterwarnings("ignore:lazyt.jit leaves")
def test_state_on_memory_of_an_array_that_somebody_has() -> None:
    array = np.ones(4, np.float32)
    weights = lt.from_numpy(array)
    step = lt.jit(lambda x: (x * weights).sum())
    found = []
    for number in range(CALLS):
        array[0] = number
        found.append(step(lt.ones(4)).item())
    assert found == [3.0 + n for n in range(CALLS)]
    assert "shares memory with NumPy" in step.why()[-1]
