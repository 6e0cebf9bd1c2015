"""The functions of PyTorch's C module that other packages call: lazyt has no such module."""

from __future__ import annotations

from typing import Any

from lazyt.compat.absent import AbsentName
from lazyt.functional import overriding
from lazyt.functional.overriding import Disabled, choices

__all__: list[str] = []

_disabled_torch_function_impl = overriding._disabled_torch_function_impl
_push_on_torch_function_stack = overriding.enter
_pop_torch_function_stack = overriding.leave


def _log_api_usage_once(event: str) -> None:
    """Does nothing, as PyTorch's does unless a program asked for logs of use."""


class DisableTorchFunctionSubclass(Disabled):
    """A block in which functions do not ask their arguments, only modes."""

    def __init__(self) -> None:
        super().__init__()


class DisableTorchFunction(Disabled):
    """A block in which functions ask nobody."""

    def __init__(self) -> None:
        super().__init__(modes=False)


def _is_torch_function_enabled() -> bool:
    """Whether functions ask their arguments."""
    return choices.arguments


def _is_torch_function_mode_enabled() -> bool:
    """Whether there is a mode to ask."""
    return bool(choices.modes)


def _is_torch_function_all_disabled() -> bool:
    """Whether functions ask nobody."""
    return not (choices.arguments or choices.modes)


def _len_torch_function_stack() -> int:
    """How many modes the thread is in."""
    return len(choices.modes)


def _get_function_stack_at(ind: int) -> Any:
    """The mode of that number, from the outermost on."""
    return choices.modes[ind]


def __getattr__(name: str) -> object:
    why = "lazyt is written in Python and has nothing of PyTorch's C module"
    raise AbsentName.of(__name__, name, why)
