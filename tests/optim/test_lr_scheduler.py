"""Learning rate schedules against PyTorch 2.13's numbers."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import lazyt
from lazyt.optim import SGD
from lazyt.optim import lr_scheduler as schedules

Make = Callable[[SGD], schedules.LRScheduler]

CASES: dict[str, tuple[Make, list[float]]] = {
    "step": (
        lambda o: schedules.StepLR(o, 3, 0.5),
        [1.0, 1.0, 1.0, 0.5, 0.5, 0.5, 0.25, 0.25, 0.25, 0.125],
    ),
    "multistep": (
        lambda o: schedules.MultiStepLR(o, [2, 5, 5], 0.5),
        [1.0, 1.0, 0.5, 0.5, 0.5, 0.125, 0.125, 0.125, 0.125, 0.125],
    ),
    "exponential": (
        lambda o: schedules.ExponentialLR(o, 0.9),
        [1.0, 0.9, 0.81, 0.729, 0.6561, 0.59049, 0.531441, 0.478297, 0.430467, 0.38742],
    ),
    "cosine": (
        lambda o: schedules.CosineAnnealingLR(o, 4, 0.1),
        [1.0, 0.868198, 0.55, 0.231802, 0.1, 0.231802, 0.55, 0.868198, 1.0, 0.868198],
    ),
    "lambda": (
        lambda o: schedules.LambdaLR(o, lambda e: 1 / (1 + e)),
        [1.0, 0.5, 0.333333, 0.25, 0.2, 0.166667, 0.142857, 0.125, 0.111111, 0.1],
    ),
    "linear": (
        lambda o: schedules.LinearLR(o, 0.25, 1.0, 4),
        [0.25, 0.4375, 0.625, 0.8125, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0],
    ),
    "constant": (
        lambda o: schedules.ConstantLR(o, 0.5, 3),
        [0.5, 0.5, 0.5, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0],
    ),
    "sequential": (
        lambda o: schedules.SequentialLR(
            o, [schedules.LinearLR(o, 0.5, 1.0, 2), schedules.ExponentialLR(o, 0.5)], [3]
        ),
        [0.5, 0.75, 1.0, 1.0, 0.5, 0.25, 0.125, 0.0625, 0.03125, 0.015625],
    ),
}


def optimizer() -> SGD:
    weight = lazyt.ones(1, requires_grad=True)
    weight.grad = lazyt.zeros(1)
    return SGD([weight], lr=1.0)


def advance(schedule: schedules.LRScheduler, steps: int) -> list[float]:
    rates = []
    for _ in range(steps):
        schedule.optimizer.step()
        schedule.step()
        rates += schedule.get_last_lr()
    return rates


@pytest.mark.parametrize("name", CASES)
def test_rates_are_pytorchs(name: str) -> None:
    make, expected = CASES[name]
    schedule = make(optimizer())
    assert [*schedule.get_last_lr(), *advance(schedule, 9)] == pytest.approx(expected, abs=1e-6)
    assert schedule.optimizer.param_groups[0]["lr"] == pytest.approx(expected[-1], abs=1e-6)


@pytest.mark.parametrize("name", CASES)
def test_state_dict_goes_on_where_it_was_taken(name: str) -> None:
    make, expected = CASES[name]
    first = make(optimizer())
    advance(first, 4)
    target = optimizer()
    second = make(target)
    second.load_state_dict(first.state_dict())
    target.load_state_dict(first.optimizer.state_dict())
    assert advance(second, 5) == pytest.approx(expected[5:], abs=1e-6)


def test_steps_in_the_wrong_order_warn() -> None:
    schedule = schedules.StepLR(optimizer(), 1)
    with pytest.warns(UserWarning, match=r"before `optimizer\.step\(\)`"):
        schedule.step()


def test_wrong_settings_raise() -> None:
    with pytest.raises(TypeError, match="not an Optimizer"):
        schedules.StepLR(3, 1)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="between 0 and 1"):
        schedules.ConstantLR(optimizer(), 2.0)
    with pytest.raises(ValueError, match="lr_lambdas"):
        schedules.LambdaLR(optimizer(), [abs, abs])
    with pytest.raises(KeyError, match="initial_lr"):
        schedules.StepLR(optimizer(), 1, last_epoch=3)
