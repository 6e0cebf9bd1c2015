"""Hooks of modules: functions called before and after ``forward``, and with its gradients.

Every module may have some, and there are global ones that are called for all modules.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import lazyt
from lazyt.autograd.function import Function
from lazyt.autograd.handles import RemovableHandle
from lazyt.errors import LazytError, warn
from lazyt.tensor import Tensor

if TYPE_CHECKING:
    from lazyt.nn.module import Module

Hook = Callable[..., Any]


class HookError(LazytError):
    """A hook that returned what cannot be used, or kinds of hooks that exclude each other."""


class HookTable:
    """The hooks of one module, or the global ones, by kind; each by the key of its handle.

    Attributes:
        with_kwargs: keys of hooks that take keyword arguments as well.
        always: keys of forward hooks that are called even after an exception.
        full: whether the backward hooks are full ones; None while there is none.
    """

    def __init__(self) -> None:
        self.before: dict[int, Hook] = {}
        self.after: dict[int, Hook] = {}
        self.backward_before: dict[int, Hook] = {}
        self.backward: dict[int, Hook] = {}
        self.with_kwargs: set[int] = set()
        self.always: set[int] = set()
        self.full: bool | None = None

    def __bool__(self) -> bool:
        return bool(self.before or self.after or self.backward_before or self.backward)


#: Called for every module, before its own hooks.
EVERYWHERE = HookTable()


def table_of(module: Module) -> HookTable:
    """The module's own hooks."""
    if module._hooks is None:
        module.__dict__["_hooks"] = HookTable()
    assert module._hooks is not None
    return module._hooks


def hook_dict(kind: str, owner: str = "") -> Any:
    """A property of modules: the hooks of one kind by their numbers. Programs clear and replace it.

    Args:
        kind: the attribute of the table.
        owner: the method that gives the table, if it is not ``table_of``.
    """

    def table(module: Any) -> Any:
        return getattr(module, owner)() if owner else table_of(module)

    def read(module: Any) -> Any:
        return getattr(table(module), kind)

    def write(module: Any, hooks: Any) -> None:
        setattr(table(module), kind, hooks)

    return property(read, write)


def register(hooks: dict[int, Hook], hook: Hook, prepend: bool = False) -> RemovableHandle:
    """Add a hook behind the others, or before them."""
    handle = RemovableHandle(hooks, hook)
    if prepend:
        others = [key for key in hooks if key != handle.id]
        for key in others:
            hooks[key] = hooks.pop(key)
    return handle


def _register_forward(
    table: HookTable, hooks: dict[int, Hook], hook: Hook, prepend: bool, with_kwargs: bool,
    always_call: bool = False,
) -> RemovableHandle:  # fmt: skip
    handle = register(hooks, hook, prepend)
    if with_kwargs:
        table.with_kwargs.add(handle.id)
    if always_call:
        table.always.add(handle.id)
    return handle


def _register_backward(table: HookTable, hook: Hook, prepend: bool, full: bool) -> RemovableHandle:
    if table.full is (not full):
        place = "as a global Module hook" if table is EVERYWHERE else "on a single Module"
        raise HookError(
            f"Cannot use both regular backward hooks and full backward hooks {place}. Please use "
            "only one of them."
        )
    table.full = full
    return register(table.backward, hook, prepend)


def register_forward_pre_hook(
    self: Module, hook: Hook, *, prepend: bool = False, with_kwargs: bool = False
) -> RemovableHandle:
    """Call ``hook(module, args)`` before every ``forward``; what it returns, if not None,
    replaces the arguments.

    Args:
        prepend: call it before the hooks that are there already.
        with_kwargs: call ``hook(module, args, kwargs)``, which returns None or both.
    """
    table = table_of(self)
    return _register_forward(table, table.before, hook, prepend, with_kwargs)


def register_forward_hook(
    self: Module,
    hook: Hook,
    *,
    prepend: bool = False,
    with_kwargs: bool = False,
    always_call: bool = False,
) -> RemovableHandle:
    """Call ``hook(module, args, output)`` after every ``forward``; what it returns, if not None,
    replaces the output.

    Args:
        prepend: call it before the hooks that are there already.
        with_kwargs: call ``hook(module, args, kwargs, output)``.
        always_call: call it even where an exception is raised before.
    """
    table = table_of(self)
    return _register_forward(table, table.after, hook, prepend, with_kwargs, always_call)


