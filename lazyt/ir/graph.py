"""Graph nodes: pure, immutable, typed and hash-consed.

A Node is an Op applied to input Nodes with static parameters. ``make`` is the only constructor:
it returns the existing node when an equal one is alive, so that equal means identical. Everything
that visits a graph does so without recursion; chains of hundreds of thousands of nodes are normal.
"""

from __future__ import annotations

import contextlib
import math
import sys
import threading
import weakref
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from types import FrameType
from typing import Any

from lazyt.ir.dtypes import DType
from lazyt.ir.forms import common_place, form_of
from lazyt.ir.op import Head as Head
from lazyt.ir.op import Known as Known
from lazyt.ir.op import NoGradient as NoGradient
from lazyt.ir.op import Op as Op
from lazyt.ir.op import Shape as Shape
from lazyt.ir.op import Type as Type
from lazyt.ir.op import head_of as head_of
from lazyt.ir.op import living as living_heads
from lazyt.ir.source_lines import Source as Source
from lazyt.ir.source_lines import position_of, recording, user_files
from lazyt.ir.source_lines import position_to_note as position_to_note
from lazyt.ir.source_lines import record_source as record_source
from lazyt.ir.source_lines import source_text as source_text
from lazyt.ir.source_lines import user_position as user_position


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
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Size of the stored value in bytes."""
        return math.prod(self.shape) * self.dtype.itemsize

    @property
    def type(self) -> Type:
        """Shape and dtype together."""
        return Type(self.shape, self.dtype)

    def __repr__(self) -> str:
        return f"<{self.op.name} {self.dtype.name}{list(self.shape)}>"


class Clock:
    """Counts in ``now`` how often graphs were computed: the age of pending work."""

    __slots__ = ("now",)

    def __init__(self) -> None:
        self.now = 0


clock = Clock()
#: The age of what does not age.
NEVER = sys.maxsize


class _Ageing(threading.local):
    """Whether, in this thread, nodes that are made again are as new as if they were made first."""

    paused = False


_ageing = _Ageing()


@contextlib.contextmanager
def ages_left() -> Iterator[None]:
    """A block, or a function, that leaves nodes as old as they are. A plan's graph may contain
    nodes of the program's, those that hang on constants alone, and making the plan is no use."""
    before, _ageing.paused = _ageing.paused, True
    try:
        yield
    finally:
        _ageing.paused = before


class _Reference(weakref.ref[Node]):
    """A weak reference that knows where its head has it."""

    __slots__ = ("inputs", "nodes")
    inputs: tuple[Node, ...]
    nodes: dict[tuple[Node, ...], weakref.ref[Node]]


def _forget(reference: Any) -> None:
    nodes, inputs = reference.nodes, reference.inputs
    found = nodes.pop(inputs, None)
    if found is not reference and found is not None:  # of an equal node that was made since
        nodes[inputs] = found


def make(op: Op, inputs: tuple[Node, ...], params: Any = None) -> Node:
    """The node of ``op`` on ``inputs``: the living equal one, or a new one with inferred type."""
    known = living_heads.get((op, params, len(inputs)))
    head = None if known is None else known()
    if head is None:
        head = head_of(op, params, len(inputs))
    reference = head.nodes.get(inputs)
    if reference is not None:
        found = reference()
        if found is not None:
            if found.made != clock.now:
                _renew(found)
            return found
    return _make_new(head, inputs, user_position() if recording.enabled else None)


def make_of(head: Head, inputs: tuple[Node, ...]) -> Node:
    """``make`` where the head is known already."""
    reference = head.nodes.get(inputs)
    if reference is not None:
        found = reference()
        if found is not None:
            if found.made != clock.now:
                _renew(found)
            return found
    return _make_new(head, inputs, user_position() if recording.enabled else None)


def make_like(head: Head, inputs: tuple[Node, ...], source: Source | None) -> Node:
    """``make_of`` with the position that a new node gets."""
    reference = head.nodes.get(inputs)
    if reference is not None:
        found = reference()
        if found is not None:
            if found.made != clock.now:
                _renew(found)
            return found
    return _make_new(head, inputs, source)


