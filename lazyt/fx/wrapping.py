"""Functions of programs whose calls are recorded as they are."""

from __future__ import annotations

import sys
from typing import Any, TypeVar

__all__ = ["wrap", "wrapped"]

T = TypeVar("T")

#: The globals that have such functions, by their identities and the names of the functions.
wrapped: dict[tuple[int, str], dict[str, Any]] = {}


def wrap(fn_or_name: T) -> T:
    """Have calls of a function of this module recorded as they are, when they are given proxies.

    Call it with the function, or its name, at the top of the module that calls it, or use it as a
    decorator there. Names may be those of Python's own functions, as in ``wrap("len")``.

    Returns what it was given. Raises RuntimeError for what is neither a function nor a name, and
    NotImplementedError where it is called elsewhere.
    """
    if not callable(fn_or_name) and not isinstance(fn_or_name, str):
        raise RuntimeError(
            "Unsupported type for global function! Must be either a callable or string name"
        )
    name = fn_or_name if isinstance(fn_or_name, str) else str(getattr(fn_or_name, "__name__", ""))
    frame = sys._getframe(1)
    if frame.f_code.co_name != "<module>":
        raise NotImplementedError("wrap must be called at the top level of a module")
    wrapped[id(frame.f_globals), name] = frame.f_globals
    return fn_or_name


wrap.__module__ = "lazyt.fx._symbolic_trace"  # where PyTorch has it, and generated code calls it
