"""Templates: the graph that a replay computes, with origins in the place of its leaves; and the two
plans of one whose gradients go on outside."""

from __future__ import annotations

import re
import weakref
from collections.abc import Callable, Container, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lazyt import ops
from lazyt.autograd.engine import Backward, find_variables, through_inner
from lazyt.config import config
from lazyt.errors import GradientError
from lazyt.handle.dispatch import one_memory, wrap
from lazyt.handle.grad_mode import mode
from lazyt.handle.pending import keep_values, realize_nodes
from lazyt.handle.storage import Storage, raw
from lazyt.handle.tape import (
    AccumulateGrad,
    GradFn,
    Moves,
    anomaly,
    boundaries,
    boundary,
    record_view,
    sparse_forms,
)
from lazyt.handle.tensor import Tensor
from lazyt.ir.dtypes import float32
from lazyt.ir.forms import PLACED
from lazyt.ir.graph import Node, Type, make, topological
from lazyt.plan import build, planning
from lazyt.runtime.memory import Buffer
from lazyt.tracing.capture import Recorder, Run, TracedGradient, leaf_of
from lazyt.tracing.sources import signature

if TYPE_CHECKING:
    from lazyt.plan.control.schedules import Schedule

#: Where a value comes from: ("source", number), ("part", number of an argument), ("call", number),
#: ("constant", node), ("mark", number of the source whose gradient mark it is) or ("output", n).
Origin = tuple[str, Any]


#: A plan, None where there is nothing to compute; origins of its inputs, and those of the roots.
Plan = tuple["planning.Prepared | Schedule | None", list[Origin], list[Origin]]


class CannotReplay(Exception):
    """The run cannot be replayed; the text says why."""


def node_of(origin: Origin, found: dict[str, Any]) -> Node:
    """The node at ``origin``, where ``found`` has the nodes of each kind of place."""
    kind, value = origin
    node: Node = value if kind == "constant" else found[kind][value]
    return node


def _order(
    roots: Sequence[Node],
    origins: dict[Node, Origin],
    stop: Callable[[Node], bool] | None = None,
) -> list[Node]:
    """All nodes of the graph over the origins, or down to where ``stop`` holds; values computed on
    the way are forgotten. Graphs of other threads may have nodes in common with it, which must not
    change while they are read."""
    with build.lock:
        order = topological(roots, stop or origins.__contains__)
        for node in order:
            if node.inputs and node not in origins:
                node.data = None
    return order


def prepare(
    roots: Sequence[Node],
    origins: dict[Node, Origin],
    owners: Mapping[Node, Node],
    noted: Sequence[Node] = (),
) -> Plan | None:
    """The plan (None when there is nothing to compute) with the origins of its inputs, and those
    of the roots; None where loops, branches or copies to devices stand between plans.

    ``owners``: leaves whose memory may be taken over, with the root that may; ``noted``: the
    collectives and the calls of Python that the function made, in order, which are run whether
    their values are used.
    """
    plan: planning.Prepared | Schedule | None = None
    inputs: list[Origin] = []
    with build.lock:
        order = _order([*noted, *roots], origins)
        between = {n.op.lower for n in order if n.data is None and isinstance(n.op.lower, str)}
        has_calls, has_python = "collective" in between, "python" in between
        del order  # what it refers to would count as in use
        wanted = [n for n in dict.fromkeys(roots) if n.data is None and 0 not in n.shape]
        if wanted or has_calls or has_python:
            own = {n: wanted.index(r) for n, r in owners.items() if r in wanted}
            if has_calls:
                from lazyt.plan.control.schedules import collectives_of, schedule
                from lazyt.plan.steps import Planner

                planner = Planner(planning.realize, planning.prepare)
                plan = schedule(wanted, collectives_of(roots, noted), own, planner)
            elif has_python:
                from lazyt.plan.control.schedules import schedule_python
                from lazyt.plan.steps import Planner

                planner = Planner(planning.realize, planning.prepare)
                plan = schedule_python(wanted, noted, planner)
            else:
                plan = planning.prepare(wanted, own)
                if plan is None and "library" in between and not config.interpret:
                    from lazyt.plan.control.schedules import schedule_library
                    from lazyt.plan.steps import Planner, call_levels

                    levels = call_levels(topological(wanted, lambda node: node.data is not None))
                    planner = Planner(planning.realize, planning.prepare)
                    plan = schedule_library(wanted, levels, planner)
            if plan is None:
                return None
            inputs = [origins.get(n, ("constant", n)) for n in plan.leaves]
            plan.leaves = []  # they would hold on to the values of the captured call
    numbers = {node: number for number, node in enumerate(wanted)}
    outputs: list[Origin] = []
    for node in roots:
        if node in numbers:
            outputs.append(("output", numbers[node]))
        else:
            if 0 in node.shape and node.data is None:
                node.data = Buffer(0)
            outputs.append(origins.get(node, ("constant", node)))
    return plan, inputs, outputs