def register_full_backward_pre_hook(
    self: Module, hook: Hook, prepend: bool = False
) -> RemovableHandle:
    """Call ``hook(module, grad_output)`` when the gradients of the outputs are known; what it
    returns, if not None, replaces them."""
    return register(table_of(self).backward_before, hook, prepend)


def register_full_backward_hook(self: Module, hook: Hook, prepend: bool = False) -> RemovableHandle:
    """Call ``hook(module, grad_input, grad_output)``, two tuples, when the gradients of the inputs
    are known; what it returns, if not None, replaces ``grad_input``.

    Raises HookError beside hooks of ``register_backward_hook``.
    """
    return _register_backward(table_of(self), hook, prepend, True)


def register_backward_hook(self: Module, hook: Hook) -> RemovableHandle:
    """PyTorch's older form of ``register_full_backward_hook``; called in the same way.

    Raises HookError beside full backward hooks.
    """
    return _register_backward(table_of(self), hook, False, False)


def register_module_forward_pre_hook(hook: Hook) -> RemovableHandle:
    """Call ``hook(module, args)`` before the ``forward`` of every module."""
    return register(EVERYWHERE.before, hook)


def register_module_forward_hook(
    hook: Hook, *, with_kwargs: bool = False, always_call: bool = False
) -> RemovableHandle:
    """Call ``hook(module, args, output)`` after the ``forward`` of every module."""
    return _register_forward(EVERYWHERE, EVERYWHERE.after, hook, False, with_kwargs, always_call)


def register_module_full_backward_pre_hook(hook: Hook) -> RemovableHandle:
    """Call ``hook(module, grad_output)`` for the gradients of every module's outputs."""
    return register(EVERYWHERE.backward_before, hook)


def register_module_full_backward_hook(hook: Hook) -> RemovableHandle:
    """Call ``hook(module, grad_input, grad_output)`` for the gradients of every module.

    Raises HookError beside hooks of ``register_module_backward_hook``.
    """
    return _register_backward(EVERYWHERE, hook, False, True)


def register_module_backward_hook(hook: Hook) -> RemovableHandle:
    """PyTorch's older form of ``register_module_full_backward_hook``."""
    return _register_backward(EVERYWHERE, hook, False, False)


# ---------------------------------------------------------------------- calling


