"""Sparse gradients: of embeddings, through hooks and users' functions, and in optimizers."""

from __future__ import annotations

from typing import Any

import pytest

import lazyt as lt
from lazyt import Tensor
from lazyt.errors import LazytError
from lazyt.nn import functional as F


def table() -> Tensor:
    return lt.arange(10.0).reshape(5, 2) / 7 - 0.5


def layer(**options: Any) -> lt.nn.Embedding:
    return lt.nn.Embedding(5, 2, sparse=True, _weight=table(), **options)


def test_the_gradient_has_a_row_for_each_number_in_order() -> None:
    e = layer()
    weights = lt.tensor([[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]])
    (e(lt.tensor([[1, 2, 1]])) * weights).sum().backward()
    grad = e.weight.grad
    assert grad is not None and grad.layout is lt.sparse_coo and grad.shape == (5, 2)
    assert (grad.sparse_dim(), grad.dense_dim(), grad.is_coalesced()) == (1, 1, False)
    assert grad._indices().tolist() == [[1, 2, 1]]
    assert grad._values().tolist() == [[1, 2], [3, 4], [5, 6]]
    e(lt.tensor([4])).sum().backward()  # sums are the elements of both
    assert e.weight.grad is not None and e.weight.grad._indices().tolist() == [[1, 2, 1, 4]]
    e.weight.sum().backward()  # with a dense one the sum is dense
    assert e.weight.grad.layout is lt.strided
    assert e.weight.grad.tolist() == [[1, 1], [7, 9], [4, 5], [1, 1], [2, 2]]


@pytest.mark.parametrize("mode", ["sum", "mean"])
@pytest.mark.parametrize("padding", [None, 1])
def test_bags(mode: str, padding: int | None) -> None:
    numbers, offsets = lt.tensor([1, 2, 1, 4, 0]), lt.tensor([0, 2, 2])
    weights = lt.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    grads = []
    for sparse in (False, True):
        weight = table().requires_grad_()
        found = F.embedding_bag(
            numbers, weight, offsets, mode=mode, sparse=sparse, padding_idx=padding
        )
        (found * weights).sum().backward()
        assert weight.grad is not None and weight.grad.is_sparse is sparse
        grads.append(weight.grad.to_dense())
    assert lt.allclose(grads[0], grads[1])


def test_padding_and_frequencies() -> None:
    e = layer(padding_idx=1)
    e(lt.tensor([1, 2, 1])).sum().backward()
    assert e.weight.grad is not None and e.weight.grad._indices().tolist() == [[2]]
    with pytest.raises(LazytError, match="not supported with sparse gradients"):
        layer(scale_grad_by_freq=True)(lt.tensor([1])).sum().backward()


def test_a_dense_gradient_of_equal_value_stays_dense() -> None:
    """Equal values are one node of the graph, and a layout belongs to the gradient."""
    one, other = layer(), lt.nn.Embedding(5, 2, _weight=table())
    numbers = lt.tensor([1, 2, 1])
    (one(numbers) + other(numbers)).sum().backward()
    assert one.weight.grad is not None and one.weight.grad.is_sparse
    assert other.weight.grad is not None and not other.weight.grad.is_sparse
    given = lt.sparse_coo_tensor([[0, 2]], [[1.0, 2.0], [3.0, 4.0]], (3, 2))
    x, y = (lt.zeros(3, 2, requires_grad=True) for _ in range(2))
    lt.autograd.backward([x * 1, y * 1], [given, given.to_dense()])
    assert x.grad is not None and y.grad is not None and y.grad.layout is lt.strided
    assert lt.equal(y.grad, given.to_dense()) and lt.equal(x.grad.to_dense(), y.grad)


def test_hooks_and_grad_get_it() -> None:
    e, seen = layer(), []

    def hook(grad: Tensor) -> Tensor:
        seen.append(grad.layout)
        return grad * 2

    e.weight.register_hook(hook)
    e(lt.tensor([3, 0])).sum().backward()
    assert seen == [lt.sparse_coo]
    assert e.weight.grad is not None and e.weight.grad.is_sparse
    assert e.weight.grad._values().tolist() == [[2, 2], [2, 2]]
    (found,) = lt.autograd.grad(e(lt.tensor([3, 0])).square().sum(), e.weight)
    assert found is not None and found.is_sparse
    assert lt.equal(found.to_dense()[3] / 4, e.weight.detach()[3])


def test_what_is_no_leaf_gets_a_dense_one() -> None:
    weight = table().requires_grad_()
    F.embedding(lt.tensor([1, 1]), weight * 2, sparse=True).sum().backward()
    assert weight.grad is not None
    assert weight.grad.tolist() == [[0, 0], [4, 4], [0, 0], [0, 0], [0, 0]]


