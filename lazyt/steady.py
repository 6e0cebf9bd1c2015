"""What a shortcut found well at one call, compared at the next ones by one call of compiled C.

A shortcut looks at every tensor that its function reaches: whose storage and value it has, who
else refers to them. Whatever it looks at is a word in memory: a slot of an object, a count of
references, the size of a dict. A call takes these words down before it looks; if it then finds all
well, a later call with the same words would find so too, and need not look. Where a word belongs to
an object that may be gone, a word before it tells that it is there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from types import FunctionType, MethodType
from typing import Any

from lazyt.kept import Kept, attributes
from lazyt.runtime.words import COUNT, SIZE, TYPE, Words, known, slot_address
from lazyt.storage import Storage
from lazyt.tape import AccumulateGrad
from lazyt.tensor import Tensor

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
