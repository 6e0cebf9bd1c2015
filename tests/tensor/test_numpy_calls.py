"""NumPy's functions on tensors, operators with arrays, and asarray and frombuffer."""

from __future__ import annotations

import array as arrays
import operator
import warnings
from typing import Any

import numpy as np
import pytest

import lazyt as lt
from lazyt.errors import GradientError


def tensor(*args: Any, **kwargs: Any) -> Any:
    """A tensor without its type: NumPy's annotations do not know what takes part in ufuncs."""
    return lt.tensor(*args, **kwargs)


F32 = np.array([[1, 2, 3], [4, 5, 6]], np.float32)


def test_operators_with_arrays_are_lazyt_on_either_side() -> None:
    x = tensor([2.0, 3.0, 4.0], requires_grad=True)
    for apply in (operator.add, operator.sub, operator.mul, operator.truediv, operator.pow):
        for left, right in ((F32, x), (x, F32), (np.float64(2), x), (x, np.float64(2))):
            found = apply(left, right)
            assert isinstance(found, lt.Tensor)
            assert (found.dtype, found.requires_grad) == (lt.float32, True)
            plain = [v.detach().numpy() if isinstance(v, lt.Tensor) else v for v in (left, right)]
            np.testing.assert_allclose(found.detach().numpy(), apply(*plain), rtol=1e-6)
    assert (F32 @ x).tolist() == [20, 47]
    assert np.less(F32, x).tolist() == [[True] * 3, [False] * 3]
    assert np.less(x, F32).tolist() == [[False] * 3, [True] * 3]
    assert (np.arange(3) << tensor([1, 1, 2])).tolist() == [0, 2, 8]


def test_other_ufuncs_are_computed_by_numpy() -> None:
    i = tensor([1, 2, 3])
    found = np.exp(i)
    assert isinstance(found, lt.Tensor)
    assert found.dtype is lt.float64
    assert found.tolist() == np.exp(np.arange(1, 4)).tolist()
    assert np.isnan(tensor(1.0)).dtype is lt.bool
    fraction, whole = np.modf(tensor([1.5]))
    assert (fraction.tolist(), whole.tolist()) == ([0.5], [1])
    assert np.add.reduce(i).tolist() == 6
    assert np.add(i, 1, where=tensor([True, False, True]), out=np.zeros(3, int)).tolist()[1] == 0
    assert np.multiply.outer(i, np.arange(2)).tolist() == [[0, 1], [0, 2], [0, 3]]
    assert np.argmax(i).item() == 2
    assert np.sum(i).item() == 6
    with pytest.raises(GradientError, match=r"Can't call numpy\(\)"):
        np.sin(tensor([1.0], requires_grad=True))
    with pytest.raises(TypeError, match="BFloat16"):
        np.sin(tensor([1.0], dtype=lt.bfloat16))


def test_results_go_where_they_are_asked_to() -> None:
    x, total = tensor([1.0, 2.0]), np.zeros(2)
    alias = total
    total += x
    total *= x
    assert alias is total
    assert total.tolist() == [1, 4]
    y = tensor([0.0, 0.0])
    returned: object = np.sin(total, out=y)
    assert id(returned) == id(y)
    np.testing.assert_allclose(y.numpy(), np.sin([1, 4]), rtol=1e-6)
    np.add.at(y, [0, 0], 1)
    np.testing.assert_allclose(y.numpy(), np.add(np.sin([1, 4]), [2, 0]), rtol=1e-6)


def test_a_result_is_not_tied_to_memory_that_changes() -> None:
    x = tensor([1.0, 1.0])
    found = np.negative(x)
    x.add_(1)
    assert found.tolist() == [-1, -1]
    view = np.reshape(x, (1, 2))  # a view in NumPy, so a view here
    view[0, 0] = 7
    assert x.tolist() == [7, 2]


