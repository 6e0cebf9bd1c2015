"""Distributions of real numbers with a location and a scale, and those of waiting times."""

from __future__ import annotations

import math
from typing import Any

import lazyt
from lazyt import Size, Tensor
from lazyt.distributions import constraints
from lazyt.distributions.distribution import Distribution, ExponentialFamily
from lazyt.distributions.parameters import broadcast_all, open_uniform, standard_normal
from lazyt.functional.gamma_draws import log_gamma_draws

__all__ = ["Cauchy", "Exponential", "Laplace", "Normal", "StudentT", "Uniform"]

_LOCATION_SCALE = {"loc": constraints.real, "scale": constraints.positive}


class _LocationScale(Distribution):
    """A density over the real line that is moved by ``loc`` and stretched by ``scale``."""

    arg_constraints = _LOCATION_SCALE
    support = constraints.real
    has_rsample = True
    loc: Tensor
    scale: Tensor

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.shape, validate_args=validate_args)

    def _mean(self) -> Tensor:
        return self.loc

    def _mode(self) -> Tensor:
        return self.loc


class Normal(_LocationScale, ExponentialFamily):
    """The normal distribution with mean ``loc`` and standard deviation ``scale``."""

    _mean_carrier_measure = 0

    def _variance(self) -> Tensor:
        return self.stddev.pow(2)

    @property
    def stddev(self) -> Tensor:
        """The ``scale``."""
        return self.scale

    def _draw(self, shape: Size) -> Tensor:
        return self.loc + standard_normal(shape, self.loc) * self.scale

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Normal numbers, without gradient."""
        with lazyt.no_grad():
            shape = self._extended_shape(sample_shape)
            return lazyt.normal(self.loc.expand(shape), self.scale.expand(shape))

    def _log_density(self, value: Tensor) -> Tensor:
        square = (value - self.loc) ** 2 / (2 * self.scale**2)
        return -square - self.scale.log() - math.log(math.sqrt(2 * math.pi))

    def _cdf(self, value: Tensor) -> Tensor:
        return 0.5 * (1 + lazyt.erf((value - self.loc) / self.scale / math.sqrt(2)))

    def _icdf(self, value: Tensor) -> Tensor:
        return self.loc + self.scale * lazyt.erfinv(2 * value - 1) * math.sqrt(2)

    def _entropy(self) -> Tensor:
        return 0.5 + 0.5 * math.log(2 * math.pi) + lazyt.log(self.scale)

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        precision = self.scale.pow(2).reciprocal()
        return self.loc * precision, -0.5 * precision

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        x, y = natural_params
        return -0.25 * x.pow(2) / y + 0.5 * lazyt.log(-math.pi / y)


class Laplace(_LocationScale):
    """The Laplace distribution: exponential on both sides of ``loc``."""

    def _variance(self) -> Tensor:
        return 2 * self.scale.pow(2)

    @property
    def stddev(self) -> Tensor:
        """``sqrt(2) * scale``."""
        return math.sqrt(2) * self.scale

    def _draw(self, shape: Size) -> Tensor:
        turned = 2 * open_uniform(shape, self.loc) - 1
        magnitude = (-turned.abs()).clamp(min=-1 + lazyt.finfo(self.loc.dtype).eps)
        return self.loc - self.scale * turned.sign() * magnitude.log1p()

    def _log_density(self, value: Tensor) -> Tensor:
        return -lazyt.log(2 * self.scale) - lazyt.abs(value - self.loc) / self.scale

    def _cdf(self, value: Tensor) -> Tensor:
        away = value - self.loc
        return 0.5 - 0.5 * away.sign() * lazyt.expm1(-away.abs() / self.scale)

    def _icdf(self, value: Tensor) -> Tensor:
        away = value - 0.5
        return self.loc - self.scale * away.sign() * lazyt.log1p(-2 * away.abs())

    def _entropy(self) -> Tensor:
        return 1 + lazyt.log(2 * self.scale)


class Cauchy(_LocationScale):
    """The Cauchy distribution, which has neither mean nor variance."""

    def _mean(self) -> Tensor:
        shape = self._extended_shape()
        return lazyt.full(shape, math.nan, dtype=self.loc.dtype, device=self.loc.device)

    def _variance(self) -> Tensor:
        shape = self._extended_shape()
        return lazyt.full(shape, math.inf, dtype=self.loc.dtype, device=self.loc.device)

    def _draw(self, shape: Size) -> Tensor:
        return self.loc + self.scale * self.loc.new_empty(tuple(shape)).cauchy_()

    def _log_density(self, value: Tensor) -> Tensor:
        ratio = (value - self.loc) / self.scale
        return -math.log(math.pi) - self.scale.log() - (ratio**2).log1p()

    def _cdf(self, value: Tensor) -> Tensor:
        return lazyt.atan((value - self.loc) / self.scale) / math.pi + 0.5

    def _icdf(self, value: Tensor) -> Tensor:
        return lazyt.tan(math.pi * (value - 0.5)) * self.scale + self.loc

    def _entropy(self) -> Tensor:
        return math.log(4 * math.pi) + self.scale.log()


class StudentT(_LocationScale):
    """Student's t-distribution with ``df`` degrees of freedom, moved and stretched."""

    arg_constraints = {"df": constraints.positive, **_LOCATION_SCALE}

    def __init__(
        self, df: Any, loc: Any = 0.0, scale: Any = 1.0, validate_args: bool | None = None
    ) -> None:
        self.df, self.loc, self.scale = broadcast_all(df, loc, scale)
        Distribution.__init__(self, self.df.shape, validate_args=validate_args)

    def _mean(self) -> Any:
        return lazyt.where(self.df <= 1, math.nan, self.loc)

    def _variance(self) -> Any:
        df = self.df
        safe = lazyt.where(df > 2, df, 3.0)
        found = lazyt.where(df > 2, self.scale.pow(2) * safe / (safe - 2), math.inf)
        return lazyt.where(df <= 1, math.nan, found)

    def _draw(self, shape: Size) -> Any:
        half = self.df / 2
        square = log_gamma_draws(half, tuple(shape)) - half.log()  # of a chi-square over df
        return self.loc + self.scale * standard_normal(shape, self.df) * (-0.5 * square).exp()

    def _log_density(self, value: Tensor) -> Any:
        df, y = self.df, (value - self.loc) / self.scale
        scale = self.scale.log() + 0.5 * df.log() + 0.5 * math.log(math.pi)
        z = scale + lazyt.lgamma(0.5 * df) - lazyt.lgamma(0.5 * (df + 1))
        return -0.5 * (df + 1) * lazyt.log1p(y**2 / df) - z

    def _entropy(self) -> Any:
        df, half = self.df, 0.5 * self.df
        beta = lazyt.lgamma(half) + math.lgamma(0.5) - lazyt.lgamma(0.5 * (1 + df))
        slope = lazyt.digamma(0.5 * (df + 1)) - lazyt.digamma(half)
        return self.scale.log() + 0.5 * (df + 1) * slope + 0.5 * df.log() + beta


