"""Transforms that are single functions: of numbers, of vectors, of matrices."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import Any, cast

from lazyt import linalg, nn
from lazyt.distributions import constraints
from lazyt.distributions.distribution import (
    broadcast_all,
    sum_rightmost,
    tril_matrix_to_vec,
    vec_to_tril_matrix,
)
from lazyt.errors import ArgumentError
from lazyt.functional import namespace as lazyt
from lazyt.functional.namespace import Size, Tensor

__all__ = [
    "AbsTransform", "AffineTransform", "CatTransform", "ComposeTransform", "CorrCholeskyTransform",
    "CumulativeDistributionTransform", "ExpTransform", "IndependentTransform",
    "LowerCholeskyTransform", "PositiveDefiniteTransform", "PowerTransform", "ReshapeTransform",
    "SigmoidTransform", "SoftmaxTransform", "SoftplusTransform", "StackTransform",
    "StickBreakingTransform", "TanhTransform", "Transform", "identity_transform",
]  # fmt: skip


# What a transform is, its inverse, several in a row, and one over larger events.
#
# With ``cache_size=1`` a transform remembers its last argument and value, so that what it gave can
# be carried back although ``_inverse`` is not defined.


class Transform:
    """A function of tensors from ``domain`` to ``codomain``.

    Subclasses define ``_call``, ``_inverse`` and ``log_abs_det_jacobian``, or ``_log_slope``.
    ``sign`` says whether a monotonic one rises. Raises ValueError for a cache of other sizes than
    0 and 1.
    """

    bijective: Any = False
    #: The last argument and its value, for ``cache_size=1``: what was carried is found again.
    _cached_x_y: tuple[Tensor, Tensor] | tuple[None, None]
    domain: Any
    codomain: Any

    def __init__(self, cache_size: int = 0) -> None:
        if cache_size not in (0, 1):
            raise ValueError("cache_size must be 0 or 1")
        self._cache_size = cache_size
        self._cached_x_y = (None, None)
        super().__init__()

    @property
    def event_dim(self) -> int:
        """The rank of an event, the same on both sides."""
        if self.domain.event_dim == self.codomain.event_dim:
            return int(self.domain.event_dim)
        raise ValueError("Please use either .domain.event_dim or .codomain.event_dim")

    @property
    def inv(self) -> Transform:
        """The inverse function."""
        return _InverseTransform(self)

    @property
    def sign(self) -> Any:
        """1 where the function rises, -1 where it falls; NotImplementedError if it does neither."""
        raise NotImplementedError

    def with_cache(self, cache_size: int = 1) -> Transform:
        """A copy with that cache size."""
        made = copy.copy(self)
        made._cache_size, made._cached_x_y = cache_size, (None, None)
        return made

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    def __call__(self, x: Tensor) -> Tensor:
        if self._cache_size == 0:
            return self._call(x)
        known, found = self._cached_x_y
        if found is not None and x is known:
            return found
        y = self._call(x)
        self._cached_x_y = x, y
        return y

    def _inv_call(self, y: Tensor) -> Tensor:
        if self._cache_size == 0:
            return self._inverse(y)
        found, known = self._cached_x_y
        if found is not None and y is known:
            return found
        x = self._inverse(y)
        self._cached_x_y = x, y
        return x

    def _call(self, x: Tensor) -> Tensor:
        raise NotImplementedError

    def _inverse(self, y: Tensor) -> Tensor:
        raise NotImplementedError

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """The logarithm of the absolute determinant of dy/dx, one per event."""
        return self._log_slope(x, y)

    def _log_slope(self, x: Tensor, y: Tensor) -> Tensor:
        raise NotImplementedError

    def forward_shape(self, shape: Sequence[int]) -> Sequence[int]:
        """The shape of the result for an argument of that shape."""
        return shape

    def inverse_shape(self, shape: Sequence[int]) -> Sequence[int]:
        """The shape of the argument for a result of that shape."""
        return shape

    def __repr__(self) -> str:
        return type(self).__name__ + "()"


class _InverseTransform(Transform):
    """The inverse of another transform."""

    def __init__(self, transform: Transform) -> None:
        super().__init__(transform._cache_size)
        self._inv = transform

    @property
    def domain(self) -> Any:
        return self._inv.codomain

    @property
    def codomain(self) -> Any:
        return self._inv.domain

    @property
    def bijective(self) -> bool:
        return bool(self._inv.bijective)

    @property
    def sign(self) -> Any:
        return self._inv.sign

    @property
    def inv(self) -> Transform:
        return self._inv

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _InverseTransform) and self._inv == other._inv

    __hash__ = Transform.__hash__

    def __repr__(self) -> str:
        return f"_InverseTransform({self._inv!r})"

    def __call__(self, x: Tensor) -> Tensor:
        return self._inv._inv_call(x)

    def _inv_call(self, y: Tensor) -> Tensor:
        return self._inv(y)

    def _log_slope(self, x: Tensor, y: Tensor) -> Tensor:
        return -self._inv.log_abs_det_jacobian(y, x)

    def forward_shape(self, shape: Sequence[int]) -> Sequence[int]:
        return self._inv.inverse_shape(shape)

    def inverse_shape(self, shape: Sequence[int]) -> Sequence[int]:
        return self._inv.forward_shape(shape)


class ComposeTransform(Transform):
    """Several transforms, one after the other."""

    def __init__(self, parts: list[Transform], cache_size: int = 0) -> None:
        self.parts = [p.with_cache(cache_size) for p in parts] if cache_size else list(parts)
        super().__init__(cache_size)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ComposeTransform) and self.parts == other.parts

    __hash__ = Transform.__hash__

    @property
    def domain(self) -> Any:
        """That of the first, with as many event dimensions as any part needs."""
        if not self.parts:
            return constraints.real
        rank = self.parts[-1].codomain.event_dim
        for part in reversed(self.parts):
            rank += part.domain.event_dim - part.codomain.event_dim
            rank = max(rank, part.domain.event_dim)
        first = self.parts[0].domain
        extra = rank - first.event_dim
        return constraints.independent(first, extra) if extra > 0 else first

    @property
    def codomain(self) -> Any:
        """That of the last, with as many event dimensions as any part needs."""
        if not self.parts:
            return constraints.real
        rank = self.parts[0].domain.event_dim
        for part in self.parts:
            rank += part.codomain.event_dim - part.domain.event_dim
            rank = max(rank, part.codomain.event_dim)
        last = self.parts[-1].codomain
        extra = rank - last.event_dim
        return constraints.independent(last, extra) if extra > 0 else last

    @property
    def bijective(self) -> bool:
        """Whether all parts are."""
        return all(p.bijective for p in self.parts)

    @property
    def sign(self) -> Any:
        """The product of the parts' signs."""
        return math.prod(p.sign for p in self.parts)

    @property
    def inv(self) -> Transform:
        """The inverse parts in reverse order."""
        return ComposeTransform([p.inv for p in reversed(self.parts)])

    def with_cache(self, cache_size: int = 1) -> Transform:
        """A copy with that cache size."""
        return ComposeTransform(self.parts, cache_size)

    def __call__(self, x: Tensor) -> Tensor:
        for part in self.parts:
            x = part(x)
        return x

    def _inv_call(self, y: Tensor) -> Tensor:
        for part in reversed(self.parts):
            y = part._inv_call(y)
        return y

    def _log_slope(self, x: Tensor, y: Tensor) -> Tensor:
        if not self.parts:
            return lazyt.zeros_like(x)
        total: Any = 0
        rank = self.domain.event_dim
        for part in self.parts:
            y = part(x)
            slope = part.log_abs_det_jacobian(x, y)
            total = total + sum_rightmost(slope, rank - part.domain.event_dim)
            rank += part.codomain.event_dim - part.domain.event_dim
            x = y
        found: Tensor = total
        return found

    def forward_shape(self, shape: Sequence[int]) -> Sequence[int]:
        """Through all parts."""
        for part in self.parts:
            shape = part.forward_shape(shape)
        return shape

    def inverse_shape(self, shape: Sequence[int]) -> Sequence[int]:
        """Back through all parts."""
        for part in reversed(self.parts):
            shape = part.inverse_shape(shape)
        return shape

    def __repr__(self) -> str:
        listed = ",\n    ".join(repr(p) for p in self.parts)
        return f"ComposeTransform(\n    {listed}\n)"


