"""Gamma distributions and what is made of them: Beta, Dirichlet, chi-square, F, von Mises.

Draws have pathwise gradients: see ``lazyt.functional.random.random``. Beta and Dirichlet draws
are ratios of gamma ones, taken between logarithms, so that small concentrations do not make 0/0.
"""

from __future__ import annotations

import math
from typing import Any

from lazyt import nn, special
from lazyt.distributions import constraints
from lazyt.distributions.distribution import (
    Distribution,
    ExponentialFamily,
    broadcast_all,
    open_uniform,
    standard_normal,
)
from lazyt.errors import ArgumentError
from lazyt.functional import namespace as lazyt
from lazyt.functional.namespace import Size, Tensor
from lazyt.functional.random.random import log_gamma_draws

__all__ = [
    "Beta", "Cauchy", "Chi2", "Dirichlet", "Exponential", "FisherSnedecor", "Gamma", "Laplace",
    "Normal", "StudentT", "Uniform", "VonMises",
]  # fmt: skip


# Distributions of real numbers with a location and a scale, and those of waiting times.


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


class Gamma(ExponentialFamily):
    """The gamma distribution with shape ``concentration`` and ``rate``."""

    arg_constraints: Any = {
        "concentration": constraints.positive, "rate": constraints.positive,
    }  # fmt: skip
    support = constraints.nonnegative
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        self.concentration, self.rate = broadcast_all(concentration, rate)
        super().__init__(self.concentration.shape, validate_args=validate_args)

    def _mean(self) -> Any:
        return self.concentration / self.rate

    def _mode(self) -> Any:
        return ((self.concentration - 1) / self.rate).clamp(min=0)

    def _variance(self) -> Any:
        return self.concentration / self.rate.pow(2)

    def _draw(self, shape: Size) -> Any:
        log = log_gamma_draws(self.concentration, tuple(shape)) - self.rate.log()
        return log.exp().clamp(min=lazyt.finfo(log.dtype).tiny)

    def _log_density(self, value: Tensor) -> Any:
        a = self.concentration
        normalizer = lazyt.xlogy(a, self.rate) - lazyt.lgamma(a)
        return normalizer + lazyt.xlogy(a - 1, value) - self.rate * value

    def _entropy(self) -> Any:
        a = self.concentration
        return a - self.rate.log() + lazyt.lgamma(a) + (1.0 - a) * lazyt.digamma(a)

    def _cdf(self, value: Tensor) -> Tensor:
        return special.gammainc(self.concentration, self.rate * value)

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return self.concentration - 1, -self.rate

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        x, y = natural_params
        return lazyt.lgamma(x + 1) - (x + 1) * lazyt.log(-y)


class Chi2(Gamma):
    """The sum of ``df`` squares of standard normal numbers."""

    arg_constraints = {"df": constraints.positive}

    def __init__(self, df: Any, validate_args: bool | None = None) -> None:
        (found,) = broadcast_all(df)
        super().__init__(0.5 * found, 0.5, validate_args=validate_args)

    def _expanded(self, shape: Size) -> None:
        self.concentration, self.rate = (t.expand(shape) for t in (self.concentration, self.rate))

    @property
    def df(self) -> Any:
        """The degrees of freedom."""
        return self.concentration * 2


class Dirichlet(ExponentialFamily):
    """Probabilities with the given ``concentration`` along its last dimension.

    Raises ArgumentError for a concentration without dimensions.
    """

    arg_constraints = {"concentration": constraints.independent(constraints.positive, 1)}
    support = constraints.simplex
    has_rsample = True

    def __init__(self, concentration: Tensor, validate_args: bool | None = None) -> None:
        if concentration.dim() < 1:
            raise ArgumentError("`concentration` parameter must be at least one-dimensional.")
        self.concentration = concentration
        shape = Size(concentration.shape)
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    def _draw(self, shape: Size) -> Tensor:
        return log_gamma_draws(self.concentration, tuple(shape)).softmax(-1)

    def _log_density(self, value: Tensor) -> Tensor:
        a = self.concentration
        normalizer = lazyt.lgamma(a.sum(-1)) - lazyt.lgamma(a).sum(-1)
        return lazyt.xlogy(a - 1.0, value).sum(-1) + normalizer

    def _mean(self) -> Tensor:
        return self.concentration / self.concentration.sum(-1, True)

    def _mode(self) -> Any:
        above = (self.concentration - 1).clamp(min=0.0)
        mode = above / above.sum(-1, True)
        corner = self.concentration.argmax(-1)
        picked = nn.functional.one_hot(corner, self._event_shape[0]).to(mode)
        return lazyt.where((self.concentration < 1).all(-1, True), picked, mode)

    def _variance(self) -> Tensor:
        a, total = self.concentration, self.concentration.sum(-1, True)
        return a * (total - a) / (total.pow(2) * (total + 1))

    def _entropy(self) -> Any:
        a, k = self.concentration, self.concentration.shape[-1]
        total = a.sum(-1)
        rest = (k - total) * lazyt.digamma(total) + ((a - 1.0) * lazyt.digamma(a)).sum(-1)
        return lazyt.lgamma(a).sum(-1) - lazyt.lgamma(total) - rest

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (self.concentration,)

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        (x,) = natural_params
        return x.lgamma().sum(-1) - lazyt.lgamma(x.sum(-1))


