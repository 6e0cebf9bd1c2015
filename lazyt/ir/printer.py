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

import dataclasses
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from lazyt.errors import InternalError, ParseError, VerifyError
from lazyt.ir.dtypes import ALL, COMPLEX, DType, bool_, dtype_by_name
from lazyt.ir.graph import Body, Node, Shape, source_text, topological
from lazyt.ir.index import (
    Axis,
    Guard,
    Guarded,
    Linear,
    Load,
    Position,
    Var,
    operands,
    sub_expressions,
)
from lazyt.ir.kernel import (
    FORM,
    CallPhase,
    ContractPhase,
    CustomPhase,
    Keep,
    Kernel,
    Phase,
    Reduce,
    Scan,
    Stage,
    Statement,
    Store,
)
from lazyt.ir.scalar import Arg, Call, Const, Expr, const_bits, format_number

# Reading IR text: tokens, one at a time, with positions for errors.


# ``%`` directly before a word is a reference; the remainder sign is followed by a space.
_TOKEN = re.compile(
    r"""(?:\s++|\#[^\n]*+)*+(?:
      (?P<number>-?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?(?![\w.])|-inf\b|nan\#[0-9a-f]{16})
    | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
    | (?P<reference>%[A-Za-z0-9_]+)
    | (?P<argument>\$\d+)
    | (?P<string>"(?:[^"\\\n]|\\.)*")
    | (?P<sign>->|<=|//|[(){}\[\],:;=<>%*+@])
    | (?P<end>\Z)
    )""",
    re.VERBOSE,
)
_SPACE = re.compile(r"(?:\s+|#[^\n]*)*")


class Reader:
    """A cursor over IR text. Spaces, line breaks and ``#`` comments only separate tokens.

    Attributes:
        kind: kind of the current token: ``number name reference argument string sign end``.
        text: its text.
        start: its offset in the source.
    """

    __slots__ = ("_end", "kind", "source", "start", "text")

    def __init__(self, source: str) -> None:
        self.source = source
        self._end = 0
        self.kind = self.text = ""
        self.start = 0
        self._scan()

    def _scan(self) -> None:
        match = _TOKEN.match(self.source, self._end)
        if match is None:
            space = _SPACE.match(self.source, self._end)
            self.start = space.end() if space else self._end
            self.kind, self.text = "unknown", self.source[self.start]
            raise self.error(f"unexpected character {self.text!r}")
        self.kind = kind = match.lastgroup or ""
        self.text = match.group(kind)
        self.start, self._end = match.span(kind)

    def take(self) -> str:
        """The current token's text; moves on to the next token."""
        text = self.text
        self._scan()
        return text

    def accept(self, text: str) -> bool:
        """Whether the current token is ``text``; if so, moves on."""
        if self.text == text and self.kind != "string":
            self._scan()
            return True
        return False

    def expect(self, text: str) -> None:
        """Moves past ``text``; raises ParseError when something else stands here."""
        if not self.accept(text):
            raise self.expected(f"'{text}'")

    def expect_kind(self, kind: str, what: str) -> str:
        """The current token's text when it is of ``kind``; raises ParseError otherwise."""
        if self.kind != kind:
            raise self.expected(what)
        return self.take()

    def expected(self, what: str) -> ParseError:
        """The error that says what should stand at the current token."""
        found = "the end of the text" if self.kind == "end" else f"'{self.text}'"
        return self.error(f"expected {what}, found {found}")

    def error(self, message: str, at: int | None = None) -> ParseError:
        """A ParseError at offset ``at`` (by default the current token) that shows the line."""
        at = self.start if at is None else at
        line = self.source.count("\n", 0, at) + 1
        begin = self.source.rfind("\n", 0, at) + 1
        end = self.source.find("\n", at)
        shown = self.source[begin : len(self.source) if end < 0 else end]
        column = at - begin + 1
        caret = " " * (column - 1) + "^"
        return ParseError(f"line {line}, column {column}: {message}\n  {shown}\n  {caret}")


def read_integer(reader: Reader) -> int:
    """A whole number."""
    if reader.kind != "number":
        raise reader.expected("a whole number")
    try:
        value = int(reader.text)
    except ValueError:
        raise reader.expected("a whole number") from None
    reader.take()
    return value


