"""One run of a function, watched: what it read, what it wrote, and the graph that does the same.

A capture lets the function run as always, which builds a graph. Leaves of that graph are then
traced back to where they came from (arguments, Python's state, numbers that Python gives
anew on each call), and what the function left behind (results, writes, gradients) becomes a list of
outputs. ``lazyt.tracing.replay`` does the same again without the function.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import CodeType
from typing import Any, TypeVar

import numpy as np

from lazyt import ops
from lazyt.autograd.engine import find_variables
from lazyt.errors import LazytError
from lazyt.handle import pending
from lazyt.handle.dispatch import one_memory
from lazyt.handle.grad_mode import set_grad_enabled
from lazyt.handle.hooks import Counts, Watcher, hook, rules, settle_parts
from lazyt.handle.pending import realize_nodes
from lazyt.handle.pytree import ANYTHING, Flat
from lazyt.handle.storage import Memory, Storage, raw
from lazyt.handle.tape import AccumulateGrad, Bridge, GradFn, boundaries
from lazyt.handle.tensor import Tensor
from lazyt.ir.dtypes import bool_, float32, float64, int8, int16, int32, int64, uint8
from lazyt.ir.graph import Node, make, source_text, topological, user_position
from lazyt.ops.leaves import INPUT
from lazyt.ops.parallel.distribution import DISTRIBUTE
from lazyt.runtime.cpython import forks
from lazyt.tracing.frames import (
    Frames,
    StopTracing,
    is_user_module,
    names_of,
    readable_names,
    reads_all,
    reads_others_alone,
    texts_of,
    variable_names,
)
from lazyt.tracing.guards import CannotWatch, Guards
from lazyt.tracing.outcomes import Change, Holders, Young, changes_of
from lazyt.tracing.sources import division_of, is_divided, signature, unmarked
from lazyt.tracing.symbolic_numbers import NumberLeaf

T = TypeVar("T")
Bounds = tuple[tuple[int, int], tuple[int, int]]
#: What optimizers and schedules renew at every replay, so that it is not compared; functions that
#: read some of it, or all; functions that read what a text names.
_RENEWED = frozenset({
    "T_cur", "T_i", "_last_lr", "_step_count", "best", "cooldown_counter", "last_epoch",
    "num_bad_epochs", "param_groups", "state",
})  # fmt: skip
_READ_BY = {"get_last_lr": {"_last_lr"}, "in_cooldown": {"cooldown_counter"}}
_READ_ALL = frozenset({"get_lr", "rates", "__dict__", "vars", "__getstate__", "__reduce_ex__"})
#: Methods that read all of it.
_SAVING = frozenset({"__getstate__", "state_dict"})
_COMPREHENSIONS = frozenset({"<listcomp>", "<setcomp>", "<dictcomp>"})
_BY_TEXT = frozenset({"getattr", "attrgetter", "setattr"})
#: Dtypes of numbers that are compared before a replay: those of the same size that have their bits.
_BITS = {
    bool_: bool_, int8: int8, int16: int16, int32: int32, int64: int64, uint8: uint8,
    float32: int32, float64: int64,
}  # fmt: skip
_lock = forks.guarded(threading.RLock())


def _stop_watching() -> None:
    """A child has no thread that captures: what it does is nothing to do again."""
    if not _lock._is_owned():  # type: ignore[attr-defined]
        hook.watcher = None


forks.on_broken.append(_stop_watching)


class Recorder:
    """What the hooks report while a function runs.

    Attributes:
        guards: the notes, with which iterators they found.
        known: storages that were there before, by identity, with the number of their source.
        storages, versions: those storages, and the versions that they had.
        leaves: which source a leaf of the graph is the value of.
        parts: of sources that ranks have parts of, the storages of this rank's.
        born: storages that the function made.
        hidden: memory that sources show a part of, or the bits of as another dtype.
        calls: what Python has to do on every call, in order; those with a node fill that leaf.
        grads: leaves whose gradients are noted.
        outer: histories of tensors that were there before, with what to call the tensor.
        counts: what numbers from Python are computed from.
        checks: index nodes, and the bounds of their smallest and of their largest value.
        looks: nodes at whose values the program looked, with where, and whether they are bits of
            floats.
        collectives: what other ranks wait for, in the order in which the function made it.
        python_calls: a result of each call of Python between plans, in order.
        verifies: results of factorizations, whose last numbers are zero where they succeeded, with
            how many calls came before.
        trouble: why the run cannot be replayed; None while it can.
        stops: whether what cannot be replayed is stopped by StopTracing before it is done.
        stand_ins: leaves in the place of values that come after the run.
        activity: how many writes, gradients and leaves there were so far.
        marks: what that was at each of the calls.
    """

    def __init__(self, guards: Guards) -> None:
        self.guards = guards
        self.activity = 0
        self.marks: list[int] = []
        self.thread = threading.get_ident()
        self.frames = Frames()
        self.known: dict[int, int] = {}
        self.storages: list[Storage] = []
        self.versions: list[int] = []
        self.parts: list[Storage] = []
        self.leaves: dict[Node, int] = {}
        self.born: dict[int, Storage] = {}
        self.hidden: list[Memory] = []
        self.calls: list[tuple[Callable[[], Any], Node | None]] = []
        self.grads: set[AccumulateGrad] = set()
        self.outer: dict[GradFn, str] = {}
        self.keys: dict[Hashable, Node] = {}
        self.counts = Counts()
        self.checks: list[tuple[Node, Bounds]] = []
        self.looks: dict[Node, tuple[str, bool]] = {}
        self.collectives: list[Node] = []
        self.python_calls: list[Node] = []
        self.verifies: dict[Node, int] = {}
        self.trouble: str | None = None
        self.stops = False
        self.stand_ins: set[Node] = set()

    def add(self, storage: Storage) -> None:
        """Make ``storage``, computed by now, a source."""
        if id(storage) not in self.known:
            self._part_ways(storage)
            self.known[id(storage)] = len(self.storages)
            self.leaves.setdefault(leaf_of(storage), len(self.storages))
            for settle in settle_parts if is_divided(storage) else ():
                part = settle(storage)
                if part is not None:
                    self.known[id(part)] = len(self.storages)
                    self.parts.append(part)
            self.storages.append(storage)
            share = storage.share
            if share is not None and (share.region is not None or share.partial):
                self.hidden.append(share.memory)
            self.versions.append(storage.version_now())

    def settle(self) -> None:
        """Makes the collectives of what was written to values that ranks have parts of."""
        for number, (storage, version) in enumerate(zip(self.storages, self.versions)):
            if not is_divided(storage):
                continue
            is_same = self.leaves.get(leaf_of(storage)) == number
            if not is_same and storage.version_now() == version:
                self.refuse("it writes to this rank's part of a DTensor")

    def _part_ways(self, storage: Storage) -> None:
        """Give ``storage`` a leaf of its own where it has one with memory that is not its own, or
        a constant that the function may make as well: they are equal now, not at every call."""
        leaf, fn = leaf_of(storage), storage.fn
        other = self.leaves.get(leaf)
        is_shared = other is not None and not one_memory(storage, self.storages[other])
        if leaf.data is None or not (is_shared or leaf.op is not INPUT):
            return
        if fn is None or isinstance(fn, AccumulateGrad):
            node = ops.input_(leaf.shape, leaf.dtype, leaf.data)
            division = division_of(storage)
            storage._accept(node if division is None else make(DISTRIBUTE, (node,), division))
        elif is_shared:
            self.refuse("it reaches tensors that are one value, with gradients that go on")

    @property
    def mine(self) -> bool:
        """Whether this thread is the one that is captured."""
        return threading.get_ident() == self.thread

    def refuse(self, reason: str) -> None:
        """Note why the run cannot be replayed; the first reason stays.

        Raises StopTracing with it where ``stops`` is set.
        """
        if self.stops:
            raise StopTracing(reason)
        self.trouble = self.trouble or reason

    def read(self, storage: Storage) -> None:
        """``storage`` is about to be read."""
        if id(storage) in self.known or id(storage) in self.born:
            return
        if self.mine and not self.frames.paused:
            node = storage.node
            self.refuse(
                f"it reads a tensor ({node.dtype.name}{list(node.shape)}) that it reaches in a way "
                f"that cannot be watched ({source_text(user_position())})"
            )

    def looked_behind(self, storage: Storage) -> None:
        """All of a memory is about to be read, of which replays know what their sources show."""
        memory = storage.memory()
        if any(memory is other for other in self.hidden):
            self.refuse(
                "it reads memory of which a tensor from outside shows a part, or bits as another "
                f"dtype ({source_text(user_position())}): give it the tensor that was viewed"
            )

    def wrote(self, storage: Storage, value: Node) -> None:
        """``storage`` is about to be written to."""
        if self.stops and id(storage) in self.known:
            self.refuse("it writes to a tensor that was there before")
        self.activity += 1
        self.read(storage)

    def created(self, storage: Storage) -> None:
        """``storage`` is new; it stays alive so that its identity stays its own."""
        self.born[id(storage)] = storage

    def verified(self, node: Node) -> bool:
        """A replay looks at the value when it has computed everything, before it writes."""
        if self.stops or not self.stand_ins.isdisjoint(topological([node])):
            return False
        self.verifies[raw(node)] = len(self.calls)
        return True

    def looked(self, reason: str, where: str, nodes: Sequence[Node]) -> None:
        """The program looks at a value."""
        if nodes and all(node.size == 0 or _is_of_python(node) for node in nodes):
            return
        self.refuse(f"it looks at a value on the way ({where}: {reason})")

    def number(self, node: Node, reason: str) -> int | None:
        """The bits of a single element: a replay computes them first, and is one only where they
        are the same."""
        if self.stops or node.size != 1 or node.dtype not in _BITS:
            return None
        wide = bits_of(node)
        realize_nodes([wide])
        found = int(wide.data.as_numpy(int64, ()).item())
        self.checked(wide, ((found, found), (found, found)))
        where = source_text(user_position())
        self.looks.setdefault(wide, (f"{where}: {reason}", node.dtype.kind == "f"))
        return found

    def checked(self, node: Node, bounds: Bounds) -> None:
        """An index was found in range."""
        if self.stand_ins and not self.stand_ins.isdisjoint(topological([node])):
            self.refuse("it checks values that are computed from those that come after it")
        self.checks.append((node, bounds))

    def communicated(self, node: Node) -> None:
        """All ranks run the same collectives, whoever uses their values."""
        self.activity += 1
        self.collectives.append(node)

    def accumulated(self, leaf: AccumulateGrad) -> None:
        """A gradient goes to a leaf, which may be one that only the history of another knows."""
        variable = leaf.variable
        if self.stops and (variable is None or id(variable._storage) not in self.born):
            self.refuse("it adds to the gradient of a leaf")
        self.activity += 1
        if variable is None or leaf in self.grads or id(variable._storage) in self.born:
            return
        self.refuse("it gives a gradient to a tensor that it reaches through another's history")

    def differentiated(self, order: Sequence[GradFn]) -> None:
        """A backward runs through these. Through the history of a tensor from outside it cannot be
        replayed: the next call's tensor was made otherwise, of other values."""
        for fn in order:
            if fn in self.outer:
                self.refuse(
                    f"it differentiates through the history of {self.outer[fn]}, which was made "
                    "outside and may be made otherwise at another call: detach() it, or make it in "
                    "the function"
                )
                return

    def filled(self, make: Callable[[], Node], key: Hashable) -> Node:
        """A leaf that every call makes anew."""
        found = None if key is None else self.keys.get(key)
        if found is None:
            found = self._uncaptured(make)
            self.activity += 1
            self.calls.append((make, found))
            self.marks.append(self.activity)
            if key is not None:
                self.keys[key] = found
        return found

    def random_key(self, make: Callable[[], Node]) -> Node:
        """A leaf that every call makes anew."""
        return self.filled(make, None)

    def whole(self, node: Node) -> Node:
        """The node: it has the values that it has."""
        return node

    def each_call(self, function: Callable[[], T]) -> T:
        """Something that Python does on every call."""
        if self.stops:
            self.refuse("it does something that changes with every call")
        value = self._uncaptured(function)
        self.calls.append((function, None))
        self.marks.append(self.activity)
        return value

    def counted(
        self, table: Mapping[str, Any], names: tuple[str, ...], value: Hashable
    ) -> Hashable:
        """Numbers are computed from a table."""
        return self.counts.note(table, names, value)

    def renewed(self, storage: Storage, name: str) -> None:
        """Python gives the storage another value on every call, in the middle of the function."""
        if id(storage) in self.known:
            self.refuse(f"it can read {name}, to which Python gives another value at every call")

    def early_and_late(
        self,
    ) -> tuple[list[tuple[Callable[[], Any], bool]], list[Callable[[], Any]]]:
        """What Python does at every call, with whether that fills a leaf; and what of it comes
        when all is written, so that the writes are done if it raises."""
        early: list[tuple[Callable[[], Any], bool]] = []
        late: list[Callable[[], Any]] = []
        for (function, node), mark in zip(self.calls, self.marks, strict=True):
            if node is not None or mark < self.activity:
                early.append((function, node is not None))
            else:
                late.append(function)
        return early, late

    def _uncaptured(self, function: Callable[[], T]) -> T:
        """``function()``, whose code is not the captured function's."""
        moved = self.guards.check_iterators()
        if moved is not None:
            self.refuse(moved)
        self.frames.paused += 1
        try:
            return function()
        finally:
            self.frames.paused -= 1
            self.guards.renew_iterators()


