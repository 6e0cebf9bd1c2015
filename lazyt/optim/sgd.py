"""Gradient descent: SGD and ASGD; steps by the gradient's sign alone: Rprop and Lion; steps divided
by running or total squares: RMSprop, Adagrad and Adadelta."""

from __future__ import annotations

from typing import Any

from lazyt.errors import LazytError
from lazyt.functional import namespace as lazyt
from lazyt.functional.updates import (
    accumulate_,
    accumulate_square_,
    count_of,
    descend_,
    new_count,
    set_count,
)
from lazyt.handle.hooks import counted
from lazyt.handle.tensor import Tensor
from lazyt.optim.optimizer import (
    Group,
    Optimizer,
    SettingError,
    check_betas,
    check_fused,
    check_rate,
    check_setting,
)

# Stochastic gradient descent.


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
    _takes_complex = True
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

    def _update_sparse(self, group: Group, parameter: Tensor, grad: Tensor) -> None:
        from lazyt.functional.sparse import updates

        grad = self.gradient(group, parameter)  # which weight decay would make dense
        if group["momentum"]:
            state, keep = self.state_of(parameter), group["momentum"]
            known = state.get("momentum_buffer")
            if known is None:
                state["momentum_buffer"] = grad.clone()
            else:
                share = grad if not group["dampening"] else grad * (1 - group["dampening"])
                state["momentum_buffer"] = (known * keep + share).coalesce()
            buffer = state["momentum_buffer"]
            grad = grad + buffer * keep if group["nesterov"] else buffer
        elements = updates.elements(grad)
        step = updates.scaled(elements._values(), -self.rate(group, parameter))
        updates.add_elements_(parameter, elements, step)

    def _direction(self, group: Group, parameter: Tensor) -> Any:
        """What the learning rate is multiplied with."""
        grad = self.gradient(group, parameter)
        momentum = group["momentum"]
        if not momentum:
            return grad
        dampening = group["dampening"]
        state = self.state_of(parameter)
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
        begun = "step_size" in self.state_of(parameter)
        size = self.slot(parameter, "step_size", 0.0 if begun else float(group["lr"]))
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
            parameter.mul_(self.decay_factor(group, parameter, decay))
        descend_(parameter, direction, self.rate(group, parameter))
        mean.lerp_(grad, 1 - keep)


# ASGD: gradient descent that also keeps the mean of the parameters on the way.


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
        state, lambd = self.state_of(parameter), group["lambd"]
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


# Optimizers that divide by running or total squares: RMSprop, Adagrad and Adadelta.


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
                self.slot(parameter, "sum", start)

    def _update_one(self, group: Group, parameter: Tensor) -> None:
        grad = self.gradient(group, parameter)
        rate = self._rate(group, parameter)
        total = self.slot(parameter, "sum")
        accumulate_square_(total, grad, 1, 1)
        step = grad / (total.sqrt() + group["eps"])
        descend_(parameter, step, rate)

    def _update_sparse(self, group: Group, parameter: Tensor, grad: Tensor) -> None:
        from lazyt.functional.sparse import updates

        if group["weight_decay"]:
            raise LazytError("weight_decay option is not compatible with sparse gradients")
        self._count([parameter])
        elements = updates.unique_elements(self.gradient(group, parameter))
        values, total = elements._values(), self.slot(parameter, "sum")
        updates.add_elements_(total, elements, values * values)
        root = updates.elements_of(total, elements).sqrt() + group["eps"]
        step = updates.scaled(values / root, -self._rate(group, parameter))
        updates.add_elements_(parameter, elements, step)

    def _rate(self, group: Group, parameter: Tensor) -> Tensor:
        """The learning rate, which falls with the parameter's own steps."""
        count, state = self.count_key(parameter), self.state_of(parameter)

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
