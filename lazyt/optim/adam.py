"""Adam and what is derived from it: AdamW, Adamax, NAdam, RAdam, SparseAdam."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from lazyt.errors import LazytError
from lazyt.functional import namespace as lazyt
from lazyt.functional.updates import (
    accumulate_square_,
    adam_,
    count_of,
    descend_,
    in_float32,
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
    check_moments,
    check_rate,
    check_setting,
)


def _unbiased(group: Group, state: dict[str, Any]) -> Callable[[], float]:
    """What gives the factor of a mean that began as 0: most of its weight is on zeros at first."""
    return lambda: 1 / float(1 - group["betas"][0] ** count_of(state["step"]))


def _moments(
    optimizer: Optimizer, group: Group, parameter: Tensor, grad: Tensor
) -> tuple[Tensor, Tensor]:
    """The running means of the gradient and of its square, with this step's gradient."""
    keep_mean, keep_square = group["betas"]
    mean, square = optimizer.slot(parameter, "exp_avg"), optimizer.slot(parameter, "exp_avg_sq")
    mean.lerp_(grad, 1 - keep_mean)
    accumulate_square_(square, grad, keep_square, 1 - keep_square)
    return mean, square


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

    def _update_sparse(self, group: Group, parameter: Tensor, grad: Tensor) -> None:
        """Raises LazytError: the formula is for dense gradients."""
        raise LazytError(
            "Adam does not support sparse gradients, please consider SparseAdam instead"
        )

    def _update_one(self, group: Group, parameter: Tensor) -> None:
        decay, decoupled = group["weight_decay"], group["decoupled_weight_decay"]
        keep_square = group["betas"][1]
        count, state = self.count_key(parameter), self.state_of(parameter)
        grad = self.gradient(group, parameter, decayed=not decoupled)
        keep = self.decay_factor(group, parameter, decay) if decay and decoupled else None
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

        step = self.rate(group, parameter, _unbiased(group, state), count)
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


