"""Derivatives of the library routines: which rule belongs to which routine."""

from __future__ import annotations

from lazyt.errors import GradientError
from lazyt.ir.graph import Node
from lazyt.ops import equation_gradients, factor_gradients, spectral_gradients
from lazyt.ops.library_rules import Moves, Parts, PullBack, PushForward

RULES: dict[str, tuple[PullBack, PushForward]] = {
    **equation_gradients.RULES,
    **factor_gradients.RULES,
    **spectral_gradients.RULES,
}


def _rules(node: Node) -> tuple[PullBack, PushForward]:
    rules = RULES.get(node.params.routine)
    if rules is None:
        raise GradientError(f"{node.params.routine} has no gradient")
    return rules


def pull_back(node: Node, parts: Parts, cotangents: Parts) -> Moves:
    """Cotangents of the operands of a ``library`` node from those of its parts.

    Raises GradientError for routines without a gradient.
    """
    return _rules(node)[0](node, parts, cotangents)


def push_forward(node: Node, parts: Parts, tangents: Moves) -> Moves | None:
    """Tangents of the first parts from those of the operands; None where nothing moves.

    Raises GradientError for routines without a gradient.
    """
    if all(tangent is None for tangent in tangents):
        return None
    return _rules(node)[1](node, parts, tangents)
