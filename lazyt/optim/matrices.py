"""Optimizers that treat matrices as matrices: Adafactor and Muon."""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import Any

from lazyt.functional import namespace as lazyt
from lazyt.functional.updates import count_of, descend_
from lazyt.handle.tensor import Tensor
from lazyt.optim.optimizer import Group, Optimizer, SettingError, check_rate


def _require(allowed: Any, text: str) -> None:
    if not allowed:
        raise SettingError(text)


def _rate_at_least_zero(lr: Any) -> None:
    if isinstance(lr, Tensor):
        check_rate(lr)
    _require(lr >= 0, f"Learning rate should be >= 0 but is: {lr}")


class Adafactor(Optimizer):
    """Adam's second mean kept as a row and a column per matrix, with bounded steps (Shazeer &
    Stern 2018).

    Args:
        params: the parameters, or groups of them.
        lr: bounds the relative step, which falls with the root of the number of steps.
        beta2_decay: the power with which new squares enter their mean.
        eps: the smallest root of a mean square (None: that of the dtype), and the smallest size of
            a parameter that steps are relative to.
        d: steps are shortened to this root mean square.
        weight_decay: parameters shrink by ``lr * weight_decay`` at every step.
        maximize: go up instead of down.

    ``foreach`` changes nothing: updates are fused anyway.
    Raises SettingError (a ValueError) for settings out of range.
    """

    _state_lists = 4
    _counting = True

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 1e-2,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0,
        weight_decay: float = 0.0,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
    ) -> None:
        _rate_at_least_zero(lr)
        _require(beta2_decay <= 0, f"beta2_decay should be <= 0 but is: {beta2_decay}")
        _require(eps[0] is None or eps[0] >= 0, f"epsilon1 should be >= 0 but is: {eps[0]}")
        _require(eps[1] >= 0, f"epsilon2 should be >= 0 but is: {eps[1]}")
        _require(d >= 1, f"Clipping threshold d should be >= 1 but is: {d}")
        _require(weight_decay >= 0, f"weight_decay should be >= 0 but is: {weight_decay}")
        defaults = {
            "lr": lr, "beta2_decay": beta2_decay, "eps": eps, "d": d,
            "weight_decay": weight_decay, "foreach": foreach, "maximize": maximize,
        }  # fmt: skip
        super().__init__(params, defaults)

    def _update_one(self, group: Group, parameter: Tensor) -> None:
        self._refuse_complex(parameter)
        smallest, least_size = group["eps"]
        if smallest is None:
            smallest = lazyt.finfo(parameter.dtype).eps
        decay = group["weight_decay"]
        count, state = self.count_key(parameter), self.state_of(parameter)
        grad = self.gradient(group, parameter, decayed=False)
        root = math.sqrt(parameter.numel())
        rate = self._relative_rate(group, parameter, count)
        size = (parameter.norm() / root).clamp(min=least_size) * rate
        if decay:
            parameter.mul_(self.decay_factor(group, parameter, decay))
        fresh = self.number(
            lambda: float(count_of(state["step"]) ** group["beta2_decay"]),
            parameter,
            group,
            ("new", count),
        ).to(parameter.dtype)
        square = self._mean_square(parameter, grad, fresh, smallest)
        step = square.clamp(min=smallest * smallest).rsqrt() * grad
        excess = (step.norm() / (root * group["d"])).clamp(min=1.0)
        descend_(parameter, step, size / excess)

    def _relative_rate(self, group: Group, parameter: Tensor, count: Hashable) -> Tensor:
        """The learning rate, or the inverse root of the number of steps where that is less."""
        state = self.state_of(parameter)
        if isinstance(group["lr"], Tensor):
            falling = self.number(
                lambda: float(count_of(state["step"]) ** -0.5), parameter, group, ("root", count)
            )
            return lazyt.minimum(self.rate(group, parameter), falling)
        return self.number(
            lambda: min(float(group["lr"]), count_of(state["step"]) ** -0.5),
            parameter,
            group,
            ("rho", count),
        )

    def _mean_square(
        self, parameter: Tensor, grad: Tensor, fresh: Tensor, smallest: float
    ) -> Tensor:
        """The mean of squared gradients: from its rows and columns where there are any."""
        if grad.dim() < 2:
            square = self.slot(parameter, "variance")
            square.lerp_(grad * grad, fresh)
            return square
        *outer, rows, columns = grad.shape
        row = self.slot(parameter, "row_var", shape=(*outer, rows, 1))
        column = self.slot(parameter, "col_var", shape=(*outer, 1, columns))
        squares = grad * grad
        row.lerp_(squares.mean(-1, keepdim=True), fresh)
        column.lerp_(squares.mean(-2, keepdim=True), fresh)
        estimate: Tensor = row * column / row.mean(-2, keepdim=True).clamp(min=smallest)
        return estimate


