"""Phases with lanes across short rows: tiles that are turned, and folds that need no turning."""

from __future__ import annotations

from collections.abc import Sequence

from lazyt.codegen import c_tree as ct
from lazyt.codegen.c_family import Expressions, c_type, compute_type
from lazyt.codegen.c_loops import PhasePrinter, Trees
from lazyt.codegen.row_folds import row_folds
from lazyt.codegen.turning import Turn
from lazyt.ir.index import Axis, Linear, constant, replace_axes, variable
from lazyt.ir.kernel import LANES, Phase, Reduce, Stage


class TurnedPhase(PhasePrinter):
    """A phase whose ``turns``, by the stage, say what goes through a turned tile."""

    def __init__(
        self, phase: Phase, expressions: Expressions, number: int, any_size: bool = False
    ) -> None:
        super().__init__(phase, expressions, number, any_size)
        self.turns: dict[int, list[Turn]] = {}

    def _memory(self, name: str, place: Linear, axis: Axis, step: Linear) -> ct.Node:
        """Where the tile's first row has its element of a step."""
        last = self.phase.grid[-1]
        low = variable(Axis("low", last.extent)) if self.first is not None else constant(0)
        here = replace_axes(place, {axis: step, last: low})
        return ct.binary("+", ct.name(name), self.e.place(self.e.buffers[name], here))

    def _reduction(self, stage: Stage, axis: Axis) -> Trees:
        """Folds of short rows of memory need no loop here."""
        folds = row_folds(self.phase, stage, self.e) if self.vector and not self.any_size else []
        if not folds:
            return super()._reduction(stage, axis)
        out: Trees = []
        for fold in folds:
            memory = self._memory(fold.buffer, fold.place, axis, constant(0))
            name, steps = fold.reduce.name, ct.integer(axis.extent)
            out.append(self._array(compute_type(fold.reduce.dtype), name))
            given = (self.run, steps, memory, ct.integer(fold.pitch), ct.name(name))
            out.append(self.e.prelude(fold.function, *given))
            self.e.values[name] = self._cell(name)
        return out

    def _turned(self, stage: Stage, axis: Axis, count: ct.Node, turns: Sequence[Turn]) -> ct.Node:
        """Steps that read and write arrays, which rows of memory become before and after."""
        first = variable(Axis("k", axis.extent))
        before: Trees = [ct.declare("lz_i64", "steps", count, const=True)]
        after: Trees = []
        steps, width = ct.name("steps"), ct.integer(self.tile)
        for number, turn in enumerate(turns):
            buffer, array = self.e.buffers[turn.buffer], f"turn{number}"
            memory = self._memory(turn.buffer, turn.place, axis, first)
            pitch, own = ct.integer(turn.pitch), ct.name(array)
            before.append(self.array(c_type(buffer.dtype), array, (LANES * self.tile,)))
            function = f"lz_across_{'u16' if buffer.dtype.is_half else buffer.dtype.suffix}"
            if turn.stored:
                after.append(self.e.prelude(function, steps, self.run, own, width, memory, pitch))
            else:
                before.append(self.e.prelude(function, self.run, steps, memory, pitch, own, width))
            here = ct.binary("+", ct.binary("*", ct.name("l"), width), ct.name("u"))
            self.e.elements[buffer.name, turn.place] = ct.element(array, here)
        if any(isinstance(s, Reduce) for s in stage.body):
            loop = super()._each_lane(stage, axis, steps)
        else:
            start, here = ct.name("k"), ct.name(axis.name)
            lane = ct.declare("lz_i64", "l", ct.binary("-", here, start), const=True)
            body = [lane, *self._over_run(self._element(stage, axis))]
            loop = ct.loop(axis.name, start, ct.binary("+", start, steps), body, kind=self.integer)
        self.e.elements.clear()
        return ct.block([*before, loop, *after])