def _is_of_python(node: Node) -> bool:
    """Whether a value is computed from nothing but numbers and sizes that Python gave, as those of
    ``arange(x.ndim)`` are: it is the same while the guards hold."""
    return all(n.inputs or n.op.name in ("const", "iota") for n in topological([node]))


def bits_of(node: Node) -> Node:
    """The only element of a node as a number of int64: of floats, their bits."""
    single = ops.reshape(node, ())
    if node.dtype.kind == "f":
        single = ops.apply("bitcast", single, dtype=_BITS[node.dtype])
    return ops.cast(single, int64)


def leaf_of(storage: Storage) -> Node:
    """The leaf that holds a storage's computed value, below gradient marks; with its history where
    it has one."""
    node = storage.current()
    if storage.fn is not None and not isinstance(storage.fn, AccumulateGrad):
        return node
    if is_divided(storage):
        for settle in settle_parts:
            settle(storage)
        node = storage.node
    while node.op.is_identity or node.op is DISTRIBUTE:
        node = node.inputs[0]
    return node


def value_of(storage: Storage) -> Node:
    """What a plan computes of a storage's value: this rank's part where ranks have parts."""
    node = storage.current()
    return raw(node) if division_of(storage) is None else unmarked(storage.node).inputs[0]


@dataclass
class Run:
    """What one watched run left.

    Attributes:
        result: what the function returned.
        recorder: what the hooks heard.
        nodes: values of the arguments that are tensors, before.
        looks: signatures of those and of the guarded tensors, before.
        guards: the notes, taken before.
        changes: what of Python's state the function changed.
        young: what it made.
        codes: code that ran, with its globals.
        gradients: what its custom functions do with gradients.
        trouble: why it cannot be replayed; None when it can.
    """

    result: Any
    recorder: Recorder
    nodes: list[Node]
    looks: list[Any]
    guards: Guards
    changes: list[Change]
    young: Young
    codes: dict[Any, dict[str, Any]]
    trouble: str | None
    gradients: Mapping[GradFn, TracedGradient] = field(default_factory=dict)


