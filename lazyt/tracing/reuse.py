"""Tensors and memory that a replay uses again, once nobody else refers to them.

Making a tensor with its storage, node and buffer takes some microseconds. What a replay made, and
nobody holds any more, is as good as new; CPython's reference counts tell. The counts that an object
has when only the replay knows it are taken from an example, not assumed.
"""

from __future__ import annotations

import functools
import sys
import weakref
from collections.abc import Callable, Iterator

from lazyt import ops
from lazyt.handle import tape
from lazyt.handle.storage import Storage
from lazyt.handle.tape import AccumulateGrad
from lazyt.handle.tensor import Tensor
from lazyt.ir.dtypes import DType, float32
from lazyt.ir.graph import Node, Shape
from lazyt.ops.leaves import INPUT
from lazyt.runtime.cpython.words import COUNT, SIZE, Words, known, slot_address
from lazyt.runtime.memory import Buffer

_references = sys.getrefcount
_weak_references = weakref.getweakrefcount
#: Larger buffers go back to the pool: allocating takes no time beside computing them.
MOST_BYTES = 1 << 20
#: Uses of a tensor after which the words that tell whether it is free are recorded.
_WORTH = 3


def finished(node: Node, flag: str) -> Storage:
    """New memory whose gradient history, by the name of ``flag``, was used up."""
    storage = Storage(node)
    storage.fn = tape.record(flag, (), None)
    storage.fn.dead = storage.fn.freed = True
    storage.node = tape.boundary(node, storage.fn)
    return storage


class Reusable:
    """A tensor of memory of its own that was handed out.

    Attributes:
        tensor: it.
        buffer: its memory.
        holds: tells whether all is as it was at a time when the tensor was free; True says that it
            is free now, False says nothing.
    """

    __slots__ = (
        "_alone", "_fn", "_leaf", "_node", "_storage", "_uses", "_version", "_words", "buffer",
        "holds", "tensor",
    )  # fmt: skip

    holds: Callable[[], bool]

    def __init__(
        self, kind: type[Tensor], shape: Shape, dtype: DType, buffer: Buffer, flag: str | None,
        version: int,
    ) -> None:  # fmt: skip
        leaf = ops.input_(shape, dtype, buffer)
        storage = Storage(leaf) if flag is None else finished(leaf, flag)
        storage.version = version
        tensor: Tensor = object.__new__(kind)
        tensor._storage = storage
        tensor._view = None
        self.tensor = tensor
        self.buffer = buffer
        self._storage = storage
        self._node = storage.node
        self._leaf = leaf
        self._fn = storage.fn
        self._version = version
        self._alone = _lone_references(flag is not None)
        self._uses = 0
        self._words: Words | None = None
        self.holds = _never

    def is_free(self, held: int) -> bool:
        """Whether ``held`` references to the tensor are all there are, and all is as it was."""
        if not self._is_free(held):
            return False
        self._uses += 1
        if self._uses == _WORTH and known():
            try:
                self._words = Words([*self.addresses()])
            except LookupError:
                return True
            self.holds = self._words.hold
        return True

    def _is_free(self, held: int) -> bool:
        tensor, storage, node, fn = self.tensor, self._storage, self._node, self._fn
        alone = self._alone
        return (
            _references(tensor) - held == 3
            and _references(storage) == alone[0]
            and _references(node) == alone[1]
            and _references(self.buffer) == alone[2]
            and storage.node is node
            and storage.version == self._version
            and storage.share is None
            and storage.fn is fn
            and node.data is self.buffer
            and tensor._storage is storage
            and tensor._view is None
            and _weak_references(tensor) == 0
            and not tensor.__dict__
            and (fn is None or (fn._extra is None and self._lone_history()))
        )

    def addresses(self) -> Iterator[int]:
        """Addresses of the words that decide whether it is free."""
        tensor, storage = self.tensor, self._storage
        for item in (tensor, storage, self._node, self.buffer, self._leaf):
            yield id(item) + COUNT
        yield from (slot_address(tensor, name) for name in ("_storage", "_view"))
        yield from (slot_address(storage, name) for name in ("node", "version", "share", "fn"))
        yield slot_address(self._node, "data")
        yield from attributes(tensor)
        yield id(tensor) + type(tensor).__weakrefoffset__
        if self._fn is not None:
            yield id(self._fn) + COUNT
            yield slot_address(self._fn, "_extra")

    def _lone_history(self) -> bool:
        return (_references(self._leaf), _references(self._fn)) == self._alone[3:]


def attributes(tensor: Tensor) -> Iterator[int]:
    """Addresses of a tensor's dict, and of how much it holds."""
    size = id(tensor.__dict__) + SIZE
    yield slot_address(tensor, "__dict__")
    yield size


def _never() -> bool:
    return False


@functools.cache
def _lone_references(flagged: bool) -> tuple[int, ...]:
    """References to storage, node, buffer, leaf and history of a tensor that nobody else has, as
    ``Reusable`` counts them."""
    example = Reusable.__new__(Reusable)
    leaf = ops.input_((), float32, Buffer(4))
    example._storage = storage = finished(leaf, "sum") if flagged else Storage(leaf)
    example._leaf = leaf
    example._node = node = storage.node
    example._fn = fn = storage.fn
    example.buffer = leaf.data
    example.tensor = object.__new__(Tensor)
    example.tensor._storage = storage
    del leaf
    counts = (_references(storage), _references(node), _references(example.buffer))
    return (*counts, _references(example._leaf), _references(fn))


@functools.cache
def lone_counts(marked: bool) -> tuple[int, int, int]:
    """References to the node of a storage, to the leaf below its gradient mark (0 without one) and
    to the leaf's buffer, in a function that has the three in variables, where nobody else has."""
    owner = AccumulateGrad(object.__new__(Tensor))
    storage = Storage(ops.input_((), float32, Buffer(4)))
    if not marked:
        node = storage.node
        data = node.data
        return _references(node), 0, _references(data)
    storage.node = owner.mark(storage.node)
    node = storage.node
    leaf = node.inputs[0]
    data = node.data
    return _references(node), _references(leaf), _references(data)


def own_buffer(storage: Storage, held: tuple[int, int, int] = (0, 0, 0)) -> tuple[Buffer, bool]:
    """Memory with a storage's computed value that may be written to, and whether it is the
    storage's: that it is where nobody else can see it, else a copy.

    ``held``: how often the caller refers to the node, the leaf below its mark, and the buffer.
    """
    node, fn = storage.node, storage.fn
    marked = isinstance(fn, AccumulateGrad)
    leaf = node.inputs[0] if marked and node.inputs else node
    data: Buffer = leaf.data
    counts = lone_counts(marked)
    alone = (
        storage.share is None
        and (fn is None or marked)
        and leaf.op is INPUT
        and not data.is_foreign
        and _references(data) - held[2] == counts[2]
    )
    if marked:
        alone = alone and _references(node) - held[0] == counts[0]
        alone = alone and _references(leaf) - held[1] == counts[1]
    else:
        alone = alone and _references(node) - held[0] == counts[0] + 1
    return (data, True) if alone else (data.copy(), False)
