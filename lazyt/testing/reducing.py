"""Makes what fails smaller: graphs, kernels and Python programs, one verified step after the other.

Each function takes something that fails, and a test that says whether a smaller one fails still.
Everything that the test is given is valid: graphs pass the verifier, kernels too and stay in
bounds, programs compile.
"""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from lazyt import ops
from lazyt.errors import LazytError
from lazyt.ir.graph import Node, rebuild, remake, topological
from lazyt.ir.index import sub_expressions
from lazyt.ir.kernel import ContractPhase, Kernel, Phase, Reduce, Scan, Store
from lazyt.ir.parser import parse_graph, parse_kernel
from lazyt.ir.printer import print_graph, print_kernel
from lazyt.ir.scalar import Call, Expr, const
from lazyt.ir.verifier import check_bounds, verify_graph, verify_kernel
from lazyt.ops.pointwise import arguments

T = TypeVar("T")
Told = Callable[[str], None]


def silent(text: str) -> None:
    """Nobody wants to know."""


def shrink(
    start: T,
    candidates: Callable[[T], Iterator[T]],
    size: Callable[[T], object],
    fails: Callable[[T], bool],
    tell: Told = silent,
) -> T:
    """The smallest found: whichever candidate fails still is gone on with, until none does."""
    current = start
    found = True
    while found:
        found = False
        for candidate in candidates(current):
            if fails(candidate):
                current, found = candidate, True
                tell(f"{size(current)}")
                break
    return current


# ------------------------------------------------------------------------------- graphs


def reduce_graph(
    roots: Sequence[Node], fails: Callable[[list[Node]], bool], tell: Told = silent
) -> list[Node]:
    """A smaller graph that fails.

    Args:
        roots: a graph for which ``fails`` holds.
        fails: whether a graph fails as this one does; it is only asked about valid graphs.
        tell: is called with each step, in words.

    Roots are left out, values become inputs or give way to their operands, expressions to their
    parts, and extents become small numbers.

    Raises ValueError where the graph does not fail.
    """
    start = list(roots)
    if not fails(start):
        raise ValueError("the graph does not fail")

    def valid(candidate: list[Node]) -> bool:
        try:
            verify_graph(candidate)
        except LazytError:
            return False
        return fails(candidate)

    def told(text: str) -> None:
        tell(f"{text} nodes")

    return shrink(start, _smaller_graphs, count_nodes, valid, told)


def count_nodes(roots: Sequence[Node]) -> int:
    """Nodes of a graph that are computed of others."""
    return sum(bool(node.inputs) for node in topological(roots))


def _smaller_graphs(roots: list[Node]) -> Iterator[list[Node]]:
    if len(roots) > 1:
        for root in dict.fromkeys(roots):
            yield [root]
        for n in range(len(roots)):
            yield roots[:n] + roots[n + 1 :]
    order = [node for node in topological(roots) if node.inputs]
    for node in reversed(order):  # those nearest to the roots first: they take most away
        yield from _without(roots, node)
    for node in order:
        if node.op.name == "map":
            yield from (_replaced(roots, node, made) for made in _smaller_maps(node))
    for root in roots:
        for item in root.inputs:
            yield [item if r is root else r for r in roots]
    yield from _smaller_extents(roots)


def _without(roots: list[Node], node: Node) -> Iterator[list[Node]]:
    if node not in roots:
        yield _replaced(roots, node, ops.input_(node.shape, node.dtype))
    for item in node.inputs:
        if item.type == node.type:
            yield _replaced(roots, node, item)


def _replaced(roots: list[Node], node: Node, instead: Node) -> list[Node]:
    def change(item: Node, inputs: tuple[Node, ...]) -> Node:
        return instead if item is node else remake(item, inputs)

    return rebuild(roots, change, lambda item: item is node)


