"""Learning rates that change over time. ``step()`` is called after every epoch (or batch).

Most schedules multiply the rate they find, as PyTorch's do, so that several can be combined.
"""

from __future__ import annotations

import bisect
import functools
import math
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from lazyt.errors import LazytError
from lazyt.optim.optimizer import Optimizer
from lazyt.watching import each_call


class ScheduleError(LazytError, ValueError):
    """A setting of a schedule that makes no sense."""


class LRScheduler:
    """Base of all schedules.

    Args:
        optimizer: whose ``param_groups`` change.
        last_epoch: number of steps done already; -1 to start.

    Attributes:
        base_lrs: the rates at the start, one per group.
        last_epoch: number of steps done.

    Raises TypeError for what is no Optimizer and KeyError when resuming without ``initial_lr``.
    """

    #: What changes from step to step: captured functions do not compare it.
    _unwatched = frozenset({"_last_lr", "_started", "_step_count", "last_epoch"})

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")
        self.optimizer = optimizer
        for number, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", group["lr"])
            elif "initial_lr" not in group:
                raise KeyError(
                    "param 'initial_lr' is not specified in "
                    f"param_groups[{number}] when resuming an optimizer"
                )
        self.base_lrs = [group["initial_lr"] for group in optimizer.param_groups]
        self.last_epoch = last_epoch
        self._started = optimizer._step_count
        self._step_count = 0
        self.step()

    @property
    def rates(self) -> list[float]:
        """The rates now, one per group."""
        return [group["lr"] for group in self.optimizer.param_groups]

    def get_lr(self) -> list[float]:
        """The rates of ``last_epoch``, given those before."""
        raise NotImplementedError(f"{type(self).__name__} does not define get_lr")

    def get_last_lr(self) -> list[float]:
        """The rates that the last step set."""
        return self._last_lr

    def step(self, epoch: int | None = None) -> None:
        """Go on by one step, or to step ``epoch``."""
        if self._step_count == 1 and self.optimizer._step_count == self._started:
            warnings.warn(
                "Detected call of `lr_scheduler.step()` before `optimizer.step()`. In PyTorch "
                "1.1.0 and later, you should call them in the opposite order: "
                "`optimizer.step()` before `lr_scheduler.step()`.  Failure to do this will "
                "result in PyTorch skipping the first value of the learning rate schedule.",
                UserWarning,
                stacklevel=2,
            )
        each_call(functools.partial(self._advance, epoch))

    def _advance(self, epoch: int | None) -> None:
        self._step_count += 1
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        self._set(self.get_lr())

    def _set(self, rates: Sequence[float]) -> None:
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            group["lr"] = rate
        self._last_lr = list(rates)

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer."""
        return {k: v for k, v in self.__dict__.items() if k not in ("optimizer", "_started")}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from a ``state_dict``."""
        self.__dict__.update(state_dict)

    def _times(self, factor: float) -> list[float]:
        return [rate * factor for rate in self.rates]


