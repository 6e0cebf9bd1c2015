"""``testing.assert_close`` of whole numbers without dimensions."""

from __future__ import annotations

import pytest

import lazyt


@pytest.mark.parametrize("dtype", [lazyt.int64, lazyt.uint8, lazyt.bool])
def test_whole_numbers_without_dimensions(dtype: lazyt.dtype) -> None:
    one, zero = lazyt.tensor(1, dtype=dtype), lazyt.tensor(0, dtype=dtype)
    lazyt.testing.assert_close(one, one.clone())
    with pytest.raises(AssertionError, match="Scalars are not equal"):
        lazyt.testing.assert_close(one, zero)
