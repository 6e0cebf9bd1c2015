"""Weights as length times direction (Salimans & Kingma 2016), by a hook before ``forward``.

``lazyt.nn.utils.parametrizations.weight_norm`` is the newer form.
"""

from __future__ import annotations

from typing import Any, TypeVar

from lazyt.errors import LazytError, warn
from lazyt.handle.tensor import Tensor
from lazyt.nn.module import Module
from lazyt.nn.parameter import Parameter, is_uninitialized

__all__ = ["WeightNorm", "remove_weight_norm", "weight_norm"]

M = TypeVar("M", bound=Module)


def norm_except_dim(v: Tensor, dim: int) -> Tensor:
    """Lengths of the slices of ``v`` along ``dim``, with 1 for other sizes; of all of it for -1."""
    if dim == -1:
        return v.norm()
    others = [axis for axis in range(v.ndim) if axis != dim % v.ndim]
    return v.norm(2, others, keepdim=True) if others else v.abs()


def scaled_direction(v: Tensor, g: Tensor, dim: int) -> Tensor:
    """``g * v / norm(v)``, the norm over all dimensions but ``dim``."""
    found: Tensor = v * (g / norm_except_dim(v, dim))
    return found


class WeightNorm:
    """The hook that computes the weight from its length and direction."""

    def __init__(self, name: str, dim: int | None) -> None:
        self.name, self.dim = name, -1 if dim is None else dim

    def compute_weight(self, module: Module) -> Tensor:
        """The weight as it follows from the parameters."""
        g, v = (getattr(module, f"{self.name}_{part}") for part in "gv")
        return scaled_direction(v, g, self.dim)

    @staticmethod
    def apply(module: Module, name: str, dim: int | None) -> WeightNorm:
        """Replace the parameter by its length and direction. Raises LazytError, ValueError."""
        for hook in module._forward_pre_hooks.values():
            if isinstance(hook, WeightNorm) and hook.name == name:
                raise LazytError(
                    f"Cannot register two weight_norm hooks on the same parameter {name}"
                )
        made = WeightNorm(name, dim)
        weight = getattr(module, name)
        if is_uninitialized(weight):
            raise ValueError(
                "The module passed to `WeightNorm` can't have uninitialized parameters. Make sure "
                "to run the dummy forward before applying weight normalization"
            )
        del module._parameters[name]
        length = norm_except_dim(weight.detach(), made.dim)
        module.register_parameter(name + "_g", Parameter(length))
        module.register_parameter(name + "_v", Parameter(weight.data))
        setattr(module, name, made.compute_weight(module))
        module.register_forward_pre_hook(made)
        return made

    def remove(self, module: Module) -> None:
        """Make the weight a parameter again."""
        weight = self.compute_weight(module)
        delattr(module, self.name)
        for part in "gv":
            del module._parameters[f"{self.name}_{part}"]
        setattr(module, self.name, Parameter(weight.detach()))

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module))


def weight_norm(module: M, name: str = "weight", dim: int | None = 0) -> M:
    """Replace parameter ``name`` by ``name_g`` (lengths along ``dim``) and ``name_v``.

    Returns the module. Raises LazytError where that was done before, ValueError for a parameter
    without a size.
    """
    warn(
        "`torch.nn.utils.weight_norm` is deprecated in favor of "
        "`torch.nn.utils.parametrizations.weight_norm`.",
        FutureWarning,
    )
    WeightNorm.apply(module, name, dim)
    return module


def remove_weight_norm(module: M, name: str = "weight") -> M:
    """Undo ``weight_norm``; returns the module. Raises ValueError where it was not done."""
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, WeightNorm) and hook.name == name:
            hook.remove(module)
            del module._forward_pre_hooks[key]
            return module
    raise ValueError(f"weight_norm of '{name}' not found in {module}")
