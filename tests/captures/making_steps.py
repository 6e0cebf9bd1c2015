"""Random training programs: every optimizer, frozen and thawed parameters, edited state, steps
outside, schedules; with the step as it is and captured by ``lazyt.jit``.
"""

from __future__ import annotations

import copy
import random
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import lazyt as lt
from lazyt import optim
from lazyt.optim import lr_scheduler as schedules
from tests.captures.making_objects import show

OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    "SGD": lambda p: optim.SGD(p, 0.1, momentum=0.9, weight_decay=0.1),
    "SGD plain": lambda p: optim.SGD(p, 0.1),
    "Adam": lambda p: optim.Adam(p, 0.1),
    "Adam amsgrad": lambda p: optim.Adam(p, 0.1, amsgrad=True, weight_decay=0.1),
    "AdamW": lambda p: optim.AdamW(p, 0.1),
    "NAdam": lambda p: optim.NAdam(p, 0.1, decoupled_weight_decay=True, weight_decay=0.1),
    "RAdam": lambda p: optim.RAdam(p, 0.1, betas=(0.9, 0.95)),
    "Adamax": lambda p: optim.Adamax(p, 0.1),
    "ASGD": lambda p: optim.ASGD(p, 0.1, lambd=0.1, t0=3.0),
    "Rprop": lambda p: optim.Rprop(p, 0.1),
    "Adagrad": lambda p: optim.Adagrad(p, 0.1, lr_decay=0.1),
    "Adadelta": lambda p: optim.Adadelta(p, 0.5),
    "RMSprop": lambda p: optim.RMSprop(p, 0.1, centered=True, momentum=0.5),
    "Adafactor": lambda p: optim.Adafactor(p, 0.1, weight_decay=0.1),
    "Lion": lambda p: optim.Lion(p, 0.1),
    "tensor rate": lambda p: optim.Adam(p, lt.tensor(0.1)),
    "two groups": lambda p: optim.Adam([{"params": p[:1]}, {"params": p[1:], "lr": 0.2}], 0.1),
}  # fmt: skip
SCHEDULES: tuple[Callable[[Any], Any] | None, ...] = (
    None, None, lambda o: schedules.StepLR(o, 2, 0.5), lambda o: schedules.ExponentialLR(o, 0.9),
    lambda o: schedules.LambdaLR(o, lambda n: 1 / (n + 1)),
)  # fmt: skip
_STATES = {"step": 40.0, "mu_product": 0.5, "eta": 0.02, "mu": 0.25}
EVENTS = (
    "none", "none", "none", "freeze", "thaw", "outside", "outside all", "edit", "edit tensor",
    "edit in place", "load", "rate", "decay", "no grad", "grad", "write", "data", "copy", "forget",
    "eps",
)  # fmt: skip


class Training(NamedTuple):
    """A training program.

    Attributes:
        seed: what it was made from.
        optimizer, schedule: by name and number.
        parameters: how many it has.
        inside: whether the schedule steps in the step.
        events: what happens before each call, and to which parameter.
    """

    seed: int
    optimizer: str
    schedule: int
    parameters: int
    inside: bool
    events: tuple[tuple[str, int], ...]


def make_training(seed: int) -> Training:
    """The program of a seed."""
    chance = random.Random(f"steps {seed}")
    name = chance.choice([*OPTIMIZERS])
    schedule = 0 if name == "tensor rate" else chance.randrange(len(SCHEDULES))
    count = chance.choice((2, 2, 3))
    events = [
        (chance.choice(EVENTS), chance.randrange(count)) for _ in range(chance.randint(6, 10))
    ]
    return Training(seed, name, schedule, count, chance.random() < 0.5, (("none", 0), *events))