@contextmanager
def watching(recorder: Watcher) -> Iterator[None]:
    """A block that ``recorder`` hears of, in which nobody else captures."""
    with _lock:
        hook.watcher = recorder
        try:
            yield
        finally:
            hook.watcher = None


def watch(
    function: Callable[..., Any],
    args: Any,
    kwargs: Any,
    arguments: Sequence[Tensor],
    guards: Guards,
    names: Sequence[str],
    holders: Holders,
) -> Run:
    """Runs the function and notes what a replay has to do.

    Args:
        arguments: the tensors among its arguments.
        guards: notes of Python's state, with all tensors that it can read.
        names: what ``arguments`` are called.
        holders: lists, dicts and objects among them.
    """
    tensors = [*arguments, *(p.tensor for p in guards.tensors if p.tensor is not None)]
    with _lock:
        realize_nodes([value_of(tensor._storage) for tensor in tensors])
        recorder = Recorder(guards)
        paths = [*names, *(p.path for p in guards.tensors if p.tensor is not None)]
        for tensor, path in zip(tensors, paths, strict=True):
            recorder.add(tensor._storage)
            for fn in (tensor._storage.fn, tensor._fn):
                if fn is not None and not isinstance(fn, AccumulateGrad):
                    recorder.outer.setdefault(fn, path)
            fn, view = tensor._storage.fn, tensor._view
            if view is not None:
                view.forget()
            if isinstance(fn, AccumulateGrad) and (view is None or view.root):
                recorder.grads.add(fn)
            if tensor._storage.exposure() is not None:
                recorder.refuse(
                    f"{path} shares memory with NumPy, or its address was asked for: give it as an "
                    "argument, or clone() it"
                )
        nodes = [tensor.node for tensor in arguments]
        looks = [signature(tensor) for tensor in tensors]
        old, pending.budget.nodes = pending.budget.nodes, -1  # every new storage is reported
        young = Young()
        young.begin()
        try:
            with watching(recorder), recorder.frames:
                result = function(*args, **kwargs)
                recorder.settle()
                young.end()  # before the collector is back
            guards.note_environment(recorder.frames.environment)
        finally:
            pending.budget.nodes = old
    trouble, changes = _changes(recorder, arguments, holders)
    codes = recorder.frames.codes
    return Run(result, recorder, nodes, looks, guards, changes, young, codes, trouble)


