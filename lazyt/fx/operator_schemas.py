"""Arguments of calls in the order of the parameters of what is called."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

from lazyt.nn.module import Module

__all__ = [
    "ArgsKwargsPair", "get_signature_for_torch_op", "normalize_function", "normalize_module",
]  # fmt: skip


class ArgsKwargsPair(NamedTuple):
    """The positional arguments of a call, and those by keywords."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def get_signature_for_torch_op(op: Callable[..., Any], return_schemas: bool = False) -> Any:
    """The signatures of one of lazyt's functions, in a list of one; None where it has none.

    Args:
        return_schemas: return a pair of that and None: there are no schemas.
    """
    try:
        found: list[inspect.Signature] | None = [inspect.signature(op)]
    except (TypeError, ValueError):  # some of Python's own functions have none
        found = None
    return (found, None) if return_schemas else found


def normalize_function(
    target: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any] | None = None,
    arg_types: Any = None, kwarg_types: Any = None, normalize_to_only_use_kwargs: bool = False,
) -> ArgsKwargsPair | None:  # fmt: skip
    """The arguments of a call of a function, with defaults for those that are left out.

    Args:
        arg_types, kwarg_types: taken for PyTorch's sake: functions have one signature each.
        normalize_to_only_use_kwargs: give all by keywords.

    Returns None where the function has no signature, or takes any number of arguments, and where
    the call does not fit.

    >>> lazyt.fx.operator_schemas.normalize_function(lazyt.nn.functional.relu, (1,))
    ArgsKwargsPair(args=(1,), kwargs={'inplace': False})
    """
    found = get_signature_for_torch_op(target)
    return (
        _normalized(found[0], args, kwargs or {}, normalize_to_only_use_kwargs) if found else None
    )


def normalize_module(
    root: Module, target: str, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None,
    normalize_to_only_use_kwargs: bool = False,
) -> ArgsKwargsPair | None:  # fmt: skip
    """The same of a call of the submodule of ``root`` that has the path ``target``; None for
    modules that are not of ``nn``. Raises RuntimeError where there is no such submodule."""
    try:
        module = root.get_submodule(target)
    except AttributeError as error:
        raise RuntimeError(
            f"Tried to normalize node with target {target} but root did not have that target!"
        ) from error
    if not type(module).__module__.startswith("lazyt.nn"):
        return None
    signature = inspect.signature(module.forward)
    return _normalized(signature, args, kwargs or {}, normalize_to_only_use_kwargs)


def _normalized(
    signature: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any], only: bool
) -> ArgsKwargsPair | None:
    parameters = signature.parameters.values()
    if any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD, p.POSITIONAL_ONLY) for p in parameters):
        return None
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError:
        return None
    bound.apply_defaults()
    named = dict(bound.arguments)
    given: list[Any] = []
    if not only:  # positional ones stay so
        for parameter in list(parameters)[: len(args)]:
            given.append(named.pop(parameter.name))
    return ArgsKwargsPair(tuple(given), named)
