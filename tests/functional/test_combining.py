"""scatter_reduce, index_reduce and put against loops in Python, values and gradients."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lazyt as lt

_MEET: dict[str, Callable[[list[float]], float]] = {
    "sum": sum, "prod": math.prod, "amax": max, "amin": min,
    "mean": lambda values: sum(values) / len(values),
}  # fmt: skip


def _expected(x: Any, places: Any, source: Any, reduce: str, include_self: bool) -> Any:
    """Rows of ``source`` combined into ``x``, element by element; ``places`` names the row."""
    groups: dict[tuple[int, int], list[float]] = {}
    for (i, j), row in np.ndenumerate(places):
        groups.setdefault((int(row), j), []).append(float(source[i, j]))
    out = x.copy()
    for at, values in groups.items():
        own = [float(x[at])] if include_self else []
        out[at] = _MEET[reduce](own + values)
    return out


_X = np.array([[1.5, -2.0, 3.0], [0.5, 4.0, -1.0], [2.0, 2.0, 2.0]])
_SOURCE = np.array([[2.0, 0.5, -3.0], [1.0, 5.0, 2.5], [-1.0, 3.0, 0.25], [4.0, -2.0, 1.0]])
_INDEX = np.array([[0, 2, 1], [0, 2, 1], [2, 0, 1], [0, 1, 1]])


def _outcomes(reduce: str, include_self: bool) -> list[tuple[lt.Tensor, Any, Any]]:
    """Results with what is expected, of both functions, and the function of NumPy arrays."""
    found = []
    rows = np.array([2, 0, 2, 2])
    for kind in ("scatter", "index"):
        x = lt.tensor(_X, requires_grad=True)
        source = lt.tensor(_SOURCE, requires_grad=True)
        if kind == "index" and reduce == "sum":
            continue
        places = _INDEX if kind == "scatter" else np.broadcast_to(rows[:, None], _SOURCE.shape)
        if kind == "scatter":
            result = x.scatter_reduce(
                0, lt.tensor(_INDEX), source, reduce, include_self=include_self
            )
        else:
            result = x.index_reduce(0, lt.tensor(rows), source, reduce, include_self=include_self)
        found.append((result, (x, source), places))
    return found


@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("reduce", list(_MEET))
def test_values_and_gradients(reduce: str, include_self: bool) -> None:
    weights = np.linspace(0.5, 2, 9).reshape(3, 3)
    for result, leaves, places in _outcomes(reduce, include_self):
        wanted = _expected(_X, places, _SOURCE, reduce, include_self)
        assert np.allclose(result.tolist(), wanted)
        (result * lt.tensor(weights)).sum().backward()
        for which, leaf in enumerate(leaves):
            arrays = [_X, _SOURCE]
            step = 1e-6
            for at in np.ndindex(arrays[which].shape):
                changes = []
                for sign in (1, -1):
                    moved = [a.copy() for a in arrays]
                    moved[which][at] += sign * step
                    total = _expected(moved[0], places, moved[1], reduce, include_self)
                    changes.append((total * weights).sum())
                slope = (changes[0] - changes[1]) / (2 * step)
                assert leaf.grad[at].item() == pytest.approx(slope, abs=1e-5)


def test_whole_numbers_and_truth_values() -> None:
    """Recorded from PyTorch 2.13: means round down, sums of truth values are or."""
    x, at = lt.arange(6), lt.tensor([0, 0, 1])
    assert x.scatter_reduce(0, at, lt.tensor([5, 2, 2]), "mean").tolist() == [2, 1, 2, 3, 4, 5]
    down = x.scatter_reduce(0, at, lt.tensor([-5, 2, 2]), "mean", include_self=False)
    assert down.tolist() == [-2, 2, 2, 3, 4, 5]
    small = lt.arange(3, dtype=lt.uint8)
    low = small.scatter_reduce(0, at, small + 3, "amin", include_self=False)
    assert low.tolist() == [3, 5, 2]
    truth = lt.tensor([True, False])
    either = truth.scatter_reduce(0, lt.tensor([0, 1]), lt.tensor([False, True]), "sum")
    assert either.tolist() == [True, True]
    with pytest.raises(RuntimeError, match="must be either sum, prod, mean, amax or amin, got x"):
        x.scatter_reduce(0, at, lt.tensor([5, 2, 2]), "x")
    with pytest.raises(IndexError, match="index out of range in self"):
        x.index_reduce(0, lt.tensor([9]), lt.tensor([5]), "prod")


def test_put() -> None:
    x = lt.arange(6.0).reshape(2, 3).t()
    values = lt.tensor([10.0, 20.0, 30.0], requires_grad=True)
    at = lt.tensor([0, -1, 0])
    summed = x.put(at, values, accumulate=True)
    assert summed.tolist() == [[40, 3], [1, 4], [2, 25]]
    summed.sum().backward()
    assert values.grad is not None and values.grad.tolist() == [1, 1, 1]
    x.put_(lt.tensor([[1, 2]]), lt.tensor([[-1.0, -2.0]]))
    assert x.tolist() == [[0, -1], [-2, 4], [2, 5]]
    with pytest.raises(IndexError, match="tried to access index 7 on a tensor of 6 elements"):
        x.put(lt.tensor([7]), lt.ones(1))
