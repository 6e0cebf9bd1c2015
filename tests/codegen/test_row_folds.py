"""Folds of short rows as they lie in memory, and positions of extremes as two folds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import lazyt as lt
from lazyt import ops
from lazyt.codegen.proof.c_bounds import argument_bytes, check_kernel_c
from lazyt.config import config
from lazyt.ir.dtypes import float32, float64
from lazyt.plan import planning
from tests.codegen.kernel_corpus import Printed, print_kernels

SHAPES = [(70, 17), (203, 33), (64, 64), (9, 8, 41)]


def _special(shape: tuple[int, ...], dtype: str) -> Any:
    """Numbers with ties, both zeros, infinities and NaN, and rows of one value."""
    source = np.random.default_rng(shape[-1])
    values = source.integers(-4, 4, shape).astype(dtype) / 2
    for value in (np.nan, np.inf, -np.inf, -0.0):
        values[source.random(shape) < 0.01] = value
    rows = values.reshape(-1, shape[-1])
    for row, value in zip(rows[1:], (-0.0, 0.0, np.nan, np.inf, -np.inf), strict=False):
        row[:] = value
    return values


def _folds(x: Any) -> list[Any]:
    results = [x.sum(-1), x.amax(-1), x.amin(-1), x.argmax(-1), x.argmin(-1)]
    results += [(x * x).sum(-1), (x - 1).amax(-1), (-0.0 * x.abs()).sum(-1), x.prod(-1)]
    results += [(x < 1).all(-1), (x > 1.5).any(-1), (x > 0).sum(-1), x.logsumexp(-1)]
    results += [(x * x).argmin(-1), (x.exp() + x).argmax(-1)]
    return [t.numpy() for t in results]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", SHAPES)
def test_short_rows_fold_to_the_same_bits(
    shape: tuple[int, ...], dtype: str, monkeypatch: Any
) -> None:
    x = lt.from_numpy(_special(shape, dtype))
    with monkeypatch.context() as patched:
        patched.setattr(config, "verify", True)
        got = _folds(x)
    with monkeypatch.context() as patched:
        patched.setattr("lazyt.codegen.c.steps.lanes_across_rows", lambda phase, expressions: phase)
        patched.setattr("lazyt.codegen.c.steps.transposes_of", lambda *given: [])
        patched.setattr("lazyt.codegen.c.steps.split_positions", lambda phase, whole: phase)
        patched.setattr(config, "disk_cache", False)
        planning.clear()
        want = _folds(x)
    planning.clear()
    for one, other in zip(got, want, strict=True):
        np.testing.assert_array_equal(one, other)
        number = one == one
        assert np.array_equal(np.signbit(one[number]), np.signbit(other[number]))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "int64"])
@pytest.mark.parametrize("shape", [(1300,), (40, 1100), (5, 300), (1100, 6)])
def test_positions_are_the_first_of_the_extremes(shape: tuple[int, ...], dtype: str) -> None:
    values = _special(shape, "float32") if shape[-1] > 6 else _special(shape[::-1], "float32").T
    if "int" in dtype:
        values = np.nan_to_num(values, posinf=5, neginf=-5)
    values = np.ascontiguousarray(values.astype(dtype))
    x = lt.from_numpy(values)
    for axis in range(len(shape)):
        assert np.array_equal(x.argmax(axis).numpy(), values.argmax(axis))
        assert np.array_equal(x.argmin(axis).numpy(), values.argmin(axis))


def test_a_position_is_an_index_and_a_number(monkeypatch: Any) -> None:
    """What reads the position in the same kernel reads 64 bits of it."""
    monkeypatch.setattr(config, "verify", True)
    values = _special((50, 90), "float64")
    x = lt.from_numpy(values)
    places = values.argmax(1)
    assert np.array_equal((x.argmax(1) * 2**33 + 1).numpy(), places * 2**33 + 1)
    picked = x.gather(1, x.argmax(1, keepdim=True))
    np.testing.assert_array_equal(picked.numpy()[:, 0], values[np.arange(50), places])


def _printed(kind: str, shape: tuple[int, int], dtype: Any = float32) -> Printed:
    (printed,) = print_kernels([ops.reduce_(kind, ops.input_(shape, dtype), (1,))])
    return printed


@pytest.mark.parametrize(
    ("kind", "shape", "dtype", "function"),
    [
        ("sum", (300, 17), float32, "lz_short_sum_f32"),
        ("min", (300, 64), float64, "lz_short_min_f64"),
        ("argmax", (300, 40), float32, "lz_short_argmax_f32"),
        ("prod", (300, 17), float32, "lz_across_f32"),
        ("argmax", (300, 90), float32, "r0_where"),
    ],
)
def test_which_form_a_fold_of_rows_has(
    kind: str, shape: tuple[int, int], dtype: Any, function: str
) -> None:
    assert function in _printed(kind, shape, dtype).c.source.text


@pytest.mark.parametrize(
    ("old", "new"),
    [("(run, 17", "(64, 17"), ("17, r0)", "18, r0)"), ("run, 17, x0", "run, 18, x0"),
     ("r0[64]", "r0[63]")],
)  # fmt: skip
def test_a_fold_beyond_its_memory_is_found(old: str, new: str) -> None:
    printed = _printed("sum", (300, 17))
    assert old in printed.c.source.text
    sizes = argument_bytes(printed.kernel, printed.c.workspace, printed.c.offsets)
    assert not check_kernel_c(printed.c.source.text, sizes)
    assert check_kernel_c(printed.c.source.text.replace(old, new, 1), sizes)
