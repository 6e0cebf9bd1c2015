"""Weights divided by their largest singular value (Miyato et al. 2018), by a hook before
``forward``.

``lazyt.nn.utils.parametrizations.spectral_norm`` is the newer form.
"""

from __future__ import annotations

from typing import Any, TypeVar

from lazyt.errors import LazytError
from lazyt.functional import namespace as lazyt
from lazyt.handle.tensor import Tensor
from lazyt.nn import functional as F
from lazyt.nn.convolution import ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from lazyt.nn.module import Module
from lazyt.nn.parameter import Parameter, is_uninitialized

__all__ = ["SpectralNorm", "remove_spectral_norm", "spectral_norm"]

M = TypeVar("M", bound=Module)


def as_matrix(weight: Tensor, dim: int) -> Tensor:
    """[size of dim, rest]."""
    return weight.movedim(dim, 0).flatten(1)


def output_dim(module: Module) -> int:
    """Where a layer's weight has its outputs."""
    transposed = (ConvTranspose1d, ConvTranspose2d, ConvTranspose3d)
    return 1 if isinstance(module, transposed) else 0


class SpectralNorm:
    """The hook that computes the weight; its state are estimates of the singular vectors."""

    _version = 1

    def __init__(
        self, name: str = "weight", n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12
    ) -> None:
        if n_power_iterations <= 0:
            raise ValueError(
                "Expected n_power_iterations to be positive, but got "
                f"n_power_iterations={n_power_iterations}"
            )
        self.name, self.dim, self.eps = name, dim, eps
        self.n_power_iterations = n_power_iterations

    def compute_weight(self, module: Module, do_power_iteration: bool) -> Tensor:
        """The weight over its estimated largest singular value."""
        weight, u, v = (getattr(module, self.name + end) for end in ("_orig", "_u", "_v"))
        matrix = as_matrix(weight, self.dim)
        if do_power_iteration:
            with lazyt.no_grad():
                for _ in range(self.n_power_iterations):
                    v.copy_(F.normalize(matrix.t().mv(u), dim=0, eps=self.eps))
                    u.copy_(F.normalize(matrix.mv(v), dim=0, eps=self.eps))
                u, v = u.clone(), v.clone()  # the buffers change with the next call
        found: Tensor = weight / u.dot(matrix.mv(v))
        return found

    @staticmethod
    def apply(
        module: Module, name: str, n_power_iterations: int, dim: int, eps: float
    ) -> SpectralNorm:
        """Replace the parameter. Raises LazytError, ValueError."""
        for hook in module._forward_pre_hooks.values():
            if isinstance(hook, SpectralNorm) and hook.name == name:
                raise LazytError(
                    f"Cannot register two spectral_norm hooks on the same parameter {name}"
                )
        made = SpectralNorm(name, n_power_iterations, dim, eps)
        weight = module._parameters[name]
        if weight is None:
            raise ValueError(f"`SpectralNorm` cannot be applied as parameter `{name}` is None")
        if is_uninitialized(weight):
            raise ValueError(
                "The module passed to `SpectralNorm` can't have uninitialized parameters. Make "
                "sure to run the dummy forward before applying spectral normalization"
            )
        vectors = []
        with lazyt.no_grad():
            for count in as_matrix(weight, dim).shape:
                start = weight.new_empty(count).normal_(0, 1)
                vectors.append(F.normalize(start, dim=0, eps=eps))
        delattr(module, name)
        module.register_parameter(name + "_orig", weight)
        setattr(module, name, weight.data)  # until the first call
        for end, vector in zip("uv", vectors):
            module.register_buffer(f"{name}_{end}", vector)
        module.register_forward_pre_hook(made)
        module._register_state_dict_hook(_SaysVersion(made))
        return made

    def remove(self, module: Module) -> None:
        """Make the weight a parameter again."""
        with lazyt.no_grad():
            weight = self.compute_weight(module, False)
        for end in ("", "_u", "_v", "_orig"):
            delattr(module, self.name + end)
        module.register_parameter(self.name, Parameter(weight.detach()))

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module, module.training))


class _SaysVersion:
    """Notes the version of the format in state dicts, as PyTorch does."""

    def __init__(self, hook: SpectralNorm) -> None:
        self.hook = hook

    def __call__(self, module: Module, found: Any, prefix: str, metadata: dict[str, Any]) -> None:
        versions = metadata.setdefault("spectral_norm", {})
        versions[self.hook.name + ".version"] = self.hook._version


def spectral_norm(
    module: M,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> M:
    """Divide parameter ``name`` by its largest singular value before every call.

    Args:
        n_power_iterations: steps of power iteration per call in training mode.
        eps: keeps norms away from zero.
        dim: the rows of the matrix; 0, for transposed convolutions 1.

    Returns the module. Raises LazytError where that was done before, ValueError for no parameter.
    """
    place = output_dim(module) if dim is None else dim
    SpectralNorm.apply(module, name, n_power_iterations, place, eps)
    return module


def remove_spectral_norm(module: M, name: str = "weight") -> M:
    """Undo ``spectral_norm``; returns the module. Raises ValueError where it was not done."""
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, SpectralNorm) and hook.name == name:
            hook.remove(module)
            del module._forward_pre_hooks[key]
            break
    else:
        raise ValueError(f"spectral_norm of '{name}' not found in {module}")
    after = module._state_table().after_saving
    for key, said in list(after.items()):
        if isinstance(said, _SaysVersion) and said.hook.name == name:
            del after[key]
    return module
