"""Adam and AdamW."""

from __future__ import annotations

import math
from typing import Any

from lazyt.functional.updates import accumulate_square_, adam_
from lazyt.optim.optimizer import Group, Optimizer, check_setting, unused_settings
from lazyt.tensor import Tensor


class Adam(Optimizer):
    """Steps scaled by running means of the gradient and of its square (Kingma & Ba 2015).

    Args:
        params: the parameters, or groups of them.
        lr: the learning rate.
        betas: how much of the two means is kept from step to step.
        eps: added to the root of the second mean.
        weight_decay: this share of each parameter is added to its gradient.
        amsgrad: divide by the greatest second mean so far (Reddi et al. 2018).
        maximize: go up instead of down.
        decoupled_weight_decay: shrink parameters instead, as AdamW does.

    ``foreach``, ``capturable`` and ``fused`` change nothing: updates are fused anyway.
    Raises SettingError (a ValueError) for settings out of range.
    """

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        check_setting(lr >= 0, "learning rate", lr)
        check_setting(eps >= 0, "epsilon value", eps)
        for index, beta in enumerate(betas):
            check_setting(0 <= beta < 1, f"beta parameter at index {index}", beta)
        check_setting(weight_decay >= 0, "weight_decay value", weight_decay)
        defaults = {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay,
            "amsgrad": amsgrad, "maximize": maximize, "capturable": capturable,
            **unused_settings(foreach=foreach, differentiable=differentiable, fused=fused),
            "decoupled_weight_decay": decoupled_weight_decay,
        }  # fmt: skip
        super().__init__(params, defaults)

    def _update(self, group: Group, parameters: list[Tensor]) -> None:
        for parameter in parameters:
            self._update_one(group, parameter)

    def _update_one(self, group: Group, parameter: Tensor) -> None:
        grad = parameter.grad
        assert grad is not None
        decay = group["weight_decay"]
        keep_mean, keep_square = group["betas"]
        count, state = self.count(parameter), self.state[parameter]
        if group["maximize"]:
            grad = -grad
        keep = None
        if decay and group["decoupled_weight_decay"]:
            keep = self.number(lambda: 1 - group["lr"] * decay, parameter, ("keep", id(group)))
        elif decay:
            grad = grad.add(parameter, alpha=decay)
        mean, square = self.slot(parameter, "exp_avg"), self.slot(parameter, "exp_avg_sq")
        mean.lerp_(grad, 1 - keep_mean)
        accumulate_square_(square, grad, keep_square, 1 - keep_square)
        if group["amsgrad"]:
            greatest = self.slot(parameter, "max_exp_avg_sq")
            greatest.copy_(greatest.maximum(square))
            square = greatest

        def root() -> float:
            return math.sqrt(1 - keep_square ** state["step"])

        def size() -> float:
            return float(group["lr"] / (1 - keep_mean ** state["step"]))

        step = self.number(size, parameter, ("size", id(group), count))
        spread = self.number(root, parameter, ("root", id(group), count))
        adam_(parameter, mean, square, step, spread, group["eps"], keep)


class AdamW(Adam):
    """Adam whose weight decay does not pass through the means (Loshchilov & Hutter 2019).

    Args as for Adam; every step first shrinks the parameters by ``lr * weight_decay``.
    """

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        super().__init__(
            params, lr, betas, eps, weight_decay, amsgrad, foreach=foreach, maximize=maximize,
            capturable=capturable, differentiable=differentiable, fused=fused,
            decoupled_weight_decay=True,
        )  # fmt: skip
