"""Reading and writing by index, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lazyt as lt

_SHAPE = (3, 4, 5)


def _array() -> Any:
    return np.arange(60, dtype=np.float32).reshape(_SHAPE)


def _item(extent: int) -> Any:
    bound = st.one_of(st.none(), st.integers(-extent - 2, extent + 2))
    step = st.sampled_from([None, 1, 2, 3, -1, -2])
    return st.one_of(st.integers(-extent, extent - 1), st.builds(slice, bound, bound, step))


@st.composite
def _indices(draw: Any) -> Any:
    count = draw(st.integers(0, 3))
    items: list[Any] = [draw(_item(_SHAPE[i])) for i in range(count)]
    for _ in range(draw(st.integers(0, 2))):
        items.insert(draw(st.integers(0, len(items))), None)
    if draw(st.booleans()):
        items.append(Ellipsis)
    return tuple(items)


@settings(max_examples=60, deadline=None)
@given(_indices())
def test_basic_reads_and_writes_agree_with_numpy(index: Any) -> None:
    array, tensor = _array(), lt.tensor(_array())
    assert tensor[index].tolist() == array[index].tolist()
    array[index] = -1
    tensor[index] = -1
    assert tensor.tolist() == array.tolist()


_PICKS: list[Any] = [
    [0, 2],
    ([0, 2], [1, -1]),
    (slice(None), [0, 3]),
    (slice(None), [0, 3], [1, 1]),
    ([[0], [2]], [1, 2]),
    ([0, 1], slice(1, 3), [4, 0]),
    np.array([True, False, True]),
    _array() > 30,
    (slice(None), np.array([True, False, False, True])),
]


@pytest.mark.parametrize("index", _PICKS, ids=range(len(_PICKS)))
def test_picked_reads_and_writes_agree_with_numpy(index: Any) -> None:
    array, tensor = _array(), lt.tensor(_array())
    picked = array[index]
    assert tensor[index].tolist() == picked.tolist()
    new = np.arange(picked.size, dtype=np.float32).reshape(picked.shape) - 100
    array[index] = new
    tensor[index] = lt.tensor(new)
    assert tensor.tolist() == array.tolist()


def test_picks_are_copies_and_slices_are_views() -> None:
    x = lt.zeros(3, 3)
    x[[0, 1]].fill_(5)
    x[2].fill_(7)
    assert x.tolist() == [[0, 0, 0], [0, 0, 0], [7, 7, 7]]


@pytest.mark.parametrize(
    ("index", "text"),
    [
        (5, "index 5 is out of bounds for dimension 0 with size 3"),
        ((0, -5), "index -5 is out of bounds for dimension 1 with size 4"),
        ((0, 0, 0, 0), "too many indices for tensor of dimension 3"),
        ([0, 7], "index 7 is out of bounds for dimension 0 with size 3"),
        (1.5, "only integers, slices"),
        (np.array([True, False]), r"The shape of the mask \[2\] at index 0 does not match"),
        (([0, 1], [0, 1, 2]), "shape mismatch: indexing tensors could not be broadcast"),
    ],
)
def test_errors_come_at_the_line(index: Any, text: str) -> None:
    with pytest.raises(IndexError, match=text):
        lt.zeros(_SHAPE)[index]


def test_values_that_do_not_fit_change_nothing() -> None:
    x = lt.zeros(2, 3)
    with pytest.raises(RuntimeError, match="must match the existing size"):
        x[0] = lt.ones(4)
    with pytest.raises(RuntimeError, match="cannot be broadcast to indexing result of shape"):
        x[x > 1] = lt.ones(2)
    assert x.tolist() == [[0, 0, 0], [0, 0, 0]]


def test_duplicates_add_up_and_the_last_write_wins() -> None:
    places = lt.tensor([1, 1, 0])
    added = lt.zeros(3).index_add(0, places, lt.tensor([1.0, 2.0, 4.0]))
    assert added.tolist() == [4, 3, 0]
    written = lt.zeros(3).scatter(0, places, lt.tensor([1.0, 2.0, 4.0]))
    assert written.tolist() == [4, 2, 0]


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_gather_is_take_along_axis(axis: int) -> None:
    rng = np.random.default_rng(0)
    index = rng.integers(0, 3, (3, 3, 3))
    wanted = np.take_along_axis(_array()[:, :3, :3], index, axis)
    found = lt.gather(lt.tensor(_array()[:, :3, :3]), axis, lt.tensor(index))
    assert found.tolist() == wanted.tolist()


def test_nonzero_lists_places_in_order() -> None:
    mask = np.array([[0, 1, 0], [2, 0, 3]])
    assert lt.nonzero(lt.tensor(mask)).tolist() == np.argwhere(mask).tolist()
    assert lt.tensor([0, 0]).nonzero().shape == (0, 1)


def test_gradients_of_picks_add_up() -> None:
    x = lt.tensor([1.0, 2.0, 3.0], requires_grad=True)
    (x[[0, 0, 2]] * lt.tensor([1.0, 10.0, 100.0])).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [11.0, 0.0, 100.0]


@pytest.mark.parametrize("index", [np.bool_(True), np.bool_(False), (np.bool_(True), 0)])
def test_numpys_truth_values_are_no_indices(index: Any) -> None:
    """As in PyTorch; Python's are, and so are arrays of NumPy's."""
    x = lt.arange(6.0).reshape(2, 3)
    with pytest.raises(IndexError, match=r"valid indices \(got numpy\.bool"):
        x[index]
    with pytest.raises(IndexError, match=r"valid indices \(got numpy\.bool"):
        x[index] = 1.0
    assert x[True].shape == x[np.array(True)].shape == (1, 2, 3)


def test_other_things_are_no_indices() -> None:
    for index, name in ((1.5, "float"), (np.float32(1), "numpy.float32")):
        with pytest.raises(IndexError, match=f"got {name}\\)"):
            lt.ones(3)[index]
