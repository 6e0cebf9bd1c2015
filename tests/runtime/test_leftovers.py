"""Kernels compute with nothing that was left over in their scratch memory.

What is multiplied there and stored nowhere changes no result, but it may hold subnormal numbers,
for which processors take many times as long. Here it holds signaling numbers: to compute with one
of them raises the processor's flag of invalid operations.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import platform
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pytest

import lazyt as lt
from lazyt.config import config
from lazyt.nn import functional as F
from lazyt.runtime.cpu import execute
from lazyt.runtime.memory import Buffer

#: The flag of invalid operations, by machine.
FLAGS = {"x86_64": 0x01, "AMD64": 0x01, "aarch64": 0x01, "arm64": 0x01}
SIGNALING = 0x7FA00000

Make = Callable[[], lt.Tensor]


def rand(*shape: int) -> lt.Tensor:
    return lt.randn(*shape).realize()


def weight_gradient(
    shape: Sequence[int], filters: Sequence[int], stride: int = 1, groups: int = 1
) -> lt.Tensor:
    x, w = rand(*shape), rand(*filters).requires_grad_()
    F.conv2d(x, w, None, stride, 1, groups=groups).square().sum().backward()
    assert w.grad is not None
    return w.grad


def attention(shape: Sequence[int], causal: bool) -> lt.Tensor:
    q, k, v = rand(*shape), rand(*shape), rand(*shape)
    return F.scaled_dot_product_attention(q, k, v, is_causal=causal)


CASES: dict[str, Make] = {
    "pictures": lambda: F.conv2d(rand(1, 16, 28, 28), rand(32, 16, 3, 3)),
    "padding": lambda: F.conv2d(rand(1, 16, 28, 28), rand(32, 16, 3, 3), None, 1, 1),
    "strides": lambda: F.conv2d(rand(2, 16, 28, 28), rand(32, 16, 3, 3), None, 2, 1),
    "points": lambda: F.conv2d(rand(1, 16, 28, 28), rand(32, 16, 1, 1)),
    "uneven": lambda: F.conv2d(rand(1, 16, 28, 28), rand(32, 16, 3, 5)),
    "dilation": lambda: F.conv2d(rand(1, 7, 29, 31), rand(13, 7, 3, 3), None, 1, 2, 2),
    "short rows": lambda: F.conv2d(rand(8, 64, 7, 7), rand(64, 64, 3, 3), None, 1, 1),
    "sequences": lambda: F.conv1d(rand(2, 9, 301), rand(12, 9, 5)),
    "volumes": lambda: F.conv3d(rand(1, 4, 9, 10, 11), rand(6, 4, 3, 3, 3)),
    "transposed": lambda: F.conv_transpose2d(rand(2, 6, 13, 13), rand(6, 8, 3, 3), None, 2),
    "gradients": lambda: weight_gradient((2, 16, 15, 15), (24, 16, 3, 3)),
    "strided gradients": lambda: weight_gradient((2, 16, 15, 15), (24, 16, 3, 3), 2),
    "depthwise gradients": lambda: weight_gradient((3, 45, 15, 13), (45, 1, 3, 3), 1, 45),
    "strided depthwise": lambda: weight_gradient((2, 36, 29, 28), (36, 1, 5, 5), 2, 36),
    "product": lambda: rand(61, 43) @ rand(43, 1025),
    "deep product": lambda: rand(50, 3001) @ rand(3001, 41),
    "batched product": lambda: rand(5, 33, 29) @ rand(5, 29, 17),
    "matrix and vector": lambda: rand(203, 28) @ rand(28),
    "attention": lambda: attention((2, 3, 37, 24), False),
    "causal attention": lambda: attention((1, 2, 131, 64), True),
    "softmax": lambda: rand(33, 1001).softmax(-1),
    "norm": lambda: F.layer_norm(rand(37, 129), (129,)),
    "columns": lambda: rand(517, 67).var(0),
    "scan": lambda: rand(13, 1001).cumsum(1),
}


@pytest.fixture(autouse=True)
def _left_over(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Scratch memory is full of signaling numbers before each run, and one thread runs."""

    def signaling(nbytes: int) -> Buffer:
        made = Buffer(nbytes)
        pattern = np.full(-(-nbytes // 4), SIGNALING, np.uint32).tobytes()[:nbytes]
        ctypes.memmove(made.ptr, pattern, nbytes)
        return made

    monkeypatch.setattr(execute, "Buffer", signaling)
    with config.override(threads=1):
        yield


@pytest.mark.skipif(platform.machine() not in FLAGS, reason="the flags of this machine")
@pytest.mark.parametrize("name", CASES)
def test_nothing_left_over_is_computed_with(name: str) -> None:
    flags = ctypes.CDLL(ctypes.util.find_library("m"))
    result = CASES[name]()
    mask = FLAGS[platform.machine()]
    flags.feclearexcept(mask)
    result.realize()
    assert flags.fetestexcept(mask) == 0
    assert bool(result.isfinite().all())
