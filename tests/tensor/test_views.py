"""Views: strides and offsets as PyTorch gives them, values that follow their storage."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lazyt as lt
from lazyt.handle import views
from lazyt.ir.graph import Shape


def base() -> lt.Tensor:
    made: lt.Tensor = lt.arange(24.0).view(2, 3, 4)
    return made


def facts(tensor: lt.Tensor) -> tuple[tuple[int, ...], tuple[int, ...], int, bool]:
    return tuple(tensor.shape), tensor.stride(), tensor.storage_offset(), tensor.is_contiguous()


def test_strides_and_offsets() -> None:
    x = base()
    assert facts(x) == ((2, 3, 4), (12, 4, 1), 0, True)
    assert facts(x[1]) == ((3, 4), (4, 1), 12, True)
    assert facts(x[:, 1:, ::2]) == ((2, 2, 2), (12, 4, 2), 4, False)
    assert facts(x.permute(2, 0, 1)) == ((4, 2, 3), (1, 12, 4), 0, False)
    assert facts(x.unsqueeze(1)) == ((2, 1, 3, 4), (12, 12, 4, 1), 0, True)
    assert facts(x[:, :1].expand(2, 5, 4)) == ((2, 5, 4), (12, 0, 1), 0, False)
    assert facts(x[1, 2].expand(3, 4)) == ((3, 4), (0, 1), 20, False)
    assert facts(x.diagonal(1, 1, 2)) == ((2, 3), (12, 5), 1, False)
    assert facts(x.unfold(2, 3, 1)) == ((2, 3, 2, 3), (12, 4, 1, 1), 0, False)
    assert facts(x[1:1]) == ((0, 3, 4), (12, 4, 1), 12, True)
    assert facts(lt.zeros(2, 0).t()) == ((0, 2), (1, 1), 0, True)


def numpy_view(array: np.ndarray, tensor: lt.Tensor) -> np.ndarray:
    flat = array.reshape(-1)[tensor.storage_offset() :]
    steps = [s * array.itemsize for s in tensor.stride()]
    return np.lib.stride_tricks.as_strided(flat, tuple(tensor.shape), steps)


@st.composite
def view_chains(draw: st.DrawFn) -> lt.Tensor:
    x = base()
    for _ in range(draw(st.integers(1, 5))):
        rank = x.ndim
        kind = draw(st.sampled_from(["permute", "slice", "select", "unsqueeze", "squeeze",
                                     "reshape", "diagonal", "unfold"]))  # fmt: skip
        if kind == "permute" and rank:
            x = x.permute(draw(st.permutations(range(rank))))
        elif kind == "slice" and rank:
            axis = draw(st.integers(0, rank - 1))
            start = draw(st.integers(0, x.shape[axis] - 1))
            length = draw(st.integers(1, x.shape[axis] - start))
            x = x.narrow(axis, start, length)
        elif kind == "select" and rank:
            axis = draw(st.integers(0, rank - 1))
            x = x.select(axis, draw(st.integers(0, x.shape[axis] - 1)))
        elif kind == "unsqueeze" and rank < 5:
            x = x.unsqueeze(draw(st.integers(0, rank)))
        elif kind == "squeeze":
            x = x.squeeze()
        elif kind == "reshape" and rank > 1:
            merged = x.shape[0] * x.shape[1]
            try:
                x = x.view(merged, *x.shape[2:])
            except RuntimeError:
                continue  # not a view of this memory; test_view_refuses checks which are not
        elif kind == "diagonal" and rank > 1:
            x = x.diagonal()
        elif kind == "unfold" and rank and x.shape[-1] > 1 and rank < 5:
            x = x.unfold(rank - 1, 2, 1)
    return x


@settings(max_examples=60, deadline=None)
@given(view_chains())
def test_steps_and_strides_agree(x: lt.Tensor) -> None:
    """The graph's value of a view is what its strides and offset say about the memory."""
    expected = numpy_view(np.arange(24, dtype=np.float32), x)
    with lt.config.override(interpret=True):
        assert x.tolist() == expected.tolist()


@settings(max_examples=60, deadline=None)
@given(view_chains())
def test_writes_reach_the_memory(x: lt.Tensor) -> None:
    """Writing through any view that does not overlap changes just the elements it shows."""
    array = np.arange(24, dtype=np.float32)
    if views.overlaps(tuple(x.shape), x.stride()):
        return
    new = np.arange(100.0, 100.0 + x.numel(), dtype=np.float32).reshape(tuple(x.shape))
    whole = x.as_strided((24,), (1,), 0)
    with lt.config.override(interpret=True):
        x.copy_(lt.tensor(new.tolist()).view(x.shape))
        numpy_view(array, x)[...] = new
        assert whole.tolist() == array.tolist()
        assert x.tolist() == new.tolist()


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=4),
    st.permutations(range(4)),
    st.lists(st.integers(1, 6), min_size=1, max_size=4),
)
def test_view_refuses_what_strides_cannot_express(
    shape: list[int], order: list[int], new: list[int]
) -> None:
    """``strides_of_view`` finds strides exactly when the elements lie where they must."""
    axes = [a for a in order if a < len(shape)]
    plain = views.contiguous_strides(tuple(shape))
    old_shape: Shape = tuple(shape[a] for a in axes)
    old = tuple(plain[a] for a in axes)
    if np.prod(new) != np.prod(shape):
        return
    places = np.lib.stride_tricks.as_strided(
        np.arange(np.prod(shape)), old_shape, [s * 8 for s in old]
    ).reshape(new)
    found = views.strides_of_view(old_shape, old, tuple(new))
    if found is not None:
        grid = sum(np.ogrid[tuple(slice(n) for n in new)][i] * s for i, s in enumerate(found))
        assert np.array_equal(grid, places)
    else:
        # No strides at all describe these places.
        steps = [
            int(np.moveaxis(places, i, 0)[1].flat[0] - places.flat[0]) if n > 1 else 0
            for i, n in enumerate(new)
        ]
        grid = sum(np.ogrid[tuple(slice(n) for n in new)][i] * s for i, s in enumerate(steps))
        assert not np.array_equal(grid, places)


