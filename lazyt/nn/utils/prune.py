"""Pruning: parameters of which a part is held at zero by a mask.

A pruned parameter ``weight`` becomes ``weight_orig`` (the parameter) times ``weight_mask`` (a
buffer), computed before every call. ``remove`` makes the zeros permanent.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

import lazyt
from lazyt.absent import explain_absence as _explain_absence
from lazyt.nn.module import Module
from lazyt.nn.utils.convert_parameters import parameters_to_vector
from lazyt.nn.utils.pruning_methods import (
    BasePruningMethod,
    CustomFromMask,
    Identity,
    L1Unstructured,
    LnStructured,
    PruningContainer,
    RandomStructured,
    RandomUnstructured,
    prunes,
)
from lazyt.tensor import Tensor

__all__ = [
    "BasePruningMethod", "CustomFromMask", "Identity", "L1Unstructured", "LnStructured",
    "PruningContainer", "RandomStructured", "RandomUnstructured", "custom_from_mask",
    "global_unstructured", "identity", "is_pruned", "l1_unstructured", "ln_structured",
    "random_structured", "random_unstructured", "remove",
]  # fmt: skip

M = TypeVar("M", bound=Module)


def identity(module: M, name: str) -> M:
    """Give a parameter a mask that prunes nothing; returns the module."""
    Identity.apply(module, name)
    return module


def random_unstructured(module: M, name: str, amount: float) -> M:
    """Prune any elements, a number (int) or share (float) of them; returns the module."""
    RandomUnstructured.apply(module, name, amount=amount)
    return module


def l1_unstructured(
    module: M, name: str, amount: float, importance_scores: Tensor | None = None
) -> M:
    """Prune the smallest elements, by size or by the size of their scores; returns the module."""
    L1Unstructured.apply(module, name, amount=amount, importance_scores=importance_scores)
    return module


def random_structured(module: M, name: str, amount: float, dim: int) -> M:
    """Prune any slices along ``dim``; returns the module."""
    RandomStructured.apply(module, name, amount=amount, dim=dim)
    return module


def ln_structured(
    module: M, name: str, amount: float, n: Any, dim: int, importance_scores: Tensor | None = None
) -> M:
    """Prune the slices along ``dim`` of the smallest ``n``-norm; returns the module."""
    scores = importance_scores
    LnStructured.apply(module, name, amount=amount, n=n, dim=dim, importance_scores=scores)
    return module


def custom_from_mask(module: M, name: str, mask: Tensor) -> M:
    """Prune where ``mask`` is zero; returns the module."""
    CustomFromMask.apply(module, name, mask=mask)
    return module


def global_unstructured(
    parameters: Any, pruning_method: Any, importance_scores: Any = None, **kwargs: Any
) -> None:
    """Prune several parameters as if they were one.

    Args:
        parameters: pairs of module and name.
        pruning_method: an unstructured method's class; ``kwargs`` are its arguments.
        importance_scores: by pair, instead of the parameters themselves.

    Raises TypeError.
    """
    if not isinstance(parameters, Iterable):
        raise TypeError("global_unstructured(): parameters is not an Iterable")
    scores = {} if importance_scores is None else importance_scores
    if not isinstance(scores, dict):
        raise TypeError("global_unstructured(): importance_scores must be of type dict")
    pairs = [(module, name, getattr(module, name)) for module, name in parameters]
    ranked = parameters_to_vector([scores.get((m, name), value) for m, name, value in pairs])
    masks = [getattr(m, name + "_mask", lazyt.ones_like(value)) for m, name, value in pairs]
    method = pruning_method(**kwargs)
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError(
            'Only "unstructured" PRUNING_TYPE supported for the `pruning_method`. Found method '
            f"{pruning_method} of type {method.PRUNING_TYPE}"
        )
    method._tensor_name = "all"
    found = PruningContainer(method).compute_mask(ranked, parameters_to_vector(masks))
    parts = found.split([value.numel() for _, _, value in pairs])
    for (module, name, value), part in zip(pairs, parts):
        custom_from_mask(module, name, part.view(value.shape))


def remove(module: M, name: str) -> M:
    """Make pruning permanent; returns the module. Raises ValueError where nothing was pruned."""
    for key, hook in module._forward_pre_hooks.items():
        if prunes(hook, name):
            hook.remove(module)
            del module._forward_pre_hooks[key]
            return module
    raise ValueError(
        f"Parameter '{name}' of module {module} has to be pruned before pruning can be removed"
    )


def is_pruned(module: Module) -> bool:
    """Whether a parameter of the module, or of one below it, is pruned."""
    hooks = (h for m in module.modules() for h in m._forward_pre_hooks.values())
    return any(isinstance(hook, BasePruningMethod) for hook in hooks)


_explain_absence(__name__)
