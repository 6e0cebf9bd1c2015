"""Parameters outside of their sets are refused where the distribution is made."""

from __future__ import annotations

import pytest

import lazyt as lt


@pytest.mark.parametrize("wrong", [-0.5, 0.0, float("nan")])
def test_weights_of_a_beta_distribution_are_positive(wrong: float) -> None:
    with pytest.raises(ValueError, match="concentration"):
        lt.distributions.Beta(wrong, 2.0)
    with pytest.raises(ValueError, match="concentration"):
        lt.distributions.Beta(lt.tensor([2.0, 3.0]), lt.tensor([1.0, wrong]))
    lt.distributions.Beta(wrong, 2.0, validate_args=False)
