"""Distributions made of others: of independent parts, mixed, and carried by transforms."""

from __future__ import annotations

from typing import Any

from lazyt.distributions import constraints
from lazyt.distributions.discrete import Categorical
from lazyt.distributions.distribution import Distribution, sum_rightmost
from lazyt.distributions.transforms import ComposeTransform, Transform
from lazyt.errors import ArgumentError
from lazyt.functional import namespace as lazyt
from lazyt.functional.namespace import Size, Tensor

__all__ = ["Independent", "MixtureSameFamily", "TransformedDistribution"]


class Independent(Distribution):
    """Another distribution, of which the last batch dimensions make one event.

    Raises ArgumentError where it has fewer of them.
    """

    arg_constraints: Any = {}

    def __init__(
        self, base_distribution: Any, reinterpreted_batch_ndims: int,
        validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        rank = len(base_distribution.batch_shape)
        if reinterpreted_batch_ndims > rank:
            raise ArgumentError(
                "Expected reinterpreted_batch_ndims <= len(base_distribution.batch_shape), "
                f"actual {reinterpreted_batch_ndims} vs {rank}"
            )
        shape = base_distribution.batch_shape + base_distribution.event_shape
        cut = rank - reinterpreted_batch_ndims
        self.base_dist = base_distribution
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims
        super().__init__(shape[:cut], shape[cut:], validate_args=validate_args)

    def _expanded(self, shape: Size) -> None:
        inner = self.event_shape[: self.reinterpreted_batch_ndims]
        self.base_dist = self.base_dist.expand(shape + inner)

    @property
    def has_rsample(self) -> bool:
        """As of the other."""
        return bool(self.base_dist.has_rsample)

    @property
    def has_enumerate_support(self) -> bool:
        """As of the other, where no dimension is reinterpreted."""
        return not self.reinterpreted_batch_ndims and bool(self.base_dist.has_enumerate_support)

    @constraints.dependent_property
    def support(self) -> Any:
        """That of the other, over the whole event."""
        found = self.base_dist.support
        if self.reinterpreted_batch_ndims:
            found = constraints.independent(found, self.reinterpreted_batch_ndims)
        return found

    def _mean(self) -> Tensor:
        found: Tensor = self.base_dist.mean
        return found

    def _mode(self) -> Tensor:
        found: Tensor = self.base_dist.mode
        return found

    def _variance(self) -> Tensor:
        found: Tensor = self.base_dist.variance
        return found

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Draws of the other."""
        found: Tensor = self.base_dist.sample(sample_shape)
        return found

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Draws of the other, with gradients."""
        found: Tensor = self.base_dist.rsample(sample_shape)
        return found

    def log_prob(self, value: Tensor) -> Tensor:
        """The sum over the event."""
        return sum_rightmost(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def _entropy(self) -> Tensor:
        return sum_rightmost(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """The other's. Raises NotImplementedError where dimensions are reinterpreted."""
        if self.reinterpreted_batch_ndims > 0:
            raise NotImplementedError("Enumeration over cartesian product is not implemented")
        found: Tensor = self.base_dist.enumerate_support(expand=expand)
        return found

    def __repr__(self) -> str:
        return f"Independent({self.base_dist!r}, {self.reinterpreted_batch_ndims})"


class MixtureSameFamily(Distribution):
    """Distributions of one family, the last batch dimension, mixed with the given weights.

    Raises ArgumentError for weights that are no Categorical, and for shapes that do not fit.
    """

    arg_constraints: Any = {}

    def __init__(
        self, mixture_distribution: Any, component_distribution: Any,
        validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        if not isinstance(mixture_distribution, Categorical):
            raise ArgumentError(
                " The Mixture distribution needs to be an  instance of "
                "torch.distributions.Categorical"
            )
        if not isinstance(component_distribution, Distribution):
            raise ArgumentError(
                "The Component distribution need to be an instance of "
                "torch.distributions.Distribution"
            )
        outer, inner = mixture_distribution.batch_shape, component_distribution.batch_shape[:-1]
        for i, j in zip(reversed(outer), reversed(inner), strict=False):
            if i != 1 and j != 1 and i != j:
                raise ArgumentError(
                    f"`mixture_distribution.batch_shape` ({outer}) is not compatible with "
                    f"`component_distribution.batch_shape`({inner})"
                )
        weights = mixture_distribution.param_shape[-1]
        parts = component_distribution.batch_shape[-1]
        if weights != parts:
            raise ArgumentError(
                f"`mixture_distribution component` ({weights}) does not equal "
                f"`component_distribution.batch_shape[-1]` ({parts})"
            )
        self._mixture_distribution = mixture_distribution
        self._component_distribution = component_distribution
        self._num_component = parts
        self._event_ndims = len(component_distribution.event_shape)
        super().__init__(inner, component_distribution.event_shape, validate_args=validate_args)

    def _expanded(self, shape: Size) -> None:
        whole = shape + Size((self._num_component,))
        self._component_distribution = self._component_distribution.expand(whole)
        self._mixture_distribution = self._mixture_distribution.expand(shape)

    @constraints.dependent_property
    def support(self) -> Any:
        """That of the components."""
        return constraints.MixtureSameFamilyConstraint(self._component_distribution.support)

    @property
    def mixture_distribution(self) -> Categorical:
        """The weights."""
        found: Categorical = self._mixture_distribution
        return found

    @property
    def component_distribution(self) -> Distribution:
        """The components."""
        found: Distribution = self._component_distribution
        return found

    def _pad(self, x: Tensor) -> Tensor:
        """With a dimension of 1 for the components."""
        return x.unsqueeze(-1 - self._event_ndims)

    def _pad_mixture_dimensions(self, x: Tensor) -> Tensor:
        """What belongs to the weights, with a dimension of 1 for each of an event's."""
        own, all_dims = len(self.mixture_distribution.batch_shape), len(self.batch_shape)
        missing = 0 if own == 0 else all_dims - own
        return x.reshape((*x.shape[:-1], *(1,) * missing, *x.shape[-1:], *(1,) * self._event_ndims))

    def _mean(self) -> Tensor:
        weights = self._pad_mixture_dimensions(self.mixture_distribution.probs)
        return (weights * self.component_distribution.mean).sum(-1 - self._event_ndims)

    def _variance(self) -> Tensor:
        dim, parts = -1 - self._event_ndims, self.component_distribution
        weights = self._pad_mixture_dimensions(self.mixture_distribution.probs)
        within = (weights * parts.variance).sum(dim)
        away = (parts.mean - self._pad(self.mean)).pow(2)
        return within + (weights * away).sum(dim)

    def _cdf(self, value: Tensor) -> Any:
        parts = self.component_distribution.cdf(self._pad(value))
        return (parts * self.mixture_distribution.probs).sum(-1)

    def _log_density(self, value: Tensor) -> Tensor:
        parts = self.component_distribution.log_prob(self._pad(value))
        weights = lazyt.log_softmax(self.mixture_distribution.logits, dim=-1)
        return lazyt.logsumexp(parts + weights, dim=-1)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """A component for each event, and its draw."""
        with lazyt.no_grad():
            shape = Size(sample_shape)
            parts = self.component_distribution.sample(shape)
            place = self.mixture_distribution.expand(self.batch_shape).sample(shape)
            rank = self._event_ndims
            index = place.reshape((*place.shape, 1, *(1,) * rank))
            index = index.expand((*place.shape, 1, *self.event_shape))
            return parts.gather(-1 - rank, index).squeeze(-1 - rank)

    def __repr__(self) -> str:
        return (
            f"MixtureSameFamily(\n  {self.mixture_distribution!r},\n  "
            f"{self.component_distribution!r})"
        )


class TransformedDistribution(Distribution):
    """Another distribution's events carried by transforms, one after the other.

    Raises ArgumentError for transforms that are none, and for a base of too small a shape.
    """

    arg_constraints: Any = {}

    def __init__(
        self, base_distribution: Any, transforms: Any, validate_args: bool | None = None
    ) -> None:
        if isinstance(transforms, Transform):
            self.transforms = [transforms]
        elif not isinstance(transforms, list):
            raise ArgumentError(f"transforms must be a Transform or list, but was {transforms}")
        elif not all(isinstance(t, Transform) for t in transforms):
            raise ArgumentError("transforms must be a Transform or a list of Transforms")
        else:
            self.transforms = transforms
        shape = base_distribution.batch_shape + base_distribution.event_shape
        rank = len(base_distribution.event_shape)
        whole = ComposeTransform(self.transforms)
        needed = whole.domain.event_dim
        if len(shape) < needed:
            raise ArgumentError(
                "base_distribution needs to have shape with size at least "
                f"{needed}, but got {shape}."
            )
        out = Size(whole.forward_shape(shape))
        wanted = Size(whole.inverse_shape(out))
        if wanted != shape:
            base_distribution = base_distribution.expand(wanted[: len(wanted) - rank])
        if needed > rank:
            base_distribution = Independent(base_distribution, needed - rank)
        self.base_dist = base_distribution
        self._needed, self._out_rank = needed, whole.codomain.event_dim
        cut = len(out) - max(self._out_rank, rank + self._out_rank - needed)
        super().__init__(out[:cut], out[cut:], validate_args=validate_args)

    def _expanded(self, shape: Size) -> None:
        whole = ComposeTransform(self.transforms)
        inner = Size(whole.inverse_shape(shape + self._event_shape))
        cut = len(inner) - len(self.base_dist.event_shape)
        self.base_dist = self.base_dist.expand(inner[:cut])

    @property
    def has_rsample(self) -> bool:
        """As of the base."""
        return bool(self.base_dist.has_rsample)

    @constraints.dependent_property(is_discrete=False)
    def support(self) -> Any:
        """Where the last transform ends."""
        if not self.transforms:
            return self.base_dist.support
        found = self.transforms[-1].codomain
        extra = len(self.event_shape) - found.event_dim
        return constraints.independent(found, extra) if extra > 0 else found

    def _carried(self, x: Tensor) -> Tensor:
        for transform in self.transforms:
            x = transform(x)
        return x

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """The base's draws, carried."""
        with lazyt.no_grad():
            return self._carried(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """The base's draws, carried, with gradients."""
        return self._carried(self.base_dist.rsample(sample_shape))

    def _log_density(self, value: Tensor) -> Tensor:
        rank: int = len(self.event_shape)
        total: Any = 0.0
        y = value
        for transform in reversed(self.transforms):
            x = transform._inv_call(y)
            rank += transform.domain.event_dim - transform.codomain.event_dim
            slope = transform.log_abs_det_jacobian(x, y)
            total = total - sum_rightmost(slope, rank - transform.domain.event_dim)
            y = x
        inner = self.base_dist.log_prob(y)
        found: Tensor = total + sum_rightmost(inner, rank - len(self.base_dist.event_shape))
        return found

    def _sign(self) -> Any:
        sign: Any = 1
        for transform in self.transforms:
            sign = sign * transform.sign
        return sign

    def _monotonize_cdf(self, value: Tensor) -> Tensor:
        """1 - value where the transforms fall, else value."""
        sign = self._sign()
        if isinstance(sign, int) and sign == 1:
            return value
        found: Tensor = sign * (value - 0.5) + 0.5
        return found

    def _cdf(self, value: Tensor) -> Tensor:
        for transform in reversed(self.transforms):
            value = transform._inv_call(value)
        return self._monotonize_cdf(self.base_dist.cdf(value))

    def _icdf(self, value: Tensor) -> Tensor:
        return self._carried(self.base_dist.icdf(self._monotonize_cdf(value)))
