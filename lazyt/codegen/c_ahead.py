"""Rows that are asked for while the row before is computed with.

A phase with several loops over each row waits for memory in one and for arithmetic in the next. So
its costliest loop asks, line by line, for the next row that will be read and for the lines that
will be written later: then memory works all the time. A softmax of rows of 4096 took 0.7 to 0.8 of
the time, but loops that are waiting for memory anyway (variances, norms) up to 1.5 times as long.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from lazyt.codegen import c_tree as ct
from lazyt.codegen.c_abreast import AbreastPhase
from lazyt.codegen.c_family import Expressions
from lazyt.codegen.c_loops import Trees
from lazyt.ir.index import Axis, Linear, constant, data_of, linearize, replace_axes, variable
from lazyt.ir.kernel import LANES, Phase, Reduce, Scan, Stage, Store
from lazyt.ir.point import Load, sub_expressions
from lazyt.ir.scalar import Call

#: Bytes of a line of the cache.
LINE = 64
#: Bytes of a row, and cost of a step of the loop that asks (an exponential's is 10), from which
#: asking pays.
LEAST_ROW, LEAST_COST = 2048, 8.0


class Ask(NamedTuple):
    """A row of a buffer; ``place`` is the element of the loop's step."""

    buffer: str
    place: Linear
    write: bool


class AheadPhase(AbreastPhase):
    """A phase whose loops may ask for rows.

    Attributes:
        asks: for what a stage asks, by the stage.
    """

    def __init__(
        self, phase: Phase, expressions: Expressions, number: int, any_size: bool = False
    ) -> None:
        super().__init__(phase, expressions, number, any_size)
        self.asks: dict[int, list[Ask]] = {}

    def _all_lanes(self, stage: Stage, axis: Axis) -> Trees:
        asked = [t for ask in self.asks.get(id(stage), ()) for t in self._ask(ask, axis)]
        return [*asked, *super()._all_lanes(stage, axis)]

    def _ask(self, ask: Ask, axis: Axis) -> Trees:
        """Asks for the lines of as many elements as a step of the loop takes."""
        buffer = self.e.buffers[ask.buffer]
        out: Trees = []
        for offset in range(0, LANES, max(LINE // buffer.dtype.itemsize, 1)):
            step = variable(Axis("k", axis.extent)) + constant(offset)
            at = self.e.place(buffer, replace_axes(ask.place, {axis: step}))
            function = "lz_ahead_write" if ask.write else "lz_ahead"
            out.append(self.e.prelude(function, ct.binary("+", ct.name(ask.buffer), at)))
        return out


def rows_ahead(phase: Phase, e: Expressions, second: int) -> dict[int, list[Ask]]:
    """For which rows the stages of a phase with lanes inside of rows ask; ``second`` is the size of
    the second-level cache, which must hold what is asked for, and does not hold everything."""
    across = [axis for axis in phase.grid if axis.extent > 1]
    looped = [(s, s.axis) for s in phase.stages if s.axis is not None]
    if len(looped) < 2 or not across or e.bands:
        return {}
    last, points = across[-1], math.prod(axis.extent for axis in across)
    next_row = {last: variable(last) + constant(1)}
    found: dict[int, list[Ask]] = {}
    seen: set[tuple[str, Linear]] = set()
    for number, (stage, axis) in enumerate(looped):
        for name, place, write in _rows(stage, axis, last, e):
            size = axis.extent * e.buffers[name].dtype.itemsize
            known = (name, replace_axes(place, {axis: constant(0)})) in seen
            if known or not LEAST_ROW <= size <= second // 4 or size * points <= second:
                continue
            seen.add((name, replace_axes(place, {axis: constant(0)})))
            before = looped[:number] if write else looped
            asking = _costliest([s for s, a in before if a.extent == axis.extent], e)
            if asking is not None and _cost(asking) >= LEAST_COST:
                there = place if write else replace_axes(place, next_row)
                assert asking.axis is not None
                at = replace_axes(there, {axis: variable(asking.axis)})
                found.setdefault(id(asking), []).append(Ask(name, at, write))
    return found


def _rows(
    stage: Stage, axis: Axis, last: Axis, e: Expressions
) -> Iterator[tuple[str, Linear, bool]]:
    """Rows of memory that a stage goes along, each point of the grid along another."""
    accesses = [(s.buffer, s.index, True) for s in stage.body if isinstance(s, Store)]
    for statement in stage.body:
        reads = [x for x in sub_expressions(statement.value) if isinstance(x, Load)]
        accesses += [(x.buffer, x.index, False) for x in reads]
    for name, index, write in accesses:
        place = linearize(index, e.buffers[name].shape)
        apart = place.coefficient(last) or 0
        if place.coefficient(axis) == 1 and apart >= axis.extent and not data_of(place):
            yield name, place, write


def _costliest(stages: Sequence[Stage], e: Expressions) -> Stage | None:
    """The loop with the most arithmetic among those that go by lanes and fold."""
    folds = [
        s for s in stages
        if s.guard is None and s.axis not in e.ends
        and any(isinstance(x, Reduce) for x in s.body)
        and not any(isinstance(x, Scan) for x in s.body)
    ]  # fmt: skip
    return max(folds, key=_cost, default=None)


def _cost(stage: Stage) -> float:
    items = [x for s in stage.body for x in sub_expressions(s.value)]
    return sum(x.fn.cost for x in items if isinstance(x, Call))
