"""``interpolate`` by factors after which a size stays, or doubles: PyTorch's special cases.

What is right was seen on PyTorch 2.13: nearest places are those of the factor or of the sizes,
by the kernel that PyTorch takes; two neighbours, filters and bytes go by the sizes.
"""

from __future__ import annotations

from typing import Any

import pytest

import lazyt
import lazyt.nn.functional as F


def by_sizes(x: Any, factors: tuple[float, ...], mode: str, **more: Any) -> bool:
    """Whether the factor decides about the size of the result only."""
    found = F.interpolate(x, scale_factor=factors, mode=mode, **more)
    return lazyt.equal(found, F.interpolate(x, size=found.shape[2:], mode=mode, **more))


def image(*shape: int, dtype: Any = lazyt.float32) -> Any:
    return (lazyt.arange(lazyt.Size(shape).numel()).reshape(shape) % 201).to(dtype)


@pytest.fixture(autouse=True)
def interpreted() -> Any:
    with lazyt.config.override(interpret=True):
        yield


@pytest.mark.parametrize("dtype", [lazyt.float32, lazyt.float16, lazyt.uint8], ids=str)
@pytest.mark.parametrize(
    ("shape", "factor", "decide", "together"),
    [
        ((2, 3, 20), 1.04, False, None),
        ((2, 3, 20, 20), 1.04, True, True),
        ((2, 3, 20, 20), 2.04, True, True),
        ((2, 3, 80, 80), 1.01, False, False),
        ((2, 5, 80, 80), 1.01, False, True),
        ((2, 3, 20, 20, 20), 1.04, False, False),
        ((2, 5, 20, 20, 20), 1.04, False, True),
    ],
)
def test_nearest(dtype: Any, shape: Any, factor: float, decide: bool, together: Any) -> None:
    x = image(*shape, dtype=dtype)
    factors = (factor,) * (len(shape) - 2)
    assert by_sizes(x, factors, "nearest") is decide
    if together is not None:
        order = lazyt.channels_last if len(shape) == 4 else lazyt.channels_last_3d
        assert by_sizes(x.contiguous(memory_format=order), factors, "nearest") is together


@pytest.mark.parametrize(
    ("mode", "shape", "more"),
    [
        ("linear", (1, 2, 9), {}),
        ("bilinear", (1, 2, 9, 9), {}),
        ("trilinear", (1, 2, 4, 4, 4), {}),
        ("bilinear", (1, 2, 9, 9), {"antialias": True}),
        ("bicubic", (1, 2, 9, 9), {"antialias": True}),
    ],
)
def test_smooth_modes_leave_a_size_that_stays_as_it_is(mode: str, shape: Any, more: Any) -> None:
    x = image(*shape)
    assert lazyt.equal(F.interpolate(x, scale_factor=1.05, mode=mode, **more), x)


def test_modes_that_go_by_the_factor() -> None:
    assert not by_sizes(image(1, 1, 40, 40), (1.02, 1.02), "nearest-exact")
    assert not lazyt.equal(
        F.interpolate(image(1, 1, 9, 9), scale_factor=1.05, mode="bicubic"), image(1, 1, 9, 9)
    )
