"""Calling a module with other parameters than its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from lazyt.errors import LazytError, warn
from lazyt.handle.tensor import Tensor
from lazyt.nn.module import Module

__all__ = ["functional_call"]


def functional_call(
    module: Module,
    parameters_and_buffers: dict[str, Tensor],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """``module(*args, **kwargs)`` with these tensors as its parameters and buffers.

    What ``forward`` assigns to buffers comes back in ``parameters_and_buffers``; the module itself
    stays as it is. ``lazyt.func.functional_call`` is the newer form.

    Args:
        tie_weights: whether a tensor that has several names is replaced under all of them.
        strict: whether all names have to be given, and no others.

    Raises LazytError for names under ``strict``, ValueError for tied tensors with several values.
    """
    warn(
        "`torch.nn.utils.stateless.functional_call` is deprecated as of PyTorch 2.0 and will be "
        "removed in a future version of PyTorch. Please use `torch.func.functional_call` instead "
        "which is a drop-in replacement.",
        FutureWarning,
    )
    given = args if isinstance(args, tuple) else () if args is None else (args,)
    tensors = dict(parameters_and_buffers)
    if tie_weights:
        tensors = _under_all_names(module, tensors)
    if strict:
        _check_names(module, tensors)
    with _replaced(module, tensors):
        result = module(*given, **(kwargs or {}))
        for name in parameters_and_buffers:
            owner, own = _owner(module, name)
            if owner is not None and own in _table(owner, own):
                parameters_and_buffers[name] = _table(owner, own)[own]
    return result


def _all_tensors(module: Module) -> dict[str, Tensor]:
    found: dict[str, Tensor] = dict(module.named_parameters(remove_duplicate=False))
    return found | dict(module.named_buffers(remove_duplicate=False))


def _under_all_names(module: Module, given: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The given tensors also under the other names of those that they replace."""
    names: dict[Tensor, list[str]] = {}
    for name, tensor in _all_tensors(module).items():
        names.setdefault(tensor, []).append(name)
    found = dict(given)
    for tied in names.values():
        values = [given[name] for name in tied if name in given]
        if len({id(value) for value in values}) > 1:
            raise ValueError(
                f"functional_call got multiple values for keys {sorted(tied)}, which are tied. "
                "Consider using tie_weights=False"
            )
        for name in tied if values else ():
            found[name] = values[0]
    return found


def _check_names(module: Module, given: Mapping[str, Tensor]) -> None:
    known = _all_tensors(module)
    problems = []
    for kind, names in (
        ("Unexpected", sorted(set(given) - set(known))),
        ("Missing", sorted(set(known) - set(given))),
    ):
        if names:
            problems.append(f"{kind} key(s): {', '.join(map(repr, names))}.")
    if problems:
        raise LazytError(
            f"Error(s) in reparametrizing for {module._get_name()}:\n\t" + "\n\t".join(problems)
        )


def _owner(module: Module, name: str) -> tuple[Module | None, str]:
    """The module that has this tensor, and its name there."""
    path, _, own = name.rpartition(".")
    owner: Any = module
    for part in path.split(".") if path else ():
        owner = None if owner is None else owner._modules.get(part)
    return owner, own


def _table(owner: Module, name: str) -> dict[str, Any]:
    return owner._parameters if name in owner._parameters else owner._buffers


@contextmanager
def _replaced(module: Module, given: Mapping[str, Tensor]) -> Iterator[None]:
    """Within it the module has these tensors."""
    before: list[tuple[dict[str, Any], str, Any]] = []
    try:
        for name, tensor in given.items():
            owner, own = _owner(module, name)
            if owner is None or own not in _table(owner, own):
                continue  # PyTorch leaves names of nothing alone, too
            table = _table(owner, own)
            before.append((table, own, table[own]))
            table[own] = tensor
        yield
    finally:
        for table, own, tensor in reversed(before):
            table[own] = tensor
