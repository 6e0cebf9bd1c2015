"""Schedules that let rates, and momenta, go up and down."""

from __future__ import annotations

import functools
import math
import types
from collections.abc import Callable
from typing import Any, Literal

from lazyt.handle.hooks import each_call
from lazyt.optim.optimizer import Optimizer
from lazyt.optim.schedule import (
    Formula,
    Rates,
    ScheduleError,
    per_group,
    require_optimizer,
    set_rate,
)

Group = dict[str, Any]


def _start_momenta(schedule: Any, optimizer: Optimizer, base: Any, top: Any, first: bool) -> None:
    """Note which momenta a group goes between and, at the start, give it the greatest."""
    if "momentum" not in optimizer.defaults and "betas" not in optimizer.defaults:
        raise ScheduleError(
            "optimizer must support momentum or beta1 with `cycle_momentum` option enabled"
        )
    schedule.use_beta1 = "betas" in optimizer.defaults
    if first:
        for group, low, high in zip(optimizer.param_groups, base, top, strict=True):
            _set_momentum(schedule, group, high)
            group["max_momentum"], group["base_momentum"] = high, low


def _set_momentum(schedule: Any, group: Group, momentum: float) -> None:
    if schedule.use_beta1:
        group["betas"] = (momentum, *group["betas"][1:])
    else:
        group["momentum"] = momentum


