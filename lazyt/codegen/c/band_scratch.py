"""What a band's scratch allows: values that may take the place of others, rows that are read where
they lie, and tiles that need not be computed."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from lazyt.codegen.lower.emitter import indices_of
from lazyt.ir.dtypes import bool_
from lazyt.ir.group import row_of
from lazyt.ir.index import Axis, Linear, Load, Position, Var, linearize, sub_expressions
from lazyt.ir.kernel import AnyPhase, Buffer, ContractPhase, Kernel, Let, Phase, Store
from lazyt.ir.scalar import Call, Const, Expr

#: Bytes apart at which rows fall into the same sets of a first-level cache.
_SETS = 512


class BandPlace(NamedTuple):
    """Scratch of a band: the array ``name`` has rows of ``width`` elements, ``pitch`` apart, from
    the position with the C name ``base`` on."""

    name: str
    width: int
    pitch: int
    base: str


def pitch_of(width: int, item: int) -> int:
    """Elements from one row of scratch to the next: rows of a tile must not share the few sets of
    the cache that a power of two would leave them."""
    lines = -(-width * item // 64)
    if lines * 64 % _SETS == 0:
        lines += 1
    return lines * 64 // item


def in_place(kernel: Kernel) -> dict[str, str]:
    """Scratch that may lie where other scratch is: element by element its last reader stores the
    new value in place of the old one."""
    mine = {b.name: b for b in kernel.buffers if b.role == "band"}
    found: dict[str, str] = {}
    touched: set[str] = set()
    taken: set[str] = set()
    for number, phase in enumerate(kernel.phases):
        here = {name for name, _ in _accesses(phase)}
        later = {name for p in kernel.phases[number + 1 :] for name, _ in _accesses(p)}
        if isinstance(phase, Phase):
            for new in sorted((here & mine.keys()) - touched):
                for old in sorted((here & touched & mine.keys()) - later - taken):
                    if _alike(mine[new], mine[old]) and _takes_over(phase, mine[new], mine[old]):
                        found[new] = found.get(old, old)
                        taken.add(old)
                        break
        touched |= here
    return found


def _alike(new: Buffer, old: Buffer) -> bool:
    return new.dtype is old.dtype and math.prod(new.shape) == math.prod(old.shape)


def _takes_over(phase: Phase, new: Buffer, old: Buffer) -> bool:
    """Whether each value of ``new`` is stored where, or after, the old one is read last."""
    stores: list[tuple[tuple[int, int], Linear]] = []
    loads: list[tuple[tuple[int, int], Linear]] = []
    for number, stage in enumerate(phase.stages):
        for line, statement in enumerate(stage.body):
            if isinstance(statement, Store) and statement.buffer in (new.name, old.name):
                if statement.buffer == old.name or statement.guards or stage.guard:
                    return False
                stores.append(((number, line), linearize(statement.index, new.shape)))
            for item in sub_expressions(statement.value):
                if isinstance(item, Load) and item.buffer == old.name:
                    loads.append(((number, line), linearize(item.index, old.shape)))
    if len(stores) != 1:
        return False
    ((at, place),) = stores
    return all(now[0] < at[0] or (now <= at and where == place) for now, where in loads)


def _accesses(phase: AnyPhase) -> Iterator[tuple[str, tuple[Linear, ...]]]:
    """Buffers and indices that a phase gets at."""
    if isinstance(phase, ContractPhase):
        statements = [Let("left", phase.left), Let("right", phase.right), *phase.epilogue]
    elif isinstance(phase, Phase):
        statements = [s for stage in phase.stages for s in stage.body]
    else:
        statements = []
    for statement in statements:
        for buffer, index in indices_of(statement):
            if buffer is not None:
                yield buffer, index


def rows_at_hand(kernel: Kernel, phase: ContractPhase) -> str | None:
    """The scratch whose rows are those of the left operand, as they are; None for none."""
    load = phase.left
    if not isinstance(load, Load):
        return None
    buffer = next((b for b in kernel.buffers if b.name == load.buffer), None)
    if buffer is None or buffer.role != "band" or buffer.dtype is not phase.accumulator:
        return None
    axes = (*phase.batch, *phase.rows, *phase.inner)
    whole = math.prod(a.extent for a in axes) == math.prod(buffer.shape)
    return buffer.name if whole and linearize(load.index, buffer.shape) == row_of(axes) else None


def idle_tiles(phase: ContractPhase) -> list[Linear]:
    """Numbers that say where sums are not needed: wherever one of them is positive, each result is
    a constant, whatever the sum (a causal mask). In terms of the phase's axes."""
    values = {s.name: s.value for s in phase.epilogue if isinstance(s, Let)}
    needed = {phase.name}  # what depends on the sum, without a choice in between
    choices: dict[str, list[Linear]] = {}
    common: list[Linear] | None = None
    for statement in phase.epilogue:
        value = statement.value
        if isinstance(value, Var) and isinstance(statement, Store):
            found = choices.get(value.name, [] if value.name in needed else None)
        else:
            found = _choice(value, values, needed, choices)
        if isinstance(statement, Store):
            found = found or []
            common = found if common is None else [d for d in common if d in found]
        elif isinstance(statement, Let) and found is not None:
            choices[statement.name] = found
            if not found:
                needed.add(statement.name)
    return common or []


