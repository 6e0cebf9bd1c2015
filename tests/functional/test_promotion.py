"""Type promotion against PyTorch's rules."""

from __future__ import annotations

from typing import Any

import pytest

import lazyt as lt
from lazyt.errors import DTypeError

_ORDER = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64"]


def _dtype(name: str) -> Any:
    return lt.bool if name == "bool" else getattr(lt, name)


@pytest.mark.parametrize("first", _ORDER)
@pytest.mark.parametrize("second", _ORDER)
def test_promotion_is_the_larger_type(first: str, second: str) -> None:
    """Along the chain of types the larger wins, but uint8 with int8 needs int16."""
    wanted = max(first, second, key=_ORDER.index)
    if {first, second} == {"uint8", "int8"}:
        wanted = "int16"
    assert lt.promote_types(_dtype(first), _dtype(second)) is _dtype(wanted)


def test_half_types_meet_in_float32() -> None:
    assert lt.promote_types(lt.float16, lt.bfloat16) is lt.float32


def test_wide_unsigned_types_do_not_promote() -> None:
    with pytest.raises(DTypeError, match="attempted to promote UInt16 and Int"):
        lt.promote_types(lt.uint16, lt.int32)


@pytest.mark.parametrize(
    ("dtype", "number", "wanted"),
    [
        ("bool", True, "bool"), ("bool", 2, "int64"), ("bool", 2.5, "float32"),
        ("int32", True, "int32"), ("int32", 2, "int32"), ("int32", 2.5, "float32"),
        ("float16", 2, "float16"), ("float16", 2.5, "float16"), ("float64", 2.5, "float64"),
    ],
)  # fmt: skip
def test_numbers_promote_by_category(dtype: str, number: Any, wanted: str) -> None:
    operand = lt.ones(2, dtype=_dtype(dtype))
    assert (operand + number).dtype is _dtype(wanted)
    assert (number * operand).dtype is _dtype(wanted)


def test_zero_dimensional_tensors_promote_weakly() -> None:
    half = lt.ones(2, dtype=lt.float16)
    assert (half + lt.tensor(1.5, dtype=lt.float64)).dtype is lt.float16
    assert (lt.arange(2) + lt.tensor(1.5)).dtype is lt.float32
    assert (lt.tensor(1.0) + lt.tensor([1.0], dtype=lt.float64)).dtype is lt.float64


def test_in_place_results_must_fit() -> None:
    whole = lt.arange(3)
    with pytest.raises(RuntimeError, match="can't be cast to the desired output type Long"):
        whole += 1.5
    assert whole.tolist() == [0, 1, 2]


def test_limits_of_types() -> None:
    assert lt.finfo(lt.float32).eps == 2.0**-23
    assert lt.finfo(lt.float64).max == 1.7976931348623157e308
    assert (lt.iinfo(lt.int8).min, lt.iinfo(lt.uint16).max) == (-128, 65535)
