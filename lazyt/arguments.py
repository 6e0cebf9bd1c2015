"""The tensors among the arguments of a captured function's call, and what they stand for."""

from __future__ import annotations

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

_LINE, _SHAPES = 64, 256  # bytes; calls of different shapes that are remembered


def is_part(tensor: Tensor) -> bool:
    """Whether a tensor is a part of a larger one, such as a batch, and stands for its values alone:
    which part it is does not matter."""
    view = tensor._view
    return (
        tensor._fn is None
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
        tensors: what the function works on: those whose memory NumPy sees are replaced by copies.
        copies: storages of those copies.
        parts: numbers of those that are parts of larger tensors.
    """

    def __init__(self, given: list[Tensor]) -> None:
        self.tensors = list(given)
        self.copies: list[Storage] = []
        self._given = given
        self._values: dict[int, Node] = {}
        for number, tensor in enumerate(given):
            if tensor._storage.exposure() is not None:
                self.tensors[number] = own = wrap(tensor.node)
                self.copies.append(own._storage)
                self._values[id(own)] = own._storage.current()
        self.parts = [n for n, t in enumerate(self.tensors) if is_part(t)]

    def leaves(self) -> dict[int, Node]:
        """The parts as leaves of their own."""
        return {number: value_of_part(self.tensors[number]) for number in self.parts}

    def exposed(self) -> list[Tensor]:
        """The arguments whose memory NumPy sees."""
        return [old for own, old in zip(self.tensors, self._given) if own is not old]

    def originals(self, results: list[Any]) -> list[Any]:
        """``results`` with the tensors that were given instead of those that replaced them."""
        if not self.copies:
            return results
        known = {id(own): old for own, old in zip(self.tensors, self._given)}
        return [known.get(id(r), r) for r in results]

    def write_back(self) -> None:
        """Where the function wrote to copies, write the same to what they are copies of."""
        for own, old in zip(self.tensors, self._given):
            # Autograd does not count writes through ``.data``, so that values have to tell.
            if own is not old and own._storage.current() is not self._values[id(own)]:
                old.copy_(own)


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
