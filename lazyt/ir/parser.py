"""Kernel text read back into kernel IR; ``text_kernel`` describes the language."""

from __future__ import annotations

import itertools
import json
import struct
import typing
from collections.abc import Callable, Mapping
from types import UnionType
from typing import Any

from lazyt.errors import LazytError, ParseError
from lazyt.ir.dtypes import DType, dtype_by_name
from lazyt.ir.graph import Body, Node, Op, make
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
)
from lazyt.ir.kernel import (
    FORM,
    AnyPhase,
    Bands,
    Buffer,
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
)
from lazyt.ir.printer import (
    CUSTOM_FACTS,
    RESERVED,
    Reader,
    defined_type,
    field_names,
    format_type,
    read_dtype,
    read_integer,
    read_type,
)
from lazyt.ir.scalar import FUNCTIONS, Expr, Number, ScalarFunction, arg, call, const

# Scalar expressions, indices and guards read back from text.


#: Reads a leaf of one language. It gets the name just taken ("" when the current token is no
#: name) and where that name began.
LeafReader = Callable[[Reader, str, int], Expr]
_SPECIAL: dict[str, Number] = {
    "nan": float("nan"), "inf": float("inf"), "true": True, "false": False,
}  # fmt: skip


def _literal(reader: Reader, text: str, start: int) -> Expr:
    """The constant whose number ``text`` was just taken; its type follows."""
    reader.expect(":")
    dtype = read_dtype(reader)
    if text.startswith("nan#"):
        return const(struct.unpack("<d", int(text[4:], 16).to_bytes(8, "little"))[0], dtype)
    value = _SPECIAL.get(text)
    try:
        if value is None:
            value = float(text) if dtype.kind == "f" else int(text)
        return const(value, dtype)
    except (ValueError, OverflowError):
        raise reader.error(f"'{text}' is no {dtype.name} literal", start) from None


def _read_pair(reader: Reader, start: int) -> Expr:
    """A complex constant, whose name ``pair`` was just taken."""
    reader.expect("(")
    parts = [reader.take()]
    reader.expect(",")
    parts.append(reader.take())
    reader.expect(")")
    reader.expect(":")
    dtype = read_dtype(reader)
    try:
        if dtype.kind == "c":
            return const(complex(*map(float, parts)), dtype)
    except ValueError:
        pass  # one of them is no number
    raise reader.error(f"pair({', '.join(parts)}) is no {dtype.name} literal", start)


class _Frame:
    """A call, or a guarded value, whose operands are being read."""

    __slots__ = ("args", "dtype", "fn", "guards", "start")

    def __init__(
        self, start: int, fn: ScalarFunction | None, dtype: DType | None, guards: tuple[Guard, ...]
    ) -> None:
        self.start, self.fn, self.dtype, self.guards = start, fn, dtype, guards
        self.args: list[Expr] = []

    def close(self, reader: Reader) -> Expr:
        """The finished expression; raises ParseError for a wrong number of operands."""
        name, arity = (self.fn.name, self.fn.arity) if self.fn else ("guarded", 2)
        if len(self.args) != arity:
            raise reader.error(f"{name} takes {arity} operands, found {len(self.args)}", self.start)
        if self.fn is None:
            return Guarded(self.guards, self.args[0], self.args[1])
        return call(self.fn, *self.args, dtype=self.dtype)


def _open_call(reader: Reader, name: str, start: int) -> _Frame:
    """The frame of a function whose name was just taken."""
    fn = FUNCTIONS[name]
    dtype = None
    if reader.accept("<"):
        dtype = read_dtype(reader)
        reader.expect(">")
    if dtype is None and fn.result == "free":
        raise reader.error(f"{name} needs its result type: {name}<float32>(...)", start)
    reader.expect("(")
    return _Frame(start, fn, dtype, ())


def _open_guarded(reader: Reader, start: int, axes: Mapping[str, Axis]) -> _Frame:
    reader.expect("(")
    guards = read_guards(reader, axes)
    reader.expect(",")
    return _Frame(start, None, None, guards)