class LambdaLR(LRScheduler):
    """The rate at the start times ``lr_lambda(step)``; one function or one per group."""

    def __init__(self, optimizer: Optimizer, lr_lambda: Any, last_epoch: int = -1) -> None:
        groups = len(optimizer.param_groups)
        given = lr_lambda if isinstance(lr_lambda, (list, tuple)) else [lr_lambda] * groups
        if len(given) != groups:
            raise ScheduleError(f"Expected {groups} lr_lambdas, but got {len(given)}")
        self.lr_lambdas: list[Callable[[int], float]] = list(given)
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """The rates of ``last_epoch``."""
        pairs = zip(self.base_lrs, self.lr_lambdas, strict=True)
        return [base * function(self.last_epoch) for base, function in pairs]

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer and the functions."""
        return {k: v for k, v in super().state_dict().items() if k != "lr_lambdas"}


class StepLR(LRScheduler):
    """Times ``gamma`` every ``step_size`` steps."""

    def __init__(
        self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.step_size, self.gamma = step_size, gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """The rates of ``last_epoch``, given those before."""
        turn = self.last_epoch > 0 and self.last_epoch % self.step_size == 0
        return self._times(self.gamma) if turn else self.rates


class MultiStepLR(LRScheduler):
    """Times ``gamma`` at every step named in ``milestones``."""

    def __init__(
        self,
        optimizer: Optimizer,
        milestones: Sequence[int],
        gamma: float = 0.1,
        last_epoch: int = -1,
    ) -> None:
        self.milestones, self.gamma = Counter(milestones), gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """The rates of ``last_epoch``, given those before."""
        times = self.milestones.get(self.last_epoch, 0)
        return self._times(self.gamma**times) if times else self.rates


class ExponentialLR(LRScheduler):
    """Times ``gamma`` at every step."""

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """The rates of ``last_epoch``, given those before."""
        return self._times(self.gamma) if self.last_epoch > 0 else self.rates


class ConstantLR(LRScheduler):
    """Times ``factor`` for the first ``total_iters`` steps."""

    def __init__(
        self,
        optimizer: Optimizer,
        factor: float = 1.0 / 3,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if not 0 <= factor <= 1:
            raise ScheduleError("Constant multiplicative factor expected to be between 0 and 1.")
        self.factor, self.total_iters = factor, total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """The rates of ``last_epoch``, given those before."""
        if self.last_epoch == 0:
            return self._times(self.factor)
        return self._times(1 / self.factor) if self.last_epoch == self.total_iters else self.rates


class LinearLR(LRScheduler):
    """From ``start_factor`` to ``end_factor`` of the rate, evenly over ``total_iters`` steps."""

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1.0 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if not 0 < start_factor <= 1:
            raise ScheduleError(
                "Starting multiplicative factor expected to be greater than 0 and less or equal "
                "to 1."
            )
        if not 0 <= end_factor <= 1:
            raise ScheduleError("Ending multiplicative factor expected to be between 0 and 1.")
        self.start_factor, self.end_factor, self.total_iters = start_factor, end_factor, total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """The rates of ``last_epoch``, given those before."""
        if self.last_epoch == 0:
            return self._times(self.start_factor)
        if self.last_epoch > self.total_iters:
            return self.rates
        slope = self.end_factor - self.start_factor
        before = self.total_iters * self.start_factor + (self.last_epoch - 1) * slope
        return self._times(1.0 + slope / before)


class CosineAnnealingLR(LRScheduler):
    """Half a cosine from the rate down to ``eta_min`` over ``T_max`` steps
    (Loshchilov & Hutter 2017), then up again."""

    def __init__(
        self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1
    ) -> None:
        self.T_max, self.eta_min = T_max, eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """The rates of ``last_epoch``, given those before."""
        epoch, half = self.last_epoch, self.T_max
        if epoch == 0:
            return self.rates
        if (epoch - 1 - half) % (2 * half) == 0:  # leaving the bottom: the ratio below is 0 / 0
            lift = (1 - math.cos(math.pi / half)) / 2
            pairs = zip(self.base_lrs, self.rates, strict=True)
            return [rate + (base - self.eta_min) * lift for base, rate in pairs]
        ratio = 1 + math.cos(math.pi * epoch / half)
        ratio /= 1 + math.cos(math.pi * (epoch - 1) / half)
        return [ratio * (rate - self.eta_min) + self.eta_min for rate in self.rates]


class SequentialLR(LRScheduler):
    """One schedule after the other; ``milestones`` are the steps at which the next takes over."""

    def __init__(
        self,
        optimizer: Optimizer,
        schedulers: Sequence[LRScheduler],
        milestones: Sequence[int],
        last_epoch: int = -1,
    ) -> None:
        if not schedulers:
            raise ScheduleError(
                "SequentialLR expects at least one scheduler, but got no scheduler."
            )
        if len(milestones) != len(schedulers) - 1:
            raise ScheduleError(
                "Sequential Schedulers expects number of schedulers provided to be one more than "
                f"the number of milestone points, but got number of schedulers {len(schedulers)} "
                f"and the number of milestones to be equal to {len(milestones)}"
            )
        self.optimizer = optimizer
        self._schedulers, self._milestones = list(schedulers), list(milestones)
        self.last_epoch = last_epoch + 1
        for group in optimizer.param_groups:  # every schedule has made its first step already
            group["lr"] = group["initial_lr"]
        first = self._schedulers[0]
        first._set(first.get_lr())
        self._last_lr = first.get_last_lr()

    def step(self, epoch: int | None = None) -> None:
        """Go on by one step. Raises ScheduleError for ``epoch``."""
        if epoch is not None:
            raise ScheduleError("SequentialLR goes on by one step at a time")
        self.last_epoch += 1
        place = bisect.bisect_right(self._milestones, self.last_epoch)
        current = self._schedulers[place]
        if place and self._milestones[place - 1] == self.last_epoch:
            for group in self.optimizer.param_groups:
                group["lr"] = group["initial_lr"]
            current.step(0)
        else:
            current.step()
        self._last_lr = current.get_last_lr()

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer, and the state of every schedule."""
        own = {k: v for k, v in self.__dict__.items() if k not in ("optimizer", "_schedulers")}
        own["_schedulers"] = [schedule.state_dict() for schedule in self._schedulers]
        return own

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from a ``state_dict``."""
        own = {k: v for k, v in state_dict.items() if k != "_schedulers"}
        self.__dict__.update(own)
        for schedule, state in zip(self._schedulers, state_dict["_schedulers"], strict=True):
            schedule.load_state_dict(state)
