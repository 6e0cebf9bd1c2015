"""``lazyt.jit``: functions captured once and replayed, safely.

The first call of a function runs as always, while the code that it runs is noted. The second is
captured: what Python's state it may read is noted with its values, what tensors it reads and writes
is watched. Further calls compare the notes, run one plan, and put results, writes and gradients in
place. When something differs the function is captured again; when it does what a replay could not
repeat, it runs as always, which is still lazy and fused, and ``why()`` tells the reason.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from threading import RLock, get_ident
from typing import TYPE_CHECKING, Any

from lazyt import extensions
from lazyt.config import config, tuned_here
from lazyt.errors import LazytError, warn
from lazyt.functional.overriding import choices, switch
from lazyt.handle.device import META
from lazyt.handle.dispatch import one_memory
from lazyt.handle.hooks import Diary, hook
from lazyt.handle.pending import keep_values, realize_nodes
from lazyt.handle.pytree import ANYTHING, Flat, Opening, build, roots
from lazyt.handle.storage import Storage, raw
from lazyt.handle.tensor import Tensor
from lazyt.ir.forms import use
from lazyt.ir.graph import Node, source_text, topological, user_position
from lazyt.plan import planning
from lazyt.plan.build import lock as build_lock
from lazyt.plan.graph_keys import number_graph, structure_of
from lazyt.plan.steps import draw
from lazyt.plan.tiers import Heat
from lazyt.runtime import events
from lazyt.runtime.cpython import forks
from lazyt.runtime.cpython.interrupts import handling
from lazyt.tracing.arguments import Changing, Values, is_gone, key_of, keys_differ
from lazyt.tracing.capture import (
    CannotTrace,
    Interrupted,
    Run,
    names_to_read,
    note_state,
    resume,
    trace_gradients_of,
    value_of,
    watch,
)
from lazyt.tracing.fast_path import MISSED, FastPath
from lazyt.tracing.fast_path_code import write_fast_path
from lazyt.tracing.frames import Frames, global_names, is_user_module
from lazyt.tracing.guards import CannotWatch, is_sparse
from lazyt.tracing.outcomes import Holders, Outcome, changes_of, open_changed
from lazyt.tracing.recompile_reasons import argument_names, describe
from lazyt.tracing.replay import Missed, Replay
from lazyt.tracing.sources import is_divided, signature
from lazyt.tracing.symbolic_numbers import Numbers, plain
from lazyt.tracing.templates import CannotReplay, lives, run_on_copies

if TYPE_CHECKING:
    from lazyt.plan.explain import Explanation


# The first call of a function runs as always, and what it leaves is computed as replays will, so
# that the capture that follows finds its plan made.


@contextmanager
def _diary() -> Iterator[Diary]:
    """A block whose writes by this thread are noted: of each storage, what it held before the
    first one."""
    thread, own = get_ident(), Diary()
    outer = hook.diaries.get(thread)
    hook.diaries[thread] = own
    try:
        yield own
    finally:
        if outer is None:
            del hook.diaries[thread]
        else:
            hook.diaries[thread] = outer
            for storage, node in own.items():
                outer.setdefault(storage, node)


def observe(function: Callable[..., Any], args: Any, kwargs: Any) -> tuple[Any, Frames, Diary]:
    """Runs the function as always; its result, which code it ran, and what it wrote to."""
    frames = Frames()
    with _diary() as diary, frames:
        result = function(*args, **kwargs)
    return result, frames, diary


def settle(
    function: Any, codes: dict[Any, dict[str, Any]], leaves: Iterable[Any], result: Any,
    diary: Diary,
) -> None:  # fmt: skip
    """Computes all that a first call left, in one graph; nothing where gradients go on outside.

    Args:
        codes: what it ran.
        leaves: what is in its arguments.
        diary: what it wrote to.
    """
    parts: list[Any] = []
    parts.extend(Flat(result, None, ANYTHING).leaves)
    if any(map(is_sparse, parts)):  # with attributes: the next call says so
        return
    storages = [part._storage for part in parts if isinstance(part, Tensor)]
    given = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
    others = [(leaf, "an argument") for leaf in leaves if not isinstance(leaf, Tensor)]
    try:
        if any(lives(storage) for storage in storages):
            return
        guards = note_state(function, codes, given, others)
    except (CannotReplay, CannotWatch):  # the next call says why
        return
    storages += [p.tensor._storage for p in guards.tensors if p.tensor is not None]
    storages = list(dict.fromkeys(storages))
    if not config.eager and not any(map(is_divided, storages)):
        _compute_like_replays(storages, diary)
    realize_nodes([value_of(storage) for storage in storages])


def _compute_like_replays(storages: Sequence[Storage], diary: Diary) -> None:
    """Computes the storages by a plan that writes new values over old ones, of copies of these;
    nothing where somebody else waits for values on the way."""
    written = [storage for storage in storages if storage in diary]
    fresh = [storage for storage in storages if storage not in diary]
    _draw_parameters([raw(storage.current()) for storage in storages])
    roots = [raw(storage.current()) for storage in (*fresh, *written)]
    olds = _old_leaves(roots, written, diary)
    pending = [n for n in dict.fromkeys(roots) if n.data is None and _bottom(n).data is None]
    wanted = [n for n in pending if 0 not in n.shape]
    owners = {
        old: wanted.index(raw(storage.current()))
        for storage, old in olds.items()
        if storage.share is None and raw(storage.current()) in wanted and old not in roots
    }
    if not wanted or _others_wait(wanted):
        return
    with _without_names(wanted):
        prepared = planning.prepare(wanted, owners)
    if prepared is None:
        return
    computed = run_on_copies(prepared, [leaf.data for leaf in prepared.leaves])
    with build_lock:
        keep_values(dict(zip(wanted, computed, strict=True)))


def _others_wait(wanted: Sequence[Node]) -> bool:
    """Whether somebody refers to pending values on the way that are worth keeping."""
    with build_lock:
        numbers, key = number_graph(wanted)
        order = list(numbers)
        kept = structure_of(numbers, key, wanted).choose(order).roots
        asked = {*wanted, *map(_bottom, wanted)}
        return any(order[i] not in asked for i in kept)


def _draw_parameters(roots: Sequence[Node]) -> None:
    with build_lock:
        numbers, key = number_graph(roots)
        order = list(numbers)
        structure = structure_of(numbers, key, roots)
        parameters = [[order[i] for i in group] for group in structure.parameters]
        del numbers, order  # what they refer to would count as in use
    draw(parameters, planning.realize)


def _old_leaves(
    roots: Sequence[Node], written: Iterable[Storage], diary: Mapping[Storage, Any]
) -> dict[Storage, Node]:
    """What is in the graph of the values that were written over. What of it is still to be drawn
    is computed first: replays find it in memory."""
    inside = set(topological(roots, _is_there))
    found = {storage: diary[storage]() for storage in written}
    olds = {storage: _bottom(node) for storage, node in found.items() if node is not None}
    olds = {storage: node for storage, node in olds.items() if node in inside}
    del inside, found  # what they refer to would count as in use
    realize_nodes([node for node in olds.values() if node.data is None])
    return olds


def _bottom(node: Node) -> Node:
    """What a value is another name for."""
    while _is_name(node):
        node = node.inputs[0]
    return node


def _is_name(node: Node) -> bool:
    """Whether it is without memory."""
    if node.data is None:
        return node.op.is_identity
    return bool(node.inputs) and node.inputs[0].data is node.data


def _is_there(node: Node) -> bool:
    return node.data is not None and not _is_name(node)


@contextmanager
def _without_names(roots: Sequence[Node]) -> Iterator[None]:
    """A block in which a value in memory is one leaf of a graph, whatever else it is called; other
    threads read no graphs meanwhile."""
    with build_lock:
        nodes = topological(roots, _is_there)
        known = [(n, n.data) for n in nodes if n.data is not None and _is_name(n)]
        del nodes
        try:
            for node, _ in known:
                node.data = None
            yield
        finally:
            for node, data in known:
                node.data = data


# Which calls of a captured function are worth a capture: those whose arguments come again.


#: Captures in a row without a replay that say that captures are of no use here.
UNUSED = 12
#: How often arguments of a kind come before they are captured then: once, or this many times where
#: another capture would have to make room.
_FULL = 4
#: Kinds of arguments that are remembered.
_REMEMBERED = 4096


class CaptureHistory:
    """Which captures were never replayed, and which kinds of arguments (shapes, types, values of
    words) came without being captured.
    """

    def __init__(self) -> None:
        self._unused = self._recaptured = 0
        self._met: dict[Hashable, int] = {}

    def replayed(self) -> None:
        """Takes note that a capture was of use."""
        self._unused = self._recaptured = 0

    def captured(self, known: bool, is_undone: bool) -> bool:
        """Takes note of a capture; False where captures are of no use at all.

        Args:
            known: there were captures for this kind of arguments, so that something else differs.
            is_undone: the function itself changed what the capture depends on.
        """
        self._unused += 1
        self._recaptured += UNUSED // _PATIENCE if is_undone else known
        return self._recaptured < UNUSED

    def is_rare(self, kind: Hashable, full: bool) -> bool:
        """Whether arguments of a kind without captures came too seldom to be captured, as far as
        is known; takes note of them.

        Args:
            kind: the kind of arguments.
            full: another capture would have to make room.
        """
        if self._unused < UNUSED:
            return False
        times = self._met.pop(kind, 0)
        if times >= (_FULL if full else 1):
            return False
        self._met[kind] = times + 1
        if len(self._met) > _REMEMBERED:
            self._met.pop(next(iter(self._met)))
        return True


# Which fast paths a captured function has, and when one is made anew.


#: Fast paths of one function; misses after which one is made anew, at most.
_MOST_FAST_PATHS, _FAST_PATH_PATIENCE = 64, 64
#: Runs of a plan for any size after which it has a fast path: some sizes never come again.
_LEAST_RUNS = 8


class FastPaths:
    """The fast paths of one captured function.

    Attributes:
        calls: their functions, first the one that is likely to fit, then those made last.

    Args:
        opening: which objects among the arguments are flattened.
    """

    def __init__(self, opening: Opening) -> None:
        self._opening = opening
        self.calls: list[Callable[..., Any]] = []
        self._known: dict[Replay, _Attempts] = {}
        self._last: Callable[..., Any] | None = None
        self._after: dict[Callable[..., Any], Callable[..., Any]] = {}

    def advance(self, call: Callable[..., Any]) -> None:
        """One of several was taken. The next to be tried is the one that was taken after it before,
        as sizes of a loop come in the same order again."""
        if self._last is not None:
            self._after[self._last] = call
        self._last = call
        likely = self._after.get(call)
        if likely is not None and likely is not self.calls[0]:
            self.calls = [likely, *(c for c in self.calls if c is not likely)]

    def forget(self, replays: Sequence[Replay]) -> None:
        """Drops the fast paths of replays that no call can have any more."""
        for replay in replays:
            self._known.pop(replay, None)
        self._list()

    def _list(self) -> None:
        found = [c.fast_path.call for c in self._known.values() if c.fast_path is not None]
        self.calls = found[::-1]
        known = set(found)
        self._after = {a: b for a, b in self._after.items() if a in known and b in known}
        self._last = self._last if self._last in known else None

    def follow(
        self, replay: Replay, shape: Any, leaves: Sequence[Any], outcome: Outcome,
        moving: Sequence[int],
    ) -> None:  # fmt: skip
        """A replay was run in general: give it a fast path, or another one, if that is worth it.

        The other arguments are those of ``write_fast_path``. While the plan may get other kernels
        soon there is none yet, and the run does not count.
        """
        if replay.is_divided:  # what it makes is put together in general only
            return
        prepared = replay.plan[0] if replay.plan is not None else None
        if prepared is not None:
            heat = None if prepared.plan is None else prepared.plan.code.heat
            is_soon = heat is not None and not (type(heat) is Heat and heat.runs >= _LEAST_RUNS)
            if prepared.plan is None or is_soon:
                return
        attempts = self._known.get(replay)
        if attempts is None:
            if len(self._known) >= _MOST_FAST_PATHS:
                self._known.pop(next(iter(self._known)))
            attempts = self._known[replay] = _Attempts()
        attempts.misses += 1
        if attempts.misses >= attempts.patience:
            attempts.misses, attempts.patience = 0, min(2 * attempts.patience, _FAST_PATH_PATIENCE)
            if attempts.fast_path is not None and attempts.fast_path.tags is not None:
                attempts.polled.update(map(id, attempts.fast_path.tags.all_changed()))
            attempts.fast_path = write_fast_path(
                replay, self._opening, shape, leaves, outcome, attempts.polled, moving
            )
        self._list()


class _Attempts:
    """How the fast paths of one replay went.

    Attributes:
        fast_path: the last one.
        polled: identities of dicts that change though nothing that matters does.
        misses: calls since it was made that it missed.
        patience: how many of them until another is made; doubles each time.
    """

    __slots__ = ("fast_path", "misses", "patience", "polled")

    def __init__(self) -> None:
        self.fast_path: FastPath | None = None
        self.polled: set[int] = set()
        self.misses = 0
        self.patience = 1


#: Captures that one function keeps; failures after which it is left alone.
_MOST, _PATIENCE = 64, 4


class CaptureError(LazytError):
    """A function that was to be captured whole (``fullgraph=True``) cannot be; says why."""


class Captured:
    """A function that is captured and replayed. Calls are those of the function.

    Attributes:
        function: what it was made from.

    Args:
        function, fullgraph: as ``jit`` takes them.
        is_silent: do not warn where the function is left alone.
    """

    _unwatched = frozenset({
        "_captures", "_changing", "_codes", "_failures", "_harmless", "_last_key", "_lock",
        "_opening", "_reasons", "_fast_paths", "_history", "fullgraph",
    })  # fmt: skip

    def __init__(
        self, function: Callable[..., Any], fullgraph: bool = False, is_silent: bool = False
    ) -> None:
        functools.update_wrapper(self, function)
        self._is_silent = is_silent
        self.function = function
        self.fullgraph = fullgraph
        self._codes: dict[Any, dict[str, Any]] = {}
        self._captures: dict[Any, list[tuple[Replay, Outcome]]] = {}
        self._harmless: set[Any] = set()  # keys of calls that may work on copies
        self._failures = 0
        self._history = CaptureHistory()
        self._reasons: list[str] = []
        self._lock = forks.renewed(RLock())
        self._opening = Opening(is_user_module)
        self._fast_paths = FastPaths(self._opening)
        self._changing = Changing()
        self._last_key: Any = None

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def of(self, function: Callable[..., Any]) -> Captured:
        """Another function, captured as this one is."""
        return type(self)(function, self.fullgraph, self._is_silent)

    def __deepcopy__(self, memo: dict[int, Any]) -> Captured:
        """Itself, as Python copies functions."""
        return self

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if hook.watcher is not None or config.eager or config.interpret or handling.now:
            # Inside of another capture it is part of that; and a handler of signals may run in the
            # middle of the very plan that a replay would run again.
            return self.function(*args, **kwargs)
        if switch.open and choices.modes:  # a mode decides what functions do
            return self.function(*args, **kwargs)
        try:
            with self._lock:
                calls = self._fast_paths.calls
                for call in calls:
                    result = call(args, kwargs)
                    if result is not MISSED:
                        if len(calls) > 1:
                            self._fast_paths.advance(call)
                        return result
            return self._call(args, kwargs)
        except Interrupted as stop:
            stopped = stop
        with self._lock:
            return resume(stopped, lambda: self.function(*args, **kwargs))

    def _call(self, args: Any, kwargs: Any) -> Any:
        """The result of a call that no fast path took. What becomes of it, in this order:

        - It runs as always, where another captured function that calls it is observed, which has to
          learn what code it runs; where the key cannot be hashed, after too many failures, or where
          a tensor whose memory NumPy sees has attributes.
        - It is replayed, by the newest capture under its key whose conditions hold (``Replay.run``;
          one that does not fit raises Missed with the reason).
        - It runs as always, where calls like it come too seldom (``_is_rare``).
        - It is observed (``_observe``), where no code of the function is known yet.
        - It is tried (``_try``), where NumPy sees memory of an argument and nobody knows yet
          whether the function may work on a copy.
        - It is captured (``_capture``), which may end in ``_fail`` with the reason.
        """
        if self._failures >= _PATIENCE or get_ident() in hook.diaries:
            return self.function(*args, **kwargs)
        with self._lock:
            flat = self._opening.flatten((args, kwargs))
            shape, leaves = flat.shape, flat.leaves
            given = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
            if any(map(is_sparse, given)):
                self._fail("a sparse tensor among the arguments has attributes of its own")
                return self.function(*args, **kwargs)
            moving = self._moving(flat)
            key = self._key(shape, leaves, moving)
            if key is None or self._failures >= _PATIENCE:  # which the key may have added to
                return self.function(*args, **kwargs)
            if use.any and any(tensor.device is META for tensor in given):
                return self.function(*args, **kwargs)
            values = Values(given)
            if any(tensor.__dict__ for tensor in values.exposed()):  # copies have none of that
                self._fail("a tensor whose memory NumPy sees has attributes of its own")
                return self.function(*args, **kwargs)
            reason = ""
            for replay, outcome in reversed(self._captures.get(key, ())):
                in_place = values.any_shown and replay.only_reads
                tensors = values.in_place() if in_place else values.tensors
                try:
                    parts = replay.run(tensors, values.leaves(), [leaves[n] for n in moving])
                except Missed as missed:
                    reason = reason or str(missed)
                    continue
                self._history.replayed()
                self._fast_paths.follow(replay, shape, leaves, outcome, moving)
                return outcome.finish(values.originals(parts, tensors), flat.values)
            if self._is_rare(key):
                return self.function(*args, **kwargs)
            if self._captures:
                reason = reason or keys_differ(key, self._last_key, self.function)
                if self._reasons[-1] != f"captured again: {reason}":
                    self._say(f"captured again: {reason}")
            if not self._codes:
                return self._observe(flat, args, kwargs)
            if values.any_shown and key not in self._harmless:
                return self._try(key, flat, args, kwargs, values.exposed())
            return self._capture(key, flat, values, args, kwargs, moving)

    def _is_rare(self, key: Any) -> bool:
        """Whether arguments of a kind come too seldom to be captured, as far as is known."""
        full = sum(map(len, self._captures.values())) >= _MOST
        if key in self._captures or not self._history.is_rare(key, full):
            return False
        reason = (
            f"not captured: none of the last {UNUSED} captures was replayed, so new arguments "
            "(shapes, or numbers in lists, dicts and objects) are captured when they come again; "
            "give numbers that change as tensors, or as arguments of their own"
        )
        if self._reasons[-1] != reason:
            self._say(reason)
        return True

    def _watched_state(self) -> Iterator[tuple[Any, Any, str]]:
        """What another capture that calls this one depends on."""
        yield vars(self), "function", "function"

    def why(self) -> list[str]:
        """What happened so far and why: captures, and reasons why calls ran as always."""
        return list(self._reasons)

    def explain(self) -> Explanation:
        """The kernels of the plan that the last capture replays, and what they take; see
        ``lazyt.explain``. Raises CaptureError where no plan is replayed."""
        captures = [replay for found in self._captures.values() for replay, _ in found]
        prepared = captures[-1].prepared if captures else None
        if prepared is None or prepared[0] is None:
            reasons = "; ".join(dict.fromkeys(self.why()))
            raise CaptureError(f"{describe(self.function)} replays no plan: {reasons}")

        if prepared[0].plan is None:  # several, with transfers between them
            return prepared[0].explain(planning.explain_plan)
        return planning.explain_plan(prepared[0].plan)

    def _say(self, reason: str) -> None:
        self._reasons.append(reason)
        name = getattr(self.function, "__qualname__", repr(self.function))
        events.record("capture", f"{name}: {reason}", source_text(user_position()))

    def _moving(self, flat: Flat) -> list[int]:
        """Which leaves are numbers to be followed through the function (``symbolic_numbers``)."""
        if extensions.needs_constants():
            return []
        try:
            found = self._changing.positions(flat.shape, flat.leaves)
        except TypeError:  # keys of a dict that cannot be compared
            return []
        if not found or flat.is_nested:
            return []
        mine = [c for c, table in self._codes.items() if not _is_ours(table)]
        return [] if any("type" in global_names(code) for code in mine) else found

    def _key(self, shape: Any, leaves: list[Any], moving: Sequence[int]) -> Any:
        """What decides which captures may fit; None where that cannot be compared."""
        parts = key_of(shape, leaves, moving)
        try:
            hash(parts)
        except TypeError:
            self._fail("the structure of an argument cannot be compared with those of other calls")
            return None
        return parts

    def _learn(self, codes: dict[Any, dict[str, Any]]) -> None:
        """Takes note of code that the function runs, with its globals."""
        self._codes.update(codes)
        self._opening.names = names_to_read(self._codes)

    def _observe(self, flat: Flat, args: Any, kwargs: Any) -> Any:
        result, frames, diary = observe(self.function, args, kwargs)
        self._learn(frames.codes)
        if frames.trouble is not None:
            self._fail(f"it {frames.trouble}")
        else:
            settle(self.function, self._codes, flat.roots(), result, diary)
        return result

    def _try(self, key: Any, flat: Flat, args: Any, kwargs: Any, exposed: list[Tensor]) -> Any:
        """Runs the function as always and notes whether it could as well work on copies of
        arguments whose memory NumPy sees: it must not write to them, return or keep views."""
        given = [leaf for leaf in flat.leaves if isinstance(leaf, Tensor)]
        others = [(v, "an argument") for v in flat.roots() if not isinstance(v, Tensor)]
        storages = [tensor._storage for tensor in exposed]
        for storage in storages:  # what NumPy wrote until now is none of the function's writes
            storage.current()
        before = [(signature(t), t._storage.memory().content) for t in exposed]
        try:
            guards = note_state(self.function, self._codes, given, others)
        except CannotWatch as error:
            self._fail(str(error))
            return self.function(*args, **kwargs)
        result = self.function(*args, **kwargs)
        returned: list[Any] = []
        returned.extend(Flat(result, None, ANYTHING).leaves)
        returned = [p for p in returned if not any(p is tensor for tensor in given)]
        try:
            kept = [value for change in changes_of(guards, given) for value in change.values]
            returned += Flat(kept, None, ANYTHING).leaves
        except CannotWatch as error:
            self._fail(str(error))
            return result
        returned = [p._storage for p in returned if isinstance(p, Tensor)]
        if before != [(signature(t), t._storage.memory().content) for t in exposed]:
            self._fail("it writes to memory that it shares with NumPy, or changes who sees it")
        elif any(one_memory(a, b) for a in returned for b in storages):
            self._fail("it returns or keeps a view of memory that it shares with NumPy")
        else:
            self._harmless.add(key)
        return result

    def _capture(
        self, key: Any, flat: Flat, values: Values, args: Any, kwargs: Any, moving: Sequence[int]
    ) -> Any:
        shape, leaves, given = flat.shape, flat.leaves, flat.is_nested
        names = argument_names(self.function, shape)
        others = [(v, n) for v, n in zip(leaves, names) if not isinstance(v, Tensor)]
        others += [(root, "an argument") for root in roots(shape)]
        called = [n for v, n in zip(leaves, names) if isinstance(v, Tensor)]
        numbers = Numbers([leaves[n] for n in moving])
        if values.any_shown and given:
            self._fail("tensors in a list or dict argument share memory with NumPy")
            return self.function(*args, **kwargs)
        if len({values.tensors[n].node for n in values.parts}) < len(values.parts):
            self._fail("two arguments are the same part of a tensor, as they need not always be")
            return self.function(*args, **kwargs)
        if values.any_shown or moving:
            tensors = iter(values.tensors)
            own = [next(tensors) if isinstance(v, Tensor) else v for v in leaves]
            for place, number in zip(moving, numbers.symbols()):
                own[place] = number
            args, kwargs = build(shape, iter(own))
        try:
            guards = note_state(self.function, self._codes, values.tensors, others)
        except CannotWatch as error:
            self._fail(str(error))
            return self.function(*args, **kwargs)
        holders = Holders(flat)
        try:
            run = watch(self.function, args, kwargs, values.tensors, guards, called, holders)
            untraced = self._trace_gradients(run, values.tensors)
        finally:
            numbers.active = False
            guards.replace(plain)
        values.write_back()
        unknown = {code: table for code, table in run.codes.items() if code not in self._codes}
        self._learn(unknown)
        changes = run.changes
        outcome = Outcome(run.result, changes, guards, holders, run.young)
        run.young.forget()
        found = outcome.leaves
        parts = [plain(part) for part in found]
        reason = run.trouble or outcome.trouble(parts, guards) or untraced
        if reason is None and any(map(is_sparse, parts)):
            reason = "a result is a sparse tensor that was there before"
        if reason is not None:
            self._fail(reason)
        elif open_changed([v for v, _ in others], changes, self._opening):
            self._say(
                "not captured: it changes an object that is an argument; such objects are compared "
                "by what is in them from now on"
            )
        elif not unknown:
            known = (called, [names[n] for n in moving])
            self._keep(key, run, values, outcome, numbers, known)
        else:  # it ran code that no notes were taken for: the next call is captured
            settle(self.function, self._codes, flat.roots(), run.result, Diary())
        final = values.originals(parts, values.tensors)
        if all(a is b for a, b in zip(final, found, strict=True)):
            return run.result
        return outcome.finish(final, flat.values)

    def _trace_gradients(self, run: Run, arguments: Sequence[Tensor]) -> str | None:
        """Notes what custom functions do with gradients; why that cannot be replayed, else None."""
        if run.trouble is None:
            try:
                trace_gradients_of(run, arguments)
            except CannotTrace as error:
                if error.had_effects:  # which another attempt would have, too
                    self._failures = _PATIENCE - 1
                return str(error)
        return None

    def _keep(
        self, key: Any, run: Run, values: Values, outcome: Outcome, numbers: Numbers,
        names: tuple[list[str], list[str]],
    ) -> None:  # fmt: skip
        parts = outcome.leaves
        try:
            replay = Replay(run, values.tensors, parts, values.parts, values.copies, numbers, names)
        except CannotReplay as error:
            self._fail(str(error))
            return
        self._drop_gone()
        known = self._captures.setdefault(key, [])
        outcome.forget()
        known.append((replay, outcome))
        self._last_key = key
        if sum(map(len, self._captures.values())) > _MOST:
            self._captures.pop(next(iter(self._captures)))
        self._failures = 0
        self._say("captured")
        undone = [c for c in run.changes if c.sort != "argument" and not c.is_simple]
        if not self._history.captured(len(known) > 1, bool(undone)):
            self._failures = _PATIENCE - 1
            reason = "what the function depends on differs at every call"
            if undone:
                reason = f"it changes {undone[0].path} at every call"
            self._fail(
                f"the last captures were never replayed, because {reason}; give numbers that "
                "change as tensors"
            )

    def _drop_gone(self) -> None:
        """Forgets captures for arguments that are no more."""
        gone = [
            replay for key in self._captures if is_gone(key) for replay, _ in self._captures[key]
        ]
        if gone:
            self._captures = {k: found for k, found in self._captures.items() if not is_gone(k)}
            self._fast_paths.forget(gone)

    def _fail(self, reason: str) -> None:
        self._failures += 1
        self._say(f"not captured: {reason}")
        if self.fullgraph:
            raise CaptureError(f"{describe(self.function)} cannot be captured: {reason}")
        if self._failures == _PATIENCE and not self._is_silent:
            warn(
                f"lazyt.jit leaves {getattr(self.function, '__qualname__', self.function)} alone: "
                f"{reason}. It runs as it would without jit."
            )


def _is_ours(table: dict[str, Any]) -> bool:
    return str(table.get("__name__")).partition(".")[0] == "lazyt"


class Tuned(Captured):
    """A captured function whose plans are tuned when they first run."""

    def _call(self, args: Any, kwargs: Any) -> Any:
        token = tuned_here.set(True)
        try:
            result = super()._call(args, kwargs)
            for leaf in Flat(result, None, ANYTHING).leaves:
                if isinstance(leaf, Tensor):
                    leaf.realize()  # later its plan would not be tuned
        finally:
            tuned_here.reset(token)
        return result


def jit(function: Any = None, *, fullgraph: bool = False) -> Any:
    """``function`` (or module) captured at its second call and replayed from then on.

    Parameters, buffers, optimizer state and random numbers are found by themselves. Numbers and
    texts that the function can read from globals, closures, attributes and arguments are compared
    before every replay; where one differs the function is captured again. A function that looks at
    values of its tensors, changes other state of Python than tensors, reads clocks, prints or draws
    random numbers elsewhere runs as always.

    Args:
        function: what to capture; without it, a decorator is returned.
        fullgraph: raise CaptureError where the function cannot be captured, instead of running it
            as always.

    Returns: a callable of the same arguments, with ``why()``: what was captured or not, and why.
    """
    if function is None:
        return functools.partial(jit, fullgraph=fullgraph)
    if not callable(function):
        raise TypeError(f"jit() takes a function or a module, not {type(function).__name__}")
    return wrap_function(function, Captured(function, fullgraph))


def wrap_function(function: Any, captured: Captured) -> Any:
    """What stands for ``function`` from now on: ``captured``, or a module that calls it."""
    nn = sys.modules.get("lazyt.nn.module")
    if nn is None or not isinstance(function, nn.Module):
        return captured
    return import_module("lazyt.subclasses.captured_modules").CapturedModule(function, captured)