def _read_tree(
    reader: Reader, leaf: LeafReader, named: Mapping[str, Expr], axes: Mapping[str, Axis] | None
) -> Expr:
    """One expression without ``let``; iterative, so that nesting has no limit."""
    stack: list[_Frame] = []
    while True:
        start = reader.start
        if reader.kind == "number":
            value = _literal(reader, reader.take(), start)
        elif reader.kind != "name":
            value = leaf(reader, "", start)
        else:
            name = reader.take()
            if name in FUNCTIONS and reader.text in ("(", "<"):
                stack.append(_open_call(reader, name, start))
                continue
            if name == "guarded" and axes is not None and reader.text == "(":
                stack.append(_open_guarded(reader, start, axes))
                continue
            if name == "pair" and reader.text == "(":
                value = _read_pair(reader, start)
            elif name in named and reader.text != "[":
                value = named[name]
            elif name in _SPECIAL and reader.text == ":":
                value = _literal(reader, name, start)
            else:
                value = leaf(reader, name, start)
        while stack:
            stack[-1].args.append(value)
            if reader.accept(","):
                break
            if not reader.accept(")"):
                raise reader.expected("',' or ')'")
            value = stack.pop().close(reader)
        else:
            return value


def read_expr(reader: Reader, leaf: LeafReader, axes: Mapping[str, Axis] | None = None) -> Expr:
    """An expression, with or without named parts; ``axes`` None where guards cannot stand."""
    if not reader.accept("{"):
        return _read_tree(reader, leaf, {}, axes)
    named: dict[str, Expr] = {}
    while reader.accept("let"):
        name = reader.expect_kind("name", "a name")
        reader.expect("=")
        named[name] = _read_tree(reader, leaf, named, axes)
        reader.expect(";")
    value = _read_tree(reader, leaf, named, axes)
    reader.expect("}")
    return value


def read_guards(reader: Reader, axes: Mapping[str, Axis]) -> tuple[Guard, ...]:
    """Conditions joined by ``and``, or ``always``."""
    if reader.accept("always"):
        return ()
    guards: list[Guard] = []
    while not guards or reader.accept("and"):
        low = read_integer(reader)
        reader.expect("<=")
        index = read_index(reader, axes)
        reader.expect("<")
        guards.append(Guard(index, low, read_integer(reader)))
    return tuple(guards)


def _read_atom(reader: Reader, axes: Mapping[str, Axis]) -> Atom:
    """A loop axis, or a value read from data."""
    if reader.accept("@"):
        name = reader.expect_kind("name", "the name of a value")
        reader.expect("[")
        extent = read_integer(reader)
        reader.expect("]")
        return Datum(name, extent)
    start = reader.start
    name = reader.expect_kind("name", "a loop axis")
    axis = axes.get(name)
    if axis is None:
        raise reader.error(f"unknown axis '{name}'; known: {', '.join(axes) or 'none'}", start)
    return axis


def _close_division(reader: Reader, value: Linear) -> Atom:
    """The quotient or remainder of ``value``, after its closing parenthesis."""
    quotient = reader.accept("//")
    if not quotient and not reader.accept("%"):
        raise reader.expected("'//' or '% '")
    divisor = read_integer(reader)
    if divisor < 1:
        raise reader.error("a divisor must be positive")
    reader.expect(")")
    return Quotient(value, divisor) if quotient else Remainder(value, divisor)


def read_index(reader: Reader, axes: Mapping[str, Axis]) -> Linear:
    """A linear index exactly as written, nothing simplified; iterative."""
    outer: list[tuple[list[tuple[Atom, int]], int, int]] = []
    terms: list[tuple[Atom, int]] = []
    const = 0
    while True:
        number = reader.kind == "number"
        factor = read_integer(reader) if number else 1
        if number and not reader.accept("*"):
            const += factor
        elif reader.accept("("):
            reader.expect("(")
            outer.append((terms, const, factor))
            terms, const = [], 0
            continue
        else:
            terms.append((_read_atom(reader, axes), factor))
        while not reader.accept("+"):
            value = Linear(tuple(terms), const)
            if not outer:
                return value
            reader.expect(")")
            terms, const, factor = outer.pop()
            terms.append((_close_division(reader, value), factor))


# Graph text read back into nodes; ``text_graph`` describes the language.


# Parsed leaves count down, programs count up: their unique ids never meet.
_fresh = itertools.count(-1, -1)
_WORDS: dict[str, Any] = {
    "none": None, "true": True, "false": False, "nan": float("nan"), "inf": float("inf"),
}  # fmt: skip
_hints: dict[type, dict[str, Any]] = {}


