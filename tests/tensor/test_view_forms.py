"""Tensors that look at memory in new ways, or at other memory; bits as other types."""

from __future__ import annotations

import numpy as np
import pytest

import lazyt as lt


def test_shapes_change_in_place() -> None:
    x = lt.tensor([[0.0, 1, 2], [3, 4, 5]])
    row = x[0]
    assert x.t_() is x and x.stride() == (1, 3) and not x._is_view()
    x[0] = -1
    assert row.tolist() == [-1, 1, 2] and row._base is x
    x.unsqueeze_(0).transpose_(0, 2).squeeze_()
    assert tuple(x.shape) == (2, 3) and x.tolist() == [[-1, 1, 2], [-1, 4, 5]]
    assert row.unsqueeze_(0)._base is x and row.stride() == (3, 1)
    assert x.as_strided_((3,), (1,)).tolist() == [-1, 1, 2]
    assert lt.zeros(2, 3).swapaxes_(0, 1).stride() == lt.zeros(2, 3).swapdims_(0, 1).stride()
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        lt.zeros(2, 3, requires_grad=True).t_()


def test_squeeze_takes_several_dimensions() -> None:
    x = lt.arange(6.0).reshape(2, 1, 3, 1)
    assert x.squeeze(1, -1).shape == x.squeeze((1, 3)).shape == (2, 3)
    assert x.squeeze(0, 1).shape == (2, 3, 1)
    with pytest.raises(RuntimeError, match="dim 1 appears multiple times"):
        x.squeeze(1, -3)
    assert x.squeeze_(1, 3) is x and x.tolist() == [[0, 1, 2], [3, 4, 5]]


def test_resizing() -> None:
    x = lt.arange(6.0)
    part = x[2:]
    assert part.resize_(2, 3).tolist() == [[2, 3, 4], [5, 0, 0]]
    part[1, 1] = 9
    assert x.tolist() == [0, 1, 2, 3, 4, 5] and x.storage().size() == 8
    x[5] = 50
    assert part.tolist() == [[2, 3, 4], [50, 9, 0]]
    assert x.resize_(2).tolist() == [0, 1] and x.storage().size() == 8
    assert lt.zeros(2).resize_as_(lt.zeros(3, 2)).shape == (3, 2)
    with pytest.raises(RuntimeError, match="cannot resize variables that require grad"):
        lt.zeros(2, requires_grad=True).resize_(3)
    with pytest.raises(RuntimeError, match="storage that is not resizable"):
        lt.from_numpy(np.zeros(2)).resize_(3)


def test_other_memory() -> None:
    x, y = lt.zeros(3), lt.arange(6.0).reshape(2, 3)
    x.set_(y.t())
    assert x.stride() == (1, 3) and x.is_set_to(y.t()) and not x.is_set_to(y)
    x[0, 0] = 7
    assert y[0, 0].item() == 7
    x.set_(y.untyped_storage(), 1, (2, 2), (2, 1))
    assert x.tolist() == [[1, 2], [3, 4]]
    assert x.set_(y.storage()).tolist() == [7, 1, 2, 3, 4, 5]
    assert x.set_().shape == (0,) and y.sum().item() == 22
    with pytest.raises(TypeError, match="Could not set tensor of type long int"):
        x.set_(lt.zeros(2, dtype=lt.int64))


def test_bits_as_another_type() -> None:
    """Against NumPy's views of the same memory, through the compiler."""
    rng = np.random.default_rng(5)
    raw = rng.integers(0, 200, 32, dtype=np.uint8)
    types = ["uint8", "int16", "int32", "int64", "float32", "float64", "uint16", "uint64"]
    shown, wanted = [], []
    for source in types:
        tensor = lt.from_numpy(raw.view(source).copy())
        for target in types:
            shown.append(tensor.view(getattr(lt, target)))
            wanted.append(raw.view(target))
    lt.realize(*shown)
    for tensor, array in zip(shown, wanted):
        assert tensor.numpy().tobytes() == array.tobytes()


