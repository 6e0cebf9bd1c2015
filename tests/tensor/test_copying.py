"""Copies and pickles of tensors: what is shared, what is kept, what is refused."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

import lazyt as lt
from lazyt.ir.dtypes import ALL


def pickled(value: Any, protocol: int = 4) -> Any:
    return pickle.loads(pickle.dumps(value, protocol))


def test_arrangement_and_type_are_kept() -> None:
    for index, dtype in enumerate(ALL):
        a = lt.arange(6).reshape(2, 3).to(dtype)
        views = [a, a.t(), a[1], a[:, 1], a[:0], a[1, 2], a[0, 0].expand(3), a[:, ::2]]
        for view in views:
            for made in (copy.deepcopy(view), pickled(view, 2 + index % 4)):
                assert made.tolist() == view.tolist()
                assert made.dtype is dtype
                form = (made.shape, made.stride(), made.storage_offset())
                assert form == (view.shape, view.stride(), view.storage_offset())


def test_one_deepcopy_keeps_memory_shared() -> None:
    a = lt.arange(6.0).reshape(2, 3)
    whole, row, turned, again = copy.deepcopy([a, a[0], a.t(), a])
    whole[0, 0] = 99
    turned[1, 1] = 5
    assert whole is again
    assert row.tolist() == [99, 1, 2]
    assert whole.tolist() == [[99, 1, 2], [3, 5, 5]]
    assert a.tolist() == [[0, 1, 2], [3, 4, 5]]
    bits = copy.deepcopy([a, a.view(lt.int32)])
    bits[0].fill_(1)
    assert bits[1].tolist() == [[1065353216] * 3] * 2
    parts = [pickled([a, a[0]])]
    parts[0][0][0, 0] = 99  # as in PyTorch, a pickle does not share
    assert parts[0][1].tolist() == [0, 1, 2]


def test_leaves_over_one_memory_stay_leaves() -> None:
    base = lt.zeros(4)
    p, q = (half.detach().requires_grad_() for half in (base[:2], base[2:]))
    made, left, right = copy.deepcopy([base, p, q])
    with lt.no_grad():
        left.add_(1)
        right.add_(2)
    (left * right).sum().backward()
    assert made.tolist() == [1, 1, 2, 2]
    assert left.grad is not None and right.grad is not None
    assert (left.grad.tolist(), right.grad.tolist()) == ([2, 2], [1, 1])
    assert (made.requires_grad, base.tolist()) == (False, [0] * 4)


def test_gradients_and_attributes() -> None:
    w: Any = lt.ones(3, requires_grad=True)
    (w * 2).sum().backward()
    w.note = [1]
    deep, flat, back = copy.deepcopy(w), copy.copy(w), pickled(w)
    deep.grad.add_(1)
    deep.note.append(2)
    assert w.grad.tolist() == [2, 2, 2]
    assert (deep.grad.tolist(), flat.grad, back.grad) == ([3, 3, 3], None, None)
    assert all(made.is_leaf and made.requires_grad for made in (deep, flat, back))
    assert (w.note, deep.note, back.note) == ([1], [1, 2], [1])
    assert flat.note is w.note
    with lt.no_grad():
        flat.add_(1)
    assert w.tolist() == [2, 2, 2]


def test_results_of_functions() -> None:
    y = lt.ones(2, requires_grad=True) * 2
    for made in (pickled(y), copy.copy(y)):
        assert made.is_leaf and made.requires_grad
        assert made.tolist() == [2, 2]
    with pytest.raises(RuntimeError, match="support the deepcopy protocol at the moment"):
        copy.deepcopy(y)


def test_parameters_tied_to_each_other() -> None:
    model: Any = lt.nn.Linear(2, 2)
    model.tied = model.weight
    for made in (copy.deepcopy(model), pickled(model)):
        assert made.tied is made.weight
        assert type(made.weight) is lt.nn.Parameter
    assert type(copy.copy(model.weight)) is lt.nn.Parameter


def test_buffers_travel_out_of_band() -> None:
    a = lt.arange(1000.0)
    buffers: list[pickle.PickleBuffer] = []
    text = pickle.dumps(a, 5, buffer_callback=buffers.append)
    assert (len(text) < 500, len(buffers)) == (True, 1)
    made = pickle.loads(text, buffers=buffers)
    made[0] = 5
    assert (made[1].item(), a[0].item()) == (1, 0)


def test_copies_of_memory_that_numpy_sees() -> None:
    a = lt.arange(3.0)
    array = a.numpy()
    made = copy.deepcopy(a)
    array[0] = 7
    made[1] = 9
    assert (made.tolist(), a.tolist()) == ([0, 9, 2], [7, 1, 2])
