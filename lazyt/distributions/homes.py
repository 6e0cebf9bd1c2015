"""``torch.distributions``' own modules, and the helpers that packages take from them."""

from __future__ import annotations

from typing import Any

from lazyt import linalg
from lazyt.distributions import distribution, multivariate
from lazyt.distributions.multivariate import half_log_det, mahalanobis
from lazyt.functional import namespace as lazyt
from lazyt.functional.namespace import Tensor

#: Classes by the modules that PyTorch has them in.
CLASSES = {
    "bernoulli": "Bernoulli", "beta": "Beta", "binomial": "Binomial",
    "categorical": "Categorical", "cauchy": "Cauchy", "chi2": "Chi2",
    "continuous_bernoulli": "ContinuousBernoulli", "dirichlet": "Dirichlet",
    "exp_family": "ExponentialFamily", "exponential": "Exponential",
    "fishersnedecor": "FisherSnedecor", "gamma": "Gamma", "geometric": "Geometric",
    "gumbel": "Gumbel", "half_cauchy": "HalfCauchy", "half_normal": "HalfNormal",
    "independent": "Independent", "inverse_gamma": "InverseGamma", "kumaraswamy": "Kumaraswamy",
    "lkj_cholesky": "LKJCholesky",
    "laplace": "Laplace", "log_normal": "LogNormal", "logistic_normal": "LogisticNormal",
    "mixture_same_family": "MixtureSameFamily", "multinomial": "Multinomial",
    "negative_binomial": "NegativeBinomial", "normal": "Normal",
    "one_hot_categorical": "OneHotCategorical OneHotCategoricalStraightThrough",
    "pareto": "Pareto", "poisson": "Poisson",
    "relaxed_bernoulli": "LogitRelaxedBernoulli RelaxedBernoulli",
    "relaxed_categorical": "ExpRelaxedCategorical RelaxedOneHotCategorical",
    "studentT": "StudentT", "transformed_distribution": "TransformedDistribution",
    "uniform": "Uniform", "von_mises": "VonMises", "weibull": "Weibull",
    "wishart": "Wishart",
}  # fmt: skip


def batch_mv(bmat: Tensor, bvec: Tensor) -> Tensor:
    """Matrices times vectors, each with any leading dimensions."""
    found: Tensor = (bmat @ bvec.unsqueeze(-1)).squeeze(-1)
    return found


def batch_mahalanobis(bL: Tensor, bx: Tensor) -> Tensor:
    """The squared length of ``bL^-1 @ bx`` for lower triangular matrices."""
    return mahalanobis(bL, bx)


def capacitance_factor(W: Tensor, D: Tensor) -> Tensor:
    """The Cholesky factor of ``I + W.mT @ diag(D)^-1 @ W``."""
    inner = (W.mT / D.unsqueeze(-2)) @ W
    found: Tensor = linalg.cholesky(inner + lazyt.eye(inner.shape[-1], dtype=inner.dtype))
    return found


def low_rank_log_det(W: Tensor, D: Tensor, capacitance_tril: Tensor) -> Tensor:
    """``log det(W @ W.mT + diag(D))``."""
    return 2 * half_log_det(capacitance_tril) + D.log().sum(-1)


def low_rank_mahalanobis(W: Tensor, D: Tensor, x: Tensor, capacitance_tril: Tensor) -> Tensor:
    """``x @ (W @ W.mT + diag(D))^-1 @ x``."""
    scaled = W.mT / D.unsqueeze(-2)
    return (x.pow(2) / D).sum(-1) - mahalanobis(capacitance_tril, batch_mv(scaled, x))


def standard_normal(shape: Any, dtype: Any, device: Any) -> Tensor:
    """Normal numbers."""
    return lazyt.randn(tuple(shape), dtype=dtype, device=device)


def helpers() -> dict[str, dict[str, Any]]:
    """By module: the functions that packages import from it."""
    normals = {
        "MultivariateNormal": multivariate.MultivariateNormal, "_batch_mv": batch_mv,
        "_batch_mahalanobis": batch_mahalanobis,
        "_precision_to_scale_tril": multivariate.factor_of_precision,
    }  # fmt: skip
    low_rank = {
        "LowRankMultivariateNormal": multivariate.LowRankMultivariateNormal,
        "_batch_mv": batch_mv, "_batch_mahalanobis": batch_mahalanobis,
        "_batch_capacitance_tril": capacitance_factor, "_batch_lowrank_logdet": low_rank_log_det,
        "_batch_lowrank_mahalanobis": low_rank_mahalanobis,
    }  # fmt: skip
    utils = {name: getattr(distribution, name) for name in distribution.__all__} | {
        "_sum_rightmost": distribution.sum_rightmost, "_standard_normal": standard_normal,
    }  # fmt: skip
    return {
        "multivariate_normal": normals, "lowrank_multivariate_normal": low_rank, "utils": utils,
    }  # fmt: skip
