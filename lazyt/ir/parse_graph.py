"""Graph text read back into nodes; ``text_graph`` describes the language."""

from __future__ import annotations

import itertools
import json
import typing
from collections.abc import Mapping
from types import UnionType
from typing import Any

from lazyt.errors import LazytError
from lazyt.ir.dtypes import dtype_by_name
from lazyt.ir.graph import Node, Op, make
from lazyt.ir.parse_expr import read_expr
from lazyt.ir.scalar import Expr, arg
from lazyt.ir.text_graph import RESERVED, field_names
from lazyt.ir.text_tokens import Reader, format_type, read_type

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
            if not _fits(value, hints.get(name, Any)):
                what = f"{name} must be {_describe(hints[name])}"
                raise self.reader.error(what, start)
            values[name] = self.fresh(op.name, value) if name == "uid" else value
        return values

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
