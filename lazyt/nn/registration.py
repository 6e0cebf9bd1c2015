"""What a module's tables hold, and hooks that are told of all that enters them."""

from __future__ import annotations

from typing import Any

from lazyt.absent import known_as
from lazyt.autograd.handles import RemovableHandle
from lazyt.nn.hooks import Hook, register
from lazyt.tensor import Tensor

#: The tables in the order in which names are looked up: how messages call what they hold.
WANTED = {
    "_parameters": ("parameter", ("lazyt.nn.Parameter",)),
    "_buffers": ("buffer", ("lazyt.nn.Buffer", "lazyt.Tensor")),
    "_modules": ("child module", ("lazyt.nn.Module",)),
}
TABLES = tuple(WANTED)

_HOOKS: dict[str, dict[int, Hook]] = {table: {} for table in TABLES}


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
