"""Tensors on devices: which device a result is on, and what is refused."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from lazyt import ops
from lazyt.device import device, place_name
from lazyt.errors import DeviceError
from lazyt.ir.forms import mixed, place_of
from lazyt.ir.graph import Node
from lazyt.watching import hook

if TYPE_CHECKING:
    from lazyt.storage import Storage
    from lazyt.tensor import Tensor


#: Storages whose values were pending on a device when they were written.
waiting: weakref.WeakSet[Storage] = weakref.WeakSet()
#: Functions that take whole numbers from the CPU wherever their tensor is.
_INDEXING = frozenset({"Index", "IndexPut", "IndexPutImpl"})


def placed(node: Node, place: device) -> Node:
    """A value that is made, as one on the device."""
    name = place_name(place)
    if place_of(node.form) == name:
        return node
    return ops.put(node, name) if name and node.data is None else transferred(node, name)


def transferred(node: Node, name: str) -> Node:
    """A copy on the device of that name; at once for what the host knows, unless a capture has to
    see where it comes from."""
    if node.data is None or node.needs_grad or not name or hook.watcher is not None:
        return ops.transfer(node, name)
    from lazyt.placed_plans import moved

    return ops.input_(node.shape, node.dtype, moved(node, name))


def settled(node: Node, parents: Iterable[Any], name: str | None = None) -> Node:
    """A result on the device of what it was made from.

    Raises DeviceError, in PyTorch's words, for operands on several. What is on the CPU goes with
    all as a number, that is a tensor of no dimensions, and as an index in brackets.
    """
    if node.op is ops.TRANSFER:
        return node
    place = place_of(node.form)
    others: list[Tensor] = []
    for parent in parents:
        storage = getattr(parent, "_storage", None)
        if storage is None:
            continue
        found = place_of(storage.node.form)
        if found and place and found != place:
            raise DeviceError(mixed(place, found))
        if found:
            place = found
        else:
            others.append(parent)
    if place and name not in _INDEXING and any(parent.ndim for parent in others):
        raise DeviceError(mixed(place, ""))
    return ops.put(node, place) if place else node


def kept_at(old: Node, value: Node) -> Node:
    """What is written over ``old``, on the same device."""
    place = place_of(old.form)
    found = place_of(value.form)
    if found == place:
        return value
    return ops.transfer(value, place) if found else ops.put(value, place)