def test_functions_of_users_may_give_sparse_gradients() -> None:
    class Row(lt.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x[1].clone()

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            return lt.sparse_coo_tensor([[1]], grads[0].unsqueeze(0), (3, 2))

    x = lt.ones(3, 2, requires_grad=True)
    (Row.apply(x) * lt.tensor([2.0, 3.0])).sum().backward()
    assert x.grad is not None and x.grad.is_sparse
    assert x.grad.to_dense().tolist() == [[0, 0], [2, 3], [0, 0]]


def trained(kind: Any, **options: Any) -> list[float]:
    e = layer()
    optimizer = kind(e.parameters(), **options)
    for step in range(3):
        optimizer.zero_grad()
        e(lt.tensor([[1, 2, 1], [step, 1, 4]])).square().sum().backward()
        optimizer.step()
    found: list[float] = e.weight.reshape(-1).tolist()
    return found


#: What PyTorch 2.13 makes of these programs.
RECORDED: list[tuple[Any, dict[str, Any], str]] = [
    (
        lt.optim.SparseAdam,
        {},
        "-0.499000 -0.356143 -0.211299 -0.068442 0.068459 "
        "0.211317 0.357143 0.500000 0.639857 0.782714",
    ),
    (
        lt.optim.SparseAdam,
        {"maximize": True},
        "-0.501000 -0.358143 -0.217273 -0.074416 0.074394 "
        "0.217253 0.357143 0.500000 0.645857 0.788714",
    ),
    (
        lt.optim.SGD,
        {},
        "-0.499000 -0.356429 -0.210028 -0.070009 0.070859 "
        "0.212576 0.357143 0.500000 0.639008 0.781009",
    ),
    (
        lt.optim.SGD,
        {"momentum": 0.9},
        "-0.497290 -0.355207 -0.206303 -0.068768 0.070487 "
        "0.211459 0.357143 0.500000 0.635657 0.776914",
    ),
    (
        lt.optim.SGD,
        {"momentum": 0.9, "dampening": 0.5},
        "-0.497290 -0.355207 -0.208550 -0.069517 0.070764 "
        "0.212291 0.357143 0.500000 0.637514 0.779184",
    ),
    (
        lt.optim.SGD,
        {"momentum": 0.9, "nesterov": True},
        "-0.496561 -0.354686 -0.202905 -0.067635 0.070014 "
        "0.210041 0.357143 0.500000 0.632544 0.773109",
    ),
    (
        lt.optim.SGD,
        {"maximize": True},
        "-0.501000 -0.357857 -0.218600 -0.072867 0.072001 "
        "0.216004 0.357143 0.500000 0.646722 0.790438",
    ),
    (
        lt.optim.Adagrad,
        {},
        "-0.490000 -0.347143 -0.191495 -0.049449 0.047318 "
        "0.189385 0.357143 0.500000 0.620142 0.762975",
    ),
    (
        lt.optim.Adagrad,
        {"maximize": True},
        "-0.510000 -0.367143 -0.237755 -0.095467 0.097487 "
        "0.239824 0.357143 0.500000 0.665827 0.808662",
    ),
]


@pytest.mark.parametrize(("kind", "options", "wanted"), RECORDED)
def test_steps_are_pytorchs(kind: Any, options: dict[str, Any], wanted: str) -> None:
    assert trained(kind, **options) == pytest.approx([float(v) for v in wanted.split()], abs=1e-5)


def test_other_optimizers_refuse() -> None:
    for kind, said in (
        (lt.optim.Adam, "Adam does not support sparse gradients, please consider SparseAdam"),
        (lt.optim.AdamW, "Adam does not support sparse gradients"),
        (lt.optim.RMSprop, "RMSprop does not support sparse gradients"),
        (lt.optim.NAdam, "NAdam does not support sparse gradients"),
    ):
        with pytest.raises(LazytError, match=said):
            trained(kind)
    with pytest.raises(LazytError, match="add\\(sparse, dense\\)"):
        trained(lt.optim.SGD, weight_decay=0.1)
    with pytest.raises(LazytError, match="weight_decay option is not compatible"):
        trained(lt.optim.Adagrad, weight_decay=0.1)
    with pytest.raises(LazytError, match="does not support dense gradients"):
        weight = table().requires_grad_()
        optimizer = lt.optim.SparseAdam([weight])
        weight.sum().backward()
        optimizer.step()


def test_rows_that_are_not_used_stay() -> None:
    e = layer()
    optimizer = lt.optim.SparseAdam(e.parameters(), lr=0.1)
    e(lt.tensor([3])).sum().backward()
    optimizer.step()
    changed = (e.weight.detach() != table()).any(1)
    assert changed.tolist() == [False, False, False, True, False]
    state = optimizer.state[e.weight]
    assert state["step"] == 1 and state["exp_avg"].shape == (5, 2)
    again = lt.optim.SparseAdam(e.parameters())
    again.load_state_dict(optimizer.state_dict())
    assert lt.equal(again.state[e.weight]["exp_avg"], state["exp_avg"])


def test_zero_grad_keeps_the_layout() -> None:
    e = layer()
    e(lt.tensor([3])).sum().backward()
    optimizer = lt.optim.SGD(e.parameters(), lr=0.1)
    optimizer.zero_grad(set_to_none=False)
    assert e.weight.grad is not None and e.weight.grad.is_sparse and e.weight.grad._nnz() == 0
