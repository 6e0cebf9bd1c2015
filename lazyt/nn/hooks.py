"""Hooks of modules: functions called before and after ``forward``, and with its gradients."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import lazyt
from lazyt.autograd.function import Function
from lazyt.autograd.handles import RemovableHandle
from lazyt.tensor import Tensor

if TYPE_CHECKING:
    from lazyt.nn.module import Module

Hook = Callable[..., Any]


class HookTable:
    """The hooks of one module, by kind; each by the key of its handle."""

    def __init__(self) -> None:
        self.before: dict[int, Hook] = {}
        self.after: dict[int, Hook] = {}
        self.backward_before: dict[int, Hook] = {}
        self.backward: dict[int, Hook] = {}


def _table(module: Module) -> HookTable:
    if module._hooks is None:
        module._hooks = HookTable()
    return module._hooks


def _register(hooks: dict[int, Hook], hook: Hook, prepend: bool) -> RemovableHandle:
    handle = RemovableHandle(hooks, hook)
    if prepend:
        others = [key for key in hooks if key != handle.id]
        for key in others:
            hooks[key] = hooks.pop(key)
    return handle


# Module-level functions under ``partial`` rather than closures: modules with hooks can be pickled.


def _before_without_keywords(hook: Hook, module: Module, args: Any, kwargs: Any) -> Any:
    found = hook(module, args)
    if found is None:
        return None
    return found if isinstance(found, tuple) else (found,), kwargs


def _after_without_keywords(hook: Hook, module: Module, args: Any, kwargs: Any, out: Any) -> Any:
    return hook(module, args, out)


def register_forward_pre_hook(
    self: Module, hook: Hook, *, prepend: bool = False, with_kwargs: bool = False
) -> RemovableHandle:
    """Call ``hook(module, args)`` before every ``forward``; what it returns, if not None,
    replaces the arguments.

    Args:
        prepend: call it before the hooks that are there already.
        with_kwargs: call ``hook(module, args, kwargs)``, which returns None or both.
    """
    called = hook if with_kwargs else functools.partial(_before_without_keywords, hook)
    return _register(_table(self).before, called, prepend)


def register_forward_hook(
    self: Module, hook: Hook, *, prepend: bool = False, with_kwargs: bool = False
) -> RemovableHandle:
    """Call ``hook(module, args, output)`` after every ``forward``; what it returns, if not None,
    replaces the output.

    Args:
        prepend: call it before the hooks that are there already.
        with_kwargs: call ``hook(module, args, kwargs, output)``.
    """
    called = hook if with_kwargs else functools.partial(_after_without_keywords, hook)
    return _register(_table(self).after, called, prepend)


def register_full_backward_pre_hook(
    self: Module, hook: Hook, prepend: bool = False
) -> RemovableHandle:
    """Call ``hook(module, grad_output)`` when the gradients of the outputs are known; what it
    returns, if not None, replaces them."""
    return _register(_table(self).backward_before, hook, prepend)


def register_full_backward_hook(self: Module, hook: Hook, prepend: bool = False) -> RemovableHandle:
    """Call ``hook(module, grad_input, grad_output)``, two tuples, when the gradients of the inputs
    are known; what it returns, if not None, replaces ``grad_input``."""
    return _register(_table(self).backward, hook, prepend)


# ---------------------------------------------------------------------- calling


def call_with_hooks(
    module: Module, table: HookTable, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """``forward`` between its hooks."""
    for hook in list(table.before.values()):
        found = hook(module, args, kwargs)
        if found is not None:
            args, kwargs = found
    crossing = None
    if table.backward or table.backward_before:
        crossing = _Crossing(module, table)
        args = crossing.enter(args)
    out = module.forward(*args, **kwargs)
    for hook in list(table.after.values()):
        found = hook(module, args, kwargs, out)
        if found is not None:
            out = found
    return out if crossing is None else crossing.leave(out)


class _Crossing:
    """The gradients of one call on their way through the module, from the outputs to the inputs."""

    def __init__(self, module: Module, table: HookTable) -> None:
        self.module = module
        self.table = table
        self.at_outputs: tuple[Tensor | None, ...] = ()
        self.inputs = False

    def enter(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arguments behind a function whose gradient tells the hooks."""
        found, places = _tensors(args)
        self.inputs = lazyt.is_grad_enabled() and any(t.requires_grad for t in found)
        if not self.inputs:
            return args
        passed = _Gate.apply(self.arrived_at_inputs, *found)
        return _replaced(args, places, passed)

    def leave(self, out: Any) -> Any:
        """The output behind a function whose gradient tells the hooks."""
        values = out if isinstance(out, tuple) else (out,)
        found, places = _tensors(values)
        if not lazyt.is_grad_enabled() or not any(t.requires_grad for t in found):
            return out
        passed = _Gate.apply(self.arrived_at_outputs, *found)
        values = _replaced(values, places, passed)
        return values if isinstance(out, tuple) else values[0]

    def arrived_at_outputs(self, grads: tuple[Tensor | None, ...]) -> tuple[Tensor | None, ...]:
        """The gradients of the outputs, after the hooks that come first."""
        for hook in list(self.table.backward_before.values()):
            found = hook(self.module, grads)
            if found is not None:
                grads = found if isinstance(found, tuple) else (found,)
        self.at_outputs = grads
        if not self.inputs:  # nothing will arrive at the inputs
            for hook in list(self.table.backward.values()):
                hook(self.module, (None,), grads)
        return grads

    def arrived_at_inputs(self, grads: tuple[Tensor | None, ...]) -> tuple[Tensor | None, ...]:
        """The gradients of the inputs, after the hooks."""
        for hook in list(self.table.backward.values()):
            found = hook(self.module, grads, self.at_outputs)
            if found is not None:
                grads = found if isinstance(found, tuple) else (found,)
        return grads


class _Gate(Function):
    """Passes tensors through; their gradients pass through a function."""

    @staticmethod
    def forward(ctx: Any, tell: Hook, *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.tell = tell
        ctx.set_materialize_grads(False)
        return tuple(tensor.detach() for tensor in tensors)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Any, ...]:
        return (None, *ctx.tell(grads))


def _tensors(values: tuple[Any, ...]) -> tuple[list[Tensor], list[int]]:
    places = [i for i, value in enumerate(values) if isinstance(value, Tensor)]
    return [values[i] for i in places], places


def _replaced(values: tuple[Any, ...], places: list[int], new: Any) -> tuple[Any, ...]:
    changed = list(values)
    for place, tensor in zip(places, new, strict=True):
        changed[place] = tensor
    return tuple(changed)
