"""Reverse-mode derivatives as a graph transform."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence

from lazyt import ops
from lazyt.errors import DTypeError, GradientError, ShapeError
from lazyt.ir.graph import Node, NoGradient, source_text, topological
from lazyt.transforms.cotangents import total
from lazyt.transforms.derivations import Walk, known


def connected(outputs: Sequence[Node], wrt: Sequence[Node]) -> list[Node]:
    """The nodes on differentiable paths from ``wrt`` to ``outputs``, inputs before users.

    A path runs through floating point values and ends at a ``detach``.
    """
    targets = set(wrt)
    reached: set[Node] = set()
    path: list[Node] = []
    # Whatever hangs on a value that needs a gradient needs one: then the rest need not be visited.
    marked = all(node.needs_grad for node in wrt)

    def ends(node: Node) -> bool:
        return node.dtype.kind != "f" or node.op is ops.DETACH or (marked and not node.needs_grad)

    for node in topological(outputs, ends):
        if node in targets or (not ends(node) and any(item in reached for item in node.inputs)):
            reached.add(node)
            path.append(node)
    return path


def vjp(
    outputs: Sequence[Node],
    cotangents: Sequence[Node | None],
    wrt: Sequence[Node],
    watch: Callable[[Node, Node, int, Node], None] | None = None,
) -> list[Node | None]:
    """What the cotangents of ``outputs`` mean for each node of ``wrt``, as new graph nodes.

    Args:
        outputs: the differentiated values.
        cotangents: one per output, of its shape and type; None for zero.
        wrt: any nodes, leaves or not; several may lie on one path.
        watch: told of every contribution: node, its cotangent, number of the input, contribution.

    The result has the node's shape and type; it is None where no differentiable path leads from the
    node to an output. Iterative; only nodes on such paths are visited, and contributions are summed
    from the last user to the first (``cotangents.py``). The result is an ordinary graph:
    differentiate it again for higher derivatives. Raises GradientError, in the op's words, for one
    without a gradient, and ShapeError or DTypeError for a cotangent that does not fit.
    """
    given: list[Node] = []
    for output, cotangent in zip(outputs, cotangents, strict=True):
        if cotangent is not None:
            _check(output, cotangent)
            given += (output, cotangent)
    if not all(node.needs_grad for node in wrt):
        return _derive(outputs, given, wrt, watch)
    walk = Walk(outputs, wrt, given)
    if watch is not None:
        return _derive(outputs, given, wrt, watch, frozenset(walk.outside))
    found = known.find(walk.key)
    if found is not None:
        return found.apply(walk.numbers)

    def derive(new: dict[Node, Node]) -> list[Node | None]:
        def copied(nodes: Sequence[Node]) -> list[Node]:
            return [new[node] for node in nodes]

        return _derive(copied(outputs), copied(given), copied(wrt), None)

    made = known.offer(walk, derive)
    if made is not None:
        return made.apply(walk.numbers)
    return _derive(outputs, given, wrt, None, frozenset(walk.outside))


def _derive(
    outputs: Sequence[Node],
    given: Sequence[Node],
    wrt: Sequence[Node],
    watch: Callable[[Node, Node, int, Node], None] | None,
    opaque: Container[Node] = (),
) -> list[Node | None]:
    """``vjp`` by the rules of the ops; ``given`` are outputs and their cotangents in turn, and
    ``opaque`` nodes are as for ``total``."""
    received: dict[Node, list[Node]] = {}
    sums: dict[Node, Node] = {}
    for output, cotangent in zip(given[::2], given[1::2]):
        received.setdefault(output, []).append(cotangent)
    path = connected(outputs, wrt)
    active = set(path)
    targets = set(wrt)
    for node in reversed(path):
        parts = received.pop(node, None)
        if parts is None:
            continue
        summed = total(parts, opaque)
        if node in targets:
            sums[node] = summed
        if any(item in active for item in node.inputs):
            pulled = _pull(node, summed)
            for index, (item, part) in enumerate(zip(node.inputs, pulled, strict=True)):
                if part is not None and item in active:
                    if watch is not None:
                        watch(node, summed, index, part)
                    received.setdefault(item, []).append(part)
    return [_result(node, sums, active) for node in wrt]


def _result(node: Node, sums: dict[Node, Node], active: set[Node]) -> Node | None:
    """The summed cotangent; zeros where the path is there but every derivative on it is zero."""
    if node not in active or node.dtype.kind != "f":
        return None
    return sums[node] if node in sums else ops.zeros_like(node)


def _pull(node: Node, cotangent: Node) -> Sequence[Node | None]:
    rule = node.op.vjp
    if isinstance(rule, NoGradient):
        where = source_text(node.source)
        raise GradientError(f"{node.op.name} has no gradient: {rule.reason} (made at {where})")
    return rule(node, cotangent)


def _check(output: Node, cotangent: Node) -> None:
    if cotangent.shape != output.shape:
        raise ShapeError(
            f"vjp: a cotangent of shape {list(cotangent.shape)} for an output of shape "
            f"{list(output.shape)}"
        )
    if cotangent.dtype is not output.dtype:
        raise DTypeError(
            f"vjp: a {cotangent.dtype.name} cotangent for a {output.dtype.name} output"
        )
