"""Cuts a graph into groups that become one kernel each.

What it does: goes through the targets (see ``targets.py``) in dependency order and puts each into
an existing group when it can be computed there without reading a neighbour's row, or opens a new
group. Whether it can is found by probing: the target's expression is walked at the group's own
point, and every member that it reads must be read exactly at the point where that is computed.
What it leaves alone: the graph itself. When it must run: last, on a graph in normal form (one axis
per reduction, no markers).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from lazyt.ir.graph import Node, source_text
from lazyt.ir.group import Group, Index, Part
from lazyt.ir.index import Axis, variable
from lazyt.passes.probe import Probe
from lazyt.passes.targets import READ_LIMIT, Targets, is_pointwise

#: Most pointwise operations and buffers of one kernel.
GROUP_WEIGHT = 1500
#: Most multiply-adds in the long functions (sine ...) of a kernel, unless one value has more:
#: compilers take more than proportional time over them (50 sines in one loop: 40 s).
GROUP_COST = 500.0
GROUP_BUFFERS = 60
#: Most values that a kernel reads: compilers compare each pointer with all others (1000: 19 s).
GROUP_READS = 2 * READ_LIMIT

#: What a value reads: each target or input with the indices at which it is read.
Reads = dict[Node, set[Index]]


#: Whether a value may become part of a group's kernel, of those for which that is legal.
Policy = Callable[[Node, Group], bool]


def fuse(
    roots: Sequence[Node], members: int = GROUP_BUFFERS, policy: Policy | None = None
) -> list[Group]:
    """The groups of a graph, of at most so many members, in an order in which they can run.

    ``policy`` is asked before a value joins a group, and of all values of a group before it does.
    """
    return _Fusion(roots, members, policy).run()


def _axes(shape: Sequence[int]) -> tuple[Axis, ...]:
    return tuple(Axis(f"i{n}", extent) for n, extent in enumerate(shape))


class _Fusion:
    def __init__(self, roots: Sequence[Node], members: int, policy: Policy | None) -> None:
        self.policy = policy
        self.targets, self.members = Targets(roots), min(members, GROUP_BUFFERS)
        self.chosen = self.targets.chosen
        self.home: dict[Node, Group] = {}
        self.groups: list[Group] = []
        self.touched: dict[Node, list[Group]] = {}
        self.read_by: dict[Node, set[Node]] = {}
        self.alive: set[int] = set()
        self.reach = Reach()
        self.place = {node: place for place, node in enumerate(self.targets.order)}
        self.probes: dict[tuple[Node, Index], Probe] = {}  # of the node that is placed
        self.walked, self.cost = 0, 0.0  # operations and their cost, of the value last found legal

    def run(self) -> list[Group]:
        for node in self.targets.order:
            if node in self.chosen and node.size > 0:
                self._place(node)
        self._mark_stored()
        return self._sorted()

    # --------------------------------------------------------- choosing a group

    def _place(self, node: Node) -> None:
        self.probes.clear()
        candidates = self._candidates(node)
        for group in candidates:
            if self._join(node, group):
                break
        else:
            self._open(node)
            return
        for other in candidates:
            pair = sorted((self.home[node], other), key=lambda g: -len(g.parts))
            if pair[0] is not pair[1] and other.number in self.alive and self._mergeable(*pair):
                self._merge(pair[0], pair[1], "two kernels over the same rows were joined")

    def _candidates(self, node: Node) -> list[Group]:
        """Groups that compute what the node reads, latest first, then groups that read the same."""
        near: dict[Group, None] = {}
        shared: dict[Group, None] = {}
        seen: set[Node] = {node}
        work = [*node.inputs]
        while work:
            item = work.pop()
            if item in seen:
                continue
            seen.add(item)
            if item in self.home:
                near[self.home[item]] = None
            if item in self.chosen or item.op.name == "input":
                for group in self.touched.get(item, []):
                    shared[group] = None
            else:
                work.extend(item.inputs)
        order = sorted(near, key=lambda g: -g.number)
        order += sorted((g for g in shared if g not in near), key=lambda g: -g.number)
        return order[:8]

    def _join(self, node: Node, group: Group) -> bool:
        """Tries all ways of computing ``node`` in ``group``; True when one was legal."""
        if len(group.members) >= self.members:
            return False
        if self.policy is not None and not self.policy(node, group):
            return False
        name = node.op.name
        if is_pointwise(node):
            if group.kind not in ("map", "row", "contract"):
                return False
            for number, part in reversed(list(enumerate(group.parts))):
                extents = ["full"] if part.inner is None else ["row", "full"]
                for extent in extents:
                    index = self._fit(node, part, extent)
                    if index is not None and self._admit(node, node, index, group, number, extent):
                        return True
            return False
        if name == "reduce" and group.kind in ("map", "row"):
            return self._join_reduce(node, group)
        if name == "custom":
            return self._join_custom(node, group)
        return name == "sort" and self._join_sort(node, group)

    def _join_custom(self, node: Node, group: Group) -> bool:
        """All results of one call of a user's kernel come from one launch."""
        head = group.head
        if head is None or head.op is not node.op or head.inputs != node.inputs:
            return False
        if head.params._replace(result=0) != node.params._replace(result=0):
            return False
        self._enter(node, group, 0, "full", {r: set() for r in group.reads})
        group.reasons.append("one launch of the kernel gives several results")
        return True

    def _join_sort(self, node: Node, group: Group) -> bool:
        """The permutation and the values that it leads to are found together."""
        head = group.head
        if head is None or head.op is not node.op or head.inputs != node.inputs:
            return False
        if head.params.descending != node.params.descending:
            return False
        self._enter(node, group, 0, "full", {r: set() for r in group.reads})
        group.reasons.append("values and positions come from one sort")
        return True

    def _fit(self, node: Node, part: Part, extent: str) -> Index | None:
        axes = part.axes if extent == "full" else part.rows
        size = math.prod(axis.extent for axis in axes)
        return part.place(node.shape, extent) if size == node.size else None

    def _join_reduce(self, node: Node, group: Group) -> bool:
        source, axis = node.inputs[0], node.params.axes[0]
        last = len(group.parts) - 1
        part = group.parts[last]
        trial = Part(_axes(source.shape), axis)
        if part.inner is not None:
            if part.extents() == trial.extents():
                index = part.place(source.shape, "full")
                if self._admit(node, source, index, group, last, "row"):
                    part.reduces.append(node)
                    return True
            return self._finish(node, group, part)
        return len(group.parts) == 1 and self._upgrade(node, group, trial)

    def _upgrade(self, node: Node, group: Group, trial: Part) -> bool:
        """Turns a map group into a row group over the reduction's domain."""
        source = node.inputs[0]
        old = group.parts[0]
        if any(self._fit(m, trial, "full") is None for m in group.members):
            return False
        group.parts[0] = trial
        trial.outputs = old.outputs
        if self._admit(node, source, trial.place(source.shape, "full"), group, 0, "row"):
            group.kind = "row"
            trial.reduces.append(node)
            return True
        group.parts[0] = old
        return False

    def _finish(self, node: Node, group: Group, part: Part) -> bool:
        """A reduction over the rows' results becomes a second part of the same kernel."""
        source, axis = node.inputs[0], node.params.axes[0]
        size = math.prod(row.extent for row in part.rows)
        if len(group.parts) > 1 or source.size != size or size == 0:
            return False
        index = part.place(source.shape, "row")
        reads = self._legal(node, source, index, group, len(group.parts) - 1)
        if reads is None or not any(r in group.members for r in reads):
            return False
        group.parts.append(Part(_axes(source.shape), axis, [node]))
        self._enter(node, group, len(group.parts) - 1, "row", reads)
        group.reasons.append("the final fold over the rows runs in the same kernel")
        return True

    # ------------------------------------------------------------- merging

    def _mergeable(self, group: Group, other: Group) -> bool:
        """Whether two groups over one domain can be one kernel: neither waits for the other
        by way of a third, and what one reads of the other it reads at the same point."""
        if group.kind != "row" or other.kind != "row":
            return False
        first, second = group.parts[0], other.parts[0]
        same = tuple(a.extent for a in first.axes) == tuple(a.extent for a in second.axes)
        if not same or first.inner is None or first.inner != second.inner:
            return False
        large = len(group.members) + len(other.members) > self.members
        if len(other.parts) > 1 or large or len(group.reads | other.reads) > GROUP_READS:
            return False
        if group.weight + other.weight > GROUP_WEIGHT or group.cost + other.cost > GROUP_COST:
            return False
        policy = self.policy
        if policy is not None and not all(policy(node, group) for node in other.members):
            return False
        return not self._waits(group, other) and not self._waits(other, group)

    def _waits(self, group: Group, other: Group) -> bool:
        """Whether ``group`` depends on ``other`` through a third group, or reads a neighbour."""
        for read in group.reads:
            home = self.home.get(read)
            if home is other:
                if not self._same_point(group, other, read):
                    return True
            elif home is not None and home is not group and self.reach.depends(home, other):
                return True
        return False

    def _same_point(self, group: Group, other: Group, read: Node) -> bool:
        part, extent = other.members[read]
        place = other.parts[part].place(read.shape, extent)
        return part == 0 and all(at == place for at in group.places.get(read, ()))

    def _merge(self, group: Group, other: Group, why: str) -> None:
        """Moves everything of ``other`` into ``group``."""
        first, second = group.parts[0], other.parts[0]
        order = self.place
        first.reduces = sorted([*first.reduces, *second.reduces], key=order.__getitem__)
        first.outputs = sorted([*first.outputs, *second.outputs], key=lambda o: order[o[0]])
        members = {**group.members, **other.members}
        group.members = dict(sorted(members.items(), key=lambda m: order[m[0]]))
        for node, inside in other.inside.items():
            group.inside[node] = inside
        for at, places in other.places.items():
            group.places.setdefault(at, set()).update(places)
        group.reads |= other.reads
        for node in list(group.reads):
            if node in group.members:
                group.reads.discard(node)
        for node in group.members:
            group.inside[node] = {r for r in self.read_by[node] if r in group.members}
        group.weight += other.weight
        group.cost += other.cost
        group.reasons += other.reasons
        for node in other.members:
            self.home[node] = group
        for read in {read for node in other.members for read in self.read_by[node]}:
            self.touched[read] = [group if g is other else g for g in self.touched[read]]
        self.alive.discard(other.number)
        self.reach.merge(group, other)
        group.reasons.append(why)

    # ------------------------------------------------------------ legality

    def _legal(
        self, node: Node, start: Node, index: Index, group: Group, part: int
    ) -> Reads | None:
        """What ``node`` reads when ``start`` is computed at ``index`` of a part, if legal."""
        probe = self._probe(node, start, index)
        large = group.weight + probe.count > GROUP_WEIGHT or group.cost + probe.cost > GROUP_COST
        if large and group.members:
            return None
        reads: Reads = {}
        for item, where, _ in probe.reads:
            reads.setdefault(item, set()).add(where)
            if item not in group.members:
                continue
            home, _ = group.members[item]
            # A later part's values are not there yet; those of this part only at its own point.
            if home > part or (home == part and where != group.place(item)):
                return None
        if group.members and len(group.reads.union(reads)) > GROUP_READS:
            return None
        for item in reads:
            other = self.home.get(item)
            if other is not None and other is not group and self.reach.depends(other, group):
                return None
        self.walked, self.cost = probe.count, probe.cost
        return reads

    def _probe(self, node: Node, start: Node, index: Index) -> Probe:
        """The walk from ``start`` at an index: one for all groups that ``node`` could join."""
        found = self.probes.get((start, index))
        if found is None:
            self.probes[start, index] = found = Probe(self.chosen.__contains__)
            if start is not node and (start in self.chosen or start.op.name == "input"):
                found.reads.append((start, index, False))
            else:
                found.run(start, index)
        return found

    def _admit(
        self, node: Node, start: Node, index: Index, group: Group, part: int, extent: str
    ) -> bool:
        reads = self._legal(node, start, index, group, part)
        if reads is None:
            return False
        if group.kind == "contract" and not any(r in group.members for r in reads):
            return False
        if start is node:
            group.parts[part].outputs.append((node, extent))
        self._enter(node, group, part, extent, reads)
        return True

    def _enter(self, node: Node, group: Group, part: int, extent: str, reads: Reads) -> None:
        group.members[node] = (part, extent)
        group.weight += self.walked
        group.cost += self.cost
        self.walked, self.cost = 0, 0.0
        group.inside[node] = {r for r in reads if r in group.members}
        group.reads |= {r for r in reads if r not in group.members}
        self.read_by[node] = set(reads)
        for item, places in reads.items():
            group.places.setdefault(item, set()).update(places)
        self.home[node] = group
        self.reach.reads(group, {self.home[r] for r in reads if r in self.home})
        for item in reads:
            self.touched.setdefault(item, []).append(group)

    # --------------------------------------------------------- new groups

    def _open(self, node: Node) -> None:
        name = node.op.name
        if is_pointwise(node):
            group = self._new("map", Part(_axes(node.shape)))
            admitted = self._admit(
                node, node, group.parts[0].place(node.shape, "full"), group, 0, "full"
            )
        elif name == "reduce":
            source = node.inputs[0]
            group = self._new("row", Part(_axes(source.shape), node.params.axes[0], [node]))
            index = group.parts[0].place(source.shape, "full")
            admitted = self._admit(node, source, index, group, 0, "row")
        else:
            group = self._new(name, Part(_axes(node.shape)))
            group.head = node
            reads: Reads = {r: set() for i in node.inputs for r in self._natural_reads(i)}
            self._enter(node, group, 0, "full", reads)
            if name == "scatter":
                self._scan_along(node, group)
            admitted = True
        assert admitted

    def _scan_along(self, node: Node, group: Group) -> None:
        """Moves a scan into a scatter's kernel where it says to which place each step writes: one
        loop does both, as counts of what is kept and its places are found."""
        base, index, updates = node.inputs
        scans = [i for i in self._natural_reads(index) if i.op.name == "scan"]
        if len(scans) != 1 or not len(base.shape) == len(scans[0].shape) == len(index.shape) == 1:
            return
        (scan,) = scans
        other = self.home[scan]
        if scan in self._natural_reads(base) | self._natural_reads(updates):
            return
        if scan.shape != index.shape or len(group.reads | other.reads) > GROUP_READS:
            return
        step = (variable(Axis("s", index.shape[0])),)
        if any(item is scan and at != step for item, at, _ in self._probe(node, index, step).reads):
            return
        homes = [self.home[item] for item in group.reads if item in self.home]
        if any(home is not other and self.reach.depends(home, other) for home in homes):
            return
        if self.policy is not None and not self.policy(scan, group):
            return
        self._merge(group, other, "the scan says where the scatter writes: one loop does both")

    def _new(self, kind: str, part: Part) -> Group:
        group = Group(kind, len(self.groups), [part])
        self.groups.append(group)
        self.alive.add(group.number)
        self.reach.add(group)
        return group

    def _natural_reads(self, node: Node) -> set[Node]:
        """Targets and inputs that an operand's expression reads."""
        found: set[Node] = set()
        seen: set[Node] = set()
        work = [node]
        while work:
            item = work.pop()
            if item in seen:
                continue
            seen.add(item)
            if item in self.chosen or item.op.name == "input":
                found.add(item)
            else:
                work.extend(item.inputs)
        return found

    # -------------------------------------------------------------- finish

    def _mark_stored(self) -> None:
        """Members that are results, or read by another group, go to memory."""
        self.groups = [g for g in self.groups if g.number in self.alive]
        needed = set(self.targets.roots)
        for group in self.groups:
            needed |= group.reads
        for group in self.groups:
            group.stored = [m for m in group.members if m in needed]
            for member in group.members:
                where = source_text(member.source)
                kept = "stored" if member in needed else "stays inside"
                reason = f"{member.op.name} {list(member.shape)} ({where}): {self.chosen[member]}"
                group.reasons.append(f"{reason}; {kept}")

    def _sorted(self) -> list[Group]:
        """Groups in dependency order (creation order among the independent)."""
        order: list[Group] = []
        done: set[int] = set()
        for root in self.groups:
            stack = [root]
            while stack:
                group = stack[-1]
                if group.number in done:
                    stack.pop()
                    continue
                waiting = [
                    self.home[r]
                    for r in group.reads
                    if r in self.home
                    and self.home[r] is not group
                    and self.home[r].number not in done
                ]
                if waiting:
                    stack.extend(sorted(set(waiting), key=lambda g: -g.number))
                    continue
                done.add(group.number)
                order.append(group)
                stack.pop()
        return order


