"""Several schedules of one optimizer, and the one that waits for a metric to stop improving."""

from __future__ import annotations

import bisect
import functools
import math
import types
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

from lazyt.errors import LazytError, warn
from lazyt.handle.hooks import each_call, looks
from lazyt.handle.tensor import Tensor
from lazyt.optim.optimizer import Optimizer

# What all learning rate schedules share.
#
# Most schedules multiply the rate they find, as PyTorch's do, so that several can be combined. What
# they do happens in Python, once per step, and again at every replay of a captured function.


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


# Schedules that multiply the learning rate, step by step.


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


class _Several(LRScheduler):
    """Base of what consists of schedules."""

    _schedulers: list[Any]

    def _require_schedules(self, schedulers: Sequence[Any], optimizer: Optimizer) -> None:
        """Raise TypeError or ScheduleError for schedules that cannot be combined."""
        name = type(self).__name__
        for number, schedule in enumerate(schedulers):
            if not hasattr(schedule, "optimizer"):
                raise TypeError(
                    f"{name} at index {number} should have `optimizer` as its attribute."
                )
            if isinstance(schedule, ReduceLROnPlateau):
                raise ScheduleError(
                    f"{name} does not support `ReduceLROnPlateau` scheduler as it requires "
                    "additional kwargs to be specified when calling `step`, but got one at index "
                    f"{number} in the given schedulers sequence."
                )
            if schedule.optimizer is not optimizer:
                raise ScheduleError(
                    f"{name} expects all schedulers to belong to the same optimizer, but got "
                    f"scheduler {type(schedule).__name__} at index {number} has "
                    f"{schedule.optimizer}, which is different from {type(optimizer).__name__}."
                )

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer, and the state of every schedule."""
        own = {k: v for k, v in self.__dict__.items() if k not in ("optimizer", "_schedulers")}
        own["_schedulers"] = [schedule.state_dict() for schedule in self._schedulers]
        return own

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from a ``state_dict``."""
        self.__dict__.update({k: v for k, v in state_dict.items() if k != "_schedulers"})
        for schedule, state in zip(self._schedulers, state_dict["_schedulers"]):
            schedule.load_state_dict(state)


