"""Phases whose lanes read float16: a block of halves becomes floats by a call, ahead of its loop.

gcc (12 at least) vectorises no instruction that converts halves, and eight operations on integers
in its place cost more than what a sum or an extreme does with the element.
"""

from __future__ import annotations

from collections.abc import Iterator

from lazyt.codegen import c_tree as ct
from lazyt.codegen.c_loops import Trees
from lazyt.codegen.c_turned import TurnedPhase
from lazyt.ir.dtypes import float16
from lazyt.ir.index import Axis, Linear, axes_of, data_of, linearize, replace_axes, variable
from lazyt.ir.kernel import LANES, Buffer, Let, Stage, Store
from lazyt.ir.point import Guarded, Load, operands
from lazyt.ir.scalar import Expr


class HalvesPhase(TurnedPhase):
    """A phase that converts the halves of all lanes at once where they are neighbours."""

    def _all_lanes(self, stage: Stage, axis: Axis) -> Trees:
        before: Trees = []
        for buffer, place in self._halves(stage, axis):
            name = f"h{len(before) // 2}"
            first = replace_axes(place, {axis: variable(Axis("k", axis.extent))})
            band = self.e.bands.get(buffer.name)
            pointer = ct.name(band.name if band else buffer.name)
            memory = ct.binary("+", pointer, self.e.place(buffer, first))
            before.append(self.array("lz_f32", name, (LANES,)))
            before.append(self.e.prelude("lz_widen_f16", ct.integer(LANES), memory, ct.name(name)))
            self.e.widened[buffer.name, place] = ct.element(name, ct.name("l"))
        loop = super()._all_lanes(stage, axis)
        self.e.widened.clear()
        return [*before, *loop]

    def _halves(self, stage: Stage, axis: Axis) -> list[tuple[Buffer, Linear]]:
        """What every lane reads, one behind the other, of float16 buffers."""
        if self.vector:
            return []
        found: dict[tuple[str, Linear], Buffer] = {}
        own = {s.name for s in stage.body if isinstance(s, Let)}
        for statement in stage.body:
            if isinstance(statement, Store) and (statement.guards or statement.combine):
                continue
            for load in _always_read(statement.value):
                buffer = self.e.buffers[load.buffer]
                place = linearize(load.index, buffer.shape)
                rest = place - variable(axis)
                if (
                    buffer.dtype is float16
                    and axis not in axes_of(rest)
                    and not own & data_of(rest)
                ):
                    found[buffer.name, place] = buffer
        return [(buffer, place) for (_, place), buffer in found.items()]


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