# Which groups wait for which others, kept up to date while groups grow.
#
# What stands above a group is a set of bits in one integer, so that a question is one operation. A
# search through the groups for every question took more time than all else in graphs of thousands.


class Reach:
    """The order that reading imposes on groups."""

    def __init__(self) -> None:
        self._bits: dict[Group, int] = {}  # of the group, and of those merged into it
        self._above: dict[Group, int] = {}
        self._read: set[Group] = set()

    def add(self, group: Group) -> None:
        """A new group, which reads nothing yet."""
        self._bits[group] = 1 << len(self._bits)  # none is ever taken out
        self._above[group] = 0

    def reads(self, group: Group, others: Iterable[Group]) -> None:
        """Notes that a group reads results of others."""
        found = 0
        for other in others:
            if other is not group:
                found |= self._above[other] | self._bits[other]
                self._read.add(other)
        self._extend(group, found)

    def merge(self, group: Group, other: Group) -> None:
        """Notes that ``other`` has become part of ``group``."""
        self._bits[group] |= self._bits[other]
        # Its bits stay in the one that has them now, its place among the groups is given up.
        found = self._above.pop(other)
        self._bits[other] = 0
        if other in self._read:
            self._read.add(group)
        self._above[group] &= ~self._bits[group]
        self._extend(group, found, always=True)

    def depends(self, group: Group, on: Group) -> bool:
        """Whether ``group`` needs, directly or not, a result of ``on``, or is it."""
        return group is on or bool(self._above[group] & self._bits[on])

    def _extend(self, group: Group, found: int, always: bool = False) -> None:
        mine = self._bits[group]
        found &= ~mine
        if not always and not found & ~self._above[group]:
            return
        self._above[group] |= found
        if group in self._read:
            found = self._above[group]
            for other, above in self._above.items():
                if above & mine:
                    self._above[other] = above | found | mine
