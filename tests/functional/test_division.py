"""Whole numbers divided by zero raise at their line; all other divisors divide."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import lazyt

FORMS: dict[str, Callable[[Any, Any], lazyt.Tensor]] = {
    "floor_divide": lazyt.floor_divide,
    "remainder": lazyt.remainder,
    "fmod": lazyt.fmod,
    "div trunc": lambda a, b: lazyt.div(a, b, rounding_mode="trunc"),
    "div floor": lambda a, b: lazyt.div(a, b, rounding_mode="floor"),
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
}


@pytest.mark.parametrize("name", FORMS)
def test_zero_divisors_of_whole_numbers_raise(name: str) -> None:
    form = FORMS[name]
    a = lazyt.tensor([4, -5])
    pending = lazyt.tensor([2, 3]) - 2
    for divisor in (lazyt.tensor([3, 0]), lazyt.tensor(0), pending, lazyt.tensor([-2, 0]), 0):
        with pytest.raises(RuntimeError, match="ZeroDivisionError"):
            form(a, divisor)
    small = lazyt.tensor([1], dtype=lazyt.uint8)
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        form(small, small - 1)


def test_in_place_division_by_zero_leaves_the_tensor_alone() -> None:
    a = lazyt.tensor([4, -5])
    for write in (a.remainder_, a.fmod_, a.floor_divide_):
        with pytest.raises(RuntimeError, match="ZeroDivisionError"):
            write(lazyt.tensor([0, 2]))
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        3 // (a - a)
    assert a.tolist() == [4, -5]


def test_zeros_that_divide_nothing_or_fractions_are_no_mistake() -> None:
    nothing = lazyt.empty(0, dtype=lazyt.int64)
    assert (nothing // lazyt.tensor(0)).tolist() == []
    assert (nothing % 0).tolist() == []
    assert (lazyt.tensor([4.0, -4.0]) // lazyt.tensor([0, 2])).tolist() == [float("inf"), -2.0]


def test_divisors_of_both_signs_and_parts_of_ranges_divide() -> None:
    a = lazyt.arange(6)
    results = [a // (a * 2 - 5), a % lazyt.arange(7)[1:], lazyt.fmod(a - 3, lazyt.tensor(-2))]
    assert [r.tolist() for r in results] == [
        [0, -1, -2, 3, 1, 1],
        [0, 1, 2, 3, 4, 5],
        [-1, 0, -1, 0, 1, 0],
    ]


def test_captured_functions_check_their_divisors_at_every_call() -> None:
    @lazyt.jit
    def divide(a: lazyt.Tensor, b: lazyt.Tensor) -> lazyt.Tensor:
        return a // b

    a = lazyt.arange(6)
    found = [divide(a, lazyt.tensor([b])).tolist()[5] for b in (1, 2, 3, -2, -3, 4)]
    assert found == [5, 2, 1, -3, -2, 1]
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        divide(a, lazyt.tensor([0]))


def test_batched_divisors_are_checked_together() -> None:
    a = lazyt.arange(4)

    def divide(x: lazyt.Tensor, y: lazyt.Tensor) -> lazyt.Tensor:
        return x // y

    assert lazyt.vmap(divide)(a * 2, a + 1).tolist() == [0, 1, 1, 1]
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        lazyt.vmap(divide)(a, a)


@pytest.mark.parametrize("dtype", [lazyt.complex64, lazyt.complex128])
@pytest.mark.parametrize("one", [1.0, 2 - 3j])
def test_by_an_infinite_part_finite_complex_numbers_become_zeros(dtype: Any, one: complex) -> None:
    inf = float("inf")
    by = lazyt.tensor(
        [complex(a, b) for a, b in ((inf, 1), (-inf, 0), (3, inf), (0, -inf))], dtype=dtype
    )
    assert (one / by).tolist() == [0j] * 4
    if one == 1.0:
        assert by.reciprocal().tolist() == [0j] * 4
    both = one / lazyt.tensor(
        [complex(inf, inf), complex(0, 0), complex(inf, float("nan"))], dtype=dtype
    )
    assert both.real.isnan().all() and both.imag.isnan().all()
    far = (lazyt.tensor([complex(inf, 1)], dtype=dtype) / (1 + 1j)).abs()
    assert far.item() == inf
