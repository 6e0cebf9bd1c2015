"""The functions of PyTorch's C module that other packages call: lazyt has no such module."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lazyt.compat.absent import AbsentName

__all__: list[str] = []


def _log_api_usage_once(event: str) -> None:
    """Does nothing, as PyTorch's does unless a program asked for logs of use."""


def _disabled_torch_function_impl(
    func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
) -> Any:
    """``__torch_function__`` for classes that do not want to be asked: the call itself."""
    return func(*args, **(kwargs or {}))


def __getattr__(name: str) -> object:
    why = "lazyt is written in Python and has nothing of PyTorch's C module"
    raise AbsentName.of(__name__, name, why)
