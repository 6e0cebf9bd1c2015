"""C functions of numbers on arrays: each element takes the steps that the text says."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from lazyt.codegen.prelude import function_names, sections_for
from lazyt.errors import SourceError
from lazyt.ir.scalar import FUNCTIONS
from lazyt.runtime.c_functions import Library


def run(text: str, *arrays: Any, name: str = "f") -> Any:
    """The function ``f`` of a text on arrays."""

    def sections(names: Sequence[str]) -> list[tuple[str, str]]:
        return [("base", "no C"), ("f", text)]

    with np.errstate(all="ignore"):
        return Library(sections).call(name, *arrays)


def doubles(*numbers: float) -> Any:
    return np.array(numbers)


def test_branches_and_returns() -> None:
    text = """
    lz_f64 f(lz_f64 x) {
      if (x < 0) return -x;
      lz_f64 y = x;
      if (x > 2) y = x * x;
      else if (x > 1) { y = 10; }
      return y + 1;
    }"""
    assert run(text, doubles(-3, 0.5, 1.5, 3, math.nan))[:4].tolist() == [3, 1.5, 11, 10]


def test_loops_with_break_continue_and_return() -> None:
    text = """
    lz_f64 f(lz_f64 x, lz_f64 n) {
      lz_f64 sum = 0;
      for (int k = 0; k < 10; k++) {
        if (k >= n) break;
        if (k == 2) continue;
        sum += k;
        if (sum > x) return -sum;
      }
      while (sum > 5) sum -= 1.5;
      return sum;
    }"""

    def expected(x: float, n: float) -> float:
        total = 0.0
        for k in range(10):
            if k >= n:
                break
            if k == 2:
                continue
            total += k
            if total > x:
                return -total
        while total > 5:
            total -= 1.5
        return total

    x, n = np.meshgrid(np.arange(0.0, 60, 7), np.arange(0.0, 12))
    wanted = [expected(*pair) for pair in zip(x.reshape(-1).tolist(), n.reshape(-1).tolist())]
    assert run(text, x, n).reshape(-1).tolist() == wanted


def test_pointers_give_values_back_also_for_some_elements() -> None:
    text = """
    void turn(lz_f64 *a, lz_f64 *b) { *a += *b; *b = 2; }
    lz_f64 part(lz_f64 x, lz_f64 *rest) { *rest = x - 1; return x * 2; }
    lz_f64 f(lz_f64 x) {
      lz_f64 r, y = part(x, &r), kept = x;
      if (x > 1) { turn(&y, &kept); }
      return y * 100 + r * 10 + kept;
    }"""
    wanted = [200 * 0.5 - 5 + 0.5, 100 * (6 + 3) + 20 + 2]
    assert run(text, doubles(0.5, 3)).tolist() == wanted


def test_variables_that_share_a_value_are_changed_apart() -> None:
    text = """
    lz_f64 f(lz_f64 x) {
      lz_f64 a = x, b = a;
      for (int k = 0; k < x; k++) { a = a + 1; b = a; if (k == 1) a = 0; }
      return a * 100 + b;
    }"""
    assert run(text, doubles(0, 1, 2, 3)).tolist() == [0, 202, 4, 101]


def test_tables_and_choices() -> None:
    text = """
    lz_f64 f(lz_f64 x) {
      static const lz_f64 values[3] = {0.5, 1.5, 2.5};
      int k = (int)x;
      return k < 3 && k >= 0 ? values[k] : -1;
    }"""
    assert run(text, doubles(0, 2.9, 7, -4)).tolist() == [0.5, 2.5, -1, -1]


def test_a_function_behind_a_choice_runs_for_those_that_need_it() -> None:
    text = """
    lz_f64 lz_count(lz_f64 x) { lz_f64 n = 0; while (x != 0) { x -= 1; n += 1; } return n; }
    lz_f64 f(lz_f64 x) { return x >= 0 ? lz_count(x) : -1; }"""
    assert run(text, doubles(3, -0.5, 5)).tolist() == [3, -1, 5]  # -0.5 would never end
    assert run(text, doubles(-2.5)).tolist() == [-1]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("(lz_u32)-1 >> 28", 15),
        ("-7 / 2 * 10 + -7 % 3", -31),
        ("(lz_u8)300 + (lz_i8)200", 44 - 56),
        ("1u - 2u > 0", 1),
        ("(lz_i64)1 << 40 >> 38", 4),
        ("0xffffffffu + 1", 0),
        ("0x80000000 / 2", 1 << 30),
        ("3000000000 / 1000", 3_000_000),
        ("~0 & 6 ^ 3", 5),
        ("(x < 5) + (x < 6) * 2", 3),
        ("!x + !!x * 4", 4),
        ("sizeof(lz_f32) * 2", 8),
        ("1 / 2 + 1 / 2.0 + 1.0f / 4", 0.75),
        ("(lz_i32)3000000000u", 3_000_000_000 - 2**32),
        ("(x, 7)", 7),
        ("x == 3 || x / 0 > 1", 1),
        ("0x1.8p3 + 0x1p-1f", 12.5),
    ],
)
def test_arithmetic_has_the_types_of_c(text: str, wanted: float) -> None:
    found = run(f"lz_f64 f(lz_i32 x) {{ return {text}; }}", np.array([3], np.int32))
    assert found.tolist() == [wanted]


def test_floats_are_rounded_to_their_type_at_every_step() -> None:
    text = "lz_f32 f(lz_f32 x) { lz_f32 y = x * x - 1; return y + (lz_f32)0.1; }"
    x = np.float32(1.0001)
    assert run(text, x) == (x * x - np.float32(1)) + np.float32(0.1)
    wide = "lz_f32 f(lz_f32 x) { return x * x - 1.0; }"
    assert run(wide, x) == np.float32(np.float64(x * x) - 1)


def test_fused_steps_and_conditions_of_the_compiler() -> None:
    text = """
    #define unused(x) \\
      ((x) + 1)
    #ifdef LZ_FUSED
    lz_f64 f(lz_f64 x) { return LZ_FMA_F64(x, x, -(x * x)); }
    #else
    lz_f64 f(lz_f64 x) { return 0; }
    #endif"""
    assert run(text, doubles(1 + 2.0**-30)).tolist() == [2.0**-60]


