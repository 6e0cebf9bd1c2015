"""Functions of two texts: which one an element takes, and kernels that call them."""

from __future__ import annotations

import platform
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

import lazyt as lt
import tests.codegen.prelude_harness as harness
from lazyt import ops
from lazyt.codegen.prelude import function_names, sections_for
from lazyt.compiler import compile_graph
from lazyt.ir.dtypes import float32

needs_compiler = pytest.mark.skipif(harness.compiler() is None, reason="needs a C compiler")


@needs_compiler
def test_vectors_and_single_numbers_take_the_same_path(tmp_path: Path) -> None:
    """What an element becomes depends on it alone, not on who shares its vector."""
    names = [name for name in function_names() if re.search(r"^lz_paths2?_f", _body(name), re.M)]
    assert {"lz_sin_f32", "lz_fmod_f64"} <= {*names}
    text, loops = harness.prelude_text(names), ""
    for name in names:
        arguments = [name[-3:]] * (2 if "lz_paths2_" in _body(name) else 1)
        loops += harness.loop(name, arguments, name[-3:], simd=True)
    assert "defined(_OPENMP)" in text
    fast, _ = harness.build(tmp_path, "fast", text + loops, harness.FLAGS)
    plain = text.replace("defined(_OPENMP)", "0") + loops
    slow, _ = harness.build(tmp_path, "slow", plain, harness.FLAGS)
    for name in names:
        count = 2 if "lz_paths2_" in _body(name) else 1
        x = [_samples(name[-3:], seed) for seed in range(count)]
        got, want = (harness.apply(lib, name, name[-3:], *x) for lib in (fast, slow))
        np.testing.assert_array_equal(got, want, name)
        number = ~np.isnan(want)
        np.testing.assert_array_equal(np.signbit(got[number]), np.signbit(want[number]), name)


@needs_compiler
@pytest.mark.skipif(
    platform.machine() != "x86_64" or "clang" in harness.compiler_version(),
    reason="vectors as functions are gcc's, on x86-64",
)
@pytest.mark.parametrize(
    ("level", "lanes"), [("x86-64-v3", ["dN8", "dN4"]), ("x86-64-v4", ["eN16", "eN8"])]
)
def test_loops_call_functions_of_whole_vectors(
    tmp_path: Path, level: str, lanes: list[str]
) -> None:
    """AVX-512 by half vectors took twice as long. Narrow ones are for what is left of a row."""
    names = ["lz_sin_f32", "lz_sin_f64", "lz_fmod_f32"]
    loops = [
        harness.loop(name, [name[-3:]] * (1 + ("fmod" in name)), name[-3:], simd=True)
        for name in names
    ]
    path = tmp_path / "loops.c"
    path.write_text(harness.prelude_text(names) + "".join(loops))
    flags = [flag for flag in harness.FLAGS if flag not in ("-march=native", "-shared")]
    cc = str(harness.compiler())
    command = [cc, *flags, f"-march={level}", "-S", str(path), "-o", str(path.with_suffix(".s"))]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    called = set(re.findall(r"call\s+(_ZGV\w+)", path.with_suffix(".s").read_text()))
    single, double = lanes
    wanted = {f"_ZGV{single}v_one_lz_sin_f32", f"_ZGV{double}v_one_lz_sin_f64"}
    assert {*wanted, f"_ZGV{single}vv_one_lz_fmod_f32"} <= called
    if level == "x86-64-v4":
        assert "_ZGVeN8v_one_lz_sin_f32" in called


def _samples(suffix: str, seed: int) -> np.ndarray:
    """Numbers of all sizes, near each other and far apart, among what is no number."""
    rng, dtype = np.random.default_rng(seed), harness.C_TYPES[suffix]
    edges = np.array([0, -0.0, np.inf, -np.inf, np.nan, 1e-40, 1e5, -1048576, 5, 8, 2.5, 1e30])
    usual = rng.normal(size=2000) * np.exp(rng.normal(size=2000))
    far = rng.normal(size=1000) * np.exp(rng.normal(size=1000) * 20)
    mixed = rng.permutation(np.concatenate([usual, far, np.repeat(edges, 40)]))
    return np.concatenate([usual, far, mixed, rng.uniform(-1, 1, 1001)]).astype(dtype)


def _body(name: str) -> str:
    return dict(sections_for([name]))[name]


def test_functions_with_two_paths_are_called_under_no_condition() -> None:
    """gcc vectorises no loop that calls them sometimes; what is read stays under the condition."""
    x = ops.input_((64, 64), float32)
    zero, one = ops.constant(0.0, float32), ops.constant(1.0, float32)
    chosen = ops.apply("where", ops.apply("eq", x, zero), one, ops.apply("sin", x))
    padded = ops.pad(ops.apply("cos", x), (0, 2), (0, 2), (0, 0), 0.0)
    program, _ = compile_graph([chosen, ops.apply("add", padded, one)], [x])
    text = "".join(kernel.text for kernel in program.kernels)
    assert all(f"lz_{name}_f32" in text for name in ("sin", "cos", "select"))
    assert not re.search(r"\? \(lz_(sin|cos)_f32", text)


def test_choices_after_both_sides_are_the_choices() -> None:
    values = np.linspace(-3, 3, 101).astype(np.float32)
    x = lt.tensor(values)
    sinc = lt.where(x == 0, 1.0, lt.sin(x) / lt.where(x == 0, 1.0, x))
    got = (lt.nn.functional.pad(sinc, (1, 2)) + 1).numpy()
    with np.errstate(invalid="ignore"):
        want = np.where(values == 0, 1, np.sin(values) / np.where(values == 0, 1, values))
    np.testing.assert_allclose(got, np.pad(want, (1, 2)) + 1, rtol=1e-6)
