"""Work that is written down once, inside of a block, and done again on the same tensors.

``lazyt.jit`` replays functions, which have arguments and results. A block has neither: what it
reads are the tensors that were there before, and what it leaves are the tensors that are still
there after it. Both keep their identity, and a replay gives those that were written or made in the
block the values that follow from what the others hold then.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, TypeVar
from weakref import WeakSet

from lazyt import ops
from lazyt.errors import DeviceError
from lazyt.handle import pending
from lazyt.handle.dispatch import one_memory
from lazyt.handle.grad_mode import no_grad
from lazyt.handle.hooks import hook
from lazyt.handle.storage import Storage, raw
from lazyt.handle.tape import AccumulateGrad, GradFn
from lazyt.ir.dtypes import int64
from lazyt.ir.forms import place_of
from lazyt.ir.graph import Node
from lazyt.tracing.capture import leaf_of, watching
from lazyt.tracing.templates import prepare

T = TypeVar("T")
Bounds = tuple[tuple[int, int], tuple[int, int]]


class WorkRecorder:
    """Hears what a block does to tensors, between ``begin`` and ``end``."""

    def __init__(self) -> None:
        self._thread = threading.get_ident()
        self._stack = ExitStack()
        self.leaves: dict[Node, Storage] = {}
        self.known: dict[int, Storage] = {}
        self.before: list[Node] = []
        self.born: WeakSet[Storage] = WeakSet()
        self.calls: list[tuple[Callable[[], Any], Node | None]] = []
        self.keys: dict[Hashable, Node] = {}
        self.checks: dict[tuple[Node, Bounds], None] = {}

    def begin(self) -> None:
        """Start listening."""
        self._stack.enter_context(watching(self))
        old, pending.budget.nodes = pending.budget.nodes, -1  # every new storage is reported
        self._stack.callback(setattr, pending.budget, "nodes", old)

    def end(self) -> None:
        """Stop listening."""
        self._stack.close()

    def undo(self) -> None:
        """Tensors from outside get back the values that they had: nothing was done yet."""
        with no_grad():
            for storage, leaf in zip(self.known.values(), self.before, strict=True):
                if leaf_of(storage) is not leaf:
                    storage.write(leaf, None)

    @property
    def mine(self) -> bool:
        """Whether this thread is the one that is recorded."""
        return threading.get_ident() == self._thread

    def read(self, storage: Storage) -> None:
        """A tensor from outside is computed first: its value is where the work begins."""
        if id(storage) in self.known or storage in self.born or not self.mine:
            return
        hook.watcher = None
        try:
            pending.realize_nodes([storage.current()])
            leaf = leaf_of(storage)
            if leaf in self.leaves:  # equal values are one node now, and need not be later
                storage._accept(ops.input_(leaf.shape, leaf.dtype, leaf.data))
                leaf = leaf_of(storage)
        finally:
            hook.watcher = self
        self.known[id(storage)] = storage
        self.before.append(leaf)
        self.leaves[leaf] = storage

    def wrote(self, storage: Storage, value: Node) -> None:
        """What is written over is read, too: its place is part of the work."""
        self.read(storage)

    def looked_behind(self, storage: Storage) -> None:
        """Raises DeviceError for memory from outside that is shown in part or as another dtype."""
        share = storage.share
        if share is None or (share.region is None and not share.partial):
            return
        if any(one_memory(storage, known) for known in self.known.values()):
            raise DeviceError(
                "operation not permitted when stream is capturing: it reads memory that was made "
                "before as another dtype, or beyond the part that a tensor shows"
            )

    def created(self, storage: Storage) -> None:
        """New memory, which is the block's where this thread made it."""
        if self.mine:
            self.born.add(storage)

    def verified(self, node: Node) -> bool:
        """False: the value is looked at."""
        return False

    def looked(self, reason: str, where: str, nodes: Sequence[Node]) -> None:
        """Raises DeviceError: the work is not done yet."""
        raise DeviceError(
            f"operation not permitted when stream is capturing: it looks at a value ({where}: "
            f"{reason}), and the work of a graph is done when it is replayed"
        )

    def number(self, node: Node, reason: str) -> int | None:
        """None: the work is not done yet."""
        return None

    def checked(self, node: Node, bounds: Bounds) -> None:
        """Indices are checked before each replay."""
        self.checks[node, bounds] = None

    def communicated(self, node: Node) -> None:
        """Raises DeviceError: a graph of a device's work waits for no other rank."""
        raise DeviceError(
            "operation not permitted when stream is capturing: a collective, for which this rank "
            "waits for others"
        )

    def accumulated(self, leaf: AccumulateGrad) -> None:
        """Gradients are tensors like others."""

    def differentiated(self, order: Sequence[GradFn]) -> None:
        """Backwards are work like any other."""

    def filled(self, make: Callable[[], Node], key: Hashable) -> Node:
        """A leaf that every replay makes anew."""
        found = None if key is None else self.keys.get(key)
        if found is None:
            found = make()
            self.calls.append((make, found))
            if key is not None:
                self.keys[key] = found
        return found

    def random_key(self, make: Callable[[], Node]) -> Node:
        """Every replay draws other numbers."""
        return self.filled(make, None)

    def whole(self, node: Node) -> Node:
        """The node itself."""
        return node

    def counted(
        self, table: Mapping[str, Any], names: tuple[str, ...], value: Hashable
    ) -> Hashable:
        """Each count has numbers of its own: a replay cannot be refused when they differ."""
        return (value, len(self.calls))

    def renewed(self, storage: Storage, name: str) -> None:
        """Nothing."""

    def each_call(self, function: Callable[[], T]) -> T:
        """Something that Python does at every replay."""
        value = function()
        self.calls.append((function, None))
        return value


