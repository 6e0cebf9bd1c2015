"""Answers of ``torch.distributed`` about what there is not, and settings without effect."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any, TypeVar

from lazyt.compat.served.choices import DebugLevel

__all__ = [
    "NO_GROUPS", "get_debug_level", "no", "require_initialized", "set_debug_level",
    "set_debug_level_from_env",
]  # fmt: skip

F = TypeVar("F", bound=Callable[..., Any])

#: The groups of processes, by name.
NO_GROUPS: dict[str, Any] = {}


def no(*args: Any, **kwargs: Any) -> bool:
    """False."""
    return False


def require_initialized(func: F) -> F:
    """A function for remote calls: it raises RuntimeError, as nobody can be called."""

    @functools.wraps(func)
    def refused(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(
            f"{func.__name__}() calls other processes, and lazyt's ranks call no functions of each "
            "other: torch.distributed.rpc has not been initialized"
        )

    return refused  # type: ignore[return-value]


_DEBUG = "TORCH_DISTRIBUTED_DEBUG"


class _Chosen:
    """What programs have chosen.

    Attributes:
        level: how much is reported.
    """

    level = DebugLevel.OFF


def get_debug_level() -> DebugLevel:
    """What was set; lazyt checks and names collectives in any case."""
    return _Chosen.level


def set_debug_level(level: DebugLevel) -> None:
    """Sets what ``get_debug_level`` answers, and nothing else."""
    _Chosen.level = DebugLevel(level)


def set_debug_level_from_env() -> None:
    """Sets what ``TORCH_DISTRIBUTED_DEBUG`` says. Raises RuntimeError for an unknown level."""
    name = os.environ.get(_DEBUG, "OFF").upper()
    if name not in DebugLevel.__members__:
        raise RuntimeError(
            f"The value of {_DEBUG} must be OFF, INFO, or DETAIL, not {os.environ[_DEBUG]}"
        )
    set_debug_level(DebugLevel[name])


set_debug_level_from_env()
