"""Integer arithmetic wraps around, also where a comparison or another function reads the result.

Overflow of signed integers is undefined in C, and compilers derive from it that ``x + 1 > x``. The
programs are compiled into few kernels; what is right is what NumPy computes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lazyt
from lazyt.runtime.cpu import compile as compiling

pytestmark = pytest.mark.fused_values
Program = Callable[[Any, Any], Any]

PROGRAMS: dict[str, Program] = {
    "(x + 1) > x": lambda x, y: (x + 1) > x,
    "(x + y) > x": lambda x, y: (x + y) > x,
    "(x - y) < x": lambda x, y: (x - y) < x,
    "-x == x": lambda x, y: (-x) == x,
    "-x > 0": lambda x, y: (-x) > 0,
    "x * x < 0": lambda x, y: x * x < 0,
    "x * 2 // 2": lambda x, y: x * 2 // 2,
    "x * 2 >> 1": lambda x, y: (x * 2) >> 1,
    "(x << 1) >> 1": lambda x, y: (x << 1) >> 1,
    "(x + y) // 2": lambda x, y: (x + y) // 2,
    "(x * 3) % 2": lambda x, y: (x * 3) % 2,
    "(x * 31 + y) % 7": lambda x, y: (x * 31 + y) % 7,
    "abs(x) < 0": lambda x, y: abs(x) < 0,
    "(x + y) - x == y": lambda x, y: ((x + y) - x) == y,
    "x * y // y": lambda x, y: (x * y) // y,
}
EDGES = {
    dtype: [
        value
        for place in (np.iinfo(dtype).min, 0, np.iinfo(dtype).max)
        for value in range(place - 2, place + 3)
    ]
    for dtype in ("int8", "int16", "int32", "int64", "uint8")
}


def operands(dtype: str) -> tuple[Any, Any]:
    """All pairs of values at and around the ends of the type and 0; the second is never 0."""
    info = np.iinfo(dtype)
    values = [v for v in EDGES[dtype] if info.min <= v <= info.max]
    first, second = np.meshgrid(np.array(values, dtype), np.array([v for v in values if v], dtype))
    return first.ravel(), second.ravel()


@pytest.mark.parametrize("dtype", EDGES)
def test_programs_give_what_numpy_gives(dtype: str) -> None:
    x, y = operands(dtype)
    a, b = lazyt.tensor(x), lazyt.tensor(y)
    found = [program(a, b) for program in PROGRAMS.values()]
    lazyt.realize(*found)
    with np.errstate(all="ignore"):
        wanted = [program(x, y) for program in PROGRAMS.values()]
    wrong = [n for n, f, w in zip(PROGRAMS, found, wanted) if not np.array_equal(f.numpy(), w)]
    assert not wrong


def test_reductions_and_scans_wrap() -> None:
    x = lazyt.tensor([2**31 - 1, 1, 5, -(2**31)], dtype=lazyt.int32)
    top = lazyt.tensor([2**63 - 1, 1, 5, -(2**63)])
    found = [
        x.sum(dtype=lazyt.int32) > 0, (x.cumsum(0, dtype=lazyt.int32) < x), top.sum() > 0,
        top.cumsum(0) < top, top.prod() > 0, (top[:2] @ top[:2]) > 0,
        x[:2].prod(dtype=lazyt.int32),
    ]  # fmt: skip
    lazyt.realize(*found)
    assert [f.tolist() for f in found] == [
        True, [False, True, True, False], True, [False, True, True, False], False, True, 2**31 - 1,
    ]  # fmt: skip


def test_no_flag_is_needed_for_it() -> None:
    """The text itself is defined, so that exported kernels and other compilers wrap as well."""
    assert "-fwrapv" not in compiling.find().flags


def test_means_of_windows_stay_whole() -> None:
    """They are added in int64, not in floating point, and rounded towards 0."""
    x = lazyt.tensor([2**62 + 1, 2**62 + 1, -3, -4, 2**63 - 1, 2**63 - 1])
    with lazyt.config.override(interpret=True):
        found = lazyt.nn.functional.avg_pool1d(x[None], 2)[0]
        assert found.tolist() == [-(2**62) + 1, -3, -1]
        padded = lazyt.nn.functional.avg_pool1d(x[None, :3], 2, 1, 1, False, False)[0]
        assert padded.tolist() == [2**62 + 1, -(2**62) + 1, 2**61 - 1, -3]