def _changes(
    recorder: Recorder, arguments: Sequence[Tensor], holders: Holders
) -> tuple[str | None, list[Change]]:
    """Why a run cannot be replayed, and what of Python's state and its arguments it changed."""
    ran = recorder.frames.trouble
    trouble = recorder.trouble if ran is None else f"it {ran}"
    if trouble is not None:
        return trouble, []
    frames, streams = recorder.frames, recorder.guards.streams
    if frames.next_of is not None and streams:
        taken = f"it takes the next element of an iterator{frames.next_of}"
        return f"{taken}, maybe of {streams[0]}", []
    try:
        changes = changes_of(recorder.guards, arguments)
        _refuse_renewed(changes, recorder.calls)
        return None, [*changes, *holders.changes()]
    except CannotWatch as error:
        return str(error), []


def _refuse_renewed(
    changes: Sequence[Change], calls: Sequence[tuple[Callable[[], Any], Node | None]]
) -> None:
    """Raises CannotWatch where Python does something at every call that is no leaf (steps of
    optimizers and schedules), and the function has changed state that is watched: that may be what
    such a step renews, which gives another value at another call."""
    changed = [change for change in changes if not change.is_simple]
    if changed and any(node is None for _, node in calls):
        raise CannotWatch(f"it changes {changed[0].path}, as steps of an optimizer do")