class _Run:
    """One run of a program."""

    def __init__(self, program: Training, wrap: Callable[[Any], Any]) -> None:
        self.parameters = [
            lt.full((2,), n + 1.0).requires_grad_() for n in range(program.parameters)
        ]
        self.optimizer = OPTIMIZERS[program.optimizer](self.parameters)
        make = SCHEDULES[program.schedule]
        self.schedule = None if make is None else make(self.optimizer)
        parameters, optimizer, schedule = self.parameters, self.optimizer, self.schedule
        inside = program.inside and schedule is not None

        def step(x: Any) -> Any:
            optimizer.zero_grad()
            loss: Any = sum(((p * x) ** 2).sum() for p in parameters)
            loss.backward()
            optimizer.step()
            if schedule is not None and inside:
                schedule.step()
            return loss.detach()

        self.step = wrap(step)
        self.late = None if inside else schedule

    def event(self, name: str, number: int) -> None:
        """What happens between calls."""
        parameter, group = self.parameters[number], self.optimizer.param_groups[0]
        if name == "freeze" and sum(p.requires_grad for p in self.parameters) > 1:
            parameter.requires_grad_(False)
        elif name == "thaw":
            for p in self.parameters:
                p.requires_grad_(True)
        elif name.startswith("outside"):
            self.optimizer.zero_grad()
            if parameter.requires_grad:
                chosen = [p for p in self.parameters if p.requires_grad and name == "outside all"]
                loss: Any = sum((p * 3).sum() for p in chosen or [parameter])
                loss.backward()
                self.optimizer.step()
        elif name.startswith("edit"):
            state = self.optimizer.state.get(parameter, {})
            for key, value in _STATES.items():
                if isinstance(state.get(key), lt.Tensor) and name == "edit in place":
                    state[key].fill_(value)
                elif key in state:
                    state[key] = lt.tensor(value) if name == "edit tensor" else value
        elif name == "load":
            saved = copy.deepcopy(self.optimizer.state_dict())
            if "step" in saved["state"].get(number, ()):
                saved["state"][number]["step"] = lt.tensor(60.0)
            self.optimizer.load_state_dict(saved)
        elif name == "rate" and not isinstance(group["lr"], lt.Tensor):
            group["lr"] = 0.05 * (number + 1)
        elif name == "rate":
            group["lr"].fill_(0.05 * (number + 1))
        elif name == "decay" and "weight_decay" in group:
            group["weight_decay"] = 0.01 * (number + 1)
        elif name == "eps" and isinstance(group.get("eps"), float):
            group["eps"] = 1e-3 * (number + 1)
        else:
            self._event_of(name, parameter, number)

    def _event_of(self, name: str, parameter: Any, number: int) -> None:
        if name == "no grad":
            parameter.grad = None
        elif name == "grad" and parameter.requires_grad:
            parameter.grad = lt.ones(2)
        elif name == "write":
            with lt.no_grad():
                parameter.mul_(0.5)
        elif name == "data":
            parameter.data = lt.full((2,), number + 0.5)
        elif name == "copy":
            values = [p.detach().clone() for p in self.parameters]
            with lt.no_grad():
                for p, value in zip(self.parameters, values):
                    p.copy_(value)
        elif name == "forget" and "sum" not in self.optimizer.state.get(parameter, {}):
            self.optimizer.state.pop(parameter, None)


def run(program: Training, wrap: Callable[[Any], Any]) -> tuple[list[Any], list[str]]:
    """What a program shows, and what captures say of it."""
    shown: list[Any] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = _Run(program, wrap)
        for number, (name, chosen) in enumerate(program.events):
            made.event(name, chosen)
            try:
                shown.append(show(made.step(lt.full((2,), 1 + 0.1 * number))))
                if made.late is not None:
                    made.late.step()
            except Exception as error:  # what PyTorch's users would see, too
                shown.append(type(error).__name__)
            shown += [show(p) for p in made.parameters]
            shown.append(show([g["lr"] for g in made.optimizer.param_groups]))
        shown.append(show(made.optimizer.state_dict()["state"]))
    return shown, made.step.why() if hasattr(made.step, "why") else []


def difference(program: Training) -> str | None:
    """How a program differs when its step is captured; None where it does not."""
    plain, _ = run(program, lambda function: function)
    captured, why = run(program, lt.jit)
    if plain == captured:
        return None
    number = next((n for n, (a, b) in enumerate(zip(plain, captured)) if a != b), -1)
    return f"{program}\n{number}: {plain[number]} became {captured[number]}\n{why}"
