"""The constants of discrete Fourier transforms: turns of the unit circle, as leaves of graphs.

All angles are whole numbers of n-th parts of a turn, which are reduced to an eighth of a turn in
whole numbers before a sine or cosine is taken: every entry is correct to the last bit or the one
before, however large the transform.
"""

from __future__ import annotations

import atexit
from collections import OrderedDict
from collections.abc import Callable
from functools import lru_cache
from threading import Lock
from typing import Any

import numpy as np

from lazyt.functional.creation.nesting import stored
from lazyt.handle.device import transferred
from lazyt.ir.dtypes import DType
from lazyt.ir.fourier import tables as rows
from lazyt.ir.fourier.tables import circle
from lazyt.ir.graph import Node

Array = np.ndarray[Any, Any]

#: Tables that are not used are given up from here on, the oldest first.
_MAX_BYTES = 256 << 20


class _Leaves:
    """Leaves by what they hold, the last used ones last."""

    def __init__(self) -> None:
        self.nodes: OrderedDict[Any, Node] = OrderedDict()
        self.bytes = 0
        self.lock = Lock()

    def get(self, key: Any, make: Callable[[], Node]) -> Node:
        with self.lock:
            found = self.nodes.get(key)
            if found is not None:
                self.nodes.move_to_end(key)
                return found
        made = make()
        if made.data is None:  # a capture has to see where it comes from
            return made
        with self.lock:
            self.nodes[key] = made
            self.bytes += made.size * made.dtype.itemsize
            while self.bytes > _MAX_BYTES and len(self.nodes) > 1:
                _, old = self.nodes.popitem(last=False)
                self.bytes -= old.size * old.dtype.itemsize
        return made


_leaves = _Leaves()
# Memory of a device is given back before the driver is gone.
atexit.register(_leaves.nodes.clear)


def _leaf(name: str, arguments: tuple[Any, ...], dtype: DType, place: str) -> Node:
    """The table of that name and arguments in a dtype, at a place."""

    def make() -> Node:
        if place:
            return transferred(_leaf(name, arguments, dtype, ""), place)
        values = _TABLES[name](*arguments)
        return stored(values, tuple(values.shape), dtype)

    return _leaves.get((name, arguments, dtype, place), make)


def matrix(
    parts: int, size: int, outputs: int, results: int, sign: int, scale: float, dtype: DType,
    place: str,
) -> Node:  # fmt: skip
    """``scale`` times the matrix of a transform, [parts, size, results, outputs]: what the real and
    imaginary part (or the real one alone) of each point add to those of each of the first
    ``outputs`` frequencies; ``sign`` is that of the exponent."""
    return _leaf("matrix", (parts, size, outputs, results, sign, scale), dtype, place)


def _matrix(
    parts: int, size: int, outputs: int, results: int, sign: int, scale: float
) -> Array:  # fmt: skip
    cos, sin = circle(np.outer(np.arange(size), np.arange(outputs)), size)
    cos, sin = cos * scale, sin * (sign * scale)
    rows = [np.stack([cos, sin], 1), np.stack([-sin, cos], 1)]
    return np.stack(rows[:parts])[:, :, :results]


def half_matrix(size: int, sign: int, scale: float, dtype: DType, place: str) -> Node:
    """``scale`` times the matrix from the first half of a spectrum, whose second one mirrors it, to
    its real signal, [2, size // 2 + 1, size]."""
    return _leaf("half_matrix", (size, sign, scale), dtype, place)


def _half_matrix(size: int, sign: int, scale: float) -> Array:
    half = size // 2 + 1
    cos, sin = circle(np.outer(np.arange(half), np.arange(size)), size)
    twice = np.full((half, 1), 2.0 * scale)
    twice[0] = scale
    if size % 2 == 0:
        twice[-1] = scale
    return np.stack([cos * twice, sin * (-sign * twice)])


def twiddles(
    rows: int, columns: int, n: int, sign: int, dtype: DType, place: str, repeats: int = 1
) -> Node:  # fmt: skip
    """``exp(sign 2 pi i row column / n)``, each ``repeats`` times, [2, rows, columns * repeats]."""
    return _leaf("twiddles", (rows, columns, n, sign, repeats), dtype, place)


def _twiddles(rows: int, columns: int, n: int, sign: int, repeats: int) -> Array:
    cos, sin = circle(np.outer(np.arange(rows), np.arange(columns)), n)
    return np.repeat(np.stack([cos, sin * sign]), repeats, axis=2)


def chirp(n: int, sign: int, scale: float, dtype: DType, place: str) -> Node:
    """``scale`` times ``exp(sign pi i k k / n)`` of k below n, [2, n]."""
    return _leaf("chirp", (n, sign, scale), dtype, place)


def chirp_spectrum(n: int, length: int, sign: int, dtype: DType, place: str) -> Node:
    """The transform over ``length`` points of the conjugate chirp that ``bluestein`` convolves
    with, divided by ``length``, [2, length]."""
    return _leaf("chirp_spectrum", (n, length, sign), dtype, place)


def constants(kind: str, n: int, scale: float, dtype: DType, place: str) -> Node:
    """The table of the ``fourier`` op."""
    return _leaf("constants", (kind, n, scale, dtype), dtype, place)


_TABLES: dict[str, Callable[..., Array]] = {
    "matrix": _matrix, "half_matrix": _half_matrix, "twiddles": _twiddles, "chirp": rows.chirp,
    "chirp_spectrum": rows.chirp_spectrum, "constants": rows.table,
}  # fmt: skip


# --------------------------------------------------------------------------- factors

#: The most points of a transform that is computed as one product with its matrix.
DENSE = 32
#: The same of stages of long signals, of 2 ** _LONG points or a larger power of two.
_FEW, _LONG = 8, 14
#: The largest prime factor that is; larger ones go through a convolution.
LARGEST_PRIME = 61


@lru_cache(maxsize=256)
def factors(n: int) -> tuple[int, ...]:
    """Numbers whose product is ``n``, each the size of one stage of a transform: as few as can be
    of at most DENSE points, and prime factors above that, the largest first."""
    twos, rest = 0, n
    while rest % 2 == 0:
        twos, rest = twos + 1, rest // 2
    if rest == 1:
        return _powers(twos)
    found = _primes(rest) + [2] * twos
    while True:  # the two smallest become one, as long as it is small
        found.sort()
        if len(found) < 2 or found[0] * found[1] > DENSE:
            return tuple(reversed(found))
        found[:2] = [found[0] * found[1]]


def _powers(twos: int) -> tuple[int, ...]:
    # Short signals are limited by the number of kernels, long ones by multiplications.
    most = (DENSE if twos < _LONG else _FEW).bit_length() - 1
    count = max(-(-twos // most), 1)
    return tuple(1 << (twos + place) // count for place in range(count - 1, -1, -1))


def _primes(n: int) -> list[int]:
    found, divisor = [], 3
    while divisor * divisor <= n:
        while n % divisor == 0:
            found.append(divisor)
            n //= divisor
        divisor += 2
    return found + [n] * (n > 1)


@lru_cache(maxsize=256)
def convolution_length(n: int) -> int:
    """The smallest power of two that holds a convolution of ``n`` with ``2n - 1`` points."""
    return 1 << (2 * n - 2).bit_length()