class Call:
    """One call of a module that has hooks.

    Attributes:
        args, kwargs, result: as the hooks left them.
    """

    def __init__(self, module: Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.module, self.args, self.kwargs = module, args, kwargs
        self.forward = module.forward  # hooks may make the module one of another class
        self.result: Any = None
        self.tables = [EVERYWHERE] if module._hooks is None else [EVERYWHERE, module._hooks]
        self._done: set[int] = set()

    def run(self) -> Any:
        """``forward`` between its hooks."""
        try:
            return self._run()
        except Exception:
            self._call_always()
            raise

    def _run(self) -> Any:
        for table in self.tables:
            for key, hook in list(table.before.items()):
                self._call_before(hook, key in table.with_kwargs)
        crossing = None
        if any(table.backward or table.backward_before for table in self.tables):
            crossing = _Crossing(self.module, self.tables)
            self.args = crossing.enter(self.args)
        self.result = self.forward(*self.args, **self.kwargs)
        for table in self.tables:
            for key, hook in list(table.after.items()):
                self._done.add(key)
                self._call_after(hook, key in table.with_kwargs)
        return self.result if crossing is None else crossing.leave(self.result)

    def _call_before(self, hook: Hook, with_kwargs: bool) -> None:
        if not with_kwargs:
            found = hook(self.module, self.args)
            if found is not None:
                self.args = found if isinstance(found, tuple) else (found,)
            return
        found = hook(self.module, self.args, self.kwargs)
        if found is None:
            return
        if not isinstance(found, tuple) or len(found) != 2:
            raise HookError(
                "forward pre-hook must return None or a tuple of (new_args, new_kwargs), but got "
                f"{found}."
            )
        self.args, self.kwargs = found

    def _call_after(self, hook: Hook, with_kwargs: bool) -> None:
        if with_kwargs:
            found = hook(self.module, self.args, self.kwargs, self.result)
        else:
            found = hook(self.module, self.args, self.result)
        if found is not None:
            self.result = found

    def _call_always(self) -> None:
        """After an exception: the hooks that are called even then, and were not yet."""
        for table in self.tables:
            name = "global module" if table is EVERYWHERE else "module"
            for key, hook in list(table.after.items()):
                if key not in table.always or key in self._done:
                    continue
                try:
                    self._call_after(hook, key in table.with_kwargs)
                except Exception as error:
                    warn(
                        f"{name} forward hook with ``always_call=True`` raised an exception that "
                        f"was silenced as another error was raised in forward: {error}"
                    )


Grads = tuple[Tensor | None, ...]


class _Crossing:
    """The gradients of one call on their way through the module, from the outputs to the inputs."""

    def __init__(self, module: Module, tables: list[HookTable]) -> None:
        self.module = module
        self.hooks = [hook for table in tables for hook in table.backward.values()]
        self.hooks_before = [h for table in tables for h in table.backward_before.values()]
        self.at_outputs: Grads | None = None
        self.input_places: list[int] | None = None
        self.output_places: list[int] = []
        self.input_count = self.output_count = 0
        #: Zeros in place of gradients of inputs that require none, as hooks are told in PyTorch.
        self.unneeded: dict[int, Tensor] = {}

    def enter(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arguments behind a function whose gradient tells the hooks."""
        found, places = _tensors(args)
        self.input_count = len(args)
        if not lazyt.is_grad_enabled() or not any(t.requires_grad for t in found):
            return args
        self.input_places = places
        self.unneeded = {
            i: lazyt.zeros_like(t) for i, t in zip(places, found) if not t.requires_grad
        }
        passed = _Gate.apply(self.arrived_at_inputs, *found)
        return _replaced(args, places, passed)

    def leave(self, out: Any) -> Any:
        """The output behind a function whose gradient tells the hooks."""
        if not isinstance(out, (Tensor, tuple)):
            warn(
                "For backward hooks to be called, module output should be a Tensor or a tuple of "
                f"Tensors but received {type(out)}"
            )
        values = out if isinstance(out, tuple) else (out,)
        found, places = _tensors(values)
        self.output_count, self.output_places = len(values), places
        if not lazyt.is_grad_enabled() or not any(t.requires_grad for t in found):
            return out
        passed = _Gate.apply(self.arrived_at_outputs, *found)
        values = _replaced(values, places, passed)
        if not isinstance(out, tuple):
            return values[0]
        return values if type(out) is tuple else type(out)(*values)

    def arrived_at_outputs(self, found: Grads) -> Grads:
        """The gradients of the outputs, after the hooks that come first."""
        grads: Grads = _replaced((None,) * self.output_count, self.output_places, found)
        for hook in self.hooks_before:
            grads = _answer(hook(self.module, grads), grads, "pre hook", "grad_output")
        self.at_outputs = grads
        if self.input_places is None:
            self._tell_without_inputs()
        return tuple(grads[place] for place in self.output_places)

    def _tell_without_inputs(self) -> None:
        """Call the hooks, for nothing will arrive at the inputs."""
        warn(
            "Full backward hook is firing when gradients are computed with respect to module "
            "outputs since no inputs require gradients. See "
            "https://docs.pytorch.org/docs/main/generated/torch.nn.Module.html"
            "#torch.nn.Module.register_full_backward_hook for more details."
        )
        for hook in self.hooks:
            found = hook(self.module, (None,) * self.input_count, self.at_outputs)
            if found is not None and not (
                isinstance(found, tuple) and all(part is None for part in found)
            ):
                raise HookError(
                    "Backward hook for Modules where no input requires gradient should always "
                    "return None or None for all gradients."
                )

    def arrived_at_inputs(self, found: Grads) -> Grads:
        """The gradients of the inputs, after the hooks."""
        if self.at_outputs is None:  # gradients that did not come through the outputs
            return found
        assert self.input_places is not None
        grads: Grads = _replaced((None,) * self.input_count, self.input_places, found)
        grads = _replaced(grads, list(self.unneeded), self.unneeded.values())
        for hook in self.hooks:
            grads = _answer(hook(self.module, grads, self.at_outputs), grads, "hook", "grad_input")
        self.at_outputs = None
        return tuple(grads[place] for place in self.input_places)


def _answer(found: Any, before: Grads, kind: str, name: str) -> Grads:
    """What a hook returned, or what was there before. Raises HookError."""
    if found is None:
        return before
    answer = (found,) if isinstance(found, Tensor) else tuple(found)
    if len(answer) != len(before):
        raise HookError(
            f"Backward {kind} returned an invalid number of {name}, got {len(answer)}, but "
            f"expected {len(before)}"
        )
    return answer


class _Gate(Function):
    """Passes tensors through; their gradients pass through a function."""

    @staticmethod
    def forward(ctx: Any, tell: Hook, *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.tell = tell
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(*[tensor for tensor in tensors if not tensor.requires_grad])
        return tensors

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
