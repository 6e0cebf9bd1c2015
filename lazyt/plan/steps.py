"""Graphs with calls of libraries and of Python, loops, collectives and copies between devices,
computed in steps.

A plan is one C function, and a library call cannot be part of it. So a graph with such calls is
computed level by level: one plan for the operands of all calls that wait for no other, then those
calls, one plan for the operands of the next, and in the end one plan for the rest. Operands and
results of calls stay in their nodes as any other value does, so nothing is computed twice.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from lazyt import ops
from lazyt.config import config
from lazyt.ir.forms import PLACED, place_of
from lazyt.ir.graph import Node, rebuild, remake, source_text
from lazyt.ops.control.branches import BRANCH
from lazyt.ops.control.conditions import WHILE
from lazyt.ops.control.loops import LOOP
from lazyt.ops.routines import announce_host, refuse_library
from lazyt.plan.build import lock
from lazyt.plan.explain import Explanation
from lazyt.plan.graph_keys import BETWEEN_PLANS, number_graph, structure_of
from lazyt.plan.retention import separate_constants
from lazyt.runtime import events
from lazyt.runtime.interpreter import interpret
from lazyt.runtime.memory import Buffer

if TYPE_CHECKING:
    from lazyt.plan.planning import Prepared

#: What computes the graph of some nodes, and what explains how: ``planning.realize``, ``.explain``.
Realize = Callable[[Sequence[Node]], list[Node]]
Explain = Callable[[Sequence[Node]], Explanation]


class Planner(NamedTuple):
    """What finds plans: ``planning.realize`` and ``planning.prepare``."""

    realize: Realize
    prepare: Callable[..., Prepared | None]


#: Ops that run graphs.
_OF_GRAPHS = frozenset({BRANCH, LOOP, WHILE})


def run_calls(levels: Sequence[Sequence[Node]], planner: Planner) -> list[Node]:
    """Computes all calls of ``call_levels``, their operands by ``planner.realize``. Nobody may
    hold on to the graph's nodes for the meantime: what is referred to from outside of a plan is
    stored. Returns what has its value now besides the calls: results of loops."""
    found: list[Node] = []
    between = [c for calls in levels for c in calls if c.op.lower == "collective"]
    if between:
        from lazyt.plan.control import collectives

        collectives.start(between, planner.realize)
    for calls in levels:
        _compute([item for call in calls for item in call.inputs], planner.realize)
        graphs = [call for call in calls if call.op in _OF_GRAPHS and call.form > PLACED]
        if graphs:
            from lazyt.plan.control import loops

            found += loops.run(graphs, planner)
        for call in calls:
            if call.data is None:
                _run(call)
    return found


def _compute(nodes: Sequence[Node], realize: Realize) -> None:
    """Computes nodes, each where it is made, and notes the value at all that only look at it."""
    chains = [_chain(node) for node in nodes]
    bases = [chain[-1] for chain in chains if chain[-1].data is None]
    if bases:
        realize(list(dict.fromkeys(bases)))
    for chain in chains:
        for node in chain:
            node.data = chain[-1].data


def realize_first(
    parameters: Sequence[Sequence[Node]], nodes: Sequence[Node], realize: Realize
) -> list[Node]:
    """Computes parameters, then the graph that they are part of."""
    draw(parameters, realize)
    return realize(nodes)


def draw(parameters: Sequence[Sequence[Node]], realize: Realize) -> None:
    """Computes the groups of ``Structure.parameters``, one after the other: no graph then holds
    more than one group, however many there are."""
    for group in parameters:
        _compute(group, realize)
        with lock:
            separate_constants(group)


def realize_rest(nodes: Sequence[Node], realize: Realize) -> list[Node]:
    """Computes a graph whose calls are done; each device what is to be there."""
    places: dict[str, list[Node]] = {}
    for node in nodes:
        places.setdefault(place_of(node.form), []).append(node)
    return [stored for some in places.values() for stored in realize(some)]


def explain_calls(
    levels: Sequence[Sequence[Node]], roots: Sequence[Node], explain: Explain
) -> Explanation:
    """The kernels and library calls, in the order in which they would run; computes nothing."""
    known: dict[Node, Node] = {}
    found = Explanation((), 0)
    for calls in levels:
        operands = [_chain(item)[-1] for call in calls for item in call.inputs]
        kept = _retained(operands)
        found = found.followed_by(_explain_plan(operands, known, explain))
        found = found.followed_by(Explanation([_note(call) for call in calls], 0))
        for node in (*operands, *kept, *calls):
            if node.data is None:
                data = _stand_in(node)
                known.setdefault(node, ops.input_(node.shape, node.dtype, data))
    places: dict[str, list[Node]] = {}
    for node in roots:
        places.setdefault(place_of(node.form), []).append(node)
    for some in places.values():
        found = found.followed_by(_explain_plan(some, known, explain))
    return found


def _stand_in(node: Node) -> Buffer:
    """Memory for a value that nobody reads."""
    if node.form < PLACED:
        from lazyt.plan.device_plans import empty_at

        return empty_at(place_of(node.form))
    return Buffer.foreign(0, node.nbytes, None)


def _explain_plan(
    roots: Sequence[Node], known: Mapping[Node, Node], explain: Explain
) -> Explanation:
    """The plan of ``roots`` when the nodes in ``known`` are computed already."""

    def change(node: Node, inputs: tuple[Node, ...]) -> Node:
        if node in known:
            return known[node]
        return node if node.data is not None else remake(node, inputs)

    rest = rebuild(roots, change, lambda node: node.data is not None or node in known)
    return explain(rest)


def _retained(operands: Sequence[Node]) -> list[Node]:
    """What the plan of ``operands`` keeps for the steps that follow."""
    pending = list(dict.fromkeys(node for node in operands if node.data is None))
    numbers, key = number_graph(pending)
    order = list(numbers)
    chosen = structure_of(numbers, key, pending).choose(order).roots
    return [order[i] for i in chosen[len(pending) :]]


def call_levels(order: Sequence[Node]) -> list[list[Node]]:
    """The pending library calls among ``order``, a graph with inputs before users: first those that
    depend on no other, then those that depend on them, and so on."""
    level: dict[Node, int] = {}
    found: list[list[Node]] = []
    for node in order:
        if node.data is not None:
            continue
        depth = max((level.get(item, 0) for item in node.inputs), default=0)
        if node.op.lower in BETWEEN_PLANS:
            if depth == len(found):
                found.append([])
            found[depth].append(node)
            depth += 1
        level[node] = depth
    return found


def has_parts(levels: Sequence[Sequence[Node]]) -> bool:
    """Whether whole values that ranks have parts of are among the calls."""
    return any(call.op.lower == "distribution" for calls in levels for call in calls)


def _chain(node: Node) -> list[Node]:
    """``node`` and what it is another name for, down to the node that computes the value."""
    chain = [node]
    while node.data is None and node.op.is_identity:
        node = node.inputs[0]
        chain.append(node)
    return chain


def _run(call: Node) -> None:
    """Calls the library or Python, copies to another device, or waits for a collective; the
    operands have their data."""
    if call.op.lower == "python":
        call.data = call.params.call.run([item.data for item in call.inputs])[call.params.result]
        return
    if call.op.lower == "collective":
        from lazyt.plan.control import collectives

        collectives.finish(call)
        return
    if call.op is ops.TRANSFER:
        from lazyt.plan.device_plans import moved

        call.data = moved(call.inputs[0], call.params.place)
        return
    if config.exact and call.op is ops.LIBRARY and call.size:
        refuse_library(call.params.routine, call.inputs)  # built before the setting was on
    placed = call.form < PLACED
    if placed and call.op is ops.LIBRARY:
        announce_host(call.params.routine, place_of(call.form))
    begin = time.monotonic()
    buffer = Buffer(call.nbytes)
    if call.size:
        (found,) = interpret([call])
        buffer.as_numpy(call.dtype, call.shape)[...] = found
    call.data = _uploaded(call, buffer) if placed else buffer
    if events.watching:
        for timings in events.watching:
            timings.append(events.Timing(_note(call), begin, time.monotonic()))


def _uploaded(call: Node, buffer: Buffer) -> Buffer:
    from lazyt.runtime.cuda.device import device_at

    return device_at(place_of(call.form)).upload(buffer)


def _note(call: Node) -> dict[str, Any]:
    """What a plan's notes say about a kernel, about a call."""
    if call.op is ops.TRANSFER:
        return _copy_note(call)
    if call.op in _OF_GRAPHS:
        from lazyt.plan.control import loops

        return loops.note(call)
    if call.op.lower == "collective":
        from lazyt.plan.control import collectives

        return collectives.note(call)
    if call.op.lower == "python":
        from lazyt.plan.control import python_calls

        return python_calls.note(call.params.call, call.inputs, call.source)
    from lazyt.plan.control import library_calls

    return library_calls.note(call)


def _copy_note(call: Node) -> dict[str, Any]:
    """The same about a copy between devices."""
    place = call.params.place or "cpu"
    return {
        "name": "copy",
        "kind": "copy",
        "computes": [f"copy to {place} {call.dtype.name}{list(call.shape)}"],
        "bytes_read": call.nbytes,
        "bytes_written": call.nbytes,
        "flops": 0,
        "scratch": 0,
        "phases": 1,
        "reasons": ["values change the device here: plans end before and begin after it"],
        "sources": [] if call.source is None else [source_text(call.source)],
    }
