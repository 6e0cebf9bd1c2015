"""Where a long pending graph repeats itself, so that it can be computed in equal parts.

A loop that nobody looks at makes a graph that grows as long as it goes round. Computed whenever it
has some number of nodes, it would be another graph each time, and one of thousands of nodes. But
the sequence of its nodes has a period, the nodes that one time round makes. Cut after every so many
periods, it is one structure over and over, with one small plan.

Loops whose rounds differ, in their length or by branches, have no period. But some operation comes
again and again, a landmark. Where one is met, what hangs on it is computed, as if the program
looked at it: what lies between two landmarks has few structures.

Finding the period takes several walks through the graph and all that hangs together with it. What
it found is remembered: at which operation of the period a cut takes one walk, as everything lies
below it, and which values to compute.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterable, Iterator, Sequence

from lazyt.ir.graph import NEVER, Head, Node
from lazyt.ir.op import living_nodes
from lazyt.ops.leaves import INPUT
from lazyt.plan.graph_keys import Numbers, key_of

#: About how many nodes are computed at once.
PART = 128
#: How often a graph repeats itself at least, and the fewest nodes of a period.
FEWEST_TIMES, SHORTEST = 6, 4
#: Nodes from one landmark to the next, at most.
FARTHEST = PART // 2
#: Nodes of a period at which a graph may be cut.
_MOST_TRIGGERS = 16
#: Periods at the end of a graph that are left for the next part.
_OPEN = 2


class Period:
    """How graphs repeat themselves.

    Attributes:
        keys: those of the nodes of one period, up to where a graph is cut.
        heads: those of its nodes.
        times: periods from one cut to the next.
        offsets: how far before a cut the values to compute are; empty where that differs.
        triggers: what ``sign`` gives for nodes below which there is all of the periods before.
        built: how many results there are from one cut to the next, as counted by the budget.
        uses: how often a graph was cut so since the period was found, of ``most_uses`` times.
    """

    __slots__ = (
        "built", "heads", "keys", "most_uses", "offsets", "times", "triggers", "uses",
    )  # fmt: skip

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.keys = [key_of(node.head) for node in nodes]
        self.heads = {node.head for node in nodes}
        self.times = max(1, PART // len(self.keys))
        self.offsets: tuple[int, ...] = ()
        self.triggers: set[Numbers] = set()
        self.built = self.margin
        self.uses = self.most_uses = 0

    @property
    def margin(self) -> int:
        """Of how many nodes that follow a cut the next is expected to be one."""
        return len(self.keys) * (self.times + _OPEN + 1)

    def cuts(self, keys: Sequence[int]) -> list[int]:
        """Where to cut a sequence of nodes with these keys: not in the last times round, of which
        the program still holds values that it is about to let go of."""
        own, size = self.keys, len(self.keys)
        last = own[-1]
        ends = [
            i + 1
            for i in range(size - 1, len(keys) - _OPEN * size)
            if keys[i] == last and list(keys[i + 1 - size : i + 1]) == own
        ]
        return ends[self.times - 1 :: self.times]

    def learn(self, order: Sequence[Node], cuts: Sequence[int], parts: Sequence[list[int]]) -> None:
        """Takes note of how a graph was cut: which places of ``order`` are computed up to each."""
        offsets = [tuple([cut - i for i in part]) for cut, part in zip(cuts, parts)]
        common = max(offsets, key=offsets.count)
        covering = _covering(order, cuts[-1], len(self.keys))
        if not common or 2 * offsets.count(common) < len(offsets) or not covering:
            return
        if max(common) <= self.times * len(self.keys):
            self.offsets = common
            self.triggers = {sign(item) for item in covering[-_MOST_TRIGGERS:] if self._cuts(item)}

    def _cuts(self, node: Node) -> bool:
        """Whether the graph of a node alone has this period: it may come in another order."""
        return bool(self.cuts([item.head.key or key_of(item.head) for item in _below(node, set())]))


def _covering(order: Sequence[Node], end: int, size: int) -> list[Node]:
    """Nodes of the last period before ``end``, and of what follows, below which there are all of
    the period before that."""
    begin = end - 2 * size
    if begin < 0:
        return []
    places = {order[i]: i - begin for i in range(begin, len(order))}
    wanted, found = (1 << size) - 1, []
    below: list[int] = []
    for place, i in enumerate(range(begin, len(order))):
        bits = 1 << place if place < size else 0
        for item in order[i].inputs:
            known = places.get(item)
            if known is not None:
                bits |= below[known]
        below.append(bits)
        if place >= size and bits == wanted:
            found.append(order[i])
    return found


def sign(node: Node) -> Numbers:
    """What tells a node from most others of its period."""
    heads = [node.head, *[item.head for item in node.inputs]]
    return tuple([head.key or key_of(head) for head in heads])


def known_parts(node: Node, period: Period) -> list[list[Node]]:
    """What ``find_parts`` gives, where ``node`` is one below which there is everything, and the
    period is that of its graph; else nothing."""
    order = _below(node, set())
    cuts = period.cuts([item.head.key or key_of(item.head) for item in order])
    if not cuts or True in [item.needs_grad for item in order]:
        return []
    if cuts[0] != period.times * len(period.keys):  # the loop has just begun
        return _nodes_of(order, _parts(order, cuts))
    return [[order[cut - offset] for offset in period.offsets] for cut in cuts]


def find_parts(node: Node, known: Sequence[Period]) -> tuple[list[list[Node]], Period] | None:
    """The parts of the pending graph of ``node``, and of all that hangs together with it: what to
    compute for each, one after the other, and by which period. None where it does not repeat
    itself, or a gradient flows through it: then all its values may be needed again.

    ``known``: periods that were found before, the likeliest first.
    """
    order, found = [], None
    if known and not known[0].triggers:
        order = _order_with(node, known[0].heads)
        found = _cut(order, known[:1], False)
    if found is None:
        order = _order_with(node, None)
        found = _cut(order, known)
    if found is None or any(item.needs_grad for item in order):
        return None
    period, cuts = found
    covering = _covering(order, cuts[-1], len(period.keys))
    if covering:  # what it is cut at from then on
        below = _below(node if node in covering else covering[-1], set())
        again = _cut(below, [period, *known])
        if again is not None:
            order, (period, cuts) = below, again
        del below
    del covering  # what refers to nodes counts as the program's use
    parts = _parts(order, cuts)
    if not period.triggers:
        period.learn(order, cuts, parts)
    return _nodes_of(order, parts), period


def _cut(
    order: Sequence[Node], known: Sequence[Period], may_be_new: bool = True
) -> tuple[Period, list[int]] | None:
    """Where to cut a graph, and by which period: one of those that are known, if one is its."""
    if not order:
        return None
    keys = [item.head.key or key_of(item.head) for item in order]
    for period in known:
        cuts = period.cuts(keys)
        if cuts and cuts[-1] - cuts[0] == (len(cuts) - 1) * period.times * len(period.keys):
            return period, cuts
    if not may_be_new:
        return None
    place, size = _find_period(keys, _uses(order)[0])
    if not size:
        return None
    period = Period(order[place - size : place])
    cuts = period.cuts(keys)
    return (period, cuts) if cuts else None


def _parts(order: Sequence[Node], cuts: Sequence[int]) -> list[list[int]]:
    """Which places of ``order`` to compute up to each cut."""
    last, used = _uses(order)
    parts, begin = [], 0
    for cut in cuts:
        # What of earlier parts is used beyond this cut is there by then.
        parts.append([i for i in range(begin, cut) if last[i] >= cut or used[i]])
        begin = cut
    return parts


def _nodes_of(order: Sequence[Node], parts: Sequence[list[int]]) -> list[list[Node]]:
    return [[order[i] for i in part] for part in parts if part]


def _order_with(node: Node, heads: Iterable[Head] | None) -> list[Node]:
    """The pending graph of ``node``, and of all nodes that use a part of it, inputs before users:
    first what the longest chain of nodes ends in.

    ``heads``: of which nodes such are looked for, of all by default.
    """
    seen: set[Node] = set()
    order = _below(node, seen)
    users: dict[Node, list[Node]] = {}
    since = min([item.made for item in order], default=0)
    for item in living_nodes(heads):
        # What is older uses none of it: most of that are graphs that plans are made of.
        if item.made >= since and item.data is None and item not in seen:
            for below in item.inputs:
                users.setdefault(below, []).append(item)
    stack = [item for item in order if item in users]
    alone = len(order)
    while stack:
        for user in users.get(stack.pop(), ()):
            if user not in seen:
                new = _below(user, seen)
                if not _is_of_a_plan(new):
                    order += new
                    stack += new
    if len(order) == alone:
        return order
    depths = _depths(order)
    inner = {below for item in order for below in item.inputs}
    roots = [item for item in order if item not in inner]
    seen, order = set(), []
    for root in sorted(roots, key=lambda item: -depths[item]):
        order += _below(root, seen)
    return order


def _depths(order: Sequence[Node]) -> dict[Node, int]:
    """How many nodes of a graph are one above the other up to each."""
    depths: dict[Node, int] = {}
    for item in order:
        depths[item] = 1 + max([depths.get(below, 0) for below in item.inputs], default=0)
    return depths


def deepest(node: Node) -> Node:
    """Of the pending graph of ``node`` and all that hangs together with it, the end of the longest
    chain."""
    depths = _depths(_order_with(node, None))
    return max(depths, key=depths.__getitem__, default=node)


def _is_of_a_plan(nodes: list[Node]) -> bool:
    """Whether nodes belong to a graph that a plan is made of, over leaves without values: what
    hangs on constants alone may be in it and in the program."""
    return any(item.op is INPUT and item.data is None for node in nodes for item in node.inputs)


def _below(root: Node, seen: set[Node]) -> list[Node]:
    """The pending graph of ``root`` without what was seen, inputs before users. Constants, however
    often repeated, are no part of it: all times round have one in common."""
    order: list[Node] = []
    if root in seen or root.data is not None or root.oldest == NEVER:
        return order
    seen.add(root)
    stack: list[tuple[Node, Iterator[Node]]] = [(root, iter(root.inputs))]
    while stack:
        node, inputs = stack[-1]
        for item in inputs:
            if item not in seen and item.data is None and item.oldest != NEVER:
                seen.add(item)
                stack.append((item, iter(item.inputs)))
                break
        else:
            order.append(node)
            stack.pop()
    return order


def _uses(order: Sequence[Node]) -> tuple[list[int], list[bool]]:
    """The place of the last node that uses each, and whether somebody else refers to it."""
    places = {item: place for place, item in enumerate(order)}
    last, uses = [-1] * len(order), [0] * len(order)
    find = places.get
    for place, item in enumerate(order):
        for below in item.inputs:
            known = find(below)
            if known is not None:
                last[known] = place
                uses[known] += 1
    del item, below
    count = sys.getrefcount
    extra = [count(order[i]) - uses[i] for i in range(len(order))]
    alone = min(extra)
    return last, [each > alone for each in extra]


def _find_period(keys: Sequence[int], last: Sequence[int]) -> tuple[int, int]:
    """Where to cut in the middle of a sequence, so that the fewest values are used beyond, and the
    period there; 0 where there is none."""
    count = len(keys)
    begin, end = count // 4, count - count // 4
    size = _smallest_period(keys[begin:end])
    if not SHORTEST <= size <= count // FEWEST_TIMES:
        return 0, 0
    open_ = _open_values(last)
    best, fewest = 0, count
    for place in range(begin + size, begin + 2 * size):
        if open_[place - 1] < fewest:  # of what comes before it
            best, fewest = place, open_[place - 1]
    return best, size


def is_periodic(node: Node) -> bool:
    """Whether the graph of ``node``, and of all that hangs together with it, repeats itself, if it
    may be cut or not: then it is likely to come back as it is."""
    keys = [item.head.key or key_of(item.head) for item in _order_with(node, None)]
    count = len(keys)
    return _smallest_period(keys[count // 4 : count - count // 4]) <= count // FEWEST_TIMES


def landmarks_of(node: Node) -> frozenset[Numbers]:
    """What ``sign`` gives for the landmarks of the graph of ``node`` and of all that hangs together
    with it: operations that come often all along, on which most hangs, and beyond which the fewest
    values are used. Nothing where there are none."""
    order = _order_with(node, None)
    count = len(order)
    places: dict[Numbers, list[int]] = {}
    for place, item in enumerate(order):
        places.setdefault(sign(item), []).append(place)
    gaps = {
        signed: max([after - place for place, after in itertools.pairwise(at)])
        for signed, at in places.items()
        if at[-1] - at[0] >= count // 2
    }
    nearest = min(gaps.values(), default=count)
    if nearest > FARTHEST:
        return frozenset()
    open_ = _open_values(_uses(order)[0])
    used = {
        signed: sum([open_[place] for place in places[signed]]) / len(places[signed])
        for signed, gap in gaps.items()
        if gap <= 2 * nearest
    }
    found: dict[Numbers, float] = {}
    for signed in sorted(used, key=lambda each: used[each])[:_MOST_TRIGGERS]:
        end = places[signed][-1]
        fits = not found or used[signed] <= min(found.values()) + 0.5
        if fits and 2 * len(_below(order[end], set())) >= end:  # else most goes on behind it
            found[signed] = used[signed]
    return frozenset(found)


def _open_values(last: Sequence[int]) -> list[int]:
    """How many values of the places up to each are used beyond it, given the last use of each."""
    count = len(last)
    change = [0] * (count + 1)
    for place, user in enumerate(last):
        if user > place:
            change[place] += 1
            change[user] -= 1
    return list(itertools.accumulate(change[:count]))


def _smallest_period(keys: Sequence[int]) -> int:
    """The smallest period of a sequence (by Knuth, Morris and Pratt); its length where none is."""
    if not keys:
        return 0
    border = [0] * len(keys)
    length = 0
    for place in range(1, len(keys)):
        while length and keys[place] != keys[length]:
            length = border[length - 1]
        if keys[place] == keys[length]:
            length += 1
        border[place] = length
    return len(keys) - border[-1]
