"""Builds the prelude's functions and long double references into shared objects for the tests."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np

from lazyt.codegen.prelude import sections_for


def words(text: str) -> list[str]:
    """The words of ``text``; keeps long tables of names readable."""
    return text.split()


FLAGS = words(
    "-std=c11 -O3 -march=native -ffp-contract=off -fno-math-errno -fno-trapping-math "
    "-fopenmp -fPIC -shared"
)
C_TYPES: dict[str, type[np.generic]] = {
    "b8": np.uint8, "u8": np.uint8, "u16": np.uint16, "u32": np.uint32, "u64": np.uint64,
    "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64,
    "f16": np.uint16, "bf16": np.uint16, "f32": np.float32, "f64": np.float64,
}  # fmt: skip

# What a function is called in libm, or its value in terms of x (and y), R being the wide type.
REFERENCES = {
    "rsqrt": "1 / F(sqrt)(x)", "reciprocal": "1 / x", "sigmoid": "1 / (1 + F(exp)(-x))",
    "erfinv": "newton_erfinv(x, got)", "digamma": "digamma(x)", "round": "F(rint)(x)",
    "abs": "F(fabs)(x)", "neg": "-x", "mod": "remainder_mod(x, y)",
}  # fmt: skip

_REFERENCE_HEAD = """
#include <math.h>
typedef long double R;
static R newton_erfinv(R x, R got) {
  if (fabsl(x) >= 1) return fabsl(x) == 1 ? x * INFINITY : NAN;
  if (x == 0 || isnan(x)) return x;
  R a = fabsl(x), y = isfinite(got) && got != 0 ? fabsl(got) : 1;
  for (int i = 0; i < 3; i++) {
    R off = a < 0.5L ? erfl(y) - a : (1 - a) - erfcl(y);
    y -= off * 0.886226925452758013649083741670572591L * expl(y * y);
  }
  return copysignl(y, x);
}
static R digamma(R x) {
  if (x == 0) return copysignl(INFINITY, -x);
  if (x < 0) {
    R r = x - rintl(x);
    if (r == 0 || isinf(x)) return NAN;
    return digamma(1 - x) - M_PIl / tanl(M_PIl * r);
  }
  R sum = 0;
  for (; x < 40; x += 1) sum -= 1 / x;
  R z = 1 / (x * x);
  R p = 1 / 12.0L - z * (1 / 120.0L - z * (1 / 252.0L - z * (1 / 240.0L - z * (1 / 132.0L
      - z * (691 / 32760.0L - z / 12)))));
  return sum + logl(x) - 0.5L / x - z * p;
}
static R remainder_mod(R x, R y) {
  R r = fmodl(x, y);
  return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}
