"""Where a long pending graph repeats itself, so that it can be computed in equal parts.

A loop that nobody looks at makes a graph that grows as long as it goes round. Computed whenever it
has some number of nodes, it would be another graph each time, and one of thousands of nodes. But
the sequence of its nodes has a period, the nodes that one time round makes. Cut after every so many
periods, it is one structure over and over, with one small plan.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence

from lazyt.graph_keys import key_of
from lazyt.ir.graph import NEVER, Head, Node
from lazyt.ir.heads import living_nodes
from lazyt.ops.leaves import INPUT

#: About how many nodes are computed at once.
PART = 128
#: How often a graph repeats itself at least, and the fewest nodes of a period.
FEWEST_TIMES, SHORTEST = 6, 4
#: Periods at the end of a graph that are left for the next part.
_OPEN = 2


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
    found, cuts = known, []
    order: list[Node] = []
    if found is not None:
        order = _order_with(node, found.heads)
        cuts = found.cuts([key_of(item.head) for item in order])
    if not cuts:
        order = _order_with(node, None)
    if any(item.needs_grad for item in order):
        return None
    last, used = _uses(order)
    if not cuts:
        keys = [key_of(item.head) for item in order]
        place, size = _find_period(keys, last)
        if not size:
            return None
        found = Period(order[place - size : place])
        cuts = found.cuts(keys)
    if found is None or not cuts:
        return None
    parts, begin = [], 0
    for cut in cuts:
        # What of earlier parts is used beyond this cut is there by then.
        parts.append([order[i] for i in range(begin, cut) if last[i] >= cut or used[i]])
        begin = cut
    return [part for part in parts if part], found


def _order_with(node: Node, heads: Iterable[Head] | None) -> list[Node]:
    """The pending graph of ``node``, and of all nodes that use a part of it, inputs before users:
    first what the longest chain of nodes ends in.

    ``heads``: of which nodes such are looked for, of all by default.
    """
    seen: set[Node] = set()
    order = _below(node, seen)
    users: dict[Node, list[Node]] = {}
    for item in living_nodes(heads):
        if item.data is None and item not in seen:
            for below in item.inputs:
                users.setdefault(below, []).append(item)
    if not users:
        return order
    stack = [item for item in order if item in users]
    while stack:
        for user in users.get(stack.pop(), ()):
            if user not in seen:
                new = _below(user, seen)
                if not _is_of_a_plan(new):
                    order += new
                    stack += new
    depths: dict[Node, int] = {}
    for item in order:
        depths[item] = 1 + max([depths.get(below, 0) for below in item.inputs], default=0)
    inner = {below for item in order for below in item.inputs}
    roots = [item for item in order if item not in inner]
    seen, order = set(), []
    for root in sorted(roots, key=lambda item: -depths[item]):
        order += _below(root, seen)
    return order


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


def _uses(order: list[Node]) -> tuple[list[int], list[bool]]:
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
