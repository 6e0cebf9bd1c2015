"""``lazyt.linalg``: linear algebra by PyTorch's names.

Factorizations and solutions are library calls (NumPy's LAPACK), not compiled kernels; what is
around them is compiled as ever. Functions that PyTorch lets fail for singular matrices, or for
iterations that do not converge, raise ``LinAlgError`` at the call: they compute what they depend
on. The ``_ex`` forms stay lazy.
"""

from lazyt.compat.absent import explain_absence as _explain_absence
from lazyt.errors import LinAlgError as LinAlgError
from lazyt.functional.calls import explain_calls as _explain_calls
from lazyt.functional.linalg.decompositions import (
    cholesky_ex,
    eig,
    eigh,
    eigvals,
    eigvalsh,
    householder_product,
    lstsq,
    pinv,
    svdvals,
)
from lazyt.functional.linalg.decompositions import linalg_cholesky as cholesky
from lazyt.functional.linalg.decompositions import linalg_matrix_rank as matrix_rank
from lazyt.functional.linalg.decompositions import linalg_qr as qr
from lazyt.functional.linalg.decompositions import linalg_svd as svd
from lazyt.functional.linalg.matrix_powers import matrix_exp, matrix_power, multi_dot
from lazyt.functional.linalg.norms import cond, matrix_norm, vector_norm
from lazyt.functional.linalg.norms import linalg_norm as norm
from lazyt.functional.linalg.products import linalg_cross as cross
from lazyt.functional.linalg.products import linalg_vander as vander
from lazyt.functional.linalg.products import matmul, vecdot
from lazyt.functional.linalg.solvers import (
    inv,
    inv_ex,
    lu_factor,
    lu_factor_ex,
    solve,
    solve_ex,
    solve_triangular,
    tensorinv,
    tensorsolve,
)
from lazyt.functional.linalg.solvers import linalg_det as det
from lazyt.functional.linalg.solvers import linalg_lu as lu
from lazyt.functional.linalg.solvers import linalg_lu_solve as lu_solve
from lazyt.functional.linalg.solvers import linalg_slogdet as slogdet
from lazyt.functional.linalg.symmetric import ldl_factor, ldl_factor_ex, ldl_solve
from lazyt.handle.function_table import function as _function
from lazyt.handle.tensor import Tensor

__all__ = [
    "LinAlgError", "cholesky", "cholesky_ex", "cond", "cross", "det", "diagonal", "eig", "eigh",
    "eigvals", "eigvalsh", "householder_product", "inv", "inv_ex", "ldl_factor", "ldl_factor_ex",
    "ldl_solve", "lstsq", "lu", "lu_factor",
    "lu_factor_ex", "lu_solve", "matmul", "matrix_exp", "matrix_norm", "matrix_power",
    "matrix_rank", "multi_dot", "norm", "pinv", "qr", "slogdet", "solve", "solve_ex",
    "solve_triangular", "svd", "svdvals", "tensorinv", "tensorsolve", "vander", "vecdot",
    "vector_norm",
]  # fmt: skip


@_function()
def diagonal(A: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """A view of the diagonals of matrices in the last two dimensions; raises BoundsError."""
    view: Tensor = A.diagonal(offset, dim1, dim2)
    return view


_explain_calls(globals(), __all__, __name__, "linalg_")

_explain_absence(__name__)
