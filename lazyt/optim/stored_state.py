"""An optimizer's state on its way into a file and back, in the form that PyTorch gives it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from lazyt.errors import LazytError
from lazyt.tensor import Tensor


class StateError(LazytError, ValueError):
    """A state dict that belongs to another optimizer."""


def pack(state: Mapping[Any, dict[str, Any]], groups: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """``{"state": ..., "param_groups": ...}`` with parameters by number.

    Args:
        state: by parameter. What belongs to no parameter stays as it is.
    """
    numbers: dict[Tensor, int] = {}
    packed_groups = []
    for group in groups:
        for parameter in group["params"]:
            numbers.setdefault(parameter, len(numbers))
        packed = {name: value for name, value in group.items() if name != "params"}
        packed["params"] = [numbers[p] for p in group["params"]]
        packed_groups.append(packed)
    packed_state: dict[Any, Any] = {}
    for owner, values in state.items():
        if isinstance(owner, Tensor):
            if owner not in numbers:
                continue
            packed_state[numbers[owner]] = values
        else:
            packed_state[owner] = values
    return {"state": packed_state, "param_groups": packed_groups}


def unpack(
    saved: dict[str, Any], groups: Sequence[dict[str, Any]], fit: Callable[..., Tensor]
) -> dict[Any, dict[str, Any]]:  # fmt: skip
    """State by parameter; settings go into ``groups``. Nothing is shared with ``saved``.

    Args:
        fit: gives a parameter, a tensor of its state, its number, the loaded groups and ``key=``
            the name of the state, the tensor as it is to be.

    Raises StateError (a ValueError) for groups of other sizes; nothing is changed then.
    """
    given = copy.deepcopy(saved["param_groups"])
    if len(groups) != len(given):
        raise StateError("loaded state dict has a different number of parameter groups")
    owners: dict[Any, Tensor] = {}
    for own, other in zip(groups, given, strict=True):
        if len(own["params"]) != len(other["params"]):
            raise StateError(
                "loaded state dict contains a parameter group that doesn't match the size of "
                "optimizer's group"
            )
        owners.update(zip(other["params"], own["params"], strict=True))
    state: dict[Any, dict[str, Any]] = {}
    for number, values in copy.deepcopy(saved["state"]).items():
        owner = owners.get(number)
        if owner is None:
            state[number] = values
        else:
            state[owner] = {n: _fitted(v, owner, number, given, fit, n) for n, v in values.items()}
    for own, other in zip(groups, given, strict=True):
        own.update({name: value for name, value in other.items() if name != "params"})
    return state


def _fitted(
    value: Any, owner: Tensor, number: int, groups: list[dict[str, Any]],
    fit: Callable[..., Tensor], key: Any,
) -> Any:  # fmt: skip
    """Loaded state of a parameter, with tensors as ``fit`` gives them."""

    def inner(item: Any, name: Any) -> Any:
        return _fitted(item, owner, number, groups, fit, name)

    if isinstance(value, Tensor):
        return fit(owner, value, number, groups, key=key)
    if isinstance(value, dict):
        return {name: inner(item, name) for name, item in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, (str, bytes)):
        return type(value)(inner(item, key) for item in value)  # type: ignore[call-arg]
    return value
