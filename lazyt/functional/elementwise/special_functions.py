"""Functions of physics and statistics: gamma, Bessel, Airy, normal law, polynomials."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable
from typing import Any

from lazyt import ops
from lazyt.errors import GradientError, LazytError, NoKernelError
from lazyt.functional.elementwise.arithmetic import scalar_build
from lazyt.functional.elementwise.unary import floating, floating_function
from lazyt.functional.operands import Build, check_pair, mapped, pair, require_tensor
from lazyt.functional.result_layout import row_major
from lazyt.functional.results import give
from lazyt.functional.type_promotion import get_default_dtype, torch_name
from lazyt.handle.function_table import declare, function
from lazyt.handle.tensor import Tensor
from lazyt.ir.dtypes import bool_
from lazyt.ir.graph import Node
from lazyt.ir.scalar import Expr, call, const
from lazyt.ops.scalars import trigamma

__all__ = ["i0", "igamma", "igammac", "mvlgamma", "polygamma"]

Function = Callable[..., Tensor]


def _whole(name: str, doc: str, build: Build | None = None, title: str = "") -> Function:
    """A function of float32 and float64, without half types, as PyTorch has it."""
    title = title or f"Special{name.title().replace('_', '')}"
    inner = floating_function(name, title, doc, build, raised=False)

    def function(input: Tensor, *, out: Tensor | None = None) -> Tensor:
        if require_tensor(input, f"special_{name}").dtype.is_half:
            raise NoKernelError(f"\"{name}_cpu\" not implemented for '{torch_name(input.dtype)}'")
        return inner(input, out=out)

    function.__doc__ = doc
    function.__name__ = function.__qualname__ = name
    return declare(name, function)


#: A function of ``lazyt.special`` alone, which is no method.
_special = functools.partial(floating, method=False, inplace="")


def _number(value: float, like: Expr) -> Expr:
    return const(value, like.dtype)


def _ndtr(x: Expr) -> Expr:
    # The error function near 0 and its complement in the tails, so that both keep their digits.
    z = call("mul", x, _number(math.sqrt(0.5), x))
    half = _number(0.5, x)
    near = call("add", half, call("mul", half, call("erf", z)))
    far = call("mul", half, call("erfc", call("neg", z)))
    return call("where", call("lt", call("abs", z), _number(math.sqrt(0.5), x)), near, far)


def _log_ndtr(x: Expr) -> Expr:
    # Far below 0 by the scaled function, whose factor exp(-x*x/2) has a known logarithm.
    z = call("mul", x, _number(math.sqrt(0.5), x))
    half, low = _number(0.5, x), call("lt", x, _number(-1, x))
    scaled = call("erfcx", call("neg", call("where", low, z, _number(-1, x))))
    below = call("sub", call("log", call("mul", half, scaled)), call("mul", z, z))
    high = call("where", low, _number(0, x), z)  # where it is not used it must not overflow
    above = call("log1p", call("neg", call("mul", half, call("erfc", high))))
    return call("where", low, below, above)


def _entr(x: Expr) -> Expr:
    zero = _number(0, x)
    positive = call("where", call("gt", x, zero), x, _number(1, x))
    value = call("neg", call("mul", x, call("log", positive)))
    outside = call("where", call("eq", x, zero), zero, _number(-math.inf, x))
    outside = call("where", call("isnan", x), x, outside)
    return call("where", call("gt", x, zero), value, outside)


def _spherical_j0(x: Expr) -> Expr:
    zero, one = _number(0, x), _number(1, x)
    small = call("lt", call("abs", x), _number(0.01, x))
    safe = call("where", small, one, x)
    z = call("mul", x, x)
    series = call("sub", one, call("mul", call("div", z, _number(6, x)),
                  call("sub", one, call("div", z, _number(20, x)))))  # fmt: skip
    ratio = call("div", call("sin", safe), safe)
    ratio = call("where", call("isinf", x), zero, ratio)
    return call("where", small, series, ratio)


i0 = floating("i0", "I0", "The modified Bessel function of the first kind, order 0.", saves="s")
i0e = _special("i0e", "SpecialI0E", "``i0(x) * exp(-|x|)``.")
i1 = _special("i1", "SpecialI1", "The modified Bessel function of the first kind, order 1.")
i1e = _special("i1e", "SpecialI1E", "``i1(x) * exp(-|x|)``.")
erfcx = _whole("erfcx", "``exp(x**2) * erfc(x)``, without overflow above 0.")
ndtr = _special("ndtr", "SpecialNdtr", "The normal distribution function.", _ndtr)
ndtri = _whole("ndtri", "The inverse of the normal distribution function; NaN outside [0, 1].")
log_ndtr = _whole("log_ndtr", "The logarithm of the normal distribution function.", _log_ndtr)
entr = _special("entr", "SpecialEntr", "``-x * log(x)``; 0 at 0, -inf below.", _entr, saves="s")
bessel_j0 = _whole("bessel_j0", "The Bessel function of the first kind, order 0.")
bessel_j1 = _whole("bessel_j1", "The Bessel function of the first kind, order 1.")
bessel_y0 = _whole("bessel_y0", "The Bessel function of the second kind, order 0.")
bessel_y1 = _whole("bessel_y1", "The Bessel function of the second kind, order 1.")
modified_bessel_i0 = _whole("modified_bessel_i0", "The same as ``i0``.", scalar_build("i0"))
modified_bessel_i1 = _whole("modified_bessel_i1", "The same as ``i1``.", scalar_build("i1"))
modified_bessel_k0 = _whole(
    "modified_bessel_k0", "The modified Bessel function of the second kind, order 0."
)
modified_bessel_k1 = _whole(
    "modified_bessel_k1", "The modified Bessel function of the second kind, order 1."
)
scaled_modified_bessel_k0 = _whole(
    "scaled_modified_bessel_k0", "``modified_bessel_k0(x) * exp(x)``."
)
scaled_modified_bessel_k1 = _whole(
    "scaled_modified_bessel_k1", "``modified_bessel_k1(x) * exp(x)``."
)
spherical_bessel_j0 = _whole("spherical_bessel_j0", "``sin(x) / x``, 1 at 0.", _spherical_j0)
_AIRY = scalar_build("airy_ai")


@function()
def airy_ai(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Airy's function Ai; without gradient, as in PyTorch. NaN at the infinities."""
    node = require_tensor(input, "special_airy_ai").node
    dtype = node.dtype if node.dtype.kind == "f" else get_default_dtype()
    if dtype.is_half:
        raise NoKernelError(f"\"airy_ai_cpu\" not implemented for '{torch_name(dtype)}'")
    node = ops.detach(node) if node.needs_grad else node
    return give(mapped(_AIRY, (node,), dtype, dtype), "airy_ai", (), out)


