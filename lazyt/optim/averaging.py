"""ASGD: gradient descent that also keeps the mean of the parameters on the way."""

from __future__ import annotations

from typing import Any

import lazyt
from lazyt.counts import count_of, new_count, set_count
from lazyt.functional.updates import descend_
from lazyt.optim.optimizer import Group, Optimizer
from lazyt.optim.settings import check_rate, check_setting
from lazyt.tensor import Tensor
from lazyt.watching import counted


class ASGD(Optimizer):
    """Averaged stochastic gradient descent (Polyak & Juditsky 1992). The mean is in the state, as
    ``"ax"``.

    Args:
        params: the parameters, or groups of them.
        lr: the learning rate at the start.
        lambd: how fast rates, and parameters, decay.
        alpha: the power at which rates fall.
        t0: the step from which on the mean is taken; until then it is the last value.
        weight_decay: this share of each parameter is added to its gradient.
        maximize: go up instead of down.

    ``foreach`` and ``capturable`` change nothing: updates are fused anyway. A learning rate that is
    a tensor is looked at in every step, which a captured function cannot replay.
    Raises SettingError (a ValueError) for settings out of range.
    """

    _state_lists = 4
    _scalars = frozenset({"step", "eta", "mu"})

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        check_rate(lr)
        check_setting(weight_decay >= 0, "weight_decay value", weight_decay)
        defaults = {
            "lr": lr, "lambd": lambd, "alpha": alpha, "t0": t0, "weight_decay": weight_decay,
            "foreach": foreach, "maximize": maximize, "differentiable": differentiable,
            "capturable": capturable,
        }  # fmt: skip
        super().__init__(params, defaults)

    def _update_one(self, group: Group, parameter: Tensor) -> None:
        state, lambd = self.state[parameter], group["lambd"]
        if "eta" not in state:
            eta = new_count(float(group["lr"]))
            state.update(step=new_count(0.0), eta=eta, mu=new_count(1.0))
        grad = self.gradient(group, parameter)
        names = ("step", "eta", "mu")
        key = counted(state, names, tuple([count_of(state[name]) for name in names]))
        rate = self.number(lambda: count_of(state["eta"]), parameter, group, ("eta", key))
        keep = self.number(
            lambda: 1 - lambd * count_of(state["eta"]), parameter, group, ("keep", key)
        )
        share = self.number(lambda: count_of(state["mu"]), parameter, group, ("mu", key))
        parameter.mul_(keep)
        descend_(parameter, grad, rate)
        mean = self.slot(parameter, "ax")
        moved = mean + (parameter - mean) * share.to(mean.dtype)
        mean.copy_(lazyt.where(share == 1, parameter, moved))  # 1 takes the value to the bit

        def advance() -> None:
            step = set_count(state, "step", count_of(state["step"]) + 1)
            lr = float(group["lr"])
            set_count(state, "eta", lr / (1 + lambd * lr * step) ** group["alpha"])
            set_count(state, "mu", 1 / max(1.0, step - group["t0"]))

        self.renewed([state], names, advance)
