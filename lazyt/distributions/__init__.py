"""Probability distributions under the names of ``torch.distributions``, over real tensors.

Parameters and values are checked where they are known; those that are still to be computed stay
pending, and wrong ones give NaN. Draws follow the same laws as PyTorch's, not the same numbers.
"""

from lazyt.compat.absent import explain_absence as _explain_absence
from lazyt.compat.homes import add_homes as _add_homes
from lazyt.compat.homes import class_homes as _class_homes
from lazyt.distributions import constraint_registry as constraint_registry
from lazyt.distributions import constraints as constraints
from lazyt.distributions import homes as _homes
from lazyt.distributions import relaxed as _relaxed
from lazyt.distributions import transforms as transforms
from lazyt.distributions.carried import (
    Gumbel,
    HalfCauchy,
    HalfNormal,
    InverseGamma,
    Kumaraswamy,
    LogisticNormal,
    LogNormal,
    Pareto,
    Weibull,
)
from lazyt.distributions.compounds import Independent, MixtureSameFamily, TransformedDistribution
from lazyt.distributions.constraint_registry import biject_to, transform_to
from lazyt.distributions.continuous import (
    Beta,
    Cauchy,
    Chi2,
    Dirichlet,
    Exponential,
    FisherSnedecor,
    Gamma,
    Laplace,
    Normal,
    StudentT,
    Uniform,
    VonMises,
)
from lazyt.distributions.discrete import (
    Bernoulli,
    Binomial,
    Categorical,
    Geometric,
    Multinomial,
    NegativeBinomial,
    OneHotCategorical,
    OneHotCategoricalStraightThrough,
    Poisson,
)
from lazyt.distributions.distribution import Distribution, ExponentialFamily
from lazyt.distributions.kl import kl_divergence, register_kl
from lazyt.distributions.matrices import LKJCholesky, Wishart
from lazyt.distributions.multivariate import LowRankMultivariateNormal, MultivariateNormal
from lazyt.distributions.relaxed import (
    ContinuousBernoulli,
    RelaxedBernoulli,
    RelaxedOneHotCategorical,
)
from lazyt.distributions.transforms import *  # noqa: F403
from lazyt.distributions.transforms import __all__ as _transform_names

__all__ = [
    "Bernoulli", "Beta", "Binomial", "Categorical", "Cauchy", "Chi2", "ContinuousBernoulli",
    "Dirichlet", "Distribution", "Exponential", "ExponentialFamily", "FisherSnedecor", "Gamma",
    "Geometric", "Gumbel", "HalfCauchy", "HalfNormal", "Independent", "InverseGamma",
    "Kumaraswamy", "LKJCholesky", "Laplace", "LogNormal", "LogisticNormal",
    "LowRankMultivariateNormal",
    "MixtureSameFamily", "Multinomial", "MultivariateNormal", "NegativeBinomial", "Normal",
    "OneHotCategorical", "OneHotCategoricalStraightThrough", "Pareto", "Poisson",
    "RelaxedBernoulli", "RelaxedOneHotCategorical", "StudentT", "TransformedDistribution",
    "Uniform", "VonMises", "Weibull", "Wishart", "biject_to", "kl_divergence", "register_kl",
    "transform_to",
]  # fmt: skip
__all__ += _transform_names

_add_homes(__name__, _class_homes(globals() | vars(_relaxed), _homes.CLASSES) | _homes.helpers())

_explain_absence(__name__)
