"""What an operation of the graph is: a name, and one rule for every transform; and heads, which are
operations with their parameters."""

from __future__ import annotations

import functools
import operator
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from lazyt.errors import InternalError
from lazyt.ir.dtypes import DType

if TYPE_CHECKING:
    from lazyt.ir.graph import Node

# Shapes and how they broadcast.


Shape = tuple[int, ...]


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


class Type(NamedTuple):
    """What is known about a value before it is computed."""

    shape: Shape
    dtype: DType


Movement = Literal["", "ordered", "reordered", "selected"]


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
        movement: for ops whose elements are those of their one operand, which: all of them in their
            order, perhaps repeated (``ordered``), all in another order (``reordered``), or some
            may be missing (``selected``).
        leaf: whether it reads nothing that has to be computed.
        home: the module that defines it.
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
    movement: Movement = ""
    leaf: bool = False
    home: str = ""

    @property
    def is_identity(self) -> bool:
        """Whether its value is its operand's: it only marks where gradients start or stop."""
        return self.marks is not None

    @property
    def is_movement(self) -> bool:
        """Whether its elements are some of its first operand's, and nothing is computed."""
        return bool(self.movement) or self.marks is not None

    @property
    def moves_all(self) -> bool:
        """Whether it is a movement after which no element is missing."""
        return self.movement in ("ordered", "reordered")

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


_PLAIN = frozenset({int, bool, float, str, type(None)})


def plain(params: Any) -> Any:
    """Parameters with numbers of Python's own types: others pass for them, and stay in caches."""
    kind = type(params)
    if isinstance(params, tuple):
        parts = tuple(map(plain, params))
        same = all(map(operator.is_, parts, params))
        return params if same else getattr(kind, "_make", tuple)(parts)
    if kind in _PLAIN:
        return params
    if isinstance(params, np.generic):
        return params.item()
    if not isinstance(params, (int, float)):
        return params
    return operator.index(params) if isinstance(params, int) else float(params)


# Heads: what equal calls on other values share, and where the nodes made of them are found.


#: Shape, dtype and form.
Known = tuple[Shape, DType, int]


class Head:
    """An op with its parameters and number of inputs: what equal calls on other values share.

    Attributes:
        op, params, arity: its identity.
        nodes: those of its nodes that are alive, by their inputs.
        types: what ``infer`` gave, by the forms of the inputs.
        key: the number that stands for it in keys of plans, None before there was one.
    """

    __slots__ = ("__weakref__", "arity", "key", "nodes", "op", "params", "types")

    def __init__(self, op: Op, params: Any, arity: int) -> None:
        self.op = op
        self.params = params
        self.arity = arity
        self.nodes: dict[tuple[Node, ...], weakref.ref[Node]] = {}
        self.types: dict[Any, Known] = {}
        self.key: int | None = None


class _HeadReference(weakref.ref[Head]):
    """A weak reference that knows its key in the table."""

    __slots__ = ("key",)
    key: tuple[Op, Any, int]


#: Heads that were made last. A loop that lets go of its values makes the same ones each time.
_recent: deque[Head] = deque(maxlen=2048)
#: Heads that are alive, by what they are made of.
living: dict[tuple[Op, Any, int], _HeadReference] = {}


def _forget_head(reference: Any) -> None:
    key = reference.key
    if living.get(key) is reference:
        del living[key]


def head_of(op: Op, params: Any, arity: int) -> Head:
    """The head of ``op`` with ``params`` on ``arity`` inputs; equal means identical."""
    key = (op, params, arity)
    reference = living.get(key)
    if reference is not None:
        found = reference()
        if found is not None:
            return found
    params = plain(params)
    head = Head(op, params, arity)
    reference = _HeadReference(head, _forget_head)
    reference.key = key = (op, params, arity)
    living[key] = reference
    _recent.append(head)
    return head


def forget_recent() -> None:
    """Lets go of heads that no node has any more."""
    _recent.clear()


def living_nodes(heads: Iterable[Head] | None = None) -> Iterator[Node]:
    """The nodes that are alive, leaves left out; of these heads, of all by default."""
    found = [known() for known in list(living.values())] if heads is None else heads
    for head in found:
        for reference in list(head.nodes.values()) if head is not None else ():
            node = reference()
            if node is not None:
                yield node


def count_living() -> int:
    """Nodes that are alive, leaves left out."""
    heads = [reference() for reference in list(living.values())]
    return sum(len(head.nodes) for head in heads if head is not None)


def reduction_runs(axes: Sequence[int], shape: Sequence[int]) -> list[tuple[int, int]]:
    """Maximal runs [first, last] of reduced axes with only axes of extent 1 between them.

    A reduction folds each run as one axis, one run after the other, last first: its order depends
    on its own shape and axes alone, whatever is fused.
    """
    runs: list[tuple[int, int]] = []
    for axis in axes:
        if runs and all(shape[a] == 1 for a in range(runs[-1][1] + 1, axis)):
            runs[-1] = (runs[-1][0], axis)
        else:
            runs.append((axis, axis))
    return runs
