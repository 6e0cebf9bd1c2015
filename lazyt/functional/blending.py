"""Functions of three operands: products and quotients added to, and interpolation."""

from __future__ import annotations

from typing import Any

from lazyt.errors import DTypeError, NoKernelError
from lazyt.functional.nesting import refuse_number
from lazyt.functional.operands import (
    Build,
    as_number,
    broadcast_all,
    mapped,
    operand_dtype,
    operand_node,
    require_tensor,
    wrong_arguments,
)
from lazyt.functional.promotion import c_name, torch_name
from lazyt.functional.results import give
from lazyt.ir.dtypes import bool_
from lazyt.ir.scalar import Expr, call, const
from lazyt.tensor import Tensor

__all__ = ["addcdiv", "addcmul", "lerp"]


def _add_product(x: Expr, a: Expr, b: Expr, scale: Expr) -> Expr:
    return call("add", x, call("mul", call("mul", scale, a), b))


def _add_quotient(x: Expr, a: Expr, b: Expr, scale: Expr) -> Expr:
    return call("add", x, call("div", call("mul", scale, a), b))


def _add_scaled(
    build: Build, title: str, parts: tuple[Tensor, Any, Any], value: Any, out: Tensor | None
) -> Tensor:
    operands = [require_tensor(p, title.lower()) for p in parts]
    dtype = operand_dtype(operands)
    if title == "Addcdiv" and dtype.kind != "f":
        raise DTypeError(
            "Integer division with addcdiv is no longer supported, and in a future release "
            "addcdiv will perform a true division of tensor1 and tensor2. The historic addcdiv "
            "behavior can be implemented as (input + value * torch.trunc(tensor1 / tensor2)).to("
            "input.dtype) for integer inputs and as (input + value * tensor1 / tensor2) for float "
            "inputs. The future addcdiv behavior is just the latter implementation: (input + value "
            "* tensor1 / tensor2), for all dtypes."
        )
    if dtype is bool_:
        raise NoKernelError("\"addcmul_cpu_out\" not implemented for 'Bool'")
    broadcast_all([tuple(p.shape) for p in operands])
    if not isinstance(value, Tensor):
        refuse_number(value, dtype.compute)
    nodes = (*(p.node for p in operands), operand_node(value, dtype))
    return give(mapped(build, nodes, dtype, dtype), title, parts, out)


def addcmul(
    input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Any = 1, out: Tensor | None = None
) -> Tensor:
    """``input + value * tensor1 * tensor2``."""
    return _add_scaled(_add_product, "Addcmul", (input, tensor1, tensor2), value, out)


def addcdiv(
    input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Any = 1, out: Tensor | None = None
) -> Tensor:
    """``input + value * tensor1 / tensor2``. Raises DTypeError for whole numbers."""
    return _add_scaled(_add_quotient, "Addcdiv", (input, tensor1, tensor2), value, out)


def _lerp(start: Expr, end: Expr, weight: Expr) -> Expr:
    # Two forms, each exact at its own end, as PyTorch computes it.
    gap = call("sub", end, start)
    near = call("add", start, call("mul", weight, gap))
    far = call("sub", end, call("mul", gap, call("sub", const(1, weight.dtype), weight)))
    return call("where", call("lt", call("abs", weight), const(0.5, weight.dtype)), near, far)


_LERP_FORMS = (
    "Tensor input, Tensor end, Tensor weight, *, Tensor out = None",
    "Tensor input, Tensor end, Number weight, *, Tensor out = None",
)


def lerp(input: Tensor, end: Tensor, weight: Any, *, out: Tensor | None = None) -> Tensor:
    """``input + weight * (end - input)``. Raises DTypeError for operands of different dtypes
    and for whole numbers."""
    x, y = require_tensor(input, "lerp"), require_tensor(end, "lerp", "end", 2)
    if x.dtype is not y.dtype:
        raise DTypeError(
            f"expected dtype {c_name(x.dtype)} for `end` but got dtype {c_name(y.dtype)}"
        )
    if not isinstance(weight, Tensor) and as_number(weight) is None:
        raise wrong_arguments("lerp", (input, end, weight), _LERP_FORMS)
    dtype = operand_dtype([x, y, weight]) if isinstance(weight, Tensor) else x.dtype
    if dtype.kind != "f":
        kernel = "lerp_kernel_tensor" if isinstance(weight, Tensor) else "lerp_kernel_scalar"
        raise NoKernelError(f"\"{kernel}\" not implemented for '{torch_name(dtype)}'")
    broadcast_all([tuple(t.shape) for t in (x, y, weight) if isinstance(t, Tensor)])
    if not isinstance(weight, Tensor):
        refuse_number(weight, dtype.compute)
    nodes = (x.node, y.node, operand_node(weight, dtype))
    return give(mapped(_lerp, nodes, dtype, dtype), "Lerp", (input, end, weight), out)
