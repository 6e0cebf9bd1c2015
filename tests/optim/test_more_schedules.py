"""More learning rate schedules, and averages of models, against PyTorch 2.13's numbers."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, cast

import pytest

import lazyt
from lazyt import nn, optim
from lazyt.optim import lr_scheduler as schedules
from lazyt.optim import swa_utils

#: A schedule, the rates of every fifth of 60 steps and of the last, and the momentum after it.
CASES: list[tuple[Callable[[optim.SGD], Any], list[float], float]] = [
    (
        lambda o: schedules.StepLR(o, 7, 0.5),
        [0.5, 0.5, 0.25, 0.125, 0.125, 0.0625, 0.03125, 0.015625, 0.015625, 0.0078125,
        0.00390625, 0.00390625, 0.00195312], 0.9,
    ),
    (
        lambda o: schedules.MultiStepLR(o, [3, 9, 9, 30], 0.3),
        [0.5, 0.15, 0.0135, 0.0135, 0.0135, 0.0135, 0.00405, 0.00405, 0.00405, 0.00405, 0.00405,
        0.00405, 0.00405], 0.9,
    ),
    (
        lambda o: schedules.PolynomialLR(o, 40, 2.5),
        [0.5, 0.358088, 0.24357, 0.154408, 0.0883883, 0.0430574, 0.015625, 0.00276214, 0.0, 0.0,
        0.0, 0.0, 0.0], 0.9,
    ),
    (
        lambda o: schedules.CosineAnnealingLR(o, 7, 0.1),
        [0.5, 0.175302, 0.255496, 0.480194, 0.119806, 0.344504, 0.424698, 0.1, 0.424698,
        0.344504, 0.119806, 0.480194, 0.344504], 0.9,
    ),
    (
        lambda o: schedules.MultiplicativeLR(o, lambda e: 0.97 if e % 3 else 1.01),
        [0.5, 0.447073, 0.416233, 0.38752, 0.346499, 0.322597, 0.300344, 0.268551, 0.250026,
        0.232778, 0.208138, 0.19378, 0.178626], 0.9,
    ),
    (
        lambda o: schedules.CosineAnnealingWarmRestarts(o, 3, 2, 0.01),
        [0.5, 0.3775, 0.491652, 0.255, 0.0183482, 0.467176, 0.348757, 0.191589, 0.0606284, 0.5,
        0.486998, 0.449372, 0.404147], 0.9,
    ),
    (
        lambda o: schedules.CyclicLR(o, 0.01, 0.1, 5, 3, mode="triangular2"),
        [0.01, 0.1, 0.028, 0.025, 0.028, 0.01225, 0.0175, 0.013375, 0.01, 0.0128125, 0.0105625,
        0.0104688, 0.0104219], 0.899375,
    ),
    (
        lambda o: schedules.CyclicLR(o, 0.01, 0.1, 4, mode="exp_range", gamma=0.98),
        [0.01, 0.0710147, 0.0467683, 0.0266178, 0.0700847, 0.023578, 0.0345468, 0.0432825, 0.01,
        0.0371943, 0.0263876, 0.0174066, 0.0304947], 0.870245,
    ),
    (
        lambda o: schedules.CyclicLR(
            o, 0.01, 0.1, 4, scale_fn=lambda x: 1 / x, cycle_momentum=False),
        [0.01, 0.0775, 0.0325, 0.02125, 0.04, 0.015625, 0.02125, 0.0235, 0.01, 0.02125,
        0.0164286, 0.0132143, 0.0184375], 0.9,
    ),
    (
        lambda o: schedules.OneCycleLR(o, 0.4, total_steps=70),
        [0.016, 0.0722355, 0.208, 0.343765, 0.4, 0.389811, 0.360283, 0.314424, 0.256906,
        0.193591, 0.130928, 0.0753033, 0.0397187], 0.941904,
    ),
    (
        lambda o: schedules.OneCycleLR(
            o, 0.4, epochs=10, steps_per_epoch=8, anneal_strategy="linear",
            three_phase=True, pct_start=0.2),
        [0.016, 0.144, 0.272, 0.4, 0.272, 0.144, 0.016, 0.0143675, 0.012735, 0.0111025,
        0.00947004, 0.00783755, 0.00653156], 0.95,
    ),
    (
        lambda o: schedules.SequentialLR(o, [
            schedules.ConstantLR(o, 0.1, 3), schedules.ExponentialLR(o, 0.9),
            schedules.StepLR(o, 4)], [6, 20]),
        [0.05, 0.5, 0.32805, 0.19371, 0.5, 0.05, 0.005, 0.0005, 5e-06, 5e-07, 5e-08, 5e-09,
        5e-10], 0.9,
    ),
    (
        lambda o: schedules.SequentialLR(o, [
            schedules.LinearLR(o, 0.1, 1.0, 5), schedules.CosineAnnealingWarmRestarts(o, 6)], [5]),
        [0.05, 0.5, 0.0334936, 0.125, 0.25, 0.375, 0.466506, 0.5, 0.0334936, 0.125, 0.25, 0.375,
        0.5], 0.9,
    ),
    (
        lambda o: schedules.SequentialLR(o, [
            schedules.ChainedScheduler([
                schedules.LinearLR(o, 0.1, 1.0, 5), schedules.ExponentialLR(o, 0.95)]),
            schedules.StepLR(o, 5)], [10]),
        [0.0475, 0.367546, 0.5, 0.05, 0.005, 0.0005, 5e-05, 5e-06, 5e-07, 5e-08, 5e-09, 5e-10,
        5e-10], 0.9,
    ),
    (
        lambda o: schedules.ChainedScheduler([
            schedules.ConstantLR(o, 0.1, 4), schedules.ExponentialLR(o, 0.95)]),
        [0.05, 0.38689, 0.299368, 0.231646, 0.179243, 0.138695, 0.107319, 0.0830417, 0.0642561,
        0.0497201, 0.0384725, 0.0297693, 0.0242473], 0.9,
    ),
    (
        lambda o: swa_utils.SWALR(o, 0.05),
        [0.5, 0.275, 0.05, 0.05, 0.05, 0.05, 0.05, 0.05, 0.05, 0.05, 0.05, 0.05, 0.05], 0.9,
    ),
    (
        lambda o: swa_utils.SWALR(o, 0.05, anneal_epochs=20, anneal_strategy="linear"),
        [0.5, 0.3875, 0.275, 0.1625, 0.05, 0.05, 0.05, 0.05, 0.05, 0.05, 0.05, 0.05, 0.05], 0.9,
    ),
]  # fmt: skip


def optimizer(rate: Any = 0.5) -> optim.SGD:
    weight = lazyt.ones(1, requires_grad=True)
    weight.grad = lazyt.zeros(1)
    return optim.SGD([weight], lr=rate, momentum=0.9)


def advance(made: Any, target: optim.SGD, steps: range) -> list[float]:
    rates = []
    for step in steps:
        if step % 5 == 0 or step == 59:
            rates.append(float(target.param_groups[0]["lr"]))
        target._count_step()  # what optimizer.step() does here but for computing
        made.step()
    return rates


@pytest.mark.filterwarnings("ignore:Detected call")  # of schedules inside of schedules, as there
@pytest.mark.parametrize("number", range(len(CASES)))
def test_rates_are_pytorchs_and_go_on_from_a_state_dict(number: int) -> None:
    make, expected, momentum = CASES[number]
    target = optimizer()
    made = make(target)
    rates = advance(made, target, range(23))
    saved = copy.deepcopy((made.state_dict(), target.state_dict()))
    target = optimizer()
    made = make(target)
    made.load_state_dict(saved[0])
    target.load_state_dict(saved[1])
    rates += advance(made, target, range(23, 60))
    assert rates == pytest.approx(expected, rel=1e-5, abs=1e-12)
    assert target.param_groups[0]["momentum"] == pytest.approx(momentum, rel=1e-5)


def test_rates_that_are_tensors_stay_the_same_tensor() -> None:
    rate = lazyt.tensor(0.5)
    target = optimizer(rate)
    made = schedules.ExponentialLR(target, 0.5)
    target._count_step()
    made.step()
    assert target.param_groups[0]["lr"] is rate and rate.item() == 0.25
    assert target.param_groups[0]["initial_lr"].item() == 0.5


def test_a_plateau_reduces_the_rate() -> None:
    target = optimizer()
    made = schedules.ReduceLROnPlateau(target, patience=1, factor=0.5, cooldown=1, min_lr=0.1)
    rates = []
    for metric in [3.0, 2.0, 2.0, 2.0, 2.0, 2.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, lazyt.tensor(1.0)]:
        made.step(metric)
        rates += made.get_last_lr()
    assert rates == [0.5] * 3 + [0.25] * 5 + [0.125] * 3 + [0.1] * 2
    again = schedules.ReduceLROnPlateau(optimizer())
    again.load_state_dict(made.state_dict())
    assert again.best == 1.0 and again.min_lrs == [0.1]


def test_steps_to_an_epoch_warn_and_use_the_closed_form() -> None:
    target = optimizer()
    made = schedules.CosineAnnealingLR(target, 10)
    target._count_step()
    with pytest.warns(UserWarning, match="epoch parameter"):
        made.step(5)
    assert made.get_last_lr() == pytest.approx([0.25])
    with pytest.warns(UserWarning, match="get_last_lr"):
        made.get_lr()


@pytest.mark.parametrize(("make", "error", "text"), [
    (lambda o: schedules.SequentialLR(o, [], []), ValueError, "at least one scheduler, but got no"),
    (lambda o: schedules.SequentialLR(o, [schedules.StepLR(optimizer(), 1)], []), ValueError,
     "belong to the same optimizer"),
    (lambda o: schedules.ChainedScheduler([schedules.ReduceLROnPlateau(o)]), ValueError,
     "does not support `ReduceLROnPlateau`"),
    (lambda o: schedules.MultiplicativeLR(o, 3), TypeError, "should be a function, but got int"),
    (lambda o: schedules.CyclicLR(o, [0.1, 0.2], 0.3), ValueError, "base_lr has 2 values"),
    (lambda o: schedules.CyclicLR(optim.Adagrad(o.param_groups[0]["params"]), 0.1, 0.2), ValueError,
     "must support momentum"),
    (lambda o: schedules.OneCycleLR(o, 0.1), ValueError, "either total_steps OR"),
    (lambda o: schedules.OneCycleLR(o, 0.1, total_steps=-1), ValueError, "but got -1"),
    (lambda o: advance(schedules.OneCycleLR(o, 0.1, total_steps=3), o, range(5)), ValueError,
     "Tried to step 4 times"),
    (lambda o: schedules.CosineAnnealingWarmRestarts(o, 0), ValueError, "positive integer T_0"),
    (lambda o: schedules.ReduceLROnPlateau(o, factor=1.0), ValueError, "Factor should be < 1.0"),
    (lambda o: schedules.ReduceLROnPlateau(o, mode=cast(Any, "x")), ValueError, "mode x is"),
    (lambda o: swa_utils.SWALR(o, 0.1, anneal_epochs=-1), ValueError, "equal or greater than 0"),
    (lambda o: swa_utils.get_ema_avg_fn(2.0), ValueError, "Invalid decay value 2.0"),
])  # fmt: skip
def test_messages_are_pytorchs(
    make: Callable[[optim.SGD], object], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        make(optimizer())


@pytest.mark.parametrize("kind", ["SGD", "Adam"])
@pytest.mark.lazy
def test_momentum_that_is_cycled_is_replayed(kind: str) -> None:
    def train(use: bool) -> tuple[Any, Any]:
        weight = lazyt.tensor([1.0, -2.0], requires_grad=True)
        if kind == "SGD":
            target: Any = optim.SGD([weight], momentum=0.9, nesterov=True)
        else:
            target = optim.Adam([weight])
        made = schedules.OneCycleLR(target, 0.3, total_steps=9)

        def step() -> Any:
            target.zero_grad()
            loss = (weight**2).sum()
            loss.backward()
            target.step()
            made.step()
            return loss

        run: Any = lazyt.jit(step) if use else step
        losses = [run().item() for _ in range(8)]
        assert not use or run.why() == ["captured"]
        return losses, weight.tolist()

    assert train(True) == train(False)


@pytest.mark.lazy
def test_averages_of_models() -> None:
    net = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    mean = swa_utils.AveragedModel(net)
    moving = swa_utils.AveragedModel(net, multi_avg_fn=swa_utils.get_ema_multi_avg_fn(0.75))
    weight: Any = net[0].weight
    wanted_mean, wanted_moving = 0.0, 1.0
    for value in (1.0, 3.0, 8.0):
        with lazyt.no_grad():
            weight.fill_(value)
        mean.update_parameters(net)
        moving.update_parameters(net)
        wanted_mean += value / 3
        wanted_moving = 0.75 * wanted_moving + 0.25 * value
    inner: Any = mean.module
    other: Any = moving.module
    found = inner[0].weight, other[0].weight
    assert found[0].flatten().tolist() == pytest.approx([wanted_mean] * 4)
    assert found[1].flatten().tolist() == pytest.approx([wanted_moving] * 4)
    assert mean.n_averaged.item() == 3 and "n_averaged" in mean.state_dict()
    rows = lazyt.tensor([[1.0, 2.0], [3.0, 4.0]])
    swa_utils.update_bn([rows, (rows + 2,)], mean)
    norm = inner[1]
    hidden = [inner[0](rows).mean(0), inner[0](rows + 2).mean(0)]
    assert norm.running_mean.tolist() == pytest.approx(((hidden[0] + hidden[1]) / 2).tolist())
    assert norm.momentum == 0.1 and norm.num_batches_tracked.item() == 2
    with pytest.raises(AssertionError, match="Only one of"):
        swa_utils.AveragedModel(net, avg_fn=max, multi_avg_fn=max)
