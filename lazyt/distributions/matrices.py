"""Distributions of matrices: Cholesky factors of correlations, and sums of outer products."""

from __future__ import annotations

import math
from numbers import Number
from typing import Any

from lazyt import linalg
from lazyt.distributions import constraints
from lazyt.distributions.continuous import Beta, Chi2
from lazyt.distributions.distribution import (
    Distribution,
    ExponentialFamily,
    standard_normal,
)
from lazyt.distributions.multivariate import (
    CovarianceForms,
    half_log_det,
    only_one,
    scale_factor,
)
from lazyt.errors import ArgumentError, warn
from lazyt.functional import namespace as lazyt
from lazyt.functional.namespace import Size, Tensor

__all__ = ["LKJCholesky", "Wishart"]


class LKJCholesky(Distribution):
    """Lower Cholesky factors of correlation matrices, whose density is proportional to
    ``det(L @ L.mT) ** (concentration - 1)`` of the matrices (Lewandowski, Kurowicka and Joe, 2009).

    Args:
        dim: rows of the matrices.
        concentration: 1 for all correlations alike, more for small ones.

    Draws have the density of ``log_prob``. Those of PyTorch 2.13 have not: from the third row on,
    squared lengths are of Beta(k + 1/2, b) where the paper has Beta((k + 1)/2, b).

    Raises ArgumentError for a ``dim`` below 2.

    Example:
        >>> factors = lazyt.distributions.LKJCholesky(3, 0.5).sample()
        >>> (factors @ factors.mT).diagonal().round(decimals=4)
        tensor([1., 1., 1.])
    """

    arg_constraints = {"concentration": constraints.positive}
    support = constraints.corr_cholesky

    def __init__(
        self, dim: int, concentration: Any = 1.0, validate_args: bool | None = None
    ) -> None:
        if dim < 2:
            raise ArgumentError(
                f"Expected dim to be an integer greater than or equal to 2. Found dim={dim}."
            )
        self.dim = dim
        self.concentration: Tensor = (
            concentration if isinstance(concentration, Tensor) else lazyt.tensor(concentration)
        )
        super().__init__(self.concentration.shape, Size((dim, dim)), validate_args=validate_args)
        self._beta = self._lengths()

    def _lengths(self) -> Beta:
        """The law of the squared length of each row below the diagonal."""
        rows = lazyt.arange(
            self.dim - 1, dtype=self.concentration.dtype, device=self.concentration.device
        )
        offset = lazyt.cat([rows.new_zeros(1), rows])
        marginal = self.concentration + 0.5 * (self.dim - 2)
        return Beta(0.5 * (offset + 1), marginal.unsqueeze(-1) - 0.5 * offset)

    def _expanded(self, shape: Size) -> None:
        self._beta = self._lengths()

    def _draw(self, shape: Size) -> Tensor:
        """By the onion method: each row is a direction times a length."""
        squares = self._beta.sample(shape[: len(shape) - len(self._batch_shape) - 2])
        normal = standard_normal(shape, self.concentration).tril(-1)
        length = linalg.vector_norm(normal, dim=-1, keepdim=True)
        direction = lazyt.where(length > 0, normal / length, 0.0)  # the first row has none
        found: Tensor = squares.sqrt().unsqueeze(-1) * direction
        tiny = lazyt.finfo(found.dtype).tiny
        rest = (1 - found.pow(2).sum(-1)).clamp(min=tiny).sqrt()
        return found + rest.diag_embed()

    def _log_density(self, value: Tensor) -> Any:
        diagonal = value.diagonal(dim1=-2, dim2=-1)[..., 1:]
        rows = lazyt.arange(
            2, self.dim + 1, dtype=self.concentration.dtype, device=self.concentration.device
        )
        power = 2 * (self.concentration - 1).unsqueeze(-1) + self.dim - rows
        count = self.dim - 1
        alpha = self.concentration + 0.5 * count
        constant = 0.5 * count * math.log(math.pi)
        normalizer = constant + lazyt.mvlgamma(alpha - 0.5, count) - count * lazyt.lgamma(alpha)
        return (power * diagonal.log()).sum(-1) - normalizer


def _multivariate_digamma(value: Tensor, size: int) -> Tensor:
    """The derivative of ``mvlgamma``."""
    steps = lazyt.arange(size, dtype=value.dtype, device=value.device)
    return lazyt.digamma(value.unsqueeze(-1) - 0.5 * steps).sum(-1)


