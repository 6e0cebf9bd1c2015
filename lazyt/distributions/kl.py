"""Kullback-Leibler divergences: a table of pairs of types, and the search in it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from lazyt import autograd, linalg, nn
from lazyt.distributions import compounds, continuous, discrete
from lazyt.distributions.carried import Gumbel, HalfNormal, Pareto
from lazyt.distributions.continuous import Beta, Exponential, Gamma, Laplace, Normal, Uniform
from lazyt.distributions.discrete import Bernoulli, Binomial, Poisson
from lazyt.distributions.distribution import Distribution, ExponentialFamily, sum_rightmost
from lazyt.distributions.multivariate import (
    LowRankMultivariateNormal,
    MultivariateNormal,
    half_log_det,
    mahalanobis,
)
from lazyt.distributions.relaxed import ContinuousBernoulli
from lazyt.errors import warn
from lazyt.functional import namespace as lazyt
from lazyt.functional.namespace import Tensor

__all__ = [
    "kl_divergence",
    "register_kl",
]

_KL_REGISTRY: dict[tuple[type, type], Callable[..., Tensor]] = {}
_EULER = 0.57721566490153286060


def register_kl(type_p: type, type_q: type) -> Callable[[Any], Any]:
    """A decorator that makes a function of two distributions the divergence of their types.

    The types may be any classes. Raises TypeError for what is no class.
    """
    for name, found in (("type_p", type_p), ("type_q", type_q)):
        if not isinstance(found, type):
            raise TypeError(f"Expected {name} to be a Distribution subclass but got {found}")

    def decorate(rule: Any) -> Any:
        _KL_REGISTRY[type_p, type_q] = rule
        return rule

    return decorate


def _rule_for(p: type, q: type) -> Callable[..., Tensor] | None:
    """The rule of the nearest pair of types above; the first type decides where they disagree."""
    matches = [pair for pair in _KL_REGISTRY if issubclass(p, pair[0]) and issubclass(q, pair[1])]
    if not matches:
        return None
    by_p = min(matches, key=lambda m: (p.__mro__.index(m[0]), q.__mro__.index(m[1])))
    by_q = min(matches, key=lambda m: (q.__mro__.index(m[1]), p.__mro__.index(m[0])))
    if _KL_REGISTRY[by_p] is not _KL_REGISTRY[by_q]:
        shown = [f"{a.__name__}, {b.__name__}" for a, b in (by_p, by_q)]
        warn(
            f"Ambiguous kl_divergence({p.__name__}, {q.__name__}). Please "
            f"register_kl({shown[0]}) or register_kl({shown[1]})",
            RuntimeWarning,
        )
    return _KL_REGISTRY[by_p]


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """The expectation under ``p`` of ``log p(x) - log q(x)``, of their batch shape.

    Raises NotImplementedError for pairs of types without a rule.
    """
    rule = _rule_for(type(p), type(q))
    if rule is None:
        raise NotImplementedError(
            f"No KL(p || q) is implemented for p type {type(p).__name__} and q type "
            f"{type(q).__name__}"
        )
    return rule(p, q)


@register_kl(ExponentialFamily, ExponentialFamily)
def _families(p: Any, q: Any) -> Any:
    """The Bregman divergence of the log-normalizers (Nielsen and Nock, 2010)."""
    if type(p) is not type(q):
        raise NotImplementedError(
            "The cross KL-divergence between different exponential families cannot"
            "                             be computed using Bregman divergences"
        )
    mine = [n.detach().requires_grad_() for n in p._natural_params]
    normalizer = p._log_normalizer(*mine)
    slopes = autograd.grad(normalizer.sum(), mine, create_graph=True)
    result = q._log_normalizer(*q._natural_params) - normalizer
    for a, b, slope in zip(mine, q._natural_params, slopes):
        result = result - sum_rightmost((b - a) * slope, len(q.event_shape))
    return result


@register_kl(continuous.Normal, continuous.Normal)
def _normals(p: Any, q: Any) -> Tensor:
    ratio = (p.scale / q.scale).pow(2)
    away = ((p.loc - q.loc) / q.scale).pow(2)
    found: Tensor = 0.5 * (ratio + away - 1 - ratio.log())
    return found


@register_kl(continuous.Laplace, continuous.Laplace)
def _laplaces(p: Any, q: Any) -> Tensor:
    ratio, away = p.scale / q.scale, (p.loc - q.loc).abs()
    found: Tensor = -ratio.log() + away / q.scale + ratio * lazyt.exp(-away / p.scale) - 1
    return found


@register_kl(continuous.Cauchy, continuous.Cauchy)
def _cauchys(p: Any, q: Any) -> Tensor:
    whole = ((p.scale + q.scale).pow(2) + (p.loc - q.loc).pow(2)).log()
    found: Tensor = whole - (4 * p.scale * q.scale).log()
    return found


@register_kl(continuous.Exponential, continuous.Exponential)
def _exponentials(p: Any, q: Any) -> Tensor:
    ratio = q.rate / p.rate
    found: Tensor = -ratio.log() + ratio - 1
    return found


@register_kl(continuous.Uniform, continuous.Uniform)
def _uniforms(p: Any, q: Any) -> Any:
    found = ((q.high - q.low) / (p.high - p.low)).log()
    return lazyt.where(lazyt.logical_or(q.low > p.low, q.high < p.high), math.inf, found)


@register_kl(continuous.Uniform, continuous.Normal)
def _uniform_normal(p: Any, q: Any) -> Tensor:
    width = p.high - p.low
    spread = (width / q.scale).pow(2) / 12 + ((p.mean - q.loc) / q.scale).pow(2)
    found: Tensor = 0.5 * (spread + math.log(2 * math.pi)) + (q.scale / width).log()
    return found


@register_kl(continuous.Exponential, continuous.Normal)
def _exponential_normal(p: Any, q: Any) -> Any:
    return (
        -p.entropy()
        + 0.5 * (math.log(2 * math.pi) + 2 * q.scale.log())
        + ((p.variance + (p.mean - q.loc).pow(2)) / (2 * q.scale.pow(2)))
    )


@register_kl(continuous.Gamma, continuous.Normal)
def _gamma_normal(p: Any, q: Any) -> Any:
    return _exponential_normal(p, q)


@register_kl(continuous.Beta, continuous.Normal)
def _beta_normal(p: Any, q: Any) -> Any:
    return _exponential_normal(p, q)


@register_kl(Gumbel, continuous.Normal)
def _gumbel_normal(p: Any, q: Any) -> Any:
    return _exponential_normal(p, q)


@register_kl(continuous.Laplace, continuous.Normal)
def _laplace_normal(p: Any, q: Any) -> Any:
    return _exponential_normal(p, q)


@register_kl(continuous.Normal, continuous.Laplace)
def _normal_laplace(p: Any, q: Any) -> Tensor:
    z = (p.loc - q.loc) / p.scale
    away = p.scale * (
        math.sqrt(2 / math.pi) * lazyt.exp(-0.5 * z.pow(2)) + z * lazyt.erf(z / math.sqrt(2))
    )
    found: Tensor = away / q.scale + (2 * q.scale).log() - p.entropy()
    return found


@register_kl(continuous.Gamma, continuous.Gamma)
def _gammas(p: Any, q: Any) -> Tensor:
    a, b = p.concentration, q.concentration
    found: Tensor = (
        b * (p.rate / q.rate).log() + lazyt.lgamma(b) - lazyt.lgamma(a)
        + (a - b) * lazyt.digamma(a) + (q.rate - p.rate) * (a / p.rate)
    )  # fmt: skip
    return found


@register_kl(continuous.Gamma, continuous.Exponential)
def _gamma_exponential(p: Any, q: Any) -> Tensor:
    found: Tensor = -p.entropy() - q.rate.log() + q.rate * p.mean
    return found


@register_kl(continuous.Exponential, continuous.Gamma)
def _exponential_gamma(p: Any, q: Any) -> Tensor:
    a, ratio = q.concentration, q.rate / p.rate
    found: Tensor = -a * ratio.log() + ratio + lazyt.lgamma(a) + a * _EULER - (1 + _EULER)
    return found


@register_kl(continuous.Dirichlet, continuous.Dirichlet)
def _dirichlets(p: Any, q: Any) -> Tensor:
    a, b = p.concentration, q.concentration
    total = a.sum(-1)
    ahead = lazyt.lgamma(total) - lazyt.lgamma(b.sum(-1))
    each = lazyt.lgamma(b) - lazyt.lgamma(a)
    slope = lazyt.digamma(a) - lazyt.digamma(total).unsqueeze(-1)
    found: Tensor = ahead + (each + (a - b) * slope).sum(-1)
    return found


@register_kl(continuous.Beta, continuous.Beta)
def _betas(p: Any, q: Any) -> Any:
    pairs = (lazyt.stack([d.concentration1, d.concentration0], -1) for d in (p, q))
    return _dirichlets(*(continuous.Dirichlet(pair, validate_args=False) for pair in pairs))


@register_kl(discrete.Bernoulli, discrete.Bernoulli)
def _bernoullis(p: Any, q: Any) -> Any:
    softplus = nn.functional.softplus
    hit = p.probs * (softplus(-q.logits) - softplus(-p.logits))
    miss = (1 - p.probs) * (softplus(q.logits) - softplus(p.logits))
    never = lazyt.logical_and(q.probs == 0, p.probs != 0)
    always = lazyt.logical_and(q.probs == 1, p.probs != 1)
    # With certainty in p its logits are finite all the same: the vanishing side counts nothing.
    hit = lazyt.where(p.probs == 0, 0.0, lazyt.where(never, math.inf, hit))
    return hit + lazyt.where(p.probs == 1, 0.0, lazyt.where(always, math.inf, miss))


@register_kl(discrete.Bernoulli, discrete.Poisson)
def _bernoulli_poisson(p: Any, q: Any) -> Tensor:
    found: Tensor = -p.entropy() - (p.probs * q.rate.log() - q.rate)
    return found


@register_kl(discrete.Binomial, discrete.Binomial)
def _binomials(p: Any, q: Any) -> Any:
    odds = p.total_count * (p.probs * (p.logits - q.logits) + (-p.probs).log1p())
    found = odds - p.total_count * (-q.probs).log1p()
    return lazyt.where(p.total_count > q.total_count, math.inf, found)


@register_kl(discrete.Geometric, discrete.Geometric)
def _geometrics(p: Any, q: Any) -> Tensor:
    found: Tensor = -p.entropy() - lazyt.log1p(-q.probs) / p.probs - q.logits
    return found


@register_kl(discrete.Poisson, discrete.Poisson)
def _poissons(p: Any, q: Any) -> Tensor:
    found: Tensor = p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)
    return found


@register_kl(discrete.Categorical, discrete.Categorical)
def _categoricals(p: Any, q: Any) -> Any:
    terms = p.probs * (p.logits - q.logits)
    terms = lazyt.where(q.probs == 0, math.inf, terms)
    return lazyt.where(p.probs == 0, 0.0, terms).sum(-1)


@register_kl(discrete.OneHotCategorical, discrete.OneHotCategorical)
def _one_hots(p: Any, q: Any) -> Any:
    return _categoricals(p._categorical, q._categorical)


@register_kl(HalfNormal, HalfNormal)
def _half_normals(p: Any, q: Any) -> Any:
    return _normals(p.base_dist, q.base_dist)


@register_kl(Pareto, Pareto)
def _paretos(p: Any, q: Any) -> Any:
    ratio = q.alpha / p.alpha
    found = q.alpha * (p.scale / q.scale).log() - ratio.log() + ratio - 1
    return lazyt.where(p.support.lower_bound < q.support.lower_bound, math.inf, found)


@register_kl(Gumbel, Gumbel)
def _gumbels(p: Any, q: Any) -> Tensor:
    ratio = p.scale / q.scale
    low, high = q.loc / q.scale, p.loc / q.scale
    found: Tensor = (
        -ratio.log() - low + high + ratio * _EULER
        + lazyt.exp(low + lazyt.lgamma(1 + ratio) - high) - (1 + _EULER)
    )  # fmt: skip
    return found


@register_kl(MultivariateNormal, MultivariateNormal)
def _multivariate_normals(p: Any, q: Any) -> Any:
    if p.event_shape != q.event_shape:
        raise ValueError(
            "KL-divergence between two Multivariate Normals with different event shapes cannot be "
            "computed"
        )
    solved = linalg.solve_triangular(q.scale_tril, p.scale_tril, upper=False)
    spread = solved.pow(2).sum((-2, -1)) + mahalanobis(q._unbroadcasted_scale_tril, q.loc - p.loc)
    half = half_log_det(q._unbroadcasted_scale_tril) - half_log_det(p._unbroadcasted_scale_tril)
    return half + 0.5 * (spread - p.event_shape[0])


def _dense(d: Any) -> Any:
    if isinstance(d, MultivariateNormal):
        return d
    return MultivariateNormal(d.loc, scale_tril=d.scale_tril, validate_args=False)


@register_kl(LowRankMultivariateNormal, LowRankMultivariateNormal)
def _low_ranks(p: Any, q: Any) -> Any:
    if p.event_shape != q.event_shape:
        raise ValueError(
            "KL-divergence between two Low Rank Multivariate Normals with different event shapes "
            "cannot be computed"
        )
    return _multivariate_normals(_dense(p), _dense(q))


@register_kl(MultivariateNormal, LowRankMultivariateNormal)
def _to_low_rank(p: Any, q: Any) -> Any:
    return _multivariate_normals(p, _dense(q))


@register_kl(LowRankMultivariateNormal, MultivariateNormal)
def _from_low_rank(p: Any, q: Any) -> Any:
    return _multivariate_normals(_dense(p), q)


@register_kl(compounds.Independent, compounds.Independent)
def _independents(p: Any, q: Any) -> Tensor:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError
    found = kl_divergence(p.base_dist, q.base_dist)
    return sum_rightmost(found, p.reinterpreted_batch_ndims)


@register_kl(compounds.TransformedDistribution, compounds.TransformedDistribution)
def _transformed(p: Any, q: Any) -> Tensor:
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError
    return kl_divergence(p.base_dist, q.base_dist)


# Kullback-Leibler divergences between distributions of different kinds.
#
# Where the first has events that the second cannot have, the divergence is infinite.


_ENDLESS: dict[type, tuple[type, ...]] = {
    Beta: (Pareto,),
    ContinuousBernoulli: (Pareto,),
    Exponential: (Beta, ContinuousBernoulli, Pareto, Uniform),
    Gamma: (Beta, ContinuousBernoulli, Pareto, Uniform),
    Gumbel: (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform),
    Laplace: (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform),
    Normal: (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform),
    Pareto: (Beta, ContinuousBernoulli, Uniform),
    Poisson: (Bernoulli, Binomial),
}


def _infinite(p: Any, q: Any) -> Any:
    return lazyt.full(p.batch_shape, math.inf, dtype=p.mean.dtype)


def _normal_tail(p: Any, q: Any) -> Any:
    """-E log q of a normal q, from the first two moments of p."""
    spread = (p.variance + (p.mean - q.loc).pow(2)) / (2 * q.scale.pow(2))
    return spread + 0.5 * math.log(2 * math.pi) + q.scale.log()


def _exponential_tail(p: Any, q: Any) -> Any:
    return q.rate * p.mean - q.rate.log()


def _mean_log(p: Any) -> Any:
    """E log x."""
    if isinstance(p, Beta):
        total = p.concentration1 + p.concentration0
        return lazyt.digamma(p.concentration1) - lazyt.digamma(total)
    return p.scale.log() + p.alpha.reciprocal()


def _gamma_tail(p: Any, q: Any) -> Any:
    a = q.concentration
    return lazyt.lgamma(a) - a * q.rate.log() - (a - 1) * _mean_log(p) + q.rate * p.mean


def _continuous_bernoulli_tail(p: Any, q: Any) -> Any:
    return -p.mean * q.logits - lazyt.log1p(-q.probs) - q._cont_bern_log_norm()


def _mean_decay(p: Any, scale: Any) -> Any:
    """E exp(-x / scale)."""
    if isinstance(p, Normal):
        return lazyt.exp((p.scale / scale).pow(2) * 0.5 - p.loc / scale)
    if isinstance(p, Uniform):
        ends = lazyt.exp(-p.low / scale) - lazyt.exp(-p.high / scale)
        return scale * ends / (p.high - p.low)
    if isinstance(p, Exponential):
        return 1 / (1 + 1 / (scale * p.rate))
    return (1 + 1 / (scale * p.rate)) ** (-p.concentration)


def _gumbel_tail(p: Any, q: Any) -> Any:
    away = (p.mean - q.loc) / q.scale
    return q.scale.log() + away + lazyt.exp(q.loc / q.scale) * _mean_decay(p, q.scale)


def _from_tail(tail: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda p, q: tail(p, q) - p.entropy()


_TAILS: tuple[tuple[tuple[type, ...], type, Callable[[Any, Any], Any]], ...] = (
    ((ContinuousBernoulli, Pareto), Normal, _normal_tail),
    ((Beta, ContinuousBernoulli, Pareto), Exponential, _exponential_tail),
    ((Beta, Pareto), Gamma, _gamma_tail),
    ((Beta, ContinuousBernoulli), ContinuousBernoulli, _continuous_bernoulli_tail),
    ((Normal, Uniform, Exponential, Gamma), Gumbel, _gumbel_tail),
)

for _first, _seconds in _ENDLESS.items():
    for _second in _seconds:
        register_kl(_first, _second)(_infinite)
for _kinds, _second, _tail in _TAILS:
    for _first in _kinds:
        register_kl(_first, _second)(_from_tail(_tail))


@register_kl(Beta, Uniform)
@register_kl(ContinuousBernoulli, Uniform)
def _unit_uniform(p: Any, q: Any) -> Any:
    found = (q.high - q.low).log() - p.entropy()
    return lazyt.where(lazyt.logical_or(q.low > 0, q.high < 1), math.inf, found)
