"""Low-rank factors against the matrices that they make, and a fused loss against its parts."""

from __future__ import annotations

import numpy as np
import pytest

import lazyt
from lazyt.nn import functional as F


def matrix(rows: int, columns: int, rank: int) -> lazyt.Tensor:
    """A matrix of the given rank in float64, the same each time."""
    rng = np.random.default_rng(0)
    made = rng.standard_normal((rows, rank)) @ rng.standard_normal((rank, columns))
    return lazyt.tensor(made)


@pytest.mark.parametrize(("rows", "columns"), [(7, 5), (4, 6)])
def test_factors_of_low_rank_make_the_matrix(rows: int, columns: int) -> None:
    A = matrix(rows, columns, 2)
    with lazyt.config.override(interpret=True):
        U, S, V = lazyt.svd_lowrank(A, q=3)
        assert (U.shape, S.shape, V.shape) == ((rows, 3), (3,), (columns, 3))
        assert np.allclose((U * S @ V.mT).numpy(), A.numpy(), atol=1e-10)
        wanted = np.linalg.svd(A.numpy(), compute_uv=False)
        assert np.allclose(S.numpy(), wanted[:3], atol=1e-10)
        moved = lazyt.svd_lowrank(A, q=2, M=A * 0.5)[1]
        assert np.allclose(moved.numpy(), wanted[:2] / 2, atol=1e-10)


def test_principal_components_are_those_of_centered_samples() -> None:
    A = matrix(8, 4, 4) + 3
    centered = A.numpy() - A.numpy().mean(0)
    with lazyt.config.override(interpret=True):
        _, S, V = lazyt.pca_lowrank(A)
        raw = lazyt.pca_lowrank(A, q=4, center=False)[1]
        batch = lazyt.pca_lowrank(lazyt.stack([A, A]), q=2)
        assert np.allclose(S.numpy(), np.linalg.svd(centered, compute_uv=False), atol=1e-9)
        assert np.allclose((V.mT @ V).numpy(), np.eye(4), atol=1e-9)
        assert np.allclose(raw.numpy(), np.linalg.svd(A.numpy(), compute_uv=False), atol=1e-9)
    assert [tuple(part.shape) for part in batch] == [(2, 8, 2), (2, 2), (2, 4, 2)]


def test_gradient_of_values_is_that_of_svd() -> None:
    A = matrix(5, 3, 3).requires_grad_()
    with lazyt.config.override(interpret=True):
        found = lazyt.autograd.grad(lazyt.svd_lowrank(A, q=3, niter=6)[1].sum(), A)[0]
        wanted = lazyt.autograd.grad(lazyt.linalg.svdvals(A).sum(), A)[0]
        assert found is not None and wanted is not None
        assert np.allclose(found.numpy(), wanted.numpy(), atol=1e-7)


def test_settings_out_of_range_are_refused() -> None:
    A = lazyt.ones(3, 4)
    with pytest.raises(ValueError, match="not greater than min\\(m, n\\)=3"):
        lazyt.pca_lowrank(A, q=9)
    with pytest.raises(ValueError, match="niter\\(=-1\\) must be non-negative"):
        lazyt.pca_lowrank(A, niter=-1)
    with pytest.raises(ValueError, match="two dimensions"):
        lazyt.svd_lowrank(lazyt.ones(3))


def test_linear_cross_entropy_is_both_in_one() -> None:
    x, weight, bias = matrix(4, 3, 3), matrix(5, 3, 3), lazyt.arange(5.0, dtype=lazyt.float64)
    target = lazyt.tensor([0, 4, 2, 1])
    with lazyt.config.override(interpret=True):
        found = F.linear_cross_entropy(x, weight, target, linear_bias=bias, ignore_index=2)
        wanted = F.cross_entropy(F.linear(x, weight, bias), target, ignore_index=2)
        assert np.allclose(found.item(), wanted.item())
        spread = weight.reshape(5, 1, 3).expand(5, 2, 3)
        sides = F.linear_cross_entropy(x, spread, lazyt.stack([target, target], 1))
        plain = F.cross_entropy(F.linear(x, weight), target)
        assert np.allclose(sides.item(), plain.item())
