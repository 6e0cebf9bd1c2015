"""Replays: what a captured function did, done again on other values without running its code.

Where no gradient leaves the function, a replay runs one plan, or several with calls of matrix
routines, of Python or of other ranks between them, and puts its buffers in place. Where gradients
go on outside (a forward pass alone, say), or where the graph has loops of the graph, it builds the
graph again over the new leaves: lazy and differentiable like any other.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from lazyt import ops
from lazyt.functional.indexing.picking import value_range, within
from lazyt.functional.random.generators import Generator, generator_of, returning
from lazyt.functional.updates import equal_counts
from lazyt.handle import tape
from lazyt.handle.dispatch import one_memory
from lazyt.handle.grad_mode import no_grad
from lazyt.handle.pending import realize_nodes
from lazyt.handle.storage import Storage, raw
from lazyt.handle.tape import AccumulateGrad, GradFn, record_view
from lazyt.handle.tensor import Tensor
from lazyt.handle.views import View
from lazyt.ir.dtypes import int64
from lazyt.ir.graph import Node, Type, make, topological
from lazyt.ops.parallel.distribution import DISTRIBUTE
from lazyt.runtime.memory import Buffer
from lazyt.tracing.capture import (
    Bounds,
    Interrupted,
    Run,
    leaf_of,
    run_calls,
    value_of,
    watching,
)
from lazyt.tracing.guards import StateTest
from lazyt.tracing.recompile_reasons import aliases_differ, tensor_differs
from lazyt.tracing.reuse import own_buffer
from lazyt.tracing.sources import GuardedTensor, division_of, is_divided, signature
from lazyt.tracing.symbolic_numbers import NumberLeaf, Numbers, is_symbolic, recipe_of
from lazyt.tracing.templates import (
    CannotReplay,
    CannotSplit,
    Joint,
    Origin,
    Plan,
    Template,
    compute,
    lives,
    node_of,
    origins_of,
    prepare,
    refuse_changed,
    refuse_wholes,
    saved_by,
    template,
    written_by,
)
from lazyt.transforms.partition.partition import localized

# What a replay has to know of values before it may begin: indices, divisors, checked arguments.
#
# A captured function looked at the smallest and largest value of an index and went on in a way that
# is right within certain bounds. Where the index is an input, or is picked from one, the input's
# values are looked at before each replay; where it is computed from inputs, a small plan computes
# its extremes. A check of values (``functional.value_checks``) is a computed number that has to be
# 1. What is computed from random numbers is computed twice: the generators go back in between.


#: What a check of values, 1 where it holds, has to be.
ONE = within(1, 1)


def is_within(low: int, high: int, bounds: Bounds) -> bool:
    """Whether a smallest and a largest value are within their bounds."""
    lowest, highest = bounds
    return lowest[0] <= low <= lowest[1] and highest[0] <= high <= highest[1]


def _is_one_within(bounds: Bounds, value: int) -> bool:
    return is_within(value, value, bounds)


class IndexChecks:
    """The checks of one replay.

    Attributes:
        inputs: origins whose values have to be within bounds.
        sources: numbers of the sources that are looked at.
        computed: what is found out by computing, None where nothing is.

    Args:
        run: the watched run.
        origins: where its leaves come from.
        roots: what a replay computes.

    Raises CannotReplay where an index is computed from numbers that Python gives anew, except
    random ones and arguments, and for looks that would take too long to repeat.
    """

    def __init__(self, run: Run, origins: dict[Node, Origin], roots: Sequence[Node]) -> None:
        inputs: dict[tuple[Origin, Bounds], None] = {}
        indices: list[tuple[Node, Bounds]] = []
        refuse_looks(run, origins, roots)
        fills = [make for make, filled in run.recorder.calls if filled is not None]
        recorder = run.recorder
        calls = [*recorder.collectives, *recorder.python_calls]
        for node, _ in recorder.checks if calls else ():
            lowers = {n.op.lower for n in topological([node], lambda n: n in origins)}
            if "collective" in lowers:
                raise CannotReplay("it checks a value that other ranks send")
            if "python" in lowers:
                raise CannotReplay("it looks at a value that the Python of an operator computes")
        checks = [*run.recorder.checks, *[(node, ONE) for node in verified_before(run)]]
        for node, bounds in dict.fromkeys(checks):
            leaf = _picked_from(node, bounds, origins)
            if leaf is not None:
                kind, place = origins[leaf]
                if kind != "call":
                    inputs[origins[leaf], bounds] = None
                elif isinstance(make := fills[place], NumberLeaf):
                    make.require(functools.partial(_is_one_within, bounds))
            elif node.inputs:
                indices.append((node, bounds))
        self.inputs = list(inputs)
        self.sources = {number for (kind, number), _ in inputs if kind == "source"}
        self.computed: ComputedChecks | None = None
        if indices:
            self.computed = ComputedChecks(indices, run, origins)
            self.sources |= self.computed.sources

    def hold(self, found: dict[str, Any], storages: Sequence[Storage]) -> bool:
        """Whether they hold for the nodes in ``found``, of each kind of place."""
        for origin, bounds in self.inputs:
            if not is_within(*value_range(node_of(origin, found)), bounds):
                return False
        return self.computed is None or self.computed.hold(found, storages)


def verified_after(run: Run) -> list[Node]:
    """The factorizations that a replay looks at when it has computed all, before it writes. If one
    has failed the function is run, which gets what Python has done already. So all of that has to
    come before them; raises CannotReplay between collectives."""
    verifies, calls = run.recorder.verifies, run.recorder.calls
    if verifies and (run.recorder.collectives or run.recorder.python_calls):
        raise CannotReplay("it checks factorizations between collectives or calls of Python")
    return [*verifies] if min(verifies.values(), default=0) == len(calls) else []


def verified_before(run: Run) -> list[Node]:
    """Of the others, 1 where they succeed: they are computed before Python does anything."""
    if verified_after(run):
        return []
    flags = []
    for node in run.recorder.verifies:
        lead = node.shape[:-1]
        starts, sizes = (*(0,) * len(lead), node.shape[-1] - 1), (*lead, 1)
        last = ops.slice_(node, starts, sizes, (1,) * len(node.shape))
        fine = ops.apply("eq", last, ops.constant(0, last.dtype))
        flags.append(ops.cast(ops.reduce_("min", fine, range(len(sizes))), int64))
    return flags


class ComputedChecks:
    """Checks of values that are computed from a replay's inputs.

    Attributes:
        inputs: which inputs, in the order in which ``hold_of`` takes them; None where they are not
            all that it takes.
        sources: numbers of the sources among them.

    Args:
        indices: nodes with the bounds of their smallest and their largest values.
        run: the watched run.
        origins: where its leaves come from.
    """

    def __init__(
        self, indices: Sequence[tuple[Node, Bounds]], run: Run, origins: dict[Node, Origin]
    ) -> None:
        flags = [node for node, bounds in indices if bounds == ONE and not node.shape]
        others = [(node, bounds) for node, bounds in indices if bounds != ONE or node.shape]
        roots = [node for index, _ in others for node in _extremes(index)]
        self._bounds = [bounds for _, bounds in others]
        if flags:
            flag = functools.reduce(lambda a, b: ops.apply("mul", a, b), flags)
            roots += [flag, flag]
            self._bounds.append(ONE)
        self._calls, self._generators = _calls_before(roots, run, origins)
        self._template: Template | None = None
        self._plan = prepare(roots, origins, {})
        if self._plan is None:
            self._template = template(roots, origins, run, False)
            used = [(kind, value) for kind, value in self._template.entries if kind != "op"]
        else:
            used = [*self._plan[1], *self._plan[2]]
        self.sources = {number for kind, number in used if kind == "source"}
        self.inputs: list[Origin] | None = None
        if self._plan is not None and not self._calls:
            known = [origin for origin in used if origin[0] in ("source", "part")]
            self.inputs = list(dict.fromkeys(known))

    def hold(self, found: dict[str, Any], storages: Sequence[Storage]) -> bool:
        """Whether they hold for the nodes in ``found``, of each kind of origin."""
        if self._calls:
            with returning(self._generators):
                done = [function() for function, _ in self._calls]
            fills = [value for value, (_, is_leaf) in zip(done, self._calls) if is_leaf]
            found = {**found, "call": fills}
        if self._plan is not None:
            return self._is_fine([node_of(o, found).data for o in self._plan[1]], found)
        assert self._template is not None
        nodes = self._template.build(found, storages)
        realize_nodes(nodes)
        return self._are_within([node.data for node in nodes])

    def hold_of(self, *nodes: Node) -> bool:
        """Whether they hold for the nodes of ``inputs``; not, where one is still to be computed."""
        if any(node.data is None for node in nodes):
            return False
        assert self._plan is not None and self.inputs is not None
        found: dict[str, Any] = {"source": {}, "part": {}}
        for (kind, number), node in zip(self.inputs, nodes, strict=True):
            found[kind][number] = node
        return self._is_fine([node_of(o, found).data for o in self._plan[1]], found)

    def _is_fine(self, buffers: list[Buffer], found: dict[str, Any]) -> bool:
        assert self._plan is not None
        prepared, _, outputs = self._plan
        computed = [] if prepared is None else prepared.run(buffers)
        return self._are_within(
            [
                computed[value] if kind == "output" else node_of((kind, value), found).data
                for kind, value in outputs
            ]
        )

    def _are_within(self, buffers: Sequence[Buffer]) -> bool:
        values = [int(data.as_numpy(int64, ()).item()) for data in buffers]
        return all(map(is_within, values[::2], values[1::2], self._bounds))


#: Looks are repeated before a replay that take up to this share of its work, or this many elements.
_SHARE, _ELEMENTS = 8, 1 << 16


def refuse_looks(run: Run, origins: dict[Node, Origin], roots: Sequence[Node]) -> None:
    """Raises CannotReplay where the function looks at values that are most of the work, which
    would be done twice, and at floats that are others at every call."""
    looks = run.recorder.looks
    for node, (where, is_float) in looks.items():
        leaves = topological([node], lambda n: n in origins) if is_float else ()
        if any(_changes(origins[leaf], run) for leaf in leaves if leaf in origins):
            raise CannotReplay(f"it looks at a value on the way ({where})")
    work = _work([*looks], origins) if looks else 0.0
    if work > _ELEMENTS and work * _SHARE > _work(roots, origins):
        where, _ = next(reversed(looks.values()))
        raise CannotReplay(
            f"it looks at a value on the way ({where}), which is much of its work to find out"
        )


def _changes(origin: Origin, run: Run) -> bool:
    """Whether a value is expected to be another one at each call."""
    kind, number = origin
    state = {id(p.tensor._storage) for p in run.guards.tensors if p.tensor is not None}
    return kind != "source" or id(run.recorder.storages[number]) not in state


def _work(roots: Sequence[Node], origins: dict[Node, Origin]) -> float:
    """About how many elements are gone through to compute nodes."""
    found = 0.0
    for node in topological(roots, lambda n: n in origins):
        if node in origins or not node.inputs or node.op.is_movement or node.op.is_identity:
            continue
        sizes = [item.size for item in node.inputs]
        found += max(node.size, *sizes)
        if len(sizes) > 1 and node.op.name == "contract":
            found += (float(sizes[0]) * sizes[1] * node.size) ** 0.5
    return found


def _picked_from(node: Node, bounds: Bounds, origins: dict[Node, Origin]) -> Node | None:
    """The leaf that an index is, or is picked from, where that can be looked at instead."""
    leaf, picked = node, False
    while leaf not in origins and (leaf.op.is_movement or leaf.op.name == "gather"):
        picked = picked or leaf.op.name == "gather"
        leaf = leaf.inputs[0]
    if leaf not in origins:
        return None
    if picked:  # all of the leaf is in range, whatever is picked
        if bounds[0] != bounds[1]:
            return None
        realize_nodes([leaf] if leaf.data is None else [])
        if not is_within(*value_range(leaf), bounds):
            return None
    return leaf


def _extremes(node: Node) -> Sequence[Node]:
    """The smallest and the largest value of a computed index."""
    axes = range(len(node.shape))
    return [ops.cast(ops.reduce_(kind, node, axes), int64) for kind in ("min", "max")]


def _calls_before(
    roots: Sequence[Node], run: Run, origins: dict[Node, Origin]
) -> tuple[list[tuple[Callable[[], Any], bool]], list[Generator]]:
    """What Python does at each replay up to the last leaf that ``roots`` are computed from, with
    whether it fills a leaf, and the generators that this draws from or moves.

    Raises CannotReplay where it does other things: they cannot be done twice.
    """
    leaves = [n for n in topological(roots, lambda n: n in origins) if n in origins]
    needed = {node for node in leaves if origins[node][0] == "call"}
    calls = run.recorder.calls
    last = max([n for n, (_, node) in enumerate(calls) if node in needed], default=-1)
    taken = calls[: last + 1]
    generators: dict[int, Generator] = {}
    for function, _ in taken:
        generator = generator_of(function)
        if generator is not None:
            generators[id(generator)] = generator
        elif not isinstance(function, NumberLeaf):
            raise CannotReplay(
                "it checks values, or computes an index, from numbers that Python gives anew at "
                "each call"
            )
    return [(function, node is not None) for function, node in taken], [*generators.values()]


# What results of a captured function have of each other's tapes: a replay makes their grad_fns
# anew, and a backward through one result must free what another one needs, as without ``jit``.


#: The name of a grad_fn that saved values, and the numbers of the results that depend on it.
Part = tuple[str, tuple[int, ...]]


def parts_of(results: Sequence[Storage], sources: Sequence[Storage]) -> list[Part]:
    """One part for all grad_fns that saved values below the same results.

    ``sources``: what was there before, whose grad_fns stay their own.
    """
    outside = {storage.fn for storage in sources if storage.fn is not None}
    users: dict[GradFn, list[int]] = {}
    for number, storage in enumerate(results):
        seen: set[GradFn] = set(outside)
        stack = [storage.fn]
        while stack:
            fn = stack.pop()
            if fn is None or fn in seen or isinstance(fn, AccumulateGrad):
                continue
            seen.add(fn)
            stack.extend(fn.parents)
            if fn.reads_saved:
                users.setdefault(fn, []).append(number)
    found: dict[tuple[int, ...], str] = {}
    for fn, numbers in users.items():
        if (results[numbers[0]].fn, len(numbers)) != (fn, 1):  # a result's own stands for itself
            found.setdefault(tuple(numbers), type(fn).__name__)
    return [(name, numbers) for numbers, name in found.items()]


def has_hooks(fns: Sequence[GradFn | None], sources: Sequence[Storage]) -> bool:
    """Whether hooks or retained gradients stand between grad_fns and ``sources``."""
    seen: set[GradFn] = {storage.fn for storage in sources if storage.fn is not None}
    stack = [*fns]
    while stack:
        fn = stack.pop()
        if fn is None or fn in seen or isinstance(fn, AccumulateGrad):
            continue
        if fn._extra is not None and fn._extra.interferes:
            return True
        seen.add(fn)
        stack.extend(fn.parents)
    return False


def join_parts(parts: Sequence[Part], fns: Sequence[GradFn | None]) -> None:
    """Let the grad_fns of results have their parts."""
    for name, numbers in parts:
        users = [fn for fn in (fns[n] for n in numbers) if fn is not None]
        below = dict.fromkeys(p for fn in users for p in fn.parents if p is not None)
        if users and below:
            part = record_view(name, next(iter(below)))
            part.parents = tuple(below)
            part.__class__ = _part_type(name)
            for fn in users:
                fn.parents = (*fn.parents, part)


@functools.cache
def _part_type(name: str) -> type[GradFn]:
    """The class of grad_fns that stand for others of a name, which need what they saved."""
    return type(name, (GradFn,), {"__slots__": (), "rule": "a"})


def has_failed(kind: Type, data: Buffer) -> bool:
    """Whether a factorization says so in its last number, for any matrix."""
    return bool(data.as_numpy(kind.dtype, kind.shape)[..., -1].any())


class Missed(Exception):
    """The state is another one than when the function was captured; the text says how."""


class Made:
    """How a replay makes one tensor.

    Attributes:
        kind: its class.
        source: the source whose memory it shows, -1 for new memory.
        number: of the new memory, or of the tensor itself where the function gave back one of
            those that it was given; else -1.
        view: how it looks at its memory.
        versions: None; of a tensor without history over the memory of a source that has one, as
            ``detach()`` gives, -1, and as ``.data`` gives the writes that its own count has.
    """

    __slots__ = ("kind", "number", "source", "versions", "view")

    def __init__(
        self, tensor: Tensor, source: int, number: int, versions: int | None = None
    ) -> None:
        self.kind = type(tensor)
        self.source = source
        self.number = number
        self.view = tensor._view
        self.versions = versions

    def make(self, given: Sequence[Tensor], old: Sequence[Storage], new: Sequence[Storage]) -> Any:
        """The tensor."""
        if self.source >= 0 and self.number >= 0:
            return given[self.number]
        tensor: Tensor = object.__new__(self.kind)
        tensor._storage = old[self.source] if self.source >= 0 else new[self.number]
        tensor._view = None
        if self.versions is not None:
            own = self.versions >= 0
            tensor._storage = tensor._storage.fork(own)
            if own:
                tensor._storage.touch(self.versions)
        if self.view is not None:
            kept = self.view
            view = View(kept.shape, kept.strides, kept.offset, kept.steps, kept.name)
            view.root, view.detached, view.multiple = kept.root, kept.detached, kept.multiple
            fn, version = tensor._storage.fn, tensor._storage.version_now()
            view.version = version if self.source >= 0 else kept.version
            if fn is not None and not kept.root and not kept.detached:
                whole = tensor._storage.node
                index = tape.output_number(fn, whole) if fn.several else 0
                moves = tape.Moves(kept.steps, whole.shape, whole.dtype, index, 0, view.arranged)
                view.fn = tape.record_view(kept.name, fn, moves)
                view.made_for, view.made_at = fn, version
            tensor._view = view
        return tensor


class Computed:
    """A number of the result that is calculated from numbers among the arguments."""

    __slots__ = ("recipe",)

    def __init__(self, recipe: Callable[[], Any]) -> None:
        self.recipe = recipe


def _alias(value: Tensor, storages: Sequence[Storage]) -> Made | None:
    """How a tensor is made that shares all of a source's memory, and has no history; else None."""
    share = value._storage.share
    if share is None or share.region is not None or share.partial or value._storage.fn is not None:
        return None
    for number, storage in enumerate(storages):
        if storage.share is not None and storage.share.memory is share.memory:
            same = share.versions is storage.share.versions
            plain = storage.share.region is None and storage.node.type == value._storage.node.type
            return Made(value, number, -1, -1 if same else share.versions.count) if plain else None
    return None


