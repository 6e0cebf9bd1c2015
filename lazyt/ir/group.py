"""Fused groups: which nodes become one kernel, and over which axes.

Fusion makes groups, code generation lowers each to a Kernel. A group's parts share the kernel:
the first does the main work, later ones finish reductions over the first one's rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from lazyt.ir.graph import Node
from lazyt.ir.index import (
    Axis,
    Linear,
    Load,
    Quotient,
    Remainder,
    linearize,
    reshape_index,
    sub_expressions,
    variable,
)
from lazyt.ir.kernel import (
    AnyPhase,
    Bands,
    CallPhase,
    ContractPhase,
    Kernel,
    Phase,
    Statement,
    Store,
)

Index = tuple[Linear, ...]


@dataclass(eq=False)
class Part:
    """Nodes computed together over one domain.

    Attributes:
        axes: the domain's axes, row-major.
        inner: which of them is reduced (or scanned), None when nothing is.
        reduces: the reductions over that axis, in dependency order.
        outputs: pointwise members with their extent: ``full`` (all axes) or ``row`` (all but the
            inner axis).
    """

    axes: tuple[Axis, ...]
    inner: int | None = None
    reduces: list[Node] = field(default_factory=list)
    outputs: list[tuple[Node, str]] = field(default_factory=list)

    @property
    def rows(self) -> tuple[Axis, ...]:
        """The axes that are not reduced."""
        if self.inner is None:
            return self.axes
        return self.axes[: self.inner] + self.axes[self.inner + 1 :]

    def extents(self) -> tuple[int, int, int]:
        """(before, inner, after): the domain's size around the reduced axis."""
        before, middle, after = 1, 1, 1
        for number, axis in enumerate(self.axes):
            if self.inner is None or number < self.inner:
                before *= axis.extent
            elif number == self.inner:
                middle = axis.extent
            else:
                after *= axis.extent
        return before, middle, after

    def place(self, shape: tuple[int, ...], extent: str) -> Index:
        """Where the current point of the domain lies in a value of ``shape``."""
        axes = self.axes if extent == "full" else self.rows
        index = tuple(variable(a) for a in axes)
        return reshape_index(index, tuple(a.extent for a in axes), shape)


@dataclass(frozen=True, eq=False)
class BandStage:
    """A group that runs for some rows at a time; ``exchanged``: the contraction's rows are the
    axes of its right operand."""

    group: Group
    exchanged: bool = False


@dataclass(eq=False)
class Group:
    """What becomes one kernel.

    Attributes:
        kind: ``map``, ``row``, ``contract``, ``scatter``, ``update``, ``scan``, ``sort`` or
            ``band``.
        number: creation order.
        parts: see Part; for contract, scatter, update and scan the head node does the main work and
            the first part's outputs are its epilogue.
        head: the node of a contract, scatter, update, scan or sort.
        members: target nodes computed here.
        reads: members of other groups that are read from memory.
        places: the indices at which members read other values.
        inside: the members that each member reads.
        stored: members that must be written to memory.
        reasons: why things were fused, and why no more.
        weight: pointwise operations of the kernel.
        cost: multiply-adds per element in its long functions (exponential, sine ...).
        again: whether the launch computes values that were there before, to save memory.
        stages, bands: of a ``band``, the groups that it is made of and their common rows.
    """

    kind: str
    number: int
    parts: list[Part] = field(default_factory=list)
    head: Node | None = None
    members: dict[Node, tuple[int, str]] = field(default_factory=dict)
    reads: set[Node] = field(default_factory=set)
    places: dict[Node, set[Index]] = field(default_factory=dict)
    inside: dict[Node, set[Node]] = field(default_factory=dict)
    stored: list[Node] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    weight: int = 0
    cost: float = 0.0
    again: bool = False
    stages: tuple[BandStage, ...] = ()
    bands: Bands | None = None

    def place(self, node: Node) -> Index:
        """The index at which member ``node`` is computed."""
        part, extent = self.members[node]
        return self.parts[part].place(node.shape, extent)


# Rows of a kernel that runs band by band: what counts as a row, and who stays in his own.


#: Times a core's cache up to which all bands may read the right operands of a kernel from the next
#: level. Where these are larger, bands have as many rows as a block of a plain product, so that
#: each of their elements is read as rarely.
PANELS = 8
#: Rows of such a block, or a few less.
BLOCK_ROWS = 96


def row_of(axes: Sequence[Axis]) -> Linear:
    """The number of the row at a point of some axes, row-major."""
    return linearize(tuple(variable(a) for a in axes), tuple(a.extent for a in axes))