identity_transform = ComposeTransform([])


class IndependentTransform(Transform):
    """Another transform, of which the last dimensions count as one event."""

    def __init__(
        self, base_transform: Transform, reinterpreted_batch_ndims: int, cache_size: int = 0
    ) -> None:
        super().__init__(cache_size)
        self.base_transform = base_transform
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    @property
    def domain(self) -> Any:
        """As of the other, with more event dimensions."""
        return constraints.independent(self.base_transform.domain, self.reinterpreted_batch_ndims)

    @property
    def codomain(self) -> Any:
        """As of the other, with more event dimensions."""
        return constraints.independent(self.base_transform.codomain, self.reinterpreted_batch_ndims)

    @property
    def bijective(self) -> bool:
        """As of the other."""
        return bool(self.base_transform.bijective)

    @property
    def sign(self) -> Any:
        """As of the other."""
        return self.base_transform.sign

    def _call(self, x: Tensor) -> Tensor:
        if x.dim() < self.domain.event_dim:
            raise ValueError("Too few dimensions on input")
        return self.base_transform(x)

    def _inverse(self, y: Tensor) -> Tensor:
        if y.dim() < self.codomain.event_dim:
            raise ValueError("Too few dimensions on input")
        return self.base_transform._inv_call(y)

    def _log_slope(self, x: Tensor, y: Tensor) -> Tensor:
        slope = self.base_transform.log_abs_det_jacobian(x, y)
        return sum_rightmost(slope, self.reinterpreted_batch_ndims)

    def forward_shape(self, shape: Sequence[int]) -> Sequence[int]:
        """As of the other."""
        return self.base_transform.forward_shape(shape)

    def inverse_shape(self, shape: Sequence[int]) -> Sequence[int]:
        """As of the other."""
        return self.base_transform.inverse_shape(shape)

    def __repr__(self) -> str:
        return f"IndependentTransform({self.base_transform!r}, {self.reinterpreted_batch_ndims})"