def _fits(value: Any, hint: Any) -> bool:
    """Whether ``value`` is what a parameter annotated ``hint`` takes."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any or hint is object:
        return True
    if origin in (typing.Union, UnionType):
        return any(_fits(value, a) for a in arguments)
    if origin is typing.Literal:
        return value in arguments
    if hint is None:
        return value is None
    if origin is tuple or hint is tuple:
        if not isinstance(value, tuple):
            return False
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            return all(_fits(v, arguments[0]) for v in value)
        return not arguments or (len(value) == len(arguments) and all(map(_fits, value, arguments)))
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, origin or hint)


def _describe(hint: Any) -> str:
    return hint.__name__ if isinstance(hint, type) else str(hint)


class _Scope:
    """What names mean at a point of the text."""

    def __init__(self, reader: Reader, ops: Mapping[str, Op]) -> None:
        self.reader = reader
        self.ops = ops
        self.nodes: dict[str, Node] = {}
        self.uids: dict[tuple[str, int], int] = {}

    def reference(self) -> Node:
        """The node named at the current token."""
        node = self.nodes.get(self.reader.text)
        if node is None:
            if self.reader.kind == "reference":
                raise self.reader.error(f"{self.reader.text} is not defined")
            raise self.reader.expected("a node such as %0")
        self.reader.take()
        return node

    def references(self) -> tuple[Node, ...]:
        """Nodes in parentheses, separated by commas."""
        self.reader.expect("(")
        nodes: list[Node] = []
        while not self.reader.accept(")"):
            if nodes:
                self.reader.expect(",")
            nodes.append(self.reference())
        return tuple(nodes)

    def expr(self, inputs: tuple[Node, ...]) -> Expr:
        """A scalar expression over the elements of ``inputs``."""

        def leaf(reader: Reader, name: str, start: int) -> Expr:
            if name or reader.kind != "argument":
                found = f"'{name or reader.text}'"
                raise reader.error(f"expected a scalar expression, found {found}", start)
            index = int(reader.text[1:])
            if index >= len(inputs):
                raise reader.error(f"${index} needs {index + 1} inputs, there are {len(inputs)}")
            reader.take()
            return arg(index, inputs[index].dtype)

        return read_expr(self.reader, leaf)

    def value(self, inputs: tuple[Node, ...]) -> Any:
        """One parameter value."""
        reader = self.reader
        if reader.kind == "string":
            return json.loads(reader.take())
        if reader.kind == "number":
            text = reader.take()
            return float(text) if set(text) & set(".einf") else int(text)  # -inf, 1e-05, 2.0
        if reader.kind == "name":
            word = reader.take()
            if word not in RESERVED:
                return word
            return _WORDS[word] if word in _WORDS else dtype_by_name(word)
        if reader.text == "{":
            return self.expr(inputs)
        reader.expect("(")
        items: list[Any] = []
        while not reader.accept(")"):
            items.append(self.value(inputs))
            if not reader.accept(",") and reader.text != ")":
                raise reader.expected("',' or ')'")
        return tuple(items)

    def params(self, op: Op, inputs: tuple[Node, ...]) -> Any:
        """The parameters of ``op``, in braces; None for an op without parameters."""
        if op.params is None:
            return None
        names = field_names(op.params)
        start = self.reader.start
        if names is None:
            value = self.expr(inputs) if issubclass(op.params, Expr) else self._single(inputs)
            if not isinstance(value, op.params):
                what = f"{op.name} takes {_describe(op.params)} parameters"
                raise self.reader.error(what, start)
            return value
        values = self._fields(op, names, inputs)
        try:
            return op.params(**values)
        except TypeError:
            missing = ", ".join(n for n in names if n not in values)
            raise self.reader.error(f"{op.name} needs parameters: {missing}", start) from None

    def _single(self, inputs: tuple[Node, ...]) -> Any:
        self.reader.expect("{")
        value = self.value(inputs)
        self.reader.expect("}")
        return value

    def _fields(self, op: Op, names: tuple[str, ...], inputs: tuple[Node, ...]) -> dict[str, Any]:
        """``{name=value, ...}``, every value checked against the field's annotation."""
        hints = params_hints(op)
        values: dict[str, Any] = {}
        if not self.reader.accept("{"):
            return values
        while not self.reader.accept("}"):
            if values:
                self.reader.expect(",")
            if self.reader.text not in names or self.reader.text in values:
                raise self.reader.expected(f"a parameter of {op.name} ({', '.join(names)})")
            name = self.reader.take()
            self.reader.expect("=")
            start = self.reader.start
            value = self.value(inputs)
            if hints.get(name) is Body and isinstance(value, str):
                value = self._body(value, start)
            if not _fits(value, hints.get(name, Any)):
                what = f"{name} must be {_describe(hints[name])}"
                raise self.reader.error(what, start)
            values[name] = self.fresh(op.name, value) if name == "uid" else value
        return values

    def _body(self, text: str, start: int) -> Body:
        """A graph that is a parameter, from its text."""
        try:
            return Body.of(*parse_graph(text, self.ops))
        except ParseError as error:
            raise self.reader.error(f"in the graph that is a parameter: {error}", start) from error

    def fresh(self, name: str, uid: int) -> int:
        """A new unique id for the id ``uid`` of the text."""
        found = self.uids.get((name, uid))
        if found is None:
            self.uids[name, uid] = found = next(_fresh)
        return found


