"""Answers of ``torch.distributed`` about what there is not."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

__all__ = [
    "NO_GROUPS", "no", "require_initialized",
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
