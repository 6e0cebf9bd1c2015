"""Functions of ``lazyt.masked``: what does not count, where nothing counts, and refusals."""

from __future__ import annotations

import math
from typing import Any

import pytest

import lazyt
from lazyt import masked

X = lazyt.tensor([[1.0, 5.0, 3.0], [4.0, 2.0, 9.0]], dtype=lazyt.float64)
MASK = lazyt.tensor([[True, False, True], [False, False, False]])


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("sum", [4.0, 0.0]), ("prod", [3.0, 1.0]), ("amax", [3.0, -math.inf]),
        ("amin", [1.0, math.inf]), ("mean", [2.0, math.nan]), ("median", [1.0, math.nan]),
        ("var", [2.0, math.nan]), ("logsumexp", [math.log(math.e + math.e**3), -math.inf]),
    ],
)  # fmt: skip
def test_rows_in_which_nothing_counts(name: str, wanted: list[float]) -> None:
    found = getattr(masked, name)(X, dim=1, mask=MASK)
    assert found.tolist() == pytest.approx(wanted, nan_ok=True)


def test_values_that_do_not_count_have_no_part() -> None:
    wild = lazyt.where(MASK, X, lazyt.tensor(math.nan, dtype=X.dtype))
    for name in ("sum", "prod", "amax", "norm", "logsumexp"):
        of_both = [getattr(masked, name)(t, mask=MASK).item() for t in (X, wild)]
        assert of_both[0] == of_both[1]


def test_gradients_reach_what_counts_alone() -> None:
    x = X.clone().requires_grad_()
    masked.softmax(x[:1], 1, mask=MASK[:1])[0, 0].backward()
    assert x.grad is not None
    e = math.exp(1 - 3)
    slope = e / (1 + e) ** 2
    assert x.grad[0].tolist() == pytest.approx([slope, 0.0, -slope])
    assert x.grad[1].tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize(
    "name", ["sum", "mean", "var", "logsumexp", "norm", "std", "prod", "cumsum", "cumprod"]
)
def test_gradients_are_finite_differences(name: str) -> None:
    x = X.clone().requires_grad_()
    mask = lazyt.tensor([[True, False, True], [True, True, False]])
    function: Any = getattr(masked, name)
    assert lazyt.autograd.gradcheck(lambda t: function(t, dim=1, mask=mask), (x,))


def test_gradients_of_complex_numbers() -> None:
    x = lazyt.complex(X, X.flip(1) / 4).requires_grad_()
    mask = lazyt.tensor([True, True, False])
    for name in ("sum", "mean", "var", "prod"):
        function: Any = getattr(masked, name)
        assert lazyt.autograd.gradcheck(lambda t, f=function: f(t, dim=1, mask=mask), (x,))


def test_masks_are_broadcast_and_need_not_be_bool() -> None:
    mask = lazyt.tensor([1, 0, 2])
    assert masked.sum(X, 1, mask=mask).tolist() == [4.0, 13.0]
    with pytest.raises(IndexError, match="fewer dimensions"):
        masked.sum(X, 1, mask=MASK.unsqueeze(0))
    with pytest.raises(RuntimeError):
        masked.sum(X, 1, mask=lazyt.tensor([True, False]))


def test_whole_numbers() -> None:
    x, mask = lazyt.tensor([[7, -3], [2, 8]]), lazyt.tensor([[True, False], [True, True]])
    assert masked.amin(x, 1, mask=~mask).tolist() == [-3, 2**63 - 1]
    assert masked.argmax(x, 1, mask=mask).tolist() == [0, 1]
    assert masked.mean(x, 1, mask=mask, dtype=lazyt.float32).tolist() == [7.0, 5.0]
    assert masked.median(x, 1, mask=mask).tolist() == [7, 2]
    with pytest.raises(ValueError, match="floating point"):
        masked.mean(x, mask=mask)
    with pytest.raises(ValueError, match="fully masked out"):
        masked.median(x, 1, mask=~mask)


def test_dtypes_in_which_nothing_stands_for_what_is_missing() -> None:
    with pytest.raises(NotImplementedError, match="identity of amax"):
        masked.amax(MASK, mask=MASK)
    with pytest.raises(NotImplementedError, match="identity of argmin"):
        masked.argmin(lazyt.complex(X, X), mask=MASK)


def test_wrong_dimensions() -> None:
    with pytest.raises(IndexError, match="out of range"):
        masked.sum(X, 2, mask=MASK)
    with pytest.raises(RuntimeError, match="multiple times"):
        masked.sum(X, (0, -2), mask=MASK)
    with pytest.raises(RuntimeError, match="Only one of unbiased and correction"):
        masked.var(X, 1, True, correction=1, mask=MASK)


def test_tensors_with_a_mask_are_refused() -> None:
    with pytest.raises(AttributeError, match=r"as torch\.masked"):
        _ = masked.masked_tensor  # type: ignore[attr-defined]