def read_dtype(reader: Reader) -> DType:
    """The name of an element type."""
    try:
        dtype = dtype_by_name(reader.text)
    except KeyError:
        raise reader.expected("an element type such as float32") from None
    reader.take()
    return dtype


def read_type(reader: Reader) -> tuple[Shape, DType]:
    """A shape and element type, such as ``float32[4, 5]``."""
    dtype = read_dtype(reader)
    reader.expect("[")
    shape: list[int] = []
    while not reader.accept("]"):
        if shape:
            reader.expect(",")
        shape.append(read_integer(reader))
        if shape[-1] < 0:
            raise reader.error("an extent cannot be negative")
    return tuple(shape), dtype


def format_type(shape: Shape, dtype: DType) -> str:
    """A shape and element type as text, such as ``float32[4, 5]``."""
    return f"{dtype.name}[{', '.join(map(str, shape))}]"


# Scalar expressions as text, shared by graph text and kernel text.
#
# An expression that occurs more than once is named: ``{let t0 = exp($0); add(t0, t0)}``. Very deep
# ones are cut into named parts as well, so that the text stays short and linear in the graph's
# size.


#: Nesting past which a part of an expression gets a name of its own.
DEEPEST = 24
_NAN_BITS = 0x7FF8000000000000


def format_const(expr: Const) -> str:
    """A literal with its type, such as ``2.0:float32``; unusual NaN keep their bits."""
    value, dtype = expr.value, expr.dtype
    text = format_number(value, dtype)
    if isinstance(value, float) and math.isnan(value) and const_bits(value, dtype) != _NAN_BITS:
        text = f"nan#{const_bits(value, dtype):016x}"
    return f"{text}:{dtype.name}"


def format_guards(guards: tuple[Guard, ...]) -> str:
    """Conditions as text, such as ``0 <= i < 3 and 1 <= j < 4``; ``always`` when there are none."""
    return " and ".join(f"{g.low} <= {g.index} < {g.high}" for g in guards) or "always"


def _head(expr: Expr, leaf: Callable[[Expr], str]) -> str:
    """What is printed before an expression's operands."""
    if isinstance(expr, Const):
        return format_const(expr)
    if isinstance(expr, Guarded):
        return f"guarded({format_guards(expr.guards)}, "
    if not isinstance(expr, Call):
        return leaf(expr)
    last = expr.args[-1].dtype
    usual = {"bool": bool_, "part": last.part, "pair": expr.dtype}.get(expr.fn.result, last)
    if expr.fn.result == "free" or expr.dtype is not usual:
        return f"{expr.fn.name}<{expr.dtype.name}>("
    return f"{expr.fn.name}("


class _Numbering:
    """Equal sub-expressions numbered once, operands first."""

    def __init__(self, root: Expr, leaf: Callable[[Expr], str]) -> None:
        self.heads: list[str] = []
        self.parts: list[tuple[int, ...]] = []
        self.uses: list[int] = []
        known: dict[tuple[str, tuple[int, ...]], int] = {}
        numbers: dict[int, int] = {}
        for expr in sub_expressions(root):
            parts = tuple(numbers[id(o)] for o in operands(expr))
            key = (_head(expr, leaf), parts)
            number = known.setdefault(key, len(self.heads))
            numbers[id(expr)] = number
            if number == len(self.heads):
                self.heads.append(key[0])
                self.parts.append(parts)
                self.uses.append(0)
                for part in parts:
                    self.uses[part] += 1


def format_expr(root: Expr, leaf: Callable[[Expr], str]) -> str:
    """An expression as text; ``leaf`` prints what is neither constant, call nor guarded.

    Equal expressions give equal text, whether or not they share their parts. Iterative.
    """
    table = _Numbering(root, leaf)
    texts: list[str] = []
    depths: list[int] = []
    lets: list[str] = []
    for number, (head, parts) in enumerate(zip(table.heads, table.parts)):
        if not parts:
            texts.append(head)
            depths.append(0)
            continue
        text = f"{head}{', '.join(texts[p] for p in parts)})"
        depth = 1 + max(depths[p] for p in parts)
        last = number == len(table.heads) - 1
        if not last and (table.uses[number] > 1 or depth >= DEEPEST):
            lets.append(f"let t{len(lets)} = {text}; ")
            text, depth = f"t{len(lets) - 1}", 0
        for part in parts:
            texts[part] = texts[part] if depths[part] == 0 else ""  # used up: free the memory
        texts.append(text)
        depths.append(depth)
    return f"{{{''.join(lets)}{texts[-1]}}}" if lets else texts[-1]


