"""Linear algebra against what PyTorch made of the same calls: values, derivatives, errors."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lazyt
from tests.functional.einsum_cases import EQUATIONS
from tests.functional.linear_cases import CASES, Env, environment, outcome
from tests.functional.linear_refusals import REFUSED

RECORDED: dict[str, list[Any]] = json.loads(
    (Path(__file__).parents[1] / "recorded" / "linear.json").read_text(encoding="utf-8")
)


@pytest.fixture(scope="module")
def env() -> Iterator[Env]:
    # Interpreted: thousands of small graphs, each of which would have to be compiled.
    before = lazyt.config.interpret
    lazyt.config.interpret = True
    yield environment(lazyt)
    lazyt.config.interpret = before


@pytest.mark.parametrize("case", [*CASES, *EQUATIONS, *REFUSED])
def test_call_gives_what_pytorch_gave(env: Env, case: str) -> None:
    found, expected = outcome(env, case), RECORDED[case]
    assert len(found) == len(expected)
    for ours, theirs in zip(found, expected):
        if isinstance(theirs, str):
            assert ours == theirs
            continue
        assert ours[:2] == theirs[:2]
        known = [x for x in theirs[2] if np.isfinite(x)]
        scale = max(map(abs, known), default=1.0)
        np.testing.assert_allclose(ours[2], theirs[2], rtol=2e-5, atol=2e-6 * max(scale, 1e-3))


def test_several_results_are_written_where_out_says(env: Env) -> None:
    a = env["A"]
    targets = [lazyt.empty(0, dtype=lazyt.float64) for _ in range(3)]
    results = lazyt.linalg.svd(a, out=targets)
    assert all(r is t for r, t in zip(results, targets))
    product = targets[0] @ targets[1].diag() @ targets[2]
    np.testing.assert_allclose(product.numpy(), a.numpy(), atol=1e-12)
    with pytest.raises(TypeError, match="expected tuple of 3 elements but got 2"):
        lazyt.linalg.svd(a, out=targets[:2])
    with pytest.raises(RuntimeError, match="don't support automatic"):
        lazyt.linalg.qr(a.clone().requires_grad_(), out=targets[:2])


def test_autocast_factorizes_in_single_precision(env: Env) -> None:
    x = env["S"].to(lazyt.bfloat16)
    with lazyt.autocast("cpu", dtype=lazyt.bfloat16):
        assert lazyt.linalg.inv(x).dtype is lazyt.float32
        assert lazyt.linalg.eigh(x)[1].dtype is lazyt.float32
        assert lazyt.cdist(x, x).dtype is lazyt.float32
        assert (x @ x).dtype is lazyt.bfloat16


def test_repeated_eigenvalues_leave_finite_gradients(env: Env) -> None:
    x = lazyt.eye(3, dtype=lazyt.float64).requires_grad_()
    values, vectors = lazyt.linalg.eigh(x)
    (values.sum() + (vectors * vectors).sum()).backward()
    assert x.grad is not None
    np.testing.assert_allclose(x.grad.numpy(), np.eye(3), atol=1e-12)


def test_facts_of_a_repeated_matrix_have_its_own_batch() -> None:
    a, b = lazyt.eye(4, 3).unsqueeze(0), lazyt.ones(2, 4, 2)
    found = lazyt.linalg.lstsq(a, b, driver="gelsd")
    assert (found.solution.shape, found.residuals.shape) == ((2, 3, 2), (2, 2))
    assert (found.rank.tolist(), found.singular_values.shape) == ([3], (1, 3))


@pytest.mark.parametrize(
    ("matrix", "wanted"),
    [
        ([[1.0, 2.0], [2.0, 4.0]], [[4.0, -3.0], [-2.0, 1.0]]),
        ([[0.0, 0.0], [0.0, 0.0]], [[4.0, -3.0], [-2.0, 1.0]]),
        ([[1 + 1j, 2.0], [2 + 2j, 4.0]], [[4.0, -3.0], [-2.0, 1.0]]),
        (  # of which the second is regular
            [[[1.0, 2.0], [2.0, 4.0]], [[1.0, 2.0], [3.0, 4.0]]],
            [[[4.0, -3.0], [-2.0, 1.0]], [[8.0, -7.0], [-6.0, 5.0]]],
        ),
        (
            [[1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [1.0, 0.0, 1.0]],
            [[-7.0, 26.0, -17.0], [4.0, -14.0, 8.0], [-3.0, 6.0, -3.0]],
        ),
    ],
)
def test_second_derivatives_of_determinants_of_singular_matrices(matrix: Any, wanted: Any) -> None:
    # Those of a determinant are minors, which a matrix without an inverse has as well.
    dtype = lazyt.complex128 if "j" in str(matrix) else lazyt.float64
    a = lazyt.tensor(matrix, dtype=dtype, requires_grad=True)
    (first,) = lazyt.autograd.grad(lazyt.linalg.det(a).real.sum(), a, create_graph=True)
    weights = lazyt.arange(1, 1 + a.numel(), dtype=lazyt.float64).reshape(a.shape)
    (second,) = lazyt.autograd.grad((first * weights).real.sum(), a)
    assert second is not None
    np.testing.assert_allclose(second.numpy(), np.asarray(wanted), rtol=1e-9, atol=1e-12)