class Muon(Optimizer):
    """Momentum whose matrices are made orthogonal (Jordan et al. 2024), for two-dimensional
    parameters; give the others to AdamW.

    Args:
        params: the parameters, or groups of them.
        lr: the learning rate.
        weight_decay: parameters shrink by ``lr * weight_decay`` at every step.
        momentum: how much of the mean gradient is kept from step to step.
        nesterov: Nesterov's momentum.
        ns_coefficients: of the odd polynomial of degree 5 that is iterated.
        eps: the smallest norm that a matrix is divided by.
        ns_steps: iterations, less than 100.
        adjust_lr_fn: what the rate is multiplied with for matrices of different shapes:
            ``"original"`` (also None) or ``"match_rms_adamw"``.

    The iteration is computed in bfloat16, as PyTorch's.
    Raises SettingError (a ValueError) for settings out of range and parameters of other ranks.
    """

    _state_lists = 1

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.775, 2.0315),
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
    ) -> None:
        _rate_at_least_zero(lr)
        _require(momentum >= 0, f"momentum should be >= 0 but is: {momentum}")
        _require(weight_decay >= 0, f"weight decay should be >= 0 but is: {weight_decay}")
        _require(
            adjust_lr_fn in (None, "original", "match_rms_adamw"),
            f"Adjust learning rate function {adjust_lr_fn} is not supported",
        )
        defaults = {
            "lr": lr, "weight_decay": weight_decay, "momentum": momentum, "nesterov": nesterov,
            "ns_coefficients": ns_coefficients, "eps": eps, "ns_steps": ns_steps,
            "adjust_lr_fn": adjust_lr_fn,
        }  # fmt: skip
        super().__init__(params, defaults)
        for group in self.param_groups:
            for parameter in group["params"]:
                _require(
                    parameter.dim() == 2,
                    "Muon only supports 2D parameters whereas we found a parameter with size: "
                    f"{parameter.size()}",
                )

    def _update_one(self, group: Group, parameter: Tensor) -> None:
        self._refuse_complex(parameter)
        decay, momentum = group["weight_decay"], group["momentum"]
        grad = self._grad(parameter)
        mean = self.slot(parameter, "momentum_buffer")
        mean.lerp_(grad, 1 - momentum)
        direction = grad.lerp(mean, momentum) if group["nesterov"] else mean
        step = orthogonalize(direction, group["ns_coefficients"], group["ns_steps"], group["eps"])
        ratio = _shape_ratio(group["adjust_lr_fn"], parameter)
        if decay:
            parameter.mul_(self.decay_factor(group, parameter, decay))
        rate = self.rate(group, parameter, lambda r=ratio: r, ratio)  # type: ignore[misc]
        descend_(parameter, step.to(parameter.dtype), rate)


def _shape_ratio(kind: str | None, parameter: Tensor) -> float:
    rows, columns = parameter.shape
    if kind == "match_rms_adamw":
        return 0.2 * math.sqrt(max(rows, columns))
    return math.sqrt(max(1, rows / columns))


def orthogonalize(
    matrix: Tensor, coefficients: tuple[float, float, float], steps: int, eps: float
) -> Tensor:
    """About ``U @ V.T`` for ``matrix = U @ S @ V.T``, in bfloat16, by Newton-Schulz iterations.

    Raises SettingError (a ValueError) for 100 steps and more, for other ranks than 2 and for other
    numbers of coefficients than 3.
    """
    _require(steps < 100, "Number of steps must be less than 100 for computational efficiency")
    _require(matrix.dim() == 2, "Input tensor gradient must be a 2D matrix")
    _require(len(coefficients) == 3, "Coefficients must be a tuple of exactly 3 values")
    linear, cubic, quintic = coefficients
    tall = matrix.shape[0] > matrix.shape[1]
    found = matrix.to(lazyt.bfloat16)
    found = found.T if tall else found
    found = found / found.norm().clamp(min=eps)
    for _ in range(steps):
        gram = found @ found.T
        update = lazyt.addmm(gram, gram, gram, beta=cubic, alpha=quintic)
        found = lazyt.addmm(found, update, found, beta=linear)
    result: Tensor = found.T if tall else found
    return result
