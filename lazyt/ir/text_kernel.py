"""Kernel IR as text.

    kernel row_sum(in a: float32[4, 5], out b: float32[4]) {
      phase (i: 4) lanes inner work 5.0 {
        for k: 5 {
          reduce s: float32 = sum exp(a[i, k])
        }
        once {
          store b[i] = %s
        }
      }
    }

``%s`` is a value named earlier, ``a[i, k]`` a load, ``int64(2*i + 1)`` a position. Types are left
out where the definition or the buffer tells them. Notes are not printed. ``parse_kernel`` reads
the text back.
"""

from __future__ import annotations

from lazyt.errors import InternalError
from lazyt.ir.dtypes import DType
from lazyt.ir.index import Axis, Linear
from lazyt.ir.kernel import (
    CallPhase,
    ContractPhase,
    Keep,
    Kernel,
    Phase,
    Reduce,
    Scan,
    Stage,
    Statement,
    Store,
)
from lazyt.ir.point import Load, Position, Var
from lazyt.ir.scalar import Expr
from lazyt.ir.text_expr import format_expr, format_guards
from lazyt.ir.text_tokens import format_type


def defined_type(statement: Statement) -> tuple[str, DType] | None:
    """The name that a statement defines and the type of its value; None for a store."""
    if isinstance(statement, Store):
        return None
    if isinstance(statement, Reduce | Scan):
        return statement.name, statement.dtype
    return statement.name, statement.value.dtype


def _format_axes(axes: tuple[Axis, ...]) -> str:
    return f"({', '.join(f'{a.name}: {a.extent}' for a in axes)})"


def _format_index(index: tuple[Linear, ...]) -> str:
    return f"[{', '.join(map(str, index))}]"


class _Printer:
    """Lines of one kernel, each with the piece of IR that it stands for."""

    def __init__(self, kernel: Kernel) -> None:
        self.buffers = {b.name: b.dtype for b in kernel.buffers}
        self.values: dict[str, DType] = {}
        self.lines: list[tuple[object, str]] = []

    def add(self, depth: int, item: object, text: str) -> None:
        """One line about ``item``."""
        self.lines.append((item, "  " * depth + text))

    def leaf(self, expr: Expr) -> str:
        """A value, load or position."""
        usual: DType | None
        if isinstance(expr, Var):
            text, usual = f"%{expr.name}", self.values.get(expr.name)
        elif isinstance(expr, Load):
            text = f"{expr.buffer}{_format_index(expr.index)}"
            usual = self.buffers.get(expr.buffer)
        elif isinstance(expr, Position):
            return f"{expr.dtype.name}({expr.index})"
        else:
            what = f"{type(expr).__name__} cannot stand in a kernel"
            raise InternalError("ir.text_kernel", what)
        return text if usual is expr.dtype else f"{text}:{expr.dtype.name}"

    def expr(self, expr: Expr) -> str:
        """An expression."""
        return format_expr(expr, self.leaf)

    def statement(self, depth: int, item: Statement) -> None:
        """The line of one statement; remembers the name that it defines."""
        value = self.expr(item.value)
        if isinstance(item, Store):
            text = f"store {item.buffer}{_format_index(item.index)} = {value}"
            if item.combine is not None:
                text += f" combine {item.combine}"
            if item.guards:
                text += f" where {format_guards(item.guards)}"
        elif isinstance(item, Reduce | Scan):
            word = "reduce" if isinstance(item, Reduce) else "scan"
            text = f"{word} {item.name}: {item.dtype.name} = {item.kind} {value}"
        else:
            text = f"{'keep' if isinstance(item, Keep) else 'let'} {item.name} = {value}"
        self.add(depth, item, text)
        named = defined_type(item)
        if named is not None:
            self.values[named[0]] = named[1]

    def stage(self, stage: Stage) -> None:
        """The lines of one stage."""
        text = "once" if stage.axis is None else f"for {stage.axis.name}: {stage.axis.extent}"
        if stage.sequential:
            text += " sequential"
        if stage.guard is not None:
            text += f" if {format_guards((stage.guard,))}"
        self.add(2, stage, text + " {")
        for item in stage.body:
            self.statement(3, item)
        self.add(2, None, "}")

    def phase(self, phase: Phase) -> None:
        """The lines of a phase over a grid."""
        head = f"phase {_format_axes(phase.grid)} lanes {phase.lanes} work {float(phase.work)!r} {{"
        self.add(1, phase, head)
        for stage in phase.stages:
            self.stage(stage)
        self.add(1, None, "}")

    def contraction(self, phase: ContractPhase) -> None:
        """The lines of a contraction."""
        groups = [
            f"{word} {_format_axes(axes)}"
            for word, axes in (
                ("batch", phase.batch),
                ("rows", phase.rows),
                ("columns", phase.columns),
                ("inner", phase.inner),
            )
        ]
        head = f"contract {phase.name}: {phase.accumulator.name} {' '.join(groups)} {{"
        self.add(1, phase, head)
        self.add(2, phase.left, f"left {self.expr(phase.left)}")
        self.add(2, phase.right, f"right {self.expr(phase.right)}")
        self.values[phase.name] = phase.accumulator
        for item in phase.epilogue:
            self.statement(2, item)
        self.add(1, None, "}")


def _call_text(phase: CallPhase) -> str:
    """``call sort reads (x0) writes (y1) work (w2) descending 1``."""
    groups = (("reads", phase.reads), ("writes", phase.writes), ("work", phase.work))
    words = [f"{word} ({', '.join(names)})" for word, names in groups]
    words += [f"{name} {value}" for name, value in phase.settings]
    return f"call {phase.routine} {' '.join(words)}"


def kernel_lines(kernel: Kernel) -> list[tuple[object, str]]:
    """The lines of ``print_kernel``, each with the phase, stage or statement that begins there."""
    printer = _Printer(kernel)
    buffers = ", ".join(
        f"{b.role} {b.name}: {format_type(b.shape, b.dtype)}" for b in kernel.buffers
    )
    segments = f" segments ({', '.join(map(str, kernel.segments))})" if kernel.segments else ""
    bands = f" bands ({kernel.bands.points}, {kernel.bands.rows})" if kernel.bands else ""
    printer.add(0, kernel, f"kernel {kernel.name}({buffers}){segments}{bands} {{")
    for phase in kernel.phases:
        printer.values = {}
        if isinstance(phase, Phase):
            printer.phase(phase)
        elif isinstance(phase, CallPhase):
            printer.add(1, phase, _call_text(phase))
        else:
            printer.contraction(phase)
    printer.add(0, None, "}")
    return printer.lines


def print_kernel(kernel: Kernel) -> str:
    """A kernel as text, without its notes; ends with a line break.

    Equal kernels give equal text, whether or not their expressions share parts.
    """
    return "".join(f"{text}\n" for _, text in kernel_lines(kernel))
