"""Copies of views, and copies with a part replaced: values, independence and gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import lazyt as lt


def test_copies_have_memory_of_their_own() -> None:
    x = lt.arange(12.0).reshape(3, 4)
    pairs = [
        (lt.permute_copy(x, (1, 0)), x.t()), (lt.select_copy(x, 0, 1), x[1]),
        (lt.slice_copy(x, 1, 0, None, 2), x[:, ::2]), (lt.diagonal_copy(x, 1), x.diagonal(1)),
        (lt.expand_copy(x, (2, 3, 4)), x.expand(2, 3, 4)), (lt.view_copy(x, (6, 2)), x.view(6, 2)),
        (lt.unfold_copy(x, 1, 2, 1), x.unfold(1, 2, 1)), (lt.narrow_copy(x, 0, 1, 2), x[1:]),
        (lt.unsqueeze_copy(x, 1), x[:, None]), (lt.alias_copy(x), x),
        (lt.unbind_copy(x)[2], x[2]), (lt.split_copy(x, 2)[1], x[2:]),
        (lt.as_strided_copy(x, (2,), (5,), 1), x.as_strided((2,), (5,), 1)),
    ]  # fmt: skip
    wanted = [view.tolist() for _, view in pairs]
    x.zero_()
    for (copy, view), values in zip(pairs, wanted):
        assert copy.tolist() == values and copy.is_contiguous() and copy.shape == view.shape
    target = lt.zeros(2, 2)
    assert lt.narrow_copy(lt.ones(2, 2), 0, 0, 2, out=target) is target and target.sum().item() == 4


def test_parts_are_replaced() -> None:
    x = lt.arange(9.0).reshape(3, 3).requires_grad_()
    base = np.arange(9.0).reshape(3, 3)
    row = lt.tensor([10.0, 20, 30], requires_grad=True)
    weights = lt.arange(1.0, 10).reshape(3, 3)

    def check(result: lt.Tensor, wanted: np.ndarray, kept: np.ndarray) -> None:
        x.grad = row.grad = None
        assert result.tolist() == wanted.tolist()
        (result * weights).sum().backward()
        slopes: Any = x.grad
        assert slopes.tolist() == (kept * np.arange(1.0, 10).reshape(3, 3)).tolist()

    for index in ((1, slice(None)), (slice(None), 2)):
        wanted, kept = base.copy(), np.ones((3, 3))
        wanted[index], kept[index] = row.tolist(), 0
        dim = 0 if index[0] == 1 else 1
        check(x.select_scatter(row, dim, 1 if dim == 0 else 2), wanted, kept)
    wanted, kept = base.copy(), np.ones((3, 3))
    wanted[np.diag_indices(3)], kept[np.diag_indices(3)] = row.tolist(), 0
    check(lt.diagonal_scatter(x, row), wanted, kept)
    assert row.grad is not None and row.grad.tolist() == [1, 5, 9]
    wanted, kept = base.copy(), np.ones((3, 3))
    wanted[:, ::2], kept[:, ::2] = -1, 0
    check(x.slice_scatter(-lt.ones(3, 2), 1, 0, 3, 2), wanted, kept)
    wanted, kept = base.copy(), np.ones((3, 3))
    wanted.reshape(-1)[[1, 4]], kept.reshape(-1)[[1, 4]] = 5, 0
    check(lt.as_strided_scatter(x, lt.full((2,), 5.0), (2,), (3,), 1), wanted, kept)
    with pytest.raises(RuntimeError, match="expected src to have a size equal to the slice"):
        x.select_scatter(row[:2], 0, 0)


def test_sums_to_a_shape() -> None:
    x = lt.arange(24.0).reshape(2, 3, 4)
    array = np.arange(24.0).reshape(2, 3, 4)
    assert x.sum_to_size(3, 1).tolist() == array.sum((0, 2))[:, None].tolist()
    assert x.sum_to_size(2, 3, 4) is x
    with pytest.raises(RuntimeError, match="is not expandable to size"):
        x.sum_to_size(2)
