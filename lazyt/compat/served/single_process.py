"""``torch.distributed`` of a program that runs alone."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any, TypeVar

__all__ = [
    "NO_GROUPS", "get_node_local_rank", "get_pg_count", "get_rank", "get_world_size", "no",
    "record", "require_initialized",
]  # fmt: skip

F = TypeVar("F", bound=Callable[..., Any])

#: The groups of processes, by name.
NO_GROUPS: dict[str, Any] = {}


def no(*args: Any, **kwargs: Any) -> bool:
    """False."""
    return False


def get_rank(group: Any = None) -> int:
    """0, the number of the only process."""
    return 0


def get_world_size(group: Any = None) -> int:
    """1, the number of processes."""
    return 1


def get_pg_count() -> int:
    """0, the number of groups of processes."""
    return 0


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    """``LOCAL_RANK`` of the environment, else ``fallback_rank``; raises RuntimeError without."""
    found = os.environ.get("LOCAL_RANK")
    if found is not None:
        return int(found)
    if fallback_rank is not None:
        return fallback_rank
    raise RuntimeError(
        "LOCAL_RANK is not in the environment. Consider passing fallback_rank to allow "
        "`get_node_local_rank` to work, assuming you are not running in a multi-device context."
    )


def require_initialized(func: F) -> F:
    """A function for remote calls: it raises RuntimeError, as nobody can be called."""

    @functools.wraps(func)
    def refused(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(
            f"{func.__name__}() calls other processes, and lazyt trains on one machine, in one "
            "process: torch.distributed.rpc has not been initialized"
        )

    return refused  # type: ignore[return-value]


def record(fn: F, error_handler: Any = None) -> F:
    """The function: its errors are shown by Python."""
    return fn
