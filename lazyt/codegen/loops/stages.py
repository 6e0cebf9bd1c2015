"""What printers of C and CUDA C ask about the statements of a kernel, and write alike."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from lazyt.codegen.c import tree as ct
from lazyt.codegen.prelude import has_paths
from lazyt.ir.index import (
    Axis,
    Guarded,
    Linear,
    Load,
    Var,
    axes_of,
    data_of,
    linearize,
    operands,
    sub_expressions,
    variable,
)
from lazyt.ir.kernel import Buffer, Let, Phase, Stage, Store
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


# Numbers of 16 bits that a loop reads and writes one behind the other.

#: What a stage converts at most.
MOST_HALVES = 6

Places = list[tuple[Buffer, Linear]]


def halves_of(stage: Stage, axis: Axis, buffers: Mapping[str, Buffer]) -> tuple[Places, Places]:
    """What is read and written of buffers of 16 bits, one behind the other along the axis."""
    if axis.extent < 2:
        return [], []
    own = {s.name for s in stage.body if isinstance(s, Let)}
    read: dict[tuple[str, Linear], Buffer] = {}
    written: dict[tuple[str, Linear], Buffer] = {}
    at_once: set[str] = set()  # what the loop itself reads or writes

    def note(found: dict[tuple[str, Linear], Buffer], name: str, index: tuple[Linear, ...]) -> None:
        buffer = buffers[name]
        if not buffer.dtype.is_half:
            return
        place = linearize(index, buffer.shape)
        rest = place - variable(axis)
        if axis not in axes_of(rest) and not own & data_of(rest):
            found[name, place] = buffer

    for statement in stage.body:
        loads = [e for e in sub_expressions(statement.value) if isinstance(e, Load)]
        at_once.update(load.buffer for load in loads)
        if isinstance(statement, Store):
            if statement.guards or statement.combine:
                at_once.add(statement.buffer)
                continue
            note(written, statement.buffer, statement.index)
        for load in _always_read(statement.value):
            note(read, load.buffer, load.index)
    if len(read) + len(written) > MOST_HALVES or at_once & {name for name, _ in written}:
        return [], []
    return [(b, p) for (_, p), b in read.items()], [(b, p) for (_, p), b in written.items()]


def _always_read(value: Expr) -> Iterator[Load]:
    """Loads of an expression that are done whatever guards say."""
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
