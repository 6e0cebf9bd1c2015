"""Fused multiply-adds and folds in NumPy, against exact fractions and plain loops."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from lazyt.ir.arithmetic.folds import contract, reduce_axes, reduce_in_order
from lazyt.ir.arithmetic.fused import fused_multiply_add
from lazyt.ir.dtypes import float32
from tests.codegen.sum_order import ordered_sum

KINDS = (np.float32, np.float64)


def nearest(exact: Fraction, kind: type) -> float:
    """A fraction as the nearest number of a type, ties to even; infinite beyond the largest."""
    if exact == 0:
        return 0.0
    digits, least, most = (24, -149, 128) if kind is np.float32 else (53, -1074, 1024)
    size = abs(exact)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()  # or one less
    if size < Fraction(2) ** exponent:
        exponent -= 1
    unit = Fraction(2) ** max(exponent + 1 - digits, least)
    found = round(exact / unit) * unit
    if abs(found) >= Fraction(2) ** most:
        return math.inf if exact > 0 else -math.inf
    return float(found) or (0.0 if exact > 0 else -0.0)


def check(a: Any, b: Any, c: Any) -> None:
    """``fused_multiply_add`` of arrays of numbers against fractions."""
    with np.errstate(all="ignore"):
        found = fused_multiply_add(a, b, c)
        plain = a * b + c
    assert found.dtype == a.dtype
    for x, y, z, got, rough in zip(a, b, c, found, plain):
        if not (np.isfinite(x) and np.isfinite(y) and np.isfinite(z)):
            infinite = np.isinf(z) and np.isfinite(x) and np.isfinite(y)
            wanted = z if infinite else rough
            assert got == wanted or (np.isnan(got) and np.isnan(wanted)), (x, y, z)
            continue
        exact = Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))
        wanted = a.dtype.type(nearest(exact, a.dtype.type)) if exact else rough
        assert got.tobytes() == np.asarray(wanted).tobytes(), (x, y, z, got, wanted)


@pytest.mark.parametrize("kind", KINDS)
def test_one_rounding_where_the_sum_cancels(kind: Any) -> None:
    rng = np.random.default_rng(1)
    count = 3000
    a = rng.standard_normal(count).astype(kind)
    b = rng.standard_normal(count).astype(kind)
    c = (-1 * a * b * (1 + rng.integers(-3, 4, count) * np.finfo(kind).eps)).astype(kind)
    c[::3] = rng.standard_normal(len(c[::3])).astype(kind)
    c[::7] *= kind(2.0**-30)
    check(a, b, c)


@pytest.mark.parametrize("kind", KINDS)
def test_one_rounding_of_numbers_of_all_sizes(kind: Any) -> None:
    """Products and sums that are subnormal, that overflow, and that are far apart."""
    rng = np.random.default_rng(2)
    low, high = (-149, 127) if kind is np.float32 else (-1074, 1023)
    count = 2000
    exponents = rng.integers(low, high + 1, (2, count))
    a, b = (np.ldexp(rng.uniform(1, 2, count), e).astype(kind) for e in exponents)
    near = exponents.sum(0) + rng.integers(-70, 70, count)
    near[::4] = rng.integers(low, high + 1, len(near[::4]))
    signs = rng.choice([-1.0, 1.0], count)
    c = (np.ldexp(rng.uniform(1, 2, count), np.clip(near, low, high)) * signs).astype(kind)
    check(a, b, c)


@pytest.mark.parametrize("kind", KINDS)
def test_one_rounding_beside_ties(kind: Any) -> None:
    """Products that end midway between two numbers, and a summand that decides, however small."""
    rng = np.random.default_rng(3)
    digits, low = (24, -149) if kind is np.float32 else (53, -1074)
    count = 500
    half = digits // 2
    a = 1 + 2.0**-half * rng.integers(0, 1 << (half - 1), count)
    b = 1 + 2.0 ** -(digits - half) * (2 * rng.integers(0, 1 << (half - 2), count) + 1)
    tiny = rng.choice([2.0**-60, -(2.0**-60), 2.0**-200, -(2.0**low), 2.0**low, 0.0], count)
    tiny = np.where(kind is np.float32 and abs(tiny) < 2.0**-149, 0.0, tiny)
    check(a.astype(kind), b.astype(kind), tiny.astype(kind))
    # Subnormal results midway between two numbers.
    scale = kind(2.0 ** (low // 2))
    odd = np.where(rng.random(count) < 0.5, 40, 2.0 ** (digits - 3)) * rng.uniform(-1, 1, count)
    odd = np.floor(odd) + 0.5
    c = np.ldexp(rng.integers(-3, 4, count).astype(np.float64), low).astype(kind)
    check((odd * scale).astype(kind), np.full(count, 2.0 ** (low - low // 2), kind), c)


@pytest.mark.parametrize("kind", KINDS)
def test_one_rounding_of_hostile_numbers(kind: Any) -> None:
    limits = np.finfo(kind)
    hard = [0.0, -0.0, 1.0, -1.5, math.nan, math.inf, -math.inf, limits.max, -limits.max]
    hard += [limits.tiny, -limits.tiny, limits.tiny * kind(2.0 ** (1 - limits.nmant))]
    hard += [limits.eps, 1 + limits.eps, 1 - limits.eps / 2, float(limits.max) / 4]
    a, b, c = (np.array(x).astype(kind) for x in zip(*itertools.product(hard, repeat=3)))
    check(a, b, c)


def test_fused_integers_wrap_around() -> None:
    big = np.full(2, 1 << 30, np.int32)
    assert fused_multiply_add(big, big, np.ones(2, np.int32)).tolist() == [1, 1]


@pytest.mark.parametrize(
    ("a", "b", "c", "expected"),
    [
        # Rounded to float64 first, this is a tie, which goes the other way.
        (1 + 2.0**-12, 1 + 2.0**-12, 2.0**-60, 1 + 2.0**-11 + 2.0**-23),
        (3.0e38, 10.0, -math.inf, -math.inf),
        (math.inf, 0.0, 1.0, math.nan),
        (-0.0, 1.0, 0.0, 0.0),
        (-0.0, 1.0, -0.0, -0.0),
        (2.0**-140, 2.0**-10, 2.0**-149, 2.0**-148),
    ],
)
def test_fused_single_at_the_edges(a: float, b: float, c: float, expected: float) -> None:
    x, y, z = (np.full(1, v, np.float32) for v in (a, b, c))
    with np.errstate(all="ignore"):
        found = fused_multiply_add(x, y, z)[0]
    wanted = np.float32(expected)
    assert np.isnan(found) if np.isnan(wanted) else found.tobytes() == wanted.tobytes()


@pytest.mark.parametrize(
    ("a", "b", "c", "expected"),
    [
        (2.0**-600, 2.0**-474, 2.0**-1074, 2.0**-1073),
        (2.0**600, 2.0**500, -math.inf, -math.inf),
        (2.0**600, 2.0**500, 1.0, math.inf),
        (2.0**600, 2.0**423, -(2.0**1023), 0.0),
        (1e300, 1e10, -1e308, math.inf),
        (-1.5, 2.0**-1073, 2.0**-1022, 2.0**-1022 - 3 * 2.0**-1074),
        (-(2.0**-900), 1.5 * 2.0**-175, 2.0**-1022, 2.0**-1022 - 2.0**-1074),
        (-0.0, 5.0, -0.0, -0.0),
        (3.0, 0.0, -0.0, 0.0),
    ],
)
def test_fused_double_at_the_edges(a: float, b: float, c: float, expected: float) -> None:
    x, y, z = (np.full(1, v) for v in (a, b, c))
    with np.errstate(all="ignore"):
        found = fused_multiply_add(x, y, z)[0]
    assert found.tobytes() == np.float64(expected).tobytes()


@pytest.mark.parametrize("count", [0, 1, 5, 32, 33, 1000, 1024, 1025, 40_000])
def test_sums_go_by_lanes_and_blocks(count: int) -> None:
    values = np.random.default_rng(count).standard_normal(count).astype(np.float32)
    expected = ordered_sum(values) if count else np.float32(0)
    assert reduce_in_order("sum", values, float32) == expected


def test_each_run_of_axes_is_folded_as_one_the_last_one_first() -> None:
    values = np.random.default_rng(5).standard_normal((7, 33, 5, 40)).astype(np.float32)
    last = reduce_in_order("sum", np.moveaxis(values, 3, -1), float32)
    first = reduce_in_order("sum", np.moveaxis(last.reshape(7 * 33, 5), 0, -1), float32)
    assert (reduce_axes("sum", values, (0, 1, 3), float32) == first).all()
    assert reduce_axes("sum", values[:, :1], (1,), float32).shape == (7, 5, 40)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_contractions_take_a_fused_step_for_each_pair(kind: Any) -> None:
    rng = np.random.default_rng(6)
    left = rng.standard_normal((3, 4, 5)).astype(kind)
    right = rng.standard_normal((5, 6, 3)).astype(kind)
    # The label 0 runs along with the result, 1 and 2 are those of the operands alone.
    found = contract(left, right, (0, 1, 2), (2, 3, 0), (3, 0, 1))
    for n, batch, m in np.ndindex(*found.shape):
        total = kind(0)
        for k in range(5):
            x, y = Fraction(float(left[batch, m, k])), Fraction(float(right[k, n, batch]))
            total = kind(nearest(x * y + Fraction(float(total)), kind))
        assert found[n, batch, m] == total


def test_contractions_add_in_the_order_of_the_left_operand() -> None:
    left = np.array([[1e8, 1.0], [-1e8, 1.0]], np.float32)
    ones = np.ones((2, 2), np.float32)
    assert contract(left, ones, (0, 1), (0, 1), ()) == 1.0  # 1e8 + 1 - 1e8 + 1
    assert contract(left, ones, (1, 0), (1, 0), ()) == contract(left, ones, (0, 1), (0, 1), ())
    assert contract(left.T, ones, (1, 0), (0, 1), ()) == 2.0  # 1e8 - 1e8 + 1 + 1
