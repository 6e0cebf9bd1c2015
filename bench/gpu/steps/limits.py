"""Sizes at which index types, grids and memory change: more than 2^31 elements, 2^30 floats, long
rows, many blocks, products without enough tiles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import lazyt as lt
from bench.gpu.steps.report import DEVICE, EMULATED, SMALL, Report

F = lt.nn.functional
BIG = 1 << (16 if SMALL else 31)


def randn(*shape: int, seed: int = 1) -> Any:
    """The same numbers at every call."""
    return lt.randn(*shape, generator=lt.Generator().manual_seed(seed))


def bytes_beyond_int() -> str:
    """An index beyond 2^31 in a map, a slice at the end, a sum (int64)."""
    n = BIG + 12_345
    x = lt.zeros(n, dtype=lt.uint8, device=DEVICE).realize()
    y = (x + 3).realize()
    del x
    assert y[-1].item() == 3 and y[: 1 << 10].sum().item() == 3 << 10
    assert y[n - 77 :].cpu().tolist() == [3] * 77
    assert y.sum().item() == 3 * n
    return f"{n} elements"


def floats_at_2_30() -> str:
    """Maps and sums, also of memory that is not aligned."""
    n = BIG >> 1
    x = lt.ones(n, device=DEVICE).realize()
    assert (x * 2).sum().item() == 2 * n
    assert (x[1:] + x[:-1]).amin().item() == 2
    return ""


def rows_and_columns() -> str:
    """A matrix whose element numbers pass 2^31, reduced both ways."""
    rows, columns = (257, 1031) if SMALL else (40_009, 65_537)
    x = lt.ones(rows, columns, dtype=lt.float16, device=DEVICE).realize()
    assert lt.equal(x.float().sum(1).cpu(), lt.full((rows,), float(columns)))
    assert lt.equal(x.float().sum(0).cpu(), lt.full((columns,), float(rows)))
    assert (x.float().softmax(-1)[-1].sum() - 1).abs().item() < 1e-4
    return ""


def long_rows() -> str:
    """Rows that no block of threads holds in registers."""
    n = 3001 if SMALL else 1 << 26
    x = randn(n)
    there = x.to(DEVICE)
    works: dict[str, Callable[[Any], Any]] = {
        "softmax": lambda t: t.softmax(0),
        "layer norm": lambda t: F.layer_norm(t, (n,)),
        "argmax": lambda t: t.argmax(),
        "gelu softmax": lambda t: F.gelu(t).softmax(0),
    }
    for name, work in works.items():
        assert lt.equal(work(there).cpu(), work(x)), name
    return ""


def ordered_rows() -> str:
    """Running sums of what is costly to compute again: one thread walks each row."""
    x = randn(64, 301 if SMALL else 16_000)
    assert lt.equal(x.to(DEVICE).softmax(-1).cumsum(-1).cpu(), x.softmax(-1).cumsum(-1))
    return ""


def many_small_rows() -> str:
    """More blocks than 65,535."""
    rows = 3001 if SMALL else 3_000_001
    x = randn(rows, 17)
    assert lt.equal(x.to(DEVICE).softmax(-1).cpu(), x.softmax(-1))
    return f"{rows} rows of 17"


def odd_products() -> str:
    """Products of few tiles, few steps, or many."""
    shapes = ((3, 5, 70_001), (130, 130, 1), (1, 100_003, 33), (4097, 129, 513))
    for m, k, n in shapes if not SMALL else ((3, 5, 701), (130, 130, 1), (1, 1003, 33)):
        for dtype in (lt.float32, lt.bfloat16):
            a, b = randn(m, k).to(dtype), randn(k, n, seed=2).to(dtype)
            assert lt.equal((a.to(DEVICE) @ b.to(DEVICE)).cpu(), a @ b), (m, k, n, dtype)
    return ""


def serial_kernels() -> str:
    """Kernels that one thread or a few do alone: slow, and must neither be killed nor hang."""
    n = 1 << (10 if SMALL else 20)
    index = lt.randint(0, 64, (n,), generator=lt.Generator().manual_seed(1))
    found = lt.bincount(index.to(DEVICE), minlength=64).cpu()
    assert lt.equal(found, lt.bincount(index, minlength=64))
    x, zeros = randn(n, seed=2), lt.zeros(64)
    assert lt.equal(x.to(DEVICE).cumsum(0).cpu(), x.cumsum(0))
    sums = zeros.to(DEVICE).index_add(0, index.to(DEVICE), x.to(DEVICE))
    assert lt.equal(sums.cpu(), zeros.index_add(0, index, x))
    return ""


def main() -> None:
    """All checks."""
    report = Report("limits")
    for check in (
        bytes_beyond_int, floats_at_2_30, rows_and_columns, long_rows, ordered_rows,
        many_small_rows, odd_products, serial_kernels,
    ):  # fmt: skip
        report.check(check.__name__, check, 8)
        if not EMULATED:
            lt.cuda.empty_cache()
    report.end()


if __name__ == "__main__":
    main()