def _refuse_gradient(node: Node, function: str) -> None:
    """Raise where PyTorch's backward pass would: the derivative is not known in closed form."""
    if node.needs_grad:
        raise GradientError(f"the derivative for '{function}' is not implemented.")


def _incomplete(name: str, doc: str) -> Function:
    build = scalar_build(name)

    def function(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
        require_tensor(input, name)
        x, y, dtype = pair(input, require_tensor(other, name, "other", 2), name)
        if dtype.kind != "f":
            raise NoKernelError(f"\"{name}_cpu\" not implemented for '{torch_name(dtype)}'")
        _refuse_gradient(x, f"{name}: input")
        return give(mapped(build, (x, y), dtype, dtype), name.title(), (input, other), out)

    function.__doc__ = doc
    function.__name__ = function.__qualname__ = name
    return function


igamma = declare(
    "igamma",
    _incomplete("igamma", "The regularised lower incomplete gamma function P(input, other)."),
    method=True,
    inplace="method",
    saves="a",
)
igammac = declare(
    "igammac",
    _incomplete("igammac", "The regularised upper incomplete gamma function Q(input, other)."),
    method=True,
    inplace="method",
    saves="a",
)

_ZETA = scalar_build("zeta")


def _binary(name: str, build: Build, title: str, frozen: bool) -> Function:
    """A function of two tensors or numbers that computes whole numbers in the default dtype.

    ``frozen``: without gradient, as in PyTorch.
    """

    def function(input: Any, other: Any, *, out: Tensor | None = None) -> Tensor:
        check_pair(input, other, f"special_{name}")
        x, y, dtype = pair(input, other, f"special_{name}")
        if dtype.kind != "f":
            dtype = get_default_dtype()
        if dtype.is_half:
            raise NoKernelError(f"\"{name}_cpu\" not implemented for '{torch_name(dtype)}'")
        if frozen:
            x, y = (ops.detach(n) if n.needs_grad else n for n in (x, y))
        else:
            _refuse_gradient(x, name)
        return give(mapped(build, (x, y), dtype, dtype), title, (input, other), out)

    function.__name__ = function.__qualname__ = name
    return function


zeta = declare("zeta", _binary("zeta", _ZETA, "SpecialZeta", False))
zeta.__doc__ = "Hurwitz's zeta function: the sum of ``(k + other) ** -input`` over k >= 0."


def _shifted(name: str) -> Build:
    def build(x: Expr, n: Expr) -> Expr:
        moved = call("sub", call("mul", _number(2, x), x), _number(1, x))
        return call(name, moved, n)

    return build


def _polynomial(name: str, build: Build, doc: str) -> Function:
    made = _binary(name, build, name, True)
    made.__doc__ = f"{doc} of degree ``n`` at ``input``; without gradient, as in PyTorch."
    return declare(name, made)


def _kinds(shifted: bool) -> list[Function]:
    made = []
    for kind, title in (("t", "first"), ("u", "second"), ("v", "third"), ("w", "fourth")):
        inner = f"chebyshev_{kind}"
        name = f"{'shifted_' if shifted else ''}chebyshev_polynomial_{kind}"
        build = _shifted(inner) if shifted else scalar_build(inner)
        words = "The shifted Chebyshev" if shifted else "The Chebyshev"
        made.append(_polynomial(name, build, f"{words} polynomial of the {title} kind"))
    return made


(
    chebyshev_polynomial_t,
    chebyshev_polynomial_u,
    chebyshev_polynomial_v,
    chebyshev_polynomial_w,
) = _kinds(False)
(
    shifted_chebyshev_polynomial_t,
    shifted_chebyshev_polynomial_u,
    shifted_chebyshev_polynomial_v,
    shifted_chebyshev_polynomial_w,
) = _kinds(True)
hermite_polynomial_h = _polynomial(
    "hermite_polynomial_h", scalar_build("hermite_h"), "The physicist's Hermite polynomial"
)
hermite_polynomial_he = _polynomial(
    "hermite_polynomial_he", scalar_build("hermite_he"), "The probabilist's Hermite polynomial"
)
laguerre_polynomial_l = _polynomial(
    "laguerre_polynomial_l", scalar_build("laguerre_l"), "The Laguerre polynomial"
)
legendre_polynomial_p = _polynomial(
    "legendre_polynomial_p", scalar_build("legendre_p"), "The Legendre polynomial"
)


_XLOG1PY = scalar_build("xlog1py")


@function()
def xlog1py(input: Any, other: Any, *, out: Tensor | None = None) -> Tensor:
    """``input * log1p(other)``, 0 where ``input`` is 0 and ``other`` is no NaN."""
    check_pair(input, other, "special_xlog1py")
    x, y, dtype = pair(input, other, "special_xlog1py")
    if dtype.kind != "f":
        dtype = get_default_dtype()
    return give(mapped(_XLOG1PY, (x, y), dtype, dtype), "SpecialXlog1Py", (input, other), out)


_polygammas: dict[int, Build] = {}


def _polygamma_build(n: int) -> Build:
    """n = 0 and 1 have routines of their own; others are zeta functions (DLMF 5.15.1)."""
    found = _polygammas.get(n)
    if found is None:

        def build(x: Expr) -> Expr:
            if n < 2:
                return trigamma(x) if n else call("digamma", x)
            size = math.gamma(n + 1) if n < 171 else math.inf
            sum_ = call("zeta", _number(n + 1, x), x)
            return call("mul", _number(size if n % 2 else -size, x), sum_)

        found = _polygammas[n] = build
    return found


@function(saves="s")
def polygamma(n: int, input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The ``n``-th derivative of ``digamma``. Raises LazytError for a negative ``n``."""
    order = operator.index(n)
    if order < 0:
        raise LazytError("polygamma(n, x) does not support negative n.")
    node = require_tensor(input, "polygamma", "input", 2).node
    dtype = node.dtype if node.dtype.kind == "f" else get_default_dtype()
    build = _polygamma_build(order)
    return give(mapped(build, (node,), dtype, dtype), "Polygamma", (input,), out)


@function()
def polygamma_method(self: Tensor, n: int) -> Tensor:
    """The ``n``-th derivative of ``digamma`` at each element."""
    return polygamma(n, self)


_mvlgammas: dict[int, Build] = {}


def _mvlgamma_build(p: int) -> Build:
    found = _mvlgammas.get(p)
    if found is None:

        def build(x: Expr) -> Expr:
            total = _number(p * (p - 1) / 4 * math.log(math.pi), x)
            for j in range(p):
                total = call("add", total, call("lgamma", call("sub", x, _number(j / 2, x))))
            return total

        found = _mvlgammas[p] = build
    return found


@function(
    method=True,
    inplace="method",
    layout=row_major,
    out_category="mvlgamma: result type {Want} can't be cast to the desired output type {Want}",
)
def mvlgamma(input: Tensor, p: int, *, out: Tensor | None = None) -> Tensor:
    """The logarithm of the multivariate gamma function of dimension ``p``.

    Raises DTypeError for bools, LazytError for ``p`` below 1.
    """
    node = require_tensor(input, "mvlgamma").node
    if node.dtype is bool_:
        raise LazytError("The input tensor may not be a boolean tensor.")
    if p < 1:
        raise LazytError("p has to be greater than or equal to 1")
    dtype = node.dtype if node.dtype.kind == "f" else get_default_dtype()
    build = _mvlgamma_build(operator.index(p))
    return give(mapped(build, (node,), dtype, dtype), "Mvlgamma", (input,), out)
