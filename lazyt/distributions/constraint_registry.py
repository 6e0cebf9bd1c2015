"""Which transform leads from all real numbers into a constraint: ``biject_to``, ``transform_to``.

    loc = lazyt.zeros(3, requires_grad=True)
    scale = transform_to(constraints.positive)(loc)   # whatever loc is, a scale

``biject_to`` gives transforms that are one to one; those of ``transform_to`` may have more numbers
than the set has dimensions, which suits optimizers better (softmax for probabilities).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lazyt.distributions import constraints
from lazyt.distributions.constraints import Constraint
from lazyt.distributions.transforms import (
    AffineTransform,
    CatTransform,
    ComposeTransform,
    CorrCholeskyTransform,
    ExpTransform,
    IndependentTransform,
    LowerCholeskyTransform,
    PositiveDefiniteTransform,
    SigmoidTransform,
    SoftmaxTransform,
    StackTransform,
    StickBreakingTransform,
    Transform,
    identity_transform,
)

__all__ = ["ConstraintRegistry", "biject_to", "transform_to"]

Factory = Callable[[Any], Transform]


class ConstraintRegistry:
    """A table from kinds of constraints to functions that make a transform for one of that kind."""

    def __init__(self) -> None:
        self._registry: dict[type[Constraint], Factory] = {}

    def register(
        self, constraint: Constraint | type[Constraint], factory: Factory | None = None
    ) -> Any:
        """Use ``factory`` for constraints of this kind; without it, a decorator of factories.

        Raises TypeError for what is no constraint.
        """
        if factory is None:
            return lambda given: self.register(constraint, given)
        kind = type(constraint) if isinstance(constraint, Constraint) else constraint
        if not isinstance(kind, type) or not issubclass(kind, Constraint):
            raise TypeError(
                "Expected constraint to be either a Constraint subclass or instance, but got "
                f"{constraint}"
            )
        self._registry[kind] = factory
        return factory

    def __call__(self, constraint: Constraint) -> Transform:
        """A transform from real numbers into ``constraint``. Raises NotImplementedError where none
        is registered."""
        factory = self._registry.get(type(constraint))
        if factory is None:
            raise NotImplementedError(f"Cannot transform {type(constraint).__name__} constraints")
        return factory(constraint)


biject_to = ConstraintRegistry()
transform_to = ConstraintRegistry()


def _above(constraint: Any) -> Transform:
    return ComposeTransform([ExpTransform(), AffineTransform(constraint.lower_bound, 1)])


def _below(constraint: Any) -> Transform:
    return ComposeTransform([ExpTransform(), AffineTransform(constraint.upper_bound, -1)])


def _between(constraint: Any) -> Transform:
    low, high = constraint.lower_bound, constraint.upper_bound
    if isinstance(low, (int, float)) and isinstance(high, (int, float)) and (low, high) == (0, 1):
        return SigmoidTransform()
    return ComposeTransform([SigmoidTransform(), AffineTransform(low, high - low)])


def _independent(registry: ConstraintRegistry) -> Factory:
    def factory(constraint: Any) -> Transform:
        inner = registry(constraint.base_constraint)
        return IndependentTransform(inner, constraint.reinterpreted_batch_ndims)

    return factory


def _cat(registry: ConstraintRegistry) -> Factory:
    def factory(constraint: Any) -> Transform:
        parts = [registry(c) for c in constraint.cseq]
        return CatTransform(parts, constraint.dim, constraint.lengths)

    return factory


def _stack(registry: ConstraintRegistry) -> Factory:
    def factory(constraint: Any) -> Transform:
        return StackTransform([registry(c) for c in constraint.cseq], constraint.dim)

    return factory


_kind: type[Constraint]
for _registry in (biject_to, transform_to):
    _registry.register(constraints.real, lambda constraint: identity_transform)
    _registry.register(constraints.independent, _independent(_registry))
    _registry.register(constraints.cat, _cat(_registry))
    _registry.register(constraints.stack, _stack(_registry))
    _registry.register(constraints.corr_cholesky, lambda constraint: CorrCholeskyTransform())
    for _kind in (constraints.greater_than, constraints.greater_than_eq):
        _registry.register(_kind, _above)
    _registry.register(constraints.less_than, _below)
    for _kind in (constraints.interval, constraints.half_open_interval):
        _registry.register(_kind, _between)
biject_to.register(constraints.simplex, lambda constraint: StickBreakingTransform())
transform_to.register(constraints.simplex, lambda constraint: SoftmaxTransform())
transform_to.register(constraints.lower_cholesky, lambda constraint: LowerCholeskyTransform())
for _definite in (constraints.positive_definite, constraints.positive_semidefinite):
    transform_to.register(_definite, lambda constraint: PositiveDefiniteTransform())
