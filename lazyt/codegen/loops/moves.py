"""Numbers of 16 bits that a kernel only moves: their bits are moved, and nothing is converted.

A kernel computes halves in float32, so that reading and writing one is a conversion each. Where
all that becomes of a buffer's elements is that they are chosen between and stored, as in gathers,
concatenations and borders, the buffer has integers of 16 bits instead: half as many bytes in each
vector, and gcc vectorises the loop. Every bit of a NaN is passed on, as where memory is copied.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable
from dataclasses import replace

from lazyt.ir.dtypes import DType, bfloat16, uint16
from lazyt.ir.index import Guarded, Load, Var, operands, sub_expressions
from lazyt.ir.kernel import AnyPhase, CallPhase, Kernel, Let, Phase, Stage, Statement, Store
from lazyt.ir.scalar import Call, Const, Expr, call, const, real_number


class _Moved:
    """Buffers and names of halves in sets that exchange elements, and which of them compute."""

    def __init__(self, kernel: Kernel) -> None:
        halves = [b for b in kernel.buffers if b.dtype.is_half]
        self.above: dict[str, str] = {b.name: b.name for b in halves}
        self.computed: set[str] = set()
        for phase in kernel.phases:
            self._note_phase(phase)

    def names(self) -> frozenset[str]:
        """Those of buffers and values that are only moved."""
        computed = {self._top(name) for name in self.computed}
        return frozenset(name for name in self.above if self._top(name) not in computed)

    def _top(self, name: str) -> str:
        while self.above.setdefault(name, name) != name:
            name = self.above[name]
        return name

    def _note_phase(self, phase: AnyPhase) -> None:
        if isinstance(phase, CallPhase):
            self.computed |= {*phase.reads, *phase.writes, *phase.work} & set(self.above)
            return
        assert isinstance(phase, Phase)
        defined: set[str] = set()
        for stage in phase.stages:
            for statement in stage.body:
                self._note(statement, defined)

    def _note(self, statement: Statement, defined: set[str]) -> None:
        """Joins what a statement moves to what it names or writes; ``defined``: the Lets so far."""
        value = statement.value
        if isinstance(statement, Let) and value.dtype.is_half:
            target = statement.name
            defined.add(target)
            self._top(target)
        elif isinstance(statement, Store) and statement.buffer in self.above:
            target = statement.buffer
        else:
            self._compute([value], defined)
            return
        dtype = value.dtype
        if (isinstance(statement, Store) and statement.combine is not None) or not dtype.is_half:
            self.computed.add(target)
            self._compute([value], defined)
            return
        work = [value]
        while work:
            item = work.pop()
            if isinstance(item, Load | Var) and item.dtype is dtype:
                self._join(target, item, defined)
            elif isinstance(item, Guarded):
                work += operands(item)
            elif isinstance(item, Call) and item.fn.name == "where":
                work += item.args[1:]
                self._compute(item.args[:1], defined)
            elif not isinstance(item, Const):
                self.computed.add(target)
                self._compute([item], defined)

    def _join(self, target: str, item: Load | Var, defined: set[str]) -> None:
        source = item.buffer if isinstance(item, Load) else item.name
        if isinstance(item, Var) and source not in defined:  # a fold's, or one that was stored
            self.computed |= {target, source}
        self.above[self._top(source)] = self._top(target)

    def _compute(self, values: Iterable[Expr], defined: set[str]) -> None:
        for value in values:
            for item in sub_expressions(value):
                if isinstance(item, Load) and item.buffer in self.above:
                    self.computed.add(item.buffer)
                elif isinstance(item, Var) and item.name in defined:
                    self.computed.add(item.name)


def move_bits(kernel: Kernel) -> Kernel:
    """The kernel with integers in the place of halves that it only moves."""
    moved = _Moved(kernel).names()
    if not moved:
        return kernel
    buffers = tuple(replace(b, dtype=uint16) if b.name in moved else b for b in kernel.buffers)
    phases = tuple(_phase(p, moved) if isinstance(p, Phase) else p for p in kernel.phases)
    return replace(kernel, buffers=buffers, phases=phases)


def _phase(phase: Phase, moved: frozenset[str]) -> Phase:
    return replace(phase, stages=tuple(_stage(stage, moved) for stage in phase.stages))


def _stage(stage: Stage, moved: frozenset[str]) -> Stage:
    body: list[Statement] = []
    for statement in stage.body:
        target = statement.buffer if isinstance(statement, Store) else statement.name
        if isinstance(statement, Let | Store) and target in moved and statement.value.dtype.is_half:
            statement = replace(statement, value=_bits(statement.value, moved))
        body.append(statement)
    return replace(stage, body=tuple(body))


def _bits(expr: Expr, moved: frozenset[str]) -> Expr:
    """The expression of halves over their bits."""
    new: dict[int, Expr] = {}
    for item in sub_expressions(expr):
        if not item.dtype.is_half:
            continue
        if isinstance(item, Load) and item.buffer in moved:
            new[id(item)] = Load(item.buffer, item.index, uint16)
        elif isinstance(item, Var) and item.name in moved:
            new[id(item)] = Var(item.name, uint16)
        elif isinstance(item, Const):
            new[id(item)] = const(_pattern(real_number(item.value), item.dtype), uint16)
        elif isinstance(item, Guarded | Call):
            chosen = [new.get(id(part)) for part in operands(item)[-2:]]  # of where, too
            if len(chosen) == 2 and chosen[0] is not None and chosen[1] is not None:
                new[id(item)] = _choice(item, chosen[0], chosen[1])
    return new[id(expr)]


def _choice(item: Guarded | Call, yes: Expr, no: Expr) -> Expr:
    if isinstance(item, Guarded):
        return Guarded(item.guards, yes, no)
    return call("where", item.args[0], yes, no)


def _pattern(value: float, dtype: DType) -> int:
    """The bits that storing a constant writes."""
    (bits,) = struct.unpack("<I", _packed("<f", value))
    if dtype is bfloat16:
        return 0x7FC0 if math.isnan(value) else (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
    (single,) = struct.unpack("<f", _packed("<f", value))
    (half,) = struct.unpack("<H", _packed("<e", single))
    return int(half)


def _packed(form: str, value: float) -> bytes:
    """A number in memory, rounded to its type; what is too large for it is infinite."""
    try:
        return struct.pack(form, value)
    except OverflowError:
        return struct.pack(form, math.copysign(math.inf, value))
