"""What the generated functions of fast paths call, and the state that they compare by compiled C.

A fast path tests every tensor that its function reaches: whose storage and value it has, who else
refers to them. Whatever it reads is a word in memory: a slot of an object, a count of references,
the size of a dict. A call records these words before it tests; if all tests pass, they would pass
at a later call with the same words, too, and need not run. Where a word belongs to an object that
may be gone, a word before it tells that it is there. ``fast_path_code`` writes the functions.

Memory. Each tensor of the call is in one of these classes:

- *Arguments*: any tensor of the right form, with memory of its own. Their buffers are looked up at
  every call.
- *Captured tensors*: those that the function finds in Python's state, the same at every call. A
  ``Snapshot`` records the words of memory that their tests read; while these words are the same,
  the quick lines run without the tests.
- *Donated memory* (``Launch.own``): a captured tensor that the plan overwrites in place; its own
  buffer where reference counts show that nobody else can see it, else a copy.
- *Spare buffers*: a written tensor that the plan does not overwrite alternates between two
  buffers; the old one is the spare of the next call where nobody else refers to it.
- *Results and gradients*: new tensors, or ``Reusable`` ones of an earlier call that nobody else
  refers to. A result that is no gradient alternates between two, as the last one is often still in
  use.
- *Cells*: one number that Python computes and the plan alone reads, in memory of its own.
- *Scratch*: one arena, kept between calls up to ``MOST_BYTES``.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from types import FunctionType, MethodType
from typing import Any

from lazyt import ops
from lazyt.functional.indexing.picking import value_range
from lazyt.functional.updates import equal_counts
from lazyt.handle.pending import realize_nodes
from lazyt.handle.pytree import Flat, Opening
from lazyt.handle.storage import Storage
from lazyt.handle.tape import AccumulateGrad
from lazyt.handle.tensor import Tensor
from lazyt.ir.dtypes import DType, float64
from lazyt.ir.graph import Node, Shape
from lazyt.runtime.cpython import dict_tags, direct
from lazyt.runtime.cpython.words import COUNT, SIZE, TYPE, Words, known, slot_address
from lazyt.runtime.memory import Buffer
from lazyt.tracing.arguments import is_part, value_of_part
from lazyt.tracing.capture import Bounds, leaf_of
from lazyt.tracing.guards import Names
from lazyt.tracing.replay import Made, Replay, is_within
from lazyt.tracing.reuse import MOST_BYTES, Reusable, attributes, finished
from lazyt.tracing.sources import signature

# Arguments of a captured call, compared by one call of compiled C with what they have to be.
#
# In Python that takes 0.2 us for each. A tensor suits that is plain, of the class and form that are
# expected, with memory of its own that no other argument has, and without history or attributes.


_OF_STORAGE = ("share", "fn", "node")


class Admission:
    """What the arguments of one fast path have to be.

    Attributes:
        admit: takes the tuple of them; True says that all suit, False says nothing.

    Args:
        examples: tensors that suit.
        others: storages that none may have, which the caller keeps.

    Raises LookupError where fields of objects are not where they are expected.
    """

    __slots__ = ("_kept", "_words", "admit")

    admit: Callable[[tuple[Any, ...]], bool]

    def __init__(self, examples: Sequence[Tensor], others: Iterable[Storage]) -> None:
        if not (known() and direct.available()):
            raise LookupError("direct calls")
        offsets: list[int] = []
        for tensor in examples:
            storage = tensor._storage
            for owner, names in (
                (tensor, ("__dict__", "_view", "_storage")),
                (storage, _OF_STORAGE),
                (storage.node, ("form",)),
            ):
                offsets += [slot_address(owner, name) - id(owner) for name in names]
        count = len(offsets) // max(len(examples), 1)
        facts = offsets[:count]
        if not examples or facts * len(examples) != offsets:
            raise LookupError("classes that differ")
        # A form is one object wherever it stands; where it were two, nothing would be admitted.
        self._kept = [(type(tensor), tensor._storage.node.form) for tensor in examples]
        each = [id(part) for pair in self._kept for part in pair]
        rest = [*map(id, others)]
        numbers = [len(examples), id(None), *facts, *each, len(rest), *rest]
        numbers = [number % (1 << 64) for number in numbers]
        self._words = (ctypes.c_uint64 * len(numbers))(*numbers)
        self.admit = direct.admitting(ctypes.addressof(self._words))


#: Uses for which words are worth recording.
_WORTH = 16


class Snapshot:
    """The words in memory that the tests of one fast path read.

    Attributes:
        words: those that were recorded last.
        is_valid: whether all tests passed when they were.
        pointers: of the plan's inputs and outputs, at that time.
        uses: calls since then that found the same words.

    Args:
        tensors: the captured ones, with their storages, and whether the fast path writes to them
            (the words are reference counts, too, then).
        gradients: leaves, with the numbers of their gradients among ``reusable``.
        reusable: tensors of earlier calls.
    """

    __slots__ = (
        "_gradients", "_misses", "_patience", "_reusable", "_tensors", "is_valid", "pointers",
        "uses", "words",
    )  # fmt: skip

    def __init__(
        self,
        tensors: Sequence[tuple[Tensor, Storage, bool]],
        gradients: Sequence[tuple[AccumulateGrad, int]],
        reusable: list[Reusable | None],
    ) -> None:
        self._tensors, self._gradients, self._reusable = tensors, gradients, reusable
        self.uses, self._misses, self._patience = 0, 0, 1
        self.words = Words(())
        self.is_valid = False
        self.pointers: list[int] = []

    def record(self) -> bool:
        """Record the words, unless that was of no use too often; whether it was done.

        References that this function has while it looks are gone when it takes the counts.
        """
        self.is_valid = False
        self._misses += 1
        if self.uses >= _WORTH:
            self._patience = 1
        if self._misses < self._patience:
            return False
        self.uses, self._misses, self._patience = 0, 0, min(2 * self._patience, 64)
        if any(self._reusable[number] is None for _, number in self._gradients):
            return False
        try:
            self.words = Words([*self._addresses()])
        except LookupError:
            self._misses, self.uses = -(1 << 60), 0
            return False
        return True

    def confirm(self, pointers: Sequence[int]) -> None:
        """All tests passed: the recorded words stand for that."""
        self.is_valid, self.pointers = True, list(pointers)

    def _addresses(self) -> Iterator[int]:
        for tensor, storage, written in self._tensors:
            yield from self._of_tensor(tensor, storage, written)
        for leaf, number in self._gradients:
            gradient = self._reusable[number]
            assert gradient is not None
            yield slot_address(leaf, "grad")
            yield from gradient.addresses()

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
    """Whether a function runs no code of the user's, who may refer to what was tested.

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
    """Whether fields of objects are where they are expected."""
    return known()


