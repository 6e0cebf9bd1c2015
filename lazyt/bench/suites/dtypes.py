"""Problems in float64, bfloat16, float16 and small integers."""

from __future__ import annotations

from typing import Any

from lazyt.bench.problems import ROWS, problem

_SQUARES = {
    "small": {"n": 128},
    "middle": {"n": 512},
    "large": {"n": 2048},
    "prime": {"n": 509},
}


def _chain(t: Any, x: Any) -> Any:
    y = x * 1.5 + 0.25
    return y * t.sigmoid(y) + t.tanh(x) * 0.5 - t.sqrt(y * y + 1.0)


def _quantized(t: Any, x: Any) -> Any:
    scale = t.amax(t.abs(x), 1, keepdim=True) / 127.0
    return t.cast(t.clamp(t.round(x / scale), -127.0, 127.0), "int8"), scale


def _product_of_integers(t: Any, a: Any, b: Any) -> Any:
    return t.int_matmul(a, b)


def _dequantized_layer(t: Any, x: Any, weight: Any, scale: Any) -> Any:
    return t.linear(x, t.cast(weight, "float32") * scale)


def _blended(t: Any, first: Any, second: Any) -> Any:
    x, y = t.cast(first, "float32"), t.cast(second, "float32")
    return t.cast(t.clamp(x * 0.3 + y * 0.7, 0.0, 255.0), "uint8")


for _dtype, _loose in (("float64", 1e-11), ("bfloat16", 2e-2), ("float16", 4e-3)):
    problem("dtypes", f"{_dtype}_chain", ROWS, f"{_dtype} n d", _chain, tolerance=_loose)
    problem(
        "dtypes",
        f"{_dtype}_softmax",
        ROWS,
        f"{_dtype} n d",
        lambda t, x: t.softmax(x, -1),
        tolerance=_loose,
    )
    problem(
        "dtypes",
        f"{_dtype}_matmul",
        _SQUARES,
        f"{_dtype} n n, {_dtype} n n",
        lambda t, a, b: t.matmul(a, b),
        tolerance=_loose,
    )
    problem(
        "dtypes",
        f"{_dtype}_sum",
        ROWS,
        f"{_dtype} n d",
        lambda t, x: t.sum(x, 1),
        tolerance=_loose,
    )
problem("dtypes", "int8_quantize", ROWS, "n d", _quantized, tolerance=1.01 / 127)
problem(
    "dtypes",
    "int8_dequantize",
    ROWS,
    "int8 n d, n 1",
    lambda t, x, scale: t.cast(x, "float32") * scale,
)
problem("dtypes", "int8_matmul", _SQUARES, "int8 n n, int8 n n", _product_of_integers, tolerance=0)
problem(
    "dtypes",
    "int8_layer",
    {"small": {"n": 8, "k": 256, "m": 256}, "middle": {"n": 32, "k": 1024, "m": 1024}},
    "n k, int8 m k, m 1",
    _dequantized_layer,
    tolerance=5e-5,
)
problem(
    "dtypes",
    "int8_sum",
    ROWS,
    "int8 n d",
    lambda t, x: t.sum(t.cast(x, "int32"), 1),
    tolerance=0,
)
problem(
    "dtypes",
    "uint8_blend",
    ROWS,
    "uint8 n d, uint8 n d",
    _blended,
    tolerance=1.01 / 100,
)
