"""The everyday problems that every framework is judged by, at three sizes each and at odd ones.

The size ``""`` is the one that is compared over time; the others are the suite ``sizes``.
"""

from __future__ import annotations

from typing import Any

from lazyt.bench.problems import ROWS, Training, problem
from lazyt.bench.suites.training import gpt_arrays, gpt_loss, mlp_loss, mlp_losses

_SQUARE = {"": {"n": 4096, "d": 4096}, **ROWS}


def _chain(t: Any, x: Any) -> Any:
    y = x * 1.5 + 0.25
    return y * t.sigmoid(y) + t.tanh(x) * 0.5 - t.sqrt(y * y + 1.0)


def _layer_norm(t: Any, x: Any, weight: Any, bias: Any) -> Any:
    centred = x - t.mean(x, -1, keepdim=True)
    spread = t.mean(centred * centred, -1, keepdim=True)
    return centred / t.sqrt(spread + 1e-5) * weight + bias


def _distances(t: Any, a: Any, b: Any) -> Any:
    between = a[:, None, :] - b[None, :, :]
    return t.sqrt(t.sum(between * between, -1))


def _perceptron(t: Any, x: Any, first: Any, one: Any, second: Any, two: Any) -> Any:
    return t.linear(t.gelu(t.linear(x, first, one)), second, two)


def _attention(t: Any, q: Any, k: Any, v: Any, mask: Any) -> Any:
    return t.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def _convolution(t: Any, x: Any, weight: Any, bias: Any) -> Any:
    return t.relu(t.conv2d(x, weight, bias, 1, 1))


def _tiny(t: Any, x: Any) -> Any:
    for _ in range(10):
        x = t.tanh(x * 1.5 + 0.25)
    return x


