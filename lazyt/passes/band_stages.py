"""What a group is as a stage of a band: its rows, what it reads in its own, what it needs whole.

A fact about one group and its indices; which stages make a band is decided in ``bands.py``.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

from lazyt.ir.bands import in_own_row, row_of
from lazyt.ir.graph import Node
from lazyt.ir.group import BandStage, Group, Index
from lazyt.ir.index import Axis, Linear, variable
from lazyt.ir.kernel import Bands
from lazyt.passes.probe import Probe

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