def params_hints(op: Op) -> dict[str, Any]:
    """The resolved annotations of an op's parameters."""
    if op.params is None:
        return {}
    if op.params not in _hints:
        _hints[op.params] = typing.get_type_hints(op.params)
    return _hints[op.params]


def _build(scope: _Scope, op: Op, inputs: tuple[Node, ...], params: Any, start: int) -> Node:
    """The node, or a ParseError with the reason for which ``op`` refuses."""
    try:
        return make(op, inputs, params)
    except (LazytError, TypeError, ValueError, IndexError) as error:
        raise scope.reader.error(f"{op.name} refuses: {error}", start) from error


def _read_leaf(scope: _Scope) -> None:
    """``%0: float32[4, 5]``: defines a fresh input."""
    reader = scope.reader
    start = reader.start
    name = reader.expect_kind("reference", "a leaf such as %0")
    if name in scope.nodes:
        raise reader.error(f"{name} is defined twice", start)
    reader.expect(":")
    shape, dtype = read_type(reader)
    op = scope.ops["input"]
    known = {"shape": shape, "dtype": dtype, "uid": next(_fresh)}
    assert op.params is not None
    params = op.params(**{n: known[n] for n in params_hints(op) if n in known})
    scope.nodes[name] = _build(scope, op, (), params, start)


def _read_node(scope: _Scope) -> None:
    """``%2 = map(%0) {...} : float32[4]``: defines a node; the type is checked when given."""
    reader = scope.reader
    start = reader.start
    name = reader.expect_kind("reference", "a node such as %2 = ..., or the end")
    if name in scope.nodes:
        raise reader.error(f"{name} is defined twice", start)
    reader.expect("=")
    word = reader.start
    op = scope.ops.get(reader.text)
    if op is None or op.name == "input":
        raise reader.expected("the name of an op")
    reader.take()
    inputs = scope.references()
    node = _build(scope, op, inputs, scope.params(op, inputs), word)
    if reader.accept(":"):
        begin = reader.start
        shape, dtype = read_type(reader)
        if (shape, dtype) != node.type:
            given, inferred = format_type(shape, dtype), format_type(node.shape, node.dtype)
            raise reader.error(f"{name} is written as {given} but is {inferred}", begin)
    scope.nodes[name] = node


def _read_roots(reader: Reader) -> list[tuple[str, int]]:
    """Names and positions of the results, which later lines define."""
    reader.expect("->")
    reader.expect("(")
    found: list[tuple[str, int]] = []
    while not reader.accept(")"):
        if found:
            reader.expect(",")
        start = reader.start
        found.append((reader.expect_kind("reference", "a node such as %0"), start))
    return found


def parse_graph(text: str, ops: Mapping[str, Op]) -> tuple[list[Node], list[Node]]:
    """The graph that ``text`` describes, as (leaves, roots).

    Args:
        text: what ``print_graph`` printed, or the like; declared types may be left out.
        ops: the vocabulary by name (``lazyt.ops.registry.OPS``).

    Leaves are new inputs without data. Raises ParseError, with line and column, for text that
    cannot be read and for nodes that their op refuses.
    """
    scope = _Scope(Reader(text), ops)
    reader = scope.reader
    reader.expect("graph")
    reader.expect("(")
    while not reader.accept(")"):
        if scope.nodes:
            reader.expect(",")
        _read_leaf(scope)
    leaves = list(scope.nodes.values())
    names = _read_roots(reader)
    while reader.kind != "end":
        _read_node(scope)
    roots: list[Node] = []
    for name, start in names:
        if name not in scope.nodes:
            raise reader.error(f"the result {name} is not defined", start)
        roots.append(scope.nodes[name])
    return leaves, roots


