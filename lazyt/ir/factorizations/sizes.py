"""Which factorizations of small matrices are kernels, and how much memory each needs.

A kernel takes as many matrices as a vector has lanes, one in each lane (``lanes``), so no sum
depends on how many there are or on their neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from lazyt.ir.dtypes import DType

__all__ = [
    "LARGEST", "MODES", "OPERANDS", "Sizes", "flops", "is_small", "lanes", "scratch_size",
    "sizes_of", "work_size",
]  # fmt: skip

#: Rows and columns that matrices have at most.
LARGEST = 32
#: Bytes of a vector.
VECTOR_BYTES = 32
#: How many parts of the batch run at a time, at most; each has scratch.
SLOTS = 16

#: Of each mode of a routine, the number by which kernels know it.
MODES: dict[str, dict[str, int]] = {
    "cholesky": {"plain": 0},
    "triangular": {"lower": 0, "lowerunit": 1, "upper": 2, "upperunit": 3},
    "lu": {"plain": 0},
    "solve": {"plain": 0},
    "inv": {"plain": 0},
    "det": {"plain": 0},
    "slogdet": {"plain": 0},
    "qr": {"reduced": 0, "complete": 1},
    "eigh": {"lower": 0, "upper": 1, "lowervalues": 2, "uppervalues": 3},
    "svd": {"reduced": 0, "full": 1, "values": 2},
}


#: How many operands each has.
OPERANDS = {name: 2 if name in ("solve", "triangular") else 1 for name in MODES}


class Sizes(NamedTuple):
    """Numbers in each matrix: ``first`` and ``second`` operand (0 for none), all results, and what
    lies behind them while they are computed."""

    first: int
    second: int
    results: int
    scratch: int

    @property
    def whole(self) -> int:
        """All of them."""
        return sum(self)


def lanes(dtype: DType) -> int:
    """How many matrices a kernel takes at a time."""
    return VECTOR_BYTES // dtype.itemsize


def is_small(routine: str, mode: str, shapes: Sequence[Sequence[int]]) -> bool:
    """Whether a routine on matrices of these shapes is a kernel."""
    if mode not in MODES.get(routine, ()):
        return False
    return all(1 <= extent <= LARGEST for shape in shapes for extent in shape[-2:])


def scratch_size(routine: str, m: int, n: int) -> int:
    """Numbers of scratch of one ``m`` by ``n`` matrix."""
    if routine == "qr":
        return min(m, n)
    if routine == "eigh":
        return n * n + 2 * n
    if routine == "svd":
        rows, columns = max(m, n), min(m, n)
        return rows * columns + rows * rows + 2 * columns * columns + 4 * columns
    return 0


def sizes_of(routine: str, shapes: Sequence[Sequence[int]], results: int) -> Sizes:
    """The sizes of a routine whose results have as many numbers as ``results`` a matrix."""
    (m, n), *rest = [shape[-2:] for shape in shapes]
    second = rest[0][0] * rest[0][1] if rest else 0
    return Sizes(m * n, second, results, scratch_size(routine, m, n))


def work_size(sizes: Sizes, batch: int, dtype: DType) -> int:
    """Numbers of scratch of a kernel for ``batch`` matrices."""
    blocks = -(-batch // lanes(dtype))
    return min(blocks, SLOTS) * sizes.whole * lanes(dtype)


def flops(routine: str, mode: str, m: int, n: int, sides: int) -> int:
    """About how many products and sums one matrix takes."""
    least, values = min(m, n), mode.endswith("values")
    each = {
        "cholesky": n**3 // 3, "triangular": n * n * sides, "lu": m * n * least,
        "solve": n**3 + 2 * n * n * sides, "inv": 3 * n**3, "det": n**3, "slogdet": n**3,
        "qr": 4 * m * n * least, "eigh": (20 if values else 60) * n**3,
        "svd": (60 if values else 120) * m * n * least,
    }  # fmt: skip
    return each[routine] + 20 * n
