"""Graph nodes: pure, immutable, typed and hash-consed.

A Node is an Op applied to input Nodes with static parameters. ``make`` is the only constructor:
it returns the existing node when an equal one is alive, so that equal means identical. Everything
that visits a graph does so without recursion; chains of hundreds of thousands of nodes are normal.
"""

from __future__ import annotations

import functools
import os
import sys
import weakref
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any, NamedTuple

from lazyt.errors import InternalError
from lazyt.ir.dtypes import DType

Shape = tuple[int, ...]
Source = tuple[CodeType, int]


class Type(NamedTuple):
    """What is known about a value before it is computed."""

    shape: Shape
    dtype: DType


@dataclass(frozen=True, eq=False)
class Op:
    """A structural operation with a rule for every transform.

    Attributes:
        name: its name in IR text.
        params: the frozen dataclass (or None) that holds static parameters.
        infer: ``(params, *input types) -> Type``; raises ShapeError or DTypeError.
        evaluate: ``(node, *arrays) -> array``: the meaning, in NumPy. Half types are float32
            arrays here; the interpreter rounds results to the stored type.
        vjp: ``(node, cotangent) -> one cotangent or None per input``, or a NoGradient.
        jvp: ``(node, tangents) -> tangent`` (a None tangent is zero), or a NoGradient.
        batch: ``(node, inputs, batched) -> node``: inputs flagged ``batched`` have a new leading
            axis; so has the result.
        lower: how kernels are made of it: a pointwise rule ``(node, index, read) -> Expr``, or the
            name of the kernel kind in ``codegen`` that it stands for.
    """

    name: str
    params: type | None
    infer: Callable[..., Type]
    evaluate: Callable[..., Any]
    vjp: Callable[[Node, Node], Sequence[Node | None]] | NoGradient
    jvp: Callable[[Node, Sequence[Node | None]], Node | None] | NoGradient
    batch: Callable[[Node, Sequence[Node], Sequence[bool]], Node]
    lower: Callable[..., Any] | str

    @functools.cached_property
    def heavy(self) -> bool:
        """Whether computing a value of it again is worth avoiding: it has a kernel of its own."""
        return isinstance(self.lower, str) and self.lower not in ("gather", "input")

    def __repr__(self) -> str:
        return f"<op {self.name}>"


@dataclass(frozen=True)
class NoGradient:
    """An explicit statement that an op has no gradient, with the text that the user reads."""

    reason: str


class Node:
    """One value of the graph.

    Attributes:
        op, inputs, params: what computes it; the key of its identity.
        shape, dtype: its inferred type.
        needs_grad: whether a differentiable path leads from it to a ``variable``.
        data: the runtime buffer that holds the value once it is computed, else None. Not part of
            the identity: it caches the value that the rest of the node already determines.
        source: the user's code position that made it first, else None.
    """

    __slots__ = (
        "__weakref__", "data", "dtype", "inputs", "needs_grad", "op", "params", "shape", "source",
    )  # fmt: skip

    op: Op
    inputs: tuple[Node, ...]
    params: Any
    shape: Shape
    dtype: DType
    needs_grad: bool
    data: Any
    source: Source | None

    @property
    def size(self) -> int:
        """Number of elements."""
        total = 1
        for extent in self.shape:
            total *= extent
        return total

    @property
    def nbytes(self) -> int:
        """Size of the stored value in bytes."""
        return self.size * self.dtype.itemsize

    @property
    def type(self) -> Type:
        """Shape and dtype together."""
        return Type(self.shape, self.dtype)

    def __repr__(self) -> str:
        return f"<{self.op.name} {self.dtype.name}{list(self.shape)}>"


class _Reference(weakref.ref[Node]):
    """A weak reference that knows its key in the table."""

    __slots__ = ("key",)
    key: tuple[Any, ...]


_table: dict[tuple[Any, ...], _Reference] = {}


def _forget(reference: weakref.ref[Node]) -> None:
    assert isinstance(reference, _Reference)
    key = reference.key
    if _table.get(key) is reference:
        del _table[key]


_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_record_source = True


def record_source(enabled: bool) -> None:
    """Turn the recording of the user's code positions on or off."""
    global _record_source
    _record_source = enabled