class CyclicLR(Formula):
    """Up and down between two rates (Smith 2017); ``step`` after every batch.

    Args:
        base_lr, max_lr: the two rates; one for all groups or one for each.
        step_size_up, step_size_down: steps up and, unless as many, down.
        mode: ``"triangular"``; ``"triangular2"``, where every cycle is half as high as the one
            before; or ``"exp_range"``, where heights fall by ``gamma`` a step.
        scale_fn: what heights are multiplied with, instead of a mode.
        scale_mode: whether ``scale_fn`` is given the number of the cycle (``"cycle"``) or of the
            step (``"iterations"``).
        cycle_momentum: let momentum go the other way, between ``max_momentum`` and
            ``base_momentum``.

    Raises ScheduleError (a ValueError) for settings that make no sense, and for cycled momentum of
    optimizers without one.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: float | list[float],
        max_lr: float | list[float],
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: Literal["triangular", "triangular2", "exp_range"] = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: Literal["cycle", "iterations"] = "cycle",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.8,
        max_momentum: float | list[float] = 0.9,
        last_epoch: int = -1,
    ) -> None:
        require_optimizer(optimizer)
        self.optimizer = optimizer
        lowest = per_group("base_lr", optimizer, base_lr)
        if last_epoch == -1:
            for group, rate in zip(optimizer.param_groups, lowest, strict=True):
                set_rate(group, rate)
        self.max_lrs = per_group("max_lr", optimizer, max_lr)
        up = float(step_size_up)
        self.total_size = up + (up if step_size_down is None else float(step_size_down))
        self.step_ratio = up / self.total_size
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise ScheduleError("mode is invalid and scale_fn is None")
        self.mode, self.gamma = mode, gamma
        self._scale_fn_custom, self.scale_mode = scale_fn, scale_mode
        self._init_scale_fn()
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self.base_momentums = per_group("base_momentum", optimizer, base_momentum)
            self.max_momentums = per_group("max_momentum", optimizer, max_momentum)
            first = last_epoch == -1
            _start_momenta(self, optimizer, self.base_momentums, self.max_momentums, first)
        super().__init__(optimizer, last_epoch)
        self.base_lrs = lowest

    def _init_scale_fn(self) -> None:
        """Without a ``scale_fn``, the mode says what it is given."""
        if self._scale_fn_custom is None:
            self.scale_mode = "iterations" if self.mode == "exp_range" else "cycle"

    def scale_fn(self, x: float) -> float:
        """What the height of cycle, or step, ``x`` is multiplied with."""
        if self._scale_fn_custom is not None:
            return float(self._scale_fn_custom(x))
        if self.mode == "triangular2":
            return float(self._triangular2_scale_fn(x))
        if self.mode == "exp_range":
            return float(self._exp_range_scale_fn(self.gamma, x))
        return float(self._triangular_scale_fn(x))

    @staticmethod
    def _triangular_scale_fn(x: float) -> float:
        return 1.0

    @staticmethod
    def _triangular2_scale_fn(x: float) -> float:
        return float(1 / 2.0 ** (x - 1))

    @staticmethod
    def _exp_range_scale_fn(gamma: float, x: float) -> float:
        return float(gamma**x)

    def _next_rates(self) -> Rates:
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        place = 1.0 + self.last_epoch / self.total_size - cycle
        if place <= self.step_ratio:
            height = place / self.step_ratio
        else:
            height = (place - 1) / (self.step_ratio - 1)
        scale = self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            ends = zip(self.base_momentums, self.max_momentums, strict=True)
            for group, (low, high) in zip(self.optimizer.param_groups, ends, strict=True):
                _set_momentum(self, group, high - (high - low) * height * scale)
        pairs = zip(self.base_lrs, self.max_lrs, strict=True)
        return [low + (high - low) * height * scale for low, high in pairs]

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer; of ``scale_fn`` the state, where it is an object."""
        state = super().state_dict()
        function = state["_scale_fn_custom"]
        plain = function is None or isinstance(function, types.FunctionType)
        state["_scale_fn_custom"] = None if plain else dict(function.__dict__)
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from a ``state_dict``; a plain ``scale_fn`` stays as it is."""
        rest = dict(state_dict)
        state = rest.pop("_scale_fn_custom")
        super().load_state_dict(rest)
        if state is not None:
            self._scale_fn_custom.__dict__.update(state)
        self._init_scale_fn()


class CosineAnnealingWarmRestarts(Formula):
    """Half a cosine down to ``eta_min`` over ``T_0`` steps, and again from the top, each time
    ``T_mult`` as long (Loshchilov & Hutter 2017). ``step`` also takes parts of epochs.

    Raises ScheduleError (a ValueError) for settings out of range and for epochs below 0.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        T_0: int,
        T_mult: int = 1,
        eta_min: float = 0.0,
        last_epoch: int = -1,
    ) -> None:
        if T_0 <= 0 or not isinstance(T_0, int):
            raise ScheduleError(f"Expected positive integer T_0, but got {T_0}")
        if T_mult < 1 or not isinstance(T_mult, int):
            raise ScheduleError(f"Expected integer T_mult >= 1, but got {T_mult}")
        if not isinstance(eta_min, (float, int)):
            raise ScheduleError(
                f"Expected float or int eta_min, but got {eta_min} of type {type(eta_min)}"
            )
        self.T_0, self.T_i, self.T_mult, self.eta_min = T_0, T_0, T_mult, eta_min
        self.T_cur: float = last_epoch
        super().__init__(optimizer, last_epoch)

    def _next_rates(self) -> Rates:
        part = (1 + math.cos(math.pi * self.T_cur / self.T_i)) / 2
        return [self.eta_min + (base - self.eta_min) * part for base in self.base_lrs]

    def step(self, epoch: float | None = None) -> None:
        """Go on by one step, or to ``epoch``, which may be a fraction."""
        each_call(functools.partial(self._step, epoch))

    def _step(self, epoch: float | None = None) -> None:
        if epoch is None and self.last_epoch < 0:
            epoch = 0
        self._update_lr(epoch)

    def _update_lr(self, epoch: float | None = None) -> None:
        if epoch is None:
            epoch = self.last_epoch + 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur %= self.T_i
                self.T_i *= self.T_mult
        elif epoch < 0:
            raise ScheduleError(f"Expected non-negative epoch, but got {epoch}")
        else:
            self._go_to(epoch)
        self.last_epoch = math.floor(epoch)
        self._set(self._asked(self.get_lr))

    def _go_to(self, epoch: float) -> None:
        if epoch < self.T_0:
            self.T_i, self.T_cur = self.T_0, epoch
        elif self.T_mult == 1:
            self.T_cur = epoch % self.T_0
        else:
            ratio = epoch / self.T_0 * (self.T_mult - 1) + 1
            restarts = int(math.log(ratio, self.T_mult))
            before = self.T_0 * (self.T_mult**restarts - 1) / (self.T_mult - 1)
            self.T_cur = epoch - before
            self.T_i = self.T_0 * self.T_mult**restarts


