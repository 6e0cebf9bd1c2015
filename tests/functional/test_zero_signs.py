"""Zeros of both signs and NaN at the bounds of activations, and divisions of 16-bit floats."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import lazyt
import lazyt.nn.functional as F

NAN = float("nan")
BOUNDED: dict[str, Callable[[Any], Any]] = {
    "relu": F.relu, "relu6": F.relu6, "hardtanh": lambda x: F.hardtanh(x, 0, 1),
    "relu_": lambda x: x.clone().relu_(), "clamp": lambda x: x.clamp(0, 6),
}  # fmt: skip


@pytest.mark.parametrize("interpret", [False, True])
def test_bounds_keep_zeros_and_nans(interpret: bool) -> None:
    x = lazyt.tensor([-0.0, 0.0, NAN, -1.0, 0.5])
    with lazyt.config.override(interpret=interpret):
        found = [function(x) for function in BOUNDED.values()]
        lazyt.realize(*found)
        for y in found:
            assert lazyt.signbit(y[:2]).tolist() == [True, False]
            assert y[2:].isnan().tolist() == [True, False, False]
            assert y[3:].tolist() == [0.0, 0.5]


def test_threshold_lets_nan_through() -> None:
    x = lazyt.tensor([NAN, 1.0, 2.0, 3.0])
    assert F.threshold(x, 2.0, 7.0).isnan().tolist() == [True, False, False, False]
    assert F.threshold(x, 2.0, 7.0)[1:].tolist() == [7.0, 7.0, 3.0]


def test_gradients_at_the_bounds() -> None:
    x = lazyt.tensor([-0.0, 0.0, 1.0, 6.0, -1.0, 7.0, NAN], requires_grad=True)
    for function, wanted in (
        (F.relu, [0, 0, 1, 1, 0, 1, 1]),
        (F.relu6, [0, 0, 1, 0, 0, 0, 1]),
    ):
        (found,) = lazyt.autograd.grad(function(x).sum(), x)
        assert found is not None and found.tolist() == wanted


@pytest.mark.parametrize("dtype", [lazyt.float16, lazyt.bfloat16])
def test_quotients_of_one_divisor_are_not_rounded_before_they_are_cut(dtype: Any) -> None:
    """PyTorch has a kernel for one divisor; that for several rounds the quotient first."""
    x = lazyt.tensor([0.5, -0.7], dtype=dtype)
    narrow = lazyt.div(x, 0.001, rounding_mode="trunc").tolist()
    wide = lazyt.div(x.float(), 0.001, rounding_mode="trunc").to(dtype).tolist()
    assert narrow == wide


@pytest.mark.parametrize("dtype", [lazyt.float16, lazyt.bfloat16])
def test_ties_beyond_16_bits_are_counted(dtype: Any) -> None:
    x = lazyt.ones(70000, dtype=dtype, requires_grad=True)
    for function in (lazyt.max, lazyt.amin, lazyt.median):
        (found,) = lazyt.autograd.grad(function(x), x)
        assert found is not None and found[0].item() == pytest.approx(1 / 70000, rel=0.01)


def test_out_decides_in_what_is_added() -> None:
    x = lazyt.tensor([2.0**24, 1.0, 1.0])
    out = lazyt.zeros(3, dtype=lazyt.float64)
    assert lazyt.cumsum(x, 0, out=out).tolist() == [2.0**24, 2.0**24 + 1, 2.0**24 + 2]
    total = lazyt.zeros((), dtype=lazyt.float64)
    assert lazyt.mean(x, 0, out=total).item() == (2.0**24 + 2) / 3
    whole = lazyt.zeros(2, dtype=lazyt.int16)
    assert lazyt.cumsum(lazyt.tensor([1.9, 1.9]), 0, out=whole).tolist() == [1, 2]


def test_out_of_a_wider_type_is_what_is_computed_in() -> None:
    x = lazyt.tensor([1.0, 2.5, 3.7])
    for function in (lazyt.std, lazyt.var, lazyt.logsumexp, lazyt.nanmean, lazyt.mean):
        out = lazyt.zeros((), dtype=lazyt.float64)
        assert function(x, 0, out=out).item() == function(x.double(), 0).item()
        narrow = lazyt.zeros((), dtype=lazyt.float16)
        assert function(x, 0, out=narrow).item() == function(x, 0).half().item()
    with pytest.raises(lazyt.errors.LazytError, match="Expected out tensor to have dtype float"):
        lazyt.cumsum(x, 0, dtype=lazyt.float32, out=lazyt.zeros(3, dtype=lazyt.float64))