def _choice(
    value: Expr, values: dict[str, Expr], needed: set[str], choices: dict[str, list[Linear]]
) -> list[Linear] | None:
    """Where a value does not need the sum; None for one that never does."""
    names = [e.name for e in sub_expressions(value) if isinstance(e, Var)]
    if not any(n in needed or n in choices for n in names):
        return None
    if not (isinstance(value, Call) and value.fn.name == "where"):
        return []
    test, yes, no = value.args
    for other, positive in ((no, False), (yes, True)):
        if isinstance(other, Const):
            return _never(test, values, positive)
    return []


def _never(test: Expr, values: dict[str, Expr], negated: bool) -> list[Linear]:
    """Numbers of which a positive one says that a test fails (``negated``: that it holds)."""
    while isinstance(test, Var) and test.name in values:
        test = values[test.name]
    if not isinstance(test, Call):
        return []
    logical = test.fn.name.replace("bitwise", "logical") if test.dtype is bool_ else ""
    if logical == ("logical_or" if negated else "logical_and"):
        return [d for a in test.args for d in _never(a, values, negated)]
    if logical == "logical_not":
        return _never(test.args[0], values, not negated)
    if test.fn.name not in ("le", "lt", "ge", "gt"):
        return []
    first, second = (_position(a, values) for a in test.args)
    if first is None or second is None:
        return []
    difference = first - second if test.fn.name in ("le", "lt") else second - first
    strict = test.fn.name in ("lt", "gt")
    if negated:  # a <= b holds: b - a + 1 > 0
        return [(difference * -1) + (0 if strict else 1)]
    return [difference + (1 if strict else 0)]


def _position(value: Expr, values: dict[str, Expr]) -> Linear | None:
    """An index, or a whole number, as one."""
    while isinstance(value, Var) and value.name in values:
        value = values[value.name]
    if isinstance(value, Position):
        return value.index
    if isinstance(value, Call) and value.fn.name in ("add", "sub") and value.dtype.kind == "i":
        first, second = (_position(a, values) for a in value.args)
        if first is None or second is None:
            return None
        return first + second if value.fn.name == "add" else first - second
    if isinstance(value, Const) and isinstance(value.value, int) and value.dtype.kind == "i":
        return Linear((), value.value)
    return None


def least(
    value: Linear, rows: Sequence[Axis], columns: Sequence[Axis], tile: tuple[int, int]
) -> str | None:
    """C text of the least value on a register tile from ``g_row0``, ``g_col0`` on; None where it is
    not a sum of multiples of the two."""
    names: dict[object, tuple[str, int]] = {}
    for group, name, size in ((rows, "g_row0", tile[0]), (columns, "g_col0", tile[1])):
        real = [a for a in group if a.extent > 1]
        if len(real) > 1:
            return None
        names |= dict.fromkeys(real, (name, size))
    text = str(value.const)
    for atom, factor in value.terms:
        if atom not in names:
            return None
        name, size = names[atom]
        text += f" + ({factor}) * ({name}{f' + {size - 1}' if factor < 0 else ''})"
    return text