def _smaller_maps(node: Node) -> Iterator[Node]:
    """The map with one call less: each gives way to an argument of its type."""
    calls = [e for e in sub_expressions(node.params) if isinstance(e, Call)]
    for item in calls:
        for part in item.args:
            if part.dtype is item.dtype and len(calls) > 1:
                yield from _map_of(_exchanged(node.params, item, part), node)
        if len(calls) > 1 and item is not node.params:
            yield from _map_of(_exchanged(node.params, item, const(1, item.dtype)), node)


def _exchanged(root: Expr, old: Expr, new: Expr) -> Expr:
    from lazyt.ir.scalar import substitute

    return substitute(root, {old: new})


def _map_of(expr: Expr, node: Node) -> Iterator[Node]:
    used = [node.inputs[a.index] for a in arguments(expr)]
    if not used:
        return
    made = ops.elementwise(expr, list(node.inputs))
    if made.dtype is node.dtype:
        yield made if made.shape == node.shape else ops.broadcast_to(made, node.shape)


def _smaller_extents(roots: list[Node]) -> Iterator[list[Node]]:
    """The graph's text with one number made smaller wherever it stands, if that is a graph."""
    text = re.sub(r" : \w+\[[^\]]*\]$", "", print_graph(roots), flags=re.MULTILINE)
    numbers = sorted({int(n) for n in re.findall(r"(?<![%$\w.])\d+(?![\w.:])", text)}, reverse=True)
    for number in numbers:
        for smaller in sorted({1, 2, 3, number // 2, number - 1}):
            if 0 < smaller < number:
                pattern = rf"(?<![%$\w.]){number}(?![\w.:])"
                try:
                    made = parse_graph(re.sub(pattern, str(smaller), text), ops.OPS)[1]
                except LazytError:  # the number meant something else, too
                    continue
                yield made


# ------------------------------------------------------------------------------- kernels


def reduce_kernel(kernel: Kernel, fails: Callable[[Kernel], bool], tell: Told = silent) -> Kernel:
    """A smaller kernel that fails; ``fails`` is asked about kernels only that the verifier accepts
    and whose accesses are proved. Raises ValueError where the kernel does not fail."""
    if not fails(kernel):
        raise ValueError("the kernel does not fail")

    def valid(candidate: Kernel) -> bool:
        try:
            verify_kernel(candidate)
            check_bounds(candidate)
            candidate = parse_kernel(print_kernel(candidate))
        except LazytError:
            return False
        return fails(candidate)

    return shrink(kernel, _smaller_kernels, _kernel_size, valid, lambda t: tell(f"{t} characters"))


def _kernel_size(kernel: Kernel) -> int:
    return len(print_kernel(kernel))


def _smaller_kernels(kernel: Kernel) -> Iterator[Kernel]:
    phases = kernel.phases
    for n in range(len(phases)):
        if len(phases) > 1:
            yield _used_only(dataclasses.replace(kernel, phases=phases[:n] + phases[n + 1 :]))
    for n, phase in enumerate(phases):
        for made in _smaller_phases(phase):
            rest = (*phases[:n], made, *phases[n + 1 :])
            yield _used_only(dataclasses.replace(kernel, phases=rest))
    text = print_kernel(kernel)
    for number in sorted(
        {int(n) for n in re.findall(r"(?<![\w.%])\d+(?![\w.:])", text)}, reverse=True
    ):
        for smaller in sorted({1, 2, number // 2, number - 1}):
            if 0 < smaller < number:
                try:
                    yield parse_kernel(
                        re.sub(rf"(?<![\w.%]){number}(?![\w.:])", str(smaller), text)
                    )
                except LazytError:  # no kernel, or the number is no extent
                    continue


def _smaller_phases(phase: object) -> Iterator[Phase | ContractPhase]:
    if isinstance(phase, Phase):
        for n, stage in enumerate(phase.stages):
            if len(phase.stages) > 1:
                rest = phase.stages[:n] + phase.stages[n + 1 :]
                yield dataclasses.replace(phase, stages=rest)
            for k, item in enumerate(stage.body):
                bodies = [stage.body[:k] + stage.body[k + 1 :]] if len(stage.body) > 1 else []
                for value in _smaller_values(item.value):
                    if isinstance(item, (Reduce, Scan)) and value.dtype is not item.value.dtype:
                        continue
                    changed = dataclasses.replace(item, value=value)
                    bodies.append((*stage.body[:k], changed, *stage.body[k + 1 :]))
                if isinstance(item, Store) and item.guards:
                    plain = dataclasses.replace(item, guards=())
                    bodies.append((*stage.body[:k], plain, *stage.body[k + 1 :]))
                for body in bodies:
                    made = dataclasses.replace(stage, body=body)
                    rest = (*phase.stages[:n], made, *phase.stages[n + 1 :])
                    yield dataclasses.replace(phase, stages=rest)
    elif isinstance(phase, ContractPhase):
        for value in _smaller_values(phase.left):
            yield dataclasses.replace(phase, left=value)
        for value in _smaller_values(phase.right):
            yield dataclasses.replace(phase, right=value)


def _smaller_values(root: Expr) -> Iterator[Expr]:
    if isinstance(root, Call):
        for part in root.args:
            if part.dtype.compute is root.dtype.compute:
                yield part
        for n, part in enumerate(root.args):
            for smaller in _smaller_values(part):
                args = (*root.args[:n], smaller, *root.args[n + 1 :])
                yield Call(root.fn, args, root.dtype)


def _used_only(kernel: Kernel) -> Kernel:
    """The kernel without the buffers that nothing gets at."""
    text = "\n".join(print_kernel(kernel).splitlines()[1:])
    used = tuple(b for b in kernel.buffers if re.search(rf"\b{re.escape(b.name)}\b", text))
    return dataclasses.replace(kernel, buffers=used)


# ------------------------------------------------------------------------------ programs


def reduce_program(source: str, fails: Callable[[str], bool], tell: Told = silent) -> str:
    """A shorter Python program that fails: statements are left out, and what stands in blocks takes
    the place of these. Raises ValueError where the program does not fail, or is none."""
    try:
        ast.parse(source)
    except SyntaxError as error:
        raise ValueError(f"this is no Python program: {error}") from error
    if not fails(source):
        raise ValueError("the program does not fail")
    return shrink(source, _smaller_programs, _count_lines, fails, lambda t: tell(f"{t} lines"))


def _count_lines(source: str) -> int:
    return len(source.splitlines())


def _smaller_programs(source: str) -> Iterator[str]:
    total = len(_bodies(ast.parse(source)))
    for number in range(total):
        body = _bodies(ast.parse(source))[number]
        size = len(body)
        step = size
        while step:
            for start in range(0, size, step):
                if step < size or number:  # never all of the program
                    yield from _edited(source, number, start, start + step, [])
            step //= 2
        for place, item in enumerate(body):
            inner = [s for name in ("body", "orelse", "finalbody") for s in getattr(item, name, [])]
            if inner and not isinstance(item, (ast.FunctionDef, ast.ClassDef, ast.Lambda)):
                yield from _edited(source, number, place, place + 1, inner)


def _bodies(tree: ast.AST) -> list[list[ast.stmt]]:
    found = []
    for node in ast.walk(tree):
        for name in ("body", "orelse", "finalbody"):
            body = getattr(node, name, None)
            if isinstance(body, list) and body and isinstance(body[0], ast.stmt):
                found.append(body)
    return found


def _edited(
    source: str, number: int, start: int, stop: int, instead: Sequence[ast.stmt]
) -> Iterator[str]:
    tree = ast.parse(source)
    body = _bodies(tree)[number]
    body[start:stop] = list(instead)
    if not body:
        body.append(ast.Pass())
    made = ast.unparse(ast.fix_missing_locations(tree)) + "\n"
    if len(made) < len(ast.unparse(ast.parse(source))) + 1:
        yield made
