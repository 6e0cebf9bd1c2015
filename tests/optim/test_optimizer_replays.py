"""A captured step of every optimizer is the plain one, to the bit, over several steps."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

import lazyt
from lazyt import Tensor, optim
from lazyt.optim import lr_scheduler as schedules

pytestmark = pytest.mark.lazy

Make = Callable[[list[Tensor]], optim.Optimizer]
STEPS = 8

OPTIMIZERS: dict[str, Make] = {
    "sgd": lambda p: optim.SGD(p, 0.1, momentum=0.9, dampening=0.2, weight_decay=0.1),
    "adam": lambda p: optim.Adam(p, 0.1, weight_decay=0.1),
    "adamw": lambda p: optim.AdamW(p, 0.1, amsgrad=True, maximize=True),
    "rmsprop": lambda p: optim.RMSprop(p, 0.1, centered=True, momentum=0.5),
    "adagrad": lambda p: optim.Adagrad(p, 0.1, lr_decay=0.1),
    "adadelta": lambda p: optim.Adadelta(p, 0.5, weight_decay=0.1),
    "adamax": lambda p: optim.Adamax(p, 0.1, weight_decay=0.1),
    "nadam": lambda p: optim.NAdam(p, 0.1, weight_decay=0.1, decoupled_weight_decay=True),
    # betas for which the division begins between two replays, at the fourth step
    "radam": lambda p: optim.RAdam(p, 0.1, betas=(0.9, 0.95), weight_decay=0.1),
    "rprop": lambda p: optim.Rprop(p, 0.1),
    "asgd": lambda p: optim.ASGD(p, 0.1, lambd=0.1, t0=3.0),
    "adafactor": lambda p: optim.Adafactor(p, 0.1, weight_decay=0.1),
    "muon": lambda p: optim.Muon(p[:1], 0.1, ns_steps=1),
    "lion": lambda p: optim.Lion(p, 0.1, weight_decay=0.1),
}  # fmt: skip


def train(names: list[str], use: bool, rate: Any = float) -> tuple[Any, dict[str, Any]]:
    """Values and state after some steps of several optimizers in one function."""
    start = [lazyt.tensor([[1.0, -2.0, 0.5], [0.25, 3.0, -1.0]]), lazyt.tensor([0.5, -0.5])]
    optimizers, all_parameters = [], {}
    plans: list[schedules.LRScheduler] = []
    for name in names:
        parameters = [value.clone().requires_grad_() for value in start]
        optimizer = OPTIMIZERS[name](parameters)
        for group in optimizer.param_groups:
            group["lr"] = rate(group["lr"])
        optimizers.append(optimizer)
        if rate is float:
            plans.append(schedules.CosineAnnealingLR(optimizer, 5))
            plans.append(schedules.StepLR(optimizer, 3, 0.7))
        all_parameters[name] = parameters

    def step(scale: Tensor) -> Tensor:
        total: Any = 0
        for optimizer in optimizers:
            optimizer.zero_grad()
        for matrix, vector in all_parameters.values():
            total = total + ((matrix * scale - 1) ** 2).sum() + (vector * scale).sum()
        total.backward()
        for optimizer in optimizers:
            optimizer.step()
        for plan in plans:
            plan.step()
        return total  # type: ignore[no-any-return]

    run: Any = lazyt.jit(step) if use else step
    losses = [run(lazyt.full((), 1.0 + 0.1 * n)).item() for n in range(STEPS)]
    if use:
        assert run.why() == ["captured"]
    found = {}
    for name, optimizer in zip(names, optimizers, strict=True):
        state = {
            number: {key: bits(value) for key, value in values.items()}
            for number, values in optimizer.state_dict()["state"].items()
        }
        rates = [bits(group["lr"]) for group in optimizer.param_groups]
        found[name] = ([bits(p) for p in all_parameters[name]], state, rates)
    return losses, found


def bits(value: Any) -> Any:
    return value.detach().numpy().tobytes() if isinstance(value, Tensor) else value


@pytest.mark.parametrize("part", range(4))
def test_captured_steps_are_plain_steps(part: int) -> None:
    names = list(OPTIMIZERS)[part::4]
    plain, captured = train(names, False), train(names, True)
    assert plain[0] == captured[0]
    for name in names:
        assert plain[1][name] == captured[1][name], name


def test_rates_that_are_tensors_are_read_at_every_replay() -> None:
    names = ["sgd", "adam", "lion"]
    plain, captured = (train(names, use, lazyt.tensor) for use in (False, True))
    assert plain == captured


def test_a_rate_that_is_a_tensor_may_change_between_replays() -> None:
    weight = lazyt.ones(2, requires_grad=True)
    rate = lazyt.tensor(0.5)
    optimizer = optim.SGD([weight], lr=rate)

    @lazyt.jit
    def step() -> None:
        optimizer.zero_grad()
        weight.sum().backward()
        optimizer.step()

    for _ in range(3):
        step()
    assert weight.tolist() == [-0.5, -0.5]
    rate.fill_(2.0)
    step()
    assert weight.tolist() == [-2.5, -2.5]
    assert step.why() == ["captured"]


def test_numbers_that_were_equal_when_captured_may_differ_later() -> None:
    a, b = (lazyt.zeros(1).requires_grad_() for _ in range(2))
    optimizer = optim.SGD([{"params": [a]}, {"params": [b]}], lr=1.0)
    plan = schedules.LambdaLR(optimizer, [lambda n: 1.0 if n < 2 else 2.0, lambda n: 1.0])

    @lazyt.jit
    def step() -> None:
        optimizer.zero_grad()
        (a + b).sum().backward()
        optimizer.step()
        plan.step()

    for _ in range(5):
        step()
    assert (a.item(), b.item()) == (-8.0, -5.0)
    assert step.why() == ["captured"]


def test_a_hook_that_is_added_is_called() -> None:
    weight = lazyt.ones(2, requires_grad=True)
    optimizer = optim.SGD([weight], lr=1.0)

    @lazyt.jit
    def step() -> None:
        optimizer.zero_grad()
        weight.sum().backward()
        optimizer.step()

    for _ in range(3):
        step()

    def clear(*_: Any) -> None:
        weight.detach().zero_()

    handle = optimizer.register_step_post_hook(clear)
    for _ in range(2):
        step()
        assert weight.tolist() == [0, 0]
    handle.remove()
    step()
    assert weight.tolist() == [-1, -1]


def test_a_rate_beyond_float32_is_infinite_at_every_replay() -> None:
    weight = lazyt.ones(2).requires_grad_()
    weight.grad = lazyt.ones(2)
    optimizer = lazyt.optim.SGD([weight], lr=1.0)
    step = lazyt.jit(optimizer.step, fullgraph=True)
    for _ in range(6):
        step()
        assert weight.isfinite().all()
    optimizer.param_groups[0]["lr"] = 1e39
    step()
    assert weight.tolist() == [-math.inf] * 2


def _step_outside(optimizer: optim.Optimizer, matrix: Tensor, vector: Tensor) -> None:
    for _ in range(3):
        optimizer.zero_grad()
        (matrix * 3).sum().backward()
        optimizer.step()


def _edit_state(optimizer: optim.Optimizer, matrix: Tensor, vector: Tensor) -> None:
    for name, value in (("step", 40.0), ("mu_product", 0.5), ("eta", 0.02), ("mu", 0.25)):
        if name in optimizer.state[vector]:
            optimizer.state[vector][name] = value


def _edit_by_tensors(optimizer: optim.Optimizer, matrix: Tensor, vector: Tensor) -> None:
    for name, value in (("step", 40.0), ("mu_product", 0.5), ("eta", 0.02), ("mu", 0.25)):
        if name in optimizer.state[vector]:
            optimizer.state[vector][name] = lazyt.tensor(value)


def _edit_in_place(optimizer: optim.Optimizer, matrix: Tensor, vector: Tensor) -> None:
    for name, value in (("step", 40.0), ("mu_product", -0.01), ("eta", 0.02), ("mu", 0.25)):
        if name in optimizer.state[vector]:
            optimizer.state[vector][name].add_(value)


def _load(optimizer: optim.Optimizer, matrix: Tensor, vector: Tensor) -> None:
    saved = optimizer.state_dict()
    if "step" in saved["state"].get(1, ()):
        saved["state"][1]["step"] = lazyt.tensor(60.0)
    optimizer.load_state_dict(saved)


def _forget(optimizer: optim.Optimizer, matrix: Tensor, vector: Tensor) -> None:
    if not isinstance(optimizer, optim.Adagrad):  # which makes its state once and for all
        optimizer.state.pop(vector, None)


@pytest.mark.parametrize(
    "change",
    [_step_outside, _edit_state, _edit_by_tensors, _edit_in_place, _load, _forget],
    ids=lambda c: c.__name__,
)
def test_counts_that_were_equal_when_captured_may_differ_later(change: Any) -> None:
    names = [name for name in OPTIMIZERS if name != "muon"]

    def run(use: bool) -> Any:
        optimizers, parameters = [], []
        for name in names:
            own = [
                value.clone().requires_grad_() for value in (lazyt.ones(2), lazyt.full((2,), 2.0))
            ]
            optimizers.append(OPTIMIZERS[name](own))
            parameters.append(own)

        def step(scale: Tensor) -> Tensor:
            total: Any = 0
            for optimizer in optimizers:
                optimizer.zero_grad()
            for a, b in parameters:
                total = total + ((a * scale) ** 2).sum() + ((b * scale) ** 2).sum()
            total.backward()
            for optimizer in optimizers:
                optimizer.step()
            return total.detach()  # type: ignore[no-any-return]

        function: Any = lazyt.jit(step) if use else step
        losses = [function(lazyt.full((2,), 1 + 0.1 * n)).item() for n in range(5)]
        for optimizer, (a, b) in zip(optimizers, parameters, strict=True):
            change(optimizer, a, b)
        losses += [function(lazyt.full((2,), 1 + 0.1 * n)).item() for n in range(5)]
        if use:
            assert "counts of steps" in str(function.why()) or change in (_load, _forget)
        return losses, [[bits(p) for p in own] for own in parameters]

    plain, captured = run(False), run(True)
    assert plain[0] == captured[0]
    for name, a, b in zip(names, plain[1], captured[1], strict=True):
        assert a == b, name


def test_a_parameter_that_is_frozen_for_a_while_counts_fewer_steps() -> None:
    def run(use: bool) -> Any:
        a, b = (lazyt.full((2,), value).requires_grad_() for value in (1.0, 2.0))
        optimizer = optim.Adam([a, b], 0.1)

        def step(scale: Tensor) -> None:
            optimizer.zero_grad()
            (((a * scale) ** 2).sum() + ((b * scale) ** 2).sum()).backward()
            optimizer.step()

        function: Any = lazyt.jit(step) if use else step
        for frozen in (False, True, False, True, False):
            b.requires_grad_(not frozen)
            for n in range(4):
                function(lazyt.full((2,), 1 + 0.1 * n))
        return a.tolist(), b.tolist(), optimizer.state[a]["step"], optimizer.state[b]["step"]

    assert run(True) == run(False)
