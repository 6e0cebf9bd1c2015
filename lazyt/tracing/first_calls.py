"""The first call of a function under ``lazyt.jit``: it runs as always, and what it leaves is
computed as replays will, so that the capture that follows finds its plan made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import get_ident
from typing import Any

from lazyt.config import config
from lazyt.handle.hooks import Diary, hook
from lazyt.handle.pending import keep_values, realize_nodes
from lazyt.handle.pytree import ANYTHING, Flat
from lazyt.handle.storage import Storage, raw
from lazyt.handle.tensor import Tensor
from lazyt.ir.graph import Node, topological
from lazyt.plan import build, planning
from lazyt.plan.graph_keys import number_graph, structure_of
from lazyt.plan.steps import draw
from lazyt.tracing.capture import note_state
from lazyt.tracing.frames import Frames
from lazyt.tracing.guards import CannotWatch
from lazyt.tracing.templates import CannotReplay, lives, run_on_copies


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
    if not config.eager:
        _compute_like_replays(storages, diary)
    realize_nodes([storage.current() for storage in storages])


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
    with build.lock:
        keep_values(dict(zip(wanted, computed, strict=True)))


def _others_wait(wanted: Sequence[Node]) -> bool:
    """Whether somebody refers to pending values on the way that are worth keeping."""
    with build.lock:
        numbers, key = number_graph(wanted)
        order = list(numbers)
        kept = structure_of(numbers, key, wanted).choose(order).roots
        asked = {*wanted, *map(_bottom, wanted)}
        return any(order[i] not in asked for i in kept)


def _draw_parameters(roots: Sequence[Node]) -> None:
    with build.lock:
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
    """Whether it has no memory of its own."""
    if node.data is None:
        return node.op.is_identity
    return bool(node.inputs) and node.inputs[0].data is node.data


def _is_there(node: Node) -> bool:
    return node.data is not None and not _is_name(node)


@contextmanager
def _without_names(roots: Sequence[Node]) -> Iterator[None]:
    """A block in which a value in memory is one leaf of a graph, whatever else it is called; other
    threads read no graphs meanwhile."""
    with build.lock:
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
