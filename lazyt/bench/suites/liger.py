"""What language models compute around their products, the way fused kernels for them are sold."""

from __future__ import annotations

from typing import Any

from lazyt.bench.problems import problem

_TOKENS = {
    "small": {"n": 128, "d": 256, "h": 512},
    "middle": {"n": 1024, "d": 1024, "h": 2048},
    "large": {"n": 8192, "d": 4096, "h": 4096},
    "prime": {"n": 509, "d": 1021, "h": 1031},
}
_HEADS = {
    "small": {"b": 1, "h": 4, "s": 128, "d": 32},
    "middle": {"b": 4, "h": 8, "s": 512, "d": 64},
    "large": {"b": 8, "h": 32, "s": 1024, "d": 64},
}
_VOCABULARY = {
    "small": {"n": 64, "d": 64, "v": 1000},
    "middle": {"n": 256, "d": 256, "v": 8000},
    "large": {"n": 1024, "d": 768, "v": 32000},
    "prime": {"n": 251, "d": 257, "v": 5003},
}


def _add_rms_norm(t: Any, x: Any, residual: Any, weight: Any) -> Any:
    total = x + residual
    return t.rms_norm(total, weight.shape, weight, 1e-6), total


def _rotary(t: Any, q: Any, k: Any, cosine: Any, sine: Any) -> Any:
    half = q.shape[-1] // 2

    def rotated(x: Any) -> Any:
        return x * cosine + t.cat([-x[..., half:], x[..., :half]], -1) * sine

    return rotated(q), rotated(k)


def _jensen_shannon(t: Any, first: Any, second: Any) -> Any:
    logs, others = t.log_softmax(first, -1), t.log_softmax(second, -1)
    one, two = t.exp(logs), t.exp(others)
    middle = t.log((one + two) * 0.5)
    return t.sum(one * (logs - middle) + two * (others - middle)) * (0.5 / first.shape[0])


def _layer_cross_entropy(t: Any, x: Any, weight: Any, labels: Any) -> Any:
    return t.cross_entropy(t.linear(x, weight), labels)


def _gated_layer(t: Any, x: Any, gate: Any, up: Any, down: Any) -> Any:
    return t.linear(t.silu(t.linear(x, gate)) * t.linear(x, up), down)


problem(
    "liger",
    "liger_rms_norm",
    _TOKENS,
    "n d, d",
    lambda t, x, w: x * t.rsqrt(t.mean(x * x, -1, keepdim=True) + 1e-6) * w,
)
problem("liger", "liger_add_rms_norm", _TOKENS, "n d, n d, d", _add_rms_norm)
problem("liger", "liger_rotary", _HEADS, "b h s d, b h s d, s d, s d", _rotary)
problem("liger", "liger_swiglu", _TOKENS, "n h, n h", lambda t, a, b: t.silu(a) * b)
problem(
    "liger",
    "liger_geglu",
    _TOKENS,
    "n h, n h",
    lambda t, a, b: t.gelu(a, approximate="tanh") * b,
)
problem(
    "liger",
    "liger_swiglu_layer",
    {
        "small": {"n": 32, "d": 64, "h": 256},
        "middle": {"n": 256, "d": 512, "h": 1024},
        "large": {"n": 1024, "d": 1024, "h": 4096},
    },
    "n d, weight h d, weight h d, weight d h",
    _gated_layer,
    tolerance=5e-5,
)
problem(
    "liger",
    "liger_linear_cross_entropy",
    _VOCABULARY,
    "n d, weight v d, labels:v n",
    _layer_cross_entropy,
)
problem("liger", "liger_jsd", _VOCABULARY, "n v, n v", _jensen_shannon, tolerance=1e-4)
problem(
    "liger",
    "liger_kl",
    _VOCABULARY,
    "n v, probs n v",
    lambda t, x, y: t.kl_div(t.log_softmax(x, -1), y),
)
