"""The partition of graphs: every op of the registry, on ranks in a square, gives what it gives on
one, whatever is divided."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pytest

from lazyt import ops
from lazyt.ir.graph import Node
from lazyt.ops.parallel.layouts import REPLICATE, Part, moved, partial, shard
from lazyt.runtime.interpreter import interpret
from tests.distributed import emulated
from tests.ops_contract.all_samples import SAMPLES
from tests.ops_contract.numeric import leaf
from tests.ops_contract.op_samples import Sample, gradients

#: Ops that speak of ranks themselves.
_OF_RANKS = {"collective", "distribute", "localize"}
_SAMPLES = [s for s in SAMPLES if s.op not in _OF_RANKS and s.arrays]


def _divisions(shape: tuple[int, ...]) -> list[tuple[Part, ...]]:
    """Ways to divide a value: each axis by columns, each by rows, by both, and nothing."""
    found: list[tuple[Part, ...]] = [(REPLICATE, REPLICATE)]
    axes = range(len(shape))
    found += [(shard(a), REPLICATE) for a in axes] + [(REPLICATE, shard(a)) for a in axes]
    found += [(shard(a), shard(b)) for a, b in itertools.product(axes, axes)]
    return found


def _choices(sample: Sample) -> list[tuple[tuple[Part, ...], ...]]:
    """Divisions of the operands of a sample, some of all that there are."""
    each = [_divisions(array.shape) for array in sample.arrays]
    every = list(itertools.product(*each))
    rng = np.random.default_rng(len(sample.name))
    picked = rng.choice(len(every), min(len(every), 6), replace=False)
    return [every[i] for i in picked]


@pytest.mark.parametrize("sample", _SAMPLES, ids=lambda s: s.name)
def test_every_op_and_its_gradient(sample: Sample) -> None:
    nodes = [leaf(array) for array in sample.arrays]

    def function(*operands: Node) -> Sequence[Node]:
        found = sample.build(*operands)
        return [found, *gradients(found, operands)]

    expected = interpret(function(*nodes))
    for parts in _choices(sample):
        for found in emulated.run(function, list(zip(nodes, parts))):
            for value, wanted in zip(found, expected, strict=True):
                np.testing.assert_allclose(value, wanted, 1e-9, 1e-9, err_msg=str(parts))


@pytest.mark.parametrize("reduction", ["sum", "avg", "max", "min", "product"])
def test_partial_values(reduction: str) -> None:
    x, y = leaf(np.arange(1.0, 13).reshape(4, 3)), leaf(np.arange(3.0))
    whole = (partial(reduction), REPLICATE)

    def function(a: Node, b: Node) -> Sequence[Node]:
        return [
            ops.apply("mul", a, b), ops.apply("add", a, b), ops.apply("exp", a),
            ops.reduce_("sum", a, (0,)), ops.permute(a, (1, 0)), ops.apply("add", a, a),
            ops.concat([a, a], 0), ops.apply("where", ops.apply("gt", b, ops.constant(1, b.dtype)),
                                            a, ops.constant(0, a.dtype)),
        ]  # fmt: skip

    expected = interpret(function(x, y))
    for parts in (whole, (shard(1), partial(reduction)), (partial(reduction),) * 2):
        for found in emulated.run(function, [(x, parts), (y, (REPLICATE, REPLICATE))]):
            for value, wanted in zip(found, expected, strict=True):
                np.testing.assert_allclose(value, wanted, 1e-9)


@pytest.mark.parametrize("shape", [(4, 6), (5, 3), (1, 7), (3, 2, 5)])
def test_every_division_becomes_every_other(shape: tuple[int, ...]) -> None:
    value = leaf(np.random.default_rng(2).uniform(size=shape))
    axes = range(len(shape))
    each = [REPLICATE, *map(shard, axes)]
    for before in itertools.product([*each, partial("sum"), partial("max")], repeat=2):
        for after in itertools.product(each, repeat=2):
            whole, calls = [], []
            for rank in range(emulated.COUNT):
                with emulated.collected() as made:
                    start = emulated.layout(rank, (REPLICATE, REPLICATE))
                    a, b = emulated.layout(rank, before), emulated.layout(rank, after)
                    part = moved(value, shape, start, before)
                    assert part.shape == a.local_shape(shape)
                    other = moved(part, shape, a, after)
                    assert other.shape == b.local_shape(shape)
                    starts, ones = b.offsets(shape), (1,) * len(shape)
                    starts = tuple(0 if 0 in other.shape else s for s in starts)
                    own = ops.slice_(value, starts, other.shape, ones)
                    whole.append((other, own))
                calls.append(made)
            emulated.finish(calls)
            for other, own in whole:
                found, wanted = interpret([other, own])
                np.testing.assert_allclose(found, wanted, 1e-12, err_msg=f"{before} {after}")