def _writes(run: Run) -> list[int]:
    """How often each memory was written."""
    before = zip(run.recorder.storages, run.recorder.versions, strict=True)
    return [storage.version_now() - version for storage, version in before]


class Replay:
    """What replaces a captured function.

    Attributes:
        guards: notes of Python's state, which must hold.
        state: compares them.
        alive: whether results have gradients that go on outside.
        is_divided: whether ranks have parts of some of the values.
        late: what Python does once all is done: what it raises comes after the writes.

    Args:
        run: the watched run.
        arguments: the tensors among the function's arguments.
        leaves: the parts of its result, tensors and others.
        parts: numbers of arguments that are parts of larger tensors.
        copies: memory that stands for memory which NumPy sees.
        numbers: the numbers among the arguments that were followed.
        names: what the tensors among the arguments are called, and what those numbers are.

    Raises CannotReplay.
    """

    _joint: Joint | None = None
    _may_split = True  # into two plans, as far as is known

    def __init__(
        self,
        run: Run,
        arguments: Sequence[Tensor],
        leaves: Sequence[Any],
        parts: Sequence[int],
        copies: Sequence[Storage],
        numbers: Numbers,
        names: tuple[Sequence[str], Sequence[str]],
    ) -> None:
        recorder = run.recorder
        self._groups = _groups_of(run)
        self.numbers, self.guards, self.counted = numbers, run.guards, recorder.counts.shared()
        self.parts, places = list(parts), run.guards.tensors
        self.captured = [p for p in places if p.tensor is not None]
        given = [*arguments, *(p.tensor for p in self.captured if p.tensor is not None)]
        self._paths = [*names[0], *(place.path for place in self.captured)]
        self._number_names = names[1]
        refuse_changed(run, given)
        self._alike = _alike(given)
        storages = [tensor._storage for tensor in given]
        self.holders = [storages.index(storage) for storage in recorder.storages]
        self._fixed = [given[n]._storage for n in parts]
        refuse_wholes(run, self._fixed)
        self.calls, self.late = recorder.early_and_late()
        self._fresh: list[Storage] = []
        self._known: dict[int, Made] = {}
        self.results = [self._describe(value, run, given) for value in leaves]
        put = [(c.target, c.values[0]) for c in run.changes if c.is_simple]
        self.effects = [(place, self._describe(value, run, given)) for place, value in put]
        self.state = StateTest(run.guards, [change.target for change in run.changes])
        self.flags = [None if s.fn is None else type(s.fn).__name__ for s in self._fresh]
        self.ages, self.counts = [s.version_now() for s in self._fresh], _writes(run)
        self._saved = [saved_by(s.fn, recorder, self._fresh) for s in self._fresh]
        self.alive = any(lives(s) for s in self._fresh)
        self._parts = self._parts_of(leaves, recorder.storages) if self.alive else []
        roots = self._roots_of(run)
        self.verifies = len(roots) - len(self._fresh) - len(self.written)
        if any(recorder.storages[i] in (*self._fixed, *copies) for i in self.written):
            raise CannotReplay("it writes to an argument that shares memory")
        origins = origins_of(run)
        origins.update({run.nodes[n]: ("part", n) for n in parts})
        realize_nodes([node for node in origins if node.data is None])
        self.checks = IndexChecks(run, origins, roots)
        self.types = [node.type for node in roots]
        self.prepared = None if self.alive else self._prepare(roots, origins, run)
        if self.prepared is None:
            self._template = template(roots, origins, run, self.alive)
            used = [v for kind, v in self._template.entries if kind == "source"]
        else:
            used = [v for kind, v in (*self.prepared[1], *self.prepared[2]) if kind == "source"]
        self.used = sorted({*used, *self.written, *self.checks.sources})
        if any(recorder.storages[i] in self._fixed for i in self.used):
            raise CannotReplay("it reads the tensor that an argument is a part of")
        self.is_divided = any(map(is_divided, (*recorder.storages, *self._fresh)))
        self._forget()

    def _roots_of(self, run: Run) -> list[Node]:
        """What a replay computes: fresh results, new values of what is written, and what it looks
        at before it writes. Of values that ranks have parts of it is this rank's part."""
        recorder = run.recorder
        with watching(recorder):  # so that values stay what they were made from
            self.written = written_by(run)
            news = [recorder.storages[n] for n in self.written]
            self.divisions = [division_of(s) for s in (*self._fresh, *news)]
            roots = [s.current() if self.alive else value_of(s) for s in self._fresh]
            roots += map(value_of, news)
            roots += verified_after(run)
            roots, self._collectives = _without_localize(roots, recorder.collectives)
        if self.alive and any(map(is_divided, (*recorder.storages, *self._fresh))):
            raise CannotReplay("ranks have parts of its values, whose gradients go on outside")
        return roots

    def _forget(self) -> None:
        """Lets go of what only making a replay needs."""
        self._fresh, self._fixed, self._known, self._collectives = [], [], {}, []
        self.guards.let_go()

    def _prepare(self, roots: Sequence[Node], origins: dict[Node, Any], run: Run) -> Plan | None:
        """The plan, see ``prepare``, which has computed the captured call's results. New values may
        be written over the old ones of the same memory, where no result is the old one."""
        storages = run.recorder.storages
        news = roots[len(self.flags) :]
        owners: dict[Node, Node] = {}
        for leaf, (kind, number) in origins.items():
            # Nothing is written where a factorization fails.
            if self.verifies:
                break
            if kind == "source" and number in self.written and leaf not in roots:
                new = news[self.written.index(number)]
                whole = storages[number].share is None and division_of(storages[number]) is None
                if whole and new.type == leaf.type:
                    owners[leaf] = new
        noted = [*self._collectives, *run.recorder.python_calls]
        plan = prepare(roots, origins, owners, noted)
        if plan is not None:
            if self._groups:
                from lazyt.plan.control import collectives

                collectives.take(run.recorder.collectives)
            compute(plan, roots, origins)
        elif any(division is not None for division in self.divisions):
            raise CannotReplay("ranks have parts of what it makes, by steps that have no plan")
        return plan

    def _describe(self, value: Any, run: Run, given: Sequence[Tensor]) -> Any:
        """A part of the result: how a tensor is made, or any other value as it is."""
        if not isinstance(value, Tensor):
            return Computed(recipe_of(value)) if is_symbolic(value) else value
        found = self._known.get(id(value))
        if found is None:
            found = self._known[id(value)] = self._origin(value, run, given)
        return found

    def _origin(self, value: Tensor, run: Run, given: Sequence[Tensor]) -> Made:
        storage = value._storage
        number = run.recorder.known.get(id(storage))
        if any(storage is part for part in run.recorder.parts):
            raise CannotReplay("it returns this rank's part of a DTensor that was there before")
        if number is not None:
            whole = next((i for i, t in enumerate(given) if t is value), -1)
            if whole < 0 and (value._fn is not None or storage in self._fixed):
                raise CannotReplay("it returns a view of an argument or of a tensor from outside")
            return Made(value, number, whole)
        if id(storage) not in run.recorder.born:
            raise CannotReplay("it returns a tensor that it reaches in a way not to be watched")
        if storage.share is not None and storage.share.memory.exposure is not None:
            raise CannotReplay("it returns a tensor that shares memory with NumPy")
        if storage not in self._fresh:
            found = _alias(value, run.recorder.storages)
            if found is not None:
                return found
            if any(one_memory(storage, s) for s in (*run.recorder.storages, *self._fresh)):
                raise CannotReplay(
                    "it returns a tensor that shares memory with another one, but not its history"
                )
            self._fresh.append(storage)
        return Made(value, -1, self._fresh.index(storage))

    @property
    def only_reads(self) -> bool:
        """Whether a run has read what it needs when it is over: all results that are no arguments
        have memory of their own."""
        prepared, _, outputs = self.prepared or (None, (), ())
        if prepared is None or prepared.plan is None:
            return False
        plan, parts = prepared.plan, [*self.results, *(part for _, part in self.effects)]
        if plan.may_change or plan.launcher is not None:
            return False
        results = plan.code.program.results
        own = all(kind == "output" and results[n] >= 0 for kind, n in outputs)
        return own and all(p.source < 0 or p.number >= 0 for p in parts if isinstance(p, Made))

    # ------------------------------------------------------------------ running

    def counts_are_equal(self) -> bool:
        """Whether counts that share a number, such as those of an optimizer's steps, still do."""
        return all(equal_counts(tables, names) for names, tables in self.counted)

    def run(
        self, arguments: Sequence[Tensor], parts: dict[int, Node], numbers: Sequence[Any]
    ) -> list[Any]:
        """Does what the function did; returns the leaves of its result.

        Args:
            arguments: the tensors among the arguments.
            parts: the values of those that are parts of larger tensors.
            numbers: what the numbers that are followed are now.

        Raises Missed, with nothing changed, when the state is another one, and Interrupted, with
        nothing written, where Python raises an exception.
        """
        if not self.numbers.hold(numbers):
            raise Missed(self.numbers.difference(numbers, self._number_names))
        reason = self.state.broken(arguments)
        if reason is not None:
            raise Missed(reason)
        if self._groups:
            from lazyt.runtime.ranks import groups

            if not self._groups <= groups.groups.keys():
                raise Missed("a group of ranks was destroyed")
        if not self.counts_are_equal():
            raise Missed("counts of steps that were equal differ, or lead to other numbers")
        given = list(arguments)
        for place in self.captured:
            given.append(_current(place, arguments))
        alike = _alike(given)
        if alike != self._alike:
            raise Missed(aliases_differ(alike, self._alike, self._paths))
        storages = [given[i]._storage for i in self.holders]
        if len({id(s) for s in storages}) != len(storages):
            raise Missed("tensors that had memory of their own share it now")
        for number in parts:
            if any(storages[i] is arguments[number]._storage for i in self.written):
                raise Missed("it writes to the tensor that an argument is a part of")
        late = [value_of(storages[i]) for i in self.used]
        realize_nodes([node for node in late if node.data is None])
        sources = {i: leaf_of(storages[i]) for i in self.used}
        found: dict[str, Any] = {"source": sources, "part": parts}
        if not self.checks.hold(found, storages):
            raise Missed("values that are checked are in another range, or wrong")
        done = run_calls(self.calls)
        found["call"] = [value for value, (_, fills) in zip(done, self.calls) if fills]
        del late
        new, nodes = self._compute(found, storages, given)
        if not self._succeeded(nodes[len(self.written) :]):
            raise Interrupted(self.calls, done, None)
        results = self._finish(given, storages, new, nodes)
        for function in self.late:
            function()
        return results

    def _succeeded(self, nodes: Sequence[Node]) -> bool:
        """Whether factorizations have come to an end; ``nodes``: their results."""
        realize_nodes([node for node in nodes if node.data is None])
        return not any(has_failed(node.type, node.data) for node in nodes)

    def _compute(
        self, found: dict[str, Any], storages: Sequence[Storage], given: Sequence[Tensor]
    ) -> tuple[list[Storage], list[Node]]:
        """The fresh results, and the new values of what is written."""
        first, last = len(self.flags), len(self.types)
        joint = None
        if self.prepared is not None:
            buffers = self._run_plan(self.prepared, found, storages)
        elif (joint := self._joint_for(found, storages, given)) is not None:
            buffers = self._run_plan(joint.plan, found, storages)
        else:
            nodes = self._template.build(found, storages)
            if not self.alive:
                realize_nodes([n for n in dict.fromkeys(nodes) if n.data is None])
            return self._storages(nodes[:first], given), nodes[first:]
        if joint is not None:
            new = joint.forward(buffers, found, storages)
        else:
            fresh = [self._value(n, data) for n, data in enumerate(buffers[:first])]
            new = self._storages(fresh, given)
        return new, [self._value(n, data) for n, data in enumerate(buffers[first:last], first)]

    def _value(self, number: int, data: Buffer) -> Node:
        """A value that a plan has computed, or the one that ranks have parts of."""
        node = ops.input_(*self.types[number], data)
        division = self.divisions[number] if number < len(self.divisions) else None
        return node if division is None else make(DISTRIBUTE, (node,), division)

    @property
    def plan(self) -> Plan | None:
        """The plan that a call runs; None where it builds a graph."""
        return self.prepared if self._joint is None else self._joint.plan

    @property
    def joint(self) -> Joint | None:
        """The two plans, where gradients go on outside and there are any."""
        return self._joint

    def attach(
        self, buffers: Sequence[Any], storages: Sequence[Storage], calls: Sequence[Node]
    ) -> list[Storage]:
        """The fresh results of two plans, the first of which has computed ``buffers``."""
        assert self._joint is not None
        sources = {number: leaf_of(storages[number]) for number in self._joint.sources}
        found = {"source": sources, "part": {}, "call": calls}
        new = self._joint.forward(buffers, found, storages)
        self._tell(storages, new)
        return new

    def _joint_for(
        self, found: dict[str, Any], storages: Sequence[Storage], given: Sequence[Tensor]
    ) -> Joint | None:
        """The plans of forward and backward, where gradients go on outside and there are any."""
        if not self.alive or not self._may_split or tape.anomaly.enabled:
            return None
        for tensor in given:  # its own history is one that the graph does not tell of
            if tensor._view is not None and not tensor._view.root and tensor._fn is not None:
                return None
        if self._joint is None:
            try:
                written = () if self.verifies else self.written
                self._joint = Joint(self._template, found, storages, self.flags, written)
            except CannotSplit:
                self._may_split = False
                return None
        joint = self._joint
        return joint if not joint.is_graph_wanted and joint.fits(found) else None

    def _run_plan(
        self, prepared: Plan, found: dict[str, Any], storages: Sequence[Storage]
    ) -> list[Buffer]:
        """The buffers of the roots of a plan."""
        plan, inputs, outputs = prepared
        computed: list[Buffer] = []
        if plan is not None:
            buffers = [node_of(origin, found).data for origin in inputs]
            for place in plan.overwritten:
                storage = storages[inputs[place][1]]
                marked = isinstance(storage.fn, AccumulateGrad)
                # ``found`` refers to the leaf, ``buffers`` to its memory.
                buffers[place] = own_buffer(storage, (not marked, marked, 1))[0]
            computed = plan.run(buffers)
        return [
            computed[value] if kind == "output" else node_of((kind, value), found).data
            for kind, value in outputs
        ]

    def _finish(
        self, given: list[Tensor], old: list[Storage], new: list[Storage], nodes: list[Node]
    ) -> list[Any]:
        self._tell(old, new)
        versions = [s.version_now() + count for s, count in zip(old, self.counts)]
        with no_grad():
            for number, node in zip(self.written, nodes):
                old[number].write(raw(node), None)
                division_of(old[number])  # this rank's part, which the program may have, is written
        for storage, version in zip(old, versions):  # as many writes as there were
            counted = version - storage.version_now()  # less where writes are silent
            storage.touch(max(0, counted) if is_divided(storage) else counted)
        made: dict[int, Tensor] = {}

        def value_of(part: Any) -> Any:
            if isinstance(part, Computed):
                return part.recipe()
            if not isinstance(part, Made):
                return part
            if id(part) not in made:
                made[id(part)] = part.make(given, old, new)
            return made[id(part)]

        for where, part in self.effects:
            assert where.put is not None
            where.put(given, value_of(part))
        return [value_of(part) for part in self.results]

    def _tell(self, old: Sequence[Storage], new: Sequence[Storage]) -> None:
        """Notes with new results what their gradients need unchanged, and how old they are."""
        join_parts(self._parts, [storage.fn for storage in new])
        for storage, age, saved in zip(new, self.ages, self._saved):
            storage.version = age
            if storage.fn is not None and self.alive:
                storage.fn.saved = tuple([
                    (old[n], old[n].version_now() + v) if is_old else (new[n], v)
                    for is_old, n, v in saved
                ])  # fmt: skip

    def _parts_of(self, leaves: Sequence[Any], sources: Sequence[Storage]) -> list[Part]:
        """What results have of each other's tapes.

        Raises CannotReplay for hooks on what they were made of: a replay makes that anew.
        """
        if tape.watched:
            ends = [s.fn for s in self._fresh] + [v._fn for v in leaves if isinstance(v, Tensor)]
            if has_hooks(ends, sources):
                raise CannotReplay("hooks stand in its graph")
        return parts_of(self._fresh, sources)

    def _storages(self, nodes: Sequence[Node], given: Sequence[Tensor]) -> list[Storage]:
        parents = [given[self.holders[i]] for i in self.used]
        return [self._storage(node, flag, parents) for node, flag in zip(nodes, self.flags)]

    def _storage(self, node: Node, flag: str | None, parents: list[Tensor]) -> Storage:
        """New memory; with the grad_fn that it had, where it had one."""
        storage = Storage(node)
        if flag is not None and self.alive and node.needs_grad:
            storage.fn = tape.record(flag, parents, None)
            storage.fn.made = weakref.ref(storage.node)
        elif flag is not None and not self.alive:
            storage.fn = tape.record(flag, (), None)
            storage.fn.dead = storage.fn.freed = True
            storage.node = tape.boundary(node, storage.fn)
        return storage


