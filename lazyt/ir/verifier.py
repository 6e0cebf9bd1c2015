"""Checks that graphs and kernels keep the rules of their languages, and that the indices of kernels
stay inside of their buffers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from lazyt.errors import LazytError, VerifyError
from lazyt.ir.dtypes import bool_, int64
from lazyt.ir.graph import Node, make, topological
from lazyt.ir.group import band_complaints
from lazyt.ir.index import (
    Atom,
    Axis,
    Datum,
    Guard,
    Guarded,
    Linear,
    Load,
    Position,
    Quotient,
    Remainder,
    Var,
    axes_of,
    constant,
    data_of,
    operands,
    sub_expressions,
    variable,
)
from lazyt.ir.kernel import (
    ROUTINES,
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
from lazyt.ir.printer import (
    defined_type,
    field_names,
    format_type,
    graph_lines,
    is_leaf,
    kernel_lines,
)
from lazyt.ir.scalar import Arg, Call, Const, Expr, post_order

# Checks that graphs and kernels keep the rules of their language.
#
# Both functions collect every complaint and raise one VerifyError that prints the IR with each
# complaint beside the line it is about.


#: Lines printed around each complaint of a long text.
CONTEXT = 20


def annotate(lines: Sequence[tuple[object, str]], complaints: dict[int, list[str]]) -> str:
    """IR text with complaints, keyed by ``id`` of a line's item, beside their lines.

    Long texts are cut to the neighbourhood of the complaints.
    """
    marked = [n for n, (item, _) in enumerate(lines) if id(item) in complaints]
    near = {n for m in marked for n in range(m - CONTEXT, m + CONTEXT + 1)} | {0}
    out: list[str] = []
    skipped = False
    for number, (item, text) in enumerate(lines):
        if number not in near:
            skipped = True
            continue
        if skipped:
            out.append("...")
            skipped = False
        for complaint in complaints.get(id(item), ()):
            text += f"  # <-- {complaint}"
        out.append(text)
    return "\n".join(out + ["..."] * skipped)


def failure(
    what: str, lines: Sequence[tuple[object, str]], complaints: dict[int, list[str]]
) -> VerifyError:
    """The error for ``complaints`` about IR whose lines are ``lines``."""
    count = sum(map(len, complaints.values()))
    first = next(iter(complaints.values()))[0]
    more = f" (and {count - 1} more)" if count > 1 else ""
    return VerifyError(f"invalid {what}: {first}{more}\n{annotate(lines, complaints)}")


# ------------------------------------------------------------------- graphs


def _find_cycle(roots: Iterable[Node]) -> list[Node]:
    """The nodes of one cycle, or none. Iterative depth-first search."""
    finished: set[Node] = set()
    for root in roots:
        path: dict[Node, None] = {}
        stack: list[tuple[Node, bool]] = [(root, False)]
        while stack:
            node, leaving = stack.pop()
            if leaving:
                del path[node]
                finished.add(node)
            elif node in path:
                nodes = list(path)
                return nodes[nodes.index(node) :]
            elif node not in finished:
                path[node] = None
                stack.append((node, True))
                stack.extend((i, False) for i in node.inputs)
    return []


def check_expr(expr: Expr, inputs: Sequence[Node] | None = None) -> list[str]:
    """Complaints about a scalar expression: argument types, and Args against ``inputs``."""
    found: list[str] = []
    for item in post_order(expr):
        if isinstance(item, Arg) and inputs is not None:
            if item.index >= len(inputs):
                found.append(f"${item.index} has no input")
            elif item.dtype is not inputs[item.index].dtype:
                given = inputs[item.index].dtype.name
                found.append(f"${item.index} is read as {item.dtype.name} but is {given}")
        elif isinstance(item, Const):
            found.extend(check_literal(item))
        elif isinstance(item, Call):
            found.extend(check_call(item))
    return found


def check_literal(item: Const) -> list[str]:
    """A complaint about an integer literal that its type cannot hold."""
    if item.dtype.kind not in "ui":
        return []
    bits = 8 * item.dtype.itemsize
    low = -(1 << bits - 1) if item.dtype.is_signed else 0
    high = low + (1 << bits) - 1
    return [] if low <= item.value <= high else [f"{item.value} is no {item.dtype.name}"]


def check_call(item: Call) -> list[str]:
    """Complaints about one call: number, kinds and agreement of its arguments."""
    fn, kinds = item.fn, [a.dtype.compute for a in item.args]
    if len(kinds) != fn.arity:
        return [f"{fn.name} takes {fn.arity} arguments, not {len(kinds)}"]
    if fn.result == "free":
        return []
    found: list[str] = []
    values = kinds
    if fn.name == "where":
        values = kinds[1:]
        if kinds[0] is not bool_:
            found.append(f"where needs a bool condition, not {kinds[0].name}")
    if len(set(values)) > 1:
        found.append(f"{fn.name} of different types: {', '.join(t.name for t in values)}")
    for kind in set(values):
        if kind.kind not in fn.kinds:
            found.append(f"{fn.name} does not take {kind.name}")
    return found


def _check_data(node: Node) -> list[str]:
    if node.data is None:
        return []
    size: Any = getattr(node.data, "nbytes", None)
    if not isinstance(size, int):
        return [f"its data is a {type(node.data).__name__}, not a buffer"]
    if size < node.nbytes:
        return [f"its data has {size} bytes, it needs {node.nbytes}"]
    return []


def _check_type(node: Node) -> list[str]:
    """Complaints about parameters and about the type, inferred again."""
    wanted = node.op.params
    if wanted is None and node.params is not None:
        return ["it takes no parameters"]
    if wanted is not None and not isinstance(node.params, wanted):
        return [f"its parameters are a {type(node.params).__name__}, not a {wanted.__name__}"]
    try:
        inferred = node.op.infer(node.params, *node.inputs)
    except (LazytError, TypeError, ValueError, IndexError) as error:
        return [f"its op refuses it: {error}"]
    found: list[str] = []
    if tuple(inferred) != (node.shape, node.dtype):
        found.append(f"its type is inferred as {format_type(*inferred)}")
    if any(not isinstance(e, int) or e < 0 for e in node.shape):
        found.append(f"its shape {node.shape} has bad extents")
    if node.op.name != "input" and make(node.op, node.inputs, node.params) is not node:
        found.append("an equal node exists: it was not made by make()")
    return found


def _check_node(node: Node) -> list[str]:
    found = _check_type(node) + _check_data(node)
    if node.needs_grad and node.dtype.kind != "f":
        found.append(f"{node.dtype.name} values have no gradient")
    params = node.params
    values = [params]
    for name in field_names(params) or ():
        values.append(getattr(params, name))
    for value in values:
        if isinstance(value, Expr):
            found.extend(check_expr(value, node.inputs))
    return found


def verify_graph(roots: Sequence[Node]) -> None:
    """Check every node that ``roots`` depend on.

    Types are inferred again; number and types of inputs, scalar expressions, parameters, interning,
    data sizes and acyclicity are checked. Raises VerifyError with the marked IR. Iterative.
    """
    cycle = _find_cycle(roots)
    if cycle:
        nodes = "\n".join(f"  {n!r}" for n in cycle)
        raise VerifyError(f"invalid graph: these nodes depend on themselves:\n{nodes}")
    complaints: dict[int, list[str]] = {}
    shown: list[tuple[object, str]] = []
    seen: set[Node] = set()
    stack = list(roots)
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        stack.extend(node.inputs)
        found = _check_node(node)
        if found:
            complaints[id(node)] = found
            if is_leaf(node):  # leaves have no line of their own
                shown.append((node, f"leaf {format_type(node.shape, node.dtype)}"))
    if complaints:
        try:
            shown.extend(graph_lines(roots))
        except LazytError as error:  # parameters so wrong that they cannot be printed
            shown.extend((n, repr(n)) for n in seen if id(n) in complaints)
            shown.append((None, f"# the rest cannot be printed: {error}"))
        raise failure("graph", shown, complaints)


def verify_roots(before: Sequence[Node], after: Sequence[Node]) -> None:
    """Check that a step from graph to graph left the types of the results as they were.

    There are as many roots, of the same types, in the same order, and they depend on no input that
    ``before`` has not. Raises VerifyError with the marked IR of ``after``.
    """
    if len(before) != len(after):
        raise VerifyError(
            f"there were {len(before)} roots, and there are {len(after)}\n"
            + "\n".join(text for _, text in graph_lines(after))
        )
    complaints: dict[int, list[str]] = {}
    for number, (old, new) in enumerate(zip(before, after, strict=True)):
        if (old.shape, old.dtype) != (new.shape, new.dtype):
            was, now = (format_type(node.shape, node.dtype) for node in (old, new))
            complaints.setdefault(id(new), []).append(f"root {number} was {was} and is {now}")
    known = {node for node in topological(before) if is_leaf(node)}
    shown: list[tuple[object, str]] = []
    for node in topological(after):
        if is_leaf(node) and node not in known:
            complaints.setdefault(id(node), []).append("no result depended on this input")
        if is_leaf(node) and id(node) in complaints:  # leaves have no line of their own
            shown.append((node, f"leaf {format_type(node.shape, node.dtype)}"))
    if complaints:
        raise failure("graph", [*shown, *graph_lines(after)], complaints)


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


# Proof that a kernel stays inside its buffers, by interval analysis of its indices.
#
# Every loop axis has a range; conditions that hold at an access (of its stage, its store, or the
# guarded values around it) narrow the ranges of the axes and of the forms that they test.


Range = tuple[int, int]
Guards = tuple[Guard, ...]
#: Rounds of narrowing axes by conditions over several axes.
ROUNDS = 3


def _meet(a: Range, b: Range) -> Range:
    return (max(a[0], b[0]), min(a[1], b[1]))


def _scaled(bounds: Range, factor: int) -> Range:
    low, high = bounds[0] * factor, bounds[1] * factor
    return (low, high) if factor >= 0 else (high, low)


def _quotient_range(bounds: Range, divisor: int) -> Range:
    return (bounds[0] // divisor, bounds[1] // divisor)


def _remainder_range(bounds: Range, divisor: int) -> Range:
    low, high = bounds
    if low // divisor == high // divisor:
        return (low % divisor, high % divisor)
    return (0, divisor - 1)


class Facts:
    """What is known about indices where a set of conditions holds.

    Attributes:
        impossible: whether the conditions contradict each other, so that nothing runs there.
    """

    def __init__(self, guards: Iterable[Guard]) -> None:
        self.known: list[tuple[Linear, Range]] = [(g.index, (g.low, g.high - 1)) for g in guards]
        self.ranges: dict[Atom, Range] = {}
        for _ in range(ROUNDS if len(self.known) > 1 else 1):
            before = dict(self.ranges)
            for index, bounds in self.known:
                self._narrow(index, bounds)
            if before == self.ranges:
                break
        self.impossible = any(low > high for low, high in self.ranges.values()) or any(
            _meet(self.range_of(index), bounds)[0] > _meet(self.range_of(index), bounds)[1]
            for index, bounds in self.known
        )

    def _narrow(self, index: Linear, bounds: Range) -> None:
        """Uses ``low <= index <= high`` to narrow each term, given the ranges of the others."""
        for atom, factor in index.terms:
            low, high = self._direct(Linear(tuple(t for t in index.terms if t[0] != atom), 0))
            least, most = bounds[0] - index.const - high, bounds[1] - index.const - low
            if factor < 0:
                least, most, factor = -most, -least, -factor
            new = _meet(self._atom(atom), (-(-least // factor), most // factor))
            self.ranges[atom] = new

    def _atom(self, atom: Atom, relative: bool = True) -> Range:
        """The range of an axis, a quotient, a remainder or a datum."""
        if isinstance(atom, Axis | Datum):
            bounds = atom.bounds
        elif isinstance(atom, Quotient):
            bounds = _quotient_range(self._inner(atom.value, relative), atom.divisor)
        else:
            bounds = _remainder_range(self._inner(atom.value, relative), atom.divisor)
        known = self.ranges.get(atom)
        return bounds if known is None else _meet(bounds, known)

    def _inner(self, index: Linear, relative: bool) -> Range:
        return self.range_of(index) if relative else self._direct(index, False)

    def _direct(self, index: Linear, relative: bool = True) -> Range:
        """The range of an index from the ranges of its terms.

        ``relative``: whether forms inside of divisions are compared with the conditions too. A
        difference with a condition must not be, else the search would not end.
        """
        low = high = index.const
        for atom, factor in index.terms:
            small, large = _scaled(self._atom(atom, relative), factor)
            low, high = low + small, high + large
        return (low, high)

    def _derived(self, index: Linear) -> Iterable[tuple[Linear, Range]]:
        """Conditions, and what follows for multiples and quotients that ``index`` may hold."""
        factors = dict(index.terms)
        divisors = {a.divisor for a, _ in index.terms if isinstance(a, Quotient | Remainder)}
        for form, bounds in self.known:
            yield form, bounds
            atom, factor = form.terms[0] if form.terms else (None, 1)
            ratio, rest = divmod(factors.get(atom, 0), factor) if atom else (0, 0)
            if rest == 0 and ratio not in (0, 1):
                yield form * ratio, _scaled(bounds, ratio)
            for divisor in divisors:
                yield form // divisor, _quotient_range(bounds, divisor)

    def range_of(self, index: Linear) -> Range:
        """The narrowest range found for an index: direct, or relative to a known condition."""
        best = self._direct(index)
        for form, bounds in self._derived(index):
            if not axes_of(form) & axes_of(index):
                continue
            low, high = self._direct(index - form, False)
            best = _meet(best, (low + bounds[0], high + bounds[1]))
        return best


class _BoundsChecker:
    """Accesses of one kernel that could not be proved."""

    def __init__(self, kernel: Kernel) -> None:
        self.shapes = {b.name: b.shape for b in kernel.buffers}
        self.complaints: dict[int, list[str]] = {}
        self.facts: dict[Guards, Facts] = {}

    def access(self, item: object, what: str, index: Sequence[Linear], guards: Guards) -> None:
        """One access under conditions; ``what`` is ``load a`` or ``store b``."""
        facts = self.facts.get(guards)
        if facts is None:
            facts = self.facts[guards] = Facts(guards)
        if facts.impossible:
            return
        shape = self.shapes[what.split()[1]]
        for axis, (position, extent) in enumerate(zip(index, shape, strict=True)):
            low, high = facts.range_of(position)
            if low < 0 or high >= extent:
                where = f"{what}: index {position} of axis {axis} lies in {low}..{high}"
                text = f"{where}, the buffer ends at {extent - 1}"
                found = self.complaints.setdefault(id(item), [])
                if text not in found:
                    found.append(text)

    def expr(self, item: object, root: Expr, guards: Guards) -> None:
        """Every load of an expression, under the conditions around it. Iterative."""
        seen: set[tuple[int, Guards]] = set()
        stack: list[tuple[Expr, Guards]] = [(root, guards)]
        while stack:
            expr, held = stack.pop()
            if (id(expr), held) in seen:
                continue
            seen.add((id(expr), held))
            if isinstance(expr, Load):
                self.access(item, f"load {expr.buffer}", expr.index, held)
            elif isinstance(expr, Guarded):
                inside = held + tuple(g for g in expr.guards if g not in held)
                stack += [(expr.other, held), (expr.value, inside)]
            else:
                stack.extend((o, held) for o in operands(expr))

    def statements(self, body: Sequence[Statement], guards: Guards) -> None:
        """Loads and stores of statements under a stage's condition."""
        for item in body:
            if isinstance(item, Store):
                held = guards + item.guards
                self.expr(item, item.value, held)
                self.access(item, f"store {item.buffer}", item.index, held)
            else:
                self.expr(item, item.value, guards)

    def phase(self, phase: Phase) -> None:
        """All stages of a phase; loops without steps access nothing."""
        if any(a.extent < 1 for a in phase.grid):
            return
        for stage in phase.stages:
            if stage.axis is None or stage.axis.extent > 0:
                self.statements(stage.body, (stage.guard,) if stage.guard else ())

    def contraction(self, phase: ContractPhase) -> None:
        """Operands over all axes, the epilogue over the result's."""
        if any(a.extent < 1 for a in phase.batch + phase.rows + phase.columns):
            return
        if all(a.extent > 0 for a in phase.inner):
            self.expr(phase.left, phase.left, ())
            self.expr(phase.right, phase.right, ())
        self.statements(phase.epilogue, ())


def check_bounds(kernel: Kernel) -> None:
    """Prove every load and store of a kernel inside its buffer.

    The kernel must pass ``verify_kernel``, which compares the sizes of what a CallPhase gets.
    Raises VerifyError, with buffer, index and range beside the line, for accesses that are outside
    or cannot be proved inside.
    """
    checker = _BoundsChecker(kernel)
    for phase in kernel.phases:
        if isinstance(phase, Phase):
            checker.phase(phase)
        elif isinstance(phase, ContractPhase):
            checker.contraction(phase)
    if checker.complaints:
        raise failure(f"kernel {kernel.name}", kernel_lines(kernel), checker.complaints)
