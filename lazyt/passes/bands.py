"""Joins launches that hand rows to each other into one that keeps some rows in cache at a time.

What it does: starts at a contraction and goes on with what reads its rows, row by row: maps and
reductions along a row, and contractions of which the row is an operand (attention: scores, softmax,
weighted values). One launch then does all of that for a band of rows before it begins the next, so
that a value which only the band reads is never whole. Whether a group can join is found by looking
at indices: it must read each value of the band in its own row, and not wait for the band by way of
another launch. Each group computes what it computed alone, in the same order: no bit changes.
What it leaves alone: bands without a value that is larger than the cache, and those whose other
operands cost more to keep at hand than that saves. When it must run: after fusion, before launches
are ordered; for targets that run bands.
"""

from __future__ import annotations

import functools
import heapq
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from lazyt.ir.factorizations.sizes import is_whole
from lazyt.ir.graph import Node
from lazyt.ir.group import (
    BLOCK_ROWS,
    PANELS,
    BandStage,
    Group,
    Index,
    in_own_row,
    is_share,
    row_of,
)
from lazyt.ir.index import Axis, Linear, axes_of, variable
from lazyt.ir.kernel import Bands
from lazyt.passes.probe import Probe
from lazyt.passes.splitting import split_fold

# What a group is as a stage of a band: its rows, what it reads in its own, what it needs whole.
#
# A fact about one group and its indices; which stages make a band is decided in ``bands.py``.


#: Least rows, columns and summed elements of a contraction in a band: less does not fill a tile.
LEAST_ROWS, LEAST_COLUMNS, LEAST_INNER = 16, 8, 8


@dataclass(frozen=True, eq=False)
class Stage:
    """What a group is as a stage of a band: its rows (of a ``row`` group all are ``points``), the
    number of a row at a point of it, and the axes of a contraction."""

    stage: BandStage
    bands: Bands
    row: Linear
    sides: _Sides | None = None

    def matches(self, bands: Bands) -> bool:
        """Whether it goes over a band's rows; of a row group only their number counts."""
        if self.sides is None:
            return self.bands.points == bands.points * bands.rows
        return self.bands == bands

    @functools.cached_property
    def reads(self) -> frozenset[Node]:
        """Values that it reads at most in its own row."""
        group, rows = self.stage.group, self.bands.points * self.bands.rows
        elsewhere: set[Node] = set()
        if self.sides is not None:
            read = _operand_reads(self.stage, self.sides)
            mine, others = read[self.stage.exchanged], read[not self.stage.exchanged]
            elsewhere = {node for node, _ in others}
            elsewhere |= {n for n, at in mine if not in_own_row(at, n.shape, self.row, rows)}
        left = group.reads - elsewhere
        return frozenset(node for node in left if _reads_own(group, node, self.row, rows))

    @functools.cached_property
    def own(self) -> frozenset[Node]:
        """Values that it stores by the row that computes them."""
        group, rows = self.stage.group, self.bands.points * self.bands.rows
        stored = ((node, group.place(node)) for node in group.stored)
        return frozenset(n for n, at in stored if in_own_row(at, n.shape, self.row, rows))


def as_stage(group: Group, exchanged: bool) -> Stage | None:
    """A group as a stage, None where it cannot be one."""
    stage = BandStage(group, exchanged)
    if group.kind == "row" and not exchanged:
        part = group.parts[0]
        if len(group.parts) > 1 or part.inner != len(part.axes) - 1:
            return None
        bands = Bands(math.prod(axis.extent for axis in part.rows), 1)
        return Stage(stage, bands, row_of(part.rows))
    if group.kind != "contract":
        return None
    sides = _sides(stage)
    if not sides.fits:
        return None
    bands = Bands(*(math.prod(a.extent for a in g) for g in (sides.batch, sides.rows)))
    return Stage(stage, bands, row_of((*sides.batch, *sides.rows)), sides)


def _reads_own(group: Group, node: Node, row: Linear, rows: int) -> bool:
    """Whether a group's pointwise part reads a value in its own row wherever it does."""
    return all(in_own_row(at, node.shape, row, rows) for at in group.places.get(node, ()))


@dataclass(frozen=True)
class _Sides:
    """The axes of a contraction, rows and columns exchanged where it is; ``names`` has all by label
    and ``inner`` is the number of products in a sum."""

    batch: tuple[Axis, ...]
    rows: tuple[Axis, ...]
    columns: tuple[Axis, ...]
    inner: int
    names: dict[int, Axis]
    fits: bool


