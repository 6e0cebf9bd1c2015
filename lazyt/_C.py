"""The functions of PyTorch's C module that other packages call: lazyt has no such module."""

from __future__ import annotations

from lazyt.compat.absent import AbsentName
from lazyt.functional.overriding import (
    _disabled_torch_function_impl as _disabled_torch_function_impl,
)

__all__: list[str] = []


def _log_api_usage_once(event: str) -> None:
    """Does nothing, as PyTorch's does unless a program asked for logs of use."""


def __getattr__(name: str) -> object:
    why = "lazyt is written in Python and has nothing of PyTorch's C module"
    raise AbsentName.of(__name__, name, why)