def user_position() -> Source | None:
    """The innermost code position outside the package, cheap to take; see ``source_text``."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if not code.co_filename.startswith(_PACKAGE):
            return (code, frame.f_lasti)
        frame = frame.f_back
    return None


def source_text(source: Source | None) -> str:
    """``file:line`` of a recorded position, or ``<unknown>``."""
    if source is None:
        return "<unknown>"
    code, lasti = source
    for start, end, line in code.co_lines():
        if start <= lasti < end and line is not None:
            return f"{code.co_filename}:{line}"
    return f"{code.co_filename}:{code.co_firstlineno}"


def make(op: Op, inputs: tuple[Node, ...], params: Any = None) -> Node:
    """The node of ``op`` on ``inputs``: the living equal one, or a new one with inferred type."""
    key = (op, params, inputs)
    reference = _table.get(key)
    if reference is not None:
        found = reference()
        if found is not None:
            return found
    shape, dtype = op.infer(params, *inputs)
    node = Node.__new__(Node)
    node.op = op
    node.inputs = inputs
    node.params = params
    node.shape = shape
    node.dtype = dtype
    node.data = None
    needs_grad = False
    if dtype.kind == "f":
        for item in inputs:
            if item.needs_grad:
                needs_grad = True
                break
    node.needs_grad = needs_grad
    node.source = user_position() if _record_source else None
    reference = _Reference(node, _forget)
    reference.key = key
    _table[key] = reference
    return node


def become(node: Node, leaf: Node) -> None:
    """Turn a computed node, which no gradient flows through, into ``leaf``, a new one of the same
    value: whoever refers to it no longer holds on to how it was made."""
    reference = _table.get((node.op, node.params, node.inputs))
    if reference is not None and reference() is node:
        del _table[reference.key]
    node.inputs, node.op, node.params = (), leaf.op, leaf.params


def topological(roots: Iterable[Node], stop: Callable[[Node], bool] | None = None) -> list[Node]:
    """All nodes that ``roots`` depend on, inputs before users, each once.

    Nodes for which ``stop`` holds are included, but not what they depend on. Iterative.
    """
    order: list[Node] = []
    seen: set[Node] = set()
    stack: list[Node] = [*roots]
    stack.reverse()
    while stack:
        node = stack[-1]
        if node in seen:
            stack.pop()
            continue
        ready = True
        if stop is None or not stop(node):
            for item in reversed(node.inputs):
                if item not in seen:
                    stack.append(item)
                    ready = False
        if ready:
            stack.pop()
            seen.add(node)
            order.append(node)
    return order


def rebuild(
    roots: Sequence[Node],
    change: Callable[[Node, tuple[Node, ...]], Node],
    stop: Callable[[Node], bool] | None = None,
) -> list[Node]:
    """The graph with every node replaced by ``change(node, new inputs)``; returns the new roots.

    Nodes for which ``stop`` holds are passed with their old inputs.
    """
    done: dict[Node, Node] = {}
    for node in topological(roots, stop):
        if stop is not None and stop(node):
            done[node] = change(node, node.inputs)
        else:
            done[node] = change(node, tuple(done[i] for i in node.inputs))
    return [done[r] for r in roots]


def remake(node: Node, inputs: tuple[Node, ...]) -> Node:
    """``node`` on other inputs; the node itself when they are the same."""
    if inputs == node.inputs:
        return node
    new = make(node.op, inputs, node.params)
    if node.source is not None:
        new.source = node.source
    return new


def broadcast_shapes(*shapes: Shape) -> Shape:
    """The common shape under NumPy's broadcasting rules; raises InternalError when there is none.

    The user's API checks shapes first and raises ShapeError in PyTorch's words.
    """
    first = shapes[0]
    if len(shapes) == 2:  # nearly all calls, and most of them with equal shapes or a number
        second = shapes[1]
        if first == second or not second:
            return first
        if not first:
            return second
    elif all(s == first for s in shapes):
        return first
    rank = max(map(len, shapes))
    out = []
    for axis in range(-rank, 0):
        extent = 1
        for shape in shapes:
            if -axis <= len(shape) and shape[axis] != 1:
                if extent not in (1, shape[axis]):
                    raise InternalError("ir.graph", f"shapes {shapes} do not broadcast")
                extent = shape[axis]
        out.append(extent)
    return tuple(out)
