"""What random programs found to differ from PyTorch: a test for each cause, its answer wanted."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterator

import numpy as np
import pytest

import lazyt as lt
from lazyt import Tensor
from lazyt.autograd import grad


@pytest.fixture(autouse=True)
def interpreted() -> Iterator[None]:
    with lt.config.override(interpret=True):
        yield


def leaf(*shape: int) -> Tensor:
    count = int(np.prod(shape))
    made: Tensor = ((lt.arange(count) + 1.0) / 4).reshape(shape).clone()
    return made.requires_grad_()


def weights(x: Tensor) -> list[object]:
    assert x.grad is not None
    found: list[object] = x.grad.tolist()
    return found


# ---------------------------------------------------------------------- gradients


def test_flags_of_results_cannot_be_set() -> None:
    y = leaf(2) * 2
    with pytest.raises(RuntimeError, match="only change requires_grad flags of leaf"):
        y.requires_grad = True
    assert y.requires_grad_() is y


def test_gradients_outlive_the_flag_and_detaching() -> None:
    x = leaf(2)
    x.sum().backward()
    x.requires_grad_(False)
    assert weights(x) == [1, 1]
    y = leaf(2)
    y.sum().backward()
    y.detach_()
    assert weights(y) == [1, 1]


def test_a_tensor_of_the_same_value_is_not_the_one_that_was_used() -> None:
    x = leaf(2, 2)
    same = x.swapaxes(0, 0)
    with pytest.raises(RuntimeError, match="not have been used"):
        grad((x * 2).sum(), same)


def test_targets_are_not_run() -> None:
    y = leaf(2) // 2
    (found,) = grad((y * 2).sum(), y)
    assert found is not None and found.tolist() == [2, 2]
    with pytest.raises(RuntimeError, match="floor_divide is not implemented"):
        y.sum().backward()
    with pytest.raises(NotImplementedError, match="_unique2"):
        leaf(3).unique().sum().backward()


@pytest.mark.parametrize(
    "make",
    [
        lambda x, i, m: x[i],
        lambda x, i, m: x[m],
        lambda x, i, m: x.index_select(0, i),
        lambda x, i, m: x.masked_fill(m, 0.0),
        lambda x, i, m: lt.where(m, x, 0.0),
        lambda x, i, m: x.scatter(0, i, 2.0),
        lambda x, i, m: x.index_copy(0, i, x),
    ],
)
def test_indices_and_masks_must_not_change(
    make: Callable[[Tensor, Tensor, Tensor], Tensor],
) -> None:
    x, index, mask = leaf(3), lt.tensor([2, 0, 1]), lt.tensor([True, False, True])
    y = make(x, index, mask)
    index.mul_(1)
    mask.logical_not_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_inputs_that_no_formula_reads_may_change() -> None:
    x, y = leaf(2, 2), lt.ones(2, 2)
    total = lt.addmm(x * 1, y, y)
    y.mul_(2)
    total.sum().backward()
    assert weights(x) == [[1, 1], [1, 1]]
    z = leaf(3)
    w = z.clone()
    rest = w % 2
    w.mul_(2)
    rest.sum().backward()
    assert weights(z) == [1, 1, 1]


def test_positions_of_sorted_values_must_not_change() -> None:
    values, places = leaf(3).sort()
    places.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        values.sum().backward()


def test_who_asks_for_a_gradient_gets_what_the_hook_made_of_it() -> None:
    y = leaf(2) * 2
    y.register_hook(lambda g: g * 10)
    (found,) = grad(y.sum(), y)
    assert found is not None and found.tolist() == [10, 10]


def test_writing_once_and_differentiating_twice_fails() -> None:
    base = lt.zeros(3)
    base[0] = leaf(1)[0]
    base.sum().backward()
    with pytest.raises(RuntimeError, match="a second time"):
        base.sum().backward()


def test_spread_of_equal_values_has_no_slope() -> None:
    x = lt.ones(3).requires_grad_()
    (x.std() + x.var()).backward()
    assert weights(x) == [0, 0, 0]


def test_views_made_together_lose_their_history() -> None:
    x = leaf(2, 2) * 1
    first, second = x.unbind(0)
    x.add_(1)
    assert second.requires_grad and "grad_fn=<Invalid>" in repr(second)
    uses: list[Callable[[], object]] = [
        lambda: first + 1, lambda: first.grad_fn, lambda: second[0],
    ]  # fmt: skip
    for use in uses:
        with pytest.raises(RuntimeError, match="has been modified inplace"):
            use()
    with lt.no_grad():
        assert (first + 1).tolist() == [2.25, 2.5]
    assert first.detach().tolist() == [1.25, 1.5]


def test_looking_through_numpy_keeps_the_history() -> None:
    y = leaf(2, 2)[lt.tensor([0, 1])]
    row = y[0]
    array = y.detach().numpy()
    (found,) = grad((row * 2).sum(), row)
    assert found is not None and found.tolist() == [2, 2]
    array[0] = 7
    assert y.tolist() == [[7, 7], [0.75, 1]]


# ---------------------------------------------------------------------- memory


def test_versions_of_data_are_shared_by_what_comes_from_it() -> None:
    x = lt.zeros(3)
    data = x.data
    data.detach().add_(1)
    assert (x._version, data._version, x.tolist()) == (0, 1, [1, 1, 1])
    other = copy.copy(x)
    other.mul_(2)
    assert (x._version, other._version, x.tolist()) == (0, 1, [2, 2, 2])


def test_copies_keep_strides_and_pickles_do_too() -> None:
    x = lt.arange(12).reshape(3, 4)
    for view in (x.T, x[:, ::2], x[1]):
        for alike in (copy.deepcopy(view), pickle.loads(pickle.dumps(view))):
            assert alike.stride() == view.stride()
            assert alike.storage_offset() == view.storage_offset()
            assert alike.tolist() == view.tolist()


def test_picked_elements_lie_in_their_sources_order() -> None:
    x = lt.arange(24).reshape(2, 3, 4)
    assert x.permute(2, 0, 1)[:, :, [0, 2]].stride() == (2, 8, 1)
    assert x[:, :, None, 1:3][..., None].stride() == (12, 4, 4, 1, 1)
    assert lt.ones(3, 2).nonzero().stride() == (1, 6)
    with lt.no_grad():
        assert (leaf(2, 3).T * 2).stride() == (1, 3)


# ---------------------------------------------------------------------- writes and errors


def test_values_assigned_by_index_are_not_converted() -> None:
    x = lt.zeros(3)
    with pytest.raises(RuntimeError, match="source and destination dtypes match"):
        x[[0]] = lt.tensor(1)
    x[x == 0] = lt.tensor([1])  # a single value for a mask is
    assert x.tolist() == [1, 1, 1]
    with pytest.raises(TypeError, match="can't assign a list"):
        x[0] = [1]
    with pytest.raises(TypeError, match="unsupported operand"):
        x += [1, 2, 3]


@pytest.mark.parametrize(
    "write",
    [
        lambda x: x.fill_(300),
        lambda x: x.masked_fill_(x == 0, -1.5),
        lambda x: x.index_fill_(0, lt.tensor([0]), 300),
        lambda x: x.scatter_(0, lt.tensor([0]), 300),
        lambda x: x.clamp(0, 300),
        lambda x: x.__setitem__(0, 300),
        lambda x: lt.full_like(x, -0.5),
    ],
)
def test_numbers_that_do_not_fit_are_refused(write: Callable[[Tensor], object]) -> None:
    with pytest.raises(RuntimeError, match="without overflow"):
        write(lt.zeros(2, dtype=lt.uint8))


def test_factors_are_taken_in_the_common_type() -> None:
    x, y = lt.tensor([7], dtype=lt.int32), lt.tensor([4], dtype=lt.uint8)
    assert x.sub(y, alpha=2).tolist() == [-1] == x.add(y, alpha=-2).tolist()
    truth = lt.tensor([True, False])
    assert truth.add(True, alpha=2).dtype is lt.bool
    with pytest.raises(RuntimeError, match="with a bool tensor is not supported"):
        x - True


def test_slices_written_to_a_single_number_and_to_truth_values() -> None:
    one, zero = lt.tensor(3.0), lt.tensor([0])
    assert one.index_add(0, zero, lt.tensor(2.0)).item() == 5
    assert one.index_copy(-1, zero, lt.tensor(2.0)).item() == 2
    truth = lt.tensor([True, False])
    assert truth.index_add(0, lt.tensor([1]), lt.tensor([True])).tolist() == [True, True]
    assert lt.ones(0, 4).scatter(0, lt.tensor([], dtype=lt.int64), 1.0).shape == (0, 4)


def test_normalising_one_number_and_none() -> None:
    assert lt.tensor(0.0).softmax(0).item() == 1
    assert lt.ones(2, 0).log_softmax(1).shape == (2, 0)
    with pytest.raises(NotImplementedError, match='"softmax_kernel_impl"'):
        lt.ones(2, 2, dtype=lt.int64).softmax(0)


def test_products_name_the_routine() -> None:
    with pytest.raises(RuntimeError, match="first two dimensions of batch2"):
        lt.ones(2, 3, 2) @ lt.ones(2, 3, 2)
    with pytest.raises(RuntimeError, match=r"size mismatch, got input \(6\)"):
        lt.ones(2, 3, 2) @ lt.ones(3)
    truth = lt.ones(2, 2, dtype=lt.bool)
    with pytest.raises(NotImplementedError, match="addmm_impl_cpu_"):
        truth @ truth
    assert (truth[:, :0] @ truth[:0]).tolist() == [[False, False], [False, False]]


def test_copying_does_not_drop_dimensions() -> None:
    with pytest.raises(RuntimeError, match=r"output with shape \[3\]"):
        lt.zeros(3).copy_(lt.ones(1, 3))
    with pytest.raises(IndexError, match="tensor has no dimensions"):
        lt.tensor(1).size(0)


@pytest.mark.parametrize("kind", [lt.uint8, lt.int8])
def test_numbers_of_tensors_that_do_not_fit_are_refused(kind: lt.dtype) -> None:
    x, mask = lt.zeros(3, dtype=kind), lt.tensor([True, False, True])
    large = lt.tensor(300.5, dtype=lt.float64)
    for write in (
        lambda: x.masked_fill_(mask, large),
        lambda: x.__setitem__(mask, large),
        lambda: x.__setitem__(mask, large[None]),
        lambda: x.index_put_((mask,), large),
        lambda: x.index_fill_(0, lt.tensor([1]), large),
    ):
        with pytest.raises(RuntimeError, match=f"type {kind.name}_t without overflow"):
            write()
    x[mask] = lt.tensor(100.5, dtype=lt.float64)
    x.index_put_((~mask,), lt.tensor(7.0))
    assert x.tolist() == [100, 7, 100]
    with pytest.raises(RuntimeError, match="float without overflow"):
        lt.zeros(3).masked_fill(mask, lt.tensor(1e39, dtype=lt.float64))


def test_operands_in_the_memory_written_to() -> None:
    none = lt.zeros(0, dtype=lt.bool)
    with pytest.raises(RuntimeError, match="single memory location"):
        none[none] = none
    x = lt.arange(4)
    with pytest.raises(RuntimeError, match="single memory location"):
        x.index_put_((x,), lt.zeros(4, dtype=lt.int64))
    x.masked_fill_(x > 1, x[1]).index_fill_(0, lt.tensor([0]), x[3])  # only their numbers
    assert x.tolist() == [1, 1, 1, 1]


def test_writes_without_gradients_end_what_a_view_was_made_from() -> None:
    x = leaf(4)
    part = x[1:]
    again = part[...]
    with lt.no_grad():
        part[0] = 1
    with pytest.raises(RuntimeError, match="appears to not have been used"):
        grad(again.sum(), part)
    (found,) = grad(again.sum(), x)
    assert found is not None and found.tolist() == [0, 1, 1, 1]


def test_writing_nothing_still_makes_history() -> None:
    x, y = lt.zeros(3), leaf(3)
    x[lt.tensor([], dtype=lt.int64)] = y[:1]
    assert x.requires_grad
    x.sum().backward()
    assert weights(y) == [0, 0, 0]


def test_empty_batches_of_products_take_any_types() -> None:
    x = lt.zeros(0, 4, dtype=lt.bool) @ lt.zeros(2, 4, 1, dtype=lt.float64)
    assert x.shape == (2, 0, 1) and x.dtype is lt.float64
    with pytest.raises(RuntimeError, match="Bool but found Double"):
        lt.zeros(1, 4, dtype=lt.bool) @ lt.zeros(2, 4, 1, dtype=lt.float64)


def test_picked_rows_lie_as_the_strides_say_though_an_extent_is_one() -> None:
    x = lt.arange(12).reshape(1, 2, 2, 3).diagonal(0, 0, 1)
    assert x.stride() == (3, 1, 18)
    assert x[:, lt.tensor([-1, -1])].stride() == (1, 2, 4)
