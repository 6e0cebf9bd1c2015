"""Distributions beside values recorded from PyTorch, and their rules about arguments."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lazyt
from lazyt import Tensor
from lazyt import distributions as D
from lazyt.runtime.interpreter import interpret

RECORDED = json.loads((Path(__file__).parent / "recorded.json").read_text())


def t(values: Any) -> Tensor:
    return lazyt.tensor(values, dtype=lazyt.float64)


def numbers(x: Tensor) -> np.ndarray:
    return interpret([x.node])[0]


a, b, c = t([0.5, 1.0, 2.5]), t([0.3, 1.2, 3.0]), t([0.2, 0.5, 0.9])
r = t([[-1.0, 0.3, 2.0], [0.4, 0.1, -2.0]])
M = t([[2.0, 0.5], [0.5, 1.0]])
W = t([[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]])
counts, bits = t([0.0, 4.0, 5.0]), t([0.0, 1.0, 1.0])

CASES: dict[str, Callable[[], tuple[Any, Tensor]]] = {
    "Normal": lambda: (D.Normal(r, a), r + 0.3),
    "Laplace": lambda: (D.Laplace(r, a), r * 2 + 0.1),
    "Cauchy": lambda: (D.Cauchy(r, a), r * 3),
    "StudentT": lambda: (D.StudentT(b, r, a), r * 2),
    "Exponential": lambda: (D.Exponential(a), b),
    "Gamma": lambda: (D.Gamma(a, b), c),
    "Dirichlet": lambda: (D.Dirichlet(W * 5), W),
    "Beta": lambda: (D.Beta(a, b), c),
    "Fisher": lambda: (D.FisherSnedecor(a, b * 2), c),
    "VonMises": lambda: (D.VonMises(r, a * 10), r),
    "Bernoulli": lambda: (D.Bernoulli(c), bits),
    "Geometric": lambda: (D.Geometric(c), t([0.0, 4.0, 2.0])),
    "Binomial": lambda: (D.Binomial(5, c), counts),
    "NegBin": lambda: (D.NegativeBinomial(b, c), counts),
    "Poisson": lambda: (D.Poisson(b), counts),
    "Categorical": lambda: (D.Categorical(W * 2), lazyt.tensor([1, 2])),
    "OneHot": lambda: (D.OneHotCategorical(W), t([[0, 1, 0], [1, 0, 0]])),
    "Multinomial": lambda: (D.Multinomial(4, W), t([[1, 2, 1], [4, 0, 0]])),
    "Gumbel": lambda: (D.Gumbel(r, a), r * 2),
    "HalfNormal": lambda: (D.HalfNormal(a), b),
    "HalfCauchy": lambda: (D.HalfCauchy(a), b),
    "LogNormal": lambda: (D.LogNormal(r, a), b),
    "InverseGamma": lambda: (D.InverseGamma(a, b), c),
    "Pareto": lambda: (D.Pareto(a, b), a + 1),
    "Weibull": lambda: (D.Weibull(a, b), c),
    "MVN": lambda: (D.MultivariateNormal(t([1, 2]), M), t([[0, 1], [2, 2]])),
    "LowRank": lambda: (
        D.LowRankMultivariateNormal(t([1, 2, 0]), t([[1], [2], [0.5]]), a),
        r,
    ),
    "Independent": lambda: (D.Independent(D.Normal(r, a), 1), r * 2),
    "Mixture": lambda: (
        D.MixtureSameFamily(D.Categorical(W[0]), D.Normal(r, a)),
        t([0.3, 0.4]),
    ),
    "Transformed": lambda: (
        D.TransformedDistribution(D.Normal(r, a), [D.ExpTransform(), D.AffineTransform(1.0, -2.0)]),
        -b + 0.5,
    ),
    "Transformed4": lambda: (
        D.TransformedDistribution(D.Normal(t([0, 0]), 1.0), D.StickBreakingTransform()),
        W,
    ),
    "RelaxedB": lambda: (D.RelaxedBernoulli(t(0.7), c), t([0.2, 0.3, 0.4])),
    "RelaxedO": lambda: (D.RelaxedOneHotCategorical(t(0.7), W), W),
    "LKJ": lambda: (
        D.LKJCholesky(3, a),
        lazyt.linalg.cholesky(t([[1, 0.2, -0.3], [0.2, 1, 0.5], [-0.3, 0.5, 1]])),
    ),
    "Wishart": lambda: (D.Wishart(t([2.0, 3.5]), M), t([[1.2, 0.1], [0.1, 0.8]])),
    "WishartP": lambda: (D.Wishart(5, precision_matrix=M), t([[1.2, 0.1], [0.1, 0.8]])),
    "CB": lambda: (D.ContinuousBernoulli(c), t([0.2, 0.3, 0.4])),
}


@pytest.mark.parametrize("name", sorted(CASES))
def test_values_are_pytorchs(name: str) -> None:
    distribution, value = CASES[name]()
    found = {
        "log_prob": lambda: distribution.log_prob(value),
        "cdf": lambda: distribution.cdf(value),
        "icdf": lambda: distribution.icdf(c),
        "entropy": lambda: distribution.entropy(),
        "mean": lambda: distribution.mean,
        "stddev": lambda: distribution.stddev,
    }
    # PyTorch's Bessel functions here are good for 7 digits.
    close = 1e-5 if name == "VonMises" else 2e-7
    for what, expected in RECORDED[name].items():
        wanted = json.loads(json.dumps(expected).replace('"nan"', "NaN"))
        wanted = np.asarray(wanted, np.float64)
        wanted[wanted == 1e308] = math.inf
        np.testing.assert_allclose(
            numbers(found[what]()), wanted, close, 1e-9, err_msg=f"{name}.{what}"
        )


def test_divergences_are_pytorchs() -> None:
    gamma = D.kl_divergence(D.Gamma(a, b), D.Gamma(b, c))
    expected = [0.08570391245487358, 0.4972981944683371, 1.9188044027422115]
    np.testing.assert_allclose(numbers(gamma), expected, 1e-9)
    beta = D.kl_divergence(D.Beta(a, b), D.Beta(b, c))
    expected = [0.0779417575687657, 0.4060885941176071, 1.0804467352921585]
    np.testing.assert_allclose(numbers(beta), expected, 1e-9)
    assert numbers(D.kl_divergence(D.Normal(0.0, 1.0), D.Gamma(1.0, 1.0))) == math.inf
    with pytest.raises(NotImplementedError, match="p type Cauchy and q type Normal"):
        D.kl_divergence(D.Cauchy(0.0, 1.0), D.Normal(0.0, 1.0))


def test_divergence_of_a_family_is_found_by_differentiation() -> None:
    family = D.kl._families(D.Gamma(a, b), D.Gamma(b, c))
    direct = D.kl_divergence(D.Gamma(a, b), D.Gamma(b, c))
    np.testing.assert_allclose(numbers(family), numbers(direct), 1e-9)


def test_known_parameters_and_values_are_checked() -> None:
    with pytest.raises(ValueError, match=r"parameter scale \(Tensor of shape \(\)\)"):
        D.Normal(0.0, -1.0)
    with pytest.raises(ValueError, match="satisfy the constraint Simplex"):
        D.Categorical(t([0.3, -0.7]))
    with pytest.raises(ValueError, match=r"within the support \(Boolean\(\)\)"):
        D.Bernoulli(0.3).log_prob(t(0.5))
    with pytest.raises(ValueError, match="Value is not broadcastable"):
        D.Normal(t([0.0, 1.0]), 1.0).log_prob(c)
    with pytest.raises(ValueError, match="Either `probs` or `logits`"):
        D.Bernoulli()


@pytest.mark.lazy
def test_pending_parameters_that_are_not_checked_stay_pending() -> None:
    scale = t([1.0, 2.0]) - 3
    made = D.Normal(0.0, scale, validate_args=False)
    made.log_prob(made.mean)
    assert scale.node.data is None


def test_text_and_shapes() -> None:
    assert repr(D.Normal(0.0, 1.0)) == "Normal(loc: 0.0, scale: 1.0)"
    assert repr(D.Independent(D.Normal(r, a), 1)) == (
        "Independent(Normal(loc: lazyt.Size([2, 3]), scale: lazyt.Size([2, 3])), 1)"
    )
    wide = D.MultivariateNormal(t([1, 2]), M).expand([4])
    assert (wide.batch_shape, wide.event_shape) == ((4,), (2,))
    assert wide.sample((3,)).shape == (3, 4, 2)
    assert D.Categorical(W).enumerate_support().shape == (3, 2)


def test_draws_follow_their_law_and_carry_gradients() -> None:
    lazyt.manual_seed(3)
    shape = t([0.4, 2.0, 30.0]).requires_grad_()
    drawn = D.Gamma(shape, 2.0).rsample((800,))
    mean = drawn.mean(0)
    slope = lazyt.autograd.grad(mean.sum(), shape)[0]
    assert slope is not None
    places = D.Gamma(shape.detach(), 2.0).cdf(drawn.detach()).sort(0).values
    means, slopes, order = (numbers(x) for x in (mean, slope, places))
    np.testing.assert_allclose(means, [0.2, 1.0, 15.0], 0.25)
    np.testing.assert_allclose(slopes, [0.5, 0.5, 0.5], 0.35)
    even = (np.arange(800) + 0.5)[:, None] / 800
    assert np.abs(order - even).max() * math.sqrt(800) < 2.2  # Kolmogorov and Smirnov: 1e-4


def test_draws_of_correlations() -> None:
    lazyt.manual_seed(1)
    law = D.LKJCholesky(3, t([1.0, 4.0]))
    factors = law.sample((3000,))
    assert tuple(factors.shape) == (3000, 2, 3, 3) and factors.dtype == lazyt.float64
    law._validate_sample(factors)
    found = numbers(factors @ factors.mT)
    np.testing.assert_allclose(np.diagonal(found, axis1=-2, axis2=-1), 1, atol=1e-12)
    # Each correlation has the law of 2 * Beta(a, a) - 1 with a = concentration + (dim - 2) / 2.
    for place, a in enumerate((1.5, 4.5)):
        for i, j in ((1, 0), (2, 0), (2, 1)):
            np.testing.assert_allclose(found[:, place, i, j].mean(), 0, atol=0.05)
            np.testing.assert_allclose(found[:, place, i, j].var(), 1 / (2 * a + 1), rtol=0.15)
    assert law.expand((5, 2)).sample().shape == (5, 2, 3, 3)
    with pytest.raises(ValueError, match=r"greater than or equal to 2\. Found dim=1"):
        D.LKJCholesky(1)


def test_draws_of_sums_of_outer_products() -> None:
    lazyt.manual_seed(1)
    factor = t([[1.2, 0.0], [0.5, 0.8]]).requires_grad_()
    law = D.Wishart(t([3.0, 6.5]), scale_tril=factor)
    drawn = law.rsample((4000,))
    assert tuple(drawn.shape) == (4000, 2, 2, 2)
    law._validate_sample(drawn.detach())
    found = numbers(drawn.detach())
    np.testing.assert_allclose(found.mean(0), numbers(law.mean.detach()), rtol=0.1)
    np.testing.assert_allclose(found.std(0), numbers(law.stddev.detach()), rtol=0.1)
    drawn.mean().backward()
    assert factor.grad is not None and bool(factor.grad.isfinite().all())
    assert numbers(D.Wishart(4.0, M).mode).tolist() == numbers(M).tolist()
    assert law.expand((5, 2)).log_prob(M).shape == (5, 2)


def test_wrong_sums_of_outer_products_are_refused() -> None:
    with pytest.raises(ValueError, match="Exactly one of"):
        D.Wishart(3.0, M, M)
    with pytest.raises(ValueError, match="at least two-dimensional"):
        D.Wishart(3.0, t([1.0]))
    with pytest.raises(ValueError, match=r"df=1.0 expected to be greater than ndim - 1 = 1"):
        D.Wishart(1.0, M)
    with pytest.warns(UserWarning, match="Low df values detected"):
        D.Wishart(1.5, M)
