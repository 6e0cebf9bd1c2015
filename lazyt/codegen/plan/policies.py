"""Decisions that programs may take over from the package's heuristics: what is fused, and the form
of kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from lazyt.codegen.plan.candidates import Field
    from lazyt.codegen.plan.choices import Tuned
    from lazyt.ir.graph import Node
    from lazyt.ir.group import Group
    from lazyt.ir.kernel import Kernel


class FusionPolicy(Protocol):
    """What decides, of all fusions that are legal, which are made."""

    def may_join(self, node: Node, group: Group) -> bool:
        """Whether ``node`` may become part of the kernel of ``group``, which computes what it
        reads, or reads the same."""


class Tuner(Protocol):
    """What decides the form of each kernel for the CPU: tiles, unrolling, which axis is vectorised.
    No choice changes a bit of a result."""

    def form(self, kernel: Kernel, forms: Field) -> Tuned | None:
        """The form of a kernel, None for that of the heuristics, which is ``forms.standard()``.
        ``forms.neighbours(form)`` lists those that differ from one in one thing each."""
