"""Distributions that are simpler ones carried by transforms."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any

from lazyt.distributions import constraints
from lazyt.distributions.compounds import TransformedDistribution
from lazyt.distributions.continuous import Cauchy, Exponential, Gamma, Normal, Uniform
from lazyt.distributions.distribution import Distribution, broadcast_all
from lazyt.distributions.transforms import (
    AbsTransform,
    AffineTransform,
    ExpTransform,
    PowerTransform,
    StickBreakingTransform,
)
from lazyt.functional import namespace as lazyt
from lazyt.functional.namespace import Size, Tensor

__all__ = [
    "Gumbel", "HalfCauchy", "HalfNormal", "InverseGamma", "Kumaraswamy", "LogNormal",
    "LogisticNormal", "Pareto", "Weibull",
]  # fmt: skip

_EULER = 0.57721566490153286060
_POSITIVE = {"scale": constraints.positive}


class _Half(TransformedDistribution):
    """The absolute values of a symmetric distribution around 0."""

    arg_constraints = _POSITIVE
    support = constraints.nonnegative
    has_rsample = True

    @property
    def scale(self) -> Tensor:
        """The scale of the whole distribution."""
        found: Tensor = self.base_dist.scale
        return found

    def _mode(self) -> Tensor:
        return lazyt.zeros_like(self.scale)

    def _log_density(self, value: Tensor) -> Any:
        density = self.base_dist.log_prob(value) + math.log(2)
        return lazyt.where(value >= 0, density, -math.inf)

    def _cdf(self, value: Tensor) -> Tensor:
        found: Tensor = 2 * self.base_dist.cdf(value) - 1
        return found

    def _icdf(self, value: Tensor) -> Tensor:
        found: Tensor = self.base_dist.icdf((value + 1) / 2)
        return found

    def _entropy(self) -> Tensor:
        found: Tensor = self.base_dist.entropy() - math.log(2)
        return found


class HalfNormal(_Half):
    """Absolute values of normal numbers of mean 0."""

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        base = Normal(0, scale, validate_args=False)
        super().__init__(base, AbsTransform(), validate_args=validate_args)

    def _mean(self) -> Tensor:
        return self.scale * math.sqrt(2 / math.pi)

    def _variance(self) -> Tensor:
        return self.scale.pow(2) * (1 - 2 / math.pi)


class HalfCauchy(_Half):
    """Absolute values of Cauchy numbers around 0."""

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        base = Cauchy(0, scale, validate_args=False)
        super().__init__(base, AbsTransform(), validate_args=validate_args)

    def _mean(self) -> Tensor:
        return lazyt.full(self._extended_shape(), math.inf, dtype=self.scale.dtype)

    def _variance(self) -> Tensor:
        found: Tensor = self.base_dist.variance
        return found


class LogNormal(TransformedDistribution):
    """Numbers whose logarithms are normal."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.positive
    has_rsample = True

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        base = Normal(loc, scale, validate_args=validate_args)
        super().__init__(base, ExpTransform(), validate_args=validate_args)

    @property
    def loc(self) -> Tensor:
        """The mean of the logarithms."""
        found: Tensor = self.base_dist.loc
        return found

    @property
    def scale(self) -> Tensor:
        """The standard deviation of the logarithms."""
        found: Tensor = self.base_dist.scale
        return found

    def _mean(self) -> Tensor:
        return (self.loc + self.scale.pow(2) / 2).exp()

    def _mode(self) -> Tensor:
        return (self.loc - self.scale.square()).exp()

    def _variance(self) -> Tensor:
        square = self.scale.pow(2)
        return square.expm1() * (2 * self.loc + square).exp()

    def _entropy(self) -> Tensor:
        found: Tensor = self.base_dist.entropy() + self.loc
        return found


