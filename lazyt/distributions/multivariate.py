"""Normal distributions of vectors, by a Cholesky factor or by a low-rank covariance."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from lazyt import linalg
from lazyt.distributions import constraints
from lazyt.distributions.distribution import Distribution, lazy_property, standard_normal
from lazyt.errors import ArgumentError
from lazyt.functional import namespace as lazyt
from lazyt.functional.namespace import Size, Tensor

__all__ = ["LowRankMultivariateNormal", "MultivariateNormal"]


def mahalanobis(factor: Tensor, difference: Tensor) -> Tensor:
    """The squared length of ``factor^-1 @ difference`` over the last dimension."""
    solved = linalg.solve_triangular(factor, difference.unsqueeze(-1), upper=False)
    return solved.squeeze(-1).pow(2).sum(-1)


def half_log_det(factor: Tensor) -> Tensor:
    """Half the logarithm of the determinant of ``factor @ factor.mT``."""
    return factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)


def factor_of_precision(precision: Tensor) -> Tensor:
    """The Cholesky factor of the inverse: of the flipped matrix, flipped back and inverted."""
    flipped = linalg.cholesky(lazyt.flip(precision, (-2, -1)))
    upper = lazyt.flip(flipped, (-2, -1)).mT
    eye = lazyt.eye(precision.shape[-1], dtype=precision.dtype)
    return linalg.solve_triangular(upper, eye.expand(precision.shape), upper=False)


def only_one(given: Mapping[str, Tensor | None]) -> tuple[str, Tensor]:
    """The matrix that is given, with its name. Raises ArgumentError for none and for several."""
    found = [(name, value) for name, value in given.items() if value is not None]
    if len(found) != 1:
        raise ArgumentError(
            "Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified."
        )
    return found[0]


def scale_factor(name: str, matrix: Tensor) -> Tensor:
    """The lower Cholesky factor of the covariance that a matrix of this name stands for."""
    if name == "scale_tril":
        return matrix
    return linalg.cholesky(matrix) if name == "covariance_matrix" else factor_of_precision(matrix)


class CovarianceForms:
    """A covariance in its three forms, each computed from its factor when it is first read."""

    _unbroadcasted_scale_tril: Tensor

    def _spread(self, matrix: Tensor) -> Tensor:
        raise NotImplementedError

    @lazy_property
    def scale_tril(self) -> Tensor:
        """The lower Cholesky factor of the covariance."""
        return self._spread(self._unbroadcasted_scale_tril)

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """The covariance."""
        return self._spread(self._unbroadcasted_scale_tril @ self._unbroadcasted_scale_tril.mT)

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """The inverse of the covariance."""
        return self._spread(lazyt.cholesky_inverse(self._unbroadcasted_scale_tril))


class MultivariateNormal(CovarianceForms, Distribution):
    """Normal vectors of mean ``loc`` with one of three descriptions of their covariance.

    Raises ArgumentError unless exactly one is given as a matrix, and for a ``loc`` without
    dimensions.
    """

    arg_constraints = {
        "loc": constraints.real_vector,
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
    }
    support = constraints.real_vector
    has_rsample = True

    def __init__(
        self, loc: Tensor, covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None, scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        if loc.dim() < 1:
            raise ArgumentError("loc must be at least one-dimensional.")
        given = {
            "covariance_matrix": covariance_matrix,
            "precision_matrix": precision_matrix,
            "scale_tril": scale_tril,
        }
        name, matrix = only_one(given)
        if matrix.dim() < 2:
            raise ArgumentError(
                f"{name} must be at least two-dimensional, with optional leading batch dimensions"
            )
        batch = lazyt.broadcast_shapes(matrix.shape[:-2], loc.shape[:-1])
        setattr(self, name, matrix.expand((*batch, *matrix.shape[-2:])))
        self.loc = loc.expand((*batch, *loc.shape[-1:]))
        super().__init__(batch, Size(self.loc.shape)[-1:], validate_args=validate_args)
        self._unbroadcasted_scale_tril = scale_factor(name, matrix)

    def _spread(self, matrix: Tensor) -> Tensor:
        return matrix.expand((*self._batch_shape, *self._event_shape, *self._event_shape))

    def _mean(self) -> Tensor:
        return self.loc

    def _mode(self) -> Tensor:
        return self.loc

    def _variance(self) -> Tensor:
        return (
            self._unbroadcasted_scale_tril.pow(2)
            .sum(-1)
            .expand(self._batch_shape + self._event_shape)
        )

    def _draw(self, shape: Size) -> Tensor:
        noise = standard_normal(shape, self.loc)
        return self.loc + (self._unbroadcasted_scale_tril @ noise.unsqueeze(-1)).squeeze(-1)

    def _log_density(self, value: Tensor) -> Any:
        square = mahalanobis(self._unbroadcasted_scale_tril, value - self.loc)
        whole = self._event_shape[0] * math.log(2 * math.pi) + square
        return -0.5 * whole - half_log_det(self._unbroadcasted_scale_tril)

    def _entropy(self) -> Any:
        found = half_log_det(self._unbroadcasted_scale_tril)
        found = found + 0.5 * self._event_shape[0] * (1.0 + math.log(2 * math.pi))
        return found.expand(self._batch_shape)


class LowRankMultivariateNormal(Distribution):
    """Normal vectors with covariance ``cov_factor @ cov_factor.mT + diag(cov_diag)``.

    By Woodbury's identity and the matrix determinant lemma, only a matrix of the factor's rank is
    factorized. Raises ArgumentError for shapes that do not fit.
    """

    arg_constraints = {
        "loc": constraints.real_vector,
        "cov_factor": constraints.independent(constraints.real, 2),
        "cov_diag": constraints.independent(constraints.positive, 1),
    }
    support = constraints.real_vector
    has_rsample = True

    def __init__(
        self, loc: Tensor, cov_factor: Tensor, cov_diag: Tensor,
        validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        if loc.dim() < 1:
            raise ArgumentError("loc must be at least one-dimensional.")
        size = Size(loc.shape)[-1:]
        if cov_factor.dim() < 2:
            raise ArgumentError(
                "cov_factor must be at least two-dimensional, with optional leading batch "
                "dimensions"
            )
        if Size(cov_factor.shape)[-2:-1] != size:
            raise ArgumentError(f"cov_factor must be a batch of matrices with shape {size[0]} x m")
        if Size(cov_diag.shape)[-1:] != size:
            raise ArgumentError(f"cov_diag must be a batch of vectors with shape {size}")
        batch = lazyt.broadcast_shapes(loc.shape[:-1], cov_factor.shape[:-2], cov_diag.shape[:-1])
        self.loc = loc.expand((*batch, *size))
        self.cov_factor = cov_factor.expand((*batch, *cov_factor.shape[-2:]))
        self.cov_diag = cov_diag.expand((*batch, *size))
        self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag = cov_factor, cov_diag
        scaled = cov_factor.mT / cov_diag.unsqueeze(-2)
        inner = scaled @ cov_factor
        self._capacitance_tril = linalg.cholesky(
            inner + lazyt.eye(inner.shape[-1], dtype=inner.dtype)
        )
        super().__init__(batch, size, validate_args=validate_args)

    def _mean(self) -> Tensor:
        return self.loc

    def _mode(self) -> Tensor:
        return self.loc

    def _variance(self) -> Tensor:
        found = self._unbroadcasted_cov_factor.pow(2).sum(-1) + self._unbroadcasted_cov_diag
        return found.expand(self._batch_shape + self._event_shape)

    @property
    def covariance_matrix(self) -> Tensor:
        """The covariance."""
        matrix = (
            self._unbroadcasted_cov_factor @ self._unbroadcasted_cov_factor.mT
            + self._unbroadcasted_cov_diag.diag_embed()
        )
        return matrix.expand((*self._batch_shape, *self._event_shape, *self._event_shape))

    @property
    def scale_tril(self) -> Tensor:
        """The lower Cholesky factor of the covariance."""
        return linalg.cholesky(self.covariance_matrix)

    @property
    def precision_matrix(self) -> Tensor:
        """The inverse of the covariance."""
        return lazyt.cholesky_inverse(self.scale_tril)

    def _draw(self, shape: Size) -> Tensor:
        low = standard_normal((*shape[:-1], self.cov_factor.shape[-1]), self.loc)
        carried = (self._unbroadcasted_cov_factor @ low.unsqueeze(-1)).squeeze(-1)
        return (
            self.loc
            + carried
            + self._unbroadcasted_cov_diag.sqrt() * standard_normal(shape, self.loc)
        )

    def log_determinant(self) -> Tensor:
        """The logarithm of the covariance's determinant."""
        return 2 * half_log_det(self._capacitance_tril) + self._unbroadcasted_cov_diag.log().sum(-1)

    def square(self, difference: Tensor) -> Tensor:
        """The squared Mahalanobis length of a difference."""
        scaled = self._unbroadcasted_cov_factor.mT / self._unbroadcasted_cov_diag.unsqueeze(-2)
        inner = (scaled @ difference.unsqueeze(-1)).squeeze(-1)
        return (difference.pow(2) / self._unbroadcasted_cov_diag).sum(-1) - mahalanobis(
            self._capacitance_tril, inner
        )

    def _log_density(self, value: Tensor) -> Any:
        whole = self._event_shape[0] * math.log(2 * math.pi) + self.log_determinant()
        return -0.5 * (whole + self.square(value - self.loc))

    def _entropy(self) -> Any:
        whole = self._event_shape[0] * (1.0 + math.log(2 * math.pi)) + self.log_determinant()
        return (0.5 * whole).expand(self._batch_shape)