class SequentialLR(_Several):
    """One schedule after the other; ``milestones`` are the steps at which the next takes over.

    Raises ScheduleError (a ValueError) for schedules of different optimizers, and for another
    number of milestones than one less than schedules.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        schedulers: list[LRScheduler],
        milestones: list[int],
        last_epoch: int = -1,
    ) -> None:
        if len(schedulers) < 1:
            raise ScheduleError(
                f"{type(self).__name__} expects at least one scheduler, but got no scheduler."
            )
        self._require_schedules(schedulers, optimizer)
        if len(milestones) != len(schedulers) - 1:
            raise ScheduleError(
                "Sequential Schedulers expects number of schedulers provided to be one more than "
                f"the number of milestone points, but got number of schedulers {len(schedulers)} "
                f"and the number of milestones to be equal to {len(milestones)}"
            )
        self._schedulers, self._milestones = schedulers, milestones
        self.last_epoch = last_epoch + 1
        self.optimizer = optimizer
        for group in optimizer.param_groups:  # every schedule has made its first step already
            set_rate(group, group["initial_lr"])
        self.recursive_undo()
        first = schedulers[bisect.bisect_right(milestones, 0)]
        first._initial_step()
        self._last_lr = first.get_last_lr()

    def recursive_undo(self, sched: Any = None) -> None:
        """Undo the first steps of the schedules that ``sched``, or this one, consists of."""
        scheds = self if sched is None else sched
        if hasattr(scheds, "_schedulers"):
            for part in scheds._schedulers:
                self.recursive_undo(part)
        elif hasattr(scheds, "last_epoch"):
            scheds.last_epoch -= 1

    def step(self) -> None:  # type: ignore[override]
        """Go on by one step."""
        each_call(functools.partial(self._step, None))

    def _step(self, epoch: int | None = None) -> None:
        self.last_epoch += 1
        place = bisect.bisect_right(self._milestones, self.last_epoch)
        current = self._schedulers[place]
        if place and self._milestones[place - 1] == self.last_epoch:
            current._update_lr(0)
        else:
            current._step()
        self._last_lr = current.get_last_lr()


class ChainedScheduler(_Several):
    """Several schedules at once; each multiplies what the one before left.

    Raises ScheduleError (a ValueError) for none and for schedules of different optimizers.
    """

    def __init__(
        self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None
    ) -> None:
        if len(schedulers) < 1:
            raise ScheduleError(
                f"{type(self).__name__} expects at least one scheduler to be chained, but got no "
                "scheduler."
            )
        chosen = optimizer or schedulers[0].optimizer
        self._require_schedules(schedulers, chosen)
        self._schedulers: Any = schedulers
        self.optimizer = chosen
        self._last_lr = self.rates

    def step(self) -> None:  # type: ignore[override]
        """Go on by one step."""
        each_call(functools.partial(self._step, None))

    def _step(self, epoch: int | None = None) -> None:
        for schedule in self._schedulers:
            schedule._step()
        self._last_lr = self.rates


class ReduceLROnPlateau(LRScheduler):
    """Times ``factor`` when a metric has not improved for ``patience`` steps.

    Args:
        mode: whether ``"min"`` or ``"max"`` is better.
        factor: what the rate is multiplied with, below 1.
        patience: steps without improvement that are waited for.
        threshold: by how much a metric has to improve to count.
        threshold_mode: ``"rel"``: as a share of the best; ``"abs"``: as it is.
        cooldown: steps after a reduction that do not count.
        min_lr: rates do not fall below; one for all groups or one for each.
        eps: smaller changes are left out.

    Raises ScheduleError (a ValueError) for settings out of range.
    """

    _unwatched = LRScheduler._unwatched | {"best", "cooldown_counter", "num_bad_epochs"}

    def __init__(
        self,
        optimizer: Optimizer,
        mode: Literal["min", "max"] = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: Literal["rel", "abs"] = "rel",
        cooldown: int = 0,
        min_lr: list[float] | float = 0,
        eps: float = 1e-8,
    ) -> None:
        if factor >= 1.0:
            raise ScheduleError("Factor should be < 1.0.")
        self.factor = factor
        require_optimizer(optimizer)
        self.optimizer = optimizer
        groups = len(optimizer.param_groups)
        self.default_min_lr: float | None = None
        if isinstance(min_lr, (list, tuple)):
            if len(min_lr) != groups:
                raise ScheduleError(f"expected {groups} min_lrs, got {len(min_lr)}")
            self.min_lrs = list(min_lr)
        else:
            self.default_min_lr = min_lr
            self.min_lrs = [min_lr] * groups
        self.patience, self.cooldown, self.eps = patience, cooldown, eps
        self.last_epoch = 0
        self._last_lr = self.rates
        self._init_is_better(mode, threshold, threshold_mode)
        self._reset()

    def _init_is_better(self, mode: str, threshold: float, threshold_mode: str) -> None:
        """Take the settings that ``_is_better`` goes by. Raises ScheduleError."""
        if mode not in ("min", "max"):
            raise ScheduleError(f"mode {mode} is unknown!")
        if threshold_mode not in ("rel", "abs"):
            raise ScheduleError(f"threshold mode {threshold_mode} is unknown!")
        self.mode_worse = math.inf if mode == "min" else -math.inf
        self.mode, self.threshold, self.threshold_mode = mode, threshold, threshold_mode

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from a ``state_dict``."""
        super().load_state_dict(state_dict)
        self._init_is_better(self.mode, self.threshold, self.threshold_mode)

    def _reset(self) -> None:
        """Forget what was seen."""
        self.best = self.mode_worse
        self.cooldown_counter = self.num_bad_epochs = 0

    @property
    def in_cooldown(self) -> bool:
        """Whether steps do not count at the moment."""
        return self.cooldown_counter > 0

    def step(self, metrics: Any, epoch: int | None = None) -> None:  # type: ignore[override]
        """Go on by one step, with a number to judge by. Looks at the value of a tensor."""
        current = float(metrics)
        if epoch is not None:
            warn(EPOCH_WARNING)
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        if self._is_better(current, self.best):
            self.best = current
            self.num_bad_epochs = 0
        else:
            self.num_bad_epochs += 1
        if self.in_cooldown:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            self._reduce_lr(self.last_epoch)
            self.cooldown_counter = self.cooldown
            self.num_bad_epochs = 0
        self._last_lr = self.rates

    def _is_better(self, value: float, best: float) -> bool:
        sign = -1 if self.mode == "min" else 1
        if self.threshold_mode == "rel":
            goal = best * (1.0 + sign * self.threshold)
        else:
            goal = best + sign * self.threshold
        return value < goal if self.mode == "min" else value > goal

    def _reduce_lr(self, epoch: int) -> None:
        groups = self.optimizer.param_groups
        if len(groups) != len(self.min_lrs):
            if self.default_min_lr is None:
                raise LazytError(
                    f"The number of param groups in the `optimizer` ({len(groups)}) differs from "
                    f"when `ReduceLROnPlateau` was initialized ({len(self.min_lrs)}), usually due "
                    "to a new param group being added to the optimizer. Please modify the "
                    "`min_lrs` field to match the length of the `optimizer` param groups."
                )
            self.min_lrs = [self.default_min_lr] * len(groups)
        for group, least in zip(groups, self.min_lrs, strict=True):
            rate = float(group["lr"])
            reduced = max(rate * self.factor, least)
            if rate - reduced > self.eps:
                set_rate(group, reduced)
