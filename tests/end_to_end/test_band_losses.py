"""Cross-entropy of a linear layer, band by band: without its scores in memory."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable

import pytest

import lazyt
import lazyt.nn.functional as F
from lazyt.handle.tensor import Tensor
from tests.end_to_end.band_cases import check_band, drawn, groups_of, small_cache  # noqa: F401

pytestmark = pytest.mark.lazy  # bands are what becomes of whole graphs

_WEIGHTS = (lazyt.arange(90) / 90).realize()
_LOSSES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "mean": F.cross_entropy,
    "sum": lambda x, t: F.cross_entropy(x, t, reduction="sum"),
    "ignored": lambda x, t: F.cross_entropy(x, t, ignore_index=3),
    "weighted": lambda x, t: F.cross_entropy(x, t, weight=_WEIGHTS),
    "smoothed": lambda x, t: F.cross_entropy(x, t, label_smoothing=0.1),
    "nll": lambda x, t: F.nll_loss(x.log_softmax(-1), t),
}


@pytest.mark.parametrize("loss", _LOSSES.values(), ids=_LOSSES)
def test_cross_entropy_without_its_scores_in_memory(loss: Callable[..., Tensor]) -> None:
    """The fold over all rows is a launch of its own, and reads a number for each of them."""
    x, weight, bias = drawn(67, 24), drawn(90, 24), drawn(90)
    targets = (lazyt.arange(67) * 7 % 90).realize()
    band = check_band(lambda: loss(F.linear(x, weight, bias), targets), stages=2)
    assert max(n.size for n in band.stored) == 67


@pytest.mark.parametrize("dtype", [lazyt.float64, lazyt.bfloat16, lazyt.float16], ids=str)
def test_cross_entropy_of_other_types_has_the_same_bits(dtype: lazyt.dtype) -> None:
    x, weight = drawn(200, 24, dtype=dtype), drawn(80, 24, dtype=dtype)
    targets = (lazyt.arange(200) * 7 % 80).realize()
    check_band(lambda: F.cross_entropy(F.linear(x, weight), targets), stages=2)


def test_cross_entropy_of_a_step_of_training() -> None:
    """What the weights' gradient reads is stored, the scores are not."""
    x, weight = (drawn(*s).requires_grad_() for s in ((67, 16), (80, 16)))
    targets = (lazyt.arange(67) * 7 % 80).realize()

    def build() -> tuple[Tensor, ...]:
        loss = F.cross_entropy(F.linear(x, weight), targets)
        found = lazyt.autograd.grad(loss, [x, weight])
        return loss.detach(), *(g for g in found if g is not None)

    band = check_band(build, stages=3)
    assert sorted(n.shape for n in band.stored) == [(67,), (67, 16), (67, 80)]


def test_the_last_product_is_left_out_where_operands_are_large() -> None:
    """Wide weights are not packed twice for what one band of them saves."""
    x, first, second = drawn(67, 24), drawn(90, 24), drawn(400, 90)
    (band,) = [
        g for g in groups_of(F.linear(F.gelu(F.linear(x, first)).softmax(-1), second)) if g.stages
    ]
    assert [stage.group.kind for stage in band.stages] == ["contract", "row"]


def test_bands_are_higher_where_operands_leave_the_cache() -> None:
    """Each element of the operands is read for as many rows as in a plain product."""
    x, small, large = drawn(800, 48), drawn(80, 48), drawn(100, 48)
    heights = []

    def largest(weight: Tensor) -> Tensor:
        return F.linear(x, weight).log_softmax(-1).amax(-1)

    for weight in (small, large):
        build = functools.partial(largest, weight)
        check_band(build, stages=2)
        text = str(lazyt.explain(build()))
        found = re.search(r"bands of (\d+) rows", text)
        assert found is not None
        heights.append(int(found[1]))
    assert heights[0] < 60 < heights[1]
