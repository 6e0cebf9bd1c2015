"""Graph nodes: pure, immutable, typed and hash-consed.

A Node is an Op applied to input Nodes with static parameters. ``make`` is the only constructor:
it returns the existing node when an equal one is alive, so that equal means identical. Everything
that visits a graph does so without recursion; chains of hundreds of thousands of nodes are normal.
"""

from __future__ import annotations

import functools
import sys
import weakref
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from lazyt.ir.dtypes import DType
from lazyt.ir.forms import common_place, form_of
from lazyt.ir.positions import Source as Source
from lazyt.ir.positions import position_to_note as position_to_note
from lazyt.ir.positions import record_source as record_source
from lazyt.ir.positions import recording
from lazyt.ir.positions import source_text as source_text
from lazyt.ir.positions import user_position as user_position
from lazyt.ir.shapes import Shape as Shape


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
        marks: whether gradients start (True) or stop (False) at its values, whatever the inputs;
            None for all but two ops.
        moves: whether ``params.place`` says where its values are, whatever the inputs.
    """

    name: str
    params: type | None
    infer: Callable[..., Type]
    evaluate: Callable[..., Any]
    vjp: Callable[[Node, Node], Sequence[Node | None]] | NoGradient
    jvp: Callable[[Node, Sequence[Node | None]], Node | None] | NoGradient
    batch: Callable[[Node, Sequence[Node], Sequence[bool]], Node]
    lower: Callable[..., Any] | str
    marks: bool | None = None
    moves: bool = False

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


class Head:
    """An op with its parameters and number of inputs: what equal calls on other values share.

    Attributes:
        op, params, arity: its identity.
        types: what ``infer`` gave, by the forms of the inputs.
        key: the number that stands for it in keys of plans, None before there was one.
    """

    __slots__ = ("__weakref__", "arity", "key", "op", "params", "types")

    def __init__(self, op: Op, params: Any, arity: int) -> None:
        self.op = op
        self.params = params
        self.arity = arity
        self.types: dict[Any, tuple[Shape, DType, int]] = {}
        self.key: int | None = None


class Node:
    """One value of the graph.

    Attributes:
        op, inputs, params: what computes it; the key of its identity.
        head: op and params as one shared object.
        shape, dtype: its inferred type.
        form: the number of that type and of where the value is, see ``forms.py``.
        needs_grad: whether a differentiable path leads from it to a ``variable``.
        data: the runtime buffer that holds the value once it is computed, else None. Not part of
            the identity: it caches the value that the rest of the node already determines.
        made: the time on the ``clock`` when it was made.
        oldest: the same of the oldest node that had to be computed for it then; without end for
            leaves, and for constants however often they are repeated.
        source: the user's code position that made it first, else None.
    """

    __slots__ = (
        "__weakref__", "data", "dtype", "form", "head", "inputs", "made", "needs_grad", "oldest",
        "op", "params", "shape", "source",
    )  # fmt: skip

    op: Op
    inputs: tuple[Node, ...]
    params: Any
    head: Head
    shape: Shape
    dtype: DType
    form: int
    needs_grad: bool
    made: int
    oldest: int
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


class Clock:
    """Counts how often graphs were computed: the age of pending work.

    Attributes:
        now: the count.
    """

    __slots__ = ("now",)

    def __init__(self) -> None:
        self.now = 0


clock = Clock()
#: The age of what does not age.
NEVER = sys.maxsize
_SPREADING = frozenset({"expand", "reshape"})


class _Reference(weakref.ref[Node]):
    """A weak reference that knows its key in the table."""

    __slots__ = ("key",)
    key: tuple[Head, tuple[Node, ...]]


class _HeadReference(weakref.ref[Head]):
    """The same for heads."""

    __slots__ = ("key",)
    key: tuple[Op, Any, int]


_table: dict[tuple[Head, tuple[Node, ...]], _Reference] = {}
_heads: dict[tuple[Op, Any, int], _HeadReference] = {}
_new = object.__new__


def _forget(reference: Any) -> None:
    key = reference.key
    if _table.get(key) is reference:
        del _table[key]


def _forget_head(reference: Any) -> None:
    key = reference.key
    if _heads.get(key) is reference:
        del _heads[key]


def head_of(op: Op, params: Any, arity: int) -> Head:
    """The head of ``op`` with ``params`` on ``arity`` inputs; equal means identical."""
    key = (op, params, arity)
    reference = _heads.get(key)
    if reference is not None:
        found = reference()
        if found is not None:
            return found
    head = Head(op, params, arity)
    reference = _HeadReference(head, _forget_head)
    reference.key = key
    _heads[key] = reference
    return head


def make(op: Op, inputs: tuple[Node, ...], params: Any = None) -> Node:
    """The node of ``op`` on ``inputs``: the living equal one, or a new one with inferred type."""
    known = _heads.get((op, params, len(inputs)))
    head = None if known is None else known()
    if head is None:
        head = head_of(op, params, len(inputs))
    key = (head, inputs)
    reference = _table.get(key)
    if reference is not None:
        found = reference()
        if found is not None:
            if found.made != clock.now:
                _renew(found)
            return found
    return _make_new(key, user_position() if recording.enabled else None)


def make_of(head: Head, inputs: tuple[Node, ...]) -> Node:
    """``make`` where the head is known already."""
    key = (head, inputs)
    reference = _table.get(key)
    if reference is not None:
        found = reference()
        if found is not None:
            if found.made != clock.now:
                _renew(found)
            return found
    return _make_new(key, user_position() if recording.enabled else None)


def make_like(head: Head, inputs: tuple[Node, ...], source: Source | None) -> Node:
    """``make_of`` with the position that a new node gets."""
    key = (head, inputs)
    reference = _table.get(key)
    if reference is not None:
        found = reference()
        if found is not None:
            if found.made != clock.now:
                _renew(found)
            return found
    return _make_new(key, source)


def _renew(node: Node) -> None:
    """Note that the program made the node now: what is made again at every step does not age."""
    node.made = now = clock.now
    oldest = NEVER
    for item in node.inputs:
        since = item.oldest if item.data is None else now
        if since < oldest:
            oldest = since
    if oldest == NEVER and node.inputs and node.op.name not in _SPREADING:
        oldest = now
    node.oldest = oldest


def _make_new(key: tuple[Head, tuple[Node, ...]], source: Source | None) -> Node:
    head, inputs = key
    forms = inputs[0].form if head.arity == 1 else tuple([item.form for item in inputs])
    known = head.types.get(forms)
    if known is None:
        type_ = Type(*head.op.infer(head.params, *inputs))
        moves, found = head.op.moves, [item.form for item in inputs]
        place = head.params.place if moves else common_place(found)
        known = head.types[forms] = (*type_, form_of(type_, place))
    node: Node = _new(Node)
    node.head = head
    node.op = op = head.op
    node.inputs = inputs
    node.params = head.params
    node.shape, dtype, node.form = known
    node.dtype = dtype
    node.data = None
    node.source = source
    _renew(node)
    needs_grad = op.marks
    if needs_grad is None:
        needs_grad = True in [item.needs_grad for item in inputs]
    node.needs_grad = dtype.kind == "f" and needs_grad
    reference = _Reference(node, _forget)
    reference.key = key
    _table[key] = reference
    return node


def make_leaf(head: Head, params: Any, type_: Type, data: Any) -> Node:
    """A node without inputs that is unequal to all others; ``params`` may be its own."""
    node: Node = _new(Node)
    node.head = head
    node.op = head.op
    node.inputs = ()
    node.params = params
    node.shape, node.dtype = type_
    node.form = form_of(type_) if data is None else form_of(type_, data.place)
    node.data = data
    node.made = clock.now
    node.oldest = NEVER
    node.needs_grad = False
    node.source = position_to_note()
    return node


def find(head: Head, inputs: tuple[Node, ...]) -> Node | None:
    """The living node of ``head`` on ``inputs``, None where there is none."""
    reference = _table.get((head, inputs))
    return None if reference is None else reference()


def become(node: Node, leaf: Node) -> None:
    """Turn a computed node, which no gradient flows through, into ``leaf``, a new one of the same
    value: whoever refers to it no longer holds on to how it was made."""
    reference = _table.get((node.head, node.inputs))
    if reference is not None and reference() is node:
        del _table[reference.key]
    node.inputs, node.head, node.op, node.params = (), leaf.head, leaf.op, leaf.params
    node.oldest = NEVER


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
