"""Modules as functions of their parameters and buffers, as tuples: ``functorch.make_functional``.

``lazyt.func.functional_call`` does the same with dicts.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from lazyt.errors import LazytError, warn
from lazyt.func import functional_call, stack_module_state
from lazyt.handle.tensor import Tensor
from lazyt.nn import Module

Tensors = tuple[Tensor, ...]


class FunctionalModule(Module):
    """A module without parameters: they come first when it is called. See ``make_functional``.

    Args:
        stateless_model: computes the result; its own parameters are not used.
        param_names: the names of the parameters, in the order in which they are given.
    """

    def __init__(self, stateless_model: Module, param_names: tuple[str, ...]) -> None:
        super().__init__()
        self.stateless_model = stateless_model
        self.param_names = param_names

    def forward(self, params: Sequence[Tensor], *args: Any, **kwargs: Any) -> Any:
        """The module's result for these parameters. Raises LazytError for another number."""
        given = _named(self.param_names, params, "parameters")
        return functional_call(self.stateless_model, given, args, kwargs)


class FunctionalModuleWithBuffers(Module):
    """A module without parameters and buffers: they come first when it is called. See
    ``make_functional_with_buffers``.

    Args:
        stateless_model: computes the result; its own parameters and buffers are not used.
        param_names: the names of the parameters, in the order in which they are given.
        buffer_names: the names of the buffers, likewise.
    """

    def __init__(
        self, stateless_model: Module, param_names: tuple[str, ...], buffer_names: tuple[str, ...]
    ) -> None:
        super().__init__()
        self.stateless_model = stateless_model
        self.param_names = param_names
        self.buffer_names = buffer_names

    def forward(
        self, params: Sequence[Tensor], buffers: Sequence[Tensor], *args: Any, **kwargs: Any
    ) -> Any:
        """The module's result for these parameters and buffers. Raises LazytError for another
        number of either."""
        given = _named(self.param_names, params, "parameters")
        given |= _named(self.buffer_names, buffers, "buffers")
        return functional_call(self.stateless_model, given, args, kwargs)


def _named(names: tuple[str, ...], tensors: Sequence[Tensor], what: str) -> dict[str, Tensor]:
    if len(names) != len(tensors):
        raise LazytError(f"the module has {len(names)} {what}, but {len(tensors)} were given")
    return dict(zip(names, tensors, strict=True))


def make_functional(
    model: Module, disable_autograd_tracking: bool = False
) -> tuple[FunctionalModule, Tensors]:
    """``(function, parameters)``: ``function(parameters, *args)`` is ``model(*args)``.

    Args:
        model: a module without buffers; it is copied.
        disable_autograd_tracking: whether the parameters require no gradient.

    Raises LazytError for a model with buffers.
    """
    _warn("make_functional", "functional_call")
    if any(True for _ in model.buffers()):
        raise LazytError(
            "make_functional(model): `model` has buffers. Please use "
            "make_functional_with_buffers(model) instead."
        )
    names, parameters = _parameters(model, disable_autograd_tracking)
    return FunctionalModule(_stateless(model), names), parameters


def make_functional_with_buffers(
    model: Module, disable_autograd_tracking: bool = False
) -> tuple[FunctionalModuleWithBuffers, Tensors, Tensors]:
    """``(function, parameters, buffers)``: ``function(parameters, buffers, *args)`` is
    ``model(*args)``.

    Args:
        model: a module; it is copied.
        disable_autograd_tracking: whether the parameters require no gradient.
    """
    _warn("make_functional_with_buffers", "functional_call")
    return _with_buffers(model, disable_autograd_tracking)


def combine_state_for_ensemble(
    models: Sequence[Module],
) -> tuple[FunctionalModuleWithBuffers, Tensors, Tensors]:
    """``(function, parameters, buffers)`` of several models of one class, the tensors stacked along
    a new first axis: for ``vmap``.

    Raises LazytError for no models, or models of different classes or modes.
    """
    _warn("combine_state_for_ensemble", "stack_module_state")
    if len(models) == 0:
        raise LazytError("combine_state_for_ensemble: Expected at least one model, got 0.")
    if len({bool(model.training) for model in models}) > 1:
        raise LazytError(
            "combine_state_for_ensemble: Expected all models to have the same training/eval mode."
        )
    if any(type(model) is not type(models[0]) for model in models):
        raise LazytError("combine_state_for_ensemble: Expected all models to be of the same class.")
    function, _, _ = _with_buffers(models[0], False)
    parameters, buffers = stack_module_state(models)
    return function, tuple(parameters.values()), tuple(buffers.values())


def _with_buffers(
    model: Module, without_grad: bool
) -> tuple[FunctionalModuleWithBuffers, Tensors, Tensors]:
    names, parameters = _parameters(model, without_grad)
    buffers = {name: buffer.detach().clone() for name, buffer in model.named_buffers()}
    function = FunctionalModuleWithBuffers(_stateless(model), names, tuple(buffers))
    return function, parameters, tuple(buffers.values())


def _parameters(model: Module, without_grad: bool) -> tuple[tuple[str, ...], Tensors]:
    """Names and new leaves."""
    names, found = [], []
    for name, parameter in model.named_parameters():
        names.append(name)
        tracked = parameter.requires_grad and not without_grad
        found.append(parameter.detach().clone().requires_grad_(tracked))
    return tuple(names), tuple(found)


def _stateless(model: Module) -> Module:
    """A copy whose parameters and buffers have no values: who forgets to give one learns of it."""
    return copy.deepcopy(model).to("meta")


def _warn(name: str, instead: str) -> None:
    warn(f"functorch.{name} is deprecated: use torch.func.{instead} instead.", FutureWarning)
