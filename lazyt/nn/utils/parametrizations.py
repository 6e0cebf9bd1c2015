"""Parametrizations that keep weights orthogonal, of bounded norm, or as length times direction."""

from __future__ import annotations

from typing import Any

from lazyt import linalg
from lazyt.compat.absent import explain_absence as _explain_absence
from lazyt.functional import namespace as lazyt
from lazyt.handle.tensor import Tensor
from lazyt.nn import functional as F
from lazyt.nn.module import Module
from lazyt.nn.utils.parametrize import register_parametrization
from lazyt.nn.utils.spectral_norm import as_matrix, output_dim
from lazyt.nn.utils.weight_norm import norm_except_dim, scaled_direction

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]

_MAPS = ("matrix_exp", "cayley", "householder")


def _orthonormal(matrix: Tensor) -> Tensor:
    """The orthogonal factor of a QR factorization whose triangular one has a positive diagonal."""
    q, r = linalg.qr(matrix)
    signs = r.diagonal(dim1=-2, dim2=-1).sgn()
    found: Tensor = q * signs.unsqueeze(-2)
    return found


def _is_orthogonal(matrix: Tensor) -> bool:
    rows, columns = matrix.shape[-2:]
    one = lazyt.eye(columns, dtype=matrix.dtype, device=matrix.device)
    room = 10.0 * rows * lazyt.finfo(matrix.dtype).eps
    return bool(lazyt.allclose(matrix.mT @ matrix, one.expand_as(matrix.mT @ matrix), atol=room))


class _Orthogonal(Module):
    """From any matrices [*, n, k] to ones with orthonormal columns (rows where n < k).

    With ``base`` ("dynamic trivialization", Lezcano-Casado 2019) the map starts from an orthogonal
    matrix that assigning to the tensor sets.
    """

    def __init__(self, weight: Tensor, orthogonal_map: str, use_trivialization: bool) -> None:
        super().__init__()
        self.shape = weight.shape
        self.orthogonal_map = orthogonal_map
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, X: Tensor) -> Tensor:
        """[*, n, k] to orthogonal [*, n, k]."""
        transposed = X.shape[-2] < X.shape[-1]
        tall = X.mT if transposed else X
        found = self._reflections(tall)
        if self.orthogonal_map != "householder":
            found = self._rotation(tall)
        if hasattr(self, "base"):
            found = self.base @ found
        return found.mT if transposed else found

    def _reflections(self, X: Tensor) -> Tensor:
        """The columns below the diagonal as Householder vectors."""
        below = X.tril(-1)
        scale = 2.0 / (1.0 + (below * below).sum(-2))
        found = linalg.householder_product(below, scale)
        signs = X.diagonal(dim1=-2, dim2=-1).int().unsqueeze(-2)
        return found * signs

    def _rotation(self, X: Tensor) -> Tensor:
        """By an exponential or a Cayley transform of a skew-symmetric matrix."""
        n, k = X.shape[-2:]
        square = X.tril()
        if n != k:
            square = lazyt.cat([square, square.new_zeros((*X.shape[:-1], n - k))], -1)
        skew = square - square.mT
        if self.orthogonal_map == "matrix_exp":
            found = linalg.matrix_exp(skew)
        else:
            one = lazyt.eye(n, dtype=skew.dtype, device=skew.device)
            found = linalg.solve(one - 0.5 * skew, one + 0.5 * skew)
        return found[..., :k]

    def right_inverse(self, Q: Tensor) -> Tensor:
        """An original that gives the orthogonal ``Q``. Raises ValueError for another shape,
        NotImplementedError for maps without inverse."""
        if Q.shape != self.shape:
            raise ValueError(
                f"Expected a matrix or batch of matrices of shape {self.shape}. Got a tensor of "
                f"shape {Q.shape}."
            )
        with lazyt.no_grad():
            transposed = Q.shape[-2] < Q.shape[-1]
            tall = Q.mT if transposed else Q
            if not hasattr(self, "base"):
                found = self._householder_vectors(tall)
                return found.mT if transposed else found
            n, k = tall.shape[-2:]
            if n != k:
                more = lazyt.randn(*tall.shape[:-1], n - k, dtype=Q.dtype, device=Q.device)
                self.base = _orthonormal(lazyt.cat([tall, more], -1))
            else:
                self.base = tall.clone() if _is_orthogonal(tall) else _orthonormal(tall)
            diagonal = lazyt.zeros_like(Q)
            diagonal.diagonal(dim1=-2, dim2=-1).fill_(-1.0)
            return diagonal

    def _householder_vectors(self, Q: Tensor) -> Tensor:
        """Householder vectors below the diagonal, signs on it."""
        if self.orthogonal_map != "householder":
            raise NotImplementedError(
                "It is not possible to assign to the matrix exponential or the Cayley "
                "parametrizations when use_trivialization=False."
            )
        vectors, scale = lazyt.geqrf(Q)
        place = vectors.diagonal(dim1=-2, dim2=-1)
        signs = place.sign()
        place.copy_(lazyt.where(scale == 0.0, -signs, signs))
        return vectors


