"""The order of sums, written down once more in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

BLOCK, LANES = 1024, 32


def ordered_sum(values: Any) -> Any:
    """The sum over the first axis: blocks of 1024, 32 lanes, lanes by halves, blocks likewise."""
    while len(values) > 1:
        blocks = range(0, len(values), BLOCK)
        values = np.stack([_block(values[k : k + BLOCK]) for k in blocks])
    return values[0]


def _block(values: Any) -> Any:
    lanes = np.zeros((LANES, *values.shape[1:]), values.dtype)
    for k, row in enumerate(values):
        lanes[k % LANES] += row
    while len(lanes) > 1:
        half = len(lanes) // 2
        lanes = lanes[:half] + lanes[half:]
    return lanes[0]
