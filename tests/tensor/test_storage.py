"""Storages: memory shared with NumPy, freed history, and copies."""

from __future__ import annotations

import copy
import ctypes
import gc
import pickle
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lazyt as lt


def test_from_numpy_shares_both_ways() -> None:
    a = np.arange(6.0).reshape(2, 3)
    t = lt.from_numpy(a)
    before = t * 1
    a[0, 0] = 100
    t[1, 2] = -1
    t.mul_(2)
    assert before.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert a.tolist() == [[200, 2, 4], [6, 8, -2]]
    again = t.numpy()
    assert np.shares_memory(a, again)
    again[:] = 7
    assert t.sum().item() == 42


def test_numpy_of_a_view_writes_through() -> None:
    t = lt.zeros(2, 2)
    view = t.t().numpy()
    view[1, 0] = -9
    t[0, 0] = 3
    assert t.tolist() == [[3, -9], [0, 0]]
    assert view.tolist() == [[3, 0], [-9, 0]]


def test_strided_arrays() -> None:
    a = np.arange(12.0).reshape(3, 4)
    part = lt.from_numpy(a[::2, 1:])
    assert part.stride() == (8, 1)
    part[0, 0] = -5
    lt.from_numpy(a.T)[0, 2] = -6
    assert a[0, 1] == -5 and a[2, 0] == -6
    with pytest.raises(ValueError, match="stride in the given numpy array is negative"):
        lt.from_numpy(a[::-1])


def test_sharing_ends_with_the_array() -> None:
    """Once nobody holds the array, reads need no snapshot, and no write is lost."""
    t = lt.zeros(3)
    array = t.numpy()
    array[1] = 5
    assert t._storage.exposure() is not None
    del array
    gc.collect()
    assert t.tolist() == [0, 5, 0]
    assert t._storage.exposure() is None
    t.add_(1)
    assert t.tolist() == [1, 6, 1]


def test_equal_values_do_not_share_memory() -> None:
    """Two tensors of one graph node stay two tensors when NumPy writes to one of them."""
    a, b = lt.zeros(2), lt.zeros(2)
    a.numpy()[0] = 1
    assert b.tolist() == [0, 0]
    x = lt.tensor([1.0, 2.0])
    y, z = x + 1, x + 1
    y.numpy()[0] = 50
    assert z.tolist() == [2, 3]
    assert (x + 1).tolist() == [2, 3]


def test_computed_tensors_forget_their_history() -> None:
    x = lt.tensor([1.0, 2.0])
    middle = x * 3
    y = middle + 1
    node = weakref.ref(middle.node)
    y.realize()
    del middle
    assert y.node.inputs == ()
    gc.collect()
    assert node() is None


def test_data_ptr_is_stable_and_real() -> None:
    import ctypes

    x = lt.tensor([1.0, 2.0, 3.0])
    where = x.data_ptr()
    assert x.relu_().data_ptr() == where
    assert x[1].data_ptr() == where + 4
    ctypes.c_float.from_address(where + 8).value = 9.0
    assert x.tolist() == [1, 2, 9]
    assert x.clone().data_ptr() != where


def test_copies_and_pickles() -> None:
    x = lt.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    deep = copy.deepcopy(x)
    again = pickle.loads(pickle.dumps(x))
    for other in (deep, again):
        assert other.is_leaf and other.requires_grad
        assert other.tolist() == x.tolist()
        with lt.no_grad():
            other.add_(1)
    assert x.tolist() == [[1, 2], [3, 4]]
    half = lt.ones(2).bfloat16()
    assert pickle.loads(pickle.dumps(half)).tolist() == [1, 1]
    with pytest.raises(RuntimeError, match="deepcopy"):
        copy.deepcopy(x * 2)


def test_storage_handle() -> None:
    x = lt.arange(6).view(2, 3)
    store = x[1].storage()
    assert store.size() == len(store) == 6
    assert store.tolist() == [0, 1, 2, 3, 4, 5]
    assert store[4] == 4
    assert store.data_ptr() == x.data_ptr()


@pytest.mark.varies
def test_threads_build_graphs_side_by_side() -> None:
    x = lt.ones(8, requires_grad=True)
    results: dict[int, list[float]] = {}

    def work(number: int) -> None:
        if number % 2:
            with lt.no_grad():
                y = x * number
        else:
            y = x * number
        assert y.requires_grad == (number % 2 == 0)
        for _ in range(200):
            y = y + 1
        results[number] = y.detach().tolist()

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {i: [i + 200.0] * 8 for i in range(8)}


def test_what_numpy_has_not_changed_is_read_once() -> None:
    array = np.arange(6.0)
    part = lt.from_numpy(array)[1:4]
    first, double = part.node, part * 2
    assert part.node is first
    array[2] = 9.0
    assert part.node is not first and part.tolist() == [1.0, 9.0, 3.0]
    assert double.tolist() == [2.0, 4.0, 6.0]  # made of what was there
    second = part.node
    part.add_(1)
    assert part.node is not second and array.tolist() == [0.0, 2.0, 10.0, 4.0, 4.0, 5.0]


def test_memory_of_an_array_that_is_gone() -> None:
    whole = np.arange(6.0)
    t = lt.from_numpy(whole[1:])
    whole[1] = 7
    assert t[0].item() == 7
    del whole
    assert t._storage.exposure() is None
    t[1] = -1
    assert t.tolist() == [7, -1, 3, 4, 5]
    with pytest.raises(RuntimeError, match="not resizable"):
        t.resize_(9)
    large = lt.from_numpy(np.ones(1 << 18))
    assert large.sum().item() == 1 << 18 and large._storage.exposure() is None
    assert large.add_(1).sum().item() == 2 << 18


def test_memory_of_an_array_that_somebody_can_reach() -> None:
    def writer(array: Any, kind: str) -> Callable[[], None]:
        makers: dict[str, Callable[[], Any]] = {
            "view": lambda: array[1:],
            "memory": lambda: memoryview(array),
            "address": lambda: array.ctypes,
            "weak": lambda: array,
            "other": lambda: lt.from_numpy(array),
        }
        seen = makers[kind]()
        if kind == "weak":
            reference: Any = weakref.ref(seen)
            holder = [seen]

            def write() -> None:
                found = reference()
                found[1] = 5
                holder.clear()

            return write
        if kind == "address":
            pointer = seen.data_as(ctypes.POINTER(ctypes.c_double))
            return lambda: pointer.__setitem__(1, 5.0)
        return lambda: seen.__setitem__(0 if kind == "view" else 1, 5.0)

    for kind in ("view", "memory", "address", "weak", "other"):
        array = np.zeros(3)
        t = lt.from_numpy(array)
        write = writer(array, kind)
        del array
        assert t.tolist() == [0, 0, 0]
        write()
        assert t.tolist() == [0, 5, 0], kind

    array = np.zeros(3)
    t = lt.from_numpy(array)
    seen = t.numpy()
    del array
    seen[1] = 5
    assert t.tolist() == [0, 5, 0]