def compute(plan: Plan, roots: Sequence[Node], origins: dict[Node, Origin]) -> None:
    """Compute ``roots`` by the plan that was made for them, of what ``origins`` hold now. What the
    plan writes over is copied: the program still sees the old values."""
    prepared, inputs, outputs = plan
    if prepared is None:
        return
    nodes = {origin: node for node, origin in origins.items()}
    computed = run_on_copies(prepared, [(nodes[o] if o in nodes else o[1]).data for o in inputs])
    with build.lock:
        pairs = zip(roots, outputs, strict=True)
        keep_values({n: computed[value] for n, (kind, value) in pairs if kind == "output"})


def run_on_copies(prepared: planning.Prepared | Schedule, buffers: list[Buffer]) -> list[Buffer]:
    """What a plan computes of buffers that it does not write to, but to copies."""
    for place in prepared.overwritten:
        buffers[place] = buffers[place].copy()
    return prepared.run(buffers)


class Template:
    """A graph over origins: its nodes in order, each an origin or an op on earlier ones.

    Attributes:
        entries: of each node its kind, with what it takes.
        roots: numbers of the nodes that are computed.
        gradients: what the user's code does with gradients at boundaries of the graph.
    """

    def __init__(
        self, entries: list[Any], roots: list[int], gradients: Sequence[GradientTemplate] = ()
    ) -> None:
        self.entries = entries
        self.roots = roots
        self.gradients = gradients

    def build(self, found: dict[str, Any], storages: Sequence[Storage]) -> list[Node]:
        """The roots over these origins."""
        values: dict[int, Node] = {}
        fns = [gradient.begin() for gradient in self.gradients]
        for number, (kind, value) in enumerate(self.entries):
            if kind == "mark":
                node = storages[value].current()
            elif kind == "write":
                source, place = value
                leaf = storages[source].fn
                assert isinstance(leaf, AccumulateGrad)
                node = leaf.mark(values[place])
            elif kind in _COMPUTED:
                node = _made(kind, value, values, fns)
            else:
                node = node_of((kind, value), found)
            values[number] = node
        _give(fns, values)
        return [values[i] for i in self.roots]


#: Kinds of entries that are computed from others.
_COMPUTED = frozenset({"boundary", "collective", "op", "python"})


def _made(kind: str, value: Any, values: Mapping[int, Node], fns: Sequence[TracedBackward]) -> Node:
    """The node of an op, of a collective, or of an output of one of the user's functions."""
    if kind == "boundary":
        number, index, place = value
        return boundary(values[place], fns[number], index)
    if kind == "collective":
        from lazyt.ops.parallel.collectives import again

        params, place = value
        return again(values[place], params)
    if kind == "python":
        return _called(value, values)
    op, params, inputs = value
    return make(op, tuple([values[i] for i in inputs]), params)


def _called(entry: tuple[Any, list[int], int | None], values: Mapping[int, Node]) -> Node:
    """A result of a call of Python, which is made now: what it does is done in order. ``entry``:
    which result, the operands, and an entry that is another result of the same call."""
    params, inputs, sibling = entry
    operands = [values[number] for number in inputs]
    call = params.call.again() if sibling is None else values[sibling].params.call
    if call.ready is None:
        realize_nodes([raw(node) for node in operands if raw(node).data is None])
        call.run([raw(node).data for node in operands])
    made = make(ops.OPS["python"], tuple(operands), params._replace(call=call))
    made.data = call.ready[params.result]
    return made


# Gradients that the user's code computes (``capture``), as templates over the entries of
# the graph that they belong to. Each builds nodes that its own outputs may be among: it refers to
# those weakly, because boundaries live as long as what refers to them.


