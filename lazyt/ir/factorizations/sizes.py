"""Which factorizations of matrices are kernels, and how much memory each needs.

Of matrices of up to 32 rows and columns a kernel takes as many as a vector has lanes, one in each
lane (``lanes``), of larger ones one at a time, with vectors along its rows. So no sum depends on
how many there are or on their neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from lazyt.ir.dtypes import DType

__all__ = [
    "ALONE",
    "GRID_LANES",
    "LARGEST",
    "LARGEST_WHOLE",
    "MODES",
    "OPERANDS",
    "WHOLE",
    "Sizes",
    "flops",
    "grid_slots",
    "grid_work_size",
    "in_registers",
    "is_grid_kernel",
    "is_kernel",
    "is_whole",
    "lanes",
    "scratch_size",
    "sizes_of",
    "work_size",
]  # fmt: skip

#: Rows and columns that matrices in lanes have at most, and those that are taken one at a time.
LARGEST, LARGEST_WHOLE = 32, 1024
#: Routines that take matrices one at a time.
WHOLE = frozenset(
    {
        "cholesky", "triangular", "lu", "solve", "inv", "det", "slogdet", "qr", "gelsy", "eigh",
        "svd", "pinv",
    }
)  # fmt: skip
#: Those that take small ones so, too.
ALONE = frozenset({"gelsy", "pinv"})
#: Rows and columns of some that a library finds faster beyond.
LIMITS = {"eigh": 512, "svd": 512, "pinv": 512}
#: Bytes of a vector across matrices, and along rows of one of them.
VECTOR_BYTES, ROW_BYTES = 32, 64
#: Columns that are factorized together.
PANEL = 16
#: Sweeps of rotations that wait.
WAITING = 16
#: How many parts of the batch run at a time, at most; each has scratch.
SLOTS = 16
#: On a GPU: bytes of all numbers of a matrix that a thread holds, and of the scratch of all threads
#: where they are more; numbers of so many threads are next to each other there.
MOST_HELD, MOST_GRID_SCRATCH, GRID_LANES = 1 << 10, 1 << 28, 32

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
    "gelsy": {"plain": 0},
    "eigh": {"lower": 0, "upper": 1, "lowervalues": 2, "uppervalues": 3},
    "svd": {"reduced": 0, "full": 1, "values": 2},
    "pinv": {"plain": 0, "hermitian": 1},
}


#: How many operands each has.
OPERANDS = {name: 2 if name in ("solve", "triangular", "gelsy", "pinv") else 1 for name in MODES}


class Sizes(NamedTuple):
    """Numbers in each matrix: ``first`` and ``second`` operand (0 for none), all results, and what
    there is beside them while they are computed. ``alone``: whether it is taken by itself."""

    first: int
    second: int
    results: int
    scratch: int
    alone: bool = False

    @property
    def together(self) -> int:
        """All numbers of one."""
        return self.first + self.second + self.results + self.scratch


def lanes(dtype: DType) -> int:
    """How many matrices a kernel takes at a time."""
    return VECTOR_BYTES // dtype.itemsize


def is_kernel(routine: str, mode: str, shapes: Sequence[Sequence[int]]) -> bool:
    """Whether a routine on matrices of these shapes is a kernel."""
    if mode not in MODES.get(routine, ()):
        return False
    most = LIMITS.get(routine, LARGEST_WHOLE if routine in WHOLE else LARGEST)
    return all(1 <= extent <= most for shape in shapes for extent in shape[-2:])


def is_grid_kernel(routine: str, mode: str, shapes: Sequence[Sequence[int]]) -> bool:
    """Whether a GPU has a kernel for it: of matrices that are taken many at a time."""
    largest = max(extent for shape in shapes for extent in shape[-2:])
    return routine not in ALONE and largest <= LARGEST and is_kernel(routine, mode, shapes)


def is_whole(routine: str, m: int, n: int, sides: int) -> bool:
    """Whether a kernel takes ``m`` by ``n`` matrices, and right sides, one at a time."""
    return routine in ALONE or (routine in WHOLE and max(m, n, sides) > LARGEST)


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


def _whole_size(routine: str, results: int, m: int, n: int, sides: int, dtype: DType) -> int:
    """Numbers of scratch of one matrix that is taken alone."""
    lanes = ROW_BYTES // dtype.itemsize

    def filled(count: int, most: int = lanes) -> int:
        return -(-count // most) * most

    if routine == "qr":
        # The matrix, vectors and Q in panels, factors, and a column with a vector behind it.
        least, columns = min(m, n), results // (m + n)
        return m * sum(filled(c, PANEL) for c in (n, least, columns)) + least + m + lanes
    if routine == "eigh":
        # The matrix, reflections, Q and vectors, the diagonals and factors, and what waits.
        most = max(4 * filled(n) + n + lanes, 2 * WAITING * n)
        return n * (filled(n) + 2 * filled(n, PANEL) + filled(n, 2 * lanes) + 3) + most
    if routine == "svd":
        rows, columns = max(m, n), min(m, n)
        given = results - columns - 1
        every = (given - columns * columns) // rows if given else columns
        panels = filled(columns, PANEL)
        most = max(2 * panels + rows + columns + 2 * lanes, 4 * WAITING * columns)
        vectors = every * filled(rows, 2 * lanes) + columns * filled(columns, 2 * lanes)
        matrices = (2 * rows + columns) * panels + rows * filled(every, PANEL) + vectors
        return matrices + 4 * columns + 1 + most
    if routine == "pinv":
        # What the values are found with, both sides of the product, and itself.
        given = min(m, n) * (m + n + 1) + 1
        most = _whole_size("svd", given, m, n, 0, dtype)
        if m == n:
            most = max(most, _whole_size("eigh", given, m, n, 0, dtype))
        return given + min(m, n) * (n + filled(m)) + n * filled(m) + most
    if routine == "gelsy":
        # The matrix, right sides, sums of squares and a column; the same for the transposed of R.
        least, right = min(m, n), filled(sides - 1)
        first = m * filled(n) + max(m, n) * right + filled(n) + m + lanes
        return first + (2 * n + least) * filled(least, PANEL) + least + n + lanes
    if routine == "triangular":
        return n * filled(sides)
    right = {"solve": filled(sides), "inv": filled(n)}.get(routine, 0)
    pitch = filled(n + lanes if m < n else n)
    return m * pitch + n * right + PANEL * (filled(m) + PANEL)


def sizes_of(routine: str, shapes: Sequence[Sequence[int]], results: int, dtype: DType) -> Sizes:
    """The sizes of a routine whose results have as many numbers as ``results`` a matrix."""
    (m, n), *rest = [shape[-2:] for shape in shapes]
    second, sides = (rest[0][0] * rest[0][1], rest[0][1]) if rest else (0, 0)
    alone = is_whole(routine, m, n, sides)
    scratch = (
        _whole_size(routine, results, m, n, sides, dtype) if alone else scratch_size(routine, m, n)
    )
    return Sizes(m * n, second, results, scratch, alone)


def work_size(sizes: Sizes, batch: int, dtype: DType) -> int:
    """Numbers of scratch of a kernel for ``batch`` matrices."""
    if sizes.alone:
        return min(batch, SLOTS) * sizes.scratch
    blocks = -(-batch // lanes(dtype))
    return min(blocks, SLOTS) * sizes.together * lanes(dtype)


def in_registers(sizes: Sizes, dtype: DType) -> bool:
    """Whether a thread of a GPU holds all numbers of a matrix."""
    return sizes.together * dtype.itemsize <= MOST_HELD


def grid_slots(sizes: Sizes, batch: int, dtype: DType) -> int:
    """Groups of ``GRID_LANES`` threads that have scratch at a time."""
    each = sizes.together * GRID_LANES * dtype.itemsize
    return max(1, min(-(-batch // GRID_LANES), MOST_GRID_SCRATCH // each))


def grid_work_size(sizes: Sizes, batch: int, dtype: DType) -> int:
    """Numbers of scratch of a launch for ``batch`` matrices; routines have some always."""
    if in_registers(sizes, dtype):
        return 1
    return grid_slots(sizes, batch, dtype) * sizes.together * GRID_LANES


def flops(routine: str, mode: str, m: int, n: int, sides: int) -> int:
    """About how many products and sums one matrix takes."""
    least, values = min(m, n), mode.endswith("values")
    each = {
        "cholesky": n**3 // 3, "triangular": n * n * sides, "lu": m * n * least,
        "solve": n**3 + 2 * n * n * sides, "inv": 3 * n**3, "det": n**3, "slogdet": n**3,
        "qr": 4 * m * n * least, "gelsy": 2 * m * n * (least + sides),
        "eigh": (20 if values else 60) * n**3,
        "svd": (60 if values else 120) * m * n * least, "pinv": 120 * m * n * least,
    }  # fmt: skip
    return each[routine] + 20 * n
