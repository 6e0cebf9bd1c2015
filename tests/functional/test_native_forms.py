"""What the samples cannot show of functions behind layers, and histograms of several dimensions."""

from __future__ import annotations

from typing import Any

import pytest

import lazyt
from lazyt import nn

POINTS = lazyt.tensor([[0.0, 1.0], [1.0, 0.0], [2.0, 0.1], [2.0, 2.0]])


def test_native_dropout_says_what_it_kept() -> None:
    x = lazyt.ones(4000)
    dropped, mask = lazyt.native_dropout(x, 0.25, None)
    lazyt.realize(dropped, mask)
    assert mask.dtype is lazyt.bool
    assert 0.7 < mask.float().mean().item() < 0.8
    assert lazyt.equal(dropped, mask * (4 / 3))
    none = lazyt.native_dropout(x, 1.0, True)
    assert [part.any().item() for part in none] == [False, False]
    with pytest.raises(ValueError, match="between 0 and 1"):
        lazyt.native_dropout(x, 2.0, True)


def test_cells_step_as_the_modules_do() -> None:
    x, state, memory = lazyt.randn(2, 3), lazyt.randn(2, 4), lazyt.randn(2, 4)
    for name, cell in (("gru", nn.GRUCell(3, 4)), ("lstm", nn.LSTMCell(3, 4))):
        parameters = (cell.weight_ih, cell.weight_hh, cell.bias_ih, cell.bias_hh)
        given = state if name == "gru" else (state, memory)
        got, wanted = getattr(lazyt, f"{name}_cell")(x, given, *parameters), cell(x, given)
        got, wanted = (r if name == "lstm" else [r] for r in (got, wanted))
        assert all(lazyt.allclose(a, b, atol=1e-6) for a, b in zip(got, wanted, strict=True))
    with pytest.raises(ValueError, match="two hidden states"):
        lazyt.lstm_cell(x, [state], cell.weight_ih, cell.weight_hh)


def test_convolution_goes_by_the_rank_of_the_weight() -> None:
    x, w = lazyt.randn(1, 2, 8), lazyt.randn(3, 2, 3)
    same = lazyt.convolution(x, w, None, [2], [1], [1], False, [0], 1)
    assert lazyt.allclose(same, nn.functional.conv1d(x, w, stride=2, padding=1))
    with pytest.raises(ValueError, match="3 to 5 dimensions"):
        lazyt.convolution(x, w[0], None, [1], [0], [1], False, [0], 1)


def test_histograms_of_points() -> None:
    edges = [lazyt.tensor([0.0, 1.0, 2.0]), lazyt.tensor([0.0, 3.0])]
    hist, bin_edges = lazyt.histogramdd(POINTS, edges)
    assert (hist.tolist(), [e.tolist() for e in bin_edges]) == (
        [[1.0], [3.0]],
        [[0.0, 1.0, 2.0], [0.0, 3.0]],
    )
    limits: Any = {"range": [0.0, 2.0, 0.0, 2.0], "weight": lazyt.tensor([1.0, 2.0, 3.0, 4.0])}
    dense = lazyt.histogramdd(POINTS, 3, density=True, **limits).hist
    wanted = lazyt.tensor([[0.0, 0.225, 0.0], [0.45, 0.0, 0.0], [0.675, 0.0, 0.9]])
    assert lazyt.allclose(dense, wanted)
    outside = lazyt.histogramdd(POINTS, [2, 3], range=[0.0, 1.0, 0.0, 0.5]).hist
    assert outside.tolist() == [[0.0, 0.0, 0.0], [1.0, 0.0, 0.0]]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"bins": [3]}, "size of bins must be equal to the innermost dimension"),
        ({"bins": [0, 2]}, "bins must be > 0, but got 0 for dimension 0"),
        ({"bins": 2, "range": [0.0, 1.0]}, "range should have 4 elements, but got 2"),
        ({"bins": 2, "weight": lazyt.ones(3)}, "excluding its innermost dimension"),
        ({"bins": 2, "weight": lazyt.ones(4).double()}, "should have the same dtype"),
    ],
)
def test_histograms_refuse_what_does_not_fit(arguments: Any, said: str) -> None:
    with pytest.raises(RuntimeError, match=said):
        lazyt.histogramdd(POINTS, **arguments)
