"""What ``save_for_backward`` keeps, and the hooks that may keep something else in its place."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from lazyt.dispatch import wrap
from lazyt.errors import GradientError
from lazyt.grad_mode import enable_grad
from lazyt.ir.graph import Node
from lazyt.tape import checks
from lazyt.tensor import Tensor

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
        from lazyt.autograd.packing import pack_operands

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
