"""Programs of integers at the ends of their types show what PyTorch showed, and kernels the same.

``recorded_edges.json.xz`` holds digests of what 2400 programs gave on PyTorch 2.13. All run in the
interpreter; ``LAZYT_EDGES_COMPILED`` of them (default 400) are compiled, many into each kernel.
Record anew after a change of ``edge_programs.py`` with
``python -m tests.integer_edges.run_edges --record 2400``; see there for a live comparison.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lazyt
from tests.integer_edges.edge_programs import SIGNED, edge_values
from tests.integer_edges.run_edges import differing, recorded

COMPILED = int(os.environ.get("LAZYT_EDGES_COMPILED", "400"))


def test_interpreted_programs_show_what_pytorch_showed() -> None:
    wanted = recorded()
    assert len(wanted) >= 2000
    wrong = differing(wanted, interpret=True)
    assert not wrong, "\n".join(wrong[:5])


@pytest.mark.fused_values
def test_compiled_programs_show_what_pytorch_showed() -> None:
    wanted = {seed: shown for seed, shown in recorded().items() if seed < COMPILED}
    wrong = differing(wanted, interpret=False)
    assert not wrong, "\n".join(wrong[:5])


@pytest.mark.parametrize("interpret", [True, False])
def test_divided_by_minus_one_the_smallest_number_is_itself(interpret: bool) -> None:
    """PyTorch's process dies of these; here they wrap around, as differences do."""
    with lazyt.config.override(interpret=interpret):
        for dtype in SIGNED:
            values = np.array(edge_values(dtype), dtype)
            x = lazyt.tensor(values)
            found = [
                x // -1, lazyt.div(x, -1, rounding_mode="trunc"), x % -1, lazyt.fmod(x, -1),
                (x // -1) == 0 - x, ((x + 1) // -1) < x,
            ]  # fmt: skip
            lazyt.realize(*found)
            with np.errstate(all="ignore"):
                negated, more = -values, -(values + 1)
            for quotient in found[:2]:
                assert np.array_equal(quotient.numpy(), negated)
            assert not found[2].any() and not found[3].any()
            assert found[4].all()
            assert np.array_equal(found[5].numpy(), more < values)


def floor(dividend: int, divisor: int) -> int:
    return dividend // divisor


def truncated(dividend: int, divisor: int) -> int:
    quotient = abs(dividend) // abs(divisor)
    return quotient if (dividend < 0) == (divisor < 0) else -quotient


def opposites(x: Any, y: Any) -> list[Any]:
    """Values of which some are others negated; made anew, so that each kernel computes them."""
    return [x + 0, -(x + 0), x - y, y - x, ~(x + 0), -(x * y), x * y, -x - y]


def wrapped(value: int, dtype: str) -> int:
    """A whole number in a signed type, in which it wraps around."""
    half = -int(np.iinfo(dtype).min)
    return (value + half) % (2 * half) - half


DIVIDED: list[tuple[Callable[[Any, Any], Any], Callable[[int, int], int]]] = [
    (lambda a, b: lazyt.div(a, b, rounding_mode="floor"), floor),
    (lambda a, b: lazyt.div(a, b, rounding_mode="trunc"), truncated),
    (lambda a, b: a % b, lambda a, b: a - b * floor(a, b)),
    (lazyt.fmod, lambda a, b: a - b * truncated(a, b)),
]


@pytest.mark.fused_values
@pytest.mark.parametrize("dtype", SIGNED)
def test_quotients_of_a_number_and_of_its_opposite_in_one_kernel(dtype: str) -> None:
    """gcc made -(x / 7) of -x / 7 beside x / 7: wrong for the smallest number, which is its own
    opposite."""
    numbers = edge_values(dtype)
    pairs = [(a, b) for a in numbers for b in numbers if b != 0]
    x, y = (lazyt.tensor(np.array(part, dtype)) for part in zip(*pairs, strict=True))
    lazyt.realize(x, y)
    rows = [[wrapped(v, dtype) for v in opposites(a, b)] for a, b in pairs]
    for ours, exact in DIVIDED:
        for divisor in (7, -8, numbers[0], None):
            by = [b if divisor is None else divisor for _, b in pairs]
            found = [ours(value, y if divisor is None else divisor) for value in opposites(x, y)]
            lazyt.realize(*found)
            for k, quotient in enumerate(found):
                want = [wrapped(exact(row[k], b), dtype) for row, b in zip(rows, by, strict=True)]
                assert quotient.tolist() == want, (k, divisor)
