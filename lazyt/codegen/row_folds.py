"""Folds of what lies in short rows of memory: functions of the prelude, which turn no tile."""

from __future__ import annotations

from typing import NamedTuple

from lazyt.codegen.c_family import Expressions, is_positional
from lazyt.ir.index import Linear, data_of, linearize
from lazyt.ir.kernel import Phase, Reduce, Stage
from lazyt.ir.point import Load

#: The longest rows, as the functions want them.
MOST_STEPS = 64
_KINDS = ("sum", "max", "min", "argmax", "argmin")


class RowFold(NamedTuple):
    """A fold of elements of a buffer from a row-major position on, of rows ``pitch`` apart."""

    reduce: Reduce
    buffer: str
    place: Linear
    pitch: int

    @property
    def function(self) -> str:
        """What the prelude calls it."""
        return f"lz_short_{self.reduce.kind}_{self.reduce.value.dtype.suffix}"


def row_folds(phase: Phase, stage: Stage, expressions: Expressions) -> list[RowFold]:
    """The folds that a stage with lanes on the last axis of the grid consists of; none where it
    does anything else."""
    axis = stage.axis
    if axis is None or not 1 < axis.extent <= MOST_STEPS or stage.guard or not phase.grid:
        return []
    found: list[RowFold] = []
    for statement in stage.body:
        if not isinstance(statement, Reduce) or not isinstance(statement.value, Load):
            return []
        dtype, load = statement.value.dtype, statement.value
        same = is_positional(statement) or statement.dtype is dtype
        if statement.kind not in _KINDS or dtype.suffix not in ("f32", "f64") or not same:
            return []
        place = linearize(load.index, expressions.buffers[load.buffer].shape)
        pitch = place.coefficient(phase.grid[-1])
        if place.coefficient(axis) != 1 or not pitch or pitch < axis.extent or data_of(place):
            return []
        found.append(RowFold(statement, load.buffer, place, pitch))
    return found
