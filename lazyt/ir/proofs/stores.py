"""Proof that a kernel writes what it should: each element by one point, and all that is read.

Points of a grid run in any order, at the same time, so no two may store the same element, nor may
one load what another stores. A buffer without a meaning before has to be written wholly: results in
the end, scratch before a later phase reads it.

Where the row-major position of a store is a sum of axes, each with a step that is larger than all
smaller steps reach together, it is a number with digits: different points have different positions
(``_is_injective``), and as many points as elements are all elements. Else the points are counted,
where they are few. What neither settles is not refused: ``unproved`` says what that is.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from lazyt.ir.index import (
    Atom,
    Axis,
    Datum,
    Guard,
    Guarded,
    Linear,
    Load,
    Quotient,
    Remainder,
    constant,
    data_of,
    linearize,
    operands,
    replace_axes,
)
from lazyt.ir.kernel import (
    AnyPhase,
    Buffer,
    CallPhase,
    ContractPhase,
    Kernel,
    Phase,
    Statement,
    Store,
)
from lazyt.ir.proofs.bounds import Facts
from lazyt.ir.scalar import Expr

#: Points of a store, or of a load, up to which they are counted.
FEW = 65536
#: Elements of a buffer up to which it is noted which of them are written.
ELEMENTS = 1 << 22

Array = np.ndarray


@dataclass(frozen=True)
class Access:
    """A store or a load with the points that do it.

    Attributes:
        item: the statement (or operand) that a complaint is about.
        buffer: the buffer's name.
        position: the row-major position of the element.
        grid: the phase's axes.
        step: the axis of the loop around it, None outside of loops.
        guards: conditions under which it happens.
        stage: the number of its stage.
        ordered: whether the steps of its loop run in order.
    """

    item: object
    buffer: str
    position: Linear
    grid: tuple[Axis, ...]
    step: Axis | None
    guards: tuple[Guard, ...]
    stage: int
    ordered: bool

    @property
    def axes(self) -> tuple[Axis, ...]:
        """All axes of its points."""
        return self.grid if self.step is None else (*self.grid, self.step)

    @property
    def count(self) -> int:
        """How many points there are, whether or not conditions hold."""
        return math.prod(a.extent for a in self.axes)

    @property
    def steps(self) -> int:
        """How many steps its loop has."""
        return max(self.step.extent, 1) if self.step is not None else 1

    @property
    def is_open(self) -> bool:
        """Whether it happens at every point, wherever data do not decide."""
        return not self.guards or Facts(()).implies(self.guards)


@dataclass
class Found:
    """What was found about a kernel.

    Attributes:
        complaints: what is wrong, by the id of the piece of IR that it is about.
        unproved: what could not be settled, in words.
    """

    complaints: dict[int, list[str]] = field(default_factory=dict)
    unproved: list[str] = field(default_factory=list)

    def complain(self, item: object, text: str) -> None:
        """Something is wrong with a piece of IR."""
        found = self.complaints.setdefault(id(item), [])
        if text not in found:
            found.append(text)

    def doubt(self, text: str) -> None:
        """Something could not be settled."""
        if text not in self.unproved:
            self.unproved.append(text)


# -------------------------------------------------------------------- accesses


def _loads(root: Expr, guards: tuple[Guard, ...]) -> Iterator[tuple[Load, tuple[Guard, ...]]]:
    """The loads of an expression with the conditions around them. Iterative."""
    seen: set[tuple[int, tuple[Guard, ...]]] = set()
    stack: list[tuple[Expr, tuple[Guard, ...]]] = [(root, guards)]
    while stack:
        item, held = stack.pop()
        if (id(item), held) in seen:
            continue
        seen.add((id(item), held))
        if isinstance(item, Load):
            yield item, held
        elif isinstance(item, Guarded):
            stack += [(item.other, held), (item.value, held + item.guards)]
        else:
            stack.extend((part, held) for part in operands(item))


#: Statements, their loop's axis, its condition, the number of the stage, whether it is in order.
_Body = tuple[tuple[Statement, ...], Axis | None, tuple[Guard, ...], int, bool]


def accesses(phase: AnyPhase, buffers: Mapping[str, Buffer]) -> tuple[list[Access], list[Access]]:
    """The stores and the loads of a phase over loops or of a contraction, in order."""
    stores: list[Access] = []
    loads: list[Access] = []

    def position(name: str, index: Sequence[Linear]) -> Linear:
        return linearize(index, buffers[name].shape)

    def read(
        item: object, value: Expr, grid: tuple[Axis, ...], step: Axis | None,
        guards: tuple[Guard, ...], stage: int, ordered: bool,
    ) -> None:  # fmt: skip
        for load, held in _loads(value, guards):
            at = position(load.buffer, load.index)
            loads.append(Access(item, load.buffer, at, grid, step, held, stage, ordered))

    if isinstance(phase, ContractPhase):
        grid = (*phase.batch, *phase.rows, *phase.columns)
        read(phase.left, phase.left, (*phase.batch, *phase.rows, *phase.inner), None, (), 0, False)
        right = (*phase.batch, *phase.inner, *phase.columns)
        read(phase.right, phase.right, right, None, (), 0, False)
        bodies: list[_Body] = [(phase.epilogue, None, (), 1, False)]
    elif isinstance(phase, Phase):
        grid = phase.grid
        bodies = [
            (s.body, s.axis, (s.guard,) if s.guard else (), number, s.sequential)
            for number, s in enumerate(phase.stages)
        ]
    else:
        return [], []
    for body, step, guards, number, ordered in bodies:
        for item in body:
            held = guards
            if isinstance(item, Store):
                held = guards + item.guards
                at = position(item.buffer, item.index)
                stores.append(Access(item, item.buffer, at, grid, step, held, number, ordered))
            read(item, item.value, grid, step, held, number, ordered)
    return stores, loads


# ------------------------------------------------------------------- positions


def _digits(position: Linear) -> list[tuple[int, int, Atom]] | None:
    """The terms of a position as (step, extent, atom), where these are independent of each other;
    None where they are not known to be.

    An axis may be there as its quotient and remainder by one number: they are two digits of it.
    """
    found: list[tuple[int, int, Atom]] = []
    whole: set[Axis] = set()
    parts: dict[Axis, set[tuple[type, int]]] = {}
    for atom, factor in position.terms:
        if isinstance(atom, Axis | Datum):
            found.append((abs(factor), atom.extent, atom))
            if isinstance(atom, Axis):
                whole.add(atom)
            continue
        inner = atom.value
        if len(inner.terms) != 1 or inner.const or inner.terms[0][1] != 1:
            return None
        axis = inner.terms[0][0]
        if not isinstance(axis, Axis):
            return None
        extent = -(-axis.extent // atom.divisor)
        if isinstance(atom, Remainder):
            extent = min(atom.divisor, axis.extent)
        parts.setdefault(axis, set()).add((type(atom), atom.divisor))
        found.append((abs(factor), extent, atom))
    for axis, kinds in parts.items():
        if axis in whole or {kind for kind, _ in kinds} != {Quotient, Remainder}:
            return None
        if len({divisor for _, divisor in kinds}) > 1:
            return None
    return found


def _axes_in(digits: Sequence[tuple[int, int, Atom]]) -> set[Axis]:
    """The axes whose value the digits tell."""
    found: set[Axis] = set()
    for _, _, atom in digits:
        if isinstance(atom, Axis):
            found.add(atom)
        elif isinstance(atom, Quotient | Remainder):
            found |= {a for a, _ in atom.value.terms if isinstance(a, Axis)}
    return found


def _is_injective(digits: Sequence[tuple[int, int, Atom]]) -> bool:
    """Whether different digits give different positions: each step is larger than what all smaller
    ones reach together."""
    reach = 0
    for step, extent, _ in sorted(digits, key=lambda d: d[0]):
        if extent < 2:
            continue
        if step <= reach:
            return False
        reach += step * (extent - 1)
    return True


def _simplify(access: Access) -> Linear:
    """The position with axes of one step at 0, and divisions done where they can be."""
    return replace_axes(access.position, {a: constant(0) for a in access.axes if a.extent == 1})


def are_distinct(access: Access) -> bool | None:
    """Whether no two points of an access have the same element; None where that is open.

    Steps of a loop in order may have the same one. Data may be anything, within their bounds.
    """
    needed = {a for a in access.grid if a.extent > 1}
    if access.step is not None and access.step.extent > 1 and not access.ordered:
        needed.add(access.step)
    position = _simplify(access)
    digits = _digits(position)
    if digits is not None and _is_injective(digits) and needed <= _axes_in(digits):
        return True
    if not needed:
        return True
    by_data = any(data_of(g.index) for g in access.guards) or data_of(position)
    if access.is_open and not by_data and digits is not None and not needed <= _axes_in(digits):
        return False
    made = _touched(access)
    if made is None:
        return None
    elements, points = made
    if access.ordered:  # the steps of a point count as one
        both = np.unique(np.stack([elements, points // access.steps]), axis=1)
        return bool(len(np.unique(both[0])) == both.shape[1])
    return bool(len(np.unique(elements)) == len(elements))


def _touched(access: Access) -> tuple[Array, Array] | None:
    """Elements and numbers of points (and steps, the last digit), for each time that an access
    happens; None where these are many, or up to data."""
    positions = [access.position, *(g.index for g in access.guards)]
    if access.count > FEW or any(data_of(p) for p in positions):
        return None
    shape = tuple(a.extent for a in access.axes)
    grids = np.indices(shape, np.int64, sparse=True) if shape else ()
    axes = dict(zip(access.axes, grids, strict=True))
    at = np.broadcast_to(_evaluate(access.position, axes), shape)
    holds = np.ones(shape, bool)
    for guard in access.guards:
        value = _evaluate(guard.index, axes)
        holds &= (value >= guard.low) & (value < guard.high)
    return at[holds], np.arange(access.count, dtype=np.int64).reshape(shape)[holds]


def _evaluate(index: Linear, axes: Mapping[Axis, Array]) -> Array:
    """An index at all points."""
    total = np.asarray(index.const, np.int64)
    for atom, factor in index.terms:
        if isinstance(atom, Axis):
            part = axes[atom]
        elif isinstance(atom, Quotient):
            part = _evaluate(atom.value, axes) // atom.divisor
        else:
            assert isinstance(atom, Remainder)
            part = _evaluate(atom.value, axes) % atom.divisor
        total = total + part * factor
    return total


# -------------------------------------------------------------------- coverage


class _Written:
    """Which elements of a buffer the phases so far have written.

    Attributes:
        full: whether all of them are.
        stores: what wrote them.
        most: how many there are at most.
        mask: which ones, where that is known.
    """

    def __init__(self, buffer: Buffer) -> None:
        self.size = math.prod(buffer.shape)
        self.full = buffer.role in ("in", "inout") or self.size == 0
        self.stores: list[Access] = []
        self.most = 0
        self.mask: Array | None = None
        if not self.full and self.size <= ELEMENTS:
            self.mask = np.zeros(self.size, bool)

    def add(self, access: Access) -> None:
        """Takes note of a store."""
        self.stores.append(access)
        self.most += access.count
        digits = _digits(_simplify(access))
        needed = {a for a in access.axes if a.extent > 1}
        if (
            not self.full
            and access.is_open
            and access.count == self.size
            and digits is not None
            and not data_of(access.position)
            and _is_injective(digits)
            and needed <= _axes_in(digits)
        ):
            self.full = True
        if self.full:
            return
        made = _touched(access)
        if made is None or self.mask is None:
            self.mask = None
            return
        inside = made[0][(made[0] >= 0) & (made[0] < self.size)]
        self.mask[inside] = True
        self.full = bool(self.mask.all())

    def missing(self) -> str | None:
        """What is not written, in words; empty where that is open, None where nothing is."""
        if self.full:
            return None
        if self.mask is not None:
            count = int(self.mask.sum())
            first = int(np.argmin(self.mask))
            return f"{count} of its {self.size} elements are written, element {first} is not"
        if self.most < self.size:
            return f"at most {self.most} of its {self.size} elements are written"
        return ""

    def covers(self, load: Access) -> bool | None:
        """Whether all that a load reads is written; None where that is open."""
        if self.full:
            return True
        mine = _signature(load)
        if any(_signature(s) == mine and s.is_open for s in self.stores):
            return True
        made = _touched(load)
        if made is None or self.mask is None:
            return False if not self.stores else None
        inside = made[0][(made[0] >= 0) & (made[0] < self.size)]
        return bool(self.mask[inside].all())


def _signature(access: Access) -> object:
    """Equal for accesses that reach the same elements, whatever their axes are called."""
    digits = _digits(_simplify(access))
    if digits is None or not all(isinstance(atom, Axis) for _, _, atom in digits):
        return access
    terms = sorted((f, a.extent) for a, f in access.position.terms if isinstance(a, Axis))
    return (access.position.const, tuple(terms))


# ---------------------------------------------------------------------- checks


class _StoreChecker:
    """What one kernel writes, phase by phase."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.buffers = {b.name: b for b in kernel.buffers}
        self.found = Found()
        self.written = {b.name: _Written(b) for b in kernel.buffers}

    def run(self) -> Found:
        """The whole kernel."""
        for phase in self.kernel.phases:
            if isinstance(phase, CallPhase):
                for name in phase.reads:
                    self.whole(phase, name, f"{phase.routine} reads {name}")
                for name in phase.writes:
                    self.written[name].full = True
                continue
            stores, loads = accesses(phase, self.buffers)
            self.reads(stores, loads)
            for name in dict.fromkeys(s.buffer for s in stores):
                self.stores([s for s in stores if s.buffer == name])
            self.conflicts(stores, loads)
            for store in stores:
                self.written[store.buffer].add(store)
        for buffer in self.kernel.buffers:
            if buffer.role == "out":
                self.whole(self.kernel, buffer.name, f"the result {buffer.name} is incomplete")
        return self.found

    def whole(self, item: object, name: str, what: str) -> None:
        """A buffer has to be written wholly by now."""
        missing = self.written[name].missing()
        if missing:
            self.found.complain(item, f"{what}: {missing}")
        elif missing == "":
            self.found.doubt(f"that all elements of {name} are written")

    def reads(self, stores: Sequence[Access], loads: Sequence[Access]) -> None:
        """What earlier phases have to have written; loops may read what earlier ones left."""
        left = {(s.buffer, s.position) for s in stores}
        for load in loads:
            if (load.buffer, load.position) in left and not self.written[load.buffer].full:
                continue
            covered = self.written[load.buffer].covers(load)
            if covered is False:
                missing = self.written[load.buffer].missing()
                text = f"{load.buffer} is read where no earlier phase has written it"
                self.found.complain(load.item, f"{text}: {missing}")
            elif covered is None:
                self.found.doubt(f"that what is read of {load.buffer} is written before")

    def stores(self, stores: Sequence[Access]) -> None:
        """The stores of a phase to one buffer: each element by one point, unless they combine what
        they find, in one piece."""
        for store in stores:
            item = store.item
            combines = isinstance(item, Store) and item.combine is not None
            distinct = (combines and not store.ordered) or are_distinct(store)
            if distinct is False:
                self.found.complain(store.item, _shared(store))
            elif distinct is None:
                self.found.doubt(f"that every point stores its own elements of {store.buffer}")
        for number, one in enumerate(stores):
            for other in stores[:number]:
                self.pair(other, one, "store")

    def conflicts(self, stores: Sequence[Access], loads: Sequence[Access]) -> None:
        """No point loads what another one stores in the same phase."""
        for store in stores:
            for load in loads:
                if load.buffer == store.buffer:
                    self.pair(store, load, "load")

    def pair(self, store: Access, other: Access, what: str) -> None:
        """A store, and another access to the same buffer: by the same point, or elsewhere."""
        if store.position == other.position and (store.step == other.step or store.ordered):
            return
        if math.prod(a.extent for a in store.grid) == 1 and (
            store.stage != other.stage or store.ordered or store.step is None
        ):
            return
        if _are_disjoint(store, other):
            return
        by_step = store.stage == other.stage and not store.ordered and store.step is not None
        mine, theirs = _touched(store), _touched(other)
        if mine is None or theirs is None:
            if by_step or store.grid != other.grid or not _same_rows(store, other):
                self.found.doubt(f"that no point gets at what another stores of {store.buffer}")
            return
        one, two = (1, 1) if by_step else (store.steps, other.steps)
        size = int(max(mine[0].max(initial=-1), theirs[0].max(initial=-1))) + 1
        owner = np.full(size, -1, np.int64)
        owner[mine[0]] = mine[1] // one
        owned = owner[theirs[0]]
        wrong = (owned >= 0) & ((owned != theirs[1] // two) | (store.grid != other.grid))
        if wrong.any():
            element = int(theirs[0][wrong][0])
            verb = "store" if what == "store" else "load and store"
            text = f"different points {verb} element {element} of {store.buffer} in one phase"
            self.found.complain(other.item, text)


def _are_disjoint(one: Access, other: Access) -> bool:
    """Whether the ranges of two positions have nothing in common."""
    facts, others = Facts(one.guards), Facts(other.guards)
    if facts.impossible or others.impossible:
        return True
    (low, high), (least, most) = (
        facts.range_of(one.position), others.range_of(other.position),
    )  # fmt: skip
    return high < least or most < low


def _same_rows(store: Access, other: Access) -> bool:
    """Whether two accesses differ only within what their point of the grid has for itself."""
    inner = {store.step, other.step} - {None}
    rows = [
        Linear(tuple(t for t in access.position.terms if t[0] in access.grid), 0)
        for access in (store, other)
    ]
    rests = [access.position - row for access, row in zip((store, other), rows)]
    if rows[0] != rows[1] or any(
        not isinstance(atom, Datum) and atom not in inner
        for rest in rests
        for atom, _ in rest.terms
    ):
        return False
    low = min(rest.bounds[0] for rest in rests)
    high = max(rest.bounds[1] for rest in rests)
    needed = {a for a in store.grid if a.extent > 1}
    digits = _digits(rows[0])
    if digits is None or not needed <= _axes_in(digits):
        return False
    return _is_injective([*digits, (1, high - low + 1, Datum("", high - low + 1))])


def _shared(store: Access) -> str:
    """What is wrong with a store that several points make at the same place."""
    digits = _digits(_simplify(store))
    known = _axes_in(digits) if digits is not None else set()
    idle = [a.name for a in store.axes if a.extent > 1 and a not in known]
    if store.ordered and store.step is not None and store.step.name in idle:
        idle.remove(store.step.name)
    if idle and store.is_open and digits is not None:
        return f"every {' and '.join(idle)} stores the same elements of {store.buffer}"
    return f"several points store the same element of {store.buffer}"


def find_store_errors(kernel: Kernel) -> Found:
    """What is wrong with the stores of a kernel whose names, types and ranks are right, and what
    could not be settled."""
    return _StoreChecker(kernel).run()


def unproved(kernel: Kernel) -> list[str]:
    """What could not be proved about the stores of a kernel, in words such as "that all elements of
    y are written"; nothing of it is known to be wrong."""
    return find_store_errors(kernel).unproved
