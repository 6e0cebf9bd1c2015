"""Schedules that multiply the learning rate, step by step."""

from __future__ import annotations

import bisect
import math
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from lazyt.optim.optimizer import Optimizer
from lazyt.optim.schedule import (
    Formula,
    Rates,
    ScheduleError,
    load_functions,
    per_group_functions,
    saved_functions,
)


class LambdaLR(Formula):
    """The rate at the start times ``lr_lambda(step)``; one function or one per group."""

    def __init__(self, optimizer: Optimizer, lr_lambda: Any, last_epoch: int = -1) -> None:
        self.lr_lambdas: list[Callable[[int], float]] = per_group_functions(optimizer, lr_lambda)
        super().__init__(optimizer, last_epoch)

    def _next_rates(self) -> Rates:
        pairs = zip(self.base_lrs, self.lr_lambdas, strict=True)
        return [base * function(self.last_epoch) for base, function in pairs]

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer; of the functions those that are objects with state."""
        return {**super().state_dict(), "lr_lambdas": saved_functions(self.lr_lambdas)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from a ``state_dict``; plain functions stay as they are."""
        rest = dict(state_dict)
        load_functions(self.lr_lambdas, rest.pop("lr_lambdas"))
        super().load_state_dict(rest)


class MultiplicativeLR(LambdaLR):
    """Times ``lr_lambda(step)`` at every step; one function or one per group.

    Raises TypeError for what cannot be called.
    """

    def __init__(self, optimizer: Optimizer, lr_lambda: Any, last_epoch: int = -1) -> None:
        for function in per_group_functions(optimizer, lr_lambda):
            if not callable(function):
                raise TypeError(
                    f"lr_lambda should be a function, but got {type(function).__name__}"
                )
        super().__init__(optimizer, lr_lambda, last_epoch)

    def _next_rates(self) -> Rates:
        if self._is_initial:
            return self.rates
        pairs = zip(self.rates, self.lr_lambdas, strict=True)
        return [rate * function(self.last_epoch) for rate, function in pairs]


class StepLR(Formula):
    """Times ``gamma`` every ``step_size`` steps."""

    def __init__(
        self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.step_size, self.gamma = step_size, gamma
        super().__init__(optimizer, last_epoch)

    def _next_rates(self) -> Rates:
        turn = self.last_epoch != 0 and self.last_epoch % self.step_size == 0
        return self._times(self.gamma) if turn else self.rates

    def _get_closed_form_lr(self) -> Rates:
        factor = self.gamma ** (self.last_epoch // self.step_size)
        return [base * factor for base in self.base_lrs]


class MultiStepLR(Formula):
    """Times ``gamma`` at every step named in ``milestones``."""

    def __init__(
        self,
        optimizer: Optimizer,
        milestones: Iterable[int],
        gamma: float = 0.1,
        last_epoch: int = -1,
    ) -> None:
        self.milestones, self.gamma = Counter(milestones), gamma
        super().__init__(optimizer, last_epoch)

    def _next_rates(self) -> Rates:
        times = self.milestones.get(self.last_epoch, 0)
        return self._times(self.gamma**times) if times else self.rates

    def _get_closed_form_lr(self) -> Rates:
        passed = bisect.bisect_right(sorted(self.milestones.elements()), self.last_epoch)
        return [base * self.gamma**passed for base in self.base_lrs]


class ExponentialLR(Formula):
    """Times ``gamma`` at every step."""

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def _next_rates(self) -> Rates:
        return self.rates if self._is_initial else self._times(self.gamma)

    def _get_closed_form_lr(self) -> Rates:
        return [base * self.gamma**self.last_epoch for base in self.base_lrs]


class ConstantLR(Formula):
    """Times ``factor`` for the first ``total_iters`` steps.

    Raises ScheduleError (a ValueError) for factors out of [0, 1].
    """

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

    def _next_rates(self) -> Rates:
        if self.last_epoch == 0:
            return self._times(self.factor)
        return self._times(1 / self.factor) if self.last_epoch == self.total_iters else self.rates

    def _get_closed_form_lr(self) -> Rates:
        factor = self.factor if self.last_epoch < self.total_iters else 1.0
        return [base * factor for base in self.base_lrs]


class LinearLR(Formula):
    """From ``start_factor`` to ``end_factor`` of the rate, evenly over ``total_iters`` steps.

    Raises ScheduleError (a ValueError) for factors out of [0, 1], or a start of 0.
    """

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

    def _next_rates(self) -> Rates:
        if self.last_epoch == 0:
            return self._times(self.start_factor)
        if self._is_initial or self.last_epoch > self.total_iters:
            return self.rates
        slope = self.end_factor - self.start_factor
        before = self.total_iters * self.start_factor + (self.last_epoch - 1) * slope
        return self._times(1.0 + slope / before)

    def _get_closed_form_lr(self) -> Rates:
        slope = self.end_factor - self.start_factor
        done = min(self.total_iters, self.last_epoch) / self.total_iters
        return [base * (self.start_factor + slope * done) for base in self.base_lrs]


class PolynomialLR(Formula):
    """Down to 0 in ``total_iters`` steps, as the ``power`` of what is left of them."""

    def __init__(
        self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1
    ) -> None:
        self.total_iters, self.power = total_iters, power
        super().__init__(optimizer, last_epoch)

    def _next_rates(self) -> Rates:
        if self._is_initial or self.last_epoch > self.total_iters:
            return self.rates
        left = 1.0 - self.last_epoch / self.total_iters
        before = 1.0 - (self.last_epoch - 1) / self.total_iters
        return self._times((left / before) ** self.power)

    def _get_closed_form_lr(self) -> Rates:
        left = 1.0 - min(self.total_iters, self.last_epoch) / self.total_iters
        return [base * left**self.power for base in self.base_lrs]


class CosineAnnealingLR(Formula):
    """Half a cosine from the rate down to ``eta_min`` over ``T_max`` steps
    (Loshchilov & Hutter 2017), then up again."""

    def __init__(
        self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1
    ) -> None:
        self.T_max, self.eta_min = T_max, eta_min
        super().__init__(optimizer, last_epoch)

    def _next_rates(self) -> Rates:
        epoch, half = self.last_epoch, self.T_max
        if self._is_initial:
            return self.rates
        if self._step_count == 1 and epoch > 0:
            return self._get_closed_form_lr()
        if (epoch - 1 - half) % (2 * half) == 0:  # leaving the bottom: the ratio below is 0 / 0
            lift = (1 - math.cos(math.pi / half)) / 2
            pairs = zip(self.base_lrs, self.rates, strict=True)
            return [rate + (base - self.eta_min) * lift for base, rate in pairs]
        ratio = 1 + math.cos(math.pi * epoch / half)
        ratio /= 1 + math.cos(math.pi * (epoch - 1) / half)
        return [ratio * (rate - self.eta_min) + self.eta_min for rate in self.rates]

    def _get_closed_form_lr(self) -> Rates:
        part = (1 + math.cos(math.pi * self.last_epoch / self.T_max)) / 2
        return [self.eta_min + (base - self.eta_min) * part for base in self.base_lrs]
