"""The order of elements in memory: results keep their operands', copies the one asked for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import lazyt as lt


def _counted(*shape: int) -> lt.Tensor:
    total = 1
    for extent in shape:
        total *= extent
    made: lt.Tensor = lt.arange(float(total)).reshape(shape)
    return made


def test_results_lie_as_their_operands() -> None:
    """Recorded from PyTorch 2.13."""
    x = _counted(2, 3, 4).permute(1, 2, 0)
    assert (x + 1).stride() == (4, 1, 12)
    assert (x + lt.zeros(4, 1)).stride() == (4, 1, 12)
    assert (x * lt.zeros(2)).stride() == (4, 1, 12)
    assert (x > 2).stride() == (4, 1, 12)
    assert lt.where(x > 2, x, 0.0).stride() == (4, 1, 12)
    assert x.double().stride() == (4, 1, 12)
    gaps = lt.zeros(4, 5, 6)[:, ::2].permute(2, 0, 1)
    assert (gaps * 2).stride() == (1, 18, 6)
    assert (lt.zeros(4, 1, 6).transpose(0, 2) + 1).stride() == (1, 6, 6)
    assert (lt.zeros(3, 1).expand(3, 4) + 1).stride() == (4, 1)
    assert x.softmax(0).stride() == (8, 2, 1)
    assert x.sum(0, keepdim=True).stride() == (8, 2, 1)
    assert (lt.zeros(2, 3).t() + lt.zeros(3, 2)).stride() == (1, 3)
    assert (lt.zeros(3, 2) + lt.zeros(2, 3).t()).stride() == (2, 1)


def test_values_and_writes_of_results_in_other_orders() -> None:
    x = _counted(2, 3).t()
    y = x * 2 + 1
    wanted = np.arange(6.0).reshape(2, 3).T * 2 + 1
    assert y.stride() == (1, 3) and not y.is_contiguous()
    assert y.tolist() == wanted.tolist()
    assert y.numpy().strides == (4, 12)
    y[0] = -1
    y.add_(1)
    wanted[0] = -1
    wanted += 1
    assert y.tolist() == wanted.tolist()
    assert y.storage().tolist() == wanted.T.reshape(-1).tolist()
    assert y.t().is_contiguous() and y.t().view(-1).tolist() == wanted.T.reshape(-1).tolist()
    z = (x + 0).realize()
    for _ in range(3):
        z = (z * 0.5 + 1).realize()
    assert np.allclose(z.tolist(), np.arange(6.0).reshape(2, 3).T / 8 + 1.75)


def test_gradients_flow_through_results_in_other_orders() -> None:
    x = _counted(2, 3).requires_grad_()
    y = x.t() * lt.arange(6.0).reshape(3, 2)
    y[0] = 7
    y.mul_(2)
    assert y.is_leaf is False and y.stride() == (1, 3)
    (y * y).sum().backward()
    weights = np.arange(6.0).reshape(3, 2)
    wanted = 8 * np.arange(6.0).reshape(2, 3).T * weights**2
    wanted[0] = 0
    assert x.grad is not None
    assert np.allclose(x.grad.tolist(), wanted.T)
    leaf = (_counted(2, 3).t() + 1).requires_grad_()
    (leaf * leaf).sum().backward()
    assert leaf.grad is not None
    assert leaf.grad.stride() == leaf.stride() == (1, 3)
    assert leaf.grad.tolist() == (2 * (np.arange(6.0).reshape(2, 3).T + 1)).tolist()
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        leaf.add_(1)
    with lt.no_grad():
        leaf.t_().mul_(2)
    assert leaf.tolist() == (2 * np.arange(6.0).reshape(2, 3) + 2).tolist()
    leaf.grad = None
    (leaf * leaf).sum().backward()
    slopes: Any = leaf.grad
    assert slopes.tolist() == (4 * np.arange(6.0).reshape(2, 3) + 4).tolist()
    y = (x.t() * 3).t() + 0
    y.retain_grad()
    seen: list[lt.Tensor] = []
    y.register_hook(seen.append)
    (y[0] * 2).sum().backward()
    assert y.grad is not None and y.grad.tolist() == seen[0].tolist() == [[2, 2, 2], [0, 0, 0]]


def test_data_in_another_order() -> None:
    x = lt.zeros(2, 3, requires_grad=True)
    x.data = _counted(3, 2).t() * 2
    assert x.stride() == (1, 2) and x.is_leaf
    (x * x).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [[0, 8, 16], [4, 12, 20]]


def test_formats_of_copies() -> None:
    x = _counted(2, 3, 4, 5)
    y = x.contiguous(memory_format=lt.channels_last)
    assert y.stride() == (60, 1, 15, 3) and y.tolist() == x.tolist()
    assert y.is_contiguous(memory_format=lt.channels_last) and not y.is_contiguous()
    assert (y * 2).stride() == y.stride()
    assert y.contiguous().stride() == x.stride()
    assert x.to(memory_format=lt.channels_last).dim_order() == (0, 2, 3, 1)
    assert lt.zeros_like(y).stride() == y.stride()
    assert lt.empty(2, 3, 4, 5, memory_format=lt.channels_last).stride() == y.stride()
    assert x.permute(1, 0, 2, 3).clone().stride() == (20, 60, 5, 1)
    assert x[:, ::2].clone().stride() == (40, 20, 5, 1)
    with pytest.raises(RuntimeError, match="required rank 4 tensor to use channels_last format"):
        lt.zeros(2, 3).contiguous(memory_format=lt.channels_last)
    assert lt.empty_permuted((2, 3, 4), (2, 0, 1)).stride() == (3, 1, 6)
    assert lt.empty_strided((2, 3), (5, 2)).storage().size() == 10
    assert repr(lt.channels_last) == "lazyt.channels_last"


def test_history_is_let_go_of() -> None:
    """A computed result in another order keeps no graph alive once nobody can differentiate it."""
    x = _counted(2, 3).t()
    y = (x * 2).realize()
    assert not any(node.inputs for node in y.node.inputs)  # at most its memory
    assert y.tolist() == [[0, 6], [2, 8], [4, 10]]
    assert all(not node.inputs for node in y._storage.node.inputs)
    w = lt.ones(3, 2, requires_grad=True)
    z = (x * w).realize()
    z.sum().backward()
    assert z.tolist() == [[0, 3], [1, 4], [2, 5]]
    memory = z._storage.node  # a mark is all that is left of its history
    assert memory.op.name == "variable" and not memory.inputs[0].inputs
    with pytest.raises(RuntimeError, match="a second time"):
        z.sum().backward()
