"""What programs use of ``torch.jit`` besides calling it: attributes of ``lazyt.jit``.

TorchScript compiles the source of a function; lazyt compiles the graph that running it builds. So
``script`` and ``trace`` of a function are ``lazyt.jit`` of it, modules stay what they are (use
``lazyt.jit(model)`` to replay them), and marks for the script compiler change nothing.
"""

from __future__ import annotations

import typing
from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

from lazyt.errors import LazytError
from lazyt.tracing.jit import jit

F = TypeVar("F")


def script(obj: Any, **options: Any) -> Any:
    """``lazyt.jit(obj)`` for a function; modules, classes and captured functions as they are.

    ``options`` of PyTorch's compiler change nothing. Raises TypeError for what cannot be called.
    """
    if isinstance(obj, type) or hasattr(obj, "forward") or hasattr(obj, "why"):
        return obj
    return jit(obj)


def trace(func: Any, example_inputs: Any = None, **options: Any) -> Any:
    """As ``script``: a function is captured when it is called, not with ``example_inputs``.

    Unlike PyTorch's, the result follows Python's control flow: other inputs are captured again.
    """
    return script(func)


def unchanged(obj: F) -> F:
    """A mark for TorchScript's compiler; returns what it marks."""
    return obj


def ignore(drop: Any = False, **options: Any) -> Any:
    """A mark for TorchScript's compiler, with or without arguments."""
    return drop if callable(drop) else unchanged


def freeze(mod: F, *args: Any, **options: Any) -> F:
    """The module as it is: constants are found when its graph is compiled."""
    return mod


def is_scripting() -> bool:
    """False: Python runs the code."""
    return False


def annotate(the_type: Any, the_value: F) -> F:
    """``the_value``."""
    return the_value


def _isinstance(obj: Any, target_type: Any) -> bool:
    """Whether ``obj`` is of a class, or of one of a union or tuple of classes."""
    origin = typing.get_origin(target_type)
    return isinstance(obj, target_type if origin in (None, typing.Union) else origin)


def _files(*args: Any, **options: Any) -> NoReturn:
    """Raises LazytError: there are no files of TorchScript."""
    raise LazytError(
        "lazyt has no TorchScript files; save lazyt.save(model.state_dict(), path) and load it "
        "with model.load_state_dict(lazyt.load(path))"
    )


ATTRIBUTES: dict[str, Callable[..., Any] | object] = {
    "script": script,
    "trace": trace,
    "script_if_tracing": unchanged,
    "script_method": unchanged,
    "export": unchanged,
    "unused": unchanged,
    "interface": unchanged,
    "ignore": ignore,
    "freeze": freeze,
    "optimize_for_inference": freeze,
    "is_scripting": is_scripting,
    "is_tracing": is_scripting,
    "annotate": annotate,
    "Attribute": lambda value, type: value,
    "Final": typing.Final,
    "isinstance": _isinstance,
    "save": _files,
    "load": _files,
}


def install() -> None:
    """Make ``ATTRIBUTES`` attributes of ``lazyt.jit``."""
    for name, value in ATTRIBUTES.items():
        setattr(jit, name, value)
