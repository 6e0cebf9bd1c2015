"""Programs that C compilers got wrong: each failed once with gcc 12, by a crash or a bit."""

from __future__ import annotations

import platform
import subprocess
from pathlib import Path
from typing import Any

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


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int8])
@pytest.mark.parametrize("shape", [(17, 2), (50, 3), (46, 4), (33, 5)])
def test_neighbours_that_are_chosen_each_by_its_own_condition(
    shape: tuple[int, int], dtype: type
) -> None:
    """All of them were read under the mask of the first."""
    rng = np.random.default_rng(0)
    a: np.ndarray[Any, Any] = rng.integers(-99, 99, shape).astype(dtype)
    b: np.ndarray[Any, Any] = rng.integers(-99, 99, shape).astype(dtype)
    chosen = rng.random(shape) < 0.5
    x, y, c = (lt.from_numpy(v).clone().realize() for v in (a, b, chosen))
    with lt.config.override(any_size=False):
        np.testing.assert_array_equal(lt.where(c, x, y).numpy(), np.where(chosen, a, b))
        np.testing.assert_array_equal(x.masked_fill(c, 7).numpy(), np.where(chosen, 7, a))
        pair = lt.where(c[:, 0], x[:, 0], x[:, 1]) - lt.where(c[:, 1], x[:, 1], y[:, 0])
        first = np.where(chosen[:, 0], a[:, 0], a[:, 1])
        second = np.where(chosen[:, 1], a[:, 1], b[:, 0])
        np.testing.assert_array_equal(pair.numpy(), first - second)
