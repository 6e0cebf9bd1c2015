"""A pass over a graph with collectives: parameters are gathered again for backward.

``fully_shard`` divides the parameters of a model among ranks and gathers those of a module, by a
group of collectives, where the module needs them. The graph of a whole step uses what was gathered
in the module's forward and again in its backward: it would hold all parameters of the model in
between, as if nothing was divided. This pass lets the uses of backward read another gather, so that
the memory of the first one is free in between.

A use is a later one if it depends on a group that is at least two behind the one that it reads, as
backward comes through all modules that came after, and so does a module that computes when modules
inside of it have. Where only the next group lies in between, the values stay: they would be
gathered again at once. The other gather stands before the first collective that depends on the
backward of the module after it, and before the next forward, so that it is under way while that
backward is computed.

``windows`` is what holds a gather back: a group is started when the one before it has come in, so
that the parameters of one module are under way while those of one other are computed with. By then
the gradients of the module before that one have been reduced over ranks, too, so that no more than
those of two modules are there as a whole.

What is gathered is the same both times, and so are the bits of all results.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from lazyt.ir.graph import Node, make, remake, topological
from lazyt.ops.leaves import CONST
from lazyt.ops.parallel.collectives import COLLECTIVE, CollectiveParams

__all__ = ["Resharded", "gather_again", "groups_of", "parts_of", "windows"]


class Resharded(NamedTuple):
    """A graph that gathers parameters for each of their uses.

    Attributes:
        roots, calls: what stands for the roots, and the collectives in order.
    """

    roots: list[Node]
    calls: list[Node]


def groups_of(calls: Sequence[Node]) -> list[list[int]]:
    """Numbers of the collectives that gather the parameters of one module, which follow each
    other; the groups in order."""
    found: list[list[int]] = []
    before = 0
    for number, call in enumerate(calls):
        module = call.params.resharded
        if not module:
            continue
        if module != before:
            found.append([])
        found[-1].append(number)
        before = module
    return found


def windows(calls: Sequence[Node]) -> list[int]:
    """Of each collective, those that have to be there before it is started, as bits: for a group,
    the group before, and what other collectives the program made before that one."""
    found, before = [0] * len(calls), 0
    for group in groups_of(calls):
        for number in group:
            found[number] = before
        before = _bits(group) | (1 << group[0]) - 1
    return found


def _bits(numbers: Sequence[int]) -> int:
    return sum(1 << number for number in numbers)


def parts_of(order: Sequence[Node]) -> dict[Node, Node]:
    """What is a gathered value in another form only: casts and views, with the collective.

    Args:
        order: the graph, inputs before users.
    """
    found: dict[Node, Node] = {}
    for node in order:
        if node.data is not None or not node.inputs:
            continue
        if node.op is COLLECTIVE:
            if node.params.resharded:
                found[node] = node
        elif not node.op.heavy:
            bases = {found.get(item) for item in node.inputs if item.op is not CONST}
            base = bases.pop() if len(bases) == 1 else None
            if base is not None:
                found[node] = base
    return found


def gather_again(roots: Sequence[Node], calls: Sequence[Node]) -> Resharded:
    """Gathers parameters again for their later uses.

    Args:
        roots: pending nodes.
        calls: all collectives that they depend on, and others that are run, in order.
    """
    groups = groups_of(calls)
    if len(groups) < 3:
        return Resharded([*roots], [*calls])
    uses = _Uses(roots, calls, groups)
    due: dict[int, list[tuple[int, int]]] = {}
    for key, position in uses.positions().items():
        due.setdefault(position, []).append(key)
    found: list[Node] = []
    count = 0
    for number in range(len(calls) + 1):
        for key in sorted(due.get(number, ()), reverse=True):  # as backward comes to them
            count += 1
            found += [uses.gathered_again(calls[n], key, count) for n in groups[key[0]]]
        if number < len(calls):
            found += uses.renewed([calls[number]])
    return Resharded(uses.renewed(roots), found)


class _Uses:
    """Who computes with gathered parameters, and the graph that gathers them again."""

    def __init__(
        self, roots: Sequence[Node], calls: Sequence[Node], groups: Sequence[Sequence[int]]
    ) -> None:
        self._calls, self._groups = calls, groups
        order = topological([*calls, *roots], lambda node: node.data is not None)
        self._parts = parts_of(order)
        #: Of what computes with gathered values later: which values, with group and reach. The
        #: reach of a use is the last group that it depends on, at least two behind the own one.
        self._later: dict[Node, dict[Node, tuple[int, int]]] = {}
        #: Of each group, the first collective that depends on a use behind another group.
        self._first: dict[int, int] = {}
        self._look(order)
        #: What stands for each node; for values and their forms of a group and a reach, those that
        #: are gathered again.
        self._new: dict[Node, Node] = {}
        self._twins: dict[tuple[int, int], dict[Node, Node]] = {}

    def _look(self, order: Sequence[Node]) -> None:
        number_of = {call: number for number, call in enumerate(self._calls)}
        group_of = {n: place for place, some in enumerate(self._groups) for n in some}
        last: dict[Node, int] = {}  # the last group that a node depends on
        behind: dict[Node, int] = {}  # the groups whose uses behind others it depends on, as bits
        for node in order:
            if node.data is not None or not node.inputs:
                last[node], behind[node] = -1, 0
                continue
            reached = max(last[item] for item in node.inputs)
            marks = 0
            for item in node.inputs:
                marks |= behind[item]
            if node not in self._parts:
                for item in node.inputs:
                    base = self._parts.get(item)
                    if base is not None and (group := group_of[number_of[base]]) < reached:
                        marks |= 1 << group
                        if group + 1 < reached:
                            self._later.setdefault(node, {})[base] = group, reached
            if node.op is COLLECTIVE:
                number = number_of[node]
                for group in range(len(self._groups)):
                    if marks >> group & 1:
                        self._first[group] = min(number, self._first.get(group, number))
                reached = max(reached, group_of.get(number, -1))
            last[node], behind[node] = reached, marks

    def positions(self) -> dict[tuple[int, int], int]:
        """Of each group and reach that needs another gather, before which collective."""
        found = {}
        for group, reach in {key for some in self._later.values() for key in some.values()}:
            end = len(self._calls)
            if reach + 1 < len(self._groups):
                end = self._groups[reach + 1][0]
            first = min(self._first.get(group + 1, end), self._first.get(group, end))
            found[group, reach] = max(min(first, end), self._groups[reach][-1] + 1)
        return found

    def gathered_again(self, call: Node, key: tuple[int, int], number: int) -> Node:
        """Another gather of a collective, for the uses of its group at a reach: gather ``number``
        of those that are made again."""
        params: CollectiveParams = call.params._replace(resharded=-number)
        made = make(COLLECTIVE, tuple(self.renewed(call.inputs)), params)
        made.source = call.source
        self._twins.setdefault(key, {})[call] = made
        return made

    def renewed(self, nodes: Sequence[Node]) -> list[Node]:
        """What stands for nodes, once all is gathered again that they depend on."""
        new = self._new
        for node in topological(nodes, lambda n: n in new or n.data is not None):
            if node in new:
                continue
            if node.data is not None:
                new[node] = node
                continue
            later = self._later.get(node, {})
            inputs = []
            for item in node.inputs:
                key = later.get(self._parts.get(item, item))
                inputs.append(new[item] if key is None else self._twin(item, self._twins[key]))
            new[node] = remake(node, tuple(inputs))
        return [new[node] for node in nodes]

    def _twin(self, part: Node, twins: dict[Node, Node]) -> Node:
        """A form of a gathered value, of what is gathered again."""
        for node in topological([part], twins.__contains__):
            if node not in twins:
                inputs = tuple(twins[item] for item in node.inputs)
                twins[node] = remake(node, inputs) if node in self._parts else node
        return twins[part]