class Wishart(CovarianceForms, ExponentialFamily):
    """Sums of ``df`` outer products of normal vectors (for whole ``df``; Wishart, 1928).

    Args:
        df: degrees of freedom, more than the matrices' rows less 1.
        covariance_matrix, precision_matrix, scale_tril: one of them, of the vectors.

    Raises ArgumentError unless exactly one matrix is given, and for too small a ``df``.

    Example:
        >>> lazyt.distributions.Wishart(3.0, lazyt.eye(2)).mean
        tensor([[3., 0.],
                [0., 3.]])
    """

    support = constraints.positive_definite
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(
        self, df: Any, covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None, scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        given = {
            "scale_tril": scale_tril,
            "covariance_matrix": covariance_matrix,
            "precision_matrix": precision_matrix,
        }
        name, matrix = only_one(given)
        if matrix.dim() < 2:
            raise ArgumentError(
                "scale_tril must be at least two-dimensional, with optional leading batch "
                "dimensions"
            )
        if isinstance(df, Number):
            df = lazyt.tensor(df, dtype=matrix.dtype, device=matrix.device)
        batch = lazyt.broadcast_shapes(matrix.shape[:-2], df.shape)
        self.df: Tensor = df.expand(batch)
        setattr(self, name, matrix.expand((*batch, *matrix.shape[-2:])))
        rows = matrix.shape[-1]
        if bool((self.df <= rows - 1).any()):
            raise ArgumentError(
                f"Value of df={df} expected to be greater than ndim - 1 = {rows - 1}."
            )
        super().__init__(batch, Size(matrix.shape)[-2:], validate_args=validate_args)
        if bool((self.df < rows).any()):
            warn(
                "Low df values detected. Singular samples are highly likely to occur for ndim - 1 "
                "< df < ndim."
            )
        self._unbroadcasted_scale_tril = scale_factor(name, matrix)

    @property
    def arg_constraints(self) -> Any:
        """What the parameters have to satisfy."""
        return {
            "covariance_matrix": constraints.positive_definite,
            "precision_matrix": constraints.positive_definite,
            "scale_tril": constraints.lower_cholesky,
            "df": constraints.greater_than(self.event_shape[-1] - 1),
        }

    def _spread(self, matrix: Tensor) -> Tensor:
        return matrix.expand((*self._batch_shape, *self._event_shape))

    def _mean(self) -> Tensor:
        return self._scaled(self.df, self.covariance_matrix)

    @staticmethod
    def _scaled(factor: Tensor, matrix: Tensor) -> Tensor:
        return factor[..., None, None] * matrix

    def _mode(self) -> Tensor:
        factor = self.df - self._event_shape[-1] - 1
        factor = lazyt.where(factor <= 0, float("nan"), factor)
        return self._scaled(factor, self.covariance_matrix)

    def _variance(self) -> Tensor:
        diagonal = self.covariance_matrix.diagonal(dim1=-2, dim2=-1)
        outer: Tensor = diagonal.unsqueeze(-1) * diagonal.unsqueeze(-2)
        return self._scaled(self.df, self.covariance_matrix.pow(2) + outer)

    def _draw(self, shape: Size) -> Tensor:
        return self._bartlett_sampling(shape[: len(shape) - len(self._batch_shape) - 2])

    def _bartlett_sampling(self, sample_shape: Any = ()) -> Tensor:
        """Draws by Bartlett's decomposition: the factor of a draw has normal numbers below its
        diagonal, and roots of chi-squared ones on it."""
        shape = self._extended_shape(sample_shape)
        rows = lazyt.arange(shape[-1], dtype=self.df.dtype, device=self.df.device)
        drawn = Chi2(self.df.unsqueeze(-1) - rows, validate_args=False).rsample(sample_shape)
        noise = standard_normal(shape, self.df).tril(-1) + drawn.sqrt().diag_embed()
        factor: Tensor = self._unbroadcasted_scale_tril @ noise
        return factor @ factor.mT

    def _log_density(self, value: Tensor) -> Any:
        nu, rows = self.df, self._event_shape[-1]
        half = half_log_det(self._unbroadcasted_scale_tril)
        solved = lazyt.cholesky_solve(value, self._unbroadcasted_scale_tril)
        return (
            -nu * (rows * math.log(2) / 2 + half)
            - lazyt.mvlgamma(nu / 2, rows)
            + (nu - rows - 1) / 2 * linalg.slogdet(value).logabsdet
            - solved.diagonal(dim1=-2, dim2=-1).sum(-1) / 2
        )

    def _entropy(self) -> Any:
        nu, rows = self.df, self._event_shape[-1]
        half = half_log_det(self._unbroadcasted_scale_tril)
        return (
            (rows + 1) * (rows * math.log(2) / 2 + half)
            + lazyt.mvlgamma(nu / 2, rows)
            - (nu - rows - 1) / 2 * _multivariate_digamma(nu / 2, rows)
            + nu * rows / 2
        )

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return self.df / 2, -self.precision_matrix / 2

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        x, y = natural_params
        rows = y.shape[-1]
        found: Tensor = x * (
            rows * math.log(2) - linalg.slogdet(-2 * y).logabsdet
        ) + lazyt.mvlgamma(x, rows)
        return found
