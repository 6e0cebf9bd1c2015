"""Sobol sequences: PyTorch's points, and how even they are."""

from __future__ import annotations

import pytest

import lazyt
from lazyt.errors import LazytError
from lazyt.quasirandom import SobolEngine

#: What PyTorch 2.13 draws first in five dimensions.
FIRST = [
    [0.0, 0.0, 0.0, 0.0, 0.0],
    [0.5, 0.5, 0.5, 0.5, 0.5],
    [0.75, 0.25, 0.25, 0.25, 0.75],
    [0.25, 0.75, 0.75, 0.75, 0.25],
    [0.375, 0.375, 0.625, 0.875, 0.375],
    [0.875, 0.875, 0.125, 0.375, 0.875],
    [0.625, 0.125, 0.875, 0.625, 0.625],
    [0.125, 0.625, 0.375, 0.125, 0.125],
    [0.1875, 0.3125, 0.9375, 0.4375, 0.5625],
]


def test_points_are_those_of_pytorch() -> None:
    engine = SobolEngine(5)
    assert engine.draw(4).tolist() == FIRST[:4] and engine.draw(5).tolist() == FIRST[4:]
    assert engine.reset().fast_forward(8).draw().tolist() == FIRST[8:]
    many = SobolEngine(1111)
    points = many.draw(300)
    assert float(points.double().sum()) == 166095.7109375  # PyTorch's, too
    assert many.draw(0).shape == (0, 1111)


@pytest.mark.parametrize("scramble", [False, True])
def test_every_interval_has_its_share(scramble: bool) -> None:
    engine = SobolEngine(20, scramble, seed=4 if scramble else None)
    points = engine.draw_base2(8)
    for column in points.unbind(1):
        assert lazyt.histc(column, 256, 0, 1).tolist() == [1.0] * 256
    pairs = (points[:, :2] * 16).long()
    assert (pairs[:, 0] * 16 + pairs[:, 1]).unique().numel() == 256
    with pytest.raises(ValueError, match="require n to be a power of 2"):
        engine.draw_base2(3)
    assert engine.draw_base2(8).shape == (256, 20) and engine.num_generated == 512


def test_scrambling_depends_on_the_seed() -> None:
    first, again, other = (SobolEngine(3, True, seed).draw(8) for seed in (1, 1, 2))
    assert lazyt.equal(first, again) and not lazyt.equal(first, other)
    lazyt.manual_seed(5)
    one = SobolEngine(3, True).draw(8)
    lazyt.manual_seed(5)
    assert lazyt.equal(one, SobolEngine(3, True).draw(8))


def test_dtypes_places_and_errors() -> None:
    assert SobolEngine(2).draw(4, dtype=lazyt.float64).dtype == lazyt.float64
    out = lazyt.empty(0)
    assert SobolEngine(2).draw(3, out=out) is out and out.shape == (3, 2)
    assert repr(SobolEngine(3, True, 4)) == "SobolEngine(dimension=3, scramble=True, seed=4)"
    for dimension in (0, 1112):
        with pytest.raises(ValueError, match="Supported range of dimensionality"):
            SobolEngine(dimension)
    with pytest.raises(LazytError):
        SobolEngine(2).draw(-1)