class GradientTemplate:
    """What one grad_fn of the user's does with gradients.

    Attributes:
        needs: numbers of the entries around it that it is computed from.
        own: of those that are its outputs which output it is, and the number of the value.
        below: numbers of the entries that it gives gradients to.
        again: numbers of the entries around it that it computes again, where it is a checkpoint.
        results: numbers of the values of a checkpoint's outputs.
    """

    def __init__(self, traced: TracedGradient) -> None:
        self.refusal = traced.refusal
        self._types = [None if node is None else node.type for node in traced.cotangents]
        self._entries: list[tuple[int, str, Any]] = []
        self._gradients: list[GradientTemplate] = []
        self._pairs: list[tuple[int, int]] = []
        self.needs: list[int] = []
        self.own: dict[int, tuple[int, int]] = {}
        self.below: list[int] = []
        self.again: set[int] = set()
        self.results: set[int] = set()

    def fill(self, traced: TracedGradient, around: Mapping[Node, int], encoder: _Encoder) -> None:
        """Writes down what was traced, over the entries ``around``."""
        own = {n for n in around if boundaries.get(n, (None, 0))[0] is traced.fn}
        after = set(own)
        for node in around:  # inputs before users
            if any(item in after for item in node.inputs):
                after.add(node)
        numbers = {node: n for node, n in around.items() if node in own or node not in after}
        base = set(numbers.values())
        stand_ins = {n: i for i, n in enumerate(traced.cotangents) if n is not None}
        roots = [node for pair in traced.pairs for node in pair]
        order = encoder.closed(roots, lambda n: n in numbers or n in stand_ins)
        start = 1 + max(around.values())
        fresh = [node for node in order if node not in numbers]
        numbers |= {node: start + place for place, node in enumerate(fresh)}
        for node in fresh:
            if node in stand_ins:
                self._entries.append((numbers[node], "cotangent", stand_ins[node]))
            else:
                kind, value = encoder.entry(node, numbers, self._gradients)
                if kind == "collective":
                    raise CannotReplay("the gradient of a custom function calls a collective")
                self._entries.append((numbers[node], kind, value))
        encoder.fill(self._gradients, numbers)
        self._pairs = [(numbers[a], numbers[b]) for a, b in traced.pairs]
        self.below = [numbers[node] for node in traced.below if node in numbers]
        used = {*self.below, *(n for pair in self._pairs for n in pair)}
        for _, kind, value in self._entries:
            if kind == "op":
                used.update(value[2])
            elif kind == "boundary":
                used.add(value[2])
            elif kind == "python":
                used.update(value[1] if value[2] is None else (*value[1], value[2]))
        for inner in self._gradients:
            used.update(inner.needs)
        names = {n: node for node, n in around.items()}
        for number in used & base:
            if names[number] in own:
                value = around[names[number].inputs[0]]
                self.own[number] = boundaries[names[number]][1], value
                used.add(value)
        self.needs = sorted(used & base)
        if traced.is_checkpoint:
            self._find_region(traced, around, encoder)

    def _find_region(
        self, traced: TracedGradient, around: Mapping[Node, int], encoder: _Encoder
    ) -> None:
        ends = {*traced.below, *encoder.origins}
        for node in around:
            if boundaries.get(node, (None, 0))[0] is traced.fn:
                self.results.add(around[node.inputs[0]])
                ends.update(node.inputs[0].inputs[1:])
        inside = topological([node for node, _ in traced.pairs], ends.__contains__)
        self.again = {around[node] for node in inside if node in around and node not in ends}

    def begin(self) -> TracedBackward:
        """A grad_fn that does the same; what it is computed from has to be given to it."""
        fn: TracedBackward = object.__new__(TracedBackward)
        fn.begin()
        fn.template, fn.values, fn.outputs = self, {}, {}
        return fn

    def build(
        self, values: dict[int, Node], cotangents: Sequence[Node | None]
    ) -> list[tuple[Node, Node]]:
        """Nodes with the gradients that go on there, where these arrived; ``values`` has what is
        needed of the entries around, and gets the others."""
        given = [*cotangents, *[None] * len(self._types)]
        fns = [gradient.begin() for gradient in self._gradients]
        for number, kind, value in self._entries:
            if kind == "cotangent":
                node, type_ = given[value], self._types[value]
                if node is None:
                    assert type_ is not None
                    node = ops.broadcast_to(ops.constant(0, type_.dtype), type_.shape)
                values[number] = node
            elif kind == "constant":
                values[number] = value
            else:
                values[number] = _made(kind, value, values, fns)
        _give(fns, values)
        return [(values[a], values[b]) for a, b in self._pairs]


class TracedBackward(GradFn):
    """The grad_fn of a custom function or a checkpoint in a replayed graph.

    Attributes:
        template: what it does.
        values: the values that it needs, by the numbers of their entries.
        outputs: its own outputs among them.
    """

    __slots__ = ("outputs", "template", "values")

    template: GradientTemplate
    values: dict[int, Node]
    outputs: dict[int, weakref.ref[Node]]
    several = True

    def below(self) -> list[Node]:
        """The nodes that it gives gradients to."""
        return [self.values[number] for number in self.template.below]

    def advance(self, cotangents: list[Node | None]) -> list[tuple[Node, Node]]:
        """Nodes with the gradients that go on there.

        Raises GradientError where they are to have gradients in turn, and have none.
        """
        template = self.template
        if template.refusal and (mode.enabled or not template.below):
            raise GradientError(template.refusal)
        values = dict(self.values)
        for number, (index, place) in template.own.items():
            node = self.outputs[number]()
            values[number] = boundary(values[place], self, index) if node is None else node
        pairs = template.build(values, cotangents)
        return pairs if mode.enabled else [(node, raw(grad)) for node, grad in pairs]


def _give(fns: Sequence[TracedBackward], values: Mapping[int, Node]) -> None:
    """Gives grad_fns the values that they need."""
    for fn in fns:
        own = fn.template.own
        fn.values = {n: values[n] for n in fn.template.needs if n not in own}
        fn.outputs = {n: weakref.ref(values[n]) for n in own}


