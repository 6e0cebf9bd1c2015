"""``__torch_function__`` of arguments, for functions of your own that ask for it.

lazyt's own functions ask, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from lazyt.compat.absent import explain_absence as _explain_absence
from lazyt.functional import overriding as _overriding
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
    return bool(_overriding.candidates(relevant_args))


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
    found = _overriding.candidates(relevant_args)
    result = _overriding.first_answer(public_api, found, args, kwargs)
    if result is not NotImplemented:
        return result
    raise TypeError(
        f"no implementation found for '{public_api.__module__}.{public_api.__name__}' on types "
        f"that implement __torch_function__: {list(map(type, found))}"
    )


_explain_absence(__name__)
