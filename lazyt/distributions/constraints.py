"""Sets of values, under the names of ``torch.distributions.constraints``.

A constraint checks a tensor elementwise, or per event of its last ``event_dim`` dimensions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lazyt import linalg
from lazyt.functional import namespace as lazyt
from lazyt.functional.namespace import Tensor

__all__ = [
    "Constraint", "MixtureSameFamilyConstraint", "boolean", "cat", "corr_cholesky", "dependent",
    "dependent_property", "greater_than", "greater_than_eq", "half_open_interval", "independent",
    "integer_interval", "interval", "is_dependent", "less_than", "lower_cholesky",
    "lower_triangular", "multinomial", "nonnegative", "nonnegative_integer", "one_hot", "positive",
    "positive_definite", "positive_integer", "positive_semidefinite", "real", "real_vector",
    "simplex", "square", "stack", "symmetric", "unit_interval",
]  # fmt: skip


class Constraint:
    """A set of values. ``event_dim`` says how many dimensions make one value."""

    is_discrete: Any = False
    event_dim: Any = 0

    def check(self, value: Tensor) -> Tensor:
        """A bool tensor that is true where ``value`` lies in the set, one per event."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return type(self).__name__.removeprefix("_") + "()"


def _both(first: Any, second: Any) -> Tensor:
    return lazyt.logical_and(first, second)


class _Dependent(Constraint):
    """A set that depends on other parameters, so that it cannot be checked by itself."""

    def __init__(self, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented):
        self._is_discrete, self._event_dim = is_discrete, event_dim

    @property
    def is_discrete(self) -> bool:
        """Whether the values are discrete. Raises NotImplementedError where that is unknown."""
        if self._is_discrete is NotImplemented:
            raise NotImplementedError(".is_discrete cannot be determined statically")
        return bool(self._is_discrete)

    @property
    def event_dim(self) -> int:
        """The rank of an event. Raises NotImplementedError where that is unknown."""
        if self._event_dim is NotImplemented:
            raise NotImplementedError(".event_dim cannot be determined statically")
        return int(self._event_dim)

    def __call__(
        self, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented
    ) -> _Dependent:
        discrete = self._is_discrete if is_discrete is NotImplemented else is_discrete
        rank = self._event_dim if event_dim is NotImplemented else event_dim
        return _Dependent(is_discrete=discrete, event_dim=rank)

    def check(self, value: Tensor) -> Tensor:
        raise ValueError("Cannot determine validity of dependent constraint")


def is_dependent(constraint: Constraint) -> bool:
    """Whether the set depends on other parameters."""
    return isinstance(constraint, _Dependent)


class _DependentProperty(property, _Dependent):
    """A property that is a constraint; on the class, a dependent one."""

    def __init__(
        self, fn: Callable[..., Any] | None = None, *, is_discrete: Any = NotImplemented,
        event_dim: Any = NotImplemented,
    ) -> None:  # fmt: skip
        property.__init__(self, fn)
        _Dependent.__init__(self, is_discrete=is_discrete, event_dim=event_dim)

    def __call__(self, fn: Callable[..., Any]) -> _DependentProperty:  # type: ignore[override]
        return _DependentProperty(fn, is_discrete=self._is_discrete, event_dim=self._event_dim)


class _IndependentConstraint(Constraint):
    """Another set, of which the last dimensions count as one event."""

    def __init__(self, base_constraint: Constraint, reinterpreted_batch_ndims: int) -> None:
        if not isinstance(reinterpreted_batch_ndims, int) or reinterpreted_batch_ndims < 0:
            raise AssertionError("reinterpreted_batch_ndims must be a non-negative int")
        self.base_constraint = base_constraint
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    @property
    def is_discrete(self) -> bool:
        """As of the other set."""
        return bool(self.base_constraint.is_discrete)

    @property
    def event_dim(self) -> int:
        """The rank of an event, with the reinterpreted dimensions."""
        return int(self.base_constraint.event_dim) + self.reinterpreted_batch_ndims

    def check(self, value: Tensor) -> Tensor:
        result = self.base_constraint.check(value)
        count = self.reinterpreted_batch_ndims
        if result.dim() < count:
            expected = self.base_constraint.event_dim + count
            raise ValueError(f"Expected value.dim() >= {expected} but got {value.dim()}")
        for _ in range(count):
            result = result.all(-1)
        return result

    def __repr__(self) -> str:
        return f"IndependentConstraint({self.base_constraint!r}, {self.reinterpreted_batch_ndims})"