def _sides(stage: BandStage) -> _Sides:
    head = stage.group.head
    assert head is not None
    params, axes = head.params, stage.group.parts[0].axes
    names = {label: axes[n] for n, label in enumerate(params.out)}
    inner = 1
    for position, label in enumerate(params.left):
        if label not in names:
            names[label] = Axis(f"k{len(names)}", head.inputs[0].shape[position])
            inner *= names[label].extent
    both = set(params.left) & set(params.right)
    batch = tuple(names[x] for x in params.out if x in both)
    rows = tuple(names[x] for x in params.out if x not in both and x in params.left)
    columns = tuple(names[x] for x in params.out if x not in both and x in params.right)
    if stage.exchanged:
        rows, columns = columns, rows
    sizes = [math.prod(a.extent for a in group) for group in (rows, columns)]
    fits = sizes[0] >= LEAST_ROWS and sizes[1] >= LEAST_COLUMNS and inner >= LEAST_INNER
    return _Sides(batch, rows, columns, inner, names, fits and not _slides(stage.group))


def panel_bytes(stage: BandStage) -> int:
    """Bytes of a contraction's right operand at one point."""
    head = stage.group.head
    if head is None:
        return 0
    sides = _sides(stage)
    width = math.prod(axis.extent for axis in sides.columns)
    return width * sides.inner * head.dtype.compute.itemsize


def _slides(group: Group) -> bool:
    """Whether a contraction reads windows: convolutions have forms of their own."""
    assert group.head is not None
    work, seen = [*group.head.inputs], set[Node]()
    while work:
        item = work.pop()
        if item.op.name == "window":
            return True
        if item not in seen and item not in group.reads:
            seen.add(item)
            work.extend(item.inputs)
    return False


def _operand_reads(stage: BandStage, sides: _Sides) -> list[list[tuple[Node, Index]]]:
    """What the operands of a contraction read, and where: of the left one, of the right one."""
    group, head = stage.group, stage.group.head
    assert head is not None
    found = []
    for item, labels in zip(head.inputs, (head.params.left, head.params.right), strict=True):
        place = tuple(variable(sides.names[x]) for x in labels)
        probe = Probe(group.reads.__contains__)
        if item in group.reads or item.op.name == "input":
            probe.reads.append((item, place, False))
        else:
            probe.run(item, place)
        found.append([(node, where) for node, where, _ in probe.reads])
    return found


#: Bands that are in work at the same time, for what they need besides.
_AT_ONCE = 4
#: Times smaller that results have to be for a stage that only reads what is stored anyway.
LESS = 4
#: Stages that a band has at the most while it grows: what comes later is out of cache by then.
_MOST = 32
#: Groups that are looked at in search of a way around a band.
_PATIENCE = 400


def join_bands(groups: Sequence[Group], roots: Sequence[Node], cache: int) -> list[Group]:
    """The groups, some of them joined, in an order in which they can run.

    ``cache``: bytes of a core's own cache.
    """
    pieces = {group: split_fold(group) for group in groups}
    split = [piece for group in groups for piece in pieces[group]]
    search = _Search(split, set(roots), cache)
    found: list[_Band] = []
    taken: set[Group] = set()
    for group in split:
        if group.kind == "contract" and group not in taken:
            band = search.best(group, taken)
            if band is not None:
                found.append(band)
                taken |= band.groups
    if not found:
        return list(groups)
    whole = {g: made if taken.intersection(made) else [g] for g, made in pieces.items()}
    mixed = [piece for group in groups for piece in whole[group]]
    ordered = _in_order(mixed, [band.join() for band in found])
    if sum(max(1, len(g.stages)) for g in ordered) == len(mixed):
        return ordered
    for band in found:
        for stage in band.stages:
            stage.group.reasons.append("no band: those of this plan would wait for each other")
    return list(groups)


