"""C functions of numbers as functions of tensors: values, gradients, dtypes, devices, errors."""

from __future__ import annotations

import ctypes
import math
import pickle
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lazyt
from lazyt.errors import DTypeError, GradientError, ShapeError, SourceError
from tests import compilers
from tests.kernels import hostile_texts

LEAKY = "float leaky(float x) { return x > 0 ? x : 0.1f * x; }"
SWISH = "real swish(real x, real b) { return x / (1 + exp(-b * x)); }"


@pytest.mark.parametrize(("text", "part"), hostile_texts.NO_C, ids=lambda v: repr(v)[:40])
def test_what_is_no_c_is_refused(text: Any, part: str) -> None:
    with pytest.raises(SourceError) as caught:
        lazyt.c_function(text)
    assert part in str(caught.value) and len(str(caught.value)) < 1000


@pytest.mark.parametrize("case", hostile_texts.NO_SCALARS, ids=lambda c: c[0][:50])
def test_what_has_no_translation_is_refused_with_its_place(case: tuple[str, str, int, int]) -> None:
    text, part, line, column = case
    with pytest.raises(SourceError) as caught:
        lazyt.c_function(text)
    error = caught.value
    assert part in str(error)
    assert (error.line, error.column) == (line, column), str(error)
    assert f"line {line}, column {column}" in str(error)


#: Functions without those of math.h, whose bits a C compiler has to give, too.
ARITHMETIC = (
    "double f(float x, int n, long m) { return x * n + m / 3 - m % 7; }",
    "double f(float x, int n, long m) { return 2.0 * x + 0.1f * x; }",
    "double f(float x, int n, long m) { return (int)x + (unsigned char)n + (short)m; }",
    "double f(float x, int n, long m) { return -n / 4 + -n % 4 + (n >> 2) + (n << 3); }",
    "double f(float x, int n, long m) { return (n & 12) | (n ^ 5) | ~n; }",
    "double f(float x, int n, long m) { return n < 3 && m > 2 || !n; }",
    "double f(float x, int n, long m) { return (unsigned)n / 3u + (n < 4u) + (n > -1); }",
    "double f(float x, int n, long m) { return n * 1000000 + n * 100000L; }",
    "double f(float x, int n, long m) { if (x > 1) return 1; else if (n) return x; return m; }",
    """double f(float x, int n, long m) {
         double s = 0;
         for (int i = 0, j = 9; i < j; i += 2, --j) {
           if (i == 4) continue;
           s += x * i;
           if (s > n) break;
           s -= j;
         }
         return s;
       }""",
    """static float square(float x) { return x * x; }
       double f(float x, int n, long m) { float y = square(x) + square(n); return y * y; }""",
    """double f(float x, int n, long m) {
         const double c[] = {1, 0.5, 0.25, 0.125};
         double s = 0, b[4];
         for (int i = 3; i >= 0; i--) { s = s * x + c[i]; b[i] = s; }
         return s + b[1] - b[3];
       }""",
    """double f(float x, int n, long m) {
         int x1 = n;
         { float x1 = x; x1 += 1; if (x1 > 0) { n = 3; } else { n -= 1; m++; } }
         for (int k = 0; k < 2; k++) { int n = k; m += n; }
         return x1 + n + m;
       }""",
    "double f(float x, int n, long m) { bool b = x; b += 2; return b + (float)0x1.8p1 + 0xffu; }",
    "double f(float x, int n, long m) { n *= 2.5; m -= 0.5; n <<= 1; m ^= 6; return n + m; }",
    "double f(float x, int n, long m) { return m ? n ? 1 : 2 : n ? 3.5f : 4; }",
)


@pytest.mark.skipif(not compilers.words(), reason="needs a C compiler")
def test_functions_give_what_a_compiler_gives(tmp_path: Path) -> None:
    parts = ["#include <stdbool.h>"]
    for number, text in enumerate(ARITHMETIC):
        parts.append(text.replace(" f(", f" f{number}(").replace("square", f"square{number}"))
    source, library = tmp_path / "f.c", tmp_path / "f.so"
    source.write_text("\n".join(parts))
    options = ["-O0", "-ffp-contract=off", "-fwrapv", "-shared", "-fPIC", "-w"]
    subprocess.run([*compilers.words(), *options, "-o", str(library), str(source)], check=True)
    loaded = ctypes.CDLL(str(library))
    x = np.array([-2.5, -0.0, 0.3, 1.0, 7.25, 100.7], np.float32)
    n = np.array([-9, -1, 0, 1, 5, 77], np.int32)
    m = np.array([-(2**40), -7, 0, 3, 8, 2**35 + 1], np.int64)
    grid = [part.ravel() for part in np.meshgrid(x, n, m, indexing="ij")]
    tensors = [lazyt.from_numpy(part) for part in grid]
    for number, text in enumerate(ARITHMETIC):
        function = loaded[f"f{number}"]
        function.restype = ctypes.c_double
        function.argtypes = [ctypes.c_float, ctypes.c_int, ctypes.c_long]
        wanted = [function(a, b, c) for a, b, c in zip(*(part.tolist() for part in grid))]
        assert lazyt.c_function(text)(*tensors).tolist() == wanted, text


