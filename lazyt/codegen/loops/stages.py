"""What printers of C and CUDA C ask about the statements of a kernel, and write alike."""

from __future__ import annotations

from collections.abc import Sequence

from lazyt.codegen.c import tree as ct
from lazyt.codegen.prelude import has_paths
from lazyt.ir.index import Axis, Load, Var, data_of, sub_expressions
from lazyt.ir.kernel import Let, Phase
from lazyt.ir.scalar import Call, Expr, post_order


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
    return any(has_paths(_function(e)) for e in calls if e.args)


def _function(call: Call) -> str:
    """The function of the prelude that a call becomes."""
    if call.fn.name == "cast" and call.dtype.is_half:
        return f"lz_round_{call.dtype.suffix}"
    return f"lz_{call.fn.name}_{call.args[0].dtype.compute.suffix}"


def coordinates(flat: ct.Node, axes: Sequence[Axis], kind: str) -> list[ct.Node]:
    """Declarations, of C type ``kind``, of the axes' values at a flat row-major position."""
    out: list[ct.Node] = []
    stride = 1
    real = [a for a in axes if a.extent > 1]
    for number, axis in reversed(list(enumerate(real))):
        node = flat
        if stride > 1:
            node = ct.binary("/", node, ct.integer(stride))
        if number > 0:
            node = ct.binary("%", node, ct.integer(axis.extent))
        out.append(ct.declare(kind, axis.name, node, const=True))
        stride *= axis.extent
    return out[::-1]


def reads(*values: Expr) -> bool:
    """Whether one of them reads memory without a guard."""
    return any(isinstance(e, Load) for value in values for e in post_order(value))
