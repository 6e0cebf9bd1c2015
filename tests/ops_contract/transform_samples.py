"""Samples of ``fourier``."""

from __future__ import annotations

from collections.abc import Callable

from lazyt import ops
from lazyt.ir.dtypes import float32, int32
from lazyt.ir.fourier.tables import table
from lazyt.ir.graph import Node
from lazyt.ops.fourier.transform import fourier
from tests.ops_contract.numeric import leaf
from tests.ops_contract.op_samples import blank, refuse, sample


def _fourier(kind: str, sign: int, count: int, pairs: bool = True) -> Callable[[Node], Node]:
    """Transforms of ``count`` complex points; 16-bit floats are cast."""

    def build(x: Node) -> Node:
        x = ops.cast(x, float32) if x.dtype.is_half else x
        constants = table(kind, count, 0.5, x.dtype)
        return fourier(kind, sign, x, leaf(constants, x.dtype), pairs)

    return build


def transforms() -> None:
    """Register the samples."""
    sample("fourier", "points", _fourier("complex", -1, 6), (2, 6, 2))
    sample("fourier", "back", _fourier("complex", 1, 9), (1, 2, 9, 2))
    sample("fourier", "half", _fourier("half", -1, 4), (2, 8))
    sample("fourier", "half-back", _fourier("half", 1, 6), (12,))
    sample("fourier", "real", _fourier("real", 1, 4), (2, 5, 2))
    sample("fourier", "real-back", _fourier("real", -1, 6), (7, 2))
    sample("fourier", "empty", _fourier("complex", -1, 6), (0, 6, 2))
    refuse("fourier", "table", lambda: fourier("complex", -1, blank((6, 2)), blank((3,)), True))
    refuse("fourier", "prime", lambda: fourier("complex", -1, blank((67, 2)), blank((3,)), True))
    refuse("fourier", "real", lambda: fourier("complex", -1, blank((6,)), blank((3,))))
    refuse("fourier", "type", lambda: fourier("half", -1, blank((8,), int32), blank((3,), int32)))
