"""Folds of rows of memory: short ones are functions of the prelude, which turn no tile; what else
phases fold of rows."""

from __future__ import annotations

from typing import NamedTuple

from lazyt.codegen.c.family import Expressions, is_positional
from lazyt.codegen.loops.forms import may_turn
from lazyt.ir.index import Axis, Linear, Load, Var, axes_of, data_of, linearize, sub_expressions
from lazyt.ir.kernel import LANES, Let, Phase, Reduce, Stage
from lazyt.ir.scalar import Call, Const, Expr

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


# What phases fold of whole rows, which decides how wide their tiles are and how they are read.

#: Columns that no vector leaves anything of.
EVEN = 16
#: Rows that are taken at once where columns are few.
LEAST_DENSE_ROWS = 4 * LANES
#: Rows there are at least for some to be folded side by side, so that threads have something to
#: share, and the bytes of a row from which it pays.
LEAST_ROWS, LONG_ROW = 64, 16384


def best_lanes(phase: Phase, e: Expressions) -> str:
    """Which axis of a phase is vectorised: also a few columns, if lanes of sums lie beside them."""
    columns = phase.grid[-1].extent if phase.grid else 1
    if phase.lanes == "grid" or not 1 < columns < EVEN or not may_turn(phase):
        return phase.lanes
    looped = [(s, s.axis) for s in phase.stages if s.axis is not None]
    long = all(axis.extent >= LEAST_DENSE_ROWS for _, axis in looped)
    return "grid" if long and all(rows_follow(phase, *at, e) for at in looped) else phase.lanes


def rows_follow(phase: Phase, stage: Stage, axis: Axis, e: Expressions) -> bool:
    """Whether a stage folds nothing but rows that lie one behind the other along its axis."""
    reads = folded_reads(stage)
    return reads is not None and all(_reads_rows(x, phase.grid[-1], axis, e) for x in reads)


def folded_reads(stage: Stage) -> list[Load] | None:
    """The elements of memory of which a stage computes what it folds; None where it does anything
    else, or needs anything beside."""
    own = {s.name for s in stage.body if isinstance(s, Let)}
    reads: list[Load] = []
    for statement in stage.body:
        if not isinstance(statement, Let | Reduce):
            return None
        if isinstance(statement, Reduce) and is_positional(statement):
            return None
        for item in sub_expressions(statement.value):
            if isinstance(item, Load):
                reads.append(item)
            elif not isinstance(item, Const | Call | Var) or (
                isinstance(item, Var) and item.name not in own
            ):
                return None
    return reads


def _reads_rows(item: Load, last: Axis, axis: Axis, e: Expressions) -> bool:
    """Whether it is an element of a row, and the next one is behind it, also across rows."""
    if item.buffer in e.bands:
        return False
    place = linearize(item.index, e.buffers[item.buffer].shape)
    if place.coefficient(axis) != last.extent or place.coefficient(last) != 1:
        return False
    inside = [atom for atom, _ in place.terms if atom not in (axis, last)]
    return not data_of(place) and not any({axis, last} & axes_of(atom) for atom in inside)


def is_jammed(phase: Phase, e: Expressions) -> bool:
    """Whether the phase does nothing but fold long rows of memory with vectors as long as they."""
    rows = [row for _, row in folded_rows(phase, e)]
    return 0 in rows and max(rows) >= LONG_ROW


def folded_rows(phase: Phase, e: Expressions) -> list[tuple[Stage, int]]:
    """What a phase reads that does nothing but fold rows of memory, many of them: its stage and the
    bytes of a row, 0 where each point of the grid reads the same. Empty for other phases."""
    looped = [(stage, stage.axis) for stage in phase.stages if stage.axis is not None]
    if (
        phase.lanes != "inner"
        or len(looped) != 1
        or not phase.grid
        or phase.grid[-1].extent < LEAST_ROWS
        or e.bands
    ):
        return []
    ((stage, axis),) = looped
    if stage.guard or axis in e.ends:
        return []
    rows = [_row_bytes(item, phase.grid[-1], axis, e) for item in folded_reads(stage) or []]
    return [] if None in rows else [(stage, row) for row in rows if row is not None]


def _row_bytes(item: Load, last: Axis, axis: Axis, e: Expressions) -> int | None:
    """Bytes of a row that is read along a loop; 0 if each point of the grid reads the same, None
    for anything else."""
    buffer = e.buffers[item.buffer]
    place = linearize(item.index, buffer.shape)
    inside = [atom for atom, _ in place.terms if atom not in (axis, last)]
    if buffer.dtype.is_half or data_of(place) or place.coefficient(axis) != 1:
        return None
    if any({axis, last} & axes_of(atom) for atom in inside):
        return None
    pitch = place.coefficient(last) or 0
    if pitch == 0:
        return 0
    return axis.extent * buffer.dtype.itemsize if pitch >= axis.extent else None