class Adamax(Optimizer):
    """Adam that divides by the greatest gradient of late (Kingma & Ba 2015, section 7.1).

    Args:
        params: the parameters, or groups of them.
        lr: the learning rate.
        betas: how much of the mean, and of the greatest gradient, is kept from step to step.
        eps: added to the size of the gradient.
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
        lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        check_moments(lr, betas, eps, weight_decay)
        defaults = {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay,
            "foreach": foreach, "maximize": maximize, "differentiable": differentiable,
            "capturable": capturable,
        }  # fmt: skip
        super().__init__(params, defaults)

    def _update_one(self, group: Group, parameter: Tensor) -> None:
        keep_mean, keep_greatest = group["betas"]
        count, state = self.count_key(parameter), self.state_of(parameter)
        grad = self.gradient(group, parameter)
        mean, greatest = self.slot(parameter, "exp_avg"), self.slot(parameter, "exp_inf")
        mean.lerp_(grad, 1 - keep_mean)
        greatest.copy_((greatest * keep_greatest).maximum(grad.abs() + group["eps"]))
        rate = self.rate(group, parameter, _unbiased(group, state), count)
        descend_(parameter, mean / greatest, rate)


class NAdam(Optimizer):
    """Adam with Nesterov's momentum (Dozat 2016).

    Args:
        params: the parameters, or groups of them.
        lr: the learning rate.
        betas: how much of the two means is kept from step to step.
        eps: added to the root of the second mean.
        weight_decay: this share of each parameter is added to its gradient.
        momentum_decay: how fast the momentum rises to ``betas[0]``.
        decoupled_weight_decay: shrink parameters instead, as AdamW does.
        maximize: go up instead of down.

    ``foreach`` and ``capturable`` change nothing: updates are fused anyway.
    Raises SettingError (a ValueError) for settings out of range.
    """

    _state_lists = 4
    _scalars = frozenset({"step", "mu_product"})

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_moments(lr, betas, eps, weight_decay)
        check_setting(momentum_decay >= 0, "momentum_decay value", momentum_decay)
        defaults = {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay,
            "momentum_decay": momentum_decay, "decoupled_weight_decay": decoupled_weight_decay,
            "maximize": maximize, "foreach": foreach, "capturable": capturable,
            "differentiable": differentiable,
        }  # fmt: skip
        super().__init__(params, defaults)

    def _update_one(self, group: Group, parameter: Tensor) -> None:
        decay, decoupled = group["weight_decay"], group["decoupled_weight_decay"]
        keep_mean, keep_square = group["betas"]
        state = self.state_of(parameter)

        def momentum(step: float) -> float:
            return float(keep_mean * (1 - 0.5 * 0.96 ** (step * group["momentum_decay"])))

        def advance() -> tuple[float, float]:
            step = set_count(state, "step", count_of(state.get("step", 0.0)) + 1)
            product = count_of(state.get("mu_product", 1.0)) * in_float32(momentum(step))
            return step, set_count(state, "mu_product", product)

        def grad_share() -> float:
            rise = 1 - momentum(count_of(state["step"]))
            return float(rise / (1 - count_of(state["mu_product"])))

        def mean_share() -> float:
            following = momentum(count_of(state["step"]) + 1)
            return float(following / (1 - count_of(state["mu_product"]) * following))

        names = ("step", "mu_product")
        key = counted(state, names, self.renewed([state], names, advance))
        grad = self.gradient(group, parameter, decayed=not decoupled)
        if decay and decoupled:
            parameter.mul_(self.decay_factor(group, parameter, decay))
        mean, square = _moments(self, group, parameter, grad)
        correction = self.number(
            lambda: float(1 - keep_square ** count_of(state["step"])),
            parameter,
            group,
            ("square", key),
        )
        spread = (square / correction).sqrt() + group["eps"]
        descend_(parameter, grad / spread, self.rate(group, parameter, grad_share, ("g", key)))
        descend_(parameter, mean / spread, self.rate(group, parameter, mean_share, ("m", key)))


class RAdam(Optimizer):
    """Adam that leaves out the division while its mean of squares is uncertain (Liu et al. 2020).

    Args:
        params: the parameters, or groups of them.
        lr: the learning rate.
        betas: how much of the two means is kept from step to step.
        eps: added to the root of the second mean.
        weight_decay: this share of each parameter is added to its gradient.
        decoupled_weight_decay: shrink parameters instead, as AdamW does.
        maximize: go up instead of down.

    ``foreach`` and ``capturable`` change nothing: updates are fused anyway.
    Raises SettingError (a ValueError) for settings out of range.
    """

    _state_lists = 3
    _counting = True

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_moments(lr, betas, eps, weight_decay)
        defaults = {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay,
            "maximize": maximize, "foreach": foreach, "capturable": capturable,
            "decoupled_weight_decay": decoupled_weight_decay, "differentiable": differentiable,
        }  # fmt: skip
        super().__init__(params, defaults)

    def _update_one(self, group: Group, parameter: Tensor) -> None:
        decay, decoupled = group["weight_decay"], group["decoupled_weight_decay"]
        count, state = self.count_key(parameter), self.state_of(parameter)
        grad = self.gradient(group, parameter, decayed=not decoupled)
        if decay and decoupled:
            parameter.mul_(self.decay_factor(group, parameter, decay))
        mean, square = _moments(self, group, parameter, grad)
        # 0 says "do not divide" in place of Python's branch, so that all steps are one graph.
        certainty = self.number(
            lambda: _rectification(group["betas"][1], count_of(state["step"])),
            parameter,
            group,
            ("r", count),
        )
        scale = lazyt.where(certainty > 0, certainty / (square.sqrt() + group["eps"]), 1.0)
        step = mean * scale.to(mean.dtype)
        descend_(parameter, step, self.rate(group, parameter, _unbiased(group, state), count))


def _rectification(keep: float, step: float) -> float:
    """What the inverse root of the running squares is multiplied with; 0 while it is left out."""
    left = keep**step
    longest = 2 / (1 - keep) - 1
    length = longest - 2 * step * left / (1 - left)
    if length <= 5:
        return 0.0
    top = (length - 4) * (length - 2) * longest
    return math.sqrt(top / ((longest - 4) * (longest - 2) * length) * (1 - left))


class SparseAdam(Optimizer):
    """Adam of the elements that a sparse gradient has: the other elements of the parameter, and of
    its two means, stay as they are.

    Args:
        params: the parameters, or groups of them.
        lr, betas, eps, maximize: as for Adam.

    Each step looks at the indices of the gradients. Raises SettingError (a ValueError) for settings
    out of range; ``step`` raises LazytError (a RuntimeError) for dense gradients.

    Example:
        >>> import lazyt
        >>> table = lazyt.nn.Embedding(10, 4, sparse=True)
        >>> optimizer = lazyt.optim.SparseAdam(table.parameters(), lr=0.1)
        >>> table(lazyt.tensor([1, 7, 1])).sum().backward()
        >>> optimizer.step()
        >>> table.weight.grad.coalesce().indices()
        tensor([[1, 7]])
    """

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        maximize: bool = False,
    ) -> None:
        check_rate(lr)
        check_setting(lr > 0, "learning rate", lr)
        check_setting(eps > 0, "epsilon value", eps)
        check_betas(betas)
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "maximize": maximize})
        found = [
            [number, place]
            for number, group in enumerate(self.param_groups)
            for place, parameter in enumerate(group["params"])
            if parameter.dtype.kind == "c"
        ]
        if found:
            raise SettingError(
                f"Complex params at indices {found}: SparseAdam does not support complex parameters"
            )

    def _update(self, group: Group, parameters: list[Tensor]) -> None:
        if parameters:
            raise LazytError(
                "SparseAdam does not support dense gradients, please consider Adam instead"
            )

    def _update_sparse(self, group: Group, parameter: Tensor, grad: Tensor) -> None:
        from lazyt.functional.sparse import updates

        state, (keep, keep_square) = self.state_of(parameter), group["betas"]
        state["step"] = state.get("step", 0) + 1
        mean, square = self.slot(parameter, "exp_avg"), self.slot(parameter, "exp_avg_sq")
        elements = updates.unique_elements(self.gradient(group, parameter))
        values = elements._values()
        old, old_square = (updates.elements_of(item, elements) for item in (mean, square))
        change = (values - old) * (1 - keep)
        change_square = (values * values - old_square) * (1 - keep_square)
        updates.add_elements_(mean, elements, change)
        updates.add_elements_(square, elements, change_square)
        root = (old_square + change_square).sqrt() + group["eps"]
        left, left_square = (1 - beta ** state["step"] for beta in group["betas"])
        rate = group["lr"] * math.sqrt(left_square) / left
        step = updates.scaled((old + change) / root, -rate)
        updates.add_elements_(parameter, elements, step)
