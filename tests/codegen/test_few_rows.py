"""Folds along columns of few rows, part by part: their order, NaN, tiles and what waits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import lazyt as lt
from lazyt import ops
from lazyt.compiler import compile_graph
from lazyt.config import config
from lazyt.ir.dtypes import float32
from lazyt.ir.parser import parse_graph
from lazyt.testing.stages import examine
from tests.codegen.sum_order import ordered_sum

ROWS = (2, 9, 12, 16, 17, 31, 32, 33, 48, 63, 64, 65, 100, 129, 200, 255, 256, 257, 1024)


@pytest.mark.parametrize("rows", ROWS)
def test_sums_have_the_order_of_sums(rows: int, monkeypatch: Any) -> None:
    monkeypatch.setattr(config, "verify", True)
    values = np.random.default_rng(rows).standard_normal((rows, 600), dtype=np.float32)
    x = lt.from_numpy(values)
    assert np.array_equal(x.sum(0).numpy(), ordered_sum(values))
    assert np.array_equal((x * x).sum(0).numpy(), ordered_sum(values * values))
    assert np.array_equal(x.amax(0).numpy(), values.max(0))


def test_what_is_not_a_number_is_the_largest() -> None:
    values = np.random.default_rng(0).standard_normal((100, 200), dtype=np.float32)
    values[77, 5], values[3, 9] = np.nan, np.inf
    found = lt.from_numpy(values).amax(0).numpy()
    assert np.array_equal(found, values.max(0), equal_nan=True)
    assert np.isnan(found[5])


def test_batches_and_tiles(monkeypatch: Any) -> None:
    """Several tiles, each of a part of the columns, in several images."""
    monkeypatch.setattr(config, "verify", True)
    values = np.random.default_rng(1).standard_normal((3, 70, 1300), dtype=np.float32)
    found = lt.from_numpy(values).sum(1).numpy()
    assert np.array_equal(found, np.stack([ordered_sum(image) for image in values]))


def test_sums_wait_in_few_places() -> None:
    """Of 256 rows in 32 parts, one for each bit of their number and one more; not 32."""
    x = ops.input_((256, 4096), float32)
    program, _ = compile_graph([ops.reduce_("sum", x, (0,))], [x])
    (kernel,) = program.kernels
    assert "r0_p[6][512]" in kernel.text or "r0_p[7][512]" in kernel.text, kernel.text
    assert "[32]" not in kernel.text


_ROW = "float32[1024]"
UPDATES = f"""
graph(%0: float32[100, 32, 1024], %1: {_ROW}, %2: {_ROW}, %3: {_ROW}, %4: float32[]) -> (%7, %8)
%5 = reshape(%0) {{shape=(3200, 1024)}} : float32[3200, 1024]
%6 = reduce(%5) {{kind=sum, axes=(0,)}} : float32[1024]
%7 = map(%1, %6, %4) {{sub($0, mul($1, $2))}} : float32[1024]
%8 = map(%2, %3, %4) {{sub($0, mul($1, $2))}} : float32[1024]
"""


def test_what_waits_for_no_sum_is_stored_beside_sums_of_blocks() -> None:
    """Biases that are updated in one step, one by a sum, the other by what is known."""
    roots = parse_graph(UPDATES.lstrip(), ops.OPS)[1]
    assert examine(roots, kinds=("whole", "uniform"), target="c") is None


@pytest.mark.parametrize(("rows", "columns"), [(4096, 4096), (2100, 64), (3100, 64), (4097, 96)])
def test_sums_of_blocks_are_few_rows_themselves(rows: int, columns: int) -> None:
    """Long columns are cut into blocks, whose sums are two to five rows in a phase of their own."""
    values = np.random.default_rng(rows).standard_normal((rows, columns), dtype=np.float32)
    x = ops.input_((rows, columns), float32)
    program, _ = compile_graph([ops.reduce_("sum", x, (0,))], [x])
    assert "r0_p" in program.kernels[0].text
    assert np.array_equal(lt.from_numpy(values).sum(0).numpy(), ordered_sum(values))
