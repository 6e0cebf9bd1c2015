"""Programs that C compilers got wrong: each failed once with gcc 12, by a crash or a bit."""

from __future__ import annotations

import platform
import subprocess
from pathlib import Path

import numpy as np
import pytest

import lazyt as lt
import tests.codegen.prelude_harness as harness


@pytest.mark.parametrize("count", [2, 3, 4, 5, 8, 12, 40])
def test_rounding_to_float32_and_back_is_kept(count: int) -> None:
    """Vectors of straight-line code lost the rounding in the middle."""
    x = lt.tensor(np.linspace(0.1, 0.7, count) ** 2)
    y = x.float().double()
    got = (y * 3 - y.max()).numpy()
    rounded = x.numpy().astype(np.float32).astype(np.float64)
    np.testing.assert_array_equal(got, rounded * 3 - rounded.max())


def test_clearing_a_small_array_on_the_stack() -> None:
    """Stores that need an aligned address went to one that is not."""
    rng = np.random.default_rng(0)
    a = rng.integers(0, 255, (1, 2, 17, 5)).astype(np.uint8)
    b = rng.integers(0, 255, (2, 5)).astype(np.uint8)
    got = lt.einsum("abcd,be->edca", lt.from_numpy(a), lt.from_numpy(b))
    np.testing.assert_array_equal(got.numpy(), np.einsum("abcd,be->edca", a, b))


@pytest.mark.skipif(
    platform.machine() != "x86_64" or harness.compiler() is None, reason="reads x86-64 code"
)
@pytest.mark.parametrize("word", ["max", "min"])
def test_the_larger_of_two_numbers_is_one_instruction(word: str, tmp_path: Path) -> None:
    """Not a branch that depends on which it is: at the ends of rows that took most of the time."""
    name = f"lz_{word}imum_f32"
    text = (
        f"{harness.prelude_text([name])}\nlz_f32 f(lz_f32 x, lz_f32 y) {{ return {name}(x, y); }}"
    )
    (tmp_path / "f.c").write_text(text)
    flags = ["-O3", "-fno-trapping-math", "-S", "-o", "-"]
    command = [str(harness.compiler()), *flags, str(tmp_path / "f.c")]
    assembly = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert f"{word}ss" in assembly