@dataclass(eq=False)
class _Band:
    """A band under construction.

    Attributes:
        bands: its rows.
        stages: what it is made of.
        groups: their groups.
        own: values that are stored by the row that computes them, and so can be read in the band.
        saved: values that nobody else reads.
    """

    bands: Bands
    stages: list[BandStage]
    groups: set[Group]
    own: set[Node]
    saved: list[Node] = field(default_factory=list)

    @property
    def rows(self) -> int:
        """All rows."""
        return self.bands.points * self.bands.rows

    def reason(self) -> str:
        """Why its launches are one."""
        names = ", ".join(f"{n.dtype.name}{list(n.shape)}" for n in self.saved)
        what = "matrices" if self.bands.rows == 1 else "rows"
        return (
            f"a band: {len(self.stages)} launches run as one, some of {self.rows} {what} at a "
            f"time; {names} stays in cache"
        )

    def join(self) -> Group:
        """The band as one group."""
        groups = [stage.group for stage in self.stages]
        made = [node for group in groups for node in group.stored]
        inside = set(made)
        reads = set[Node]().union(*(group.reads for group in groups)) - inside
        return Group(
            "band",
            groups[-1].number,
            members={node: (0, "full") for group in groups for node in group.members},
            reads=reads,
            inside={n: read for group in groups for n, read in group.inside.items()},
            stored=[node for node in made if node not in self.saved],
            reasons=[self.reason(), *(text for group in groups for text in group.reasons)],
            weight=sum(group.weight for group in groups),
            cost=sum(group.cost for group in groups),
            stages=tuple(self.stages),
            bands=self.bands,
        )


class _Search:
    """Finds what may be a band, and whether it pays."""

    def __init__(self, groups: Sequence[Group], asked: set[Node], cache: int) -> None:
        self.asked, self.cache = asked, cache
        self.number = {group: n for n, group in enumerate(groups)}
        self.home = {node: group for group in groups for node in group.stored}
        self.readers: dict[Node, list[Group]] = {}
        self._stages: dict[tuple[Group, bool], Stage | None] = {}
        for group in groups:
            for node in group.reads:
                self.readers.setdefault(node, []).append(group)

    def best(self, first: Group, taken: set[Group]) -> _Band | None:
        """The band that begins with a contraction and keeps most in cache, None where none pays."""
        found = [self._grow(first, side, taken) for side in (False, True)]
        bands = [band for band in found if band is not None]
        for band in bands:
            self._trim(band)
        best = max(bands, key=lambda b: sum(n.nbytes for n in b.saved), default=None)
        if best is None or not best.saved:
            return None
        why = self._too_dear(best)
        while self._too_dear(best):
            # Without the last contraction there are fewer operands to keep at hand.
            last = next((s for s in best.stages[:0:-1] if s.group.kind == "contract"), None)
            if last is None:
                first.reasons.append(f"not one launch with what reads its rows: {why}")
                return None
            self._leave_out(best, last.group)
            self._trim(best)
        return best

    def _trim(self, band: _Band) -> None:
        """Leaves out stages that save nothing: what they store would only be there sooner."""
        idle: Group | None = band.stages[0].group
        while idle is not None:
            band.saved = self._saved(band)
            idle = next((s.group for s in band.stages[1:] if self._idle(band, s.group)), None)
            if idle is not None:
                self._leave_out(band, idle)

    def _leave_out(self, band: _Band, first: Group) -> None:
        """Takes a stage out of a band, and those that read what it gives."""
        gone = {first}
        for stage in band.stages:
            if any(self.home.get(node) in gone for node in stage.group.reads):
                gone.add(stage.group)
        band.stages = [stage for stage in band.stages if stage.group not in gone]
        band.groups -= gone

    def _idle(self, band: _Band, group: Group) -> bool:
        """Whether a stage reads nothing that stays in cache, and does not make less of it, or needs
        too much at hand for that."""
        read = [node for node in group.reads if self.home.get(node) in band.groups]
        if any(node in band.saved for node in read):
            return False
        stored = sum(node.nbytes for node in group.stored)
        return LESS * stored > sum(node.nbytes for node in read) or (
            sum(panel_bytes(s) for s in band.stages) > PANELS * self.cache
        )

    def _saved(self, band: _Band) -> list[Node]:
        made = (node for stage in band.stages for node in stage.group.stored)
        return [
            node
            for node in made
            if node not in self.asked and all(r in band.groups for r in self.readers.get(node, ()))
        ]

    def _too_dear(self, band: _Band) -> str:
        """Why a band does not pay; empty where it does."""
        saved = sum(node.nbytes for node in band.saved)
        if saved <= self.cache:
            return f"{saved} bytes stay in cache anyway"
        panels = sum(panel_bytes(stage) for stage in band.stages)
        if panels > PANELS * self.cache:
            panels += saved * _AT_ONCE * BLOCK_ROWS // band.rows
        if panels > saved:
            return (
                f"its other operands and a few bands take {panels} bytes at once, its rows {saved}"
            )
        return ""

    # -------------------------------------------------------------- growing

    def _grow(self, first: Group, exchanged: bool, taken: set[Group]) -> _Band | None:
        """All that can go on from a contraction."""
        begin = self._look(first, exchanged)
        if begin is None:
            return None
        band = _Band(begin.bands, [begin.stage], {first}, set(begin.own))
        waiting = self._followers(band, first)
        while waiting and len(band.stages) < _MOST:
            number = min(waiting)
            group = waiting.pop(number)
            if group in taken or group in band.groups or self._waits(band, group):
                continue
            joined = self._as_stage(band, group)
            if joined is not None:
                band.stages.append(joined.stage)
                band.groups.add(group)
                band.own |= joined.own
                waiting |= self._followers(band, group)
        return band

    def _followers(self, band: _Band, group: Group) -> dict[int, Group]:
        own = (node for node in group.stored if node in band.own)
        return {self.number[r]: r for node in own for r in self.readers.get(node, ())}

    def _waits(self, band: _Band, group: Group) -> bool:
        """Whether a group waits for the band by way of another; also where that is not found out
        soon."""
        first = self.number[band.stages[0].group]
        seen: set[Group] = set()
        work = [home for home in self._homes(group) if home not in band.groups]
        while work:
            item = work.pop()
            if item in band.groups:
                return True
            if item in seen or self.number[item] < first:
                continue
            seen.add(item)
            if len(seen) > _PATIENCE:
                return True
            work.extend(self._homes(item))
        return False

    def _homes(self, group: Group) -> list[Group]:
        return [self.home[node] for node in group.reads if node in self.home]

    def _as_stage(self, band: _Band, group: Group) -> Stage | None:
        """The group as a stage, where it reads the band's values in its own row."""
        inside = {node for node in group.reads if self.home.get(node) in band.groups}
        if not inside <= band.own:
            return None
        for exchanged in (False, True):
            stage = self._look(group, exchanged)
            if stage is not None and stage.matches(band.bands) and inside <= stage.reads:
                return stage
        return None

    def _look(self, group: Group, exchanged: bool) -> Stage | None:
        """What a group would be as a stage of any band; looked at once."""
        if (group, exchanged) not in self._stages:
            self._stages[group, exchanged] = as_stage(group, exchanged)
        return self._stages[group, exchanged]