class _Plain(Transform):
    """A transform without parameters: all of a kind are equal."""

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    def __hash__(self) -> int:
        return hash(type(self))


class _Rising(_Plain):
    """A rising function of the real line onto ``codomain``."""

    domain = constraints.real
    bijective = True

    @property
    def sign(self) -> Any:
        """1."""
        return 1


class ExpTransform(_Rising):
    """``exp(x)``."""

    codomain = constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return x.exp()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def _log_slope(self, x: Tensor, y: Tensor) -> Tensor:
        return x


class SigmoidTransform(_Rising):
    """``1 / (1 + exp(-x))``, kept away from 0 and 1."""

    codomain = constraints.unit_interval

    def _call(self, x: Tensor) -> Tensor:
        limits = lazyt.finfo(x.dtype)
        return lazyt.sigmoid(x).clamp(min=limits.tiny, max=1.0 - limits.eps)

    def _inverse(self, y: Tensor) -> Tensor:
        limits = lazyt.finfo(y.dtype)
        y = y.clamp(min=limits.tiny, max=1.0 - limits.eps)
        return y.log() - (-y).log1p()

    def _log_slope(self, x: Tensor, y: Tensor) -> Tensor:
        softplus = nn.functional.softplus
        return -softplus(-x) - softplus(x)