class _Encoder:
    """Writes nodes down as entries.

    Attributes:
        origins: where leaves come from.
        main: numbers of the nodes of the graph.
    """

    def __init__(
        self, roots: Sequence[Node], origins: dict[Node, Origin], run: Run, alive: bool
    ) -> None:
        self.origins = origins
        self.main: dict[Node, int] = {}
        self._reached = {*find_variables(roots)} if alive else set()
        self._traced = run.gradients if alive else {}
        self._alive = alive
        self._marks = {
            storage.fn.uid: number
            for number, storage in enumerate(run.recorder.storages)
            if isinstance(storage.fn, AccumulateGrad)
        }
        self._made: dict[int, TracedGradient] = {}
        self._calls: dict[Any, Node] = {}

    def closed(self, roots: Sequence[Node], stop: Callable[[Node], bool]) -> list[Node]:
        """The nodes below ``roots`` and below the user's functions among them."""
        more: dict[Node, None] = {}
        while True:
            order = _order([*more, *roots], self.origins, stop)
            known = set(order)
            below = [n for fn in self._fns(order) for n in self._traced[fn].below]
            if all(node in known for node in below):
                return order
            more |= dict.fromkeys(below)

    def _fns(self, order: Sequence[Node]) -> list[GradFn]:
        found = [boundaries[node][0] for node in order if node in boundaries]
        return [fn for fn in dict.fromkeys(found) if fn in self._traced]

    def used(self) -> list[Node]:
        """The leaves with origins that gradients of the user's are computed from."""
        nodes = [node for t in self._traced.values() for pair in t.pairs for node in pair]
        return [n for n in topological(nodes, self.origins.__contains__) if n in self.origins]

    def entry(
        self, node: Node, numbers: Mapping[Node, int], gradients: list[GradientTemplate]
    ) -> tuple[str, Any]:
        """The entry of one node over the others; the user's functions go into ``gradients``.

        Raises CannotReplay where hooks or new leaves stand in the graph.
        """
        if node in self.origins:
            return self.origins[node]
        if node.op.name == "variable":
            if node.params.uid in self._marks:
                number = self._marks[node.params.uid]
                if self.origins.get(node.inputs[0]) == ("source", number):
                    return "mark", number
                # a value that was written to the leaf without autograd
                return "write", (number, numbers[node.inputs[0]])
            if self._alive and (node in boundaries or node.needs_grad):
                fn, index = boundaries.get(node, (None, 0))
                if fn is not None and fn in self._traced:
                    place = self._number_of(fn, gradients)
                    return "boundary", (place, index, numbers[node.inputs[0]])
                if node in self._reached:
                    raise CannotReplay("hooks or new leaves stand in its graph")
                if numbers is self.main:  # below a ``detach``
                    return "op", (ops.DETACH, None, [numbers[node.inputs[0]]])
                # a gradient was computed through it already, or ends there
        if node.op.lower == "collective":
            return "collective", (node.params, numbers[node.inputs[0]])
        if node.op.lower == "python":
            first = self._calls.setdefault(node.params.call, node)
            sibling = None if first is node else numbers.get(first)
            return "python", (node.params, [numbers[i] for i in node.inputs], sibling)
        if not node.inputs and (node.data is not None or node.op.name != "const"):
            return "constant", node
        return "op", (node.op, node.params, [numbers[i] for i in node.inputs])

    def _number_of(self, fn: GradFn, gradients: list[GradientTemplate]) -> int:
        for place, gradient in enumerate(gradients):
            if self._made[id(gradient)].fn is fn:
                return place
        gradient = GradientTemplate(self._traced[fn])
        self._made[id(gradient)] = self._traced[fn]
        gradients.append(gradient)
        return len(gradients) - 1

    def fill(self, gradients: Sequence[GradientTemplate], around: Mapping[Node, int]) -> None:
        """Writes down what the user's functions do, over the entries ``around``."""
        for gradient in gradients:
            gradient.fill(self._made[id(gradient)], around, self)


def template(roots: Sequence[Node], origins: dict[Node, Origin], run: Run, alive: bool) -> Template:
    """The graph of ``roots`` over ``origins``; with ``alive``, its gradient marks are kept.

    Raises CannotReplay where hooks or new leaves stand in it.
    """
    encoder = _Encoder(roots, origins, run, alive)
    order = encoder.closed(
        [*run.recorder.collectives, *run.recorder.python_calls, *encoder.used(), *roots],
        origins.__contains__,
    )
    encoder.main |= {node: number for number, node in enumerate(order)}
    gradients: list[GradientTemplate] = []
    entries = [encoder.entry(node, encoder.main, gradients) for node in order]
    encoder.fill(gradients, encoder.main)
    return Template(entries, [encoder.main[node] for node in roots], gradients)


# Parts of a watched run: what a replay has to know of it, or why there can be none.


