"""The operators of torchvision's compiled library, beside loops that spell out their meaning."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lazyt as lt
from lazyt.autograd import gradcheck
from lazyt.compat.served import packages
from lazyt.errors import LazytError
from lazyt.library import vision

RNG = np.random.RandomState(0)
IMAGES = RNG.standard_normal((2, 8, 7, 9))
#: Image, x1, y1, x2, y2: inside, over an edge, outside, empty.
ROIS = np.array(
    [[0, 1.3, 0.7, 6.2, 5.1], [1, -2.0, -1.5, 3.0, 4.0], [1, 5.5, 4.0, 12.0, 9.0],
     [0, 3.0, 3.0, 3.0, 3.0], [1, 30.0, 30.0, 40.0, 35.0]]
)  # fmt: skip


def bilinear(image: Any, y: float, x: float) -> float:
    """As roi_align samples: nothing further than a pixel outside, the edge up to there."""
    high, wide = image.shape
    if not (-1 <= y <= high and -1 <= x <= wide):
        return 0.0
    y, x = min(max(y, 0), high - 1), min(max(x, 0), wide - 1)
    rows, columns = (int(y), min(int(y) + 1, high - 1)), (int(x), min(int(x) + 1, wide - 1))
    shares = (1 - (y - rows[0]), y - rows[0]), (1 - (x - columns[0]), x - columns[0])
    return float(
        sum(
            image[rows[i], columns[j]] * shares[0][i] * shares[1][j]
            for i, j in itertools.product((0, 1), repeat=2)
        )
    )  # fmt: skip


def aligned_mean(image: Any, box: Any, p: int, q: int, bins: tuple[int, int], ratio: int) -> float:
    size_y, size_x = (box[3] - box[1]) / bins[0], (box[2] - box[0]) / bins[1]
    many_y = ratio if ratio > 0 else math.ceil(size_y)
    many_x = ratio if ratio > 0 else math.ceil(size_x)
    found = [
        bilinear(
            image,
            box[1] + (p + (i + 0.5) / many_y) * size_y,
            box[0] + (q + (j + 0.5) / many_x) * size_x,
        )
        for i in range(many_y)
        for j in range(many_x)
    ]
    return sum(found) / max(len(found), 1)


@pytest.mark.parametrize("ratio", [2, 0])
@pytest.mark.parametrize("aligned", [True, False])
def test_roi_align(ratio: int, aligned: bool) -> None:
    bins, scale = (3, 2), 0.8
    found = vision.roi_align(
        lt.tensor(IMAGES), lt.tensor(ROIS), scale, *bins, ratio, aligned
    ).numpy()  # fmt: skip
    assert found.shape == (5, 8, 3, 2)
    for k, c, p, q in itertools.product(range(5), range(8), range(3), range(2)):
        box = ROIS[k, 1:] * scale - (0.5 if aligned else 0.0)
        if not aligned:
            box[2:] = box[:2] + np.maximum(box[2:] - box[:2], 1)
        wanted = aligned_mean(IMAGES[int(ROIS[k, 0]), c], box, p, q, bins, ratio)
        assert found[k, c, p, q] == pytest.approx(wanted, abs=1e-9), (k, c, p, q)


@pytest.mark.parametrize("ratio", [2, 0])
def test_ps_roi_align(ratio: int) -> None:
    bins, scale = (2, 2), 0.8
    found, channels = vision.ps_roi_align(lt.tensor(IMAGES), lt.tensor(ROIS), scale, *bins, ratio)
    assert tuple(found.shape) == tuple(channels.shape) == (5, 2, 2, 2)
    for k, c, p, q in itertools.product(range(5), range(2), range(2), range(2)):
        channel = (c * 2 + p) * 2 + q
        assert channels[k, c, p, q].item() == channel
        box = ROIS[k, 1:] * scale - 0.5
        wanted = aligned_mean(IMAGES[int(ROIS[k, 0]), channel], box, p, q, bins, ratio)
        assert found[k, c, p, q].item() == pytest.approx(wanted, abs=1e-9), (k, c, p, q)


def half_up(value: float) -> int:
    return int(math.copysign(math.floor(abs(value) + 0.5), value))


def region(start: float, size: float, p: int, bins: int, extent: int, around: bool) -> range:
    """Pixels of a bin; ``around``: whether the start is in what is rounded."""
    inside, outside = (start, 0.0) if around else (0.0, start)
    low = math.floor(p * size / bins + inside) + outside
    high = math.ceil((p + 1) * size / bins + inside) + outside
    return range(int(min(max(low, 0), extent)), int(min(max(high, 0), extent)))


def test_roi_pool() -> None:
    bins, scale = (3, 2), 0.8
    found, numbers = vision.roi_pool(lt.tensor(IMAGES), lt.tensor(ROIS), scale, *bins)
    for k, c, p, q in itertools.product(range(5), range(8), range(3), range(2)):
        x1, y1, x2, y2 = (half_up(v * scale) for v in ROIS[k, 1:])
        rows = region(y1, max(y2 - y1 + 1, 1), p, 3, 7, False)
        columns = region(x1, max(x2 - x1 + 1, 1), q, 2, 9, False)
        image = IMAGES[int(ROIS[k, 0]), c]
        pixels = [(image[i, j], -(i * 9 + j)) for i in rows for j in columns]
        value, number = max(pixels, default=(0.0, 1))
        assert found[k, c, p, q].item() == value
        assert numbers[k, c, p, q].item() == -number


def test_ps_roi_pool() -> None:
    bins, scale = (2, 2), 0.8
    found, channels = vision.ps_roi_pool(lt.tensor(IMAGES), lt.tensor(ROIS), scale, *bins)
    for k, c, p, q in itertools.product(range(5), range(2), range(2), range(2)):
        channel = (c * 2 + p) * 2 + q
        x1, y1, x2, y2 = (half_up(v * scale) for v in ROIS[k, 1:])
        rows = region(y1, max(y2 - y1, 1), p, 2, 7, True)
        columns = region(x1, max(x2 - x1, 1), q, 2, 9, True)
        pixels = [IMAGES[int(ROIS[k, 0]), channel][i, j] for i in rows for j in columns]
        wanted = float(np.mean(pixels)) if pixels else 0.0
        assert found[k, c, p, q].item() == pytest.approx(wanted, abs=1e-9)
        assert channels[k, c, p, q].item() == channel


def overlap(a: Any, b: Any) -> float:
    both = max(0, min(a[2], b[2]) - max(a[0], b[0])) * max(0, min(a[3], b[3]) - max(a[1], b[1]))
    return float(both) / float((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - both)


@pytest.mark.parametrize("count", [0, 1, 60])
def test_nms(count: int) -> None:
    corner = RNG.random_sample((count, 2)) * 20
    boxes = np.concatenate([corner, corner + 2 + RNG.random_sample((count, 2)) * 10], 1)
    scores = RNG.randint(0, 30, count).astype(np.float64)  # some alike: the earlier one first
    chosen: list[int] = []
    for i in sorted(range(count), key=lambda i: -scores[i]):
        if all(overlap(boxes[i], boxes[j]) <= 0.4 for j in chosen):
            chosen.append(i)
    found = vision.nms(lt.tensor(boxes), lt.tensor(scores), 0.4)
    assert found.dtype == lt.int64
    assert found.tolist() == chosen


@pytest.mark.parametrize("use_mask", [True, False])
@pytest.mark.parametrize("groups", [1, 2])
def test_deform_conv2d(use_mask: bool, groups: int) -> None:
    weight = RNG.standard_normal((6, 8 // groups, 3, 2))
    offset = RNG.standard_normal((2, 2 * 2 * 6, 4, 9))
    mask = RNG.random_sample((2, 2 * 6, 4, 9))
    bias = RNG.standard_normal(6)
    sizes = (2, 1, 1, 1, 1, 2, groups, 2, use_mask)
    given = [lt.tensor(v) for v in (IMAGES, weight, offset, mask, bias)]
    convolve: Any = vision.deform_conv2d
    found = convolve(*given, *sizes).numpy()
    assert found.shape == (2, 6, 4, 9)

    def pixel(image: Any, y: float, x: float) -> float:
        total, (y0, x0) = 0.0, (math.floor(y), math.floor(x))
        for i, j in itertools.product((0, 1), repeat=2):
            if 0 <= y0 + i < 7 and 0 <= x0 + j < 9:
                total += image[y0 + i, x0 + j] * (1 - abs(y - y0 - i)) * (1 - abs(x - x0 - j))
        return total

    for n, o, p, q in [(0, 0, 0, 0), (1, 5, 3, 8), (1, 2, 1, 4), (0, 4, 2, 0)]:
        total, inside = bias[o], 8 // groups
        for c, t in itertools.product(range(inside), range(6)):
            channel = o // (6 // groups) * inside + c
            own = channel // 4 * 6 + t
            y = p * 2 - 1 + t // 2 + offset[n, 2 * own, p, q]
            x = q - 1 + t % 2 * 2 + offset[n, 2 * own + 1, p, q]
            value = pixel(IMAGES[n, channel], y, x) * weight[o, c, t // 2, t % 2]
            total += value * (mask[n, own, p, q] if use_mask else 1.0)
        assert found[n, o, p, q] == pytest.approx(total, abs=1e-9)


@pytest.mark.deadline(30)
def test_gradients_are_those_of_differences() -> None:
    x, rois = lt.tensor(IMAGES[:, :4, :2, :3].copy()), lt.tensor(ROIS[:3] * [1, 0.4, 0.4, 0.4, 0.4])
    x.requires_grad_()
    for function in (
        lambda t: vision.roi_align(t, rois, 0.8, 2, 2, 2, True),
        lambda t: vision.ps_roi_align(t, rois, 0.8, 2, 2, 0)[0],
        lambda t: vision.roi_pool(t, rois, 0.8, 2, 2)[0],
        lambda t: vision.ps_roi_pool(t, rois, 0.8, 2, 2)[0],
    ):
        assert gradcheck(function, (x,))


@pytest.mark.parametrize(
    "name, extra",
    [("roi_align", (2, True)), ("ps_roi_align", (2,)), ("roi_pool", ()), ("ps_roi_pool", ())],
)
def test_backward_operators(name: str, extra: tuple[Any, ...]) -> None:
    vision.define()
    namespace = lt.ops.torchvision  # type: ignore[attr-defined]
    x, rois = lt.tensor(IMAGES, requires_grad=True), lt.tensor(ROIS)
    found = getattr(namespace, name)(x, rois, 0.8, 2, 2, *extra)
    out, told = (found, []) if isinstance(found, lt.Tensor) else (found[0], [found[1]])
    given = lt.tensor(RNG.standard_normal(tuple(out.shape)))
    out.backward(given)
    shape = tuple(x.shape)
    before, after = (extra, ()) if name == "ps_roi_align" else ((), extra)
    backward = getattr(namespace, f"_{name}_backward")
    again = backward(given, rois, *told, 0.8, 2, 2, *before, *shape, *after)
    assert x.grad is not None and x.grad.abs().sum() > 0
    np.testing.assert_allclose(again.numpy(), x.grad.numpy(), atol=1e-12)


def test_backward_of_deformable_convolutions() -> None:
    vision.define()
    shapes = ((1, 4, 5, 5), (2, 4, 2, 2), (1, 8, 4, 4), (1, 4, 4, 4), (2,))
    leaves = [lt.tensor(RNG.standard_normal(s), requires_grad=True) for s in shapes]
    sizes = (1, 1, 0, 0, 1, 1, 1, 1, True)
    out = lt.ops.torchvision.deform_conv2d(*leaves, *sizes)  # type: ignore[attr-defined]
    given = lt.tensor(RNG.standard_normal(tuple(out.shape)))
    out.backward(given)
    found = lt.ops.torchvision._deform_conv2d_backward(  # type: ignore[attr-defined]
        given, *leaves, *sizes
    )
    for leaf, grad in zip(leaves, found, strict=True):
        np.testing.assert_allclose(grad.numpy(), leaf.grad.numpy(), atol=1e-12)  # type: ignore[union-attr]


def test_the_library_is_taken_for_defined(tmp_path: Path) -> None:
    packages.load_library(tmp_path / "torchvision" / "_C.so")
    assert lt.ops.torchvision._cuda_version() == -1  # type: ignore[attr-defined]
    packages.load_library("torchvision/_C_stable.so")
    for other in ("torchvision/image.so", "mine/_C.so"):
        with pytest.raises(OSError, match="lazyt loads no libraries of C\\+\\+ operators"):
            packages.load_library(other)
    with pytest.raises(NotImplementedError, match="torchvision::qnms"):
        lt.ops.torchvision.qnms(lt.ones(1, 4), lt.ones(1), 0.5)  # type: ignore[attr-defined]


def test_arguments_are_checked() -> None:
    with pytest.raises(LazytError, match="boxes should have 4 elements in dimension 1, got 3"):
        vision.nms(lt.ones(2, 3), lt.ones(2), 0.5)
    with pytest.raises(LazytError, match="same number of elements in dimension 0, got 2 and 3"):
        vision.nms(lt.ones(2, 4), lt.ones(3), 0.5)
    with pytest.raises(LazytError, match="rois must have shape"):
        vision.roi_align(lt.ones(1, 1, 4, 4), lt.ones(1, 4), 1.0, 2, 2, 2, True)
    with pytest.raises(LazytError, match="same type as tensor for rois"):
        vision.roi_pool(lt.ones(1, 1, 4, 4), lt.ones(1, 5, dtype=lt.float64), 1.0, 2, 2)
    with pytest.raises(LazytError, match="must be a multiple of pooling height"):
        vision.ps_roi_pool(lt.ones(1, 3, 4, 4), lt.ones(1, 5), 1.0, 2, 2)


def test_kernels_under_autocast() -> None:
    library = lt.library.Library("autocasting", "FRAGMENT")
    library.define("double(Tensor x) -> Tensor")
    library.impl("double", lambda x: x * 2, "CPU")
    seen = []

    def lowered(x: lt.Tensor) -> Any:
        seen.append(lt.is_autocast_enabled("cpu"))
        return lt.ops.autocasting.double(x.float()).to(x.dtype)  # type: ignore[attr-defined]

    library.impl("double", lowered, "AutocastCPU")
    x = lt.ones(2, dtype=lt.bfloat16)
    try:
        assert lt.ops.autocasting.double(x).dtype == lt.bfloat16  # type: ignore[attr-defined]
        assert seen == []
        with lt.autocast("cpu"):
            assert lt.ops.autocasting.double(x).tolist() == [2, 2]  # type: ignore[attr-defined]
        assert seen == [False]
    finally:
        library._destroy()