#: What a fast path returns, with nothing changed, where the call is not like the last one.
MISSED: Any = object()


class FastPath:
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


def make_reusable(
    reusable: list[Reusable | None], number: int, kind: type[Tensor], shape: Shape, dtype: DType,
    data: Buffer, flag: str | None, version: int,
) -> Reusable:  # fmt: skip
    """A new tensor, which later calls may use again unless it is large."""
    made = Reusable(kind, shape, dtype, data, flag, version)
    reusable[number] = made if data.nbytes <= MOST_BYTES else None
    return made


def is_other(storages: Sequence[Storage]) -> bool:
    """Whether all storages differ."""
    return len({id(storage) for storage in storages}) == len(storages)


def opened(shape: Any, opening: Opening, args: Any, kwargs: Any) -> Flat | None:
    """A call's arguments flattened, None where these have another shape."""
    flat = Flat((args, kwargs), opening)
    return flat if flat.shape == shape else None


#: Bytes of the largest number from Python that goes to a device with others.
MOST_IN_TRAY = 4096


class Cell:
    """Memory of one number, written again and again.

    Attributes:
        buffer: the memory.
        number: its ``value`` is the number, rounded as C rounds.
    """

    __slots__ = ("buffer", "number")

    def __init__(self, dtype: DType) -> None:
        kind = ctypes.c_double if dtype is float64 else ctypes.c_float
        self.buffer = Buffer(dtype.itemsize)
        self.number = kind.from_address(self.buffer.ptr)


