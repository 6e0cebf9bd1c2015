"""Choosing between values: where, clamp, masked fills, and comparisons within a tolerance."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from lazyt import ops
from lazyt.errors import DTypeError, LazytError, NoKernelError, ShapeError
from lazyt.functional.creation.nesting import LARGEST, refuse_assigned, refuse_number, refuse_value
from lazyt.functional.elementwise.arithmetic import scalar_build
from lazyt.functional.indexing.masks import nonzero
from lazyt.functional.operands import (
    Build,
    Operand,
    as_number,
    broadcast_all,
    choose,
    constant_of,
    mapped,
    operand_dtype,
    operand_node,
    require_tensor,
    wrong_arguments,
)
from lazyt.functional.result_layout import row_major
from lazyt.functional.results import FOUND_DTYPE, give
from lazyt.functional.type_promotion import (
    c_name,
    inexact,
    promote_operands,
    torch_name,
)
from lazyt.handle.function_table import declare, function
from lazyt.handle.storage import raw
from lazyt.handle.tape import titled
from lazyt.handle.tensor import Tensor
from lazyt.ir.dtypes import bool_, int8, int16, int64, uint8
from lazyt.ir.graph import Node
from lazyt.ir.scalar import Expr, call, const

__all__ = [
    "allclose", "clamp", "clamp_max", "clamp_min", "clip", "equal", "isclose",
    "masked_fill", "nan_to_num", "where",
]  # fmt: skip

_MAXIMUM, _MINIMUM = scalar_build("maximum"), scalar_build("minimum")


_WHERE_FORMS = (
    "Tensor condition",
    "Tensor condition, Tensor input, Tensor other, *, Tensor out = None",
    "Tensor condition, Number self, Tensor other",
    "Tensor condition, Tensor input, Number other",
    "Tensor condition, Number self, Number other",
)


@function(saves="k", indices=0, out_dtype="Expected out type to be {Want} but got {Got}")
def where(
    condition: Tensor, input: Any = None, other: Any = None, *, out: Tensor | None = None
) -> Any:
    """``input`` where ``condition`` holds, else ``other``; with one argument, ``nonzero``.

    Raises DTypeError for a condition that is not bool, ShapeError for shapes that do not fit.
    """
    require_tensor(condition, "where", "condition")
    if (input is None) != (other is None):
        given = [v for v in (condition, input, other) if v is not None]
        raise wrong_arguments("where", given, _WHERE_FORMS)
    if input is None and other is None:
        return nonzero(condition, as_tuple=True)
    test = condition.node
    if test.dtype.name == "uint8":
        test = ops.cast(test, bool_)
    if test.dtype is not bool_:
        raise DTypeError(
            "where expected condition to be a boolean tensor, but got a tensor with dtype "
            + torch_name(test.dtype)
        )
    values = [_operand(v) for v in (input, other)]
    dtype = operand_dtype(values)
    tensors = [condition, *(v for v in values if isinstance(v, Tensor))]
    broadcast_all([tuple(t.shape) for t in tensors])
    for value in values:
        if not isinstance(value, Tensor):
            refuse_assigned(value, dtype)
    a, b = (v.node if isinstance(v, Tensor) else constant_of(v, dtype) for v in values)
    return give(choose(test, a, b, dtype), "Where", (condition, *values), out)


def _operand(value: Any) -> Operand:
    if isinstance(value, Tensor):
        return value
    number = as_number(value)
    if number is None:
        raise DTypeError("where(): 'input' and 'other' must be tensors or numbers")
    return number


@function()
def where_method(self: Tensor, condition: Tensor, other: Any) -> Any:
    """This tensor where ``condition`` holds, else ``other``."""
    return where(condition, self, other)


_CLAMP_FORMS = (
    "Tensor input, Tensor min = None, Tensor max = None, *, Tensor out = None",
    "Tensor input, Number min = None, Number max = None, *, Tensor out = None",
)


@function(method=True, inplace="function", saves="a", out_dtype=FOUND_DTYPE)
def clamp(input: Tensor, min: Any = None, max: Any = None, *, out: Tensor | None = None) -> Tensor:
    """``input`` kept within [min, max], numbers or tensors. Raises LazytError without either."""
    require_tensor(input, "clamp")
    if isinstance(min, np.generic) or isinstance(max, np.generic):
        min, max = (b.item() if isinstance(b, np.generic) else b for b in (min, max))
    if min is None and max is None:
        raise LazytError("torch.clamp: At least one of 'min' or 'max' must not be None")
    bounds = [b for b in (min, max) if b is not None]
    if not all(isinstance(b, Tensor) or as_number(b) is not None for b in bounds):
        raise wrong_arguments("clamp", (input, *bounds), _CLAMP_FORMS)
    dtype = operand_dtype([input, *bounds])
    broadcast_all([tuple(t.shape) for t in (input, *bounds) if isinstance(t, Tensor)])
    for bound in bounds:
        if not isinstance(bound, Tensor):
            refuse_number(bound, dtype)
    if dtype is bool_ and not any(isinstance(b, Tensor) for b in bounds):
        which = "" if len(bounds) == 2 else "_max" if min is None else "_min"
        raise NoKernelError(f"\"clamp{which}_scalar_cpu\" not implemented for 'Bool'")
    nodes = (input.node, *(operand_node(b, dtype) for b in bounds))
    if any(isinstance(b, float) and math.isnan(b) for b in bounds):
        return give(mapped(_no_number, (input.node,), dtype, dtype), "Clamp", (input,), out)
    build: Build = _MAXIMUM if max is None else _MINIMUM if min is None else _clamp_both
    if not any(isinstance(b, Tensor) for b in bounds):
        build = _CLAMPS[build]
    elif dtype.kind == "f":
        build = _BETWEEN[build]
        if len(bounds) == 2:
            nodes = (*nodes, raw(nodes[1]))
    found = give(mapped(build, nodes, dtype, dtype), "Clamp", (input, *bounds), out)
    tensors = any(isinstance(b, Tensor) for b in bounds)
    return found if tensors else titled(found, "ClampBackward1")


def _no_number(x: Expr) -> Expr:
    # A bound that is NaN makes every element NaN; the condition hides what x is.
    nan = const(math.nan, x.dtype)
    return call("where", call("eq", x, x), nan, nan)


def _clamp_both(x: Expr, low: Expr, high: Expr) -> Expr:
    return call("minimum", call("maximum", x, low), high)


# Between tensors the gradient goes to one of the three: to the input where it is within the bounds,
# both included; else to the bound that is the result, unless the bounds are equal. In most cases
# where something is NaN it goes nowhere.


def _not_below(x: Expr, low: Expr) -> Expr:
    return _within(call("ge", x, low), call("lt", x, low), x, low)


def _not_above(x: Expr, high: Expr) -> Expr:
    return _within(call("le", x, high), call("gt", x, high), x, high)


def _within(inside: Expr, outside: Expr, x: Expr, bound: Expr) -> Expr:
    nan = const(math.nan, x.dtype)
    return call("where", inside, x, call("where", outside, bound, nan))


def _between(x: Expr, low: Expr, high: Expr, fixed: Expr) -> Expr:
    """``fixed``: the lower bound without a gradient."""
    nan = const(math.nan, x.dtype)
    unknown = call("logical_or", call("ne", x, x), call("ne", low, low))
    above = call("logical_or", call("gt", x, high), call("lt", high, low))
    below = call("logical_and", call("lt", low, high), call("lt", x, low))
    inside = call("logical_and", call("ge", x, low), call("le", x, high))
    at_high = call("where", unknown, call("add", high, nan), high)
    nowhere = call("where", call("eq", low, high), fixed, nan)
    nowhere = call("where", call("ne", x, x), nan, nowhere)
    found = call("where", above, at_high, nowhere)
    return call("where", inside, x, call("where", below, low, found))


_BETWEEN: dict[Build, Build] = {
    _MAXIMUM: _not_below,
    _MINIMUM: _not_above,
    _clamp_both: _between,
}


# With number bounds the gradient at a bound is 1, and that of NaN zero.
def _clamp_low(x: Expr, low: Expr) -> Expr:
    return call("where", call("lt", x, low), low, _known(x))


def _clamp_high(x: Expr, high: Expr) -> Expr:
    return call("where", call("gt", x, high), high, _known(x))


def _clamp_range(x: Expr, low: Expr, high: Expr) -> Expr:
    raised = call("where", call("lt", x, low), low, x)
    return call("where", call("gt", raised, high), high, _known(raised))


def _known(x: Expr) -> Expr:
    if x.dtype.kind != "f":
        return x
    return call("where", call("eq", x, x), x, const(math.nan, x.dtype))


_CLAMPS: dict[Build, Build] = {
    _MAXIMUM: _clamp_low,
    _MINIMUM: _clamp_high,
    _clamp_both: _clamp_range,
}


@function(method=True, inplace="function", saves="a")
def clamp_min(input: Tensor, min: Any, *, out: Tensor | None = None) -> Tensor:
    """``input``, but at least ``min``."""
    found = clamp(input, min, None, out=out)
    return titled(found, f"ClampMinBackward{int(isinstance(min, Tensor))}")


@function(method=True, inplace="function", saves="a")
def clamp_max(input: Tensor, max: Any, *, out: Tensor | None = None) -> Tensor:
    """``input``, but at most ``max``."""
    found = clamp(input, None, max, out=out)
    return titled(found, f"ClampMaxBackward{int(isinstance(max, Tensor))}")


# The names that PyTorch's message has for these; others are ``c_name``'s.
_STORED = {int64: "int64_t", int8: "int8_t", uint8: "uint8_t", int16: "int16_t"}


@function(method=True, inplace="method", fills=1, saves="k", indices=1, layout=row_major)
def masked_fill(input: Tensor, mask: Tensor, value: Any) -> Tensor:
    """``input`` with ``value`` where ``mask`` holds. Raises DTypeError, ShapeError as PyTorch."""
    if mask.dtype is not bool_:
        raise DTypeError(
            f"masked_fill_ only supports boolean masks, but got mask with dtype {mask.dtype.name}"
        )
    dtype = input.dtype
    if isinstance(value, Tensor):
        if value.shape:
            raise ShapeError(
                "masked_fill_ only supports a 0-dimensional value tensor, but got tensor "
                f"with {len(value.shape)} dimension(s)."
            )
        refuse_value(value, dtype)
        filler = value.node
    else:
        if dtype.kind in "ui" and isinstance(value, float) and not math.isfinite(value):
            raise LazytError(
                f"value cannot be converted to type {_STORED.get(dtype, c_name(dtype))} without "
                "overflow"
            )
        refuse_number(value, dtype)
        filler = constant_of(value, dtype)
    broadcast_all([tuple(mask.shape), tuple(input.shape)])
    return give(choose(mask.node, filler, input.node, dtype), "MaskedFill", (input, mask, value))


def _replace(x: Expr, nan: Expr, high: Expr, low: Expr) -> Expr:
    infinity = const(math.inf, x.dtype)
    kept = call("where", call("eq", x, infinity), high, x)
    kept = call("where", call("eq", x, const(-math.inf, x.dtype)), low, kept)
    return call("where", call("isnan", x), nan, kept)


@function(
    method=True,
    inplace="function",
    saves="s",
    out_dtype="nan_to_num: dtype of out: {Got} should be same as input: {Want}",
)
def nan_to_num(
    input: Tensor,
    nan: float | None = None,
    posinf: float | None = None,
    neginf: float | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """``input`` with NaN as 0 and infinities as the largest numbers, or as given."""
    node = require_tensor(input, "nan_to_num").node
    for place, (name, value) in enumerate(
        (("nan", nan), ("posinf", posinf), ("neginf", neginf)), 2
    ):
        if value is not None and as_number(value) is None:
            raise DTypeError(
                f"nan_to_num(): argument '{name}' (position {place}) must be float, not "
                f"{type(value).__name__}"
            )
    dtype = node.dtype
    if dtype.kind not in "fc":
        return give(ops.cast(node, dtype), "NanToNum", (input,), out)
    top = LARGEST[dtype.part.name]
    wanted = (
        0.0 if nan is None else nan,
        top if posinf is None else posinf,
        -top if neginf is None else neginf,
    )
    part = dtype.part
    values = tuple(constant_of(v, part.compute) for v in wanted)

    def replaced(node: Node) -> Node:
        return mapped(_replace, (node, *values), part, part)

    if dtype.kind == "c":  # each part for itself
        found = (replaced(ops.apply(side, node)) for side in ("real", "imag"))
        return give(ops.apply("complex", *found), "NanToNum", (input,), out)
    return give(replaced(node), "NanToNum", (input,), out)


def _close(a: Expr, b: Expr, rtol: Expr, atol: Expr, equal_nan: Expr) -> Expr:
    def size(name: str, *given: Expr) -> Expr:
        value = call(name, *given)
        return call("magnitude" if value.dtype.kind == "c" else "abs", value)

    pairs = a.dtype.kind == "c"
    if pairs:
        atol, equal_nan = call("real", atol), call("real", equal_nan)
    allowed = call("add", atol, size("mul", rtol, b))
    gap = size("sub", a, b)
    near = call("logical_and", call("isfinite", gap), call("le", gap, allowed))
    a_nan, b_nan = (call("ne", x, x) if pairs else call("isnan", x) for x in (a, b))
    both_nan = call("logical_and", a_nan, b_nan)
    both_nan = call("logical_and", both_nan, call("gt", equal_nan, const(0, equal_nan.dtype)))
    return call("logical_or", call("logical_or", call("eq", a, b), near), both_nan)


@function(method=True)
def isclose(
    input: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
) -> Tensor:
    """Where ``|input - other| <= atol + rtol * |other|``. Raises DTypeError for two dtypes."""
    require_tensor(input, "isclose")
    require_tensor(other, "isclose", "other", 2)
    if input.dtype is not other.dtype:
        raise DTypeError(f"{torch_name(input.dtype)} did not match {torch_name(other.dtype)}")
    for name, tolerance in (("rtol", rtol), ("atol", atol)):
        if tolerance < 0:
            raise LazytError(f"{name} must be greater than or equal to zero, but got {tolerance}")
    broadcast_all([tuple(input.shape), tuple(other.shape)])
    dtype = inexact(input.dtype)
    settings = (constant_of(v, dtype.compute) for v in (rtol, atol, float(equal_nan)))
    nodes = (input.node, other.node, *settings)
    return give(mapped(_close, nodes, dtype, None), "isclose", (input, other))


@function(method=True)
def allclose(
    input: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
) -> bool:
    """Whether ``isclose`` holds everywhere; looks at the values."""
    require_tensor(input, "allclose")
    require_tensor(other, "allclose", "other", 2)
    close = isclose(input, other, rtol, atol, equal_nan).node
    node = ops.reduce_("all", close, tuple(range(len(close.shape))))
    return bool(give(node, "all", ()).item())


@function(method=True)
def equal(input: Tensor, other: Tensor) -> bool:
    """Whether shapes and all values are equal; looks at the values."""
    require_tensor(input, "equal")
    require_tensor(other, "equal", "other", 2)
    if tuple(input.shape) != tuple(other.shape):
        return False
    dtype = promote_operands([(t.dtype, 1) for t in (input, other)], [])
    node = mapped(_EQUAL, (input.node, other.node), dtype, None)
    node = ops.reduce_("all", node, tuple(range(len(node.shape))))
    return bool(give(node, "all", ()).item())


_EQUAL = scalar_build("eq")

# Other names that PyTorch has for the same functions.
clip = declare("clip", clamp, method=True, inplace="function")
