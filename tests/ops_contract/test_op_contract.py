"""Every structural op keeps its promises: one test per promise, run over the whole registry."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pytest

from lazyt import ops
from lazyt.errors import LazytError
from lazyt.ir.dtypes import DType, bfloat16, float16, float32, float64
from lazyt.ir.graph import Node, topological
from lazyt.ir.parser import parse_graph
from lazyt.ir.printer import print_graph
from lazyt.ops.registry import OPS
from lazyt.transforms.batch import batch
from tests import compilers
from tests.ops_contract.all_samples import REFUSALS, SAMPLES
from tests.ops_contract.numeric import check_first_order, check_second_order, leaf, lowered, value
from tests.ops_contract.op_samples import Refusal, Sample

_sampled = pytest.mark.parametrize("sample", SAMPLES, ids=lambda s: s.name)
# What never takes an operand apart by its type or shape has nothing to refuse.
_TOTAL = {"input", "variable", "detach", "put", "transfer"}
# A true gradient of theirs differs from PyTorch's convention, or there is none to check.
_NOT_SMOOTH = {"detach-identity"}


def test_every_op_has_samples() -> None:
    compiled = set() if compilers.available() else {"custom"}
    assert {s.op for s in SAMPLES} == set(OPS) - compiled
    assert {r.op for r in REFUSALS} == set(OPS) - _TOTAL


def _node(sample: Sample, arrays: Sequence[np.ndarray]) -> Node:
    return sample.build(*map(leaf, arrays))


@_sampled
def test_sample_uses_its_op(sample: Sample) -> None:
    if sample.name not in _NOT_SMOOTH:
        nodes = topological([_node(sample, sample.arrays)])
        assert sample.op in {n.op.name for n in nodes}


@_sampled
@pytest.mark.parametrize("dtype", [float64, float32, float16, bfloat16], ids=repr)
def test_infer_agrees_with_evaluate(sample: Sample, dtype: DType) -> None:
    arrays = sample.arrays
    nodes = [leaf(a, dtype if a.dtype == np.float64 else None) for a in arrays]
    value(sample.build(*nodes))  # the interpreter compares shape and type


@_sampled
def test_first_order(sample: Sample) -> None:
    node = _node(sample, sample.arrays)
    if node.dtype is float64 and sample.name not in _NOT_SMOOTH:
        weights = np.random.default_rng(3).uniform(0.5, 2, node.shape)
        check_first_order(sample.build, sample.arrays, weights)


@_sampled
def test_second_order(sample: Sample) -> None:
    node = _node(sample, sample.arrays)
    if node.dtype is float64 and sample.name not in _NOT_SMOOTH:
        weights = np.random.default_rng(4).uniform(0.5, 2, node.shape)
        check_second_order(sample.build, sample.arrays, weights)


@_sampled
def test_batch_agrees_with_a_loop(sample: Sample) -> None:
    size = 3
    count = len(sample.arrays)
    for flags in itertools.product((False, True), repeat=count):
        stacked = [
            np.stack([_vary(a, k, axis=0) for k in range(size)]) if flag else a
            for a, flag in zip(sample.arrays, flags)
        ]
        nodes = [leaf(a) for a in sample.arrays]
        chosen = [k for k in range(count) if flags[k]]
        output = sample.build(*nodes)
        many = [leaf(stacked[k]) for k in chosen]
        (batched,) = batch([output], [nodes[k] for k in chosen], many, size)
        assert batched.shape == (size, *output.shape) and batched.dtype is output.dtype
        found = value(batched)
        for k in range(size):
            arrays = [a[k] if flag else a for a, flag in zip(stacked, flags)]
            np.testing.assert_allclose(found[k], value(_node(sample, arrays)), rtol=1e-12)


def _vary(array: np.ndarray, k: int, axis: int) -> np.ndarray:
    """Another array like ``array``: turned, so that indices stay in range."""
    return np.roll(array, k, axis) if array.ndim else array


@_sampled
def test_lower_agrees_with_evaluate(sample: Sample) -> None:
    node = _node(sample, sample.arrays)
    if callable(node.op.lower):
        np.testing.assert_array_equal(lowered(node), value(node))


@_sampled
def test_text_reads_back(sample: Sample) -> None:
    text = print_graph([_node(sample, sample.arrays)])
    _, roots = parse_graph(text, OPS)
    assert print_graph(roots) == text


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda r: r.name)
def test_wrong_operands_raise(refusal: Refusal) -> None:
    with pytest.raises(LazytError) as caught:
        refusal.build()
    assert "bug in lazyt" not in str(caught.value)


def test_detach_stops_and_variable_starts() -> None:
    x = leaf(np.ones(2))
    marked = ops.variable(x, 1)
    assert marked.needs_grad and not x.needs_grad
    assert not ops.apply("exp", ops.detach(marked)).needs_grad