# What custom functions and checkpoints do with gradients, traced after a run.
#
# The graph of a captured function ends at a boundary wherever the user's code decides how gradients
# go on: a ``torch.autograd.Function`` has its ``backward``, a checkpoint calls its function again.
# To replay both passes that code runs once more when the function is captured, on leaves in the
# place of the gradients that will arrive. What it computes of them becomes part of the graph.


#: How often a gradient can be differentiated: gradients of custom functions that call custom
#: functions in their ``backward`` are traced down to here.
_DEPTH = 3


class CannotTrace(Exception):
    """The gradient cannot be replayed; the text says why.

    Attributes:
        had_effects: whether tracing it changed what the user's code can see.
    """

    def __init__(self, text: str, had_effects: bool = False) -> None:
        super().__init__(text)
        self.had_effects = had_effects


@dataclass
class TracedGradient:
    """What one grad_fn of the user's does with gradients.

    Attributes:
        fn: the grad_fn.
        cotangents: leaves for what arrives at its outputs, None for one that nobody uses.
        pairs: nodes of the graph with the gradients that go on there.
        below: the nodes that ``fn`` gives gradients to.
        refusal: why those gradients have no gradient in turn; "" where they have one.
        is_checkpoint: whether it computes values again, which are not to be stored.
    """

    fn: GradFn
    cotangents: list[Node | None]
    pairs: list[tuple[Node, Node]]
    below: list[Node]
    refusal: str
    is_checkpoint: bool


def trace_gradients(roots: Sequence[Node], recorder: Recorder) -> dict[GradFn, TracedGradient]:
    """The gradients of all custom functions and checkpoints that ``roots`` depend on.

    Raises CannotTrace where one does what a replay could not repeat.
    """
    found: dict[GradFn, TracedGradient] = {}
    if not any(root.needs_grad for root in roots):
        return found
    level = _boundaries_of(roots)
    for depth in range(_DEPTH):
        new = {fn: outputs for fn, outputs in level.items() if fn not in found}
        if not new:
            break
        with _tracing(recorder):
            for fn, outputs in new.items():
                found[fn] = _traced(fn, outputs, recorder, depth)
        level = _boundaries_of([grad for fn in new for _, grad in found[fn].pairs])
    return found


