"""Forward-mode derivatives as a graph transform."""

from __future__ import annotations

from collections.abc import Sequence

from lazyt.errors import DTypeError, GradientError, ShapeError
from lazyt.ir.graph import Node, NoGradient, source_text
from lazyt.ops.control.bodies import transforms
from lazyt.transforms.vjp import connected


def jvp(
    outputs: Sequence[Node], wrt: Sequence[Node], tangents: Sequence[Node | None]
) -> list[Node | None]:
    """How ``outputs`` move when each node of ``wrt`` moves along its tangent, as new graph nodes.

    Args:
        outputs: the differentiated values.
        wrt: any nodes; what lies before them is held fixed.
        tangents: one per node of ``wrt``, of its shape and type; None for zero.

    The result is None where an output does not move. Iterative. Raises GradientError for an op
    without a derivative, and ShapeError or DTypeError for a tangent that does not fit.
    """
    known: dict[Node, Node | None] = {}
    for node, tangent in zip(wrt, tangents, strict=True):
        if tangent is not None and tangent.shape != node.shape:
            raise ShapeError(
                f"jvp: a tangent of shape {list(tangent.shape)} for a value of shape "
                f"{list(node.shape)}"
            )
        if tangent is not None and tangent.dtype is not node.dtype:
            raise DTypeError(f"jvp: a {tangent.dtype.name} tangent for a {node.dtype.name} value")
        known[node] = tangent
    for node in connected(outputs, wrt):
        if node not in known:
            incoming = [known.get(item) for item in node.inputs]
            known[node] = _push(node, incoming)
    return [known.get(node) for node in outputs]


def _push(node: Node, tangents: Sequence[Node | None]) -> Node | None:
    if all(tangent is None for tangent in tangents):
        return None
    rule = node.op.jvp
    if isinstance(rule, NoGradient):
        where = source_text(node.source)
        raise GradientError(f"{node.op.name} has no gradient: {rule.reason} (made at {where})")
    return rule(node, tangents)


transforms.jvp = jvp
