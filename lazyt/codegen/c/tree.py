"""Small constructors for pycparser's C syntax tree, shared by every C-like target."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

from pycparser import c_ast, c_generator

# pycparser has no type information: a tree is Any to the type checker.
Node: TypeAlias = Any


def fixed(node: Node) -> int | None:
    """The value of an integer literal; None for anything else."""
    return int(node.value) if isinstance(node, c_ast.Constant) and node.type == "int" else None


def name(text: str) -> Node:
    """An identifier."""
    return c_ast.ID(text)


def integer(value: int) -> Node:
    """An integer literal; negative ones come in parentheses."""
    if value > 0x7FFFFFFF or value < -0x7FFFFFFF:
        return c_ast.Constant("long long", f"{value}LL" if value >= 0 else f"({value}LL)")
    return c_ast.Constant("int", str(value) if value >= 0 else f"({value})")


def literal(text: str) -> Node:
    """A literal given as C text."""
    return c_ast.Constant("float", text)


def binary(op: str, left: Node, right: Node) -> Node:
    """``left op right``."""
    return c_ast.BinaryOp(op, left, right)


def unary(op: str, operand: Node) -> Node:
    """A prefix operator."""
    return c_ast.UnaryOp(op, operand)


def choose(condition: Node, yes: Node, no: Node) -> Node:
    """``condition ? yes : no``."""
    return c_ast.TernaryOp(condition, yes, no)


def call(function: str, arguments: Iterable[Node]) -> Node:
    """A function call."""
    return c_ast.FuncCall(c_ast.ID(function), c_ast.ExprList(list(arguments)))


def element(array: str, *indices: Node) -> Node:
    """``array[i][j]...``."""
    node: Node = c_ast.ID(array)
    for index in indices:
        node = c_ast.ArrayRef(node, index)
    return node


def subscript(pointer: Node, index: Node) -> Node:
    """``pointer[index]`` of any expression."""
    return c_ast.ArrayRef(pointer, index)


def assign(target: Node, value: Node, op: str = "=") -> Node:
    """An assignment statement."""
    return c_ast.Assignment(op, target, value)


def _type(kind: str, identifier: str, qualifiers: Sequence[str]) -> c_ast.TypeDecl:
    return c_ast.TypeDecl(identifier, list(qualifiers), None, c_ast.IdentifierType([kind]))


def _decl(identifier: str, kind: Node, init: Node | None, qualifiers: Sequence[str] = ()) -> Node:
    return c_ast.Decl(identifier, list(qualifiers), [], [], [], kind, init, None)


def declare(kind: str, identifier: str, init: Node | None = None, const: bool = False) -> Node:
    """``const kind identifier = init;``."""
    qualifiers = ["const"] if const else []
    return _decl(identifier, _type(kind, identifier, qualifiers), init, qualifiers)


def declare_array(kind: str, identifier: str, extents: Sequence[int]) -> Node:
    """``kind identifier[a][b]...;``."""
    node: Node = _type(kind, identifier, ())
    for extent in reversed(extents):
        node = c_ast.ArrayDecl(node, integer(extent), [])
    return _decl(identifier, node, None)


def declare_aligned(kind: str, identifier: str, extents: Sequence[int]) -> Node:
    """An array that starts a cache line; gcc 12 may count on alignment that it does not give."""
    made = declare_array(kind, identifier, extents)
    made.align = [c_ast.Alignas(integer(64))]
    return made


def is_element(node: Node) -> bool:
    """Whether a tree is an element of an array."""
    return isinstance(node, c_ast.ArrayRef)


def declare_pointer(kind: str, identifier: str, init: Node, const: bool) -> Node:
    """``const kind *restrict identifier = init;``."""
    target = _type(kind, identifier, ["const"] if const else [])
    target.declname = identifier
    return _decl(identifier, c_ast.PtrDecl(["restrict"], target), init)


def cast_pointer(kind: str, value: Node, const: bool) -> Node:
    """``(const kind *) value``."""
    target = c_ast.TypeDecl(None, ["const"] if const else [], None, c_ast.IdentifierType([kind]))
    qualifiers = ["const"] if const else []
    return c_ast.Cast(c_ast.Typename(None, qualifiers, None, c_ast.PtrDecl([], target)), value)


def cast(kind: str, value: Node) -> Node:
    """``(kind) value``."""
    target = c_ast.TypeDecl(None, [], None, c_ast.IdentifierType([kind]))
    return c_ast.Cast(c_ast.Typename(None, [], None, target), value)


def without_cast(node: Node, kind: str) -> Node:
    """``value`` of ``(kind) value``; any other tree as it is."""
    if isinstance(node, c_ast.Cast) and isinstance(node.to_type.type, c_ast.TypeDecl):
        return node.expr if node.to_type.type.type.names == [kind] else node
    return node


def block(statements: Iterable[Node]) -> Node:
    """``{ ... }``."""
    return c_ast.Compound(list(statements))


def pragma(text: str) -> Node:
    """``#pragma text``."""
    return c_ast.Pragma(text)


def branch(condition: Node, body: Sequence[Node], otherwise: Sequence[Node] = ()) -> Node:
    """``if (condition) { body }``, and ``else { otherwise }`` where there is something."""
    return c_ast.If(condition, block(body), block(otherwise) if otherwise else None)


def loop(
    variable: str,
    start: Node,
    stop: Node,
    body: Sequence[Node],
    step: int = 1,
    kind: str = "lz_i64",
) -> Node:
    """``for (kind variable = start; variable < stop; variable += step) { body }``."""
    head = c_ast.DeclList([declare(kind, variable, start)])
    test = binary("<", name(variable), stop)
    if step == 1:
        advance: Node = c_ast.UnaryOp("p++", name(variable))
    else:
        advance = assign(name(variable), integer(step), "+=")
    return c_ast.For(head, test, advance, block(body))


def while_loop(condition: Node, body: Sequence[Node]) -> Node:
    """``while (condition) { body }``."""
    return c_ast.While(condition, block(body))


def halving_loop(variable: str, start: int, body: Sequence[Node]) -> Node:
    """``for (int variable = start; variable > 0; variable /= 2) { body }``."""
    head = c_ast.DeclList([declare("int", variable, integer(start))])
    test = binary(">", name(variable), integer(0))
    return c_ast.For(head, test, assign(name(variable), integer(2), "/="), block(body))


def function(identifier: str, parameters: Sequence[tuple[str, str]], body: Sequence[Node]) -> Node:
    """``void identifier(kind name, ...) { body }``; a kind ending in ``*`` is a pointer."""
    declared = []
    for kind, parameter in parameters:
        if kind.endswith("*"):
            target = _type(kind[:-1].strip(), parameter, ())
            declared.append(_decl(parameter, c_ast.PtrDecl([], target), None))
        else:
            declared.append(declare(kind, parameter))
    result = c_ast.TypeDecl(identifier, [], None, c_ast.IdentifierType(["void"]))
    signature = c_ast.FuncDecl(c_ast.ParamList(declared), result)
    return c_ast.FuncDef(_decl(identifier, signature, None), None, block(body))


def text(node: Node) -> str:
    """The C text of a tree."""
    return str(c_generator.CGenerator().visit(node))


def minimum(left: Node, right: Node) -> Node:
    """The smaller of two integers, as a conditional expression."""
    return choose(binary("<", left, right), left, right)