def _boundaries_of(roots: Sequence[Node]) -> dict[GradFn, dict[int, Node]]:
    """The grad_fns at which the graph of ``roots`` ends, with the nodes of their outputs."""
    found: dict[GradFn, dict[int, Node]] = {}
    for node in find_variables(roots):
        known = boundaries.get(node)
        if known is not None:
            found.setdefault(known[0], {}).setdefault(known[1], node)
    return found


@contextmanager
def _tracing(recorder: Recorder) -> Iterator[None]:
    """A block whose code is watched like that of the captured function, and stopped before it does
    what a replay could not repeat."""
    old, pending.budget.nodes = pending.budget.nodes, -1  # every new storage is reported
    recorder.stops = recorder.frames.stops = True
    try:
        with watching(recorder), recorder.frames:
            yield
    finally:
        recorder.stops = recorder.frames.stops = False
        pending.budget.nodes = old


def _traced(fn: GradFn, outputs: dict[int, Node], recorder: Recorder, depth: int) -> TracedGradient:
    if fn.refusal:
        return TracedGradient(fn, [], [], fn.below(), fn.refusal, False)
    if not (fn.runs_python or isinstance(fn, Bridge)):
        raise CannotTrace("hooks or new leaves stand in its graph")
    name = fn.name()
    if depth == _DEPTH - 1:
        text = f"a captured function was differentiated more than {depth} times through {name}"
        return TracedGradient(fn, [], [], fn.below(), text, False)
    cotangents: list[Node | None] = [None] * (max(outputs) + 1)
    for index, node in outputs.items():
        cotangents[index] = _stand_in(node, recorder)
    refusal = ""
    try:
        try:
            pairs = _advance(fn, cotangents, True)
        except LazytError:  # what it does cannot be differentiated again
            refusal = f"the gradient of {name} cannot be differentiated"
            pairs = _advance(fn, cotangents, False)
    except StopTracing as stop:
        raise CannotTrace(f"in the gradient of {name}, {stop}") from None
    except Exception as error:
        raise CannotTrace(
            f"the gradient of {name} raises {type(error).__name__} when it is traced ({error})"
        ) from error
    return TracedGradient(fn, cotangents, pairs, fn.below(), refusal, fn.computes_again)


def _advance(
    fn: GradFn, cotangents: Sequence[Node | None], enabled: bool
) -> list[tuple[Node, Node]]:
    with fn.rehearsal(), set_grad_enabled(enabled):
        return fn.advance([*cotangents])


def _stand_in(like: Node, recorder: Recorder) -> Node:
    """A leaf of the same type as ``like``, full of ones."""
    ones = ops.broadcast_to(ops.constant(1, like.dtype), like.shape)
    realize_nodes([ones])
    node = ops.input_(like.shape, like.dtype, ones.data)
    recorder.stand_ins.add(node)
    return node


def trace_gradients_of(run: Run, arguments: Sequence[Tensor]) -> None:
    """Notes what the user's code does with gradients of what a run left. Raises CannotTrace."""
    parts: list[Any] = []
    parts.extend(Flat(run.result, None, ANYTHING).leaves)
    parts.extend(Flat([c.values for c in run.changes], None, ANYTHING).leaves)
    known = run.recorder.known
    made = [p._storage for p in parts if isinstance(p, Tensor) and id(p._storage) not in known]
    # No gradient goes on from what a backward of the function itself has freed.
    made = [storage for storage in made if storage.fn is not None and not storage.fn.dead]
    with watching(run.recorder):  # so that values stay what they were made from
        roots = [storage.current() for storage in made]
    run.gradients = trace_gradients(roots, run.recorder)
    if not run.gradients:
        return
    before = {(c.sort, c.path, *map(id, c.values)) for c in run.changes}
    try:
        for change in changes_of(run.guards, arguments):
            if (change.sort, change.path, *map(id, change.values)) not in before:
                raise CannotTrace(f"the gradient of a custom function changes {change.path}", True)
    except CannotWatch as error:
        raise CannotTrace(str(error), True) from error


