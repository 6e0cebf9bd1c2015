"""Calls of captured functions by what decides which captures may fit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lazyt import cast_mode, grad_mode
from lazyt.arguments import is_part
from lazyt.changes import MOST, argument_names, signatures_differ
from lazyt.config import config
from lazyt.functional.promotion import get_default_dtype
from lazyt.identity import Identity
from lazyt.places import is_plain, signature
from lazyt.tensor import Tensor

_MODES = (
    "gradients are recorded", "inference mode is on", "the dtype of autocast", "the default dtype",
    "settings of plans (the memory budget, for example)",
)  # fmt: skip


def key_of(shape: Any, leaves: Sequence[Any], moving: Sequence[int]) -> tuple[Any, ...]:
    """Types of arguments, and the modes that are on.

    Args:
        shape: the shape of the call's (args, kwargs), see ``Tree``.
        leaves: its leaves.
        moving: which of those are numbers that are followed.
    """
    parts: list[Any] = [
        shape, grad_mode.mode.enabled, grad_mode.mode.inference, cast_mode.mode.dtype,
        get_default_dtype(), config.of_plans,
    ]  # fmt: skip
    storages: dict[int, int] = {}
    for number, leaf in enumerate(leaves):
        if number in moving:
            parts.append((type(leaf), None))
        elif isinstance(leaf, Tensor):
            storage = leaf._storage
            if is_part(leaf) or storage.exposure() is not None:
                kind = type(leaf), leaf.shape, leaf.dtype, leaf._fn is None, leaf.device
                parts.append(kind)
                continue
            memory = storage if storage.share is None else storage.share.memory
            parts.append((signature(leaf), storages.setdefault(id(memory), len(storages))))
        elif is_plain(leaf):
            parts.append((type(leaf), repr(leaf)))
        else:
            parts.append(Identity(leaf))
    return tuple(parts)


def is_gone(key: Any) -> bool:
    """Whether a key names an object that is no more, so that no call has that key again."""
    if type(key) is tuple:
        return any(map(is_gone, key))
    return type(key) is Identity and key.value is None


def keys_differ(
    now: tuple[Any, ...], then: tuple[Any, ...], function: Callable[..., Any]
) -> str:  # fmt: skip
    """What differs between calls of ``function`` with these keys, see ``Captured._key``: leaves of
    the arguments, and modes."""
    names = argument_names(function, now[0])
    if now[0] != then[0]:
        old = argument_names(function, then[0])
        found = [f"{name} is given, was not" for name in names if name not in old]
        found += [f"{name} is not given, was" for name in old if name not in names]
        return ", ".join(found) or "the arguments are given in another order or nesting"
    start = 1 + len(_MODES)
    for mode, a, b in zip(_MODES, now[1:start], then[1:start]):
        if a != b:
            return f"{mode}: {_of_mode(a)}, was {_of_mode(b)}"
    for name, a, b in zip(names, now[start:], then[start:]):
        if a != b:
            return _argument_differs(name, a, b)
    return "the arguments are others"


def _of_mode(value: Any) -> str:
    return str(getattr(value, "name", value))


def _argument_differs(name: str, now: Any, then: Any) -> str:
    both = isinstance(now, tuple) and isinstance(then, tuple)
    if not both:
        return f"{name} is another object than before; objects are compared by identity"
    if len(now) == len(then) == 4:
        found = ", ".join(signatures_differ(now, then))
        return f"{name}: {found}"
    if len(now) == len(then) == 2 and isinstance(now[0], tuple) and isinstance(then[0], tuple):
        found = ", ".join(signatures_differ(now[0], then[0]))
        return f"{name}: {found or 'it shares memory with another argument, or does no longer'}"
    if len(now) == len(then) == 2 and isinstance(now[0], type) and isinstance(then[0], type):
        if None in (now[1], then[1]) and now[0] is then[0]:
            return f"{name} changes from call to call, and is followed from now on"
        if now[1] is None or then[1] is None:
            return f"{name} is a {now[0].__name__}, was a {then[0].__name__}"
        return f"{name} is {now[1][:MOST]}, was {then[1][:MOST]}"
    if len(now) == len(then) == 5:  # a part of a larger tensor
        return (
            f"{name}: {', '.join(signatures_differ(now[:3], then[:3])) or 'it has another place'}"
        )
    return f"{name} is part of a larger tensor now, or is no longer"