problem("peers", "chain", _SQUARE, "n d", _chain)
problem("peers", "chain_strided", ROWS, "n 2*d", lambda t, x: _chain(t, x[:, ::2]))
problem("peers", "chain_transposed", ROWS, "n d", lambda t, x: _chain(t, t.transpose(x, 0, 1)))
problem(
    "peers",
    "axpy",
    {
        "": {"n": 1 << 24},
        "small": {"n": 1 << 16},
        "middle": {"n": 1 << 20},
        "large": {"n": 1 << 26},
        "prime": {"n": 1000003},
    },
    "n, n",
    lambda t, x, y: x * 2.5 + y,
)
problem("peers", "softmax", _SQUARE, "n d", lambda t, x: t.softmax(x, -1))
problem(
    "peers",
    "softmax_transposed",
    ROWS,
    "n d",
    lambda t, x: t.softmax(t.transpose(x, 0, 1), -1),
)
problem(
    "peers",
    "layer_norm_written_out",
    {**_SQUARE, "": {"n": 8192, "d": 1024}},
    "n d, d, d",
    _layer_norm,
)
problem("peers", "sum_axis0", _SQUARE, "n d", lambda t, x: t.sum(x, 0))
problem("peers", "sum_squares", _SQUARE, "n d", lambda t, x: t.sum(x * x))
problem(
    "peers",
    "distances",
    {
        "": {"n": 3000, "d": 3},
        "small": {"n": 200, "d": 3},
        "middle": {"n": 1000, "d": 3},
        "large": {"n": 6000, "d": 3},
        "prime": {"n": 1021, "d": 7},
    },
    "n d, n d",
    _distances,
)
_EXTENTS = {
    "small": {"n": 256, "k": 256, "m": 256},
    "middle": {"n": 1024, "k": 1024, "m": 1024},
    "large": {"n": 4096, "k": 2048, "m": 4096},
    "prime": {"n": 1021, "k": 1031, "m": 1033},
    "tall": {"n": 50021, "k": 64, "m": 32},
}
problem(
    "peers",
    "matmul1024",
    {"": {"n": 1024}},
    "n n, n n",
    lambda t, a, b: t.matmul(a, b),
)
problem("peers", "matmul2048", {"": {"n": 2048}}, "n n, n n", lambda t, a, b: t.matmul(a, b))
problem(
    "peers",
    "matmul2048_bfloat16",
    {"": {"n": 2048}, "small": {"n": 256}, "middle": {"n": 1024}, "prime": {"n": 1021}},
    "bfloat16 n n, bfloat16 n n",
    lambda t, a, b: t.matmul(a, b),
    tolerance=2e-2,
)
problem(
    "peers",
    "perceptron",
    {
        "": {"n": 512, "d": 768, "h": 3072},
        "small": {"n": 32, "d": 128, "h": 512},
        "middle": {"n": 256, "d": 512, "h": 2048},
        "large": {"n": 4096, "d": 1024, "h": 4096},
        "prime": {"n": 211, "d": 503, "h": 1021},
    },
    "n d, weight h d, h, weight d h, d",
    _perceptron,
)
problem(
    "peers",
    "attention",
    {
        "": {"b": 4, "h": 8, "s": 512, "d": 64},
        "small": {"b": 1, "h": 4, "s": 64, "d": 64},
        "middle": {"b": 2, "h": 8, "s": 256, "d": 64},
        "large": {"b": 4, "h": 8, "s": 2048, "d": 64},
        "prime": {"b": 3, "h": 5, "s": 251, "d": 61},
    },
    "b h s d, b h s d, b h s d, s s",
    _attention,
)
problem(
    "peers",
    "cross_entropy",
    {
        "": {"n": 1024, "v": 32000},
        "small": {"n": 64, "v": 1000},
        "middle": {"n": 256, "v": 10000},
        "large": {"n": 4096, "v": 32000},
        "prime": {"n": 503, "v": 10007},
    },
    "n v, labels:v n",
    lambda t, scores, labels: t.cross_entropy(scores, labels),
)
problem(
    "peers",
    "convolution",
    {
        "": {"b": 8, "c": 64, "o": 64, "s": 56},
        "small": {"b": 1, "c": 16, "o": 16, "s": 32},
        "middle": {"b": 4, "c": 32, "o": 64, "s": 64},
        "large": {"b": 16, "c": 64, "o": 64, "s": 128},
        "prime": {"b": 3, "c": 37, "o": 41, "s": 53},
    },
    "b c s s, weight o c 3 3, o",
    _convolution,
)
problem("peers", "tiny", {"": {"n": 100}}, "n", _tiny)
problem(
    "peers",
    "train_mlp",
    {"": {"n": 32, "d": 64, "c": 10}, "large": {"n": 1024, "d": 1024, "c": 1000}},
    "n d, labels:c n, weight d d, zeros d, weight c d, zeros c",
    mlp_loss,
    training=Training("sgd", 2, mlp_losses),
    tolerance=1e-4,
)
problem(
    "peers",
    "train_gpt",
    {"": {"b": 8, "s": 128, "d": 256, "v": 1000}, "small": {"b": 2, "s": 32, "d": 64, "v": 100}},
    gpt_arrays(4),
    gpt_loss,
    training=Training("adam", 2),
    tolerance=1e-4,
)

for _name, _function in {
    "matmul": lambda t, a, b: t.matmul(a, b),
    "matmul_bias_relu": lambda t, a, b: t.relu(t.matmul(a, b) + 0.5),
}.items():
    problem("sizes", _name, _EXTENTS, "n k, k m", _function)
problem(
    "sizes",
    "matmul_left_transposed",
    _EXTENTS,
    "k n, k m",
    lambda t, a, b: t.matmul(t.transpose(a, 0, 1), b),
)
problem(
    "sizes",
    "matmul_right_transposed",
    _EXTENTS,
    "n k, m k",
    lambda t, a, b: t.matmul(a, t.transpose(b, 0, 1)),
)
problem(
    "sizes",
    "matmul_strided",
    _EXTENTS,
    "n 2*k, k 2*m",
    lambda t, a, b: t.matmul(a[:, ::2], b[:, ::2]),
)
