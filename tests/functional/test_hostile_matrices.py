"""Factorizations of hostile matrices are as exact as LAPACK's; ``hostile_matrices`` has more."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.functional.hostile_matrices import ROUTINES, worst

#: Errors up to this, in units of the machine's precision, are as small as they can be.
FLOOR = 8.0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("size", [1, 2, 3, 8, 20, 33])
@pytest.mark.parametrize("routine", ROUTINES)
def test_errors_beside_those_of_lapack(routine: str, size: int, dtype: Any) -> None:
    own, other = worst(routine, size, 6, dtype)
    if dtype is np.float32:  # in units of its own precision they are alike
        other = worst(routine, size, 6, np.float64)[1]
    # Elimination does not fuse its steps; rotations of up to 32 rows go on where values meet.
    limit = 3 if routine == "solve" or (routine == "svd" and size in (8, 20)) else 2
    assert (own <= np.maximum(limit * other, FLOOR)).all(), (own, other)