class LogisticNormal(TransformedDistribution):
    """Probabilities: normal vectors through stick breaking."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.simplex
    has_rsample = True

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        base = Normal(loc, scale, validate_args=validate_args)
        if not base.batch_shape:
            base = base.expand([1])
        super().__init__(base, StickBreakingTransform(), validate_args=validate_args)

    @property
    def loc(self) -> Tensor:
        """The means."""
        found: Tensor = self.base_dist.base_dist.loc
        return found

    @property
    def scale(self) -> Tensor:
        """The standard deviations."""
        found: Tensor = self.base_dist.base_dist.scale
        return found


class InverseGamma(TransformedDistribution):
    """1 over numbers of a gamma distribution."""

    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.positive
    has_rsample = True

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        base = Gamma(concentration, rate, validate_args=validate_args)
        power = PowerTransform(lazyt.full((), -1.0, dtype=base.rate.dtype))
        super().__init__(base, power, validate_args=validate_args)

    @property
    def concentration(self) -> Tensor:
        """The shape."""
        found: Tensor = self.base_dist.concentration
        return found

    @property
    def rate(self) -> Tensor:
        """The rate of the reciprocals."""
        found: Tensor = self.base_dist.rate
        return found

    def _mean(self) -> Any:
        a = self.concentration
        return lazyt.where(a > 1, self.rate / (a - 1), math.inf)

    def _mode(self) -> Tensor:
        return self.rate / (self.concentration + 1)

    def _variance(self) -> Any:
        a = self.concentration
        return lazyt.where(a > 2, self.rate.square() / ((a - 1).square() * (a - 2)), math.inf)

    def _entropy(self) -> Tensor:
        a = self.concentration
        return a + self.rate.log() + a.lgamma() - (1 + a) * a.digamma()


class _Named(TransformedDistribution, ABC):
    """A carried distribution that keeps its own parameters; they have to be set before."""

    def __init__(self, validate_args: bool | None) -> None:
        base, transforms = self._parts()
        super().__init__(base, transforms, validate_args=validate_args)

    def _expanded(self, shape: Size) -> None:
        """Made anew from the parameters, which the transforms hold too."""
        _Named.__init__(self, False)

    @abstractmethod
    def _parts(self) -> tuple[Distribution, list[Any]]:
        """What is carried, and by which transforms."""


class Gumbel(_Named):
    """The distribution of the largest of many numbers with exponential tails."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(validate_args)

    def _parts(self) -> tuple[Distribution, list[Any]]:
        limits = lazyt.finfo(self.loc.dtype)
        low, high = (lazyt.full_like(self.loc, v) for v in (limits.tiny, 1 - limits.eps))
        one = lazyt.ones_like(self.scale)
        return Uniform(low, high, validate_args=False), [
            ExpTransform().inv, AffineTransform(0, -one), ExpTransform().inv,
            AffineTransform(self.loc, -self.scale),
        ]  # fmt: skip

    def _log_density(self, value: Tensor) -> Any:
        y = (self.loc - value) / self.scale
        return y - y.exp() - self.scale.log()

    def _mean(self) -> Any:
        return self.loc + self.scale * _EULER

    def _mode(self) -> Any:
        return self.loc

    @property
    def stddev(self) -> Any:
        """``pi / sqrt(6) * scale``."""
        return math.pi / math.sqrt(6) * self.scale

    def _variance(self) -> Any:
        return self.stddev.pow(2)

    def _entropy(self) -> Any:
        return self.scale.log() + (1 + _EULER)


