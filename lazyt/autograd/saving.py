"""What the library's own functions save for their gradients, seen through users' hooks.

Nothing needs to be saved: a gradient refers to the graph. While ``saved_tensors_hooks`` are active,
every function whose gradient reads its operands has them packed all the same, and backward goes
through such a function by itself: it derives it, and puts what is unpacked in the operands' place.
A gradient that PyTorch computes from a result is computed from the operands here.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from lazyt.autograd.node_hooks import Derivative
from lazyt.errors import GradientError
from lazyt.handle.dispatch import wrap
from lazyt.handle.grad_mode import enable_grad, no_grad
from lazyt.handle.hooks import capturing
from lazyt.handle.storage import Storage, raw
from lazyt.handle.tape import Bridge, GradFn, boundary, checks, watched
from lazyt.handle.tensor import Tensor
from lazyt.ir.graph import Node, source_text, topological
from lazyt.ir.source_lines import user_position
from lazyt.ops.leaves import VARIABLE


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


# What ``save_for_backward`` keeps, and the hooks that may keep something else in its place.


Hooks = tuple[Callable[[Tensor], Any], Callable[[Any], Tensor]]


class _Active(threading.local):
    """The hooks of one thread, innermost last, and why there may be none."""

    def __init__(self) -> None:
        self.hooks: list[Hooks | None] = []
        self.forbidden: str | None = None


active = _Active()


class Packed:
    """A saved tensor, or what the hooks made of it."""

    __slots__ = ("kept", "result", "unpacker")

    def __init__(self, kept: Any, unpacker: Callable[[Any], Tensor] | None, result: Any) -> None:
        self.kept = kept
        self.unpacker = unpacker
        self.result: weakref.ref[Node] | None = result

    def unpack(self) -> Tensor:
        """The tensor as it was saved. Raises TypeError where the hook gives something else."""
        node = None if self.result is None else self.result()
        if node is not None and self.unpacker is None:
            with enable_grad():
                return wrap(node, name="Alias")
        if self.unpacker is None:
            kept: Tensor = self.kept
            return kept
        found = self.unpacker(self.kept)
        if not isinstance(found, Tensor):
            raise TypeError(
                "Output of saved tensor unpack_hook expected to be a Tensor but got result of type "
                f"{type(found).__name__}"
            )
        return found


def pack(tensor: Tensor, result: weakref.ref[Node] | None) -> Packed:
    """``tensor`` as it is saved; ``result`` is its node where it is a function's own output."""
    hooks = active.hooks[-1] if active.hooks else None
    if hooks is None:
        return Packed(tensor, None, result)
    packer, unpacker = hooks
    return Packed(packer(tensor), unpacker, result)


class saved_tensors_hooks:
    """A ``with`` block in which what gradients need goes through two hooks.

    Args:
        pack_hook: takes a tensor and gives what to keep.
        unpack_hook: takes that and gives a tensor of the same shape and dtype back.

    What custom functions save is packed, and the operands that gradients of the library's own
    functions read; where PyTorch would pack a result (``exp``, ``softmax``), its operands are. The
    graph keeps its values nevertheless: hooks see and change what a gradient is computed from, but
    save no memory; ``lazyt.config.memory_budget`` does. A function with hooks inside is not
    captured by ``lazyt.jit``. Raises GradientError where hooks are disabled.
    """

    def __init__(
        self, pack_hook: Callable[[Tensor], Any], unpack_hook: Callable[[Any], Tensor]
    ) -> None:
        self.pack_hook = pack_hook
        self.unpack_hook = unpack_hook

    def __enter__(self) -> None:
        if active.forbidden is not None:
            raise GradientError(active.forbidden)

        active.hooks.append(self._hooks())
        checks.packer = pack_operands  # it asks which hooks its own thread has

    def _hooks(self) -> Hooks | None:
        return self.pack_hook, self.unpack_hook

    def __exit__(self, *_: object) -> None:
        active.hooks.pop()


class save_on_cpu(saved_tensors_hooks):
    """Saved tensors are kept in the CPU's memory, where they are already: no hooks inside."""

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        super().__init__(lambda tensor: tensor, lambda tensor: tensor)

    def _hooks(self) -> None:
        return None


@contextmanager
def disable_saved_tensors_hooks(error_message: str) -> Iterator[None]:
    """A ``with`` block in which ``saved_tensors_hooks`` raises ``error_message``."""
    before = active.forbidden
    if active.hooks:
        raise GradientError(error_message)
    active.forbidden = error_message
    try:
        yield
    finally:
        active.forbidden = before
