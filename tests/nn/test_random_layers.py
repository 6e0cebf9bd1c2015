"""Layers that draw random numbers: what they give on average, and that seeds repeat them."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

import lazyt
from lazyt import Tensor, nn
from lazyt.nn import functional as F

COUNT = 40_000


def ones(*shape: int) -> Tensor:
    made: Tensor = lazyt.ones(*shape)
    return made


DRAWS: list[tuple[str, Callable[[], Tensor]]] = [
    ("dropout", lambda: F.dropout(ones(50), 0.4)),
    ("dropout1d", lambda: F.dropout1d(ones(5, 8, 3), 0.4)),
    ("dropout3d", lambda: F.dropout3d(ones(5, 8, 2, 2, 2), 0.4)),
    ("alpha_dropout", lambda: F.alpha_dropout(ones(50), 0.4, True)),
    ("feature_alpha_dropout", lambda: F.feature_alpha_dropout(ones(5, 8, 3), 0.4, True)),
    ("rrelu", lambda: F.rrelu(-ones(50), training=True)),
    ("gumbel_softmax", lambda: F.gumbel_softmax(ones(20, 3))),
    (
        "fractional",
        lambda: F.fractional_max_pool2d(lazyt.arange(81.0).view(9, 9).expand(1, 9, 9, 9), 2, 4),
    ),
]


@pytest.mark.parametrize(("name", "draw"), DRAWS, ids=[name for name, _ in DRAWS])
def test_a_seed_repeats_its_numbers(name: str, draw: Callable[[], Tensor]) -> None:
    with lazyt.config.override(interpret=True):
        lazyt.manual_seed(3)
        first, other = draw(), draw()
        lazyt.manual_seed(3)
        again = draw()
        assert first.tolist() == again.tolist()
        assert first.tolist() != other.tolist()


def test_dropout_keeps_its_share_and_its_mean() -> None:
    lazyt.manual_seed(0)
    found = F.dropout(ones(COUNT), 0.3)
    kept = (found != 0).double().mean().item()
    assert kept == pytest.approx(0.7, abs=4 * math.sqrt(0.21 / COUNT))
    assert found.max().item() == pytest.approx(1 / 0.7)


def test_dropout_of_channels_drops_them_whole() -> None:
    lazyt.manual_seed(0)
    for found in (
        F.dropout1d(ones(200, 100, 3), 0.3).sum(-1),
        F.dropout2d(ones(200, 100, 3, 1), 0.3).sum((-2, -1)),
        F.dropout3d(ones(200, 100, 3, 1, 1), 0.3).sum((-3, -2, -1)),
    ):
        values = {round(v, 4) for row in found.tolist() for v in row}
        assert values == {0.0, round(3 / 0.7, 4)}
        share = (found != 0).double().mean().item()
        assert share == pytest.approx(0.7, abs=4 * math.sqrt(0.21 / 20_000))


def test_alpha_dropout_keeps_mean_and_variance() -> None:
    lazyt.manual_seed(0)
    x = lazyt.randn(COUNT)
    found = F.alpha_dropout(x, 0.25, True)
    assert found.mean().item() == pytest.approx(0, abs=0.03)
    assert found.var().item() == pytest.approx(1, abs=0.05)
    channels = F.feature_alpha_dropout(lazyt.randn(COUNT // 4, 4, 1), 0.25, True)
    assert channels.mean().item() == pytest.approx(0, abs=0.03)
    assert channels.var().item() == pytest.approx(1, abs=0.05)


def test_rrelu_draws_slopes_evenly() -> None:
    lazyt.manual_seed(0)
    slopes = -F.rrelu(-ones(COUNT), 0.2, 0.6, training=True)
    assert slopes.min().item() >= 0.2 and slopes.max().item() < 0.6
    assert slopes.mean().item() == pytest.approx(0.4, abs=0.003)
    assert slopes.std().item() == pytest.approx(0.4 / math.sqrt(12), rel=0.02)
    assert F.rrelu(ones(3), training=True).tolist() == [1.0] * 3
    assert nn.RReLU(0.2, 0.6).eval()(-ones(1)).item() == pytest.approx(-0.4)


def test_gumbel_softmax_draws_categories_by_their_shares() -> None:
    lazyt.manual_seed(0)
    shares = lazyt.tensor([0.1, 0.6, 0.3])
    drawn = F.gumbel_softmax(shares.log().expand(COUNT, 3), tau=0.5, hard=True)
    for found, wanted in zip(drawn.mean(0).tolist(), shares.tolist()):
        assert found == pytest.approx(wanted, abs=4 * math.sqrt(wanted * (1 - wanted) / COUNT))
    assert set(drawn.sum(1).tolist()) == {1.0}


def test_gumbel_softmax_passes_gradients_through_hard_samples() -> None:
    lazyt.manual_seed(0)
    logits = lazyt.zeros(4, 3, requires_grad=True)
    weights = lazyt.tensor([1.0, 2.0, 3.0])
    (F.gumbel_softmax(logits, hard=True) * weights).sum().backward()
    assert logits.grad is not None
    assert logits.grad.abs().sum().item() > 0.1
    assert logits.grad.sum(1).abs().max().item() == pytest.approx(0, abs=1e-6)


def test_fractional_pooling_covers_the_image_at_random() -> None:
    lazyt.manual_seed(0)
    image = lazyt.arange(121.0).view(1, 1, 11, 11).expand(30, 20, 11, 11)
    found, places = F.fractional_max_pool2d(image, 2, 5, return_indices=True)
    assert found.tolist() == places.tolist()  # every element is its own position
    rows = places[..., 0] // 11  # of the first column of windows
    steps = rows[..., 1:] - rows[..., :-1]
    assert set(steps.flatten().tolist()) <= {2, 3}
    assert rows[..., -1].min().item() == rows[..., -1].max().item() == 10
    assert 0.1 < (steps == 3).double().mean().item() < 0.9


def test_a_dropped_element_has_no_gradient() -> None:
    lazyt.manual_seed(0)
    x = lazyt.ones(1000, requires_grad=True)
    found = F.dropout(x, 0.5)
    found.sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == found.tolist()
    with pytest.raises(ValueError, match="between 0 and 1"):
        F.dropout(x, 1.5)
