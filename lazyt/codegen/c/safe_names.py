"""Names that mean nothing else in C: those of lowering stay, all others are replaced.

Kernels as text may call axes, values and buffers anything; in C, words of the language, helpers and
what printers declare (``k``, ``end``, ``threads``) would capture them.
"""

from __future__ import annotations

import re
from dataclasses import replace

from lazyt.ir.index import (
    Axis,
    Datum,
    Guard,
    Guarded,
    Linear,
    Load,
    Position,
    Quotient,
    Var,
    constant,
    datum,
    sub_expressions,
    variable,
)
from lazyt.ir.kernel import (
    AnyPhase,
    CallPhase,
    ContractPhase,
    Kernel,
    Phase,
    Stage,
    Statement,
    Store,
)
from lazyt.ir.scalar import Call, Expr

#: What lowering calls axes, values and buffers, and the letter of new names.
_AXES = re.compile(r"[ijk]\d+(_\d*|_run_)*q*|[bis]|q+|row"), "i"
_VALUES = re.compile(r"k?v\d+|r\d+|acc|running|old\d+_y\d+"), "v"
_BUFFERS = re.compile(r"[wxy]\d+"), "x"
#: Names of kernels that printers know.
_KERNEL = re.compile(r"lz_kernel(_\w+)?|lz_[a-z]+_[0-9a-f]{10}")


def with_safe_names(kernel: Kernel) -> Kernel:
    """The kernel, with other names where its own could mean something else in C or CUDA C."""
    renamer = _Renamer(kernel)
    if not _KERNEL.fullmatch(kernel.name):
        kernel = replace(kernel, name=f"lz_kernel_{kernel.name}")
    return renamer.kernel(kernel) if renamer.table else kernel


class _Renamer:
    """The new names of a kernel's axes, values and buffers, in one name space as in C."""

    def __init__(self, kernel: Kernel) -> None:
        self.table: dict[str, str] = {}
        axes, values = _names(kernel)
        kinds = (
            (axes, _AXES),
            (values, _VALUES),
            ({b.name: None for b in kernel.buffers}, _BUFFERS),
        )
        taken = {name for names, _ in kinds for name in names}
        for names, (usual, letter) in kinds:
            for name in names:
                if not usual.fullmatch(name):
                    number = 0
                    while f"{letter}{number}" in taken:
                        number += 1
                    self.table[name] = f"{letter}{number}"
                    taken.add(self.table[name])

    def name(self, name: str) -> str:
        """What a name becomes."""
        return self.table.get(name, name)

    def kernel(self, kernel: Kernel) -> Kernel:
        """The kernel with new names."""
        buffers = tuple(replace(b, name=self.name(b.name)) for b in kernel.buffers)
        return replace(kernel, buffers=buffers, phases=tuple(map(self.phase, kernel.phases)))

    def phase(self, phase: AnyPhase) -> AnyPhase:
        """A phase with new names."""
        if isinstance(phase, CallPhase):
            reads, writes, work = (
                tuple(map(self.name, names)) for names in (phase.reads, phase.writes, phase.work)
            )
            return replace(phase, reads=reads, writes=writes, work=work)
        if isinstance(phase, ContractPhase):
            return replace(
                phase,
                batch=tuple(map(self.axis, phase.batch)),
                rows=tuple(map(self.axis, phase.rows)),
                columns=tuple(map(self.axis, phase.columns)),
                inner=tuple(map(self.axis, phase.inner)),
                left=self.value(phase.left),
                right=self.value(phase.right),
                name=self.name(phase.name),
                epilogue=tuple(map(self.statement, phase.epilogue)),
            )
        assert isinstance(phase, Phase)
        return replace(
            phase,
            grid=tuple(map(self.axis, phase.grid)),
            stages=tuple(map(self.stage, phase.stages)),
        )

    def stage(self, stage: Stage) -> Stage:
        """A stage with new names."""
        return replace(
            stage,
            axis=None if stage.axis is None else self.axis(stage.axis),
            body=tuple(map(self.statement, stage.body)),
            guard=None if stage.guard is None else self.guard(stage.guard),
        )

    def statement(self, item: Statement) -> Statement:
        """A statement with new names."""
        value = self.value(item.value)
        if isinstance(item, Store):
            index, guards = tuple(map(self.index, item.index)), tuple(map(self.guard, item.guards))
            buffer = self.name(item.buffer)
            return replace(item, buffer=buffer, index=index, value=value, guards=guards)
        return replace(item, name=self.name(item.name), value=value)

    def value(self, root: Expr) -> Expr:
        """An expression with new names; iterative."""
        done: dict[int, Expr] = {}
        for item in sub_expressions(root):
            if isinstance(item, Call):
                made: Expr = Call(item.fn, tuple([done[id(a)] for a in item.args]), item.dtype)
            elif isinstance(item, Guarded):
                guards = tuple(map(self.guard, item.guards))
                made = Guarded(guards, done[id(item.value)], done[id(item.other)])
            elif isinstance(item, Load):
                made = Load(self.name(item.buffer), tuple(map(self.index, item.index)), item.dtype)
            elif isinstance(item, Var):
                made = Var(self.name(item.name), item.dtype)
            elif isinstance(item, Position):
                made = Position(self.index(item.index), item.dtype)
            else:
                made = item
            done[id(item)] = made
        return done[id(root)]

    def axis(self, axis: Axis) -> Axis:
        """An axis with a new name."""
        return Axis(self.name(axis.name), axis.extent)

    def guard(self, guard: Guard) -> Guard:
        """A guard with new names."""
        return replace(guard, index=self.index(guard.index))

    def index(self, value: Linear) -> Linear:
        """An index with new names."""
        found = constant(value.const)
        for atom, factor in value.terms:
            if isinstance(atom, Axis):
                part = variable(self.axis(atom))
            elif isinstance(atom, Datum):
                part = datum(self.name(atom.name), atom.extent)
            elif isinstance(atom, Quotient):
                part = self.index(atom.value) // atom.divisor
            else:
                part = self.index(atom.value) % atom.divisor
            found = found + part * factor
        return found


def _names(kernel: Kernel) -> tuple[dict[str, None], dict[str, None]]:
    """Names of axes, and of values."""
    axes: dict[str, None] = {}
    values: dict[str, None] = {}
    for phase in kernel.phases:
        if isinstance(phase, CallPhase):
            continue
        if isinstance(phase, ContractPhase):
            every = [*phase.batch, *phase.rows, *phase.columns, *phase.inner]
            bodies = [phase.epilogue]
            values[phase.name] = None
        else:
            every = [*phase.grid, *(s.axis for s in phase.stages if s.axis is not None)]
            bodies = [stage.body for stage in phase.stages]
        axes.update((axis.name, None) for axis in every)
        for body in bodies:
            values.update((s.name, None) for s in body if not isinstance(s, Store))
    return axes, values
