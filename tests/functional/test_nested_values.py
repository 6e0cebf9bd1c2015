"""Numbers, lists and arrays as values of new tensors: types, shapes and refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import lazyt as lt


@pytest.mark.parametrize(
    ("data", "dtype"),
    [
        ([True, 2.5], lt.float32),
        ([True, 1], lt.int64),
        ([np.float64(1), 1], lt.float64),
        ([np.float16(1), 2.5], lt.float32),
        ([np.uint8(1), np.int8(1)], lt.int16),
        ([[1, 2], [3, np.float64(4)]], lt.float64),
        ([lt.tensor(1), 2.0], lt.float32),
        ([lt.tensor(1.0, dtype=lt.float64), 1], lt.float64),
        ([np.array([1, 2]), [3, 4]], lt.int64),
        ([np.zeros((2, 2)), np.ones((2, 2))], lt.float64),
        ([range(3), (1, 2, 3)], lt.int64),
        ([], lt.float32),
        ([[], []], lt.float32),
    ],
)
def test_types_and_values(data: Any, dtype: Any) -> None:
    made = lt.tensor(data)
    plain = [np.asarray(part).tolist() for part in data]
    assert made.dtype is dtype
    assert made.shape == np.shape(plain)
    assert made.tolist() == plain


@pytest.mark.parametrize(
    ("data", "dtype", "error", "text"),
    [
        ([1, [2]], None, TypeError, "'list' object cannot be interpreted as an integer"),
        ([[1], 2], None, TypeError, "not a sequence"),
        ([[1], [2, 3]], None, ValueError, r"expected sequence of length 1 at dim 1 \(got 2\)"),
        (["a"], lt.bool, ValueError, "too many dimensions 'str'"),
        ("a", None, TypeError, r"new\(\): invalid data type 'str'"),
        ([None], lt.float32, TypeError, "must be real number, not NoneType"),
        ([None], lt.bool, TypeError, "'NoneType' object cannot be interpreted as an integer"),
        ([None], None, RuntimeError, "Could not infer dtype of NoneType"),
        ([lt.ones(2)], None, ValueError, "only one element tensors can be converted"),
        ([1 << 63], None, ValueError, "Overflow when unpacking long long"),
        ([float("nan")], lt.int64, RuntimeError, "cannot be converted to type int64"),
    ],
)
def test_refusals(data: Any, dtype: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        lt.tensor(data, dtype=dtype)
