"""In-place writes: through views, under autograd, and what they must refuse."""

from __future__ import annotations

from typing import Any

import pytest

import lazyt as lt


def test_writes_through_views_of_views() -> None:
    x = lt.zeros(3, 4)
    x[0].add_(1)
    x[:, 1].mul_(5)
    x.t()[2].add_(7)
    x[1:, 2:].sub_(1)
    x.view(12)[11:].add_(100)
    assert x.tolist() == [[1, 5, 8, 1], [0, 0, 6, -1], [0, 0, 6, 99]]


def test_earlier_results_do_not_change() -> None:
    a = lt.tensor([1.0, 2.0, 3.0])
    double, part = a * 2, a[1:].sum()
    a[0] = 100
    a.mul_(-1)
    assert double.tolist() == [2, 4, 6]
    assert part.item() == 5
    assert a.tolist() == [-100, -2, -3]


def test_write_to_part_of_an_expanded_view() -> None:
    a = lt.zeros(3)
    rows = a.expand(2, 3)
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        rows.add_(1)
    rows[1].add_(1)
    assert a.tolist() == [1, 1, 1]


def test_overlapping_windows() -> None:
    a = lt.zeros(4)
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        a.unfold(0, 2, 1).add_(lt.ones(3, 2))
    a.unfold(0, 2, 1).fill_(3)  # one value everywhere is the same in any order
    assert a.tolist() == [3, 3, 3, 3]


def test_failed_writes_change_nothing() -> None:
    x = lt.zeros(2, 3)
    with pytest.raises(RuntimeError, match="doesn't match the broadcast shape"):
        x.add_(lt.ones(2, 2, 3))
    with pytest.raises(RuntimeError, match="can't be cast to the desired output type Long"):
        lt.arange(3).add_(0.5)
    assert x.tolist() == [[0, 0, 0], [0, 0, 0]]


def test_leaves_and_their_views_refuse() -> None:
    x = lt.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError, match=r"^a leaf Variable that requires grad"):
        x.mul_(2)
    with pytest.raises(RuntimeError, match=r"^a view of a leaf Variable that requires grad"):
        x[0] = 5
    with lt.no_grad():
        frozen = x[1:]
        x.add_(1)
    assert frozen.tolist() == [2, 2]
    with pytest.raises(RuntimeError, match="A view was created in no_grad mode"):
        frozen.mul_(2)


def test_gradients_through_writes() -> None:
    x = lt.tensor([1.0, 2.0, 3.0], requires_grad=True)
    w = lt.tensor([10.0], requires_grad=True)
    y = x * 1
    y[1:2] = w * 2
    y.t()[2:].mul_(3)
    (y * lt.tensor([1.0, 100.0, 1000.0])).sum().backward()
    assert x.grad is not None and w.grad is not None
    assert x.grad.tolist() == [1, 0, 3000]
    assert w.grad.tolist() == [200]


def test_write_through_detached_keeps_the_gradient() -> None:
    """A write that autograd does not see changes the value, not the gradient."""
    x = lt.tensor([1.0, 2.0], requires_grad=True)
    y = x * 3
    y.detach()[0] = -1
    assert y.tolist() == [-1, 6]
    (y * lt.tensor([5.0, 7.0])).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [15, 21]


def test_zeroing_gives_zero_gradients() -> None:
    x = lt.tensor([1.0, 2.0], requires_grad=True)
    y = x * 3
    y.zero_()
    assert y.requires_grad
    y.sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [0, 0]


def test_overwritten_saved_values() -> None:
    x = lt.tensor([1.0, 2.0], requires_grad=True)
    for spoil in (
        lambda y: ((y * y).sum(), y.add_(1)),
        lambda y: (lt.sigmoid(y).mul_(2).sum(), None),
        lambda y: ((y**2).sum(), y[0].fill_(9)),
        lambda y: (y.mul_(y).sum(), None),
    ):
        loss, _ = spoil(x * 2)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            loss.backward()
    for harmless in (
        lambda y: ((y + 3).sum(), y.add_(1)),
        lambda y: (y.pow_(2).sum(), None),
        lambda y: (y.exp_().sum(), None),
        lambda y: ((y * y).sum(), y.data.add_(1)),
    ):
        loss, _ = harmless(x * 2)
        loss.backward()


def test_data_assignment() -> None:
    x = lt.ones(2, requires_grad=True)
    x.data = lt.tensor([3.0, 4.0])
    assert x.is_leaf and x.requires_grad
    (x * x).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [6, 8]


def test_version_counts_writes() -> None:
    x = lt.zeros(3)
    view, alias, hidden = x[1:], x.detach(), x.data
    view.add_(1)
    alias.add_(1)
    hidden.add_(1)
    assert x._version == alias._version == 2
    assert x.tolist() == [2, 3, 3]


def test_a_write_does_not_change_what_equal_expressions_give() -> None:
    makers: list[Any] = [lt.arange, lt.zeros, lambda n: lt.arange(n) * 2]
    for make in makers:
        first = make(6)
        before = first.tolist()
        first[0] = 7
        assert first.tolist() == [7, *before[1:]]
        assert make(6).tolist() == before
