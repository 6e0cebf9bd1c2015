"""Fake tensors: shapes, dtypes and devices without values."""

from __future__ import annotations

import copy
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import lazyt
import lazyt.nn.functional as F
from lazyt import fx, nn
from lazyt.subclasses.fake_tensors import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
    FakeTensorProp,
    detect_fake_mode,
    is_fake,
    unset_fake_temporarily,
)
from tests.children import python_path


def test_fake_tensors_outlive_the_mode_in_which_the_first_were_made() -> None:
    program = (
        "import lazyt\n"
        "from lazyt.subclasses.fake_tensors import FakeTensor, FakeTensorMode\n"
        "with FakeTensorMode():\n"
        "    x = lazyt.empty(2, device='cuda:1')\n"
        "assert type(x * 2) is FakeTensor and (x * 2).is_cuda\n"
    )
    path = {"PYTHONPATH": python_path(Path(lazyt.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, **path}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_factories_in_the_mode_make_fake_tensors() -> None:
    with FakeTensorMode() as mode:
        x = lazyt.ones(2, 3)
        far = lazyt.empty(2, 3, device="cuda:1", dtype=lazyt.float16)
        with unset_fake_temporarily():
            real = lazyt.ones(1)
    assert type(x) is FakeTensor and x.fake_mode is mode and str(x.device) == "cpu"
    assert str(far.device) == "cuda:1" and (far * 2).is_cuda and far.get_device() == 1
    assert repr(
        far.sum(0)
    ) == "FakeTensor(..., device='cuda:1', size=(3,), dtype=torch.float16)" or (
        "device='cuda:1', size=(3,)" in repr(far.sum(0))
    )
    assert not is_fake(real) and real.tolist() == [1.0]


def test_from_tensor_has_strides_dtype_and_gradient() -> None:
    mode = FakeTensorMode()
    x = lazyt.arange(6.0).reshape(2, 3).T
    fake = mode.from_tensor(x)
    assert mode.from_tensor(x) is fake and fake.stride() == (1, 3) and not fake.is_contiguous()
    leaf = mode.from_tensor(lazyt.ones(3, dtype=lazyt.float64).requires_grad_())
    assert leaf.requires_grad and leaf.is_leaf and leaf.dtype is lazyt.float64
    assert (leaf * 2).grad_fn is not None


def test_modules_and_gradients() -> None:
    with FakeTensorMode():
        model = nn.Sequential(
            nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.Flatten(), nn.Linear(288, 5)
        )
        out = model(lazyt.randn(2, 3, 8, 8))
        F.cross_entropy(out, lazyt.randint(0, 5, (2,))).backward()
        copied = copy.deepcopy(model)
    assert out.shape == (2, 5)
    weight: Any = model[0].weight
    assert isinstance(weight, FakeTensor) and isinstance(weight, nn.Parameter)
    assert is_fake(weight.grad) and weight.grad.shape == (8, 3, 3, 3)
    assert is_fake(copied[0].weight) and copied[0].weight is not weight


def test_what_needs_values_raises() -> None:
    mode = FakeTensorMode()
    fake = mode.from_tensor(lazyt.ones(3))
    for look in (bool, float, lambda x: x.item()):
        with pytest.raises(DataDependentOutputException, match="_local_scalar_dense"):
            look(fake.sum())
    for sized in (lazyt.nonzero, lambda x: x[x > 0], lambda x: x.masked_select(x > 0)):
        with pytest.raises(DynamicOutputShapeException):
            sized(fake)
    with pytest.raises(RuntimeError, match="not supported for tensor subclasses"):
        fake.numpy()
    with mode:
        assert lazyt.tensor(2.5).item() == 2.5


def test_tensors_with_values_are_refused_unless_allowed() -> None:
    fake = FakeTensorMode().from_tensor(lazyt.ones(3))
    with pytest.raises(AssertionError, match="allow_non_fake_inputs"):
        _ = fake + lazyt.ones(3)
    with FakeTensorMode(allow_non_fake_inputs=True):
        assert is_fake(lazyt.ones(3) + lazyt.ones(3))
    with pytest.raises(AssertionError, match="Mixing fake modes"):
        _ = fake + FakeTensorMode().from_tensor(lazyt.ones(3))


def test_devices_propagate() -> None:
    fake = FakeTensorMode().from_tensor(lazyt.ones(3))
    there = fake.to("cuda")
    assert (
        str(there.device) == "cuda:0" and there.cpu().is_cpu and str(fake.cuda().device) == "cuda:0"
    )
    assert (there + fake.sum()).is_cuda
    with pytest.raises(RuntimeError, match="found two different devices cpu, cuda:0"):
        _ = fake + there


def test_detection_and_propagation_through_graphs() -> None:
    mode = FakeTensorMode()
    assert detect_fake_mode([mode.from_tensor(lazyt.ones(1))]) is mode
    assert detect_fake_mode([lazyt.ones(1)]) is None
    with mode:
        assert detect_fake_mode() is mode
    traced = fx.symbolic_trace(nn.Sequential(nn.Linear(4, 3), nn.ReLU()))
    FakeTensorProp(traced).propagate(lazyt.ones(2, 4))
    found = {node.name: node.meta["val"] for node in traced.graph.nodes}
    assert is_fake(found["_1"]) and found["_1"].shape == (2, 3)


def test_shapes_that_do_not_fit_are_refused() -> None:
    with FakeTensorMode(), pytest.raises(RuntimeError):
        _ = lazyt.ones(2, 3) @ lazyt.ones(4, 5)
