"""Replays for calls that come as the last one came, each as one generated function.

What a replay looks up in general is known here: the very tensors that places hold, their storages,
the slots of the plan. What is left is to compare, to pack pointers, to call the plan and to put
results in place (``shortcut_text`` writes that). Where anything is otherwise the function returns
``MISSED``, with nothing changed, and ``Replay.run`` does it in general.

Memory is used again: a written tensor changes between two buffers, and gradients and results are
those of an earlier call, each where the reference counts show that nobody else can see it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lazyt import ops
from lazyt.capture import Bounds, leaf_of
from lazyt.functional.picking import value_range
from lazyt.index_checks import is_within
from lazyt.ir.dtypes import DType
from lazyt.ir.graph import Node, Shape
from lazyt.kept import MOST_BYTES, Kept, finished
from lazyt.pending import realize_nodes
from lazyt.places import signature
from lazyt.runtime import dict_tags
from lazyt.runtime.memory import Buffer
from lazyt.storage import Storage
from lazyt.tape import AccumulateGrad
from lazyt.tensor import Tensor

MISSED: Any = object()


class Shortcut:
    """A generated function and what has to be known about it.

    Attributes:
        call: takes the positional arguments as a tuple and the others as a dict; returns the
            function's result or MISSED.
        tags: of the dicts that it depends on, None where dicts have none.
        text: what was generated.
    """

    __slots__ = ("call", "tags", "text")

    def __init__(self, call: Callable[..., Any], tags: dict_tags.Tags | None, text: str) -> None:
        self.call = call
        self.tags = tags
        self.text = text


def gradient_of(leaf: AccumulateGrad, looks: Any, known: set[Storage]) -> Storage | None:
    """The storage of a leaf's gradient, where that is a tensor of its own that looks like this."""
    tensor = leaf.grad
    if not isinstance(tensor, Tensor) or signature(tensor) != looks or tensor._view is not None:
        return None
    storage = tensor._storage
    return None if storage.share is not None or storage in known else storage


def computed(storage: Storage) -> Node:
    """The leaf with a storage's value, computed if need be."""
    node = storage.current()
    if node.data is None:
        realize_nodes([node])
        storage.current()
    return leaf_of(storage)


def alone(storage: Storage) -> bool:
    """Whether a storage that shared memory has it to itself now."""
    storage.current()
    return storage.share is None


def in_range(node: Node, bounds: Bounds) -> bool:
    """Whether the smallest and the largest value of an index are within their bounds."""
    return is_within(*value_range(node), bounds)


def write(storage: Storage, shape: Shape, dtype: DType, data: Buffer) -> None:
    """Give a storage that shares no memory another value, which autograd does not know of."""
    storage._accept(ops.input_(shape, dtype, data))


def fresh(shape: Shape, dtype: DType, data: Buffer, flag: str | None, version: int) -> Storage:
    """New memory; with a gradient history that was used up where there is a ``flag``."""
    leaf = ops.input_(shape, dtype, data)
    storage = Storage(leaf) if flag is None else finished(leaf, flag)
    storage.version = version
    return storage


def keep(
    kept: list[Kept | None], number: int, kind: type[Tensor], shape: Shape, dtype: DType,
    data: Buffer, flag: str | None, version: int,
) -> Kept:  # fmt: skip
    """A new tensor, kept for later calls unless it is large."""
    made = Kept(kind, shape, dtype, data, flag, version)
    kept[number] = made if data.nbytes <= MOST_BYTES else None
    return made


def is_other(storages: Sequence[Storage]) -> bool:
    """Whether all storages differ."""
    return len({id(storage) for storage in storages}) == len(storages)
