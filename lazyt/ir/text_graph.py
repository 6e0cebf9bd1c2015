"""Graphs as text: one node a line, in an order that depends on the graph alone.

    graph(%0: float32[4, 5], %1: float32[5]) -> (%3)
    %2 = map(%0, %1) {add($0, mul($1, 2.0:float32))} : float32[4, 5]
    %3 = reduce(%2) {kind=sum, axes=(1,)} : float32[4]

Leaves are numbered first, in order of first visit, and unique ids likewise, so equal graphs over
different leaves print the same. ``parse_graph`` reads it back.
"""

from __future__ import annotations

import dataclasses
import json
import math
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from lazyt.errors import InternalError
from lazyt.ir.dtypes import ALL, DType
from lazyt.ir.graph import Node, source_text, topological
from lazyt.ir.scalar import Arg, Expr
from lazyt.ir.text_expr import format_expr
from lazyt.ir.text_tokens import format_type

#: Words that stand for themselves in parameter values, so strings equal to them are quoted.
RESERVED = frozenset({"none", "true", "false", "nan", "inf", *(t.name for t in ALL)})
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
    if isinstance(value, tuple) and field_names(value) is None:
        comma = "," if len(value) == 1 else ""
        return f"({', '.join(map(format_value, value))}{comma})"
    raise InternalError("ir.text_graph", f"a parameter of type {type(value).__name__} has no text")


class _Printer:
    """Numbers for nodes and unique ids, given in the order in which they are first asked for."""

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
    roots: Sequence[Node], sources: bool = False, stop: Callable[[Node], bool] | None = None
) -> list[tuple[Node | None, str]]:
    """The lines of ``print_graph``, each with its node; the header's node is None."""
    printer = _Printer()
    order = topological(roots, stop)
    leaves = [n for n in order if is_leaf(n) or (stop is not None and stop(n))]
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
    roots: Sequence[Node], sources: bool = False, stop: Callable[[Node], bool] | None = None
) -> str:
    """The graph that ``roots`` depend on as canonical text; ends with a line break. Iterative.

    Args:
        roots: the results, in order; repetitions are kept.
        sources: add the user's ``file:line`` to every node as a comment.
        stop: nodes to print as leaves, whatever computes them (such as those with data).
    """
    return "".join(f"{text}\n" for _, text in graph_lines(roots, sources, stop))
