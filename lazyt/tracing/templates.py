"""Templates: the graph that a replay computes, with origins in the place of its leaves."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from lazyt.handle.dispatch import one_memory
from lazyt.handle.pending import keep_values
from lazyt.handle.storage import Storage
from lazyt.handle.tape import AccumulateGrad, GradFn, boundaries
from lazyt.handle.tensor import Tensor
from lazyt.ir.graph import Node, make, topological
from lazyt.plan import build, planning
from lazyt.runtime.memory import Buffer
from lazyt.tracing.capture import Recorder, Run, leaf_of
from lazyt.tracing.sources import signature

#: Where a value comes from: ("source", number), ("part", number of an argument), ("call", number),
#: ("constant", node), ("mark", number of the source whose gradient mark it is) or ("output", n).
Origin = tuple[str, Any]


#: A plan, None where there is nothing to compute; origins of its inputs, and those of the roots.
Plan = tuple[planning.Prepared | None, list[Origin], list[Origin]]


class CannotReplay(Exception):
    """The run cannot be replayed; the text says why."""


def node_of(origin: Origin, found: dict[str, Any]) -> Node:
    """The node at ``origin``, where ``found`` has the nodes of each kind of place."""
    kind, value = origin
    node: Node = value if kind == "constant" else found[kind][value]
    return node


def _order(roots: Sequence[Node], origins: dict[Node, Origin]) -> list[Node]:
    """All nodes of the graph over the origins; values computed on the way are forgotten. Graphs of
    other threads may have nodes in common with it, which must not change while they are read."""
    with build.lock:
        order = topological(roots, lambda n: n in origins)
        for node in order:
            if node.inputs and node not in origins:
                node.data = None
    return order


def prepare(
    roots: Sequence[Node], origins: dict[Node, Origin], owners: Mapping[Node, Node]
) -> Plan | None:
    """The plan (None when there is nothing to compute) with the origins of its inputs, and those
    of the roots; None where the graph calls a library.

    ``owners``: leaves whose memory may be taken over, with the root that may.
    """
    plan = None
    inputs: list[Origin] = []
    with build.lock:
        _order(roots, origins)
        wanted = [n for n in dict.fromkeys(roots) if n.data is None and 0 not in n.shape]
        if wanted:
            own = {n: wanted.index(r) for n, r in owners.items() if r in wanted}
            plan = planning.prepare(wanted, own)
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


def run_on_copies(prepared: planning.Prepared, buffers: list[Buffer]) -> list[Buffer]:
    """What a plan computes of buffers that it does not write to, but to copies."""
    for place in prepared.overwritten:
        buffers[place] = buffers[place].copy()
    return prepared.run(buffers)


class Template:
    """A graph over origins: its nodes in order, each an origin or an op on earlier ones."""

    def __init__(self, entries: list[Any], roots: list[int]) -> None:
        self.entries = entries
        self._roots = roots

    def build(self, found: dict[str, Any], storages: Sequence[Storage]) -> list[Node]:
        """The roots over these origins."""
        values: list[Node] = []
        for kind, value in self.entries:
            if kind == "op":
                op, params, inputs = value
                values.append(make(op, tuple([values[i] for i in inputs]), params))
            elif kind == "mark":
                values.append(storages[value].current())
            elif kind == "write":
                number, place = value
                leaf = storages[number].fn
                assert isinstance(leaf, AccumulateGrad)
                values.append(leaf.mark(values[place]))
            else:
                values.append(node_of((kind, value), found))
        return [values[i] for i in self._roots]


def template(roots: Sequence[Node], origins: dict[Node, Origin], run: Run, alive: bool) -> Template:
    """The graph of ``roots`` over ``origins``; with ``alive``, its gradient marks are kept.

    Raises CannotReplay where hooks, custom functions or new leaves stand in it.
    """
    marks = {
        storage.fn.uid: number
        for number, storage in enumerate(run.recorder.storages)
        if isinstance(storage.fn, AccumulateGrad)
    }
    order = _order(roots, origins)
    numbers = {node: number for number, node in enumerate(order)}
    entries: list[Any] = []
    for node in order:
        if node in origins:
            entries.append(origins[node])
        elif node.op.name == "variable" and node.params.uid in marks:
            number = marks[node.params.uid]
            if origins.get(node.inputs[0]) == ("source", number):
                entries.append(("mark", number))
            else:  # a value that was written to the leaf without autograd
                entries.append(("write", (number, numbers[node.inputs[0]])))
        elif node.op.name == "variable" and alive and (node in boundaries or node.needs_grad):
            raise CannotReplay("hooks, custom functions or new leaves stand in its graph")
        elif not node.inputs and (node.data is not None or node.op.name != "const"):
            entries.append(("constant", node))
        else:
            entries.append(("op", (node.op, node.params, [numbers[i] for i in node.inputs])))
    return Template(entries, [numbers[node] for node in roots])


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
