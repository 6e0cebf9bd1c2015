"""Operands that many kernels share: matrices turned once, and pieces written into one memory."""

from __future__ import annotations

import numpy as np
import pytest

import lazyt as lt
from lazyt import Tensor, ops
from lazyt.compiler import group_graph
from lazyt.ir.dtypes import float32
from lazyt.ir.graph import Node, topological
from lazyt.passes.store_pieces import (
    FEW_ELEMENTS,
    FEWEST_PIECES,
    LEAST_ELEMENTS,
    MOST_PIECES,
    store_pieces,
)
from lazyt.passes.transpose_shared import (
    FEWEST,
    FEWEST_PAIRED,
    LEAST_PAIRED,
    LEAST_READ,
    LONGEST_PAIRED,
    transpose_shared,
)


def leaf(*shape: int) -> Node:
    """An input without data."""
    return ops.input_(shape, float32)


def steps(rows: int, count: int, along: bool = True) -> Node:
    """A product of each step's rows with one weight, along its rows or down its columns."""
    weight, state = leaf(40, 40), leaf(rows, 40)
    for _ in range(count):
        labels = (2, 1) if along else (1, 2)
        state = ops.apply("tanh", ops.contract(state, weight, (0, 1), labels, (0, 2)))
    return state


def turned(root: Node) -> list[Node]:
    """The matrices that are stored turned."""
    _, groups = group_graph([root])
    return [n for group in groups for n in group.stored if n.op.name == "permute"]


@pytest.mark.parametrize(
    ("rows", "count", "along", "found"),
    [(10, FEWEST, True, 1), (10, FEWEST - 1, True, 0), (10, FEWEST, False, 0),
     (4, FEWEST, True, 0), (200, FEWEST, True, 0)],
)  # fmt: skip
def test_a_weight_that_many_products_read_along_is_turned_once(
    rows: int, count: int, along: bool, found: int
) -> None:
    assert len(turned(steps(rows, count, along))) == found


def test_a_weight_on_the_left_is_turned_as_well() -> None:
    weight, state = leaf(40, 40), leaf(40, 12)
    for _ in range(FEWEST):
        state = ops.apply("tanh", ops.contract(weight, state, (2, 1), (1, 0), (2, 0)))
    assert len(turned(state)) == 1


def test_turning_changes_no_bit() -> None:
    lt.manual_seed(0)
    weight, x = lt.randn(33, 33).realize(), lt.randn(10, 33).realize()

    def run(count: int) -> list[Tensor]:
        states = [x]
        for _ in range(count):
            states.append(lt.tanh(lt.nn.functional.linear(states[-1], weight)))
        lt.realize(*states)
        return states

    few = run(FEWEST - 1)
    assert [s.tolist() for s in run(FEWEST)[:FEWEST]] == [s.tolist() for s in few]


def test_matrices_with_themselves_and_batches_are_left_alone() -> None:
    x = leaf(10, 10)
    y = leaf(3, 10, 10)
    roots = []
    for n in range(FEWEST):
        factor = ops.apply("mul", y, ops.constant(n + 2, float32))
        roots.append(ops.contract(x, x, (0, 1), (2, 1), (0, 2)))
        roots.append(ops.contract(factor, y, (0, 1, 2), (0, 3, 2), (0, 1, 3)))
    assert transpose_shared(roots) == roots


def test_a_sequence_whose_steps_are_columns_is_turned_once() -> None:
    def columns(x: Node, count: int) -> list[Node]:
        parts = [ops.slice_(x, (0, 0, n), (8, 70, 1), (1, 1, 1)) for n in range(count)]
        return [ops.apply("tanh", part) for part in parts]

    def found(roots: list[Node]) -> int:
        _, groups = group_graph(roots)
        return sum(n.op.name == "permute" for group in groups for n in group.stored)

    assert found(columns(leaf(8, 70, 20), FEWEST)) == 1
    assert found(columns(ops.permute(leaf(70, 20, 8), (2, 0, 1)), FEWEST)) == 0
    assert found(columns(leaf(8, 70, 20), FEWEST - 1)) == 0
    assert found([ops.slice_(leaf(8, 20), (0, n), (8, 1), (1, 1)) for n in range(FEWEST)]) == 0


@pytest.mark.parametrize("reverse", [False, True])
def test_recurrences_along_the_last_axis(reverse: bool) -> None:
    lt.manual_seed(0)
    length = 3 * FEWEST
    x = lt.randn(2, 300, length, requires_grad=True).realize()
    steps = list(range(length))[:: -1 if reverse else 1]

    def run(x: Tensor, state: Tensor, axis: int) -> Tensor:
        outputs = []
        for n in steps:
            state = lt.tanh(0.5 * state + x.select(axis, n))
            outputs.append(state)
        return lt.stack(outputs, axis)

    last = run(x, lt.zeros(2, 300), -1)
    (gradient,) = lt.autograd.grad(last.square().sum(), x)
    y = x.detach().permute(2, 0, 1).contiguous().realize().requires_grad_()
    first = run(y, lt.zeros(2, 300), 0)
    (wanted,) = lt.autograd.grad(first.square().sum(), y)
    assert gradient is not None and wanted is not None
    assert lt.equal(last, first.permute(1, 2, 0))
    assert lt.equal(gradient, wanted.permute(1, 2, 0))


