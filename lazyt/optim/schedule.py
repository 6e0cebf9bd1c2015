"""What all learning rate schedules share.

Most schedules multiply the rate they find, as PyTorch's do, so that several can be combined. What
they do happens in Python, once per step, and again at every replay of a captured function.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Sequence
from typing import Any

from lazyt.errors import LazytError, warn
from lazyt.optim.optimizer import Optimizer
from lazyt.tensor import Tensor
from lazyt.watching import each_call, looks

EPOCH_WARNING = (
    "The epoch parameter in `scheduler.step()` was not necessary and is being deprecated where "
    "possible. Please use `scheduler.step()` to step the scheduler. During the deprecation, if "
    "epoch is different from None, the closed form is used instead of the new chainable form, "
    "where available. Please open an issue if you are unable to replicate your use case: "
    "https://github.com/pytorch/pytorch/issues/new/choose."
)
_ORDER_WARNING = (
    "Detected call of `lr_scheduler.step()` before `optimizer.step()`. In PyTorch 1.1.0 and later, "
    "you should call them in the opposite order: `optimizer.step()` before `lr_scheduler.step()`.  "
    "Failure to do this will result in PyTorch skipping the first value of the learning rate "
    "schedule. See more details at "
    "https://pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate"
)
Rates = list[Any]


class ScheduleError(LazytError, ValueError):
    """A setting of a schedule that makes no sense."""


def require_optimizer(optimizer: Any) -> None:
    """Raise TypeError for what is no Optimizer."""
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")


def per_group(name: str, optimizer: Optimizer, given: Any) -> list[Any]:
    """A setting of every group: one for all, or as many as there are groups.

    Raises ScheduleError (a ValueError) for another number.
    """
    groups = optimizer.param_groups
    if not isinstance(given, (list, tuple)):
        return [given] * len(groups)
    if len(given) != len(groups):
        raise ScheduleError(
            f"{name} must have the same length as optimizer.param_groups. {name} has {len(given)} "
            f"values, param_groups has {len(groups)}."
        )
    return list(given)


def per_group_functions(optimizer: Optimizer, given: Any) -> list[Callable[[int], float]]:
    """One function, or one for every group. Raises ScheduleError for another number."""
    groups = len(optimizer.param_groups)
    functions = list(given) if isinstance(given, (list, tuple)) else [given] * groups
    if len(functions) != groups:
        raise ScheduleError(f"Expected {groups} lr_lambdas, but got {len(functions)}")
    return functions


def set_rate(group: dict[str, Any], rate: Any) -> None:
    """Give a group a learning rate; one that is a tensor is written to."""
    if isinstance(group["lr"], Tensor):
        group["lr"].detach().fill_(float(rate))
    else:
        group["lr"] = rate


def saved_functions(functions: Sequence[Any]) -> list[Any]:
    """The state of those that are objects with one; None for plain functions."""
    return [
        None if isinstance(f, types.FunctionType) else dict(getattr(f, "__dict__", {}))
        for f in functions
    ]


def load_functions(functions: Sequence[Any], saved: Sequence[Any]) -> None:
    """Take over what ``saved_functions`` gave."""
    for function, state in zip(functions, saved):
        if state is not None:
            function.__dict__.update(state)


class LRScheduler:
    """Base of all schedules. Subclasses define ``get_lr``.

    Args:
        optimizer: whose ``param_groups`` change.
        last_epoch: number of steps done already; -1 to start.

    Attributes:
        base_lrs: the rates at the start, one per group.
        last_epoch: number of steps done.

    Rates that are tensors are looked at in every step, which a captured function cannot replay.
    Raises TypeError for what is no Optimizer and KeyError when resuming without ``initial_lr``.
    """

    #: What changes from step to step: captured functions do not compare it.
    _unwatched = frozenset({
        "T_cur", "T_i", "_get_lr_called_within_step", "_is_initial", "_last_lr", "_step_count",
        "last_epoch",
    })  # fmt: skip
    _get_lr_called_within_step = False
    _is_initial = False

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        require_optimizer(optimizer)
        self.optimizer = optimizer
        for number, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                rate = group["lr"]
                group.setdefault("initial_lr", rate.clone() if isinstance(rate, Tensor) else rate)
            elif "initial_lr" not in group:
                raise KeyError(
                    "param 'initial_lr' is not specified in "
                    f"param_groups[{number}] when resuming scheduler with last_epoch >= 0.\n"
                    "This typically happens when:\n"
                    "1. You're trying to resume training from a checkpoint but haven't properly "
                    "loaded the optimizer state\n"
                    "2. You're using last_epoch >= 0 for a fresh training run (not recommended)"
                )
        self.base_lrs: Rates = [group["initial_lr"] for group in optimizer.param_groups]
        self.last_epoch = last_epoch
        if optimizer._scheduled_from is None:
            optimizer._scheduled_from = optimizer._step_count
        self._initial_step()

    def _initial_step(self) -> None:
        self._step_count = 0
        self._is_initial = True
        try:
            self.step()
        finally:
            self._is_initial = False

    @property
    def rates(self) -> Rates:
        """The rates now, one per group; of those that are tensors a copy."""
        found = [group["lr"] for group in self.optimizer.param_groups]
        return [rate.detach().clone() if isinstance(rate, Tensor) else rate for rate in found]

    def get_lr(self) -> Rates:
        """The rates of ``last_epoch``, given those before; for ``step`` to call."""
        raise NotImplementedError

    def get_last_lr(self) -> Rates:
        """The rates that the last step set."""
        return self._last_lr

    def step(self, epoch: int | None = None) -> None:
        """Go on by one step, or to step ``epoch``, which is deprecated and warns."""
        each_call(functools.partial(self._step, epoch))

    def _step(self, epoch: int | None = None) -> None:
        """One step, in Python alone."""
        if self._step_count == 1 and self.optimizer._step_count == self.optimizer._scheduled_from:
            warn(_ORDER_WARNING)
        self._step_count += 1
        if epoch is not None:
            warn(EPOCH_WARNING)
        self._update_lr(epoch)

    def _update_lr(self, epoch: int | None = None) -> None:
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        closed = None if epoch is None else getattr(self, "_get_closed_form_lr", None)
        self._set(self._asked(self.get_lr if closed is None else closed))

    def _asked(self, rates: Callable[[], Rates]) -> Rates:
        """What ``get_lr`` gives when it is a step that asks."""
        if any(isinstance(group["lr"], Tensor) for group in self.optimizer.param_groups):
            looks(
                "a schedule of a learning rate that is a tensor; call the schedule's step() "
                "outside of the captured function, or make the rate a number, which is followed"
            )
        self._get_lr_called_within_step = True
        try:
            return rates()
        finally:
            self._get_lr_called_within_step = False

    def _set(self, rates: Rates) -> None:
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            set_rate(group, rate)
        self._last_lr = self.rates

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer."""
        return {name: value for name, value in self.__dict__.items() if name != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from a ``state_dict``."""
        self.__dict__.update(state_dict)

    def _times(self, factor: float) -> Rates:
        return [rate * factor for rate in self.rates]


class Formula(LRScheduler):
    """Base of the schedules of this package, whose rates are ``_next_rates()``."""

    def get_lr(self) -> Rates:
        """The rates of ``last_epoch``, given those before; for ``step`` to call."""
        if not self._get_lr_called_within_step:
            warn(
                "To get the last learning rate computed by the scheduler, please use "
                "`get_last_lr()`."
            )
        return self._next_rates()

    def _next_rates(self) -> Rates:
        raise NotImplementedError
