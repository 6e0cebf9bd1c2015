"""CSR and CSC tensors against dense ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import lazyt as lt
from lazyt import Tensor
from lazyt.errors import LazytError


def equal(a: Tensor, b: Tensor) -> bool:
    return a.shape == b.shape and a.dtype is b.dtype and bool((a == b).all())


@pytest.fixture
def full() -> Tensor:
    values = [(7 * at) % 11 - 5 if at % 3 else 0 for at in range(30)]
    return lt.tensor(values, dtype=lt.float32).reshape(5, 6)


def test_members(full: Tensor) -> None:
    c = full.to_sparse_csr()
    assert (c.layout, c.is_sparse, c.is_sparse_csr) == (lt.sparse_csr, False, True)
    assert (c.sparse_dim(), c.dense_dim(), c.shape) == (2, 0, (5, 6))
    again = lt.sparse_csr_tensor(c.crow_indices(), c.col_indices(), c.values(), (5, 6))
    assert equal(again.to_dense(), full)
    assert repr(lt.sparse_csr_tensor([0, 1, 2], [2, 0], [3.0, 4.0], (2, 3))) == (
        "tensor(crow_indices=tensor([0, 1, 2]),\n       col_indices=tensor([2, 0]),\n"
        "       values=tensor([3., 4.]), size=(2, 3), nnz=2, layout=lazyt.sparse_csr)"
    )


def test_layouts_change_into_each_other(full: Tensor) -> None:
    forms = [full.to_sparse(), full.to_sparse_csr(), full.to_sparse_csc()]
    for form in forms:
        for name in ("to_sparse", "to_sparse_coo", "to_sparse_csr", "to_sparse_csc", "to_dense"):
            assert equal(getattr(form, name)().to_dense(), full)
    c = full.to_sparse_csc()
    assert c.ccol_indices().shape == (7,) and c.row_indices().shape == (c._nnz(),)
    assert full.to_sparse_csr().t().layout is lt.sparse_csc
    assert equal(full.to_sparse_csr().t().to_dense(), full.t())
    assert equal(full.to_sparse(layout=lt.sparse_csr).to_dense(), full)


@pytest.mark.parametrize("kind", ["to_sparse_csr", "to_sparse_csc"])
def test_arithmetic_and_products(full: Tensor, kind: str) -> None:
    c, b = getattr(full, kind)(), lt.arange(12.0).reshape(6, 2) - 5
    assert equal(c @ b, full @ b) and equal(c @ b[:, 0], full @ b[:, 0])
    assert equal(b.t() @ c.t(), b.t() @ full.t())
    assert equal(lt.addmm(lt.ones(5, 2), c, b, alpha=2), 1 + 2 * (full @ b))
    assert equal((c @ c.t()).to_dense(), full @ full.t())
    for found, wanted in (
        (c * 2, full * 2), (-c, -full), (c + c * 3, full * 4), (c - c, full - full),
        (c.sin(), full.sin()),
        (c * full, full * full), (c + full.to_sparse().to(lt.float32), full * 2),
    ):  # fmt: skip
        assert found.layout is c.layout and equal(found.to_dense(), wanted)
    assert equal(c + full, full * 2) and float(c.sum()) == float(full.sum())


def test_other_reductions_of_products(full: Tensor) -> None:
    c, b = full.to_sparse_csr(), lt.arange(12.0).reshape(6, 2) - 5
    parts = full.unsqueeze(2) * b
    there = (full != 0).unsqueeze(2)
    counts = there.sum(1)
    assert lt.allclose(lt.sparse.mm(c, b, "mean"), parts.sum(1) / counts)
    most = lt.where(there, parts, -lt.inf).amax(1)
    least = lt.where(there, parts, lt.inf).amin(1)
    assert equal(lt.sparse.mm(c, b, "amax"), most)
    assert equal(lt.sparse.mm(c, b, "amin"), least)


def test_sampled_products(full: Tensor) -> None:
    c, a, b = full.to_sparse_csr(), lt.arange(20.0).reshape(5, 4), lt.arange(24.0).reshape(4, 6)
    found = lt.sparse.sampled_addmm(c, a, b, beta=2.0, alpha=0.5)
    assert equal(found.to_dense(), lt.where(full != 0, 2 * full + 0.5 * (a @ b), 0))


def test_gradients(full: Tensor) -> None:
    c = full.to_sparse_csr().detach().requires_grad_()
    b = (lt.arange(12.0).reshape(6, 2) - 5).requires_grad_()
    (c @ b).sum().backward()
    assert b.grad is not None and equal(b.grad, full.sum(0).unsqueeze(1).expand(6, 2))
    assert c.grad is not None and c.grad.layout is lt.sparse_csr
    wanted = b.detach().sum(1).expand(5, 6)
    assert equal(c.grad.to_dense(), lt.where(full != 0, wanted, 0))


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: lt.sparse_csr_tensor([0, 1, 2], [2, 0, 2], [1.0, 2, 3], (2, 3)), "== nnz"),
        (lambda: lt.sparse_csr_tensor([0, 1, 3], [5, 0, 2], [1.0, 2, 3], (2, 3)), "< ncols"),
        (lambda: lt.sparse_csr_tensor([1, 1, 3], [1, 0, 2], [1.0, 2, 3], (2, 3)), "== 0"),
        (lambda: lt.sparse_csr_tensor([0, 1, 3], [1, 2, 0], [1.0, 2, 3], (2, 3)), "sorted"),
        (lambda: lt.sparse_csc_tensor([0, 1], [1], [1.0], (2, 3)), "number of columns"),
        (lambda: lt.ones(2, 2).to_sparse_csr().indices(), "but got SparseCsr"),
        (lambda: lt.ones(2, 2).to_sparse().crow_indices(), "but got Sparse"),
        (lambda: lt.ones(2, 2).to_sparse_csc().crow_indices(), "but got SparseCsc"),
        (lambda: lt.ones(2, 2, 2).to_sparse_csr(), "two dimensions"),
    ],
)
def test_refusals(make: Callable[[], Any], said: str) -> None:
    with lt.sparse.check_sparse_tensor_invariants(), pytest.raises(LazytError, match=said):
        make()


def test_diagonals() -> None:
    found = lt.sparse.spdiags(lt.arange(9.0).reshape(3, 3), lt.tensor([0, -1, 2]), (3, 3))
    assert found.to_dense().tolist() == [[0, 0, 8], [3, 1, 0], [0, 4, 2]]


def test_dense_dimensions() -> None:
    values = lt.arange(6.0).reshape(3, 2)
    c = lt.sparse_csr_tensor([0, 1, 3], [2, 0, 2], values, (2, 3, 2))
    full = c.to_dense()
    assert c.dense_dim() == 1 and full.shape == (2, 3, 2) and full[1, 2].tolist() == [4, 5]
    assert equal(c.transpose(0, 1).to_dense(), full.transpose(0, 1))
    assert equal(c.to_sparse().to_dense(), full)
    with pytest.raises(LazytError, match="self is 3D"):
        c.t()
    with pytest.raises(LazytError, match="rows and columns"):
        c.transpose(0, 2)
