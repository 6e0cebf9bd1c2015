"""Kernel text read back into kernel IR; ``text_kernel`` describes the language."""

from __future__ import annotations

from lazyt.errors import ParseError
from lazyt.ir.dtypes import DType, dtype_by_name
from lazyt.ir.index import Axis, Linear
from lazyt.ir.kernel import (
    AnyPhase,
    Bands,
    Buffer,
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
from lazyt.ir.parse_expr import read_expr, read_guards, read_index
from lazyt.ir.point import Guard, Load, Position, Var
from lazyt.ir.scalar import Expr
from lazyt.ir.text_kernel import defined_type
from lazyt.ir.text_tokens import Reader, read_dtype, read_integer, read_type

_PHASES = ("phase", "contract", "call")
_ROLES = ("in", "out", "inout", "work", "band")
_LANES = ("grid", "inner")
_COMBINE = ("add", "mul", "maximum", "minimum")


class _KernelReader:
    """A reader that knows the buffers, loop axes and values in scope."""

    def __init__(self, text: str) -> None:
        self.reader = Reader(text)
        self.buffers: dict[str, Buffer] = {}
        self.axes: dict[str, Axis] = {}
        self.values: dict[str, DType] = {}

    # ------------------------------------------------------------ expressions

    def index(self) -> tuple[Linear, ...]:
        """One linear index per axis, in brackets."""
        self.reader.expect("[")
        found: list[Linear] = []
        while not self.reader.accept("]"):
            if found:
                self.reader.expect(",")
            found.append(read_index(self.reader, self.axes))
        return tuple(found)

    def written_type(self, usual: DType | None, name: str, start: int) -> DType:
        """The type after a colon, else the usual one; raises ParseError when there is neither."""
        if self.reader.accept(":"):
            return read_dtype(self.reader)
        if usual is None:
            raise self.reader.error(f"'{name}' is not defined here", start)
        return usual

    def leaf(self, reader: Reader, name: str, start: int) -> Expr:
        """A value, load or position."""
        if not name and reader.kind == "reference":
            name = reader.take()[1:]
            return Var(name, self.written_type(self.values.get(name), name, start))
        if name and reader.text == "[":
            index = self.index()
            buffer = self.buffers.get(name)
            usual = buffer.dtype if buffer else None
            return Load(name, index, self.written_type(usual, name, start))
        if name and reader.accept("("):
            try:
                dtype = dtype_by_name(name)
            except KeyError:
                raise reader.error(f"unknown function '{name}'", start) from None
            position = Position(read_index(reader, self.axes), dtype)
            reader.expect(")")
            return position
        found = f"'{name or reader.text}'" if name or reader.text else "the end of the text"
        raise reader.error(f"expected an expression, found {found}", start)

    def expr(self) -> Expr:
        """An expression."""
        return read_expr(self.reader, self.leaf, self.axes)

    # ------------------------------------------------------------- statements

    def word(self, what: str) -> str:
        """A name."""
        return self.reader.expect_kind("name", what)

    def choice(self, choices: tuple[str, ...]) -> str:
        """One of a few words."""
        if self.reader.text not in choices:
            raise self.reader.expected(" or ".join(f"'{c}'" for c in choices))
        return self.reader.take()

    def store(self) -> Store:
        """What follows the word ``store``."""
        buffer = self.word("a buffer")
        index = self.index()
        self.reader.expect("=")
        value = self.expr()
        combine = self.choice(_COMBINE) if self.reader.accept("combine") else None
        guards: tuple[Guard, ...] = ()
        if self.reader.accept("where"):
            guards = read_guards(self.reader, self.axes)
        return Store(buffer, index, value, guards, combine)

    def fold(self, word: str) -> Reduce | Scan:
        """What follows ``reduce`` or ``scan``."""
        name = self.word("a name")
        self.reader.expect(":")
        dtype = read_dtype(self.reader)
        self.reader.expect("=")
        kind = self.word("a kind such as sum")
        value = self.expr()
        make = Reduce if word == "reduce" else Scan
        return make(name, kind, value, dtype)

    def body(self) -> tuple[Statement, ...]:
        """Statements up to a closing brace."""
        found: list[Statement] = []
        while not self.reader.accept("}"):
            word = self.choice(("let", "keep", "reduce", "scan", "store"))
            item: Statement
            if word == "store":
                item = self.store()
            elif word in ("reduce", "scan"):
                item = self.fold(word)
            else:
                name = self.word("a name")
                self.reader.expect("=")
                item = (Let if word == "let" else Keep)(name, self.expr())
            found.append(item)
            named = defined_type(item)
            if named is not None:
                self.values[named[0]] = named[1]
        return tuple(found)

    # -------------------------------------------------------------- structure

    def axis(self) -> Axis:
        """``name: extent``; the axis is known from here on."""
        name = self.word("a loop axis")
        self.reader.expect(":")
        self.axes[name] = found = Axis(name, read_integer(self.reader))
        return found

    def axis_group(self) -> tuple[Axis, ...]:
        """Axes in parentheses."""
        self.reader.expect("(")
        found: list[Axis] = []
        while not self.reader.accept(")"):
            if found:
                self.reader.expect(",")
            found.append(self.axis())
        return tuple(found)

    def stage(self) -> Stage:
        """``once { ... }`` or ``for k: 5 { ... }``."""
        outer = dict(self.axes)
        axis = self.axis() if self.choice(("once", "for")) == "for" else None
        sequential = self.reader.accept("sequential")
        guard: Guard | None = None
        if self.reader.accept("if"):
            start = self.reader.start
            guards = read_guards(self.reader, self.axes)
            if len(guards) != 1:
                raise self.reader.error("a stage takes one condition", start)
            guard = guards[0]
        self.reader.expect("{")
        body = self.body()
        self.axes = outer
        return Stage(axis, body, sequential, guard)

    def phase(self) -> Phase:
        """What follows the word ``phase``."""
        grid = self.axis_group()
        self.reader.expect("lanes")
        lanes = self.choice(_LANES)
        self.reader.expect("work")
        work = float(self.reader.expect_kind("number", "a number"))
        self.reader.expect("{")
        stages: list[Stage] = []
        while not self.reader.accept("}"):
            stages.append(self.stage())
        return Phase(grid, tuple(stages), lanes, work)

    def contraction(self) -> ContractPhase:
        """What follows the word ``contract``."""
        name = self.word("a name")
        self.reader.expect(":")
        accumulator = read_dtype(self.reader)
        groups: list[tuple[Axis, ...]] = []
        for word in ("batch", "rows", "columns", "inner"):
            self.reader.expect(word)
            groups.append(self.axis_group())
        self.reader.expect("{")
        self.reader.expect("left")
        left = self.expr()
        self.reader.expect("right")
        right = self.expr()
        self.values[name] = accumulator
        batch, rows, columns, inner = groups
        epilogue = self.body()
        return ContractPhase(batch, rows, columns, inner, left, right, name, accumulator, epilogue)

    def call(self) -> CallPhase:
        """What follows the word ``call``."""
        routine = self.word("a routine")
        groups: list[tuple[str, ...]] = []
        for word in ("reads", "writes", "work"):
            self.reader.expect(word)
            self.reader.expect("(")
            names: list[str] = []
            while not self.reader.accept(")"):
                if names:
                    self.reader.expect(",")
                names.append(self.word("a buffer"))
            groups.append(tuple(names))
        settings: list[tuple[str, int]] = []
        while self.reader.kind == "name" and self.reader.text not in _PHASES:
            settings.append((self.reader.take(), read_integer(self.reader)))
        reads, writes, work = groups
        return CallPhase(routine, reads, writes, work, tuple(settings))

    def segments(self) -> tuple[int, ...]:
        """Extents in parentheses."""
        self.reader.expect("(")
        found = [read_integer(self.reader)]
        while not self.reader.accept(")"):
            self.reader.expect(",")
            found.append(read_integer(self.reader))
        return tuple(found)

    def bands(self) -> Bands:
        """Points and rows in parentheses."""
        self.reader.expect("(")
        points = read_integer(self.reader)
        self.reader.expect(",")
        rows = read_integer(self.reader)
        self.reader.expect(")")
        return Bands(points, rows)

    def any_phase(self, word: str) -> AnyPhase:
        """What follows the word that begins a phase."""
        if word == "call":
            return self.call()
        return self.phase() if word == "phase" else self.contraction()

    def kernel(self) -> Kernel:
        """A whole kernel."""
        reader = self.reader
        reader.expect("kernel")
        name = self.word("the kernel's name")
        reader.expect("(")
        while not reader.accept(")"):
            if self.buffers:
                reader.expect(",")
            role = self.choice(_ROLES)
            buffer = self.word("a buffer")
            reader.expect(":")
            shape, dtype = read_type(reader)
            self.buffers[buffer] = Buffer(buffer, dtype, shape, role)
        segments = self.segments() if reader.accept("segments") else ()
        bands = self.bands() if reader.accept("bands") else None
        reader.expect("{")
        phases: list[AnyPhase] = []
        while not reader.accept("}"):
            self.axes, self.values = {}, {}
            phases.append(self.any_phase(self.choice(_PHASES)))
        return Kernel(name, tuple(self.buffers.values()), tuple(phases), {}, segments, bands)


def parse_kernels(text: str) -> list[Kernel]:
    """All kernels of a text, in order; raises ParseError with line and column.

    The scalar functions must be registered (``import lazyt.ops``).
    """
    found: list[Kernel] = []
    reader = _KernelReader(text)
    while reader.reader.kind != "end":
        reader.buffers = {}
        found.append(reader.kernel())
    return found


def parse_kernel(text: str) -> Kernel:
    """The one kernel that ``text`` describes; raises ParseError with line and column."""
    kernels = parse_kernels(text)
    if len(kernels) != 1:
        raise ParseError(f"expected one kernel, found {len(kernels)}")
    return kernels[0]