def refuse_changed(run: Run, given: Sequence[Tensor]) -> None:
    """Raises CannotReplay where a tensor that was there before looks otherwise afterwards."""
    for tensor, looks in zip(given, run.looks, strict=True):
        if signature(tensor) != looks or id(tensor._storage) not in run.recorder.known:
            raise CannotReplay("it changes what a tensor from outside is, not only its values")


def refuse_wholes(run: Run, parts: Sequence[Storage]) -> None:
    """Raises CannotReplay where the user's code can reach the whole of a part by names that it
    mentions: it may take the very part that an argument is, which is another at another call."""
    names = run.guards.mentioned
    any_name = bool(names & {"getattr", "vars", "__dict__"})
    for place in run.guards.tensors if parts else ():
        if any_name or all(n in names for n in re.findall(r"\.([a-zA-Z]\w*)", place.path)):
            found = place.tensor
            if found is not None and any(one_memory(found._storage, part) for part in parts):
                raise CannotReplay(
                    f"it can read {place.path}, which shares memory with an argument that is a "
                    "part of a tensor; give it a clone()"
                )


def lives(storage: Storage) -> bool:
    """Whether gradients can go on from a result."""
    if isinstance(storage.fn, AccumulateGrad):
        raise CannotReplay("it makes a new tensor that requires a gradient")
    return storage.fn is not None and not storage.fn.dead


def saved_by(
    fn: GradFn | None, recorder: Recorder, fresh: Sequence[Storage]
) -> list[tuple[bool, int, int]]:
    """What the gradient of a result needs unchanged: whether it was there before, its number, and
    its version, counted from the start of the function."""
    found: dict[tuple[bool, int, int], None] = {}
    seen: set[GradFn] = set()
    stack = [fn]
    while stack:
        item = stack.pop()
        if item is None or item in seen:
            continue
        seen.add(item)
        if item.rule == "x":
            raise CannotReplay(f"there is no gradient of {item.name()}")
        stack.extend(item.parents)
        for storage, version in item.saved:
            number = recorder.known.get(id(storage))
            if number is not None and version >= recorder.versions[number]:
                found[True, number, version - recorder.versions[number]] = None
            elif storage in fresh:
                found[False, fresh.index(storage), version] = None
    return list(found)


def written_by(run: Run) -> list[int]:
    """The sources that the function wrote to."""
    found = []
    before = {number: leaf for leaf, number in run.recorder.leaves.items()}
    for number, storage in enumerate(run.recorder.storages):
        if number in before and leaf_of(storage) is not before[number]:
            if storage.fn is not None and not isinstance(storage.fn, AccumulateGrad):
                raise CannotReplay("it makes a tensor from outside part of a graph")
            found.append(number)
    return found


def origins_of(run: Run) -> dict[Node, Origin]:
    """Where the leaves that are no constants come from."""
    found: dict[Node, Origin] = {
        leaf: ("source", number) for leaf, number in run.recorder.leaves.items()
    }
    filled = [node for _, node in run.recorder.calls if node is not None]
    found.update({node: ("call", number) for number, node in enumerate(filled)})
    return found


# Forward and backward of a captured function whose gradients go on outside, as two plans.
#
# The graph that was captured is differentiated once. The forward plan computes the results and what
# the gradients need of the values on the way; the results stand behind a boundary, whose gradient
# is what the backward plan computes of them. Small values and what is computed element by element
# from one value is computed again by the backward plan instead of being stored.
#
# A gradient that is to be differentiated again needs the graph, which is built anew for it then.


#: How many times more elements a value has than an operand that counts as small beside it.
_SMALL = 8


class _Saved:
    """The values that a forward plan stored for backward, each a leaf once that wants it."""

    __slots__ = ("_buffers", "_leaves", "_types")

    def __init__(self, types: Sequence[Type], buffers: Sequence[Buffer]) -> None:
        self._types = types
        self._buffers = buffers
        self._leaves: dict[int, Node] = {}

    def __getitem__(self, number: int) -> Node:
        leaf = self._leaves.get(number)
        if leaf is None:
            made = ops.input_(*self._types[number], self._buffers[number])
            leaf = self._leaves[number] = made
        return leaf


