"""Functions and classes that change nothing here: marks for PyTorch's compilers, switches of
libraries that are not there, questions whose answer is always the same."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from lazyt.compat.compile import BACKENDS
from lazyt.handle.device import default_device, device

__all__ = [
    "Nothing", "_get_accelerator", "_get_default_device", "_get_privateuse1_backend_name",
    "disable", "empty_dict", "empty_list", "list_backends", "mark",
    "minus_one", "no", "none", "same", "set_nothing", "substitute_in_graph", "yes", "zero",
]  # fmt: skip

F = TypeVar("F")


def no(*args: Any, **kwargs: Any) -> bool:
    """False."""
    return False


def yes(*args: Any, **kwargs: Any) -> bool:
    """True."""
    return True


def none(*args: Any, **kwargs: Any) -> None:
    """None: there is no such object."""


def zero(*args: Any, **kwargs: Any) -> int:
    """0: there is no such device."""
    return 0


def minus_one(*args: Any, **kwargs: Any) -> int:
    """-1: no level of a transform."""
    return -1


def same(obj: F, *args: Any, **kwargs: Any) -> F:
    """The argument: a mark for a compiler."""
    return obj


def set_nothing(*args: Any, **kwargs: Any) -> None:
    """Does nothing: there is no such switch or state."""


def empty_dict(*args: Any, **kwargs: Any) -> dict[str, Any]:
    """A dictionary of nothing."""
    return {}


def empty_list(*args: Any, **kwargs: Any) -> list[str]:
    """A list of nothing."""
    return []


def mark(*args: Any, **kwargs: Any) -> Callable[[F], F]:
    """A decorator that returns what it decorates."""
    return same


def disable(fn: Any = None, recursive: bool = True, **options: Any) -> Any:
    """The function as it is, with or without the arguments of a decorator: it runs as Python in
    any case, and ``lazyt.compile`` captures what it computes."""
    return functools.partial(disable, recursive=recursive) if fn is None else fn


def substitute_in_graph(original: Any, **options: Any) -> Callable[[F], F]:
    """A decorator that returns what it decorates: nothing is substituted, as nothing is traced."""
    return same


def list_backends(exclude_tags: Any = ()) -> list[str]:
    """The backends that ``lazyt.compile`` takes."""
    return sorted(BACKENDS)


def _get_accelerator(check: bool | None = None) -> device:
    """The device that tensors are made on by default."""
    return default_device()


def _get_default_device() -> str:
    """Its name."""
    return str(default_device())


def _get_privateuse1_backend_name() -> str:
    """PyTorch's name for a device that nobody has registered."""
    return "privateuseone"


class Nothing:
    """A context manager, or a decorator, that changes nothing; takes any arguments."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.prev = None

    def __enter__(self) -> Nothing:
        return self

    def __exit__(self, *error: object) -> None:
        """Nothing was changed."""

    def __call__(self, func: F) -> F:
        return func
