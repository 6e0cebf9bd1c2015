"""The meta device: shapes and dtypes follow from those of operands, and nothing is computed."""

from __future__ import annotations

import copy
from typing import Any

import pytest

import lazyt
from lazyt import nn
from lazyt.errors import DeviceError, LazytError, NoValuesError
from lazyt.nn import functional

META = lazyt.device("meta")
F32 = "float32"


def _empty(*size: int, **options: Any) -> lazyt.Tensor:
    return lazyt.empty(*size, device="meta", **options)


@pytest.mark.parametrize(
    ("make", "shape", "dtype"),
    [
        (lambda: _empty(2, 1) + _empty(3), (2, 3), F32),
        (lambda: _empty(2, dtype=lazyt.int64) + 0.5, (2,), F32),
        (lambda: _empty(2, 3) @ _empty(3, 5), (2, 5), F32),
        (lambda: _empty(2, 3).sum(0), (3,), F32),
        (lambda: _empty(2, 3) > 0, (2, 3), "bool"),
        (lambda: _empty(4, 3)[1:, None], (3, 1, 3), F32),
        (lambda: _empty(4, 3)[_empty(2, dtype=lazyt.int64)], (2, 3), F32),
        (lambda: _empty(4, 3).gather(0, _empty(2, 3, dtype=lazyt.int64)), (2, 3), F32),
        (lambda: lazyt.cat([_empty(2, 3), _empty(1, 3)]), (3, 3), F32),
        (lambda: _empty(5, 2).sort(0).indices, (5, 2), "int64"),
        (lambda: lazyt.linalg.inv(_empty(3, 3)), (3, 3), F32),
        (
            lambda: functional.conv2d(_empty(1, 3, 8, 8), _empty(4, 3, 3, 3)),
            (1, 4, 6, 6),
            "float32",
        ),
        (
            lambda: functional.cross_entropy(_empty(4, 9), _empty(4, dtype=lazyt.int64)),
            (),
            "float32",
        ),
        (lambda: nn.LSTM(3, 4, device="meta")(_empty(5, 2, 3))[0], (5, 2, 4), F32),
        (lambda: lazyt.ones(2, 3).to("meta", lazyt.float64).t(), (3, 2), "float64"),
        (lambda: _empty(3).normal_().add_(1).zero_(), (3,), F32),
        (lambda: lazyt.zeros_like(_empty(3)), (3,), F32),
        (lambda: _empty(3).copy_(lazyt.ones(3)), (3,), F32),
    ],
)
def test_shapes_and_dtypes_are_inferred(make: Any, shape: tuple[int, ...], dtype: str) -> None:
    found = make()
    assert found.device == META
    assert found.is_meta
    assert (tuple(found.shape), found.dtype.name) == (shape, dtype)


def test_there_are_no_values() -> None:
    x = _empty(1)
    for look in (x.tolist, x.cpu, lambda: lazyt.ones(1).copy_(x), lambda: x.nonzero()):
        with pytest.raises(NoValuesError, match="Cannot copy out of meta tensor; no data!"):
            look()
    for number in (x.item, lambda: bool(x), lambda: float(x)):
        with pytest.raises(LazytError, match="cannot be called on meta tensors"):
            number()
    with pytest.raises(TypeError, match="can't convert meta device type tensor to numpy"):
        x.numpy()
    with pytest.raises(DeviceError, match="at least two devices"):
        _empty(2) + lazyt.ones(2)
    assert x.data_ptr() == 0
    assert repr(_empty(2, 3)) == "tensor(..., device='meta', size=(2, 3))"
    assert x.realize() is x


def test_modules_are_made_there_and_filled_later() -> None:
    lazyt.manual_seed(0)
    with lazyt.device("meta"):
        model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Embedding(3, 2))
    following = lazyt.rand(1).item()
    lazyt.manual_seed(0)
    assert following == lazyt.rand(1).item()  # no random numbers were used up
    assert all(tensor.is_meta for tensor in (*model.parameters(), *model.buffers()))
    assert copy.deepcopy(model)[0].weight.is_meta
    with pytest.raises(NoValuesError, match=r"Please use torch\.nn\.Module\.to_empty"):
        model.to("cpu")
    assert model.to_empty(device="cpu")[0].weight.device == lazyt.device("cpu")
    assert nn.Linear(3, 4).to("meta").weight.is_meta
    layer = nn.Linear(3, 4, device="meta")
    layer.load_state_dict({"weight": lazyt.ones(4, 3), "bias": lazyt.zeros(4)}, assign=True)
    assert layer(lazyt.ones(1, 3)).tolist() == [[3.0, 3.0, 3.0, 3.0]]


def test_a_step_of_training_computes_nothing() -> None:
    layer = nn.Linear(3, 4, device="meta")
    optimizer = lazyt.optim.Adam(layer.parameters())
    layer(_empty(2, 3)).sum().backward()
    assert layer.weight.grad is not None
    assert (tuple(layer.weight.grad.shape), layer.weight.grad.device) == ((4, 3), META)
    optimizer.step()
    assert layer.weight.is_meta


def test_captured_functions_leave_it_alone() -> None:
    function = lazyt.jit(lambda x: (x * 2).sum(0))
    for _ in range(3):
        assert function(_empty(3, 4)).is_meta
    assert function(lazyt.ones(3, 4)).tolist() == [6.0] * 4
