"""Takes kernels apart that only a learning rate holds together.

Fusion puts sums over the same rows into one kernel when they read a common value, however small. So
the gradients of all biases and norms of a network, with their updates, may be one kernel: a few
launches less, but nothing that it reads can be freed before the last of it is known, its sums do
not fit the cache together, and no two layers have a kernel in common. Large sums, and where memory
is to be saved all, get launches of their own. The order of a sum does not depend on what else its
kernel computes, so no bit changes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from typing import Any

from lazyt.ir.decisions import decide
from lazyt.ir.graph import Node
from lazyt.ir.group import Group
from lazyt.passes.recipes import Recipe, visited

# Which values to keep over a moment and which to compute again: a minimum cut.
#
# Each value that is needed afterwards is either kept, which costs its bytes, or computed again,
# which costs seconds and needs what its launch reads. Weighing one against the other with a price
# is a problem of choosing with prerequisites (Picard, "Maximal closure of a graph", 1976), and its
# best choice is a minimum cut: for each value there is an edge of its bytes from "needed" to
# "computed again", and from there edges that cannot be cut to its launch and on to what that reads.


_SOURCE, _SINK = "needed", "paid"


class Cutter:
    """The choice at one moment, which may be made at several prices.

    Args:
        needed: values that later launches read.
        recipes: how values can be computed again; those without one are kept.
        weigh: what keeping a value costs; 0 for what is there anyway.
    """

    def __init__(
        self,
        needed: Iterable[Node],
        recipes: dict[Node, Recipe],
        weigh: Callable[[Node], float],
    ) -> None:
        import networkx

        self._networkx = networkx
        self._recipes = recipes
        self.graph: Any = networkx.DiGraph()
        self.graph.add_node(_SOURCE)
        self.graph.add_node(_SINK)
        self._residual: Any = None  # made for the highest price, which bounds what "no limit" is
        self._highest = 0.0
        self.launches: dict[Recipe, float] = {}
        self.values: list[Node] = []
        work, seen = [n for n in needed if weigh(n) > 0], set[Node]()
        for node in work:
            self.graph.add_edge(_SOURCE, (node, "needed"))
        while work:
            node = work.pop()
            if node in seen:
                continue
            seen.add(node)
            self._add(node, weigh(node))
            recipe = recipes.get(node)
            if recipe is not None and recipe not in self.launches:
                self.launches[recipe] = recipe.seconds
                for read in recipe.reads:
                    if weigh(read) > 0:
                        self.graph.add_edge(recipe, (read, "needed"))
                        work.append(read)

    def _add(self, node: Node, weight: float) -> None:
        self.values.append(node)
        recipe = self._recipes.get(node)
        end = _SINK if recipe is None else (node, "again")
        self.graph.add_edge((node, "needed"), end, capacity=weight)
        if recipe is not None:
            self.graph.add_edge(end, recipe)

    def prices(self, count: int) -> list[float]:
        """Prices of a second, in bytes, from where nothing is computed again to where all is."""
        ratios = [
            self.graph.edges[(n, "needed"), (n, "again")]["capacity"] / self._recipes[n].seconds
            for n in self.values
            if n in self._recipes
        ]
        if not ratios:
            return []
        high, low = 2 * max(ratios), min(ratios) / 8
        step = (low / high) ** (1 / max(count - 1, 1))
        return [high * step**n for n in range(count)]

    def lost(self, price: float) -> Collection[Node]:
        """The values to compute again when a second costs as much as ``price`` bytes."""
        for recipe, seconds in self.launches.items():
            self.graph.add_edge(recipe, _SINK, capacity=price * seconds)
            if self._residual is not None:
                self._residual[recipe][_SINK]["capacity"] = price * seconds
        flow = self._networkx.algorithms.flow
        if self._residual is None or price > self._highest:
            self._residual = flow.build_residual_network(self.graph, "capacity")
            self._highest = price
        _, (reached, _) = self._networkx.minimum_cut(
            self.graph, _SOURCE, _SINK, flow_func=flow.boykov_kolmogorov, residual=self._residual
        )
        return [n for n in self.values if (n, "again") in reached]


#: What is this many times smaller than a kernel's domain does not hold its pieces together.
_SMALLER = 64
#: Elements to sum from which on a launch more is the least of it.
_LARGE = 1 << 15


def split_sums(groups: Sequence[Group]) -> list[Group]:
    """As ``split_groups``, for groups with sums of many elements only."""
    return [piece for g in groups for piece in (_pieces(g) if _sums_much(g) else [g])]


def _sums_much(group: Group) -> bool:
    if group.kind != "row":
        return False
    return decide("large", math.prod(a.extent for a in group.parts[0].axes) >= _LARGE)


def split_groups(groups: Sequence[Group]) -> list[Group]:
    """The groups, in their order, with those taken apart whose pieces have only small values in
    common.

    Only groups of maps and reductions with one part; pieces that reduce nothing stay with those
    that do. Must run before the order of launches is chosen.
    """
    return [piece for group in groups for piece in _pieces(group)]


def _pieces(group: Group) -> list[Group]:
    if group.kind not in ("map", "row") or len(group.parts) > 1 or len(group.stored) < 2:
        return [group]
    ends = group.reads.union(group.members)
    reads = {m: {n for n in visited(m, ends) if n in ends} for m in group.members}
    domain = math.prod(axis.extent for axis in group.parts[0].axes)
    found = _decided(group, _components(group, reads, domain // _SMALLER))
    if group.kind == "row":
        reducing = [any(m in group.parts[0].reduces for m in part) for part in found]
        main = reducing.index(True)
        found[main] += [m for part, is_one in zip(found, reducing) if not is_one for m in part]
        found = [part for part, is_one in zip(found, reducing) if is_one]
    if len(found) == 1:
        return [group]
    return [_piece(group, set(part), reads) for part in found]


def _decided(group: Group, own: list[list[Node]]) -> list[list[Node]]:
    """The members in these pieces, or in those of the size that decides."""
    members = list(group.members)
    place = {member: n for n, member in enumerate(members)}
    taken = decide("pieces", tuple(tuple(place[m] for m in piece) for piece in own))
    if sorted(n for piece in taken for n in piece) != list(range(len(members))):
        return own  # of another group
    return [[members[n] for n in piece] for piece in taken]


def _components(group: Group, reads: dict[Node, set[Node]], small: int) -> list[list[Node]]:
    """The members, by what holds them together: they read each other, or a common large value."""
    label: dict[Node, Node] = {}  # towards a common representative

    def find(node: Node) -> Node:
        while label.setdefault(node, node) is not node:
            label[node] = node = label[label[node]]
        return node

    for member, read in reads.items():
        for node in read:
            if node in group.members or node.size > small:
                label[find(node)] = find(member)
    found: dict[Node, list[Node]] = {}
    for member in group.members:
        found.setdefault(find(member), []).append(member)
    return list(found.values())


def _piece(group: Group, members: set[Node], reads: dict[Node, set[Node]]) -> Group:
    """The group that computes some members of another."""
    whole = group.parts[0]
    part = replace(
        whole,
        reduces=[n for n in whole.reduces if n in members],
        outputs=[output for output in whole.outputs if output[0] in members],
    )
    read = set[Node]().union(*(reads[m] for m in members)) - members
    common = len(group.reasons) - len(group.members)  # then one for each member, in order
    lines = dict(zip(group.members, group.reasons[common:], strict=True))
    reason = "a kernel of its own: it has only small values in common with others"
    return replace(
        group,
        parts=[part],
        members={m: place for m, place in group.members.items() if m in members},
        reads=read,
        places={n: at for n, at in group.places.items() if n in read or n in members},
        inside={m: inside for m, inside in group.inside.items() if m in members},
        stored=[m for m in group.stored if m in members],
        reasons=[*group.reasons[:common], reason, *(lines[m] for m in lines if m in members)],
    )


def split_fold(group: Group) -> list[Group]:
    """A group that folds what its rows give, as two: the rows with what is summed, and the fold.
    Others as they are."""
    if group.kind != "row" or len(group.parts) < 2:
        return [group]
    rows, fold = group.parts
    ends = group.reads.union(group.members)
    summed = [node.inputs[0] for node in fold.reduces if node.inputs[0] not in ends]
    reads = {m: {n for n in visited(m, ends) if n in ends} for m in (*group.members, *summed)}
    inside = {m: read & group.members.keys() for m, read in reads.items()}
    first = replace(rows, outputs=[*rows.outputs, *((n, "row") for n in dict.fromkeys(summed))])
    members = {m: (0, extent) for m, (part, extent) in group.members.items() if part == 0}
    members |= dict.fromkeys(summed, (0, "row"))
    last = {m: (0, extent) for m, (part, extent) in group.members.items() if part > 0}
    ends = ends.union(summed)
    found = {m: {n for n in visited(m, ends) if n in ends} for m in last}
    handed = set[Node]().union(*found.values())
    made = []
    for part, own, read in ((first, members, reads), (fold, last, found)):
        outer = set[Node]().union(*(read[m] for m in own)) - own.keys()
        made.append(
            replace(
                group,
                parts=[part],
                members=own,
                reads=outer,
                places={n: at for n, at in group.places.items() if n in outer or n in own},
                inside={m: inside[m] & own.keys() for m in own},
                stored=[m for m in own if m in group.stored or m in handed],
            )
        )
    common = len(group.reasons) - len(group.members)
    made[0].reasons = group.reasons[common:]
    made[1].reasons = ["folds what the rows of a band give"]
    return made
