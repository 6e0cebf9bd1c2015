"""Single operations on pictures, sequences and volumes: convolution, pooling, normalization."""

from __future__ import annotations

from typing import Any

from lazyt.bench.problems import problem

_PICTURES = {
    "small": {"b": 1, "c": 16, "s": 32},
    "middle": {"b": 4, "c": 64, "s": 56},
    "large": {"b": 16, "c": 64, "s": 128},
    "prime": {"b": 3, "c": 32, "s": 61},
}
_FILTERED = {
    "small": {"b": 1, "c": 16, "o": 32, "s": 28},
    "middle": {"b": 4, "c": 64, "o": 64, "s": 56},
    "large": {"b": 16, "c": 64, "o": 128, "s": 112},
    "prime": {"b": 3, "c": 31, "o": 37, "s": 53},
}


def _filtered(name: str, arrays: str, function: Any) -> None:
    problem("kernels", name, _FILTERED, arrays, function)


_filtered("conv2d", "b c s s, weight o c 3 3", lambda t, x, w: t.conv2d(x, w))
_filtered("conv2d_padded", "b c s s, weight o c 3 3", lambda t, x, w: t.conv2d(x, w, None, 1, 1))
_filtered("conv2d_strided", "b c s s, weight o c 3 3", lambda t, x, w: t.conv2d(x, w, None, 2, 1))
_filtered(
    "conv2d_dilated", "b c s s, weight o c 3 3", lambda t, x, w: t.conv2d(x, w, None, 1, 2, 2)
)
_filtered("conv2d_1x1", "b c s s, weight o c 1 1", lambda t, x, w: t.conv2d(x, w))
_filtered("conv2d_7x7", "b 3 s s, weight o 3 7 7", lambda t, x, w: t.conv2d(x, w, None, 2, 3))
_filtered("conv2d_uneven", "b c s s, weight o c 3 5", lambda t, x, w: t.conv2d(x, w))
_filtered(
    "conv2d_depthwise",
    "b c s s, weight c 1 3 3",
    lambda t, x, w: t.conv2d(x, w, None, 1, 1, 1, x.shape[1]),
)
_filtered(
    "conv2d_transposed",
    "b c s s, weight c o 3 3",
    lambda t, x, w: t.conv_transpose2d(x, w, None, 2),
)
problem(
    "kernels",
    "conv1d",
    {
        "small": {"b": 4, "c": 16, "o": 32, "s": 512},
        "middle": {"b": 16, "c": 64, "o": 128, "s": 2048},
        "large": {"b": 32, "c": 64, "o": 64, "s": 16384},
        "prime": {"b": 7, "c": 31, "o": 37, "s": 1021},
    },
    "b c s, weight o c 3",
    lambda t, x, w: t.conv1d(x, w),
)
problem(
    "kernels",
    "conv3d",
    {
        "small": {"b": 1, "c": 4, "o": 8, "s": 16},
        "middle": {"b": 2, "c": 16, "o": 32, "s": 32},
        "prime": {"b": 2, "c": 3, "o": 17, "s": 37},
    },
    "b c s s s, weight o c 3 3 3",
    lambda t, x, w: t.conv3d(x, w),
)
problem(
    "kernels",
    "max_pool1d",
    {"middle": {"b": 16, "c": 64, "s": 4096}},
    "b c s",
    lambda t, x: t.max_pool1d(x, 4, 2, 1),
)
problem(
    "kernels",
    "avg_pool1d",
    {"middle": {"b": 16, "c": 64, "s": 4096}},
    "b c s",
    lambda t, x: t.avg_pool1d(x, 4, 2),
)
problem("kernels", "max_pool2d", _PICTURES, "b c s s", lambda t, x: t.max_pool2d(x, 3, 2, 1))
problem("kernels", "avg_pool2d", _PICTURES, "b c s s", lambda t, x: t.avg_pool2d(x, 2, 2))
problem(
    "kernels", "batch_norm", _PICTURES, "b c s s, c, c", lambda t, x, w, b: t.batch_norm(x, w, b)
)
problem(
    "kernels",
    "group_norm",
    _PICTURES,
    "b c s s, c, c",
    lambda t, x, w, b: t.group_norm(x, 8, w, b),
)
problem("kernels", "instance_norm", _PICTURES, "b c s s", lambda t, x: t.instance_norm(x))
problem(
    "kernels",
    "rms_norm_channels",
    _PICTURES,
    "b c s s",
    lambda t, x: x / t.sqrt(t.mean(x * x, 1, keepdim=True) + 1e-5),
)
problem(
    "kernels",
    "sum_pictures",
    _PICTURES,
    "b c s s",
    lambda t, x: t.sum(x, (2, 3)),
)
