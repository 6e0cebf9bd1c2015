"""The tensors among the arguments of a captured function's call, and what they stand for."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from lazyt import ops
from lazyt.capture import leaf_of
from lazyt.dispatch import wrap
from lazyt.ir.graph import Node
from lazyt.pending import realize_nodes
from lazyt.places import same_plain
from lazyt.runtime.memory import Buffer
from lazyt.storage import Storage
from lazyt.tensor import Tensor
from lazyt.views import is_contiguous

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

    def places(self, shape: Any, leaves: list[Any]) -> list[int]:
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
