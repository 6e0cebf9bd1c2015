"""Bounding gradients before an optimizer's step."""

from __future__ import annotations

import math
import types
from collections.abc import Iterable
from typing import Any

from lazyt import linalg
from lazyt.errors import LazytError, warn
from lazyt.functional import namespace as lazyt
from lazyt.handle.tensor import Tensor

__all__ = ["clip_grad_norm", "clip_grad_norm_", "clip_grad_value_"]

Tensors = Tensor | Iterable[Tensor]


def _grads(parameters: Tensors) -> list[Tensor]:
    found = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    return [p.grad for p in found if p.grad is not None]


def get_total_norm(
    tensors: Tensors,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """The norm of all tensors as if they were one vector; zero for none.

    ``foreach`` is for PyTorch's programs: here it is one kernel in any case. Raises LazytError with
    ``error_if_nonfinite`` for a norm that is not finite.
    """
    found = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    power = float(norm_type)
    if not found:
        return lazyt.tensor(0.0)
    with lazyt.no_grad():
        norms = [linalg.vector_norm(t, power) for t in found]
    return _joined(norms, power, error_if_nonfinite)


def _joined(norms: list[Tensor], power: float, error_if_nonfinite: bool) -> Tensor:
    with lazyt.no_grad():
        total = linalg.vector_norm(lazyt.stack(norms), power)
    if error_if_nonfinite and not math.isfinite(total.item()):
        raise LazytError(
            f"The total norm of order {power} for gradients from `parameters` is non-finite, "
            "so it cannot be clipped. To disable this error and scale the gradients by the "
            "non-finite norm anyway, set `error_if_nonfinite=False`"
        )
    return total


def _division(parameter: Tensor) -> Any:
    """How ``fully_shard`` divides a parameter, None where it does not."""
    return parameter.__dict__.get("division")


def _norm_of_divided(
    grads: list[Tensor], divided: list[Any], norm_type: float, error_if_nonfinite: bool
) -> Tensor:
    """``get_total_norm`` of gradients some of which are divided among ranks: all take part."""
    from lazyt.distributed.divided import whole_norms

    power = float(norm_type)
    with lazyt.no_grad():
        parts = [(g, d) for g, d in zip(grads, divided) if d is not None]
        found = iter(
            whole_norms(
                [g.to_local() for g, _ in parts],  # type: ignore[attr-defined]
                [d for _, d in parts],
                lambda whole: linalg.vector_norm(whole, power),
            )
        )
        norms = [
            _on_this_rank(linalg.vector_norm(g, power)) if d is None else next(found)
            for g, d in zip(grads, divided)
        ]
    return _joined(norms, power, error_if_nonfinite)


def _on_this_rank(norm: Tensor) -> Tensor:
    """A norm, of which ranks may have parts."""
    return norm.full_tensor() if hasattr(norm, "full_tensor") else norm


def clip_grads_with_norm_(
    parameters: Tensors, max_norm: float, total_norm: Tensor, foreach: bool | None = None
) -> None:
    """Scale all gradients by ``max_norm / total_norm`` where that is below 1."""
    grads = _grads(parameters)
    with lazyt.no_grad():
        # Of what ranks have parts of, each scales its own.
        whole = _on_this_rank(total_norm)
        factor = (float(max_norm) / (whole + 1e-6)).clamp(max=1.0)
        for grad in grads:
            part = grad.to_local() if hasattr(grad, "to_local") else grad
            part.mul_(factor)


def clip_grad_norm_(
    parameters: Tensors,
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scale all gradients so that their joint norm is at most ``max_norm`` (Pascanu et al. 2013).

    Returns the norm before; nothing is computed yet. Raises LazytError as ``get_total_norm``.
    """
    found = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    if not found and isinstance(parameters, types.GeneratorType):
        warn("`parameters` is an empty generator, no gradient clipping will occur.")
    grads = _grads(found)
    divided = [_division(p) for p in found if p.grad is not None]
    if any(division is not None for division in divided):
        total = _norm_of_divided(grads, divided, norm_type, error_if_nonfinite)
        clip_grads_with_norm_(found, max_norm, total, foreach)
        like = next(g for g, division in zip(grads, divided) if division is not None)
        return like.replicated(total)  # type: ignore[attr-defined, no-any-return]
    total = get_total_norm(grads, norm_type, error_if_nonfinite, foreach)
    clip_grads_with_norm_(found, max_norm, total, foreach)
    return total


def clip_grad_norm(
    parameters: Tensors,
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """The older name of ``clip_grad_norm_``."""
    warn(
        "`torch.nn.utils.clip_grad_norm` is now deprecated in favor of "
        "`torch.nn.utils.clip_grad_norm_`.",
        FutureWarning,
    )
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)


def clip_grad_value_(parameters: Tensors, clip_value: float, foreach: bool | None = None) -> None:
    """Bring every element of the gradients into [-clip_value, clip_value]."""
    bound = float(clip_value)
    with lazyt.no_grad():
        for grad in _grads(parameters):
            grad.clamp_(-bound, bound)
