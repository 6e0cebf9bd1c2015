"""Kernels over values that are put together from parts walk the parts, not their divided index."""

import re

import numpy as np
import pytest

import lazyt as lt
from lazyt import ops
from lazyt.compiler import compile_graph
from lazyt.config import config
from lazyt.ir.dtypes import float32


def _text(extent: int, parts: int) -> str:
    """C text of sums over the rows of ``parts`` arrays [16, rows, extent] side by side."""
    inputs = [ops.input_((4, 16, extent), float32) for _ in range(parts)]
    flat = [ops.reshape(ops.permute(x, (1, 0, 2)), (16, 4 * extent)) for x in inputs]
    joined = ops.apply("exp", ops.concat(flat, 1))
    program, _ = compile_graph([ops.reduce_("sum", joined, (0,))], inputs)
    (kernel,) = program.kernels
    return kernel.text


def test_axis_is_split_where_indices_are_divided() -> None:
    text = _text(64, 3)
    inner = text[text.index("omp simd") :]
    assert not re.search(r"\bu\b[^;]*[/%]", inner)
    assert "/ 64" not in text and "% 64" not in text


@pytest.mark.parametrize("extent", [3, 31, 33, 64, 100])
def test_splitting_changes_no_bit(extent: int) -> None:
    source = np.random.default_rng(extent)
    arrays = [source.standard_normal((4, 20, extent), dtype=np.float32) for _ in range(3)]

    def compute() -> list[np.ndarray[tuple[int, ...], np.dtype[np.float32]]]:
        flat = [lt.from_numpy(a).permute(1, 0, 2).reshape(20, 4 * extent) for a in arrays]
        joined = lt.cat(flat, 1)
        results = (joined.sum(0), joined.exp().mean(1), joined.reshape(20, 12, extent).amax(1))
        return [r.numpy() for r in results]

    together = compute()
    config.eager = True
    try:
        alone = compute()
    finally:
        config.eager = False
    for one, other in zip(together, alone, strict=True):
        assert np.array_equal(one, other)
    want = np.concatenate([a.transpose(1, 0, 2).reshape(20, -1) for a in arrays], 1)
    assert np.allclose(together[0], want.sum(0), atol=1e-5)


@pytest.mark.parametrize("shapes", [((30, 30), (30, 30)), ((5, 7), (9, 32)), ((4, 40), (17, 17))])
def test_kronecker_products(shapes: tuple[tuple[int, int], tuple[int, int]]) -> None:
    a, b = (np.random.default_rng(0).standard_normal(s).astype("float32") for s in shapes)
    found = lt.kron(lt.from_numpy(a), lt.from_numpy(b)).numpy()
    np.testing.assert_array_equal(found, np.kron(a, b))
    tiled = lt.from_numpy(a).repeat_interleave(48, 1) * 2 + lt.from_numpy(a).repeat(1, 48)
    np.testing.assert_array_equal(tiled.numpy(), np.repeat(a, 48, 1) * 2 + np.tile(a, (1, 48)))
