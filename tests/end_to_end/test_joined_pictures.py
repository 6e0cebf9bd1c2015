"""Convolutions of concatenations: values and gradients against sums in float64."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest

import lazyt as lt
from lazyt import Tensor
from lazyt.nn import functional as F

pytestmark = [pytest.mark.usefixtures("module_cache"), pytest.mark.lazy]


def summed(x: Any, w: Any, padding: int, stride: int) -> Any:
    """A convolution in float64, tap by tap."""
    x = np.pad(x.astype(np.float64), [(0, 0), (0, 0), (padding, padding), (padding, padding)])
    rows, cols = ((n - k) // stride + 1 for n, k in zip(x.shape[2:], w.shape[2:]))
    y = np.zeros((x.shape[0], w.shape[0], rows, cols))
    for u, v in product(*map(range, w.shape[2:])):
        seen = x[:, :, u : u + stride * rows : stride, v : v + stride * cols : stride]
        y += np.einsum("nchw,oc->nohw", seen[:, :, :rows, :cols], w[:, :, u, v])
    return y


def numbers(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize(
    ("shapes", "axis", "kernel", "padding", "stride"),
    [
        ([(1, 8, 20, 40), (1, 8, 20, 40)], 1, 3, 1, 1),
        ([(2, 7, 20, 41), (2, 4, 20, 41), (2, 9, 20, 41)], 1, 3, 1, 1),
        ([(1, 1, 20, 64), (1, 12, 20, 64)], 1, 5, 0, 1),
        ([(2, 6, 21, 40), (2, 5, 21, 40)], 1, 3, 2, 2),
        ([(3, 6, 20, 40), (1, 6, 20, 40)], 0, 3, 1, 1),
        ([(1, 12, 9, 40), (1, 12, 14, 40)], 2, 3, 1, 1),
        ([(1, 12, 20, 9), (1, 12, 20, 30), (1, 12, 20, 4)], 3, 3, 1, 1),
        ([(1, 12, 20, 19), (1, 12, 20, 30)], 3, 3, 3, 2),
        ([(1, 2, 24, 40)] * 9, 1, 3, 1, 1),
    ],
)
def test_values_and_gradients(
    shapes: Sequence[tuple[int, ...]], axis: int, kernel: int, padding: int, stride: int
) -> None:
    parts = [numbers(*shape[:-1], shape[-1] + n)[..., n:] for n, shape in enumerate(shapes)]
    whole = np.concatenate(parts, axis)
    weight = numbers(16, whole.shape[1], kernel, kernel)
    leaves = [lt.tensor(p).requires_grad_() for p in (*parts, weight)]
    with lt.config.override(verify=True):
        y = F.conv2d(lt.cat(leaves[:-1], axis), leaves[-1], padding=padding, stride=stride)
        slopes: Any = lt.autograd.grad(y.square().sum() / 2, leaves)
        lt.realize(y, *slopes)
    true = summed(whole, weight, padding, stride)
    assert np.abs(y.detach().numpy() - true).max() <= 2e-5 * np.abs(true).max()
    # Along its own direction a gradient is twice the value of a square.
    for leaf, slope in zip(leaves, slopes, strict=True):
        wanted = numbers(*leaf.shape)
        moved = [wanted if item is leaf else item.detach().numpy() * 0 for item in leaves]
        if leaf is leaves[-1]:
            step = summed(whole, wanted, padding, stride)
        else:
            step = summed(np.concatenate(moved[:-1], axis), weight, padding, stride)
        found = (slope.detach().numpy().astype(np.float64) * wanted).sum()
        assert found == pytest.approx((true * step).sum(), rel=1e-3, abs=1e-5 * (true**2).sum())


@pytest.mark.parametrize(
    "function",
    [
        lambda a, b: lt.relu(lt.cat((a, b), 1)),
        lambda a, b: lt.cat((a, b), 1) * 2 + lt.cat((b, a), 1),
        lambda a, b: lt.cat((F.pad(a, (1, 0, 0, 1)), F.pad(b, (0, 1, 1, 0))), 1),
        lambda a, b: lt.cat((lt.cat((a, b), 2), lt.cat((b, a), 2)), 1),
        lambda a, b: lt.roll(lt.cat((a, b), 1), (3, 5), (1, 3)),
        lambda a, b: F.pad(lt.cat((a, b), 1), (2, 1, 1, 2), mode="circular"),
        lambda a, b: lt.cat((a.flip(3), b.flip(2)), 1),
    ],
)
def test_what_is_joined_may_be_anything(function: Callable[[Tensor, Tensor], Tensor]) -> None:
    a, b = lt.tensor(numbers(1, 8, 20, 40)), lt.tensor(numbers(1, 8, 20, 40) * 2)
    weight = numbers(16, 16, 3, 3)
    true = summed(function(a, b).numpy(), weight, 1, 1)
    with lt.config.override(verify=True):
        y = F.conv2d(function(a, b), lt.tensor(weight), padding=1).numpy()
    assert np.abs(y - true).max() <= 2e-5 * np.abs(true).max()


def test_joined_pictures_are_added_to_results() -> None:
    a, b, x = numbers(2, 5, 20, 41), numbers(2, 11, 20, 41), numbers(2, 16, 20, 41)
    weight = numbers(16, 16, 3, 3)
    with lt.config.override(verify=True):
        y = F.conv2d(lt.tensor(x), lt.tensor(weight), padding=1)
        y = y + lt.cat((lt.tensor(a), lt.tensor(b)), 1) * lt.cat((lt.tensor(b), lt.tensor(a)), 1)
        found = y.numpy()
    true = summed(x, weight, 1, 1) + np.concatenate((a, b), 1) * np.concatenate((b, a), 1)
    assert np.abs(found - true).max() <= 2e-5 * np.abs(true).max()


def test_enlarged_pictures_are_joined() -> None:
    a, b, weight = numbers(1, 5, 12, 20), numbers(1, 8, 24, 40), numbers(16, 13, 3, 3)
    joined = lt.cat((F.interpolate(lt.tensor(a), scale_factor=2), lt.tensor(b)), 1)
    true = summed(np.concatenate((a.repeat(2, 2).repeat(2, 3), b), 1), weight, 1, 1)
    y = F.conv2d(joined, lt.tensor(weight), padding=1).numpy()
    assert np.abs(y - true).max() <= 2e-5 * np.abs(true).max()


def test_no_window_of_a_transposed_convolution_is_stored() -> None:
    x, skip, up, weight = (
        lt.tensor(numbers(*shape))
        for shape in ((1, 16, 16, 32), (1, 8, 32, 64), (16, 8, 2, 2), (16, 16, 3, 3))
    )
    joined = lt.cat((F.conv_transpose2d(x, up, stride=2), skip), 1)
    made = str(lt.explain(F.conv2d(joined, weight, padding=1)))
    assert "slides along the sums" not in made
    assert "float32[1, 16, 32, 64, 3, 3]" not in made and "concat float32[1, 16, 32, 64]" in made
