"""How many points go in which stages, and the constants of a transform.

A transform of ``n`` points sees them as a matrix of ``a`` rows and ``b`` columns. The columns are
transformed in stages, multiplied by twiddle factors, and the rows transformed in stages
(``codegen/prelude/fourier.h``). All angles are whole numbers of n-th parts of a turn, reduced to an
eighth of a turn in whole numbers before a sine or cosine is taken: every entry is correct to the
last bit or the one before, however large the transform, and the same on every machine.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from lazyt.ir.dtypes import DType

Array = np.ndarray[Any, Any]

#: Complex points, real points to half of their spectrum, and back; kernels know them by number.
KINDS = ("complex", "half", "real")
#: Bytes of the real parts of neighbouring columns that are transformed together.
_LANE_BYTES = 64
#: The largest prime number of points of a stage.
_MOST_PRIME = 61
#: The most points of which a convolution is transformed.
_MOST_CHIRP = 4096
#: Elements behind the last chirp, as numbers are multiplied by whole vectors.
_BEHIND = 8
#: The most rows and columns.
_MOST_SIDE = 4096
#: Bytes that every GPU's blocks can share.
_BLOCK_BYTES = 48 << 10
#: Rows for which there is scratch, and threads that work on one row.
SLOTS = 16


class Plan(NamedTuple):
    """``a`` rows, ``b`` columns, and the sizes of the stages in which each is transformed.
    ``whole``: of a * b complex points whatever the kind, which are more than there are where a
    convolution with a chirp is transformed instead; else pairs of real points are complex ones."""

    a: int
    b: int
    first: tuple[int, ...]
    second: tuple[int, ...]
    whole: bool = False


def row_sizes(kind: str, n: int) -> tuple[int, int]:
    """Elements of a row of operand and result of a transform of ``n`` points."""
    spectrum = 2 * (n // 2 + 1)
    return {"complex": (2 * n, 2 * n), "half": (n, spectrum), "real": (spectrum, n)}[kind]


def circle(numerators: Array, n: int) -> tuple[Array, Array]:
    """Cosine and sine of ``2 pi numerators / n``, in float64, the same on every machine."""
    eighth, rest = np.divmod((numerators.astype(np.int64) % n) * 8, n)
    # In odd eighths from the far end, so that the angle is at most an eighth of a turn.
    odd = eighth % 2 == 1
    cos, sin = _first_eighth(np.where(odd, n - rest, rest), n)
    swap = (eighth + 1) // 2 % 2 == 1
    x, y = np.where(swap, sin, cos), np.where(swap, cos, sin)
    x = np.where((eighth >= 2) & (eighth < 6), -x, x)
    return x, np.where(eighth >= 4, -y, y)


# The library's sine and NumPy's differ between machines in the last bit, as do transforms of
# NumPy's. What follows adds and multiplies only, one operation after the other, which IEEE 754 lays
# down. Values are sums of two float64 (Dekker 1971, "A floating-point technique for extending the
# available precision").

_Double = tuple[Array, Array]
#: Angles whose sines are computed in one go, so that all stay in cache.
_CHUNK = 1 << 13


def _first_eighth(numerators: Array, n: int) -> tuple[Array, Array]:
    """Cosine and sine of ``pi / 4 * numerators / n``, numerators up to n: those of coarse and of
    fine angles, multiplied."""
    fine = 1 << ((n.bit_length() + 1) // 2)
    (c1, s1), (c2, s2) = (
        _series(np.arange(count, dtype=np.float64) * step, n)
        for count, step in ((n // fine + 1, fine), (fine, 1))
    )
    made = np.empty((2, numerators.size))
    flat = numerators.ravel()
    for begin in range(0, flat.size, _CHUNK):
        high, low = np.divmod(flat[begin : begin + _CHUNK], fine)
        a, b = ((x[0][high], x[1][high]) for x in (c1, s1))
        c, d = ((x[0][low], x[1][low]) for x in (c2, s2))
        minus = _product(b, d)
        parts = _sum(_product(a, c), (-minus[0], -minus[1])), _sum(_product(b, c), _product(a, d))
        for row, part in zip(made, parts):
            row[begin : begin + _CHUNK] = part[0]
    return made[0].reshape(numerators.shape), made[1].reshape(numerators.shape)


def _series(numerators: Array, n: int) -> tuple[_Double, _Double]:
    """The same as sums of two numbers, by the series of both functions."""
    first = numerators / n
    product, error = _exact_product(first, np.float64(n))
    ratio = first, ((numerators - product) - error) / n
    x = _product(ratio, (np.asarray(math.pi / 4), np.asarray(3.061616997868383e-17)))
    square = _product(x, x)
    cos, sin = _inverse_factorial(26), _inverse_factorial(27)
    for degree in range(24, -1, -2):
        cos = _sum(_product(cos, square), _inverse_factorial(degree))
        sin = _sum(_product(sin, square), _inverse_factorial(degree + 1))
    return cos, _product(sin, x)


def _inverse_factorial(degree: int) -> _Double:
    """The coefficient of a degree, with its sign."""
    exact = Fraction((-1) ** (degree // 2), math.factorial(degree))
    high = float(exact)
    return np.asarray(high), np.asarray(float(exact - Fraction(high)))


def _exact_product(a: Array, b: Any) -> _Double:
    """A product, and what rounding took from it."""
    (a1, a2), (b1, b2) = _halves(a), _halves(b)
    product = a * b
    return product, ((a1 * b1 - product) + a1 * b2 + a2 * b1) + a2 * b2


def _halves(a: Any) -> _Double:
    """Two numbers of half of the bits each, whose sum is ``a``."""
    high = a * 134217729.0  # 2^27 + 1
    high = high - (high - a)
    return high, a - high


def _product(a: _Double, b: _Double) -> _Double:
    product, error = _exact_product(a[0], b[0])
    return _renewed(product, error + (a[0] * b[1] + a[1] * b[0]))


def _sum(a: _Double, b: _Double) -> _Double:
    total = a[0] + b[0]
    gone = total - a[0]
    error = (a[0] - (total - gone)) + (b[0] - gone)
    return _renewed(total, error + (a[1] + b[1]))


def _renewed(high: Array, low: Array) -> _Double:
    total = high + low
    return total, low - (total - high)


@lru_cache(maxsize=1024)
def plan_of(kind: str, n: int) -> Plan | None:
    """How ``n`` points are transformed; None where that is not one kernel: of few or very many
    points, and of many that have a large prime factor."""
    if n < 4:
        return None
    plan = _split(n // 2) if kind != "complex" and n % 2 == 0 else None
    if plan is not None:
        return plan
    plan = _split(n)
    if plan is None and n <= _MOST_CHIRP:
        plan = _split(1 << (2 * n - 2).bit_length())
        return plan and plan._replace(whole=True)
    return plan and plan._replace(whole=kind != "complex")


def _split(n: int) -> Plan | None:
    """Two factors of ``n`` that are as near to each other as can be; None where there are none, or
    one has a large prime factor or is too large."""
    left = n
    for prime in range(2, _MOST_PRIME + 1):
        while left % prime == 0 and left:
            left //= prime
    if left != 1 or n < 4:
        return None
    a = next(a for a in range(math.isqrt(n - 1) + 1, n + 1) if n % a == 0)
    if a == n or a > _MOST_SIDE:
        return None
    return Plan(a, n // a, _stages(a), _stages(n // a))


def _stages(n: int) -> tuple[int, ...]:
    """Odd primes, the largest first, then as many eights as leave twos and fours."""
    found: list[int] = []
    for prime in range(_MOST_PRIME, 2, -2):
        while n % prime == 0:
            found.append(prime)
            n //= prime
    twos = n.bit_length() - 1
    rest = {0: [], 1: [4, 4] if twos > 1 else [2], 2: [4]}[twos % 3]
    found += rest
    return (*found, *[8] * ((twos - sum(r.bit_length() - 1 for r in rest)) // 3))


def pack_stages(stages: tuple[int, ...]) -> int:
    """Sizes of stages as one number, six bits each, the first one lowest."""
    return sum(size << 6 * place for place, size in enumerate(stages))


def lanes(dtype: DType) -> int:
    """Neighbouring columns that are transformed together."""
    return _LANE_BYTES // dtype.itemsize


def turn_count(n: int, stages: tuple[int, ...]) -> int:
    """Elements of a table that the stages of ``n`` rows take."""
    total, left = 0, n
    for size in stages:
        left //= size
        total += 2 * size * (size % 2) + left * 2 * (size - 1)
    return total


def _known(kind: str, n: int) -> Plan:
    plan = plan_of(kind, n)
    assert plan is not None
    return plan


def table_size(kind: str, n: int, dtype: DType) -> int:
    """Elements of ``table``."""
    a, b, first, second, whole = _known(kind, n)
    middle = -(-b // lanes(dtype)) * a * 2 * lanes(dtype)
    more = 0 if kind == "complex" or whole else 2 * (n // 4 + 1)
    if whole and a * b != n:
        more = 4 * n + 2 * a * b + _BEHIND
    return turn_count(a, first) + turn_count(b, second) + middle + more


def work_size(kind: str, rows: int, n: int, dtype: DType) -> int:
    """Elements of scratch."""
    plan = _known(kind, n)
    wide = lanes(dtype)
    row = -(-plan.a // wide) * plan.b * 2 * wide + 2 * plan.a * plan.b * plan.whole
    return min(rows, SLOTS) * row + SLOTS * plan.a * 2 * wide


def fits_block(length: int, dtype: DType) -> bool:
    """Whether so many complex points fit into the memory that a block of a GPU shares, with gaps
    between them."""
    return 2 * dtype.itemsize * (length + length // 16) <= _BLOCK_BYTES


def grid_work_size(kind: str, rows: int, n: int, dtype: DType) -> int:
    """Elements of scratch on GPUs, which transform all rows at once; routines have some always."""
    plan = _known(kind, n)
    length = plan.a * plan.b
    if fits_block(length, dtype):
        return 1
    return rows * 2 * length * (2 if plan.whole and length != n else 1)


def _turns(n: int, stages: tuple[int, ...]) -> list[Array]:
    """Of each stage, cosine and sine of the parts of a turn where its size is odd, then its twiddle
    factors."""
    found: list[Array] = []
    left = n
    for size in stages:
        whole, left = left, left // size
        if size % 2:
            found.append(np.stack(circle(np.arange(size), size), -1).ravel())
        cos, sin = circle(np.outer(np.arange(left), np.arange(1, size)), whole)
        found.append(np.stack([cos, -sin], -1).ravel())
    return found


def table(kind: str, n: int, scale: float, dtype: DType) -> Array:
    """The constants of a transform of ``n`` points times ``scale``, in float64: the turns of the
    stages of columns and of rows, the twiddle factors between them in blocks of columns; and those
    of pairs of real points, or the chirps of a convolution."""
    a, b, first, second, whole = _known(kind, n)
    chirped = whole and a * b != n
    wide = lanes(dtype)
    blocks = -(-b // wide)
    column = np.arange(blocks * wide)
    cos, sin = circle(np.outer(np.arange(a), np.where(column < b, column, 0)), a * b)
    factor = 1.0 if chirped else scale / 2 if kind == "half" and not whole else scale
    middle = np.stack([cos * factor, sin * -factor], 1).reshape(a, 2, blocks, wide)
    parts = [*_turns(a, first), *_turns(b, second), middle.transpose(2, 0, 1, 3).ravel()]
    if chirped:
        x, y = chirp(n, -1, 1.0)
        parts += [np.stack([x, y], -1), np.stack(list(chirp_spectrum(n, a * b, -1)), -1)]
        parts += [np.stack([x * scale, y * scale], -1), np.zeros(_BEHIND)]
    elif kind != "complex" and not whole:
        parts += circle(np.arange(n // 4 + 1), n)
    return np.concatenate([part.ravel() for part in parts])


def chirp(n: int, sign: int, scale: float) -> Array:
    """``scale`` times ``exp(sign pi i k k / n)`` of k below n, [2, n]."""
    # k * k in whole numbers modulo 2n, which int64 holds for every n that memory does.
    cos, sin = circle(np.arange(n) ** 2 % (2 * n), 2 * n)
    return np.stack([cos * scale, sin * (sign * scale)])


def chirp_spectrum(n: int, length: int, sign: int) -> Array:
    """The transform over ``length`` points of the conjugate chirp that a transform of ``n`` points
    convolves with, divided by ``length``, [2, length]."""
    re, im = (np.zeros(length) for _ in range(2))
    for ring, part in zip((re, im), chirp(n, -sign, 1.0)):
        ring[:n] = part
        ring[length - n + 1 :] = part[1:][::-1]
    return np.stack(_power_of_two(re, im)) / length


def _power_of_two(re: Array, im: Array) -> tuple[Array, Array]:
    """The transform of a power of two of points (Stockham 1966)."""
    left, done = len(re) // 2, 1
    while left:
        cos, sin = (part[:, None] for part in circle(np.arange(left), 2 * left))
        (a, c), (b, d) = re.reshape(2, left, done), im.reshape(2, left, done)
        x, y = a - c, b - d
        re = np.stack([a + c, x * cos + y * sin], 1).ravel()
        im = np.stack([b + d, y * cos - x * sin], 1).ravel()
        left, done = left // 2, done * 2
    return re, im