def _in_order(groups: Sequence[Group], joined: Sequence[Group]) -> list[Group]:
    """All launches in an order in which they can run, the old one where it does not matter."""
    gone = {stage.group: band for band in joined for stage in band.stages}
    number: dict[Group, int] = {}
    for place, group in enumerate(groups):
        number[gone.get(group, group)] = place
    home = {node: group for group in number for node in group.stored}
    waits = {g: {home[n] for n in g.reads if n in home} for g in number}
    followers: dict[Group, list[Group]] = {}
    for group, before in waits.items():
        for other in before:
            followers.setdefault(other, []).append(group)
    ready = [(number[group], group) for group, before in waits.items() if not before]
    heapq.heapify(ready)
    out: list[Group] = []
    while ready:
        _, group = heapq.heappop(ready)
        out.append(group)
        for other in followers.get(group, ()):
            waits[other].discard(group)
            if not waits[other]:
                heapq.heappush(ready, (number[other], other))
    return out


# Batches of small matrices: a factorization, and what computes its operands and goes on from its
# results matrix by matrix, run as one launch for some of the matrices at a time.

#: Matrices of a batch from which on some are taken at a time, and those that are taken at least.
MANY_MATRICES, LEAST_MATRICES = 128, 16


def join_matrices(groups: Sequence[Group], roots: Sequence[Node], cache: int) -> list[Group]:
    """The groups, those joined that go over the matrices of one batch with a factorization."""
    heads = [g.head for g in groups if g.kind == "linalg" and g.head is not None]
    batches = {head.shape[0] for head in heads if _is_batch(head)}
    found = list(groups)
    for points in sorted(batches, reverse=True):
        found = _joined(found, set(roots), points, cache)
    return found


def _is_batch(node: Node) -> bool:
    """Whether a factorization is of many small matrices along one axis."""
    if len(node.shape) != 2 or node.shape[0] < MANY_MATRICES:
        return False
    (m, n), *rest = [item.shape[-2:] for item in node.inputs]
    return not is_whole(node.params.routine, m, n, rest[0][1] if rest else 0)