def in_own_row(index: Sequence[Linear], shape: Sequence[int], row: Linear, rows: int) -> bool:
    """Whether an index into a value of ``shape`` stays in the share of row ``row`` of ``rows``."""
    size = math.prod(shape)
    if not rows or size % rows:
        return False
    width = size // rows
    low, high = (linearize(tuple(index), tuple(shape)) - row * width).bounds
    return low >= 0 and high < width


# Batches of small matrices that run some of them at a time: kernels whose bands have one row each.
# A phase goes over more than that, along an axis that has a run of steps for each matrix.


def steps_of(phase: AnyPhase, points: int) -> tuple[Axis, int] | None:
    """The axis along which a phase has a run of steps for each of ``points`` matrices, and how long
    a run is; None where it has none."""
    axes: tuple[Axis, ...] = ()
    if isinstance(phase, ContractPhase):
        axes = (*phase.batch, *phase.rows)
    elif isinstance(phase, Phase):
        axes = phase.grid
    if not axes or axes[0].extent % points or not axes[0].extent:
        return None
    return axes[0], axes[0].extent // points


def growth(index: Linear, axis: Axis, steps: int) -> int | None:
    """How much larger an index is so many steps further; None where that depends on the step."""
    total = 0
    for atom, factor in index.terms:
        if atom == axis:
            total += factor * steps
        elif isinstance(atom, Quotient | Remainder):
            inner = growth(atom.value, axis, steps)
            if inner is None or inner % atom.divisor:
                return None
            total += factor * (inner // atom.divisor) if isinstance(atom, Quotient) else 0
    return total


def is_share(index: Sequence[Linear], shape: Sequence[int], row: Linear, points: int) -> bool:
    """Whether an index, wherever it is used, stays in the share that matrix ``row`` of ``points``
    has of a value."""
    lead = next((n for n in range(len(shape) + 1) if math.prod(shape[:n]) == points), None)
    if lead is not None and linearize(tuple(index[:lead]), tuple(shape[:lead])) == row:
        return True
    return in_own_row(index, shape, row, points)


def _batch_complaints(kernel: Kernel, points: int) -> Iterator[tuple[object, str]]:
    """What forbids some matrices at a time: scratch that is not used matrix by matrix."""
    mine = {b.name: b.shape for b in kernel.buffers if b.role == "band"}
    for phase in kernel.phases:
        if isinstance(phase, CallPhase):
            continue
        steps = steps_of(phase, points)
        if steps is None:
            continue  # then all of them are one band
        row = variable(steps[0]) // steps[1]
        for name, index in _accesses(phase):
            if name in mine and not is_share(index, mine[name], row, points):
                yield phase, f"{name} is not used in the matrix's own share only"


def band_complaints(kernel: Kernel) -> Iterator[tuple[object, str]]:
    """What forbids a kernel's bands, with the phase that it is about."""
    bands = kernel.bands
    mine = {b.name: b.shape for b in kernel.buffers if b.role == "band"}
    if bands is None:
        if mine:
            yield kernel, "a kernel without bands has no band buffers"
        return
    if bands.rows == 1:
        yield from _batch_complaints(kernel, bands.points)
        return
    for phase in kernel.phases:
        axes = _row_axes(phase, bands)
        if axes is None:
            yield phase, f"the phase does not go over {bands.points} times {bands.rows} rows"
            continue
        row = row_of(axes)
        for name, index in _accesses(phase):
            if name in mine and not in_own_row(index, mine[name], row, bands.points * bands.rows):
                yield phase, f"{name} is not used in the phase's own row only"


def _row_axes(phase: AnyPhase, bands: Bands) -> tuple[Axis, ...] | None:
    """The axes that count a phase's rows; None where they are others than the bands'."""
    if isinstance(phase, ContractPhase):
        found = (math.prod(a.extent for a in phase.batch), math.prod(a.extent for a in phase.rows))
        return (*phase.batch, *phase.rows) if found == (bands.points, bands.rows) else None
    if not isinstance(phase, Phase) or phase.lanes != "inner":
        return None
    points = math.prod(a.extent for a in phase.grid)
    return phase.grid if points == bands.points * bands.rows else None


def _accesses(phase: AnyPhase) -> Iterator[tuple[str, tuple[Linear, ...]]]:
    """Buffers and indices of all loads and stores."""
    statements: Sequence[Statement] = ()
    values = []
    if isinstance(phase, ContractPhase):
        statements, values = phase.epilogue, [phase.left, phase.right]
    elif isinstance(phase, Phase):
        statements = [s for stage in phase.stages for s in stage.body]
    for statement in statements:
        values.append(statement.value)
        if isinstance(statement, Store):
            yield statement.buffer, statement.index
    for value in values:
        for item in sub_expressions(value):
            if isinstance(item, Load):
                yield item.buffer, item.index
