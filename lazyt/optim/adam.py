"""Adam and AdamW."""

from __future__ import annotations

import math
from typing import Any

from lazyt.counts import count_of
from lazyt.functional.updates import accumulate_square_, adam_
from lazyt.optim.optimizer import Group, Optimizer
from lazyt.optim.settings import (
    SettingError,
    check_fused,
    check_moments,
)
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

    _state_lists = 4
    _counting = True
    _cycled = frozenset({"betas"})

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 1e-3,
        betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.999),
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
        check_moments(lr, betas, eps, weight_decay, foreach=foreach, capturable=capturable)
        betas = _numbers_of(betas, foreach, capturable)
        defaults = {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay,
            "amsgrad": amsgrad, "maximize": maximize, "foreach": foreach,
            "capturable": capturable, "differentiable": differentiable, "fused": fused,
            "decoupled_weight_decay": decoupled_weight_decay,
        }  # fmt: skip
        super().__init__(params, defaults)
        check_fused(fused, foreach, differentiable)

    def _update_one(self, group: Group, parameter: Tensor) -> None:
        decay, decoupled = group["weight_decay"], group["decoupled_weight_decay"]
        keep_square = group["betas"][1]
        count, state = self.count_key(parameter), self.state[parameter]
        grad = self.gradient(group, parameter, decayed=not decoupled)
        keep = self.kept(group, parameter, decay) if decay and decoupled else None
        mean, square = self.slot(parameter, "exp_avg"), self.slot(parameter, "exp_avg_sq")
        fresh = self.cycled(group, parameter, lambda: 1 - group["betas"][0], "beta1")
        mean.lerp_(grad, fresh.to(mean.dtype) if isinstance(fresh, Tensor) else fresh)
        accumulate_square_(square, grad, keep_square, 1 - keep_square)
        if group["amsgrad"]:
            greatest = self.slot(parameter, "max_exp_avg_sq")
            greatest.copy_(self.old(greatest).maximum(square))
            square = greatest

        def root() -> float:
            return math.sqrt(1 - keep_square ** count_of(state["step"]))

        def share() -> float:
            return 1 / float(1 - group["betas"][0] ** count_of(state["step"]))

        step = self.rate(group, parameter, share, count)
        spread = self.number(root, parameter, group, ("root", count))
        adam_(parameter, mean, square, step, spread, group["eps"], keep)


def _numbers_of(betas: Any, foreach: bool | None, capturable: bool) -> tuple[float, float]:
    """Shares that may be given as tensors, as numbers."""
    kinds = {type(beta) for beta in betas}
    if not (kinds == {float} or all(issubclass(kind, Tensor) for kind in kinds)):
        raise SettingError("betas must be either both floats or both Tensors")
    for index, beta in enumerate(betas):
        if isinstance(beta, Tensor):
            if foreach and not capturable:
                raise SettingError(
                    f"betas[{index}] as a Tensor is not supported for capturable=False and "
                    "foreach=True"
                )
            if beta.numel() != 1:
                raise SettingError(f"Tensor betas[{index}] must be 1-element")
    return float(betas[0]), float(betas[1])


class AdamW(Adam):
    """Adam whose weight decay does not pass through the means (Loshchilov & Hutter 2019).

    Args as for Adam; every step first shrinks the parameters by ``lr * weight_decay``.
    """

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 1e-3,
        betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.999),
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
