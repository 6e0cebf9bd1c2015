"""Checks that graphs and kernels keep the rules of their language.

Both functions collect every complaint and raise one VerifyError that prints the IR with each
complaint beside the line it is about.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from lazyt.errors import LazytError, VerifyError
from lazyt.ir.dtypes import bool_
from lazyt.ir.graph import Node, make
from lazyt.ir.scalar import Arg, Call, Const, Expr, post_order
from lazyt.ir.text_graph import field_names, graph_lines, is_leaf
from lazyt.ir.text_tokens import format_type

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
