"""The base of all distributions: shapes, validation, and the order in which things happen.

A distribution says its mathematics in a few underscored methods (``_log_density``, ``_draw`` ...);
the public ones check arguments and call them. Checking parameters and values looks at them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from numbers import Number
from typing import Any

from lazyt import autograd
from lazyt.distributions import constraints
from lazyt.errors import ArgumentError, warn
from lazyt.functional import namespace as lazyt
from lazyt.functional.namespace import Size, Tensor
from lazyt.functional.value_checks import tensors_hold

__all__ = [
    "Distribution", "ExponentialFamily", "broadcast_all", "clamp_probs", "lazy_property",
    "logits_to_probs", "probs_to_logits", "tril_matrix_to_vec", "vec_to_tril_matrix",
]  # fmt: skip


# What distributions do with their parameters: broadcasting, probabilities and logits.


class lazy_property:
    """A property that is computed when first read, with gradients, and kept."""

    def __init__(self, wrapped: Callable[[Any], Tensor]) -> None:
        self.wrapped = wrapped
        self.__doc__ = wrapped.__doc__

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self
        with lazyt.enable_grad():
            value = self.wrapped(instance)
        instance.__dict__[self.wrapped.__name__] = value
        return value


def broadcast_all(*values: Any) -> Any:
    """Tensors of one shape of tensors and numbers; numbers take the dtype of the first tensor.

    Raises ArgumentError for anything else, ShapeError for shapes that do not fit.
    """
    if not all(isinstance(v, (Tensor, Number)) for v in values):
        raise ArgumentError(
            "Input arguments must all be instances of Number, torch.Tensor or objects "
            "implementing __torch_function__."
        )
    kinds = [v.dtype for v in values if isinstance(v, Tensor)]
    dtype = kinds[0] if kinds else lazyt.get_default_dtype()
    tensors = [v if isinstance(v, Tensor) else lazyt.tensor(v, dtype=dtype) for v in values]
    return lazyt.broadcast_tensors(*tensors)


def clamp_probs(probs: Tensor) -> Tensor:
    """Probabilities kept the dtype's epsilon away from 0 and 1, so that logarithms are finite."""
    eps = lazyt.finfo(probs.dtype).eps
    return probs.clamp(min=eps, max=1 - eps)


def logits_to_probs(logits: Tensor, is_binary: bool = False) -> Tensor:
    """Probabilities of log odds, or along the last dimension of unnormalised logarithms."""
    return lazyt.sigmoid(logits) if is_binary else lazyt.softmax(logits, -1)


def probs_to_logits(probs: Tensor, is_binary: bool = False) -> Tensor:
    """The inverse of ``logits_to_probs`` for probabilities that are kept away from 0 and 1."""
    clamped = clamp_probs(probs)
    return clamped.log() - (-clamped).log1p() if is_binary else clamped.log()


def one_given(probs: Any, logits: Any) -> bool:
    """Whether ``probs`` is given and not ``logits``. Raises ArgumentError unless one is."""
    if (probs is None) == (logits is None):
        raise ArgumentError("Either `probs` or `logits` must be specified, but not both.")
    return probs is not None


def standard_normal(shape: Sequence[int], like: Tensor) -> Tensor:
    """Normal numbers of a shape in a tensor's dtype."""
    return lazyt.randn(tuple(shape), dtype=like.dtype, device=like.device)


def open_uniform(shape: Sequence[int], like: Tensor) -> Tensor:
    """Uniform numbers in (0, 1), whose logarithm and that of 1 less them are finite."""
    eps = lazyt.finfo(like.dtype).eps
    drawn = lazyt.rand(tuple(shape), dtype=like.dtype, device=like.device)
    return drawn.clamp(eps / 4, 1 - eps)


def sum_rightmost(value: Tensor, count: int) -> Tensor:
    """The sum over the last ``count`` dimensions, or over as many as there are."""
    if count == 0:
        return value
    found: Tensor = value.reshape((*value.shape[:-count], -1)).sum(-1)
    return found


def tril_matrix_to_vec(mat: Tensor, diag: int = 0) -> Tensor:
    """The elements on and below diagonal ``diag``, row by row. Raises ValueError."""
    size = mat.shape[-1]
    if not -size <= diag < size:
        raise ValueError(f"diag ({diag}) provided is outside [{-size}, {size - 1}].")
    rows, columns = lazyt.tril_indices(size, size, diag)
    found: Tensor = mat[..., rows, columns]
    return found


def vec_to_tril_matrix(vec: Tensor, diag: int = 0) -> Tensor:
    """The inverse of ``tril_matrix_to_vec``, with zeros elsewhere. Raises ValueError."""
    count = vec.shape[-1]
    size = -(1 + 2 * diag) + ((1 + 2 * diag) ** 2 + 8 * count + 4 * abs(diag) * (diag + 1)) ** 0.5
    side = round(size / 2)
    if abs(size / 2 - side) > lazyt.finfo(vec.dtype).eps:
        raise ValueError(
            f"The size of last dimension is {count} which cannot be expressed as the lower "
            "triangular part of a square D x D matrix."
        )
    matrix = vec.new_zeros((*vec.shape[:-1], side, side))
    rows, columns = lazyt.tril_indices(side, side, diag)
    matrix[..., rows, columns] = vec
    return matrix


