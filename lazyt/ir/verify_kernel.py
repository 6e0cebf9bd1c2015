"""Checks that a kernel keeps the rules of the kernel IR; ``bounds`` checks its indices."""

from __future__ import annotations

from collections.abc import Iterable

from lazyt.ir.bands import band_complaints
from lazyt.ir.dtypes import bool_, int64
from lazyt.ir.index import Axis, Linear, axes_of, constant, data_of, variable
from lazyt.ir.kernel import (
    AnyPhase,
    CallPhase,
    ContractPhase,
    Keep,
    Kernel,
    Let,
    Phase,
    Reduce,
    Scan,
    Stage,
    Statement,
    Store,
)
from lazyt.ir.point import Guard, Guarded, Load, Position, Var, sub_expressions
from lazyt.ir.routines import ROUTINES
from lazyt.ir.scalar import Arg, Call, Const, Expr
from lazyt.ir.text_kernel import defined_type, kernel_lines
from lazyt.ir.verify import check_call, check_literal, failure

_ROLES = ("in", "out", "inout", "work", "band")
_REDUCE = ("sum", "prod", "max", "min", "any", "all", "argmax", "argmin")
_SCAN = ("sum", "prod", "max", "min")
_COMBINE = (None, "add", "mul", "maximum", "minimum")