class Beta(ExponentialFamily):
    """The Beta distribution over [0, 1]: the first probability of a Dirichlet one."""

    arg_constraints = {
        "concentration1": constraints.positive, "concentration0": constraints.positive,
    }  # fmt: skip
    support = constraints.unit_interval
    has_rsample = True

    def __init__(
        self, concentration1: Any, concentration0: Any, validate_args: bool | None = None
    ) -> None:
        first, second = broadcast_all(concentration1, concentration0)
        self._first: Tensor = first
        self._second: Tensor = second
        pair = lazyt.stack((self._first, self._second), -1)
        self._dirichlet = Dirichlet(pair, validate_args=validate_args)
        super().__init__(self._first.shape, validate_args=validate_args)

    def _expanded(self, shape: Size) -> None:
        self._first, self._second = self._first.expand(shape), self._second.expand(shape)
        self._dirichlet = self._dirichlet.expand(shape)

    @property
    def concentration1(self) -> Tensor:
        """The weight of values near 1."""
        return self._first

    @property
    def concentration0(self) -> Tensor:
        """The weight of values near 0."""
        return self._second

    def _mean(self) -> Tensor:
        return self.concentration1 / (self.concentration1 + self.concentration0)

    def _mode(self) -> Tensor:
        return self._dirichlet.mode[..., 0]

    def _variance(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        total = a + b
        return a * b / (total.pow(2) * (total + 1))

    def _draw(self, shape: Size) -> Tensor:
        logs = [log_gamma_draws(a, tuple(shape)) for a in (self._first, self._second)]
        return lazyt.sigmoid(logs[0] - logs[1])

    def _log_density(self, value: Tensor) -> Tensor:
        return self._dirichlet.log_prob(lazyt.stack([value, 1.0 - value], -1))

    def _entropy(self) -> Tensor:
        return self._dirichlet.entropy()

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return self._first, self._second

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        x, y = natural_params
        return lazyt.lgamma(x) + lazyt.lgamma(y) - lazyt.lgamma(x + y)


class FisherSnedecor(Distribution):
    """The ratio of two chi-square numbers, each divided by its degrees of freedom."""

    arg_constraints = {"df1": constraints.positive, "df2": constraints.positive}
    support = constraints.positive
    has_rsample = True

    def __init__(self, df1: Any, df2: Any, validate_args: bool | None = None) -> None:
        self.df1, self.df2 = broadcast_all(df1, df2)
        super().__init__(self.df1.shape, validate_args=validate_args)

    def _mean(self) -> Any:
        safe = lazyt.where(self.df2 > 2, self.df2, 3.0)
        return lazyt.where(self.df2 > 2, safe / (safe - 2), math.nan)

    def _mode(self) -> Any:
        mode = (self.df1 - 2) / self.df1 * self.df2 / (self.df2 + 2)
        return lazyt.where(self.df1 <= 2, math.nan, mode)

    def _variance(self) -> Any:
        d1, d2 = self.df1, lazyt.where(self.df2 > 4, self.df2, 5.0)
        found = 2 * d2.pow(2) * (d1 + d2 - 2) / (d1 * (d2 - 2).pow(2) * (d2 - 4))
        return lazyt.where(self.df2 > 4, found, math.nan)

    def _draw(self, shape: Size) -> Any:
        logs = [
            log_gamma_draws(0.5 * df, tuple(shape)) - (0.5 * df).log()
            for df in (self.df1, self.df2)
        ]
        return (logs[0] - logs[1]).exp().clamp(min=lazyt.finfo(self.df1.dtype).tiny)

    def _log_density(self, value: Tensor) -> Any:
        a, b, ratio = self.df1 / 2, self.df2 / 2, self.df1 / self.df2
        beta = lazyt.lgamma(a) + lazyt.lgamma(b) - lazyt.lgamma(a + b)
        spread = (a + b) * lazyt.log1p(ratio * value)
        return a * ratio.log() + (a - 1) * value.log() - spread - beta


class VonMises(Distribution):
    """Angles around ``loc``, the more concentrated the larger ``concentration``."""

    arg_constraints = {"loc": constraints.real, "concentration": constraints.positive}
    support = constraints.real

    def __init__(self, loc: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.loc, self.concentration = broadcast_all(loc, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    def _draw(self, shape: Size) -> Any:
        """The first of 40 proposals that is accepted (Best and Fisher, 1979); each is with a
        probability above 0.65, so that none is once in 1e18 draws."""
        k = self.concentration.double()
        tau = 1 + (1 + 4 * k**2).sqrt()
        rho = (tau - (2 * tau).sqrt()) / (2 * k)
        wide = lazyt.where(k > 1e-5, (1 + rho**2) / (2 * rho), 1 / k + k)
        u1, u2, u3 = open_uniform((3, 40, *shape), k).unbind(0)
        z = lazyt.cos(math.pi * u1)
        f = (1 + wide * z) / (wide + z)
        c = k * (wide - f)
        accepted = lazyt.logical_or(c * (2 - c) > u2, (c / u2).log() + 1 - c >= 0)
        first = accepted.to(lazyt.int64).argmax(0, keepdim=True)
        angle = ((u3 - 0.5).sign() * f.clamp(-1, 1).acos()).gather(0, first)[0]
        turned = (angle + self.loc.double() + math.pi) % (2 * math.pi) - math.pi
        return turned.to(self.loc.dtype)

    def _log_density(self, value: Tensor) -> Any:
        k = self.concentration
        bessel = special.i0e(k).log()  # of exp(-k) I0(k)
        return k * (lazyt.cos(value - self.loc) - 1) - math.log(2 * math.pi) - bessel

    def _mean(self) -> Any:
        return self.loc

    def _mode(self) -> Any:
        return self.loc

    def _variance(self) -> Tensor:
        k = self.concentration
        return 1 - special.i1e(k) / special.i0e(k)
