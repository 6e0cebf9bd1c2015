"""Long functions behind each other are loops of their own; nothing else changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lazyt as lt
from lazyt import Tensor, ops
from lazyt.codegen.c.target import print_kernel_c
from lazyt.compiler import compile_graph
from lazyt.config import config
from lazyt.handle.dispatch import wrap
from lazyt.ir.dtypes import DType, float32
from lazyt.nn import functional as F

VECTOR_BYTES, CACHES = 32, (32 << 10, 1 << 20, 8 << 20)

SERIES: list[Callable[[Tensor], Any]] = [
    lambda x: x.exp().log1p(),
    lambda x: lt.where(x > 0.5, x, (x * 2).exp().log1p() / 2),
    lambda x: F.gelu(lt.tanh(x * lt.sigmoid(x))),
    lambda x: (lt.log(x.exp() + 1), x.exp()),
    lambda x: lt.log(lt.sigmoid(x) + 1e-6) * x + (1 - x) * lt.log(1 - lt.sigmoid(x) + 1e-6),
    lambda x: F.pad(x.exp(), (1, 2)).log1p(),
    lambda x: x[(x.exp() * 3).long() % 7].exp().log1p(),
    lambda x: lt.where(x.exp().log1p() > 1, x.tanh(), x.sin().exp()),
    lambda x: lt.exp(-lt.exp(-x.double())),
    lambda x: x.exp().log1p().sum(-1),
    lambda x: x.exp().log1p().sum(0),
    lambda x: (lt.sigmoid(x).log() * x, (lt.tanh(x).exp() + x.sin()).sum(-1, keepdim=True) + x),
    lambda x: x.exp().log1p().argmax(-1),
    lambda x: (x.exp() - x.exp().log1p().mean(-1, keepdim=True)).var(-1),
    lambda x: (x.half().exp() + 1).log().sum(-1),
]


def loops(function: Callable[[Tensor], Any], dtype: DType = float32) -> int:
    """How many loops over points the kernel of a function of 100,000 numbers has."""
    x = ops.input_((100_000,), dtype)
    kernels = compile_graph([function(wrap(x)).node], [x])[1]
    (text,) = [print_kernel_c(k, VECTOR_BYTES, CACHES).source.text for k in kernels]
    return text.count("for (lz_i64 u")


def test_each_function_in_series_has_a_loop() -> None:
    assert loops(lambda x: x.exp().log1p()) == 2
    assert loops(lambda x: F.gelu(lt.tanh(x * lt.sigmoid(x)))) == 3
    assert loops(F.softplus) == 2


def test_folds_have_a_loop_over_lanes_for_each() -> None:
    x = ops.input_((100, 1000), float32)
    for function, split in (
        (lambda x: F.softplus(x).sum(-1), True),
        (lambda x: x.exp().sum(-1), False),
    ):
        (kernel,) = compile_graph([function(wrap(x)).node], [x])[1]
        text = print_kernel_c(kernel, VECTOR_BYTES, CACHES).source.text
        assert ("z0[l] = lz_exp_f32(" in text) is split


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x * lt.sigmoid(x) + lt.tanh(x),  # beside each other
        lambda x: lt.sqrt(x.exp() + 1) / 3,  # short ones
        lambda x: lt.lgamma(x.exp()),  # gcc does not see into this one
    ],
)
def test_others_share_one(function: Callable[[Tensor], Tensor]) -> None:
    assert loops(function) == 1


@pytest.mark.lazy
@pytest.mark.parametrize("function", SERIES)
@pytest.mark.parametrize("size", [(7, 1), (7, 511), (9, 513), (41, 1031)])
@pytest.mark.parametrize("any_size", [False, True])
def test_the_bits_are_those_of_one_operation_at_a_time(
    function: Callable[[Tensor], Any], size: tuple[int, int], any_size: bool
) -> None:
    values = np.random.default_rng(0).uniform(-3, 3, size)
    values[0, 0] = -np.inf
    if size[1] > 1:
        values[1, :3] = np.nan, np.inf, 100
    x = lt.tensor(values, dtype=lt.float32).realize()
    results = []
    for eager in (True, False):
        with config.override(eager=eager, any_size=any_size):
            made = function(x)
            pair = made if isinstance(made, tuple) else (made,)
            lt.realize(*pair)
            results.append([t.numpy().tobytes() for t in pair])
    assert results[0] == results[1]


@pytest.mark.parametrize("dtype", [lt.float16, lt.bfloat16, lt.float64])
def test_other_types(dtype: DType) -> None:
    values = np.random.default_rng(1).uniform(-9, 9, 5000)
    x = lt.tensor(values, dtype=dtype)
    exact = np.log1p(np.exp(x.double().numpy()))
    got = F.softplus(x).double().numpy()
    step = {lt.float16: 2**-11, lt.bfloat16: 2**-8, lt.float64: 2**-50}[dtype]
    np.testing.assert_allclose(got, exact, rtol=2 * step)


def test_gradients_through_a_series() -> None:
    values = np.random.default_rng(2).uniform(-4, 4, 3000)
    x = lt.tensor(values).requires_grad_()
    lt.log(1 + lt.exp(x)).sum().backward()
    assert x.grad is not None
    np.testing.assert_allclose(x.grad.numpy(), 1 / (1 + np.exp(-values)), rtol=1e-12)
