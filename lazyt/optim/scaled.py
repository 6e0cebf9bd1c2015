"""Optimizers that divide by running or total squares: RMSprop, Adagrad and Adadelta."""

from __future__ import annotations

from typing import Any

from lazyt.functional import namespace as lazyt
from lazyt.functional.updates import accumulate_, accumulate_square_, count_of, descend_, new_count
from lazyt.handle.tensor import Tensor
from lazyt.optim.optimizer import Group, Optimizer, check_fused, check_rate, check_setting


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

    _state_lists = 4
    _counting = True

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 1e-2,
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
        check_rate(lr)
        check_setting(eps >= 0, "epsilon value", eps)
        check_setting(momentum >= 0, "momentum value", momentum)
        check_setting(weight_decay >= 0, "weight_decay value", weight_decay)
        check_setting(alpha >= 0, "alpha value", alpha)
        defaults = {
            "lr": lr, "momentum": momentum, "alpha": alpha, "eps": eps, "centered": centered,
            "weight_decay": weight_decay, "capturable": capturable, "foreach": foreach,
            "maximize": maximize, "differentiable": differentiable,
        }  # fmt: skip
        super().__init__(params, defaults)

    def _update_one(self, group: Group, parameter: Tensor) -> None:
        keep = group["alpha"]
        grad = self.gradient(group, parameter)
        square = self.slot(parameter, "square_avg")
        buffer = self.slot(parameter, "momentum_buffer") if group["momentum"] else None
        accumulate_square_(square, grad, keep, 1 - keep)
        spread = square
        if group["centered"]:
            mean = self.slot(parameter, "grad_avg")
            mean.lerp_(grad, 1 - keep)
            spread = square.addcmul(mean, mean, value=-1)
        step = grad / (spread.sqrt() + group["eps"])
        if buffer is not None:
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

    _state_lists = 2
    _counting = True

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 1e-2,
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
        check_rate(lr)
        check_setting(lr_decay >= 0, "lr_decay value", lr_decay)
        check_setting(weight_decay >= 0, "weight_decay value", weight_decay)
        start = initial_accumulator_value
        check_setting(start >= 0, "initial_accumulator_value value", start)
        check_setting(eps >= 0, "epsilon value", eps)
        defaults = {
            "lr": lr, "lr_decay": lr_decay, "eps": eps, "weight_decay": weight_decay,
            "initial_accumulator_value": start, "foreach": foreach, "maximize": maximize,
            "differentiable": differentiable, "fused": fused,
        }  # fmt: skip
        super().__init__(params, defaults)
        check_fused(fused, foreach, differentiable)
        for group in self.param_groups:
            for parameter in group["params"]:
                self.state[parameter]["step"] = new_count(0.0)
                total = self.slot(parameter, "sum")
                if start:
                    with lazyt.no_grad():
                        total.fill_(start)

    def _update_one(self, group: Group, parameter: Tensor) -> None:
        grad = self.gradient(group, parameter)
        rate = self._rate(group, parameter)
        total = self.state[parameter]["sum"]
        accumulate_square_(total, grad, 1, 1)
        step = grad / (total.sqrt() + group["eps"])
        descend_(parameter, step, rate)

    def _rate(self, group: Group, parameter: Tensor) -> Tensor:
        """The learning rate, which falls with the parameter's own steps."""
        count, state = self.count_key(parameter), self.state[parameter]

        def share() -> float:
            return 1 / float(1 + (count_of(state["step"]) - 1) * group["lr_decay"])

        return self.rate(group, parameter, share, count)


class Adadelta(Optimizer):
    """Steps in the ratio of two running means, of squared steps and gradients (Zeiler 2012).

    Args:
        params: the parameters, or groups of them.
        lr: what steps are multiplied with.
        rho: how much of the two means is kept from step to step.
        eps: added to both before their roots.
        weight_decay: this share of each parameter is added to its gradient.
        maximize: go up instead of down.

    ``foreach`` and ``capturable`` change nothing: updates are fused anyway.
    Raises SettingError (a ValueError) for settings out of range.
    """

    _state_lists = 3
    _counting = True

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        capturable: bool = False,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_rate(lr)
        check_setting(0 <= rho <= 1, "rho value", rho)
        check_setting(eps >= 0, "epsilon value", eps)
        check_setting(weight_decay >= 0, "weight_decay value", weight_decay)
        defaults = {
            "lr": lr, "rho": rho, "eps": eps, "weight_decay": weight_decay, "maximize": maximize,
            "capturable": capturable, "foreach": foreach, "differentiable": differentiable,
        }  # fmt: skip
        super().__init__(params, defaults)

    def _update_one(self, group: Group, parameter: Tensor) -> None:
        keep, eps = group["rho"], group["eps"]
        grad = self.gradient(group, parameter)
        square = self.slot(parameter, "square_avg")
        accumulate_square_(square, grad, keep, 1 - keep)
        steps = self.slot(parameter, "acc_delta")
        step = (steps + eps).sqrt() / (square + eps).sqrt() * grad
        accumulate_square_(steps, step, keep, 1 - keep)
        descend_(parameter, step, self.rate(group, parameter))
