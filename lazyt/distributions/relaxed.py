"""Continuous distributions that stand in for discrete ones, and the continuous Bernoulli."""

from __future__ import annotations

import math
from typing import Any

from lazyt import nn
from lazyt.distributions import constraints
from lazyt.distributions.compounds import TransformedDistribution
from lazyt.distributions.discrete import Categorical, OfCategories, _Odds
from lazyt.distributions.distribution import (
    ExponentialFamily,
    broadcast_all,
    clamp_probs,
    open_uniform,
)
from lazyt.distributions.transforms import ExpTransform, SigmoidTransform, Transform
from lazyt.functional import namespace as lazyt
from lazyt.functional.namespace import Size, Tensor

__all__ = ["ContinuousBernoulli", "RelaxedBernoulli", "RelaxedOneHotCategorical"]


class LogitRelaxedBernoulli(_Odds):
    """The logit of a relaxed Bernoulli number (Maddison, Mnih and Teh, 2017)."""

    support = constraints.real
    has_rsample = True

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        self.temperature = temperature
        shape = self._take(probs, logits).shape
        super().__init__(shape, validate_args=validate_args)

    def _draw(self, shape: Size) -> Tensor:
        u = open_uniform(shape, self._param)
        found: Tensor = (u.log() - (-u).log1p() + self.logits) / self.temperature
        return found

    def _log_density(self, value: Tensor) -> Any:
        logits, value = broadcast_all(self.logits, value)
        away = logits - value * self.temperature
        log = lazyt.log(lazyt.as_tensor(self.temperature, dtype=logits.dtype))
        return log + away - 2 * away.exp().log1p()


class ExpRelaxedCategorical(OfCategories):
    """The logarithms of a relaxed one-hot vector."""

    support = constraints.real_vector
    has_rsample = True

    def __init__(
        self, temperature: Any, probs: Tensor | None = None, logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        self.temperature = temperature
        super().__init__(Categorical(probs, logits), validate_args)

    def _draw(self, shape: Size) -> Tensor:
        gumbels = -((-open_uniform(shape, self.logits).log()).log())
        scores: Tensor = (self.logits + gumbels) / self.temperature
        return scores - scores.logsumexp(-1, keepdim=True)

    def _log_density(self, value: Tensor) -> Any:
        k = self._event_shape[0]
        logits, value = broadcast_all(self.logits, value)
        temperature = lazyt.as_tensor(self.temperature, dtype=logits.dtype)
        scale = temperature.log() * (k - 1) + math.lgamma(k)
        score = logits - value * temperature
        return (score - score.logsumexp(-1, keepdim=True)).sum(-1) + scale


class _Relaxed(TransformedDistribution):
    has_rsample = True

    def __init__(self, base: Any, transform: Transform, validate_args: bool | None) -> None:
        super().__init__(base, transform, validate_args=validate_args)

    @property
    def temperature(self) -> Any:
        """How far from discrete the draws are: not at all near 0."""
        return self.base_dist.temperature

    @property
    def probs(self) -> Tensor:
        """The probabilities."""
        found: Tensor = self.base_dist.probs
        return found

    @property
    def logits(self) -> Tensor:
        """The log odds, or the logarithms of the probabilities."""
        found: Tensor = self.base_dist.logits
        return found


class RelaxedBernoulli(_Relaxed):
    """Numbers in (0, 1) that near 0 and 1 as ``temperature`` falls, with gradients."""

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        base = LogitRelaxedBernoulli(temperature, probs, logits)
        super().__init__(base, SigmoidTransform(), validate_args)


class RelaxedOneHotCategorical(_Relaxed):
    """Probabilities that near one-hot vectors as ``temperature`` falls, with gradients."""

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.simplex

    def __init__(
        self, temperature: Any, probs: Tensor | None = None, logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        base = ExpRelaxedCategorical(temperature, probs, logits, validate_args=validate_args)
        super().__init__(base, ExpTransform(), validate_args)


class ContinuousBernoulli(_Odds, ExponentialFamily):
    """The density ``C * p^x * (1 - p)^(1 - x)`` over [0, 1] (Loaiza-Ganem and Cunningham, 2019).

    Between ``lims``, where its formulas lose their digits, they are Taylor series around 1/2.
    """

    support = constraints.unit_interval
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(
        self, probs: Any = None, logits: Any = None, lims: tuple[float, float] = (0.499, 0.501),
        validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        self._lims = lims
        shape = self._take(probs, logits).shape
        super().__init__(shape, validate_args=validate_args)
        if self._is_probs:
            self.probs = clamp_probs(self.probs)

    def _outside_unstable_region(self) -> Tensor:
        return lazyt.logical_or(self.probs <= self._lims[0], self.probs > self._lims[1])

    def _cut_probs(self) -> Any:
        """The probabilities, those near 1/2 replaced."""
        return lazyt.where(self._outside_unstable_region(), self.probs, self._lims[0])

    def _cont_bern_log_norm(self) -> Any:
        p = self._cut_probs()
        log = (lazyt.log1p(-p) - p.log()).abs().log() - (1 - 2 * p).abs().log()
        x = (self.probs - 0.5) ** 2
        near = math.log(2.0) + (4.0 / 3.0 + 104.0 / 45.0 * x) * x
        return lazyt.where(self._outside_unstable_region(), log, near)

    def _mean(self) -> Any:
        p, x = self._cut_probs(), self.probs - 0.5
        mean = p / (2.0 * p - 1.0) + 1.0 / (lazyt.log1p(-p) - p.log())
        near = 0.5 + (1.0 / 3.0 + 16.0 / 45.0 * x**2) * x
        return lazyt.where(self._outside_unstable_region(), mean, near)

    def _variance(self) -> Any:
        p, x = self._cut_probs(), (self.probs - 0.5) ** 2
        square = (lazyt.log1p(-p) - p.log()).pow(2)
        variance = p * (p - 1.0) / (1.0 - 2.0 * p).pow(2) + 1.0 / square
        near = 1.0 / 12.0 - (1.0 / 15.0 - 128.0 / 945.0 * x) * x
        return lazyt.where(self._outside_unstable_region(), variance, near)

    def _draw(self, shape: Size) -> Any:
        return self.icdf(open_uniform(shape, self.probs))

    def _log_density(self, value: Tensor) -> Any:
        logits, value = broadcast_all(self.logits, value)
        cross = nn.functional.binary_cross_entropy_with_logits(logits, value, reduction="none")
        return self._cont_bern_log_norm() - cross

    def _cdf(self, value: Tensor) -> Any:
        p = self._cut_probs()
        weight = p.pow(value) * (1.0 - p).pow(1.0 - value)
        inside = lazyt.where(
            self._outside_unstable_region(), (weight + p - 1.0) / (2.0 * p - 1.0), value
        )
        return lazyt.where(value <= 0.0, 0.0, lazyt.where(value >= 1.0, 1.0, inside))

    def _icdf(self, value: Tensor) -> Any:
        p = self._cut_probs()
        top = lazyt.log1p(-p + value * (2.0 * p - 1.0)) - lazyt.log1p(-p)
        return lazyt.where(
            self._outside_unstable_region(), top / (p.log() - lazyt.log1p(-p)), value
        )

    def _entropy(self) -> Any:
        zero = lazyt.log1p(-self.probs)
        return self.mean * (zero - self.probs.log()) - self._cont_bern_log_norm() - zero