def make_pair(head: Head, known: Known, a: Node, b: Node, frame: FrameType) -> Node:
    """``make_of`` two inputs that no gradient flows through, for code that runs in ``frame``, where
    the type that is inferred is known already; written out for long chains."""
    inputs = (a, b)
    nodes = head.nodes
    reference = nodes.get(inputs)
    if reference is not None:
        found = reference()
        if found is not None:
            if found.made != clock.now:
                _renew(found)
            return found
    node = Node()
    if recording.enabled:
        code = frame.f_code
        own = code.co_filename in user_files
        node.source = (code, frame.f_lasti) if own else position_of(frame)
    else:
        node.source = None
    node.head = head
    node.inputs = inputs
    node.op, node.params = head.op, head.params
    node.shape, node.dtype, node.form = known
    node.data = None
    node.needs_grad = False
    node.made = oldest = clock.now
    if a.data is None and a.oldest < oldest:
        oldest = a.oldest
    if b.data is None and b.oldest < oldest:
        oldest = b.oldest
    node.oldest = oldest
    nodes[inputs] = reference = _Reference(node, _forget)
    reference.nodes, reference.inputs = nodes, inputs
    return node


def _renew(node: Node) -> None:
    """Note that the program made the node now: what is made again at every step does not age."""
    if _ageing.paused:
        return
    node.made = now = clock.now
    oldest = NEVER
    for item in node.inputs:
        since = item.oldest if item.data is None else now
        if since < oldest:
            oldest = since
    if oldest == NEVER and node.inputs and node.op.movement != "ordered":
        oldest = now
    node.oldest = oldest


def _make_new(head: Head, inputs: tuple[Node, ...], source: Source | None) -> Node:
    # What ``_renew`` does and looks at each input is done in one go: every new node passes here.
    now = clock.now
    oldest = NEVER
    needs_grad = False
    forms: Any
    if head.arity == 1:
        (item,) = inputs
        forms, needs_grad = item.form, item.needs_grad
        oldest = item.oldest if item.data is None else now
    else:
        forms = []
        for item in inputs:
            forms.append(item.form)
            since = item.oldest if item.data is None else now
            if since < oldest:
                oldest = since
            if item.needs_grad:
                needs_grad = True
        forms = tuple(forms)
    op = head.op
    known = head.types.get(forms)
    if known is None:
        known = head.types[forms] = _typed(head, inputs)
    if oldest == NEVER and inputs and op.movement != "ordered":
        oldest = now
    node = Node()
    node.head = head
    node.op = op
    node.inputs = inputs
    node.params = head.params
    node.shape, dtype, node.form = known
    node.dtype = dtype
    node.data = None
    node.source = source
    node.made = now
    node.oldest = oldest
    if op.marks is not None:
        needs_grad = op.marks
    node.needs_grad = needs_grad and dtype.kind in "fc"
    head.nodes[inputs] = reference = _Reference(node, _forget)
    reference.nodes, reference.inputs = head.nodes, inputs
    return node


def _typed(head: Head, inputs: tuple[Node, ...]) -> Known:
    """Shape, dtype and form of ``head`` on these inputs."""
    type_ = Type(*head.op.infer(head.params, *inputs))
    moves, found = head.op.moves, [item.form for item in inputs]
    place = head.params.place if moves else common_place(found)
    return (*type_, form_of(type_, place))


def make_leaf(head: Head, params: Any, type_: Type, data: Any) -> Node:
    """A node without inputs that is unequal to all others; ``params`` may be its own."""
    node = Node()
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
    reference = head.nodes.get(inputs)
    return None if reference is None else reference()


def move_onto(node: Node, leaf: Node) -> None:
    """Let a computed node, another name for its input, be one for ``leaf`` instead, a new one of
    the same value."""
    nodes = node.head.nodes
    reference = nodes.get(node.inputs)
    if reference is not None and reference() is node:
        del nodes[node.inputs]
    node.inputs = (leaf,)
    node.oldest = clock.now
    nodes[node.inputs] = moved = _Reference(node, _forget)
    moved.nodes, moved.inputs = nodes, node.inputs


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


class Rewrites:
    """Counts the nodes that ``rebuild`` replaces by others than the same on other inputs, and lets
    it replace ``most`` at most.

    Attributes:
        count: how many were or would have been replaced.
        last: the latest that was replaced.
        replaced: all of them, where somebody wants them noted.
    """

    __slots__ = ("count", "last", "most", "replaced")

    def __init__(self, most: int, replaced: list[Node] | None = None) -> None:
        self.most = most
        self.count = 0
        self.last: Node | None = None
        self.replaced = replaced

    def decide(self, node: Node, plain: Node, new: Node) -> Node:
        """``new``, or ``plain`` where enough nodes have been replaced."""
        if new is plain or new.type != plain.type:
            return new
        self.count += 1
        if self.count > self.most:
            return plain
        self.last = node
        if self.replaced is not None:
            self.replaced.append(plain)
        return new


