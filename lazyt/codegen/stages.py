"""What printers ask about the statements of a kernel."""

from __future__ import annotations

from lazyt.codegen.prelude import has_paths
from lazyt.ir.index import data_of
from lazyt.ir.kernel import Let, Phase
from lazyt.ir.point import Load, Var, sub_expressions
from lazyt.ir.scalar import Call, Expr


def shared_names(phase: Phase) -> set[str]:
    """Names of straight-line stages that another stage reads."""
    home: dict[str, int] = {}
    shared: set[str] = set()
    for number, stage in enumerate(phase.stages):
        for statement in stage.body:
            for item in sub_expressions(statement.value):
                names = [item.name] if isinstance(item, Var) else _datum_names(item)
                shared.update(n for n in names if home.get(n, number) != number)
            if isinstance(statement, Let):
                home[statement.name] = number
    return shared


def _datum_names(expr: Expr) -> list[str]:
    if isinstance(expr, Load):
        return [n for i in expr.index for n in data_of(i)]
    return []


def calls_paths(*values: Expr) -> bool:
    """Whether one of them calls a function that gcc only vectorises where it is always called."""
    calls = (e for value in values for e in sub_expressions(value) if isinstance(e, Call))
    return any(
        has_paths(f"lz_{e.fn.name}_{e.args[0].dtype.compute.suffix}") for e in calls if e.args
    )
