"""Reductions that are written out have the order of those in loops, whatever their extent."""

from __future__ import annotations

import numpy as np
import pytest

import lazyt as lt
from lazyt.runtime.cpu import compile

pytestmark = pytest.mark.skipif(not compile.available(), reason="needs a C compiler")

KINDS = ("sum", "prod", "amax", "amin", "argmax", "argmin", "any", "all")


def results(extent: int, inline: int) -> list[bytes]:
    """Bits of reductions over an axis of this extent, alone and inside of other values."""
    generator = np.random.default_rng(extent)
    array = generator.standard_normal((3, extent))
    with lt.config.override(inline_reduce=inline):
        found: list[lt.Tensor] = []
        for dtype in (lt.float32, lt.float64, lt.int32):
            scale = 3.0 if dtype is lt.int32 else 1.0
            x = lt.tensor(array * scale).to(dtype).realize()
            found += [getattr(x, kind)(1) for kind in KINDS]
            found.append(x / x.sum(1, keepdim=True))
        x = lt.tensor(array, dtype=lt.float32).realize()
        found += [x.softmax(1), x.softmax(1) @ x.t(), x.t().contiguous().sum(0) * 2]
        lt.realize(*found)
    return [value.numpy().tobytes() for value in found]


@pytest.mark.parametrize("extent", [1, 7, 16, 31, 32, 33, 64, 100, 320])
def test_written_out_as_in_loops(extent: int) -> None:
    assert results(extent, 1 << 20) == results(extent, 0)


def test_more_than_a_block_is_a_loop() -> None:
    x = lt.tensor(np.random.default_rng(0).random((2, 1500), np.float32)).realize()
    with lt.config.override(inline_reduce=1 << 20):
        found = (x * 2).sum(1).tolist()
    assert found == (x * 2).sum(1).tolist()