# Graphs as text: one node a line, in an order that depends on the graph alone.
#
#     graph(%0: float32[4, 5], %1: float32[5]) -> (%3)
#     %2 = map(%0, %1) {add($0, mul($1, 2.0:float32))} : float32[4, 5]
#     %3 = reduce(%2) {kind=sum, axes=(1,)} : float32[4]
#
# Leaves are numbered first, in order of first visit, and unique ids likewise, so equal graphs over
# different leaves print the same. ``parse_graph`` reads it back.


#: Words that stand for themselves in parameter values, so strings equal to them are quoted.
RESERVED = frozenset({"none", "true", "false", "nan", "inf", *(t.name for t in (*ALL, *COMPLEX))})
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def field_names(record: Any) -> tuple[str, ...] | None:
    """The fields of a NamedTuple or dataclass (class or instance); None for anything else."""
    if hasattr(record, "_fields"):
        return tuple(record._fields)
    if dataclasses.is_dataclass(record):
        return tuple(f.name for f in dataclasses.fields(record))
    return None


def _leaf(expr: Expr) -> str:
    if isinstance(expr, Arg):
        return f"${expr.index}"
    raise InternalError("ir.text_graph", f"{type(expr).__name__} cannot stand in a graph")


def _format_number(value: int | float) -> str:
    if isinstance(value, float):
        return str(value) if math.isfinite(value) else repr(value)
    return str(int(value))


def format_value(value: Any) -> str:
    """One parameter value as text; raises InternalError for types that have no text."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return _format_number(value)
    if isinstance(value, str):
        plain = _WORD.fullmatch(value) and value not in RESERVED
        return value if plain else json.dumps(value)
    if isinstance(value, DType):
        return value.name
    if isinstance(value, Expr):
        text = format_expr(value, _leaf)
        return text if text.startswith("{") else f"{{{text}}}"
    if isinstance(value, Body):
        return json.dumps(print_graph(value.roots, leaves=value.leaves))
    if isinstance(value, tuple) and field_names(value) is None:
        comma = "," if len(value) == 1 else ""
        return f"({', '.join(map(format_value, value))}{comma})"
    raise InternalError("ir.text_graph", f"a parameter of type {type(value).__name__} has no text")


class _GraphPrinter:
    """Numbers for nodes and unique ids, given in the order of their first use."""

    def __init__(self) -> None:
        self.nodes: dict[Node, int] = {}
        self.uids: dict[tuple[str, Any], int] = {}
        self.exprs: dict[Expr, str] = {}  # most graphs repeat few expressions many times

    def references(self, nodes: Iterable[Node]) -> str:
        """``%0, %1`` for numbered nodes."""
        return ", ".join(f"%{self.nodes[n]}" for n in nodes)

    def params(self, node: Node) -> str:
        """The parameters of ``node`` in braces, or nothing."""
        if node.params is None:
            return ""
        names = field_names(node.params)
        if isinstance(node.params, Expr):
            text = self.exprs.get(node.params, "")
            if not text:
                self.exprs[node.params] = text = " " + format_value(node.params)
            return text
        if names is None:
            text = format_value(node.params)
            return " " + (text if text.startswith("{") else f"{{{text}}}")
        parts = []
        for name in names:
            value = getattr(node.params, name)
            if name == "uid":
                value = self.uids.setdefault((node.op.name, value), len(self.uids))
            parts.append(f"{name}={format_value(value)}")
        return f" {{{', '.join(parts)}}}"

    def line(self, node: Node) -> str:
        """The line of one numbered node."""
        inputs = self.references(node.inputs)
        text = f"%{self.nodes[node]} = {node.op.name}({inputs}){self.params(node)}"
        return f"{text} : {format_type(node.shape, node.dtype)}"


def is_leaf(node: Node) -> bool:
    """Whether ``node`` is an input, which the header lists."""
    return node.op.name == "input"


def graph_lines(
    roots: Sequence[Node],
    sources: bool = False,
    stop: Callable[[Node], bool] | None = None,
    leaves: Sequence[Node] = (),
) -> list[tuple[Node | None, str]]:
    """The lines of ``print_graph``, each with its node; the header's node is None."""
    printer = _GraphPrinter()
    order = topological(roots, stop)
    met = [n for n in order if is_leaf(n) or (stop is not None and stop(n))]
    leaves = list(dict.fromkeys([*leaves, *met]))
    for leaf in leaves:
        printer.nodes[leaf] = len(printer.nodes)
    header = ", ".join(f"%{printer.nodes[n]}: {format_type(n.shape, n.dtype)}" for n in leaves)
    lines: list[tuple[Node | None, str]] = []
    for node in order:
        if node in printer.nodes:
            continue
        printer.nodes[node] = len(printer.nodes)
        text = printer.line(node)
        if sources and node.source is not None:
            text += f"  # {source_text(node.source)}"
        lines.append((node, text))
    lines.insert(0, (None, f"graph({header}) -> ({printer.references(roots)})"))
    return lines


