"""The order of launches: what frees memory runs as soon as it can."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lazyt.ir.decisions import decide
from lazyt.ir.graph import Node
from lazyt.ir.group import Group
from lazyt.passes.lifetimes import WRITING, memory_profile

#: A launch that stores so much less than it reads runs at once, even when it frees nothing yet: it
#: brings the end of what it reads nearer.
_SMALL = 8


def order_groups(groups: Sequence[Group], roots: Sequence[Node]) -> list[Group]:
    """The groups in an order in which less memory is needed at once; the given one where none is
    found. Kernels and results stay as they are.

    Fusion gives the order in which somebody asks for values: all gradients of a chain first, then
    those of the weights, with everything that they read kept until then. Here a group moves
    forward to the launch after which it would free more than it stores. Linear in the number of
    reads. Must run after fusion, before memory is planned.
    """
    ordered = _Order(groups, set(roots)).run()
    asked = set(roots)
    old, new = memory_profile(groups, asked), memory_profile(ordered, asked)
    better = (max(new, default=0), sum(new)) < (max(old, default=0), sum(old))
    return _decided("order", groups, ordered if better else list(groups))


def read_first(
    groups: Sequence[Group], roots: Sequence[Node], owners: Mapping[Node, int]
) -> list[Group]:
    """The groups in an order in which what reads an old value runs before what writes the new one
    over it, as far as that is possible and takes no more memory than it saves.

    ``owners``: inputs whose memory a root may take over, with its number; negative for any root.
    """
    order = list(groups)
    if any(group.again for group in order):  # made just before it is needed, to save memory
        return order
    homes = {node: group for group in order for node in group.stored}
    asked = set(roots)
    readers = {node for group in order for node in group.reads}
    peak: int | None = None  # of the order so far
    for leaf, number in owners.items():
        writer = homes.get(roots[number]) if number >= 0 else None
        if writer is None or leaf not in readers:
            continue
        first = order.index(writer)
        last = max((n for n, g in enumerate(order) if leaf in g.reads), default=first)
        if last <= first:
            continue
        moved, values = [writer], {*writer.stored}
        stay: list[Group] = []
        for group in order[first + 1 : last + 1]:
            if values.isdisjoint(group.reads):
                stay.append(group)
            else:
                moved.append(group)
                values.update(group.stored)
        if any(leaf in group.reads for group in moved[1:]):
            continue
        changed = [*order[:first], *stay, *moved, *order[last + 1 :]]
        if peak is None:
            peak = max(memory_profile(order, asked))
        other = max(memory_profile(changed, asked))
        if other - peak <= leaf.nbytes:
            order, peak = changed, other
    return _decided("read first", groups, order)


def _decided(what: str, groups: Sequence[Group], order: list[Group]) -> list[Group]:
    """The groups in this order, or in that of the size that decides, if it is one of them."""
    number = {group: n for n, group in enumerate(groups)}
    own = tuple(number[group] for group in order)
    taken = decide(what, own)
    if taken == own or sorted(taken) != sorted(own):
        return order
    found = [groups[n] for n in taken]
    homes = {node for group in groups for node in group.stored}
    there: set[Node] = set()
    for group in found:
        if not there.issuperset(group.reads & homes):
            return order
        there.update(group.stored)
    return found


class _Order:
    def __init__(self, groups: Sequence[Group], asked: set[Node]) -> None:
        self.groups = list(groups)
        self.asked = asked
        self.number = {group: n for n, group in enumerate(groups)}
        self.home = {node: group for group in groups for node in group.stored}
        self.readers: dict[Node, list[Group]] = {}
        self.waits: dict[Group, int] = {}
        for group in groups:
            inner = [node for node in group.reads if node in self.home]
            self.waits[group] = len({self.home[node] for node in inner})
            for node in group.reads:
                self.readers.setdefault(node, []).append(group)
        self.left = {node: len(found) for node, found in self.readers.items()}
        self.done: set[Group] = set()
        self.out: list[Group] = []

    def run(self) -> list[Group]:
        """The new order."""
        for group in self.groups:
            if group not in self.done:
                hot = self._launch(group)
                while hot:
                    best = min(hot, key=self.number.__getitem__)
                    hot.discard(best)
                    if best not in self.done and self._pays(best):
                        hot |= self._launch(best)
        return self.out

    def _launch(self, group: Group) -> set[Group]:
        """Puts the group next; returns the groups for which that may have changed something."""
        self.done.add(group)
        self.out.append(group)
        hot: set[Group] = set()
        for node in group.reads:
            self.left[node] -= 1
            if self.left[node] == 1:
                hot.update(g for g in self.readers[node] if g not in self.done)
        followers = {g for node in group.stored for g in self.readers.get(node, ())}
        for other in followers:
            self.waits[other] -= 1
            if self.waits[other] == 0:
                hot.add(other)
        return {other for other in hot if self.waits[other] == 0}

    def _pays(self, group: Group) -> bool:
        """Whether launching the group now frees memory."""
        stored = sum(n.nbytes for n in group.stored if n not in self.asked)
        inner = [n for n in group.reads if n in self.home and n not in self.asked]
        if group.kind in WRITING and group.head is not None:
            base = group.head.inputs[0]  # overwritten by its last reader, else copied
            if self.left.get(base, 1) > 1:
                return False
        freed = sum(n.nbytes for n in inner if self.left[n] == 1)
        return stored < freed or (bool(inner) and _SMALL * stored <= sum(n.nbytes for n in inner))
