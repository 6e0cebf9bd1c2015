"""Functions of functions as loops of their own.

Each of the longer functions (exponentials, logarithms) is a chain of 15 to 20 dependent steps. A
processor looks a few hundred instructions ahead: it overlaps eight points of one such chain, but
two or three of one chain behind another, and then waits. So what another long function needs is
computed by a loop before, for some hundred points at a time, which stay in the first-level cache.
Softplus of 2 million numbers, log1p(exp(x)), takes 2.9 ms instead of 5.6. Functions beside each
other overlap as they are: there it would be 7 % slower.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import NamedTuple

from lazyt.codegen.prelude import has_paths
from lazyt.ir.index import Load, Var, data_of, sub_expressions
from lazyt.ir.kernel import Keep, Let, Phase, Scan, Stage, Statement, Store
from lazyt.ir.scalar import Call, Expr, post_order, substitute

#: Cost, in multiply-adds, from which a function counts as long.
LONG = 10.0


class Step(NamedTuple):
    """``waiting`` values are computed by a loop of their own; they stand on ``needed`` ones."""

    needed: tuple[Let, ...]
    waiting: tuple[Let, ...]


class Series(NamedTuple):
    """What loops compute one after the other, and the statements of the last one."""

    steps: tuple[Step, ...]
    last: tuple[Statement, ...]


def split_series(phase: Phase) -> Phase:
    """The phase with as many loops over points as long functions follow each other; itself where
    none does."""
    if phase.lanes != "grid" or not phase.grid:
        return phase
    names = fresh_names(phase)
    stages: list[Stage] = []
    for stage in phase.stages:
        plain = stage.axis is None and not stage.sequential
        found = series_of(stage.body, names) if plain else None
        for step in found.steps if found else ():
            stages.append(Stage(None, (*step.needed, *step.waiting)))
        stages.append(replace(stage, body=found.last) if found else stage)
    return replace(phase, stages=tuple(stages)) if len(stages) > len(phase.stages) else phase


def fresh_names(phase: Phase) -> Iterator[str]:
    """Names that no statement of a phase has."""
    taken = {s.name for stage in phase.stages for s in stage.body if not isinstance(s, Store)}
    return (name for n in count() if (name := f"z{n}") not in taken)


def series_of(body: Sequence[Statement], names: Iterator[str]) -> Series | None:
    """The statements of a point, taken apart; None where no long function needs another."""
    if any(isinstance(s, Keep | Scan) or (isinstance(s, Store) and s.combine) for s in body):
        return None
    lets = {s.name: s for s in body if isinstance(s, Let)}
    depths = _depths(body)
    fed = {e for end in depths if _is_long(end) for e in _below(end, lets)}
    inner = [e for e in depths if e in fed and _is_long(e)]
    if not inner:
        return None
    known: dict[Expr, Expr] = {}
    steps: list[Step] = []
    for depth in sorted({depths[e] for e in inner}):
        here = [e for e in inner if depths[e] == depth]
        values = [Let(next(names), substitute(e, known)) for e in here]
        steps.append(Step(_needed(values, lets, known), tuple(values)))
        known.update({e: Var(v.name, e.dtype) for e, v in zip(here, values)})
    last: list[Statement] = []
    for statement in body:
        value = substitute(statement.value, known)
        for arm in _long_arms(value):
            named = Let(next(names), substitute(arm, known))
            last.append(named)
            known[arm] = Var(named.name, arm.dtype)
        last.append(replace(statement, value=substitute(value, known)))
    return Series(tuple(steps), tuple(last))


def _is_long(expr: Expr) -> bool:
    """Whether it is a function that compilers vectorise, of floats, and not a short one."""
    if not isinstance(expr, Call) or expr.fn.cost < LONG or expr.dtype.kind != "f":
        return False
    return not has_paths(f"lz_{expr.fn.name}_{expr.args[0].dtype.compute.suffix}")


def _depths(body: Iterable[Statement]) -> dict[Expr, int]:
    """How many long functions in series end with each expression; what is guarded is left out."""
    depths: dict[Expr, int] = {}
    named: dict[str, int] = {}
    for statement in body:
        for item in post_order(statement.value):
            below = [depths[a] for a in item.args] if isinstance(item, Call) else []
            if isinstance(item, Var):
                below = [named.get(item.name, 0)]
            depths[item] = max(below, default=0) + _is_long(item)
        if isinstance(statement, Let):
            named[statement.name] = depths[statement.value]
    return depths


def _below(expr: Expr, lets: Mapping[str, Let]) -> Iterator[Expr]:
    """What an expression is computed from."""
    seen: set[Expr] = {expr}
    pending = [expr]
    while pending:
        for item in post_order(pending.pop()):
            if item in seen:
                continue
            seen.add(item)
            yield item
            if isinstance(item, Var) and item.name in lets:
                pending.append(lets[item.name].value)


def _needed(
    values: Iterable[Let], lets: Mapping[str, Let], known: dict[Expr, Expr]
) -> tuple[Let, ...]:
    """The names of a stage that ``values`` stand on, in order."""
    needed: dict[str, Let] = {}
    pending = [v.value for v in values]
    while pending:
        for item in sub_expressions(pending.pop()):
            names = [item.name] if isinstance(item, Var) else []
            if isinstance(item, Load):
                names = [n for i in item.index for n in data_of(i)]
            for name in names:
                if name in lets and name not in needed:
                    needed[name] = Let(name, substitute(lets[name].value, known))
                    pending.append(needed[name].value)
    return tuple(needed[name] for name in lets if name in needed)


def _long_arms(value: Expr) -> Iterator[Expr]:
    """Long functions under a condition, for which gcc may make a branch. Inner ones first."""
    for item in post_order(value):
        if isinstance(item, Call) and item.fn.name == "where":
            yield from (e for arm in item.args[1:] for e in post_order(arm) if _is_long(e))
