"""What the derivative rules of library routines have in common.

A pull-back takes a ``library`` node, its parts and their cotangents, and gives the cotangents of
the operands; a push-forward takes the operands' tangents and gives those of the first parts. None
stands for zero.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lazyt import ops
from lazyt.ir.graph import Node
from lazyt.ops.matrix_algebra import plus

Parts = Sequence[Node]
Moves = Sequence[Node | None]
PullBack = Callable[[Node, Parts, Parts], Moves]
PushForward = Callable[[Node, Parts, Moves], Moves]


def added(*terms: Node | None) -> Node:
    """The sum of the terms that are there, of which one is."""
    present = [term for term in terms if term is not None]
    result = present[0]
    for term in present[1:]:
        result = plus(result, term)
    return result


def only(tangents: Moves) -> Node:
    """The tangent of the one operand that a routine has, when something moves."""
    tangent = tangents[0]
    assert tangent is not None
    return tangent


def substitute(a: Node, b: Node, mode: str) -> Node:
    """``x`` with ``a @ x = b`` for triangular ``a``; modes as in ``library_routines``."""
    return ops.library("triangular", a, b, mode=mode)[0]


def turned(mode: str) -> str:
    """The mode of the transposed triangular matrix."""
    side = "lower" if mode.startswith("upper") else "upper"
    return side + mode[5:]
