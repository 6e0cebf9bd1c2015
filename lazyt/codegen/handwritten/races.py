"""What has no single value in a kernel: elements that several threads write, and results that are
read and never written.

Both are found in the text, without running it, where they do not depend on values: every turn of a
shared loop writes to the same element, or only ``+=`` ever writes to a result.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from pycparser import c_ast

from lazyt.codegen.handwritten.source import walk

_CHOICES = (c_ast.For, c_ast.While, c_ast.DoWhile, c_ast.If)
_STEPS = ("++", "--", "p++", "p--")
#: What differs between the threads of CUDA.
_OF_CUDA = frozenset({"threadIdx", "blockIdx"})


def _names(tree: Any) -> set[str]:
    return set() if tree is None else {n.name for n in walk(tree) if isinstance(n, c_ast.ID)}


def _base(node: Any) -> str | None:
    """The pointer or array whose element a node is; None for other expressions."""
    if not isinstance(node, c_ast.ArrayRef):
        return None
    while isinstance(node, c_ast.ArrayRef):
        node = node.name
    return node.name if isinstance(node, c_ast.ID) else None


def _writes(tree: Any) -> Iterator[tuple[Any, str, Any]]:
    """What is assigned to, the operator, and the value."""
    for node in walk(tree):
        yield from _writes_of(node)


def _writes_of(node: Any) -> Iterator[tuple[Any, str, Any]]:
    if isinstance(node, c_ast.Assignment):
        yield node.lvalue, node.op, node.rvalue
    elif isinstance(node, c_ast.UnaryOp) and node.op in _STEPS:
        yield node.expr, f"{node.op[-1]}=", None


def _declared(tree: Any, kind: type) -> set[str]:
    return {n.name for n in walk(tree) if isinstance(n, c_ast.Decl) and isinstance(n.type, kind)}


def _differing(tree: Any, names: Iterable[str], arrays: set[str]) -> set[str]:
    """The names whose values follow from ``names``, which differ between turns or threads, and
    those of ``arrays`` with such elements."""
    found, size = set(names), -1
    while size != len(found):
        size = len(found)
        for node in walk(tree):
            if isinstance(node, c_ast.Decl) and found & _names(node.init):
                found.add(node.name)
            elif isinstance(node, _CHOICES) and found & _names(node.cond):
                # What is assigned in a loop or a branch depends on how it runs.
                inner = (target for target, *_ in _writes(node))
                found.update(t.name for t in inner if isinstance(t, c_ast.ID))
        for target, _, value in _writes(tree):
            name = target.name if isinstance(target, c_ast.ID) else _base(target)
            known = isinstance(target, c_ast.ID) or name in arrays
            if name is not None and known and found & (_names(value) | _names(target)):
                found.add(name)
    return found


def same_element(tree: Any, shared: Iterable[str], loop: str | None = None) -> Any:
    """An assignment to one element that all turns of a loop (all threads of CUDA) make with
    different values; None where there is none.

    Args:
        tree: the body.
        shared: the pointers that all of them see.
        loop: what counts the turns; None for CUDA.
    """
    seeds = _OF_CUDA if loop is None else {loop}
    # Of what a block shares, all threads read the same element.
    arrays = set() if loop is None else _declared(tree, c_ast.ArrayDecl)
    differing = _differing(tree, seeds, arrays)
    outer = {*shared, *_declared(tree, c_ast.PtrDecl)} - differing
    work = [tree]
    while work:
        node = work.pop()
        if isinstance(node, c_ast.If) and differing & _names(node.cond):
            continue  # perhaps for one of them alone
        for target, op, value in _writes_of(node):
            alone = differing & _names(target)
            equal = op == "=" and not differing & _names(value)
            if _base(target) in outer and not alone and not equal:
                return node
        work.extend(child for _, child in node.children())
    return None


def never_written(body: Any, results: Iterable[str]) -> Any:
    """Where a result is added to or read that is never written in another way; None where there is
    no such result."""
    for name in results:
        written = any(_base(t) == name and op == "=" for t, op, _ in _writes(body))
        elements = [n for n in walk(body) if _base(n) == name and isinstance(n.name, c_ast.ID)]
        uses = sum(isinstance(n, c_ast.ID) and n.name == name for n in walk(body))
        # Where the pointer itself is used, others may write through it.
        if elements and not written and uses == len(elements):
            return elements[0]
    return None
