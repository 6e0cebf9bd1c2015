"""What a transform is, its inverse, several in a row, and one over larger events.

With ``cache_size=1`` a transform remembers its last argument and value, so that what it gave can be
carried back although ``_inverse`` is not defined.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import Any

import lazyt
from lazyt import Tensor
from lazyt.distributions import constraints
from lazyt.distributions.parameters import sum_rightmost

__all__ = ["ComposeTransform", "IndependentTransform", "Transform", "identity_transform"]


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
