"""What complex numbers are not for is refused by the line that does it, as PyTorch refuses it."""

from __future__ import annotations

from typing import Any

import pytest

import lazyt
import lazyt.nn.functional as F


@pytest.fixture
def z() -> lazyt.Tensor:
    return lazyt.tensor([1 + 1j, 2 - 1j])


@pytest.mark.parametrize(
    "call",
    [
        F.relu,
        lambda z: z.clamp(0, 1),
        lambda z: lazyt.heaviside(z, z),
        lambda z: F.huber_loss(z, z),
        lazyt.bitwise_not,
    ],
)
def test_functions_of_real_numbers(call: Any, z: lazyt.Tensor) -> None:
    with pytest.raises(NotImplementedError):
        call(z)


@pytest.mark.parametrize("name", ["sort", "median", "mode", "msort", "argsort"])
def test_what_needs_an_order(name: str, z: lazyt.Tensor) -> None:
    with pytest.raises(RuntimeError, match="Sort does not support complex"):
        getattr(lazyt, name)(z)


def test_gradients_begin_at_real_numbers(z: lazyt.Tensor) -> None:
    z.requires_grad_()
    with pytest.raises(RuntimeError, match="only for real scalar outputs but got"):
        z.sum().backward()
    z.sum().backward(lazyt.tensor(1 + 0j))
    assert z.grad is not None
    assert z.grad.tolist() == [1, 1]


def test_a_real_number_of_a_complex_one() -> None:
    assert float(lazyt.tensor(2 + 0j)) == 2.0
    assert int(lazyt.tensor(2 + 0j)) == 2
    with pytest.raises(RuntimeError, match="converted to type double without overflow"):
        float(lazyt.tensor(2 + 1j))


def test_nan_to_num_looks_at_both_parts() -> None:
    z = lazyt.complex(
        lazyt.tensor([float("nan"), 1.0, float("inf")]), lazyt.tensor([2.0, float("-inf"), 0.0])
    )
    found = lazyt.nan_to_num(z, nan=5.0, posinf=7.0, neginf=-7.0)
    assert found.tolist() == [5 + 2j, 1 - 7j, 7 + 0j]
    assert lazyt.nan_to_num(z)[0].item() == 2j