"""

# The error in units in the last place of T at the true value; infinite when a special value (NaN,
# infinity, the sign of zero) is wrong. An infinite result counts as the power of two it stands for.
_REFERENCE = """
double worst_{name}(const {T} *xs, const {T} *ys, const {T} *gots, long n, long *where) {{
  double worst = -1;
  for (long i = 0; i < n; i++) {{
    {R} x = xs[i], y = ys[i], got = gots[i], want = {value};
    {T} rounded = ({T})want;
    double error;
    (void)y;
    if (isnan(rounded) || isnan(got)) error = isnan(rounded) && isnan(got) ? 0 : INFINITY;
    else if (want == 0) error = got == 0 && signbit(want) == signbit(got) ? 0 : INFINITY;
    else if (isinf(rounded) && isinf(got)) error = (want > 0) == (got > 0) ? 0 : INFINITY;
    else if (isinf(want)) error = INFINITY;
    else if (got == 0 && signbit(want) != signbit(got)) error = INFINITY;
    else {{
      if (isinf(got)) got = copysign(ldexp(1.0, {top}), got);
      int e = ilogb(want) < {low} ? {low} : ilogb(want);
      error = (double)fabsl(({R})(got - want)) / ldexp(1.0, e > -1000 ? e - {digits} : 0);
      if (e <= -1000) error = (double)ldexpl((long double)fabsl(got - want), {digits} - e);
    }}
    if (error > worst) worst = error, *where = i;
  }}
  return worst;
}}
"""


def compiler() -> str | None:
    """The C compiler the tests use, or None."""
    return shutil.which(os.environ.get("CC", "cc")) or shutil.which("gcc")


def compiler_version() -> str:
    """What the compiler says it is."""
    return subprocess.run([str(compiler()), "--version"], capture_output=True, text=True).stdout


def build(folder: Path, name: str, source: str, flags: list[str]) -> tuple[ctypes.CDLL, str]:
    """Compile ``source`` and load it; also returns what the compiler printed."""
    cc = compiler()
    assert cc is not None
    path = folder / f"{name}.c"
    path.write_text(source)
    command = [cc, *flags, str(path), "-o", str(folder / f"{name}.so"), "-lm"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return ctypes.CDLL(str(folder / f"{name}.so")), done.stderr


def prelude_text(functions: list[str]) -> str:
    """The sections of ``functions`` as one text."""
    return "".join(text for _, text in sections_for(functions))


def loop(function: str, arguments: list[str], result: str, simd: bool = True) -> str:
    """A C function that applies one of the prelude's to arrays."""
    pragma = "#pragma omp simd\n" if simd else ""
    names = ["a", "b", "c"][: len(arguments)]
    pointers = ", ".join(f"const lz_{t} *restrict {n}" for n, t in zip(names, arguments))
    values = ", ".join(f"{n}[i]" for n in names)
    return (
        f"void loop_{function}({pointers}, lz_{result} *restrict out, long n) {{\n"
        f"{pragma}  for (long i = 0; i < n; i++) out[i] = {function}({values});\n}}\n"
    )


def apply(lib: ctypes.CDLL, function: str, result: str, *arrays: np.ndarray) -> np.ndarray:
    """Run ``loop_<function>`` over ``arrays``."""
    kept = [np.ascontiguousarray(array) for array in arrays]
    out = np.empty(kept[0].size, C_TYPES[result])
    pointers = [ctypes.c_void_p(array.ctypes.data) for array in (*kept, out)]
    getattr(lib, f"loop_{function}")(*pointers, ctypes.c_long(out.size))
    return out


def reference_text(function: str) -> str:
    """The C text of ``worst_<function>``, which measures errors against a wider type."""
    name, suffix = function.removeprefix("lz_").rsplit("_", 1)
    wide = suffix == "f64" or name in ("erfinv", "digamma", "lgamma", "hypot", "mod")
    two = name in ("pow", "atan2", "hypot", "fmod", "copysign", "fmax", "fmin")
    value = REFERENCES.get(name, f"F({name})(x, y)" if two else f"F({name})(x)")
    value = value.replace("F(", "WIDE(" if wide else "(")
    small = suffix == "f32"
    return (
        _REFERENCE.format(
            name=function,
            T="float" if small else "double",
            R="long double" if wide else "double",
            value=value,
            top=128 if small else 1024,
            low=-126 if small else -1022,
            digits=23 if small else 52,
        )
        .replace("ldexp(1.0, 1024)", "ldexpl(1.0L, 1024)")
        .replace("copysign(ld", "copysignl(ld")
    )


def reference_source(functions: list[str]) -> str:
    """One C file with the references of all ``functions``."""
    head = _REFERENCE_HEAD + "#define WIDE(f) f##l\n"
    return "#define _GNU_SOURCE\n" + head + "".join(reference_text(f) for f in functions)


def worst(
    lib: ctypes.CDLL, function: str, x: np.ndarray, y: np.ndarray, got: np.ndarray
) -> tuple[float, int]:
    """The largest error of ``got`` in units in the last place, and its index."""
    measure = getattr(lib, f"worst_{function}")
    measure.restype = ctypes.c_double
    where = ctypes.c_long(0)
    pointers = [ctypes.c_void_p(array.ctypes.data) for array in (x, y, got)]
    return measure(*pointers, ctypes.c_long(x.size), ctypes.byref(where)), where.value
