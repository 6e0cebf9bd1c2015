"""Bits of the GPU against those of the CPU: functions over all magnitudes, subnormals, NaN and
infinities, all 16-bit floats, conversions, divisions, integer edge cases. No tolerance.

Most of its time goes to compilers, so several processes share the checks (GPU_SLICE).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

import lazyt as lt
from bench.gpu.steps.report import DEVICE, OUT, SMALL, Report, left

Array = npt.NDArray[Any]
Check = tuple[str, Callable[[], str]]

SLICES = 2 if SMALL else 6
COUNT = 1 << (12 if SMALL else 20)
UNARY = (
    "abs", "neg", "sqrt", "rsqrt", "reciprocal", "exp", "exp2", "expm1", "log", "log2", "log10",
    "log1p", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh",
    "acosh", "atanh", "sigmoid", "erf", "erfc", "erfinv", "lgamma", "digamma", "floor", "ceil",
    "round", "trunc", "frac", "sign", "square", "isnan", "isinf", "isfinite", "signbit", "i0",
    "sinc",
)  # fmt: skip
BINARY = (
    "add", "sub", "mul", "div", "fmod", "remainder", "pow", "atan2", "maximum", "minimum",
    "hypot", "copysign", "nextafter", "floor_divide", "logaddexp", "eq", "lt",
)  # fmt: skip
SUMS = ("sum", "mean", "var", "logsumexp", "cumsum")
PRODUCTS = ((257, 129, 65), (128, 128, 128), (1, 300, 1000), (64, 64, 4096), (200, 8, 7))
draw = np.random.default_rng(5)


def wide_floats(kind: Any) -> Array:
    """Random bit patterns of all exponents, moderate numbers, and what is special."""
    dtype = np.dtype(kind)
    words = draw.integers(0, 1 << 32, COUNT * (dtype.itemsize // 4), np.uint32)
    scale = draw.choice([0.1, 1, 10, 100], COUNT)
    moderate = (draw.standard_normal(COUNT) * scale).astype(dtype)
    of = np.finfo(dtype)
    special = np.array(
        [
            0, -0.0, 1, -1, 0.5, -0.5, 2, np.inf, -np.inf, np.nan, of.tiny, -of.tiny,
            of.smallest_subnormal, -of.smallest_subnormal, of.max, -of.max, 1 - of.epsneg,
            1 + of.eps, 88.7, -87.4, -103.9, 709.7, 1e-8,
        ],
        dtype,
    )  # fmt: skip
    with np.errstate(all="ignore"):
        return np.concatenate([words.view(dtype), moderate, np.resize(special, 4096)])


def same(name: str, found: Any, wanted: Any, given: Array) -> None:
    """Equal bits; any NaN is as good as another."""
    a, b = found.cpu().numpy(), wanted.cpu().numpy()
    assert a.dtype == b.dtype and a.shape == b.shape, (a.dtype, b.dtype, a.shape, b.shape)
    whole = np.dtype(f"u{a.dtype.itemsize}")
    equal = a.view(whole) == b.view(whole)
    if a.dtype.kind == "f":
        equal |= np.isnan(a) & np.isnan(b)
    if not equal.all():
        at = np.flatnonzero(~equal)
        values = (given if given.size == a.size else np.full(a.size, np.nan)).reshape(-1)
        shown = [(values[i].item(), a.flat[i].item(), b.flat[i].item()) for i in at[:5]]
        raise AssertionError(f"{name}: {at.size} of {a.size} differ, (x, GPU, CPU): {shown}")


def unary(name: str, dtype: Any) -> str:
    """A function of one argument."""
    x = wide_floats(dtype)
    if name in ("sin", "cos", "tan"):  # the reduction of huge arguments is slow on the CPU
        x = np.clip(np.nan_to_num(x), -1e6, 1e6).astype(dtype)
    t, function = lt.from_numpy(x), getattr(lt, name)
    same(name, function(t.to(DEVICE)), function(t), x)
    return f"{x.size} values"


def binary(name: str, dtype: Any) -> str:
    """A function of two arguments."""
    x, y = wide_floats(dtype), draw.permutation(wide_floats(dtype))
    a, b, function = lt.from_numpy(x), lt.from_numpy(y), getattr(lt, name)
    same(name, function(a.to(DEVICE), b.to(DEVICE)), function(a, b), x)
    return f"{x.size} pairs"


def halves(kind: str) -> str:
    """All patterns to float32 and float64 and back, and the rounding of float32 and float64."""
    dtype = getattr(lt, kind)
    patterns = np.arange(1 << 16, dtype=np.uint32).astype(np.uint16)
    h = lt.from_numpy(patterns.view(np.int16)).view(dtype)
    there = h.to(DEVICE)
    same("to float32", there.float(), h.float(), patterns)
    same("to float64", there.double(), h.double(), patterns)
    a, b = (t.float().to(dtype).view(lt.int16) for t in (there, h))
    same("there and back", a, b, patterns)
    for source in (np.float32, np.float64):
        near = np.resize(h.float().numpy(), COUNT).view(np.uint32)
        ties = (near + draw.integers(0, 1 << 16, COUNT).astype(np.uint32)).view(np.float32)
        x = np.concatenate([wide_floats(source), ties.astype(source)])
        t = lt.from_numpy(x)
        same(f"from {source.__name__}", t.to(DEVICE).to(dtype).float(), t.to(dtype).float(), x)
    return "65536 patterns"


def casts(source: Any) -> str:
    """Floats to integers, also far out of their range."""
    far = [(draw.standard_normal(COUNT) * scale).astype(source) for scale in (3e9, 1e19)]
    x = np.concatenate([wide_floats(source), *far])
    t = lt.from_numpy(x)
    there = t.to(DEVICE)
    for kind in ("int8", "uint8", "int16", "int32", "int64", "bool"):
        same(f"to {kind}", there.to(getattr(lt, kind)), t.to(getattr(lt, kind)), x)
    return ""


def integers(kind: str) -> str:
    """Arithmetic that wraps, divisions of both signs, shifts past the width."""
    dtype = np.dtype(kind)
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    x, y = (draw.integers(low, high, COUNT, dtype, endpoint=True) for _ in range(2))
    y[::3] = draw.integers(max(low, -5), 6, y[::3].size)
    y[y == 0] = 1
    x[:64], y[:64] = low, -1 if low < 0 else 1  # the one quotient that does not fit
    a, b = lt.from_numpy(x), lt.from_numpy(y)
    g, k = a.to(DEVICE), b.to(DEVICE)
    for name in ("add", "sub", "mul", "floor_divide", "remainder", "maximum", "bitwise_xor"):
        same(name, getattr(lt, name)(g, k), getattr(lt, name)(a, b), x)
    counts = lt.from_numpy(draw.integers(0, 70, COUNT).astype(dtype) % 65)
    for name in ("bitwise_left_shift", "bitwise_right_shift"):
        function = getattr(lt, name)
        same(name, function(g, counts.to(DEVICE)), function(a, counts), x)
    same("to float32", g.float(), a.float(), x)
    return ""


def sums(dtype: str) -> str:
    """Reductions of long rows, of columns, and of everything."""
    kind = getattr(lt, dtype)
    shapes = ((7, 3001 if SMALL else 100_003), 1), ((1025, 257), 0), ((COUNT * 4,), 0)
    for shape, dim in shapes:
        t = lt.randn(*shape, generator=lt.Generator().manual_seed(2)).to(kind)
        there = t.to(DEVICE)
        for name in ("sum", "var", "cumsum") if SMALL else SUMS:
            if name == "cumsum" and len(shape) == 1:
                continue  # one thread does it
            a, b = getattr(there, name)(dim), getattr(t, name)(dim)
            same(f"{name} {shape} {dim}", a.float(), b.float(), np.zeros(1))
    return ""


def products(dtype: str) -> str:
    """Products of whole and broken tiles, of operands as they are and transposed."""
    kind = getattr(lt, dtype)
    for m, n, k in PRODUCTS[::3] if SMALL else PRODUCTS:
        a = lt.randn(m, k, generator=lt.Generator().manual_seed(1)).to(kind)
        b = lt.randn(k, n, generator=lt.Generator().manual_seed(2)).to(kind)
        name, want, there = f"{m}x{n}x{k}", (a @ b).float(), b.to(DEVICE)
        same(name, (a.to(DEVICE) @ there).float(), want, np.zeros(1))
        columns = a.to(DEVICE).t().contiguous().t()
        same(f"{name} transposed", (columns @ there).float(), want, np.zeros(1))
    return ""


def all_checks() -> list[Check]:
    """Names and checks; each process makes its own numbers for its own slice."""
    found: list[Check] = []
    for kind in ("float16", "bfloat16"):
        found.append((f"halves {kind}", partial(halves, kind)))
    for source in (np.float32, np.float64):
        found.append((f"casts {source.__name__}", partial(casts, source)))
    for name in ("int8", "uint8", "int16", "int32", "int64"):
        found.append((f"integers {name}", partial(integers, name)))
    for dtype in ("float32", "float64", "bfloat16", "float16"):
        found.append((f"sums {dtype}", partial(sums, dtype)))
        found.append((f"products {dtype}", partial(products, dtype)))
    for source in (np.float32, np.float64):
        for names, work in ((UNARY, unary), (BINARY, binary)):
            found += [(f"{name} {source.__name__}", partial(work, name, source)) for name in names]
    return found


def merge(report: Report, number: int, names: list[str]) -> None:
    """Add what the process of a slice found; what it did not come to is skipped."""
    try:
        found = json.loads((OUT / f"numerics.{number}.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        report.fail(f"slice {number}", str(error))
        return
    report.data["passed"] += found["passed"]
    report.failed += found["failed"]
    done = found["passed"] + len(found["failed"]) + len(found["skipped"])
    report.skipped += [*found["skipped"], *names[done:]]


def main() -> None:
    """The checks of a slice, or all slices side by side."""
    checks = all_checks()
    number = os.environ.get("GPU_SLICE", "")
    if number:
        report = Report(f"numerics.{number}")
        for name, work in checks[int(number) :: SLICES]:
            report.check(name, work, 3)
        report.end()
    report = Report("numerics")
    command, limit = [sys.executable, "-m", "bench.gpu.steps.numerics"], str(left() - 5)
    children = [
        subprocess.Popen(
            command, env={**os.environ, "GPU_SLICE": str(n), "GPU_STEP_SECONDS": limit}
        )
        for n in range(SLICES)
    ]
    for n, process in enumerate(children):
        try:
            process.wait(max(1.0, left()))
        except subprocess.TimeoutExpired:
            process.kill()
        merge(report, n, [name for name, _ in checks[n::SLICES]])
    report.end(f"of {len(checks)}")


if __name__ == "__main__":
    main()
