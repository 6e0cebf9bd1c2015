"""Modules as functions of their parameters, and many modules as one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from lazyt.errors import LazytError
from lazyt.functional.namespace import stack
from lazyt.handle.tensor import Tensor


def functional_call(
    module: Any,
    parameter_and_buffer_dicts: Any,
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """``module(*args, **kwargs)`` with other parameters and buffers in place of its own.

    Args:
        module: any module; it is afterwards as it was.
        parameter_and_buffer_dicts: tensors by name, or several such dicts without common names.
        args: arguments, or a single one that is no tuple.
        tie_weights: whether names of one parameter stay names of one.
        strict: whether all parameters and buffers have to be given, and nothing else.

    Raises ValueError for dicts with common names or tied names with different tensors, and
    LazytError, where ``strict``, for names that are missing or unknown.
    """
    tensors = named = _merged(parameter_and_buffer_dicts)
    if tie_weights:
        tensors = _tied(module, tensors)
    if strict:
        _check_names(module, tensors)
    given = () if args is None else args
    if not isinstance(given, tuple):
        given = (given,)
    with _replaced(module, tensors, named):
        return module(*given, **(kwargs or {}))


def _merged(given: Any) -> dict[str, Any]:
    if isinstance(given, dict):
        return given
    if not isinstance(given, Sequence):
        raise ValueError(
            "Expected parameter_and_buffer_dicts to be a dict, or a list/tuple of dicts, but got "
            f"{type(given)}"
        )
    if not all(isinstance(item, dict) for item in given):
        raise ValueError("Expected all elements of parameter_and_buffer_dicts to be dictionaries")
    names = [name for item in given for name in item]
    twice = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    if twice:
        raise ValueError(
            f"{twice} appeared in multiple dictionaries; behavior of functional call is ambiguous"
        )
    return {name: value for item in given for name, value in item.items()}


def _own(module: Any) -> Iterator[tuple[str, Any]]:
    yield from module.named_parameters(remove_duplicate=False)
    yield from module.named_buffers(remove_duplicate=False)


def _tied(module: Any, tensors: dict[str, Any]) -> dict[str, Any]:
    """``tensors`` with those of tied names filled in."""
    groups: dict[int, list[str]] = {}
    for name, tensor in _own(module):
        groups.setdefault(id(tensor), []).append(name)
    found = dict(tensors)
    for names in groups.values():
        given = [name for name in names if name in tensors]
        if len(names) < 2 or not given:
            continue
        if len({id(tensors[name]) for name in given}) > 1:
            raise ValueError(
                f"functional_call got multiple values for keys {sorted(given)}, which are tied. "
                "Consider using tie_weights=False"
            )
        for name in names:
            found[name] = tensors[given[0]]
    return found


def _check_names(module: Any, tensors: dict[str, Any]) -> None:
    names = {name for name, _ in _own(module)}
    unknown, missing = sorted(set(tensors) - names), sorted(names - set(tensors))
    problems = []
    if unknown:
        problems.append(f"Unexpected key(s): {', '.join(map(repr, unknown))}.")
    if missing:
        problems.append(f"Missing key(s): {', '.join(map(repr, missing))}.")
    if problems:
        raise LazytError(
            f"Error(s) in reparametrizing for {type(module).__name__}:\n\t" + "\n\t".join(problems)
        )


_NONE = object()


@contextmanager
def _replaced(
    module: Any, tensors: dict[str, Any], named: dict[str, Any]
) -> Iterator[None]:  # fmt: skip
    """The module with ``tensors`` in place of its own; the module is afterwards as it was.

    What it writes to buffers is written to those of ``tensors``; what it puts in their place is
    afterwards found in ``named``, the dict of the caller.
    """
    places: list[tuple[dict[str, Any], str, Any]] = []
    try:
        for path, tensor in tensors.items():
            table, name = _place(module, path)
            if not isinstance(tensor, Tensor) and tensor is not None:
                raise TypeError(f"{tensor} is not an instance of torch.Tensor")
            places.append((table, name, table.get(name, _NONE)))
            table[name] = tensor
        yield
    finally:
        for path, (table, name, _) in zip(tensors, places):
            if path in named:
                named[path] = table.get(name)
        for table, name, old in reversed(places):
            if old is _NONE:
                table.pop(name, None)
            else:
                table[name] = old


def _place(module: Any, path: str) -> tuple[dict[str, Any], str]:
    """The table of a module that holds the parameter or buffer called ``path``."""
    *outer, name = path.split(".")
    owner = module
    for part in outer:
        if part not in owner._modules:
            raise AttributeError(f"{type(owner).__name__} has no attribute `{part}`")
        owner = owner._modules[part]
    for table in (owner._parameters, owner._buffers):
        if name in table:
            return table, name
    if name in owner._modules:
        raise TypeError(f"{path}: {owner._modules[name]} is not an instance of torch.Tensor")
    return owner.__dict__, name  # PyTorch takes names that the module does not have, too


def stack_module_state(models: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Parameters and buffers of several models of one class, stacked along a new first axis.

    Returns: (parameters, buffers), dicts for ``functional_call`` under ``vmap``; stacked
    parameters are new leaves.

    Raises LazytError for no models, or models of different classes or modes.
    """
    if len(models) == 0:
        raise LazytError("stack_module_state: Expected at least one model, got 0.")
    if len({bool(model.training) for model in models}) > 1:
        raise LazytError(
            "stack_module_state: Expected all models to have the same training/eval mode."
        )
    if any(type(model) is not type(models[0]) for model in models):
        raise LazytError("stack_module_state: Expected all models to be of the same class.")
    parameters = [dict(model.named_parameters()) for model in models]
    buffers = [dict(model.named_buffers()) for model in models]
    return _stacked(parameters), _stacked(buffers)


def _stacked(tables: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    found = {}
    for name in tables[0]:
        tensors = [table[name] for table in tables]
        required = {tensor.requires_grad for tensor in tensors}
        if len(required) > 1:
            raise LazytError(f"Expected {name} from each model to have the same .requires_grad")
        stacked = stack(tensors)
        found[name] = stacked.detach().requires_grad_() if True in required else stacked
    return found


def replace_all_batch_norm_modules_(root: Any) -> Any:
    """Let all batch norms in a module use the statistics of each batch only; returns the module.

    Running statistics, which ``vmap`` refuses to write, are taken away.
    """
    for module in root.modules():
        if any(kind.__name__ == "_BatchNorm" for kind in type(module).__mro__):
            module.running_mean = module.running_var = None
            module.num_batches_tracked = None
            module.track_running_stats = False
    return root


def functionalize(func: Callable[..., Any], *, remove: str = "mutations") -> Callable[..., Any]:
    """``func`` itself: every graph here is without mutations and views already.

    Raises LazytError for another ``remove`` than "mutations" and "mutations_and_views".
    """
    if remove not in ("mutations", "mutations_and_views"):
        raise LazytError(
            f"functionalize(f, remove='mutations'): received invalid argument for remove={remove}."
            " Valid options are:\n     remove='mutations': all inplace and out= operators will be "
            "removed from the program\n     remove='mutations_and_views': all inplace, out=, and "
            "view operators will be removed from the program"
        )
    return func
