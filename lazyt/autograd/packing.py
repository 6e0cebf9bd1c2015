"""What the library's own functions save for their gradients, seen through users' hooks.

Nothing needs to be saved: a gradient refers to the graph. While ``saved_tensors_hooks`` are active,
every function whose gradient reads its operands has them packed all the same, and backward goes
through such a function by itself: it derives it, and puts what is unpacked in the operands' place.
A gradient that PyTorch computes from a result is computed from the operands here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lazyt.autograd.node_hooks import Derivative
from lazyt.autograd.saving import Packed, active, pack
from lazyt.dispatch import wrap
from lazyt.errors import GradientError
from lazyt.grad_mode import no_grad
from lazyt.ir.graph import Node, source_text, topological
from lazyt.ir.positions import user_position
from lazyt.ops.leaves import VARIABLE
from lazyt.storage import Storage, raw
from lazyt.tape import Bridge, GradFn, boundary, watched
from lazyt.tensor import Tensor
from lazyt.watching import capturing


class PackedCall:
    """One call whose operands were packed.

    Attributes:
        operands: their nodes.
        inputs: the same, with None where no gradient goes or where it went already.
        reads: the operands' nodes that the derivative reads, with what the hooks made of them.
    """

    __slots__ = ("inputs", "operands", "reads")

    def __init__(self, operands: list[Node]) -> None:
        self.operands = operands
        self.inputs = [
            n if n.needs_grad and n not in operands[:i] else None for i, n in enumerate(operands)
        ]
        self.reads: list[tuple[Node, Packed]] = []

    def pull(self, node: Node, cotangent: Node, create_graph: bool) -> list[Node | None]:
        """The gradients of ``inputs`` with what is unpacked; ``node`` is the call's result.

        Raises GradientError where a hook gives a tensor of another shape or dtype.
        """
        values: dict[Node, Node] = {}
        for item, packed in self.reads:
            value = raw(packed.unpack().node)
            if value.shape != item.shape or value.dtype is not item.dtype:
                raise GradientError(
                    f"an unpack_hook gave a {value.dtype.name} tensor of shape {list(value.shape)} "
                    f"for a saved {item.dtype.name} tensor of shape {list(item.shape)}"
                )
            linked = create_graph and item.needs_grad
            values[item] = boundary(value, Bridge(item)) if linked else value
        return Derivative(node, self.inputs, self.operands).at(cotangent, values)


def pack_operands(fn: GradFn, parents: Sequence[Any], result: Storage) -> None:
    """Let this thread's hooks, if any, pack the operands that the gradient of ``fn`` reads."""
    if not active.hooks or active.hooks[-1] is None:
        return
    node = result.node
    operands = [parent.node for parent in parents if isinstance(parent, Tensor)]
    if not _cuts(node, set(operands)):
        return
    watcher = capturing()
    if watcher is not None:  # a replay would call no hooks
        where = source_text(user_position())
        watcher.looked("hooks pack what is saved for gradients", where, [])
    call = PackedCall(operands)
    derivative = Derivative(node, call.inputs, operands)
    ends = {derivative.cotangent, *derivative.places.values(), *operands}
    parts = [part for part in derivative.parts if part is not None]
    read = ends.intersection(topological(parts, ends.__contains__))
    with no_grad():
        for item in dict.fromkeys(operands):
            if derivative.places.get(item, item) in read:
                call.reads.append((item, pack(wrap(raw(item)), None)))
    if call.reads:
        fn.saved = ()  # as in PyTorch, hooks answer for what they keep
        fn.extra.packed = call
        watched.add(fn)


def _cuts(node: Node, operands: set[Node]) -> bool:
    """Whether every differentiable path from ``node`` runs through one of its operands."""
    waiting, seen = [node], {*operands}
    if node in operands:
        return False
    while waiting:
        item = waiting.pop()
        if item in seen or not item.needs_grad:
            continue
        if item.op is VARIABLE:
            return False
        seen.add(item)
        waiting.extend(item.inputs)
    return True
