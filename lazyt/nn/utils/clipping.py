"""Bounding gradients before an optimizer's step."""

from __future__ import annotations

import math
from collections.abc import Iterable

import lazyt
from lazyt.errors import LazytError
from lazyt.tensor import Tensor


def _grads(parameters: Tensor | Iterable[Tensor]) -> list[Tensor]:
    found = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    return [p.grad for p in found if p.grad is not None]


def get_total_norm(
    tensors: Tensor | Iterable[Tensor],
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
) -> Tensor:
    """The norm of all tensors as if they were one vector; zero for none.

    Raises LazytError with ``error_if_nonfinite`` for a norm that is not finite.
    """
    found = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    power = float(norm_type)
    if not found:
        return lazyt.tensor(0.0)
    norms = [t.detach().norm(power) for t in found]
    total: Tensor
    if len(norms) == 1:
        total = norms[0]
    elif math.isinf(power):
        total = lazyt.stack(norms).max()
    else:
        total = lazyt.stack(norms).norm(power)
    if error_if_nonfinite and not math.isfinite(total.item()):
        raise LazytError(
            f"The total norm of order {norm_type} for gradients from `parameters` is non-finite, "
            "so it cannot be clipped. To disable this error and scale the gradients by the "
            "non-finite norm anyway, set `error_if_nonfinite=False`"
        )
    return total


def clip_grad_norm_(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
) -> Tensor:
    """Scale all gradients so that their joint norm is at most ``max_norm`` (Pascanu et al. 2013).

    Returns the norm before; nothing is computed yet. Raises LazytError as ``get_total_norm``.
    """
    grads = _grads(parameters)
    with lazyt.no_grad():
        total = get_total_norm(grads, norm_type, error_if_nonfinite)
        factor = (float(max_norm) / (total + 1e-6)).clamp(max=1.0)
        for grad in grads:
            grad.mul_(factor.to(grad.dtype))
    return total


def clip_grad_value_(parameters: Tensor | Iterable[Tensor], clip_value: float) -> None:
    """Bring every element of the gradients into [-clip_value, clip_value]."""
    bound = float(clip_value)
    with lazyt.no_grad():
        for grad in _grads(parameters):
            grad.clamp_(-bound, bound)
