"""Numbers of 16 bits: runs of halves become floats ahead of a loop, and floats halves behind it.

gcc (12 at least) vectorises no instruction that converts float16, and eight operations on integers
in its place cost more than what most loops do with an element. So loops have floats on the stack.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from lazyt.codegen.c import tree as ct
from lazyt.codegen.c.family import Expressions
from lazyt.codegen.c.loops import TILE, Trees
from lazyt.codegen.c.transposed import TurnedPhase
from lazyt.ir.index import (
    Axis,
    Guarded,
    Linear,
    Load,
    axes_of,
    data_of,
    linearize,
    operands,
    replace_axes,
    sub_expressions,
    variable,
)
from lazyt.ir.kernel import LANES, Buffer, Let, Phase, Stage, Store
from lazyt.ir.scalar import Expr

#: Points of a tile where nothing loops but values wait for the next loop over points; steps of a
#: row that is converted as a whole.
STRIP, LONGEST_ROW = 512, 4096
#: Floats that a stage may have on the stack at a time: half of a first-level cache.
ROOM = 4096
#: What a stage converts at most.
MOST = 6

Places = list[tuple[Buffer, Linear]]


class HalvesPhase(TurnedPhase):
    """A phase that converts halves that are neighbours together.

    Attributes:
        ahead, behind: what has to stand around the next loop over the points of a tile.
    """

    def __init__(
        self, phase: Phase, expressions: Expressions, number: int, any_size: bool = False
    ) -> None:
        super().__init__(phase, expressions, number, any_size)
        self.ahead: Trees = []
        self.behind: Trees = []
        self._numbers = count()
        if not self.vector or self.tile == TILE:
            return
        if self.shared or any(map(self._has_halves, phase.stages)):
            self.tile = STRIP

    # ------------------------------------------------------ lanes on the grid

    def _over_run(self, body: Trees, simd: bool = True, index: bool = True) -> Trees:
        ahead, behind, self.ahead, self.behind = self.ahead, self.behind, [], []
        return [*ahead, *super()._over_run(body, simd, index), *behind]

    def _straight(self, stage: Stage) -> Trees:
        self._prepare(stage)
        out = super()._straight(stage)
        self.e.widened.clear()
        return out

    def _each_lane(self, stage: Stage, axis: Axis, count: ct.Node) -> ct.Node:
        self._prepare(stage)
        out = super()._each_lane(stage, axis, count)
        if self.vector:
            self.e.widened.clear()
        return out

    def _step(self, stage: Stage, axis: Axis, turn: ct.Node) -> ct.Node:
        """One of several steps that a loop over the points takes; ``turn`` says which."""
        before = self.ahead
        self.ahead = []
        self._prepare(stage, turn)
        self.ahead = [*before, *self.ahead]
        out = ct.block([turn, *self._element(stage, axis)])
        self.e.widened.clear()
        return out

    def _prepare(self, stage: Stage, turn: ct.Node | None = None) -> None:
        """Notes what has to be converted around the next loop over points. In ``turn`` the step is
        declared, where the loop is not inside of one over steps."""
        if not self.vector:
            return
        last = self.phase.grid[-1]
        low = Axis("low", last.extent)
        first = variable(low) if self.first is not None else Linear((), 0)
        read, written = self._halves(stage, last)
        if len(read + written) * self.tile > ROOM:
            return
        before: Trees = []
        after: Trees = []
        for number, (buffer, place) in enumerate(read + written):
            name = f"h{next(self._numbers)}"
            memory = self._pointer(buffer, replace_axes(place, {last: first}))
            self.ahead.append(self.array("lz_f32", name, (self.tile,)))
            self.e.widened[buffer.name, place] = ct.element(name, ct.name("u"))
            if number < len(read):
                before.append(self._to_floats(buffer, self.run, memory, name))
            else:
                after.append(self._to_halves(buffer, self.run, name, memory))
        for calls, around in ((before, self.ahead), (after, self.behind)):
            if calls:
                around += calls if turn is None else [ct.block([turn, *calls])]

    # --------------------------------------------------- lanes along the loop

    def _all_lanes(self, stage: Stage, axis: Axis) -> Trees:
        before: Trees = []
        if not self.vector:
            read, _ = self._halves(stage, axis)
            start = variable(Axis("k", axis.extent))
            before = self._floats(read, [], axis, start, ct.integer(LANES), LANES, "l")[0]
        loop = super()._all_lanes(stage, axis)
        self.e.widened.clear()
        return [*before, *loop]

    def _plain(self, stage: Stage, axis: Axis) -> Trees:
        before: Trees = []
        after: Trees = []
        if self.vector:
            self._prepare(stage)
        elif not stage.sequential and axis.extent <= LONGEST_ROW:
            read, written = self._halves(stage, axis)
            limit, first = self.e.limit(stage, axis), Linear((), 0)
            if len(read + written) * axis.extent <= 2 * ROOM:
                row = (limit, axis.extent, axis.name)
                before, after = self._floats(read, written, axis, first, *row)
        out = super()._plain(stage, axis)
        self.e.widened.clear()
        return [*before, *out, *after]

    def _floats(
        self, read: Places, written: Places, axis: Axis, first: Linear, steps: ct.Node, room: int,
        lane: str,
    ) -> tuple[Trees, Trees]:  # fmt: skip
        """What converts ``steps`` neighbours along an axis, ahead of a loop and behind it."""
        before: Trees = []
        after: Trees = []
        for number, (buffer, place) in enumerate(read + written):
            name = f"h{next(self._numbers)}"
            memory = self._pointer(buffer, replace_axes(place, {axis: first}))
            before.append(self.array("lz_f32", name, (room,)))
            self.e.widened[buffer.name, place] = ct.element(name, ct.name(lane))
            if number < len(read):
                before.append(self._to_floats(buffer, steps, memory, name))
            else:
                after.append(self._to_halves(buffer, steps, name, memory))
        return before, after

    # ---------------------------------------------------------------- places

    def _to_floats(self, buffer: Buffer, count: ct.Node, memory: ct.Node, name: str) -> ct.Node:
        return self.e.prelude(f"lz_widen_{buffer.dtype.suffix}", count, memory, ct.name(name))

    def _to_halves(self, buffer: Buffer, count: ct.Node, name: str, memory: ct.Node) -> ct.Node:
        return self.e.prelude(f"lz_narrow_{buffer.dtype.suffix}", count, ct.name(name), memory)

    def _pointer(self, buffer: Buffer, place: Linear) -> ct.Node:
        band = self.e.bands.get(buffer.name)
        name = ct.name(band.name if band else buffer.name)
        return ct.binary("+", name, self.e.place(buffer, place))

    def _has_halves(self, stage: Stage) -> bool:
        read, written = self._halves(stage, self.phase.grid[-1])
        return bool(read or written)

    def _halves(self, stage: Stage, axis: Axis) -> tuple[Places, Places]:
        """What is read and written of buffers of 16 bits, one behind the other along the axis."""
        if axis.extent < 2:
            return [], []
        own = {s.name for s in stage.body if isinstance(s, Let)}
        read: dict[tuple[str, Linear], Buffer] = {}
        written: dict[tuple[str, Linear], Buffer] = {}
        at_once: set[str] = set()  # what the loop itself reads or writes
        for statement in stage.body:
            loads = [e for e in sub_expressions(statement.value) if isinstance(e, Load)]
            at_once.update(load.buffer for load in loads)
            if isinstance(statement, Store):
                if statement.guards or statement.combine:
                    at_once.add(statement.buffer)
                    continue
                self._note(written, statement.buffer, statement.index, axis, own)
            for load in _always_read(statement.value):
                self._note(read, load.buffer, load.index, axis, own)
        if len(read) + len(written) > MOST or at_once & {name for name, _ in written}:
            return [], []
        return [(b, p) for (_, p), b in read.items()], [(b, p) for (_, p), b in written.items()]

    def _note(
        self, found: dict[tuple[str, Linear], Buffer], name: str, index: tuple[Linear, ...],
        axis: Axis, own: set[str],
    ) -> None:  # fmt: skip
        buffer = self.e.buffers[name]
        if not buffer.dtype.is_half:
            return
        place = linearize(index, buffer.shape)
        rest = place - variable(axis)
        if axis not in axes_of(rest) and not own & data_of(rest):
            found[name, place] = buffer


def _always_read(value: Expr) -> Iterator[Load]:
    """Loads of an expression that no guard keeps from being done."""
    seen: set[int] = set()
    work = [value]
    while work:
        item = work.pop()
        if id(item) in seen:
            continue
        seen.add(id(item))
        if isinstance(item, Load):
            yield item
        if not isinstance(item, Guarded):
            work += operands(item)
