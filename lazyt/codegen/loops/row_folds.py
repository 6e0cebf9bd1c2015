"""Folds of what lies in short rows of memory: functions of the prelude, which turn no tile."""

from __future__ import annotations

from typing import NamedTuple

from lazyt.codegen.c.family import Expressions, is_positional
from lazyt.ir.index import Axis, Linear, Load, Var, data_of, linearize
from lazyt.ir.kernel import Let, Phase, Reduce, Stage
from lazyt.ir.scalar import Call, Expr

#: The longest rows, as the functions want them.
MOST_STEPS = 64
_KINDS = ("sum", "max", "min", "argmax", "argmin")


class RowFold(NamedTuple):
    """A fold of elements of a buffer from a row-major position on, of rows ``pitch`` apart.

    ``factors`` is where a vector lies by which every row is multiplied, or None.
    """

    reduce: Reduce
    buffer: str
    place: Linear
    pitch: int
    factors: tuple[str, Linear] | None = None

    @property
    def function(self) -> str:
        """What the prelude calls it."""
        kind = self.reduce.kind if self.factors is None else "dot"
        return f"lz_short_{kind}_{self.reduce.value.dtype.suffix}"


def row_folds(phase: Phase, stage: Stage, expressions: Expressions) -> list[RowFold]:
    """The folds that a stage with lanes on the last axis of the grid consists of; none where it
    does anything else."""
    axis = stage.axis
    if axis is None or not 1 < axis.extent <= MOST_STEPS or stage.guard or not phase.grid:
        return []
    found: list[RowFold] = []
    named = {s.name: s.value for s in stage.body if isinstance(s, Let)}
    for statement in stage.body:
        if isinstance(statement, Let):
            continue
        factors = _factors(statement, named) if isinstance(statement, Reduce) else ()
        if not isinstance(statement, Reduce) or not all(isinstance(f, Load) for f in factors):
            return []
        loads = [f for f in factors if isinstance(f, Load)]
        fold = _fold(phase, axis, statement, loads, expressions)
        if fold is None:
            return []
        found.append(fold)
    return found


def _fold(
    phase: Phase, axis: Axis, reduce: Reduce, factors: list[Load], expressions: Expressions
) -> RowFold | None:
    """A fold of elements of rows, or of their products with those of one vector."""
    dtype = reduce.value.dtype
    same = is_positional(reduce) or reduce.dtype is dtype
    if reduce.kind not in _KINDS or dtype.suffix not in ("f32", "f64") or not same:
        return None
    rows: list[tuple[str, Linear, int]] = []
    vectors: list[tuple[str, Linear]] = []
    for load in factors:
        place = linearize(load.index, expressions.buffers[load.buffer].shape)
        pitch = place.coefficient(phase.grid[-1]) or 0
        apart = pitch == 0 or pitch >= axis.extent
        if place.coefficient(axis) != 1 or data_of(place) or not apart:
            return None
        if pitch:
            rows.append((load.buffer, place, pitch))
        else:
            vectors.append((load.buffer, place))
    if len(rows) != 1:
        return None
    return RowFold(reduce, *rows[0], vectors[0] if vectors else None)


def _factors(reduce: Reduce, named: dict[str, Expr]) -> tuple[Expr, ...]:
    """What is multiplied and summed, or what is folded."""
    value = reduce.value
    if isinstance(value, Var):
        value = named.get(value.name, value)
    if reduce.kind == "sum" and isinstance(value, Call) and value.fn.name == "mul":
        return value.args
    return (value,)
