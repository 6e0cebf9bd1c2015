"""Everything the user calls on tensors, by PyTorch's names.

Importing this package attaches the methods to Tensor; ``lazyt`` itself exports the functions that
its modules list in ``__all__``.
"""

import sys

# The modules that declare methods, each for its own sake.
import lazyt.functional.creation.creation
import lazyt.functional.elementwise.activations
import lazyt.functional.elementwise.complex_numbers
import lazyt.functional.elementwise.conversions
import lazyt.functional.elementwise.division
import lazyt.functional.fourier.spectrograms
import lazyt.functional.indexing.masks
import lazyt.functional.indexing.writes
import lazyt.functional.layouts
import lazyt.functional.linalg.affine_products
import lazyt.functional.linalg.decompositions
import lazyt.functional.linalg.matrix_powers
import lazyt.functional.linalg.norms
import lazyt.functional.linalg.products
import lazyt.functional.linalg.solvers
import lazyt.functional.nn.normalizers
import lazyt.functional.random.random
import lazyt.functional.reductions.covariance
import lazyt.functional.reductions.reductions
import lazyt.functional.shapes.joining
import lazyt.functional.shapes.view_copies
import lazyt.functional.sorting.searching
import lazyt.functional.sorting.sorting  # noqa: F401
from lazyt.functional import operators, subclasses

operators.install()
subclasses.install()

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
