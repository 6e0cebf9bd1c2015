"""A graph as a module of MLIR with one function, ``main``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from lazyt.codegen.mlir.functions import Missing
from lazyt.codegen.mlir.linalg.builder import Builder as LinalgBuilder
from lazyt.codegen.mlir.linalg.rules import RULES as LINALG
from lazyt.codegen.mlir.stablehlo.builder import Builder as StablehloBuilder
from lazyt.codegen.mlir.stablehlo.rules import RULES as STABLEHLO
from lazyt.codegen.mlir.text import Lines, refuse, tensor, uniform
from lazyt.errors import ArgumentError
from lazyt.ir.dtypes import DType
from lazyt.ir.graph import Node, Shape, topological
from lazyt.ir.scalar import Number

#: The dialects that graphs are written in.
DIALECTS = ("stablehlo", "linalg")


class _Builder(Protocol):
    """What both dialects' builders have."""

    lines: Lines
    names: dict[Node, str]

    @property
    def dialect(self) -> str:
        """What errors call it."""

    @property
    def elements(self) -> Mapping[str, str]:
        """Element types by dtype."""

    def constant(self, value: Number, dtype: DType, shape: Shape) -> str:
        """A value of equal elements."""

    def nothing(self, shape: Shape, dtype: DType) -> str:
        """A value without elements."""


B = TypeVar("B", bound=_Builder)


def nodes_of(values: Sequence[Any]) -> list[Node]:
    """Nodes, of tensors too. Raises TypeError for what is neither."""
    found: list[Node] = []
    for value in values:
        node = value if isinstance(value, Node) else getattr(value, "node", None)
        if not isinstance(node, Node):
            raise TypeError(f"MLIR is written of tensors and nodes, not of {type(value).__name__}")
        found.append(node)
    return found


def mlir_arguments(results: Sequence[Any], arguments: Sequence[Any] = ()) -> list[Node]:
    """The nodes that ``mlir_text`` makes arguments of ``main``, in their order: those given, and
    behind them what else is read and not computed, in the order in which it is met."""
    found = dict.fromkeys(nodes_of(arguments))
    for node in topological(nodes_of(results), lambda n: _computed(n) or n in found):
        if _computed(node) or node.op.name == "input":
            found.setdefault(node)
    return list(found)


def _computed(node: Node) -> bool:
    """Whether a node has values. A constant is written as one whether it was computed or not."""
    return node.data is not None and node.op.name != "const"


def mlir_text(
    results: Sequence[Any], arguments: Sequence[Any] = (), dialect: str = "stablehlo"
) -> str:
    """A graph as text of MLIR: a module with one function ``main``.

    Args:
        results: tensors or nodes of any shapes and dtypes; ``main`` returns their values, in this
            order.
        arguments: tensors or nodes that ``main`` takes, in this order, whether the graph reads
            them or not. What else it reads that is computed, such as parameters, is taken behind
            them: ``mlir_arguments`` lists all.
        dialect: ``stablehlo`` (with ``chlo`` for functions that it lacks), or ``linalg`` on
            tensors (with ``arith``, ``math`` and ``tensor``).

    Raises LazytError, which names the op, its node and the line that made it, for what a dialect
    cannot express; ArgumentError for another dialect, TypeError for anything but tensors and nodes.

    Example::

        x = lazyt.tensor([1.0, 2.0])
        print(lazyt.compiler.mlir_text([x * 2], [x]))
    """
    if dialect not in DIALECTS:
        raise ArgumentError(f"no dialect is called {dialect!r}; there are {', '.join(DIALECTS)}")
    roots, leaves = nodes_of(results), mlir_arguments(results, arguments)
    if dialect == "linalg":
        return _module(LinalgBuilder(leaves), LINALG, roots)
    return _module(StablehloBuilder(leaves), STABLEHLO, roots)


def _module(p: B, rules: Mapping[str, Callable[[B, Node], str]], roots: Sequence[Node]) -> str:
    leaves = list(p.names)
    order = topological(roots, p.names.__contains__)
    for node in (*leaves, *order):
        if node.dtype.kind == "c":
            raise refuse(node, p.dialect, "complex numbers")
    wanted = _read(order, roots, p)
    for node in order:
        if node in wanted and node not in p.names:
            p.names[node] = _value(p, node, rules)

    def types(nodes: Sequence[Node]) -> list[str]:
        return [tensor(node.shape, p.elements[node.dtype.name]) for node in nodes]

    taken = ", ".join(f"{p.names[leaf]}: {kind}" for leaf, kind in zip(leaves, types(leaves)))
    values, kinds = ", ".join(p.names[root] for root in roots), ", ".join(types(roots))
    end = f"return {values} : {kinds}" if roots else "return"
    head = f"  func.func @main({taken}) -> ({kinds}) {{"
    return "\n".join(["module {", head, *p.lines.text, f"    {end}", "  }", "}", ""])


def _read(order: Sequence[Node], roots: Sequence[Node], p: _Builder) -> set[Node]:
    """The nodes whose values are written down: not those that are constants where they are read,
    nor what only they, or values without elements, depend on."""
    wanted = set(roots)
    for node in reversed(order):
        if node not in wanted or node in p.names or not node.size or uniform(node, p.names):
            continue
        inline = node.op.name == "map"
        wanted.update(n for n in node.inputs if not (inline and uniform(n, p.names)))
    return wanted


def _value(p: B, node: Node, rules: Mapping[str, Callable[[B, Node], str]]) -> str:
    number = uniform(node, p.names)
    if node.op.name not in rules and number is None:
        raise refuse(node, p.dialect, f"the op {node.op.name}")
    if not node.size:
        return p.nothing(node.shape, node.dtype)
    if number is not None:
        return p.constant(number.value, number.dtype, node.shape)
    try:
        return rules[node.op.name](p, node)
    except Missing as missing:
        raise refuse(node, p.dialect, f"the scalar function {missing}") from None
