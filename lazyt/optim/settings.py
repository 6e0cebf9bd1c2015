"""Checks of the settings that optimizers share, in PyTorch's words."""

from __future__ import annotations

from typing import Any

from lazyt.errors import LazytError
from lazyt.tensor import Tensor

#: What ``defaults`` holds for a setting that every group has to give.
required = object()


class SettingError(LazytError, ValueError):
    """A setting of an optimizer outside of what is allowed."""


def check_setting(allowed: Any, title: str, value: Any) -> None:
    """Raise SettingError (a ValueError) in PyTorch's words unless ``allowed``."""
    if not allowed:
        raise SettingError(f"Invalid {title}: {value}")


def check_rate(lr: Any, **how: Any) -> None:
    """Raise SettingError (a ValueError) for a learning rate below 0 or a tensor of several.

    Args:
        how: settings beside it; ``foreach`` does not take a tensor without ``capturable``.
    """
    if isinstance(lr, Tensor):
        if how.get("foreach") and not how.get("capturable", False):
            raise SettingError(
                "lr as a Tensor is not supported for capturable=False and foreach=True"
            )
        if lr.numel() != 1:
            raise SettingError("Tensor lr must be 1-element")
    check_setting(lr >= 0, "learning rate", lr)


def check_betas(betas: Any) -> None:
    """Raise SettingError (a ValueError) for shares that are not in [0, 1)."""
    for index, beta in enumerate(betas):
        check_setting(0 <= beta < 1, f"beta parameter at index {index}", beta)


def check_moments(
    lr: Any, betas: tuple[Any, Any], eps: float, weight_decay: float, **how: Any
) -> None:
    """Raise SettingError (a ValueError) for what is out of range in the settings of Adam and those
    derived from it; ``how`` as for ``check_rate``."""
    check_rate(lr, **how)
    check_setting(eps >= 0, "epsilon value", eps)
    check_betas(betas)
    check_setting(weight_decay >= 0, "weight_decay value", weight_decay)


def check_fused(fused: bool | None, foreach: bool | None, differentiable: bool) -> None:
    """Raise LazytError (a RuntimeError) where ``fused`` is not alone."""
    if fused and differentiable:
        raise LazytError("`fused` does not support `differentiable`")
    if fused and foreach:
        raise LazytError("`fused` and `foreach` cannot be `True` together.")
