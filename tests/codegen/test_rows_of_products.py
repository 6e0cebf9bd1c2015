"""Rows of a product that share sets of a cache, or have gaps: the same sums."""

from __future__ import annotations

import numpy as np
import pytest

import lazyt as lt
from tests.codegen.kernel_corpus import print_kernels


@pytest.mark.parametrize("columns", [1, 3])
@pytest.mark.parametrize(
    ("rows", "steps", "pitch"), [(37, 512, 512), (16, 509, 512), (40, 130, 1024), (9, 1029, 1536)]
)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_parts_of_rows_that_share_sets_give_the_same_sums(
    rows: int, steps: int, pitch: int, columns: int, dtype: str
) -> None:
    kind = getattr(lt, dtype)
    whole = ((lt.arange(rows * pitch) * 7919) % 1013 - 500).to(kind).reshape(rows, pitch)
    left = (whole / 64).to(kind).realize()[:, :steps]
    right = ((lt.arange(steps * columns) * 31) % 17 - 8).to(kind).reshape(steps, columns).realize()
    found = (left @ right).numpy()
    with lt.config.override(interpret=True):
        wanted = (left @ right).numpy()
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("gap", [2, 3, 8, 9])
@pytest.mark.parametrize(("rows", "steps", "columns"), [(70, 90, 40), (1000, 64, 32), (33, 300, 1)])
def test_rows_with_gaps_are_put_together_before_they_are_turned(
    gap: int, rows: int, steps: int, columns: int
) -> None:
    rng = np.random.default_rng(0)
    left = lt.tensor(rng.integers(-99, 99, (rows, steps * gap)).astype(np.float32))[:, ::gap]
    right = lt.tensor(rng.integers(-9, 9, (steps, 2 * columns)).astype(np.float32))[:, ::2]
    texts = "".join(p.c.source.text for p in print_kernels([(left @ right).node]))
    assert rows < 1000 or ("g_line" in texts) == (gap <= 8)
    found = (left @ right).numpy()
    with lt.config.override(interpret=True):
        wanted = (left @ right).numpy()
    np.testing.assert_array_equal(found, wanted)
