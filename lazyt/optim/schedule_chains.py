"""Several schedules of one optimizer, and the one that waits for a metric to stop improving."""

from __future__ import annotations

import bisect
import functools
import math
from collections.abc import Sequence
from typing import Any, Literal

from lazyt.errors import LazytError, warn
from lazyt.optim.optimizer import Optimizer
from lazyt.optim.schedule import (
    EPOCH_WARNING,
    LRScheduler,
    ScheduleError,
    require_optimizer,
    set_rate,
)
from lazyt.watching import each_call


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
