"""What a target is: it turns kernels into text, and runs what it printed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from lazyt.ir.kernel import Kernel
from lazyt.ir.program import KernelSource, Launch, Program


class Target(Protocol):
    """A target from outside of the package; ``compiler.register_target`` takes one.

    Everything before it (passes, fusion, lowering, memory, the order of launches) is done already.
    The text is kept on disk, so ``load`` must find all that it needs in the program.
    """

    def print_kernel(self, kernel: Kernel) -> str:
        """The kernel as text, in which it is called ``kernel.name``: a name before a parenthesis,
        which is replaced by one that is made of the text.

        Its arguments are ``kernel.arguments``, in this order. Raises NotImplementedError, with the
        name of what is missing, for what the target has no text for.
        """

    def load(self, program: Program) -> Mapping[str, Callable[..., None]]:
        """What runs the ``program.kernels``: a function for each, by its name.

        It is called with the memory of the kernel's arguments, a ``memoryview`` of bytes for each,
        in their order. The memory is another's when the call is over.
        """


class Launching(NamedTuple):
    """How a target wants its launches.

    Attributes:
        target: its name.
        joins: whether groups that do not depend on each other, and are alike, are one launch.
        wide: whether a launch has thousands of threads.
        entry: prints the function that makes all launches, given the kernels, the launches and how
            many of these listen for interrupts; None for a target without one.
    """

    target: str
    joins: bool = False
    wide: bool = False
    entry: Callable[[Sequence[KernelSource], Sequence[Launch], int], str] | None = None


#: One after the other, each of its own text.
PLAIN = Launching("")
