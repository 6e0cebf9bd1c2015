"""Hooks on what functions save for their gradients."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import lazyt
from lazyt.autograd.graph import disable_saved_tensors_hooks, save_on_cpu, saved_tensors_hooks

F = lazyt.nn.functional
SQUARE = [[1.0, 2.0], [3.0, 4.0]]
INDEX = lazyt.tensor([1, 0])


def _in_place(x: Any) -> Any:
    y = x * 2
    y.mul_(x)
    return y


# Each with how many operands its gradients read.
CALLS: list[tuple[Callable[[Any], Any], int]] = [
    (lambda x: x + x, 0),
    (lambda x: x * x, 1),
    (lambda x: (x @ x.t()).sin() * x + x[0], 5),
    (lambda x: x.t().reshape(4).exp(), 1),
    (lambda x: lazyt.where(x > 2, x, x * 2), 1),
    (lambda x: x[INDEX].cos() / x.softmax(-1), 5),
    (lambda x: F.cross_entropy(x, INDEX), 1),
    (_in_place, 2),
]


@pytest.fixture(autouse=True)
def _interpreted() -> Iterator[None]:
    with lazyt.config.override(interpret=True):  # values are small, and kernels not the point
        yield


@pytest.mark.parametrize(("call", "reads"), CALLS, ids=range(len(CALLS)))
def test_operands_are_packed_and_unpacked(call: Callable[[Any], Any], reads: int) -> None:
    """Gradients of both orders are those without hooks."""
    packed: list[Any] = []
    unpacked: list[int] = []

    def pack(tensor: Any) -> int:
        assert not tensor.requires_grad
        packed.append(tensor.numpy().copy())
        return len(packed) - 1

    def unpack(number: int) -> Any:
        unpacked.append(number)
        return lazyt.from_numpy(packed[number])

    found = []
    for hooked in (False, True):
        x = lazyt.tensor(SQUARE, requires_grad=True)
        if hooked:
            with saved_tensors_hooks(pack, unpack):
                y = call(x)
            assert (len(packed), unpacked) == (reads, [])
        else:
            y = call(x)
        (first,) = lazyt.autograd.grad(y.sum(), x, create_graph=True)
        if hooked:
            assert sorted(unpacked) == [*range(reads)]
        assert first is not None
        (second,) = lazyt.autograd.grad((first * first).sum() + 0 * x.sum(), x)
        found.append((first, second))
    for plain, mine in zip(*found):
        assert lazyt.allclose(plain, mine)


def test_what_is_unpacked_is_what_gradients_are_computed_from() -> None:
    def halved(scale: float) -> list[list[float]]:
        x = lazyt.tensor(SQUARE, requires_grad=True)
        weight = lazyt.tensor([[0.5, -1.0], [2.0, 0.25]], requires_grad=True)
        with saved_tensors_hooks(lambda t: t, lambda t: t * scale):
            y = x @ weight
        y.sum().backward()
        assert x.grad is not None and weight.grad is not None
        return [x.grad.flatten().tolist(), weight.grad.flatten().tolist()]

    (x1, w1), (x2, w2) = halved(1), halved(0.5)
    assert (x2, w2) == ([v / 2 for v in x1], [v / 2 for v in w1])
    assert (x1, w1) == ([-0.5, 2.25, -0.5, 2.25], [4.0, 4.0, 6.0, 6.0])
    x = lazyt.tensor(SQUARE, requires_grad=True)
    with saved_tensors_hooks(lambda t: t, lambda t: t[0]):
        y = x.sin()
    with pytest.raises(RuntimeError, match=r"shape \[2\] for a saved float32 tensor .*\[2, 2\]"):
        y.sum().backward()


def test_packed_values_may_be_written_over_and_are_freed() -> None:
    kept: list[Any] = []

    def pack(tensor: Any) -> Any:
        kept.append(weakref.ref(tensor))
        return tensor

    x = lazyt.ones(3, requires_grad=True)
    with saved_tensors_hooks(pack, lambda t: t):
        middle = x * 2
        y = (middle.sin() * 2).sum()
    middle += 1  # hooks answer for what they keep
    assert len(kept) == 1 and kept[0]() is not None
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad is not None and lazyt.allclose(x.grad, 8 * lazyt.tensor([2.0]).cos())
    gc.collect()
    assert kept[0]() is None
    with pytest.raises(RuntimeError, match="second time"):
        y.backward()
    with saved_tensors_hooks(pack, lambda t: t):
        y = x.sin()
    del y
    gc.collect()
    assert kept[1]() is None


def test_no_hooks_where_they_are_not_wanted() -> None:
    seen: list[Any] = []
    x = lazyt.ones(2, requires_grad=True)
    with saved_tensors_hooks(seen.append, lambda t: t):
        with save_on_cpu():
            y = x.sin()
        with lazyt.no_grad():
            x.cos()
        x.detach().cos()
    y.sum().backward()
    assert seen == [] and x.grad is not None
    hooks = saved_tensors_hooks(seen.append, lambda t: t)
    with disable_saved_tensors_hooks("none"), pytest.raises(RuntimeError, match="none"), hooks:
        pass
    with hooks, pytest.raises(RuntimeError, match="none"), disable_saved_tensors_hooks("none"):
        pass


@pytest.mark.lazy
def test_a_replay_would_call_no_hooks() -> None:
    @lazyt.jit
    def step(x: Any) -> Any:
        with saved_tensors_hooks(lambda t: t * 2, lambda t: t):
            y = x * x
        return lazyt.autograd.grad(y.sum(), x)[0]

    with lazyt.config.override(interpret=False):
        for _ in range(4):
            assert step(lazyt.ones(2, requires_grad=True)).tolist() == [4, 4]
    assert any("hooks pack" in reason for reason in step.why())


def test_hooks_of_functions_whose_inputs_lie_below_each_other() -> None:
    x = lazyt.tensor([1.0, 2.0], requires_grad=True)
    y: Any = x * 2
    z: Any = y * x
    z.grad_fn.register_prehook(lambda grads: (grads[0] * 1,))
    z.sum().backward()
    assert x.grad is not None and x.grad.tolist() == [4, 8]
