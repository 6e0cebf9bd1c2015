"""Pickles and files of sparse tensors."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path

import pytest

import lazyt as lt
from lazyt import Tensor
from lazyt.errors import BoundsError, LazytError


def tensors() -> dict[str, Tensor]:
    s = lt.sparse_coo_tensor([[0, 1, 1, 1], [2, 0, 2, 2]], [3.0, 4.0, 5.0, 1.0], (2, 3))
    hybrid = lt.sparse_coo_tensor([[0, 2]], [[1, 2], [3, 4]], (3, 2))
    return {
        "coo": s, "coalesced": s.coalesce(), "csr": s.to_sparse_csr(), "csc": s.to_sparse_csc(),
        "hybrid": hybrid, "empty": lt.sparse_coo_tensor((2, 3)),
    }  # fmt: skip


def same(a: Tensor, b: Tensor) -> bool:
    return (
        (a.layout, a.dtype, a.shape, a._nnz()) == (b.layout, b.dtype, b.shape, b._nnz())
        and (a.layout is not lt.sparse_coo or a.is_coalesced() == b.is_coalesced())
        and bool((a.to_dense() == b.to_dense()).all())
    )


@pytest.mark.parametrize("name", list(tensors()))
def test_pickles_copies_and_files(name: str, tmp_path: Path) -> None:
    tensor = tensors()[name]
    assert same(pickle.loads(pickle.dumps(tensor)), tensor)
    assert same(copy.deepcopy(tensor), tensor) and same(copy.copy(tensor), tensor)
    lt.save({"t": tensor, "layout": tensor.layout}, tmp_path / "file.pt")
    found = lt.load(tmp_path / "file.pt")
    assert same(found["t"], tensor) and found["layout"] is tensor.layout


def test_buffers_of_modules(tmp_path: Path) -> None:
    module = lt.nn.Module()
    module.register_buffer("adjacency", tensors()["csr"])
    lt.save(module.state_dict(), tmp_path / "file.pt")
    assert same(lt.load(tmp_path / "file.pt")["adjacency"], tensors()["csr"])
    assert module.double().adjacency.dtype is lt.float64


def test_files_with_indices_out_of_range_are_refused(tmp_path: Path) -> None:
    for name, bad in (
        ("coo", lt.sparse_coo_tensor([[5]], [1.0], (2,))),
        ("csr", lt.sparse_csr_tensor([0, 1, 1], [7], [1.0], (2, 3))),
        ("rows", lt.sparse_csr_tensor([0, 9, 1], [2], [1.0], (2, 3))),
    ):
        lt.save(bad, tmp_path / name)
        with pytest.raises((BoundsError, LazytError)):
            lt.load(tmp_path / name)


def test_leaves_stay_leaves() -> None:
    leaf = tensors()["coalesced"].detach().requires_grad_()
    again = copy.deepcopy(leaf)
    assert again.requires_grad and again.is_leaf
    lt.sparse.sum(again).backward()
    assert leaf.grad is None and again.grad is not None
    assert pickle.loads(pickle.dumps(leaf)).requires_grad