def done(
    found: dict[str, Any], names: Sequence[str], leaves: dict[str, Callable[[float], Node]]
) -> list[Any]:
    """What the calls gave that came before an exception; leaves where only numbers were made."""
    return [
        leaves[name](found[name]) if name in leaves else found[name]
        for name in names
        if name in found
    ]


#: Functions that the text calls by these names.
_HELPERS = (
    "alone", "computed", "fresh", "gradient_of", "in_range", "is_other", "make_reusable", "write",
)  # fmt: skip


class Text:
    """The text of one fast path, and what is known of the call that it was written after.

    Attributes:
        replay: what the text does in less time.
        leaves: the leaves of the call's arguments.
        names: objects that the text names; ``bind`` gives an object a name.
        lines: the text so far; ``quick`` what is left of it while the ``Snapshot`` holds, if
            ``is_quick``.
        given, stores, nodes: expressions of tensors that come in, of their storages and nodes, by
            the tensors' numbers.
        arguments: numbers of the tensors that are arguments.
        captured: storages of the tensors that are the same at every call.
        first: the number that a captured tensor has the first time, by all its numbers.
        makers: fresh storages that are one plain tensor each, with the tensor.
        checked: the captured tensors, with their storages.
        gradients: fresh storages that become gradients, by the identity of the leaf.
        attached: leaves whose last gradient may be reused, by fresh storage.
        needs_holders: whether the lists, dicts and objects among the arguments are needed.
    """

    def __init__(self, replay: Replay, leaves: Sequence[Any]) -> None:
        self.replay, self.leaves = replay, leaves
        self.names = Names()
        self.bind = self.names.bind
        self.lines: list[str] = []
        self.quick: list[str] = []
        self.is_quick = dict_tags.available() and available()
        self.given: dict[int, str] = {}
        self.stores: dict[int, str] = {}
        self.nodes: dict[int, str] = {}
        self.captured: dict[int, Storage] = {}
        self.first: dict[int, int] = {}
        self.arguments = {n for n, leaf in enumerate(x for x in leaves if isinstance(x, Tensor))}
        self.makers: dict[int, Made] = {}
        self.gradients: dict[int, int] = {}
        self.attached: dict[int, AccumulateGrad] = {}
        self.checked: list[tuple[Tensor, Storage]] = []
        self.needs_holders = False
        self.names.table.update(
            __name__=__name__,  # no code of the user's, to a capture that calls it
            MISSED=MISSED, reusable=[None] * (2 * len(replay.flags)), turn=[0],
            is_part=is_part, value_of_part=value_of_part, equal_counts=equal_counts,
            **{name: globals()[name] for name in _HELPERS},
        )  # fmt: skip

    def add(self, *lines: str) -> None:
        """Appends lines of the text."""
        self.lines.extend(lines)

    def both(self, *lines: str) -> None:
        """Appends lines of the text that are needed while the snapshot holds, too."""
        self.add(*lines)
        self.quick.extend(lines)

    def require(self, *tests: str) -> None:
        """All ``tests`` have to be true; else the function ends."""
        self.add(f"if not ({' and '.join(tests)}): return MISSED")

    def parts(self) -> Iterator[Any]:
        """What the effects and the results are made of."""
        yield from (part for _, part in self.replay.effects)
        yield from self.replay.results


class Part:
    """What writes one part of a ``Text`` has at hand."""

    def __init__(self, text: Text) -> None:
        self.text, self.names, self.bind = text, text.names, text.bind
        self.lines, self.quick = text.lines, text.quick
        self.add, self.both, self.require = text.add, text.both, text.require
        self.replay, self.parts, self.leaves = text.replay, text.parts, text.leaves
        self.given, self.stores, self.nodes, self.first = (
            text.given, text.stores, text.nodes, text.first
        )  # fmt: skip
        self.arguments, self.captured, self.checked = text.arguments, text.captured, text.checked
        self.makers, self.gradients, self.attached = text.makers, text.gradients, text.attached