def note_state(
    function: Any,
    codes: dict[Any, dict[str, Any]],
    arguments: Sequence[Tensor],
    rest: Sequence[tuple[Any, str]],
) -> Guards:
    """Notes of everything that code among ``codes``, starting from ``function``, can read.

    Args:
        arguments: the tensors among its arguments.
        rest: its other arguments, each with how to call it.

    Raises CannotWatch.
    """
    if any(_draws(code, table) for code, table in codes.items()):
        raise CannotWatch("it uses numpy.random, whose numbers are not lazyt's")
    guards = Guards(readable_names(codes, _users(codes)), is_user_module, _mentioned(codes))
    for number, tensor in enumerate(arguments):
        guards.note_argument(number, tensor)
    for code, table in codes.items():
        guards.note_globals(table, code)
    known = [(rules[code], code.co_qualname) for code in codes if code in rules]
    guards.start([(function, "the function"), *rest, *known])
    made = [c for c in codes if c.co_freevars and not _is_made_anew(c)]
    unknown = [c for c in made if not _reached(c, guards.codes)]
    if unknown:
        raise CannotWatch(
            f"it runs {unknown[0].co_qualname}, a closure that it reaches in a way that cannot be "
            "watched"
        )
    return guards


def _mentioned(codes: dict[Any, dict[str, Any]]) -> frozenset[str]:
    """Attributes of optimizers and schedules that the user's code may read by itself.

    The ``get_lr`` of a schedule of the user's is what every replay calls anew, so that what it
    mentions does not count where nobody else mentions it.
    """
    ours = _users(codes)
    # What ``copy`` reads of an optimizer goes through its ``__getstate__``, which would be known.
    mine = [c for c in ours if not _is_in_method(c, "get_lr") and c.co_filename != copy.__file__]
    found = set(names_of(mine)) - {"__dict__"}
    for code in mine:  # functions that are made in it are among these if they ran
        if "__dict__" in code.co_names and not reads_others_alone(
            code, codes[code], "lazyt.optim", _RENEWED
        ):
            found.add("__dict__")
    found -= variable_names(mine) & _RENEWED  # what such a variable holds is compared as it is
    if found & _BY_TEXT:
        by_name = [c for c in mine if c.co_name in ("__getattr__", "__getattribute__")]
        found |= texts_of([c for c in mine if c not in by_name])
        found |= texts_of(by_name) - {"__dict__"}  # which they compare with the name they get
    for name in found & _READ_BY.keys():
        found |= _READ_BY[name]
    saved = [c for c in codes if c.co_name in _SAVING and c not in ours]
    if found & _READ_ALL or any(str(codes[c]["__name__"])[:11] == "lazyt.optim" for c in saved):
        found |= _RENEWED
    return frozenset(found)


def _users(codes: dict[Any, dict[str, Any]]) -> list[Any]:
    """Those that are the user's."""
    return [c for c, t in codes.items() if str(t.get("__name__")).split(".")[0] != "lazyt"]


def names_to_read(codes: dict[Any, dict[str, Any]]) -> frozenset[str] | None:
    """Names of attributes that code can read; None where that may be any."""
    found = readable_names(codes, _users(codes))
    return None if reads_all(found) else found


def _is_in_method(code: CodeType, name: str) -> bool:
    return any(part.endswith(f".{name}") for part in code.co_qualname.split(".<locals>."))


def _is_made_anew(code: CodeType) -> bool:
    """Whether nobody else can change the closure of such code: comprehensions run where they are
    made, and ``dataclasses`` wrote the other."""
    if code.co_name in _COMPREHENSIONS:
        return True
    return code.co_filename == "<string>" and "__create_fn__." in code.co_qualname


def _draws(code: Any, table: dict[str, Any]) -> bool:
    """Whether code can reach NumPy's global random numbers, which no profiler reports."""
    for name in code.co_names:
        value = table.get(name)
        if value is np.random or (value is np and "random" in code.co_names):
            return True
        if isinstance(getattr(value, "__self__", None), np.random.RandomState):
            return True
    return False


def _reached(code: Any, known: set[Any]) -> bool:
    """Whether ``code`` is one of ``known`` or is made by one of them."""
    if code in known:
        return True
    stack = list(known)
    while stack:
        for item in stack.pop().co_consts:
            if hasattr(item, "co_code"):
                if item is code:
                    return True
                stack.append(item)
    return False