def test_functions_of_math_h_are_those_of_lazyt() -> None:
    x = lazyt.linspace(0.05, 0.95, 50)
    for name in ("exp", "expm1", "log", "log1p", "sqrt", "sin", "tanh", "erf", "lgamma", "acos"):
        found = lazyt.c_function(f"float f(float x) {{ return {name}f(x); }}")(x)
        assert (found == getattr(lazyt, name)(x)).all(), name
        wide = lazyt.c_function(f"double f(double x) {{ return {name}(x); }}")(x.double())
        assert (wide == getattr(lazyt, name)(x.double())).all(), name
    pairs = lazyt.c_function("float f(float x, float y) { return powf(x, y) + atan2f(x, y); }")
    y = x.flip(0) * 3
    assert (pairs(x, y) == lazyt.pow(x, y) + lazyt.atan2(x, y)).all()


def test_rounding_goes_away_from_zero_as_in_c() -> None:
    values = [-2.5, -0.5, -0.2, 0.49999997, 0.5, 1.5, 8388609.0, math.inf]
    found = lazyt.c_function("float f(float x) { return roundf(x); }")(lazyt.tensor(values))
    assert found.tolist() == [-3.0, -1.0, -0.0, 0.0, 1.0, 2.0, 8388609.0, math.inf]
    fdim = lazyt.c_function("double f(double x, double y) { return fdim(x, y); }")
    x, y = lazyt.tensor([1.0, 3.0, math.nan]).double(), lazyt.tensor([2.0, 1.0, 0.0]).double()
    assert fdim(x, y).tolist()[:2] == [0.0, 2.0] and math.isnan(fdim(x, y)[2].item())


def test_fma_rounds_once() -> None:
    x, y = lazyt.tensor([1 + 2.0**-13, 2.0]), lazyt.tensor([1 - 2.0**-13, 1e30])
    z = lazyt.tensor([-1.0, 1.0])
    fused = lazyt.c_function("float f(float x, float y, float z) { return fmaf(x, y, z); }")
    wanted = lazyt.tensor([-(2.0**-26), 2e30])
    assert (fused(x, y, z) == wanted).all() and (x * y + z)[0] == 0
    wide = lazyt.c_function("double f(double x, double y, double z) { return fma(x, y, z); }")
    third = lazyt.tensor([1 / 3], dtype=lazyt.float64)
    assert wide(third, third * 0 + 3, third * 0 - 1).tolist() == [-(2.0**-54)]
    rng = np.random.default_rng(0)
    a, b, c = (lazyt.from_numpy(rng.standard_normal(2000).astype(np.float32)) for _ in range(3))
    exact = (a.double() * b.double() + c.double()).float()  # rounds twice, rarely otherwise
    with lazyt.config.override(interpret=True):
        meant = fused(a, b, c).tolist()
    assert fused(a, b, c).tolist() == meant
    assert fused(a.to("cuda:emu"), b.to("cuda:emu"), c.to("cuda:emu")).tolist() == meant
    assert (fused(a, b, c) == exact).sum() > 1990
    a.requires_grad_()
    fused(a, b, c).sum().backward()
    assert a.grad is not None and (a.grad == b).all()


def test_gradients_follow_from_the_expression() -> None:
    swish = lazyt.c_function(SWISH)
    x = lazyt.randn(3, 1, dtype=lazyt.float64, requires_grad=True)
    b = lazyt.randn(4, dtype=lazyt.float64, requires_grad=True)
    assert lazyt.autograd.gradcheck(swish, (x, b))
    assert lazyt.autograd.gradgradcheck(swish, (x, b))
    _, tangent = lazyt.func.jvp(lambda x: swish(x, 2.0), (x.detach(),), (lazyt.ones_like(x),))
    slope = lazyt.func.vmap(lazyt.func.grad(lambda x: swish(x, 2.0)))(x.detach().flatten())
    assert lazyt.allclose(tangent.flatten(), slope)


def test_a_given_derivative_counts() -> None:
    step = lazyt.c_function(
        "float step(float x) { return x > 0; }",
        derivative="float d(float x) { float s = 1 / (1 + expf(-x)); return s * (1 - s); }",
    )
    x = lazyt.tensor([-1.0, 0.5, 2.0], requires_grad=True)
    y = step(x)
    y.sum().backward()
    assert x.grad is not None
    s = x.detach().sigmoid()
    assert y.tolist() == [0.0, 1.0, 1.0] and lazyt.allclose(x.grad, s * (1 - s))
    assert lazyt.allclose(lazyt.func.vmap(lazyt.func.grad(step))(x.detach()), x.grad)
    value, tangent = lazyt.func.jvp(step, (x.detach(),), (lazyt.ones(3) * 2,))
    assert value.tolist() == y.tolist() and lazyt.allclose(tangent, 2 * x.grad)


