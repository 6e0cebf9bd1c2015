"""Distributions of whole numbers: trials, successes, counts."""

from __future__ import annotations

import math
from typing import Any

from lazyt import nn
from lazyt.distributions import constraints
from lazyt.distributions.distribution import (
    Distribution,
    ExponentialFamily,
    broadcast_all,
    clamp_probs,
    lazy_property,
    logits_to_probs,
    one_given,
    open_uniform,
    probs_to_logits,
)
from lazyt.errors import ArgumentError
from lazyt.functional import namespace as lazyt
from lazyt.functional.namespace import Size, Tensor
from lazyt.functional.random.random import log_gamma_draws
from lazyt.functional.value_checks import tensors_hold

__all__ = [
    "Bernoulli", "Binomial", "Categorical", "Geometric", "Multinomial", "NegativeBinomial",
    "OneHotCategorical", "OneHotCategoricalStraightThrough", "Poisson",
]  # fmt: skip


class _Odds(Distribution):
    """Trials that succeed with probability ``probs``, or with the log odds ``logits``."""

    arg_constraints: Any = {"probs": constraints.unit_interval, "logits": constraints.real}

    def _take(self, probs: Any, logits: Any) -> Any:
        """Keep the one that is given, broadcast, and give it back."""
        is_probs = one_given(probs, logits)
        (param,) = broadcast_all(probs if is_probs else logits)
        setattr(self, "probs" if is_probs else "logits", param)
        self._is_probs = is_probs
        return param

    @property
    def _param(self) -> Tensor:
        found: Tensor = self.probs if self._is_probs else self.logits
        return found

    @lazy_property
    def logits(self) -> Tensor:
        """The logarithms of the odds."""
        return probs_to_logits(self.probs, is_binary=True)

    @lazy_property
    def probs(self) -> Tensor:
        """The probabilities of success."""
        return logits_to_probs(self.logits, is_binary=True)

    @property
    def param_shape(self) -> Size:
        """The shape of the parameter."""
        return Size(self._param.shape)


