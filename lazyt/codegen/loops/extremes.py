"""Positions of extremes as two folds: the extreme, and the least position that has it.

A fold of pairs is a branch for every element. Two folds are vectors, and what makes folds of values
fast (several steps at once, transposed tiles) serves them, too. The second reads what is in cache.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from lazyt.codegen.c.family import is_positional
from lazyt.ir.dtypes import DType, int32, int64
from lazyt.ir.index import Axis, Position, Var, sub_expressions, variable
from lazyt.ir.kernel import Let, Phase, Reduce, Stage, Statement
from lazyt.ir.scalar import Call, Expr, call, const

#: Cost of a value, in multiply-adds, from which computing it twice is worse than branches.
MOST_COST = 8.0


def split_positions(phase: Phase, whole: Callable[[Stage], object]) -> Phase:
    """The phase with each stage that folds to positions as two, where that pays and the stage is
    not one that can be written as a ``whole``."""
    stages: list[Stage] = []
    for stage in phase.stages:
        stages += [stage] if phase.lanes == "grid" and whole(stage) else _split(stage)
    return replace(phase, stages=tuple(stages)) if len(stages) > len(phase.stages) else phase


def _split(stage: Stage) -> list[Stage]:
    axis = stage.axis
    found = [s for s in stage.body if isinstance(s, Reduce) and is_positional(s)]
    if axis is None or not found:
        return [stage]
    again = _needed(stage, found)
    statements: list[Let | Reduce] = [*again, *found]
    values = [s.value for s in statements]
    if (
        sum(e.fn.cost for v in values for e in sub_expressions(v) if isinstance(e, Call))
        > MOST_COST
    ):
        return [stage]
    dtypes = {r.name: _position_dtype(axis, r.value.dtype) for r in found}
    first = tuple(_extreme(s) if isinstance(s, Reduce) else s for s in stage.body)
    second: list[Statement] = [*again, *(_position(r, axis, dtypes[r.name]) for r in found)]
    wide = tuple(Let(r.name, call("cast", _where(r, dtypes), dtype=int64)) for r in found)
    ready = [Stage(None, wide)]
    return [replace(stage, body=first), replace(stage, body=tuple(second)), *ready]


def _needed(stage: Stage, found: list[Reduce]) -> list[Let]:
    """The names of the loop that the values stand on, in order."""
    lets = {s.name: s for s in stage.body if isinstance(s, Let)}
    needed: dict[str, None] = {}
    pending = [r.value for r in found]
    while pending:
        for item in sub_expressions(pending.pop()):
            if isinstance(item, Var) and item.name in lets and item.name not in needed:
                needed[item.name] = None
                pending.append(lets[item.name].value)
    return [let for name, let in lets.items() if name in needed]


def _extreme(r: Reduce) -> Reduce:
    """What a fold to positions looks for; any other fold as it is."""
    if not is_positional(r):
        return r
    return Reduce(f"{r.name}_most", r.kind[3:], r.value, r.value.dtype)


def _position_dtype(axis: Axis, dtype: DType) -> DType:
    """As wide as the values are where that is enough: a vector of each then goes together."""
    return int32 if dtype.compute.itemsize <= 4 and axis.extent < 1 << 31 else int64


def _position(r: Reduce, axis: Axis, dtype: DType) -> Reduce:
    """The least position whose value is the extreme or NaN, which is the extreme then."""
    here: Expr = call("eq", r.value, Var(f"{r.name}_most", r.value.dtype))
    if r.value.dtype.kind == "f":
        here = call("logical_or", here, call("ne", r.value, r.value))
    most = (1 << (8 * dtype.itemsize - 1)) - 1
    chosen = call("where", here, Position(variable(axis), dtype), const(most, dtype))
    return Reduce(f"{r.name}_where", "min", chosen, dtype)


def _where(r: Reduce, dtypes: dict[str, DType]) -> Expr:
    return Var(f"{r.name}_where", dtypes[r.name])