class CompiledFunctionBackward(GradFn):
    """The grad_fn of the results of one replay: runs the backward plan.

    Attributes:
        joint: what was captured.
        found: the values of the origins, and under "saved" those that the forward plan stored.
        marks: the differentiable values of leaves, by the number of their source.
        ends: the nodes whose gradients are computed, in the order of ``Joint.ends``.
        users: the grad_fns of the results.
    """

    __slots__ = ("ends", "found", "joint", "marks", "users")

    joint: Joint
    found: dict[str, Any]
    marks: dict[int, Node]
    ends: list[Node]
    users: list[weakref.ref[GradFn]]
    several = True

    def freed_all(self) -> None:
        """Lets go of all values once no backward may come any more through any of the results."""
        for reference in self.users:
            user = reference()
            if (
                user is not None
                and not user.dead
                and not any(parent is not None and parent.dead for parent in user.parents)
            ):
                return
        self.found, self.marks, self.ends = {}, {}, []

    def below(self) -> list[Node]:
        """The nodes whose gradients are computed."""
        return self.ends

    def advance(self, cotangents: list[Node | None]) -> list[tuple[Node, Node]]:
        """These nodes with their gradients; where those are to be differentiated again, the
        results as a graph, with what arrived at them."""
        if mode.enabled or anomaly.enabled:
            given = zip(self.joint.results(self), cotangents)
            pairs = [(node, c) for node, c in given if node is not None and c is not None]
            return through_inner(pairs, self.ends)
        parts = self.joint.gradients(self, cotangents)
        return [(end, part) for end, part in zip(self.ends, parts) if part is not None]

    def answers(self, cotangents: Sequence[Tensor | None]) -> dict[int, Tensor]:
        """The gradients of its parents, by their number."""
        nodes = [None if c is None else c.node for c in cotangents]
        if not mode.enabled:
            parts = self.joint.gradients(self, nodes)
            made = [None if p is None else wrap(raw(p), name="Clone") for p in parts]
            return {n: part for n, part in enumerate(made) if part is not None}
        given = [(node, c) for node, c in zip(self.joint.results(self), nodes) if node is not None]
        known = [(node, c) for node, c in given if c is not None]
        received = Backward(known, self.ends, True).received
        found = [received.get(node) for node in self.ends]
        givers = [c for c in cotangents if c is not None]
        return {
            n: wrap(part, *givers, name="Clone") for n, part in enumerate(found) if part is not None
        }

    def push(self, tangents: list[Node | None]) -> list[Node | None]:
        """How the results move when the nodes below do."""
        from lazyt.transforms.jvp import jvp

        if self.joint.has_custom_gradients:
            raise GradientError(
                "forward-mode derivatives do not go through custom functions or checkpoints of a "
                "captured function: call it without jit"
            )
        known = [(n, t) for n, t in zip(self.ends, tangents) if t is not None]
        results = self.joint.results(self)
        nodes = [node for node in results if node is not None]
        moved = iter(jvp(nodes, [n for n, _ in known], [t for _, t in known]))
        return [None if node is None else next(moved) for node in results]


#: In the place of a node that nobody reads.
_NOTHING = ops.constant(0.0, float32)


class CannotSplit(Exception):
    """There is no pair of plans; the graph is built at every replay."""


