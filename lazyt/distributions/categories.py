"""Distributions over a finite number of categories."""

from __future__ import annotations

import math
from typing import Any

from lazyt import nn
from lazyt.distributions import constraints
from lazyt.distributions.discrete import Binomial
from lazyt.distributions.distribution import Distribution
from lazyt.distributions.parameters import (
    clamp_probs,
    lazy_property,
    logits_to_probs,
    one_given,
    probs_to_logits,
)
from lazyt.errors import ArgumentError
from lazyt.functional import namespace as lazyt
from lazyt.functional.namespace import Size, Tensor

__all__ = ["Categorical", "Multinomial", "OneHotCategorical", "OneHotCategoricalStraightThrough"]

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
