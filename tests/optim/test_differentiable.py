"""Gradients through the steps of optimizers, against finite differences and by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import lazyt
from lazyt import Tensor, optim
from lazyt.autograd import gradcheck

Make = Callable[[list[Tensor]], optim.Optimizer]

OPTIMIZERS: dict[str, Make] = {
    "sgd": lambda p: optim.SGD(p, 0.1, momentum=0.9, weight_decay=0.1, differentiable=True),
    "adam": lambda p: optim.Adam(p, 0.1, amsgrad=True, differentiable=True),
    "adamw": lambda p: optim.AdamW(p, 0.1, differentiable=True),
    "adamax": lambda p: optim.Adamax(p, 0.1, differentiable=True),
    "nadam": lambda p: optim.NAdam(p, 0.1, weight_decay=0.1, differentiable=True),
    "radam": lambda p: optim.RAdam(p, 0.1, betas=(0.9, 0.5), differentiable=True),
    "rmsprop": lambda p: optim.RMSprop(p, 0.1, centered=True, momentum=0.5, differentiable=True),
    "adagrad": lambda p: optim.Adagrad(p, 0.1, lr_decay=0.1, differentiable=True),
    "adadelta": lambda p: optim.Adadelta(p, 0.5, differentiable=True),
    "asgd": lambda p: optim.ASGD(p, 0.1, t0=1, differentiable=True),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_three_steps_have_the_right_derivative(name: str) -> None:
    def trained(start: Tensor, grad: Tensor) -> tuple[Tensor, Tensor]:
        parameter = start.clone()
        optimizer = OPTIMIZERS[name]([parameter])
        for step in range(3):
            parameter.grad = grad * (1.5 - step)
            optimizer.step()
        state = [v for v in optimizer.state[parameter].values() if isinstance(v, Tensor) and v.ndim]
        return parameter, lazyt.stack(state).sum()

    start = lazyt.tensor([0.5, -1.0, 2.0], dtype=lazyt.float64, requires_grad=True)
    grad = lazyt.tensor([0.3, 0.7, -0.2], dtype=lazyt.float64, requires_grad=True)
    with lazyt.config.override(interpret=True):
        assert gradcheck(trained, (start, grad))


def test_the_learning_rate_has_a_gradient() -> None:
    rate = lazyt.tensor(0.1, requires_grad=True)
    parameter = lazyt.tensor([1.0, 2.0], requires_grad=True).clone()
    optimizer = optim.SGD([parameter], rate, differentiable=True)
    for _ in range(2):
        loss = (parameter.clone() ** 2).sum()  # the step writes over what a square would keep
        (parameter.grad,) = lazyt.autograd.grad(loss, parameter, create_graph=True)
        optimizer.step()
    parameter.sum().backward()
    assert parameter.tolist() == pytest.approx([0.64, 1.28])
    assert rate.grad is not None and rate.grad.item() == pytest.approx(-4 * 0.8 * 3)


def test_only_differentiable_optimizers_take_what_was_computed() -> None:
    def take(**how: Any) -> optim.SGD:
        return optim.SGD([lazyt.ones(2, requires_grad=True) * 2], 0.1, **how)

    assert take(differentiable=True).defaults["differentiable"]
    with pytest.raises(ValueError, match="can't optimize a non-leaf Tensor"):
        take()
    leaf = lazyt.ones(2, requires_grad=True)
    leaf.grad = lazyt.ones(2)
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad is being used"):
        optim.SGD([leaf], 0.1, differentiable=True).step()
