"""Captured functions with factorizations: replays tell of those that fail, before they write."""

from __future__ import annotations

from typing import Any

import pytest

import lazyt
from lazyt import linalg, nn
from lazyt.linalg import LinAlgError

SIZES = [3, 40]  # by a kernel, and by a library


def called(function: Any, *arguments: Any, times: int = 4) -> Any:
    """The last of some results: the first calls are watched, the others are replays."""
    for _ in range(times):
        found = function(*arguments)
    return found


@pytest.mark.lazy
@pytest.mark.parametrize("size", SIZES)
def test_checked_functions_are_captured(size: int) -> None:
    @lazyt.jit
    def solved(a: lazyt.Tensor, b: lazyt.Tensor) -> lazyt.Tensor:
        root = linalg.cholesky(a @ a.mT + lazyt.eye(a.shape[-1]))
        found: lazyt.Tensor = linalg.solve(root, b) + linalg.inv(root).sum()
        return found

    lazyt.manual_seed(0)
    for _ in range(5):
        a, b = lazyt.randn(2, size, size), lazyt.randn(2, size, 1)
        expected = solved.function(a, b)
        assert lazyt.allclose(solved(a, b), expected, rtol=1e-4)
    assert solved.why() == ["captured"]


@pytest.mark.parametrize("size", SIZES)
def test_a_replay_raises_what_the_function_raises(size: int) -> None:
    @lazyt.jit
    def inverse(a: lazyt.Tensor) -> lazyt.Tensor:
        found: lazyt.Tensor = linalg.inv(a * 2)
        return found

    good = lazyt.eye(size) * 4
    called(inverse, good)
    for _ in range(2):
        with pytest.raises(LinAlgError, match="diagonal element 1 is zero"):
            inverse(lazyt.zeros(size, size))
        assert lazyt.equal(inverse(good), lazyt.eye(size) / 8)


@pytest.mark.parametrize("size", SIZES)
def test_nothing_is_written_where_a_factorization_fails(size: int) -> None:
    lazyt.manual_seed(1)
    weight = nn.Parameter(lazyt.eye(size))
    optimizer = lazyt.optim.Adam([weight], 0.01)

    @lazyt.jit
    def step(x: lazyt.Tensor) -> lazyt.Tensor:
        optimizer.zero_grad()
        loss = (linalg.cholesky(weight @ weight.mT + x) ** 2).sum()
        loss.backward()
        optimizer.step()
        return loss

    good, bad = lazyt.eye(size), -4 * lazyt.eye(size)
    called(step, good, times=5)
    before, first = weight.detach().clone(), optimizer.state[weight]["step"].clone()
    with pytest.raises(LinAlgError, match="not positive-definite"):
        step(bad)
    assert lazyt.equal(weight.detach(), before)
    assert lazyt.equal(optimizer.state[weight]["step"], first)
    assert step(good).isfinite()


@pytest.mark.parametrize("size", SIZES)
def test_gradients_that_go_on_outside(size: int) -> None:
    lazyt.manual_seed(2)
    layer = nn.Linear(size, size)

    @lazyt.jit
    def factor(x: lazyt.Tensor) -> lazyt.Tensor:
        y = layer(x)
        found: lazyt.Tensor = linalg.cholesky(y @ y.mT + lazyt.eye(size))
        return found

    x = lazyt.randn(size, size)
    called(factor, x)
    layer.zero_grad()
    factor(x).sum().backward()
    found = layer.weight.grad
    layer.zero_grad()
    factor.function(x).sum().backward()
    assert found is not None and layer.weight.grad is not None
    assert lazyt.allclose(found, layer.weight.grad, rtol=1e-4, atol=1e-5)
    with pytest.raises(LinAlgError):
        factor(lazyt.full((size, size), float("nan")))
    factor(x).sum().backward()


def test_random_numbers_are_drawn_once_where_it_fails() -> None:
    @lazyt.jit
    def inverse(a: lazyt.Tensor) -> lazyt.Tensor:
        found: lazyt.Tensor = linalg.inv(a * lazyt.rand(2, 2))
        return found

    good, bad = lazyt.eye(2), lazyt.zeros(2, 2)

    def drawn(function: Any) -> lazyt.Tensor:
        lazyt.manual_seed(3)
        called(function, good)
        with pytest.raises(LinAlgError):
            function(bad)
        found: lazyt.Tensor = lazyt.rand(3)
        return found

    assert lazyt.equal(drawn(inverse), drawn(inverse.function))