def test_a_derivative_may_be_a_function_of_tensors() -> None:
    seen = lazyt.c_function(
        "float f(float x, float y) { return x * y; }", derivative=lambda x, y: (y * 10, None)
    )
    x, y = lazyt.ones(2, 3, requires_grad=True), lazyt.arange(3.0, requires_grad=True)
    seen(x, y).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [[0.0, 10.0, 20.0]] * 2 and y.grad is None
    wrong = lazyt.c_function("float f(float x, float y) { return x; }", derivative=lambda x, y: x)
    with pytest.raises(GradientError, match="1 values for 2 arguments"):
        wrong(x, y).sum().backward()


def test_derivatives_that_do_not_fit_are_refused() -> None:
    with pytest.raises(SourceError, match="2 parameters, and as many derivatives: 1"):
        lazyt.c_function("float f(float x, float y) { return x; }", derivative=LEAKY)
    with pytest.raises(SourceError, match=r"takes the same parameters: \(float x\)"):
        lazyt.c_function(LEAKY, derivative="double d(double x) { return 1; }")


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "float64"])
def test_real_is_any_dtype_of_floats(name: str) -> None:
    dtype = getattr(lazyt, name)
    x = lazyt.linspace(-3, 3, 41).to(dtype)
    found = lazyt.c_function(SWISH)(x, 1.0)
    wide = x.to(lazyt.float32 if dtype.itemsize == 2 else dtype)
    assert found.dtype is dtype
    assert (found == (wide / (1 + (-1 * wide).exp())).to(dtype)).all()


def test_dtypes_are_those_of_the_text() -> None:
    leaky = lazyt.c_function(LEAKY)
    with pytest.raises(DTypeError, match=r"'x' must be float32, not float64.*declare .* real"):
        leaky(lazyt.ones(2, dtype=lazyt.float64))
    with pytest.raises(DTypeError, match="takes 1 arguments"):
        leaky(lazyt.ones(2), 1.0)
    with pytest.raises(DTypeError, match="a tensor or a number, not str"):
        leaky("1")  # type: ignore[arg-type]
    swish = lazyt.c_function(SWISH)
    with pytest.raises(DTypeError, match=r"have one dtype, not float32 .x. and float64 .b."):
        swish(lazyt.ones(2), lazyt.ones(2, dtype=lazyt.float64))
    with pytest.raises(DTypeError, match="of floating point, not int64"):
        swish(lazyt.arange(3), 1.0)
    with pytest.raises(ShapeError, match="must match the size"):
        swish(lazyt.ones(2), lazyt.ones(3))
    whole = lazyt.c_function("long f(long n) { return n * n; }")
    assert whole(lazyt.arange(3)).dtype is lazyt.int64 and whole(3).item() == 9
    with pytest.raises(DTypeError, match="whole numbers"):
        whole(1.5)


@pytest.mark.fused
def test_it_fuses_and_is_captured() -> None:
    leaky = lazyt.c_function(LEAKY)
    x = lazyt.randn(6, 5).realize()
    report = lazyt.explain((leaky(x * 2) + 1).sum(-1))
    assert len(report.kernels) == 1, report
    fast = lazyt.jit(lambda x: leaky(x) + 1)
    for _ in range(3):
        y = lazyt.randn(4)
        assert (fast(y) == leaky(y) + 1).all()
    assert fast.why() == ["captured"]


def test_it_runs_on_every_device_and_interpreted() -> None:
    swish = lazyt.c_function(SWISH)
    x = lazyt.randn(33)
    wanted = swish(x, 1.5).tolist()
    assert swish(x.to("cuda:emu"), 1.5).tolist() == wanted
    batch = lazyt.func.vmap(swish, in_dims=(0, None))(x.reshape(11, 3), 1.5)
    assert batch.flatten().tolist() == wanted
    with lazyt.config.override(interpret=True):
        interpreted = swish(x, 1.5)
        assert lazyt.allclose(interpreted, lazyt.tensor(wanted))


def test_it_can_be_pickled() -> None:
    leaky = pickle.loads(pickle.dumps(lazyt.c_function(LEAKY)))
    assert repr(leaky) == "<C function leaky(float x)>"
    assert leaky(lazyt.tensor([-1.0, 1.0])).tolist() == [np.float32(0.1) * -1, 1.0]


def test_long_functions_do_not_grow_with_each_use_of_a_value() -> None:
    """Written out as an expression, this one has 2^51 operations."""
    steps = (
        "float f(float c) { float x = 0; for (int i = 0; i < 50; i++) x = x * x + c; return x; }"
    )
    f = lazyt.c_function(steps)
    c = lazyt.tensor([0.2, -0.7, 0.1], requires_grad=True)
    found = f(c)
    (slope,) = lazyt.autograd.grad(found.sum(), c)
    x = slopes = lazyt.zeros(3)
    for _ in range(50):
        x, slopes = x * x + c.detach(), 2 * x * slopes + 1
    assert found.tolist() == x.tolist()
    assert slope is not None and slope.tolist() == pytest.approx(slopes.tolist(), rel=1e-5)
    assert f(lazyt.full((2, 3), 0.1)).shape == (2, 3)
