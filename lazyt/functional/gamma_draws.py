"""Draws from gamma distributions, differentiable by the shape."""

from __future__ import annotations

from lazyt import ops
from lazyt.functional.operands import mapped
from lazyt.functional.random import open_unit_node
from lazyt.functional.results import give
from lazyt.ir.dtypes import float64
from lazyt.ir.graph import Shape
from lazyt.ir.scalar import Expr, call, const
from lazyt.tensor import Tensor

__all__: list[str] = []


def _log_draw(alpha: Expr, u: Expr, v: Expr) -> Expr:
    """By inversion for shapes of at least 1; below, a draw of shape a + 1 times v^(1/a)
    (Marsaglia and Tsang, 2000), whose logarithm is finite where the draw itself vanishes."""
    one, zero = const(1.0, float64), const(0.0, float64)
    small = call("lt", alpha, one)
    shape = call("where", small, call("add", alpha, one), alpha)
    rest = call("where", small, call("div", call("log", v), alpha), zero)
    return call("add", call("log", call("gamma_quantile", shape, u)), rest)


def log_gamma_draws(alpha: Tensor, shape: Shape) -> Tensor:
    """Logarithms of draws with rate 1 and the shapes ``alpha``, broadcast to ``shape``.

    In float64 inside, given in ``alpha``'s dtype. Gradients are pathwise, by implicit
    differentiation of the distribution function; they cannot be differentiated again.
    """
    drawn = [open_unit_node(shape, float64, None) for _ in range(2)]
    node = mapped(_log_draw, (alpha.node, *drawn), float64, float64)
    return give(ops.cast(node, alpha.dtype), "StandardGamma", (alpha,))