class Bernoulli(_Odds, ExponentialFamily):
    """1 with probability ``probs``, else 0. Raises ArgumentError unless one parameter is given."""

    support = constraints.boolean
    has_enumerate_support = True
    _mean_carrier_measure = 0

    def __init__(
        self, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        shape = self._take(probs, logits).shape
        super().__init__(shape, validate_args=validate_args)

    def _mean(self) -> Any:
        return self.probs

    def _mode(self) -> Any:
        mode = (self.probs >= 0.5).to(self.probs)
        return lazyt.where(self.probs == 0.5, math.nan, mode)

    def _variance(self) -> Any:
        return self.probs * (1 - self.probs)

    def _draw(self, shape: Size) -> Tensor:
        return lazyt.bernoulli(self.probs.expand(shape))

    def _cross(self, value: Tensor) -> Tensor:
        logits, value = broadcast_all(self.logits, value)
        return nn.functional.binary_cross_entropy_with_logits(logits, value, reduction="none")

    def _log_density(self, value: Tensor) -> Tensor:
        return -self._cross(value)

    def _entropy(self) -> Tensor:
        return self._cross(self.probs)

    def _values(self) -> Tensor:
        return lazyt.arange(2, dtype=self._param.dtype)

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (lazyt.logit(self.probs),)

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        return nn.functional.softplus(natural_params[0])


class Geometric(_Odds):
    """How many trials fail before the first success.

    Raises ArgumentError unless one parameter is given, and for probabilities of 0.
    """

    support = constraints.nonnegative_integer

    def __init__(
        self, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        shape = self._take(probs, logits).shape
        super().__init__(shape, validate_args=validate_args)
        if self._validate_args and self._is_probs:
            value = self.probs
            if not tensors_hold(lambda: [value > 0], [value]):
                raise ArgumentError(
                    f"Expected parameter probs ({type(value).__name__} of shape "
                    f"{tuple(value.shape)}) of distribution {self!r} to be positive but found "
                    f"invalid values:\n{value[value <= 0]}"
                )

    def _mean(self) -> Any:
        return 1.0 / self.probs - 1.0

    def _mode(self) -> Tensor:
        return lazyt.zeros_like(self.probs)

    def _variance(self) -> Any:
        return (1.0 / self.probs - 1.0) / self.probs

    def _draw(self, shape: Size) -> Any:
        u = open_uniform(shape, self.probs)
        return (u.log() / (-self.probs.expand(shape)).log1p()).floor()

    def _log_density(self, value: Tensor) -> Any:
        value, probs = broadcast_all(value, self.probs)
        # Where success is certain there is no failure: 0 times an infinite logarithm.
        certain = lazyt.logical_and(probs == 1, value == 0)
        failures = value * (-lazyt.where(certain, 0.0, probs)).log1p()
        return failures + self.probs.log()

    def _entropy(self) -> Any:
        p = clamp_probs(self.probs)
        return -((1 - p) * (-p).log1p() + p * p.log()) / self.probs


class Binomial(_Odds):
    """How many of ``total_count`` trials succeed. Raises as ``Bernoulli`` does."""

    arg_constraints = {"total_count": constraints.nonnegative_integer, **_Odds.arg_constraints}
    has_enumerate_support = True

    def __init__(
        self, total_count: Any = 1, probs: Any = None, logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        param = self._take(probs, logits)
        self.total_count, param = broadcast_all(total_count, param)
        self.total_count = self.total_count.type_as(param)
        setattr(self, "probs" if self._is_probs else "logits", param)
        super().__init__(param.shape, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        """From 0 to the number of trials."""
        return constraints.integer_interval(0, self.total_count)

    def _mean(self) -> Any:
        return self.total_count * self.probs

    def _mode(self) -> Any:
        return ((self.total_count + 1) * self.probs).floor().clamp(max=self.total_count)

    def _variance(self) -> Any:
        return self.total_count * self.probs * (1 - self.probs)

    def _draw(self, shape: Size) -> Tensor:
        return lazyt.binomial(self.total_count.expand(shape), self.probs.expand(shape))

    def _log_density(self, value: Tensor) -> Any:
        n, logits = self.total_count, self.logits
        ways = lazyt.lgamma(n + 1) - lazyt.lgamma(value + 1) - lazyt.lgamma(n - value + 1)
        return ways + value * logits - n * nn.functional.softplus(logits)

    def _even_count(self) -> int:
        most = int(self.total_count.max())
        if int(self.total_count.min()) != most:
            raise NotImplementedError("Inhomogeneous total count not supported by `entropy`.")
        return most

    def _entropy(self) -> Tensor:
        """Summed over all values. Raises NotImplementedError for differing numbers of trials."""
        self._even_count()
        log_prob = self.log_prob(self.enumerate_support(False))
        return -(lazyt.exp(log_prob) * log_prob).sum(0)

    def _values(self) -> Tensor:
        most = int(self.total_count.max())
        if int(self.total_count.min()) != most:
            raise NotImplementedError(
                "Inhomogeneous total count not supported by `enumerate_support`."
            )
        return lazyt.arange(1 + most, dtype=self._param.dtype)


class NegativeBinomial(_Odds):
    """How many trials succeed before ``total_count`` of them fail."""

    arg_constraints = {
        "total_count": constraints.greater_than_eq(0),
        "probs": constraints.half_open_interval(0.0, 1.0),
        "logits": constraints.real,
    }
    support = constraints.nonnegative_integer

    def __init__(
        self, total_count: Any, probs: Any = None, logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        param = self._take(probs, logits)
        self.total_count, param = broadcast_all(total_count, param)
        self.total_count = self.total_count.type_as(param)
        setattr(self, "probs" if self._is_probs else "logits", param)
        super().__init__(param.shape, validate_args=validate_args)

    def _mean(self) -> Any:
        return self.total_count * lazyt.exp(self.logits)

    def _mode(self) -> Any:
        return ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0.0)

    def _variance(self) -> Any:
        return self.mean / lazyt.sigmoid(-self.logits)

    def _draw(self, shape: Size) -> Tensor:
        return lazyt.poisson((log_gamma_draws(self.total_count, tuple(shape)) + self.logits).exp())

    def _log_density(self, value: Tensor) -> Any:
        n, log_sigmoid = self.total_count, nn.functional.logsigmoid
        plain = n * log_sigmoid(-self.logits) + value * log_sigmoid(self.logits)
        ways = lazyt.lgamma(n + value) - lazyt.lgamma(1.0 + value) - lazyt.lgamma(n)
        # No failure to wait for, and no success: certain, though both gamma functions are infinite.
        return plain + lazyt.where(n + value == 0.0, 0.0, ways)


class Poisson(ExponentialFamily):
    """Counts of events that come at a ``rate``."""

    arg_constraints = {"rate": constraints.nonnegative}
    support = constraints.nonnegative_integer

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.shape, validate_args=validate_args)

    def _mean(self) -> Any:
        return self.rate

    def _mode(self) -> Any:
        return self.rate.floor()

    def _variance(self) -> Any:
        return self.rate

    def _draw(self, shape: Size) -> Tensor:
        return lazyt.poisson(self.rate.expand(shape))

    def _log_density(self, value: Tensor) -> Any:
        rate, value = broadcast_all(self.rate, value)
        return lazyt.xlogy(value, rate) - rate - lazyt.lgamma(value + 1)

    def _entropy(self) -> Tensor:
        raise NotImplementedError

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (lazyt.log(self.rate),)

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        return lazyt.exp(natural_params[0])


# Distributions over a finite number of categories.


_WEIGHTS = {"probs": constraints.simplex, "logits": constraints.real_vector}


class Categorical(Distribution):
    """The place of a category, drawn with probabilities along the last dimension.

    ``probs`` need not add up to 1, nor need the ``logits`` be normalised. Raises ArgumentError
    unless one of them is given with at least one dimension.
    """

    arg_constraints: Any = _WEIGHTS
    has_enumerate_support = True

    def __init__(
        self, probs: Tensor | None = None, logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        is_probs = one_given(probs, logits)
        given: Any = probs if is_probs else logits
        name = "probs" if is_probs else "logits"
        if given.dim() < 1:
            raise ArgumentError(f"`{name}` parameter must be at least one-dimensional.")
        if is_probs:
            self.probs = given / given.sum(-1, keepdim=True)
        else:
            self.logits = given - given.logsumexp(dim=-1, keepdim=True)
        self._is_probs, self._given = is_probs, given
        self._num_events = given.shape[-1]
        super().__init__(Size(given.shape)[:-1], validate_args=validate_args)

    def _expanded(self, shape: Size) -> None:
        self._given = self._given.expand(shape + Size(self._given.shape[-1:]))

    @property
    def _param(self) -> Tensor:
        found: Tensor = self.probs if self._is_probs else self.logits
        return found

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        """The places of the categories."""
        return constraints.integer_interval(0, self._num_events - 1)

    @lazy_property
    def logits(self) -> Tensor:
        """The logarithms of the probabilities."""
        return probs_to_logits(self.probs)

    @lazy_property
    def probs(self) -> Tensor:
        """The probabilities."""
        return logits_to_probs(self.logits)

    @property
    def param_shape(self) -> Size:
        """The shape of the parameter: the batch and the categories."""
        return Size(self._param.shape)

    def _mean(self) -> Tensor:
        return lazyt.full(self._extended_shape(), math.nan, dtype=self.probs.dtype)

    def _mode(self) -> Any:
        return self.probs.argmax(dim=-1)

    def _variance(self) -> Tensor:
        return lazyt.full(self._extended_shape(), math.nan, dtype=self.probs.dtype)

    def _draw(self, shape: Size) -> Tensor:
        rows = self.probs.reshape(-1, self._num_events)
        count = math.prod(shape[: len(shape) - len(self._batch_shape)])
        if rows.shape[0] == 0 or count == 0:
            return lazyt.zeros(shape, dtype=lazyt.int64)
        return lazyt.multinomial(rows, count, True).T.reshape(shape)

    def _log_density(self, value: Tensor) -> Tensor:
        index = value.long().unsqueeze(-1)
        index, log = lazyt.broadcast_tensors(index, self.logits)
        return log.gather(-1, index[..., :1]).squeeze(-1)

    def _entropy(self) -> Any:
        logits = self.logits.clamp(min=lazyt.finfo(self.logits.dtype).min)
        return -(logits * self.probs).sum(-1)

    def _values(self) -> Tensor:
        return lazyt.arange(self._num_events)


class OfCategories(Distribution):
    """What has one number for each category, and the categories' probabilities for parameters."""

    arg_constraints = _WEIGHTS

    def __init__(self, categorical: Categorical, validate_args: bool | None) -> None:
        self._categorical = categorical
        shape = categorical.param_shape
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    def _expanded(self, shape: Size) -> None:
        self._categorical = self._categorical.expand(shape)

    @property
    def _param(self) -> Tensor:
        return self._categorical._param

    @property
    def probs(self) -> Tensor:
        """The probabilities."""
        found: Tensor = self._categorical.probs
        return found

    @property
    def logits(self) -> Tensor:
        """The logarithms of the probabilities."""
        found: Tensor = self._categorical.logits
        return found

    @property
    def param_shape(self) -> Size:
        """The shape of the parameter: the batch and the categories."""
        return self._categorical.param_shape


class OneHotCategorical(OfCategories):
    """As ``Categorical``; an event is a vector with 1 at the place of its category."""

    support = constraints.one_hot
    has_enumerate_support = True

    def __init__(
        self, probs: Tensor | None = None, logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        super().__init__(Categorical(probs, logits, validate_args=validate_args), validate_args)

    def _mean(self) -> Tensor:
        return self.probs

    def _mode(self) -> Tensor:
        place = self.probs.argmax(dim=-1)
        return nn.functional.one_hot(place, self.param_shape[-1]).to(self.probs)

    def _variance(self) -> Tensor:
        return self.probs * (1 - self.probs)

    def _draw(self, shape: Size) -> Tensor:
        place = self._categorical._draw(shape[:-1])
        return nn.functional.one_hot(place, shape[-1]).to(self.probs)

    def _log_density(self, value: Tensor) -> Tensor:
        return self._categorical.log_prob(value.argmax(-1))

    def _entropy(self) -> Tensor:
        return self._categorical.entropy()

    def _values(self) -> Tensor:
        return lazyt.eye(self.param_shape[-1], dtype=self._param.dtype)


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """Draws whose gradient is that of the probabilities (Bengio, Léonard and Courville, 2013)."""

    has_rsample = True

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Vectors with one 1, without gradient."""
        with lazyt.no_grad():
            return self._draw(self._extended_shape(sample_shape))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """As ``sample``, with the gradient of ``probs``."""
        return self.sample(sample_shape) + (self.probs - self.probs.detach())


class Multinomial(OfCategories):
    """How often each category comes in ``total_count`` draws.

    Raises NotImplementedError where the number of draws is a tensor.
    """

    total_count: int

    def __init__(
        self, total_count: int = 1, probs: Tensor | None = None, logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        if not isinstance(total_count, int):
            raise NotImplementedError("inhomogeneous total_count is not supported")
        self.total_count = total_count
        super().__init__(Categorical(probs, logits), validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> Any:
        """Counts that add up to no more than the number of draws."""
        return constraints.multinomial(self.total_count)

    def _mean(self) -> Tensor:
        return self.probs * self.total_count

    def _variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)

    def _draw(self, shape: Size) -> Tensor:
        places = self._categorical._draw(Size((self.total_count, *shape[:-1])))
        return nn.functional.one_hot(places, shape[-1]).sum(0).to(self.probs)

    def _log_density(self, value: Tensor) -> Any:
        logits, value = lazyt.broadcast_tensors(self.logits, value)
        ways = lazyt.lgamma(value.sum(-1) + 1) - lazyt.lgamma(value + 1).sum(-1)
        # A category that cannot come and does not counts nothing.
        log = lazyt.where(lazyt.logical_and(value == 0, logits == -math.inf), 0.0, logits)
        return ways + (log * value).sum(-1)

    def _entropy(self) -> Tensor:
        n = lazyt.tensor(float(self.total_count), dtype=self.probs.dtype)
        whole = self._categorical.entropy() * n - lazyt.lgamma(n + 1)
        counts = lazyt.arange(1, self.total_count + 1, dtype=self.probs.dtype)
        shaped = counts.reshape((-1,) + (1,) * self.probs.dim())
        binomial = Binomial(self.total_count, probs=clamp_probs(self.probs), validate_args=False)
        weights = binomial.log_prob(shaped).exp()
        return whole + (weights * lazyt.lgamma(shaped + 1)).sum(0).sum(-1)
