"""Stochastic gradient descent."""

from __future__ import annotations

from typing import Any

from lazyt.functional.updates import accumulate_, descend_
from lazyt.optim.optimizer import Group, Optimizer
from lazyt.optim.settings import SettingError, check_fused, check_rate, check_setting
from lazyt.tensor import Tensor


class SGD(Optimizer):
    """Gradient descent with momentum (Sutskever et al. 2013), as PyTorch computes it.

    Args:
        params: the parameters, or groups of them.
        lr: the learning rate.
        momentum: share of the last step that is kept.
        dampening: share of the gradient that momentum leaves out.
        weight_decay: this share of each parameter is added to its gradient.
        nesterov: Nesterov's momentum; needs momentum and no dampening.
        maximize: go up instead of down.

    ``foreach`` and ``fused`` change nothing: updates are fused anyway.
    Raises SettingError (a ValueError) for settings out of range.
    """

    _state_lists = 1
    _cycled = frozenset({"momentum"})

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        check_rate(lr)
        check_setting(momentum >= 0, "momentum value", momentum)
        check_setting(weight_decay >= 0, "weight_decay value", weight_decay)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise SettingError("Nesterov momentum requires a momentum and zero dampening")
        defaults = {
            "lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay,
            "nesterov": nesterov, "maximize": maximize, "foreach": foreach,
            "differentiable": differentiable, "fused": fused,
        }  # fmt: skip
        super().__init__(params, defaults)
        check_fused(fused, foreach, differentiable)

    def _update_one(self, group: Group, parameter: Tensor) -> None:
        step = self._direction(group, parameter)
        descend_(parameter, step, self.rate(group, parameter))

    def _direction(self, group: Group, parameter: Tensor) -> Any:
        """What the learning rate is multiplied with."""
        grad = self.gradient(group, parameter)
        momentum = group["momentum"]
        if not momentum:
            return grad
        dampening = group["dampening"]
        state = self.state[parameter]
        keep = self.cycled(group, parameter, lambda: group["momentum"], "momentum")
        if dampening and "momentum_buffer" not in state:
            buffer = state["momentum_buffer"] = grad.clone()
        else:  # starting from zeros gives the first gradient, and makes all steps alike
            buffer = self.slot(parameter, "momentum_buffer")
            accumulate_(buffer, grad, keep, 1 - dampening)
        if not group["nesterov"]:
            return buffer
        if isinstance(keep, Tensor):
            return grad + buffer * keep.to(grad.dtype)
        return grad.add(buffer, alpha=keep)