def test_asarray_shares_where_it_can() -> None:
    x = lt.arange(3.0)
    assert lt.asarray(x) is x
    a = np.arange(3.0)
    shared, copied = lt.asarray(a), lt.asarray(a, copy=True)
    a[0] = 9
    assert (shared[0].item(), copied[0].item()) == (9, 0)
    assert lt.asarray(a, dtype=lt.int64).tolist() == [9, 1, 2]
    assert lt.asarray(arrays.array("f", [1, 2])).tolist() == [1, 2]
    assert lt.asarray(arrays.array("i", [1, 2]), dtype=lt.int32).tolist() == [1, 2]
    assert lt.asarray(np.int8(3)).dtype is lt.int8
    assert lt.asarray([1, 2.5], requires_grad=True).requires_grad
    for given, text in (([1], "arbitrary sequence"), (a, "dtype 'Double' into dtype 'Float'")):
        with pytest.raises(ValueError, match=text):
            lt.asarray(given, dtype=lt.float32, copy=False)
    with pytest.raises(RuntimeError, match="Could not infer dtype of object"):
        lt.asarray(object())


def test_frombuffer() -> None:
    memory = bytearray(np.arange(4, dtype=np.float32).tobytes())
    x = lt.frombuffer(memory, dtype=lt.float32, offset=4, count=2)
    assert x.tolist() == [1, 2]
    x[0] = 8
    assert np.frombuffer(memory, np.float32).tolist() == [0, 8, 2, 3]
    assert lt.frombuffer(memory, dtype=lt.uint8, offset=3).shape == (13,)
    with pytest.warns(UserWarning, match="buffer is not writable"):
        assert lt.frombuffer(bytes(4), dtype=lt.float32).tolist() == [0]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"count": 5}, r"requested buffer length \(5 \* 4 bytes\) after offset \(0 bytes\)"),
        ({"offset": 16}, r"offset \(16 bytes\) must be non-negative and no greater"),
        ({"offset": -1}, r"offset \(-1 bytes\)"),
        ({"offset": 3}, r"buffer length \(13 bytes\) after offset \(3 bytes\) must be a multiple"),
        ({"count": 0}, r"both buffer length \(16\) and count \(0\) must not be 0"),
    ],
)
def test_frombuffer_refuses_what_does_not_fit(arguments: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        lt.frombuffer(bytearray(16), dtype=lt.float32, **arguments)


def test_from_numpy_keeps_strides_and_refuses_by_name() -> None:
    for array in (F32.T, F32[:, :0], F32[:1].T, np.zeros((0, 3)).T, F32[:, ::2]):
        strides = tuple(s // array.itemsize for s in array.strides)
        assert lt.from_numpy(array).stride() == strides
    refused: list[tuple[Any, type[Exception], str]] = [
        (F32[::-1], ValueError, "strides in the given numpy array is negative|stride in"),
        (np.arange(3, dtype=">i4"), ValueError, "byte order"),
        (np.array(["a"]), TypeError, "type numpy.str_"),
        (np.float32(1), TypeError, r"expected np.ndarray \(got numpy.float32\)"),
        ([1], TypeError, r"expected np.ndarray \(got list\)"),
    ]
    for given, error, text in refused:
        with pytest.raises(error, match=text):
            lt.from_numpy(given)


def test_arrays_of_tensors_copy_only_when_they_must() -> None:
    x = tensor([1.0, 2.0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        shared, copied = np.asarray(x), np.array(x)
    shared[0] = 5
    assert (x[0].item(), copied[0]) == (5, 1)
    assert np.shares_memory(shared, np.asarray(x, copy=False))
    assert np.asarray(x, dtype=np.int32).tolist() == [5, 2]
    with pytest.raises(ValueError, match="Unable to avoid copy"):
        np.asarray(x, dtype=np.int32, copy=False)
    assert np.float32(5) in x
    view = x.__buffer__(0)
    assert (view.format, view.tolist()) == ("f", [5, 2])
