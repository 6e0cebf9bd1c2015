"""``softmax`` and its relatives as ``nn.functional`` has them: the dimension may be left out."""

from __future__ import annotations

from typing import Any

from lazyt.errors import LazytError, warn
from lazyt.functional.nn import normalizers
from lazyt.functional.nn.normalizers import softmax_node
from lazyt.functional.operands import constant_of, mapped, normalize_dim, require_tensor
from lazyt.functional.random.random import uniform_node
from lazyt.functional.results import give
from lazyt.functional.type_promotion import torch_name
from lazyt.handle.function_table import function
from lazyt.handle.tensor import Tensor
from lazyt.ir.scalar import Expr, call, const


def _implicit_dim(name: str, rank: int) -> int:
    warn(
        f"Implicit dimension choice for {name} has been deprecated. Change the call to include "
        "dim=X as an argument."
    )
    return 0 if rank in (0, 1, 3) else 1


@function(cast="full_by_default")
def softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None
) -> Tensor:
    """Exponentials along ``dim`` that add up to 1.

    Without ``dim`` PyTorch's choice is taken, with a warning: 0 for none, one or three
    dimensions, else 1. Raises UnsupportedTypeError for whole numbers, BoundsError.
    """
    axis = _implicit_dim("softmax", input.ndim) if dim is None else dim
    return normalizers.softmax(input, axis, dtype)


@function(cast="full_by_default")
def log_softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None
) -> Tensor:
    """The logarithm of ``softmax``, without overflow."""
    axis = _implicit_dim("log_softmax", input.ndim) if dim is None else dim
    return normalizers.log_softmax(input, axis, dtype)


@function(cast="full")
def softmin(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None
) -> Tensor:
    """``softmax`` of ``-input``."""
    axis = _implicit_dim("softmin", input.ndim) if dim is None else dim
    return normalizers.softmax(-input, axis, dtype)


def _disturbed(x: Expr, draw: Expr, tau: Expr) -> Expr:
    """Gumbel noise by inversion: minus the logarithm of an exponential number."""
    exponential = call("neg", call("log1p", call("neg", draw)))
    # A draw of 0 would be an infinite disturbance.
    tiny = const(2.0**-25, x.dtype)
    noise = call("neg", call("log", call("maximum", exponential, tiny)))
    return call("div", call("add", x, noise), tau)


@function(cast="full")
def gumbel_softmax(
    logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1
) -> Tensor:
    """A sample of categories, softened by ``tau`` (Jang et al. 2017, Maddison et al. 2017).

    With ``hard`` it is a row with a single 1 along ``dim``, whose gradient is the soft sample's.
    Every call draws one number per element from one key of the default generator's stream.
    Raises LazytError for whole numbers, BoundsError.
    """
    require_tensor(logits, "gumbel_softmax", "logits")
    if eps != 1e-10:
        text = "`eps` parameter is deprecated and has no effect."
        warn(text)
    if logits.dtype.kind != "f":
        raise LazytError(
            "Exponential distribution is a continuous probability distribution. dtype must be a "
            f"floating point but you specified {torch_name(logits.dtype)}"
        )
    axis = normalize_dim(dim, logits.ndim)
    dtype = logits.dtype
    draw = uniform_node(tuple(logits.shape), dtype.compute, None)
    nodes = (logits.node, draw, constant_of(tau, dtype.compute))
    node = softmax_node(mapped(_disturbed, nodes, dtype, None), axis)
    soft = give(mapped(_same, (node,), dtype, dtype), "Softmax", (logits,))
    if not hard:
        return soft
    best = soft.detach().argmax(axis, keepdim=True)
    chosen: Tensor = logits.new_zeros(logits.shape).scatter(axis, best, 1.0)
    result: Tensor = chosen - soft.detach() + soft
    return result


def _same(x: Expr) -> Expr:
    return x
