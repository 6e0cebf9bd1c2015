"""What PyTorch defines for complex numbers, for the real types that there are."""

from __future__ import annotations

import math

from lazyt.errors import LazytError
from lazyt.functional.operands import mapped, require_tensor
from lazyt.functional.promotion import get_default_dtype
from lazyt.functional.results import give
from lazyt.ir.scalar import Expr, call, const
from lazyt.tensor import Tensor

__all__ = [
    "angle", "conj", "conj_physical", "imag", "is_conj", "is_neg", "isreal", "real",
    "resolve_conj", "resolve_neg",
]  # fmt: skip


def real(input: Tensor) -> Tensor:
    """The tensor itself: all types are real."""
    return require_tensor(input, "real")


def imag(input: Tensor) -> Tensor:
    """Raises LazytError: only complex numbers have an imaginary part."""
    require_tensor(input, "imag")
    raise LazytError("imag is not implemented for tensors with non-complex dtypes.")


def conj(input: Tensor) -> Tensor:
    """The tensor itself: real numbers are their own conjugates."""
    return require_tensor(input, "conj")


def conj_physical(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The tensor itself, or its values written to ``out``."""
    if out is None:
        return require_tensor(input, "conj_physical")
    return give(require_tensor(input, "conj_physical").node, "ConjPhysical", (input,), out)


def resolve_conj(input: Tensor) -> Tensor:
    """The tensor itself: no tensor is conjugated lazily."""
    return require_tensor(input, "resolve_conj")


def resolve_neg(input: Tensor) -> Tensor:
    """The tensor itself: no tensor has a negation pending that PyTorch's API would show."""
    return require_tensor(input, "resolve_neg")


def is_conj(input: Tensor) -> bool:
    """Whether the conjugate bit is set; never."""
    require_tensor(input, "is_conj")
    return False


def is_neg(input: Tensor) -> bool:
    """Whether the negative bit is set; never."""
    require_tensor(input, "is_neg")
    return False


def _true(x: Expr) -> Expr:
    return call("eq", const(0, x.dtype), const(0, x.dtype))


def isreal(input: Tensor) -> Tensor:
    """True everywhere, in bool."""
    node = require_tensor(input, "isreal").node
    return give(mapped(_true, (node,), node.dtype, None), "isreal", ())


def _angle(x: Expr) -> Expr:
    zero = const(0, x.dtype)
    turned = call("where", call("lt", x, zero), const(math.pi, x.dtype), zero)
    return call("where", call("isnan", x), x, turned)


def angle(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """pi for negative numbers, 0 for others; whole numbers count as the default dtype."""
    node = require_tensor(input, "angle").node
    dtype = node.dtype if node.dtype.kind == "f" else get_default_dtype()
    return give(mapped(_angle, (node,), dtype, dtype), "Angle", (input,), out)
