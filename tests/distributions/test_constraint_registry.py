"""Transforms from real numbers into constraints, against what they promise."""

from __future__ import annotations

from typing import Any

import pytest

import lazyt
from lazyt.distributions import biject_to, constraints, transform_to, transforms
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
    (constraints.cat([constraints.positive, constraints.unit_interval], -1, [1, 2]), (2, 3)),
    (constraints.stack([constraints.positive, constraints.less_than(1.0)], 0), (2, 3)),
    (constraints.corr_cholesky, (2, 3)),
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


X = lazyt.tensor([[0.3, -0.5, 1.2], [0.1, 2.0, -0.7]], dtype=lazyt.float64)


def close(found: lazyt.Tensor, wanted: Any) -> bool:
    """To the digits of float64, given nested lists that PyTorch gave."""
    expected = lazyt.tensor(wanted, dtype=lazyt.float64)
    return found.shape == expected.shape and lazyt.allclose(found, expected, atol=1e-12)


def test_factors_of_correlations() -> None:
    transform = transforms.CorrCholeskyTransform()
    y = transform(X)
    assert close(
        y,
        [
            [
                [1.0, 0.0, 0.0],
                [0.2913126124515909, 0.9566279119002483, 0.0],
                [-0.46211715726000974, 0.73930064820703, 0.48977779096912166],
            ],
            [
                [1.0, 0.0, 0.0],
                [0.09966799462495582, 0.9950207489532265, 0.0],
                [0.9640275800758169, -0.16064230219324033, 0.21176608699038682],
            ],
        ],
    )
    assert close(transform.log_abs_det_jacobian(X, y), [-1.6364030039147215, -4.439532078433898])
    assert transform.forward_shape((5, 6)) == (5, 4, 4)
    assert transform.inverse_shape((5, 4, 4)) == (5, 6)
    for shape in ((), (5,)):
        with pytest.raises(ValueError, match=r"Too few|not a flattened lower-diagonal"):
            transform.forward_shape(shape)
    with pytest.raises(ValueError, match="Input is not square"):
        transform.inverse_shape((3, 4))


def test_transforms_of_parts() -> None:
    joined = transforms.CatTransform(
        [transforms.ExpTransform(), transforms.AffineTransform(1.0, 2.0)], -1, [1, 2]
    )
    y = joined(X)
    assert close(y, [[1.3498588075760032, 0.0, 3.4], [1.1051709180756477, 5.0, -0.4]])
    log2 = 0.6931471805599453
    assert close(joined.log_abs_det_jacobian(X, y), [[0.3, log2, log2], [0.1, log2, log2]])
    assert lazyt.allclose(joined.inv(y), X)
    assert joined.length == 3 and joined.bijective and joined.event_dim == 0
    again = joined.with_cache()
    assert again.inv(again(X)) is X
    with pytest.raises(ValueError, match="dimension -1 has to have 3 elements"):
        joined(lazyt.ones(4))
    with pytest.raises(ValueError, match="one length for each transform"):
        transforms.CatTransform([transforms.ExpTransform()], -1, [1, 2])


def test_transforms_of_events_are_summed() -> None:
    law = transforms.CatTransform(
        [transforms.IndependentTransform(transforms.ExpTransform(), 1), transforms.ExpTransform()],
        0, [1, 1],
    )  # fmt: skip
    assert law.event_dim == 1
    assert close(law.log_abs_det_jacobian(X, law(X)), [1.0, 1.4])


def test_transforms_of_slices() -> None:
    side = transforms.StackTransform([transforms.ExpTransform(), transforms.SigmoidTransform()], 0)
    y = side(X)
    assert close(
        y,
        [
            [1.3498588075760032, 0.6065306597126334, 3.3201169227365472],
            [0.52497918747894, 0.8807970779778823, 0.3318122278318339],
        ],
    )
    assert close(
        side.log_abs_det_jacobian(X, y),
        [[0.3, -0.5, 1.2], [-1.3887933201471419, -2.2538560220859454, -1.5063720977709159]],
    )
    assert lazyt.allclose(side.inv(y), X)
    assert side.with_cache(0).domain.check(X).all()
    with pytest.raises(ValueError, match="has to have 2 elements"):
        side(lazyt.ones(3, 3))
    wrong: Any = [constraints.real]
    with pytest.raises(ValueError, match="has to be a Transform"):
        transforms.StackTransform(wrong)