def _tensor_of(module: Module, name: str) -> Tensor:
    """Raises ValueError where there is none."""
    found = getattr(module, name, None)
    if not isinstance(found, Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    return found


def orthogonal(
    module: Module,
    name: str = "weight",
    orthogonal_map: str | None = None,
    *,
    use_trivialization: bool = True,
) -> Module:
    """Keep a matrix [*, n, k] orthogonal: its columns orthonormal, or its rows where n < k.

    Args:
        orthogonal_map: "matrix_exp" (usual for square ones), "cayley" or "householder".
        use_trivialization: start from a matrix that assigning sets; cheaper to invert.

    Returns the module. Raises ValueError for no such tensor, fewer dimensions, other maps.
    """
    weight = _tensor_of(module, name)
    if weight.ndim < 2:
        raise ValueError(
            f"Expected a matrix or batch of matrices. Got a tensor of {weight.ndim} dimensions."
        )
    if orthogonal_map is None:
        square = weight.shape[-2] == weight.shape[-1]
        orthogonal_map = "matrix_exp" if square else "householder"
    if orthogonal_map not in _MAPS:
        raise ValueError(
            'orthogonal_map has to be one of "matrix_exp", "cayley", "householder". Got: '
            f"{orthogonal_map}"
        )
    step = _Orthogonal(weight, orthogonal_map, use_trivialization)
    return register_parametrization(module, name, step, unsafe=True)


class _WeightNorm(Module):
    """From lengths and directions to weights."""

    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g: Tensor, weight_v: Tensor) -> Tensor:
        """``weight_g * weight_v / norm(weight_v)``."""
        return scaled_direction(weight_v, weight_g, self.dim)

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Lengths and directions."""
        return norm_except_dim(weight, self.dim), weight


class _ReadsOldNames:
    """Lets state dicts of ``nn.utils.weight_norm`` be loaded."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, state_dict: Any, prefix: str, *_: Any) -> None:
        old = [f"{prefix}{self.name}_{part}" for part in "gv"]
        if all(name in state_dict for name in old):
            for number, name in enumerate(old):
                new = f"{prefix}parametrizations.{self.name}.original{number}"
                state_dict[new] = state_dict.pop(name)


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Learn a weight as lengths (``original0``, along ``dim``) and directions (``original1``), as
    Salimans & Kingma 2016. Returns the module. Raises ValueError for no such tensor."""
    register_parametrization(module, name, _WeightNorm(dim), unsafe=True)
    module._register_load_state_dict_pre_hook(_ReadsOldNames(name))
    return module


class _SpectralNorm(Module):
    """Divides a weight by its largest singular value, which power iteration estimates."""

    def __init__(self, weight: Tensor, n_power_iterations: int, dim: int, eps: float) -> None:
        super().__init__()
        rank = weight.ndim
        if not -rank <= dim < rank:
            raise IndexError(
                f"Dimension out of range (expected to be in range of [-{rank}, {rank - 1}] but got "
                f"{dim})"
            )
        if n_power_iterations <= 0:
            raise ValueError(
                "Expected n_power_iterations to be positive, but got "
                f"n_power_iterations={n_power_iterations}"
            )
        self.dim, self.eps = dim % rank, eps
        if rank > 1:
            self.n_power_iterations = n_power_iterations
            matrix = as_matrix(weight, self.dim)
            for name, count in zip(("_u", "_v"), matrix.shape):
                start = matrix.new_empty(count).normal_(0, 1)
                self.register_buffer(name, F.normalize(start.detach(), dim=0, eps=eps))
            self._iterate(matrix, 15)

    def _iterate(self, matrix: Tensor, count: int) -> None:
        with lazyt.no_grad():
            for _ in range(count):
                self._u.copy_(F.normalize(matrix.mv(self._v), dim=0, eps=self.eps))
                self._v.copy_(F.normalize(matrix.mT.mv(self._u), dim=0, eps=self.eps))

    def forward(self, weight: Tensor) -> Tensor:
        """The weight over its largest singular value; in training after more iterations."""
        if weight.ndim == 1:
            return F.normalize(weight, dim=0, eps=self.eps)
        matrix = as_matrix(weight, self.dim)
        if self.training:
            self._iterate(matrix, self.n_power_iterations)
        u, v = self._u.clone(), self._v.clone()  # the buffers change with the next call
        return weight / lazyt.vdot(u, matrix.mv(v))

    def right_inverse(self, value: Tensor) -> Tensor:
        """``value``: it may have any scale."""
        return value


def spectral_norm(
    module: Module,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> Module:
    """Divide a weight by its largest singular value (Miyato et al. 2018).

    Args:
        n_power_iterations: steps of power iteration per use in training mode.
        eps: keeps norms away from zero.
        dim: the rows of the matrix; 0, for transposed convolutions 1.

    Returns the module. Raises ValueError and IndexError for what does not fit.
    """
    weight = _tensor_of(module, name)
    place = output_dim(module) if dim is None else dim
    step = _SpectralNorm(weight, n_power_iterations, place, eps)
    return register_parametrization(module, name, step)


_explain_absence(__name__)
