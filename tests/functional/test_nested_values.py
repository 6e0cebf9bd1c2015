"""Numbers, lists and arrays as values of new tensors: types, shapes and refusals."""

from __future__ import annotations

import math
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
        ([bytearray(b"ab"), memoryview(b"cd")], lt.int64),
    ],
)
def test_types_and_values(data: Any, dtype: Any) -> None:
    made = lt.tensor(data)
    plain = [
        list(p) if isinstance(p, (bytearray, memoryview)) else np.asarray(p).tolist() for p in data
    ]
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
        ([lt.tensor(2.0)], lt.int64, TypeError, "only integer tensors of a single element"),
        ([np.ones(2), 1], None, TypeError, "not a sequence"),
        ([1, np.ones(2)], None, TypeError, "only 0-dimensional arrays can be converted"),
        ([1, "a"], None, TypeError, r"new\(\): invalid data type 'str'"),
        ([[1, 2], "ab"], None, TypeError, r"new\(\): invalid data type 'str'"),
        ([1.5, "a"], lt.float32, TypeError, "must be real number, not str"),
        ([1, "a"], lt.int64, TypeError, "'str' object cannot be interpreted as an integer"),
        (["a", 1], None, ValueError, "too many dimensions 'str'"),
        (b"a", None, TypeError, r"new\(\): invalid data type 'bytes'"),
        (np.str_("a"), None, TypeError, r"new\(\): invalid data type 'numpy.str_'"),
        ([b"a"], None, TypeError, r"new\(\): invalid data type 'bytes'"),
        (object(), None, RuntimeError, "Could not infer dtype of object"),
        ({}, None, RuntimeError, "Could not infer dtype of dict"),
        ([1, {}], lt.float32, TypeError, "must be real number, not dict"),
        (lt.device("cpu"), None, RuntimeError, "Could not infer dtype of torch.device"),
        ([[1], None], None, RuntimeError, "Could not infer dtype of NoneType"),
        ([1, []], None, TypeError, "must be real number, not list"),
        ([1.5, 1 << 70], lt.int64, ValueError, "Overflow when unpacking long long"),
        ([1 << 63], None, ValueError, "Overflow when unpacking long long"),
        ([float("nan")], lt.int64, RuntimeError, "cannot be converted to type int64"),
    ],
)
def test_refusals(data: Any, dtype: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        lt.tensor(data, dtype=dtype)


class Floating:
    """A number by its conversions alone."""

    def __float__(self) -> float:
        return 1.5

    def __index__(self) -> int:
        return 3


class Pair:
    """A sequence by its methods alone."""

    def __len__(self) -> int:
        return 2

    def __getitem__(self, at: int) -> float:
        if at > 1:
            raise IndexError(at)
        return at + 0.5


def test_objects_that_are_numbers_or_sequences() -> None:
    assert lt.tensor([Floating(), 2], dtype=lt.float32).tolist() == [1.5, 2]
    assert lt.tensor(Floating(), dtype=lt.int64).tolist() == 3
    assert lt.tensor([Pair(), Pair()]).tolist() == [[0.5, 1.5]] * 2
    assert lt.tensor([b"ab"], dtype=lt.uint8).tolist() == [[97, 98]]
    assert lt.tensor([[], "a", [1]], dtype=lt.float32).shape == (3, 0)
    for legacy, title in (({}, "dict"), ({1}, "set"), (object(), "object"), (None, "NoneType")):
        with pytest.raises(TypeError, match=rf"data must be a sequence \(got {title}\)"):
            lt.Tensor(legacy)
    loop: list[Any] = [1]
    loop.append(loop)
    with pytest.raises(TypeError, match="self-referential"):
        lt.tensor(loop)


def test_one_number_is_what_a_list_of_it_is() -> None:
    numbers = [0.1, -0.0, 1e-46, 1e39, -1e39, float("nan"), 3, 2**53 + 1, -(2**63), True]
    for number in numbers:
        for dtype in (None, lt.float32, lt.float64):
            one, row = lt.tensor(number, dtype=dtype), lt.tensor([number], dtype=dtype)
            assert one.dtype is row.dtype
            assert one.numpy().tobytes() == row.numpy().tobytes(), (number, dtype)
    for number, dtype in ((2**63, None), (float("nan"), lt.int64), (10**400, lt.float32)):
        with pytest.raises((RuntimeError, OverflowError)):
            lt.tensor(number, dtype=dtype)
    assert lt.tensor(2.75, dtype=lt.int64).item() == 2


@pytest.mark.parametrize("dtype", [lt.float32, lt.float64, lt.int64, lt.int32, None])
def test_lists_of_numbers_are_what_numpy_makes_of_them(dtype: Any) -> None:
    whole = [0, 1, -7, 2**31 - 1, -(2**31)]
    fractions = [0.1, -0.0, 1e-42, 1e300, math.inf, -math.inf, math.nan, 2.0**24 + 1, 3]
    for values in (whole, fractions, [whole, whole[::-1]], [fractions], [2**53 + 1, 0.5], (5,)):
        has_fractions = any(isinstance(v, float) for v in np.asarray(values).ravel().tolist())
        if has_fractions and dtype in (lt.int64, lt.int32):
            continue
        found = lt.tensor(values, dtype=dtype)
        kind = {lt.float32: np.float32, lt.int64: np.int64, lt.int32: np.int32}.get(found.dtype)
        wide = np.asarray(values, np.float64 if found.dtype.kind == "f" else np.int64)
        with np.errstate(over="ignore"):
            wanted = wide.astype(kind or np.float64)
        assert found.dtype is (dtype or (lt.float32 if has_fractions else lt.int64))
        assert found.numpy().tobytes() == wanted.tobytes()
        assert tuple(found.shape) == wanted.shape