def test_base_change_reaches_every_view() -> None:
    x = lt.arange(6.0).view(2, 3)
    looks = [x.view(6), x.t(), x[1], x[:, 2], x.unfold(1, 2, 1)]
    copy = x.clone()
    x *= 10
    assert looks[0].tolist() == [0, 10, 20, 30, 40, 50]
    assert looks[1].tolist() == [[0, 30], [10, 40], [20, 50]]
    assert looks[2].tolist() == [30, 40, 50]
    assert looks[3].tolist() == [20, 50]
    assert looks[4].tolist() == [[[0, 10], [10, 20]], [[30, 40], [40, 50]]]
    assert copy.tolist() == [[0, 1, 2], [3, 4, 5]]


def test_view_errors() -> None:
    x = base()
    with pytest.raises(RuntimeError, match=r"shape '\[5, 5\]' is invalid for input of size 24"):
        x.view(5, 5)
    with pytest.raises(RuntimeError, match="view size is not compatible with input tensor's size"):
        x.transpose(0, 2).view(24)
    with pytest.raises(RuntimeError, match="only one dimension can be inferred"):
        x.view(-1, -1)
    with pytest.raises(IndexError, match=r"expected to be in range of \[-3, 2\], but got 3"):
        x.transpose(0, 3)
    with pytest.raises(RuntimeError, match="duplicate dims"):
        x.permute(0, 0, 1)
    with pytest.raises(RuntimeError, match="out of bounds for storage of size 96"):
        x.as_strided((5, 5), (10, 1))


def test_reshape_copies_only_when_it_must() -> None:
    x = lt.arange(12).view(3, 4)
    x.reshape(12)[0] = 100
    x.t().reshape(12)[1] = -1
    assert x[0, 0].item() == 100
    assert x[1, 0].item() == 4


def test_views_pend_no_kernel() -> None:
    """A view of a computed tensor is not computed by being made."""
    x = base().realize()
    lt.why_realized()
    view = x.t() if x.ndim == 2 else x.permute(2, 1, 0)
    assert view.node.data is None
    assert view.shape == (4, 3, 2)


@pytest.mark.fused
def test_another_shape_of_computed_memory_is_no_copy() -> None:
    """The view shares the memory until somebody writes, and copies keep what they had."""
    base = (lt.arange(12.0).reshape(3, 4) * 2).realize()
    view, copy = base.flatten(), base.reshape(-1).clone().realize()
    before = len(lt.why_compiled())
    view.realize()
    assert len(lt.why_compiled()) == before
    assert view.node.data is base.node.data
    for _ in range(2):
        base.add_(1)
        lt.realize(base)
    assert view.tolist() == [2.0 * n + 2 for n in range(12)]
    assert copy.tolist() == [2.0 * n for n in range(12)]


def test_what_was_looked_at_before_is_no_other_view() -> None:
    """How a view is read is remembered by its steps, of which several kinds hold the same."""
    one, none = lt.ones(1).realize(), lt.ones(0, 5).realize()
    for _ in range(3):
        assert one.expand(0).node.shape == (0,) and one.permute(0).node.shape == (1,)
        assert none.permute(1, 0).node.shape == (5, 0)
        assert none.view(1, 0).node.shape == (1, 0)
    x = lt.arange(24.0).reshape(4, 6).realize()
    turned, array = x.T, np.arange(24.0).reshape(4, 6)
    for _ in range(3):
        for index in (1, (1,), (slice(1, 3), 2), (slice(None, None, 2), slice(3)), (..., 1), None):
            assert x[index].tolist() == array[index].tolist()
            assert turned[index].tolist() == array.T[index].tolist()
            assert x[1:][index].tolist() == array[1:][index].tolist()
            assert x[index].stride() == lt.arange(24.0).reshape(4, 6)[index].stride()
        assert x.narrow(0, -2, 1).tolist() == array[2:3].tolist()
        with pytest.raises(IndexError):
            x[4]
    x[1:3, 0] = x[0, :2]
    x[-1] = 7
    x[:] = x + 1
    array[1:3, 0] = array[0, :2]
    array[-1] = 7
    assert x.tolist() == (array + 1).tolist()
