"""Functions that PyTorch has in its dispatcher, or begins with an underscore."""

from __future__ import annotations

import math
from typing import Any

import pytest

import lazyt
from lazyt.compat import private_functions as private
from lazyt.compat.served.packages import aten

ROWS = lazyt.tensor([[1.0, -2.0, 3.0, 4.0, 5.0], [6.0, 0.5, -1.0, 2.0, 7.0]])
LENGTHS = lazyt.tensor([[2, 0, 3], [1, 4, 0]])


@pytest.mark.parametrize(
    ("reduce", "wanted"),
    [
        ("sum", [[-1.0, 0.0, 12.0], [6.0, 8.5, 0.0]]),
        ("mean", [[-0.5, math.nan, 4.0], [6.0, 2.125, math.nan]]),
        ("max", [[1.0, -math.inf, 5.0], [6.0, 7.0, -math.inf]]),
        ("min", [[-2.0, math.inf, 3.0], [6.0, -1.0, math.inf]]),
        ("prod", [[-2.0, 1.0, 60.0], [6.0, -7.0, 1.0]]),
    ],
)
def test_segments_along_the_last_axis(reduce: str, wanted: list[list[float]]) -> None:
    offsets = lazyt.tensor([[0, 2, 2, 5], [0, 1, 5, 5]])
    for found in (
        private._segment_reduce(ROWS, reduce, axis=1, lengths=LENGTHS),
        private._segment_reduce(ROWS, reduce, axis=1, offsets=offsets),
    ):
        for row, right in zip(found.tolist(), wanted, strict=True):
            assert row == pytest.approx(right, nan_ok=True)


def test_segments_begin_with_a_number() -> None:
    found = private._segment_reduce(ROWS, "mean", lengths=LENGTHS, axis=1, initial=3)
    assert found.tolist() == [[1.0, 3.0, 5.0], [9.0, 2.875, 3.0]]
    found = private._segment_reduce(ROWS, "max", lengths=LENGTHS, axis=1, initial=2)
    assert found.tolist() == [[2.0, 2.0, 5.0], [6.0, 7.0, 2.0]]


def test_segments_have_gradients() -> None:
    x = ROWS.double().requires_grad_()
    for reduce in ("sum", "mean", "max", "prod"):

        def function(t: lazyt.Tensor, reduce: str = reduce) -> lazyt.Tensor:
            return private._segment_reduce(t, reduce, lengths=LENGTHS, axis=1, initial=0.25)

        assert lazyt.autograd.gradcheck(function, (x,))


def test_lengths_are_checked_unless_unsafe() -> None:
    short = lazyt.tensor([[2, 0, 2], [1, 4, 0]])
    with pytest.raises(RuntimeError, match="of lengths along axis to sum"):
        private._segment_reduce(ROWS, "sum", lengths=short, axis=1)
    found = private._segment_reduce(ROWS, "sum", lengths=short, axis=1, unsafe=True)
    assert found[0].tolist() == [-1.0, 0.0, 7.0]
    with pytest.raises(ValueError, match="unsupported reduction"):
        private._segment_reduce(ROWS, "median", lengths=LENGTHS, axis=1)
    with pytest.raises(RuntimeError, match="must be defined"):
        private._segment_reduce(ROWS, "sum", axis=1)


def test_hashes_are_exclusive_ors() -> None:
    chance = [3, -7, 12, 1 << 62, -(1 << 63), 9, 9]
    right = 0
    for number in chance:
        right ^= number & (2**64 - 1)
    x = lazyt.tensor(chance)
    assert lazyt.hash_tensor(x).item() == right
    assert lazyt.hash_tensor(x.flip(0)).item() == right
    assert lazyt.hash_tensor(lazyt.tensor(1.5)).item() == 0x3FF8000000000000
    assert lazyt.hash_tensor(lazyt.tensor([-1], dtype=lazyt.int8)).item() == 2**64 - 1
    assert lazyt.hash_tensor(lazyt.ones(2, 3, 4), (0, 2), keepdim=True).shape == (1, 3, 1)
    assert lazyt.hash_tensor(lazyt.ones(0, 3), 0).tolist() == [0, 0, 0]


def test_hashes_refuse() -> None:
    with pytest.raises(RuntimeError, match="Unknown hash_tensor mode"):
        lazyt.hash_tensor(ROWS, mode=1)
    with pytest.raises(NotImplementedError, match="xor_sum_cpu"):
        lazyt.hash_tensor(lazyt.complex(ROWS, ROWS))
    with pytest.raises(RuntimeError, match="reduction dim to be specified"):
        lazyt.hash_tensor(lazyt.ones(0))
    with pytest.raises(IndexError):
        lazyt.hash_tensor(ROWS, 2)