def print_graph(
    roots: Sequence[Node],
    sources: bool = False,
    stop: Callable[[Node], bool] | None = None,
    leaves: Sequence[Node] = (),
) -> str:
    """The graph that ``roots`` depend on as canonical text; ends with a line break. Iterative.

    Args:
        roots: the results, in order; repetitions are kept.
        sources: add the user's ``file:line`` to every node as a comment.
        stop: nodes to print as leaves, whatever computes them (such as those with data).
        leaves: inputs that come first, in this order, whether anything reads them or not.
    """
    return "".join(f"{text}\n" for _, text in graph_lines(roots, sources, stop, leaves))


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


class _KernelPrinter:
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
            word = "keep" if isinstance(item, Keep) else "let"
            text = f"{word} {item.name}: {item.value.dtype.name} = {value}"
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


#: What follows the buffers of a call of a user's function, in order.
CUSTOM_FACTS = ("label", "used", "slots", "batched", "examples", "grid", "text")


def _quoted(value: Any) -> str:
    """A string, a number, or several in parentheses."""
    if isinstance(value, tuple):
        return f"({', '.join(map(json.dumps, value))})"
    return json.dumps(value)


def _call_text(phase: CallPhase) -> str:
    """``call sort reads (x0) writes (y1) work (w2) descending 1``."""
    groups = (("reads", phase.reads), ("writes", phase.writes), ("work", phase.work))
    words = [f"{word} ({', '.join(names)})" for word, names in groups]
    if isinstance(phase, CustomPhase):
        words += [f"{name} {_quoted(getattr(phase, name))}" for name in CUSTOM_FACTS]
        return f"custom {phase.routine} {' '.join(words)}"
    words += [f"{name} {value}" for name, value in phase.settings]
    return f"call {phase.routine} {' '.join(words)}"


def _form_text(form: Mapping[str, Any]) -> str:
    """``form: rows pack=true m=8``; what phases have each, semicolons between them."""
    phases = form.get("phases")
    parts = [{k: v for k, v in form.items() if k != "kind"}] if phases is None else phases
    words = [" ".join(f"{k}={format_value(v)}" for k, v in part.items()) for part in parts]
    return f"form: {form['kind']} {'; '.join(words)}".rstrip()


def kernel_lines(kernel: Kernel, forms: bool = False) -> list[tuple[object, str]]:
    """The lines of ``print_kernel``, each with the phase, stage or statement that begins there."""
    printer = _KernelPrinter(kernel)
    buffers = ", ".join(
        f"{b.role} {b.name}: {format_type(b.shape, b.dtype)}" for b in kernel.buffers
    )
    segments = f" segments ({', '.join(map(str, kernel.segments))})" if kernel.segments else ""
    bands = f" bands ({kernel.bands.points}, {kernel.bands.rows})" if kernel.bands else ""
    printer.add(0, kernel, f"kernel {kernel.name}({buffers}){segments}{bands} {{")
    form = kernel.notes.get(FORM) if forms else None
    if isinstance(form, dict):
        printer.add(1, None, _form_text(form))
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


def print_kernel(kernel: Kernel, forms: bool = False) -> str:
    """A kernel as text, without its notes; ends with a line break.

    Equal kernels give equal text, whether or not their expressions share parts. ``forms``: with the
    form that is chosen for it, where one is noted (``ir.kernel.FORM``).
    """
    return "".join(f"{text}\n" for _, text in kernel_lines(kernel, forms))


# IR with complaints beside the lines that they are about.


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