class Joint:
    """A captured graph, split into what is computed forward and backward.

    Args:
        template: the graph over origins; its roots are the fresh results, then what is written.
        found: values of the origins at one replay.
        storages: the sources at that replay.
        flags: of each fresh result the name of its grad_fn, None without one.
        written: numbers of the sources that are written.

    Attributes:
        ends: which entries of the template are differentiated by.
        live: which of the fresh results have gradients.
        sources: numbers of the sources that those are computed from.
        plan: the forward plan; its roots are the fresh results, what is written, what is stored.
        types: of the first two of these.
        is_graph_wanted: whether somebody differentiated a gradient.

    Raises CannotSplit.
    """

    def __init__(
        self, template: Template, found: dict[str, Any], storages: Sequence[Storage],
        flags: Sequence[str | None], written: Sequence[int],
    ) -> None:  # fmt: skip
        self._entries, self._roots, self._flags = template.entries, template.roots, flags
        self._gradients = template.gradients
        self._fresh = len(flags)
        self._backward: dict[Any, tuple[Plan, list[int]]] = {}
        self.is_graph_wanted = False
        if any(kind in ("write", "collective", "python") for kind, _ in self._entries):
            raise CannotSplit
        marks = self._marks(storages)
        self._marked = [*marks]
        self.ends = self._find_ends(found)
        self._read: Container[int] = range(len(self._entries))
        values, origins = self._build(found)
        self.types = [values[i].type for i in self._roots]
        if any(leaf.form < PLACED for leaf in origins):
            raise CannotSplit
        outputs = [values[i] for i in self._roots[: self._fresh]]
        self.live = [
            flag is not None and node.needs_grad for flag, node in zip(flags, outputs, strict=True)
        ]
        asked = [node if lives else None for node, lives in zip(outputs, self.live)]
        cotangents = [None if n is None else _placeholder(n) for n in asked]
        again = {number for gradient in self._gradients for number in gradient.again}
        numbers: dict[Node, int] = {}
        for number, node in enumerate(values):
            if number not in again:
                numbers.setdefault(node, number)
        grads = self._derive(values, cotangents)
        ends = {values[n] for gradient in self._gradients for n in gradient.results}
        self._saved = _find_saved([g for g in grads if g is not None], numbers, origins, ends)
        roots = [raw(node) for node in outputs]
        roots += [raw(values[i]) for i in self._roots[self._fresh :]]
        roots += [raw(values[number]) for number in self._saved]
        needed = [node for node in asked if node is not None]
        needed += [values[n] for gradient in self._gradients for n in gradient.needs]
        read = {*topological(needed, origins.__contains__)}
        owners: dict[Node, Node] = {}
        for leaf, (kind, number) in origins.items():
            if kind == "source" and number in written and leaf not in read and leaf not in roots:
                new = roots[self._fresh + written.index(number)]
                if storages[number].share is None and new.type == leaf.type:
                    owners[leaf] = new
        plan = prepare(roots, origins, owners)
        if plan is None:
            raise CannotSplit
        self.plan: Plan = plan
        self._saved_types = [values[number].type for number in self._saved]
        self._needed = {origins[leaf] for leaf in read if leaf in origins}
        self.sources = [number for kind, number in self._needed if kind == "source"]
        self._read = {number for number, node in enumerate(values) if node in read}

    # ------------------------------------------------------------------ the graph

    @property
    def has_custom_gradients(self) -> bool:
        """Whether the user's code says what happens to gradients on the way."""
        return bool(self._gradients)

    def _marks(self, storages: Sequence[Storage]) -> dict[int, Node]:
        """The differentiable values of leaves, by the numbers of their sources."""
        return {
            number: storages[number].current()
            for kind, number in self._entries
            if kind == "mark"
        }  # fmt: skip

    def _find_ends(self, found: dict[str, Any]) -> list[int]:
        ends = []
        for number, (kind, value) in enumerate(self._entries):
            if kind == "mark":
                ends.append(number)
            elif kind in found and node_of((kind, value), found).needs_grad:
                if kind != "source":
                    raise CannotSplit
                ends.append(number)
        return ends

    def fits(self, found: dict[str, Any]) -> bool:
        """Whether other origins than before need gradients."""
        ends = {*self.ends}
        return all(
            node_of((kind, value), found).needs_grad == (number in ends)
            for number, (kind, value) in enumerate(self._entries)
            if kind in found
        )

    def _build(
        self, found: dict[str, Any], marks: dict[int, Node] | None = None
    ) -> tuple[list[Node], dict[Node, Origin]]:
        """The nodes of all entries, and the leaves with their origins: the values themselves with
        their ``marks``, else leaves that stand for them."""
        values: dict[int, Node] = {}
        fns = [gradient.begin() for gradient in self._gradients]
        origins: dict[Node, Origin] = {}
        leaves: dict[Origin, Node] = {}
        for number, (kind, value) in enumerate(self._entries):
            if number not in self._read:  # only what is written depends on it
                values[number] = _NOTHING
            elif kind in ("op", "boundary"):
                values[number] = _made(kind, value, values, fns)
            elif kind == "constant":
                values[number] = value
            elif marks is not None:
                is_mark = kind == "mark"
                values[number] = marks[value] if is_mark else node_of((kind, value), found)
            else:
                origin = ("source", value) if kind == "mark" else (kind, value)
                leaf = leaves.get(origin)
                if leaf is None:
                    held = node_of(origin, found)
                    leaf = leaves[origin] = ops.input_(held.shape, held.dtype, held.data)
                    origins[leaf] = origin
                is_end = number in self.ends
                values[number] = ops.variable(leaf, -1 - number) if is_end else leaf
        _give(fns, values)
        return [*values.values()], origins

    def _derive(
        self, values: Sequence[Node], cotangents: Sequence[Node | None]
    ) -> list[Node | None]:
        from lazyt.transforms.vjp import vjp

        pairs = [
            (values[i], cotangent) for i, cotangent in zip(self._roots, cotangents)
            if cotangent is not None
        ]  # fmt: skip
        before = len(sparse_forms)
        ends = [values[i] for i in self.ends]
        if self._gradients:
            received = Backward(pairs, ends, False).received
            grads = [received.get(node) for node in ends]
        else:
            grads = vjp([n for n, _ in pairs], [c for _, c in pairs], ends)
        if len(sparse_forms) > before:
            raise CannotSplit
        return [None if grad is None else raw(grad) for grad in grads]

    # ------------------------------------------------------------------ running

    def forward(
        self, computed: Sequence[Buffer], found: dict[str, Any], storages: Sequence[Storage]
    ) -> list[Storage]:
        """The fresh results, where ``computed`` are the buffers of the plan's roots."""
        fn: CompiledFunctionBackward = object.__new__(CompiledFunctionBackward)
        fn.begin()
        saved = _Saved(self._saved_types, computed[len(self._roots) :])
        fn.joint, fn.marks = self, self._marks(storages)
        fn.found = {**self._chosen(found), "saved": saved}
        fn.ends, parents = [], []
        for number in self.ends:
            kind, value = self._entries[number]
            fn.ends.append(fn.marks[value] if kind == "mark" else node_of((kind, value), found))
            parents.append(storages[value].fn)
        fn.parents = tuple(parents)
        fn.operands = tuple([weakref.ref(node) for node in fn.ends])
        made = []
        for index, (kind, data) in enumerate(zip(self.types[: self._fresh], computed)):
            node, flag = ops.input_(*kind, data), self._flags[index]
            storage = Storage(node)
            if self.live[index]:
                assert flag is not None
                storage.node = boundary(node, fn, index)
                storage.fn = record_view(flag, fn, Moves((), node.shape, node.dtype, index))
                storage.fn.made = weakref.ref(storage.node)
            made.append(storage)
        fn.users = [weakref.ref(storage.fn) for storage in made if storage.fn is not None]
        return made

    def _chosen(self, found: dict[str, Any]) -> dict[str, Any]:
        """Those of the values that results with gradients are computed from."""
        return {
            kind: {n: node for n, node in values.items() if (kind, n) in self._needed}
            if isinstance(values, dict)
            else values
            for kind, values in found.items()
        }

    def results(self, fn: CompiledFunctionBackward) -> list[Node | None]:
        """The results of one replay as a graph over what it was given; None for those that have no
        gradient. Later replays build the graph at once."""
        self.is_graph_wanted = True
        values, _ = self._build(fn.found, fn.marks)
        nodes = [values[i] for i in self._roots[: self._fresh]]
        return [node if lives else None for node, lives in zip(nodes, self.live)]

    def gradients(
        self, fn: CompiledFunctionBackward, cotangents: Sequence[Node | None]
    ) -> list[Node | None]:
        """The gradients of the ends, None where there is none, computed by the backward plan."""
        given = [*cotangents, *[None] * self._fresh][: self._fresh]
        realize_nodes([c for c in given if c is not None and c.data is None])
        key = (tuple([c is not None for c in given]), config.of_plans)
        known = self._backward.get(key)
        if known is None:
            known = self._backward[key] = self._prepare_backward(fn.found, given)
        (prepared, inputs, outputs), places = known
        found = {**fn.found, "cotangent": given}
        computed: list[Buffer] = []
        if prepared is not None:
            computed = prepared.run([node_of(origin, found).data for origin in inputs])
        grads: list[Node | None] = [None] * len(self.ends)
        for place, (kind, value) in zip(places, outputs, strict=True):
            if kind == "output":
                shape, dtype = fn.ends[place].type
                grads[place] = ops.input_(shape, dtype, computed[value])
            else:
                grads[place] = node_of((kind, value), found)
        return grads

    def _prepare_backward(
        self, found: dict[str, Any], given: Sequence[Node | None]
    ) -> tuple[Plan, list[int]]:
        """The plan for gradients of some of the results, and which of the ends get one."""
        values, origins = self._build(found)
        stand_ins = [None if c is None else _placeholder(c) for c in given]
        grads = self._derive(values, stand_ins)
        for place, number in enumerate(self._saved):
            values[number].data = found["saved"][place].data
            origins[values[number]] = ("saved", place)
        for place, node in enumerate(stand_ins):
            if node is not None:
                origins[node] = ("cotangent", place)
        places = [place for place, grad in enumerate(grads) if grad is not None]
        plan = prepare([grad for grad in grads if grad is not None], origins, {})
        if plan is None:
            raise CannotSplit
        return plan, places