# Replays that are broken off by an exception: the function is run, as far as it comes itself.
#
# What Python does at every call (schedules, random keys) a replay does before it writes anything.
# Where that raises, the function itself is run: it gets what was done already, in order, and meets
# the exception at the place where it comes from, with everything before it written. So it is where
# a factorization fails that a replay has computed.


Calls = Sequence[tuple[Callable[[], Any], bool]]


class Interrupted(Exception):
    """A replay came to an exception, with nothing written yet.

    Attributes:
        calls: what a replay does before it writes, with whether it fills a leaf.
        done: what those calls gave that came before the exception.
        error: what was raised; None where a factorization failed after all of it.
    """

    def __init__(self, calls: Calls, done: Sequence[Any], error: Exception | None) -> None:
        super().__init__(str(error))
        self.calls = calls
        self.done = list(done)
        self.error = error


def run_calls(calls: Calls) -> list[Any]:
    """What the calls of a replay give, of which some fill leaves. Raises Interrupted."""
    done: list[Any] = []
    try:
        for function, _ in calls:
            done.append(function())
    except Exception as error:
        raise Interrupted(calls, done, error) from None
    return done


def resume(stop: Interrupted, run: Callable[[], Any]) -> Any:
    """The result of ``run()``, the function as always, which meets the exception on its way."""
    done = [v for v, (f, _) in zip(stop.done, stop.calls) if not isinstance(f, NumberLeaf)]
    own = stop.error is not None and not isinstance(stop.calls[len(stop.done)][0], NumberLeaf)
    with watching(_Resumed(done, stop.error if own else None)):
        return run()


class _Resumed:
    """Gives a function, in order, what was done on its behalf, and then the exception."""

    def __init__(self, done: Sequence[Any], error: Exception | None) -> None:
        self._done = list(reversed(done))
        self._error = error
        self._keys: dict[Hashable, Any] = {}
        self._counts = Counts()
        self._thread = threading.get_ident()

    @property
    def mine(self) -> bool:
        """Whether this thread is the one that resumes."""
        return threading.get_ident() == self._thread

    def _next(self, function: Callable[[], Any]) -> Any:
        if self._done:
            return self._done.pop()
        error, self._error = self._error, None
        if error is not None:
            raise error
        return function()

    def filled(self, make: Callable[[], Node], key: Hashable) -> Node:
        """A leaf that was made already, or is made now."""
        found: Node | None = None if key is None else self._keys.get(key)
        if found is None:
            found = self._next(make)
            if key is not None:
                self._keys[key] = found
        return found

    def random_key(self, make: Callable[[], Node]) -> Node:
        """A leaf that was made already, or is made now."""
        return self.filled(make, None)

    def each_call(self, function: Callable[[], Any]) -> Any:
        """Something that was done already, or is done now."""
        return self._next(function)

    def counted(
        self, table: Mapping[str, Any], names: tuple[str, ...], value: Hashable
    ) -> Hashable:
        """Numbers that were one when the function was captured are one."""
        return self._counts.note(table, names, value)

    def renewed(self, storage: Storage, name: str) -> None:
        """Nothing."""

    def whole(self, node: Node) -> Node:
        """The node."""
        return node

    def read(self, storage: Storage) -> None:
        """Nothing."""

    def wrote(self, storage: Storage, value: Node) -> None:
        """Nothing."""

    def looked_behind(self, storage: Storage) -> None:
        """Nothing."""

    def created(self, storage: Storage) -> None:
        """Nothing."""

    def verified(self, node: Node) -> bool:
        """False: the value is looked at."""
        return False

    def looked(self, reason: str, where: str, nodes: Sequence[Node]) -> None:
        """Nothing."""

    def number(self, node: Node, reason: str) -> int | None:
        """None: nothing is watched."""
        return None

    def checked(self, node: Node, bounds: tuple[tuple[int, int], tuple[int, int]]) -> None:
        """Nothing."""

    def communicated(self, node: Node) -> None:
        """Nothing."""

    def accumulated(self, leaf: AccumulateGrad) -> None:
        """Nothing."""

    def differentiated(self, order: Sequence[GradFn]) -> None:
        """Nothing."""
