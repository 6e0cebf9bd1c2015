"""How many kernels the computations take that lazyt is measured by, and that they are right."""

# mypy: disable-error-code="no-any-return"

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lazyt as lt
import lazyt.nn.functional as F
from lazyt import Tensor
from lazyt.runtime.cpu import compile
from lazyt.runtime.memory import pool

pytestmark = [pytest.mark.usefixtures("module_cache"), pytest.mark.lazy]
Array = np.ndarray[Any, Any]


def count(*values: Tensor) -> int:
    """Kernels that computing ``values`` takes."""
    return len(lt.explain(*values).kernels)


def floats(*shape: int, seed: int = 0) -> Tensor:
    """Computed standard normal numbers."""
    values = np.random.default_rng(seed).standard_normal(shape)
    return lt.tensor(values.astype(np.float32))


def wide(x: Tensor) -> Array:
    """The values in float64."""
    return x.detach().numpy().astype(np.float64)


def softmax(x: Array) -> Array:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def layer_norm(x: Tensor) -> Tensor:
    mean = x.mean(-1, keepdim=True)
    variance = ((x - mean) ** 2).mean(-1, keepdim=True)
    return (x - mean) / (variance + 1e-5).sqrt()


def layer_norm_array(x: Array) -> Array:
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)


def rms_norm(x: Tensor) -> Tensor:
    return x * ((x * x).mean(-1, keepdim=True) + 1e-6).rsqrt()


def chain(x: Tensor) -> Tensor:
    """Eight operations, some with broadcasting."""
    row, column = floats(x.shape[1], seed=1), floats(x.shape[0], 1, seed=2)
    return (((x * 2 + row).tanh() * column - 1).abs() + row).sqrt().clamp(max=2.5) / 3


def chain_array(x: Array) -> Array:
    row = wide(floats(x.shape[1], seed=1))
    column = wide(floats(x.shape[0], 1, seed=2))
    with np.errstate(invalid="ignore"):
        return np.minimum(np.sqrt(np.abs(np.tanh(x * 2 + row) * column - 1) + row), 2.5) / 3


Case = tuple[Callable[[Tensor], Tensor], Callable[[Array], Array]]
ONE: dict[str, Case] = {
    "softmax": (lambda x: F.softmax(x, -1), softmax),
    "softmax from primitives": (
        lambda x: (e := (x - x.amax(-1, keepdim=True)).exp()) / e.sum(-1, keepdim=True),
        softmax,
    ),
    "log_softmax": (lambda x: F.log_softmax(x, -1), lambda x: np.log(softmax(x))),
    "logsumexp": (
        lambda x: x.logsumexp(-1),
        lambda x: np.log(np.exp(x - x.max(-1, keepdims=True)).sum(-1)) + x.max(-1),
    ),
    "layer norm": (lambda x: F.layer_norm(x, (x.shape[-1],)), layer_norm_array),
    "layer norm from primitives": (layer_norm, layer_norm_array),
    "rms norm": (rms_norm, lambda x: x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6)),
    "chain": (chain, chain_array),
    "sum of squares": (lambda x: (x * x).sum(), lambda x: (x * x).sum()),
    "largest magnitude": (lambda x: x.abs().max(), lambda x: np.abs(x).max()),
    "mean and variance": (
        lambda x: x.var(0, unbiased=False) + x.mean(0),
        lambda x: x.var(0) + x.mean(0),
    ),
}


@pytest.mark.parametrize("name", ONE)
def test_one_kernel(name: str) -> None:
    function, reference = ONE[name]
    assert count(function(floats(7, 3))) == 1
    assert count(function(floats(4, 20_000))) == 1
    x = floats(64, 100)
    assert count(function(x)) == 1
    want = reference(wide(x))
    got = wide(function(x))
    scale = max(1.0, float(np.nanmax(np.abs(want))))
    np.testing.assert_allclose(got, want, rtol=2e-5, atol=4e-6 * scale)


def test_pairwise_distances_need_no_cube() -> None:
    points = floats(700, 3)

    def distances() -> Tensor:
        return ((points[:, None, :] - points[None, :, :]) ** 2).sum(-1).sqrt()

    transposed, squares = distances().explain().kernels
    assert transposed.bytes_written == points.nbytes and squares.bytes_written == 4 * 700 * 700
    want = np.sqrt(((wide(points)[:, None] - wide(points)[None]) ** 2).sum(-1))
    distances().realize()  # compiled: only the run is measured
    before = pool.stats().in_use
    pool.reset_peak()
    got = distances().realize()
    assert pool.stats().peak - before <= got.nbytes + (1 << 20), "the 700 x 700 x 3 array exists"
    np.testing.assert_allclose(wide(got), want, rtol=1e-5, atol=1e-6)


def nll(x: Tensor, y: Tensor, pick: str) -> Tensor:
    """Cross entropy written out by a user, picking the right classes in one of three ways."""
    logs = x - x.amax(-1, keepdim=True)
    logs = logs - logs.exp().sum(-1, keepdim=True).log()
    if pick == "gather":
        return -logs.gather(1, y[:, None]).mean()
    if pick == "one hot":
        return -(logs * (lt.arange(x.shape[1]) == y[:, None])).sum(-1).mean()
    return -logs[lt.arange(len(y)), y].mean()


