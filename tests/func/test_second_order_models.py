"""Second derivatives and per-example gradients of whole models, plain and captured."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import lazyt
from lazyt import nn
from lazyt.func import functional_call, grad, hessian, jacfwd, jacrev, vmap

Parameters = dict[str, lazyt.Tensor]


def model() -> Any:
    """A perceptron of 50 parameters, in float64."""
    lazyt.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 2), nn.Softplus(), nn.Linear(2, 2))
    return net.double()


def small_model() -> Any:
    """Two layers, in float64."""
    lazyt.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2)).double()


def data(count: int = 5) -> tuple[lazyt.Tensor, lazyt.Tensor]:
    """Inputs and targets."""
    draw = np.random.default_rng(0)
    return lazyt.tensor(draw.normal(size=(count, 4))), lazyt.tensor(draw.normal(size=(count, 2)))


def loss(net: Any, parameters: Parameters, x: lazyt.Tensor, y: lazyt.Tensor) -> lazyt.Tensor:
    """The mean squared error."""
    found: lazyt.Tensor = nn.functional.mse_loss(functional_call(net, parameters, (x,)), y)
    return found


def flat_loss(net: Any, x: lazyt.Tensor, y: lazyt.Tensor) -> Any:
    """The loss as a function of all parameters in one vector, and that vector."""
    shapes = {name: tuple(p.shape) for name, p in net.named_parameters()}

    def function(vector: lazyt.Tensor) -> lazyt.Tensor:
        parts, at = {}, 0
        for name, shape in shapes.items():
            size = int(np.prod(shape))
            parts[name] = vector[at : at + size].reshape(shape)
            at += size
        return loss(net, parts, x, y)

    vector = lazyt.cat([p.detach().reshape(-1) for p in net.parameters()])
    return function, vector


def test_hessian_of_a_perceptron_is_the_loop_and_finite_differences() -> None:
    with lazyt.config.override(interpret=True):  # graphs that are large for the C compiler
        check_hessian(model())


def check_hessian(net: Any) -> None:
    """By ``hessian``, by a loop over rows, forwards over reverse, and by finite differences."""
    function, vector = flat_loss(net, *data())
    assert vector.numel() == 50
    found = hessian(function)(vector)
    leaf = vector.clone().requires_grad_()
    slope: Any = lazyt.autograd.grad(function(leaf), leaf, create_graph=True)[0]
    rows = [lazyt.autograd.grad(s, leaf, retain_graph=True)[0] for s in slope]
    loop = lazyt.stack(rows)
    first = grad(function)
    step = 1e-5
    axes = [3, 20, 47]
    pairs = [(vector.clone(), vector.clone()) for _ in axes]
    for axis, (up, down) in zip(axes, pairs):
        up[axis] += step
        down[axis] -= step
    differences = lazyt.stack([(first(up) - first(down)) / (2 * step) for up, down in pairs])
    reverse = jacrev(jacfwd(function))(vector)
    lazyt.realize(found, loop, differences, reverse)
    np.testing.assert_allclose(found.numpy(), loop.numpy(), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(reverse.numpy(), loop.numpy(), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found.numpy().T, found.numpy(), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found.numpy()[axes], differences.numpy(), rtol=1e-5, atol=1e-8)


@pytest.mark.lazy
@pytest.mark.parametrize("captured", [False, True])
def test_gradients_of_every_example_are_the_loop(captured: bool) -> None:
    net = small_model()
    x, y = data()
    parameters: Parameters = {name: p.detach() for name, p in net.named_parameters()}
    many = vmap(grad(lambda p, a, b: loss(net, p, a, b)), in_dims=(None, 0, 0))
    if captured:
        many = lazyt.jit(many)
        for _ in range(3):
            many(parameters, x, y)
        assert many.why() == ["captured"]
    found = many(parameters, x, y)
    loop: list[Any] = []
    for a, b in zip(x, y):
        net.zero_grad()
        nn.functional.mse_loss(net(a), b).backward()
        loop.append({name: p.grad for name, p in net.named_parameters()})
    for name, values in found.items():
        wanted = np.stack([one[name].numpy() for one in loop])
        np.testing.assert_allclose(values.numpy(), wanted, rtol=1e-10, atol=1e-13)


@pytest.mark.lazy
def test_double_backward_through_a_captured_step() -> None:
    net = small_model()
    x, y = data()
    plain_step = lambda inputs: nn.functional.mse_loss(net(inputs), y)  # noqa: E731
    step = lazyt.jit(plain_step)

    def penalty(function: Any) -> lazyt.Tensor:
        inputs = x.clone().requires_grad_()
        error = function(inputs)
        slope: Any = lazyt.autograd.grad(error, inputs, create_graph=True)[0]
        total: lazyt.Tensor = error + (slope**2).sum()
        return total

    def gradients(function: Any) -> list[Any]:
        net.zero_grad()
        penalty(function).backward()
        return [p.grad.numpy().copy() for p in net.parameters()]

    plain = gradients(plain_step)
    for _ in range(4):
        captured = gradients(step)
    assert step.why() == ["captured"]
    for mine, wanted in zip(captured, plain):
        np.testing.assert_allclose(mine, wanted, rtol=1e-12, atol=1e-15)
    weight, delta = net[0].weight, 1e-6
    with lazyt.no_grad():
        weight[1, 2] += delta
    up = float(penalty(step).detach())
    with lazyt.no_grad():
        weight[1, 2] -= 2 * delta
    down = float(penalty(step).detach())
    assert plain[0][1, 2] == pytest.approx((up - down) / (2 * delta), rel=1e-6, abs=1e-9)
