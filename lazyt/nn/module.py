"""``Module``: its parameters, buffers and submodules, hooks, state, conversions and text."""

from __future__ import annotations

import builtins
import functools
import itertools
from collections import OrderedDict, namedtuple
from collections.abc import Callable, Iterator, Mapping
from sys import getrefcount
from typing import TYPE_CHECKING, Any, TypeVar, cast

from lazyt.autograd.function import Function
from lazyt.autograd.handles import take_over
from lazyt.compat.absent import known_as
from lazyt.errors import DTypeError, LazytError, NoValuesError, warn
from lazyt.functional import namespace as lazyt
from lazyt.handle.tape import RemovableHandle
from lazyt.handle.tensor import Tensor
from lazyt.nn.parameter import Buffer, Parameter, UninitializedBuffer, is_uninitialized

# What a module's tables hold, and hooks that are told of all that enters them.


#: The tables in the order in which names are looked up: how messages call what they hold.
WANTED = {
    "_parameters": ("parameter", ("lazyt.nn.Parameter",)),
    "_buffers": ("buffer", ("lazyt.nn.Buffer", "lazyt.Tensor")),
    "_modules": ("child module", ("lazyt.nn.Module",)),
}
TABLES = tuple(WANTED)

_HOOKS: dict[str, dict[int, Hook]] = {table: {} for table in TABLES}
#: As PyTorch calls them, for packages that run these hooks themselves.
_global_parameter_registration_hooks, _global_buffer_registration_hooks = (
    _HOOKS[table] for table in ("_parameters", "_buffers")
)
_global_module_registration_hooks = _HOOKS["_modules"]


def refusal(table: str, name: str, value: object) -> TypeError:
    """The error for a value that the table does not hold."""
    kind, classes = WANTED[table]
    wanted = ", ".join(map(known_as, classes))
    return TypeError(
        f"cannot assign '{title(value)}' as {kind} '{name}' ({wanted} or None expected)"
    )


def title(value: object) -> str:
    """The type of a value as messages name it."""
    if isinstance(value, Tensor):
        return str(value.type())
    kind = type(value)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"


def announced(table: str, module: Any, name: str, value: Any) -> Any:
    """``value``, or what a hook puts in its place."""
    for hook in list(_HOOKS[table].values()):
        found = hook(module, name, value)
        if found is not None:
            value = found
    return value


def register_module_parameter_registration_hook(hook: Hook) -> RemovableHandle:
    """Call ``hook(module, name, parameter)`` for every parameter of every module that is
    registered; what it returns, if not None, replaces it."""
    return register(_HOOKS["_parameters"], hook)


def register_module_buffer_registration_hook(hook: Hook) -> RemovableHandle:
    """Call ``hook(module, name, buffer)`` for every buffer; see the one for parameters."""
    return register(_HOOKS["_buffers"], hook)


def register_module_module_registration_hook(hook: Hook) -> RemovableHandle:
    """Call ``hook(module, name, child)`` for every child; see the one for parameters."""
    return register(_HOOKS["_modules"], hook)


# How modules print: as PyTorch's do, to the character.


def indented(text: str) -> str:
    """``text`` with every line but the first moved right by two."""
    return text.replace("\n", "\n  ")


def module_text(self: Module) -> str:
    """The module, its settings and, line by line, its children."""
    own = self.extra_repr()
    lines = own.split("\n") if own else []
    below = [f"({name}): {indented(repr(child))}" for name, child in self._modules.items()]
    return f"{self._get_name()}({_body(lines, below)})"


def _body(lines: list[str], below: list[str]) -> str:
    if len(lines) == 1 and not below:
        return lines[0]
    if not lines and not below:
        return ""
    return "\n  " + "\n  ".join(lines + below) + "\n"


def list_text(name: str, children: list[Any]) -> str:
    """A list of modules, in which equal neighbours are counted: ``(0-1): 2 x ReLU()``."""
    texts = [repr(child) for child in children]
    lines = []
    start = 0
    for stop in range(1, len(texts) + 1):
        if stop < len(texts) and texts[stop] == texts[start]:
            continue
        label = f"({start})" if stop - start == 1 else f"({start}-{stop - 1})"
        count = "" if stop - start == 1 else f"{stop - start} x "
        lines.append(f"{label}: {count}{indented(texts[start])}")
        start = stop
    return f"{name}({_body([], lines)})"