def _tensors_of(constraint: Any) -> Iterator[Tensor]:
    """The bounds that are tensors."""
    for part in vars(constraint).values():
        if isinstance(part, Tensor):
            yield part
        elif isinstance(part, constraints.Constraint):
            yield from _tensors_of(part)


def _lie_in(pairs: Sequence[tuple[Any, Tensor]]) -> bool:
    """Whether values lie in sets, given pairs of a set and a value. Computes pending values."""
    given = [part for pair in pairs for part in (pair[1], *_tensors_of(pair[0]))]
    return tensors_hold(lambda: [constraint.check(value) for constraint, value in pairs], given)


def _origin(cls: type) -> type:
    """The nearest class of this package that a distribution is one of."""
    home = __name__.rpartition(".")[0]
    return next(base for base in cls.__mro__ if base.__module__.startswith(home))


class Distribution:
    """A distribution of events of ``event_shape``, one for each place of ``batch_shape``.

    ``validate_args`` checks parameters and values (ArgumentError, a ValueError).
    """

    has_rsample: Any = False
    has_enumerate_support: Any = False
    _validate_args: bool = __debug__
    arg_constraints: Any = {}
    support: Any = constraints.dependent

    def __init__(
        self, batch_shape: Any = (), event_shape: Any = (),
        validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        self._batch_shape, self._event_shape = Size(batch_shape), Size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            self._check_parameters()
        super().__init__()

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Whether distributions made from now on check what they are given."""
        if value not in (True, False):
            raise ValueError
        Distribution._validate_args = value

    def _check_parameters(self) -> None:
        checked: list[tuple[str, Any, Tensor]] = []
        for name, constraint in self.arg_constraints.items():
            if constraints.is_dependent(constraint):
                continue
            owner = getattr(type(self), name, None)
            if name not in self.__dict__ and isinstance(owner, lazy_property):
                continue
            checked.append((name, constraint, getattr(self, name)))
        if _lie_in([(constraint, value) for _, constraint, value in checked]):
            return
        for name, constraint, value in checked:
            if not _lie_in([(constraint, value)]):
                raise ArgumentError(
                    f"Expected parameter {name} ({type(value).__name__} of shape "
                    f"{tuple(value.shape)}) of distribution {self!r} to satisfy the constraint "
                    f"{constraint!r}, but found invalid values:\n{value}"
                )

    def _validate_sample(self, value: Any) -> None:
        """Raise ArgumentError for a value of another shape, or outside the support."""
        if not isinstance(value, Tensor):
            raise ArgumentError("The value argument to log_prob must be a Tensor")
        shape, rank = Size(value.shape), len(self._event_shape)
        if shape[len(shape) - rank :] != self._event_shape:
            raise ArgumentError(
                f"The right-most size of value must match event_shape: {shape} vs "
                f"{self._event_shape}."
            )
        expected = self._batch_shape + self._event_shape
        for i, j in zip(reversed(shape), reversed(expected), strict=False):
            if i != 1 and j != 1 and i != j:
                raise ArgumentError(
                    f"Value is not broadcastable with batch_shape+event_shape: {shape} vs "
                    f"{expected}."
                )
        support = self.support
        if constraints.is_dependent(support):
            warn(
                f"{type(self)} does not define `support` to enable sample validation. Please "
                "initialize the distribution with `validate_args=False` to turn off validation."
            )
            return
        if not _lie_in([(support, value)]):
            raise ArgumentError(
                f"Expected value argument ({type(value).__name__} of shape {tuple(shape)}) to be "
                f"within the support ({support!r}) of the distribution {self!r}, but found "
                f"invalid values:\n{value}"
            )

    def _checked(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return value

    @property
    def batch_shape(self) -> Size:
        """The shape of the parameters: one distribution each."""
        return self._batch_shape

    @property
    def event_shape(self) -> Size:
        """The shape of one event."""
        return self._event_shape

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """The same distribution with its parameters repeated to ``batch_shape``.

        Args:
            _instance: an object to become that distribution, for subclasses that set more.

        Raises NotImplementedError for a subclass with an ``__init__`` of its own, which has to
        say how it is expanded.
        """
        shape = Size(batch_shape)
        made = self._get_checked_instance(_origin(type(self)), _instance)
        made.__dict__.update(self.__dict__ | made.__dict__)
        made._event_shape = self.event_shape
        for name, constraint in self.arg_constraints.items():
            value = self.__dict__.get(name)
            if isinstance(value, Tensor):
                made.__dict__[name] = value.expand(
                    shape + Size(value.shape[value.dim() - constraint.event_dim :])
                )
        made._batch_shape = shape
        made._expanded(shape)
        return made

    def _get_checked_instance(self, cls: type, _instance: Any = None) -> Any:
        """``_instance``, or a blank object of this class for ``expand`` to fill."""
        if _instance is not None:
            return _instance
        if type(self).__init__ != cls.__init__:  # type: ignore[misc]
            raise NotImplementedError(
                f"Subclass {type(self).__name__} of {cls.__name__} that defines a custom __init__ "
                "method must also define a custom .expand() method."
            )
        return self.__new__(type(self))

    def _expanded(self, shape: Size) -> None:
        """Expand what is no parameter, in a copy of the distribution."""

    @property
    def mean(self) -> Tensor:
        """The mean, NaN where there is none."""
        return self._mean()

    @property
    def mode(self) -> Tensor:
        """The most probable event."""
        return self._mode()

    @property
    def variance(self) -> Tensor:
        """The variance of every element."""
        return self._variance()

    @property
    def stddev(self) -> Tensor:
        """The standard deviation of every element."""
        return self.variance.sqrt()

    def _mean(self) -> Tensor:
        raise NotImplementedError

    def _mode(self) -> Tensor:
        raise NotImplementedError(f"{type(self)} does not implement mode")

    def _variance(self) -> Tensor:
        raise NotImplementedError

    def _draw(self, shape: Size) -> Tensor:
        """Events of the whole ``shape``, differentiable where ``has_rsample``."""
        raise NotImplementedError

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Events of shape ``sample_shape + batch_shape + event_shape``, without gradient.

        They are those of ``rsample``, where there is one.
        """
        with lazyt.no_grad():
            if self.has_rsample or type(self)._draw is Distribution._draw:
                return self.rsample(sample_shape)
            return self._draw(self._extended_shape(sample_shape))

    def sample_n(self, n: int) -> Tensor:
        """``sample((n,))``, by an old name."""
        warn(
            "`sample_n(n)` will be deprecated. Use `sample((n,))` instead.",
            FutureWarning,
        )
        return self.sample(Size((n,)))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """As ``sample``, with gradients to the parameters.

        Raises NotImplementedError where the events do not move with the parameters.
        """
        if not self.has_rsample:
            raise NotImplementedError
        return self._draw(self._extended_shape(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density or probability at ``value``, one per event."""
        return self._log_density(self._checked(value))

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of an event of at most ``value``."""
        return self._cdf(self._checked(value))

    def icdf(self, value: Tensor) -> Tensor:
        """The inverse of ``cdf``."""
        return self._icdf(value)

    def entropy(self) -> Tensor:
        """The entropy in nats."""
        return self._entropy()

    def _log_density(self, value: Tensor) -> Tensor:
        raise NotImplementedError

    def _cdf(self, value: Tensor) -> Tensor:
        raise NotImplementedError

    def _icdf(self, value: Tensor) -> Tensor:
        raise NotImplementedError

    def _entropy(self) -> Tensor:
        raise NotImplementedError

    def _values(self) -> Tensor:
        """All values of a discrete distribution, one after the other."""
        raise NotImplementedError

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All values along a new first dimension, repeated over the batch where ``expand``.

        Raises NotImplementedError unless ``has_enumerate_support``.
        """
        values = self._values()
        batch, rank = self.batch_shape, len(self.event_shape)
        values = values.reshape(values.shape[:1] + (1,) * len(batch) + values.shape[1:])
        if expand:
            values = values.expand((values.shape[0], *batch, *values.shape[values.dim() - rank :]))
        return values

    def perplexity(self) -> Tensor:
        """The exponential of the entropy."""
        return self.entropy().exp()

    def _extended_shape(self, sample_shape: Any = ()) -> Size:
        return Size(sample_shape) + self._batch_shape + self._event_shape

    def __repr__(self) -> str:
        names = [name for name in self.arg_constraints if name in self.__dict__]
        shown = []
        for name in names:
            value = self.__dict__[name]
            shown.append(f"{name}: {value if value.numel() == 1 else Size(value.shape)}")
        return f"{type(self).__name__}({', '.join(shown)})"


class ExponentialFamily(Distribution):
    """Densities ``exp(t(x)·θ - F(θ) + k(x))``; the entropy is found from F by differentiation."""

    @property
    def _mean_carrier_measure(self) -> Any:
        raise NotImplementedError

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        raise NotImplementedError

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        raise NotImplementedError

    def _entropy(self) -> Any:
        """F(θ) - θ·F'(θ) - E k(x): a Bregman divergence (Nielsen and Nock, 2010)."""
        carried = self._mean_carrier_measure
        params = [p.detach().requires_grad_() for p in self._natural_params]
        normalizer = self._log_normalizer(*params)
        slopes = autograd.grad(normalizer.sum(), params, create_graph=True)
        result = normalizer - carried
        for p, slope in zip(params, slopes):
            rest = p * slope
            result = result - rest.reshape((*self._batch_shape, -1)).sum(-1)
        return result
