"""What a GPU is measured by: streams of memory beyond any L2, rows of all lengths, large products,
and many small kernels."""

from __future__ import annotations

from typing import Any

from lazyt.bench.problems import Dims, problem

#: 256 MB in rows of so many elements.
_ROWS: dict[str, Dims] = {
    f"{d >> 10}k": {"n": (1 << 26) // d, "d": d} for d in (1024, 2048, 4096, 8192, 16384)
}
_TINY = 100


def _eight(t: Any, x: Any) -> Any:
    y = t.abs(x * 1.5 + 0.5)
    return t.relu(t.sqrt(y + 1.0) - x * 0.25)


def _many(t: Any, x: Any) -> Any:
    for number in range(_TINY):
        x = t.softmax(x, number % 2)
    return x


problem("gpu", "gpu_elementwise_8", {"": {"n": 1 << 26}}, "n", _eight)
problem("gpu", "gpu_add", {"": {"n": 1 << 26}}, "n, n", lambda t, x, y: x + y)
problem("gpu", "gpu_softmax", _ROWS, "n d", lambda t, x: t.softmax(x, -1))
problem(
    "gpu", "gpu_layer_norm", _ROWS, "n d, d, d", lambda t, x, w, b: t.layer_norm(x, w.shape, w, b)
)
problem("gpu", "gpu_rms_norm", _ROWS, "n d, d", lambda t, x, w: t.rms_norm(x, w.shape, w, 1e-5))
problem("gpu", "gpu_sum", {"": {"n": 1 << 30}}, "positive n", lambda t, x: t.sum(x))
problem(
    "gpu", "gpu_column_sum", {"": {"n": 1 << 13, "d": 1 << 13}}, "n d", lambda t, x: t.sum(x, 0)
)
for _name, _dtype, _tolerance in (
    ("float32", "", 1e-4), ("bfloat16", "bfloat16 ", 2e-2), ("float16", "float16 ", 1e-2),
):  # fmt: skip
    problem(
        "gpu",
        f"gpu_matmul_{_name}",
        {"4k": {"n": 4096}},
        f"{_dtype}n n, {_dtype}n n",
        lambda t, a, b: t.matmul(a, b),
        tolerance=_tolerance,
    )
problem("gpu", "gpu_100_tiny_kernels", {"": {"n": 64}}, "n n", _many)
