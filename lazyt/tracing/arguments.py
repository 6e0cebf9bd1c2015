"""The tensors among the arguments of a captured function's call, and what they stand for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

from lazyt import ops
from lazyt.config import config
from lazyt.functional.type_promotion import get_default_dtype
from lazyt.handle import autocast, grad_mode
from lazyt.handle.dispatch import wrap
from lazyt.handle.pending import realize_nodes
from lazyt.handle.pytree import Identity
from lazyt.handle.storage import Storage
from lazyt.handle.tensor import Tensor
from lazyt.handle.views import is_contiguous
from lazyt.ir.graph import Node
from lazyt.runtime.memory import Buffer
from lazyt.tracing.capture import leaf_of
from lazyt.tracing.recompile_reasons import MOST, argument_names, signatures_differ
from lazyt.tracing.sources import is_plain, same_plain, signature

#: Bytes at whose multiples parts begin, and memory that is read as it lies; calls of different
#: shapes that are remembered.
_LINE, _WORD, _SHAPES = 64, 16, 256


def is_part(tensor: Tensor) -> bool:
    """Whether a tensor is a part of a larger one, such as a batch, and stands for its values alone:
    which part it is does not matter."""
    view = tensor._view
    return (
        tensor._fn is None
        and not tensor.__dict__
        and view is not None
        and not view.root
        and is_contiguous(view.shape, view.strides)
    )


def value_of_part(tensor: Tensor) -> Node:
    """A leaf over the memory of a part, or over a copy where that does not start a cache line."""
    view = tensor._view
    assert view is not None
    node = tensor._storage.current()
    if node.data is None:
        realize_nodes([node])
    whole = leaf_of(tensor._storage).data
    size = tensor.dtype.itemsize
    start, count = view.offset * size, tensor.shape.numel() * size
    if start % _LINE == 0:
        data = Buffer.foreign(whole.ptr + start, count, whole)
    else:
        data = Buffer(count)
        data.copy_from(whole.ptr + start, count)
    return ops.input_(tuple(tensor.shape), tensor.dtype, data)


class Values:
    """The tensors among a call's arguments.

    Attributes:
        parts: numbers of those that are parts of larger tensors.
    """

    def __init__(self, given: list[Tensor]) -> None:
        self._given = given
        self._values: dict[int, Node] = {}
        self._shown = [n for n, t in enumerate(given) if t._storage.exposure() is not None]
        self.parts = [n for n, t in enumerate(given) if is_part(t) and n not in self._shown]

    @cached_property
    def tensors(self) -> list[Tensor]:
        """What the function works on: tensors whose memory NumPy sees are replaced by copies."""
        found = list(self._given)
        for number in self._shown:
            found[number] = own = wrap(self._given[number].node)
            self._values[id(own)] = own._storage.current()
        return found

    @property
    def any_shown(self) -> bool:
        """Whether NumPy sees the memory of one."""
        return bool(self._shown)

    @property
    def copies(self) -> list[Storage]:
        """Storages of what ``tensors`` has in place of tensors whose memory NumPy sees."""
        return [self.tensors[number]._storage for number in self._shown]

    def in_place(self) -> list[Tensor]:
        """As ``tensors``, but over the memory that NumPy sees, for who only reads it, and now."""
        found = list(self._given)
        for number in self._shown:
            given = found[number]
            node = _value_in_place(given)
            found[number] = wrap(node if node is not None else given.node)
        return found

    def leaves(self) -> dict[int, Node]:
        """The parts as leaves of their own."""
        return {number: value_of_part(self._given[number]) for number in self.parts}

    def exposed(self) -> list[Tensor]:
        """The arguments whose memory NumPy sees."""
        return [self._given[number] for number in self._shown]

    def originals(self, results: list[Any], used: list[Tensor]) -> list[Any]:
        """``results`` with the tensors that were given instead of those that were ``used``."""
        if not self._shown:
            return results
        known = {id(used[number]): self._given[number] for number in self._shown}
        return [known.get(id(r), r) for r in results]

    def write_back(self) -> None:
        """Where the function wrote to copies, write the same to what they are copies of."""
        for own, old in zip(self.tensors, self._given):
            # Autograd does not count writes through ``.data``, so that values have to tell.
            if own is not old and own._storage.current() is not self._values[id(own)]:
                old.copy_(own)


def _value_in_place(tensor: Tensor) -> Node | None:
    """A leaf over the memory of a tensor that NumPy sees; None for parts of such memory, and where
    kernels could not read it as it lies."""
    storage = tensor._storage
    exposed, share = storage.exposure(), storage.share
    plain = tensor._view is None and tensor._fn is None and storage.fn is None
    if exposed is None or share is None or share.region is not None or not plain:
        return None
    buffer, value = exposed.buffer, share.memory.value
    if buffer.ptr % _WORD or value.shape != tuple(tensor.shape) or value.dtype is not tensor.dtype:
        return None
    return ops.input_(value.shape, value.dtype, Buffer.foreign(buffer.ptr, value.nbytes, buffer))


class Changing:
    """Which numbers among the arguments change from call to call, by the shape of the call."""

    def __init__(self) -> None:
        self._last: dict[Any, list[Any]] = {}
        self._places: dict[Any, set[int]] = {}

    def positions(self, shape: Any, leaves: list[Any]) -> list[int]:
        """Numbers of the leaves that are ints or floats and were others at an earlier call."""
        numbers = [leaf if type(leaf) in (int, float) else None for leaf in leaves]
        if len(self._last) > _SHAPES:
            self._last.clear()
        last = self._last.get(shape, numbers)
        self._last[shape] = numbers
        found = self._places.setdefault(shape, set())
        for number, (old, new) in enumerate(zip(last, numbers)):
            if type(old) is type(new) and new is not None and not same_plain(old, new):
                found.add(number)
        return [number for number in sorted(found) if numbers[number] is not None]


# Calls of captured functions by what decides which captures may fit.


_MODES = (
    "gradients are recorded", "inference mode is on", "the dtype of autocast", "the default dtype",
    "settings of plans (the memory budget, for example)",
)  # fmt: skip


def key_of(shape: Any, leaves: Sequence[Any], moving: Sequence[int]) -> tuple[Any, ...]:
    """Types of arguments, and the modes that are on.

    Args:
        shape: the shape of the call's (args, kwargs), see ``Flat``.
        leaves: its leaves.
        moving: which of those are numbers that are followed.
    """
    parts: list[Any] = [
        shape, grad_mode.mode.enabled, grad_mode.mode.inference, autocast.mode.dtype,
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
