"""Single operations: those of rows, and those of pictures, sequences and volumes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lazyt.bench.problems import ROWS, problem


def _of_rows(name: str, function: Callable[..., Any], arrays: str = "n d") -> None:
    problem("kernels", name, ROWS, arrays, function)


# products

problem(
    "kernels",
    "matmul_square",
    {"small": {"n": 128}, "middle": {"n": 512}, "large": {"n": 3000}},
    "n n, n n",
    lambda t, a, b: t.matmul(a, b),
)
problem(
    "kernels",
    "matmul_batched",
    {
        "small": {"b": 16, "n": 32, "k": 32, "m": 32},
        "middle": {"b": 64, "n": 128, "k": 128, "m": 128},
        "large": {"b": 128, "n": 128, "k": 256, "m": 512},
        "prime": {"b": 31, "n": 61, "k": 67, "m": 71},
    },
    "b n k, b k m",
    lambda t, a, b: t.bmm(a, b),
)
problem(
    "kernels",
    "matmul_shared",
    {"middle": {"b": 16, "n": 128, "k": 256, "m": 256}},
    "b n k, k m",
    lambda t, a, b: t.matmul(a, b),
)
problem(
    "kernels",
    "matmul_irregular",
    {"middle": {"n": 205, "k": 294, "m": 592}, "large": {"n": 2053, "k": 2949, "m": 1481}},
    "n k, k m",
    lambda t, a, b: t.matmul(a, b),
)
problem(
    "kernels",
    "matmul_large_k",
    {"middle": {"n": 64, "k": 16384, "m": 64}, "large": {"n": 256, "k": 65536, "m": 256}},
    "n k, k m",
    lambda t, a, b: t.matmul(a, b),
    tolerance=1e-4,
)
problem(
    "kernels",
    "matmul_small_k",
    {"middle": {"n": 1024, "k": 16, "m": 1024}, "large": {"n": 8192, "k": 32, "m": 4096}},
    "n k, k m",
    lambda t, a, b: t.matmul(a, b),
)
problem(
    "kernels",
    "matmul_skinny",
    {"middle": {"n": 8192, "k": 512, "m": 8}, "large": {"n": 32768, "k": 1024, "m": 16}},
    "n k, k m",
    lambda t, a, b: t.matmul(a, b),
)
problem(
    "kernels",
    "matmul_both_transposed",
    {"small": {"n": 128}, "middle": {"n": 512}, "large": {"n": 2048}},
    "n n, n n",
    lambda t, a, b: t.matmul(t.transpose(a, 0, 1), t.transpose(b, 0, 1)),
)
_of_rows("matvec", lambda t, a, x: t.matmul(a, x), "n d, d")
_of_rows("vecmat", lambda t, x, a: t.matmul(x, a), "n, n d")
_of_rows("outer", lambda t, x, y: x[:, None] * y, "n, d")

# activations

_ACTIVATIONS = ("relu", "sigmoid", "tanh", "silu", "softplus", "mish", "elu")
for _name in (*_ACTIVATIONS, "leaky_relu", "hardtanh", "hardswish"):
    _of_rows(_name, lambda t, x, _name=_name: getattr(t, _name)(x))
_of_rows("gelu", lambda t, x: t.gelu(x))
_of_rows("gelu_tanh", lambda t, x: t.gelu(x, approximate="tanh"))
_of_rows("log_softmax", lambda t, x: t.log_softmax(x, -1))
_of_rows("softmax_axis0", lambda t, x: t.softmax(x, 0))

# normalizations

_of_rows("rms_norm", lambda t, x, w: t.rms_norm(x, w.shape, w, 1e-5), "n d, d")
_of_rows("layer_norm", lambda t, x, w, b: t.layer_norm(x, w.shape, w, b), "n d, d, d")
_of_rows("batch_norm_rows", lambda t, x, w, b: t.batch_norm(x, w, b), "n d, d, d")
_of_rows("l1_norm", lambda t, x: x / t.mean(t.abs(x), 1, keepdim=True))
_of_rows("l2_norm", lambda t, x: x / t.sqrt(t.sum(x * x, 1, keepdim=True)))

# reductions and scans

for _name in ("sum", "mean", "amax", "argmax", "var"):
    for _axis in (0, 1):
        _of_rows(
            f"{_name}_axis{_axis}" if _name != "sum" or _axis else "sum_columns",
            lambda t, x, _name=_name, _axis=_axis: getattr(t, _name)(x, _axis),
        )
_of_rows("logsumexp", lambda t, x: t.logsumexp(x, 1))
problem("kernels", "cumsum", ROWS, "n d", lambda t, x: t.cumsum(x, 1), tolerance=1e-4)
problem("kernels", "cumsum_axis0", ROWS, "n d", lambda t, x: t.cumsum(x, 0), tolerance=1e-3)
problem(
    "kernels",
    "sum_middle_axis",
    {"small": {"b": 8, "n": 64, "d": 64}, "large": {"b": 128, "n": 512, "d": 512}},
    "b n d",
    lambda t, x: t.sum(x, 1),
)
problem(
    "kernels",
    "sort",
    {"small": {"n": 10000}, "middle": {"n": 1000000}},
    "n",
    lambda t, x: t.sort(x),
    tolerance=0.0,
)
problem(
    "kernels",
    "picked_rows",
    {"small": {"v": 1000, "d": 64, "n": 1000}, "large": {"v": 1000000, "d": 64, "n": 200000}},
    "v d, labels:v n",
    lambda t, table, rows: t.embedding(rows, table),
    tolerance=0.0,
)

# losses

_of_rows("mse_loss", lambda t, x, y: t.mse_loss(x, y), "n d, n d")
_of_rows("smooth_l1_loss", lambda t, x, y: t.smooth_l1_loss(x, y), "n d, n d")
_of_rows("kl_loss", lambda t, x, y: t.kl_div(t.log_softmax(x, -1), y), "n d, probs n d")
_of_rows("triplet_loss", lambda t, a, b, c: t.triplet_margin_loss(a, b, c), "n d, n d, n d")
_of_rows("hinge_loss", lambda t, x, y: t.mean(t.clamp(1 - x * t.sign(y), 0.0)), "n d, n d")
_of_rows(
    "cosine_loss",
    lambda t, x, y: t.mean(1 - t.sum(x * y, 1) / t.sqrt(t.sum(x * x, 1) * t.sum(y * y, 1))),
    "n d, n d",
)

# attention

_ATTENTION = {
    "small": {"b": 1, "h": 4, "s": 128, "d": 32},
    "middle": {"b": 2, "h": 8, "s": 512, "d": 64},
    "large": {"b": 2, "h": 8, "s": 2048, "d": 64},
}
problem(
    "kernels",
    "attention_plain",
    _ATTENTION,
    "b h s d, b h s d, b h s d",
    lambda t, q, k, v: t.scaled_dot_product_attention(q, k, v),
)
problem(
    "kernels",
    "attention_causal",
    _ATTENTION,
    "b h s d, b h s d, b h s d",
    lambda t, q, k, v: t.scaled_dot_product_attention(q, k, v, is_causal=True),
)
problem(
    "kernels",
    "attention_written_out",
    _ATTENTION,
    "b h s d, b h s d, b h s d",
    lambda t, q, k, v: t.matmul(
        t.softmax(t.matmul(q, t.transpose(k, -2, -1)) * q.shape[-1] ** -0.5, -1), v
    ),
)


# Single operations on pictures, sequences and volumes: convolution, pooling, normalization.


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