class RecordedWork:
    """What a recorder heard, ready to be done again. Nothing of it is done by recording it.

    Args:
        recorder: after its end.
        place: the device that the work is on.

    Raises DeviceError for library calls and copies between devices.
    """

    def __init__(self, recorder: WorkRecorder, place: str) -> None:
        self._calls = recorder.calls
        known = list(recorder.known.values())
        fresh = [s for s in recorder.born if not any(one_memory(s, k) for k in known)]
        fresh = [s for s in fresh if place_of(s.node.form) == place]
        with watching(recorder):  # so that values stay what they were made from
            now = [leaf_of(storage) for storage in known]
            changed = [n for n, leaf in enumerate(recorder.before) if now[n] is not leaf]
            old = [known[n] for n in changed]
            roots = [raw(s.current()) for s in (*old, *fresh)]
        # Replays change what lives: that one of its tensors is gone is no reason to fail.
        self._targets = [WeakSet([storage]) for storage in (*old, *fresh)]
        self._prepare(roots, recorder)
        self._first = True

    def _prepare(self, roots: Sequence[Node], recorder: WorkRecorder) -> None:
        origins: dict[Node, tuple[str, Any]] = {
            leaf: ("source", storage) for leaf, storage in recorder.leaves.items()
        }
        filled = [node for _, node in self._calls if node is not None]
        origins.update({node: ("call", number) for number, node in enumerate(filled)})
        self._types = [root.type for root in roots]
        self._main = _planned(roots, origins)
        extremes: list[Node] = []
        self._bounds: list[Bounds] = []
        for node, bounds in recorder.checks:
            if node.size and (node.inputs or node in recorder.leaves):
                wide, axes = ops.cast(node, int64), range(len(node.shape))
                extremes += [ops.reduce_(kind, wide, axes) for kind in ("min", "max")]
                self._bounds.append(bounds)
        self._checks = _planned(extremes, origins)

    def replay(self) -> None:
        """Do the work. Raises IndexError with an index out of range, and what the work raises."""
        if self._first:  # what Python did when it was recorded is this one's
            self._first = False
            filled = [node for _, node in self._calls if node is not None]
        else:
            done = [(function(), node) for function, node in self._calls]
            filled = [value for value, node in done if node is not None]
        if self._bounds:
            self._check(filled)
        buffers = _run(self._main, filled)
        with no_grad():
            for targets, kind, data in zip(self._targets, self._types, buffers, strict=True):
                for storage in targets:
                    storage.write(ops.input_(*kind, data), None)

    def _check(self, filled: Sequence[Node]) -> None:
        found = _run(self._checks, filled)
        values = [int(data.as_numpy(int64, ()).item()) for data in found]
        for low, high, bounds in zip(values[::2], values[1::2], self._bounds, strict=True):
            (low_least, low_most), (high_least, high_most) = bounds
            if not (low_least <= low <= low_most and high_least <= high <= high_most):
                raise IndexError(
                    f"values from {low} to {high} are in another range than when the graph was "
                    f"captured ({low_least} to {high_most})"
                )


def _planned(roots: Sequence[Node], origins: dict[Node, tuple[str, Any]]) -> Any:
    """A plan with where its inputs and the roots come from. Raises DeviceError."""
    found = prepare(roots, origins, {})
    if found is None:
        raise DeviceError(
            "operation not permitted when stream is capturing: a call of the CPU's matrix library,"
            " or a copy between devices"
        )
    return found


def _run(prepared: Any, filled: Sequence[Node]) -> list[Any]:
    """The buffers of a plan's roots."""
    plan, inputs, outputs = prepared
    storages = [value for kind, value in (*inputs, *outputs) if kind == "source"]
    pending.realize_nodes([storage.current() for storage in storages])

    def buffer(kind: str, value: Any) -> Any:
        if kind == "source":
            return leaf_of(value).data
        return (filled[value] if kind == "call" else value).data

    computed = [] if plan is None else plan.run([buffer(*origin) for origin in inputs])
    return [computed[o[1]] if o[0] == "output" else buffer(*o) for o in outputs]