# Hooks of modules: functions called before and after ``forward``, and with its gradients.
#
# Every module may have some, and there are global ones that are called for all modules.


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


# Modules as a tree: what a module holds by name, and what is below it.


class ModuleTree:
    """The tables of a module, and walks over them and those of the modules below."""

    training: bool
    if TYPE_CHECKING:  # not for typing.get_type_hints of subclasses, which would look for the names
        _parameters: dict[str, Parameter | None]
        _buffers: dict[str, Tensor | None]
        _modules: dict[str, Module | None]
        _non_persistent_buffers_set: set[str]
        _hooks: HookTable | None

    def _get_name(self) -> str:
        """What the module is called when it is printed."""
        return type(self).__name__

    def children(self) -> Iterator[Module]:
        """The modules that are attributes of this one."""
        return (module for _, module in self.named_children())

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """The children with their names, each once."""
        seen: set[Module] = set()
        for name, module in self._modules.items():
            if module is not None and module not in seen:
                seen.add(module)
                yield name, module

    def modules(self, remove_duplicate: bool = True) -> Iterator[Module]:
        """This module and all below it."""
        return (module for _, module in self.named_modules(remove_duplicate=remove_duplicate))

    def named_modules(
        self, memo: set[Any] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Any]]:
        """This module and all below it, with dotted names; ``""`` is this one's."""
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                inner = f"{prefix}.{name}" if prefix else name
                yield from module.named_modules(memo, inner, remove_duplicate)

    def _named_members(
        self, get_members_fn: Any, prefix: str = "", recurse: bool = True,
        remove_duplicate: bool = True,
    ) -> Iterator[tuple[str, Any]]:  # fmt: skip
        owners: Any = [(prefix, self)]
        if recurse:
            owners = self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate)
        seen: set[Any] = set()
        for path, module in owners:
            for name, value in get_members_fn(module):
                if value is None or value in seen:
                    continue
                if remove_duplicate:
                    seen.add(value)
                yield f"{path}.{name}" if path else name, value

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """The parameters with dotted names, each once unless ``remove_duplicate`` is off."""
        yield from self._named_members(
            lambda module: module._parameters.items(), prefix, recurse, remove_duplicate
        )

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """The parameters of this module and, with ``recurse``, of all below it."""
        for _, value in self.named_parameters(recurse=recurse):
            yield value

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """The buffers with dotted names."""
        yield from self._named_members(
            lambda module: module._buffers.items(), prefix, recurse, remove_duplicate
        )

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """The buffers of this module and, with ``recurse``, of all below it."""
        for _, value in self.named_buffers(recurse=recurse):
            yield value

    def get_submodule(self, target: str) -> Any:
        """The module of a dotted name. Raises AttributeError."""
        found: Any = self
        for part in target.split(".") if target else ():
            found = _part_of(found, part, ModuleTree, "an nn.Module")
        return found

    def get_parameter(self, target: str) -> Parameter:
        """The parameter of a dotted name. Raises AttributeError."""
        path, _, name = target.rpartition(".")
        found: Parameter = _part_of(self.get_submodule(path), name, Parameter, "an nn.Parameter")
        return found

    def get_buffer(self, target: str) -> Tensor:
        """The buffer of a dotted name. Raises AttributeError."""
        path, _, name = target.rpartition(".")
        owner = self.get_submodule(path)
        found: Tensor = _part_of(owner, name, object, "a buffer")
        if name not in owner._buffers:
            raise AttributeError(f"`{name}` is not a buffer")
        return found

    def set_submodule(self, target: str, module: Module, strict: bool = False) -> None:
        """Put ``module`` in the place of the one of a dotted name.

        Args:
            strict: whether there has to be one already.

        Raises ValueError for no name and for what is no module, AttributeError for names of
        nothing, or of something else.
        """
        if target == "":
            raise ValueError("Cannot set the submodule without a target name!")
        if not isinstance(module, ModuleTree):
            raise ValueError(f"`module` is not an nn.Module, found {builtins.type(module)}")
        path, _, name = target.rpartition(".")
        parent = self.get_submodule(path)
        if strict or hasattr(parent, name):
            _part_of(parent, name, ModuleTree, "an nn.Module")
        setattr(parent, name, module)