class Pareto(_Named):
    """Numbers of at least ``scale`` whose tail falls with the power ``alpha``."""

    arg_constraints = {"alpha": constraints.positive, "scale": constraints.positive}

    def __init__(self, scale: Any, alpha: Any, validate_args: bool | None = None) -> None:
        self.scale, self.alpha = broadcast_all(scale, alpha)
        super().__init__(validate_args)

    def _parts(self) -> tuple[Distribution, list[Any]]:
        base = Exponential(self.alpha, validate_args=False)
        return base, [ExpTransform(), AffineTransform(0, self.scale)]

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        """From ``scale`` on."""
        return constraints.greater_than_eq(self.scale)

    def _mean(self) -> Any:
        a = self.alpha.clamp(min=1)
        return a * self.scale / (a - 1)

    def _mode(self) -> Any:
        return self.scale

    def _variance(self) -> Any:
        a = self.alpha.clamp(min=2)
        return self.scale.pow(2) * a / ((a - 1).pow(2) * (a - 2))

    def _entropy(self) -> Any:
        return (self.scale / self.alpha).log() + (1 + self.alpha.reciprocal())


class Weibull(_Named):
    """Waiting times for events whose rate is a power of the time."""

    arg_constraints = {"scale": constraints.positive, "concentration": constraints.positive}
    support = constraints.positive

    def __init__(self, scale: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.scale, self.concentration = broadcast_all(scale, concentration)
        super().__init__(validate_args)

    @property
    def concentration_reciprocal(self) -> Tensor:
        """1 over the concentration."""
        found: Tensor = self.concentration.reciprocal()
        return found

    def _parts(self) -> tuple[Distribution, list[Any]]:
        base = Exponential(lazyt.ones_like(self.scale), validate_args=False)
        power = PowerTransform(self.concentration.reciprocal())
        return base, [power, AffineTransform(0, self.scale)]

    def _moment(self, order: int) -> Tensor:
        return lazyt.exp(lazyt.lgamma(1 + order * self.concentration.reciprocal()))

    def _mean(self) -> Any:
        return self.scale * self._moment(1)

    def _mode(self) -> Any:
        k = self.concentration
        return self.scale * ((k - 1) / k) ** k.reciprocal()

    def _variance(self) -> Any:
        return self.scale.pow(2) * (self._moment(2) - self._moment(1).pow(2))

    def _entropy(self) -> Any:
        r = self.concentration.reciprocal()
        return _EULER * (1 - r) + lazyt.log(self.scale * r) + 1


class Kumaraswamy(_Named):
    """Numbers of [0, 1] much like those of a Beta distribution, with a plain inverse."""

    arg_constraints = {
        "concentration1": constraints.positive, "concentration0": constraints.positive,
    }  # fmt: skip
    support = constraints.unit_interval
    has_rsample = True

    def __init__(
        self, concentration1: Any, concentration0: Any, validate_args: bool | None = None
    ) -> None:
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        super().__init__(validate_args)

    def _parts(self) -> tuple[Distribution, list[Any]]:
        a, b = self.concentration1, self.concentration0
        limits = lazyt.finfo(b.dtype)
        low, high = (lazyt.full_like(b, v) for v in (limits.tiny, 1 - limits.eps))
        return Uniform(low, high, validate_args=False), [
            PowerTransform(b.reciprocal()), AffineTransform(1.0, -1.0),
            PowerTransform(a.reciprocal()),
        ]  # fmt: skip

    def _moment(self, order: int) -> Any:
        first, b = 1 + order / self.concentration1, self.concentration0
        log = lazyt.lgamma(first) + lazyt.lgamma(b) - lazyt.lgamma(first + b)
        return b * lazyt.exp(log)

    def _mean(self) -> Any:
        return self._moment(1)

    def _mode(self) -> Any:
        a, b = self.concentration1, self.concentration0
        found = (a.reciprocal() * ((a - 1) / (a * b - 1)).log()).exp()
        return lazyt.where(lazyt.logical_or(a < 1, b < 1), math.nan, found)

    def _variance(self) -> Any:
        return self._moment(2) - self.mean.pow(2)

    def _entropy(self) -> Any:
        a, b = self.concentration1, self.concentration0
        harmonic = lazyt.digamma(b + 1) + _EULER
        return 1 - b.reciprocal() + (1 - a.reciprocal()) * harmonic - a.log() - b.log()
