"""COO tensors: members, order, arithmetic and products, against dense tensors."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from typing import Any

import pytest

import lazyt as lt
from lazyt import Tensor
from lazyt.errors import BoundsError, LazytError, ShapeError


def random_coo(*size: int, nnz: int, seed: int = 0, dense: tuple[int, ...] = ()) -> Tensor:
    """Indices at random, some of them several times; values are small integers, so that sums are
    exact."""
    draw = random.Random(seed)
    indices = [[draw.randrange(extent) for _ in range(nnz)] for extent in size]
    count = nnz
    for extent in dense:
        count *= extent
    values = lt.tensor([float(draw.randint(-4, 4)) for _ in range(count)]).reshape(nnz, *dense)
    return lt.sparse_coo_tensor(indices, values, (*size, *dense))


def equal(a: Tensor, b: Tensor) -> bool:
    return a.shape == b.shape and a.dtype is b.dtype and bool((a == b).all())


@pytest.fixture
def s() -> Tensor:
    return random_coo(5, 7, nnz=20)


def test_members_are_those_that_were_given() -> None:
    values = lt.tensor([3.0, 4.0, 5.0])
    s = lt.sparse_coo_tensor([[0, 1, 1], [2, 0, 2]], values, (2, 3))
    assert (s.layout, s.is_sparse, s.is_sparse_csr) == (lt.sparse_coo, True, False)
    assert (s.sparse_dim(), s.dense_dim(), s._nnz(), s.is_coalesced()) == (2, 0, 3, False)
    assert s.shape == (2, 3) and s.numel() == 6 and s.dim() == 2 and len(s) == 2
    values.mul_(2)  # the memory is shared
    assert s._values().tolist() == [6.0, 8.0, 10.0]
    for name in ("indices", "values"):
        with pytest.raises(LazytError, match=f"Cannot get {name} on an uncoalesced tensor"):
            getattr(s, name)()
    assert isinstance(s, Tensor) and lt.is_tensor(s)


def test_it_prints_like_pytorch() -> None:
    s = lt.sparse_coo_tensor([[0, 1, 1], [2, 0, 2]], [3.0, 4.0, 5.0], (2, 3))
    assert repr(s) == (
        "tensor(indices=tensor([[0, 1, 1],\n                       [2, 0, 2]]),\n"
        "       values=tensor([3., 4., 5.]),\n"
        "       size=(2, 3), nnz=3, layout=lazyt.sparse_coo)"
    )
    empty = lt.sparse_coo_tensor((2, 3), dtype=lt.float64)
    assert repr(empty) == (
        "tensor(indices=tensor([], size=(2, 0)),\n       values=tensor([], size=(0,)),\n"
        "       size=(2, 3), nnz=0, dtype=lazyt.float64, layout=lazyt.sparse_coo)"
    )


def test_coalescing_adds_values_in_their_order() -> None:
    s = lt.sparse_coo_tensor([[1, 0, 1, 1]], [1e8, 2.0, 1.0, -1e8], (3,)).coalesce()
    assert s.indices().tolist() == [[0, 1]]
    assert s.values().tolist() == [2.0, 0.0]  # 1e8 + 1 is 1e8 in float32
    assert s.is_coalesced() and s.coalesce() is s


@pytest.mark.parametrize("dense", [(), (3,), (2, 2)])
def test_dense_and_back(dense: tuple[int, ...]) -> None:
    s = random_coo(4, 6, nnz=15, dense=dense)
    full = s.to_dense()
    assert equal(s.coalesce().to_dense(), full)
    back = full.to_sparse(2)
    assert back.is_coalesced() and back.dense_dim() == len(dense)
    assert equal(back.to_dense(), full)
    assert equal(full.to_sparse().to_dense(), full)


def test_bools_and_integers() -> None:
    s = lt.sparse_coo_tensor([[0, 0]], [True, True], (2,))
    assert s.to_dense().tolist() == [True, False]
    i = lt.sparse_coo_tensor([[0, 0]], [2, 3], (2,))
    assert i.to_dense().tolist() == [5, 0] and i.dtype is lt.int64
    assert i.bool().dtype is lt.bool


@pytest.mark.parametrize(
    ("make", "error", "said"),
    [
        (lambda: lt.sparse_coo_tensor([0], [1.0]), LazytError, "sparse_dim x nnz"),
        (lambda: lt.sparse_coo_tensor([[0, 1]], [1.0], (2,)), LazytError, "same nnz"),
        (lambda: lt.sparse_coo_tensor([[0]], [1.0], (2, 3)), LazytError, "len\\(size\\)"),
        (lambda: lt.sparse_coo_tensor([[-1]], [1.0]), LazytError, "negative index -1"),
        (
            lambda: lt.sparse_coo_tensor([[5]], [1.0], (2,), check_invariants=True),
            BoundsError,
            "size is 2 but found index 5",
        ),
        (lambda: lt.sparse_coo_tensor([[5]], [1.0], (2,)).to_dense(), BoundsError, "index 5"),
        (lambda: lt.ones(2).coalesce(), LazytError, "but got Strided"),
        (lambda: lt.ones(2)._nnz(), NotImplementedError, "aten::_nnz"),
        (lambda: lt.ones(2, 2).to_sparse().exp(), NotImplementedError, "aten::exp"),
        (lambda: lt.ones(2, 2).to_sparse() + 1, LazytError, "add\\(sparse, dense\\)"),
        (lambda: lt.ones(2, 2).to_sparse().numpy(), TypeError, "to_dense\\(\\) first"),
        (lambda: lt.ones(2, 2).to_sparse().storage(), NotImplementedError, "storage"),
        (lambda: lt.ones(2, 2).to_sparse().view(4), NotImplementedError, "aten::view"),
        (lambda: lt.ones(2, 2).to_sparse() / lt.ones(2, 2), LazytError, "Sparse division"),
        (lambda: lt.sparse_bsr_tensor(), NotImplementedError, "blocks"),
    ],
)
def test_refusals(make: Callable[[], Any], error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        make()


def test_arithmetic_with_numbers_and_dense_tensors(s: Tensor) -> None:
    full = s.to_dense()
    d = lt.arange(35.0).reshape(5, 7) - 9
    cases: list[tuple[Tensor, Tensor]] = [
        (s * 2, full * 2), (2 * s, full * 2), (s / 4, full / 4), (-s, -full), (s * d, full * d),
        (d * s, full * d), (s * lt.tensor(3.0), full * 3), (s**2, full**2), (abs(s), abs(full)),
        (s.sin(), full.sin()), (s.sign(), full.sign()), (lt.relu(s), lt.relu(full)),
        (s.to(lt.float64) * 3, full.to(lt.float64) * 3),
    ]  # fmt: skip
    for found, wanted in cases:
        assert found.is_sparse and equal(found.to_dense(), wanted)
    assert equal(d + s, d + full) and equal(d - s, d - full)
    assert equal(lt.add(d, s, alpha=3), d + 3 * full)
    assert not (d + s).is_sparse


def test_arithmetic_of_two() -> None:
    a, b = random_coo(5, 7, nnz=20), random_coo(5, 7, nnz=12, seed=1)
    one, two = a.to_dense(), b.to_dense()
    for x, y in ((a, b), (a.coalesce(), b.coalesce())):
        assert equal((x + y).to_dense(), one + two)
        assert equal((x - y).to_dense(), one - two)
        assert equal((x * y).to_dense(), one * two)
        assert equal(lt.sub(x, y, alpha=2).to_dense(), one - 2 * two)
    assert (a.coalesce() + b.coalesce()).is_coalesced()
    with pytest.raises(ShapeError, match="expected sizes"):
        a + random_coo(5, 6, nnz=2)


def test_in_place(s: Tensor) -> None:
    full = s.to_dense()
    other = s.detach()
    s.mul_(2)
    assert equal(other.to_dense(), full * 2)  # the values are shared
    s += s
    assert equal(s.to_dense(), full * 4)
    copied = s.clone().zero_()
    assert copied._nnz() == 0 and equal(s.to_dense(), full * 4)
    d = lt.ones(5, 7)
    d += s
    assert equal(d, full * 4 + 1)
    with pytest.raises(LazytError, match="add\\(sparse, dense\\)"):
        s += d


def test_products(s: Tensor) -> None:
    full = s.to_dense()
    b, v = lt.arange(21.0).reshape(7, 3) - 10, lt.arange(7.0)
    wanted = full @ b
    for found in (s @ b, lt.mm(s, b), lt.sparse.mm(s, b), lt.matmul(s, b), lt.spmm(s, b), s.mm(b)):
        assert equal(found, wanted)
    assert equal(s @ v, full @ v) and equal(lt.mv(s, v), full @ v)
    assert equal(b.t() @ s.t(), b.t() @ full.t())
    assert equal(lt.arange(5.0) @ s, lt.arange(5.0) @ full)
    base = lt.ones(5, 3)
    assert equal(lt.addmm(base, s, b, beta=2, alpha=3), 2 * base + 3 * wanted)
    assert equal(lt.sparse.addmm(base, s, b), base + wanted)
    t = random_coo(7, 4, nnz=16, seed=3)
    for product in (s @ t, lt.sparse.mm(s, t)):
        assert product.is_sparse and product.is_coalesced()
        assert equal(product.to_dense(), full @ t.to_dense())
    assert equal(lt.nn.functional.linear(v.unsqueeze(0), s), v.unsqueeze(0) @ full.t())
    with pytest.raises(ShapeError, match="Expected dim 0 size 7, got 5"):
        s @ lt.ones(5, 2)


def test_batches(s: Tensor) -> None:
    several = lt.stack([s, s * 2])
    b = lt.arange(42.0).reshape(2, 7, 3)
    assert equal(lt.bmm(several, b), lt.bmm(several.to_dense(), b))


@pytest.mark.lazy
def test_a_product_is_one_kernel(s: Tensor) -> None:
    b = lt.ones(7, 3)
    lt.realize(s, b)
    assert len(lt.explain(s @ b).kernels) == 1


def test_moving_and_picking(s: Tensor) -> None:
    full = s.to_dense()
    assert equal(s.t().to_dense(), full.t()) and equal(s.T.to_dense(), full.T)
    assert equal(s.transpose(0, 1).to_dense(), full.t())
    assert equal(s.unsqueeze(1).to_dense(), full.unsqueeze(1))
    index = lt.tensor([3, 0, 3])
    for dim in (0, 1):
        assert equal(s.index_select(dim, index).to_dense(), full.index_select(dim, index))
        assert equal(s.select(dim, 2).to_dense(), full.select(dim, 2))
        assert equal(s.narrow_copy(dim, 1, 3).to_dense(), full.narrow(dim, 1, 3))
        assert equal(lt.cat([s, s * 2], dim).to_dense(), lt.cat([full, full * 2], dim))
        assert equal(lt.stack([s, s], dim).to_dense(), lt.stack([full, full], dim))
    assert equal(s[1].to_dense(), full[1]) and float(s[1, 2]) == float(full[1, 2])
    assert equal(s[:, 3].to_dense(), full[:, 3])
    hybrid = random_coo(4, nnz=6, dense=(3, 2))
    whole = hybrid.to_dense()
    assert equal(hybrid[2], whole[2])
    assert equal(hybrid.permute(0, 2, 1).to_dense(), whole.permute(0, 2, 1))
    assert equal(hybrid.index_select(1, lt.tensor([2, 0])).to_dense(), whole[:, [2, 0]])
    assert equal(lt.cat([hybrid, hybrid], 2).to_dense(), lt.cat([whole, whole], 2))


def test_sums_and_softmax(s: Tensor) -> None:
    full = s.to_dense()
    assert float(s.sum()) == float(lt.sparse.sum(s)) == float(full.sum())
    for dim in (0, 1):
        assert equal(lt.sparse.sum(s, dim).to_dense(), full.sum(dim))
        assert equal(s.sum(dim, keepdim=True).to_dense(), full.sum(dim, keepdim=True))
    hybrid = random_coo(4, 5, nnz=9, dense=(3,))
    whole = hybrid.to_dense()
    assert equal(lt.sparse.sum(hybrid, (0, 1)), whole.sum((0, 1)))
    assert equal(lt.sparse.sum(hybrid, (0, 2)).to_dense(), whole.sum((0, 2)))
    there = lt.ones_like(s.coalesce().values())
    mask = (
        s.coalesce().to_dense() * 0
        + lt.sparse_coo_tensor(s.coalesce().indices(), there, s.shape).to_dense()
    )
    hidden = lt.where(mask > 0, full, -lt.inf)
    for dim in (0, 1):
        wanted = hidden.softmax(dim).nan_to_num()
        assert lt.allclose(lt.sparse.softmax(s, dim).to_dense(), wanted)
        logs = lt.sparse.log_softmax(s, dim)
        assert lt.allclose(logs.values(), lt.sparse.softmax(s, dim).values().log())


def test_masks(s: Tensor) -> None:
    d = lt.arange(35.0).reshape(5, 7)
    found = d.sparse_mask(s.coalesce())
    assert found._nnz() == s.coalesce()._nnz()
    assert equal(found.values(), d[tuple(s.coalesce().indices())])
    other = random_coo(5, 7, nnz=12, seed=1)
    assert equal(
        other.sparse_mask(s.coalesce()).values(),
        other.to_dense()[tuple(s.coalesce().indices())],
    )


def test_copies(s: Tensor) -> None:
    for other in (copy.deepcopy(s), copy.copy(s), s.clone()):
        assert equal(other.to_dense(), s.to_dense()) and other.layout is lt.sparse_coo
    assert lt.zeros_like(s)._nnz() == 0 and lt.zeros_like(s).shape == s.shape
    assert lt.zeros(2, 3, layout=lt.sparse_coo).is_sparse
    assert s.to("cpu") is s and s.double().dtype is lt.float64


def test_gradients_reach_values_and_dense_factors() -> None:
    s = random_coo(5, 7, nnz=20)
    indices, weights = s._indices(), lt.arange(15.0).reshape(5, 3)
    values = s._values().clone().requires_grad_()
    b = (lt.arange(21.0).reshape(7, 3) - 9).requires_grad_()
    (lt.sparse_coo_tensor(indices, values, (5, 7)) @ b * weights).sum().backward()
    full = s.to_dense().requires_grad_()
    c = b.detach().clone().requires_grad_()
    (full @ c * weights).sum().backward()
    assert b.grad is not None and c.grad is not None and values.grad is not None
    assert full.grad is not None
    assert equal(b.grad, c.grad)
    assert equal(values.grad, full.grad[tuple(indices)])


@pytest.mark.parametrize(
    "function",
    [
        lambda s: lt.sparse.mm(s, lt.arange(14.0, dtype=lt.float64).reshape(7, 2)).sum(),
        lambda s: (s.to_dense() * lt.arange(35.0).reshape(5, 7)).sum(),
        lambda s: lt.sparse.sum(s * s),
        lambda s: lt.sparse.sum(lt.sparse.mm(s, s.t())),
        lambda s: (lt.ones(5, 7) * 2 + s).square().sum(),
        lambda s: lt.sparse.sum(lt.cat([s, s * 3]).index_select(0, lt.tensor([7, 1]))),
        lambda s: (lt.sparse.softmax(s, 1).to_dense() * lt.arange(7.0)).sum(),
    ],
)
def test_leaves_have_sparse_gradients(function: Callable[[Tensor], Tensor]) -> None:
    s = random_coo(5, 7, nnz=14).coalesce().to(lt.float64).detach().requires_grad_()
    assert s.is_leaf and s.requires_grad and s.grad is None
    result = function(s)
    result.backward()
    found = s.grad
    assert found is not None and found.is_sparse and found.shape == s.shape
    (again,) = lt.autograd.grad(function(s), s)
    assert equal(again.to_dense(), found.to_dense())
    step = 1e-6
    for at in (0, 3, s._nnz() - 1):
        move = lt.zeros(s._nnz(), dtype=lt.float64)
        move[at] = step
        both = [
            float(function(lt.sparse_coo_tensor(s.indices(), s.values().detach() + sign * move,
                                                s.shape, is_coalesced=True)))
            for sign in (1, -1)
        ]  # fmt: skip
        assert float(found._values()[at]) == pytest.approx((both[0] - both[1]) / 2 / step, 1e-4)


def test_checks_can_be_switched_on() -> None:
    checks = lt.sparse.check_sparse_tensor_invariants
    assert not checks.is_enabled()
    with checks(), pytest.raises(BoundsError):
        lt.sparse_coo_tensor([[5]], [1.0], (2,))
    assert not checks.is_enabled()
    lt.sparse_coo_tensor([[5]], [1.0], (2,))


def test_results_do_not_share_values_that_are_written_to() -> None:
    s = lt.sparse_coo_tensor([[0, 1], [2, 0]], [3.0, 4.0], (2, 3))
    other, moved, more = s.coalesce(), s.t(), s.unsqueeze(0)
    leaf = s.coalesce().requires_grad_()
    s.mul_(2)
    assert other.values().tolist() == moved._values().tolist() == more._values().tolist() == [3, 4]
    assert leaf.requires_grad and not s.requires_grad and not other.requires_grad


def test_parameters_and_comparisons() -> None:
    s = lt.eye(2).to_sparse()
    parameter = lt.nn.Parameter(s)
    assert isinstance(parameter, lt.nn.Parameter) and parameter.is_sparse
    assert parameter.requires_grad and not s.requires_grad
    lt.testing.assert_close(s, s.clone())
    with pytest.raises(AssertionError, match="layout"):
        lt.testing.assert_close(s, lt.eye(2))
    with pytest.raises(AssertionError, match="not close"):
        lt.testing.assert_close(s, s * 2)


@pytest.mark.lazy
def test_captures_and_transforms_say_what_they_take() -> None:
    s, x = lt.eye(3).to_sparse(), lt.ones(3, 2)
    makes = lt.jit(lambda values: lt.sparse_coo_tensor([[0, 1], [1, 0]], values, (2, 2)) @ x[:2])
    for _ in range(3):
        assert makes(lt.tensor([2.0, 3.0])).tolist() == [[2, 2], [3, 3]]
    assert not any("sparse" in reason for reason in makes.why())
    batched = lt.func.vmap(lambda b: s @ b)(lt.stack([x, x * 2]))
    assert equal(batched[1], x * 2)
    with pytest.raises(LazytError, match="does not take sparse tensors"):
        lt.func.vmap(lambda a: a)(s)
    with pytest.raises(LazytError, match="do not take sparse tensors"):
        lt.func.grad(lambda a: lt.sparse.sum(a))(s)


def test_dtypes_of_results() -> None:
    s = lt.eye(2, dtype=lt.int32).to_sparse()
    assert s.sum(0).dtype is lt.int64 and lt.sparse.sum(s, 0).dtype is lt.int32
    assert lt.sparse.sum(s, (0, 1)).dtype is lt.int64
    with pytest.raises(NotImplementedError, match="\"softmax\" not implemented for 'Int'"):
        lt.sparse.softmax(s, 0)
    single = lt.eye(2).to_sparse()
    single.add_(lt.eye(2, dtype=lt.float64).to_sparse())  # a cast that loses no category
    assert single.dtype is lt.float32 and single.to_dense().tolist() == [[2, 0], [0, 2]]
    with pytest.raises(LazytError, match="can't be cast to the desired output type Int"):
        s.add_(single)
    c = lt.eye(2).to_sparse_csr()
    assert (c @ lt.eye(2, dtype=lt.float64).to_sparse_csr()).dtype is lt.float64


def test_older_names() -> None:
    from lazyt.functional.sparse import old_types

    s = old_types.DoubleTensor(lt.tensor([[0, 1]]), lt.tensor([1.0, 2.0]), (3,))
    assert s.dtype is lt.float64 and isinstance(s, old_types.DoubleTensor)
    assert not isinstance(s, old_types.FloatTensor)
    assert old_types.FloatTensor(2, 3).shape == (2, 3)
    starts = old_types.convert_indices_from_coo_to_csr(lt.tensor([0, 0, 2]), 4)
    assert starts.tolist() == [0, 2, 2, 3, 3]
    pairs = old_types.convert_indices_from_csr_to_coo(starts, lt.tensor([1, 0, 3]))
    assert pairs.tolist() == [[0, 0, 2], [1, 0, 3]]


@pytest.mark.lazy
def test_dense_values_are_stored_once() -> None:
    """What sums are stored in is the memory of the dense tensor, whatever its shape."""
    s = lt.eye(3).to_sparse()
    dense = s.to_dense()
    node = dense.node
    dense.realize()
    assert node.op.name == "reshape" and node.data is node.inputs[0].data
    rows = lt.tensor([[3.0, 1.0], [2.0, 4.0]]).sort(1).values
    flat = rows.reshape(4).realize()
    flat.add_(1)  # a view: both change
    assert flat.tolist() == [2, 4, 3, 5] and rows.tolist() == [[2, 4], [3, 5]]
    dense[0, 0] = 5
    assert s.to_dense()[0, 0] == 1 and dense[0, 0] == 5
