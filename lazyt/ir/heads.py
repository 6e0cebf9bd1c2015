"""Heads: what equal calls on other values share, and where the nodes made of them are found."""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from lazyt.ir.dtypes import DType
from lazyt.ir.op import Op, Shape, plain

if TYPE_CHECKING:
    from lazyt.ir.graph import Node

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
