"""Nested tensors: batches of tensors of several lengths, under PyTorch's names."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

import lazyt
import lazyt.nn.functional as F
from lazyt import nn
from lazyt.subclasses import nested
from lazyt.subclasses.nested import NestedTensor, jagged

PARTS = [
    lazyt.arange(6.0).reshape(2, 3),
    lazyt.linspace(-1, 1, 12).reshape(4, 3),
    -lazyt.arange(3.0).reshape(1, 3),
]


def batch(**kwargs: Any) -> NestedTensor:
    return nested.nested_tensor(PARTS, layout=jagged, **kwargs)


def same(found: Any, expected: list[lazyt.Tensor]) -> None:
    assert found.is_nested and len(found.unbind()) == len(expected)
    for part, other in zip(found.unbind(), expected):
        lazyt.testing.assert_close(part, other)


@pytest.mark.parametrize("layout", [jagged, lazyt.strided])
@pytest.mark.parametrize(
    "function",
    [
        lambda x: x * 2 + 1,
        lambda x: 2 - x,
        lazyt.sin,
        F.gelu,
        lambda x: x > 0,
        lambda x: x.clamp(0, 1),
        lambda x: F.softmax(x, -1),
        lambda x: F.layer_norm(x, (3,)),
        lambda x: F.linear(x, lazyt.ones(2, 3), lazyt.ones(2)),
        lambda x: x @ lazyt.ones(3, 2),
    ],
)
def test_functions_are_those_of_each_tensor(
    function: Callable[[lazyt.Tensor], lazyt.Tensor], layout: Any
) -> None:
    found = function(nested.nested_tensor(PARTS, layout=layout))
    assert found.layout is layout
    same(found, [function(part) for part in PARTS])


def test_sizes_and_views_of_the_values() -> None:
    x = batch()
    assert (x.ndim, x.size(0), x.size(2), x.numel()) == (3, 3, 3, 21)
    assert x.offsets().tolist() == [0, 2, 6, 7] and x.lengths() is None
    assert x.shape == (x + 1).shape and x.shape != batch().shape
    assert repr(x).startswith("NestedTensor(size=(3, j")
    padded = x.to_padded_tensor(-1.0)
    assert padded.shape == (3, 4, 3) and padded[2, 1].tolist() == [-1.0] * 3
    wide = nested.nested_tensor([lazyt.ones(2, 3), lazyt.ones(3, 1)])
    assert nested.to_padded_tensor(wide, 0.0, (2, 4, 4)).shape == (2, 4, 4)
    with pytest.raises(RuntimeError, match="irregular"):
        wide.size(1)
    assert lazyt.equal(copy.deepcopy(x).values(), x.values())


def test_reductions_within_each_tensor() -> None:
    x = batch()
    lazyt.testing.assert_close(x.sum(1), lazyt.stack([part.sum(0) for part in PARTS]))
    lazyt.testing.assert_close(x.amax(1), lazyt.stack([part.amax(0) for part in PARTS]))
    same(x.mean(2), [part.mean(1) for part in PARTS])
    same(x.softmax(1), [part.softmax(0) for part in PARTS])
    assert x.sum().item() == pytest.approx(sum(part.sum().item() for part in PARTS))


def test_gradients_of_a_leaf_and_of_its_parts() -> None:
    layer = nn.Linear(3, 2)
    x = batch(requires_grad=True)
    layer(x).sum(1).pow(2).sum().backward()
    parts = [part.clone().requires_grad_() for part in PARTS]
    loss = sum((layer(part).sum(0).pow(2).sum() for part in parts), lazyt.zeros(()))
    (expected,) = lazyt.autograd.grad(loss, [layer.weight], retain_graph=True)
    assert layer.weight.grad is not None
    lazyt.testing.assert_close(layer.weight.grad, expected)
    loss.backward()
    grad: Any = x.grad
    same(grad, [part.grad for part in parts if part.grad is not None])
    again = [part.clone().requires_grad_() for part in PARTS]
    joined = nested.as_nested_tensor(again, layout=jagged)
    (joined * joined).values().sum().backward()
    for part in again:
        assert part.grad is not None
        lazyt.testing.assert_close(part.grad, 2 * part.detach())


@pytest.mark.parametrize("is_causal", [False, True])
def test_attention_of_heads(is_causal: bool) -> None:
    parts = [lazyt.linspace(0, 1, 16).reshape(2, 8), lazyt.linspace(-1, 1, 40).reshape(5, 8)]

    def attended(x: Any) -> Any:
        heads = x.unflatten(-1, [2, 4]).transpose(-3, -2)
        found = F.scaled_dot_product_attention(heads, heads, heads, is_causal=is_causal)
        return found.transpose(-3, -2).flatten(-2)

    same(attended(nested.nested_tensor(parts, layout=jagged)), [attended(p) for p in parts])


def test_from_values_and_offsets() -> None:
    values, offsets = lazyt.arange(12.0).reshape(6, 2), lazyt.tensor([0, 2, 6])
    x = nested.nested_tensor_from_jagged(values, offsets)
    same(x + nested.nested_tensor_from_jagged(values, offsets), [2 * values[:2], 2 * values[2:]])
    by_lengths = nested.nested_tensor_from_jagged(values, lengths=lazyt.tensor([2, 4]))
    assert by_lengths.offsets().tolist() == [0, 2, 6]
    rows = lazyt.arange(12.0).reshape(2, 6)
    cut = nested.narrow(rows, 1, lazyt.tensor([0, 1]), lazyt.tensor([2, 3]), layout=jagged)
    same(cut, [rows[0, :2], rows[1, 1:4]])
    same(nested.masked_select(rows, rows > 4), [rows[0, 5:], rows[1]])


def test_batch_operands_broadcast_to_rows() -> None:
    shift = lazyt.tensor([1.0, 10.0, 100.0]).reshape(3, 1, 1)
    same(batch() + shift, [part + n for part, n in zip(PARTS, (1, 10, 100))])
    same(batch() * lazyt.arange(3.0), [part * lazyt.arange(3.0) for part in PARTS])


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(RuntimeError, match="cannot call binary pointwise"):
        _ = batch() + batch()
    with pytest.raises(RuntimeError, match="single ragged dimension"):
        nested.nested_tensor([lazyt.ones(2, 3), lazyt.ones(4, 5)], layout=jagged)
    with pytest.raises(TypeError, match="list of tensors"):
        nested.nested_tensor(lazyt.ones(2))  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="does not take nested tensors"):
        lazyt.linalg.inv(batch())
