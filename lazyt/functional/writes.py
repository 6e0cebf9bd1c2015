"""In-place functions that are no in-place form of another function."""

from __future__ import annotations

from typing import Any

from lazyt import ops
from lazyt.errors import DTypeError, LazytError
from lazyt.functional.indexing import fitted
from lazyt.functional.nesting import refuse_number
from lazyt.functional.operands import as_number, constant_of, expand_to
from lazyt.functional.random import (
    Generator,
    integer_node,
    normal_node,
    uniform_node,
)
from lazyt.functional.results import overwrite
from lazyt.ir.dtypes import float32
from lazyt.ir.graph import Node
from lazyt.overlap import refuse_overlap
from lazyt.tensor import Tensor

__all__ = ["fill"]


def copy_(self: Tensor, src: Any, non_blocking: bool = False) -> Tensor:
    """Write ``src``, broadcast and converted, into this tensor. Raises ShapeError."""
    if not isinstance(src, Tensor):
        raise DTypeError(
            f"copy_(): argument 'other' (position 1) must be Tensor, not {type(src).__name__}"
        )
    node = fitted(ops.cast(src.node, self.dtype), tuple(self.shape))
    refuse_overlap(self, (src,))
    if self._view is not None:
        self._view.refuse_repeats()
    return overwrite(self, node, "Copy", (self, src))


def fill_(self: Tensor, value: Any) -> Tensor:
    """Write one value everywhere. Raises LazytError for a tensor with dimensions."""
    if isinstance(value, Tensor):
        if value.shape:
            raise LazytError(
                "fill_ only supports 0-dimension value tensor but got tensor with "
                f"{len(value.shape)} dimensions."
            )
        filler = ops.cast(value.node, self.dtype)
    else:
        number = as_number(value)
        if number is None:
            raise DTypeError(
                f"fill_(): argument 'value' (position 1) must be Number, not {type(value).__name__}"
            )
        refuse_number(number, self.dtype)
        filler = constant_of(number, self.dtype)
    return overwrite(self, expand_to(filler, tuple(self.shape)), "Fill", (self, value))


def fill(input: Tensor, value: Any) -> Tensor:
    """A copy of ``input``'s size and dtype with one value everywhere. Raises as ``fill_`` does."""
    return fill_(input.detach().clone() if not isinstance(value, Tensor) else input.clone(), value)


def fill_diagonal_(self: Tensor, fill_value: Any, wrap: bool = False) -> Tensor:
    """Write one value on the main diagonal.

    Args:
        wrap: whether the diagonal of a tall matrix begins anew below its square part.

    Raises LazytError for a vector, and for more than two dimensions of unequal size.
    """
    shape = tuple(self.shape)
    if len(shape) < 2:
        raise LazytError("dimensions must larger than 1")
    if len(shape) > 2 and len(set(shape)) > 1:
        raise LazytError("all dimensions of input must be of equal length")
    step, extent = sum(self.strides), min(shape)
    fill_(self.as_strided((extent,), (step,), self.storage_offset()), fill_value)
    if wrap and len(shape) == 2 and shape[0] > shape[1] + 1:
        for top in range(shape[1] + 1, shape[0], shape[1] + 1):
            fill_(self[top : top + shape[1]].diagonal(), fill_value)
    return self


def zero_(self: Tensor) -> Tensor:
    """Write zeros everywhere."""
    return fill_(self, 0)


def _drawn(self: Tensor, node: Node) -> Tensor:
    return overwrite(self, ops.cast(node, self.dtype), "Random", (self,))


def uniform_(
    self: Tensor, from_: float = 0.0, to: float = 1.0, *, generator: Generator | None = None,
    **kwargs: Any,
) -> Tensor:  # fmt: skip
    """Write numbers evenly distributed over [from, to)."""
    low = float(kwargs.get("from", from_))
    if low > to:
        raise LazytError(
            f"uniform_ expects to return a [from, to) range, but found from={low} > to={to}"
        )
    node = uniform_node(tuple(self.shape), self.dtype, generator)
    wide = self.dtype.compute
    node = ops.apply("mul", ops.cast(node, wide), constant_of(to - low, wide))
    return _drawn(self, ops.apply("add", node, constant_of(low, wide)))


def normal_(
    self: Tensor, mean: float = 0.0, std: float = 1.0, *, generator: Generator | None = None
) -> Tensor:
    """Write normal numbers. Raises LazytError for a negative deviation."""
    if std < 0:
        raise LazytError(f"normal expects std >= 0.0, but found std {std}")
    wide = self.dtype.compute
    node = normal_node(tuple(self.shape), wide, generator)
    node = ops.apply("mul", node, constant_of(float(std), wide))
    return _drawn(self, ops.apply("add", node, constant_of(float(mean), wide)))


def random_(
    self: Tensor, from_: int | None = None, to: int | None = None, *,
    generator: Generator | None = None,
) -> Tensor:  # fmt: skip
    """Write whole numbers in [from, to); [0, to) with one argument."""
    if to is None:
        to, from_ = from_, 0
    if to is None:
        kind = self.dtype
        digits = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53, "bool": 1}
        bits = digits.get(kind.name, 8 * kind.itemsize - (kind.kind == "i"))
        to = 1 << min(bits, 62)
    node = integer_node(tuple(self.shape), int(from_ or 0), to, self.dtype, generator)
    return _drawn(self, node)


def bernoulli_(self: Tensor, p: Any = 0.5, *, generator: Generator | None = None) -> Tensor:
    """Write 1 with probability ``p``, a number or a tensor, else 0."""
    limit = p.node if isinstance(p, Tensor) else constant_of(float(p), float32)
    drawn = uniform_node(tuple(self.shape), float32, generator)
    return _drawn(self, ops.apply("lt", drawn, ops.cast(limit, float32)))