_PHASES = ("phase", "contract", "call", "custom")
_ROLES = ("in", "out", "inout", "work", "band")
_LANES = ("grid", "inner")
_COMBINE = ("add", "mul", "maximum", "minimum")


def _read_quoted(reader: Reader) -> Any:
    """A string, a whole number, or several in parentheses."""
    if not reader.accept("("):
        string = reader.kind == "string"
        return json.loads(reader.take()) if string else read_integer(reader)
    found: list[Any] = []
    while not reader.accept(")"):
        if found:
            reader.expect(",")
        found.append(_read_quoted(reader))
    return tuple(found)


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

    def named(self) -> tuple[str, Expr]:
        """What follows ``let`` or ``keep``; a type that is written has to be the value's."""
        name = self.word("a name")
        typed, start = self.reader.accept(":"), self.reader.start
        written = read_dtype(self.reader) if typed else None
        self.reader.expect("=")
        value = self.expr()
        if written is not None and value.dtype is not written:
            text = f"{name} is written as {written.name} but is {value.dtype.name}"
            raise self.reader.error(text, start)
        return name, value

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
                item = (Let if word == "let" else Keep)(*self.named())
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

    def custom(self) -> CustomPhase:
        """What follows the word ``custom``."""
        routine, (reads, writes, work) = self.word("a function"), self.buffer_groups()
        facts: dict[str, Any] = {}
        for name in CUSTOM_FACTS:
            self.reader.expect(name)
            facts[name] = _read_quoted(self.reader)
        return CustomPhase(routine, reads, writes, work, **facts)

    def call(self) -> CallPhase:
        """What follows the word ``call``."""
        routine, (reads, writes, work) = self.word("a routine"), self.buffer_groups()
        settings: list[tuple[str, int]] = []
        while self.reader.kind == "name" and self.reader.text not in _PHASES:
            settings.append((self.reader.take(), read_integer(self.reader)))
        return CallPhase(routine, reads, writes, work, tuple(settings))

    def buffer_groups(self) -> tuple[tuple[str, ...], ...]:
        """The buffers that a call reads, writes and has to itself."""
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
        return tuple(groups)

    def form(self) -> dict[str, Any]:
        """What follows ``form:``, as the dict of a form; it ends where the first phase begins."""
        reader, begin = self.reader, self.reader.start
        kind = self.word("the kind of a form")
        parts: list[dict[str, Any]] = [{}]
        while (reader.kind == "name" and reader.text not in _PHASES) or reader.text == ";":
            if reader.accept(";"):
                parts.append({})
                continue
            start = reader.start
            name = reader.take()
            if name in parts[-1]:
                raise reader.error(f"{name} is there twice", start)
            reader.expect("=")
            parts[-1][name] = self.setting()
        if kind == "loops":
            return {"kind": kind, "phases": parts}
        if len(parts) > 1:
            raise reader.error(f"a form of kind {kind} has one part", begin)
        return {"kind": kind, **parts[0]}

    def setting(self) -> Any:
        """A number, a truth value, a word or a string."""
        reader = self.reader
        if reader.kind == "string":
            return json.loads(reader.take())
        if reader.kind == "name":
            word = reader.take()
            return _SPECIAL[word] if word in ("true", "false") else word
        return read_integer(reader)

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
        if word == "custom":
            return self.custom()
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
            start = reader.start
            buffer = self.word("a buffer")
            if buffer in self.buffers:
                raise reader.error(f"buffer {buffer} is declared twice", start)
            reader.expect(":")
            shape, dtype = read_type(reader)
            self.buffers[buffer] = Buffer(buffer, dtype, shape, role)
        segments = self.segments() if reader.accept("segments") else ()
        bands = self.bands() if reader.accept("bands") else None
        reader.expect("{")
        notes: dict[str, object] = {}
        if reader.accept("form"):
            reader.expect(":")
            notes[FORM] = self.form()
        phases: list[AnyPhase] = []
        while not reader.accept("}"):
            self.axes, self.values = {}, {}
            phases.append(self.any_phase(self.choice(_PHASES)))
        return Kernel(name, tuple(self.buffers.values()), tuple(phases), notes, segments, bands)


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