def _joined(groups: list[Group], asked: set[Node], points: int, cache: int) -> list[Group]:
    """The groups, those that are connected to a factorization of ``points`` matrices joined."""
    reads = {group: _matrix_reads(group, points, cache) for group in groups}
    inside = _connected(groups, {g for g, read in reads.items() if read is not None})
    home = {node: group for group in groups for node in group.stored}
    while inside:
        late = _late(groups, inside, home)
        late |= {
            g for g in inside
            if any(home.get(n) in inside and n not in (reads[g] or ()) for n in g.reads)
        }  # fmt: skip
        if not late:
            break
        inside = _connected(groups, inside - late)
    stages = [group for group in groups if group in inside]
    readers: dict[Node, list[Group]] = {}
    for group in groups:
        for node in group.reads:
            readers.setdefault(node, []).append(group)
    made = [node for group in stages for node in group.stored]
    saved = [n for n in made if n not in asked and all(r in inside for r in readers.get(n, ()))]
    if len(stages) < 2 or not saved:
        return groups
    band = _Band(Bands(points, 1), [BandStage(g) for g in stages], inside, set(), saved)
    return _in_order(groups, [band.join()])


def _connected(groups: Sequence[Group], those: set[Group]) -> set[Group]:
    """Of some groups, those that hand values to a factorization or get them from one, by way of
    others of them."""
    home = {node: group for group in groups if group in those for node in group.stored}
    beside: dict[Group, set[Group]] = {group: set() for group in those}
    for group in those:
        for node in group.reads:
            if node in home:
                beside[group].add(home[node])
                beside[home[node]].add(group)
    work = [group for group in those if group.kind == "linalg"]
    found = set(work)
    while work:
        for other in beside[work.pop()] - found:
            found.add(other)
            work.append(other)
    return found


def _late(groups: Sequence[Group], inside: set[Group], home: Mapping[Node, Group]) -> set[Group]:
    """Groups inside that wait for others inside by way of one that is not."""
    behind: dict[Group, int] = {}  # 1: waits for one inside; 2: by way of one outside
    for group in groups:
        before = [home[n] for n in group.reads if n in home and home[n] is not group]
        state = max((behind.get(g, 0) for g in before), default=0)
        if group in inside:
            behind[group] = max(state, 1)
        elif state:
            behind[group] = 2
    return {group for group in inside if behind[group] == 2}


def _matrix_reads(group: Group, points: int, cache: int) -> set[Node] | None:
    """The values of which a group reads the share of each matrix where that is computed; None for a
    group that does not go over ``points`` matrices one by one, or holds too much of each."""
    places: list[tuple[Node, Index]]
    if group.kind == "linalg":
        head = group.head
        assert head is not None
        if not _is_batch(head) or head.shape[0] != points:
            return None
        first = Axis("batch", points)
        places = []
        for item in head.inputs:
            axes = (first, *(Axis(f"i{n}", e) for n, e in enumerate(item.shape[1:])))
            places += _seen_from(group, item, tuple(map(variable, axes)))
    elif group.kind in ("map", "row", "contract") and len(group.parts) == 1:
        part = group.parts[0]
        if not part.axes or part.axes[0].extent != points or part.inner == 0:
            return None
        first = part.axes[0]
        places = [(node, at) for node, every in group.places.items() for at in every]
        if group.kind == "contract":
            stage = BandStage(group)
            if group.head is None or first not in _sides(stage).names.values():
                return None
            for side in _operand_reads(stage, _sides(stage)):
                places += side
        places += [(node, group.place(node)) for node in group.stored]
    else:
        return None
    row, shared = variable(first), set[Node]()
    for node, at in places:
        if is_share(at, node.shape, row, points):
            shared.add(node)
        elif any(first in axes_of(index) for index in at):
            return None
    if any(node not in shared for node in group.stored if group.kind != "linalg"):
        return None
    if any(not node.shape or node.shape[0] % points for node in (*shared, *group.stored)):
        return None
    each = sum(node.nbytes for node in (*shared, *group.stored)) // points
    whole = {node for node, at in places if not is_share(at, node.shape, row, points)}
    return None if each * LEAST_MATRICES > cache // 4 else shared - whole


def _seen_from(group: Group, node: Node, place: Index) -> list[tuple[Node, Index]]:
    """What an operand reads, and where, of what is in memory."""
    if node in group.reads or node.op.name == "input":
        return [(node, place)]
    probe = Probe(group.reads.__contains__)
    probe.run(node, place)
    return [(read, where) for read, where, _ in probe.reads]