class _Checker:
    """Complaints about one kernel, and what is in scope at the current statement."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.buffers = {b.name: b for b in kernel.buffers}
        #: What loops of the phase have stored: later ones may read it at the same point and step.
        self.left: set[tuple[str, tuple[Linear, ...]]] = set()
        self.written = {b.name for b in kernel.buffers if b.role in ("in", "inout")}
        self.complaints: dict[int, list[str]] = {}
        self.here: object = kernel
        self.axes: dict[str, Axis] = {}
        self.values: dict[str, Statement | ContractPhase] = {}
        self.keeps: dict[str, int] = {}
        self.taken: set[str] = set()
        self.stage: Stage | None = None

    def complain(self, text: str) -> None:
        """Complain about the piece of IR being checked."""
        found = self.complaints.setdefault(id(self.here), [])
        if text not in found:
            found.append(text)

    def take_name(self, name: str, what: str) -> None:
        """A name of the kernel, unique because C has one name space for all of them."""
        if not name.isidentifier() or not name.isascii():
            self.complain(f"{what} name {name!r} is no identifier")
        if name in self.taken:
            self.complain(f"{what} {name} takes a name that is in use")
        self.taken.add(name)

    # ------------------------------------------------------------ expressions

    def index(self, item: Linear) -> None:
        """Axes and data of an index must be in scope."""
        for axis in axes_of(item):
            known = self.axes.get(axis.name)
            if known is None:
                self.complain(f"axis {axis.name} is not in scope")
            elif known != axis:
                self.complain(f"axis {axis.name} has extent {known.extent}, not {axis.extent}")
        for name in data_of(item):
            if self.value_kind(name) not in ("i", "u", None):
                self.complain(f"@{name} is no integer")

    def guards(self, guards: Iterable[Guard]) -> None:
        """Indices of guards must be in scope."""
        for guard in guards:
            self.index(guard.index)

    def value_kind(self, name: str) -> str | None:
        """The kind of a value in scope; complains and gives None when it is not readable here."""
        found = self.values.get(name)
        if found is None:
            self.complain(f"%{name} is not defined before this line")
            return None
        extent = self.keeps.get(name)
        axis = self.stage.axis if self.stage else None
        if extent is not None and (axis is None or axis.extent != extent):
            self.complain(f"%{name} keeps {extent} values; this stage does not loop over them")
        if isinstance(found, ContractPhase):
            return found.accumulator.kind
        named = defined_type(found)
        return named[1].kind if named else None

    def value_type(self, item: Var) -> None:
        """A value must be defined, with the type that its reader expects."""
        if self.value_kind(item.name) is None:
            return
        found = self.values[item.name]
        if isinstance(found, ContractPhase):
            dtype = found.accumulator
        else:
            named = defined_type(found)
            dtype = named[1] if named else item.dtype
        if dtype.compute is not item.dtype.compute:
            self.complain(f"%{item.name} is {dtype.name}, read as {item.dtype.name}")

    def access(self, name: str, index: tuple[Linear, ...], dtype_of: Expr) -> None:
        """A buffer access: known buffer, one index per axis, matching type."""
        buffer = self.buffers.get(name)
        if buffer is None:
            self.complain(f"buffer {name} is unknown")
            return
        if len(index) != len(buffer.shape):
            self.complain(f"{name} has {len(buffer.shape)} axes, indexed with {len(index)}")
        if dtype_of.dtype.compute is not buffer.dtype.compute:
            self.complain(f"{name} holds {buffer.dtype.name}, not {dtype_of.dtype.name}")
        for item in index:
            self.index(item)

    def expr(self, root: Expr) -> None:
        """Everything inside an expression."""
        for item in sub_expressions(root):
            if isinstance(item, Var):
                self.value_type(item)
            elif isinstance(item, Load):
                self.access(item.buffer, item.index, item)
                known = item.buffer in self.written or (item.buffer, item.index) in self.left
                if item.buffer in self.buffers and not known:
                    self.complain(f"{item.buffer} is read before an earlier phase has written it")
            elif isinstance(item, Position):
                self.index(item.index)
                if item.dtype is not int64:
                    self.complain(f"a position is int64, not {item.dtype.name}")
            elif isinstance(item, Guarded):
                self.guards(item.guards)
                if item.value.dtype.compute is not item.other.dtype.compute:
                    types = f"{item.value.dtype.name} and {item.other.dtype.name}"
                    self.complain(f"a guarded value chooses between {types}")
            elif isinstance(item, Const):
                for text in check_literal(item):
                    self.complain(text)
            elif isinstance(item, Call):
                for text in check_call(item):
                    self.complain(text)
            elif isinstance(item, Arg):
                self.complain(f"${item.index} cannot stand in a kernel")

    # ------------------------------------------------------------- statements

    def store(self, item: Store) -> None:
        """Where a store may write."""
        self.access(item.buffer, item.index, item.value)
        self.guards(item.guards)
        buffer = self.buffers.get(item.buffer)
        if buffer is not None and buffer.role == "in":
            self.complain(f"{item.buffer} is read only")
        if item.combine not in _COMBINE:
            self.complain(f"unknown combination {item.combine!r}")
        loose = any(data_of(i) for i in item.index)
        if (loose or item.combine) and not (self.stage and self.stage.sequential):
            what = "combining" if item.combine else "data-dependent"
            self.complain(f"a {what} store needs a sequential stage")

    def fold(self, item: Reduce | Scan) -> None:
        """Where folds may stand, and their types."""
        word = "reduce" if isinstance(item, Reduce) else "scan"
        if item.kind not in (_REDUCE if isinstance(item, Reduce) else _SCAN):
            self.complain(f"unknown kind of {word}: {item.kind}")
        if self.stage is None or self.stage.axis is None:
            self.complain(f"{word} needs a stage with a loop")
        elif isinstance(item, Scan) and not self.stage.sequential:
            self.complain("scan needs a sequential stage")
        wanted = item.value.dtype
        if item.kind in ("argmax", "argmin"):
            wanted = int64
        elif item.kind in ("any", "all"):
            wanted = bool_
        if item.dtype.compute is not wanted.compute:
            self.complain(f"{word} {item.kind} gives {wanted.name}, not {item.dtype.name}")

    def statement(self, item: Statement) -> None:
        """One statement; its name is in scope from here on (of a reduce: from the next stage)."""
        self.here = item
        self.expr(item.value)
        if isinstance(item, Store):
            self.store(item)
            return
        if isinstance(item, Reduce | Scan):
            self.fold(item)
        elif isinstance(item, Keep):
            if self.stage is None or self.stage.axis is None:
                self.complain("keep needs a stage with a loop")
            else:
                self.keeps[item.name] = self.stage.axis.extent
        self.take_name(item.name, "value")
        if not isinstance(item, Reduce):
            self.values[item.name] = item

    # -------------------------------------------------------------- structure

    def axis(self, axis: Axis) -> None:
        """A loop axis, in scope from here on."""
        self.take_name(axis.name, "axis")
        if axis.extent < 0:
            self.complain(f"axis {axis.name} has a negative extent")
        self.axes[axis.name] = axis

    def run_stage(self, stage: Stage) -> None:
        """A stage; what it leaves visible are folds, kept arrays and straight-line values."""
        self.here, self.stage = stage, stage
        axes, taken = dict(self.axes), set(self.taken)
        if stage.axis is not None:
            self.axis(stage.axis)
        elif stage.guard is not None:
            self.complain("only a loop takes a condition")
        if stage.guard is not None:
            self.guards((stage.guard,))
        local: list[str] = []
        for item in stage.body:
            self.statement(item)
            if stage.axis is not None and isinstance(item, Let | Scan):
                local.append(item.name)
        for item in stage.body:
            if isinstance(item, Reduce):
                self.values[item.name] = item
            elif isinstance(item, Store) and not (item.guards or item.combine):
                self.left.add((item.buffer, item.index))
        for name in local:
            self.values.pop(name, None)
        visible = {i.name for i in stage.body if not isinstance(i, Store)} - set(local)
        self.axes, self.taken, self.stage = axes, taken | visible, None

    def contraction(self, phase: ContractPhase) -> None:
        """A contraction: each operand sees its own axes only."""
        groups = (phase.batch, phase.rows, phase.columns, phase.inner)
        for axis in (a for group in groups for a in group):
            self.axis(axis)
        batch, rows, columns, inner = ({a.name: a for a in g} for g in groups)
        for side, axes in (
            (phase.left, batch | rows | inner),
            (phase.right, batch | inner | columns),
        ):
            self.here, self.axes = side, axes
            self.expr(side)
            if side.dtype.compute is not phase.accumulator.compute:
                kinds = f"{side.dtype.name}, the accumulator {phase.accumulator.name}"
                self.complain(f"the operand is {kinds}")
        self.here, self.axes = phase, batch | rows | columns
        self.take_name(phase.name, "value")
        self.values[phase.name] = phase
        for item in phase.epilogue:
            self.statement(item)
            if not isinstance(item, Let | Store):
                self.complain("an epilogue takes only let and store")

    def call(self, phase: CallPhase) -> None:
        """A routine's buffers: known, distinct, of the right roles, types and shapes."""
        names = (*phase.reads, *phase.writes, *phase.work)
        routine = ROUTINES.get(phase.routine)
        if routine is None:
            self.complain(f"unknown routine {phase.routine!r}")
        for name in names:
            if name not in self.buffers:
                self.complain(f"buffer {name} is unknown")
        if len(set(names)) < len(names):
            self.complain("a routine takes each buffer once")
        for name in phase.reads:
            if name in self.buffers and name not in self.written:
                self.complain(f"{name} is read before an earlier phase has written it")
        for name in (*phase.writes, *phase.work):
            role = self.buffers[name].role if name in self.buffers else "work"
            if role == "in":
                self.complain(f"{name} is read only")
            if name in phase.work and role != "work":
                self.complain(f"{name} is no scratch")
        if routine is not None and all(name in self.buffers for name in names):
            reads, writes, work = (
                [self.buffers[n] for n in group]
                for group in (phase.reads, phase.writes, phase.work)
            )
            for text in routine.complaints(reads, writes, work, dict(phase.settings)):
                self.complain(text)

    def phase(self, phase: AnyPhase) -> None:
        """One phase; its stores are readable in later phases."""
        self.here, self.axes, self.values, self.keeps = phase, {}, {}, {}
        self.left = set()
        self.taken = set(self.buffers)
        if isinstance(phase, CallPhase):
            self.call(phase)
            self.written |= set(phase.writes)
            return
        if isinstance(phase, ContractPhase):
            self.contraction(phase)
            body: tuple[Statement, ...] = phase.epilogue
        else:
            if phase.lanes not in ("grid", "inner"):
                self.complain(f"unknown lanes {phase.lanes!r}")
            for axis in phase.grid:
                self.axis(axis)
            for stage in phase.stages:
                self.run_stage(stage)
            body = tuple(item for stage in phase.stages for item in stage.body)
        self.written |= {item.buffer for item in body if isinstance(item, Store)}

    def segments(self) -> None:
        """What has to hold for the extents of segments to take the place of the axis' own: a
        buffer is walked along the axis, or used at fixed places. The axis is the grid's, or that
        of a loop before what runs once."""
        kernel = self.kernel
        phase = kernel.phases[0] if len(kernel.phases) == 1 else None
        grid = [*phase.grid, *(s.axis for s in phase.stages)] if isinstance(phase, Phase) else []
        axes = [axis for axis in grid if axis is not None]
        if not isinstance(phase, Phase) or len(axes) != 1:
            self.complain("segments need one phase over one axis")
            return
        (axis,) = axes
        if min(kernel.segments) < 1 or max(kernel.segments) != axis.extent:
            self.complain(f"segments are extents up to that of {axis.name}, {axis.extent}")
        walked: set[str] = set()
        fixed: set[str] = set()
        for stage in phase.stages:
            everywhere = bool(phase.grid) or stage.axis is not None
            here = (variable(axis),) if everywhere else (constant(0),)
            for self.here in stage.body:
                self._segment_accesses(self.here, here, walked if everywhere else fixed, fixed)
        self.here = kernel
        if walked & fixed:
            names = ", ".join(sorted(walked & fixed))
            self.complain(f"{names} is read at fixed places and walked along the segments")

    def _segment_accesses(
        self, item: Statement, here: tuple[Linear], walked: set[str], fixed: set[str]
    ) -> None:
        """Sorts the buffers of one statement by how it gets at them."""
        if isinstance(item, Store):
            if item.index != here or item.guards or item.combine:
                self.complain("what segments write, they write at their own place")
            walked.add(item.buffer)
        elif not isinstance(item, Let | Reduce):
            self.complain("segments have values, reductions and stores only")
        for expr in sub_expressions(item.value):
            if isinstance(expr, Guarded):
                self.complain("segments have no conditions")
            elif isinstance(expr, Load) and any(i.terms for i in expr.index):
                walked.add(expr.buffer)
                if expr.index != here:
                    self.complain("segments are read at their own place, or at fixed ones")
            elif isinstance(expr, Load) and expr.index != here:
                fixed.add(expr.buffer)

    def run(self) -> None:
        """The whole kernel."""
        if not self.kernel.name.isidentifier():
            self.complain(f"kernel name {self.kernel.name!r} is no identifier")
        for buffer in self.kernel.buffers:
            self.take_name(buffer.name, "buffer")
            if buffer.role not in _ROLES:
                self.complain(f"buffer {buffer.name} has the unknown role {buffer.role!r}")
            if any(e < 0 for e in buffer.shape):
                self.complain(f"buffer {buffer.name} has a negative extent")
        for phase in self.kernel.phases:
            self.phase(phase)
        self.here = self.kernel
        if self.kernel.segments:
            self.segments()
        for place, text in band_complaints(self.kernel):
            self.here = place
            self.complain(text)


def verify_kernel(kernel: Kernel) -> None:
    """Check names, scopes, types, ranks and the places of statements of a kernel.

    Raises VerifyError with the marked IR.
    """
    checker = _Checker(kernel)
    checker.run()
    if checker.complaints:
        raise failure(f"kernel {kernel.name}", kernel_lines(kernel), checker.complaints)
