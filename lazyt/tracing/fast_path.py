"""What a shortcut found well at one call, compared at the next ones by one call of compiled C.

A shortcut looks at every tensor that its function reaches: whose storage and value it has, who
else refers to them. Whatever it looks at is a word in memory: a slot of an object, a count of
references, the size of a dict. A call takes these words down before it looks; if it then finds all
well, a later call with the same words would find so too, and need not look. Where a word belongs to
an object that may be gone, a word before it tells that it is there.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from types import FunctionType, MethodType
from typing import Any

from lazyt import ops
from lazyt.functional.indexing.picking import value_range
from lazyt.handle.pending import realize_nodes
from lazyt.handle.storage import Storage
from lazyt.handle.tape import AccumulateGrad
from lazyt.handle.tensor import Tensor
from lazyt.ir.dtypes import DType
from lazyt.ir.graph import Node, Shape
from lazyt.runtime.cpython import dict_tags, direct
from lazyt.runtime.cpython.words import COUNT, SIZE, TYPE, Words, known, slot_address
from lazyt.runtime.memory import Buffer
from lazyt.tracing.capture import Bounds, leaf_of
from lazyt.tracing.replay import is_within
from lazyt.tracing.reuse import MOST_BYTES, Kept, attributes, finished
from lazyt.tracing.sources import signature

# Arguments of a captured call, compared by one call of compiled C with what they have to be.
#
# In Python that takes 0.2 us for each. A tensor suits that is plain, of the class and form that are
# expected, with memory of its own that no other argument has, and without history or attributes.


_OF_STORAGE = ("share", "fn", "node")


class Admission:
    """What the arguments of one shortcut have to be.

    Attributes:
        admit: takes the tuple of them; True says that all suit, False says nothing.

    Args:
        examples: tensors that suit.
        others: storages that none may have, which the caller keeps.

    Raises LookupError where fields of objects are not where they are thought to be.
    """

    __slots__ = ("_kept", "_words", "admit")

    admit: Callable[[tuple[Any, ...]], bool]

    def __init__(self, examples: Sequence[Tensor], others: Iterable[Storage]) -> None:
        if not (known() and direct.available()):
            raise LookupError("direct calls")
        places: list[int] = []
        for tensor in examples:
            storage = tensor._storage
            for owner, names in (
                (tensor, ("__dict__", "_view", "_storage")),
                (storage, _OF_STORAGE),
                (storage.node, ("form",)),
            ):
                places += [slot_address(owner, name) - id(owner) for name in names]
        count = len(places) // max(len(examples), 1)
        facts = places[:count]
        if not examples or facts * len(examples) != places:
            raise LookupError("classes that differ")
        # A form is one object wherever it stands; where it were two, nothing would be admitted.
        self._kept = [(type(tensor), tensor._storage.node.form) for tensor in examples]
        each = [id(part) for pair in self._kept for part in pair]
        rest = [*map(id, others)]
        numbers = [len(examples), id(None), *facts, *each, len(rest), *rest]
        numbers = [number % (1 << 64) for number in numbers]
        self._words = (ctypes.c_uint64 * len(numbers))(*numbers)
        self.admit = direct.admitting(ctypes.addressof(self._words))


#: Uses for which words are worth taking down.
_WORTH = 16


class Steady:
    """The words of one shortcut.

    Attributes:
        words: those that were taken down last.
        holds: whether all was found well when they were.
        pointers: of the plan's inputs and outputs, at that time.
        uses: calls since then that found the same words.

    Args:
        tensors: those that the shortcut finds in places, with their storages and the numbers of
            references that it counts there, for those that it writes to.
        gradients: leaves, with the numbers of their gradients among ``kept``.
        kept: tensors of earlier calls.
    """

    __slots__ = (
        "_gradients", "_kept", "_misses", "_patience", "_tensors", "holds", "pointers",
        "uses", "words",
    )  # fmt: skip

    def __init__(
        self,
        tensors: Sequence[tuple[Tensor, Storage, bool]],
        gradients: Sequence[tuple[AccumulateGrad, int]],
        kept: list[Kept | None],
    ) -> None:
        self._tensors, self._gradients, self._kept = tensors, gradients, kept
        self.uses, self._misses, self._patience = 0, 0, 1
        self.words = Words(())
        self.holds = False
        self.pointers: list[int] = []

    def take(self) -> bool:
        """Take the words down, unless that was of no use too often; whether it was done.

        References that this function has while it looks are gone when it takes the counts.
        """
        self.holds = False
        self._misses += 1
        if self.uses >= _WORTH:
            self._patience = 1
        if self._misses < self._patience:
            return False
        self.uses, self._misses, self._patience = 0, 0, min(2 * self._patience, 64)
        if any(self._kept[number] is None for _, number in self._gradients):
            return False
        try:
            self.words = Words([*self._places()])
        except LookupError:
            self._misses, self.uses = -(1 << 60), 0
            return False
        return True

    def find_well(self, pointers: Sequence[int]) -> None:
        """All that the words stand for is as it has to be."""
        self.holds, self.pointers = True, list(pointers)

    def _places(self) -> Iterator[int]:
        for tensor, storage, written in self._tensors:
            yield from self._of_tensor(tensor, storage, written)
        for leaf, number in self._gradients:
            kept = self._kept[number]
            assert kept is not None
            yield slot_address(leaf, "grad")
            yield from kept.places()

    def _of_tensor(self, tensor: Tensor, storage: Storage, written: bool) -> Iterator[int]:
        yield id(tensor) + TYPE
        yield from (slot_address(tensor, name) for name in ("_storage", "_view"))
        yield from attributes(tensor)
        yield from (slot_address(storage, name) for name in ("share", "fn", "node"))
        fn, node = storage.fn, storage.node
        if isinstance(fn, AccumulateGrad):
            yield from (slot_address(fn, name) for name in ("_extra", "post_hooks"))
            yield id(fn.post_hooks) + SIZE
        yield from (slot_address(node, name) for name in ("form", "data", "op", "inputs"))
        if written:
            yield id(node) + COUNT
            yield id(node.data) + COUNT
            if isinstance(fn, AccumulateGrad) and node.inputs:
                leaf = node.inputs[0]
                yield from (slot_address(leaf, name) for name in ("op", "data"))
                yield id(leaf) + COUNT


def is_ours(function: Any) -> bool:
    """Whether a function runs no code of the user's, who may come to hold what is found well.

    Schedules of learning rates call functions of the user.
    """
    if isinstance(function, MethodType):
        function = function.__func__
    if not isinstance(function, FunctionType):
        return not isinstance(function, partial) and _is_lazyt(type(function))
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    callbacks = (FunctionType, MethodType, partial)
    return _is_lazyt(function) and all(is_ours(x) for x in cells if isinstance(x, callbacks))


def _is_lazyt(item: Any) -> bool:
    return str(item.__module__).partition(".")[0] == "lazyt"


def available() -> bool:
    """Whether fields of objects are where they are thought to be."""
    return known()


# Replays for calls that come as the last one came, each as one generated function.
#
# What a replay looks up in general is known here: the very tensors that places hold, their
# storages, the slots of the plan. What is left is to compare, to pack pointers, to call the plan
# and to put results in place (``shortcut_text`` writes that). Where anything is otherwise the
# function returns ``MISSED``, with nothing changed, and ``Replay.run`` does it in general.
#
# Memory is used again: a written tensor changes between two buffers, and gradients and results are
# those of an earlier call, each where the reference counts show that nobody else can see it.


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
