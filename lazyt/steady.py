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

from lazyt.kept import Kept
from lazyt.runtime.words import Words, known, slot_offset, word_at
from lazyt.storage import Storage
from lazyt.tape import AccumulateGrad
from lazyt.tensor import Tensor

#: Where every object has its count of references and its class; where a dict has its size.
_COUNT, _TYPE, _SIZE = 0, 8, 16
#: Uses for which words are worth taking down.
_WORTH = 16
_KEPT_TENSOR, _KEPT_STORAGE = ("_storage", "_view"), ("node", "version", "share", "fn")


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
        "_checked", "_gradients", "_kept", "_misses", "_patience", "_tensors", "holds", "pointers",
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
        self._checked: set[tuple[type, str]] = set()
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
            yield self._slot(leaf, "grad")
            yield from self._of_kept(kept)

    def _slot(self, owner: Any, name: str) -> int:
        """The address of a slot. Raises LookupError where that is not known."""
        kind: type = type(owner)
        offset = slot_offset(kind, name)
        if (kind, name) not in self._checked:
            value = getattr(owner, name)  # which makes the dict, where that is what is asked for
            if not offset or word_at(id(owner) + offset) != id(value):
                raise LookupError(name)
            self._checked.add((kind, name))
        return id(owner) + offset

    def _attributes(self, tensor: Tensor) -> Iterator[int]:
        """A tensor's dict, and how much it holds."""
        size = id(tensor.__dict__) + _SIZE
        yield self._slot(tensor, "__dict__")
        yield size

    def _of_tensor(self, tensor: Tensor, storage: Storage, written: bool) -> Iterator[int]:
        yield id(tensor) + _TYPE
        yield from (self._slot(tensor, name) for name in ("_storage", "_view"))
        yield from self._attributes(tensor)
        yield from (self._slot(storage, name) for name in ("share", "fn", "node"))
        fn, node = storage.fn, storage.node
        if isinstance(fn, AccumulateGrad):
            yield from (self._slot(fn, name) for name in ("_extra", "post_hooks"))
            yield id(fn.post_hooks) + _SIZE
        yield from (self._slot(node, name) for name in ("form", "data", "op", "inputs"))
        if written:
            yield id(node) + _COUNT
            yield id(node.data) + _COUNT
            if isinstance(fn, AccumulateGrad) and node.inputs:
                leaf = node.inputs[0]
                yield from (self._slot(leaf, name) for name in ("op", "data"))
                yield id(leaf) + _COUNT

    def _of_kept(self, kept: Kept) -> Iterator[int]:
        tensor, storage = kept.tensor, kept._storage
        for item in (tensor, storage, kept._node, kept.buffer, kept._leaf):
            yield id(item) + _COUNT
        yield from (self._slot(tensor, name) for name in _KEPT_TENSOR)
        yield from (self._slot(storage, name) for name in _KEPT_STORAGE)
        yield self._slot(kept._node, "data")
        yield from self._attributes(tensor)
        yield id(tensor) + type(tensor).__weakrefoffset__
        if kept._fn is not None:
            yield id(kept._fn) + _COUNT
            yield self._slot(kept._fn, "_extra")


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
