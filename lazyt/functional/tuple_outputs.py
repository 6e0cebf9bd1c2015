"""``out=`` for functions that give several tensors."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar, cast

from lazyt.errors import DTypeError
from lazyt.functional.results import give
from lazyt.tensor import Tensor

R = TypeVar("R")


def takes_outputs(function: Callable[..., R]) -> Callable[..., R]:
    """Decorator: ``out=`` takes a tuple with a tensor for each result, which is written there.

    Tensors of other sizes take the results'. Raises DTypeError for other numbers of tensors, and
    GradientError where gradients are asked for, as PyTorch does.
    """
    name = function.__name__

    @functools.wraps(function)
    def written(*args: Any, out: Any = None, **kwargs: Any) -> R:
        results: Any = function(*args, **kwargs)
        if out is None:
            return cast(R, results)
        if not isinstance(out, (tuple, list)):
            raise DTypeError(
                f"{name}(): argument 'out' must be tuple of Tensors, not {type(out).__name__}"
            )
        if len(out) != len(results):
            raise DTypeError(f"expected tuple of {len(results)} elements but got {len(out)}")
        for target, result in zip(out, results):
            give(result.node, name, (*(a for a in args if isinstance(a, Tensor)),), target)
        return cast(R, type(results)(out))

    signature = inspect.signature(function, eval_str=False)
    out = inspect.Parameter("out", inspect.Parameter.KEYWORD_ONLY, default=None)
    given = [*signature.parameters.values(), out]
    written.__signature__ = signature.replace(parameters=given)  # type: ignore[attr-defined]
    return written
