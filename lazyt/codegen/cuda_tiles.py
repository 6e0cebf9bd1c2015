"""How tiles of a contraction's operands come into shared memory while others are multiplied.

Elements that need no more than copying are copied asynchronously, without passing through
registers. Everything else is loaded into registers before the multiplication of a tile and stored
behind it, or, where that takes too many of them, loaded and stored at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from lazyt.codegen import c_tree as ct
from lazyt.codegen.c_family import Expressions
from lazyt.codegen.contract_places import unit_axis
from lazyt.codegen.stages import coordinates
from lazyt.ir.dtypes import DType
from lazyt.ir.index import Axis, axes_of, linearize
from lazyt.ir.point import Load
from lazyt.ir.scalar import Expr

Trees = list[ct.Node]

#: Elements between rows of a tile, beyond its width: spreads a column over the banks and keeps
#: rows aligned for loads of 16 bytes.
_PAD = 4
#: Bytes that the hardware copies at a time, the best first.
_COPIED_BYTES = (16, 8, 4)
#: Loads of a thread that are in flight at a time; more of them cost registers.
_LOADS = 8


@dataclass(frozen=True)
class Operand:
    """An operand of a contraction.

    Attributes:
        array: its array in shared memory.
        value: its elements.
        axes: its rows or columns, whose first one in a tile is ``corner``.
        inner: the summed axes.
        wide: rows or columns of a tile.
        compute: what it is multiplied in.
    """

    array: str
    value: Expr
    axes: tuple[Axis, ...]
    inner: tuple[Axis, ...]
    corner: str
    wide: int
    compute: DType

    @property
    def pitch(self) -> int:
        """Elements from a step of a tile to the next."""
        return self.wide + _PAD

    def width(self, e: Expressions) -> int:
        """Elements that one asynchronous copy brings; 0 where they have to pass registers.

        Several are adjacent along the axes in memory as in the tile, aligned to their whole size,
        and either all of them exist or none.
        """
        value, size = self.value, self.compute.itemsize
        if not isinstance(value, Load) or e.buffers[value.buffer].dtype is not self.compute:
            return 0
        flat = linearize(value.index, e.buffers[value.buffer].shape)
        last = next((a for a in reversed(self.axes) if a.extent > 1), None)
        rest = [(atom, f) for atom, f in flat.terms if atom != last]
        unit = last is not None and flat.coefficient(last) == 1
        unit = unit and not any(last in axes_of(atom) for atom, _ in rest)
        counts = [last.extent if last else 1, flat.const, *(f for _, f in rest)]
        for nbytes in _COPIED_BYTES:
            width = nbytes // size
            if width == 1:
                return 1
            if width and unit and not any(c % width for c in (*counts, self.wide, self.pitch)):
                return width
        return 0


@dataclass(frozen=True)
class TileLoader:
    """Fills the tiles of an operand.

    Attributes:
        operand: the operand.
        e: prints its elements.
        threads: threads of a block.
        depth, stages: steps of a tile; tiles in shared memory.
        integer: the type of indices.
        rows, steps: rows or columns, and steps, that there are in all.
    """

    operand: Operand
    e: Expressions
    threads: int
    depth: int
    stages: int
    integer: str
    rows: int
    steps: int

    @cached_property
    def width(self) -> int:
        """Elements of an asynchronous copy; 0 for none."""
        return self.operand.width(self.e)

    @property
    def slot(self) -> int:
        """Elements of a tile in shared memory."""
        return self.operand.pitch * self.depth

    @property
    def turns(self) -> int:
        """How many elements, or copies, a thread has of a tile."""
        return -(-self._items // self.threads)

    @property
    def held(self) -> bool:
        """Whether a tile waits in registers while another is multiplied."""
        return not self.width and self.stages > 1 and self.turns <= _LOADS

    @property
    def _items(self) -> int:
        return self.operand.wide * self.depth // (self.width or 1)

    @property
    def _registers(self) -> str:
        return f"next_{self.operand.array}"

    def fill(self) -> Trees:
        """Puts the tile of the steps from ``from_`` on into the place number ``put_``."""
        value = self.operand.value
        if self.width and isinstance(value, Load):
            buffer = self.e.buffers[value.buffer]
            place = self.e.place(buffer, linearize(value.index, buffer.shape))
            source = ct.binary("+", ct.name(buffer.name), place)
            given = [ct.name(self.operand.array), self._cell(), source, ct.integer(self.width)]
            move = ct.call(f"lz_copy_async_{self.operand.compute.suffix}", given)
        else:
            cell = ct.element(self.operand.array, self._cell())
            move = ct.assign(cell, self.e.value(value))
        return self._every(self._where_inside([move]), min(self.turns, _LOADS))

    def registers(self) -> Trees:
        """What ``hold`` loads into."""
        kind = f"lz_{self.operand.compute.suffix}"
        return [ct.declare_array(kind, self._registers, [self.turns])] if self.held else []

    def hold(self) -> Trees:
        """Loads the tile of the steps from ``from_`` on into registers."""
        own = ct.element(self._registers, ct.name("i_"))
        load = ct.assign(own, self.e.value(self.operand.value))
        zero = ct.assign(own, self.e.number(0, self.operand.compute))
        return self._every([zero, *self._where_inside([load])], self.turns)

    def put(self) -> Trees:
        """Stores what was held into the place number ``put_``."""
        cell = ct.element(self.operand.array, self._cell())
        store = ct.assign(cell, ct.element(self._registers, ct.name("i_")))
        return self._every([store], self.turns)

    def _cell(self) -> ct.Node:
        """Where an element of the tile ``put_`` belongs in shared memory."""
        at = ct.binary("*", ct.name("depth_"), ct.integer(self.operand.pitch))
        at = ct.binary("+", at, ct.name("at_"))
        if self.stages == 1:
            return at
        return ct.binary("+", ct.binary("*", ct.name("put_"), ct.integer(self.slot)), at)

    def _every(self, body: Trees, unroll: int) -> Trees:
        """``body`` for all elements of a thread, adjacent threads along the contiguous axis."""
        operand, width = self.operand, self.width or 1
        groups: dict[str, Sequence[Axis]] = {"outer": operand.axes, "inner": operand.inner}
        along = width == 1 and unit_axis(operand.value, self.e, groups) == "inner"
        item = ct.name("item_")
        split = ct.integer(self.depth if along else operand.wide // width)
        fast, slow = ct.binary("%", item, split), ct.binary("/", item, split)
        depth, at = (fast, slow) if along else (slow, fast)
        if width > 1:
            at = ct.binary("*", at, ct.integer(width))
        flat = ct.binary("*", ct.name("i_"), ct.integer(self.threads))
        own = [_const("int", "depth_", depth), _const("int", "at_", at), *body]
        if self._items % self.threads:
            own = [ct.branch(ct.binary("<", item, ct.integer(self._items)), own)]
        number = _const("int", "item_", ct.binary("+", flat, ct.call("lz_thread", ())))
        loop = ct.loop("i_", ct.integer(0), ct.integer(self.turns), [number, *own], kind="int")
        return [ct.pragma(f"unroll {unroll}"), loop]

    def _where_inside(self, body: Sequence[ct.Node]) -> Trees:
        """``body`` for an element that exists."""
        outer = ct.binary("+", ct.name(self.operand.corner), ct.name("at_"))
        inner = ct.binary("+", ct.name("from_"), ct.name("depth_"))
        inside = ct.binary("<", ct.name("outer_"), ct.integer(self.rows))
        if self.steps % self.depth:
            short = ct.binary("<", ct.name("inner_"), ct.integer(self.steps))
            inside = ct.binary("&&", inside, short)
        place = coordinates(ct.name("outer_"), self.operand.axes, self.integer)
        place += coordinates(ct.name("inner_"), self.operand.inner, self.integer)
        return [
            _const(self.integer, "outer_", outer),
            _const(self.integer, "inner_", inner),
            ct.branch(inside, [*place, *body]),
        ]


def _const(kind: str, name: str, value: ct.Node) -> ct.Node:
    return ct.declare(kind, name, value, const=True)