def cross_entropy_array(x: Array, y: Array) -> Array:
    return -np.log(softmax(x))[np.arange(len(y)), y].mean()


def test_cross_entropy_is_one_kernel() -> None:
    x, y = floats(64, 100), lt.tensor(np.arange(64) * 7 % 100)
    assert count(F.cross_entropy(x, y)) == 1
    want = cross_entropy_array(wide(x), y.numpy())
    assert F.cross_entropy(x, y).item() == pytest.approx(want, rel=1e-5)


@pytest.mark.parametrize("pick", ["gather", "one hot", "index"])
def test_cross_entropy_from_primitives_is_one_kernel(pick: str) -> None:
    x, y = floats(64, 100), lt.tensor(np.arange(64) * 7 % 100)
    want = cross_entropy_array(wide(x), y.numpy())
    assert nll(x, y, pick).item() == pytest.approx(want, rel=1e-5)
    assert count(nll(x, y, pick)) == 1


def test_cross_entropy_and_its_gradient_are_one_kernel() -> None:
    x, y = floats(64, 100).requires_grad_(), lt.tensor(np.arange(64) * 7 % 100)
    loss = F.cross_entropy(x, y)
    loss.backward()
    assert x.grad is not None
    assert count(loss.detach(), x.grad) == 1
    want = softmax(wide(x))
    want[np.arange(64), y.numpy()] -= 1
    np.testing.assert_allclose(wide(x.grad), want / 64, rtol=1e-4, atol=1e-7)


SIZES = (64, 48, 32, 10)
Parameters = list[tuple[Tensor, Tensor]]


def parameters() -> Parameters:
    made = []
    for number, (inputs, outputs) in enumerate(itertools.pairwise(SIZES)):
        weight = floats(outputs, inputs, seed=number) * 0.1
        bias = floats(outputs, seed=10 + number) * 0.1
        lt.realize(weight, bias)
        made.append((weight.requires_grad_(), bias.requires_grad_()))
    return made


def training_step(layers: Parameters, x: Tensor, y: Tensor) -> Tensor:
    """Forward, backward and a step of SGD; the loss."""
    h = x
    for weight, bias in layers[:-1]:
        h = F.relu(F.linear(h, weight, bias))
    loss = F.cross_entropy(F.linear(h, *layers[-1]), y)
    loss.backward()
    with lt.no_grad():
        for pair in layers:
            for parameter in pair:
                assert parameter.grad is not None
                parameter -= 0.1 * parameter.grad
                parameter.grad = None
    return loss.detach()


def training_step_array(
    layers: list[tuple[Array, Array]], x: Array, y: Array
) -> tuple[Array, list[tuple[Array, Array]]]:
    """The same by hand, in float64."""
    inputs = [x]
    for weight, bias in layers:
        h = inputs[-1] @ weight.T + bias
        inputs.append(np.maximum(h, 0) if len(inputs) < len(layers) else h)
    loss = cross_entropy_array(inputs[-1], y)
    grad = softmax(inputs[-1])
    grad[np.arange(len(y)), y] -= 1
    grad /= len(y)
    changed = []
    for (weight, bias), before in zip(reversed(layers), reversed(inputs[:-1]), strict=True):
        changed.append((weight - 0.1 * grad.T @ before, bias - 0.1 * grad.sum(0)))
        grad = (grad @ weight) * (before > 0)
    return loss, changed[::-1]


def test_a_training_step_takes_twelve_kernels_at_most() -> None:
    x, y = floats(40, SIZES[0], seed=3), lt.tensor(np.arange(40) % 10)
    layers = parameters()
    before = [(wide(w), wide(b)) for w, b in layers]
    loss = training_step(layers, x, y)
    explanation = lt.explain(loss, *[p for pair in layers for p in pair])
    assert len(explanation.kernels) <= 12, str(explanation)
    want, after = training_step_array(before, wide(x), y.numpy())
    assert loss.item() == pytest.approx(float(want), rel=1e-5)
    for pair, wanted in zip(layers, after, strict=True):
        for got, value in zip(pair, wanted, strict=True):
            np.testing.assert_allclose(wide(got), value, rtol=1e-4, atol=1e-6)


def test_training_steps_share_a_plan() -> None:
    x, y = floats(40, SIZES[0], seed=3), lt.tensor(np.arange(40) % 10)
    layers = parameters()
    losses = []
    for step in range(4):
        if step == 2:  # the first step's parameters are other leaves than a step's results
            started = compile.started
        loss = training_step(layers, x, y)
        lt.realize(loss, *[p for pair in layers for p in pair])
        losses.append(loss.item())
    assert losses == sorted(losses, reverse=True) and losses[0] > losses[-1]
    assert compile.started == started, "\n".join(map(str, lt.why_compiled()))


def test_a_part_never_reads_what_a_later_part_computes() -> None:
    x = floats(64, 100)
    square = x * x
    got = wide(x + square.sum(1).sum(0) + square.sum(1, keepdim=True).amax(0))
    rows = (wide(x) ** 2).sum(1)
    np.testing.assert_allclose(got, wide(x) + rows.sum() + rows.max(), rtol=1e-5)
