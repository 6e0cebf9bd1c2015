"""Fused groups: which nodes become one kernel, and over which axes.

Fusion makes groups, code generation lowers each to a Kernel. A group's parts share the kernel:
the first does the main work, later ones finish reductions over the first one's rows.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from lazyt.ir.graph import Node
from lazyt.ir.index import Axis, Linear, reshape_index, variable
from lazyt.ir.kernel import Bands

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
