"""Checks that graphs and kernels keep the rules of their languages.

What takes a proof is in ``ir/proofs``: that accesses stay inside of buffers, and that all elements
are written, each by one point.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from lazyt.errors import LazytError, VerifyError
from lazyt.ir.dtypes import bool_, int64
from lazyt.ir.graph import Node, make, topological
from lazyt.ir.group import band_complaints
from lazyt.ir.index import (
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
    sub_expressions,
    variable,
)
from lazyt.ir.kernel import (
    ROUTINES,
    AnyPhase,
    CallPhase,
    ContractPhase,
    CustomPhase,
    Keep,
    Kernel,
    Let,
    Phase,
    Reduce,
    Scan,
    Stage,
    Statement,
    Store,
    is_exact,
)
from lazyt.ir.printer import (
    defined_type,
    failure,
    field_names,
    format_type,
    graph_lines,
    is_leaf,
    kernel_lines,
)
from lazyt.ir.proofs.bounds import Facts as Facts
from lazyt.ir.proofs.bounds import check_bounds as check_bounds
from lazyt.ir.proofs.stores import find_store_errors
from lazyt.ir.scalar import Arg, Call, Const, Expr, post_order, real_number

# Checks that graphs and kernels keep the rules of their language.
#
# Both functions collect every complaint and raise one VerifyError that prints the IR with each
# complaint beside the line it is about.


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
    fits = low <= real_number(item.value) <= high
    return [] if fits else [f"{item.value} is no {item.dtype.name}"]


def check_call(item: Call) -> list[str]:
    """Complaints about one call: number, kinds and agreement of its arguments."""
    fn, kinds = item.fn, [a.dtype.compute for a in item.args]
    if len(kinds) != fn.arity:
        return [f"{fn.name} takes {fn.arity} arguments, not {len(kinds)}"]
    if fn.result == "free":
        sizes = (item.args[0].dtype.itemsize, item.dtype.itemsize)
        if fn.name == "bitcast" and sizes[0] != sizes[1]:
            return [f"bitcast of {sizes[0]} bytes as {sizes[1]}"]
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


#: Elements, points and indices that a kernel may have: they must fit into 64 bits, times a few.
MOST = 1 << 62
_ROLES = ("in", "out", "inout", "work", "band")
_REDUCE = ("sum", "prod", "max", "min", "any", "all", "argmax", "argmin")
_SCAN = ("sum", "prod", "max", "min")
_COMBINE = (None, "add", "mul", "maximum", "minimum")


def _index_complaints(index: Linear) -> Iterator[str]:
    """What is wrong with the numbers of an index."""
    work = [index]
    while work:
        item = work.pop()
        low, high = item.bounds
        factors = [abs(factor) for _, factor in item.terms]
        if max(abs(low), abs(high), *factors) > MOST:
            yield f"the index {item} lies in {low}..{high}: that does not fit into 64 bits"
        for atom, _ in item.terms:
            if isinstance(atom, Quotient | Remainder):
                work.append(atom.value)
                if atom.divisor < 1:
                    yield f"the index {item} divides by {atom.divisor}"
            elif isinstance(atom, Datum) and atom.extent < 0:
                yield f"@{atom.name} has a negative extent"


def _extent(axis: Axis) -> int:
    return axis.extent


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
        for text in _index_complaints(item):
            self.complain(text)

    def guards(self, guards: Iterable[Guard]) -> None:
        """Indices of guards must be in scope."""
        for guard in guards:
            self.index(guard.index)
            if max(abs(guard.low), abs(guard.high)) > MOST:
                self.complain(f"the condition {guard.low} <= ... < {guard.high} has huge bounds")

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
        exact = buffer is not None and is_exact(item.combine, buffer.dtype)
        in_order = self.stage is not None and self.stage.sequential
        if (loose or item.combine) and not (in_order or exact):
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
            self.tail(stage, stage.guard)
        self.order(stage)
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

    def tail(self, stage: Stage, guard: Guard) -> None:
        """The condition of a loop says where it ends: its steps are a beginning of all."""
        axis = stage.axis
        if axis is None or axis.extent < 2:
            return
        if guard.index.coefficient(axis) != 1:
            self.complain(f"the condition of a loop is low <= {axis.name} + ... < high")
        elif guard.index.bounds[0] < guard.low:
            low = guard.index.bounds[0]
            self.complain(f"the condition may leave out first steps: it is {low} at least")

    def order(self, stage: Stage) -> None:
        """What a loop does has an order, or has none."""
        kinds = {type(item) for item in stage.body}
        if not stage.body:
            self.complain("a stage without statements")
        if Reduce in kinds and Scan in kinds:
            self.complain("a loop folds or scans, not both")
        elif Reduce in kinds and stage.sequential:
            self.complain("a loop that reduces has no order of its own: it is not sequential")
        if stage.axis is None and stage.sequential:
            self.complain("what runs once is not sequential")

    def points(self, axes: Sequence[Axis], what: str) -> None:
        """How many points a phase has."""
        count = math.prod(max(a.extent, 0) for a in axes)
        if count > MOST:
            self.complain(f"{what} has {count} points: that does not fit into 64 bits")

    def contraction(self, phase: ContractPhase) -> None:
        """A contraction: each operand sees its own axes only."""
        groups = (phase.batch, phase.rows, phase.columns, phase.inner)
        for axis in (a for group in groups for a in group):
            self.axis(axis)
        self.points([a for group in groups for a in group], "the contraction")
        if phase.accumulator is bool_:
            self.complain("truth values have no sum of products")
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
        own = isinstance(phase, CustomPhase)
        if isinstance(phase, CustomPhase):
            for text in phase.complaints():
                self.complain(text)
        elif routine is None:
            self.complain(f"unknown routine {phase.routine!r}")
        for name in names:
            if name not in self.buffers:
                self.complain(f"buffer {name} is unknown")
        changed = (*phase.writes, *phase.work)
        if len(set(names)) < len(names) and not (own and len({*changed}) == len(changed)):
            self.complain("a routine takes each buffer once")
        for name in phase.reads:
            if name in self.buffers and name not in self.written:
                self.complain(f"{name} is read before an earlier phase has written it")
        for name in (*phase.writes, *phase.work):
            role = self.buffers[name].role if name in self.buffers else "work"
            if role == "in":
                self.complain(f"{name} is read only")
            if name in phase.work and role not in ("work", "band"):
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
            longest = max((s.axis for s in phase.stages if s.axis), key=_extent, default=None)
            self.points([*phase.grid, *([longest] if longest else [])], "the grid")
            if not phase.stages:
                self.complain("a phase without stages")
            if not (math.isfinite(phase.work) and phase.work >= 0):
                self.complain(f"work {phase.work} is no estimate")
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
            elif math.prod(buffer.shape) * buffer.dtype.itemsize > MOST:
                self.complain(f"buffer {buffer.name} has more bytes than fit into 64 bits")
        if not self.kernel.phases:
            self.complain("a kernel without phases")
        if self.kernel.bands and min(self.kernel.bands.points, self.kernel.bands.rows) < 1:
            self.complain("bands have at least one point and one row")
        for phase in self.kernel.phases:
            self.phase(phase)
        self.here = self.kernel
        if self.kernel.segments:
            self.segments()
        for place, text in band_complaints(self.kernel):
            self.here = place
            self.complain(text)


def verify_kernel(kernel: Kernel) -> None:
    """Check names, scopes, types, ranks, extents and the places of statements of a kernel; then
    that results are complete, that nothing is read before it is written, and that no two points
    store the same element, as far as that can be proved or counted (``ir/proofs/stores.py``).

    Raises VerifyError with the marked IR.
    """
    checker = _Checker(kernel)
    checker.run()
    # Proofs about stores only make sense of kernels whose names and extents do.
    complaints = checker.complaints or find_store_errors(kernel).complaints
    if complaints:
        raise failure(f"kernel {kernel.name}", kernel_lines(kernel), complaints)
