"""Random numbers: their distributions, and that seeds repeat them."""

from __future__ import annotations

import pytest

import lazyt as lt
from lazyt.nn import functional as F


def test_uniform_numbers() -> None:
    lt.manual_seed(0)
    x = lt.rand(20000)
    assert x.min().item() >= 0
    assert x.max().item() < 1
    assert abs(x.mean().item() - 0.5) < 0.01
    assert abs(x.var().item() - 1 / 12) < 0.003


def test_normal_numbers() -> None:
    lt.manual_seed(0)
    x = lt.randn(20000)
    assert abs(x.mean().item()) < 0.03
    assert abs(x.std().item() - 1) < 0.03
    assert abs((x**3).mean().item()) < 0.1
    assert abs((x**4).mean().item() - 3) < 0.3


@pytest.mark.parametrize("dtype", [lt.float16, lt.bfloat16, lt.float64])
def test_other_types_stay_below_one(dtype: lt.dtype) -> None:
    assert lt.rand(5000, dtype=dtype).float().max().item() < 1


def test_whole_numbers_cover_their_range() -> None:
    lt.manual_seed(0)
    assert set(lt.randint(-2, 3, (500,)).tolist()) == {-2, -1, 0, 1, 2}
    assert sorted(lt.randperm(50).tolist()) == [*range(50)]


def test_seeds_repeat_and_calls_differ() -> None:
    lt.manual_seed(3)
    first, second = lt.rand(4).tolist(), lt.rand(4).tolist()
    lt.manual_seed(3)
    assert lt.rand(4).tolist() == first
    assert first != second
    own = lt.Generator().manual_seed(3)
    assert lt.rand(4, generator=own).tolist() == first


def test_states_continue() -> None:
    state = lt.get_rng_state()
    first = lt.randn(3).tolist()
    lt.set_rng_state(state)
    assert lt.randn(3).tolist() == first


def test_dropout_keeps_the_mean() -> None:
    lt.manual_seed(0)
    y = F.dropout(lt.ones(20000), 0.25)
    assert abs(y.mean().item() - 1) < 0.02
    assert abs((y == 0).float().mean().item() - 0.25) < 0.02
    x = lt.ones(3)
    assert F.dropout(x, 0.5, training=False) is x
