"""Everything the user calls on tensors, by PyTorch's names.

Importing this package attaches the methods to Tensor; ``lazyt`` itself exports the functions that
its modules list in ``__all__``.
"""

import sys

from lazyt.functional import methods
from lazyt.functional.creation import creation, filling
from lazyt.functional.elementwise import activations, conversions, division
from lazyt.functional.indexing import combining, masks, writes
from lazyt.functional.linalg import (
    affine_products,
    matrix_powers,
    norms,
    pseudoinverses,
    solvers,
    vector_products,
)
from lazyt.functional.nn import normalizers
from lazyt.functional.random import sampling
from lazyt.functional.reductions import covariance, cumulative
from lazyt.functional.shapes import rearranging, splitting, view_copies
from lazyt.functional.sorting import distinct, searching, sorting

#: The modules that declare methods: what ``import lazyt`` loads of this package.
_LOADED = (
    activations, affine_products, combining, conversions, covariance, creation, cumulative,
    distinct, division, filling, masks, matrix_powers, normalizers, norms, pseudoinverses,
    rearranging, sampling, searching, solvers, sorting, splitting, vector_products, view_copies,
    writes,
)  # fmt: skip

methods.install()

#: What PyTorch has in a module of this name, ``torch.functional``.
_THEIRS = frozenset({
    "atleast_1d", "atleast_2d", "atleast_3d", "block_diag", "broadcast_shapes",
    "broadcast_tensors", "cartesian_prod", "cdist", "chain_matmul", "einsum", "meshgrid", "norm",
    "pca_lowrank", "split", "svd_lowrank", "tensordot", "unique", "unique_consecutive",
    "unravel_index",
})  # fmt: skip


def __getattr__(name: str) -> object:
    if name not in _THEIRS:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    found: object = getattr(sys.modules["lazyt"], name)  # which imports this package
    return found
