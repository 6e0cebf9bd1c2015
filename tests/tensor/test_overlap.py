"""Writes that PyTorch refuses: shared operands, repeated elements, several views, no_grad views."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import lazyt as lt

_SHARED = "some elements of the input tensor and the written-to tensor refer to a single memory"


def _refused(write: Callable[[], object], message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        write()


def test_operands_in_the_memory_written_to() -> None:
    x = lt.arange(4.0)
    square = lt.arange(4.0).reshape(2, 2)
    _refused(lambda: x[1:].add_(x[:-1]), _SHARED)
    _refused(lambda: x[1:].copy_(x[:-1]), _SHARED)
    _refused(lambda: lt.exp(x[:2], out=x[1:3]), _SHARED)
    _refused(lambda: square.add_(square.t()), _SHARED)
    _refused(lambda: x.index_add_(0, lt.tensor([0]), x[:1]), _SHARED)
    _refused(lambda: x.scatter_(0, lt.tensor([0]), x[:1]), _SHARED)
    with pytest.raises(RuntimeError, match=_SHARED):
        x[1:] = x[:-1]
    assert x.tolist() == [0, 1, 2, 3]
    assert x.add_(x).tolist() == [0, 2, 4, 6]
    assert x[:2].add_(x[2:]).tolist() == [4, 8]
    assert x.view(2, 2).mul_(x.view(2, 2)).tolist() == [[16, 64], [16, 36]]


def test_repeated_elements() -> None:
    x = lt.zeros(3).expand(2, 3)
    for write in (lambda: x.add_(1), lambda: x.copy_(lt.ones(2, 3))):
        _refused(write, "more than one element of the written-to tensor")
    assert x.fill_(2).tolist() == [[2, 2, 2], [2, 2, 2]]
    x[0] = 1
    assert x.tolist() == [[1, 1, 1], [1, 1, 1]]


def test_several_views_of_one_function() -> None:
    y = lt.zeros(2, 3, requires_grad=True) * 1
    first, _ = y.unbind()
    _refused(lambda: first.add_(1), "Output 0 of Unbind is a view and is being modified inplace")
    _refused(lambda: y.split(1)[1].zero_(), "Output 1 of Split is a view")
    _refused(lambda: y.split([1, 1])[0][0].fill_(1), "Output 0 of Select is a view")
    _refused(lambda: next(iter(y)).mul_(2), "Output 0 of Unbind")
    assert y.unsafe_chunk(2)[0].add_(1).tolist() == [[1, 1, 1]]
    assert y.tensor_split(2)[1].add_(1).tolist() == [[1, 1, 1]]
    plain = lt.zeros(2, 3)
    assert plain.unbind()[0].add_(1).tolist() == [1, 1, 1]
    weight = lt.ones(3, requires_grad=True)
    _refused(lambda: plain.unbind()[0].add_(weight), "function that returns multiple views")


def test_views_made_without_gradients() -> None:
    x, weight = lt.zeros(2, 3), lt.ones(3, requires_grad=True)
    with lt.no_grad():
        view = x[0]
    _refused(lambda: view.add_(weight), "A view was created in no_grad mode")
    assert x[1].add_(weight).requires_grad and x.requires_grad


def test_out_takes_no_part_in_differentiation() -> None:
    x = lt.ones(2, requires_grad=True)
    _refused(lambda: lt.add(x, 1, out=lt.zeros(2)), r"add\(\): functions with out=")
    with lt.no_grad():
        assert lt.add(x, 1, out=lt.zeros(2)).tolist() == [2, 2]


def test_what_is_repeated_may_come_from_where_it_is_written() -> None:
    """As in PyTorch, which looks into no value that it repeats."""
    for index, value in ((0, (0, slice(1, 2))), (slice(None), 0), (0, (0, 1))):
        x = lt.arange(12.0).view(2, 6)
        wanted = x.numpy().copy()
        wanted[index] = wanted[value].copy()
        x[index] = x[value]
        assert x.tolist() == wanted.tolist()
    x = lt.arange(12.0).view(2, 6)
    with pytest.raises(RuntimeError, match=_SHARED):
        x[0, :3] = x[0, 1:4]
