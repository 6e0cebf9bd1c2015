"""Sizes with one number per dimension; PyTorch's ``nn.modules.utils``."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

from lazyt.functional import namespace as lazyt

__all__ = [
    "_list_with_default", "_ntuple", "_pair", "_quadruple", "_reverse_repeat_tuple", "_single",
    "_triple", "consume_prefix_in_state_dict_if_present",
]  # fmt: skip


def _spread(count: int, value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, Iterable) else (value,) * count


def _ntuple(n: int) -> Callable[[Any], tuple[Any, ...]]:
    """A function that gives one number ``n`` times, and several as they are."""
    return functools.partial(_spread, n)


_single, _pair, _triple, _quadruple = (_ntuple(n) for n in (1, 2, 3, 4))


def _reverse_repeat_tuple(t: Iterable[int], n: int) -> tuple[int, ...]:
    """The numbers in reverse order, each ``n`` times, as ``F.pad`` takes borders."""
    return tuple(x for x in reversed(tuple(t)) for _ in range(n))


def _list_with_default(out_size: Any, defaults: list[int]) -> Any:
    """``out_size`` with what is None in it replaced by the last of the ``defaults``."""
    if isinstance(out_size, (int, lazyt.Size)):
        return out_size
    if len(defaults) <= len(out_size):
        raise ValueError(f"Input dimension should be at least {len(out_size) + 1}")
    known = defaults[-len(out_size) :]
    return [default if size is None else size for size, default in zip(out_size, known)]


def consume_prefix_in_state_dict_if_present(state_dict: dict[str, Any], prefix: str) -> None:
    """Names without ``prefix``, such as ``module.`` of DataParallel, in place."""
    for name in list(state_dict):
        if name.startswith(prefix):
            state_dict[name[len(prefix) :]] = state_dict.pop(name)
    metadata = getattr(state_dict, "_metadata", {})
    for name in list(metadata):
        if name.startswith(prefix) or (name and name == prefix.rstrip(".")):
            metadata[name[len(prefix) :]] = metadata.pop(name)