def test_safe_softmax_of_rows_without_numbers() -> None:
    x = lazyt.tensor([[-math.inf, -math.inf], [0.0, -math.inf]], requires_grad=True)
    found = private._safe_softmax(x, 1)
    assert found.tolist() == [[0.0, 0.0], [1.0, 0.0]]
    (slope,) = lazyt.autograd.grad(found[0, 0], x)
    assert slope is not None and slope.tolist() == [[0.0, 0.0], [0.0, 0.0]]


def test_gradient_of_softmax() -> None:
    x = ROWS.double().requires_grad_()
    y = lazyt.softmax(x, 1)
    (right,) = lazyt.autograd.grad(y, x, ROWS.double())
    found = private._softmax_backward_data(ROWS.double(), y.detach(), 1, lazyt.float64)
    assert right is not None and lazyt.allclose(found, right)


def test_gradient_of_pooling() -> None:
    x = lazyt.arange(36.0).reshape(1, 1, 6, 6).sin().requires_grad_()
    pooled, indices = lazyt.nn.functional.max_pool2d(x, 3, 2, 1, return_indices=True)
    seed = lazyt.arange(9.0).reshape(1, 1, 3, 3)
    (right,) = lazyt.autograd.grad(pooled, x, seed)
    found = aten.max_pool2d_with_indices_backward(seed, x, 3, 2, 1, 1, False, indices)
    assert right is not None and lazyt.equal(found, right)
    with pytest.raises(RuntimeError):
        aten.max_pool2d_with_indices_backward(seed[..., :2], x, 3, 2, 1, 1, False, indices)


def test_chunks_side_by_side() -> None:
    found = private._chunk_cat([lazyt.arange(5.0), lazyt.arange(4.0).reshape(2, 2)], 0, 2)
    assert found.tolist() == [[0.0, 1.0, 2.0, 0.0, 1.0], [3.0, 4.0, 0.0, 2.0, 3.0]]
    with pytest.raises(RuntimeError, match="positive num_chunks"):
        private._chunk_cat([ROWS], 0, 0)
    with pytest.raises(RuntimeError, match="non-negative dim"):
        private._chunk_cat([ROWS, ROWS[0]], -1, 2)


def test_indices_out_of_range_under_a_mask() -> None:
    index = lazyt.tensor([0, 9, 1])
    mask = lazyt.tensor([True, False, True])
    found = private._unsafe_masked_index(ROWS, mask.unsqueeze(1), [index], 8)
    assert found[1].tolist() == [8.0] * 5
    assert lazyt.equal(found[[0, 2]], ROWS)
    values = lazyt.ones(3, 5)
    added = private._unsafe_masked_index_put_accumulate(ROWS, mask.unsqueeze(1), [index], values)
    assert lazyt.equal(added, ROWS + 1)
    with pytest.raises(RuntimeError, match="bool"):
        private._unsafe_masked_index(ROWS, index, [index], 8)


def test_slices_are_views() -> None:
    x: Any = lazyt.arange(10.0)
    aten.slice(x, 0, 2, 9, 3).fill_(-1)
    assert [i for i, v in enumerate(x.tolist()) if v == -1] == [2, 5, 8]
    assert aten.slice(ROWS, 1, -3, None, 2).tolist() == [[3.0, 5.0], [-1.0, 7.0]]
    with pytest.raises(RuntimeError, match="positive"):
        aten.slice(x, 0, 0, 5, 0)


def test_statistics_of_batches() -> None:
    mean, var = lazyt.zeros(5), lazyt.ones(5)
    found = private._batch_norm_with_update(ROWS, None, None, mean, var, 1.0, 1e-5)
    assert len(found) == 4
    assert lazyt.allclose(mean, ROWS.mean(0))
    plain = private._native_batch_norm_legit(ROWS, None, None, True, 0.1, 1e-5)
    assert lazyt.equal(plain[0], found[0])


def test_masks_of_dropout() -> None:
    mask = ROWS > 0
    found = private.native_dropout_backward(ROWS, mask, 2.0)
    assert lazyt.equal(found, lazyt.where(mask, ROWS * 2, lazyt.zeros(())))
    with pytest.raises(RuntimeError, match="Bool"):
        private.native_dropout_backward(ROWS, ROWS, 2.0)