class OneCycleLR(Formula):
    """Up to a great rate, and down to a very small one (Smith & Topin 2018); ``step`` after every
    batch.

    Args:
        max_lr: the greatest rate; one for all groups or one for each.
        total_steps: how many steps; or ``epochs`` times ``steps_per_epoch``.
        pct_start: the share of steps that go up.
        anneal_strategy: ``"cos"`` or ``"linear"``.
        cycle_momentum: let momentum go the other way, between ``max_momentum`` and
            ``base_momentum``.
        div_factor: the first rate is ``max_lr`` divided by this.
        final_div_factor: the last rate is the first divided by this.
        three_phase: go down as fast as up, and then on to the last rate.

    Raises ScheduleError (a ValueError) for settings that make no sense, for cycled momentum of
    optimizers without one, and for more steps than there are.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | list[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: Literal["cos", "linear"] = "cos",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.85,
        max_momentum: float | list[float] = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        require_optimizer(optimizer)
        self.optimizer = optimizer
        self.total_steps = _steps_of_cycle(total_steps, epochs, steps_per_epoch)
        self._schedule_phases = _phases(pct_start, self.total_steps, three_phase)
        if not isinstance(pct_start, float) or not 0 <= pct_start <= 1:
            raise ScheduleError(f"Expected float between 0 and 1 pct_start, but got {pct_start}")
        if anneal_strategy not in ("cos", "linear"):
            raise ScheduleError(
                f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}"
            )
        self._anneal_func_type = anneal_strategy
        highest = per_group("max_lr", optimizer, max_lr)
        if last_epoch == -1:
            for group, rate in zip(optimizer.param_groups, highest, strict=True):
                group["initial_lr"] = rate / div_factor
                group["max_lr"] = rate
                group["min_lr"] = group["initial_lr"] / final_div_factor
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            top = per_group("max_momentum", optimizer, max_momentum)
            base = per_group("base_momentum", optimizer, base_momentum)
            _start_momenta(self, optimizer, base, top, last_epoch == -1)
        super().__init__(optimizer, last_epoch)

    def _anneal_func(self, start: float, end: float, pct: float) -> float:
        """The value at a share ``pct`` of the way from ``start`` to ``end``."""
        if self._anneal_func_type == "cos":
            return self._annealing_cos(start, end, pct)
        return self._annealing_linear(start, end, pct)

    @staticmethod
    def _annealing_cos(start: float, end: float, pct: float) -> float:
        return end + (start - end) / 2.0 * (math.cos(math.pi * pct) + 1)

    @staticmethod
    def _annealing_linear(start: float, end: float, pct: float) -> float:
        return (end - start) * pct + start

    def _next_rates(self) -> Rates:
        step = self.last_epoch
        if step > self.total_steps:
            raise ScheduleError(
                f"Tried to step {step} times. The specified number of total steps is "
                f"{self.total_steps}"
            )
        begin = 0.0
        for phase in self._schedule_phases:
            end = phase["end_step"]
            if step <= end or phase is self._schedule_phases[-1]:
                break
            begin = end
        part = (step - begin) / (end - begin)
        rates = []
        for group in self.optimizer.param_groups:
            rates.append(self._anneal_func(group[phase["start_lr"]], group[phase["end_lr"]], part))
            if self.cycle_momentum:
                names = phase["start_momentum"], phase["end_momentum"]
                _set_momentum(
                    self, group, self._anneal_func(group[names[0]], group[names[1]], part)
                )
        return rates


def _steps_of_cycle(total: Any, epochs: Any, per_epoch: Any) -> int:
    def positive(name: str, value: Any) -> int:
        if not isinstance(value, int) or value <= 0:
            raise ScheduleError(f"Expected positive integer {name}, but got {value}")
        return value

    if total is not None:
        return positive("total_steps", total)
    if epochs is None or per_epoch is None:
        raise ScheduleError("You must define either total_steps OR (epochs AND steps_per_epoch)")
    return positive("epochs", epochs) * positive("steps_per_epoch", per_epoch)


def _phases(share: float, steps: int, three: bool) -> list[dict[str, Any]]:
    """Where phases end, and the settings of groups that they go between."""
    low, high, last = "base_momentum", "max_momentum", steps - 1
    ups = [(float(share * steps) - 1, "initial_lr", "max_lr", high, low)]
    if three:
        downs = [
            (float(2 * share * steps) - 2, "max_lr", "initial_lr", low, high),
            (last, "initial_lr", "min_lr", high, high),
        ]
    else:
        downs = [(last, "max_lr", "min_lr", low, high)]
    names = "end_step", "start_lr", "end_lr", "start_momentum", "end_momentum"
    return [dict(zip(names, phase, strict=True)) for phase in (*ups, *downs)]
