"""CUDA graphs. ``lazyt.jit`` records whole steps by itself: these are for programs that have them.

Nothing that this class promises (fixed memory, work that is recorded without being run) fits lazy
tensors, so it says no and names what does.
"""

from __future__ import annotations

from typing import Any, NoReturn

from lazyt.errors import DeviceError

__all__ = ["CUDAGraph", "graph"]

_INSTEAD = (
    "torch.cuda.CUDAGraph records work on fixed memory, which lazy tensors do not have. Decorate "
    "the step with lazyt.jit: its plan is launched as one CUDA graph, and inputs may be any tensors"
)


class CUDAGraph:
    """Raises DeviceError, which names ``lazyt.jit``."""

    def __init__(self, keep_graph: bool = False) -> None:
        raise DeviceError(_INSTEAD)


def graph(*_: Any, **__: Any) -> NoReturn:
    """Raises DeviceError, which names ``lazyt.jit``."""
    raise DeviceError(_INSTEAD)
