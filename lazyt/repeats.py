"""Where a long pending graph repeats itself, so that it can be computed in equal parts.

A loop that nobody looks at makes a graph that grows as long as it goes round. Computed whenever it
has some number of nodes, it would be another graph each time, and one of thousands of nodes. But
the sequence of its nodes has a period, the nodes that one time round makes. Cut after every so many
periods, it is one structure over and over, with one small plan.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

from lazyt.graph_keys import key_of
from lazyt.ir.graph import NEVER, Head, Node, topological
from lazyt.ir.heads import living_nodes

#: About how many nodes are computed at once.
PART = 128
#: How often a graph repeats itself at least, and the fewest nodes of a period.
FEWEST_TIMES, SHORTEST = 6, 4
#: Periods at the end of a graph that are left for the next part.
_OPEN = 2
#: Roots whose graphs are compared in size.
_MOST_SIZED = 8


class Period:
    """How graphs repeat themselves.

    Attributes:
        keys: those of the nodes of one period, up to where a graph is cut.
        heads: those of its nodes.
        times: periods from one cut to the next.
    """

    __slots__ = ("heads", "keys", "times")

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.keys = [key_of(node.head) for node in nodes]
        self.heads = {node.head for node in nodes}
        self.times = max(1, PART // len(self.keys))

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


def find_parts(node: Node, known: Period | None) -> tuple[list[list[Node]], Period] | None:
    """The parts of the pending graph of ``node``, and of all that hangs together with it: what to
    compute for each, one after the other, and by which period. None where it does not repeat
    itself, or a gradient flows through it: then all its values may be needed again.

    ``known``: a period that was found before.
    """
    found, cuts, order, last = known, [], [], []
    if found is not None:
        order = _ordered(_roots_with(node, found.heads))
        cuts = found.cuts([key_of(item.head) for item in order])
    if not cuts:
        order = _ordered(_roots_with(node, None))
    if any(item.needs_grad for item in order):
        return None
    last = _last_uses(order)
    if not cuts:
        keys = [key_of(item.head) for item in order]
        place, size = _find_period(keys, last)
        if not size:
            return None
        found = Period(order[place - size : place])
        cuts = found.cuts(keys)
    if found is None or not cuts:
        return None
    used = _in_use(order)
    parts, begin = [], 0
    for cut in cuts:
        parts.append([order[i] for i in range(begin, cut) if last[i] >= cut or used[i]])
        begin = cut
    # Nodes of earlier parts that are used beyond a later cut are there by then.
    return [part for part in parts if part], found


def _roots_with(node: Node, heads: Iterable[Head] | None) -> list[Node]:
    """All pending nodes that no pending node uses, of the graphs that hang together with that of
    ``node``; the one with the largest graph comes first.

    ``heads``: where to look for such, everywhere by default.
    """
    users: dict[Node, list[Node]] = {}
    for item in living_nodes(heads):
        if item.data is None:
            for below in item.inputs:
                if below.data is None and below.oldest != NEVER:
                    users.setdefault(below, []).append(item)
    seen = set(topological([node], _is_no_part))
    stack, roots = list(seen), []
    while stack:
        item = stack.pop()
        if _is_no_part(item):
            continue
        above = users.get(item)
        if not above:
            roots.append(item)
            continue
        for user in above:
            if user not in seen:
                for other in topological([user], lambda n: n in seen or _is_no_part(n)):
                    if other not in seen:
                        seen.add(other)
                        stack.append(other)
    if len(roots) == 1:
        return roots
    sizes = {root: len(topological([root], _is_no_part)) for root in roots[:_MOST_SIZED]}
    return sorted(roots, key=lambda root: -sizes.get(root, 0))


def _is_no_part(node: Node) -> bool:
    """Whether a node is there already, or is a constant, however often repeated: of those all times
    round have one in common."""
    return node.data is not None or node.oldest == NEVER


def _ordered(roots: Sequence[Node]) -> list[Node]:
    return [item for item in topological(roots, _is_no_part) if not _is_no_part(item)]


def _last_uses(order: Sequence[Node]) -> list[int]:
    """The place of the last node that uses each."""
    places = {item: place for place, item in enumerate(order)}
    last = [-1] * len(order)
    for place, item in enumerate(order):
        for below in item.inputs:
            known = places.get(below)
            if known is not None:
                last[known] = place
    return last


def _in_use(order: list[Node]) -> list[bool]:
    """Whether somebody refers to each node who is no node of the graph."""
    uses = dict.fromkeys(map(id, order), 0)
    for item in order:
        for below in item.inputs:
            if id(below) in uses:
                uses[id(below)] += 1
    count = sys.getrefcount
    extra = [count(order[i]) - uses[id(order[i])] for i in range(len(order))]
    alone = min(extra)
    return [each > alone for each in extra]


def _find_period(keys: Sequence[int], last: Sequence[int]) -> tuple[int, int]:
    """Where to cut in the middle of a sequence, so that the fewest values are used beyond, and the
    period there; 0 where there is none."""
    count = len(keys)
    begin, end = count // 4, count - count // 4
    size = _smallest_period(keys[begin:end])
    if not SHORTEST <= size <= count // FEWEST_TIMES:
        return 0, 0
    crossing = [0] * (count + 1)
    for place, user in enumerate(last):
        if user > place:
            crossing[place + 1] += 1
            crossing[user + 1 if user < count else count] -= 1
    open_, best, fewest = 0, 0, count
    for place in range(count):
        open_ += crossing[place]
        if begin + size <= place < begin + 2 * size and open_ < fewest:
            best, fewest = place, open_
    return best, size


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
