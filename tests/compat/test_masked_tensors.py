"""MaskedTensor: elements that the mask leaves out do not count, under PyTorch's names."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest

import lazyt
from lazyt import masked
from lazyt.subclasses.masked_tensors import (
    MaskedTensor,
    as_masked_tensor,
    is_masked_tensor,
    masked_tensor,
)

X = lazyt.linspace(-1, 1, 12).reshape(3, 4)
MASK = X > -0.3
pytestmark = pytest.mark.filterwarnings("ignore:The PyTorch API of MaskedTensors")


@pytest.mark.parametrize("name", ["sum", "mean", "amax", "amin", "prod"])
@pytest.mark.parametrize("dim", [None, 0, 1])
def test_reductions_are_those_of_the_functions_with_masks(name: str, dim: Any) -> None:
    rest = () if dim is None else (dim,)
    found = getattr(masked_tensor(X, MASK), name)(*rest)
    kept = MASK.any() if dim is None else MASK.any(dim)
    assert is_masked_tensor(found) and lazyt.equal(found.get_mask(), kept)
    expected = getattr(masked, name)(X, *rest, mask=MASK)
    lazyt.testing.assert_close(found.get_data()[kept], expected[kept])


@pytest.mark.parametrize(
    "function",
    [
        lazyt.exp,
        lambda x: x * 2 + 1,
        lambda x: x * x,
        lambda x: x.T,
        lambda x: x[1:, ::2],
        lambda x: x.reshape(-1),
        lambda x: x.to(lazyt.float64),
    ],
)
def test_elements_and_shapes(function: Callable[[Any], Any]) -> None:
    found = function(masked_tensor(X, MASK))
    expected = function(X)
    assert found.dtype is expected.dtype and found.shape == expected.shape
    lazyt.testing.assert_close(found.to_tensor(0.0), lazyt.where(found.get_mask(), expected, 0.0))


def test_gradients_are_masked() -> None:
    x = masked_tensor(X, MASK, requires_grad=True)
    lazyt.sqrt(x + 1).sum().backward()
    assert isinstance(x.grad, MaskedTensor)
    expected = lazyt.where(MASK, 0.5 / lazyt.sqrt(X + 1), 0.0)
    lazyt.testing.assert_close(x.grad.to_tensor(0.0), expected)
    data = X.clone().requires_grad_()
    (as_masked_tensor(data, MASK) * 2).sum().backward()
    assert data.grad is not None and lazyt.equal(data.grad, MASK * 2.0)


def test_text() -> None:
    shown = masked_tensor(lazyt.tensor([[1.0, 2.0], [3.0, 4.0]]), lazyt.eye(2) > 0)
    assert repr(shown) == (
        "MaskedTensor(\n  [\n    [  1.0000,       --],\n    [      --,   4.0000]\n  ]\n)"
    )
    assert repr(masked_tensor(lazyt.tensor(1.5), lazyt.tensor(False))) == "MaskedTensor(--, False)"


def test_refusals() -> None:
    with pytest.raises(ValueError, match="Input masks must match"):
        _ = masked_tensor(X, MASK) + masked_tensor(X, ~MASK)
    with pytest.raises(ValueError, match="data"):
        masked_tensor(X, lazyt.tensor([True]))
    with pytest.raises(TypeError, match="mask must have dtype bool"):
        masked_tensor(X, X)
    with pytest.raises(TypeError, match="no implementation found for 'matmul'"):
        lazyt.matmul(masked_tensor(X, MASK), X.T)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        masked_tensor(X, MASK)
    assert "prototype" in str(found[0].message)
