"""Losses that are negative log-likelihoods of a distribution: Gaussian and Poisson."""

from __future__ import annotations

import math
from typing import Any

from lazyt.cast_mode import in_full_precision
from lazyt.errors import DTypeError
from lazyt.functional.choice import where
from lazyt.functional.loss_reduction import ReductionError, chosen_reduction, reduced_tensor
from lazyt.functional.operands import require_tensor
from lazyt.functional.promotion import c_name
from lazyt.functional.value_checks import check_variances
from lazyt.tensor import Tensor


def _check_variance(input: Tensor, var: Tensor) -> Tensor:
    """``var`` in a shape that broadcasts with ``input``; raises ReductionError."""
    if var.shape == input.shape:
        return var
    if input.shape[:-1] == var.shape:
        wide: Tensor = var.unsqueeze(-1)
        return wide
    if var.ndim == input.ndim and all(
        a == b or 1 in (a, b) for a, b in zip(input.shape, var.shape)
    ):
        return var
    raise ReductionError("var is of incorrect size")


def gaussian_nll_loss(
    input: Tensor, target: Tensor, var: Tensor | float, full: bool = False, eps: float = 1e-6,
    reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """``(log(var) + (input - target)^2 / var) / 2``, with ``full`` also ``log(2 pi) / 2``.

    Variances below ``eps`` count as ``eps``, without changing their gradient; a variance is one
    number, or of the input's shape with a last dimension of 1 or none. Raises ReductionError (a
    ValueError) for variances of another shape and for negative ones.
    """
    if reduction not in ("none", "mean", "sum"):
        raise ReductionError(f"{reduction} is not valid")
    if isinstance(var, Tensor):
        spread = _check_variance(input, var)
        if var.dtype.kind != "f":
            raise DTypeError(
                f"result type Float can't be cast to the desired output type {c_name(var.dtype)}"
            )
        check_variances(var)
    elif var < 0:
        raise ReductionError("var has negative entry/entries")
    else:
        spread = input.new_full(input.shape, var)
    plain = spread.detach()
    bounded = where(plain < eps, plain.clamp(min=eps) + (spread - plain), spread)
    loss = 0.5 * (bounded.log() + (input - target) ** 2 / bounded)
    if full:
        loss = loss + 0.5 * math.log(2 * math.pi)
    return reduced_tensor(loss, reduction)


@in_full_precision
def poisson_nll_loss(
    input: Tensor, target: Tensor, log_input: bool = True, full: bool = False,
    size_average: Any = None, eps: float = 1e-8, reduce: Any = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """``exp(input) - target * input``, or ``input - target * log(input + eps)`` of rates.

    With ``full``, Stirling's approximation of ``log(target!)`` is added where ``target > 1``.
    Raises ShapeError for shapes that do not broadcast, ReductionError.
    """
    require_tensor(input, "poisson_nll_loss")
    reduction = chosen_reduction(reduction, size_average, reduce)
    if log_input:
        loss = input.exp() - target * input
    else:
        loss = input - target * (input + eps).log()
    if full:
        many = target > 1
        safe = where(many, target, target.new_ones(()))
        stirling = safe * safe.log() - safe + 0.5 * (2 * math.pi * safe).log()
        loss = loss + where(many, stirling, stirling.new_zeros(()))
    return reduced_tensor(loss, reduction)