def test_many_pieces_are_written_one_by_one() -> None:
    pieces = [leaf(8, LEAST_ELEMENTS // 8) for _ in range(FEWEST_PIECES)]
    (root,) = store_pieces([ops.concat(pieces, 1)])
    names = [n.op.name for n in topological([root])]
    assert names.count("update") == FEWEST_PIECES and "concat" not in names
    few = ops.concat(pieces[1:], 1)
    small = ops.concat([*pieces, leaf(8, 1)], 1)
    assert store_pieces([few, small]) == [few, small]
    rows = ops.concat([leaf(1, FEW_ELEMENTS) for _ in range(MOST_PIECES + 1)], 0)
    assert store_pieces([rows])[0].op.name == "update"
    numbers = ops.concat([leaf(1) for _ in range(MOST_PIECES + 1)], 0)
    assert store_pieces([numbers]) == [numbers]


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_stacks_of_many_pieces_have_their_values(axis: int) -> None:
    rng = np.random.default_rng(axis)
    arrays = [rng.standard_normal((6, 5, 40)).astype(np.float32) for _ in range(20)]
    tensors = [lt.tensor(a) for a in arrays]
    whole = lt.cat([t * 2 for t in tensors], axis)
    wanted = np.concatenate(arrays, axis) * 2
    assert np.array_equal(whole.numpy(), wanted)
    assert lt.allclose(whole.sum(axis), lt.tensor(wanted.sum(axis)), atol=1e-4)
    assert lt.cat(tensors, axis).flip(axis)[1:3].shape == wanted[1:3].shape


def joined(moves: bool) -> Node:
    """A product of three joined pieces, as queries, keys and values give their gradients to one
    weight: joined in front, and put where a row has all of them."""
    whole = ops.concat([leaf(1, 8, 4, 16) for _ in range(3)], 0)
    if moves:
        whole = ops.permute(whole, (1, 2, 0, 3))
    return ops.contract(ops.reshape(whole, (32, 48)), leaf(48, 24), (0, 1), (1, 2), (0, 2))


@pytest.mark.parametrize("moves", [False, True])
def test_pieces_that_a_product_reads_are_put_together_once(moves: bool) -> None:
    """However they are turned on the way to it."""
    _, groups = group_graph([joined(moves)])
    assert [n.op.name for group in groups for n in group.stored] == ["concat", "contract"]


def test_products_of_pieces_have_their_values() -> None:
    lt.manual_seed(2)
    pieces = [lt.randn(8, 4, 16).realize() for _ in range(3)]
    weight = lt.randn(48, 24).realize()
    found = lt.stack(pieces).permute(1, 2, 0, 3).reshape(32, 48) @ weight
    arrays = np.stack([p.numpy().astype(np.float64) for p in pieces])
    wanted = arrays.transpose(1, 2, 0, 3).reshape(32, 48) @ weight.numpy().astype(np.float64)
    assert np.allclose(found.numpy(), wanted, atol=1e-4)


def gaps(first: Node, second: Node) -> Node:
    """The squares of the differences of every row of one matrix and every row of another."""
    pair = [ops.reshape(first, (first.shape[0], 1, first.shape[1])),
            ops.reshape(second, (1, *second.shape))]  # fmt: skip
    gap = ops.apply("sub", *pair)
    return ops.apply("mul", gap, gap)


@pytest.mark.parametrize(
    ("count", "rows", "length", "found"),
    [(40, 100, 5, 1), (40, 100, LONGEST_PAIRED, 1), (40, 100, LONGEST_PAIRED + 1, 0),
     (400, FEWEST_PAIRED - 1, 5, 0), (LEAST_READ - 1, 1000, 5, 0), (40, 100, 1, 0),
     (LEAST_READ, 16, LEAST_PAIRED // (16 * LEAST_READ) - 1, 0)],
)  # fmt: skip
def test_rows_of_pairs_are_turned_once(count: int, rows: int, length: int, found: int) -> None:
    pairs = gaps(leaf(count, length), leaf(rows, length))
    assert len(turned(ops.reduce_("sum", pairs, (2,)))) == found
    assert not turned(ops.reduce_("sum", pairs, (0,)))


def test_rows_that_are_read_once_are_left_alone() -> None:
    roots = [ops.reduce_("sum", ops.apply("mul", leaf(9, 400, 8), leaf(9, 400, 8)), (2,))]
    assert transpose_shared(roots) == roots
    weighted = ops.apply("mul", gaps(leaf(40, 8), leaf(100, 8)), leaf(40, 100, 8))
    roots = [ops.reduce_("sum", weighted, (2,))]
    assert transpose_shared(roots) == roots


def test_rows_that_are_columns_in_memory_are_not_turned() -> None:
    second = ops.permute(leaf(8, 100), (1, 0))
    assert not turned(ops.reduce_("sum", gaps(leaf(40, 8), second), (2,)))


@pytest.mark.parametrize("length", [3, 17, 33, 200])
@pytest.mark.parametrize("kind", ["sum", "amax", "argmin", "prod"])
def test_turning_the_rows_of_pairs_changes_no_bit(kind: str, length: int) -> None:
    lt.manual_seed(0)
    first, second = lt.randn(40, length).realize(), lt.randn(60, length).realize()
    near = getattr((first[:, None] - second) / 3, kind)(-1)
    far = [getattr((first[i] - second) / 3, kind)(-1) for i in range(40)]
    assert near.tolist() == lt.stack(far).tolist()
