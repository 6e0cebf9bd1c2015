"""Training that stops and goes on from its files gives the bits of training that never stopped."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest

import lazyt
from lazyt import Tensor, nn, optim
from lazyt.optim import lr_scheduler as schedules
from lazyt.optim import swa_utils

Make = Callable[[list[Tensor]], optim.Optimizer]

OPTIMIZERS: dict[str, Make] = {
    "sgd": lambda p: optim.SGD(p, 0.1, momentum=0.9, dampening=0.3, weight_decay=0.1),
    "nesterov": lambda p: optim.SGD(p, 0.1, momentum=0.9, nesterov=True),
    "adam": lambda p: optim.Adam(p, 0.1, amsgrad=True),
    "adamw": lambda p: optim.AdamW(p, lazyt.tensor(0.1)),
    "adamax": lambda p: optim.Adamax(p, 0.1),
    "nadam": lambda p: optim.NAdam(p, 0.1, weight_decay=0.1),
    "radam": lambda p: optim.RAdam(p, 0.1, betas=(0.9, 0.9)),
    "rmsprop": lambda p: optim.RMSprop(p, 0.1, centered=True, momentum=0.5),
    "adagrad": lambda p: optim.Adagrad(p, 0.1, lr_decay=0.1),
    "adadelta": lambda p: optim.Adadelta(p, 0.5),
    "asgd": lambda p: optim.ASGD(p, 0.1, t0=2),
    "rprop": lambda p: optim.Rprop(p, 0.1),
    "lion": lambda p: optim.Lion(p, 0.1, weight_decay=0.1),
    "adafactor": lambda p: optim.Adafactor(p, 0.1),
    "muon": lambda p: optim.Muon(p, 0.1),
    "lbfgs": lambda p: optim.LBFGS(p, 0.1, max_iter=3, history_size=2),
    "wolfe": lambda p: optim.LBFGS(p, max_iter=3, line_search_fn="strong_wolfe"),
}


def _pair(optimizer: optim.Optimizer) -> list[Any]:
    return [schedules.ConstantLR(optimizer, 0.5, 3), schedules.ExponentialLR(optimizer, 0.9)]


SCHEDULES: dict[str, Callable[[optim.Optimizer], Any]] = {
    "step": lambda o: schedules.StepLR(o, 2, 0.5),
    "milestones": lambda o: schedules.MultiStepLR(o, [2, 3], 0.5),
    "constant": lambda o: schedules.ConstantLR(o, 0.5, 4),
    "linear": lambda o: schedules.LinearLR(o, 0.2, total_iters=6),
    "exponential": lambda o: schedules.ExponentialLR(o, 0.9),
    "polynomial": lambda o: schedules.PolynomialLR(o, 8, 1.5),
    "lambda": lambda o: schedules.LambdaLR(o, lambda epoch: 0.95**epoch),
    "factor": lambda o: schedules.MultiplicativeLR(o, lambda epoch: 0.95),
    "cosine": lambda o: schedules.CosineAnnealingLR(o, 5, 0.01),
    "restarts": lambda o: schedules.CosineAnnealingWarmRestarts(o, 2, 2),
    "cycle": lambda o: schedules.CyclicLR(o, 0.05, 0.2, 2, cycle_momentum=False),
    "one": lambda o: schedules.OneCycleLR(o, 0.2, total_steps=9, cycle_momentum=False),
    "chained": lambda o: schedules.ChainedScheduler(_pair(o)),
    "sequence": lambda o: schedules.SequentialLR(o, _pair(o), [2]),
    "average": lambda o: swa_utils.SWALR(o, 0.02, 4),
    "plateau": lambda o: schedules.ReduceLROnPlateau(o, factor=0.5, patience=0),
}


class Training:
    """A small model with its optimizer and schedule."""

    def __init__(self, make: Make, schedule: Callable[[optim.Optimizer], Any]) -> None:
        lazyt.manual_seed(0)
        self.model = nn.Linear(3, 2, bias=make is not OPTIMIZERS["muon"])
        self.optimizer = make(list(self.model.parameters()))
        self.schedule = schedule(self.optimizer)
        self.x = lazyt.linspace(-1, 1, 12).reshape(4, 3)

    def closure(self) -> Tensor:
        """The loss, with gradients."""
        self.optimizer.zero_grad()
        loss: Tensor = ((self.model(self.x) - self.x[:, :2].sin()) ** 2).mean()
        loss.backward()
        return loss

    def run(self, steps: int) -> None:
        """Train on."""
        for _ in range(steps):
            loss = self.optimizer.step(self.closure)
            if isinstance(self.schedule, schedules.ReduceLROnPlateau):
                self.schedule.step(loss.item())
            else:
                self.schedule.step()

    def saved(self) -> bytes:
        """Everything as a file."""
        file = io.BytesIO()
        parts = (self.model, self.optimizer, self.schedule)
        lazyt.save([part.state_dict() for part in parts], file)
        return file.getvalue()

    def load(self, data: bytes) -> None:
        """Go on from a file."""
        states = lazyt.load(io.BytesIO(data))
        for part, state in zip((self.model, self.optimizer, self.schedule), states, strict=True):
            part.load_state_dict(state)

    def bits(self) -> list[Any]:
        """What has to be the same."""
        values = [*self.model.parameters()]
        values += [v for s in self.optimizer.state.values() for v in s.values()]
        numbers = [v.tolist() if isinstance(v, Tensor) else v for v in values]
        return [*numbers, [float(g["lr"]) for g in self.optimizer.param_groups]]


def _pairs() -> list[tuple[str, str]]:
    names = list(SCHEDULES)
    found = [(name, names[n % len(names)]) for n, name in enumerate(OPTIMIZERS)]
    return [*found, *(("adam", s) for s in names if ("adam", s) not in found)]


@pytest.mark.parametrize(("optimizer", "schedule"), _pairs())
def test_stopping_changes_no_bit(optimizer: str, schedule: str) -> None:
    with lazyt.config.override(interpret=True):
        whole = Training(OPTIMIZERS[optimizer], SCHEDULES[schedule])
        whole.run(3)
        data = whole.saved()
        whole.run(2)
        again = Training(OPTIMIZERS[optimizer], SCHEDULES[schedule])
        again.load(data)
        again.run(2)
        assert str(again.bits()) == str(whole.bits())


@pytest.mark.parametrize("optimizer", ["adam", "asgd"])
def test_nor_does_it_where_kernels_run(optimizer: str) -> None:
    whole = Training(OPTIMIZERS[optimizer], SCHEDULES["cosine"])
    whole.run(2)
    data = whole.saved()
    whole.run(2)
    again = Training(OPTIMIZERS[optimizer], SCHEDULES["cosine"])
    again.load(data)
    again.run(2)
    assert str(again.bits()) == str(whole.bits())
