"""Python integers beyond 64 bits raise what PyTorch raises, and never wrap around in silence."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

import lazyt
import lazyt.nn.functional as F

BIG = 2**70
WHOLE, FRACTIONS = lazyt.tensor([1, 2]), lazyt.tensor([1.0, 2.0])


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x + BIG,
        lambda x: BIG - x,
        lambda x: x * -BIG,
        lambda x: x / BIG,
        lambda x: x // BIG,
        lambda x: x**BIG,
        lambda x: x == BIG,
        lambda x: x < BIG,
        lambda x: x.clone().add_(BIG),
        lambda x: x.clone().fill_(BIG),
        lambda x: x.clamp(max=BIG),
        lambda x: x.masked_fill(x > 0, BIG),
        lambda x: lazyt.where(x > 0, x, BIG),
        lambda x: lazyt.full_like(x, BIG),
        lambda x: lazyt.full((2,), BIG, dtype=x.dtype),
        lambda x: lazyt.add(x, x, alpha=BIG),
        lambda x: lazyt.jit(lambda y: y + BIG)(x),
    ],
)
def test_operations_refuse_integers_beyond_64_bits(call: Callable[[lazyt.Tensor], Any]) -> None:
    for x in (WHOLE, FRACTIONS):
        with pytest.raises(OverflowError, match="int too big to convert"):
            call(x)


def test_tensors_refuse_integers_beyond_64_bits() -> None:
    for value in (BIG, 2**63, -(2**63) - 1, [1, BIG]):
        with pytest.raises(ValueError, match="Overflow when unpacking long long"):
            lazyt.tensor(value)
    assert lazyt.tensor(-(2**63)).item() == -(2**63)


def test_integers_of_64_bits_wrap_around_as_in_pytorch() -> None:
    assert (WHOLE + (2**63 - 1)).tolist() == [-(2**63), -(2**63) + 1]
    assert (WHOLE * 2**63).tolist() == [-(2**63), 0]
    assert (FRACTIONS + 2**63).tolist() == [2.0**63, 2.0**63]


@pytest.mark.parametrize("p", [-0.5, 1.5, math.nan])
def test_bernoulli_refuses_what_is_no_probability(p: float) -> None:
    with pytest.raises(RuntimeError, match=r"expects p to be in \[0, 1\]"):
        lazyt.bernoulli(FRACTIONS, p)
    with pytest.raises(RuntimeError, match=r"expects p to be in \[0, 1\]"):
        FRACTIONS.clone().bernoulli_(p)
    with pytest.raises(RuntimeError, match="p_in >= 0 && p_in <= 1"):
        lazyt.bernoulli(lazyt.tensor([p])).tolist()


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_a_loss_of_nothing_is_no_negative_zero(count: int, reduction: str) -> None:
    scores, classes = lazyt.tensor([[100.0, -100.0]] * count), lazyt.tensor([0] * count)
    losses = [
        F.cross_entropy(scores, classes, reduction=reduction),
        F.nll_loss(lazyt.zeros(count, 2), classes, reduction=reduction),
        F.nll_loss(lazyt.zeros(count, 2), classes, lazyt.ones(2), reduction=reduction),
        F.cross_entropy(scores[0], classes[0], reduction="none"),
    ]
    assert [math.copysign(1, loss.item()) for loss in losses] == [1.0] * 4
    each = F.cross_entropy(scores, classes, reduction="none")
    assert [math.copysign(1, loss) for loss in each.tolist()] == [-1.0] * count
