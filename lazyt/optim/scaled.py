"""Optimizers that divide by running or total squares: RMSprop and Adagrad."""

from __future__ import annotations

from typing import Any

import lazyt
from lazyt.functional.updates import accumulate_, accumulate_square_, descend_
from lazyt.optim.optimizer import Group, Optimizer, check_setting, unused_settings
from lazyt.tensor import Tensor


def _decayed(group: Group, parameter: Tensor) -> Tensor:
    """The gradient, turned for ``maximize`` and with weight decay."""
    grad = parameter.grad
    assert grad is not None
    if group["maximize"]:
        grad = -grad
    if group["weight_decay"]:
        grad = grad.add(parameter, alpha=group["weight_decay"])
    return grad


class RMSprop(Optimizer):
    """Steps divided by the root of a running mean of squared gradients (Hinton 2012).

    Args:
        params: the parameters, or groups of them.
        lr: the learning rate.
        alpha: how much of the mean is kept from step to step.
        eps: added to the root.
        weight_decay: this share of each parameter is added to its gradient.
        momentum: share of the last step that is kept.
        centered: divide by the deviation instead (Graves 2013).
        maximize: go up instead of down.

    Raises SettingError (a ValueError) for settings out of range.
    """

    def __init__(
        self,
        params: Any,
        lr: float = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_setting(lr >= 0, "learning rate", lr)
        check_setting(eps >= 0, "epsilon value", eps)
        check_setting(momentum >= 0, "momentum value", momentum)
        check_setting(weight_decay >= 0, "weight_decay value", weight_decay)
        check_setting(alpha >= 0, "alpha value", alpha)
        defaults = {
            "lr": lr, "momentum": momentum, "alpha": alpha, "eps": eps, "centered": centered,
            "weight_decay": weight_decay, "capturable": capturable, "maximize": maximize,
            **unused_settings(foreach=foreach, differentiable=differentiable),
        }  # fmt: skip
        super().__init__(params, defaults)

    def _update(self, group: Group, parameters: list[Tensor]) -> None:
        keep = group["alpha"]
        for parameter in parameters:
            grad = _decayed(group, parameter)
            square = self.slot(parameter, "square_avg")
            accumulate_square_(square, grad, keep, 1 - keep)
            spread = square
            if group["centered"]:
                mean = self.slot(parameter, "grad_avg")
                mean.lerp_(grad, 1 - keep)
                spread = square.addcmul(mean, mean, value=-1)
            step = grad / (spread.sqrt() + group["eps"])
            if group["momentum"]:
                buffer = self.slot(parameter, "momentum_buffer")
                accumulate_(buffer, step, group["momentum"], 1)
                step = buffer
            descend_(parameter, step, self.rate(group, parameter))


class Adagrad(Optimizer):
    """Steps divided by the root of all squared gradients so far (Duchi et al. 2011).

    Args:
        params: the parameters, or groups of them.
        lr: the learning rate.
        lr_decay: the rate falls as 1 / (1 + steps * lr_decay).
        weight_decay: this share of each parameter is added to its gradient.
        initial_accumulator_value: where the sum of squares starts.
        eps: added to the root.
        maximize: go up instead of down.

    Raises SettingError (a ValueError) for settings out of range.
    """

    def __init__(
        self,
        params: Any,
        lr: float = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        check_setting(lr >= 0, "learning rate", lr)
        check_setting(lr_decay >= 0, "lr_decay value", lr_decay)
        check_setting(weight_decay >= 0, "weight_decay value", weight_decay)
        start = initial_accumulator_value
        check_setting(start >= 0, "initial_accumulator_value value", start)
        check_setting(eps >= 0, "epsilon value", eps)
        defaults = {
            "lr": lr, "lr_decay": lr_decay, "eps": eps, "weight_decay": weight_decay,
            "initial_accumulator_value": start, "maximize": maximize,
            **unused_settings(foreach=foreach, differentiable=differentiable, fused=fused),
        }  # fmt: skip
        super().__init__(params, defaults)
        for group in self.param_groups:
            for parameter in group["params"]:
                self.state[parameter]["step"] = 0.0
                total = self.slot(parameter, "sum")
                if start:
                    with lazyt.no_grad():
                        total.fill_(start)

    def _update(self, group: Group, parameters: list[Tensor]) -> None:
        for parameter in parameters:
            grad = _decayed(group, parameter)
            rate = self._rate(group, parameter)
            total = self.state[parameter]["sum"]
            accumulate_square_(total, grad, 1, 1)
            step = grad / (total.sqrt() + group["eps"])
            descend_(parameter, step, rate)

    def _rate(self, group: Group, parameter: Tensor) -> Tensor:
        """The learning rate, which falls with the parameter's own steps."""
        count, state = self.count(parameter), self.state[parameter]

        def falling() -> float:
            return float(group["lr"] / (1 + (state["step"] - 1) * group["lr_decay"]))

        return self.number(falling, parameter, (id(group), count))