class MixtureSameFamilyConstraint(Constraint):
    """The support of a mixture: of the components, all of which see the value."""

    def __init__(self, base_constraint: Constraint) -> None:
        self.base_constraint = base_constraint

    @property
    def is_discrete(self) -> bool:
        """As of the components."""
        return bool(self.base_constraint.is_discrete)

    @property
    def event_dim(self) -> int:
        """As of the components."""
        return int(self.base_constraint.event_dim)

    def check(self, value: Tensor) -> Tensor:
        """True where every component takes the value."""
        valid = self.base_constraint.check(value.unsqueeze(-1 - self.event_dim))
        return valid.all(-1)

    def __repr__(self) -> str:
        return f"MixtureSameFamilyConstraint({self.base_constraint!r})"


class _Boolean(Constraint):
    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        return lazyt.logical_or(value == 0, value == 1)


class _OneHot(Constraint):
    is_discrete, event_dim = True, 1

    def check(self, value: Tensor) -> Tensor:
        return _both(lazyt.logical_or(value == 0, value == 1).all(-1), value.sum(-1) == 1)


class _Real(Constraint):
    def check(self, value: Tensor) -> Tensor:
        return value == value


class _Bounded(Constraint):
    """A set given by bounds, which its text names."""

    bounds: tuple[str, ...] = ()

    def __init__(self, *bounds: Any, **named: Any) -> None:
        for name, bound in {**dict(zip(self.bounds, bounds, strict=False)), **named}.items():
            setattr(self, name, bound)

    def __repr__(self) -> str:
        listed = ", ".join(f"{name}={getattr(self, name)}" for name in self.bounds)
        return f"{type(self).__name__.removeprefix('_')}({listed})"


class _GreaterThan(_Bounded):
    bounds = ("lower_bound",)
    lower_bound: Any

    def check(self, value: Tensor) -> Any:
        return value > self.lower_bound


class _GreaterThanEq(_GreaterThan):
    def check(self, value: Tensor) -> Any:
        return value >= self.lower_bound


class _LessThan(_Bounded):
    bounds = ("upper_bound",)
    upper_bound: Any

    def check(self, value: Tensor) -> Any:
        return value < self.upper_bound


class _IntegerGreaterThan(_GreaterThan):
    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        return _both(value % 1 == 0, value >= self.lower_bound)


class _Interval(_Bounded):
    bounds = ("lower_bound", "upper_bound")
    lower_bound: Any
    upper_bound: Any

    def check(self, value: Tensor) -> Tensor:
        return _both(value >= self.lower_bound, value <= self.upper_bound)


class _HalfOpenInterval(_Interval):
    def check(self, value: Tensor) -> Tensor:
        return _both(value >= self.lower_bound, value < self.upper_bound)


class _IntegerInterval(_Interval):
    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        return _both(value % 1 == 0, super().check(value))


class _Multinomial(_Bounded):
    is_discrete, event_dim = True, 1
    bounds = ("upper_bound",)
    upper_bound: Any

    def check(self, value: Tensor) -> Tensor:
        return _both((value >= 0).all(-1), value.sum(-1) <= self.upper_bound)

    def __repr__(self) -> str:
        return "Multinomial()"


class _Simplex(Constraint):
    event_dim = 1

    def check(self, value: Tensor) -> Tensor:
        return _both((value >= 0).all(-1), (value.sum(-1) - 1).abs() < 1e-6)


class _LowerTriangular(Constraint):
    event_dim = 2

    def check(self, value: Tensor) -> Tensor:
        return (value.tril() == value).flatten(-2).all(-1)


