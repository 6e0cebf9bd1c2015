"""Kullback-Leibler divergences between distributions of different kinds.

Where the first has events that the second cannot have, the divergence is infinite.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import lazyt
from lazyt.distributions.carried import Gumbel, Pareto
from lazyt.distributions.continuous import Exponential, Laplace, Normal, Uniform
from lazyt.distributions.discrete import Bernoulli, Binomial, Poisson
from lazyt.distributions.gammas import Beta, Gamma
from lazyt.distributions.kl import register_kl
from lazyt.distributions.relaxed import ContinuousBernoulli

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