class Uniform(Distribution):
    """Numbers spread evenly over [``low``, ``high``)."""

    has_rsample = True

    def __init__(self, low: Any, high: Any, validate_args: bool | None = None) -> None:
        self.low, self.high = broadcast_all(low, high)
        super().__init__(self.low.shape, validate_args=validate_args)

    @property
    def arg_constraints(self) -> Any:
        """Each bound is limited by the other."""
        return {
            "low": constraints.less_than(self.high), "high": constraints.greater_than(self.low),
        }  # fmt: skip

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        """The closed interval between the bounds."""
        return constraints.interval(self.low, self.high)

    def _mean(self) -> Any:
        return (self.high + self.low) / 2

    def _mode(self) -> Any:
        return math.nan * self.high

    def _variance(self) -> Any:
        return (self.high - self.low).pow(2) / 12

    def _draw(self, shape: Size) -> Any:
        drawn = lazyt.rand(tuple(shape), dtype=self.low.dtype, device=self.low.device)
        return self.low + drawn * (self.high - self.low)

    def _log_density(self, value: Tensor) -> Tensor:
        inside = lazyt.logical_and(self.low <= value, self.high > value).type_as(self.low)
        return lazyt.log(inside) - lazyt.log(self.high - self.low)

    def _cdf(self, value: Tensor) -> Any:
        return ((value - self.low) / (self.high - self.low)).clamp(min=0, max=1)

    def _icdf(self, value: Tensor) -> Any:
        return value * (self.high - self.low) + self.low

    def _entropy(self) -> Tensor:
        return lazyt.log(self.high - self.low)


class Exponential(ExponentialFamily):
    """Waiting times for events that come at a ``rate``."""

    arg_constraints = {"rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.shape, validate_args=validate_args)

    def _mean(self) -> Any:
        return self.rate.reciprocal()

    def _mode(self) -> Tensor:
        return lazyt.zeros_like(self.rate)

    @property
    def stddev(self) -> Any:
        """1 over the rate."""
        return self.rate.reciprocal()

    def _variance(self) -> Any:
        return self.rate.pow(-2)

    def _draw(self, shape: Size) -> Any:
        return self.rate.new_empty(tuple(shape)).exponential_() / self.rate

    def _log_density(self, value: Tensor) -> Any:
        return self.rate.log() - self.rate * value

    def _cdf(self, value: Tensor) -> Tensor:
        return 1 - lazyt.exp(-self.rate * value)

    def _icdf(self, value: Tensor) -> Any:
        return -lazyt.log1p(-value) / self.rate

    def _entropy(self) -> Tensor:
        return 1.0 - lazyt.log(self.rate)

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (-self.rate,)

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        return -lazyt.log(-natural_params[0])