def test_results_have_the_shapes_of_broadcast_arguments() -> None:
    text = "lz_f64 f(lz_f64 x, lz_f64 y) { if (x > y) return x; return y; }"
    found = run(text, np.arange(3.0), np.arange(2.0)[:, None])
    assert found.tolist() == [[0, 1, 2], [1, 1, 2]]
    assert run(text, np.float64(1), np.float64(2)).shape == ()
    assert run(text, np.zeros((0, 2)), np.float64(2)).shape == (0, 2)


@pytest.mark.parametrize(
    "text",
    [
        "lz_f64 f(lz_f64 x) { return sin(x); }",
        "lz_f64 f(lz_f64 x) { return y; }",
        "lz_f64 f(lz_f64 x) { struct s { int a; } b; return x; }",
        "lz_f64 f(lz_f64 x) { switch (1) { default: return x; } }",
        "lz_f64 f(lz_f64 x) { return x",
        "lz_f64 f(lz_f64 x) { lz_f64 a[2]; a[0] = x; return a[0]; }",
        "lz_f64 f(lz_f64 *x) { return x[0]; }",
    ],
)
def test_what_is_no_function_of_numbers_is_refused(text: str) -> None:
    with pytest.raises(SourceError):
        run(text, doubles(1.0))


def test_the_text_of_every_scalar_function_runs() -> None:
    library, sections = Library(sections_for), frozenset(function_names())
    for name, function in FUNCTIONS.items():
        for suffix, kind in (("f32", np.float32), ("f64", np.float64)):
            if f"lz_{name}_{suffix}" in sections:
                given = [np.array([0.25, 0.75, 1.5], kind)] * function.arity
                with np.errstate(all="ignore"):
                    found = library.call(f"lz_{name}_{suffix}", *given)
                assert found.shape == (3,)
