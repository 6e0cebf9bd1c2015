"""Tiles that take several steps of sums at once, and loops that are cut where an index divides."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import lazyt as lt
from lazyt import ops
from lazyt.codegen.c.target import print_kernel_c
from lazyt.codegen.proof.c_bounds import check_kernel_c
from lazyt.compiler import compile_graph
from lazyt.config import config
from lazyt.ir.dtypes import float32
from lazyt.ir.graph import Node
from lazyt.nn import functional as F


def _text(root: Node, *inputs: Node) -> str:
    program, _ = compile_graph([root], list(inputs))
    return "\n".join(kernel.text for kernel in program.kernels)


def test_steps_of_a_sum_share_what_they_load() -> None:
    """Four rows at once where the tile is whole rows, eight where it is a part of each."""
    x = ops.input_((64, 2048, 128), float32)
    assert _text(ops.reduce_("sum", x, (1,)), x).count("+ x0[") == 4
    x = ops.input_((2, 2048, 16384), float32)
    assert _text(ops.reduce_("sum", x, (1,)), x).count("+ x0[") == 8


@pytest.mark.parametrize(
    ("columns", "tile", "others"),
    [(100, 100, 100), (128, 64, 64), (256, 128, 64), (600, 320, 192), (768, 192, 192),
     (1024, 256, 256), (4096, 512, 512)],
)  # fmt: skip
def test_few_columns_are_shared_out_too(columns: int, tile: int, others: int) -> None:
    """Among two threads, and among four and more; each gets as many of a few tiles."""
    x = ops.input_((1024, columns), float32)
    (kernel,) = compile_graph([ops.reduce_("sum", x, (0,))], [x])[1]
    for threads, wanted in ((2, tile), (4, others), (64, others)):
        caches = (32 << 10, 1 << 20, 32 << 20)
        text = print_kernel_c(kernel, 64, caches, threads=threads).source.text
        assert f"lz_f32 r0[{wanted}];" in text, threads


def test_weights_of_channels_are_read_once_a_channel() -> None:
    x, w = ops.input_((4, 32, 512), float32), ops.input_((32,), float32)
    y = ops.reshape(
        ops.apply("mul", x, ops.expand(ops.reshape(w, (1, 32, 1)), x.shape)), (4, 16384)
    )
    total = ops.reduce_("sum", y, (1,))
    scaled = ops.apply("div", y, ops.expand(ops.reshape(total, (4, 1)), y.shape))
    loops = _text(scaled, x, w).split("omp simd")[1:]
    bodies = [body for loop in loops if "x0[" in (body := loop[: loop.index("}")])]
    assert len(bodies) == 2
    for body in bodies:
        assert not re.search(r"\(i\d+ [/%]", body), body


CASES: list[tuple[tuple[int, ...], int]] = [
    ((130, 70), 0), ((2, 300, 600), 1), ((1030, 40), 0), ((2100, 33), 0), ((3, 128, 1000), 1),
]  # fmt: skip


@pytest.mark.parametrize(("shape", "axis"), CASES)
def test_columns(shape: tuple[int, ...], axis: int, monkeypatch: Any) -> None:
    """Values against float64, and the same bits in one kernel and in several."""
    monkeypatch.setattr(config, "verify", True)
    values = np.random.default_rng(shape[0]).standard_normal(shape, dtype=np.float32)

    def compute() -> list[Any]:
        x = lt.from_numpy(values)
        y = (x - x.mean(axis, keepdim=True)) / (x.var(axis, keepdim=True) + 1).sqrt()
        return [t.numpy() for t in (x.sum(axis), x.amax(axis), y, x.softmax(axis))]

    together = compute()
    config.eager = True
    try:
        alone = compute()
    finally:
        config.eager = False
    for one, other in zip(together, alone, strict=True):
        assert np.array_equal(one, other)
    wide = values.astype(np.float64)
    shifted = np.exp(wide - wide.max(axis, keepdims=True))
    normal = wide - wide.mean(axis, keepdims=True)
    want = [
        wide.sum(axis),
        wide.max(axis),
        normal / np.sqrt(wide.var(axis, ddof=1, keepdims=True) + 1),
        shifted / shifted.sum(axis, keepdims=True),
    ]
    for got, right in zip(together, want, strict=True):
        np.testing.assert_allclose(got, right, rtol=2e-6, atol=2e-5)


@pytest.mark.parametrize(("shape", "groups"), [((2, 8, 8, 16), 2), ((2, 12, 7, 9), 3)])
def test_groups_of_channels(shape: tuple[int, ...], groups: int, monkeypatch: Any) -> None:
    monkeypatch.setattr(config, "verify", True)
    source = np.random.default_rng(1)
    x, d = (source.standard_normal(shape, dtype=np.float32) for _ in range(2))
    w, b = (source.standard_normal(shape[1], dtype=np.float32) for _ in range(2))
    lx, lw, lb = (lt.from_numpy(a).requires_grad_() for a in (x, w, b))
    y = F.group_norm(lx, groups, lw, lb)
    _, gw, gb = lt.autograd.grad((y * lt.from_numpy(d)).sum(), (lx, lw, lb))
    assert gw is not None and gb is not None
    rows = x.astype(np.float64).reshape(shape[0], groups, -1)
    normal = rows - rows.mean(-1, keepdims=True)
    normal = (normal / np.sqrt(rows.var(-1, keepdims=True) + 1e-5)).reshape(shape)
    want = normal * w[:, None, None] + b[:, None, None]
    np.testing.assert_allclose(y.detach().numpy(), want, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(gw.numpy(), (normal * d).sum((0, 2, 3)), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(gb.numpy(), d.sum((0, 2, 3)), rtol=1e-4, atol=1e-4)


def test_most_steps_of_a_sum_divide_nothing() -> None:
    """All of a matrix is summed in blocks, less a number for each row of 1021: where a step's lanes
    do not cross the end of a row, they read one number. Rows of 1024 have no other steps."""
    for width, loops in ((1021, 2), (1024, 1)):
        x, w = ops.input_((300, width), float32), ops.input_((300, 1), float32)
        rest = ops.apply("sub", x, ops.expand(w, x.shape))
        text = _text(ops.reduce_("sum", rest, (0, 1)), x, w)
        found = [body[: body.index("}")] for body in text.split("omp simd")[1:] if "x0[" in body]
        bodies = [body for body in found if "x0[" in body]
        assert len(bodies) == loops
        assert not re.search(r"\(i\d+ [^;]*[/%]", bodies[0]), bodies[0]


SHAPES = [(37, 331), (5, 1021), (9, 70), (150, 17)]


@pytest.mark.parametrize("shape", SHAPES)
def test_rows_that_end_within_steps(shape: tuple[int, int], monkeypatch: Any) -> None:
    """Sums of all of a matrix that read a number for each row, by blocks and in one loop."""
    monkeypatch.setattr(config, "verify", True)
    source = np.random.default_rng(shape[0])
    values = source.integers(-8, 9, shape).astype(np.float32)
    rows = source.integers(-8, 9, shape[0]).astype(np.float32)
    x, w = lt.from_numpy(values), lt.from_numpy(rows)
    part = (x * w[:, None]).reshape(-1)[: shape[0] * shape[1] // 2 * 2].reshape(2, -1)
    scaled = part / (part.abs().sum(1, keepdim=True) + 1)
    want = values * rows[:, None]
    assert (x * w[:, None]).sum().item() == want.sum()
    half = want.reshape(-1)[: want.size // 2 * 2].reshape(2, -1)
    right = half / (np.abs(half).sum(1, keepdims=True) + 1)
    assert np.array_equal(scaled.numpy(), right.astype(np.float32))


def test_rows_shorter_than_steps_are_divided_in_32_bits() -> None:
    """Vectors have no 64-bit division; a number of 64 bits is not cut."""
    x, w = ops.input_((300, 17), float32), ops.input_((300, 1), float32)
    rest = ops.apply("sub", x, ops.expand(w, x.shape))
    assert re.search(r"\(lz_u32\) \(?i0", _text(ops.reduce_("sum", rest, (0, 1)), x, w))
    x, w = ops.input_((1 << 28, 17), float32), ops.input_((1 << 28, 1), float32)
    rest = ops.apply("sub", x, ops.expand(w, x.shape))
    assert "lz_u32" not in _text(ops.reduce_("sum", rest, (0, 1)), x, w)


@pytest.mark.parametrize(("shift", "count"), [(0, 0), (1, 1)])
def test_a_negative_number_divided_in_32_bits_is_found(shift: int, count: int) -> None:
    text = f"""void lz_kernel(char *b0_, int threads)
{{
  lz_f32 * restrict y0 = (lz_f32 *) b0_;
  for (lz_i64 i = 0; i < 100; i++)
    y0[(lz_i64) (((lz_u32) (i - {shift})) / 17)] = 0.0f;
}}
"""
    assert len(check_kernel_c(text, [24])) == count


@pytest.mark.parametrize(("columns", "wide"), [(1024, True), (1031, False)])
def test_rows_that_share_lines_of_a_cache_are_not_cut(columns: int, wide: bool) -> None:
    """Narrow parts of rows that lie 4 KiB apart would fall into a sixteenth of a cache."""
    x = ops.input_((2048, columns), float32)
    total = ops.reduce_("sum", x, (0,))
    share = ops.expand(ops.reshape(ops.constant(1 / 2048, float32), (1,)), (columns,))
    mean = ops.apply("mul", total, share)
    gap = ops.apply("sub", x, ops.expand(ops.reshape(mean, (1, columns)), x.shape))
    text = _text(ops.reduce_("sum", ops.apply("mul", gap, gap), (0,)), x)
    assert ("r1_a0[32][256]" in text) is wide, text


def _in_order(row: Any) -> Any:
    """A sum as docs/concepts/numbers.md has it: blocks of 1024, 32 lanes each, folded by halves."""
    while True:
        blocks = []
        for start in range(0, len(row), 1024):
            part = row[start : start + 1024]
            lanes = np.zeros(-(-len(part) // 32) * 32, row.dtype)
            lanes[: len(part)] = part
            total = np.zeros(32, row.dtype)
            for step in lanes.reshape(-1, 32):
                total = total + step
            while len(total) > 1:
                half = len(total) // 2
                total = total[:half] + total[half:]
            blocks.append(total[0])
        row = np.array(blocks, row.dtype)
        if len(row) == 1:
            return row[0]


@pytest.mark.parametrize("steps", [1025, 1031, 1056, 2047, 3100])
def test_the_last_of_the_blocks_is_shorter(steps: int, monkeypatch: Any) -> None:
    monkeypatch.setattr(config, "verify", True)
    values = np.random.default_rng(steps).standard_normal((3, steps)).astype(np.float32)
    got = lt.from_numpy(values).sum(1).numpy()
    assert got.tolist() == [float(_in_order(row)) for row in values]
    assert np.array_equal(lt.from_numpy(values).amax(1).numpy(), values.max(1))