class SoftplusTransform(_Rising):
    """``log(1 + exp(x))``."""

    codomain = constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return nn.functional.softplus(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return (-y).expm1().neg().log() + y

    def _log_slope(self, x: Tensor, y: Tensor) -> Tensor:
        return -nn.functional.softplus(-x)


class TanhTransform(_Rising):
    """``tanh(x)``."""

    codomain = constraints.interval(-1.0, 1.0)

    def _call(self, x: Tensor) -> Tensor:
        return x.tanh()

    def _inverse(self, y: Tensor) -> Tensor:
        return lazyt.atanh(y)

    def _log_slope(self, x: Tensor, y: Tensor) -> Tensor:
        # 1 - tanh(x)^2 = sech(x)^2, in a form without cancellation.
        return 2.0 * (math.log(2.0) - x - nn.functional.softplus(-2.0 * x))


class AbsTransform(_Plain):
    """``|x|``, whose inverse gives the positive of the two."""

    domain = constraints.real
    codomain = constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return x.abs()

    def _inverse(self, y: Tensor) -> Tensor:
        return y


class PowerTransform(Transform):
    """``x ** exponent`` for positive x."""

    domain = constraints.positive
    codomain = constraints.positive
    bijective = True

    def __init__(self, exponent: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        (self.exponent,) = broadcast_all(exponent)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PowerTransform) and bool(self.exponent.eq(other.exponent).all())

    __hash__ = Transform.__hash__

    @property
    def sign(self) -> Any:
        """The exponent's sign."""
        return self.exponent.sign()

    def _call(self, x: Tensor) -> Tensor:
        return x.pow(self.exponent)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.pow(1 / self.exponent)

    def _log_slope(self, x: Tensor, y: Tensor) -> Any:
        return (self.exponent * y / x).abs().log()

    def forward_shape(self, shape: Sequence[int]) -> Any:
        """Broadcast with the exponent."""
        return lazyt.broadcast_shapes(shape, self.exponent.shape)

    def inverse_shape(self, shape: Sequence[int]) -> Any:
        """Broadcast with the exponent."""
        return lazyt.broadcast_shapes(shape, self.exponent.shape)


class AffineTransform(Transform):
    """``loc + scale * x``, for events of ``event_dim`` dimensions."""

    bijective = True

    def __init__(self, loc: Any, scale: Any, event_dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.loc, self.scale, self._event_dim = loc, scale, event_dim

    @property
    def event_dim(self) -> int:
        """As given."""
        return self._event_dim

    @property
    def domain(self) -> Any:
        """The real numbers, or vectors of them."""
        real = constraints.real
        return constraints.independent(real, self.event_dim) if self.event_dim else real

    codomain = domain

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, AffineTransform):
            return False
        pairs = ((self.loc, other.loc), (self.scale, other.scale))
        return all(bool(lazyt.as_tensor(a == b).all()) for a, b in pairs)

    __hash__ = Transform.__hash__

    @property
    def sign(self) -> Any:
        """The scale's sign."""
        if isinstance(self.scale, Tensor):
            return self.scale.sign()
        return 1 if float(self.scale) > 0 else -1 if float(self.scale) < 0 else 0

    def _call(self, x: Tensor) -> Tensor:
        found: Tensor = self.loc + self.scale * x
        return found

    def _inverse(self, y: Tensor) -> Tensor:
        found: Tensor = (y - self.loc) / self.scale
        return found

    def _log_slope(self, x: Tensor, y: Tensor) -> Tensor:
        if isinstance(self.scale, Tensor):
            slope = lazyt.abs(self.scale).log()
        else:
            slope = lazyt.full_like(x, math.log(abs(self.scale)))
        if self.event_dim:
            size = Size(slope.shape)[: max(slope.dim() - self.event_dim, 0)]
            slope = slope.expand((*size, *x.shape[x.dim() - self.event_dim :]))
            slope = sum_rightmost(slope, self.event_dim)
        return slope.expand(x.shape[: x.dim() - self.event_dim])

    def _broadcast(self, shape: Sequence[int]) -> Any:
        tensors = [t for t in (self.loc, self.scale) if isinstance(t, Tensor)]
        return lazyt.broadcast_shapes(shape, *(t.shape for t in tensors))

    def forward_shape(self, shape: Sequence[int]) -> Any:
        """Broadcast with the parameters."""
        return self._broadcast(shape)

    def inverse_shape(self, shape: Sequence[int]) -> Any:
        """Broadcast with the parameters."""
        return self._broadcast(shape)


class CumulativeDistributionTransform(Transform):
    """The distribution function of a distribution of numbers."""

    bijective = True
    codomain = constraints.unit_interval

    def __init__(self, distribution: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.distribution = distribution

    @property
    def sign(self) -> Any:
        """1."""
        return 1

    @property
    def domain(self) -> Any:
        """The distribution's support."""
        return self.distribution.support

    def _call(self, x: Tensor) -> Tensor:
        found: Tensor = self.distribution.cdf(x)
        return found

    def _inverse(self, y: Tensor) -> Tensor:
        found: Tensor = self.distribution.icdf(y)
        return found

    def _log_slope(self, x: Tensor, y: Tensor) -> Tensor:
        found: Tensor = self.distribution.log_prob(x)
        return found


class SoftmaxTransform(_Plain):
    """``softmax`` over the last dimension; the logarithm is one of its inverses."""

    domain = constraints.real_vector
    codomain = constraints.simplex

    def _call(self, x: Tensor) -> Tensor:
        return x.softmax(-1)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()


class StickBreakingTransform(_Plain):
    """Vectors to probabilities, one more: each takes a share of what the ones before it left."""

    domain = constraints.real_vector
    codomain = constraints.simplex
    bijective = True

    def _shift(self, x: Tensor) -> Tensor:
        """So that a vector of zeros becomes equal probabilities."""
        return lazyt.arange(x.shape[-1], 0, -1, dtype=x.dtype).log()

    def _call(self, x: Tensor) -> Tensor:
        share = SigmoidTransform()(x - self._shift(x))
        left = (1 - share).cumprod(-1)
        one = lazyt.ones_like(x[..., :1])
        return lazyt.cat([share, one], -1) * lazyt.cat([one, left], -1)

    def _inverse(self, y: Tensor) -> Tensor:
        head = y[..., :-1]
        left = (1 - head.cumsum(-1)).clamp(min=lazyt.finfo(y.dtype).tiny)
        return head.log() - left.log() + self._shift(head)

    def _log_slope(self, x: Tensor, y: Tensor) -> Tensor:
        x = x - self._shift(x)
        return (-x + nn.functional.logsigmoid(x) + y[..., :-1].log()).sum(-1)

    def forward_shape(self, shape: Sequence[int]) -> Sequence[int]:
        """One more at the end."""
        return Size((*shape[:-1], shape[-1] + 1))

    def inverse_shape(self, shape: Sequence[int]) -> Sequence[int]:
        """One less at the end."""
        return Size((*shape[:-1], shape[-1] - 1))


class LowerCholeskyTransform(_Plain):
    """Square matrices to lower triangular ones with a positive diagonal."""

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.lower_cholesky

    def _call(self, x: Tensor) -> Tensor:
        return x.tril(-1) + x.diagonal(dim1=-2, dim2=-1).exp().diag_embed()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.tril(-1) + y.diagonal(dim1=-2, dim2=-1).log().diag_embed()


class PositiveDefiniteTransform(_Plain):
    """Square matrices to positive definite ones, by their Cholesky factors."""

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.positive_definite

    def _call(self, x: Tensor) -> Any:
        factor = LowerCholeskyTransform()(x)
        return factor @ factor.mT

    def _inverse(self, y: Tensor) -> Any:
        return LowerCholeskyTransform().inv(linalg.cholesky(y))


class ReshapeTransform(Transform):
    """The same elements in another shape. Raises ValueError for other numbers of elements."""

    bijective = True

    def __init__(self, in_shape: Any, out_shape: Any, cache_size: int = 0) -> None:
        self.in_shape, self.out_shape = Size(in_shape), Size(out_shape)
        if self.in_shape.numel() != self.out_shape.numel():
            raise ValueError("in_shape, out_shape have different numbers of elements")
        super().__init__(cache_size)

    @property
    def domain(self) -> Any:
        """Real tensors of ``in_shape``."""
        return constraints.independent(constraints.real, len(self.in_shape))

    @property
    def codomain(self) -> Any:
        """Real tensors of ``out_shape``."""
        return constraints.independent(constraints.real, len(self.out_shape))

    def _call(self, x: Tensor) -> Tensor:
        return x.reshape(self.forward_shape(x.shape))

    def _inverse(self, y: Tensor) -> Tensor:
        return y.reshape(self.inverse_shape(y.shape))

    def _log_slope(self, x: Tensor, y: Tensor) -> Tensor:
        return x.new_zeros(x.shape[: x.dim() - len(self.in_shape)])

    def forward_shape(self, shape: Sequence[int]) -> Any:
        """``in_shape`` at the end replaced by ``out_shape``."""
        return self._replaced(shape, self.in_shape, self.out_shape)

    def inverse_shape(self, shape: Sequence[int]) -> Any:
        """``out_shape`` at the end replaced by ``in_shape``."""
        return self._replaced(shape, self.out_shape, self.in_shape)

    def _replaced(self, shape: Sequence[int], old: Size, new: Size) -> Any:
        if len(shape) < len(old):
            raise ValueError("Too few dimensions on input")
        cut = len(shape) - len(old)
        if Size(shape)[cut:] != old:
            raise ValueError(f"Shape mismatch: expected {Size(shape)[cut:]} but got {old}")
        return Size(shape)[:cut] + new


class CorrCholeskyTransform(_Plain):
    """Vectors of ``n * (n - 1) / 2`` numbers to Cholesky factors of correlation matrices.

    The hyperbolic tangents of the numbers are partial correlations: below the diagonal, each takes
    its share of the length that is left of its row (Lewandowski, Kurowicka and Joe, 2009).
    """

    domain = constraints.real_vector
    codomain = constraints.corr_cholesky
    bijective = True

    def _call(self, x: Tensor) -> Tensor:
        eps = lazyt.finfo(x.dtype).eps
        share = vec_to_tril_matrix(x.tanh().clamp(min=-1 + eps, max=1 - eps), diag=-1)
        left = (1 - share.pow(2)).sqrt().cumprod(-1)
        whole = lazyt.cat([lazyt.ones_like(left[..., :1]), left[..., :-1]], -1)
        eye = lazyt.eye(share.shape[-1], dtype=x.dtype, device=x.device)
        found: Tensor = (share + eye) * whole
        return found

    def _inverse(self, y: Tensor) -> Tensor:
        left = 1 - y.pow(2).cumsum(-1)
        whole = lazyt.cat([lazyt.ones_like(left[..., :1]), left[..., :-1]], -1)
        share = tril_matrix_to_vec(y, diag=-1) / tril_matrix_to_vec(whole, diag=-1).sqrt()
        return (share.log1p() - (-share).log1p()) / 2

    def _log_slope(self, x: Tensor, y: Tensor) -> Tensor:
        left = tril_matrix_to_vec(1 - y.pow(2).cumsum(-1), diag=-2)
        slope_of_tanh = -2 * (x + nn.functional.softplus(-2 * x) - math.log(2)).sum(-1)
        found: Tensor = 0.5 * left.log().sum(-1) + slope_of_tanh
        return found

    def forward_shape(self, shape: Sequence[int]) -> Any:
        """A square at the end. Raises ValueError for a length that fills no triangle."""
        if len(shape) < 1:
            raise ValueError("Too few dimensions on input")
        side = round((0.25 + 2 * shape[-1]) ** 0.5 + 0.5)
        if side * (side - 1) // 2 != shape[-1]:
            raise ValueError("Input is not a flattened lower-diagonal number")
        return Size((*shape[:-1], side, side))

    def inverse_shape(self, shape: Sequence[int]) -> Any:
        """A vector at the end. Raises ValueError for what is no square."""
        if len(shape) < 2:
            raise ValueError("Too few dimensions on input")
        if shape[-2] != shape[-1]:
            raise ValueError("Input is not square")
        return Size((*shape[:-2], shape[-1] * (shape[-1] - 1) // 2))


class _Joined(Transform):
    """Several transforms, of parts along a dimension."""

    def __init__(self, tseq: Sequence[Transform], dim: int, cache_size: int) -> None:
        if not all(isinstance(t, Transform) for t in tseq):
            raise ArgumentError(f"{type(self).__name__}: every item has to be a Transform")
        super().__init__(cache_size)
        self.transforms = [t.with_cache(cache_size) for t in tseq] if cache_size else list(tseq)
        self.dim = dim

    @property
    def bijective(self) -> bool:
        """Whether all are."""
        return all(t.bijective for t in self.transforms)

    def _checked(self, x: Tensor, size: int) -> Tensor:
        if not -x.dim() <= self.dim < x.dim() or x.shape[self.dim] != size:
            raise ArgumentError(
                f"{type(self).__name__}: dimension {self.dim} has to have {size} elements, got "
                f"shape {tuple(x.shape)}"
            )
        return x


class CatTransform(_Joined):
    """Transforms of parts of the given lengths along a dimension, each of its own part.

    Args:
        tseq: the transforms.
        dim: the dimension.
        lengths: of the parts, 1 each by default.
        cache_size: 1 to remember the last value.

    Raises ArgumentError for other numbers of lengths, and tensors of another length.
    """

    transforms: list[Transform]

    def __init__(
        self, tseq: Sequence[Transform], dim: int = 0, lengths: Sequence[int] | None = None,
        cache_size: int = 0,
    ) -> None:  # fmt: skip
        super().__init__(tseq, dim, cache_size)
        self.lengths = [1] * len(self.transforms) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.transforms):
            raise ArgumentError("CatTransform: there has to be one length for each transform")

    @property
    def event_dim(self) -> int:
        """The largest of the transforms'."""
        return max(t.event_dim for t in self.transforms)

    @property
    def length(self) -> int:
        """The sum of the lengths."""
        return sum(self.lengths)

    @property
    def domain(self) -> Any:
        """The domains, one after the other."""
        return constraints.cat([t.domain for t in self.transforms], self.dim, self.lengths)

    @property
    def codomain(self) -> Any:
        """The codomains, one after the other."""
        return constraints.cat([t.codomain for t in self.transforms], self.dim, self.lengths)

    def with_cache(self, cache_size: int = 1) -> Transform:
        """A copy with that cache size."""
        return CatTransform(self.transforms, self.dim, self.lengths, cache_size)

    def _parts(self, x: Tensor) -> Sequence[Tensor]:
        return lazyt.split(self._checked(x, self.length), self.lengths, self.dim)

    def _call(self, x: Tensor) -> Tensor:
        return lazyt.cat([t(part) for t, part in zip(self.transforms, self._parts(x))], self.dim)

    def _inverse(self, y: Tensor) -> Tensor:
        parts = zip(self.transforms, self._parts(y))
        return lazyt.cat([t.inv(part) for t, part in parts], self.dim)

    def _log_slope(self, x: Tensor, y: Tensor) -> Tensor:
        slopes = []
        for t, part, value in zip(self.transforms, self._parts(x), self._parts(y)):
            slope = t.log_abs_det_jacobian(part, value)
            slopes.append(sum_rightmost(slope, self.event_dim - t.event_dim))
        dim = self.dim - x.dim() if self.dim >= 0 else self.dim
        if dim + self.event_dim < 0:
            return lazyt.cat(slopes, dim + self.event_dim)
        found: Any = sum(slopes)
        return cast(Tensor, found)


class StackTransform(_Joined):
    """Transforms of slices along a dimension, each of its own slice.

    Args:
        tseq: the transforms.
        dim: the dimension.
        cache_size: 1 to remember the last value.

    Raises ArgumentError for tensors with another number of slices.
    """

    transforms: list[Transform]

    def __init__(self, tseq: Sequence[Transform], dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(tseq, dim, cache_size)

    @property
    def domain(self) -> Any:
        """The domains, side by side."""
        return constraints.stack([t.domain for t in self.transforms], self.dim)

    @property
    def codomain(self) -> Any:
        """The codomains, side by side."""
        return constraints.stack([t.codomain for t in self.transforms], self.dim)

    def with_cache(self, cache_size: int = 1) -> Transform:
        """A copy with that cache size."""
        return StackTransform(self.transforms, self.dim, cache_size)

    def _slice(self, x: Tensor) -> Sequence[Tensor]:
        return lazyt.unbind(self._checked(x, len(self.transforms)), self.dim)

    def _call(self, x: Tensor) -> Tensor:
        return lazyt.stack([t(part) for t, part in zip(self.transforms, self._slice(x))], self.dim)

    def _inverse(self, y: Tensor) -> Tensor:
        parts = zip(self.transforms, self._slice(y))
        return lazyt.stack([t.inv(part) for t, part in parts], self.dim)

    def _log_slope(self, x: Tensor, y: Tensor) -> Tensor:
        parts = zip(self.transforms, self._slice(x), self._slice(y))
        return lazyt.stack([t.log_abs_det_jacobian(a, b) for t, a, b in parts], self.dim)
