"""What a capture is told while a function runs: the hooks that ``lazyt.jit`` hangs itself into.

A capture has to know which memory a function read and wrote, and which numbers Python gave it anew
(random keys, learning rates). The parts that read, write and give report here; while nobody
captures, that costs one comparison.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable, Mapping, Sequence
from threading import get_ident
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from lazyt.ir.graph import Node, source_text, user_position

if TYPE_CHECKING:
    from lazyt.handle.storage import Storage
    from lazyt.handle.tape import AccumulateGrad, GradFn

T = TypeVar("T")


class Watcher(Protocol):
    """What a capture listens to."""

    def read(self, storage: Storage) -> None:
        """``storage`` is about to be read."""

    def wrote(self, storage: Storage, value: Node) -> None:
        """``storage`` is about to be given ``value``."""

    def looked_behind(self, storage: Storage) -> None:
        """All of the memory of ``storage`` is about to be read, of which it may show a part, or the
        bits as another dtype."""

    def created(self, storage: Storage) -> None:
        """``storage`` is new."""

    def verified(self, node: Node) -> bool:
        """A factorization has to have succeeded; whether every call of the function tells."""

    def looked(self, reason: str, where: str, nodes: Sequence[Node]) -> None:
        """The program looks at the values of ``nodes``."""

    def number(self, node: Node, reason: str) -> int | None:
        """The single element of a node at which the program looks, as an integer of its bits, where
        a replay finds out by itself whether it is still the same; None elsewhere."""

    def checked(self, node: Node, bounds: tuple[tuple[int, int], tuple[int, int]]) -> None:
        """The smallest and the largest value of an index were found within bounds."""

    def communicated(self, node: Node) -> None:
        """The function has made a collective."""

    def accumulated(self, leaf: AccumulateGrad) -> None:
        """``leaf`` is about to receive a gradient."""

    def differentiated(self, order: Sequence[GradFn]) -> None:
        """A backward is about to run through these."""

    def filled(self, make: Callable[[], Node], key: Hashable) -> Node:
        """A leaf that every call makes anew; calls with an equal ``key`` share it."""

    def random_key(self, make: Callable[[], Node]) -> Node:
        """The key of a random function: a leaf that every call makes anew."""

    def whole(self, node: Node) -> Node:
        """All values that a node has, where it stands for one of many examples."""

    def each_call(self, function: Callable[[], T]) -> T:
        """Something that Python does on every call."""

    def counted(
        self, table: Mapping[str, Any], names: tuple[str, ...], value: Hashable
    ) -> Hashable:
        """Numbers are about to be computed from ``table[name]``, which is ``value`` now; gives a
        key for them that tables share whose values are equal at every call."""

    def renewed(self, storage: Storage, name: str) -> None:
        """``storage`` was given another value by something that Python does on every call.

        Args:
            name: what to call it.
        """

    @property
    def mine(self) -> bool:
        """Whether this thread is the one that is captured."""


class Counts:
    """Which of the counts that a run computes numbers from are equal.

    Counts that are equal when a function is captured may differ later: somebody edits or loads
    them, or steps with some of the parameters only. Numbers that stand for several counts are right
    only as long as ``hold``.
    """

    __slots__ = ("_tables", "_turns")

    def __init__(self) -> None:
        self._turns: dict[int, int] = {}
        self._tables: dict[Hashable, list[Mapping[str, Any]]] = {}

    def note(self, table: Mapping[str, Any], names: tuple[str, ...], value: Hashable) -> Hashable:
        """See ``Watcher.counted``. How often a table was noted before is part of the key: equal
        keys then mean that the values were equal before the run, too."""
        turn = self._turns[id(table)] = self._turns.get(id(table), -1) + 1
        key = (names, value, turn)
        self._tables.setdefault(key, []).append(table)  # which keeps it, so that its id is its own
        return key

    def shared(self) -> list[tuple[tuple[str, ...], list[Mapping[str, Any]]]]:
        """Names, and tables whose values by these names have to be equal."""
        found = [(key[0], tables) for key, tables in self._tables.items()]  # type: ignore[index]
        return [(names, tables) for names, tables in found if len(tables) > 1]


class Diary(dict["Storage", "weakref.ref[Node]"]):
    """What a thread wrote to while a function ran as always, with what it held before."""


class Hook:
    """The place of the capture that runs, if one does, and of the diaries of functions that run as
    always before they are captured. Only one captures at a time, but each thread may have a diary.

    Attributes:
        watcher: the capture that runs.
        diaries: by the identities of their threads.
    """

    __slots__ = ("diaries", "watcher")

    def __init__(self) -> None:
        self.watcher: Watcher | None = None
        self.diaries: dict[int, Diary] = {}

    def note(self, storage: Storage) -> None:
        """Takes down, in the diary of this thread, what ``storage`` holds."""
        diary = self.diaries.get(get_ident())
        if diary is not None:
            diary.setdefault(storage, weakref.ref(storage.node))


hook = Hook()
#: Gives a storage whose value ranks have parts of the node of that value from its part, as what
#: was written on either side says; ``lazyt.distributed`` registers it.
settle_parts: list[Callable[[Storage], Storage | None]] = []
#: Functions that a program registered as rules (gradients of operators), by their code: a capture
#: finds them by it, whatever way the program takes to them.
rules: weakref.WeakValueDictionary[CodeType, FunctionType] = weakref.WeakValueDictionary()


def capturing() -> Watcher | None:
    """The capture that this thread is in, if it is in one."""
    watcher = hook.watcher
    return watcher if watcher is not None and watcher.mine else None


def filled(make: Callable[[], Node], key: Hashable = None) -> Node:
    """A leaf whose value comes from Python: ``make()`` now, and again whenever a captured function
    is replayed. Leaves of one capture with an equal ``key`` are one."""
    watcher = capturing()
    return make() if watcher is None else watcher.filled(make, key)


def random_key(make: Callable[[], Node]) -> Node:
    """The key of a random function."""
    watcher = capturing()
    return make() if watcher is None else watcher.random_key(make)


def differentiated(order: Sequence[GradFn]) -> None:
    """Tells a capture what a backward is about to run through."""
    watcher = capturing()
    if watcher is not None:
        watcher.differentiated(order)


def counted(table: Mapping[str, Any], names: tuple[str, ...], value: Hashable) -> Hashable:
    """A key for numbers that are computed from ``table[name]`` of these names, ``value`` now: a
    captured function shares such numbers, and is replayed only while the values stay equal."""
    watcher = capturing()
    return value if watcher is None else watcher.counted(table, names, value)


def looks(reason: str) -> None:
    """Tells a capture that what follows depends on values, and ``reason``: at whose, and what to do
    instead."""
    watcher = capturing()
    if watcher is not None:
        watcher.looked(reason, source_text(user_position()), ())


def each_call(function: Callable[[], T]) -> T:
    """``function()`` now, and again at each replay of a captured function, in the same order.

    For state that lives in Python and not in tensors, such as counts of steps.
    """
    watcher = capturing()
    return function() if watcher is None else watcher.each_call(function)
