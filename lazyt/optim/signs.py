"""Optimizers that look at the gradient's sign alone: Rprop and Lion."""

from __future__ import annotations

from typing import Any

import lazyt
from lazyt.functional.updates import descend_
from lazyt.optim.optimizer import Group, Optimizer
from lazyt.optim.settings import (
    SettingError,
    check_betas,
    check_rate,
    check_setting,
)
from lazyt.tensor import Tensor


class Rprop(Optimizer):
    """A step size for each number, which grows while the gradient keeps its sign (Riedmiller &
    Braun 1993).

    Args:
        params: the parameters, or groups of them.
        lr: the step sizes at the start.
        etas: what a step size is multiplied with when the sign changes, and when it does not.
        step_sizes: the smallest and the largest.
        maximize: go up instead of down.

    ``foreach`` and ``capturable`` change nothing: updates are fused anyway.
    Raises SettingError (a ValueError) for settings out of range.
    """

    _state_lists = 3
    _counting = True

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
        *,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_rate(lr)
        if not 0 < etas[0] < 1 < etas[1]:
            raise SettingError(f"Invalid eta values: {etas[0]}, {etas[1]}")
        defaults = {
            "lr": lr, "etas": etas, "step_sizes": step_sizes, "foreach": foreach,
            "maximize": maximize, "differentiable": differentiable, "capturable": capturable,
        }  # fmt: skip
        super().__init__(params, defaults)

    def _update_one(self, group: Group, parameter: Tensor) -> None:
        shrink, grow = group["etas"]
        grad = self.gradient(group, parameter)
        before = self.slot(parameter, "prev")
        if "step_size" not in self.state[parameter]:
            self.slot(parameter, "step_size", float(group["lr"]))
        size = self.state[parameter]["step_size"]
        turn = (grad * self.old(before)).sign()
        factor = lazyt.where(turn == 0, 1.0, turn)  # NaN stays
        factor = lazyt.where(turn > 0, grow, lazyt.where(turn < 0, shrink, factor))
        size.copy_((self.old(size) * factor).clamp(*group["step_sizes"]))
        grad = lazyt.where(turn < 0, 0.0, grad)
        parameter.addcmul_(grad.sign(), size, value=-1)
        before.copy_(grad)


class Lion(Optimizer):
    """Steps of one size in the direction of a mean gradient's signs (Chen et al. 2023). PyTorch
    has no such optimizer; names and defaults are the paper's.

    Args:
        params: the parameters, or groups of them.
        lr: the learning rate, best a third to a tenth of Adam's.
        betas: how much of the mean goes into the step, and how much is kept for the next.
        weight_decay: parameters shrink by ``lr * weight_decay`` at every step.
        maximize: go up instead of down.

    Raises SettingError (a ValueError) for settings out of range.
    """

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 1e-4,
        betas: tuple[float, float] = (0.9, 0.99),
        weight_decay: float = 0.0,
        *,
        maximize: bool = False,
    ) -> None:
        check_rate(lr)
        check_betas(betas)
        check_setting(weight_decay >= 0, "weight_decay value", weight_decay)
        defaults = {"lr": lr, "betas": betas, "weight_decay": weight_decay, "maximize": maximize}
        super().__init__(params, defaults)

    def _update_one(self, group: Group, parameter: Tensor) -> None:
        mix, keep = group["betas"]
        decay = group["weight_decay"]
        grad = self.gradient(group, parameter, decayed=False)
        mean = self.slot(parameter, "exp_avg")
        direction = (mean * mix + grad * (1 - mix)).sign()
        if decay:
            parameter.mul_(self.kept(group, parameter, decay))
        descend_(parameter, direction, self.rate(group, parameter))
        mean.lerp_(grad, 1 - keep)
