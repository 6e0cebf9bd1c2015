"""What the threads of a row keep in registers: elements that several of its loops read.

On the CPU a row that is read again comes from the first cache. On a GPU it would come from the
second, which is not much faster than memory is for a kernel that does little else.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from lazyt.codegen.cuda.threads import MOST_WARPS, always_loaded
from lazyt.codegen.plan.in_place import mapped
from lazyt.ir.index import Axis, Linear, Load, Var, axes_of, sub_expressions
from lazyt.ir.kernel import BLOCK, LANES, Buffer, Keep, Phase, Stage, Statement
from lazyt.ir.scalar import Expr

#: Bytes that a thread keeps at most.
MOST_KEPT = 256


def hold_loads(phase: Phase, buffers: dict[str, Buffer]) -> Phase:
    """The phase, with elements that are read in several loops over its longest axis kept at the
    first; as it is where threads cannot keep them. ``buffers`` are by their names."""
    axes = [s.axis for s in phase.stages if s.axis is not None]
    axis = max(axes, key=lambda axis: axis.extent, default=None)
    if axis is None or axis.extent > MOST_WARPS * BLOCK:
        return phase
    places = [
        number
        for number, stage in enumerate(phase.stages)
        if stage.axis == axis and stage.guard is None and not stage.sequential
    ]
    stages = [phase.stages[place] for place in places]
    room = MOST_KEPT - sum(
        _slots(axis) * max(4, k.value.dtype.compute.itemsize)
        for s in stages
        for k in s.body
        if isinstance(k, Keep)
    )
    changed = list(phase.stages)
    for number, load in enumerate(_read_again(stages, axis, buffers)):
        room -= _slots(axis) * max(4, load.dtype.compute.itemsize)
        if room < 0:
            break
        name = f"kept{number}_"
        first = True
        for place in places:
            if any(_key(load) in _keys(x.value) for x in changed[place].body):
                body = tuple(_with_var(x, load, name) for x in changed[place].body)
                body = (Keep(name, load), *body) if first else body
                changed[place], first = replace(changed[place], body=body), False
    return replace(phase, stages=tuple(changed))


def _slots(axis: Axis) -> int:
    """Steps of a loop that one thread takes."""
    if axis.extent <= BLOCK:
        return -(-axis.extent // LANES)
    return LANES  # of a block; there are no more of them than warps


def _read_again(stages: list[Stage], axis: Axis, buffers: dict[str, Buffer]) -> Iterator[Load]:
    """Loads of the first loop that has them, whatever the data, which another has too."""
    seen: set[_Key] = set()
    found: dict[_Key, Load] = {}
    for stage in stages:
        values = [statement.value for statement in stage.body]
        for load in (load for value in values for load in always_loaded(value)):
            if _key(load) not in seen:
                found.setdefault(_key(load), load)
        seen |= {key for value in values for key in _keys(value)}
    for key, load in found.items():
        reads = sum(any(key in _keys(x.value) for x in stage.body) for stage in stages)
        walked = any(axis in axes_of(i) for i in load.index)
        if reads > 1 and walked and buffers[load.buffer].role == "in":
            yield load


_Key = tuple[str, tuple[Linear, ...]]


def _key(load: Load) -> _Key:
    return load.buffer, load.index


def _keys(value: Expr) -> set[_Key]:
    return {_key(item) for item in sub_expressions(value) if isinstance(item, Load)}


def _with_var(statement: Statement, load: Load, name: str) -> Statement:
    """The statement, reading what is kept under ``name``."""
    kept, key = Var(name, load.dtype), _key(load)

    def leaf(item: Expr) -> Expr:
        return kept if isinstance(item, Load) and _key(item) == key else item

    return replace(statement, value=mapped(statement.value, leaf))
