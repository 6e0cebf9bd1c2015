"""``__torch_function__`` of arguments, for functions of your own that ask for it.

Most of lazyt's own functions ask where an argument is no tensor and they do not know what to do
with it. They do not ask subclasses of Tensor, whose objects are the tensors that they are: a class
that defines ``__torch_function__`` all the same is warned of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from lazyt.compat.absent import explain_absence as _explain_absence
from lazyt.handle.tensor import Tensor

__all__ = [
    "handle_torch_function", "has_torch_function", "has_torch_function_unary",
    "has_torch_function_variadic", "is_tensor_like",
]  # fmt: skip


def is_tensor_like(inp: Any) -> bool:
    """Whether this is a tensor, or of a class with ``__torch_function__``."""
    return type(inp) is Tensor or hasattr(inp, "__torch_function__")


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """Whether the class of an argument has ``__torch_function__``."""
    return any(hasattr(type(given), "__torch_function__") for given in relevant_args)


def has_torch_function_unary(argument: Any) -> bool:
    """``has_torch_function`` of one argument."""
    return has_torch_function((argument,))


def has_torch_function_variadic(*arguments: Any) -> bool:
    """``has_torch_function`` of arguments that are not in a tuple."""
    return has_torch_function(arguments)


def handle_torch_function(
    public_api: Callable[..., Any], relevant_args: Iterable[Any], *args: Any, **kwargs: Any
) -> Any:
    """What the first ``__torch_function__`` among the arguments, those of derived classes first,
    makes of the call. Raises TypeError where all of them return NotImplemented."""
    given: list[Any] = []
    for value in relevant_args:
        kind = type(value)
        if hasattr(kind, "__torch_function__") and kind not in map(type, given):
            places = (i for i, other in enumerate(given) if issubclass(kind, type(other)))
            given.insert(next(places, len(given)), value)
    kinds = tuple(map(type, given))
    for value in given:
        result = value.__torch_function__(public_api, kinds, args, kwargs)
        if result is not NotImplemented:
            return result
    raise TypeError(
        f"no implementation found for '{public_api.__module__}.{public_api.__name__}' on types "
        f"that implement __torch_function__: {list(kinds)}"
    )


_explain_absence(__name__)