def _part_of(owner: Any, name: str, kind: type, title: str) -> Any:
    """The attribute of this kind. Raises AttributeError."""
    if not hasattr(owner, name):
        raise AttributeError(f"{owner._get_name()} has no attribute `{name}`")
    found = getattr(owner, name)
    if not isinstance(found, kind):
        raise AttributeError(f"`{name}` is not {title}")
    return found


# Changing all of a module at once: dtypes and devices, training mode, gradients.


M = TypeVar("M", bound="ConvertibleModule")


class ConvertibleModule(ModuleTree):
    """What changes a module and all below it."""

    def apply(self: M, fn: Callable[[Module], Any]) -> M:
        """Call ``fn`` with every module below, then with this one; returns it."""
        for module in self.children():
            module.apply(fn)
        fn(self)  # type: ignore[arg-type]
        return self

    def train(self: M, mode: bool = True) -> M:
        """Put this module and all below it in training mode, or out of it; returns it."""
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self: M) -> M:
        """``train(False)``."""
        return self.train(False)

    def requires_grad_(self: M, requires_grad: bool = True) -> M:
        """Set ``requires_grad`` of every parameter; returns the module."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of all parameters, or make them zero."""
        for parameter in self.parameters():
            grad = parameter.grad
            if grad is None:
                continue
            if set_to_none:
                parameter.grad = None
            else:
                grad.detach_()
                grad.zero_()

    def _apply(self: M, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> M:
        """Replace the values of every parameter, gradient and buffer by ``fn`` of them."""
        for module in self.children() if recurse else ():
            module._apply(fn)
        for parameter in self._parameters.values():
            if parameter is not None:
                _convert(parameter, fn)
        for name, buffer in self._buffers.items():
            if isinstance(buffer, UninitializedBuffer):
                _convert(buffer, fn)
            elif buffer is not None:
                self._buffers[name] = fn(buffer)
        return self

    def to(self: M, *args: Any, **kwargs: Any) -> M:
        """Convert floating point parameters and buffers: ``to(dtype)``, ``to(device)``, both,
        ``to(tensor)``, ``to(memory_format=...)`` for those of 4 and 5 dimensions. Changes the
        module itself and returns it.

        Raises DTypeError for types other than floating point, DeviceError as ``Tensor.to``.
        """
        memory_format = kwargs.pop("memory_format", None)
        wanted = None
        if args or kwargs:
            wanted = lazyt.empty(0).to(*args, **kwargs)
            if wanted.dtype.kind not in "fc":
                raise DTypeError(
                    "nn.Module.to only accepts floating point or complex dtypes, but got desired "
                    f"dtype={wanted.dtype}"
                )
            if wanted.dtype.kind == "c":
                warn(
                    "Complex modules are a new feature under active development whose design may "
                    "change, and some modules might not work as expected when using complex "
                    "tensors as parameters or buffers."
                )
        changes = _asks_for_dtype(args, kwargs)

        def convert(tensor: Tensor) -> Tensor:
            if wanted is not None:
                changed = wanted.dtype if changes and tensor.dtype.kind in "fc" else tensor.dtype
                tensor = _moved(tensor, wanted.device, changed)
            if memory_format is not None and tensor.ndim in (4, 5):
                tensor = tensor.to(memory_format=memory_format)
            return tensor

        return self._apply(convert)

    def to_empty(self: M, *, device: Any, recurse: bool = True) -> M:
        """Move everything to a device without its values; returns the module."""
        return self._apply(lambda t: lazyt.empty_like(t, device=device), recurse=recurse)

    def type(self: M, dst_type: Any) -> M:
        """Convert all parameters and buffers; returns the module."""
        return self._apply(lambda tensor: tensor.type(dst_type))

    def float(self: M) -> M:
        """Convert floating point parameters and buffers to float32; returns the module."""
        return self._apply(lambda t: t.float() if t.dtype.kind == "f" else t)

    def double(self: M) -> M:
        """Convert floating point parameters and buffers to float64; returns the module."""
        return self._apply(lambda t: t.double() if t.dtype.kind == "f" else t)

    def half(self: M) -> M:
        """Convert floating point parameters and buffers to float16; returns the module."""
        return self._apply(lambda t: t.half() if t.dtype.kind == "f" else t)

    def bfloat16(self: M) -> M:
        """Convert floating point parameters and buffers to bfloat16; returns the module."""
        return self._apply(lambda t: t.bfloat16() if t.dtype.kind == "f" else t)

    def cpu(self: M) -> M:
        """Move everything to the CPU; returns the module."""
        return self._apply(lambda tensor: tensor.cpu())

    def cuda(self: M, device: Any = None) -> M:
        """Move everything to a GPU; returns the module. Raises DeviceError without one."""
        return self._apply(lambda tensor: tensor.cuda(device))

    def xpu(self: M, device: Any = None) -> M:
        """Move everything to an XPU. Raises DeviceError: there is none."""
        return self._apply(lambda tensor: tensor.to("xpu"))

    def share_memory(self: M) -> M:
        """Move everything to where other processes see it (``Tensor.share_memory_``); returns the
        module."""
        return self._apply(lambda tensor: tensor.share_memory_())


def _moved(tensor: Tensor, device: Any, dtype: Any) -> Tensor:
    """The tensor as a module moves it; raises NoValuesError, which says what to do instead."""
    try:
        return tensor.to(device, dtype)
    except NoValuesError as error:
        raise NoValuesError(
            f"{error} Please use torch.nn.Module.to_empty() instead of torch.nn.Module.to() when "
            "moving module from meta to a different device."
        ) from None


def _asks_for_dtype(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether the arguments of ``Module.to`` name a dtype, rather than just a device."""
    if kwargs.get("dtype") is not None or kwargs.get("tensor") is not None:
        return True
    return any(isinstance(a, (lazyt.dtype, Tensor)) for a in args)


def _references(tensor: Tensor) -> tuple[int, int]:
    """How many refer to a tensor of a caller's, and to its memory."""
    return getrefcount(tensor), getrefcount(tensor._storage)


@functools.cache
def _lone_references() -> tuple[int, int]:
    """The same of a tensor that only a local name refers to: versions of Python count otherwise."""
    example = lazyt.empty(())
    return _references(example)


def _convert(parameter: Parameter | UninitializedBuffer, fn: Callable[[Tensor], Tensor]) -> None:
    grad = parameter.grad
    with lazyt.no_grad():  # detach() would leave both sharing the memory
        changed = fn(parameter)
    if changed is parameter:
        return
    parameter.grad = None  # it may have another dtype than the new values
    if _references(changed) == _lone_references():  # it was made for this parameter
        take_over(parameter, changed)
    else:
        parameter.data = changed
    if grad is not None:
        parameter.grad = fn(grad.detach()).requires_grad_(grad.requires_grad)


# State dicts: the parameters and buffers of a module by name, and putting them back.


_EXTRA = "_extra_state"


class _IncompatibleKeys(namedtuple("IncompatibleKeys", ("missing_keys", "unexpected_keys"))):
    """What ``load_state_dict`` returns: names that were not given, and names of nothing."""

    __slots__ = ()

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return super().__repr__()

    __str__ = __repr__


class StateHooks:
    """The hooks of one module around its state dict."""

    def __init__(self) -> None:
        self.before_saving: dict[int, Hook] = {}
        self.after_saving: dict[int, Hook] = {}
        self.in_place: set[int] = set()
        self.before_loading: dict[int, Hook] = {}
        self.after_loading: dict[int, Hook] = {}
        self.with_module: set[int] = set()


class StatefulModule(ModuleTree):
    """What gives out and takes in the state of a module."""

    _version: int = 1
    _state_hooks: StateHooks | None

    def _state_table(self) -> StateHooks:
        if self._state_hooks is None:
            self.__dict__["_state_hooks"] = StateHooks()
        assert self._state_hooks is not None
        return self._state_hooks

    def get_extra_state(self) -> Any:
        """What belongs to the state besides tensors; for subclasses that have such."""
        raise RuntimeError(
            "Reached a code path in Module.get_extra_state() that should never be called. Please "
            "file an issue to report this bug."
        )

    def set_extra_state(self, state: Any) -> None:
        """Take what ``get_extra_state`` gave; for subclasses that have such."""
        raise RuntimeError(
            "Reached a code path in Module.set_extra_state() that should never be called. Please "
            "file an issue to report this bug."
        )

    # ------------------------------------------------------------------ saving

    def register_state_dict_pre_hook(self, hook: Hook) -> RemovableHandle:
        """Call ``hook(module, prefix, keep_vars)`` before every ``state_dict``."""
        return register(self._state_table().before_saving, hook)

    def register_state_dict_post_hook(self, hook: Hook) -> RemovableHandle:
        """Call ``hook(module, state_dict, prefix, local_metadata)`` after every ``state_dict``,
        which it may change; it has to return None."""
        table = self._state_table()
        handle = register(table.after_saving, hook)
        table.in_place.add(handle.id)
        return handle

    def _register_state_dict_hook(self, hook: Hook) -> RemovableHandle:
        """As ``register_state_dict_post_hook``; a dict that it returns replaces the state dict."""
        return register(self._state_table().after_saving, hook)

    def _own_state(self) -> list[tuple[str, Tensor]]:
        """The module's own parameters and persistent buffers."""
        hidden = self._non_persistent_buffers_set
        buffers = {n: b for n, b in self._buffers.items() if n not in hidden}
        items = itertools.chain(self._parameters.items(), buffers.items())
        return [(name, tensor) for name, tensor in items if tensor is not None]

    def _save_to_state_dict(
        self, destination: dict[str, Any], prefix: str, keep_vars: bool
    ) -> None:
        """Add what belongs to this very module; subclasses may add more."""
        for name, tensor in self._own_state():
            plain = keep_vars or is_uninitialized(tensor)
            destination[prefix + name] = tensor if plain else tensor.detach()
        if type(self).get_extra_state is not StatefulModule.get_extra_state:
            destination[prefix + _EXTRA] = self.get_extra_state()

    def state_dict(
        self, *args: Any, destination: Any = None, prefix: str = "", keep_vars: bool = False
    ) -> Any:
        """All parameters and persistent buffers by dotted name, sharing memory with the module.

        Args:
            destination: a dict to fill instead of a new one.
            prefix: goes before every name.
            keep_vars: give the parameters themselves instead of detached tensors.
        """
        if args:
            warn(
                "Positional args are being deprecated, use kwargs instead. Refer to "
                "https://pytorch.org/docs/main/generated/torch.nn.Module.html"
                "#torch.nn.Module.state_dict for details.",
                FutureWarning,
            )
            given = dict(zip(("destination", "prefix", "keep_vars"), args))
            destination = given.get("destination") if destination is None else destination
            prefix, keep_vars = given.get("prefix", prefix), given.get("keep_vars", keep_vars)
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()
        metadata = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = metadata
        hooks = self._state_hooks or StateHooks()
        for hook in list(hooks.before_saving.values()):
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, child in self._modules.items():
            if child is not None:
                inner = f"{prefix}{name}."
                child.state_dict(destination=destination, prefix=inner, keep_vars=keep_vars)
        for key, hook in list(hooks.after_saving.items()):
            found = hook(self, destination, prefix, metadata)
            if found is not None and key in hooks.in_place:
                raise HookError("state_dict post-hook must return None")
            destination = destination if found is None else found
        return destination

    # ------------------------------------------------------------------ loading

    def register_load_state_dict_pre_hook(self, hook: Hook) -> RemovableHandle:
        """Call ``hook(module, state_dict, prefix, local_metadata, strict, missing_keys,
        unexpected_keys, error_msgs)`` before this module loads; it may change all of them."""
        return self._register_load_state_dict_pre_hook(hook, True)

    def _register_load_state_dict_pre_hook(
        self, hook: Hook, with_module: bool = False
    ) -> RemovableHandle:
        """As ``register_load_state_dict_pre_hook``, without the module by default."""
        table = self._state_table()
        handle = register(table.before_loading, hook)
        if with_module:
            table.with_module.add(handle.id)
        return handle

    def register_load_state_dict_post_hook(self, hook: Hook) -> RemovableHandle:
        """Call ``hook(module, incompatible_keys)`` after this module and all below it have been
        loaded; it may change the keys and has to return None."""
        return register(self._state_table().after_loading, hook)

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: dict[str, Any], strict: bool,
        missing_keys: list[str], unexpected_keys: list[str], error_msgs: list[str],
    ) -> None:  # fmt: skip
        """Load what belongs to this very module; what is wrong goes to the lists."""
        rest = (state_dict, prefix, local_metadata, strict)
        hooks = self._state_hooks or StateHooks()
        for key, hook in list(hooks.before_loading.items()):
            first = (self,) if key in hooks.with_module else ()
            hook(*first, *rest, missing_keys, unexpected_keys, error_msgs)
        own = dict(self._own_state())
        assign = bool(local_metadata.get("assign_to_params_buffers", False))
        for name, tensor in own.items():
            if prefix + name not in state_dict:
                if strict:
                    missing_keys.append(prefix + name)
                continue
            given = state_dict[prefix + name]
            problem = _load(self, name, prefix + name, (tensor, given), assign)
            if problem:
                error_msgs.append(problem)
        extra = prefix + _EXTRA
        if type(self).set_extra_state is not StatefulModule.set_extra_state:
            if extra in state_dict:
                self.set_extra_state(state_dict[extra])
            elif strict:
                missing_keys.append(extra)
        elif strict and extra in state_dict:
            unexpected_keys.append(extra)
        for key in state_dict if strict else ():
            if key.startswith(prefix) and key != extra:
                first, _, below = key[len(prefix) :].partition(".")
                if first not in (self._modules if below else own):
                    unexpected_keys.append(key)

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> _IncompatibleKeys:
        """Take parameters and buffers from a ``state_dict``.

        Args:
            strict: whether the names have to be exactly the module's.
            assign: take over the tensors themselves instead of copying their values.

        Returns: names that are missing and names that are unexpected.

        Raises LazytError (a RuntimeError) for wrong names under ``strict`` and for wrong shapes,
        after loading all that fits; TypeError for what is no mapping.
        """
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
        keys = _IncompatibleKeys([], [])
        errors: list[str] = []
        metadata = getattr(state_dict, "_metadata", None)
        given: Any = OrderedDict(state_dict)  # hooks may change it
        if metadata is not None:
            given._metadata = metadata
        _load_tree(self, given, "", (metadata, assign), keys, errors)
        if strict:
            for kind, names in (("Unexpected", keys[1]), ("Missing", keys[0])):
                if names:
                    quoted = ", ".join(f'"{name}"' for name in names)
                    errors.insert(0, f"{kind} key(s) in state_dict: {quoted}. ")
        if errors:
            raise LazytError(
                f"Error(s) in loading state_dict for {type(self).__name__}:\n\t"
                + "\n\t".join(errors)
            )
        return keys


def _load_tree(
    module: StatefulModule, given: Mapping[str, Any], prefix: str, how: tuple[Any, bool],
    keys: _IncompatibleKeys, errors: list[str],
) -> None:  # fmt: skip
    """Load a module and all below it."""
    metadata, assign = how
    local = {} if metadata is None else metadata.get(prefix[:-1], {})
    if assign:
        local["assign_to_params_buffers"] = True
    module._load_from_state_dict(given, prefix, local, True, *keys, errors)
    for name, child in module._modules.items():
        if child is not None:
            inner = f"{prefix}{name}."
            part = {k: v for k, v in given.items() if k.startswith(inner)}
            _load_tree(child, part, inner, how, keys, errors)
    hooks = module._state_hooks or StateHooks()
    for hook in list(hooks.after_loading.values()):
        if hook(module, keys) is not None:
            raise AssertionError(
                "Hooks registered with ``register_load_state_dict_post_hook`` are not expected to "
                "return new values, if incompatible_keys need to be modified, it should be done "
                "inplace."
            )


def _load(module: Any, name: str, key: str, pair: tuple[Tensor, Any], assign: bool) -> str | None:
    """Load one tensor; returns what is wrong."""
    own, given = pair
    if is_uninitialized(given) and is_uninitialized(own):
        return None
    if not isinstance(given, Tensor):
        return (
            f'While copying the parameter named "{key}", expected lazyt.Tensor or Tensor-like '
            f"object from checkpoint but received {type(given)}"
        )
    if is_uninitialized(own):
        cast(Any, own).materialize(given.shape)
    if own.ndim == 0 and given.shape == (1,):
        given = given[0]
    if given.shape != own.shape:
        return (
            f"size mismatch for {key}: copying a param with shape {given.shape} from checkpoint, "
            f"the shape in current model is {own.shape}."
        )
    if not assign:
        with lazyt.no_grad():
            own.copy_(given)
        return None
    if isinstance(own, Parameter):
        if isinstance(given, Parameter):
            given.requires_grad_(own.requires_grad)
        else:
            given = Parameter(given, own.requires_grad)
    setattr(module, name, given)
    return None


# Modules: trees of parameters and buffers with a forward function.


class Module(ConvertibleModule, StatefulModule):
    """Base of all layers and networks, as PyTorch's ``nn.Module``.

    Subclasses call ``super().__init__()``, then assign parameters and other modules as attributes,
    and define ``forward``. Calling the module runs ``forward`` between its hooks.

    Attributes:
        training: whether the module is in training mode; see ``train`` and ``eval``.
    """

    dump_patches = False
    call_super_init = False
    _compiled_call_impl: Callable[..., Any] | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        passes_on = self.call_super_init
        if kwargs and not passes_on:
            raise TypeError(
                f"{type(self).__name__}.__init__() got an unexpected keyword argument "
                f"'{next(iter(kwargs))}'"
            )
        if args and not passes_on:
            raise TypeError(
                f"{type(self).__name__}.__init__() takes 1 positional argument but "
                f"{len(args) + 1} were given"
            )
        self.__dict__.update(_blank())  # attributes of their own, past __setattr__
        if passes_on:
            super().__init__(*args, **kwargs)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._compiled_call_impl is not None:
            return self._compiled_call_impl(*args, **kwargs)
        return self._call_impl(*args, **kwargs)

    def _call_impl(self, *args: Any, **kwargs: Any) -> Any:
        if self._hooks is None and not EVERYWHERE:
            return self.forward(*args, **kwargs)
        return Call(self, args, kwargs).run()

    def _forward_unimplemented(self, *input: Any) -> None:
        raise NotImplementedError(
            f'Module [{builtins.type(self).__name__}] is missing the required "forward" function'
        )

    forward: Callable[..., Any] = _forward_unimplemented

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """From now on run calls of this module as ``lazyt.compile`` would; takes its arguments."""
        from lazyt.compat import compile as compiling

        compiled = compiling.compile(self._call_impl, *args, **kwargs)
        self.__dict__["_compiled_call_impl"] = compiled

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        state.pop("_compiled_call_impl", None)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(_blank() | state)

    # ------------------------------------------------------------------ attributes

    def __setattr__(self, name: str, value: Any) -> None:
        tables = self.__dict__
        if isinstance(value, (Parameter, Module)):
            kept = "_parameters" if isinstance(value, Parameter) else "_modules"
            if "_parameters" not in tables:
                kind = "parameters" if kept == "_parameters" else "module"
                raise AttributeError(f"cannot assign {kind} before Module.__init__() call")
            self._forget(name, kept)
            if isinstance(value, Parameter):
                self.register_parameter(name, value)
                return
            value = announced(kept, self, name, value)
            tables[kept][name] = value  # where it was, if it was there
            return
        if isinstance(value, Buffer) and "_buffers" in tables:
            self._forget(name, "_buffers")
            self.register_buffer(name, value, value.persistent)
            return
        for table in TABLES:
            if name in tables.get(table, ()):
                if value is not None and not (table == "_buffers" and isinstance(value, Tensor)):
                    raise refusal(table, name, value)
                tables[table][name] = announced(table, self, name, value)
                return
        object.__setattr__(self, name, value)

    def _forget(self, name: str, kept: str) -> None:
        """Make room for this name in the table ``kept``."""
        self.__dict__.pop(name, None)
        for table in TABLES:
            if table != kept:
                self.__dict__[table].pop(name, None)
        self._non_persistent_buffers_set.discard(name)

    def __getattr__(self, name: str) -> Any:
        for table in TABLES:
            found = self.__dict__.get(table, {})
            if name in found:
                return found[name]
        raise AttributeError(f"'{builtins.type(self).__name__}' object has no attribute '{name}'")

    def __delattr__(self, name: str) -> None:
        for table in TABLES:
            if name in self.__dict__.get(table, {}):
                del self.__dict__[table][name]
                self._non_persistent_buffers_set.discard(name)
                return
        object.__delattr__(self, name)

    def __dir__(self) -> list[str]:
        names = set(super().__dir__())
        for table in TABLES:
            names.update(self.__dict__.get(table, {}))
        return sorted(name for name in names if not name[0].isdigit())

    # ------------------------------------------------------------------ registering

    def _check_name(self, name: str, kind: str, table: str) -> None:
        if table not in self.__dict__:
            raise AttributeError(f"cannot assign {kind} before Module.__init__() call")
        if not isinstance(name, str):
            raise TypeError(f"{kind} name should be a string. Got {builtins.type(name).__name__}")
        if hasattr(self, name) and name not in self.__dict__[table] and kind == "module":
            raise KeyError(f"attribute '{name}' already exists")
        if "." in name:
            what = f", got: {name}" if kind == "module" else ""
            raise KeyError(f'{kind} name can\'t contain "."{what}')
        if not name:
            raise KeyError(f'{kind} name can\'t be empty string ""')
        if name not in self.__dict__[table] and hasattr(self, name):
            raise KeyError(f"attribute '{name}' already exists")

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Add a parameter, or None to say that there is none of this name.

        Raises KeyError for a bad or taken name, TypeError for what is no Parameter, ValueError for
        one that was computed.
        """
        self._check_name(name, "parameter", "_parameters")
        if param is not None and not isinstance(param, Parameter):
            raise TypeError(
                f"cannot assign '{title(param)}' object to parameter '{name}' "
                f"({known_as('lazyt.nn.Parameter')} or None required)"
            )
        if param is not None and param.grad_fn is not None:
            raise ValueError(
                f"Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must be "
                f"created explicitly. To express '{name}' as a function of another Tensor, compute "
                "the value in the forward() method."
            )
        self._parameters[name] = announced("_parameters", self, name, param)

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Add a tensor that is part of the module but not learned, such as a running mean.

        Args:
            persistent: whether it belongs to the ``state_dict``.

        Raises KeyError for a bad or taken name, TypeError for what is no tensor.
        """
        self._check_name(name, "buffer", "_buffers")
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(
                f"cannot assign '{title(tensor)}' object to buffer '{name}' "
                "(lazyt Tensor or None required)"
            )
        self._buffers[name] = announced("_buffers", self, name, tensor)
        hidden = self._non_persistent_buffers_set
        (hidden.discard if persistent else hidden.add)(name)

    def add_module(self, name: str, module: Module | None) -> None:
        """Add a child. Raises KeyError for a bad or taken name, TypeError for no Module."""
        if module is not None and not isinstance(module, Module):
            raise TypeError(f"{title(module)} is not a Module subclass")
        self._check_name(name, "module", "_modules")
        self._modules[name] = announced("_modules", self, name, module)

    def register_module(self, name: str, module: Module | None) -> None:
        """The same as ``add_module``."""
        self.add_module(name, module)

    # ------------------------------------------------------------------ hooks

    register_forward_pre_hook = register_forward_pre_hook
    register_forward_hook = register_forward_hook
    register_full_backward_pre_hook = register_full_backward_pre_hook
    register_full_backward_hook = register_full_backward_hook
    register_backward_hook = register_backward_hook

    _forward_pre_hooks = hook_dict("before")
    _forward_hooks = hook_dict("after")
    _backward_pre_hooks = hook_dict("backward_before")
    _backward_hooks = hook_dict("backward")
    _state_dict_pre_hooks = hook_dict("before_saving", "_state_table")
    _state_dict_hooks = hook_dict("after_saving", "_state_table")
    _load_state_dict_pre_hooks = hook_dict("before_loading", "_state_table")
    _load_state_dict_post_hooks = hook_dict("after_loading", "_state_table")

    @property
    def _is_full_backward_hook(self) -> bool | None:
        return None if self._hooks is None else self._hooks.full

    # ------------------------------------------------------------------ printing

    def extra_repr(self) -> str:
        """What stands between the parentheses when the module is printed."""
        return ""

    __repr__ = module_text


def _blank() -> dict[str, Any]:
    """The attributes of a module that holds nothing."""
    return {
        "training": True,
        "_parameters": {},
        "_buffers": {},
        "_non_persistent_buffers_set": set(),
        "_hooks": None,
        "_state_hooks": None,
        "_modules": {},
    }