def test_bits_share_memory() -> None:
    x = lt.zeros(2, 3)
    bits = x.view(lt.int32)
    bits[1, 2] = 1065353216
    bits[0].view(lt.int16)[1] = 16384
    assert x.tolist() == [[2, 0, 0], [0, 0, 1]] and x._version == 2
    x[0, 0] = 1
    assert bits[0, 0].item() == 1065353216
    halves = x.view(lt.int16)
    assert halves.shape == (2, 6) and halves.stride() == (6, 1)
    assert not lt.ones(2, requires_grad=True).view(lt.int32).requires_grad
    array = x.view(lt.uint8).numpy()
    array[0, 3] = 0
    assert x[0, 0].item() < 1e-30


def test_bits_that_do_not_fit() -> None:
    """Messages recorded from PyTorch 2.13."""
    for tensor, message in (
        (lt.zeros(()), "self.dim() cannot be 0 to view Float as Double"),
        (lt.zeros(3), "self.size(-1) must be divisible by 2 to view Float as Double"),
        (lt.zeros(5)[1:], "self.storage_offset() must be divisible by 2"),
        (lt.zeros(3, 3)[:, :2], "self.stride(0) must be divisible by 2"),
        (lt.zeros(4, 2).t(), "self.stride(-1) must be 1 to view Float as Double"),
    ):
        with pytest.raises(RuntimeError) as caught:
            tensor.view(lt.float64)
        assert str(caught.value).startswith(message)


def test_storages_are_objects() -> None:
    x = lt.arange(4.0)
    storage, flat = x.untyped_storage(), x[1:].storage()
    assert storage.nbytes() == len(storage) == 16 and flat.size() == 4
    assert storage == x[1:].untyped_storage() and storage.data_ptr() == x.data_ptr()
    assert x[1:].data_ptr() == storage.data_ptr() + 4
    flat[2] = 9
    storage[3] = 64
    assert x.tolist() == [2, 1, 9, 3] and x._version == 0
    assert flat.tolist() == [2, 1, 9, 3] and list(flat)[1] == 1
    assert lt.is_storage(storage) and not lt.is_storage(x)
    copy = flat.clone().fill_(1)
    assert copy.tolist() == [1, 1, 1, 1] and x[0].item() == 2
    assert flat.copy_(copy) is flat and x.tolist() == [1, 1, 1, 1]
    assert storage.resize_(24).nbytes() == 24 and x.tolist() == [1, 1, 1, 1]
    assert storage.resize_(0).data_ptr() == 0
    assert lt.FloatStorage([1, 2]).to(lt.int64).tolist() == [1, 2]
    assert lt.TypedStorage(2, dtype=lt.int32).nbytes() == lt.UntypedStorage(8).nbytes()
    assert str(lt.IntStorage([5])).endswith(
        "lazyt.storage.TypedStorage(dtype=lazyt.int32, device=cpu) of size 1]"
    )
    with pytest.raises(IndexError, match="index 9 out of range for storage of size 6"):
        x.storage()[9]
    assert not x.is_shared() and x.share_memory_().is_shared()


def test_legacy_types() -> None:
    x = lt.FloatTensor([1, 2])
    assert isinstance(x, lt.FloatTensor) and not isinstance(x, lt.LongTensor)
    assert lt.LongTensor(2, 3).shape == (2, 3) and lt.IntTensor([1.7]).tolist() == [1]
    assert x.type(lt.LongTensor).dtype is lt.int64 and repr(lt.ByteTensor) == (
        "<class 'lazyt.ByteTensor'>"
    )
    with pytest.raises(TypeError):
        lt.FloatTensor(lt.zeros(2, dtype=lt.int64))
    lt.set_default_tensor_type("torch.DoubleTensor")
    try:
        assert lt.zeros(1).dtype is lt.float64
    finally:
        lt.set_default_tensor_type(lt.FloatTensor)


def test_python_functions_of_elements() -> None:
    x = lt.arange(3.0)
    assert x.apply_(lambda v: v * 2 + 1) is x and x.tolist() == [1, 3, 5]
    assert x.map_(lt.ones(3), lambda a, b: a + b).tolist() == [2, 4, 6]
    assert lt.arange(2).map2_(lt.ones(2), lt.ones(2), lambda a, b, c: a + b + c).tolist() == [2, 3]
    with pytest.raises(RuntimeError, match="Can't call apply_"):
        lt.ones(2, requires_grad=True).apply_(lambda v: v)
