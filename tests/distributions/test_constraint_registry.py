"""Transforms from real numbers into constraints, against what they promise."""

from __future__ import annotations

from typing import Any

import pytest

import lazyt
from lazyt.distributions import biject_to, constraints, transform_to
from lazyt.distributions.constraint_registry import ConstraintRegistry

SETS: list[tuple[Any, tuple[int, ...]]] = [
    (constraints.real, (3,)),
    (constraints.positive, (3,)),
    (constraints.greater_than_eq(1.5), (3,)),
    (constraints.less_than(lazyt.tensor([-1.0, 0.0, 2.0])), (3,)),
    (constraints.unit_interval, (3,)),
    (constraints.half_open_interval(-1.0, 4.0), (3,)),
    (constraints.real_vector, (2, 3)),
    (constraints.independent(constraints.positive, 1), (2, 3)),
    (constraints.simplex, (2, 3)),
]
MATRICES: list[tuple[Any, tuple[int, ...]]] = [
    (constraints.lower_cholesky, (2, 3, 3)),
    (constraints.positive_definite, (2, 3, 3)),
    (constraints.positive_semidefinite, (2, 3, 3)),
]


@pytest.mark.parametrize(("constraint", "shape"), [*SETS, *MATRICES], ids=lambda v: str(v)[:40])
def test_transforms_lead_into_their_set(constraint: Any, shape: tuple[int, ...]) -> None:
    x = lazyt.linspace(-2, 1.5, lazyt.Size(shape).numel()).reshape(shape)
    with lazyt.config.override(interpret=True):
        for registry in (transform_to, biject_to):
            if registry is biject_to and len(shape) == 3:
                with pytest.raises(NotImplementedError, match="Cannot transform"):
                    registry(constraint)
                continue
            transform: Any = registry(constraint)
            y = transform(x)
            assert constraint.check(y).all()
            back = transform.inv(y)
            assert lazyt.allclose(transform(back), y, atol=1e-5)
            if registry is biject_to:
                assert lazyt.allclose(back, x, atol=1e-4) and transform.bijective


def test_registration() -> None:
    own = ConstraintRegistry()

    def made(constraint: Any) -> Any:
        return transform_to(constraints.unit_interval)

    assert own.register(constraints.boolean)(made) is made
    assert own(constraints.boolean) == transform_to(constraints.unit_interval)
    with pytest.raises(NotImplementedError, match="Cannot transform _Simplex"):
        own(constraints.simplex)
    wrong: Any = 3
    with pytest.raises(TypeError, match="Constraint subclass or instance, but got 3"):
        own.register(wrong, made)