def _groups_of(run: Run) -> frozenset[str]:
    """The groups whose ranks a function waits for. Raises CannotReplay where one of its collectives
    has been started already."""
    recorder = run.recorder
    if not recorder.collectives:
        return frozenset()
    from lazyt.plan.control import collectives

    made = [call for call in recorder.collectives if collectives.is_of_program(call)]
    if not collectives.are_made(made):
        raise CannotReplay("it needs a value that other ranks send while it runs")
    recorder.collectives = made
    return frozenset(call.params.group for call in made)


def _without_localize(
    roots: Sequence[Node], calls: Sequence[Node]
) -> tuple[list[Node], list[Node]]:
    """A graph and its collectives over what this rank has of values that ranks have parts of."""
    found = localized([*roots, *calls])
    return found[: len(roots)], found[len(roots) :]


def _current(place: GuardedTensor, arguments: Sequence[Tensor]) -> Tensor:
    tensor = place.source.get(arguments)
    if not isinstance(tensor, Tensor) or signature(tensor) != place.signature:
        raise Missed(tensor_differs(place.path, tensor, place.signature))
    if place.exact is not None and tensor is not place.exact:
        raise Missed(
            f"{place.path} is another tensor than before, and a dict, a set or an "
            "optimizer's state finds things by it"
        )
    return tensor


def _alike(given: Sequence[Tensor]) -> list[tuple[int, int, int]]:
    """Which tensors, storages and memories are the same: for each the number of the first."""
    tensors: dict[int, int] = {}
    storages: dict[int, int] = {}
    memories: dict[int, int] = {}
    found = []
    for n, t in enumerate(given):
        storage = t._storage
        memory = storage if storage.share is None else storage.share.memory
        found.append((
            tensors.setdefault(id(t), n), storages.setdefault(id(storage), n),
            memories.setdefault(id(memory), n),
        ))  # fmt: skip
    return found