#: What counts and limits the rewrites of all passes, where somebody looks for the wrong one.
rewrites: Rewrites | None = None


def rebuild(
    roots: Sequence[Node],
    change: Callable[[Node, tuple[Node, ...]], Node],
    stop: Callable[[Node], bool] | None = None,
) -> list[Node]:
    """The graph with every node replaced by ``change(node, new inputs)``; returns the new roots.

    Nodes for which ``stop`` holds are passed with their old inputs. What is made in place of a node
    belongs to the line of the program that made that.
    """
    done: dict[Node, Node] = {}
    here = position_to_note()
    for node in topological(roots, stop):
        if stop is not None and stop(node):
            done[node] = change(node, node.inputs)
        else:
            inputs = tuple(done[i] for i in node.inputs)
            done[node] = change(node, inputs)
            if rewrites is not None and node.inputs:
                done[node] = rewrites.decide(node, remake(node, inputs), done[node])
        if here is not None and node.source != here:
            _ascribe(done[node], here, node.source)
    return [done[r] for r in roots]


def _ascribe(node: Node, here: Source, source: Source | None) -> None:
    """Give nodes that were made at the position ``here`` another one, inputs included."""
    work = [node]
    while work:
        item = work.pop()
        if item.inputs and item.source == here:
            item.source = source
            work.extend(item.inputs)


def remake(node: Node, inputs: tuple[Node, ...]) -> Node:
    """``node`` on other inputs; the node itself when they are the same."""
    if inputs == node.inputs:
        return node
    new = make(node.op, inputs, node.params)
    if node.source is not None:
        new.source = node.source
    return new


# Graphs as parameters of ops: the step of a loop, the branches of a choice.


class Body:
    """A graph that an op runs as a whole, over its own leaves; equal ones are one object.

    Attributes:
        leaves: its inputs in order, those that nothing reads included.
        roots: its results in order; a leaf may be one.
    """

    __slots__ = ("__weakref__", "_key", "leaves", "roots")

    _key: Hashable
    leaves: tuple[Node, ...]
    roots: tuple[Node, ...]

    @staticmethod
    def of(leaves: Sequence[Node], roots: Sequence[Node]) -> Body:
        """The body with this structure; ``leaves`` are inputs that belong to nothing else."""
        numbers = {leaf: number for number, leaf in enumerate(leaves)}
        key: list[Any] = [leaf.type for leaf in leaves]
        for node in topological(roots, lambda item: item in numbers):
            if node not in numbers:
                # A value from outside, such as a repeated number that has been computed, is itself.
                own = node.head if node.inputs or node.data is None else node
                key.append((own, *[numbers[item] for item in node.inputs]))
                numbers[node] = len(numbers)
        key.append(tuple([numbers[root] for root in roots]))
        whole = tuple(key)
        found = _bodies.get(whole)
        if found is None:
            found = Body()
            found.leaves, found.roots, found._key = tuple(leaves), tuple(roots), whole
            _bodies[whole] = found
            _recent_bodies.append(found)
        return found

    @property
    def nodes(self) -> list[Node]:
        """What it is made of, inputs before users, leaves that nothing reads left out."""
        own = set(self.leaves)
        return topological(self.roots, lambda item: item in own)

    def over(self, inputs: Sequence[Node]) -> list[Node]:
        """The results, as nodes of a graph over ``inputs``."""
        new = dict(zip(self.leaves, inputs, strict=True))
        for node in self.nodes:
            if node not in new:
                new[node] = remake(node, tuple([new[item] for item in node.inputs]))
        return [new[root] for root in self.roots]

    def __repr__(self) -> str:
        return f"<body of {len(self.leaves)} inputs and {len(self.roots)} results>"


_bodies: weakref.WeakValueDictionary[Hashable, Body] = weakref.WeakValueDictionary()
#: Those that were made last: a loop that is run again finds its body, and with it its plan.
_recent_bodies: deque[Body] = deque(maxlen=256)
