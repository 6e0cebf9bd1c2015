"""Sizes with one number per dimension; PyTorch's ``nn.modules.utils``."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

__all__ = [
    "_ntuple", "_pair", "_quadruple", "_single", "_triple",
    "consume_prefix_in_state_dict_if_present",
]  # fmt: skip


def _spread(count: int, value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, Iterable) else (value,) * count


def _ntuple(n: int) -> Callable[[Any], tuple[Any, ...]]:
    """A function that gives one number ``n`` times, and several as they are."""
    return functools.partial(_spread, n)


_single, _pair, _triple, _quadruple = (_ntuple(n) for n in (1, 2, 3, 4))


def consume_prefix_in_state_dict_if_present(state_dict: dict[str, Any], prefix: str) -> None:
    """Names without ``prefix``, such as ``module.`` of DataParallel, in place."""
    for name in list(state_dict):
        if name.startswith(prefix):
            state_dict[name[len(prefix) :]] = state_dict.pop(name)
    metadata = getattr(state_dict, "_metadata", {})
    for name in list(metadata):
        if name.startswith(prefix) or (name and name == prefix.rstrip(".")):
            metadata[name[len(prefix) :]] = metadata.pop(name)