def _placeholder(like: Node) -> Node:
    """A leaf of the same type, whose values do not matter."""
    return ops.input_(like.shape, like.dtype, Buffer(like.nbytes))


def _find_saved(
    grads: Sequence[Node], numbers: dict[Node, int], origins: dict[Node, Origin], ends: set[Node]
) -> list[int]:
    """Which entries of the template gradients read that are worth storing: ``ends`` in any case.

    A value that is computed element by element from one value of its size, and others that are
    small or are there anyway, is computed again. That of several is stored: storing these would
    take more, and a sum of many layers would be added up again in each of their gradients.
    """
    saved: dict[Node, None] = {}
    seen: set[Node] = set()
    stack = [*grads]
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        if node not in numbers or not (node in ends or _is_stored(node, origins)):
            stack += [] if node in origins else node.inputs
        else:
            saved[node] = None
    return [numbers[node] for node in saved]


def _is_stored(node: Node, origins: dict[Node, Origin]) -> bool:
    while node.op.is_movement:
        if node in origins or not node.inputs:
            return False
        if node.op.is_identity or node.op.moves_all:
            return False  # what is below decides
        node = node.inputs[0]
    if node in origins or not node.inputs:
        return False
    if node.op.heavy:
        return True
    large = [i for i in dict.fromkeys(node.inputs) if i.size * _SMALL > node.size]
    return sum(not _is_there(i, origins) for i in large) > 1


def _is_there(node: Node, origins: dict[Node, Origin]) -> bool:
    """Whether a value is one that every replay is given, or a constant."""
    while node.op.is_movement and node not in origins and node.inputs:
        node = node.inputs[0]
    return node in origins or not node.inputs
