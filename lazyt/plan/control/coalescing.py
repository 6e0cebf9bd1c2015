"""A pass over a graph with collectives: several small ones become one.

A small message costs a rank as much as one of some kilobytes, so that a step that sums up ten
numbers over ranks, each by itself, waits ten times for what it could have at once. Collectives are
coalesced that gather the same dtype over the same group for the same reduction, and of which none
depends on another. Their operands travel side by side as one row, and every value is taken out of
what arrives. Sums over ranks are a graph on what was gathered (``ops/parallel/sums.py``), which
stays as it is: each element is still added up along its tree, so no bit changes.

All ranks have to coalesce the same, and to run what was coalesced at the same calls. That is what
programs are that do the same on all ranks; others may replay on one rank what another runs as
always, which only works with separate collectives. So programs have to say it:
``config.coalesce_collectives``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, NamedTuple

from lazyt.ir.forms import place_of
from lazyt.ir.graph import Node, make, remake, source_text, topological
from lazyt.ops import builders as build
from lazyt.ops.parallel.collectives import COLLECTIVE, CollectiveParams
from lazyt.plan.control.collectives import written

#: Up to this many bytes of each rank travel as one message.
LARGEST = 32 << 10

__all__ = ["LARGEST", "Coalesced", "coalesce"]


class Coalesced(NamedTuple):
    """A graph whose small collectives are coalesced.

    Attributes:
        roots, calls: what stands for the roots, and the collectives in order.
        members: of each collective that stands for several, what these are, and their lines.
    """

    roots: list[Node]
    calls: list[Node]
    members: Mapping[Node, list[tuple[str, str]]]


class _Set:
    """Collectives that become one.

    Attributes:
        calls: which, in order.
        nbytes: what a rank sends.
    """

    def __init__(self) -> None:
        self.calls: list[Node] = []
        self.nbytes = 0


def coalesce(roots: Sequence[Node], calls: Sequence[Node]) -> Coalesced:
    """Coalesces small collectives: each set of them stands where its last one stood.

    Args:
        roots: pending nodes.
        calls: all collectives that they depend on, and others that are run, in order.
    """
    sets = _sets(calls)
    ends = {found.calls[-1]: found for found in sets}
    inside = {call for found in sets for call in found.calls}
    new: dict[Node, Node] = {}
    order: list[Node] = []
    members: dict[Node, list[tuple[str, str]]] = {}
    for call in calls:
        if call in ends:
            some = ends[call].calls
            whole, parts = _one_of(some, _renewed([c.inputs[0] for c in some], new))
            new.update(zip(some, parts, strict=True))
            members[whole] = [(written(c), source_text(c.source)) for c in some]
            order.append(whole)
        elif call not in inside:
            order += _renewed([call], new)
    return Coalesced(_renewed(roots, new), order, members)


def _sets(calls: Sequence[Node]) -> list[_Set]:
    """The sets of at least two. A set is closed by a collective that depends on one of it, as that
    comes behind all of the set."""
    needs = _needs(calls)
    open_sets: dict[Any, _Set] = {}
    found: list[_Set] = []
    for call in calls:
        for known in [k for k, s in open_sets.items() if not needs[call].isdisjoint(s.calls)]:
            del open_sets[known]
        params: CollectiveParams = call.params
        nbytes = call.inputs[0].nbytes
        if params.kind != "all_gather" or params.resharded or not 0 < nbytes <= LARGEST:
            continue
        key = params.group, params.lane, params.reduction, call.dtype, place_of(call.form)
        some = open_sets.get(key)
        if some is None or some.nbytes + nbytes > LARGEST:
            some = open_sets[key] = _Set()
            found.append(some)
        some.calls.append(call)
        some.nbytes += nbytes
    return [some for some in found if len(some.calls) > 1]


def _needs(calls: Sequence[Node]) -> dict[Node, frozenset[Node]]:
    """Of each node, the collectives that its operands depend on."""
    found: dict[Node, frozenset[Node]] = {}
    nothing: frozenset[Node] = frozenset()
    for node in topological(calls, lambda n: n.data is not None):
        inputs = () if node.data is not None else node.inputs
        some = nothing
        for item in inputs:
            some |= found[item]
            if item.op is COLLECTIVE and item.data is None:
                some |= {item}
        found[node] = some
    return found


def _renewed(nodes: Sequence[Node], new: dict[Node, Node]) -> list[Node]:
    """Nodes on what stands for their inputs."""
    for node in topological(nodes, lambda n: n in new or n.data is not None):
        if node in new:
            continue
        done = node.data is not None
        new[node] = node if done else remake(node, tuple(new[item] for item in node.inputs))
    return [new[node] for node in nodes]


def _one_of(calls: Sequence[Node], operands: Sequence[Node]) -> tuple[Node, list[Node]]:
    """The collective that stands for several, and the value of each."""
    params: CollectiveParams = calls[-1].params
    sizes = [prod(node.shape) for node in operands]
    flat = [build.reshape(node, (n,)) for node, n in zip(operands, sizes)]
    text = f"{len(calls)} collectives as one"
    whole = make(COLLECTIVE, (build.concat(flat, 0),), params._replace(written=text))
    whole.source = calls[0].source
    rows = build.reshape(whole, (params.size, sum(sizes)))
    parts, start = [], 0
    for call, n in zip(calls, sizes):
        part = build.slice_(rows, (0, start), (params.size, n), (1, 1))
        parts.append(build.reshape(part, call.shape))
        start += n
    return whole, parts