class _LowerCholesky(_LowerTriangular):
    def check(self, value: Tensor) -> Tensor:
        return _both(super().check(value), (value.diagonal(dim1=-2, dim2=-1) > 0).all(-1))


class _CorrCholesky(_LowerCholesky):
    def check(self, value: Tensor) -> Tensor:
        tolerance = lazyt.finfo(value.dtype).eps * value.shape[-1] * 10
        length = (value * value).sum(-1)
        return _both(super().check(value), ((length - 1).abs() < tolerance).all(-1))


class _Square(Constraint):
    event_dim = 2

    def check(self, value: Tensor) -> Tensor:
        same = value.shape[-2] == value.shape[-1]
        return lazyt.full(value.shape[:-2], same, dtype=lazyt.bool)


class _Symmetric(_Square):
    def check(self, value: Tensor) -> Tensor:
        square = super().check(value)
        if value.shape[-2] != value.shape[-1]:
            return square
        return lazyt.isclose(value, value.mT, atol=1e-6).all(-2).all(-1)


class _PositiveSemidefinite(_Symmetric):
    def check(self, value: Tensor) -> Tensor:
        symmetric = super().check(value)
        if value.shape[-2] != value.shape[-1]:
            return symmetric
        return _both(symmetric, (linalg.eigvalsh(value) >= 0).all(-1))


class _PositiveDefinite(_Symmetric):
    def check(self, value: Tensor) -> Tensor:
        symmetric = super().check(value)
        if value.shape[-2] != value.shape[-1]:
            return symmetric
        return _both(symmetric, linalg.cholesky_ex(value).info == 0)


class _Joined(Constraint):
    """Several sets, each for its part of a tensor along ``dim``."""

    def __init__(self, cseq: Sequence[Constraint], dim: int = 0) -> None:
        self.cseq, self.dim = list(cseq), dim

    @property
    def is_discrete(self) -> bool:
        """Whether one of the sets is discrete."""
        return any(c.is_discrete for c in self.cseq)


class _Cat(_Joined):
    def __init__(
        self, cseq: Sequence[Constraint], dim: int = 0, lengths: Sequence[int] | None = None
    ) -> None:
        super().__init__(cseq, dim)
        self.lengths = [1] * len(self.cseq) if lengths is None else list(lengths)

    @property
    def event_dim(self) -> Any:
        """The largest of the sets."""
        return max(c.event_dim for c in self.cseq)

    def check(self, value: Tensor) -> Tensor:
        parts = lazyt.split(value, self.lengths, self.dim)
        return lazyt.cat([c.check(p) for c, p in zip(self.cseq, parts)], self.dim)


class _Stack(_Joined):
    @property
    def event_dim(self) -> int:
        """The largest of the sets, and one more where they lie along an event's dimension."""
        dim = max(c.event_dim for c in self.cseq)
        return int(dim + 1 if self.dim + dim < 0 else dim)

    def check(self, value: Tensor) -> Tensor:
        parts = lazyt.unbind(value, self.dim)
        return lazyt.stack([c.check(p) for c, p in zip(self.cseq, parts)], self.dim)


dependent = _Dependent()
dependent_property = _DependentProperty
independent = _IndependentConstraint
boolean = _Boolean()
one_hot = _OneHot()
nonnegative_integer = _IntegerGreaterThan(0)
positive_integer = _IntegerGreaterThan(1)
integer_interval = _IntegerInterval
real = _Real()
real_vector = independent(real, 1)
positive = _GreaterThan(0.0)
nonnegative = _GreaterThanEq(0.0)
greater_than = _GreaterThan
greater_than_eq = _GreaterThanEq
less_than = _LessThan
multinomial = _Multinomial
unit_interval = _Interval(0.0, 1.0)
interval = _Interval
half_open_interval = _HalfOpenInterval
simplex = _Simplex()
lower_triangular = _LowerTriangular()
lower_cholesky = _LowerCholesky()
corr_cholesky = _CorrCholesky()
square = _Square()
symmetric = _Symmetric()
positive_semidefinite = _PositiveSemidefinite()
positive_definite = _PositiveDefinite()
cat = _Cat
stack = _Stack
