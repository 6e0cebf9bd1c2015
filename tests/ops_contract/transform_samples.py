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
    """Transforms of ``count`` points; 16-bit floats are cast."""

    def build(x: Node) -> Node:
        x = ops.cast(x, float32) if x.dtype.is_half else x
        constants = table(kind, count, 0.5, x.dtype)
        return fourier(kind, sign, count, x, leaf(constants, x.dtype), pairs)

    return build


_pairs = blank((6, 2))


def transforms() -> None:
    """Register the samples."""
    sample("fourier", "points", _fourier("complex", -1, 6), (2, 6, 2))
    sample("fourier", "back", _fourier("complex", 1, 9), (1, 2, 9, 2))
    sample("fourier", "half", _fourier("half", -1, 8), (2, 8))
    sample("fourier", "half-back", _fourier("half", 1, 12), (12,))
    sample("fourier", "real", _fourier("real", 1, 8), (2, 5, 2))
    sample("fourier", "real-back", _fourier("real", -1, 12), (7, 2))
    sample("fourier", "prime", _fourier("complex", -1, 5), (2, 5, 2))
    sample("fourier", "half-odd", _fourier("half", -1, 9), (9,))
    sample("fourier", "half-prime", _fourier("half", 1, 7), (2, 7))
    sample("fourier", "half-twice-prime", _fourier("half", 1, 10), (10,))
    sample("fourier", "real-odd", _fourier("real", -1, 9), (5, 2))
    sample("fourier", "real-prime", _fourier("real", 1, 7), (4, 2))
    sample("fourier", "real-twice-prime", _fourier("real", 1, 14), (8, 2))
    sample("fourier", "empty", _fourier("complex", -1, 6), (0, 6, 2))
    refuse("fourier", "table", lambda: fourier("complex", -1, 6, _pairs, blank((3,)), True))
    refuse("fourier", "rows", lambda: fourier("complex", -1, 8, _pairs, blank((3,)), True))
    refuse("fourier", "few", lambda: fourier("half", -1, 2, blank((2,)), blank((3,))))
    refuse("fourier", "real", lambda: fourier("complex", -1, 6, blank((6,)), blank((3,))))
    refuse(
        "fourier", "type", lambda: fourier("half", -1, 8, blank((8,), int32), blank((3,), int32))
    )
