"""A product or a convolution with what follows it: the well-known pairs for fusing compilers."""

from __future__ import annotations

from typing import Any

from lazyt.bench.problems import problem

_LAYERS = {
    "small": {"n": 32, "k": 128, "m": 64},
    "middle": {"n": 128, "k": 1024, "m": 512},
    "large": {"n": 1024, "k": 4096, "m": 2048},
    "prime": {"n": 127, "k": 521, "m": 1021},
}
_PICTURES = {
    "small": {"b": 1, "c": 8, "o": 16, "s": 32},
    "middle": {"b": 8, "c": 16, "o": 64, "s": 64},
    "large": {"b": 16, "c": 64, "o": 64, "s": 112},
    "prime": {"b": 3, "c": 7, "o": 48, "s": 53},
}
_GROUPED = {key: dims for key, dims in _LAYERS.items() if key != "prime"}


def _layer(name: str, function: Any, more: str = "", sizes: Any = _LAYERS) -> None:
    problem("kernels", name, sizes, f"n k, weight m k, m{more}", function, tolerance=5e-5)


def _picture(name: str, function: Any, more: str = "") -> None:
    problem("kernels", name, _PICTURES, f"b c s s, weight o c 3 3, o{more}", function)


def _scale_residual(t: Any, x: Any, w: Any, b: Any) -> Any:
    y = t.linear(x, w, b)
    return y * 0.5 + y


def _swish_sum_norm(t: Any, x: Any, w: Any, b: Any, more: Any, gain: Any, shift: Any) -> Any:
    return t.group_norm(t.silu(t.linear(x, w, b)) + more, 16, gain, shift)


def _batch_norm_softmax(t: Any, x: Any, w: Any, b: Any, gain: Any, shift: Any) -> Any:
    return t.softmax(t.batch_norm(t.linear(x, w, b), gain, shift) * 1.5, 1)


def _many_activations(t: Any, x: Any, w: Any, b: Any, more: Any) -> Any:
    y = t.linear(x, w, b) + more
    return t.hardtanh(t.gelu(t.tanh(t.silu(y))), -1.0, 1.0)


def _norm_residual(t: Any, x: Any, w: Any, b: Any, more: Any) -> Any:
    y = t.linear(x, w, b)
    y = t.instance_norm(y[:, None, None, :])[:, 0, 0]
    return (y + more) * more


def _pool_scale(t: Any, x: Any, w: Any, b: Any) -> Any:
    y = t.avg_pool1d(t.linear(x, w, b)[None], 4, 4)[0]
    return t.amax(t.gelu(y) * 2.0, 1)


_layer("linear_scale_residual", _scale_residual)
_layer("linear_multiply_leaky_relu", lambda t, x, w, b: t.leaky_relu(t.linear(x, w, b) * 2.0, 0.1))
_layer("linear_swish_sum_group_norm", _swish_sum_norm, ", m, m, m", _GROUPED)
_layer("linear_sigmoid_logsumexp", lambda t, x, w, b: t.logsumexp(t.sigmoid(t.linear(x, w, b)), 1))
_layer("linear_batch_norm_scale_softmax", _batch_norm_softmax, ", m, m")
_layer("linear_gelu_softmax", lambda t, x, w, b: t.softmax(t.gelu(t.linear(x, w, b)), 1))
_layer("linear_add_swish_tanh_gelu_hardtanh", _many_activations, ", m")
_layer("linear_instance_norm_residual", _norm_residual, ", n m")
_layer("linear_relu_divide", lambda t, x, w, b: t.relu(t.linear(x, w, b)) / 2.0)
_layer("linear_subtract_multiply_relu", lambda t, x, w, b: t.relu((t.linear(x, w, b) - 2.0) * 1.5))
_layer("linear_swish_scale", lambda t, x, w, b: t.silu(t.linear(x, w, b)) * 2.0)
_layer("linear_mish_mish", lambda t, x, w, b: t.mish(t.mish(t.linear(x, w, b))))
_layer(
    "linear_sigmoid_sum", lambda t, x, w, b: t.sum(t.sigmoid(t.linear(x, w, b)), 1, keepdim=True)
)
_layer("linear_pool_gelu_scale_max", _pool_scale, sizes=_GROUPED)
_layer(
    "linear_group_norm_leaky_relu_double",
    lambda t, x, w, b, g, s: t.leaky_relu(t.group_norm(t.linear(x, w, b), 16, g, s)) * 2.0,
    ", m, m",
    _GROUPED,
)
problem(
    "kernels",
    "matmul_divide_gelu_sum",
    _LAYERS,
    "n k, weight m k",
    lambda t, x, w: t.sum(t.gelu(t.matmul(x, t.transpose(w, 0, 1)) / 10.0), 1),
    tolerance=5e-5,
)
problem(
    "kernels",
    "bmm_instance_norm_residual",
    {"small": {"b": 4, "n": 32, "k": 32}, "middle": {"b": 16, "n": 128, "k": 128}},
    "b n k, b k n, b n n",
    lambda t, x, y, z: t.instance_norm(t.bmm(x, y)) + z,
)
problem(
    "kernels",
    "linear_chain_of_three",
    {"middle": {"n": 128, "k": 512, "m": 512}, "large": {"n": 1024, "k": 1024, "m": 1024}},
    "n k, weight m k, weight m m, weight k m",
    lambda t, x, a, b, c: t.linear(t.relu(t.linear(t.relu(t.linear(x, a)), b)), c),
    tolerance=5e-5,
)

_picture("conv_relu_bias", lambda t, x, w, b: t.relu(t.conv2d(x, w)) + b[:, None, None])
_picture("conv_subtract_mish", lambda t, x, w, b: t.mish(t.conv2d(x, w, b) - 0.7))
_picture(
    "conv_activation_batch_norm",
    lambda t, x, w, b, g, s: t.batch_norm(t.mish(t.conv2d(x, w, b)), g, s),
    ", o, o",
)
_picture(
    "conv_group_norm_scale_pool_clamp",
    lambda t, x, w, b, g, s: t.clamp(
        t.max_pool2d(t.group_norm(t.conv2d(x, w, b), 8, g, s) * 0.5, 2, 2), 0.0, 1.0
    ),
    ", o, o",
)
_picture(
    "conv_min_tanh_tanh",
    lambda t, x, w, b: t.tanh(t.tanh(t.amin(t.conv2d(x, w, b), 1, keepdim=True))),
)
_picture("conv_hardswish_relu", lambda t, x, w, b: t.relu(t.hardswish(t.conv2d(x, w, b))))
_picture(
    "conv_pool_sigmoid_sum",
    lambda t, x, w, b: t.sum(t.sigmoid(t.avg_pool2d(t.conv2d(x, w, b), 2, 2)), (1, 2, 3)),
)
_picture("conv_gelu_global_mean", lambda t, x, w, b: t.mean(t.gelu(t.conv2d(x, w, b)), (2, 3)))
_picture("conv_instance_norm_divide", lambda t, x, w, b: t.instance_norm(t.conv2d(x, w, b)) / 2.0)
_picture(
    "conv_logsumexp_relu",
    lambda t, x, w, b: t.relu(t.logsumexp(t.max_pool2d(t.conv2d(x, w, b), 2, 2), 1)),
)
